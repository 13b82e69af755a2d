/*
 * Contractions as code: random shapes, orders of dims, batches, dtypes, views
 * and epilogues, for every kind of CPU that this one can stand for, against
 * the reference interpreter.
 */
#define _GNU_SOURCE		/* t-amx.h's names of registers */
#include "tests/unit/t-amx.h"
#include "tests/unit/t-dot.h"

#define ROUNDS 60

/* CPUs whose code can be run here. */
static bool
can_run(const char *cpu)
{
	__builtin_cpu_init();
	if (strcmp(cpu, "x86-64-v4") == 0) {
		return __builtin_cpu_supports("avx512f") &&
		       __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512dq") &&
		       __builtin_cpu_supports("avx512vl");
	}
	if (strcmp(cpu, "x86-64-v3") == 0) {
		return __builtin_cpu_supports("avx2") &&
		       __builtin_cpu_supports("fma");
	}
	return true;
}

static const char *const cpus[] = { "native", "x86-64-v4", "x86-64-v3",
				    "x86-64-v2" };
#define NCPUS (sizeof cpus / sizeof cpus[0])

/* ---- random texts ---- */

struct text {
	struct arena *a;
	uint64_t rng;
	char dims[8][16];	/* "m1" */
	int64_t sizes[8];
	uint32_t ndims;
	char sliced;		/* 'a', 'b': an operand that is one; or 0 */
	struct buf head, body;
	uint32_t values;	/* so far */
	const char *dtype;
};

static uint32_t
draw(struct text *t, uint32_t n)
{
	t->rng ^= t->rng << 13;
	t->rng ^= t->rng >> 7;
	t->rng ^= t->rng << 17;
	return (uint32_t)(t->rng >> 20) % n;
}

/* New dims of a factor, at least so many; their product is at most `most`. */
static void
factor(struct text *t, char name, uint32_t least, int64_t most)
{
	static const int sizes[] = { 1, 2, 3, 5, 7, 8, 16, 17, 31, 32, 48,
				     64, 100, 127, 200 };
	uint32_t n = least + draw(t, 3 - least), i;

	for (i = 0; i < n; i++) {
		int64_t size;

		do {
			size = sizes[draw(t, 15)];
		} while (size > most);
		most /= size;
		snprintf(t->dims[t->ndims], sizeof t->dims[0], "%c%u", name,
			 i);
		t->sizes[t->ndims++] = size;
		buf_printf(&t->head, "dim %c%u = %lld\n", name, i,
			   (long long)size);
	}
}

/* The dims whose names begin with one of these, in an order to be drawn. */
static uint32_t
shuffled(struct text *t, const char *names, uint32_t *order)
{
	uint32_t n = 0, i;

	for (i = 0; i < t->ndims; i++) {
		if (strchr(names, t->dims[i][0])) {
			uint32_t at = draw(t, n + 1);

			memmove(order + at + 1, order + at,
				(n - at) * sizeof *order);
			order[at] = i;
			n++;
		}
	}
	return n;
}

static const char *
list(struct text *t, const uint32_t *order, uint32_t n, char only)
{
	struct buf b;
	uint32_t i;

	buf_init(&b, t->a);
	for (i = 0; i < n; i++) {
		if (!only || t->dims[order[i]][0] == only) {
			buf_printf(&b, "%s%s", b.n ? ", " : "",
				   t->dims[order[i]]);
		}
	}
	return buf_text(&b);
}

/* An operand as a weight, or as a part of one; its value. */
static uint32_t
operand(struct text *t, char name, const uint32_t *order, uint32_t n)
{
	const char *dims = list(t, order, n, 0), *cut;
	char *whole;
	uint32_t v = t->values++;

	if (t->sliced != name || n < 2) {
		buf_printf(&t->body, "  %%%u = weight name=\"%c\" : %s[%s]\n",
			   v, name, t->dtype, dims);
		return v;
	}
	/* the last dim stays the last, as the groups want it */
	cut = t->dims[order[0]];
	buf_printf(&t->head, "dim w%c = %lld\n", name,
		   (long long)t->sizes[order[0]] + 5);
	whole = arena_printf(t->a, "w%c, %s", name, strchr(dims, ' ') + 1);
	buf_printf(&t->body, "  %%%u = weight name=\"%c\" : %s[%s]\n", v, name,
		   t->dtype, whole);
	buf_printf(&t->body, "  %%%u = slice %%%u of=w%c to=%s at=3 : "
		   "%s[%s]\n", t->values, v, name, cut, t->dtype, dims);
	return t->values++;
}

static uint32_t
other(struct text *t, const char *name, const char *dims)
{
	buf_printf(&t->body, "  %%%u = weight name=\"%s\" : %s[%s]\n",
		   t->values, name, t->dtype, dims);
	return t->values++;
}

static uint32_t
map(struct text *t, const char *what, uint32_t a, int64_t b,
    const char *dims)
{
	buf_printf(&t->body, "  %%%u = %s %%%u", t->values, what, a);
	if (b >= 0) {
		buf_printf(&t->body, ", %%%lld", (long long)b);
	}
	buf_printf(&t->body, " : %s[%s]\n", t->dtype, dims);
	return t->values++;
}

/* What stands behind the dot y; `last` is the last dim, if there is any. */
static void
epilogue(struct text *t, uint32_t kind, uint32_t y, const char *dims,
	 const char *last)
{
	uint32_t x = y;

	switch (kind) {
	case 0:
		break;
	case 1:
		buf_printf(&t->body, "  accumulate %%%u name=\"g\"\n"
			   "  return %%0\n}\n", y);
		return;
	case 2:
		x = map(t, "add", y, other(t, "bias", last), dims);
		break;
	case 3:
		x = map(t, "add", y, other(t, "residual", dims), dims);
		break;
	case 4:
		x = map(t, "silu", other(t, "gate", dims), -1, dims);
		x = map(t, "mul", x, y, dims);
		break;
	case 5:
		x = map(t, "mul", y, other(t, "scale", dims), dims);
		buf_printf(&t->body, "  accumulate %%%u name=\"g\"\n", x);
		x = map(t, "gelu", x, -1, dims);
		break;
	default:		/* both the dot and what is made of it */
		x = map(t, "tanh", y, -1, dims);
		buf_printf(&t->body, "  return %%%u, %%%u\n}\n", y, x);
		return;
	}
	buf_printf(&t->body, "  return %%%u\n}\n", x);
}

static const char *
random_text(struct arena *a, uint64_t seed, uint32_t epilogues)
{
	static const char *const dtypes[] = { "f32", "f32", "bf16", "f16" };
	struct text t = { .a = a, .rng = seed * 0x9e3779b97f4a7c15 | 1 };
	uint32_t ia[6], ib[6], na, nb, x, y, i;
	struct buf dims;
	const char *last = "";

	buf_init(&t.head, a);
	buf_init(&t.body, a);
	buf_init(&dims, a);
	t.dtype = dtypes[draw(&t, 4)];
	t.sliced = (char)"ab00"[draw(&t, 4)];
	factor(&t, 'b', 0, draw(&t, 3) ? 1 : 6);
	factor(&t, 'm', 0, 300);
	factor(&t, 'n', 0, 300);
	factor(&t, 'k', 1, draw(&t, 8) ? 200 : 1200);
	na = shuffled(&t, "bmk", ia);
	nb = shuffled(&t, "bnk", ib);
	x = operand(&t, 'a', ia, na);
	y = operand(&t, 'b', ib, nb);
	buf_puts(&dims, list(&t, ia, na, 'b'));
	for (i = 0; i < 2; i++) {
		const char *part = list(&t, i ? ib : ia, i ? nb : na,
					i ? 'n' : 'm');

		buf_printf(&dims, "%s%s", dims.n && *part ? ", " : "", part);
	}
	buf_printf(&t.body, "  %%%u = dot %%%u, %%%u over=(%s) : %s[%s]\n",
		   t.values, x, y, list(&t, ia, na, 'k'), t.dtype,
		   buf_text(&dims));
	if (dims.n) {
		last = strrchr(buf_text(&dims), ' ');
		last = last ? last + 1 : buf_text(&dims);
	}
	epilogue(&t, draw(&t, epilogues), t.values++, buf_text(&dims), last);
	return arena_printf(a, "llmc-ir 1\n%s\nmodel {\n%s",
			    buf_text(&t.head), buf_text(&t.body));
}

/* ---- tests ---- */

static void
run(const char *text, const char *cpu, uint64_t seed, double most)
{
	struct t_kernels t;
	double off;

	t_kernels_open(&t, text, cpu, seed);
	if (t.fell_back) {
		fail_msg("a nest on %s:\n%s", cpu, text);
	}
	off = t_kernels_compare(&t);
	if (!(off <= most)) {
		fail_msg("%g off on %s, seed %llu:\n%s", off, cpu,
			 (unsigned long long)seed, text);
	}
	t_kernels_close(&t);
}

static double
most_of(const char *text)
{
	return strstr(text, "bf16") ? 0.02 : strstr(text, "f16") ? 0.005
								 : 1e-5;
}

static void
test_random(void **state)
{
	const char *from = getenv("DOT_SEED");
	uint64_t seed = from ? strtoull(from, NULL, 10) : 1, i;
	uint64_t rounds = from ? 1 : ROUNDS;

	for (i = 0; i < rounds; i++, seed++) {
		const char *text = random_text(*state, seed, 7);
		const char *cpu = cpus[i % NCPUS];

		if (can_run(cpu)) {
			run(text, cpu, seed, most_of(text));
		}
	}
}

/* What does not fit into its room at once, along rows and along k. */
static void
test_large(void **state)
{
	static const int64_t sizes[][3] = { { 3000, 17, 1000 },
					    { 250, 20, 9001 },
					    { 1100, 9, 9001 } };
	uint32_t i;

	for (i = 0; i < 3; i++) {
		run(arena_printf(*state, "llmc-ir 1\ndim m = %lld\n"
			"dim n = %lld\ndim k = %lld\nmodel {\n"
			"  %%0 = weight name=\"a\" : f32[m, k]\n"
			"  %%1 = weight name=\"b\" : f32[n, k]\n"
			"  %%2 = dot %%0, %%1 over=k : f32[m, n]\n"
			"  return %%2\n}\n", (long long)sizes[i][0],
			(long long)sizes[i][1], (long long)sizes[i][2]),
		    "native", i, 1e-5);
	}
}

/*
 * What an epilogue may ask of the blocks: whole last dims, boxes of several
 * dims, sums that wait in shared room until the last stretch of k.
 */
static void
test_boxes(void **state)
{
	static const char *const texts[] = {
		"llmc-ir 1\ndim b = 3\ndim s = 70\ndim h = 5\ndim d = 24\n"
		"dim k = 90\nmodel {\n"
		"  %0 = weight name=\"a\" : f32[b, s, k]\n"
		"  %1 = weight name=\"b\" : f32[h, d, k]\n"
		"  %2 = dot %0, %1 over=k : f32[b, s, h, d]\n"
		"  %3 = rope %2 seq=s theta=10000 : f32[b, s, h, d]\n"
		"  return %3\n}\n",
		"llmc-ir 1\ndim b = 2\ndim s = 33\ndim d = 400\ndim k = 50\n"
		"model {\n"
		"  %0 = weight name=\"a\" : f32[b, s, k]\n"
		"  %1 = weight name=\"b\" : f32[k, d]\n"
		"  %2 = dot %0, %1 over=k : f32[b, s, d]\n"
		"  %3 = rope %2 seq=s theta=10000 interleaved : f32[b, s, d]\n"
		"  return %3\n}\n",
		"llmc-ir 1\ndim m = 300\ndim n = 40\ndim k = 9001\nmodel {\n"
		"  %0 = weight name=\"a\" : f32[m, k]\n"
		"  %1 = weight name=\"b\" : f32[n, k]\n"
		"  %2 = dot %0, %1 over=k : f32[m, n]\n"
		"  %3 = weight name=\"c\" : f32[n]\n"
		"  %4 = add %2, %3 : f32[m, n]\n"
		"  return %4\n}\n",
	};
	uint32_t i, c;

	(void)state;
	for (i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		for (c = 0; c < NCPUS; c++) {
			if (can_run(cpus[c])) {
				run(texts[i], cpus[c], i, 1e-5);
			}
		}
	}
}

/* Every order of dims; LLVM has no need of 16-bit numbers one by one then. */
static const char *
amx_text(struct arena *a, uint32_t i)
{
	static const int sizes[][3] = { { 40, 70, 100 }, { 32, 32, 32 },
					{ 33, 16, 31 }, { 7, 100, 1201 } };
	const int *s = sizes[i / 4 % 4];

	return arena_printf(a, "llmc-ir 1\ndim m = %d\ndim n = %d\n"
		"dim k = %d\nmodel {\n"
		"  %%0 = weight name=\"a\" : bf16[%s]\n"
		"  %%1 = weight name=\"b\" : bf16[%s]\n"
		"  %%2 = dot %%0, %%1 over=k : bf16[m, n]\n"
		"  %%3 = weight name=\"c\" : bf16[m, n]\n"
		"  %%4 = add %%2, %%3 : bf16[m, n]\n  return %%%d\n}\n",
		s[0], s[1], s[2], i & 1 ? "k, m" : "m, k",
		i & 2 ? "k, n" : "n, k", i & 16 ? 4 : 2);
}

/*
 * Code for AMX, whose instructions a handler stands in for.  The rest of that
 * code must be what this CPU can run.
 */
static void
test_amx(void **state)
{
	struct sigaction before;
	uint64_t products = 0;
	uint32_t i;

	__builtin_cpu_init();
	if (!can_run("x86-64-v4") || !__builtin_cpu_supports("avx512vbmi2") ||
	    !__builtin_cpu_supports("avx512bf16")) {
		skip();
	}
	for (i = 0; i < 32; i++) {
		amx_begin(&before);
		run(amx_text(*state, i), "sapphirerapids", i, 0.02);
		assert_false(amx.configured);
		amx_end(&before);
		products += amx.products;
	}
	assert_true(products > 1000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_boxes),
		cmocka_unit_test(test_amx),
	};

	if (getenv("BINARY_TESTS")) {	/* a release is not about these */
		return 77;
	}
	return cmocka_run_group_tests(tests, t_object_setup,
				      t_object_teardown);
}
