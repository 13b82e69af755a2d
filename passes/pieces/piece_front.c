/*
 * The words for ways to recompute of a placement: points of the Pareto fronts
 * of all kinds of layers (pareto_front.h), by guessed prices of single nodes.
 * There are too many to price them all: the first are spread evenly, and more
 * are those next to ways that plans take.
 */
#include "passes/pieces/piece_parts.h"

#include <string.h>

#include "passes/recompute/pareto_front.h"

/* of a sharding, divided among its fronts */
#define MOST_CHOICES 24
/* of a front, between two neighbours, at a time */
#define MOST_BETWEEN 4

struct fronts {
	struct piece_store *s;
	struct piece_placed *w;
	struct pricing p;
	struct fuse *fuse;	/* kernels of the module, at any axis lengths */
	double *us;		/* by node: time to compute it again */
	node_id *at;		/* the blocks */
	uint32_t n;
	/* more words are those between words of this plan and their next */
	const struct plan *plan;
	struct piece_choices *more;
};

/* ---- time of a node ---- */

static const struct ir_node *
node(const struct fronts *f, const struct kernel *k, uint32_t i)
{
	return ir_node(f->w->m, k->nodes.at[i]);
}

/*
 * Divides the price of a kernel among its nodes: a contraction gets the time of
 * matrix units, all other nodes share the rest equally.
 */
static void
share(struct fronts *f, const struct kernel *k, const struct price_func *p)
{
	double own = p->us[PRICE_MATRIX] + p->us[PRICE_ATTENTION];
	double rest = p->total_us - own;
	uint32_t i, others = 0;

	for (i = 0; i < k->nodes.n; i++) {
		others += !ir_is(node(f, k, i)->op, IRF_CONTRACTS);
	}
	for (i = 0; i < k->nodes.n; i++) {
		f->us[k->nodes.at[i]] =
			ir_is(node(f, k, i)->op, IRF_CONTRACTS)
			? own + (others ? 0 : rest) : rest / others;
	}
}

static void
price_nodes(struct fronts *f, struct pricing *p, const struct kernel_list *l)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];
		struct price_func once = { 0 };

		if (k->body) {
			price_nodes(f, p, k->body);
		} else {
			price_kernel(p, k, &once);
			share(f, k, &once);
		}
	}
}

static double
node_us(void *user, node_id n)
{
	const struct fronts *f = user;

	return f->us[n];
}

/* ---- words ---- */

/* The number of these words; of as many as there are, if they are new. */
static uint32_t
find(const struct piece_placed *w, const char *words)
{
	uint32_t i;

	for (i = 0; i < w->words.n && strcmp(w->words.at[i], words) != 0; i++) {
	}
	return i;
}

/* Adds these words, unless they are there.  Their number. */
static uint32_t
add(struct fronts *f, const char *words)
{
	struct piece_placed *w = f->w;
	uint32_t i = find(w, words);

	if (i == w->words.n) {
		words = arena_strndup(&f->s->space->keep, words, strlen(words));
		VEC_PUSH(&f->s->space->keep, &w->words, words);
	}
	return i;
}

/*
 * Sets prices of nodes at the present axis lengths.  Only nodes inside the
 * blocks are priced, since only these are recomputed.
 */
static void
find_prices(struct fronts *f)
{
	struct ir_module *m = f->w->m;
	uint32_t k;

	f->us = arena_alloc(&f->w->ctx->tmp, m->nodes.n * sizeof *f->us);
	for (k = 0; k < f->n; k++) {
		region_id r = ir_node(m, f->at[k])->region;

		price_nodes(f, &f->p, kernels_inside(f->fuse, ir_model(m), r,
						     &f->w->ctx->tmp));
	}
}

/* Sets *x to at most so many points of a block's front; 0: to all. */
static void
open_front(struct fronts *f, uint32_t block, uint32_t most, struct front *x)
{
	struct front_prices prices = { node_us, NULL, f };

	front_find(front_open(f->w->m, f->at[block], &prices), most,
		   &f->w->ctx->tmp, x);
}

static void
add_front(struct fronts *f, uint32_t block)
{
	struct front x;
	uint32_t i;

	open_front(f, block, MOST_CHOICES / f->n, &x);
	f->w->leaves |= x.all > x.at.n || !x.exact;
	for (i = 0; i < x.at.n; i++) {
		add(f, x.at.at[i].recompute);
	}
}

/* Whether the way with these words is priced. */
static bool
is_known(const struct fronts *f, const char *words)
{
	uint32_t n = find(f->w, words), i;

	for (i = 0; i < f->more->more.n && f->more->more.at[i] != n; i++) {
	}
	return n < f->w->nfirst || i < f->more->more.n;
}

static bool
is_taken(const struct plan *p, const char *words)
{
	bool is = !p->recompute_of && strcmp(p->recompute, words) == 0;
	uint32_t i;

	for (i = 0; p->recompute_of && i < p->nstages && !is; i++) {
		is = strcmp(p->recompute_of[i], words) == 0;
	}
	return is;
}

/* Adds points lo < i < hi of a front, or some of them, spread evenly. */
static void
add_gap(struct fronts *f, const struct front *x, uint32_t lo, uint32_t hi)
{
	uint32_t all = hi - lo - 1, n = all < MOST_BETWEEN ? all : MOST_BETWEEN;
	uint32_t i, k;

	for (i = 0; i < n; i++) {
		k = add(f, x->at.at[lo + (i + 1) * (all + 1) / (n + 1)]
				.recompute);
		VEC_PUSH(&f->s->space->keep, &f->more->more, k);
	}
}

/*
 * Adds points between those that the plan takes and the next known ones, which
 * are more and less of the front.
 */
static void
add_between(struct fronts *f, uint32_t block)
{
	uint32_t i, last = UINT32_MAX;
	bool taken = false, was = false;
	struct front x;

	open_front(f, block, 0, &x);
	for (i = 0; i < x.at.n; i++) {
		if (!is_known(f, x.at.at[i].recompute)) {
			continue;
		}
		taken = is_taken(f->plan, x.at.at[i].recompute);
		if (last != UINT32_MAX && (taken || was)) {
			add_gap(f, &x, last, i);
		}
		was = taken;
		last = i;
	}
}

/*
 * Calls `see` for each block of w, with guessed prices of nodes for one
 * sequence.
 */
static void
each_front(struct fronts *f, const struct space_plan *one,
	   void (*see)(struct fronts *f, uint32_t block))
{
	struct piece_placed *w = f->w;
	const struct space *x = f->s->space;
	struct arena *a;
	struct ranks r;
	uint32_t i;

	piece_open_placed(f->s, w);
	piece_set_axes(w->m, one);
	a = &w->ctx->tmp;
	r = (struct ranks){ .m = w->m };
	f->p = (struct pricing){ .r = &r, .m = w->m, .t = space_quickest(x),
				 .traits = x->traits };
	ranks_find_axes(&r);
	f->n = front_blocks(w->m, a, &f->at);
	/* else blocks and kinds do not correspond */
	if (f->n == x->nkinds) {
		f->fuse = kernels_open(w->m, f->s->memo, a);
		find_prices(f);
		for (i = 0; i < f->n; i++) {
			see(f, i);
		}
	}
	arena_release(a);
	piece_set_axes(w->m, &w->at);
}

void
piece_find_words(struct piece_store *s, struct piece_placed *w,
		 const struct space_plan *one)
{
	struct fronts f = { .s = s, .w = w };

	each_front(&f, one, add_front);
}

void
piece_find_between(struct piece_store *s, struct piece_placed *w,
		   const struct space_plan *one, const struct plan *p,
		   struct piece_choices *x)
{
	struct fronts f = { .s = s, .w = w, .plan = p, .more = x };

	each_front(&f, one, add_between);
}
