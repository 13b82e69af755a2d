/*
 * Contractions on a GPU, between the files of dot*.c and experts*.c.
 *
 * A contraction is four factors of positions: batch, m, n and k.  A block of
 * threads makes a tile: of one place in the batch, so many rows by so many
 * columns, which are boxes of the result's dims, so that what stands behind
 * the contraction can be computed on the tile while it is there.
 */
#ifndef CODEGEN_CUDA_DOT_H
#define CODEGEN_CUDA_DOT_H

#include "codegen/cuda/cuda.h"
#include "codegen/dot/dot.h"

/* ---- cuda_dot_where.c: positions of factors ----------------------------- */

/* A block in C text, all int. */
struct cu_place {
	const char *outer, *chunk;	/* of the split */
	const char *start, *live;	/* positions: where, how many */
};

/* Whether the operand's elements lie side by side along the last run. */
bool cu_factor_dense(const struct cg_factor *f, int which);
/* C text, i64: elements from position 0 to position i, an int variable. */
const char *cu_factor_at(struct arena *a, const struct cg_factor *f,
			 int which, const char *i);
/*
 * The largest power of two, at most `most`, such that so many positions from
 * any multiple of it on lie side by side and begin at a multiple of it; the
 * factor's last run is dense.
 */
int64_t cu_factor_width(const struct cg_factor *f, int which, int64_t most);
/* Of the distances of a factor that is not the dense one. */
int64_t cu_factor_apart(const struct cg_factor *f, int which, int64_t most);
/* Of where a view begins. */
int64_t cu_view_width(const struct cg_view *v, int64_t most);

/* Whether blocks of that many positions of n dims, one after another, are boxes
 * of these dims. */
bool cu_blocks_are_boxes(const int64_t *size, uint32_t n, int64_t block);
/* Blocks of at most `want` positions; more if one position of the dim that
 * is cut is already more. */
struct cg_split cu_split(const struct cg_dims *d, int64_t want, int64_t unit);
/* Only the last dim is of blocks, as one. */
void cu_dims_flatten(struct cg_dims *d);
/* Of block `block`, an int variable; declares NAME0, and NAME_live if blocks
 * are not all of one size. */
struct cu_place cu_place(struct cu_func *f, const char *name,
			 const struct cg_dims *d, const struct cg_split *s,
			 const char *block);
/* A tile, in which positions of d are `stride` elements apart, as a leaf. */
void cu_place_leaf(struct arena *a, struct cu_nest *n, struct cu_leaf *leaf,
		   const struct cg_dims *d, const struct cg_split *s,
		   const struct cu_place *p, int64_t stride);

/* ---- cuda_dot.c: what is contracted ------------------------------------- */

enum cu_dot_result {
	CU_DOT_BOX,		/* nodes behind it make something of a tile */
	CU_DOT_STORE,		/* as it is, any float but f64 */
	CU_DOT_ADD		/* on top of what is there, f32 */
};

/* How products are made; what tiles in shared memory are of. */
enum cu_dot_unit {
	CU_DOT_FMA,		/* f32 */
	CU_DOT_TF32,		/* f32 in memory */
	CU_DOT_BF16,
	CU_DOT_F16,
	CU_DOT_E4M3,
	CU_DOT_E5M2,
	CU_DOT_NUNITS
};

/* A tile: m x n of the result, k at a time. */
struct cu_tile {
	int64_t m, n, k;
	int64_t wm, wn;		/* of a warp; of a thread of FMA */
	int64_t threads, blocks;	/* of a multiprocessor */
	int64_t stages;
	double best;		/* of the peak that it can reach */
};

struct cu_dot {
	struct cu_kernel *k;
	const struct kernel *x;
	const struct ir_node *node;
	value_id value;		/* the contraction's result */
	enum ir_dtype dtype;	/* of the result */
	struct cg_view view[2];
	/* m has strides of operand 0 only, n of operand 1 */
	struct cg_factor batch, m, n, over;
	struct cg_dims dims[3];	/* of batch, m, n */
	enum cu_dot_result result;
	/* STORE, ADD: operand, row-major batch, m, n without gaps */
	uint32_t target;
	bool whole_last;	/* what is behind wants whole last dims */
	enum cu_dot_unit unit;
	/* experts: rows, or places of k, that a list picks, not a factor, of
	 * which strides alone count: C text as in cu_side; else NULL */
	const char *row_at[2], *k_at[2], *table[2];
	/* the plan */
	struct cu_ways *ways;
	struct cu_tile tile;
	struct cg_split rows, cols;
	int64_t splits;		/* of k; their sums are added up later */
	int64_t per_split;	/* k of one, whole tiles */
	int64_t parts;		/* bytes into shared room of such sums */
	bool apart;		/* no tile has what is behind: later steps do */
};

/* What becomes of its value: result, target, whole_last. */
void cu_dot_find_result(struct cu_dot *d, node_id head);
/* Whether elements can be read as f32. */
bool cu_dot_can_read(enum ir_dtype t);
/* cuda_dot90.c: with wgmma, if operands and architecture allow; else false. */
bool cu_dot90_steps(const struct cu_dot *d);
enum cu_dot_unit cu_dot_unit_of(const struct cu_arch *arch, enum ir_dtype a,
				enum ir_dtype b);

/* ---- cuda_ways.c -------------------------------------------------------- */

/* What the plan says of this one; *w goes to d->ways. */
void cu_ways_begin(struct cu_dot *d, struct cu_ways *w);
/* It was emitted: reports a tile that is none of its ways. */
void cu_ways_end(struct cu_dot *d);

/* ---- cuda_dot_load.c: tiles of operands in shared memory ---------------- */

/*
 * How a tile of one operand gets into shared memory, in chunks of 16 bytes
 * whose places in a line are XORed with bits of the line's number, so that
 * neither writing them nor ldmatrix meets a bank twice.  Lines are rows, of
 * elements along k; or places of k, of elements along rows.  For FMA lines are
 * places of k, not XORed, `pad` elements longer than the tile.
 */
struct cu_side {
	enum ir_dtype from;	/* in memory */
	enum cu_dot_unit unit;
	int64_t rows, k;	/* of a tile */
	int64_t threads, pad;
	bool along_k;		/* lines are rows */
	int64_t width;		/* elements copied at once; 0: converted */
	bool rows_end, k_end;	/* tiles may be ragged there */
	/* C text, i64: elements from the operand's start, in the batch at
	 * hand, of int `r` and int `q`, positions of rows and of k */
	const char *row_at, *k_at;
	const char *table;	/* a parameter that these use, or NULL */
};

/* Bytes of an element of tiles. */
int64_t cu_unit_bytes(enum cu_dot_unit u);
/* The type of an element in memory and in tiles is the same one. */
bool cu_unit_is(enum cu_dot_unit u, enum ir_dtype t);
/* Bytes of a stage. */
int64_t cu_side_bytes(const struct cu_side *s);
/* Of d's operand; its tile and blocks are planned. */
void cu_side_of(const struct cu_dot *d, int which, struct cu_side *s);
/*
 * A function NAME(int to, const T *from, int first, int live, int k, int end,
 * TABLE) that begins to copy a tile to byte `to` of shared memory: rows first
 * .. first + live - 1, and k up to end.
 */
void cu_side_emit(struct cu_kernel *k, const struct cu_side *s,
		  const char *name);

/* -- cuda_dot_loop.c, cuda_dot_mma.c, cuda_dot_fma.c: sums in registers -- */

struct cu_loop {
	const struct cu_tile *tile;
	enum cu_dot_unit unit;
	struct cu_side side[2];
	/* call of what loads it, behind where to: "dot3_a(%s, a_at, ..." */
	const char *load[2];	/* its function */
	const char *args[2];	/* from, first, live */
	const char *table[2];	/* ", rows", or "" */
	const char *from, *to, *end;	/* int: of k; end: of all k */
	bool none;		/* there may be no k at all */
};

/* Sums of all k into `acc`; others may still read shared memory behind it. */
void cu_loop_emit(struct cu_func *f, const struct cu_loop *l);
/*
 * Opens loops over pairs of sums that stand side by side: int row, col of the
 * tile, f32 x, y; and closes them.
 */
void cu_pairs_begin(struct cu_func *f, const struct cu_loop *l);
void cu_pairs_end(struct cu_func *f);


/* ---- cuda_dot_plan.c: tiles --------------------------------------------- */

/* Bytes from a row to the next of a tile of f32 that waits for a nest. */
static inline int64_t
cu_tile_line(const struct cu_tile *t)
{
	return 4 * (t->n + 8);
}
/* Tiles that a unit may have, the largest first; *n of them. */
const struct cu_tile *cu_tiles(enum cu_dot_unit u, uint32_t *n);
/*
 * Stages and blocks that fit into a multiprocessor, of a tile that may have to
 * wait for a nest, beside `more` bytes of other shared memory. False: none.
 */
bool cu_tile_fit(const struct cg_cuda *c, enum cu_dot_unit u, bool box,
		 int64_t more, struct cu_tile *t);
/*
 * Whether the contraction's operands leave registers for it: a warp of 64 x 64
 * has 192 in use, which is all right where loading takes few.  Else there may
 * be fewer blocks.
 */
bool cu_tile_suits(const struct cu_dot *d, struct cu_tile *t,
		   const struct cg_split *rows, const struct cg_split *cols);
/* Bytes of a block with such a tile. */
int64_t cu_tile_smem(enum cu_dot_unit u, const struct cu_tile *t, bool box);
/* Cycles that so many such tiles, each of k, take on the device. */
double cu_tiles_cycles(const struct cg_cuda *c, enum cu_dot_unit u,
		       const struct cu_tile *t, double tiles, double k);
/* Tile, blocks and splits. */
void cu_dot_plan(struct cu_dot *d);

/* ---- cuda_dot_steps.c, cuda_dot_after.c --------------------------------- */

/* A tile of the result and where it is. */
struct cu_block {
	const struct cg_split *rows, *cols;
	struct cu_place m, n;
	const char *batch;	/* int */
	int64_t line;		/* bytes of a row of it at SMEM */
	bool fewer;		/* m.live may be anything up to all rows */
};

bool cu_dot_emit(struct cu_dot *d);
/* Sums in registers to a tile of f32 at SMEM. */
void cu_pairs_to_tile(struct cu_func *f, const struct cu_loop *l);
/*
 * Sums in registers to where they stay, as elements of a type; or on top of
 * what is there.  `to`: i64 text, the element of int `row` in column n0.
 */
void cu_pairs_store(struct cu_func *f, const struct cu_dot *d,
		    const struct cu_loop *l, const struct cu_block *b,
		    const char *at, const char *to, enum ir_dtype t, bool add);
/* What stands behind the contraction, on a tile of f32 at SMEM. */
bool cu_dot_epilogue(struct cu_func *f, const struct cu_dot *d,
		     const struct cu_block *b, int64_t threads);
/* Steps behind the one that multiplies: of parts that are sums. */
bool cu_dot_sum(struct cu_dot *d);

#endif
