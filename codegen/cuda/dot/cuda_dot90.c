/*
 * Contractions with wgmma or tcgen05, and TMA: which ones can be done, and
 * which tile, cluster and split of k they get, by an estimate of cycles.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

#include <math.h>
#include <string.h>

#define RESERVE 1024		/* bytes for barriers */
#define MOST_WAITING 2		/* most boxes of a warp in flight */
#define MOST_STAGES 6
/* part of the time that splitting k must gain: the estimate is no more exact */
#define PARTED 0.02

/*
 * Tiles; the first are best for large contractions.  A multiprocessor of sm_90a
 * multiplies 4096 bytes of a row and a column of k in a cycle, which is 2048
 * products of bf16, if wgmma has 256 columns (with 128, 64 and fewer it reaches
 * 90, 75 and 55%), and loads about 34 bytes a cycle from the L2 cache.
 *
 * One of sm_100a multiplies twice as much.  Its shares are assumed: operands
 * that are read from shared memory at 128 bytes a cycle suffice for all of the
 * rate with 128 columns or more, 67% with 64 and 40% with 32.  So are the bytes
 * loaded, those of an A100 (5120 bytes a cycle for 108 multiprocessors).
 *
 * With promoted sums a thread has two registers for each: at most 96 of them.
 */
static const struct dot90_generation generations[] = {
	{ "wgmma", false, false, 16, 64, 4096, 34, { 0.95, 0.9, 0.75, 0.55 }, {
		{ 128, 256, 1, 2 }, { 128, 128, 2, 1 }, { 128, 128, 1, 2 },
		{ 64, 256, 2, 1 }, { 128, 64, 2, 1 }, { 64, 128, 2, 1 },
		{ 64, 64, 2, 1 }, { 128, 32, 2, 1 }
	}, 8 },
	{ "tcgen05", true, false, 32, 16, 8192, 47, { 0.95, 0.9, 0.65, 0.4 }, {
		{ 128, 256, 2, 1 }, { 128, 128, 2, 1 }, { 128, 64, 2, 1 },
		{ 128, 32, 2, 1 }
	}, 4 },
	{ "wgmma", false, true, 16, 64, 4096, 34, { 0.95, 0.9, 0.75, 0.55 }, {
		{ 128, 192, 1, 2 }, { 128, 128, 1, 2 }, { 128, 64, 2, 1 },
		{ 64, 128, 2, 1 }, { 64, 64, 2, 1 }, { 128, 32, 2, 1 }
	}, 6 }
};

static const struct dot90_generation *
generation_of(const struct cu_arch *arch, enum cu_dot_unit unit)
{
	return arch->wgmma ? &generations[unit == CU_DOT_E4M3 ? 2 : 0]
		: arch->tcgen05 ? &generations[1] : NULL;
}

/* ---- blocks ---- */

/* Replaces dims by the factor's runs: as few dims as operands allow. */
static void
as_runs(struct cg_dims *d, const struct cg_factor *f)
{
	uint32_t i;

	cu_dims_flatten(d);
	for (i = 0; f->n > 1 && i < f->n; i++) {
		d->size[i] = f->at[i].size;
		d->at[i] = -1;
		d->n = i + 1;
	}
}

static bool
uniform_runs(const struct cg_factor *f, int64_t block)
{
	int64_t size[IR_MAX_DIMS];
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		size[i] = f->at[i].size;
	}
	return cu_blocks_are_boxes(size, f->n, block);
}

/* What the first rows of all blocks are multiples of. */
static int64_t
step_of(const struct cg_dims *d, const struct cg_split *s)
{
	int64_t step = s->step * s->inner;

	return s->cut > 0 && s->chunks > 1 && d->size[s->cut] * s->inner %
	       64 != 0 ? 1 : step;
}

/* ---- what a choice costs ---- */

/* Cycles of items that run one after another on each multiprocessor, in
 * waves. */
static double
waves_cycles(const struct dot90 *p, int64_t items, int64_t units, double sums,
	     double put)
{
	double waves = (double)((items + units - 1) / units);

	if (p->teams == 1 || items == 0) {
		return waves * (sums + put);
	}
	return waves * (sums > put ? sums : put) + put;
}

/* Those of whole tiles, which other warps may put away beside products. */
static double
whole_cycles(const struct dot90 *p, int64_t units, double sums, double put)
{
	double waves = (double)((p->whole + units - 1) / units);
	double beside = dot90_beside_slots(p) * COST_ALONE;

	return p->beside && p->whole > 0
		? waves * fmax(sums + put, beside) + beside
		: waves_cycles(p, p->whole, units, sums, put);
}

/* Cycles of the step that adds partial sums, which it reads at the rate of
 * memory. */
static double
sum_cycles(const struct dot90 *p, int64_t units)
{
	int64_t blocks = (p->tiles - p->whole) *
			 (dot90_width(p) / p->sum_cols);

	return 6000 + (double)dot90_parts_bytes(p) /
		      (16 * (double)(blocks < units ? blocks : units));
}

/* Cycles of a stage.  A team of one warpgroup promotes sums while nobody
 * multiplies; of two, one does while the other multiplies. */
static double
stage_cycles(const struct dot90 *p)
{
	double tile = (double)p->rows * (double)p->cols;
	double eff = p->has->reached[p->cols >= 256 ? 0 : p->cols >= 128 ? 1
				     : p->cols >= 64 ? 2 : 3];
	double mul = tile * DOT90_ROW / p->has->multiplied / eff;
	double load = ((double)p->rows + (double)p->cols /
		       (double)p->cluster) * 128 / p->has->loaded;

	if (p->has->promotes && p->groups == 1) {
		mul += tile / 128 / CU_PROMOTED;
	}
	return mul > load ? mul : load;
}

/* Estimated cycles.  As many bytes are stored in a cycle as are loaded.  What
 * becomes of sums takes the cycles in which it is issued. */
static double
cycles(const struct dot90 *p)
{
	int64_t units = p->blocks / p->cluster * p->cluster;
	double tile = (double)p->rows * (double)p->cols;
	double rate = p->has->loaded;
	double stage = stage_cycles(p);
	/* a scheduler has one warp of each warpgroup */
	double put = dot90_put_slots(p) * (double)p->groups;
	/* the boxes of the last tile are stored after it */
	double all = 1500 + (dot90_any_box(p) ? tile * 2 / rate : 0);

	all += whole_cycles(p, units, stage * (double)dot90_all_stages(p), put);
	if (p->splits > 1) {
		all += waves_cycles(p, p->items - p->whole, units, stage *
				    (double)p->steps, tile * 4 / rate) +
		       sum_cycles(p, units);
		all *= 1 + PARTED;
	}
	return all;
}

int64_t
dot90_ring_of(const struct dot90 *p)
{
	int64_t free_bytes = p->d->k->c->arch->smem_bytes - RESERVE -
		       p->teams * dot90_team_bytes(p) - dot90_beside_bytes(p);
	int64_t n = free_bytes / dot90_stage_bytes(p);

	return n < MOST_STAGES ? n : MOST_STAGES;
}

/* One box is in flight while the next is made, unless that leaves too few
 * stages. */
static bool
boxes_fit(struct dot90 *p)
{
	int64_t n = dot90_store_boxes(p);

	p->waiting = n < MOST_WAITING ? n : MOST_WAITING;
	p->ring = dot90_ring_of(p);
	if (p->ring < 4) {
		p->waiting = 1;
		p->ring = dot90_ring_of(p);
	}
	return p->ring >= 3;
}

/* All boxes of a tile are there before its sums are. */
static bool
added_boxes_fit(struct dot90 *p)
{
	p->waiting = dot90_store_boxes(p);
	p->ring = dot90_ring_of(p);
	p->adds = p->ring >= 3;
	return p->adds;
}

/* Sets the columns that go through shared memory at a time: fewer columns are
 * better than fewer stages.  False: too few stages fit. */
static bool
find_ring(struct dot90 *p)
{
	static const int64_t parts[] = { 64, 32, 128, 256, 16 };
	const struct cu_dot *d = p->d;
	int64_t best = 0;
	size_t i;

	p->adds = p->beside = false;
	p->box = 0;
	if (dot90_beside_suits(p)) {
		p->ring = dot90_ring_of(p);
		return p->ring >= 3;
	}
	p->part = 0;
	p->beside = false;
	if (p->whole > 0 && dot90_store_suits(p)) {
		return boxes_fit(p);
	}
	if (p->whole > 0 && dot90_add_suits(p) && added_boxes_fit(p)) {
		return true;
	}
	p->box = 0;
	if (p->whole == 0 || !dot90_has_leaf(d)) {
		p->ring = dot90_ring_of(p);
		return p->ring >= 3;
	}
	p->ring = 0;
	for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		int64_t n;

		p->part = parts[i];
		n = dot90_part_suits(d, dot90_width(p), p->part) &&
		    (!p->has->tensor || p->part * dot90_each(p) <= 128)
			? dot90_ring_of(p) : 0;
		if (n > p->ring && p->ring < 4) {
			p->ring = n;
			best = parts[i];
		}
	}
	p->part = best;
	return p->ring >= 3;
}

void
dot90_set_shape(struct dot90 *p, uint32_t i, bool multi)
{
	struct cu_dot *d = p->d;

	p->rows = p->has->shapes[i].rows;
	p->cols = p->has->shapes[i].cols;
	p->teams = p->has->shapes[i].teams;
	p->groups = p->has->shapes[i].groups;
	p->split = cu_split_of(&d->dims[1], p->rows, 64);
	p->row_blocks = p->split.blocks;
	p->col_blocks = num_ceil_div(d->n.size, dot90_width(p));
	p->cluster = multi ? 2 : 1;
	p->tiles = p->row_blocks * p->col_blocks * d->batch.size;
}

bool
dot90_has_pairs(const struct dot90 *p)
{
	return p->cluster == 1 || (p->row_blocks % 2 == 0 && p->blocks > 1);
}

bool
dot90_fits(struct dot90 *p)
{
	struct cu_dot *d = p->d;
	int64_t step = step_of(&d->dims[1], &p->split);
	int64_t width = dot90_width(p);

	return (!p->has->tensor || width >= DOT90_TENSOR_COLS) &&
	       uniform_runs(&d->n, width) &&
	       dot90_side_of(d, 0, p->rows, step, false, &p->side[0]) &&
	       dot90_side_of(d, 1, width, width, p->cluster > 1,
			     &p->side[1]) &&
	       dot90_terms_fit(p, step) && find_ring(p);
}

static bool
try_shape(struct dot90 *p, uint32_t i, bool multi, int64_t splits)
{
	dot90_set_shape(p, i, multi);
	return dot90_has_pairs(p) && dot90_set_parts(p, splits) &&
	       dot90_fits(p);
}

static void
add_ways(const struct dot90 *p, struct dot90 *best)
{
	const struct plan_tile t = { .num = {
		[PLAN_TILE_M] = p->rows, [PLAN_TILE_N] = p->cols,
		[PLAN_TILE_K] = dot90_k(p->d), [PLAN_TILE_SPLITS] = p->splits,
		[PLAN_TILE_CLUSTER] = p->cluster, [PLAN_TILE_TEAMS] = p->teams
	} };
	int64_t stages = cu_candidates_add_stages(
		p->d->k->c->a, p->d->candidates, &t, p->ring, cycles(p));

	if (stages) {
		*best = *p;
		best->ring = stages;
		best->member = arena_dup(p->d->k->c->a, p->member,
					 p->nmembers * sizeof *p->member);
		best->term = arena_dup(p->d->k->c->a, p->term,
				       p->nterms * sizeof *p->term);
	}
}

/* What follows the products is done beside others, or not: by the estimate. */
static bool
try_both(struct dot90 *p, uint32_t i, int64_t splits)
{
	dot90_trial *tries = p->tries ? p->tries : try_shape;
	double beside = INFINITY;

	p->asks_beside = true;
	if (tries(p, i / 2, i % 2 != 0, splits)) {
		if (!p->beside) {
			return true;
		}
		beside = cycles(p);
	}
	p->asks_beside = false;
	if (tries(p, i / 2, i % 2 != 0, splits) && cycles(p) < beside) {
		return true;
	}
	p->asks_beside = true;
	return beside < INFINITY && tries(p, i / 2, i % 2 != 0, splits);
}

bool
dot90_choose(struct dot90 *best)
{
	int64_t splits = dot90_most_splits(best), n;
	struct dot90 p = *best;
	bool any = false;
	uint32_t i;

	if (!dot90_is_dense(best)) {
		return false;
	}
	cu_candidates_clear(p.d->candidates);
	for (i = 0; i < 2 * p.has->nshapes; i++) {
		for (n = 1; n <= splits; n++) {
			if (try_both(&p, i, n)) {
				add_ways(&p, best);
				any = true;
			}
		}
	}
	return any;
}

static bool
is_large(const struct cu_dot *d)
{
	return d->m.size >= 16 && d->n.size >= 16 && d->over.size >= 16;
}

static bool
is_apart_as(const struct cu_dot *d, value_id a, value_id b)
{
	const bool *apart = d->k->c->apart;

	return !apart || apart[a] == apart[b];
}

/* The operand that lies as the result does, if all that follows is to add it:
 * a residual. */
static void
find_added(struct cu_dot *d)
{
	struct ir_module *m = d->k->c->m;
	const struct ir_type *s = ir_type(m, d->value), *t;
	const struct kernel *x = d->x;
	const struct ir_node *n;
	struct cg_view v;
	value_id other;
	bool second;

	if (x->nodes.n != 2 || kernel_makes(x, d->value)) {
		return;
	}
	n = ir_node(m, x->nodes.at[ir_node(m, x->nodes.at[0])->result ==
				   d->value]);
	t = ir_type(m, n->result);
	if (n->op != IR_ADD || !kernel_makes(x, n->result)) {
		return;
	}
	second = ir_args(m, n)[0] == d->value;
	other = ir_args(m, n)[second];
	if (ir_args(m, n)[!second] != d->value || other == d->value ||
	    !ir_type_equal(t, ir_type(m, other)) ||
	    t->dtype != d->dtype || t->ndims != s->ndims ||
	    memcmp(t->dims, s->dims, t->ndims * sizeof *t->dims) != 0 ||
	    !cu_view_of(d->k, x, other, &v) || v.stored != other ||
	    v.offset != 0 || !cu_view_aligned(d->k, &v) ||
	    !is_apart_as(d, other, n->result) ||
	    !cu_dot_find_pitch(d, n->result) || d->pitch % 8 != 0) {
		return;
	}
	d->result = CU_DOT_ADD;
	d->added = v.operand;
	d->target = cg_operand(d->k->c->a, d->k->out, n->result, 0, true);
}

/* 16-bit results whose rows begin at multiples of 16 bytes need no nest. */
static void
find_rounded(struct cu_dot *d)
{
	bool half = d->dtype == IR_BF16 || d->dtype == IR_F16;
	const struct ir_module *m = d->k->c->m;
	node_id sink = 0;
	bool adds = cg_dot_summed(m, d->x, m->values.at[d->value].node,
				  &sink) == d->value;

	if (d->result == CU_DOT_STORE && d->dtype != IR_F32 &&
	    !(half && d->pitch % 8 == 0)) {
		d->result = CU_DOT_BOX;
	}
	if (d->result == CU_DOT_BOX && half && d->n.size % 8 == 0 && adds) {
		d->result = CU_DOT_ADD;
		d->pitch = d->n.size;
		d->target = cg_operand(d->k->c->a, d->k->out, 0, sink, true);
		d->added = d->target;
		d->sink = sink;
	} else if (d->result == CU_DOT_BOX && half) {
		find_added(d);
	}
}

bool
dot90_open(struct cu_dot *d, struct dot90 *p)
{
	*p = (struct dot90){ .has = generation_of(d->k->c->arch, d->unit),
			     .d = d, .blocks = d->k->c->units, .first = 128 };
	if (!p->has || d->unit == CU_DOT_FMA ||
	    d->unit == CU_DOT_E5M2 || d->m.n == 0 || d->n.n == 0 ||
	    d->over.n == 0 || !is_large(d)) {
		return false;
	}
	d->dtype = d->dtype == IR_TF32 ? IR_F32 : d->dtype;
	find_rounded(d);
	if (d->result == CU_DOT_BOX) {
		p->nest = cu_dot_nest_cost(d, false, false);
		p->beside_nest = cu_dot_nest_cost(d, true, true);
	} else {
		as_runs(&d->dims[1], &d->m);
		cu_dims_flatten(&d->dims[2]);
	}
	return true;
}

bool
dot90_steps(struct dot90 *p)
{
	uint32_t i;

	for (i = 0; i < dot90_nmembers(p); i++) {
		struct dot90 *q = dot90_member(p, i);

		q->ring = p->ring;
		q->d->rows = q->split;
		q->d->parts = i == 0 && p->splits > 1
			? cg_reserve_shared(q->d->k->out, 256,
					    dot90_parts_bytes(p))
			: p->d->parts;
	}
	return dot90_emit(p) && (p->splits == 1 || dot90_emit_sum(p));
}

bool
cu_dot90_steps(const struct cu_dot *dot)
{
	struct cu_dot d = *dot;
	struct dot90 p;

	return dot90_open(&d, &p) && dot90_choose(&p) && dot90_steps(&p);
}
