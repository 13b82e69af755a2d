/*
 * Contractions with wgmma and TMA (sm_90a), between the files of dot90*.c.
 *
 * A block of threads is one warpgroup that orders copies of tiles of both
 * operands into a ring in shared memory, and teams of warpgroups that
 * multiply.  A team makes a tile of the result.  One team of two warpgroups
 * makes larger tiles; two teams of one each work on different tiles, so that
 * one multiplies while the other writes.
 */
#ifndef CODEGEN_CUDA_DOT90_H
#define CODEGEN_CUDA_DOT90_H

#include "codegen/cuda/dot/cuda_dot.h"

#define DOT90_ROW 128		/* bytes along k of a stage, swizzled */

/* ---- cuda_dot90_map.c: operands as the copying unit sees them ----------- */

enum dot90_factor {
	DOT90_X,		/* m or n */
	DOT90_OVER,
	DOT90_BATCH
};

/* An operand in global memory, and a stage of it in shared memory. */
struct dot90_side {
	const struct cg_factor *x;
	int which;		/* operand */
	enum ir_dtype dtype;
	bool by_k;		/* rows along k; else of 64 positions */
	struct cg_map map;
	/* what coordinate each dim of the map is */
	struct {
		enum dot90_factor factor;
		uint32_t run;
	} dim[5];
	int64_t loads, bytes;	/* of a stage */
	bool halves;		/* a stage divides into two of as many loads */
};

/*
 * Whether tiles of `rows` positions of operand `which` can be copied, where
 * blocks begin at any multiple of `step`; `multi`: by two blocks, half each.
 */
bool dot90_side_of(const struct cu_dot *d, int which, int64_t rows,
		   int64_t step, bool multi, struct dot90_side *s);
/*
 * The copies of stage `k` (its number, an int variable) to `to` (bytes), in
 * block `half` of two, or all of them if half is NULL.
 */
void dot90_load_stage(struct cu_func *f, const struct cu_dot *d,
		      const struct dot90_side *s, const char *start,
		      const char *batch, const char *to, const char *half);
/* Elements of k in a stage. */
static inline int64_t
dot90_k(const struct cu_dot *d)
{
	return DOT90_ROW / cu_unit_bytes(d->unit);
}
/* Stages that all of k takes. */
int64_t dot90_stages(const struct cu_dot *d);

/* ---- cuda_dot90.c: tiles ------------------------------------------------ */


struct dot90 {
	struct cu_dot *d;
	int64_t rows, cols;	/* of a tile */
	int64_t teams, groups;	/* warpgroups of a team */
	int64_t ring;		/* stages of it */
	int64_t cluster;	/* blocks that share columns */
	int64_t part;		/* columns that are written at a time */
	int64_t box;		/* columns of a box that is stored; 0: none */
	int64_t waiting;	/* boxes of a warp that may be under way */
	int64_t row_blocks, col_blocks, tiles;
	int64_t splits, steps;	/* parts of k; stages of one */
	int64_t whole;		/* tiles, the first ones, that have no parts */
	int64_t items;		/* whole tiles, and parts of the others */
	int64_t sum_cols;	/* of a block that adds up parts */
	int64_t first;		/* thread that multiplies */
	int64_t blocks;		/* that run at a time */
	struct cg_split split;	/* of rows */
	struct dot90_side side[2];
	struct cg_map out;	/* the result, if boxes of it are stored */
};

static inline int64_t
dot90_team_threads(const struct dot90 *p)
{
	return p->groups * 128;
}
/* Rows of a tile that one warpgroup has. */
static inline int64_t
dot90_group_rows(const struct dot90 *p)
{
	return p->rows / p->groups;
}
/* Floats of a row of the leaf: threads that write it meet no bank twice. */
static inline int64_t
dot90_leaf_ld(const struct dot90 *p)
{
	return (p->part + 31) / 32 * 32 + 8;
}
/* Bytes of a team's boxes that wait. */
int64_t dot90_store_bytes(const struct dot90 *p);
static inline int64_t
dot90_leaf_bytes(const struct dot90 *p)
{
	return p->part ? p->rows * dot90_leaf_ld(p) * 4
		: p->box ? dot90_store_bytes(p) : 0;
}
/* In shared memory: the ring, then leaves, which boxes want on 1024 bytes,
 * then barriers. */
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
	return dot90_leaf_at(p) + p->teams * dot90_leaf_bytes(p);
}

/* ---- cuda_dot90_text.c: the kernel -------------------------------------- */

bool dot90_emit(struct dot90 *p);
/* For the step that adds up parts: a function from a tile's number to where it
 * is; places of (row, col); which sums a thread has; what may be unused. */
void dot90_order_emit(struct cu_func *f, const struct dot90 *p);
void dot90_places(struct cu_func *f, const struct dot90 *p,
		  struct cu_place *m, struct cu_place *n);
void dot90_sums_at(struct cu_func *f, const struct dot90 *p);
void dot90_used(struct cu_func *f, const struct cu_place *m,
		const struct cu_place *n);

/* ---- cuda_dot90_parts.c: k in parts ------------------------------------- */

/* At most, of any tile. */
int64_t dot90_most_splits(const struct cu_dot *d);
/* Which tiles are made in so many parts; false: none can be. */
bool dot90_set_parts(struct dot90 *p, int64_t splits);
/* Bytes of shared room that they wait in. */
int64_t dot90_parts_bytes(const struct dot90 *p);
/* C text: which part item `tile` is of; its stages, by a function. */
const char *dot90_split_text(const struct dot90 *p, struct arena *a);
void dot90_steps_emit(struct cu_func *f, const struct dot90 *p);
const char *dot90_steps_text(struct cu_func *f, const struct dot90 *p,
			     const char *tile);
/* As dot90_put_tile, of a part. */
void dot90_put_part(struct cu_func *f, const struct dot90 *p);

/* ---- cuda_dot90_sum.c: the step that adds up partial sums --------------- */

bool dot90_emit_sum(const struct dot90 *p);

/* -- cuda_dot90_put.c: what becomes of sums -- */

/* Whether columns of what is behind can be made so many at a time. */
bool dot90_part_suits(const struct cu_dot *d, int64_t cols, int64_t part);
/* Whether sums go through shared memory as f32. */
bool dot90_has_leaf(const struct cu_dot *d);
/* C text: a thread's number in its team. */
const char *dot90_thread(const struct dot90 *p);
/* In the loop over tiles, with sums in `d`; rows are at m. */
bool dot90_put_tile(struct cu_func *f, const struct dot90 *p,
		    const struct cu_place *m);

/* ---- cuda_dot90_store.c: results that the copying unit stores ----------- */

/* Whether it can: p->box and p->out. */
bool dot90_store_suits(struct dot90 *p);
/* How many boxes of a tile a warp has. */
int64_t dot90_store_boxes(const struct dot90 *p);
/* As dot90_put_tile; and behind the loop over tiles. */
void dot90_store_tile(struct cu_func *f, const struct dot90 *p,
		      const struct cu_place *m);
void dot90_store_end(struct cu_func *f);

#endif
