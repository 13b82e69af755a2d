/*
 * Contractions whose matrix an index chooses, between the files cpu_experts*.c.
 *
 * A pair is a token and one of the experts that were chosen for it.  A first
 * step sorts pairs by expert, in their order; then the rows of each expert's
 * pairs are copied side by side, and are a contraction like others.
 */
#ifndef CODEGEN_CPU_EXPERTS_H
#define CODEGEN_CPU_EXPERTS_H

#include "codegen/cpu/dot/cpu_dot.h"
#include "codegen/experts/experts.h"

struct experts {
	struct dot dot;
	struct cg_picks p;
	int64_t most;		/* rows of a block, or added up at once */
	/* lists of i32 in shared scratch, by expert of this rank; the last
	 * entry is for experts of other ranks */
	int64_t first;		/* its first pair in `order`, and the end */
	int64_t block;		/* its first block of rows, and the end */
	int64_t fill;		/* how many pairs were found so far */
	int64_t order;		/* pairs, sorted */
	int64_t own_rows[2];	/* in a worker's scratch: copied rows */
};

/* A step's function, and values of it. */
struct experts_step {
	struct experts *x;
	struct ll *l;
	struct ll_value *func, *own, *shared, *source[2];
	struct ll_value *tile, *pack[2];
	struct ll_value *live[2];	/* rows and columns of the tile */
};

/* ---- cpu_experts_step.c -------------------------------------------------- */

/* Where number i of a list lies; its value. */
struct ll_value *experts_word_at(struct experts_step *s, int64_t list,
				 struct ll_value *i);
struct ll_value *experts_list_word(struct experts_step *s, int64_t list,
			      struct ll_value *i);
/* From a number to the place in each dim. */
void experts_coords(struct ll *l, const struct cg_counted *d,
		    struct ll_value *i, struct ll_value **out);
/* Row `j` of an expert whose pairs begin at `first`: its offset in both
 * sources, in elements, and its place `at` by dim of the result, or NULL. */
void experts_find_row(struct experts_step *s, struct ll_value *first,
		 struct ll_value *j, struct ll_value *offset[2],
		 struct ll_value **at);
/* Copies `live` positions of a factor of a source, from `from` on. */
void experts_copy_part(struct experts_step *s, int which,
		  const struct cg_factor *f, struct ll_value *row,
		  struct ll_value *from, struct ll_value *live,
		  struct ll_value *to);
/* The product of packed blocks into the tile; added to it if `add`. */
void experts_multiply(struct experts_step *s, struct ll_value *rows,
		      struct ll_value *cols, struct ll_value *words,
		      struct ll_value *add);
/* Sets the tile to zero, if `cond`. */
void experts_clear_tile(struct experts_step *s, struct ll_value *cond);
void experts_begin_step(struct experts_step *s, struct experts *x,
		   const char *what, int64_t items);
/* Bytes of an element of a source. */
int64_t experts_elem_bytes(const struct experts *x, int which);
struct ll_value *experts_packer(struct experts *x, int which,
				const struct cg_factor *rows,
				const struct cg_factor *k);

/* Bytes of a worker's scratch: below 1 MiB, its second-level cache. */
#define EXPERTS_OWN ((int64_t)960 << 10)
/* Finds factor `first` and n; false: one of them is empty. */
bool experts_factors(struct experts *x, struct cg_factor *first);
/* The widest blocks of columns for which `fits` is true; false: none. */
bool experts_choose_columns(struct experts *x, bool (*fits)(struct experts *x));

/* ---- cpu_experts_at.c, cpu_experts_to.c: dot_at, dot_to ----------------- */

/* Chooses blocks and scratch.  False: something is empty, or too large. */
bool experts_plan_at(struct experts *x);
bool experts_plan_to(struct experts *x);
/* Emits the step after the sorting one.  False: *why, of the nodes that
 * follow the contraction. */
bool experts_emit_at(struct experts *x, const char **why);
bool experts_emit_to(struct experts *x, const char **why);

#endif
