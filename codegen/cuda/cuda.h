/*
 * Kernels for NVIDIA's GPUs: from a kernel group to the text of CUDA
 * functions.  Between the files of codegen/cuda/ and those of codegen/host/.
 *
 * The text is in the part of CUDA that is C too, and leaves everything that a
 * machine decides to the functions of the prelude (docs/cuda.md): the same
 * text is compiled by NVRTC, and by a C compiler for the emulator.  What a
 * kernel is called with is one struct, `a`:
 *
 *	struct NAME_args {
 *		char *at[N];			by operand
 *		const struct pieces *pieces[N];	by spread
 *		i64 num[N];			by number
 *		char *shared;			room of rt_kernel.shared
 *		const i64 *live;		[0]: the optimizer's step
 *		tensor_map map[N];		of the step, on 64 bytes
 *	};
 *
 * Arrays of no elements are left out.
 */
#ifndef CODEGEN_CUDA_CUDA_H
#define CODEGEN_CUDA_CUDA_H

#include "codegen/cg.h"
#include "codegen/kernel.h"

/* ---- cuda_arch.c -------------------------------------------------------- */

/* What kernels ask of an architecture. */
struct cu_arch {
	const char *name;	/* "sm_90a", as NVRTC takes it */
	const char *fallback;	/* "compute_80": PTX for later devices, or "" */
	int major, minor;
	int64_t smem_bytes;	/* that a block may have */
	int64_t registers;	/* of a multiprocessor */
	bool wgmma;		/* and TMA, clusters: sm_90a */
	bool fp8;
};

/* NULL: llmc has no kernels for it. */
const struct cu_arch *cu_arch_find(const char *name);

struct cg_cuda;

/* ---- cuda_ways.c: tiles that a plan gives, and those that there are ----- */

/* A legal tile of a contraction, or of a step of attention. */
struct cu_way {
	struct plan_tile tile;
	double cycles;
	bool fewer;		/* stages than there is room for */
};

/*
 * All of one of them, as whoever chooses goes through them: the one of least
 * cycles among those that do not spill, or if all do of all, is the choice.
 */
struct cu_ways {
	const char *what;		/* it is called; NULL: nobody asks */
	const struct plan_tile *want;	/* it is this one; NULL: see above */
	const struct cg_tiling *in;	/* says which spill; NULL: none */
	bool all;			/* keep them, those of few stages too */
	bool counted;			/* times depend on shapes alone */
	bool met;			/* what is wanted was among them */
	bool spills;			/* the choice does */
	struct plan_tile chosen;
	double least;
	uint32_t first, end;		/* steps of the kernel that it is of */
	VEC(struct cu_way) at;
};

struct cu_row {
	const char *what, *text;
	struct plan_tile tile;
	bool used, refused;
};

/* Of all kernels of a plan. */
struct cu_tiling {
	struct cg_tiling *in;
	VEC(struct cu_row) rows;
	VEC(const char *) seen;		/* contractions, each once */
	/* whatever rows say: of this name, or of all if it is NULL */
	const struct plan_tile *force;
	const char *force_what;
	VEC(struct cu_ways) last;	/* of the last kernel */
};

/* NULL if there is none in *in. */
struct cu_tiling *cu_tiling_open(struct arena *a, struct cg_tiling *in);
/* Behind all kernels; false: a row was of none, which is reported. */
bool cu_tiling_close(const struct cu_tiling *t, struct ir_module *m);
struct cu_kernel;
/* What the plan says of what is called `what`; NULL, if there is no plan. */
void cu_ways_open(struct cu_kernel *k, const char *what, struct cu_ways *w);
/* Behind the steps of the choice: reports a tile that is none of its ways. */
void cu_ways_close(struct cu_kernel *k, struct cu_ways *w);
/* Of the last kernel, by name; NULL: it has no such. */
const struct cu_ways *cu_ways_of(const struct cu_tiling *t, const char *what);
/* Of a choice that goes through ways, before the first. */
void cu_ways_clear(struct cu_ways *w);
/* The next one, behind those of more stages; true: the choice so far. */
bool cu_ways_add(struct arena *a, struct cu_ways *w,
		 const struct plan_tile *tile, bool fewer, double cycles);
/*
 * Of those that were gone through, sorted: the choice, then the best by
 * cycles, at most two of one size of tiles, and of fewer stages only the
 * choice's size.  How many, at most `most`.
 */
uint32_t cu_ways_best(const struct cu_ways *w, uint32_t most,
		      struct cu_way *out);

/* All kernels of one module for ranks at one place of the mesh. */
struct cg_cuda {
	struct ir_module *m;
	struct arena *a;	/* of what is returned */
	const struct cu_arch *arch;
	uint32_t at[IR_MAX_AXES + 1];	/* a rank that has these sizes */
	uint32_t nfuncs;	/* kernels emitted so far: for names */
	int64_t units;		/* multiprocessors; 0: as usual */
	struct cu_tiling *tiling;	/* NULL: as the table says */
};

/* ---- cuda_kernel.c ------------------------------------------------------ */

/* A kernel whose text is being written. */
struct cu_kernel {
	struct cg_cuda *c;
	struct cg_kernel *out;
	uint32_t number;	/* of all kernels */
	uint32_t nnames;	/* of its functions so far */
	struct buf text;	/* of functions that are done */
	uint32_t nmaps;		/* most of any step */
	const char *why;	/* it cannot be done */
};

/* A function of it: lines at a depth. */
struct cu_func {
	struct cu_kernel *k;
	struct cg_grid *grid;
	struct buf text;
	uint32_t depth, nlabels;
	uint32_t minblocks;	/* of a multiprocessor; 0: say nothing */
};

/*
 * Emits one kernel that is neither a repeat nor a call nor a talk alone: its
 * steps, and out->source.  False: *why says what cannot be done, for the
 * user.
 */
bool cg_cuda_kernel(struct cg_cuda *c, const struct kernel *k,
		    struct cg_kernel *out, const char **why);
/* The same by one emitter alone. */
typedef bool cu_emitter(struct cu_kernel *k, const struct kernel *x);
bool cg_cuda_kernel_by(struct cg_cuda *c, const struct kernel *k,
		       cu_emitter *emit, struct cg_kernel *out,
		       const char **why);
/* What an emitter asked for that then could not do it. */
void cu_kernel_reset(struct cu_kernel *k);
/* An emitter: all of it as loops around scalar expressions. */
bool cu_nest_all(struct cu_kernel *k, const struct kernel *x);
int64_t cu_local_size(const struct cg_cuda *c, dim_id d, uint32_t cut);

/* A function's name: "dot12", "sum12_1" of kernel 12, whatever others have. */
const char *cu_func_name(struct cu_kernel *k, const char *what);
/* A new step, by such a name; the caller sets blocks, threads, smem before or
 * while it writes the text. */
void cu_func_begin(struct cu_kernel *k, const char *what, struct cu_func *f);
void cu_func_end(struct cu_func *f);
/* One line, indented; '{' at its end opens a block, '}' at its start
 * closes one. */
void cu_line(struct cu_func *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* A comment. */
void cu_comment(struct cu_func *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* C text of what the function is called with. */
const char *cu_operand(struct cu_func *f, uint32_t operand);	/* char * */
const char *cu_pieces(struct cu_func *f, uint32_t spread);
const char *cu_num(struct cu_func *f, uint32_t num);	/* i64; CG_STEP too */
/* The type of an element as it lies in memory: "bf16"; bytes of one. */
const char *cu_elem_type(enum ir_dtype t);
int64_t cu_elem_bytes(enum ir_dtype t);
/* C text: such an element, as computed with (f32, f64 or i64), and back. */
const char *cu_widen(struct arena *a, enum ir_dtype t, const char *x);
const char *cu_narrow(struct arena *a, enum ir_dtype t, const char *x);

/* ---- cuda_nest.c: loops around scalar expressions ----------------------- */

/*
 * As struct cg_nest of a CPU, with C text in place of values of LLVM.  A leaf
 * is f32, and lies in shared or in global memory.
 */
struct cu_leaf {
	value_id value;
	const char *at;		/* f32 *, row-major over a box of the value */
	/* by dim of the value's type: where the box begins, and how far apart
	 * elements are there, in elements; NULL: 0 */
	const char *from[IR_MAX_DIMS];
	int64_t stride[IR_MAX_DIMS];
	/* what `at` is a multiple of; 16: several elements at once */
	int64_t bytes;
};

struct cu_nest {
	const struct kernel *k;
	VEC(node_id) nodes;	/* of the kernel, in order, sinks too */
	VEC(struct cu_leaf) leaves;
	struct ir_type space;	/* dims that the box is of */
	const char *from[IR_MAX_DIMS];	/* NULL: 0 */
	/* that `from` is a multiple of, and `live` too if the dim's size is;
	 * 0: it is not known, and elements are moved one by one */
	int64_t unit[IR_MAX_DIMS];
	int64_t count[IR_MAX_DIMS];	/* at most; 0: all */
	const char *live[IR_MAX_DIMS];	/* if fewer; NULL: count */
};

/* Whole steps for all of the kernel's space. */
bool cu_nest_steps(struct cu_kernel *k, const struct cu_nest *n);
/*
 * Inside of a function: only maps, views, sinks, and sums over whole dims of
 * the box.  All threads first .. first + threads - 1 of the block run it, and
 * share its elements; whoever calls waits before and behind.
 */
bool cu_nest_box(struct cu_func *f, const struct cu_nest *n, int64_t threads,
		 const char *thread);
/*
 * Steps that put a value which the nest's nodes make into shared room, as f32
 * and row-major, for later steps of the kernel: at *offset.
 */
bool cu_nest_value(struct cu_kernel *k, const struct cu_nest *n,
		   value_id value, int64_t *offset);

/* ---- cuda_view.c: operands as they lie in memory ------------------------ */

struct cg_site cu_site(const struct cu_kernel *k);
/* False: it is no such view, and wants to be copied. */
bool cu_view(struct cu_kernel *k, const struct kernel *x, value_id v,
	     struct cg_view *out);
/* C text: a pointer to its first element, of its type. */
const char *cu_view_at(struct cu_func *f, const struct cg_view *v);
/*
 * Whether the copying unit can begin there: it wants 16-byte multiples of
 * everything, of the operand's address too, of which is known that stacks
 * begin at multiples of 64 bytes.
 */
bool cu_view_aligned(struct cu_kernel *k, const struct cg_view *v);

/* ---- cuda_dot.c, cuda_dot90.c, cuda_experts.c, cuda_attention.c --------- */

/*
 * A contraction with the maps behind it; cuda_dot.c chooses cuda_dot90.c if it
 * can.
 */
bool cu_dot_steps(struct cu_kernel *k, const struct kernel *x);
/* The same, of matrices that an index chooses: dot_at, dot_to. */
bool cu_experts_steps(struct cu_kernel *k, const struct kernel *x);
bool cu_attention_steps(struct cu_kernel *k, const struct kernel *x);

/* ---- prelude_text.c: generated from codegen/cuda/prelude/ ---------------- */

/* A file of the prelude: "prelude.h", and those that it includes. */
struct cu_text {
	const char *name, *text;
};

extern const struct cu_text cu_prelude[];
extern const uint32_t cu_nprelude;
/* Functions that the host program itself launches: copies, fills. */
extern const char cu_services[];

#endif
