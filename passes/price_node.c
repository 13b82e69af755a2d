/*
 * What one node of a rank program takes: its local shape, handed to the
 * formulas of cost.h.  Maps and sums over rows are taken to run in chains: a
 * chain reads what it needs once and writes what others need, and rides on
 * the contraction before it.
 */
#include "passes/price.h"

#include <math.h>
#include <string.h>

static int64_t
ceil_div(int64_t n, int64_t p)
{
	return n / p + (n % p != 0);
}

int64_t
price_local(const struct ir_module *m, const struct ir_type *t, uint32_t i)
{
	int64_t n = ir_dim_size(m, t->dims[i]);
	axis_id axes[IR_MAX_AXES];
	uint32_t k, count = ir_cuts(t, i, axes);

	for (k = 0; k < count; k++) {
		const struct ir_axis *x = &m->axes.at[axes[k]];

		n = x->balanced ? 2 * ceil_div(n, 2 * x->size)
				: ceil_div(n, x->size);
	}
	return n;
}

double
price_bytes(const struct ir_module *m, value_id v)
{
	const struct ir_type *t = ir_type(m, v);
	double bytes = ir_dtypes[t->dtype].bits / 8.0;
	uint32_t i;
	axis_id a;

	for (i = 0; i < t->ndims; i++) {
		bytes *= (double)price_local(m, t, i);
	}
	for (a = 1; a < m->axes.n; a++) {	/* rows asked for evenly */
		bytes /= t->routed >> (a - 1) & 1
			? (double)m->axes.at[a].size : 1;
	}
	return bytes;
}

/* The product of the local sizes of a factor's dims, where they stand. */
static double
extent(const struct pricing *p, const struct ir_node *n,
       const struct ir_rule *r, const char *name)
{
	const struct ir_factor *f = ir_rule_factor(r, name);
	double size = 1;
	uint32_t i, k, d;

	for (i = 0; f && i < f->n; i++) {
		const struct ir_type *t = NULL;

		for (k = 0; k < n->nargs && !t; k++) {
			if (f->in >> k & 1) {
				t = ir_type(p->m, ir_args(p->m, n)[k]);
			}
		}
		t = t ? t : ir_type(p->m, n->result);
		for (d = 0; d < t->ndims; d++) {
			if (t->dims[d] == f->dims[i]) {
				size *= (double)price_local(p->m, t, d);
			}
		}
	}
	return size;
}

static enum target_rate
rate_of(uint8_t dtype)
{
	switch (dtype) {
	case IR_BF16:
		return TARGET_BF16;
	case IR_F16:
		return TARGET_FP16;
	case IR_TF32:
		return TARGET_TF32;
	case IR_F8E4M3:
	case IR_F8E5M2:
		return TARGET_FP8;
	default:
		return TARGET_FP32;
	}
}

static void
add(struct price_func *f, enum price_part part, double us)
{
	f->us[part] += us;
	f->total_us += us;
}

/* ---- contractions ---- */

/* Ranks that share the rows of a routed operand. */
static double
routed_ranks(const struct pricing *p, const struct ir_node *n)
{
	double ranks = 1;
	uint32_t k;
	axis_id a;

	for (a = 1; a < p->m->axes.n; a++) {
		bool routed = false;

		for (k = 0; k < n->nargs; k++) {
			routed |= ir_type(p->m, ir_args(p->m, n)[k])->routed >>
				  (a - 1) & 1;
		}
		ranks *= routed ? (double)p->m->axes.at[a].size : 1;
	}
	return ranks;
}

/* Rows find their weights by index: as many small ones as weights here. */
static void
grouped(const struct pricing *p, const struct ir_node *n,
	const struct ir_rule *r, struct cost_contraction *x)
{
	double rows = extent(p, n, r, "S") * extent(p, n, r, "C") /
		      routed_ranks(p, n);

	x->batch = extent(p, n, r, "of");
	if (ir_rule_factor(r, "over")) {
		x->m = rows * extent(p, n, r, "M") / x->batch;
		x->n = extent(p, n, r, "N");
		x->k = extent(p, n, r, "over");
	} else {
		x->m = extent(p, n, r, "N");
		x->n = extent(p, n, r, "K");
		x->k = rows * extent(p, n, r, "M") / x->batch;
	}
}

static void
contraction(struct pricing *p, const struct ir_node *n, struct price_func *f)
{
	const struct ir_type *t = ir_type(p->m, n->result);
	struct cost_contraction x = { .batch = 1 };
	struct ir_rule r;

	ir_bind(p->m, n, &r);
	if (ir_is(n->op, IRF_INDEXED)) {
		grouped(p, n, &r, &x);
	} else {
		x.m = extent(p, n, &r, "M");
		x.n = extent(p, n, &r, "N");
		x.k = extent(p, n, &r, "over");
		x.batch = extent(p, n, &r, "B");
	}
	x.m = fmax(x.m, 1);
	x.k = fmax(x.k, 1);
	x.rate = rate_of(ir_type(p->m, ir_args(p->m, n)[0])->dtype);
	x.out_bytes = ir_dtypes[t->dtype].bits / 8.0;
	add(f, PRICE_MATRIX, cost_contraction(&p->t->device, &x).us);
	f->kernels++;
}

/* ---- attention ---- */

static struct cost_attention
attention_shape(const struct pricing *p, const struct ir_node *n,
		const struct ir_rule *r)
{
	struct cost_attention x = {
		.batch = extent(p, n, r, "B"), .heads = extent(p, n, r, "h"),
		.kv_heads = extent(p, n, r, "k"),
		.head_dim = extent(p, n, r, "d"),
		.queries = extent(p, n, r, "s"), .keys = extent(p, n, r, "t"),
		.causal = ir_attr(p->m, n, IR_ATTR_CAUSAL) != NULL,
		.window = (double)ir_attr_int(p->m, n, IR_ATTR_WINDOW, 0),
		.rate = rate_of(ir_type(p->m, ir_args(p->m, n)[0])->dtype)
	};
	const struct ir_attr *on = ir_attr(p->m, n, IR_ATTR_ON);
	uint32_t i;

	for (i = 0; on && i < on->ndims; i++) {	/* the keys go round */
		x.keys *= (double)p->m->axes.at[on->dims[i]].size;
	}
	return x;
}

/*
 * Scores in memory: two contractions a head, and a softmax with mask and
 * dropout in one kernel each, so 2 + 2 + 2 + 1 bytes a score forward and as
 * many back.
 */
static double
unfused_us(const struct pricing *p, const struct cost_attention *a,
	   double passes)
{
	struct cost_contraction x = {
		.m = a->queries, .n = a->keys, .k = a->head_dim,
		.batch = a->batch * a->heads, .rate = a->rate, .out_bytes = 2
	};
	struct cost_contraction y = x;
	double scores = a->batch * a->heads * a->queries * a->keys;

	y.n = a->head_dim;
	y.k = a->keys;
	return passes * (cost_contraction(&p->t->device, &x).us +
			 cost_contraction(&p->t->device, &y).us) +
	       2 * cost_bytes(&p->t->device, COST_MAP,
			      passes * 3.5 * scores).us;
}

/* Backward is one kernel, priced where the gradient of q stands. */
static void
attention(struct pricing *p, const struct ir_node *n, struct price_func *f)
{
	struct cost_attention x;
	struct ir_rule r;
	double us = 0;

	ir_bind(p->m, n, &r);
	x = attention_shape(p, n, &r);
	if (n->op == IR_ATTENTION) {
		us = p->traits->unfused ? unfused_us(p, &x, 1)
			: cost_attention(&p->t->device, &x).us;
	} else if (n->op == IR_ATTENTION_DQ) {
		us = p->traits->unfused ? unfused_us(p, &x, 2)
			: cost_attention_backward(&p->t->device, &x).us;
	}
	add(f, PRICE_ATTENTION, us);
	f->kernels += us > 0;
}

/* ---- collectives ---- */

struct cost_group
price_group(const struct ranks *r, const struct target_group *t,
	    uint32_t axes)
{
	uint32_t n = ranks_group_size(r, axes), i;
	uint32_t *members = arena_alloc(&r->m->ctx->tmp, n * sizeof *members);
	struct cost_group g = { 0 };

	ranks_group(r, 0, axes, members);
	for (i = 0; i < n; i++) {
		g.per_node += members[i] < t->devices;
	}
	g.nodes = ceil_div(n, g.per_node);
	g.sharing = g.nodes > 1 ? t->devices / g.per_node : 1;
	g.sharing = g.sharing > 0 ? g.sharing : 1;
	return g;
}

static double
collective(struct pricing *p, const struct ir_node *n, enum cost_op op,
	   double bytes)
{
	const struct ir_attr *on = ir_attr(p->m, n, IR_ATTR_ON);
	struct cost_group g;
	uint32_t axes = 0, i;

	for (i = 0; on && i < on->ndims; i++) {
		axes |= 1u << on->dims[i];
	}
	g = price_group(p->r, p->t, axes);
	if (g.per_node * g.nodes <= 1) {
		return 0;
	}
	return cost_collective(p->t, op, &g, bytes, NULL).us;
}

static void
talk(struct pricing *p, const struct ir_node *n, struct price_func *f)
{
	static const struct {
		enum ir_op op;
		enum cost_op cost;
		bool result;	/* its bytes are the larger side */
	} kinds[] = {
		{ IR_ALL_REDUCE, COST_ALL_REDUCE, true },
		{ IR_REDUCE_SCATTER, COST_REDUCE_SCATTER, false },
		{ IR_ALL_GATHER, COST_ALL_GATHER, true },
		{ IR_ALL_TO_ALL, COST_ALL_TO_ALL, false },
		{ IR_DISPATCH, COST_ALL_TO_ALL, true },
		{ IR_COMBINE, COST_ALL_TO_ALL, false }
	};
	size_t i;

	for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (kinds[i].op == n->op) {
			value_id v = kinds[i].result ? n->result
				: ir_args(p->m, n)[0];
			double us = collective(p, n, kinds[i].cost,
					       price_bytes(p->m, v));

			add(f, PRICE_TALK, us);
			f->kernels++;
		}
	}
}

/* What an op that is no collective says to the other ranks of its rows. */
static void
talk_inside(struct pricing *p, const struct ir_node *n, struct price_func *f)
{
	double bytes = price_bytes(p->m, ir_args(p->m, n)[0]);
	const struct ir_type *t = ir_type(p->m, ir_args(p->m, n)[0]);

	if (ir_is(n->op, IRF_PAIRS)) {
		bytes = price_bytes(p->m, ir_args(p->m, n)[1]) * 2;
		add(f, PRICE_TALK, collective(p, n, COST_ALL_GATHER, bytes *
			(double)p->m->axes.at[ir_attr(p->m, n, IR_ATTR_ON)
					      ->dims[0]].size));
		return;
	}
	bytes = 8 * bytes / (double)price_local(p->m, t, t->ndims - 1);
	add(f, PRICE_TALK, collective(p, n, COST_ALL_REDUCE, bytes));
}

/* ---- maps ---- */

static enum cost_kind
kind_of(const struct ir_node *n)
{
	return ir_is(n->op, IRF_INDEXED) ? COST_GATHER : COST_MAP;
}

/* In a chain only what comes in and what goes out touches the memory. */
static void
chain(struct pricing *p, const struct ir_node *n, struct price_func *f)
{
	double bytes = 0;
	uint32_t k;

	for (k = 0; k < n->nargs; k++) {
		value_id v = ir_args(p->m, n)[k];

		if (p->read[v]) {
			bytes += price_bytes(p->m, v);
			p->read[v] = false;	/* the chain has it now */
		}
	}
	if (n->nresults == 1 && p->escapes[n->result]) {
		bytes += price_bytes(p->m, n->result);
		f->kernels++;
		add(f, PRICE_MAPS, p->t->device.launch_us);
	}
	if (bytes > 0) {
		struct cost c = cost_bytes(&p->t->device, kind_of(n), bytes);

		add(f, PRICE_MAPS, c.us - c.launch_us);
	}
}

void
price_node(struct pricing *p, const struct ir_node *n, struct price_func *f)
{
	if (ir_is(n->op, IRF_PAIRS)) {
		attention(p, n, f);
	} else if (ir_is(n->op, IRF_CONTRACTS)) {
		contraction(p, n, f);
	} else if (ir_is(n->op, IRF_CONVERTS)) {
		talk(p, n, f);
		return;
	} else if (!ir_is(n->op, IRF_SOURCE | IRF_REGION | IRF_CALLS |
			  IRF_STASH | IRF_PEER)) {
		chain(p, n, f);
	}
	if (ir_attr(p->m, n, IR_ATTR_ON)) {
		talk_inside(p, n, f);
	}
}
