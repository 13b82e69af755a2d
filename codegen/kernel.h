/*
 * A kernel as every back end describes it to the host program: what it is
 * called with, and its steps.  For codegen/ alone: nest/, dot/, attention/ and
 * experts/ fill these lists for any machine, cpu/ and cuda/ emit the steps,
 * and host/ writes the calls.
 *
 * All sizes are constants, those of one rank's shards.  Which positions of a
 * whole dim a rank has is passed when the kernel runs (rt_call.pieces), and
 * only to kernels that use it.
 */
#ifndef CODEGEN_KERNEL_H
#define CODEGEN_KERNEL_H

#include "passes/kernels/kernels.h"
#include "runtime/abi.h"

struct ll_value;

/* Memory that the kernel is called with. */
struct cg_operand {
	value_id value;	/* a value that is stored, never a view; or 0: */
	node_id sink;		/* the tensor that this sink writes */
	bool written;
};

/* The positions of a dim that a rank has, as a sharding of the dim. */
struct cg_spread {
	int64_t size;
	uint32_t cut;	/* as ir_type.cut: the mesh axes that shard it */
};

enum cg_num_kind {
	CG_STEP,		/* rt_env.step */
	CG_KEY,	/* random key: of the seed, the node's name and the iteration */
	CG_AT,			/* this rank's coordinate on mesh axis `node` */
	CG_OLD	/* 0: nothing was accumulated yet, so sink `node` stores */
};

struct cg_num {
	enum cg_num_kind kind;
	node_id node;
};

/* An operand as a tensor map of the GPU's copying unit (TMA): see rt_map. */
struct cg_map {
	uint32_t operand;
	enum rt_elem elem;
	int64_t offset;	/* bytes from the operand's start to element 0 */
	uint32_t ndims;		/* 2 to 5; dim 0 is the innermost, and dense */
	/* elements; bytes, for dims from 1 on */
	int64_t size[5], stride[5];
	int64_t box[5];		/* elements; innermost at most 256 */
	int64_t swizzle;	/* bytes: 0, 32, 64, 128 */
};

/* A function of a GPU, and how it is launched. */
struct cg_grid {
	const char *func;	/* its name in the kernel's source */
	int64_t blocks[3], threads;
	/* blocks of a cluster, along x; 1: no clusters */
	int64_t cluster;
	int64_t smem_bytes;	/* dynamic shared memory */
	VEC(struct cg_map) maps;
};

struct cg_step {
	struct ll_value *func;	/* of a CPU: a function over a range of items */
	int64_t items;
	struct cg_grid *grid;	/* of a GPU; if neither is set: a collective */
	/* a collective of f32 in shared scratch, from `in` to `out` */
	enum rt_coll_op op;
	uint32_t axes;
	int64_t elems, in, out;
	/* where shards differ in size, by dim: the shards before and after */
	uint32_t ndims;
	struct cg_spread from[IR_MAX_DIMS], to[IR_MAX_DIMS];
};

struct cg_kernel {
	const char *what;
	VEC(struct cg_operand) operands;	/* rt_call.at */
	VEC(struct cg_spread) spreads;		/* rt_call.pieces */
	VEC(struct cg_num) nums;		/* rt_call.num */
	VEC(struct cg_step) steps;
	/* scratch: of the kernel, and of each worker */
	int64_t shared_bytes, own_bytes;
	/* of a GPU: the text of its functions, without the prelude */
	const char *name, *source;
};

/* ---- kernel.c ----------------------------------------------------------- */

/* How many positions of a dim the rank at mesh coordinates `at` has. */
int64_t cg_local_size(const struct ir_module *m, const uint32_t *at, dim_id d,
		      uint32_t cut);
/* Reserves shared scratch; returns where, a multiple of `align`. */
int64_t cg_reserve_shared(struct cg_kernel *k, int64_t align, int64_t bytes);
/* The index of an operand, a shard or a number in the kernel's lists; appends
 * it if it is new. */
uint32_t cg_operand(struct arena *a, struct cg_kernel *k, value_id value,
		    node_id sink, bool written);
uint32_t cg_spread(struct arena *a, struct cg_kernel *k, int64_t size,
		   uint32_t cut);
uint32_t cg_num(struct arena *a, struct cg_kernel *k, enum cg_num_kind kind,
		node_id node);

/* ---- view.c: operands as they lie in memory ------------------------------ */

/* What a view is resolved for: ranks of a module, and a kernel. */
struct cg_site {
	struct ir_module *m;
	struct arena *a;
	/* mesh coordinates of a rank with these sizes */
	const uint32_t *at;
	struct cg_kernel *out;
	const bool *apart;	/* as in struct memory; NULL: none are */
};

/* Elements from one row of a stored value to the next, of n elements each. */
static inline int64_t
cg_row_pitch(const struct ir_module *m, const bool *apart, value_id v,
	     int64_t n)
{
	return apart && apart[v]
		? ir_row_pitch((enum ir_dtype)ir_type(m, v)->dtype, n) : n;
}

/* An operand that is read through views: strides in memory. */
struct cg_view {
	uint32_t operand;
	value_id stored;		/* what is in memory */
	enum ir_dtype dtype;
	int64_t offset;			/* elements */
	int64_t size[IR_MAX_DIMS];	/* by dim of the value's type */
	int64_t stride[IR_MAX_DIMS];	/* elements */
	uint32_t nmoved;	/* offsets that depend on this rank's shards */
	struct {
		uint32_t spread;
		int64_t stride;
	} moved[IR_MAX_DIMS];
};

/* Resolves views down to memory.  False: elements along some dim are not at a
 * fixed distance. */
bool cg_view(const struct cg_site *s, const struct kernel *x, value_id v,
	     struct cg_view *out);
/*
 * Of a weight in groups, an int4, that is read as a value of type t: elements
 * of a row as it is stored, if of each row that is read the view has all, in
 * order; else 0.
 */
int64_t cg_view_row(const struct cg_site *s, const struct cg_view *v,
		    const struct ir_type *t);

/* ---- panels.c: weights that need not be row-major ------------------------ */

/* By name of a weight: how many of its last dims contractions sum over, if it
 * may lie in panels, or 0. */
struct cg_panel_weights {
	uint8_t *over;
	uint32_t names;
};

/*
 * In panels, each `lanes` rows are one after another a word of 4 bytes of each
 * row, then the next words: what a contraction loads as a vector lies in one
 * place, and all that it reads in one direction.
 */
struct cg_panel {
	int64_t row;	/* elements of a row: what is summed over */
	int64_t last;	/* of the last dim before these */
	uint32_t lanes;
};

/* All weights of the module if it serves, else those that are frozen. */
struct cg_panel_weights cg_find_panels(struct ir_module *m, struct arena *a);
/* Whether v is such a weight; sets what does not depend on the machine. */
bool cg_panel_of(const struct cg_panel_weights *x, const struct cg_site *s,
		 value_id v, struct cg_panel *out);

#endif
