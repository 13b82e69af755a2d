/*
 * The manual of codegen/cuda/: kernels for NVIDIA's GPUs, from a kernel group
 * to the text of CUDA functions.  host/, nvrtc/ and tests call it; it may use
 * ir/, passes/kernels, passes/plan, cg.h, kernel.h, and the folders that any
 * back end shares (nest/, dot/, attention/, experts/).
 *
 * The text is in the part of CUDA C++ that is C, too, and leaves everything
 * that depends on the machine to the functions of the prelude (docs/cuda.md),
 * so that NVRTC compiles it, and so does a C compiler for the emulator.  A
 * kernel is called with one struct, `a`:
 *
 *	struct NAME_args {
 *		char *at[N];			by operand
 *		const struct pieces *pieces[N];	by shard
 *		i64 num[N];			by number
 *		char *shared;			shared scratch: rt_kernel.shared
 *		const i64 *live;		[0]: the optimizer's step
 *		tensor_map map[N];		of the step, on 64 bytes
 *	};
 *
 * Arrays without elements are left out.
 */
#ifndef CODEGEN_CUDA_CUDA_H
#define CODEGEN_CUDA_CUDA_H

#include "codegen/cg.h"
#include "codegen/kernel.h"

/* ---- cuda_arch.c -------------------------------------------------------- */

/* What kernels depend on in an architecture. */
struct cu_arch {
	const char *name;	/* "sm_90a": NVRTC's name */
	const char *fallback;	/* "compute_80": PTX for later devices, or "" */
	int major, minor;
	int64_t smem_bytes;	/* shared memory of a block, at most */
	int64_t registers;	/* registers of a multiprocessor */
	bool wgmma;		/* wgmma, TMA and clusters: sm_90a */
	bool tcgen05;		/* tensor memory, TMA and clusters: sm_100a */
	bool fp8;
};

/* NULL: llmc has no kernels for it. */
const struct cu_arch *cu_arch_find(const char *name);

struct cg_cuda;

/* ---- cuda_candidates.c: legal tiles, and those that a plan gives -------- */

/* A legal tile of a contraction, or of a step of attention. */
struct cu_candidate {
	struct plan_tile tile;
	double cycles;
	bool fewer;		/* fewer stages than fit */
};

/*
 * The candidates of a contraction, or of a step of attention.  Whoever chooses
 * adds all legal ones; the choice is the one of least cycles among those that
 * do not spill or, if all spill, among all.
 */
struct cu_candidates {
	const char *what;	/* its name in plans; NULL: nobody needs it */
	/* the plan's tile, which is then the choice; NULL: none */
	const struct plan_tile *want;
	const struct cg_tiling *in;	/* lists tiles that spill; NULL: none */
	bool all;	/* keep all in `at`, also with fewer stages than fit */
	bool counted;	/* times depend on shapes alone, so measuring helps */
	bool met;			/* `want` was among them */
	bool spills;			/* the choice spills */
	struct plan_tile chosen;
	double least;
	uint32_t first, end;		/* its steps in the kernel */
	struct cg_product product;
	VEC(struct cu_candidate) at;
};

struct cu_tile_row {
	const char *what, *text;
	struct plan_tile tile;
	bool used, refused;
};

/* Tiles of all kernels of a plan. */
struct cu_tiling {
	struct cg_tiling *in;
	VEC(struct cu_tile_row) rows;
	VEC(const char *) seen;		/* names of contractions, each once */
	/* for measuring: this tile, whatever rows say, for this name, or for
	 * all if it is NULL */
	const struct plan_tile *force;
	const char *force_what;
	VEC(struct cu_candidates) last;	/* candidates of the last kernel */
};

/* Reads the rows of a plan; NULL if `in` is NULL. */
struct cu_tiling *cu_tiling_open(struct arena *a, struct cg_tiling *in);
/* After all kernels.  False: a row is of no kernel, which is reported. */
bool cu_tiling_close(const struct cu_tiling *t, struct ir_module *m);
/* Whether a row of the plan is of what is called `what`. */
bool cu_tiling_names(const struct cu_tiling *t, const char *what);
struct cu_kernel;
/* Begins the candidates of what is called `what`, with what the plan says of
 * it; `what` is NULL if there is no plan. */
void cu_candidates_open(struct cu_kernel *k, const char *what,
			struct cu_candidates *w);
/* After the steps of the choice were emitted: reports a tile of the plan that
 * is not among the candidates. */
void cu_candidates_close(struct cu_kernel *k, struct cu_candidates *w);
/* Candidates of the last kernel, by name; NULL: there are none of that name. */
const struct cu_candidates *cu_candidates_of(const struct cu_tiling *t,
					     const char *what);
/* Forgets all candidates, before the first is added. */
void cu_candidates_clear(struct cu_candidates *w);
/* Adds a candidate; those of more stages come first.  True: it is the choice so
 * far. */
bool cu_candidates_add(struct arena *a, struct cu_candidates *w,
		       const struct plan_tile *tile, bool fewer, double cycles);
/* Adds a candidate with `most` stages, as many as fit, and, if all candidates
 * are kept, with fewer.  Returns the stages of the choice so far; 0: it is
 * none of these. */
int64_t cu_candidates_add_stages(struct arena *a, struct cu_candidates *w,
				 const struct plan_tile *tile, int64_t most,
				 double cycles);
/*
 * The candidates to measure: the choice first, then the best by cycles, at
 * most two tiles of one size, and with fewer stages than fit only tiles of the
 * choice's size.  Returns how many, at most `most`.
 */
uint32_t cu_candidates_best(const struct cu_candidates *w, uint32_t most,
			    struct cu_candidate *out);

/* All kernels of a module, for ranks with the same sizes. */
struct cg_cuda {
	struct ir_module *m;
	struct arena *a;	/* memory of what is returned */
	const struct cu_arch *arch;
	/* mesh coordinates of one of these ranks */
	uint32_t at[IR_MAX_AXES + 1];
	uint32_t nfuncs;	/* kernels so far, for names */
	const bool *apart;	/* as in struct memory; NULL: none are */
	/*
	 * Multiprocessors of the device, at least 1.  Tiles, parts of k and
	 * grids of blocks that take one item after another are chosen for so
	 * many.  Blocks wait for others of their cluster, and else only for
	 * those that have begun, so a device with fewer runs the same program,
	 * to the same bits.
	 */
	int64_t units;
	/* For tests: all gradients of attention are made by one kernel
	 * wherever it can, with at most so many bytes of sums.  0: where
	 * that is predicted to be faster, with COST_JOINT_SCRATCH bytes. */
	int64_t joint_scratch;
	/* For tests: what attention takes the L2 cache to hold, of heads that
	 * it makes before others.  0: 32 MiB. */
	int64_t cached_bytes;
	struct cu_tiling *tiling;	/* NULL: tiles by estimate alone */
};

/* ---- cuda_kernel.c ------------------------------------------------------ */

/* A kernel whose text is being written. */
struct cu_kernel {
	struct cg_cuda *c;
	struct cg_kernel *out;
	uint32_t number;	/* among all kernels */
	uint32_t nnames;	/* functions so far, for names */
	struct buf text;	/* finished functions */
	uint32_t nmaps;		/* most tensor maps of a step */
	const char *why;	/* why it cannot be done; NULL */
};

/* A function whose text is being written. */
struct cu_func {
	struct cu_kernel *k;
	struct cg_grid *grid;
	struct buf text;
	uint32_t depth;
	/* blocks of a multiprocessor, at least; 0: unspecified */
	uint32_t minblocks;
	bool waits;	/* for the kernel before, somewhere in its text */
};

/*
 * Emits one kernel that is not a repeat, a call or a single collective: its
 * steps, and out->source.  False: *why says what cannot be done, for the user.
 */
bool cg_cuda_kernel(struct cg_cuda *c, const struct kernel *k,
		    struct cg_kernel *out, const char **why);
/* The same, by one emitter. */
typedef bool cu_emitter(struct cu_kernel *k, const struct kernel *x);
bool cg_cuda_kernel_by(struct cg_cuda *c, const struct kernel *k,
		       cu_emitter *emit, struct cg_kernel *out,
		       const char **why);
/* Undoes what an emitter added before it failed. */
void cu_kernel_reset(struct cu_kernel *k);
/* An emitter: the whole kernel as loop nests. */
bool cu_nest_all(struct cu_kernel *k, const struct kernel *x);
int64_t cu_local_size(const struct cg_cuda *c, dim_id d, uint32_t cut);

/* A new function name: "dot12"; "sum12_1" for the second function of kernel
 * 12. */
const char *cu_func_name(struct cu_kernel *k, const char *what);
/* Begins a step, a function of such a name.  The caller sets blocks, threads
 * and shared memory before cu_func_end. */
void cu_func_begin(struct cu_kernel *k, const char *what, struct cu_func *f);
void cu_func_end(struct cu_func *f);
/* Emits the wait for the kernel before.  Every thread must come to it, and none
 * may touch global memory before it.  A function without one waits first. */
void cu_launch_wait(struct cu_func *f);
/* Appends a line, indented. '{' at its end opens a block, '}' at its start
 * closes one. */
void cu_line(struct cu_func *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Closes so many blocks. */
void cu_close(struct cu_func *f, int blocks);
/* Appends a comment. */
void cu_comment(struct cu_func *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* C text of what the kernel is called with. */
const char *cu_operand(struct cu_func *f, uint32_t operand);	/* char * */
const char *cu_pieces(struct cu_func *f, uint32_t spread);
const char *cu_num(struct cu_func *f, uint32_t num);	/* i64; CG_STEP too */
/* The same of CG_OLD of a sink: a kernel that uses it must store where it is
 * 0, whatever lies there. */
const char *cu_old(struct cu_func *f, node_id sink);
/* The C type of a stored element, as "bf16", and its bytes. */
const char *cu_elem_type(enum ir_dtype t);
int64_t cu_elem_bytes(enum ir_dtype t);
/* C text: converts a stored element to the type of computations (f32, f64 or
 * i64), and back. */
const char *cu_widen(struct arena *a, enum ir_dtype t, const char *x);
const char *cu_narrow(struct arena *a, enum ir_dtype t, const char *x);

/* ---- cuda_take.c: items that blocks take from a counter ----------------- */

struct cu_take {
	const char *item;	/* an int, -1 if there is none */
	const char *first;	/* C text: the first item of a block */
	const char *takers;	/* C text: how many blocks take items */
	int64_t items;
	/* C text: in which block of a cluster it holds that takes; NULL: each
	 * block does */
	const char *who;
};

/* For one thread of a block.  Declares the counter, and the first item; takes
 * the next one; and follows the last one. */
void cu_take_first(struct cu_func *f, const struct cu_take *t);
void cu_take_next(struct cu_func *f, const struct cu_take *t);
void cu_take_end(struct cu_func *f, const struct cu_take *t);
/* For a whole warp.  Declares the item, whose number is `at` (C text); who
 * stored it there may store the next one when a lane has then said so. */
void cu_take_read(struct cu_func *f, const char *item, const char *at);

/* ---- cuda_nest.c: loops around scalar expressions ----------------------- */

/*
 * Nodes to be computed over a box, as struct cg_nest of a CPU, with C text in
 * place of LLVM values.  A leaf is a value that the caller has computed, f32
 * in shared or global memory.
 */
struct cu_leaf {
	value_id value;
	/* row-major over a box of the value: f32 *, or of its own type */
	const char *at;
	bool own_type;
	/* by dim of the value's type: the box's first index (NULL: 0), and the
	 * stride in elements */
	const char *from[IR_MAX_DIMS];
	int64_t stride[IR_MAX_DIMS];
	/* alignment of `at`; 16: accessed by vectors */
	int64_t bytes;
};

struct cu_nest {
	const struct kernel *k;
	VEC(node_id) nodes;	/* in the kernel's order, sinks too */
	VEC(struct cu_leaf) leaves;
	struct ir_type space;	/* dims of the box */
	const char *from[IR_MAX_DIMS];	/* first indices; NULL: 0 */
	/* `from` is a multiple of this, and so is `live` if the dim's size is;
	 * 0: unknown, and elements are accessed one by one */
	int64_t unit[IR_MAX_DIMS];
	int64_t count[IR_MAX_DIMS];	/* sizes, at most; 0: the whole dim */
	/* actual sizes, if they may be smaller; NULL: count */
	const char *live[IR_MAX_DIMS];
	/* lines of C that fill the leaves: of a box they are emitted once,
	 * where loads of other operands may be in flight; NULL: they are
	 * filled */
	const char *ready;
};

/* All nodes of a kernel, over a space, without leaves. */
struct cu_nest cu_nest_of(struct arena *a, const struct kernel *x,
			  const struct ir_type *space);
/* Adds a leaf whose first indices are the box's. */
void cu_nest_add_leaf(struct arena *a, struct cu_nest *n,
		      struct cu_leaf leaf);
/* Emits steps for the nodes over their whole space. */
bool cu_nest_steps(struct cu_kernel *k, const struct cu_nest *n);
/*
 * Emits the nodes inside of a function: only maps, views, sinks, and
 * reductions of whole dims of the box.  Threads first .. first + threads - 1
 * of the block share the elements.  The caller synchronizes them before and
 * after.
 */
bool cu_nest_box(struct cu_func *f, const struct cu_nest *n, int64_t threads,
		 const char *thread);
/* What such a box costs. */
struct cu_nest_cost {
	/* issue slots of a thread for each element, in the mean: loads,
	 * expressions and stores, in vectors if leaves and indices allow */
	double slots;
	int64_t lanes;	/* elements of a vector */
	int64_t loads;	/* of vectors in global memory, for each of the box */
	bool pair;	/* a thread has two vectors, of both halves of a dim */
};

/* Emits nothing; no slots: it cannot be done. */
struct cu_nest_cost cu_nest_cost_of(const struct cu_kernel *k,
				    const struct cu_nest *n);
/*
 * Emits steps that store a value of the nodes in shared scratch at *offset,
 * f32 and row-major, for later steps of the kernel.
 */
bool cu_nest_value(struct cu_kernel *k, const struct cu_nest *n,
		   value_id value, int64_t *offset);

/* ---- cuda_view.c: operands as they lie in memory ------------------------ */

struct cg_site cu_site(const struct cu_kernel *k);
/* As cg_view.  False: it must be copied. */
bool cu_view_of(struct cu_kernel *k, const struct kernel *x, value_id v,
		struct cg_view *out);
/* C text: a pointer to its first element. */
const char *cu_view_at(struct cu_func *f, const struct cg_view *v);
/* Appends a dim to a tensor map: size, stride and box in elements of `bytes`
 * bytes.  False: the copying unit has no such maps. */
bool cu_map_add(struct cg_map *m, int64_t bytes, int64_t size, int64_t stride,
		int64_t box);
/* For one thread, before the wait for the kernel before: fetches the maps. */
void cu_fetch_maps(struct cu_func *f);
/*
 * Whether the copying unit can read it: it needs multiples of 16 bytes, also
 * of the operand's address.  Of that only one thing is known: the stacks of
 * layers begin at multiples of 64 bytes, and layers follow each other.
 */
bool cu_view_aligned(struct cu_kernel *k, const struct cg_view *v);
/* Elements of the operand: those of the next layer follow. */
int64_t cu_view_whole(struct cu_kernel *k, const struct cg_view *v);

/* ---- cuda_dot.c, cuda_dot90.c, cuda_experts.c, cuda_attention.c --------- */

/*
 * A contraction with its epilogue, with wgmma where cuda_dot90.c can.
 */
bool cu_dot_steps(struct cu_kernel *k, const struct kernel *x);
/* All members of a launch at once.  False: there is no such kernel for them. */
bool cu_dot_launch_steps(struct cu_kernel *k, const struct kernel *x);
/* The same with experts: dot_at, dot_to. */
bool cu_experts_steps(struct cu_kernel *k, const struct kernel *x);
bool cu_attention_steps(struct cu_kernel *k, const struct kernel *x);

/* ---- prelude_text.c: generated from codegen/cuda/prelude/ ---------------- */

/* A file of the prelude, as "prelude.h". */
struct cu_text {
	const char *name, *text;
};

extern const struct cu_text cu_prelude[];
extern const uint32_t cu_nprelude;
/* Functions that the host program launches itself: copies, fills. */
extern const char cu_services[];

#endif
