/*
 * Attention and its derivatives, one query at a time, every score in sight.
 */
#include "ir/interp.h"

#include <math.h>
#include <string.h>

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

/* The scaled score of one query against one key. */
static double
score_of(const struct heads *a, const double *q, const double *key)
{
	double dot = 0;
	int64_t c;

	for (c = 0; c < a->d.size[0]; c++) {
		dot += q[c * a->d.in[0][0]] * key[c * a->d.in[1][0]];
	}
	return dot * a->scale;
}

/* Sets score[lo..hi) to the softmax of the scaled scores. */
static void
weigh_keys(struct heads *a, const double *q, const double *k, int64_t lo,
	   int64_t hi)
{
	double max = -INFINITY, sum = 0;
	int64_t j;

	for (j = lo; j < hi; j++) {
		a->score[j] = score_of(a, q, k + j * a->t.in[1][0]);
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
	if (ir_rule_factor(r, "v")) {
		ir_nest_one(e, n, r, &a->v, "v");
	}
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

/* ---- backward ---- */

/* A query that sees no key has no sum; 0 stands for it, and nobody asks. */
bool
ir_eval_attention_lse(struct interp *e, const struct ir_node *n, double *out)
{
	struct ir_rule r;
	struct heads a;
	struct nest o;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "B s h");
	bind_heads(e, n, &r, &o, &a);
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		const double *q = interp_arg(e, n, 0) + o.in_off[0];
		const double *k = interp_arg(e, n, 1) + o.in_off[1] +
			o.at[o.n - 1] / a.shared * a.k.in[1][0];
		double max = -INFINITY, sum = 0, x;
		int64_t lo, hi, j;

		visible(&a, o.at[o.n - 2], &lo, &hi);
		for (j = lo; j < hi; j++) {
			x = score_of(&a, q, k + j * a.t.in[1][0]);
			max = x > max ? x : max;
		}
		for (j = lo; j < hi; j++) {
			sum += exp(score_of(&a, q, k + j * a.t.in[1][0]) -
				   max);
		}
		out[o.out_off] = lo < hi ? max + log(sum) : 0;
	}
	return true;
}

/*
 * One (query, key) pair of a derivative: the operands' rows, the weight of
 * the key, and what flows back into its score.  Operands are q, k, v, dout,
 * lse, sum(dout out); those of dv are q, k, dout, lse.
 */
struct pair {
	const struct heads *a;
	const double *q, *k, *v, *g;
	double weight, ds;
	double *out;	/* of this key, or of this query */
};

static void
add_scaled(double *out, int64_t out_step, const double *x, int64_t x_step,
	   double by, int64_t count)
{
	int64_t c;

	for (c = 0; c < count; c++) {
		out[c * out_step] += by * x[c * x_step];
	}
}

static void
pair_dq(const struct pair *p)
{
	const struct nest *d = &p->a->d;

	add_scaled(p->out, d->out[0], p->k, d->in[1][0],
		   p->ds * p->a->scale, d->size[0]);
}

static void
pair_dk(const struct pair *p)
{
	const struct nest *d = &p->a->d;

	add_scaled(p->out, d->out[0], p->q, d->in[0][0],
		   p->ds * p->a->scale, d->size[0]);
}

static void
pair_dv(const struct pair *p)
{
	const struct nest *v = &p->a->v;

	add_scaled(p->out, v->out[0], p->g, v->in[2][0], p->weight,
		   v->size[0]);
}

/* All keys that the query under o sees, one after the other. */
static void
each_key(const struct interp *e, const struct ir_node *n,
	 const struct heads *a, const struct nest *o, double *out,
	 void (*add)(const struct pair *p))
{
	bool dv = n->nargs == 4;
	int g = dv ? 2 : 3;
	double lse = interp_arg(e, n, g + 1)[o->in_off[g + 1]];
	double delta = dv ? 0 : interp_arg(e, n, 5)[o->in_off[5]];
	int64_t kv = o->at[o->n - 1] / a->shared, lo, hi, j, c;
	struct pair p = { .a = a };

	p.q = interp_arg(e, n, 0) + o->in_off[0];
	p.g = interp_arg(e, n, g) + o->in_off[g];
	visible(a, o->at[o->n - 2], &lo, &hi);
	for (j = lo; j < hi; j++) {
		double dp = 0;

		p.k = interp_arg(e, n, 1) + o->in_off[1] +
		      kv * a->k.in[1][0] + j * a->t.in[1][0];
		p.weight = exp(score_of(a, p.q, p.k) - lse);
		p.v = interp_arg(e, n, 2) + o->in_off[2] +
		      kv * a->k.in[2][0] + j * a->t.in[2][0];
		for (c = 0; !dv && c < a->v.size[0]; c++) {
			dp += p.g[c * a->v.in[3][0]] *
			      p.v[c * a->v.in[2][0]];
		}
		p.ds = p.weight * (dp - delta);
		p.out = out + o->out_off + kv * a->k.out[0] +
			j * a->t.out[0];
		add(&p);
	}
}

static bool
derive(struct interp *e, const struct ir_node *n, double *out,
       void (*add)(const struct pair *p))
{
	struct ir_rule r;
	struct heads a;
	struct nest o;
	int64_t elems;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "B s h");
	bind_heads(e, n, &r, &o, &a);
	ir_type_elems(e->m, ir_type(e->m, n->result), &elems);
	memset(out, 0, (size_t)elems * sizeof *out);
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		each_key(e, n, &a, &o, out, add);
	}
	return true;
}

bool
ir_eval_attention_dq(struct interp *e, const struct ir_node *n, double *out)
{
	return derive(e, n, out, pair_dq);
}

bool
ir_eval_attention_dk(struct interp *e, const struct ir_node *n, double *out)
{
	return derive(e, n, out, pair_dk);
}

bool
ir_eval_attention_dv(struct interp *e, const struct ir_node *n, double *out)
{
	return derive(e, n, out, pair_dv);
}
