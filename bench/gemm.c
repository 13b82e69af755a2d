/*
 * The driver of bench/cpu-gemm: contractions as the compiler makes them
 * beside those of libraries, in turn, on one thread or two.
 *
 *	gemm [-n ROUNDS] [-d DTYPE] [-c CPU] [-t THREADS] [M N K LAYOUT]...
 *
 * LAYOUT is of A and B: "kk" if k is the last dim of both, as in forward; "kp":
 * B is frozen and lies in panels, as in what serves; "kn": B is k by n, as for
 * gradients of inputs; "mn": A is k by m as well, as for gradients of weights.
 * To libraries "kp" is "kk".  Libraries are loaded by name if they are there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/rounds.h"
#include "codegen/cg.h"
#include "runtime/device/cpuid.h"

#define WORKERS 2	/* at most */
#define MAX_ROUNDS 200

struct shape {
	int m, n, k;
	const char *layout;
};

/* ---- workers: a step at a time, items by a counter ---- */

#define PIECES 8	/* of a worker's share, as in runtime/device/pool.c */

struct pool {
	const struct rt_step *step;
	const struct rt_call *call;
	char *own[WORKERS];
	atomic_long next, begun, ended;
	bool alone;		/* no second one */
	atomic_bool quit;
	pthread_t thread;
};

static void
work(struct pool *p, int w)
{
	long n = p->step->items, piece = n / (WORKERS * PIECES), i, to;

	piece = piece < 1 ? 1 : piece;
	while ((i = atomic_fetch_add(&p->next, piece)) < n) {
		to = i + piece < n ? i + piece : n;
		p->step->run(p->call, p->own[w], i, to);
	}
}

static void *
worker(void *at)
{
	struct pool *p = at;
	long seen = 0;

	for (;;) {
		while (atomic_load(&p->begun) == seen) {
			if (atomic_load(&p->quit)) {
				return NULL;
			}
		}
		seen++;
		work(p, 1);
		atomic_fetch_add(&p->ended, 1);
	}
}

static void
run_step(struct pool *p, const struct rt_step *s, const struct rt_call *call)
{
	long before = atomic_load(&p->ended);

	p->step = s;
	p->call = call;
	atomic_store(&p->next, 0);
	atomic_fetch_add(&p->begun, 1);
	work(p, 0);
	while (!p->alone && atomic_load(&p->ended) == before) {
	}
}

/* ---- ours ---- */

struct ours {
	struct cg_singles made;
	const struct rt_kernel *run;
	struct rt_call call;
	char *at[3];
	struct pool pool;
};

static const char *
text_of(struct arena *a, const struct shape *s, const char *dtype)
{
	bool am = s->layout[0] == 'm', bn = s->layout[1] == 'n';

	return arena_printf(a, "llmc-ir 1\ndim m = %d\ndim n = %d\n"
		"dim k = %d\nmodel {\n"
		"  %%0 = weight name=\"a\" : %s[%s]\n"
		"  %%1 = weight name=\"b\"%s : %s[%s]\n"
		"  %%2 = dot %%0, %%1 over=k : %s[m, n]\n  return %%2\n}\n",
		s->m, s->n, s->k, dtype, am ? "k, m" : "m, k",
		s->layout[1] == 'p' ? " frozen" : "", dtype,
		bn ? "k, n" : "n, k", dtype);
}

static void
fail(const char *what)
{
	bench_fail("gemm", what);
}

static char *
scratch(int64_t bytes)
{
	char *p = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);

	if (!p) {
		fail("out of memory");
	}
	memset(p, 0, (size_t)bytes);
	return p;
}

static void
open_ours(struct ours *o, struct ir_ctx *c, const struct shape *s,
	  const char *dtype, const char *cpu, float *const *data)
{
	const char *text = text_of(&c->perm, s, dtype);
	const struct cg_single *one;
	struct rt_cpu this_cpu;
	int64_t i;

	rt_cpu_read(&this_cpu);
	if (rt_cpu_has(&this_cpu, "amx-tile") && !rt_cpu_allow("amx-tile")) {
		fail("the system does not let programs use AMX");
	}
	if (!cg_singles_open(c, cpu, &text, 1, &o->made)) {
		diag_flush(&c->diags, stderr);
		fail("there is no kernel");
	}
	one = &o->made.at[0];
	o->run = one->kernel;
	for (i = 0; i < o->run->nat; i++) {
		o->at[i] = (char *)data[one->values[i]];
	}
	o->call = (struct rt_call){ .at = o->at, .pieces = one->pieces };
	o->call.shared = scratch(one->shared_bytes);
	for (i = 0; i < WORKERS; i++) {
		o->pool.own[i] = scratch(one->own_bytes);
	}
}

static void
run_ours(struct ours *o)
{
	int64_t i;

	for (i = 0; i < o->run->nsteps; i++) {
		run_step(&o->pool, &o->run->steps[i], &o->call);
	}
}

static void
close_ours(struct ours *o)
{
	int i;

	free(o->call.shared);
	for (i = 0; i < WORKERS; i++) {
		free(o->pool.own[i]);
	}
	cg_singles_close(&o->made);
}

/* ---- theirs ---- */

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k,
		      float alpha, const float *a, int lda, const float *b,
		      int ldb, float beta, float *c, int ldc);
/* Of the helper that bench/cpu-gemm builds where oneDNN's header is. */
typedef void *open_fn(int m, int n, int k, const char *layout, int bf16,
		      int blocked, void *a, void *b, void *c);
typedef void run_fn(void *);

struct peers {
	sgemm_fn *sgemm;
	open_fn *dnnl_open;
	run_fn *dnnl_run;
};

static void
load_peers(struct peers *p)
{
	const char *blas = getenv("LLMC_PEER_BLAS");
	const char *dnnl = getenv("LLMC_PEER_DNNL");
	void *lib = dlopen(blas ? blas : "libopenblas.so.0", RTLD_NOW);

	p->sgemm = lib ? (sgemm_fn *)dlsym(lib, "cblas_sgemm") : NULL;
	lib = dnnl ? dlopen(dnnl, RTLD_NOW) : NULL;
	p->dnnl_open = lib ? (open_fn *)dlsym(lib, "peer_open") : NULL;
	p->dnnl_run = lib ? (run_fn *)dlsym(lib, "peer_run") : NULL;
}

/* ---- timing ---- */

struct times {
	double s[MAX_ROUNDS], cpu[MAX_ROUNDS], busy[MAX_ROUNDS];
	int n;
};

static void
report(const char *who, const struct shape *s, struct times *t)
{
	double flop = 2.0 * s->m * s->n * s->k, busy = 0;
	int i;

	for (i = 0; i < t->n; i++) {
		busy += t->busy[i] / t->n;
	}
	bench_sort(t->s, t->n);
	bench_sort(t->cpu, t->n);
	printf("  %-14s best %7.1f  median %7.1f GFLOP/s  busy %.2f  "
	       "by cpu time best %6.1f  median %6.1f\n", who,
	       flop / t->s[0] / 1e9, flop / t->s[t->n / 2] / 1e9, busy,
	       flop / t->cpu[0] / 1e9, flop / t->cpu[t->n / 2] / 1e9);
}

static void
add_time(struct times *t, double wall, double cpu)
{
	if (t->n < MAX_ROUNDS) {
		t->s[t->n] = wall;
		t->cpu[t->n] = cpu;
		t->busy[t->n++] = cpu / wall;
	}
}

/* Who runs: 0 is ours, 1 OpenBLAS, 2 and 3 oneDNN with B plain and blocked. */
struct bench {
	struct ours ours;
	struct peers peers;
	const struct shape *s;
	float *data[3], *check;
	void *dnnl[2];
};

static void
run_one(struct bench *b, int who)
{
	const struct shape *s = b->s;
	bool am = s->layout[0] == 'm', bn = s->layout[1] == 'n';

	if (who == 0) {
		run_ours(&b->ours);
	} else if (who == 1) {
		b->peers.sgemm(101, am ? 112 : 111, bn ? 111 : 112, s->m,
			       s->n, s->k, 1, b->data[0], am ? s->m : s->k,
			       b->data[1], bn ? s->n : s->k, 0, b->check,
			       s->n);
	} else {
		b->peers.dnnl_run(b->dnnl[who - 2]);
	}
}

static bool
there(const struct bench *b, int who, bool bf16)
{
	return who == 0 || (who == 1 ? b->peers.sgemm && !bf16
				     : b->dnnl[who - 2] != NULL);
}

/* The second thread waits in a loop, so it must not while others run. */
static void
timed(struct bench *b, int who, struct times *t, int again)
{
	struct bench_round round;
	int i;

	usleep(20000);		/* until the last one's threads sleep */
	if (who == 0 && !b->ours.pool.alone) {
		atomic_store(&b->ours.pool.quit, false);
		atomic_store(&b->ours.pool.begun, 0);
		pthread_create(&b->ours.pool.thread, NULL, worker,
			       &b->ours.pool);
	}
	run_one(b, who);
	bench_begin(&round);
	for (i = 0; i < again; i++) {
		run_one(b, who);
	}
	bench_end(&round);
	add_time(t, round.wall / again, round.cpu / again);
	if (who == 0 && !b->ours.pool.alone) {
		atomic_store(&b->ours.pool.quit, true);
		pthread_join(b->ours.pool.thread, NULL);
	}
}

/* ---- one shape ---- */

static void
fill(float *at, int64_t n, bool bf16)
{
	uint16_t *half = (uint16_t *)at;
	uint32_t x = 12345, bits;
	int64_t i;

	for (i = 0; i < n; i++) {
		float f;

		x = x * 1664525 + 1013904223;
		f = (float)(int32_t)(x >> 8) / (1 << 24) - 0.5f;
		memcpy(&bits, &f, 4);
		if (bf16) {
			half[i] = (uint16_t)(bits >> 16);
		} else {
			at[i] = f;
		}
	}
}

static void
check(const struct bench *b)
{
	int64_t n = (int64_t)b->s->m * b->s->n, i;
	double worst = 0;

	for (i = 0; i < n; i++) {
		double d = (double)b->data[2][i] - (double)b->check[i];

		worst = d > worst ? d : -d > worst ? -d : worst;
	}
	if (worst > 1e-2) {
		printf("  DIFFERS by %g\n", worst);
	}
}

static void
bench(const struct shape *s, const char *dtype, const char *cpu, int rounds,
      int threads)
{
	static const char *const who[] = { "llmc", "OpenBLAS",
					   "oneDNN plain", "oneDNN blocked" };
	static struct times times[4];
	struct bench b = { .s = s };
	bool bf16 = strcmp(dtype, "bf16") == 0;
	double flop = 2.0 * s->m * s->n * s->k;
	int again = flop > 4e9 ? 1 : (int)(4e9 / flop) + 1, i, r;
	struct ir_ctx c;

	ir_ctx_init(&c, NULL);
	load_peers(&b.peers);
	b.data[0] = (float *)scratch(4 * (int64_t)s->m * s->k);
	b.data[1] = (float *)scratch(4 * (int64_t)s->n * s->k);
	b.data[2] = (float *)scratch(4 * (int64_t)s->m * s->n);
	b.check = (float *)scratch(4 * (int64_t)s->m * s->n);
	fill(b.data[0], (int64_t)s->m * s->k, bf16);
	fill(b.data[1], (int64_t)s->n * s->k, bf16);
	open_ours(&b.ours, &c, s, dtype, cpu, b.data);
	b.ours.pool.alone = threads == 1;
	for (i = 0; i < 2 && b.peers.dnnl_open; i++) {
		b.dnnl[i] = b.peers.dnnl_open(s->m, s->n, s->k, s->layout,
					      bf16, i, b.data[0], b.data[1],
					      b.check);
	}
	memset(times, 0, sizeof times);
	for (r = 0; r < rounds; r++) {
		for (i = 0; i < 4; i++) {
			if (there(&b, i, bf16)) {
				timed(&b, i, &times[i], again);
			}
		}
	}
	printf("%dx%dx%d %s %s, %lld items, %lld + %lld bytes\n", s->m, s->n,
	       s->k, s->layout, dtype,
	       (long long)b.ours.run->steps[b.ours.run->nsteps - 1].items,
	       (long long)b.ours.made.at[0].shared_bytes,
	       (long long)b.ours.made.at[0].own_bytes);
	for (i = 0; i < 4; i++) {
		if (times[i].n > 0) {
			report(who[i], s, &times[i]);
		}
	}
	if (there(&b, 1, bf16)) {
		run_one(&b, 1);
		check(&b);
	}
	close_ours(&b.ours);
	for (i = 0; i < 3; i++) {
		free(b.data[i]);
	}
	free(b.check);
	ir_ctx_release(&c);
}

int
main(int argc, char **argv)
{
	static const struct shape all[] = {
		{ 2048, 2048, 2048, "kk" }, { 256, 2304, 768, "kk" },
		{ 256, 3072, 768, "kk" }, { 256, 768, 3072, "kk" },
		{ 256, 50304, 768, "kk" }, { 256, 768, 3072, "kn" },
		{ 3072, 768, 256, "mn" },
	};
	const char *dtype = "f32", *cpu = "native";
	int rounds = 7, threads = 2, opt;
	size_t i;

	while ((opt = getopt(argc, argv, "n:d:c:t:")) != -1) {
		if (opt == 'n') {
			rounds = atoi(optarg);
		} else if (opt == 'd') {
			dtype = optarg;
		} else if (opt == 'c') {
			cpu = optarg;
		} else if (opt == 't') {
			threads = atoi(optarg);
		} else {
			return 2;
		}
	}
	if (optind < argc) {
		for (; optind + 3 < argc; optind += 4) {
			struct shape s = { atoi(argv[optind]),
					   atoi(argv[optind + 1]),
					   atoi(argv[optind + 2]),
					   argv[optind + 3] };

			bench(&s, dtype, cpu, rounds, threads);
		}
		return 0;
	}
	for (i = 0; i < sizeof all / sizeof all[0]; i++) {
		bench(&all[i], dtype, cpu, rounds, threads);
	}
	return 0;
}
