/*
 * One plan: what is settled last (ZeRO, stages, recomputation), whether it
 * fits, and how long its step is.  Bounds come first: the schedule is run
 * only if the sum of its parts may still win.
 */
#include "passes/search_parts.h"

#include <math.h>

#include <string.h>

/* Of what recomputing is guessed to take, so much is sure. */
#define GUESS 0.9
/* Beyond so much of the room, what is guessed to be held surely is. */
#define HOPELESS 1.25
/* A step that is guessed this far above the best is not made. */
#define NO_MORE 1.02

/* One plan on its way to a price. */
struct trial {
	struct search *s;
	const struct search_try *t;
	struct search_key key;
	uint32_t nstages;
	int64_t *layers;
	uint32_t *choice;	/* by stage: how it recomputes */
	bool guess;		/* what that takes, instead of making it */
	struct search_cost *cost;
	struct search_cost **made;	/* by choice; NULL: not yet */
	struct search_bytes *plain;	/* by stage: as it is placed */
	struct search_update *update;	/* NULL: not yet */
	const struct search_choice *ideal;	/* instead of all, or NULL */
	uint32_t *rank_of;	/* by stage */
	uint32_t *stages;	/* by rank: `chunks` each */
	int64_t *first;		/* by stage: its first layer */
	struct price p;
};

/* ---- time ---- */

static double
stage_us(const struct trial *x, uint32_t stage)
{
	double us = 0;
	int k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		us += x->p.stage[stage][k].total_us;
	}
	return us;
}

/*
 * What a rank waits before its first forward and behind its last backward:
 * others must have had the microbatch first, and have it last.  With a split
 * backward, weights may fill the end.
 */
static double
bound_us(const struct trial *x)
{
	int64_t pp = x->t->g->pp, m = x->t->nmicrobatches, r;
	double around = 0, most = 0, *busy;
	uint32_t i;

	busy = arena_alloc(&x->s->tmp, (size_t)pp * sizeof *busy);
	for (i = 0; i < x->nstages; i++) {
		busy[x->rank_of[i]] += stage_us(x, i) * (double)m;
	}
	for (r = 0; r < pp; r++) {
		most = fmax(most, busy[r] + around);
		around += x->p.stage[r][SCHED_F].total_us +
			  x->p.stage[r][SCHED_B].total_us + x->p.hop_us *
			  (x->t->sched->split ? 1 : 2);
	}
	return most;
}

/* By stage, in the order in which schedules hand them to ranks. */
static void
rank_stages(struct trial *x)
{
	uint32_t pp = (uint32_t)x->t->g->pp, chunks = (uint32_t)x->t->chunks;
	struct arena *a = &x->s->tmp;
	uint32_t i;

	x->rank_of = arena_alloc(a, x->nstages * sizeof *x->rank_of);
	x->stages = arena_alloc(a, x->nstages * sizeof *x->stages);
	x->first = arena_alloc(a, x->nstages * sizeof *x->first);
	for (i = 0; i < x->nstages; i++) {
		x->rank_of[i] = x->t->sched->vshape && i / pp % 2
			? pp - 1 - i % pp : i % pp;
		x->stages[x->rank_of[i] * chunks + i / pp] = i;
	}
}

static void
set_layers(struct trial *x, int64_t *layers)
{
	uint32_t i;

	x->layers = layers;
	for (i = 1; i < x->nstages; i++) {
		x->first[i] = x->first[i - 1] + layers[i - 1];
	}
}

/* Of the programs that recompute so; NULL: there are none. */
static struct search_cost *
cost_of(struct trial *x, uint32_t choice)
{
	struct search_key key = x->key;

	if (!choice) {
		return x->cost;
	}
	if (!x->made) {
		x->made = arena_alloc(&x->s->tmp, x->cost->choices.n *
				      sizeof *x->made);
	}
	if (!x->made[choice]) {
		key.choice = choice;
		x->made[choice] = search_cost_of(x->s, &key, x->t);
	}
	return x->made[choice];
}

/* Adds what a choice is guessed to take to a stage of layers [lo, hi). */
static void
add_guess(struct trial *x, uint32_t stage, int64_t lo, int64_t hi)
{
	enum sched_kind back = x->t->sched->split ? SCHED_I : SCHED_B;
	struct price_func extra = { 0 };

	extra.total_us = (x->s->guessing ? 1 : GUESS) * search_extra_us(x->s,
		&x->cost->choices.at[x->choice[stage]], lo, hi);
	price_add(&x->p.stage[stage][back], &extra, 1);
}

/* The stages, as they recompute. False: a choice cannot be made. */
static bool
compose(struct trial *x)
{
	struct search *s = x->s;
	int64_t lo = 0;
	uint32_t i;

	if (!x->p.stage) {
		x->p.stage = arena_alloc(&s->tmp,
					 x->nstages * sizeof *x->p.stage);
		x->p.hop_us = search_hop(s, &x->key, x->t);
	}
	for (i = 0; i < x->nstages; i++) {
		struct search_key key = x->key;
		struct search_cost *c;

		key.choice = x->guess ? 0 : x->choice[i];
		c = cost_of(x, key.choice);
		if (!c) {
			return false;
		}
		search_price(s, &key, x->t, c);
		search_stage_price(s, c, lo, lo + x->layers[i],
				   x->p.stage[i]);
		if (x->guess && x->choice[i]) {
			add_guess(x, i, lo, lo + x->layers[i]);
		}
		lo += x->layers[i];
	}
	return true;
}

static struct search_update *
update_of(struct trial *x)
{
	if (!x->update) {
		x->update = search_update_of(x->s, &x->key, x->t);
	}
	return x->update;
}

static void
compose_update(struct trial *x)
{
	uint32_t i, pp = (uint32_t)x->t->g->pp;
	int64_t lo = 0;

	search_price_update(x->s, &x->key, x->t, update_of(x));
	x->p.update = arena_alloc(&x->s->tmp, pp * sizeof *x->p.update);
	for (i = 0; i < pp; i++) {
		x->p.update[i] = update_of(x)->fn[PIECE_TOP];
	}
	for (i = 0; i < x->nstages; i++) {
		search_update_price(x->s, update_of(x), lo, lo + x->layers[i],
				    &x->p.update[x->rank_of[i]]);
		lo += x->layers[i];
	}
}

static bool
run(struct trial *x)
{
	const struct search_try *t = x->t;
	struct sched *sched;
	const char *why;

	compose_update(x);
	sched = sched_make(&x->s->tmp, t->sched->name, (uint32_t)t->g->pp,
			   (uint32_t)t->chunks, (uint32_t)t->nmicrobatches,
			   &why);
	x->s->out->run++;
	x->p.update_us = x->p.busy_us = 0;	/* the most of another run */
	return sched && price_pipeline(sched, &x->s->o->traits, &x->s->tmp,
				       &x->p);
}

/* ---- memory ---- */

struct fit {
	double most;		/* bytes of the fullest rank */
	uint32_t fullest;
};

/* What does not change with how it recomputes. */
static double
fixed_bytes(struct trial *x, uint32_t rank)
{
	uint32_t *of = &x->stages[rank * (uint32_t)x->t->chunks], i;
	double bytes = 0;

	for (i = 0; i < (uint32_t)x->t->chunks; i++) {
		bytes += search_fixed_bytes(x->s, update_of(x),
			x->first[of[i]], x->first[of[i]] + x->layers[of[i]]);
	}
	return bytes;
}

/* Of one stage, as it recomputes; guessed, or as its programs have it. */
static void
stage_bytes(struct trial *x, uint32_t stage, bool guess,
	    struct search_bytes *b)
{
	uint32_t choice = x->choice[stage], k;
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	struct search_cost *c = guess ? x->cost : cost_of(x, choice);

	*b = x->plain[stage];
	if (c && c != x->cost) {
		search_stage_bytes(x->s, c, lo, hi, b);
	} else if (x->ideal) {
		b->slot[MEMORY_TO_INPUT] -= search_less(x->s, x->ideal, lo,
							hi);
	} else if (guess && choice) {
		b->slot[MEMORY_TO_INPUT] -= search_less(x->s,
			&x->cost->choices.at[choice], lo, hi);
	}
	for (k = 0; k < MEMORY_NSPANS; k++) {
		b->slot[k] = fmax(b->slot[k], 0);
	}
}

/*
 * Slots of a rank's stages are shared where they are of one size: no more of
 * them than are held at once, of the largest.
 */
static double
moving_bytes(struct trial *x, uint32_t rank, bool guess)
{
	const struct search_slots *slots = x->t->slots;
	double each[MEMORY_NSPANS] = { 0 }, most[MEMORY_NSPANS] = { 0 };
	uint32_t *of = &x->stages[rank * (uint32_t)x->t->chunks], i, k;
	double temp = 0, update = 0, bytes = 0;

	for (i = 0; i < (uint32_t)x->t->chunks; i++) {
		struct search_bytes b;

		stage_bytes(x, of[i], guess, &b);
		for (k = 0; k < MEMORY_NSPANS; k++) {
			each[k] += b.slot[k] * slots->stage[k][of[i]];
			most[k] = fmax(most[k], b.slot[k]);
		}
		temp = fmax(temp, b.temp);
		bytes += x->nstages > 1 ? b.waits : 0;
		update = fmax(update, search_update_temp(x->s, update_of(x),
				x->first[of[i]],
				x->first[of[i]] + x->layers[of[i]]));
	}
	for (k = 0; k < MEMORY_NSPANS; k++) {
		bytes += fmin(each[k], most[k] * slots->rank[k][rank]);
	}
	return fmax(bytes + temp, update);
}

/* What is guessed to fit, is looked at. */
static bool
fits_in(struct trial *x, uint32_t rank, double room, double *bytes)
{
	*bytes = moving_bytes(x, rank, true);
	if (*bytes <= room && !x->guess) {
		*bytes = moving_bytes(x, rank, false);
	}
	return *bytes <= room;
}

/* It would not fit if it kept what no choice keeps. */
static bool
is_hopeless(struct trial *x, uint32_t rank, double room)
{
	struct search_choice all = { 0 };
	double bytes;
	uint32_t i, k;

	for (i = 0; i < x->cost->choices.n; i++) {
		for (k = 0; k < x->s->nkinds; k++) {
			all.less[k] = fmax(all.less[k],
					   x->cost->choices.at[i].less[k]);
		}
	}
	x->ideal = &all;
	bytes = moving_bytes(x, rank, true);
	x->ideal = NULL;
	return bytes > HOPELESS * room;
}

static void
choose(struct trial *x, uint32_t rank, uint32_t choice)
{
	uint32_t *of = &x->stages[rank * (uint32_t)x->t->chunks], i;

	for (i = 0; i < (uint32_t)x->t->chunks; i++) {
		x->choice[of[i]] = choice;
	}
}

/*
 * The mildest choice with which the rank fits, all its stages alike.  Before
 * it is said that none does, the one that keeps least is not guessed.
 */
static bool
fit_alike(struct trial *x, uint32_t rank, double room, double *bytes)
{
	double least = INFINITY;
	uint32_t c = 0, best = 0;

	do {
		choose(x, rank, c);
		if (fits_in(x, rank, room, bytes)) {
			return true;
		}
		if (*bytes < least) {
			least = *bytes;
			best = c;
		}
		search_choices(x->s, &x->key, x->t, x->cost);
		if (c == 0 && isfinite(x->s->worst_us) &&
		    is_hopeless(x, rank, room)) {
			return false;
		}
	} while (++c < x->cost->choices.n);
	choose(x, rank, best);
	*bytes = moving_bytes(x, rank, false);
	return *bytes <= room;
}

static void
set_degrees(const struct trial *x, struct plan *p)
{
	const struct search_group *g = x->t->g;

	*p = x->s->base;
	p->tp = g->tp;
	p->cp = g->cp;
	p->ep = g->ep;
	p->dp = g->dp;
	p->pp = g->pp;
	p->microbatch = x->t->microbatch;
	p->nmicrobatches = x->t->nmicrobatches;
	p->interleave = x->t->chunks;
	p->schedule = x->t->sched->name;
	p->zero = x->key.zero;
	p->sequence = x->key.sequence;
	p->offload = x->key.offload;
}

static double
lesson(const struct trial *x, uint32_t rank)
{
	struct plan p;

	if (!x->s->lessons.n) {
		return 0;
	}
	set_degrees(x, &p);
	return search_lesson(x->s, &p, rank);
}

/* Then stages one by one, the last first, are made milder if that fits too. */
static bool
fit_rank(struct trial *x, uint32_t rank, struct fit *f)
{
	double room, bytes, fixed = fixed_bytes(x, rank);
	bool ok;
	uint32_t n;

	room = (double)x->s->out->memory_bytes - lesson(x, rank) - fixed;
	ok = fit_alike(x, rank, room, &bytes);
	n = x->t->chunks > 1 ? (uint32_t)x->t->chunks : 0;
	while (ok && n-- > 0) {
		uint32_t i = x->stages[rank * (uint32_t)x->t->chunks + n];
		uint32_t was = x->choice[i];

		for (x->choice[i] = 0; x->choice[i] < was &&
		     !fits_in(x, rank, room, &bytes); x->choice[i]++) {
		}
		bytes = moving_bytes(x, rank, x->guess);
	}
	if (fixed + bytes > f->most) {
		f->most = fixed + bytes;
		f->fullest = rank;
	}
	return ok;
}

/* A list by stage, if they differ. */
static void
set_recompute(const struct trial *x, struct plan *p)
{
	bool alike = true;
	uint32_t i;

	if (!x->cost->choices.n) {
		return;
	}
	for (i = 1; i < x->nstages; i++) {
		alike &= x->choice[i] == x->choice[0];
	}
	p->recompute = x->cost->choices.at[x->choice[0]].words;
	p->recompute_of = alike ? NULL
		: arena_alloc(x->s->a, x->nstages * sizeof *p->recompute_of);
	for (i = 0; !alike && i < x->nstages; i++) {
		p->recompute_of[i] = x->cost->choices.at[x->choice[i]].words;
	}
}

static void
as_plan(const struct trial *x, struct plan *p)
{
	set_degrees(x, p);
	p->nstages = x->nstages;
	p->nranks = x->t->g->used;
	p->layers = arena_dup(x->s->a, x->layers, x->nstages *
			      sizeof *x->layers);
	set_recompute(x, p);
}

static void
set_plain(struct trial *x)
{
	uint32_t i;

	x->plain = arena_alloc(&x->s->tmp, x->nstages * sizeof *x->plain);
	for (i = 0; i < x->nstages; i++) {
		search_stage_bytes(x->s, x->cost, x->first[i],
				   x->first[i] + x->layers[i], &x->plain[i]);
	}
}

static bool
fits(struct trial *x, struct fit *f)
{
	struct search_report *out = x->s->out;
	bool enough = isfinite(x->s->worst_us), ok = true;
	uint32_t r;

	*f = (struct fit){ 0 };
	set_plain(x);
	for (r = 0; r < (uint32_t)x->t->g->pp && (ok || !enough); r++) {
		ok &= fit_rank(x, r, f);
	}
	if (!ok) {
		out->full++;
		if (enough) {	/* nobody asks what it would take */
			return false;
		}
		if (!out->any_near || f->most < (double)out->least.bytes) {
			out->any_near = true;
			out->least.bytes = (int64_t)f->most;
			out->least.fullest = f->fullest;
			as_plan(x, &out->least.plan);
		}
	}
	return ok;
}

/* ---- the best so far ---- */

static void
take(struct trial *x, const struct fit *f)
{
	struct search_report *out = x->s->out;
	uint32_t top = search_top(x->s), i;
	struct search_found e = {
		.step_us = x->p.step_us, .bytes = (int64_t)f->most,
		.fullest = f->fullest
	};

	if (e.step_us >= x->s->worst_us) {
		return;
	}
	as_plan(x, &e.plan);
	if (out->found.n < top) {	/* else the last one goes */
		VEC_PUSH(x->s->a, &out->found, e);
	}
	for (i = out->found.n - 1; i > 0 &&
	     out->found.at[i - 1].step_us > e.step_us; i--) {
		out->found.at[i] = out->found.at[i - 1];
	}
	out->found.at[i] = e;
	if (out->found.n == top) {
		x->s->worst_us = out->found.at[top - 1].step_us;
	}
}

/* What became of a plan: the worst of several, in this order. */
enum fate {
	CUT,		/* its bound is above what was found */
	FITS,
	CUT_TIGHT,	/* the same, by what it has to recompute */
	TIGHT,		/* it fits by recomputing only */
	FULL		/* it does not fit */
};

static bool
is_cut(struct trial *x)
{
	return !compose(x) || bound_us(x) >= x->s->worst_us;
}

/* As if nothing were built again. */
static bool
is_plain_cut(struct trial *x)
{
	uint32_t *choice = x->choice;
	bool cut;

	x->choice = arena_alloc(&x->s->tmp, x->nstages * sizeof *choice);
	cut = is_cut(x);
	x->choice = choice;
	return cut;
}

/*
 * How it recomputes is guessed first, since making that takes longer; and
 * nothing else, on the first way through the space, which finds out what a
 * step takes about.
 */
static enum fate
recomputed(struct trial *x, struct fit *f)
{
	enum fate fate = FITS;
	uint32_t i;

	for (i = 0; i < x->nstages; i++) {
		fate = x->choice[i] ? TIGHT : fate;
	}
	if (fate == TIGHT && is_cut(x)) {
		return CUT_TIGHT;
	}
	if (x->s->guessing) {
		return fate;
	}
	if (fate == TIGHT && (!run(x) ||
	    x->p.step_us >= x->s->worst_us * NO_MORE)) {
		return CUT_TIGHT;
	}
	x->guess = false;
	return !fits(x, f) ? FULL : is_cut(x) ? CUT_TIGHT : fate;
}

/* With ZeRO and layers chosen. */
static enum fate
with_layers(struct trial *x)
{
	enum fate fate;
	struct fit f;

	x->s->out->priced++;
	x->guess = false;
	if (is_plain_cut(x)) {
		x->s->out->cut++;
		return CUT;
	}
	x->guess = true;
	if (!fits(x, &f)) {
		return FULL;
	}
	fate = recomputed(x, &f);
	if ((fate == FITS || fate == TIGHT) && run(x)) {
		take(x, &f);
	}
	return fate;
}

/* Its floor is no less than what was found. */
static bool
is_below(const struct trial *x)
{
	struct search *s = x->s;

	if (search_floor_us(s, &x->key, x->t) >= s->worst_us) {
		return true;
	}
	search_foresee(s, &x->key, x->t);
	return search_floor_us(s, &x->key, x->t) >= s->worst_us;
}

static enum fate
with_zero(struct trial *x, int zero, bool offload)
{
	struct search *s = x->s;
	int64_t *even = arena_alloc(&s->tmp, x->nstages * sizeof *even);
	size_t bytes = x->nstages * sizeof *even;
	enum fate fate, other;

	x->key.zero = zero;
	x->key.offload = offload;
	x->update = NULL;
	x->made = NULL;
	memset(&x->p, 0, sizeof x->p);
	if (is_below(x)) {
		s->out->cut++;
		return CUT;
	}
	x->cost = search_cost_of(s, &x->key, x->t);
	if (!x->cost) {
		return CUT;
	}
	plan_spread(s->nlayers, x->nstages, even);
	set_layers(x, s->pinned[PIN_STAGES] &&
		   s->base.nstages == x->nstages ? s->base.layers : even);
	fate = with_layers(x);
	if (x->t->chunks == 1 && x->nstages > 1 && !s->even &&
	    !s->pinned[PIN_STAGES]) {
		int64_t *layers = arena_alloc(&s->tmp, bytes);

		search_balance(s, x->cost, x->nstages, layers);
		set_layers(x, layers);
		if (memcmp(layers, even, bytes) != 0) {
			other = with_layers(x);
			fate = other > fate ? other : fate;
		}
	}
	return fate;
}

/* What the fullest rank has at the least if dp cuts nothing. */
static double
least_all(struct trial *x)
{
	double most = 0;
	int64_t lo = 0;
	uint32_t i;

	for (i = 0; i < x->nstages; lo += x->layers[i++]) {
		most = fmax(most, search_whole_bytes(x->s, update_of(x), lo,
						     lo + x->layers[i]));
	}
	return most;
}

/* What costs time to save memory only where memory asks for it. */
static bool
with_all(struct trial *x)
{
	const struct search *s = x->s;
	bool data = x->t->g->dp > 1, host = s->t->device.host_bytes_us > 0;
	int zero = s->pinned[PIN_ZERO] ? s->base.zero : data;
	enum fate fate, best;

	if (s->pinned[PIN_OFFLOAD]) {
		fate = with_zero(x, zero, s->base.offload);
		host = false;
	} else {
		fate = with_zero(x, zero, false);
	}
	if (fate == FITS && data && !s->pinned[PIN_ZERO] &&
	    least_all(x) <= (double)s->out->memory_bytes) {
		with_zero(x, 0, x->key.offload);
	}
	if (fate < CUT_TIGHT) {
		return true;
	}
	best = fate;
	if (data && !s->pinned[PIN_ZERO]) {
		fate = with_zero(x, 2, x->key.offload);
		best = fate < best ? fate : best;
		fate = with_zero(x, 3, x->key.offload);
		best = fate < best ? fate : best;
	}
	if (host) {
		fate = with_zero(x, zero, true);
		best = fate < best ? fate : best;
	}
	return best != FULL;
}

bool
search_one(struct search *s, const struct search_try *t)
{
	const struct search_group *g = t->g;
	struct trial x = {
		.s = s, .t = t, .nstages = (uint32_t)(g->pp * t->chunks),
		.key = { .tp = g->tp, .cp = g->cp, .ep = g->ep,
			 .data = g->dp > 1, .sequence = s->base.sequence,
			 .split = t->sched->split,
			 .solo = s->nlayers < 3 && g->pp * t->chunks == 1 }
	};

	bool fits;

	if (g->bound_us >= s->worst_us ||
	    (s->pinned[PIN_STAGES] && s->base.nstages != x.nstages)) {
		return true;
	}
	rank_stages(&x);
	x.choice = arena_alloc(&s->tmp, x.nstages * sizeof *x.choice);
	fits = with_all(&x);
	if (g->tp > 1 && !s->pinned[PIN_SEQUENCE]) {
		x.key.sequence = false;
		x.key.offload = false;
		fits |= with_all(&x);
	}
	return fits;
}
