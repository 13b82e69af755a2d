/*
 * Nests on a CPU, between the files cpu_nest*.c.
 */
#ifndef CODEGEN_CPU_NEST_H
#define CODEGEN_CPU_NEST_H

#include "codegen/cpu/cpu.h"
#include "codegen/nest/nest.h"

/* A step being emitted. */
struct emit {
	struct cg_cpu *c;
	struct ll *l;
	struct cg_kernel *out;
	struct nest *n;
	const struct nest_step *s;
	const struct cg_nest *box;	/* or NULL */
	struct ll_value *step;
	struct ll_value **at;		/* by memory */
	struct ll_value *shared, *item;
	struct ll_value *index[NEST_LOOPS];	/* by loop, of lane 0 */
	uint32_t vec;			/* the loop that lanes go along */
	uint32_t lanes;			/* 1: code is scalar */
	struct ll_value *mask, *live;	/* lanes in use; NULL: all */
	struct nest_scope scope;
	struct ll_value **sum;		/* by expression: its stack slots */
};

/* The kernel that a nest is emitted into. */
struct emit_target {
	struct cg_cpu *c;
	struct cg_kernel *out;
};

/* ---- cpu_nest_step.c ---- */

/* Builds a nest of the nodes.  NULL: *why. */
struct nest *emit_build(struct emit_target *a, const struct cg_nest *x,
			const struct nest_input *like, const char **why);
/* Begins to emit a step; s NULL: one that may use all memory. */
void emit_open_step(struct emit *e, const struct nest_step *s);

/* ---- cpu_nest_scatter.c ---- */

bool emit_scatter_steps(struct emit_target *a, const struct cg_nest *x,
		  const char **why);

/* ---- cpu_nest_expr.c ---- */

/* The value of an expression, computed once in each scope. */
struct ll_value *emit_expr(struct emit *e, nest_id id);
/* Sets the value of an expression in the current scope. */
void emit_set_value(struct emit *e, nest_id id, struct ll_value *v);
enum ll_base emit_base_of(enum nest_kind kind);
/* Gives both as many lanes as the one that has more. */
void emit_same_lanes(struct emit *e, struct ll_value **a, struct ll_value **b);
uint32_t emit_lanes_of(struct emit *e, struct ll_value *v);
/* Bytes of an element in memory. */
int64_t emit_elem_bytes(uint8_t dtype);
enum ll_base emit_stored_base(uint8_t dtype);
/* From an element in memory to the number that is computed with (I64, F64,
 * F32), and back. */
struct ll_value *emit_widen(struct emit *e, struct ll_value *v,
			    uint8_t dtype);
struct ll_value *emit_narrow(struct emit *e, struct ll_value *v,
			     uint8_t dtype);
/*
 * The address of a place in memory, of lane 0.  *step: elements from lane to
 * lane; *places: if lanes are not a fixed distance apart, their offsets in
 * elements, else NULL.
 */
struct ll_value *emit_address(struct emit *e, nest_id place, uint32_t memory,
			    int64_t *step, struct ll_value **places);

/* ---- cpu_nest_rows.c ---- */

/* Rows from `from` to before `to` of the step. */
void emit_rows(struct emit *e, struct ll_value *from, struct ll_value *to);
/* Emits a loop from lo to hi in vectors; fixed: hi - lo, or -1: not known. */
void emit_vector_loop(struct emit *e, uint32_t loop, struct ll_value *lo,
		struct ll_value *hi, int64_t fixed, uint32_t unroll,
		void (*body)(struct emit *e, uint32_t u, void *user),
		void *user);
/* Stores the value of a root. */
void emit_store_root(struct emit *e, const struct nest_root *r,
		     struct ll_value *v);
/* All rows of the step's box. */
void emit_box(struct emit *e);

#endif
