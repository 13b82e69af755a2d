/*
 * Names that mean nothing where they stand: what they mean elsewhere, and what
 * is spelt alike.
 */
#include "frontend/lang/call.h"

#include <string.h>

const struct call_fn *
call_find(const char *name)
{
	size_t i;

	for (i = 0; i < call_nfunctions; i++) {
		if (strcmp(call_functions[i].name, name) == 0) {
			return &call_functions[i];
		}
	}
	return NULL;
}

bool
lower_is_function(const char *name)
{
	return call_find(name) != NULL;
}

/* ---- of a value ---- */

/* What a name is that is not a value; NULL if it means nothing. */
static const char *
other_meaning(struct lower *l, sym_t name)
{
	const char *text = lower_text(l, name);
	enum ir_op op;

	if (lower_repeat_of(l, name)) {
		return "the variable of a repeat, which only names of weights "
		       "may use";
	}
	if (lower_meaning(l, name)->func || lower_is_function(text) ||
	    (ir_find_op(text, &op) && ir_ops[op].nargs > 0)) {
		return "a function: it is called, with operands in parentheses";
	}
	return strcmp(text, "tokens") == 0 || strcmp(text, "labels") == 0
	       ? "an input of the model: pass it to the layer as an operand"
	       : NULL;
}

/* Whether the name was a variable of a repeat above; reports it. */
static bool
is_out_of_scope(struct lower *l, const struct ast_expr *e)
{
	const struct meaning *means = lower_meaning(l, e->sym);

	if (!means->gone_in || means->gone_in != l->func) {
		return false;
	}
	diag_error(l->diags, e->span, "`%s` ended with the repeat that made "
		   "it: a repeat keeps only what had a value before it",
		   lower_text(l, e->sym));
	diag_note(l->diags, means->gone, "it is made here");
	return true;
}

bool
lower_unknown_name(struct lower *l, const struct ast_expr *e,
	     const char *function, const char *flags)
{
	const char *text = lower_text(l, e->sym);
	const char *other = other_meaning(l, e->sym);
	const struct variable *b;
	struct diag_near near;
	uint32_t i;

	if (other) {
		diag_error(l->diags, e->span, "`%s` is %s", text, other);
		return false;
	}
	if (is_out_of_scope(l, e)) {
		return false;
	}
	diag_near_init(&near, text);
	for (i = l->vars.n; i > 0 && l->vars.n - i < MAX_TRIES; i--) {
		diag_near_try(&near, lower_text(l, l->vars.at[i - 1].name));
	}
	if (l->m->funcs.at[l->func].is_model) {
		diag_near_try(&near, "tokens");
		diag_near_try(&near, "labels");
	}
	lower_near(l, &near, flags);
	diag_error(l->diags, e->span, "no value%s%s is named `%s`%s",
		   *flags ? ", dim or flag of " : "", *flags ? function : "",
		   text, diag_near_text(&near, &l->ctx->tmp));
	b = near.best ? lower_lookup(l, lower_sym(l, near.best))
		      : NULL;
	if (b) {
		diag_note(l->diags, b->span, "`%s` is declared here",
			  near.best);
	}
	return false;
}

/* ---- of a function or a layer ---- */

bool
call_unknown(struct fe_call *c)
{
	struct lower *l = c->l;
	/* a layer further down, or the one that holds the call */
	const struct ast_name *below = lower_declared(l, AST_LAYER,
						      c->e->sym);
	const struct variable *b = lower_lookup(l, c->e->sym);
	struct diag_near near;
	func_id f;
	size_t i;

	if (below) {
		diag_error(l->diags, c->e->name_span, "layer `%s` is called "
			   "before its end: a layer calls only layers above "
			   "it, and never itself", c->name);
		diag_note(l->diags, below->span, "layer `%s` is here",
			  c->name);
		return false;
	}
	if (b) {
		diag_error(l->diags, c->e->name_span, "`%s` is a value, and "
			   "cannot be called", c->name);
		diag_note(l->diags, b->span, "`%s` is declared here", c->name);
		return false;
	}
	diag_near_init(&near, c->name);
	for (i = 0; i < call_nfunctions; i++) {
		diag_near_try(&near, call_functions[i].name);
	}
	for (i = 0; i < IR_OP_COUNT; i++) {
		if (ir_ops[i].nargs > 0) {
			diag_near_try(&near, ir_ops[i].name);
		}
	}
	for (f = 1; f < l->m->funcs.n && f < MAX_TRIES; f++) {
		diag_near_try(&near, lower_text(l, l->m->funcs.at[f].name));
	}
	diag_error(l->diags, c->e->name_span, "no function or layer is named "
		   "`%s`%s", c->name, diag_near_text(&near, &l->ctx->tmp));
	return false;
}
