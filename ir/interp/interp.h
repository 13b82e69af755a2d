/*
 * Private to ir/interp/: between the walk (interp.c) and the ops (interp_*.c).
 */
#ifndef IR_INTERP_H
#define IR_INTERP_H

#include "ir/machine.h"

/* A value's elements, row-major; shared by all value ids that hold it. */
struct interp_block {
	struct interp_block *older, *newer;
	int64_t bytes;		/* of data */
	uint32_t refs;
	double data[];
};

/* A repeat being run. */
struct interp_repeat {
	sym_t var;		/* or 0 */
	int64_t value;		/* of the variable in this iteration */
};

/* A value that `save` keeps. */
struct interp_save {
	sym_t name;		/* full */
	uint32_t microbatch;
	struct ir_type type;
	struct interp_block *block;
};

/* A region that is being run. */
struct interp_frame {
	region_id region;
	node_id owner;		/* repeat or call, or 0: the function */
	uint32_t next;		/* index of the next node in the region */
	int64_t iteration, iterations;
	int64_t times;		/* when counting: how often this run counts */
	size_t name, path;	/* lengths before it, to be restored */
	struct interp_block *vals[IR_MAX_ARGS];	/* its parameters, then its
						 * results */
};

/* What the node's ranks exchanged: a block per peer, in one allocation. */
struct interp_round {
	VEC(struct ir_peer) peers;
	uint32_t me;
	struct interp_block *block;
};

struct interp {
	struct ir_module *m;
	struct ir_pool *pool;
	const struct ir_eval_options *opt;
	const struct ir_rank *rank;	/* NULL: it runs alone */
	const uint32_t *at;	/* the rank's coordinates, or NULL */
	/* in a ring: which operands (bit 31: result) another rank sent */
	const uint32_t *away;
	uint32_t away_set;
	struct interp_block **slot;	/* by value; NULL: not computed, or not
					 * needed any more */
	VEC(struct interp_save) saves;
	VEC(struct interp_repeat) repeats;	/* enclosing, outermost first */
	VEC(struct interp_frame) frames;
	struct buf name;	/* enclosing `name`s, as written */
	struct buf full;	/* a tensor's name with its {words} replaced */
	struct buf path;	/* for ir_eval.seen */
	uint32_t depth;		/* of calls */
	func_id func;
	struct interp_block *results[IR_MAX_ARGS];
	uint32_t nresults;
	/*
	 * The node that is being run: one that has waited is run again from its
	 * beginning, with what it was given in earlier rounds.
	 */
	struct ir_post post;
	struct interp_block *posted;
	VEC(struct interp_round) rounds;
	uint32_t nrounds, round;	/* how many it was given, and used in
					 * this run */
	bool waits;
};

/*
 * Computes a node's one result into out; regions and calls set slots instead.
 */
typedef bool interp_fn(struct interp *e, const struct ir_node *n,
		       double *out);

#define OP(id, name, n, rule, split, dtypes, attrs, flags, flops, bytes, rc, \
	   grad, help) \
	interp_fn ir_eval_##name;
#define MAP_OP(id, name, attrs, flops, definition, grad, help)
#include "ir/ops.def"
#undef OP
interp_fn ir_eval_definition;	/* of all MAP_OP rows */

static inline const double *
interp_arg(const struct interp *e, const struct ir_node *n, uint32_t k)
{
	return e->slot[ir_args(e->m, n)[k]]->data;
}

/* The type of operand k. */
static inline const struct ir_type *
interp_type(const struct interp *e, const struct ir_node *n, uint32_t k)
{
	return ir_type(e->m, ir_args(e->m, n)[k]);
}

/* ---- interp_pool.c ---- */

void ir_pool_drop(struct ir_pool *p, struct interp_block *b);
bool ir_pool_fits(struct ir_pool *p, struct span at, int64_t bytes);
/* Memory for elems doubles, not set; NULL after an error: it is too much. */
struct interp_block *ir_interp_get(struct interp *e, const struct ir_node *n,
				   int64_t elems);
void ir_interp_put(struct interp *e, struct interp_block *b);
/* A value's block, with one more reference. */
struct interp_block *ir_interp_hold(const struct interp *e, value_id v);

/* ---- interp_io.c: names, sources, sinks ---- */

/* Appends a part to a name or path; ir_interp_leave undoes it by the length. */
size_t ir_interp_enter(struct buf *b, char separator, const char *part);
void ir_interp_leave(struct buf *b, size_t length);
/* The same for the node's `name`, after the enclosing ones. */
size_t ir_interp_enter_name(struct interp *e, const struct ir_node *n);
/* A repeat's variable in the i-th iteration from `start`. */
int64_t ir_interp_variable(const struct interp *e, const struct ir_node *n,
			   int64_t i);
/* Reads a tensor of that name and type, as a rank has it, or draws it. */
typedef bool interp_read_fn(struct interp *e, const struct ir_node *n,
			    const char *name, const struct ir_type *t,
			    int64_t elems, double *out);
/* The node's full name, until the next call. */
const char *ir_interp_name(struct interp *e, const struct ir_node *n);

/* ---- interp_rounded.c: weights that are stored in 8 bits ---- */

/* The nearest number of the type, to even on a tie.  Types of 8 bits and less
 * saturate; NaN stays NaN. */
double ir_interp_nearest(enum ir_dtype t, double v);

/*
 * A part of such a weight, or of its scales, as this rank has it: `one` is its
 * type, and e->full the weight's name.  `read` reads what is rounded.
 */
bool ir_interp_read_rounded(struct interp *e, const struct ir_node *n,
			    const struct ir_type *one, interp_read_fn *read,
			    double *out);

/* ---- interp_comm.c: communication ---- */

/*
 * Exchanges a block with each rank of the node's group.  False: the machine
 * waits, or there was an error.
 */
bool ir_interp_exchange(struct interp *e, const struct ir_node *n,
			const double *data, int64_t elems,
			const struct interp_round **round);
enum interp_how { INTERP_SUM, INTERP_MAX };
/* Reduces each element over the ranks of the node's `on`, if it has one. */
bool ir_interp_reduce(struct interp *e, const struct ir_node *n,
		      enum interp_how how, double *data, int64_t elems);
/*
 * Reports that a node needs a routed row that is not on this rank; returns
 * false.
 */
bool ir_interp_absent(const struct interp *e, const struct ir_node *n);
/* Whether ranks communicate in this node. */
bool ir_interp_colls(const struct interp *e, const struct ir_node *n);

/* ---- interp_nest.c: loops over dims by name ---- */

#define NEST_DIMS (2 * IR_MAX_DIMS)

/*
 * A loop nest over factors of a node's bound rule, with the offset of the
 * current element in the result and in each operand: operands that have the
 * dims in another order, or lack some, have other strides.
 */
struct interp_nest {
	int n, nin;		/* loops, operands */
	int64_t size[NEST_DIMS], at[NEST_DIMS];
	int64_t out[NEST_DIMS], in[IR_MAX_OPERANDS][NEST_DIMS];	/* strides */
	int64_t out_off, in_off[IR_MAX_OPERANDS];
};

#define INTERP_RESULT 31	/* as the number of an operand: the result */

/* The positions of dim d that operand k has; all if it lacks the dim. */
void ir_interp_pieces(const struct interp *e, const struct ir_node *n,
		      uint32_t k, dim_id d, struct ir_pieces *out);
/* The number of elements of operand k on this rank. */
int64_t ir_interp_elems(const struct interp *e, const struct ir_node *n,
			uint32_t k);
/*
 * Makes loops over the dims of these factors, "A over", the last one innermost.
 */
void ir_nest(const struct interp *e, const struct ir_node *n,
	     const struct ir_rule *r, struct interp_nest *w,
	     const char *factors);
/* Adds a loop per dim of the factor, inside of the others. */
void ir_nest_add(const struct interp *e, const struct ir_node *n,
		 struct interp_nest *w, const struct ir_factor *f);
/* Makes one loop of a factor that is a single dim. */
void ir_nest_one(const struct interp *e, const struct ir_node *n,
		 const struct ir_rule *r, struct interp_nest *w,
		 const char *name);
/* How often the body of the loops runs. */
int64_t ir_nest_elems(const struct interp_nest *w);
/*
 * Takes the innermost loop out of the nest if operand k has none of its dim, so
 * that the caller runs it for one element of k.  Returns its number, for
 * strides; its count is 1 if it stays.
 */
int ir_nest_hoist(struct interp_nest *w, int k, int64_t *count);
/* for (i = start; i; i = next): false at the end, or if there is no element. */
bool ir_nest_start(struct interp_nest *w);
bool ir_nest_next(struct interp_nest *w);

/* The factor `of` of a node, and which of its positions are on this rank. */
struct interp_index {
	dim_id dim;
	struct ir_pieces here;
};
void ir_interp_of(const struct interp *e, const struct ir_node *n,
		  const struct ir_rule *r, struct interp_index *x);
/*
 * Converts v to an index into `of` on this rank, -1 if another rank has it.
 * False, after an error, if it came from outside and is no index.
 */
bool ir_interp_index(const struct interp *e, const struct ir_node *n,
		     double v, const struct interp_index *x, int64_t *index);
/* The tensor of the name that the node has: read, or generated; and given to
 * the caller.  Between ir_interp_enter_name() and leaving it. */
bool ir_interp_read_tensor(struct interp *e, const struct ir_node *n,
			   double *out);
bool ir_interp_write_tensor(struct interp *e, const struct ir_node *n,
			    const struct ir_type *t, const double *data);

#endif
