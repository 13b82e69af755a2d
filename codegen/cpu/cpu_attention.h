/*
 * Attention on a CPU, between the files cpu_attention*.c.
 *
 * A row of scores has one key, and neighbouring queries in the lanes of its
 * vectors.  So the maximum, the sum and the scaling of each query's scores are
 * operations of whole vectors, and every product multiplies single numbers of
 * one matrix with vectors of another.
 */
#ifndef CODEGEN_CPU_ATTENTION_H
#define CODEGEN_CPU_ATTENTION_H

#include "codegen/attention/attention.h"
#include "codegen/cpu/cpu.h"

/* ---- cpu_attention_tile.c: products and copies in a worker's scratch ---- */

/* c = a b, or c += a b, all f32; distances are in elements. */
struct att_product {
	struct ll_value *a;
	int64_t a_row, a_col;
	struct ll_value *b;
	int64_t b_row;			/* its columns are contiguous */
	struct ll_value *c;
	int64_t c_row;
	struct ll_value *m_from, *m_to;	/* rows of c: whole tiles */
	struct ll_value *k_from, *k_to;
	int64_t n;			/* columns of c: whole vectors */
	bool add;
	/* factors of c before the sum, by vector of n; NULL: 1 */
	struct ll_value *const *by;
	/* which lanes of vector v of c the row k of b is added to; NULL: all */
	struct ll_value *(*lanes)(void *of, struct ll_value *k, uint32_t v);
	void *of;
};

/* Rows of a tile. */
uint32_t att_tile_rows(const struct ll *l);
void att_product(struct ll *l, const struct att_product *p);

/* Rows of `cols` elements in memory. */
struct att_rows {
	struct ll_value *at;
	enum ll_base elem;		/* LL_I8: that of an f8 */
	enum ir_dtype dtype;
	int64_t row, col;		/* apart, in elements */
	/* i32, `index_step` bytes apart: the number of each row; NULL: 0, 1,
	 * 2, .. */
	struct ll_value *index;
	int64_t index_step;
	struct ll_value *live;		/* how many */
	int64_t cols;
};

int64_t att_elem_bytes(enum ll_base elem);
/* Elements of these rows as f32. */
struct ll_value *att_widen(struct ll *l, const struct att_rows *rows,
			   struct ll_value *x);
/* Where row i begins. */
struct ll_value *att_row_at(struct ll *l, const struct att_rows *rows,
			    struct ll_value *i);
/* From a row that begins at `at` a vector of f32 from column c on, of which
 * `live` columns exist; their elements are contiguous. */
struct ll_value *att_read_vector(struct ll *l, const struct att_rows *from,
				 struct ll_value *at, struct ll_value *c,
				 int64_t live);
/* Copies them to rows of f32 that are `stride` apart, times `by` (NULL: 1),
 * with zeros up to whole vectors and up to `rows`. */
void att_read_rows(struct ll *l, const struct att_rows *from,
	      struct ll_value *to, int64_t stride, int64_t rows,
	      struct ll_value *by);
/* Copies live rows of f32 back. */
void att_write_rows(struct ll *l, const struct att_rows *to,
	       struct ll_value *from, int64_t stride);
/* Transposes rows x cols, both whole vectors, times `by` (NULL: 1). */
void att_transpose(struct ll *l, struct ll_value *from, int64_t from_row,
	      struct ll_value *to, int64_t to_row, int64_t rows, int64_t cols,
	      struct ll_value *by);
/* Transposes as many vectors as each has lanes. */
void att_turn_square(struct ll *l, struct ll_value **x, uint32_t lanes);
void att_fill(struct ll *l, struct ll_value *at, int64_t elems, double x);

/* ---- small arithmetic ---- */

struct ll_value *att_max(struct ll *l, struct ll_value *a,
			 struct ll_value *b);
/* Rounded down, and up, to a multiple. */
struct ll_value *att_down(struct ll *l, struct ll_value *a, int64_t to);
struct ll_value *att_up(struct ll *l, struct ll_value *a, int64_t to);
/* The address of element i of an array. */
struct ll_value *att_elem_at(struct ll *l, struct ll_value *base,
			struct ll_value *i, int64_t bytes);

/* if (cond) { .. }: what is emitted between att_if_begin and att_if_end. */
struct att_if {
	struct ll_block *after;
};
void att_if_begin(struct ll *l, struct att_if *f, struct ll_value *cond);
void att_if_end(struct ll *l, struct att_if *f);

/* ---- cpu_attention_step.c: steps ---------------------------------------- */

/* The nest of these nodes; its leaves are results in shared scratch. */
void att_make_nest(struct attn *t, const struct attn_nest *from,
	      struct cg_nest *n);
/* Begins a step: finds where all views and pieces lie. */
void att_step(struct attn *t, const char *what, int64_t items);
void att_step_end(struct attn *t);
/* Where a view begins, without its constant offset. */
struct ll_value *att_view_at(struct attn *t, const struct attn_view *v);
/* Begins the loop over the items that the step is called with. */
void att_items(struct attn *t, struct ll_loop *item);
/* Allocates floats of the worker's scratch: their offset in bytes. */
int64_t att_own_alloc(struct attn *t, int64_t floats);
struct ll_value *att_own_at(struct attn *t, int64_t at);

/* The place of elements of a tensor in all dims but the last. */
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

/* The position of a place; pieces NULL: the place itself. */
struct ll_value *att_position(struct ll *l, struct ll_value *pieces,
			      struct ll_value *place);
/* The slope of alibi of the head at a place; NULL: none. */
struct ll_value *att_alibi_slope(struct attn *t, struct ll_value *head);
/* From the place of a head to that of its kv head. */
struct ll_value *att_kv_head(struct attn *t, struct ll_value *head);
/* The keys that causal and window leave to a query: from *first to before
 * *last. */
void att_seen_keys(struct attn *t, struct ll_value *query,
		   struct ll_value **first, struct ll_value **last);
/* How many keys of the rank are at positions below this one. */
struct ll_value *att_keys_below(struct attn *t, struct ll_value *position);

/* ---- cpu_attention_block.c: a block of queries and keys ----------------- */

/* Sizes of a step's blocks, and where they lie in the worker's scratch. */
struct att_block {
	int64_t nq;			/* queries of a block: two vectors */
	int64_t nk;			/* keys of a block */
	int64_t dp, vp;			/* d and dv in whole vectors */
	int64_t key, v;			/* f32, nk rows */
	int64_t key_pos;		/* i32 */
	int64_t score, slope;		/* nk rows of nq */
	int64_t bend;	/* with softcap: derivatives of capped scores */
};

/* A block of keys and one of queries. */
struct att_tile {
	const struct att_block *b;
	struct ll_value *key0;		/* the place of its first key */
	/* i32 in scratch: the first and last key that each query sees; and,
	 * with alibi, the position that it counts from */
	struct ll_value *lo, *hi, *pos;
	struct ll_value *fall;		/* f32: the head's slope of alibi */
	struct ll_value *qt, *gt;	/* d x nq, dv x nq */
	struct ll_value *first, *last;	/* keys that any query attends to */
	struct ll_value *masked;	/* not by all queries; NULL: by all */
};

void att_block_scratch(struct attn *t, struct att_block *b, int64_t nk);
/* Reads the keys (and values, if with_v) of a block, and their positions. */
void att_read_keys(struct attn *t, const struct att_block *b,
		   const struct att_index *i, struct ll_value *live,
		   bool with_v);
/* Whether a value of the block's is NaN or an infinity. */
struct ll_value *att_has_infinite(struct attn *t, const struct att_block *b);
/* Reads a number for each of `count` queries from i on; `rest` for those that
 * are not live. */
#define ATT_FAR 1e30			/* an lse that makes all weights 0 */
/* Below all scores; not -inf, as the difference of two infinities is NaN. */
#define ATT_LEAST -1e30
void att_read_row(struct attn *t, const struct attn_view *v,
		  const struct att_index *i, struct ll_value *live,
		  int64_t count, double rest, struct ll_value *to);
/* Scores, capped where the set has a softcap. */
void att_scores(struct attn *t, const struct att_tile *x);
/* A vector of scores, capped. */
struct ll_value *att_cap(struct attn *t, struct ll_value *scores);
/* The score of the sink of the head at i; of a sink of -inf, which is none, one
 * that is finite and below all others. */
struct ll_value *att_sink(struct attn *t, const struct att_index *i);
/* Sets max and sum of so many queries of a head, before the first keys: those
 * of its sink, or of nothing; and those of nothing. */
void att_weigh_begin(struct attn *t, const struct att_index *i, int64_t count,
		     struct ll_value *max, struct ll_value *sum);
void att_weigh_begin_none(struct attn *t, int64_t count, struct ll_value *max,
			  struct ll_value *sum);
/*
 * Scores become weights e^(score - max), with the maximum over all keys so
 * far; max and sum, two vectors each in scratch, are updated.  alpha: the
 * factors by which sums of earlier weights have to be multiplied.
 */
void att_weigh_more(struct attn *t, const struct att_tile *x,
		  struct ll_value *max, struct ll_value *sum,
		  struct ll_value *alpha[2]);
/* Scores become weights e^(score - lse). */
void att_weigh(struct attn *t, const struct att_tile *x,
	       struct ll_value *lse);
/* The gradient of the scores, from weights, `delta`, and values. */
void att_slopes(struct attn *t, const struct att_tile *x,
		struct ll_value *delta);

/* Logarithms of the sums of e^score of so many queries; 0 where there was no
 * key. */
void att_lse(struct attn *t, int64_t count, struct ll_value *max,
	     struct ll_value *sum, struct ll_value *to);
/* Divides rows of a block's queries by their sums; 0 where there was no key. */
void att_divide(struct attn *t, struct ll_value *acc, int64_t nq,
		struct ll_value *rows_from, struct ll_value *rows_to,
		struct ll_value *sum);

/* ---- cpu_attention_ranges.c: which keys a query sees -------------------- */

/* Sets lo, hi and pos of a block's queries from i->pos on; after the last query
 * stands what it has. */
void att_read_ranges(struct attn *t, const struct att_tile *x,
		     const struct att_index *i, struct ll_value *live);
/* The keys that query `i` of these sees, from *first to before *last; it sees
 * none if *last is not after *first. */
void att_range_at(struct attn *t, const struct att_tile *x, struct ll_value *i,
		  struct ll_value **first, struct ll_value **last);
/* The keys that any of `live` queries from `query` on sees, from *first to
 * before *last; lo and hi are those of att_read_ranges. */
void att_find_keys(struct attn *t, struct ll_value *query,
		   struct ll_value *live, struct ll_value *lo,
		   struct ll_value *hi, struct ll_value **first,
		   struct ll_value **last);
/* Sets first, last and masked for `live` queries from `query` on. */
void att_find_seen(struct attn *t, struct att_tile *x, struct ll_value *query,
	     struct ll_value *live);
/* Which of vector v of queries see the key in row j. */
struct ll_value *att_sees(struct attn *t, const struct att_tile *x,
			  struct ll_value *j, uint32_t v);

/*
 * Queries of a block are sparse if each key that any of them sees is seen by
 * fewer than one in ATT_SPARSE of a block's queries, in the mean.  Then a block
 * computes mostly scores that are masked.
 */
#define ATT_SPARSE 4
struct ll_value *att_is_sparse(struct attn *t, const struct att_tile *x,
			       struct ll_value *live);
/* Hides all keys from the block's queries, if cond; and whether they are. */
void att_hide_keys(struct attn *t, const struct att_tile *x,
		   struct ll_value *cond);
struct ll_value *att_is_hidden(struct attn *t, const struct att_tile *x);

/* ---- cpu_attention_parts.c: keys in parts ------------------------------- */

/* Parts of a query's keys: where the first one begins, their size and their
 * number, which is 1 at least.  All are i64. */
struct att_parts {
	struct ll_value *from, *size, *count;
};

/* Whether the keys of a query are added up in parts. */
bool att_has_parts(const struct attn *t);
/* The parts of the keys from `first` to before `last`. */
void att_find_parts(struct attn *t, struct ll_value *first,
		    struct ll_value *last, struct att_parts *p);

/* The largest score and the sum of weights of some keys; after att_join, the
 * factors of results that are joined. */
struct att_sum {
	struct ll_value *max, *sum, *by, *part_by;
};

/* Joins the sum of the next part, and a result of each. */
void att_join(struct ll *l, struct att_sum *to, const struct att_sum *part);
struct ll_value *att_joined(struct ll *l, const struct att_sum *to,
			    struct ll_value *x, struct ll_value *part);

/*
 * What a step of single queries has to do, in shared scratch: an entry is a
 * query, with all parts of its keys or with one of them.  The work of a worker
 * is an entry and a unit, which is some heads of a kv head.
 */
struct att_work {
	int64_t queries, units;	/* of all sequences; of an entry */
	int64_t slots;		/* sums of parts that can be kept */
	/* offsets of i32: how many entries there are; of each its query, and
	 * its part, or -1 for all; of each query how many parts it has, its
	 * first slot, and by unit how many parts are not computed yet */
	int64_t entries, entry, parts, slot, left;
	/* of f32, by slot and head: largest score, sum, row of results */
	int64_t max, sum, acc;
};

struct att_single {
	struct attn *t;
	struct att_work w;
	struct att_block b;	/* nq, and keys of a block: nothing else */
	bool always;		/* all queries of the step, whatever they see */
	bool has_parts, is_listed;
	int64_t heads, units;	/* heads of a unit; units of a kv head */
	/* offsets in the worker's scratch */
	int64_t lo, hi, pos;			/* i32, of the query */
	int64_t q, score, acc;			/* rows, by head */
	int64_t max, next, sum, alpha;		/* by head */
	int64_t fall;			/* with alibi: its slope, by head */
	int64_t k_rows, v_rows;		/* pointers, by key of a block */
	int64_t all_max, all_sum, all_acc;	/* of the parts so far */
	/* of the item: its query and first head; its kv head */
	struct att_index at;
	struct ll_value *kv;
	struct ll_value *first, *last;	/* keys: from first to before last */
	struct att_rows k, v;		/* of all keys */
	/* of a block of keys: its first one, and those that are seen */
	struct ll_value *key0, *from, *to;
	struct ll_value *listed;	/* rows of its keys and of some after */
};

/* Reserves shared scratch for the work of a step, and emits the step that
 * lists it. */
void att_single_list(struct att_single *s);
/* The address of number i of those at an offset; and an i32 of them, as i64. */
struct ll_value *att_work_at(struct att_single *s, int64_t offset,
			     struct ll_value *i);
struct ll_value *att_work_load(struct att_single *s, int64_t offset,
			       struct ll_value *i);

/* ---- cpu_attention_single.c: one query at a time ------------------------ */

/* Whether sparse queries of the set are computed one by one; and whether all
 * of a step are, as it has so few. */
bool att_has_single(const struct attn *t);
bool att_is_all_single(const struct attn *t);
/* Opens them; this may emit a step, so it comes before theirs. */
struct att_single *att_single_open(struct attn *t);
/* Items of the step for them. */
int64_t att_single_items(const struct att_single *s);
/* Inside of their step: allocates the worker's scratch. */
void att_single_begin(struct att_single *s);
/* Computes some: queries that are not in dense blocks, with a kv head each, or
 * parts of their keys. */
bool att_single_item(struct att_single *s, struct ll_value *item);

/* ---- cpu_attention_single_sums.c: their scores and sums ----------------- */

/* Adds keys and values from s->first to before s->last to the sums of the
 * item's heads, block by block. */
void att_single_blocks(struct att_single *s);
/* Element `col` of row `head`, and the number of a head, of those at an offset
 * in the worker's scratch. */
struct ll_value *att_head_row(struct att_single *s, int64_t offset,
			      struct ll_value *head, int64_t row,
			      struct ll_value *col);
struct ll_value *att_head_number(struct att_single *s, int64_t offset,
				 struct ll_value *head);

/* ---- cpu_attention_queries.c, cpu_attention_keys.c: steps --------------- */

/* How many keys a block has. */
int64_t att_keys_block(int64_t keys);
/*
 * How many it has if an index selects them, whatever their number.  A query
 * adds up what it sees block by block, and a block of which it sees nothing
 * changes no bit.  So if the first key that it sees is the first of a block,
 * its result has the same bits wherever its keys are in the index, and whatever
 * other keys and queries are there.
 */
#define ATT_SELECTED_BLOCK 128
/* Steps whose items are blocks of queries: OUT and LSE, or DQ. */
bool att_forward(struct attn *t);
bool att_queries_gradient(struct attn *t);
/*
 * A step whose items are blocks of keys, for DK and DV.  If att_is_joint, an
 * item has all keys of a kv head, and computes DQ too, and LSE if it is not an
 * operand.
 */
bool att_keys_gradients(struct attn *t);
/* Whether att_keys_gradients computes DQ. */
bool att_is_joint(const struct attn *t);

/* ---- cpu_attention_put.c: results --------------------------------------- */

/* Stores rows of f32 of the worker's scratch, from i->pos on. */
bool att_store_result(struct attn *t, enum attn_result r,
		      const struct att_index *i, struct ll_value *rows,
		      int64_t stride, int64_t count, struct ll_value *live);
/* A step for nodes that follow results in shared scratch. */
bool att_follow(struct attn *t, const struct attn_made *made,
		const struct attn_nest *from);
/* A step that copies rows of each sequence and head; `to` is a view of the
 * set, or lies in shared scratch. */
void att_copy_rows(struct attn *t, const struct attn_view *from,
	      const struct attn_view *to, int64_t heads, int64_t count,
	      int64_t cols);

#endif
