/*
 * Kernels for a CPU: from a kernel group to steps, which are LLVM functions
 * over items that the runtime distributes among its workers.  codegen/host/
 * calls cg_cpu_kernel for each kernel of a plan, and uses the random numbers
 * and step functions for kernels of its own; the rest is between the files of
 * codegen/cpu/.  These know kernel groups (passes/kernels/), what
 * codegen/nest/, dot/, experts/ and attention/ say of them for any machine,
 * and codegen/llvm/ll.h; of the plan they know one rank's sizes.
 */
#ifndef CODEGEN_CPU_CPU_H
#define CODEGEN_CPU_CPU_H

#include "codegen/llvm/ll.h"
#include "codegen/kernel.h"

/*
 * A contraction of few rows, whose second operand is read in place, once: see
 * cpu_dot_stream.c.
 */
struct dot_stream {
	uint32_t rows;		/* of a packed panel; 0: it is no such one */
	uint32_t nv;		/* vectors of columns, summed in turn */
	enum ll_base base;	/* of the second operand's elements */
	uint8_t dtype;		/* of these, if they have 8 bits */
	uint8_t kind;		/* enum dot_kind: how it multiplies */
	bool panels;		/* the second operand lies in panels */
	int64_t k, depth;	/* elements; of a stretch */
	int64_t row_bytes;	/* from a column's elements to the next's */
	/* from an element of a column to the next, if columns are neighbours;
	 * 0: those of a column are */
	int64_t k_bytes;
};

struct cg_cpu_stream {
	struct dot_stream key;
	struct ll_value *func;
};

/* All kernels of one module for ranks at one place of the mesh. */
struct cg_cpu {
	struct ir_module *m;
	struct ll *ll;
	struct arena *a;	/* for all that is returned */
	uint32_t at[IR_MAX_AXES + 1];	/* coordinates of one such rank */
	uint32_t nfuncs;	/* that were emitted, for names */
	const bool *apart;	/* as in struct memory; NULL: none are */
	struct cg_panel_weights panels;	/* none, unless it is set */
	struct ll_value *dot[32];	/* functions that contractions share */
	VEC(struct cg_cpu_stream) streams;
};

/* ---- cpu_kernel.c, cpu_dot_view.c --------------------------------------- */

/*
 * Emits one kernel, which is no repeat, call or collective.  False: *why says
 * what cannot be compiled, for the user.
 */
bool cg_cpu_kernel(struct cg_cpu *c, const struct kernel *k,
		   struct cg_kernel *out, const char **why);
/* Whether the weight v lies in panels on this CPU and rank: its shard has whole
 * panels, at least one, and what its elements are multiplied as. */
bool cg_cpu_panel(struct cg_cpu *c, value_id v, struct cg_panel *out);
/* A float's type in memory.  False: neither contractions nor attention have
 * operands of that type. */
bool cg_cpu_elem(enum ir_dtype dtype, enum ll_base *elem);
/* An f8e4m3 or f8e5m2, a byte that was sign-extended to i32, as f32. */
struct ll_value *cg_cpu_widen_f8(struct ll *l, struct ll_value *v,
				 enum ir_dtype dtype);
/* Adds a step function `void (rt_call *, char *own, i64 from, i64 to)`, whose
 * first block becomes the current one.  `own` is the worker's scratch. */
struct ll_value *cg_cpu_step(struct cg_cpu *c, struct cg_kernel *k,
			     const char *what, int64_t items);
/* Inside of a step: a pointer to an operand and to shared scratch, a number,
 * the rt_pieces of a spread. */
struct ll_value *cg_cpu_at(struct cg_cpu *c, struct ll_value *step,
			   uint32_t operand);
struct ll_value *cg_cpu_shared(struct cg_cpu *c, struct ll_value *step);
struct ll_value *cg_cpu_num(struct cg_cpu *c, struct ll_value *step,
			    uint32_t num);
struct ll_value *cg_cpu_pieces(struct cg_cpu *c, struct ll_value *step,
			       uint32_t spread);

/* ---- cpu_nest.c: loops around scalar expressions ------------------------ */

/*
 * A value that an earlier part of the kernel left in scratch, a contraction's
 * result for example: a leaf of a nest beside the kernel's operands.
 */
struct cg_leaf {
	value_id value;
	struct ll_value *at;	/* f32, row-major over a box of the value */
	/* by dim of the value's type: where the box begins (NULL: at 0), and
	 * the distance of elements along it, in elements */
	struct ll_value *from[IR_MAX_DIMS];
	int64_t stride[IR_MAX_DIMS];
};

/*
 * Nodes of a kernel that are computed element by element and row by row, for
 * all of `space` or for a box of it.
 */
struct cg_nest {
	const struct kernel *k;
	VEC(node_id) nodes;	/* of the kernel, in order, sinks too */
	VEC(struct cg_leaf) leaves;
	struct ir_type space;	/* the dims of the box */
	struct ll_value *from[IR_MAX_DIMS];	/* NULL: 0 */
	int64_t count[IR_MAX_DIMS];	/* at most; 0: all */
	struct ll_value *live[IR_MAX_DIMS];	/* if fewer; NULL: count */
};

/* A nest of all nodes of the kernel. */
void cg_nest_all(struct cg_cpu *c, const struct kernel *k, struct cg_nest *n);
/* Emits steps for all of the space.  False: *why, as of all below. */
bool cg_nest_steps(struct cg_cpu *c, struct cg_kernel *out,
		   const struct cg_nest *n, const char **why);
/* Emits into a step, for a box.  The nodes may be maps, views, sinks, and sums
 * over dims that the box has whole. */
bool cg_nest_box(struct cg_cpu *c, struct cg_kernel *out,
		 struct ll_value *step, const struct cg_nest *n,
		 const char **why);

/*
 * Emits steps that store a value of the nest's nodes in shared scratch, as f32
 * and row-major at *offset, for later steps of the kernel.
 */
bool cg_nest_value(struct cg_cpu *c, struct cg_kernel *out,
		   const struct cg_nest *n, value_id value, int64_t *offset,
		   const char **why);

/* ---- cpu_math.c: functions of vectors ----------------------------------- */

/* f32 of any lanes.  The number is the largest error: in units in the last
 * place, or relative. */
struct ll_value *cg_exp(struct ll *l, struct ll_value *x);	/* 2 */
struct ll_value *cg_log(struct ll *l, struct ll_value *x);	/* 2 */
struct ll_value *cg_tanh(struct ll *l, struct ll_value *x);	/* 3 */
struct ll_value *cg_sigmoid(struct ll *l, struct ll_value *x);	/* 3 */
struct ll_value *cg_erf(struct ll *l, struct ll_value *x);	/* 1e-7 */
/* Of angles up to 2^24, as rotary positions have them: 4e-7. */
void cg_sincos(struct ll *l, struct ll_value *x, struct ll_value **sin,
	       struct ll_value **cos);
/*
 * f32 of an angle in turns, which is f64: up to 2^24 turns 2e-7.  cg_sincos
 * is computed by this, and the error of both is tested.
 */
void cg_sincos_turns(struct ll *l, struct ll_value *turns,
		     struct ll_value **sin, struct ll_value **cos);

/* ---- cpu_rng.c: ir_rng_* in vectors; key i64, index i64 of any lanes ---- */

/* The hash of a name, and the key of a hash under a seed: as ir_rng_key. */
uint64_t cg_rng_hash(const char *name);
struct ll_value *cg_rng_key(struct ll *l, struct ll_value *hash,
			    struct ll_value *seed);
struct ll_value *cg_rng_normal(struct ll *l, struct ll_value *key,
			       struct ll_value *index);	/* f64 */
struct ll_value *cg_rng_below(struct ll *l, struct ll_value *key,
			      struct ll_value *index, int64_t n); /* i64 */
struct ll_value *cg_rng_keeps(struct ll *l, struct ll_value *key,
			      struct ll_value *step, struct ll_value *index,
			      double rate);	/* i1 */

/* ---- cpu_dot.c ---------------------------------------------------------- */

/* A contraction with the maps that follow it. */
bool cg_dot_steps(struct cg_cpu *c, struct cg_kernel *out,
		  const struct kernel *k, const char **why);

/* ---- cpu_experts.c ------------------------------------------------------ */

/* The same where an index chooses matrices: dot_at, dot_to. */
bool cg_experts_steps(struct cg_cpu *c, struct cg_kernel *out,
		      const struct kernel *k, const char **why);

/* ---- cpu_attention.c ---------------------------------------------------- */

bool cg_attention_steps(struct cg_cpu *c, struct cg_kernel *out,
			const struct kernel *k, const char **why);

#endif
