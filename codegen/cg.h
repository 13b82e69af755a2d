/*
 * The manual of codegen/: from rank programs and their schedule to a program
 * that every rank runs.  The frontend calls it; it may use ir/, passes/ and
 * runtime/abi.h, and is the only folder that knows LLVM and NVRTC.
 *
 * A caller makes a cg_code, compiles its GPU sources with cg_images if there
 * are any, calls cg_code_finish and cg_code_object, and links the objects with
 * cg_link.  Kernels themselves are described in kernel.h, which only codegen/
 * includes.
 */
#ifndef CODEGEN_CG_H
#define CODEGEN_CG_H

#include "passes/memory/memory.h"
#include "passes/plan/plan.h"
#include "passes/price/price.h"
#include "passes/stage/ranks.h"
#include "runtime/abi.h"

/* ---- link/toolchain.c --------------------------------------------------- */

/* One line per back end: the library it was built with, or what is missing. */
void cg_toolchain(struct buf *out);

/* ---- llvm/ll_cpu.c, llvm/ll_derived.c ------------------------------------ */

/* Whether LLVM has this CPU. False: *why, for the user, with the nearest name
 * and all names, in the arena. */
bool cg_cpu_known(const char *name, struct arena *a, const char **why);
/* Whether that CPU, "x86-64-v4+amx-tile", has a feature; true of "native". */
bool cg_cpu_may_have(const char *cpu, const char *feature);
/* What LLVM calls this machine's CPU; "native" where LLVM is missing. */
const char *cg_cpu_host(struct arena *a);
/* Whether this CPU has a feature, by LLVM; a machine may hide some. */
bool cg_cpu_host_has(struct arena *a, const char *feature);

/* ---- cuda/cuda_arch.c --------------------------------------------------- */

/* Whether there are kernels for this GPU architecture, as "sm_90a". False:
 * *why, for the user, in the arena. */
bool cg_arch_known(const char *name, struct arena *a, const char **why);
/* The most columns of a head, and of its values, whose gradients are made by
 * tcgen05. */
#define CG_TENSOR_HEAD 192
#define CG_TENSOR_VALUES 128

/* Its fastest instruction for matrices, as "tcgen05", if the module has experts
 * of tf32, or gradients of wider heads, which use a slower one; NULL: it has
 * none. */
const char *cg_arch_lacks(const char *name, const struct ir_module *m);

/* -- cuda/cuda_candidates.c, host/host_trials.c: tiles of a GPU's kernels -- */

/* A file of CUDA C. */
struct cg_source {
	const char *name, *text;
};

/* A candidate tile of a contraction, or of a step of attention, and how it is
 * launched. */
struct cg_trial {
	struct plan_tile tile;
	const char *text;		/* "m=128 n=256 .." */
	double cycles;			/* the table's estimate */
	uint32_t source;		/* its index in cg_tiling.sources */
	/* launches functions of image `source` */
	const struct rt_kernel *kernel;
	const uint32_t *operands;	/* by operand: its index in tensors */
	/* of one rank, in the order of the call */
	const struct rt_pieces *pieces;
	/* of a launch that is not the first to add to a sum */
	const int64_t *nums;
	int64_t shared_bytes;
};

struct cg_tensor {
	value_id value;
	node_id sink;
	int64_t bytes;
	int64_t elem;		/* enum rt_elem; RT_ELEM_U8: f8e5m2 */
	int64_t row, pitch;	/* as in struct rt_tune_buffer */
	bool written;
};

/*
 * What a contraction computes if nothing follows it: element (b, m, n) of the
 * result, row-major, is the sum over k of products.
 */
struct cg_product {
	bool known;		/* false: something follows, or it is no sum */
	bool adds;		/* on what is stored */
	uint32_t operand[3];	/* left, right, result: of the kernel */
	int64_t offset[2];	/* elements, of left and right */
	struct cg_product_factor {	/* b, m, n, k: runs, outermost first */
		uint32_t n;
		int64_t size[IR_MAX_DIMS], stride[IR_MAX_DIMS][2];
	} factor[4];
};

/* A contraction, or a step of attention, with all its candidates.  Kernels that
 * are alike share one: a candidate is legal for each of them. */
struct cg_contraction {
	const char *what;	/* "bf16 1x512x256x128 kk to f32" */
	/* the first is the choice without measurements */
	VEC(struct cg_trial) trials;
	uint32_t nkernels;
	VEC(struct cg_tensor) tensors;	/* operands of the first kernel */
	struct cg_product product;	/* of the first trial */
	/* of the whole kernel: predicted time, work; 0: not known */
	double us, flops, bytes;
	double peak_flops_us, peak_bytes_us;	/* the device's */
};

/* A tile whose compiled code spills registers. */
struct cg_spill {
	const char *what;	/* as cg_contraction.what */
	struct plan_tile tile;
};

/* Which tiles a plan gives and, if `list` is set, which it could give. */
struct cg_tiling {
	/* rows of the plan: see plan_tile_read */
	const char *const *rows;
	uint32_t nrows;
	struct span rows_at;
	/* avoided where another tile is legal */
	VEC(struct cg_spill) spills;
	bool list;			/* fill in the following fields */
	bool list_all;	/* kernels without a choice, too */
	VEC(struct cg_contraction) found;
	VEC(struct cg_source) sources;
};

/* ---- scratch_bounds.c ---------------------------------------------------- */

/*
 * Upper bounds of the scratch that kernels need, for whoever compares plans
 * before there is code: of a GPU of that architecture; NULL: of that CPU.
 */
const struct memory_scratch *cg_scratch(const char *cpu, const char *arch);

/* ---- host/host_code.c --------------------------------------------------- */

/* A plan being compiled. */
struct cg_code;

struct cg_input {
	/* this and all pointers below outlive the code */
	const struct ranks *ranks;
	const struct target_group *target;
	const struct price *price;
	const char *cpu;		/* "native", "x86-64-v4" */
	bool quick;	/* optimize little: for fast compilation */
	bool no_cache;			/* compile objects anew */
	/* of a GPU: the sources alone are wanted, which need no LLVM; there is
	 * no cg_code_finish */
	bool sources_only;
	/* "sm_90a": kernels are for this GPU, and `cpu` is its host's; NULL:
	 * kernels are for `cpu` */
	const char *arch;
	/* NULL: tiles by estimate, and none listed */
	struct cg_tiling *tiling;
};

/* Parts of a program: the plan, and the model on one rank, or smaller steps of
 * what serves.  Part X defines the symbol llmc_X, and its images are
 * llmc_X_images. */
#define CG_PLAN "plan"
#define CG_WHOLE "whole"
#define CG_MAX_PARTS 16

/* What the program prints and logs about its plan. */
struct cg_facts {
	const char *compiler, *model, *target;
	int64_t batch, tokens;		/* of one step */
	int64_t context;	/* of a served sequence; 0: it trains */
	double step_us;			/* predicted */
	double flops, peak;	/* of one step; per second, of all ranks */
	const char *json, *llp;
	const char *config;	/* config.json of exports, or NULL */
	/* which of the programs that are linked: CG_PLAN, CG_WHOLE, or a size
	 * of a step that serves */
	const char *part;
	/* it is a size: the weights and states are those of CG_PLAN */
	bool is_size;
	/* of CG_PLAN: the parts that are its smaller sizes, ascending; and by
	 * place of the pipeline the bytes that the arena has at least */
	const char *const *sizes;
	uint32_t nsizes;
	const int64_t *arena_bytes;	/* NULL: those that it needs */
	/* an object with the unsharded program is linked too; if not, whole_why
	 * says why */
	bool has_whole;
	const char *whole_why;
};

/* Emits all kernels.  NULL: errors were reported. */
struct cg_code *cg_code_new(struct arena *a, const struct cg_input *in);
/* The sources that a GPU's images are made of: image i of source i.  Returns
 * their number; 0 for a CPU. */
uint32_t cg_code_sources(const struct cg_code *c,
			 const struct cg_source **out);
struct cg_images;
/*
 * Adds to the input's tiling the tiles that spill, as the images compiled from
 * its sources show.  Returns how many of these were not known to spill: if
 * any, the code is to be made anew, and chooses others.
 */
uint32_t cg_code_spills(struct cg_code *c, const struct cg_images *x);
/* Whether kernels of both read weights of one name in one layout. */
bool cg_code_weights_agree(const struct cg_code *x, const struct cg_code *y);
/* Scratch bytes that kernels need on each rank, beside what the plan counts. */
int64_t cg_code_reserve(const struct cg_code *c);
/* After cg_code_finish: bytes of the arena of a place of the pipeline. */
int64_t cg_code_arena(const struct cg_code *c, uint32_t pipe);
/*
 * Plans memory with at least that much reserve, and emits everything but
 * kernels.  What the reserve has beyond cg_code_reserve is in the arena of a
 * CPU; on a GPU it is left to the driver and the libraries.  False: errors
 * were reported.
 */
bool cg_code_finish(struct cg_code *c, int64_t reserve,
		    const struct cg_facts *facts);
/* LLVM's text of the program, or its object: only one of the two, once. */
bool cg_code_text(struct cg_code *c, struct buf *out);
bool cg_code_object(struct cg_code *c, struct buf *out);
void cg_code_free(struct cg_code *c);

/* ---- nvrtc/images.c ----------------------------------------------------- */

struct cg_images;

/* Sources to compile, and the architecture to compile for. */
struct cg_make {
	const struct cg_source *sources;
	uint32_t nsources;
	const struct cg_source *texts;	/* headers that the sources include */
	uint32_t ntexts;
	const char *arch;
	/* images of this run to reuse; NULL: none */
	const struct cg_images *before;
	bool no_cache;
	uint32_t threads;		/* 0: one per core */
};

/* Resources of a compiled function. */
struct cg_func {
	const char *name;
	int64_t registers;		/* per thread */
	int64_t stack_bytes, spill_bytes;	/* spills: stores and loads */
	int64_t smem_bytes;		/* static: beside what a launch gives */
};

/* A compiled source. */
struct cg_image {
	const char *cubin;
	int64_t cubin_bytes;
	const char *ptx;		/* NULL: none */
	VEC(struct cg_func) funcs;	/* sorted by name */
	VEC(const char *) slow;	/* performance warnings of the assembler */
};

struct cg_images {
	struct cg_make make;
	struct cg_image *at;	/* by source; NULL: nothing was compiled */
	const char *made_by;	/* "NVRTC 13.0, sm_90a"; NULL: not compiled */
	const char *missing;		/* if not compiled: why, for a note */
	uint32_t ncached;		/* images that came from the cache */
};

/* The prelude: the headers that all kernels include. */
const struct cg_source *cg_prelude(struct arena *a, uint32_t *n);
/*
 * Compiles all sources, but takes from make->before those that it has.  If
 * NVRTC is missing, out->made_by is NULL, which is no error.  False: errors
 * were reported.
 */
bool cg_images(struct ir_ctx *ctx, const struct cg_make *make,
	       struct cg_images *out);
/* Reports performance warnings of images that are going to be used. */
void cg_images_warn(struct ir_ctx *ctx, const struct cg_images *x);
/* A hash of the bytes, 32 hexadecimal digits: for caches, and files of a
 * plan. */
const char *cg_digest(struct arena *a, const void *at, size_t n);
/* Writes an object file that defines a struct rt_images of that name. */
void cg_images_object(const struct cg_images *x, const char *name,
		      struct buf *out);

/* ---- link/link.c -------------------------------------------------------- */

#define CG_MAX_OBJECTS (2 * CG_MAX_PARTS)	/* of each, and its images */

/*
 * Links objects and the runtime to the program that ranks run.  The result
 * does not depend on where or when it is linked.  False: errors were reported.
 */
bool cg_link(struct ir_ctx *ctx, const struct buf *objects, uint32_t n,
	     struct buf *out);
/* The bytes of the emulator, RT_EMULATOR_FILE.  False after an error. */
bool cg_emulator(struct ir_ctx *ctx, struct buf *out);
/* Links an object to a shared one and loads it: for dlsym and dlclose.  NULL
 * after errors. */
void *cg_load(struct ir_ctx *ctx, const struct buf *object);

/* ---- host/host_single.c: kernels of one op, in this process -------------- */

/* A kernel of one rank that has all of its values, ready to be called. */
struct cg_single {
	const struct rt_kernel *kernel;
	const uint32_t *values;	/* by operand: 0 for %0 of the text, .. */
	const uint32_t *lanes;	/* by operand: as in rt_hold */
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
