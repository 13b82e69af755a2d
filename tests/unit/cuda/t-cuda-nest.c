/* Loop nests of scalar expressions, as kernels of a GPU, on the emulator. */
#include "tests/unit/cuda/t-cuda.h"
#include "tests/unit/shared/t-nest-bodies.h"

static struct tc all;

static void
check(const char *mesh, const char *body, const char *type, const int *size,
      double most, uint32_t refused)
{
	const char *text = arena_printf(&all.a, HEAD "%s {\n%s}\n", mesh,
			size[0], size[1], size[2], size[3], size[4],
			*mesh ? "layer stage0_forward()" : "model",
			put_types(&all.a, body, type));

	tc_text(&all, text, most);
	if (all.refused != refused) {
		fail_msg("%u kernels were refused: %s", all.refused, body);
	}
}

static void
finish(int flags)
{
	tc_run(&all, flags);
	if (getenv("T_CUDA_SHOW")) {
		printf("%u kernels, %.1e\n", all.ran, all.worst);
	}
	assert_true(all.ran > 0);
	tc_close(&all);
}

/*
 * Rows of a warp, of a block, of more than its registers hold, of vectors and
 * not, whose passes read bf16 and f32 side by side; sums over rows by parts.
 */
static void
test_long_rows(void **state)
{
	static const int size[][5] = {
		{ 2, 150, 768, 8, 4 }, { 1, 3, 4096, 8, 4 },
		{ 2, 9, 2050, 8, 4 }, { 1, 2, 9000, 8, 4 },
		{ 1, 300, 200, 8, 4 }, { 3, 1, 33, 8, 4 }
	};
	static const char body[] =
		"%0 = input name=\"x\" : bf16[a, b, c]\n"
		"%1 = input name=\"g\" : f32[c]\n"
		"%2 = cast %0 : f32[a, b, c]\n"
		"%3 = rmsnorm %2, %1 over=c eps=1e-5 : f32[a, b, c]\n"
		"%4 = input name=\"y\" : f32[a, b, c]\n"
		"%5 = mul %4, %3 : f32[a, b, c]\n"
		"%11 = tanh %5 : f32[a, b, c]\n"
		"%6 = softmax %11 over=c : f32[a, b, c]\n"
		"%7 = cast %6 : bf16[a, b, c]\n"
		"%8 = sum %5 over=(a, b) : f32[c]\n"
		"%9 = mul %5, %5 : f32[a, b, c]\n"
		"%10 = sum %9 over=(a, b, c) : f32[]\n"
		"accumulate %10 name=\"norm\"\n"
		"return %7, %8, %3\n";
	size_t i;

	(void)state;
	for (i = 0; i < sizeof size / sizeof *size; i++) {
		check("", body, "", size[i], 0x1p-6, 0);
		check("", X1 "%1 = sum %0 over=b : X[a, c]\n"
		      "%2 = exp %1 : X[a, c]\nreturn %2\n", "f32", size[i],
		      1e-5, 0);
	}
}

/* How often all kernels so far have these words. */
static uint32_t
count_words(const char *words)
{
	uint32_t n = 0, i;

	for (i = 0; i < TC_SOURCES; i++) {
		const char *text = buf_text(&all.source[i]);

		while ((text = strstr(text, words)) != NULL) {
			n++;
			text++;
		}
	}
	return n;
}

/* How many have a maximum, and the sum above it, in one pass. */
static uint32_t
both_at_once(void)
{
	return count_words("\tf32 own");
}

/*
 * Rows that are too long to be kept: the maximum and the sum are of one pass.
 * Half of the logarithms are -inf, of a whole member in the last sizes; rows
 * of vectors and not.
 */
static void
test_read_once(void **state)
{
	static const int size[][5] = {
		{ 2, 1, 131072, 8, 4 }, { 1, 2, 70001, 8, 4 },
		{ 1, 1, 33000, 8, 4 }
	};
	static const char body[] =
		"%0 = input name=\"x\" : X[a, b, c]\n"
		"%1 = input name=\"l\" : idx<c>[a, b]\n"
		"%2 = cross_entropy %0, %1 : f32[a, b]\n"
		"%3 = relu %0 : X[a, b, c]\n"
		"%4 = log %3 : X[a, b, c]\n"
		"%5 = softmax %4 over=c : X[a, b, c]\n"
		"%6 = log_sum_exp %0 over=c : f32[a, b]\n"
		"return %2, %5, %6\n";
	uint32_t before;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof size / sizeof *size; i++) {
		check("", body, i == 1 ? "f32" : "bf16", size[i],
		      i == 1 ? 1e-5 : 0x1p-7, 0);
		check("axis tp = 2\n", shared_rows, i == 1 ? "f32" : "bf16",
		      size[i], i == 1 ? 1e-5 : 0x1p-6, 0);
	}
	before = both_at_once();
	check_masked("axis tp = 2\n", "f32", size[1], 1e-5);
	assert_true(both_at_once() > before);
	before = both_at_once();
	check_blank("axis tp = 2\n", "f32", size[1], 1e-5);
	assert_true(both_at_once() > before);
}

/*
 * Rows that lie apart and end inside of a vector: what is kept by a warp and by
 * a block, read once, and of a thread for each vector.  The last vector of a
 * row reaches into what is between rows.
 */
static void
test_tails(void **state)
{
	static const int size[][5] = {
		{ 2, 3, 515, 8, 4 }, { 1, 3, 4097, 8, 4 }, { 2, 2, 8190, 8, 4 }
	};
	static const char body[] =
		"%0 = input name=\"x\" : X[a, b, c]\n"
		"%1 = input name=\"l\" : idx<c>[a, b]\n"
		"%2 = cross_entropy %0, %1 : f32[a, b]\n"
		"%3 = softmax %0 over=c : X[a, b, c]\n"
		"%4 = onehot %1 of=c : X[a, b, c]\n"
		"%5 = sub %3, %4 : X[a, b, c]\n"
		"return %2, %3, %5\n";
	uint32_t before = count_words(" + k < ");
	size_t i, type;

	(void)state;
	for (i = 0; i < sizeof size / sizeof *size; i++) {
		for (type = 0; type < 2; type++) {
			check("", body, type ? "bf16" : "f32", size[i],
			      type ? 0x1p-6 : 1e-5, 0);
			check("", X1 Y1 "%2 = mul %0, %1 : " ALL
			      "%3 = tanh %2 : " ALL "return %3\n",
			      type ? "bf16" : "f32", size[i],
			      type ? 0x1p-6 : 1e-5, 0);
			check("", X1 "%1 = exp %0 : " ALL
			      "%2 = sum %1 over=(a, b) : X[c]\n"
			      "return %2\n", type ? "bf16" : "f32", size[i],
			      type ? 0x1p-6 : 1e-5, 0);
		}
	}
	printf("%u ends of rows\n", count_words(" + k < ") - before);
	assert_true(count_words(" + k < ") > before + 20);
}

static void
test_bodies(void **state)
{
	tc_open(&all, cu_nest_all, "sm_80");
	test_maps(state);
	test_rows(state);
	test_shared_rows(state);
	test_ranks_of(state);
	test_moves(state);
	test_sums_of_products(state);
	test_sinks(state);
	test_long_rows(state);
	test_read_once(state);
	finish(0);
}

/* Rows lie apart, with NaNs in between. */
static void
test_apart(void **state)
{
	tc_open(&all, cu_nest_all, "sm_80");
	all.apart = true;
	test_maps(state);
	test_rows(state);
	test_moves(state);
	test_sums_of_products(state);
	test_long_rows(state);
	test_read_once(state);
	test_tails(state);
	finish(0);
}

/* ---- boxes ---- */

#define BOX 8		/* of the last dim */
#define BOX_THREADS 64

/* What has three dims, and is all that a kernel makes; NULL: it is more. */
static const struct ir_type *
one_type(const struct cu_kernel *k, const struct kernel *x)
{
	struct ir_module *m = k->c->m;
	const struct ir_type *t = x->outputs.n
		? ir_type(m, x->outputs.at[0].value) : NULL;
	uint32_t i;

	for (i = 0; t && i < x->outputs.n; i++) {
		const struct ir_type *o = ir_type(m, x->outputs.at[i].value);

		if (o->ndims != 3 || memcmp(o->dims, t->dims,
					    sizeof o->dims) != 0) {
			return NULL;
		}
	}
	return t;
}

/* An input of that type's dims, which a leaf can be. */
static value_id
like_type(const struct cu_kernel *k, const struct kernel *x,
	  const struct ir_type *t)
{
	uint32_t i;

	for (i = 0; i < x->inputs.n; i++) {
		const struct ir_type *in = ir_type(k->c->m,
						   x->inputs.at[i].value);

		if (in->ndims == 3 && ir_dtypes[in->dtype].is_float &&
		    memcmp(in->dims, t->dims, sizeof t->dims) == 0) {
			return x->inputs.at[i].value;
		}
	}
	return 0;
}

/* The box of the leaf's value, as f32 in shared memory. */
static void
fill_leaf(struct cu_func *f, const struct cu_leaf *leaf, const int64_t *size,
	  const char *from)
{
	struct arena *a = f->k->c->a;
	enum ir_dtype t = (enum ir_dtype)ir_type(f->k->c->m,
						 leaf->value)->dtype;
	uint32_t at = cg_operand(a, f->k->out, leaf->value, 0, false);
	const char *x;

	f->grid->smem_bytes = 4 * size[1] * leaf->stride[1];
	cu_line(f, "for (int q = TID; q < %d; q += %d) {",
		(int)(size[1] * leaf->stride[1]), BOX_THREADS);
	cu_line(f, "int col = %s + q %% %d;", from, (int)leaf->stride[1]);
	cu_line(f, "if (col < %d) {", (int)size[2]);
	x = arena_printf(a, "((%s *)%s)[(BLOCK_X * %d + q / %d) * %d + col]",
			 cu_elem_type(t), cu_operand(f, at), (int)size[1],
			 (int)leaf->stride[1], (int)size[2]);
	cu_line(f, "((f32 *)SMEM)[q] = %s;", cu_widen(a, t, x));
	cu_line(f, "}");
	cu_line(f, "}");
	cu_line(f, "sync_block();");
}

/* A block for each index of the first dim, and some of the last one's. */
static bool
as_boxes(struct cu_kernel *k, const struct kernel *x)
{
	const struct ir_type *t = one_type(k, x);
	bool cut = x->kind == KERNEL_MAP;
	struct cu_nest n = { .k = x };
	struct cu_leaf leaf = { .at = "((f32 *)SMEM)", .bytes = 16 };
	struct cu_func f;
	int64_t size[3];
	uint32_t i;

	if (!t) {
		return cu_nest_all(k, x);
	}
	n.space = *t;
	for (i = 0; i < 3; i++) {
		size[i] = cu_local_size(k->c, t->dims[i], t->cut[i]);
	}
	for (i = 0; i < x->nodes.n; i++) {
		VEC_PUSH(k->c->a, &n.nodes, x->nodes.at[i]);
	}
	n.from[0] = leaf.from[0] = "BLOCK_X";
	n.count[0] = 1;
	leaf.stride[1] = cut ? BOX : size[2];
	leaf.stride[2] = 1;
	if (cut) {
		n.from[2] = leaf.from[2] = "(BLOCK_Y * 8)";
		n.count[2] = n.unit[2] = BOX;
		n.live[2] = size[2] % BOX == 0 ? NULL
			: arena_printf(k->c->a, "(BLOCK_Y * 8 + 8 <= %d ? 8 "
				       ": %d)", (int)size[2],
				       (int)(size[2] % BOX));
	}
	cu_func_begin(k, "box", &f);
	f.grid->threads = BOX_THREADS;
	f.grid->blocks[0] = size[0];
	f.grid->blocks[1] = cut ? (size[2] + BOX - 1) / BOX : 1;
	leaf.value = like_type(k, x, t);
	if (leaf.value) {
		fill_leaf(&f, &leaf, size, cut ? "BLOCK_Y * 8" : "0");
		VEC_PUSH(k->c->a, &n.leaves, leaf);
	}
	if (!cu_nest_box(&f, &n, BOX_THREADS, "TID")) {
		return cu_nest_all(k, x);
	}
	cu_func_end(&f);
	return true;
}

static void
test_boxes(void **state)
{
	tc_open(&all, as_boxes, "sm_80");
	test_maps(state);
	test_rows(state);
	test_moves(state);
	assert_non_null(strstr(buf_text(&all.source[0]), "KERNEL(box"));
	assert_non_null(strstr(buf_text(&all.source[0]), "&(nest_leaf0)["));
	finish(RT_EMU_CHECK);
}

/* ---- NVRTC ---- */

static void
compile_for(const char *arch)
{
	int64_t most;

	tc_open(&all, cu_nest_all, arch);
	test_long_rows(NULL);
	test_sinks(NULL);
	most = tc_compile(&all, arch);
	if (getenv("T_CUDA_SHOW")) {
		printf("%s: %d registers\n", arch, (int)most);
	}
	/* two blocks of 256 threads on a multiprocessor */
	assert_true(most <= 128);
	tc_close(&all);
}

static void
test_compiles(void **state)
{
	(void)state;
	compile_for("sm_80");
	compile_for("sm_90a");
}

/* Attention has kernels of its own. */
static bool
not_attention(const struct kernel *k)
{
	return k->kind != KERNEL_ATTENTION;
}

static bool
add_model(uint64_t seed, bool split)
{
	struct tc_module *m = arena_alloc(&all.a, sizeof *m);
	double most;

	if (!model_open(&m->t, seed, split, &most)) {
		ir_ctx_release(&m->t.c);
		return false;
	}
	tc_add(&all, m, most);
	return true;
}

/* Every second one of models on each day. */
static void
test_all_models(void **state)
{
	uint32_t split = 0, whole = 0, nsplit = t_some(2, 3);
	uint32_t nwhole = t_some(1, 2);
	uint64_t seed;

	(void)state;
	tc_open(&all, cu_nest_all, "sm_90a");
	all.wants = not_attention;
	for (seed = 1; whole < nwhole; seed++) {
		if (t_today(seed, 2)) {
			assert_true(add_model(seed, false));
			whole++;
		}
	}
	for (seed = 1; split < nsplit; seed++) {
		split += t_today(seed, 2) && add_model(seed, true);
	}
	finish(0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_boxes),
		cmocka_unit_test(test_compiles),
		cmocka_unit_test(test_all_models),
	};

	if (t_left_out()) {
		return 77;
	}
	if (getenv("T_CUDA_ONLY")) {
		cmocka_set_test_filter(getenv("T_CUDA_ONLY"));
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
