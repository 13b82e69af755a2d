/*
 * The ways to recompute of a placement, of the words that piece_front.c finds.
 * Their programs are priced, since kernels compute some values again for
 * nothing, and ways that another one beats are dropped.
 */
#include "passes/pieces/piece_parts.h"

#include <math.h>
#include <string.h>

/* ---- their order ---- */

/* What a way adds to the time of all layers of the model. */
static double
choice_us(const struct space *s, const struct piece_choice *c)
{
	return piece_extra_us(s, c, 0, s->nlayers);
}

/* Whether x is no worse than y in anything. */
static bool
beats(const struct space *s, const struct piece_choice *x,
      const struct piece_choice *y)
{
	uint32_t k, i;

	for (k = 0; k < s->nkinds; k++) {
		if (x->extra_us[k] > y->extra_us[k]) {
			return false;
		}
		for (i = 0; i < SPACE_NSPANS; i++) {
			if (x->less[i][k] < y->less[i][k]) {
				return false;
			}
		}
	}
	return x->temp <= y->temp;
}

static void
subtract(struct piece_choice *x, const struct piece_choice *y)
{
	uint32_t k, i;

	for (k = 0; k < SPACE_MAX_KINDS; k++) {
		x->extra_us[k] -= y->extra_us[k];
		for (i = 0; i < SCHED_NKINDS; i++) {
			x->each[i][k].us -= y->each[i][k].us;
			x->each[i][k].saves_us -= y->each[i][k].saves_us;
			x->each[i][k].params_us -= y->each[i][k].params_us;
			x->each[i][k].drives_us -= y->each[i][k].drives_us;
		}
		for (i = 0; i < SPACE_NSPANS; i++) {
			x->less[i][k] -= y->less[i][k];
		}
	}
	x->temp -= y->temp;
}

/*
 * Sorts ways by their time.  Drops those that another way is no worse than, in
 * time and bytes of each kind and in temporary bytes; the others' times are
 * then against the first, which it returns as it was.
 */
static struct piece_choice
rank_choices(const struct space *s, struct piece_choices *x)
{
	struct piece_choice *at = x->at.at, first;
	uint32_t n = 0, i, j;

	/* an insertion sort, so that words of one time keep their order */
	for (i = 1; i < x->at.n; i++) {
		struct piece_choice c = at[i];

		for (j = i; j > 0 && choice_us(s, &at[j - 1]) >
		     choice_us(s, &c); j--) {
			at[j] = at[j - 1];
		}
		at[j] = c;
	}
	for (i = 0; i < x->at.n; i++) {
		for (j = 0; j < n && !beats(s, &at[j], &at[i]); j++) {
		}
		if (j == n) {
			at[n++] = at[i];
		}
	}
	x->at.n = n;
	for (i = 0, first = at[0]; i < n; i++) {
		subtract(&at[i], &first);
	}
	return first;
}

/* ---- ways, priced ---- */

/*
 * One sequence, on the fewest data ranks that the placement may have: lengths
 * that do not depend on which of its plans asks first.
 */
static struct space_plan
one_sequence(const struct piece_store *s, const struct space_plan *t)
{
	struct space_plan one = *t;
	uint32_t i;

	for (i = 0; i < s->space->degrees.n; i++) {
		const struct space_degrees *g = &s->space->degrees.at[i];
		const struct space_degrees *h = one.g;

		if (space_same_sharding(g, h) &&
		    (g->dp > 1) == (h->dp > 1) &&
		    (g->dp < h->dp || (g->dp == h->dp && g->pp < h->pp))) {
			one.g = g;
		}
	}
	one.microbatch = 1;
	one.nmicrobatches = space_microbatches(s->space, one.g, 1);
	return one;
}

/*
 * The pieces that show what a layer of kind k costs; those of the ends do where
 * they have all layers of that kind.
 */
static uint32_t
piece_of_kind(const struct piece_store *s, const struct piece_placed *w,
	      uint32_t k)
{
	uint32_t i;

	for (i = 0; i < w->nstages; i++) {
		if (w->piece_of[i] == PIECE_BODY + k) {
			return PIECE_BODY + k;
		}
	}
	return k + 1 < s->space->nkinds || w->nstages < 2 ? PIECE_FIRST
							  : PIECE_LAST;
}

/*
 * Sets what a layer of each kind takes and keeps.  A pipeline that is one piece
 * has one stage, so its layers need not be told apart.
 */
static void
set_choice(const struct piece_store *s, const struct piece_placed *w,
	   const struct piece_bytes *bytes,
	   const struct price_func (*fn)[SCHED_NKINDS],
	   struct piece_choice *to)
{
	uint32_t k, i;

	for (k = 0; k < s->space->nkinds; k++) {
		uint32_t p = piece_of_kind(s, w, k);
		const struct piece_bytes *b = &bytes[p];
		double n = w->key.solo ? (double)s->space->nlayers : 1;

		for (i = 0; i < SCHED_NKINDS; i++) {
			const struct price_func *f = &fn[p][i];

			to->each[i][k] = (struct piece_each){
				price_shown_us(s->space->traits, f) / n,
				f->saves_us / n, f->params_us / n,
				f->drives_us / n
			};
			to->extra_us[k] += to->each[i][k].us;
		}
		for (i = 0; i < SPACE_NSPANS; i++) {
			to->less[i][k] -= b->slot[i] / n;
		}
		for (i = 0; i < MEMORY_NSPANS; i++) {
			to->grows[i][k] = b->grows[i] / n;
			to->stays[i][k] = b->stays[i] / n;
		}
		to->inside_grows[k] = b->inside_grows;
		to->inside_stays[k] = b->inside_stays;
		to->temp_grows[k] = b->temp_grows;
		to->temp_stays[k] = b->temp_stays;
		to->sends_grow[0][k] = b->sends_grow[0];
		to->sends_grow[1][k] = b->sends_grow[1];
		to->temp = fmax(to->temp, b->temp);
	}
}

/*
 * Ways add saves, and remove those that can be recomputed: all others are in
 * the program of any way as they are in the one as pinned.
 */
void
piece_find_kept(struct piece_store *s, const struct piece_key *key,
		const struct space_plan *t, struct piece_kept *to)
{
	struct piece_sharding *w = piece_sharding_of(s, key, t);
	uint32_t k, i;

	memset(to, 0, sizeof *to);
	for (k = 0; k < s->space->nkinds && piece_measure_sharding(s, w); k++) {
		const struct piece_bytes *b =
			&w->bytes[piece_of_kind(s, w->on, k)];
		double n = key->solo ? (double)s->space->nlayers : 1;

		n *= (double)w->at.microbatch;
		for (i = 0; i < SPACE_NSPANS; i++) {
			to->bytes[i][k] = b->kept[i] / n;
		}
	}
}

/* Sets what the program as pinned takes at least. */
static void
find_pinned_maps(struct piece_store *s, struct piece_placed *w,
		 const struct piece_key *key, const struct space_plan *one,
		 struct piece_choice *to)
{
	struct piece_sharding *x = piece_sharding_of(s, key, one);
	struct piece_kernels *list;

	piece_reopen(s, x);
	piece_set_axes(x->m, one);
	list = piece_stage_kernels(s, x, one->microbatch, one->g->dp);
	kernels_some(x->fuse, x->r.of_stage[0], w->nstages * SCHED_NKINDS,
		     &list->mem, list->of);
	piece_find_maps(s, x, list->of, to->maps);
}

/*
 * Prices the program as pinned, for one sequence: its pieces are priced and
 * measured as those of plans are.  False: a pass refuses it.
 */
static bool
price_pinned(struct piece_store *s, struct piece_placed *w,
	     const struct piece_key *key, const struct space_plan *one,
	     struct piece_choice *to)
{
	struct piece_cost *c = piece_cost_of(s, key, one);
	struct price_func fn[PIECE_MAX][SCHED_NKINDS];
	uint32_t i, k;

	if (c && w->words.n > 1) {
		find_pinned_maps(s, w, key, one, to);
		piece_measure(s, key, one, c);
		piece_price(s, key, one, c, 0);
		for (i = 0; i < c->on[0]->n; i++) {
			for (k = 0; k < SCHED_NKINDS; k++) {
				fn[i][k] = *piece_fn(c->on[0], i, k);
			}
		}
		set_choice(s, w, c->bytes,
			   (const struct price_func (*)[SCHED_NKINDS])fn, to);
	}
	return c != NULL;
}

/*
 * Prices another way for one sequence, by the pieces that show what layers
 * cost alone: few ways are taken by a plan, and only then are all pieces of
 * their programs made.  False: a pass refuses it.
 */
static bool
price_way(struct piece_store *s, struct piece_placed *w,
	  const struct piece_key *key, const struct space_plan *one,
	  struct piece_choice *to)
{
	struct piece_sharding *x = piece_way_of(s, key, one);
	struct piece_shown show = { .shown = { false } };
	uint32_t k;

	for (k = 0; k < s->space->nkinds; k++) {
		show.shown[piece_of_kind(s, w, k)] = true;
	}
	if (x->bad || !piece_show(s, x, one, &show, to->maps)) {
		return false;
	}
	set_choice(s, w, show.bytes,
		   (const struct price_func (*)[SCHED_NKINDS])show.fn, to);
	return true;
}

/*
 * Leaves in `maps` of a way what it computes again: what its backward has more
 * than that of `none`, which recomputes nothing.  NULL: there is none.
 */
static void
subtract_maps(struct piece_choice *c, const struct piece_choice *none)
{
	uint32_t i, k;

	for (i = 0; i < SPACE_MAX_KINDS; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			struct piece_maps *x = &c->maps[i][k];

			x->again_us = !none ? 0 : fmax(x->again_us -
				none->maps[i][k].again_us, 0);
		}
	}
}

static void
lower(struct piece_maps *to, const struct piece_maps *x)
{
	to->starts_us = fmin(to->starts_us, x->starts_us);
	to->bytes_us = fmin(to->bytes_us, x->bytes_us);
	to->again_us = fmin(to->again_us, x->again_us);
}

/* Sets what all ways take at least, once they are known. */
static void
find_least_maps(struct piece_choices *x)
{
	struct piece_choice none = x->at.at[0];
	uint32_t n, i, k;

	for (n = x->at.n; n-- > 0; ) {
		subtract_maps(&x->at.at[n], none.nth == 0 ? &none : NULL);
	}
	memcpy(x->maps, x->at.at[0].maps, sizeof x->maps);
	for (n = 1; n < x->at.n; n++) {
		for (i = 0; i < SPACE_MAX_KINDS; i++) {
			for (k = 0; k < SCHED_NKINDS; k++) {
				lower(&x->maps[i][k], &x->at.at[n].maps[i][k]);
			}
		}
	}
}

/*
 * Prices all ways whose words are known, and keeps those that no other one
 * beats.  That is most of them: words are points of fronts of bytes and guessed
 * time already, so another one is rarely better in both once it is priced.
 */
static void
price_ways(struct piece_store *s, struct piece_placed *w,
	   const struct piece_key *key, const struct space_plan *one,
	   struct piece_choices *x)
{
	struct piece_key k = *key;
	struct arena a;
	uint32_t i;

	arena_init(&a, &s->space->m->ctx->mem);
	VEC_RESERVE(&a, &x->at, w->nfirst);
	for (i = 0; i < w->nfirst; i++) {
		struct piece_choice to = { .words = w->words.at[i], .nth = i };

		k.choice = i;
		if (i ? price_way(s, w, &k, one, &to)
		      : price_pinned(s, w, &k, one, &to)) {
			VEC_PUSH(&a, &x->at, to);
		}
	}
	if (x->at.n) {
		find_least_maps(x);
		/* the one as pinned comes first, unless a pass refuses it */
		x->plain = x->at.at[0];
		x->first = rank_choices(s->space, x);
		subtract(&x->plain, &x->first);
	}
	x->at.cap = x->at.n;
	x->at.at = arena_dup(&s->space->keep, x->at.at,
			     x->at.n * sizeof *x->at.at);
	arena_release(&a);
}

/* Those of a placement, for all lengths. */
static const struct piece_choices *
find_choices(struct piece_store *s, struct piece_placed *w,
	     const struct piece_key *key, const struct space_plan *t)
{
	struct space_plan one = one_sequence(s, t);
	struct piece_choices *x = &w->choices[key->split];

	if (x->at.n) {
		return x;
	}
	if (!w->nfirst) {
		if (!s->space->pinned[SPACE_PIN_RECOMPUTE]) {
			piece_find_words(s, w, &one);
		}
		w->nfirst = w->words.n;
	}
	x->leaves = w->leaves;
	price_ways(s, w, key, &one, x);
	return x;
}

const struct piece_choices *
piece_choices_of(struct piece_store *s, const struct piece_key *key,
		 const struct space_plan *t)
{
	struct piece_placed *w = piece_sharding_of(s, key, t)->on->like;
	const struct piece_choices *x = find_choices(s, w, key, t);

	return x->at.n ? x : NULL;
}

/* ---- more ways ---- */

/*
 * Prices those from the i-th of x->more on.  What they compute again counts as
 * nothing in their maps, which is a bound.
 */
static void
price_more(struct piece_store *s, struct piece_placed *w,
	   const struct piece_key *key, const struct space_plan *one,
	   struct piece_choices *x, uint32_t i)
{
	struct piece_key k = *key;
	struct piece_choice first = x->first, none = { NULL };
	uint32_t n, kind;

	for (; i < x->more.n; i++) {
		struct piece_choice to = {
			.words = w->words.at[x->more.at[i]],
			.nth = x->more.at[i]
		};

		k.choice = to.nth;
		if (!price_way(s, w, &k, one, &to)) {
			continue;
		}
		subtract(&to, &first);
		subtract_maps(&to, NULL);
		for (n = 0; n < SPACE_MAX_KINDS; n++) {
			for (kind = 0; kind < SCHED_NKINDS; kind++) {
				lower(&x->maps[n][kind], &to.maps[n][kind]);
			}
		}
		VEC_PUSH(&s->space->keep, &x->at, to);
	}
	first = rank_choices(s->space, x);
	subtract(&none, &first);
	subtract(&x->first, &none);
	subtract(&x->plain, &first);
}

uint32_t
piece_widen(struct piece_store *s, const struct piece_key *key,
	    const struct space_plan *t, const struct plan *p)
{
	struct piece_placed *w = piece_sharding_of(s, key, t)->on->like;
	struct space_plan one = one_sequence(s, t);
	struct piece_choices *x = &w->choices[key->split];
	uint32_t was = x->more.n;

	if (find_choices(s, w, key, t)->at.n < 2) {
		return 0;
	}
	piece_find_between(s, w, &one, p, x);
	price_more(s, w, key, &one, x, was);
	return x->more.n - was;
}

/*
 * Frees the programs of all ways but the quickest: plans take few of the
 * others, and those are made again.
 */
static void
drop_slower(struct piece_store *s, struct piece_placed *w,
	    const struct piece_key *key, const struct piece_choices *x)
{
	const struct piece_choice *quickest = &x->at.at[0];
	struct piece_sharding *y;
	uint32_t i;

	for (i = 1; i < x->at.n; i++) {
		if (choice_us(s->space, &x->at.at[i]) <
		    choice_us(s->space, quickest)) {
			quickest = &x->at.at[i];
		}
	}
	for (y = w->shardings; y; y = y->next) {
		if (y->key.choice != quickest->nth && y->key.choice &&
		    y->key.split == key->split) {
			piece_drop_sharding(s, y);
		}
	}
}

void
piece_drop_ways(struct piece_store *s, const struct piece_key *key,
		const struct space_plan *t)
{
	struct piece_placed *w = piece_sharding_of(s, key, t)->on->like;

	drop_slower(s, w, key, &w->choices[key->split]);
}
