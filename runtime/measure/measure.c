/*
 * Repetitions of a measurement, and which of them count.
 *
 * On a shared machine others only ever add time.  So the lower quartile counts,
 * of those repetitions whose threads had their cores to themselves: whose CPU
 * time is close to wall time.
 */
#include "runtime/measure/measure.h"

#include <stdlib.h>
#include <string.h>

/* CPU time as a part of wall time: with less, a thread waited for a core. */
#define FULL_SHARE 0.95
/* Fewer repetitions have no useful quartile. */
#define LEAST_KEPT 3

const char *const rt_stream_names[RT_STREAMS] = {
	"read", "write", "copy", "triad"
};

int
rt_stream_arrays(enum rt_stream s)
{
	return s == RT_TRIAD ? 3 : s == RT_COPY ? 2 : 1;
}

struct rep {
	double us, share;
	double busy_us; /* below 0: unknown */
};

static int
by_time(const void *a, const void *b)
{
	double x = ((const struct rep *)a)->us;
	double y = ((const struct rep *)b)->us;

	return x < y ? -1 : x > y;
}

/* Moves undisturbed repetitions to the front; returns how many there are. */
static int
move_undisturbed(struct rep *reps, int n)
{
	int i, kept = 0;

	for (i = 0; i < n; i++) {
		struct rep r = reps[i];

		if (r.share >= FULL_SHARE) {
			reps[i] = reps[kept];
			reps[kept++] = r;
		}
	}
	return kept;
}

static void
sum_up(struct rep *reps, int n, struct rt_sample *out)
{
	int i, kept = move_undisturbed(reps, n);

	out->reps = n;
	out->disturbed = kept < LEAST_KEPT && kept < n;
	out->kept = kept = out->disturbed ? n : kept;
	for (i = 0; i < n && out->disturbed && reps[i].busy_us > 0; i++) {
		reps[i].us = reps[i].busy_us;
		out->by_cpu = true;
	}
	qsort(reps, (size_t)kept, sizeof *reps, by_time);
	out->best_us = reps[0].us;
	out->low_us = reps[out->disturbed ? 0 : (kept - 1) / 4].us;
	out->median_us = reps[(kept - 1) / 2].us;
	out->high_us = reps[(3 * (kept - 1) + 2) / 4].us;
	out->share = 0;
	for (i = 0; i < kept; i++) {
		out->share += reps[i].share / kept;
	}
}

/* What is measured. */
struct measured {
	enum rt_status (*run)(void *user, int runs, struct rt_timing *out,
			      struct rt_error *err);
	void *user;
	int threads;
};

static enum rt_status
measure_once(const struct measured *t, int runs, struct rep *out,
	     struct rt_error *err)
{
	struct rt_timing s = { 0, -1, -1 };
	enum rt_status status = t->run(t->user, runs, &s, err);

	if (status != RT_OK) {
		return status;
	}
	out->us = s.wall_us / runs;
	out->share = s.cpu_us < 0 || s.wall_us <= 0 ? 1
		: s.cpu_us / (s.wall_us * t->threads);
	out->busy_us = s.busy_us / runs;
	return RT_OK;
}

/*
 * Warms pages and caches up, and chooses how many runs fill a repetition, by
 * the fastest of a few.
 */
static enum rt_status
warm_up(const struct measured *t, const struct rt_pace *pace, int *runs,
	struct rt_error *err)
{
	double least_us = 0, spent_us = 0;
	enum rt_status status;
	struct rep r;
	int i, at = 1;

	*runs = 1;
	status = measure_once(t, 1, &r, err);
	for (i = 0; i < 12 && status == RT_OK &&
	     spent_us <= pace->budget_us / 4; i++) {
		status = measure_once(t, at, &r, err);
		if (status != RT_OK) {
			break;
		}
		spent_us += r.us * at;
		least_us = i == 0 || r.us < least_us ? r.us : least_us;
		at = least_us * at < pace->batch_us && at < 1 << 16
			? at * 4 : at;
	}
	while (*runs * least_us < pace->batch_us && *runs < 1 << 16) {
		*runs *= 2;
	}
	return status;
}

/* n repetitions are done, `full` of them undisturbed. */
static bool
needs_more(const struct rt_pace *p, int n, int full, double spent_us)
{
	if (full < LEAST_KEPT) {
		return n < p->least ||
		       spent_us < p->budget_us * p->patience;
	}
	return n < p->least || (n < p->most && spent_us < p->budget_us);
}

enum rt_status
rt_sample_measure(const struct rt_pace *pace, int threads,
		  enum rt_status (*run)(void *user, int runs,
					struct rt_timing *out,
					struct rt_error *err), void *user,
		  struct rt_sample *out, struct rt_error *err)
{
	struct measured t = { run, user, threads };
	struct rep reps[RT_SAMPLE_REPS];
	enum rt_status status;
	double spent_us = 0;
	int n = 0, full = 0;

	memset(out, 0, sizeof *out);
	out->runs = 1;
	status = warm_up(&t, pace, &out->runs, err);
	while (status == RT_OK && n < RT_SAMPLE_REPS &&
	       needs_more(pace, n, full, spent_us)) {
		status = measure_once(&t, out->runs, &reps[n], err);
		if (status == RT_OK) {
			spent_us += reps[n].us * out->runs;
			full += reps[n++].share >= FULL_SHARE;
		}
	}
	if (status == RT_OK) {
		sum_up(reps, n, out);
	}
	return status;
}
