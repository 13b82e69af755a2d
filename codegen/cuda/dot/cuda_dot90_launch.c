/*
 * Several contractions of one launch, by wgmma or tcgen05.
 *
 * Its members read one operand in the same way: all the left one, and then
 * the tiles of each have columns of their own, after those of the members
 * before; or all the right one, and rows of their own.  So all tiles have one
 * order, in which those that run at the same time share rows and columns in the
 * L2 cache, one counter, and one last wave, whose tiles' k is split.  The place
 * of a tile says of which member it is, and a branch that all threads of a
 * warp take leads to the member's own text: its maps, its products, and what
 * becomes of its sums.  That text, and so each result, is what it is in a
 * launch of its own with such tiles, if there, too, warps of their own put them
 * away or do not.
 *
 * All of them have the same tiles, stages and ring.  What one has in shared
 * memory beside the ring, leaves or boxes, others have at the same place: each
 * warp has as many bytes there as the largest of them takes, so that only it
 * has to know that its last boxes were read; where a leaf is of a whole team,
 * the team meets after it.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

#include <string.h>

#define BOX_ALIGN 1024

/* ---- tiles ---- */

/* The most that a warp needs for leaves or boxes of any member; and, where sums
 * of others are stored beside these, one box, if more leave too few stages.
 * What sums are added to needs all of its boxes: they arrive at once. */
static void
set_bytes(struct dot90 *p, int64_t most_boxes)
{
	uint32_t i;

	p->warp_bytes = 0;
	for (i = 0; i < p->nmembers; i++) {
		struct dot90 *q = &p->member[i];
		int64_t each;

		if (!q->adds && q->waiting > most_boxes) {
			q->waiting = most_boxes;
		}
		q->warp_bytes = 0;
		each = num_ceil_div(dot90_leaf_bytes(q), 4 * q->groups);
		p->warp_bytes = each > p->warp_bytes ? each : p->warp_bytes;
	}
	p->warp_bytes = cu_round_up(p->warp_bytes, BOX_ALIGN);
	p->ring = dot90_ring_of(p);
}

/*
 * Sets warp_bytes and the ring.  False: sums of some are added to boxes, which
 * arrive while products are made, and others have leaves or boxes there.
 */
static bool
share_bytes(struct dot90 *p)
{
	uint32_t adds = 0, boxes = 0, leaves = 0, teams = 0, i;

	p->beside = false;
	for (i = 0; i < p->nmembers; i++) {
		struct dot90 *q = &p->member[i];

		adds += q->adds;
		boxes += q->box && !q->adds;
		p->beside |= q->beside;
		leaves += q->part > 0 && !q->beside;
		teams += q->part > 0 && !q->beside && !dot90_by_warps(q);
	}
	p->adds = adds > 0;
	set_bytes(p, INT64_MAX);
	if (p->beside && p->ring < 3) {
		set_bytes(p, 1);
	}
	for (i = 0; i < p->nmembers; i++) {
		p->member[i].warp_bytes = p->warp_bytes;
		p->member[i].among_others = p->member[i].part &&
			!p->member[i].beside &&
			(boxes || (teams && teams < leaves));
	}
	return p->ring >= 3 && !(adds && boxes + leaves > 0);
}

/* Each member's blocks follow those of the members before. */
static bool
add_blocks(struct dot90 *p, struct dot90 *q)
{
	int64_t *own = p->by_rows ? &p->row_blocks : &p->col_blocks;
	int64_t *all = p->by_rows ? &p->col_blocks : &p->row_blocks;
	int64_t n = p->by_rows ? q->row_blocks : q->col_blocks;
	int64_t same = p->by_rows ? q->col_blocks : q->row_blocks;

	q->first_block = q->number > 1 ? *own : 0;
	*own = q->first_block + n;
	if (q->number > 1 && *all != same) {
		return false;
	}
	*all = same;
	return dot90_has_pairs(q);
}

/* What a member has of the launch. */
static void
take_parts(struct dot90 *q, const struct dot90 *p)
{
	q->splits = p->splits;
	q->steps = p->steps;
	q->whole = p->whole;
	q->items = p->items;
	q->tiles = p->tiles;
	q->sum_cols = p->sum_cols;
	q->asks_beside = p->asks_beside;
	q->warp_bytes = 0;
}

static bool
same_sides(const struct dot90 *p, const struct dot90 *q)
{
	return p->side[0].by_k == q->side[0].by_k &&
	       p->side[1].by_k == q->side[1].by_k &&
	       p->side[0].bytes == q->side[0].bytes &&
	       p->side[1].bytes == q->side[1].bytes;
}

static bool
try_launch(struct dot90 *p, uint32_t shape, bool multi, int64_t splits)
{
	uint32_t i;

	dot90_set_shape(p, shape, multi);
	for (i = 0; i < p->nmembers; i++) {
		dot90_set_shape(&p->member[i], shape, multi);
		if (!add_blocks(p, &p->member[i])) {
			return false;
		}
	}
	p->tiles = p->row_blocks * p->col_blocks * p->d->batch.size;
	if (!dot90_set_parts(p, splits)) {
		return false;
	}
	for (i = 0; i < p->nmembers; i++) {
		struct dot90 *q = &p->member[i];

		take_parts(q, p);
		if (!dot90_fits(q) || !same_sides(&p->member[0], q)) {
			return false;
		}
	}
	memcpy(p->side, p->member[0].side, sizeof p->side);
	return share_bytes(p);
}

/* ---- which contractions ---- */

/* Rows of members with columns of their own are the same blocks: those of the
 * result's dims, if the epilogue of any of them needs these. */
static bool
share_rows(struct cu_dot *d, uint32_t n)
{
	const struct cu_dot *box = NULL;
	uint32_t i;

	for (i = 0; i < n; i++) {
		box = d[i].result == CU_DOT_BOX ? &d[i] : box;
	}
	for (i = 0; box && i < n; i++) {
		struct cg_dims *x = &d[i].dims[1];

		if (d[i].result != CU_DOT_BOX) {
			*x = box->dims[1];
		} else if (x->n != box->dims[1].n ||
			   memcmp(x->size, box->dims[1].size,
				  x->n * sizeof *x->size) != 0) {
			return false;
		}
	}
	return true;
}

static bool
same_sizes(const struct cu_dot *a, const struct cu_dot *b, bool by_rows)
{
	return a->unit == b->unit && a->batch.size == b->batch.size &&
	       a->over.size == b->over.size &&
	       (by_rows ? a->n.size == b->n.size : a->m.size == b->m.size);
}

static bool
open_members(struct cu_dot *d, uint32_t n, struct dot90 *p)
{
	struct dot90 *member = arena_alloc(d->k->c->a, n * sizeof *member);
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (!dot90_open(&d[i], &member[i]) ||
		    !same_sizes(&d[0], &d[i], p->by_rows)) {
			return false;
		}
		member[i].number = i + 1;
		member[i].by_rows = p->by_rows;
	}
	*p = member[0];
	p->number = 0;
	p->member = member;
	p->nmembers = n;
	p->tries = try_launch;
	return p->by_rows || share_rows(d, n);
}

static bool
shared_steps(struct cu_kernel *k, const struct kernel *x)
{
	uint32_t n = x->members.n, i;
	struct cu_dot *d = arena_alloc(k->c->a, n * sizeof *d);
	struct cu_candidates candidates;
	struct dot90 p = { 0 };

	for (i = 0; i < n; i++) {
		if (!cu_dot_find(k, &x->members.at[i], &d[i])) {
			return false;
		}
		p.by_rows |= ir_args(k->c->m, d[i].node)[0] !=
			     ir_args(k->c->m, d[0].node)[0];
	}
	cu_candidates_begin(d, n, " with ", &candidates);
	if (!open_members(d, n, &p) || !dot90_choose(&p) || !dot90_steps(&p)) {
		return false;
	}
	cu_candidates_close(k, &candidates);
	return true;
}

bool
cu_dot_launch_steps(struct cu_kernel *k, const struct kernel *x)
{
	const struct kernel_launch *l = x->members.at[0].launch;

	return l->sums ? dot90_sum_steps(k, x)
		: l->paired ? dot90_pair_steps(k, x) : shared_steps(k, x);
}
