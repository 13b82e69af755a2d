/*
 * measure_attend.c - attention on all cores, laid out as the compiler does it
 * for a CPU: scores have a key in each row and queries side by side, so that
 * the largest score and the sum of a query are vectors, and both products
 * take single numbers of one matrix times vectors of another; in f32.  A block
 * of queries is as wide as a tile, and goes past the keys with a running
 * maximum and sum (Dao, arXiv:2307.08691).
 */
#include "runtime/measure/measure_cpu.h"

#include <math.h>
#include <string.h>

/* Keys that are looked at together, and blocks of queries of an item. */
enum { LEAST = 64, KEYS = 256, BLOCKS = 4, MOST_DIM = 128 };

struct attend {
	const struct rt_tile *t;
	struct rt_attend x;
	const float *q, *k, *v;
	float *out;
	char *own; /* of all threads */
	size_t own_bytes;
	int runs;
};

/* What one thread has to itself; rows are padded to whole tiles. */
struct own {
	float scores[(KEYS + RT_TILE_MR) * RT_TILE_NR];
	float sums[(MOST_DIM + RT_TILE_MR) * RT_TILE_NR];
	float query[MOST_DIM * RT_TILE_NR];
	float top[RT_TILE_NR], total[RT_TILE_NR];
	float packed[]; /* keys, and then values, of a head */
};

static int64_t
least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t
whole_tiles(const struct attend *g, int64_t rows)
{
	return (rows + g->t->mr - 1) / g->t->mr * g->t->mr;
}

/* Of one block of keys, and of their values. */
static int64_t
key_elems(const struct attend *g)
{
	return whole_tiles(g, KEYS) * g->x.head_dim;
}

static int64_t
value_elems(const struct attend *g)
{
	return whole_tiles(g, g->x.head_dim) * KEYS;
}

static int64_t
key_blocks(const struct attend *g)
{
	return (g->x.keys + KEYS - 1) / KEYS;
}

/* Rows as panels of tiles, one behind another. */
static void
pack_rows(const struct attend *g, float *to, struct rt_view v, int64_t rows,
	  int64_t kc)
{
	const struct rt_tile *t = g->t;
	const float *base = v.at;
	int64_t i;

	for (i = 0; i < rows; i += t->mr, to += t->mr * kc) {
		v.at = base + i * v.step_i;
		rt_pack(t, to, v, (int)least(rows - i, t->mr), t->mr, kc, 1,
			1);
	}
}

static void
pack_head(const struct attend *g, int64_t head, struct own *o)
{
	int64_t d = g->x.head_dim, j;
	float *keys = o->packed, *values = keys + key_blocks(g) * key_elems(g);

	for (j = 0; j < g->x.keys; j += KEYS) {
		int64_t at = (head * g->x.keys + j) * d;
		int64_t n = least(KEYS, g->x.keys - j);
		struct rt_view k = { g->k + at, d, 1 };
		struct rt_view v = { g->v + at, 1, d };

		pack_rows(g, keys, k, n, d);
		pack_rows(g, values, v, d, n);
		keys += key_elems(g);
		values += value_elems(g);
	}
}

/* C[rows][block] (+)= panels times columns that lie side by side. */
static void
multiply(const struct attend *g, const float *panels, int64_t rows,
	 int64_t kc, int64_t packed_kc, const float *columns, float *c,
	 bool add)
{
	const struct rt_tile *t = g->t;
	int64_t i;

	for (i = 0; i < rows; i += t->mr, panels += t->mr * packed_kc) {
		t->run(kc, panels, columns, t->nr, c + i * t->nr, t->nr, add);
	}
}

/* ---- scores become weights ---- */

/* What is out of a query's sight weighs nothing. */
#define UNSEEN -1e30f

/* A block of scores [keys][nr], and what goes with each query. */
struct block {
	float *scores, *sums, *top, *total;
	int64_t keys, nr, head_dim;
	int64_t first; /* keys that the block's first query sees */
	bool causal;
	float scale;
};

/*
 * exp of what is at most 0: 2^n by the exponent's bits, and for the rest a
 * polynomial of degree 6 (the coefficients of Cephes' expf).  A vector wider
 * than the machine's is made of single numbers by gcc, which takes four times
 * as long: so each machine has its own.
 */
static const float coefficients[] = {
	1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
	4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f
};

#define PICK(mask, a, b) \
	((wide)(((mask) & (ints)(a)) | (~(mask) & (ints)(b))))

#define SOFTEN(name, lanes, machine) \
typedef float name##_wide __attribute__((vector_size(4 * (lanes)))); \
typedef int32_t name##_ints __attribute__((vector_size(4 * (lanes)))); \
 \
machine static inline void \
name##_exp(name##_wide *to) \
{ \
	typedef name##_wide wide; \
	typedef name##_ints ints; \
	const wide lowest = (wide){ 0 } - 87; \
	wide x = *to, p = (wide){ 0 } + coefficients[0], r, whole; \
	ints n; \
	size_t c; \
 \
	x = PICK(x < lowest, lowest, x); \
	n = __builtin_convertvector(x * 1.44269504f - 0.5f, ints); \
	whole = __builtin_convertvector(n, wide); \
	r = x - whole * 0.693359375f + whole * 2.12194440e-4f; \
	for (c = 1; c < 6; c++) { \
		p = p * r + coefficients[c]; \
	} \
	p = p * r * r + r + 1; \
	*to = (wide)((ints)p + n * (1 << 23)); \
} \
 \
machine static void \
name(const struct block *b, int64_t v) \
{ \
	typedef name##_wide wide; \
	typedef name##_ints ints; \
	wide x, top, factor, total, sum = { 0 }; \
	ints limit; \
	int64_t j; \
 \
	for (j = 0; j < (lanes); j++) { \
		limit[j] = (int32_t)(b->first + v + j); \
	} \
	memcpy(&total, b->top + v, sizeof total); \
	top = total; \
	for (j = 0; j < b->keys; j++) { \
		memcpy(&x, b->scores + j * b->nr + v, sizeof x); \
		x *= b->scale; \
		if (b->causal && j >= b->first) { \
			x = PICK(limit > (int32_t)j, x, (wide){ 0 } + UNSEEN); \
		} \
		memcpy(b->scores + j * b->nr + v, &x, sizeof x); \
		top = PICK(x < top, top, x); \
	} \
	memcpy(b->top + v, &top, sizeof top); \
	factor = total - top; \
	name##_exp(&factor); \
	for (j = 0; j < b->keys; j++) { \
		memcpy(&x, b->scores + j * b->nr + v, sizeof x); \
		x -= top; \
		name##_exp(&x); \
		memcpy(b->scores + j * b->nr + v, &x, sizeof x); \
		sum += x; \
	} \
	memcpy(&total, b->total + v, sizeof total); \
	total = total * factor + sum; \
	memcpy(b->total + v, &total, sizeof total); \
	for (j = 0; j < b->head_dim; j++) { \
		memcpy(&x, b->sums + j * b->nr + v, sizeof x); \
		x *= factor; \
		memcpy(b->sums + j * b->nr + v, &x, sizeof x); \
	} \
}

SOFTEN(soften_plain, 4, )

#if defined(__x86_64__)
SOFTEN(soften_avx2, 8, __attribute__((target("avx2,fma"))))
SOFTEN(soften_avx512, 16, __attribute__((target("avx512f"))))
#endif

static void
soften(const struct block *b)
{
	void (*run)(const struct block *, int64_t) = soften_plain;
	int64_t lanes = 4, v;

#if defined(__x86_64__)
	if (b->nr % 16 == 0 && __builtin_cpu_supports("avx512f")) {
		run = soften_avx512;
		lanes = 16;
	} else if (b->nr % 8 == 0 && __builtin_cpu_supports("avx2") &&
		   __builtin_cpu_supports("fma")) {
		run = soften_avx2;
		lanes = 8;
	}
#endif
	for (v = 0; v < b->nr; v += lanes) {
		run(b, v);
	}
}

/* ---- one thread's blocks ---- */

/* Results are turned back: out[query][d] = sums[d][query] / total. */
static void
put_block(const struct attend *g, struct own *o, float *out)
{
	int64_t d = g->x.head_dim, nr = g->t->nr, i, j;
	struct rt_view v = { o->sums, nr, 1 };

	for (i = 0; i < nr; i++) {
		o->total[i] = 1 / o->total[i];
	}
	for (j = 0; j < d; j++) {
		for (i = 0; i < nr; i++) {
			o->sums[j * nr + i] *= o->total[i];
		}
	}
	rt_pack(g->t, out, v, (int)d, (int)d, nr, 1, 1);
}

static void
block_of_queries(const struct attend *g, struct own *o, int64_t head,
		 int64_t query)
{
	int64_t d = g->x.head_dim, nr = g->t->nr, row, j, i;
	int64_t first = g->x.keys - g->x.queries + query + 1;
	int64_t last = g->x.causal ? first + nr - 1 : g->x.keys;
	const float *keys = o->packed;
	const float *values = keys + key_blocks(g) * key_elems(g);
	struct rt_view q;

	row = (head * g->x.queries + query) * d;
	q = (struct rt_view){ g->q + row, d, 1 };
	rt_pack(g->t, o->query, q, (int)nr, (int)nr, d, 1, 1);
	for (i = 0; i < nr; i++) {
		o->top[i] = UNSEEN;
		o->total[i] = 0;
	}
	memset(o->sums, 0, (size_t)(d * nr) * sizeof *o->sums);
	for (j = 0; j < last; j += KEYS) {
		struct block b = { o->scores, o->sums, o->top, o->total,
				   least(KEYS, last - j), nr, d, first - j,
				   g->x.causal, 1 / sqrtf((float)d) };

		multiply(g, keys, b.keys, d, d, o->query, o->scores, false);
		soften(&b);
		multiply(g, values, d, b.keys, least(KEYS, g->x.keys - j),
			 o->scores, o->sums, true);
		keys += key_elems(g);
		values += value_elems(g);
	}
	put_block(g, o, g->out + row);
}

/*
 * Items are dealt out in turn, for later ones of a causal head take longer;
 * whoever has one of a head packs its keys for itself.
 */
static void
attend(const struct attend *g, int thread, int threads)
{
	char *base = g->own + (size_t)thread * g->own_bytes;
	struct own *o = (struct own *)(void *)base;
	int64_t wide = BLOCKS * g->t->nr, head = -1, i, q, end;
	int64_t items = (g->x.queries + wide - 1) / wide;

	for (i = thread; i < g->x.heads * items; i += threads) {
		if (i / items != head) {
			head = i / items;
			pack_head(g, head, o);
		}
		q = i % items * wide;
		for (end = least(q + wide, g->x.queries); q < end;
		     q += g->t->nr) {
			block_of_queries(g, o, head, q);
		}
	}
}

static void
work(void *user, int i, int n)
{
	const struct attend *g = user;
	int run;

	for (run = 0; run < g->runs; run++) {
		attend(g, i, n);
	}
}

/* ---- a shape ---- */

/* One row by the definition, in double. */
static bool
row_agrees(const struct attend *g, int64_t head, int64_t query)
{
	int64_t d = g->x.head_dim, last = g->x.keys, i, j;
	int64_t q = (head * g->x.queries + query) * d;
	double total = 0, want[MOST_DIM] = { 0 };

	last = g->x.causal ? query + 1 + g->x.keys - g->x.queries : last;
	for (j = 0; j < last; j++) {
		int64_t k = (head * g->x.keys + j) * d;
		double s = 0;

		for (i = 0; i < d; i++) {
			s += (double)g->q[q + i] * (double)g->k[k + i];
		}
		s = exp(s / sqrt((double)d));
		total += s;
		for (i = 0; i < d; i++) {
			want[i] += s * (double)g->v[k + i];
		}
	}
	for (i = 0; i < d; i++) {
		if (!(fabs(want[i] / total - (double)g->out[q + i]) <=
		      1e-4)) {
			return false;
		}
	}
	return true;
}

struct shape {
	struct attend g;
	struct rt_pool *pool;
	void *in[3];
	size_t in_bytes[3], out_bytes, all_own_bytes;
};

static enum rt_status
run_shape(void *user, int runs, struct rt_stretch *out, struct rt_error *err)
{
	struct shape *s = user;

	(void)err;
	s->g.runs = runs;
	rt_pool_time(s->pool, work, &s->g, out);
	return RT_OK;
}

static void
shape_free(struct shape *s)
{
	int i;

	for (i = 0; i < 3; i++) {
		rt_pages_free(s->in[i], s->in_bytes[i]);
	}
	rt_pages_free(s->g.out, s->out_bytes);
	rt_pages_free(s->g.own, s->all_own_bytes);
}

static bool
shape_make(struct shape *s, struct rt_pool *pool, const struct rt_tile *t,
	   const struct rt_attend *x)
{
	bool ok = true;
	int i;

	*s = (struct shape){ .pool = pool };
	s->g.t = t;
	s->g.x = *x;
	for (i = 0; i < 3; i++) {
		int64_t n = x->heads * (i ? x->keys : x->queries) *
			    x->head_dim;

		s->in_bytes[i] = (size_t)n * sizeof(float);
		s->in[i] = rt_pages(s->in_bytes[i]);
		ok &= s->in[i] != NULL;
		if (s->in[i]) {
			rt_fill(s->in[i], RT_RATE_FP32, n,
				3 + (uint32_t)i);
		}
	}
	s->g.q = s->in[0];
	s->g.k = s->in[1];
	s->g.v = s->in[2];
	s->out_bytes = (size_t)(x->heads * x->queries * x->head_dim) *
		       sizeof(float);
	s->g.out = rt_pages(s->out_bytes);
	s->g.own_bytes = sizeof(struct own) + (size_t)(key_blocks(&s->g) *
			 (key_elems(&s->g) + value_elems(&s->g))) *
			 sizeof(float);
	s->g.own_bytes = (s->g.own_bytes + 4095) / 4096 * 4096;
	s->all_own_bytes = s->g.own_bytes * (size_t)rt_pool_threads(pool);
	s->g.own = rt_pages(s->all_own_bytes);
	ok &= s->g.out && s->g.own;
	if (!ok) {
		shape_free(s);
	}
	return ok;
}

enum rt_status
rt_cpu_attend(struct rt_pool *p, const struct rt_tile *t,
	      const struct rt_attend *x, const struct rt_pace *pace,
	      struct rt_sample *out, struct rt_error *err)
{
	enum rt_status status;
	struct shape s;

	if (x->queries % LEAST || x->keys % LEAST ||
	    x->head_dim % 32 || x->head_dim > MOST_DIM ||
	    x->keys < x->queries) {
		return rt_fail(err, RT_RANGE, (struct rt_where){ NULL, NULL,
			-1 }, "queries and keys are multiples of %d, heads of "
			"32 and at most %d", LEAST, MOST_DIM);
	}
	if (!shape_make(&s, p, t, x)) {
		return rt_no_memory(err, NULL);
	}
	status = rt_sample_take(pace, rt_pool_threads(p), run_shape, &s, out,
				err);
	if (status == RT_OK && !(row_agrees(&s.g, 0, 0) &&
				 row_agrees(&s.g, x->heads - 1,
					    x->queries / 2 + 13) &&
				 row_agrees(&s.g, x->heads - 1,
					    x->queries - 1))) {
		status = rt_fail(err, RT_FORMAT, (struct rt_where){ NULL, NULL,
			-1 }, "%s computes attention wrong", t->name);
	}
	shape_free(&s);
	return status;
}
