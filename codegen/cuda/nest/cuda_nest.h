/*
 * Nests on a GPU: between the files of codegen/cuda/nest*.c.
 *
 * An expression becomes a variable of C, v12, in the scope at hand.  A thread
 * may have several elements side by side, its lanes: they are an array x12 of
 * what was loaded at once, and a loop over them, unrolled, whose index is k.
 */
#ifndef CODEGEN_CUDA_NEST_H
#define CODEGEN_CUDA_NEST_H

#include "codegen/cuda/cuda.h"
#include "codegen/nest/nest.h"

/* What whole numbers an expression can be. */
struct cu_range {
	bool known;
	int64_t lo, hi;
};

/* A step being emitted. */
struct cu_emit {
	struct cu_func *f;
	struct arena *a;
	struct nest *n;
	const struct nest_step *s;
	const struct cu_nest *box;	/* of leaves and first indices */
	bool whole;			/* steps: the box is all of the space */
	const char *index[NEST_LOOPS];	/* NULL: 0 */
	uint32_t vec, lanes;		/* along loop vec; 1: not now */
	const char **val;		/* by expression; NULL: not yet */
	VEC(nest_id) done;		/* those that have one, in order */
	const char **kept;		/* by load: registers across passes */
	bool *in_kept;			/* and they are filled */
	struct cu_range *range;		/* by expression */
	uint32_t *seen, stamp;
	const char **table;		/* by table: its name */
	uint32_t names;			/* of variables that count */
};

/* ---- cuda_nest.c ---- */

/*
 * Variables that are only declared if the text between open and close has
 * their names: compilers complain of others.
 */
struct cu_late {
	struct buf before;
	uint32_t depth, n;
	const char *name[3 * NEST_LOOPS], *line[3 * NEST_LOOPS];
};

void cu_late_open(struct cu_func *f, struct cu_late *l);
void cu_late_add(struct cu_late *l, const char *name, const char *line);
void cu_late_close(struct cu_func *f, struct cu_late *l);

struct nest *cu_nest_build(struct cu_kernel *k, const struct cu_nest *x,
			   const struct nest_ask *like);
void cu_nest_open(struct cu_emit *e, const struct nest_step *s);

/* ---- cuda_nest_expr.c ---- */

/* C text of its value, a name or a number; kept until the scope ends. */
const char *cu_expr(struct cu_emit *e, nest_id id);
/* What does not change in these loops, ahead of them. */
void cu_ahead(struct cu_emit *e, nest_id id, uint64_t loops);
void cu_set(struct cu_emit *e, nest_id id, const char *text);
/* For what was made since: it is no more. */
void cu_forget(struct cu_emit *e, uint32_t since);
struct cu_range cu_range_of(struct cu_emit *e, nest_id id);
/* "f32", "f64", "int", "i64". */
const char *cu_kind(struct cu_emit *e, nest_id id);
/* "int" or "i64": what holds all numbers from lo to hi. */
const char *cu_int_type(int64_t lo, int64_t hi);
/* Numbers that a loop's index is below. */
int64_t cu_loop_size(const struct cu_emit *e, uint32_t loop);
const char *cu_f32(struct arena *a, double v);
/* A new name: "j3". */
const char *cu_name(struct cu_emit *e, const char *prefix);

/* ---- cuda_nest_place.c ---- */

/* The element at a place, as an lvalue; `more` elements behind it. */
const char *cu_element(struct cu_emit *e, nest_id place, uint32_t memory,
		       const char *more);
/* Elements that a thread had best have side by side along the loop, 1 to 8,
 * for the loads and roots of these expressions. */
uint32_t cu_lanes(struct cu_emit *e, const nest_id *of, uint32_t nof,
		  const uint32_t *roots, uint32_t nroots, uint32_t loop);
/* Whether it moves so many lanes along the loop at once. */
bool cu_at_once(const struct cu_emit *e, nest_id load, uint32_t loop,
		uint32_t lanes);
/* Loads all lanes at once of what can be, and what passes keep. */
void cu_load_lanes(struct cu_emit *e, nest_id id);
/* Whether lanes of the root can be put at once. */
bool cu_root_lanes(struct cu_emit *e, const struct nest_root *r);
/* Puts an array of lanes, if `live` or it is NULL; gets what is there. */
void cu_put_lanes(struct cu_emit *e, const struct nest_root *r,
		  const char *live, const char *from);
void cu_get_lanes(struct cu_emit *e, const struct nest_root *r,
		  const char *to);
void cu_put(struct cu_emit *e, const struct nest_root *r, const char *v,
	    const char *more);

/* ---- cuda_nest_rows.c ---- */

/* The function of a step, whole. */
void cu_rows_step(struct cu_kernel *k, struct cu_emit *e);
/* All rows of the box, by the threads at hand. */
void cu_rows_box(struct cu_emit *e, int64_t threads, const char *thread);
void cu_rows_element(struct cu_emit *e);

/* ---- cuda_nest_scatter.c ---- */

/* Whether it is one sum by index, over a dim that is not short. */
bool cu_is_scatter(struct cu_kernel *k, const struct cu_nest *x);
bool cu_scatter(struct cu_kernel *k, const struct cu_nest *x);

#endif
