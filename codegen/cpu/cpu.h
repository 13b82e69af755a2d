/*
 * Kernels for a CPU: from a kernel group to functions over items, which the
 * runtime hands out to its workers.  Between the files of codegen/cpu/ and
 * those of codegen/host/.
 */
#ifndef CODEGEN_CPU_CPU_H
#define CODEGEN_CPU_CPU_H

#include "codegen/llvm/ll.h"
#include "codegen/kernel.h"

/* All kernels of one module for ranks at one place of the mesh. */
struct cg_cpu {
	struct ir_module *m;
	struct ll *ll;
	struct arena *a;	/* of what is returned */
	uint32_t at[IR_MAX_AXES + 1];	/* a rank that has these sizes */
	uint32_t nfuncs;	/* emitted so far: for names */
	struct ll_value *dot[9];	/* what all contractions share */
};

/* ---- cpu_kernel.c ------------------------------------------------------- */

/*
 * Emits one kernel that is neither a repeat nor a call nor a talk alone.
 * False: *why says what cannot be done, for the user.
 */
bool cg_cpu_kernel(struct cg_cpu *c, const struct kernel *k,
		   struct cg_kernel *out, const char **why);
/* Positions of a dim on this rank. */
int64_t cg_cpu_local(const struct cg_cpu *c, dim_id d, uint32_t cut);
/* How a float lies in memory; false: it is none that contractions or
 * attention take. */
bool cg_cpu_elem(enum ir_dtype dtype, enum ll_base *elem);
/* A new step function `void (rt_call *, char *own, i64 from, i64 to)`; the
 * builder stands in its entry. */
struct ll_value *cg_cpu_step(struct cg_cpu *c, struct cg_kernel *k,
			     const char *what, int64_t items);
/* Inside of a step: a pointer to an operand, to shared room, a number. */
struct ll_value *cg_cpu_at(struct cg_cpu *c, struct ll_value *step,
			   uint32_t operand);
struct ll_value *cg_cpu_shared(struct cg_cpu *c, struct ll_value *step);
struct ll_value *cg_cpu_num(struct cg_cpu *c, struct ll_value *step,
			    uint32_t num);
/* Its rt_pieces. */
struct ll_value *cg_cpu_pieces(struct cg_cpu *c, struct ll_value *step,
			       uint32_t spread);

/* ---- cpu_nest.c: loops around scalar expressions ------------------------ */

/*
 * Part of a kernel: nodes that are computed element by element and row by
 * row.  Leaves are what lies in memory, and values that somebody else has
 * put into rooms: a contraction's result, say.
 */
struct cg_leaf {
	value_id value;
	struct ll_value *at;	/* f32, row-major over a box of the value */
	/* by dim of the value's type: where the box begins, and how far apart
	 * elements are there, in elements; NULL: 0 */
	struct ll_value *from[IR_MAX_DIMS];
	int64_t stride[IR_MAX_DIMS];
};

/* Emits, in the step at hand, what the nodes make for a box of `space`. */
struct cg_nest {
	const struct kernel *k;
	VEC(node_id) nodes;	/* of the kernel, in order, sinks too */
	VEC(struct cg_leaf) leaves;
	struct ir_type space;	/* dims that the box is of */
	struct ll_value *from[IR_MAX_DIMS];	/* NULL: 0 */
	int64_t count[IR_MAX_DIMS];	/* at most; 0: all */
	struct ll_value *live[IR_MAX_DIMS];	/* if fewer; NULL: count */
};

/* Whole steps for all of the kernel's space. */
bool cg_nest_steps(struct cg_cpu *c, struct cg_kernel *out,
		   const struct cg_nest *n, const char **why);
/* Inside of a step: only maps, views, sinks, and sums over whole dims of
 * the box. */
bool cg_nest_box(struct cg_cpu *c, struct cg_kernel *out,
		 struct ll_value *step, const struct cg_nest *n,
		 const char **why);

/*
 * Steps that put a value which the nest's nodes make into shared room, as f32
 * and row-major, for later steps of the kernel: at *offset.
 */
bool cg_nest_value(struct cg_cpu *c, struct cg_kernel *out,
		   const struct cg_nest *n, value_id value, int64_t *offset,
		   const char **why);

/* ---- cpu_math.c: functions of vectors ----------------------------------- */

/* f32 of any lanes; within 2 units in the last place where it says so. */
struct ll_value *cg_exp(struct ll *l, struct ll_value *x);	/* 2 */
struct ll_value *cg_log(struct ll *l, struct ll_value *x);	/* 2 */
struct ll_value *cg_tanh(struct ll *l, struct ll_value *x);	/* 3 */
struct ll_value *cg_sigmoid(struct ll *l, struct ll_value *x);	/* 3 */
struct ll_value *cg_erf(struct ll *l, struct ll_value *x);	/* 1e-7 */
/* Angles up to 2^24, as of rotary positions: 4e-7. */
void cg_sincos(struct ll *l, struct ll_value *x, struct ll_value **sin,
	       struct ll_value **cos);
/*
 * f32 of whole turns in f64, any lanes: for rotary positions, position *
 * (frequency / 2 pi), where the quotient is a constant.  2e-7 up to 2^24 turns,
 * of which f64 has enough bits and f32 has not.
 */
void cg_sincos_turns(struct ll *l, struct ll_value *turns,
		     struct ll_value **sin, struct ll_value **cos);

/* ---- cpu_rng.c: ir_rng_* in vectors; key i64, index i64 of any lanes ---- */

/* The key of a name's hash under a seed, as ir_rng_key. */
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

/* A contraction with the maps behind it. */
bool cg_dot_steps(struct cg_cpu *c, struct cg_kernel *out,
		  const struct kernel *k, const char **why);

/* ---- cpu_experts.c ------------------------------------------------------ */

/* The same, of matrices that an index chooses: dot_at, dot_to. */
bool cg_experts_steps(struct cg_cpu *c, struct cg_kernel *out,
		      const struct kernel *k, const char **why);

/* ---- cpu_attention.c ---------------------------------------------------- */

bool cg_attention_steps(struct cg_cpu *c, struct cg_kernel *out,
			const struct kernel *k, const char **why);

#endif
