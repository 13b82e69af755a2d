/*
 * The plan: how a model is split over ranks and in time.  It is stored in the
 * module as settings `plan.KEY`, so it is printed and parsed as IR text, and
 * any pass, also of a plug-in, can write it; struct plan is the decoded form.
 * docs/plan.md describes it.
 *
 * Each section names the .c file that defines what it declares.
 */
#ifndef PASSES_PLAN_H
#define PASSES_PLAN_H

#include "ir/ir.h"

#define PLAN_MAX_RANKS ((int64_t)1 << 20)
#define PLAN_MAX_STAGES 16384	/* the limit of a schedule, too */
#define PLAN_MAX_LAYERS 1000000000000	/* 1e12 */

enum plan_axis { PLAN_PP, PLAN_DP, PLAN_EP, PLAN_CP, PLAN_TP, PLAN_NAXES };

/* Dims that an axis may split; n is 0 if the plan does not list them. */
struct plan_split {
	uint32_t n;
	const dim_id *dims;
};

/* What a plan keeps on hosts, and where. */
enum plan_offloaded {
	PLAN_OFFLOAD_OPTIMIZER = 1,	/* state of the optimizer */
	PLAN_OFFLOAD_SAVES = 2,	/* what layers save for their backward */
	PLAN_NVME_OPTIMIZER = 4,	/* of state: on the host's drives */
	PLAN_OFFLOAD_PARAMS = 8,	/* weights and gradients of layers */
	PLAN_NVME_PARAMS = 16	/* of these: on the host's drives */
};

/* What of `offload` lies on drives: bits of the optimizer, of parameters. */
static inline uint32_t
plan_on_drives(uint32_t offload)
{
	return (offload & PLAN_NVME_OPTIMIZER
		? offload & PLAN_OFFLOAD_OPTIMIZER : 0) |
	       (offload & PLAN_NVME_PARAMS ? offload & PLAN_OFFLOAD_PARAMS : 0);
}

struct plan {
	int64_t dp, ep, cp, tp, pp;	/* degrees */
	enum plan_axis mesh[PLAN_NAXES];	/* outermost first */
	int64_t microbatch;	/* sequences per rank and microbatch */
	int64_t nmicrobatches;	/* per step */
	int64_t interleave;	/* stages that each pipeline rank holds */
	const char *schedule;	/* of sched_defs, or "csv" with a file */
	const char *schedule_file;	/* or NULL */
	int zero;		/* 0..3 */
	bool sequence;		/* tp may also split what cp splits */
	bool ring;		/* keys and values pass around, no gather */
	bool balanced;		/* each rank has a head and a tail chunk */
	const char *recompute;	/* "none", "attention", "full"; or "q k" */
	/* by stage, if `recompute` is only text; NULL: stages are equal */
	const char **recompute_of;
	uint32_t offload;	/* set of enum plan_offloaded, as bits */
	int64_t chunks;		/* parts of collectives; 0: auto */
	bool join;		/* merge ready collectives in one call */
	uint32_t nstages;	/* pp * interleave */
	int64_t *layers;	/* by stage; NULL: even */
	/* the two above as plan_read set them, for plan_write's check */
	struct {
		uint32_t nstages;
		const int64_t *layers;
	} was_read;
	struct plan_split split[PLAN_NAXES];	/* by axis; unused for pp */
	/* tiles of GPU contractions, as text for plan_tile_read; ctx->perm */
	uint32_t ntiles;
	const char *const *tiles;
	struct span tiles_at;	/* where the key is */
	/* derived from the plan and the model */
	int64_t nlayers; /* iterations of outermost repeats that carry */
	int64_t batch;		/* sequences per step */
	int64_t nranks;		/* the product of the degrees */
};

/* ---- plan.c: from settings to struct ---------------------------------- */

/*
 * Decodes the module's plan settings, sets the other keys to defaults, and
 * checks the plan against the model.  False after errors.  Most pointers in
 * *out are to ctx->tmp.  Without settings, the plan is that of one rank.
 */
bool plan_read(struct ir_module *m, struct plan *out);
/*
 * The same of keys that a search is to keep: it chooses the others, so those
 * that are set need some values of `pp` and `interleave`, not their defaults.
 */
bool plan_read_pins(struct ir_module *m, struct plan *out);
/* Whether each `plan.*` setting has a known key and a legal value. */
bool plan_legal(struct ir_module *m);
/*
 * plan_legal, and whether the words of `recompute` name values or ops.
 */
bool plan_names(struct ir_module *m);

/*
 * Sets *what to the words of `recompute`, or the model's hint, or "none"; to
 * NULL if stages may differ: then use plan_read.  Works before and after
 * autodiff, even if the plan does not fit the model.  False after errors.
 */
bool plan_recompute(struct ir_module *m, const char **what);
/* The words of `recompute` for a stage; p is from plan_read. */
const char *plan_recompute_of(const struct plan *p, uint32_t stage);
/*
 * Copies text and lists of a plan to the arena, but for its layers: what they
 * were in may go.
 */
void plan_keep(struct arena *a, struct plan *p);

/* `offload` of models and rank programs, as bits; reads one key. */
uint32_t plan_offload(const struct ir_module *m);
/*
 * The largest `microbatch` with which each of the ranks that share a batch has
 * sequences in a step.  In a microbatch, rank i has the i-th block of
 * `microbatch` sequences.
 */
int64_t plan_largest_microbatch(int64_t batch, int64_t ranks);
/* `chunks`, read alike; 0: the target's prices decide. */
int64_t plan_chunks(const struct ir_module *m);
/* `join`, read alike. */
bool plan_joins(const struct ir_module *m);
/* A rank's index on each axis, and back: `mesh` is a mixed radix. */
void plan_coords(const struct plan *p, int64_t rank, int64_t at[PLAN_NAXES]);
int64_t plan_rank(const struct plan *p, const int64_t at[PLAN_NAXES]);

/* ---- plan_facts.c: degrees and layers ----------------------------------- */

/* "tp", .. */
const char *plan_axis_name(enum plan_axis axis);
int64_t plan_degree(const struct plan *p, enum plan_axis axis);
/*
 * Spreads layers evenly over stages.  Layers that remain go to the stages in
 * the middle, one each.
 */
void plan_spread(int64_t nlayers, uint32_t nstages, int64_t *layers);

/* ---- plan_print.c: from struct to settings and text ------------------- */

/*
 * Writes p as the module's plan if each key, taken alone, has a legal value;
 * otherwise reports errors and changes nothing.  `layers`, `schedule` and
 * `recompute` may be NULL: the key is then left out.  Of the derived fields
 * only nstages is read, as the length of `layers`; `layers` that plan_read made
 * for another nstages are an error.  plan_read checks the plan on the model.
 */
bool plan_write(struct ir_module *m, const struct plan *p);
/* Writes only `stages`, the layers of each stage. */
void plan_write_stages(struct ir_module *m, const struct plan *p);
/* Prints a `plan { ... }` block with every key. */
void plan_print(const struct ir_module *m, const struct plan *p,
		struct buf *out);

/*
 * The value that plan_print prints for key n, in ctx->tmp: "" if none, NULL
 * after the last key.  If p is NULL, the settings' value, legal or not.
 */
const char *plan_key_text(struct ir_module *m, const struct plan *p, int n,
			  const char **key);

/* ---- plan_sched.c: the plan's schedule -------------------------------- */

struct sched;
/*
 * The schedule of a plan from plan_read: built by name, or read from its file
 * and checked against the plan and for deadlocks.  NULL after errors.
 */
struct sched *plan_schedule(struct ir_module *m, const struct plan *p,
			    struct arena *a);

/* ---- plan_keys.c: one key at a time ----------------------------------- */

/*
 * One item of a value: a word or a number, repeated `times`.  In `recompute`,
 * each word of a set is an item, and the last one has the set's `times`.
 */
struct plan_item {
	const char *word;	/* NULL: a number */
	double num;
	int64_t times;		/* 16 in `5*16`; else 1 */
	struct span span;
	bool more;		/* the set goes on: q of (q+k)*2 */
	bool run;		/* a word with `*`, or the last of a set */
};

struct plan_value {
	VEC(struct plan_item) items;
	struct span span;
};

/*
 * Sets a key after the checks that need no model.  Replaces a value set by
 * another text (a file, an option); to set a key twice in one text is an error.
 * False after errors.
 */
bool plan_set(struct ir_module *m, const char *key, struct span key_at,
	      const struct plan_value *v);
/* Removes all plan settings. */
void plan_clear(struct ir_module *m);

/* ---- plan_tiles.c: tiles of a GPU's contractions ----------------------- */

enum plan_tile_num {
	PLAN_TILE_M, PLAN_TILE_N, PLAN_TILE_K,
	PLAN_TILE_STAGES,	/* k tiles in flight at a time */
	PLAN_TILE_SPLITS,	/* parts of all k */
	PLAN_TILE_CLUSTER,	/* blocks sharing columns; 0: by mma.sync */
	PLAN_TILE_TEAMS,	/* tiles per block at a time; 0: by mma.sync */
	PLAN_TILE_WARPS,	/* per block; 0: wgmma or tcgen05 */
	PLAN_TILE_NNUMS
};

/* A tile; 0: not given. */
struct plan_tile {
	int64_t num[PLAN_TILE_NNUMS];
};

/*
 * Parses "CONTRACTION: m=128 n=256 k=64 ..", or returns false with *why set.
 * Code generation checks whether the contraction can have this tile.
 */
bool plan_tile_read(struct arena *a, const char *text, const char **what,
		    struct plan_tile *out, const char **why);
/* The text "m=128 n=256 k=64 .." */
const char *plan_tile_text(struct arena *a, const struct plan_tile *t);

/* A step of attention, as plans name it. */
struct plan_attention {
	enum ir_dtype dtype;
	int64_t batches, heads, kv, queries, keys, d, dv;
	int64_t window;			/* 0: all keys */
	bool causal, between;		/* between: values are the mask */
	double alibi, softcap;
};

/* "attention queries bf16 8x12/4x1024x1024x64 causal": which products, types,
 * sequences, heads (and those of keys), queries, keys, d (and v). */
const char *plan_attention_name(struct arena *a,
				const struct plan_attention *t,
				const char *made);
/* Whether the plan that a module has as settings gives tiles; one of that
 * name. */
bool plan_has_tiles(const struct ir_module *m);
bool plan_has_tile(const struct ir_module *m, const char *what);
/* Adds to a key which tiles it gives. */
void plan_mix_tiles(const struct ir_module *m, struct hash *key);

/* ---- plan_text.c: values as text -------------------------------------- */

/* "none", "optimizer", "optimizer@nvme+parameters+activations" */
const char *plan_offload_text(uint32_t offload);
/* Sets the keys of "tp=8,recompute=q+k".  False after errors. */
bool plan_pin(struct ir_module *m, const char *text);
/* plan_pin for `option`, "--pin" or "--why-not", which messages name. */
bool plan_pin_of(struct ir_module *m, const char *option, const char *text);

#endif
