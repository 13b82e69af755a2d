/*
 * The parts of a line in the text form: numbers, expressions over dims,
 * types, attributes.
 */
#include "ir/text/read.h"

#include <inttypes.h>
#include <string.h>

/* ---- numbers ---- */

/* Reads [-]NUMBER; lo..hi are its bytes, without blanks unless neg is set. */
static bool
number(struct ir_reader *r, const char *what, bool *neg, struct tok *t)
{
	*neg = scan_is(&r->s, '-');
	*t = r->s.t;
	if (*neg) {
		scan_next(&r->s);
	}
	if (r->s.t.kind != TOK_NUMBER) {
		return rd_expected(r, what);
	}
	t->lo = r->s.t.lo;
	t->hi = r->s.t.hi;
	return true;
}

bool
rd_int(struct ir_reader *r, const char *what, int64_t *v)
{
	struct tok t;
	bool neg;

	if (!number(r, what, &neg, &t)) {
		return false;
	}
	if (!num_parse_int(r->s.text + t.lo, t.hi - t.lo, v)) {
		return rd_fail(r, scan_span(&r->s, &t), "expected a whole "
			       "number of at most 63 bits, found %s",
			       scan_found(&r->s));
	}
	*v = neg ? -*v : *v;
	scan_next(&r->s);
	return true;
}

bool
rd_num(struct ir_reader *r, const char *what, double *v)
{
	struct tok t;
	bool neg;

	if (!number(r, what, &neg, &t)) {
		return false;
	}
	if (!num_parse_double(r->s.text + t.lo, t.hi - t.lo, v)) {
		return rd_fail(r, scan_span(&r->s, &t), "expected a decimal "
			       "number, found %s", scan_found(&r->s));
	}
	*v = neg ? -*v : *v;
	scan_next(&r->s);
	return true;
}

/* ---- expressions ---- */

static bool sum(struct ir_reader *r, int depth, expr_id *e);

static bool
primary(struct ir_reader *r, int depth, expr_id *e)
{
	int64_t v;
	dim_id d;

	if (scan_is(&r->s, '(')) {
		if (depth == IR_MAX_DEPTH) {
			return rd_fail(r, scan_span(&r->s, &r->s.t),
				       "expected parentheses at most %d deep, "
				       "found more", IR_MAX_DEPTH);
		}
		scan_next(&r->s);
		return sum(r, depth + 1, e) &&
		       rd_sign(r, ')', "an operator or `)`");
	}
	if (r->terms++ == SCAN_MAX_TERMS) {
		return rd_fail(r, scan_span(&r->s, &r->s.t), "expected at "
			       "most %d numbers and dims in an expression, "
			       "found more", SCAN_MAX_TERMS);
	}
	if (r->s.t.kind == TOK_NAME) {
		if (!rd_dim(r, &d)) {
			return false;
		}
		*e = ir_expr_dim(r->m, d);
		return true;
	}
	if (!rd_int(r, "a number, a dim or `(`", &v)) {
		return false;
	}
	*e = ir_expr_const(r->m, v);
	return true;
}

static bool
apply(struct ir_reader *r, enum ir_expr_kind kind, expr_id *lhs, expr_id rhs,
      uint32_t lo)
{
	struct span at = { r->s.base + lo, r->s.base + r->s.last_hi };
	const char *why;

	*lhs = ir_expr_op(r->m, kind, *lhs, rhs, &why);
	return *lhs || rd_fail(r, at, "bad expression: %s", why);
}

static bool
product(struct ir_reader *r, int depth, expr_id *e)
{
	uint32_t lo = r->s.t.lo;
	bool ok = primary(r, depth, e);

	while (ok && (scan_is(&r->s, '*') || scan_is(&r->s, '/'))) {
		enum ir_expr_kind kind = scan_is(&r->s, '*') ? EXPR_MUL
							     : EXPR_DIV;
		expr_id rhs;

		scan_next(&r->s);
		ok = primary(r, depth, &rhs) && apply(r, kind, e, rhs, lo);
	}
	return ok;
}

static bool
sum(struct ir_reader *r, int depth, expr_id *e)
{
	uint32_t lo = r->s.t.lo;
	bool ok = product(r, depth, e);

	while (ok && (scan_is(&r->s, '+') || scan_is(&r->s, '-'))) {
		enum ir_expr_kind kind = scan_is(&r->s, '+') ? EXPR_ADD
							     : EXPR_SUB;
		expr_id rhs;

		scan_next(&r->s);
		ok = product(r, depth, &rhs) && apply(r, kind, e, rhs, lo);
	}
	return ok;
}

bool
rd_expr(struct ir_reader *r, expr_id *e, struct span *at)
{
	r->terms = 0;
	at->lo = r->s.base + r->s.t.lo;
	if (!sum(r, 0, e)) {
		return false;
	}
	at->hi = r->s.base + r->s.last_hi;
	return true;
}

/* ---- types ---- */

static bool
dtype(struct ir_reader *r, enum ir_dtype *d)
{
	struct diag_near near;
	struct span at;
	sym_t name = 0;
	int i;

	if (!rd_name(r, "a type such as bf16[batch, seq]", &name, &at)) {
		return false;
	}
	if (ir_find_dtype(ir_text(r->ctx, name), d)) {
		return true;
	}
	diag_near_init(&near, ir_text(r->ctx, name));
	for (i = 0; i < IR_DTYPE_COUNT; i++) {
		diag_near_try(&near, ir_dtypes[i].name);
	}
	return rd_fail(r, at, "unknown element type `%s`%s",
		       ir_text(r->ctx, name),
		       diag_near_text(&near, &r->ctx->tmp));
}

/* Checks that a type has one placement per axis. */
static bool
fresh_axis(struct ir_reader *r, const struct ir_type *t, axis_id a,
	   struct span at)
{
	return ir_along(t, a).how == IR_IS_WHOLE ||
	       rd_fail(r, at, "expected each axis once in a type, found `%s` "
		       "twice", ir_axis_name(r->m, a));
}

/* Reads `:dp:tp` after a dim of a type: the axes that split it. */
static bool
dim_cut(struct ir_reader *r, struct ir_type *t)
{
	struct ir_along how = { IR_IS_SPLIT, t->dims[t->ndims - 1] };

	while (scan_is(&r->s, ':')) {
		struct span at;
		axis_id a;

		scan_next(&r->s);
		if (!rd_axis(r, &a, &at) || !fresh_axis(r, t, a, at)) {
			return false;
		}
		ir_set_along(t, a, how);
	}
	return true;
}

static bool
type_dims(struct ir_reader *r, struct ir_type *t)
{
	while (!scan_is(&r->s, ']')) {
		struct span at = scan_span(&r->s, &r->s.t);
		dim_id d;

		if (t->ndims && !rd_sign(r, ',', "`,` or `]`")) {
			return false;
		}
		if (t->ndims) {
			at = scan_span(&r->s, &r->s.t);
		}
		if (!rd_dim(r, &d)) {
			return false;
		}
		if (ir_type_has(t, d)) {
			return rd_fail(r, at, "expected each dim once in a "
				       "type, found `%s` twice",
				       ir_dim_name(r->m, d));
		}
		if (t->ndims == IR_MAX_DIMS) {
			return rd_fail(r, at, "expected at most %d dims in a "
				       "type, found more", IR_MAX_DIMS);
		}
		t->dims[t->ndims++] = d;
		if (!dim_cut(r, t)) {
			return false;
		}
	}
	scan_next(&r->s);
	return true;
}

/* Whether marks follow: a `{` at the end of the line opens a region instead. */
static bool
has_marks(const struct ir_reader *r)
{
	char next = r->s.text[r->s.t.hi];

	return scan_is(&r->s, '{') && (next == '+' || next == '@');
}

/* `{+tp, @ep}` */
static bool
type_marks(struct ir_reader *r, struct ir_type *t)
{
	while (!scan_is(&r->s, '}')) {
		struct ir_along how = { IR_IS_PART, 0 };
		struct span at;
		axis_id a;

		scan_next(&r->s);	/* `{` or `,` */
		if (scan_is(&r->s, '@')) {
			how.how = IR_IS_ROUTED;
		} else if (!scan_is(&r->s, '+')) {
			return rd_expected(r, "`+` or `@` and an axis");
		}
		scan_next(&r->s);
		if (!rd_axis(r, &a, &at) || !fresh_axis(r, t, a, at)) {
			return false;
		}
		ir_set_along(t, a, how);
		if (!scan_is(&r->s, ',') && !scan_is(&r->s, '}')) {
			return rd_expected(r, "`,` or `}`");
		}
	}
	scan_next(&r->s);
	return true;
}

bool
rd_type(struct ir_reader *r, struct ir_type *t, struct span *at)
{
	enum ir_dtype d;
	int64_t elems;

	memset(t, 0, sizeof *t);
	*at = scan_span(&r->s, &r->s.t);
	if (!dtype(r, &d)) {
		return false;
	}
	t->dtype = (uint8_t)d;
	if (!ir_dtypes[d].is_float &&
	    (!rd_sign(r, '<', "`<` and the dim that it is an index of") ||
	     !rd_dim(r, &t->of) || !rd_sign(r, '>', "`>`"))) {
		return false;
	}
	if (!rd_sign(r, '[', "`[` and the type's dims")) {
		return false;
	}
	if (!type_dims(r, t) || (has_marks(r) && !type_marks(r, t))) {
		return false;
	}
	at->hi = r->s.base + r->s.last_hi;
	if (!ir_type_elems(r->m, t, &elems)) {
		return rd_fail(r, *at, "expected fewer than 2^63 elements, "
			       "found %s with more", ir_type_text(r->m, t));
	}
	return true;
}

/* ---- attributes ---- */

/* The attributes of an op, as a list for a message. */
static const char *
taken_text(struct ir_reader *r, enum ir_op op)
{
	const char *p = ir_ops[op].attrs;
	struct buf b;

	buf_init(&b, &r->ctx->tmp);
	for (; *p; p++) {
		if (*p == ' ') {
			buf_puts(&b, ", ");
		} else if (*p != '?') {
			buf_putc(&b, *p);
		}
	}
	return b.n ? buf_text(&b) : "none";
}

/* The attribute of that name, if the op has it. */
static bool
attr_key(struct ir_reader *r, enum ir_op op, sym_t name, struct span at,
	 enum ir_attr_key *key)
{
	const char *text = ir_text(r->ctx, name);
	struct diag_near near;
	int k;

	if (ir_find_attr(text, key) && ir_op_takes(op, *key)) {
		return true;
	}
	diag_near_init(&near, text);
	for (k = 0; k < IR_NATTRS; k++) {
		if (ir_op_takes(op, (enum ir_attr_key)k)) {
			diag_near_try(&near, ir_attrs[k].name);
		}
	}
	return rd_fail(r, at, "%s takes no attribute `%s`%s: it takes %s",
		       ir_ops[op].name, text,
		       diag_near_text(&near, &r->ctx->tmp),
		       taken_text(r, op));
}

static bool
attr_dims(struct ir_reader *r, struct ir_attr *a)
{
	bool list = scan_is(&r->s, '(') && a->ndims == 0;

	if (list) {
		scan_next(&r->s);
	}
	if (list && scan_is(&r->s, ')')) {
		scan_next(&r->s);	/* none, as in an outer product */
		return true;
	}
	do {
		if (a->ndims == IR_MAX_DIMS) {
			return rd_fail(r, scan_span(&r->s, &r->s.t),
				       "expected at most %d dims in a list, "
				       "found more", IR_MAX_DIMS);
		}
		if (a->ndims) {
			scan_next(&r->s);
		}
		if (!rd_dim(r, &a->dims[a->ndims])) {
			return false;
		}
		a->ndims++;
	} while (list && scan_is(&r->s, ','));
	return !list || rd_sign(r, ')', "`,` or `)`");
}

static bool
attr_axes(struct ir_reader *r, struct ir_attr *a)
{
	bool list = scan_is(&r->s, '(');
	struct span at;
	uint8_t i;

	do {
		if (a->ndims || list) {
			scan_next(&r->s);
		}
		if (a->ndims == IR_MAX_AXES) {
			return rd_expected(r, "at most 8 axes");
		}
		if (!rd_axis(r, &a->dims[a->ndims], &at)) {
			return false;
		}
		for (i = 0; i < a->ndims; i++) {
			if (a->dims[i] == a->dims[a->ndims]) {
				return rd_fail(r, at, "expected each axis "
					       "once, found `%s` twice",
					       ir_axis_name(r->m, a->dims[i]));
			}
		}
		a->ndims++;
	} while (list && scan_is(&r->s, ','));
	return !list || rd_sign(r, ')', "`,` or `)`");
}

static bool
attr_int(struct ir_reader *r, struct ir_attr *a)
{
	if (!scan_is(&r->s, '(')) {
		return rd_int(r, "a number, or an expression in parentheses",
			      &a->i);
	}
	r->terms = 0;
	if (!primary(r, 0, &a->expr)) {
		return false;
	}
	a->i = r->m->exprs.at[a->expr].value;
	return true;
}

/* (1, 2.5, ...): the text of the list is as it is printed. */
static bool
attr_numbers(struct ir_reader *r, struct ir_attr *a)
{
	uint32_t count = 0;
	struct buf b;
	double v;

	buf_init(&b, &r->m->ctx->tmp);
	if (!rd_sign(r, '(', "`(`")) {
		return false;
	}
	do {
		if (count++ == IR_MAX_LIST) {
			return rd_fail(r, scan_span(&r->s, &r->s.t),
				       "expected at most %d numbers in a "
				       "list, found more", IR_MAX_LIST);
		}
		if (count > 1) {
			scan_next(&r->s);
		}
		if (!rd_num(r, "a number", &v)) {
			return false;
		}
		ir_list_add(&b, v);
	} while (scan_is(&r->s, ','));
	a->text = intern_str(&r->m->ctx->syms, buf_text(&b));
	return rd_sign(r, ')', "`,` or `)`");
}

static bool
attr_text(struct ir_reader *r, struct ir_attr *a)
{
	struct span at;

	if (ir_attrs[a->key].kind == ATTR_WORD) {
		return rd_name(r, "a word", &a->text, &at);
	}
	if (r->s.t.kind != TOK_STRING) {
		return rd_expected(r, "text in quotes");
	}
	a->text = r->s.t.text;
	scan_next(&r->s);
	return true;
}

static bool
attr_value(struct ir_reader *r, struct ir_attr *a)
{
	enum ir_dtype d = IR_F32;
	bool ok;

	switch (ir_attrs[a->key].kind) {
	case ATTR_DIM:
		a->ndims = 1;
		return rd_dim(r, &a->dims[0]);
	case ATTR_DIMS:
		return attr_dims(r, a);
	case ATTR_AXES:
		return attr_axes(r, a);
	case ATTR_INT:
		return attr_int(r, a);
	case ATTR_NUM:
		return rd_num(r, "a number", &a->num);
	case ATTR_NUMS:
		return attr_numbers(r, a);
	case ATTR_DTYPE:
		ok = dtype(r, &d);
		a->i = d;
		return ok;
	default:
		return attr_text(r, a);
	}
}

bool
rd_attr(struct ir_reader *r, struct ir_new *n)
{
	enum ir_attr_key key;
	struct ir_attr *a;
	struct span at;
	sym_t name = 0;
	uint32_t i;

	if (!rd_name(r, "an attribute", &name, &at) ||
	    !attr_key(r, n->op, name, at, &key)) {
		return false;
	}
	for (i = 0; i < n->nattrs; i++) {
		if (n->attrs[i].key == key) {
			return rd_fail(r, at, "expected each attribute once, "
				       "found `%s` twice",
				       ir_attrs[key].name);
		}
	}
	a = ir_new_attr(n, key);
	if (ir_attrs[key].kind == ATTR_FLAG) {
		return !scan_is(&r->s, '=') ||
		       rd_fail(r, scan_span(&r->s, &r->s.t), "expected the "
			       "flag `%s` alone, found `=`",
			       ir_attrs[key].name);
	}
	return rd_sign(r, '=', "`=` and the attribute's value") &&
	       attr_value(r, a);
}

bool
rd_attrs_complete(struct ir_reader *r, const struct ir_new *n, struct span op)
{
	enum ir_attr_key key = ir_missing_attr(n->op, n->attrs, n->nattrs);

	return key == IR_NATTRS ||
	       rd_fail(r, op, "%s needs the attribute `%s=`: %s",
		       ir_ops[n->op].name, ir_attrs[key].name,
		       ir_attrs[key].help);
}
