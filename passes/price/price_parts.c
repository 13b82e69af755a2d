/*
 * In how many parts pairs of a collective and a contraction run.  Smaller
 * kernels are less efficient, and each part has its own launch and latency, but
 * only one part's communication is not overlapped.  A list is priced with each
 * number of parts, pair after pair, as price.c will price it.
 */
#include "passes/price/price.h"

#include <string.h>

/* A list, the time of each of its kernels, and of one run. */
struct parts_choice {
	struct pricing *p;
	struct kernel_list *l;
	struct price_func *each;	/* NULL: not priced */
	double us, beside_us;
	struct price_clocks before;	/* until the current pair */
	struct price_clocks now;
};

static void
price_at(struct parts_choice *c, uint32_t i)
{
	const struct kernel *k = &c->l->at.at[i];

	memset(&c->each[i], 0, sizeof c->each[i]);
	if (k->body) {
		price_list(c->p, k->body, &c->each[i]);
	} else {
		price_kernel(c->p, k, &c->each[i]);
	}
}

/* The time of one run, as the list is now. */
static double
run_list(struct parts_choice *c, double *beside_us)
{
	price_clocks_set(&c->now, &c->before);
	price_clocks_run(&c->now, c->p, c->l, c->each, c->l->at.n);
	*beside_us = price_clocks_beside(&c->now, c->p);
	return c->now.sum - *beside_us * (1 - PRICE_SLOWED);
}

/*
 * Sets the quickest of 2, 4, 8 parts and so on, if it is quicker than one.
 * Kernels before the pair run as they did.
 */
static void
choose_pair(struct parts_choice *c, uint32_t coll, uint32_t dot)
{
	struct price_func colls = c->each[coll], dots = c->each[dot];
	struct kernel_parts best = { 0 }, x, had = { 0 };
	double us, beside_us;
	bool fits = false;
	uint32_t n;

	price_clocks_run(&c->before, c->p, c->l, c->each,
			 coll < dot ? coll : dot);
	for (n = 2; n <= KERNEL_MAX_PARTS; n *= 2) {
		if (!parts_cut(c->p->m, &c->l->at.at[coll], n, &x)) {
			continue;
		}
		if (!parts_alike(&x, &had)) {
			fits = parts_fit(c->p->m, &c->l->at.at[coll],
					 &c->l->at.at[dot], &x);
			had = x;
		}
		if (!fits) {
			continue;
		}
		parts_set(c->l, coll, dot, &x);
		price_at(c, coll);
		price_at(c, dot);
		us = run_list(c, &beside_us);
		if (us < c->us) {
			c->us = us;
			c->beside_us = beside_us;
			best = x;
			colls = c->each[coll];
			dots = c->each[dot];
		}
	}
	if (best.n) {
		parts_set(c->l, coll, dot,
			  arena_dup(c->l->arena, &best, sizeof best));
	} else {
		parts_clear(c->l, coll, dot);
	}
	c->each[coll] = colls;
	c->each[dot] = dots;
}

/* Undoes what was chosen for another target; an attribute `chunks` stays. */
static void
clear_chosen(const struct ir_module *m, struct kernel_list *l)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->kind == KERNEL_COLLECTIVE && k->parts &&
		    !ir_attr(m, ir_node(m, k->nodes.at[0]),
			     IR_ATTR_CHUNKS)) {
			parts_clear(l, i, parts_led(l, i) ? i - 1 : k->until);
		}
	}
}

static void
price_all(struct parts_choice *c)
{
	struct arena *tmp = &c->p->m->ctx->tmp;
	uint32_t i;

	c->each = arena_alloc_raw(tmp, c->l->at.n * sizeof *c->each);
	for (i = 0; i < c->l->at.n; i++) {
		price_at(c, i);
	}
	price_clocks_open(&c->before, c->l, tmp);
	price_clocks_open(&c->now, c->l, tmp);
	c->us = run_list(c, &c->beside_us);
}

/* False: no pair can run in parts, so *once, the price of one run, is unset. */
static bool
choose_list(struct pricing *p, struct kernel_list *l, struct price_func *once)
{
	struct parts_choice c = { .p = p, .l = l };
	uint32_t i, dot;

	for (i = 0; i < l->at.n; i++) {
		if (!parts_pair(p->m, l, i, &dot)) {
			continue;
		}
		if (!c.each) {
			price_all(&c);
		}
		choose_pair(&c, i, dot);
	}
	if (c.each) {
		price_sum(p, l, c.each, c.beside_us, once);
		price_link(p, l, once);
	}
	return c.each != NULL;
}

/* n parts for each pair that can have them. */
static void
set_all(struct ir_module *m, uint32_t n, struct kernel_list *l)
{
	struct kernel_parts x;
	uint32_t i, dot;

	for (i = 0; i < l->at.n; i++) {
		if (parts_pair(m, l, i, &dot) &&
		    parts_of(m, &l->at.at[i], &l->at.at[dot], n, &x)) {
			parts_set(l, i, dot, arena_dup(l->arena, &x,
						       sizeof x));
		}
	}
}

/*
 * Outside of repeats nothing overlaps (price_once of price.c), so parts are set
 * there only if their number is given.
 */
static void
choose_inside(struct pricing *p, int64_t chunks, bool repeats,
	      struct kernel_list *l)
{
	struct price_func once = { 0 };
	bool priced = false, has_key;
	struct hash key;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		if (l->at.at[i].body) {
			choose_inside(p, chunks, true, l->at.at[i].body);
		}
	}
	clear_chosen(p->m, l);
	has_key = repeats && price_key(p, l, &key);
	if (has_key && price_recall_parts(p, key, l)) {
		return;
	}
	if (chunks > 1) {
		set_all(p->m, (uint32_t)chunks, l);
	} else if (!chunks && p->t && repeats && price_ours(p->traits)) {
		priced = choose_list(p, l, &once);
	}
	if (has_key) {
		price_remember_parts(p, key, l);
	}
	if (has_key && priced) {
		price_remember(p, key, l, &once);
	}
}

void
price_choose_parts(struct pricing *p, int64_t chunks, struct kernel_list *l)
{
	choose_inside(p, chunks, false, l);
}
