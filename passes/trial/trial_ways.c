/*
 * How the stages of a rank recompute: what each way takes and keeps, and what
 * any ways keep at least.  Used by trial_fit.c and trial_choose.c.
 */
#include "passes/trial/trial_fit.h"

#include <math.h>

/* ---- what ways take and keep ---- */

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
	b->temp = larger(b->temp + times * c->temp, 0);
	for (k = 0; k < SPACE_NSPANS; k++) {
		b->slot[k] = larger(b->slot[k] - times * piece_saved_bytes(
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
	uint32_t offload = x->key.offload & ~(uint32_t)PLAN_OFFLOAD_SAVES, k;
	const struct space *s = &x->s->space;
	double mb = (double)x->t->microbatch, us = 0;

	for (k = 0; k < SCHED_NKINDS; k++) {
		struct piece_each is = piece_extra_each(s, way, k, lo, hi);
		struct piece_each was = piece_extra_each(s, &x->ways_of->plain,
							 k, lo, hi);
		struct price_func g = f[k];
		double own = price_shown_us(&x->s->o->traits, &g);

		g.params_us += is.params_us - was.params_us;
		g.drives_us += is.drives_us - was.drives_us;
		us += fmax(own + mb * (is.us - was.us),
			   price_link_us(&g, offload));
	}
	return us;
}

/*
 * Sets what each way of a stage takes more than the first, as the programs for
 * one sequence say: of kernels, and if parameters are on hosts, of what the
 * link does not hide.
 */
static void
set_us(struct trial *x, uint32_t stage, double *us)
{
	bool streams = x->key.offload & PLAN_OFFLOAD_PARAMS;
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	const struct piece_choice *way = x->ways_of->at.at;
	uint32_t dev = x->dev_of[stage], i;
	struct price_func f[SCHED_NKINDS];
	double first_us = 0;

	if (streams) {
		piece_price(&x->s->pieces, &x->key, x->t, x->cost, dev);
		piece_stage_price(&x->s->space, x->cost, dev, lo, hi, f);
		first_us = linked_us(x, f, way, lo, hi);
	}
	for (i = 0; i < x->ways_of->at.n; i++) {
		us[i] = streams ? linked_us(x, f, &way[i], lo, hi) - first_us
			: (double)x->t->microbatch *
			  piece_extra_us(&x->s->space, &way[i], lo, hi);
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
			all += b->slot[k];
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
 * What a stage keeps at least with a way, as the program for one sequence is.
 * What is recomputed is in layers: after them, all ways save the same.
 */
static void
set_sure(const struct trial_rank *f, uint32_t stage, uint32_t way,
	 struct piece_bytes *b)
{
	const struct trial *x = f->x;
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	uint32_t k;

	piece_least_bytes(&x->s->space, &x->ways_of->at.at[way], lo, hi,
			  x->key.solo, (double)x->t->microbatch, b);
	for (k = 0; x->plain && k < SPACE_NSPANS; k++) {
		b->top[k] += x->plain[stage].end[k];
	}
}

static double
sent_bytes(const struct trial_rank *f, const struct piece_bytes *b)
{
	double copies = f->x->t->nmicrobatches > 1 ? 2 : 1;

	return copies * (b->sends[0] + b->sends[1]);
}

double
trial_own_bytes(const struct trial_rank *f, uint32_t stage,
		const struct piece_bytes *b)
{
	return trial_then_bytes(f->x, stage, b->slot) +
	       trial_then_bytes(f->x, stage, b->top) + sent_bytes(f, b);
}

double
trial_sure_bytes(const struct trial_rank *f, uint32_t stage, uint32_t way)
{
	struct piece_bytes b;

	set_sure(f, stage, way, &b);
	return trial_own_bytes(f, stage, &b);
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
	double others = 0, own;

	for (i = 0; sure && i < f->n; i++) {
		others += sure[i].own;
	}
	for (i = 0; i < f->n; i++) {
		to[i] = (struct least){ INFINITY, INFINITY };
		for (c = 0; c < n; c++) {
			set_sure(f, f->of[i], c, &b);
			if (sure && others - sure[i].own +
			    trial_own_bytes(f, f->of[i], &b) > most) {
				continue;
			}
			if (sure) {
				made_bytes(f, f->of[i], c, &b);
			}
			own = trial_own_bytes(f, f->of[i], &b);
			to[i].own = lesser(to[i].own, own);
			to[i].both = lesser(to[i].both, own + b.temp);
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
