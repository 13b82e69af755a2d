/*
 * How large the blocks of a contraction are, and where they are kept.
 * Nothing here depends on the number of workers, as sums would then have
 * another order: blocks are chosen to divide well among one to eight.
 */
#include "codegen/cpu/dot/cpu_dot.h"

/* Bytes of packed A, of packed B and of tiles, each; and of a worker.  They are
 * stated in codegen/scratch_bounds.c, too. */
#define SHARED ((int64_t)8 << 20)
#define OWN ((int64_t)960 << 10)	/* below 1 MiB: a worker's L2 */

#define MOST_ROUNDS 32	/* each is two step functions */

/* ---- blocks that are boxes ---- */

struct cg_split
dot_split_dims(const struct cg_dims *d, int64_t want, int64_t unit)
{
	struct cg_split s = cg_split_begin(d, want);

	s.step = (d->size[s.cut] + s.chunks - 1) / s.chunks;
	if (s.inner == 1) {
		s.step = dot_round_up(s.step, unit);
	}
	cg_split_end(d, &s);
	return s;
}

/* ---- scratch ---- */

/* Bytes of a block of A or B, and of a tile. */
static int64_t
block_bytes(const struct dot *d, int which)
{
	int64_t unit = which ? dot_nr(&d->unit) : (int64_t)d->unit.mr;

	return 4 * dot_panel_words_of(&d->unit, d->depth) *
	       dot_round_up(which ? d->cols.most : d->rows.most, unit);
}

/* Whether the operand is multiplied where it lies. */
static bool
is_in_place(const struct dot *d, int which)
{
	return which == 1 && (d->stream.rows > 0 || d->unit.panels);
}

/* Of an item's own block. */
static int64_t
own_bytes(const struct dot *d, int which)
{
	return d->own[which] && !is_in_place(d, which) ? block_bytes(d, which)
						       : 0;
}

static int64_t
tile_bytes(const struct dot *d)
{
	if (d->result != DOT_BOX) {
		return 0;
	}
	return dot_round_up(4 * dot_round_up(d->rows.most, d->unit.mr) *
		      dot_round_up(d->cols.most, d->unit.lanes), 64);
}

struct dot_pack
dot_packing(const struct dot *d, int which)
{
	return (struct dot_pack){
		.unit = &d->unit, .base = d->source[which].base,
		.dtype = (uint8_t)d->source[which].view.dtype,
		.rows = which ? &d->n : &d->m, .k = &d->over, .which = which,
		.panel_rows = which ? dot_nr(&d->unit) : (int64_t)d->unit.mr,
		.tiles = d->unit.kind == DOT_TILES && which == 0 &&
			 (d->stream.rows == 0 || d->unit.panels),
		.parts = which ? d->parts : 0,
	};
}

/*
 * Bytes of the list of lines that an item's next block is read from.  There is
 * none if items do not pack, if one item packs all at once, if elements are not
 * contiguous in either direction, or if they lie in panels, which are.
 */
static int64_t
list_bytes(const struct dot *d)
{
	struct dot_pack p = dot_packing(d, d->own[1]);

	if ((!d->own[0] && !d->own[1]) || is_in_place(d, 1) ||
	    p.parts > 0 ||
	    !(dot_factor_dense(p.k, p.which) ||
	      dot_factor_dense(p.rows, p.which)) ||
	    d->batch.size * d->rows.blocks * d->cols.blocks * d->ndepth == 1) {
		return 0;
	}
	return dot_list_bytes(&p, d->own[1] ? d->cols.most : d->rows.most,
			      d->depth);
}

/* All of B, packed. */
static int64_t
all_of_b(const struct dot *d)
{
	return d->batch.size * d->cols.blocks * d->ndepth * block_bytes(d, 1);
}

/* How many blocks of rows, and of k, one step packs. */
static void
choose_chunks(struct dot *d)
{
	int64_t rows = d->batch.size * d->rows.blocks, c = tile_bytes(d);
	int64_t fit = SHARED / block_bytes(d, 0); /* blocks of rows and of k */

	d->chunk_depth = d->ndepth;
	d->chunk_rows = rows;
	if (d->own[0] || fit >= rows * d->ndepth) {
		return;
	}
	d->chunk_rows = fit / d->ndepth;
	if (d->chunk_rows == 0) {
		d->chunk_rows = fit < 4 ? fit : 4;
		while (d->chunk_rows > 1 &&
		       d->chunk_rows * d->cols.blocks * c > SHARED) {
			d->chunk_rows--;
		}
		d->chunk_rows = d->chunk_rows < 1 ? 1 : d->chunk_rows;
		d->chunk_depth = fit / d->chunk_rows;
		d->chunk_depth = d->chunk_depth < 1 ? 1 : d->chunk_depth;
	}
}

/* How many pairs of steps pack rows and multiply them. */
static int64_t
rounds(const struct dot *d)
{
	int64_t rows = d->batch.size * d->rows.blocks;

	return (rows + d->chunk_rows - 1) / d->chunk_rows *
	       ((d->ndepth + d->chunk_depth - 1) / d->chunk_depth);
}

static bool
fits(const struct dot *d)
{
	const struct cg_dims *n = &d->dims[2];
	int64_t bytes = tile_bytes(d) + list_bytes(d);
	int i;

	if (d->whole_last && d->cols.cut == n->n - 1 && d->cols.chunks > 1) {
		return false;
	}
	for (i = 0; i < 2; i++) {
		bytes += own_bytes(d, i);
	}
	/* panels that several rows of tiles read stay in the same cache */
	if (d->unit.panels && d->rows.most > (int64_t)d->unit.mr) {
		bytes += block_bytes(d, 1);
	}
	/* with AMX each row of tiles reads all of a block of B again */
	if (d->unit.kind == DOT_TILES && d->stream.rows == 0 &&
	    block_bytes(d, 1) > OWN) {
		return false;
	}
	return bytes <= OWN && (d->own[1] || all_of_b(d) <= SHARED) &&
	       (d->own[0] || block_bytes(d, 0) <= SHARED) &&
	       rounds(d) <= MOST_ROUNDS;
}

static void
place_scratch(struct dot *d)
{
	int64_t a = block_bytes(d, 0), c = tile_bytes(d), list = list_bytes(d);

	d->tile_ld = dot_round_up(d->cols.most, d->unit.lanes);
	d->own_b = 0;
	d->own_c = dot_round_up(own_bytes(d, 1), 64);
	d->own_a = d->own_c + c;
	d->own_list = d->own_a + (d->own[0] ? dot_round_up(a, 64) : 0);
	d->out->own_bytes = d->own_list + list;
	d->own_list = list > 0 ? d->own_list : -1;
	d->shared_b = d->own[0] ? 0 : d->chunk_rows * d->chunk_depth * a;
	d->out->shared_bytes = d->shared_b + (d->own[1] ? 0 : all_of_b(d));
	d->shared_c = -1;
	if (d->chunk_depth < d->ndepth && c > 0) {
		d->shared_c = dot_round_up(d->out->shared_bytes, 64);
		d->out->shared_bytes = d->shared_c +
				       d->chunk_rows * d->cols.blocks * c;
	}
}

/* ---- what a choice costs ---- */

/*
 * Cycles, where the product of a vector counts as one; measured on Zen 5: for
 * packing a word, for reading one that another step packed, for beginning a
 * step.
 */
#define PACK 1.4
#define FAR 0.15
#define PANEL 0.5	/* for reading one from a panel in memory */
#define STEP 3000
#define PUT 0.075	/* for a float of the result, in each stretch of k */

/*
 * The same for AMX, not measured: a product of tiles takes 16 cycles, of which
 * rate half is assumed; then the 10 bytes that a core gets from the third-level
 * cache in a cycle limit it.
 */
#define TILE_WORDS 128
#define TILE_FAR 0.4
#define TILE_PUT 0.3

static double
item_cycles(const struct dot *d)
{
	double m = (double)dot_round_up(d->rows.most, d->unit.mr);
	double n = (double)dot_round_up(d->cols.most, d->unit.lanes);
	double k = (double)d->over.size / d->unit.per_word;
	bool tiles = d->unit.kind == DOT_TILES;
	double far = tiles ? TILE_FAR : FAR, put = tiles ? TILE_PUT : PUT;
	double pack = d->unit.panels ? PANEL : PACK;
	/* a vector that a tile widens it multiplies with `mr` numbers */
	double widen = d->unit.panels && d->unit.parts > 1 ? 1. / d->unit.mr
							   : 0;

	return (1 + widen) * m * n * k /
		       (tiles ? TILE_WORDS : d->unit.lanes) +
	       (d->own[1] ? pack : far) * n * k +
	       (d->own[0] ? PACK : far) * m * k +
	       (double)d->ndepth * (put * m * n + 600);
}

/* Summed over one to eight workers; some are idle at the end. */
static double
all_cycles(const struct dot *d)
{
	int64_t items = d->batch.size * d->rows.blocks * d->cols.blocks;
	double one = item_cycles(d), sum = 0, before = 0;
	double words = PACK * (double)d->batch.size * (double)d->over.size /
		       d->unit.per_word;
	int64_t w;

	before += d->own[0] ? 0 : words * (double)d->m.size;
	before += d->own[1] ? 0 : words * (double)d->n.size;
	for (w = 1; w <= 8; w *= 2) {
		double steps = (d->own[0] ? 0 : rounds(d)) + !d->own[1];

		sum += ((double)((items + w - 1) / w * w) + 0.05 * (double)w) *
		       one + before + (double)w * STEP * steps;
	}
	return sum;
}

/* Keeps the current plan if it is the best one so far. */
static void
try_plan(struct dot *d, struct dot *best, double *least)
{
	double cycles;

	choose_chunks(d);
	if (!fits(d)) {
		return;
	}
	cycles = all_cycles(d);
	if (*least == 0 || cycles < *least) {
		*least = cycles;
		*best = *d;
	}
}

/* Tries who packs which operand, for the current blocks. */
static void
try_packing(struct dot *d, struct dot *best, double *least)
{
	static const bool own[][2] = {
		{ false, true }, { true, true }, { true, false },
		{ false, false }
	};
	uint32_t n = sizeof own / sizeof own[0], i;

	/* packing both before pays with AMX alone, whose products are fast */
	n -= d->unit.kind != DOT_TILES;
	n = d->unit.panels ? 2 : n;
	for (i = 0; i < n; i++) {
		d->own[0] = own[i][0];
		d->own[1] = own[i][1];
		try_plan(d, best, least);
	}
}

/* What the best choice costs; 0: none fits. */
static double
choose_blocks(struct dot *d)
{
	static const int64_t tall[] = { 1, 2, 4, 8, 16, 24, 32, 48, 64, 96,
					128, 192, 256 };
	int64_t nr = dot_nr(&d->unit), i, j;
	int64_t last = d->dims[2].size[d->dims[2].n - 1];
	struct dot best;
	double least = 0;

	for (i = 0; i < (int64_t)(sizeof tall / sizeof tall[0]); i++) {
		d->rows = dot_split_dims(&d->dims[1], 8 * tall[i], d->unit.mr);
		for (j = 0; j <= 16; j++) {
			d->cols = dot_split_dims(&d->dims[2], j ? j * nr : last,
					    nr);
			try_packing(d, &best, &least);
		}
	}
	if (least > 0) {
		*d = best;
	}
	return least;
}

/*
 * Few rows: they are packed before, and every item reads columns in place, so
 * many that 32 workers have equal shares.
 */
static bool
choose_stream(struct dot *d)
{
	int64_t last = d->dims[2].size[d->dims[2].n - 1], each, want;
	struct dot before = *d;

	if (!dot_stream_find(d, &d->stream)) {
		return false;
	}
	d->unit.mr = d->stream.rows;
	d->own[0] = false;
	d->own[1] = true;
	each = (int64_t)d->stream.nv * d->unit.lanes;
	want = dot_round_up((d->n.size + 63) / 64, each);
	want = want > 256 ? 256 : want;
	d->rows = dot_split_dims(&d->dims[1], d->m.size, 1);
	d->cols = dot_split_dims(&d->dims[2],
				 d->whole_last && want < last ? last : want,
				 each);
	choose_chunks(d);
	if (fits(d) && d->chunk_depth == d->ndepth &&
	    d->chunk_rows == d->batch.size && d->rows.blocks == 1) {
		return true;
	}
	*d = before;
	d->stream.rows = 0;
	return false;
}

/* If no box has to be described, a factor is one dim. */
static void
flatten(struct cg_dims *d)
{
	while (d->n > 1) {
		d->n--;
		d->size[d->n - 1] *= d->size[d->n];
	}
}

/*
 * Many rows.  Panels that are widened are so by each row of tiles, or once, by
 * packing them: those of 8 bits always, as that takes more instructions.
 */
static bool
choose_tiles(struct dot *d)
{
	bool widens = d->unit.panels && d->unit.parts > 1;
	bool is_narrow = widens && d->source[1].base == LL_I8;
	struct dot packed = *d;
	double least = is_narrow ? 0 : choose_blocks(d), other;

	if (!widens) {
		return least > 0;
	}
	packed.parts = d->unit.parts;
	dot_set_panels(&packed.unit, false, d->source[1].base);
	other = choose_blocks(&packed);
	if (other > 0 && (least == 0 || other < least)) {
		*d = packed;
		least = other;
	}
	return least > 0;
}

bool
dot_plan(struct dot *d)
{
	int64_t per_block = d->unit.scaled ? IR_GROUP
					   : 512 * (int64_t)d->unit.per_word;
	int64_t whole = (int64_t)d->unit.words * d->unit.per_word;

	if (d->batch.size == 0 || d->m.size == 0 || d->n.size == 0 ||
	    d->over.size == 0) {
		return false;
	}
	if (d->result != DOT_BOX) {
		flatten(&d->dims[1]);
		flatten(&d->dims[2]);
	}
	d->ndepth = (d->over.size + per_block - 1) / per_block;
	d->depth =
		dot_round_up((d->over.size + d->ndepth - 1) / d->ndepth, whole);
	d->ndepth = (d->over.size + d->depth - 1) / d->depth;
	if (!choose_stream(d) && !choose_tiles(d)) {
		return false;
	}
	place_scratch(d);
	return d->out->own_bytes <= (int64_t)1 << 20;
}
