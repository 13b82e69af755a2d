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

#include "passes/memory/memory.h"
#include "passes/pass.h"
#include "passes/search/search.h"
#include "passes/solve/solve.h"

#define SEARCH_MAX_KINDS 8	/* repeats of layers in a model */
/* Of a schedule that is not pinned: docs/search.md, the space */
#define SEARCH_MOST_STAGES 1024
#define SEARCH_MOST_CELLS (1 << 19)	/* stages times microbatches */
/* What was placed for its microbatch takes so much of what others take there */
#define SEARCH_OWN 0.97
/* So much of a pipeline's time with ZeRO 1 it takes with 0. */
#define SEARCH_SAME 0.98
/*
 * What is saved in repeats.  With what is saved around them, plans would be
 * left out that fit by their arena, which has the last word (the second of
 * llama-2-7b on eight H100).
 */
#define SEARCH_NSPANS MEMORY_TOP
/* Composed prices are this near to those of the programs. */
#define SEARCH_NEAR 1e-6

/* Layers that are alike: one repeat. */
struct search_kind {
	int64_t first, trips;
};

/* What placements depend on. */
struct search_key {
	int64_t tp, cp, ep;
	int zero;
	bool data;		/* dp is above 1 */
	bool sequence;		/* tp may split it */
	bool solo;		/* one stage: the model is too short to cut */
	int64_t microbatch;	/* that it is placed for; 0: any */
	/* these change what is made of a placement, not the placement */
	bool split;		/* backward in two functions */
	bool offload;		/* of the update: its state is on the host */
	uint32_t choice;	/* of search_placed: how it recomputes */
};

enum {
	PIECE_FIRST, PIECE_LAST, PIECE_TOP,
	PIECE_BODY,		/* by kind */
	PIECE_MAX = PIECE_BODY + SEARCH_MAX_KINDS
};

/* Bytes of one rank, but for tensors. */
struct search_bytes {
	double slot[SEARCH_NSPANS];	/* of one microbatch */
	double temp;		/* while a function runs */
	double waits;		/* on its way to other stages */
};

/* With the microbatch that was measured: what is so for all, and what grows. */
struct search_size {
	double still, grows;
};

#define SEARCH_NMOMENTS 4	/* of functions; one of them is the largest */

/* The same where the width was staged. */
struct search_sizes {
	struct search_size slot[SEARCH_NSPANS];
	struct search_size temp[SEARCH_NMOMENTS];
	double waits;
};

/*
 * A way to recompute: one trip's share, by kind of layer.  These choose; what
 * was chosen is made and priced.
 */
struct search_choice {
	const char *words;	/* of the plan */
	double extra_us[SEARCH_MAX_KINDS];
	double sequence_us[SEARCH_MAX_KINDS];	/* of it, one more takes */
	double less[SEARCH_MAX_KINDS];	/* bytes of a slot */
};

/* Kernels of a width, of the sizes they have at one microbatch or dp. */
struct search_kernels {
	int64_t size;
	struct arena mem;	/* of what was found for it */
	struct kernels **of;	/* by function; NULL: not asked for, or
				 * dropped */
	/* What they take whatever dp is; NULL: not known, or it depends. */
	const struct search_cost *any_dp;
	struct search_kernels *next;
};

/* What pieces take on one seat. */
struct search_fn {
	struct price_func fn[PIECE_MAX][SCHED_NKINDS];
};

/* Layers by stage for which the slowest stage is the quickest it can be. */
struct search_balanced {
	uint32_t nstages;
	int64_t *layers;
};

/* Forward and backward of a width at one microbatch. */
struct search_cost {
	int64_t microbatch, dp;
	struct search_fn **on;	/* by seat; NULL: bytes come first, and may be
				 * enough */
	struct search_bytes bytes[PIECE_MAX];
	VEC(struct search_choice) choices;	/* none until asked for */
	VEC(struct search_balanced) balanced;	/* till now */
	int64_t hop_pp;		/* of hop_us; 0: not asked for */
	double hop_us;
	struct search_cost *next;
};

/* The update of a width, and what all of a step is there. */
struct search_update {
	int64_t dp, pp;
	bool offload;
	struct price_func **on;	/* by seat: of pieces; NULL: not priced */
	double fixed[PIECE_MAX];	/* bytes */
	double whole[PIECE_MAX];	/* bytes, if ZeRO cut nothing */
	double temp[PIECE_MAX];	/* bytes, while it runs */
	double host[PIECE_MAX];	/* bytes, on the host */
	struct search_update *next;
};

/* What data ranks exchange in a microbatch where ZeRO cuts: a mean rank. */
struct search_cut {
	double dense_us, experts_us;	/* gradients, without tables' */
	double row_us, flop_us;	/* instead, a byte or flop of experts' rows */
	double weights_us;	/* that are gathered to be read */
	double gather_us;	/* once, behind an update */
};

/* What can be said of many plans at once. */
struct search_group {
	int64_t used;		/* devices */
	int64_t tp, cp, ep, pp, dp;
	double room;		/* bytes of a mean rank's device */
	double bound_us;
	double sum_us, gather_us;	/* of data ranks' weights, at least */
	struct search_cut cut;
	double first_us;	/* a guess: for whom widths are placed */
	double guess_us;	/* the order in which they are looked at */
};

/* Of a gradient of experts, in all layers. */
struct search_rows {
	double weight;		/* its part of all experts' */
	double bytes, flops;	/* of a sequence: what it is made of */
};

/* One plan, but for what is settled last: zero, recompute, stages. */
struct search_try {
	const struct search_group *g;
	int64_t microbatch, nmicrobatches, chunks;
	const struct sched_def *sched;
	uint32_t nth;		/* of its group's */
	uint32_t full;		/* see search_seen; of smaller microbatches */
	const struct search_slots *slots;	/* NULL: not counted yet */
};

/* What is known of a plan that was looked at. */
struct search_seen {
	double us;		/* it takes no less; 0: nobody has looked */
	bool none;		/* it cannot fit */
	/* by ZeRO, 4 with states on the host, and 8 with sequence: a bit where
	 * it cannot fit so */
	uint16_t full;
	uint32_t ways;		/* of s->ways, those that were tried; 0: none */
};

/* A way of a plan, which is the number of its bit there. */
struct search_way {
	uint32_t next;		/* of the same plan; 0: none */
	float us;		/* it takes no less */
	uint8_t way;
	uint8_t outcome;		/* enum trial_outcome */
};

struct search_width;

/* A width before it is cut into functions, which may be two or three. */
struct search_placed {
	struct search_key key;	/* without what is made of it */
	struct ir_ctx ctx;
	struct ir_module *m;
	struct search_group g;
	struct search_try at;	/* what it was placed for: of g */
	struct search_width *first;	/* it has the updates of all */
	uint32_t nstages;
	uint32_t piece_of[SEARCH_MAX_KINDS + 2];	/* by stage */
	int64_t trips[SEARCH_MAX_KINDS + 2];	/* by stage */
	VEC(struct search_choice) choices;	/* there */
	bool chosen;
	bool bad;
};

struct search_width {
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
	int64_t parts;	/* its tensor axis may make of all it splits; 0: not
			 * asked for */
	bool bad;
	struct search_cost *costs;
	struct search_update *updates;
};

/* By piece, of one sequence. */
struct search_pieces {
	double all[PIECE_MAX], forward[PIECE_MAX];
};

/*
 * What a rank's work on one sequence takes at the least, but for what data
 * ranks exchange: by piece, and of all layers together.
 */
struct search_line {
	struct search_pieces us;
	double whole_us;
};

/* Layers that are spread over stages as they must be. */
struct search_spread {
	struct search_spread *next;	/* of as many stages */
	int64_t chunks;		/* on a rank */
	bool vshape;
	int64_t *first;		/* layer of each stage, and the end */
	double (*on_rank)[PIECE_MAX];	/* how often each piece is there */
};

/* Of widths of these degrees. */
struct search_floor {
	int64_t tp, cp, ep;
	bool sequence;
	struct search_pieces us;
	struct search_line line;
};

/* The same of a width at one microbatch, as it was priced. */
struct search_known {
	struct search_key key;
	int64_t apart;		/* dp, if others' ranks lie as far; or 0 */
	int64_t microbatch;
	bool guess;		/* it was priced at other lengths of axes */
	bool late;		/* and placed for a larger microbatch */
	/* it is a floor, from what this one takes; NULL: it was priced */
	const struct search_width *from;
	struct search_pieces us;
	struct search_line line;
};

/* Of those that may say something of each other. */
struct search_known_list {
	int64_t apart, microbatch, ep;
	bool solo;
	VEC(struct search_known) at;
};

/*
 * Microbatches that are held at most.  That stops growing once the pipeline is
 * full, so it is counted in those of sched_held_of.
 */
struct search_slots {
	const struct sched_def *def;
	int64_t pp, chunks;
	uint32_t nmicrobatches, times;
	uint32_t *stage[SEARCH_NSPANS];	/* by stage */
	uint32_t *rank[SEARCH_NSPANS];	/* by rank: of all its stages */
};

/* A plan whose arenas turned out larger than the sum of its pieces. */
struct search_learned_bound {
	struct plan plan;
	uint32_t rank;		/* of the pipeline */
	double bytes;		/* so much, all in all */
};

/* Of a width, which was placed for any microbatch. */
struct search_best {
	struct search_key key;
	int64_t microbatch;
	double us;		/* of a step */
};

struct search {
	struct ir_module *m;
	const struct search_options *o;
	const struct target_group *t;	/* what all devices can do */
	/* what ranks may lie on: groups, and behind these several of them */
	VEC(const struct target_group *) devs;
	uint32_t ngroups;
	struct search_report *out;
	struct arena *a;	/* the report's */
	struct arena keep, tmp;	/* of the search; of one plan */
	struct arena runs;	/* of schedules, till programs are made */
	struct pass_stats stats;
	struct pass_memo *memo;		/* of all placements */
	struct price_memo *prices;	/* of all widths' kernels */
	struct pass_ahead made;		/* the best settled plan's programs */
	const struct pass_ahead *behind;	/* who wants them, or NULL */
	struct plan base;	/* pins, and defaults of all else */
	bool pinned[16];	/* enum search_pin; not an even PIN_STAGES */
	bool even;		/* layers are to be spread evenly */
	struct search_kind kinds[SEARCH_MAX_KINDS];
	uint32_t nkinds;
	int64_t nlayers, batch, experts, tensor_most, context_most;
	struct ir_ctx ready_ctx;
	struct ir_module *ready;	/* m, as it is placed; NULL: not yet */
	bool ready_bad;		/* the passes refused it */
	VEC(struct search_learned_bound) learned_bounds;
	VEC(struct search_found) settled;	/* they fit; the best first */
	VEC(struct search_placed *) placed;
	VEC(struct search_width *) widths;
	/* some may be placed later; the first is none */
	VEC(struct search_key) ruled_out;
	struct table ruled_out_table;
	VEC(struct search_floor *) floors;
	VEC(struct search_known_list) known;	/* the first is none */
	struct table known_table;
	uint64_t learnt;	/* changes of these till now */
	VEC(struct search_group) groups;
	VEC(struct search_seen) *seen;	/* by group: of its plans */
	VEC(struct search_way) ways;	/* the first is none */
	VEC(struct search_slots *) slots;
	VEC(struct search_spread *) spreads;	/* by stages */
	struct sched_briefs briefs;
	double flops_us;	/* that all devices need for a step's math */
	double static_bytes[3];	/* weights, gradients, states of all */
	double expert_part;	/* of these, what ep splits */
	double table_part;	/* what is looked up */
	double twice_part;	/* what is contracted, but for experts' */
	VEC(struct search_rows) rows;
	VEC(struct search_best) bests;
	double worst_us;	/* nothing above it is of interest */
	uint32_t enough;	/* plans that are below it, then it falls */
	double near_us;		/* nor above that, whatever it is placed for */
	bool guessing;		/* ways to recompute are not made yet */
};

enum search_pin { PIN_PP, PIN_DP, PIN_EP, PIN_CP, PIN_TP, PIN_MICROBATCH,
		  PIN_INTERLEAVE, PIN_SCHEDULE, PIN_ZERO, PIN_SEQUENCE,
		  PIN_CONTEXT, PIN_BALANCED, PIN_RECOMPUTE, PIN_STAGES,
		  PIN_OFFLOAD, PIN_NPINS };

/* ---- search_space.c --------------------------------------------------- */

/* The model's facts and the pins. False after errors. */
bool search_open(struct search *s);
/* All degrees that are legal, sorted by what they are guessed to take. */
void search_groups(struct search *s);
/* Of 16 bits and more: what contractions and attention get at the best. */
double search_float_rate(const struct target_device *d);
/* The group whose devices multiply quickest. */
const struct target_group *search_quickest(const struct search *s);
/* Where the ranks of such degrees lie. */
void search_devs(const struct search *s, const struct search_group *g,
		 struct arena *a, struct target_devs *out);
/* The same by rank of the pipeline: places in s->seats. */
uint32_t *search_devs_of_ranks(const struct search *s,
			       const struct search_group *g, struct arena *a);
/* Whether the optimizer's state may lie on the host. */
bool search_may_offload(const struct search *s);
/* What a mean rank must hold at the least, whatever else is chosen. */
double search_least_bytes(const struct search *s, const struct search_group *g,
			  int zero, bool offload);
/* Bytes that a plan has on a seat. */
double search_scratch(const struct search *s, uint32_t dev);
/* Sorts them again, where they are many, by what a width of each takes. */
void search_survey(struct search *s);
/* Whether it was guessed to be the better one, before anything was priced. */
bool search_is_before(const struct search_group *a,
		      const struct search_group *b);
/* Of a step, one behind another. */
int64_t search_microbatches(const struct search *s,
			    const struct search_group *g, int64_t microbatch);

/* ---- search_each.c ---------------------------------------------------- */

/* Calls f with each microbatch, schedule and chunks; NULL: counts them. */
void search_each(struct search *s, const struct search_group *g,
		 bool (*f)(struct search *s, struct search_try *t));

/* ---- search_slots.c --------------------------------------------------- */

/* Sets t->slots, of a schedule that there is. */
void search_count_slots(struct search *s, struct search_try *t);

/* ---- search_place.c --------------------------------------------------- */

/* Runs a pass on a program of the search. */
bool search_pass(struct search *s, struct ir_ctx *c, struct ir_module *m,
		 pass_fn *pass);
/* The plan of a width at t: in stages that are its pieces. */
void search_write_plan(struct search *s, const struct search_placed *w,
		       const struct search_key *key,
		       const struct search_try *t, struct ir_module *m);
/* Whether passes refuse the model, whatever the plan: nothing can be placed. */
bool search_is_refused(struct search *s);
bool search_same_key(const struct search_key *a, const struct search_key *b);
/* Whether both are of one placement. */
bool search_same_width(const struct search_key *a,
		       const struct search_key *b);
/* Of those that are, the same. */
uint64_t search_hash_width(const struct search_key *key);
/* The microbatch of what is placed for any; 0: nothing is. */
int64_t search_placed_for(const struct search *s,
			  const struct search_key *key);
/* Places it, if nobody has. */
struct search_placed *search_place(struct search *s,
				   const struct search_key *key,
				   const struct search_try *t);

/* ---- search_sharding.c --------------------------------------------------- */

/* Of a width's pieces, not priced; NULL: there is no such placement. */
struct search_cost *search_cost_of(struct search *s,
				   const struct search_key *key,
				   const struct search_try *t);
/* Prices them on a seat, if nobody has. */
void search_price(struct search *s, const struct search_key *key,
		  const struct search_try *t, struct search_cost *c,
		  uint32_t dev);
/* Of a key that has costs; not priced. */
struct search_update *search_update_of(struct search *s,
				       const struct search_key *key,
				       const struct search_try *t);
void search_price_update(struct search *s, const struct search_key *key,
			 const struct search_try *t, struct search_update *u,
			 uint32_t dev);
/* Ways to recompute, the mildest first; the first is as it is placed. */
void search_choices(struct search *s, const struct search_key *key,
		    const struct search_try *t, struct search_cost *c);
/* From a stage to the next, of a width with that cost. */
double search_hop(struct search *s, const struct search_key *key,
		  const struct search_try *t, struct search_cost *c);
/* Of widths, with their kernels; who asks again has them made again. */
void search_drop_programs(struct search *s);
void search_release(struct search *s);

/*
 * Widths of one placement differ in what they rebuild, and in how backward is
 * split.  Their updates are the same, so only the first of them has these.
 */
struct search_width *search_with_updates(const struct search_width *w);

/* NULL: it is not made. */
struct search_width *search_find_width(const struct search *s,
				       const struct search_key *key);
/* What was dropped is made once more, and is the same. */
void search_open_again(struct search *s, struct search_width *w);
/* What it would take at other lengths of its axes, to what is known. */
void search_price_as(struct search *s, struct search_width *w,
		     const struct search_key *key, const struct search_try *t);
axis_id search_axis(const struct ir_module *m, const char *name);

/* ---- search_similar.c ---------------------------------------------------- */

/* Whether it is priced as it was placed, for all microbatches. */
bool search_is_plain(const struct search_key *k);
/*
 * If that width is still to be made: prices one that has the same axes at its
 * lengths, or else one that is no wider and those that split tensors as well,
 * which give floors under it.
 */
void search_foresee(struct search *s, const struct search_key *key,
		    const struct search_try *t);
/*
 * What a placement for that microbatch takes of what it took before, of widths
 * with another ZeRO or number of experts' ranks; 0: none has one, or it does
 * itself.
 */
double search_gain(const struct search *s, const struct search_key *key,
		   int64_t microbatch);
/* Of s->ruled_out, how many were never placed. */
uint32_t search_unplaced(const struct search *s);

/* ---- search_bytes.c --------------------------------------------------- */

/* What pieces hold, of a width that was staged. */
void search_measure(struct search_width *w, const struct memory *mem);
/* The same for the microbatch of that cost, and for the dp of that update. */
void search_scale_bytes(const struct search_width *w, struct search_cost *c);
void search_scale_fixed(const struct search_width *w,
			struct search_update *u);
/*
 * What a rank keeps of a width, as if it had the other one's ZeRO and place
 * of states, among dp ranks.
 */
void search_fix_as(const struct search_width *like,
		   const struct search_key *key, int64_t dp,
		   struct search_update *u);

/* ---- search_wider.c --------------------------------------------------- */

/* Adds a floor under a width that splits tensors and is still to be made. */
void search_widen(struct search *s, const struct search_key *key,
		  const struct search_try *t);

/* ---- search_stand_in.c --------------------------------------------------- */

/* What a width that is not made takes and holds at the least. */
struct search_stand {
	struct search_key key;	/* whose placement that is */
	bool both;		/* that takes no more to rebuild, too */
	double share, part;	/* of what rebuilding takes, and of bytes */
	struct search_cost *cost;
	struct search_update *update;	/* what is kept, no more */
};

/*
 * Until the next plan.  `both`: one of which it is sure what rebuilding takes.
 * False: there is none, or the width is made.
 */
bool search_stand_in(struct search *s, const struct search_key *key,
		     const struct search_try *t, bool both,
		     struct search_stand *out);
/* Ways to recompute, for its cost. */
void search_stand_choices(struct search *s, const struct search_stand *x,
			  const struct search_try *t);

/* ---- search_lower_bound.c ----------------------------------------------- */

/* Of a width whose kernels are known. */
void search_add_floor(struct search *s, const struct search_width *w,
		      const struct search_kernels *kernels);
/* Of a width that was priced, at the lengths of its axes or others. */
void search_add_known(struct search *s, const struct search_width *w,
		      const struct search_key *key,
		      const struct search_cost *c);
bool search_is_known(const struct search *s, const struct search_key *key,
		     const struct search_try *t);
/* What pieces take of one sequence, on the quickest group. */
void search_least_pieces(const struct search *s, const struct search_cost *c,
			 struct search_pieces *out);
/* A floor under that width, from what another one takes. */
void search_add_wider(struct search *s, const struct search_key *key,
		      const struct search_try *t,
		      const struct search_width *from,
		      const struct search_pieces *us);
/* From whom that is; NULL: there is none. */
const struct search_width *search_wider_from(const struct search *s,
					     const struct search_key *key,
					     const struct search_try *t);
/* By piece, of one sequence: the most that is known to be below it. */
void search_known_pieces(const struct search *s, const struct search_key *key,
			 const struct search_try *t,
			 struct search_pieces *us);
/* Whether what a takes is a floor under b: rules of docs/search.md. */
bool search_is_no_wider(const struct search *s, const struct search_key *a,
			const struct search_key *b);
/* Whether stages of both are placed for the same, but for widths. */
bool search_same_stages(const struct search_key *a,
			const struct search_key *b);
/* Whether no plan of that width at these degrees is below so many us. */
bool search_is_above(struct search *s, const struct search_key *key,
		     const struct search_try *t, double us);
/* A piece's own, without what data ranks exchange, on the quickest group. */
double search_least_us(const struct search *s, const struct search_cost *c,
		       uint32_t piece, uint32_t kind);
/*
 * Of what a takes, b takes so much at the least, if a is no wider.  late: a
 * was placed for a larger microbatch.
 */
double search_share(const struct search *s, const struct search_key *a,
		    const struct search_key *b, bool late);
/* The same, by what narrower widths and those of its kind take. */
bool search_seems_above(struct search *s, const struct search_key *key,
			const struct search_try *t, double us);
/* The most that it seems above. */
double search_floor_us(struct search *s, const struct search_key *key,
		       const struct search_try *t);

/* ---- search_data.c ---------------------------------------------------- */

/* Sets s->rows, of a model with its backward. */
void search_find_rows(struct search *s, dim_id batch);
/* Sets what data ranks exchange of a rank's weights, at the least. */
void search_set_exchange(const struct search *s, struct search_group *g);
/* Whether what is known of that width has a part of it. */
bool search_has_exchange(const struct search_key *key);
/*
 * What that adds to a pipeline that takes so long without it, or with a part
 * of it.
 */
double search_data_us(const struct search *s, const struct search_key *key,
		      const struct search_try *t, bool part, double us);
/* How long a pipeline may take so that both take no longer. */
double search_kernels_us(const struct search *s, const struct search_key *key,
			 const struct search_try *t, bool part, double us);

/* ---- search_line.c ---------------------------------------------------- */

void search_set_line(const struct search *s, const struct search_pieces *p,
		     struct search_line *x);
/* Whether the pipeline takes so long however layers are spread. */
bool search_line_is_above(struct search *s, const struct search_try *t,
			  const struct search_line *x, double us);
/* The most that it is above. */
double search_line_us(struct search *s, const struct search_try *t,
		      const struct search_line *x);

/* ---- search_recompute.c ------------------------------------------------- */

/* Ways to recompute at the microbatch that a width was placed with. */
void search_front(struct search *s, struct search_placed *w);

/* ---- search_stages.c -------------------------------------------------- */

/* How often each piece is in layers [lo, hi). */
void search_count(const struct search *s, int64_t lo, int64_t hi,
		  double n[PIECE_MAX]);
/* Whether layers [lo, hi) and [was, lo) are the same stage, but for where. */
bool search_alike(const struct search *s, int64_t was, int64_t lo,
		  int64_t hi);
/* Of layers [lo, hi) as a stage on a seat. */
void search_stage_price(const struct search *s, const struct search_cost *c,
			uint32_t dev, int64_t lo, int64_t hi,
			struct price_func out[SCHED_NKINDS]);
void search_stage_bytes(const struct search *s, const struct search_cost *c,
			int64_t lo, int64_t hi, struct search_bytes *out);
/* Of layers [lo, hi), in microseconds and bytes of a slot. */
double search_extra_us(const struct search *s, const struct search_choice *c,
		       int64_t lo, int64_t hi);
double search_less(const struct search *s, const struct search_choice *c,
		   int64_t lo, int64_t hi);
/* Adds what the update of a stage's tensors takes, but for PIECE_TOP. */
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
/* What the update of layers [lo, hi) holds while it runs. */
double search_update_temp(const struct search *s,
			  const struct search_update *u,
			  int64_t lo, int64_t hi);
/*
 * Layers by stage such that the slowest is the quickest it can be; each stage
 * runs on its seat.
 */
void search_balance(struct search *s, struct search_cost *c, uint32_t nstages,
		    const uint32_t *dev, int64_t *layers);

/* ---- search_zero.c ---------------------------------------------------- */

/* Looks at one plan, with all that is settled last. */
void search_one(struct search *s, struct search_try *t,
		struct search_seen *seen);
/* Looks once more at one that was found, as it was settled. */
void search_again(struct search *s, const struct plan *p);

/* What was learnt of a rank of plans of these degrees, in bytes. */
double search_learned_bound(const struct search *s, const struct plan *p,
		     uint32_t rank);
/* How many plans are asked for, and how many are kept until the end. */
uint32_t search_want(const struct search *s);
uint32_t search_top(const struct search *s);
/*
 * Whether the search has done as much work as its options allow, with so many
 * nodes of a program that is not counted yet; then the report says so.
 */
bool search_is_stopped(struct search *s, uint64_t nodes);
/* To what was found, once that is enough. */
void search_set_worst(struct search *s);

/* ---- search_settle.c -------------------------------------------------- */

/*
 * Makes the rank programs of the best plans, and takes their price and arena
 * for what was composed.  False: the best does not fit after all; then that
 * is a lesson.
 */
bool search_settle(struct search *s);

#endif
