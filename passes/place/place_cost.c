/*
 * Prices of a choice along one axis: a conversion costs the time of its
 * collective, a node that of the operations and of the memory traffic of one
 * rank, both at the rates of the target (place_rates.c).
 */
#include "passes/place/place.h"
#include "passes/price/price.h"

#include <math.h>

static double
comm_us(const struct place_price *p, enum cost_op op, double bytes)
{
	return (p->joined ? 0 : p->rates.start_us[op]) +
	       bytes * p->rates.byte_us[op];
}

static double
timed_convert(const struct place_price *p, enum ir_op op, double bytes,
	      double ranks)
{
	switch (op) {
	case IR_ALL_REDUCE:
		return comm_us(p, COST_ALL_REDUCE, bytes);
	case IR_ALL_TO_ALL:
	case IR_COMBINE:
	case IR_DISPATCH:
		return comm_us(p, COST_ALL_TO_ALL, bytes / ranks);
	case IR_SHARD:
		return 2 * bytes / ranks * p->rates.memory_us;
	case IR_ONCE:
		return 2 * bytes * p->rates.memory_us;
	case IR_REDUCE_SCATTER:
		return comm_us(p, COST_REDUCE_SCATTER, bytes);
	default:
		return comm_us(p, COST_ALL_GATHER, bytes);
	}
}

static double
timed_coll(const struct place_price *p, double bytes, double ranks)
{
	return comm_us(p, COST_ALL_GATHER, bytes * ranks);
}

static double
timed_run(const struct place_price *p, enum target_rate rate, double flops,
	  double bytes)
{
	return flops * p->rates.flop_us[rate] + bytes * p->rates.memory_us;
}

static double
timed_held(const struct place_price *p, double bytes)
{
	return bytes * p->rates.held_us;
}

/* ---- random prices, so that any legal placement may come out ---- */

static double
draw(const struct place_price *p)
{
	uint32_t out[4];

	ir_philox(p->seed, (*p->drawn)++, out);
	return 1 + out[0] % 1000;
}

static double
random_convert(const struct place_price *p, enum ir_op op, double bytes,
	       double ranks)
{
	(void)op;
	(void)bytes;
	(void)ranks;
	return draw(p);
}

static double
random_coll(const struct place_price *p, double bytes, double ranks)
{
	(void)bytes;
	(void)ranks;
	return draw(p);
}

static double
random_run(const struct place_price *p, enum target_rate rate, double flops,
	   double bytes)
{
	(void)rate;
	(void)flops;
	(void)bytes;
	return draw(p);
}

static double
random_held(const struct place_price *p, double bytes)
{
	(void)bytes;
	return draw(p);
}

/* One code per op, whichever placements it converts between. */
static uint8_t
code_of(struct place *p, enum ir_op op)
{
	uint8_t code = PLACE_STEPS;

	while (code < p->ncodes && p->step[code] != op) {
		code++;
	}
	if (code == PLACE_CODES ||
	    p->nquiet + 1 == PLACE_PRICES / PLACE_CODES) {
		die("too many conversions");
	}
	if (code == p->ncodes) {
		p->step[p->ncodes++] = op;
		if (!ir_is(op, IRF_COMM)) {
			p->quiet[++p->nquiet] = code;
		}
	}
	return code;
}

/* The kinds of both placements decide the conversion; dims do not. */
static void
find_conversions(struct place *p)
{
	struct ir_along from = { IR_IS_WHOLE, 0 }, to = from;
	int i, k;

	p->ncodes = PLACE_STEPS;
	for (i = 0; i <= IR_IS_ROUTED; i++) {
		for (k = 0; k <= IR_IS_ROUTED; k++) {
			enum ir_op op;

			from.how = (enum ir_how)i;
			to.how = (enum ir_how)k;
			p->leads[i][k] = ir_conversion(from, to, &op)
				? code_of(p, op) : PLACE_NEVER;
		}
	}
}

void
place_price_init(struct place *p)
{
	struct ir_module *m = p->m;
	double seed = ir_setting_num(m, "place.shuffle", 0);

	find_conversions(p);
	p->price = (struct place_price){
		.convert = timed_convert, .coll = timed_coll,
		.run = timed_run, .held = timed_held
	};
	if (seed > 0) {
		p->price = (struct place_price){
			.convert = random_convert, .coll = random_coll,
			.run = random_run, .held = random_held,
			.seed = (uint64_t)seed,
			.drawn = arena_alloc(&p->arena, sizeof(uint32_t))
		};
	}
}

/* ---- values ---- */

static double
whole_bytes(const struct ir_module *m, const struct ir_type *t)
{
	int64_t elems = 0;

	ir_type_elems(m, t, &elems);
	return (double)elems * ir_elem_bytes(t->dtype);
}

void
place_find_bytes(struct place *p)
{
	struct place_facts *f = p->facts;
	uint32_t i;

	f->bytes = arena_alloc_raw(f->arena, p->nvalues * sizeof *f->bytes);
	f->weight = arena_alloc_raw(f->arena, p->nvalues);
	for (i = 1; i < p->nvalues; i++) {
		f->bytes[i] = whole_bytes(p->m, ir_type(p->m, i));
		f->weight[i] = pass_is_weight(p->m, i);
	}
}

static double
bytes_of(const struct place *p, value_id v)
{
	return p->facts->bytes[v] / p->spread[v];
}

/*
 * Split experts are never gathered; tokens are sent to them.  Weights split
 * over the tensor axis, also after a cast or scaling, are gathered only if no
 * other placement is feasible, as that is ZeRO's task.
 */
static bool
must_stay(const struct place *p, const struct place_like *l,
	  struct ir_along from)
{
	if (from.how != IR_IS_SPLIT || !l->weight) {
		return false;
	}
	return p->kind == PLACE_EXPERT
		? l->picked && p->facts->experts[from.dim]
		: p->kind == PLACE_TENSOR && p->strict;
}

uint8_t
place_step(const struct place *p, const struct place_like *l, uint32_t from,
	   uint32_t to, bool routable)
{
	struct ir_along a = place_along(l, from), b = place_along(l, to);

	if (from == to) {
		return PLACE_FREE;
	}
	if (p->kind == PLACE_TIME || must_stay(p, l, a)) {
		return PLACE_NEVER;
	}
	if (b.how == IR_IS_ROUTED &&
	    (!routable || a.dim != p->facts->batch)) {
		return PLACE_NEVER;
	}
	if (a.how == IR_IS_ROUTED &&
	    (b.dim != p->facts->batch || !l->returns)) {
		return PLACE_NEVER;
	}
	return p->leads[a.how][b.how];
}

uint8_t
place_step_or(const struct place *p, const struct place_like *l, uint8_t step,
	      uint32_t third, uint32_t to, bool routable)
{
	uint8_t code = place_step(p, l, third, to, routable);
	uint32_t i;

	for (i = 1; i <= p->nquiet && step != PLACE_FREE; i++) {
		if (p->quiet[i] == code) {
			return (uint8_t)(i * PLACE_CODES + step);
		}
	}
	return step;
}

double
place_moved(const struct place *p, value_id v)
{
	/* its users may want it split further along other axes first */
	return bytes_of(p, v) * p->spread[v] /
	       fmax(p->spread[v], p->asked[v]);
}

void
place_steps(const struct place *p, double bytes, double times,
	    double price[PLACE_PRICES])
{
	uint32_t i, k;

	price[PLACE_FREE] = 0;
	price[PLACE_NEVER] = INFINITY;
	for (i = PLACE_STEPS; i < p->ncodes; i++) {
		price[i] = times * p->price.convert(&p->price, p->step[i],
						    bytes, p->length);
	}
	for (k = 1; k <= p->nquiet; k++) {
		double *or = price + k * PLACE_CODES, quiet;

		quiet = price[p->quiet[k]];
		for (i = PLACE_NEVER; i < p->ncodes; i++) {
			or[i] = quiet < price[i] ? quiet : price[i];
		}
	}
}

/* ---- nodes ---- */

/*
 * A map of partial sums costs a little more than one of their sum: of two
 * placements at one price the one that adds up first is taken, whichever way
 * the costs of others are rounded.
 */
#define SUMMED_LATE 1.001

/* Nodes of attention's backward, which pass keys and values on together. */
#define BACKWARD 4

/*
 * Bytes communicated: keys and values in a ring, or 8 elements per row of
 * operand 0.
 */
static double
comm_bytes(const struct place *p, const struct ir_node *n,
	   const struct place_way *w, const double *bytes, const double *part)
{
	value_id first = ir_args(p->m, n)[0];
	double sum = 0;
	uint32_t k;

	if (ir_is(n->op, IRF_PAIRS)) {
		for (k = 1; k < n->nargs && k < 3; k++) {
			sum += bytes[k] * part[w->in[k]];
		}
		/* 1% off: a ring wins ties with gathering */
		return sum * 0.99 / (ir_is(n->op, IRF_CACHED) ? 1 : BACKWARD);
	}
	sum = 8 * bytes[0];
	sum /= (double)ir_dim_size(p->m, place_along(place_like(p, first),
						     w->in[0]).dim);
	return sum / p->length;
}

/* The fraction of a value that one rank has, by slot. */
static void
find_parts(const struct place *p, double part[PLACE_SLOTS])
{
	uint32_t i;

	for (i = 0; i < PLACE_SLOTS; i++) {
		part[i] = 1 / p->length;
	}
	part[PLACE_WHOLE] = part[PLACE_PART] = 1;
}

double
place_held(const struct place *p, value_id v, struct ir_along s)
{
	double part = s.how == IR_IS_SPLIT || s.how == IR_IS_ROUTED
		? 1 / p->length : 1;

	return p->price.held(&p->price, bytes_of(p, v) * part);
}

/*
 * The part of a node's operations that its price counts.  For a lower bound it
 * is what a contraction or attention does more than if it were split along the
 * axis.
 */
static double
counted_part(const struct place *p, const struct ir_node *n, double share)
{
	if (!p->counted) {
		return share;
	}
	return ir_is(n->op, IRF_CONTRACTS) ? share - 1 / p->length : 0;
}

/* Operations of the undivided node, which no axis changes. */
static double
whole_flops(const struct place *p, node_id id)
{
	if (p->facts->flops[id] < 0) {
		p->facts->flops[id] = ir_flops(p->m, ir_node(p->m, id));
	}
	return p->facts->flops[id];
}

void
place_runs(const struct place *p, node_id id, const struct place_way *w,
	   uint32_t n, double *price)
{
	const struct ir_node *node = ir_node(p->m, id);
	double in[IR_MAX_OPERANDS], out = bytes_of(p, node->result);
	double part[PLACE_SLOTS], flops = whole_flops(p, id), bytes, share;
	enum target_rate rate = price_rate(ir_type(p->m, node->nargs
		? ir_args(p->m, node)[0] : node->result)->dtype);
	uint32_t i, k;

	find_parts(p, part);
	for (k = 0; k < node->nargs; k++) {
		in[k] = bytes_of(p, ir_args(p->m, node)[k]);
	}
	for (i = 0; i < n; i++) {
		bool sums = false;	/* it maps partial sums */

		share = part[w[i].out];
		bytes = out * share;
		for (k = 0; k < node->nargs; k++) {
			sums |= w[i].in[k] == PLACE_PART;
			bytes += in[k] * part[w[i].in[k]];
			share = part[w[i].in[k]] < share ? part[w[i].in[k]]
							 : share;
		}
		share = counted_part(p, node, share);
		price[i] = p->price.run(&p->price, rate, flops * share /
					p->shared[id], bytes);
		price[i] *= sums && !p->counted ? SUMMED_LATE : 1;
		price[i] += w[i].colls && (ir_is(node->op, IRF_PAIRS) ||
					   !ir_is_beside(node->op))
			? p->price.coll(&p->price, comm_bytes(p, node, &w[i],
							      in, part),
					p->length) : 0;
	}
}
