/*
 * measure-attend.c - attention on all cores, as the cost model has it: a
 * block of 128 queries of one head goes past the keys, a block of them at a
 * time, with a running maximum and sum of each row (Dao, arXiv:2307.08691).
 */
#include "runtime/measure-cpu.h"

#include <math.h>
#include <string.h>

enum { LEAST = 64, BLOCK = 128, ROWS = 160, MOST_DIM = 128 };

struct attend {
	const struct rt_tile *t;
	struct rt_attend x;
	const void *q, *k, *v;
	float *out;
	char *own; /* of all threads */
	size_t own_bytes;
	int64_t block; /* queries, and keys, that are looked at together */
	int runs;
};

/* What one thread has to itself; the keys and values of a head, packed. */
struct own {
	float scores[ROWS * BLOCK], sums[ROWS * MOST_DIM];
	float top[ROWS], total[ROWS];
	float weights[ROWS * BLOCK]; /* as elements of the operands */
	float query[ROWS * MOST_DIM], packed[ROWS * BLOCK];
};

static int64_t
block_of(const struct rt_attend *x)
{
	return x->keys < BLOCK ? x->keys : BLOCK;
}

static size_t
head_bytes(const struct attend *g)
{
	int64_t keys = (g->x.keys + g->block - 1) / g->block * g->block;

	return (size_t)(keys * g->x.head_dim) * rt_tile_bytes(g->t);
}

static const char *
row(const struct attend *g, const void *base, int64_t length, int64_t head,
    int64_t i)
{
	return (const char *)base + (size_t)((head * length + i) *
	       g->x.head_dim) * rt_rate_bytes(g->t->rate);
}

/* Panels of a block's columns one behind another. */
static void
pack_columns(const struct attend *g, char *to, struct rt_view v, int n,
	     int64_t kc)
{
	const struct rt_tile *t = g->t;
	size_t elem = rt_rate_bytes(t->rate);
	int j;

	for (j = 0; j < n; j += t->nr) {
		struct rt_view part = v;

		part.at = (const char *)v.at + (size_t)(j * v.step_i) * elem;
		rt_pack(t, to, part, n - j < t->nr ? n - j : t->nr, t->nr, kc,
			t->unit_b, rt_tile_round(t));
		to += (size_t)(t->nr * kc) * rt_tile_bytes(t);
	}
}

static void
pack_head(const struct attend *g, int64_t head, char *keys, char *values)
{
	int64_t d = g->x.head_dim, j;
	size_t block = (size_t)(g->block * d) * rt_tile_bytes(g->t);

	for (j = 0; j < g->x.keys; j += g->block) {
		struct rt_view k = { row(g, g->k, g->x.keys, head, j), d, 1 };
		struct rt_view v = { row(g, g->v, g->x.keys, head, j), 1, d };

		pack_columns(g, keys, k, g->block, d);
		pack_columns(g, values, v, (int)d, g->block);
		keys += block;
		values += block;
	}
}

static void
pack_rows(const struct attend *g, void *to, struct rt_view v, int n,
	  int64_t kc)
{
	const struct rt_tile *t = g->t;
	size_t elem = rt_rate_bytes(t->rate), panel;
	char *at = to;
	int i;

	panel = (size_t)(t->mr * kc) * rt_tile_bytes(t);
	for (i = 0; i < n; i += t->mr, at += panel) {
		struct rt_view part = v;

		part.at = (const char *)v.at + (size_t)(i * v.step_i) * elem;
		rt_pack(t, at, part, n - i < t->mr ? n - i : t->mr, t->mr, kc,
			t->unit_a, rt_tile_round(t));
	}
}

/* Keys of a block that a tile's queries from i on see; `first`: query 0. */
static int64_t
seen_by_tile(const struct attend *g, int64_t i, int64_t first)
{
	int64_t n = g->x.causal ? first + i + g->t->mr - 1 : g->block;

	return n < g->block ? n : g->block;
}

/* Scores [block, block], where any query of a tile sees one of its keys. */
static void
scores_of(const struct attend *g, const struct own *o, const char *keys,
	  int64_t first, float *c)
{
	const struct rt_tile *t = g->t;
	int64_t d = g->x.head_dim, i, j;
	size_t deep = (size_t)d * rt_tile_bytes(t);

	for (j = 0; j < g->block; j += t->nr) {
		for (i = 0; i < g->block; i += t->mr) {
			if (j >= seen_by_tile(g, i, first)) {
				continue;
			}
			t->run(d, (const char *)o->query + (size_t)i * deep,
			       keys + (size_t)j * deep, t->nr,
			       c + i * g->block + j, g->block, false);
		}
	}
}

/* Adds weights [block, block] times values, as far as weights are not 0. */
static void
add_values(const struct attend *g, const struct own *o, const char *values,
	   int64_t first, float *c)
{
	const struct rt_tile *t = g->t;
	int64_t d = g->x.head_dim, round = rt_tile_round(t), i, j, kc;
	size_t deep = (size_t)g->block * rt_tile_bytes(t);

	for (j = 0; j < d; j += t->nr) {
		for (i = 0; i < g->block; i += t->mr) {
			kc = seen_by_tile(g, i, first);
			kc = (kc + round - 1) / round * round;
			t->run(kc, (const char *)o->packed + (size_t)i * deep,
			       values + (size_t)j * deep, t->nr,
			       c + i * d + j, d, true);
		}
	}
}

/* ---- the rows of a block ---- */

/* What a row of scores comes to: weights, and what they add up to. */
struct line {
	const float *scores;
	void *weights;
	size_t n;
	bool halves; /* weights are bf16 */
	float scale, top; /* of scores; the largest so far, scaled */
	float total;
};

/*
 * exp of what is at most 0, a vector at a time: 2^n by the exponent's bits,
 * and for the rest a polynomial of degree 6 (the coefficients of Cephes'
 * expf).  A vector wider than the machine's is made of single numbers by gcc,
 * which takes four times as long: so each machine has its own.
 */
static const float coefficients[] = {
	1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
	4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f
};

#define SOFTEN(name, lanes) \
static void \
name(struct line *l) \
{ \
	typedef float wide __attribute__((vector_size(4 * (lanes)))); \
	typedef int32_t ints __attribute__((vector_size(4 * (lanes)))); \
	typedef uint16_t halves __attribute__((vector_size(2 * (lanes)))); \
	const wide lowest = (wide){ 0 } - 87; \
	wide sum = { 0 }, x, r, p, whole; \
	ints n, low; \
	halves half; \
	size_t j, c; \
 \
	memcpy(&p, l->scores, sizeof p); \
	for (j = (lanes); j < l->n; j += (lanes)) { \
		memcpy(&x, l->scores + j, sizeof x); \
		low = x < p; \
		p = (wide)((low & (ints)p) | (~low & (ints)x)); \
	} \
	for (j = 0; j < (lanes); j++) { \
		l->top = p[j] * l->scale > l->top ? p[j] * l->scale \
						  : l->top; \
	} \
	for (j = 0; j < l->n; j += (lanes)) { \
		memcpy(&x, l->scores + j, sizeof x); \
		x = x * l->scale - l->top; \
		low = x < lowest; \
		x = (wide)((low & (ints)lowest) | (~low & (ints)x)); \
		n = __builtin_convertvector(x * 1.44269504f - 0.5f, ints); \
		whole = __builtin_convertvector(n, wide); \
		r = x - whole * 0.693359375f + whole * 2.12194440e-4f; \
		p = (wide){ 0 } + coefficients[0]; \
		for (c = 1; c < 6; c++) { \
			p = p * r + coefficients[c]; \
		} \
		p = p * r * r + r + 1; \
		p = (wide)((ints)p + n * (1 << 23)); \
		sum += p; \
		if (l->halves) { \
			n = (ints)p; \
			n = (n + 0x7fff + (n >> 16 & 1)) >> 16; \
			half = __builtin_convertvector(n, halves); \
			memcpy((uint16_t *)l->weights + j, &half, \
			       sizeof half); \
		} else { \
			memcpy((float *)l->weights + j, &p, sizeof p); \
		} \
	} \
	l->total = 0; \
	for (j = 0; j < (lanes); j++) { \
		l->total += sum[j]; \
	} \
}

SOFTEN(soften_plain, 4)

#if defined(__x86_64__)
__attribute__((target("avx2,fma")))
SOFTEN(soften_avx2, 8)
__attribute__((target("avx512f")))
SOFTEN(soften_avx512, 16)

static void
soften_here(struct line *l)
{
	if (__builtin_cpu_supports("avx512f")) {
		soften_avx512(l);
	} else if (__builtin_cpu_supports("avx2") &&
		   __builtin_cpu_supports("fma")) {
		soften_avx2(l);
	} else {
		soften_plain(l);
	}
}
#else
static void
soften_here(struct line *l)
{
	soften_plain(l);
}
#endif

/* What is out of a query's sight weighs nothing. */
#define UNSEEN -1e30f

/* Keys of this block that query i of its block sees. */
static int64_t
seen(const struct attend *g, int64_t i, int64_t j)
{
	int64_t n = g->x.causal ? i + 1 + g->x.keys - g->x.queries - j
				: g->block;

	return n < g->block ? n : g->block;
}

static void
rows_of_block(const struct attend *g, struct own *o, int64_t query,
	      int64_t key)
{
	size_t elem = rt_rate_bytes(g->t->rate);
	int64_t d = g->x.head_dim, i, j;

	for (i = 0; i < g->block; i++) {
		struct line l = { .n = (size_t)g->block,
				  .halves = elem == 2,
				  .scale = 1 / sqrtf((float)d) };
		float *scores = o->scores + i * g->block, factor;

		for (j = seen(g, query + i, key); j < g->block; j++) {
			scores[j] = UNSEEN;
		}
		l.top = o->top[i];
		l.scores = scores;
		l.weights = (char *)o->weights + (size_t)(i * g->block) * elem;
		soften_here(&l);
		factor = expf(o->top[i] - l.top);
		o->top[i] = l.top;
		o->total[i] = o->total[i] * factor + l.total;
		for (j = 0; j < d && factor != 1; j++) {
			o->sums[i * d + j] *= factor;
		}
	}
}

/* ---- one thread's blocks ---- */

static void
block_of_queries(const struct attend *g, struct own *o, int64_t head,
		 int64_t query, const char *keys, const char *values)
{
	int64_t d = g->x.head_dim, last = g->x.keys, i, j;
	size_t block = (size_t)(g->block * d) * rt_tile_bytes(g->t);
	struct rt_view q = { row(g, g->q, g->x.queries, head, query), d, 1 };
	struct rt_view p = { o->weights, g->block, 1 };
	float *out = g->out + (head * g->x.queries + query) * d;

	if (g->x.causal) {
		last += query + g->block - g->x.queries;
	}
	for (i = 0; i < g->block; i++) {
		o->top[i] = UNSEEN;
		o->total[i] = 0;
	}
	pack_rows(g, o->query, q, g->block, d);
	memset(o->sums, 0, (size_t)(g->block * d) * sizeof *o->sums);
	for (j = 0; j < last; j += g->block, keys += block, values += block) {
		int64_t first = seen(g, query, j);

		scores_of(g, o, keys, first, o->scores);
		rows_of_block(g, o, query, j);
		pack_rows(g, o->packed, p, g->block, g->block);
		add_values(g, o, values, first, o->sums);
	}
	for (i = 0; i < g->block; i++) {
		float part = 1 / o->total[i];

		for (j = 0; j < d; j++) {
			out[i * d + j] = o->sums[i * d + j] * part;
		}
	}
}

/*
 * Blocks of queries are dealt out in turn, for later ones of a causal head
 * take longer; whoever has one of a head packs its keys for itself.
 */
static void
attend(const struct attend *g, int thread, int threads)
{
	char *base = g->own + (size_t)thread * g->own_bytes;
	char *keys = base + sizeof(struct own);
	char *values = keys + head_bytes(g);
	int64_t blocks = g->x.queries / g->block, head = -1, i;

	for (i = thread; i < g->x.heads * blocks; i += threads) {
		if (i / blocks != head) {
			head = i / blocks;
			pack_head(g, head, keys, values);
		}
		block_of_queries(g, (struct own *)(void *)base, head,
				 i % blocks * g->block, keys, values);
	}
}

static void
work(void *user, int i, int n)
{
	const struct attend *g = user;
	int run;

	if (g->t->enter) {
		g->t->enter();
	}
	for (run = 0; run < g->runs; run++) {
		attend(g, i, n);
	}
	if (g->t->leave) {
		g->t->leave();
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
			s += rt_element(g->q, g->t->rate, q + i) *
			     rt_element(g->k, g->t->rate, k + i);
		}
		s = exp(s / sqrt((double)d));
		total += s;
		for (i = 0; i < d; i++) {
			want[i] += s * rt_element(g->v, g->t->rate, k + i);
		}
	}
	for (i = 0; i < d; i++) {
		/* weights are rounded to bf16 on their way */
		double bound = g->t->rate == RT_RATE_BF16 ? 1e-2 : 1e-4;

		if (!(fabs(want[i] / total - (double)g->out[q + i]) <=
		      bound)) {
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
	s->g.block = block_of(x);
	for (i = 0; i < 3; i++) {
		int64_t n = x->heads * (i ? x->keys : x->queries) *
			    x->head_dim;

		s->in_bytes[i] = (size_t)n * rt_rate_bytes(x->rate);
		s->in[i] = rt_pages(s->in_bytes[i]);
		ok &= s->in[i] != NULL;
		if (s->in[i]) {
			rt_fill(s->in[i], x->rate, n, 3 + (uint32_t)i);
		}
	}
	s->g.q = s->in[0];
	s->g.k = s->in[1];
	s->g.v = s->in[2];
	s->out_bytes = (size_t)(x->heads * x->queries * x->head_dim) *
		       sizeof(float);
	s->g.out = rt_pages(s->out_bytes);
	s->g.own_bytes = (sizeof(struct own) + 2 * head_bytes(&s->g) + 4095) /
			 4096 * 4096;
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
	int64_t block = block_of(x);
	enum rt_status status;
	struct shape s;

	if (x->queries % block || x->keys % block || block % LEAST ||
	    x->head_dim % 32 || x->head_dim > MOST_DIM ||
	    x->keys < x->queries) {
		return rt_fail(err, RT_RANGE, (struct rt_where){ NULL, NULL,
			-1 }, "queries and keys are %d or multiples of %d, "
			"heads of 32 and at most %d", LEAST, BLOCK, MOST_DIM);
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
