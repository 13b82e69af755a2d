/*
 * measure_tile.c - register tiles: all sums of a tile of C stay in registers
 * while A and B stream past.  One tile per instruction set; which of them the
 * machine has is asked when it runs, so one binary holds all.
 *
 * Sizes: 12 x 32 leaves 6 of 32 zmm registers for B and broadcasts of A, 6 x
 * 16 leaves 4 of 16 ymm, and the two FMA pipes need 8 to 10 sums under way.
 * Each asks for its part of C before it needs it, as compiled ones do.
 */
#include "runtime/device/cpuid.h"
#include "runtime/measure/measure_cpu.h"

#include <string.h>

/* ---- everywhere ---- */

static bool
always(void)
{
	return true;
}

typedef float four __attribute__((vector_size(16)));

enum { PLAIN_MR = 4, PLAIN_NR = 8 };

static void
plain_tile(int64_t kc, const void *pa, const void *pb, int64_t ldb, float *c,
	   int64_t ldc, bool add)
{
	const float *a = pa, *b = pb;
	four sum[PLAIN_MR][2], left, right;
	int64_t k;
	int i, j;

	memset(sum, 0, sizeof sum);
	for (k = 0; k < kc; k++, a += PLAIN_MR, b += ldb) {
		memcpy(&left, b, sizeof left);
		memcpy(&right, b + 4, sizeof right);
		for (i = 0; i < PLAIN_MR; i++) {
			sum[i][0] += a[i] * left;
			sum[i][1] += a[i] * right;
		}
	}
	for (i = 0; i < PLAIN_MR; i++) {
		for (j = 0; j < PLAIN_NR; j++) {
			float v = sum[i][j / 4][j % 4];

			c[i * ldc + j] = add ? c[i * ldc + j] + v : v;
		}
	}
}

/* ---- x86-64 ---- */

#if defined(__x86_64__)
#include <immintrin.h>

#define ROWS6(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define ROWS12(X) ROWS6(X) X(6) X(7) X(8) X(9) X(10) X(11)

static bool
has_avx2(void)
{
	return rt_cpu_has("avx2") && rt_cpu_has("fma");
}

#define ASK(i) __builtin_prefetch(c + i * ldc);
#define ZERO(i) __m256 l##i = _mm256_setzero_ps(), r##i = l##i;
#define STEP(i) \
	x = _mm256_broadcast_ss(a + i); \
	l##i = _mm256_fmadd_ps(x, left, l##i); \
	r##i = _mm256_fmadd_ps(x, right, r##i);
#define ADD(i) \
	l##i = _mm256_add_ps(l##i, _mm256_loadu_ps(c + i * ldc)); \
	r##i = _mm256_add_ps(r##i, _mm256_loadu_ps(c + i * ldc + 8));
#define STORE(i) \
	_mm256_storeu_ps(c + i * ldc, l##i); \
	_mm256_storeu_ps(c + i * ldc + 8, r##i);

__attribute__((target("avx2,fma")))
static void
avx2_tile(int64_t kc, const void *pa, const void *pb, int64_t ldb, float *c,
	  int64_t ldc, bool add)
{
	const float *a = pa, *b = pb;
	__m256 left, right, x;

	ROWS6(ASK)
	ROWS6(ZERO)
	for (; kc > 0; kc--, a += 6, b += ldb) {
		left = _mm256_loadu_ps(b);
		right = _mm256_loadu_ps(b + 8);
		ROWS6(STEP)
	}
	if (add) {
		ROWS6(ADD)
	}
	ROWS6(STORE)
}

#undef ASK
#undef ZERO
#undef STEP
#undef ADD
#undef STORE

static bool
has_avx512(void)
{
	return rt_cpu_has("avx512f");
}

#define ASK(i) \
	__builtin_prefetch(c + i * ldc); \
	__builtin_prefetch(c + i * ldc + 16);
#define ZERO(i) __m512 l##i = _mm512_setzero_ps(), r##i = l##i;
#define STEP(i) \
	x = _mm512_set1_ps(a[i]); \
	l##i = _mm512_fmadd_ps(x, left, l##i); \
	r##i = _mm512_fmadd_ps(x, right, r##i);
#define ADD(i) \
	l##i = _mm512_add_ps(l##i, _mm512_loadu_ps(c + i * ldc)); \
	r##i = _mm512_add_ps(r##i, _mm512_loadu_ps(c + i * ldc + 16));
#define STORE(i) \
	_mm512_storeu_ps(c + i * ldc, l##i); \
	_mm512_storeu_ps(c + i * ldc + 16, r##i);

__attribute__((target("avx512f")))
static void
avx512_tile(int64_t kc, const void *pa, const void *pb, int64_t ldb, float *c,
	    int64_t ldc, bool add)
{
	const float *a = pa, *b = pb;
	__m512 left, right, x;

	ROWS12(ASK)
	ROWS12(ZERO)
	for (; kc > 0; kc--, a += 12, b += ldb) {
		left = _mm512_loadu_ps(b);
		right = _mm512_loadu_ps(b + 16);
		ROWS12(STEP)
	}
	if (add) {
		ROWS12(ADD)
	}
	ROWS12(STORE)
}

#undef STEP

static bool
has_avx512bf16(void)
{
	return has_avx512() && rt_cpu_has("avx512bf16");
}

/* Two elements of k at a time: a pair of A against 32 pairs of B. */
#define STEP(i) \
	memcpy(&pair, a + 2 * i, sizeof pair); \
	x = (__m512bh)_mm512_set1_epi32(pair); \
	l##i = _mm512_dpbf16_ps(l##i, x, left); \
	r##i = _mm512_dpbf16_ps(r##i, x, right);

__attribute__((target("avx512f,avx512bf16")))
static void
avx512bf16_tile(int64_t kc, const void *pa, const void *pb, int64_t ldb,
		float *c, int64_t ldc, bool add)
{
	const uint16_t *a = pa, *b = pb;
	__m512bh left, right, x;
	int pair;

	(void)ldb;
	ROWS12(ASK)
	ROWS12(ZERO)
	for (; kc > 0; kc -= 2, a += 24, b += 64) {
		left = (__m512bh)_mm512_loadu_si512(b);
		right = (__m512bh)_mm512_loadu_si512(b + 32);
		ROWS12(STEP)
	}
	if (add) {
		ROWS12(ADD)
	}
	ROWS12(STORE)
}

#undef ASK
#undef ZERO
#undef STEP
#undef ADD
#undef STORE

/* ---- AMX: two tiles of A against two of B, 32 elements of k a step ---- */

static bool
has_amx(void)
{
	return rt_cpu_has("amx-tile") && rt_cpu_has("amx-bf16") &&
	       rt_cpu_allow("amx-tile");
}

/* As ldtilecfg reads it: palette 1; 16 rows of 64 bytes, eight times. */
struct tile_config {
	uint8_t palette, start, zeros[14];
	uint16_t bytes[16];
	uint8_t rows[16];
};

/*
 * Not by _tile_loadconfig: of GCC 12 that declares a pointer to be read, 8 of
 * the 64 bytes, and the compiler drops stores to the others.
 */
static void
amx_enter(void)
{
	struct tile_config t = { .palette = 1 };
	int i;

	for (i = 0; i < 8; i++) {
		t.bytes[i] = 64;
		t.rows[i] = 16;
	}
	__asm__ volatile("ldtilecfg %0" : : "m"(t));
}

__attribute__((target("amx-tile")))
static void
amx_leave(void)
{
	_tile_release();
}

/* GCC 12's _tile_loadd does not say that it reads memory. */
#define PACKED __asm__ volatile("" : : : "memory")

__attribute__((target("amx-tile,amx-bf16")))
static void
amx_tile(int64_t kc, const void *pa, const void *pb, int64_t ldb, float *c,
	 int64_t ldc, bool add)
{
	const uint16_t *a = pa, *b = pb;
	size_t row = (size_t)ldc * sizeof *c;

	(void)ldb;
	PACKED;
	if (add) {
		_tile_loadd(0, c, row);
		_tile_loadd(1, c + 16, row);
		_tile_loadd(2, c + 16 * ldc, row);
		_tile_loadd(3, c + 16 * ldc + 16, row);
	} else {
		_tile_zero(0);
		_tile_zero(1);
		_tile_zero(2);
		_tile_zero(3);
	}
	for (; kc > 0; kc -= 32, a += 32 * 32, b += 32 * 32) {
		_tile_loadd(4, a, 64);
		_tile_loadd(5, a + 16 * 32, 64);
		_tile_loadd(6, b, 128);
		_tile_loadd(7, b + 32, 128);
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(1, 4, 7);
		_tile_dpbf16ps(2, 5, 6);
		_tile_dpbf16ps(3, 5, 7);
	}
	_tile_stored(0, c, row);
	_tile_stored(1, c + 16, row);
	_tile_stored(2, c + 16 * ldc, row);
	_tile_stored(3, c + 16 * ldc + 16, row);
}
#endif

/* ---- the table ---- */

/*
 * kc: a column of B's panels and a panel of A in the first cache, or nearly;
 * mc rows of A in half of a second cache of 1 MB; nc columns of B in a share
 * of the last.
 */
const struct rt_tile rt_tiles[] = {
#if defined(__x86_64__)
	{ "avx512", RT_RATE_FP32, false, 12, 32, 1, 1, 384, 240, 2048,
	  has_avx512, NULL, NULL, avx512_tile },
	{ "avx2", RT_RATE_FP32, false, 6, 16, 1, 1, 256, 144, 2048,
	  has_avx2, NULL, NULL, avx2_tile },
#endif
	{ "plain", RT_RATE_FP32, false, PLAIN_MR, PLAIN_NR, 1, 1, 256, 128,
	  1024, always, NULL, NULL, plain_tile },
#if defined(__x86_64__)
	{ "amx", RT_RATE_BF16, false, 32, 32, 32, 2, 512, 256, 2048,
	  has_amx, amx_enter, amx_leave, amx_tile },
	{ "avx512bf16", RT_RATE_BF16, false, 12, 32, 2, 2, 512, 240, 2048,
	  has_avx512bf16, NULL, NULL, avx512bf16_tile },
	{ "avx512", RT_RATE_BF16, true, 12, 32, 1, 1, 384, 240, 2048,
	  has_avx512, NULL, NULL, avx512_tile },
	{ "avx2", RT_RATE_BF16, true, 6, 16, 1, 1, 256, 144, 2048,
	  has_avx2, NULL, NULL, avx2_tile },
#endif
	{ "plain", RT_RATE_BF16, true, PLAIN_MR, PLAIN_NR, 1, 1, 256, 128,
	  1024, always, NULL, NULL, plain_tile }
};
const size_t rt_ntiles = sizeof rt_tiles / sizeof *rt_tiles;
