/*
 * Attention to keys that an index selects: what a query gets has the same bits
 * alone and among others, wherever its keys are in the index, if the first is
 * that of a block, and with any number of threads.  Queries that are alone with
 * their keys are computed one by one, some of them with their keys in parts,
 * and others in blocks.  One that sees no key gets 0.  NaN and infinities of
 * keys and values reach those alone that see them.  Keys and values of 8 bits
 * give the bits that the same numbers of the queries' type give.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "codegen/cg.h"
#include "runtime/device/pool.h"
#include "tests/unit/shared/t-cases.h"
#include "tests/unit/shared/t-cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 700
#define BAD_ROWS 20	/* the last ones: not our query's, and at times NaN */
#define MOST_WIDE (20 * 80)	/* numbers of a row, at most */
#define MOST_HEADS 36
#define SEEN 290	/* keys of the query: two blocks and a part */
#define BLOCK 128
#define LONG_KEYS (78 * BLOCK)
#define MOST_KEYS LONG_KEYS
#define MOST_QUERIES 80
#define MOST_THREADS 7

/* Attention that a model asks for. */
struct shape {
	const char *dtype, *attrs;
	int bytes;		/* of an element */
	int kv, heads, d;
	bool sinks;
	const char *stored;	/* keys and values, of 8 bits; NULL: no */
};

static const struct shape shapes[] = {
	{ "f32", "", 4, 2, 6, 24, false, NULL },
	{ "bf16", " softcap=2", 2, 1, 20, 80, false, NULL },
	{ "f16", "", 2, 2, 2, 36, true, NULL },
	{ "bf16", "", 2, 1, 36, 12, false, NULL },
	{ "f32", "", 4, 2, 6, 84, true, "f8e4m3" },
	{ "bf16", " softcap=2", 2, 1, 20, 80, false, "f8e5m2" },
	{ "bf16", "", 2, 2, 2, 34, false, "f8e4m3" },
	{ "f32", " alibi=8", 4, 2, 6, 24, true, NULL },
	{ "bf16", " alibi=6", 2, 1, 20, 80, false, NULL }
};

static struct {
	struct ir_ctx c;
	const struct shape *shape;
	/* rows of numbers of the shape's type */
	char q[MOST_QUERIES * MOST_WIDE * 4], out[MOST_QUERIES * MOST_WIDE * 4];
	char keys[ROWS * MOST_WIDE * 4], values[ROWS * MOST_WIDE * 4];
	/* the same of the queries' type, where they are stored in 8 bits */
	char wide_keys[ROWS * MOST_WIDE * 4], wide_values[ROWS * MOST_WIDE * 4];
	bool is_wide;		/* those are read */
	float sinks[MOST_HEADS];
	float first[MOST_QUERIES], last[MOST_QUERIES];
	int32_t index[MOST_KEYS];
	const char *text;	/* of the kernel that is open; NULL: none is */
	struct cg_singles x;
	uint64_t rng;
	int threads;
	struct rt_workers *workers[MOST_THREADS + 1];	/* by their number */
} s;

static uint32_t
below(uint32_t n)
{
	s.rng ^= s.rng << 13;
	s.rng ^= s.rng >> 7;
	s.rng ^= s.rng << 17;
	return (uint32_t)(s.rng >> 20) % n;
}

/* -1 to 1 */
static float
drawn(void)
{
	return (float)below(1 << 20) / (1 << 19) - 1;
}

/* n numbers of the shape's type. */
static void
draw(char *to, int n)
{
	const struct shape *x = s.shape;
	int i;

	for (i = 0; i < n; i++, to += x->bytes) {
		float v = drawn();
		uint32_t bits;
		uint16_t half;

		memcpy(&bits, &v, sizeof bits);
		/* of bf16 the upper half; of f16 any number of 0 to 2 */
		half = (uint16_t)(x->dtype[0] == 'b' ? bits >> 16
				  : below(0x4000));
		memcpy(to, x->bytes == 4 ? (void *)&bits : (void *)&half,
		       (size_t)x->bytes);
	}
}

/* The number of a byte; 8 bits have a sign, an exponent and a mantissa. */
static float
widen(uint8_t byte)
{
	int mantissa = strcmp(s.shape->stored, "f8e4m3") == 0 ? 3 : 2;
	int bias = mantissa == 3 ? 7 : 15, size = byte & 0x7f;
	int exponent = size >> mantissa, rest = size & ((1 << mantissa) - 1);
	double v;

	if (size >= (mantissa == 3 ? 0x7f : 0x7d)) {
		return NAN;
	}
	v = exponent ? ldexp((1 << mantissa) + rest, exponent - bias - mantissa)
		: ldexp(rest, 1 - bias - mantissa);
	return (float)(byte & 0x80 ? -v : v);
}

/* n bytes as numbers of the shape's type, f32 or bf16, in which they are
 * exact. */
static void
widen_all(char *to, const char *from, int n)
{
	int i;

	for (i = 0; i < n; i++, to += s.shape->bytes) {
		float v = widen((uint8_t)from[i]);
		uint32_t bits;
		uint16_t half;

		memcpy(&bits, &v, sizeof bits);
		half = (uint16_t)(bits >> 16);
		memcpy(to, s.shape->bytes == 4 ? (void *)&bits : (void *)&half,
		       (size_t)s.shape->bytes);
	}
}

/* n numbers of 8 bits that are less than 2. */
static void
draw_bytes(char *to, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		to[i] = (char)(below(256) & 0xbf);
	}
}

/* Bytes of a query, and of what it gets. */
static int
query_bytes(void)
{
	return s.shape->heads * s.shape->d * s.shape->bytes;
}

static void
draw_cache(void)
{
	int i, n = ROWS * s.shape->kv * s.shape->d;

	if (s.shape->stored) {
		draw_bytes(s.keys, n);
		draw_bytes(s.values, n);
		widen_all(s.wide_keys, s.keys, n);
		widen_all(s.wide_values, s.values, n);
	} else {
		draw(s.keys, n);
		draw(s.values, n);
	}
	for (i = 0; i < s.shape->heads; i++) {
		s.sinks[i] = 4 * drawn();
	}
	s.sinks[1] = -INFINITY;	/* this head has none */
}

/* Makes a number of each kv head of the last rows NaN, or an infinity. */
static void
spoil(char *rows)
{
	const struct shape *x = s.shape;
	static const uint32_t f32[2] = { 0x7fc00000, 0x7f800000 };
	int i;

	for (i = (ROWS - BAD_ROWS) * x->kv; i < ROWS * x->kv; i++) {
		uint32_t bits = f32[i / x->kv % 2];
		uint16_t half = (uint16_t)(x->dtype[0] == 'b' ? bits >> 16
					   : i / x->kv % 2 ? 0x7c00 : 0x7e00);
		char *to = rows + (i * x->d + i % x->d) * x->bytes;

		if (x->stored) {
			rows[i * x->d + i % x->d] = 0x7f;
			continue;
		}
		memcpy(to, x->bytes == 4 ? (void *)&bits : (void *)&half,
		       (size_t)x->bytes);
	}
}

static bool
casts(void)
{
	return s.shape->stored && !s.is_wide;
}

/* The number of attention's value. */
static int
result(void)
{
	return casts() ? 11 : 9;
}

static const char *
text_of(int queries, int keys)
{
	const struct shape *x = s.shape;
	const char *stored = casts() ? x->stored : x->dtype, *wide = "";

	if (casts()) {
		wide = arena_printf(&s.c.perm,
			"  %%9 = cast %%7 : %s[b, t, k, d]\n"
			"  %%10 = cast %%8 : %s[b, t, k, d]\n",
			x->dtype, x->dtype);
	}
	return arena_printf(&s.c.perm, "llmc-ir 1\ndim b = 1\ndim s = %d\n"
		"dim t = %d\ndim rows = %d\ndim k = %d\ndim h = %d\n"
		"dim d = %d\nmodel {\n"
		"  %%0 = weight name=\"q\" : %s[b, s, h, d]\n"
		"  %%1 = weight name=\"keys\" : %s[rows, k, d]\n"
		"  %%2 = weight name=\"values\" : %s[rows, k, d]\n"
		"  %%3 = input name=\"index\" : idx<rows>[b, t]\n"
		"  %%4 = weight name=\"first\" : f32[b, s]\n"
		"  %%5 = weight name=\"last\" : f32[b, s]\n"
		"  %%6 = weight name=\"sinks\" : f32[h]\n"
		"  %%7 = gather %%1, %%3 of=rows : %s[b, t, k, d]\n"
		"  %%8 = gather %%2, %%3 of=rows : %s[b, t, k, d]\n%s"
		"  %%%d = attention%s_between %%0, %s,%s %%4, %%5%s : "
		"%s[b, s, h, d]\n"
		"  return %%%d\n}\n", queries, keys, ROWS, x->kv, x->heads,
		x->d, x->dtype, stored, stored, stored, stored, wide,
		result(), x->sinks ? "_sinks" : "",
		casts() ? "%9, %10" : "%7, %8", x->sinks ? " %6," : "",
		x->attrs, x->dtype, result());
}

static void
close_kernel(void)
{
	if (s.text) {
		cg_singles_close(&s.x);
		s.text = NULL;
	}
}

/* Compiles the kernel of a shape, unless it is the last one. */
static void
open_kernel(const char *cpu, int queries, int keys)
{
	const char *text = text_of(queries, keys);

	if (s.text && strcmp(s.text, text) == 0) {
		return;
	}
	close_kernel();
	assert_true(cg_singles_open(&s.c, cpu, &text, 1, &s.x));
	s.text = text;
	/* nothing is copied before: what there is to do is listed, at most */
	assert_in_range(s.x.at[0].kernel->nsteps, 1, 2);
}

/* A step, and the scratch of its workers. */
struct running {
	const struct rt_step *step;
	const struct rt_call *call;
	char *own;
	int64_t own_bytes;
};

static void
run_some(void *user, int64_t worker, int64_t from, int64_t to)
{
	const struct running *r = user;

	r->step->run(r->call, r->own + worker * r->own_bytes, from, to);
}

/* By one thread items run from the last to the first. */
static void
run_step(struct running *r)
{
	struct rt_workers **w = &s.workers[s.threads];
	struct rt_error err;
	int64_t i;

	for (i = r->step->items; s.threads == 1 && i-- > 0;) {
		run_some(r, 0, i, i + 1);
	}
	if (s.threads == 1) {
		return;
	}
	if (!*w) {
		const struct rt_workers_options o = { .n = s.threads,
						      .crowded = true };

		assert_int_equal(rt_workers_start(w, &o, &err), RT_OK);
	}
	rt_workers_run(*w, run_some, r, r->step->items);
}

/* One kernel: what it reads and writes, by number of the value. */
static void
run(const char *cpu, int queries, int keys)
{
	char *values[12] = { s.q, s.is_wide ? s.wide_keys : s.keys,
			     s.is_wide ? s.wide_values : s.values,
			     (char *)s.index, (char *)s.first, (char *)s.last,
			     (char *)s.sinks };
	struct rt_call call = { 0 };
	const struct cg_single *x;
	struct running r = { .call = &call };
	char *at[12];
	int64_t i;

	open_kernel(cpu, queries, keys);
	x = &s.x.at[0];
	values[result()] = s.out;
	for (i = 0; i < x->kernel->nat; i++) {
		assert_non_null(values[x->values[i]]);
		at[i] = values[x->values[i]];
	}
	call.at = at;
	call.pieces = x->pieces;
	call.shared = malloc((size_t)x->shared_bytes + 64);
	r.own_bytes = (x->own_bytes + 127) / 64 * 64;
	r.own = aligned_alloc(64, (size_t)(s.threads * r.own_bytes));
	assert_true(call.shared && r.own);
	memset(call.shared, 0xff, (size_t)x->shared_bytes);
	memset(r.own, 0xff, (size_t)(s.threads * r.own_bytes));
	for (i = 0; i < x->kernel->nsteps; i++) {
		r.step = &x->kernel->steps[i];
		run_step(&r);
	}
	free(call.shared);
	free(r.own);
}

/* Other queries and keys; then ours, `query`, with so many keys from `from`
 * on. */
static void
draw_step(int queries, int keys, int query, int from, const void *q,
	  const int32_t *rows, int seen)
{
	int i;

	for (i = 0; i < keys; i++) {
		s.index[i] = (int32_t)below(ROWS);
	}
	for (i = 0; i < queries; i++) {
		s.first[i] = (float)below((uint32_t)keys);
		s.last[i] = (float)below((uint32_t)keys);
	}
	draw(s.q, queries * s.shape->heads * s.shape->d);
	memcpy(s.q + query * query_bytes(), q, (size_t)query_bytes());
	memcpy(s.index + from, rows, (size_t)seen * sizeof *rows);
	s.first[query] = (float)from;
	s.last[query] = (float)(from + seen - 1);
}

/* As sequences that decode: each query has a part of the keys alone. */
static void
spread_queries(int queries, int keys, int query)
{
	int i;

	for (i = 0; i < queries; i++) {
		if (i != query) {
			s.first[i] = (float)(keys * i / queries);
			s.last[i] = (float)(keys * (i + 1) / queries - 1);
		}
	}
}

/* Another query sees no key: the last one is before the first. */
static void
blind(int query, int from)
{
	s.first[query] = (float)(from + 9);
	s.last[query] = (float)(from + 5);
}

/* Another query sees one key, which is bad. */
static void
sees_bad(int query, int at)
{
	s.first[query] = s.last[query] = (float)at;
	s.index[at] = ROWS - 1;
}

/* A number of each head that it gets is NaN or an infinity. */
static bool
is_bad(int query)
{
	const struct shape *x = s.shape;
	int head, i, n, all = x->d * x->bytes;

	for (head = 0; head < x->heads; head++) {
		const char *out = s.out + query * query_bytes() + head * all;

		for (i = n = 0; i < all; i += x->bytes) {
			uint32_t bits = 0, most = x->bytes == 4 ? 0x7f800000
				: x->dtype[0] == 'b' ? 0x7f80 : 0x7c00;

			memcpy(&bits, out + i, (size_t)x->bytes);
			n += (bits & most) == most;
		}
		if (!n) {
			return false;
		}
	}
	return true;
}

/* It gets 0 of every number. */
static bool
is_zero(int query)
{
	const char *out = s.out + query * query_bytes();
	int i;

	for (i = 0; i < query_bytes() && !out[i]; i++) {
	}
	return i == query_bytes();
}

static void
test_shape(const char *cpu)
{
	/* how many queries and keys, our query, its first key, whether the
	 * others are spread over the keys, and whether some keys are bad */
	static const int steps[][6] = {
		{ 1, SEEN, 0, 0, 0, 0 }, { 1, 2048, 0, 9 * BLOCK, 0, 0 },
		{ 7, 600, 3, BLOCK, 0, 0 }, { 70, 2000, 69, 11 * BLOCK, 0, 0 },
		{ 33, 1000, 16, 2 * BLOCK, 0, 0 },
		{ 33, 1000, 17, 3 * BLOCK, 0, 1 },
		{ 40, 1500, 9, 4 * BLOCK, 1, 0 },
		{ 40, 1500, 9, 4 * BLOCK, 1, 1 }
	};
	static char q[MOST_WIDE * 4], want[MOST_WIDE * 4];
	static int32_t rows[SEEN];
	size_t bytes = (size_t)query_bytes();
	uint32_t i;

	draw_cache();
	draw(q, s.shape->heads * s.shape->d);
	for (i = 0; i < SEEN; i++) {
		rows[i] = (int32_t)below(ROWS - BAD_ROWS);
	}
	for (i = 0; i < sizeof steps / sizeof steps[0]; i++) {
		const int *x = steps[i];
		char *out = s.out + (size_t)x[2] * bytes;

		/* of other shapes one query, a block, some spread out */
		if (s.shape != shapes && i != 0 && i < 4) {
			continue;
		}
		draw_step(x[0], x[1], x[2], x[3], q, rows, SEEN);
		if (x[4]) {
			spread_queries(x[0], x[1], x[2]);
		}
		if (x[0] > 1) {
			blind(x[2] - 1, x[3]);
		}
		if (x[5]) {
			spoil(s.keys);
			spoil(s.values);
			sees_bad(x[2] + 1, x[3] - 1);
		}
		memset(s.out, 1, sizeof s.out);
		run(cpu, x[0], x[1]);
		if (x[0] > 1 && !is_zero(x[2] - 1)) {
			fail_msg("%s of %d: query %d of %d sees no key and "
				 "gets some on %s", s.shape->dtype, s.shape->d,
				 x[2] - 1, x[0], cpu);
		}
		if (x[5] && !is_bad(x[2] + 1)) {
			fail_msg("%s of %d: query %d sees NaN and gets none on "
				 "%s", s.shape->dtype, s.shape->d, x[2] + 1,
				 cpu);
		}
		if (i == 0) {
			memcpy(want, out, bytes);
		} else if (memcmp(want, out, bytes) != 0) {
			fail_msg("%s%s of %d: query %d of %d with keys from "
				 "%d on %s", s.shape->dtype, s.shape->attrs,
				 s.shape->d, x[2], x[0], x[3], cpu);
		}
	}
	close_kernel();
}

/* A step of a shape, with keys and values of 8 bits and of the queries' type:
 * the same bits. */
static void
widen_step(const char *cpu, int queries, int keys)
{
	static char want[sizeof s.out];
	size_t bytes = (size_t)(queries * query_bytes());
	static char q[MOST_WIDE * 4];
	static int32_t rows[SEEN];

	draw_cache();
	draw_step(queries, keys, 0, 0, q, rows, SEEN);
	s.is_wide = true;
	run(cpu, queries, keys);
	memcpy(want, s.out, bytes);
	s.is_wide = false;
	memset(s.out, 1, sizeof s.out);
	run(cpu, queries, keys);
	if (memcmp(want, s.out, bytes) != 0) {
		fail_msg("%s of %d differs from %s on %s", s.shape->stored,
			 s.shape->d, s.shape->dtype, cpu);
	}
	close_kernel();
}

/* ---- many keys ---- */

/* As queries of one prompt: each sees a key more than the one before, and ours
 * is the last of them. */
static void
follow_queries(int queries, int query)
{
	int i;

	for (i = 0; i < queries; i++) {
		s.first[i] = s.first[query];
		s.last[i] = s.last[query] - (float)(query - i);
	}
}

/* A number of the shape's type. */
static double
number(const char *at, int i)
{
	const struct shape *x = s.shape;
	uint32_t bits;
	uint16_t half;
	float v;

	if (x->bytes == 4) {
		memcpy(&v, at + 4 * i, 4);
		return v;
	}
	memcpy(&half, at + 2 * i, 2);
	if (x->dtype[0] == 'f') {
		bits = half & 0x3ff;
		return (half & 0x7c00) ? ldexp(1024 + bits,
					       (half >> 10 & 31) - 25)
				       : ldexp(bits, -24);
	}
	bits = (uint32_t)half << 16;
	memcpy(&v, &bits, 4);
	return v;
}

/* By how much a score of the head is less for each key after its own. */
static double
slope_of(int head)
{
	const struct shape *x = s.shape;
	const char *alibi = strstr(x->attrs, "alibi=");
	int n = 1;

	if (!alibi) {
		return 0;
	}
	while (2 * n <= x->heads) {
		n *= 2;
	}
	/* of heads that are no power of two, the rest are between the others */
	return pow(2, -atof(alibi + 6) * (head < n ? head + 1.0
					  : head - n + 0.5) / n);
}

static double
score_of(const char *q, int head, int32_t row)
{
	const struct shape *x = s.shape;
	int kv = head / (x->heads / x->kv), i;
	double sum = 0;

	for (i = 0; i < x->d; i++) {
		sum += number(q, head * x->d + i) *
		       number(s.keys, (row * x->kv + kv) * x->d + i);
	}
	sum /= sqrt(x->d);
	return strstr(x->attrs, "softcap") ? 2 * tanh(sum / 2) : sum;
}

/* Holds one head's numbers to those of a plain softmax. */
static void
hold_head(const char *cpu, const char *q, const char *got, int head,
	  const int32_t *rows, int seen)
{
	const struct shape *x = s.shape;
	int kv = head / (x->heads / x->kv), i, j;
	double sum = x->sinks ? exp(s.sinks[head]) : 0, all[80] = { 0 }, w;
	double bound = x->bytes == 4 ? 1e-5 : 1e-2;

	for (j = 0; j < seen; j++) {
		sum += w = exp(score_of(q, head, rows[j]) -
			       (seen - 1 - j) * slope_of(head));
		for (i = 0; i < x->d; i++) {
			all[i] += w * number(s.values, (rows[j] * x->kv + kv) *
					     x->d + i);
		}
	}
	for (i = 0; i < x->d; i++) {
		w = number(got, head * x->d + i);
		if (!(fabs(w - all[i] / sum) <= bound)) {
			fail_msg("%s%s: number %d of head %d is %g, not %g, of "
				 "%d keys on %s", x->dtype, x->attrs, i, head,
				 w, all[i] / sum, seen, cpu);
		}
	}
}

/* Contexts whose keys are one part, or several, up to longer ones: alone by one
 * thread, and then in steps with other queries by several. */
static void
test_long(const char *cpu)
{
	/* how many queries, our query, its first key, 1: others are spread,
	 * 2: those of one prompt, how many threads */
	static const int steps[][5] = {
		{ 1, 0, 0, 0, 1 }, { 1, 0, 3 * BLOCK, 0, 2 },
		{ 1, 0, 9 * BLOCK, 0, 7 }, { 1, 0, BLOCK, 0, 3 },
		{ 7, 3, BLOCK, 1, 3 }, { 7, 6, 0, 1, 7 },
		{ 7, 6, 5 * BLOCK, 2, 2 }, { 36, 30, 2 * BLOCK, 1, 2 },
		{ 36, 35, 7 * BLOCK, 2, 3 }, { 36, 33, BLOCK, 0, 7 }
	};
	static const int seen[] = { 1, 512, 513, 1100, 8400 };
	static char q[MOST_WIDE * 4];
	static int32_t rows[MOST_KEYS];
	size_t bytes = (size_t)query_bytes();
	static uint32_t cases;
	uint32_t i, j;
	/* a window: keys before the first one of a block are not seen */
	int hidden;

	/* Parts are the same for all types: f32 is tested on each CPU, and the
	 * others on this one; those of 8 bits have parts in test_widened. */
	if (s.shape->stored ||
	    (s.shape != shapes && strcmp(cpu, t_cpu(0)) != 0)) {
		return;
	}
	if (!t_today(cases++, 7)) {
		return;
	}
	draw_cache();
	draw(q, s.shape->heads * s.shape->d);
	for (i = 0; i < MOST_KEYS; i++) {
		rows[i] = (int32_t)below(ROWS - BAD_ROWS);
	}
	for (i = 0; i < sizeof steps / sizeof steps[0]; i++) {
		static char wants[5][MOST_WIDE * 4];
		const int *x = steps[i];

		for (j = 0; j < sizeof seen / sizeof seen[0]; j++) {
			char *out = s.out + (size_t)x[1] * bytes;

			hidden = j % 2 ? 37 : 0;
			draw_step(x[0], LONG_KEYS, x[1], x[2], q, rows,
				  seen[j] + hidden);
			s.first[x[1]] += (float)hidden;
			if (x[3] == 1) {
				spread_queries(x[0], LONG_KEYS, x[1]);
			} else if (x[3] == 2) {
				follow_queries(x[0], x[1]);
			}
			memset(s.out, 1, sizeof s.out);
			s.threads = x[4];
			run(cpu, x[0], LONG_KEYS);
			if (i == 0) {
				memcpy(wants[j], out, bytes);
				hold_head(cpu, q, out, s.shape->heads / 2,
					  rows + hidden, seen[j]);
				hold_head(cpu, q, out, s.shape->heads - 1,
					  rows + hidden, seen[j]);
			} else if (memcmp(wants[j], out, bytes) != 0) {
				fail_msg("%s%s of %d: query %d of %d with %d "
					 "keys from %d, %d threads, on %s",
					 s.shape->dtype, s.shape->attrs,
					 s.shape->d, x[1], x[0], seen[j],
					 x[2], x[4], cpu);
			}
		}
	}
	s.threads = 1;
	close_kernel();
}

/* Types on CPUs: all, or some of both, and others tomorrow. */
static void
test_each(void (*test)(const char *cpu), bool all)
{
	uint32_t c, i;

	for (c = 0; c < t_ncpus(); c++) {
		if (strstr(t_cpu(c), "amx")) {	/* attention has no tiles */
			continue;
		}
		for (i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
			s.shape = &shapes[i];
			if (all || t_in_grid(c, i)) {
				test(t_cpu(c));
			}
		}
	}
}

static void
test_rows(void **state)
{
	(void)state;
	test_each(test_shape, false);
}

static void
widen_steps(const char *cpu)
{
	if (s.shape->stored) {
		widen_step(cpu, 3, SEEN);
		widen_step(cpu, 64, 900);
	}
}

static void
test_widened(void **state)
{
	(void)state;
	test_each(widen_steps, false);
}

static void
test_parts(void **state)
{
	(void)state;
	test_each(test_long, true);
}

static int
begin(void **state)
{
	(void)state;
	s.rng = 88172645463325252u;
	s.threads = 1;
	ir_ctx_init(&s.c, NULL);
	return 0;
}

static int
end(void **state)
{
	int i;

	(void)state;
	for (i = 0; i <= MOST_THREADS; i++) {
		rt_workers_stop(s.workers[i]);
	}
	ir_ctx_release(&s.c);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows), cmocka_unit_test(test_widened),
		cmocka_unit_test(test_parts)
	};

	if (getenv("BINARY_TESTS")) {	/* a release is not about these */
		return 77;
	}
	return cmocka_run_group_tests(tests, begin, end);
}
