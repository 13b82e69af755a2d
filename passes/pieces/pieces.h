/*
 * Placed shardings, and what their pieces cost.  A sharding is what decides
 * placements: the degrees tp, cp and ep, with ZeRO and `sequence`, but not dp,
 * pp or the schedule.  It is placed and staged once, as a pipeline of pieces:
 * the first layer with what comes before it, the other layers of each kind, the
 * last layer with what comes after it.  The price and the bytes of any stage of
 * any plan of that sharding are sums over pieces.
 *
 * It knows the space, programs, their kernels, memory and prices; not which
 * plans are tried, nor which is best.
 *
 * Each section is named after the .c file that defines it.
 */
#ifndef PASSES_PIECES_H
#define PASSES_PIECES_H

#include "passes/pass.h"
#include "passes/space/space.h"

/* Largest relative error of a price composed of pieces, against programs. */
#define PIECE_NEAR 1e-6

/* A sharding, and how programs are made of its placement. */
struct piece_key {
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
	/* not the pieces, but a rank with the first and the last of them */
	bool ends;
	uint32_t offload;	/* what is on hosts: enum plan_offloaded */
	/* how it recomputes: index in piece_placed.words; 0: as pinned */
	uint32_t choice;
};

enum {
	PIECE_FIRST, PIECE_LAST,
	PIECE_TOP,		/* what every stage has beside layers */
	PIECE_BODY,		/* one layer, by kind */
	PIECE_MAX = PIECE_BODY + SPACE_MAX_KINDS
};

/*
 * Bytes of a piece on one rank, without tensors that live all step.  Of a stage
 * they are no more than its part of an arena: see piece_stage_bytes.
 */
struct piece_bytes {
	/* saved by one microbatch: in layers, and outside of their repeats */
	double slot[SPACE_NSPANS], top[SPACE_NSPANS];
	/* of the latter, what is saved after all layers, for the loss */
	double end[SPACE_NSPANS];
	double host[SPACE_NSPANS];	/* of slots, if they lie on the host */
	/*
	 * by enum memory_span: of what is saved, what is of sequences, without
	 * padding, and what is not; and the former of what is sent
	 */
	double grows[MEMORY_NSPANS], stays[MEMORY_NSPANS];
	double sends_grow[2];
	/* of slots, of what is of sequences: what no way to recompute drops */
	double kept[SPACE_NSPANS];
	/* temporary: the most that are alive at once in a function */
	double temp;
	/* the same without what iterations of layers carry to the next */
	double inside;
	/* of either, what is of sequences, without padding, and what is not */
	double temp_grows, temp_stays, inside_grows, inside_stays;
	double sends[2];	/* to other stages: forward, back; one copy */
};

/*
 * Of a layer, one sequence each: what kernels other than contractions and
 * attention take at least, with their starts, which are the same for any number
 * of sequences; and what contractions and attention of forward take that are
 * computed again.
 */
struct piece_maps {
	double starts_us, bytes_us, again_us;
};

/* Of a function of a layer: its kernels, and what crosses the link of hosts
 * that have saves or parameters, or goes to and from their drives. */
struct piece_each {
	double us, saves_us, params_us, drives_us;
};

/*
 * A way to recompute, with what its program takes for one layer of each kind
 * and one sequence, against the quickest way.  Plans choose by that, and then
 * make and price the chosen program at their own lengths.
 */
struct piece_choice {
	const char *words;	/* `recompute` of the plan */
	uint32_t nth;		/* piece_key.choice */
	double extra_us[SPACE_MAX_KINDS];
	struct piece_each each[SCHED_NKINDS][SPACE_MAX_KINDS];
	/* bytes that a slot shrinks */
	double less[SPACE_NSPANS][SPACE_MAX_KINDS];
	/* at least what its pieces have: see piece_bytes */
	double grows[MEMORY_NSPANS][SPACE_MAX_KINDS];
	double stays[MEMORY_NSPANS][SPACE_MAX_KINDS];
	double inside_grows[SPACE_MAX_KINDS], inside_stays[SPACE_MAX_KINDS];
	double temp_grows[SPACE_MAX_KINDS], temp_stays[SPACE_MAX_KINDS];
	double sends_grow[2][SPACE_MAX_KINDS];
	double temp;		/* temporary bytes of the piece with most */
	/* what it takes at least: of layers that have pieces of their own */
	struct piece_maps maps[SPACE_MAX_KINDS][SCHED_NKINDS];
};

/* The ways of a placement, in the order of their time. */
struct piece_choices {
	VEC(struct piece_choice) at;	/* empty until needed */
	struct piece_choice first;	/* itself, not against the first */
	struct piece_choice plain;	/* as pinned, also if it was dropped */
	VEC(uint32_t) more;	/* nth of those that piece_widen priced */
	bool leaves;		/* fronts have more points than these ways */
	/* the least of all ways */
	struct piece_maps maps[SPACE_MAX_KINDS][SCHED_NKINDS];
};

/* What a function takes at least, with any way to recompute. */
struct piece_least {
	double us;
	/* of other kernels in its repeats, the part that adds to that */
	double adds;
};

/* Prices of pieces on one device group, of as many as the space has. */
struct piece_prices {
	uint32_t n;
	/* at least, with any way to recompute; NULL: of a way */
	struct piece_least (*least)[SCHED_NKINDS];
	/*
	 * each price once, the first being nothing; which of them a function
	 * has: a sharding has either one backward or two halves
	 */
	uint8_t which[PIECE_MAX][SCHED_NKINDS];
	struct price_func at[];
};

static inline const struct price_func *
piece_fn(const struct piece_prices *x, uint32_t piece, uint32_t kind)
{
	return &x->at[x->which[piece][kind]];
}

/*
 * Collectives of a layer of each kind, forward and backward: price_least
 * without contractions and attention, but with rings of the latter.
 */
struct piece_colls {
	struct price_least layer[SPACE_MAX_KINDS][2];
	bool nests[SPACE_MAX_KINDS];	/* its layers have repeats inside */
};

/*
 * What the slots of a layer of each kind have at least for each sequence, with
 * any way to recompute.
 */
struct piece_kept {
	double bytes[SPACE_NSPANS][SPACE_MAX_KINDS];
};

/* A transfer from a stage to the next, of a pipeline of so many ranks. */
struct piece_hop {
	int64_t pp;
	double us;
};

/* Layers by stage that minimise the time of the slowest stage. */
struct piece_balanced {
	uint32_t nstages;
	int64_t *layers;
};

/* Time and bytes of a sharding's forward and backward, at a microbatch. */
struct piece_cost {
	int64_t microbatch, dp;
	/* by device group; NULL: not priced yet */
	struct piece_prices **on;
	/* by piece; NULL: not measured yet, see piece_measure */
	struct piece_bytes *bytes;
	VEC(struct piece_balanced) balanced;	/* computed so far */
	VEC(struct piece_hop) hops;	/* the same */
	struct piece_cost *next;
};

/* The update of a sharding, and the bytes that live for the whole step. */
struct piece_update {
	int64_t dp, pp;
	uint32_t offload;
	/* by device group: prices of pieces; NULL: not priced */
	struct price_func **on;
	/* the same of PIECE_FIRST and PIECE_LAST together on one rank */
	struct price_func **ends;
	/* by piece: */
	double *fixed;		/* bytes for the whole step */
	/* of those of PIECE_LAST, what PIECE_FIRST has, too */
	double shared;
	/* temporary in the update; of layers, and what each of them adds */
	double *temp, *temp_each;
	double *host;		/* bytes on the host or its drives */
	double *drives;		/* of those, on drives */
	double *window;		/* what a layer streams from there */
	struct piece_update *next;
};

/* A program that no axis splits, as a pipeline of pieces. */
struct piece_unsplit {
	struct pricing at;
	uint32_t nstages;
	const uint32_t *piece;	/* by stage */
	const int64_t *iterations;
	const func_id (*of_stage)[SCHED_NKINDS];
	/* kernels by function, for one sequence and for two */
	struct kernels **one, **two;
	double weights;		/* bytes of all pieces */
};

struct memo;
struct piece_placed;
struct piece_kernels;

/* All placed shardings of a space; zero but for what piece_open sets. */
struct piece_store {
	struct space *space;
	struct memo *memo;	/* may be NULL */
	struct pass_stats stats;
	struct ir_ctx ready_ctx;
	/* the model as passed to `place`; NULL: not made yet */
	struct ir_module *ready;
	bool ready_bad;		/* a pass before `place` refused it */
	VEC(struct piece_placed *) placed;
	struct piece_placed *asked;	/* the last that was found, or NULL */
	/* another thread's: its placements count where they are asked for */
	bool is_ahead;
	VEC(struct piece_kernels *) lists;	/* those that have kernels */
	/* contexts of programs that were freed, which the next ones get: most
	 * shardings have no program */
	VEC(struct ir_ctx *) spare;
	uint64_t clock;		/* counts uses of placements */
	uint32_t nopen;		/* placements with a program */
	uint64_t placements;	/* that were made */
	uint64_t placed_nodes;	/* of all programs that were placed */
	uint64_t priced_nodes;	/* of those whose pieces were made */
	uint64_t staged_nodes;	/* of those that were staged as pieces */
};

/* ---- piece_place.c ----------------------------------------------------- */

/* The space must outlive the store. */
void piece_open(struct piece_store *s, struct space *space, struct memo *memo);
/* The program as `place` gets it, made once; NULL: a pass refuses it. */
struct ir_module *piece_ready(struct piece_store *s);
bool piece_is_placed(const struct piece_store *s, const struct piece_key *key);

/* ---- piece_comm.c ------------------------------------------------------ */

/*
 * Sets the repeats of a kind of layer: forward's, and its own of backward,
 * which come in the opposite order.  False: backward has another number.
 */
bool piece_find_repeats(const struct space *s, const struct ir_module *m,
			uint32_t kind, region_id of[2]);

/* ---- piece_sharding.c -------------------------------------------------- */

/* Frees programs of placements and shardings; they are made again. */
void piece_drop_programs(struct piece_store *s);
void piece_release(struct piece_store *s);

/* ---- piece_cost.c ------------------------------------------------------ */

/* A sharding's pieces with bytes, not prices; NULL: it cannot be placed. */
struct piece_cost *piece_cost_of(struct piece_store *s,
				 const struct piece_key *key,
				 const struct space_plan *t);
/* Sets c->bytes, of the pieces as they are laid out for t. */
void piece_measure(struct piece_store *s, const struct piece_key *key,
		   const struct space_plan *t, struct piece_cost *c);
/* Prices the pieces on a device group, if they are not priced there yet. */
void piece_price(struct piece_store *s, const struct piece_key *key,
		 const struct space_plan *t, struct piece_cost *c,
		 uint32_t dev);
/* The update of a key that has costs, with bytes, without prices. */
struct piece_update *piece_update_of(struct piece_store *s,
				     const struct piece_key *key,
				     const struct space_plan *t);
void piece_price_update(struct piece_store *s, const struct piece_key *key,
			const struct space_plan *t, struct piece_update *u,
			uint32_t dev);
/*
 * Of an update that was priced there, changes that of a rank that has both
 * PIECE_FIRST and PIECE_LAST to what it is if they use one tensor: the rank has
 * that once, and shares it with no other.
 */
void piece_join_ends(struct piece_store *s, const struct piece_key *key,
		     const struct space_plan *t, struct piece_update *u,
		     uint32_t dev, struct price_func *update);
/* Microseconds of a transfer from a stage to the next. */
double piece_hop_us(struct piece_store *s, const struct piece_key *key,
		    const struct space_plan *t, struct piece_cost *c);
/* Places and stages a key that no axis splits. */
bool piece_open_unsplit(struct piece_store *s, const struct piece_key *key,
			const struct space_plan *t, struct piece_unsplit *u);

/*
 * Sets what collectives take at least with the placement of a key, which is
 * made if there is none, in a microbatch of t: of what results of layers need,
 * which are activations and their gradients; or all, weights and their
 * gradients included.  False: nothing is known of it.
 */
bool piece_colls_least(struct piece_store *s, const struct piece_key *key,
		       const struct space_plan *t, bool all,
		       struct piece_colls *to);

/* ---- piece_least.c ----------------------------------------------------- */

/*
 * What layers [lo, hi) take at least as a stage on a device group: c is of the
 * way as pinned, and priced there.  maps: of one way to recompute or the least
 * of several, by kind of layer and enum sched_kind; NULL: they are not known,
 * and the bound is of any way.
 */
void piece_stage_least(const struct space *s, const struct piece_cost *c,
		       const struct piece_maps (*maps)[SCHED_NKINDS],
		       uint32_t dev, int64_t lo, int64_t hi,
		       double out[SCHED_NKINDS]);

/* ---- piece_lend.c ------------------------------------------------------ */

/*
 * Placements change hands without programs, all together that are for the same
 * tensor, context and expert ranks: s drops its programs and lends all, until
 * it regains those of g; or all, if g is NULL.
 */
void piece_lend(struct piece_store *s);
void piece_regain(struct piece_store *s, const struct space_degrees *g);
/*
 * Another thread's store has those of n placements that are for g, no others;
 * s->placed has new ones after them.
 */
void piece_borrow(struct piece_store *s, struct piece_placed *const *of,
		  uint32_t n, const struct space_degrees *g);

/* ---- piece_ways.c ------------------------------------------------------ */

/* Sets what layers keep at least with any way to recompute. */
void piece_find_kept(struct piece_store *s, const struct piece_key *key,
		     const struct space_plan *t, struct piece_kept *to);
/*
 * The ways to recompute of a key's placement, priced for one sequence.  The
 * first is the quickest.  As pinned, there is one.  NULL: passes refuse the
 * programs of all.
 */
const struct piece_choices *piece_choices_of(struct piece_store *s,
					     const struct piece_key *key,
					     const struct space_plan *t);
/*
 * Adds ways between those that a plan of the placement takes and the nearest
 * that are known.  Their number; the order of all may change.
 */
uint32_t piece_widen(struct piece_store *s, const struct piece_key *key,
		     const struct space_plan *t, const struct plan *p);
/* Frees programs of all ways but the quickest; they are made again. */
void piece_drop_ways(struct piece_store *s, const struct piece_key *key,
		     const struct space_plan *t);

/* ---- piece_stages.c ---------------------------------------------------- */

/* How many of the layers [lo, hi) are of kind k. */
int64_t piece_layers(const struct space *s, uint32_t k, int64_t lo,
		     int64_t hi);
/*
 * Bytes of those of the layers [lo, hi) that are on the device at once, where
 * hosts have them: of each kind two, one that is used and one that comes or
 * goes.  each: of one layer, by kind.
 */
double piece_window_bytes(const struct space *s, const double *each,
			  int64_t lo, int64_t hi);
/* How many pieces a space has: the last are its kinds of layers. */
uint32_t piece_number(const struct space *s);
/* Sets how often a stage of layers [lo, hi) contains each piece. */
void piece_count(const struct space *s, int64_t lo, int64_t hi,
		 double n[PIECE_MAX]);
/* The sum of what pieces have, over a stage of layers [lo, hi). */
double piece_sum(const struct space *s, const double *piece,
		 int64_t lo, int64_t hi);
/* Whether stages of layers [lo, hi) and [was, lo) have the same program. */
bool piece_same_stage(const struct space *s, int64_t was, int64_t lo,
		      int64_t hi);
/* The price of layers [lo, hi) as a stage on a device group. */
void piece_stage_price(const struct space *s, const struct piece_cost *c,
		       uint32_t dev, int64_t lo, int64_t hi,
		       struct price_func out[SCHED_NKINDS]);
/*
 * What layers [lo, hi) keep as a stage.  The arena of rank programs has no less
 * for them: a slot has what layers save, and temporary bytes are no fewer than
 * those that are alive at once, as they are in a piece of the stage.
 */
void piece_stage_bytes(const struct space *s, const struct piece_cost *c,
		       int64_t lo, int64_t hi, struct piece_bytes *out);
/*
 * Effects of a choice on layers [lo, hi), of one sequence: the time that it
 * adds, in all functions or in one, and the bytes by which it makes a slot of
 * a span smaller.
 */
double piece_extra_us(const struct space *s, const struct piece_choice *c,
		      int64_t lo, int64_t hi);
struct piece_each piece_extra_each(const struct space *s,
				   const struct piece_choice *c, uint32_t kind,
				   int64_t lo, int64_t hi);
double piece_saved_bytes(const struct space *s, const struct piece_choice *c,
			 uint32_t span, int64_t lo, int64_t hi);
/*
 * At least what layers [lo, hi) have with a choice, of so many sequences: what
 * they save, and one copy of what they send.  The first and the last layer, and
 * what is before them, count nothing: they may have less than others.  Solo:
 * one piece has all.
 */
void piece_least_bytes(const struct space *s, const struct piece_choice *c,
		       int64_t lo, int64_t hi, bool solo, double sequences,
		       struct piece_bytes *out);
/*
 * At least what slots of layers [lo, hi) have with any way, of so many
 * sequences; the first and the last layer count nothing, as above.
 */
void piece_kept_bytes(const struct space *s, const struct piece_kept *x,
		      int64_t lo, int64_t hi, bool solo, double sequences,
		      double slot[SPACE_NSPANS]);
/*
 * At least what saves take on the link to the host, if they lie there, by
 * function; split: backward is two of them.
 */
void piece_least_link_us(const struct space *s, const struct piece_choice *c,
			 uint32_t dev, int64_t lo, int64_t hi,
			 const struct piece_key *key, double sequences,
			 double out[SCHED_NKINDS]);
/* Adds the update of a stage's tensors, less one PIECE_TOP, once a rank. */
void piece_stage_update(const struct space *s, const struct piece_update *u,
			uint32_t dev, int64_t lo, int64_t hi,
			struct price_func *out);
/* Temporary bytes that the update of layers [lo, hi) has alive at once. */
double piece_update_temp(const struct space *s, const struct piece_update *u,
			 int64_t lo, int64_t hi);
/*
 * Sets the layers by stage for which the slowest stage is quickest.  dev: the
 * device group of each stage.
 */
void piece_balance(struct space *s, struct piece_cost *c, uint32_t nstages,
		   const uint32_t *dev, int64_t *layers);

#endif
