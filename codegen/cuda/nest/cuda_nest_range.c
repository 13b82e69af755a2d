/*
 * Bounds of a nest's integer expressions, and the type that holds them.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#define FAR ((int64_t)1 << 61)	/* a bound that means unbounded */

int64_t
cu_loop_size(const struct cu_emit *e, uint32_t loop)
{
	uint32_t i;

	for (i = 0; i < e->s->nrows; i++) {
		if (e->s->rows[i] == loop) {
			return e->s->size[i];
		}
	}
	return e->n->loops.at[loop].size;
}

static int64_t
clip(double v)
{
	return v > (double)FAR ? FAR : v < (double)-FAR ? -FAR : (int64_t)v;
}

static struct cu_range
span(double lo, double hi)
{
	return (struct cu_range){ true, clip(lo), clip(hi) };
}

/* Bounds of a product. */
static struct cu_range
product(struct cu_range a, struct cu_range b)
{
	double x[4] = { (double)a.lo * (double)b.lo,
			(double)a.lo * (double)b.hi,
			(double)a.hi * (double)b.lo,
			(double)a.hi * (double)b.hi };
	double lo = x[0], hi = x[0];
	int i;

	for (i = 1; i < 4; i++) {
		lo = x[i] < lo ? x[i] : lo;
		hi = x[i] > hi ? x[i] : hi;
	}
	return span(lo, hi);
}

static struct cu_range
both(struct cu_range a, struct cu_range b)
{
	return (struct cu_range){ true, a.lo < b.lo ? a.lo : b.lo,
				  a.hi > b.hi ? a.hi : b.hi };
}

/* Bounds of the first index of a box or of a leaf. */
static struct cu_range
range_from(struct cu_emit *e, int64_t i)
{
	const struct ir_type *t = i < 8 ? &e->box->space
		: ir_type(e->n->in.m, e->box->leaves.at[i / 8 - 1].value);

	return span(0, (double)nest_local_size(e->n, t->dims[i % 8],
					       t->cut[i % 8]));
}

static struct cu_range
range_two(struct cu_emit *e, const struct nest_expr *x)
{
	struct cu_range a = cu_range_of(e, x->a), b = cu_range_of(e, x->b);
	int64_t least = b.lo > 0 ? b.lo : 1;

	switch (x->op) {
	case NEST_ADD:
		return span((double)a.lo + (double)b.lo,
			    (double)a.hi + (double)b.hi);
	case NEST_SUB:
		return span((double)a.lo - (double)b.hi,
			    (double)a.hi - (double)b.lo);
	case NEST_MUL:
		return product(a, b);
	case NEST_DIV:
		return span(0, (double)(a.hi > 0 ? a.hi / least : 0));
	case NEST_REM:
		return span(0, (double)(b.hi > 0 ? b.hi - 1 : 0));
	default:	/* a minimum or a maximum */
		return both(a, b);
	}
}

static struct cu_range
find_range(struct cu_emit *e, const struct nest_expr *x)
{
	struct cu_range r, no;
	uint32_t i;
	double n = 1;

	switch (x->op) {
	case NEST_NUM:
		return span((double)x->i, (double)x->i);
	case NEST_LOOP:
		return span(0, (double)cu_loop_size(e, (uint32_t)x->i));
	case NEST_FROM:
		return range_from(e, x->i);
	case NEST_WORD:
		return span(0, (double)e->f->k->out->spreads.at[x->ref].size);
	case NEST_LOAD:
		return span(INT32_MIN, INT32_MAX);
	case NEST_PICK:
		no = cu_range_of(e, x->c);
		return both(cu_range_of(e, x->b), no);
	case NEST_SUM:
		for (i = 0; i < e->n->loops.n; i++) {
			n *= x->over >> i & 1
				? (double)cu_loop_size(e, i) : 1;
		}
		r = cu_range_of(e, x->a);
		return span(n * (double)r.lo, n * (double)r.hi);
	case NEST_MOST:
	case NEST_LEAST:
		return cu_range_of(e, x->a);
	default:
		return x->b ? range_two(e, x) : span((double)-FAR, (double)FAR);
	}
}

struct cu_range
cu_range_of(struct cu_emit *e, nest_id id)
{
	const struct nest_expr *x = nest_at(e->n, id);

	if (x->kind != NEST_INT) {
		return span(0, 1);
	}
	if (!e->range[id].known) {
		struct cu_range r = find_range(e, x);

		e->range[id] = r;
	}
	return e->range[id];
}

const char *
cu_int_type(int64_t lo, int64_t hi)
{
	return lo >= -INT32_MAX && hi <= INT32_MAX ? "int" : "i64";
}
