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

static void
add(struct fronts *f, const char *words)
{
	struct search_choice c = { .words = words };
	uint32_t i, k;

	for (i = 0; i < f->w->choices.n; i++) {
		if (strcmp(f->w->choices.at[i].words, words) == 0) {
			return;
		}
	}
	for (k = 0; k < f->n; k++) {
		struct front_point p;

		front_at(f->blocks[k], words, &p);
		c.extra_us[k] = p.extra_us;
		c.less[k] = f->plain[k] - p.bytes;
	}
	c.words = arena_strndup(f->s->a, words, strlen(words));
	VEC_PUSH(&f->s->keep, &f->w->choices, c);
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

/*
 * Sets the time that one more sequence adds in a microbatch: the slope to a
 * microbatch of the whole step, or if this is it, to one of one sequence.  A
 * mean would be wrong: launches, most of a small microbatch, do not grow.
 */
static void
price_sequences(struct fronts *f)
{
	const struct search_try *t = &f->w->at;
	struct ir_axis *time = &f->w->m->axes.at[f->p.r->time];
	int64_t all = t->microbatch * t->nmicrobatches;
	int64_t there = t->nmicrobatches > 1 ? all : 1;
	struct front_point p;
	uint32_t i, k;

	if (!f->p.r->time || all == 1) {
		return;
	}
	time->size = all / there;
	find_prices(f);
	for (k = 0; k < f->n; k++) {
		front_price(f->blocks[k]);
		for (i = 1; i < f->w->choices.n; i++) {
			struct search_choice *c = &f->w->choices.at[i];

			front_at(f->blocks[k], c->words, &p);
			c->sequence_us[k] = (p.extra_us - c->extra_us[k]) /
					    (double)(there - t->microbatch);
		}
	}
	time->size = t->nmicrobatches;
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
search_find_choices(struct search *s, struct search_placed *w)
{
	struct search_choice as_is = { .words = s->base.recompute };
	struct ir_module *m = w->m;
	struct ranks r = { .m = m };
	struct fronts f = {
		.s = s, .w = w,
		.p = { .r = &r, .m = m, .t = search_quickest(s),
		       .traits = &s->o->traits }
	};
	uint32_t i;

	VEC_PUSH(&s->keep, &w->choices, as_is);
	if (s->pinned[PIN_RECOMPUTE]) {
		return;
	}
	ranks_find_axes(&r);
	open_blocks(&f);
	if (f.n == s->nkinds) {	/* else blocks and kinds do not correspond */
		for (i = 0; i < f.n; i++) {
			add_front(&f, i);
		}
		price_sequences(&f);
	}
	qsort(w->choices.at + 1, w->choices.n - 1, sizeof *w->choices.at,
	      by_extra);
	arena_release(&w->ctx.tmp);
}
