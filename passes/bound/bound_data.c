/*
 * Lower bounds of the time of the exchange of gradients and weights among data
 * ranks.  With ZeRO 0 and 1 it is once a step; with ZeRO 2 and 3 it is in each
 * microbatch, where kernels may hide it as long as they run.
 *
 * A gradient of a contraction's weights is a sum over rows, of which each data
 * rank has its own: along their axis nothing but sequences and what ZeRO splits
 * is in pieces (place_dims.c).  Either what ranks have is summed, or ranks have
 * the rows of all: these are gathered, of both operands, or come from kernels
 * that multiply the rows of all ranks, and so does the contraction of those
 * weights forward.  So the least of the three counts for each gradient: of the
 * exchange its share by elements, which is no more than it would take alone,
 * since the time of a collective grows by less than its bytes.  Rows of an
 * operand that gradients share count once, and those of one layer nothing, as
 * its rows may come from an embedding that each rank has.
 */
#include "passes/bound/bound_parts.h"

#include <math.h>

/* ---- rows ---- */

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

/* Whether a node computes another gradient that is a sum over rows. */
static bool
sums_sequences(const struct ir_module *m, const struct ir_node *n,
	       dim_id batch)
{
	return n->nargs && batch && !ir_is(n->op, IRF_PAIRS) &&
	       (n->op == IR_SCATTER ||
		(ir_is(n->op, IRF_CONTRACTS) && !ir_is(n->op, IRF_INDEXED))) &&
	       ir_type_has(ir_type(m, ir_args(m, n)[0]), batch) &&
	       !ir_type_has(ir_type(m, n->result), batch);
}

static bool
is_gradient(const struct ir_module *m, const struct ir_node *n, dim_id batch)
{
	return sums_rows(m, n) || sums_sequences(m, n, batch);
}

/* How many operands of such nodes are v. */
static double
readers(const struct ir_module *m, const struct ir_region *r, value_id v,
	dim_id batch)
{
	uint32_t i, k;
	double n = 0;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *x = ir_node(m, r->nodes.at[i]);

		for (k = 0; is_gradient(m, x, batch) && k < x->nargs; k++) {
			n += ir_args(m, x)[k] == v;
		}
	}
	return n;
}

/* Of the operands' rows; what follows two operands is indices. */
static double
rows_bytes(const struct ir_module *m, const struct ir_region *r,
	   const struct ir_node *n, dim_id batch)
{
	uint32_t nargs = n->op == IR_SCATTER ? 1 : 2, i;
	double bytes = 0;

	for (i = 0; i < nargs; i++) {
		value_id v = ir_args(m, n)[i];

		bytes += least_bytes(m, v, batch, DEEP) /
			 readers(m, r, v, batch);
	}
	return bytes;
}

/* times: in a step; counts: of these, how often its rows count. */
static void
add_rows(struct bound *b, const struct ir_region *r, const struct ir_node *n,
	 double times, double counts)
{
	struct ir_module *m = b->space->m;
	dim_id batch = b->space->batch_dim;
	struct bound_rows x = { .table = n->op == IR_SCATTER };
	struct ir_cost cost;
	int64_t elems = 0;

	if (!batch || !ir_type_elems(m, ir_type(m, n->result), &elems)) {
		return;
	}
	ir_cost(m, n, &cost);
	x.group = sums_rows(m, n) ? BOUND_EXPERTS : BOUND_OTHERS;
	x.elems = (double)elems;
	x.part = times * x.elems;
	x.bytes = counts * rows_bytes(m, r, n, batch);
	x.flops = counts * cost.flops / (double)ir_dim_size(m, batch);
	VEC_PUSH(&b->space->keep, &b->rows, x);
}

static void
find_rows(struct bound *b, region_id id, double times, double counts)
{
	const struct ir_module *m = b->space->m;
	const struct ir_region *r = &m->regions.at[id];
	dim_id batch = b->space->batch_dim;
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);
		double count = (double)ir_attr_int(m, n, IR_ATTR_COUNT, 1);

		if (ir_is(n->op, IRF_REGION)) {
			find_rows(b, n->region, times * count,
				  counts * (times > 1 ? count : count - 1));
		} else if (is_gradient(m, n, batch)) {
			add_rows(b, r, n, times, counts);
		}
	}
}

/* The sum of the parts of a group's contractions, or of its tables. */
static double
sum_parts(const struct bound *b, enum bound_group g, bool tables)
{
	double all = 0;
	uint32_t i;

	for (i = 0; i < b->rows.n; i++) {
		const struct bound_rows *x = &b->rows.at[i];

		all += x->group == g && x->table == tables ? x->part : 0;
	}
	return all;
}

/* Whether some table has as many elements. */
static bool
is_table_sized(const struct bound *b, double elems)
{
	uint32_t i;

	for (i = 0; i < b->rows.n; i++) {
		if (b->rows.at[i].table && b->rows.at[i].elems == elems) {
			return true;
		}
	}
	return false;
}

/*
 * A table that is also a contraction's weight has one gradient, of both: then
 * the one that may be cheaper counts, which is the table's.  Other weights may
 * be as large, so of these none goes without which parameters are missing.
 */
static void
drop_ties(struct bound *b)
{
	double others = b->params * (1 - b->expert_part - b->table_part);
	double all = sum_parts(b, BOUND_OTHERS, false), more = 1 - 1e-9;
	uint32_t i, n = 0;

	for (i = 0; i < b->rows.n; i++) {	/* its gradient comes first */
		struct bound_rows *x = &b->rows.at[i];

		if (!x->table && x->group == BOUND_OTHERS &&
		    x->part == x->elems && is_table_sized(b, x->elems) &&
		    all - x->part >= others * more) {
			all -= x->part;
			x->elems = 0;
		}
	}
	for (i = 0; i < b->rows.n; i++) {
		if (b->rows.at[i].elems > 0) {
			b->rows.at[n++] = b->rows.at[i];
		}
	}
	b->rows.n = n;
}

void
bound_find_rows(struct bound *b)
{
	const struct ir_module *m = b->space->m;
	double experts, others, tables;
	uint32_t i;

	find_rows(b, m->funcs.at[ir_model(m)].body, 1, 1);
	drop_ties(b);
	experts = sum_parts(b, BOUND_EXPERTS, false);
	tables = sum_parts(b, BOUND_OTHERS, true);
	others = fmax(sum_parts(b, BOUND_OTHERS, false),
		      b->params * (1 - b->expert_part - b->table_part));
	for (i = 0; i < b->rows.n; i++) {
		struct bound_rows *x = &b->rows.at[i];

		x->part /= x->table ? tables
			: x->group == BOUND_EXPERTS ? experts : others;
	}
}

/* ---- exchange for given degrees ---- */

/*
 * n ranks, each `apart` devices from the next.  Where nodes are no multiple of
 * that, a price has all in a node that begin there (ranks_group_below).
 */
static struct cost_group
group_on(const struct target_group *t, int64_t n, int64_t apart)
{
	struct cost_group g = cost_group_apart(t, n, apart);
	int64_t linked = t->device.link_devices;
	int64_t fit = num_ceil_div(t->devices, apart);

	g.per_node = n < fit ? n : fit;
	g.nodes = num_ceil_div(n, g.per_node);
	g.sharing = t->devices > g.per_node ? t->devices / g.per_node : 1;
	g.sets = linked < 1 ? 1
		: num_ceil_div(g.per_node, num_ceil_div(linked, apart));
	return g;
}

/* Time of a collective with one message among them. */
static double
exchange_on(const struct target_group *t, enum cost_op op, int64_t n,
	    int64_t apart, double bytes)
{
	struct cost_group g = group_on(t, n, apart);

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

#define LARGE 1e12	/* bytes of a message: latency counts for nothing */

/*
 * Time for each flop of the rows of a sequence that a rank multiplies for all
 * others, of which so many have sequences of their own.
 */
static double
flop_us(const struct bound *b, const struct space_degrees *g, int64_t data)
{
	const struct target_device *d = &space_quickest(b->space)->device;

	return ((double)data - 1 / (double)g->cp) / (double)(g->tp * g->pp) /
	       (space_float_rate(d) * fmax(d->matrix_eff, d->attention_eff));
}

/*
 * Sets the time of exchange in a microbatch with ZeRO 2 and 3.  Only the first
 * stage has a table.  Backward gathers weights of contractions again.
 */
static void
set_cut(const struct bound *b, const struct space_degrees *g,
	struct bound_degrees *x)
{
	double dense = 1 - b->expert_part - b->table_part;
	double rows = LARGE / (double)(g->tp * g->pp);
	struct bound_exchange *y = &x->of[BOUND_EXPERTS];
	struct bound_exchange *z = &x->of[BOUND_OTHERS];
	double table = dense_us(b, g, COST_ALL_GATHER, b->table_part);
	double once = dense_us(b, g, COST_ALL_GATHER, dense);

	y->gradients_us = experts_us(b, g, COST_REDUCE_SCATTER);
	y->weights_us = 2 * experts_us(b, g, COST_ALL_GATHER);
	z->gradients_us = dense_us(b, g, COST_REDUCE_SCATTER, dense);
	z->weights_us = once + dense_us(b, g, COST_ALL_GATHER, b->twice_part);
	x->table_us = g->pp > 1 ? 0 : table;
	x->again_us = once + table + y->weights_us / 2;
	y->row_us = experts_on(b, g, COST_ALL_GATHER, rows * (double)g->dp) /
		    LARGE;
	y->flop_us = flop_us(b, g, g->dp);
	z->row_us = exchange_us(b, COST_ALL_GATHER, g->dp * g->cp * g->ep,
				g->tp, rows * (double)(g->dp * g->ep)) / LARGE;
	z->flop_us = flop_us(b, g, g->dp * g->ep);
}

/*
 * Ranks of dp and cp exchange weights of experts; ranks of ep, too, all others.
 * Either gradients are all-reduced, or reduce-scattered and weights gathered.
 */
static void
set_once(const struct bound *b, const struct space_degrees *g,
	 enum bound_group group, struct bound_exchange *x)
{
	static const enum cost_op ops[] = { COST_REDUCE_SCATTER,
					    COST_ALL_GATHER, COST_ALL_REDUCE };
	double us[3];
	int i;

	for (i = 0; i < 3; i++) {
		us[i] = group == BOUND_EXPERTS ? experts_us(b, g, ops[i])
			: dense_us(b, g, ops[i], 1 - b->expert_part);
	}
	x->sum_us = us[0];
	x->gather_us = fmin(us[1], fmax(us[2] - us[0], 0));
}

void
bound_set_exchange(struct bound *b, const struct space_degrees *g)
{
	struct bound_degrees *x = &b->of[g->nth];

	set_once(b, g, BOUND_OTHERS, &x->of[BOUND_OTHERS]);
	set_once(b, g, BOUND_EXPERTS, &x->of[BOUND_EXPERTS]);
	set_cut(b, g, x);
}

double
bound_all_us(const struct bound_degrees *x)
{
	double us = 0;
	int i;

	for (i = 0; i < BOUND_NGROUPS; i++) {
		us += x->of[i].sum_us + x->of[i].gather_us;
	}
	return us;
}

/* ---- exchange in a step ---- */

/* The least time that the exchange adds to the kernels of a step. */
struct added {
	double once;		/* what is exchanged once a step */
	double shown;		/* if kernels hide all that they can */
	/* if kernels are shorter: time of all, to PRICE_SLOWED of theirs */
	double whole;
};

/* What a group exchanges that rows may replace: once in a step, and in each
 * microbatch. */
struct asked {
	double once, each;
};

/* Kernels of a step's only microbatch may hide a sum, those of an update
 * nothing. */
static double
once_part(const struct space_plan *t)
{
	return t->nmicrobatches == 1 ? PRICE_SLOWED : 1;
}

static struct asked
asked_of(const struct bound_exchange *x, int zero, double part)
{
	struct asked a = { 0, 0 };

	if (zero < 2) {
		a.once = part * (x->sum_us + (zero ? 0 : x->gather_us));
	} else {
		a.each = x->gradients_us;
	}
	return a;
}

/*
 * Adds weights that are gathered in any case: with ZeRO 1 and 2 once, as a rank
 * updates its part of them, and with ZeRO 3 at each use.
 */
static void
add_weights(const struct bound_degrees *x, int zero,
	    const struct space_plan *t, struct added *a)
{
	double all = x->table_us;
	int i;

	for (i = 0; i < BOUND_NGROUPS; i++) {
		all += x->of[i].weights_us;
		a->once += zero == 1 ? x->of[i].gather_us : 0;
	}
	a->once += zero == 2 ? x->again_us : 0;
	all *= zero > 2 ? (double)t->nmicrobatches : 0;
	a->shown += PRICE_SLOWED * all;
	a->whole += all;
}

/*
 * Adds a part of an exchange for n microbatches, or instead its rows: in each
 * microbatch they take so long to gather, or so long to multiply.
 */
static void
add_part(const struct asked *x, double n, double rows, double dots,
	 struct added *a)
{
	a->once += fmin(x->once, n * fmin(PRICE_SLOWED * rows, dots));
	a->shown += n * fmin(PRICE_SLOWED * x->each,
			     fmin(PRICE_SLOWED * rows, dots));
	a->whole += n * fmin(x->each, fmin(rows, PRICE_SLOWED * dots));
}

/*
 * The part of its group's exchange that a gradient has; of a table, whose
 * gradients ZeRO 2 and 3 need not sum.
 */
static struct asked
part_of_group(const struct bound *b, const struct bound_rows *x,
	      const struct asked *all)
{
	double others = 1 - b->expert_part;
	double tables = others > 0 ? b->table_part / others : 0;

	return x->table ? (struct asked){ x->part * tables * all->once, 0 }
		: x->group == BOUND_EXPERTS
		? (struct asked){ x->part * all->once, x->part * all->each }
		: (struct asked){ x->part * (1 - tables) * all->once,
				  x->part * all->each };
}

/*
 * Kernels of a microbatch may hide its exchange as long as they run, except the
 * part by which it slows them.
 */
static struct added
added(const struct bound *b, const struct piece_key *key,
      const struct space_plan *t)
{
	const struct bound_degrees *x = &b->of[t->g->nth];
	double n = (double)t->nmicrobatches, mb = (double)t->microbatch;
	struct asked all[BOUND_NGROUPS], left[BOUND_NGROUPS];
	struct added a = { 0, 0, 0 };
	uint32_t i;

	add_weights(x, key->zero, t, &a);
	for (i = 0; i < BOUND_NGROUPS; i++) {
		all[i] = left[i] = asked_of(&x->of[i], key->zero,
					    once_part(t));
	}
	for (i = 0; i < b->rows.n; i++) {
		const struct bound_rows *r = &b->rows.at[i];
		const struct bound_exchange *y = &x->of[r->group];
		struct asked part = part_of_group(b, r, &all[r->group]);

		add_part(&part, n, mb * y->row_us * r->bytes, r->table
			 ? INFINITY : mb * y->flop_us * r->flops, &a);
		left[r->group].once -= part.once;
		left[r->group].each -= part.each;
	}
	for (i = 0; i < BOUND_NGROUPS; i++) {
		left[i].once = fmax(left[i].once, 0);
		left[i].each = fmax(left[i].each, 0);
		add_part(&left[i], n, INFINITY, INFINITY, &a);
	}
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

/*
 * With all sequences in one microbatch: more of them exchange no less, and hide
 * no more.
 */
double
bound_any_data_us(const struct bound *b, const struct space_degrees *g)
{
	const struct space *s = b->space;
	struct space_plan t = { .g = g };
	struct piece_key key = { .zero = 0 };
	double least = INFINITY;
	int lo = 0, hi = 3;

	t.microbatch = s->pinned[SPACE_PIN_MICROBATCH] ? s->base.microbatch
		: space_microbatches(s, g, 1);
	t.nmicrobatches = space_microbatches(s, g, t.microbatch);
	if (s->pinned[SPACE_PIN_ZERO]) {
		lo = hi = s->base.zero;
	}
	for (key.zero = lo; key.zero <= hi; key.zero++) {
		struct added a = added(b, &key, &t);

		least = fmin(least, a.once + a.shown);
	}
	return least;
}
