/*
 * The manual of codegen/attention/: kernel groups of attention, for any back
 * end.  cpu/ and cuda/ call attn_steps; it may use ir/, passes/kernels and
 * kernel.h.  It finds which nodes look at the same pairs of queries and keys,
 * where their operands lie, what must be made before them, where results go
 * and which nodes follow.  A back end makes the blocks of scores, and passes a
 * table (struct attn_back) of what else it writes in its own language.
 */
#ifndef CODEGEN_ATTENTION_H
#define CODEGEN_ATTENTION_H

#include "codegen/kernel.h"

#define ATTN_BATCH IR_MAX_DIMS
#define ATTN_SETS 12		/* 5 results each, in 64 bits */

/* Results of all sets, one bit each. */
typedef uint64_t attn_bits;

/* What attention computes. */
enum attn_result {
	ATTN_OUT, ATTN_LSE, ATTN_DQ, ATTN_DK, ATTN_DV, ATTN_NRESULTS
};

enum { ATTN_QUERIES, ATTN_KEYS, ATTN_HEADS, ATTN_KV };

/* What attention reads. */
enum attn_input {
	ATTN_Q, ATTN_K, ATTN_V, ATTN_G, ATTN_L, ATTN_DELTA, ATTN_SINK,
	ATTN_FIRST, ATTN_LAST, ATTN_NINPUTS
};

enum attn_place { ATTN_NONE, ATTN_OPERAND, ATTN_SHARED };

/* Where a tensor lies, and its strides. */
struct attn_view {
	enum attn_place place;
	struct cg_view memory;		/* of an operand: its start */
	int64_t shared;	/* of shared scratch: its start, in bytes */
	enum ir_dtype dtype;
	int64_t batch[ATTN_BATCH];	/* elements */
	int64_t head, pos, col;
	/* Of keys and values that an index selects: for each key it has, at
	 * these strides, the number of the row; rows are `pos` apart. */
	bool is_selected;
	struct cg_view index;
	int64_t index_batch[ATTN_BATCH], index_pos;
	/* of a CPU: its address, and the index's, in the step being emitted */
	struct ll_value *at, *index_at;
};

struct attn_leaf {
	value_id value;
	int64_t shared;			/* bytes */
	int64_t stride[IR_MAX_DIMS];	/* f32 elements, by dim of its type */
};

/* Nodes that a nest of the back end computes, over a space. */
struct attn_nest {
	const struct kernel *x;
	VEC(node_id) nodes;
	VEC(struct attn_leaf) leaves;
	struct ir_type space;
};

/* A result of a set, and where it goes. */
struct attn_made {
	value_id value;			/* 0: not computed */
	struct ir_type type;
	/* dims of the type; col_at may be none */
	uint32_t batch_at[ATTN_BATCH];
	uint32_t pos_at, head_at, col_at;
	bool partial;			/* ranks hold partial sums of it */
	struct attn_view memory;	/* its place as an output */
	struct attn_view scratch;	/* its f32 copy for later steps */
	bool has_box;	/* these nodes run on each block of it */
	struct attn_nest box;
};

struct attn_group;

/* A set: nodes that look at the same pairs of the same values, and are computed
 * together. */
struct attn {
	struct attn_group *g;
	value_id values[ATTN_NINPUTS];
	struct attn_view in[ATTN_NINPUTS];
	struct attn_made made[ATTN_NRESULTS];
	/* dims of sequences; dims of queries, keys, heads and kv heads */
	uint32_t nbatch;
	dim_id batch[ATTN_BATCH], dim[4];
	int64_t batch_size[ATTN_BATCH], batches;
	int64_t queries, keys, heads, kv, d, dv;	/* sizes on this rank */
	int64_t shift, window, shared;
	bool causal;
	double scale, softcap, alibi;	/* softcap, alibi 0: none */
	uint32_t axes;			/* mesh axes that shard the keys */
	/* shards of queries, keys, heads, kv heads; UINT32_MAX: not sharded */
	uint32_t spread[4];
	bool heads_together;	/* heads of a kv head are consecutive */
	bool whole;		/* a block computes all columns of a result */
	/* elements of tiles in a block: 16 bits, or f32 */
	enum ir_dtype tile;
	struct cu_kernel *k;
	/* of a CPU: the step being emitted, and bytes of the worker's
	 * scratch */
	struct ll *l;
	uint32_t lanes;
	struct ll_value *step, *pieces[4];
	int64_t own;
};

/* Nodes that follow some results, with all nodes that these need. */
struct attn_after {
	attn_bits from;
	bool later;		/* in a step of their own, after all sets */
};

/* A value copied to shared scratch; whole: with the keys of all ranks. */
struct attn_copy {
	value_id value;
	bool whole;
	enum ir_dtype dtype;
	int64_t at;
};

/* What a back end writes in its own way.  Functions return false if they
 * cannot; then g->why says why. */
struct attn_back {
	int64_t align;		/* of tensors in shared scratch, in bytes */
	/* Why elements of this type cannot be read or written; NULL: they
	 * can. */
	const char *(*refuses)(enum ir_dtype dtype);
	/* Whether a set reads selected keys of this type in place.  If not,
	 * they are copied before. */
	bool (*selects)(const struct attn *t, enum ir_dtype dtype);
	/* Sets the back end's fields of a set: first of all tile and whole. */
	void (*open)(struct attn *t);
	/* Whether another set computes this set's result along with its own. */
	bool (*is_folded)(const struct attn_group *g, uint32_t set);
	bool (*emit)(struct attn *t);
	/* Steps for nodes that write outputs; and for a value, stored in shared
	 * scratch at *at. */
	bool (*nest)(struct attn_group *g, const struct attn_nest *n);
	bool (*nest_value)(struct attn_group *g, const struct attn_nest *n,
			   value_id v, int64_t *at);
	/* A step for nodes that follow results, over the positions of
	 * `made`. */
	bool (*follow)(struct attn *t, const struct attn_made *made,
		       const struct attn_nest *n);
	/* A step that copies rows of heads and converts their type.  Views of
	 * the set may have been resolved in the current step. */
	void (*copy)(struct attn *t, const struct attn_view *from,
		     const struct attn_view *to, int64_t heads,
		     int64_t count, int64_t cols);
};

struct attn_group {
	const struct attn_back *back;
	struct ir_module *m;
	struct arena *a;
	/* mesh coordinates of a rank with these sizes */
	const uint32_t *at;
	struct cg_kernel *out;
	const struct kernel *x;
	const char *why;	/* why it cannot be done; NULL */
	struct cg_cpu *cpu;	/* the back end: one of these two */
	struct cu_kernel *k;
	struct attn sets[ATTN_SETS];
	uint32_t nsets;
	/* by node of the kernel: results that it needs */
	attn_bits *from;
	VEC(struct attn_after) after;
	bool folded[ATTN_SETS];
	VEC(struct attn_copy) copies;
};

static inline attn_bits
attn_bit(uint32_t set, uint32_t result)
{
	return (attn_bits)1 << (set * ATTN_NRESULTS + result);
}

/* Whether values say which keys a query sees. */
static inline bool
attn_is_between(const struct attn *t)
{
	return t->values[ATTN_FIRST] != 0;
}

/* Whether ALiBi counts from the last key of a query's range, not from the
 * query's own position. */
static inline bool
attn_is_from_last(const struct attn *t)
{
	return attn_is_between(t) && !t->causal;
}

/* Whether some pairs of queries and keys do not exist. */
static inline bool
attn_is_masked(const struct attn *t)
{
	return t->causal || t->window > 0 || attn_is_between(t);
}

static inline bool
attn_is_keys(uint32_t result)
{
	return result == ATTN_DK || result == ATTN_DV;
}

static inline int64_t
attn_round_up(int64_t n, int64_t to)
{
	return (n + to - 1) / to * to;
}

/* A size to divide by: 1 for an empty dim. */
static inline int64_t
attn_divisor(int64_t n)
{
	return n > 0 ? n : 1;
}

static inline int64_t
attn_cols(const struct attn *t, enum attn_result r)
{
	return r == ATTN_LSE ? 1
		: r == ATTN_OUT || r == ATTN_DV ? t->dv : t->d;
}

/* ---- attention.c -------------------------------------------------------- */

/* Emits all steps of a group.  The caller has set the fields above `sets`. */
bool attn_steps(struct attn_group *g);

/* ---- attention_sets.c --------------------------------------------------- */

/* Finds the sets; then which nodes follow results. */
bool attn_find_sets(struct attn_group *g);
void attn_find_after(struct attn_group *g);
/* The results that a value is computed from, through views too. */
attn_bits attn_results_in(const struct attn_group *g, value_id v);
/* Marks all nodes that a value needs, except attention's own. */
void attn_mark_needed(struct attn_group *g, value_id v, bool *in);
/* Appends the marked nodes to a nest. */
void attn_add_marked(struct attn_group *g, const bool *in, struct attn_nest *n);

/* ---- attention_view.c --------------------------------------------------- */

/* Reserves bytes of shared scratch; returns where. */
int64_t attn_alloc_shared(struct attn_group *g, int64_t bytes);
/* Size of a type's dim on this rank. */
int64_t attn_local_size(const struct attn_group *g, const struct ir_type *type,
			uint32_t i);
/* Elements on this rank, if it had the whole dim `whole`. */
int64_t attn_elems(const struct attn_group *g, const struct ir_type *type,
		   dim_id whole);
/* A row-major view in shared scratch; `keys`: of keys and kv heads, not queries
 * and heads. */
void attn_view_shared(const struct attn *t, const struct ir_type *type,
		      dim_id whole, bool keys, int64_t at,
		      enum ir_dtype dtype, struct attn_view *out);
/* A view of a stored tensor.  False: elements have no fixed strides, or g->why
 * says why not. */
bool attn_view_memory(const struct attn *t, value_id v, bool keys,
		      bool written, struct attn_view *out);
/* A view of keys or values that a gather of the kernel selects from a stored
 * tensor by a stored index, and that may be cast to a wider type after it: the
 * view has the stored one.  False: v is none, or lies otherwise. */
bool attn_view_selected(const struct attn *t, value_id v,
			struct attn_view *out);

/* ---- attention_results.c ----------------------------------------------- */

/* Decides where each result of a set goes. */
bool attn_place_results(struct attn *t, uint32_t set);
/* The steps after all sets: reductions over ranks, and nodes that follow. */
bool attn_emit_rest(struct attn_group *g);

/* ---- attention_comm.c --------------------------------------------------- */

/* The copy of such a value, if there is one already; or NULL. */
struct attn_copy *attn_find_copy(struct attn_group *g, value_id v,
				 bool whole, enum ir_dtype dtype);
/* Replaces an input by the keys, or values, of all ranks: an all-gather. */
void attn_gather(struct attn *t, uint32_t input);
/* Sums a result over ranks, and keeps this rank's keys: a reduce-scatter. */
void attn_reduce_keys(struct attn *t, enum attn_result r);

#endif
