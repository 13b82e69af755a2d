/*
 * The manual of codegen/dot/: contractions, for any back end.  cpu/, cuda/ and
 * experts/ call it; it may use ir/, passes/kernels and kernel.h.  It finds
 * which node of a group contracts, how its factors lie in both operands and in
 * the result, and how they are divided into blocks.  A back end adds units and
 * tiles.
 */
#ifndef CODEGEN_DOT_H
#define CODEGEN_DOT_H

#include "codegen/kernel.h"

/* Positions at one stride: elements of each operand. */
struct cg_run {
	int64_t size, stride[2];
};

/* A factor of the rule: all its dims, outermost first, in as few runs as
 * possible. */
struct cg_factor {
	struct cg_run at[IR_MAX_DIMS];
	uint32_t n;
	int64_t size;
};

/* The dims of a factor in the result, outermost first; at least one. */
struct cg_dims {
	uint32_t n;
	int64_t size[IR_MAX_DIMS];
	int at[IR_MAX_DIMS];	/* dim of the result's type, or -1 */
};

/*
 * Blocks of a factor's positions that are boxes of its dims: dims before `cut`
 * are taken one position at a time, dim `cut` in `chunks` of `step` positions,
 * dims after it whole.
 */
struct cg_split {
	uint32_t cut;
	int64_t step, chunks, inner;
	int64_t blocks;
	int64_t most;		/* positions of the largest block */
};

/* ---- dot.c -------------------------------------------------------------- */

/* The node that contracts; with `picks`, one whose rows an index selects. 0:
 * there is none, or more than one. */
node_id cg_dot_head(const struct ir_module *m, const struct kernel *x,
		    bool picks);
/* Whether the epilogue reduces along last dims, which must then be whole. */
bool cg_dot_whole_last(const struct ir_module *m, const struct kernel *x,
		       node_id head);
/* The value that an `accumulate` adds, if that sink is the whole epilogue and
 * nobody else reads the head; else 0. */
value_id cg_dot_summed(const struct ir_module *m, const struct kernel *x,
		       node_id head, node_id *sink);
/* Appends a dim, inside of the others. */
void cg_factor_add(struct cg_factor *f, int64_t size, int64_t stride0,
		   int64_t stride1);
/* A factor's dims, in the order of `dims`, as they lie in both operands, which
 * have these types. */
void cg_factor_find(const struct cg_view *const *views,
		    const struct ir_type *const *types,
		    const struct ir_factor *f, const dim_id *dims,
		    struct cg_factor *to);
/* A factor's dims in the result. */
void cg_dims_find(const struct cg_site *s, const struct ir_type *result,
		  const struct ir_factor *f, struct cg_dims *to);
/* Sorts dims by their stride in an operand, largest first. */
void cg_dims_sort(const struct cg_view *v, const struct ir_type *t,
		  dim_id *dims, uint32_t n);
/* Blocks of about `want` positions; `step` may be changed before
 * cg_split_end. */
struct cg_split cg_split_begin(const struct cg_dims *d, int64_t want);
void cg_split_end(const struct cg_dims *d, struct cg_split *s);
/* Whether the last dim is divided among several blocks. */
bool cg_split_cuts_last(const struct cg_dims *d, const struct cg_split *s);

#endif
