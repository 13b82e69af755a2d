/*
 * Muon's matrices: the nearest matrix with singular values of about 1, by five
 * Newton-Schulz iterations of Jordan et al. 2024 on X, of Frobenius norm 1:
 *
 *     A = X X^T,   X <- a X + (b A + c A A) X
 *
 * over the shorter side of the matrix, with products of the element type of the
 * weight, summed up in f32.  Of each singular value s, a s + b s^3 + c s^5
 * rises steeply from 0 and then stays between about 0.7 and 1.2.  The result
 * times 0.2 and the root of the longer side has elements whose root mean square
 * is that of AdamW's steps, so that both have one learning rate and one decay
 * (Liu et al., "Muon is Scalable for LLM Training", 2025).
 *
 * A side may be several dims, and the other dims of a weight are as many
 * matrices.  A contraction tells two dims apart by their names, so X^T and A
 * are read under second names; the placement of the program gathers what a
 * rank lacks of them, or adds up products of pieces, as it does for any
 * contraction.
 */
#include "passes/derive.h"
#include "passes/optimize.h"

#include <math.h>

#define ITERATIONS 5

/* ---- names of dims ---- */

/* Adds a dim of the size of d that is named for it. */
static dim_id
add_dim(struct optimizer *o, dim_id d, const char *suffix)
{
	struct ir_ctx *c = o->m->ctx;
	const char *text = ir_dim_name(o->m, d);
	sym_t name;

	do {	/* the model may have a dim of that name */
		text = arena_printf(&c->tmp, "%s%s", text, suffix);
		name = intern_str(&c->syms, text);
	} while (ir_dim_find(o->m, name));
	return ir_dim_add(o->m, name, ir_dim_size(o->m, d), 0, o->span);
}

static struct opt_names
names_of(struct optimizer *o, dim_id d)
{
	struct opt_names x = { .dim = d };
	uint32_t i;

	for (i = 0; i < o->names.n; i++) {
		if (o->names.at[i].dim == d) {
			return o->names.at[i];
		}
	}
	x.other = add_dim(o, d, "_other");
	x.inner = add_dim(o, d, "_inner");
	VEC_PUSH(&o->m->ctx->tmp, &o->names, x);
	return x;
}

/* One side of a matrix, under its three names. */
struct side {
	dim_id own[IR_MAX_DIMS], other[IR_MAX_DIMS], inner[IR_MAX_DIMS];
	uint8_t n;
	double size;
};

static struct side
side_of(struct optimizer *o, const dim_id *dims, uint8_t n)
{
	struct side s = { .n = n, .size = 1 };
	uint8_t i;

	for (i = 0; i < n; i++) {
		s.own[i] = dims[i];
		s.size *= (double)ir_dim_size(o->m, dims[i]);
	}
	return s;
}

/* v with dims `from` under the names `to`. */
static value_id
renamed(struct optimizer *o, value_id v, const dim_id *from, const dim_id *to,
	uint8_t n)
{
	struct ir_new new;
	uint8_t i;

	for (i = 0; i < n; i++) {
		ir_new_init(&new, IR_SLICE, o->span);
		ir_new_arg(&new, v);
		ir_new_dim(&new, IR_ATTR_OF, from[i]);
		ir_new_dim(&new, IR_ATTR_TO, to[i]);
		v = derive_append(o->m, o->r, &new);
	}
	return v;
}

static value_id
product(struct optimizer *o, enum ir_op op, value_id a, value_id b,
	const dim_id *over, uint8_t n)
{
	struct ir_new new;
	uint8_t i;

	ir_new_init(&new, op, o->span);
	ir_new_arg(&new, a);
	ir_new_arg(&new, b);
	for (i = 0; i < n; i++) {
		ir_new_dim(&new, IR_ATTR_OVER, over[i]);
	}
	return derive_append(o->m, o->r, &new);
}

/* ---- the iteration ---- */

/* p a + q b in f32, where b is. */
static value_id
combined(struct optimizer *o, double p, value_id a, double q, value_id b)
{
	struct ir_type t = *ir_type(o->m, a);

	t.dtype = IR_F32;
	a = opt_times(o, derive_cast(o->m, o->r, a, IR_F32, o->span), p);
	return opt_op2(o, IR_ADD, a, opt_times(o, opt_fit(o, b, &t), q));
}

/* One iteration on x: `rows` is the shorter side, `cols` the longer one. */
static value_id
iterate(struct optimizer *o, value_id x, const struct side *rows,
	const struct side *cols)
{
	enum ir_dtype dtype = ir_type(o->m, x)->dtype;
	value_id other = renamed(o, x, rows->own, rows->other, rows->n);
	value_id a = product(o, IR_DOT, x, other, cols->own, cols->n), b, c;

	b = renamed(o, a, rows->other, rows->inner, rows->n);
	c = renamed(o, a, rows->own, rows->inner, rows->n);
	b = product(o, IR_DOT_F32, b, c, rows->inner, rows->n);
	b = combined(o, -4.7750, a, 2.0315, b);
	b = derive_cast(o->m, o->r, b, dtype, o->span);
	b = product(o, IR_DOT_F32, b, other, rows->other, rows->n);
	return derive_cast(o->m, o->r, combined(o, 3.4445, x, 1, b), dtype,
			   o->span);
}

static value_id
iterate_all(struct optimizer *o, value_id x, const struct side *rows,
	    const struct side *cols)
{
	struct ir_type t = *ir_type(o->m, x);
	region_id here = o->r;
	struct ir_new n;
	value_id y;

	ir_new_init(&n, IR_REPEAT, o->span);
	ir_new_arg(&n, x);
	ir_new_int(&n, IR_ATTR_COUNT, ITERATIONS);
	n.types[0] = t;
	n.nresults = 1;
	n.region = o->r = ir_region_add(o->m, 0);
	y = iterate(o, ir_param_add(o->m, o->r, &t, 0), rows, cols);
	VEC_PUSH(&o->m->ctx->perm, &o->m->regions.at[o->r].results, y);
	o->r = here;
	return derive_append(o->m, here, &n);
}

/* u divided by its Frobenius norm, of each matrix. */
static value_id
normalized(struct optimizer *o, const struct opt_weight *w, value_id u)
{
	dim_id dims[2 * IR_MAX_DIMS];
	uint8_t n = 0, i;
	value_id norm;

	for (i = 0; i < w->matrix.nrows; i++) {
		dims[n++] = w->matrix.rows[i];
	}
	for (i = 0; i < w->matrix.ncols; i++) {
		dims[n++] = w->matrix.cols[i];
	}
	norm = opt_over(o, IR_SUM, opt_op2(o, IR_MUL, u, u), dims, n);
	norm = opt_op1(o, IR_SQRT, norm);
	norm = opt_op2(o, IR_MAX, opt_number(o, 1e-7), norm);
	return opt_op2(o, IR_DIV, u, opt_fit(o, norm, &w->wide));
}

value_id
opt_orthogonal(struct optimizer *o, const struct opt_weight *w, value_id u)
{
	struct side a = side_of(o, w->matrix.rows, w->matrix.nrows);
	struct side b = side_of(o, w->matrix.cols, w->matrix.ncols);
	bool first = a.size < b.size || (a.size == b.size && a.n <= b.n);
	struct side *rows = first ? &a : &b, *cols = first ? &b : &a;
	uint8_t i;

	for (i = 0; i < rows->n; i++) {
		struct opt_names x = names_of(o, rows->own[i]);

		rows->other[i] = x.other;
		rows->inner[i] = x.inner;
	}
	u = derive_cast(o->m, o->r, normalized(o, w, u), w->type.dtype,
			o->span);
	u = iterate_all(o, u, rows, cols);
	u = derive_cast(o->m, o->r, u, IR_F32, o->span);
	return opt_times(o, u, 0.2 * sqrt(cols->size));
}
