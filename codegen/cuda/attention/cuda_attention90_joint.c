/*
 * All three gradients of attention in one kernel, with wgmma (sm_90a): five
 * products, where a kernel for DQ and one for DK and DV make seven.  A block
 * has 128 keys, as cuda_attention90_back.c has them for DK and DV; of each tile
 * of 64 queries it makes the part of DQ that is due to its keys:
 *
 *	DQ += dS^T K
 *
 * dS is in registers of the warpgroup that has its keys, and the product sums
 * over the keys of both, so dS passes through shared memory, where there is
 * space for that of two tiles: one barrier of the two warpgroups is enough.
 * Each makes half of the columns.
 *
 * Parts are added to f32 sums in global memory, always in the same order, so
 * that the same bits come out in every run: of a tile the block with the last
 * keys that see it is first.  A number for each tile says how many blocks have
 * added, and one thread waits until it is its block's turn.  With a causal mask
 * a block begins at its diagonal, where it is first, and meets a tile after
 * the block behind it was there: blocks that begin together rarely wait.
 *
 * From the number that is read to the one that says that all of a part has
 * arrived, a turn takes longer than a tile's products.  So there are two parts
 * in shared memory, and a thread for each: the turns of two tiles overlap, and
 * a thread has waited for its turn when the part is made.
 *
 * CUDA promises no order in which blocks begin.  So a block takes its number
 * from a counter when it begins, and only waits for blocks of smaller numbers,
 * all of which have begun; the least of those that are not done waits for
 * none.
 *
 * The sums are in the order in which a warpgroup has them: a thread's 16 bytes
 * after those of the thread before.  cuda_attention90_joint_steps.c has the
 * steps before and after, one of which scales and stores them.
 */
#include "codegen/cuda/attention/cuda_attention90_back.h"

/* Bytes, after the barriers of the ring: of the block's number; then, of each
 * part, two barriers. */
#define NUMBER_AT 64
#define MADE_AT (NUMBER_AT + 16)

/* ---- blocks, numbered as they begin ---- */

void
ca90_joint_declare(struct ca90_back *p)
{
	cu_line(&p->s.f, "const u32 made = bars + %d, taken = made + %d;",
		MADE_AT, 8 * CA90_JOINT_PARTS);
}

void
ca90_joint_bars(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "for (int i = 0; i < %d; i++) {", CA90_JOINT_PARTS);
	cu_line(f, "mbar_init(made + 8 * i, %d);", CA90_CONSUMERS / 32);
	cu_line(f, "mbar_init(taken + 8 * i, 1);");
	cu_line(f, "}");
}

/* The blocks of a cluster have numbers that follow each other. */
void
ca90_joint_open(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;
	long long at = p->bars + NUMBER_AT, apart = p->s.apart;

	cu_line(f, "if (TID == 0%s) {", apart > 1 ? " && cluster_rank() == 0"
		: "");
	cu_line(f, "u32x4 number = { 0, 0, 0, 0 };");
	cu_line(f, "number.x = (u32)atomic_add_i32((i32 *)(a.shared + %lld), "
		"1);", (long long)p->ticket);
	cu_line(f, "sts16(SMEM + %lld, number);", at);
	cu_line(f, "}");
	if (apart > 1) {
		cu_line(f, "cluster_sync();");
		cu_line(f, "const int block = (int)lds16_at(map_cta(sm + %lld, "
			"0)).x * %lld + cluster_rank();", at, apart);
	} else {
		cu_line(f, "sync_block();");
		cu_line(f, "const int block = *(const int *)(SMEM + %lld);",
			at);
	}
}

/*
 * How many kv heads of a launch are made together: a part of them, so that
 * their queries, the gradients of results, and the sums of DQ stay in the L2
 * cache, which the blocks of all keys read, and add to.
 */
static long long
section_of(const struct ca90_back *p)
{
	const struct attn *t = p->s.t;
	int64_t query = 2 * (t->d + t->dv) +
			(p->paired ? 6 : 4) * p->s.out_slope;
	int64_t bytes = t->shared * t->queries * query;
	int64_t n = p->how.pairs;

	while (n > 1 && (p->how.pairs % n || n * bytes >
					     ca90_cached_bytes(t))) {
		n--;
	}
	return n;
}

/* Declares where a block's rows are: the n-th keys (C text). */
static void
declare_rows(struct ca90_back *p, const char *n)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "const int row0 = %s * %lld;", n, (long long)p->s.rows);
	cu_line(f, "const int live = ca_min(%lld, %lld - row0);",
		(long long)p->s.rows, (long long)p->s.t->keys);
}

/*
 * Where the block is.  Later keys have smaller numbers within a section, and so
 * have pairs of keys that are further apart; `pair` is a kv head of a sequence,
 * of those of this launch.
 */
void
ca90_joint_place(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;
	const struct attn *t = p->s.t;
	long long apart = p->s.apart, wide = section_of(p);
	long long last = (long long)p->s.blocks - 1;
	long long blocks = p->paired ? last / 2 + 1 : last + 1;

	f->grid->blocks[0] = blocks * p->how.pairs * p->s.apart;
	cu_line(f, "const int section = block / %lld, in = block / %lld %% "
		"%lld;", apart * wide * blocks, apart, wide * blocks);
	cu_line(f, "const int pair = section * %lld + in %% %lld;", wide, wide);
	cu_line(f, "const int kv = (pair + %lld) %% %lld;",
		(long long)p->first, (long long)t->kv);
	cu_line(f, "const int bat = (pair + %lld) / %lld;",
		(long long)p->first, (long long)t->kv);
	cu_line(f, "const int early = in / %lld, late = %lld - early;", wide,
		last);
	if (!p->paired) {
		declare_rows(p, "late");
	}
	cu_line(f, "(void)bat;");
}

void
ca90_joint_open_half(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	if (!p->paired) {
		return;
	}
	cu_line(f, "int it = 0;");
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int half = 0; half < (early < late ? 2 : 1); "
		"half++) {");
	declare_rows(p, "(half ? early : late)");
	ca_back_columns(&p->s);
}

void
ca90_joint_close_half(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	if (!p->paired) {
		return;
	}
	cu_comment(f, "results are stored, and keys may take their place");
	cu_line(f, "if (half == 0 && early < late) {");
	/* lanes must converge before the barrier: one of a warp has added */
	cu_line(f, "sync_warp();");
	cu_line(f, "fence_async();");
	cu_line(f, "sync_named(2, %d);", CA90_PRODUCER + CA90_CONSUMERS);
	cu_close(f, 2);
}

/* ---- the threads that add ---- */

/* Declares how many blocks come before this one at a tile. */
static void
declare_before(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;
	long long rows = p->s.rows, cols = p->s.form.cols;

	if (p->s.t->causal) {
		cu_comment(f, p->paired ? "blocks of later keys that the tile "
			   "sees; in half 1, of earlier ones"
			   : "blocks of later keys that the tile sees");
		cu_line(f, "const int before = %s(tile * %lld + %lld) / %lld - "
			"row0 / %lld;", p->paired ? "half ? early : " : "",
			cols, cols - 1, rows, rows);
	} else {
		cu_line(f, "const int before = %lld - row0 / %lld;",
			(long long)p->s.blocks - 1, rows);
	}
}

/* Declares the sum that a block adds to, `nth`, in `tile` of a head. */
static void
declare_sum(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;
	const char *it = ca90_back_it(p);
	long long tiles = (long long)ca90_joint_tiles(p);
	long long heads = (long long)(p->how.pairs * p->s.t->shared);

	cu_line(f, "const int tile = begin / %lld + %s;",
		(long long)p->s.form.cols, ca_back_nth_tile(&p->s, it));
	cu_line(f, "const int of = (pair - kv) * %lld + head0 + %s;",
		(long long)p->s.t->shared, ca_back_nth_head(&p->s, it));
	if (p->paired) {
		cu_comment(f, "sums of late keys lie after all others");
		cu_line(f, "const int nth = half ? of * %lld + tile : %lld + "
			"of * %lld + tile;", tiles, heads * tiles -
			(long long)p->late, (long long)ca90_joint_again(p));
	} else {
		cu_line(f, "const int nth = of * %lld + tile;", tiles);
	}
}

/* Opens a loop over the iterations whose parts of DQ pass through nth_part. */
static void
open_parts(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;
	int parts = CA90_JOINT_PARTS;

	buf_puts(&f->text, "#pragma unroll 1\n");
	if (p->paired) {
		cu_line(f, "for (int in_half = (nth_part + it) %% %d; in_half "
			"< count; in_half += %d) {", parts, parts);
	} else {
		cu_line(f, "for (int it = nth_part; it < count; it += %d) {",
			parts);
	}
}

void
ca90_joint_add(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;
	long long bytes = 4 * ca90_joint_elems(p);

	cu_line(f, "if (LANE == 0) {");
	cu_line(f, "const int nth_part = WARP - %d;", CA90_BRINGERS / 32);
	cu_line(f, "const u32 part = sm + %lld + %lld * nth_part;",
		(long long)p->part, bytes);
	open_parts(p);
	declare_sum(p);
	cu_line(f, "i32 *done = (i32 *)(a.shared + %lld) + nth;",
		(long long)p->counts);
	cu_line(f, "f32 *sum = (f32 *)(a.shared + %lld) + (i64)nth * %lld;",
		(long long)p->sums, (long long)ca90_joint_elems(p));
	declare_before(p);
	cu_line(f, "count_wait(done, before);");
	cu_line(f, "mbar_wait(made + 8 * nth_part, %s / %d & 1);",
		p->paired ? "(it + in_half)" : "it", CA90_JOINT_PARTS);
	cu_line(f, "if (before > 0) {");
	cu_line(f, "bulk_add(sum, part, %lld);", bytes);
	cu_line(f, "} else {");
	cu_line(f, "bulk_put(sum, part, %lld);", bytes);
	cu_line(f, "}");
	cu_line(f, "tma_commit();");
	cu_line(f, "tma_wait_read(0);");
	cu_line(f, "mbar_arrive(taken + 8 * nth_part);");
	cu_comment(f, "the next block's sum begins with all of this one");
	cu_line(f, "tma_wait(0);");
	cu_line(f, "count_next(done);");
	cu_line(f, "}");
	if (p->paired) {
		cu_line(f, "it += count;");
	}
	cu_line(f, "}");
}

/* ---- a warpgroup with rows ---- */

void
ca90_joint_keys(struct ca90_back *p)
{
	int box = CA90_ROWS * CA90_BOX_ROW;

	cu_line(&p->s.f, "const u64 keys = wg_desc(sm + %lld + %d * group, %d, "
		"1024, 128);", (long long)p->x[0].at, box, box);
}

void
ca90_joint_mask(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	if (p->s.t->keys % p->s.rows == 0) {
		return;
	}
	cu_line(f, "if (live < %lld) {", (long long)p->s.rows);
	ca_unrolled_for(f, "j", p->s.form.cols / 8);
	ca_unrolled_for(f, "e", 4);
	cu_line(f, "s[0][j][e] = wrow + g + e / 2 * 8 < live ? s[0][j][e] : "
		"0;");
	cu_close(f, 3);
}

/* Emits a store of q, 16 keys of a warp and 64 queries, in rows of a key, as
 * wgmma reads a left operand whose rows are contiguous. */
static void
store_slopes(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "const u32 slopes = sm + %lld + (it & 1) * %d;",
		(long long)p->slopes, CA90_ROWS * CA90_BOX_ROW);
	ca_unrolled_for(f, "k", p->s.form.cols / 16);
	cu_line(f, "stsm4(slopes + (wrow + LANE %% 16) * %d + (((2 * k + LANE "
		"/ 16) ^ LANE %% 8) * 16), q[k]);", CA90_BOX_ROW);
	cu_line(f, "}");
	cu_line(f, "fence_async();");
}

void
ca90_joint_share(struct ca90_back *p)
{
	struct ca_back *s = &p->s;
	struct cu_func *f = &s->f;
	long long half = s->out_slope / 2, box = CA90_ROWS * CA90_BOX_ROW;
	int64_t i;

	store_slopes(p);
	cu_comment(f, "both warpgroups have stored dS, and are done with that "
		   "of the tile before");
	cu_line(f, "%s", s->meet);
	cu_line(f, "const u64 left = wg_desc(slopes, %lld, 1024, 128);", box);
	cu_line(f, "f32 dq[1][%lld][4];", half / 8);
	cu_line(f, "wg_fence();");
	for (i = 0; i < s->rows / 16; i++) {
		cu_line(f, "wg_%s_64x%lld(&dq[0][0][0], left + %lld, keys + "
			"%lld, %d, 1, 1);", ca_type(s->t), half,
			(long long)(i * CA90_BOX_ROW),
			(long long)(i * CA90_BOX_ROW), i > 0);
	}
	cu_line(f, "wg_commit();");
}

void
ca90_joint_put(struct ca90_back *p)
{
	struct ca_back *s = &p->s;
	struct cu_func *f = &s->f;
	int64_t half = s->out_slope / 2;

	ca_wg_wait(f, 1, "dq", half);
	ca_wg_pin(f, "dv", s->out_weight);
	cu_line(f, "const int nth_part = it %% %d;", CA90_JOINT_PARTS);
	cu_comment(f, "the part that was here has left shared memory");
	cu_line(f, "mbar_wait(taken + 8 * nth_part, ~(it / %d) & 1);",
		CA90_JOINT_PARTS);
	cu_line(f, "char *part = SMEM + %lld + %lld * nth_part + %s * "
		"16;", (long long)p->part, 4 * (long long)ca90_joint_elems(p),
		s->thread);
	ca_unrolled_for(f, "j", half / 8);
	cu_line(f, "u32x4 x;");
	cu_line(f, "x.x = f32_bits(dq[0][j][0]);");
	cu_line(f, "x.y = f32_bits(dq[0][j][1]);");
	cu_line(f, "x.z = f32_bits(dq[0][j][2]);");
	cu_line(f, "x.w = f32_bits(dq[0][j][3]);");
	cu_line(f, "sts16(part + j * %d, x);", 16 * CA90_CONSUMERS);
	cu_line(f, "}");
	cu_line(f, "fence_async();");
	cu_line(f, "sync_warp();");
	cu_line(f, "if (LANE == 0) {");
	cu_line(f, "mbar_arrive(made + 8 * nth_part);");
	cu_line(f, "}");
}
