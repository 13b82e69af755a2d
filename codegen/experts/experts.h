/*
 * Contractions with experts, for any back end.
 */
#ifndef CODEGEN_EXPERTS_H
#define CODEGEN_EXPERTS_H

#include "codegen/dot/dot.h"

/* Dims that are counted by one number, the last fastest. */
struct cg_counted {
	uint32_t n;
	int64_t size;
	struct {
		int64_t size;
		int64_t stride[2];	/* in the operands */
		int64_t index;		/* in the index */
		int64_t out;		/* in the result */
		int at;			/* place in the result's type, or -1 */
	} at[IR_MAX_DIMS];
};

/* Of a dot_at or dot_to: a row, or a column, is operand 0's. */
struct cg_picks {
	const struct ir_node *node;
	struct ir_rule rule;
	value_id from[2];		/* operands */
	const struct ir_type *types[2];
	const struct ir_type *chosen;	/* the index's type */
	uint32_t index;			/* operand of the kernel */
	/* pairs; rows of each: dims beside them that have the same expert */
	struct cg_counted pairs, rows;
	dim_id of;
	uint32_t cut, spread;		/* of `of` */
	int64_t n;			/* experts that are here */
	bool others;			/* pairs of other experts make zeros */
};

/* What the node says of its operands. */
void cg_picks_begin(const struct cg_site *s, node_id head,
		    struct cg_picks *p);
/* Its index, and what it counts; false: the group does not read the index. */
bool cg_picks_find(const struct cg_site *s, const struct kernel *x,
		   const struct cg_view *const *views, struct cg_picks *p);
/*
 * The factors that are no list of rows: of a dot_at k (to `first`) and n, of a
 * dot_to m (to `first`) and n; and where they are in the result: dims[2] for n,
 * dims[1] for the m of a dot_to.
 */
void cg_picks_factors(const struct cg_site *s, const struct cg_picks *p,
		      const struct cg_view *const *views,
		      struct cg_factor *first, struct cg_factor *n,
		      struct cg_dims *dims);
/* A factor of all that is counted, pairs outside of rows; a run for a dim. */
void cg_factor_count(const struct cg_picks *p, struct cg_factor *to);

#endif
