/*
 * emulate_shadow.h - private to runtime/emulate/emulate_check.c and
 * emulate_past.c: what checked code remembers of shared memory, and who knows
 * of whom.
 */
#ifndef RT_EMULATE_SHADOW_H
#define RT_EMULATE_SHADOW_H

#include "runtime/emulate/emulate_inner.h"

enum {
	/* whom a copy or a warpgroup's products are: beside the threads */
	EMU_COPIERS = 32, EMU_GROUPS = 32,
	EMU_OTHERS = EMU_COPIERS + EMU_GROUPS,
	EMU_SUMS = 24
};

/*
 * What somebody has seen: of each thread, all that it did before its clock
 * stood there.  Shared by all who have seen the same, and then not changed.
 */
struct emu_past {
	int refs;
	struct emu_past *next;		/* when free */
	uint32_t at[];
};

/* Past that grows until it is given to those who waited for it. */
struct emu_grown {
	struct emu_past *all, *last;	/* last: what was added last */
};

struct emu_sum {
	const char *p;
	int64_t bytes;
	bool pending;
};

struct emu_knower {
	struct emu_past *past;
	uint32_t clock, fenced;
	struct emu_sum sums[EMU_SUMS];
	int nsums;
};

/* Four bytes of shared memory; bits of a mask are bytes. */
struct emu_cell {
	uint32_t wclock, aclock, rclock[2];
	uint16_t writer, atomic, reader[2];	/* atomic: by whom, last */
	uint16_t reading;		/* by wgmma and the copying unit */
	uint8_t wmask, amask, rmask[2], init;
	uint8_t filling;		/* by a copy that is not there yet */
	bool plain;		/* not by the copying unit */
};

struct emu_shadow {
	struct emu_cell *cells[EMU_MAX_CLUSTER];
	int64_t cell_room[EMU_MAX_CLUSTER];
	struct emu_knower *knowers;
	int nknowers, knower_room;
	struct emu_past *free;
	int past_room;			/* entries of each that is free */
	int n;				/* entries: threads and others */
	uint32_t clocks[EMU_OTHERS];
	/* by block: barriers, mbarriers that run and that are over */
	struct emu_grown (*bars)[EMU_BARRIERS];
	struct emu_grown (*mbars)[EMU_MBARS];
	struct emu_past *(*over)[EMU_MBARS];
	struct {
		uint16_t who;
		uint32_t clock;
	} (*made)[EMU_MBARS];
	int block_room;
	struct emu_grown cluster[2];	/* by parity of the phase */
	/* the last two that were joined, and what came of it */
	struct emu_past *join_a, *join_b, *joined;
};

struct emu_knower *emu_knower(struct rt_emu *e, const struct emu_task *t);
int emu_index(struct rt_emu *e, const struct emu_task *t);
/* Whether the thread has seen what `who` did until its clock stood there. */
bool emu_knows(struct rt_emu *e, const struct emu_task *t, int who,
	       uint32_t clock);
enum rt_status emu_past_open(struct rt_emu *e, struct rt_error *err);
void emu_past_start(struct rt_emu *e);
void emu_past_free(struct rt_emu *e);
/* A new moment of a copier or a warpgroup; mbarrier or warp it is told by. */
uint32_t emu_past_tick(struct rt_emu *e, int other);
/* The thread knows of it from now on. */
void emu_past_learn(struct rt_emu *e, struct emu_task *t, int other,
		    uint32_t clock);
int emu_copier(const struct rt_emu *e, const struct emu_mbar *m);
int emu_group(struct rt_emu *e, const struct emu_warp *w);

#endif
