/*
 * The manual of codegen/nest/: loop nests around scalar expressions, for any
 * back end.  cpu/ and cuda/ call it; it may use ir/, passes/kernels and
 * kernel.h, and has no machine's code in it. nest.c makes expressions,
 * nest_pull.c turns nodes into them, nest_rows.c those that reduce rows,
 * nest_roots.c says what is stored, nest_plan.c groups that into steps, and
 * nest_steps.c makes a kernel of these.  A back end writes the steps, with
 * nest_scope.c.
 *
 * Every value is pulled at an index, which is one expression per dim, so a
 * view is no more than another index.  Equal expressions are one, and each dim
 * has one set of loops for all results: what two results share is computed
 * once.
 */
#ifndef CODEGEN_NEST_H
#define CODEGEN_NEST_H

#include "codegen/kernel.h"

#define NEST_LOOPS 64		/* most loops of a nest: bits of a mask */

typedef uint32_t nest_id;	/* an expression; 0: none */

enum nest_kind { NEST_FLOAT, NEST_WIDE, NEST_INT, NEST_BOOL };

enum nest_op {
	NEST_NONE,
	NEST_NUM,		/* the number num; of INT: i */
	NEST_LOOP,		/* the index of loop i */
	/* the first index of dim i % 8 in leaf i / 8 - 1; for i < 8, in the
	 * box */
	NEST_FROM,
	NEST_WORD,		/* word i of the shard `ref`: rt_pieces */
	NEST_CALL,	/* number `ref` that the kernel is called with */
	NEST_LOAD,		/* element a of memory `ref` */
	NEST_ADD, NEST_SUB, NEST_MUL, NEST_DIV, NEST_REM,
	NEST_MIN, NEST_MAX,
	NEST_EXP, NEST_LOG, NEST_SQRT, NEST_TANH, NEST_SIGMOID, NEST_ERF,
	NEST_SIN, NEST_COS,	/* of a WIDE number; the result is FLOAT */
	NEST_LT, NEST_LE, NEST_EQ, NEST_AND, NEST_NOT,
	NEST_PICK,		/* a ? b : c */
	NEST_CAST,		/* a, converted to another kind */
	/* dropout: whether element a, of key b in step c, is kept at rate
	 * num */
	NEST_KEEPS,
	/* reductions of a over the loops `over` */
	NEST_SUM, NEST_MOST, NEST_LEAST
};

struct nest_expr {
	uint8_t op, kind;
	uint16_t rank;		/* how many reductions deep it is */
	uint16_t stage;	/* the first stage in which it can be computed */
	uint32_t ref;
	nest_id a, b, c;
	double num;
	int64_t i;
	uint64_t over;
	uint64_t loops;		/* loops that it depends on */
};

struct nest_loop {
	int64_t size;
	/* the dim of the box that it covers; -1: none; -2: partial sums */
	int box;
};

/* The loops of a dim: one, or two (halves, and places in a half) if rotations
 * pair elements half of the dim apart. */
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
	value_id value;		/* of OPERAND and LEAF */
	node_id sink;		/* of OPERAND */
	uint8_t dtype;
	bool written;
	uint32_t i;		/* index of a temp or a table */
};

/* f32 numbers in shared scratch that one step writes for later steps. */
struct nest_temp {
	int64_t elems;		/* numbers of one partial sum */
	int64_t parts;		/* partial sums; 0: it holds results */
	uint16_t stage;		/* the stage that writes it */
	bool colls;
	bool most;	/* a collective takes the maximum, not the sum */
	uint32_t axes;
	int64_t offset;		/* bytes in shared scratch */
};

/* A table of constants: frequencies of rotations. */
struct nest_table {
	const double *at;
	int64_t n;
};

/* An expression that is stored. */
struct nest_root {
	nest_id value, place;
	uint32_t memory;
	bool add;		/* added to what is stored */
	/* if it is 0 when the kernel runs, nothing was stored yet */
	nest_id old;
	bool part;		/* ... in this item's partial sum, of a temp */
	uint16_t stage;
	uint16_t rank;	/* the first pass of its step that may store it */
	/* loops over rows, outermost first */
	uint32_t rows[NEST_LOOPS], nrows;
	uint32_t inner[NEST_LOOPS], ninner;
	uint64_t row_mask;
};

struct nest_memo {
	value_id value;
	uint64_t rows;
	nest_id at[IR_MAX_DIMS], made;
};

enum nest_number { NEST_N_STEP, NEST_N_KEY, NEST_N_AT, NEST_N_OLD };

/* A value that the caller has computed and that lies in scratch.  By dim of its
 * type: */
struct nest_leaf {
	value_id value;
	bool own_type;			/* rounded to its type; else f32 */
	bool moved[IR_MAX_DIMS];	/* its first index is not 0 */
	int64_t stride[IR_MAX_DIMS];
};

/* Statistic `part` of a row-wise node (a maximum, a sum), stored for all
 * rows. */
struct nest_statistic {
	node_id node;
	uint32_t part, memory;
	uint64_t over;		/* loops of a row */
};

/* What a nest is made for. */
struct nest_input {
	struct ir_module *m;
	struct arena *a;
	const struct kernel *k;
	const node_id *nodes;
	uint32_t nnodes;
	const struct nest_leaf *leaves;
	uint32_t nleaves;
	/* the box of one tile; NULL: the whole space */
	const struct ir_type *box;
	bool moves[IR_MAX_DIMS];	/* the box's first index is not 0 */
	/* mesh coordinates of a rank with these sizes */
	const uint32_t *at;
	const bool *apart;	/* as in struct memory; NULL: none are */
	value_id only;		/* store only this value, in a temp */
	bool bare;		/* no roots: the caller pulls values itself */
	int64_t parts;		/* most partial sums; 0: as many as a CPU's */
	/* adds to what the kernel is called with; returns the index */
	uint32_t (*pieces)(void *user, int64_t size, uint32_t cut);
	uint32_t (*number)(void *user, enum nest_number kind, uint32_t node);
	void *user;
	/* whether a value lies in panels; NULL: none does */
	bool (*panel)(void *machine, value_id v, struct cg_panel *out);
	void *machine;
};

struct nest {
	struct nest_input in;
	/* nest_pull, for the files that it calls and that call it */
	nest_id (*value_at)(struct nest *n, value_id v, const nest_id *at);
	bool wide;		/* the kernel is of single numbers: in f64 */
	uint64_t rows;		/* row loops of the root being made */
	const char *why;	/* why it cannot be done; NULL */
	VEC(struct nest_loop) loops;
	VEC(struct nest_dim) dims;
	VEC(struct nest_expr) exprs;
	struct table by_hash;
	VEC(struct nest_memory) memory;
	VEC(struct nest_temp) temps;
	VEC(struct nest_table) tables;
	VEC(struct nest_root) roots;
	VEC(struct nest_memo) memos;
	VEC(struct nest_statistic) statistics;
};

/* Loops inside of a row, with the reductions and results that are made in
 * them. */
struct nest_pass {
	uint32_t loops[NEST_LOOPS], nloops;
	VEC(nest_id) sums;
	VEC(uint32_t) roots;
};

/* The roots of one stage over the same rows. */
struct nest_step {
	uint16_t stage;
	uint32_t rows[NEST_LOOPS], nrows;
	int64_t size[NEST_LOOPS];	/* by index in rows */
	int64_t nrow;		/* rows, divided among items */
	int64_t nitems, per;	/* items; rows of each but the last */
	bool row_lanes;	/* vector lanes are rows: along the last row loop */
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
/* Any expression; its loops, rank and stage are derived. */
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
	uint64_t loops;		/* loops with a coef */
	struct {
		nest_id e;
		int64_t scale;
	} rest[8];
	uint32_t nrest;
};
/* Splits an INT into an affine part and `rest`. */
void nest_affine(const struct nest *n, nest_id e, struct nest_affine *out);

/* The loops and the index of a dim with this sharding. */
const struct nest_dim *nest_dim_of(struct nest *n, dim_id d, uint32_t cut);
int64_t nest_local_size(const struct nest *n, dim_id d, uint32_t cut);
uint32_t nest_add_loop(struct nest *n, int64_t size, int box);
/* Writes the loops of the type's dims, in order; returns how many. */
uint32_t nest_type_loops(struct nest *n, const struct ir_type *t,
			 uint32_t *loops);
/* Whether the nest computes this node. */
bool nest_has_node(const struct nest *n, node_id id);
/* How many partial sums a sum over so many rows has; `most` as in
 * nest_input.parts.  It depends on nothing else, so neither do the sums. */
int64_t nest_parts(int64_t rows, int64_t most);
uint32_t nest_add_memory(struct nest *n, struct nest_memory m);
/* From a local index to the position in the whole dim, and back; -1: the
 * position is on another rank. */
nest_id nest_position(struct nest *n, dim_id d, uint32_t cut, nest_id place);
nest_id nest_place(struct nest *n, dim_id d, uint32_t cut, nest_id position);
/* 0 <= e < size. */
nest_id nest_within(struct nest *n, nest_id e, nest_id size);
/* v, or 0 where the local index is -1. */
nest_id nest_if_placed(struct nest *n, nest_id place, nest_id v);

/* ---- nest_env.c ---- */

/* An index: an expression for each dim, by the dim's name. */
struct nest_env {
	uint32_t n;
	dim_id dim[3 * IR_MAX_DIMS];
	nest_id at[3 * IR_MAX_DIMS];
};

void nest_env_bind(struct nest_env *env, dim_id d, nest_id at);
void nest_env_init(const struct nest *n, value_id v, const nest_id *at,
		   struct nest_env *env);
/* The offset of an element in a stored tensor, row-major; v: the value that is
 * stored, whose rows may lie apart, or 0. */
nest_id nest_offset(struct nest *n, value_id v, const struct ir_type *t,
		    const nest_id *at);
/* The same in one that lies in panels. */
nest_id nest_panel_offset(struct nest *n, const struct ir_type *t,
			  const nest_id *at, const struct cg_panel *p);
/* The expression that a dim is bound to; 0: none. */
nest_id nest_env_at(const struct nest_env *env, dim_id d);
/* Operand k of the node, pulled at the index. */
nest_id nest_operand(struct nest *n, const struct ir_node *node, uint32_t k,
		     const struct nest_env *env);

/* ---- nest_map.c ---- */

/* An elementwise op's value, of its operands' values; 0: it has no such
 * expression. */
nest_id nest_map(struct nest *n, const struct ir_node *x, nest_id a,
		 nest_id b);

/* ---- nest_pull.c ---- */

/* The value at an index; 0: see n->why. */
nest_id nest_pull(struct nest *n, value_id v, const nest_id *at);

/* ---- nest_rows.c ---- */

/* A node that reduces dims; 0: see n->why. */
nest_id nest_rowwise(struct nest *n, const struct ir_node *node,
		     const nest_id *at);
/* Whether the node is one for nest_rowwise. */
bool nest_is_rowwise(const struct ir_node *node);

/* ---- nest_topk.c ---- */

nest_id nest_topk(struct nest *n, const struct ir_node *node,
		  const struct nest_env *env, const struct ir_rule *r,
		  nest_id which);

/* ---- nest_scatter.c ---- */

/* A sum of rows by index: each row is added to one place, column by column. */
struct nest_scatter {
	struct nest *n;		/* its roots are what the sums are stored to */
	const struct ir_node *node;
	int64_t rows, places, cols;
	uint32_t row, place;	/* loops */
	uint32_t col[NEST_LOOPS], ncols;
	/* an element; the place that its row is added to, or -1 */
	nest_id x, to;
	bool all;	/* places that no row is added to are written, too */
};

/* Whether the nodes are one such sum, over a dim too long to test each place
 * with each row, and sinks of it. */
bool nest_is_scatter(struct ir_module *m, const node_id *nodes,
		     uint32_t nnodes);
/* Finds the sum in a nest that was built bare.  `stores`: what it is added to
 * may hold nothing yet (nest_root.old).  False: see n->why. */
bool nest_find_scatter(struct nest *n, bool stores, struct nest_scatter *s);

/* ---- nest_roots.c ---- */

/* NEST_N_OLD of a sink, for nest_root.old. */
nest_id nest_has_old(struct nest *n, node_id sink);
/* Makes all expressions and roots.  False: *why, for the user. */
bool nest_build(struct nest *n, const struct nest_input *in,
		const char **why);

/* ---- nest_plan.c ---- */

struct nest_steps {
	VEC(struct nest_step) at;
};
/* Groups roots into steps, in running order.  Collectives of a stage's temps
 * follow its last step. */
void nest_make_steps(struct nest *n, struct nest_steps *out);

/* ---- nest_steps.c ---- */

/* Sets the kernel that a nest is for, and whose lists it adds to. */
void nest_input_site(struct nest_input *in, const struct cg_site *s);
/* Places temps in scratch, and appends steps, which `step` writes one by one,
 * and collectives. */
void nest_emit(struct nest *n, struct cg_kernel *out,
	       void (*step)(void *user, struct nest *n,
			    const struct nest_step *s), void *user);
/* Where in.only was stored: bytes in shared scratch, once all is emitted. */
int64_t nest_value_offset(const struct nest *n);

/* ---- nest_scope.c: what an emitter has made ---- */

/* Values of expressions in the current scope of the emitted code. */
struct nest_scope {
	const struct nest *n;
	struct arena *a;
	/* by expression: C text, or an LLVM value; NULL: none here */
	void **made;
	VEC(nest_id) order;	/* expressions that have a value */
	/* by expression: the last walk that visited it */
	uint32_t *seen, stamp;
	/* emits an expression, and calls nest_scope_set */
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
