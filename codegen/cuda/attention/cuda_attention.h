/*
 * Attention as CUDA C, for the files of codegen/cuda/attention/ alone (prefix
 * ca_); cuda.h has what others call.
 *
 * All kernels have one form: a block has some rows (queries, or keys of a
 * gradient) that stay in shared memory, and columns (keys, or queries) are
 * loaded tile by tile.  Scores of rows and columns are in registers as mma
 * leaves them, which is how the next product takes its left operand:
 *
 *	forward		S = Q K^T	P = softmax(S)	   O += P V
 *	dq		S = Q K^T	dS = P(dO V^T - D)  dQ += dS K
 *	dk, dv		S = K Q^T	dS = P(V dO^T - D)  dK += dS Q
 *							    dV += P dO
 *
 * Types other than 16-bit ones are multiplied in f32, by the same threads at
 * the same places.
 */
#ifndef CODEGEN_CUDA_ATTENTION_H
#define CODEGEN_CUDA_ATTENTION_H

#include "codegen/attention/attention.h"
#include "codegen/cuda/cuda.h"

/* A thread has columns c and c + 1 of each tile. */
#define CA_COLUMNS "const int c = LANE % 4 * 2;"
#define CA_LOG2E 1.4426950408889634
#define CA_LN2 0.6931471805599453
#define CA_LEAST "-1e38f"	/* a masked score */
#define CA_MOST_OUT COST_OUT_COLS

static inline int64_t
ca_ceil_div(int64_t n, int64_t of)
{
	return n > 0 ? (n + of - 1) / of : 1;
}


/* ---- cuda_attention_view.c ---------------------------------------------- */

/* Declares `type *name`, a pointer to sequence `bat` and a head (C text). */
void ca_declare_pointer(struct cu_func *f, const struct attn *t,
		 const struct attn_view *v, const char *name,
		 const char *head);
/* Of keys that an index selects: declares `name`, a pointer to the number of
 * the first key of sequence `bat`. */
void ca_declare_index(struct cu_func *f, const struct attn *t,
		      const struct attn_view *v, const char *name);
/* A step that copies from one view to another and converts the type. */
void ca_copy_step(struct attn *t, const struct attn_view *from,
		  const struct attn_view *to, int64_t heads, int64_t count,
		  int64_t cols);

/* ---- cuda_attention_results.c */

/* The nest of such nodes; its leaves are results in shared scratch. */
void ca_nest_of(const struct attn_group *g, const struct attn_nest *from,
		struct cu_nest *n);
/* A step for nodes that follow results in shared scratch. */
bool ca_epilogue_step(struct attn *t, const struct attn_made *made,
		      const struct attn_nest *from);
/* Rows of result r that a block has in shared memory, as f32 from byte `at` +
 * `more` on and `pitch` elements apart: columns from `from` (C text) on, at
 * most `cols`, and rows `row` .. `row` + `live` - 1. */
struct ca_put {
	enum attn_result r;
	int64_t at, pitch;
	const char *more;		/* C text; NULL: 0 */
	int64_t rows, cols;
	const char *from;
	const char *row, *live, *head;	/* C text */
	int64_t threads;
	const char *thread;		/* C text: a thread's number */
};
bool ca_put_rows(struct cu_func *f, struct attn *t, const struct ca_put *p);

/* ---- cuda_attention_where.c --------------------------------------------- */

/* Inserts the helper functions that the kernel's text calls before it. */
void ca_helpers(struct cu_kernel *k);
/* Declares what the texts of these functions read: before them, where `bat` is
 * known. */
void ca_declare_ranges(struct cu_func *f, const struct attn *t);
/* C text: the keys that a query sees, as local indices from .. to - 1. */
const char *ca_keys_from(struct cu_func *f, const struct attn *t,
		     const char *query);
const char *ca_keys_to(struct cu_func *f, const struct attn *t,
		   const char *query);
/* Declares begin and end, the keys that any of the queries row0 .. row0 + live
 * - 1 sees, as local indices; begin is a multiple of cols. */
void ca_declare_keys(struct cu_func *f, const struct attn *t, int64_t cols);
/* If pairs are masked, declares sure_from and sure_to, the keys that all of
 * these queries see; after ca_declare_keys. */
void ca_declare_sure(struct cu_func *f, const struct attn *t);
/* Declares begin and end, queries beside which none sees any of the keys row0
 * .. row0 + live - 1. */
void ca_declare_queries(struct cu_func *f, const struct attn *t,
			int64_t cols);
/* C text: the local kv head of a local head; the first local head of a kv head,
 * and the end of its heads.  They may read a table in global memory. */
const char *ca_kv_head(struct cu_func *f, const struct attn *t,
		       const char *head);
const char *ca_first_head(struct cu_func *f, const struct attn *t,
			  const char *kv, bool behind);
/* C text: the position of a local index of a dim. */
const char *ca_position(struct cu_func *f, const struct attn *t, uint32_t dim,
			const char *place);
struct ca_form;

/* Declares `slope`, what alibi's of `head` is times `by`; and `own`, the
 * position that it counts from for the query at a local index. */
void ca_declare_slope(struct cu_func *f, const struct attn *t, double by);
void ca_declare_own(struct cu_func *f, const struct attn *t, const char *query);
/* With alibi, adds to scores s[mt][cols / 8][4], before they are scaled, how
 * far their keys are after what their queries count from, times the slope of
 * `head`.  rows: these are queries; at: C text of the local index of the first
 * column. */
void ca_add_alibi(struct cu_func *f, const struct attn *t,
		  const struct ca_form *form, bool rows, const char *at);

/* The same where rows are heads, from head0 on, of `query`. */
void ca_add_alibi_of_heads(struct cu_func *f, const struct attn *t,
			   const struct ca_form *form, const char *at);
/* Masks scores of keys before `from` and after `to`, which all rows do not
 * see; at: C text of the local index of the first column. */
void ca_mask_keys(struct cu_func *f, const struct ca_form *form,
		  const char *at, const char *none);

/* Masks scores s[mt][cols / 8][4]: those of pairs that do not exist become
 * `none`. */
struct ca_sees {
	bool rows;		/* rows are queries; else keys */
	const char *at;		/* C text: local index of the first column */
	int64_t cols;
	const char *none;
	/* C text: whether the tile has any; NULL: only beyond the last key */
	const char *some;
	/* C text, if columns are queries: the keys that query `at` sees */
	const char *from, *to;
};
void ca_mask_scores(struct cu_func *f, const struct attn *t,
		    const struct ca_form *form, const struct ca_sees *x);

/* ---- cuda_attention_candidates.c ---------------------------------------- */

struct ca_form;
/* Begins the candidates of a step of t, which is named by what it makes. */
void ca_candidates_begin(const struct attn *t, const char *made,
			 struct cu_candidates *w);
/* Whether the plan has a tile of that step. */
bool ca_candidates_planned(const struct attn *t, const char *made);
/* Adds a candidate with so many multiplications for each pair of a query and a
 * key.  True: it is the choice so far. */
bool ca_candidates_add(const struct attn *t, struct cu_candidates *w,
		       const struct ca_form *form, int64_t rows,
		       int64_t products);

/* ---- cuda_attention_tile.c: matrices in shared memory ------------------- */

/* How a step is divided. */
struct ca_form {
	int64_t warps, mt;	/* warps; tiles of 16 rows of a warp */
	int64_t cols;		/* columns of a tile of scores */
	int64_t stages;		/* tiles of columns in shared memory */
	int64_t teams;		/* 1 with wgmma; else 0 */
	/* columns of d and dv in shared memory at a time; 0: all */
	int64_t chunk;
	int64_t out;		/* columns of results of a block */
	/* share of mma's rate, a guess: candidates are preferred in the order
	 * in which they are listed */
	double reached;
};

/* A matrix in shared memory, padded by zeros to multiples of 16 columns. */
struct ca_tile {
	int64_t at;		/* bytes: its start in shared memory */
	int64_t rows, cols;
	int64_t pitch;		/* bytes of a row */
};

/* Whether chunks have all columns: mostly zeros. */
static inline bool
ca_is_idle(const struct attn *t, const struct ca_form *form)
{
	return form->chunk >= t->d && form->chunk >= t->dv;
}
/* Reserves shared memory at *smem for a matrix. */
struct ca_tile ca_place_tile(const struct attn *t, int64_t *smem, int64_t rows,
			     int64_t cols);
/* Bytes of shared memory through which f32 weights go from one product to the
 * next; 0: they stay in registers. */
int64_t ca_pass_bytes(const struct attn *t, const struct ca_form *form);

/* A load of a matrix from global to shared memory. */
struct ca_load {
	const struct attn_view *from;
	const struct ca_tile *to;
	const char *base;	/* C text: pointer to row 0, column 0 */
	/* C text: pointer to the number of the first row in memory, of rows
	 * that an index selects; NULL: rows 0, 1, 2, .. */
	const char *index;
	const char *stage;	/* C text: bytes added to its place; NULL: 0 */
	const char *live;	/* C text: rows that exist */
	const char *low;	/* C text: the first of them; NULL: 0 */
	const char *col;	/* C text: first column; NULL: 0 */
	int64_t cols;		/* columns of the whole matrix */
	int64_t threads;
};
/* Emits a load by all threads; the caller commits it and waits for it. */
void ca_load_tile(struct cu_func *f, const struct attn *t,
		  const struct ca_load *l);

/*
 * Products, of all rows of the block; `sum` is an array [mt][n / 8][4].
 * ca_multiply: sum += a b^T, where b has n rows, and both have k columns.
 * ca_multiply_on: sum += w b, where w is such an array of k columns, and b has
 * k rows of n columns.
 */
struct ca_product {
	const char *sum, *w;
	int64_t a, b;		/* bytes in shared memory */
	int64_t a_pitch, b_pitch;
	const char *b_more;	/* C text: bytes added to b; NULL: 0 */
	int64_t n, k;		/* multiples of 16 */
	int64_t pass;		/* bytes: where f32 weights pass */
	bool is_last;		/* a barrier follows before `pass` is written */
};
void ca_multiply(struct cu_func *f, const struct attn *t,
		 const struct ca_form *form, const struct ca_product *p);
void ca_multiply_on(struct cu_func *f, const struct attn *t,
		    const struct ca_form *form, const struct ca_product *p);
/* Declares what the text of products and of sums uses. */
void ca_declare_lanes(struct cu_func *f, const struct ca_form *form);
/* Opens an unrolled loop over var < n. */
void ca_unrolled_for(struct cu_func *f, const char *var, int64_t n);
/* Declares an array [mt][n / 8][4] of zeros. */
void ca_declare_zeros(struct cu_func *f, const struct ca_form *form,
		      const char *name, int64_t n);
/* Elements of a row of sums in shared memory; and emits their copy there as
 * f32, times `by`, a number or an array [mt][2]. */
static inline int64_t
ca_stage_pitch(int64_t n)
{
	return n + 4;
}

void ca_stage_sums(struct cu_func *f, const struct ca_form *form,
		   const char *sum, const char *by, bool by_row, int64_t n,
		   int64_t at);
/* C text of an f32 number. */
const char *ca_f32(struct cu_func *f, double x);
/* The function for 2^x: an approximation, if tiles have 16 bits. */
const char *ca_exp2(const struct attn *t);
/* An empty step, where this rank has no rows: all ranks have the same steps. */
void ca_empty_step(struct attn *t);
/* Divides result columns into blocks of at most CA_MOST_OUT: number of blocks,
 * and columns of one. */
static inline int64_t
ca_out_blocks(int64_t cols)
{
	return ca_ceil_div(cols, CA_MOST_OUT);
}

static inline int64_t
ca_out_cols(int64_t cols)
{
	return attn_round_up(ca_ceil_div(cols, ca_out_blocks(cols)), 16);
}

#endif
