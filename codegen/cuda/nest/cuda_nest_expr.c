/*
 * Scalar expressions of a nest as C: each is a variable of the narrowest type
 * that holds its bounds, since GPUs divide 64 bits slowly.  Offsets of
 * elements are expressions as well.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#include <math.h>
#include <string.h>

const char *
cu_new_name(struct cu_emit *e, const char *prefix)
{
	return arena_printf(e->a, "%s%u", prefix, e->names++);
}

/* ---- types ---- */

/*
 * A frequency of a rotation, and its product with a position.  They need no
 * f64: a frequency is kept as turns in units of 2^-64, so that the low 64 bits
 * of the product are the angle without whole turns, off by as much as the f64
 * frequency is, some 2^-53 of the product; their upper half is used.  A
 * position that is a number of the model may be no whole one, and where it is
 * 1, the product is the frequency.
 */
static bool
is_frequency(const struct cu_emit *e, nest_id id)
{
	const struct nest_expr *x = nest_at(e->n, id);

	return x->op == NEST_LOAD &&
	       e->n->memory.at[x->ref].where == NEST_TABLE;
}

static bool
is_angle(const struct cu_emit *e, nest_id id)
{
	const struct nest_expr *x = nest_at(e->n, id);

	return x->op == NEST_MUL &&
	       (is_frequency(e, x->a) || is_frequency(e, x->b));
}

static const char *
angle(struct cu_emit *e, const struct nest_expr *x)
{
	bool first = is_frequency(e, x->a);
	const char *by = cu_expr(e, first ? x->a : x->b), *at;
	nest_id id = first ? x->b : x->a;
	const struct nest_expr *p = nest_at(e->n, id);

	if (p->op == NEST_NUM && p->num >= 0 && p->num == floor(p->num) &&
	    p->num < 0x1p63) {
		return arena_printf(e->a, "(u32)(%lluull * %s >> 32)",
				    (unsigned long long)p->num, by);
	}
	if (p->op != NEST_CAST || nest_at(e->n, p->a)->kind != NEST_INT) {
		id = p->op == NEST_CAST ? p->a : id;
		return arena_printf(e->a, "turn_scaled((f32)%s, %s)",
				    cu_expr(e, id), by);
	}
	at = cu_expr(e, p->a);
	return arena_printf(e->a, cu_range_of(e, p->a).lo < 0
			    ? "(u32)((u64)(i64)%s * %s >> 32)"
			    : strcmp(cu_expr_type(e, p->a), "int") == 0
			    ? "(u32)((u64)(u32)%s * %s >> 32)"
			    : "(u32)((u64)%s * %s >> 32)", at, by);
}

const char *
cu_expr_type(struct cu_emit *e, nest_id id)
{
	struct cu_range r;

	switch (nest_at(e->n, id)->kind) {
	case NEST_FLOAT:
		return "f32";
	case NEST_WIDE:
		return is_frequency(e, id) ? "u64"
			: is_angle(e, id) ? "u32" : "f64";
	case NEST_BOOL:
		return "int";
	default:
		r = cu_range_of(e, id);
		return cu_int_type(r.lo, r.hi);
	}
}

/* ---- numbers ---- */

static const char *
float_text(struct arena *a, double v)
{
	float f = (float)v;

	if (isnan(f)) {
		return "f_nan()";
	}
	if (isinf(f)) {
		return f > 0 ? "f_inf()" : "(-f_inf())";
	}
	if (f == truncf(f) && fabsf(f) < 1e6f) {
		return arena_printf(a, f < 0 ? "(%.1ff)" : "%.1ff", (double)f);
	}
	return arena_printf(a, f < 0 ? "(%.8ef)" : "%.8ef", (double)f);
}

static const char *
number(struct cu_emit *e, const struct nest_expr *x)
{
	if (x->kind == NEST_INT) {
		return arena_printf(e->a, x->i < 0 ? "(%lld)" : "%lld",
				    (long long)x->i);
	}
	if (x->kind == NEST_FLOAT || isnan(x->num) || isinf(x->num)) {
		return float_text(e->a, x->num);
	}
	return arena_printf(e->a, x->num < 0 ? "(%.16e)" : "%.16e", x->num);
}

/* ---- scopes ---- */

void
cu_expr_set(struct cu_emit *e, nest_id id, const char *text)
{
	nest_scope_set(&e->scope, id, (void *)(uintptr_t)text);
}

/* ---- functions and operators ---- */

static const char *
function(struct cu_emit *e, const struct nest_expr *x, const char *a)
{
	static const struct {
		uint8_t op;
		const char *narrow, *wide;
	} of[] = {
		{ NEST_EXP, "f_exp(%s)", "d_exp(%s)" },
		{ NEST_LOG, "f_log(%s)", "d_log(%s)" },
		{ NEST_TANH, "f_tanh(%s)", "d_tanh(%s)" },
		{ NEST_ERF, "f_erf(%s)", "(f64)f_erf((f32)%s)" },
		{ NEST_SIGMOID, "f_sigmoid(%s)", "d_sigmoid(%s)" },
		{ NEST_SQRT, "f_sqrt(%s)", "d_sqrt(%s)" },
		/* whole turns are subtracted in f64 */
		{ NEST_SIN, "", "f_sin_turns(%s * 1.5915494309189535e-01)" },
		{ NEST_COS, "", "f_cos_turns(%s * 1.5915494309189535e-01)" },
		{ NEST_NOT, "!%s", "" }
	};
	bool wide = nest_at(e->n, x->a)->kind == NEST_WIDE;
	const char *form, *at;
	size_t i;

	if (is_frequency(e, x->a)) {	/* of position 1 */
		a = arena_printf(e->a, "(u32)(%s >> 32)", a);
	}
	if (is_angle(e, x->a) || is_frequency(e, x->a)) {
		return arena_printf(e->a, x->op == NEST_SIN ? "turn_sin(%s)"
				    : "turn_cos(%s)", a);
	}

	for (i = 0; i < sizeof of / sizeof *of; i++) {
		if (of[i].op != x->op) {
			continue;
		}
		form = wide ? of[i].wide : of[i].narrow;
		at = strstr(form, "%s");
		return arena_printf(e->a, "%.*s%s%s", (int)(at - form), form,
				    a, at + 2);
	}
	die("no function of a nest: %d", x->op);
}

/* Quotient or remainder of numbers that are not negative. */
static const char *
divided(struct cu_emit *e, const struct nest_expr *x, const char *a,
	const char *b)
{
	bool small = strcmp(cu_expr_type(e, x->a), "int") == 0 &&
		     strcmp(cu_expr_type(e, x->b), "int") == 0;

	return arena_printf(e->a, small ? "(int)((u32)%s %c (u32)%s)"
			    : "(i64)((u64)%s %c (u64)%s)", a,
			    x->op == NEST_DIV ? '/' : '%', b);
}

static const char *
extreme(struct cu_emit *e, const struct nest_expr *x, const char *a,
	const char *b)
{
	bool most = x->op == NEST_MAX;

	if (x->kind == NEST_FLOAT) {
		return arena_printf(e->a, "%s(%s, %s)",
				    most ? "f_max" : "f_min", a, b);
	}
	return arena_printf(e->a, "%s %c %s ? %s : %s", a, most ? '>' : '<',
			    b, a, b);
}

static const char *
operator_(struct cu_emit *e, const struct nest_expr *x, const char *a,
	  const char *b)
{
	static const char *const of[] = {
		[NEST_ADD] = "+", [NEST_SUB] = "-", [NEST_MUL] = "*",
		[NEST_DIV] = "/", [NEST_LT] = "<", [NEST_LE] = "<=",
		[NEST_EQ] = "==", [NEST_AND] = "&"
	};
	bool whole = nest_at(e->n, x->a)->kind == NEST_INT;

	if (x->op == NEST_REM || (x->op == NEST_DIV && whole)) {
		return divided(e, x, a, b);
	}
	if (x->op == NEST_MIN || x->op == NEST_MAX) {
		return extreme(e, x, a, b);
	}
	if (x->op == NEST_DIV && x->kind == NEST_FLOAT) {
		return arena_printf(e->a, "f_div(%s, %s)", a, b);
	}
	if (x->op >= sizeof of / sizeof *of || !of[x->op]) {
		die("no operator of a nest: %d", x->op);
	}
	return arena_printf(e->a, "%s %s %s", a, of[x->op], b);
}

/* Converts an operand to the type of the result. */
static const char *
as_wide(struct cu_emit *e, const struct nest_expr *x, nest_id of,
	const char *text, const char *type)
{
	return x->kind == NEST_INT && strcmp(type, "i64") == 0 &&
	       strcmp(cu_expr_type(e, of), "int") == 0
		? arena_printf(e->a, "(i64)%s", text) : text;
}

/* ---- what the kernel is called with ---- */

static const char *
from_text(const struct cu_emit *e, int64_t i)
{
	return i < 8 ? e->box->from[i]
		     : e->box->leaves.at[i / 8 - 1].from[i % 8];
}

/* Whether both are the same first index. */
static bool
same_from(const struct cu_emit *e, nest_id a, nest_id b)
{
	const struct nest_expr *x = nest_at(e->n, a), *y = nest_at(e->n, b);

	return x->op == NEST_FROM && y->op == NEST_FROM &&
	       strcmp(from_text(e, x->i), from_text(e, y->i)) == 0;
}

void
cu_affine(const struct cu_emit *e, nest_id place, struct nest_affine *a)
{
	uint32_t i, k, n = 0;

	nest_affine(e->n, place, a);
	for (i = 0; i < a->nrest; i++) {
		for (k = 0; k < n && !same_from(e, a->rest[k].e,
						a->rest[i].e); k++) {
		}
		if (k < n) {
			a->rest[k].scale += a->rest[i].scale;
		} else {
			a->rest[n++] = a->rest[i];
		}
	}
	a->nrest = n;
	for (i = n = 0; i < a->nrest; i++) {
		if (a->rest[i].scale != 0) {
			a->rest[n++] = a->rest[i];
		}
	}
	a->nrest = n;
}

/* Whether an int holds every term and their sum. */
static bool
fits_int(struct cu_emit *e, const struct nest_affine *a)
{
	double most = (double)(a->base < 0 ? -a->base : a->base);
	uint32_t i;

	for (i = 0; i < e->n->loops.n; i++) {
		double c = (double)a->coef[i];

		most += (c < 0 ? -c : c) * (double)cu_loop_size(e, i);
	}
	for (i = 0; i < a->nrest; i++) {
		struct cu_range r = cu_range_of(e, a->rest[i].e);
		double lo = (double)(r.lo < 0 ? -r.lo : r.lo);
		double hi = (double)(r.hi < 0 ? -r.hi : r.hi);
		double c = (double)a->rest[i].scale;

		most += (lo > hi ? lo : hi) * (c < 0 ? -c : c);
	}
	return most < 2147483000.0;
}

static void
add_term(struct buf *b, const char *text, int64_t by, const char *type)
{
	if (by == 0) {
		return;
	}
	if (b->n > 0) {
		buf_puts(b, by < 0 ? " - " : " + ");
	} else if (by < 0) {
		buf_puts(b, "-");
	}
	by = by < 0 ? -by : by;
	if (strcmp(type, "i64") == 0) {
		buf_puts(b, "(i64)");
	}
	buf_puts(b, text);
	if (by != 1) {
		buf_printf(b, " * %lld", (long long)by);
	}
}

/* C text of an offset; `more` is added to it.  Outside of lanes: of lane 0. */
static const char *
place_text(struct cu_emit *e, nest_id place, const char *more)
{
	struct nest_affine a;
	const char *type;
	struct buf b;
	uint32_t i;

	cu_affine(e, place, &a);
	type = fits_int(e, &a) ? "int" : "i64";
	buf_init(&b, e->a);
	for (i = 0; i < e->n->loops.n; i++) {
		if (a.coef[i] != 0 && e->index[i] &&
		    strcmp(e->index[i], "0") != 0) {
			add_term(&b, e->index[i], a.coef[i], type);
		}
	}
	for (i = 0; i < a.nrest; i++) {
		add_term(&b, cu_expr(e, a.rest[i].e), a.rest[i].scale, type);
	}
	if (e->lanes > 1 && a.coef[e->vec] != 0) {
		add_term(&b, "k", a.coef[e->vec], "int");
	}
	if (more) {
		add_term(&b, more, 1, type);
	}
	if (a.base != 0 || b.n == 0) {
		buf_printf(&b, b.n > 0 ? " + %lld" : "%lld",
			   (long long)a.base);
	}
	return buf_text(&b);
}

/* C text: a pointer to the memory's first element. */
static const char *
memory_text(struct cu_emit *e, uint32_t memory)
{
	const struct nest_memory *m = &e->n->memory.at[memory];
	const char *type = cu_elem_type((enum ir_dtype)m->dtype);

	switch (m->where) {
	case NEST_OPERAND:
		return arena_printf(e->a, "((%s *)%s)", type, cu_operand(e->f,
			cg_operand(e->a, e->f->k->out, m->value, m->sink,
				   m->written)));
	case NEST_TEMP:
		return arena_printf(e->a, "((f32 *)(a.shared + %lld))",
			(long long)e->n->temps.at[m->i].offset);
	case NEST_LEAF:
		return arena_printf(e->a, "(%s)",
				    e->box->leaves.at[m->i].at);
	default:
		return e->table[m->i];
	}
}

const char *
cu_element(struct cu_emit *e, nest_id place, uint32_t memory,
	   const char *more)
{
	const char *at = place_text(e, place, more);

	return arena_printf(e->a, "%s[%s]", memory_text(e, memory), at);
}

static const char *
first_of(struct cu_emit *e, int64_t i)
{
	const char *v = i < 8 ? e->box->from[i]
		: e->box->leaves.at[i / 8 - 1].from[i % 8];

	return v ? arena_printf(e->a, "(%s)", v) : "0";
}

/* C text of a word of rt_pieces: n, total, then start and count of each
 * piece. */
static const char *
word(struct cu_emit *e, const struct nest_expr *x)
{
	const char *p = cu_pieces(e->f, x->ref);

	if (x->i < 2) {
		return arena_printf(e->a, "%s->%s", p,
				    x->i == 0 ? "n" : "total");
	}
	return arena_printf(e->a, "%s->at[%lld].%s", p,
			    (long long)(x->i - 2) / 2,
			    x->i % 2 == 0 ? "start" : "count");
}

static const char *
made(struct cu_emit *e, nest_id id, const char *type)
{
	const struct nest_expr *x = nest_at(e->n, id);
	const char *a, *b;

	switch (x->op) {
	case NEST_WORD:
		return word(e, x);
	case NEST_CALL:
		return cu_num(e->f, x->ref);
	case NEST_LOAD:
		return cu_widen(e->a, e->n->memory.at[x->ref].dtype,
				cu_element(e, x->a, x->ref, NULL));
	case NEST_PICK:
		a = cu_expr(e, x->a);
		b = cu_expr(e, x->b);
		return arena_printf(e->a, "%s ? %s : %s", a, b,
				    cu_expr(e, x->c));
	case NEST_CAST:
		return arena_printf(e->a, "(%s)%s", type, cu_expr(e, x->a));
	case NEST_KEEPS:
		a = cu_expr(e, x->b);
		b = cu_expr(e, x->c);
		return arena_printf(e->a, "rng_keeps((u64)%s, %s, %s, %.17g)",
				    a, b, cu_expr(e, x->a), x->num);
	case NEST_SUM:
	case NEST_MOST:
	case NEST_LEAST:
		die("a sum that no pass has made");
	default:
		break;
	}
	if (is_angle(e, id)) {
		return angle(e, x);
	}
	a = as_wide(e, x, x->a, cu_expr(e, x->a), type);
	if (!x->b) {
		return function(e, x, a);
	}
	b = as_wide(e, x, x->b, cu_expr(e, x->b), type);
	return operator_(e, x, a, b);
}

/* ---- values ---- */

/* C text of expressions that need no variable. */
static const char *
plain(struct cu_emit *e, const struct nest_expr *x)
{
	const char *i;

	switch (x->op) {
	case NEST_NUM:
		return number(e, x);
	case NEST_LOOP:
		i = e->index[x->i];
		return !i ? "0" : e->lanes > 1 && x->i == e->vec
			? arena_printf(e->a, "(%s + k)", i) : i;
	case NEST_FROM:
		return first_of(e, x->i);
	default:
		return NULL;
	}
}

const char *
cu_expr(struct cu_emit *e, nest_id id)
{
	const char *v = e->scope.made[id], *type, *name;

	if (!v) {
		v = plain(e, nest_at(e->n, id));
	}
	if (v) {
		return v;
	}
	type = cu_expr_type(e, id);
	v = made(e, id, type);
	name = arena_printf(e->a, "v%u", id);
	cu_line(e->f, strcmp(type, "int") == 0 &&
		nest_at(e->n, id)->kind == NEST_INT
		? "%s %s = (int)(%s);" : "%s %s = %s;", type, name, v);
	cu_expr_set(e, id, name);
	return name;
}
