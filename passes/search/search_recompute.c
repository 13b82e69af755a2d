/*
 * Finds the ways to recompute among which the search chooses for each stage.
 * They are the points of the Pareto fronts of all kinds of layers
 * (pareto_front.h); each is priced for every kind, since a stage may hold
 * several.
 */
#include "passes/search/search_parts.h"

#include <stdlib.h>
#include <string.h>

#include "passes/search/pareto_front.h"

/* of a sharding, divided among its fronts */
#define MOST_CHOICES 24

struct fronts {
	struct search *s;
	struct search_placed *w;
	struct search_cost *c;	/* receives the choices */
	struct pricing p;
	struct fuse *fuse;	/* kernels of the module, at any axis lengths */
	struct front_prices prices;
	double *us;		/* by node: time to compute it again */
	node_id *at;		/* the blocks */
	struct front_block **blocks;
	double *plain;		/* by block: bytes without recomputing */
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

/* ---- choices ---- */

/* The index of these words in w->words, which gets them if it has not. */
static uint32_t
nth_words(struct fronts *f, const char *words)
{
	struct search_placed *w = f->w;
	uint32_t i;

	for (i = 0; i < w->words.n; i++) {
		if (strcmp(w->words.at[i], words) == 0) {
			return i;
		}
	}
	words = arena_strndup(f->s->a, words, strlen(words));
	VEC_PUSH(&f->s->keep, &w->words, words);
	return i;
}

static void
add(struct fronts *f, const char *words)
{
	struct search_choice c = { .nth = nth_words(f, words) };
	uint32_t i, k;

	for (i = 0; i < f->c->choices.n; i++) {
		if (f->c->choices.at[i].nth == c.nth) {
			return;
		}
	}
	for (k = 0; k < f->n; k++) {
		struct front_point p;

		front_at(f->blocks[k], words, &p);
		c.extra_us[k] = p.extra_us;
		c.less[k] = f->plain[k] - p.bytes;
	}
	c.words = f->w->words.at[c.nth];
	VEC_PUSH(&f->s->keep, &f->c->choices, c);
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

	memset(f->us, 0, m->nodes.n * sizeof *f->us);
	for (k = 0; k < f->n; k++) {
		region_id r = ir_node(m, f->at[k])->region;

		price_nodes(f, &f->p, kernels_inside(f->fuse, ir_model(m), r,
						     &f->w->ctx.tmp));
	}
}

static void
open_blocks(struct fronts *f)
{
	struct ir_module *m = f->w->m;
	struct arena *a = &f->w->ctx.tmp;
	struct front_point none;
	uint32_t k;

	f->n = front_blocks(m, a, &f->at);
	f->us = arena_alloc_raw(a, m->nodes.n * sizeof *f->us);
	f->fuse = kernels_open(m, f->s->memo, a);
	find_prices(f);
	f->prices = (struct front_prices){ node_us, NULL, f };
	f->blocks = arena_alloc(a, f->n * sizeof *f->blocks);
	f->plain = arena_alloc(a, f->n * sizeof *f->plain);
	for (k = 0; k < f->n; k++) {
		f->blocks[k] = front_open(m, f->at[k], &f->prices);
		front_at(f->blocks[k], "none", &none);
		f->plain[k] = none.bytes;
	}
}

static void
add_front(struct fronts *f, uint32_t block)
{
	struct front x;
	uint32_t most = MOST_CHOICES / (f->n ? f->n : 1), i;

	front_find(f->blocks[block], most, &f->w->ctx.tmp, &x);
	for (i = 0; i < x.at.n; i++) {
		add(f, x.at.at[i].recompute);
	}
}

static double
extra(const struct search_choice *c)
{
	double us = 0;
	int k;

	for (k = 0; k < SEARCH_MAX_KINDS; k++) {
		us += c->extra_us[k];
	}
	return us;
}

static int
by_extra(const void *a, const void *b)
{
	double x = extra(a), y = extra(b);

	return x != y ? (x < y ? -1 : 1)
		: strcmp(((const struct search_choice *)a)->words,
			 ((const struct search_choice *)b)->words);
}

void
search_find_choices(struct search *s, struct search_placed *w,
		    struct search_cost *c)
{
	struct search_choice as_is = { .words = s->base.recompute };
	struct ranks r = { .m = w->m };
	struct fronts f = {
		.s = s, .w = w, .c = c,
		.p = { .r = &r, .m = w->m, .t = search_quickest(s),
		       .traits = &s->o->traits }
	};
	uint32_t i;

	VEC_PUSH(&s->keep, &c->choices, as_is);
	if (s->pinned[PIN_RECOMPUTE]) {
		return;
	}
	ranks_find_axes(&r);
	open_blocks(&f);
	if (f.n == s->nkinds) {	/* else blocks and kinds do not correspond */
		for (i = 0; i < f.n; i++) {
			add_front(&f, i);
		}
	}
	qsort(c->choices.at + 1, c->choices.n - 1, sizeof *c->choices.at,
	      by_extra);
	arena_release(&w->ctx.tmp);
}
