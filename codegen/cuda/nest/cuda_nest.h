/*
 * Loop nests as CUDA C, for the files of codegen/cuda/nest/ alone; cuda.h has
 * what others call.
 *
 * An expression becomes a C variable, v12, in the current scope.  A thread may
 * have several consecutive elements, its lanes: an array x12 of what was
 * loaded as a vector, and an unrolled loop over lanes, whose index is k.
 */
#ifndef CODEGEN_CUDA_NEST_H
#define CODEGEN_CUDA_NEST_H

#include "codegen/cuda/cuda.h"
#include "codegen/nest/nest.h"

/* Bounds of an integer expression. */
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
	/* the caller's box: leaves and first indices */
	const struct cu_nest *box;
	bool whole;	/* a step of its own: the box is the whole space */
	const char *index[NEST_LOOPS];	/* by loop: C text; NULL: 0 */
	uint32_t vec, lanes;	/* lanes along loop vec; 1: outside of lanes */
	struct nest_scope scope;
	/* by load: an array that keeps it for later passes */
	const char **kept;
	uint64_t *kept_loops;	/* the loops of the passes that may use it */
	bool *in_kept;			/* the array is filled */
	bool filled;			/* and stays so in the next passes */
	bool early;			/* only loads that are kept */
	const char *ready;	/* lines that fill leaves, not yet emitted */
	uint64_t loops;			/* of the pass being emitted */
	struct cu_range *range;
	const char **table;		/* by table: its C name */
	uint32_t names;			/* counters so far, for names */
};

/* ---- cuda_nest_scope.c ---- */

/*
 * Variables that are declared only if the text between open and close uses
 * their names, since compilers warn of unused variables.
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

/* ---- cuda_nest_range.c ---- */

/* Iterations of a loop. */
int64_t cu_loop_size(const struct cu_emit *e, uint32_t loop);
struct cu_range cu_range_of(struct cu_emit *e, nest_id id);
/* "int" or "i64", whichever holds all numbers from lo to hi. */
const char *cu_int_type(int64_t lo, int64_t hi);

/* ---- cuda_nest_expr.c ---- */

/* C text of an expression's value, a name or a number; valid until the scope
 * ends. */
const char *cu_expr(struct cu_emit *e, nest_id id);
void cu_expr_set(struct cu_emit *e, nest_id id, const char *text);
/* "f32", "f64", "int", "i64". */
const char *cu_expr_type(struct cu_emit *e, nest_id id);
/* An element as an lvalue; `more` (C text) is added to its offset. */
const char *cu_element(struct cu_emit *e, nest_id place, uint32_t memory,
		       const char *more);
/* nest_affine, but equal first indices of the box and of leaves cancel out. */
void cu_affine(const struct cu_emit *e, nest_id place, struct nest_affine *a);
/* A new name: "j3". */
const char *cu_new_name(struct cu_emit *e, const char *prefix);

/* ---- cuda_nest_lanes.c ---- */

/* The best number of lanes along a loop, 1 to 8, for these expressions and
 * roots.  `tail`: the last vector may have less elements than lanes. */
uint32_t cu_best_lanes(struct cu_emit *e, const nest_id *of, uint32_t nof,
		       const uint32_t *roots, uint32_t nroots, uint32_t loop,
		       bool tail);
/* Opens and closes the loop over the lanes that have an element. */
void cu_lanes_open(struct cu_emit *e);
void cu_lanes_close(struct cu_emit *e);
/* Whether a load of so many lanes along the loop is a vector. */
bool cu_is_vector(const struct cu_emit *e, nest_id load, uint32_t loop,
		  uint32_t lanes);
/* Emits vector loads of what the expression reads, and loads that passes
 * keep. */
void cu_load_lanes(struct cu_emit *e, nest_id id);
/* Whether the root's lanes are stored as a vector. */
bool cu_root_lanes(struct cu_emit *e, const struct nest_root *r);
/* C text: 0 if the root adds to a sum that holds nothing yet; NULL: it adds
 * always, or never. */
const char *cu_root_old(struct cu_emit *e, const struct nest_root *r);
/* Declares an array of lanes of what a root adds to: zeros if that holds
 * nothing yet. */
void cu_declare_old_lanes(struct cu_emit *e, const struct nest_root *r,
			  const char *name);
/* Stores an array of lanes, if `live` is true or NULL. */
void cu_store_lanes(struct cu_emit *e, const struct nest_root *r,
		    const char *live, const char *from);
void cu_store(struct cu_emit *e, const struct nest_root *r, const char *v,
	      const char *more);

/* ---- cuda_nest_rows.c ---- */

/* Emits a step. */
void cu_rows_step(struct cu_kernel *k, struct cu_emit *e);
/* Elements of a row's longest pass. */
int64_t cu_longest_pass(const struct cu_emit *e);
/* Sets the C text of all row loops' indices, for questions about offsets;
 * NULL: none. */
void cu_row_mark(struct cu_emit *e, const char *text);
/* Lanes of a step without reductions, along its last row loop. */
uint32_t cu_row_lanes(struct cu_emit *e);
/* Indices of rows from the number `r` (C text) of a row, or of a vector of so
 * many rows; `size`: of each row loop. */
void cu_row_indices(struct cu_emit *e, struct cu_lazy *l, const char *r,
		    bool wide, const int64_t *size, uint32_t lanes);

/* ---- cuda_nest_box.c ---- */

/* Emits all rows of a box, computed by the threads that `thread` numbers. */
void cu_rows_box(struct cu_emit *e, int64_t threads, const char *thread);

/* ---- who computes a row ---- */

enum cu_team_kind {
	CU_ONE,			/* a thread, with as many rows as lanes */
	CU_WARP,		/* the lanes of a warp */
	CU_BLOCK,		/* all threads of a block */
	/* the threads of one lane in all warps: consecutive rows are
	 * consecutive lanes */
	CU_STRIPS
};

struct cu_team {
	enum cu_team_kind kind;
	int64_t members;
	const char *me;		/* C text: a member's number */
	const char *live;	/* C text: if false, nothing is stored; NULL */
	/* C text: the item, whose partial sums these are; NULL */
	const char *item;
	/* by root: its partial sum in registers, or NULL */
	const char **part;
};

/* ---- cuda_nest_team.c ---- */

/* Elements of a pass, vectors of so many lanes in it, its loops as a mask, and
 * lanes of a member. */
int64_t cu_pass_elems(const struct cu_emit *e, const struct nest_pass *p);
int64_t cu_pass_vectors(const struct cu_emit *e, const struct nest_pass *p,
			uint32_t lanes);
uint64_t cu_pass_loops(const struct nest_pass *p);
uint32_t cu_pass_lanes(struct cu_emit *e, const struct nest_pass *p);
/* Iterations of a member's loop if they are unrolled; 0: they are not. */
int64_t cu_pass_iterations(struct cu_emit *e, const struct nest_pass *p,
			   const struct cu_team *t);
/* Registers of a member for a partial sum in that pass; 0: too many. */
int64_t cu_part_sums(struct cu_emit *e, const struct nest_pass *p,
		     const struct cu_team *t);
/* Declares registers that keep what several passes of a row read. */
void cu_keep_loads(struct cu_emit *e, const struct cu_team *t);
/* Opens and closes the loop over the member's vectors; depth: what f->depth
 * was. */
void cu_team_loop_open(struct cu_emit *e, const struct cu_team *t,
		       const struct nest_pass *p, uint32_t lanes,
		       struct cu_lazy *l);
void cu_team_loop_close(struct cu_emit *e, const struct nest_pass *p,
			uint32_t depth, struct cu_lazy *l);

/* ---- cuda_nest_sums.c ---- */

/* A reduction: declared as of nothing, with an element added, and of all
 * members. */
void cu_sum_begin(struct cu_emit *e, nest_id id);
void cu_sum_add(struct cu_emit *e, nest_id id);
void cu_sum_end(struct cu_emit *e, nest_id id, enum cu_team_kind team);
/* The next pass with loops after this one; as many as there are: none. */
uint32_t cu_next_with_loops(const struct cu_emit *e, uint32_t pass);
/* The sum of exp(x - m) in the next pass with loops after that of the maximum m
 * of x, if rows are too long to be kept, so that each pass would read them; 0:
 * none. */
nest_id cu_sum_above(struct cu_emit *e, const struct cu_team *t,
		     uint32_t pass);
/* Emits both passes as one, over elements that are read once. */
void cu_pass_above(struct cu_emit *e, const struct cu_team *t,
		   const struct nest_pass *p, nest_id sum);

/* ---- cuda_nest_pass.c ---- */

/* Emits all passes of the current row. */
void cu_passes(struct cu_emit *e, const struct cu_team *t);
/* Stores the item's partial sum, which was in registers through all rows. */
void cu_part_end(struct cu_emit *e, const struct cu_team *t,
		 const struct nest_pass *p, uint32_t root, const char *sum);

/* ---- cuda_nest_scatter.c ---- */

bool cu_scatter(struct cu_kernel *k, const struct cu_nest *x);

#endif
