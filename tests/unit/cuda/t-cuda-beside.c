/*
 * Contractions on sm_90a whose tiles are put away by warps of their own, beside
 * the products of the next ones: on the emulator, as checked code, against the
 * reference interpreter; and compiled, for their registers.
 */
#include "tests/unit/cuda/t-cuda.h"

/* Sizes b, s, k, q, d; and what follows operands x, w and u. */
#define TEXT(b, s, k, q, d, rest) \
	"llmc-ir 1\ndim b = " #b "\ndim s = " #s "\ndim k = " #k "\n" \
	"dim q = " #q "\ndim d = " #d "\nset join.tiles = 1\nmodel {\n" \
	"  %0 = weight name=\"x\" : bf16[b, s, k]\n" \
	"  %1 = weight name=\"w\" : bf16[q, d, k]\n" \
	"  %2 = weight name=\"u\" : bf16[q, d, k]\n" \
	"  %3 = weight name=\"o\" : bf16[b, s, q, d]\n" \
	"  %4 = weight name=\"v\" : bf16[q, d]\n" rest
#define ALL " : bf16[b, s, q, d]\n"
#define DOT "  %5 = dot %0, %1 over=k" ALL
#define PAIR DOT "  %6 = dot %0, %2 over=k" ALL "  %7 = silu %5" ALL \
	"  %8 = mul %6, %7" ALL

/* With multiprocessors `units', a cluster of so many blocks, and k of the last
 * wave's tiles in so many parts; 0: any. */
static const struct {
	const char *name, *text;
	int64_t units;
	int cluster, splits;
} cases[] = {
	{ "a bias", TEXT(3, 256, 584, 4, 128, DOT
		"  %6 = add %5, %4" ALL "  return %6\n}\n"), 1, 1, 1 },
	{ "a bias, fewer columns", TEXT(1, 1000, 584, 5, 64, DOT
		"  %6 = add %5, %4" ALL "  return %6\n}\n"), 1, 1, 1 },
	{ "a rotation", TEXT(1, 320, 904, 4, 128, DOT
		"  %6 = rope %5 seq=s theta=10000" ALL "  return %6\n}\n"),
	  1, 1, 1 },
	{ "a rotation by neighbours, by two blocks",
	  TEXT(2, 256, 1544, 6, 64, DOT
		"  %6 = rope %5 seq=s theta=10000 interleaved" ALL
		"  return %6, %5\n}\n"), 2, 2, 1 },
	{ "silu's gradient", TEXT(1, 384, 1400, 4, 128, DOT
		"  %6 = sigmoid %3" ALL "  %7 = silu %3" ALL
		"  %8 = mul %5, %7" ALL "  %9 = mul %3, %6" ALL
		"  %10 = sub %6, %9" ALL "  %11 = mul %5, %10" ALL
		"  return %8, %11\n}\n"), 1, 1, 1 },
	{ "a pair", TEXT(2, 320, 520, 5, 64, PAIR "  return %8, %5\n}\n"),
	  2, 1, 1 },
	{ "a pair by two blocks", TEXT(2, 256, 520, 5, 64, PAIR
		"  return %8\n}\n"), 4, 2, 1 },
	{ "a pair in parts", TEXT(4, 256, 520, 5, 64, PAIR
		"  return %8, %5, %6\n}\n"), 5, 1, 2 },
	{ "a sum", TEXT(3, 256, 584, 4, 128, DOT
		"  %6 = add %5, %4" ALL
		"  accumulate %6 name=\"o\"\n  return %0\n}\n"), 1, 1, 1 },
	{ "three, one of which is stored", TEXT(1, 320, 904, 4, 128, DOT
		"  %6 = weight name=\"y\" : bf16[q, d, k]\n"
		"  %7 = dot %0, %2 over=k" ALL
		"  %8 = dot %0, %6 over=k" ALL
		"  %9 = rope %5 seq=s theta=10000" ALL
		"  %10 = rope %7 seq=s theta=10000" ALL
		"  return %9, %10, %8\n}\n"), 2, 1, 1 }
};

#define NCASES (sizeof cases / sizeof *cases)

/* The tile of the case, in `tile'.  False: its contraction has none such. */
static bool
find_tile(size_t i, struct plan_tile *tile)
{
	struct cg_tiling in = { .list = true };
	struct cu_candidates ways;
	bool found = false;
	struct tc c;
	uint32_t k;

	tc_open(&c, NULL, "sm_90a");
	c.unrun = true;
	c.c.units = cases[i].units;
	c.c.tiling = cu_tiling_open(&c.a, &in);
	tc_text(&c, cases[i].text, 0.016);
	ways = c.c.tiling->last.at[0];
	for (k = 0; k < ways.at.n && !found; k++) {
		*tile = ways.at.at[k].tile;
		found = tile->num[PLAN_TILE_M] == 128 &&
			tile->num[PLAN_TILE_N] == 256 &&
			tile->num[PLAN_TILE_CLUSTER] == cases[i].cluster &&
			tile->num[PLAN_TILE_SPLITS] == cases[i].splits;
	}
	c.c.tiling = NULL;
	tc_close(&c);
	return found;
}

/* Emits the case with that tile.  False: who multiplies puts it away. */
static bool
is_beside(struct tc *c, size_t i, const struct plan_tile *tile)
{
	struct cg_tiling in = { .list = true };
	const struct tc_module *m;

	c->c.units = cases[i].units;
	c->c.tiling = cu_tiling_open(&c->a, &in);
	c->c.tiling->force = tile;
	tc_text(c, cases[i].text, 0.016);
	assert_true(c->c.tiling->last.at[0].met);
	c->c.tiling = NULL;
	m = c->modules.at[c->modules.n - 1];
	return strstr(m->t.kernels.at[0].made[0].source,
		      "beside the next ones: ") != NULL;
}

/* Of the cases, all of which test_registers emits, a fourth on each day, or one
 * or two under sanitizers, whose time is the emulator's. */
static void
test_results(void **state)
{
	struct plan_tile tile;
	bool all = true;
	struct tc c;
	size_t i;

	(void)state;
	tc_open(&c, NULL, "sm_90a");
	for (i = 0; i < NCASES; i++) {
		bool found, beside;

		if (!t_today(i, t_short() ? 6 : 4)) {
			continue;
		}
		found = find_tile(i, &tile);
		beside = found && is_beside(&c, i, &tile);
		printf("%-40s %s\n", cases[i].name, beside ? "beside"
		       : found ? "after" : "no such tile");
		all &= beside;
	}
	assert_true(all);
	tc_run(&c, RT_EMU_CHECK);
	tc_close(&c);
}

/* Of one launch: what all of whose boxes arrive while its products are made,
 * and what is put away beside products. */
static void
test_added(void **state)
{
	const struct tc_module *m;
	struct tc c;

	(void)state;
	tc_open(&c, NULL, "sm_90a");
	c.c.units = 2;
	tc_text(&c, TEXT(1, 384, 904, 4, 128, DOT
		"  %6 = dot %0, %2 over=k" ALL
		"  %7 = add %5, %3" ALL "  %8 = gelu %6" ALL
		"  return %7, %8\n}\n"), 0.016);
	m = c.modules.at[c.modules.n - 1];
	assert_int_equal(m->t.kernels.n, 1);
	assert_non_null(strstr(m->t.kernels.at[0].made[0].source,
			       "beside the next ones: "));
	assert_non_null(strstr(m->t.kernels.at[0].made[0].source, "_add_box("));
	tc_run(&c, RT_EMU_CHECK);
	tc_close(&c);
}

/* A part of 64 columns is no whole number of turns of 96 threads, which have
 * four of its loads in flight all the same: its slots count on that. */
static void
test_at_once(void **state)
{
	const char *source;
	struct tc c;

	(void)state;
	tc_open(&c, NULL, "sm_90a");
	c.unrun = true;
	c.c.units = 2;
	tc_text(&c, "llmc-ir 1\ndim s = 1024\ndim k = 1600\ndim t = 3\n"
		"dim q = 5\ndim d = 64\nset join.tiles = 1\nmodel {\n"
		"  %0 = weight name=\"x\" : bf16[s, k]\n"
		"  %1 = weight name=\"w\" : bf16[t, q, d, k]\n"
		"  %2 = weight name=\"b\" : bf16[t, q, d]\n"
		"  %3 = dot %0, %1 over=k : bf16[s, t, q, d]\n"
		"  %4 = add %3, %2 : bf16[s, t, q, d]\n"
		"  return %4\n}\n", 0);
	source = c.modules.at[0]->t.kernels.at[0].made[0].source;
	assert_non_null(strstr(source, "beside the next ones: "));
	assert_non_null(strstr(source, "r0 < 1024; r0 += 384)"));
	tc_close(&c);
}

/* As many registers as a thread has at launch, and no spill. */
static void
test_registers(void **state)
{
	struct plan_tile tile;
	int64_t most;
	struct tc c;
	size_t i;

	(void)state;
	tc_open(&c, NULL, "sm_90a");
	c.unrun = true;
	for (i = 0; i < NCASES; i++) {
		assert_true(find_tile(i, &tile));
		is_beside(&c, i, &tile);
	}
	most = tc_compile(&c, "sm_90a");
	tc_close(&c);
	if (!most) {
		skip();
	}
	assert_int_equal(most, 168);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_added),
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_registers)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
