/*
 * Training passes over random sound modules: whatever a module holds, they
 * end in a sound module or in an error of the input, never in an abort.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "passes/pass.h"
#include "tests/unit/shared/t-ir.h"

#define MODULES 1500

/* Weights for inputs of numbers; no sinks, which only passes make. */
static void
make_trainable(struct ir_module *m)
{
	region_id r;
	uint32_t i, kept;

	for (r = 1; r < m->regions.n; r++) {
		struct ir_region *region = &m->regions.at[r];

		for (i = kept = 0; i < region->nodes.n; i++) {
			struct ir_node *n = &m->nodes.at[region->nodes.at[i]];

			if (ir_is(n->op, IRF_SINK)) {
				continue;
			}
			if (n->op == IR_INPUT && ir_dtypes[ir_type(m,
			    n->result)->dtype].is_float) {
				n->op = IR_WEIGHT;
			}
			region->nodes.at[kept++] = region->nodes.at[i];
		}
		region->nodes.n = kept;
	}
}

/* The loss: the sum of all elements of all results that are numbers. */
static void
make_loss(struct ir_module *m)
{
	struct ir_func *f = &m->funcs.at[ir_model(m)];
	struct ir_region *body = &m->regions.at[f->body];
	value_id loss = 0, v[IR_MAX_ARGS];
	uint32_t n = body->results.n, i;
	const char *why;

	memcpy(v, body->results.at, n * sizeof *v);
	for (i = 0; i < n; i++) {
		struct ir_type t = *ir_type(m, v[i]);
		struct ir_new node;
		uint8_t k;

		if (!ir_dtypes[t.dtype].is_float) {
			continue;
		}
		ir_new_init(&node, IR_SUM, nowhere);
		ir_new_arg(&node, v[i]);
		ir_new_attr(&node, IR_ATTR_OVER);
		for (k = 0; k < t.ndims; k++) {
			ir_new_dim(&node, IR_ATTR_OVER, t.dims[k]);
		}
		loss = ir_append(m, f->body, &node, &why);
	}
	body = &m->regions.at[f->body];
	if (loss) {
		body->results.at[0] = loss;
		body->results.n = 1;
	}
}

static void
set_clip(struct ir_ctx *c, struct ir_module *m)
{
	struct ir_setting s = { .kind = SET_NUM, .n = 1, .num = { 1 } };

	s.key = intern_str(&c->syms, "train.clip");
	if (!ir_setting(m, "train.clip")) {
		VEC_PUSH(&c->perm, &m->settings, s);
	}
}

static void
set_optimizer(struct ir_ctx *c, struct ir_module *m)
{
	struct ir_setting s = { .kind = SET_WORD };

	if (ir_setting(m, "train.optimizer")) {
		return;
	}
	s.key = intern_str(&c->syms, "train.optimizer");
	s.text = intern_str(&c->syms, "adamw");
	VEC_PUSH(&c->perm, &m->settings, s);
}

static void
test_random(void **state)
{
	uint32_t made[IR_OP_COUNT] = { 0 }, trained = 0;
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= MODULES; seed++) {
		struct pass_table table;
		struct pass_list list = { 0 };
		struct pass_manager pm;
		struct ir_module *m;
		struct ir_ctx c;

		ir_ctx_init(&c, NULL);
		m = make_module(&c, seed, made);
		make_trainable(m);
		make_loss(m);
		set_optimizer(&c, m);
		if (seed % 2) {
			set_clip(&c, m);
		}
		pass_table_init(&table, &c);
		pass_manager_init(&pm, &table);
		pm.options.verify = true;
		pm.options.reproducer = "t-train-random.ir.tmp";
		assert_true(pass_list_parse(&table, &list, "train"));
		trained += pass_run(&pm, &list, m) == PASS_OK;
		pass_manager_release(&pm);
		pass_table_release(&table);
		ir_ctx_release(&c);
	}
	/* most are fit to train: the rest has ops without derivative */
	print_message("%u of %d trained\n", trained, MODULES);
	assert_true(trained > MODULES / 4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random) };

	return cmocka_run_group_tests_name("train-random", tests, NULL, NULL);
}
