/*
 * A kernel that drivers of bench/serve compile for a CPU, and run by workers.
 */
#ifndef BENCH_SERVE_KERNEL_H
#define BENCH_SERVE_KERNEL_H

#include "bench/rounds.h"
#include "codegen/cg.h"
#include "runtime/device/pool.h"

#define BENCH_MOST 64			/* rounds, threads */

struct bench_kernel {
	struct cg_singles made;
	struct rt_call call;
	const struct rt_step *step;
	char *at[8], *own[BENCH_MOST];
};

/* Times of rounds. */
struct bench_times {
	double wall[BENCH_MOST], cpu[BENCH_MOST];
};

/* As bench_space, for the bench of that name. */
static inline char *
bench_need(const char *bench, int64_t bytes)
{
	char *p = bench_space(bytes);

	if (!p) {
		bench_fail(bench, "out of memory");
	}
	return p;
}

/* The only kernel of the text. */
static inline void
bench_kernel_open(struct bench_kernel *k, const char *bench, struct ir_ctx *c,
		  const char *cpu, const char *text, int threads)
{
	const struct cg_single *one;
	int i;

	if (!cg_singles_open(c, cpu, &text, 1, &k->made)) {
		diag_flush(&c->diags, stderr);
		bench_fail(bench, "there is no kernel");
	}
	one = &k->made.at[0];
	k->call = (struct rt_call){ .at = k->at, .pieces = one->pieces };
	k->call.shared = bench_need(bench, one->shared_bytes);
	for (i = 0; i < threads; i++) {
		k->own[i] = bench_need(bench, one->own_bytes);
	}
}

/* data: where values lie, by their number. */
static inline void
bench_kernel_bind(struct bench_kernel *k, char *const *data)
{
	const struct cg_single *one = &k->made.at[0];
	int64_t i;

	for (i = 0; i < one->kernel->nat; i++) {
		k->at[i] = data[one->values[i]];
	}
}

static inline void
bench_kernel_part(void *user, int64_t worker, int64_t from, int64_t to)
{
	struct bench_kernel *k = user;

	k->step->run(&k->call, k->own[worker], from, to);
}

static inline void
bench_kernel_run(struct bench_kernel *k, struct rt_workers *w)
{
	const struct rt_kernel *x = k->made.at[0].kernel;
	int64_t i;

	for (i = 0; i < x->nsteps; i++) {
		k->step = &x->steps[i];
		rt_workers_run(w, bench_kernel_part, k, k->step->items);
	}
}

#endif
