/*
 * Groups of attention, for any back end: which nodes look at the same pairs,
 * where their operands lie, what has to be made before them, where results
 * go and what follows these.  A back end has the blocks of scores themselves,
 * and hands in a table of what else it must write in its own language.
 */
#ifndef CODEGEN_ATTENTION_H
#define CODEGEN_ATTENTION_H

#include "codegen/kernel.h"

#define ATTN_BATCH IR_MAX_DIMS
#define ATTN_SETS 12		/* 5 results each: bits of 64 */

/* Results of sets, a bit each. */
typedef uint64_t attn_bits;

/* What attention makes. */
enum attn_result {
	ATTN_OUT, ATTN_LSE, ATTN_DQ, ATTN_DK, ATTN_DV, ATTN_NRESULTS
};

enum { ATTN_QUERIES, ATTN_KEYS, ATTN_HEADS, ATTN_KV };

/* What attention reads. */
enum attn_input {
	ATTN_Q, ATTN_K, ATTN_V, ATTN_G, ATTN_L, ATTN_DELTA, ATTN_NINPUTS
};

enum attn_place { ATTN_NONE, ATTN_OPERAND, ATTN_SHARED };

/* Where a tensor lies, and how far apart its elements are. */
struct attn_view {
	enum attn_place place;
	struct cg_view memory;		/* of an operand: where it begins */
	int64_t shared;			/* bytes; where it begins there */
	enum ir_dtype dtype;
	int64_t batch[ATTN_BATCH];	/* elements */
	int64_t head, pos, col;
	struct ll_value *at;		/* of a CPU: in the step at hand */
};

/* A result that lies in shared room, by the dims of its type. */
struct attn_leaf {
	value_id value;
	int64_t shared;			/* bytes */
	int64_t stride[IR_MAX_DIMS];	/* elements, f32 */
};

/* Nodes that a back end's nest makes, over a space. */
struct attn_nest {
	const struct kernel *x;
	VEC(node_id) nodes;
	VEC(struct attn_leaf) leaves;
	struct ir_type space;
};

struct attn_made {
	value_id value;			/* 0: not made */
	struct ir_type type;
	uint32_t batch_at[ATTN_BATCH];	/* its dims by number; col_at: none */
	uint32_t pos_at, head_at, col_at;
	bool apart;			/* ranks have parts of it */
	struct attn_view memory;	/* if others read it there */
	struct attn_view room;		/* f32 for later steps, if they do */
	bool has_box;			/* these nodes follow in the block */
	struct attn_nest box;
};

struct attn_group;

/* Nodes that look at the same pairs of the same values. */
struct attn {
	struct attn_group *g;
	value_id values[ATTN_NINPUTS];
	struct attn_view in[ATTN_NINPUTS];
	struct attn_made made[ATTN_NRESULTS];
	/* dims: of sequences; of queries, keys, heads, kv heads */
	uint32_t nbatch;
	dim_id batch[ATTN_BATCH], dim[4];
	int64_t batch_size[ATTN_BATCH], batches;
	int64_t queries, keys, heads, kv, d, dv;	/* on this rank */
	int64_t shift, window, shared;
	bool causal;
	double scale;
	uint32_t axes;			/* along which keys are apart */
	/* of queries, keys, heads, kv heads; UINT32_MAX: all in order */
	uint32_t spread[4];
	bool heads_together;	/* a kv head's heads are its neighbours */
	bool whole;		/* a block makes all columns of a result */
	/* what tiles in a block's own room are of: 16 bits, f32 */
	enum ir_dtype tile;
	/* of a GPU */
	struct cu_kernel *k;
	/* of a CPU: the step at hand, and bytes of the worker's room */
	struct ll *l;
	uint32_t lanes;
	struct ll_value *step, *pieces[4];
	int64_t own;
};

/* Nodes that follow some results, with all that they need of the group. */
struct attn_after {
	attn_bits from;
	bool later;		/* in a step of their own */
};

/* What is in shared room; whole: with the keys of all ranks. */
struct attn_copy {
	value_id value;
	bool whole;
	enum ir_dtype dtype;
	int64_t at;
};

/* What a back end does in its own way.  False: g->why. */
struct attn_back {
	int64_t align;		/* of what lies in shared room */
	/* Why elements in memory cannot be read or written; NULL: they can. */
	const char *(*refuses)(enum ir_dtype dtype);
	/* The back end's part of a set: tile and whole first of all. */
	void (*open)(struct attn *t);
	/* Whether another set makes its result by the way. */
	bool (*is_folded)(const struct attn_group *g, uint32_t set);
	/* The steps of a set. */
	bool (*emit)(struct attn *t);
	/* Steps for nodes that write; for a value, put into shared room. */
	bool (*nest)(struct attn_group *g, const struct attn_nest *n);
	bool (*nest_value)(struct attn_group *g, const struct attn_nest *n,
			   value_id v, int64_t *at);
	/* A step for nodes behind results, as many as `made` has. */
	bool (*follow)(struct attn *t, const struct attn_made *made,
		       const struct attn_nest *n);
	/* A step that copies rows of heads, with other types.  Views of the
	 * set may be in the step at hand. */
	void (*copy)(struct attn *t, const struct attn_view *from,
		     const struct attn_view *to, int64_t heads,
		     int64_t count, int64_t cols);
};

struct attn_group {
	const struct attn_back *back;
	struct ir_module *m;
	struct arena *a;
	const uint32_t *at;	/* a rank that has these sizes */
	struct cg_kernel *out;
	const struct kernel *x;
	const char *why;	/* it cannot be done */
	struct cg_cpu *cpu;	/* whose it is, one of these */
	struct cu_kernel *k;
	struct attn sets[ATTN_SETS];
	uint32_t nsets;
	attn_bits *from;	/* by node of the kernel: results it needs */
	VEC(struct attn_after) after;
	bool folded[ATTN_SETS];
	VEC(struct attn_copy) brought;
};

static inline attn_bits
attn_bit(uint32_t set, uint32_t result)
{
	return (attn_bits)1 << (set * ATTN_NRESULTS + result);
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

/* To divide by: of nothing there is one part, and it is empty. */
static inline int64_t
attn_divisor(int64_t n)
{
	return n > 0 ? n : 1;
}

/* Columns of a result. */
static inline int64_t
attn_cols(const struct attn *t, enum attn_result r)
{
	return r == ATTN_LSE ? 1
		: r == ATTN_OUT || r == ATTN_DV ? t->dv : t->d;
}

/* ---- attention.c -------------------------------------------------------- */

/* All of it: the caller has set what is known of the group. */
bool attn_steps(struct attn_group *g);

/* ---- attention_sets.c --------------------------------------------------- */

/* Finds sets and what each of them is; then what follows. */
bool attn_find_sets(struct attn_group *g);
void attn_find_after(struct attn_group *g);
/* The results that a value is made of, through views too. */
attn_bits attn_results_in(const struct attn_group *g, value_id v);
bool attn_is_output(const struct attn_group *g, value_id v);
/* All nodes but attention's own that a value needs, and the node itself. */
void attn_mark_needed(struct attn_group *g, value_id v, bool *in);
/* Those marked. */
void attn_add_marked(struct attn_group *g, const bool *in, struct attn_nest *n);

/* ---- attention_view.c --------------------------------------------------- */

/* So many bytes of shared room. */
int64_t attn_alloc_shared(struct attn_group *g, int64_t bytes);
/* Positions of a type's dim that the rank has. */
int64_t attn_local_size(const struct attn_group *g, const struct ir_type *type,
			uint32_t i);
/* Elements that the rank has, if it had all of the dim `whole`. */
int64_t attn_elems(const struct attn_group *g, const struct ir_type *type,
		   dim_id whole);
/* Row-major in shared room; `keys`: with dims of keys and kv heads. */
void attn_view_shared(const struct attn *t, const struct ir_type *type,
		      dim_id whole, bool keys, int64_t at,
		      enum ir_dtype dtype, struct attn_view *out);
/* False: it is no such view, or g->why. */
bool attn_view_memory(const struct attn *t, value_id v, bool keys,
		      bool written, struct attn_view *out);

/* ---- attention_after.c -------------------------------------------------- */

/* Where each result of a set goes. */
bool attn_place_results(struct attn *t, uint32_t set);
/* Steps behind all others. */
bool attn_emit_rest(struct attn_group *g);

/* ---- attention_comm.c --------------------------------------------------- */

/* Such a value, if there is one already; or NULL. */
struct attn_copy *attn_find_copy(struct attn_group *g, value_id v,
				 bool whole, enum ir_dtype dtype);
/* Keys, or values, of all ranks. */
void attn_gather(struct attn *t, uint32_t input);
/* The sum over ranks, of the keys that are here. */
void attn_reduce_keys(struct attn *t, enum attn_result r);

#endif
