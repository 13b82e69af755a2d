/*
 * The ways to recompute of a placement.  Candidates are the points of the
 * Pareto fronts of all kinds of layers (pareto_front.h), by guessed prices of
 * single nodes.  Their programs are then priced, since kernels compute some
 * values again for nothing, and ways that another one beats are dropped.
 */
#include "passes/search/search_parts.h"

#include <string.h>

#include "passes/recompute/pareto_front.h"

/* of a sharding, divided among its fronts */
#define MOST_CHOICES 24

struct fronts {
	struct search *s;
	struct search_placed *w;
	struct pricing p;
	struct fuse *fuse;	/* kernels of the module, at any axis lengths */
	double *us;		/* by node: time to compute it again */
	node_id *at;		/* the blocks */
	uint32_t n;
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

/* ---- ways ---- */

/* Adds these words, unless they are there. */
static void
add(struct fronts *f, const char *words)
{
	struct search_placed *w = f->w;
	uint32_t i;

	for (i = 0; i < w->words.n; i++) {
		if (strcmp(w->words.at[i], words) == 0) {
			return;
		}
	}
	words = arena_strndup(f->s->a, words, strlen(words));
	VEC_PUSH(&f->s->keep, &w->words, words);
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

	f->us = arena_alloc(&f->w->ctx.tmp, m->nodes.n * sizeof *f->us);
	for (k = 0; k < f->n; k++) {
		region_id r = ir_node(m, f->at[k])->region;

		price_nodes(f, &f->p, kernels_inside(f->fuse, ir_model(m), r,
						     &f->w->ctx.tmp));
	}
}

static void
add_front(struct fronts *f, uint32_t block)
{
	struct front_prices prices = { node_us, NULL, f };
	struct arena *a = &f->w->ctx.tmp;
	struct front x;
	uint32_t i;

	front_find(front_open(f->w->m, f->at[block], &prices),
		   MOST_CHOICES / f->n, a, &x);
	for (i = 0; i < x.at.n; i++) {
		add(f, x.at.at[i].recompute);
	}
}

void
search_find_words(struct search *s, struct search_placed *w)
{
	struct arena *a = &w->ctx.tmp;
	struct ranks r = { .m = w->m };
	struct fronts f = {
		.s = s, .w = w,
		.p = { .r = &r, .m = w->m, .t = search_quickest(s),
		       .traits = &s->o->traits }
	};
	uint32_t i;

	ranks_find_axes(&r);
	f.n = front_blocks(w->m, a, &f.at);
	if (f.n == s->nkinds) {	/* else blocks and kinds do not correspond */
		f.fuse = kernels_open(w->m, s->memo, a);
		find_prices(&f);
		for (i = 0; i < f.n; i++) {
			add_front(&f, i);
		}
	}
	arena_release(a);
}

/* ---- their order ---- */

double
search_choice_us(const struct search *s, const struct search_choice *c)
{
	return search_extra_us(s, c, 0, s->nlayers);
}

/* Whether x is no worse than y in anything. */
static bool
beats(const struct search *s, const struct search_choice *x,
      const struct search_choice *y)
{
	uint32_t k, i;

	for (k = 0; k < s->nkinds; k++) {
		if (x->extra_us[k] > y->extra_us[k]) {
			return false;
		}
		for (i = 0; i < SEARCH_NSPANS; i++) {
			if (x->less[i][k] < y->less[i][k]) {
				return false;
			}
		}
	}
	return x->temp <= y->temp;
}

static void
subtract(struct search_choice *x, const struct search_choice *y)
{
	uint32_t k, i;

	for (k = 0; k < SEARCH_MAX_KINDS; k++) {
		x->extra_us[k] -= y->extra_us[k];
		for (i = 0; i < SEARCH_NSPANS; i++) {
			x->less[i][k] -= y->less[i][k];
		}
	}
	x->temp -= y->temp;
}

void
search_rank_choices(const struct search *s, struct search_choices *x)
{
	struct search_choice *at = x->at.at, first;
	uint32_t n = 0, i, j;

	/* an insertion sort, so that words of one time keep their order */
	for (i = 1; i < x->at.n; i++) {
		struct search_choice c = at[i];

		for (j = i; j > 0 && search_choice_us(s, &at[j - 1]) >
				  search_choice_us(s, &c); j--) {
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
}
