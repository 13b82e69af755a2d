/*
 * Every function of the prelude that all architectures have, once, to see that
 * both compilers take it.  It computes nothing.
 */
#include "prelude.h"

struct every_args {
	char *at[4];
	const struct pieces *pieces[1];
	i64 num[2];
	char *shared;
	const i64 *live;
};

FN f32
functions(f32 x)
{
	f32 y = f_exp(x) + f_exp2(x) + f_fast_exp2(x) + f_log(x) + f_tanh(x);

	y += f_erf(x) + f_sqrt(x) + f_rsqrt(x) + f_floor(x) + f_abs(x);
	y += f_sin(x) + f_cos(x) + f_pow(x, y) + f_min(x, y) + f_max(x, y);
	y += f_div(x, y) + turn_sin(f32_bits(x));
	y += turn_cos(turn_scaled(x, f32_bits(y)));
	y += f_sigmoid(x) + f_sin_turns((f64)x) + f_cos_turns((f64)x);
	return fma_f32(x, y, x);
}

FN f64
wide(f64 x)
{
	f64 y = d_exp(x) + d_log(x) + d_sqrt(x) + d_sin(x) + d_cos(x);

	y += d_tanh(x) + d_erf(x) + d_pow(x, y) + d_floor(x) + d_abs(x);
	return y + d_min(x, y) + d_max(x, y) + d_sigmoid(x);
}

FN f32
elements(f32 x)
{
	u32 both = pack_bf16(x, x + 1) ^ pack_f16(x, x + 2);

	x += bf16_f32(f32_bf16(x)) + f16_f32(f32_f16(x));
	x += e4m3_f32(f32_e4m3(x)) + e5m2_f32(f32_e5m2(x));
	return x + bits_f32(both ^ to_tf32(x) ^ f32_bits(x));
}

KERNEL(scalars, 256, 2, struct every_args)
{
	f32 *x = (f32 *)a.at[0];
	f64 *y = (f64 *)a.at[1];
	i64 *z = (i64 *)a.at[2];
	i64 i = (i64)BLOCK_X * NTHREADS + TID;
	u64 key = rng_key((u64)a.num[0], (u64)a.num[1]);

	i += (i64)NBLOCKS_X * BLOCK_Y + NBLOCKS_Y * BLOCK_Z + NBLOCKS_Z;
	x[i] = functions(x[i]) + elements(x[i]);
	y[i] = wide(y[i]) + rng_normal(key, i);
	z[i] = rng_below(key, i, 1000) + rng_keeps(key, (u64)a.live[0],
						   (u64)i, 0.1);
	z[i] += (i64)mul_high((u64)z[i], key) + a.pieces[0]->at[0].start;
}

KERNEL(threads, 128, 0, struct every_args)
{
	f32 *x = (f32 *)a.at[0];
	i32 *n = (i32 *)a.at[1];
	f32 *s = (f32 *)SMEM;
	u32 r;

	s[TID] = x[TID];
	sync_block();
	sync_warp();
	if (WARP < 2) {
		sync_named(1, 64);
	}
	if (WARP == 2) {
		arrive_named(2, 64);
	}
	if (WARP == 3) {
		sync_named(2, 64);
	}
	x[TID] = warp_sum_f32(s[127 - TID]) + warp_max_f32(s[TID]);
	x[TID] += shfl_f32(x[TID], 3) + shfl_xor_f32(x[TID], 1);
	x[TID] += shfl_down_f32(x[TID], 2);
	r = shfl_u32((u32)TID, 5) + shfl_xor_u32((u32)TID, 7) +
		ballot(TID % 3) + (u32)warp_any(TID == 40);
	atomic_add_f32(&x[r & 127], 1.0f);
	n[TID] = atomic_add_i32(&n[200], 1) +
		atomic_cas_i32(&n[202], 1, 2);
	threadfence();
}

KERNEL(moves, 32, 1, struct every_args)
{
	char *s = SMEM;
	char *to = a.at[1] + 256 * TID;
	const char *from = a.at[0] + 16 * TID;
	u32 r[4];
	f32 c[4] = { 0 };

	cp_async16(smem_addr(s + 16 * TID), from, 16);
	cp_async8(smem_addr(s + 512 + 8 * TID), from, 5);
	cp_async4(smem_addr(s + 1024 + 4 * TID), from, 0);
	cp_async_commit();
	cp_async_wait(0);
	sync_block();
	st16(to, ld16(from));
	st8(to + 16, ld8(from));
	sts16(s + 16 * TID, lds16(s + 16 * TID));
	sts8(s + 512 + 8 * TID, lds8(s + 512 + 8 * TID));
	sync_block();
	ldsm4(r, smem_addr(s + 16 * LANE));
	mma_bf16(c, r, r);
	ldsm4_t(r, smem_addr(s + 16 * LANE));
	mma_f16(c, r, r + 2);
	ldsm2(r, smem_addr(s + 16 * (LANE & 15)));
	ldsm2_t(r + 2, smem_addr(s + 16 * (LANE & 15)));
	mma_tf32(c, r, r);
	st16(to + 32, u32x4_of(r[0], r[1], f32_bits(c[0]), f32_bits(c[1])));
	st8(to + 48, u32x2_of(f32_bits(c[2]), f32_bits(c[3])));
}
