/*
 * The plan: how a model is split over ranks and in time.  It lives in the
 * module as settings `plan.KEY`, so it prints and reads back as IR text and
 * whatever runs, a plug-in too, can write it; struct plan is its decoded
 * form.  docs/plan.md is the page about it.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_PLAN_H
#define PASSES_PLAN_H

#include "ir/ir.h"

#define PLAN_MAX_RANKS ((int64_t)1 << 20)
#define PLAN_MAX_STAGES 16384	/* as many as a schedule may have */
#define PLAN_MAX_LAYERS 1000000000000	/* 1e12 */

enum plan_axis { PLAN_PP, PLAN_DP, PLAN_EP, PLAN_CP, PLAN_TP, PLAN_NAXES };

/* Dims that an axis may split; n is 0 if the plan does not list them. */
struct plan_split {
	uint32_t n;
	const dim_id *dims;
};

struct plan {
	int64_t dp, ep, cp, tp, pp;	/* degrees */
	enum plan_axis mesh[PLAN_NAXES];	/* outermost first */
	int64_t microbatch;	/* sequences of one rank in one microbatch */
	int64_t nmicrobatches;	/* of a step */
	int64_t interleave;	/* stages that each pipeline rank holds */
	const char *schedule;	/* of sched_defs, or "csv" with a file */
	const char *schedule_file;	/* or NULL */
	int zero;		/* 0..3 */
	bool sequence;		/* tp may also split what cp splits */
	bool ring;		/* keys and values go round, not gathered */
	bool balanced;		/* a rank takes a head and a tail chunk */
	const char *recompute;	/* "none", "attention", "full"; or "q k" */
	/* the same by stage; NULL: alike, else the above is only text */
	const char **recompute_of;
	bool offload;		/* the optimizer's state lies on the host */
	int64_t chunks;		/* parts of collectives; 0: auto */
	bool join;		/* collectives that are ready are one call */
	uint32_t nstages;	/* pp * interleave */
	int64_t *layers;	/* by stage; NULL: even */
	/* as plan_read has set these two, which plan_write goes by */
	struct {
		uint32_t nstages;
		const int64_t *layers;
	} was_read;
	struct plan_split split[PLAN_NAXES];	/* by axis; none of pp */
	/* of a GPU's contractions, texts of plan_tiles.c; in ctx->perm */
	uint32_t ntiles;
	const char *const *tiles;
	struct span tiles_at;	/* of the key */
	/* what it comes to for this model */
	int64_t nlayers; /* iterations of its outermost repeats that carry */
	int64_t batch;		/* sequences of a step */
	int64_t nranks;		/* the product of the degrees */
};

/* ---- plan.c: the settings as a struct --------------------------------- */

/*
 * Decodes the module's settings, sets defaults of all others, and checks the
 * plan against the model.  False after errors.  What *out points to is in
 * ctx->tmp.  A module without settings has the plan of one rank.
 */
bool plan_read(struct ir_module *m, struct plan *out);
/* Whether each setting `plan.*` is a key with a legal value. */
bool plan_legal(struct ir_module *m);
/*
 * The same, and whether the words of `recompute` name something in the program.
 */
bool plan_names(struct ir_module *m);

/*
 * What is built again, of a module that may have its backward program and
 * need not be fit for the rest of its plan: the words of `recompute`, or what
 * the model's hint says, or "none".  NULL if stages differ, or may: plan_read
 * tells.  False after errors.
 */
bool plan_recompute(struct ir_module *m, const char **what);
/* The words of `recompute` for one stage, of a plan that was read. */
const char *plan_recompute_of(const struct plan *p, uint32_t stage);

/* Whether the plan, or that of rank programs, offloads; no other is read. */
bool plan_offload(const struct ir_module *m);
/* The same of parts of collectives; 0: as many as are quickest. */
int64_t plan_chunks(const struct ir_module *m);
/* The same of `join`. */
bool plan_joins(const struct ir_module *m);
/* Where a rank stands on each axis, and back: `mesh` as a mixed radix. */
void plan_coords(const struct plan *p, int64_t rank, int64_t at[PLAN_NAXES]);
int64_t plan_rank(const struct plan *p, const int64_t at[PLAN_NAXES]);

/* ---- plan_facts.c: degrees and layers ----------------------------------- */

/* "tp" */
const char *plan_axis_name(enum plan_axis axis);
int64_t plan_degree(const struct plan *p, enum plan_axis axis);
/*
 * Spreads layers evenly; what is left over goes to the stages in the middle,
 * one each.
 */
void plan_spread(int64_t nlayers, uint32_t nstages, int64_t *layers);

/* ---- plan_print.c: the struct as settings, and as text ---------------- */

/*
 * Replaces the plan that the module has, if each key by itself has a value
 * that it takes; else it stays, and the errors name the keys.  What `layers`,
 * `schedule` and `recompute` leave open is NULL.  Derived fields are not
 * looked at, but for nstages, since so many `layers` are read; and `layers`
 * that plan_read has made for other stages are an error.  Whether the model
 * allows the plan, plan_read says.
 */
bool plan_write(struct ir_module *m, const struct plan *p);
/* Only how many layers each stage holds, which a model may leave open. */
void plan_write_stages(struct ir_module *m, const struct plan *p);
/* A whole `plan { ... }` block, with every key. */
void plan_print(const struct ir_module *m, const struct plan *p,
		struct buf *out);

/*
 * What it prints of the n-th key, in ctx->tmp: "" if nothing, NULL past the
 * last key.  Without a plan, what the settings say, right or not.
 */
const char *plan_key_text(struct ir_module *m, const struct plan *p, int n,
			  const char **key);

/* ---- plan_sched.c: its schedule --------------------------------------- */

struct sched;
/*
 * The schedule of a plan that was read: made by name, or read from its file
 * and held against the plan and the checker.  NULL after errors.
 */
struct sched *plan_schedule(struct ir_module *m, const struct plan *p,
			    struct arena *a);

/* ---- plan_keys.c: one key at a time ----------------------------------- */

/*
 * One item of a value: a word, or a number, `times` over.  In `recompute` a
 * set of words is an item each, and the last of them says how many times.
 */
struct plan_item {
	const char *word;	/* NULL: a number */
	double num;
	int64_t times;		/* 1, but for `5*16` */
	struct span span;
	bool more;		/* of one set with the next: q of (q+k)*2 */
	bool run;		/* a word with a `*`, or the last of a set */
};

struct plan_value {
	VEC(struct plan_item) items;
	struct span span;
};

/*
 * Sets a key, if key and value are right as far as that is known without
 * a model; it replaces what another text said, and a second time in the same
 * text is an error.  False after errors.
 */
bool plan_set(struct ir_module *m, const char *key, struct span key_at,
	      const struct plan_value *v);
/* Forgets the whole plan. */
void plan_clear(struct ir_module *m);

/* ---- plan_tiles.c: tiles of a GPU's contractions ----------------------- */

enum plan_tile_num {
	PLAN_TILE_M, PLAN_TILE_N, PLAN_TILE_K,
	PLAN_TILE_STAGES,	/* of k that are under way at a time */
	PLAN_TILE_SPLITS,	/* of all of k */
	PLAN_TILE_CLUSTER,	/* blocks that share columns; 0: no wgmma */
	PLAN_TILE_TEAMS,	/* tiles of a block at a time; the same */
	PLAN_TILE_WARPS,	/* of a block; 0: wgmma */
	PLAN_TILE_NNUMS
};

/* A tile; what is 0 is not said. */
struct plan_tile {
	int64_t num[PLAN_TILE_NNUMS];
};

/*
 * Reads "CONTRACTION: m=128 n=256 k=64 .."; *what is the contraction.  False:
 * *why, in the arena.  Which tiles a contraction has only code knows.
 */
bool plan_tile_read(struct arena *a, const char *text, const char **what,
		    struct plan_tile *out, const char **why);
/* "m=128 n=256 k=64 .." */
const char *plan_tile_text(struct arena *a, const struct plan_tile *t);

/* ---- plan_text.c: values as text -------------------------------------- */

/* What "tp=8,recompute=q+k" says. False after errors. */
bool plan_pin(struct ir_module *m, const char *text);
/* The same of an option, "--pin" or "--why-not", which messages then name. */
bool plan_pin_of(struct ir_module *m, const char *option, const char *text);

#endif
