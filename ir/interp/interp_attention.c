/*
 * Attention and its derivatives, one query at a time, every score in sight.
 *
 * Which queries see which keys is a matter of positions in the sequence, not
 * of places in the tensors of a rank.  If queries and keys are both split,
 * the keys go round a ring (Liu, Zaharia and Abbeel 2023): in each step a rank
 * works with the keys of another one, and either merges what it makes of
 * them by their log-sum-exp or adds to sums that travel with them.
 */
#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

/*
 * Attention, as the loops of one (sequence, query, head) see it.  Queries
 * and keys may run along the same dim, and heads and kv heads too, so their
 * strides are apart here.
 */
struct heads {
	struct interp *e;
	const struct ir_node *n;
	struct ir_rule r;
	struct interp_nest o, t, k, d, v;	/* o ends in s and h */
	struct ir_pieces s_at, t_at, h_at, k_at;
	int64_t nheads;		/* of all ranks */
	int64_t shared;		/* query heads per kv head */
	int64_t shift;		/* T - S: the last query is at the last key */
	int64_t window;		/* 0: none */
	bool causal;
	double scale, softcap, alibi;	/* softcap, alibi 0: none */
	const double *in[IR_MAX_OPERANDS];
	double *out;
	double *score;		/* by key */
	double *row;		/* result of a block, of one query */
	double *lse;		/* so far, by query; NULL: there is one block of
				 * keys, and no sink */
	int sink;		/* the operand of sinks, or -1 */
	int first;		/* that of first keys, before last ones; or
				 * -1 */
};

/* Whether the query at o sees the key at index j. */
static bool
sees(const struct heads *a, int64_t j)
{
	int64_t i = ir_pieces_at(&a->s_at, a->o.at[a->o.n - 2]) + a->shift;
	int64_t key = ir_pieces_at(&a->t_at, j);

	return (!a->causal || key <= i) &&
	       (a->window <= 0 || key > i - a->window) &&
	       (a->first < 0 ||
		((double)key >= a->in[a->first][a->o.in_off[a->first]] &&
		 (double)key <= a->in[a->first + 1]
				     [a->o.in_off[a->first + 1]]));
}

/* The index of the kv head that the head at o reads. */
static int64_t
kv_head(const struct heads *a)
{
	int64_t h = ir_pieces_at(&a->h_at, a->o.at[a->o.n - 1]);
	int64_t place = ir_pieces_find(&a->k_at, h / a->shared);

	if (place < 0) {
		die("the kv head of a head is on another rank");
	}
	return place;
}

/* The position that ALiBi counts from: the query's own, or, of a query whose
 * range of keys alone says what it sees, the last of these. */
static double
bias_from(const struct heads *a)
{
	if (a->first >= 0 && !a->causal) {
		return floor(a->in[a->first + 1][a->o.in_off[a->first + 1]]);
	}
	return (double)(ir_pieces_at(&a->s_at, a->o.at[a->o.n - 2]) +
			a->shift);
}

/* What is added to the score of the query at o with the key at index j. */
static double
bias_of(const struct heads *a, int64_t j)
{
	int64_t head;

	if (a->alibi <= 0) {
		return 0;
	}
	head = ir_pieces_at(&a->h_at, a->o.at[a->o.n - 1]);
	return ((double)ir_pieces_at(&a->t_at, j) - bias_from(a)) *
	       ir_alibi_slope(a->alibi, a->nheads, head);
}

/* The scaled and capped score of one query against one key. */
static double
score_of(const struct heads *a, const double *q, const double *key)
{
	double dot = 0;
	int64_t c;

	for (c = 0; c < a->d.size[0]; c++) {
		dot += q[c * a->d.in[0][0]] * key[c * a->d.in[1][0]];
	}
	dot *= a->scale;
	return a->softcap > 0 ? a->softcap * tanh(dot / a->softcap) : dot;
}

/* The derivative of a capped score by the score that is capped. */
static double
cap_slope(const struct heads *a, double capped)
{
	double part = a->softcap > 0 ? capped / a->softcap : 0;

	return 1 - part * part;
}

/*
 * Sets score[] of the keys that the query sees to the softmax of the scaled
 * scores, and of the others to -1.  The log of the sum of e^score.
 */
static double
weigh_keys(struct heads *a)
{
	const double *q = a->in[0] + a->o.in_off[0];
	const double *k = a->in[1] + a->o.in_off[1] +
			  kv_head(a) * a->k.in[1][0];
	double max = -INFINITY, sum = 0;
	int64_t j;

	for (j = 0; j < a->t.size[0]; j++) {
		a->score[j] = -INFINITY;
		if (sees(a, j)) {
			a->score[j] = score_of(a, q, k + j * a->t.in[1][0]) +
				      bias_of(a, j);
			max = a->score[j] > max ? a->score[j] : max;
		}
	}
	for (j = 0; j < a->t.size[0]; j++) {
		a->score[j] = sees(a, j) ? exp(a->score[j] - max) : -1;
		sum += a->score[j] < 0 ? 0 : a->score[j];
	}
	for (j = 0; j < a->t.size[0]; j++) {
		a->score[j] /= a->score[j] < 0 ? 1 : sum;
	}
	return sum > 0 ? max + log(sum) : -INFINITY;
}

/* A query that sees no key gets zeros. */
static void
attend(const struct heads *a, double *out, int64_t step)
{
	const double *v = a->in[2] + a->o.in_off[2] +
			  kv_head(a) * a->k.in[2][0];
	int64_t c, j;

	for (c = 0; c < a->v.size[0]; c++) {
		const double *column = v + c * a->v.in[2][0];
		double sum = 0;

		for (j = 0; j < a->t.size[0]; j++) {
			if (a->score[j] >= 0) {
				sum += a->score[j] *
				       column[j * a->t.in[2][0]];
			}
		}
		out[c * step] = sum;
	}
}

static double
log_sum(double x, double y)
{
	double max = x > y ? x : y;

	return max == -INFINITY ? max : max + log(exp(x - max) +
						  exp(y - max));
}

/*
 * Merges the results of two blocks of keys, weighted by their sums of e^score.
 */
static void
merge(double *out, int64_t step, double lse, const double *row,
      double row_lse, int64_t count)
{
	double all = log_sum(lse, row_lse);
	int64_t c;

	for (c = 0; all > -INFINITY && c < count; c++) {
		out[c * step] = exp(lse - all) * out[c * step] +
				exp(row_lse - all) * row[c];
	}
}

/* ---- blocks of keys ---- */

static void
block_attention(struct heads *a)
{
	int64_t query = 0;
	bool i;

	for (i = ir_nest_start(&a->o); i; i = ir_nest_next(&a->o), query++) {
		double *out = a->out + a->o.out_off, lse = weigh_keys(a);

		if (!a->lse) {
			attend(a, out, a->v.out[0]);
			continue;
		}
		attend(a, a->row, 1);
		merge(out, a->v.out[0], a->lse[query], a->row, lse,
		      a->v.size[0]);
		a->lse[query] = log_sum(a->lse[query], lse);
	}
}

/* A query that sees no key has no sum: 0 stands for it, and is never used. */
static void
block_lse(struct heads *a)
{
	int64_t query = 0;
	bool i;

	for (i = ir_nest_start(&a->o); i; i = ir_nest_next(&a->o), query++) {
		double lse = weigh_keys(a);

		if (a->lse) {
			a->lse[query] = lse = log_sum(a->lse[query], lse);
		}
		a->out[a->o.out_off] = lse > -INFINITY ? lse : 0;
	}
}

/*
 * One (query, key) pair of a derivative: the operands' rows, the weight of the
 * key, and the gradient of its score.  Operands are q, k, v, dout, lse,
 * sum(dout out); those of dv are q, k, dout, lse.
 */
struct score_pair {
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
pair_dq(const struct score_pair *p)
{
	const struct interp_nest *d = &p->a->d;

	add_scaled(p->out, d->out[0], p->k, d->in[1][0],
		   p->ds * p->a->scale, d->size[0]);
}

static void
pair_dk(const struct score_pair *p)
{
	const struct interp_nest *d = &p->a->d;

	add_scaled(p->out, d->out[0], p->q, d->in[0][0],
		   p->ds * p->a->scale, d->size[0]);
}

static void
pair_dv(const struct score_pair *p)
{
	const struct interp_nest *v = &p->a->v;

	add_scaled(p->out, v->out[0], p->g, v->in[2][0], p->weight,
		   v->size[0]);
}

/* Calls `add` for each key that the query at o sees. */
static void
each_key(const struct heads *a, void (*add)(const struct score_pair *p))
{
	bool dv = a->n->nargs - (a->first < 0 ? 0 : 2) == 4;
	const struct interp_nest *o = &a->o;
	int g = dv ? 2 : 3;
	double lse = a->in[g + 1][o->in_off[g + 1]];
	double delta = dv ? 0 : a->in[5][o->in_off[5]];
	int64_t kv = kv_head(a), j, c;
	struct score_pair p = { .a = a };

	p.q = a->in[0] + o->in_off[0];
	p.g = a->in[g] + o->in_off[g];
	for (j = 0; j < a->t.size[0]; j++) {
		double dp = 0, score;

		if (!sees(a, j)) {
			continue;
		}
		p.k = a->in[1] + o->in_off[1] + kv * a->k.in[1][0] +
		      j * a->t.in[1][0];
		score = score_of(a, p.q, p.k);
		p.weight = exp(score + bias_of(a, j) - lse);
		p.v = a->in[2] + o->in_off[2] + kv * a->k.in[2][0] +
		      j * a->t.in[2][0];
		for (c = 0; !dv && c < a->v.size[0]; c++) {
			dp += p.g[c * a->v.in[3][0]] *
			      p.v[c * a->v.in[2][0]];
		}
		p.ds = p.weight * (dp - delta) * cap_slope(a, score);
		p.out = a->out + o->out_off + kv * a->k.out[0] +
			j * a->t.out[0];
		add(&p);
	}
}

static void
each_pair(struct heads *a, void (*add)(const struct score_pair *p))
{
	bool i;

	for (i = ir_nest_start(&a->o); i; i = ir_nest_next(&a->o)) {
		each_key(a, add);
	}
}

static void
block_dq(struct heads *a)
{
	each_pair(a, pair_dq);
}

static void
block_dk(struct heads *a)
{
	each_pair(a, pair_dk);
}

static void
block_dv(struct heads *a)
{
	each_pair(a, pair_dv);
}

/* ---- alone, and in a ring ---- */

/* The first operand that runs along one factor and not the other, or -1. */
static int
operand_along(const struct heads *a, const char *one, const char *other)
{
	uint32_t with = ir_rule_factor(&a->r, one)->in;
	uint32_t k;

	with &= ~(uint32_t)ir_rule_factor(&a->r, other)->in;
	for (k = 0; k < a->n->nargs; k++) {
		if (with >> k & 1) {
			return (int)k;
		}
	}
	return -1;
}

/* The lse of no keys: the sink, which is a score of each query. */
static void
begin_lse(struct heads *a)
{
	int64_t query = 0;
	bool i;

	for (i = ir_nest_start(&a->o); i; i = ir_nest_next(&a->o)) {
		a->lse[query++] = a->sink < 0 ? -INFINITY
				: a->in[a->sink][a->o.in_off[a->sink]];
	}
}

/* Makes the loops for the keys that are here now. */
static void
bind_keys(struct heads *a)
{
	const struct ir_rule *r = &a->r;
	const struct ir_node *n = a->n;
	struct interp *e = a->e;
	dim_id t, k;

	ir_nest(e, n, r, &a->o, "B s h");
	ir_nest_one(e, n, r, &a->t, "t");
	ir_nest_one(e, n, r, &a->k, "k");
	ir_nest_one(e, n, r, &a->d, "d");
	if (ir_rule_factor(r, "v")) {
		ir_nest_one(e, n, r, &a->v, "v");
	}
	t = ir_rule_factor(r, "t")->dims[0];
	k = ir_rule_factor(r, "k")->dims[0];
	ir_interp_pieces(e, n, 1, t, &a->t_at);
	ir_interp_pieces(e, n, 1, k, &a->k_at);
}

static void
bind_heads(struct heads *a, struct interp *e, const struct ir_node *n,
	   double *out)
{
	dim_id s, t, h, k;
	uint32_t i;

	memset(a, 0, sizeof *a);
	a->e = e;
	a->n = n;
	a->out = out;
	ir_bind(e->m, n, &a->r);
	a->sink = operand_along(a, "h", "s");
	a->first = operand_along(a, "s", "h");
	for (i = 0; i < n->nargs; i++) {
		a->in[i] = interp_arg(e, n, i);
	}
	bind_keys(a);
	s = ir_rule_factor(&a->r, "s")->dims[0];
	t = ir_rule_factor(&a->r, "t")->dims[0];
	h = ir_rule_factor(&a->r, "h")->dims[0];
	k = ir_rule_factor(&a->r, "k")->dims[0];
	ir_interp_pieces(e, n, 0, s, &a->s_at);
	ir_interp_pieces(e, n, 0, h, &a->h_at);
	a->nheads = ir_dim_size(e->m, h);
	a->shared = a->nheads / ir_dim_size(e->m, k);
	a->shift = ir_dim_size(e->m, t) - ir_dim_size(e->m, s);
	a->window = ir_attr_int(e->m, n, IR_ATTR_WINDOW, 0);
	a->causal = ir_attr(e->m, n, IR_ATTR_CAUSAL);
	a->scale = ir_attr_num(e->m, n, IR_ATTR_SCALE,
			       1 / sqrt((double)a->d.size[0]));
	a->softcap = ir_attr_num(e->m, n, IR_ATTR_SOFTCAP, 0);
	a->alibi = ir_attr_num(e->m, n, IR_ATTR_ALIBI, 0);
}

/*
 * What ranks pass on in a ring: the operands that run along the keys, and the
 * result if it does, too, in one array.
 */
struct load {
	uint32_t set;		/* operands, and INTERP_RESULT */
	const struct interp_round *round;	/* the last, or NULL */
	struct interp_block *block;
};

/* Fills the first load, with this rank's own keys. */
static bool
load(struct heads *a, struct load *l)
{
	const struct ir_factor *t = ir_rule_factor(&a->r, "t");
	int64_t elems = 0, here;
	double *to;
	uint32_t k;

	l->round = NULL;
	l->set = t->in | (uint32_t)t->out << INTERP_RESULT;
	for (k = 0; k <= INTERP_RESULT; k++) {
		if (l->set >> k & 1) {
			elems += ir_interp_elems(a->e, a->n, k);
		}
	}
	l->block = ir_interp_get(a->e, a->n, elems);
	if (!l->block) {
		return false;
	}
	to = l->block->data;
	memset(to, 0, (size_t)l->block->bytes);
	for (k = 0; k < a->n->nargs; k++) {
		here = ir_interp_elems(a->e, a->n, k);
		if (l->set >> k & 1) {
			memcpy(to, a->in[k], (size_t)here * sizeof *to);
			to += here;
		}
	}
	return true;
}

/* Computes with the keys of the load, which are those of the rank at `away`. */
static void
unload(struct heads *a, const struct load *l, const uint32_t *away,
       void (*block)(struct heads *a))
{
	double *from = l->block->data;
	uint32_t k;

	a->e->away = away;
	a->e->away_set = l->set;
	bind_keys(a);
	for (k = 0; k < a->n->nargs; k++) {
		if (l->set >> k & 1) {
			a->in[k] = from;
			from += ir_interp_elems(a->e, a->n, k);
		}
	}
	if (l->set >> INTERP_RESULT & 1) {
		a->out = from;
	}
	block(a);
	a->e->away_set = 0;
}

/* Sends the load to the next rank, and receives that of the last. */
static bool
shift(struct heads *a, struct load *l)
{
	const struct ir_peer *peer;
	uint32_t n, me;

	if (!ir_interp_exchange(a->e, a->n, l->block->data,
				l->block->bytes /
				(int64_t)sizeof *l->block->data, &l->round)) {
		return false;
	}
	ir_interp_put(a->e, l->block);
	n = l->round->peers.n;
	me = l->round->me;
	peer = &l->round->peers.at[(me + n - 1) % n];
	l->block = ir_interp_get(a->e, a->n, peer->elems);
	if (!l->block) {
		return false;
	}
	memcpy(l->block->data, peer->data,
	       (size_t)peer->elems * sizeof *peer->data);
	return true;
}

static bool
ring(struct heads *a, double *out, void (*block)(struct heads *a))
{
	struct interp *e = a->e;
	const uint32_t *from = e->at;
	struct load l;
	uint32_t step = 0, n, me;

	if (!load(a, &l)) {
		return false;
	}
	do {
		unload(a, &l, from, block);
		if (!shift(a, &l)) {
			return false;
		}
		n = l.round->peers.n;
		me = l.round->me;
		from = l.round->peers.at[(me + 2 * n - 1 - step) % n].at;
	} while (++step < n);
	if (l.set >> INTERP_RESULT & 1) {	/* the result is back at its own
						 * rank */
		int64_t elems = ir_interp_elems(e, a->n, INTERP_RESULT);
		int64_t all = l.block->bytes / (int64_t)sizeof *out;

		memcpy(out, l.block->data + all - elems,
		       (size_t)elems * sizeof *out);
	}
	ir_interp_put(e, l.block);
	return true;
}

static bool
run(struct interp *e, const struct ir_node *n, double *out,
    void (*block)(struct heads *a))
{
	bool colls = ir_interp_colls(e, n), ok = true;
	struct interp_block *scratch;
	int64_t queries, keys;
	struct heads a;

	bind_heads(&a, e, n, out);
	queries = ir_nest_elems(&a.o);
	keys = ir_dim_size(e->m, ir_rule_factor(&a.r, "t")->dims[0]);
	scratch = ir_interp_get(e, n, keys + a.v.size[0] +
				   (colls || a.sink >= 0 ? queries : 0));
	if (!scratch) {
		return false;
	}
	a.score = scratch->data;
	a.row = a.score + keys;
	memset(out, 0, (size_t)ir_interp_elems(e, n, INTERP_RESULT) *
		       sizeof *out);
	if (colls || a.sink >= 0) {
		a.lse = a.row + a.v.size[0];
		begin_lse(&a);
	}
	if (colls) {
		ok = ring(&a, out, block);
	} else {
		block(&a);
	}
	if (ok) {
		ir_interp_put(e, scratch);
	}
	return ok;
}

/* Each op of ops.def has a function of its name. */
#define EVAL(name, block) \
	bool \
	ir_eval_##name(struct interp *e, const struct ir_node *n, \
		       double *out) \
	{ \
		return run(e, n, out, block); \
	}

EVAL(attention, block_attention)
EVAL(attention_sinks, block_attention)
EVAL(attention_between, block_attention)
EVAL(attention_sinks_between, block_attention)
EVAL(attention_lse, block_lse)
EVAL(attention_sinks_lse, block_lse)
EVAL(attention_between_lse, block_lse)
EVAL(attention_sinks_between_lse, block_lse)
EVAL(attention_dq, block_dq)
EVAL(attention_between_dq, block_dq)
EVAL(attention_dk, block_dk)
EVAL(attention_between_dk, block_dk)
EVAL(attention_dv, block_dv)
EVAL(attention_between_dv, block_dv)
