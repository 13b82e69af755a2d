/*
 * Expressions of a nest as LLVM values: scalars where they are the same in all
 * lanes, else vectors.
 */
#include "codegen/cpu/cpu_nest.h"

#include <math.h>
#include <string.h>

/* ---- types ---- */

enum ll_base
emit_base_of(enum nest_kind kind)
{
	return kind == NEST_FLOAT ? LL_F32 : kind == NEST_WIDE ? LL_F64
		: kind == NEST_INT ? LL_I64 : LL_I1;
}

enum ll_base
emit_stored_base(uint8_t dtype)
{
	switch (dtype) {
	case IR_F64:
		return LL_F64;
	case IR_BF16:
		return LL_BF16;
	case IR_F16:
		return LL_F16;
	case IR_IDX:
		return LL_I32;
	case IR_F8E4M3:
	case IR_F8E5M2:
	case IR_INT8:
		return LL_I8;
	default:
		return LL_F32;
	}
}

int64_t
emit_elem_bytes(uint8_t dtype)
{
	return ir_dtypes[dtype].bits / 8;
}

uint32_t
emit_lanes_of(struct emit *e, struct ll_value *v)
{
	return ll_typeof(e->l, v).lanes;
}

void
emit_same_lanes(struct emit *e, struct ll_value **a, struct ll_value **b)
{
	uint32_t x = emit_lanes_of(e, *a), y = emit_lanes_of(e, *b);

	if (x < y) {
		*a = ll_splat(e->l, *a, y);
	} else if (y < x) {
		*b = ll_splat(e->l, *b, x);
	}
}

/* ---- eight bits ---- */

static struct ll_value *
bits(struct emit *e, enum ll_op op, struct ll_value *v, int64_t with)
{
	return ll_bin(e->l, op, v, ll_int(e->l, ll_typeof(e->l, v), with));
}

/*
 * As cg_cpu_widen_f8 reads it; rounded to the nearest, to even on a tie;
 * saturates.
 */
static struct ll_value *
to_f8(struct emit *e, struct ll_value *v, uint8_t dtype)
{
	struct ll_type i32 = ll_type(LL_I32, emit_lanes_of(e, v));
	struct ll_type t = ll_type(LL_F32, i32.lanes);
	bool is_e4m3 = dtype == IR_F8E4M3;
	struct ll_value *most, *x, *even, *none, *sign;
	int shift = is_e4m3 ? 20 : 21, bias = is_e4m3 ? 120 : 112;

	most = ll_num(e->l, t, ir_dtypes[dtype].most);
	none = ll_test(e->l, LL_NE, v, v);
	sign = bits(e, LL_LSHR, ll_bits(e->l, v, i32), 24);
	v = ll_math(e->l, "fabs", &v, 1);
	v = ll_select(e->l, ll_test(e->l, LL_GT, v, most), most, v);
	v = ll_bin(e->l, LL_MUL, v, ll_num(e->l, t, ldexp(1, -bias)));
	x = ll_bits(e->l, v, i32);
	even = bits(e, LL_AND, bits(e, LL_LSHR, x, shift), 1);
	x = bits(e, LL_ADD, x, ((int64_t)1 << (shift - 1)) - 1);
	x = bits(e, LL_LSHR, ll_bin(e->l, LL_ADD, x, even), shift);
	x = ll_select(e->l, none, ll_int(e->l, i32, is_e4m3 ? 0x7f : 0x7d), x);
	x = ll_bin(e->l, LL_OR, x, bits(e, LL_AND, sign, 0x80));
	return ll_cast(e->l, x, LL_I8);
}

static bool
is_f8(uint8_t dtype)
{
	return dtype == IR_F8E4M3 || dtype == IR_F8E5M2;
}

/* As to_f8; NaN becomes 0. */
static struct ll_value *
to_int8(struct emit *e, struct ll_value *v)
{
	struct ll_type t = ll_typeof(e->l, v);
	struct ll_value *most = ll_num(e->l, t, 127), *least;

	least = ll_num(e->l, t, -127);
	v = ll_select(e->l, ll_test(e->l, LL_NE, v, v), ll_zero(e->l, t), v);
	v = ll_select(e->l, ll_test(e->l, LL_GT, v, most), most, v);
	v = ll_select(e->l, ll_test(e->l, LL_LT, v, least), least, v);
	return ll_cast(e->l, ll_math(e->l, "roundeven", &v, 1), LL_I8);
}

struct ll_value *
emit_widen(struct emit *e, struct ll_value *v, uint8_t dtype)
{
	return is_f8(dtype) ? cg_cpu_widen_f8(e->l, ll_cast(e->l, v, LL_I32),
					      (enum ir_dtype)dtype)
		: ll_cast(e->l, v, dtype == IR_IDX ? LL_I64
			  : dtype == IR_F64 ? LL_F64 : LL_F32);
}

struct ll_value *
emit_narrow(struct emit *e, struct ll_value *v, uint8_t dtype)
{
	return is_f8(dtype) ? to_f8(e, ll_cast(e->l, v, LL_F32), dtype)
		: dtype == IR_INT8 ? to_int8(e, ll_cast(e->l, v, LL_F32))
		: ll_cast(e->l, v, emit_stored_base(dtype));
}

/* ---- scopes ---- */

void
emit_set_value(struct emit *e, nest_id id, struct ll_value *v)
{
	nest_scope_set(&e->scope, id, v);
}

/* ---- memory ---- */

static struct ll_value *
scaled(struct emit *e, struct ll_value *v, int64_t by)
{
	struct ll_type t = ll_typeof(e->l, v);

	return by == 1 ? v : ll_bin(e->l, LL_MUL, v, ll_int(e->l, t, by));
}

static void
add_to(struct emit *e, struct ll_value **sum, struct ll_value *v)
{
	if (!*sum) {
		*sum = v;
		return;
	}
	emit_same_lanes(e, sum, &v);
	*sum = ll_bin(e->l, LL_ADD, *sum, v);
}

struct ll_value *
emit_address(struct emit *e, nest_id place, uint32_t memory, int64_t *step,
	   struct ll_value **places)
{
	int64_t bytes = emit_elem_bytes(e->n->memory.at[memory].dtype);
	struct ll_value *one = NULL, *v;
	struct nest_affine a;
	uint32_t i;

	nest_affine(e->n, place, &a);
	*places = NULL;
	*step = e->lanes > 1 ? a.coef[e->vec] : 0;
	for (i = 0; i < e->n->loops.n; i++) {
		if (a.coef[i] != 0 && e->index[i]) {
			add_to(e, &one, scaled(e, e->index[i], a.coef[i]));
		}
	}
	for (i = 0; i < a.nrest; i++) {
		v = scaled(e, emit_expr(e, a.rest[i].e), a.rest[i].scale);
		add_to(e, emit_lanes_of(e, v) > 1 ? places : &one, v);
	}
	if (*places && *step != 0) {
		v = ll_iota(e->l, ll_type(LL_I64, e->lanes));
		add_to(e, places, scaled(e, v, *step));
	}
	v = ll_plus_n(e->l, e->at[memory], a.base * bytes);
	return one ? ll_plus(e->l, v, scaled(e, one, bytes)) : v;
}

/*
 * The number that a clamp to 0 .. *most is of, if e is one; else 0.  What is
 * loaded at a clamped place is used where the number is in bounds alone
 * (nest_pull.c).
 */
static nest_id
clamped(const struct emit *e, nest_id id, int64_t *most)
{
	const struct nest_expr *x = nest_at(e->n, id), *low, *high;
	nest_id inner;

	if (x->op != NEST_MAX || x->kind != NEST_INT) {
		return 0;
	}
	inner = nest_at(e->n, x->a)->op == NEST_NUM ? x->b : x->a;
	low = nest_at(e->n, inner == x->b ? x->a : x->b);
	x = nest_at(e->n, inner);
	if (low->op != NEST_NUM || low->i != 0 || x->op != NEST_MIN) {
		return 0;
	}
	inner = nest_at(e->n, x->a)->op == NEST_NUM ? x->b : x->a;
	high = nest_at(e->n, inner == x->b ? x->a : x->b);
	*most = high->i;
	return high->op == NEST_NUM ? inner : 0;
}

/* An affine place's part that is the same in all lanes, or their first. */
static struct ll_value *
first_place(struct emit *e, const struct nest_affine *a)
{
	struct ll_value *sum = ll_i64(e->l, a->base);
	uint32_t i;

	for (i = 0; i < e->n->loops.n; i++) {
		if (a->coef[i] != 0 && e->index[i]) {
			add_to(e, &sum, scaled(e, e->index[i], a->coef[i]));
		}
	}
	return sum;
}

/*
 * The lanes of a vector whose place is one clamped number beside what all lanes
 * share, if its elements follow each other where it is in bounds: they are
 * loaded at once, and the others are zero.  NULL: it is no such place.
 */
static struct ll_value *
load_clamped(struct emit *e, const struct nest_expr *x)
{
	uint8_t dtype = e->n->memory.at[x->ref].dtype;
	struct ll_type t = ll_type(emit_stored_base(dtype), e->lanes);
	struct ll_type i64 = ll_type(LL_I64, e->lanes);
	struct ll_value *at, *number, *mask;
	struct nest_affine a, b;
	int64_t most;
	nest_id id;

	if (e->lanes == 1) {
		return NULL;
	}
	nest_affine(e->n, x->a, &a);
	id = a.nrest == 1 && a.coef[e->vec] == 0
		? clamped(e, a.rest[0].e, &most) : 0;
	if (!id) {
		return NULL;
	}
	nest_affine(e->n, id, &b);
	if (b.nrest > 0 || a.rest[0].scale != 1 || b.coef[e->vec] != 1) {
		return NULL;
	}
	number = first_place(e, &b);
	at = first_place(e, &a);
	add_to(e, &at, number);
	at = ll_plus(e->l, e->at[x->ref],
		     scaled(e, at, emit_elem_bytes(dtype)));
	number = ll_bin(e->l, LL_ADD, ll_splat(e->l, number, e->lanes),
			ll_iota(e->l, i64));
	/* one below 0 is a large one */
	mask = ll_test(e->l, LL_ULT, number, ll_int(e->l, i64, most + 1));
	mask = e->mask ? ll_bin(e->l, LL_AND, mask, e->mask) : mask;
	return ll_load_if(e->l, t, at, mask);
}

/* Offsets of lanes that are `step` elements apart. */
static struct ll_value *
apart(struct emit *e, int64_t step)
{
	return scaled(e, ll_iota(e->l, ll_type(LL_I64, e->lanes)), step);
}

static struct ll_value *
load(struct emit *e, const struct nest_expr *x)
{
	uint8_t dtype = e->n->memory.at[x->ref].dtype;
	enum ll_base base = emit_stored_base(dtype);
	struct ll_value *places, *at, *v = load_clamped(e, x);
	int64_t step;

	if (v) {
		return emit_widen(e, v, dtype);
	}
	at = emit_address(e, x->a, x->ref, &step, &places);
	if (!places && step == 0) {
		v = ll_load(e->l, ll_type(base, 1), at);
	} else if (!places && step == 1) {
		v = e->mask
			? ll_load_if(e->l, ll_type(base, e->lanes), at,
				     e->mask)
			: ll_load(e->l, ll_type(base, e->lanes), at);
	} else {
		places = places ? places : apart(e, step);
		v = ll_gather(e->l, ll_type(base, e->lanes), at,
			      scaled(e, places, emit_elem_bytes(dtype)),
			      e->mask);
	}
	return emit_widen(e, v, dtype);
}

/* ---- functions ---- */

/* Calls a function of the C library for each lane. */
static struct ll_value *
wide_call(struct emit *e, const char *name, struct ll_value *x)
{
	const struct ll_type f64 = ll_type(LL_F64, 1);
	struct ll_value *f = ll_extern(e->l, name, f64, &f64, 1), *v;
	uint32_t lanes = emit_lanes_of(e, x), i;

	if (lanes == 1) {
		return ll_call(e->l, f, &x, 1);
	}
	v = ll_zero(e->l, ll_type(LL_F64, lanes));
	for (i = 0; i < lanes; i++) {
		struct ll_value *y = ll_lane(e->l, x, i);

		v = ll_set_lane(e->l, v, ll_call(e->l, f, &y, 1), i);
	}
	return v;
}

static struct ll_value *
wide_sigmoid(struct emit *e, struct ll_value *x)
{
	struct ll_value *one = ll_num(e->l, ll_typeof(e->l, x), 1);

	x = wide_call(e, "exp", ll_neg(e->l, x));
	return ll_bin(e->l, LL_DIV, one, ll_bin(e->l, LL_ADD, one, x));
}

/* The sine or cosine of an f64: whole turns are subtracted first, in f64. */
static struct ll_value *
turn(struct emit *e, struct ll_value *x, bool sin)
{
	const double all = 6.283185307179586477;
	struct ll_type t = ll_typeof(e->l, x);
	struct ll_value *s, *c, *k;

	k = ll_bin(e->l, LL_MUL, x, ll_num(e->l, t, 1 / all));
	k = ll_math(e->l, "roundeven", &k, 1);
	x = ll_fma(e->l, k, ll_num(e->l, t, -all), x);
	cg_sincos(e->l, ll_cast(e->l, x, LL_F32), &s, &c);
	return sin ? s : c;
}

static struct ll_value *
function(struct emit *e, const struct nest_expr *x, struct ll_value *a)
{
	bool wide = ll_typeof(e->l, a).base == LL_F64;

	switch (x->op) {
	case NEST_EXP:
		return wide ? wide_call(e, "exp", a) : cg_exp(e->l, a);
	case NEST_LOG:
		return wide ? wide_call(e, "log", a) : cg_log(e->l, a);
	case NEST_TANH:
		return wide ? wide_call(e, "tanh", a) : cg_tanh(e->l, a);
	case NEST_ERF:
		return wide ? wide_call(e, "erf", a) : cg_erf(e->l, a);
	case NEST_SIGMOID:
		return wide ? wide_sigmoid(e, a) : cg_sigmoid(e->l, a);
	case NEST_SQRT:
		return ll_math(e->l, "sqrt", &a, 1);
	case NEST_SIN:
	case NEST_COS:
		return turn(e, a, x->op == NEST_SIN);
	case NEST_NOT:
		return ll_bin(e->l, LL_XOR, a,
			      ll_int(e->l, ll_typeof(e->l, a), 1));
	default:
		die("no function of a nest: %d", x->op);
	}
}

/* ---- operators ---- */

static bool
is_power(int64_t v)
{
	return v > 0 && (v & (v - 1)) == 0;
}

static int64_t
log_of(int64_t v)
{
	int64_t i = 0;

	while (v >> i > 1) {
		i++;
	}
	return i;
}

/* Division and remainder of integers that are not negative. */
static struct ll_value *
divide(struct emit *e, const struct nest_expr *x, struct ll_value *a,
       struct ll_value *b)
{
	const struct nest_expr *by = nest_at(e->n, x->b);
	struct ll_type t = ll_typeof(e->l, a);

	if (by->op == NEST_NUM && is_power(by->i)) {
		return x->op == NEST_DIV
			? ll_bin(e->l, LL_LSHR, a,
				 ll_int(e->l, t, log_of(by->i)))
			: ll_bin(e->l, LL_AND, a,
				 ll_int(e->l, t, by->i - 1));
	}
	return ll_bin(e->l, x->op == NEST_DIV ? LL_UDIV : LL_UREM, a, b);
}

static struct ll_value *
extreme(struct emit *e, bool most, struct ll_value *a, struct ll_value *b)
{
	struct ll_value *args[2] = { a, b };

	if (ll_typeof(e->l, a).base != LL_I64) {
		return ll_math(e->l, most ? "maxnum" : "minnum", args, 2);
	}
	return ll_select(e->l, ll_test(e->l, most ? LL_GT : LL_LT, a, b), a,
			 b);
}

static struct ll_value *
operator_(struct emit *e, const struct nest_expr *x, struct ll_value *a,
	  struct ll_value *b)
{
	bool whole = nest_at(e->n, x->a)->kind == NEST_INT;

	emit_same_lanes(e, &a, &b);
	switch (x->op) {
	case NEST_ADD:
		return ll_bin(e->l, LL_ADD, a, b);
	case NEST_SUB:
		return ll_bin(e->l, LL_SUB, a, b);
	case NEST_MUL:
		return ll_bin(e->l, LL_MUL, a, b);
	case NEST_DIV:
		return whole ? divide(e, x, a, b)
			     : ll_bin(e->l, LL_DIV, a, b);
	case NEST_REM:
		return divide(e, x, a, b);
	case NEST_MIN:
	case NEST_MAX:
		return extreme(e, x->op == NEST_MAX, a, b);
	case NEST_LT:
		return ll_test(e->l, LL_LT, a, b);
	case NEST_LE:
		return ll_test(e->l, LL_LE, a, b);
	case NEST_EQ:
		return ll_test(e->l, LL_EQ, a, b);
	case NEST_AND:
		return ll_bin(e->l, LL_AND, a, b);
	default:
		die("no operator of a nest: %d", x->op);
	}
}

/* a * b + c in one rounding, if nothing else uses the product; else NULL. */
static struct ll_value *
fused(struct emit *e, const struct nest_expr *x)
{
	nest_id product = x->a, other = x->b;
	struct ll_value *a, *b, *c;

	if (x->op != NEST_ADD || x->kind > NEST_WIDE) {
		return NULL;
	}
	if (nest_at(e->n, product)->op != NEST_MUL || e->scope.made[product]) {
		product = x->b;
		other = x->a;
	}
	if (nest_at(e->n, product)->op != NEST_MUL || e->scope.made[product]) {
		return NULL;
	}
	c = emit_expr(e, other);
	a = emit_expr(e, nest_at(e->n, product)->a);
	b = emit_expr(e, nest_at(e->n, product)->b);
	emit_same_lanes(e, &a, &b);
	emit_same_lanes(e, &a, &c);
	emit_same_lanes(e, &b, &c);
	return ll_fma(e->l, a, b, c);
}

static struct ll_value *
pick(struct emit *e, const struct nest_expr *x)
{
	struct ll_value *cond = emit_expr(e, x->a);
	struct ll_value *yes = emit_expr(e, x->b);
	struct ll_value *no = emit_expr(e, x->c);

	emit_same_lanes(e, &yes, &no);
	if (emit_lanes_of(e, cond) > 1) {
		emit_same_lanes(e, &cond, &yes);
		emit_same_lanes(e, &cond, &no);
	} else if (emit_lanes_of(e, yes) > 1) {
		cond = ll_splat(e->l, cond, emit_lanes_of(e, yes));
	}
	return ll_select(e->l, cond, yes, no);
}

/* ---- leaves ---- */

static struct ll_value *
loop_index(struct emit *e, uint32_t loop)
{
	struct ll_value *i = e->index[loop];

	if (!i) {
		i = ll_i64(e->l, 0);
	}
	if (e->lanes > 1 && loop == e->vec) {
		i = ll_bin(e->l, LL_ADD, ll_splat(e->l, i, e->lanes),
			   ll_iota(e->l, ll_type(LL_I64, e->lanes)));
	}
	return i;
}

static struct ll_value *
first_of(struct emit *e, int64_t i)
{
	struct ll_value *v = i < 8 ? e->box->from[i]
		: e->box->leaves.at[i / 8 - 1].from[i % 8];

	return v ? v : ll_i64(e->l, 0);
}

static struct ll_value *
word(struct emit *e, const struct nest_expr *x)
{
	struct ll_value *p = cg_cpu_pieces(e->c, e->step, x->ref);

	return ll_load(e->l, ll_type(LL_I64, 1),
		       ll_plus_n(e->l, p, 8 * x->i));
}

static struct ll_value *
make(struct emit *e, const struct nest_expr *x)
{
	struct ll_value *v, *a, *b, *c;

	switch (x->op) {
	case NEST_NUM:
		return x->kind == NEST_INT ? ll_i64(e->l, x->i)
			: ll_num(e->l, ll_type(emit_base_of(x->kind), 1),
				 x->num);
	case NEST_LOOP:
		return loop_index(e, (uint32_t)x->i);
	case NEST_FROM:
		return first_of(e, x->i);
	case NEST_WORD:
		return word(e, x);
	case NEST_CALL:
		return cg_cpu_num(e->c, e->step, x->ref);
	case NEST_LOAD:
		return load(e, x);
	case NEST_PICK:
		return pick(e, x);
	case NEST_CAST:
		return ll_cast(e->l, emit_expr(e, x->a), emit_base_of(x->kind));
	case NEST_KEEPS:
		a = emit_expr(e, x->a);
		c = emit_expr(e, x->c);
		return cg_rng_keeps(e->l, emit_expr(e, x->b), c, a, x->num);
	case NEST_SUM:
	case NEST_MOST:
	case NEST_LEAST:
		die("a sum that no pass has computed");
	default:
		break;
	}
	if (!x->b) {
		return function(e, x, emit_expr(e, x->a));
	}
	v = fused(e, x);
	if (v) {
		return v;
	}
	b = emit_expr(e, x->b);
	return operator_(e, x, emit_expr(e, x->a), b);
}

struct ll_value *
emit_expr(struct emit *e, nest_id id)
{
	if (!e->scope.made[id]) {
		struct ll_value *v = make(e, nest_at(e->n, id));

		emit_set_value(e, id, v);
	}
	return e->scope.made[id];
}
