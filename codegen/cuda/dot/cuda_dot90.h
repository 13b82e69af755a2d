/*
 * Contractions with wgmma (sm_90a) or tcgen05 (sm_100a) and the copying unit,
 * TMA, for the files of codegen/cuda/dot/cuda_dot90*.c alone.
 *
 * A block of threads has one warpgroup that orders copies of tiles of both
 * operands into a ring in shared memory, and teams of warpgroups that
 * multiply.  A team makes a tile of the result.  One team of two warpgroups
 * makes larger tiles; two teams of one warpgroup each work on different tiles,
 * so that one multiplies while the other stores.  With tcgen05 a thread of the
 * first warpgroup multiplies, and the teams store.
 */
#ifndef CODEGEN_CUDA_DOT90_H
#define CODEGEN_CUDA_DOT90_H

#include "codegen/cuda/dot/cuda_dot.h"

/* bytes of k in a stage: a row in shared memory, swizzled */
#define DOT90_ROW 128
/* threads that put sums away, beside those that multiply */
#define DOT90_BESIDE COST_WARPS_THREADS

/* ---- cuda_dot90_map.c: operands as the copying unit sees them ----------- */

enum dot90_factor {
	DOT90_X,		/* m or n */
	DOT90_OVER,
	DOT90_BATCH
};

/* An operand in global memory, and a stage of it in shared memory. */
struct dot90_side {
	const struct cg_factor *x;
	int which;
	enum ir_dtype dtype;
	bool by_k;	/* rows are along k; else of 64 positions of m or n */
	struct cg_map map;
	/* which run each dim of the map is */
	struct {
		enum dot90_factor factor;
		uint32_t run;
	} dim[5];
	int64_t loads, bytes;
	bool halves;		/* two blocks of a cluster can load half each */
	uint32_t at;		/* the map's place among those of the step */
};

/*
 * Whether the copying unit can load tiles of `rows` positions of operand
 * `which`, of blocks that begin at multiples of `step`; `multi`: by two blocks
 * of a cluster, half each.
 */
bool dot90_side_of(const struct cu_dot *d, int which, int64_t rows,
		   int64_t step, bool multi, struct dot90_side *s);
/*
 * Emits the copies of stage `k` (an int variable) to `to` (bytes): those of
 * block `half` of two or, if half is NULL, all of them.
 */
void dot90_load_stage(struct cu_func *f, const struct cu_dot *d,
		      const struct dot90_side *s, const char *start,
		      const char *batch, const char *to, const char *half);
static inline int64_t
dot90_k(const struct cu_dot *d)
{
	return DOT90_ROW / cu_unit_bytes(d->unit);
}
/* Stages of the whole k of a contraction. */
int64_t dot90_stages(const struct cu_dot *d);

/* ---- cuda_dot90.c: tiles ------------------------------------------------ */

/*
 * What a generation of tensor cores has.  A thread has sums of 2 adjacent
 * columns of every 8, in a row and 8 further on, of units of 16 rows: the first
 * unit of warp w begins at row w * warp_rows, the next ones unit_rows further
 * on each.
 */
struct dot90_generation {
	const char *unit;	/* as messages and comments name it */
	/* sums lie in tensor memory, and one thread multiplies; else teams
	 * multiply, in their registers */
	bool tensor;
	/* threads add what wgmma makes of some stages to sums of their own, as
	 * it adds up with fewer bits than f32 has */
	bool promotes;
	int64_t warp_rows, unit_rows;
	/* of a multiprocessor in a cycle: bytes of a row and a column that are
	 * multiplied, bytes that are loaded from the L2 cache */
	double multiplied, loaded;
	double reached[4];	/* with 256, 128, 64 and fewer columns */
	struct dot90_shape {
		int64_t rows, cols, teams, groups;
	} shapes[8];
	uint32_t nshapes;
};

/* One of several contractions that add up, or of a pair. */
struct dot90_term {
	struct cu_dot *d;
	struct dot90_side side[2];
};

struct dot90;
/* Sets shape `shape` of its generation, for one block or for two that share
 * columns, with k in so many parts.  False: it is no tile for it. */
typedef bool dot90_trial(struct dot90 *p, uint32_t shape, bool multi,
			 int64_t splits);

struct dot90 {
	const struct dot90_generation *has;
	struct cu_dot *d;
	int64_t rows, cols;
	int64_t teams, groups;	/* teams of a block; warpgroups of a team */
	int64_t ring;		/* stages of the ring */
	int64_t cluster;	/* blocks of a cluster, which share columns */
	/* columns that go through shared memory at a time; 0: none */
	int64_t part;
	/* of an epilogue, for each element: on sums in f32, and as it is done
	 * beside products */
	struct cu_nest_cost nest, beside_nest;
	/* columns of a box that the copying unit stores; 0: none */
	int64_t box;
	int64_t waiting;	/* boxes of a warp that may be in flight */
	/* boxes hold first what the sums are added to, of the whole tile, which
	 * the copying unit loads while its products are made */
	bool adds;
	int64_t row_blocks, col_blocks, tiles;
	int64_t splits, steps;	/* parts of k; stages of a part */
	int64_t whole;		/* tiles whose k is not split: the first ones */
	int64_t items;		/* whole tiles, plus parts of the others */
	int64_t sum_cols;	/* columns of a block that adds partial sums */
	int64_t first;		/* first thread that multiplies */
	int64_t blocks;		/* blocks that run at a time */
	bool takes;		/* they take tiles from a counter */
	struct cg_split split;	/* blocks of rows */
	struct dot90_side side[2];
	struct cg_map out;	/* the result, if the copying unit stores it */
	struct cg_map in;	/* what it is added to, if `adds` */
	uint32_t out_at, in_at;	/* their places among the maps of the step */
	/* of several that add up: all of them, of which `d` is the last one and
	 * `side` has what is the same for all; see cuda_dot90_terms.c */
	struct dot90_term *term;
	uint32_t nterms;	/* 0: it is one */
	/* the terms do not add up, but each has half of a tile's columns, and
	 * what follows is of both: see cuda_dot90_pair.c */
	bool paired;
	/* of several contractions: see cuda_dot90_launch.c */
	dot90_trial *tries;
	struct dot90 *member;
	uint32_t nmembers;	/* 0: it is one */
	bool by_rows;		/* they have rows of their own, else columns */
	/* of a member: its number, from 1, and the first of its rows or columns
	 * of tiles; and bytes that a warp's leaf or boxes may have, 0: as many
	 * as it needs */
	uint32_t number;
	int64_t first_block, warp_bytes;
	/* others have boxes where it has leaves, or leaves of another kind */
	bool among_others;
	/* what follows its products is done by warps of their own, beside those
	 * of the next tile, some columns at a time; and whether that may be.
	 * Of a launch: some member's.  See cuda_dot90_beside.c. */
	bool beside, asks_beside;
};

/* Contractions that have columns of one tile; and how many columns each. */
static inline int64_t
dot90_each(const struct dot90 *p)
{
	return p->paired ? p->nterms : 1;
}
static inline int64_t
dot90_width(const struct dot90 *p)
{
	return p->cols / dot90_each(p);
}
/* The sums of a thread lie in pieces: of each unit of rows, those of each such
 * contraction.  Where piece i begins. */
static inline int64_t
dot90_piece_at(const struct dot90 *p, int64_t i)
{
	int64_t each = dot90_each(p);

	return (i / each * p->cols + i % each * dot90_width(p)) / 2;
}
static inline int64_t
dot90_team_threads(const struct dot90 *p)
{
	return p->groups * 128;
}
static inline int64_t
dot90_group_rows(const struct dot90 *p)
{
	return p->rows / p->groups;
}
/* Units of 16 rows of each warp. */
static inline int64_t
dot90_units(const struct dot90 *p)
{
	return dot90_group_rows(p) / 64;
}
/* Floats of a row of the leaf, padded against bank conflicts. */
static inline int64_t
dot90_leaf_ld(const struct dot90 *p)
{
	return (p->part + 31) / 32 * 32 + 8;
}
/* Whether each warp has a leaf of its own; rows of a team's leaves. */
bool dot90_by_warps(const struct dot90 *p);
int64_t dot90_leaf_rows(const struct dot90 *p);
/* Bytes of a team's boxes that are in flight. */
int64_t dot90_store_bytes(const struct dot90 *p);
static inline int64_t
dot90_leaf_bytes(const struct dot90 *p)
{
	return p->beside ? 0
		: p->part ? dot90_each(p) * dot90_leaf_rows(p) *
			 dot90_leaf_ld(p) * 4
		: p->box ? dot90_store_bytes(p) : 0;
}
/* Bytes of shared memory that a team has for leaves or boxes, and a warp of it:
 * in a launch of several contractions, as many as the largest member needs. */
static inline int64_t
dot90_team_bytes(const struct dot90 *p)
{
	return p->warp_bytes ? p->warp_bytes * 4 * p->groups
			     : dot90_leaf_bytes(p);
}
static inline int64_t
dot90_warp_bytes(const struct dot90 *p)
{
	return dot90_team_bytes(p) / (4 * p->groups);
}
/* Bytes of sums that warps of their own put away. */
int64_t dot90_beside_bytes(const struct dot90 *p);
/* Layout of shared memory: the ring, then leaves or boxes (boxes need 1024
 * bytes alignment), sums that warps of their own put away, then barriers. */
static inline int64_t
dot90_stage_bytes(const struct dot90 *p)
{
	return p->side[0].bytes + p->side[1].bytes;
}
static inline int64_t
dot90_leaf_at(const struct dot90 *p)
{
	return p->ring * dot90_stage_bytes(p);
}
static inline int64_t
dot90_bars_at(const struct dot90 *p)
{
	return dot90_leaf_at(p) + p->teams * dot90_team_bytes(p) +
	       dot90_beside_bytes(p);
}

/* Begins a contraction.  False: there are no such kernels for it. */
bool dot90_open(struct cu_dot *d, struct dot90 *p);
/* Sets shape i of its generation, `multi`: for two blocks of a cluster; whether
 * rows of tiles come in pairs, if they must; and what depends on operands and
 * on the epilogue.  False: it is no tile for these. */
void dot90_set_shape(struct dot90 *p, uint32_t i, bool multi);
bool dot90_has_pairs(const struct dot90 *p);
bool dot90_fits(struct dot90 *p);
/* Stages that fit beside leaves, or beside boxes in flight. */
int64_t dot90_ring_of(const struct dot90 *p);
/* Chooses a tile; false: there is none.  Then emits its steps. */
bool dot90_choose(struct dot90 *p);
bool dot90_steps(struct dot90 *p);

/* ---- cuda_dot90_slots.c ------------------------------------------------- */

/* Issue slots of a thread for what becomes of its sums of a tile; of a launch,
 * of a tile of all of its members in the mean. */
double dot90_put_slots(const struct dot90 *p);
/* Of a thread that puts such sums away beside products. */
double dot90_beside_slots(const struct dot90 *p);

/* ---- cuda_dot90_text.c: the kernel -------------------------------------- */

bool dot90_emit(struct dot90 *p);

/* ---- cuda_dot90_members.c: several contractions of one launch ----------- */

static inline uint32_t
dot90_nmembers(const struct dot90 *p)
{
	return p->nmembers ? p->nmembers : 1;
}
static inline struct dot90 *
dot90_member(struct dot90 *p, uint32_t i)
{
	return p->nmembers ? &p->member[i] : p;
}
/* C text: the name of a function of this contraction. */
const char *dot90_func(const struct cu_func *f, const struct dot90 *p,
		       const char *what);
/* Opens what is done for tiles of member i, after those of the members before,
 * where (row, col) become its own; and closes the last one's. */
void dot90_open_member(struct cu_func *f, const struct dot90 *p, uint32_t i);
void dot90_close_members(struct cu_func *f, const struct dot90 *p);
/* Whether any of them has boxes that the copying unit stores. */
bool dot90_any_box(const struct dot90 *p);

/* ---- cuda_dot90_added.c: launches that add up --------------------------- */

/* The steps of a launch that adds up its members' products.  False: there is no
 * such kernel for them. */
bool dot90_sum_steps(struct cu_kernel *k, const struct kernel *x);

/* Sets all terms, of which the last one becomes the contraction.  False: there
 * is no such kernel for one of them, or rows or columns differ. */
bool dot90_open_terms(struct cu_dot *d, uint32_t n, struct dot90 *p);

/* ---- cuda_dot90_pair.c: two in one tile --------------------------------- */

/* The steps of a launch of two, of which the second one's epilogue reads what
 * the first one makes.  False: there is no such kernel for them. */
bool dot90_pair_steps(struct cu_kernel *k, const struct kernel *x);

/* ---- cuda_dot90_terms.c: several that add up, or a pair ------------------ */

/* Whether the copying unit can load tiles of all of them into one ring, of
 * blocks that begin at rows that are multiples of `step`. */
bool dot90_terms_fit(struct dot90 *p, int64_t step);
/* Stages of all k; and whether these are mostly full, so that little padding is
 * multiplied. */
int64_t dot90_all_stages(const struct dot90 *p);
bool dot90_is_dense(const struct dot90 *p);
/* Appends the maps of all of them to those of the step. */
void dot90_terms_maps(struct cu_func *f, struct dot90 *p);
/* Emits the copies of stage `k` (an int variable, which becomes the stage of a
 * term): blocks begin at row m, column n (C text); `half` as for
 * dot90_load_stage, of columns. */
void dot90_terms_load(struct cu_func *f, const struct dot90 *p, const char *m,
		      const char *n, const char *half);

/* ---- cuda_dot90_tiles.c ------------------------------------------------- */

/* For the step that adds partial sums as well: writes a function from a tile's
 * number to its place; declares the places of (row, col), and which sums a
 * thread has; and marks as used what may be unused. */
void dot90_order_emit(struct cu_func *f, const struct dot90 *p);
void dot90_places(struct cu_func *f, const struct dot90 *p,
		  struct cu_place *m, struct cu_place *n);
void dot90_sums_at(struct cu_func *f, const struct dot90 *p);
void dot90_used(struct cu_func *f, const struct cu_place *m,
		const struct cu_place *n);
/* C text: the first tile of this block, or cluster. */
const char *dot90_first_tile(const struct dot90 *p);
/* Opens a block of C about that tile, which runs if `when` (C text, or NULL):
 * there is no other one unless they take more. */
void dot90_open_tile(struct cu_func *f, const struct dot90 *p,
		     const char *when);
/* Declares where `tile` is. */
void dot90_tile_place(struct cu_func *f, const struct dot90 *p);
/* The next stage of the ring. */
void dot90_next_stage(struct cu_func *f, const struct dot90 *p);
/* What becomes of q's sums, of a part or of a whole tile: q and `sub` as for
 * dot90_put_part. */
bool dot90_put_item(struct cu_func *f, const struct dot90 *p,
		    const struct dot90 *q, const struct cu_place *m,
		    const char *sub);

/* ---- cuda_dot90_take.c: tiles that blocks take -------------------------- */

#define DOT90_TAKE_BYTES 512	/* of all barriers, and of what is shared */

/* Emits barriers, for one thread. */
void dot90_take_bars(struct cu_func *f, const struct dot90 *p);
/* Opens the loop of the thread that copies, at a free stage, and closes it. */
void dot90_open_taking(struct cu_func *f, const struct dot90 *p);
void dot90_close_taking(struct cu_func *f, const struct dot90 *p);
/* Opens the loop of a team, whose first stage has arrived. */
void dot90_open_taken(struct cu_func *f, const struct dot90 *p);
/* Ends a team's turn; `slot`: C text, the stages before the other one's. */
void dot90_pass_turn(struct cu_func *f, const struct dot90 *p,
		     const char *slot);
/* With tcgen05: opens the loop of the thread that multiplies, whose tile has
 * drained sums `which`, and counts its turns; arrives for each stage of it; and
 * opens the loop of a team, in phases of `parity`. */
void dot90_open_passing(struct cu_func *f, const struct dot90 *p);
void dot90_number_read(struct cu_func *f, const struct dot90 *p);
void dot90_open_passed(struct cu_func *f, const struct dot90 *p);

/* ---- cuda_dot90_tensor.c: sums in tensor memory ------------------------- */

/* The fewest columns of a contraction that a warp reads at a time. */
#define DOT90_TENSOR_COLS 32
/* Columns that a thread of a team has sums of at a time. */
int64_t dot90_tensor_cols(const struct dot90 *p);
/* Emits the barriers of sums, and the allocation; the thread that multiplies;
 * a team; and what follows all of it. */
void dot90_tensor_bars(struct cu_func *f, const struct dot90 *p);
void dot90_tensor_open(struct cu_func *f, const struct dot90 *p);
void dot90_tensor_multiply(struct cu_func *f, const struct dot90 *p);
bool dot90_tensor_team(struct cu_func *f, struct dot90 *p);
void dot90_tensor_close(struct cu_func *f, const struct dot90 *p);

/* ---- cuda_dot90_parts.c: k in parts ------------------------------------- */

/* Most parts of k of a tile. */
int64_t dot90_most_splits(const struct dot90 *p);
/* Sets which tiles are split into so many parts; false: none can be. */
bool dot90_set_parts(struct dot90 *p, int64_t splits);
/* Bytes of partial sums, in shared scratch. */
int64_t dot90_parts_bytes(const struct dot90 *p);
/* C text: which part of its tile item `tile` is; how many stages it has, by a
 * function which dot90_steps_emit writes. */
const char *dot90_split_text(const struct dot90 *p, struct arena *a);
void dot90_steps_emit(struct cu_func *f, const struct dot90 *p);
const char *dot90_steps_text(struct cu_func *f, const struct dot90 *p,
			     const char *tile);
/* As dot90_put_tile, for partial sums, of q: columns `sub` (C text, or NULL) of
 * q->cols of p's tile, or all of it. */
void dot90_put_part(struct cu_func *f, const struct dot90 *p,
		    const struct dot90 *q, const char *sub);

/* ---- cuda_dot90_sum.c: the step that adds up partial sums --------------- */

bool dot90_emit_sum(struct dot90 *p);

/* ---- cuda_dot90_beside.c: warps that put sums away ----------------------- */

/* Whether they can: sets p->beside and p->part. */
bool dot90_beside_suits(struct dot90 *p);
/* Registers of threads that copy, or multiply. */
int dot90_regs(const struct dot90 *p, bool copies);
/* Emits barriers, for one thread; what comes before the loop of who multiplies,
 * what becomes of sums, as dot90_put_item, and what comes after the loop; and,
 * after the thread that copies, the warps that put them away. */
void dot90_beside_bars(struct cu_func *f, const struct dot90 *p);
void dot90_beside_open(struct cu_func *f);
void dot90_beside_item(struct cu_func *f, const struct dot90 *p);
void dot90_beside_end(struct cu_func *f, const struct dot90 *p);
bool dot90_beside_put(struct cu_func *f, struct dot90 *p);

/* -- cuda_dot90_put.c: what becomes of sums -- */

/* Whether the epilogue can run on so many columns at a time. */
bool dot90_part_suits(const struct cu_dot *d, int64_t cols, int64_t part);
bool dot90_has_leaf(const struct cu_dot *d);
const char *dot90_thread(const struct dot90 *p);
/* Sums of a part of a tile in shared memory: C text of the first, elements from
 * row to row, and from those of a contraction of a pair to the other one's. */
struct dot90_sums {
	const char *at;
	int64_t ld, apart;
	bool own_type;		/* rounded to the result's; else f32 */
	int64_t bytes;		/* as of a leaf */
	/* blocks of rows, and the place of one */
	const struct cg_split *rows;
	const struct cu_place *m;
};

/* The nest of an epilogue that reads them. */
struct cu_nest dot90_nest(struct cu_func *f, const struct dot90 *p,
			  const struct dot90_sums *x);
/* Emits what becomes of a tile's sums, which are in `d`; rows are at m. */
bool dot90_put_tile(struct cu_func *f, const struct dot90 *p,
		    const struct cu_place *m);

/* ---- cuda_dot90_store.c: results that the copying unit stores ----------- */

/* Whether the copying unit can store the result: sets p->box and p->out.  And
 * whether it can load first what the result is added to: sets p->in, too. */
bool dot90_store_suits(struct dot90 *p);
bool dot90_add_suits(struct dot90 *p);
/* Boxes of a tile for each warp. */
int64_t dot90_store_boxes(const struct dot90 *p);
/* As dot90_put_tile; and what follows the loop over tiles. */
void dot90_store_tile(struct cu_func *f, const struct dot90 *p,
		      const struct cu_place *m);
void dot90_store_end(struct cu_func *f);
/* What sums are added to.  Barriers, one for each warp: as they begin, and as a
 * team names its own; where a tile's boxes are; and the order to load them. */
void dot90_add_bars(struct cu_func *f, const struct dot90 *p);
void dot90_add_open(struct cu_func *f, const struct dot90 *p);
void dot90_add_place(struct cu_func *f, const struct dot90 *p,
		     const struct cu_place *m);
void dot90_add_load(struct cu_func *f, const struct dot90 *p);

#endif
