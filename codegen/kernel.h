/*
 * A kernel as every back end describes it to the host program: what it is
 * called with, and its steps.
 *
 * All sizes are constants: those of one rank's pieces.  Which positions of a
 * whole dim these are the kernel is told when it runs (rt_call.pieces), and
 * only if it asks.
 */
#ifndef CODEGEN_KERNEL_H
#define CODEGEN_KERNEL_H

#include "passes/kernels/kernels.h"
#include "runtime/abi.h"

struct ll_value;

/* A place in memory that the kernel is called with. */
struct cg_operand {
	value_id value;		/* what lies there, no view of it; or 0: */
	node_id sink;		/* the tensor that this one names */
	bool written;
};

/* The positions of a dim that a rank has. */
struct cg_spread {
	int64_t size;
	uint32_t cut;		/* as in ir_type.cut */
};

enum cg_num_kind {
	CG_STEP,		/* rt_env.step */
	CG_KEY,			/* of the node's name, in this trip, and seed */
	CG_AT,			/* the rank's coordinate on axis `node` */
	CG_OLD			/* 0: what `node` adds to is to be stored */
};

struct cg_num {
	enum cg_num_kind kind;
	node_id node;
};

/* An operand as the GPU's copying unit knows it: see rt_map. */
struct cg_map {
	uint32_t operand;
	enum rt_elem elem;
	int64_t offset;		/* bytes from the operand to element 0 */
	uint32_t ndims;		/* 2 to 5; dim 0 is dense, the innermost */
	int64_t size[5], stride[5];	/* elements; bytes, of dims from 1 on */
	int64_t box[5];		/* elements; innermost at most 256 */
	int64_t swizzle;	/* bytes: 0, 32, 64, 128 */
};

/* A function of a GPU and how it is launched. */
struct cg_grid {
	const char *func;	/* its name in the kernel's source */
	int64_t blocks[3], threads;
	int64_t cluster;	/* blocks along x that are one; 1: none */
	int64_t smem_bytes;	/* of shared memory, all dynamic */
	VEC(struct cg_map) maps;
};

struct cg_step {
	struct ll_value *func;	/* of a CPU: over items */
	int64_t items;
	struct cg_grid *grid;	/* of a GPU; neither: ranks talk */
	/* a talk of f32 in shared room */
	enum rt_coll_op op;
	uint32_t axes;
	int64_t elems, in, out;
	/* if its elements are not alike on all ranks: by dim */
	uint32_t ndims;
	struct cg_spread from[IR_MAX_DIMS], to[IR_MAX_DIMS];
};

/* A kernel as it is called. */
struct cg_kernel {
	const char *what;
	VEC(struct cg_operand) operands;	/* rt_call.at */
	VEC(struct cg_spread) spreads;		/* rt_call.pieces */
	VEC(struct cg_num) nums;		/* rt_call.num */
	VEC(struct cg_step) steps;
	int64_t shared_bytes, own_bytes;	/* rooms; own: each worker's */
	/* of a GPU: the text of all its functions, but for the prelude */
	const char *name, *source;
};

/* ---- kernel.c ----------------------------------------------------------- */

/* Positions of a dim on a rank that stands at `at`. */
int64_t cg_local_size(const struct ir_module *m, const uint32_t *at, dim_id d,
		      uint32_t cut);
/* The number of an operand, a spread or a number of the kernel; added. */
uint32_t cg_operand(struct arena *a, struct cg_kernel *k, value_id value,
		    node_id sink, bool written);
uint32_t cg_spread(struct arena *a, struct cg_kernel *k, int64_t size,
		   uint32_t cut);
uint32_t cg_num(struct arena *a, struct cg_kernel *k, enum cg_num_kind kind,
		node_id node);

/* ---- view.c: operands as they lie in memory ------------------------------ */

/* For which ranks of a module, and of which kernel. */
struct cg_site {
	struct ir_module *m;
	struct arena *a;
	const uint32_t *at;	/* a rank that has these sizes */
	struct cg_kernel *out;
};

/* An operand of a contraction or of attention, through views. */
struct cg_view {
	uint32_t operand;
	enum ir_dtype dtype;
	int64_t offset;			/* elements */
	int64_t size[IR_MAX_DIMS];	/* by dim of the value's type */
	int64_t stride[IR_MAX_DIMS];	/* elements */
	uint32_t nmoved;		/* offsets by this rank's pieces */
	struct {
		uint32_t spread;
		int64_t stride;
	} moved[IR_MAX_DIMS];
};

/* False: elements along its dims are no fixed distances apart. */
bool cg_view(const struct cg_site *s, const struct kernel *x, value_id v,
	     struct cg_view *out);

#endif
