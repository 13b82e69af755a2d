/*
 * The manual of codegen/experts/: contractions with experts (dot_at and
 * dot_to), for any back end.  cpu/ and cuda/ call it; it may use ir/,
 * passes/kernels and dot/. A pair is a token and one of the choices that the
 * router made for it; rows of a pair are the positions beside it that go to
 * the same expert.
 */
#ifndef CODEGEN_EXPERTS_H
#define CODEGEN_EXPERTS_H

#include "codegen/dot/dot.h"

/* Dims that one number counts, the last dim fastest. */
struct cg_counted {
	uint32_t n;
	int64_t size;
	struct {
		int64_t size;
		int64_t stride[2];	/* in the operands */
		int64_t index;		/* in the index */
		int64_t out;		/* in the result */
		int at;			/* dim of the result's type, or -1 */
	} at[IR_MAX_DIMS];
};

/* A dot_at or a dot_to.  Operand 0 has the rows of a dot_at, and the rows of
 * the result of a dot_to. */
struct cg_picks {
	const struct ir_node *node;
	struct ir_rule rule;
	value_id from[2];		/* operands */
	const struct ir_type *types[2];
	const struct ir_type *chosen;	/* type of the index */
	uint32_t index;	/* the index: an operand of the kernel */
	/* pairs, and the rows of each */
	struct cg_counted pairs, rows;
	dim_id of;
	uint32_t cut, spread;		/* of `of` */
	int64_t n;			/* experts on this rank */
	bool others;	/* pairs of experts on other ranks make zeros */
};

/* Finds the operands of a node. */
void cg_picks_begin(const struct cg_site *s, node_id head,
		    struct cg_picks *p);
/* Finds the index, pairs and rows.  False: the kernel does not read the index
 * from memory. */
bool cg_picks_find(const struct cg_site *s, const struct kernel *x,
		   const struct cg_view *const *views, struct cg_picks *p);
/*
 * The factors that the index does not select: of a dot_at k (to `first`) and
 * n; of a dot_to m (to `first`) and n.  Writes their dims in the result: of n
 * to dims[2], of a dot_to's m to dims[1].
 */
void cg_picks_factors(const struct cg_site *s, const struct cg_picks *p,
		      const struct cg_view *const *views,
		      struct cg_factor *first, struct cg_factor *n,
		      struct cg_dims *dims);
/* A factor of pairs and rows, pairs outermost; one run for each dim. */
void cg_factor_count(const struct cg_picks *p, struct cg_factor *to);

#endif
