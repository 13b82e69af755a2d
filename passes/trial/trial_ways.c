/*
 * How the stages of a rank recompute: what each way takes and keeps, and what
 * any ways keep at least.  Used by trial_fit.c and trial_choose.c.
 */
#include "passes/trial/trial_fit.h"

#include <math.h>
#include <string.h>

/* ---- what ways take and keep ---- */

void
trial_turn_to(struct trial_rank *f, uint32_t rank)
{
	f->rank = rank;
	f->of = &f->x->stages[rank * f->n];
}

/* Bytes by which a way makes the window of saves on the host smaller. */
static double
window_less(const struct trial *x, const struct piece_choice *c, int64_t lo,
	    int64_t hi)
{
	double less[SPACE_MAX_KINDS] = { 0 };
	uint32_t i, k;

	if (!(x->key.offload & PLAN_OFFLOAD_SAVES)) {
		return 0;
	}
	for (i = 0; i < x->s->space.nkinds; i++) {
		for (k = 0; k < SPACE_NSPANS; k++) {
			less[i] += c->less[k][i];
		}
	}
	return piece_window_bytes(&x->s->space, less, lo, hi);
}

/* What a stage keeps with a way: as the programs for one sequence say. */
static void
guess_bytes(const struct trial *x, uint32_t stage, uint32_t way,
	    struct piece_bytes *b)
{
	const struct piece_choice *c = &x->ways_of->at.at[way];
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	double times = (double)x->t->microbatch;
	uint32_t k;

	*b = x->plain[stage];
	b->temp += times * (c->temp - window_less(x, c, lo, hi));
	b->temp = larger(b->temp, 0);
	for (k = 0; k < SPACE_NSPANS; k++) {
		double *saved = x->key.offload & PLAN_OFFLOAD_SAVES
			? &b->host[k] : &b->slot[k];

		*saved = larger(*saved - times * piece_saved_bytes(
			&x->s->space, c, k, lo, hi), 0);
	}
}

/* The same as the programs of the plan's lengths say. */
static void
made_bytes(const struct trial_rank *f, uint32_t stage, uint32_t way,
	   struct piece_bytes *b)
{
	uint32_t was = f->x->choice[stage];

	f->x->choice[stage] = way;
	trial_stage_bytes(f->x, stage, b);
	f->x->choice[stage] = was;
}

/* Lowers what a stage has beside slots of layers to what it has in b. */
static void
lower(struct piece_bytes *to, const struct piece_bytes *b)
{
	uint32_t k;

	for (k = 0; k < SPACE_NSPANS; k++) {
		to->slot[k] = 0;
		to->top[k] = lesser(to->top[k], b->top[k]);
	}
	to->sends[0] = lesser(to->sends[0], b->sends[0]);
	to->sends[1] = lesser(to->sends[1], b->sends[1]);
	to->temp = lesser(to->temp, b->temp);
}

/*
 * What functions f of layers [lo, hi) as pinned take with a way: each its
 * kernels, or its link, whichever takes longer.
 */
static double
linked_us(const struct trial *x, const struct price_func f[SCHED_NKINDS],
	  const struct piece_choice *way, int64_t lo, int64_t hi)
{
	const struct space *s = &x->s->space;
	double mb = (double)x->t->microbatch, us = 0;
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		struct piece_each is = piece_extra_each(s, way, k, lo, hi);
		struct piece_each was = piece_extra_each(s, &x->ways_of->plain,
							 k, lo, hi);
		struct price_func g = f[k];
		double own = price_shown_us(&x->s->o->traits, &g);

		g.saves_us += mb * (is.saves_us - was.saves_us);
		g.params_us += is.params_us - was.params_us;
		g.drives_us += is.drives_us - was.drives_us;
		us += fmax(own + mb * (is.us - was.us),
			   price_link_us(&g, x->key.offload));
	}
	return us;
}

/*
 * Sets what each way of a stage takes more than the quickest, as the programs
 * for one sequence say: of kernels, and if saves or parameters are on hosts, of
 * what the link does not hide.
 */
static void
set_us(struct trial *x, uint32_t stage, double *us)
{
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	const struct piece_choice *way = x->ways_of->at.at;
	uint32_t dev = x->dev_of[stage], n = x->ways_of->at.n, i;
	struct price_func f[SCHED_NKINDS];
	double least = 0;

	if (!trial_has_link(x)) {
		for (i = 0; i < n; i++) {
			us[i] = (double)x->t->microbatch *
				piece_extra_us(&x->s->space, &way[i], lo, hi);
		}
		return;
	}
	piece_price(&x->s->pieces, &x->key, x->t, x->cost, dev);
	piece_stage_price(&x->s->space, x->cost, dev, lo, hi, f);
	for (i = 0; i < n; i++) {
		us[i] = linked_us(x, f, &way[i], lo, hi);
		least = i ? lesser(least, us[i]) : us[i];
	}
	for (i = 0; i < n; i++) {
		us[i] -= least;
	}
}

const struct trial_ways *
trial_ways_of(const struct trial_rank *f, uint32_t stage)
{
	struct trial *x = f->x;
	uint32_t like = x->dev_of[x->like[stage]] == x->dev_of[stage]
		? x->like[stage] : stage;
	struct trial_ways *w = &f->ways[like];
	double least = INFINITY, all;
	uint32_t n = x->ways_of->at.n, i, k;

	if (w->us && w->made == f->made) {
		return w;
	}
	w->made = f->made;
	w->us = arena_alloc_raw(&x->s->space.tmp, n * sizeof *w->us);
	w->keeps = arena_alloc_raw(&x->s->space.tmp, n * sizeof *w->keeps);
	set_us(x, stage, w->us);
	for (i = 0; i < n; i++) {
		struct piece_bytes *b = &w->keeps[i];

		if (f->made) {
			made_bytes(f, stage, i, b);
		} else {
			guess_bytes(x, stage, i, b);
		}
		for (k = 0, all = 0; k < SPACE_NSPANS; k++) {
			all += b->slot[k] + b->host[k];
		}
		w->least = all < least ? i : w->least;
		least = all < least ? all : least;
		w->other = i ? w->other : *b;
		lower(&w->other, b);
	}
	return w;
}

double
trial_chosen_bytes(const struct trial_rank *f, bool made)
{
	struct trial *x = f->x;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		uint32_t stage = f->of[i], choice = x->choice[stage];

		if (made || !choice) {
			trial_stage_bytes(x, stage, &f->keeps[i]);
		} else {
			f->keeps[i] = trial_ways_of(f, stage)->keeps[choice];
		}
	}
	return trial_rank_bytes(x, f->rank, f->keeps);
}

double
trial_chosen_us(const struct trial_rank *f)
{
	double us = 0;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		us += trial_ways_of(f, f->of[i])->us[f->x->choice[f->of[i]]];
	}
	return us;
}

/* ---- ways that keep least ---- */

void
trial_choose_least(struct trial_rank *f)
{
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		f->x->choice[f->of[i]] = trial_ways_of(f, f->of[i])->least;
	}
}

double
trial_then_bytes(const struct trial *x, uint32_t stage,
		 const double slot[SPACE_NSPANS])
{
	const struct space_slots *t = x->t->slots;
	double bytes = 0;
	uint32_t k;

	for (k = 0; k < SPACE_NSPANS; k++) {
		bytes += slot[k] * t->then[k][stage];
	}
	return bytes;
}

/*
 * At least what the window of layers [lo, hi) has on the device, of what they
 * have on the host.
 */
static double
least_window(struct trial *x, const struct piece_choice *c, int64_t lo,
	     int64_t hi)
{
	double slots[SPACE_MAX_KINDS] = { 0 };
	uint32_t i, k;

	lo += lo == 0 && !x->key.solo;
	hi -= hi == x->s->space.nlayers && !x->key.solo;
	for (i = 0; i < x->s->space.nkinds; i++) {
		for (k = 0; k < SPACE_NSPANS; k++) {
			slots[i] += (double)x->t->microbatch * c->grows[k][i] +
				    c->stays[k][i];
		}
	}
	return trial_window_bytes(x, slots, lo, hi);
}

const struct trial_sure *
trial_sure_of(struct trial *x, uint32_t stage)
{
	uint32_t like = x->like[stage], n = x->ways_of->at.n, i;
	int64_t lo = x->first[like], hi = lo + x->layers[like];
	struct trial_sure *at = x->sure[like];
	struct piece_bytes b;

	if (at) {
		return at;
	}
	at = x->sure[like] = arena_alloc_raw(&x->s->space.tmp, n * sizeof *at);
	for (i = 0; i < n; i++) {
		const struct piece_choice *c = &x->ways_of->at.at[i];

		piece_least_bytes(&x->s->space, c, lo, hi, x->key.solo,
				  (double)x->t->microbatch, &b);
		memcpy(at[i].slot, b.slot, sizeof at[i].slot);
		memcpy(at[i].top, b.top, sizeof at[i].top);
		at[i].sends[0] = b.sends[0];
		at[i].sends[1] = b.sends[1];
		at[i].temp = b.temp + least_window(x, c, lo, hi);
	}
	return at;
}

static double
sent_bytes(const struct trial_rank *f, const double sends[2])
{
	double copies = f->x->t->nmicrobatches > 1 ? 2 : 1;

	return copies * (sends[0] + sends[1]);
}

double
trial_own_bytes(const struct trial_rank *f, uint32_t stage,
		const struct piece_bytes *b)
{
	return trial_then_bytes(f->x, stage, b->slot) +
	       trial_then_bytes(f->x, stage, b->top) + sent_bytes(f, b->sends);
}

/* What is recomputed is in layers: after them, all ways save the same. */
double
trial_sure_bytes(const struct trial_rank *f, uint32_t stage, uint32_t way)
{
	struct trial *x = f->x;
	const struct trial_sure *is = &trial_sure_of(x, stage)[way];
	double bytes = trial_then_bytes(x, stage, is->top) +
		       sent_bytes(f, is->sends);

	bytes += x->plain ? trial_then_bytes(x, stage, x->plain[stage].end) : 0;
	return x->key.offload & PLAN_OFFLOAD_SAVES ? bytes
		: bytes + trial_then_bytes(x, stage, is->slot);
}

/* What a stage has on the device with a way, by f->made: all the time, and for
 * a while. */
static double
own_bytes(const struct trial_rank *f, uint32_t stage, uint32_t way)
{
	return f->made ? trial_own_bytes(f, stage, &trial_ways_of(f, stage)
							->keeps[way])
		: trial_sure_bytes(f, stage, way);
}

static double
temp_bytes(const struct trial_rank *f, uint32_t stage, uint32_t way)
{
	return f->made ? trial_ways_of(f, stage)->keeps[way].temp
		: trial_sure_of(f->x, stage)[way].temp;
}

/* Whether programs of all ways are alike outside of layers, in all stages. */
static bool
are_alike_outside(const struct trial_rank *f)
{
	uint32_t i, w;

	for (i = 0; i < f->n && f->made; i++) {
		const struct trial_ways *of = trial_ways_of(f, f->of[i]);

		for (w = 1; w < f->x->ways_of->at.n; w++) {
			if (memcmp(of->keeps[w].top, of->keeps[0].top,
				   sizeof of->keeps[0].top) != 0 ||
			    memcmp(of->keeps[w].sends, of->keeps[0].sends,
				   sizeof of->keeps[0].sends) != 0) {
				return false;
			}
		}
	}
	return f->made;
}

/*
 * Where programs of ways are alike outside of layers, they share slots there
 * alike; else what all stages have at once counts.
 */
void
trial_set_room(struct trial_rank *f)
{
	double all = 0, least;
	uint32_t i, w;

	if (are_alike_outside(f)) {
		for (i = 0; i < f->n; i++) {
			f->keeps[i] = trial_ways_of(f, f->of[i])->keeps[0];
			f->keeps[i].temp = 0;
		}
		f->temp_room = f->free_bytes -
			trial_moving_bytes(f->x, f->rank, f->keeps);
		return;
	}
	for (i = 0; i < f->n; i++, all += least) {
		least = INFINITY;
		for (w = 0; w < f->x->ways_of->at.n; w++) {
			least = lesser(least, own_bytes(f, f->of[i], w));
		}
	}
	f->temp_room = f->free_bytes - all;
}

void
trial_leave_less(struct trial_rank *f)
{
	double most = 0;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		most = larger(most, temp_bytes(f, f->of[i],
					       f->x->choice[f->of[i]]));
	}
	f->temp_room = lesser(f->temp_room, most - 1);
}

/* Each stage may have slots of its own, as large as any way's. */
double
trial_host_room(const struct trial_rank *f)
{
	const struct space_slots *t = f->x->t->slots;
	double all = 1, most;
	uint32_t i, k, w;

	for (i = 0; i < f->n; i++) {
		const struct trial_ways *of = trial_ways_of(f, f->of[i]);

		for (k = 0; k < SPACE_NSPANS; k++) {
			most = 0;
			for (w = 0; w < f->x->ways_of->at.n; w++) {
				most = larger(most, of->keeps[w].host[k]);
			}
			all += most * t->stage[k][f->of[i]];
		}
	}
	return lesser(all, f->x->share[f->rank]);
}

bool
trial_is_too_large(const struct trial_rank *f, uint32_t stage, uint32_t way)
{
	return temp_bytes(f, stage, way) > f->temp_room;
}

bool
trial_choose_hosted(struct trial_rank *f)
{
	double all = 0, least, bytes;
	uint32_t i, w;

	trial_set_room(f);
	for (i = 0; i < f->n; i++, all += least) {
		const struct trial_ways *of = trial_ways_of(f, f->of[i]);

		least = INFINITY;
		for (w = 0; w < f->x->ways_of->at.n; w++) {
			bytes = trial_is_too_large(f, f->of[i], w) ? INFINITY
				: trial_then_bytes(f->x, f->of[i],
						   of->keeps[w].host);
			if (bytes < least) {
				least = bytes;
				f->x->choice[f->of[i]] = w;
			}
		}
	}
	return isfinite(all) && all <= f->x->share[f->rank];
}

/* What a stage has at least with any of its ways: without temporary bytes, and
 * with them. */
struct least {
	double own, both;
};

/*
 * Finds what each stage has at least: by programs for one sequence, or, given
 * what stages have by these, by those of the plan's lengths.  Then ways with
 * which the rank has more than `most` by the former are left out.
 */
static void
find_least(struct trial_rank *f, const struct least *sure, double most,
	   struct least *to)
{
	uint32_t n = f->x->ways_of->at.n, i, c;
	struct piece_bytes b;
	double others = 0, own, temp;

	for (i = 0; sure && i < f->n; i++) {
		others += sure[i].own;
	}
	for (i = 0; i < f->n; i++) {
		to[i] = (struct least){ INFINITY, INFINITY };
		for (c = 0; c < n; c++) {
			own = trial_sure_bytes(f, f->of[i], c);
			temp = trial_sure_of(f->x, f->of[i])[c].temp;
			if (sure && others - sure[i].own + own + temp > most) {
				continue;
			}
			if (sure) {
				made_bytes(f, f->of[i], c, &b);
				own = trial_own_bytes(f, f->of[i], &b);
				temp = b.temp;
			}
			to[i].own = lesser(to[i].own, own);
			to[i].both = lesser(to[i].both, own + temp);
		}
	}
}

/*
 * However slots are shared, those of a span take no less than what they have at
 * any one time: so the bytes of stages add up, and each has at least that of
 * its best way.  The function with most temporary bytes is of one stage, whose
 * own and temporary bytes are of one way.
 */
static double
least_then(const struct trial_rank *f, const struct least *at)
{
	double all = 0, temp = 0;
	uint32_t i;

	for (i = 0; i < f->n && isfinite(at[i].own); i++) {
		all += at[i].own;
		temp = larger(temp, at[i].both - at[i].own);
	}
	return i < f->n ? INFINITY : all + temp;	/* no way is left */
}

double
trial_least_bytes(struct trial_rank *f, enum trial_source from)
{
	struct least *at = arena_alloc(&f->tmp, f->n * sizeof *at);
	struct least *sure = NULL;
	double bytes;

	if (from == TRIAL_MADE) {
		sure = arena_alloc(&f->tmp, f->n * sizeof *sure);
		find_least(f, NULL, INFINITY, sure);
	}
	find_least(f, sure, f->free_bytes, at);
	bytes = least_then(f, at);
	arena_release(&f->tmp);
	return larger(bytes, f->x->update_temp[f->rank]);
}
