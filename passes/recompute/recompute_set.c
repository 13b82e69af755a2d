/*
 * Resolves the plan's `recompute` words to the saved values that it drops.
 */
#include "passes/kernels/explicit_attention.h"
#include "passes/plan/plan_keys.h"
#include "passes/recompute/recompute.h"

#include <string.h>

struct set {
	struct ir_module *m;
	uint32_t nvalues;
	const bool *any;	/* that any repeat saves */
	const bool *saved;	/* those that the words are for */
	bool *drops;
};

/* ---- attention ---- */

static void
add_inner(void *user, const struct attention *a)
{
	struct set *s = user;
	uint32_t i;

	for (i = 0; i < a->ninner; i++) {
		s->drops[a->inner[i]] |= s->saved[a->inner[i]];
	}
}

/* Drops the result of `attention`; of explicit attention, all inner values. */
static void
add_attention(struct set *s)
{
	value_id v;

	for (v = 1; v < s->nvalues; v++) {
		node_id maker = s->m->values.at[v].node;

		s->drops[v] |= s->saved[v] && maker &&
			       ir_is(ir_node(s->m, maker)->op, IRF_PAIRS);
	}
	attention_each(s->m, add_inner, s);
}

void
recompute_attention(struct ir_module *m, uint32_t nvalues, const bool *saved,
		    bool *drops)
{
	struct set s = { .m = m, .nvalues = nvalues, .saved = saved,
			 .drops = drops };

	add_attention(&s);
}

/* ---- names ---- */

/* What a message calls a saved value: its name, else its op. */
static const char *
called(const struct set *s, value_id v)
{
	const struct ir_value *x =
		&s->m->values.at[recompute_root(s->m, v)];

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
		const char *name = s->any[v] ? called(s, v) : NULL;
		uint32_t n = known.text.n;

		if (name && (intern_str(&known, name), known.text.n > n)) {
			buf_printf(&b, "%s%s", b.n ? ", " : "", name);
		}
	}
	return b.n ? buf_text(&b) : "nothing";
}

/* An unknown name is an error; a known value that is not saved, a warning. */
static bool
complain(const struct set *s, const char *name)
{
	const struct ir_setting *said = ir_setting(s->m, "plan.recompute");
	struct span span = said ? said->span : (struct span){ 0, 0 };
	struct diags *d = &s->m->ctx->diags;
	struct diag_near near;

	if (plan_can_rebuild(s->m, name, &near)) {
		diag_warn(d, WARN_UNUSED_HINT, span, "`recompute`: no "
			  "repeat keeps `%s` for backward; kept are %s", name,
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
		const struct ir_value *x;

		if (!s->any[v]) {
			continue;
		}
		x = &s->m->values.at[recompute_root(s->m, v)];
		if (x->hint == sym || (x->node &&
		    strcmp(ir_ops[ir_node(s->m, x->node)->op].name,
			   name) == 0)) {
			s->drops[v] |= s->saved[v];
			found = true;
		}
	}
	return found || complain(s, name);
}

bool
recompute_set(struct ir_module *m, const char *what, uint32_t nvalues,
	      const bool *any, const bool *saved, bool *drops)
{
	struct set s = { .m = m, .nvalues = nvalues, .any = any,
			 .saved = saved, .drops = drops };
	const char *word;
	bool ok = true;
	value_id v;

	if (strcmp(what, "none") == 0) {
		return true;
	} else if (strcmp(what, "full") == 0) {
		for (v = 1; v < nvalues; v++) {
			drops[v] |= saved[v];
		}
	} else if (strcmp(what, "attention") == 0) {
		add_attention(&s);
	} else {
		while (plan_next_word(&m->ctx->tmp, &what, &word)) {
			ok &= add_name(&s, word);
		}
	}
	return ok;
}
