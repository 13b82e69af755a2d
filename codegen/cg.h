/*
 * Code generation: from rank programs and their schedule to a program that
 * every rank runs.
 */
#ifndef CODEGEN_CG_H
#define CODEGEN_CG_H

#include "passes/plan/plan.h"
#include "passes/price/price.h"
#include "passes/stage/ranks.h"
#include "runtime/abi.h"

/* ---- toolchain.c ------------------------------------------------------ */

/* One line per back end: what it was built with, or what is missing. */
void cg_toolchain(struct buf *out);

/* ---- cpu_names.c ------------------------------------------------------ */

/* False: *why, with the nearest name and all of them, in the arena. */
bool cg_cpu_known(const char *name, struct arena *a, const char **why);
/* ll_more.c: what LLVM calls this CPU; "native" where it is missing. */
const char *cg_cpu_host(struct arena *a);
/* Whether this CPU has a feature, by LLVM; a machine may hide some. */
bool cg_cpu_host_has(struct arena *a, const char *feature);

/* ---- cuda/arch.c -------------------------------------------------------- */

/* Of kernels, "sm_90a". False: *why, as of CPUs. */
bool cg_arch_known(const char *name, struct arena *a, const char **why);

/* ---- cuda/ways.c, host/trials.c: tiles of a GPU's kernels ---------------- */

/* A file of functions of a GPU. */
struct cg_source {
	const char *name, *text;
};

/* A way to make one, and what that is launched by. */
struct cg_trial {
	struct plan_tile tile;
	const char *text;		/* "m=128 n=256 .." */
	double cycles;			/* as the table counts them */
	uint32_t source;		/* its number in cg_tiling.sources */
	const struct rt_kernel *kernel;	/* grids, of image `source` */
	const uint32_t *operands;	/* by operand: of the contraction */
	const struct rt_pieces *pieces;	/* of a rank, in the call's order */
	int64_t shared_bytes;
};

struct cg_tensor {
	value_id value;
	node_id sink;
	int64_t bytes;
	int64_t elem;		/* enum rt_elem; -1: of 8 bits */
};

/* All that are alike: what is legal for each of them. */
/* Or a step of attention. */
struct cg_contraction {
	const char *what;	/* "bf16 1x512x256x128 kk to f32" */
	VEC(struct cg_trial) trials;	/* the table's own choice first */
	uint32_t nkernels;
	VEC(struct cg_tensor) tensors;	/* of the first of them */
};

/* A tile that was compiled, and has more numbers than registers. */
struct cg_spill {
	const char *what;	/* as below */
	struct plan_tile tile;
};

/* What tiles are to be and, if it is asked, what they could be. */
struct cg_tiling {
	const char *const *rows;	/* of a plan: see plan_tile_read */
	uint32_t nrows;
	struct span rows_at;
	VEC(struct cg_spill) spills;	/* not those, if others are legal */
	bool list;			/* fill in what follows */
	VEC(struct cg_contraction) found;
	VEC(struct cg_source) sources;
};

/* ---- host/code.c; backends_none.c without LLVM -------------------------- */

/* A plan being compiled. */
struct cg_code;

struct cg_input {
	const struct ranks *ranks;	/* all of it outlives the code */
	const struct target_group *target;
	const struct price *price;
	const char *cpu;		/* "native", "x86-64-v4" */
	bool quick;			/* to compile, not to run */
	bool no_cache;			/* of objects */
	/* "sm_90a": kernels are a GPU's, and `cpu` is its host's; or NULL */
	const char *arch;
	struct cg_tiling *tiling;	/* NULL: as the table says */
};

/* What is known once the plan was answered. */
struct cg_facts {
	const char *compiler, *model, *target;
	int64_t batch, tokens;		/* of one step */
	double step_us;			/* as predicted */
	double flops, peak;		/* of a step; a second, all ranks */
	const char *json, *llp;
	/* it is what a split plan is held against */
	bool is_whole;
	/* an object with such a plan is linked too; else why none is */
	bool has_whole;
	const char *whole_why;
};

/* Emits all kernels. NULL after errors. */
struct cg_code *cg_code_new(struct arena *a, const struct cg_input *in);
/* Of a GPU: its image i is made of source i.  How many there are; 0: of a
 * CPU. */
uint32_t cg_code_sources(const struct cg_code *c,
			 const struct cg_source **out);
struct cg_images;
/*
 * Adds to the input's tiling which of its tiles spill, as the images say that
 * its sources were made into.  How many of them it was not known of: then it
 * is to be made anew, with others.
 */
uint32_t cg_code_spills(struct cg_code *c, const struct cg_images *x);
/* Bytes that they need on each rank, beside what is planned. */
int64_t cg_code_reserve(const struct cg_code *c);
/*
 * Plans memory with that much reserve, or more, and emits all else.  What is
 * more is a part of a CPU's arena, too; of a GPU's it is not, but room for
 * what its driver and libraries keep.  False after errors.
 */
bool cg_code_finish(struct cg_code *c, int64_t reserve,
		    const struct cg_facts *facts);
/* LLVM's text of it, or the object: one of both, once. */
bool cg_code_text(struct cg_code *c, struct buf *out);
bool cg_code_object(struct cg_code *c, struct buf *out);
void cg_code_free(struct cg_code *c);

/* ---- images.c ------------------------------------------------------------ */

struct cg_images;

/* What to compile, and for what. */
struct cg_make {
	const struct cg_source *sources;
	uint32_t nsources;
	const struct cg_source *texts;	/* that sources include */
	uint32_t ntexts;
	const char *arch;
	const struct cg_images *before;	/* of this run; NULL: none */
	bool no_cache;
	uint32_t threads;		/* 0: as many as cores */
};

/* What a function takes of a multiprocessor. */
struct cg_func {
	const char *name;
	int64_t registers;		/* of a thread */
	int64_t stack_bytes, spill_bytes;	/* spills: stores and loads */
	int64_t smem_bytes;		/* beside what a launch asks for */
};

/* What became of one source. */
struct cg_image {
	const char *cubin;
	int64_t cubin_bytes;
	const char *ptx;		/* NULL: none */
	VEC(struct cg_func) funcs;	/* by name */
	VEC(const char *) slow;		/* what the assembler warns of */
};

struct cg_images {
	struct cg_make make;
	struct cg_image *at;		/* by source; NULL: not compiled */
	const char *made_by;		/* "NVRTC 13.0, sm_90a"; NULL: not */
	const char *missing;		/* then why, for a note */
	uint32_t ncached;		/* that were compiled before */
};

/* The files that all kernels include. */
const struct cg_source *cg_prelude(struct arena *a, uint32_t *n);
/*
 * Compiles all sources but those that make->before has.  Where NVRTC is
 * missing out->made_by is NULL, which is no error.  False after errors.
 */
bool cg_images(struct ir_ctx *ctx, const struct cg_make *make,
	       struct cg_images *out);
/* Warns of what is slow, once it is to be used. */
void cg_images_warn(struct ir_ctx *ctx, const struct cg_images *x);
/* 32 digits that tell bytes from others: for caches, and files of a plan. */
const char *cg_digest(struct arena *a, const void *at, size_t n);
/* An object with a struct rt_images of that name: "llmc_images". */
void cg_images_object(const struct cg_images *x, const char *name,
		      struct buf *out);

/* ---- link.c ------------------------------------------------------------- */

#define CG_MAX_OBJECTS 4	/* a plan's, that of the whole, both images */
/* What plans call their images: that of the whole has its own. */
#define CG_IMAGES "llmc_images"
#define CG_WHOLE_IMAGES "llmc_whole_images"

/*
 * The program that ranks run, of objects and the runtime: byte for byte
 * the same wherever and whenever it is linked.  False after errors.
 */
bool cg_link(struct ir_ctx *ctx, const struct buf *objects, uint32_t n,
	     struct buf *out);
/* Links an object to a shared one and loads it: for dlsym and dlclose.  NULL
 * after errors. */
void *cg_load(struct ir_ctx *ctx, const struct buf *object);

/* ---- host/host_single.c: kernels of one op, in this process -------------- */

/* A kernel of one rank that has all of its values, ready to be called. */
struct cg_single {
	const struct rt_kernel *kernel;
	const uint32_t *values;	/* by operand: 0 for %0 of the text, .. */
	const struct rt_pieces *const *pieces;	/* rt_call.pieces */
	int64_t shared_bytes, own_bytes;	/* own: of each worker */
};

struct cg_singles {
	struct cg_single *at;
	uint32_t n;
	const char *cpu;	/* that the code is for, as LLVM names it */
	uint32_t lanes;		/* floats of its vectors */
	void *library;
};

/*
 * Compiles for the CPU (as in cg_input) the kernel of each text, IR of a model
 * that is one kernel, and loads them.  False after errors: nothing is open.
 */
bool cg_singles_open(struct ir_ctx *ctx, const char *cpu,
		     const char *const *texts, uint32_t n,
		     struct cg_singles *out);
void cg_singles_close(struct cg_singles *s);

#endif
