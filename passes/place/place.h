/*
 * Between place.c and its parts, place_*.c: nobody else includes this.
 * place_dims.c says what an axis may split, place_cost.c what that costs,
 * place_solve.c chooses along one axis, place_write.c writes conversions.
 */
#ifndef PASSES_PLACE_H
#define PASSES_PLACE_H

#include "passes/pass.h"
#include "passes/plan/plan.h"

/*
 * What things cost, in any one unit.  Bytes are those of one rank, of the
 * value as it is whole along the axis; ranks is the size of the axis.
 */
struct place_price {
	double (*convert)(const struct place_price *p, enum ir_op op,
			  double bytes, int64_t ranks);
	/* An op that exchanges so many bytes with each other rank. */
	double (*coll)(const struct place_price *p, double bytes,
		       int64_t ranks);
	double (*run)(const struct place_price *p, double flops,
		      double bytes);
	/* Keeping them from the forward iteration to the backward one. */
	double (*held)(const struct place_price *p, double bytes);
	uint64_t seed;		/* of prices drawn at random, for tests */
	uint32_t *drawn;	/* how many so far */
};

/* What the choice along an axis is about. */
enum place_kind {
	PLACE_TIME, PLACE_CONTEXT, PLACE_TENSOR, PLACE_DATA, PLACE_EXPERT
};

/*
 * How a value is along an axis, as a byte: the number of the dim that it is
 * split by.
 */
enum {
	PLACE_WHOLE,
	PLACE_SPLIT,		/* by its first dim, and so on */
	PLACE_PART = PLACE_SPLIT + IR_MAX_DIMS,
	PLACE_ROUTED,
	PLACE_SLOTS
};

/* A list of them, four bits each and one more, from the lowest; 0 ends it. */
typedef uint64_t place_list;

static inline place_list
place_list_add(place_list list, uint32_t n, uint32_t slot)
{
	return list | (place_list)(slot + 1) << 4 * n;
}

/* Values of which the same may be made along any axis. */
struct place_like {
	uint8_t ndims;
	bool real;
	bool weight;		/* made of weights alone */
	bool picked;		/* an index picks weights from it */
	bool returns;		/* each row comes back from one rank */
	bool routable;		/* someone can route it */
	bool many;		/* several use it */
	bool update;		/* it is made in a layer that runs once */
	dim_id dims[IR_MAX_DIMS];
};

struct place_way {
	uint8_t in[IR_MAX_OPERANDS], out;
	bool colls;
};

/* Of a node; NULL: not yet known, or another axis may have others. */
struct place_ways {
	const struct place_way *at;
	uint32_t n;
};

/* Of nodes that are alike: they are the same along every axis. */
struct place_like_ways {
	struct hash hash;
	struct place_ways ways;
};

enum place_cell { CELL_STORED, CELL_GRADIENT, CELL_STASH, CELL_KINDS };

/* What outlasts a region: all that is read and written by one name. */
struct place_named {
	enum place_cell kind;
	uint32_t weight;	/* the cell that it belongs to, or 0 */
	value_id param;		/* of a weight that is used, or 0 */
	bool picked;		/* an index picks weights from it */
};

/*
 * What a price is of: nothing, what cannot be, or a conversion from here on.
 * So many further on, and so on: of that and some step in which no rank waits
 * for another, the cheaper one.
 */
enum {
	PLACE_FREE, PLACE_NEVER, PLACE_STEPS, PLACE_CODES = 16,
	PLACE_PRICES = 4 * PLACE_CODES
};

/* A set of dims, one bit each would be too few: by dim_id. */
typedef bool *dim_set;

/* How a node runs along an axis. */
enum { RUNS_SPLIT = 1, RUNS_COMM = 2 };

/* What follows from the program alone, whatever the plan and the axis. */
struct place_facts {
	struct arena *arena;	/* lives as long as they do */
	double *bytes;		/* by value: of all of it */
	bool *weight;		/* by value: made of weights alone */
	double *flops;		/* by node, of all of it; < 0: not yet known */
	struct place_ways *ways;	/* by node: those of every axis */

	/* place_like.c */
	uint32_t *uses;		/* by value: in what functions reach */
	uint32_t *like;		/* by value; 0: of none */
	VEC(struct place_like) likes;
	struct table known;
	VEC(struct place_like_ways) known_ways;	/* by entry of it */
	uint32_t *cell;		/* by node: what it reads or writes, or 0 */
	VEC(struct place_named) cells;

	/* place_dims.c */
	dim_id batch;
	dim_set context;	/* dims along which attention runs */
	dim_set experts;	/* dims that an index picks weights from */
	dim_set tensor;		/* dims that the tensor axis may split */
	dim_set grouped;	/* k of h%k: not for the second tensor axis */
	bool *picked;		/* by value: an index picks weights from it */

	/* place_route.c */
	value_id *route;	/* by value: the index that may bring its rows
				 * back, if it is at hand */
	value_id *sent_by;	/* by value: the index, where it was made */
};

struct program;
struct choice;

/* What a type becomes along an axis: many values take the same turn. */
struct place_turn {
	type_id from, to;
	axis_id axis;
	struct ir_along at;
};

struct place {
	struct pass_ctx *p;
	struct ir_module *m;
	const struct plan *plan;
	struct place_price price;
	struct arena arena;	/* lives as long as the pass */
	struct arena scratch;	/* for one axis */
	func_id model;
	uint32_t nnodes, nvalues;	/* before conversions are made */
	struct ir_reached reached;	/* then, too */
	struct place_facts *facts;
	/* by enum ir_how of either side: its code; and the op by code */
	uint8_t leads[IR_IS_ROUTED + 1][IR_IS_ROUTED + 1];
	enum ir_op step[PLACE_CODES];
	uint32_t ncodes;
	uint8_t quiet[PLACE_PRICES / PLACE_CODES];	/* from 1: such steps */
	uint32_t nquiet;

	/* the axis at hand */
	axis_id axis;
	enum place_kind kind;
	int64_t ranks;
	bool strict;		/* split weights stay where they are */
	dim_set may;		/* dims that it may split */
	dim_set late;		/* the same, in layers that run once a step */
	uint8_t *runs;		/* by node: RUNS_... */

	/* what has been chosen along the axes so far */
	double *spread;		/* by value: ranks that share it */
	double *asked;		/* by value: the same of what users want */
	double *shared;		/* by node: ranks that share its work */
	uint32_t *colls;	/* by node: axes it communicates along */
	struct hash chosen;	/* of the program and all of it: a key */
	struct program *program;	/* in the memo; NULL: none is kept */
	/* by place in the pool of operands; by region, what it hands back */
	type_id *wants, **yields;
	struct place_turn *turns;	/* the last ones */
};

/* ---- place_dims.c ------------------------------------------------------ */

/* Of the program. */
void place_find_dims(struct place *p);
/* False after an error: the plan asks for what no dim allows. */
bool place_check_dims(struct place *p);
/* Sets axis, kind, ranks and may. */
void place_choose_axis(struct place *p, axis_id a, enum place_kind kind,
		       bool second);
/* The dim along which ZeRO cuts a tensor that is placed so; 0: none. */
dim_id place_zero_dim(const struct place *p, const struct ir_type *t);

/* ---- place_route.c ----------------------------------------------------- */

void place_find_routes(struct place *p);
/* The operand that is an index of experts, or -1. */
int place_index_operand(const struct ir_node *n);
/* Whether each row of the value has one rank that it comes back from. */
bool place_can_return(const struct place *p, value_id v);
/* Whether all rows that meet in this way were sent by one index. */
bool place_one_route(const struct place *p, const struct ir_node *n,
		     const struct place_way *w);

/* ---- place_like.c ------------------------------------------------------ */

/* Of the program, once its weights and routes are known. */
void place_find_likes(struct place *p);
void place_find_cells(struct place *p);
static inline const struct place_like *
place_like(const struct place *p, value_id v)
{
	return &p->facts->likes.at[p->facts->like[v]];
}
struct ir_along place_along(const struct place_like *l, uint32_t slot);
uint32_t place_slot(const struct place_like *l, struct ir_along s);
/* The axis may leave them so, a bit each; and what there is, in order. */
uint32_t place_open(const struct place *p, const struct place_like *l);
place_list place_all(const struct place *p, const struct place_like *l);
enum place_cell place_cell_kind(enum ir_op op);
/* Marks what may be routed: operands beside an index of experts. */
bool place_can_route(enum ir_op op, uint32_t k);
/* All ways of a node along the axis at hand. */
struct place_ways place_ways(struct place *p, node_id id);

/* ---- place_cost.c ------------------------------------------------------ */

/* Bytes, operations, conversions; random if `place.shuffle` is set. */
void place_price_init(struct place *p);
/* Of the program: bytes, and which values are weights. */
void place_find_bytes(struct place *p);
/* What makes the one out of the other, in one step; or why none has to. */
uint8_t place_step(const struct place *p, const struct place_like *l,
		   uint32_t from, uint32_t to, bool routable);
/* Of a value on one rank, if whole along the axis, to whoever converts it. */
double place_moved(const struct place *p, value_id v);
/* That, or what makes the one out of something third, if it is cheaper. */
uint8_t place_step_or(const struct place *p, const struct place_like *l,
		      uint8_t step, uint32_t third, uint32_t to,
		      bool routable);
/* What each of these takes, so many times. */
void place_steps(const struct place *p, double bytes, double times,
		 double price[PLACE_PRICES]);
/* What the node takes in each of those ways. */
void place_runs(const struct place *p, node_id id, const struct place_way *w,
		uint32_t n, double *price);
/* Of a value that is saved so. */
double place_held(const struct place *p, value_id v, struct ir_along s);

/* ---- place_solve.c ----------------------------------------------------- */

/* Chooses along the axis at hand, and writes it into types and wants. */
bool place_solve(struct place *p);

/* ---- place_take.c ------------------------------------------------------ */

/* Along the axis at hand, which is new to the type: till now it is whole. */
void place_set(const struct place *p, type_id *t, struct ir_along s);
/* Memory for the order of all axes. */
void place_open_turns(struct place *p);
/* Counts what nodes do along the axis at hand into what they share. */
void place_add_runs(struct place *p);

/* ---- place_memo.c ------------------------------------------------------ */

/* Before all else: the facts, and what is kept of who placed this program. */
void place_find_program(struct place *p);
/* Whether the same was chosen before along the axis at hand: then it is. */
bool place_recall(struct place *p);
/* What was chosen, of so many variables; forced: by no price. */
void place_remember(struct place *p, uint32_t count, bool forced);
/* What was posed of the program; or NULL: ids are not those of others. */
struct choice **place_shapes(struct place *p);

/* ---- place_write.c ----------------------------------------------------- */

/* Inserts a conversion where a value and its user differ, and sets `on`. */
bool place_write(struct place *p);

#endif
