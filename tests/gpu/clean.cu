/*
 * Kernels without a mistake, for t-emulate.c to see that none is reported, and
 * that what they compute is right.
 */
#include "prelude.h"

struct clean_args {
	char *at[3];
	i64 num[1];
	char *shared;
	const i64 *live;
	tensor_map map[3];
};

/* ---- threads ---- */

/* The sum of a block's 256 numbers, by warps. */
KERNEL(sums, 256, 1, struct clean_args)
{
	const f32 *x = (const f32 *)a.at[0] + 256 * BLOCK_X;
	f32 *s = (f32 *)SMEM, y = warp_sum_f32(x[TID]);

	if (LANE == 0) {
		s[WARP] = y;
	}
	sync_block();
	y = warp_sum_f32(LANE < 8 ? s[LANE] : 0);
	if (TID == 0) {
		((f32 *)a.at[1])[BLOCK_X] = y;
	}
}

/* One warp writes, another reads, by turns: named barriers. */
KERNEL(turns, 64, 1, struct clean_args)
{
	i32 *s = (i32 *)SMEM, *out = (i32 *)a.at[1];
	int i, sum = 0;

	for (i = 0; i < 10; i++) {
		if (WARP == 0) {
			s[LANE] = i * LANE;
			arrive_named(1, 64);
			sync_named(2, 64);
		} else {
			sync_named(1, 64);
			sum += s[31 - LANE];
			arrive_named(2, 64);
		}
	}
	if (WARP == 1) {
		out[LANE] = sum;
	}
}

/* Halves of words by threads side by side, and atomics. */
KERNEL(small, 64, 1, struct clean_args)
{
	u8 *s = (u8 *)SMEM;
	i32 *n = (i32 *)(SMEM + 64);

	s[TID] = (u8)TID;
	if (TID == 0) {
		*n = 0;
	}
	sync_block();
	atomic_add_i32(n, s[63 - TID]);
	sync_block();
	((i32 *)a.at[1])[TID] = *n;
}

/* Words that go from one block of a cluster to the other and back, 1 more each
 * time, and each to a place of its own: that a word arrives does not say that
 * its sender has read the last one. */
KERNEL(words, 32, 1, struct clean_args)
{
	const u32 at = smem_addr(SMEM), bar = at + 32;
	const int other = cluster_rank() ^ 1;
	u32 x = 0;
	int i;

	if (TID == 0) {
		mbar_init(bar, 1);
		fence_mbar_init();
	}
	cluster_sync();
	for (i = 0; TID == 0 && i < 4; i++) {
		if (i > 0 || cluster_rank() == 1) {
			mbar_expect(bar, 4);
			mbar_wait(bar, i + cluster_rank() + 1 & 1);
			x = *(u32 *)(SMEM + 8 * i + 4 * cluster_rank()) + 1;
		}
		if (i < 3 || cluster_rank() == 0) {
			send_word(map_cta(at + 8 * (i + cluster_rank()) + 4 *
					  other, other), x,
				  map_cta(bar, other));
		}
	}
	if (TID == 0) {
		((u32 *)a.at[1])[cluster_rank()] = x;
	}
	sync_warp();
	cluster_sync();
}

/* ---- mma.sync: C = A B^T, n x n of bf16, n a multiple of 64 ---- */

FN u32
cell_at(int stage, int which, int row, int q)
{
	return smem_addr(SMEM + stage * 8192 + which * 4096 + row * 64 +
			 (q ^ (row / 2 & 3)) * 16);
}

FN void
fetch(const struct clean_args *a, int stage, i64 k)
{
	i64 n = a->num[0];
	const bf16 *x = (const bf16 *)a->at[0], *y = (const bf16 *)a->at[1];
	int i;

	for (i = 0; i < 2; i++) {
		int row = TID / 4 + i * 32, q = TID % 4;

		cp_async16(cell_at(stage, 0, row, q),
			   x + (BLOCK_Y * 64 + row) * n + k + q * 8, 16);
		cp_async16(cell_at(stage, 1, row, q),
			   y + (BLOCK_X * 64 + row) * n + k + q * 8, 16);
	}
}

KERNEL(mma, 128, 1, struct clean_args)
{
	i64 n = a.num[0], k;
	f32 c[2][4][4] = { 0 };
	u32 x[2][4], y[2][4];
	int m0 = WARP / 2 * 32, n0 = WARP % 2 * 32, i, j, l, stage = 0;

	for (i = 0; i < 2; i++) {
		if (i * 32 < n) {
			fetch(&a, i, i * 32);
		}
		cp_async_commit();
	}
	for (k = 0; k < n; k += 32) {
		cp_async_wait(1);
		sync_block();
		if (k + 64 < n) {
			fetch(&a, (stage + 2) % 3, k + 64);
		}
		cp_async_commit();
		for (l = 0; l < 2; l++) {
			for (i = 0; i < 2; i++) {
				ldsm4(x[i], cell_at(stage, 0, m0 + i * 16 +
						    LANE % 16,
						    l * 2 + LANE / 16));
				ldsm4(y[i], cell_at(stage, 1, n0 + i * 16 +
						    LANE % 8 + LANE / 16 * 8,
						    l * 2 + LANE / 8 % 2));
			}
			for (i = 0; i < 2; i++) {
				for (j = 0; j < 4; j++) {
					mma_bf16(c[i][j], x[i],
						 y[j / 2] + j % 2 * 2);
				}
			}
		}
		stage = (stage + 1) % 3;
	}
	for (i = 0; i < 2; i++) {
		for (j = 0; j < 4; j++) {
			for (l = 0; l < 4; l++) {
				((f32 *)a.at[2])[
					(BLOCK_Y * 64 + m0 + i * 16 +
					 LANE / 4 + l / 2 * 8) * n +
					BLOCK_X * 64 + n0 + j * 8 +
					LANE % 4 * 2 + l % 2] = c[i][j][l];
			}
		}
	}
}

/*
 * ---- TMA and wgmma, clusters of 2 blocks side by side: C = A B^T ----
 *
 * A warp loads, a warpgroup multiplies; a block has 64 rows, which both share,
 * and 64 columns; each loads half of the rows for both.  Stages are 64 deep.
 */

enum {
	STAGES = 3, STAGE_BYTES = 16384, FULL = STAGES * STAGE_BYTES,
	EMPTY = FULL + 8 * STAGES
};

FN void
load_all(const struct clean_args *a, u32 base)
{
	int i, other, n = (int)(a->num[0] / 64), rank = cluster_rank();

	for (i = 0; i < n; i++) {
		u32 at = base + (u32)(i % STAGES * STAGE_BYTES);
		u32 full = base + FULL + (u32)(i % STAGES * 8);

		mbar_wait(base + EMPTY + (u32)(i % STAGES * 8),
			  (i / STAGES & 1) ^ 1);
		mbar_expect(full, STAGE_BYTES);
		other = BLOCK_Y * 64 + rank * 32;
		tma_load2_multi(at + (u32)rank * 4096, &a->map[0], full,
				i * 64, other, 3);
		tma_load2(at + 8192, &a->map[1], full, i * 64,
			  BLOCK_X * 64);
	}
}

FN void
multiply_all(const struct clean_args *a, u32 base, f32 *d)
{
	int i, k, n = (int)(a->num[0] / 64);

	for (i = 0; i < n; i++) {
		u32 at = base + (u32)(i % STAGES * STAGE_BYTES);

		mbar_wait(base + FULL + (u32)(i % STAGES * 8),
			  i / STAGES & 1);
		wg_fence();
		for (k = 0; k < 4; k++) {
			wg_bf16_64x64(d, wg_desc(at + (u32)k * 32, 16, 1024,
						 128),
				      wg_desc(at + 8192 + (u32)k * 32, 16,
					      1024, 128), i + k > 0, 0, 0);
		}
		wg_commit();
		wg_wait(0);
		wg_sums(d, 32);
		if (TID < 2) {
			mbar_arrive_cta(base + EMPTY +
					(u32)(i % STAGES * 8), TID);
		}
	}
}

KERNEL(hopper, 160, 1, struct clean_args)
{
	u32 base = smem_addr(SMEM);
	f32 d[32], *s = (f32 *)SMEM;
	int i;

	if (TID == 0) {
		for (i = 0; i < STAGES; i++) {
			mbar_init(base + FULL + 8 * (u32)i, 1);
			mbar_init(base + EMPTY + 8 * (u32)i, 2);
		}
		fence_mbar_init();
	}
	cluster_sync();
	if (WARP == 4) {
		if (LANE == 0) {
			load_all(&a, base);
		}
	} else {
		multiply_all(&a, base, d);
		sync_named(1, 128);
		for (i = 0; i < 32; i++) {
			s[(WARP * 16 + LANE / 4 + i % 4 / 2 * 8) * 64 +
			  i / 4 * 8 + LANE % 4 * 2 + i % 2] = d[i];
		}
		fence_async();
		sync_named(1, 128);
		if (TID == 0) {
			tma_store2(&a.map[2], base, BLOCK_X * 64,
				   BLOCK_Y * 64);
			tma_commit();
			tma_wait_read(0);
		}
	}
	sync_warp();
	cluster_sync();
}
