/*
 * cross_entropy: the mean over tokens of what the op of that name gives for
 * each.  Tokens whose labels do not count are left out of the sum and of what
 * it is divided by, in each sequence; the mean over sequences comes last.  So
 * it is the same however a step is cut into microbatches, which a quotient of
 * two sums over the whole batch is not.  For that, the number of labels of the
 * whole batch that count is an operand: it depends on the data alone, so it is
 * an input that is known before the first microbatch.
 */
#include "frontend/lang/call.h"

static value_id
binary(struct fe_call *c, enum ir_op op, value_id a, value_id b)
{
	struct ir_new n;

	ir_new_init(&n, op, c->e->span);
	ir_new_arg(&n, a);
	ir_new_arg(&n, b);
	return a && b ? lower_append(c->l, &n, c->e) : 0;
}

/* A sum or mean over the dims of a value, or over all but `except`; the value
 * itself if there are none. */
static value_id
reduced(struct fe_call *c, enum ir_op op, value_id v, dim_id except)
{
	const struct ir_type *t = v ? ir_type(c->l->m, v) : NULL;
	bool some = false;
	struct ir_new n;
	uint8_t i;

	if (!t) {
		return 0;
	}
	ir_new_init(&n, op, c->e->span);
	ir_new_arg(&n, v);
	for (i = 0; i < t->ndims; i++) {
		if (t->dims[i] != except) {
			ir_new_dim(&n, IR_ATTR_OVER, t->dims[i]);
			some = true;
		}
	}
	return some ? lower_append(c->l, &n, c->e) : v;
}

/* 1 where a label counts, 0 where it is the one that `ignore` names: rows of
 * a table that is 1 elsewhere.  0 after reporting. */
static value_id
not_ignored(struct fe_call *c, const struct ast_expr *e, value_id like)
{
	dim_id of = ir_type(c->l->m, c->args[1])->of;
	value_id one = lower_constant(c->l, 1, like, c->e->span), table;
	struct ir_new n;
	int64_t at;
	expr_id expr;

	if (!one || !lower_int(c->l, e, "`ignore`", 0,
			       ir_dim_size(c->l->m, of) - 1, &at, &expr)) {
		return 0;
	}
	ir_new_init(&n, IR_PUT, c->e->span);
	ir_new_arg(&n, one);
	ir_new_dim(&n, IR_ATTR_OF, of);
	ir_new_int(&n, IR_ATTR_AT, at);
	table = binary(c, IR_SUB, one, lower_append(c->l, &n, c->e));
	if (!table) {
		return 0;
	}
	ir_new_init(&n, IR_GATHER, c->e->span);
	ir_new_arg(&n, table);
	ir_new_arg(&n, c->args[1]);
	ir_new_dim(&n, IR_ATTR_OF, of);
	return lower_append(c->l, &n, c->e);
}

/* Whether the third operand is a number for each label; reports another. */
static bool
is_for_each_label(struct fe_call *c)
{
	const struct ir_type *label = ir_type(c->l->m, c->args[1]);
	const struct ir_type *t = ir_type(c->l->m, c->args[2]);
	bool fits = t->dtype == IR_F32 && t->ndims == label->ndims;
	uint8_t i;

	for (i = 0; fits && i < t->ndims; i++) {
		fits = ir_type_has(t, label->dims[i]);
	}
	if (!fits) {
		diag_error(c->l->diags, c->arg_at[2], "cross_entropy's third "
			   "operand is 1 where a label counts and 0 where "
			   "not: f32 of the labels' dims is expected, and "
			   "this is %s; the labels are %s",
			   lower_type_text(c->l, c->args[2]),
			   lower_type_text(c->l, c->args[1]));
	}
	return fits;
}

/* Whether the fourth operand is one number; reports another, and a label that
 * is left out beside it. */
static bool
is_total(struct fe_call *c, const struct ast_expr *ignore)
{
	const struct ir_type *t = ir_type(c->l->m, c->args[3]);

	if (t->dtype != IR_F32 || t->ndims > 0) {
		diag_error(c->l->diags, c->arg_at[3], "cross_entropy's fourth "
			   "operand is how many labels of the batch count: "
			   "f32[] is expected, and this is %s",
			   lower_type_text(c->l, c->args[3]));
		return false;
	}
	if (ignore) {
		diag_error(c->l->diags, ignore->span, "`ignore` leaves out "
			   "labels that the fourth operand has counted: "
			   "--ignore-label of a run leaves them out of "
			   "`loss_mask` and `loss_tokens`");
		return false;
	}
	return true;
}

/* The sum over the labels that count, divided by the number of them. */
static value_id
whole_mean(struct fe_call *c, value_id each, value_id counts, value_id total)
{
	value_id one = lower_constant(c->l, 1, each, c->e->span);
	value_id sum = reduced(c, IR_SUM, binary(c, IR_MUL, each, counts), 0);

	return binary(c, IR_DIV, sum, binary(c, IR_MAX, total, one));
}

/* The mean over sequences of each one's mean over the labels that count. */
static value_id
counted_mean(struct fe_call *c, value_id each, value_id counts)
{
	dim_id batch = ir_dim_find(c->l->m, lower_sym(c->l, "batch"));
	value_id sum, n, one = lower_constant(c->l, 1, each, c->e->span);

	sum = reduced(c, IR_SUM, binary(c, IR_MUL, each, counts), batch);
	n = binary(c, IR_MAX, reduced(c, IR_SUM, counts, batch), one);
	return reduced(c, IR_MEAN, binary(c, IR_DIV, sum, n), 0);
}

bool
call_cross_entropy(struct fe_call *c, value_id *out)
{
	const struct ast_expr *ignore = call_named(c, "ignore");
	value_id each, counts, kept = 0;
	struct ir_new n;

	if (!ir_type(c->l->m, c->args[1])->of) {
		diag_error(c->l->diags, c->arg_at[1], "cross_entropy's second "
			   "operand is the right answers: an index is "
			   "expected, and this is %s",
			   lower_type_text(c->l, c->args[1]));
		return false;
	}
	if (c->nargs >= 3 && !is_for_each_label(c)) {
		return false;
	}
	if (c->nargs == 4 && !is_total(c, ignore)) {
		return false;
	}
	ir_new_init(&n, IR_CROSS_ENTROPY, c->e->span);
	ir_new_arg(&n, c->args[0]);
	ir_new_arg(&n, c->args[1]);
	each = lower_append(c->l, &n, c->e);
	if (!each) {
		return false;
	}
	if (ignore) {
		kept = not_ignored(c, ignore, each);
		if (!kept) {
			return false;
		}
	}
	counts = c->nargs >= 3 ? c->args[2] : kept;
	if (c->nargs == 3 && ignore) {
		counts = binary(c, IR_MUL, counts, kept);
	}
	*out = c->nargs == 4 ? whole_mean(c, each, counts, c->args[3])
	     : counts ? counted_mean(c, each, counts)
	     : reduced(c, IR_MEAN, each, 0);
	return *out != 0;
}
