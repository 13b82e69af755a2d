/*
 * Bounds that hold for all plans of the same degrees, and the order in which
 * degrees are looked at.
 */
#include "passes/bound/bound_parts.h"

#include <math.h>
#include <stdlib.h>

#define TENSOR 0.1		/* guessed costs of doubling tp, cp, ep */
#define CONTEXT 0.05
#define EXPERT 0.02

static double
best_rate(const struct space *s)
{
	return space_best_rate(space_quickest(s));
}

static double
part_of(const struct pass_sums *sums, enum pass_group group)
{
	return sums->total ? (double)sums->group[group] / (double)sums->total
			   : 0;
}

/*
 * Sets the work of a step, for a lower bound.  So it counts contractions only,
 * and half of attention, since a causal mask leaves out the rest.
 */
static bool
find_sums(struct bound *b)
{
	struct pass_sums sums;
	double tokens, flops;

	if (!pass_sum(b->space->m, &sums)) {
		return false;
	}
	tokens = sums.tokens ? (double)sums.tokens : 1;
	flops = sums.contraction_flops + sums.attention_flops / 2;
	b->flops_us = flops * tokens / best_rate(b->space);
	b->static_bytes[0] = (double)sums.weight_bytes;
	b->static_bytes[1] = (double)sums.gradient_bytes;
	b->static_bytes[2] = (double)sums.optimizer_bytes;
	b->params = (double)sums.total;
	b->expert_part = part_of(&sums, GROUP_EXPERTS);
	b->table_part = part_of(&sums, GROUP_EMBEDDING);
	b->twice_part = part_of(&sums, GROUP_ATTENTION) +
			part_of(&sums, GROUP_MLP) +
			part_of(&sums, GROUP_HEAD);
	return true;
}

/* As how many of the quickest devices g's ranks count. */
static double
worth(struct space *s, const struct space_degrees *g)
{
	double best = best_rate(s), all = 0;
	uint32_t *dev, i;

	if (s->devs.n == 1) {
		return (double)g->used;
	}
	dev = space_devs_of_ranks(s, g, &s->tmp);
	for (i = 0; i < (uint32_t)g->pp; i++) {
		all += space_best_rate(s->devs.at[dev[i]]) / best;
	}
	arena_release(&s->tmp);
	return all * (double)g->used / (double)g->pp;
}

/* ---- a guessed step ---- */

/*
 * Whether the states of a mean rank fit.  Parameters on hosts would make room
 * for almost all, but few of these are quick, so guesses are without, unless
 * that is pinned.
 */
static bool
has_room(const struct bound *b, const struct space_degrees *g, int zero)
{
	const struct space *s = b->space;
	uint32_t offload = space_may_offload(s);

	if (!s->pinned[SPACE_PIN_OFFLOAD]) {
		offload &= ~(uint32_t)PLAN_OFFLOAD_PARAMS;
	}
	return bound_least_bytes(b, g, zero, offload) <= g->capacity;
}

/*
 * Arithmetic that takes us and an exchange once a step, with the bubble of a
 * pipeline with one layer a stage, and a fixed cost for each doubling of tp, cp
 * and ep.
 */
static double
guess_us(const struct space *s, const struct space_degrees *g,
	 const struct bound_degrees *x, double us)
{
	int64_t v = g->pp < s->nlayers ? s->nlayers / g->pp : 1;

	us *= 1 + (double)(g->pp - 1) /
		  (double)(v * space_microbatches(s, g, 1));
	us *= 1 + TENSOR * log2((double)g->tp) +
	      CONTEXT * log2((double)g->cp) + EXPERT * log2((double)g->ep);
	return us + bound_all_us(x);
}

static int64_t
first_microbatch(const struct space *s)
{
	return s->pinned[SPACE_PIN_MICROBATCH] ? s->base.microbatch : 1;
}

/*
 * Lower bound of the time of exchange in microbatches, with the mildest ZeRO
 * that fits: 0 with ZeRO 0 or 1.
 */
static double
strict_us(const struct bound *b, const struct space_degrees *g)
{
	const struct bound_degrees *x = &b->of[g->nth];
	const struct space *s = b->space;
	bool pinned = s->pinned[SPACE_PIN_ZERO];
	struct piece_key key = { .ep = g->ep, .cp = g->cp,
				 .zero = pinned ? s->base.zero : g->dp > 1 };
	struct space_plan t = { .g = g, .microbatch = first_microbatch(s) };

	while (!pinned && key.zero < 3 && !has_room(b, g, key.zero)) {
		key.zero++;
	}
	t.nmicrobatches = space_microbatches(s, g, t.microbatch);
	return bound_data_us(b, &key, &t, x->guess_us) - bound_all_us(x);
}

static void
bound_one(struct bound *b, const struct space_degrees *g)
{
	struct bound_degrees *x = &b->of[g->nth];
	struct space *s = b->space;
	int64_t ranks = g->dp * g->ep;
	int64_t all = ranks * space_microbatches(s, g, 1);

	x->us = b->flops_us / worth(s, g) * ((double)all / (double)s->batch);
	bound_set_exchange(b, g);
	x->guess_us = guess_us(s, g, x, x->us);
	x->guess_us += strict_us(b, g);
	x->us += bound_any_data_us(b, g);
}

bool
bound_open(struct bound *b, struct space *space, struct piece_store *pieces,
	   bool hurried)
{
	uint32_t i;

	*b = (struct bound){ .space = space, .pieces = pieces,
			     .hurried = hurried };
	if (!find_sums(b)) {
		return false;
	}
	bound_find_rows(b);
	b->of = arena_alloc(&space->keep, space->degrees.n * sizeof *b->of);
	for (i = 0; i < space->degrees.n; i++) {
		bound_one(b, &space->degrees.at[i]);
	}
	return true;
}

double
bound_degrees_us(const struct bound *b, const struct space_degrees *g)
{
	return b->of[g->nth].us;
}

/* ---- the order ---- */

struct guessed {
	bool has_room;
	double us;
	const struct space_degrees *g;
};

static int
by_degrees(const struct space_degrees *x, const struct space_degrees *y)
{
	int64_t p = x->tp * x->cp * x->pp, q = y->tp * y->cp * y->pp;

	if (p != q) {	/* less communication and waiting */
		return p < q ? -1 : 1;
	}
	if (x->tp != y->tp) {
		return x->tp < y->tp ? -1 : 1;
	}
	if (x->cp != y->cp) {
		return x->cp < y->cp ? -1 : 1;
	}
	if (x->pp != y->pp) {
		return x->pp < y->pp ? -1 : 1;
	}
	return x->ep < y->ep ? -1 : x->ep > y->ep ? 1
		: x->dp < y->dp ? -1 : x->dp > y->dp;
}

static int
by_guess(const void *a, const void *b)
{
	const struct guessed *x = a, *y = b;

	if (x->has_room != y->has_room) {
		return x->has_room ? -1 : 1;
	}
	return x->us < y->us ? -1 : x->us > y->us ? 1 : by_degrees(x->g, y->g);
}

/* Raises the guess to that of the pipeline, for degrees that may fit. */
static void
guess_pipeline(struct bound *b, const struct space_degrees *g)
{
	const struct space *s = b->space;
	struct piece_key key = { .sequence = s->base.sequence };
	struct bound_degrees *x = &b->of[g->nth];
	struct space_plan t = { .g = g, .sched = sched_find("1f1b"),
				.microbatch = first_microbatch(s) };

	if (!has_room(b, g, space_strictest_zero(s))) {
		return;
	}
	t.nmicrobatches = space_microbatches(s, g, t.microbatch);
	t.chunks = g->pp > 1 && g->pp < s->nlayers &&
		   t.nmicrobatches % g->pp == 0 ? s->nlayers / g->pp : 1;
	x->guess_us = fmax(x->guess_us, bound_guess_us(b, &key, &t) +
					strict_us(b, g));
}

uint32_t *
bound_order(struct bound *b)
{
	struct space *s = b->space;
	uint32_t n = s->degrees.n, i;
	uint32_t *order = arena_alloc(&s->keep, n * sizeof *order);
	struct guessed *at = arena_alloc(&s->keep, n * sizeof *at);

	bound_find_work(b);
	for (i = 0; i < n; i++) {
		guess_pipeline(b, &s->degrees.at[i]);
		at[i].us = b->of[i].guess_us;
		at[i].has_room = has_room(b, &s->degrees.at[i],
					  space_strictest_zero(s));
		at[i].g = &s->degrees.at[i];
	}
	if (n) {
		qsort(at, n, sizeof *at, by_guess);
	}
	for (i = 0; i < n; i++) {
		order[i] = at[i].g->nth;
	}
	arena_release(&s->tmp);
	return order;
}
