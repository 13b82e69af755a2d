/*
 * Contractions of one launch whose results are added up: which can be one
 * contraction by wgmma or tcgen05, and what it is.  cuda_dot90_terms.c says how
 * its k is theirs, one after the other.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

#include <string.h>

/* Positions of one factor are found alike in both. */
static bool
same_runs(const struct cg_factor *a, const struct cg_factor *b)
{
	uint32_t i;

	for (i = 0; i < a->n && a->n == b->n && a->at[i].size == b->at[i].size;
	     i++) {
	}
	return a->n == b->n && i == a->n;
}

static bool
is_alike(const struct cu_dot *a, const struct cu_dot *b)
{
	return a->unit == b->unit && a->batch.size == b->batch.size &&
	       same_runs(&a->m, &b->m) && same_runs(&a->n, &b->n);
}

/*
 * The member at place i, as it is here: of all but the last the product alone,
 * which is no result; of the last what follows the sum, with the node that
 * makes it.  NULL: it is no contraction.
 */
static const struct kernel *
term_of(const struct cu_kernel *k, const struct kernel *x, uint32_t i,
	node_id *head, value_id *value)
{
	const struct kernel *of = &x->members.at[i];
	bool last = i + 1 == x->members.n;
	struct arena *a = k->c->a;
	struct kernel *t = arena_dup(a, of, sizeof *of);
	const struct ir_node *n;
	uint32_t j;

	*head = cg_dot_head(k->c->m, of, false);
	if (!*head) {
		return NULL;
	}
	*value = ir_node(k->c->m, *head)->result;
	memset(&t->nodes, 0, sizeof t->nodes);
	if (!last) {
		memset(&t->outputs, 0, sizeof t->outputs);
		VEC_PUSH(a, &t->nodes, *head);
		return t;
	}
	for (j = 0; j < of->nodes.n; j++) {
		n = ir_node(k->c->m, of->nodes.at[j]);
		if (n->op == IR_ADD && (ir_args(k->c->m, n)[0] == *value ||
					ir_args(k->c->m, n)[1] == *value)) {
			VEC_PUSH(a, &t->nodes, of->nodes.at[j]);
			break;
		}
	}
	for (j = 0; j < of->nodes.n; j++) {
		if (of->nodes.at[j] != *head &&
		    of->nodes.at[j] != t->nodes.at[0]) {
			VEC_PUSH(a, &t->nodes, of->nodes.at[j]);
		}
	}
	*value = ir_node(k->c->m, t->nodes.at[0])->result;
	return t;
}

bool
dot90_open_terms(struct cu_dot *d, uint32_t n, struct dot90 *p)
{
	struct dot90_term *term = arena_alloc(d->k->c->a, n * sizeof *term);
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (!dot90_open(&d[i], p) || !is_alike(&d[0], &d[i])) {
			return false;
		}
		term[i].d = &d[i];
	}
	p->term = term;
	p->nterms = n;
	return true;
}

bool
dot90_sum_steps(struct cu_kernel *k, const struct kernel *x)
{
	uint32_t n = x->members.n, i;
	struct cu_dot *d = arena_alloc(k->c->a, n * sizeof *d);
	struct cu_candidates candidates;
	struct dot90 p;

	for (i = 0; i < n; i++) {
		const struct kernel *t;
		value_id value;
		node_id head;

		t = term_of(k, x, i, &head, &value);
		if (!t || !cu_dot_find_as(k, t, head, value, &d[i])) {
			return false;
		}
	}
	cu_candidates_begin(d, n, " plus ", &candidates);
	if (!dot90_open_terms(d, n, &p) || !dot90_choose(&p) ||
	    !dot90_steps(&p)) {
		return false;
	}
	cu_candidates_close(k, &candidates);
	return true;
}
