/*
 * Contractions of one launch on the emulator, against the reference
 * interpreter: those that read one left operand, with other epilogues each,
 * those that read one right operand and add to sums, those whose results are
 * added up, and pairs, of which one's maps read the other's result.
 * T_ONLY='*sm_100a' runs some of the tests.
 */
#include "tests/unit/cuda/t-cuda.h"
#include "tests/unit/shared/t-today.h"

/* Three of one left operand, or of a right one, which is a gradient's. */
struct shape {
	int b, s, k;		/* its rows, and what is summed over */
	int q, v, d;		/* heads of two kinds, and their columns */
};

#define OPEN "llmc-ir 1\ndim b = %d\ndim s = %d\ndim k = %d\ndim q = %d\n" \
	"dim v = %d\ndim d = %d\n%smodel {\n" \
	"  %%0 = weight name=\"x\" : bf16[b, s, k]\n"

/* Rotated, rotated and stored, as of attention. */
static const char *
heads(struct arena *a, const struct shape *n, bool joins)
{
	return arena_printf(a, OPEN
		"  %%1 = weight name=\"wq\" : bf16[q, d, k]\n"
		"  %%2 = weight name=\"wk\" : bf16[v, d, k]\n"
		"  %%3 = weight name=\"wv\" : bf16[v, d, k]\n"
		"  %%4 = dot %%0, %%1 over=k : bf16[b, s, q, d]\n"
		"  %%5 = rope %%4 seq=s theta=10000 : bf16[b, s, q, d]\n"
		"  %%6 = dot %%0, %%2 over=k : bf16[b, s, v, d]\n"
		"  %%7 = rope %%6 seq=s theta=10000 : bf16[b, s, v, d]\n"
		"  %%8 = dot %%0, %%3 over=k : bf16[b, s, v, d]\n"
		"  return %%5, %%7, %%8\n}\n", n->b, n->s, n->k, n->q, n->v,
		n->d, joins ? "set join.tiles = 1\n" : "");
}

/* Gradients of three weights, as 16-bit sums or in f32. */
static const char *
gradients(struct arena *a, const struct shape *n, bool wide)
{
	const char *op = wide ? "dot_f32" : "dot", *t = wide ? "f32" : "bf16";

	return arena_printf(a, OPEN
		"  %%1 = weight name=\"gq\" : bf16[b, s, q, d]\n"
		"  %%2 = weight name=\"gk\" : bf16[b, s, v, d]\n"
		"  %%3 = weight name=\"gv\" : bf16[b, s, v, d]\n"
		"  %%4 = %s %%1, %%0 over=(b, s) : %s[q, d, k]\n"
		"  accumulate %%4 name=\"wq\"\n"
		"  %%5 = %s %%2, %%0 over=(b, s) : %s[v, d, k]\n"
		"  accumulate %%5 name=\"wk\"\n"
		"  %%6 = %s %%3, %%0 over=(b, s) : %s[v, d, k]\n"
		"  accumulate %%6 name=\"wv\"\n"
		"  return %%0\n}\n", n->b, n->s, n->k, n->q, n->v, n->d,
		"set join.tiles = 1\n", op, t, op, t, op, t);
}

/* The gradient of what three weights multiply; `ends` adds the residual's, or
 * computes of it what no box holds. */
enum ends {
	ENDS_STORED,
	ENDS_ADDED,
	ENDS_SILU,
	ENDS_COUNT
};

static const char *
summed(struct arena *a, const struct shape *n, enum ends ends, bool wide,
       bool joins)
{
	const char *op = wide ? "dot_f32" : "dot", *t = wide ? "f32" : "bf16";
	static const char *const last[ENDS_COUNT] = {
		"  return %11\n}\n",
		"  %12 = add %0, %11 : bf16[b, s, k]\n  return %12\n}\n",
		"  %12 = silu %11 : bf16[b, s, k]\n"
		"  return %12\n}\n"
	};

	return arena_printf(a, OPEN
		"  %%1 = weight name=\"dq\" : bf16[b, s, q, d]\n"
		"  %%2 = weight name=\"dk\" : bf16[b, s, v, d]\n"
		"  %%3 = weight name=\"dv\" : bf16[b, s, v, d]\n"
		"  %%4 = weight name=\"wq\" : bf16[q, d, k]\n"
		"  %%5 = weight name=\"wk\" : bf16[v, d, k]\n"
		"  %%6 = weight name=\"wv\" : bf16[v, d, k]\n"
		"  %%7 = %s %%3, %%6 over=(v, d) : %s[b, s, k]\n"
		"  %%8 = %s %%2, %%5 over=(v, d) : %s[b, s, k]\n"
		"  %%9 = add %%7, %%8 : %s[b, s, k]\n"
		"  %%10 = %s %%1, %%4 over=(q, d) : %s[b, s, k]\n"
		"  %%11 = add %%10, %%9 : %s[b, s, k]\n%s",
		n->b, n->s, n->k, n->q, n->v, n->d,
		joins ? "set join.tiles = 1\n" : "", op, t, op, t, t, op, t, t,
		last[ends]);
}

/* The gate of an MLP and what it is multiplied by, of which nobody reads the
 * factors, or a backward pass does; or with a bias each, by another function,
 * rounded to fewer bits. */
enum gated {
	GATED_ALONE,
	GATED_KEPT,
	GATED_BIASED,
	GATED_COUNT
};

static const char *
gated(struct arena *a, const struct shape *n, enum gated how, bool joins)
{
	static const char *const last[GATED_COUNT] = {
		"  %5 = silu %3 : bf16[b, s, q, d]\n"
		"  %6 = mul %5, %4 : bf16[b, s, q, d]\n  return %6\n}\n",
		"  %5 = silu %3 : bf16[b, s, q, d]\n"
		"  %6 = mul %4, %5 : bf16[b, s, q, d]\n"
		"  return %3, %4, %6\n}\n",
		"  %5 = weight name=\"bg\" : bf16[q, d]\n"
		"  %6 = weight name=\"bu\" : bf16[q, d]\n"
		"  %7 = add %3, %5 : bf16[b, s, q, d]\n"
		"  %8 = add %4, %6 : bf16[b, s, q, d]\n"
		"  %9 = gelu %7 : bf16[b, s, q, d]\n"
		"  %10 = mul %9, %8 : bf16[b, s, q, d]\n"
		"  return %7, %10\n}\n"
	};

	return arena_printf(a, OPEN
		"  %%1 = weight name=\"wg\" : bf16[q, d, k]\n"
		"  %%2 = weight name=\"wu\" : bf16[q, d, k]\n"
		"  %%3 = dot %%0, %%1 over=k : bf16[b, s, q, d]\n"
		"  %%4 = dot %%0, %%2 over=k : bf16[b, s, q, d]\n%s",
		n->b, n->s, n->k, n->q, n->v, n->d,
		joins ? "set join.tiles = 1\n" : "", last[how]);
}

/* With operands of 8 bits, whose sums are promoted on sm_90a. */
static const char *
gated_narrow(struct arena *a, const struct shape *n)
{
	return arena_printf(a, "llmc-ir 1\ndim s = %d\ndim q = %d\n"
		"dim k = %d\nset join.tiles = 1\nmodel {\n"
		"  %%0 = input name=\"x\" : f8e4m3[s, k]\n"
		"  %%1 = input name=\"wg\" : f8e4m3[q, k]\n"
		"  %%2 = input name=\"wu\" : f8e4m3[q, k]\n"
		"  %%3 = dot_f32 %%0, %%1 over=k : f32[s, q]\n"
		"  %%4 = dot_f32 %%0, %%2 over=k : f32[s, q]\n"
		"  %%5 = silu %%3 : f32[s, q]\n"
		"  %%6 = mul %%5, %%4 : f32[s, q]\n"
		"  return %%6\n}\n", n->b * n->s, n->q * n->d, 2 * n->k);
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

static const struct shape shapes[] = {
	{ 2, 96, 520, 4, 1, 64 }, { 1, 300, 72, 2, 2, 64 },
	{ 2, 640, 72, 6, 2, 32 }, { 4, 64, 1032, 1, 1, 64 }
};

/* One kernel of several members for each text. */
static void
test_members(void **state)
{
	const char *arch = *state;
	struct tc c;
	uint32_t i;

	tc_open(&c, NULL, arch);
	for (i = 0; i < 4; i++) {
		c.c.units = i % 2 ? 2 : 4;
		tc_text(&c, heads(&c.a, &shapes[i], true), 0.016);
		tc_text(&c, gradients(&c.a, &shapes[i], i % 2), 0.016);
	}
	assert_int_equal(c.refused, 0);
	for (i = 0; i < c.modules.n; i++) {
		assert_int_equal(c.modules.at[i]->t.kernels.n, 1);
	}
	/* all have text of the third member, and none of a fourth */
	assert_true(with(&c, "_m3_") >= 8);
	assert_int_equal(with(&c, "_m4_"), 0);
	tc_run(&c, RT_EMU_CHECK);
	tc_close(&c);
}

/* One kernel for each text, whatever becomes of the sum; the last one has two
 * members that fill a quarter of a stage. */
static void
test_sums(void **state)
{
	static const struct shape thin = { 2, 96, 72, 6, 1, 16 };
	const char *arch = *state;
	struct tc c;
	uint32_t i;

	tc_open(&c, NULL, arch);
	for (i = 0; i < 4; i++) {
		c.c.units = i % 2 ? 2 : 4;
		tc_text(&c, summed(&c.a, &shapes[i], ENDS_STORED, i % 2, true),
			0.016);
		tc_text(&c, summed(&c.a, &shapes[i], i % 2 ? ENDS_SILU
				   : ENDS_ADDED, false, true), 0.016);
	}
	tc_text(&c, summed(&c.a, &thin, ENDS_ADDED, false, true), 0.016);
	assert_int_equal(c.refused, 0);
	for (i = 0; i < c.modules.n; i++) {
		assert_int_equal(c.modules.at[i]->t.kernels.n, 1);
	}
	/* the loads of the second and the third of each */
	assert_int_equal(with(&c, "\tk -= "), 18);
	tc_run(&c, RT_EMU_CHECK);
	tc_close(&c);
}

/* One kernel for each text, with one accumulator for both: whatever others read
 * is stored, and nothing else. */
static void
test_pairs(void **state)
{
	const char *arch = *state;
	struct tc c;
	uint32_t i;

	tc_open(&c, NULL, arch);
	for (i = 0; i < 4; i++) {
		c.c.units = i % 2 ? 2 : 4;
		tc_text(&c, gated(&c.a, &shapes[i], (enum gated)(i %
				  GATED_COUNT), true), 0.016);
		tc_text(&c, gated(&c.a, &shapes[i], (enum gated)((i + 1) %
				  GATED_COUNT), true), 0.016);
		tc_text(&c, gated_narrow(&c.a, &shapes[i]), 0.016);
	}
	assert_int_equal(c.refused, 0);
	for (i = 0; i < c.modules.n; i++) {
		const struct kernel *k;

		assert_int_equal(c.modules.at[i]->t.kernels.n, 1);
		k = c.modules.at[i]->t.kernels.at[0].k;
		assert_true(k->members.at[0].launch->paired);
		assert_int_equal(k->outputs.n, k->nodes.n == 6 ? 2
			: kernel_makes(k, ir_node(c.modules.at[i]->t.m,
				k->nodes.at[0])->result) ? 3 : 1);
	}
	assert_int_equal(with(&c, "_m1_"), 0);
	tc_run(&c, RT_EMU_CHECK);
	tc_close(&c);
}

/* NVRTC has registers for all of it, where there is one. */
static void
test_registers(void **state)
{
	const struct shape n = { 2, 256, 512, 16, 8, 64 };
	const char *arch = *state;
	int64_t most;
	struct tc c;

	tc_open(&c, NULL, arch);
	c.unrun = true;
	c.c.units = 2;
	tc_text(&c, summed(&c.a, &n, ENDS_ADDED, false, true), 0);
	tc_text(&c, summed(&c.a, &n, ENDS_SILU, false, true), 0);
	tc_text(&c, gated(&c.a, &n, GATED_ALONE, true), 0);
	tc_text(&c, gated(&c.a, &n, GATED_KEPT, true), 0);
	tc_text(&c, gated(&c.a, &n, GATED_BIASED, true), 0);
	tc_text(&c, gated_narrow(&c.a, &n), 0);
	most = tc_compile(&c, arch);
	assert_true(most <= 168);
	tc_close(&c);
}

/* A contraction, with that many stages of k. */
static const char *
lone(struct arena *a, int stages)
{
	return arena_printf(a, "llmc-ir 1\ndim s = 512\ndim k = %d\n"
		"dim q = 1024\nmodel {\n"
		"  %%0 = weight name=\"x\" : bf16[s, k]\n"
		"  %%1 = weight name=\"w\" : bf16[q, k]\n"
		"  %%2 = dot %%0, %%1 over=k : bf16[s, q]\n"
		"  return %%2\n}\n", 64 * stages);
}

/* Nor do loops over a few stages of k, whose number is known, need more. */
static void
test_stages(void **state)
{
	static const int stages[] = { 2, 4, 7, 8, 9, 12, 16 };
	const char *arch = *state;
	struct shape n = { 2, 256, 0, 16, 8, 64 };
	struct tc c;
	size_t i;

	tc_open(&c, NULL, arch);
	c.unrun = true;
	c.c.units = 2;
	for (i = 0; i < sizeof stages / sizeof *stages; i++) {
		tc_text(&c, lone(&c.a, stages[i]), 0);
		n.k = 64 * stages[i];
		tc_text(&c, heads(&c.a, &n, true), 0);
	}
	assert_int_equal(c.refused, 0);
	assert_true(tc_compile(&c, arch) <= 168);
	tc_close(&c);
}

/* Each legal tile of so many parts of k; how many there are. */
static uint32_t
each_tile(struct tc *c, const char *text, int64_t splits)
{
	struct cu_tiling *t = c->c.tiling;
	struct cu_candidates ways;
	uint32_t n = 0, i;

	t->force = NULL;
	tc_text(c, text, 0.016);
	ways = t->last.at[0];
	for (i = 0; i < ways.at.n; i++) {
		const struct plan_tile *x = &ways.at.at[i].tile;

		if (x->num[PLAN_TILE_SPLITS] == splits &&
		    !ways.at.at[i].fewer) {
			t->force = x;
			tc_text(c, text, 0.016);
			assert_true(t->last.at[0].met);
			n++;
		}
	}
	return n;
}

/* All tiles, of one block or of two that share columns, whole and in parts. */
static void
test_tiles(void **state)
{
	const char *arch = *state;
	const struct shape n = { 2, 128, 520, 4, 2, 128 };
	const struct shape g = { 2, 256, 264, 2, 2, 64 };
	struct cg_tiling in = { .list = true };
	uint32_t whole, parts;
	struct tc c;

	tc_open(&c, NULL, arch);
	c.c.units = 4;
	c.c.tiling = cu_tiling_open(&c.a, &in);
	whole = each_tile(&c, heads(&c.a, &n, true), 1) +
		each_tile(&c, gradients(&c.a, &g, false), 1) +
		each_tile(&c, summed(&c.a, &g, ENDS_ADDED, false, true), 1) +
		each_tile(&c, gated(&c.a, &n, GATED_KEPT, true), 1);
	parts = each_tile(&c, heads(&c.a, &n, true), 2) +
		each_tile(&c, gradients(&c.a, &g, true), 2) +
		each_tile(&c, summed(&c.a, &n, ENDS_STORED, false, true), 2) +
		each_tile(&c, gated(&c.a, &n, GATED_ALONE, true), 2);
	assert_true(whole > (strcmp(arch, "sm_90a") == 0 ? 8 : 3));
	assert_true(parts > 1);
	c.c.tiling = NULL;
	tc_run(&c, 0);
	tc_close(&c);
}

/* A digest of all results; of a launch, or of one for each. */
static uint64_t
bits_of(const char *arch, bool joins, uint32_t kernels)
{
	const struct shape n = { 2, 320, 136, 4, 2, 64 };
	struct tc c;

	tc_open(&c, NULL, arch);
	c.c.units = 2;
	tc_text(&c, heads(&c.a, &n, joins), 0.016);
	assert_int_equal(c.modules.at[0]->t.kernels.n, kernels);
	/* no k is split */
	assert_int_equal(with(&c, "_steps("), 0);
	tc_run(&c, 0);
	tc_close(&c);
	return c.bits;
}

/* What members compute are the bits that they compute alone. */
static void
test_bits(void **state)
{
	uint64_t bits = bits_of(*state, true, 1);

	assert_true(bits != 0);
	assert_true(bits_of(*state, false, 3) == bits);
}

/* The largest error of a sum; of one launch, or of one for each. */
static double
error_of(const char *arch, bool joins, uint32_t kernels)
{
	const struct shape n = { 2, 128, 264, 4, 2, 64 };
	double worst;
	struct tc c;

	tc_open(&c, NULL, arch);
	tc_text(&c, summed(&c.a, &n, ENDS_STORED, false, joins), 0.016);
	assert_int_equal(c.modules.at[0]->t.kernels.n, kernels);
	tc_run(&c, 0);
	worst = c.worst;
	tc_close(&c);
	return worst;
}

/* A sum that is rounded once is nearer to what is computed exactly. */
static void
test_exact(void **state)
{
	assert_true(error_of(*state, true, 1) < error_of(*state, false, 3));
}

#define ON(arch) \
	BY(test_members, arch), BY(test_sums, arch), BY(test_tiles, arch), \
	BY(test_pairs, arch), BY(test_bits, arch), BY(test_exact, arch), \
	BY(test_registers, arch), BY(test_stages, arch)
#define BY(test, arch) \
	{ #test " for " #arch, test, NULL, NULL, arch }

int
main(void)
{
	static char sm_90a[] = "sm_90a", sm_100a[] = "sm_100a";
	const struct CMUnitTest tests[] = {
		ON(sm_90a),
		ON(sm_100a),
	};

	if (t_left_out()) {
		return 77;
	}
	return t_run_today(tests, sizeof tests / sizeof tests[0], 4);
}
