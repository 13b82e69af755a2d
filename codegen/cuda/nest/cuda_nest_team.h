/*
 * Who computes a row of a nest on a GPU: cuda_nest_rows.c chooses,
 * cuda_nest_pass.c writes what they do.
 */
#ifndef CODEGEN_CUDA_NEST_TEAM_H
#define CODEGEN_CUDA_NEST_TEAM_H

#include "codegen/cuda/nest/cuda_nest.h"

enum cu_team_kind {
	CU_ONE,			/* a thread: as many rows as it has lanes */
	CU_WARP,		/* the lanes of a warp */
	CU_BLOCK,		/* all threads of a block */
	/* threads of one lane in all warps, so that rows lie side by side */
	CU_STRIPS
};

struct cu_team {
	enum cu_team_kind kind;
	int64_t members;
	const char *me;		/* number of the member */
	const char *live;	/* if this is not so, nothing is put; NULL */
	const char *item;	/* of parts of sums; NULL */
	const char **part;	/* by root: its sum in registers */
};

/* ---- cuda_nest_pass.c ---- */

/* All passes of the row at hand. */
void cu_passes(struct cu_emit *e, const struct cu_team *t);
/* Registers that several passes of each row read from. */
void cu_keep(struct cu_emit *e, const struct cu_team *t);
/* Elements of a pass, and how many of them a member has at once. */
int64_t cu_pass_elems(const struct cu_emit *e, const struct nest_pass *p);
uint32_t cu_pass_lanes(struct cu_emit *e, const struct nest_pass *p);
/* Trips of a member's loop if they are few; 0: many. */
int64_t cu_pass_trips(struct cu_emit *e, const struct nest_pass *p,
		      const struct cu_team *t);
/* Registers of a member for a part of a sum in that pass; 0: too many. */
int64_t cu_part_sums(struct cu_emit *e, const struct nest_pass *p,
		     const struct cu_team *t);
/* Puts a sum that was in registers in all rows into the item's part. */
void cu_part_end(struct cu_emit *e, const struct cu_team *t,
		 const struct nest_pass *p, uint32_t root, const char *sum);
/* Declares a sum, adds to it, has the team's: named s12. */
void cu_sum_begin(struct cu_emit *e, nest_id id);
void cu_sum_add(struct cu_emit *e, nest_id id);
void cu_sum_end(struct cu_emit *e, nest_id id, enum cu_team_kind team);

#endif
