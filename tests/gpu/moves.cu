/*
 * Kernels with a race each, between two warps that do not wait for each other:
 * of each load of the prelude that moves a vector, and of each store.  For
 * t-moves.c, which has their names too.
 */
#include "prelude.h"

struct moves_args {
	char *at;
};

/* Each thread reads what one of the other warp writes. */
#define READS(name, type, get) \
	KERNEL(read_##name, 64, 1, struct moves_args) \
	{ \
		u32 *s = (u32 *)(SMEM + 16 * TID); \
		const void *from = SMEM + 16 * (TID ^ 32); \
		type x[8]; \
	\
		s[0] = s[1] = s[2] = s[3] = 0; \
		get; \
		((type *)a.at)[TID] = x[0]; \
	}

/* Each thread writes where one of the other warp does. */
#define WRITES(name, type, put) \
	KERNEL(written_##name, 64, 1, struct moves_args) \
	{ \
		void *to = SMEM + 16 * (TID % 32); \
		type x[8]; \
	\
		memory_of(x, sizeof x); \
		put; \
	}

/* Numbers, whichever their type is. */
FN void
memory_of(void *p, int bytes)
{
	for (int i = 0; i < bytes; i++) {
		((u8 *)p)[i] = (u8)i;
	}
}

#define GET(name, type) READS(name, type, get_##name(x, from))
#define BOTH(name, type) \
	GET(name, type) \
	WRITES(name, type, put_##name(to, x))
#define VALUE(load, store, type) \
	READS(load, type, x[0] = load(from)) \
	WRITES(store, type, store(to, x[0]))

BOTH(f32_4, f32)
BOTH(f32_2, f32)
BOTH(i32_4, i32)
BOTH(i32_2, i32)
BOTH(bf16_8, f32)
BOTH(bf16_4, f32)
BOTH(bf16_2, f32)
BOTH(f16_8, f32)
BOTH(f16_4, f32)
BOTH(f16_2, f32)
BOTH(e4m3_8, f32)
BOTH(e4m3_4, f32)
BOTH(e5m2_8, f32)
BOTH(e5m2_4, f32)
BOTH(f64_2, f64)
GET(i8_4, f32)
GET(i8_8, f32)
VALUE(ld16, st16, u32x4)
VALUE(ld8, st8, u32x2)
VALUE(lds16, sts16, u32x4)
VALUE(lds8, sts8, u32x2)
