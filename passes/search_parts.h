/*
 * Between the files of the search.  Nobody else includes this.
 *
 * A *width* is what placements depend on: how far tensors are split, not how
 * many copies and stages there are.  A width is placed and staged once, as a
 * pipeline of pieces: the first layer and what comes before it, the other
 * layers of each kind, the last layer and what comes behind it.  The price
 * of any stage of any plan of that width is a sum of these.
 */
#ifndef PASSES_SEARCH_PARTS_H
#define PASSES_SEARCH_PARTS_H

#include "passes/pass.h"
#include "passes/search.h"

#define SEARCH_MAX_KINDS 8	/* repeats of layers in a model */

/* Layers that are alike: one repeat. */
struct search_kind {
	int64_t first, trips;
};

/* The training program with one way to recompute. */
struct search_variant {
	const char *recompute;
	struct ir_ctx ctx;
	struct ir_module *m;	/* NULL: not made yet */
	bool bad;		/* the passes refused it */
};

/* What placements depend on. */
struct search_key {
	int64_t tp, cp, ep;
	int zero;
	bool data;		/* dp is above 1 */
	bool split;		/* backward in two functions */
	bool solo;		/* one stage: the model is too short to cut */
	uint32_t variant;
};

enum {
	PIECE_FIRST, PIECE_LAST, PIECE_TOP,
	PIECE_BODY,		/* by kind */
	PIECE_MAX = PIECE_BODY + SEARCH_MAX_KINDS
};

/* Bytes of one rank. */
struct search_bytes {
	double slot;		/* of one microbatch, until its backward */
	double temp;		/* while a function runs */
};

/* Kernels of a width, of the sizes they have at one microbatch or dp. */
struct search_kernels {
	int64_t size;
	struct kernels **of;	/* by function; NULL: not asked for */
	struct search_kernels *next;
};

/* Forward and backward of a width at one microbatch. */
struct search_cost {
	int64_t microbatch, dp;
	struct price_func fn[PIECE_MAX][SCHED_NKINDS];
	struct search_bytes bytes[PIECE_MAX];	/* but for `fixed` */
	struct search_cost *next;
};

/* The update of a width, and what all of a step is there. */
struct search_update {
	int64_t dp, pp;
	struct price_func fn[PIECE_MAX];
	double fixed[PIECE_MAX];	/* bytes */
	double whole[PIECE_MAX];	/* bytes, if ZeRO cut nothing */
	struct search_update *next;
};

/* A width before it is cut into functions, which may be two or three. */
struct search_placed {
	struct search_key key;	/* `split` is false */
	struct ir_ctx ctx;
	struct ir_module *m;
	int64_t dp, microbatch;	/* where it was placed */
	uint32_t nstages;
	uint32_t piece_of[SEARCH_MAX_KINDS + 2];	/* by stage */
	int64_t trips[SEARCH_MAX_KINDS + 2];	/* by stage */
	double slot[PIECE_MAX], optimizer[PIECE_MAX], gradients[PIECE_MAX],
	       weights[PIECE_MAX];
	bool bad;
};

struct search_width {
	struct search_key key;
	struct search_placed *on;
	struct ir_ctx ctx;
	struct ir_module *m;
	struct ranks r;
	struct search_kernels *by_microbatch, *by_dp;
	bool bad;
	struct search_cost *costs;
	struct search_update *updates;
};

/* What can be said of many plans at once. */
struct search_group {
	int64_t used;		/* devices */
	int64_t tp, cp, ep, pp, dp;
	double bound_us;
	bool tight;		/* for memory: looked at later */
};

/* One plan, but for what is settled last: zero, recompute, stages. */
struct search_try {
	const struct search_group *g;
	int64_t microbatch, nmicrobatches, chunks;
	const struct sched_def *sched;
	const uint32_t *slots;	/* by stage: microbatches it holds at most */
};

struct search {
	struct ir_module *m;
	const struct search_options *o;
	const struct target_group *t;
	struct search_report *out;
	struct arena *a;	/* the report's */
	struct arena keep, tmp;	/* of the search; of one plan */
	struct pass_stats stats;
	struct plan base;	/* pins, and defaults of all else */
	bool pinned[16];	/* enum search_pin; not an even PIN_STAGES */
	bool even;		/* layers are to be spread evenly */
	struct search_kind kinds[SEARCH_MAX_KINDS];
	uint32_t nkinds;
	int64_t nlayers, batch, experts, tensor_most, context_most;
	VEC(struct search_variant *) variants;
	VEC(struct search_placed *) placed;
	VEC(struct search_width *) widths;
	VEC(struct search_group) groups;
	VEC(struct search_slots *) slots;
	double flops_us;	/* that all devices need for a step's math */
	double static_bytes[3];	/* weights, gradients, states of all */
	double expert_part;	/* of these, what ep splits */
	double worst_us;	/* nothing above it is of interest */
};

enum search_pin { PIN_PP, PIN_DP, PIN_EP, PIN_CP, PIN_TP, PIN_MICROBATCH,
		  PIN_INTERLEAVE, PIN_SCHEDULE, PIN_ZERO, PIN_SEQUENCE,
		  PIN_CONTEXT, PIN_BALANCED, PIN_RECOMPUTE, PIN_STAGES,
		  PIN_NPINS };

/* ---- search_space.c --------------------------------------------------- */

/* The model's facts and the pins. False after errors. */
bool search_open(struct search *s);
/* All degrees that are legal, sorted by their bounds. */
void search_groups(struct search *s);
/* Calls f with each microbatch, schedule and chunks; NULL: counts them. */
void search_each(struct search *s, const struct search_group *g,
		 void (*f)(struct search *s, const struct search_try *t));

/* ---- search_width.c --------------------------------------------------- */

/* The prices of a width's pieces; NULL: there is no such placement. */
const struct search_cost *search_cost_of(struct search *s,
					 const struct search_key *key,
					 const struct search_try *t);
/* Of a key that has costs. */
const struct search_update *search_update_of(struct search *s,
					     const struct search_key *key,
					     const struct search_try *t);
/* From a stage to the next. */
double search_hop(struct search *s, const struct search_key *key,
		  const struct search_try *t);
void search_release(struct search *s);

/* ---- search_stages.c -------------------------------------------------- */

/* Of layers [lo, hi) as a stage. */
void search_stage_price(const struct search *s, const struct search_cost *c,
			int64_t lo, int64_t hi,
			struct price_func out[SCHED_NKINDS]);
void search_stage_bytes(const struct search *s, const struct search_cost *c,
			int64_t lo, int64_t hi, struct search_bytes *out);
/* Adds what the update of a stage's tensors takes, but for PIECE_TOP. */
void search_update_price(const struct search *s,
			 const struct search_update *u,
			 int64_t lo, int64_t hi, struct price_func *out);
double search_fixed_bytes(const struct search *s,
			  const struct search_update *u,
			  int64_t lo, int64_t hi);
double search_whole_bytes(const struct search *s,
			  const struct search_update *u,
			  int64_t lo, int64_t hi);
/* Layers by stage such that the slowest is the quickest it can be. */
void search_balance(const struct search *s, const struct search_cost *c,
		    uint32_t nstages, int64_t *layers);

/* ---- search_try.c ----------------------------------------------------- */

/* Looks at one plan, with all that is settled last. */
void search_one(struct search *s, const struct search_try *t);

#endif
