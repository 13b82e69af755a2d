/*
 * Private header of the search.
 *
 * A sharding is what placements depend on: the degrees tp, cp and ep, with ZeRO
 * and `sequence`; not dp, pp or the schedule.  A sharding is placed and staged
 * once, as a pipeline of pieces: the first layer with what comes before it, the
 * other layers of each kind, the last layer with what comes after it.  The
 * price of any stage of any plan of that sharding is a sum over these pieces.
 */
#ifndef PASSES_SEARCH_PARTS_H
#define PASSES_SEARCH_PARTS_H

#include "passes/memory/memory.h"
#include "passes/pass.h"
#include "passes/search/search.h"
#include "passes/solve/solve.h"

#define SEARCH_MAX_KINDS 8	/* repeats of layers in a model */
/* Of a schedule that is not pinned: docs/search.md, the space */
#define SEARCH_MOST_STAGES 1024
#define SEARCH_MOST_CELLS (1 << 19)	/* stages times microbatches */
/*
 * A placement made for a microbatch takes, at that microbatch, at least this
 * part of what placements made for other microbatches take.
 */
#define SEARCH_OWN 0.97
/* A pipeline with ZeRO 0 takes at least this part of its time with ZeRO 1. */
#define SEARCH_SAME 0.98
/*
 * Spans of values that are saved in repeats.  Values saved outside of repeats
 * are not counted: with them, plans were left out that fit by their arena,
 * which decides at the end (the second best of llama-2-7b on eight H100).
 */
#define SEARCH_NSPANS MEMORY_TOP
/* Relative error of prices composed of pieces, beside those of the programs. */
#define SEARCH_NEAR 1e-6

/* Layers of one kind: one repeat. */
struct search_kind {
	int64_t first, iterations;
};

/* What placements depend on. */
struct search_key {
	int64_t tp, cp, ep;
	int zero;
	bool data;		/* dp > 1 */
	bool sequence;		/* the tensor axis may split sequences, too */
	/* the model has too few layers for pieces: one stage */
	bool solo;
	/* that it is placed for; 0: of the first plan */
	int64_t microbatch;
	/*
	 * the rest changes the programs made of a placement, not the placement
	 */
	/* backward is two functions, for inputs and weights */
	bool split;
	bool offload;		/* the state of the optimizer is on the host */
	/* index in search_placed.choices: how it recomputes */
	uint32_t choice;
};

enum {
	PIECE_FIRST, PIECE_LAST, PIECE_TOP,
	PIECE_BODY,		/* by kind */
	PIECE_MAX = PIECE_BODY + SEARCH_MAX_KINDS
};

/* Bytes of a piece on one rank, without tensors that stay. */
struct search_bytes {
	double slot[SEARCH_NSPANS];	/* of one microbatch */
	double temp;		/* while a function runs */
	double waits;		/* on their way to other stages */
};

/*
 * Bytes at the microbatch that was measured: a part that is the same for all
 * microbatches, and a part that grows with them.
 */
struct search_size {
	double still, grows;
};

/* of functions: for each of several microbatches, the one that needs most */
#define SEARCH_NMOMENTS 4

/* The same bytes as functions of the microbatch. */
struct search_sizes {
	struct search_size slot[SEARCH_NSPANS];
	struct search_size temp[SEARCH_NMOMENTS];
	double waits;
};

/*
 * A way to recompute, with guessed effects of one layer by kind.  The guesses
 * serve to choose; the program with the chosen way is then made and priced.
 */
struct search_choice {
	const char *words;	/* of the plan */
	double extra_us[SEARCH_MAX_KINDS];
	/* part of extra_us for each further sequence */
	double sequence_us[SEARCH_MAX_KINDS];
	double less[SEARCH_MAX_KINDS];	/* bytes of a slot */
};

/* Kernels of a sharding at one microbatch or dp. */
struct search_kernels {
	int64_t size;
	struct arena mem;	/* of the kernels */
	/* by function; NULL: not found yet, or dropped */
	struct kernels **of;
	/*
	 * Their price, if it does not depend on dp; NULL: it does, or is not
	 * known.
	 */
	const struct search_cost *any_dp;
	struct search_kernels *next;
};

/* Prices of pieces on one device group. */
struct search_fn {
	struct price_func fn[PIECE_MAX][SCHED_NKINDS];
};

/* Numbers of layers by stage that minimise the time of the slowest stage. */
struct search_balanced {
	uint32_t nstages;
	int64_t *layers;
};

/* Forward and backward of a sharding at one microbatch. */
struct search_cost {
	int64_t microbatch, dp;
	/* by device group; NULL: not priced yet */
	struct search_fn **on;
	struct search_bytes bytes[PIECE_MAX];
	VEC(struct search_choice) choices;	/* empty until needed */
	VEC(struct search_balanced) balanced;	/* till now */
	int64_t hop_pp;		/* pp of hop_us; 0: not computed */
	double hop_us;
	struct search_cost *next;
};

/* The update of a sharding, and bytes that are there for the whole step. */
struct search_update {
	int64_t dp, pp;
	bool offload;
	/* by device group: prices of pieces; NULL: not priced */
	struct price_func **on;
	double fixed[PIECE_MAX];	/* bytes */
	double whole[PIECE_MAX];	/* bytes, without ZeRO */
	double temp[PIECE_MAX];	/* bytes, while it runs */
	double host[PIECE_MAX];	/* bytes, on the host */
	struct search_update *next;
};

/*
 * What data ranks exchange in each microbatch with ZeRO 2 and 3, on a mean
 * rank.
 */
struct search_cut {
	double dense_us, experts_us;	/* gradients, without those of tables */
	/*
	 * of the alternative to experts_us: for each byte gathered, and flop
	 * computed, of experts' rows
	 */
	double row_us, flop_us;
	double weights_us;	/* gathered to be read */
	double gather_us;	/* gathered once, after an update */
};

/* Plans of the same degrees, and what holds for all of them. */
struct search_group {
	int64_t used;		/* devices */
	int64_t tp, cp, ep, pp, dp;
	double capacity;		/* bytes free on a mean rank's device */
	double bound_us;
	/* lower bounds of the exchange of gradients and weights */
	double sum_us, gather_us;
	struct search_cut cut;
	/* guessed step: decides for which degrees a sharding is placed */
	double first_us;
	/* guessed step: groups are tried in this order */
	double guess_us;
};

/* A contraction of experts' gradients, in all layers. */
struct search_rows {
	/* its part of the elements of all experts' gradients */
	double weight;
	double bytes, flops;	/* of one sequence: its operands and its work */
};

/*
 * A plan, without ZeRO, `sequence`, offload, recompute and layers by stage,
 * which are chosen last.
 */
struct search_try {
	const struct search_group *g;
	int64_t microbatch, nmicrobatches, chunks;
	const struct sched_def *sched;
	uint32_t nth;		/* number of this plan in its group */
	uint32_t full;		/* as in search_seen, of smaller microbatches */
	const struct search_slots *slots;	/* NULL: not counted yet */
};

/* What earlier walks found out about a plan. */
struct search_seen {
	double us;		/* lower bound of its step; 0: not tried yet */
	bool none;		/* it cannot fit */
	/*
	 * a bit for each ZeRO, plus 4 with the state on the host, plus 8 with
	 * `sequence`: set if it does not fit in that way
	 */
	uint16_t full;
	/* first in s->ways of the ways that were tried; 0: none */
	uint32_t ways;
};

/* A way to run a plan: `way` is the number of its bit in search_seen.full. */
struct search_way {
	uint32_t next;		/* next way of the same plan; 0: none */
	float us;		/* it takes no less */
	uint8_t way;
	uint8_t outcome;		/* enum trial_outcome */
};

struct search_sharding;

/* A placed sharding, before it is cut into forward and backward functions. */
struct search_placed {
	struct search_key key;	/* without split, offload and choice */
	struct ir_ctx ctx;
	struct ir_module *m;
	struct search_group g;
	struct search_try at;	/* the plan of g that it was placed for */
	/* of the shardings made of it, the one whose updates count for all */
	struct search_sharding *first;
	uint32_t nstages;
	uint32_t piece_of[SEARCH_MAX_KINDS + 2];	/* by stage */
	int64_t iterations[SEARCH_MAX_KINDS + 2];	/* by stage */
	VEC(struct search_choice) choices;	/* there */
	bool chosen;
	bool bad;
};

struct search_sharding {
	struct search_key key;
	struct search_placed *on;
	struct ir_ctx ctx;
	struct ir_module *m;
	struct ranks r;
	struct fuse *fuse;	/* m's kernels */
	struct search_kernels *by_microbatch, *by_dp;
	int64_t dp, microbatch;	/* where it was staged */
	struct search_sizes sizes[PIECE_MAX];	/* there */
	double fixed[PIECE_MAX][MEMORY_PIPELINE];	/* there */
	double update_temp[PIECE_MAX];	/* there */
	/*
	 * greatest common divisor of the dims that its tensor axis splits; 0:
	 * not computed
	 */
	int64_t parts;
	bool bad;
	struct search_cost *costs;
	struct search_update *updates;
};

/* Microseconds of one sequence, by piece. */
struct search_pieces {
	double all[PIECE_MAX], forward[PIECE_MAX];
};

/*
 * Lower bounds of a rank's work on one sequence, without what data ranks
 * exchange: by piece, and of all layers together.
 */
struct search_line {
	struct search_pieces us;
	double whole_us;
};

/* Layers by stage where a plan leaves no choice. */
struct search_spread {
	struct search_spread *next;	/* with as many stages */
	int64_t chunks;		/* on a rank */
	bool vshape;
	int64_t *first;		/* layer of each stage, and the end */
	double (*on_rank)[PIECE_MAX];	/* number of each piece on each rank */
};

/* A proven lower bound for all shardings of these degrees. */
struct search_lower_bound {
	int64_t tp, cp, ep;
	bool sequence;
	struct search_pieces us;
	struct search_line line;
};

/*
 * Time of a sharding at one microbatch: as it was priced, or a lower bound
 * (`from`) derived from other shardings.
 */
struct search_known {
	struct search_key key;
	/* dp, if it changes the distance between ranks of other axes; else 0 */
	int64_t apart;
	int64_t microbatch;
	/* priced with another sharding's placement, at its own axis lengths */
	bool guess;
	/* and that was placed for a larger microbatch */
	bool larger_mb;
	/* NULL: it was priced; else a lower bound derived from this sharding */
	const struct search_sharding *from;
	struct search_pieces us;
	struct search_line line;
};

/*
 * Entries of the same dp distance, microbatch, ep and `solo`: only these bound
 * each other.
 */
struct search_known_list {
	int64_t apart, microbatch, ep;
	bool solo;
	VEC(struct search_known) at;
};

/*
 * The most microbatches held at once by each stage and rank.  The number stops
 * growing once the pipeline is full, so schedules are counted at the length
 * given by sched_held_of.
 */
struct search_slots {
	const struct sched_def *def;
	int64_t pp, chunks;
	uint32_t nmicrobatches, times;
	uint32_t *stage[SEARCH_NSPANS];	/* by stage */
	uint32_t *rank[SEARCH_NSPANS];	/* by rank: of all its stages */
};

/*
 * A plan whose arenas turned out larger than the sum of its pieces: bytes to
 * add to that sum from then on.
 */
struct search_learned_bound {
	struct plan plan;
	uint32_t rank;		/* of the pipeline */
	double bytes;		/* added to the sum of the pieces */
};

/* The best plan of a sharding, as placed for the first microbatch. */
struct search_best {
	struct search_key key;
	int64_t microbatch;
	double us;		/* of a step */
};

struct search {
	struct ir_module *m;
	const struct search_options *o;
	/* capabilities that all devices share */
	const struct target_group *t;
	/* device groups, then sets of several of them that a rank may span */
	VEC(const struct target_group *) devs;
	uint32_t ngroups;
	struct search_report *out;
	struct arena *a;	/* the report's */
	struct arena keep, tmp;	/* lifetimes: the search, one plan */
	struct pass_stats stats;
	struct memo *memo;	/* may be NULL */
	struct pass_ahead made;		/* programs of the best settled plan */
	const struct pass_ahead *behind;	/* receives them, or NULL */
	struct plan base;	/* pins, and defaults of all other keys */
	/* by enum search_pin; `stages=even` sets `even` instead */
	bool pinned[16];
	bool even;		/* `stages=even` is pinned */
	struct search_kind kinds[SEARCH_MAX_KINDS];
	uint32_t nkinds;
	int64_t nlayers, batch, experts, tensor_most, context_most;
	struct ir_ctx ready_ctx;
	/* m as passed to `place`; NULL: not made yet */
	struct ir_module *ready;
	bool ready_bad;		/* a pass before `place` refused it */
	VEC(struct search_learned_bound) learned_bounds;
	/* plans whose programs fit; the best first */
	VEC(struct search_found) settled;
	VEC(struct search_placed *) placed;
	VEC(struct search_sharding *) shardings;
	/*
	 * left out by a rule, though some may be placed later; index 0 is
	 * unused
	 */
	VEC(struct search_key) ruled_out;
	struct table ruled_out_table;
	VEC(struct search_lower_bound *) lower_bounds;
	VEC(struct search_known_list) known;	/* the first is none */
	struct table known_table;
	uint64_t learnt;	/* number of changes of `known` so far */
	VEC(struct search_group) groups;
	VEC(struct search_seen) *seen;	/* by group, then by plan */
	VEC(struct search_way) ways;	/* the first is none */
	VEC(struct search_slots *) slots;
	VEC(struct search_spread *) spreads;	/* by stages */
	struct sched_briefs briefs;
	/* lower bound of a step by arithmetic on all devices */
	double flops_us;
	double static_bytes[3];	/* of weights, gradients, optimizer state */
	double expert_part;	/* of these, the part of experts */
	double table_part;	/* the part of embedding tables */
	/* the part read by forward and backward, without experts */
	double twice_part;
	VEC(struct search_rows) rows;
	VEC(struct search_best) bests;
	double worst_us;	/* plans above it are not tried */
	uint32_t enough;	/* with so many plans found, worst_us falls */
	/* nor is a sharding placed for a plan above this */
	double near_us;
	/* first walk: programs that recompute are not made */
	bool guessing;
};

enum search_pin { PIN_PP, PIN_DP, PIN_EP, PIN_CP, PIN_TP, PIN_MICROBATCH,
		  PIN_INTERLEAVE, PIN_SCHEDULE, PIN_ZERO, PIN_SEQUENCE,
		  PIN_CONTEXT, PIN_BALANCED, PIN_RECOMPUTE, PIN_STAGES,
		  PIN_OFFLOAD, PIN_NPINS };

/* ---- search_space.c --------------------------------------------------- */

/* Reads the model's facts and the pins.  False after errors. */
bool search_open(struct search *s);
/* Sets s->groups: all legal degrees, sorted by their guessed step. */
void search_groups(struct search *s);
/* The highest flop rate of a device for operands of 16 bits or more. */
double search_float_rate(const struct target_device *d);
/* The device group with the highest flop rate. */
const struct target_group *search_quickest(const struct search *s);
/* Assigns ranks of these degrees to device groups. */
void search_devs(const struct search *s, const struct search_group *g,
		 struct arena *a, struct target_devs *out);
/* The same by rank of the pipeline, as indices into s->devs. */
uint32_t *search_devs_of_ranks(const struct search *s,
			       const struct search_group *g, struct arena *a);
/* Whether the optimizer's state may be on the host. */
bool search_may_offload(const struct search *s);
/* Lower bound of the bytes of a mean rank. */
double search_least_bytes(const struct search *s, const struct search_group *g,
			  int zero, bool offload);
/* Bytes free for a plan on a device of that group. */
double search_capacity(const struct search *s, uint32_t dev);
/*
 * Sorts s->groups again if they are many, by lower bounds of their shardings.
 */
void search_sort_groups(struct search *s);
/* Whether the first guess (first_us) prefers a to b. */
bool search_is_before(const struct search_group *a,
		      const struct search_group *b);
/* Number of microbatches of a step, one after another. */
int64_t search_microbatches(const struct search *s,
			    const struct search_group *g, int64_t microbatch);

/* ---- search_each.c --------------------------------------------- */

/*
 * Calls f for each microbatch, schedule and number of chunks; with NULL it only
 * counts them.
 */
void search_each_plan(struct search *s, const struct search_group *g,
		 bool (*f)(struct search *s, struct search_try *t));

/* ---- search_slots.c --------------------------------------------------- */

/* Sets t->slots. */
void search_count_slots(struct search *s, struct search_try *t);

/* ---- search_place.c --------------------------------------------------- */

/* Runs a pass on a program of the search. */
bool search_pass(struct search *s, struct ir_ctx *c, struct ir_module *m,
		 pass_fn *pass);
/* Writes the plan of a sharding at t, whose stages are its pieces. */
void search_write_plan(struct search *s, const struct search_placed *w,
		       const struct search_key *key,
		       const struct search_try *t, struct ir_module *m);
/* Whether passes refuse the model whatever the plan. */
bool search_is_refused(struct search *s);
bool search_same_key(const struct search_key *a, const struct search_key *b);
/*
 * Whether both are the same sharding, ignoring the microbatch and what is made
 * of the placement.
 */
bool search_same_sharding(const struct search_key *a,
		       const struct search_key *b);
/* Equal for keys for which search_same_sharding holds. */
uint64_t search_hash_sharding(const struct search_key *key);
/* The microbatch for which the sharding was placed first; 0: not placed. */
int64_t search_placed_for(const struct search *s,
			  const struct search_key *key);
/* The placement of that key, made if there is none. */
struct search_placed *search_place(struct search *s,
				   const struct search_key *key,
				   const struct search_try *t);

/* ---- search_sharding.c --------------------------------------------------- */

/* Bytes of a sharding's pieces, not priced; NULL: it cannot be placed. */
struct search_cost *search_cost_of(struct search *s,
				   const struct search_key *key,
				   const struct search_try *t);
/* Prices them on a device group, unless that is done. */
void search_price(struct search *s, const struct search_key *key,
		  const struct search_try *t, struct search_cost *c,
		  uint32_t dev);
/* Bytes of the update, for a key that has costs; not priced. */
struct search_update *search_update_of(struct search *s,
				       const struct search_key *key,
				       const struct search_try *t);
void search_price_update(struct search *s, const struct search_key *key,
			 const struct search_try *t, struct search_update *u,
			 uint32_t dev);
/*
 * Sets c->choices: ways to recompute by growing time; the first recomputes as
 * placed.
 */
void search_choices(struct search *s, const struct search_key *key,
		    const struct search_try *t, struct search_cost *c);
/* Microseconds of a transfer from a stage to the next. */
double search_hop_us(struct search *s, const struct search_key *key,
		  const struct search_try *t, struct search_cost *c);
/* Frees programs and kernels of shardings; search_reopen makes them again. */
void search_drop_programs(struct search *s);
void search_release(struct search *s);

/*
 * The sharding of that placement that has its updates.  Shardings of one
 * placement differ in what they recompute and in whether backward is split;
 * their updates are the same, so only the first of them has these.
 */
struct search_sharding *search_with_updates(const struct search_sharding *w);

/* NULL: none was made. */
struct search_sharding *search_find_sharding(const struct search *s,
				       const struct search_key *key);
/* Makes the programs of a sharding again if they were dropped. */
void search_reopen(struct search *s, struct search_sharding *w);
/*
 * Prices the placement of w at the axis lengths of another key, as known
 * (guessed) time of that key.
 */
void search_price_as(struct search *s, struct search_sharding *w,
		     const struct search_key *key, const struct search_try *t);
axis_id search_axis(const struct ir_module *m, const char *name);

/* ---- search_similar.c ---------------------------------------------------- */

/*
 * Whether the key has no choice, no split backward and no microbatch of its
 * own.
 */
bool search_is_plain(const struct search_key *k);
/*
 * Finds a bound for a sharding that is not made yet.  It prices one with the
 * same axes at its lengths; or else one that bounds it, and those that bound
 * its tensor ranks.
 */
void search_bound_sharding(struct search *s, const struct search_key *key,
		    const struct search_try *t);
/*
 * Adds a lower bound of a sharding that splits tensors and is not made yet,
 * from one with fewer tensor ranks: the excess of these over their part of what
 * a single rank takes, communication above all, does not shrink with more of
 * them, nor if experts are split, too.
 */
void search_bound_tensor(struct search *s, const struct search_key *key,
			 const struct search_try *t);
/*
 * The ratio of the time of a placement made for that microbatch and of the
 * first placement, in shardings that differ in ZeRO and ep only, at the least;
 * 0: no such sharding was placed so, or this one itself was.
 */
double search_gain(const struct search *s, const struct search_key *key,
		   int64_t microbatch);
/* The number of s->ruled_out that were never placed. */
uint32_t search_unplaced(const struct search *s);

/* ---- search_bytes.c --------------------------------------------------- */

/* Sets the bytes of the pieces of a sharding that was staged. */
void search_measure_bytes(struct search_sharding *w, const struct memory *mem);
/* Scales these bytes to the microbatch of c, and to the dp of u. */
void search_scale_bytes(const struct search_sharding *w, struct search_cost *c);
void search_scale_fixed(const struct search_sharding *w,
			struct search_update *u);
/*
 * Bytes that a rank keeps of `like`, as if with ZeRO and offload of the key,
 * among dp ranks.
 */
void search_fix_as(const struct search_sharding *like,
		   const struct search_key *key, int64_t dp,
		   struct search_update *u);

/* ---- search_proxy.c --------------------------------------------------- */

/*
 * Lower bounds of the time and bytes of a sharding that is not made, from
 * another one (the proxy).
 */
struct search_proxy {
	struct search_key key;	/* of the proxy */
	/* its time to recompute is a lower bound, too */
	bool both;
	/* factors for the time of recomputing and for bytes */
	double share, part;
	struct search_cost *cost;
	struct search_update *update;	/* bytes only */
};

/*
 * Finds a proxy; *out is valid until the next plan.  `both`: only one that
 * bounds the time of recomputing, too.  False: there is none, or the sharding
 * is made.
 */
bool search_find_proxy(struct search *s, const struct search_key *key,
		     const struct search_try *t, bool both,
		     struct search_proxy *out);
/* Sets the ways to recompute of x->cost. */
void search_proxy_choices(struct search *s, const struct search_proxy *x,
			  const struct search_try *t);

/* ---- search_lower_bound.c ----------------------------------------------- */

/*
 * Adds the proven bound of the degrees of a sharding whose kernels are known.
 */
void search_add_lower_bound(struct search *s, const struct search_sharding *w,
		      const struct search_kernels *kernels);
/*
 * Adds the time of a sharding that was priced, at its own axis lengths or
 * others.
 */
void search_add_known(struct search *s, const struct search_sharding *w,
		      const struct search_key *key,
		      const struct search_cost *c);
bool search_is_known(const struct search *s, const struct search_key *key,
		     const struct search_try *t);
/* Time of pieces for one sequence, on the quickest device group. */
void search_least_pieces(const struct search *s, const struct search_cost *c,
			 struct search_pieces *out);
/* Adds a lower bound of that sharding, derived from another one. */
void search_add_tensor_bound(struct search *s, const struct search_key *key,
		      const struct search_try *t,
		      const struct search_sharding *from,
		      const struct search_pieces *us);
/* The sharding from which that bound was derived; NULL: none was. */
const struct search_sharding *search_tensor_bound_from(const struct search *s,
					     const struct search_key *key,
					     const struct search_try *t);
/* By piece, of one sequence: the largest lower bound that is known. */
void search_known_pieces(const struct search *s, const struct search_key *key,
			 const struct search_try *t,
			 struct search_pieces *us);
/*
 * Whether the time of a, scaled by search_cost_share, is a lower bound for b:
 * rules of docs/search.md.
 */
bool search_is_bound_for(const struct search *s, const struct search_key *a,
			const struct search_key *b);
/* Whether stages of both run the same program, apart from degrees. */
bool search_same_programs(const struct search_key *a,
			const struct search_key *b);
/* Whether no plan of that sharding at these degrees takes less than us. */
bool search_is_above(struct search *s, const struct search_key *key,
		     const struct search_try *t, double us);
/*
 * Time of a piece on the quickest device group, without what data ranks
 * exchange.
 */
double search_least_us(const struct search *s, const struct search_cost *c,
		       uint32_t piece, uint32_t kind);
/*
 * b takes at least this part of the time of a, where search_is_bound_for(a, b).
 * larger_mb: a was placed for a larger microbatch.
 */
double search_cost_share(const struct search *s, const struct search_key *a,
		    const struct search_key *b, bool larger_mb);
/* The same by rules, from the time of other shardings. */
bool search_seems_above(struct search *s, const struct search_key *key,
			const struct search_try *t, double us);
/* The largest lower bound by these rules. */
double search_lower_bound_us(struct search *s, const struct search_key *key,
		       const struct search_try *t);

/* ---- search_data.c ---------------------------------------------------- */

/* Sets s->rows from a model with its backward. */
void search_find_rows(struct search *s, dim_id batch);
/* Sets lower bounds of what data ranks exchange of a rank's weights. */
void search_set_exchange(const struct search *s, struct search_group *g);
/* Whether the time known of that sharding includes a part of that exchange. */
bool search_has_exchange(const struct search_key *key);
/*
 * Time that this exchange adds to a pipeline of us without it; `part`: with a
 * part of it.
 */
double search_data_us(const struct search *s, const struct search_key *key,
		      const struct search_try *t, bool part, double us);
/*
 * The inverse: how long a pipeline may take so that with the exchange it takes
 * us.
 */
double search_kernels_us(const struct search *s, const struct search_key *key,
			 const struct search_try *t, bool part, double us);

/* ---- search_line.c ---------------------------------------------------- */

void search_set_line(const struct search *s, const struct search_pieces *p,
		     struct search_line *x);
/* Whether the pipeline takes at least us, however layers are spread. */
bool search_line_is_above(struct search *s, const struct search_try *t,
			  const struct search_line *x, double us);
/* The largest such us. */
double search_line_us(struct search *s, const struct search_try *t,
		      const struct search_line *x);

/* ---- search_recompute.c ------------------------------------------------- */

/*
 * Sets w->choices, the ways to recompute, at the microbatch that the sharding
 * was placed for.
 */
void search_find_choices(struct search *s, struct search_placed *w);

/* ---- search_stages.c -------------------------------------------------- */

/* The number of each piece in a stage of layers [lo, hi). */
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
/*
 * Guessed effect of a choice on layers [lo, hi): time added to backward, and
 * bytes by which a slot is smaller.
 */
double search_extra_us(const struct search *s, const struct search_choice *c,
		       int64_t lo, int64_t hi);
double search_saved_bytes(const struct search *s, const struct search_choice *c,
		   int64_t lo, int64_t hi);
/* Adds the time of the update of a stage's tensors, without PIECE_TOP. */
void search_update_price(const struct search *s,
			 const struct search_update *u, uint32_t dev,
			 int64_t lo, int64_t hi, struct price_func *out);
double search_fixed_bytes(const struct search *s,
			  const struct search_update *u,
			  int64_t lo, int64_t hi);
double search_host_bytes(const struct search *s,
			 const struct search_update *u,
			 int64_t lo, int64_t hi);
double search_whole_bytes(const struct search *s,
			  const struct search_update *u,
			  int64_t lo, int64_t hi);
/* Temporary bytes of the update of layers [lo, hi). */
double search_update_temp(const struct search *s,
			  const struct search_update *u,
			  int64_t lo, int64_t hi);
/*
 * Sets layers by stage such that the slowest stage takes the least time; dev:
 * the device group of each stage.
 */
void search_balance(struct search *s, struct search_cost *c, uint32_t nstages,
		    const uint32_t *dev, int64_t *layers);

/* ---- search_zero.c ---------------------------------------------------- */

/*
 * Tries one plan with all that it leaves open: ZeRO, `sequence`, offload,
 * layers and recompute.
 */
void search_try_plan(struct search *s, struct search_try *t,
		struct search_seen *seen);
/* Tries a plan once more, with the ZeRO, `sequence` and offload that it has. */
void search_retry_plan(struct search *s, const struct plan *p);

/*
 * Bytes that arenas of a rank of plans of these degrees need beyond the sum of
 * their pieces.
 */
double search_learned_bound(const struct search *s, const struct plan *p,
		     uint32_t rank);
/*
 * How many plans are asked for, and how many are kept until programs are made.
 */
uint32_t search_nwanted(const struct search *s);
uint32_t search_nkept(const struct search *s);
/*
 * Whether the search has done as much work as its options allow, with so many
 * nodes of a program that is not counted yet; then the report says so.
 */
bool search_is_stopped(struct search *s, uint64_t nodes);
/* Lowers s->worst_us to what was found, once that is enough. */
void search_set_worst(struct search *s);

/* ---- search_settle.c -------------------------------------------------- */

/*
 * Makes the rank programs of the best plans, and replaces composed prices and
 * bytes by those of the programs.  False: some do not fit after all, which is
 * then a learned bound; or the search stops.
 */
bool search_settle(struct search *s);

#endif
