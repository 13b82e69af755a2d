/*
 * The rates by which placements are priced: those of the target, along the axis
 * at hand.
 *
 * A placement depends neither on how many data ranks and microbatches a plan
 * has, nor on how many sequences are in a microbatch: so the search places
 * once what it prices for all of these.  The data axis is priced for the most
 * ranks that the target has beside the other axes, and a step for microbatches
 * of one sequence, as many as one data rank would run: what is exchanged once
 * a step is then never moved into its microbatches.
 */
#include "passes/place/place.h"

#include <math.h>

/*
 * The rates of an H100: operations, and bytes of memory and of the link, per
 * microsecond.  They are used without a target, and along time, which has no
 * link.
 */
#define FLOPS_US 989e6
#define MEMORY_US 3.35e6
#define LINK_US 450e3
/*
 * Keeping a byte from forward to backward costs a bit more than gathering it.
 * So a save is kept split and gathered again (Korthikanti et al. 2022, section
 * 4.2.2), and of two placements at one price the smaller wins.
 */
#define GATHERS_PER_HELD 1.01
/*
 * Of a bound, traffic costs this part: too little to matter, but with costs of
 * 0 everywhere the solver would keep many placements that are alike.
 */
#define TIE 1e-9
#define LARGE 1e12		/* bytes of a message that shows the rate */

static const struct target_group *
group_of(const struct place *p)
{
	const struct target *t = p->p->cluster;

	return t ? target_span(t, 0, t->groups.n - 1) : NULL;
}

/* Devices of the target beside those that other axes than dp and pp take. */
static double
data_ranks(const struct place *p)
{
	const struct plan *x = p->plan;
	int64_t others = x->tp * x->cp * x->ep, n;

	if (!p->p->cluster) {
		return (double)x->dp;
	}
	n = target_devices(p->p->cluster) / others;
	return (double)(n > 2 ? n : 2);
}

void
place_set_steps(struct place *p)
{
	const struct plan *x = p->plan;

	p->steps = (double)x->nmicrobatches;
	p->steps *= p->p->cluster ? (double)(x->dp * x->microbatch) : 1;
}

/* The ranks of a group along the axis, as they lie in nodes. */
static struct cost_group
group_along(const struct place *p, const struct target_group *t)
{
	static const enum plan_axis of[] = {
		[PLACE_CONTEXT] = PLAN_CP, [PLACE_TENSOR] = PLAN_TP,
		[PLACE_DATA] = PLAN_DP, [PLACE_EXPERT] = PLAN_EP
	};
	int64_t apart = 1;
	int i = PLAN_NAXES;

	while (i-- > 0 && p->plan->mesh[i] != of[p->kind]) {
		apart *= p->plan->mesh[i] == PLAN_PP ? 1
			: plan_degree(p->plan, p->plan->mesh[i]);
	}
	return cost_group_apart(t, (int64_t)p->length, apart);
}

/*
 * Collectives of tensor and context ranks lie between kernels of a layer, and
 * each starts anew; those of data and expert ranks that are small share a call.
 */
static bool
starts_alone(enum place_kind kind)
{
	return kind == PLACE_TENSOR || kind == PLACE_CONTEXT;
}

/*
 * Where tensor ranks may split sequences, a sum costs as much as its two
 * halves, a reduce-scatter and an all-gather, between which maps run and values
 * are kept in pieces.  With `sequence = off` it costs what it takes.
 */
static void
set_links(struct place *p, const struct target_group *t)
{
	struct cost_group g = group_along(p, t);
	struct place_rates *r = &p->price.rates;
	int i;

	for (i = 0; i < COST_NOPS; i++) {
		enum cost_op op = (enum cost_op)i;

		r->byte_us[i] = cost_collective(t, op, &g, LARGE, NULL).us /
				LARGE;
		r->start_us[i] = starts_alone(p->kind)
			? cost_collective(t, op, &g, 1, NULL).us : 0;
	}
	if (p->kind == PLACE_TENSOR && p->plan->sequence && !p->counted) {
		r->byte_us[COST_ALL_REDUCE] = r->byte_us[COST_REDUCE_SCATTER] +
					      r->byte_us[COST_ALL_GATHER];
		r->start_us[COST_ALL_REDUCE] = 2 * r->start_us[COST_ALL_GATHER];
	}
}

static void
set_default(struct place *p)
{
	double part = fmax(0, (p->length - 1) / p->length) / LINK_US;
	struct place_rates *r = &p->price.rates;
	int i;

	for (i = 0; i < COST_NOPS; i++) {
		r->byte_us[i] = i == COST_ALL_REDUCE ? 2 * part : part;
		r->start_us[i] = 0;
	}
	for (i = 0; i < TARGET_NRATES; i++) {
		r->flop_us[i] = 1 / FLOPS_US;
	}
	r->memory_us = 1 / MEMORY_US;
}

static void
set_device(struct place *p, const struct target_device *d)
{
	/* a bound holds for attention, too */
	double part = p->counted ? fmax(d->matrix_eff, d->attention_eff)
				 : d->matrix_eff;
	struct place_rates *r = &p->price.rates;
	int i;

	for (i = 0; i < TARGET_NRATES; i++) {
		r->flop_us[i] = 1 / (part *
				     cost_flops_us(d, (enum target_rate)i));
	}
	r->memory_us = 1 / (d->memory_bytes_us * d->memory_eff);
}

/*
 * For a lower bound nothing but bytes on links counts, and of these the part
 * that kernels cannot hide, which is more of those that they wait for.
 */
static void
show_least(struct place *p)
{
	struct place_rates *r = &p->price.rates;
	int i;

	for (i = 0; i < COST_NOPS; i++) {
		r->byte_us[i] *= i == COST_ALL_TO_ALL ? p->waited : p->shown;
		r->start_us[i] = 0;
	}
	r->held_us = 0;
	r->memory_us *= TIE;
}

void
place_set_rates(struct place *p)
{
	const struct target_group *t = group_of(p);
	struct place_rates *r = &p->price.rates;

	p->length = p->kind == PLACE_TIME ? p->steps : (double)p->ranks;
	if (p->kind == PLACE_DATA) {
		p->length = data_ranks(p);
	} else if (p->kind == PLACE_TIME && p->p->cluster && p->plan->dp > 1) {
		p->length /= data_ranks(p);
	}
	if (p->kind == PLACE_TIME || !t) {
		set_default(p);
	} else {
		set_links(p, t);
		set_device(p, &t->device);
	}
	if (p->counted) {
		show_least(p);
		return;
	}
	r->held_us = GATHERS_PER_HELD * (p->kind == PLACE_TIME ? 1 / LINK_US
		: r->byte_us[COST_ALL_GATHER] * p->length / (p->length - 1));
}
