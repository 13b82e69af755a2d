/*
 * Contractions with wgmma or tcgen05, and the copying unit, on the emulator:
 * random shapes, both orders of each operand, batches, several dims to a
 * factor, and epilogues, against the reference interpreter.  T_ONLY='*sm_100a'
 * runs some of the tests.
 */
#include "tests/unit/cuda/t-cuda.h"
#include "tests/unit/shared/t-dot-text.h"
#include "tests/unit/shared/t-today.h"

#include <math.h>

/* ---- random texts ---- */

/* Sizes whose rows are of whole 16 bytes, but for few. */
static void
suitable(struct text *t, char name, uint32_t n, int64_t most)
{
	static const int sizes[] = { 8, 16, 24, 32, 40, 64, 64, 72, 96, 128,
				     136, 200, 264, 320, 3, 30 };
	uint32_t first = n == 1 && most > 8, i;

	for (i = 0; i < n; i++) {
		int64_t size;

		do {
			size = sizes[first + drawn(t, (i + 1 < n ? 16 : 14) -
						  first)];
		} while (size > most && size > 8);
		most /= size;
		snprintf(t->dims[t->ndims], sizeof t->dims[0], "%c%u", name,
			 i);
		t->sizes[t->ndims++] = size;
		buf_printf(&t->head, "dim %c%u = %lld\n", name, i,
			   (long long)size);
	}
}

static const char *
result_dims(struct text *t, const uint32_t *ia, uint32_t na,
	    const uint32_t *ib, uint32_t nb)
{
	struct buf dims;
	uint32_t i;

	buf_init(&dims, t->a);
	buf_puts(&dims, list(t, ia, na, 'b'));
	for (i = 0; i < 2; i++) {
		const char *part = list(t, i ? ib : ia, i ? nb : na,
					i ? 'n' : 'm');

		buf_printf(&dims, "%s%s", dims.n && *part ? ", " : "", part);
	}
	return buf_text(&dims);
}

static const char *
dot_text(struct arena *a, uint64_t seed)
{
	struct text t = { .a = a, .rng = seed * 0x9e3779b97f4a7c15 | 1 };
	uint32_t ia[6], ib[6], na, nb, x, y;
	const char *dims, *last;

	buf_init(&t.head, a);
	buf_init(&t.body, a);
	t.dtype = drawn(&t, 4) ? "bf16" : "f16";
	t.sliced = (char)"ab00"[drawn(&t, 4)];
	if (drawn(&t, 4) == 0) {
		suitable(&t, 'b', 1, 8);
	}
	suitable(&t, 'm', 1 + (drawn(&t, 3) == 0), 400);
	suitable(&t, 'n', 1 + (drawn(&t, 3) == 0), 400);
	suitable(&t, 'k', 1 + (drawn(&t, 3) == 0), drawn(&t, 4) ? 200 : 700);
	na = shuffled(&t, "bmk", ia);
	nb = shuffled(&t, "bnk", ib);
	x = operand(&t, 'a', ia, na);
	y = operand(&t, 'b', ib, nb);
	dims = result_dims(&t, ia, na, ib, nb);
	buf_printf(&t.body, "  %%%u = dot %%%u, %%%u over=(%s) : %s[%s]\n",
		   t.values, x, y, list(&t, ia, na, 'k'), t.dtype, dims);
	last = strrchr(dims, ' ');
	last = last ? last + 1 : dims;
	epilogue(&t, drawn(&t, 7), t.values++, dims, last);
	return arena_printf(a, "llmc-ir 1\n%s\nmodel {\n%s",
			    buf_text(&t.head), buf_text(&t.body));
}

/* ---- running ---- */

static double
most_of(const char *text)
{
	return strstr(text, "bf16") ? 0.016 : 0.004;
}

/* How often emitted kernels have a word. */
static uint32_t
with(struct tc *c, const char *word)
{
	uint32_t n = 0, i;

	for (i = 0; i < TC_SOURCES; i++) {
		const char *p = buf_text(&c->source[i]);

		while ((p = strstr(p, word))) {
			n++;
			p++;
		}
	}
	return n;
}

/* Kernels with wgmma or tcgen05, of those emitted. */
static uint32_t
with_async(struct tc *c)
{
	return with(c, "regs_more(");
}

static bool
is_hopper(const char *arch)
{
	return strcmp(arch, "sm_90a") == 0;
}

/* n drawn texts; fewer where sums lie in tensor memory, as all before and after
 * the products is the same. */
static void
run_random(const char *arch, uint64_t seed, uint32_t n, int64_t units,
	   int flags)
{
	const char *from = getenv("DOT_SEED");
	uint32_t rounds = from ? 1 : is_hopper(arch) ? n : n / 3, i, made;
	struct tc c;

	tc_open(&c, NULL, arch);
	c.c.units = units ? units : c.c.units;
	for (i = 0; i < rounds; i++) {
		const char *text = dot_text(&c.a, from ? strtoull(from, NULL,
			10) : seed + i);

		if (getenv("T_CUDA_SHOW")) {
			printf("seed %llu\n%s", (unsigned long long)(seed + i),
			       text);
		}
		tc_text(&c, text, most_of(text));
	}
	made = with_async(&c);
	if (getenv("T_CUDA_SHOW")) {
		printf("%u of %u with wgmma or tcgen05\n", made, rounds);
	}
	assert_int_equal(c.refused, 0);
	assert_true(from || 3 * made > rounds);
	tc_run(&c, flags);
	tc_close(&c);
}

/* As many multiprocessors as there are: a tile each. */
static void
test_wide(void **state)
{
	run_random(*state, 1, 24, 0, 0);
}

/* Few: the ring goes round, teams take turns, clusters walk on. */
static void
test_narrow(void **state)
{
	run_random(*state, 101, 24, 2, 0);
}

static void
test_checked(void **state)
{
	run_random(*state, 201, 12, 3, RT_EMU_CHECK);
}

/* ---- shapes that are chosen ---- */

/*
 * Of products of f8e4m3: the emulator loses what wgmma does.  Of sums that grow
 * with k promotion keeps this for any k; without it 3008 of k lose more.
 */
#define SHORT 0x1p-6

/* Elements; m, n, k; rows of A, of B are along k; what is after. */
static const char *
plain(struct arena *a, const char *type, int64_t m, int64_t n, int64_t k,
      const char *ab, const char *behind)
{
	const char *from = strcmp(type, "f8e4m3") ? "weight" : "input";

	return arena_printf(a, "llmc-ir 1\ndim m = %lld\ndim n = %lld\n"
		"dim k = %lld\nmodel {\n"
		"  %%0 = %s name=\"a\" : %s[%s]\n"
		"  %%1 = %s name=\"b\" : %s[%s]\n"
		"  %%2 = dot%s %%0, %%1 over=k : %s[m, n]\n%s",
		(long long)m, (long long)n, (long long)k,
		from, type, ab[0] == 'k' ? "m, k" : "k, m",
		from, type, ab[1] == 'k' ? "n, k" : "k, n",
		strcmp(type, "f8e4m3") == 0 ? "_f32" : "",
		strcmp(type, "f8e4m3") == 0 ? "f32" : type, behind);
}

#define STORE "  return %2\n}\n"
#define SCALED \
	"  %3 = weight name=\"s\" : f32[m]\n" \
	"  %4 = mul %2, %3 : f32[m, n]\n" \
	"  %5 = cast %4 : bf16[m, n]\n  return %5\n}\n"
#define BIASED \
	"  %3 = weight name=\"s\" : bf16[n]\n" \
	"  %4 = add %2, %3 : bf16[m, n]\n  return %4\n}\n"
#define RESIDUAL \
	"  %3 = weight name=\"r\" : bf16[m, n]\n" \
	"  %4 = add %2, %3 : bf16[m, n]\n  return %4\n}\n"
#define GROW "  accumulate %2 name=\"g\"\n  return %0\n}\n"

/* Both teams, one team of two, clusters, parts of k; for NVRTC too. */
static void
test_tiles(void **state)
{
	const char *arch = *state;
	static const char *const orders[] = { "kk", "kn", "mk", "mn" };
	struct tc c;
	uint32_t i;

	tc_open(&c, NULL, arch);
	c.c.units = 4;
	for (i = 0; i < 4; i++) {
		tc_text(&c, plain(&c.a, "bf16", 512, 512, 256, orders[i],
				  STORE), 0.016);
		tc_text(&c, plain(&c.a, "bf16", 136, 520, 1032, orders[i],
				  i % 2 ? RESIDUAL : GROW), 0.016);
	}
	assert_int_equal(with_async(&c), 8);
	/* the copying unit loads what they are added to */
	assert_int_equal(with(&c, "mbar_wait(added, "),
			 is_hopper(arch) ? 4 : 0);
	tc_run(&c, RT_EMU_CHECK);
	tc_close(&c);
}

/*
 * What the copying unit stores: tiles that end beyond rows or columns, rows
 * of several dims that do not fill tiles, batches, narrow tiles, both teams;
 * and buffers that are filled again, by the next tile too.
 */
static void
test_stored(void **state)
{
	const char *arch = *state;
	static const int sizes[][5] = {
		{ 1, 3, 96, 136, 72 }, { 2, 1, 200, 264, 128 },
		{ 3, 2, 128, 32, 64 }, { 1, 1, 640, 768, 64 },
		{ 2, 5, 64, 96, 200 }, { 1, 1, 1000, 40, 64 }
	};
	struct tc c;
	uint32_t i;

	tc_open(&c, NULL, arch);
	c.c.units = 2;
	for (i = 0; i < 6; i++) {
		const int *n = sizes[i];
		const char *t = i % 2 ? "f16" : "bf16";

		tc_text(&c, arena_printf(&c.a, "llmc-ir 1\ndim b = %d\n"
			"dim h = %d\ndim m = %d\ndim n = %d\ndim k = %d\n"
			"model {\n"
			"  %%0 = weight name=\"a\" : %s[h, b, m, k]\n"
			"  %%1 = weight name=\"b\" : %s[b, n, k]\n"
			"  %%2 = dot %%0, %%1 over=k : %s[b, h, m, n]\n%s",
			n[0], n[1], n[2], n[3], n[4], t, t, t, STORE), 0.016);
	}
	assert_int_equal(with_async(&c), 6);
	assert_int_equal(with(&c, "tma_commit()"), 6);
	tc_run(&c, RT_EMU_CHECK);
	tc_close(&c);
}

/* All tiles in so many parts, of few stages and of many; how many. */
static uint32_t
with_parts(struct tc *c, const char *text, int splits, int cluster,
	   double most)
{
	struct cu_tiling *t = c->c.tiling;
	struct cu_candidates ways;
	uint32_t n = 0, i;

	t->force = NULL;
	tc_text(c, text, most);
	ways = t->last.at[0];
	for (i = 0; i < ways.at.n; i++) {
		const struct plan_tile *x = &ways.at.at[i].tile;

		if (x->num[PLAN_TILE_SPLITS] == splits &&
		    x->num[PLAN_TILE_CLUSTER] == cluster &&
		    !ways.at.at[i].fewer) {
			t->force = x;
			tc_text(c, text, most);
			assert_true(t->last.at[0].met);
			n++;
		}
	}
	return n;
}

/*
 * Only the last wave's tiles are made of parts, or all of them where they are
 * not enough for one; whatever becomes of sums.
 */
static void
add_parts(struct tc *c)
{
	static const char *const behind[] = { STORE, BIASED, GROW };
	static const char *const orders[] = { "kk", "kn", "mn" };
	static const int sizes[][3] = {
		{ 640, 136, 776 }, { 136, 520, 1032 }, { 256, 320, 840 }
	};
	struct cg_tiling in = { .list = true };
	uint32_t n = 0, i;

	c->c.tiling = cu_tiling_open(&c->a, &in);
	for (i = 0; i < 9; i++) {
		const char *end = behind[(i + i / 3) % 3];
		const char *type = end == behind[1] || i % 2 ? "bf16" : "f16";
		const int *s = sizes[i / 3];

		c->c.units = 3 + i % 2;
		n += with_parts(c, plain(&c->a, type, s[0], s[1], s[2],
			orders[i % 3], end), 2 + (int)i % 2, 1 + (int)i % 2,
			0.016);
	}
	c->c.units = 2;
	n += with_parts(c, plain(&c->a, "tf32", 72, 264, 656, "kk", STORE), 3,
			1, 0x1p-9);
	n += with_parts(c, plain(&c->a, "f8e4m3", 264, 72, 1100, "kk", SCALED),
			2, 1, SHORT);
	c->c.units = 20;
	n += with_parts(c, plain(&c->a, "bf16", 128, 256, 1100, "nm", BIASED),
			4, 2, 0.016);
	assert_int_equal(c->refused, 0);
	assert_true(n > (c->c.arch->wgmma ? 30 : 16));
	assert_int_equal(with(c, "_part((f32"), n);
	/* whole tiles beside parts */
	assert_true(with(c, "if (tile >= ") > (c->c.arch->wgmma ? 10 : 5));
	c->c.tiling = NULL;
}

static void
test_parts(void **state)
{
	const char *arch = *state;
	struct tc c;

	tc_open(&c, NULL, arch);
	add_parts(&c);
	tc_run(&c, 0);
	tc_close(&c);
}

/* Sums in f32, as a gradient has them. */
static const char *
wide_sums(struct arena *a, int64_t m, int64_t n, int64_t k)
{
	return arena_printf(a, "llmc-ir 1\ndim m = %lld\ndim n = %lld\n"
		"dim k = %lld\nmodel {\n"
		"  %%0 = weight name=\"a\" : bf16[m, k]\n"
		"  %%1 = weight name=\"b\" : bf16[n, k]\n"
		"  %%2 = dot_f32 %%0, %%1 over=k : f32[m, n]\n%s",
		(long long)m, (long long)n, (long long)k, GROW);
}

/*
 * What is added to a sum, or stored if that holds nothing yet: rows from
 * registers to f32, of even and odd lengths, that tiles fill or not; 16 bits by
 * boxes and by threads.
 */
static void
test_sums(void **state)
{
	const char *arch = *state;
	static const int sizes[][3] = {
		{ 512, 512, 128 }, { 200, 264, 72 }, { 136, 129, 80 }
	};
	struct tc c;
	uint32_t i;

	tc_open(&c, NULL, arch);
	c.c.units = 2;
	for (i = 0; i < 3; i++) {
		const int *n = sizes[i];

		tc_text(&c, wide_sums(&c.a, n[0], n[1], n[2]), 0x1p-9);
	}
	tc_text(&c, plain(&c.a, "bf16", 300, 264, 128, "kk", GROW), 0.016);
	tc_text(&c, plain(&c.a, "f16", 128, 520, 72, "mn", GROW), 0.016);
	assert_int_equal(with_async(&c), 5);
	/* a loop that adds, and one that stores */
	assert_true(with(&c, "_add_row(to + ") > 0);
	assert_true(with(&c, "_row(to + ") == 2 * with(&c, "_add_row(to + "));
	assert_int_equal(with(&c, "_add_box(const"), is_hopper(arch) ? 2 : 0);
	assert_int_equal(with(&c, "_box(const"), is_hopper(arch) ? 4 : 0);
	tc_run(&c, RT_EMU_CHECK);
	tc_close(&c);
}

/* The largest tiles: no register is spilled, no products wait. */
static void
test_registers(void **state)
{
	const char *arch = *state;
	static const struct {
		const char *order;
		int m, n;
	} cases[] = { { "kk", 512, 512 }, { "kn", 256, 128 },
		      { "mk", 64, 520 }, { "mn", 512, 512 } };
	int64_t most;
	struct tc c;
	uint32_t i;

	tc_open(&c, NULL, arch);
	c.c.units = 2;
	c.unrun = true;
	for (i = 0; i < 4; i++) {
		tc_text(&c, plain(&c.a, i % 2 ? "f16" : "bf16", cases[i].m,
				  cases[i].n, 256, cases[i].order, STORE),
			0.016);
	}
	tc_text(&c, plain(&c.a, "bf16", 512, 512, 256, "mn", GROW), 0.016);
	tc_text(&c, wide_sums(&c.a, 512, 512, 256), 0x1p-9);
	for (i = 0; is_hopper(arch) && i < 2; i++) {
		tc_text(&c, plain(&c.a, "f8e4m3", i ? 64 : 512, 520, 1024,
				  "kk", i ? SCALED : STORE), SHORT);
	}
	most = tc_compile(&c, arch);
	tc_close(&c);
	if (!most) {
		skip();
	}
	assert_int_equal(most, 168);
}

/*
 * Elements of 32 and of 8 bits, which these take along k alone: the other
 * orders are made by the kernels for sm_80.
 */
static void
test_units(void **state)
{
	const char *arch = *state;
	static const char *const types[] = { "tf32", "f8e4m3" };
	static const char *const orders[] = { "kk", "kn", "mk" };
	struct tc c;
	uint32_t i;

	tc_open(&c, NULL, arch);
	c.c.units = 4;
	for (i = 0; i < 6; i++) {
		const char *t = types[i / 3], *o = orders[i % 3];

		tc_text(&c, plain(&c.a, t, 256, 256, 256, o, STORE),
			i < 3 ? 0x1p-9 : SHORT);
		tc_text(&c, plain(&c.a, t, 72, 264, 656, o, i < 3 ? GROW
				  : SCALED), i < 3 ? 0x1p-9 : SHORT);
	}
	assert_int_equal(with_async(&c), 4);
	tc_run(&c, RT_EMU_CHECK);
	tc_close(&c);
}

/*
 * f8e4m3 in each tile, whose sums are promoted where wgmma makes them: of some
 * stages, and of so many that sums without promotion would be wrong.
 */
static void
test_promoted(void **state)
{
	const char *arch = *state;
	struct cg_tiling in = { .list = true };
	struct tc c;
	uint32_t n = 0;
	int i;

	tc_open(&c, NULL, arch);
	c.c.units = 2;
	tc_text(&c, plain(&c.a, "f8e4m3", 72, 200, 3008, "kk", STORE), SHORT);
	c.c.tiling = cu_tiling_open(&c.a, &in);
	for (i = 1; i < 3; i++) {
		n += with_parts(&c, plain(&c.a, "f8e4m3", 200, 200, 656, "kk",
					  SCALED), 1, i, SHORT);
	}
	assert_true(n > (is_hopper(arch) ? 7 : 3));
	assert_int_equal(with(&c, "part[j];") > 0, is_hopper(arch));
	c.c.tiling = NULL;
	tc_run(&c, RT_EMU_CHECK);
	tc_close(&c);
}

/* A digest of what persistent kernels for four multiprocessors give, on so many
 * blocks. */
static uint64_t
bits_of(const char *arch, int64_t blocks)
{
	struct tc c;

	tc_open(&c, NULL, arch);
	c.c.units = 4;
	c.blocks = blocks;
	tc_text(&c, plain(&c.a, "bf16", 640, 776, 72, "kk", STORE), 0.016);
	tc_text(&c, plain(&c.a, "bf16", 136, 520, 1032, "kn", GROW), 0.016);
	tc_text(&c, "llmc-ir 1\ndim b = 1\ndim s = 300\ndim h = 4\n"
		"dim k = 2\ndim d = 64\nmodel {\n"
		"  %0 = weight name=\"q\" : bf16[b, s, h, d]\n"
		"  %1 = weight name=\"k\" : bf16[b, s, k, d]\n"
		"  %2 = weight name=\"v\" : bf16[b, s, k, d]\n"
		"  %3 = attention %0, %1, %2 causal : bf16[b, s, h, d]\n"
		"  return %3\n}\n", 0.016);
	/* all take their tiles, or items */
	assert_int_equal(with(&c, "atomic_add_i32(taken, 1)"), 3);
	tc_run(&c, 0);
	tc_close(&c);
	return c.bits;
}

/*
 * A device may have fewer multiprocessors than a program was compiled for, or
 * more.  Blocks wait for no other cluster, as the emulator runs one cluster
 * after another; and each result is the same to the bit.
 */
static void
test_blocks(void **state)
{
	uint64_t bits = bits_of(*state, 0);

	assert_true(bits != 0);
	assert_true(bits_of(*state, 2) == bits);
	assert_true(bits_of(*state, 26) == bits);
}

/* Whole heads after it, and boxes of several dims. */
static void
test_heads(void **state)
{
	const char *arch = *state;
	static const int sizes[][5] = { { 2, 96, 3, 64, 128 },
		{ 2, 64, 2, 128, 72 }, { 3, 40, 4, 32, 256 } };
	struct tc c;
	uint32_t i;

	tc_open(&c, NULL, arch);
	c.c.units = 2;
	for (i = 0; i < 3; i++) {
		const int *n = sizes[i];

		tc_text(&c, arena_printf(&c.a, "llmc-ir 1\ndim b = %d\n"
			"dim s = %d\ndim h = %d\ndim d = %d\ndim k = %d\n"
			"model {\n"
			"  %%0 = weight name=\"a\" : bf16[b, s, k]\n"
			"  %%1 = weight name=\"b\" : bf16[h, d, k]\n"
			"  %%2 = dot %%0, %%1 over=k : bf16[b, s, h, d]\n"
			"  %%3 = rope %%2 seq=s theta=10000 : "
			"bf16[b, s, h, d]\n  return %%3\n}\n", n[0], n[1],
			n[2], n[3], n[4]), 0.016);
	}
	assert_int_equal(with_async(&c), 3);
	tc_run(&c, 0);
	tc_close(&c);
}

/*
 * Rows of odd numbers of elements that lie apart: the copying unit loads and
 * stores them all.  Between rows, where it must not read, are NaNs.
 */
static void
test_apart(void **state)
{
	static const char *const behind[] = { STORE, BIASED, RESIDUAL, GROW };
	static const char *const orders[] = { "kk", "kn", "mk", "mn" };
	static const int sizes[][3] = { { 133, 265, 521 }, { 147, 139, 201 } };
	struct tc c;
	uint32_t i, j;

	tc_open(&c, NULL, *state);
	c.c.units = 2;
	c.apart = true;
	for (i = 0; i < 2; i++) {
		for (j = 0; j < 4; j++) {
			tc_text(&c, plain(&c.a, "bf16", sizes[i][0],
					  sizes[i][1], sizes[i][2], orders[j],
					  behind[(i + j) % 4]), 0.016);
		}
	}
	c.c.units = 3;
	tc_text(&c, plain(&c.a, "bf16", 640, 139, 1035, "kn", STORE), 0.016);
	tc_text(&c, plain(&c.a, "tf32", 133, 139, 265, "kk", STORE), 0.004);
	assert_int_equal(with_async(&c), 10);
	/* bf16 that is stored, and what it is added to */
	assert_true(with(&c, "tma_store") > 0);
	tc_run(&c, RT_EMU_CHECK);
	tc_close(&c);
}

/* The slots that a contraction's kernel of 4096 x 1024 x 4096 is said to need
 * after its products, for each of its sums: tiles of one wave, whose epilogue
 * those run that multiply. */
static double
estimate(struct arena *a, const char *behind)
{
	double slots, m, n;
	const char *at;
	struct tc c;

	tc_open(&c, NULL, "sm_90a");
	c.unrun = true;
	tc_text(&c, plain(a, "bf16", 4096, 1024, 4096, "kk", behind), 0.016);
	at = strstr(buf_text(&c.source[0]), " tiles of ");
	assert_non_null(at);
	assert_int_equal(sscanf(at, " tiles of %lf x %lf,", &m, &n), 2);
	at = strstr(at, "after the products: some ");
	assert_non_null(at);
	assert_int_equal(sscanf(at, "after the products: some %lf", &slots), 1);
	tc_close(&c);
	/* two warpgroups, each of whose warps takes 32 columns at a time */
	assert_true(m == 128 && n == 256);
	return (slots - 40 * n / 32) / (m * n / 256);
}

static void
assert_slots(double slots, double want)
{
	/* the kernel's comment is a whole number, of 128 sums */
	if (fabs(slots - want) >= 0.01) {
		fail_msg("%g slots, not %g", slots, want);
	}
}

#define THROUGH (0.5 + 0.25)	/* to shared memory, and back */
#define STORED (0.5 + 3.0 / 8)	/* rounded, an eighth of a store */
#define LOADED (1.0 + 3.0 / 8)	/* an eighth of a load, widened */

/*
 * What becomes of a sum is counted once: what two results share, what is added
 * to a product, and what changes along rows alone.
 */
static void
test_estimate(void **state)
{
	struct arena *a;
	struct tc c;

	(void)state;
	tc_open(&c, NULL, "sm_90a");
	a = &c.a;
	assert_slots(estimate(a, "  %3 = sigmoid %2 : bf16[m, n]\n"
			     "  return %3\n}\n"), THROUGH + 10 + STORED);
	assert_slots(estimate(a, "  %3 = sigmoid %2 : bf16[m, n]\n"
			     "  %4 = mul %2, %3 : bf16[m, n]\n"
			     "  return %3, %4\n}\n"),
		    THROUGH + 10 + 1 + 2 * STORED);
	assert_slots(estimate(a, "  %3 = weight name=\"r\" : bf16[m, n]\n"
			     "  %4 = mul %2, %3 : bf16[m, n]\n"
			     "  %5 = add %4, %3 : bf16[m, n]\n"
			     "  return %5\n}\n"),
		    THROUGH + LOADED + 1 + STORED);
	/* one load for the eight elements of a vector */
	assert_slots(estimate(a, "  %3 = weight name=\"r\" : f32[m]\n"
			     "  %4 = cast %2 : f32[m, n]\n"
			     "  %5 = mul %4, %3 : f32[m, n]\n"
			     "  %6 = cast %5 : bf16[m, n]\n"
			     "  return %6\n}\n"),
		    THROUGH + 4.0 / 8 + 1 + STORED);
	tc_close(&c);
}

#define ON(arch) \
	BY(test_tiles, arch), BY(test_stored, arch), BY(test_parts, arch), \
	BY(test_sums, arch), BY(test_apart, arch), \
	BY(test_registers, arch), BY(test_units, arch), \
	BY(test_promoted, arch), \
	BY(test_heads, arch), BY(test_blocks, arch), BY(test_wide, arch), \
	BY(test_narrow, arch), BY(test_checked, arch)
#define BY(test, arch) \
	{ #test " for " #arch, test, NULL, NULL, arch }

int
main(void)
{
	static char sm_90a[] = "sm_90a", sm_100a[] = "sm_100a";
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_estimate),
		ON(sm_90a),
		ON(sm_100a),
	};

	if (t_left_out()) {
		return 77;
	}
	return t_run_today(tests, sizeof tests / sizeof tests[0], 8);
}
