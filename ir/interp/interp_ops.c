/*
 * What each op computes, in plain loops: one function per row of ops.def.
 * Sums and norms of rows are in interp_rows.c, attention is in
 * interp_attention.c, what only backward needs in interp_grad.c.
 */
#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

/* ---- maps ---- */

/*
 * Rows that are on another rank are NaN here, and results of them are NaN, too.
 */
static bool
has_absent(const struct interp *e, const struct ir_node *n)
{
	return e->at && ir_type(e->m, n->result)->routed;
}

static bool
map1(const struct interp *e, const struct ir_node *n, double *out,
     double (*f)(double x))
{
	const double *x = interp_arg(e, n, 0);
	bool absent = has_absent(e, n);
	struct ir_rule r;
	struct interp_nest o;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "A");
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		out[o.out_off] = f(x[o.in_off[0]]);
		if (absent && isnan(x[o.in_off[0]])) {
			out[o.out_off] = NAN;
		}
	}
	return true;
}

static bool
map2(const struct interp *e, const struct ir_node *n, double *out,
     double (*f)(double x, double y))
{
	const double *x = interp_arg(e, n, 0), *y = interp_arg(e, n, 1);
	bool absent = has_absent(e, n);
	struct ir_rule r;
	struct interp_nest o;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "A");
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		out[o.out_off] = f(x[o.in_off[0]], y[o.in_off[1]]);
		if (absent && isnan(x[o.in_off[0]] + y[o.in_off[1]])) {
			out[o.out_off] = NAN;
		}
	}
	return true;
}

/*
 * Maps that are no combination of others.  Nothing is rounded to the value's
 * float type.
 */
#define MAPS1(MAP) \
	MAP(CAST, cast, x) \
	MAP(CACHE, cache, x) \
	MAP(NEG, neg, -x) \
	MAP(EXP, exp, exp(x)) \
	MAP(LOG, log, log(x)) \
	MAP(SQRT, sqrt, sqrt(x)) \
	MAP(RSQRT, rsqrt, 1 / sqrt(x)) \
	MAP(TANH, tanh, tanh(x)) \
	MAP(SIGMOID, sigmoid, 1 / (1 + exp(-x))) \
	MAP(COS, cos, cos(x)) \
	MAP(ERF, erf, erf(x)) \
	MAP(STEP, step, x > 0) \
	MAP(RELU, relu, x < 0 ? 0 : x) \
	MAP(GELU_ERF, gelu_erf, 0.5 * x * (1 + erf(x / sqrt(2))))
#define MAPS2(MAP) \
	MAP(ADD, add, x + y) \
	MAP(SUB, sub, x - y) \
	MAP(MUL, mul, x * y) \
	MAP(DIV, div, x / y) \
	MAP(QUANTIZE, quantize, x / y) \
	MAP(RESCALE, rescale, x * y) \
	MAP(MIN, min, x < y ? x : y) \
	MAP(MAX, max, x > y ? x : y)

#define DEFINE_MAP1(id, op, value) \
	static double \
	op##_of(double x) \
	{ \
		return value; \
	} \
	bool \
	ir_eval_##op(struct interp *e, const struct ir_node *n, double *out) \
	{ \
		return map1(e, n, out, op##_of); \
	}
#define DEFINE_MAP2(id, op, value) \
	static double \
	op##_of(double x, double y) \
	{ \
		return value; \
	} \
	bool \
	ir_eval_##op(struct interp *e, const struct ir_node *n, double *out) \
	{ \
		return map2(e, n, out, op##_of); \
	}
MAPS1(DEFINE_MAP1)
MAPS2(DEFINE_MAP2)

/*
 * Maps that ops.def defines by others, in their textbook forms: so that what
 * back ends make of the definitions is compared with something else.
 */
static double
relu2_of(double x)
{
	return x < 0 ? 0 : x * x;
}

static double
silu_of(double x)
{
	return x / (1 + exp(-x));
}

/* sqrt(2 / pi), and the cubic's factor: Hendrycks and Gimpel 2016. */
static double
gelu_of(double x)
{
	return 0.5 * x * (1 + tanh(sqrt(2 / PI) *
				   (x + 0.044715 * x * x * x)));
}

/* ---- maps that ops.def defines by other maps ---- */

#define ENTRY(id, op, value) [IR_##id] = op##_of,
static double (*const map1_of[IR_OP_COUNT])(double x) = {
	MAPS1(ENTRY)
	[IR_RELU2] = relu2_of, [IR_SILU] = silu_of, [IR_GELU] = gelu_of
};
static double (*const map2_of[IR_OP_COUNT])(double x, double y) = {
	MAPS2(ENTRY)
};

static double
run_definition(const struct interp *e, const struct ir_node *n,
	       const struct ir_definition *d, double a)
{
	double stack[IR_MAX_DEFINE];
	uint32_t top = 0, i;

	for (i = 0; i < d->n; i++) {
		const struct ir_define_step *s = &d->step[i];

		switch (s->kind) {
		case IR_DEFINE_OPERAND:
			stack[top++] = a;
			break;
		case IR_DEFINE_NUMBER:
			stack[top++] = s->number;
			break;
		case IR_DEFINE_ATTR:
			stack[top++] = ir_attr_num(e->m, n, s->key, 0);
			break;
		case IR_DEFINE_MAP:
			if (ir_ops[s->op].nargs == 2) {
				top--;
				stack[top - 1] = map2_of[s->op](stack[top - 1],
								stack[top]);
			} else {
				stack[top - 1] = map1_of[s->op](stack[top - 1]);
			}
			break;
		}
	}
	return stack[0];
}

bool
ir_eval_definition(struct interp *e, const struct ir_node *n, double *out)
{
	const double *x = interp_arg(e, n, 0);
	struct ir_definition d;
	struct ir_rule r;
	struct interp_nest o;
	bool absent, i;

	if (map1_of[n->op]) {
		return map1(e, n, out, map1_of[n->op]);
	}
	absent = has_absent(e, n);
	ir_define(n->op, &d);
	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "A");
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		double a = x[o.in_off[0]];

		out[o.out_off] = absent && isnan(a) ? NAN
			: run_definition(e, n, &d, a);
	}
	return true;
}

/* ---- positions ---- */

/* seq: the positions of the rows, or NULL: the second operand has them. */
static bool
rotate(struct interp *e, const struct ir_node *n, double *out,
       const struct ir_pieces *seq)
{
	bool neighbours = ir_attr(e->m, n, IR_ATTR_INTERLEAVED);
	double turn = ir_attr(e->m, n, IR_ATTR_INVERSE) ? -1 : 1;
	struct interp_block *frequencies;
	struct interp_nest o, w;
	struct ir_rule r;
	int64_t d, k;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, seq ? "A seq" : "A S");
	ir_nest_one(e, n, &r, &w, "d");
	d = w.size[0];
	if (d % 2 != 0) {
		diag_error(&e->m->ctx->diags, n->span, "rope rotates pairs, "
			   "and the last dim is %lld", (long long)d);
		return false;
	}
	frequencies = ir_interp_get(e, n, d / 2);
	if (!frequencies) {
		return false;
	}
	ir_rope_frequencies(e->m, n, d, frequencies->data);
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		const double *x = interp_arg(e, n, 0) + o.in_off[0];
		double at = seq ? (double)ir_pieces_at(seq, o.at[o.n - 1])
				: interp_arg(e, n, 1)[o.in_off[1]];
		double *y = out + o.out_off;

		for (k = 0; k < d / 2; k++) {
			double angle = turn * at * frequencies->data[k];
			int64_t p = neighbours ? 2 * k : k;
			int64_t q = neighbours ? p + 1 : k + d / 2;
			double a = x[p * w.in[0][0]], b = x[q * w.in[0][0]];

			y[p * w.out[0]] = a * cos(angle) - b * sin(angle);
			y[q * w.out[0]] = b * cos(angle) + a * sin(angle);
		}
	}
	ir_interp_put(e, frequencies);
	return true;
}

bool
ir_eval_rope(struct interp *e, const struct ir_node *n, double *out)
{
	struct ir_pieces seq;
	struct ir_rule r;

	ir_bind(e->m, n, &r);
	ir_interp_pieces(e, n, 0, ir_rule_factor(&r, "seq")->dims[0], &seq);
	return rotate(e, n, out, &seq);
}

bool
ir_eval_rope_at(struct interp *e, const struct ir_node *n, double *out)
{
	return rotate(e, n, out, NULL);
}

/* ---- ranking ---- */

/*
 * A row that is being ranked; elements that were chosen or dropped do not
 * compete any more.
 */
struct topk_race {
	int64_t n, groups, top_groups, group_best;
	double *score, *taken, *group;
};

/* The largest element of a group; with two, the sum of the two largest. */
static double
group_score(const double *x, int64_t n, int64_t count)
{
	double best = x[0], second = 0;
	int64_t i;

	for (i = 1; i < n; i++) {
		double less = x[i] > best ? best : x[i];

		second = i == 1 || less > second ? less : second;
		best = x[i] > best ? x[i] : best;
	}
	return count > 1 ? best + second : best;
}

/* Drops all members of groups that are not among the best. */
static void
drop_groups(struct topk_race *a)
{
	int64_t size = a->n / a->groups, g, h, rank, i;

	for (g = 0; g < a->groups; g++) {
		a->group[g] = group_score(a->score + g * size, size,
					  a->group_best);
	}
	for (g = 0; g < a->groups; g++) {
		rank = 0;
		for (h = 0; h < a->groups; h++) {
			rank += a->group[h] > a->group[g] ||
				(a->group[h] == a->group[g] && h < g);
		}
		for (i = 0; rank >= a->top_groups && i < size; i++) {
			a->taken[g * size + i] = 1;
		}
	}
}

/* Chooses the best element, of equal ones the first. */
static int64_t
take_best(struct topk_race *a)
{
	int64_t best = -1, i;

	for (i = 0; i < a->n; i++) {
		if (a->taken[i] == 0 &&
		    (best < 0 || a->score[i] > a->score[best])) {
			best = i;
		}
	}
	a->taken[best] = 1;
	return best;
}

static bool
check_groups(const struct interp *e, const struct ir_node *n,
	     const struct topk_race *a, int64_t wanted)
{
	if (a->groups < 1 || a->n % a->groups != 0 || a->top_groups < 1 ||
	    a->top_groups > a->groups ||
	    a->n / a->groups * a->top_groups < wanted) {
		diag_error(&e->m->ctx->diags, n->span, "%lld of %lld are asked "
			   "for, and %lld of %lld groups do not hold them",
			   (long long)wanted, (long long)a->n,
			   (long long)a->top_groups, (long long)a->groups);
		return false;
	}
	return true;
}

bool
ir_eval_topk(struct interp *e, const struct ir_node *n, double *out)
{
	struct interp_block *block;
	struct interp_nest o, of, to;
	struct ir_rule r;
	struct topk_race a;
	int64_t k;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "A");
	ir_nest_one(e, n, &r, &of, "of");
	ir_nest_one(e, n, &r, &to, "to");
	a.n = of.size[0];
	a.groups = ir_attr_int(e->m, n, IR_ATTR_GROUPS, 1);
	a.top_groups = ir_attr_int(e->m, n, IR_ATTR_TOP_GROUPS, a.groups);
	a.group_best = ir_attr_int(e->m, n, IR_ATTR_GROUP_BEST, 2);
	if (!check_groups(e, n, &a, to.size[0])) {
		return false;
	}
	block = ir_interp_get(e, n, 2 * a.n + a.groups);
	if (!block) {
		return false;
	}
	a.score = block->data;
	a.taken = a.score + a.n;
	a.group = a.taken + a.n;
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		for (k = 0; k < a.n; k++) {
			a.score[k] = interp_arg(e, n, 0)[o.in_off[0] +
							 k * of.in[0][0]];
			a.taken[k] = 0;
		}
		drop_groups(&a);
		for (k = 0; k < to.size[0]; k++) {
			out[o.out_off + k * to.out[0]] = (double)take_best(&a);
		}
	}
	ir_interp_put(e, block);
	return true;
}

/* ---- moving and cutting ---- */

/* Copies count elements along one dim of each side. */
static void
copy(double *out, int64_t out_step, const double *x, int64_t x_step,
     int64_t count)
{
	int64_t k;

	for (k = 0; k < count; k++) {
		out[k * out_step] = x[k * x_step];
	}
}

/* A part of `of` from `at` on; a select is a slice of size one. */
static bool
cut(const struct interp *e, const struct ir_node *n, double *out,
    const struct ir_rule *r, int64_t count, int64_t step)
{
	int64_t at = ir_attr_int(e->m, n, IR_ATTR_AT, 0);
	struct interp_nest o, of;
	bool i;

	ir_nest(e, n, r, &o, "A");
	ir_nest_one(e, n, r, &of, "of");
	if (at < 0 || at > of.size[0] - count) {
		diag_error(&e->m->ctx->diags, n->span, "%lld of `%s` from "
			   "%lld on, and it is %lld long", (long long)count,
			   ir_dim_name(e->m, ir_rule_factor(r, "of")->dims[0]),
			   (long long)at, (long long)of.size[0]);
		return false;
	}
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		copy(out + o.out_off, step, interp_arg(e, n, 0) +
		     o.in_off[0] + at * of.in[0][0], of.in[0][0], count);
	}
	return true;
}

bool
ir_eval_slice(struct interp *e, const struct ir_node *n, double *out)
{
	struct ir_rule r;
	struct interp_nest to;

	ir_bind(e->m, n, &r);
	ir_nest_one(e, n, &r, &to, "to");
	return cut(e, n, out, &r, to.size[0], to.out[0]);
}

bool
ir_eval_select(struct interp *e, const struct ir_node *n, double *out)
{
	struct ir_rule r;

	ir_bind(e->m, n, &r);
	return cut(e, n, out, &r, 1, 0);
}

bool
ir_eval_concat(struct interp *e, const struct ir_node *n, double *out)
{
	struct interp_nest o, x, y, to;
	struct ir_rule r;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "A");
	ir_nest_one(e, n, &r, &x, "x");
	ir_nest_one(e, n, &r, &y, "y");
	ir_nest_one(e, n, &r, &to, "to");
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		copy(out + o.out_off, to.out[0], interp_arg(e, n, 0) +
		     o.in_off[0], x.in[0][0], x.size[0]);
		copy(out + o.out_off + x.size[0] * to.out[0], to.out[0],
		     interp_arg(e, n, 1) + o.in_off[1], y.in[1][0],
		     y.size[0]);
	}
	return true;
}

bool
ir_eval_gather(struct interp *e, const struct ir_node *n, double *out)
{
	const double *table = interp_arg(e, n, 0);
	const double *index = interp_arg(e, n, 1);
	struct interp_index x;
	struct interp_nest o, of;
	struct ir_rule r;
	int64_t k;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "A I N");
	ir_nest_one(e, n, &r, &of, "of");
	ir_interp_of(e, n, &r, &x);
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		if (!ir_interp_index(e, n, index[o.in_off[1]], &x, &k)) {
			return false;
		}
		out[o.out_off] = k < 0 ? 0 : table[o.in_off[0] +
						   k * of.in[0][0]];
	}
	return true;
}

/* ---- contractions ---- */

enum { SUMS = 4 };

/*
 * Sums of products of x and operand ky over the loops of w, of elements that
 * are dx and dy apart from one sum to the next.  Each adds in the order that it
 * has alone, and none waits for another.  The innermost loop runs outside of
 * the nest: most of the time is spent there.
 */
static void
sums_of_products(const double *x, int64_t dx, const double *y, int64_t dy,
		 struct interp_nest *w, int ky, double sum[SUMS])
{
	int last = w->n > 0 ? w->n - 1 : 0, all = w->n;
	int64_t count = all > 0 ? w->size[last] : 1, k;
	int64_t sx = w->in[0][last], sy = w->in[ky][last];
	double a = 0, b = 0, c = 0, d = 0;
	bool i;

	w->n = last;
	for (i = ir_nest_start(w); i; i = ir_nest_next(w)) {
		const double *p = x + w->in_off[0];
		const double *q = y + w->in_off[ky];

		for (k = 0; k < count; k++, p += sx, q += sy) {
			a += p[0] * q[0];
			b += p[dx] * q[dy];
			c += p[2 * dx] * q[2 * dy];
			d += p[3 * dx] * q[3 * dy];
		}
	}
	w->n = all;
	sum[0] = a;
	sum[1] = b;
	sum[2] = c;
	sum[3] = d;
}

static double
sum_of_products(const double *x, const double *y, struct interp_nest *w, int ky)
{
	double sum[SUMS];

	sums_of_products(x, 0, y, 0, w, ky, sum);
	return sum[0];
}

/* The n results along loop `last` of o, by operands 0 and ky. */
static void
dot_row(const double *x, const double *y, int ky, const struct interp_nest *o,
	int last, int64_t n, struct interp_nest *w, double *out)
{
	int64_t dx = o->in[0][last], dy = o->in[ky][last], j = 0, k;
	double sum[SUMS];

	for (; j + SUMS <= n; j += SUMS) {
		sums_of_products(x + j * dx, dx, y + j * dy, dy, w, ky, sum);
		for (k = 0; k < SUMS; k++) {
			out[(j + k) * o->out[last]] = sum[k];
		}
	}
	for (; j < n; j++) {
		out[j * o->out[last]] = sum_of_products(x + j * dx, y + j * dy,
							w, ky);
	}
}

bool
ir_eval_dot(struct interp *e, const struct ir_node *n, double *out)
{
	const double *x = interp_arg(e, n, 0), *y = interp_arg(e, n, 1);
	struct interp_nest o, w;
	struct ir_rule r;
	int64_t count;
	bool i;
	int last;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "B M N");
	ir_nest(e, n, &r, &w, "over");
	last = o.n > 0 ? o.n - 1 : 0;
	count = o.n > 0 ? o.size[last] : 1;
	o.n = last;	/* the innermost loop runs outside of the nest */
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		dot_row(x + o.in_off[0], y + o.in_off[1], 1, &o, last, count,
			&w, out + o.out_off);
	}
	return true;
}

bool
ir_eval_dot_f32(struct interp *e, const struct ir_node *n, double *out)
{
	return ir_eval_dot(e, n, out);
}

/*
 * The experts whose rows are wanted on this rank: all, unless the result is
 * routed.
 */
static void
wanted_experts(const struct interp *e, const struct ir_node *n, dim_id d,
	       struct ir_pieces *out)
{
	const struct ir_type *t = interp_type(e, n, 2);
	uint8_t routed = e->at ? ir_type(e->m, n->result)->routed : 0;
	uint32_t cut = 0, at = 0, i, k, count;
	axis_id axes[IR_MAX_AXES];

	for (i = 0; i < t->ndims; i++) {
		count = t->dims[i] == d ? ir_cuts(t, i, axes) : 0;
		for (k = 0; k < count; k++) {
			if (routed >> (axes[k] - 1) & 1) {
				cut |= axes[k] << at;
				at += 4;
			}
		}
	}
	ir_pieces(e->m, ir_dim_size(e->m, d), cut, e->at, out);
}

static void
fill_row(double *row, int64_t step, int64_t count, double x)
{
	int64_t j;

	for (j = 0; j < count; j++) {
		row[j * step] = x;
	}
}

/*
 * A row whose expert is on another rank is zero here; where rows are routed it
 * is NaN.
 */
bool
ir_eval_dot_at(struct interp *e, const struct ir_node *n, double *out)
{
	const double *x = interp_arg(e, n, 0), *y = interp_arg(e, n, 2);
	bool routed = e->at && ir_type(e->m, n->result)->routed;
	const double *index = interp_arg(e, n, 1);
	struct ir_pieces wanted;
	struct interp_index experts;
	struct interp_nest o, w, of;
	struct ir_rule r;
	int64_t k, count, j;
	int last;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "S C M N");
	ir_nest(e, n, &r, &w, "over");
	ir_nest_one(e, n, &r, &of, "of");
	ir_interp_of(e, n, &r, &experts);
	wanted_experts(e, n, experts.dim, &wanted);
	last = ir_nest_hoist(&o, 1, &count);
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		double *row = out + o.out_off;

		if (!ir_interp_index(e, n, index[o.in_off[1]], &experts,
				     &k)) {
			return false;
		}
		if (k < 0) {
			k = (int64_t)index[o.in_off[1]];
			fill_row(row, o.out[last], count,
				 ir_pieces_find(&wanted, k) < 0 ? NAN : 0);
			continue;
		}
		dot_row(x + o.in_off[0], y + o.in_off[2] + k * of.in[2][0], 2,
			&o, last, count, &w, row);
		for (j = 0; routed && j < count; j++) {
			if (isnan(row[j * o.out[last]])) {
				return ir_interp_absent(e, n);
			}
		}
	}
	return true;
}

bool
ir_eval_dot_at_f32(struct interp *e, const struct ir_node *n, double *out)
{
	return ir_eval_dot_at(e, n, out);
}
