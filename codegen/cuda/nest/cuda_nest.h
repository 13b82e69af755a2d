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
	struct nest_scope scope;
	const char **kept;		/* by load: registers across passes */
	bool *in_kept;			/* and they are filled */
	struct cu_range *range;		/* by expression */
	const char **table;		/* by table: its name */
	uint32_t names;			/* of variables that count */
};

/* ---- cuda_nest_scope.c ---- */

/*
 * Variables that are only declared if the text between open and close has
 * their names: compilers complain of others.
 */
struct cu_lazy {
	struct buf before;
	uint32_t depth, n;
	const char *name[3 * NEST_LOOPS], *line[3 * NEST_LOOPS];
};

void cu_lazy_open(struct cu_func *f, struct cu_lazy *l);
void cu_lazy_add(struct cu_lazy *l, const char *name, const char *line);
void cu_lazy_close(struct cu_func *f, struct cu_lazy *l);

struct nest *cu_nest_build(struct cu_kernel *k, const struct cu_nest *x,
			   const struct nest_input *like);
void cu_nest_open(struct cu_emit *e, const struct nest_step *s);

/* ---- cuda_nest_expr.c ---- */

/* C text of its value, a name or a number; kept until the scope ends. */
const char *cu_expr(struct cu_emit *e, nest_id id);
void cu_expr_set(struct cu_emit *e, nest_id id, const char *text);
/* "f32", "f64", "int", "i64". */
const char *cu_expr_type(struct cu_emit *e, nest_id id);
/* "int" or "i64": what holds all numbers from lo to hi. */
const char *cu_int_type(int64_t lo, int64_t hi);
/* Numbers that a loop's index is below. */
int64_t cu_loop_size(const struct cu_emit *e, uint32_t loop);
/* The element at a place, as an lvalue; `more` elements behind it. */
const char *cu_element(struct cu_emit *e, nest_id place, uint32_t memory,
		       const char *more);
/* nest_affine, with terms that begin where others end left out. */
void cu_affine(const struct cu_emit *e, nest_id place, struct nest_affine *a);
/* A new name: "j3". */
const char *cu_new_name(struct cu_emit *e, const char *prefix);


/* ---- cuda_nest_lanes.c ---- */

/* Elements that a thread had best have side by side along the loop, 1 to 8,
 * for the loads and roots of these expressions. */
uint32_t cu_best_lanes(struct cu_emit *e, const nest_id *of, uint32_t nof,
		       const uint32_t *roots, uint32_t nroots, uint32_t loop);
/* Whether it moves so many lanes along the loop at once. */
bool cu_is_vector(const struct cu_emit *e, nest_id load, uint32_t loop,
		  uint32_t lanes);
/* Loads all lanes at once of what can be, and what passes keep. */
void cu_load_lanes(struct cu_emit *e, nest_id id);
/* Whether lanes of the root can be put at once. */
bool cu_root_lanes(struct cu_emit *e, const struct nest_root *r);
/* Puts an array of lanes, if `live` or it is NULL; gets what is there. */
void cu_store_lanes(struct cu_emit *e, const struct nest_root *r,
		    const char *live, const char *from);
void cu_load_stored_lanes(struct cu_emit *e, const struct nest_root *r,
			  const char *to);
void cu_store(struct cu_emit *e, const struct nest_root *r, const char *v,
	      const char *more);

/* ---- cuda_nest_rows.c ---- */

/* The function of a step, whole. */
void cu_rows_step(struct cu_kernel *k, struct cu_emit *e);
/* All rows of the box, by the threads at hand. */
void cu_rows_box(struct cu_emit *e, int64_t threads, const char *thread);

/* ---- who computes a row ---- */

enum cu_team_kind {
	CU_ONE,			/* a thread: as many rows as it has lanes */
	CU_WARP,		/* the lanes of a warp */
	CU_BLOCK,		/* all threads of a block */
	/* threads of one lane in all warps, so that rows lie side by side */
	CU_STRIPS
};

struct cu_team {
	enum cu_team_kind kind;
	int64_t members;
	const char *me;		/* number of the member */
	const char *live;	/* if this is not so, nothing is put; NULL */
	const char *item;	/* of parts of sums; NULL */
	const char **part;	/* by root: its sum in registers */
};

/* ---- cuda_nest_pass.c ---- */

/* All passes of the row at hand. */
void cu_passes(struct cu_emit *e, const struct cu_team *t);
/* Registers that several passes of each row read from. */
void cu_keep_loads(struct cu_emit *e, const struct cu_team *t);
/* Elements of a pass, and how many of them a member has at once. */
int64_t cu_pass_elems(const struct cu_emit *e, const struct nest_pass *p);
uint32_t cu_pass_lanes(struct cu_emit *e, const struct nest_pass *p);
/* Registers of a member for a part of a sum in that pass; 0: too many. */
int64_t cu_part_sums(struct cu_emit *e, const struct nest_pass *p,
		     const struct cu_team *t);
/* Puts a sum that was in registers in all rows into the item's part. */
void cu_part_end(struct cu_emit *e, const struct cu_team *t,
		 const struct nest_pass *p, uint32_t root, const char *sum);

/* ---- cuda_nest_scatter.c ---- */

bool cu_scatter(struct cu_kernel *k, const struct cu_nest *x);

#endif
