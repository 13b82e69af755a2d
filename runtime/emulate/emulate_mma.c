/*
 * Matrix products of a warp.  Fragments are laid over the lanes as in the PTX
 * ISA, "Matrix Fragments for mma.m16n8k16" and its neighbours. A register holds
 * as many elements, contiguous along k, as fit into it; so one rule covers all
 * types.
 */
#include "runtime/emulate/emulate_inner.h"

#include <math.h>
#include <string.h>

/* ---- elements ---- */

static float
float_of_bits(uint32_t x)
{
	float f;

	memcpy(&f, &x, sizeof f);
	return f;
}

float
emu_bf16(unsigned x)
{
	return float_of_bits(x << 16);
}

float
emu_f16(unsigned x)
{
	uint32_t m = x & 0x7fff;
	float f = m >= 0x7c00 ? float_of_bits(m << 13 | 0x7f800000)
		: float_of_bits(m << 13) * 0x1p112f;

	return x & 0x8000 ? -f : f;
}

float
emu_e4m3(unsigned x)
{
	uint32_t m = x & 0x7f;
	float f = m == 0x7f ? float_of_bits(0x7fc00000)
			    : float_of_bits(m << 20) * 0x1p120f;

	return x & 0x80 ? -f : f;
}

float
emu_e5m2(unsigned x)
{
	return emu_f16((x & 0xff) << 8);
}

/* Writes the elements of a register; returns how many. */
static int
unpack_register(unsigned r, int kind, float *out)
{
	int i;

	switch (kind) {
	case EMU_BF16:
		out[0] = float_of_bits(r << 16);
		out[1] = float_of_bits(r & 0xffff0000);
		return 2;
	case EMU_F16:
		out[0] = emu_f16(r & 0xffff);
		out[1] = emu_f16(r >> 16);
		return 2;
	case EMU_TF32:
		/* the tensor core ignores the last 13 bits */
		out[0] = float_of_bits(r & 0xffffe000);
		return 1;
	default:
		for (i = 0; i < 4; i++) {
			out[i] = kind == EMU_E4M3
				? emu_e4m3(r >> 8 * i & 0xff)
				: emu_e5m2(r >> 8 * i & 0xff);
		}
		return 4;
	}
}

/* ---- mma ---- */

struct product {
	float a[16][32], b[32][8];
	int k;
};

/* Two 16-bit elements in each register: the most frequent products. */
static void
gather_bf16(const struct emu_warp *w, struct product *p)
{
	int lane, g, t, i;

	for (lane = 0; lane < 32; lane++) {
		const unsigned *a = w->lanes[lane].ptr[1];
		const unsigned *b = w->lanes[lane].ptr[2];

		g = lane / 4;
		t = lane % 4 * 2;
		for (i = 0; i < 4; i++) {
			float *to = &p->a[g + i % 2 * 8][t + i / 2 * 8];

			to[0] = float_of_bits(a[i] << 16);
			to[1] = float_of_bits(a[i] & 0xffff0000);
		}
		for (i = 0; i < 2; i++) {
			p->b[t + i * 8][g] = float_of_bits(b[i] << 16);
			p->b[t + i * 8 + 1][g] =
				float_of_bits(b[i] & 0xffff0000);
		}
	}
	p->k = 16;
}

static void
gather_fragments(const struct emu_warp *w, int kind, struct product *p)
{
	float x[4];
	int lane, g, t, i, j, n = 0;

	for (lane = 0; lane < 32; lane++) {
		const unsigned *a = w->lanes[lane].ptr[1];
		const unsigned *b = w->lanes[lane].ptr[2];

		g = lane / 4;
		t = lane % 4;
		for (i = 0; i < 4; i++) {
			n = unpack_register(a[i], kind, x);
			for (j = 0; j < n; j++) {
				p->a[g + i % 2 * 8][t * n + i / 2 * 4 * n +
						    j] = x[j];
			}
		}
		for (i = 0; i < 2; i++) {
			n = unpack_register(b[i], kind, x);
			for (j = 0; j < n; j++) {
				p->b[t * n + i * 4 * n + j][g] = x[j];
			}
		}
	}
	p->k = 8 * n;
}

/* Eight columns at a time: a vector, also where compilers optimize little. */
#if defined(__GNUC__)
typedef float eight __attribute__((vector_size(32)));
typedef float eight_there __attribute__((vector_size(32), aligned(4),
					 may_alias));

static inline __attribute__((always_inline)) void
row(const float *a, const float *b, int apart, int depth, int n, float *c)
{
	int i, k;

	for (i = 0; i < n; i += 8) {
		eight sum = a[0] * *(const eight_there *)(b + i);

		for (k = 1; k < depth; k++) {
			sum += a[k] *
			       *(const eight_there *)(b + k * apart + i);
		}
		*(eight_there *)(c + i) = sum;
	}
}
#else
static void
row(const float *a, const float *b, int apart, int depth, int n, float *c)
{
	int i, k;

	for (i = 0; i < n; i++) {
		c[i] = a[0] * b[i];
		for (k = 1; k < depth; k++) {
			c[i] += a[k] * b[k * apart + i];
		}
	}
}
#endif

/* Products of 16 bits are exact in f32: one rounding or two are the same. */
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2,fma"))) static void
wide_row(const float *a, const float *b, int apart, int depth, int n,
	 float *c)
{
	row(a, b, apart, depth, n, c);
}

static bool
is_wide(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
static void
wide_row(const float *a, const float *b, int apart, int depth, int n,
	 float *c)
{
	row(a, b, apart, depth, n, c);
}

static bool
is_wide(void)
{
	return false;
}
#endif

void
emu_row(const float *a, const float *b, int apart, int depth, int n, float *c)
{
	if (is_wide()) {
		wide_row(a, b, apart, depth, n, c);
	} else {
		row(a, b, apart, depth, n, c);
	}
}

/*
 * Sums of elements of 8 bits, as users have measured them by wgmma on an H100
 * (DeepSeek-V3 Technical Report, section 3.5.2) and by mma on Ada and Hopper
 * (SageAttention2, arXiv:2411.10958): what one instruction adds up, the sum so
 * far among it, is aligned to the largest, of which 14 bits count; the rest is
 * cut off.
 */
#define SHORT_BITS 14
#define MOST_SHORT 32
#define LEAST_EXPONENT (-100)	/* less than any product of two elements */

static float
add_short(const float *a, const float *b, int apart, int depth, float d)
{
	float x[MOST_SHORT + 1], most = fabsf(d), steps;
	int exponent, k, sum = 0;	/* sum: of steps */

	for (k = 0; k < depth; k++) {
		x[k] = a[k] * b[k * apart];
		most = fabsf(x[k]) > most ? fabsf(x[k]) : most;
	}
	x[k++] = d;
	frexpf(most, &exponent);
	exponent = exponent > LEAST_EXPONENT ? exponent : LEAST_EXPONENT;
	steps = ldexpf(1, SHORT_BITS - exponent);
	while (k-- > 0) {
		sum += (int)(x[k] * steps);
	}
	return ldexpf((float)sum, exponent - SHORT_BITS);
}

float
emu_added(int kind, const float *a, const float *b, int apart, int depth,
	  float c, float d)
{
	return (kind == EMU_E4M3 || kind == EMU_E5M2) && isfinite(c + d)
		? add_short(a, b, apart, depth, d) : c + d;
}

void
emu_mma(float *c, const unsigned *a, const unsigned *b, int kind)
{
	static const char *const names[] = { "mma_bf16", "mma_f16",
					     "mma_tf32", "mma_e4m3",
					     "mma_e5m2" };
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;
	struct emu_task *lanes = t->warp->lanes;
	struct product p;
	float sum[8], *to;
	int m, j, i;

	t->ptr[0] = c;
	t->ptr[1] = (void *)(uintptr_t)a;
	t->ptr[2] = (void *)(uintptr_t)b;
	if (!emu_warp_meet(e, names[kind])) {
		return;
	}
	if (kind == EMU_BF16) {
		gather_bf16(t->warp, &p);
	} else {
		gather_fragments(t->warp, kind, &p);
	}
	for (m = 0; m < 16; m++) {
		emu_row(p.a[m], &p.b[0][0], 8, p.k, 8, sum);
		for (j = 0; j < 4; j++) {
			to = lanes[m % 8 * 4 + j].ptr[0];
			to += m / 8 * 2;
			for (i = 0; i < 2; i++) {
				to[i] = emu_added(kind, p.a[m],
						  &p.b[0][2 * j + i], 8, p.k,
						  sum[2 * j + i], to[i]);
			}
		}
	}
	emu_warp_go(e);
}

/* ---- ldmatrix, stmatrix: 8 rows of 16 bytes, from addresses of 8 lanes --- */

/* The part of a row that a lane has, the same for both. */
static void
row_and_col(int lane, int i, int trans, int *row, int *col)
{
	*row = trans ? lane % 4 * 2 + i : lane / 4;
	*col = trans ? lane / 4 : lane % 4 * 2 + i;
}

void
emu_ldsm(unsigned *r, unsigned at, int n, int trans)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;
	struct emu_task *lanes = t->warp->lanes;
	const char *rows[32];
	uint16_t x[2];
	int lane, i, j, row, col;

	t->ptr[0] = r;
	t->num[0] = at;
	if (!emu_warp_meet(e, trans ? n == 4 ? "ldsm4_t" : "ldsm2_t"
			   : n == 4 ? "ldsm4" : "ldsm2")) {
		return;
	}
	for (i = 0; i < 8 * n; i++) {
		rows[i] = emu_smem(e, lanes[i].num[0], 16, 16, "ldmatrix");
	}
	for (i = 0; i < 8 * n; i++) {
		emu_check_row(e, &lanes[i % 8 * 4], lanes[i].num[0], false);
	}
	for (lane = 0; lane < 32; lane++) {
		r = lanes[lane].ptr[0];
		for (j = 0; j < n; j++) {
			for (i = 0; i < 2; i++) {
				row_and_col(lane, i, trans, &row, &col);
				memcpy(&x[i], rows[8 * j + row] + 2 * col, 2);
			}
			r[j] = (unsigned)x[1] << 16 | x[0];
		}
	}
	emu_warp_go(e);
}

void
emu_stsm(unsigned at, const unsigned *r, int n, int trans)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;
	struct emu_task *lanes = t->warp->lanes;
	char *rows[32];
	uint16_t x;
	int lane, i, j, row, col;

	t->ptr[0] = (void *)(uintptr_t)r;
	t->num[0] = at;
	if (!emu_warp_meet(e, trans ? "stsm4_t" : "stsm4")) {
		return;
	}
	for (i = 0; i < 8 * n; i++) {
		rows[i] = emu_smem(e, lanes[i].num[0], 16, 16, "stmatrix");
	}
	for (i = 0; i < 8 * n; i++) {
		emu_check_row(e, &lanes[i % 8 * 4], lanes[i].num[0], true);
	}
	for (lane = 0; lane < 32; lane++) {
		r = lanes[lane].ptr[0];
		for (j = 0; j < n; j++) {
			for (i = 0; i < 2; i++) {
				row_and_col(lane, i, trans, &row, &col);
				x = (uint16_t)(r[j] >> 16 * i);
				memcpy(rows[8 * j + row] + 2 * col, &x, 2);
			}
		}
	}
	emu_warp_go(e);
}
