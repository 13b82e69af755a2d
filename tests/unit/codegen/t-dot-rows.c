/*
 * A row of a contraction has the same bits however many rows are computed with
 * it, and wherever it is among them: for few rows, whole tiles and parts of
 * tiles, for every kind of CPU that this one can stand for.
 */
#include "tests/unit/codegen/t-dot.h"

/* So many of the first that panels of bf16 are packed, where they are widened,
 * and of the others that they are not. */
static const int64_t all_counts[] = { 320, 1, 2, 7, 8, 16, 33 };
#define ALL_COUNTS (sizeof all_counts / sizeof all_counts[0])
static int64_t counts[ALL_COUNTS];
static uint32_t ncounts;

/* The first, and half of the others on each day; a type on a CPU comes again on
 * one of the next twelve days, with the same half, and then with the other. */
static void
choose_counts(void)
{
	uint32_t i;

	counts[ncounts++] = all_counts[0];
	for (i = 1; i < ALL_COUNTS; i++) {
		if (t_soaks() || (i + t_day() / 12) % 2 == 0) {
			counts[ncounts++] = all_counts[i];
		}
	}
}

/* What the columns are: their type, and that of the rows. */
struct columns {
	const char *stored;	/* in 8 or 4 bits, or NULL */
	const char *dtype;
	int n, k;
	bool panels;	/* they may lie in those */
	bool across;	/* an element's neighbours are other columns' */
};

/* For each number of rows: a product as it is, and one with more on top. */
static const char *
rows_text(struct arena *a, const struct columns *b)
{
	const char *dtype = b->dtype;
	struct buf head, body, end;
	const char *lies = b->across ? "k, n" : "n, k";
	uint32_t i, v = 2, columns = 0;

	buf_init(&head, a);
	buf_init(&body, a);
	buf_init(&end, a);
	buf_printf(&head, "llmc-ir 1\ndim n = %d\ndim k = %d\n", b->n, b->k);
	buf_printf(&body, "  %%0 = weight name=\"b\"%s : %s[%s]\n"
		   "  %%1 = weight name=\"bias\" : %s[n]\n",
		   b->stored ? " frozen rounded=k" : b->panels ? " frozen" : "",
		   b->stored ? b->stored : dtype, lies, dtype);
	if (b->stored) {
		columns = v++;
		buf_printf(&body, "  %%2 = cast %%0 : %s[n, k]\n", dtype);
	}
	for (i = 0; i < ncounts; i++, v += 4) {
		buf_printf(&head, "dim m%u = %lld\n", i, (long long)counts[i]);
		buf_printf(&body, "  %%%u = weight name=\"a%u\" : %s[m%u, k]\n"
			   "  %%%u = dot %%%u, %%%u over=k : %s[m%u, n]\n"
			   "  %%%u = dot %%%u, %%%u over=k : %s[m%u, n]\n"
			   "  %%%u = add %%%u, %%1 : %s[m%u, n]\n", v, i,
			   dtype, i, v + 1, v, columns, dtype, i, v + 2, v,
			   columns, dtype, i, v + 3, v + 2, dtype, i);
		buf_printf(&end, "%s%%%u, %%%u", i ? ", " : "", v + 1, v + 3);
	}
	return arena_printf(a, "%smodel {\n%s  return %s\n}\n",
			    buf_text(&head), buf_text(&body), buf_text(&end));
}

/* Another byte if this is no number of the type. */
static char
draw_byte(uint8_t dtype, uint32_t byte)
{
	byte &= 0xff;
	if (dtype == IR_INT8) {
		return (char)(byte == 0x80 ? 0x81 : byte);
	}
	return (char)((byte & 0x7f) == 0x7f ? byte - 1 : byte);
}

/* Numbers whose sums are rounded in every step. */
static void
draw(struct t_kernels *t, struct t_buffer *b)
{
	int64_t i;

	for (i = 0; i < b->elems; i++) {
		/* exponents of 2^-4 to 1, any sign and mantissa */
		uint32_t bits = t_below(t, 1u << 31) & 0x807fffff;
		uint32_t exp = t_below(t, 4);

		bits |= t_below(t, 2) << 31 | (123 + exp) << 23;
		if (b->type.dtype == IR_INT4) {
			t_put(b, i, (int)(bits >> 8 & 127) - 64);
			continue;
		}
		if (ir_dtypes[b->type.dtype].bits == 8) {
			b->at[i] = draw_byte(b->type.dtype, bits >> 8);
			continue;
		}
		if (b->type.dtype == IR_F32) {
			memcpy(b->at + 4 * i, &bits, 4);
			continue;
		}
		if (b->type.dtype == IR_F16) {
			bits = (bits & 0x80000000) | (11 + exp) << 26 |
			       (bits & 0x7fffff) << 3;
		}
		b->at[2 * i] = (char)(bits >> 16);
		b->at[2 * i + 1] = (char)(bits >> 24);
	}
}

/* Rows of the i-th operand, from row 5 of the first one on. */
static void
same_rows(struct t_kernels *t)
{
	struct t_buffer *all = t_named(t, "a0", false), *some;
	uint32_t i;

	assert_non_null(all);
	draw(t, all);
	draw(t, t_named(t, "b", false));
	draw(t, t_named(t, "bias", false));
	for (i = 1; i < ncounts; i++) {
		int64_t row = t_bytes(all->type.dtype) * all->elems / counts[0];

		some = t_named(t, arena_printf(&t->c.perm, "a%u", i), false);
		assert_non_null(some);
		memcpy(some->at, all->at + 5 * row, (size_t)(counts[i] * row));
	}
}

static void
compare_rows(struct t_kernels *t, const char *cpu)
{
	const struct ir_region *r =
		&t->m->regions.at[t->m->funcs.at[1].body];
	struct t_buffer *all, *some;
	uint32_t i;

	for (i = 2; i < 2 * ncounts; i++) {
		int64_t row;

		all = t_buffer(t, r->results.at[i % 2], 0);
		some = t_buffer(t, r->results.at[i], 0);
		row = t_bytes(all->type.dtype) * all->elems / counts[0];
		if (memcmp(some->at, all->at + 5 * row,
			   (size_t)(counts[i / 2] * row)) != 0) {
			fail_msg("%lld rows have other bits on %s",
				 (long long)counts[i / 2], cpu);
		}
	}
}

/* A product of rows and columns, by numbers as they are stored, summed up in
 * float64.  Columns lie one after another, unless the last dim is theirs. */
static void
compare_sums(struct t_kernels *t, uint32_t result, const char *rows,
	     const char *columns, const char *cpu)
{
	const struct ir_region *r =
		&t->m->regions.at[t->m->funcs.at[1].body];
	const struct t_buffer *x = t_named(t, rows, false);
	const struct t_buffer *w = t_named(t, columns, false);
	struct t_buffer *y = t_buffer(t, r->results.at[result], 0);
	bool across = strcmp(ir_dim_name(t->m, w->type.dims[1]), "n") == 0;
	int64_t n = ir_dim_size(t->m, w->type.dims[across ? 1 : 0]);
	int64_t length = w->elems / n, i, k;

	y->expect = arena_alloc(&t->c.perm,
				(size_t)y->elems * sizeof *y->expect);
	for (i = 0; i < y->elems; i++) {
		for (k = 0; k < length; k++) {
			y->expect[i] += t_get(x, i / n * length + k) *
					t_get(w, across ? k * n + i % n
						: i % n * length + k);
		}
	}
	if (!(t_differs(y) < (x->type.dtype == IR_F32 ? 1e-5 : 2e-2))) {
		fail_msg("%s in %s: %g off on %s",
			 ir_dtypes[w->type.dtype].name,
			 ir_dtypes[x->type.dtype].name, t_differs(y), cpu);
	}
}

static void
run(struct arena *a, const struct columns *b, const char *cpu)
{
	struct t_kernels t = { .nbuffers = 0 };
	uint32_t i;

	t_kernels_open(&t, rows_text(a, b), cpu, (uint64_t)b->n);
	assert_false(t.fell_back);
	for (i = 0; i < t.list->at.n; i++) {	/* this makes all buffers */
		t_run_kernel(&t, i);
	}
	same_rows(&t);
	for (i = 0; i < t.list->at.n; i++) {
		t_run_kernel(&t, i);
	}
	compare_rows(&t, cpu);
	compare_sums(&t, 0, "a0", "b", cpu);
	t_kernels_close(&t);
}

/* Whether the i-th type is tried on a CPU: AMX is for bf16, and a third of what
 * it could run is tried on each day. */
static bool
is_tried(uint32_t cpu, uint32_t i, bool is_bf16)
{
	static uint32_t tiles;

	if (!strstr(t_cpu(cpu), "amx")) {
		return t_in_grid(cpu, i);
	}
	return is_bf16 && t_today(tiles++, 3);
}

static void
test_rows(void **state)
{
	static const char *const dtypes[] = { "f32", "bf16", "f16" };
	static const char *const stored[] = { "int8", "f8e4m3" };
	uint32_t i, c;

	for (c = 0; c < t_ncpus(); c++) {
		for (i = 0; i < 5; i++) {
			/* whole lines and tiles, or the rest of both */
			bool whole = (c + i) / 2 % 2;
			struct columns b = { i < 3 ? NULL : stored[whole],
					     dtypes[i % 3], whole ? 100 : 37,
					     whole ? 1056 : 1001, false,
					     false };

			if (is_tried(c, i, i % 3 == 1)) {
				run(*state, &b, t_cpu(c));
			}
		}
	}
}

/* Columns whose neighbours in memory are those of other columns. */
static void
test_across(void **state)
{
	static const char *const dtypes[] = { "f32", "bf16", "f16" };
	uint32_t i, c;

	for (c = 0; c < t_ncpus(); c++) {
		for (i = 0; i < 3; i++) {
			bool whole = (c + i) / 2 % 2;
			struct columns b = { .dtype = dtypes[i],
					     .n = whole ? 100 : 37,
					     .k = whole ? 1056 : 1002,
					     .across = true };

			if (is_tried(c, i, i == 1)) {
				run(*state, &b, t_cpu(c));
			}
		}
	}
}

/* Weights of 8 bits become bf16 by tables where the CPU has AVX512-VBMI, and
 * without them elsewhere; to f32 f8e4m3 alone does. */
static void
test_tables(void **state)
{
	static const struct {
		const char *cpu, *needs;
	} cpus[] = {
		{ "x86-64-v4+avx512bf16", T_V4 " avx512bf16" },
		{ "x86-64-v4+avx512bf16+avx512vbmi",
		  T_V4 " avx512bf16 avx512vbmi" },
		{ "x86-64-v4+avx512vbmi", T_V4 " avx512vbmi" }
	};
	struct columns b = { "int8", "bf16", 37, 1096, false, false };
	uint32_t i;

	for (i = 0; i < sizeof cpus / sizeof cpus[0]; i++) {
		if (t_cpu_has_all(cpus[i].needs)) {
			run(*state, &b, cpus[i].cpu);
			b.stored = "f8e4m3";
			run(*state, &b, cpus[i].cpu);
			b.stored = "int8";
		}
	}
}

/* Groups of 4 bits: scales are read eight at a time, or one by one. */
static void
test_groups(void **state)
{
	static const char *const dtypes[] = { "f32", "bf16", "f16" };
	uint32_t i, c;

	for (c = 0; c < t_ncpus(); c++) {
		for (i = 0; i < 3; i++) {
			struct columns b = { "int4", dtypes[i],
					     (c + i) / 2 % 2 ? 100 : 37,
					     (c + i) / 2 % 2 ? 1152 : 384,
					     false, false };

			if (is_tried(c, i, i == 1)) {
				run(*state, &b, t_cpu(c));
			}
		}
	}
}

/* Stored alike and of one length, but multiplied in different types. */
static void
test_types_apart(void **state)
{
	static const char text[] = "llmc-ir 1\ndim m = 1\ndim n = 48\n"
		"dim k = 128\nmodel {\n"
		"  %0 = weight name=\"b\" frozen rounded=k : int8[n, k]\n"
		"  %1 = cast %0 : f32[n, k]\n"
		"  %2 = weight name=\"a0\" : f32[m, k]\n"
		"  %3 = dot %2, %1 over=k : f32[m, n]\n"
		"  %4 = weight name=\"c\" frozen rounded=k : int8[n, k]\n"
		"  %5 = cast %4 : bf16[n, k]\n"
		"  %6 = weight name=\"d\" : bf16[m, k]\n"
		"  %7 = dot %6, %5 over=k : bf16[m, n]\n"
		"  return %3, %7\n}\n";
	uint32_t c;

	(void)state;
	for (c = 0; c < t_ncpus(); c++) {
		struct t_kernels t = { .nbuffers = 0 };
		uint32_t i;

		if (strstr(t_cpu(c), "amx")) {	/* it is for bf16 */
			continue;
		}
		t_kernels_open(&t, text, t_cpu(c), 1);
		assert_false(t.fell_back);
		for (i = 0; i < t.list->at.n; i++) {
			t_run_kernel(&t, i);
		}
		compare_sums(&t, 0, "a0", "b", t_cpu(c));
		compare_sums(&t, 1, "d", "c", t_cpu(c));
		t_kernels_close(&t);
	}
}

/* All that the function returns, in memory to be freed. */
static char *
results(struct t_kernels *t, size_t *n)
{
	const struct ir_region *r =
		&t->m->regions.at[t->m->funcs.at[1].body];
	char *all = NULL;
	uint32_t i;

	*n = 0;
	for (i = 0; i < r->results.n; i++) {
		struct t_buffer *b = t_buffer(t, r->results.at[i], 0);
		size_t bytes = (size_t)(b->elems * t_bytes(b->type.dtype));

		all = realloc(all, *n + bytes);
		assert_non_null(all);
		memcpy(all + *n, b->at, bytes);
		*n += bytes;
	}
	return all;
}

/* What is computed by kernels, or by plain nests. */
static char *
computed(struct arena *a, const struct columns *b, const char *cpu, bool nests,
	 size_t *n)
{
	struct t_kernels t = { .nbuffers = 0 };
	struct cg_panel p;
	char *all;
	uint32_t i;

	t.nests = nests;
	t.in_rows = !b->panels;
	t_kernels_open(&t, rows_text(a, b), cpu, 1);
	for (i = 0; i < 2 * t.list->at.n; i++) {
		t_run_kernel(&t, i % t.list->at.n);
		if (i + 1 == t.list->at.n) {
			same_rows(&t);
		}
	}
	if (b->panels) {
		compare_rows(&t, cpu);
		compare_sums(&t, 0, "a0", "b", cpu);
	}
	p = t.panel[t_named(&t, "b", false)->value];
	assert_int_equal(p.lanes > 0, b->panels);
	all = results(&t, n);
	t_kernels_close(&t);
	return all;
}

/* What tokens have of the experts that are chosen for them. */
static char *
chosen(const char *dtype, const char *cpu, bool panels, size_t *n)
{
	struct ir_ctx c;
	struct t_kernels t = { .nbuffers = 0 };
	int32_t *index;
	uint32_t i;
	char *all;

	ir_ctx_init(&c, NULL);
	t_kernels_open(&t, arena_printf(&c.perm, "llmc-ir 1\ndim s = 21\n"
		"dim c = 2\ndim e = 4\ndim n = 112\ndim k = 1056\nmodel {\n"
		"  %%0 = weight name=\"b\"%s : %s[e, n, k]\n"
		"  %%1 = input name=\"i\" : idx<e>[s, c]\n"
		"  %%2 = weight name=\"a\" : %s[s, k]\n"
		"  %%3 = dot_at %%2, %%1, %%0 over=k of=e : %s[s, c, n]\n"
		"  return %%3\n}\n", panels ? " frozen" : "", dtype, dtype,
		dtype), cpu, 1);
	assert_false(t.fell_back);
	draw(&t, t_buffer(&t, 1, 0));	/* %0, %1, %2 */
	draw(&t, t_buffer(&t, 3, 0));
	index = (int32_t *)(void *)t_buffer(&t, 2, 0)->at;
	for (i = 0; i < 42; i++) {	/* none chooses the last */
		index[i] = (int32_t)(i * i / 3 % 3);
	}
	for (i = 0; i < t.list->at.n; i++) {
		t_run_kernel(&t, i);
	}
	assert_true((t.panel[1].lanes > 0) == panels);
	all = results(&t, n);
	t_kernels_close(&t);
	ir_ctx_release(&c);
	return all;
}

/* Experts whose matrices lie in panels. */
static void
test_experts(void **state)
{
	uint32_t c;

	(void)state;
	for (c = 0; c < 2 * t_ncpus(); c++) {
		const char *cpu = t_cpu(c / 2);
		const char *dtype = c % 2 ? "bf16" : "f32";
		char *panels, *rows;
		size_t n;

		if (!is_tried(c / 2, c % 2, c % 2)) {
			continue;
		}
		panels = chosen(dtype, cpu, true, &n);
		rows = chosen(dtype, cpu, false, &n);
		if (memcmp(panels, rows, n) != 0) {
			fail_msg("experts in panels of %s have other bits on "
				 "%s", dtype, cpu);
		}
		free(panels);
		free(rows);
	}
}

/*
 * Columns that lie in panels: whole tiles, parts of them, few rows.  All bits
 * are those of columns that lie in rows.  Loops read them, too.
 */
static void
compare_panels(struct arena *a, struct columns b, const char *cpu)
{
	char *panels, *rows;
	size_t bytes, same;

	b.panels = true;
	panels = computed(a, &b, cpu, false, &bytes);
	b.panels = false;
	rows = computed(a, &b, cpu, false, &same);
	assert_int_equal(bytes, same);
	if (memcmp(panels, rows, bytes) != 0) {
		fail_msg("panels of %s in %s have other bits on %s",
			 b.stored ? b.stored : b.dtype, b.dtype, cpu);
	}
	free(panels);
	free(rows);
	b.panels = true;
	free(computed(a, &b, cpu, true, &bytes));
}

static void
test_panels(void **state)
{
	static const char *const dtypes[] = { "f32", "bf16" };
	static const int n[] = { 112, 48, 16 };
	uint32_t i, c;

	for (c = 0; c < t_ncpus(); c++) {
		for (i = 0; i < 2; i++) {
			struct columns b = { NULL, dtypes[i], n[(c + i) % 3],
					     (c + i) / 2 % 2 ? 1056 : 64,
					     true, false };

			if (is_tried(c, i, i == 1)) {
				compare_panels(*state, b, t_cpu(c));
			}
		}
	}
}

/* The same of 8 bits: k is a stretch, or one and a part of another.  With AMX
 * they lie in rows. */
static void
test_narrow_panels(void **state)
{
	static const char *const dtypes[] = { "f32", "bf16", "f16" };
	static const char *const stored[] = { "int8", "f8e4m3" };
	static const int n[] = { 112, 48, 16 };
	uint32_t i, c;

	for (c = 0; c < t_ncpus(); c++) {
		for (i = 0; i < 6; i++) {
			struct columns b = { stored[i % 2], dtypes[i / 2],
					     n[(c + i) % 3],
					     (c + i) % 4 < 2 ? 1064 : 64,
					     true, false };

			if (is_tried(c, i, false)) {
				compare_panels(*state, b, t_cpu(c));
			}
		}
	}
}

/* Tables of a CPU that has registers of 64 bytes by a feature, not its name. */
static void
test_added_vbmi(void **state)
{
	const struct columns b = { "f8e4m3", "f32", 48, 64, true, false };

	if (t_cpu_has_all(T_V4 " avx512vbmi")) {
		compare_panels(*state, b, "x86-64-v3+avx512vbmi");
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_across),
		cmocka_unit_test(test_panels),
		cmocka_unit_test(test_narrow_panels),
		cmocka_unit_test(test_experts),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_added_vbmi),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_types_apart),
	};

	if (getenv("BINARY_TESTS")) {	/* a release is not about these */
		return 77;
	}
	choose_counts();
	return cmocka_run_group_tests(tests, t_object_setup, t_object_done);
}
