/*
 * What follows a tile's products, by warps of their own.
 *
 * Both warpgroups that multiply have one tile of a block, so while they ran its
 * epilogue nobody would multiply.  Here they round its sums to the type of the
 * contraction's result, store them in shared memory, row by row, and go on with
 * the next tile.  Three warps beside the one that copies run the epilogue
 * meanwhile: its loads, instructions and stores lie beside the products of the
 * next tile.  One tile is put away at a time, so who multiplies waits, before
 * it stores the next one's sums, until that is done.  A warpgroup more would
 * leave a thread 128 registers at launch, and ptxas compiles no product with
 * 256 columns for fewer than 154.
 *
 * How it is synchronized: each warp that multiplies arrives at `staged` when it
 * has stored its sums, and each of the three at `cleared` when it has read all
 * of them.  The number of a tile that was taken from the
 * counter lies beside the sums; after the last tile that is -1.
 *
 * Rows are 16 bytes longer than the tile's, so that the eight rows of an
 * stmatrix, and the vectors of a row, are in different banks.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

#define FIRST 32		/* of the threads that put away */
/* Registers of the warpgroup that copies and puts away, and of those that
 * multiply: 128 * (120 + 2 * 192) are those that a block has at launch. */
#define PUT_REGS 120
#define MULTIPLY_REGS 192
#define PAD 8			/* elements */
/* Bytes, after the barriers of the ring: of both barriers, and of a tile's
 * number; cuda_dot90_take.c has the others. */
#define STAGED_AT 304
#define CLEARED_AT 312
#define TILE_AT 320

static long long
row_elems(const struct dot90 *p)
{
	return (long long)p->cols + PAD;
}

int64_t
dot90_beside_bytes(const struct dot90 *p)
{
	return p->beside ? p->rows * row_elems(p) * 2 : 0;
}

static long long
sums_at(const struct dot90 *p)
{
	return (long long)(dot90_leaf_at(p) + dot90_team_bytes(p));
}

/* ---- which contractions ---- */

bool
dot90_beside_suits(struct dot90 *p)
{
	static const int64_t parts[] = { 256, 128, 64, 32, 16 };
	const struct cu_dot *d = p->d;
	size_t i;

	p->part = 0;
	p->beside = false;
	if (!p->asks_beside || p->has->tensor || p->has->promotes ||
	    p->teams > 1 || d->result != CU_DOT_BOX || p->whole == 0 ||
	    cu_elem_bytes(ir_type(d->k->c->m, d->value)->dtype) != 2) {
		return false;
	}
	for (i = 0; i < sizeof parts / sizeof parts[0] && !p->part; i++) {
		p->part = dot90_part_suits(d, dot90_width(p), parts[i])
			? parts[i] : 0;
	}
	p->beside = p->part > 0;
	return p->beside;
}

/* ---- registers, barriers ---- */

int
dot90_regs(const struct dot90 *p, bool copies)
{
	return copies ? p->beside ? PUT_REGS : 40
		      : p->beside ? MULTIPLY_REGS : 232;
}

void
dot90_beside_bars(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "mbar_init(full + %d, %lld);", STAGED_AT,
		(long long)(4 * p->groups));
	cu_line(f, "mbar_init(full + %d, %d);", CLEARED_AT, DOT90_BESIDE / 32);
}

/* C text: the number of the tile whose sums are stored. */
static const char *
number(struct cu_func *f, const struct dot90 *p)
{
	return arena_printf(f->k->c->a, "*(i32 *)(SMEM + %lld)",
			    (long long)dot90_bars_at(p) + TILE_AT);
}

/* ---- who multiplies ---- */

void
dot90_beside_open(struct cu_func *f)
{
	cu_comment(f, "The first tile does not wait: the phase before the "
		   "first one has ended.");
	cu_line(f, "int cleared = 1;");
}

/* A function that stores sums of 16 rows, as bits of 16. */
static void
put_function(struct cu_func *f, const struct dot90 *p)
{
	const char *type = cu_elem_type(
		ir_type(f->k->c->m, p->d->value)->dtype);
	struct cu_func g = { .k = f->k, .grid = f->grid, .depth = 1 };
	int i;

	buf_init(&g.text, f->k->c->a);
	cu_line(&g, "int j;");
	buf_puts(&g.text, "\n#pragma unroll\n");
	cu_line(&g, "for (j = 0; j < %lld; j++) {", (long long)p->cols / 16);
	cu_line(&g, "u32 r[4];");
	buf_puts(&g.text, "\n");
	for (i = 0; i < 4; i++) {
		cu_line(&g, "r[%d] = pack_%s(s[8 * j + %d], s[8 * j + %d]);",
			i, type, 2 * i, 2 * i + 1);
	}
	cu_line(&g, "stsm4(to + (u32)(32 * j), r);");
	cu_line(&g, "}");
	buf_printf(&f->k->text, "\n/* Sums of 16 rows, rounded. */\n"
		   "FN void\n%s(u32 to, const f32 *s)\n{\n%s}\n",
		   dot90_func(f, p, "stage"), buf_text(&g.text));
}

/* Arrives for the sums of `tile` (C text), or for none. */
static void
hand_over(struct cu_func *f, const struct dot90 *p, const char *tile)
{
	if (p->takes) {
		cu_line(f, "if (TID == 128) {");
		cu_line(f, "%s = %s;", number(f, p), tile);
		cu_line(f, "}");
	}
	cu_line(f, "sync_warp();");
	cu_line(f, "if (LANE == 0) {");
	cu_line(f, "mbar_arrive(full + %d);", STAGED_AT);
	cu_line(f, "}");
}

static void
put_sums(struct cu_func *f, const struct dot90 *p)
{
	int64_t i;

	put_function(f, p);
	cu_line(f, "mbar_wait(full + %d, cleared);", CLEARED_AT);
	cu_line(f, "cleared ^= 1;");
	cu_line(f, "const u32 to = ring + %lld + (u32)(%lld * group + TID / 32 "
		"%% 4 * %lld + LANE %% 16) * %lld + (u32)(LANE / 16) * 16;",
		sums_at(p), (long long)dot90_group_rows(p),
		(long long)p->has->warp_rows, 2 * row_elems(p));
	for (i = 0; i < dot90_units(p); i++) {
		cu_line(f, "%s(to + %lld, d + %lld);",
			dot90_func(f, p, "stage"),
			(long long)(i * p->has->unit_rows) * 2 * row_elems(p),
			(long long)(i * p->cols / 2));
	}
	hand_over(f, p, "tile");
}

void
dot90_beside_item(struct cu_func *f, const struct dot90 *p)
{
	if (p->splits > 1) {
		cu_line(f, "if (tile >= %lld) {",
			(long long)(p->whole / p->cluster));
		dot90_put_part(f, p, p, NULL);
		cu_line(f, "} else {");
	}
	put_sums(f, p);
	if (p->splits > 1) {
		cu_line(f, "}");
	}
}

void
dot90_beside_end(struct cu_func *f, const struct dot90 *p)
{
	if (p->takes) {
		cu_line(f, "mbar_wait(full + %d, cleared);", CLEARED_AT);
		hand_over(f, p, "-1");
	}
}

/* ---- who puts away ---- */

/* The epilogue on a part of a tile, whose sums are there. */
static bool
put_nest(struct cu_func *f, const struct dot90 *p, const struct cu_place *m)
{
	struct cu_nest nest = dot90_nest(f, p, &(struct dot90_sums){
		.at = "sums", .apart = dot90_width(p), .ld = row_elems(p),
		.own_type = true, .bytes = 16, .rows = &p->d->rows, .m = m });

	return cu_nest_box(f, &nest, DOT90_BESIDE,
			   arena_printf(f->k->c->a, "(TID - %d)", FIRST));
}

/* All parts of a tile. */
static bool
put_parts(struct cu_func *f, const struct dot90 *p)
{
	const char *type = cu_elem_type(
		ir_type(f->k->c->m, p->d->value)->dtype);
	long long parts = (long long)(dot90_width(p) / p->part);
	struct cu_place m, n;
	bool done;

	dot90_places(f, p, &m, &n);
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int i = 0; i < %lld; i++) {", parts);
	cu_line(f, "const int part = col * %lld + i;", parts);
	cu_line(f, "const %s *const sums = (const %s *)(SMEM + %lld) + i * "
		"%lld;", type, type, sums_at(p), (long long)p->part);
	if (p->d->n.size % dot90_width(p) != 0) {
		cu_line(f, "if (part * %lld >= %lld) {", (long long)p->part,
			(long long)p->d->n.size);
		cu_line(f, "break;");
		cu_line(f, "}");
	}
	done = put_nest(f, p, &m);
	cu_line(f, "}");
	dot90_used(f, &m, &n);
	return done;
}

/* Opens the loop over tiles, or over the only one. */
static void
open_tiles(struct cu_func *f, const struct dot90 *p)
{
	if (!p->takes) {
		dot90_open_tile(f, p, p->whole == p->items ? NULL
			: arena_printf(f->k->c->a, "%s < %lld",
				       dot90_first_tile(p),
				       (long long)(p->whole / p->cluster)));
		return;
	}
	cu_line(f, "for (int parity = 0;; parity ^= 1) {");
	cu_line(f, "mbar_wait(full + %d, parity);", STAGED_AT);
	cu_line(f, "const int tile = (int)shfl_u32((u32)%s, 0);", number(f, p));
	cu_line(f, "if (tile < 0) {");
	cu_line(f, "break;");
	cu_line(f, "}");
	dot90_tile_place(f, p);
}

bool
dot90_beside_put(struct cu_func *f, struct dot90 *p)
{
	bool done = true;
	uint32_t i;

	cu_line(f, "} else if (TID >= %d) {", FIRST);
	open_tiles(f, p);
	for (i = 0; done && i < dot90_nmembers(p); i++) {
		struct dot90 *q = dot90_member(p, i);

		dot90_open_member(f, p, i);
		if (q->beside && !p->takes) {
			cu_line(f, "mbar_wait(full + %d, 0);", STAGED_AT);
		}
		done = !q->beside || put_parts(f, q);
	}
	dot90_close_members(f, p);
	if (p->takes) {
		cu_line(f, "sync_warp();");
		cu_line(f, "if (LANE == 0) {");
		cu_line(f, "mbar_arrive(full + %d);", CLEARED_AT);
		cu_line(f, "}");
	}
	cu_line(f, "}");
	return done;
}
