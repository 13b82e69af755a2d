/*
 * Contractions as CUDA C, for the files of codegen/cuda/dot/ and
 * codegen/cuda/experts/ alone; cuda.h has what others call.
 *
 * A contraction has four factors of positions: batch, m, n and k.  A block of
 * threads makes a tile: rows by columns of one position of the batch.  Tiles
 * are boxes of the result's dims, so that the epilogue, the nodes that follow
 * the contraction in its kernel, can run on a tile before it is stored.
 */
#ifndef CODEGEN_CUDA_DOT_H
#define CODEGEN_CUDA_DOT_H

#include "codegen/cuda/cuda.h"
#include "codegen/dot/dot.h"

/* ---- cuda_dot_where.c: positions of factors ----------------------------- */

/* A block of a factor, as C text of type int. */
struct cu_place {
	/* indices of the split: before `cut`, and of the chunk */
	const char *outer, *chunk;
	/* first position, number of positions */
	const char *start, *live;
};

/* Whether the operand is contiguous along the factor's last run. */
bool cu_factor_dense(const struct cg_factor *f, int which);
/* C text, i64: offset in elements of position i, an int variable. */
const char *cu_factor_at(struct arena *a, const struct cg_factor *f,
			 int which, const char *i);
/*
 * Vector width along a factor whose last run is dense: the largest power of
 * two, at most `most`, such that so many positions from any multiple of it are
 * contiguous and aligned to it.
 */
int64_t cu_factor_width(const struct cg_factor *f, int which, int64_t most);
/* The largest power of two that divides the strides of another factor. */
int64_t cu_factor_apart(const struct cg_factor *f, int which, int64_t most);
/* The largest power of two that divides a view's first offset, and that of each
 * layer of its operand. */
int64_t cu_view_width(struct cu_kernel *k, const struct cg_view *v,
		      int64_t most);

/* The multiple of `to` that n is, or the next one. */
static inline int64_t
cu_round_up(int64_t n, int64_t to)
{
	return num_ceil_div(n, to) * to;
}
/* Whether consecutive blocks of `block` positions of n dims are boxes. */
bool cu_blocks_are_boxes(const int64_t *size, uint32_t n, int64_t block);
/* Blocks of at most `want` positions; of more if one position of the divided
 * dim has more. */
struct cg_split cu_split_of(const struct cg_dims *d, int64_t want,
			    int64_t unit);
/* Merges all dims into one: for results that are stored without an epilogue. */
void cu_dims_flatten(struct cg_dims *d);
/* The place of block `block`, an int variable.  Declares NAME0, and NAME_live
 * if blocks differ in size. */
struct cu_place cu_place_of(struct cu_func *f, const char *name,
			    const struct cg_dims *d, const struct cg_split *s,
			    const char *block);
/* Sets the box and the leaf of a tile, in which positions of d are `stride`
 * elements apart. */
void cu_place_leaf(struct arena *a, struct cu_nest *n, struct cu_leaf *leaf,
		   const struct cg_dims *d, const struct cg_split *s,
		   const struct cu_place *p, int64_t stride);

/* ---- cuda_dot.c: what is contracted ------------------------------------- */

enum cu_dot_result {
	CU_DOT_BOX,		/* an epilogue runs on the tile */
	CU_DOT_STORE,		/* stored as it is, as any float but f64 */
	/* stored on top of what is stored: of the target or, in 16 bits, of
	 * another operand */
	CU_DOT_ADD
};

/* How products are made, and what elements tiles in shared memory have. */
enum cu_dot_unit {
	CU_DOT_FMA,		/* f32 */
	CU_DOT_TF32,		/* stored as f32 */
	CU_DOT_BF16,
	CU_DOT_F16,
	CU_DOT_E4M3,
	CU_DOT_E5M2,
	CU_DOT_NUNITS
};

/* Who multiplies a tile in shared memory. */
enum cu_tile_by {
	CU_BY_WARPS,		/* by mma.sync, or threads by FMA */
	/* by mma.sync, of columns that warps widen: of 4 bits in groups, and of
	 * 8 bits */
	CU_BY_GROUPS,
	CU_BY_BYTES,
	CU_BY_WGMMA,		/* warpgroups: 64 rows each, whole columns */
	CU_BY_TCGEN05		/* one thread, with sums in tensor memory */
};

/* A tile: m x n of the result, k at a time, in elements. */
struct cu_tile {
	int64_t m, n, k;
	int64_t wm, wn;		/* of a warp; of FMA: of a thread */
	/* threads of a block, blocks of a multiprocessor */
	int64_t threads, blocks;
	int64_t stages;
	double best;		/* share of the peak rate that it can reach */
	enum cu_tile_by by;
};

/* By wgmma or tcgen05, whose products run on while threads go on. */
static inline bool
cu_tile_async(const struct cu_tile *t)
{
	return t->by == CU_BY_WGMMA || t->by == CU_BY_TCGEN05;
}
/* Whether warps widen its columns. */
static inline bool
cu_tile_widens(const struct cu_tile *t)
{
	return t->by == CU_BY_GROUPS || t->by == CU_BY_BYTES;
}

struct cu_dot {
	struct cu_kernel *k;
	const struct kernel *x;
	const struct ir_node *node;
	/* the contraction's result; of several that add up, their sum */
	value_id value;
	enum ir_dtype dtype;	/* of the result */
	struct cg_view view[2];
	/* the right operand is an int4: elements of its rows, and strides of
	 * its view are bytes, but for those along k; else 0 */
	int64_t row;
	/* m has strides in operand 0 only, n in operand 1 */
	struct cg_factor batch, m, n, over;
	struct cg_dims dims[3];	/* of batch, m, n in the result */
	enum cu_dot_result result;
	/* STORE, ADD: the operand that is written, row-major batch, m, n */
	uint32_t target, added;	/* ADD: what the sums are added to */
	int64_t pitch;	/* elements from one of their rows to the next */
	/* ADD: the sum of gradients that this is, which may hold nothing yet;
	 * 0: it is a residual */
	node_id sink;
	bool whole_last;	/* the epilogue needs whole last dims */
	enum cu_dot_unit unit;
	/* with experts a list selects rows, or positions of k, and the factor
	 * has strides alone: C text as in cu_side; else NULL */
	const char *row_at[2], *k_at[2], *table[2];
	/* the plan */
	struct cu_candidates *candidates;
	struct cu_tile tile;
	struct cg_split rows, cols;
	/* split k: into so many parts, whose sums another step adds */
	int64_t splits;
	int64_t per_split;	/* k of one part, a multiple of the tile's */
	int64_t parts;		/* bytes in shared scratch: partial sums */
	/* the epilogue runs in later steps, since it fits no tile */
	bool apart;
	/* it runs row by row, each of which a warp has */
	bool by_rows;
	struct cu_nest_cost nest;	/* of the epilogue, with f32 sums */
};

/* A contraction without experts.  False: it is none, or none that any kernel
 * but loop nests can make. */
bool cu_dot_find(struct cu_kernel *k, const struct kernel *x,
		 struct cu_dot *d);
/* Of this node, whose product is a part of `value`: the nodes of x begin with
 * the one that makes it. */
bool cu_dot_find_as(struct cu_kernel *k, const struct kernel *x, node_id head,
		    value_id value, struct cu_dot *d);
/* cuda_dot_where.c: whether v, of the result's type, can be the target: its
 * rows are those of the sums.  Sets the pitch. */
bool cu_dot_find_pitch(struct cu_dot *d, value_id v);
/* Sets result, target, pitch and whole_last: what becomes of the sums. */
void cu_dot_find_result(struct cu_dot *d, node_id head);
/* Finds how operand `which` lies, the value v.  False: it cannot be read. */
bool cu_dot_view(struct cu_dot *d, int which, value_id v);
/* Of an int4: whether k is whole rows, in their order; else true. */
bool cu_dot_has_rows(const struct cu_dot *d);
/* cuda_dot90.c: the steps with wgmma.  False: operands or architecture do not
 * allow it. */
bool cu_dot90_steps(const struct cu_dot *d);
enum cu_dot_unit cu_dot_unit_of(const struct cu_arch *arch, enum ir_dtype a,
				enum ir_dtype b);

/* ---- cuda_dot_slots.c --------------------------------------------------- */

/* What the nest costs that is the epilogue; `own_type`: with sums that are
 * rounded to the type of the result; `by_vectors`: which are read as such. */
struct cu_nest_cost cu_dot_nest_cost(const struct cu_dot *d, bool own_type,
				     bool by_vectors);
/* Issue slots of a thread for what becomes of its sums of such a tile, not by
 * wgmma or tcgen05 and what copies for them; `partial`: they are stored for
 * another step. */
double cu_dot_put_slots(const struct cu_dot *d, const struct cu_tile *t,
			bool partial);
/* States those of d's tile in a comment. */
void cu_dot_put_comment(struct cu_func *f, const struct cu_dot *d);

/* ---- cuda_candidates.c -------------------------------------------------- */

/* Begins the candidates of n contractions that have one launch, whose names are
 * joined by that text; `candidates` of each becomes w. */
void cu_candidates_begin(struct cu_dot *d, uint32_t n, const char *joined,
			 struct cu_candidates *w);
/* After its steps: reports a tile of the plan that is not a candidate. */
void cu_candidates_end(struct cu_dot *d);

/* ---- cuda_dot_load.c: tiles of operands in shared memory ---------------- */

/*
 * How a tile of one operand is copied to shared memory: in chunks of 16 bytes
 * whose places in a line are XORed with bits of the line's number, so that
 * neither writing them nor ldmatrix has bank conflicts.  Lines are rows, of
 * elements along k; or positions of k, of elements along rows.  For FMA lines
 * are positions of k, not XORed, and `pad` elements longer than the tile.
 */
struct cu_side {
	enum ir_dtype from;	/* type in memory */
	enum cu_dot_unit unit;
	int64_t rows, k;	/* size of a tile */
	int64_t threads, pad;
	bool along_k;		/* lines are rows; else positions of k */
	bool described;	/* as descriptors of wgmma and tcgen05 have them: lines
			 * of 128 bytes; of others one block of lines comes
			 * after another */
	/* elements of a copy, of groups bytes; 0: converted one by one */
	int64_t width;
	int64_t row;	/* groups of 4 bits: elements of a row; else 0 */
	int64_t bytes;	/* of an element in the tile */
	/* lines of 128 elements as CU_BY_GROUPS and CU_BY_BYTES read them; with
	 * `row` they have 64 bytes, and after them is a word for each column
	 * that has its scale */
	bool is_widened;
	bool rows_end, k_end;	/* tiles may end early there */
	/* C text, i64: offsets in elements, within the current batch, of int
	 * `r` and int `q`, positions of rows and of k */
	const char *row_at, *k_at;
	const char *table;	/* a parameter that these use; NULL: none */
};

/* Bytes of an element in tiles. */
int64_t cu_unit_bytes(enum cu_dot_unit u);
/* Whether elements need no conversion. */
bool cu_unit_is(enum cu_dot_unit u, enum ir_dtype t);
/* Whether the right operand is one that warps widen, and as what. */
bool cu_dot_widens(const struct cu_dot *d, enum cu_tile_by *by);
/* Bytes of a copy; 0: elements are converted one by one. */
static inline int64_t
cu_side_copied(const struct cu_side *s)
{
	return s->width * (s->row ? 1 : s->bytes);
}
/* Bytes of one tile. */
int64_t cu_side_bytes(const struct cu_side *s);
/* How d's operand is copied; tile and blocks are planned. */
void cu_side_of(const struct cu_dot *d, int which, struct cu_side *s);

/* ---- cuda_dot_load.c, cuda_dot_ring.c: stages of shared memory ----------- */

struct cu_loop {
	const struct cu_tile *tile;
	enum cu_dot_unit unit;
	struct cu_side side[2];
	/* parts of calls of these functions: "dot3_a(%s, a_at, ..." */
	const char *load[2];	/* function */
	const char *args[2];	/* from, first, live */
	const char *table[2];	/* ", rows", or "" */
	/* C text, int: first k, end of k; end of all k */
	const char *from, *to, *end;
	bool none;		/* k may be empty */
};

/* Sets how an operand is loaded, and writes the function that does it. */
void cu_loop_side(struct cu_func *f, const struct cu_dot *d, int which,
		  struct cu_loop *l);
/* Emits copies into the first stages; into one more, in iteration `it`. */
void cu_loop_ahead(struct cu_func *f, const struct cu_loop *l);
void cu_loop_next(struct cu_func *f, const struct cu_loop *l);
/* Tiles that copies are ahead.  With wgmma and tcgen05, products of the tile
 * before are still under way when copies of a later one are ordered. */
static inline long long
cu_loop_lead(const struct cu_loop *l)
{
	return (long long)l->tile->stages -
	       (cu_tile_async(l->tile) ? 2 : 1);
}

/* ---- cuda_dot_widen.c ---------------------------------------------------- */

/* Emits the loop over k of a tile whose columns warps widen. */
void cu_widen_loop(struct cu_func *f, const struct cu_loop *l);
/* As cu_pairs_begin, within its block; and the row of it. */
void cu_widen_row(struct cu_func *f, const struct cu_loop *l);
void cu_widen_pairs(struct cu_func *f, const struct cu_loop *l);
/* Issue slots of a warp for 128 of k. */
double cu_widen_slots(const struct cu_tile *t);

/* ---- cuda_dot_loop.c: sums in registers ---------------------------------- */

/* Emits the loop over k, with sums in `acc`.  Other threads may still read
 * shared memory after it. */
void cu_loop_emit(struct cu_func *f, const struct cu_loop *l);
/*
 * Opens loops over pairs of adjacent sums: declares int row, col in the tile,
 * and f32 x, y.  And closes these loops.
 */
void cu_pairs_begin(struct cu_func *f, const struct cu_loop *l);
void cu_pairs_end(struct cu_func *f);
/* Computes `place`, C text with `row`, once for each row of a thread: i64 text
 * in such loops of that and the column. */
const char *cu_pairs_places(struct cu_func *f, const struct cu_loop *l,
			    const char *place);

/* ---- cuda_dot_mma.c, cuda_dot_async.c: such loops ------------------------ */

void cu_loop_mma(struct cu_func *f, const struct cu_loop *l);
void cu_loop_wgmma(struct cu_func *f, const struct cu_loop *l);
void cu_loop_tensor(struct cu_func *f, const struct cu_loop *l);
/* Emits what comes before a loop by tcgen05, whose barriers are at byte `bars`,
 * and the wait for the kernel before, of any tile; and the end of a block that
 * has no loop, between both. */
void cu_loop_open(struct cu_func *f, const struct cu_tile *t, int64_t bars);
void cu_loop_leave(struct cu_func *f, const struct cu_tile *t);

/* ---- cuda_dot_products.c: products by tcgen05, sums by wgmma ------------ */

/* Emits that the sums of a warp's part of a tile are 0. */
void cu_clear_sums(struct cu_func *f, const struct cu_tile *t,
		   const char *sums);

/* Stages of 128 elements of 8 bits that wgmma or mma.sync adds up, in 14 bits:
 * so many at a time, whose sums threads then add to f32 sums of their own. */
#define CU_PROMOTED 4

/* Emits how n `part`, which have been waited for, are added to the sums `to` (C
 * text, of int j). */
void cu_promote(struct cu_func *f, int64_t n, const char *to);

/* Of a stage of 128 bytes of k, whose left operand comes first; C text. */
struct cu_products {
	enum cu_dot_unit unit;
	bool by_k[2];		/* lines are along k; else along m or n */
	int64_t cols, stage_bytes, left_bytes;
	const char *stage;	/* int; stages begin at u32 `ring` */
	const char *sums;	/* u32: columns of tensor memory */
	const char *add;	/* int: whether to add to what is there */
};

/* C text: u32 `form`, which the products need. */
const char *cu_tensor_form(struct arena *a, const struct cu_products *p);
void cu_tensor_products(struct cu_func *f, const struct cu_products *p);

/* ---- cuda_dot_plan.c: tiles --------------------------------------------- */

/* Bytes of a row of an f32 tile in shared memory, on which the epilogue
 * runs. */
static inline int64_t
cu_tile_line(const struct cu_tile *t)
{
	return 4 * (t->n + 8);
}
/* Tiles by warps, the largest first; *n of them. */
const struct cu_tile *cu_tiles(const struct cu_dot *d, uint32_t *n);
/* Those of wgmma or tcgen05, if the architecture has it; of operands that are
 * copied 16 bytes at a time. */
const struct cu_tile *cu_tiles_described(const struct cu_dot *d, uint32_t *n);
/*
 * Sets how many stages and blocks fit a multiprocessor; `box`: the tile must
 * also fit as f32; `more`: bytes of other shared memory.  False: none fit.
 */
bool cu_tile_fit(const struct cg_cuda *c, enum cu_dot_unit u, bool box,
		 int64_t more, struct cu_tile *t);
/*
 * Whether the contraction leaves enough registers for this tile: a warp of 64
 * x 64 has 192 in use, and only loads of full vectors need few more.  May
 * reduce the blocks of a multiprocessor.
 */
bool cu_tile_suits(const struct cu_dot *d, struct cu_tile *t,
		   const struct cg_split *rows, const struct cg_split *cols);
/* Shared memory of a block with such a tile; and where its barriers begin. */
int64_t cu_tile_smem(enum cu_dot_unit u, const struct cu_tile *t, bool box);
int64_t cu_tile_bars(enum cu_dot_unit u, const struct cu_tile *t, bool box);
/* Estimated cycles of the device for so many tiles, each over k, whose sums
 * take a thread so many issue slots after that. */
double cu_tiles_cycles(const struct cg_cuda *c, enum cu_dot_unit u,
		       const struct cu_tile *t, double tiles, double k,
		       double put);
/* Plans tile, blocks and split k. */
void cu_dot_plan(struct cu_dot *d);

/* ---- cuda_dot_steps.c, cuda_dot_epilogue.c */

/* A tile of the result, and its place. */
struct cu_block {
	const struct cg_split *rows, *cols;
	struct cu_place m, n;
	const char *batch;	/* int */
	int64_t line;		/* bytes of a row in shared memory */
	bool fewer;		/* any number of rows may be missing */
};

bool cu_dot_emit(struct cu_dot *d);
/* Copies sums from registers to an f32 tile at SMEM. */
void cu_pairs_to_tile(struct cu_func *f, const struct cu_loop *l);
/*
 * Stores sums from registers, or adds them to what the sink of d has, as
 * elements of type t. `to`: i64 text, the offset of int `row` and `col`.
 */
void cu_pairs_store(struct cu_func *f, const struct cu_dot *d,
		    const struct cu_loop *l, const struct cu_block *b,
		    const char *at, const char *to, enum ir_dtype t, bool add);
/* Emits the epilogue on an f32 tile at SMEM. */
bool cu_dot_epilogue(struct cu_func *f, const struct cu_dot *d,
		     const struct cu_block *b, int64_t threads);
/* Emits steps after the one that multiplies: adding partial sums, or an
 * epilogue of its own. */
bool cu_dot_sum(struct cu_dot *d);

#endif
