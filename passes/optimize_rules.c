/*
 * The update rules, a row each: AdamW, SGD, Lion, Adafactor, Muon.
 *
 * AdamW is that of Loshchilov and Hutter 2019, Lion that of Chen et al.,
 * "Symbolic Discovery of Optimization Algorithms", 2023, Adafactor that of
 * Shazeer and Stern 2018 without its relative step: the learning rate is the
 * schedule's.  The matrices of Muon are in optimize_muon.c.
 */
#include "passes/optimize.h"

#include <string.h>

static value_id
adamw_step(struct optimizer *o, const struct opt_weight *w, value_id g)
{
	sym_t first = opt_named(o, w->name, ".exp_avg");
	sym_t second = opt_named(o, w->name, ".exp_avg_sq");
	value_id m = opt_source(o, IR_STATE, first, &w->wide, "zeros");
	value_id v = opt_source(o, IR_STATE, second, &w->wide, "zeros");

	m = opt_blend(o, m, g, 1 - o->beta1);
	v = opt_blend(o, v, opt_op2(o, IR_MUL, g, g), 1 - o->beta2);
	opt_sink(o, IR_STORE, first, m);
	opt_sink(o, IR_STORE, second, v);
	m = opt_op2(o, IR_DIV, m, o->fix1);
	v = opt_op1(o, IR_SQRT, opt_op2(o, IR_DIV, v, o->fix2));
	v = opt_op2(o, IR_ADD, v, opt_number(o, o->eps));
	return opt_op2(o, IR_DIV, m, v);
}

static value_id
sgd_step(struct optimizer *o, const struct opt_weight *w, value_id g)
{
	sym_t name = opt_named(o, w->name, ".momentum");
	value_id m;

	if (o->momentum == 0) {
		return g;
	}
	m = opt_source(o, IR_STATE, name, &w->wide, "zeros");
	m = opt_op2(o, IR_ADD, opt_times(o, m, o->momentum), g);
	opt_sink(o, IR_STORE, name, m);
	return m;
}

static value_id
lion_step(struct optimizer *o, const struct opt_weight *w, value_id g)
{
	sym_t name = opt_named(o, w->name, ".exp_avg");
	value_id m = opt_source(o, IR_STATE, name, &w->wide, "zeros");

	opt_sink(o, IR_STORE, name, opt_blend(o, m, g, 1 - o->beta2));
	return opt_sign(o, opt_blend(o, m, g, 1 - o->beta1));
}

/* A moving average of v, as a state of v's type that begins with v itself. */
static value_id
average(struct optimizer *o, const struct opt_weight *w, const char *suffix,
	value_id v)
{
	struct ir_type t = *ir_type(o->m, v);
	sym_t name = opt_named(o, w->name, suffix);
	value_id old = opt_source(o, IR_STATE, name, &t, "zeros");

	v = opt_op2(o, IR_SUB, v, old);
	v = opt_op2(o, IR_ADD, old, opt_op2(o, IR_MUL, v, o->share));
	opt_sink(o, IR_STORE, name, v);
	return v;
}

/*
 * Adafactor: the second moment of a matrix is the product of what its rows and
 * its columns have, by the mean of all; dims before the last two are as many
 * matrices.  A vector's is kept whole.  The step is cut where its root mean
 * square is above 1.
 */
static value_id
adafactor_step(struct optimizer *o, const struct opt_weight *w, value_id g)
{
	const dim_id *d = w->wide.dims;
	uint8_t n = w->wide.ndims;
	value_id row, col, u, v;

	u = opt_op2(o, IR_MUL, g, g);
	u = opt_op2(o, IR_ADD, u, opt_number(o, 1e-30));
	if (n < 2) {
		u = average(o, w, ".exp_avg_sq", u);
	} else {
		row = average(o, w, ".exp_avg_sq_row",
			      opt_over(o, IR_MEAN, u, &d[n - 1], 1));
		col = average(o, w, ".exp_avg_sq_col",
			      opt_over(o, IR_MEAN, u, &d[n - 2], 1));
		u = opt_over(o, IR_MEAN, row, &d[n - 2], 1);
		u = opt_fit(o, u, ir_type(o->m, row));
		v = opt_fit(o, opt_op2(o, IR_DIV, row, u), &w->wide);
		u = opt_op2(o, IR_MUL, v, opt_fit(o, col, &w->wide));
	}
	/* a product of two small ones is 0 in f32 */
	u = opt_op1(o, IR_SQRT, opt_op2(o, IR_MAX, opt_number(o, 1e-30), u));
	u = opt_op2(o, IR_DIV, g, u);
	v = opt_over(o, IR_MEAN, opt_op2(o, IR_MUL, u, u), NULL, 0);
	v = opt_op1(o, IR_SQRT, v);
	return opt_op2(o, IR_DIV, u, opt_op2(o, IR_MAX, opt_number(o, 1), v));
}

/*
 * Muon (Jordan et al. 2024), with Nesterov's momentum: of the matrices of
 * layers; tables that are looked up, the head and vectors are AdamW's.
 */
static value_id
muon_step(struct optimizer *o, const struct opt_weight *w, value_id g)
{
	sym_t name = opt_named(o, w->name, ".momentum");
	value_id m;

	if (!w->is_matrix) {
		return adamw_step(o, w, g);
	}
	m = opt_source(o, IR_STATE, name, &w->wide, "zeros");
	m = opt_blend(o, m, g, 1 - o->momentum);
	opt_sink(o, IR_STORE, name, m);
	return opt_orthogonal(o, w, opt_blend(o, g, m, o->momentum));
}

static const struct opt_rule rules[] = {
	{ "adamw", adamw_step, true, false, 0.9, 0.999, 0 },
	{ "sgd", sgd_step, false, false, 0, 0, 0 },
	{ "lion", lion_step, false, false, 0.9, 0.99, 0 },
	{ "adafactor", adafactor_step, false, true, 0, 0, 0 },
	{ "muon", muon_step, true, false, 0.9, 0.999, 0.95 }
};

#define RULES (sizeof rules / sizeof *rules)

const struct opt_rule *
opt_rule_find(const char *name)
{
	size_t i;

	for (i = 0; i < RULES; i++) {
		if (strcmp(name, rules[i].name) == 0) {
			return &rules[i];
		}
	}
	return NULL;
}

const char *
opt_rule_names(struct optimizer *o)
{
	const char *names = rules[0].name;
	size_t i;

	for (i = 1; i < RULES; i++) {
		names = arena_printf(&o->m->ctx->tmp, "%s%s%s", names,
				     i + 1 < RULES ? ", " : " or ",
				     rules[i].name);
	}
	return names;
}
