/*
 * Contractions of a GPU, on the emulator: random shapes, orders of dims,
 * batches, dtypes, views and epilogues; experts; models.  T_ONLY='*groups' runs
 * some of the tests.
 */
#include "tests/unit/cuda/t-cuda.h"
#include "codegen/cg.h"
#include "tests/unit/shared/t-dot-text.h"
#include "tests/unit/shared/t-models.h"
#include "tests/unit/shared/t-today.h"

#define DIMS \
	"llmc-ir 1\ndim m = 70\ndim n = 90\ndim k = 72\ndim e = 5\n" \
	"dim b = 3\ndim c = 2\n"
/* the same, whose operands can be copied 16 bytes at a time */
#define MORE_DIMS \
	"llmc-ir 1\ndim m = 250\ndim n = 120\ndim k = 520\ndim e = 3\n" \
	"dim b = 2\ndim c = 2\n"

/* of more columns and rows than a tile */
#define WIDE_DIMS \
	"llmc-ir 1\ndim m = 80\ndim n = 256\ndim k = 264\ndim e = 3\n" \
	"dim b = 1\ndim c = 2\n"

static struct tc all;
static uint32_t dots, experts, refused;

static bool
is_dot(const struct kernel *k)
{
	return k->kind == KERNEL_CONTRACTION;
}

static bool
by_dot(struct cu_kernel *k, const struct kernel *x)
{
	if (cu_dot_steps(k, x)) {
		dots++;
		return true;
	}
	cu_kernel_reset(k);
	if (cu_experts_steps(k, x)) {
		experts++;
		return true;
	}
	/* a rank may have nothing of a dim */
	refused++;
	cu_kernel_reset(k);
	return cu_nest_all(k, x);
}

/* One multiprocessor: large tiles, k is not split; 0: as many as usual. */
static void
begin(const char *arch, int64_t units)
{
	dots = experts = refused = 0;
	tc_open(&all, by_dot, arch);
	all.wants = is_dot;
	all.c.units = units ? units : all.c.units;
}

static void
finish(int flags)
{
	tc_run(&all, flags);
	if (getenv("T_CUDA_SHOW")) {
		printf("%u dots, %u with experts, %u refused, %.1e\n", dots,
		       experts, refused, all.worst);
	}
	tc_close(&all);
}

static double
most_of(const char *text)
{
	/* of f16 small results have few bits; weights of f8 are rounded, and
	 * inputs are not, but sums have fewer bits where they are made; and
	 * weights that are widened have been rounded before */
	return strstr(text, "input name=\"x\" : f8") ? 0x1p-6
		: strstr(text, "f8") && !strstr(text, "rounded=") ? 0x1p-3
		: strstr(text, "bf16") ? 0x1p-6
		: strstr(text, "f16") ? 0x1p-5
		: strstr(text, "tf32") ? 0x1p-9 : 1e-5;
}

static void
add(const char *text)
{
	uint32_t before = dots + experts;

	tc_text(&all, text, most_of(text));
	if (dots + experts == before || refused) {
		fail_msg("no contraction:\n%s", text);
	}
}

/* ---- contractions ---- */

static void
random_texts(uint64_t seed, uint32_t n)
{
	const char *from = getenv("DOT_SEED");
	uint32_t i;

	for (i = 0; i < n; i++, seed++) {
		if (!from || strtoull(from, NULL, 10) == seed) {
			all.c.units = i % 3 == 0 ? 1
				: tc_units(all.c.arch);
			add(random_text(&all.a, seed, 7));
		}
	}
}

static void
test_random(void **state)
{
	static const char *const archs[] = { "sm_80", "sm_86", "sm_89" };
	uint32_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		begin(archs[i], 0);
		random_texts(1 + 100 * i, 16);
		finish(0);
	}
}

static void
test_checked(void **state)
{
	(void)state;
	begin("sm_80", 0);
	random_texts(401, 12);
	finish(RT_EMU_CHECK);
}

/* Rows lie apart, with NaNs in between. */
static void
test_apart(void **state)
{
	static const char *const archs[] = { "sm_80", "sm_89" };
	uint32_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		begin(archs[i], 0);
		all.apart = true;
		random_texts(501 + 100 * i, 12);
		finish(RT_EMU_CHECK);
	}
}

static void
test_boxes(void **state)
{
	uint32_t i;

	(void)state;
	begin("sm_80", 0);
	for (i = 0; i < DOT_BOXES; i++) {
		add(dot_boxes[i]);
	}
	finish(RT_EMU_CHECK);
}

/* Every unit in every order of dims, in large tiles and in small ones. */
static void
units_of(const char *arch, const char *const *types, uint32_t n)
{
	uint32_t i;

	begin(arch, 0);
	for (i = 0; i < 8 * n; i++) {
		const char *t = types[i / 8];

		all.c.units = i & 4 ? 1 : 1000;
		add(arena_printf(&all.a, "llmc-ir 1\ndim m = 160\n"
			"dim n = 272\ndim k = 144\nmodel {\n"
			"  %%0 = weight name=\"a\" : %s[%s]\n"
			"  %%1 = weight name=\"b\" : %s[%s]\n"
			"  %%2 = dot %%0, %%1 over=k : %s[m, n]\n"
			"  return %%2\n}\n", t, i & 1 ? "k, m" : "m, k", t,
			i & 2 ? "k, n" : "n, k", t));
	}
	finish(0);
}

static void
test_units(void **state)
{
	static const char *const ampere[] = { "bf16", "f8e4m3", "tf32" };
	static const char *const ada[] = { "f8e4m3", "f32" };

	(void)state;
	units_of("sm_80", ampere, 3);
	units_of("sm_89", ada, 2);
}

/* Of 8 bits and so many of k that sums of mma.sync alone would be wrong:
 * in large tiles, in small ones, and in parts of k. */
static void
test_promoted(void **state)
{
	static const struct {
		int m, n, units;
		const char *type;
	} of[] = { { 200, 264, 1, "f8e4m3" }, { 72, 136, 1, "f8e4m3" },
		   { 40, 72, 4, "f8e4m3" }, { 24, 40, 1000, "f8e4m3" },
		   { 72, 136, 1, "f8e5m2" }, { 24, 40, 1000, "f8e5m2" } };
	size_t i;

	(void)state;
	begin("sm_89", 0);
	for (i = 0; i < sizeof of / sizeof of[0]; i++) {
		all.c.units = of[i].units;
		add(arena_printf(&all.a, "llmc-ir 1\ndim m = %d\n"
			"dim n = %d\ndim k = 3008\nmodel {\n"
			"  %%0 = input name=\"x\" : %s[m, k]\n"
			"  %%1 = input name=\"w\" : %s[n, k]\n"
			"  %%2 = dot_f32 %%0, %%1 over=k : f32[m, n]\n"
			"  return %%2\n}\n", of[i].m, of[i].n, of[i].type,
			of[i].type));
	}
	finish(RT_EMU_CHECK);
}

/* ---- experts ---- */

/* Where tokens go: anywhere; to the first experts alone, as all are equal. */
#define ANYWHERE "  %1 = input name=\"to\" : idx<e>[b, m, c]\n"
#define FIRST \
	"  %9 = weight name=\"r\" init=zeros : f32[b, m, e]\n" \
	"  %1 = topk %9 of=e to=c : idx<e>[b, m, c]\n"

static void
add_experts(const char *dims, const char *t, const char *to)
{
	struct arena *a = &all.a;
	const char *head = arena_printf(a, "%smodel {\n"
		"  %%0 = weight name=\"x\" : %s[b, m, k]\n%s", dims, t, to);

	add(arena_printf(a, "%s"
		"  %%2 = weight name=\"w\" : %s[e, n, k]\n"
		"  %%3 = dot_at %%0, %%1, %%2 over=k of=e : %s[b, m, c, n]\n"
		"  return %%3\n}\n", head, t, t));
	add(arena_printf(a, "%s"
		"  %%2 = weight name=\"w\" : %s[k, e, n]\n"
		"  %%3 = dot_at %%0, %%1, %%2 over=k of=e : %s[b, m, c, n]\n"
		"  %%4 = weight name=\"z\" : %s[b, m, c, n]\n"
		"  %%5 = mul %%3, %%4 : %s[b, m, c, n]\n"
		"  %%6 = silu %%5 : %s[b, m, c, n]\n"
		"  return %%6\n}\n", head, t, t, t, t, t));
	add(arena_printf(a, "%s"
		"  %%2 = weight name=\"g\" : %s[b, m, c, n]\n"
		"  %%3 = dot_to %%0, %%2, %%1 of=e : %s[e, n, k]\n"
		"  accumulate %%3 name=\"w\"\n  return %%0\n}\n", head, t, t));
	add(arena_printf(a, "%s"
		"  %%2 = weight name=\"g\" : %s[b, m, c, n]\n"
		"  %%3 = dot_to %%0, %%2, %%1 of=e : %s[e, n, k]\n"
		"  %%4 = tanh %%3 : %s[e, n, k]\n"
		"  return %%4\n}\n", head, t, t, t));
}

static void
test_experts(void **state)
{
	(void)state;
	begin("sm_80", 0);
	add_experts(DIMS, "f32", ANYWHERE);
	add_experts(DIMS, "bf16", ANYWHERE);
	all.c.units = 1;
	add_experts(DIMS, "bf16", ANYWHERE);
	assert_int_equal(experts, 12);
	finish(RT_EMU_CHECK);
}

/* How often the text has it. */
static int
occurs(const struct tc *c, const char *what)
{
	int i, n = 0;

	for (i = 0; i < TC_SOURCES; i++) {
		const char *at = buf_text((struct buf *)&c->source[i]);

		while ((at = strstr(at, what)) != NULL) {
			at += strlen(what);
			n++;
		}
	}
	return n;
}

/* Layers follow each other in memory, so of 6 and 8 bytes some begin where a
 * copy of 16 cannot. */
static void
test_small_layers(void **state)
{
	(void)state;
	begin("sm_80", 1);
	add("llmc-ir 1\ndim m = 3\ndim n = 4\ndim k = 1\nmodel {\n"
	    "  %0 = weight name=\"x\" : bf16[m, k]\n"
	    "  %1 = weight name=\"w\" : bf16[n, k]\n"
	    "  %2 = dot %0, %1 over=k : bf16[m, n]\n  return %2\n}\n");
	assert_int_equal(occurs(&all, "cp_async16("), 0);
	finish(RT_EMU_CHECK);
}

/* By wgmma, where operands allow it. */
static void
test_experts_wgmma(void **state)
{
	(void)state;
	begin("sm_90a", 1);
	add_experts(MORE_DIMS, "bf16", ANYWHERE);
	assert_int_equal(occurs(&all, "wg_commit();"), 4);
	add_experts(MORE_DIMS, "f16", ANYWHERE);
	assert_int_equal(occurs(&all, "wg_commit();"), 8);
	add_experts(DIMS, "bf16", ANYWHERE);
	assert_int_equal(experts, 12);
	finish(RT_EMU_CHECK);
}

/*
 * The last of three experts gets no token: the gradient of its matrix is a sum
 * of nothing, zero, which adds nothing to what is accumulated.
 */
static void
test_experts_empty(void **state)
{
	(void)state;
	begin("sm_90a", 1);
	add_experts(MORE_DIMS, "bf16", FIRST);
	add_experts(MORE_DIMS, "f16", FIRST);
	assert_int_equal(occurs(&all, "wg_commit();"), 8);
	add_experts(DIMS, "bf16", FIRST);
	assert_int_equal(experts, 12);
	finish(RT_EMU_CHECK);
}

/* By tcgen05, where operands allow it: tiles of 64, 128 and 256 columns. */
static void
test_experts_tensor(void **state)
{
	(void)state;
	begin("sm_100a", 1);
	add_experts(MORE_DIMS, "bf16", ANYWHERE);
	all.c.units = 32;
	add_experts(MORE_DIMS, "f16", FIRST);
	all.c.units = 1;
	add_experts(WIDE_DIMS, "bf16", FIRST);
	assert_int_equal(occurs(&all, "tc_alloc(done + 32, 64);"), 4);
	assert_int_equal(occurs(&all, "tc_alloc(done + 48, 128);"), 2);
	/* gradients of few rows have tiles of warps */
	assert_int_equal(occurs(&all, "tc_alloc(done + 32, 256);"), 4);
	add_experts(DIMS, "bf16", ANYWHERE);
	assert_int_equal(occurs(&all, "\ttc_alloc("), 10);
	assert_int_equal(experts, 16);
	finish(RT_EMU_CHECK);
}

/* In 8 bits: the sums as they are, and scaled; of an even and of an odd number
 * of stages. */
static void
add_experts_narrow(int k)
{
	struct arena *a = &all.a;
	const char *head = arena_printf(a, "llmc-ir 1\ndim m = 250\n"
		"dim n = 120\ndim k = %d\ndim e = 3\ndim b = 2\ndim c = 2\n"
		"model {\n  %%0 = input name=\"x\" : f8e4m3[b, m, k]\n%s"
		"  %%2 = input name=\"w\" : f8e4m3[e, n, k]\n"
		"  %%3 = dot_at_f32 %%0, %%1, %%2 over=k of=e : "
		"f32[b, m, c, n]\n", k, ANYWHERE);

	add(arena_printf(a, "%s  return %%3\n}\n", head));
	add(arena_printf(a, "%s"
		"  %%4 = weight name=\"s\" : f32[b, m]\n"
		"  %%5 = mul %%3, %%4 : f32[b, m, c, n]\n"
		"  %%6 = weight name=\"t\" : f32[n]\n"
		"  %%7 = rescale %%5, %%6 : bf16[b, m, c, n]\n"
		"  return %%7\n}\n", head));
}

static void
test_experts_narrow(void **state)
{
	static const struct {
		const char *arch, *says;
	} on[] = {
		{ "sm_90a", "wg_e4m3_64x" }, { "sm_100a", "tc_mma_f8(" },
		{ "sm_89", "mma_e4m3(" }
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof on / sizeof on[0]; i++) {
		begin(on[i].arch, 1);
		add_experts_narrow(528);
		add_experts_narrow(400);
		assert_int_equal(experts, 4);
		assert_true(occurs(&all, on[i].says) >= 4);
		finish(RT_EMU_CHECK);
	}
}

/* ---- weights in groups of 4 bits ---- */

/* m rows by n columns in type t: stored, and with an epilogue; `x`: dims of the
 * left operand, of which k is `over`. */
static void
add_groups(const char *t, const char *x, const char *over, int m, int n, int k)
{
	struct arena *a = &all.a;
	const char *rows = *over == '(' ? "n, h, d" : "n, k";
	const char *head = arena_printf(a, "llmc-ir 1\ndim m = %d\n"
		"dim n = %d\ndim k = %d\ndim h = %d\ndim d = 64\nmodel {\n"
		"  %%0 = weight name=\"x\" : %s[%s]\n"
		"  %%1 = weight name=\"w\" frozen rounded=%s : int4[%s]\n"
		"  %%2 = cast %%1 : %s[%s]\n"
		"  %%3 = dot %%0, %%2 over=%s : %s[m, n]\n", m, n, k, k / 64,
		t, x, over, rows, t, rows, over, t);

	add(arena_printf(a, "%s  return %%3\n}\n", head));
	add(arena_printf(a, "%s"
		"  %%4 = weight name=\"s\" : %s[n]\n"
		"  %%5 = add %%3, %%4 : %s[m, n]\n"
		"  %%6 = silu %%5 : %s[m, n]\n"
		"  return %%6\n}\n", head, t, t, t));
}

/* Of each alignment that rows of 1, 2, 4 and 8 groups have; few rows and many,
 * in all tiles; left operands that are copied, and read one by one. */
static void
add_all_groups(void)
{
	static const char *const types[] = { "bf16", "f16", "f32", "tf32" };
	int i;

	for (i = 0; i < 4; i++) {
		all.c.units = i % 2 ? 1000 : 1;
		add_groups(types[i], "m, k", "k", 5, 72, 128 << i);
		all.c.units = i % 2 ? 1 : 1000;
		add_groups(types[i], "m, k", "k", 3, 200, 1024 >> i);
		add_groups(types[i], i % 2 ? "m, h, d" : "h, m, d", "(h, d)",
			   20, 40, 256);
	}
	all.c.units = 1;
	add_groups("bf16", "m, k", "k", 150, 264, 384);
	add_groups("f16", "k, m", "k", 56, 136, 256);
	add_groups("bf16", "m, k", "k", 32, 128, 1024);
	all.c.units = 200;
	add_groups("bf16", "m, k", "k", 1, 128, 2048);
}

static void
test_groups(void **state)
{
	static const char *const archs[] = { "sm_80", "sm_89", "sm_90a",
					     "sm_100a" };
	uint32_t i;

	(void)state;
	for (i = 0; i < 4; i++) {
		begin(archs[i], 0);
		if (i == 0) {
			add_all_groups();
		} else {
			add_groups("bf16", "m, k", "k", 40, 136, 512);
		}
		assert_int_equal(occurs(&all, "mma_bf16(part[i][j]"), i ? 4
				 : 24);
		finish(RT_EMU_CHECK);
	}
}

/* ---- weights of 8 bits ---- */

static void
add_bytes(const char *t, const char *stored, const char *w, int m, int n, int k)
{
	struct arena *a = &all.a;
	const char *head = arena_printf(a, "llmc-ir 1\ndim m = %d\n"
		"dim n = %d\ndim k = %d\nmodel {\n"
		"  %%0 = weight name=\"x\" : %s[m, k]\n"
		"  %%1 = weight name=\"w\" frozen rounded=k : %s[%s]\n"
		"  %%2 = cast %%1 : %s[%s]\n", m, n, k, t, stored, w, t, w);

	add(arena_printf(a, "%s  %%3 = dot_f32 %%0, %%2 over=k : f32[m, n]\n"
			 "  return %%3\n}\n", head));
	add(arena_printf(a, "%s  %%3 = dot_f32 %%0, %%2 over=k : f32[m, n]\n"
		"  %%4 = scales name=\"w_scale_inv\" stored=%s over=(%s) : "
		"f32[n]\n  %%5 = rescale %%3, %%4 : %s[m, n]\n"
		"  %%6 = silu %%5 : %s[m, n]\n  return %%6\n}\n", head, stored,
		w, t, t));
}

/* Of each alignment, of k that is no whole stages, few rows and many. */
static void
test_bytes(void **state)
{
	static const char *const archs[] = { "sm_80", "sm_89", "sm_90a" };
	static const char *const stored[] = { "int8", "f8e4m3" };
	int i;

	(void)state;
	for (i = 0; i < 6; i++) {
		const char *s = stored[i % 2];

		begin(archs[i / 2], 1);
		add_bytes("bf16", s, "n, k", 5, 72, 520);
		if (i < 2) {
			add_bytes("f16", s, "n, k", 150, 136, 100);
			add_bytes("bf16", s, "n, k", 40, 264, 272);
			all.c.units = 1000;
			add_bytes("bf16", s, "n, k", 1, 40, 1040);
			add_bytes("f16", s, "n, k", 12, 128, 1024);
		}
		assert_true(occurs(&all, i % 2 ? "= e4m3_bf16(cols"
					 : "= int8_bf16(cols") > 2);
		/* elements that are not contiguous are converted one by one */
		add_bytes("bf16", s, "k, n", 20, 40, 64);
		add_bytes("bf16", s, "n, k", 20, 40, 50);
		finish(RT_EMU_CHECK);
	}
}

/* ---- weights that are widened, of drawn shapes ---- */

/* A dot by a weight of 4 or 8 bits: m rows, n columns, k of some groups of 128,
 * of 8 bits also of a part of one; stored, or added to a residual. */
static void
add_drawn(uint64_t seed)
{
	static const char *const types[] = { "bf16", "f16" };
	static const char *const stored[] = { "int4", "int8", "f8e4m3" };
	const char *t = types[seed % 2], *s = stored[seed / 2 % 3];
	bool few = ir_rng_below(seed, 0, 2);
	int64_t m = 1 + ir_rng_below(seed, 1, few ? 9 : 140);
	int64_t n = 1 + ir_rng_below(seed, 2, 270);
	int64_t k = 128 * (1 + ir_rng_below(seed, 3, 9));
	struct arena *a = &all.a;

	if (strcmp(s, "int4") != 0) {
		k -= ir_rng_below(seed, 4, 32) * 4;
	}
	all.c.units = ir_rng_below(seed, 5, 2) ? 1 : tc_units(all.c.arch);
	add(arena_printf(a, "llmc-ir 1\ndim m = %lld\ndim n = %lld\n"
		"dim k = %lld\nmodel {\n"
		"  %%0 = weight name=\"x\" : %s[m, k]\n"
		"  %%1 = weight name=\"w\" frozen rounded=k : %s[n, k]\n"
		"  %%2 = cast %%1 : %s[n, k]\n"
		"  %%3 = dot %%0, %%2 over=k : %s[m, n]\n%s",
		(long long)m, (long long)n, (long long)k, t, s, t, t,
		ir_rng_below(seed, 6, 2) ? "  return %3\n}\n"
		: arena_printf(a, "  %%4 = weight name=\"r\" : %s[m, n]\n"
			"  %%5 = add %%4, %%3 : %s[m, n]\n  return %%5\n}\n",
			t, t)));
}

static void
test_widened_drawn(void **state)
{
	static const char *const archs[] = { "sm_80", "sm_89", "sm_90a",
					     "sm_100a" };
	const char *from = getenv("DOT_SEED");
	uint64_t first = from ? strtoull(from, NULL, 10) : 1, i, j;

	(void)state;
	for (i = 0; i < 4; i++) {
		begin(archs[i], 0);
		for (j = 0; j < 12; j++) {
			add_drawn(first + 12 * i + j);
		}
		assert_int_equal(occurs(&all, "two[i][0][0] = "), 12);
		finish(RT_EMU_CHECK);
	}
}

/* Copies of 16 bytes need few registers, so a multiprocessor has as many blocks
 * as the table of tiles says, four of 64 threads here; of 8 bytes two. */
static void
test_widened_blocks(void **state)
{
	(void)state;
	begin("sm_90a", 0);
	add_groups("bf16", "m, k", "k", 1, 64, 1024);
	add_bytes("f16", "int8", "n, k", 1, 64, 1024);
	assert_int_equal(occurs(&all, ", 64, 4, struct "), 4);
	add_groups("bf16", "m, k", "k", 1, 64, 512);
	add_bytes("f16", "f8e4m3", "n, k", 1, 64, 1016);
	assert_int_equal(occurs(&all, ", 64, 2, struct "), 4);
	assert_int_equal(occurs(&all, ", 64, 4, struct "), 4);
	finish(0);
}

/* Experts, in rows of an even and of an odd number of groups. */
static void
add_groups_experts(const char *to, int k)
{
	add(arena_printf(&all.a, "llmc-ir 1\ndim m = 50\ndim n = 136\n"
		"dim k = %d\ndim e = 4\ndim b = 2\ndim c = 2\nmodel {\n"
		"  %%0 = weight name=\"x\" : bf16[b, m, k]\n%s"
		"  %%2 = weight name=\"w\" frozen rounded=k : int4[e, n, k]\n"
		"  %%3 = cast %%2 : bf16[e, n, k]\n"
		"  %%4 = dot_at %%0, %%1, %%3 over=k of=e : bf16[b, m, c, n]\n"
		"  return %%4\n}\n", k, to));
}

static void
test_groups_experts(void **state)
{
	static const char *const archs[] = { "sm_80", "sm_90a", "sm_100a" };
	uint32_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		begin(archs[i], i == 1 ? 1 : 0);
		add_groups_experts(ANYWHERE, 384);
		add_groups_experts(FIRST, 256);
		assert_int_equal(experts, 2);
		finish(RT_EMU_CHECK);
	}
}

/* Replaces a part of all texts. */
static bool
plant(struct tc *c, const char *cut, const char *put)
{
	bool found = false;
	int i;

	for (i = 0; i < TC_SOURCES; i++) {
		const char *from = buf_text(&c->source[i]), *at;
		struct buf out;

		buf_init(&out, &c->a);
		for (; (at = strstr(from, cut)); from = at + strlen(cut)) {
			buf_printf(&out, "%.*s%s", (int)(at - from), from,
				   put);
			found = true;
		}
		buf_puts(&out, from);
		c->source[i] = out;
	}
	return found;
}

/* Mistakes in the loop by wgmma: the emulator reports each. */
static void
test_experts_planted(void **state)
{
	static const struct {
		const char *cut, *put, *says;
	} with[] = {
		{ "fence_async();", ";", "fence_async" },
		{ "fence_async();\n\t\tsync_block();", "fence_async();",
		  "no barrier in between" },
		{ "cp_async_wait(3);", ";", "still fills" },
		{ "wg_wait(1);", ";", "still reads" },
		{ "wg_wait(0);", ";", "no wg_wait has waited for" },
		{ "wg_fence();", ";", "wg_fence" },
		{ "get = 0, put = 4;", "get = 0, put = 3;", "still" },
		{ "get == 5 ?", "get == 4 ?", "still fills" }
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof with / sizeof with[0]; i++) {
		begin("sm_90a", 1);
		all.planted = true;
		add(MORE_DIMS "model {\n"
		    "  %0 = weight name=\"x\" : bf16[b, m, k]\n"
		    "  %1 = input name=\"to\" : idx<e>[b, m, c]\n"
		    "  %2 = weight name=\"w\" : bf16[e, n, k]\n"
		    "  %3 = dot_at %0, %1, %2 over=k of=e : bf16[b, m, c, n]\n"
		    "  return %3\n}\n");
		assert_true(plant(&all, with[i].cut, with[i].put));
		tc_run(&all, RT_EMU_CHECK);
		if (!strstr(all.said, with[i].says)) {
			fail_msg("%s: %s", with[i].cut, all.said);
		}
		tc_close(&all);
	}
}

/* ---- registers ---- */

/* Of one text: what NVRTC makes of it, if it is there. */
static bool
compiles(const char *text, const char *arch)
{
	struct cg_cuda c = { .arch = cu_arch_find(arch),
			     .units = 108 };
	struct cg_make make = { .nsources = 1, .arch = arch, .threads = 1 };
	struct cg_source source;
	struct cg_kernel made;
	struct cg_images out;
	const char *why = NULL;
	uint32_t i;
	bool there;
	struct tk t;

	tk_open_text(&t, NULL, text);
	c.m = t.m;
	c.a = &t.c.perm;
	assert_true(cg_cuda_kernel(&c, &kernels_find(t.m, 1, NULL, c.a)
				   ->top->at.at[0], &made, &why));
	assert_non_null(strstr(made.source, "cp_async"));
	source = (struct cg_source){ made.name, made.source };
	make.sources = &source;
	make.texts = cg_prelude(c.a, &make.ntexts);
	assert_true(cg_images(&t.c, &make, &out));
	there = out.made_by != NULL;
	for (i = 0; there && i < out.at[0].funcs.n; i++) {
		const struct cg_func *f = &out.at[0].funcs.at[i];

		if (f->spill_bytes || f->stack_bytes || f->registers > 255) {
			fail_msg("%s for %s: %lld registers, %lld bytes "
				 "spilled\n%s", f->name, arch,
				 (long long)f->registers,
				 (long long)f->spill_bytes, text);
		}
	}
	assert_true(!there || out.at[0].slow.n == 0);
	ir_ctx_release(&t.c);
	return there;
}

/* The largest tiles there are, of whole and of ragged matrices. */
static void
test_registers(void **state)
{
	static const struct {
		const char *arch, *type, *a, *b;
		int m, n, k;
	} cases[] = {
		{ "sm_80", "bf16", "m, k", "k, n", 4096, 4096, 1024 },
		{ "sm_80", "bf16", "k, m", "k, n", 4104, 5000, 1000 },
		{ "sm_80", "tf32", "k, m", "k, n", 4096, 4096, 1024 },
		{ "sm_86", "bf16", "m, k", "n, k", 8192, 5001, 768 },
		{ "sm_89", "f8e4m3", "m, k", "n, k", 4096, 4096, 999 },
		{ "sm_80", "f32", "k, m", "k, n", 4096, 4096, 1024 },
	};
	struct arena a;
	struct mem mem;
	uint32_t i;
	bool there = true;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	for (i = 0; there && i < sizeof cases / sizeof cases[0]; i++) {
		const char *t = cases[i].type;

		there = compiles(arena_printf(&a, "llmc-ir 1\ndim m = %d\n"
			"dim n = %d\ndim k = %d\nmodel {\n"
			"  %%0 = weight name=\"a\" : %s[%s]\n"
			"  %%1 = weight name=\"b\" : %s[%s]\n"
			"  %%2 = dot %%0, %%1 over=k : %s[m, n]\n"
			"  %%3 = weight name=\"c\" : %s[n]\n"
			"  %%4 = add %%2, %%3 : %s[m, n]\n"
			"  return %%4\n}\n", cases[i].m, cases[i].n,
			cases[i].k, t, cases[i].a, t, cases[i].b, t, t, t),
			cases[i].arch);
	}
	arena_release(&a);
	if (!there) {
		skip();
	}
}

/* Weights of 4 bits: all tiles there are, of whole and of ragged matrices. */
static void
test_groups_registers(void **state)
{
	static const struct {
		const char *arch, *type;
		int m, n, k;
	} cases[] = {
		{ "sm_80", "bf16", 4096, 4096, 4096 },
		{ "sm_90a", "bf16", 4096, 4096, 4096 },
		{ "sm_90a", "f16", 1000, 5001, 384 },
		{ "sm_89", "bf16", 64, 4096, 1024 },
		{ "sm_90a", "bf16", 32, 8192, 4096 },
		{ "sm_90a", "bf16", 13, 8192, 4096 },
		{ "sm_100a", "bf16", 1, 8192, 4096 }
	};
	static const char *const stored[] = { "int4", "int8", "f8e4m3" };
	struct arena a;
	struct mem mem;
	uint32_t i;
	uint32_t n = sizeof cases / sizeof cases[0];
	bool there = true;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	for (i = 0; there && i < n + 4; i++) {
		const char *t = cases[i % n].type;
		/* of 8 bits the largest tiles: either, whole and ragged */
		const char *s = stored[i < n ? 0 : 1 + i % 2];

		there = compiles(arena_printf(&a, "llmc-ir 1\ndim m = %d\n"
			"dim n = %d\ndim k = %d\nmodel {\n"
			"  %%0 = weight name=\"a\" : %s[m, k]\n"
			"  %%1 = weight name=\"b\" frozen rounded=k : "
			"%s[n, k]\n"
			"  %%2 = cast %%1 : %s[n, k]\n"
			"  %%3 = dot %%0, %%2 over=k : %s[m, n]\n"
			"  %%4 = silu %%3 : %s[m, n]\n"
			"  return %%4\n}\n", cases[i % n].m, cases[i % n].n,
			cases[i % n].k, t, s, t, t, t), cases[i % n].arch);
	}
	arena_release(&a);
	if (!there) {
		skip();
	}
}

/* ---- models ---- */

static bool
add_model(uint64_t seed, bool split)
{
	struct tc_module *m = arena_alloc(&all.a, sizeof *m);
	double most;

	if (!model_open(&m->t, seed, split, &most)) {
		ir_ctx_release(&m->t.c);
		return false;
	}
	/* of few rows of an expert the largest sum may be one that cancels */
	tc_add(&all, m, most < 1e-4 ? 1e-4 : most);
	return true;
}

static void
test_models(void **state)
{
	uint32_t done = 0;
	uint64_t seed;

	(void)state;
	begin("sm_80", 0);
	for (seed = 1; seed <= 2; seed++) {
		assert_true(add_model(seed, false));
	}
	assert_int_equal(refused, 0);
	for (seed = 1; done < 2; seed++) {
		done += add_model(seed, true);
	}
	assert_true(dots > 20 && experts > 5);
	finish(0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_checked),
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_boxes),
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_promoted),
		cmocka_unit_test(test_experts),
		cmocka_unit_test(test_small_layers),
		cmocka_unit_test(test_experts_wgmma),
		cmocka_unit_test(test_experts_empty),
		cmocka_unit_test(test_experts_tensor),
		cmocka_unit_test(test_experts_narrow),
		cmocka_unit_test(test_experts_planted),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_groups_experts),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_widened_drawn),
		cmocka_unit_test(test_widened_blocks),
		cmocka_unit_test(test_registers),
		cmocka_unit_test(test_groups_registers),
		cmocka_unit_test(test_models),
	};

	if (t_left_out()) {
		return 77;
	}
	return t_run_today(tests, sizeof tests / sizeof tests[0], 7);
}
