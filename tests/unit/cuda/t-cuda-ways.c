/*
 * Contractions in all ways that there are: each is emitted as it was asked
 * for and computes what it should, on the emulator; the table's own choice is
 * the first; what a plan names is taken, or refused with what is legal; what
 * spills gives way to the next.
 */
#include "tests/unit/cuda/t-cuda.h"

#define MOST 16

static const char *
dot(struct arena *a, const char *dtype, int m, int n, int k)
{
	return arena_printf(a, "llmc-ir 1\ndim m = %d\ndim n = %d\n"
		"dim k = %d\nmodel {\n"
		"  %%0 = weight name=\"a\" : %s[m, k]\n"
		"  %%1 = weight name=\"b\" : %s[k, n]\n"
		"  %%2 = dot %%0, %%1 over=k : %s[m, n]\n  return %%2\n}\n",
		m, n, k, dtype, dtype, dtype);
}

static void
open_ways(struct tc *c, const char *arch, struct cg_tiling *in)
{
	tc_open(c, NULL, arch);
	c->c.units = 4;
	c->c.tiling = cu_tiling_open(&c->a, in);
}

/* What the only kernel of the last module was emitted as. */
static const char *
last_source(const struct tc *c)
{
	const struct tc_module *m = c->modules.at[c->modules.n - 1];

	assert_int_equal(m->t.kernels.n, 1);
	return m->t.kernels.at[0].made[0].source;
}

static struct diags *
last_diags(const struct tc *c)
{
	return &c->modules.at[c->modules.n - 1]->t.c.diags;
}

/* ---- all ways ---- */

static void
each_way(const char *arch, const char *dtype, int m, int n, int k,
	 double most, uint32_t least)
{
	struct cg_tiling in = { .list = true };
	struct cu_candidate way[MOST];
	struct cu_candidates ways;
	const char *text, *plain;
	struct tc c;
	uint32_t i, j;

	open_ways(&c, arch, NULL);
	assert_null(c.c.tiling);
	text = dot(&c.a, dtype, m, n, k);
	tc_text(&c, text, most);
	plain = last_source(&c);
	c.c.nfuncs = 0;
	c.c.tiling = cu_tiling_open(&c.a, &in);
	tc_text(&c, text, most);
	assert_string_equal(last_source(&c), plain);
	ways = c.c.tiling->last.at[0];
	j = cu_candidates_best(&ways, MOST, way);
	assert_true(j >= least);
	assert_memory_equal(&way[0].tile, &ways.chosen, sizeof ways.chosen);
	tc_close(&c);

	open_ways(&c, arch, &in);
	for (i = 0; i < j; i++) {
		c.c.tiling->force = &way[i].tile;
		tc_text(&c, dot(&c.a, dtype, m, n, k), most);
		assert_true(c.c.tiling->last.at[0].met);
		assert_memory_equal(&c.c.tiling->last.at[0].chosen,
				    &way[i].tile, sizeof way[i].tile);
		if (getenv("T_CUDA_SHOW")) {
			printf("%s %.0f\n", plan_tile_text(&c.a,
				&way[i].tile), way[i].cycles);
		}
	}
	assert_int_equal(c.refused, 0);
	tc_run(&c, 0);
	tc_close(&c);
}

static void
test_wgmma(void **state)
{
	(void)state;
	each_way("sm_90a", "bf16", 136, 264, 520, 0.016, 10);
}

static void
test_mma(void **state)
{
	(void)state;
	each_way("sm_80", "bf16", 72, 136, 264, 0.016, 8);
}

static void
test_numbers(void **state)
{
	(void)state;
	each_way("sm_80", "f32", 40, 72, 136, 1e-5, 5);
}

/* ---- attention ---- */

#define QUERIES "[s, h, d]"
#define KEYS "[t, k, d]"
static const char heads[] =
	"llmc-ir 1\ndim s = 136\ndim t = 160\ndim h = 2\ndim k = 1\n"
	"dim d = 64\nmodel {\n"
	"  %0 = weight name=\"q\" init=normal std=1 : bf16" QUERIES "\n"
	"  %1 = weight name=\"k\" init=normal std=1 : bf16" KEYS "\n"
	"  %2 = weight name=\"v\" init=normal std=1 : bf16" KEYS "\n";
static const char forward[] =
	"  %3 = attention %0, %1, %2 causal : bf16" QUERIES "\n"
	"  return %3\n}\n";
#define BACK \
	"  %3 = weight name=\"g\" init=normal std=1 : bf16" QUERIES "\n" \
	"  %4 = weight name=\"l\" init=normal std=1 : f32[s, h]\n" \
	"  %5 = weight name=\"e\" init=normal std=1 : f32[s, h]\n"
static const char queries[] = BACK
	"  %6 = attention_dq %0, %1, %2, %3, %4, %5 : bf16" QUERIES "\n"
	"  return %6\n}\n";
static const char keys[] = BACK
	"  %6 = attention_dk %0, %1, %2, %3, %4, %5 : bf16" KEYS "\n"
	"  %7 = attention_dv %0, %1, %3, %4 : bf16" KEYS "\n"
	"  %8 = add %6, %7 : bf16" KEYS "\n"
	"  return %8\n}\n";

/* One more in the same source, which has functions of its own. */
static void
add_attention(struct tc *c, const char *text)
{
	static const char *const own[] = { "ca_clamp", "ca_min" };
	uint32_t i;

	for (i = 0; i < 2 * TC_SOURCES; i++) {
		buf_printf(&c->source[i / 2], "#undef %s\n#define %s %s%u\n",
			   own[i % 2], own[i % 2], own[i % 2], c->modules.n);
	}
	tc_text(c, text, 0.02);
}

/* In so many ways at least. */
static void
each_step(const char *arch, const char *what, uint32_t least)
{
	struct cg_tiling in = { .list = true };
	struct cu_candidate way[MOST];
	struct cu_candidates ways;
	const char *text;
	uint32_t n, i;
	struct tc c;

	open_ways(&c, arch, &in);
	text = arena_printf(&c.a, "%s%s", heads, what);
	add_attention(&c, text);
	assert_int_equal(c.c.tiling->last.n, 1);
	ways = c.c.tiling->last.at[0];
	n = cu_candidates_best(&ways, MOST, way);
	assert_true(n >= least);
	c.c.tiling->force_what = ways.what;
	for (i = 0; i < n; i++) {
		const struct cu_candidates *made;

		c.c.tiling->force = &way[i].tile;
		add_attention(&c, text);
		made = cu_candidates_of(c.c.tiling, ways.what);
		assert_true(made && made->met);
		assert_memory_equal(&made->chosen, &way[i].tile,
				    sizeof way[i].tile);
		if (getenv("T_CUDA_SHOW")) {
			printf("%s: %s %.0f\n", ways.what, plan_tile_text(&c.a,
				&way[i].tile), way[i].cycles);
		}
	}
	assert_int_equal(c.refused, 0);
	tc_run(&c, 0);
	tc_close(&c);
}

static void
test_attention(void **state)
{
	(void)state;
	each_step("sm_80", forward, 5);
	each_step("sm_90a", forward, 7);
	each_step("sm_80", queries, 4);
	each_step("sm_90a", queries, 5);
	each_step("sm_80", keys, 4);
	each_step("sm_90a", keys, 5);
}

/* A plan names one step's tile, and one that there is not. */
static void
test_attention_rows(void **state)
{
	static const char *const rows[] = {
		"attention forward bf16 1x2/1x136x160x64 causal: m=64 n=32 "
		"k=64 warps=4",
		"attention forward bf16 1x2/1x136x160x64 causal: m=64 n=48 "
		"k=64 warps=4"
	};
	uint32_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct cg_tiling in = { .rows = &rows[i], .nrows = 1 };
		struct tc c;

		open_ways(&c, "sm_90a", &in);
		tc_text(&c, arena_printf(&c.a, "%s%s", heads, forward), 1);
		assert_true(cu_tiling_close(c.c.tiling,
					    c.modules.at[0]->t.m));
		assert_int_equal(last_diags(&c)->errors, i);
		assert_int_equal(c.c.tiling->last.at[0].met, i == 0);
		assert_true(i == 1 || (strstr(last_source(&c), "cp_async") &&
				       !strstr(last_source(&c), "tma_load")));
		assert_true(i == 0 || strstr(last_diags(&c)->records.at[0].text,
			"has no tile `m=64 n=48 k=64 warps=4` on sm_90a: "
			"legal are `m=128 n=128 k=64 stages=2 teams=1`"));
		tc_close(&c);
	}
}

/* ---- rows of a plan ---- */

/* The module's errors with this row; it emits the contraction once. */
static uint32_t
with_row(const char *row, bool *closed, char *said, size_t size)
{
	struct cg_tiling in = { .rows = &row, .nrows = 1 };
	const struct diags *d;
	struct tc c;
	uint32_t n;

	open_ways(&c, "sm_80", &in);
	tc_text(&c, dot(&c.a, "bf16", 72, 136, 264), 1);
	*closed = cu_tiling_close(c.c.tiling,
				  c.modules.at[0]->t.m);
	d = last_diags(&c);
	n = d->errors;
	snprintf(said, size, "%s", d->records.n ? d->records.at[0].text : "");
	if (n == 0) {
		const struct cu_candidates *w = &c.c.tiling->last.at[0];

		assert_true(w->met);
		assert_string_equal(strstr(row, ": ") + 2,
				    plan_tile_text(&c.a, &w->chosen));
	}
	tc_close(&c);
	return n;
}

#define WHAT "bf16 1x72x136x264 kn to bf16: "

static void
test_rows(void **state)
{
	bool closed;
	char said[512];

	(void)state;
	assert_int_equal(with_row(WHAT "m=64 n=128 k=32 stages=3 splits=2 "
				  "warps=4", &closed, said, sizeof said), 0);
	assert_true(closed);
	/* a warp more, a stage more, no splits said: none of them */
	assert_int_equal(with_row(WHAT "m=64 n=128 k=32 stages=3 splits=2 "
				  "warps=5", &closed, said, sizeof said), 1);
	assert_true(closed);
	assert_non_null(strstr(said, "has no tile `m=64 n=128 k=32 stages=3 "
			       "splits=2 warps=5` on sm_80: legal are `m="));
	assert_int_equal(with_row(WHAT "m=64 n=128 k=32", &closed, said,
				  sizeof said), 1);
	assert_int_equal(with_row("bf16 1x73x136x264 kn to bf16: m=64 n=128 "
				  "k=32", &closed, said, sizeof said), 1);
	assert_false(closed);
	assert_non_null(strstr(said, "there are `bf16 1x72x136x264 kn to "
			       "bf16`"));
}

/* ---- which of many ---- */

static void
take(struct arena *a, struct cu_candidates *w, int64_t m, int64_t stages,
     int64_t splits, bool fewer, double cycles)
{
	struct plan_tile t = { .num = { m, 32, 16, stages, splits } };

	cu_candidates_add(a, w, &t, fewer, cycles);
}

static void
test_best(void **state)
{
	static const int64_t want[][3] = {
		{ 64, 4, 1 }, { 32, 4, 1 }, { 64, 3, 1 }, { 32, 4, 2 },
		{ 128, 4, 1 }
	};
	struct cu_candidates w = { .all = true };
	struct cu_candidate out[8];
	struct arena a;
	struct mem mem;
	uint32_t i;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	take(&a, &w, 32, 4, 1, false, 11);
	take(&a, &w, 32, 3, 1, true, 11.5);	/* not of the choice */
	take(&a, &w, 32, 4, 2, false, 13);
	take(&a, &w, 32, 4, 3, false, 14);	/* a third of its size */
	take(&a, &w, 64, 4, 1, false, 10);
	take(&a, &w, 64, 3, 1, true, 12);
	take(&a, &w, 128, 4, 1, false, 15);
	assert_int_equal(w.chosen.num[PLAN_TILE_M], 64);
	assert_int_equal(cu_candidates_best(&w, 8, out), 5);
	for (i = 0; i < 5; i++) {
		assert_int_equal(out[i].tile.num[PLAN_TILE_M], want[i][0]);
		assert_int_equal(out[i].tile.num[PLAN_TILE_STAGES],
				 want[i][1]);
		assert_int_equal(out[i].tile.num[PLAN_TILE_SPLITS],
				 want[i][2]);
	}
	assert_int_equal(cu_candidates_best(&w, 2, out), 2);
	arena_release(&a);
}

/* ---- which of them spill ---- */

static void
spill(struct arena *a, struct cg_tiling *in, const char *what, int64_t m,
      int64_t stages, int64_t splits)
{
	struct cg_spill s = { what, { .num = { m, 32, 16, stages, splits } } };

	VEC_PUSH(a, &in->spills, s);
}

/* Goes through five tiles, slower ones of 16 rows after them; m, splits. */
static void
choose(struct arena *a, const struct cg_tiling *in, const char *what,
       int64_t m, int64_t splits)
{
	struct cu_candidates w = { .what = what, .in = in };
	int64_t i;

	cu_candidates_clear(&w);
	take(a, &w, 32, 4, 1, false, 11);
	take(a, &w, 64, 4, 2, false, 10);
	take(a, &w, 64, 3, 1, true, 14);
	take(a, &w, 64, 4, 1, false, 12);
	take(a, &w, 128, 4, 1, false, 13);
	for (i = 0; i < 12; i++) {
		take(a, &w, 256 + i, 4, 1, false, 20 + (double)i);
	}
	assert_int_equal(w.chosen.num[PLAN_TILE_M], m);
	assert_int_equal(w.chosen.num[PLAN_TILE_SPLITS], splits);
}

static void
test_spills(void **state)
{
	struct cg_tiling in = { 0 };
	struct arena a;
	struct mem mem;
	int64_t i;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	choose(&a, &in, "x", 64, 2);
	/* in parts: so do other numbers of stages and parts, but no whole */
	spill(&a, &in, "x", 64, 3, 4);
	choose(&a, &in, "x", 32, 1);
	choose(&a, &in, "y", 64, 2);
	spill(&a, &in, "x", 32, 4, 1);
	choose(&a, &in, "x", 64, 1);
	spill(&a, &in, "x", 64, 4, 1);
	choose(&a, &in, "x", 128, 1);
	spill(&a, &in, "x", 128, 4, 1);
	for (i = 0; i < 3; i++) {
		choose(&a, &in, "x", 256 + i, 1);
		spill(&a, &in, "x", 256 + i, 4, 1);
	}
	choose(&a, &in, "x", 259, 1);
	choose(&a, &in, "y", 64, 2);
	/* so many spill that the first will do */
	spill(&a, &in, "x", 259, 4, 1);
	choose(&a, &in, "x", 64, 2);
	arena_release(&a);
}

/* What is named by the plan is made of it, spilling or not. */
static void
test_spills_wanted(void **state)
{
	struct plan_tile want = { .num = { 32, 32, 16, 4, 1 } };
	struct cg_tiling in = { 0 };
	struct cu_candidates w = { .what = "x", .in = &in, .want = &want };
	struct arena a;
	struct mem mem;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	spill(&a, &in, "x", 32, 4, 1);
	cu_candidates_clear(&w);
	take(&a, &w, 64, 4, 1, false, 10);
	take(&a, &w, 32, 4, 1, false, 11);
	take(&a, &w, 16, 4, 1, false, 9);
	assert_true(w.met);
	assert_int_equal(w.chosen.num[PLAN_TILE_M], 32);
	arena_release(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_best),
		cmocka_unit_test(test_spills),
		cmocka_unit_test(test_spills_wanted),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_mma),
		cmocka_unit_test(test_attention),
		cmocka_unit_test(test_attention_rows),
		cmocka_unit_test(test_wgmma),
	};

	/* a release is not about these */
	if (t_left_out()) {
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
