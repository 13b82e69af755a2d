/*
 * Models and devices by the names that tables of serving have for them, and
 * the sizes of shapes, which their names say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "frontend/validate/validate_serve.h"

struct named {
	const char *name;
	struct serving_shape shape;
};

static const struct named shapes[] = {
#define SHAPE(name, layers, hidden, heads, kv, hd, ffn, gated, window, \
	      experts, choice, vocab) \
	{ name, { layers, hidden, heads, kv, hd, ffn, gated, window, experts, \
		  choice, vocab, 0, 0 } },
#define MIXED(name, layers, hidden, heads, kv, hd, ffn, experts, choice, \
	      vocab, shared, plain) \
	{ name, { layers, hidden, heads, kv, hd, ffn, 1, 0, experts, choice, \
		  vocab, shared, plain } },
#include "frontend/validate/serving_names.def"
};

static const char *const targets[] = {
#define DEVICE(name, part, target, fp4) target,
#include "frontend/validate/serving_names.def"
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct arena a;
static struct mem mem;

static int
open_arena(void **state)
{
	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	return 0;
}

static int
close_arena(void **state)
{
	(void)state;
	arena_release(&a);
	return 0;
}

/* Parameters, in billions, of a model whose head is its table. */
static double
billions(const struct serving_shape *x)
{
	double block = (double)(x->hidden * x->hd * (2 * x->heads + 2 * x->kv));
	double matrix = (double)((x->gated ? 3 : 2) * x->hidden);
	double mlp = matrix * (double)(x->shared + x->ffn *
				       (x->experts ? x->experts : 1));

	/* every other layer may have one MLP alone */
	block += x->plain ? (mlp + matrix * (double)x->plain) / 2 : mlp;
	return ((double)x->layers * block + (double)(x->vocab * x->hidden)) /
	       1e9;
}

/* The first part of a name that is a number of billions; 0: none is. */
static double
said(const char *name)
{
	const char *p;

	for (p = strchr(name, '-'); p; p = strchr(p + 1, '-')) {
		char *end;
		double v = strtod(p + 1, &end);

		if (end > p + 1 && *end == 'b') {
			return v;
		}
	}
	return 0;
}

/* Names that say no size: 109e9 and 400e9, by their model cards. */
static void
test_mixed(void **state)
{
	struct serving_shape found;

	(void)state;
	assert_true(serving_named_shape("Llama 4 Scout", &found));
	assert_true(fabs(billions(&found) - 108) < 2);
	assert_true(serving_named_shape("Llama-4-Maverick-17B-128E-FP8",
					&found));
	assert_true(fabs(billions(&found) - 400) < 5);
}

/* Names of one size whose tables of words differ. */
static void
test_words(void **state)
{
	static const struct {
		const char *name;
		int64_t vocab;
	} all[] = {
		{ "Baichuan-7B", 64000 }, { "Baichuan2-7B-Chat", 125696 },
		{ "Baichuan-13B-Chat", 64000 }, { "Baichuan2-13B", 125696 }
	};
	struct serving_shape found;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(all); i++) {
		assert_true(serving_named_shape(all[i].name, &found));
		assert_int_equal(found.vocab, all[i].vocab);
	}
}

/* Names round, and some leave out a large table of words. */
static void
test_sizes(void **state)
{
	uint32_t known = 0;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(shapes); i++) {
		const struct serving_shape *x = &shapes[i].shape;
		double want = said(shapes[i].name), have = billions(x);

		if (want <= 0 || x->layers == 0) {
			continue;
		}
		known++;
		if (fabs(have - want) > 0.3 * want) {
			fail_msg("%s has %.2fe9 parameters", shapes[i].name,
				 have);
		}
		assert_int_equal(x->heads % x->kv, 0);
		assert_true(!x->window || x->layers % 2 == 0);
	}
	assert_true(known > 70);
}

/* Each name finds its own shape, whatever stands before it in the table. */
static void
test_shapes(void **state)
{
	struct serving_shape found;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(shapes); i++) {
		assert_true(serving_named_shape(shapes[i].name, &found));
		if (memcmp(&found, &shapes[i].shape, sizeof found) != 0) {
			fail_msg("%s is taken for another", shapes[i].name);
		}
	}
}

static void
test_spelling(void **state)
{
	static const struct {
		const char *name;
		int64_t layers, hidden;
	} all[] = {
		{ "LLaMA v2 70B", 80, 8192 }, { "llama_13b", 40, 5120 },
		{ "llama2-7b", 32, 4096 }, { "Llama-2-7b-chat-hf", 32, 4096 },
		{ "meta-llama/Meta-Llama-3-8B-Instruct", 32, 4096 },
		{ "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", 28, 3584 },
		{ "deepseek-ai/DeepSeek-R1", 0, 0 },
		{ "Qwen2.5-Coder-7B-Instruct", 28, 3584 },
		{ "GPT-20B", 44, 6144 }, { "gpt3_175b", 96, 12288 },
		{ "GPT-NeoX-20B", 44, 6144 }, { "Megatron GPT 5B", 24, 4096 },
		{ "Qwen/Qwen3-4B", 36, 2560 }, { "Qwen3-14B-AWQ", 40, 5120 },
		{ "Mistral-7B-Instruct-v0.3", 32, 4096 }
	};
	struct serving_shape found;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(all); i++) {
		assert_true(serving_named_shape(all[i].name, &found));
		assert_int_equal(found.layers, all[i].layers);
		assert_int_equal(found.hidden, all[i].hidden);
	}
	assert_false(serving_named_shape("Llama-2-70B + Llama-2-7B draft",
					 &found));
	assert_false(serving_named_shape("GPTK 6B", &found));
	assert_false(serving_named_shape("", &found));
}

static void
is_device(const char *name, const char *want, bool fp4)
{
	bool has_fp4 = false;
	const char *target = serving_named_target(&a, name, &has_fp4);

	if (!want) {
		assert_null(target);
		return;
	}
	assert_non_null(target);
	assert_string_equal(target, want);
	assert_int_equal(has_fp4, fp4);
}

static void
test_devices(void **state)
{
	size_t i;

	(void)state;
	is_device("h100_sxm", "h100-sxm", false);
	is_device("H100", "h100-sxm", false);
	is_device("NVIDIA H100 80GB HBM3", "h100-sxm", false);
	is_device("H100 PCIe 80GB", "h100-pcie", false);
	is_device("H100-NVL", NULL, false);
	is_device("NVIDIA A100-SXM4-80GB", "a100-sxm", false);
	is_device("A100-SXM4-40GB", "a100-40g", false);
	is_device("A100 80GB PCIe", "a100-pcie", false);
	is_device("A10", "a10", false);
	is_device("A10G", NULL, false);
	is_device("H20-96GB", "h20", false);
	is_device("H20-3e", NULL, false);
	is_device("RTX 6000 Pro Blackwell Server Edition", "rtx-pro-6000",
		  true);
	is_device("RTX 6000 Ada", NULL, false);
	is_device("Tesla T4", "t4", false);
	is_device("GB200-192GB", "gb200", true);
	is_device("NVIDIA GeForce RTX 4090 24GB", "rtx4090", false);
	is_device("RTX 2080 Ti", "rtx2080ti", false);
	is_device("MI-250x (1 GCD)", NULL, false);
	is_device("", NULL, false);
	for (i = 0; i < COUNT(targets); i++) {
		assert_true(!*targets[i] || fe_target_known(targets[i]));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_spelling),
		cmocka_unit_test(test_devices)
	};

	return cmocka_run_group_tests(tests, open_arena, close_arena);
}
