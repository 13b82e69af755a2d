/*
 * A lower bound of a pipeline from lower bounds of its layers: the time that
 * some rank works and waits, for the layers by stage with which the bound is
 * least.
 *
 * Let T be the time from the first forward to the last backward, m the number
 * of microbatches, and x_r the time of rank r for one.  Then for each r
 * T >= m x_r + y_0 + .. + y_r-1, since earlier ranks process a microbatch
 * before r's first forward and after its last backward.  y_r is x_r, or with a
 * split backward the time of forward alone.
 */
#include "passes/bound/bound_parts.h"

#include <math.h>

static double
counted_us(const struct space *s, const double n[PIECE_MAX],
	   const double us[PIECE_MAX])
{
	uint32_t pieces = PIECE_BODY + s->nkinds, i;
	double sum = 0;

	for (i = 0; i < pieces; i++) {
		sum += n[i] * us[i];
	}
	return sum;
}

/* Mean time of ranks, which does not depend on layers by stage. */
static double
mean_us(const struct space_plan *t, const struct bound_pieces *x)
{
	double pp = (double)t->g->pp, stages = pp * (double)t->chunks;

	return (x->whole_us + x->all[PIECE_TOP] * (stages - 1)) / pp;
}

/*
 * The largest end, at most `most`, of a stage that begins with layer `lo` and
 * runs m times within `us`; `lo` if there is no time for one layer.  Time grows
 * with layers, so it bisects; `guess` is only where it begins.
 */
static int64_t
reach(const struct space *s, const struct bound_pieces *x, int64_t lo,
      int64_t most, int64_t guess, double m, double us)
{
	int64_t in = lo, out = most + 1, step = 1, at = guess;

	while (out - in > 1) {
		at = at > in && at < out ? at : in + (out - in) / 2;
		if (m * piece_sum(s, x->all, lo, at) <= us) {
			in = at;
			at += step;
		} else {
			out = at;
			at -= step;
		}
		step *= 2;
	}
	return in;
}

/*
 * Whether the bound is above us for all layers by stage.  With one stage a
 * rank, it is best to give each rank, from the first on, as many layers as it
 * has time for: m x_r outweighs what later ranks wait for them.  The bound is
 * above us if layers are left for which the last rank has no time.  With
 * several stages a rank, only the mean over ranks is compared.
 */
static bool
is_free_above(const struct space *s, const struct space_plan *t,
	      const struct bound_pieces *x, double us)
{
	double m = (double)t->nmicrobatches, around = 0;
	/* the part for which later ranks wait */
	const double *wait = t->sched->split ? x->forward : x->all;
	int64_t n = s->nlayers, pp = t->g->pp, lo = 0, size = 1, r;

	if (t->chunks > 1) {
		return m * mean_us(t, x) > us;
	}
	for (r = 0; r + 1 < pp; r++) {
		int64_t hi = reach(s, x, lo, n - (pp - 1 - r), lo + size, m,
				   us - around);

		if (hi == lo) {
			return true;
		}
		around += piece_sum(s, wait, lo, hi);
		size = hi - lo;
		lo = hi;
	}
	return m * piece_sum(s, x->all, lo, n) + around > us;
}

/*
 * Time that a rank waits: that of the first stages of all ranks before it,
 * which hold the first layers.
 */
static double
around_us(const struct space *s, const struct space_plan *t,
	  const struct bound_pieces *x, const int64_t *first, int64_t rank)
{
	const double *us = t->sched->split ? x->forward : x->all;

	return rank == 0 ? 0 : piece_sum(s, us, 0, first[rank]) +
			       us[PIECE_TOP] * (double)(rank - 1);
}

/*
 * The bound for given layers by stage, but at most `enough`.  Begins with the
 * last rank, which has the highest bound where ranks have equal work.
 */
static double
spread_us(const struct space *s, const struct space_plan *t,
	  const struct bound_pieces *x, const struct bound_spread *at,
	  double enough)
{
	double m = (double)t->nmicrobatches, most = 0;
	int64_t r;

	for (r = t->g->pp; r-- > 0;) {
		double us = m * counted_us(s, at->on_rank[r], x->all) +
			    around_us(s, t, x, at->first, r);

		if (us >= enough) {
			return enough;
		}
		most = us > most ? us : most;
	}
	return most;
}

/* Counts the pieces of each rank over all its stages. */
static void
count_ranks(const struct space *s, const struct space_plan *t,
	    const int64_t *first, double (*n)[PIECE_MAX])
{
	int64_t pp = t->g->pp, c, i;
	bool back = false;
	uint32_t k;

	for (c = 0; c < t->chunks; c++) {
		for (i = 0; i < pp; i++, first++) {
			double stage[PIECE_MAX];

			piece_count(s, first[0], first[1], stage);
			for (k = 0; k < PIECE_MAX; k++) {
				n[back ? pp - 1 - i : i][k] += stage[k];
			}
		}
		back = t->sched->vshape && !back;
	}
}

/* The layers by stage, if only one choice of them is tried; else NULL. */
static const struct bound_spread *
only_spread(struct bound *b, const struct space_plan *t)
{
	uint32_t nstages = (uint32_t)(t->g->pp * t->chunks), i;
	struct space *s = b->space;
	bool pinned = s->pinned[SPACE_PIN_STAGES] && s->base.nstages == nstages;
	bool vshape = t->sched->vshape;
	struct bound_spread *x;
	int64_t *layers;

	if (!pinned && (t->chunks == 1 || s->devs.n > 1) && !s->even &&
	    nstages > 1) {
		return NULL;
	}
	while (b->spreads.n <= nstages) {
		VEC_PUSH(&s->keep, &b->spreads, NULL);
	}
	for (x = b->spreads.at[nstages]; x; x = x->next) {
		if (x->chunks == t->chunks && x->vshape == vshape) {
			return x;
		}
	}
	x = arena_alloc(&s->keep, sizeof *x);
	*x = (struct bound_spread){ .chunks = t->chunks, .vshape = vshape,
				     .next = b->spreads.at[nstages] };
	b->spreads.at[nstages] = x;
	layers = arena_alloc(&s->tmp, nstages * sizeof *layers);
	plan_spread(s->nlayers, nstages, layers);
	layers = pinned ? s->base.layers : layers;
	x->first = arena_alloc(&s->keep, (nstages + 1) * sizeof *x->first);
	for (i = 0; i < nstages; i++) {
		x->first[i + 1] = x->first[i] + layers[i];
	}
	x->on_rank = arena_alloc(&s->keep, (size_t)t->g->pp *
				 sizeof *x->on_rank);
	count_ranks(s, t, x->first, x->on_rank);
	return x;
}

bool
bound_line_is_above(struct bound *b, const struct space_plan *t,
		    const struct bound_pieces *x, double us)
{
	const struct bound_spread *only;

	us /= (double)t->microbatch;
	if ((double)t->nmicrobatches * mean_us(t, x) > us) {
		return true;
	}
	only = only_spread(b, t);
	return only ? spread_us(b->space, t, x, only, us) >= us
		    : is_free_above(b->space, t, x, us);
}

/* of bisection: enough for the printed digits of a step */
#define STEPS 24

double
bound_line_us(struct bound *b, const struct space_plan *t,
	      const struct bound_pieces *x)
{
	const struct bound_spread *only = only_spread(b, t);
	double m = (double)t->nmicrobatches;
	double lo = 0, hi = 2 * m * x->whole_us + 2 * m *
			    (double)t->g->pp * x->all[PIECE_TOP];
	int i;

	for (i = 0; !only && i < STEPS; i++) {
		double mid = (lo + hi) / 2;

		if (is_free_above(b->space, t, x, mid)) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return (double)t->microbatch *
	       (only ? spread_us(b->space, t, x, only, INFINITY) : lo);
}
