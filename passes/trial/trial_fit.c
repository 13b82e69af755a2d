/*
 * Whether a plan fits: chooses how the stages of each rank of its pipeline
 * recompute, so that the rank fits.  Used by trial_try.c.
 *
 * A rank is full if no ways fit, which is proved: the bytes of a rank are no
 * more than its arena, and those of programs for one sequence, where they count
 * as a bound, no more than those of longer ones.
 */
#include "passes/trial/trial_fit.h"

#include <math.h>
#include <string.h>

/* ---- a rank ---- */

/* Capacity of a rank less its tensors that live all step. */
static double
moving_capacity(const struct trial *x, uint32_t rank)
{
	return space_capacity(&x->s->space, x->dev[rank]) - x->fixed[rank];
}

/* Turns to a rank, and to the memory that it has. */
static void
set_rank(struct trial_rank *f, uint32_t rank)
{
	trial_turn_to(f, rank);
	f->free_bytes = moving_capacity(f->x, rank);
}

/* What the programs of these choices were found to lack on the rank. */
static double
lacks(struct trial_rank *f)
{
	const struct trial *x = f->x;
	struct plan p;
	uint32_t i;

	if (!x->s->unfit.n) {
		return 0;
	}
	trial_keys(x, &p);
	p.nstages = x->nstages;
	p.layers = x->layers;
	for (i = 0; i < f->n; i++) {
		f->words[i] = x->ways_of->at.at[x->choice[f->of[i]]].words;
	}
	return search_lacks(x->s, &p, f->rank, f->of, f->n, f->words);
}

/*
 * Whether these choices fit, as far as is known.  Sets their bytes: with those
 * that their programs were found to have beyond that.
 */
static bool
fits(struct trial_rank *f, bool made, double *bytes)
{
	double lack = lacks(f);

	*bytes = trial_chosen_bytes(f, made);
	if (lack > 0 && isfinite(lack)) {
		*bytes = fmax(*bytes, f->free_bytes + lack);
	}
	return *bytes <= f->free_bytes && lack <= 0 &&
	       trial_host_bytes(f) <= f->x->share[f->rank];
}

/*
 * Chooses the quickest ways that fit, by f->made.  By programs of the plan's
 * length the choice may keep more, and its arena may.  Then of one or two
 * stages the next one is looked at; of more, less room is left, by that much.
 * That is no proof for other ways: none of all takes less than the bound of the
 * first look, in all the memory that there is, and by how much the choice is
 * above it counts in left_us.
 */
static bool
choose(struct trial_rank *f, double *bytes)
{
	bool made = !f->x->s->guessing, ok = false, less = false;
	double all = f->free_bytes, room, most, least_us = INFINITY;

	f->none = false;
	if (f->seen) {
		memset(f->seen, 0, f->x->ways_of->at.n * sizeof *f->seen);
	}
	if (f->hosted) {
		all = trial_host_room(f);
		trial_set_room(f);
	}
	for (room = most = all; !ok && trial_choose(f, room);) {
		double us = trial_chosen_us(f), lack, is;

		least_us = isinf(least_us) ? us - f->left_us : least_us;
		ok = fits(f, made, bytes);
		if (ok || f->seen) {
			continue;
		}
		is = trial_chosen_bytes(f, made);
		is = f->hosted ? trial_host_bytes(f) : is;
		if (f->hosted && is <= all) {
			trial_leave_less(f);
			less = true;
			continue;
		}
		lack = f->hosted ? 0 : lacks(f);
		if (lack > 0) {	/* then at most so much less than it has */
			room -= most - fmin(most, is) + lack;
			most = fmin(most, is) - lack;
		}
		room -= fmax(is - all, 0) + 1;
		room = fmin(room, f->taken - 1);	/* not these again */
	}
	f->none &= !less;
	if (ok) {
		double us = trial_chosen_us(f);

		f->left_us = !f->seen && us - least_us > trial_near_us(f)
			? us - least_us : 0;
	}
	return ok;
}

/*
 * Whether ways that the choice passed over may make the plan better than those
 * found: its bound, in which the rank takes left_us less than the choice, is
 * below them.
 */
static bool
may_be_better(struct trial_rank *f)
{
	struct trial *x = f->x;

	if (f->left_us <= trial_near_us(f) || x->s->guessing) {
		return false;
	}
	x->chosen[f->rank] = true;
	x->left[f->rank] = f->left_us;
	return trial_bound(x) && !trial_is_above(x, true);
}

/*
 * Chooses roughly, of more than two stages.  True: as no ways that fit take
 * less than the bound of that choice, by programs for one sequence, the plan is
 * above the plans found.  If the slowest stage counts first, the bound is only
 * of choices as even as can be in all the memory that there is, and arenas may
 * leave none of these.
 */
static bool
is_slow_roughly(struct trial_rank *f, double *bytes)
{
	bool slow;
	uint32_t i;

	if (f->seen || f->full || f->x->evenly || f->x->s->guessing ||
	    trial_is_asked(f->x)) {
		return false;
	}
	f->rough = true;
	slow = choose(f, bytes) &&
	       trial_is_slow_from(f, trial_chosen_us(f) - f->left_us);
	f->rough = false;
	f->left_us = f->grouped_us = 0;
	for (i = 0; i < f->n; i++) {
		f->x->choice[f->of[i]] = f->x->quickest[f->of[i]];
	}
	return slow;
}

/*
 * Chooses by programs for one sequence.  Where that passed over ways, chooses
 * by programs of the plan's lengths, of all ways, if these take less.  No
 * others take less than either bound.
 */
static bool
choose_closely(struct trial_rank *f, double *bytes)
{
	bool ok = choose(f, bytes);
	double us = trial_chosen_us(f), least_us = us - f->left_us;

	if (ok && may_be_better(f)) {
		f->made = true;
		ok = choose(f, bytes);
		least_us = fmax(least_us, ok ? trial_chosen_us(f) - f->left_us
					     : -INFINITY);
		ok = ok && trial_chosen_us(f) < us;
		piece_drop_ways(&f->x->s->pieces, &f->x->key, f->x->t);
		f->made = false;
		ok = ok || choose(f, bytes);
		f->left_us = fmax(trial_chosen_us(f) - least_us, 0);
	}
	return ok;
}

/* Chooses the ways that keep least.  False: they do not fit either. */
static bool
keep_least(struct trial_rank *f, double *bytes)
{
	trial_choose_least(f);
	if (!fits(f, true, bytes)) {
		return false;
	}
	trial_set_left(f);
	return true;
}

/*
 * Whether one of those ranks is full by the programs for one sequence, with any
 * ways.
 */
static bool
is_surely_full(const struct trial_rank *f, uint32_t first, uint32_t n)
{
	struct trial_rank rank = *f;
	uint32_t i;

	for (i = first; i < first + n; i++) {
		set_rank(&rank, i);
		if (trial_least_bytes(&rank, TRIAL_SURE) > rank.free_bytes) {
			return true;
		}
	}
	return false;
}

/*
 * What is left to try before a rank is full: the programs of all ways are made,
 * unless those for one sequence prove that none fits.  Of one or two stages no
 * choice is left out then.  Of more, a rank is full if a bound proves it; else
 * those that keep least may fit where no others are found, or it remains open.
 */
static enum trial_verdict
prove_full(struct trial_rank *f, double *bytes)
{
	struct trial *x = f->x;
	enum trial_verdict has = TRIAL_FULL;

	if (x->ways_of->at.n == 1 || isinf(lacks(f)) ||
	    is_surely_full(f, 0, (uint32_t)x->t->g->pp)) {
		return TRIAL_FULL;
	}
	f->made = trial_least_bytes(f, TRIAL_MADE) <= f->free_bytes;
	piece_drop_ways(&x->s->pieces, &x->key, x->t);
	if (f->made) {
		has = choose(f, bytes) ? TRIAL_FITS
			: f->seen || f->none ? TRIAL_FULL
			: keep_least(f, bytes) ? TRIAL_FITS : TRIAL_OPEN;
	}
	f->made = false;
	return has;
}

/*
 * What is left to try before a rank whose host has too little memory is full:
 * as prove_full, but bytes are those on the host.
 */
static enum trial_verdict
prove_host_full(struct trial_rank *f, double *bytes)
{
	struct trial *x = f->x;
	enum trial_verdict has = TRIAL_FULL;

	if (isinf(lacks(f))) {
		return TRIAL_FULL;
	}
	f->made = trial_least_bytes(f, TRIAL_MADE) <= f->free_bytes;
	piece_drop_ways(&x->s->pieces, &x->key, x->t);
	if (f->made) {
		has = choose(f, bytes) ? TRIAL_FITS
			: f->seen || f->none || !trial_choose_hosted(f)
			? TRIAL_FULL : TRIAL_OPEN;
	}
	if (has == TRIAL_OPEN && fits(f, true, bytes)) {
		trial_set_left(f);
		has = TRIAL_FITS;
	}
	f->made = false;
	return has;
}

/*
 * Chooses ways with which the host has memory for what the rank's layers save.
 * As for the device, first by programs for one sequence, then by those of the
 * plan's lengths.  If other ranks of the node share the host, the rank may have
 * more of it with other shares: then what any ways take at least is no part of
 * the gap, and stands beside it.
 */
static enum trial_verdict
fit_host(struct trial_rank *f, double *bytes)
{
	enum trial_verdict has = TRIAL_FITS;
	struct trial *x = f->x;

	f->hosted = true;
	if (is_slow_roughly(f, bytes)) {
		has = TRIAL_CUT;
	} else if (!choose_closely(f, bytes)) {
		has = x->s->guessing ? TRIAL_FULL : prove_host_full(f, bytes);
	}
	if (has >= TRIAL_CUT && x->shared[f->rank] && !x->s->guessing) {
		x->s->out->ways_us = fmin(x->s->out->ways_us, x->any_us);
		has = has == TRIAL_CUT ? TRIAL_CUT : TRIAL_FULL;
	}
	f->hosted = false;
	return has;
}

/*
 * Chooses how the rank's stages recompute, which have their quickest ways, and
 * sets its bytes: if none fit, those of the ways that keep least, by programs
 * for one sequence.  Where an earlier rank is full, only these are needed, for
 * the report; and the first walk leaves out nothing for others, so it proves
 * nothing.
 */
static enum trial_verdict
fit_rank(struct trial_rank *f, double *bytes)
{
	f->left_us = f->grouped_us = 0;
	if (fits(f, !f->x->s->guessing, bytes)) {
		return TRIAL_FITS;
	}
	if (!f->full && !f->x->s->guessing && !trial_is_asked(f->x) &&
	    is_surely_full(f, f->rank, 1)) {
		return TRIAL_FULL;
	}
	if (f->x->key.offload & PLAN_OFFLOAD_SAVES && !f->full) {
		return fit_host(f, bytes);
	}
	if (trial_is_slow_rank(f) || is_slow_roughly(f, bytes)) {
		return TRIAL_CUT;
	}
	if ((!f->full && choose_closely(f, bytes)) || keep_least(f, bytes)) {
		return TRIAL_FITS;
	}
	return f->full || f->x->s->guessing ? TRIAL_FULL : prove_full(f, bytes);
}

/* ---- all ranks ---- */

/* Fits a rank, and notes it if it is the fullest so far. */
static enum trial_verdict
try_rank(struct trial_rank *f, uint32_t rank, struct trial_fit *out)
{
	double all = space_capacity(&f->x->s->space, f->x->dev[rank]);
	double fixed = f->x->fixed[rank], bytes;
	enum trial_verdict has;

	set_rank(f, rank);
	has = fit_rank(f, &bytes);
	if (fixed + bytes - all > out->over) {
		out->most = fixed + bytes;
		out->over = fixed + bytes - all;
		out->fullest = rank;
	}
	return has;
}

/* Whether all ranks have memory for the tensors that live all step. */
static bool
has_memory(const struct trial *x)
{
	uint32_t i;

	for (i = 0; i < x->t->g->pp; i++) {
		if (moving_capacity(x, i) < 0) {
			return false;
		}
	}
	return true;
}

/* Whether a stage of the rank has another choice than the stage before it. */
static bool
is_new(const struct trial_rank *f)
{
	const uint32_t *choice = f->x->choice;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		if (choice[f->of[i]] != (f->rank ? choice[f->of[i] - 1] : 0)) {
			return true;
		}
	}
	return false;
}

/* Notes, of the plans that do not fit, the one that lacks the fewest bytes. */
static void
note_near(const struct trial *x, const struct trial_fit *f)
{
	const struct target_group *on = x->s->space.devs.at[x->dev[f->fullest]];
	struct search_report *out = x->s->out;
	struct search_near *n = &out->least;

	if (out->any_near &&
	    f->over >= (double)(n->bytes - n->capacity)) {
		return;
	}
	out->any_near = true;
	n->bytes = (int64_t)f->most;
	n->capacity = (int64_t)(f->most - f->over);
	n->device = x->s->space.devs.n > 1 ? on->device.name : "";
	n->fullest = f->fullest;
	trial_plan(x, &n->plan);
}

static void
take_quickest(struct trial *x)
{
	memcpy(x->choice, x->quickest, x->nstages * sizeof *x->choice);
}

/* Sets the quickest way of each stage, by the programs for one sequence. */
static void
find_quickest(struct trial_rank *f)
{
	struct trial *x = f->x;
	uint32_t i, w;

	for (i = 0; i < x->nstages && trial_has_link(x); i++) {
		const double *us = trial_ways_of(f, i)->us;

		x->quickest[i] = 0;
		for (w = 1; w < x->ways_of->at.n; w++) {
			x->quickest[i] = us[w] < us[x->quickest[i]]
				? w : x->quickest[i];
		}
	}
	take_quickest(x);
}

/*
 * The rank that comes first: one that no way makes fit, by the programs for one
 * sequence, or the one with the highest bound so far.  If that is full or takes
 * too long, no choices are needed for others.
 */
static uint32_t
first_rank(struct trial_rank *f)
{
	uint32_t first = f->x->busiest, i;
	double most = 0, over;

	for (i = 0; i < f->x->t->g->pp; i++) {
		set_rank(f, i);
		over = trial_chosen_bytes(f, false) - f->free_bytes;
		if (over > most) {	/* of the quickest ways */
			trial_choose_least(f);
			over = trial_chosen_bytes(f, false) - f->free_bytes;
		}
		if (over > most) {
			most = over;
			first = i;
		}
	}
	take_quickest(f->x);
	return first;
}

/* Turns to no rank yet. */
static struct trial_rank
open_rank(struct trial *x)
{
	struct trial_rank f = { .x = x, .n = (uint32_t)x->t->chunks };

	arena_init(&f.tmp, &x->s->space.m->ctx->mem);
	f.ways = arena_alloc(&x->s->space.tmp, x->nstages * sizeof *f.ways);
	f.keeps = arena_alloc(&x->s->space.tmp, f.n * sizeof *f.keeps);
	f.words = arena_alloc(&x->s->space.tmp, f.n * sizeof *f.words);
	f.seen = f.n > TUPLES_STAGES ? NULL
		: arena_alloc(&x->s->space.tmp, x->ways_of->at.n *
			      sizeof *f.seen);
	return f;
}

/* Whether all ranks fit; sets how their stages recompute. */
static enum trial_verdict
fit_ranks(struct trial *x, struct trial_fit *out)
{
	struct trial_rank f = open_rank(x);
	uint32_t pp = (uint32_t)x->t->g->pp, first, i;
	enum trial_verdict all = TRIAL_FITS, has;
	bool asked = trial_is_asked(x);

	x->left_us = x->grouped_us = 0;
	memset(x->left, 0, pp * sizeof *x->left);
	find_quickest(&f);
	trial_set_shares(&f);
	first = first_rank(&f);
	trial_set_chosen(x, false);
	for (i = 0; i < pp && (all <= TRIAL_FITS || asked); i++) {
		uint32_t rank = i == 0 ? first : i - (i <= first);

		f.full = all > TRIAL_CUT;
		has = try_rank(&f, rank, out);
		x->chosen[rank] = has <= TRIAL_CUT;
		all = has > all ? has : all;
		x->left[rank] = f.left_us;
		x->left_us += (double)x->t->nmicrobatches * f.left_us;
		x->grouped_us += (double)x->t->nmicrobatches *
				 fmax(f.grouped_us - f.left_us, 0);
		if (all == TRIAL_FITS && is_new(&f) &&
		    (!trial_bound(x) || trial_is_above(x, true))) {
			all = TRIAL_CUT;
		}
	}
	if (all == TRIAL_OPEN && trial_bound(x) && !trial_is_above(x, true)) {
		trial_least(x, x->bound_us);
		x->s->open_us = fmin(x->s->open_us, x->bound_us);
	}
	if (x->grouped_us > 0 && all <= TRIAL_CUT && !x->s->guessing) {
		x->s->out->ways_us = fmin(x->s->out->ways_us,
			fmax(x->bound_us - x->grouped_us, x->any_us));
	}
	x->s->out->full += all > TRIAL_CUT;
	if (all > TRIAL_CUT && asked && out->over <= 0) {
		trial_note_hosts(&f);	/* devices have room for these ways */
	} else if (all > TRIAL_CUT && asked) {
		note_near(x, out);
	}
	return all;
}

/* Whether the quickest ways do not fit, by the programs for one sequence. */
static bool
is_surely_tight(const struct trial_rank *f)
{
	double bytes = 0;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		bytes += trial_sure_bytes(f, f->of[i], 0);
	}
	return bytes > f->free_bytes;
}

enum trial_verdict
trial_may_fit(struct trial *x)
{
	bool saves = x->key.offload & PLAN_OFFLOAD_SAVES;
	struct trial_rank f;
	uint32_t i;

	x->plain = NULL;
	if (!isfinite(x->s->worst_us) || x->ways_of->at.n == 1) {
		return TRIAL_FITS;
	}
	trial_set_fixed(x);
	if (!has_memory(x)) {
		return TRIAL_FITS;
	}
	space_count_slots(&x->s->space, x->t);
	if (saves && !trial_may_fit_hosts(x)) {
		x->drives_help = true;
		return TRIAL_FULL;
	}
	f = open_rank(x);
	for (i = 0; i < x->t->g->pp; i++) {
		set_rank(&f, i);
		if (saves && is_surely_full(&f, i, 1)) {
			return TRIAL_FULL;
		}
		if (saves ? trial_is_slow_hosted(&f)
			  : is_surely_tight(&f) && trial_is_slow_rank(&f)) {
			return TRIAL_CUT;
		}
	}
	return TRIAL_FITS;
}

enum trial_verdict
trial_fits(struct trial *x, struct trial_fit *f)
{
	*f = (struct trial_fit){ .over = -INFINITY };
	/* what an arena taught may have been the memory of hosts */
	x->drives_help |= x->s->unfit.n > 0;
	trial_set_fixed(x);
	if (!trial_is_asked(x) && !has_memory(x)) {
		x->s->out->full++;
		return TRIAL_FULL;
	}
	space_count_slots(&x->s->space, x->t);
	trial_set_plain(x);
	if (x->key.offload && !trial_may_fit_hosts(x)) {
		x->drives_help = true;
		x->s->out->full++;
		return TRIAL_FULL;
	}
	return fit_ranks(x, f);
}
