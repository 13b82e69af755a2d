/*
 * The driver of bench/serve/keys: attention of sequences that decode, each with
 * one query and keys of its own in a cache, by one number of threads and by
 * others in turn.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#include "bench/serve/bench-kernel.h"

#define CACHE ((int64_t)512 << 20)	/* bytes, more than any cache holds */

struct setup {
	int sequences, keys, kv, heads, dim, threads, rounds;
	const char *cpu;
};

struct kernel_run {
	struct bench_kernel kernel;
	/* the index: rows of a step, of which the cache has so many */
	int32_t *index;
	int64_t rows, steps, next;
};

static void
fail(const char *what)
{
	bench_fail("keys", what);
}

static char *
space(int64_t bytes)
{
	return bench_need("keys", bytes);
}

/* Sequences have equally many keys, each from a multiple of 128 on.  Steps that
 * follow each other have others, so that all come from memory. */
static void
open_kernel(struct kernel_run *r, struct ir_ctx *c, const struct setup *s)
{
	int64_t each = (s->keys + 127) / 128 * 128, all = each * s->sequences;
	int64_t row = 2LL * s->kv * s->dim, out = 2LL * s->heads * s->dim;
	int64_t steps = CACHE / (2 * all * row) + 1;
	const char *text = arena_printf(&c->perm, "llmc-ir 1\ndim s = %d\n"
		"dim t = %lld\ndim rows = %lld\ndim k = %d\ndim h = %d\n"
		"dim d = %d\nmodel {\n"
		"  %%0 = weight name=\"q\" : bf16[s, h, d]\n"
		"  %%1 = weight name=\"keys\" : bf16[rows, k, d]\n"
		"  %%2 = weight name=\"values\" : bf16[rows, k, d]\n"
		"  %%3 = input name=\"index\" : idx<rows>[t]\n"
		"  %%4 = weight name=\"first\" : f32[s]\n"
		"  %%5 = weight name=\"last\" : f32[s]\n"
		"  %%6 = gather %%1, %%3 of=rows : bf16[t, k, d]\n"
		"  %%7 = gather %%2, %%3 of=rows : bf16[t, k, d]\n"
		"  %%8 = attention_between %%0, %%6, %%7, %%4, %%5 : "
		"bf16[s, h, d]\n  return %%8\n}\n", s->sequences,
		(long long)all, (long long)(steps * all), s->kv, s->heads,
		s->dim);
	char *data[9] = { space(s->sequences * out), space(steps * all * row),
			  space(steps * all * row), space(4 * all),
			  space(4LL * s->sequences), space(4LL * s->sequences),
			  NULL, NULL, space(s->sequences * out) };
	int64_t i;

	bench_kernel_open(&r->kernel, "keys", c, s->cpu, text, s->threads);
	bench_kernel_bind(&r->kernel, data);
	r->index = (int32_t *)(void *)data[3];
	r->rows = all;
	r->steps = steps;
	for (i = 0; i < s->sequences; i++) {
		((float *)(void *)data[4])[i] = (float)(i * each);
		((float *)(void *)data[5])[i] = (float)(i * each + s->keys - 1);
	}
}

static void
one_round(struct kernel_run *r, struct rt_workers *w, double *wall, double *cpu)
{
	struct bench_round t;
	int64_t i;

	for (i = 0; i < r->rows; i++) {
		r->index[i] = (int32_t)(r->next * r->rows + i);
	}
	r->next = (r->next + 1) % r->steps;
	bench_begin(&t);
	bench_kernel_run(&r->kernel, w);
	bench_end(&t);
	*wall = t.wall;
	*cpu = t.cpu;
}

static void
report(const struct setup *s, int threads, struct bench_times *t)
{
	double bytes = 4.0 * s->sequences * s->keys * s->kv * s->dim;
	size_t n = (size_t)s->rounds;

	bench_sort(t->wall, s->rounds);
	bench_sort(t->cpu, s->rounds);
	printf("%2d threads: wall best %8.3f median %8.3f ms, cpu best %8.3f "
	       "median %8.3f ms, %6.2f GB/s\n", threads, 1e3 * t->wall[0],
	       1e3 * t->wall[n / 2], 1e3 * t->cpu[0], 1e3 * t->cpu[n / 2],
	       bytes / t->wall[0] / 1e9);
}

static void
read_options(struct setup *s, int argc, char **argv)
{
	int *const sizes[] = { &s->sequences, &s->keys, &s->kv, &s->heads,
			       &s->dim };
	int i;

	while ((i = getopt(argc, argv, "t:c:n:")) != -1) {
		switch (i) {
		case 't': s->threads = atoi(optarg); break;
		case 'c': s->cpu = optarg; break;
		case 'n': s->rounds = atoi(optarg); break;
		default: exit(2);
		}
	}
	for (i = 0; i < 5 && optind + i < argc; i++) {
		*sizes[i] = atoi(argv[optind + i]);
	}
	for (i = 0; i < 5; i++) {
		if (*sizes[i] < 1) {
			fail("sizes are at least 1");
		}
	}
	if (s->threads < 1 || s->threads > BENCH_MOST || s->rounds < 1 ||
	    s->rounds > BENCH_MOST || s->heads % s->kv) {
		fail("at most 64 threads and 64 rounds, and heads a multiple "
		     "of those of keys");
	}
}

int
main(int argc, char **argv)
{
	struct setup s = { 1, 32768, 8, 32, 128, 2, 9, "native" };
	static struct rt_workers *w[BENCH_MOST + 1];
	static struct bench_times t[BENCH_MOST + 1];
	static struct kernel_run run;
	struct rt_error err;
	struct ir_ctx c;
	int i, r;

	read_options(&s, argc, argv);
	ir_ctx_init(&c, NULL);
	open_kernel(&run, &c, &s);
	for (i = 1; i <= s.threads; i *= 2) {
		struct rt_workers_options o = { .n = i };

		if (rt_workers_start(&w[i], &o, &err) != RT_OK) {
			fail(err.message);
		}
	}
	for (r = 0; r < s.rounds; r++) {
		for (i = 1; i <= s.threads; i *= 2) {
			one_round(&run, w[i], &t[i].wall[r], &t[i].cpu[r]);
		}
	}
	printf("%d sequences of %d keys, %d heads and %d of keys, %d numbers, "
	       "on %s\n", s.sequences, s.keys, s.heads, s.kv, s.dim,
	       run.kernel.made.cpu);
	for (i = 1; i <= s.threads; i *= 2) {
		report(&s, i, &t[i]);
	}
	return 0;
}
