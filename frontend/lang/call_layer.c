/*
 * Calls of layers: operands are of the types of the layer's head, and the call
 * is one node.
 */
#include "frontend/lang/call.h"

#include <string.h>

static bool
check_operands(struct fe_call *c, func_id f)
{
	struct ir_module *m = c->l->m;
	const struct ir_region *r = &m->regions.at[m->funcs.at[f].body];
	const struct ast_param *p = c->l->funcs.at[f].layer->params;
	uint32_t i;

	for (i = 0; i < c->nargs; i++, p = p->next) {
		const struct ir_type *want = ir_type(m, r->params.at[i]);
		const struct ir_type *have = ir_type(m, c->args[i]);

		if (!ir_type_equal(want, have)) {
			diag_error(c->l->diags, c->arg_at[i], "operand %u of "
				   "layer `%s` is %s, and %s is expected",
				   i + 1, c->name, ir_type_text(m, have),
				   ir_type_text(m, want));
			diag_note(c->l->diags, p->name.span,
				  "operand `%s` is declared here",
				  lower_text(c->l, p->name.sym));
			return false;
		}
	}
	return true;
}

void
call_layer_takes(struct fe_call *c, func_id f, struct call_takes *takes)
{
	struct ir_module *m = c->l->m;
	const struct ir_region *r = &m->regions.at[m->funcs.at[f].body];
	const struct ast_param *p;
	struct buf b;

	*takes = (struct call_takes){ .min_args = r->params.n,
				      .max_args = r->params.n };
	buf_init(&b, &c->l->ctx->tmp);
	buf_printf(&b, "%s(", c->name);
	for (p = c->l->funcs.at[f].layer->params; p; p = p->next) {
		buf_printf(&b, "%s%s", lower_text(c->l, p->name.sym),
			   p->next ? ", " : "");
	}
	buf_putc(&b, ')');
	takes->usage = buf_text(&b);
	c->named = c->flags = "";
}

/* Checks the operands and results of the call against the layer's head. */
static bool
check_layer(struct fe_call *c, func_id f, uint32_t max)
{
	struct ir_module *m = c->l->m;
	const struct ir_region *r = &m->regions.at[m->funcs.at[f].body];

	if (r->results.n > max) {
		diag_error(c->l->diags, c->e->span, "layer `%s` returns %u "
			   "values, expected %u", c->name,
			   r->results.n, max);
		diag_note(c->l->diags, m->funcs.at[f].span,
			  "it is declared here");
		return false;
	}
	return check_operands(c, f);
}

static bool
has_missing(const value_id *v, uint32_t n)
{
	while (n > 0 && v[n - 1]) {
		n--;
	}
	return n > 0;
}

bool
call_layer_is_broken(const struct fe_call *c, func_id f)
{
	const struct ir_module *m = c->l->m;
	const struct ir_region *r = &m->regions.at[m->funcs.at[f].body];

	return r->results.n == 0 || has_missing(r->params.at, r->params.n) ||
	       has_missing(r->results.at, r->results.n);
}

bool
call_layer_node(struct fe_call *c, func_id f, uint32_t max, value_id *out,
		uint32_t *n)
{
	struct ir_module *m = c->l->m;
	struct ir_new node;
	uint32_t errors = c->l->diags->errors, i;
	sym_t name;

	if (!check_layer(c, f, max)) {
		return false;
	}
	name = lower_call_name(c->l, c->e, f);
	if (c->l->diags->errors != errors) {
		return false;
	}
	*n = m->regions.at[m->funcs.at[f].body].results.n;
	ir_new_init(&node, IR_CALL, c->e->span);
	node.callee = f;
	node.nargs = c->nargs;
	memcpy(node.args, c->args, c->nargs * sizeof c->args[0]);
	node.nresults = *n;
	for (i = 0; i < *n; i++) {
		node.types[i] = *ir_type(m,
			m->regions.at[m->funcs.at[f].body].results.at[i]);
	}
	if (name) {
		ir_new_text(&node, IR_ATTR_NAME, name);
	}
	out[0] = lower_append(c->l, &node, c->e);
	for (i = 1; i < *n; i++) {
		out[i] = out[0] + i;
	}
	return out[0] != 0;
}
