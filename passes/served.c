/*
 * What serving needs of a model: its logits, and its input of tokens.
 */
#include "passes/pass.h"

#include <string.h>

/* The value named logits, the last of them, among nodes of the region. */
static value_id
named_logits(const struct ir_module *m, region_id r)
{
	const struct ir_region *body = &m->regions.at[r];
	value_id found = 0;
	uint32_t i;

	for (i = 0; i < body->nodes.n; i++) {
		value_id v = ir_node(m, body->nodes.at[i])->result;
		sym_t hint = v ? m->values.at[v].hint : 0;

		if (hint && strcmp(ir_text(m->ctx, hint), "logits") == 0) {
			found = v;
		}
	}
	return found;
}

bool
pass_keep_logits(struct ir_module *m)
{
	func_id f = ir_model(m);
	struct span nowhere = { 0, 0 };
	struct ir_region *body;
	value_id v;

	if (!f) {
		diag_error(&m->ctx->diags, nowhere, "there is no model to "
			   "serve");
		return false;
	}
	body = &m->regions.at[m->funcs.at[f].body];
	v = named_logits(m, m->funcs.at[f].body);
	if (!v && body->results.n == 1 &&
	    ir_type(m, body->results.at[0])->ndims > 0) {
		v = body->results.at[0];
	}
	if (!v) {
		diag_error(&m->ctx->diags, m->funcs.at[f].span, "serving "
			   "needs the scores of the next token, and no value "
			   "of the model is named `logits`");
		return false;
	}
	body->results.at[0] = v;
	body->results.n = 1;
	return true;
}

bool
pass_find_tokens(struct ir_module *m, dim_id *batch, dim_id *seq)
{
	func_id f = ir_model(m);
	const struct ir_region *body = &m->regions.at[m->funcs.at[f].body];
	uint32_t i;

	*batch = ir_dim_find(m, intern_str(&m->ctx->syms, "batch"));
	for (i = 0; i < body->nodes.n && *batch; i++) {
		const struct ir_node *n = ir_node(m, body->nodes.at[i]);
		const struct ir_type *t = ir_type(m, n->result);

		if (n->op == IR_INPUT && t->of && t->ndims == 2 &&
		    t->dims[0] == *batch) {
			*seq = t->dims[1];
			return true;
		}
	}
	diag_error(&m->ctx->diags, m->funcs.at[f].span, "serving needs an "
		   "input of tokens, with the dim `batch` and one of "
		   "positions");
	return false;
}
