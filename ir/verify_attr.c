/*
 * The verifier's rules for attributes.  They are rules of attributes, not of
 * ops: whatever op has `at`, its operand is cut by it, and one that has
 * `groups` is ranked in groups.
 */
#include "ir/verify.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The least value that a number may have. */
static const struct {
	enum ir_attr_key key;
	bool above;		/* it must be above that value */
	double least;
} ranges[] = {
	{ IR_ATTR_STD, false, 0 },
	{ IR_ATTR_AT, false, 0 },
	{ IR_ATTR_COUNT, false, 1 },
	{ IR_ATTR_START, false, 0 },
	{ IR_ATTR_EPS, true, 0 },
	{ IR_ATTR_THETA, true, 0 },
	{ IR_ATTR_FACTOR, true, 0 },
	{ IR_ATTR_LOW, true, 0 },
	{ IR_ATTR_HIGH, true, 0 },
	{ IR_ATTR_FAST, true, 0 },
	{ IR_ATTR_SLOW, true, 0 },
	{ IR_ATTR_ORIGINAL, false, 1 },
	{ IR_ATTR_WINDOW, false, 1 },
	{ IR_ATTR_EXPECT, false, 1 },
	{ IR_ATTR_SOFTCAP, true, 0 },
	{ IR_ATTR_ALIBI, true, 0 },
	{ IR_ATTR_BALANCE, true, 0 },
	{ IR_ATTR_GROUPS, false, 1 },
	{ IR_ATTR_TOP_GROUPS, false, 1 },
	{ IR_ATTR_GROUP_BEST, false, 1 },
	{ IR_ATTR_RATE, false, 0 },
	{ IR_ATTR_CHUNKS, false, 1 }
};

/* Attributes that may be given only together with another. */
static const struct {
	enum ir_attr_key key, needs;
} companions[] = {
	{ IR_ATTR_ROUNDED, IR_ATTR_FROZEN },
	{ IR_ATTR_LOW, IR_ATTR_FACTOR },
	{ IR_ATTR_HIGH, IR_ATTR_FACTOR },
	{ IR_ATTR_ORIGINAL, IR_ATTR_FACTOR },
	{ IR_ATTR_FAST, IR_ATTR_FACTOR },
	{ IR_ATTR_FAST, IR_ATTR_ORIGINAL },
	{ IR_ATTR_SLOW, IR_ATTR_FAST },
	{ IR_ATTR_UNTRUNCATED, IR_ATTR_FAST },
	{ IR_ATTR_TOP_GROUPS, IR_ATTR_GROUPS },
	{ IR_ATTR_GROUP_BEST, IR_ATTR_TOP_GROUPS }
};

#define COUNT_OF(table) (sizeof(table) / sizeof(table)[0])

/* ---- one attribute ---- */

static bool
check_axes(struct verifier *v, const struct ir_node *n,
	   const struct ir_attr *a)
{
	uint32_t seen = 0;
	uint8_t i;

	if (a->ndims < 1 || a->ndims > IR_MAX_AXES) {
		return ver_broken(v, n, "expected 1 to %d axes in `%s`, found "
				  "%d", IR_MAX_AXES, ir_attrs[a->key].name,
				  a->ndims);
	}
	for (i = 0; i < a->ndims; i++) {
		axis_id x = a->dims[i];

		if (!x || x >= v->m->axes.n || seen >> x & 1) {
			return ver_broken(v, n, "expected axes of the mesh in "
					  "`%s`, each once",
					  ir_attrs[a->key].name);
		}
		seen |= 1u << x;
	}
	return true;
}

static bool
check_dims(struct verifier *v, const struct ir_node *n,
	   const struct ir_attr *a)
{
	const char *name = ir_attrs[a->key].name;
	bool one = ir_attrs[a->key].kind == ATTR_DIM;
	uint8_t i, j;

	if (a->ndims < one || a->ndims > (one ? 1 : IR_MAX_DIMS)) {
		return ver_broken(v, n, "expected %s in `%s`, found %d",
				  one ? "1 dim" : "at most 8 dims", name,
				  a->ndims);
	}
	for (i = 0; i < a->ndims; i++) {
		if (!a->dims[i] || a->dims[i] >= v->m->dims.n) {
			return ver_broken(v, n, "expected a dim from 1 to %"
					  PRIu32 " in `%s`, found %" PRIu32,
					  v->m->dims.n - 1, name, a->dims[i]);
		}
		for (j = 0; j < i; j++) {
			if (a->dims[i] == a->dims[j]) {
				return ver_broken(v, n, "expected each dim "
						  "once in `%s`, found `%s` "
						  "twice", name,
						  ver_dim(v, a->dims[i]));
			}
		}
	}
	return true;
}

static bool
check_int(struct verifier *v, const struct ir_node *n,
	  const struct ir_attr *a)
{
	const char *name = ir_attrs[a->key].name;

	if (a->expr >= v->m->exprs.n) {
		return ver_broken(v, n, "expected an expression below %"
				  PRIu32 " in `%s`, found %" PRIu32,
				  v->m->exprs.n, name, a->expr);
	}
	if (a->expr && v->m->exprs.at[a->expr].value != a->i) {
		return ver_broken(v, n, "expected `%s` to be what its "
				  "expression comes to, %" PRId64 ", found %"
				  PRId64, name,
				  v->m->exprs.at[a->expr].value, a->i);
	}
	if (a->i < 0 || a->i > IR_MAX_SIZE) {
		return ver_broken(v, n, "expected `%s` from 0 to %" PRId64
				  ", found %" PRId64, name, IR_MAX_SIZE,
				  a->i);
	}
	return true;
}

static bool
check_list(struct verifier *v, const struct ir_node *n,
	   const struct ir_attr *a)
{
	const char *p = ir_text(v->ctx, a->text);
	double x = 1;

	while (*p) {
		size_t len = strcspn(p, ",");

		if (!num_parse_double(p, len, &x) || x <= 0) {
			return ver_broken(v, n, "expected numbers above 0 in "
					  "`%s`, found %.*s",
					  ir_attrs[a->key].name, (int)len, p);
		}
		p += len + strspn(p + len, ", ");
	}
	return true;
}

static bool
check_text(struct verifier *v, const struct ir_node *n,
	   const struct ir_attr *a)
{
	const char *name = ir_attrs[a->key].name;

	if (a->text >= v->ctx->syms.text.n) {
		return ver_broken(v, n, "expected text in `%s`, found name %"
				  PRIu32 ", which does not exist", name,
				  a->text);
	}
	if (ir_attrs[a->key].kind == ATTR_WORD) {
		return ver_is_name(v, a->text, false) ||
		       ver_broken(v, n, "expected a word in `%s`, found "
				  "\"%s\"", name, ir_text(v->ctx, a->text));
	}
	if (ir_attrs[a->key].kind == ATTR_NUMS) {
		return check_list(v, n, a);
	}
	if (v->ctx->syms.len.at[a->text] > SCAN_MAX_STRING) {
		return ver_broken(v, n, "expected at most %d bytes in `%s`, "
				  "found %" PRIu32, SCAN_MAX_STRING, name,
				  v->ctx->syms.len.at[a->text]);
	}
	return true;
}

static bool
check_kind(struct verifier *v, const struct ir_node *n,
	   const struct ir_attr *a)
{
	const char *name = ir_attrs[a->key].name;

	switch (ir_attrs[a->key].kind) {
	case ATTR_DIM:
	case ATTR_DIMS:
		return check_dims(v, n, a);
	case ATTR_AXES:
		return check_axes(v, n, a);
	case ATTR_INT:
		return check_int(v, n, a);
	case ATTR_NUM:
		return isfinite(a->num) ||
		       ver_broken(v, n, "expected a finite `%s`, found %g",
				  name, a->num);
	case ATTR_FLAG:
		return a->i == 1 ||
		       ver_broken(v, n, "expected 1 in the flag `%s`, found %"
				  PRId64, name, a->i);
	case ATTR_DTYPE:
		return (a->i >= 0 && a->i < IR_DTYPE_COUNT) ||
		       ver_broken(v, n, "expected an element type from 0 to "
				  "%d in `%s`, found %" PRId64,
				  IR_DTYPE_COUNT - 1, name, a->i);
	default:
		return check_text(v, n, a);
	}
}

static bool
check_range(struct verifier *v, const struct ir_node *n,
	    const struct ir_attr *a)
{
	double got = ir_attrs[a->key].kind == ATTR_NUM ? a->num
						       : (double)a->i;
	size_t i;

	for (i = 0; i < COUNT_OF(ranges); i++) {
		double least = ranges[i].least;

		if (ranges[i].key != a->key ||
		    (ranges[i].above ? got > least : got >= least)) {
			continue;
		}
		return ver_broken(v, n, "expected `%s` %s %g, found %g",
				  ir_attrs[a->key].name,
				  ranges[i].above ? "above" : "of at least",
				  least, got);
	}
	return true;
}

/* Checks that the op has the attribute, once, and in the order of its row. */
static bool
check_key(struct verifier *v, const struct ir_node *n, uint32_t i)
{
	const struct ir_attr *a = &v->m->attrs.at[n->attrs + i];
	long before, place;

	if (a->key >= IR_NATTRS) {
		return ver_broken(v, n, "expected an attribute from 0 to %d, "
				  "found %d", IR_NATTRS - 1, a->key);
	}
	place = ir_attr_place((enum ir_op)n->op, (enum ir_attr_key)a->key);
	if (place < 0) {
		return ver_broken(v, n, "takes no attribute `%s`",
				  ir_attrs[a->key].name);
	}
	if (i == 0) {
		return true;
	}
	before = ir_attr_place((enum ir_op)n->op, (enum ir_attr_key)a[-1].key);
	return before < place ||
	       ver_broken(v, n, "expected the attributes once each and in "
			  "the order of `%s`, found `%s` before `%s`",
			  ir_ops[n->op].attrs, ir_attrs[a[-1].key].name,
			  ir_attrs[a->key].name);
}

static bool
check_required(struct verifier *v, const struct ir_node *n)
{
	enum ir_attr_key key = ir_missing_attr(
		(enum ir_op)n->op, &v->m->attrs.at[n->attrs], n->nattrs);

	return key == IR_NATTRS ||
	       ver_broken(v, n, "expected the attribute `%s`, found none",
			  ir_attrs[key].name);
}

bool
ver_attrs(struct verifier *v, const struct ir_node *n)
{
	uint32_t i;

	for (i = 0; i < n->nattrs; i++) {
		const struct ir_attr *a = &v->m->attrs.at[n->attrs + i];

		if (!check_key(v, n, i) || !check_kind(v, n, a) ||
		    !check_range(v, n, a)) {
			return false;
		}
	}
	return check_required(v, n);
}

/* ---- attributes against each other ---- */

static bool
check_companions(struct verifier *v, const struct ir_node *n)
{
	size_t i;

	for (i = 0; i < COUNT_OF(companions); i++) {
		if (ir_attr(v->m, n, companions[i].key) &&
		    !ir_attr(v->m, n, companions[i].needs)) {
			return ver_broken(v, n, "expected `%s` beside `%s`, "
					  "found none",
					  ir_attrs[companions[i].needs].name,
					  ir_attrs[companions[i].key].name);
		}
	}
	return true;
}

static bool
check_init(struct verifier *v, const struct ir_node *n)
{
	const struct ir_attr *a = ir_attr(v->m, n, IR_ATTR_INIT);
	const char *init = a ? ir_text(v->ctx, a->text) : "normal";
	bool normal = strcmp(init, "normal") == 0;

	if (!normal && strcmp(init, "ones") != 0 &&
	    strcmp(init, "zeros") != 0) {
		return ver_broken(v, n, "expected init=normal, ones or zeros"
				  ", found init=%s", init);
	}
	if (!normal && ir_attr(v->m, n, IR_ATTR_STD)) {
		return ver_broken(v, n, "expected init=normal beside `std`, "
				  "found init=%s", init);
	}
	return true;
}

/* Checks that the part of a dim that `at` cuts is inside of it. */
static bool
check_cut(struct verifier *v, const struct ir_node *n)
{
	const struct ir_attr *of = ir_attr(v->m, n, IR_ATTR_OF);
	const struct ir_attr *to = ir_attr(v->m, n, IR_ATTR_TO);
	int64_t at = ir_attr_int(v->m, n, IR_ATTR_AT, 0);
	int64_t size, whole;
	dim_id d;

	if (ir_op_takes((enum ir_op)n->op, IR_ATTR_AT) == IR_TAKES_NOT ||
	    !of) {
		return true;
	}
	/* a cut or its inverse: the smaller dim is part of the larger one */
	d = of->dims[0];
	whole = ir_dim_size(v->m, d);
	size = to ? ir_dim_size(v->m, to->dims[0]) : 1;
	if (size > whole) {
		d = to->dims[0];
		size = whole;
		whole = ir_dim_size(v->m, d);
	}
	return at + size <= whole ||
	       ver_broken(v, n, "expected at + size of at most the %" PRId64
			  " of `%s`, found %" PRId64 " + %" PRId64, whole,
			  ver_dim(v, d), at, size);
}

static bool
check_groups(struct verifier *v, const struct ir_node *n)
{
	const struct ir_attr *of = ir_attr(v->m, n, IR_ATTR_OF);
	const struct ir_attr *to = ir_attr(v->m, n, IR_ATTR_TO);
	int64_t groups = ir_attr_int(v->m, n, IR_ATTR_GROUPS, 0);
	int64_t top = ir_attr_int(v->m, n, IR_ATTR_TOP_GROUPS, groups);
	int64_t whole, places;

	if (!groups || !of || !to) {
		return true;
	}
	whole = ir_dim_size(v->m, of->dims[0]);
	if (whole % groups != 0) {
		return ver_broken(v, n, "expected groups that divide `%s` = %"
				  PRId64 ", found %" PRId64,
				  ver_dim(v, of->dims[0]), whole, groups);
	}
	if (top > groups) {
		return ver_broken(v, n, "expected at most %" PRId64
				  " top_groups, as there are groups, found %"
				  PRId64, groups, top);
	}
	places = top * (whole / groups);
	return ir_dim_size(v->m, to->dims[0]) <= places ||
	       ver_broken(v, n, "expected `%s` of at most %" PRId64
			  ", what %" PRId64 " of %" PRId64 " groups hold, "
			  "found %" PRId64, ver_dim(v, to->dims[0]), places,
			  top, groups, ir_dim_size(v->m, to->dims[0]));
}

/* Kernels add ALiBi's bias to scores before these are scaled, and cannot add it
 * to capped ones. */
static bool
check_alibi(struct verifier *v, const struct ir_node *n)
{
	if (!ir_attr(v->m, n, IR_ATTR_ALIBI)) {
		return true;
	}
	if (ir_attr(v->m, n, IR_ATTR_SOFTCAP)) {
		return ver_broken(v, n, "expected `alibi` or `softcap`, found "
				  "both");
	}
	return ir_attr_num(v->m, n, IR_ATTR_SCALE, 1) != 0 ||
	       ver_broken(v, n, "expected a `scale` that is not 0 with "
			  "`alibi`, found 0");
}

/* YaRN's ramp needs frequencies that fall, and an end after its start. */
static bool
check_yarn(struct verifier *v, const struct ir_node *n)
{
	double fast = ir_attr_num(v->m, n, IR_ATTR_FAST, 0);
	double slow = ir_attr_num(v->m, n, IR_ATTR_SLOW, 1);
	double theta = ir_attr_num(v->m, n, IR_ATTR_THETA, 10000);

	if (fast > 0 && (ir_attr(v->m, n, IR_ATTR_LOW) ||
			 ir_attr(v->m, n, IR_ATTR_HIGH))) {
		return ver_broken(v, n, "expected `fast`, or `low` and `high`, "
				  "found both");
	}
	if (fast > 0 && theta <= 1) {
		return ver_broken(v, n, "expected `theta` above 1 with `fast`, "
				  "found %g", theta);
	}
	return fast == 0 || slow < fast ||
	       ver_broken(v, n, "expected `slow` below `fast`, found %g and "
			  "%g", slow, fast);
}

/* A number for each pair, and no factor beside them. */
static bool
check_stretch(struct verifier *v, const struct ir_node *n, dim_id last)
{
	const struct ir_attr *a = ir_attr(v->m, n, IR_ATTR_STRETCH);
	int64_t count = a ? ir_list_count(ir_text(v->ctx, a->text)) : 0;

	if (a && ir_attr(v->m, n, IR_ATTR_FACTOR)) {
		return ver_broken(v, n, "expected `factor` or `stretch`, found "
				  "both");
	}
	return !a || !last || count == ir_dim_size(v->m, last) / 2 ||
	       ver_broken(v, n, "expected %" PRId64 " numbers in `stretch`, "
			  "one for each pair of `%s`, found %" PRId64,
			  ir_dim_size(v->m, last) / 2, ver_dim(v, last),
			  count);
}

/*
 * Rotary embedding: pairs need an even last dim, and the bounds of its
 * extension are ordered.
 */
static bool
check_rotary(struct verifier *v, const struct ir_node *n)
{
	const struct ir_type *t;
	double low = ir_attr_num(v->m, n, IR_ATTR_LOW, 1);
	double high = ir_attr_num(v->m, n, IR_ATTR_HIGH, 4);
	dim_id last;

	if (!ir_attr(v->m, n, IR_ATTR_THETA) || n->nargs == 0) {
		return true;
	}
	t = ir_type(v->m, ir_args(v->m, n)[0]);
	last = t->ndims ? t->dims[t->ndims - 1] : 0;
	if (last && ir_dim_size(v->m, last) % 2 != 0) {
		return ver_broken(v, n, "expected an even last dim, found "
				  "`%s` = %" PRId64, ver_dim(v, last),
				  ir_dim_size(v->m, last));
	}
	return check_yarn(v, n) && check_stretch(v, n, last) &&
	       (low <= high ||
		ver_broken(v, n, "expected `low` of at most `high`, found %g "
			   "and %g", low, high));
}

static bool
check_group_best(struct verifier *v, const struct ir_node *n)
{
	int64_t best = ir_attr_int(v->m, n, IR_ATTR_GROUP_BEST, 2);

	return best <= 2 ||
	       ver_broken(v, n, "expected `group_best` of 1 or 2, found %"
			  PRId64, best);
}

static bool
check_balance(struct verifier *v, const struct ir_node *n)
{
	if (!ir_attr(v->m, n, IR_ATTR_BALANCE)) {
		return true;
	}
	if (ir_attr(v->m, n, IR_ATTR_FROZEN)) {
		return ver_broken(v, n, "expected `frozen` or `balance`, found "
				  "both");
	}
	return ir_type(v->m, n->result)->dtype == IR_F32 ||
	       ver_broken(v, n, "expected f32 with `balance`, since its steps "
			  "are small, found %s",
			  ir_dtypes[ir_type(v->m, n->result)->dtype].name);
}

static bool
check_rate(struct verifier *v, const struct ir_node *n)
{
	double rate = ir_attr_num(v->m, n, IR_ATTR_RATE, 0);

	return rate < 1 ||
	       ver_broken(v, n, "expected `rate` below 1, found %g", rate);
}

/* ---- weights that are stored in 8 or 4 bits, and scales ---- */

static bool
is_stored(int64_t dtype)
{
	return dtype == IR_INT8 || dtype == IR_F8E4M3;
}

/* Rows of an int4 are its last dims, in whole groups. */
static bool
check_rows(struct verifier *v, const struct ir_node *n,
	   const struct ir_attr *over)
{
	const struct ir_type *t = ir_type(v->m, n->result);
	int64_t k = ir_row_elems(v->m, t, over);

	if (t->dtype != IR_INT4) {
		return true;
	}
	if (k == 0) {
		return ver_broken(v, n, "expected the last dims of an int4 in "
				  "`rounded`");
	}
	return k % IR_GROUP == 0 ||
	       ver_broken(v, n, "expected a multiple of %d elements in a row "
			  "of an int4, found %lld", IR_GROUP, (long long)k);
}

static bool
check_weight(struct verifier *v, const struct ir_node *n)
{
	const struct ir_attr *a = ir_attr(v->m, n, IR_ATTR_ROUNDED);
	const struct ir_type *t = ir_type(v->m, n->result);
	uint32_t i;

	if (!a) {
		return (t->dtype != IR_INT8 && t->dtype != IR_INT4) ||
		       n->op != IR_WEIGHT ||
		       ver_broken(v, n, "expected `rounded` beside a weight "
				  "of %s", ir_dtypes[t->dtype].name);
	}
	if (!is_stored(t->dtype) && t->dtype != IR_INT4) {
		return ver_broken(v, n, "expected int8, int4 or f8e4m3 beside "
				  "`rounded`, found %s",
				  ir_dtypes[t->dtype].name);
	}
	for (i = 0; i < a->ndims; i++) {
		if (!ir_type_has(t, a->dims[i])) {
			return ver_broken(v, n, "expected dims of the weight "
					  "in `rounded`, found `%s`",
					  ver_dim(v, a->dims[i]));
		}
	}
	return check_rows(v, n, a);
}

/* Whether the name ends as that of scales does, after that of a weight. */
static bool
has_suffix(const char *name)
{
	size_t n = strlen(name), end = strlen(IR_SCALES_SUFFIX);

	return n > end && strcmp(name + n - end, IR_SCALES_SUFFIX) == 0;
}

static bool
check_scales(struct verifier *v, const struct ir_node *n)
{
	const struct ir_attr *over = ir_attr(v->m, n, IR_ATTR_OVER);
	const struct ir_type *t = ir_type(v->m, n->result);
	int64_t stored = ir_attr(v->m, n, IR_ATTR_STORED)->i;
	uint32_t i, k = 0;

	if (!has_suffix(ir_text(v->ctx, ir_attr(v->m, n,
						IR_ATTR_NAME)->text)) ||
	    !is_stored(stored) || t->dtype != IR_F32) {
		return ver_broken(v, n, "expected f32 scales of a weight in "
				  "int8 or f8e4m3, by its name and `"
				  IR_SCALES_SUFFIX "`");
	}
	for (i = 0; i < over->ndims; i++) {
		k += k < t->ndims && t->dims[k] == over->dims[i];
	}
	return k == t->ndims ||
	       ver_broken(v, n, "expected dims of the weight, in the order of "
			  "`over`, found %s", ir_type_text(v->m, t));
}

static bool
check_rounded(struct verifier *v, const struct ir_node *n)
{
	return n->op == IR_SCALES ? check_scales(v, n) : check_weight(v, n);
}

bool
ver_relations(struct verifier *v, const struct ir_node *n)
{
	return check_companions(v, n) && check_init(v, n) &&
	       (!ir_is(n->op, IRF_LOADED) || check_rounded(v, n)) &&
	       check_balance(v, n) &&
	       check_rate(v, n) && check_group_best(v, n) &&
	       check_cut(v, n) && check_groups(v, n) &&
	       check_rotary(v, n) && check_alibi(v, n);
}

/* ---- name templates ---- */

static bool
is_word(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(word, text, len) == 0;
}

/* Whether {text} is a number of the variable of a repeat around the node. */
static bool
is_variable(const struct verifier *v, const struct ir_node *n,
	    const char *text, size_t len)
{
	const struct ir_attr *own = ir_attr(v->m, n, IR_ATTR_VAR);
	struct ir_placeholder p;
	uint32_t i;

	ir_placeholder_read(text, len, &p);
	for (i = 0; i < v->vars.n; i++) {
		if (ir_placeholder_is(&p, ir_text(v->ctx, v->vars.at[i]))) {
			return true;
		}
	}
	return own && ir_placeholder_is(&p, ir_text(v->ctx, own->text));
}

/* The type of the tensor that a source or a sink names. */
static const struct ir_type *
named_type(const struct verifier *v, const struct ir_node *n)
{
	return ir_type(v->m, n->nresults || !n->nargs ? n->result
						      : ir_args(v->m, n)[0]);
}

/* Whether the node names a tensor, so that the name may contain its dims. */
static bool
names_tensor(const struct ir_node *n)
{
	return ir_is((enum ir_op)n->op, IRF_SOURCE | IRF_SINK | IRF_PEER);
}

/* The index of the dim of a named tensor that {text} stands for, or -1. */
static int
dim_place(const struct verifier *v, const struct ir_node *n,
	  const char *text, size_t len)
{
	const struct ir_type *t = named_type(v, n);
	int i;

	for (i = 0; names_tensor(n) && i < t->ndims; i++) {
		if (is_word(text, len, ir_dim_name(v->m, t->dims[i]))) {
			return i;
		}
	}
	return -1;
}

/* Checks {text} in the node's name; dims that occur are marked in *dims. */
static bool
check_word(struct verifier *v, const struct ir_node *n, const char *text,
	   size_t len, uint32_t *dims)
{
	int place;

	if (is_variable(v, n, text, len)) {
		return true;
	}
	place = dim_place(v, n, text, len);
	if (place >= 0) {
		*dims |= 1u << place;
		return true;
	}
	return ver_broken(v, n, "expected a repeat variable in scope%s in the "
			  "name, found `{%.*s}`",
			  names_tensor(n) ? " or a dim of the result" : "",
			  (int)len, text);
}

bool
ver_template(struct verifier *v, const struct ir_node *n)
{
	const struct ir_attr *a = ir_attr(v->m, n, IR_ATTR_NAME);
	const char *p = a ? ir_text(v->ctx, a->text) : "";
	uint32_t dims = 0;

	while (*(p += strcspn(p, "{}"))) {
		size_t len = strcspn(p + 1, "{}");

		if (*p == '}' || p[1 + len] != '}') {
			return ver_broken(v, n, "expected `{` and `}` in "
					  "pairs in the name, found \"%s\"",
					  ir_text(v->ctx, a->text));
		}
		if (!check_word(v, n, p + 1, len, &dims)) {
			return false;
		}
		p += len + 2;
	}
	/* a stored tensor is contiguous: dims are 1, 11, 111, ... */
	return (dims & (dims + 1)) == 0 ||
	       ver_broken(v, n, "expected only outermost dims of %s in the "
			  "name, found \"%s\"",
			  ir_type_text(v->m, named_type(v, n)),
			  ir_text(v->ctx, a->text));
}
