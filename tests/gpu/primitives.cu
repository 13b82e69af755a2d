/*
 * What instructions do with their operands, dumped: run by the emulator and by
 * a GPU, which must agree bit by bit.  Sums are of few small numbers, so that
 * they are exact in any order.
 *
 * at[0]: 64 KiB each of bf16, of f16, of e4m3 and of f32 elements; at[1]: the
 * words that come out.  map[0], [1]: bf16 as 64 columns and 64 rows, in boxes
 * of all of it with and without swizzle; [2]: as 128 columns and 64 rows, in
 * boxes of 64 columns; [3]: f32, what comes out as 32 columns and 64 rows.
 */
#include "prelude.h"

struct primitive_args {
	char *at[2];
	char *shared;
	const i64 *live;
	tensor_map map[4];
};

FN void
put(const struct primitive_args *a, int i, u32 x)
{
	((u32 *)a->at[1])[i * NTHREADS + TID] = x;
}

FN u32
word(const struct primitive_args *a, int kind, int i)
{
	return ((const u32 *)(a->at[0] + kind * 65536))[i];
}

FN void
fill_words(const struct primitive_args *a, int n)
{
	int i;

	for (i = TID; i < n; i += NTHREADS) {
		((u32 *)SMEM)[i] = word(a, 0, i);
	}
	sync_block();
}

/* ---- a warp's matrices ---- */

KERNEL(ldmatrix4, 32, 1, struct primitive_args)
{
	u32 r[4];
	int i;

	fill_words(&a, 128);
	ldsm4(r, smem_addr(SMEM + 16 * (LANE ^ 5)));
	for (i = 0; i < 4; i++) {
		put(&a, i, r[i]);
	}
	ldsm4_t(r, smem_addr(SMEM + 16 * (LANE ^ 9)));
	for (i = 0; i < 4; i++) {
		put(&a, 4 + i, r[i]);
	}
}

KERNEL(ldmatrix2, 32, 1, struct primitive_args)
{
	u32 r[2];

	fill_words(&a, 128);
	ldsm2(r, smem_addr(SMEM + 16 * (LANE & 15)));
	put(&a, 0, r[0]);
	put(&a, 1, r[1]);
	ldsm2_t(r, smem_addr(SMEM + 16 * (LANE & 15)));
	put(&a, 2, r[0]);
	put(&a, 3, r[1]);
}

KERNEL(stmatrix, 32, 1, struct primitive_args)
{
	u32 r[4];
	int i;

	for (i = 0; i < 4; i++) {
		r[i] = word(&a, 0, 32 * i + LANE);
	}
	stsm4(smem_addr(SMEM + 16 * LANE), r);
	stsm4_t(smem_addr(SMEM + 512 + 16 * LANE), r);
	sync_block();
	for (i = 0; i < 8; i++) {
		put(&a, i, ((u32 *)SMEM)[32 * i + LANE]);
	}
}

#define MMA_KERNEL(name, mma, kind) \
	KERNEL(name, 32, 1, struct primitive_args) \
	{ \
		u32 x[4], y[2]; \
		f32 c[4]; \
		int i; \
		for (i = 0; i < 4; i++) { \
			x[i] = word(&a, kind, 32 * i + LANE); \
			c[i] = (f32)(LANE * 4 + i); \
		} \
		y[0] = word(&a, kind, 128 + LANE); \
		y[1] = word(&a, kind, 160 + LANE); \
		mma(c, x, y); \
		for (i = 0; i < 4; i++) { \
			put(&a, i, f32_bits(c[i])); \
		} \
	}

MMA_KERNEL(product_bf16, mma_bf16, 0)
MMA_KERNEL(product_f16, mma_f16, 1)
MMA_KERNEL(product_e4m3, mma_e4m3, 2)
MMA_KERNEL(product_tf32, mma_tf32, 3)

/* All bytes but the NaNs of e4m3 and the int8 that no weight is. */
KERNEL(byte_pairs, 128, 1, struct primitive_args)
{
	u32 x = (u32)TID % 127 | (u32)(255 - TID % 127 - (TID % 127 == 0)) << 8;

	put(&a, 0, int8_bf16(x));
	put(&a, 1, int8_f16(x));
	put(&a, 2, e4m3_bf16(x));
	put(&a, 3, e4m3_f16(x));
}

/* Numbers of 4 bits, all in each half of a word, as pairs of bf16 and f16. */
KERNEL(int4_pairs, 32, 1, struct primitive_args)
{
	u32 x = (u32)LANE % 16 | (u32)(LANE * 7 % 16) << 16 | 0x5a70a5e0u;
	int i;

	put(&a, 0, int4_bf16(x));
	put(&a, 1, int4_f16(x));
	for (i = 0; i < 2; i++) {
		put(&a, 2 + i, f32_bits(int4_scale(x, i)));
	}
}

/* ---- the copying unit ---- */

FN void
load_box(const struct primitive_args *a, int map, int at, int x, int y,
	 int bytes)
{
	u32 bar = smem_addr(SMEM + 40960);

	if (TID == 0) {
		mbar_init(bar, 1);
		fence_mbar_init();
	}
	sync_block();
	if (TID == 0) {
		mbar_expect(bar, bytes);
		tma_load2(smem_addr(SMEM + at), &a->map[map], bar, x, y);
	}
	mbar_wait(bar, 0);
	sync_block();
}

FN void
dump(const struct primitive_args *a, int n)
{
	int i;

	for (i = 0; i < n / NTHREADS; i++) {
		put(a, i, ((u32 *)SMEM)[i * NTHREADS + TID]);
	}
}

KERNEL(box_swizzled, 128, 1, struct primitive_args)
{
	load_box(&a, 0, 0, 0, 0, 8192);
	dump(&a, 2048);
}

/* A part of it lies outside, and is 0. */
KERNEL(box_outside, 128, 1, struct primitive_args)
{
	load_box(&a, 0, 0, 8, -3, 8192);
	dump(&a, 2048);
}

KERNEL(box_plain, 128, 1, struct primitive_args)
{
	load_box(&a, 1, 0, 0, 5, 8192);
	dump(&a, 2048);
}

KERNEL(box_stored, 128, 1, struct primitive_args)
{
	fill_words(&a, 2048);
	fence_async();
	sync_block();
	if (TID == 0) {
		tma_store2(&a.map[3], smem_addr(SMEM), 0, 0);
		tma_commit();
		tma_wait(0);
	}
}

/* Stored over ones, then added twice, each time in its turn: the number of turns
 * is the last word. */
KERNEL(bulk_added, 128, 1, struct primitive_args)
{
	i32 *done = (i32 *)a.at[1] + 2048;
	int i;

	for (i = (int)TID; i < 2049; i += NTHREADS) {
		((f32 *)a.at[1])[i] = i < 2048 ? 1.0f : 0;
		((u32 *)SMEM)[i] = word(&a, 3, i);
	}
	fence_async();
	sync_block();
	for (i = 0; i < 3 && TID == 0; i++) {
		count_wait(done, i);
		if (i > 0) {
			bulk_add((f32 *)a.at[1], smem_addr(SMEM), 8192);
		} else {
			bulk_put((f32 *)a.at[1], smem_addr(SMEM), 8192);
		}
		tma_commit();
		tma_wait(0);
		count_next(done);
	}
}

/* ---- wgmma: rows of 128 bytes, along k and along m and n ---- */

/* The emulator has all of it, an architecture its own alone. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define WGMMA 0
#define TENSOR 1
#else
#define WGMMA 1
#define TENSOR !defined(__CUDA_ARCH__)
#endif

FN void
put_sums(const struct primitive_args *a, const f32 *d, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		put(a, i, f32_bits(d[i]));
	}
}

#if WGMMA
KERNEL(wgmma_along_k, 128, 1, struct primitive_args)
{
	u32 at = smem_addr(SMEM);
	f32 d[32];
	int k;

	load_box(&a, 0, 0, 0, 0, 8192);
	wg_fence();
	for (k = 0; k < 4; k++) {
		u64 x = wg_desc(at + 32 * (u32)k, 16, 1024, 128);

		wg_bf16_64x64(d, x, x, k, 0, 0);
	}
	wg_commit();
	wg_wait(0);
	wg_sums(d, 32);
	put_sums(&a, d, 32);
}

KERNEL(wgmma_along_mn, 128, 1, struct primitive_args)
{
	u32 at = smem_addr(SMEM), bar = smem_addr(SMEM + 40960);
	f32 d[64];
	int k;

	if (TID == 0) {
		mbar_init(bar, 1);
		fence_mbar_init();
	}
	sync_block();
	if (TID == 0) {
		mbar_expect(bar, 3 * 8192);
		tma_load2(at, &a.map[0], bar, 0, 0);
		tma_load2(at + 8192, &a.map[2], bar, 0, 0);
		tma_load2(at + 16384, &a.map[2], bar, 64, 0);
	}
	mbar_wait(bar, 0);
	wg_fence();
	for (k = 0; k < 4; k++) {
		wg_bf16_64x128(d, wg_desc(at + 2048 * (u32)k, 8192, 1024,
					  128),
			       wg_desc(at + 8192 + 2048 * (u32)k, 8192, 1024,
				       128), k, 1, 1);
	}
	wg_commit();
	wg_wait(0);
	wg_sums(d, 64);
	put_sums(&a, d, 64);
}

KERNEL(wgmma_registers, 128, 1, struct primitive_args)
{
	u32 at = smem_addr(SMEM), x[4][4];
	f32 d[32];
	int i, k;

	for (i = 0; i < 16; i++) {
		x[i / 4][i % 4] = word(&a, 0, 4096 + 128 * i + TID);
	}
	load_box(&a, 0, 0, 0, 0, 8192);
	wg_fence();
	for (k = 0; k < 4; k++) {
		wg_bf16_rs_64x64(d, x[k], wg_desc(at + 32 * (u32)k, 16, 1024,
						  128), k, 0);
	}
	wg_commit();
	wg_wait(0);
	wg_sums(d, 32);
	put_sums(&a, d, 32);
}

/* Without swizzle: cores of 8 rows by 16 bytes, one after the other; along k
 * the next one is 128 bytes on, the next 8 rows 256. */
KERNEL(wgmma_cores, 128, 1, struct primitive_args)
{
	u64 x = wg_desc(smem_addr(SMEM), 128, 256, 0);
	f32 d[16];

	fill_words(&a, 1024);
	fence_async();
	sync_block();
	wg_fence();
	wg_bf16_64x32(d, x, x, 0, 0, 0);
	wg_commit();
	wg_wait(0);
	wg_sums(d, 16);
	put_sums(&a, d, 16);
}

KERNEL(wgmma_e4m3, 128, 1, struct primitive_args)
{
	u64 x = wg_desc(smem_addr(SMEM), 16, 1024, 128);
	f32 d[16];
	int i;

	for (i = TID; i < 2048; i += NTHREADS) {
		((u32 *)SMEM)[i] = word(&a, 2, i);
	}
	fence_async();
	sync_block();
	wg_fence();
	wg_e4m3_64x32(d, x, x, 0);
	wg_commit();
	wg_wait(0);
	wg_sums(d, 16);
	put_sums(&a, d, 16);
}

KERNEL(wgmma_tf32, 128, 1, struct primitive_args)
{
	u64 x = wg_desc(smem_addr(SMEM), 16, 1024, 128);
	f32 d[16];
	int i;

	for (i = TID; i < 2048; i += NTHREADS) {
		((u32 *)SMEM)[i] = word(&a, 3, i);
	}
	fence_async();
	sync_block();
	wg_fence();
	wg_tf32_64x32(d, x, x, 0);
	wg_commit();
	wg_wait(0);
	wg_sums(d, 16);
	put_sums(&a, d, 16);
}

#endif

/* ---- tcgen05: 128 rows, sums in tensor memory ---- */

#if TENSOR
/* Barriers, and n columns of tensor memory. */
FN u32
take_columns(int n)
{
	u32 bar = smem_addr(SMEM + 40960);

	if (TID == 0) {
		mbar_init(bar, 1);
		mbar_init(bar + 8, 1);
		fence_mbar_init();
	}
	if (WARP == 0) {
		tc_alloc(bar + 16, n);
		tc_relinquish();
	}
	tc_fence_before();
	sync_block();
	tc_fence_after();
	return *(const u32 *)(SMEM + 40976);
}

/* Sums of 64 or of 32 columns, as wgmma leaves those of rows that the warp has;
 * its rows 16 to 31 come after all others.  Frees `taken` columns. */
FN void
put_columns(const struct primitive_args *a, u32 from, int n, int taken)
{
	u32 bar = smem_addr(SMEM + 40960);
	f32 d[64];
	int i;

	mbar_wait(bar + 8, 0);
	tc_fence_after();
	for (i = 0; i < n; i++) {
		d[i] = 0.0f;
	}
	if (n == 64) {
		tc_ld64(d, from + ((u32)WARP << 21));
		tc_ld64(d + 32, from + ((u32)WARP << 21) + (16 << 16));
	} else {
		tc_ld32(d, from + ((u32)WARP << 21));
		tc_ld32(d + 16, from + ((u32)WARP << 21) + (16 << 16));
	}
	tc_wait(d, 64);
	put_sums(a, d, n);
	tc_fence_before();
	sync_block();
	if (WARP == 0) {
		tc_fence_after();
		tc_dealloc(from, taken);
	}
}

/* Of the same box twice and another one, along k or along m and n. */
FN void
multiply_boxes(const struct primitive_args *a, int turned)
{
	const u32 at = smem_addr(SMEM), bar = smem_addr(SMEM + 40960);
	const u32 from = take_columns(64);
	const u32 form = tc_form(TC_BF16, 64, turned, turned);
	const int step = turned ? 2048 : 32, lead = turned ? 8192 : 16;
	int k;

	if (TID == 0) {
		mbar_expect(bar, 3 * 8192);
		tma_load2(at, &a->map[2], bar, 0, 0);
		tma_load2(at + 8192, &a->map[2], bar, 64, 0);
		tma_load2(at + 16384, &a->map[0], bar, 0, 0);
		mbar_wait(bar, 0);
		for (k = 0; k < 4; k++) {
			const u32 x = at + (u32)(step * k);

			tc_mma_f16(from, tc_desc(x, lead, 1024, 128),
				   tc_desc(x + 16384, lead, 1024, 128), form,
				   k > 0);
		}
		tc_commit(bar + 8);
	}
	sync_warp();
	put_columns(a, from, 64, 64);
}

KERNEL(tensor_along_k, 128, 1, struct primitive_args)
{
	multiply_boxes(&a, 0);
}

KERNEL(tensor_along_mn, 128, 1, struct primitive_args)
{
	multiply_boxes(&a, 1);
}

/* 128 rows and 32 columns of 128 bytes of k each. */
FN void
fill_rows(const struct primitive_args *a, int kind)
{
	int i;

	for (i = TID; i < 5120; i += NTHREADS) {
		((u32 *)SMEM)[i] = word(a, kind, i);
	}
	fence_async();
}

/* Of words of such a kind, 64 bytes of k. */
#define TENSOR_ROWS(name, mma, type, kind) \
	KERNEL(name, 128, 1, struct primitive_args) \
	{ \
		const u64 x = tc_desc(smem_addr(SMEM), 16, 1024, 128); \
		const u64 y = tc_desc(smem_addr(SMEM + 16384), 16, 1024, 128); \
		const u32 form = tc_form(type, 32, 0, 0); \
		u32 from; \
		fill_rows(&a, kind); \
		from = take_columns(32); \
		if (TID == 0) { \
			mma(from, x, y, form, 0); \
			mma(from, x + 2, y + 2, form, 1); \
			tc_commit(smem_addr(SMEM + 40968)); \
		} \
		sync_warp(); \
		put_columns(&a, from, 32, 32); \
	}
TENSOR_ROWS(tensor_e4m3, tc_mma_f8, TC_E4M3, 2)
TENSOR_ROWS(tensor_tf32, tc_mma_tf32, TC_TF32, 3)

/* 128 rows of 32 pairs of elements, in rows of 128 bytes. */
FN void
store_pairs(const struct primitive_args *a, u32 to)
{
	u32 w[16];
	int i, k;

	for (i = 0; i < 2; i++) {
		for (k = 0; k < 16; k++) {
			const int row = WARP * 32 + i * 16 + k % 2 * 8 +
				LANE / 4;

			w[k] = word(a, 0, row * 32 + k / 2 * 4 + LANE % 4);
		}
		tc_st32_pairs(to + ((u32)WARP << 21) + ((u32)i << 20), w);
	}
}

/* The left operand from tensor memory, the other one along k. */
KERNEL(tensor_left, 128, 1, struct primitive_args)
{
	const u32 at = smem_addr(SMEM), bar = smem_addr(SMEM + 40960);
	const u32 from = take_columns(128);
	int k;

	store_pairs(&a, from + 64);
	tc_wait_st();
	tc_fence_before();
	sync_block();
	if (TID == 0) {
		tc_fence_after();
		mbar_expect(bar, 8192);
		tma_load2(at, &a.map[0], bar, 0, 0);
		mbar_wait(bar, 0);
		for (k = 0; k < 4; k++) {
			tc_mma_f16_left(from, from + 64 + 8 * (u32)k,
					tc_desc(at + 32 * (u32)k, 16, 1024,
						128),
					tc_form(TC_BF16, 64, 0, 0), k > 0);
		}
		tc_commit(bar + 8);
	}
	sync_warp();
	put_columns(&a, from, 64, 128);
}

/* Pairs in columns 0 to 31 and sums in columns 32 to 63. */
KERNEL(tensor_stored, 128, 1, struct primitive_args)
{
	const u32 from = take_columns(64);
	f32 x[16];
	int i, k;

	store_pairs(&a, from);
	for (i = 0; i < 2; i++) {
		for (k = 0; k < 16; k++) {
			x[k] = ((const f32 *)(a.at[0] + 196608))
				[i * 2048 + k * 128 + TID];
		}
		tc_st32(from + 32 + ((u32)WARP << 21) + ((u32)i << 20), x);
	}
	tc_wait_st();
	if (TID == 0) {
		tc_commit(smem_addr(SMEM + 40968));
	}
	sync_warp();
	put_columns(&a, from, 64, 64);
}
#endif

/* Angles of 4096 numbers, whole and halves, of 2^17 at most, in units of 2^-32
 * turns, at frequencies from one turn down to 2^-16 turns. */
KERNEL(angles, 128, 1, struct primitive_args)
{
	int i;

	for (i = 0; i < 32; i++) {
		const u32 n = (u32)(128 * i + TID);
		const u64 by = (0x9e3779b97f4a7c15ull * (n + 1)) >> (n % 17);
		const i32 x = (i32)(n * 2654435761u) >> 14;

		((u32 *)a.at[1])[128 * i + TID] =
			turn_scaled((f32)x * 0.5f, by);
	}
}

/* Sines and cosines of 4096 angles all around. */
KERNEL(turns, 128, 1, struct primitive_args)
{
	int i;

	for (i = 0; i < 32; i++) {
		const u32 t = (u32)(128 * i + TID) * 0x9e3779b1u;

		((u32 *)a.at[1])[256 * i + TID] = f32_bits(turn_sin(t));
		((u32 *)a.at[1])[256 * i + 128 + TID] = f32_bits(turn_cos(t));
	}
}
