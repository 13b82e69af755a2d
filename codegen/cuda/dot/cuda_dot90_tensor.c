/*
 * Contractions whose sums lie in tensor memory (tcgen05, sm_100a).
 *
 * One thread issues all products of a block, of 128 rows each.  Two tiles have
 * sums at a time, so a team stores those of one while the products of the next
 * are made; team t has the tiles of every second turn.  A team loads some
 * columns of its sums at a time to registers, where they lie as wgmma leaves
 * them, and does with these what a team of sm_90a does with a tile so wide.
 *
 * How it is synchronized: a commit of the thread that multiplies arrives at a
 * stage's `empty` barrier when all products that read it are done, in both
 * blocks of a cluster; and at `made` when a tile's sums are complete.  The four
 * warps of a team arrive at `drained` when they have put the tile away.  Which
 * tile is next is passed on as cuda_dot90_take.c says.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

#define COLS_AT_ONCE 64

int64_t
dot90_tensor_cols(const struct dot90 *p)
{
	int64_t n = COLS_AT_ONCE / dot90_each(p);

	n = dot90_width(p) < n ? dot90_width(p) : n;
	return p->part > n ? p->part : n;
}

/* Both tiles' columns: a power of two, as tc_alloc requires. */
static long long
all_columns(const struct dot90 *p)
{
	return 2 * (long long)p->cols;
}

/* ---- barriers, and the allocation ---- */

void
dot90_tensor_bars(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "for (int i = 0; i < 2; i++) {");
	cu_line(f, "mbar_init(full + %lld + 8 * i, 1);",
		(long long)(16 * p->ring));
	cu_line(f, "mbar_init(full + %lld + 8 * i, 4);",
		(long long)(16 * p->ring + 16));
	cu_line(f, "}");
}

void
dot90_tensor_open(struct cu_func *f, const struct dot90 *p)
{
	long long bars = (long long)(16 * p->ring);

	cu_line(f, "const u32 made = full + %lld%s;", bars,
		p->takes ? ", drained = made + 16" : "");
	cu_line(f, "if (WARP == 1) {");
	cu_line(f, "tc_alloc(made + 32, %lld);", all_columns(p));
	cu_line(f, "tc_relinquish();");
	cu_line(f, "}");
	cu_line(f, "tc_fence_before();");
	cu_line(f, p->cluster > 1 ? "cluster_sync();" : "sync_block();");
	cu_line(f, "tc_fence_after();");
	cu_line(f, "const u32 sums = *(const u32 *)(SMEM + %lld);",
		(long long)dot90_bars_at(p) + bars + 32);
}

void
dot90_tensor_close(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "tc_fence_before();");
	if (p->cluster > 1) {
		cu_comment(f, "The other block may still copy to this one, "
			   "and arrive here.");
		cu_line(f, "cluster_sync();");
	} else {
		cu_line(f, "sync_block();");
	}
	cu_line(f, "if (WARP == 1) {");
	cu_line(f, "tc_fence_after();");
	cu_line(f, "tc_dealloc(sums, %lld);", all_columns(p));
	cu_line(f, "}");
}

/* ---- the thread that multiplies ---- */

/* That of the first stage overwrites the sums. */
static struct cu_products
products_of(const struct dot90 *p)
{
	const struct dot90_side *s = p->side;

	return (struct cu_products){
		.unit = p->d->unit, .by_k = { s[0].by_k, s[1].by_k },
		.cols = p->cols, .stage_bytes = dot90_stage_bytes(p),
		.left_bytes = s[0].bytes, .stage = "stage", .sums = "d",
		.add = "q > 0"
	};
}

/* Opens what is done for a tile, of one or of all in turn; its sums lie at
 * place `which`, which has been drained. */
static void
open_turns(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "int stage = 0, parity = 0;");
	if (p->takes) {
		cu_line(f, "int turn = 0;");
		dot90_open_passing(f, p);
		return;
	}
	dot90_open_tile(f, p, NULL);
	cu_line(f, "const int which = 0;");
}

void
dot90_tensor_multiply(struct cu_func *f, const struct dot90 *p)
{
	const struct cu_products x = products_of(p);

	cu_line(f, "if (warp == 1 && elect_one()) {");
	cu_line(f, "const u32 form = %s;", cu_tensor_form(f->k->c->a, &x));
	open_turns(f, p);
	cu_line(f, "const int steps = %s;", dot90_steps_text(f, p, "tile"));
	cu_line(f, "const u32 d = sums + %lld * which;", (long long)p->cols);
	/* few stages would be unrolled, and spill: a copying warpgroup has 40
	 * registers a thread */
	cu_line(f, "ROLLED");
	cu_line(f, "for (int q = 0; q < steps; q++) {");
	cu_line(f, "mbar_wait(full + 8 * stage, parity);");
	cu_line(f, "tc_fence_after();");
	if (p->takes) {
		dot90_number_read(f, p);
	}
	cu_tensor_products(f, &x);
	cu_line(f, p->cluster > 1 ? "tc_commit_multi(empty + 8 * stage, 3);"
		: "tc_commit(empty + 8 * stage);");
	dot90_next_stage(f, p);
	cu_line(f, "}");
	cu_line(f, "tc_commit(made + 8 * which);");
	cu_line(f, "(void)row, (void)col, (void)batch;");
	cu_close(f, 2);
}

/* ---- teams ---- */

/* The same tiles, in blocks of as many columns as are loaded at a time. */
static struct dot90
part_of(const struct dot90 *p)
{
	struct dot90 q = *p;

	q.cols = dot90_tensor_cols(p) * dot90_each(p);
	q.col_blocks = num_ceil_div(p->d->n.size, dot90_width(&q));
	return q;
}

static void
put_loads(struct cu_func *f, const struct dot90 *p, const struct dot90 *q)
{
	int64_t width = dot90_width(q), each, i, j, k;

	each = width < COLS_AT_ONCE ? DOT90_TENSOR_COLS : COLS_AT_ONCE;
	cu_line(f, "f32 d[%lld];", (long long)(dot90_units(q) * q->cols / 2));
	for (i = 0; i < dot90_units(q) * dot90_each(q); i++) {
		for (j = 0; j < width; j += each) {
			k = i / dot90_each(q) * q->has->unit_rows << 16;
			k += i % dot90_each(q) * dot90_width(p) + j;
			cu_line(f, "tc_ld%lld(d + %lld, from + %lld * sub + "
				"%lld);", (long long)each,
				(long long)(dot90_piece_at(q, i) + j / 2),
				(long long)width, (long long)k);
		}
	}
	cu_line(f, "tc_wait(d, %lld);",
		(long long)(dot90_units(q) * q->cols / 2));
}

/* All sums of a tile, some columns at a time. */
static bool
put_columns(struct cu_func *f, const struct dot90 *p)
{
	struct dot90 q = part_of(p);
	long long subs = (long long)(p->cols / q.cols);
	struct cu_place m, n;
	bool done;

	cu_line(f, "col *= %lld;", subs);
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int sub = 0; sub < %lld; sub++, col++) {", subs);
	dot90_places(f, &q, &m, &n);
	if (p->d->n.size % dot90_width(p) != 0) {
		cu_line(f, "if (n0 >= %lld) {", (long long)p->d->n.size);
		cu_line(f, "break;");
		cu_line(f, "}");
	}
	put_loads(f, p, &q);
	done = dot90_put_item(f, p, &q, &m, "sub");
	dot90_used(f, &m, &n);
	cu_line(f, "}");
	return done;
}

bool
dot90_tensor_team(struct cu_func *f, struct dot90 *p)
{
	bool done = true;
	uint32_t i;

	cu_line(f, "regs_more(232);");
	cu_line(f, "const int team = TID / 128 - 1, group = 0;");
	cu_comment(f, "The first column of the lanes that this warp reads.");
	cu_line(f, "const u32 from = sums + %lld * team + ((u32)WARP %% 4 << "
		"21);", (long long)p->cols);
	cu_line(f, "int parity = 0;");
	dot90_sums_at(f, p);
	if (p->takes) {
		dot90_open_passed(f, p);
	} else {
		dot90_open_tile(f, p, "team == 0");
	}
	cu_line(f, "mbar_wait(made + 8 * team, parity);");
	cu_line(f, "tc_fence_after();");
	cu_line(f, "parity ^= 1;");
	for (i = 0; done && i < dot90_nmembers(p); i++) {
		dot90_open_member(f, p, i);
		done = put_columns(f, dot90_member(p, i));
	}
	dot90_close_members(f, p);
	if (p->takes) {
		cu_line(f, "tc_fence_before();");
		cu_line(f, "sync_warp();");
		cu_line(f, "if (LANE == 0) {");
		cu_line(f, "mbar_arrive(drained + 8 * team);");
		cu_line(f, "}");
	}
	cu_line(f, "}");
	if (dot90_any_box(p)) {
		dot90_store_end(f);
	}
	cu_line(f, "(void)group, (void)r0, (void)lc;");
	return done;
}
