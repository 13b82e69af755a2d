/*
 * Rank programs: which rank runs which function.  Made by pass `stage`; read by
 * memory, price, check, sim, search and code generators.
 *
 * A staged module has no model but layers without operands: for each stage
 * `stage0_forward` and either `stage0_backward`, or `stage0_input` and
 * `stage0_weights`; for each rank of the pipeline `pipe0_update`, which runs
 * after all microbatches.  A schedule states which rank of the pipeline holds
 * which stage, and in which order.  A rank has a coordinate on the axis `pp`,
 * its rank of the pipeline, and on each other axis except time; its number
 * counts them in the order of the mesh, the last axis fastest.
 */
#ifndef PASSES_RANKS_H
#define PASSES_RANKS_H

#include "ir/ir.h"
#include "passes/sched/sched.h"

struct ranks {
	struct ir_module *m;
	const struct sched *sched;
	uint32_t npipes, nstages, nmicrobatches, nranks;
	func_id (*of_stage)[SCHED_NKINDS];	/* 0: not run in this kind */
	func_id *update;	/* by rank of the pipeline; 0: none */
	VEC(value_id) sent;	/* from rank to rank of the pipeline */
	struct kernels ***kernels;	/* see ranks_kernels */
	struct memo *memo;	/* of what is found of them; or NULL */
	struct ranks_found *found;	/* there; NULL: nothing is kept */
	axis_id time, pp, dp, tp;	/* 0: the mesh has none */
};

/* The size of the schedule that functions and mesh need. */
bool ranks_shape(struct ir_module *m, uint32_t *pipes, uint32_t *stages,
		 uint32_t *microbatches, const char **why);
/*
 * The schedule of rank programs, as their settings name it: made, or read
 * from its file and not checked; in the memo, which may be NULL, or in arena
 * a.  NULL after an error.
 */
struct sched *ranks_schedule(struct ir_module *m, struct memo *memo,
			     struct arena *a);
/*
 * Finds the functions that the schedule runs.  False: *why says what module
 * and schedule do not agree on.  The memo keeps what is found of them; it may
 * be NULL.
 */
bool ranks_open(struct ranks *r, struct ir_module *m, const struct sched *s,
		struct memo *memo, const char **why);
/*
 * The kernels of the module by function, as they were when first asked for.
 */
struct kernels;
struct kernels *const *ranks_kernels(const struct ranks *r);
/* Sets which of the mesh's axes are which; of time the last, if several are. */
void ranks_find_axes(struct ranks *r);
/* Coordinates by axis; 0 on time, and where there is no axis. */
void ranks_at(const struct ranks *r, uint32_t rank,
	      uint32_t at[IR_MAX_AXES + 1]);
uint32_t ranks_number(const struct ranks *r,
		      const uint32_t at[IR_MAX_AXES + 1]);
/* Its place in the pipeline. */
uint32_t ranks_pipe(const struct ranks *r, uint32_t rank);
/* The rank with the same other coordinates there. */
uint32_t ranks_on_pipe(const struct ranks *r, uint32_t rank, uint32_t pipe);
/* From its number to that of the next one in its pipeline. */
uint32_t ranks_apart(const struct ranks *r);
/* How many ranks differ from one another only on these axes, bit a each. */
uint32_t ranks_group_size(const struct ranks *r, uint32_t axes);
/* Of those that differ from rank 0, it among them: how many are below n. */
uint32_t ranks_group_below(const struct ranks *r, uint32_t axes, uint64_t n);
/* The i-th of those, ascending. */
uint32_t ranks_member(const struct ranks *r, uint32_t rank, uint32_t axes,
		      uint32_t i);
/* All of them, itself too, in that order. */
void ranks_group(const struct ranks *r, uint32_t rank, uint32_t axes,
		 uint32_t *members);
/* "rank 3 (dp=0 tp=1)", in ctx->tmp. */
const char *ranks_text(const struct ranks *r, uint32_t rank);

/* ---- found.c: what was found of rank programs ---------------------------- */

struct memory;

struct ranks_found {
	struct kernels **kernels;	/* NULL: not yet */
	struct memory *memory;	/* without a reserve; the same */
};

/* What the memo has of these programs as they stand; NULL: it keeps none. */
struct ranks_found *ranks_found_of(const struct ranks *r, struct memo *memo);

#endif
