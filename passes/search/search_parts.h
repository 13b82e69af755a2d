/*
 * Private header of the search, for the files of this folder only.
 *
 * A sharding is what decides placements: the degrees tp, cp and ep, with ZeRO
 * and `sequence`, but not dp, pp or the schedule.  A sharding is placed and
 * staged once, as a pipeline of pieces: the first layer with what comes before
 * it, the other layers of each kind, the last layer with what comes after it.
 * The price of any stage of any plan of that sharding is a sum over pieces.
 */
#ifndef PASSES_SEARCH_PARTS_H
#define PASSES_SEARCH_PARTS_H

#include "passes/memory/memory.h"
#include "passes/pass.h"
#include "passes/search/search.h"
#include "passes/solve/solve.h"

#define SEARCH_MAX_KINDS 8	/* most repeats of layers in a model */
/* Limits of schedules that are not pinned (docs/search.md, the space) */
#define SEARCH_MOST_STAGES 1024
#define SEARCH_MOST_CELLS (1 << 19)	/* stages times microbatches */
/*
 * The number of spans of values that are saved in repeats.  Values saved
 * outside of repeats are not counted: when they were, the search left out plans
 * whose arena fits (the second best of llama-2-7b on eight H100), and the arena
 * decides at the end.
 */
#define SEARCH_NSPANS MEMORY_TOP
/* Largest relative error of a price composed of pieces, against programs. */
#define SEARCH_NEAR 1e-6

/* The layers of one kind, which are one repeat of the model. */
struct search_kind {
	int64_t first, iterations;
	bool experts;		/* it has some */
};

/* A sharding, and how programs are made of its placement. */
struct search_key {
	int64_t tp, cp, ep;
	int zero;
	bool data;		/* dp > 1 */
	bool sequence;		/* the tensor axis may split sequences, too */
	/*
	 * one stage, of a model that has too few layers for pieces, or ties the
	 * first to the last: as pieces they would have that tensor twice
	 */
	bool solo;
	bool single;		/* a step is one microbatch */
	/* the rest changes the programs, not the placement */
	/* backward is two functions, for inputs and weights */
	bool split;
	uint32_t offload;	/* what is on hosts: enum plan_offloaded */
	/* how it recomputes: index in search_placed.words; 0: as pinned */
	uint32_t choice;
};

enum {
	PIECE_FIRST, PIECE_LAST,
	PIECE_TOP,		/* what every stage has beside layers */
	PIECE_BODY,		/* one layer, by kind */
	PIECE_MAX = PIECE_BODY + SEARCH_MAX_KINDS
};

/* Bytes of a piece on one rank, without tensors that live all step. */
struct search_bytes {
	double slot[SEARCH_NSPANS];	/* saved by one microbatch */
	double host[SEARCH_NSPANS];	/* the same, if it lies on the host */
	double read;		/* of what is saved, by kernels of backward */
	double temp;		/* temporary, while a function runs */
	double waits;		/* of transfers between stages */
};

/*
 * A way to recompute, with what its program takes for one layer of each kind
 * and one sequence, against the quickest way.  Plans choose by that, and then
 * make and price the chosen program at their own lengths.
 */
struct search_choice {
	const char *words;	/* `recompute` of the plan */
	uint32_t nth;		/* index in search_placed.words */
	double extra_us[SEARCH_MAX_KINDS];
	/* bytes that a slot shrinks */
	double less[SEARCH_NSPANS][SEARCH_MAX_KINDS];
	double temp;		/* temporary bytes of the piece with most */
};

/* The ways of a placement, in the order of their time. */
struct search_choices {
	VEC(struct search_choice) at;	/* empty until needed */
};

/* Kernels of stages or of updates, at these lengths. */
struct search_kernels {
	int64_t microbatch, dp;	/* 0: kernels do not depend on it */
	struct arena mem;	/* of the kernels */
	/* by function; NULL: not found yet, or dropped */
	struct kernels **of;
	bool listed;		/* in s->lists */
	/* their price if dp does not change it; NULL: it does, or not known */
	const struct search_cost *any_dp;
	struct search_kernels *next;
};

/* Prices of pieces on one device group. */
struct search_fn {
	struct price_func fn[PIECE_MAX][SCHED_NKINDS];
};

/* Layers by stage that minimise the time of the slowest stage. */
struct search_balanced {
	uint32_t nstages;
	int64_t *layers;
};

/* Time and bytes of a sharding's forward and backward, at a microbatch. */
struct search_cost {
	int64_t microbatch, dp;
	/* by device group; NULL: not priced yet */
	struct search_fn **on;
	bool measured;		/* bytes are set: see search_measure */
	struct search_bytes bytes[PIECE_MAX];
	double saved_part;	/* see search_saved_part; 0: not known yet */
	VEC(struct search_balanced) balanced;	/* computed so far */
	int64_t hop_pp;		/* pp for which hop_us holds; 0: none */
	double hop_us;
	struct search_cost *next;
};

/* The update of a sharding, and the bytes that live for the whole step. */
struct search_update {
	int64_t dp, pp;
	uint32_t offload;
	/* by device group: prices of pieces; NULL: not priced */
	struct price_func **on;
	double fixed[PIECE_MAX];	/* bytes for the whole step */
	double temp[PIECE_MAX];	/* bytes while the update runs */
	double host[PIECE_MAX];	/* bytes on the host or its drives */
	double drives[PIECE_MAX];	/* of those, on drives */
	double window[PIECE_MAX];	/* what a layer streams from there */
	struct search_update *next;
};

/*
 * Lower bounds of a mean rank's time of exchange among data ranks in each
 * microbatch, with ZeRO 2 and 3.
 */
struct search_cut {
	double dense_us, experts_us;	/* gradients, without those of tables */
	/*
	 * instead of experts_us, experts' rows may be gathered: time for each
	 * byte of them, and for each flop of their products
	 */
	double row_us, flop_us;
	double weights_us;	/* weights gathered at each use */
	double gather_us;	/* weights gathered once, after updates */
};

/* The plans of the same degrees, and facts that hold for all of them. */
struct search_group {
	int64_t used;		/* number of devices */
	int64_t tp, cp, ep, pp, dp;
	double capacity;		/* bytes free on a mean rank's device */
	double bound_us;
	/* lower bounds: summing gradients, gathering weights */
	double sum_us, gather_us;
	struct search_cut cut;
	/* guessed step, by which groups are ordered */
	double guess_us;
};

/* A contraction that computes experts' gradients, over all layers. */
struct search_rows {
	/* its results' part of the elements of all experts' gradients */
	double weight;
	double bytes, flops;	/* for one sequence: operands, work */
};

/*
 * A plan to try.  ZeRO, `sequence`, offload, recompute and layers by stage are
 * still open: search_try_plan chooses them.
 */
struct search_try {
	const struct search_group *g;
	int64_t microbatch, nmicrobatches, chunks;
	const struct sched_def *sched;
	uint32_t nth;		/* index of this plan in its group */
	const struct search_slots *slots;	/* NULL: not counted yet */
};

/* What earlier walks over the space found out about a plan. */
struct search_seen {
	double us;		/* lower bound of its step; 0: not tried yet */
	bool none;		/* it cannot fit */
	/* index in s->ways of the first way that was tried; 0: none */
	uint32_t ways;
};

/*
 * ZeRO, offload and `sequence` of a plan; `way`: ZeRO, plus 4 times the bits
 * of offload, plus 128 with `sequence`.
 */
struct search_way {
	uint32_t next;		/* next way of the same plan; 0: none */
	float us;		/* lower bound of its step */
	uint8_t way;
	uint8_t outcome;		/* enum trial_outcome */
	bool drives_help;		/* see struct trial */
};

struct search_sharding;

/* A placed sharding, before it is cut into forward and backward functions. */
struct search_placed {
	struct search_key key;	/* without what changes programs only */
	struct ir_ctx ctx;
	struct ir_module *m;
	struct search_group g;
	struct search_try at;	/* the plan of g that it was placed for */
	/*
	 * the first sharding made of it, which has the updates for all; by
	 * whether a step is one microbatch
	 */
	struct search_sharding *first[2];
	/*
	 * what its stages are made of, and the first placement with the same:
	 * all shardings but those above are that one's
	 */
	struct hash stages;
	struct search_placed *like;
	uint32_t nstages;
	uint32_t piece_of[SEARCH_MAX_KINDS + 2];	/* by stage */
	int64_t iterations[SEARCH_MAX_KINDS + 2];	/* by stage */
	/* all ways to recompute that were tried; the first is as pinned */
	VEC(const char *) words;
	struct search_choices choices[2];	/* if backward is split: 1 */
	struct search_sharding *shardings;	/* newest first */
	uint64_t used;		/* when it was last: see MOST_OPEN */
	bool bad;		/* `place` refused it */
};

struct search_sharding {
	struct search_key key;
	struct search_placed *on;
	struct search_sharding *next;	/* of the same placement */
	struct ir_ctx ctx;
	struct ir_module *m;
	struct ranks r;
	struct fuse *fuse;	/* m's kernels */
	struct search_kernels *of_stages, *of_updates;
	struct search_group g;
	struct search_try at;	/* the plan of g that it was staged for */
	int64_t dp, microbatch;	/* of that plan */
	/* bytes at these: of one microbatch, of the whole step */
	struct search_bytes bytes[PIECE_MAX];
	double fixed[PIECE_MAX][MEMORY_PIPELINE];
	double in_layers[PIECE_MAX][MEMORY_OPTIMIZER];
	double update_temp[PIECE_MAX];
	bool bad;		/* it cannot be placed or staged */
	struct search_cost *costs;
	struct search_update *updates;
};

/* Microseconds for one sequence, by piece. */
struct search_pieces {
	double all[PIECE_MAX], forward[PIECE_MAX];
};

/*
 * Lower bounds of a rank's time for one sequence, without communication among
 * data ranks: for each piece, and for all layers together.
 */
struct search_line {
	struct search_pieces us;
	double whole_us;
};

/* Layers by stage, where only one choice of them is tried. */
struct search_spread {
	struct search_spread *next;	/* for the same number of stages */
	int64_t chunks;		/* stages on a rank */
	bool vshape;
	int64_t *first;		/* layer of each stage, and the end */
	double (*on_rank)[PIECE_MAX];	/* number of each piece on each rank */
};

/*
 * What contractions and attention take at least in each piece, of a microbatch
 * of so many sequences on all data ranks together, on so many ranks.
 */
struct search_arithmetic {
	int64_t sequences, ranks;
	struct search_pieces us;
};

/* What an axis of length n adds to that at least, by kind of layer. */
struct search_axis_bound {
	enum plan_axis axis;
	int64_t n, apart;	/* apart: devices between neighbours */
	bool sequence;
	double us[SEARCH_MAX_KINDS];
};

/* A program that no axis splits, as a pipeline of pieces. */
struct search_unsplit {
	struct pricing at;
	uint32_t nstages;
	const uint32_t *piece;	/* by stage */
	const int64_t *iterations;
	const func_id (*of_stage)[SCHED_NKINDS];
	/* kernels by function, for one sequence and for two */
	struct kernels **one, **two;
	double weights;		/* bytes of all pieces */
};

struct search_work;

/*
 * The most microbatches that each stage and rank holds at once.  The number
 * stops growing once the pipeline is full, so it is counted in a shorter
 * schedule, whose length sched_held_of gives.
 */
struct search_slots {
	const struct sched_def *def;
	int64_t pp, chunks;
	uint32_t nmicrobatches, times;
	uint32_t *stage[SEARCH_NSPANS];	/* by stage */
	uint32_t *rank[SEARCH_NSPANS];	/* by rank: all its stages together */
};

/*
 * Bytes by which the arena of a plan's rank turned out larger than the sum of
 * its pieces.  Later tries of the plan add them to that sum.
 */
struct search_learned_bound {
	struct plan plan;
	uint32_t rank;		/* place in the pipeline */
	double bytes;		/* to add to the sum of the pieces */
};

struct search {
	struct ir_module *m;
	const struct search_options *o;
	/* the rates and features that all devices have in common */
	const struct target_group *t;
	/* device groups, then sets of several of them that a rank may span */
	VEC(const struct target_group *) devs;
	uint32_t ngroups;
	struct search_report *out;
	struct arena *a;	/* the report's */
	struct arena keep, tmp;	/* live as long as the search; as a plan */
	struct pass_stats stats;
	struct memo *memo;	/* may be NULL */
	struct pass_ahead made;		/* programs of the best settled plan */
	struct plan base;	/* pinned keys; defaults for all others */
	/* by enum search_pin; `stages=even` sets `even` instead */
	bool pinned[16];
	bool even;		/* `stages=even` is pinned */
	struct search_kind kinds[SEARCH_MAX_KINDS];
	uint32_t nkinds;
	int64_t nlayers, batch, experts, tensor_most, context_most;
	/* the first and the last layer use one tensor, such as a table */
	bool ties;
	struct ir_ctx ready_ctx;
	/* m as passed to `place`; NULL: not made yet */
	struct ir_module *ready;
	bool ready_bad;		/* a pass before `place` refused it */
	VEC(struct search_learned_bound) learned_bounds;
	/* plans whose programs fit; the best first */
	VEC(struct search_found) settled;
	VEC(struct search_placed *) placed;
	struct search_placed *asked;	/* the last that was found, or NULL */
	VEC(struct search_kernels *) lists;	/* those that have kernels */
	uint64_t clock;		/* counts uses of placements */
	uint32_t nopen;		/* placements with a program */
	VEC(struct search_work) work;	/* of an unsplit program */
	VEC(struct search_arithmetic *) arithmetic;
	VEC(struct search_axis_bound *) axis_bounds;
	VEC(struct search_group) groups;
	uint32_t *order;	/* in which they are looked at, by index */
	VEC(struct search_seen) *seen;	/* by group, then by plan */
	VEC(struct search_way) ways;	/* entry 0 is unused */
	VEC(struct search_slots *) slots;
	VEC(struct search_spread *) spreads;	/* by number of stages */
	struct sched_briefs briefs;
	/* lower bound of a step: arithmetic alone, on all devices */
	double flops_us;
	double static_bytes[3];	/* of weights, gradients, optimizer state */
	double expert_part;	/* fraction of parameters in experts */
	double table_part;	/* fraction in embedding tables */
	/* fraction that forward and backward read, without experts */
	double twice_part;
	VEC(struct search_rows) rows;
	double open_us;		/* least bound of plans not looked at */
	double begin_s;		/* when the search began, by the wall clock */
	double shown_s;		/* since then, when progress was printed */
	double worst_us;	/* plans above it are not tried */
	uint32_t enough;	/* worst_us falls once so many are found */
	/* in the first walk, which makes no programs that recompute */
	bool guessing;
	bool streams;	/* weights and gradients are on hosts: no plan else */
	bool aiming;	/* at what that found: limits do not count */
};

enum search_pin { PIN_PP, PIN_DP, PIN_EP, PIN_CP, PIN_TP, PIN_MICROBATCH,
		  PIN_INTERLEAVE, PIN_SCHEDULE, PIN_ZERO, PIN_SEQUENCE,
		  PIN_CONTEXT, PIN_BALANCED, PIN_RECOMPUTE, PIN_STAGES,
		  PIN_OFFLOAD, PIN_NPINS };

/* ---- search_devs.c ---------------------------------------------------- */

/* Sets s->devs: device groups, then sets of adjacent ones. */
void search_find_devs(struct search *s);
/* The highest flop rate of a device for operands of 16 bits or more. */
double search_float_rate(const struct target_device *d);
/* The same, reached at best; of a set of groups, by the slowest. */
double search_best_rate(const struct target_group *g);
/* The device group with the highest flop rate. */
const struct target_group *search_quickest(const struct search *s);
/* Assigns ranks of these degrees to device groups. */
void search_devs(const struct search *s, const struct search_group *g,
		 struct arena *a, struct target_devs *out);
/* The device group of each place in the pipeline, as an index of s->devs. */
uint32_t *search_devs_of_ranks(const struct search *s,
			       const struct search_group *g, struct arena *a);
/* Bytes free for a plan on a device of that group. */
double search_capacity(const struct search *s, uint32_t dev);

/* ---- search_space.c --------------------------------------------------- */

/* Reads the pins and the facts of the model.  False after errors. */
bool search_open(struct search *s);
/* Sets s->groups: all legal degrees, sorted by their guessed step. */
void search_groups(struct search *s);
/* What may be on the host of tensors that live for the whole step. */
uint32_t search_may_offload(const struct search *s);
/* Lower bound of the bytes that a mean rank needs, without `offload`. */
double search_least_bytes(const struct search *s, const struct search_group *g,
			  int zero, uint32_t offload);
/*
 * Sorts s->groups by a guessed step: arithmetic, the least communication, what
 * data ranks exchange and the wait of a pipeline.  It is an order to look in.
 */
void search_sort_groups(struct search *s);

/* ---- search_each.c --------------------------------------------- */

/*
 * Calls f for each microbatch, schedule and number of stages a rank; if f is
 * NULL, only counts these plans.
 */
void search_each_plan(struct search *s, const struct search_group *g,
		 void (*f)(struct search *s, struct search_try *t));

/* ---- search_slots.c --------------------------------------------------- */

/* How many microbatches a rank runs one after another in a step. */
int64_t search_microbatches(const struct search *s,
			    const struct search_group *g, int64_t microbatch);
/* Sets t->slots. */
void search_count_slots(struct search *s, struct search_try *t);

/* ---- search_place.c --------------------------------------------------- */

/* Runs a pass on a program of the search. */
bool search_pass(struct search *s, struct ir_ctx *c, struct ir_module *m,
		 pass_fn *pass);
/* Writes to m the plan of a sharding at t; its stages are the pieces. */
void search_write_plan(struct search *s, const struct search_placed *w,
		       const struct search_key *key,
		       const struct search_try *t, struct ir_module *m);
/* The program as `place` gets it, made once; NULL: a pass refuses it. */
struct ir_module *search_ready(struct search *s);
/* Whether passes refuse the model whatever the plan. */
bool search_is_refused(struct search *s);
bool search_same_key(const struct search_key *a, const struct search_key *b);
axis_id search_axis(const struct ir_module *m, const char *name);
/* Drops all functions but the model. */
void search_drop_updates(struct ir_module *m);
/* Places w again after its program was dropped. */
void search_place_again(struct search *s, struct search_placed *w);
bool search_is_placed(const struct search *s, const struct search_key *key);
/* The placement of that key, made if there is none. */
struct search_placed *search_place(struct search *s,
				   const struct search_key *key,
				   const struct search_try *t);

/* ---- search_sharding.c --------------------------------------------------- */

/* A sharding's pieces with bytes, not prices; NULL: it cannot be placed. */
struct search_cost *search_cost_of(struct search *s,
				   const struct search_key *key,
				   const struct search_try *t);
/* Sets c->bytes, of the pieces as they are laid out for t. */
void search_measure(struct search *s, const struct search_key *key,
		    const struct search_try *t, struct search_cost *c);
/* Prices the pieces on a device group, if they are not priced there yet. */
void search_price(struct search *s, const struct search_key *key,
		  const struct search_try *t, struct search_cost *c,
		  uint32_t dev);
/* The update of a key that has costs, with bytes, without prices. */
struct search_update *search_update_of(struct search *s,
				       const struct search_key *key,
				       const struct search_try *t);
void search_price_update(struct search *s, const struct search_key *key,
			 const struct search_try *t, struct search_update *u,
			 uint32_t dev);
/*
 * The ways to recompute of a key's placement, priced for one sequence.  The
 * first is the quickest.  As pinned, there is one.  NULL: a pass refuses the
 * program of the quickest.
 */
const struct search_choices *search_choices_of(struct search *s,
					    const struct search_key *key,
					    const struct search_try *t);
/* Microseconds of a transfer from a stage to the next. */
double search_hop_us(struct search *s, const struct search_key *key,
		  const struct search_try *t, struct search_cost *c);
/* Frees programs of placements and shardings; they are made again. */
void search_drop_programs(struct search *s);
void search_release(struct search *s);

/* Makes the programs of a sharding again if they were dropped. */
void search_reopen(struct search *s, struct search_sharding *w);
/* Places and stages a key, for search_find_work. */
bool search_open_unsplit(struct search *s, const struct search_key *key,
			 const struct search_try *t, struct search_unsplit *u);

/* ---- search_bytes.c --------------------------------------------------- */

/* Sets the bytes of the pieces of w, from the memory plan of its stages. */
void search_measure_bytes(const struct search_sharding *w,
			  const struct memory *mem, struct search_bytes *to);
void search_measure_fixed(struct search_sharding *w, const struct memory *mem);
/* Scales what lives for the whole step to the dp of u. */
void search_scale_fixed(const struct search_sharding *w,
			struct search_update *u);
/* ---- search_bound.c --------------------------------------------------- */

/* Sets s->work. */
void search_find_work(struct search *s);
/* The least time of each piece, for one sequence. */
void search_least_pieces(struct search *s, const struct search_key *key,
			 const struct search_try *t, struct search_pieces *us);
/* Whether t takes at least us, however its values are placed. */
bool search_is_above(struct search *s, const struct search_key *key,
		     const struct search_try *t, double us);
/* The largest us for which that holds, about. */
double search_bound_us(struct search *s, const struct search_key *key,
		       const struct search_try *t);
/* A guess of the pipeline, where kernels hide no communication. */
double search_guess_us(struct search *s, const struct search_key *key,
		       const struct search_try *t);

/* ---- search_data.c ---------------------------------------------------- */

/* Sets s->rows from a model with its backward. */
void search_find_rows(struct search *s, dim_id batch);
/* Sets lower bounds of the time of g's exchange among data ranks. */
void search_set_exchange(const struct search *s, struct search_group *g);
/*
 * Lower bound of the time that the exchange adds to a pipeline that takes us.
 */
double search_data_us(const struct search *s, const struct search_key *key,
		      const struct search_try *t, double us);
/*
 * The inverse of search_data_us: the time of a pipeline which with the exchange
 * takes us.
 */
double search_kernels_us(const struct search *s, const struct search_key *key,
			 const struct search_try *t, double us);

/* ---- search_line.c ---------------------------------------------------- */

void search_set_line(const struct search *s, const struct search_pieces *p,
		     struct search_line *x);
/* Whether the pipeline takes at least us with any layers by stage. */
bool search_line_is_above(struct search *s, const struct search_try *t,
			  const struct search_line *x, double us);
/* The largest us for which search_line_is_above holds. */
double search_line_us(struct search *s, const struct search_try *t,
		      const struct search_line *x);

/* ---- search_recompute.c ------------------------------------------------- */

/*
 * Adds to w->words the points of the Pareto fronts of its blocks, by guessed
 * prices at the lengths that axes have.
 */
void search_find_words(struct search *s, struct search_placed *w);
/* What a way adds to the time of all layers of the model. */
double search_choice_us(const struct search *s, const struct search_choice *c);
/*
 * Sorts ways by their time.  Drops those that another way is no worse than, in
 * time and bytes of each kind and in temporary bytes; the others' times are
 * then against the first.
 */
void search_rank_choices(const struct search *s, struct search_choices *x);

/* ---- search_stages.c -------------------------------------------------- */

/* Sets how often a stage of layers [lo, hi) contains each piece. */
void search_count_pieces(const struct search *s, int64_t lo, int64_t hi,
		  double n[PIECE_MAX]);
/* Whether stages of layers [lo, hi) and [was, lo) have the same program. */
bool search_same_stage(const struct search *s, int64_t was, int64_t lo,
		  int64_t hi);
/* The price of layers [lo, hi) as a stage on a device group. */
void search_stage_price(const struct search *s, const struct search_cost *c,
			uint32_t dev, int64_t lo, int64_t hi,
			struct price_func out[SCHED_NKINDS]);
void search_stage_bytes(const struct search *s, const struct search_cost *c,
			int64_t lo, int64_t hi, struct search_bytes *out);
/* The time of a function, however much of its exchange is hidden. */
double search_least_shown_us(const struct search *s,
			     const struct price_func *f);
/*
 * The part of a pipeline's time that recomputing can save at most: that of
 * writing all that is saved from forward to backward, and reading it as often
 * as kernels do.
 */
double search_saved_part(struct search *s, const struct search_key *key,
			 const struct search_try *t, struct search_cost *c);
/* The same of pieces with these prices on a device group, and these saves. */
double search_saved_on(const struct search *s, const struct search_fn *fn,
		       const struct search_bytes *saved, uint32_t dev);
/*
 * Effects of a choice on layers [lo, hi), of one sequence: the time that it
 * adds, and the bytes by which it makes a slot of a span smaller.
 */
double search_extra_us(const struct search *s, const struct search_choice *c,
		       int64_t lo, int64_t hi);
double search_saved_bytes(const struct search *s, const struct search_choice *c,
			  uint32_t span, int64_t lo, int64_t hi);
/* Adds the update of a stage's tensors, less one PIECE_TOP, once a rank. */
void search_update_price(const struct search *s,
			 const struct search_update *u, uint32_t dev,
			 int64_t lo, int64_t hi, struct price_func *out);
double search_fixed_bytes(const struct search *s,
			  const struct search_update *u,
			  int64_t lo, int64_t hi);
double search_host_bytes(const struct search *s,
			 const struct search_update *u,
			 int64_t lo, int64_t hi);
double search_drives_bytes(const struct search *s,
			   const struct search_update *u,
			   int64_t lo, int64_t hi);
/* Temporary bytes of the update of layers [lo, hi). */
double search_update_temp(const struct search *s,
			  const struct search_update *u,
			  int64_t lo, int64_t hi);
/*
 * Sets the layers by stage for which the slowest stage is quickest.  dev: the
 * device group of each stage.
 */
void search_balance(struct search *s, struct search_cost *c, uint32_t nstages,
		    const uint32_t *dev, int64_t *layers);

/* ---- search_zero.c ---------------------------------------------------- */

/*
 * Tries one plan with the choices that it leaves open: ZeRO, `sequence`,
 * offload, layers by stage and recompute.
 */
void search_try_plan(struct search *s, struct search_try *t,
		struct search_seen *seen);
/* Tries a plan again, with its own ZeRO, `sequence` and offload only. */
void search_retry_plan(struct search *s, const struct plan *p);

/*
 * The learned bound of a plan's rank: bytes that its arena needs beyond the sum
 * of its pieces; 0: none is known.
 */
double search_learned_bound(const struct search *s, const struct plan *p,
		     uint32_t rank);
/*
 * How many plans the user wants, and how many are kept until programs are made.
 */
uint32_t search_nwanted(const struct search *s);
uint32_t search_nkept(const struct search *s);
/*
 * Whether the search has done as much work as its options allow; if so, it says
 * so in the report.  nodes: those of a program that is not counted yet.
 */
bool search_is_stopped(struct search *s, uint64_t nodes);
/* Whether no more is to be placed, or the user wants the answer at once. */
bool search_is_over(const struct search *s);
bool search_is_interrupted(const struct search *s);
/* The step of the plan if its programs were made and fit, else NULL. */
const struct search_found *search_settled(const struct search *s,
					  const struct plan *p);
/* The step of the n-th settled plan, from 1; INFINITY: there are fewer.  With
 * `distinct`, of the n-th that is like no better one. */
double search_settled_us(const struct search *s, uint32_t n);
/* Whether a better settled plan is like the i-th. */
bool search_is_double(const struct search *s, uint32_t i);
/* Lowers s->worst_us to the plans found, once these are s->enough. */
void search_set_worst(struct search *s);

/* ---- search_settle.c -------------------------------------------------- */

/*
 * Makes the rank programs of the best plans found, and keeps those that fit in
 * s->settled, with the prices and bytes of their programs.  For one that does
 * not fit a learned bound is added.  False: no program was made.
 */
bool search_settle(struct search *s);

#endif
