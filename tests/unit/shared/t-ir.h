/*
 * Random sound modules, for tests of properties that all modules have.
 *
 * A node is made from its op's own row: the rule's factors get random dims,
 * and inputs of the types that follow become its operands.  So a new op needs
 * nothing here.
 */
#ifndef TESTS_UNIT_T_IR_H
#define TESTS_UNIT_T_IR_H

#include <stdint.h>
#include <string.h>

#include "ir/ir.h"

#define MAX_POOL 200

static const struct span nowhere = { 0, 0 };

struct maker {
	struct ir_ctx *c;
	struct ir_module *m;
	uint64_t rng;
	uint32_t names;		/* given so far, for tensor names */
	uint32_t ndims;		/* those that nodes are made of */
	value_id pool[MAX_POOL];	/* that may be used here */
	uint32_t npool;
	uint32_t *made;		/* by op: how many, over all modules */
};

static uint32_t
below(struct maker *g, uint32_t n)
{
	g->rng ^= g->rng << 13;
	g->rng ^= g->rng >> 7;
	g->rng ^= g->rng << 17;
	return (uint32_t)(g->rng >> 20) % n;
}

static sym_t
sym(struct maker *g, const char *text)
{
	return intern_str(&g->c->syms, text);
}

static sym_t
numbered(struct maker *g, const char *stem)
{
	return sym(g, arena_printf(&g->c->tmp, "%s%u", stem, g->names++));
}

static sym_t
numbered_scales(struct maker *g)
{
	return sym(g, arena_printf(&g->c->tmp, "w%u_scale_inv", g->names++));
}

/* Any but int8 and int4, in which only weights are, or an index. */
static uint8_t
random_dtype(struct maker *g)
{
	uint8_t dtype = (uint8_t)below(g, IR_IDX);

	return dtype == IR_INT8 || dtype == IR_INT4 ? IR_F32 : dtype;
}

static double
positive(struct maker *g)
{
	static const double some[] = { 1e-5, 0.02, 0.1, 1, 2.5, 1.0 / 3,
				       10000, 1e30 };

	return some[below(g, 8)];
}

static expr_id
random_expr(struct maker *g, int depth)
{
	const char *why;
	expr_id a, b, e;

	if (depth == 0 || below(g, 3) == 0) {
		return g->m->dims.n > 1 && below(g, 2)
			? ir_expr_dim(g->m, 1 + below(g, g->m->dims.n - 1))
			: ir_expr_const(g->m, 1 + below(g, 9));
	}
	a = random_expr(g, depth - 1);
	b = random_expr(g, depth - 1);
	e = ir_expr_op(g->m, EXPR_ADD + below(g, 4), a, b, &why);
	return e ? e : a;
}

static dim_id
new_dim(struct maker *g, int64_t size, expr_id expr)
{
	return ir_dim_add(g->m, numbered(g, "d"), size, expr, nowhere);
}

static void
make_dims(struct maker *g)
{
	static const int sizes[] = { 1, 2, 2, 4, 4, 6, 8, 8, 16, 64 };
	uint32_t i;

	for (i = 0; i < 10; i++) {
		new_dim(g, sizes[i], 0);
	}
	for (i = 0; i < 4; i++) {
		expr_id e = random_expr(g, 4);
		int64_t size = g->m->exprs.at[e].value;

		if (size >= 1 && size <= 64 &&
		    g->m->exprs.at[e].kind != EXPR_CONST) {
			new_dim(g, size, e);
		}
	}
	g->ndims = g->m->dims.n - 1;
}

static sym_t
odd_text(struct maker *g)
{
	char text[24];
	uint32_t i, n = below(g, sizeof text);

	for (i = 0; i < n; i++) {
		text[i] = (char)below(g, 256);
	}
	return intern(&g->c->syms, text, n);
}

static void
make_header(struct maker *g)
{
	uint32_t i, n = below(g, 5), k;

	g->m->name = below(g, 4) ? sym(g, "random") : 0;
	for (i = 0; i < n; i++) {
		struct ir_setting s = { 0 };

		s.key = numbered(g, "train.key");
		s.kind = (uint8_t)below(g, 3);
		s.n = s.kind == SET_NUM ? (uint8_t)(1 + below(g, 8)) : 1;
		for (k = 0; k < s.n; k++) {
			s.num[k] = below(g, 2) ? -positive(g)
				: (double)below(g, 1000);
		}
		s.text = s.kind == SET_WORD ? sym(g, "adamw")
			: s.kind == SET_STR ? odd_text(g) : 0;
		VEC_PUSH(&g->c->perm, &g->m->settings, s);
	}
	for (n = below(g, 3), i = 0; i < n; i++) {
		struct ir_hint h = { 0 };

		h.verb = sym(g, "shard");
		h.what = numbered(g, "dim");
		h.axis = below(g, 2) ? sym(g, "tp") : 0;
		VEC_PUSH(&g->c->perm, &g->m->hints, h);
	}
}

static sym_t
hint(struct maker *g)
{
	static const char *const some[] = { "x", "q", "h_2", "W", "_" };

	return below(g, 3) ? sym(g, some[below(g, 5)]) : 0;
}

static void
push(struct maker *g, value_id v)
{
	if (g->npool < MAX_POOL) {
		g->pool[g->npool++] = v;
	}
}

/* Appends; what the rule refuses is left out. */
static value_id
append(struct maker *g, region_id r, struct ir_new *n)
{
	const char *why;
	value_id v;

	if (ir_is(n->op, IRF_SINK)) {
		g->made[n->op] += ir_append_sink(g->m, r, n, &why);
		return 0;
	}
	v = ir_append(g->m, r, n, &why);
	if (v) {
		g->made[n->op]++;
		push(g, v);
	}
	return v;
}

static value_id
input(struct maker *g, region_id r, const struct ir_type *t)
{
	struct ir_new n;

	ir_new_init(&n, IR_INPUT, nowhere);
	ir_new_text(&n, IR_ATTR_NAME, numbered(g, "in"));
	n.types[0] = *t;
	n.hint = hint(g);
	return append(g, r, &n);
}

static struct ir_type
random_type(struct maker *g)
{
	struct ir_type t = { 0 };
	uint32_t n = below(g, 4);

	t.dtype = random_dtype(g);
	while (n-- > 0) {
		dim_id d = 1 + below(g, g->ndims);

		if (!ir_type_has(&t, d)) {
			t.dims[t.ndims++] = d;
		}
	}
	return t;
}

/* ---- one node, from its row ---- */

/* Random dims for each factor, none twice. */
static void
draw_factors(struct maker *g, struct ir_rule *r)
{
	uint8_t taken[64] = { 0 }, i, k;

	for (i = 0; i < r->nf; i++) {
		struct ir_factor *f = &r->f[i];
		uint8_t want = !f->group ? 1
			: (uint8_t)(f->by_attr + below(g, 2));

		for (f->n = 0, k = 0; k < 60 && f->n < want; k++) {
			dim_id d = 1 + below(g, g->ndims);

			if (!taken[d]) {
				taken[d] = 1;
				f->dims[f->n++] = d;
			}
		}
	}
}

/* x + y = to: the dim that is as large as both. */
static void
fit_concat(struct maker *g, struct ir_rule *r)
{
	const struct ir_factor *x = ir_rule_factor(r, "x");
	const struct ir_factor *y = ir_rule_factor(r, "y");
	struct ir_factor *to = (struct ir_factor *)ir_rule_factor(r, "to");
	const char *why;
	expr_id e;

	if (x && y && to) {
		e = ir_expr_op(g->m, EXPR_ADD, ir_expr_dim(g->m, x->dims[0]),
			       ir_expr_dim(g->m, y->dims[0]), &why);
		to->dims[0] = new_dim(g, g->m->exprs.at[e].value, e);
	}
}

/* A~over: the operand's dims, the first of them last. */
static void
fit_arrange(struct ir_rule *r)
{
	const struct ir_factor *a = ir_rule_factor(r, "A");
	struct ir_factor *over = (struct ir_factor *)ir_rule_factor(r, "over");
	uint8_t i;

	if (!strchr(r->where, '~')) {
		return;
	}
	over->n = a->n;
	for (i = 0; i < a->n; i++) {
		over->dims[i] = a->dims[(i + 1) % a->n];
	}
}

static struct ir_type
operand_type(struct maker *g, const struct ir_rule *r, int k,
	     enum ir_op op, uint8_t dtype)
{
	const struct ir_factor *of = ir_rule_factor(r, "of");
	struct ir_type t = { 0 };
	uint8_t i, j;

	t.dtype = ir_ops[op].dtypes[k] == 'F' ? IR_F32 : dtype;
	if (ir_ops[op].dtypes[k] == 'i' && of) {
		t.dtype = IR_IDX;
		t.of = of->dims[0];
	}
	for (i = 0; i < r->nop[k]; i++) {
		const struct ir_factor *f = &r->f[r->op[k][i]];

		for (j = 0; j < f->n && t.ndims < IR_MAX_DIMS; j++) {
			t.dims[t.ndims++] = f->dims[j];
		}
	}
	if (ir_is(op, IRF_SPREAD) && k > 0 && t.ndims && below(g, 3) == 0 &&
	    ir_ops[op].attrs[0] == '\0') {
		t.ndims--;	/* it spreads over the dim that it lacks */
	}
	return t;
}

static void
int_attr(struct maker *g, struct ir_new *n, enum ir_attr_key key,
	 const struct ir_rule *r)
{
	const struct ir_factor *of = ir_rule_factor(r, "of");
	const struct ir_factor *to = ir_rule_factor(r, "to");
	struct ir_attr *a = ir_new_attr(n, key);
	int64_t most = of ? ir_dim_size(g->m, of->dims[0]) : 8;

	a->i = 1 + below(g, 8);
	if (key == IR_ATTR_AT) {
		most -= to ? ir_dim_size(g->m, to->dims[0]) : 1;
		a->i = most > 0 ? below(g, (uint32_t)most + 1) : 0;
	} else if (key == IR_ATTR_GROUPS || key == IR_ATTR_TOP_GROUPS) {
		a->i = most;
	} else if (key == IR_ATTR_GROUP_BEST) {
		a->i = 1 + a->i % 2;
	} else if (key == IR_ATTR_START) {
		a->i--;
	}
	if (below(g, 3) == 0) {	/* the same number, as an expression */
		const char *why;

		a->expr = ir_expr_op(g->m, EXPR_SUB,
				     ir_expr_const(g->m, a->i + 5),
				     ir_expr_const(g->m, 5), &why);
	}
}

static void
give_attr(struct maker *g, struct ir_new *n, enum ir_attr_key key,
	  const struct ir_rule *r)
{
	const struct ir_factor *f = ir_rule_factor(r, ir_attrs[key].name);

	uint8_t i;

	switch (ir_attrs[key].kind) {
	case ATTR_DIM:
	case ATTR_DIMS:
		for (i = 0; f && i < f->n; i++) {
			ir_new_dim(n, key, f->dims[i]);
		}
		break;
	case ATTR_INT:
		int_attr(g, n, key, r);
		break;
	case ATTR_NUM:
		ir_new_num(n, key, key == IR_ATTR_LOW ? 0.5
			: key == IR_ATTR_HIGH ? 1e30 / 3
			: key == IR_ATTR_RATE ? 0.25 : positive(g));
		break;
	case ATTR_FLAG:
		ir_new_attr(n, key);
		break;
	case ATTR_WORD:
		ir_new_text(n, key, key == IR_ATTR_VAR ? numbered(g, "i")
							: sym(g, "normal"));
		break;
	case ATTR_STR:
		ir_new_text(n, key, numbered(g, "model.\xc3\xa9\t\"w"));
		break;
	default:
		ir_new_int(n, key, 0);
		break;
	}
}

static bool
has(const struct ir_new *n, enum ir_attr_key key)
{
	uint32_t i;

	for (i = 0; i < n->nattrs; i++) {
		if (n->attrs[i].key == key) {
			return true;
		}
	}
	return false;
}

static bool
extends_rope(enum ir_attr_key key)
{
	return key == IR_ATTR_FAST || key == IR_ATTR_SLOW ||
	       key == IR_ATTR_UNTRUNCATED || key == IR_ATTR_STRETCH;
}

/* YaRN's attributes, or a number for each pair. */
static void
extend_rope(struct maker *g, struct ir_new *n, const struct ir_rule *r)
{
	const struct ir_factor *d = ir_rule_factor(r, "d");
	int64_t pairs = ir_dim_size(g->m, d->dims[0]) / 2;
	struct buf list;

	if (!has(n, IR_ATTR_FACTOR) && pairs > 0) {
		buf_init(&list, &g->m->ctx->tmp);
		for (; pairs > 0; pairs--) {
			ir_list_add(&list, positive(g));
		}
		ir_new_text(n, IR_ATTR_STRETCH, sym(g, buf_text(&list)));
	} else if (has(n, IR_ATTR_ORIGINAL) && has(n, IR_ATTR_FACTOR) &&
		   !has(n, IR_ATTR_LOW) && !has(n, IR_ATTR_HIGH)) {
		uint32_t i;

		for (i = 0; i < n->nattrs; i++) {
			n->attrs[i].num += n->attrs[i].key == IR_ATTR_THETA;
		}
		ir_new_num(n, IR_ATTR_FAST, 1e30 / 3);
		ir_new_num(n, IR_ATTR_SLOW, 0.25);
		ir_new_attr(n, IR_ATTR_UNTRUNCATED);
	}
}

/* Whether an attribute cannot stand beside another one that is there, or in a
 * node of this type. */
static bool
is_excluded(const struct ir_new *n, enum ir_attr_key key)
{
	static const enum ir_attr_key pairs[][2] = {
		{ IR_ATTR_ALIBI, IR_ATTR_SOFTCAP },
		{ IR_ATTR_BALANCE, IR_ATTR_FROZEN }
	};
	size_t i;

	for (i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		if ((key == pairs[i][0] && has(n, pairs[i][1])) ||
		    (key == pairs[i][1] && has(n, pairs[i][0]))) {
			return true;
		}
	}
	return key == IR_ATTR_ROUNDED ||
	       (key == IR_ATTR_BALANCE && n->types[0].dtype != IR_F32);
}

/* A weight that is stored in 8 bits, and scales of one, have attributes that
 * say so. */
static void
make_stored(struct maker *g, struct ir_new *n)
{
	static const enum ir_dtype stored[] = { IR_INT8, IR_F8E4M3 };
	const struct ir_type *t = &n->types[0];
	enum ir_attr_key key = n->op == IR_SCALES ? IR_ATTR_OVER
						  : IR_ATTR_ROUNDED;
	uint8_t i;

	if (n->op == IR_SCALES) {
		n->types[0].dtype = IR_F32;
		ir_new_text(n, IR_ATTR_NAME, numbered_scales(g));
		ir_new_int(n, IR_ATTR_STORED, stored[below(g, 2)]);
		/* the weight may have dims that the scales do not */
		if (t->ndims == 0) {
			ir_new_dim(n, key, 1);
		}
	} else {
		n->types[0].dtype = (uint8_t)stored[below(g, 2)];
		ir_new_text(n, IR_ATTR_NAME, numbered(g, "w"));
		ir_new_attr(n, IR_ATTR_FROZEN);
	}
	for (i = 0; i < t->ndims; i++) {
		ir_new_dim(n, key, t->dims[i]);
	}
}

/* All that must be there and some of what may, in a random order. */
static void
give_attrs(struct maker *g, struct ir_new *n, const struct ir_rule *r)
{
	uint32_t first = below(g, IR_NATTRS), i;

	for (i = 0; i < IR_NATTRS; i++) {
		enum ir_attr_key key = (first + i) % IR_NATTRS;
		enum ir_takes takes = ir_op_takes(n->op, key);

		if (takes == IR_TAKES_MUST ||
		    (key != IR_ATTR_ON && !extends_rope(key) &&
		     takes == IR_TAKES_OPTION && below(g, 2) &&
		     !is_excluded(n, key))) {
			give_attr(g, n, key, r);
		}
	}
	/* some go only together */
	if (!has(n, IR_ATTR_FACTOR) &&
	    (has(n, IR_ATTR_LOW) || has(n, IR_ATTR_HIGH) ||
	     has(n, IR_ATTR_ORIGINAL))) {
		ir_new_num(n, IR_ATTR_FACTOR, 8);
	}
	if (has(n, IR_ATTR_THETA) && below(g, 2)) {
		extend_rope(g, n, r);
	}
	if (has(n, IR_ATTR_GROUP_BEST) && !has(n, IR_ATTR_TOP_GROUPS)) {
		give_attr(g, n, IR_ATTR_TOP_GROUPS, r);
	}
	if (has(n, IR_ATTR_TOP_GROUPS) && !has(n, IR_ATTR_GROUPS)) {
		give_attr(g, n, IR_ATTR_GROUPS, r);
	}
}

static void
make_plain(struct maker *g, region_id region, enum ir_op op)
{
	uint8_t dtype = random_dtype(g);
	struct ir_rule r;
	struct ir_new n;
	int k;

	ir_rule_read(&r, op);
	draw_factors(g, &r);
	fit_concat(g, &r);
	fit_arrange(&r);
	ir_new_init(&n, op, nowhere);
	n.hint = hint(g);
	n.types[0] = random_type(g);
	if (op == IR_SCALES || (op == IR_WEIGHT && n.types[0].ndims &&
				below(g, 4) == 0)) {
		make_stored(g, &n);
	} else {
		give_attrs(g, &n, &r);
	}
	for (k = 0; k < ir_ops[op].nargs; k++) {
		struct ir_type t = operand_type(g, &r, k, op, dtype);

		if (has(&n, IR_ATTR_THETA) && t.ndims &&
		    ir_dim_size(g->m, t.dims[t.ndims - 1]) % 2) {
			return;		/* rotary pairs */
		}
		ir_new_arg(&n, input(g, region, &t));
	}
	append(g, region, &n);
}

/* The same, with operands that are there already. */
static void
make_chained(struct maker *g, region_id region, enum ir_op op)
{
	struct ir_new n;
	int k;

	if (g->npool == 0 || ir_ops[op].attrs[0]) {
		return;		/* few attributes would fit them */
	}
	ir_new_init(&n, op, nowhere);
	n.hint = hint(g);
	n.types[0] = random_type(g);
	for (k = 0; k < ir_ops[op].nargs; k++) {
		ir_new_arg(&n, g->pool[below(g, g->npool)]);
	}
	append(g, region, &n);
}

/* ---- regions ---- */

static void make_body(struct maker *g, region_id r, int depth);

/* A value of the type that may be used here, or 0. */
static value_id
find_value(struct maker *g, const struct ir_type *t)
{
	uint32_t from = g->npool ? below(g, g->npool) : 0, i;

	for (i = 0; i < g->npool; i++) {
		value_id v = g->pool[(from + i) % g->npool];

		if (ir_type_equal(ir_type(g->m, v), t)) {
			return v;
		}
	}
	return 0;
}

static void
make_repeat(struct maker *g, region_id region, int depth)
{
	uint32_t n = 1 + below(g, 3), i, outside = g->npool;
	struct ir_rule none = { 0 };
	struct ir_new node;
	value_id v;

	if (g->npool == 0 || depth == 3) {
		return;
	}
	ir_new_init(&node, IR_REPEAT, nowhere);
	give_attrs(g, &node, &none);
	node.region = ir_region_add(g->m, 0);
	node.nresults = n;
	node.hint = hint(g);
	for (i = 0; i < n; i++) {
		v = g->pool[below(g, outside)];
		ir_new_arg(&node, v);
		node.types[i] = *ir_type(g->m, v);
		push(g, ir_param_add(g->m, node.region, &node.types[i],
				     hint(g)));
	}
	make_body(g, node.region, depth + 1);
	for (i = 0; i < n; i++) {
		v = find_value(g, &node.types[i]);
		VEC_PUSH(&g->c->perm, &g->m->regions.at[node.region].results,
			 v);
	}
	g->npool = outside;
	v = append(g, region, &node);
	for (i = 1; v && i < n; i++) {
		push(g, v + i);
	}
}

static void
make_call(struct maker *g, region_id region)
{
	func_id f = g->m->funcs.n > 2 ? 1 + below(g, g->m->funcs.n - 2) : 0;
	const struct ir_region *body;
	struct ir_rule none = { 0 };
	struct ir_new node;
	uint32_t i;
	value_id v;

	if (!f) {
		return;
	}
	ir_new_init(&node, IR_CALL, nowhere);
	node.callee = f;
	node.hint = hint(g);
	give_attrs(g, &node, &none);
	for (i = 0; i < g->m->regions.at[g->m->funcs.at[f].body].params.n;
	     i++) {
		struct ir_type t;

		body = &g->m->regions.at[g->m->funcs.at[f].body];
		t = *ir_type(g->m, body->params.at[i]);
		v = find_value(g, &t);
		ir_new_arg(&node, v ? v : input(g, region, &t));
	}
	body = &g->m->regions.at[g->m->funcs.at[f].body];
	node.nresults = body->results.n;
	for (i = 0; i < body->results.n; i++) {
		node.types[i] = *ir_type(g->m, body->results.at[i]);
	}
	v = append(g, region, &node);
	for (i = 1; v && i < node.nresults; i++) {
		push(g, v + i);
	}
}

static void
make_body(struct maker *g, region_id r, int depth)
{
	uint32_t n = below(g, 12), i;

	for (i = 0; i < n; i++) {
		enum ir_op op = (enum ir_op)below(g, IR_OP_COUNT);

		if (ir_is(op, IRF_CONVERTS)) {
			continue;	/* this module has no mesh */
		}
		if (ir_is(op, IRF_REGION)) {
			make_repeat(g, r, depth);
		} else if (ir_is(op, IRF_CALLS)) {
			make_call(g, r);
		} else if (below(g, 2)) {
			make_plain(g, r, op);
		} else {
			make_chained(g, r, op);
		}
	}
}

static void
make_func(struct maker *g, bool is_model)
{
	func_id f = ir_func_add(g->m, is_model ? 0 : numbered(g, "layer"),
				is_model, nowhere);
	region_id body = g->m->funcs.at[f].body;
	uint32_t n = 1 + below(g, 3), i;

	g->npool = 0;
	for (i = 0; i < n; i++) {
		struct ir_type t = random_type(g);

		if (is_model) {
			input(g, body, &t);
		} else {
			push(g, ir_param_add(g->m, body, &t, hint(g)));
		}
	}
	make_body(g, body, 0);
	for (i = 0; i < n; i++) {
		VEC_PUSH(&g->c->perm, &g->m->regions.at[body].results,
			 g->pool[below(g, g->npool)]);
	}
}

/* The same module for the same seed; counts the ops that it made. */
static struct ir_module *
make_module(struct ir_ctx *c, uint64_t seed, uint32_t *made)
{
	struct maker g = { .c = c, .made = made };
	uint32_t n;

	g.rng = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	g.m = ir_module_new(c);
	make_dims(&g);
	make_header(&g);
	for (n = below(&g, 4); n > 0; n--) {
		make_func(&g, false);
	}
	make_func(&g, true);
	return g.m;
}

#endif
