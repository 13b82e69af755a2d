/* What a model costs, counted by hand and by pass_sum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "passes/pass.h"
#include "tests/unit/shared/t-context.h"

static struct ir_module *
read_text(const char *text)
{
	struct ir_module *m;
	uint32_t base;

	assert_true(source_add(&ctx.sources, "test.ir", text, strlen(text),
			       &base));
	m = ir_read(&ctx, ctx.sources.files.n - 1);
	if (!m) {
		diag_flush(&ctx.diags, stderr);
		fail_msg("not read:\n%s", text);
	}
	return m;
}

static const char *
last_error(void)
{
	assert_true(ctx.diags.records.n > 0);
	return ctx.diags.records.at[ctx.diags.records.n - 1].text;
}

static const char moe[] =
	"llmc-ir 1\n"
	"dim batch = 2\ndim seq = 8\ndim hidden = 4\ndim vocab = 16\n"
	"dim expert = 8\ndim choice = 2\ndim ffn = 6\n"
	"set train.optimizer = sgd\nset train.optimizer.momentum = 0.9\n"
	"model {\n"
	"%0 = input name=\"tokens\" : idx<vocab>[batch, seq]\n"
	"%1 = weight name=\"e\" init=normal : bf16[vocab, hidden]\n"
	"%2 = gather %1, %0 of=vocab : bf16[batch, seq, hidden]\n"
	"%3 = repeat count=3 var=i (%4 = %2) : bf16[batch, seq, hidden] {\n"
	"%5 = weight name=\"r.{i}\" init=normal : bf16[expert, hidden]\n"
	"%6 = dot %4, %5 over=hidden : bf16[batch, seq, expert]\n"
	"%7 = topk %6 of=expert to=choice : idx<expert>[batch, seq, choice]\n"
	"%8 = weight name=\"x.{i}\" init=normal : "
	"bf16[expert, ffn, hidden]\n"
	"%9 = dot_at %4, %7, %8 over=hidden of=expert : "
	"bf16[batch, seq, choice, ffn]\n"
	"%10 = weight name=\"y\" init=normal : bf16[expert, hidden, ffn]\n"
	"%11 = dot_at %9, %7, %10 over=ffn of=expert : "
	"bf16[batch, seq, choice, hidden]\n"
	"%12 = sum %11 over=choice : bf16[batch, seq, hidden]\n"
	"%13 = add %12, %4 : bf16[batch, seq, hidden]\n"
	"yield %13\n}\n"
	"%14 = dot %3, %1 over=hidden : bf16[batch, seq, vocab]\n"
	"return %14\n}\n";

/* By hand: e 16x4, r 3x(8x4), x 3x(8x6x4), y once 8x4x6. */
static void
test_summary_experts(void **state)
{
	struct pass_sums s;

	(void)state;
	assert_true(pass_sum(read_text(moe), &s));
	assert_int_equal(s.tokens, 16);
	assert_int_equal(s.total, 64 + 96 + 576 + 192);
	assert_int_equal(s.group[GROUP_EMBEDDING], 64);
	assert_int_equal(s.group[GROUP_MLP], 96);
	assert_int_equal(s.group[GROUP_EXPERTS], 768);
	assert_int_equal(s.active, 64 + 96 + 768 * 2 / 8);
	assert_int_equal(s.weight_bytes, 2 * s.total);
	assert_int_equal(s.optimizer_bytes, 8 * s.total);
	/* per token: 3 x (2x4x8 router + 2x2x4x6 + 2x2x6x4) + 2x4x16 */
	assert_true(s.contraction_flops == 3 * (64 + 96 + 96) + 128);
}

static void
test_summary_overflow(void **state)
{
	struct pass_sums s;

	(void)state;
	assert_false(pass_sum(read_text(
		"llmc-ir 1\ndim a = 1000000000000\ndim b = 1000000\n"
		"dim n = 1000000\nmodel {\n"
		"%0 = weight name=\"z\" init=ones : f32[a]\n"
		"%1 = repeat count=(n) var=i (%2 = %0) : f32[a] {\n"
		"%3 = weight name=\"w.{i}\" init=ones : f32[a, b]\n"
		"%4 = sum %3 over=b : f32[a]\nyield %4\n}\n"
		"return %1\n}\n"), &s));
	assert_string_equal(last_error(), "the parameters or bytes of this "
			    "model do not fit 63 bits");
}

/* One matrix of each kind, and a bias. */
static void
test_groups(void **state)
{
	struct pass_sums s;

	(void)state;
	assert_true(pass_sum(read_text(
		"llmc-ir 1\ndim b = 2\ndim t = 4\ndim h = 2\ndim d = 4\n"
		"dim n = 8\ndim v = 16\ndim f = 32\nmodel {\n"
		"%0 = input name=\"tokens\" : idx<v>[b, t]\n"
		"%1 = weight name=\"e\" init=normal : f32[v, n]\n"
		"%2 = gather %1, %0 of=v : f32[b, t, n]\n"
		"%3 = weight name=\"q\" init=normal : f32[h, d, n]\n"
		"%4 = dot %2, %3 over=n : f32[b, t, h, d]\n"
		"%5 = weight name=\"qb\" init=zeros : f32[h, d]\n"
		"%6 = add %4, %5 : f32[b, t, h, d]\n"
		"%7 = attention %6, %4, %4 causal : f32[b, t, h, d]\n"
		"%8 = weight name=\"o\" init=normal : f32[n, h, d]\n"
		"%9 = dot %7, %8 over=(h, d) : f32[b, t, n]\n"
		"%10 = add %2, %9 : f32[b, t, n]\n"
		"%11 = weight name=\"up\" init=normal : f32[f, n]\n"
		"%12 = dot %10, %11 over=n : f32[b, t, f]\n"
		"%13 = silu %12 : f32[b, t, f]\n"
		"%14 = weight name=\"down\" init=normal : f32[n, f]\n"
		"%15 = dot %13, %14 over=f : f32[b, t, n]\n"
		"%16 = add %10, %15 : f32[b, t, n]\n"
		"%17 = weight name=\"head\" init=normal : f32[v, n]\n"
		"%18 = dot %16, %17 over=n : f32[b, t, v]\n"
		"return %18\n}\n"), &s));
	assert_int_equal(s.group[GROUP_EMBEDDING], 16 * 8);
	assert_int_equal(s.group[GROUP_ATTENTION], 2 * 2 * 4 * 8);
	assert_int_equal(s.group[GROUP_MLP], 2 * 32 * 8);
	assert_int_equal(s.group[GROUP_HEAD], 16 * 8);
	assert_int_equal(s.group[GROUP_OTHER], 2 * 4);
	assert_int_equal(s.ncaches, 1);
	assert_int_equal(s.cache[0].bytes, 2 * 2 * 4 * 4);
	assert_null(s.optimizer);
	/* pairs 1+2+3+4 per head and sequence, 4 flops each per depth */
	assert_true(s.attention_flops == 2 * 2 * 10 * 4 * 4 / 8.0);
	assert_true(s.backward_flops ==
		    2 * (s.contraction_flops + s.attention_flops +
			 s.other_flops));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(test_groups),
		T(test_summary_experts),
		T(test_summary_overflow)
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
