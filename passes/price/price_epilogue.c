/*
 * What follows the products of a contraction in its kernel, in issue slots of a
 * thread for each element of the result: what the kernel's nodes load, compute
 * and store, by the counts of cost_slots.def.
 *
 * An expression (price_exprs.c) counts as in cuda_nest_slots.c: once for each
 * element, or less often where it does not change along a vector, or is the
 * same for both halves of a rotation, which one thread has; what changes
 * nowhere is computed before the loops and is free.  A product that is only
 * added to something is part of the addition.
 */
#include "passes/price/price_epilogue.h"

#include <math.h>

#define VECTOR_BYTES 16	/* of the widest of what lies along vectors */
/* Columns of a part of a tile in shared memory, of a pair the same of both, and
 * rows of it that a warp has: cuda_dot90.c, cuda_dot90_put.c. */
#define PART_COLS 32
#define PAIR_COLS 64
#define PART_ROWS 16
#define WARP 32
/* Rows and columns of a tile that other warps put away: cuda_dot90.c. */
#define BESIDE_ROWS 128
#define BESIDE_COLS 256
/* Columns of a tile of experts; of 8 bits: cuda_dot_plan.c. */
#define EXPERTS_COLS 256
#define EXPERTS_COLS_8 128

/* ---- slots ---- */

static int64_t
bytes_of(const struct epilogue *e, value_id v)
{
	return (int64_t)ir_elem_bytes(ir_type(e->m, v)->dtype);
}

static bool
is_vector(const struct epilogue *e, value_id v)
{
	const struct ir_type *t = ir_type(e->m, v);

	return t->ndims > 0 && t->dims[t->ndims - 1] == e->last;
}

static double
access_slots(const struct epilogue *e, value_id v)
{
	return is_vector(e, v) ? cost_slots[COSTS_ACCESS] / e->lanes
			       : cost_slots[COSTS_SINGLE];
}

static double
widen_slots(const struct epilogue *e, value_id v)
{
	int64_t bytes = bytes_of(e, v);

	return bytes == 1 ? cost_slots[COSTS_WIDEN_8]
		: bytes == 2 ? cost_slots[COSTS_WIDEN] : 0;
}

static double
how_often(const struct epilogue *e, uint8_t by)
{
	double often = by & BY_LAST ? 1 : 1 / e->lanes;

	return !by ? 0 : e->halves && !(by & BY_HALF) ? often / 2 : often;
}

static bool
is_fused(const struct epilogue *e, uint32_t i)
{
	return e->at[i].op == IR_MUL && e->at[i].uses == 1 && e->at[i].by;
}

/* Slots of a map, once its operands are there. */
static double
map_slots(const struct epilogue *e, const struct put_expr *x)
{
	static const struct {
		uint16_t op;
		uint8_t slots, and;
	} of[] = {
		{ IR_EXP, COSTS_EXP, COSTS_NKINDS },
		{ IR_LOG, COSTS_LOG, COSTS_NKINDS },
		{ IR_SQRT, COSTS_SQRT, COSTS_NKINDS },
		{ IR_RSQRT, COSTS_SQRT, COSTS_DIV },
		{ IR_TANH, COSTS_TANH, COSTS_NKINDS },
		{ IR_SIGMOID, COSTS_SIGMOID, COSTS_NKINDS },
		{ IR_ERF, COSTS_ERF, COSTS_NKINDS },
		{ IR_COS, COSTS_ROTATE, COSTS_NKINDS },
		{ PUT_SIN, COSTS_ROTATE, COSTS_NKINDS },
		{ PUT_ANGLE, COSTS_TABLE, COSTS_TURN },
		{ PUT_REDUCED, COSTS_REDUCE, COSTS_NKINDS },
		{ IR_DROPOUT_MASK, COSTS_KEEPS, COSTS_NKINDS },
		{ IR_DIV, COSTS_DIV, COSTS_NKINDS },
		{ IR_QUANTIZE, COSTS_DIV, COSTS_NKINDS },
		{ IR_STEP, COSTS_PLAIN, COSTS_PLAIN }
	};
	double plain = cost_slots[COSTS_PLAIN];
	size_t i;

	if (x->op == IR_CAST || x->op == IR_CACHE || x->op == PUT_NUMBER) {
		return 0;
	}
	if (x->op == IR_ADD || x->op == IR_SUB) {
		return is_fused(e, x->a) || is_fused(e, x->b) ? 0 : plain;
	}
	if (x->op == PUT_SIGN) {	/* two indices, and two choices */
		return 4 * plain;
	}
	if (x->op == IR_GELU_ERF) {	/* with three products, a sum in one */
		return cost_slots[COSTS_ERF] + 4 * plain;
	}
	for (i = 0; i < sizeof of / sizeof *of; i++) {
		if (of[i].op == x->op) {
			return cost_slots[of[i].slots] +
			       (of[i].and < COSTS_NKINDS
				? cost_slots[of[i].and] : 0);
		}
	}
	return plain;
}

static double
expr_slots(const struct epilogue *e, const struct put_expr *x)
{
	double often = how_often(e, x->by);

	switch (x->op) {
	case PUT_SUM:
		return e->rounded
			? often * (cost_slots[COSTS_SHARED] / 2 +
				   cost_slots[COSTS_WIDEN])
			: cost_slots[COSTS_SHARED];
	case PUT_HANDED:
		return 0;
	case PUT_LOAD:
		return often * (access_slots(e, x->value) +
				widen_slots(e, x->value));
	case PUT_REDUCED:	/* each element is added to what a thread has */
		return often * map_slots(e, x) + cost_slots[COSTS_PLAIN];
	default:
		return often * map_slots(e, x);
	}
}

/* Of a result, or of a sum that it is added to. */
static double
root_slots(const struct epilogue *e, value_id v, bool adds)
{
	double store = access_slots(e, v);
	double round = bytes_of(e, v) < 4 ? cost_slots[COSTS_ROUND] : 0;

	return how_often(e, price_expr_by(e, ir_type(e->m, v))) *
	       (store + round +
		(adds ? store + widen_slots(e, v) +
			cost_slots[COSTS_PLAIN] : 0));
}

/* ---- a kernel ---- */

static void
widen_lanes(struct epilogue *e, value_id v, int64_t *widest)
{
	if (is_vector(e, v) && bytes_of(e, v) > *widest) {
		*widest = bytes_of(e, v);
	}
}

/* As many as make 16 bytes of the widest that lies along vectors: of sums in
 * f32, if those of a tile are read so. */
static void
set_lanes(struct epilogue *e)
{
	int64_t widest = e->by == PRICE_PUT_TEAMS ? 2 : 4;
	uint32_t i;

	for (i = 1; i < e->n; i++) {
		if (e->at[i].op == PUT_LOAD) {
			widen_lanes(e, e->at[i].value, &widest);
		}
	}
	for (i = 0; i < e->k->outputs.n; i++) {
		if (e->k->outputs.at[i].value) {
			widen_lanes(e, e->k->outputs.at[i].value, &widest);
		}
	}
	e->lanes = VECTOR_BYTES / (double)widest;
}

static void
count_uses(struct epilogue *e)
{
	uint32_t i;

	for (i = 1; i < e->n; i++) {
		e->at[e->at[i].a].uses++;
		e->at[e->at[i].b].uses++;
	}
}

/* The values that are stored, or added to a sum, one after the other. */
static value_id
root(const struct epilogue *e, uint32_t i, bool *adds)
{
	const struct kernel *k = e->k;
	const struct ir_node *n;

	if (i < k->outputs.n) {
		*adds = false;
		return k->outputs.at[i].value;
	}
	n = ir_node(e->m, k->nodes.at[i - k->outputs.n]);
	*adds = price_adds(n);
	return ir_is(n->op, IRF_SINK) && n->nargs ? ir_args(e->m, n)[0] : 0;
}

static double
nest_slots(struct epilogue *e)
{
	uint32_t roots = e->k->outputs.n + e->k->nodes.n, i;
	double slots = 0;
	bool adds;

	for (i = 0; i < roots; i++) {
		value_id v = root(e, i, &adds);

		e->at[v ? price_expr_of(e, v) : 0].uses++;
	}
	count_uses(e);
	set_lanes(e);
	for (i = 0; i < roots; i++) {
		value_id v = root(e, i, &adds);

		slots += v && price_is_stored(e, v)
			? root_slots(e, v, adds) : 0;
	}
	for (i = 1; i < e->n; i++) {
		slots += expr_slots(e, &e->at[i]);
	}
	return slots;
}

/* Whether an epilogue needs whole rows of the last dim, as rotations and
 * reductions do. */
static bool
needs_rows(const struct epilogue *e)
{
	bool whole = e->halves;
	uint32_t i;

	for (i = 0; i < e->k->nodes.n; i++) {
		whole |= ir_is(ir_node(e->m, e->k->nodes.at[i])->op,
			       IRF_ROWWISE);
	}
	return whole;
}

/* Columns that go through shared memory at a time. */
static double
part_cols(const struct epilogue *e)
{
	const struct ir_type *t = ir_type(e->m, e->dot->result);
	double most = (double)ir_most(e->m, ir_dim_size(e->m, e->last),
				      t->cut[t->ndims - 1]);
	double cols = e->paired ? PAIR_COLS : PART_COLS;

	return needs_rows(e) && most > cols ? most : cols;
}

/* The only node besides the contraction and casts; NULL: none, or several. */
static const struct ir_node *
only_other(const struct epilogue *e, uint32_t *others)
{
	const struct ir_node *one = NULL;
	uint32_t i;

	*others = 0;
	for (i = 0; i < e->k->nodes.n; i++) {
		const struct ir_node *n = ir_node(e->m, e->k->nodes.at[i]);
		bool counts = n != e->dot && n->op != IR_CAST &&
			      !ir_is(n->op, IRF_MOVES | IRF_SOURCE);

		if (counts && n->nargs == 2 && n->op == IR_ADD &&
		    (price_is_handed(e, ir_args(e->m, n)[0]) ||
		     price_is_handed(e, ir_args(e->m, n)[1]))) {
			continue;
		}
		one = counts ? n : one;
		*others += counts;
	}
	return *others == 1 ? one : NULL;
}

/* Whether it adds an operand that lies as the sums do, as a residual. */
static bool
adds_alike(const struct epilogue *e, const struct ir_node *n)
{
	const value_id *args = ir_args(e->m, n);
	const struct ir_type *t = ir_type(e->m, n->result);

	return n->op == IR_ADD && e->k->outputs.n == 1 &&
	       ir_elem_bytes(t->dtype) == 2 && args[0] != args[1] &&
	       ir_type_equal(t, ir_type(e->m, args[0])) &&
	       ir_type_equal(t, ir_type(e->m, args[1]));
}

static double
plain_slots(const struct epilogue *e)
{
	value_id v = e->k->outputs.n ? e->k->outputs.at[0].value : 0;

	return cost_slots[e->by != PRICE_PUT_TEAMS ? COSTS_PAIR
		: bytes_of(e, v ? v : e->dot->result) < 4 ? COSTS_BOX
		: COSTS_STORE];
}

/* Of what all threads of a block store or add from their registers; 0: it is
 * something else. */
static double
pairs_slots(const struct epilogue *e)
{
	uint32_t others;
	const struct ir_node *n = only_other(e, &others);

	if (e->k->nodes.n == 1) {
		return plain_slots(e);
	}
	return e->k->nodes.n == 2 && n && price_adds(n) &&
	       ir_type(e->m, e->dot->result)->dtype == IR_F32
		? cost_slots[COSTS_PAIR_ADD] : 0;
}

/* Of what needs no copy of the sums in shared memory; 0: it does. */
static double
direct_slots(const struct epilogue *e)
{
	uint32_t others;
	const struct ir_node *n = only_other(e, &others);

	if (e->by != PRICE_PUT_TEAMS) {
		return pairs_slots(e);
	}
	if (!others) {
		return plain_slots(e);
	}
	if (n && price_adds(n)) {
		return cost_slots[bytes_of(e, ir_args(e->m, n)[0]) < 4
			? COSTS_ADD_BOX : COSTS_ADD];
	}
	return n && adds_alike(e, n) ? cost_slots[COSTS_ADD_BOX] : 0;
}

/* Of one that runs in shared memory, on a part of a warp's sums. */
static double
teams_slots(struct epilogue *e)
{
	double part = cost_slots[COSTS_PART] * WARP / PART_ROWS /
		      (e->paired ? 2 : 1);

	return cost_slots[COSTS_COPY] + nest_slots(e) + part / part_cols(e);
}

/* On a whole tile of the threads of a block; or on its rows, each of which a
 * warp has, some of whose lanes may have no vector. */
static double
tile_slots(struct epilogue *e)
{
	double slots = nest_slots(e), each = e->lanes * (e->halves ? 2 : 1);
	double cols = bytes_of(e, ir_args(e->m, e->dot)[0]) == 1
		? EXPERTS_COLS_8 : EXPERTS_COLS;

	if (e->by == PRICE_PUT_TILES) {
		return cost_slots[COSTS_LINE] + slots +
		       cost_slots[COSTS_PLACE] / each;
	}
	return cost_slots[COSTS_LINE] + WARP / cols *
	       (cost_slots[COSTS_ROW] + ceil(cols / (WARP * each)) *
		(cost_slots[COSTS_PLACE] + slots * each));
}

static double
slots_of(struct epilogue *e)
{
	double direct = e->paired ? 0 : direct_slots(e);

	return direct > 0 ? direct
		: e->by == PRICE_PUT_TEAMS ? teams_slots(e) : tile_slots(e);
}

double
price_put_slots(struct ir_module *m, const struct kernel *k,
		enum price_putting by, bool shares)
{
	struct epilogue e;

	price_exprs_open(&e, m, k, by, shares);
	return slots_of(&e);
}

/* Sizes of the dims of the result along its columns; returns how many. */
static uint32_t
column_dims(const struct epilogue *e, int64_t size[IR_MAX_DIMS])
{
	const struct ir_type *t = ir_type(e->m, e->dot->result);
	const struct ir_factor *cols;
	uint32_t i, k, n = 0;
	struct ir_rule r;

	ir_bind(e->m, e->dot, &r);
	cols = ir_rule_factor(&r, "N");
	for (i = 0; i < t->ndims; i++) {
		for (k = 0; k < cols->n && cols->dims[k] != t->dims[i]; k++) {
		}
		if (k < cols->n) {
			size[n++] = ir_most(e->m, ir_dim_size(e->m, t->dims[i]),
					    t->cut[i]);
		}
	}
	return n;
}

/* Whether so many columns are a box of the result, with whole rows of its last
 * dim if these are needed. */
static bool
is_part(const struct epilogue *e, const int64_t *size, uint32_t n,
	int64_t part)
{
	int64_t last = n ? size[n - 1] : 1, left = part;
	uint32_t i = n;

	while (i > 1 && left % size[i - 1] == 0) {
		left /= size[--i];
	}
	return (i <= 1 || size[i - 1] % left == 0) &&
	       (!needs_rows(e) || part % last == 0 || (n == 1 && last <= part));
}

/* What passes while a warp of others waits for loads, in the largest part of a
 * tile's columns that is a box. */
static double
wait_slots(const struct epilogue *e)
{
	int64_t size[IR_MAX_DIMS], loads = 0;
	int64_t part = BESIDE_COLS / (e->paired ? 2 : 1);
	uint32_t n = column_dims(e, size), i;

	for (i = 1; i < e->n; i++) {
		loads += e->at[i].op == PUT_LOAD &&
			 is_vector(e, e->at[i].value);
	}
	while (part > PART_ROWS && !is_part(e, size, n, part)) {
		part /= 2;
	}
	return cost_wait_slots(loads, (int64_t)e->lanes, e->halves,
			       BESIDE_ROWS * part, COST_WARPS_THREADS);
}

double
price_warps_slots(struct ir_module *m, const struct kernel *k, bool shares)
{
	struct epilogue e;
	double slots;

	price_exprs_open(&e, m, k, PRICE_PUT_TEAMS, shares);
	e.rounded = true;
	if (bytes_of(&e, e.dot->result) != 2 ||
	    (!e.paired && direct_slots(&e) > 0)) {
		return 0;
	}
	slots = nest_slots(&e);
	return slots + wait_slots(&e);
}

bool
price_adds_boxes(struct ir_module *m, const struct kernel *k, bool shares)
{
	struct epilogue e;

	price_exprs_open(&e, m, k, PRICE_PUT_TEAMS, shares);
	return !e.paired && direct_slots(&e) == cost_slots[COSTS_ADD_BOX];
}

double
price_more_slots(struct ir_module *m, const struct kernel *k,
		 enum price_putting by, bool shares)
{
	struct epilogue e;
	double more;

	price_exprs_open(&e, m, k, by, shares);
	more = slots_of(&e) - plain_slots(&e);
	return more > 0 ? more : 0;
}
