/*
 * Every function of the prelude that sm_90a has beside those of all, once, to
 * see that both compilers take it.  It computes nothing.
 */
#include "prelude.h"

struct every_args {
	char *at[4];
	char *shared;
	const i64 *live;
	tensor_map map[4];
};

KERNEL(barriers, 128, 1, struct every_args)
{
	u32 bar = smem_addr(SMEM), to = smem_addr(SMEM + 1024);
	u32 r[4] = { 1, 2, 3, 4 };

	if (TID == 0) {
		mbar_init(bar, 1);
		mbar_init(bar + 8, 1);
		fence_mbar_init();
	}
	cluster_sync();
	regs_fewer(40);
	regs_more(232);
	stsm4(to + 16 * (u32)LANE, r);
	stsm4_t(to + 16 * (u32)LANE, r);
	fence_async();
	sync_block();
	if (TID == 0) {
		tma_prefetch(&a.map[0]);
		mbar_expect(bar, 1024);
		tma_load2(to, &a.map[0], bar, 0, 1);
		tma_load3(to, &a.map[1], bar, 0, 1, 2);
		tma_load4(to, &a.map[2], bar, 0, 1, 2, 3);
		tma_load5(to, &a.map[3], bar, 0, 1, 2, 3, 4);
		tma_load2_multi(to, &a.map[0], bar, 0, 1, 3);
		tma_load3_multi(to, &a.map[1], bar, 0, 1, 2, 3);
		tma_load4_multi(to, &a.map[2], bar, 0, 1, 2, 3, 3);
		tma_load5_multi(to, &a.map[3], bar, 0, 1, 2, 3, 4, 3);
	}
	mbar_wait(bar, 0);
	mbar_arrive(bar + 8);
	mbar_arrive_cta(bar + 8, cluster_rank() ^ 1);
	if (TID == 0) {
		tma_store2(&a.map[0], to, 0, 1);
		tma_store3(&a.map[1], to, 0, 1, 2);
		tma_store4(&a.map[2], to, 0, 1, 2, 3);
		tma_store5(&a.map[3], to, 0, 1, 2, 3, 4);
		tma_add2(&a.map[0], to, 0, 1);
		tma_add3(&a.map[1], to, 0, 1, 2);
		tma_add4(&a.map[2], to, 0, 1, 2, 3);
		tma_add5(&a.map[3], to, 0, 1, 2, 3, 4);
		tma_commit();
		tma_wait_read(0);
		tma_wait(0);
	}
	cluster_arrive();
	cluster_wait();
	((u32 *)a.at[0])[TID] = map_cta(to, 1) + lds16_at(map_cta(to, 1)).x;
}


KERNEL(wg8, 128, 1, struct every_args)
{
	u32 at = smem_addr(SMEM), ra[4] = { 1, 2, 3, 4 };
	u64 k = wg_desc(at, 16, 1024, 128), mn = wg_desc(at, 4096, 1024, 128);
	f32 *out = (f32 *)a.at[0], d[4];
	int i;

	wg_fence();
	wg_bf16_64x8(d, k, k, 0, 0, 0);
	wg_bf16_64x8(d, mn, mn, 1, 1, 1);
	wg_bf16_rs_64x8(d, ra, mn, 1, 1);
	wg_f16_64x8(d, k, mn, 1, 0, 1);
	wg_f16_rs_64x8(d, ra, k, 1, 0);
	wg_e4m3_64x8(d, k, k, 1);
	wg_tf32_64x8(d, k, k, 1);
	wg_commit();
	wg_wait(0);
	wg_sums(d, 4);
	for (i = 0; i < 4; i++) {
		out[i * 128 + TID] = d[i];
	}
}

KERNEL(wg16, 128, 1, struct every_args)
{
	u32 at = smem_addr(SMEM), ra[4] = { 1, 2, 3, 4 };
	u64 k = wg_desc(at, 16, 1024, 128), mn = wg_desc(at, 4096, 1024, 128);
	f32 *out = (f32 *)a.at[0], d[8];
	int i;

	wg_fence();
	wg_bf16_64x16(d, k, k, 0, 0, 0);
	wg_bf16_64x16(d, mn, mn, 1, 1, 1);
	wg_bf16_rs_64x16(d, ra, mn, 1, 1);
	wg_f16_64x16(d, k, mn, 1, 0, 1);
	wg_f16_rs_64x16(d, ra, k, 1, 0);
	wg_e4m3_64x16(d, k, k, 1);
	wg_tf32_64x16(d, k, k, 1);
	wg_commit();
	wg_wait(0);
	wg_sums(d, 8);
	for (i = 0; i < 8; i++) {
		out[i * 128 + TID] = d[i];
	}
}

KERNEL(wg32, 128, 1, struct every_args)
{
	u32 at = smem_addr(SMEM), ra[4] = { 1, 2, 3, 4 };
	u64 k = wg_desc(at, 16, 1024, 128), mn = wg_desc(at, 4096, 1024, 128);
	f32 *out = (f32 *)a.at[0], d[16];
	int i;

	wg_fence();
	wg_bf16_64x32(d, k, k, 0, 0, 0);
	wg_bf16_64x32(d, mn, mn, 1, 1, 1);
	wg_bf16_rs_64x32(d, ra, mn, 1, 1);
	wg_f16_64x32(d, k, mn, 1, 0, 1);
	wg_f16_rs_64x32(d, ra, k, 1, 0);
	wg_e4m3_64x32(d, k, k, 1);
	wg_tf32_64x32(d, k, k, 1);
	wg_commit();
	wg_wait(0);
	wg_sums(d, 16);
	for (i = 0; i < 16; i++) {
		out[i * 128 + TID] = d[i];
	}
}

KERNEL(wg64, 128, 1, struct every_args)
{
	u32 at = smem_addr(SMEM), ra[4] = { 1, 2, 3, 4 };
	u64 k = wg_desc(at, 16, 1024, 128), mn = wg_desc(at, 4096, 1024, 128);
	f32 *out = (f32 *)a.at[0], d[32];
	int i;

	wg_fence();
	wg_bf16_64x64(d, k, k, 0, 0, 0);
	wg_bf16_64x64(d, mn, mn, 1, 1, 1);
	wg_bf16_rs_64x64(d, ra, mn, 1, 1);
	wg_f16_64x64(d, k, mn, 1, 0, 1);
	wg_f16_rs_64x64(d, ra, k, 1, 0);
	wg_e4m3_64x64(d, k, k, 1);
	wg_tf32_64x64(d, k, k, 1);
	wg_commit();
	wg_wait(0);
	wg_sums(d, 32);
	for (i = 0; i < 32; i++) {
		out[i * 128 + TID] = d[i];
	}
}

KERNEL(wg96, 128, 1, struct every_args)
{
	u32 at = smem_addr(SMEM), ra[4] = { 1, 2, 3, 4 };
	u64 k = wg_desc(at, 16, 1024, 128), mn = wg_desc(at, 4096, 1024, 128);
	f32 *out = (f32 *)a.at[0], d[48];
	int i;

	wg_fence();
	wg_bf16_64x96(d, k, k, 0, 0, 0);
	wg_bf16_64x96(d, mn, mn, 1, 1, 1);
	wg_bf16_rs_64x96(d, ra, mn, 1, 1);
	wg_f16_64x96(d, k, mn, 1, 0, 1);
	wg_f16_rs_64x96(d, ra, k, 1, 0);
	wg_e4m3_64x96(d, k, k, 1);
	wg_tf32_64x96(d, k, k, 1);
	wg_commit();
	wg_wait(0);
	wg_sums(d, 48);
	for (i = 0; i < 48; i++) {
		out[i * 128 + TID] = d[i];
	}
}

KERNEL(wg128, 128, 1, struct every_args)
{
	u32 at = smem_addr(SMEM), ra[4] = { 1, 2, 3, 4 };
	u64 k = wg_desc(at, 16, 1024, 128), mn = wg_desc(at, 4096, 1024, 128);
	f32 *out = (f32 *)a.at[0], d[64];
	int i;

	wg_fence();
	wg_bf16_64x128(d, k, k, 0, 0, 0);
	wg_bf16_64x128(d, mn, mn, 1, 1, 1);
	wg_bf16_rs_64x128(d, ra, mn, 1, 1);
	wg_f16_64x128(d, k, mn, 1, 0, 1);
	wg_f16_rs_64x128(d, ra, k, 1, 0);
	wg_e4m3_64x128(d, k, k, 1);
	wg_tf32_64x128(d, k, k, 1);
	wg_commit();
	wg_wait(0);
	wg_sums(d, 64);
	for (i = 0; i < 64; i++) {
		out[i * 128 + TID] = d[i];
	}
}

KERNEL(wg192, 128, 1, struct every_args)
{
	u32 at = smem_addr(SMEM), ra[4] = { 1, 2, 3, 4 };
	u64 k = wg_desc(at, 16, 1024, 128), mn = wg_desc(at, 4096, 1024, 128);
	f32 *out = (f32 *)a.at[0], d[96];
	int i;

	wg_fence();
	wg_bf16_64x192(d, k, k, 0, 0, 0);
	wg_bf16_64x192(d, mn, mn, 1, 1, 1);
	wg_bf16_rs_64x192(d, ra, mn, 1, 1);
	wg_f16_64x192(d, k, mn, 1, 0, 1);
	wg_f16_rs_64x192(d, ra, k, 1, 0);
	wg_e4m3_64x192(d, k, k, 1);
	wg_tf32_64x192(d, k, k, 1);
	wg_commit();
	wg_wait(0);
	wg_sums(d, 96);
	for (i = 0; i < 96; i++) {
		out[i * 128 + TID] = d[i];
	}
}

KERNEL(wg256, 128, 1, struct every_args)
{
	u32 at = smem_addr(SMEM), ra[4] = { 1, 2, 3, 4 };
	u64 k = wg_desc(at, 16, 1024, 128), mn = wg_desc(at, 4096, 1024, 128);
	f32 *out = (f32 *)a.at[0], d[128];
	int i;

	wg_fence();
	wg_bf16_64x256(d, k, k, 0, 0, 0);
	wg_bf16_64x256(d, mn, mn, 1, 1, 1);
	wg_bf16_rs_64x256(d, ra, mn, 1, 1);
	wg_f16_64x256(d, k, mn, 1, 0, 1);
	wg_f16_rs_64x256(d, ra, k, 1, 0);
	wg_e4m3_64x256(d, k, k, 1);
	wg_tf32_64x256(d, k, k, 1);
	wg_commit();
	wg_wait(0);
	wg_sums(d, 128);
	for (i = 0; i < 128; i++) {
		out[i * 128 + TID] = d[i];
	}
}
