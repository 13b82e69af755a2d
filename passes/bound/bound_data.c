/*
 * Lower bounds of the time of the exchange of gradients and weights among data
 * ranks.  With ZeRO 0 and 1 it is once a step; with ZeRO 2 and 3 it is in each
 * microbatch, where kernels may hide it as long as they run.
 */
#include "passes/bound/bound_parts.h"

#include <math.h>

/* ---- experts' rows ---- */

/* Bytes of a value for one sequence; 0: it has no dim of sequences. */
static double
sequence_bytes(const struct ir_module *m, value_id v, dim_id batch)
{
	const struct ir_type *t = ir_type(m, v);
	int64_t n = 0;

	return batch && ir_type_has(t, batch) && ir_type_elems(m, t, &n)
		? (double)n * ir_dtypes[t->dtype].bits / 8 /
		  (double)ir_dim_size(m, batch) : 0;
}

#define DEEP 6	/* the longest chain of maps that is followed */

/*
 * Bytes of a value for one sequence, or those of the values from which maps
 * compute it, if these are fewer.
 */
static double
least_bytes(const struct ir_module *m, value_id v, dim_id batch, int depth)
{
	double bytes = sequence_bytes(m, v, batch), of = 0;
	node_id id = m->values.at[v].node;
	const struct ir_node *n = id ? ir_node(m, id) : NULL;
	uint32_t i;

	if (!n || !n->nargs || !depth || !ir_is(n->op, IRF_MAP | IRF_MOVES)) {
		return bytes;
	}
	for (i = 0; i < n->nargs && of < bytes; i++) {
		of += least_bytes(m, ir_args(m, n)[i], batch, depth - 1);
	}
	return fmin(bytes, of);
}

/*
 * Whether a node computes a gradient of experts: products of rows, summed by
 * expert.
 */
static bool
sums_rows(const struct ir_module *m, const struct ir_node *n)
{
	const struct ir_attr *of = ir_attr(m, n, IR_ATTR_OF);

	return ir_is(n->op, IRF_CONTRACTS) && ir_is(n->op, IRF_INDEXED) &&
	       of && ir_type_has(ir_type(m, n->result), of->dims[0]);
}

/* How many operands of such nodes are v. */
static double
readers(const struct ir_module *m, const struct ir_region *r, value_id v)
{
	uint32_t i, k;
	double n = 0;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *x = ir_node(m, r->nodes.at[i]);

		for (k = 0; sums_rows(m, x) && k < x->nargs; k++) {
			n += ir_args(m, x)[k] == v;
		}
	}
	return n;
}

static void
add_rows(struct bound *b, const struct ir_region *r, const struct ir_node *n,
	 double times)
{
	struct ir_module *m = b->space->m;
	const struct ir_type *t = ir_type(m, n->result);
	dim_id batch = b->space->batch_dim;
	struct bound_rows x = { 0 };
	struct ir_cost cost;
	int64_t elems = 0;
	uint32_t i;

	if (!batch || !ir_type_elems(m, t, &elems)) {
		return;
	}
	for (i = 0; i < n->nargs; i++) {
		value_id v = ir_args(m, n)[i];

		x.bytes += times * least_bytes(m, v, batch, DEEP) /
			   readers(m, r, v);
	}
	ir_cost(m, n, &cost);
	x.weight = times * (double)elems;
	x.flops = times * cost.flops / (double)ir_dim_size(m, batch);
	VEC_PUSH(&b->space->keep, &b->rows, x);
}

static void
find_rows(struct bound *b, region_id id, double times)
{
	const struct ir_module *m = b->space->m;
	const struct ir_region *r = &m->regions.at[id];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);
		int64_t count = ir_attr_int(m, n, IR_ATTR_COUNT, 1);

		if (ir_is(n->op, IRF_REGION)) {
			find_rows(b, n->region, times * (double)count);
		} else if (sums_rows(m, n)) {
			add_rows(b, r, n, times);
		}
	}
}

void
bound_find_rows(struct bound *b)
{
	const struct ir_module *m = b->space->m;
	double all = 0;
	uint32_t i;

	find_rows(b, m->funcs.at[ir_model(m)].body, 1);
	for (i = 0; i < b->rows.n; i++) {
		all += b->rows.at[i].weight;
	}
	for (i = 0; i < b->rows.n; i++) {
		b->rows.at[i].weight /= all;
	}
}

/* ---- exchange for given degrees ---- */

/*
 * Time of a collective with one message among n ranks, each `apart` devices
 * from the next.
 */
static double
exchange_on(const struct target_group *t, enum cost_op op, int64_t n,
	    int64_t apart, double bytes)
{
	struct cost_group g = cost_group_apart(t, n, apart);

	return cost_collective(t, op, &g, bytes, NULL).us;
}

/* The same on the quickest device group; 0 where overlap may hide it all. */
static double
exchange_us(const struct bound *b, enum cost_op op, int64_t n,
	    int64_t apart, double bytes)
{
	double us = INFINITY;
	uint32_t i;

	if (n <= 1 || bytes <= 0 || b->space->traits->overlap_data) {
		return 0;
	}
	for (i = 0; i < b->space->nsingle; i++) {
		us = fmin(us, exchange_on(b->space->devs.at[i], op, n, apart,
					  bytes));
	}
	return us;
}

/* Bytes of a mean rank's weights or gradients, if experts were not split. */
static double
weight_bytes(const struct bound *b, const struct space_degrees *g)
{
	return fmin(b->static_bytes[0], b->static_bytes[1]) /
	       (double)(g->tp * g->pp);
}

/* Time to exchange a part of a rank's weights, which is not of experts. */
static double
dense_us(const struct bound *b, const struct space_degrees *g,
	 enum cost_op op, double part)
{
	return exchange_us(b, op, g->dp * g->cp * g->ep, g->tp,
			   weight_bytes(b, g) * part);
}

static double
experts_on(const struct bound *b, const struct space_degrees *g,
	   enum cost_op op, double bytes)
{
	return exchange_us(b, op, g->dp * g->cp,
			   g->tp * (g->cp > 1 ? 1 : g->ep), bytes);
}

static double
experts_us(const struct bound *b, const struct space_degrees *g,
	   enum cost_op op)
{
	return experts_on(b, g, op, weight_bytes(b, g) * b->expert_part /
			  (double)g->ep);
}

/*
 * Ranks of dp and cp exchange weights of experts; ranks of ep, too, all others.
 */
static double
weights_us(const struct bound *b, const struct space_degrees *g,
	   enum cost_op op)
{
	return dense_us(b, g, op, 1 - b->expert_part) + experts_us(b, g, op);
}

#define LARGE 1e12	/* bytes of a message: latency counts for nothing */

/* Time for each byte of rows that each data rank gathers from all others. */
static double
row_us(const struct bound *b, const struct space_degrees *g)
{
	double bytes = (double)g->dp / (double)(g->tp * g->pp);

	return experts_on(b, g, COST_ALL_GATHER, LARGE * bytes) / LARGE;
}

/* Time for each flop of a data rank's rows, where each rank computes all. */
static double
flop_us(const struct bound *b, const struct space_degrees *g)
{
	const struct target_device *d = &space_quickest(b->space)->device;

	return (double)(g->dp - 1) / (double)(g->tp * g->pp) /
	       (space_float_rate(d) * fmax(d->matrix_eff, d->attention_eff));
}

/*
 * Sets the time of exchange in a microbatch with ZeRO 2 and 3.  The gradient of
 * an embedding table needs no sum if rows are gathered, and only the first
 * stage has the table.  Backward gathers weights of contractions again.
 */
static void
set_cut(const struct bound *b, const struct space_degrees *g,
	struct bound_cut *c)
{
	double dense = 1 - b->expert_part - b->table_part;
	double experts = experts_us(b, g, COST_ALL_GATHER);
	double table = dense_us(b, g, COST_ALL_GATHER, b->table_part);
	double once = dense_us(b, g, COST_ALL_GATHER, dense);

	c->dense_us = dense_us(b, g, COST_REDUCE_SCATTER, dense);
	c->experts_us = experts_us(b, g, COST_REDUCE_SCATTER);
	c->row_us = row_us(b, g);
	c->flop_us = flop_us(b, g);
	c->gather_us = once + experts + table;
	c->weights_us = once + experts + (g->pp > 1 ? 0 : table) +
		dense_us(b, g, COST_ALL_GATHER, b->twice_part) + experts;
}

/*
 * Either gradients are all-reduced, or reduce-scattered and weights gathered.
 */
void
bound_set_exchange(struct bound *b, const struct space_degrees *g)
{
	struct bound_degrees *x = &b->of[g->nth];
	double both = weights_us(b, g, COST_ALL_REDUCE);

	x->sum_us = weights_us(b, g, COST_REDUCE_SCATTER);
	x->gather_us = weights_us(b, g, COST_ALL_GATHER);
	if (both < x->sum_us + x->gather_us) {
		x->gather_us = fmax(both - x->sum_us, 0);
	}
	set_cut(b, g, &x->cut);
}

/* ---- exchange in a step ---- */

/* The least time that the exchange adds to the kernels of a step. */
struct added {
	double once;		/* what is exchanged once a step */
	double shown;		/* if kernels hide all that they can */
	/* if kernels are shorter: time of all, to PRICE_SLOWED of theirs */
	double whole;
};

/*
 * Adds the exchange of experts' gradients, the quicker of two ways: a sum, or
 * each rank gathers the rows of all data ranks and multiplies them itself.
 */
static void
add_experts(const struct bound *b, const struct space_plan *t,
	    struct added *a)
{
	const struct bound_cut *c = &b->of[t->g->nth].cut;
	double mb = (double)t->microbatch;
	uint32_t i;

	for (i = 0; i < b->rows.n; i++) {
		const struct bound_rows *x = &b->rows.at[i];
		double sum = c->experts_us * x->weight;
		double rows = mb * c->row_us * x->bytes;
		double dots = mb * c->flop_us * x->flops;

		a->shown += fmin(PRICE_SLOWED * sum,
				 PRICE_SLOWED * rows + dots);
		a->whole += fmin(sum, rows + PRICE_SLOWED * dots);
	}
}

/*
 * Kernels of a microbatch may hide its exchange as long as they run, except the
 * part by which it slows them.  So may a step of one microbatch hide sums.
 */
static struct added
added(const struct bound *b, const struct piece_key *key,
      const struct space_plan *t)
{
	const struct bound_degrees *x = &b->of[t->g->nth];
	const struct bound_cut *c = &x->cut;
	double n = (double)t->nmicrobatches;
	struct added a = { .once = x->sum_us + x->gather_us };

	if (key->zero < 2) {
		a.once *= t->nmicrobatches == 1 ? PRICE_SLOWED : 1;
		return a;
	}
	a.once = key->zero == 2 ? c->gather_us : 0;
	a.whole = c->dense_us + (key->zero > 2 ? c->weights_us : 0);
	a.shown = PRICE_SLOWED * a.whole;
	add_experts(b, t, &a);
	a.shown *= n;
	a.whole *= n;
	return a;
}

double
bound_once_us(const struct bound *b, const struct piece_key *key,
	      const struct space_plan *t)
{
	return added(b, key, t).once;
}

double
bound_data_us(const struct bound *b, const struct piece_key *key,
	      const struct space_plan *t, double us)
{
	struct added a = added(b, key, t);

	return a.once + fmax(a.shown, a.whole - (1 - PRICE_SLOWED) * us);
}

double
bound_kernels_us(const struct bound *b, const struct piece_key *key,
		 const struct space_plan *t, double us)
{
	struct added a = added(b, key, t);

	us -= a.once;
	return fmin(us - a.shown, (us - a.whole) / PRICE_SLOWED);
}
