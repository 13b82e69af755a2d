/*
 * linear: which dims it contracts, where its weight comes from, and its bias.
 * An index as a second operand chooses among weights.
 */
#include "frontend/lang/call.h"

#include <string.h>

/* ---- a weight that is shared ---- */

static bool
in_scope(const struct lower *l, region_id region)
{
	const struct scope *s = l->scope;

	while (s && s->region != region) {
		s = s->outer;
	}
	return s != NULL;
}

/* What the weight that is shared says must not be said again. */
static bool
check_tied(struct call *c)
{
	static const char *const own[] = { "init", "std", "dtype" };
	int i;

	for (i = 0; i < 3; i++) {
		const struct ast_expr *e = call_named(c, own[i]);

		if (e) {
			diag_error(c->l->diags, e->span, "`%s` belongs to the "
				   "call that makes the weight, and `tied` "
				   "shares one", own[i]);
			return false;
		}
	}
	if (c->e->at && !call_has_flag(c, "bias")) {
		diag_error(c->l->diags, c->e->at_span, "`tied` shares a "
			   "weight, so `@` names nothing here");
		return false;
	}
	return true;
}

/* The same dims, in any order: `transposed` may differ. */
static bool
fits_tied(struct call *c, const struct ir_type *want,
	  const struct tensor_name *t, struct span at)
{
	const struct ir_type *have = ir_type(c->l->m, t->value);
	uint8_t i = 0;

	while (i < want->ndims && ir_type_has(have, want->dims[i])) {
		i++;
	}
	if (i == want->ndims && have->ndims == want->ndims) {
		return true;
	}
	diag_error(c->l->diags, at, "`%s` is %s, and this call needs %s",
		   lower_text(c->l, t->written), ir_type_text(c->l->m, have),
		   ir_type_text(c->l->m, want));
	diag_note(c->l->diags, t->span, "it is made here");
	return false;
}

/* `tied = "name"`: the weight of type `want` that an earlier call made. */
static value_id
tied_weight(struct call *c, const struct ast_expr *e,
	    const struct ir_type *want)
{
	const struct func_info *f = &c->l->funcs.at[c->l->func];
	struct diag_near near;
	uint32_t i;

	if (!check_tied(c)) {
		return 0;
	}
	if (e->kind != AST_STR) {
		diag_error(c->l->diags, e->span, "`tied` is the quoted @ name "
			   "of an earlier call");
		return 0;
	}
	diag_near_init(&near, lower_text(c->l, e->sym));
	for (i = 0; i < f->tensors.n; i++) {
		const struct tensor_name *t = &f->tensors.at[i];

		if (!t->value || !t->written) {
			continue;
		}
		if (t->written == e->sym && !in_scope(c->l, t->region)) {
			diag_error(c->l->diags, e->span, "`%s` is made in a "
				   "repeat, and out of reach behind it",
				   lower_text(c->l, e->sym));
			diag_note(c->l->diags, t->span, "it is made here");
			return 0;
		}
		if (t->written == e->sym) {
			return fits_tied(c, want, t, e->span) ? t->value : 0;
		}
		diag_near_try(&near, lower_text(c->l, t->written));
	}
	diag_error(c->l->diags, e->span, "no weight above is named `%s`%s",
		   lower_text(c->l, e->sym),
		   diag_near_text(&near, &c->l->ctx->tmp));
	return 0;
}

/* ---- what is contracted ---- */

/*
 * What linear contracts unless told: every dim of x that is not one of a
 * token's coordinates (batch, seq) nor of the index.
 */
static bool
default_over(struct call *c, dim_id *over, uint8_t *n)
{
	const struct ir_type *x = ir_type(c->l->m, c->args[0]);
	const struct ir_type *e = c->nargs > 1 ? ir_type(c->l->m, c->args[1])
					       : NULL;
	uint8_t i;

	for (*n = i = 0; i < x->ndims; i++) {
		const char *name = ir_dim_name(c->l->m, x->dims[i]);

		if (strcmp(name, "batch") != 0 && strcmp(name, "seq") != 0 &&
		    !(e && ir_type_has(e, x->dims[i]))) {
			over[(*n)++] = x->dims[i];
		}
	}
	if (*n == 0) {
		diag_error(c->l->diags, c->arg_at[0], "linear finds no dim to "
			   "contract in %s: it leaves batch, seq and the dims "
			   "of an index alone, unless told `over = ...`",
			   ir_type_text(c->l->m, x));
	}
	return *n > 0;
}

static bool
linear_over(struct call *c, dim_id *over, uint8_t *n)
{
	const struct ast_expr *e = call_named(c, "over");
	const struct ir_type *x = ir_type(c->l->m, c->args[0]);
	uint32_t i;

	if (e ? !call_dims(c, e, over, n) : !default_over(c, over, n)) {
		return false;
	}
	for (i = 0; i < *n; i++) {
		if (!ir_type_has(x, over[i])) {
			diag_error(c->l->diags, e->span, "`%s` cannot be "
				   "contracted: it is no dim of %s",
				   ir_dim_name(c->l->m, over[i]),
				   ir_type_text(c->l->m, x));
			return false;
		}
	}
	for (i = 0; i < c->nto; i++) {
		const char *name = ir_dim_name(c->l->m, c->to[i]);

		if (call_has_dim(over, *n, c->to[i])) {
			diag_error(c->l->diags, c->to_at[i], "`%s` is both "
				   "contracted and made: declare a second dim "
				   "of its size", name);
			return false;
		}
		if (!e && ir_type_has(x, c->to[i])) {
			diag_error(c->l->diags, c->to_at[i], "`%s` is a dim "
				   "of %s already: say `over = ...` if each "
				   "%s has weights of its own", name,
				   ir_type_text(c->l->m, x), name);
			return false;
		}
	}
	return true;
}

/* The index operand: says so if it is none. */
static bool
linear_index(struct call *c, dim_id *of)
{
	*of = c->nargs > 1 ? ir_type(c->l->m, c->args[1])->of : 0;
	if (c->nargs > 1 && !*of) {
		diag_error(c->l->diags, c->arg_at[1], "linear's second "
			   "operand chooses among weights: an index is "
			   "expected, and this is %s",
			   lower_type_text(c->l, c->args[1]));
		return false;
	}
	return call_takes_number(c, 0);
}

static value_id
add_bias(struct call *c, value_id y, dim_id of, enum ir_dtype dtype)
{
	struct ir_type t = { .dtype = (uint8_t)dtype };
	struct ir_new n;
	value_id b;

	if (!call_add_dims(c, &t, &of, of ? 1 : 0) ||
	    !call_add_dims(c, &t, c->to, c->nto)) {
		return 0;
	}
	b = call_weight(c, IR_WEIGHT, ".bias", &t, "zeros");
	if (b && of) {
		ir_new_init(&n, IR_GATHER, c->e->span);
		ir_new_arg(&n, b);
		ir_new_arg(&n, c->args[1]);
		ir_new_dim(&n, IR_ATTR_OF, of);
		b = lower_append(c->l, &n, c->e);
	}
	if (!b) {
		return 0;
	}
	ir_new_init(&n, IR_ADD, c->e->span);
	ir_new_arg(&n, y);
	ir_new_arg(&n, b);
	return lower_append(c->l, &n, c->e);
}

bool
call_linear(struct call *c, value_id *out)
{
	enum ir_dtype dtype = c->l->dtype;
	const struct ast_expr *tied = call_named(c, "tied");
	dim_id over[IR_MAX_DIMS] = { 0 }, of;
	struct ir_type t = { 0 };
	bool in_first = call_has_flag(c, "transposed");
	struct ir_new n;
	value_id w, x;
	uint8_t nover, i;

	if (!call_dtype(c, &dtype) || !linear_index(c, &of) ||
	    !linear_over(c, over, &nover) ||
	    !call_add_dims(c, &t, &of, of ? 1 : 0) ||
	    !call_add_dims(c, &t, in_first ? over : c->to,
			   in_first ? nover : c->nto) ||
	    !call_add_dims(c, &t, in_first ? c->to : over,
			   in_first ? c->nto : nover)) {
		return false;
	}
	t.dtype = (uint8_t)dtype;
	w = tied ? tied_weight(c, tied, &t)
		 : call_weight(c, IR_WEIGHT, ".weight", &t, "normal");
	x = w ? call_cast(c, c->args[0], ir_type(c->l->m, w)->dtype) : 0;
	if (!x) {
		return false;
	}
	ir_new_init(&n, of ? IR_DOT_AT : IR_DOT, c->e->span);
	ir_new_arg(&n, x);
	if (of) {
		ir_new_arg(&n, c->args[1]);
		ir_new_dim(&n, IR_ATTR_OF, of);
	}
	ir_new_arg(&n, w);
	for (i = 0; i < nover; i++) {
		ir_new_dim(&n, IR_ATTR_OVER, over[i]);
	}
	*out = lower_append(c->l, &n, c->e);
	if (*out && call_has_flag(c, "bias")) {
		*out = add_bias(c, *out, of, dtype);
	}
	return *out != 0;
}
