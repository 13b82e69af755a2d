/*
 * Between the files of attention for a GPU (ca_); nobody else includes this.
 *
 * All kernels are of one form: a block has some rows (queries, or keys of a
 * gradient) that stay in shared memory, and columns (keys, or queries) come
 * by tile after tile.  Scores of rows and columns are in registers, as mma
 * leaves them, and are at once what the next product takes:
 *
 *	forward		S = Q K^T	P = softmax(S)	   O += P V
 *	dq		S = Q K^T	dS = P(dO V^T - D)  dQ += dS K
 *	dk, dv		S = K Q^T	dS = P(V dO^T - D)  dK += dS Q
 *							    dV += P dO
 *
 * Numbers that are not of 16 bits are multiplied one by one, exactly, by the
 * same threads in the same places.
 */
#ifndef CODEGEN_CUDA_ATTENTION_H
#define CODEGEN_CUDA_ATTENTION_H

#include "codegen/attention/attention.h"
#include "codegen/cuda/cuda.h"

/* Columns c and c + 1 of each tile are this thread's. */
#define CA_COLUMNS "const int c = LANE % 4 * 2;"
#define CA_LOG2E 1.4426950408889634
#define CA_LN2 0.6931471805599453
#define CA_LEAST "-1e38f"	/* a score that is not there */
#define CA_MOST_OUT 128		/* columns of results that a block makes */

static inline int64_t
ca_ceil_div(int64_t n, int64_t of)
{
	return n > 0 ? (n + of - 1) / of : 1;
}


/* ---- cuda_attention_view.c ---------------------------------------------- */

/* Declares `type *name`: of a sequence `bat` and a head (C text). */
void ca_declare_pointer(struct cu_func *f, const struct attn *t,
		 const struct attn_view *v, const char *name,
		 const char *head);
/* A step that copies from one view to another, with other types. */
void ca_copy_step(struct attn *t, const struct attn_view *from,
		  const struct attn_view *to, int64_t heads, int64_t count,
		  int64_t cols);

/* ---- cuda_attention_after.c --------------------------------------------- */

/* The nest of such nodes; results that they follow are its leaves. */
void ca_nest_of(const struct attn_group *g, const struct attn_nest *from,
		struct cu_nest *n);
/* The step of nodes behind results that lie in shared room. */
bool ca_epilogue_step(struct attn *t, const struct attn_made *made,
		      const struct attn_nest *from);
/* A block's rows of result r, f32 in shared memory at byte `at` of it and
 * `pitch` elements apart, go to where they belong: columns `from` (C text)
 * on, `cols` of them at most, of rows `row` .. `row` + `live` - 1. */
struct ca_put {
	enum attn_result r;
	int64_t at, pitch;
	int64_t rows, cols;
	const char *from;
	const char *row, *live, *head;	/* C text */
	int64_t threads;
	const char *thread;		/* C text: one's number */
};
bool ca_put_rows(struct cu_func *f, struct attn *t, const struct ca_put *p);

/* ---- cuda_attention_where.c --------------------------------------------- */

/* Puts functions that the text calls ahead of it. */
void ca_helpers(struct cu_kernel *k);
/* C text: the keys that a query's place sees, from .. to before. */
const char *ca_keys_from(struct cu_func *f, const struct attn *t,
		     const char *query);
const char *ca_keys_to(struct cu_func *f, const struct attn *t,
		   const char *query);
/* C text: the queries that see any of the keys' places. */
const char *ca_queries_from(struct cu_func *f, const struct attn *t,
			  const char *first_key);
const char *ca_queries_to(struct cu_func *f, const struct attn *t,
			const char *last_key);
/* C text: the kv head's place that a head's place looks at; the first head's
 * place that looks at one, and the one behind the last. */
const char *ca_kv_head(struct cu_func *f, const struct attn *t,
		       const char *head);
const char *ca_first_head(struct cu_func *f, const struct attn *t,
			  const char *kv, bool behind);
/* Whether any query does not see all keys. */
static inline bool
ca_is_masked(const struct attn *t)
{
	return t->causal || t->window > 0;
}

struct ca_form;

/* Scores of s[mt][cols / 8][4] that are not there become `none`. */
struct ca_sees {
	bool rows;		/* are queries, the block's; else keys */
	const char *at;		/* C text: the first column's place */
	int64_t cols;
	const char *none;
	const char *some;	/* C text: whether there are any in the tile;
				 * NULL: but for what lies behind all keys */
	/* C text, if columns are queries: what each sees, by `at` */
	const char *from, *to;
};
void ca_mask_scores(struct cu_func *f, const struct attn *t,
		    const struct ca_form *form, const struct ca_sees *x);

/* ---- cuda_attention_ways.c: ways to cut it up --------------------------- */

struct ca_form;
/* What the plan says of a step of t, which is called by what it makes. */
void ca_ways_begin(const struct attn *t, const char *made, struct cu_ways *w);
/* The next legal one, with so many multiplications for each pair of a query
 * and a key; true: it is the choice so far. */
bool ca_ways_add(const struct attn *t, struct cu_ways *w,
		 const struct ca_form *form, int64_t rows, int64_t products);

/* ---- cuda_attention_tile.c: matrices in shared memory ------------------- */

/* How a step is cut up. */
struct ca_form {
	int64_t warps, mt;	/* a warp has mt tiles of 16 rows */
	int64_t cols;		/* columns of scores that are made at once */
	int64_t stages;		/* tiles of columns that are there */
	int64_t teams;		/* by wgmma: 1; else 0 */
	int64_t chunk;		/* of d and dv, if they are not there whole;
				 * 0: they are */
	int64_t out;		/* columns of results that a block makes */
	double reached;		/* of the rate of mma, as a guess: by it ways
				 * are tried in the order in which they stand */
};

/* Rows of numbers, zeros up to whole 16s. */
struct ca_tile {
	int64_t at;		/* bytes, in shared memory */
	int64_t rows, cols;
	int64_t pitch;		/* bytes from row to row */
};

/* Parts of columns that are as wide as all of them: zeros for the most part. */
static inline bool
ca_is_idle(const struct attn *t, const struct ca_form *form)
{
	return form->chunk >= t->d && form->chunk >= t->dv;
}
/* Takes room at *smem, where t's kind of numbers is in tiles. */
struct ca_tile ca_place_tile(const struct attn *t, int64_t *smem, int64_t rows,
			     int64_t cols);
/* Bytes in which exact weights pass from product to product; else 0. */
int64_t ca_pass_bytes(const struct attn *t, const struct ca_form *form);

/* What one load brings. */
struct ca_load {
	const struct attn_view *from;
	const struct ca_tile *to;
	const char *base;	/* pointer to row 0, column 0 */
	const char *stage;	/* bytes added to where it goes; NULL: 0 */
	const char *live;	/* rows that are there */
	const char *col;	/* first column; NULL: 0 */
	int64_t cols;		/* columns of the matrix in all */
	int64_t threads;
};
/* All threads; whoever calls commits, and waits. */
void ca_load_tile(struct cu_func *f, const struct attn *t,
		  const struct ca_load *l);

/*
 * `sum` is an array [mt][n / 8][4].  ca_product: sum += a b^T, where a has
 * the block's rows and b has n rows, both of k numbers.  ca_multiply_on: sum
 * += w b, where w is such an array of k columns (and may be scaled in place
 * before), and b has k rows of n numbers.
 */
struct ca_product {
	const char *sum, *w;
	int64_t a, b;		/* bytes, in shared memory */
	int64_t a_pitch, b_pitch;
	const char *b_more;	/* bytes; NULL: 0 */
	int64_t n, k;		/* whole 16s */
	int64_t pass;		/* where exact weights pass */
};
void ca_multiply(struct cu_func *f, const struct attn *t,
		 const struct ca_form *form, const struct ca_product *p);
void ca_multiply_on(struct cu_func *f, const struct attn *t,
		    const struct ca_form *form, const struct ca_product *p);
/* What the text of products and of stages asks for: declare it first. */
void ca_declare_lanes(struct cu_func *f, const struct ca_form *form);
/* for i < mt, unrolled; and the like. */
void ca_unrolled_for(struct cu_func *f, const char *var, int64_t n);
/* An array [mt][n / 8][4] of zeros. */
void ca_declare_zeros(struct cu_func *f, const struct ca_form *form,
		      const char *name, int64_t n);
/* Sums times `by`, a number or an array [mt][2], as rows of f32. */
static inline int64_t
ca_stage_pitch(int64_t n)
{
	return n + 4;
}

void ca_stage_sums(struct cu_func *f, const struct ca_form *form,
		   const char *sum, const char *by, bool by_row, int64_t n,
		   int64_t at);
/* C text of a number, f32. */
const char *ca_f32(struct cu_func *f, double x);
/* "p = 2^(s by - less)"; quickly, of numbers of 16 bits. */
const char *ca_exp2(const struct attn *t);
/* A step of what has no rows: ranks have the same steps. */
void ca_empty_step(struct attn *t);
/* Results of `cols` columns in blocks of at most CA_MOST_OUT. */
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
