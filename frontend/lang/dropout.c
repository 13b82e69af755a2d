/*
 * dropout(x, p = 0.1): x times a mask of zeros and ones, over 1 - p, so that
 * the mean stays.  The mask is a source of one byte an element, which backward
 * reads again: a name, not a state of a generator, says what is in it.
 */
#include "frontend/lang/call.h"

/* Elements are dropped with the chance p. */
static bool
chance(struct call *c, double *p)
{
	const struct ast_expr *e = call_named(c, "p");
	struct diags *d = c->l->diags;

	if (!e) {
		diag_error(d, c->e->span, "dropout needs `p`, the chance that "
			   "an element is dropped: it is written dropout(x, "
			   "p = 0.1)");
		return false;
	}
	if (!lower_number(c->l, e, "`p`", p)) {
		return false;
	}
	if (*p < 0 || *p >= 1) {
		diag_error(d, e->span, "`p` is %s, and 0 to less than 1 is "
			   "legal", lower_number_text(c->l, *p));
		return false;
	}
	return true;
}

static value_id
mask(struct call *c, double p)
{
	struct lower *l = c->l;
	struct tensor_name t;
	struct ir_new n;
	sym_t name = lower_mask_name(l, c->e, &t);

	if (!name || !lower_add_tensor(l, &t)) {
		return 0;
	}
	ir_new_init(&n, IR_DROPOUT_MASK, c->e->span);
	n.types[0] = *ir_type(l->m, c->args[0]);
	n.types[0].dtype = IR_F8E4M3;
	ir_new_text(&n, IR_ATTR_NAME, name);
	ir_new_num(&n, IR_ATTR_RATE, p);
	return lower_append(l, &n, c->e);
}

static value_id
times(struct call *c, value_id a, value_id b)
{
	struct ir_new n;

	ir_new_init(&n, IR_MUL, c->e->span);
	ir_new_arg(&n, a);
	ir_new_arg(&n, b);
	return lower_append(c->l, &n, c->e);
}

bool
call_dropout(struct call *c, value_id *out)
{
	value_id x = c->args[0], m, by;
	double p;

	if (!call_takes_number(c, 0) || !chance(c, &p)) {
		return false;
	}
	*out = x;
	if (p == 0) {
		return true;
	}
	m = mask(c, p);
	m = m ? call_cast(c, m, ir_type(c->l->m, x)->dtype) : 0;
	x = m ? times(c, x, m) : 0;
	by = x ? lower_constant(c->l, 1 / (1 - p), x, c->e->span) : 0;
	*out = by ? times(c, x, by) : 0;
	return *out != 0;
}
