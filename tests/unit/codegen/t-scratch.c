/*
 * Scratch.  What collectives pack, on four ranks of two axes: a part that is
 * contiguous at both ends needs none, any other is packed.  And the bounds
 * that codegen states of all scratch, beside the code of random models under
 * random plans.
 */
#include "tests/unit/shared/t-object.h"

#include "codegen/host/host.h"
#include "frontend/frontend.h"
#include "frontend/frontend.h"
#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "runtime/device/device.h"
#include "tests/unit/shared/t-split.h"

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

/* The scratch of f32[ROWS, COLS], cut as these say before and after. */
static int64_t
packed(bool sums, uint32_t axes, const uint32_t in[2], const uint32_t out[2])
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
	host_pack_scratch(&code.classes.at[0], &t, 1);
	return code.classes.at[0].comm_bytes;
}

#define CUT(rows, cols) ((const uint32_t[]){ rows, cols })

static void
dense_parts_need_none(void **state)
{
	const uint32_t on = 1u << tp;

	(void)state;
	/* the same pieces before and after, of a sum too */
	assert_int_equal(packed(true, on, CUT(0, 0), CUT(0, 0)), 0);
	assert_int_equal(packed(false, on, CUT(tp, 0), CUT(tp, 0)), 0);
	/* rows that are gathered, or of which each keeps its own */
	assert_int_equal(packed(false, on, CUT(tp, 0), CUT(0, 0)), 0);
	assert_int_equal(packed(false, on, CUT(0, 0), CUT(tp, 0)), 0);
	/* a group of one rank */
	assert_int_equal(packed(false, 0, CUT(0, tp), CUT(0, 0)), 0);
}

static void
others_are_packed(void **state)
{
	const uint32_t on = 1u << tp;

	(void)state;
	/* columns come from two ranks; each sends all it has */
	assert_int_equal(packed(false, on, CUT(0, tp), CUT(0, 0)), 2 * PART);
	/* columns for two ranks, which lie side by side there */
	assert_int_equal(packed(false, on, CUT(0, 0), CUT(0, tp)), 2 * PART);
	/* from columns to rows: rows of what is here */
	assert_int_equal(packed(false, on, CUT(0, tp), CUT(tp, 0)), 2 * PART);
	assert_int_equal(packed(false, on, CUT(tp, 0), CUT(0, tp)), 2 * PART);
	/* what is added up comes beside what is here */
	assert_int_equal(packed(true, on, CUT(0, 0), CUT(tp, 0)), 2 * PART);
	assert_int_equal(packed(true, on, CUT(0, 0), CUT(0, tp)), 4 * PART);
	/* four ranks */
	assert_int_equal(packed(true, on | 1u << dp, CUT(0, 0), CUT(tp, dp)),
			 8 * PART);
}

/* Collectives that are one call pack side by side. */
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
	host_pack_scratch(k, t, 2);
	/* two parts of 500 and two of 1500 */
	assert_int_equal(k->comm_bytes, 2 * 2048 + 2 * 6144);
	host_pack_scratch(k, t + 1, 1);
	assert_int_equal(k->comm_bytes, 2 * 2048 + 2 * 6144);
}

/* The largest collective counts; a CPU packs nothing. */
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
		host_pack_scratch(k, &t, 1);
	}
	assert_int_equal(code.colls.n, 2);
	/* two parts of 1500 */
	assert_int_equal(k->comm_bytes, 2 * 6144);
	code.arch = NULL;
	*k = (struct host_class){ .c = &code };
	code.colls.n = 0;
	host_pack_scratch(k, &t, 1);
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

/* ---- bounds ---- */

static struct ir_module *
compile(struct ir_ctx *c, const char *text)
{
	uint32_t base;

	assert_true(source_add(&c->sources, "model", text, strlen(text),
			       &base));
	return fe_compile(c, c->sources.files.n - 1);
}

/* As the driver sets it for code: values that are routed hold all rows. */
static void
hold_all_rows(struct ir_module *x)
{
	struct ir_setting s = { .kind = SET_WORD, .n = 1 };

	s.key = intern_str(&x->ctx->syms, "memory.routed");
	s.text = intern_str(&x->ctx->syms, "all");
	VEC_PUSH(&x->ctx->perm, &x->settings, s);
}

/* How much of the bound is needed, for code of that architecture; 0: none. */
static double
needed(struct ir_ctx *c, const struct ranks *r, const char *arch)
{
	static struct target t;
	struct cg_input in = { .ranks = r, .arch = arch, .quick = true,
			       .cpu = "x86-64-v3" };
	struct cg_code *made;
	int64_t bound, bytes;

	assert_true(fe_target(c, "h100x8", &t));
	in.target = t.groups.at;
	made = cg_code_new(&c->perm, &in);
	if (!made) {
		return 0;
	}
	bytes = cg_code_reserve(made);
	cg_code_free(made);
	bound = memory_scratch_bytes(r, kernels_all(r->m, NULL, &c->perm),
				     cg_scratch(in.cpu, arch));
	if (bytes > bound) {
		fail_msg("%s: %lld bytes are needed, the bound is %lld",
			 arch ? arch : "cpu", (long long)bytes,
			 (long long)bound);
	}
	return (double)bytes / (double)bound;
}

/* Emits the model's code as split by the plan; adds to *codes. */
static void
assert_bounds(const char *model, const char *plan, uint32_t *codes)
{
	static const char *const archs[] = { NULL, "sm_80", "sm_90a" };
	struct sched *schedule;
	struct ranks r;
	struct ir_ctx c;
	struct ir_module *made;
	const char *why = "?";
	uint32_t i;

	ir_ctx_init(&c, NULL);
	made = compile(&c, model);
	assert_non_null(made);
	hold_all_rows(made);
	if (plan_pin(made, plan) &&
	    pass_apply(made, "split", false) == PASS_OK) {
		schedule = ranks_schedule(made, NULL, &c.perm);
		assert_true(ranks_open(&r, made, schedule, NULL, &why));
		for (i = 0; i < sizeof archs / sizeof archs[0]; i++) {
			*codes += needed(&c, &r, archs[i]) > 0;
		}
	}
	ir_ctx_release(&c);
}

static const char middle[] =
	"model m {\n"
	"  dim hidden = 256, heads = 8, hd = hidden / heads, ffn = 512,\n"
	"      vocab = 512, seq = 128, batch = 8;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden);\n"
	"  repeat 2 as i {\n"
	"    n = rmsnorm(x);\n"
	"    q = linear(n -> heads, hd);\n"
	"    a = attention(q, q, q, causal);\n"
	"    x = x + linear(a -> hidden);\n"
	"    x = x + linear(gelu(linear(x -> ffn)) -> hidden);\n"
	"  }\n"
	"  loss = cross_entropy(linear(x -> vocab), labels);\n"
	"}\n"
	"train { optimizer = adamw; }\n";

static void
bounds_hold(void **state)
{
	static const char *const plans[] = { "dp=4,zero=3", "tp=4,sequence=on",
					     "cp=4", "tp=2,cp=2", "pp=2,dp=2" };
	uint32_t codes = 0, i;
	struct ir_ctx c;

	(void)state;
	for (i = 0; i < sizeof plans / sizeof plans[0]; i++) {
		assert_bounds(middle, plans[i], &codes);
	}
	assert_true(codes >= 9);
	ir_ctx_init(&c, NULL);
	for (i = 1; i <= 30; i++) {
		struct pair p = random_pair(i);

		assert_bounds(model_text(&c.perm, &p), plan_text(&c.perm, &p),
			      &codes);
	}
	print_message("%u programs\n", codes);
	assert_true(codes >= 40);
	ir_ctx_release(&c);
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
		cmocka_unit_test(bounds_hold),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
