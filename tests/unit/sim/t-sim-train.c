/*
 * Example models in training, split over data-parallel ranks and
 * microbatches, against the same models on one rank: losses, gradients,
 * weights and optimizer states of several steps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "frontend/frontend.h"
#include "ir/train/step_numbers.h"
#include "passes/pass.h"
#include "tests/unit/sim/t-sim.h"
#include "tests/unit/shared/t-type.h"

#define STEPS 3

/* ---- on one rank ---- */

/* A tensor that lasts. */
struct cell {
	const char *name;
	double *now, *next, *gradient;
	int64_t elems;
};

/* What a step on one rank came to. */
struct past {
	double loss;
	struct cell *cells;
	uint32_t n;
};

static struct {
	VEC(struct cell) cells;
	struct past past[STEPS];
	double step;
} one;

static struct cell *
cell(const char *name, int64_t elems)
{
	struct cell c = { .elems = elems };
	uint32_t i;

	for (i = 0; i < one.cells.n; i++) {
		if (strcmp(one.cells.at[i].name, name) == 0) {
			return &one.cells.at[i];
		}
	}
	c.name = arena_strndup(&t.c.perm, name, strlen(name));
	VEC_PUSH(&t.c.perm, &one.cells, c);
	return &one.cells.at[i];
}

static bool
has(void *user, enum ir_op op, const char *name)
{
	(void)user;
	return op == IR_GRADIENT || cell(name, 0)->now;
}

static bool
get(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, double *out, struct span at)
{
	const struct cell *c = cell(name, elems);
	const double *from = op == IR_GRADIENT ? c->gradient : c->now;

	(void)user;
	(void)type;
	(void)at;
	memcpy(out, from, (size_t)elems * sizeof *out);
	return true;
}

static bool
put(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, const double *data, struct span at)
{
	struct cell *c = cell(name, elems);
	bool adds = op == IR_ACCUMULATE;
	double **to = adds ? &c->gradient : &c->next;
	int64_t i;

	(void)user;
	(void)type;
	(void)at;
	c->elems = elems;
	if (!*to) {
		*to = arena_alloc(&t.c.perm, (size_t)elems * sizeof **to);
	}
	for (i = 0; i < elems; i++) {
		(*to)[i] = adds ? (*to)[i] + data[i] : data[i];
	}
	return true;
}

static bool
input(void *user, const char *name, const struct ir_type *type,
      int64_t elems, double *out)
{
	(void)user;
	(void)type;
	return elems == 1 && ir_training_input(t.m, name, one.step, out);
}

static void
run_alone(void)
{
	struct ir_weights w = { get, put, has, input, NULL };
	struct ir_eval_options opt = { .seed = SEED, .weights = &w };
	func_id update = ir_func_find(t.m, intern_str(&t.c.syms, "update"));
	struct ir_eval_result r[4];
	uint32_t n, i, k;

	memset(&one, 0, sizeof one);
	for (k = 0; k < STEPS; k++) {
		one.step = k + 1;
		opt.func = 0;
		assert_true(ir_eval(t.m, &opt, r, 4, &n));
		one.past[k].loss = r[0].data[0];
		opt.func = update;
		assert_true(ir_eval(t.m, &opt, r, 4, &n));
		one.past[k].n = one.cells.n;
		one.past[k].cells = arena_dup(&t.c.perm, one.cells.at,
			one.cells.n * sizeof *one.cells.at);
		for (i = 0; i < one.cells.n; i++) {
			struct cell *c = &one.cells.at[i];

			c->now = c->next ? c->next : c->now;
			c->next = c->gradient = NULL;
		}
	}
}

/* ---- placing: data in pieces, all else follows ---- */

static dim_id batch;

static void
split_batch(struct ir_type *type)
{
	struct ir_along s = { IR_IS_SPLIT, batch };
	axis_id a;

	for (a = 1; a < t.m->axes.n && ir_type_has(type, batch); a++) {
		ir_set_along(type, a, s);
	}
}

/* What the operands allow; split data if it may be that. */
static void
place_along(const struct ir_node *n, axis_id a)
{
	struct ir_way ways[IR_MAX_WAYS], *best = NULL;
	struct ir_type *out = own_type(t.m, n->result);
	uint32_t i, k, count = ir_ways(t.m, n, a, ways);

	for (i = 0; i < count; i++) {
		bool fits = !ways[i].colls;

		for (k = 0; k < n->nargs; k++) {
			fits &= ir_along_equal(ways[i].in[k], ir_along(
				ir_type(t.m, ir_args(t.m, n)[k]), a));
		}
		if (fits && (!best || (ways[i].out.how == IR_IS_SPLIT &&
				       ways[i].out.dim == batch))) {
			best = &ways[i];
		}
	}
	if (!best) {
		fail_msg("%s cannot be placed", ir_ops[n->op].name);
	}
	ir_set_along(out, a, best->out);
}

/* A value is saved under a name above where it is taken. */
static void
place_saved(struct ir_node *n)
{
	sym_t name = ir_attr(t.m, n, IR_ATTR_NAME)->text;
	node_id i;

	for (i = 1; i < t.m->nodes.n; i++) {
		const struct ir_node *o = ir_node(t.m, i);

		if (o->op == IR_SAVE &&
		    ir_attr(t.m, o, IR_ATTR_NAME)->text == name) {
			t.m->values.at[n->result].type =
				t.m->values.at[ir_args(t.m, o)[0]].type;
		}
	}
}

static void place_region(region_id id);

static void
place_repeat(const struct ir_node *n)
{
	const struct ir_region *r = &t.m->regions.at[n->region];
	struct ir_value *v = t.m->values.at;
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		v[r->params.at[i]].type = v[ir_args(t.m, n)[i]].type;
	}
	place_region(n->region);
	for (i = 0; i < n->nresults; i++) {
		v[n->result + i].type = v[r->results.at[i]].type;
	}
}

static void
place_region(region_id id)
{
	const struct ir_region *r = &t.m->regions.at[id];
	uint32_t i;
	axis_id a;

	for (i = 0; i < r->nodes.n; i++) {
		struct ir_node *n = &t.m->nodes.at[r->nodes.at[i]];

		if (n->op == IR_REPEAT) {
			place_repeat(n);
		} else if (n->op == IR_INPUT) {
			split_batch(own_type(t.m, n->result));
		} else if (n->op == IR_SAVED) {
			place_saved(n);
		} else if (!ir_is(n->op, IRF_SOURCE | IRF_SINK)) {
			for (a = 1; a < t.m->axes.n; a++) {
				place_along(n, a);
			}
		}
	}
}

/* A gradient is a part of a sum over the ranks: it is reduced first. */
static void
reduce_gradients(region_id id, axis_id dp, value_id *map)
{
	struct ir_region *r = &t.m->regions.at[id];
	uint32_t i, n = r->nodes.n;
	node_id *old = r->nodes.at;
	const char *why = "";

	r->nodes.at = NULL;
	r->nodes.n = r->nodes.cap = 0;
	for (i = 0; i < n; i++) {
		const struct ir_node *node = ir_node(t.m, old[i]);
		struct ir_along part = { IR_IS_PART, 0 };
		value_id v = node->result;
		struct ir_new reduce;
		struct ir_attr *on;

		VEC_PUSH(&t.c.perm, &t.m->regions.at[id].nodes, old[i]);
		if (node->op == IR_REPEAT) {
			reduce_gradients(node->region, dp, map);
		}
		if (node->op != IR_GRADIENT) {
			continue;
		}
		ir_new_init(&reduce, IR_ALL_REDUCE, node->span);
		ir_new_arg(&reduce, v);
		on = ir_new_attr(&reduce, IR_ATTR_ON);
		on->ndims = 1;
		on->dims[0] = dp;
		map[v] = ir_append(t.m, id, &reduce, &why);
		if (!map[v]) {
			fail_msg("%s", why);
		}
		t.m->values.at[map[v]].type = t.m->values.at[v].type;
		ir_set_along(own_type(t.m, v), dp, part);
	}
}

static void
stage(int64_t mb, int64_t dp, bool balanced)
{
	struct span nowhere = { 0, 0 };
	func_id model = ir_model(t.m), update;
	value_id *map, v;
	axis_id a;

	update = ir_func_find(t.m, intern_str(&t.c.syms, "update"));
	batch = ir_dim_find(t.m, intern_str(&t.c.syms, "batch"));
	a = ir_axis_add(t.m, intern_str(&t.c.syms, "mb"), mb, nowhere);
	t.m->axes.at[a].time = true;
	a = ir_axis_add(t.m, intern_str(&t.c.syms, "dp"), dp, nowhere);
	t.m->axes.at[a].balanced = balanced;
	t.m->funcs.at[model].is_model = false;
	t.m->funcs.at[model].name = intern_str(&t.c.syms, "stage0_forward");
	t.m->funcs.at[update].name = intern_str(&t.c.syms, "pipe0_update");
	place_region(t.m->funcs.at[model].body);
	map = arena_alloc(&t.c.perm, 2 * t.m->values.n * sizeof *map);
	reduce_gradients(t.m->funcs.at[update].body, a, map);
	ir_replace_uses(t.m, map);
	for (v = 1; v < t.m->values.n; v++) {
		if (map[v]) {
			const struct ir_node *n = ir_node(t.m,
				t.m->values.at[map[v]].node);

			ir_args(t.m, n)[0] = v;
		}
	}
	if (!ir_verify(t.m)) {
		fail_msg("%s", messages());
	}
}

/* ---- both ---- */

static void
close_to(const char *name, const double *got, const double *want, int64_t n)
{
	int64_t i;

	for (i = 0; i < n; i++) {
		if (!(fabs(got[i] - want[i]) <= 1e-11)) {
			fail_msg("%s[%d]: %.17g, and %.17g is expected", name,
				 (int)i, got[i], want[i]);
		}
	}
}

static bool
as_alone(void *user, const struct sim_result *r)
{
	const struct past *p = &one.past[r->step - 1];
	uint32_t i, gradients = 0, stored = 0;

	(void)user;
	close_to("loss", r->results[0].data, &p->loss, 1);
	for (i = 0; i < p->n; i++) {
		const struct cell *c = &p->cells[i];
		const struct sim_tensor *s;

		if (c->gradient) {
			s = sim_gradient(r, c->name);
			assert_non_null(s);
			assert_int_equal(s->elems, c->elems);
			close_to(c->name, s->data, c->gradient, c->elems);
			gradients++;
		}
		if (c->next) {
			s = sim_stored(r, c->name);
			assert_non_null(s);
			assert_int_equal(s->elems, c->elems);
			close_to(c->name, s->data, c->next, c->elems);
			stored++;
		}
	}
	assert_int_equal(r->gradients.n, gradients);
	assert_int_equal(r->stored.n, stored);
	assert_true(gradients > 0 && stored > gradients);
	return true;
}

static void
compile(const char *name)
{
	const char *top = getenv("top_srcdir"), *why;
	uint32_t file;

	memset(&t, 0, sizeof t);
	ir_ctx_init(&t.c, NULL);
	assert_true(source_read(&t.c.sources, arena_printf(&t.c.perm,
			"%s/examples/%s", top ? top : ".", name), &file,
			&why));
	t.m = fe_compile(&t.c, file);
	assert_non_null(t.m);
	assert_int_equal(pass_apply(t.m, "train", false), PASS_OK);
}

static void
train(const char *name, uint32_t mb, uint32_t dp, bool balanced)
{
	compile(name);
	run_alone();
	stage(mb, dp, balanced);
	t.o.seed = SEED;
	t.o.steps = STEPS;
	t.o.after = as_alone;
	must_run(forwards(mb));
	close_text();
}

static void
test_dense(void **state)
{
	(void)state;
	train("tiny-dense.llm", 2, 2, false);
	train("tiny-dense.llm", 3, 3, false);
}

static void
test_experts(void **state)
{
	(void)state;
	train("tiny-moe.llm", 1, 4, false);
	train("tiny-moe.llm", 3, 2, true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dense),
		cmocka_unit_test(test_experts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
