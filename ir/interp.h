/*
 * Between the interpreter's walk (interp.c) and its ops (interp_*.c);
 * nobody else includes this.
 */
#ifndef IR_INTERP_H
#define IR_INTERP_H

#include "ir/ir.h"

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
	struct interp_block *block;
};

struct interp {
	struct ir_module *m;
	const struct ir_eval *opt;
	struct mem outer;	/* the run's gate, while ours stands in */
	struct arena own;	/* dies with the evaluation */
	struct interp_block *blocks;	/* all that live, newest first */
	int64_t held_bytes;
	struct interp_block **slot;	/* by value; NULL: dead or not yet */
	region_id *home;	/* by value: the region it belongs to */
	value_id *first_dead;	/* by node: what nobody uses after it ... */
	value_id *next_dead;	/* ... linked by value */
	VEC(struct interp_save) saves;
	VEC(struct interp_trip) trips;	/* enclosing repeats, outermost first */
	struct buf name;	/* enclosing `name` attributes, as written */
	struct buf full;	/* a tensor's name with its {words} replaced */
	struct buf path;	/* for ir_eval.seen */
	uint32_t depth;		/* of calls */
};

/* Computes a node's one result into out; regions and calls set slots. */
typedef bool interp_fn(struct interp *e, const struct ir_node *n,
		       double *out);

#define OP(id, name, n, rule, split, dtypes, attrs, flags, flops, bytes, rc, \
	   grad, help) \
	interp_fn ir_eval_##name;
#include "ir/ops.def"
#undef OP

static inline const double *
interp_arg(const struct interp *e, const struct ir_node *n, uint32_t k)
{
	return e->slot[ir_args(e->m, n)[k]]->data;
}

/* Room for elems doubles, unset; NULL after reporting that it is too much. */
struct interp_block *ir_interp_get(struct interp *e, const struct ir_node *n,
				   int64_t elems);
void ir_interp_put(struct interp *e, struct interp_block *b);
/* A value's block, for one more who keeps it. */
struct interp_block *ir_interp_hold(const struct interp *e, value_id v);

/* ---- interp_io.c: names, sources, sinks ---- */

/* Appends a part to a name or path; ir_interp_leave undoes it by the length. */
size_t ir_interp_enter(struct buf *b, char separator, const char *part);
void ir_interp_leave(struct buf *b, size_t length);
/* The same for the node's `name`, behind the enclosing ones. */
size_t ir_interp_enter_name(struct interp *e, const struct ir_node *n);

/* ---- interp_nest.c: loops over dims by name ---- */

#define NEST_DIMS (2 * IR_MAX_DIMS)

/*
 * A nest of loops over factors of a node's bound rule, with the offset of the
 * element that the loops stand at in the result and in each operand: an
 * operand that has its dims in another order, or lacks some, only has other
 * strides.
 */
struct nest {
	int n;
	int64_t size[NEST_DIMS], at[NEST_DIMS];
	int64_t out[NEST_DIMS], in[IR_MAX_OPERANDS][NEST_DIMS];	/* strides */
	int64_t out_off, in_off[IR_MAX_OPERANDS];
};

/* Loops over the dims of these factors, "A over", the last innermost. */
void ir_nest(const struct interp *e, const struct ir_node *n,
	     const struct ir_rule *r, struct nest *w, const char *factors);
/* Adds a loop per dim of the factor, inside of those there are. */
void ir_nest_add(const struct interp *e, const struct ir_node *n,
		 struct nest *w, const struct ir_factor *f);
/* The one loop of a factor that is a single dim. */
void ir_nest_one(const struct interp *e, const struct ir_node *n,
		 const struct ir_rule *r, struct nest *w, const char *name);
/* for (i = start; i; i = next): false if there is no element to stand at. */
bool ir_nest_start(struct nest *w);
bool ir_nest_next(struct nest *w);
/* v as an index of d; false, reported, if it came from outside and is none. */
bool ir_interp_index(const struct interp *e, const struct ir_node *n,
		     double v, dim_id d, int64_t *index);

#endif
