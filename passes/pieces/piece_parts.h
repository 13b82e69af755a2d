/*
 * Private header of the pieces: placements and what is made of them.  A
 * placement is made into shardings, which differ in what they recompute and in
 * whether backward is split; a sharding has kernels and prices for any lengths.
 */
#ifndef PASSES_PIECE_PARTS_H
#define PASSES_PIECE_PARTS_H

#include "passes/pieces/pieces.h"

/* Kernels of stages or of updates, at these lengths. */
struct piece_kernels {
	int64_t microbatch, dp;	/* 0: kernels do not depend on it */
	const struct piece_placed *on;	/* the placement they are of */
	struct arena mem;	/* of the kernels */
	/* by function; NULL: not found yet, or dropped */
	struct kernels **of;
	bool listed;		/* in s->lists */
	/* their price if dp does not change it; NULL: it does, or not known */
	const struct piece_cost *any_dp;
	struct piece_kernels *next;
};

struct piece_sharding;

/*
 * Tensors of a piece, as its sharding has them; or temporary values of its
 * update that are alive at once.
 */
struct piece_tensor {
	enum memory_kind kind;	/* MEMORY_TEMPS: of an update */
	uint32_t piece;
	bool in_layers;
	bool shared;		/* of the last piece: the first has it, too */
	double items;		/* so many; of a piece of layers, in each */
	/* of an input: on all data ranks, for the whole batch; 0: of none */
	double step_bytes;
	/* of several together, whose bytes are the same for any number of
	 * data ranks; 0: of one */
	double all_bytes;
	double elem_bytes;
	uint32_t ndims;
	int64_t size[IR_MAX_DIMS];
	uint32_t cut[IR_MAX_DIMS];
};

/* How kernels and a collective run. */
enum piece_how {
	PIECE_HIDES,		/* kernels may run beside it */
	PIECE_WAITS,		/* they wait for it */
	PIECE_RINGS		/* it is in one of them */
};

/* Collectives of a layer that differ in bytes alone. */
struct piece_coll {
	enum cost_op op;
	enum piece_how how;
	uint32_t axes;		/* bit a: along axis a */
	/* of one sequence, of all data ranks together; else of any number */
	bool batch;
	bool by_dp;		/* data ranks share the bytes */
	/* activations or their gradients, which a result of the layer needs */
	bool needed;
	double bytes;		/* together */
};

/* A repeat of layers, forward or backward: one of its layers. */
struct piece_repeat {
	VEC(struct piece_coll) colls;
	bool nests;		/* repeats are inside */
};

/* Time of a byte with these degrees, by collective of all repeats. */
struct piece_rates {
	int64_t dp, pp;
	double *us;
	struct piece_rates *next;
};

/* A placed sharding, before it is cut into forward and backward functions. */
struct piece_placed {
	struct piece_key key;	/* without what changes programs only */
	struct ir_ctx *ctx;	/* of m; NULL: there is none */
	struct ir_module *m;
	struct space_degrees g;
	struct space_plan at;	/* the plan of g that it was placed for */
	/*
	 * the first sharding made of it, which has the updates for all; by
	 * whether a step is one microbatch
	 */
	struct piece_sharding *first[2];
	/*
	 * what its stages are made of, and the first placement with the same:
	 * all shardings but those above are that one's
	 */
	struct hash stages;
	struct piece_placed *like;
	/* by kind of layer, forward and backward; NULL: nothing is known */
	struct piece_repeat (*repeats)[2];
	struct ranks mesh;	/* has axes alone */
	struct piece_rates *rates;	/* found so far */
	uint32_t nstages;
	uint32_t piece_of[SPACE_MAX_KINDS + 2];	/* by stage */
	int64_t iterations[SPACE_MAX_KINDS + 2];	/* by stage */
	/* all ways to recompute that were tried; the first is as pinned */
	VEC(const char *) words;
	uint32_t nfirst;	/* of them, that all have; 0: not known yet */
	bool leaves;		/* points of its fronts are not among these */
	struct piece_choices choices[2];	/* if backward is split: 1 */
	struct piece_sharding *shardings;	/* newest first */
	uint64_t used;		/* when it was last: see MOST_OPEN */
	bool bad;		/* `place` refused it */
	uint32_t nodes;		/* of its program, when it was placed */
	bool counted;		/* among those of the store */
	bool priced;		/* the same, of those with pieces */
	bool away;		/* another thread's store may change it */
};

struct piece_sharding {
	struct piece_key key;
	struct piece_placed *on;
	struct piece_sharding *next;	/* of the same placement */
	struct ir_ctx *ctx;	/* of m; NULL: there is none */
	struct ir_module *m;
	struct ranks r;
	struct fuse *fuse;	/* m's kernels */
	bool sized_by_dp;	/* sizes of values in stages depend on dp */
	dim_id batch;		/* the dim of sequences; 0: none */
	struct piece_kernels *of_stages, *of_updates;
	struct space_degrees g;
	struct space_plan at;	/* the plan of g that it was staged for */
	/*
	 * bytes at that plan: of one microbatch, of the whole step; not before
	 * a plan needs them
	 */
	bool measured;
	struct piece_bytes *bytes;	/* by piece, as weights */
	double *weights;
	/* what lives for the whole step or in updates; the mesh of its types */
	VEC(struct piece_tensor) tensors;
	struct ir_module *mesh;	/* has axes alone */
	axis_id dp_axis;	/* 0: none */
	bool bad;		/* it cannot be placed or staged */
	bool staged;		/* all of it was: sized_by_dp is set */
	struct piece_cost *costs;
	struct piece_update *updates;
};

/* ---- piece_place.c ----------------------------------------------------- */

/*
 * Moves a program, whose context was a child of `parent`, to a new one of
 * these, which piece_close frees with it.
 */
struct ir_module *piece_keep(struct piece_store *s, struct ir_module *m,
			     const struct ir_ctx *parent, struct ir_ctx **to);
void piece_close(struct piece_store *s, struct ir_ctx **ctx,
		 struct ir_module **m);
/* Runs a pass on a program.  False after errors. */
bool piece_pass(struct piece_store *s, struct ir_ctx *c, struct ir_module *m,
		pass_fn *pass);
/* The pass `stage`, for some stages: see stage_some. */
bool piece_stage(struct piece_store *s, struct ir_ctx *c, struct ir_module *m,
		 const bool *only);
/* Writes to m the plan of a sharding at t; its stages are the pieces. */
void piece_write_plan(struct piece_store *s, const struct piece_placed *w,
		      const struct piece_key *key, const struct space_plan *t,
		      struct ir_module *m);
bool piece_same_key(const struct piece_key *a, const struct piece_key *b);
axis_id piece_axis(const struct ir_module *m, const char *name);
/* Drops all functions but the model. */
void piece_drop_updates(struct ir_module *m);
/* Places w again after its program was dropped. */
void piece_place_again(struct piece_store *s, struct piece_placed *w);
/* The placement of that key, made if there is none. */
struct piece_placed *piece_place(struct piece_store *s,
				 const struct piece_key *key,
				 const struct space_plan *t);

/* ---- piece_comm.c ------------------------------------------------------ */

/* Sets w->repeats, from its program. */
void piece_find_colls(struct piece_store *s, struct piece_placed *w);
/* Adds what they take in a microbatch of t: see piece_colls_least. */
void piece_add_colls(struct piece_store *s, struct piece_placed *w,
		     const struct space_plan *t, bool all,
		     struct piece_colls *to);

/* ---- piece_sharding.c -------------------------------------------------- */

/*
 * Sets the lengths of the axes dp and time.  A placement without a dp axis runs
 * the microbatches of all data ranks, so that one has the right size.
 */
void piece_set_axes(struct ir_module *m, const struct space_plan *t);
/*
 * Sets the lengths of all axes to those of a key, which need not be w's own.
 */
void piece_set_mesh(struct piece_sharding *w, const struct piece_key *key,
		    const struct space_plan *t);
/* The kernels at these lengths; they are found by kernels_some. */
struct piece_kernels *piece_kernels_at(struct piece_store *s,
				       const struct piece_sharding *w,
				       struct piece_kernels **list,
				       int64_t microbatch, int64_t dp);
/* Those of stages. */
struct piece_kernels *piece_stage_kernels(struct piece_store *s,
					  struct piece_sharding *w,
					  int64_t microbatch, int64_t dp);
/*
 * The kernels of stages at that microbatch and dp, the present lengths, in the
 * parts that are quickest.  They are kept, since plans of this microbatch need
 * them again.
 */
struct kernels *const *piece_find_kernels(struct piece_store *s,
					  struct piece_sharding *w,
					  int64_t microbatch, int64_t dp);
void piece_drop_kernels(struct piece_kernels *k);
struct pricing piece_pricing(const struct piece_store *s,
			     const struct piece_sharding *w, uint32_t dev);
/* piece_place, after it freed the program that was used longest ago, if too
 * many are kept. */
struct piece_placed *piece_placed_of(struct piece_store *s,
				     const struct piece_key *key,
				     const struct space_plan *t);
/* Sets its bytes, if they are not.  False: memory cannot be planned. */
bool piece_measure_sharding(struct piece_store *s, struct piece_sharding *w);
/* The sharding of a key, made if there is none. */
struct piece_sharding *piece_sharding_of(struct piece_store *s,
					 const struct piece_key *key,
					 const struct space_plan *t);
/*
 * The same of a way to recompute, which need not have programs: those of all
 * pieces are made by piece_reopen, where a plan takes the way.
 */
struct piece_sharding *piece_way_of(struct piece_store *s,
				    const struct piece_key *key,
				    const struct space_plan *t);
/* The sharding that has the updates of a key's placement. */
struct piece_sharding *piece_with_updates(struct piece_store *s,
					  const struct piece_key *key,
					  const struct space_plan *t);
/* Make programs again if they were dropped. */
void piece_open_placed(struct piece_store *s, struct piece_placed *w);
void piece_reopen(struct piece_store *s, struct piece_sharding *w);
/*
 * Makes the programs of those pieces that are `shown` alone, of a sharding that
 * has none.  False: a pass refuses them.
 */
bool piece_open_some(struct piece_store *s, struct piece_sharding *w,
		     const bool shown[PIECE_MAX]);
void piece_drop_sharding(struct piece_store *s, struct piece_sharding *w);

/* ---- piece_cost.c ------------------------------------------------------ */

/* What some pieces of a sharding keep and take. */
struct piece_shown {
	bool shown[PIECE_MAX];	/* the others are left out */
	struct piece_bytes bytes[PIECE_MAX];
	/* on the first device group */
	struct price_func fn[PIECE_MAX][SCHED_NKINDS];
};

/*
 * Sets bytes and prices of the pieces that are shown, at t, and `maps` to
 * theirs.  Programs are made of these alone, and dropped.  False: they
 * cannot be made, or memory cannot be planned.
 */
bool piece_show(struct piece_store *s, struct piece_sharding *w,
		const struct space_plan *t, struct piece_shown *x,
		struct piece_maps (*maps)[SCHED_NKINDS]);

/* ---- piece_least.c ----------------------------------------------------- */

/*
 * Adds what the pieces of a sharding that recomputes nothing, with these
 * kernels, take at least with any way to recompute.
 */
void piece_find_least(struct piece_sharding *w,
		      const struct piece_kernels *list, struct pricing *p,
		      struct piece_least (*to)[SCHED_NKINDS]);
/*
 * Sets what w takes at least in each layer of which it has pieces of their own,
 * beside the contractions and attention of a forward and of a backward that
 * recompute nothing; but again_us is of all in its backward.  `of` has the
 * kernels of these pieces for one sequence, by function.  On one kind of device
 * only.
 */
void piece_find_maps(const struct piece_store *s,
		     const struct piece_sharding *w, struct kernels *const *of,
		     struct piece_maps (*to)[SCHED_NKINDS]);

/* ---- piece_front.c ----------------------------------------------------- */

/* Adds the first words to w->words, by prices for one sequence. */
void piece_find_words(struct piece_store *s, struct piece_placed *w,
		      const struct space_plan *one);
/*
 * Adds to w->words and x->more points of the fronts between those that a plan
 * takes and the nearest on either side that x has.
 */
void piece_find_between(struct piece_store *s, struct piece_placed *w,
			const struct space_plan *one, const struct plan *p,
			struct piece_choices *x);

/* ---- piece_bytes.c ----------------------------------------------------- */

/* Whether more data ranks make a value smaller, with the same microbatch. */
bool piece_is_cut_by_data(const struct piece_sharding *w,
			  const struct ir_type *t);
/* Sets the bytes of the pieces of w, from its stages as measured. */
void piece_measure_bytes(const struct piece_sharding *w,
			 const struct memory *mem, struct piece_bytes *to);

/*
 * Whether a buffer, by number plus 1, is of a value that repeats carry, or of
 * its first or last value; in arena a.
 */
bool *piece_carried(const struct memory *mem, struct arena *a);

/* ---- piece_tensors.c --------------------------------------------------- */

/* Notes the tensors of w, from its stages as measured. */
void piece_note_tensors(struct piece_store *s, struct piece_sharding *w,
			const struct memory *mem);
/* Sets the bytes of tensors with the dp and the offload of u. */
void piece_sum_tensors(const struct piece_sharding *w, struct piece_update *u);

#endif
