/*
 * Attention of a program that serves is priced as the planner prices a step of
 * the same load: of models with heads that share keys, windows, latents, and
 * keys that steps compute, with caches of both widths, in steps of a few
 * positions and of many.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "passes/plan/plan.h"
#include "passes/price/price.h"
#include "tests/unit/serve/t-serve.h"

#define PROMPT 200
#define OUTPUT 56
#define KEYS 2048

static const struct serve_format f8 = { "f8e4m3", 1, 0 };

static const char *const models[] = {
	MODEL(GQA(""), DENSE), MODEL(GQA(", window = 64"), DENSE),
	MODEL(GQA(""), MOE), MODEL(MLA, DENSE), MODEL(TURNED, DENSE),
	MODEL(MIXED, DENSE)
};

/* What attention takes in a step of serve_step. */
static double
planned_us(struct served *s, const struct cost_load *l)
{
	struct serve_program p;
	struct serve_time t;
	uint32_t i, k, n;

	program(s, 1, 1, 1, &p);
	for (i = 0; i < p.nparts; i++) {
		for (k = n = 0; k < p.part[i].items.n; k++) {
			struct serve_item x = p.part[i].items.at[k];

			if (x.work == SERVE_ATTENTION) {
				p.part[i].items.at[n++] = x;
			}
		}
		p.part[i].items.n = n;
	}
	serve_step(&p, &s->target, &s->asked, l, &t);
	return t.total_us;
}

static void
set(struct ir_module *m, const char *key, double v)
{
	struct ir_setting s = { .kind = SET_NUM, .n = 1, .num = { v } };

	s.key = intern_str(&m->ctx->syms, key);
	VEC_PUSH(&m->ctx->perm, &m->settings, s);
}

/* The model as a step of so many positions, in c. */
static struct ir_module *
step_of(const char *text, double tokens, bool is_narrow, struct ir_ctx *c)
{
	struct ir_setting cache = { .kind = SET_WORD };
	struct ir_module *m;
	uint32_t base;

	assert_true(source_add(&c->sources, "model", text, strlen(text),
			       &base));
	m = fe_compile(c, c->sources.files.n - 1);
	assert_non_null(m);
	set(m, "program.serves", 1);
	set(m, "serve.tokens", tokens);
	set(m, "serve.rows", 8);
	set(m, "serve.keys", KEYS);
	set(m, "serve.slots", 4 * KEYS);
	set(m, "serve.prompt", PROMPT);
	set(m, "serve.output", OUTPUT);
	if (is_narrow) {
		cache.key = intern_str(&c->syms, "serve.cache");
		cache.text = intern_str(&c->syms, f8.name);
		VEC_PUSH(&c->perm, &m->settings, cache);
	}
	assert_int_equal(pass_apply(m, "fold-dims,inline,absorb,ragged,"
			 "quantise,cse,dce", true), PASS_OK);
	return m;
}

/* What attention takes in the rank program of a step. */
static double
program_us(const char *text, const struct target *t, double tokens,
	   bool is_narrow)
{
	struct target_devs devs = target_devs_all(&t->groups.at[0]);
	static const struct price_traits plain;
	const char *why = NULL;
	struct ir_module *m;
	struct price price;
	struct ranks r;
	struct ir_ctx c;
	double us;

	ir_ctx_init(&c, NULL);
	m = step_of(text, tokens, is_narrow, &c);
	assert_true(plan_pin(m, "tp=1"));
	assert_int_equal(pass_apply(m, "place,stage", true), PASS_OK);
	assert_true(ranks_open(&r, m, ranks_schedule(m, NULL, &c.perm), NULL,
			       &why));
	assert_true(price_step(&r, &devs, &plain, &c.perm, &price, &why));
	us = price.parts_us[PRICE_ATTENTION];
	ir_ctx_release(&c);
	return us;
}

static void
compare(const char *text, const char *target, double tokens, bool is_narrow)
{
	struct cost_load l = cost_full_load(PROMPT, OUTPUT, tokens, KEYS);
	struct served s;
	double planned, priced;

	open_model(&s, text);
	assert_true(fe_target(&s.c, target, &s.target));
	s.asked.cache = is_narrow ? &f8 : NULL;
	s.asked.step_tokens = tokens;
	s.asked.step_keys = KEYS;
	planned = planned_us(&s, &l);
	priced = program_us(text, &s.target, tokens, is_narrow);
	if (fabs(priced / planned - 1) > 1e-9) {
		fail_msg("%s, %.0f positions, %s%s: %.3f us, and a step of "
			 "its load has %.3f", target, tokens,
			 is_narrow ? "8 bits, " : "", text, priced, planned);
	}
	ir_ctx_release(&s.c);
}

static void
compare_all(const char *target)
{
	static const double tokens[] = { 1, 8, 20, 32, 64, 500 };
	size_t i, k;

	for (i = 0; i < sizeof models / sizeof *models; i++) {
		for (k = 0; k < sizeof tokens / sizeof *tokens; k++) {
			compare(models[i], target, tokens[k], false);
			compare(models[i], target, tokens[k], true);
		}
	}
}

static void
test_cpu(void **state)
{
	(void)state;
	compare_all("cpux1");
}

/* Single queries, and blocks, launch and leave what those of the whole step
 * do. */
static void
test_gpu(void **state)
{
	(void)state;
	compare_all("h100x1");
	compare_all("rtx4090x1");
}

/* Of 12 sequences a step of 32 computes attention, by four launches, as it has
 * more than 16; and scratch is that of the step's keys. */
static void
test_sizes(void **state)
{
	struct cost_load l = { .decoding = 12, .keys = 512 };
	double us, scratch;
	struct serve_memory memory;
	struct serve_program p;
	struct serve_time t;
	struct served s;

	(void)state;
	open_model(&s, models[0]);
	program(&s, 1, 1, 1, &p);
	serve_step(&p, &s.target, &s.asked, &l, &t);
	us = t.us[SERVE_LAUNCHES];
	serve_memory(&p, &s.target, &s.asked, &l, &memory);
	scratch = memory.workspace;
	s.asked.step_tokens = 12;	/* then a step of 12 is the largest */
	serve_step(&p, &s.target, &s.asked, &l, &t);
	assert_true(us - t.us[SERVE_LAUNCHES] > 0.99 * LAYERS *
		    s.target.groups.at[0].device.launch_us);
	s.asked.step_tokens = 64;
	s.asked.step_keys = 65536;
	serve_memory(&p, &s.target, &s.asked, &l, &memory);
	assert_true(memory.workspace > scratch);
	ir_ctx_release(&s.c);
}

/* Bytes of a position of all caches of a region. */
static double
cached_bytes(const struct ir_module *m, region_id id)
{
	const struct ir_region *r = &m->regions.at[id];
	double bytes = 0;
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		if (n->region) {
			bytes += (double)ir_attr_int(m, n, IR_ATTR_COUNT, 1) *
				 cached_bytes(m, n->region);
		} else if (n->op == IR_APPEND) {
			const struct ir_type *t = ir_type(m, n->result);

			bytes += ir_most_elems(m, t) * ir_elem_bytes(t->dtype) /
				 (double)ir_dim_size(m, t->dims[0]);
		}
	}
	return bytes;
}

/* A position takes in the answer what the program's slots take, windows or
 * not. */
static void
test_cache(void **state)
{
	size_t i, narrow;

	(void)state;
	for (i = 0; i < sizeof models / sizeof *models; i++) {
		for (narrow = 0; narrow < 2; narrow++) {
			struct cost_load l = { .decoding = 1, .keys = 512 };
			struct serve_memory memory;
			struct serve_program p;
			struct ir_module *m;
			struct served s;
			struct ir_ctx c;

			open_model(&s, models[i]);
			s.asked.cache = narrow ? &f8 : NULL;
			program(&s, 1, 1, 1, &p);
			serve_memory(&p, &s.target, &s.asked, &l, &memory);
			ir_ctx_init(&c, NULL);
			m = step_of(models[i], 8, narrow, &c);
			assert_true(memory.token == cached_bytes(m,
				    m->funcs.at[ir_model(m)].body));
			ir_ctx_release(&c);
			ir_ctx_release(&s.c);
		}
	}
}

/* Full steps have whole positions, and no more keys than the step, however
 * short prompts are. */
static void
check_full(double prompt, double tokens, double keys)
{
	struct cost_load l = cost_full_load(prompt, OUTPUT, tokens, keys);

	assert_true(l.decoding + l.chunk <= tokens);
	assert_true(cost_step_keys(&l, 1) <= keys);
	assert_true(l.decoding * l.chunk == 0 && l.decoding + l.chunk > 0);
	assert_true(l.before == floor(l.before) && l.before >= 0 &&
		    l.keys == floor(l.keys));
}

static void
test_full(void **state)
{
	double tokens, keys;

	(void)state;
	for (tokens = 1; tokens < 3000; tokens += 7) {
		for (keys = 128; keys < 9000; keys *= 2) {
			check_full(PROMPT, tokens, keys);
			check_full(1, tokens, keys);
			check_full(3, tokens, keys);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpu),
		cmocka_unit_test(test_gpu),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_full)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
