/*
 * Private to the files of checked code: the shadow of shared memory, and which
 * thread is ordered after which.
 */
#ifndef RT_EMULATE_SHADOW_H
#define RT_EMULATE_SHADOW_H

#include "runtime/emulate/emulate_inner.h"

enum {
	/* entries after those of threads: a copy, or products of a warpgroup */
	EMU_COPIERS = 32, EMU_GROUPS = 32,
	EMU_OTHERS = EMU_COPIERS + EMU_GROUPS,
	EMU_SUMS = 24,
	EMU_FENCES = 4		/* of a thread that are remembered */
};

/* A vector clock: of each thread, its clock when it was last known. Shared by
 * all threads that know the same, and then never changed. */
struct emu_past {
	int refs;
	struct emu_past *next;		/* when free */
	uint32_t at[];
};

/* A past that grows until it is given to the threads that waited. */
struct emu_grown {
	struct emu_past *all, *last;	/* last: what was added last */
};

/* The clocks of a thread's last fences, the newest first. */
struct emu_fences {
	uint32_t at[EMU_FENCES];
};

struct emu_sum {
	const char *p;
	int64_t bytes;
	bool pending, loaded;	/* by a tc_ld, not a product */
};

struct emu_knower {
	struct emu_past *past;
	/* the past at its last tc_fence_after; NULL: there was none */
	struct emu_past *tensor_past;
	uint32_t clock;
	struct emu_fences fenced, tensor_fenced;
	struct emu_sum sums[EMU_SUMS];
	int nsums;
	/* all of them lie between */
	const char *sums_from, *sums_to;
	/* by block: 1 + its clock when it last used that one's shared memory */
	uint32_t far[EMU_MAX_CLUSTER];
};

/* Four bytes of shared memory; a bit of a mask is a byte. */
struct emu_cell {
	uint32_t wclock, aclock, rclock[2];
	/* atomic: the thread of the last atomic */
	uint16_t writer, atomic, reader[2];
	uint16_t reading;		/* by wgmma and the copying unit */
	uint8_t wmask, amask, rmask[2], init;
	uint8_t filling;		/* by a copy under way */
	bool plain;		/* written, but not by the copying unit */
};

struct emu_shadow {
	struct emu_cell *cells[EMU_MAX_CLUSTER];
	int64_t cell_capacity[EMU_MAX_CLUSTER];
	struct emu_knower *knowers;
	int nknowers, knower_capacity;
	struct emu_past *free;
	int past_capacity; /* capacity of each free one, in entries */
	int n;				/* entries: threads and others */
	bool has_sums;			/* a thread has some, in this launch */
	uint32_t clocks[EMU_OTHERS];
	/* by block: barriers, and mbarriers' current and last phases */
	struct emu_grown (*bars)[EMU_BARRIERS];
	struct emu_grown (*mbars)[EMU_MBARS];
	struct emu_past *(*over)[EMU_MBARS];
	struct {
		uint16_t who;
		uint32_t clock;
	} (*made)[EMU_MBARS];
	int block_capacity;
	struct emu_grown cluster[2];	/* by parity of the phase */
	/* the last two pasts that were merged, and the result */
	struct emu_past *join_a, *join_b, *joined;
};

/* Called for each access, so they are inline. */
static inline int
emu_index(const struct rt_emu *e, const struct emu_task *t)
{
	return t->seen.cluster_rank * e->blocks[0].ntasks + t->seen.tid;
}

static inline struct emu_knower *
emu_knower(const struct rt_emu *e, const struct emu_task *t)
{
	return &e->shadow->knowers[emu_index(e, t)];
}

/* Whether the thread is ordered after what `who` did at that clock. */
static inline bool
emu_knows(const struct rt_emu *e, const struct emu_task *t, int who,
	  uint32_t clock)
{
	int self = emu_index(e, t);

	return who == self || e->shadow->knowers[self].past->at[who] >= clock;
}

/*
 * Whether the thread is ordered after a fence that `who` executed at that clock
 * or later: one that comes after a barrier orders nothing for those who waited
 * there (PTX ISA, "Causality order"; Lustig, Cooksey, Giroux, "Mixed-proxy
 * extensions for the NVIDIA PTX memory consistency model", ISCA 2022: a fence
 * between proxies is on the way from one access to the other).  What is older
 * than all fences that are remembered may have been followed by another one.
 */
static inline bool
emu_knows_fence(const struct rt_emu *e, const struct emu_task *t, int who,
		const struct emu_fences *f, uint32_t clock)
{
	int i;

	for (i = 0; i < EMU_FENCES && f->at[i] >= clock; i++) {
		if (emu_knows(e, t, who, f->at[i])) {
			return true;
		}
	}
	return i == EMU_FENCES;
}

enum rt_status emu_past_open(struct rt_emu *e, struct rt_error *err);
void emu_past_start(struct rt_emu *e);
void emu_past_free(struct rt_emu *e);
/* A new clock of a copy or a warpgroup's products, by the mbarrier or warp that
 * signals it. */
uint32_t emu_past_tick(struct rt_emu *e, int other);
/* Its clock now. */
uint32_t emu_past_now(const struct rt_emu *e, int other);
/* What the thread knows now, to be kept and to be given back; adds it and the
 * other's clock to the mbarrier's current phase. */
struct emu_past *emu_past_hold(struct rt_emu *e, const struct emu_task *t);
void emu_past_drop(struct rt_emu *e, struct emu_past **p);
void emu_past_products(struct rt_emu *e, struct emu_mbar *m,
		       const struct emu_past *p, int other);
/* The thread executes a fence, one of these. */
void emu_past_fenced(struct rt_emu *e, const struct emu_task *t,
		     struct emu_fences *f);
/* The thread executes tc_fence_after. */
void emu_past_fence(struct rt_emu *e, const struct emu_task *t);
/* From now on the thread is ordered after it. */
void emu_past_learn(struct rt_emu *e, struct emu_task *t, int other,
		    uint32_t clock);
int emu_copier(const struct rt_emu *e, const struct emu_mbar *m);
int emu_group(struct rt_emu *e, const struct emu_warp *w);

#endif
