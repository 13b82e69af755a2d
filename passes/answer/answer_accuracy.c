/*
 * How sure a predicted step is, from published runs of other software:
 * runs.def has for each of them what it took over what is predicted of it,
 * with the traits of its software.  Runs of one kind as the plan's count most.
 *
 * The runs of one source are alike, so a new source lies further out than a
 * new row of a known one would: the quantiles of 2 and 98% of the runs of
 * all other sources hold for about 90% of those of a source that is left out
 * (tests/unit/passes/t-accuracy.c).
 */
#include "passes/answer/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAIL 0.02
/* Of a run's weight, for each trait in which it is of another kind. */
#define OTHER 0.5
/* Pairs of runs of one source that lie within the least difference. */
#define PAIRS 0.9

const struct answer_published answer_published[] = {
#define RUN(source, generation, split, length, scores, took) \
	{ source, { generation, ANSWER_BY_##split, ANSWER_##length, \
		    ANSWER_##scores }, took },
#include "passes/answer/runs.def"
#undef RUN
};
const uint32_t answer_npublished =
	sizeof answer_published / sizeof *answer_published;

/* ---- kinds ---- */

#define SHORT_SEQUENCE 2048
#define MIDDLE_SEQUENCE 8192

/* "sm_90a" and "sm_100": all but the last digit. */
int
answer_generation(const char *arch)
{
	return strncmp(arch, "sm_", 3) == 0 ? atoi(arch + 3) / 10 : 0;
}

struct answer_kind
answer_kind(int generation, int64_t pp, int64_t tensor, int64_t sequence,
	    bool unfused)
{
	struct answer_kind k = { .generation = generation };

	k.split = pp > 1 ? ANSWER_BY_PIPELINE
			 : tensor > 1 ? ANSWER_BY_TENSOR : ANSWER_BY_DATA;
	k.length = sequence <= SHORT_SEQUENCE ? ANSWER_SHORT :
		   sequence <= MIDDLE_SEQUENCE ? ANSWER_MIDDLE : ANSWER_LONG;
	k.scores = unfused ? ANSWER_UNFUSED : ANSWER_FLASH;
	return k;
}

static uint32_t
differences(const struct answer_kind *a, const struct answer_kind *b)
{
	return (a->generation != b->generation) + (a->split != b->split) +
	       (a->length != b->length) + (a->scores != b->scores);
}

/* ---- quantiles ---- */

struct weighted {
	double value, weight;
};

static int
by_value(const void *a, const void *b)
{
	double x = ((const struct weighted *)a)->value;
	double y = ((const struct weighted *)b)->value;

	return (x > y) - (x < y);
}

static double
quantile(const struct weighted *sorted, uint32_t n, double part)
{
	double all = 0, sum = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		all += sorted[i].weight;
	}
	for (i = 0; i + 1 < n; i++) {
		sum += sorted[i].weight;
		if (sum >= part * all) {
			break;
		}
	}
	return sorted[i].value;
}

static uint32_t
runs_of(const char *source)
{
	uint32_t i, n = 0;

	for (i = 0; i < answer_npublished; i++) {
		n += strcmp(answer_published[i].source, source) == 0;
	}
	return n;
}

/* Whether it is the first run of its source that is of that kind. */
static bool
first_alike(uint32_t at, const struct answer_kind *k)
{
	uint32_t i;

	for (i = 0; i < at; i++) {
		if (strcmp(answer_published[i].source,
			   answer_published[at].source) == 0 &&
		    !differences(&answer_published[i].kind, k)) {
			return false;
		}
	}
	return true;
}

/*
 * A source counts by the root of its runs: as one observation if they were all
 * the same, by their number if they had nothing in common.
 */
void
answer_accuracy(const struct answer_kind *k, const char *without,
		struct arena *a, struct answer_accuracy *out)
{
	struct weighted *w = arena_alloc(a, answer_npublished * sizeof *w);
	uint32_t i, n = 0;

	*out = (struct answer_accuracy){ .kind = *k };
	for (i = 0; i < answer_npublished; i++) {
		const struct answer_published *r = &answer_published[i];
		uint32_t other = differences(k, &r->kind);

		if (without && strcmp(r->source, without) == 0) {
			continue;
		}
		w[n].value = r->took;
		w[n++].weight = pow(OTHER, other) / sqrt(runs_of(r->source));
		out->alike += other == 0;
		out->sources += other == 0 && first_alike(i, k);
	}
	out->runs = n;
	qsort(w, n, sizeof *w, by_value);
	out->low = quantile(w, n, TAIL);
	out->high = quantile(w, n, 1 - TAIL);
}

/*
 * What software and machine do alike to two plans does not matter to their
 * difference, so it is told by pairs of runs of one source on one generation of
 * device.
 */
double
answer_least_difference(struct arena *a)
{
	uint32_t n = answer_npublished, i, j, npairs = 0;
	struct weighted *w = arena_alloc(a, n * (n / 2 + 1) * sizeof *w);

	for (i = 0; i < n; i++) {
		const struct answer_published *x = &answer_published[i];
		uint32_t own = runs_of(x->source);

		for (j = 0; j < i; j++) {
			const struct answer_published *y = &answer_published[j];

			if (strcmp(x->source, y->source) == 0 &&
			    x->kind.generation == y->kind.generation) {
				w[npairs].value = fabs(log(x->took / y->took));
				w[npairs++].weight = 1.0 / own;
			}
		}
	}
	qsort(w, npairs, sizeof *w, by_value);
	return exp(quantile(w, npairs, PAIRS)) - 1;
}
