/*
 * Ops by name.  Any op of ir/ops.def can be called, with its row's attributes
 * as named arguments: how such a call is written, which attributes have a
 * default, and how attributes must agree.
 */
#include "frontend/lang/call.h"

#include <string.h>

static const struct ir_attr *
find_attr(const struct ir_new *n, enum ir_attr_key key)
{
	uint32_t i;

	for (i = 0; i < n->nattrs; i++) {
		if (n->attrs[i].key == key) {
			return &n->attrs[i];
		}
	}
	return NULL;
}

/* ---- attributes from arguments ---- */

static bool
one_dim(struct fe_call *c, const char *name, const struct ast_expr *e,
	struct ir_attr *a)
{
	if (!call_dims(c, e, a->dims, &a->ndims)) {
		return false;
	}
	if (a->ndims != 1) {
		diag_error(c->l->diags, e->span, "`%s` is one dim, and %u are "
			   "given", name, a->ndims);
		return false;
	}
	return true;
}

/* `(1, 1.5, ...)`: numbers above 0. */
static bool
number_list(struct fe_call *c, const char *name, const struct ast_expr *e,
	    struct ir_attr *a)
{
	const struct ast_arg *x = e->kind == AST_TUPLE ? e->args : NULL;
	struct buf b;
	double v;

	if (!x) {
		diag_error(c->l->diags, e->span, "`%s` is a list of numbers, "
			   "(1, 1.5, ...)", name);
		return false;
	}
	buf_init(&b, &c->l->ctx->tmp);
	for (; x; x = x->next) {
		if (!call_positive(c, x->expr, name, &v)) {
			return false;
		}
		ir_list_add(&b, v);
	}
	a->text = lower_sym(c->l, buf_text(&b));
	return true;
}

static bool
attr_arg(struct fe_call *c, enum ir_attr_key key, const struct ast_expr *e,
	 struct ir_new *n)
{
	struct ir_attr *a = ir_new_attr(n, key);
	const char *name = ir_attrs[key].name;
	const char *quoted = arena_printf(&c->l->ctx->tmp, "`%s`", name);

	switch (ir_attrs[key].kind) {
	case ATTR_DIM:
		return one_dim(c, name, e, a);
	case ATTR_DIMS:
		return call_dims(c, e, a->dims, &a->ndims);
	case ATTR_INT:
		return lower_int(c->l, e, quoted, key == IR_ATTR_AT ? 0 : 1,
				 IR_MAX_SIZE, &a->i, &a->expr);
	case ATTR_NUMS:
		return number_list(c, name, e, a);
	case ATTR_NUM:
		/* all other numbers divide, or are under a root */
		return key == IR_ATTR_SCALE
		       ? lower_number(c->l, e, quoted, &a->num)
		       : call_positive(c, e, name, &a->num);
	default:
		diag_error(c->l->diags, e->span, "%s is not an argument with a "
			   "value", quoted);
		return false;
	}
}

/* Which attribute dims without a name are. */
static enum ir_attr_key
bare_key(enum ir_op op)
{
	return ir_op_takes(op, IR_ATTR_OF) != IR_TAKES_NOT ? IR_ATTR_OF
	     : ir_op_takes(op, IR_ATTR_OVER) != IR_TAKES_NOT ? IR_ATTR_OVER
							       : IR_ATTR_SEQ;
}

/* Defaults: the last dim, the dim `seq`, the dim of an index, 10000. */
static void
default_attr(struct fe_call *c, enum ir_attr_key key, struct ir_new *n)
{
	const struct ir_type *x = ir_type(c->l->m, c->args[0]);
	const struct ir_factor *over;
	struct ir_rule r;
	dim_id d = 0;
	uint32_t i;

	ir_rule_read(&r, n->op);
	over = ir_rule_factor(&r, "over");
	if (key == IR_ATTR_OVER && over && over->out && x->ndims) {
		d = x->dims[x->ndims - 1];
	} else if (key == IR_ATTR_SEQ) {
		d = lower_find_dim(c->l, lower_sym(c->l, "seq"));
	} else if (key == IR_ATTR_OF) {
		for (i = 1; i < c->nargs && !d; i++) {
			d = ir_type(c->l->m, c->args[i])->of;
		}
	} else if (key == IR_ATTR_THETA) {
		ir_new_num(n, key, 10000);
	}
	if (d) {
		ir_new_dim(n, key, d);
	}
}

static bool
missing_attr(struct fe_call *c, enum ir_attr_key key, const char *usage)
{
	if (key == IR_ATTR_TO || key == IR_ATTR_OF || key == IR_ATTR_OVER) {
		diag_error(c->l->diags, c->e->span, "%s needs a dim%s: it is "
			   "written %s", c->name, key == IR_ATTR_TO
			   ? " after `->`" : "", usage);
	} else {
		diag_error(c->l->diags, c->e->span, "%s needs `%s = ...`: %s",
			   c->name, ir_attrs[key].name, ir_attrs[key].help);
	}
	return false;
}

static bool
fill_attrs(struct fe_call *c, struct ir_new *n, const char *usage)
{
	uint32_t i;
	int k;

	for (i = 0; i < c->ndims; i++) {
		ir_new_dim(n, bare_key(n->op), c->dims[i]);
	}
	for (i = 0; i < c->nto; i++) {
		ir_new_dim(n, IR_ATTR_TO, c->to[i]);
	}
	for (k = 0; k < IR_NATTRS; k++) {
		enum ir_attr_key key = (enum ir_attr_key)k;
		const struct ast_expr *e = call_named(c, ir_attrs[k].name);

		if (e && find_attr(n, key)) {
			diag_error(c->l->diags, e->span, "`%s` is given "
				   "twice, once as a bare dim",
				   ir_attrs[k].name);
			return false;
		}
		if (e && !attr_arg(c, key, e, n)) {
			return false;
		}
		if (call_has_flag(c, ir_attrs[k].name)) {
			ir_new_attr(n, key);
		}
		if (ir_op_takes(n->op, key) != IR_TAKES_MUST ||
		    find_attr(n, key)) {
			continue;
		}
		default_attr(c, key, n);
		if (!find_attr(n, key)) {
			return missing_attr(c, key, usage);
		}
	}
	return true;
}

/* ---- between the attributes of an op ---- */

/* What `at` cuts out lies inside the dim. */
static bool
check_cut(struct fe_call *c, const struct ir_new *n)
{
	struct ir_module *m = c->l->m;
	const struct ir_attr *at = find_attr(n, IR_ATTR_AT);
	const struct ir_attr *to = find_attr(n, IR_ATTR_TO);
	dim_id of = find_attr(n, IR_ATTR_OF)->dims[0];
	int64_t size = to ? ir_dim_size(m, to->dims[0]) : 1;
	int64_t last = ir_dim_size(m, of) - size;

	if (at->i <= last || last < 0) {
		return true;	/* the op's rule reports a size too large */
	}
	diag_error(c->l->diags, call_named(c, "at")->span, "`at` is %lld, and "
		   "0 to %lld is legal to take %lld of the %lld of `%s`",
		   (long long)at->i, (long long)last, (long long)size,
		   (long long)ir_dim_size(m, of), ir_dim_name(m, of));
	return false;
}

static bool
check_groups(struct fe_call *c, const struct ir_new *n)
{
	struct ir_module *m = c->l->m;
	const struct ir_attr *a = find_attr(n, IR_ATTR_TOP_GROUPS);
	dim_id of = find_attr(n, IR_ATTR_OF)->dims[0];
	dim_id to = find_attr(n, IR_ATTR_TO)->dims[0];
	int64_t groups = find_attr(n, IR_ATTR_GROUPS)->i;
	int64_t top = a ? a->i : groups;
	int64_t whole = ir_dim_size(m, of), capacity;
	const struct ast_expr *e = call_named(c, "groups");

	if (whole % groups != 0) {
		diag_error(c->l->diags, e->span, "`%s` = %lld cannot be "
			   "divided into %lld groups of one "
			   "size", ir_dim_name(m, of),
			   (long long)whole, (long long)groups);
		return false;
	}
	capacity = top * (whole / groups);
	e = call_named(c, "group_best");
	if (e && find_attr(n, IR_ATTR_GROUP_BEST)->i > 2) {
		diag_error(c->l->diags, e->span, "`group_best` is %lld, and 1 "
			   "or 2 is legal",
			   (long long)find_attr(n, IR_ATTR_GROUP_BEST)->i);
		return false;
	}
	e = call_named(c, "top_groups");
	if (top > groups) {
		diag_error(c->l->diags, e->span, "`top_groups` is %lld, and "
			   "there are %lld groups", (long long)top,
			   (long long)groups);
		return false;
	}
	if (e && ir_dim_size(m, to) > capacity) {
		diag_error(c->l->diags, e->span, "%lld of %lld groups hold "
			   "%lld of `%s`, and `%s` = %lld are to be chosen",
			   (long long)top, (long long)groups,
			   (long long)capacity, ir_dim_name(m, of),
			   ir_dim_name(m, to), (long long)ir_dim_size(m, to));
		return false;
	}
	return true;
}

/* Attributes that have an effect only with another. */
static const struct {
	enum ir_attr_key key, needs;
} companions[] = {
	{ IR_ATTR_LOW, IR_ATTR_FACTOR },
	{ IR_ATTR_HIGH, IR_ATTR_FACTOR },
	{ IR_ATTR_ORIGINAL, IR_ATTR_FACTOR },
	{ IR_ATTR_FAST, IR_ATTR_FACTOR },
	{ IR_ATTR_FAST, IR_ATTR_ORIGINAL },
	{ IR_ATTR_SLOW, IR_ATTR_FAST },
	{ IR_ATTR_UNTRUNCATED, IR_ATTR_FAST },
	{ IR_ATTR_TOP_GROUPS, IR_ATTR_GROUPS },
	{ IR_ATTR_GROUP_BEST, IR_ATTR_TOP_GROUPS },
};

static bool
check_companions(struct fe_call *c)
{
	size_t i;

	for (i = 0; i < sizeof companions / sizeof *companions; i++) {
		const char *name = ir_attrs[companions[i].key].name;
		const char *needs = ir_attrs[companions[i].needs].name;
		const struct ast_expr *e = call_named(c, name);

		if ((e || call_has_flag(c, name)) && !call_named(c, needs)) {
			diag_error(c->l->diags, e ? e->span : c->e->span,
				   "`%s` has no effect without `%s = ...`",
				   name, needs);
			return false;
		}
	}
	return true;
}

/* Attributes that say the same thing in two ways. */
static const struct {
	enum ir_attr_key key, other;
} rivals[] = {
	{ IR_ATTR_FAST, IR_ATTR_LOW },
	{ IR_ATTR_FAST, IR_ATTR_HIGH },
	{ IR_ATTR_STRETCH, IR_ATTR_FACTOR },
};

static bool
check_rivals(struct fe_call *c)
{
	size_t i;

	for (i = 0; i < sizeof rivals / sizeof *rivals; i++) {
		const char *name = ir_attrs[rivals[i].key].name;
		const char *other = ir_attrs[rivals[i].other].name;
		const struct ast_expr *e = call_named(c, other);

		if (e && call_named(c, name)) {
			diag_error(c->l->diags, e->span, "`%s` cannot be given "
				   "with `%s`: they stretch the same "
				   "frequencies", other, name);
			return false;
		}
	}
	return true;
}

/* YaRN's ramp: its two ends in order, between frequencies that fall. */
static bool
check_yarn(struct fe_call *c, const struct ir_new *n)
{
	const struct ir_attr *fast = find_attr(n, IR_ATTR_FAST);
	const struct ir_attr *slow = find_attr(n, IR_ATTR_SLOW);
	double least = slow ? slow->num : 1;
	double theta = find_attr(n, IR_ATTR_THETA)->num;

	if (fast && fast->num <= least) {
		diag_error(c->l->diags, call_named(c, "fast")->span, "`fast` "
			   "is %s, and it must be above `slow` = %s",
			   lower_number_text(c->l, fast->num),
			   lower_number_text(c->l, least));
		return false;
	}
	if (fast && theta <= 1) {
		diag_error(c->l->diags, call_named(c, "theta")->span, "`theta` "
			   "is %s, and with `fast` it must be above 1",
			   lower_number_text(c->l, theta));
		return false;
	}
	return true;
}

/* `stretch` has a number for each pair. */
static bool
check_stretch(struct fe_call *c, const struct ir_new *n)
{
	const struct ir_attr *a = find_attr(n, IR_ATTR_STRETCH);
	const struct ir_type *x = ir_type(c->l->m, c->args[0]);
	dim_id d = x->ndims ? x->dims[x->ndims - 1] : 0;
	int64_t want = d ? ir_dim_size(c->l->m, d) / 2 : 0, count;

	count = a ? ir_list_count(lower_text(c->l, a->text)) : want;
	if (!d || count == want) {
		return true;
	}
	diag_error(c->l->diags, call_named(c, "stretch")->span, "`stretch` has "
		   "%lld numbers, and `%s` = %lld has %lld pairs",
		   (long long)count, ir_dim_name(c->l->m, d),
		   (long long)ir_dim_size(c->l->m, d), (long long)want);
	return false;
}

/* Rotary pairs need an even dim, and `low` must be below `high`. */
static bool
check_rotary(struct fe_call *c)
{
	const struct ir_type *x = ir_type(c->l->m, c->args[0]);
	dim_id d = x->ndims ? x->dims[x->ndims - 1] : 0;
	const struct ast_expr *low = call_named(c, "low");
	const struct ast_expr *high = call_named(c, "high");
	double lo, hi;

	if (d && ir_dim_size(c->l->m, d) % 2 != 0) {
		diag_error(c->l->diags, c->arg_at[0], "%s rotates pairs, and "
			   "the last dim of %s, `%s` = %lld, is odd", c->name,
			   lower_type_text(c->l, c->args[0]),
			   ir_dim_name(c->l->m, d),
			   (long long)ir_dim_size(c->l->m, d));
		return false;
	}
	if (low && high && lower_number(c->l, low, "`low`", &lo) &&
	    lower_number(c->l, high, "`high`", &hi) && lo >= hi) {
		diag_error(c->l->diags, low->span, "`low` is %s, and it must "
			   "be below `high` = %s",
			   lower_number_text(c->l, lo),
			   lower_number_text(c->l, hi));
		return false;
	}
	return true;
}

/* Where the dim of an attribute was written. */
static struct span
dim_span(const struct fe_call *c, const struct ir_attr *a, dim_id d)
{
	const struct ast_expr *e = call_named(c, ir_attrs[a->key].name);
	uint32_t i;

	for (i = 0; i < c->ndims; i++) {
		if (c->dims[i] == d) {
			return c->dim_at[i];
		}
	}
	return e ? e->span : c->e->span;
}

/* The dims that attributes name are dims of the operands that need them. */
static bool
check_has_dims(struct fe_call *c, const struct ir_new *n)
{
	enum ir_attr_key key;
	struct ir_rule r;
	uint8_t i, k, j;

	ir_rule_read(&r, n->op);
	for (i = 0; i < r.nf; i++) {
		const struct ir_attr *a = r.f[i].by_attr &&
			ir_find_attr(r.f[i].name, &key) ? find_attr(n, key)
							: NULL;

		for (k = 0; a && k < r.nops; k++) {
			const struct ir_type *t = ir_type(c->l->m, c->args[k]);

			for (j = 0; r.f[i].in & 1u << k && j < a->ndims &&
				    ir_type_has(t, a->dims[j]); j++) {
				continue;
			}
			if (!(r.f[i].in & 1u << k) || j == a->ndims) {
				continue;
			}
			diag_error(c->l->diags, dim_span(c, a, a->dims[j]),
				   "`%s` is not a dim of %s, operand %d of %s",
				   ir_dim_name(c->l->m, a->dims[j]),
				   ir_type_text(c->l->m, t), k + 1, c->name);
			return false;
		}
	}
	return true;
}

static bool
check_attrs(struct fe_call *c, const struct ir_new *n)
{
	return check_has_dims(c, n) && check_companions(c) &&
	       check_rivals(c) &&
	       (!find_attr(n, IR_ATTR_AT) || check_cut(c, n)) &&
	       (!find_attr(n, IR_ATTR_GROUPS) || check_groups(c, n)) &&
	       (!find_attr(n, IR_ATTR_THETA) ||
		(check_rotary(c) && check_yarn(c, n) && check_stretch(c, n)));
}

/* ---- the call ---- */

/*
 * The words of an op's row: attributes with a value, and flags.  Axes of the
 * mesh come from a plan: the language has no word for them.
 */
static void
op_words(struct fe_call *c, enum ir_op op)
{
	struct buf words, flags;
	int k;

	buf_init(&words, &c->l->ctx->tmp);
	buf_init(&flags, &c->l->ctx->tmp);
	for (k = 0; k < IR_NATTRS; k++) {
		struct buf *b = ir_attrs[k].kind == ATTR_FLAG ? &flags
							      : &words;

		if (ir_attrs[k].kind != ATTR_AXES &&
		    ir_op_takes(op, (enum ir_attr_key)k) != IR_TAKES_NOT) {
			lower_add_word(b, ir_attrs[k].name);
		}
	}
	c->named = buf_text(&words);
	c->flags = buf_text(&flags);
}

/* How many operands and dims the row of an op allows, and how a call of it is
 * written. */
static void
op_takes(struct fe_call *c, enum ir_op op, struct call_takes *t)
{
	enum ir_attr_key key = bare_key(op);
	bool bare = ir_op_takes(op, key) != IR_TAKES_NOT;
	bool to = ir_op_takes(op, IR_ATTR_TO) != IR_TAKES_NOT;
	uint32_t n = (uint32_t)ir_ops[op].nargs;
	struct buf b;

	memset(t, 0, sizeof *t);
	t->min_args = t->max_args = n;
	t->max_dims = !bare ? 0 : ir_attrs[key].kind == ATTR_DIMS
		      ? IR_MAX_DIMS : 1;
	t->max_to = to ? 1 : 0;
	buf_init(&b, &c->l->ctx->tmp);
	buf_printf(&b, "%s(%s", c->name,
		   n == 1 ? "x" : n == 2 ? "x, y" : n == 3 ? "x, y, z"
		   : "x, y, z, ...");
	if (bare && key != IR_ATTR_SEQ) {
		buf_puts(&b, key == IR_ATTR_OF ? ", dim" : ", dim, ...");
	}
	buf_puts(&b, to ? " -> dim" : "");
	if (ir_op_takes(op, IR_ATTR_AT) != IR_TAKES_NOT) {
		buf_puts(&b, ", at = 0");
	}
	buf_putc(&b, ')');
	t->usage = buf_text(&b);
}

static bool
run_op(struct fe_call *c, value_id *out)
{
	struct call_takes takes;
	enum ir_op op;
	struct ir_new n;
	uint32_t i;

	if (!ir_find_op(c->name, &op)) {
		die("no op is named %s", c->name);
	}
	op_words(c, op);
	op_takes(c, op, &takes);
	if (!call_sort(c, &takes)) {
		return false;
	}
	ir_new_init(&n, op, c->e->span);
	/* the type of ops whose row does not fix it */
	n.types[0].dtype = (uint8_t)c->l->dtype;
	for (i = 0; i < c->nargs; i++) {
		ir_new_arg(&n, c->args[i]);
	}
	if (!fill_attrs(c, &n, takes.usage) || !check_attrs(c, &n)) {
		return false;
	}
	*out = lower_append(c->l, &n, c->e);
	return *out != 0;
}

const struct call_fn call_op = { .run = run_op };
