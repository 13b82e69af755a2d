/* Memory bandwidth, empty regions, and the clock. */
#include "runtime/measure/measure_cpu.h"

#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

typedef float four __attribute__((vector_size(16)));

/* A non-temporal store: it does not read the line first. */
static void
put(float *to, four v)
{
#if defined(__x86_64__)
	_mm_stream_ps(to, (__m128)v);
#else
	memcpy(to, &v, sizeof v);
#endif
}

/* Makes non-temporal stores visible to other threads. */
static void
fence(void)
{
#if defined(__x86_64__)
	_mm_sfence();
#endif
}

enum { STEP = 16, SCALE = 3 };

struct cpu_stream {
	enum rt_stream kind;
	float *a, *b, *c;
	int64_t n; /* elements of each array */
	int runs;
	float sums[1024][STEP]; /* by thread, a cache line each */
};

static void
move(struct cpu_stream *s, int thread, int64_t from, int64_t to)
{
	four sum[4] = { { 0 } }, x, y;
	int64_t i;
	int j;

	for (i = from; i < to; i += STEP) {
		for (j = 0; j < 4; j++) {
			switch (s->kind) {
			case RT_READ:
				memcpy(&x, s->b + i + 4 * j, sizeof x);
				sum[j] += x;
				break;
			case RT_WRITE:
				put(s->a + i + 4 * j, (four){ 0 } + SCALE);
				break;
			case RT_COPY:
				memcpy(&x, s->b + i + 4 * j, sizeof x);
				put(s->a + i + 4 * j, x);
				break;
			default:
				memcpy(&x, s->b + i + 4 * j, sizeof x);
				memcpy(&y, s->c + i + 4 * j, sizeof y);
				put(s->a + i + 4 * j, x + SCALE * y);
				break;
			}
		}
	}
	memcpy(s->sums[thread], sum, sizeof sum);
	fence();
}

static void
work(void *user, int i, int n)
{
	struct cpu_stream *s = user;
	int64_t lines = s->n / STEP;
	int run;

	for (run = 0; run < s->runs; run++) {
		move(s, i, lines * i / n * STEP, lines * (i + 1) / n * STEP);
	}
}

struct flow {
	struct cpu_stream s;
	struct rt_pool *pool;
};

static void
fill(void *user, int i, int n)
{
	struct cpu_stream *s = user;
	int64_t lines = s->n / STEP, at;

	for (at = lines * i / n * STEP; at < lines * (i + 1) / n * STEP;
	     at++) {
		s->b[at] = 1;
		s->a[at] = 0;
		s->c[at] = 2;
	}
}

/* Checks the results of the last run at some places; sums of ones are exact. */
static bool
agrees(const struct flow *f)
{
	const struct cpu_stream *s = &f->s;
	static const float wants[RT_STREAMS] = { 0, SCALE, 1, 1 + 2 * SCALE };
	double sum = 0;
	int64_t i;
	int t, j;

	if (s->kind == RT_READ) {
		for (t = 0; t < rt_pool_threads(f->pool); t++) {
			for (j = 0; j < STEP; j++) {
				sum += (double)s->sums[t][j];
			}
		}
		return sum == (double)(s->n / STEP * STEP);
	}
	for (i = 0; i < s->n / STEP * STEP; i += 4099) {
		if (s->a[i] != wants[s->kind]) {
			return false;
		}
	}
	return true;
}

static enum rt_status
run_flow(void *user, int runs, struct rt_timing *out, struct rt_error *err)
{
	struct flow *f = user;

	(void)err;
	f->s.runs = runs;
	rt_pool_time(f->pool, work, &f->s, out);
	/*
	 * CPU time means nothing: threads that take turns on one core would
	 * each have the whole bandwidth
	 */
	out->busy_us = -1;
	return RT_OK;
}

enum rt_status
rt_cpu_stream(struct rt_pool *p, enum rt_stream kind, int64_t bytes,
	      const struct rt_pace *pace, struct rt_sample *out,
	      struct rt_error *err)
{
	size_t all = (size_t)bytes * 3 + sizeof(struct flow);
	char *pages = rt_pages(all);
	enum rt_status status;
	struct flow *f;

	if (!pages) {
		return rt_no_memory(err, NULL);
	}
	f = (struct flow *)(void *)(pages + 3 * bytes);
	f->pool = p;
	f->s.kind = kind;
	f->s.n = bytes / (int64_t)sizeof(float);
	f->s.a = (float *)(void *)pages;
	f->s.b = (float *)(void *)(pages + bytes);
	f->s.c = (float *)(void *)(pages + 2 * bytes);
	rt_pool_run(p, fill, &f->s);
	status = rt_sample_measure(pace, rt_pool_threads(p), run_flow, f, out,
				   err);
	if (status == RT_OK && !agrees(f)) {
		status = rt_fail(err, RT_FORMAT, (struct rt_where){ NULL, NULL,
			-1 }, "a %s moved something else",
			rt_stream_names[kind]);
	}
	rt_pages_free(pages, all);
	return status;
}

/* ---- launch ---- */

static void
nothing(void *user, int i, int n)
{
	(void)user;
	(void)i;
	(void)n;
}

static enum rt_status
run_launch(void *user, int runs, struct rt_timing *out, struct rt_error *err)
{
	double wall_us = rt_wall_us(), cpu_us = rt_cpu_us();
	double busy_us = rt_thread_us();

	(void)err;
	for (; runs > 0; runs--) {
		rt_pool_run(user, nothing, NULL);
	}
	out->wall_us = rt_wall_us() - wall_us;
	out->cpu_us = rt_cpu_us() - cpu_us;
	out->busy_us = rt_thread_us() - busy_us;
	return RT_OK;
}

enum rt_status
rt_cpu_launch(struct rt_pool *p, const struct rt_pace *pace,
	      struct rt_sample *out, struct rt_error *err)
{
	return rt_sample_measure(pace, rt_pool_threads(p), run_launch, p, out,
				 err);
}

/* ---- the clock ---- */

enum { CHAIN = 64, TURNS = 20000, TRIES = 20 };

/* The compiler must not fold additions into one. */
#define ADD1 x += y; __asm__ volatile("" : "+r"(x));
#define ADD8 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1

double
rt_cpu_clock_mhz(void)
{
	double best_us = 0, us;
	uint64_t x = 0, y = 3;
	int try, i;

	__asm__ volatile("" : "+r"(y));
	for (try = 0; try < TRIES; try++) {
		us = rt_wall_us();
		for (i = 0; i < TURNS; i++) {
			ADD8 ADD8 ADD8 ADD8 ADD8 ADD8 ADD8 ADD8
		}
		us = rt_wall_us() - us;
		best_us = try == 0 || us < best_us ? us : best_us;
	}
	return (double)CHAIN * TURNS / best_us;
}
