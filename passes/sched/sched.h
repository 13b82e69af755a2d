/*
 * Pipeline schedules as data: what each rank runs, and in which order.  Stages
 * 0 ..  S-1 of the model follow each other; rank_of maps each to the rank of
 * the pipeline that holds it. docs/schedule.md describes them.  A schedule does
 * not depend on the model: this folder includes ir/base.h only.  Called by
 * plan, stage, price, search, check and the driver.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_SCHED_H
#define PASSES_SCHED_H

#include "ir/base.h"

/*
 * The parts of the work of a stage on a microbatch; a kind of action does some
 * of them.
 */
enum sched_part {
	SCHED_FORWARD = 1 << 0,
	SCHED_INPUT = 1 << 1,	/* the gradient of the stage's input */
	SCHED_WEIGHTS = 1 << 2,	/* the gradient of its weights */
	SCHED_ALL = (1 << 3) - 1
};
#define SCHED_NPARTS 3

/*
 * KIND(letter, does, here, before, after, what it is): the parts that it
 * does, and those that its own stage, the one before and the one after must
 * have done for the same microbatch.  The ends of the pipeline need nothing
 * of the neighbour they lack.  A new kind is one row.
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
	struct span span;	/* its cell; {0,0} if it came from no file */
};

struct sched_list {
	VEC(struct sched_action) actions;	/* in running order */
};

struct sched_def;

struct sched {
	uint32_t nranks, nstages, nmicrobatches;
	/* the named schedule that it is, unchanged; NULL: another one */
	const struct sched_def *def;
	uint32_t *rank_of;		/* by stage */
	struct sched_list *ranks;	/* by rank */
};

#define SCHED_MAX_RANKS 4096
#define SCHED_MAX_STAGES 16384
#define SCHED_MAX_MICROBATCHES (1 << 20)
#define SCHED_MAX_CELLS (1 << 22)	/* stages times microbatches */

/* ---- sched.c: the kinds, and schedules without a meaning -------------- */

extern const struct sched_kind_info sched_kinds[SCHED_NKINDS];

/* No actions yet, and every stage on rank 0. */
struct sched *sched_new(struct arena *a, uint32_t nranks, uint32_t nstages,
			uint32_t nmicrobatches);
/* Reserves memory for so many actions of a rank; more are slower. */
void sched_reserve(struct arena *a, struct sched *s, uint32_t rank,
		   uint32_t n);
/*
 * Appends an action to the rank's list.  Its numbers must be of this schedule.
 */
void sched_add(struct arena *a, struct sched *s, uint32_t rank,
	       struct sched_action action);
/* How often each kind of a stage runs. */
struct sched_times {
	uint32_t of[SCHED_NKINDS];
};

/* Counts by stage, in arena a.  For a named schedule no actions are read. */
struct sched_times *sched_times(struct arena *a, const struct sched *s);
/* "2F0", as in a cell of a file. */
const char *sched_name(struct arena *a, const struct sched_action *action);

/* One part of one stage's work on a microbatch. */
struct sched_need {
	uint32_t stage;
	uint32_t part;		/* 0 .. SCHED_NPARTS-1: the bit's number */
};
#define SCHED_MAX_NEEDS (3 * SCHED_NPARTS)
/* Sets what the action waits for, its own stage's first; returns how many. */
uint32_t sched_needs(const struct sched *s, const struct sched_action *action,
		     struct sched_need need[SCHED_MAX_NEEDS]);

/* ---- sched_make.c: the schedules that have a name --------------------- */

struct sched_maker;

/* After how many microbatches the order repeats, once the pipeline is full. */
enum sched_repeats {
	SCHED_NEVER,		/* never: all microbatches are held */
	SCHED_EACH,		/* each */
	SCHED_GROUP		/* as many as there are ranks */
};

struct sched_def {
	const char *name;
	void (*order)(struct sched_maker *k);	/* of one rank */
	uint32_t min_chunks, max_chunks;	/* stages per rank; 0: any */
	bool split;		/* runs I and W, not B */
	bool vshape;		/* the stages go down the ranks and back up */
	uint8_t repeats;	/* enum sched_repeats */
	/*
	 * before and after it repeats: about so many microbatches for each rank
	 */
	uint8_t ends;
	const char *purpose;	/* one line */
};

extern const struct sched_def sched_defs[];
extern const uint32_t sched_ndefs;

/* NULL if there is none of that name. */
const struct sched_def *sched_find(const char *name);
/* Why there is none of that name for these numbers, or NULL. */
const char *sched_why_not(struct arena *a, const char *name, uint32_t nranks,
			  uint32_t chunks, uint32_t nmicrobatches);
/*
 * The named schedule; it always passes sched_check.  NULL if there is none for
 * these numbers: *why is a message that names legal ones.
 */
struct sched *sched_make(struct arena *a, const char *name, uint32_t nranks,
			 uint32_t chunks, uint32_t nmicrobatches,
			 const char **why);

/* ---- sched_run.c: when everything happens ----------------------------- */

/* Costs of one stage, in microseconds. */
struct sched_cost {
	double us[SCHED_NKINDS];
	/*
	 * Time from the end of work here until the next stage can use its
	 * result, and the same on the way back; 0 if both stages are on one
	 * rank.
	 */
	double hop_us;
};

struct sched_event {
	double start_us, end_us;
};

struct sched_place {
	uint32_t rank, at;	/* rank UINT32_MAX: nowhere */
};

struct sched_timeline {
	/* by rank and index in its list; NULL with sched_span */
	struct sched_event **events;
	uint32_t *done;		/* by rank: actions that ran */
	double *begin_us, *end_us;	/* by rank: of all that ran */
	double *busy_us;	/* by rank */
	double *idle;		/* by rank: part of the makespan, 0 .. 1 */
	double makespan_us;	/* from 0 to the last end */
	double longest_us;	/* of any rank from its first to its last */
	struct sched_place *doer;	/* of sched_find_doers */
};

/*
 * Runs all ranks, each in its own order: an action starts once its rank is free
 * and what it needs has arrived.  Sending takes the sender no time.  `costs` is
 * by stage; NULL: every action takes 1 and hops 0.  False if a rank never can
 * go on; the timeline then has what ran before.
 */
bool sched_time(struct arena *a, const struct sched *s,
		const struct sched_cost *costs, struct sched_timeline *t);
/* The same without events. */
bool sched_span(struct arena *a, const struct sched *s,
		const struct sched_cost *costs, struct sched_timeline *t);
/* Sets t->doer, the table that sched_doer reads. */
void sched_find_doers(struct arena *a, const struct sched *s,
		      struct sched_timeline *t);
/* The place of the first action that does that part of the microbatch. */
struct sched_place sched_doer(const struct sched *s,
			      const struct sched_timeline *t,
			      struct sched_need need, uint32_t microbatch);
/*
 * The part of its time that a rank idles if steps follow each other without
 * waiting for the slowest rank, 0 .. 1: the bubble rate of zero-bubble papers.
 * Where rank 0 works both first and last, as with GPipe and 1F1B, it is the
 * idle part of the makespan.
 */
double sched_bubble(const struct sched *s, const struct sched_timeline *t);

/* ---- sched_brief.c: the same again, with other costs ------------------- */

/*
 * The number of microbatches for which slots are to be counted to find those of
 * that schedule; *times: how often what the last of these adds is to be added
 * again.
 */
uint32_t sched_held_of(const struct sched_def *def, uint32_t nranks,
		       uint32_t chunks, uint32_t nmicrobatches,
		       uint32_t *times);

/*
 * A shorter schedule whose ranks hold as much at any time: it lacks some
 * windows of those that repeat.  Each action left out has a like one in it,
 * with as many microbatches of each stage between any two of their parts.  In
 * arena a, or `s` itself.
 */
const struct sched *sched_holding(struct arena *a, const struct sched *s);

struct memo;

/* For sched_makespan again and again. */
struct sched_briefs {
	struct memo *memo;	/* of what was found before; or NULL */
	uint64_t steps;		/* that were run till now */
};

/*
 * The makespan that sched_span has for the named schedule, to twelve digits,
 * without running microbatches that only repeat others.  False: it stalls, or
 * there is none.
 */
bool sched_makespan(struct sched_briefs *all, struct arena *a,
		    const struct sched_def *def, uint32_t nranks,
		    uint32_t chunks, uint32_t nmicrobatches,
		    const struct sched_cost *costs, double *us);

/* ---- sched_check.c: can it run, and what must be kept ----------------- */

enum sched_fault {
	SCHED_NOTE,		/* belongs to the fault before it */
	SCHED_WRONG_RANK,	/* the stage is another rank's */
	SCHED_TWICE,		/* the work was done before */
	SCHED_MISSING,		/* nobody does the work; at = the list's end */
	SCHED_STALL		/* what it needs cannot come in time */
};

struct sched_remark {
	enum sched_fault fault;
	uint32_t rank, at;	/* counted from 0; the text counts from 1 */
	struct span span;
	const char *text;
};

struct sched_verdict {
	VEC(struct sched_remark) remarks;	/* none: it can run */
	/*
	 * if it can run: the most microbatches whose forward is done and
	 * backward is not, by rank
	 */
	uint32_t *peak;
	uint32_t *stage_peak;	/* the same for each stage alone */
};

/*
 * Every stage does every microbatch exactly once, on its own rank, and all
 * ranks come to their end when each waits for what its next action needs.
 * Faults of the order are looked for once the rest is right.
 */
bool sched_check(struct arena *a, const struct sched *s,
		 struct sched_verdict *v);
/* The remarks as errors with notes. */
void sched_report(struct diags *d, const struct sched_verdict *v);

/* ---- sched_csv.c: the dialect of PyTorch's pipelining ------------------ */

/* What reading left out, for a message to the owner of the file. */
struct sched_left {
	uint32_t idle;		/* empty cells before a row's last action */
	uint32_t transfers;	/* SEND_F, RECV_F, SEND_B, RECV_B */
	uint32_t sharding;	/* UNSHARD, RESHARD, REDUCE_GRAD */
	uint32_t overlaps;	/* (0F7;7B3)OVERLAP_F_B: read as 0F7, 7B3 */
};

/*
 * Reads a file of the source map; everything but the order comes out of the
 * cells: a stage belongs to the rank that does most of its actions.  NULL
 * after errors.  What is returned is not checked yet.  `left` may be NULL.
 */
struct sched *sched_read(struct arena *a, struct diags *d, uint32_t file,
			 struct sched_left *left);
/* "left out: 3 transfers (SEND, RECV), ...", or NULL if nothing was. */
const char *sched_left_text(struct arena *a, const struct sched_left *left);
/*
 * One row per rank.  Empty cells are steps without work, all actions being
 * one step long, so that an action stands right of everything it needs; a
 * schedule that cannot run is printed without them.
 */
void sched_print(const struct sched *s, struct buf *out);

#endif
