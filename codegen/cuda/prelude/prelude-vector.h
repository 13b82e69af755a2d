/*
 * prelude-vector.h - for loop nests: vector loads and stores of adjacent
 * elements, and reductions over teams of threads.
 */

#ifdef __CUDACC_RTC__
#define UNROLL _Pragma("unroll")
#define UNROLL_4 _Pragma("unroll 4")
#define UNROLL_2 _Pragma("unroll 2")
#define ROLLED _Pragma("unroll 1")
#define CONSTANT static __device__ const
#else
#define UNROLL
#define UNROLL_4
#define UNROLL_2
#define ROLLED
#define CONSTANT static const
#endif

FN f32
f_inf(void)
{
	return bits_f32(0x7f800000u);
}

FN f32
f_nan(void)
{
	return bits_f32(0x7fc00000u);
}

FN i64
i64_most(void)
{
	return 0x7fffffffffffffffll;
}

/* ---- elements of a vector ----------------------------------------------- */

/* A register holds one of 4 bytes, two of 2, or four of 1. */
#define VECTOR_1(type, out, widen, narrow) \
	FN void split_##type(out *to, u32 x) \
	{ \
		to[0] = widen(x); \
	} \
	FN u32 joined_##type(const out *x) \
	{ \
		return narrow(x[0]); \
	}
#define VECTOR_2(type, widen, narrow) \
	FN void split_##type(f32 *to, u32 x) \
	{ \
		to[0] = widen((u16)x); \
		to[1] = widen((u16)(x >> 16)); \
	} \
	FN u32 joined_##type(const f32 *x) \
	{ \
		return narrow(x[0], x[1]); \
	}
#define VECTOR_4(type) \
	FN void split_##type(f32 *to, u32 x) \
	{ \
		to[0] = type##_f32((u8)x); \
		to[1] = type##_f32((u8)(x >> 8)); \
		to[2] = type##_f32((u8)(x >> 16)); \
		to[3] = type##_f32((u8)(x >> 24)); \
	} \
	FN u32 joined_##type(const f32 *x) \
	{ \
		return (u32)f32_##type(x[0]) | (u32)f32_##type(x[1]) << 8 | \
		       (u32)f32_##type(x[2]) << 16 | \
		       (u32)f32_##type(x[3]) << 24; \
	}

VECTOR_1(f32, f32, bits_f32, f32_bits)
VECTOR_1(i32, i32, (i32), (u32))
VECTOR_2(bf16, bf16_f32, pack_bf16)
VECTOR_2(f16, f16_f32, pack_f16)
VECTOR_4(e4m3)
VECTOR_4(e5m2)

/*
 * get_bf16_8(to, from) and so on: loads and stores of so many elements.  These
 * are plain loads, since a kernel may overwrite what it reads.  Vectors are
 * variables on their way: GCC instruments assignments of structures, but
 * neither an argument that a call reads from memory nor a result that one
 * leaves there, and what is not instrumented no emulated race is seen of.
 */
#define MOVE_16(type, out, n) \
	FN void fill_##type##_##n(out *to, u32x4 v) \
	{ \
		split_##type(to, v.x); \
		split_##type(to + n / 4, v.y); \
		split_##type(to + n / 2, v.z); \
		split_##type(to + 3 * n / 4, v.w); \
	} \
	FN void get_##type##_##n(out *to, const void *from) \
	{ \
		u32x4 v = *(const u32x4 *)from; \
	\
		fill_##type##_##n(to, v); \
	} \
	FN void put_##type##_##n(void *to, const out *from) \
	{ \
		u32x4 v = u32x4_of(joined_##type(from), \
			joined_##type(from + n / 4), \
			joined_##type(from + n / 2), \
			joined_##type(from + 3 * n / 4)); \
	\
		*(u32x4 *)to = v; \
	}
#define MOVE_8(type, out, n) \
	FN void fill_##type##_##n(out *to, u32x2 v) \
	{ \
		split_##type(to, v.x); \
		split_##type(to + n / 2, v.y); \
	} \
	FN void get_##type##_##n(out *to, const void *from) \
	{ \
		u32x2 v = *(const u32x2 *)from; \
	\
		fill_##type##_##n(to, v); \
	} \
	FN void put_##type##_##n(void *to, const out *from) \
	{ \
		u32x2 v = u32x2_of(joined_##type(from), \
				   joined_##type(from + n / 2)); \
	\
		*(u32x2 *)to = v; \
	}
#define MOVE_4(type, out, n) \
	FN void get_##type##_##n(out *to, const void *from) \
	{ \
		split_##type(to, *(const u32 *)from); \
	} \
	FN void put_##type##_##n(void *to, const out *from) \
	{ \
		*(u32 *)to = joined_##type(from); \
	}

MOVE_16(f32, f32, 4)
MOVE_8(f32, f32, 2)
MOVE_16(i32, i32, 4)
MOVE_8(i32, i32, 2)
MOVE_16(bf16, f32, 8)
MOVE_8(bf16, f32, 4)
MOVE_4(bf16, f32, 2)
MOVE_16(f16, f32, 8)
MOVE_8(f16, f32, 4)
MOVE_4(f16, f32, 2)
MOVE_8(e4m3, f32, 8)
MOVE_4(e4m3, f32, 4)
MOVE_8(e5m2, f32, 8)
MOVE_4(e5m2, f32, 4)

/* Weights that are stored as whole numbers are only loaded. */
FN void
get_i8_4(f32 *to, const void *from)
{
	u32 x = *(const u32 *)from;

	to[0] = (f32)(i8)x;
	to[1] = (f32)(i8)(x >> 8);
	to[2] = (f32)(i8)(x >> 16);
	to[3] = (f32)(i8)(x >> 24);
}

FN void
get_i8_8(f32 *to, const void *from)
{
	get_i8_4(to, from);
	get_i8_4(to + 4, (const u32 *)from + 1);
}

typedef struct LLMC_ALIGN(16) f64x2 {
	f64 x, y;
} f64x2;

FN void
get_f64_2(f64 *to, const void *from)
{
	f64x2 v = *(const f64x2 *)from;

	to[0] = v.x;
	to[1] = v.y;
}

FN void
put_f64_2(void *to, const f64 *from)
{
	f64x2 v;

	v.x = from[0];
	v.y = from[1];
	*(f64x2 *)to = v;
}

/* ---- over teams of threads ---------------------------------------------- */

FN int
shfl_xor_int(int x, int mask)
{
	return (int)shfl_xor_u32((u32)x, mask);
}

FN i64
shfl_xor_i64(i64 x, int mask)
{
	u32 low = shfl_xor_u32((u32)(u64)x, mask);
	u32 high = shfl_xor_u32((u32)((u64)x >> 32), mask);

	return (i64)((u64)high << 32 | low);
}

FN f64
shfl_xor_f64(f64 x, int mask)
{
	union {
		f64 f;
		i64 i;
	} u;

	u.f = x;
	u.i = shfl_xor_i64(u.i, mask);
	return u.f;
}

#define TEAM_SUM(a, b) ((a) + (b))
#define TEAM_MOST(a, b) ((a) > (b) ? (a) : (b))
#define TEAM_LEAST(a, b) ((a) < (b) ? (a) : (b))

/*
 * over_warp_: the lanes of a warp. over_block_: all threads of the block.
 * over_strips_: the threads of the same lane in all warps.  Every thread gets
 * the same result, reduced in the same order each time.  The last two use
 * shared memory, and synchronize before they return.
 */
#define TEAM(name, type, op, none) \
	FN type over_warp_##name##_##type(type x) \
	{ \
		type y; \
		int i; \
		UNROLL \
		for (i = 16; i > 0; i >>= 1) { \
			y = shfl_xor_##type(x, i); \
			x = op(x, y); \
		} \
		return x; \
	} \
	FN type over_block_##name##_##type(type x) \
	{ \
		type *scratch = (type *)SMEM; \
		x = over_warp_##name##_##type(x); \
		if (LANE == 0) { \
			scratch[WARP] = x; \
		} \
		sync_block(); \
		x = LANE < NTHREADS / 32 ? scratch[LANE] : (none); \
		x = over_warp_##name##_##type(x); \
		sync_block(); \
		return x; \
	} \
	FN type over_strips_##name##_##type(type x) \
	{ \
		type *scratch = (type *)SMEM; \
		int i; \
		scratch[TID] = x; \
		sync_block(); \
		x = scratch[LANE]; \
		for (i = 1; i < NTHREADS / 32; i++) { \
			x = op(x, scratch[32 * i + LANE]); \
		} \
		sync_block(); \
		return x; \
	}

TEAM(sum, f32, TEAM_SUM, 0)
TEAM(most, f32, f_max, -f_inf())
TEAM(least, f32, f_min, f_inf())
TEAM(sum, f64, TEAM_SUM, 0)
TEAM(most, f64, TEAM_MOST, -(f64)f_inf())
TEAM(least, f64, TEAM_LEAST, (f64)f_inf())
TEAM(sum, int, TEAM_SUM, 0)
TEAM(most, int, TEAM_MOST, -2147483647)
TEAM(least, int, TEAM_LEAST, 2147483647)
TEAM(sum, i64, TEAM_SUM, 0)
TEAM(most, i64, TEAM_MOST, -i64_most())
TEAM(least, i64, TEAM_LEAST, i64_most())
