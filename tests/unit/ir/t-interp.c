/*
 * The reference interpreter's walk: names, where tensors come from, layers,
 * repeats, limits, and running out of memory at every request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/shared/t-eval.h"
#include "tests/unit/shared/t-scarce.h"

/* ---- where tensors come from ---- */

static void
test_tokens(void **state)
{
	dim_id b, s, v;
	value_id x, y;

	(void)state;
	open_module();
	b = dim("b", 3);
	s = dim("s", 5);
	v = dim("v", 11);
	x = source("tokens", v, false, DIMS(b, s));
	y = source("labels", v, false, DIMS(b, s));
	(void)y;
	must_eval(x);
	EACH(b) EACH(s) {
		uint64_t key = ir_rng_key("tokens", 7);
		uint64_t i = (uint64_t)(t.ix[b] * 6 + t.ix[s]);

		near(at("tokens"), (double)ir_rng_below(key, i, 11));
		near(at("labels"), (double)ir_rng_below(key, i + 1, 11));
	}
	close_module();
}

static void
test_init(void **state)
{
	static const char *const how[] = { "normal", "ones", "zeros" };
	uint64_t key;
	dim_id a;
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		open_module();
		a = dim("a", 6);
		begin(i ? IR_STATE : IR_WEIGHT, "w");
		ir_new_text(&t.n, IR_ATTR_NAME, sym("x.{y}.{"));
		ir_new_text(&t.n, IR_ATTR_INIT, sym(how[i]));
		ir_new_num(&t.n, IR_ATTR_STD, 0.5);
		t.n.types[0] = make_type(IR_BF16, 0, DIMS(a));
		must_eval(done());
		key = ir_rng_key("x.{y}.{", 7);
		EACH(a) {
			near(at("w"), i == 1 ? 1 : i == 2 ? 0 : 0.5 *
			     ir_rng_normal(key, (uint64_t)t.ix[a]));
		}
		close_module();
	}
	open_module();
	begin(IR_WEIGHT, "w");
	ir_new_text(&t.n, IR_ATTR_NAME, sym("x"));
	ir_new_text(&t.n, IR_ATTR_INIT, sym("twos"));
	must_fail(done(), "`x` starts as `twos`");
	close_module();
}

/* 1 where the generator keeps; each iteration draws under a name of its own. */
static void
test_masks(void **state)
{
	uint64_t key[2];
	dim_id a, b;
	int i, differ = 0;

	(void)state;
	open_module();
	a = dim("a", 4);
	b = dim("b", 25);
	for (i = 0; i < 2; i++) {
		begin(IR_DROPOUT_MASK, i ? "n" : "m");
		ir_new_text(&t.n, IR_ATTR_NAME, sym(i ? "h.1" : "h.0"));
		ir_new_num(&t.n, IR_ATTR_RATE, 0.25);
		t.n.types[0] = make_type(IR_F8E4M3, 0, DIMS(a, b));
		key[i] = ir_rng_key(i ? "h.1" : "h.0", 7);
		must_eval(done());
	}
	EACH(a) EACH(b) {
		uint64_t k = (uint64_t)(t.ix[a] * 25 + t.ix[b]);

		near(at("m"), ir_rng_keeps(key[0], 0, k, 0.25));
		near(at("n"), ir_rng_keeps(key[1], 0, k, 0.25));
		differ += at("m") != at("n");
	}
	assert_true(differ > 0);
	close_module();
}

/* Names asked for, in order; the elements are this count and up. */
struct asked {
	char text[512];
	int64_t n;
};

static bool
ask(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, double *out, struct span span)
{
	struct asked *a = user;
	int64_t i;

	(void)op;
	(void)span;
	assert_true(strlen(a->text) + strlen(name) + 2 < sizeof a->text);
	strcat(strcat(a->text, name), type->ndims == 1 ? "! " : " ");
	for (i = 0; i < elems; i++) {
		out[i] = (double)a->n++;
	}
	return strcmp(name, "none") != 0;
}

/* An expert's tensor has the same elements stacked and alone. */
static void
test_stacked(void **state)
{
	struct asked asked = { "", 0 };
	struct ir_weights from = { .get = ask, .user = &asked };
	dim_id a, e;
	value_id w;

	(void)state;
	open_module();
	a = dim("a", 3);
	e = dim("e", 2);
	weight("x.1.y", DIMS(a));
	begin(IR_WEIGHT, "stack");
	ir_new_text(&t.n, IR_ATTR_NAME, sym("x.{e}.y"));
	t.n.types[0] = make_type(IR_F32, 0, DIMS(e, a));
	w = done();
	must_eval(w);
	EACH(a) {
		t.ix[e] = 1;
		near(at("w"), at("stack"));
	}
	t.opt.weights = &from;
	assert_true(ir_eval(t.m, &t.opt, t.res, 4, &t.nres));
	assert_string_equal(asked.text, "x.1.y! x.0.y! x.1.y! ");
	EACH(e) EACH(a) {
		near(at("stack"), (double)(3 + 3 * t.ix[e] + t.ix[a]));
	}
	w = weight("x.{e}.y", DIMS(a, e));
	must_fail(w, "which is not the outermost dim of f32[a, e]");
	close_module();
}

/* Two dims in one name: the outer one counts slower. */
static void
test_stacked_twice(void **state)
{
	struct asked asked = { "", 0 };
	struct ir_weights from = { .get = ask, .user = &asked };
	dim_id a, e, f;

	(void)state;
	open_module();
	a = dim("a", 2);
	e = dim("e", 2);
	f = dim("f", 3);
	t.opt.weights = &from;
	must_eval(weight("{f}{e}", DIMS(e, f, a)));
	assert_string_equal(asked.text, "00! 10! 20! 01! 11! 21! ");
	close_module();
}

static void
test_weights_missing(void **state)
{
	struct asked asked = { "", 0 };
	struct ir_weights from = { .get = ask, .user = &asked };
	dim_id a;

	(void)state;
	open_module();
	a = dim("a", 3);
	t.opt.weights = &from;
	assert_false(eval(weight("none", DIMS(a))));
	close_module();
}

/* ---- layers and repeats ---- */

/* repeat `count` from `first` as `var`: the body is t.r until the end. */
struct loop {
	region_id outer, body;
	value_id param;
	struct ir_new n;
};

static value_id
loop_begin(struct loop *l, value_id x, const char *name, const char *var,
	   int64_t first, int64_t count)
{
	begin(IR_REPEAT, NULL);
	args(x, 0, 0);
	ir_new_int(&t.n, IR_ATTR_COUNT, count);
	ir_new_int(&t.n, IR_ATTR_START, first);
	ir_new_text(&t.n, IR_ATTR_VAR, sym(var));
	if (name) {
		ir_new_text(&t.n, IR_ATTR_NAME, sym(name));
	}
	l->n = t.n;
	l->outer = t.r;
	t.r = l->body = ir_region_add(t.m, 0);
	return ir_param_add(t.m, t.r, ir_type(t.m, x), sym("p"));
}

static value_id
loop_end(struct loop *l, value_id x)
{
	VEC_PUSH(&t.c.perm, &t.m->regions.at[l->body].results, x);
	t.r = l->outer;
	t.n = l->n;
	t.n.region = l->body;
	t.n.types[0] = *ir_type(t.m, x);
	return done();
}

/* x * w + w */
static value_id
layer_body(value_id x, const char *name, dim_id a)
{
	value_id w = weight(name, DIMS(a));

	begin(IR_MUL, NULL);
	args(x, w, 0);
	x = done();
	begin(IR_ADD, "y");
	args(w, x, 0);
	return done();
}

/* model(x): repeat 3 from 2 as i: x = layer(x); called, or written out. */
static uint64_t
layers(bool called, struct asked *asked)
{
	struct ir_weights from = { .get = ask, .user = asked };
	region_id model = t.r;
	struct loop l;
	value_id x, p;
	uint64_t sum;
	dim_id a;
	func_id f;

	a = dim("a", 4);
	x = source("x", 0, false, DIMS(a));
	p = loop_begin(&l, x, NULL, "i", 2, 3);
	if (called) {
		model = t.r;
		f = ir_func_add(t.m, sym("layer"), false,
				(struct span){ 0, 0 });
		t.r = t.m->funcs.at[f].body;
		x = ir_param_add(t.m, t.r, ir_type(t.m, p), sym("x"));
		x = layer_body(x, "attn.{i}.w", a);
		VEC_PUSH(&t.c.perm, &t.m->regions.at[t.r].results, x);
		t.r = model;
		begin(IR_CALL, NULL);
		args(p, 0, 0);
		t.n.callee = f;
		t.n.types[0] = *ir_type(t.m, p);
		ir_new_text(&t.n, IR_ATTR_NAME, sym("model.layers.{i}"));
		p = done();
	} else {
		p = layer_body(p, "model.layers.{i}.attn.{i}.w", a);
	}
	x = loop_end(&l, p);
	must_eval(x);
	EACH(a) {
		double v = at("x");
		int i;

		for (i = 2; i < 5; i++) {
			char name[64];
			double w;

			snprintf(name, sizeof name,
				 "model.layers.%d.attn.%d.w", i, i);
			w = 0.02 * ir_rng_normal(ir_rng_key(name, 7),
						 (uint64_t)t.ix[a]);
			v = v * w + w;
		}
		near(t.res[0].data[t.ix[a]], v);
	}
	find(called ? "repeat[4]/layer/y" : "repeat[4]/y");
	find("repeat[2]/p");
	find("result[0]");
	sum = ir_checksum(t.res[0].data, t.res[0].elems);
	t.opt.weights = &from;
	assert_true(ir_eval(t.m, &t.opt, t.res, 4, &t.nres));
	return sum;
}

static void
test_calls_are_inlining(void **state)
{
	struct asked one = { "", 0 }, two = { "", 0 };
	uint64_t sum;

	(void)state;
	open_module();
	sum = layers(true, &one);
	close_module();
	open_module();
	assert_true(layers(false, &two) == sum);
	close_module();
	assert_string_equal(one.text, two.text);
}

/* A loop in a loop, of which the inner one uses a value of the outer one. */
static void
test_nested(void **state)
{
	struct asked asked = { "", 0 };
	struct ir_weights from = { .get = ask, .user = &asked };
	struct loop outer, inner;
	value_id x, v, p, q;
	dim_id a;

	(void)state;
	open_module();
	t.opt.weights = &from;
	a = dim("a", 2);
	x = source("x", 0, false, DIMS(a));
	p = loop_begin(&outer, x, "h.{i}", "i", 0, 2);
	v = weight("v", DIMS(a));
	q = loop_begin(&inner, p, NULL, "j", 5, 2);
	x = weight("{j}.{i}.w", DIMS(a));
	begin(IR_ADD, NULL);
	args(q, x, 0);
	q = done();
	begin(IR_ADD, NULL);
	args(q, v, 0);
	p = loop_end(&inner, done());
	p = loop_end(&outer, p);
	must_eval(p);
	assert_string_equal(asked.text, "h.0.v! h.0.5.0.w! h.0.6.0.w! "
					"h.1.v! h.1.5.1.w! h.1.6.1.w! ");
	EACH(a) {
		/* v 0 twice, w 2, w 4, v 6 twice, w 8, w 10 */
		near(t.res[0].data[t.ix[a]],
		     at("x") + 36 + 8 * (double)t.ix[a]);
	}
	close_module();
}

/* The innermost variable of a name counts, and it hides a dim. */
static void
test_shadowed(void **state)
{
	struct asked asked = { "", 0 };
	struct ir_weights from = { .get = ask, .user = &asked };
	struct loop outer, inner;
	value_id p;
	dim_id a;

	(void)state;
	open_module();
	t.opt.weights = &from;
	a = dim("a", 2);
	p = source("x", 0, false, DIMS(a));
	p = loop_begin(&outer, p, NULL, "a", 3, 1);
	p = loop_begin(&inner, p, NULL, "a", 5, 1);
	p = loop_end(&inner, weight("{a}.w", DIMS(a)));
	p = loop_end(&outer, p);
	must_eval(p);
	assert_string_equal(asked.text, "5.w! ");
	close_module();
}

/* What a body hands back may be from outside, and be wanted afterwards. */
static void
test_result_from_outside(void **state)
{
	struct loop l;
	value_id x, p;
	dim_id a;

	(void)state;
	open_module();
	a = dim("a", 2);
	x = source("x", 0, false, DIMS(a));
	loop_begin(&l, x, NULL, "i", 0, 2);
	p = loop_end(&l, x);
	begin(IR_ADD, NULL);
	args(p, x, 0);
	must_eval(done());
	EACH(a) {
		near(t.res[0].data[t.ix[a]], 2 * at("x"));
	}
	close_module();
}

/* A repeat that hands a value through, swaps two, or never runs. */
static void
test_carried(void **state)
{
	value_id x, y, p, q;
	struct loop l;
	region_id model;
	dim_id a;
	int i;

	(void)state;
	for (i = 0; i < 4; i++) {
		open_module();
		a = dim("a", 2);
		x = source("x", 0, false, DIMS(a));
		y = source("y", 0, false, DIMS(a));
		p = loop_begin(&l, x, NULL, "i", 0, i);
		q = ir_param_add(t.m, t.r, ir_type(t.m, y), 0);
		VEC_PUSH(&t.c.perm, &t.m->regions.at[t.r].results, q);
		ir_new_arg(&l.n, y);
		l.n.nresults = 2;
		l.n.types[1] = *ir_type(t.m, y);
		p = loop_end(&l, p);
		model = t.m->funcs.at[ir_model(t.m)].body;
		VEC_PUSH(&t.c.perm, &t.m->regions.at[model].results, p);
		must_eval(p + 1);
		assert_int_equal(t.nres, 2);
		EACH(a) {
			near(t.res[i & 1].data[t.ix[a]], at("x"));
			near(t.res[!(i & 1)].data[t.ix[a]], at("y"));
		}
		close_module();
	}
}

/* Depth is of calls that are open, not of calls made. */
static void
test_many_calls(void **state)
{
	region_id body;
	struct loop l;
	value_id p;
	func_id f;
	dim_id a;

	(void)state;
	open_module();
	t.opt.seen = NULL;
	a = dim("a", 2);
	p = source("x", 0, false, DIMS(a));
	f = ir_func_add(t.m, sym("f"), false, (struct span){ 0, 0 });
	body = t.m->funcs.at[f].body;
	VEC_PUSH(&t.c.perm, &t.m->regions.at[body].results,
		 ir_param_add(t.m, body, ir_type(t.m, p), 0));
	p = loop_begin(&l, p, NULL, "i", 0, 2 * IR_MAX_DEPTH);
	begin(IR_CALL, NULL);
	args(p, 0, 0);
	t.n.callee = f;
	t.n.types[0] = *ir_type(t.m, p);
	must_eval(loop_end(&l, done()));
	close_module();
}

static void
test_calls_too_deep(void **state)
{
	value_id x;
	func_id f;

	(void)state;
	open_module();
	f = ir_func_add(t.m, sym("f"), false, (struct span){ 0, 0 });
	begin(IR_CALL, NULL);
	t.n.callee = f;
	x = done();
	t.r = t.m->funcs.at[f].body;
	done();
	must_fail(x, "more than 200 deep");
	close_module();
}

/* ---- limits and failure ---- */

static void
test_max_bytes(void **state)
{
	value_id x;
	dim_id a;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		open_module();
		a = dim("a", 125);
		x = source("x", 0, false, DIMS(a));
		begin(IR_EXP, NULL);
		args(x, 0, 0);
		x = done();
		begin(IR_NEG, NULL);	/* x is dead, exp x is not */
		args(x, 0, 0);
		x = done();
		/* two values at a time, or the result and its copy */
		t.opt.max_bytes = 2000 - i;
		if (i == 0) {
			must_eval(x);
		} else {
			must_fail(x, "takes 1,000 bytes more, 1,000 are "
				     "held, and the limit is 1,999");
		}
		close_module();
	}
	open_module();
	a = dim("a", IR_MAX_SIZE);
	must_fail(source("x", 0, false, DIMS(a)), "2,251,799,813,685,248");
	close_module();
}

/* ---- running out of memory ---- */

/* Whether the evaluation got through with this many requests. */
static bool
eval_within(struct scarce *w, int requests)
{
	static struct mem gate;	/* of the context, which ir_eval replaces */
	struct mem mem = scarce_mem(w);
	volatile bool through = false;
	struct loop l;
	value_id x, p;
	dim_id a, b;

	w->left = -1;
	open_with(&mem);
	a = dim("a", 3);
	b = dim("b", 2);
	x = source("x", 0, false, DIMS(a));
	p = loop_begin(&l, x, "h.{i}", "i", 0, 2);
	p = layer_body(p, "w", a);
	begin(IR_TOPK, "k");
	args(p, 0, 0);
	ir_new_dim(&t.n, IR_ATTR_OF, a);
	ir_new_dim(&t.n, IR_ATTR_TO, b);
	done();
	p = loop_end(&l, p);
	VEC_PUSH(&t.c.perm, &t.m->regions.at[t.r].results, p);
	gate = t.c.mem;
	if (setjmp(w->out) == 0) {
		w->left = requests;
		assert_true(ir_eval(t.m, &t.opt, t.res, 4, &t.nres));
		through = true;
	}
	w->left = -1;
	assert_true(t.c.mem.get == gate.get && t.c.mem.user == gate.user);
	close_module();
	assert_int_equal(w->live, 0);
	return through;
}

static void
test_out_of_memory(void **state)
{
	struct scarce w = { .left = -1 };
	int n = 0;

	(void)state;
	while (!eval_within(&w, n)) {
		n++;
	}
	assert_true(n > 5);
}

static void
test_checksum(void **state)
{
	double zero[] = { 0, -0.0 }, one = 1;

	(void)state;
	/* FNV-1a of nothing, of eight zero bytes, of 3ff0000000000000 */
	assert_true(ir_checksum(&one, 0) == 0xcbf29ce484222325u);
	assert_true(ir_checksum(zero, 1) == 0xa8c7f832281a39c5u);
	assert_true(ir_checksum(zero, 1) == ir_checksum(zero + 1, 1));
	assert_true(ir_checksum(&one, 1) == 0xaab1693229ba1db8u);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_init),
		cmocka_unit_test(test_masks),
		cmocka_unit_test(test_stacked),
		cmocka_unit_test(test_stacked_twice),
		cmocka_unit_test(test_weights_missing),
		cmocka_unit_test(test_calls_are_inlining),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_shadowed),
		cmocka_unit_test(test_result_from_outside),
		cmocka_unit_test(test_carried),
		cmocka_unit_test(test_many_calls),
		cmocka_unit_test(test_calls_too_deep),
		cmocka_unit_test(test_max_bytes),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_checksum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
