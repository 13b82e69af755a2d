/*
 * Finds attention that is written out: the nodes between two contractions of
 * activations, if a row-wise op among them normalises along the dims that the
 * second one contracts.  That is scores, softmax and dropout with its masks.
 * It reads facts of ops and names none.
 */
#include "passes/kernels/explicit_attention.h"

/* What a value is to the second contraction. */
enum {
	DRAWN = 1 << 0,		/* made of numbers and masks only */
	SCORES = 1 << 1,	/* made of a contraction of activations */
	NORMAL = 1 << 2		/* these, normalised along contracted dims */
};

struct attention_search {
	struct ir_module *m;
	/* of one walk */
	const struct ir_rule *rule;	/* of the contraction */
	uint32_t walk, *seen;	/* by value: the last walk that met it */
	uint8_t *is;		/* by value, of that walk */
	VEC(value_id) met;
};

static bool
joins_activations(const struct ir_module *m, const struct ir_node *n)
{
	uint32_t k;

	if (!ir_is(n->op, IRF_CONTRACTS) || ir_is(n->op, IRF_PAIRS)) {
		return false;
	}
	for (k = 0; k < n->nargs; k++) {
		if (pass_is_weight(m, ir_args(m, n)[k])) {
			return false;
		}
	}
	return true;
}

static bool
is_reduced(const struct ir_rule *r, dim_id d)
{
	int i, k;

	for (i = 0; i < r->nf; i++) {
		for (k = 0; !r->f[i].out && k < r->f[i].n; k++) {
			if (r->f[i].dims[k] == d) {
				return true;
			}
		}
	}
	return false;
}

/* Whether n reduces rows along a contracted dim and keeps that dim. */
static bool
normalises(const struct attention_search *s, const struct ir_node *n)
{
	const struct ir_attr *over = ir_attr(s->m, n, IR_ATTR_OVER);
	uint8_t i;

	for (i = 0; ir_is(n->op, IRF_ROWWISE) && over && i < over->ndims;
	     i++) {
		if (ir_type_has(ir_type(s->m, n->result), over->dims[i]) &&
		    is_reduced(s->rule, over->dims[i])) {
			return true;
		}
	}
	return false;
}

static uint8_t classify_value(struct attention_search *s, value_id v);

static uint8_t
classify_operands(struct attention_search *s, const struct ir_node *n)
{
	uint8_t all = DRAWN, any = 0, is;
	uint32_t k;

	for (k = 0; k < n->nargs; k++) {
		is = classify_value(s, ir_args(s->m, n)[k]);
		all &= is;
		any |= is;
	}
	is = (uint8_t)((all & DRAWN) | (any & (SCORES | NORMAL)));
	return is & SCORES && normalises(s, n) ? is | NORMAL : is;
}

static uint8_t
classify_value(struct attention_search *s, value_id v)
{
	node_id maker = s->m->values.at[v].node;
	struct ir_node n = *ir_node(s->m, maker);

	if (s->seen[v] == s->walk) {
		return s->is[v];
	}
	s->seen[v] = s->walk;
	s->is[v] = 0;
	VEC_PUSH(&s->m->ctx->tmp, &s->met, v);
	if (!maker || n.nresults != 1) {
		return 0;
	}
	if (ir_is(n.op, IRF_SOURCE)) {
		s->is[v] = ir_is(n.op, IRF_UNIQUE | IRF_STORED) ? 0 : DRAWN;
	} else if (ir_is(n.op, IRF_CONTRACTS)) {
		s->is[v] = joins_activations(s->m, &n) ? SCORES : 0;
	} else if (ir_is(n.op, IRF_MAP | IRF_ROWWISE | IRF_MOVES)) {
		s->is[v] = classify_operands(s, &n);
	}
	return s->is[v];
}

/* Whether operand v of a contraction holds the weights of attention. */
static bool
are_weights(struct attention_search *s, value_id v)
{
	uint32_t i, n = 0;

	s->walk++;
	s->met.n = 0;
	if (!(classify_value(s, v) & NORMAL)) {
		return false;
	}
	for (i = 0; i < s->met.n; i++) {
		if (s->is[s->met.at[i]]) {
			s->met.at[n++] = s->met.at[i];
		}
	}
	s->met.n = n;
	return true;
}

void
attention_each(struct ir_module *m, attention_fn *f, void *user)
{
	struct arena *tmp = &m->ctx->tmp;
	struct attention_search s = { .m = m };
	uint32_t nnodes = m->nodes.n, k;
	node_id id;

	s.seen = arena_alloc(tmp, m->values.n * sizeof *s.seen);
	s.is = arena_alloc(tmp, m->values.n);
	for (id = 1; id < nnodes; id++) {
		struct ir_node n = *ir_node(m, id);
		struct ir_rule r;

		if (!joins_activations(m, &n)) {
			continue;
		}
		ir_bind(m, &n, &r);
		s.rule = &r;
		for (k = 0; k < n.nargs; k++) {
			if (are_weights(&s, ir_args(m, &n)[k])) {
				struct attention found = { &r, k, s.met.at,
							   s.met.n };

				f(user, &found);
			}
		}
	}
}
