/*
 * Whether a plan fits: what each rank of its pipeline holds, and how its
 * stages recompute so that it does.
 */
#include "passes/search_trial.h"

#include <math.h>

/* Beyond so much of the room, what is guessed to be held surely is. */
#define HOPELESS 1.25

/* None of them is no number, and a call of fmax is not free here. */
static double
larger(double a, double b)
{
	return a > b ? a : b;
}

/* What does not change with how it recomputes. */
static double
fixed_bytes(struct trial *x, uint32_t rank)
{
	uint32_t *of = &x->stages[rank * (uint32_t)x->t->chunks], i;
	double bytes = 0;

	for (i = 0; i < (uint32_t)x->t->chunks; i++) {
		bytes += search_fixed_bytes(x->s, trial_update(x),
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
	const struct search_choice *less = x->ideal ? x->ideal
		: guess && choice ? &x->cost->choices.at[choice] : NULL;
	struct search_cost *c = guess ? x->cost : trial_cost(x, choice);

	*b = x->plain[stage];
	if (c && c != x->cost) {
		search_stage_bytes(x->s, c, lo, hi, b);
	} else if (less) {
		b->slot[MEMORY_TO_INPUT] -= search_less(x->s, less, lo, hi);
	}
	for (k = 0; k < MEMORY_NSPANS; k++) {
		b->slot[k] = larger(b->slot[k], 0);
	}
}

/* Most stages are as many layers of one kind, which recompute alike. */
static bool
holds_alike(const struct trial *x, uint32_t a, uint32_t b)
{
	return x->like[a] == x->like[b] && x->choice[a] == x->choice[b];
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
	uint32_t kept[MEMORY_NSPANS], n = 0;	/* spans of any slots */
	double temp = 0, update = 0, bytes = 0;
	struct search_bytes b;

	for (i = 0; i < (uint32_t)x->t->chunks; i++) {
		if (i == 0 || !holds_alike(x, of[i - 1], of[i])) {
			stage_bytes(x, of[i], guess, &b);
			for (n = 0, k = 0; k < MEMORY_NSPANS; k++) {
				most[k] = larger(most[k], b.slot[k]);
				kept[n] = k;
				n += b.slot[k] > 0;
			}
			temp = larger(temp, b.temp);
			update = larger(update, x->update_temp[of[i]]);
		}
		for (k = 0; k < n; k++) {
			each[kept[k]] += b.slot[kept[k]] *
					 slots->stage[kept[k]][of[i]];
		}
		bytes += x->nstages > 1 ? b.waits : 0;
	}
	for (k = 0; k < MEMORY_NSPANS; k++) {
		double shared = most[k] * slots->rank[k][rank];

		bytes += shared < each[k] ? shared : each[k];
	}
	return larger(bytes + temp, update);
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
fit_rank(struct trial *x, uint32_t rank, struct trial_fit *f)
{
	double all = search_room(x->s, x->seat[rank]);
	double fixed = fixed_bytes(x, rank);
	double room = all - lesson(x, rank) - fixed, bytes;
	bool ok;
	uint32_t n;

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
	if (fixed + bytes - all > f->over) {
		f->most = fixed + bytes;
		f->over = fixed + bytes - all;
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

void
trial_plan(const struct trial *x, struct plan *p)
{
	set_degrees(x, p);
	p->nstages = x->nstages;
	p->nranks = x->t->g->used;
	p->layers = arena_dup(x->s->a, x->layers, x->nstages *
			      sizeof *x->layers);
	set_recompute(x, p);
}

/* What its stages hold as they are placed, and their updates. */
static void
set_plain(struct trial *x)
{
	struct search_update *u = trial_update(x);
	uint32_t n = x->nstages, i;

	x->plain = arena_alloc(&x->s->tmp, n * sizeof *x->plain);
	x->update_temp = arena_alloc(&x->s->tmp, n * sizeof *x->update_temp);
	x->like = arena_alloc(&x->s->tmp, n * sizeof *x->like);
	for (i = 0; i < n; i++) {
		int64_t lo = x->first[i], hi = lo + x->layers[i];

		x->like[i] = i;
		if (i && search_alike(x->s, x->first[i - 1], lo, hi)) {
			x->like[i] = x->like[i - 1];
			x->plain[i] = x->plain[i - 1];
			x->update_temp[i] = x->update_temp[i - 1];
			continue;
		}
		search_stage_bytes(x->s, x->cost, lo, hi, &x->plain[i]);
		x->update_temp[i] = search_update_temp(x->s, u, lo, hi);
	}
}

bool
trial_fits(struct trial *x, struct trial_fit *f)
{
	struct search_report *out = x->s->out;
	bool enough = isfinite(x->s->worst_us), ok = true;
	uint32_t r;

	*f = (struct trial_fit){ .over = -INFINITY };
	set_plain(x);
	for (r = 0; r < (uint32_t)x->t->g->pp && (ok || !enough); r++) {
		ok &= fit_rank(x, r, f);
	}
	if (!ok) {
		out->full++;
		if (enough) {	/* nobody asks what it would take */
			return false;
		}
		if (!out->any_near || f->over < (double)(out->least.bytes -
							 out->least.room)) {
			const struct target_group *on =
				x->s->seats.at[x->seat[f->fullest]];

			out->any_near = true;
			out->least.bytes = (int64_t)f->most;
			out->least.room = (int64_t)(f->most - f->over);
			out->least.device = x->s->seats.n > 1
				? on->device.name : "";
			out->least.fullest = f->fullest;
			trial_plan(x, &out->least.plan);
		}
	}
	return ok;
}
