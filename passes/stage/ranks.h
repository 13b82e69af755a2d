/*
 * Rank programs: which rank runs which function.  Built from what pass `stage`
 * emits; read by memory, price, check, sim, search and code generators.
 *
 * A staged module has no model, only layers without operands: for each stage
 * `stage0_forward` and either `stage0_backward`, or `stage0_input` and
 * `stage0_weights`; for each pipeline rank `pipe0_update`, which runs after all
 * microbatches.  The schedule states which pipeline rank holds which stage, and
 * the order of actions.  A rank has a coordinate on each axis except time; on
 * `pp` it is its pipeline rank.  Ranks are numbered in mesh order, the last
 * axis fastest.
 */
#ifndef PASSES_RANKS_H
#define PASSES_RANKS_H

#include "ir/ir.h"
#include "passes/sched/sched.h"

struct ranks {
	struct ir_module *m;
	const struct sched *sched;
	uint32_t npipes, nstages, nmicrobatches, nranks;
	/* 0: no function of this kind */
	func_id (*of_stage)[SCHED_NKINDS];
	func_id *update;	/* by pipeline rank; 0: none */
	VEC(value_id) sent;	/* values sent between pipeline ranks */
	struct kernels ***kernels;	/* found by ranks_kernels */
	struct memo *memo;	/* keeps what is found; or NULL */
	struct ranks_found *found;	/* in the memo; NULL: not kept */
	axis_id time, pp, dp, tp;	/* 0: not in the mesh */
};

/* The size of the schedule that fits functions and mesh. */
bool ranks_shape(struct ir_module *m, uint32_t *pipes, uint32_t *stages,
		 uint32_t *microbatches, const char **why);
/*
 * The schedule that the module's settings name: generated, or read from its
 * file and not checked.  It is allocated in the memo, which may be NULL, or in
 * arena a.  NULL after an error.
 */
struct sched *ranks_schedule(struct ir_module *m, struct memo *memo,
			     struct arena *a);
/*
 * Finds the functions that the schedule runs.  False: *why says where module
 * and schedule disagree.  The memo, which may be NULL, keeps results.
 */
bool ranks_open(struct ranks *r, struct ir_module *m, const struct sched *s,
		struct memo *memo, const char **why);
/* The module's kernels by function, found by the first call and then kept. */
struct kernels;
struct kernels *const *ranks_kernels(const struct ranks *r);
/* Finds the named axes of the mesh; of several axes of time the last. */
void ranks_find_axes(struct ranks *r);
/* Coordinates by axis; 0 on time and on unused axis numbers. */
void ranks_at(const struct ranks *r, uint32_t rank,
	      uint32_t at[IR_MAX_AXES + 1]);
uint32_t ranks_number(const struct ranks *r,
		      const uint32_t at[IR_MAX_AXES + 1]);
/* The rank's place in the pipeline. */
uint32_t ranks_pipe(const struct ranks *r, uint32_t rank);
/* The rank on `pipe` whose other coordinates are those of `rank`. */
uint32_t ranks_on_pipe(const struct ranks *r, uint32_t rank, uint32_t pipe);
/* The difference between the numbers of successive pipeline ranks. */
uint32_t ranks_apart(const struct ranks *r);
/*
 * The size of a group: ranks that differ only on these axes, bit a for axis a.
 */
uint32_t ranks_group_size(const struct ranks *r, uint32_t axes);
/* How many members of the group of rank 0 have a number below n. */
uint32_t ranks_group_below(const struct ranks *r, uint32_t axes, uint64_t n);
/* The i-th member, ascending: its number. */
uint32_t ranks_member(const struct ranks *r, uint32_t rank, uint32_t axes,
		      uint32_t i);
/* All members, `rank` included, ascending. */
void ranks_group(const struct ranks *r, uint32_t rank, uint32_t axes,
		 uint32_t *members);
/* "rank 3 (dp=0 tp=1)", in ctx->tmp. */
const char *ranks_text(const struct ranks *r, uint32_t rank);

/* ---- stage.c ------------------------------------------------------------ */

struct pass_ctx;

/*
 * The pass `stage` for some stages, by index; NULL: for all.  Their functions
 * are those of the pass; of all other stages functions are empty.
 */
bool stage_some(struct pass_ctx *p, struct ir_module *m, const bool *only);

/* ---- found.c: what was found of rank programs ---------------------------- */

struct memory;

struct ranks_found {
	struct kernels **kernels;	/* NULL: not found */
	struct memory *memory;	/* without a reserve; NULL: not yet */
};

/* What the memo has on these programs; NULL: the memo keeps nothing. */
struct ranks_found *ranks_found_of(const struct ranks *r, struct memo *memo);

#endif
