/*
 * How large the blocks of a contraction are, and where they are kept.
 * Nothing here may depend on the number of workers: sums would come out in
 * another order.  So blocks are chosen to divide well among one to eight.
 */
#include "codegen/cpu/dot.h"

#define ROOM ((int64_t)8 << 20)	/* bytes of A packed at a time; of tiles */
#define OWN ((int64_t)960 << 10)	/* below 1 MiB: a worker's L2 */

#define MOST_ROUNDS 32	/* each is two functions of its own */

/* ---- blocks that are boxes ---- */

struct cg_split
dot_split(const struct cg_dims *d, int64_t want, int64_t unit)
{
	struct cg_split s = cg_split_begin(d, want);

	s.step = (d->size[s.cut] + s.chunks - 1) / s.chunks;
	if (s.inner == 1) {
		s.step = dot_up(s.step, unit);
	}
	cg_split_end(d, &s);
	return s;
}

/* ---- what a choice costs ---- */

/*
 * Cycles of an item, roughly: a multiplication a vector, and what packing B,
 * reading A from far and adding to tiles take; measured on Zen 4.
 */
static double
item_cycles(const struct dot *d, const struct cg_split *rows,
	    const struct cg_split *cols)
{
	double m = (double)dot_up(rows->most, d->unit.mr);
	double n = (double)dot_up(cols->most, d->unit.lanes);
	double k = (double)d->over.size / d->unit.per_word;

	if (d->unit.kind == DOT_TILES) {
		m /= 8;		/* 16 rows at once */
	}
	return m * n * k / d->unit.lanes + 0.6 * n * k +
	       (d->pack_own ? 0.6 : 0.2) * m * k +
	       (double)d->ndepth * (0.3 * m * n / 4 + 600);
}

/* Of one to eight workers, each of whom is idle at the end for a while. */
static double
all_cycles(const struct dot *d, const struct cg_split *rows,
	   const struct cg_split *cols)
{
	int64_t items = d->batch.size * rows->blocks * cols->blocks;
	double one = item_cycles(d, rows, cols), sum = 0;
	int64_t w;

	for (w = 1; w <= 8; w *= 2) {
		sum += ((double)((items + w - 1) / w * w) + 0.05 * (double)w) *
		       one;
	}
	return sum;
}

/* Bytes of a block of A, of one of B, and of a tile. */
static int64_t
a_bytes(const struct dot *d, const struct cg_split *rows)
{
	return 4 * dot_words_of(&d->unit, d->depth) *
	       dot_up(rows->most, d->unit.mr);
}

static int64_t
b_bytes(const struct dot *d, const struct cg_split *cols)
{
	return 4 * dot_words_of(&d->unit, d->depth) *
	       dot_up(cols->most, dot_nr(&d->unit));
}

static int64_t
tile_bytes(const struct dot *d, const struct cg_split *rows,
	   const struct cg_split *cols)
{
	if (d->result != DOT_BOX) {
		return 0;
	}
	return 4 * dot_up(rows->most, d->unit.mr) *
	       dot_up(cols->most, d->unit.lanes);
}

static bool
fits(const struct dot *d, const struct cg_split *rows,
     const struct cg_split *cols)
{
	const struct cg_dims *n = &d->dims[2];

	if (d->whole_last && cols->cut == n->n - 1 && cols->chunks > 1) {
		return false;
	}
	return b_bytes(d, cols) + tile_bytes(d, rows, cols) +
	       (d->pack_own ? a_bytes(d, rows) : 0) <= OWN;
}

static bool
choose_blocks(struct dot *d)
{
	static const int64_t tall[] = { 1, 2, 4, 8, 16, 24, 32, 48, 64 };
	int64_t last = d->dims[2].size[d->dims[2].n - 1], i, j;
	double best = 0;

	for (i = 0; i < (int64_t)(sizeof tall / sizeof tall[0]); i++) {
		struct cg_split rows = dot_split(&d->dims[1], 8 * tall[i],
					      d->unit.mr);

		for (j = 0; j <= 8; j++) {
			int64_t want = j ? j * dot_nr(&d->unit) : last;
			struct cg_split cols = dot_split(&d->dims[2], want,
						      dot_nr(&d->unit));
			double cycles;

			if (!fits(d, &rows, &cols)) {
				continue;
			}
			cycles = all_cycles(d, &rows, &cols);
			if (best == 0 || cycles < best) {
				best = cycles;
				d->rows = rows;
				d->cols = cols;
			}
		}
	}
	return best > 0;
}

/* ---- rooms ---- */

/* Without boxes to care for a factor is one dim. */
static void
flatten(struct cg_dims *d)
{
	while (d->n > 1) {
		d->n--;
		d->size[d->n - 1] *= d->size[d->n];
	}
}

/* How many blocks of rows, and of k, are packed at a time. */
static void
choose_chunks(struct dot *d, int64_t a, int64_t c)
{
	int64_t rows = d->batch.size * d->rows.blocks;
	int64_t fit = ROOM / a;	/* blocks of rows and of k */

	d->shared_c = -1;
	d->chunk_depth = d->ndepth;
	d->chunk_rows = fit / d->ndepth;
	if (d->chunk_rows == 0) {
		d->chunk_rows = fit < 4 ? fit : 4;
		while (d->chunk_rows > 1 &&
		       d->chunk_rows * d->cols.blocks * c > ROOM) {
			d->chunk_rows--;
		}
		d->chunk_rows = d->chunk_rows < 1 ? 1 : d->chunk_rows;
		d->chunk_depth = fit / d->chunk_rows;
		d->chunk_depth = d->chunk_depth < 1 ? 1 : d->chunk_depth;
	}
	if (d->chunk_rows > rows) {
		d->chunk_rows = rows;
	}
	if (d->chunk_depth < d->ndepth && c > 0) {
		d->shared_c = d->chunk_rows * d->chunk_depth * a;
	}
}

static void
choose_rooms(struct dot *d)
{
	int64_t a = a_bytes(d, &d->rows);
	int64_t c = dot_up(tile_bytes(d, &d->rows, &d->cols), 64);

	d->tile_ld = dot_up(d->cols.most, d->unit.lanes);
	d->own_b = 0;
	d->own_c = dot_up(b_bytes(d, &d->cols), 64);
	d->own_a = d->own_c + c;
	d->out->own_bytes = d->own_a;
	d->out->shared_bytes = 0;
	if (d->pack_own) {
		d->out->own_bytes += a;
		d->shared_c = -1;
		d->chunk_depth = d->ndepth;
		d->chunk_rows = d->batch.size * d->rows.blocks;
		return;
	}
	choose_chunks(d, a, c);
	d->out->shared_bytes = d->chunk_rows * d->chunk_depth * a;
	if (d->shared_c >= 0) {
		d->out->shared_bytes += d->chunk_rows * d->cols.blocks * c;
	}
}

/* How often rows are packed and multiplied. */
static int64_t
rounds(const struct dot *d)
{
	int64_t rows = d->batch.size * d->rows.blocks;

	return (rows + d->chunk_rows - 1) / d->chunk_rows *
	       ((d->ndepth + d->chunk_depth - 1) / d->chunk_depth);
}

bool
dot_plan(struct dot *d)
{
	int64_t per_block = 512 * (int64_t)d->unit.per_word;
	int64_t whole = (int64_t)d->unit.words * d->unit.per_word;
	double rows, flops;

	if (d->batch.size == 0 || d->m.size == 0 || d->n.size == 0 ||
	    d->over.size == 0) {
		return false;
	}
	if (d->result != DOT_BOX) {
		flatten(&d->dims[1]);
		flatten(&d->dims[2]);
	}
	d->ndepth = (d->over.size + per_block - 1) / per_block;
	d->depth = dot_up((d->over.size + d->ndepth - 1) / d->ndepth, whole);
	d->ndepth = (d->over.size + d->depth - 1) / d->depth;
	/* a step takes some microseconds to begin, packing little of that */
	rows = (double)d->batch.size * (double)d->m.size;
	flops = rows * (double)d->n.size * (double)d->over.size;
	d->pack_own = flops < 1 << 20;
	if (!choose_blocks(d)) {
		return false;
	}
	if (d->rows.blocks * d->cols.blocks * d->batch.size == 1 &&
	    !d->pack_own) {
		d->pack_own = true;
		d->pack_own = fits(d, &d->rows, &d->cols);
	}
	choose_rooms(d);
	if (rounds(d) > MOST_ROUNDS) {
		d->pack_own = true;
		if (!choose_blocks(d)) {
			return false;
		}
		choose_rooms(d);
	}
	return d->out->own_bytes <= (int64_t)1 << 20;
}
