/*
 * Between the interpreter's walk (interp.c) and its ops (interp_*.c);
 * nobody else includes this.
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
struct interp_trip {
	sym_t var;		/* or 0 */
	int64_t value;		/* of the variable in this trip */
};

/* What a `save` keeps. */
struct interp_save {
	sym_t name;		/* full */
	uint32_t microbatch;
	struct ir_type type;
	struct interp_block *block;
};

/* A region being run. */
struct interp_frame {
	region_id region;
	node_id owner;		/* repeat or call; 0: the function */
	uint32_t next;		/* node of the region */
	int64_t trip, trips;
	int64_t times;		/* as it is counted: it stands for so many */
	size_t name, path;	/* lengths, for when it is left */
	struct interp_block *vals[IR_MAX_ARGS];	/* that go in, or come out */
};

/* What the node's ranks exchanged: a block each, all of them in one. */
struct interp_round {
	VEC(struct ir_peer) peers;
	uint32_t me;
	struct interp_block *block;
};

struct interp {
	struct ir_module *m;
	struct ir_pool *pool;
	const struct ir_eval *opt;
	const struct ir_rank *rank;	/* NULL: it runs alone */
	const uint32_t *at;	/* the rank's coordinates, or NULL */
	/* in a ring, operands (bit 31: result) that came from another rank */
	const uint32_t *away;
	uint32_t away_set;
	struct interp_block **slot;	/* by value; NULL: dead or not yet */
	VEC(struct interp_save) saves;
	VEC(struct interp_trip) trips;	/* enclosing repeats, outermost first */
	VEC(struct interp_frame) frames;
	struct buf name;	/* enclosing `name` attributes, as written */
	struct buf full;	/* a tensor's name with its {words} replaced */
	struct buf path;	/* for ir_eval.seen */
	uint32_t depth;		/* of calls */
	func_id func;
	struct interp_block *results[IR_MAX_ARGS];
	uint32_t nresults;
	/*
	 * The node being run: one that waits is run again from its beginning,
	 * with what it was given in the rounds before.
	 */
	struct ir_post post;
	struct interp_block *posted;
	VEC(struct interp_round) rounds;
	uint32_t nrounds, round;	/* given; asked for in this run */
	bool waits;
};

/* Computes a node's one result into out; regions and calls set slots. */
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

/* Room for elems doubles, unset; NULL after reporting that it is too much. */
struct interp_block *ir_interp_get(struct interp *e, const struct ir_node *n,
				   int64_t elems);
void ir_interp_put(struct interp *e, struct interp_block *b);
/* A value's block, for one more who keeps it. */
struct interp_block *ir_interp_hold(const struct interp *e, value_id v);

/* ---- interp_pool.c ---- */

struct interp_block *ir_pool_block(struct ir_pool *p, struct span at,
				   int64_t elems);
void ir_pool_drop(struct ir_pool *p, struct interp_block *b);
bool ir_pool_fits(struct ir_pool *p, struct span at, int64_t bytes);

/* ---- interp_io.c: names, sources, sinks ---- */

/* Appends a part to a name or path; ir_interp_leave undoes it by the length. */
size_t ir_interp_enter(struct buf *b, char separator, const char *part);
void ir_interp_leave(struct buf *b, size_t length);
/* The same for the node's `name`, behind the enclosing ones. */
size_t ir_interp_enter_name(struct interp *e, const struct ir_node *n);
/* A repeat's variable in the i-th trip from `start`. */
int64_t ir_interp_variable(const struct interp *e, const struct ir_node *n,
			   int64_t i);
/* The node's full name, until the next call. */
const char *ir_interp_name(struct interp *e, const struct ir_node *n);

/* ---- interp_comm.c: between ranks ---- */

/*
 * The ranks of the node's group give a block each, and get those of all.
 * False: the machine waits, or there was an error.
 */
bool ir_interp_exchange(struct interp *e, const struct ir_node *n,
			const double *data, int64_t elems,
			const struct interp_round **round);
enum interp_how { INTERP_SUM, INTERP_MAX };
/* Each element over the ranks of the node's `on`, if there is one. */
bool ir_interp_reduce(struct interp *e, const struct ir_node *n,
		      enum interp_how how, double *data, int64_t elems);
/* False, reported: the node wants a routed row that is not on this rank. */
bool ir_interp_absent(const struct interp *e, const struct ir_node *n);
/* Whether ranks talk in this node. */
bool ir_interp_colls(const struct interp *e, const struct ir_node *n);

/* ---- interp_nest.c: loops over dims by name ---- */

#define NEST_DIMS (2 * IR_MAX_DIMS)

/*
 * A nest of loops over factors of a node's bound rule, with the offset of the
 * element that the loops stand at in the result and in each operand: an
 * operand that has its dims in another order, or lacks some, only has other
 * strides.
 */
struct interp_nest {
	int n;
	int64_t size[NEST_DIMS], at[NEST_DIMS];
	int64_t out[NEST_DIMS], in[IR_MAX_OPERANDS][NEST_DIMS];	/* strides */
	int64_t out_off, in_off[IR_MAX_OPERANDS];
};

#define INTERP_RESULT 31	/* in place of an operand's number */

/* Positions of dim d that operand k has; all if it lacks the dim. */
void ir_interp_pieces(const struct interp *e, const struct ir_node *n,
		      uint32_t k, dim_id d, struct ir_pieces *out);
/* Elements of operand k that are here. */
int64_t ir_interp_elems(const struct interp *e, const struct ir_node *n,
			uint32_t k);
/* Loops over the dims of these factors, "A over", the last innermost. */
void ir_nest(const struct interp *e, const struct ir_node *n,
	     const struct ir_rule *r, struct interp_nest *w,
	     const char *factors);
/* Adds a loop per dim of the factor, inside of those there are. */
void ir_nest_add(const struct interp *e, const struct ir_node *n,
		 struct interp_nest *w, const struct ir_factor *f);
/* The one loop of a factor that is a single dim. */
void ir_nest_one(const struct interp *e, const struct ir_node *n,
		 const struct ir_rule *r, struct interp_nest *w,
		 const char *name);
/* How often the body of the loops runs. */
int64_t ir_nest_elems(const struct interp_nest *w);
/* for (i = start; i; i = next): false if there is no element to stand at. */
bool ir_nest_start(struct interp_nest *w);
bool ir_nest_next(struct interp_nest *w);

/* The factor `of` of a node, and the positions of it that are here. */
struct interp_index {
	dim_id dim;
	struct ir_pieces here;
};
void ir_interp_of(const struct interp *e, const struct ir_node *n,
		  const struct ir_rule *r, struct interp_index *x);
/*
 * v as a place in `of`, -1 if another rank has it; false, reported, if it
 * came from outside and is no index.
 */
bool ir_interp_index(const struct interp *e, const struct ir_node *n,
		     double v, const struct interp_index *x, int64_t *index);

#endif
