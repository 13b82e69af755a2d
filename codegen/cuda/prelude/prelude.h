/*
 * prelude.h - what the text of a kernel may use.  Everything that depends on
 * the machine is in one of two files: PTX for NVRTC, and C for the emulator.
 */
#ifndef LLMC_PRELUDE_H
#define LLMC_PRELUDE_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;
/* as stored; see bf16_f32 and the others */
typedef u16 bf16;
typedef u16 f16;
typedef u8 e4m3;
typedef u8 e5m2;
typedef signed char i8;

#define LLMC_ALIGN(n) __attribute__((aligned(n)))

typedef struct LLMC_ALIGN(8) u32x2 {
	u32 x, y;
} u32x2;

typedef struct LLMC_ALIGN(16) u32x4 {
	u32 x, y, z, w;
} u32x4;

typedef struct LLMC_ALIGN(8) f32x2 {
	f32 x, y;
} f32x2;

typedef struct LLMC_ALIGN(16) f32x4 {
	f32 x, y, z, w;
} f32x4;

/* struct rt_pieces of the runtime */
struct pieces {
	i64 n, total;
	struct {
		i64 start, count;
	} at[9];
};

typedef struct LLMC_ALIGN(64) tensor_map {
	u8 opaque[128];
} tensor_map;

#ifdef __CUDACC_RTC__
#include "prelude-device.h"
#include "prelude-async.h"
#include "prelude-wgmma.h"
#include "prelude-tcgen05.h"
#else
#include "prelude-host.h"
#endif
#include "prelude-common.h"
#include "prelude-vector.h"

#endif
