/*
 * Operands of matrix products in shared memory: the canonical layouts that
 * wgmma and tcgen05 share (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared
 * Memory Layout" and "Canonical Layouts").
 */
#include "runtime/emulate/emulate_inner.h"

#include <string.h>

/* ---- elements ---- */

int
emu_kind_bytes(int kind)
{
	return kind == EMU_E4M3 || kind == EMU_E5M2 ? 1
		: kind == EMU_TF32 ? 4 : 2;
}

int
emu_kind_depth(int kind)
{
	return 32 / emu_kind_bytes(kind);
}

/*
 * Where 16 bytes lie that begin with element (row, k): rows of `swizzle` bytes
 * in groups of 8, 1024 bytes for 128.  The bits of an address that select 16
 * bytes within a row are XORed with those that number rows.
 */
static unsigned
chunk_address(const struct emu_operand *o, int row, int k)
{
	int t = 16 / o->elem, w = o->swizzle / 16;
	int across = (o->trans ? row : k) / t;	/* 16 bytes, contiguous */
	int down = o->trans ? k : row;
	unsigned at, mask = (unsigned)w - 1;

	if (o->swizzle == 16) {
		/* the two strides are swapped */
		at = (unsigned)(down % 8 * 16 +
				down / 8 * (o->trans ? o->lead : o->stride) +
				across * (o->trans ? o->stride : o->lead));
	} else if (o->trans) {
		at = (unsigned)(down % 8 * o->swizzle +
				down / 8 * o->stride + across % w * 16 +
				across / w * o->lead);
	} else {
		at = (unsigned)(down % 8 * o->swizzle +
				down / 8 * o->stride + across * 16);
	}
	at += o->at;
	return at ^ ((at >> 7 & mask) << 4);
}

float
emu_element(int kind, const char *p)
{
	uint16_t x;
	uint32_t u;
	float f;

	if (kind == EMU_TF32) {
		/* the tensor core ignores the last 13 bits */
		memcpy(&u, p, sizeof u);
		u &= 0xffffe000;
		memcpy(&f, &u, sizeof f);
		return f;
	}
	if (kind == EMU_E4M3 || kind == EMU_E5M2) {
		return kind == EMU_E4M3 ? emu_e4m3(*(const uint8_t *)p)
			: emu_e5m2(*(const uint8_t *)p);
	}
	memcpy(&x, p, sizeof x);
	return kind == EMU_BF16 ? emu_bf16(x) : emu_f16(x);
}

void
emu_operand_fetch(struct rt_emu *e, const struct emu_operand *o, int kind,
		  int rows, int depth, float *out, int by_row, int by_k)
{
	int t = 16 / o->elem, row, k, i;
	int row_step = o->trans ? t : 1, k_step = o->trans ? 1 : t;
	const char *p;
	float *at;

	for (k = 0; k < depth; k += k_step) {
		for (row = 0; row < rows; row += row_step) {
			p = emu_smem(e, chunk_address(o, row, k), 16, 16,
				     o->what);
			at = out + row * by_row + k * by_k;
			for (i = 0; i < t; i++) {
				at[i * (o->trans ? by_row : by_k)] =
					emu_element(kind, p + i * o->elem);
			}
		}
	}
}

void
emu_operand_each(struct rt_emu *e, const struct emu_operand *o, int from,
		 int rows, int depth, void (*f)(struct rt_emu *, unsigned at))
{
	int t = 16 / o->elem, row, k;

	for (k = 0; k < depth; k += o->trans ? 1 : t) {
		for (row = 0; row < rows; row += o->trans ? t : 1) {
			f(e, chunk_address(o, from + row, k));
		}
	}
}
