/*
 * The driver of bench/serve/rows: kernels of contractions of few rows, and a
 * loop that only reads, over weights that no cache holds.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/serve/bench-kernel.h"
#include "bench/serve/read-loop.h"
#include "runtime/device/cpuid.h"

#define KINDS 6

static const int rows_of[KINDS] = { 0, 1, 2, 4, 8, 16 };

struct setup {
	int n, k, threads, rounds, mib;	/* mib: of all weights */
	const char *dtype, *cpu;
	const char *stored;	/* of weights: dtype, or int8, f8e4m3 or int4 */
	bool in_rows;		/* none lies in panels */
	int64_t elem_bytes, weight_bytes, weights;
	char *all;
};

static void
fail(const char *what)
{
	bench_fail("rows", what);
}

static char *
space(int64_t bytes)
{
	return bench_need("rows", bytes);
}

/* ---- kernels ---- */

struct kernel_run {
	struct bench_kernel kernel;
	char *data[4];	/* of values by number */
};

static void
open_kernel(struct kernel_run *r, struct ir_ctx *c, const struct setup *s,
	    int rows)
{
	bool narrow = s->stored != s->dtype;
	const char *widened = !narrow ? "" : arena_printf(&c->perm,
		"  %%2 = cast %%1 : %s[n, k]\n", s->dtype);
	const char *text = arena_printf(&c->perm, "llmc-ir 1\ndim m = %d\n"
		"dim n = %d\ndim k = %d\nmodel {\n"
		"  %%0 = weight name=\"a\" : %s[m, k]\n"
		"  %%1 = weight name=\"b\"%s : %s[n, k]\n%s"
		"  %%%d = dot %%0, %%%d over=k : %s[m, n]\n"
		"  return %%%d\n}\n", rows, s->n, s->k, s->dtype,
		narrow ? " frozen rounded=k" : s->in_rows ? "" : " frozen",
		s->stored, widened,
		2 + narrow, 1 + narrow, s->dtype, 2 + narrow);

	bench_kernel_open(&r->kernel, "rows", c, s->cpu, text, s->threads);
	r->data[0] = space(rows * s->k * s->elem_bytes);
	r->data[2 + narrow] = space(rows * s->n * s->elem_bytes);
}

static void
run_kernel(struct kernel_run *r, struct rt_workers *w, char *weight)
{
	r->data[1] = weight;
	bench_kernel_bind(&r->kernel, r->data);
	bench_kernel_run(&r->kernel, w);
}

/* ---- timing ---- */

static void
one_round(const struct setup *s, struct rt_workers *w, struct kernel_run *r,
	  double *wall, double *cpu)
{
	struct bench_reading loop = { s->all, 0 };
	struct bench_round t;
	int64_t i;

	bench_begin(&t);
	if (!r) {
		bench_read(&loop, w, s->weights * s->weight_bytes);
	}
	for (i = 0; r && i < s->weights; i++) {
		run_kernel(r, w, s->all + i * s->weight_bytes);
	}
	bench_end(&t);
	*wall = t.wall;
	*cpu = t.cpu;
}

static void
report(const struct setup *s, int kind, struct bench_times *t, double *base)
{
	double bytes = (double)(s->weights * s->weight_bytes), busy = 0, best;
	double median;
	int i;

	for (i = 0; i < s->rounds; i++) {
		busy += t->cpu[i] / t->wall[i] / s->threads / s->rounds;
	}
	bench_sort(t->wall, s->rounds);
	bench_sort(t->cpu, s->rounds);
	best = bytes / t->wall[0] / 1e9;
	median = bytes / t->wall[s->rounds / 2] / 1e9;
	*base = kind ? *base : best;
	printf("%7s %4d  best %6.2f  median %6.2f GB/s  of reading %.2f  "
	       "busy %.2f  a core, by cpu time %.2f\n", kind ? "rows" : "read",
	       rows_of[kind], best, median, best / *base, busy,
	       bytes / t->cpu[0] / 1e9);
}

int
main(int argc, char **argv)
{
	struct setup s = { 8192, 2048, 2, 7, 512, "bf16", "native",
			   "", false, 0, 0, 0, NULL };
	static struct kernel_run run[KINDS];
	static struct bench_times t[KINDS];
	struct rt_workers *w;
	struct rt_error err;
	struct rt_cpu cpu;
	struct ir_ctx c;
	double base = 0;
	int i, r;

	while ((i = getopt(argc, argv, "t:c:d:n:m:r")) != -1) {
		switch (i) {
		case 't': s.threads = atoi(optarg); break;
		case 'c': s.cpu = optarg; break;
		case 'd': s.dtype = optarg; break;
		case 'm': s.mib = atoi(optarg); break;
		case 'r': s.in_rows = true; break;
		case 'n': s.rounds = atoi(optarg); break;
		default: return 2;
		}
	}
	if (argc - optind >= 2) {
		s.n = atoi(argv[optind]);
		s.k = atoi(argv[optind + 1]);
	}
	if (s.n < 1 || s.k < 1 || s.threads < 1 || s.threads > BENCH_MOST ||
	    s.rounds < 1 || s.rounds > BENCH_MOST || s.mib < 1) {
		fail("N, K, at most 64 threads, at most 64 rounds, at least 1 MiB");
	}
	rt_cpu_read(&cpu);
	if (rt_cpu_has(&cpu, "amx-tile")) {
		rt_cpu_allow("amx-tile");
	}
	s.stored = s.dtype;
	if (strcmp(s.dtype, "int8") == 0 || strcmp(s.dtype, "f8e4m3") == 0 ||
	    strcmp(s.dtype, "int4") == 0) {
		s.dtype = "bf16";
	}
	s.elem_bytes = strcmp(s.dtype, "f32") ? 2 : 4;
	s.weight_bytes = (int64_t)s.n * s.k *
			 (s.stored == s.dtype ? s.elem_bytes : 1);
	if (strcmp(s.stored, "int4") == 0) {	/* with scales */
		s.weight_bytes = s.weight_bytes / 64 * 33;
	}
	s.weights = ((int64_t)s.mib << 20) / s.weight_bytes + 1;
	s.all = space(s.weights * s.weight_bytes);
	ir_ctx_init(&c, NULL);
	if (rt_workers_start(&w, &(struct rt_workers_options){
			     .n = s.threads }, &err) != RT_OK) {
		fail(err.message);
	}
	for (i = 1; i < KINDS; i++) {
		open_kernel(&run[i], &c, &s, rows_of[i]);
	}
	for (r = 0; r < s.rounds; r++) {
		for (i = 0; i < KINDS; i++) {
			one_round(&s, w, i ? &run[i] : NULL, &t[i].wall[r],
				  &t[i].cpu[r]);
		}
	}
	printf("%d x %d %s on %s, %d threads\n", s.n, s.k, s.stored,
	       run[1].kernel.made.cpu, s.threads);
	for (i = 0; i < KINDS; i++) {
		report(&s, i, &t[i], &base);
	}
	return 0;
}
