/*
 * Nodes that reduce dims, for the files of codegen/nest/ that make loop nests
 * of them; nest.h has what others call.
 */
#ifndef CODEGEN_NEST_ROW_H
#define CODEGEN_NEST_ROW_H

#include "codegen/nest/nest.h"

/* A node, and the dims of its rows and of a row's elements. */
struct nest_row {
	struct nest *n;
	const struct ir_node *node;
	struct ir_rule r;
	struct ir_type rows, over;
	uint64_t over_mask;
	double size;		/* elements of a row, over all ranks */
};

/* ---- nest_row_dims.c ---- */

void nest_row_bind(struct nest *n, const struct ir_node *node,
		   struct nest_row *s);
/* Axes whose ranks share a row. */
uint32_t nest_row_axes(const struct nest_row *s);
/* How an operand that has factor f splits its dim d. */
uint32_t nest_row_cut(const struct nest *n, const struct ir_node *node,
		      const struct ir_factor *f, dim_id d);
/* The index of a row, by loops; and its place among all rows. */
void nest_row_index(struct nest_row *s, struct nest_env *env);
nest_id nest_row_offset(struct nest_row *s, const struct nest_env *env);
/* Elements of a type on this rank. */
int64_t nest_row_count(const struct nest *n, const struct ir_type *t);

/* ---- nest_row_statistics.c ---- */

/*
 * Statistics of a row of exponentials: its maximum, the sum of e^(x - maximum),
 * the element at the label, and the first two of the part of the row that this
 * rank has.  The first two numbers are those of other nodes' sums, too.
 */
enum nest_part {
	NEST_PART_MOST,
	NEST_PART_ABOVE,
	NEST_PART_LABEL,
	NEST_PART_OWN_MOST,
	NEST_PART_OWN_ABOVE
};

/* Statistic `part` of the row at the index; 0: see n->why. */
nest_id nest_row_statistic(struct nest_row *s, uint32_t part,
			   const struct nest_env *env);
/* e^(x - maximum) of the element at the index, as NEST_PART_ABOVE and
 * NEST_PART_OWN_ABOVE add it up. */
nest_id nest_row_exponential(struct nest_row *s, uint32_t part,
			     const struct nest_env *env);
/* The mean of the row at the index. */
nest_id nest_row_mean(struct nest_row *s, const struct nest_env *env);
/* The element at the label of the row at the index. */
nest_id nest_row_label(struct nest_row *s, const struct nest_env *env);

#endif
