/*
 * What recompute drops: which of the saved values the plan names.
 *
 * Attention may be one op, or written out.  Then it is what stands between
 * two contractions of activations, if a row-wise op between them keeps the
 * dims that the second contracts: scores, softmax and dropout, masks drawn
 * for it included.  No op is asked for by name.
 */
#include "passes/recompute.h"
#include "passes/plan_keys.h"

#include <string.h>

/* What a value is to the contraction that it goes into. */
enum {
	DRAWN = 1 << 0,		/* made from nothing but numbers and masks */
	SCORES = 1 << 1,	/* behind a contraction of activations */
	NORMAL = 1 << 2		/* these, normalised along what is summed */
};

struct set {
	struct ir_module *m;
	uint32_t nvalues;
	const bool *saved;
	bool *drops;
	/* of one walk */
	const struct ir_rule *rule;	/* of the contraction */
	uint32_t walk, *seen;	/* by value: the last walk that came by */
	uint8_t *is;		/* by value, of that walk */
	VEC(value_id) met;
};

/* ---- attention that is written out ---- */

/* A weight, whatever its type and arrangement. */
static bool
is_weight(const struct ir_module *m, value_id v)
{
	node_id maker = m->values.at[v].node;

	while (maker && ir_node(m, maker)->nargs == 1 &&
	       ir_is(ir_node(m, maker)->op, IRF_MAP | IRF_MOVES)) {
		v = ir_args(m, ir_node(m, maker))[0];
		maker = m->values.at[v].node;
	}
	return maker && ir_is(ir_node(m, maker)->op, IRF_PARAM);
}

static bool
joins_activations(const struct ir_module *m, const struct ir_node *n)
{
	uint32_t k;

	if (!ir_is(n->op, IRF_CONTRACTS) || ir_is(n->op, IRF_PAIRS)) {
		return false;
	}
	for (k = 0; k < n->nargs; k++) {
		if (is_weight(m, ir_args(m, n)[k])) {
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

/* Whether rows of n lie along what is summed, and stay as long. */
static bool
normalises(const struct set *s, const struct ir_node *n)
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

static uint8_t look(struct set *s, value_id v);

static uint8_t
look_behind(struct set *s, const struct ir_node *n)
{
	uint8_t all = DRAWN, any = 0, is;
	uint32_t k;

	for (k = 0; k < n->nargs; k++) {
		is = look(s, ir_args(s->m, n)[k]);
		all &= is;
		any |= is;
	}
	is = (uint8_t)((all & DRAWN) | (any & (SCORES | NORMAL)));
	return is & SCORES && normalises(s, n) ? is | NORMAL : is;
}

static uint8_t
look(struct set *s, value_id v)
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
		s->is[v] = look_behind(s, &n);
	}
	return s->is[v];
}

/* If operand v of a contraction is what attention weighs with: all of it. */
static void
add_scores(struct set *s, value_id v)
{
	uint32_t i;

	s->walk++;
	s->met.n = 0;
	if (!(look(s, v) & NORMAL)) {
		return;
	}
	for (i = 0; i < s->met.n; i++) {
		value_id w = s->met.at[i];

		s->drops[w] |= s->saved[w] && s->is[w];
	}
}

static void
add_attention(struct set *s)
{
	struct arena *tmp = &s->m->ctx->tmp;
	uint32_t nnodes = s->m->nodes.n, k;
	node_id id;

	s->seen = arena_alloc(tmp, s->nvalues * sizeof *s->seen);
	s->is = arena_alloc(tmp, s->nvalues);
	for (id = 1; id < nnodes; id++) {
		struct ir_node n = *ir_node(s->m, id);
		struct ir_rule r;

		if (ir_is(n.op, IRF_PAIRS)) {
			s->drops[n.result] |= s->saved[n.result];
		} else if (joins_activations(s->m, &n)) {
			ir_bind(s->m, &n, &r);
			s->rule = &r;
			for (k = 0; k < n.nargs; k++) {
				add_scores(s, ir_args(s->m, &n)[k]);
			}
		}
	}
}

/* ---- names ---- */

/* What one would call a saved value: its name, else the op that makes it. */
static const char *
called(const struct set *s, value_id v)
{
	const struct ir_value *x = &s->m->values.at[v];

	return x->hint ? ir_text(s->m->ctx, x->hint)
		: x->node ? ir_ops[ir_node(s->m, x->node)->op].name : NULL;
}

static const char *
what_is_saved(const struct set *s)
{
	struct intern known;
	struct buf b;
	value_id v;

	intern_init(&known, &s->m->ctx->tmp);
	buf_init(&b, &s->m->ctx->tmp);
	for (v = 1; v < s->nvalues; v++) {
		const char *name = s->saved[v] ? called(s, v) : NULL;
		uint32_t n = known.text.n;

		if (name && (intern_str(&known, name), known.text.n > n)) {
			buf_printf(&b, "%s%s", b.n ? ", " : "", name);
		}
	}
	return b.n ? buf_text(&b) : "nothing";
}

/* A slip is an error; what is computed and not kept costs nothing as it is. */
static bool
complain(const struct set *s, const char *name)
{
	const struct ir_setting *said = ir_setting(s->m, "plan.recompute");
	struct span span = said ? said->span : (struct span){ 0, 0 };
	struct diags *d = &s->m->ctx->diags;
	struct diag_near near;

	if (plan_can_rebuild(s->m, name, &near)) {
		diag_warn(d, WARN_UNUSED_HINT, span, "`recompute`: no repeat "
			  "keeps `%s` for backward; kept are %s", name,
			  what_is_saved(s));
		return true;
	}
	diag_error(d, span, "`recompute`: the model has no `%s`%s; kept for "
		   "backward are %s", name,
		   diag_near_text(&near, &s->m->ctx->tmp), what_is_saved(s));
	return false;
}

static bool
add_name(struct set *s, const char *name)
{
	sym_t sym = intern_str(&s->m->ctx->syms, name);
	bool found = false;
	value_id v;

	for (v = 1; v < s->nvalues; v++) {
		const struct ir_value *x = &s->m->values.at[v];

		if (s->saved[v] && (x->hint == sym || (x->node &&
		    strcmp(ir_ops[ir_node(s->m, x->node)->op].name,
			   name) == 0))) {
			s->drops[v] = found = true;
		}
	}
	return found || complain(s, name);
}

bool
recompute_set(struct ir_module *m, const char *what, uint32_t nvalues,
	      const bool *saved, bool *drops)
{
	struct set s = { .m = m, .nvalues = nvalues, .saved = saved,
			 .drops = drops };
	const char *word;
	bool ok = true;

	if (strcmp(what, "full") == 0) {
		memcpy(drops, saved, nvalues * sizeof *drops);
	} else if (strcmp(what, "attention") == 0) {
		add_attention(&s);
	} else {
		while (plan_next_word(&m->ctx->tmp, &what, &word)) {
			ok &= add_name(&s, word);
		}
	}
	return ok;
}
