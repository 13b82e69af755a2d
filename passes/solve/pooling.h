/*
 * Pools of slots: for each stage one of several ways, which take time and need
 * a slot of some size.  Stages may share a pool, whose slots are all as large
 * as its largest and as many as they hold at once.  All pools together have to
 * fit, with what the stage that needs most needs beside them for a while, and
 * the time is to be least.
 */
#ifndef PASSES_SOLVE_POOLING_H
#define PASSES_SOLVE_POOLING_H

#include "ir/base.h"

struct memo;

#define POOLING_STAGES 8	/* sets of them are looked at */

/*
 * What a stage takes with a way, against one of them: it may be less than
 * nothing.  And the size of its slots, and what it needs for a while.
 */
struct pooling_way {
	double us, size, temp;
	uint32_t nth;		/* the caller's number of it */
};

/* The ways of a stage: in any order, or to pooling_share sorted. */
struct pooling_ways {
	const struct pooling_way *at;
	uint32_t n;
	uint32_t parts;		/* each takes its part of the time */
};

struct pooling {
	/* by stage; stages that are alike have the same ways->at */
	struct pooling_ways ways[POOLING_STAGES];
	uint32_t n;
	/* by set of stages, as bits: the slots that they hold at once */
	const uint32_t *slots;
	double room;		/* bytes of all pools, and of a while */
	double near_us;		/* times that are so near are as good */
	/* partial answers of a set of stages; 0: one of the answers that are
	 * met while the bound is found */
	uint32_t most;
	/* the slowest part is to be as quick as it can be, before all else */
	bool evenly;
	/*
	 * Whether ways, by their numbers, fit indeed: pools that are laid out
	 * may be others.  Called for answers in the order of their time.  Of
	 * the last that fit it sets `taken`, which is the caller's.
	 */
	bool (*fits)(void *user, const uint32_t *nth);
	void *user;
	double taken;
	/*
	 * Answers are kept in the memo, which may be NULL.  `key` is a hash of
	 * what `fits` follows from beside all this.
	 */
	struct memo *memo;
	struct hash key;
	/* set to a bound: no other answer that is better by near_us takes less;
	 * INFINITY: there is none */
	double left_us;
	bool none;		/* set: no pools have room, whatever the ways */
	/* added to: the partial answers that were looked at */
	uint64_t looked;
};

/*
 * Removes ways that are no better than another in time and slots; sorts the
 * others, the quickest first.
 */
uint32_t pooling_sort(struct pooling_way *at, uint32_t n);
/*
 * Sets the number of a way for each stage, so that they fit and no others take
 * less by more than near_us, unless these take left_us and more.  False: none
 * are found.  Temporary memory is in arena a.
 */
bool pooling_choose(struct arena *a, struct pooling *x, uint32_t *nth);
/* The same of sorted ways that need nothing for a while. */
bool pooling_share(struct arena *a, struct pooling *x, uint32_t *nth);

#endif
