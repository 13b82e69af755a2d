/*
 * Nests: loops around scalar expressions, for any back end.  nest.c makes
 * expressions and knows their facts, nest_pull.c turns nodes into them,
 * nest_rows.c those that sum over rows, nest_plan.c cuts what came out into
 * steps, and nest_steps.c makes a kernel of these.
 *
 * Every value is pulled at an index, an expression per dim, so a view is
 * nothing but another index.  Equal expressions are one, and each dim has its
 * loops whoever asks for it: what two results share is computed once.
 */
#ifndef CODEGEN_NEST_H
#define CODEGEN_NEST_H

#include "codegen/kernel.h"

#define NEST_LOOPS 64

typedef uint32_t nest_id;	/* of an expression; 0: none */

enum nest_kind { NEST_FLOAT, NEST_WIDE, NEST_INT, NEST_BOOL };

enum nest_op {
	NEST_NONE,
	NEST_NUM,		/* num, or i of INT */
	NEST_LOOP,		/* i: the loop whose index it is */
	NEST_FROM,		/* the first index of dim i % 8 in leaf
				 * i / 8 - 1, or the box */
	NEST_WORD,		/* word i of the pieces `ref` */
	NEST_CALL,		/* number `ref` of the call */
	NEST_LOAD,		/* element a of memory `ref` */
	NEST_ADD, NEST_SUB, NEST_MUL, NEST_DIV, NEST_REM,
	NEST_MIN, NEST_MAX,
	NEST_EXP, NEST_LOG, NEST_SQRT, NEST_TANH, NEST_SIGMOID, NEST_ERF,
	NEST_SIN, NEST_COS,	/* of WIDE; FLOAT */
	NEST_LT, NEST_LE, NEST_EQ, NEST_AND, NEST_NOT,
	NEST_PICK,		/* a ? b : c */
	NEST_CAST,		/* a, of another kind */
	NEST_KEEPS,		/* index a, key b, step c: with rate num */
	/* a, over the loops `over` */
	NEST_SUM, NEST_MOST, NEST_LEAST
};

struct nest_expr {
	uint8_t op, kind;
	uint16_t rank;		/* sums inside of sums that it waits for */
	uint16_t stage;		/* the step before which it is not known */
	uint32_t ref;
	nest_id a, b, c;
	double num;
	int64_t i;
	uint64_t over;
	uint64_t loops;		/* that it is different in */
};

struct nest_loop {
	int64_t size;
	int box;		/* dim of the box that it is all of, or -1 */
};

/* The loops of a dim: one, or two if pairs are half of it apart. */
struct nest_dim {
	dim_id dim;
	uint32_t cut;
	uint32_t loop[2], n;
	nest_id index;
	uint64_t mask;
};

enum nest_where { NEST_OPERAND, NEST_TEMP, NEST_LEAF, NEST_TABLE };

struct nest_memory {
	enum nest_where where;
	value_id value;		/* OPERAND; LEAF: of this value */
	node_id sink;		/* OPERAND */
	uint8_t dtype;
	bool written;
	uint32_t i;		/* temp, table */
};

/* f32 that one step leaves to later ones. */
struct nest_temp {
	int64_t elems;		/* of one partial sum */
	int64_t parts;		/* 0: no sum by parts */
	uint16_t stage;		/* that makes it */
	bool colls;
	bool most;		/* ranks take the largest, not the sum */
	uint32_t axes;
	int64_t offset;		/* in shared room */
};

/* Frequencies: numbers known now. */
struct nest_table {
	const double *at;
	int64_t n;
};

/* Something to be put into memory. */
struct nest_root {
	nest_id value, place;
	uint32_t memory;
	bool add;		/* to what is there */
	nest_id old;		/* 0 when it runs: there is nothing yet */
	bool part;		/* ... in this item's part of a temp */
	uint16_t stage;
	uint32_t rows[NEST_LOOPS], nrows;	/* loops, outermost first */
	uint32_t inner[NEST_LOOPS], ninner;
	uint64_t row_mask;
};

struct nest_memo {
	value_id value;
	uint64_t rows;
	nest_id at[IR_MAX_DIMS], made;
};

/* Numbers that a kernel is called with: as cg_num_kind. */
enum nest_number { NEST_N_STEP, NEST_N_KEY, NEST_N_AT, NEST_N_OLD };

/* A value that lies in a room: of dims by number. */
struct nest_leaf {
	value_id value;
	bool moved[IR_MAX_DIMS];	/* it begins elsewhere */
	int64_t stride[IR_MAX_DIMS];
};

/* Part `part` of what a node knows of its rows, for all rows. */
struct nest_known {
	node_id node;
	uint32_t part, memory;
};

/* What it is made for. */
struct nest_input {
	struct ir_module *m;
	struct arena *a;
	const struct kernel *k;
	const node_id *nodes;
	uint32_t nnodes;
	const struct nest_leaf *leaves;
	uint32_t nleaves;
	const struct ir_type *box;	/* NULL: whole steps */
	bool moves[IR_MAX_DIMS];	/* the box may begin elsewhere */
	const uint32_t *at;	/* a rank that has these sizes */
	value_id only;		/* put this into a temp, and no more */
	bool bare;		/* no roots: the caller pulls */
	bool stores;		/* asks whether a sum begins: NEST_N_OLD */
	int64_t parts;		/* of sums over rows, at most; 0: a CPU's */
	/* what the kernel is called with */
	uint32_t (*pieces)(void *user, int64_t size, uint32_t cut);
	uint32_t (*number)(void *user, enum nest_number kind, uint32_t node);
	void *user;
};

struct nest {
	struct nest_input in;
	/* nest_pull: of files that it calls, and that call it */
	nest_id (*value_at)(struct nest *n, value_id v, const nest_id *at);
	bool wide;		/* single numbers, in f64 */
	uint64_t rows;		/* loops of the root at hand */
	const char *why;	/* it cannot be done */
	VEC(struct nest_loop) loops;
	VEC(struct nest_dim) dims;
	VEC(struct nest_expr) exprs;
	struct table by_hash;	/* exprs */
	VEC(struct nest_memory) memory;
	VEC(struct nest_temp) temps;
	VEC(struct nest_table) tables;
	VEC(struct nest_root) roots;
	VEC(struct nest_memo) memos;
	VEC(struct nest_known) known;
};

/* Loops and what is summed up or put away in them. */
struct nest_pass {
	uint32_t loops[NEST_LOOPS], nloops;
	VEC(nest_id) sums;
	VEC(uint32_t) roots;
};

/* Roots of one stage over the same rows. */
struct nest_step {
	uint16_t stage;
	uint32_t rows[NEST_LOOPS], nrows;
	int64_t size[NEST_LOOPS];	/* by place in rows */
	int64_t nrow;		/* rows that items share */
	int64_t nitems, per;	/* rows in an item, but the last */
	bool row_lanes;		/* vectors run along the last row loop */
	bool parts;
	VEC(uint32_t) roots;
	VEC(struct nest_pass) passes;
};

/* ---- nest.c ---- */

nest_id nest_num(struct nest *n, double v);
nest_id nest_int(struct nest *n, int64_t v);
nest_id nest_unary(struct nest *n, enum nest_op op, nest_id a);
nest_id nest_binary(struct nest *n, enum nest_op op, nest_id a, nest_id b);
nest_id nest_select(struct nest *n, nest_id cond, nest_id yes, nest_id no);
nest_id nest_cast(struct nest *n, nest_id a, enum nest_kind kind);
/* Any; loops, rank, stage are found. */
nest_id nest_make(struct nest *n, struct nest_expr e);
nest_id nest_reduce(struct nest *n, enum nest_op op, nest_id a,
		    uint64_t over);
static inline const struct nest_expr *
nest_at(const struct nest *n, nest_id e)
{
	return &n->exprs.at[e];
}

/* base + sum of coef[loop] * index + sum of scale * rest. */
struct nest_affine {
	int64_t base;
	int64_t coef[NEST_LOOPS];
	uint64_t loops;		/* that have a coef */
	struct {
		nest_id e;
		int64_t scale;
	} rest[8];
	uint32_t nrest;
};
/* An INT; what is not affine is in `rest`. */
void nest_affine(const struct nest *n, nest_id e, struct nest_affine *out);

/* The loops of a dim that is cut so, and its index. */
const struct nest_dim *nest_dim(struct nest *n, dim_id d, uint32_t cut);
int64_t nest_local_size(const struct nest *n, dim_id d, uint32_t cut);
uint32_t nest_loop(struct nest *n, int64_t size, int box);
/* Loops of the type's dims in order. */
uint32_t nest_type_loops(struct nest *n, const struct ir_type *t,
			 uint32_t *loops);
/* How many parts sums over so many rows have; as nest_input.parts. */
int64_t nest_parts(int64_t rows, int64_t most);
uint32_t nest_memory(struct nest *n, struct nest_memory m);
/* The position in the whole dim of a place, and back; -1: not here. */
nest_id nest_position(struct nest *n, dim_id d, uint32_t cut, nest_id place);
nest_id nest_place(struct nest *n, dim_id d, uint32_t cut, nest_id position);
/* 0 <= e < size. */
nest_id nest_within(struct nest *n, nest_id e, nest_id size);
/* v, or 0 where the place is -1. */
nest_id nest_if_placed(struct nest *n, nest_id place, nest_id v);

/* ---- nest_env.c ---- */

/* Dims and where to look in them. */
struct nest_env {
	uint32_t n;
	dim_id dim[3 * IR_MAX_DIMS];
	nest_id at[3 * IR_MAX_DIMS];
};

void nest_env_bind(struct nest_env *env, dim_id d, nest_id at);
void nest_env_init(const struct nest *n, value_id v, const nest_id *at,
		   struct nest_env *env);
/* The place of an element of a tensor that is here, row-major. */
nest_id nest_offset(struct nest *n, const struct ir_type *t,
		    const nest_id *at);
/* The index that a dim is bound to; 0: none. */
nest_id nest_env_at(const struct nest_env *env, dim_id d);
/* Operand k of the node, its index found by the names of dims. */
nest_id nest_operand(struct nest *n, const struct ir_node *node, uint32_t k,
		     const struct nest_env *env);

/* ---- nest_pull.c ---- */

/* The value at an index; 0: n->why. */
nest_id nest_pull(struct nest *n, value_id v, const nest_id *at);

/* ---- nest_rows.c ---- */

/* A node that sums over dims; 0: n->why. */
nest_id nest_rowwise(struct nest *n, const struct ir_node *node,
		     const nest_id *at);
/* Whether nest_rowwise is for it. */
bool nest_is_rowwise(const struct ir_node *node);

/* ---- nest_topk.c ---- */

nest_id nest_topk(struct nest *n, const struct ir_node *node,
		  const struct nest_env *env, const struct ir_rule *r,
		  nest_id which);

/* ---- nest_scatter.c ---- */

/* A sum of rows by index: row by row, column by column, to places. */
struct nest_scatter {
	struct nest *n;		/* its roots: where a sum is put */
	const struct ir_node *node;
	int64_t rows, places, cols;
	uint32_t row, place;	/* loops */
	uint32_t col[NEST_LOOPS], ncols;
	nest_id x, to;		/* an element; the place it goes to, or -1 */
	bool all;		/* every place is written */
};

/* Whether it is one such sum, over a dim that is not short, and its sinks. */
bool nest_is_scatter(struct ir_module *m, const node_id *nodes,
		     uint32_t nnodes);
/* Of a nest that was built bare.  False: n->why. */
bool nest_scatter(struct nest *n, struct nest_scatter *s);

/* ---- nest_plan.c ---- */

/* False: *why. */
bool nest_build(struct nest *n, const struct nest_input *in,
		const char **why);
struct nest_steps {
	VEC(struct nest_step) at;
};
/* The steps in running order; temps talk behind those of their stage. */
void nest_make_steps(struct nest *n, struct nest_steps *out);

/* ---- nest_steps.c ---- */

/* Whose kernel it is, and that what it asks about is the kernel's. */
void nest_input_site(struct nest_input *in, const struct cg_site *s);
/* Rooms of temps, and all steps and talks in order: `step` writes one. */
void nest_emit(struct nest *n, struct cg_kernel *out,
	       void (*step)(void *user, struct nest *n,
			    const struct nest_step *s), void *user);
/* Bytes into shared room: the temp of in.only, when all is emitted. */
int64_t nest_value_offset(const struct nest *n);

/* ---- nest_scope.c: what an emitter has made ---- */

/* Values of expressions in the scope at hand of the code being emitted. */
struct nest_scope {
	const struct nest *n;
	struct arena *a;
	void **made;		/* by expression: C text, or a value of LLVM */
	VEC(nest_id) order;	/* expressions that have one */
	uint32_t *seen, stamp;	/* by expression: the walk that last met it */
	/* emits an expression here, and calls nest_scope_set */
	void (*make)(void *user, nest_id id);
	void *user;
};

void nest_scope_init(struct nest_scope *s, const struct nest *n,
		     struct arena *a, void (*make)(void *user, nest_id id),
		     void *user);
void nest_scope_set(struct nest_scope *s, nest_id id, void *made);
/* Leaves a scope in which order.n was `since` at its beginning. */
void nest_scope_leave(struct nest_scope *s, uint32_t since);
/* Loop-invariant code motion: emits here what the roots, or the pass, need that
 * does not change in `loops`, the loops about to be opened. */
void nest_scope_hoist_roots(struct nest_scope *s, const uint32_t *roots,
			    uint32_t nroots, uint64_t loops);
void nest_scope_hoist_pass(struct nest_scope *s, const struct nest_pass *p,
			   uint64_t loops);

#endif
