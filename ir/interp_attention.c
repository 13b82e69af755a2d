/*
 * Attention and its derivatives, one query at a time, every score in sight.
 */
#include "ir/interp.h"

#include <math.h>

/*
 * Attention, as the loops of one (sequence, query, head) see it.  Queries
 * and keys may run along the same dim, and heads and kv heads too, so their
 * strides are apart here.
 */
struct heads {
	struct nest t, k, d, v;
	int64_t shared;		/* heads that share a kv head */
	int64_t shift;		/* T - S: the last query is at the last key */
	int64_t window;		/* 0: none */
	bool causal;
	double scale;
	double *score;		/* a key each */
};

/* Keys lo .. hi-1 are those that query i sees; there may be none. */
static void
visible(const struct heads *a, int64_t i, int64_t *lo, int64_t *hi)
{
	*lo = 0;
	*hi = a->t.size[0];
	if (a->causal && i + a->shift + 1 < *hi) {
		*hi = i + a->shift + 1;
	}
	if (a->window > 0 && i + a->shift - a->window + 1 > 0) {
		*lo = i + a->shift - a->window + 1;
	}
}

/* Sets score[lo..hi) to the softmax of the scaled scores. */
static void
weigh_keys(struct heads *a, const double *q, const double *k, int64_t lo,
	   int64_t hi)
{
	double max = -INFINITY, sum = 0;
	int64_t j, c;

	for (j = lo; j < hi; j++) {
		const double *row = k + j * a->t.in[1][0];
		double dot = 0;

		for (c = 0; c < a->d.size[0]; c++) {
			dot += q[c * a->d.in[0][0]] * row[c * a->d.in[1][0]];
		}
		a->score[j] = dot * a->scale;
		max = a->score[j] > max ? a->score[j] : max;
	}
	for (j = lo; j < hi; j++) {
		a->score[j] = exp(a->score[j] - max);
		sum += a->score[j];
	}
	for (j = lo; j < hi; j++) {
		a->score[j] /= sum;
	}
}

/* A query that sees no key gets zeros. */
static void
attend(struct heads *a, const double *const in[3], double *out, int64_t i,
       int64_t head)
{
	const double *k = in[1] + head / a->shared * a->k.in[1][0];
	const double *v = in[2] + head / a->shared * a->k.in[2][0];
	int64_t lo, hi, c, j;

	visible(a, i, &lo, &hi);
	weigh_keys(a, in[0], k, lo, hi);
	for (c = 0; c < a->v.size[0]; c++) {
		const double *column = v + c * a->v.in[2][0];
		double sum = 0;

		for (j = lo; j < hi; j++) {
			sum += a->score[j] * column[j * a->t.in[2][0]];
		}
		out[c * a->v.out[0]] = sum;
	}
}

static void
bind_heads(const struct interp *e, const struct ir_node *n,
	   const struct ir_rule *r, const struct nest *o, struct heads *a)
{
	ir_nest_one(e, n, r, &a->t, "t");
	ir_nest_one(e, n, r, &a->k, "k");
	ir_nest_one(e, n, r, &a->d, "d");
	ir_nest_one(e, n, r, &a->v, "v");
	/* the nest o ends in s and h */
	a->shared = o->size[o->n - 1] / a->k.size[0];
	a->shift = a->t.size[0] - o->size[o->n - 2];
	a->window = ir_attr_int(e->m, n, IR_ATTR_WINDOW, 0);
	a->causal = ir_attr(e->m, n, IR_ATTR_CAUSAL);
	a->scale = ir_attr_num(e->m, n, IR_ATTR_SCALE,
			       1 / sqrt((double)a->d.size[0]));
}

bool
ir_eval_attention(struct interp *e, const struct ir_node *n, double *out)
{
	struct interp_block *room;
	struct ir_rule r;
	struct heads a;
	struct nest o;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "B s h");
	bind_heads(e, n, &r, &o, &a);
	room = ir_interp_get(e, n, a.t.size[0]);
	if (!room) {
		return false;
	}
	a.score = room->data;
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		const double *const in[3] = {
			interp_arg(e, n, 0) + o.in_off[0],
			interp_arg(e, n, 1) + o.in_off[1],
			interp_arg(e, n, 2) + o.in_off[2]
		};

		attend(&a, in, out + o.out_off, o.at[o.n - 2],
		       o.at[o.n - 1]);
	}
	ir_interp_put(e, room);
	return true;
}
