/*
 * What a choice along one axis costs: conversions by the bytes that a rank
 * moves over the link, work by the operations and bytes that are left to it.
 * The unit is a byte on the link; the two rates below are those of a GPU of
 * 2022 beside its link (989e12 operations and 3.35e12 bytes of memory per
 * second, 450e9 bytes a second over the link).  The planner brings seconds.
 */
#include "passes/place.h"

#include <math.h>

#define FLOPS_PER_LINK_BYTE 2198.0
#define BYTES_PER_LINK_BYTE 7.4
/*
 * A byte that is kept from forward to backward, a bit more than its way over
 * the link: rather a piece is kept and gathered again (Korthikanti et al.
 * 2022, section 4.2.2), and of two placements at one price the smaller.
 */
#define LINK_BYTES_PER_HELD 1.01

static double
bytes_convert(const struct place_price *p, enum ir_op op, double bytes,
	      int64_t ranks)
{
	double n = (double)ranks, part = (n - 1) / n;

	(void)p;
	switch (op) {
	case IR_ALL_REDUCE:
		return 2 * part * bytes;
	case IR_ALL_TO_ALL:
	case IR_COMBINE:
	case IR_DISPATCH:
		return part * bytes / n;
	case IR_SHARD:
		return 2 * bytes / n / BYTES_PER_LINK_BYTE;
	case IR_ONCE:
		return 2 * bytes / BYTES_PER_LINK_BYTE;
	default:	/* reduce-scatter, all-gather */
		return part * bytes;
	}
}

static double
bytes_talk(const struct place_price *p, double bytes, int64_t ranks)
{
	(void)p;
	return bytes * (double)(ranks - 1);
}

static double
bytes_run(const struct place_price *p, double flops, double bytes)
{
	(void)p;
	return flops / FLOPS_PER_LINK_BYTE + bytes / BYTES_PER_LINK_BYTE;
}

static double
bytes_held(const struct place_price *p, double bytes)
{
	(void)p;
	return bytes * LINK_BYTES_PER_HELD;
}

/* ---- prices drawn at random: any legal placement may come out ---- */

static double
draw(const struct place_price *p)
{
	uint32_t out[4];

	ir_philox(p->seed, (*p->drawn)++, out);
	return 1 + out[0] % 1000;
}

static double
random_convert(const struct place_price *p, enum ir_op op, double bytes,
	       int64_t ranks)
{
	(void)op;
	(void)bytes;
	(void)ranks;
	return draw(p);
}

static double
random_talk(const struct place_price *p, double bytes, int64_t ranks)
{
	(void)bytes;
	(void)ranks;
	return draw(p);
}

static double
random_run(const struct place_price *p, double flops, double bytes)
{
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

/* A conversion is known by how its two sides are, whatever the dims. */
static void
find_conversions(struct place *p)
{
	struct ir_along from = { IR_IS_WHOLE, 0 }, to = from;
	int i, k;

	for (i = 0; i <= IR_IS_ROUTED; i++) {
		for (k = 0; k <= IR_IS_ROUTED; k++) {
			enum ir_op op;

			from.how = (enum ir_how)i;
			to.how = (enum ir_how)k;
			p->leads[i][k] = ir_conversion(from, to, &op)
				? (int16_t)op : -1;
		}
	}
}

void
place_price_init(struct place *p)
{
	struct ir_module *m = p->m;
	double seed = ir_setting_num(m, "place.shuffle", 0);

	find_conversions(p);
	p->price = (struct place_price){ bytes_convert, bytes_talk, bytes_run,
					 bytes_held, 0, NULL };
	if (seed > 0) {
		p->price = (struct place_price){ random_convert, random_talk,
						 random_run, random_held,
						 (uint64_t)seed,
						 arena_alloc(&p->arena,
							     sizeof(uint32_t))
		};
	}
}

/* ---- values ---- */

static double
whole_bytes(const struct ir_module *m, const struct ir_type *t)
{
	int64_t elems = 0;

	ir_type_elems(m, t, &elems);
	return (double)elems * ir_dtypes[t->dtype].bits / 8;
}

void
place_find_bytes(struct place *p)
{
	struct place_facts *f = p->facts;
	uint32_t i;

	f->bytes = arena_room(f->arena, p->nvalues * sizeof *f->bytes);
	f->weight = arena_room(f->arena, p->nvalues);
	for (i = 1; i < p->nvalues; i++) {
		f->bytes[i] = whole_bytes(p->m, ir_type(p->m, i));
		f->weight[i] = pass_is_weight(p->m, i);
	}
}

double
place_bytes(const struct place *p, value_id v)
{
	return p->facts->bytes[v] / p->spread[v];
}

bool
place_conversion(const struct place *p, struct ir_along from,
		 struct ir_along to, enum ir_op *op)
{
	int16_t leads = p->leads[from.how][to.how];

	if (leads < 0) {
		return false;
	}
	*op = (enum ir_op)leads;
	return true;
}

/*
 * Experts stay, tokens come to them; and weights that the tensor axis splits,
 * in whatever type and scale, are gathered only if nothing else will do: that
 * is what ZeRO is for.
 */
static bool
must_stay(const struct place *p, value_id v, struct ir_along from)
{
	if (from.how != IR_IS_SPLIT || !p->facts->weight[v]) {
		return false;
	}
	return p->kind == PLACE_EXPERT
		? p->facts->picked[v] && p->facts->experts[from.dim]
		: p->kind == PLACE_TENSOR && p->strict;
}

double
place_convert(const struct place *p, value_id v, struct ir_along from,
	      struct ir_along to, bool routable)
{
	enum ir_op op;

	if (ir_along_equal(from, to)) {
		return 0;
	}
	if (p->kind == PLACE_TIME || !place_conversion(p, from, to, &op)) {
		return INFINITY;
	}
	if (must_stay(p, v, from)) {
		return INFINITY;
	}
	if (to.how == IR_IS_ROUTED &&
	    (!routable || from.dim != p->facts->batch)) {
		return INFINITY;
	}
	if (from.how == IR_IS_ROUTED &&
	    (to.dim != p->facts->batch || !place_can_return(p, v))) {
		return INFINITY;
	}
	/* along other axes it may be split first, for whoever asks */
	return p->price.convert(&p->price, op, place_bytes(p, v) * p->spread[v]
				/ fmax(p->spread[v], p->asked[v]), p->ranks);
}

/* ---- nodes ---- */

static double
part(const struct place *p, struct ir_along s)
{
	return s.how == IR_IS_SPLIT || s.how == IR_IS_ROUTED
		? 1 / (double)p->ranks : 1;
}

/* What goes round a ring, or is exchanged per row of the first operand. */
static double
talk_bytes(const struct place *p, const struct ir_node *n,
	   const struct ir_way *w)
{
	const value_id *args = ir_args(p->m, n);
	double bytes = 0;
	uint32_t k;

	if (ir_is(n->op, IRF_PAIRS)) {
		for (k = 1; k < n->nargs && k < 3; k++) {
			bytes += place_bytes(p, args[k]) * part(p, w->in[k]);
		}
		return bytes * 0.99;	/* before gathering, if it is a tie */
	}
	bytes = 8 * place_bytes(p, args[0]);
	bytes /= (double)ir_dim_size(p->m, w->in[0].dim);
	return bytes / (double)p->ranks;
}

double
place_held(const struct place *p, value_id v, struct ir_along s)
{
	return p->price.held(&p->price, place_bytes(p, v) * part(p, s));
}

/* Of the node as it is without a mesh: no axis changes that. */
static double
whole_flops(const struct place *p, node_id id)
{
	struct ir_cost cost;

	if (p->facts->flops[id] < 0) {
		ir_cost(p->m, ir_node(p->m, id), &cost);
		p->facts->flops[id] = cost.flops;
	}
	return p->facts->flops[id];
}

double
place_run(const struct place *p, node_id id, const struct ir_way *w)
{
	const struct ir_node *n = ir_node(p->m, id);
	const value_id *args = ir_args(p->m, n);
	double bytes, share = part(p, w->out), price;
	uint32_t k;

	bytes = place_bytes(p, n->result) * part(p, w->out);
	for (k = 0; k < n->nargs; k++) {
		bytes += place_bytes(p, args[k]) * part(p, w->in[k]);
		share = fmin(share, part(p, w->in[k]));
	}
	price = p->price.run(&p->price, whole_flops(p, id) * share /
			     p->shared[id], bytes);
	return price + (w->talks ? p->price.talk(&p->price,
						 talk_bytes(p, n, w),
						 p->ranks) : 0);
}
