/*
 * Contractions, for any back end: which node of a group is one, how its
 * factors lie in both operands and in the result, how these are cut into
 * blocks, and whom an index picks.  A back end has units and tiles.
 */
#ifndef CODEGEN_DOT_H
#define CODEGEN_DOT_H

#include "codegen/kernel.h"

/* Positions at one distance, in elements of each operand. */
struct cg_run {
	int64_t size, stride[2];
};

/* A factor of the rule: all of its dims, outermost first, as few runs. */
struct cg_factor {
	struct cg_run at[IR_MAX_DIMS];
	uint32_t n;
	int64_t size;
};

/* The dims of a factor in the result, outermost first; one at least. */
struct cg_dims {
	uint32_t n;
	int64_t size[IR_MAX_DIMS];
	int at[IR_MAX_DIMS];	/* place in the result's type, or -1 */
};

/*
 * Blocks of a factor's positions that are boxes of its dims: those before
 * `cut` one by one, that one in so many chunks, those behind it whole.
 */
struct cg_split {
	uint32_t cut;
	int64_t step, chunks, inner;
	int64_t blocks;
	int64_t most;		/* positions of a block */
};

/* ---- dot.c -------------------------------------------------------------- */

/* The node that contracts, if `picks` by an index; 0: it does not, or there
 * are more. */
node_id cg_dot_head(const struct ir_module *m, const struct kernel *x,
		    bool picks);
/* Whether the value is something that others read. */
bool cg_dot_is_output(const struct kernel *x, value_id v);
/* Do nodes behind the head want whole last dims? */
bool cg_dot_whole_last(const struct ir_module *m, const struct kernel *x,
		       node_id head);
/* What a sink that is all that stands behind the head adds up, if nobody else
 * reads the head; or 0. */
value_id cg_dot_summed(const struct ir_module *m, const struct kernel *x,
		       node_id head, node_id *sink);
/* Appends a dim inside of the others. */
void cg_factor_add(struct cg_factor *f, int64_t size, int64_t stride0,
		   int64_t stride1);
/* Dims of a factor, in the order of `dims`, as they lie in both operands,
 * which have these types. */
void cg_factor_find(const struct cg_view *const *views,
		    const struct ir_type *const *types,
		    const struct ir_factor *f, const dim_id *dims,
		    struct cg_factor *to);
/* Where they are in the result. */
void cg_dims_find(const struct cg_site *s, const struct ir_type *result,
		  const struct ir_factor *f, struct cg_dims *to);
/* Dims of a factor by their distance in an operand, largest first. */
void cg_dims_sort(const struct cg_view *v, const struct ir_type *t,
		  dim_id *dims, uint32_t n);
/* Boxes of about `want` positions; `step` may be changed before the end. */
struct cg_split cg_split_begin(const struct cg_dims *d, int64_t want);
void cg_split_end(const struct cg_dims *d, struct cg_split *s);
/* Whether the last dim is in several blocks. */
bool cg_split_cuts_last(const struct cg_dims *d, const struct cg_split *s);

#endif
