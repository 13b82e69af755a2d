/*
 * What the price counts for an epilogue, from the nodes of a kernel, is what
 * code generation counts in the kernel that it emits: issue slots of a thread
 * after the products of a tile, which a comment of the kernel states; by who
 * multiplied, and by warps of their own.
 */
#include "tests/unit/cuda/t-cuda.h"

#include "passes/price/price.h"

#define OPEN OPEN_OF("32", "128")
#define OPEN_OF(q, d) "llmc-ir 1\ndim b = 16\ndim s = 1024\ndim k = 4096\n" \
	"dim q = " q "\ndim d = " d "\nset join.tiles = 1\nmodel {\n" \
	"  %0 = weight name=\"x\" : bf16[b, s, k]\n" \
	"  %1 = weight name=\"w\" : bf16[q, d, k]\n" \
	"  %2 = weight name=\"o\" : bf16[b, s, q, d]\n" \
	"  %3 = weight name=\"v\" : bf16[q, d]\n"
#define DOT "  %4 = dot %0, %1 over=k : bf16[b, s, q, d]\n"
#define PAIR \
	"  %4 = weight name=\"u\" : bf16[q, d, k]\n" \
	"  %5 = dot %0, %1 over=k" ALL \
	"  %6 = dot %0, %4 over=k" ALL
#define ROTATED " interleaved" ALL
#define ALL " : bf16[b, s, q, d]\n"

#define THREADS 256	/* that have the sums of a tile of 128 x 256 */
#define BESIDE 96	/* others that put them away */
#define TILE "tiles of 128 x 256,"
#define ONE_WAVE 2048	/* multiprocessors, as many as there are tiles */

static const struct {
	const char *name, *text;
} epilogues[] = {
	{ "stored", DOT "  return %4\n}\n" },
	{ "a residual", DOT "  %5 = add %2, %4" ALL "  return %5\n}\n" },
	{ "a sum of 16 bits", DOT
		"  accumulate %4 name=\"g\"\n  return %0\n}\n" },
	{ "a sum of 32 bits", "  %4 = dot_f32 %0, %1 over=k : f32[b, s, q, d]\n"
		"  accumulate %4 name=\"g\"\n  return %0\n}\n" },
	{ "a bias", DOT "  %5 = add %4, %3" ALL "  return %5\n}\n" },
	{ "a gate", DOT "  %5 = silu %2" ALL "  %6 = mul %4, %5" ALL
		"  return %6\n}\n" },
	{ "a gate, and its operand", DOT "  %5 = silu %2" ALL
		"  %6 = mul %4, %5" ALL "  return %6, %4\n}\n" },
	{ "silu's gradient", DOT "  %5 = sigmoid %2" ALL "  %6 = silu %2" ALL
		"  %7 = mul %4, %6" ALL "  %8 = mul %2, %5" ALL
		"  %9 = sub %5, %8" ALL "  %10 = mul %4, %9" ALL
		"  return %7, %10\n}\n" },
	{ "gelu of a bias", DOT "  %5 = add %4, %3" ALL "  %6 = gelu %5" ALL
		"  return %6\n}\n" },
	{ "what is dropped, and added", DOT
		"  %5 = dropout_mask name=\"m\" rate=0.25" ALL
		"  %6 = mul %4, %5" ALL "  %7 = add %2, %6" ALL
		"  return %7\n}\n" },
	{ "gelu by erf", DOT "  %5 = gelu_erf %4" ALL "  return %5\n}\n" },
	{ "a cap", DOT "  %5 = tanh %4" ALL "  %6 = mul %5, %2" ALL
		"  return %6\n}\n" },
	{ "a quotient", DOT "  %5 = div %2, %4" ALL "  return %5\n}\n" },
	{ "a rotation", DOT "  %5 = rope %4 seq=s theta=10000" ALL
		"  return %5\n}\n" },
	{ "a rotation by neighbours", DOT
		"  %5 = rope %4 seq=s theta=10000" ROTATED
		"  return %5\n}\n" },
	{ "a rotation, and the operand", DOT
		"  %5 = rope %4 seq=s theta=10000" ALL
		"  return %5, %4\n}\n" },
	{ "a pair", PAIR "  %7 = silu %5" ALL "  %8 = mul %6, %7" ALL
		"  return %8\n}\n" },
	{ "a pair, all stored", PAIR "  %7 = silu %5" ALL
		"  %8 = mul %6, %7" ALL "  return %8, %5, %6\n}\n" },
	{ "a pair by gelu", PAIR "  %7 = gelu %5" ALL
		"  %8 = mul %6, %7" ALL "  return %8, %5\n}\n" },
	{ "exponentials", DOT "  %5 = exp %4" ALL "  %6 = log %5" ALL
		"  %7 = sqrt %2" ALL "  %8 = add %6, %7" ALL
		"  return %5, %8\n}\n" }
};

#define NEPILOGUES (sizeof epilogues / sizeof *epilogues)

/* Slots that the text of a kernel states after these words; 0: none. */
static double
stated(const char *source, const char *words)
{
	const char *at = strstr(source, words);

	return at ? strtod(at + strlen(words), NULL) : 0;
}

static double
slots_of(struct ir_module *m, const struct kernel *k, bool beside, bool shares)
{
	return beside ? price_warps_slots(m, k, shares)
		      : price_put_slots(m, k, PRICE_PUT_TEAMS, shares);
}

/* The same as the price counts it: each of a pair has half of a tile. */
static double
priced(struct ir_module *m, const struct kernel *k, bool beside)
{
	double slots = 0, n = (double)k->members.n;
	uint32_t i;

	for (i = 0; i < k->members.n; i++) {
		slots += slots_of(m, &k->members.at[i], beside, true) / n;
	}
	return k->members.n ? slots : slots_of(m, k, beside, false);
}

/* Whether both are within 1% of each other; in one wave there are no products
 * beside which warps of their own could put a tile away. */
static bool
is_priced(const char *name, const char *open, const char *rest, bool beside)
{
	const struct tk_kernel *x;
	double price, code;
	struct tc_module *m;
	struct tc c;

	tc_open(&c, NULL, "sm_90a");
	c.unrun = true;
	c.c.units = beside ? c.c.units : ONE_WAVE;
	tc_text(&c, arena_printf(&c.a, "%s%s", open, rest), 0);
	m = c.modules.at[0];
	assert_true(m->t.kernels.n > 0);	/* a mask is one, too */
	x = &m->t.kernels.at[m->t.kernels.n - 1];
	assert_non_null(strstr(x->made[0].source, TILE));
	code = stated(x->made[0].source, beside ? "beside the next ones: some "
		      : "after the products: some ");
	price = priced(m->t.m, x->k, beside) * 128 * 256 /
		(beside ? BESIDE : THREADS);
	printf("%-28s %s %6.0f %6.0f\n", name, beside ? "beside" : "after ",
	       code, price);
	tc_close(&c);
	return fabs(price - code) <= 0.01 * code;
}

static void
test_counts(void **state)
{
	bool all = true;
	size_t i;

	(void)state;
	for (i = 0; i < NEPILOGUES; i++) {
		all &= is_priced(epilogues[i].name, OPEN, epilogues[i].text,
				 false);
		all &= is_priced(epilogues[i].name, OPEN, epilogues[i].text,
				 true);
	}
	assert_true(all);
}

/* Heads of 48 leave parts of 16 columns, heads of 96 of 32: of the former three
 * warps have a vector of each thread at a time, so loads take longer. */
static void
test_parts(void **state)
{
	const char *text = DOT "  %5 = silu %2" ALL "  %6 = mul %4, %5" ALL
		"  return %6\n}\n";

	(void)state;
	assert_true(is_priced("a gate, heads of 48", OPEN_OF("128", "48"),
			      text, true));
	assert_true(is_priced("a gate, heads of 96", OPEN_OF("128", "96"),
			      text, true));
}

/* Experts, by an epilogue on rows and by what is summed up; and weights of 4
 * bits in groups. */
#define EXPERTS "llmc-ir 1\ndim m = 16384\ndim k = 512\ndim n = 4096\n" \
	"dim e = 8\ndim c = 2\nmodel {\n" \
	"  %0 = weight name=\"x\" : bf16[m, k]\n" \
	"  %1 = input name=\"t\" : idx<e>[m, c]\n" \
	"  %2 = weight name=\"w\" : bf16[e, n, k]\n" \
	"  %3 = weight name=\"z\" : bf16[m, c, n]\n"
#define ROWS " : bf16[m, c, n]\n"
#define GROUPS "llmc-ir 1\ndim m = 2048\ndim k = 4096\ndim n = 4096\n" \
	"model {\n" \
	"  %0 = weight name=\"x\" : bf16[m, k]\n" \
	"  %1 = weight name=\"w\" frozen rounded=k : int4[n, k]\n" \
	"  %2 = cast %1 : bf16[n, k]\n" \
	"  %3 = weight name=\"z\" : bf16[m, n]\n"

/* Of kernels in which all threads of a block have a tile: without copying unit,
 * with experts, and of weights that are widened. */
static const struct {
	const char *name, *arch, *text;
	enum price_putting by;
} tiles[] = {
	{ "a bias", "sm_80", OPEN DOT "  %5 = add %4, %3" ALL
		"  return %5\n}\n", PRICE_PUT_TILES },
	{ "a bias, of two sequences", "sm_80", "llmc-ir 1\ndim b = 2\n"
		"dim s = 1024\ndim k = 4096\ndim n = 4096\nmodel {\n"
		"  %0 = weight name=\"x\" : bf16[b, s, k]\n"
		"  %1 = weight name=\"w\" : bf16[n, k]\n"
		"  %2 = weight name=\"v\" : bf16[n]\n"
		"  %3 = dot %0, %1 over=k : bf16[b, s, n]\n"
		"  %4 = add %3, %2 : bf16[b, s, n]\n"
		"  return %4\n}\n", PRICE_PUT_TILES },
	{ "stored", "sm_80", OPEN DOT "  return %4\n}\n", PRICE_PUT_TILES },
	{ "a sum of 32 bits", "sm_80", OPEN
		"  %4 = dot_f32 %0, %1 over=k : f32[b, s, q, d]\n"
		"  accumulate %4 name=\"g\"\n  return %0\n}\n",
		PRICE_PUT_TILES },
	{ "silu's gradient", "sm_80", OPEN DOT "  %5 = sigmoid %2" ALL
		"  %6 = silu %2" ALL "  %7 = mul %4, %6" ALL
		"  %8 = mul %2, %5" ALL "  %9 = sub %5, %8" ALL
		"  %10 = mul %4, %9" ALL "  return %7, %10\n}\n",
		PRICE_PUT_TILES },
	{ "a rotation", "sm_80", OPEN DOT
		"  %5 = rope %4 seq=s theta=10000" ALL "  return %5\n}\n",
		PRICE_PUT_TILES },
	{ "experts", "sm_90a", EXPERTS
		"  %4 = dot_at %0, %1, %2 over=k of=e" ROWS
		"  return %4\n}\n", PRICE_PUT_ROWS },
	{ "experts, times an operand", "sm_90a", EXPERTS
		"  %4 = dot_at %0, %1, %2 over=k of=e" ROWS
		"  %5 = mul %4, %3" ROWS "  return %5\n}\n",
		PRICE_PUT_ROWS },
	{ "experts, a gate", "sm_80", EXPERTS
		"  %4 = dot_at %0, %1, %2 over=k of=e" ROWS
		"  %5 = mul %4, %3" ROWS "  %6 = silu %5" ROWS
		"  return %6\n}\n", PRICE_PUT_ROWS },
	{ "experts' gradient", "sm_90a", EXPERTS
		"  %4 = dot_to %0, %3, %1 of=e : bf16[e, n, k]\n"
		"  %5 = tanh %4 : bf16[e, n, k]\n  return %5\n}\n",
		PRICE_PUT_TILES },
	{ "int4, times an operand", "sm_90a", GROUPS
		"  %4 = dot %0, %2 over=k : bf16[m, n]\n"
		"  %5 = mul %4, %3 : bf16[m, n]\n  return %5\n}\n",
		PRICE_PUT_TILES }
};

/* Sums that a thread has, by the text of its kernel. */
static double
sums_of(const char *source)
{
	const char *at = strstr(source, "tiles of "), *kernel = NULL, *next;
	long m, n, threads;
	char *end;

	assert_non_null(at);
	for (next = source; (next = strstr(next, "KERNEL(")) && next < at;
	     next++) {
		kernel = next;
	}
	m = strtol(at + strlen("tiles of "), &end, 10);
	n = strtol(end + strlen(" x "), NULL, 10);
	assert_non_null(kernel);
	threads = strtol(strchr(kernel, ',') + 1, NULL, 10);
	assert_true(m > 0 && n > 0 && threads > 0);
	return (double)(m * n) / (double)threads;
}

static void
test_tiles(void **state)
{
	bool all = true;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof tiles / sizeof *tiles; i++) {
		const struct tk_kernel *x;
		struct tc_module *m;
		double price, code;
		struct tc c;

		tc_open(&c, NULL, tiles[i].arch);
		c.unrun = true;
		tc_text(&c, tiles[i].text, 0);
		m = c.modules.at[0];
		assert_int_equal(m->t.kernels.n, 1);
		x = &m->t.kernels.at[0];
		code = stated(x->made[0].source, "after the products: some ");
		price = price_put_slots(m->t.m, x->k, tiles[i].by, false) *
			sums_of(x->made[0].source);
		printf("%-28s %6.0f %6.0f\n", tiles[i].name, code, price);
		all &= code > 0 && fabs(price - code) <= 0.01 * code + 0.5;
		tc_close(&c);
	}
	assert_true(all);
}

/* What is used twice is counted once, and walked once: each of so many powers
 * has two paths to the one before. */
static void
test_powers(void **state)
{
	char text[4096];
	size_t n = (size_t)sprintf(text, "%s", DOT);
	int i;

	(void)state;
	for (i = 4; i < 44; i++) {
		n += (size_t)sprintf(text + n, "  %%%d = mul %%%d, %%%d" ALL,
				     i + 1, i, i);
	}
	sprintf(text + n, "  return %%%d\n}\n", i);
	assert_true(is_priced("powers", OPEN, text, false));
	assert_true(is_priced("powers", OPEN, text, true));
}

/* Cycles of the estimate for a stored product with so many stages of k, by
 * tiles of so many columns, each of two blocks and one of so many teams. */
static double
estimated(int stages, int64_t cols, int64_t teams)
{
	struct cg_tiling in = { .list = true };
	struct cu_candidates ways;
	double cycles = 0;
	uint32_t i;
	struct tc c;

	tc_open(&c, NULL, "sm_90a");
	c.unrun = true;
	c.c.units = 128;
	c.c.tiling = cu_tiling_open(&c.a, &in);
	tc_text(&c, arena_printf(&c.a, "llmc-ir 1\ndim m = 16384\n"
		"dim n = 4096\ndim k = %d\nmodel {\n"
		"  %%0 = weight name=\"a\" : bf16[m, k]\n"
		"  %%1 = weight name=\"b\" : bf16[n, k]\n"
		"  %%2 = dot %%0, %%1 over=k : bf16[m, n]\n"
		"  return %%2\n}\n", 64 * stages), 0);
	ways = c.c.tiling->last.at[0];
	for (i = 0; i < ways.at.n; i++) {
		const struct cu_candidate *x = &ways.at.at[i];

		if (x->tile.num[PLAN_TILE_M] == 128 && !x->fewer &&
		    x->tile.num[PLAN_TILE_N] == cols &&
		    x->tile.num[PLAN_TILE_TEAMS] == teams &&
		    x->tile.num[PLAN_TILE_CLUSTER] == 2 &&
		    x->tile.num[PLAN_TILE_SPLITS] == 1) {
			cycles = x->cycles;
		}
	}
	c.c.tiling = NULL;
	tc_close(&c);
	assert_true(cycles > 0);
	return cycles;
}

/* How many times longer stages of teams in turns are, as the price has it. */
static void
test_turns(void **state)
{
	double both = estimated(128, 256, 1) - estimated(64, 256, 1);
	double turns = estimated(128, 128, 2) - estimated(64, 128, 2);

	(void)state;
	printf("%.4f and %.4f times\n", turns / both, COST_TURNS_TIMES);
	assert_true(fabs(turns / both / COST_TURNS_TIMES - 1) < 0.002);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_tiles),
		cmocka_unit_test(test_powers)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
