/*
 * Pipeline schedules as data: which actions each rank runs, and in which order.
 * Stages 0 to S-1 follow each other in the model; rank_of gives the pipeline
 * rank that holds each. A schedule does not depend on the model, so this folder
 * includes only ir/base.h. Its callers are plan, stage, price, search, check
 * and the driver. See docs/schedule.md.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_SCHED_H
#define PASSES_SCHED_H

#include "ir/base.h"

/*
 * The work of a stage on a microbatch has these parts; a kind of action does
 * one or more of them.
 */
enum sched_part {
	SCHED_FORWARD = 1 << 0,
	SCHED_INPUT = 1 << 1,	/* the gradient of the stage's input */
	SCHED_WEIGHTS = 1 << 2,	/* the gradient of its weights */
	SCHED_ALL = (1 << 3) - 1
};
#define SCHED_NPARTS 3

/*
 * KIND(letter, does, here, before, after, what it is): the parts that an action
 * of this kind does, and the parts that its own stage, the stage before and the
 * stage after must have done for the same microbatch. The first and last stage
 * need nothing from the neighbour they lack. A new kind is one more row.
 */
#define SCHED_KINDS(KIND) \
	KIND(F, SCHED_FORWARD, 0, SCHED_FORWARD, 0, "the forward") \
	KIND(B, SCHED_INPUT | SCHED_WEIGHTS, SCHED_FORWARD, 0, SCHED_INPUT, \
	     "the whole backward") \
	KIND(I, SCHED_INPUT, SCHED_FORWARD, 0, SCHED_INPUT, \
	     "the gradient of the input") \
	KIND(W, SCHED_WEIGHTS, SCHED_INPUT, 0, 0, \
	     "the gradient of the weights")

enum sched_kind {
#define KIND(letter, does, here, before, after, what) SCHED_##letter,
	SCHED_KINDS(KIND)
#undef KIND
	SCHED_NKINDS
};

struct sched_kind_info {
	const char *letter;
	uint8_t does, here, before, after;	/* enum sched_part */
	const char *what;
};

struct sched_action {
	uint8_t kind;		/* enum sched_kind */
	uint32_t stage, microbatch;
	struct span span;	/* its cell in a file, or {0,0} */
};

struct sched_list {
	VEC(struct sched_action) actions;	/* in running order */
};

struct sched_def;

struct sched {
	uint32_t nranks, nstages, nmicrobatches;
	/* the named schedule that this is, unchanged, or NULL */
	const struct sched_def *def;
	uint32_t *rank_of;		/* by stage */
	struct sched_list *ranks;	/* by rank */
};

#define SCHED_MAX_RANKS 4096
#define SCHED_MAX_STAGES 16384
#define SCHED_MAX_MICROBATCHES (1 << 20)
#define SCHED_MAX_CELLS (1 << 22)	/* stages times microbatches */

/* ---- sched.c: kinds of action, and lists of them ---------------------- */

extern const struct sched_kind_info sched_kinds[SCHED_NKINDS];

/* A schedule without actions, with every stage on rank 0. */
struct sched *sched_new(struct arena *a, uint32_t nranks, uint32_t nstages,
			uint32_t nmicrobatches);
/*
 * Reserves memory for n actions of a rank. Adding more is allowed, but slower.
 */
void sched_reserve(struct arena *a, struct sched *s, uint32_t rank,
		   uint32_t n);
/*
 * Appends an action to the rank's list. Its numbers must be within the
 * schedule.
 */
void sched_add(struct arena *a, struct sched *s, uint32_t rank,
	       struct sched_action action);
/* How often a stage runs each kind of action. */
struct sched_times {
	uint32_t of[SCHED_NKINDS];
};

/*
 * The counts by stage, in arena a. For a named schedule they are known without
 * reading the actions.
 */
struct sched_times *sched_times(struct arena *a, const struct sched *s);
/* Whether any stage runs that kind. */
bool sched_has_kind(const struct sched *s, const struct sched_times *n,
		    uint32_t kind);
/* By stage, the kind of its first action that gives gradients of its weights;
 * in arena a. */
uint8_t *sched_first_weights(struct arena *a, const struct sched *s);
/* "2F0", as in a cell of a file. */
const char *sched_name(struct arena *a, const struct sched_action *action);

/* One part of one stage's work on a microbatch. */
struct sched_need {
	uint32_t stage;
	uint32_t part;		/* bit number in enum sched_part */
};
#define SCHED_MAX_NEEDS (3 * SCHED_NPARTS)
/*
 * Lists what the action waits for, the needs on its own stage first; returns
 * how many.
 */
uint32_t sched_needs(const struct sched *s, const struct sched_action *action,
		     struct sched_need need[SCHED_MAX_NEEDS]);

/* "4 ranks, 1 stage, 8 microbatches" */
const char *sched_shape_text(struct arena *a, uint32_t nranks,
			     uint32_t nstages, uint32_t nmicrobatches);

/* ---- sched_make.c: the named schedules --------------------------------- */

struct sched_maker;

/*
 * The number of microbatches after which the order of actions repeats, once the
 * pipeline is full.
 */
enum sched_repeats {
	SCHED_NEVER, /* it does not: all microbatches are held at once */
	SCHED_EACH,		/* 1 */
	SCHED_GROUP		/* the number of ranks */
};

struct sched_def {
	const char *name;
	void (*order)(struct sched_maker *k); /* orders one rank */
	uint32_t min_chunks, max_chunks;	/* stages per rank; 0: any */
	bool split;		/* it runs I and W instead of B */
	bool vshape;		/* the stages go down the ranks and back up */
	uint8_t repeats;	/* enum sched_repeats */
	/*
	 * microbatches per rank, roughly, in the head and tail of the order,
	 * which do not repeat
	 */
	uint8_t ends;
	const char *purpose;	/* one line */
};

extern const struct sched_def sched_defs[];
extern const uint32_t sched_ndefs;

const struct sched_def *sched_find(const char *name);
/*
 * Why this schedule cannot be made with these numbers, as a message; NULL if it
 * can.
 */
const char *sched_why_not(struct arena *a, const char *name, uint32_t nranks,
			  uint32_t chunks, uint32_t nmicrobatches);
/*
 * The named schedule, which always passes sched_check. NULL if it cannot be
 * made with these numbers; *why is then a message that names legal ones.
 */
struct sched *sched_make(struct arena *a, const char *name, uint32_t nranks,
			 uint32_t chunks, uint32_t nmicrobatches,
			 const char **why);

/* ---- sched_run.c: when each action runs -------------------------------- */

/* Costs of one stage, in microseconds. */
struct sched_cost {
	double us[SCHED_NKINDS];
	/*
	 * Time from the end of an action until the next stage can use its
	 * result, and likewise from the next stage back to this one. It does
	 * not count where both stages are on one rank.
	 */
	double hop_us;
	/* what the first action of the stage that gives gradients of its
	 * weights does not take; it may be below zero */
	double less_us;
};

struct sched_event {
	double start_us, end_us;
};

struct sched_place {
	uint32_t rank, at;	/* rank UINT32_MAX: none */
};

struct sched_timeline {
	/* by rank and index in its list; NULL after sched_span */
	struct sched_event **events;
	uint32_t *done;		/* by rank: actions that ran */
	double *begin_us, *end_us;	/* by rank: first start, last end */
	double *busy_us;	/* by rank */
	double *idle;		/* by rank: fraction of the makespan */
	double makespan_us;	/* from 0 to the last end */
	double longest_us; /* longest of any rank, first start to last end */
	struct sched_place *doer;	/* set by sched_find_doers */
};

/*
 * Computes the time of each action. Each rank runs its list in order; an action
 * starts once its rank is free and what it needs has arrived. Sending takes the
 * sender no time. `costs` is by stage; NULL: every action takes 1 and a hop 0.
 * False if a rank can never go on; the timeline then has what ran before.
 */
bool sched_time(struct arena *a, const struct sched *s,
		const struct sched_cost *costs, struct sched_timeline *t);
/* Like sched_time, but without events. */
bool sched_span(struct arena *a, const struct sched *s,
		const struct sched_cost *costs, struct sched_timeline *t);
/* Sets t->doer, the table that sched_doer reads. */
void sched_find_doers(struct arena *a, const struct sched *s,
		      struct sched_timeline *t);
/* Where the first action is that does that part for the microbatch. */
struct sched_place sched_doer(const struct sched *s,
			      const struct sched_timeline *t,
			      struct sched_need need, uint32_t microbatch);
/*
 * The fraction of its time that an average rank idles if steps follow each
 * other and no rank waits for the slowest: the bubble rate of the zero-bubble
 * papers. If rank 0 works both first and last, as with GPipe and 1F1B, it is
 * the idle fraction of the makespan.
 */
double sched_bubble(const struct sched *s, const struct sched_timeline *t);

/* ---- sched_brief.c: the makespan again, with other costs --------------- */

/*
 * How many microbatches are enough to count the slots of that schedule. With
 * *times > 0, the slots that the last of these adds are to be added *times
 * more.
 */
uint32_t sched_held_of(const struct sched_def *def, uint32_t nranks,
		       uint32_t chunks, uint32_t nmicrobatches,
		       uint32_t *times);

/*
 * A shorter schedule whose ranks hold as much at any time, because it only
 * lacks some windows of the repeating middle. Each action left out has a
 * counterpart in it, with as many microbatches of each stage between any two of
 * their parts. It is in arena a, or it is `s` itself.
 */
const struct sched *sched_holding(struct arena *a, const struct sched *s);

struct memo;

/* The state of repeated calls of sched_makespan. */
struct sched_briefs {
	struct memo *memo;	/* of earlier results; may be NULL */
	uint64_t steps;		/* simulated so far, for statistics */
};

/*
 * The makespan that sched_span computes for the named schedule, to twelve
 * digits, without running microbatches that only repeat others. False: it
 * stalls, or there is no such schedule.
 */
bool sched_makespan(struct sched_briefs *all, struct arena *a,
		    const struct sched_def *def, uint32_t nranks,
		    uint32_t chunks, uint32_t nmicrobatches,
		    const struct sched_cost *costs, double *us);

/* ---- sched_check.c: can it run, and how much is kept ------------------ */

enum sched_fault {
	SCHED_NOTE,		/* explains the remark before it */
	SCHED_WRONG_RANK,	/* another rank holds the stage */
	SCHED_TWICE,		/* an earlier action did this work */
	SCHED_MISSING,		/* no action does it; at = the list's end */
	SCHED_STALL		/* what it needs never comes */
};

struct sched_remark {
	enum sched_fault fault;
	uint32_t rank, at;	/* counted from 0; the text counts from 1 */
	struct span span;
	const char *text;
};

struct sched_verdict {
	VEC(struct sched_remark) remarks; /* empty: the schedule can run */
	/*
	 * if it can run, by rank: the most microbatches at any time whose
	 * forward has run and whose backward has not
	 */
	uint32_t *peak;
	uint32_t *stage_peak;	/* likewise, by stage */
};

/*
 * Checks that every stage does every microbatch exactly once, on its own rank,
 * and that all ranks reach their end although each waits for what its next
 * action needs. The order is looked at only once the rest is right.
 */
bool sched_check(struct arena *a, const struct sched *s,
		 struct sched_verdict *v);
/* Reports the remarks as errors and notes. */
void sched_report(struct diags *d, const struct sched_verdict *v);

/* ---- sched_csv.c: the format of PyTorch's pipelining ------------------- */

/* What reading ignored, for a message to the user. */
struct sched_left {
	uint32_t idle;		/* empty cells before a row's last action */
	uint32_t transfers;	/* SEND_F, RECV_F, SEND_B, RECV_B */
	uint32_t sharding;	/* UNSHARD, RESHARD, REDUCE_GRAD */
	uint32_t overlaps;	/* (0F7;7B3)OVERLAP_F_B: read as 0F7, 7B3 */
};

/*
 * Reads a file of the source map. The ranks, stages and microbatches follow
 * from the cells: a stage belongs to the rank that does most of its actions.
 * NULL after errors. The result has not passed sched_check. `left` may be NULL.
 */
struct sched *sched_read(struct arena *a, struct diags *d, uint32_t file,
			 struct sched_left *left);
/* "left out: 3 transfers (SEND, RECV), ...", or NULL if nothing was. */
const char *sched_left_text(struct arena *a, const struct sched_left *left);
/*
 * Prints one row per rank. With all actions one step long, an empty cell is a
 * step in which the rank waits, so each action stands to the right of all it
 * needs. A schedule that cannot run is printed without empty cells.
 */
void sched_print(const struct sched *s, struct buf *out);

/* ---- sched_draw.c ------------------------------------------------------ */

/* A drawing for a terminal of 80 columns; s has passed sched_check. */
void sched_draw(const struct sched *s, struct buf *out);

#endif
