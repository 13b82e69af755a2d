/*
 * Which tile a contraction has, and whether k is split.  All numbers about
 * speed are in this file: a table of tiles, and an estimate of cycles.
 */
#include "codegen/cuda/dot/cuda_dot.h"

#include <math.h>

#define MOST_PARTS ((int64_t)32 << 20)	/* most bytes of partial sums */
#define MOST_SPLITS 16
#define SCHEDULERS 4	/* of a multiprocessor: an instruction a cycle each */
#define LATENCY 1400	/* cycles of a copy from the device's memory */
#define MOST_LOADED 40	/* bytes that a multiprocessor copies in a cycle */

/* ---- tiles ---- */

/*
 * A warp of 64 x 64 reads 16 KiB of shared memory for 128 products of 4096
 * multiplications, which take the same time; smaller ones wait for reads.
 * `best` is that ratio, and somewhat less.
 */
static const struct cu_tile by_bytes[] = {
	{ 128, 256, 64, 64, 64, 256, 1, 4, 0.95, CU_BY_WARPS },
	{ 128, 128, 64, 64, 64, 128, 2, 4, 0.90, CU_BY_WARPS },
	{ 128, 128, 64, 64, 32, 256, 1, 4, 0.80, CU_BY_WARPS },
	{ 128, 64, 64, 64, 32, 128, 3, 4, 0.70, CU_BY_WARPS },
	{ 64, 128, 64, 32, 64, 128, 3, 4, 0.70, CU_BY_WARPS },
	{ 64, 64, 64, 32, 32, 128, 4, 4, 0.50, CU_BY_WARPS },
	{ 32, 32, 64, 16, 16, 128, 4, 4, 0.25, CU_BY_WARPS },
};
/* The same of 8 bits: a warp has two registers for each sum, since threads
 * promote what mma.sync adds up. */
static const struct cu_tile by_short[] = {
	{ 128, 128, 64, 64, 32, 256, 1, 4, 0.80, CU_BY_WARPS },
	{ 128, 64, 64, 64, 32, 128, 2, 4, 0.70, CU_BY_WARPS },
	{ 64, 128, 64, 32, 64, 128, 2, 4, 0.70, CU_BY_WARPS },
	{ 64, 64, 64, 32, 32, 128, 3, 4, 0.50, CU_BY_WARPS },
	{ 32, 32, 64, 16, 16, 128, 4, 4, 0.25, CU_BY_WARPS },
};
/* A thread of 8 x 8 reads 64 bytes for 64 multiplications. */
static const struct cu_tile by_numbers[] = {
	{ 128, 128, 16, 8, 8, 256, 1, 3, 0.90, CU_BY_WARPS },
	{ 128, 64, 16, 8, 4, 256, 1, 3, 0.75, CU_BY_WARPS },
	{ 64, 64, 16, 8, 4, 128, 1, 3, 0.65, CU_BY_WARPS },
	{ 32, 32, 16, 4, 4, 64, 1, 3, 0.40, CU_BY_WARPS },
};

/*
 * Two warpgroups have 64 rows each.  After k is what a warp has of the sums, as
 * wgmma leaves them; there are four threads for each position of k.  A
 * multiprocessor multiplies twice as much in a cycle as an A100 does, which
 * `best` is a share of; smaller tiles read the L2 cache more.
 */
static const struct cu_tile by_warpgroups[] = {
	{ 128, 256, 128, 16, 256, 256, 1, 4, 1.7, CU_BY_WGMMA },
	{ 128, 128, 128, 16, 128, 256, 1, 6, 1.4, CU_BY_WGMMA },
	{ 128, 64, 128, 16, 64, 256, 2, 4, 1.0, CU_BY_WGMMA }
};
/*
 * The same in f8e4m3.  wgmma adds such products with some 14 bits, so threads
 * add up what it makes of some stages, in registers of their own.
 */
static const struct cu_tile by_promotion[] = {
	{ 128, 128, 128, 16, 128, 256, 1, 6, 1.35, CU_BY_WGMMA },
	{ 128, 64, 128, 16, 64, 256, 2, 4, 0.95, CU_BY_WGMMA }
};
/*
 * One thread multiplies, four times what an A100 does in a cycle, which loads
 * from the L2 cache do not keep up with: `best` is what 47 bytes a cycle feed.
 * In the end each of eight warps loads 32 rows of half of the columns from
 * tensor memory, of which two blocks of 64 columns fit.
 */
static const struct cu_tile by_tensor[] = {
	{ 128, 256, 128, 32, 128, 256, 1, 4, 1.9, CU_BY_TCGEN05 },
	{ 128, 128, 128, 32, 64, 256, 1, 6, 1.4, CU_BY_TCGEN05 },
	{ 128, 64, 128, 32, 32, 256, 2, 4, 0.9, CU_BY_TCGEN05 }
};
/* Barriers of the stages of such a tile, and the address of its sums. */
#define TENSOR_BYTES 64

/*
 * Columns that warps widen, 128 of k at a time: of 4 bits in groups, for whose
 * sums a warp needs twice the registers, and of 8 bits.  `best` is of products
 * alone: of few rows instructions and copies bind, which widen_cycles counts.
 */
#define WIDENING(by) { \
	{ 128, 128, IR_GROUP, 64, 32, 256, 1, 4, 0.80, by }, \
	{ 64, 128, IR_GROUP, 64, 32, 128, 2, 4, 0.70, by }, \
	{ 32, 128, IR_GROUP, 32, 32, 128, 3, 4, 0.65, by }, \
	{ 16, 128, IR_GROUP, 16, 32, 128, 3, 6, 0.60, by }, \
	{ 8, 128, IR_GROUP, 8, 32, 128, 3, 6, 0.60, by }, \
	{ 8, 64, IR_GROUP, 8, 16, 128, 4, 8, 0.60, by }, \
	{ 8, 32, IR_GROUP, 8, 16, 64, 4, 8, 0.60, by } \
}
static const struct cu_tile by_groups[] = WIDENING(CU_BY_GROUPS);
static const struct cu_tile by_narrow[] = WIDENING(CU_BY_BYTES);

#define COUNT(x) ((uint32_t)(sizeof (x) / sizeof (x)[0]))

static bool
is_half(enum cu_dot_unit u)
{
	return u == CU_DOT_BF16 || u == CU_DOT_F16;
}

/* For tensor cores the table's k is in bytes. */
const struct cu_tile *
cu_tiles(const struct cu_dot *d, uint32_t *n)
{
	enum cu_tile_by by;

	if (cu_dot_widens(d, &by)) {
		*n = COUNT(by_groups);
		return by == CU_BY_GROUPS ? by_groups : by_narrow;
	}
	if (d->unit == CU_DOT_FMA) {
		*n = COUNT(by_numbers);
		return by_numbers;
	}
	if (cu_unit_bytes(d->unit) == 1) {
		*n = COUNT(by_short);
		return by_short;
	}
	*n = COUNT(by_bytes);
	return by_bytes;
}

const struct cu_tile *
cu_tiles_described(const struct cu_dot *d, uint32_t *n)
{
	const struct cu_arch *arch = d->k->c->arch;
	bool half = is_half(d->unit);
	enum cu_tile_by by;

	if (d->row || cu_dot_widens(d, &by) ||
	    (!half && d->unit != CU_DOT_E4M3)) {
		*n = 0;
		return NULL;
	}
	if (arch->tcgen05) {
		*n = COUNT(by_tensor);
		return by_tensor;
	}
	*n = !arch->wgmma ? 0 : half ? COUNT(by_warpgroups)
		: COUNT(by_promotion);
	return half ? by_warpgroups : by_promotion;
}

/* Of a stage. */
static int64_t
widened_bytes(const struct cu_tile *t)
{
	return t->m * 2 * t->k + t->n * (t->by == CU_BY_GROUPS ? t->k / 2 + 4
							       : t->k);
}

int64_t
cu_tile_bars(enum cu_dot_unit u, const struct cu_tile *t, bool box)
{
	int64_t pad = u == CU_DOT_FMA ? 8 : 0, wait;

	wait = box ? t->m * cu_tile_line(t) : 0;
	pad = cu_tile_widens(t) ? t->stages * widened_bytes(t)
		: t->stages * (t->m + t->n + pad) * t->k * cu_unit_bytes(u);
	return pad > wait ? pad : wait;
}

int64_t
cu_tile_smem(enum cu_dot_unit u, const struct cu_tile *t, bool box)
{
	return cu_tile_bars(u, t, box) +
	       (t->by == CU_BY_TCGEN05 ? TENSOR_BYTES : 0);
}

bool
cu_tile_fit(const struct cg_cuda *c, enum cu_dot_unit u, bool box,
	    int64_t more, struct cu_tile *t)
{
	/* the driver reserves 1 KiB of each block */
	int64_t all = c->arch->smem_bytes + 1024, stages = t->stages, blocks;

	if (u != CU_DOT_FMA && !cu_tile_widens(t)) {
		t->k = (t->by != CU_BY_WARPS ? 128 : 64) / cu_unit_bytes(u);
	}
	for (blocks = t->blocks; blocks > 0; blocks--) {
		for (t->stages = stages; t->stages >= 3; t->stages--) {
			if (blocks * (cu_tile_smem(u, t, box) + more + 1024) <=
			    all) {
				t->blocks = blocks;
				return true;
			}
		}
	}
	return false;
}

/* ---- cycles ---- */

/* Multiplications of a multiprocessor in a cycle, of an A100. */
static double
rate(enum cu_dot_unit u)
{
	return u == CU_DOT_FMA ? 64 : u == CU_DOT_TF32 ? 512
		: cu_unit_bytes(u) == 2 ? 1024 : 2048;
}

static double
ceil_of(double x, double by)
{
	int64_t n = (int64_t)((x + by - 1) / by);

	return n < 1 ? 1 : (double)n;
}

/*
 * Cycles that a multiprocessor needs for 128 of k of such a tile, of which
 * it makes `here` at a time, beside those of its products: for instructions;
 * and until what is copied is there, of which so much is under way.
 */
static double
widen_cycles(const struct cu_tile *t, double here, double full)
{
	double warps = (double)t->threads / 32;
	double slots = warps * cu_widen_slots(t) / SCHEDULERS;
	double stage = (double)widened_bytes(t);
	double rate = here * (double)(t->stages - 1) * stage / LATENCY;

	return fmax(slots / full, stage / fmin(rate, MOST_LOADED));
}

double
cu_tiles_cycles(const struct cg_cuda *c, enum cu_dot_unit u,
		const struct cu_tile *t, double tiles, double k, double put)
{
	/* tiles of one multiprocessor */
	double each = ceil_of(tiles, (double)c->units);
	double here = each < (double)t->blocks ? each : (double)t->blocks;
	double warps = here * (double)t->threads / 32;
	/* fewer than 8 warps do not hide the latency of reads */
	double full = warps < 8 ? 0.4 + 0.6 * warps / 8 : 1;
	double work = (double)(t->m * t->n) * (k + (double)t->k) /
		      (rate(u) * t->best * full);

	if (cu_tile_widens(t)) {
		work = fmax(work, (k / (double)t->k + 1) *
				  widen_cycles(t, here, full));
	}
	/* blocks that are there together end together: what is stored takes as
	 * long as its instructions, or its bytes */
	put *= here * (double)t->threads / 32 / SCHEDULERS;
	return each * work +
	       ceil_of(each, here) *
	       (3000 + fmax((double)(t->m * t->n) / 8, put));
}

/* ---- the choice ---- */

struct tile_choice {
	struct cu_tile tile;
	struct cg_split rows, cols;
	int64_t per_split, splits;
	double cycles;
};

static bool
has_box(const struct cu_dot *d)
{
	return d->result == CU_DOT_BOX && !d->apart;
}

/* Whether copies to shared memory are of 16 bytes; `whole`: and have no
 * remainders, so that they need few registers. */
static bool
copies_wide(const struct cu_dot *d, const struct cu_tile *t,
	    const struct cg_split *rows, const struct cg_split *cols,
	    bool whole)
{
	struct cu_dot y = *d;
	struct cu_side s;
	int i;

	y.tile = *t;
	y.rows = *rows;
	y.cols = *cols;
	for (i = 0; i < 2; i++) {
		cu_side_of(&y, i, &s);
		if (cu_side_copied(&s) != 16 ||
		    (whole && (s.k_end || (s.rows_end && !s.along_k)))) {
			return false;
		}
	}
	return true;
}

bool
cu_tile_suits(const struct cu_dot *d, struct cu_tile *t,
	      const struct cg_split *rows, const struct cg_split *cols)
{
	bool half = d->unit == CU_DOT_BF16 || d->unit == CU_DOT_F16;
	bool warps = t->by == CU_BY_WARPS;

	if (d->unit == CU_DOT_FMA ||
	    ((half || (d->unit == CU_DOT_E4M3 && !warps)) &&
	     copies_wide(d, t, rows, cols, warps))) {
		return true;
	}
	if (cu_tile_async(t)) {
		return false;
	}
	t->blocks = t->blocks > 2 ? 2 : t->blocks;
	/* of 8 bits a sum has two registers */
	return t->wm * t->wn < (cu_unit_bytes(d->unit) != 1 ||
				copies_wide(d, t, rows, cols, false)
				? 64 * 64 : 64 * 32);
}

/* Blocks of a tile, without split k; false: the tile cannot be used. */
static bool
blocks_of(const struct cu_dot *d, struct tile_choice *x)
{
	const struct cg_dims *n = &d->dims[2];

	if (!cu_tile_fit(d->k->c, d->unit, has_box(d), 0, &x->tile)) {
		return false;
	}
	x->rows = cu_split_of(&d->dims[1], x->tile.m, 16);
	x->cols = cu_split_of(n, x->tile.n, 16);
	x->splits = 1;
	x->per_split = cu_round_up(d->over.size, x->tile.k);
	return cu_tile_suits(d, &x->tile, &x->rows, &x->cols) &&
	       !(d->whole_last && has_box(d) &&
		 cg_split_cuts_last(n, &x->cols));
}

/* Estimated cycles: partial sums are read by a step of their own. */
static double
cost_of(const struct cu_dot *d, const struct tile_choice *x)
{
	double tiles = (double)(d->batch.size * x->rows.blocks *
				x->cols.blocks);
	double elems = (double)(d->batch.size * d->m.size) *
		       (double)d->n.size;
	double one = cu_tiles_cycles(d->k->c, d->unit, &x->tile,
				     tiles * (double)x->splits,
				     (double)x->per_split,
				     cu_dot_put_slots(d, &x->tile, x->splits > 1
						      || d->apart));

	return x->splits == 1 ? one
		: one + 6000 + 8 * elems * (double)x->splits /
			       ((double)d->k->c->units * 16);
}

static void
add_ways(const struct cu_dot *d, const struct tile_choice *x,
	 struct tile_choice *best)
{
	const struct plan_tile t = { .num = {
		[PLAN_TILE_M] = x->tile.m, [PLAN_TILE_N] = x->tile.n,
		[PLAN_TILE_K] = x->tile.k, [PLAN_TILE_SPLITS] = x->splits,
		[PLAN_TILE_WARPS] = x->tile.threads / 32
	} };
	int64_t stages = cu_candidates_add_stages(d->k->c->a, d->candidates, &t,
						  x->tile.stages, x->cycles);

	if (stages) {
		*best = *x;
		best->tile.stages = stages;
	}
}

static void
try_splits(const struct cu_dot *d, struct tile_choice *x,
	   struct tile_choice *best)
{
	int64_t elems = d->batch.size * d->m.size * d->n.size, n;

	for (n = 1; n <= MOST_SPLITS; n++) {
		x->per_split = cu_round_up(num_ceil_div(d->over.size, n),
					   x->tile.k);
		x->splits = (d->over.size + x->per_split - 1) / x->per_split;
		if (x->splits != n || (n > 1 && (d->apart ||
				       4 * elems * n > MOST_PARTS ||
				       x->per_split < 4 * x->tile.k))) {
			continue;
		}
		x->cycles = cost_of(d, x);
		add_ways(d, x, best);
	}
}

static struct tile_choice
choose_tile(const struct cu_dot *d)
{
	struct tile_choice best = { 0 }, x;
	uint32_t n, i;
	const struct cu_tile *t = cu_tiles(d, &n);

	cu_candidates_clear(d->candidates);
	for (i = 0; i < n; i++) {
		x.tile = t[i];
		if (blocks_of(d, &x)) {
			try_splits(d, &x, &best);
		}
	}
	return best;
}

void
cu_dot_plan(struct cu_dot *d)
{
	struct tile_choice x;

	if (d->result != CU_DOT_BOX) {
		cu_dims_flatten(&d->dims[1]);
		cu_dims_flatten(&d->dims[2]);
	} else {
		d->nest = cu_dot_nest_cost(d, false, true);
	}
	x = choose_tile(d);
	if (x.cycles == 0) {
		d->apart = true;
		cu_dims_flatten(&d->dims[1]);
		cu_dims_flatten(&d->dims[2]);
		x = choose_tile(d);
	}
	d->tile = x.tile;
	d->rows = x.rows;
	d->cols = x.cols;
	d->splits = x.splits;
	d->per_split = x.per_split;
	if (d->splits > 1 || d->apart) {
		d->parts = cg_reserve_shared(d->k->out, 256, 4 * d->splits *
					     d->batch.size * d->m.size *
					     d->n.size);
	}
}
