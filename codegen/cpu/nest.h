/*
 * Nests on a CPU: between the files of codegen/cpu/nest*.c.
 */
#ifndef CODEGEN_CPU_NEST_H
#define CODEGEN_CPU_NEST_H

#include "codegen/cpu/cpu.h"
#include "codegen/nest.h"

#define EMIT_NONE UINT32_MAX

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
	struct ll_value **val;		/* by expression; NULL: not yet */
	VEC(nest_id) done;		/* those that have one, in order */
	struct ll_value **sum;		/* by expression: its room */
	uint32_t *seen, stamp;		/* of hoisting */
};

/* ---- nest_expr.c ---- */

/* The value of an expression here; kept until the scope ends. */
struct ll_value *emit_expr(struct emit *e, nest_id id);
/* What does not change in these loops, ahead of them. */
void emit_ahead(struct emit *e, nest_id id, uint64_t loops);
/* Gives an expression its value, in the scope at hand. */
void emit_set(struct emit *e, nest_id id, struct ll_value *v);
/* for what was made since: it is no more. */
void emit_forget(struct emit *e, uint32_t since);
enum ll_base emit_base(enum nest_kind kind);
/* As many lanes as the other one. */
void emit_alike(struct emit *e, struct ll_value **a, struct ll_value **b);
uint32_t emit_lanes_of(struct emit *e, struct ll_value *v);
/* Bytes from one element to the next, as stored. */
int64_t emit_bytes(uint8_t dtype);
enum ll_base emit_stored(uint8_t dtype);
/* Of a place: the pointer to it, or to its first lane. *step: how far apart
 * lanes are, in elements; lanes whose places are numbers: in *places. */
struct ll_value *emit_place(struct emit *e, nest_id place, uint32_t memory,
			    int64_t *step, struct ll_value **places);
struct ll_value *emit_load(struct emit *e, const struct nest_expr *x);

/* ---- nest_rows.c ---- */

/* Rows from .. to - 1 of the step's. */
void emit_rows(struct emit *e, struct ll_value *from, struct ll_value *to);
/* All rows of the box. */
void emit_box(struct emit *e);

#endif
