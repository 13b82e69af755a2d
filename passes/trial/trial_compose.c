/*
 * The time of a plan that is tried: of its stages as sums of pieces, of its
 * pipeline by a bound or by running the schedule, and of its update.  Whether
 * its bound is above the plans found.
 */
#include "passes/trial/trial.h"

#include <math.h>
#include <string.h>

/* The key of the programs of a choice. */
static struct piece_key
choice_key(const struct trial *x, uint32_t choice)
{
	struct piece_key key = x->key;

	key.choice = x->ways_of ? x->ways_of->at.at[choice].nth : 0;
	return key;
}

struct piece_cost *
trial_cost(struct trial *x, uint32_t choice)
{
	struct piece_key key = choice_key(x, choice);

	if (!x->ways_of) {
		return x->cost;
	}
	if (!x->made) {
		x->made = arena_alloc(&x->s->space.tmp, x->ways_of->at.n *
				      sizeof *x->made);
	}
	if (!x->made[choice]) {
		x->made[choice] = piece_cost_of(&x->s->pieces, &key, x->t);
		if (x->made[choice]) {
			piece_measure(&x->s->pieces, &key, x->t,
				      x->made[choice]);
		}
	}
	return x->made[choice];
}

/* Adds to a stage of layers [lo, hi) what its choice takes for one sequence. */
static void
add_guess(struct trial *x, uint32_t stage, int64_t lo, int64_t hi)
{
	const struct piece_choice *way =
		&x->ways_of->at.at[x->choice[stage]];
	double times = (double)x->t->microbatch;
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		struct piece_each e = piece_extra_each(&x->s->space, way, k,
						       lo, hi);
		struct price_func extra = {
			.total_us = times * e.us,
			.saves_us = times * e.saves_us,
			.params_us = e.params_us, .drives_us = e.drives_us
		};

		price_add(&x->p.stage[stage][k], &extra, 1);
	}
}

void
trial_raise_to_saves(const struct trial *x, uint32_t stage,
		     const struct piece_choice *way,
		     double least[SCHED_NKINDS])
{
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	double link[SCHED_NKINDS];
	uint32_t k;

	if (!(x->key.offload & PLAN_OFFLOAD_SAVES)) {
		return;
	}
	piece_least_link_us(&x->s->space, way, x->dev_of[stage], lo, hi,
			    &x->key, (double)x->t->microbatch, link);
	for (k = 0; k < SCHED_NKINDS; k++) {
		least[k] = larger(least[k], link[k]);
	}
}

/* Raises what functions take with any way to what saves take on the link. */
static void
raise_to_saves(struct trial *x, uint32_t stage)
{
	double least[SCHED_NKINDS], all[SCHED_NKINDS];
	uint32_t i, k;

	if (!x->known || !(x->key.offload & PLAN_OFFLOAD_SAVES)) {
		return;
	}
	for (i = 0; i < x->known->at.n; i++) {
		memcpy(least, x->least[stage], sizeof least);
		trial_raise_to_saves(x, stage, &x->known->at.at[i], least);
		for (k = 0; k < SCHED_NKINDS; k++) {
			all[k] = i ? lesser(all[k], least[k]) : least[k];
		}
	}
	memcpy(x->least[stage], all, sizeof all);
}

/*
 * Parameters on the host cross its link, and so do gradients.  Backward of any
 * way has all nodes of the program that recomputes nothing (piece_least.c), so
 * it reads and adds no less than that.
 */
void
trial_raise_to_params(struct trial *x, uint32_t stage,
		      double least[SCHED_NKINDS])
{
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	uint32_t offload = x->key.offload & ~(uint32_t)PLAN_OFFLOAD_SAVES, k;
	struct price_func f[SCHED_NKINDS];

	if (!(offload & PLAN_OFFLOAD_PARAMS)) {
		return;
	}
	piece_stage_price(&x->s->space, x->cost, x->dev_of[stage], lo, hi, f);
	for (k = SCHED_F + 1; k < SCHED_NKINDS; k++) {
		least[k] = larger(least[k], price_link_us(&f[k], offload) *
					    (1 - PIECE_NEAR));
	}
}

static bool
compose_stage(struct trial *x, uint32_t stage)
{
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	uint32_t dev = x->dev_of[stage];
	uint32_t choice = x->s->guessing ? 0 : x->choice[stage];
	struct piece_key key = choice_key(x, choice);
	struct piece_cost *c = trial_cost(x, choice);

	if (!c) {
		return false;
	}
	piece_price(&x->s->pieces, &key, x->t, c, dev);
	piece_stage_price(&x->s->space, c, dev, lo, hi, x->p.stage[stage]);
	piece_stage_least(&x->s->space, x->cost,
			  x->known ? x->known->maps : NULL, dev, lo, hi,
			  x->least[stage]);
	raise_to_saves(x, stage);
	trial_raise_to_params(x, stage, x->least[stage]);
	if (choice != x->choice[stage]) {
		add_guess(x, stage, lo, hi);
	}
	return true;
}

/*
 * Sets the prices of stages with their choices, except where x->again is set.
 * False: the programs of a choice cannot be made.
 */
static bool
compose(struct trial *x)
{
	struct search *s = x->s;
	uint32_t i;

	if (!x->p.stage) {
		x->p.stage = arena_alloc_raw(&s->space.tmp,
					x->nstages * sizeof *x->p.stage);
		x->least = arena_alloc_raw(&s->space.tmp,
					   x->nstages * sizeof *x->least);
		x->again = arena_alloc_raw(&s->space.tmp,
					   x->nstages * sizeof *x->again);
		x->p.hop_us = piece_hop_us(&s->pieces, &x->key, x->t, x->cost);
	}
	for (i = 0; i < x->nstages; i++) {
		x->again[i] = i && x->choice[i] == x->choice[i - 1] &&
			      x->dev_of[i] == x->dev_of[i - 1] &&
			      x->like[i] != i;
		if (!x->again[i] && !compose_stage(x, i)) {
			return false;
		}
	}
	return true;
}

/* Copies prices to stages that have the price of the stage before. */
static void
compose_again(struct trial *x)
{
	uint32_t i;

	for (i = 0; i < x->nstages; i++) {
		if (x->again[i]) {
			memcpy(x->p.stage[i], x->p.stage[i - 1],
			       sizeof x->p.stage[i]);
		}
	}
}

struct piece_update *
trial_update(struct trial *x)
{
	if (!x->update) {
		x->update = piece_update_of(&x->s->pieces, &x->key, x->t);
	}
	return x->update;
}

/* Sets the prices of updates, for the chosen layers by stage. */
static void
compose_update(struct trial *x)
{
	uint32_t i, pp = (uint32_t)x->t->g->pp;

	x->p.update = arena_alloc(&x->s->space.tmp, pp * sizeof *x->p.update);
	for (i = 0; i < pp; i++) {
		piece_price_update(&x->s->pieces, &x->key, x->t,
				   trial_update(x), x->dev[i]);
		x->p.update[i] = trial_update(x)->on[x->dev[i]][PIECE_TOP];
	}
	for (i = 0; i < x->nstages; i++) {
		piece_stage_update(&x->s->space, trial_update(x), x->dev_of[i],
				   x->first[i], x->first[i] + x->layers[i],
				   &x->p.update[x->rank_of[i]]);
	}
	if (x->s->bounds.ties && !x->key.solo &&
	    x->rank_of[0] == x->rank_of[x->nstages - 1]) {
		piece_join_ends(&x->s->pieces, &x->key, x->t, trial_update(x),
				x->dev[x->rank_of[0]],
				&x->p.update[x->rank_of[0]]);
	}
}

bool
trial_run(struct trial *x)
{
	const struct sched s = {
		.nranks = (uint32_t)x->t->g->pp, .nstages = x->nstages,
		.nmicrobatches = (uint32_t)x->t->nmicrobatches,
		.def = x->t->sched, .rank_of = x->rank_of
	};

	compose_again(x);
	x->s->out->run++;
	return price_pipeline(&s, &x->s->o->traits, &x->s->briefs,
			      &x->s->space.tmp, &x->p);
}

/*
 * At least what an action of the stage takes, without waiting for others; of
 * ranks that have not chosen, with any way to recompute.  priced: the stage
 * that has its price, as x->again says.  first: of its kind in the step.
 */
static double
action_us(const struct trial *x, uint32_t stage, uint32_t priced, uint32_t kind,
	  bool first)
{
	struct price_func f = x->p.stage[priced][kind];
	double us;

	if (!x->chosen[x->rank_of[stage]]) {
		return x->least[priced][kind];
	}
	if (first) {
		price_set_first(&f);
	}
	us = price_shown_us(&x->s->o->traits, &f);
	return fmax(us, price_link_us(&f, x->key.offload));
}

/* Of all microbatches. */
static double
stage_us(const struct trial *x, uint32_t stage, uint32_t priced)
{
	double more = (double)x->t->nmicrobatches - 1, us = 0;
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		us += action_us(x, stage, priced, k, true) +
		      more * action_us(x, stage, priced, k, false);
	}
	return us;
}

/* Whether a stage takes what the one before it does. */
static bool
is_as_before(const struct trial *x, uint32_t stage)
{
	return x->again[stage] && x->chosen[x->rank_of[stage]] ==
				  x->chosen[x->rank_of[stage - 1]];
}

/*
 * The bound of a rank is its work and the time that it waits, before its first
 * forward and after its last backward, while earlier ranks process the first
 * and the last microbatch.  With a split backward, weight halves may fill the
 * wait at the end, so only forward counts.  Ranks with choices not looked
 * at, or with `others` all that come before, may have other choices.
 */
static double
pipeline_us(struct trial *x, bool others)
{
	uint32_t pp = (uint32_t)x->t->g->pp, priced = 0, i;
	bool only = x->t->nmicrobatches == 1;	/* the last is the first */
	double around = 0, most = 0, us = 0;
	double *busy = arena_alloc(&x->s->space.tmp, pp * sizeof *busy);

	for (i = 0; i < x->nstages; i++) {
		priced = x->again[i] ? priced : i;
		us = is_as_before(x, i) ? us : stage_us(x, i, priced);
		busy[x->rank_of[i]] += us;
	}
	for (i = 0; i < pp; i++) {
		x->work[i] = busy[i];
		busy[i] += around -
			   (double)x->t->nmicrobatches * x->left[i];
		if (busy[i] > most) {
			most = busy[i];
			x->busiest = i;
		}
		priced = x->again[i] ? priced : i;
		us = is_as_before(x, i) && x->left[i] <= 0 ? us
			: others || x->left[i] > 0
				 ? x->least[priced][SCHED_F] +
				   x->least[priced][SCHED_B]
				 : action_us(x, i, priced, SCHED_F, only) +
				   action_us(x, i, priced, SCHED_B, only);
		around += us + x->p.hop_us * (x->t->sched->split ? 1 : 2);
	}
	return most;
}

void
trial_set_chosen(struct trial *x, bool chosen)
{
	memset(x->chosen, chosen, (size_t)x->t->g->pp);
}

bool
trial_bound(struct trial *x)
{
	if (!compose(x)) {
		return false;
	}
	x->bound_us = pipeline_us(x, false);
	return true;
}

/* Time of the slowest update, less the part that the pipeline may hide. */
static double
update_us(const struct trial *x)
{
	double hides = x->s->o->traits.overlap_data ? 1 - PRICE_SLOWED : 0;
	double us = 0;
	uint32_t i;

	for (i = 0; i < x->t->g->pp; i++) {
		us = fmax(us, x->p.update[i].total_us -
			      hides * x->p.update[i].data_us);
	}
	return us;
}

double
trial_step_us(struct trial *x)
{
	compose_update(x);
	return x->bound_us + update_us(x) * (1 - PIECE_NEAR);
}

double
trial_others_us(struct trial *x)
{
	return pipeline_us(x, true) +
	       update_us(x) * (1 - PIECE_NEAR);
}

/* ---- against the plans found ---- */

void
trial_least(struct trial *x, double us)
{
	x->least_us = fmin(x->least_us, us);
}

bool
trial_is_above(struct trial *x, bool with_update)
{
	double us = with_update ? trial_step_us(x) : x->bound_us;

	if (us < x->s->worst_us) {
		return false;
	}
	trial_note_close(x, us);
	trial_least(x, us);
	return true;
}

bool
trial_is_slow(struct trial *x, uint32_t rank, double us)
{
	double around = 0;
	uint32_t priced = 0, i;

	for (i = 0; i < rank; i++) {
		priced = x->again[i] ? priced : i;
		around += x->least[priced][SCHED_F] +
			  x->least[priced][SCHED_B] +
			  x->p.hop_us * (x->t->sched->split ? 1 : 2);
	}
	us = around + us * (double)x->t->nmicrobatches +
	     update_us(x) * (1 - PIECE_NEAR);
	if (us < x->s->worst_us) {
		return false;
	}
	trial_least(x, us);
	return true;
}
