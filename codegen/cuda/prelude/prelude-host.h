/*
 * prelude-host.h - the prelude for the emulator: gnu11.  What needs more than
 * one thread is done by the emulator, through `emu`.
 */
#include "emulate_call.h"

#include <math.h>
#include <string.h>

#define FN static inline __attribute__((unused))

/* Thread-local, since ranks may be threads of one process. */
extern __thread struct emu_thread *emu_self
	__attribute__((visibility("hidden"), tls_model("initial-exec")));
extern __thread const struct emu_calls *emu
	__attribute__((visibility("hidden"), tls_model("initial-exec")));

#define KERNEL(name, nthreads, minblocks, ARGS) \
	static void name(const ARGS a); \
	static void emu_run_##name(const void *p) \
	{ \
		name(*(const ARGS *)p); \
	} \
	static const struct emu_entry emu_entry_##name = { \
		#name, LLMC_IMAGE, emu_run_##name, sizeof(ARGS), nthreads \
	}; \
	static const struct emu_entry *const emu_at_##name \
		__attribute__((used, section("emu_entries"))) = \
		&emu_entry_##name; \
	static void name(const ARGS a)

#define TID (emu_self->tid)
#define thread_again() TID
#define LANE (emu_self->lane)
#define WARP (emu_self->warp)
#define NTHREADS (emu_self->threads)
#define BLOCK_X (emu_self->block[0])
#define block_x_again() BLOCK_X
#define BLOCK_Y (emu_self->block[1])
#define BLOCK_Z (emu_self->block[2])
#define NBLOCKS_X (emu_self->blocks[0])
#define NBLOCKS_Y (emu_self->blocks[1])
#define NBLOCKS_Z (emu_self->blocks[2])
#define SMEM (emu_self->smem)

/* Not counted as plain loads and stores. */
#define EMU_UNSEEN __attribute__((noinline, no_sanitize("thread"), unused))

/* ---- bits --------------------------------------------------------------- */

FN u32
f32_bits(f32 x)
{
	union {
		f32 f;
		u32 u;
	} x_ = { x };

	return x_.u;
}

FN f32
bits_f32(u32 x)
{
	union {
		u32 u;
		f32 f;
	} x_ = { x };

	return x_.f;
}

FN u64
mul_high(u64 a, u64 b)
{
	return (u64)((unsigned __int128)a * b >> 64);
}

/* ---- threads ------------------------------------------------------------ */

#define smem_addr(p) emu->address(p)
#define sync_block() emu->sync(0, 0)
#define sync_warp() emu->warp_sync()
#define sync_named(id, n) emu->sync(id, n)
#define arrive_named(id, n) emu->arrive(id, n)
#define threadfence() ((void)0)

FN u32
shfl_u32(u32 x, int lane)
{
	return emu->shuffle(x, lane & 31);
}

FN u32
shfl_xor_u32(u32 x, int mask)
{
	return emu->shuffle(x, (LANE ^ mask) & 31);
}

FN f32
shfl_f32(f32 x, int lane)
{
	return bits_f32(shfl_u32(f32_bits(x), lane));
}

FN f32
shfl_xor_f32(f32 x, int mask)
{
	return bits_f32(shfl_xor_u32(f32_bits(x), mask));
}

/* Lanes beyond the last one read their own value. */
FN f32
shfl_down_f32(f32 x, int n)
{
	return shfl_f32(x, LANE + n < 32 ? LANE + n : LANE);
}

#define ballot(x) emu->warp_ballot((x) != 0)
#define warp_any(x) (ballot(x) != 0)

EMU_UNSEEN static f32
atomic_add_f32(f32 *p, f32 x)
{
	f32 old;

	emu->atomic(p, 4);
	old = *p;
	*p = old + x;
	return old;
}

EMU_UNSEEN static i32
atomic_add_i32(i32 *p, i32 x)
{
	i32 old;

	emu->atomic(p, 4);
	old = *p;
	*p = (i32)((u32)old + (u32)x);
	return old;
}

EMU_UNSEEN static i32
atomic_cas_i32(i32 *p, i32 expected, i32 x)
{
	i32 old;

	emu->atomic(p, 4);
	old = *p;
	*p = old == expected ? x : old;
	return old;
}

/* ---- elements ----------------------------------------------------------- */

FN f32
bf16_f32(bf16 x)
{
	return bits_f32((u32)x << 16);
}

FN bf16
f32_bf16(f32 v)
{
	u32 x = f32_bits(v);

	return v != v ? 0x7fff : (bf16)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

/* Corrects the exponent, which is too small by 112. */
FN f32
f16_f32(f16 x)
{
	u32 m = x & 0x7fffu;
	f32 r = bits_f32(m << 13) * 0x1p112f;

	r = m >= 0x7c00 ? bits_f32(m << 13 | 0x7f800000u) : r;
	return x & 0x8000 ? -r : r;
}

/* Rounds subnormal numbers by adding a number whose last bit is theirs. */
FN f16
f32_f16(f32 v)
{
	u32 x = f32_bits(v), s = x >> 16 & 0x8000, r;

	x &= 0x7fffffffu;
	if (x > 0x7f800000u) {
		return 0x7fff;
	}
	if (x < 0x38800000u) {
		r = f32_bits(bits_f32(x) + 0.5f) - 0x3f000000u;
	} else {
		r = (x + 0xfff + (x >> 13 & 1) - (112u << 23)) >> 13;
	}
	return (f16)(s | (r > 0x7c00 ? 0x7c00 : r));
}

FN u32
pack_bf16(f32 lo, f32 hi)
{
	return (u32)f32_bf16(hi) << 16 | f32_bf16(lo);
}

FN u32
pack_f16(f32 lo, f32 hi)
{
	return (u32)f32_f16(hi) << 16 | f32_f16(lo);
}

FN u32
and_xor(u32 x, u32 y, u32 z)
{
	return (x & y) ^ z;
}

FN u32
bytes_apart(u32 x)
{
	return (x & 0xff) << 8 | (x & 0xff00) << 16;
}

FN u32
mul_bf16(u32 x, u32 y)
{
	return pack_bf16(bf16_f32((bf16)x) * bf16_f32((bf16)y),
			 bf16_f32((bf16)(x >> 16)) * bf16_f32((bf16)(y >> 16)));
}

FN u32
mul_f16(u32 x, u32 y)
{
	return pack_f16(f16_f32((f16)x) * f16_f32((f16)y),
			f16_f32((f16)(x >> 16)) * f16_f32((f16)(y >> 16)));
}

FN u32
sub_bf16(u32 x, u32 y)
{
	return pack_bf16(bf16_f32((bf16)x) - bf16_f32((bf16)y),
			 bf16_f32((bf16)(x >> 16)) - bf16_f32((bf16)(y >> 16)));
}

FN u32
sub_f16(u32 x, u32 y)
{
	return pack_f16(f16_f32((f16)x) - f16_f32((f16)y),
			f16_f32((f16)(x >> 16)) - f16_f32((f16)(y >> 16)));
}

/* To the nearest, ties away from 0, as cvt.rna. */
FN u32
to_tf32(f32 x)
{
	return x != x ? 0x7fffffffu : (f32_bits(x) + 0x1000) & ~0x1fffu;
}

/* ---- 8 and 16 bytes ----------------------------------------------------- */

#define EMU_MOVES(load, store, type) \
	FN type load(const void *p) \
	{ \
		return *(const type *)p; \
	} \
	FN void store(void *p, type x) \
	{ \
		*(type *)p = x; \
	}

EMU_MOVES(ld16, st16, u32x4)
EMU_MOVES(ld8, st8, u32x2)
EMU_MOVES(lds16, sts16, u32x4)
EMU_MOVES(lds8, sts8, u32x2)

/* ---- functions ---------------------------------------------------------- */

#define f_fast_exp2(x) exp2f(x)
#define f_sqrt(x) sqrtf(x)
#define f_div(a, b) ((a) / (b))
#define f_rsqrt(x) (1.0f / sqrtf(x))

FN f32
f_min(f32 a, f32 b)
{
	return b != b || a < b ? a : b;
}

FN f32
f_max(f32 a, f32 b)
{
	return b != b || a > b ? a : b;
}

FN f32
f_sigmoid(f32 x)
{
	return 1.0f / (1.0f + expf(-x));
}

FN f32
f_sin_turns(f64 turns)
{
	return (f32)sin((turns - rint(turns)) * 6.283185307179586477);
}

FN f32
f_cos_turns(f64 turns)
{
	return (f32)cos((turns - rint(turns)) * 6.283185307179586477);
}

/* ---- cp.async, ldmatrix, mma -------------------------------------------- */

#define cp_async16(to, from, bytes) emu->cp_async(to, from, bytes, 16)
#define cp_async8(to, from, bytes) emu->cp_async(to, from, bytes, 8)
#define cp_async4(to, from, bytes) emu->cp_async(to, from, bytes, 4)
#define cp_async_commit() emu->cp_commit()
#define cp_async_wait(n) emu->cp_wait(n)

#define ldsm4(r, at) emu->ldsm(r, at, 4, 0)
#define ldsm4_t(r, at) emu->ldsm(r, at, 4, 1)
#define ldsm2(r, at) emu->ldsm(r, at, 2, 0)
#define ldsm2_t(r, at) emu->ldsm(r, at, 2, 1)
#define stsm4(at, r) emu->stsm(at, r, 4, 0)
#define stsm4_t(at, r) emu->stsm(at, r, 4, 1)

#define mma_bf16(c, a, b) emu->mma(c, a, b, EMU_BF16)
#define mma_f16(c, a, b) emu->mma(c, a, b, EMU_F16)
#define mma_tf32(c, a, b) emu->mma(c, a, b, EMU_TF32)
#define mma_e4m3(c, a, b) emu->mma(c, a, b, EMU_E4M3)
#define mma_e5m2(c, a, b) emu->mma(c, a, b, EMU_E5M2)

/* ---- sm_90a: mbarriers, the copying unit, clusters ----------------------- */

#define mbar_init(bar, count) emu->bar_init(bar, count)
#define fence_mbar_init() emu->bar_fence()
#define mbar_arrive(bar) emu->bar_arrive(bar, -1, 0)
#define mbar_arrive_cta(bar, cta) emu->bar_arrive(bar, cta, 0)
#define mbar_expect(bar, bytes) emu->bar_arrive(bar, -1, bytes)
#define mbar_wait(bar, parity) emu->bar_wait(bar, parity)
#define fence_async() emu->async_fence()

#define EMU_AT(...) ((const int[]){ __VA_ARGS__ })
#define tma_load2(to, m, bar, x, y) \
	emu->box_load(to, m, bar, 2, EMU_AT(x, y), 0)
#define tma_load3(to, m, bar, x, y, z) \
	emu->box_load(to, m, bar, 3, EMU_AT(x, y, z), 0)
#define tma_load4(to, m, bar, x, y, z, u) \
	emu->box_load(to, m, bar, 4, EMU_AT(x, y, z, u), 0)
#define tma_load5(to, m, bar, x, y, z, u, v) \
	emu->box_load(to, m, bar, 5, EMU_AT(x, y, z, u, v), 0)
#define tma_load2_multi(to, m, bar, x, y, mask) \
	emu->box_load(to, m, bar, 2, EMU_AT(x, y), mask)
#define tma_load3_multi(to, m, bar, x, y, z, mask) \
	emu->box_load(to, m, bar, 3, EMU_AT(x, y, z), mask)
#define tma_load4_multi(to, m, bar, x, y, z, u, mask) \
	emu->box_load(to, m, bar, 4, EMU_AT(x, y, z, u), mask)
#define tma_load5_multi(to, m, bar, x, y, z, u, v, mask) \
	emu->box_load(to, m, bar, 5, EMU_AT(x, y, z, u, v), mask)
#define tma_store2(m, from, x, y) \
	emu->box_store(m, from, 2, EMU_AT(x, y), 0)
#define tma_store3(m, from, x, y, z) \
	emu->box_store(m, from, 3, EMU_AT(x, y, z), 0)
#define tma_store4(m, from, x, y, z, u) \
	emu->box_store(m, from, 4, EMU_AT(x, y, z, u), 0)
#define tma_store5(m, from, x, y, z, u, v) \
	emu->box_store(m, from, 5, EMU_AT(x, y, z, u, v), 0)
#define tma_add2(m, from, x, y) \
	emu->box_store(m, from, 2, EMU_AT(x, y), 1)
#define tma_add3(m, from, x, y, z) \
	emu->box_store(m, from, 3, EMU_AT(x, y, z), 1)
#define tma_add4(m, from, x, y, z, u) \
	emu->box_store(m, from, 4, EMU_AT(x, y, z, u), 1)
#define tma_add5(m, from, x, y, z, u, v) \
	emu->box_store(m, from, 5, EMU_AT(x, y, z, u, v), 1)
#define tma_commit() emu->box_commit()
#define tma_wait(n) emu->box_wait(n, 0)
#define tma_wait_read(n) emu->box_wait(n, 1)
#define bulk_add(to, from, bytes) emu->bulk(to, from, bytes, 1)
#define bulk_put(to, from, bytes) emu->bulk(to, from, bytes, 0)
#define count_wait(at, n) emu->count_wait(at, n)
#define count_next(at) emu->count_next(at)
#define tma_prefetch(m) ((void)(m))

#define launch_wait() emu->begin()
#define regs_more(n) emu->regs(n, 1)
#define regs_fewer(n) emu->regs(n, 0)
#define cluster_rank() (emu_self->cluster_rank)
#define cluster_arrive() emu->all_arrive()
#define cluster_wait() emu->all_wait()
#define cluster_sync() (emu->all_arrive(), emu->all_wait())
#define map_cta(at, cta) emu->address_in(at, cta)

#define send_word(to, x, bar) emu->word_to(to, x, bar)

FN u32x4
lds16_at(u32 at)
{
	u32 r[4];

	emu->read_at(at, r);
	return (u32x4){ r[0], r[1], r[2], r[3] };
}

/* ---- sm_90a: wgmma ------------------------------------------------------ */

/* PTX ISA, "Matrix Descriptor Format". */
FN u64
wg_desc(u32 at, int lead_bytes, int stride_bytes, int swizzle)
{
	u64 mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32
		? 3 : 0;

	return (u64)((at & 0x3ffff) >> 4) |
		(u64)((u32)lead_bytes >> 4 & 0x3fff) << 16 |
		(u64)((u32)stride_bytes >> 4 & 0x3fff) << 32 | mode << 62;
}

#define wg_fence() emu->group_fence()
#define wg_commit() emu->group_commit()
#define wg_wait(n) emu->group_wait(n)
#define wg_sums(d, n) ((void)(d))
#define wg_regs(a, n) ((void)(a))
#define wg_made(x) ((void)(x))
#define EMU_WG(n, kind, d, ra, a, b, add, ta, tb) \
	emu->group_mma(d, ra, a, b, n, kind, ((add) ? EMU_ADD : 0) | \
		    ((ta) ? EMU_TRANS_A : 0) | ((tb) ? EMU_TRANS_B : 0))

#define wg_bf16_64x8(d, a, b, add, ta, tb) \
	EMU_WG(8, EMU_BF16, d, 0, a, b, add, ta, tb)
#define wg_bf16_rs_64x8(d, ra, b, add, tb) \
	EMU_WG(8, EMU_BF16, d, ra, 0, b, add, 0, tb)
#define wg_f16_64x8(d, a, b, add, ta, tb) \
	EMU_WG(8, EMU_F16, d, 0, a, b, add, ta, tb)
#define wg_f16_rs_64x8(d, ra, b, add, tb) \
	EMU_WG(8, EMU_F16, d, ra, 0, b, add, 0, tb)
#define wg_e4m3_64x8(d, a, b, add) \
	EMU_WG(8, EMU_E4M3, d, 0, a, b, add, 0, 0)
#define wg_tf32_64x8(d, a, b, add) \
	EMU_WG(8, EMU_TF32, d, 0, a, b, add, 0, 0)
#define wg_bf16_64x16(d, a, b, add, ta, tb) \
	EMU_WG(16, EMU_BF16, d, 0, a, b, add, ta, tb)
#define wg_bf16_rs_64x16(d, ra, b, add, tb) \
	EMU_WG(16, EMU_BF16, d, ra, 0, b, add, 0, tb)
#define wg_f16_64x16(d, a, b, add, ta, tb) \
	EMU_WG(16, EMU_F16, d, 0, a, b, add, ta, tb)
#define wg_f16_rs_64x16(d, ra, b, add, tb) \
	EMU_WG(16, EMU_F16, d, ra, 0, b, add, 0, tb)
#define wg_e4m3_64x16(d, a, b, add) \
	EMU_WG(16, EMU_E4M3, d, 0, a, b, add, 0, 0)
#define wg_tf32_64x16(d, a, b, add) \
	EMU_WG(16, EMU_TF32, d, 0, a, b, add, 0, 0)
#define wg_bf16_64x32(d, a, b, add, ta, tb) \
	EMU_WG(32, EMU_BF16, d, 0, a, b, add, ta, tb)
#define wg_bf16_rs_64x32(d, ra, b, add, tb) \
	EMU_WG(32, EMU_BF16, d, ra, 0, b, add, 0, tb)
#define wg_f16_64x32(d, a, b, add, ta, tb) \
	EMU_WG(32, EMU_F16, d, 0, a, b, add, ta, tb)
#define wg_f16_rs_64x32(d, ra, b, add, tb) \
	EMU_WG(32, EMU_F16, d, ra, 0, b, add, 0, tb)
#define wg_e4m3_64x32(d, a, b, add) \
	EMU_WG(32, EMU_E4M3, d, 0, a, b, add, 0, 0)
#define wg_tf32_64x32(d, a, b, add) \
	EMU_WG(32, EMU_TF32, d, 0, a, b, add, 0, 0)
#define wg_bf16_64x64(d, a, b, add, ta, tb) \
	EMU_WG(64, EMU_BF16, d, 0, a, b, add, ta, tb)
#define wg_bf16_rs_64x64(d, ra, b, add, tb) \
	EMU_WG(64, EMU_BF16, d, ra, 0, b, add, 0, tb)
#define wg_f16_64x64(d, a, b, add, ta, tb) \
	EMU_WG(64, EMU_F16, d, 0, a, b, add, ta, tb)
#define wg_f16_rs_64x64(d, ra, b, add, tb) \
	EMU_WG(64, EMU_F16, d, ra, 0, b, add, 0, tb)
#define wg_e4m3_64x64(d, a, b, add) \
	EMU_WG(64, EMU_E4M3, d, 0, a, b, add, 0, 0)
#define wg_tf32_64x64(d, a, b, add) \
	EMU_WG(64, EMU_TF32, d, 0, a, b, add, 0, 0)
#define wg_bf16_64x96(d, a, b, add, ta, tb) \
	EMU_WG(96, EMU_BF16, d, 0, a, b, add, ta, tb)
#define wg_bf16_rs_64x96(d, ra, b, add, tb) \
	EMU_WG(96, EMU_BF16, d, ra, 0, b, add, 0, tb)
#define wg_f16_64x96(d, a, b, add, ta, tb) \
	EMU_WG(96, EMU_F16, d, 0, a, b, add, ta, tb)
#define wg_f16_rs_64x96(d, ra, b, add, tb) \
	EMU_WG(96, EMU_F16, d, ra, 0, b, add, 0, tb)
#define wg_e4m3_64x96(d, a, b, add) \
	EMU_WG(96, EMU_E4M3, d, 0, a, b, add, 0, 0)
#define wg_tf32_64x96(d, a, b, add) \
	EMU_WG(96, EMU_TF32, d, 0, a, b, add, 0, 0)
#define wg_bf16_64x128(d, a, b, add, ta, tb) \
	EMU_WG(128, EMU_BF16, d, 0, a, b, add, ta, tb)
#define wg_bf16_rs_64x128(d, ra, b, add, tb) \
	EMU_WG(128, EMU_BF16, d, ra, 0, b, add, 0, tb)
#define wg_f16_64x128(d, a, b, add, ta, tb) \
	EMU_WG(128, EMU_F16, d, 0, a, b, add, ta, tb)
#define wg_f16_rs_64x128(d, ra, b, add, tb) \
	EMU_WG(128, EMU_F16, d, ra, 0, b, add, 0, tb)
#define wg_e4m3_64x128(d, a, b, add) \
	EMU_WG(128, EMU_E4M3, d, 0, a, b, add, 0, 0)
#define wg_tf32_64x128(d, a, b, add) \
	EMU_WG(128, EMU_TF32, d, 0, a, b, add, 0, 0)
#define wg_bf16_64x192(d, a, b, add, ta, tb) \
	EMU_WG(192, EMU_BF16, d, 0, a, b, add, ta, tb)
#define wg_bf16_rs_64x192(d, ra, b, add, tb) \
	EMU_WG(192, EMU_BF16, d, ra, 0, b, add, 0, tb)
#define wg_f16_64x192(d, a, b, add, ta, tb) \
	EMU_WG(192, EMU_F16, d, 0, a, b, add, ta, tb)
#define wg_f16_rs_64x192(d, ra, b, add, tb) \
	EMU_WG(192, EMU_F16, d, ra, 0, b, add, 0, tb)
#define wg_e4m3_64x192(d, a, b, add) \
	EMU_WG(192, EMU_E4M3, d, 0, a, b, add, 0, 0)
#define wg_tf32_64x192(d, a, b, add) \
	EMU_WG(192, EMU_TF32, d, 0, a, b, add, 0, 0)
#define wg_bf16_64x256(d, a, b, add, ta, tb) \
	EMU_WG(256, EMU_BF16, d, 0, a, b, add, ta, tb)
#define wg_bf16_rs_64x256(d, ra, b, add, tb) \
	EMU_WG(256, EMU_BF16, d, ra, 0, b, add, 0, tb)
#define wg_f16_64x256(d, a, b, add, ta, tb) \
	EMU_WG(256, EMU_F16, d, 0, a, b, add, ta, tb)
#define wg_f16_rs_64x256(d, ra, b, add, tb) \
	EMU_WG(256, EMU_F16, d, ra, 0, b, add, 0, tb)
#define wg_e4m3_64x256(d, a, b, add) \
	EMU_WG(256, EMU_E4M3, d, 0, a, b, add, 0, 0)
#define wg_tf32_64x256(d, a, b, add) \
	EMU_WG(256, EMU_TF32, d, 0, a, b, add, 0, 0)

/* ---- sm_100a: tensor memory --------------------------------------------- */

#define elect_one() (LANE == 0)
#define tc_alloc(at, n) emu->tensor_alloc(at, n)
#define tc_relinquish() emu->tensor_relinquish()
#define tc_dealloc(at, n) emu->tensor_dealloc(at, n)
#define tc_mma_f16(d, a, b, form, add) \
	emu->tensor_mma(d, a, b, form, EMU_TC_F16, add)
#define tc_mma_tf32(d, a, b, form, add) \
	emu->tensor_mma(d, a, b, form, EMU_TC_TF32, add)
#define tc_mma_f8(d, a, b, form, add) \
	emu->tensor_mma(d, a, b, form, EMU_TC_F8, add)
#define tc_mma_f16_left(d, a, b, form, add) \
	emu->tensor_mma_left(d, a, b, form, EMU_TC_F16, add)
#define tc_commit(bar) emu->tensor_commit(bar, 0)
#define tc_commit_multi(bar, mask) emu->tensor_commit(bar, mask)
#define tc_fence_before() emu->tensor_fence(0)
#define tc_fence_after() emu->tensor_fence(1)
#define tc_ld32(d, at) emu->tensor_load(d, at, 32)
#define tc_ld64(d, at) emu->tensor_load(d, at, 64)
#define tc_wait(d, n) ((void)(d), emu->tensor_wait())
#define tc_st32(at, x) emu->tensor_store(at, x, 0)
#define tc_st32_pairs(at, w) emu->tensor_store(at, w, 1)
#define tc_wait_st() emu->tensor_wait_store()
