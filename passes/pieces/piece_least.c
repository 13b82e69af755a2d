/*
 * What pieces take at least, whatever they recompute, from the program that
 * recomputes nothing.
 *
 * Proof.  Pass `recompute` runs after `place`.  It adds copies of forward nodes
 * to backward repeats, it adds and removes saves, and it removes forward nodes
 * that only removed saves needed.  So the program of every way to recompute has
 * all nodes of backward, and those of forward that a result or a message of
 * forward needs, each in the same list: the functions of a stage follow from
 * the nodes that use a value, and no copy is used by forward nor by more of
 * backward than what it replaces.  A contraction, attention or collective of
 * these takes at least price_least, however it is fused then; and a list that
 * has all of them, with the same ranks, at least price_least_us.
 */
#include "passes/pieces/piece_parts.h"

#include <string.h>

/* ---- what no way to recompute removes ---- */

/* By value of a function: whether a result or a message of it needs it. */
struct needed {
	const struct ir_module *m;
	bool *value;
};

static bool
has_needed(const struct needed *x, const struct ir_node *n)
{
	uint32_t i;

	if (n->region || (ir_is(n->op, IRF_SINK) &&
			  !ir_is(n->op, IRF_STASH))) {
		return true;
	}
	for (i = 0; i < n->nresults && !ir_is(n->op, IRF_SINK); i++) {
		if (x->value[n->result + i]) {
			return true;
		}
	}
	return false;
}

/* All that a repeat carries on counts as needed. */
static void
mark_region(struct needed *x, region_id id)
{
	const struct ir_region *r = &x->m->regions.at[id];
	uint32_t i, k;

	for (i = 0; i < r->results.n; i++) {
		x->value[r->results.at[i]] = true;
	}
	for (i = r->nodes.n; i-- > 0; ) {
		const struct ir_node *n = ir_node(x->m, r->nodes.at[i]);

		if (n->region) {
			mark_region(x, n->region);
		}
		for (k = 0; k < n->nargs && has_needed(x, n); k++) {
			x->value[ir_args(x->m, n)[k]] = true;
		}
	}
}

/*
 * Whether all collectives of a kernel are needed, or its contraction or
 * attention.
 */
static bool
is_needed(const struct needed *x, const struct kernel *k)
{
	bool any = false;
	uint32_t i;

	if (!x->value) {
		return true;
	}
	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(x->m, k->nodes.at[i]);
		bool is = has_needed(x, n);

		if (k->kind == KERNEL_COLLECTIVE && !is) {
			return false;
		}
		any |= is && (k->kind == KERNEL_COLLECTIVE ||
			      ir_is(n->op, IRF_CONTRACTS | IRF_PAIRS));
	}
	return any;
}

/* ---- lists ---- */

/* Adds the kernels of a list, with those of repeats in it. */
static void
add_all(struct pricing *p, const struct needed *x, const struct kernel_list *l,
	double times, struct price_least *f, bool *nested)
{
	struct price_least once = { 0, 0 };
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body) {
			*nested = true;
			add_all(p, x, k->body, (double)k->body->count, &once,
				nested);
		} else if (is_needed(x, k)) {
			price_least(p, k, &once);
		}
	}
	f->kernels_us += times * once.kernels_us;
	f->colls_us += times * once.colls_us;
}

/* One run of a repeat. */
static double
body_us(struct pricing *p, const struct needed *x, const struct kernel_list *l)
{
	struct price_least f = { 0, 0 };
	bool nested = false;

	add_all(p, x, l, 1, &f, &nested);
	return price_least_us(p, &f, nested ? PRICE_IN_NEST : PRICE_IN_BODY);
}

/*
 * Adds a function, of a piece of layers divided among these: *top gets what is
 * outside of repeats, and *body one layer.
 */
static void
add_function(struct pricing *p, const struct needed *x,
	     const struct kernel_list *l, double layers, double *top,
	     double *body)
{
	struct price_least f = { 0, 0 };
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body) {
			*body += body_us(p, x, k->body) / layers *
				 (double)k->body->count;
		} else if (is_needed(x, k)) {
			price_least(p, k, &f);
		}
	}
	*top += price_least_us(p, &f, PRICE_IN_TOP);
}

/* ---- pieces ---- */

void
piece_find_least(struct piece_sharding *w, const struct piece_kernels *list,
		 struct pricing *p, double (*to)[SCHED_NKINDS])
{
	struct needed x = { w->m, NULL };
	bool *value = arena_alloc(&w->ctx.tmp, w->m->values.n + 1);
	double spare = 0;
	uint32_t i, k;

	for (i = 0; i < w->on->nstages; i++) {
		uint32_t piece = w->on->piece_of[i];
		bool layers = piece >= PIECE_BODY;

		for (k = 0; k < SCHED_NKINDS; k++) {
			func_id f = w->r.of_stage[i][k];
			/* as piece_cost.c: the first piece sets PIECE_TOP */
			double *top = !layers ? &to[piece][k]
				: i > 1 ? &spare : &to[PIECE_TOP][k];

			x.value = k == SCHED_F ? value : NULL;
			if (f && x.value) {
				mark_region(&x, w->m->funcs.at[f].body);
			}
			if (f) {
				add_function(p, &x, list->of[f]->top,
					layers ? (double)w->on->iterations[i]
					       : 1, top, &to[piece][k]);
			}
		}
	}
}

void
piece_stage_least(const struct space *s, const struct piece_cost *c,
		  uint32_t dev, int64_t lo, int64_t hi,
		  double out[SCHED_NKINDS])
{
	double n[PIECE_MAX];
	uint32_t i, k;

	piece_count(s, lo, hi, n);
	memset(out, 0, SCHED_NKINDS * sizeof *out);
	for (i = 0; i < PIECE_BODY + s->nkinds; i++) {
		for (k = 0; n[i] != 0 && k < SCHED_NKINDS; k++) {
			out[k] += n[i] * c->on[dev]->least[i][k];
		}
	}
}
