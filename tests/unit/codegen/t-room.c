/*
 * Rooms of talks: what lies side by side at both ends needs none, and what
 * does not has room for each part, on four ranks of two axes.
 */
#include "tests/unit/shared/t-object.h"

#include "codegen/host/host.h"
#include "runtime/device/device.h"

#define ROWS 8
#define COLS 6
#define PART 256		/* a part that is packed, as aligned */

static struct ir_ctx ctx;
static struct ir_module *m;
static struct ranks ranks;
static struct cg_code code;
static axis_id tp, dp;

static int
setup(void **state)
{
	static const struct host_class none;
	const struct span nowhere = { 0, 0 };

	t_object_setup(state);
	ir_ctx_init(&ctx, NULL);
	m = ir_module_new(&ctx);
	dp = ir_axis_add(m, intern_str(&ctx.syms, "dp"), 2, nowhere);
	tp = ir_axis_add(m, intern_str(&ctx.syms, "tp"), 2, nowhere);
	ranks = (struct ranks){ .m = m, .nranks = 4, .npipes = 1,
				.nmicrobatches = 1 };
	code = (struct cg_code){ .r = &ranks, .m = m, .a = *state,
				 .arch = cu_arch_find("sm_80") };
	VEC_PUSH(code.a, &code.classes, none);
	return 0;
}

static int
teardown(void **state)
{
	ir_ctx_release(&ctx);
	return t_object_teardown(state);
}

/* f32[ROWS, COLS], cut as these say before and behind. */
static int64_t
room(bool sums, uint32_t axes, const uint32_t in[2], const uint32_t out[2])
{
	struct host_coll t = { .axes = axes, .elem_bytes = 4, .sums = sums,
			       .ndims = 2 };
	uint32_t i;

	for (i = 0; i < 2; i++) {
		t.in[i].size = t.out[i].size = i ? COLS : ROWS;
		t.in[i].cut = in[i];
		t.out[i].cut = out[i];
	}
	code.classes.at[0] = (struct host_class){ .c = &code };
	code.colls.n = 0;
	host_scratch(&code.classes.at[0], &t, 1);
	return code.classes.at[0].comm_bytes;
}

#define CUT(rows, cols) ((const uint32_t[]){ rows, cols })

static void
dense_parts_need_none(void **state)
{
	const uint32_t on = 1u << tp;

	(void)state;
	/* alike before and behind, of a sum too */
	assert_int_equal(room(true, on, CUT(0, 0), CUT(0, 0)), 0);
	assert_int_equal(room(false, on, CUT(tp, 0), CUT(tp, 0)), 0);
	/* rows that are gathered, or of which each keeps its own */
	assert_int_equal(room(false, on, CUT(tp, 0), CUT(0, 0)), 0);
	assert_int_equal(room(false, on, CUT(0, 0), CUT(tp, 0)), 0);
	/* nobody to talk to */
	assert_int_equal(room(false, 0, CUT(0, tp), CUT(0, 0)), 0);
}

static void
others_are_packed(void **state)
{
	const uint32_t on = 1u << tp;

	(void)state;
	/* columns come from two ranks; each sends all it has */
	assert_int_equal(room(false, on, CUT(0, tp), CUT(0, 0)), 2 * PART);
	/* columns for two ranks, which lie side by side there */
	assert_int_equal(room(false, on, CUT(0, 0), CUT(0, tp)), 2 * PART);
	/* from columns to rows: rows of what is here */
	assert_int_equal(room(false, on, CUT(0, tp), CUT(tp, 0)), 2 * PART);
	assert_int_equal(room(false, on, CUT(tp, 0), CUT(0, tp)), 2 * PART);
	/* what is added up comes beside what is here */
	assert_int_equal(room(true, on, CUT(0, 0), CUT(tp, 0)), 2 * PART);
	assert_int_equal(room(true, on, CUT(0, 0), CUT(0, tp)), 4 * PART);
	/* four ranks */
	assert_int_equal(room(true, on | 1u << dp, CUT(0, 0), CUT(tp, dp)),
			 8 * PART);
}

/* Talks that are one call pack at a time. */
static void
joined_add_up(void **state)
{
	struct host_class *k = &code.classes.at[0];
	struct host_coll t[2] = { { .axes = 1u << tp, .elem_bytes = 4,
				    .sums = true, .ndims = 1 } };

	(void)state;
	*k = (struct host_class){ .c = &code };
	code.colls.n = 0;
	t[0].in[0].size = t[0].out[0].size = 1000;
	t[0].out[0].cut = tp;
	t[1] = t[0];
	t[1].in[0].size = t[1].out[0].size = 3000;
	host_scratch(k, t, 2);
	/* two parts of 500 and two of 1500 */
	assert_int_equal(k->comm_bytes, 2 * 2048 + 2 * 6144);
	host_scratch(k, t + 1, 1);
	assert_int_equal(k->comm_bytes, 2 * 2048 + 2 * 6144);
}

/* The largest talk counts; a CPU needs none at all. */
static void
largest_counts(void **state)
{
	struct host_class *k = &code.classes.at[0];
	struct host_coll t = { .axes = 1u << tp, .elem_bytes = 4,
			       .ndims = 1 };
	uint32_t n;

	(void)state;
	*k = (struct host_class){ .c = &code };
	code.colls.n = 0;
	t.sums = true;
	for (n = 1; n <= 3; n++) {
		t.in[0].size = t.out[0].size = 1000 * (n == 2 ? 3 : n);
		t.out[0].cut = tp;
		host_scratch(k, &t, 1);
	}
	assert_int_equal(code.colls.n, 2);
	/* two parts of 1500 */
	assert_int_equal(k->comm_bytes, 2 * 6144);
	code.arch = NULL;
	*k = (struct host_class){ .c = &code };
	code.colls.n = 0;
	host_scratch(k, &t, 1);
	assert_int_equal(k->comm_bytes, 0);
	code.arch = cu_arch_find("sm_80");
}

/* ---- arguments ---- */

/* A kernel of so many operands, and a grid with so many maps. */
static struct cg_kernel *
kernel_of(uint32_t operands, uint32_t maps)
{
	static const struct cg_operand operand;
	static const struct cg_map map;
	struct cg_kernel *k = arena_alloc(code.a, sizeof *k);
	struct cg_grid *g = arena_alloc(code.a, sizeof *g);
	struct cg_step step = { .grid = g };
	uint32_t i;

	memset(k, 0, sizeof *k);
	memset(g, 0, sizeof *g);
	for (i = 0; i < operands; i++) {
		VEC_PUSH(code.a, &k->operands, operand);
	}
	for (i = 0; i < maps; i++) {
		VEC_PUSH(code.a, &g->maps, map);
	}
	VEC_PUSH(code.a, &k->steps, step);
	return k;
}

/* As the runtime counts: 4096 bytes are 510 operands and two words more. */
static void
arguments_have_an_end(void **state)
{
	const struct span nowhere = { 0, 0 };
	struct rt_kernel k = { .nat = 3 };
	struct rt_grid g = { .nmaps = 2 };
	const struct cu_arch *arch = code.arch;

	(void)state;
	assert_int_equal(host_args_bytes(kernel_of(3, 2)),
			 rt_args_bytes(&k, &g));
	assert_int_equal(host_args_bytes(kernel_of(3, 2)), 64 + 256);
	g.nmaps = 0;
	assert_int_equal(host_args_bytes(kernel_of(3, 0)),
			 rt_args_bytes(&k, &g));
	assert_true(host_args_fit(&code, kernel_of(510, 0), nowhere));
	assert_int_equal(ctx.diags.errors, 0);
	assert_false(host_args_fit(&code, kernel_of(511, 0), nowhere));
	assert_false(host_args_fit(&code, kernel_of(3, 32), nowhere));
	assert_int_equal(ctx.diags.errors, 2);
	code.arch = NULL;
	assert_true(host_args_fit(&code, kernel_of(600, 0), nowhere));
	code.arch = arch;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_have_an_end),
		cmocka_unit_test(dense_parts_need_none),
		cmocka_unit_test(others_are_packed),
		cmocka_unit_test(joined_add_up),
		cmocka_unit_test(largest_counts),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
