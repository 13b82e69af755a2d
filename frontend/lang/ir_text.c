/*
 * Checks of IR text that the language makes and the rules of the IR do not:
 * settings, hints, tensor names and constants, so that none of them is
 * without effect.
 */
#include "frontend/lang/lower.h"

#include <string.h>

#include "passes/plan/plan.h"

static void
check_word(struct lower *l, struct span at, const char *found,
	   const char *legal)
{
	struct diag_near near;

	if (lower_word(legal, found) < 0) {
		diag_near_init(&near, found);
		lower_near(l, &near, legal);
		diag_error(l->diags, at, "found `%s`, expected %s%s", found,
			   lower_words(l, legal, "or"),
			   diag_near_text(&near, &l->ctx->tmp));
	}
}

static void
check_hint(struct lower *l, const struct ir_hint *h)
{
	struct diag_near near;
	dim_id d;

	if (!h->axis) {
		check_word(l, h->span, lower_text(l, h->verb), "recompute");
		check_word(l, h->span, lower_text(l, h->what),
			   lower_hint_recompute);
		return;
	}
	check_word(l, h->span, lower_text(l, h->verb), "shard");
	check_word(l, h->span, lower_text(l, h->axis), lower_hint_axes);
	if (ir_dim_find(l->m, h->what)) {
		return;
	}
	diag_near_init(&near, lower_text(l, h->what));
	for (d = 1; d < l->m->dims.n; d++) {
		diag_near_try(&near, ir_dim_name(l->m, d));
	}
	diag_error(l->diags, h->span, "unknown dim `%s`%s",
		   lower_text(l, h->what),
		   diag_near_text(&near, &l->ctx->tmp));
}

/* Whether a value is a constant, and which. */
static bool
is_constant(const struct ir_module *m, value_id v, double *out)
{
	const struct ir_node *n = ir_node(m, m->values.at[v].node);

	if (!m->values.at[v].node || n->op != IR_CONST) {
		return false;
	}
	*out = ir_attr_num(m, n, IR_ATTR_VALUE, 0);
	return true;
}

static void
check_node(struct lower *l, const struct ir_node *n)
{
	const struct ir_attr *name = ir_attr(l->m, n, IR_ATTR_NAME);
	double v;

	if (ir_is(n->op, IRF_PARAM) && name && !*lower_text(l, name->text)) {
		diag_error(l->diags, n->span, "a tensor's name is not empty");
	}
	if (n->op == IR_CONST && is_constant(l->m, n->result, &v)) {
		lower_holds(l, ir_type(l->m, n->result)->dtype, v, n->span);
	} else if (n->op == IR_DIV &&
		   is_constant(l->m, ir_args(l->m, n)[1], &v) && v == 0) {
		diag_error(l->diags, n->span, "this divides by 0");
	}
}

bool
fe_check_ir(struct ir_module *m)
{
	struct lower l = { .ctx = m->ctx, .diags = &m->ctx->diags, .m = m };
	uint32_t errors = l.diags->errors, i;

	lower_check_settings(&l);
	for (i = 0; i < m->hints.n; i++) {
		check_hint(&l, &m->hints.at[i]);
	}
	for (i = 1; i < m->nodes.n; i++) {
		check_node(&l, ir_node(m, i));
	}
	plan_legal(m);
	return l.diags->errors == errors;
}
