/* LLVM through ll.h: functions that are built, linked, loaded and run. */
#include "tests/unit/shared/t-object.h"

#include "codegen/llvm/ll_cpu.h"

#include <math.h>
#include <string.h>

/* out[i] = a[i] rounded to bf16 and back, n of them, with a masked tail. */
static void
emit_round(struct ll *l)
{
	static const struct ll_type params[] = {
		{ LL_PTR, 1 }, { LL_PTR, 1 }, { LL_I64, 1 }
	};
	uint32_t w = ll_lanes(l, LL_F32);
	struct ll_value *f, *x, *mask, *at;
	struct ll_loop k;

	f = ll_func(l, "round_all", ll_type(LL_VOID, 1), params, 3, true);
	ll_loop(l, &k, ll_i64(l, 0), ll_param(l, f, 2), w, NULL, 0);
	mask = ll_mask(l, ll_bin(l, LL_SUB, ll_param(l, f, 2), k.i), w);
	at = ll_bin(l, LL_MUL, k.i, ll_i64(l, 4));
	x = ll_load_if(l, ll_type(LL_F32, w), ll_plus(l, ll_param(l, f, 0),
						       at), mask);
	x = ll_cast(l, ll_cast(l, x, LL_BF16), LL_F32);
	ll_store_if(l, x, ll_plus(l, ll_param(l, f, 1), at), mask);
	ll_loop_end(l, &k, NULL);
	ll_return(l, NULL);
}

/* Sum and largest of n floats, of which there are whole vectors. */
static void
emit_sums(struct ll *l)
{
	static const struct ll_type params[] = {
		{ LL_PTR, 1 }, { LL_I64, 1 }, { LL_PTR, 1 }
	};
	uint32_t w = ll_lanes(l, LL_F32);
	struct ll_type v = ll_type(LL_F32, w);
	struct ll_value *f, *init[2], *next[2], *x;
	struct ll_loop k;

	f = ll_func(l, "sums", ll_type(LL_VOID, 1), params, 3, true);
	init[0] = ll_zero(l, v);
	init[1] = ll_num(l, v, -INFINITY);
	ll_loop(l, &k, ll_i64(l, 0), ll_param(l, f, 1), w, init, 2);
	x = ll_load(l, v, ll_plus(l, ll_param(l, f, 0),
				  ll_bin(l, LL_MUL, k.i, ll_i64(l, 4))));
	next[0] = ll_bin(l, LL_ADD, k.at[0], x);
	next[1] = ll_select(l, ll_test(l, LL_GT, x, k.at[1]), x, k.at[1]);
	ll_loop_end(l, &k, next);
	ll_store(l, ll_sum(l, k.at[0]), ll_param(l, f, 2));
	ll_store(l, ll_max(l, k.at[1]), ll_plus_n(l, ll_param(l, f, 2), 4));
	ll_return(l, NULL);
}

static float
rounded(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	u = isnan(x) ? u | 0x400000 : u + 0x7fff + (u >> 16 & 1);
	u &= 0xffff0000;
	memcpy(&x, &u, sizeof x);
	return x;
}

static void
test_runs(void **state)
{
	struct t_object *o = t_object_begin(*state, "native");
	float in[1000], got[1000 + 1], two[2], sum = 0;
	union {
		void *object;
		void (*round)(const float *, float *, int64_t);
		void (*sums)(const float *, int64_t, float *);
	} s;
	int i;

	emit_round(o->l);
	emit_sums(o->l);
	t_object_end(o);
	for (i = 0; i < 1000; i++) {
		in[i] = (float)sin(i) * (float)ldexp(1, i % 60 - 30);
	}
	in[7] = INFINITY;
	in[8] = NAN;
	in[9] = 3.3895314e38f;	/* above the largest bf16 */
	s.object = t_object_find(o, "round_all");
	for (i = 0; i < 999; i++) {
		got[i + 1] = 77;
	}
	s.round(in, got, 997);
	for (i = 0; i < 997; i++) {
		float want = rounded(in[i]);

		assert_true(memcmp(&got[i], &want, sizeof want) == 0 ||
			    (isnan(want) && isnan(got[i])));
	}
	assert_true(got[997] == 77 && got[998] == 77);
	s.object = t_object_find(o, "sums");
	for (i = 0; i < 64; i++) {
		in[i] = (float)((i * 37) % 64);
		sum += in[i];
	}
	s.sums(in, 64, two);
	assert_true(two[0] == sum && two[1] == 63);
	t_object_close(o);
}

/* Data refers to functions and texts, each word in its place. */
static void
test_data(void **state)
{
	struct t_object *o = t_object_begin(*state, "native");
	struct ll_value *other, *words[5];
	const int64_t *at;
	double num;

	words[0] = ll_i64(o->l, 6);
	words[1] = ll_i64(o->l, 7);
	other = ll_data(o->l, NULL, words, 2);
	words[0] = ll_i64(o->l, -5);
	words[1] = ll_num(o->l, ll_type(LL_F64, 1), 0.1);
	words[2] = ll_text(o->l, "a name");
	words[3] = ll_data_at(o->l, other, 1);
	words[4] = ll_null(o->l);
	ll_data(o->l, "shown", words, 5);
	t_object_end(o);
	at = t_object_find(o, "shown");
	memcpy(&num, &at[1], sizeof num);
	assert_true(at[0] == -5 && num == 0.1 && at[4] == 0);
	assert_string_equal((const char *)(uintptr_t)at[2], "a name");
	assert_true(*(const int64_t *)(uintptr_t)at[3] == 7);
	t_object_close(o);
}

static void
test_cpus(void **state)
{
	struct arena *a = *state;
	const char *why = NULL;
	uint32_t i, n;
	const struct ll_cpu_row *rows = ll_cpu_rows(&n);

	assert_null(ll_new(a, "z80", false, &why));
	assert_string_equal(why, "no CPU is called `z80`");
	for (i = 0; i < n; i++) {
		struct ll *l = ll_new(a, rows[i].name, false, &why);

		assert_non_null(l);
		assert_true(ll_lanes(l, LL_F32) ==
			    (strstr(rows[i].features, "avx512f") ? 16u
			     : strstr(rows[i].features, "avx2") ? 8u : 4u));
		ll_free(l);
	}
	for (i = 0; i < 2; i++) {
		/* vectors of 64 bytes, whatever the name has */
		struct ll *l = ll_new(a, i ? "x86-64-v3+avx512vbmi"
					   : "x86-64-v2+avx512f", false, &why);

		assert_non_null(l);
		assert_true(ll_has(l, "avx512vl") && ll_has(l, "fma"));
		assert_true(ll_has(l, "avx512vbmi") == (i == 1));
		assert_int_equal(ll_lanes(l, LL_F32), 16);
		ll_free(l);
	}
	assert_string_equal(ll_cpu_split(a, "haswell+gfni+amx-bf16", &why),
			    "haswell");
	assert_string_equal(why, "+gfni+amx-tile+amx-bf16");
	assert_true(ll_cpu_has("+avx512f,-amx-bf16", "avx512f"));
	assert_false(ll_cpu_has("+avx512f,-amx-bf16", "amx-bf16"));
	assert_false(ll_cpu_has("avx512f avx2", "avx"));
	assert_false(ll_cpu_gains("sapphirerapids", "avx512bf16"));
	assert_true(ll_cpu_gains("sapphirerapids", "avx512f"));
	assert_true(ll_cpu_gains("znver4", "avx512bf16"));
	assert_true(ll_cpu_gains("x86-64-v4", "avx512bf16"));
	assert_true(ll_cpu_gains("of-another-year", "avx512bf16"));
}

/* Of two runs one takes `native`, and both take every other one. */
static void
test_turns(void **state)
{
	uint32_t n = t_ncpus(), seen[2] = { 0, 0 }, i, j;

	(void)state;
	for (i = 0; i < n * n; i++) {
		const char *cpu[2] = { t_cpu_turn(i, false),
				       t_cpu_turn(i, true) };

		assert_true(n == 1 || (strcmp(cpu[0], "native") == 0) !=
				      (strcmp(cpu[1], "native") == 0));
		for (j = 0; j < T_NCPUS; j++) {
			if (strcmp(cpu[0], t_cpu_list[j].name) == 0) {
				seen[0] |= 1u << j;
			}
			if (strcmp(cpu[1], t_cpu_list[j].name) == 0) {
				seen[1] |= 1u << j;
			}
		}
	}
	assert_true(seen[0] == seen[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_data),
		cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_turns),
	};

	return cmocka_run_group_tests(tests, t_object_setup,
				      t_object_teardown);
}
