/*
 * A floor under a pipeline whose layers take at least so long: the busiest
 * rank's work and what it waits for, of the spread of layers for which that
 * is least.
 *
 * With m microbatches, T from the first forward to the last backward, and x_r
 * for what rank r takes for each: T >= m x_r + a (x_0 + .. + x_r-1), since
 * before its first forward and behind its last backward the ranks in front of
 * it have theirs to run, of which a split backward leaves what is a forward.
 */
#include "passes/search_parts.h"

#include <math.h>

static int64_t
line_end(const struct search *s)
{
	return s->nlayers > 1 ? s->nlayers : 1;
}

/* As search_stages.c has it: both ends bring a layer, and what all have. */
static void
add_up(const struct search *s, const double us[PIECE_MAX], double *sum)
{
	int64_t n = line_end(s), i;
	uint32_t k = 0;

	sum[1] = us[PIECE_FIRST];
	for (i = 1; i + 1 < n; i++) {
		while (i >= s->kinds[k].first + s->kinds[k].trips) {
			k++;
		}
		sum[i + 1] = sum[i] + us[PIECE_BODY + k];
	}
	sum[n] = sum[n > 1 ? n - 1 : 1] + us[PIECE_LAST];
}

void
search_set_line(struct search *s, const struct search_pieces *p,
		struct search_line *x)
{
	size_t n = (size_t)line_end(s) + 1;

	x->all = arena_alloc(&s->keep, n * sizeof *x->all);
	x->forward = arena_alloc(&s->keep, n * sizeof *x->forward);
	x->top_us = p->all[PIECE_TOP];
	x->top_forward_us = p->forward[PIECE_TOP];
	add_up(s, p->all, x->all);
	add_up(s, p->forward, x->forward);
}

/* Of layers [lo, hi) as a stage. */
static double
stage_us(const double *sum, double top_us, int64_t lo, int64_t hi, int64_t n)
{
	double us = sum[hi] - sum[lo];

	return lo > 0 && hi < n ? us + top_us
		: us + top_us * (1 - (lo == 0) - (hi == n));
}

static double
work_us(const struct search_line *x, int64_t lo, int64_t hi, int64_t n)
{
	return stage_us(x->all, x->top_us, lo, hi, n);
}

/* What ranks behind it wait for, of each microbatch but their own. */
static double
wait_us(const struct search_line *x, bool split, int64_t lo, int64_t hi,
	int64_t n)
{
	return split ? stage_us(x->forward, x->top_forward_us, lo, hi, n)
		     : work_us(x, lo, hi, n);
}

/* Of a mean rank, however layers are spread. */
static double
mean_us(const struct search_try *t, const struct search_line *x, int64_t n)
{
	double pp = (double)t->g->pp, stages = pp * (double)t->chunks;

	return (x->all[n] + x->top_us * (stages - 2)) / pp;
}

/*
 * One stage a rank, layers as it pleases; of several where ranks are not
 * equally quick the mean is all that is known.  A rank that ends later leaves
 * less to all behind it: m x_r outweighs what these wait for it.  So each
 * takes as many layers as it has time for, about as many as the one before,
 * and some rank has too many if none is left out in time.
 */
static bool
is_free_above(const struct search *s, const struct search_try *t,
	      const struct search_line *x, double us)
{
	double m = (double)t->nmicrobatches, around = 0;
	int64_t n = line_end(s), pp = t->g->pp, lo = 0, size = 1, r;

	if (t->chunks > 1) {
		return m * mean_us(t, x, n) > us;
	}
	for (r = 0; r < pp; r++) {
		int64_t most = n - (pp - 1 - r);
		int64_t hi = lo + size < most ? lo + size : most;

		hi = r + 1 < pp ? hi : n;
		while (m * work_us(x, lo, hi, n) + around > us) {
			if (hi == lo + 1 || r + 1 == pp) {
				return true;
			}
			hi--;
		}
		while (hi < most &&
		       m * work_us(x, lo, hi + 1, n) + around <= us) {
			hi++;
		}
		around += wait_us(x, t->sched->split, lo, hi, n);
		size = hi - lo;
		lo = hi;
	}
	return false;
}

/* Of a rank's stages: the first and the last one have in them what all have. */
static double
rank_us(const struct search_try *t, const struct search_line *x,
	const int64_t *first, int64_t rank)
{
	int64_t pp = t->g->pp, tops = t->chunks, c;
	bool back = false;
	double us = 0;

	for (c = 0; c < t->chunks; c++, first += pp) {
		int64_t i = back ? pp - 1 - rank : rank;

		us += x->all[first[i + 1]] - x->all[first[i]];
		tops -= (c == 0 && i == 0) +
			(c + 1 == t->chunks && i + 1 == pp);
		back = t->sched->vshape && !back;
	}
	return us + x->top_us * (double)tops;
}

/* What a rank waits for: the first stage of each rank before it. */
static double
around_us(const struct search_try *t, const struct search_line *x,
	  const int64_t *first, int64_t rank)
{
	bool split = t->sched->split;
	double top_us = split ? x->top_forward_us : x->top_us;

	return (split ? x->forward : x->all)[first[rank]] +
	       top_us * (double)(rank > 0 ? rank - 1 : 0);
}

/*
 * Of layers that are spread so, or `enough` if it is no less.  Where ranks
 * have as much to do, the last one ends last.
 */
static double
spread_us(const struct search_try *t, const struct search_line *x,
	  const int64_t *first, double enough)
{
	double m = (double)t->nmicrobatches, most = 0;
	int64_t r;

	for (r = t->g->pp; r-- > 0;) {
		double us = m * rank_us(t, x, first, r) +
			    around_us(t, x, first, r);

		if (us >= enough) {
			return enough;
		}
		most = us > most ? us : most;
	}
	return most;
}

/* Where each stage begins, and the end, if there is no choice; or NULL. */
static const int64_t *
only_spread(struct search *s, const struct search_try *t)
{
	uint32_t nstages = (uint32_t)(t->g->pp * t->chunks), i;
	bool pinned = s->pinned[PIN_STAGES] && s->base.nstages == nstages;
	int64_t n = line_end(s), *layers, *first;

	if (!pinned && (t->chunks == 1 || s->seats.n > 1) && !s->even &&
	    nstages > 1) {
		return NULL;
	}
	if (!s->spreads) {
		s->spreads = arena_alloc(&s->keep, (size_t)(n + 1) *
					 sizeof *s->spreads);
	}
	if (nstages <= n && s->spreads[nstages]) {
		return s->spreads[nstages];
	}
	layers = arena_alloc(&s->tmp, nstages * sizeof *layers);
	plan_spread(s->nlayers, nstages, layers);
	layers = pinned ? s->base.layers : layers;
	first = arena_alloc(&s->keep, (nstages + 1) * sizeof *first);
	for (i = 0; i < nstages; i++) {
		first[i + 1] = n > 1 ? first[i] + layers[i] : n;
	}
	if (nstages <= n) {
		s->spreads[nstages] = first;
	}
	return first;
}

bool
search_line_is_above(struct search *s, const struct search_try *t,
		     const struct search_line *x, double us)
{
	const int64_t *first;

	us /= (double)t->microbatch;
	if ((double)t->nmicrobatches * mean_us(t, x, line_end(s)) > us) {
		return true;
	}
	first = only_spread(s, t);
	return first ? spread_us(t, x, first, us) >= us
		     : is_free_above(s, t, x, us);
}

#define STEPS 24	/* of halving: to what is printed of a step */

double
search_line_us(struct search *s, const struct search_try *t,
	       const struct search_line *x)
{
	const int64_t *first = only_spread(s, t);
	double m = (double)t->nmicrobatches;
	double lo = 0, hi = 2 * m * x->all[line_end(s)] +
			    2 * m * (double)t->g->pp * x->top_us;
	int i;

	for (i = 0; !first && i < STEPS; i++) {
		double mid = (lo + hi) / 2;

		if (is_free_above(s, t, x, mid)) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return (double)t->microbatch *
	       (first ? spread_us(t, x, first, INFINITY) : lo);
}
