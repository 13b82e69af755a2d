/*
 * measure_gemm.c - a contraction on all cores, the way libraries do it
 * (Goto and van de Geijn, ACM TOMS 34(3), 2008): blocks of B and A are packed
 * in the order in which the register tile reads them.  Each thread has a part
 * of C to itself, so that nobody waits for anybody.
 */
#include "runtime/measure/measure_cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t
least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t
up(int64_t n, int64_t to)
{
	return (n + to - 1) / to * to;
}

/* ---- elements ---- */

size_t
rt_rate_bytes(enum rt_rate r)
{
	return r == RT_RATE_FP32 || r == RT_RATE_TF32 ? 4 : 2;
}

size_t
rt_tile_bytes(const struct rt_tile *t)
{
	return t->widens ? 4 : rt_rate_bytes(t->rate);
}

int
rt_tile_round(const struct rt_tile *t)
{
	return t->unit_a > t->unit_b ? t->unit_a : t->unit_b;
}

static float
from_bf16(uint16_t v)
{
	uint32_t bits = (uint32_t)v << 16;
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

/* To the nearest, ties to even; no NaN comes here. */
uint16_t
rt_to_bf16(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof bits);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double
rt_element(const void *from, enum rt_rate rate, int64_t i)
{
	return rate == RT_RATE_BF16
		? (double)from_bf16(((const uint16_t *)from)[i])
		: (double)((const float *)from)[i];
}

void
rt_fill(void *to, enum rt_rate rate, int64_t n, uint32_t seed)
{
	uint32_t x = seed;
	int64_t i;

	for (i = 0; i < n; i++) {
		float v;

		x = x * 1664525 + 1013904223;
		v = (float)(int32_t)x / 2147483648.0f;
		if (rate == RT_RATE_BF16) {
			((uint16_t *)to)[i] = rt_to_bf16(v);
		} else {
			((float *)to)[i] = v;
		}
	}
}

/* ---- packing ---- */

#define AS_IT_IS(x) (x)

/*
 * One line of `width` elements after the other if they lie side by side, else
 * one row at a time; both read what is side by side.
 */
#define PACK(name, from_type, to_type, convert) \
static void \
name(to_type *to, struct rt_view v, int n, int width, int64_t kc, int unit) \
{ \
	const from_type *from = v.at; \
	int64_t k; \
	int i; \
 \
	if (v.step_i == 1) { \
		for (k = 0; k < kc; k++) { \
			const from_type *line = from + k * v.step_k; \
			to_type *out = to + k / unit * width * unit + \
				       k % unit; \
 \
			for (i = 0; i < n; i++) { \
				out[i * unit] = convert(line[i]); \
			} \
		} \
		return; \
	} \
	for (i = 0; i < n; i++) { \
		const from_type *line = from + i * v.step_i; \
		to_type *out = to + i * unit; \
 \
		for (k = 0; k < kc; k++) { \
			out[k / unit * width * unit + k % unit] = \
				convert(line[k * v.step_k]); \
		} \
	} \
}

PACK(pack_fp32, float, float, AS_IT_IS)
PACK(pack_bf16, uint16_t, uint16_t, AS_IT_IS)
PACK(pack_wider, uint16_t, float, from_bf16)

/* ---- packing rows: 4-byte words that lie side by side along k ---- */

/* Word k of row i to place k * width + i, of 4 rows by 4 words. */
#if defined(__x86_64__)
#include <emmintrin.h>

static void
turn_four(uint32_t *to, int width, const char *from, size_t row)
{
	const __m128i *at = (const void *)from;
	__m128i x0, x1, x2, x3, ab, cd, *out = (void *)to;

	/* no loops: gcc -O2 would keep arrays in memory */
	x0 = _mm_loadu_si128(at);
	x1 = _mm_loadu_si128((const void *)(from + row));
	x2 = _mm_loadu_si128((const void *)(from + 2 * row));
	x3 = _mm_loadu_si128((const void *)(from + 3 * row));
	ab = _mm_unpacklo_epi32(x0, x1);
	cd = _mm_unpacklo_epi32(x2, x3);
	_mm_storeu_si128(out, _mm_unpacklo_epi64(ab, cd));
	out = (void *)(to + width);
	_mm_storeu_si128(out, _mm_unpackhi_epi64(ab, cd));
	ab = _mm_unpackhi_epi32(x0, x1);
	cd = _mm_unpackhi_epi32(x2, x3);
	out = (void *)(to + 2 * width);
	_mm_storeu_si128(out, _mm_unpacklo_epi64(ab, cd));
	out = (void *)(to + 3 * width);
	_mm_storeu_si128(out, _mm_unpackhi_epi64(ab, cd));
}
#else
static void
turn_four(uint32_t *to, int width, const char *from, size_t row)
{
	int i, k;

	for (k = 0; k < 4; k++) {
		for (i = 0; i < 4; i++) {
			memcpy(to + k * width + i,
			       from + (size_t)i * row + 4 * k, sizeof *to);
		}
	}
}
#endif

static void
pack_rows(uint32_t *to, const char *from, size_t row, int n, int width,
	  int64_t words)
{
	int64_t k;
	int i;

	for (k = 0; k + 4 <= words; k += 4) {
		for (i = 0; i + 4 <= n; i += 4) {
			turn_four(to + k * width + i, width,
				  from + (size_t)i * row + 4 * k, row);
		}
	}
	for (i = 0; i < n; i++) {
		for (k = i < n / 4 * 4 ? words / 4 * 4 : 0; k < words; k++) {
			memcpy(to + k * width + i,
			       from + (size_t)i * row + 4 * k, sizeof *to);
		}
	}
}

/* Are they so, and words as they are? */
static bool
is_row(const struct rt_tile *t, struct rt_view v, int64_t kc, int unit)
{
	return v.step_k == 1 && !t->widens && kc % unit == 0 &&
	       rt_tile_bytes(t) * (size_t)unit == 4;
}

/* Do columns lie side by side, and k in whole units? */
static bool
is_line(struct rt_view v, int64_t kc, int unit)
{
	return v.step_i == 1 && unit <= 2 && kc % unit == 0;
}

/*
 * Whole lines, which is what a column of B is nearly always; of sizes that
 * the compiler knows.
 */
static void
pack_lines(float *to, struct rt_view v, int n, int64_t kc)
{
	const float *from = v.at;

	for (; n == 16 && kc > 0; kc--, from += v.step_k, to += 16) {
		memcpy(to, from, 16 * sizeof *to);
	}
	for (; kc > 0; kc--, from += v.step_k, to += RT_TILE_NR) {
		memcpy(to, from, RT_TILE_NR * sizeof *to);
	}
}

/* Lines of some fours of f32. */
static void
pack_fours(float *to, struct rt_view v, int n, int width, int64_t kc)
{
	const float *from = v.at;
	int i;

	for (; kc > 0; kc--, from += v.step_k, to += width) {
		for (i = 0; i < n; i += 4) {
			memcpy(to + i, from + i, 4 * sizeof *to);
		}
	}
}

/* Whole lines of bf16, each of which becomes the upper half of an f32. */
static void
pack_wider_lines(uint32_t *to, struct rt_view v, int n, int64_t kc)
{
	const uint16_t *from = v.at;
	int i, j;

	for (; kc > 0; kc--, from += v.step_k, to += n) {
		for (i = 0; i < n; i += 16) {
			for (j = 0; j < 16; j++) {
				to[i + j] = (uint32_t)from[i + j] << 16;
			}
		}
	}
}

/* The same in pairs of bf16; the first of a pair is the lower half. */
static void
pack_pairs(uint32_t *to, struct rt_view v, int64_t kc)
{
	const uint16_t *from = v.at;
	int i;

	for (; kc > 0; kc -= 2, from += 2 * v.step_k, to += RT_TILE_NR) {
		for (i = 0; i < RT_TILE_NR; i++) {
			to[i] = from[i] | (uint32_t)from[v.step_k + i] << 16;
		}
	}
}

void
rt_pack(const struct rt_tile *t, void *to, struct rt_view from, int n,
	int width, int64_t kc, int unit, int round)
{
	if (n < width || kc % round != 0) {
		memset(to, 0, (size_t)up(kc, round) * (size_t)width *
			      rt_tile_bytes(t));
	}
	if (n == width && is_line(from, kc, unit) &&
	    (n == RT_TILE_NR || (n == 16 && unit == 1))) {
		if (t->widens) {
			pack_wider_lines(to, from, n, kc);
		} else if (unit == 1) {
			pack_lines(to, from, n, kc);
		} else {
			pack_pairs(to, from, kc);
		}
		return;
	}
	if (is_row(t, from, kc, unit)) {
		pack_rows(to, from.at, (size_t)from.step_i *
			  rt_tile_bytes(t), n, width, kc / unit);
		return;
	}
	/* a unit that the compiler knows is what makes packing fast */
	if (t->rate != RT_RATE_BF16 && from.step_i == 1 && n % 4 == 0) {
		pack_fours(to, from, n, width, kc);
	} else if (t->rate != RT_RATE_BF16) {
		pack_fp32(to, from, n, width, kc, 1);
	} else if (t->widens) {
		pack_wider(to, from, n, width, kc, 1);
	} else if (unit == 2) {
		pack_bf16(to, from, n, width, kc, 2);
	} else {
		pack_bf16(to, from, n, width, kc, unit);
	}
}

/* ---- one thread's part ---- */

struct gemm {
	const struct rt_tile *t;
	struct rt_matmul x;
	const void *a, *b;
	float *c;
	int rows, cols; /* of the grid of threads */
	char *packed; /* of all threads */
	size_t packed_bytes; /* of one */
	int runs;
};

/* What one thread does, and where it packs. */
struct part {
	const struct gemm *g;
	int64_t m0, m1, n0, n1;
	char *a, *b;
};

static size_t
packed_a_bytes(const struct rt_tile *t)
{
	return (size_t)up(up(t->mc, t->mr) * up(t->kc, 32), 64) *
	       rt_tile_bytes(t);
}

static size_t
packed_b_bytes(const struct rt_tile *t)
{
	return (size_t)up(up(t->nc, t->nr) * up(t->kc, 32), 64) *
	       rt_tile_bytes(t);
}

/* A block of C and of k. */
struct block {
	int64_t i, j, k, m, n, kc;
	bool packed; /* B */
};

static const void *
at(const struct gemm *g, const void *base, int64_t elem)
{
	return (const char *)base + (size_t)elem * rt_rate_bytes(g->t->rate);
}

static void
pack_a(const struct part *p, const struct block *b)
{
	const struct rt_tile *t = p->g->t;
	int round = rt_tile_round(t);
	size_t panel = (size_t)up(b->kc, round) * (size_t)t->mr *
		       rt_tile_bytes(t);
	char *to = p->a;
	int64_t i;

	for (i = 0; i < b->m; i += t->mr, to += panel) {
		struct rt_view v = { at(p->g, p->g->a, (b->i + i) * p->g->x.k +
					b->k), p->g->x.k, 1 };

		rt_pack(t, to, v, (int)least(t->mr, b->m - i), t->mr, b->kc,
			t->unit_a, round);
	}
}

/* Of B: so many lines side by side are read ahead of by the machine. */
#define ROWS_AT_ONCE 16

static void
pack_b(const struct part *p, const struct block *b)
{
	const struct rt_tile *t = p->g->t;
	int round = rt_tile_round(t);
	size_t panel = (size_t)up(b->kc, round) * (size_t)t->nr *
		       rt_tile_bytes(t);
	int64_t rows = round > ROWS_AT_ONCE ? round : ROWS_AT_ONCE, j, k;

	for (k = 0; k < b->kc; k += rows) {
		char *to = p->b + (size_t)(k * t->nr) * rt_tile_bytes(t);

		for (j = 0; j < b->n; j += t->nr, to += panel) {
			struct rt_view v = { at(p->g, p->g->b, (b->k + k) *
					p->g->x.n + b->j + j), 1, p->g->x.n };
			int n = (int)least(t->nr, b->n - j);

			if (b->packed || n < t->nr) {
				rt_pack(t, to, v, n, t->nr,
					least(rows, b->kc - k), t->unit_b,
					round);
			}
		}
	}
}

/* A tile that sticks out goes by a whole one beside it. */
static void
ragged(const struct rt_tile *t, int64_t kc, const void *a, const void *b,
       int64_t ldb, float *c, int64_t ldc, int64_t m, int64_t n, bool add)
{
	float whole[RT_TILE_MR * RT_TILE_NR];
	int64_t i, j;

	t->run(kc, a, b, ldb, whole, t->nr, false);
	for (i = 0; i < m; i++) {
		for (j = 0; j < n; j++) {
			float v = whole[i * t->nr + j];

			c[i * ldc + j] = add ? c[i * ldc + j] + v : v;
		}
	}
}

static void
block_of_c(const struct part *p, const struct block *b)
{
	const struct gemm *g = p->g;
	const struct rt_tile *t = g->t;
	int64_t kc = up(b->kc, rt_tile_round(t)), i, j, ldc = g->x.n;
	size_t deep = (size_t)kc * rt_tile_bytes(t);
	bool add = b->k > 0;

	for (j = 0; j < b->n; j += t->nr) {
		bool packed = b->packed || b->n - j < t->nr;
		const void *panel = packed ? p->b + (size_t)j * deep
			: at(g, g->b, b->k * g->x.n + b->j + j);
		int64_t ldb = packed ? t->nr : g->x.n;

		for (i = 0; i < b->m; i += t->mr) {
			const void *a = p->a + (size_t)i * deep;
			float *c = g->c + (b->i + i) * ldc + b->j + j;

			if (b->m - i >= t->mr && b->n - j >= t->nr) {
				t->run(kc, a, panel, ldb, c, ldc, add);
			} else {
				ragged(t, kc, a, panel, ldb, c, ldc,
				       least(t->mr, b->m - i),
				       least(t->nr, b->n - j), add);
			}
		}
	}
}

/* Rows up to which B is read where it lies, for packing costs as much. */
#define FEW_ROWS 48

static void
multiply(const struct part *p)
{
	const struct gemm *g = p->g;
	const struct rt_tile *t = g->t;
	struct block b;

	b.packed = rt_tile_bytes(t) != rt_rate_bytes(t->rate) ||
		   t->unit_b > 1 || p->m1 - p->m0 > FEW_ROWS;
	for (b.j = p->n0; b.j < p->n1; b.j += t->nc) {
		b.n = least(t->nc, p->n1 - b.j);
		for (b.k = 0; b.k < g->x.k; b.k += t->kc) {
			b.kc = least(t->kc, g->x.k - b.k);
			pack_b(p, &b);
			for (b.i = p->m0; b.i < p->m1; b.i += t->mc) {
				b.m = least(t->mc, p->m1 - b.i);
				pack_a(p, &b);
				block_of_c(p, &b);
			}
		}
	}
}

static void
work(void *user, int i, int n)
{
	const struct gemm *g = user;
	const struct rt_tile *t = g->t;
	int64_t tall = up((g->x.m + g->rows - 1) / g->rows, t->mr);
	int64_t wide = up((g->x.n + g->cols - 1) / g->cols, t->nr);
	struct part p = { .g = g };
	int run;

	(void)n;
	p.m0 = least(g->x.m, i / g->cols * tall);
	p.m1 = least(g->x.m, p.m0 + tall);
	p.n0 = least(g->x.n, i % g->cols * wide);
	p.n1 = least(g->x.n, p.n0 + wide);
	p.a = g->packed + (size_t)i * g->packed_bytes;
	p.b = p.a + packed_a_bytes(t);
	if (t->enter) {
		t->enter();
	}
	for (run = 0; run < g->runs; run++) {
		multiply(&p);
	}
	if (t->leave) {
		t->leave();
	}
}

/* The grid whose largest part is smallest, and then the squarest. */
static void
choose_grid(struct gemm *g, int threads)
{
	int64_t best = INT64_MAX;
	int r;

	for (r = 1; r <= threads; r++) {
		int64_t tall, wide, size;

		if (threads % r != 0) {
			continue;
		}
		tall = up((g->x.m + r - 1) / r, g->t->mr);
		wide = up((g->x.n + threads / r - 1) / (threads / r),
			  g->t->nr);
		/* what is computed, and then what is packed */
		size = tall * wide * g->x.k / 64 + (tall + wide) * g->x.k;
		if (size < best) {
			best = size;
			g->rows = r;
			g->cols = threads / r;
		}
	}
}

/* ---- a shape ---- */

struct shape {
	struct gemm g;
	struct rt_pool *pool;
	size_t a_bytes, b_bytes, c_bytes;
};

static void
shape_free(struct shape *s)
{
	rt_pages_free((void *)(uintptr_t)s->g.a, s->a_bytes);
	rt_pages_free((void *)(uintptr_t)s->g.b, s->b_bytes);
	rt_pages_free(s->g.c, s->c_bytes);
	rt_pages_free(s->g.packed, s->g.packed_bytes *
		      (size_t)rt_pool_threads(s->pool));
}

static bool
shape_make(struct shape *s, struct rt_pool *pool, const struct rt_tile *t,
	   const struct rt_matmul *x)
{
	int threads = rt_pool_threads(pool);
	size_t elem = rt_rate_bytes(x->rate);
	void *a, *b;

	*s = (struct shape){ .pool = pool };
	s->g.t = t;
	s->g.x = *x;
	choose_grid(&s->g, threads);
	s->g.packed_bytes = packed_a_bytes(t) + packed_b_bytes(t);
	s->a_bytes = (size_t)(x->m * x->k) * elem;
	s->b_bytes = (size_t)(x->k * x->n) * elem;
	s->c_bytes = (size_t)(x->m * x->n) * sizeof(float);
	s->g.a = a = rt_pages(s->a_bytes);
	s->g.b = b = rt_pages(s->b_bytes);
	s->g.c = rt_pages(s->c_bytes);
	s->g.packed = rt_pages(s->g.packed_bytes * (size_t)threads);
	if (!a || !b || !s->g.c || !s->g.packed) {
		shape_free(s);
		return false;
	}
	rt_fill(a, x->rate, x->m * x->k, 1);
	rt_fill(b, x->rate, x->k * x->n, 2);
	return true;
}

/* Sums of k products below 1 in fp32, in whatever order. */
static bool
element_agrees(const struct gemm *g, int64_t i, int64_t j)
{
	double want = 0;
	int64_t k;

	for (k = 0; k < g->x.k; k++) {
		want += rt_element(g->a, g->x.rate, i * g->x.k + k) *
			rt_element(g->b, g->x.rate, k * g->x.n + j);
	}
	return fabs(want - (double)g->c[i * g->x.n + j]) <=
	       1e-6 * sqrt((double)g->x.k) * 8;
}

/* The corners and some of the rest; of a small shape everything. */
#define LOOKS 61

static bool
shape_agrees(const struct gemm *g)
{
	int64_t n = g->x.m * g->x.n, step = n / LOOKS + 1, at_elem;

	for (at_elem = 0; at_elem < n; at_elem += step) {
		if (!element_agrees(g, at_elem / g->x.n, at_elem % g->x.n)) {
			return false;
		}
	}
	return element_agrees(g, g->x.m - 1, g->x.n - 1) &&
	       element_agrees(g, g->x.m - 1, 0) &&
	       element_agrees(g, 0, g->x.n - 1);
}

static enum rt_status
run_shape(void *user, int runs, struct rt_stretch *out, struct rt_error *err)
{
	struct shape *s = user;

	(void)err;
	s->g.runs = runs;
	rt_pool_time(s->pool, work, &s->g, out);
	return RT_OK;
}

enum rt_status
rt_cpu_matmul(struct rt_pool *p, const struct rt_tile *t,
	      const struct rt_matmul *x, const struct rt_pace *pace,
	      struct rt_sample *out, struct rt_error *err)
{
	enum rt_status status;
	struct shape s;

	if (!shape_make(&s, p, t, x)) {
		return rt_no_memory(err, NULL);
	}
	status = rt_sample_take(pace, rt_pool_threads(p), run_shape, &s, out,
				err);
	if (status == RT_OK && !shape_agrees(&s.g)) {
		status = rt_fail(err, RT_FORMAT, (struct rt_where){ NULL, NULL,
			-1 }, "%s computes %lldx%lldx%lld wrong", t->name,
			(long long)x->m, (long long)x->n, (long long)x->k);
	}
	shape_free(&s);
	return status;
}

bool
rt_tile_agrees(struct rt_pool *p, const struct rt_tile *t)
{
	/* ragged in all three, and more than one block of k */
	struct rt_matmul x = { t->rate, 2 * t->mr + 5, t->nr + 7, t->kc + 37 };
	struct shape s;
	int64_t i;
	bool ok;

	if (!shape_make(&s, p, t, &x)) {
		return false;
	}
	s.g.runs = 1;
	rt_pool_run(p, work, &s.g);
	ok = true;
	for (i = 0; i < x.m * x.n && ok; i++) {
		ok = element_agrees(&s.g, i / x.n, i % x.n);
	}
	shape_free(&s);
	return ok;
}
