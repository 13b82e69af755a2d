/*
 * Placing with what was chosen before: a program that is placed by many plans
 * with one memo, twice each, comes out as it does alone, with what passes have
 * left in it or without, and so do programs that differ in a size or in a name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "ir/memo.h"
#include "passes/pass.h"
#include "passes/plan/plan.h"

/* A model of experts, or of one; its ffn and the name of its last weight. */
static const char form[] =
	"model m { dim batch = 8, seq = 4, hidden = 8, ffn = %d, vocab = 16%s;"
	" dtype f32;"
	" x = embed(tokens, vocab -> hidden) @ \"e\";"
	" repeat 2 as i {%s }"
	" loss = cross_entropy(linear(x -> vocab) @ \"%s\", labels); }"
	" train { batch = 8; optimizer = adamw(lr = 0.01); }";

static const char dense[] =
	" f = linear(x -> ffn) @ \"u.{i}\";"
	" x = x + linear(f -> hidden) @ \"d.{i}\";";

static const char experts[] =
	" s = softmax(linear(x -> expert) @ \"r.{i}\");"
	" k = topk(s, expert -> choice); w = gather(s, k);"
	" f = silu(linear(x, k -> ffn) @ \"u.{i}.{expert}\");"
	" y = linear(f, k -> hidden) @ \"d.{i}.{expert}\";"
	" x = x + sum(y * w, choice);";

static const char *const plans[] = {
	"dp=2,microbatch=4,zero=0", "dp=2,microbatch=4,zero=1",
	"dp=2,microbatch=2,zero=1", "dp=2,tp=2,microbatch=2,zero=1",
	"dp=2,tp=4,microbatch=2,zero=1", "dp=4,tp=2,microbatch=2,zero=1",
	"dp=2,tp=2,microbatch=2,zero=3", "tp=2,microbatch=2",
	"pp=2,tp=2,microbatch=2", "pp=2,dp=2,tp=2,microbatch=2,zero=1",
	"dp=2,tp=2,microbatch=2,zero=1,sequence=on",
	"ep=2,microbatch=4", "ep=2,dp=2,microbatch=2,zero=1",
	"ep=2,dp=2,tp=2,microbatch=2,zero=1", "ep=4,dp=2,microbatch=1,zero=2"
};

#define NPLANS (sizeof plans / sizeof *plans)

static struct ir_module *
trained(struct ir_ctx *c, int ffn, bool many, const char *last)
{
	char *text = arena_printf(&c->perm, form, ffn,
				  many ? ", expert = 4, choice = 2" : "",
				  many ? experts : dense, last);
	struct ir_module *m = NULL;
	uint32_t base;

	assert_true(source_add(&c->sources, "test", text, strlen(text),
			       &base));
	m = fe_compile(c, c->sources.files.n - 1);
	if (!m || pass_apply(m, "train", true) != PASS_OK) {
		diag_flush(&c->diags, stderr);
		fail_msg("a model is not compiled");
	}
	return m;
}

/* The placed program as a text, in the arena; "" if the plan is refused. */
static const char *
placed(struct ir_module *m, const char *pins, struct memo *memo,
       struct arena *a)
{
	struct pass_stats stats = { .arena = a, .pass = "place" };
	struct ir_module *copy;
	struct ir_ctx child;
	struct pass_ctx p = { .ctx = &child, .stats = &stats, .memo = memo };
	struct buf b;

	buf_init(&b, a);
	ir_ctx_child(&child, m->ctx);
	copy = ir_copy(m, &child);
	if (plan_pin(copy, pins) && pass_place(&p, copy)) {
		ir_print(copy, &b);
	} else {
		buf_puts(&b, "");
	}
	ir_ctx_release(&child);
	return buf_text(&b);
}

/* Without what passes have left: all else is numbered anew. */
static struct ir_module *
tidy(struct ir_module *m, struct ir_ctx *c)
{
	struct ir_module *copy;
	struct ir_ctx child;

	ir_ctx_child(&child, m->ctx);
	copy = ir_copy(m, &child);
	ir_ctx_child(c, m->ctx);
	copy = ir_move(copy, c);
	assert_true(copy->nodes.n < m->nodes.n);
	return copy;
}

static void
test_alone_or_not(void **state)
{
	struct ir_ctx c, own[5];
	struct mem mem;
	struct arena keep;
	struct memo memo;
	struct ir_module *m[5], *tidied[5];
	uint32_t round, i, k, done = 0;

	(void)state;
	mem_init(&mem);
	arena_init(&keep, &mem);
	ir_ctx_init(&c, &mem);
	m[0] = trained(&c, 16, false, "head");
	m[1] = trained(&c, 32, false, "head");
	m[2] = trained(&c, 16, true, "head");
	m[3] = trained(&c, 16, true, "tail");
	m[4] = trained(&c, 24, true, "head");
	for (k = 0; k < 5; k++) {
		tidied[k] = tidy(m[k], &own[k]);
	}
	memo_init(&memo, &mem, MEMO_BYTES);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < 5 * NPLANS; i++) {
			const char *alone, *again;

			k = i % 5;
			alone = placed(m[k], plans[i / 5], NULL, &keep);
			again = placed((i + round) % 2 ? tidied[k] : m[k],
				       plans[i / 5], &memo, &keep);
			assert_string_equal(again, alone);
			done += *alone != '\0';
		}
	}
	assert_true(done > 4 * NPLANS);
	for (k = 0; k < 5; k++) {
		ir_ctx_release(&own[k]);
	}
	ir_ctx_release(&c);
	memo_release(&memo);
	arena_release(&keep);
}

/*
 * A model where what is chosen hangs on how many ranks there are, and along
 * tp on what was chosen before.
 */
static void
test_choices_differ(void **state)
{
	static const char *const of[] = {
		"ep=2,dp=2,microbatch=1", "ep=4,dp=2,microbatch=1",
		"dp=4,tp=2,microbatch=1,zero=1,sequence=on",
		"dp=4,tp=2,microbatch=8,zero=0,sequence=on"
	};
	const char *top = getenv("top_srcdir");
	struct ir_module *m;
	struct memo memo;
	struct arena keep;
	struct ir_ctx c;
	struct mem mem;
	uint32_t file, i;
	const char *why;

	(void)state;
	mem_init(&mem);
	arena_init(&keep, &mem);
	ir_ctx_init(&c, &mem);
	assert_true(source_read(&c.sources, arena_printf(&keep,
		"%s/examples/mixtral-8x7b.llm", top ? top : "."), &file,
		&why));
	m = fe_compile(&c, file);
	assert_true(m && pass_apply(m, "train", true) == PASS_OK);
	memo_init(&memo, &mem, MEMO_BYTES);
	for (i = 0; i < sizeof of / sizeof *of; i++) {
		const char *alone = placed(m, of[i], NULL, &keep);

		assert_true(*alone);
		assert_string_equal(placed(m, of[i], &memo, &keep), alone);
	}
	ir_ctx_release(&c);
	memo_release(&memo);
	arena_release(&keep);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone_or_not),
		cmocka_unit_test(test_choices_differ)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
