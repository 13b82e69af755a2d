/*
 * primitives.h - what primitives.cu is called with, and how what comes out is
 * told: for whoever runs it, by the emulator or on a GPU.  Plain C without
 * anything of llmc but runtime/abi.h.
 */
#ifndef TESTS_GPU_PRIMITIVES_H
#define TESTS_GPU_PRIMITIVES_H

#include "runtime/abi.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
	PRIMITIVE_IN_BYTES = 4 * 65536,
	PRIMITIVE_OUT_BYTES = 65536,
	PRIMITIVE_SMEM_BYTES = 40960 + 64,
	PRIMITIVE_MAPS = 4
};

/* All take one block; words that come out; the compute capability that alone
 * has it, or 0. */
static const struct primitive {
	const char *func;
	int64_t threads, words;
	int major;
} primitives[] = {
	{ "ldmatrix4", 32, 256, 0 },
	{ "ldmatrix2", 32, 128, 0 },
	{ "stmatrix", 32, 256, 0 },
	{ "product_bf16", 32, 128, 0 },
	{ "product_f16", 32, 128, 0 },
	{ "product_e4m3", 32, 128, 0 },
	{ "product_tf32", 32, 128, 0 },
	{ "int4_pairs", 32, 128, 0 },
	{ "byte_pairs", 128, 512, 0 },
	{ "box_swizzled", 128, 2048, 0 },
	{ "box_outside", 128, 2048, 0 },
	{ "box_plain", 128, 2048, 0 },
	{ "box_stored", 128, 2048, 0 },
	{ "bulk_added", 128, 2049, 0 },
	{ "wgmma_along_k", 128, 4096, 9 },
	{ "wgmma_along_mn", 128, 8192, 9 },
	{ "wgmma_registers", 128, 4096, 9 },
	{ "wgmma_cores", 128, 2048, 9 },
	{ "wgmma_e4m3", 128, 2048, 9 },
	{ "wgmma_tf32", 128, 2048, 9 },
	{ "tensor_along_k", 128, 8192, 10 },
	{ "tensor_along_mn", 128, 8192, 10 },
	{ "tensor_e4m3", 128, 4096, 10 },
	{ "tensor_tf32", 128, 4096, 10 },
	{ "tensor_left", 128, 8192, 10 },
	{ "tensor_stored", 128, 8192, 10 },
	{ "turns", 128, 8192, 0 },
	{ "angles", 128, 4096, 0 }
};

enum {
	PRIMITIVES = sizeof primitives / sizeof primitives[0]
};

/* Numbers -8/8 .. 8/8 of each type. */
static void
primitive_fill(char *in)
{
	uint32_t seed = 1, u, i, f16;
	static const uint8_t e4m3[9] = { 0x00, 0x20, 0x28, 0x2c, 0x30, 0x32,
					 0x34, 0x36, 0x38 };
	int n;
	float f;

	for (i = 0; i < 65536; i++) {
		seed = seed * 1664525 + 1013904223;
		n = (int)(seed >> 16) % 17 - 8;
		f = (float)n / 8;
		memcpy(&u, &f, sizeof u);
		f16 = n ? ((u >> 13) - (112u << 10)) & 0x7fff : 0;
		f16 |= n < 0 ? 0x8000 : 0;
		if (i < 32768) {
			memcpy(in + 2 * i, (char *)&u + 2, 2);
			memcpy(in + 65536 + 2 * i, &f16, 2);
		}
		in[131072 + i] = (char)(e4m3[n < 0 ? -n : n] |
					(n < 0 ? 0x80 : 0));
		if (i < 16384) {
			memcpy(in + 196608 + 4 * i, &f, 4);
		}
	}
}

static void
primitive_map(int i, struct rt_map *m)
{
	*m = (struct rt_map){ .operand = i == 3, .elem = i == 3 ? RT_ELEM_F32
				: RT_ELEM_BF16, .ndims = 2,
			      .size = { i == 2 ? 128 : i == 3 ? 32 : 64, 64 },
			      .stride = { 0, i == 2 ? 256 : 128 },
			      .box = { i == 3 ? 32 : 64, 64 },
			      .swizzle = i == 1 ? 0 : 128 };
}

/* A line of the list of what comes out: a sum of all, and some of it. */
static void
primitive_line(const struct primitive *p, const uint32_t *out, char *line,
	       size_t n)
{
	uint64_t sum = 0xcbf29ce484222325u;
	int64_t i;

	for (i = 0; i < p->words; i++) {
		sum = (sum ^ out[i]) * 0x100000001b3u;
	}
	snprintf(line, n, "%s %016llx %08x %08x %08x %08x", p->func,
		 (unsigned long long)sum, out[1], out[37], out[66],
		 out[p->words - 1]);
}

#endif
