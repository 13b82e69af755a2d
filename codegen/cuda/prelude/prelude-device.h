/*
 * prelude-device.h - the prelude for NVRTC, sm_80 and later: all PTX that
 * kernels use is in this file, prelude-async.h and prelude-wgmma.h.
 */

#define FN static __device__ __forceinline__

/* 0 blocks: the compiler may use as many registers as threads can have. */
#define LLMC_BOUNDS_0(threads) __launch_bounds__(threads)
#define LLMC_BOUNDS_1(threads) __launch_bounds__(threads, 1)
#define LLMC_BOUNDS_2(threads) __launch_bounds__(threads, 2)
#define LLMC_BOUNDS_3(threads) __launch_bounds__(threads, 3)
#define LLMC_BOUNDS_4(threads) __launch_bounds__(threads, 4)
#define LLMC_BOUNDS_5(threads) __launch_bounds__(threads, 5)
#define LLMC_BOUNDS_6(threads) __launch_bounds__(threads, 6)
#define LLMC_BOUNDS_7(threads) __launch_bounds__(threads, 7)
#define LLMC_BOUNDS_8(threads) __launch_bounds__(threads, 8)
#define LLMC_BOUNDS_9(threads) __launch_bounds__(threads, 9)
#define LLMC_BOUNDS_10(threads) __launch_bounds__(threads, 10)
#define LLMC_BOUNDS_11(threads) __launch_bounds__(threads, 11)
#define LLMC_BOUNDS_12(threads) __launch_bounds__(threads, 12)
#define LLMC_BOUNDS_13(threads) __launch_bounds__(threads, 13)
#define LLMC_BOUNDS_14(threads) __launch_bounds__(threads, 14)
#define LLMC_BOUNDS_15(threads) __launch_bounds__(threads, 15)
#define LLMC_BOUNDS_16(threads) __launch_bounds__(threads, 16)
#define LLMC_BOUNDS_24(threads) __launch_bounds__(threads, 24)
#define LLMC_BOUNDS_32(threads) __launch_bounds__(threads, 32)

#define KERNEL(name, threads, minblocks, ARGS) \
	extern "C" __global__ void LLMC_BOUNDS_##minblocks(threads) \
	name(const __grid_constant__ ARGS a)

#define TID ((int)threadIdx.x)
#define LANE ((int)threadIdx.x & 31)
#define WARP ((int)threadIdx.x >> 5)
#define NTHREADS ((int)blockDim.x)
#define BLOCK_X ((int)blockIdx.x)
#define BLOCK_Y ((int)blockIdx.y)
#define BLOCK_Z ((int)blockIdx.z)
#define NBLOCKS_X ((int)gridDim.x)
#define NBLOCKS_Y ((int)gridDim.y)
#define NBLOCKS_Z ((int)gridDim.z)

/* BLOCK_X, read where this stands: what follows from it is computed there, and
 * needs no registers before. */
FN int
block_x_again(void)
{
	int x;

	asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
	return x;
}

/* The same of TID, from which nothing follows that is computed before a loop,
 * and kept. */
FN int
thread_again(void)
{
	int x;

	asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
	return x;
}

extern __shared__ __align__(1024) char llmc_smem[];
#define SMEM (llmc_smem)

#define LLMC_ALL 0xffffffffu

/* ---- bits --------------------------------------------------------------- */

FN u32
f32_bits(f32 x)
{
	return __float_as_uint(x);
}

FN f32
bits_f32(u32 x)
{
	return __uint_as_float(x);
}

FN u64
mul_high(u64 a, u64 b)
{
	return __umul64hi(a, b);
}

/* ---- threads ------------------------------------------------------------ */

FN u32
smem_addr(const void *p)
{
	return (u32)__cvta_generic_to_shared(p);
}

FN void
sync_block(void)
{
	__syncthreads();
}

FN void
sync_warp(void)
{
	__syncwarp();
}

/* For whole warps: these are .aligned. */
FN void
sync_named(int id, int threads)
{
	asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory");
}

FN void
arrive_named(int id, int threads)
{
	asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads)
		     : "memory");
}

/*
 * Waits until the kernel before this one has ended and what it wrote can be
 * read.  Then the next kernel may begin, up to its own wait: it has what this
 * one has waited for.  Of no effect where a launch does not allow that.
 *
 * What a block needs of its multiprocessor, tensor memory too, it has before
 * this.  So when a block of the next kernel takes what this one leaves, all
 * blocks of this one have theirs, and end without it.
 */
FN void
launch_wait(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

FN void
threadfence(void)
{
	__threadfence();
}

FN f32
shfl_xor_f32(f32 x, int mask)
{
	return __shfl_xor_sync(LLMC_ALL, x, mask);
}

FN u32
shfl_xor_u32(u32 x, int mask)
{
	return __shfl_xor_sync(LLMC_ALL, x, mask);
}

FN f32
shfl_f32(f32 x, int lane)
{
	return __shfl_sync(LLMC_ALL, x, lane);
}

FN u32
shfl_u32(u32 x, int lane)
{
	return __shfl_sync(LLMC_ALL, x, lane);
}

FN f32
shfl_down_f32(f32 x, int n)
{
	return __shfl_down_sync(LLMC_ALL, x, n);
}

FN u32
ballot(int x)
{
	return __ballot_sync(LLMC_ALL, x);
}

/* Whether x is true of any lane. */
FN int
warp_any(int x)
{
	return __any_sync(LLMC_ALL, x);
}

FN f32
atomic_add_f32(f32 *p, f32 x)
{
	return atomicAdd(p, x);
}

FN i32
atomic_add_i32(i32 *p, i32 x)
{
	return atomicAdd(p, x);
}

FN i32
atomic_cas_i32(i32 *p, i32 expected, i32 x)
{
	return atomicCAS(p, expected, x);
}

/* ---- elements ----------------------------------------------------------- */

FN f32
bf16_f32(bf16 x)
{
	return bits_f32((u32)x << 16);
}

FN bf16
f32_bf16(f32 x)
{
	bf16 r;

	asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
	return r;
}

FN f32
f16_f32(f16 x)
{
	f32 r;

	asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
	return r;
}

FN f16
f32_f16(f32 x)
{
	f16 r;

	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
	return r;
}

/* The first operand of these is the upper half. */
FN u32
pack_bf16(f32 lo, f32 hi)
{
	u32 r;

	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
	return r;
}

FN u32
pack_f16(f32 lo, f32 hi)
{
	u32 r;

	asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
	return r;
}

/* x & y ^ z, by one instruction, also of two constants. */
FN u32
and_xor(u32 x, u32 y, u32 z)
{
	u32 r;

	asm("lop3.b32 %0, %1, %2, %3, 0x6a;"
	    : "=r"(r) : "r"(x), "r"(y), "r"(z));
	return r;
}

/* The two lowest bytes of a word as the upper ones of its halves. */
FN u32
bytes_apart(u32 x)
{
	u32 r;

	asm("prmt.b32 %0, %1, 0, 0x1404;" : "=r"(r) : "r"(x));
	return r;
}

/* Products of two pairs. */
FN u32
mul_bf16(u32 x, u32 y)
{
	u32 r;

	asm("fma.rn.bf16x2 %0, %1, %2, %3;"
	    : "=r"(r) : "r"(x), "r"(y), "r"(0x80008000u));
	return r;
}

FN u32
mul_f16(u32 x, u32 y)
{
	u32 r;

	asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
	return r;
}

/* Differences of two pairs. */
FN u32
sub_bf16(u32 x, u32 y)
{
	u32 r;

	asm("fma.rn.bf16x2 %0, %1, %2, %3;"
	    : "=r"(r) : "r"(y), "r"(0xbf80bf80u), "r"(x));
	return r;
}

FN u32
sub_f16(u32 x, u32 y)
{
	u32 r;

	asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
	return r;
}

FN u32
to_tf32(f32 x)
{
	u32 r;

	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
	return r;
}

#if __CUDA_ARCH__ >= 890
#define LLMC_HAS_F8 1

FN e4m3
f32_e4m3(f32 x)
{
	u16 r;

	asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
	    : "=h"(r) : "f"(0.0f), "f"(x));
	return (e4m3)r;
}

FN e5m2
f32_e5m2(f32 x)
{
	u16 r;

	asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;"
	    : "=h"(r) : "f"(0.0f), "f"(x));
	return (e5m2)r;
}
#endif

/* ---- 8 and 16 bytes ----------------------------------------------------- */

/*
 * Global memory that no thread of the kernel writes.  The kernel before may
 * still write it when this one begins: so .nc is not allowed (PTX ISA: what it
 * reads is read-only as long as the kernel runs), and `volatile` keeps a load
 * after launch_wait.
 */
FN u32x4
ld16(const void *p)
{
	u32x4 r;

	asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
		     : "l"(__cvta_generic_to_global(p)));
	return r;
}

FN u32x2
ld8(const void *p)
{
	u32x2 r;

	asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
		     : "=r"(r.x), "=r"(r.y)
		     : "l"(__cvta_generic_to_global(p)));
	return r;
}

FN void
st16(void *p, u32x4 x)
{
	asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
		     :: "l"(__cvta_generic_to_global(p)), "r"(x.x),
		     "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}

FN void
st8(void *p, u32x2 x)
{
	asm volatile("st.global.v2.u32 [%0], {%1, %2};"
		     :: "l"(__cvta_generic_to_global(p)), "r"(x.x), "r"(x.y)
		     : "memory");
}

FN u32x4
lds16(const void *p)
{
	u32x4 r;

	asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
		     : "r"(smem_addr(p)) : "memory");
	return r;
}

FN u32x2
lds8(const void *p)
{
	u32x2 r;

	asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
		     : "=r"(r.x), "=r"(r.y) : "r"(smem_addr(p)) : "memory");
	return r;
}

FN void
sts16(void *p, u32x4 x)
{
	asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
		     :: "r"(smem_addr(p)), "r"(x.x), "r"(x.y), "r"(x.z),
		     "r"(x.w) : "memory");
}

FN void
sts8(void *p, u32x2 x)
{
	asm volatile("st.shared.v2.u32 [%0], {%1, %2};"
		     :: "r"(smem_addr(p)), "r"(x.x), "r"(x.y) : "memory");
}

/* ---- functions ---------------------------------------------------------- */

#define f_rsqrt(x) rsqrtf(x)
#define f_min(a, b) fminf(a, b)
#define f_max(a, b) fmaxf(a, b)

FN f32
f_fast_exp2(f32 x)
{
	f32 r;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
	return r;
}

/* Without the slow path of a division that is rounded to the nearest, which is
 * a call: within 2 ulp (PTX ISA, "div"). */
FN f32
f_div(f32 a, f32 b)
{
	f32 r;

	asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
	return r;
}

/* The same of a root: within 1 ulp. */
FN f32
f_sqrt(f32 x)
{
	f32 r;

	asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
	return r;
}

/*
 * 1 / (1 + 2^t) with t = -x log2(e) in two parts, within 4 ulp.  x is put
 * between -87, so that no result is less than 2^-126, which the reciprocal
 * would make 0, and 87, where all is 1; NaN stays NaN.
 */
FN f32
f_sigmoid(f32 x)
{
	f32 t, rest, e, r;

	asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(x), "f"(-87.0f));
	asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(x), "f"(87.0f));
	t = x * -1.44269504f;
	rest = fmaf(x, -1.44269504f, -t);
	rest = fmaf(x, -1.92596299e-8f, rest) * 0.693147181f;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(t));
	e = fmaf(e, rest, e);
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + e));
	return r;
}

FN f32
f_sin_turns(f64 turns)
{
	return sinpif((f32)(2.0 * (turns - rint(turns))));
}

FN f32
f_cos_turns(f64 turns)
{
	return cospif((f32)(2.0 * (turns - rint(turns))));
}

/* ---- cp.async: what is not read is 0 ------------------------------------ */

FN void
cp_async16(u32 to, const void *from, int bytes)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
		     :: "r"(to), "l"(__cvta_generic_to_global(from)),
		     "r"(bytes) : "memory");
}

FN void
cp_async8(u32 to, const void *from, int bytes)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
		     :: "r"(to), "l"(__cvta_generic_to_global(from)),
		     "r"(bytes) : "memory");
}

FN void
cp_async4(u32 to, const void *from, int bytes)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
		     :: "r"(to), "l"(__cvta_generic_to_global(from)),
		     "r"(bytes) : "memory");
}

FN void
cp_async_commit(void)
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

#define cp_async_wait(n) \
	asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")

/* ---- ldmatrix, stmatrix ------------------------------------------------- */

FN void
ldsm4(u32 *r, u32 at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
		     "{%0, %1, %2, %3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(at) : "memory");
}

FN void
ldsm4_t(u32 *r, u32 at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
		     "{%0, %1, %2, %3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(at) : "memory");
}

FN void
ldsm2(u32 *r, u32 at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, "
		     "[%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}

FN void
ldsm2_t(u32 *r, u32 at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 "
		     "{%0, %1}, [%2];"
		     : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}

#if __CUDA_ARCH__ >= 900
FN void
stsm4(u32 at, const u32 *r)
{
	asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], "
		     "{%1, %2, %3, %4};"
		     :: "r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
		     : "memory");
}

FN void
stsm4_t(u32 at, const u32 *r)
{
	asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], "
		     "{%1, %2, %3, %4};"
		     :: "r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
		     : "memory");
}
#endif

/* ---- mma: c += a b, sums in f32 ----------------------------------------- */

#define LLMC_MMA(name, shape) \
	FN void name(f32 *c, const u32 *a, const u32 *b) \
	{ \
		asm volatile("mma.sync.aligned." shape " " \
			     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, " \
			     "{%8, %9}, {%0, %1, %2, %3};" \
			     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), \
			     "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), \
			     "r"(a[3]), "r"(b[0]), "r"(b[1])); \
	}

LLMC_MMA(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
LLMC_MMA(mma_f16, "m16n8k16.row.col.f32.f16.f16.f32")
LLMC_MMA(mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
#if __CUDA_ARCH__ >= 890
LLMC_MMA(mma_e4m3, "m16n8k32.row.col.f32.e4m3.e4m3.f32")
LLMC_MMA(mma_e5m2, "m16n8k32.row.col.f32.e5m2.e5m2.f32")
#endif
