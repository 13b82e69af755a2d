/*
 * Scopes and the variables in them: what a name of a value stands for now.
 */
#include "frontend/lang/lower.h"

#include <string.h>

/* ---- variables ---- */

struct binding *
lower_lookup(struct lower *l, sym_t name)
{
	uint32_t i = lower_meaning(l, name)->var;

	return i ? &l->vars.at[i - 1] : NULL;
}

void
lower_push_var(struct lower *l, const struct ast_name *n, value_id v,
	       bool used)
{
	struct meaning *means = lower_meaning(l, n->sym);
	struct binding b = { n->sym, v, n->span, used, means->var };

	VEC_PUSH(&l->ctx->perm, &l->vars, b);
	means->var = l->vars.n;
}

/* Those of the scope. */
static void
pop_vars(struct lower *l)
{
	while (l->vars.n > l->scope->first) {
		const struct binding *b = &l->vars.at[--l->vars.n];
		struct meaning *means = lower_meaning(l, b->name);

		means->var = b->hidden;
		means->gone_in = l->scope->outer ? l->func : 0;
		means->gone = b->span;
	}
}

/* What a model is for counts as used, and so does what begins with _. */
static bool
is_result(struct lower *l, sym_t name)
{
	const char *s = lower_text(l, name);

	return strcmp(s, "loss") == 0 || strcmp(s, "logits") == 0 ||
	       s[0] == '_';
}

void
lower_bind(struct lower *l, const struct ast_name *n, value_id v)
{
	struct binding *old = lower_lookup(l, n->sym);
	dim_id d = lower_meaning(l, n->sym)->dim;
	const char *name = lower_text(l, n->sym);

	if (d && !old && lower_warn(l, WARN_SHADOW, n->span, "variable `%s` "
				    "hides the dim of that name", name) &&
	    l->m->dims.at[d].span.hi) {
		diag_note(l->diags, l->m->dims.at[d].span,
			  "the dim is declared here");
	}
	if (old && !old->used && lower_warn(l, WARN_UNUSED_VALUE, old->span,
					    "the value of `%s` is never used",
					    name)) {
		diag_note(l->diags, n->span, "it is replaced here");
	}
	if (old && (size_t)(old - l->vars.at) >= l->scope->first) {
		old->value = v;
		old->span = n->span;
		old->used = is_result(l, n->sym);
	} else {
		lower_push_var(l, n, v, is_result(l, n->sym));
	}
}

/* ---- scopes ---- */

void
lower_push_scope(struct lower *l, struct scope *s, region_id r,
		 struct span at)
{
	memset(s, 0, sizeof *s);
	s->outer = l->scope;
	s->region = r;
	s->first = l->vars.n;
	s->span = at;
	l->scope = s;
}

void
lower_pop_scope(struct lower *l)
{
	uint32_t i;

	for (i = l->scope->first; i < l->vars.n; i++) {
		const struct binding *b = &l->vars.at[i];

		if (!b->used && b->value) {
			lower_warn(l, WARN_UNUSED_VALUE, b->span,
				   "the value of `%s` is never used",
				   lower_text(l, b->name));
		}
	}
	pop_vars(l);
	l->scope = l->scope->outer;
}

const struct scope *
lower_repeat_of(const struct lower *l, sym_t var)
{
	const struct scope *s;

	for (s = l->scope; s->outer; s = s->outer) {
		if (s->var == var) {
			return s;
		}
	}
	return NULL;
}
