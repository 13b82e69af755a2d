/*
 * llmc import runs out of memory at each request: nothing leaks, and nothing
 * but the message of the gate comes of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "frontend/frontend.h"
#include "frontend/import/import.h"
#include "tests/unit/shared/t-scarce.h"

static const char config[] =
	"{\"architectures\": [\"Qwen2ForCausalLM\"], \"hidden_act\": \"silu\","
	" \"hidden_size\": 16, \"intermediate_size\": 24,"
	" \"max_position_embeddings\": 32, \"model_type\": \"qwen2\","
	" \"num_attention_heads\": 4, \"num_hidden_layers\": 2,"
	" \"layer_types\": [\"full_attention\", \"full_attention\"],"
	" \"num_key_value_heads\": 2, \"rms_norm_eps\": 1e-06,"
	" \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4.0},"
	" \"torch_dtype\": \"bfloat16\", \"vocab_size\": 64}";

static void
import(struct ir_ctx *c)
{
	struct imp_request rq = { 0 };
	struct buf text;
	uint32_t base;

	assert_true(source_add(&c->sources, "config.json", config,
			       strlen(config), &base));
	buf_init(&text, &c->perm);
	assert_true(imp_model(c, &rq, &text));
	assert_non_null(strstr(buf_text(&text), "theta = 10000, factor = 4"));
	assert_non_null(strstr(buf_text(&text), "model qwen2 {"));
}

/* Whether n requests were enough. */
static bool
import_with(long n)
{
	static struct scarce s;
	static struct ir_ctx c;
	struct mem mem = scarce_mem(&s);
	volatile bool enough = false;

	s.left = n;
	s.live = 0;
	if (setjmp(s.out) == 0) {
		ir_ctx_init(&c, &mem);
		import(&c);
		enough = true;
	}
	ir_ctx_release(&c);
	assert_int_equal(s.live, 0);
	return enough;
}

static void
test_no_memory_at_any_request(void **state)
{
	long n = 0;

	(void)state;
	while (!import_with(n)) {
		n++;
	}
	assert_true(n > 2);
}

static void
test_families_are_listed(void **state)
{
	struct ir_ctx c;

	(void)state;
	ir_ctx_init(&c, NULL);
	assert_non_null(strstr(imp_families(&c.perm), "gpt2, gpt_neox"));
	assert_null(strstr(imp_families(&c.perm), ".part"));
	ir_ctx_release(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_memory_at_any_request),
		cmocka_unit_test(test_families_are_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
