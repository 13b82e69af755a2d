/*
 * Nests on a CPU: between the files of codegen/cpu/nest*.c.
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
	struct ll_value *index[NEST_LOOPS];	/* first of its lanes */
	uint32_t vec;			/* loop along which lanes run */
	uint32_t lanes;			/* 1: not now */
	struct ll_value *mask, *live;	/* NULL: all lanes; how many */
	struct nest_scope scope;
	struct ll_value **sum;		/* by expression: its room */
};

/* What a nest asks of its kernel. */
struct emit_target {
	struct cg_cpu *c;
	struct cg_kernel *out;
};

/* ---- cpu_nest_step.c ---- */

/* NULL: *why. */
struct nest *emit_build(struct emit_target *a, const struct cg_nest *x,
			const struct nest_input *like, const char **why);
/* Ready to emit the step at hand; s NULL: all memory is used. */
void emit_open_step(struct emit *e, const struct nest_step *s);

/* ---- cpu_nest_scatter.c ---- */

bool emit_scatter_steps(struct emit_target *a, const struct cg_nest *x,
		  const char **why);

/* ---- cpu_nest_expr.c ---- */

/* The value of an expression here; kept until the scope ends. */
struct ll_value *emit_expr(struct emit *e, nest_id id);
/* Gives an expression its value, in the scope at hand. */
void emit_set_value(struct emit *e, nest_id id, struct ll_value *v);
enum ll_base emit_base_of(enum nest_kind kind);
/* As many lanes as the other one. */
void emit_same_lanes(struct emit *e, struct ll_value **a, struct ll_value **b);
uint32_t emit_lanes_of(struct emit *e, struct ll_value *v);
/* Bytes from one element to the next, as stored. */
int64_t emit_elem_bytes(uint8_t dtype);
enum ll_base emit_stored_base(uint8_t dtype);
/* Between an element and what is computed with: I64, F64, F32. */
struct ll_value *emit_widen(struct emit *e, struct ll_value *v,
			    uint8_t dtype);
struct ll_value *emit_narrow(struct emit *e, struct ll_value *v,
			     uint8_t dtype);
/* Of a place: the pointer to it, or to its first lane. *step: how far apart
 * lanes are, in elements; lanes whose places are numbers: in *places. */
struct ll_value *emit_address(struct emit *e, nest_id place, uint32_t memory,
			    int64_t *step, struct ll_value **places);
struct ll_value *emit_load(struct emit *e, const struct nest_expr *x);

/* ---- cpu_nest_rows.c ---- */

/* Rows from .. to - 1 of the step's. */
void emit_rows(struct emit *e, struct ll_value *from, struct ll_value *to);
/* Runs body for lanes of a loop from lo to hi; fixed: hi - lo, or -1. */
void emit_vector_loop(struct emit *e, uint32_t loop, struct ll_value *lo,
		struct ll_value *hi, int64_t fixed, uint32_t unroll,
		void (*body)(struct emit *e, uint32_t u, void *user),
		void *user);
/* Puts a value away where the root says. */
void emit_store_root(struct emit *e, const struct nest_root *r,
		     struct ll_value *v);
/* All rows of the box. */
void emit_box(struct emit *e);

#endif
