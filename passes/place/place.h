/*
 * Private header of pass `place`: place.c and its parts place_*.c share it.
 * place_dims.c finds the dims that an axis may split, place_cost.c prices the
 * options, place_solve.c chooses along one axis, place_write.c inserts
 * conversions.
 */
#ifndef PASSES_PLACE_H
#define PASSES_PLACE_H

#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "passes/price/cost.h"

/*
 * Rates of the target along the axis at hand, in microseconds: a price is a
 * constant plus a rate times a size.
 */
struct place_rates {
	/* of a collective: of the first byte, and of each */
	double start_us[COST_NOPS], byte_us[COST_NOPS];
	double flop_us[TARGET_NRATES];	/* by type of operands */
	double memory_us;	/* of a byte that is read or written */
	double held_us;		/* of a byte from forward to backward */
};

/*
 * Prices in microseconds.  `bytes` is what one rank has of a value if the value
 * is whole along the axis; `ranks` is the axis's length.
 */
struct place_price {
	double (*convert)(const struct place_price *p, enum ir_op op,
			  double bytes, double ranks);
	/* An op in which each rank sends `bytes` to each other rank. */
	double (*coll)(const struct place_price *p, double bytes,
		       double ranks);
	double (*run)(const struct place_price *p, enum target_rate rate,
		      double flops, double bytes);
	/* Keeping `bytes` in memory from forward to backward. */
	double (*held)(const struct place_price *p, double bytes);
	struct place_rates rates;
	bool joined;		/* collectives of an update share few calls */
	uint64_t seed;		/* of random prices, used by tests */
	uint32_t *drawn;	/* how many so far */
};

/* What the axis is for; PLACE_TIME: microbatches. */
enum place_kind {
	PLACE_TIME, PLACE_CONTEXT, PLACE_TENSOR, PLACE_DATA, PLACE_EXPERT
};

/*
 * The placement of a value along one axis as a byte (a slot): for a split,
 * PLACE_SPLIT plus the index of the dim.
 */
enum {
	PLACE_WHOLE,
	PLACE_SPLIT,		/* by its first dim; + i: by dim i */
	PLACE_PART = PLACE_SPLIT + IR_MAX_DIMS,
	PLACE_ROUTED,
	PLACE_SLOTS
};

/*
 * A list of slots: four bits each hold slot + 1, the first one lowest; 0 ends
 * it.
 */
typedef uint64_t place_list;

static inline place_list
place_list_add(place_list list, uint32_t n, uint32_t slot)
{
	return list | (place_list)(slot + 1) << 4 * n;
}

/* Values in one class have the same options along every axis. */
struct place_like {
	uint8_t ndims;
	bool real;
	bool weight;		/* computed from weights alone */
	bool picked;		/* experts: an index picks from it */
	bool returns;		/* each row has one rank to return to */
	bool routable;		/* an op can take it routed */
	bool many;		/* it has several uses */
	bool update;		/* made in a function run once a step */
	dim_id dims[IR_MAX_DIMS];
	uint64_t grouped;	/* dims in groups, a bit each */
};

struct place_way {
	uint8_t in[IR_MAX_OPERANDS], out;
	bool colls;
};

/*
 * The ways of a node.  `at` is NULL if they are not known yet or differ between
 * axes.
 */
struct place_ways {
	const struct place_way *at;
	uint32_t n;
};

/* Ways that equal nodes share, for ops whose ways no axis changes. */
struct place_like_ways {
	struct hash hash;
	struct place_ways ways;
};

enum place_cell { CELL_STORED, CELL_GRADIENT, CELL_STASH, CELL_KINDS };

/* What outlives a region: everything read or written by one name. */
struct place_named {
	enum place_cell kind;
	uint32_t weight;	/* cell of the weight it belongs to, or 0 */
	value_id param;		/* the value of a used weight, or 0 */
	bool picked;		/* experts: an index picks from it */
};

/*
 * A conversion's code: none, an impossible one, or an op (PLACE_STEPS on).
 * Code k * PLACE_CODES + c is the cheaper of c and the k-th op that does not
 * communicate.
 */
enum {
	PLACE_FREE, PLACE_NEVER, PLACE_STEPS, PLACE_CODES = 16,
	PLACE_PRICES = 4 * PLACE_CODES
};

/* A set of dims: one bool per dim_id, as 64 bits are too few. */
typedef bool *dim_set;

/* How a node runs along an axis, as bits. */
enum { RUNS_SPLIT = 1, RUNS_COMM = 2 };

/* What the program alone determines, whatever the plan and the axis. */
struct place_facts {
	struct arena *arena;	/* all facts are allocated in it */
	double *bytes;		/* by value: of the whole tensor */
	bool *weight;		/* by value: computed from weights alone */
	bool groups;		/* some value has dims in groups */
	double *flops;		/* by node, undivided; < 0: not yet known */
	struct place_ways *ways;	/* by node: if the same on every axis */

	/* place_like.c */
	uint32_t *uses;		/* by value, in reachable code */
	uint32_t *like;		/* its class, by value */
	VEC(struct place_like) likes;
	struct table known;
	VEC(struct place_like_ways) known_ways;	/* by entry of `known` */
	uint32_t *cell;		/* by node: the cell it accesses, or 0 */
	VEC(struct place_named) cells;

	/* place_dims.c */
	dim_id batch;
	dim_set context;	/* sequence dims of attention */
	dim_set experts;	/* expert dims of indexed contractions */
	dim_set tensor;		/* dims that the tensor axis may split */
	dim_set grouped;	/* key heads: axis `tpr` may not split them */
	bool *picked;		/* by value: an index picks from it */

	/* place_route.c */
	/* by value: the index that can return its rows, if available */
	value_id *route;
	value_id *sent_by;	/* by value: the index it was routed by */
};

struct program;
struct choice;

/* A cached change of a type along an axis, since many values share one type. */
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
	double steps;		/* microbatches for which it is priced */
	/*
	 * NULL: all that is placed is priced.  Else, for a lower bound, only
	 * regions that are set, and of communication the part `shown`, or
	 * `waited` where each rank sends to each other one.
	 */
	const bool *counted;
	double shown, waited;
	struct arena arena;	/* lives as long as the pass */
	struct arena scratch;	/* for one axis */
	func_id model;
	uint32_t nnodes, nvalues;	/* before conversions are added */
	struct ir_reached reached;	/* also before */
	struct place_facts *facts;
	/*
	 * `leads`: a conversion's code by ir_how of both sides; `step`: its op.
	 */
	uint8_t leads[IR_IS_ROUTED + 1][IR_IS_ROUTED + 1];
	enum ir_op step[PLACE_CODES];
	uint32_t ncodes;
	/* codes of local ops, from 1 */
	uint8_t quiet[PLACE_PRICES / PLACE_CODES];
	uint32_t nquiet;

	/* the axis at hand */
	axis_id axis;
	enum place_kind kind;
	int64_t ranks;
	/* for how many ranks it is priced: see place_rates.c */
	double length;
	double lengths[IR_MAX_AXES + 1];	/* the same of axes so far */
	bool strict;		/* split weights may not be gathered */
	dim_set may;		/* dims that the axis may split */
	dim_set late;		/* the same in functions run once a step */
	uint8_t *runs;		/* by node: RUNS_... */

	/* what has been chosen along the axes so far */
	double *spread;		/* by value: ranks that it is split over */
	double *asked;		/* by value: the most that a use of it wants */
	double *shared;		/* by node: ranks that divide its work */
	uint32_t *colls;	/* by node: axes it communicates on, as bits */
	struct hash chosen;	/* memo key: the program and all choices */
	/* in the memo; NULL: there is no memo */
	struct program *program;
	/*
	 * Placements that are needed: by index in m->args; by region and its
	 * result.
	 */
	type_id *wants, **yields;
	struct place_turn *turns;	/* a hashed cache */
};

/* ---- place_dims.c ------------------------------------------------------ */

/* Finds the dims. */
void place_find_dims(struct place *p);
/* False after an error: tp > 1, and no dim of a weight can be split. */
bool place_check_dims(struct place *p);
/* Sets axis, kind, ranks, strict, may, late. */
void place_choose_axis(struct place *p, axis_id a, enum place_kind kind,
		       bool second);
/*
 * The dim by which ZeRO splits a tensor of this type; 0: none.  It is the one
 * of which earlier axes leave most, for as many ranks as they are priced for.
 */
dim_id place_zero_dim(const struct place *p, const struct ir_type *t);

/* ---- place_route.c ----------------------------------------------------- */

void place_find_routes(struct place *p);
/* The operand that is an index of experts, or -1. */
int place_index_operand(const struct ir_node *n);
/* Whether v has all dims of the index that could return its rows. */
bool place_can_return(const struct place *p, value_id v);
/* Whether one index routed all routed operands of this way. */
bool place_one_route(const struct place *p, const struct ir_node *n,
		     const struct place_way *w);

/* ---- place_like.c ------------------------------------------------------ */

/* These need weights and routes to be known. */
void place_find_likes(struct place *p);
void place_find_cells(struct place *p);
static inline const struct place_like *
place_like(const struct place *p, value_id v)
{
	return &p->facts->likes.at[p->facts->like[v]];
}
struct ir_along place_along(const struct place_like *l, uint32_t slot);
uint32_t place_slot(const struct place_like *l, struct ir_along s);
/* Slots that the axis allows: as bits, and those of a value as a list. */
uint32_t place_open(const struct place *p, const struct place_like *l);
place_list place_all(const struct place *p, const struct place_like *l);
enum place_cell place_cell_kind(enum ir_op op);
/* Whether operand k may be routed: it is not the index of experts. */
bool place_can_route(enum ir_op op, uint32_t k);
/* All ways of a node along the axis at hand. */
struct place_ways place_ways(struct place *p, node_id id);

/* ---- place_rates.c ----------------------------------------------------- */

/* Sets p->steps. */
void place_set_steps(struct place *p);
/* Sets p->length and the rates of the axis at hand. */
void place_set_rates(struct place *p);

/* ---- place_cost.c ------------------------------------------------------ */

/* Sets the price functions; they are random if `place.shuffle` is set. */
void place_price_init(struct place *p);
/* Finds the bytes of values, and which are weights. */
void place_find_bytes(struct place *p);
/* The code of the conversion from slot `from` to slot `to`. */
uint8_t place_step(const struct place *p, const struct place_like *l,
		   uint32_t from, uint32_t to, bool routable);
/* Bytes of v that one rank converts, if v is whole along the axis. */
double place_moved(const struct place *p, value_id v);
/*
 * `step` or, if cheaper, a conversion from slot `third` that does not
 * communicate.
 */
uint8_t place_step_or(const struct place *p, const struct place_like *l,
		      uint8_t step, uint32_t third, uint32_t to,
		      bool routable);
/* Prices of all codes, `times` times. */
void place_steps(const struct place *p, double bytes, double times,
		 double price[PLACE_PRICES]);
/* The price of the node in each of n ways. */
void place_runs(const struct place *p, node_id id, const struct place_way *w,
		uint32_t n, double *price);
/* The price of keeping v placed as s. */
double place_held(const struct place *p, value_id v, struct ir_along s);

/* ---- place_solve.c ----------------------------------------------------- */

/* Chooses along the axis at hand; writes types, wants and yields. */
bool place_solve(struct place *p);
/* The least price along the axis at hand; 0: not known. */
double place_least_us(struct place *p);

/* ---- place_take.c ------------------------------------------------------ */

/* Sets the type's placement along the axis at hand; it was whole before. */
void place_set(const struct place *p, type_id *t, struct ir_along s);
/* Allocates the cache of types. */
void place_open_turns(struct place *p);
/* Adds `runs` of the axis at hand to `shared` and `colls`. */
void place_add_runs(struct place *p);

/* ---- place_memo.c ------------------------------------------------------ */

/* Finds the facts, and what the memo has of this program.  Call it first. */
void place_find_program(struct place *p);
/* Applies a choice remembered for the axis at hand; false: there is none. */
bool place_recall(struct place *p);
/* A bound remembered for the axis at hand; NULL: there is none. */
const double *place_recall_least(const struct place *p);
void place_remember_least(const struct place *p, double us);
/* Keeps a choice of `count` variables; forced: prices had no influence. */
void place_remember(struct place *p, uint32_t count, bool forced);
/* Problems kept of this program, newest first; NULL if none can be kept. */
struct choice **place_shapes(struct place *p);
/* In how many parts rows in groups may be split; 0: there are none. */
int64_t place_parts(const struct place *p);

/* ---- place_write.c ----------------------------------------------------- */

/* Inserts conversions where a use needs another placement; sets `on`. */
bool place_write(struct place *p);

#endif
