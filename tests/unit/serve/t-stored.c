/*
 * The account of weights of a program that serves is the bytes of the weights
 * and scales that the program has: of models drawn at random, in each format
 * and split over ranks.  In a third of them keys and values are of latents, of
 * one weight or of a weight each, which `absorb` contracts over other dims than
 * the model does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "passes/serve/serve.h"
#include "tests/unit/shared/t-cases.h"
#include "tests/unit/shared/t-split.h"

#define MODELS 60

static const struct serve_format formats[] = {
	{ NULL, 0, 0 }, { "int8", 1, 1 }, { "f8e4m3", 1, 0 },
	{ "int4", 0.5 + 2 / 128.0, 1 }
};

/* Models and formats that were compared; those where some matrix of a layer has
 * groups, and those where some has not; those of latents, of two weights. */
struct counts {
	uint32_t same, grouped, wide, latent, apart;
};

/* ---- the models ---- */

static struct pair
drawn(uint64_t seed)
{
	struct pair p = random_pair(seed);
	int *n = p.n;

	n[NR_TP] = 1 << (seed / 5 % 3);
	/* rows of whole groups in most models */
	if (seed % 4) {
		n[NR_HIDDEN] = 64;
		n[NR_FFN] = 128 * (1 + (int)(seed % 3));
		n[NR_HD] = seed % 2 ? 32 : 16;
	}
	n[NR_CAUSAL] = 1;
	n[NR_DROP] = n[NR_WINDOW] = 0;
	n[NR_LATENT] = seed % 3 == 0;
	n[NR_BIAS] = n[NR_LATENT] ? 0 : n[NR_BIAS];
	/* ranks that share evenly, and dims that they can */
	n[NR_KV] = n[NR_GROUPS] = 2;
	n[NR_VOCAB] = 16;
	n[NR_FFN] = n[NR_FFN] % 4 ? 8 : n[NR_FFN];
	n[NR_EP] = n[NR_EXPERTS] > 1 && seed % 2 ? 2 : 1;
	n[NR_EXPERTS] = n[NR_EXPERTS] > 1 ? 4 : 0;
	n[NR_TOP] = n[NR_EXPERTS] ? 2 : 0;
	n[NR_FIRST] = n[NR_EXPERTS] ? n[NR_FIRST] : 0;
	return p;
}

/* Keys and values have a weight each in place of one for both. */
static const char *
part_weights(struct arena *a, const char *text)
{
	static const char both[] = "kn, v = split(linear(l -> heads, kvo) @ "
		"\"kvb\", kvo -> nope, vd);";
	const char *at = strstr(text, both);

	return !at ? text : arena_printf(a, "%.*skn = linear(l -> heads, nope) "
		"@ \"kb\"; v = linear(l -> heads, vd) @ \"vb\";%s",
		(int)(at - text), text, at + strlen(both));
}

static struct ir_module *
compile(struct ir_ctx *c, const struct pair *p, bool apart)
{
	const char *text = model_text(&c->perm, p);
	uint32_t base;

	text = apart ? part_weights(&c->perm, text) : text;
	assert_true(source_add(&c->sources, "model", text, strlen(text),
			       &base));
	return fe_compile(c, c->sources.files.n - 1);
}

/* ---- both figures ---- */

/* Asks for weights in the format. */
static void
set_format(struct ir_module *m, const struct serve_format *f)
{
	struct ir_setting s = { .kind = SET_WORD };

	if (f->name) {
		s.key = intern_str(&m->ctx->syms, "serve.weights");
		s.text = intern_str(&m->ctx->syms, f->name);
		VEC_PUSH(&m->ctx->perm, &m->settings, s);
	}
}

static double
accounted(struct ir_module *m, const struct pair *p,
	  const struct serve_format *f)
{
	struct serve_asked q = { .prompt = 1, .output = 1, .context = 2,
				 .weights = f->name ? f : NULL };
	struct serve_split split = { .tp = p->n[NR_TP], .ep = p->n[NR_EP],
				     .is_shared = true };
	struct cost_load load = serve_load_of(&q, 1, 0);
	struct serve_program program;
	struct serve_memory memory;
	struct serve_model model;
	struct target t;

	set_format(m, f);
	assert_true(serve_open(m, NULL, true, &model));
	assert_true(fe_target(m->ctx, "h100x8", &t));
	serve_program(&model, &t, &split, &m->ctx->perm, &program);
	assert_null(program.why);
	serve_memory(&program, &t, &q, &load, &memory);
	return memory.weights;
}

/* Of the weights and scales of a region of the program, each once. */
static double
region_bytes(const struct ir_module *m, region_id id, struct counts *n)
{
	const struct ir_region *r = &m->regions.at[id];
	double bytes = 0;
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *x = ir_node(m, r->nodes.at[i]);

		if (x->region) {
			bytes += (double)ir_attr_int(m, x, IR_ATTR_COUNT, 1) *
				 region_bytes(m, x->region, n);
		} else if (ir_is(x->op, IRF_LOADED)) {
			const struct ir_type *t = ir_type(m, x->result);

			bytes += ir_most_elems(m, t) *
				 ir_elem_bytes((enum ir_dtype)t->dtype);
			n->grouped += t->dtype == IR_INT4;
			n->wide += t->dtype == IR_INT8;
		}
	}
	return bytes;
}

static void
set(struct ir_module *m, const char *key, double v)
{
	struct ir_setting s = { .kind = SET_NUM, .n = 1, .num = { v } };

	s.key = intern_str(&m->ctx->syms, key);
	VEC_PUSH(&m->ctx->perm, &m->settings, s);
}

static double
in_program(struct ir_module *m, const struct pair *p,
	   const struct serve_format *f, struct counts *n)
{
	static const char *const sizes[] = {
		"program.serves", "serve.tokens", "serve.rows", "serve.keys",
		"serve.slots"
	};
	size_t i;

	for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		set(m, sizes[i], i ? 16 : 1);
	}
	set_format(m, f);
	assert_true(plan_pin(m, arena_printf(&m->ctx->perm, "tp=%d,ep=%d",
					     p->n[NR_TP], p->n[NR_EP])));
	assert_int_equal(pass_apply(m, "fold-dims,inline,absorb,ragged,"
			 "quantise,cse,dce,place", true), PASS_OK);
	return region_bytes(m, m->funcs.at[ir_model(m)].body, n);
}

static void
compare(uint64_t seed, const struct serve_format *f, struct counts *n)
{
	struct counts has = { 0 };
	struct pair p = drawn(seed);
	bool apart = p.n[NR_LATENT] && seed % 2;
	double account, program;
	struct ir_ctx c;

	ir_ctx_init(&c, NULL);
	account = accounted(compile(&c, &p, apart), &p, f);
	program = in_program(compile(&c, &p, apart), &p, f, &has);
	if (account != program) {
		fprintf(stderr, "%s", model_text(&c.perm, &p));
		fail_msg("seed %llu: tp=%d ep=%d %s: %.0f bytes, and the "
			 "program has %.0f", (unsigned long long)seed,
			 p.n[NR_TP], p.n[NR_EP], f->name ? f->name : "",
			 account, program);
	}
	n->same++;
	n->grouped += has.grouped > 0;
	n->wide += has.grouped > 0 && has.wide > 0;
	n->latent += p.n[NR_LATENT];
	n->apart += apart;
	ir_ctx_release(&c);
}

static void
test_account(void **state)
{
	uint64_t seed, models = t_some(MODELS, 4 * MODELS);
	size_t nformats = sizeof formats / sizeof *formats, i;
	struct counts n = { 0 };

	(void)state;
	for (seed = 1; seed <= models; seed++) {
		for (i = 0; i < nformats; i++) {
			compare(seed, &formats[i], &n);
		}
	}
	printf("%u programs as accounted, %u with groups, of these %u with "
	       "matrices in 8 bits, %u of latents, %u of two weights each\n",
	       n.same, n.grouped, n.wide, n.latent, n.apart);
	assert_true(n.grouped > 0 && n.wide > 0 && n.apart > 0 &&
		    n.latent > n.apart);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_account) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
