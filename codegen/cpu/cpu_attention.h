/*
 * Between the files of attention for a CPU; nobody else includes this.
 *
 * Scores lie with a key in each row and queries side by side in the lanes of
 * vectors, so that the largest score, the sum and the scaling of a query are
 * sums of whole vectors, and all products take single numbers of one matrix
 * times vectors of another.
 */
#ifndef CODEGEN_CPU_ATTENTION_H
#define CODEGEN_CPU_ATTENTION_H

#include "codegen/attention/attention.h"
#include "codegen/cpu/cpu.h"

/* ---- cpu_attention_tile.c: products and copies in a worker's room ------- */

/* c (+)= a b, all f32; numbers of a matrix are so many elements apart. */
struct att_product {
	struct ll_value *a;
	int64_t a_row, a_col;
	struct ll_value *b;
	int64_t b_row;			/* its columns are side by side */
	struct ll_value *c;
	int64_t c_row;
	struct ll_value *m_from, *m_to;	/* rows of c: whole tiles */
	struct ll_value *k_from, *k_to;
	int64_t n;			/* columns of c: whole vectors */
	bool add;
	/* what c is multiplied with before, by vector of n; NULL: nothing */
	struct ll_value *const *by;
};

/* Rows of a tile. */
uint32_t att_tile_rows(const struct ll *l);
void att_product(struct ll *l, const struct att_product *p);

/* Rows of `cols` elements in memory. */
struct att_rows {
	struct ll_value *at;
	enum ll_base elem;
	int64_t row, col;		/* apart, in elements */
	struct ll_value *live;		/* how many */
	int64_t cols;
};

/* Into rows of f32 that are `stride` apart, times `by` (NULL: 1), with zeros
 * up to whole vectors and up to `rows`. */
void att_read_rows(struct ll *l, const struct att_rows *from,
	      struct ll_value *to, int64_t stride, int64_t rows,
	      struct ll_value *by);
/* The other way; only what is live. */
void att_write_rows(struct ll *l, const struct att_rows *to,
	       struct ll_value *from, int64_t stride);
/* rows x cols, whole vectors both, times `by` (NULL: 1). */
void att_transpose(struct ll *l, struct ll_value *from, int64_t from_row,
	      struct ll_value *to, int64_t to_row, int64_t rows, int64_t cols,
	      struct ll_value *by);
void att_fill(struct ll *l, struct ll_value *at, int64_t elems, double x);

/* ---- small arithmetic ---- */

struct ll_value *att_max(struct ll *l, struct ll_value *a,
			 struct ll_value *b);
/* To a multiple, down. */
struct ll_value *att_down(struct ll *l, struct ll_value *a, int64_t to);
struct ll_value *att_up(struct ll *l, struct ll_value *a, int64_t to);
/* Element i of an array. */
struct ll_value *att_elem_at(struct ll *l, struct ll_value *base,
			struct ll_value *i, int64_t bytes);

/* if (cond) ...; att_if, then att_end. */
struct att_if {
	struct ll_block *after;
};
void att_if_begin(struct ll *l, struct att_if *f, struct ll_value *cond);
void att_if_end(struct ll *l, struct att_if *f);

/* ---- cpu_attention.c: steps --------------------------------------------- */

/* The nest of such nodes; results that they follow are its leaves. */
void att_make_nest(struct attn *t, const struct attn_nest *from,
	      struct cg_nest *n);
/* Begins a step: finds all views and pieces that it may ask for. */
void att_step(struct attn *t, const char *what, int64_t items);
void att_step_end(struct attn *t);
/* Where a view's first element is, but for an offset that is a constant. */
struct ll_value *att_view_at(struct attn *t, const struct attn_view *v);
/* The loop over the items that the step is called with. */
void att_items(struct attn *t, struct ll_loop *item);
/* Room of the worker's own, of floats; in bytes from its beginning. */
int64_t att_own_alloc(struct attn *t, int64_t floats);
struct ll_value *att_own_at(struct attn *t, int64_t at);

/* Which elements of a tensor are meant. */
struct att_index {
	struct ll_value *batch[ATTN_BATCH];
	struct ll_value *head;
	struct ll_value *pos;
};

void att_batch(struct attn *t, struct ll_value *b, struct att_index *i);
struct ll_value *att_ptr(struct attn *t, const struct attn_view *v,
			 const struct att_index *i);
/* Rows from there on, one for each position. */
struct att_rows att_rows_at(struct attn *t, const struct attn_view *v,
			    const struct att_index *i, struct ll_value *live,
			    int64_t cols);

/* ---- cpu_attention_where.c: positions ----------------------------------- */

/* The position of a place; pieces NULL: itself. */
struct ll_value *att_position(struct ll *l, struct ll_value *pieces,
			      struct ll_value *place);
/* How many of n places have a position below. */
struct ll_value *att_below(struct ll *l, struct ll_value *pieces, int64_t n,
			   struct ll_value *position);
/* The kv head's place that a head's place looks at. */
struct ll_value *att_kv_head(struct attn *t, struct ll_value *head);
/* The keys that a query sees: from *first to before *last. */
void att_seen_keys(struct attn *t, struct ll_value *query,
		   struct ll_value **first, struct ll_value **last);

/* ---- cpu_attention_block.c: a block of queries and keys ----------------- */

/* Sizes of a step's blocks, and its rooms by offset. */
struct att_block {
	int64_t nq;			/* queries of a block: two vectors */
	int64_t nk;			/* keys of a block */
	int64_t dp, vp;			/* d and dv in whole vectors */
	int64_t key, v;			/* f32, nk rows */
	int64_t key_pos;		/* i32 */
	int64_t score, slope;		/* nk rows of nq */
};

/* What stands in a block, as the emitters pass it on. */
struct att_tile {
	const struct att_block *b;
	struct ll_value *key0;		/* the place of its first key */
	struct ll_value *q_pos;		/* i32 of each query, in room */
	struct ll_value *qt, *gt;	/* d x nq, dv x nq */
	struct ll_value *first, *last;	/* keys seen by any: of the block */
	struct ll_value *masked;	/* whether some see less; NULL: no */
};

void att_block_scratch(struct attn *t, struct att_block *b, int64_t nk);
/* Keys (and values, if with_v) of a block, and their positions. */
void att_read_keys(struct attn *t, const struct att_block *b,
		   const struct att_index *i, struct ll_value *live,
		   bool with_v);
/* A number for each of `count` queries from i on, and `rest` behind the live
 * ones. */
#define ATT_FAR 1e30			/* an lse that makes all weights 0 */
void att_read_row(struct attn *t, const struct attn_view *v,
		  const struct att_index *i, struct ll_value *live,
		  int64_t count, double rest, struct ll_value *to);
/* Positions of a block's queries, the last one's for those behind it. */
void att_read_positions(struct attn *t, const struct att_block *b,
			struct ll_value *query, struct ll_value *live,
			struct ll_value *to);
/* Sets first, last and masked; query: the block's first of so many live. */
void att_find_seen(struct attn *t, struct att_tile *x, struct ll_value *query,
	     struct ll_value *live);
void att_scores(struct attn *t, const struct att_tile *x);
/* Before the first keys: max and sum of so many queries. */
void att_weigh_begin(struct attn *t, int64_t count, struct ll_value *max,
		     struct ll_value *sum);
/* Scores become weights e^(score - max) of all keys so far; max and sum, a
 * vector pair in room each, go on; *alpha: what was made before counts so
 * much less. */
void att_weigh_more(struct attn *t, const struct att_tile *x,
		  struct ll_value *max, struct ll_value *sum,
		  struct ll_value *alpha[2]);
/* Scores become weights, by lse. */
void att_weigh(struct attn *t, const struct att_tile *x,
	       struct ll_value *lse);
/* What flows back into the scores, from weights and `delta`; v is read. */
void att_slopes(struct attn *t, const struct att_tile *x,
		struct ll_value *delta);

/* Logs of the sums, of so many queries; 0 of one that saw no key. */
void att_lse(struct attn *t, int64_t count, struct ll_value *max,
	     struct ll_value *sum, struct ll_value *to);
/* Rows of a block's queries over their sums; 0 of one that saw no key. */
void att_divide(struct attn *t, struct ll_value *acc, int64_t nq,
		struct ll_value *rows_from, struct ll_value *rows_to,
		struct ll_value *sum);

/* ---- cpu_attention_queries.c, cpu_attention_keys.c: steps --------------- */

/* Keys of a block. */
int64_t att_keys_block(int64_t keys);
/* Items are blocks of queries: OUT and LSE, or DQ. False: *why. */
bool att_forward(struct attn *t);
bool att_queries_gradient(struct attn *t);
/*
 * Items are blocks of keys, for DK and DV.  If att_joint, an item has all
 * keys of a kv head, and makes DQ too; if there is no lse, that as well.
 */
bool att_keys_gradients(struct attn *t);
/* Whether DQ comes out of att_dkv. */
bool att_is_joint(const struct attn *t);

/* ---- cpu_attention_put.c: results --------------------------------------- */

/* Rows of f32 in the worker's room, from i->pos on, are the result's. */
bool att_store_result(struct attn *t, enum attn_result r,
		      const struct att_index *i, struct ll_value *rows,
		      int64_t stride, int64_t count, struct ll_value *live);
/* The step of nodes behind results that lie in shared room. */
bool att_follow(struct attn *t, const struct attn_made *made,
		const struct attn_nest *from);
/* A step that copies rows of each sequence and head; `to` is a view of the
 * set, or in shared room. */
void att_copy_rows(struct attn *t, const struct attn_view *from,
	      const struct attn_view *to, int64_t heads, int64_t count,
	      int64_t cols);

#endif
