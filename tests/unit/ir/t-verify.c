/*
 * The verifier: in a sound module one thing at a time is broken, as a pass
 * might, and the message must name it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/t-ir.h"
#include "tests/unit/shared/t-type.h"

#define DAMAGED 5000

static const char sound[] =
	"llmc-ir 1\n"
	"module sound\n"
	"dim seq = 4\n"
	"dim hidden = 8\n"
	"dim half = hidden / 2\n"
	"dim vocab = 16\n"
	"dim best = 2\n"
	"set train.lr = 0.1\n"
	"hint shard hidden on tp\n"
	"layer f(%x.0: f32[seq, hidden]) {\n"
	"  %w.1 = weight name=\"w\" init=ones : f32[hidden]\n"
	"  %n.2 = rmsnorm %x.0, %w.1 over=hidden eps=0.001"
	" : f32[seq, hidden]\n"
	"  return %n.2\n"
	"}\n"
	"layer g(%x.0: f32[seq, hidden]) {\n"
	"  %n.1 = neg %x.0 : f32[seq, hidden]\n"
	"  return %n.1\n"
	"}\n"
	"model {\n"
	"  %t.0 = input name=\"t\" : idx<vocab>[seq]\n"
	"  %e.1 = weight name=\"e\" std=0.1 init=normal"
	" : f32[vocab, hidden]\n"
	"  %x.2 = gather %e.1, %t.0 of=vocab : f32[seq, hidden]\n"
	"  %y.3 = repeat count=3 var=i name=\"h.{i}\" (%z.4 = %x.2)"
	" : f32[seq, hidden] {\n"
	"    %u.5 = call f(%z.4) name=\"a{i}\" : f32[seq, hidden]\n"
	"    yield %u.5\n"
	"  }\n"
	"  %r.6 = rope %y.3 seq=seq theta=10000 factor=8 low=1 high=4"
	" : f32[seq, hidden]\n"
	"  %c.7 = slice %r.6 of=hidden to=half at=4 : f32[seq, half]\n"
	"  %k.8 = topk %r.6 of=hidden to=best groups=2 top_groups=1"
	" : idx<hidden>[seq, best]\n"
	"  %d.9 = dot %r.6, %e.1 over=hidden : f32[seq, vocab]\n"
	"  %m.10 = dropout_mask name=\"m\" rate=0.5 : f8e4m3[seq]\n"
	"  return %d.9, %c.7, %k.8\n"
	"}\n";

/* ---- finding what to break ---- */

/* The last node of the op. */
static struct ir_node *
node(struct ir_module *m, enum ir_op op)
{
	node_id i;

	for (i = m->nodes.n - 1; i > 0; i--) {
		if (m->nodes.at[i].op == op) {
			return &m->nodes.at[i];
		}
	}
	fail_msg("no %s", ir_ops[op].name);
	return NULL;
}

static struct ir_attr *
attr(struct ir_module *m, enum ir_op op, enum ir_attr_key key)
{
	struct ir_node *n = node(m, op);
	uint32_t i;

	for (i = 0; i < n->nattrs; i++) {
		if (m->attrs.at[n->attrs + i].key == key) {
			return &m->attrs.at[n->attrs + i];
		}
	}
	fail_msg("no %s", ir_attrs[key].name);
	return NULL;
}

static struct ir_type *
type(struct ir_module *m, enum ir_op op)
{
	return own_type(m, node(m, op)->result);
}

static value_id *
arg(struct ir_module *m, enum ir_op op, uint32_t i)
{
	return &ir_args(m, node(m, op))[i];
}

static struct ir_region *
body(struct ir_module *m, func_id f)
{
	return &m->regions.at[m->funcs.at[f].body];
}

static struct ir_region *
inner(struct ir_module *m)
{
	return &m->regions.at[node(m, IR_REPEAT)->region];
}

static sym_t
word(struct ir_module *m, const char *text)
{
	return intern_str(&m->ctx->syms, text);
}

static void
swap(uint32_t *a, uint32_t *b)
{
	uint32_t t = *a;

	*a = *b;
	*b = t;
}

/* ---- what is broken: DEF(words of the message) { statements } ---- */

#define ALL \
DEF(dim_zero, "dim `seq`: expected a size from 1", \
    m->dims.at[1].size = 0) \
DEF(dim_huge, "found 281474976710657", \
    m->dims.at[4].size = IR_MAX_SIZE + 1) \
DEF(dim_stale, "expected the size of `hidden`, 12, found 8", \
    m->dims.at[2].size = 12) \
DEF(dim_expr, "dim `half`: expected the size that its expression comes to", \
    m->dims.at[3].size = 5) \
DEF(dim_later, "expected an expression over dims before it", \
    m->dims.at[1].expr = m->dims.at[3].expr) \
DEF(dim_name, "dim 1: expected a name, found \"a b\"", \
    m->dims.at[1].name = word(m, "a b")) \
DEF(dim_same, "dim `seq`: expected one dim of that name, found a second", \
    m->dims.at[2].name = m->dims.at[1].name) \
DEF(expr_kind, "expected a kind from 0 to 5, found 9", \
    m->exprs.at[m->dims.at[3].expr].kind = 9) \
DEF(expr_loop, "expected operands from 1 to", \
    m->exprs.at[m->dims.at[3].expr].lhs = m->dims.at[3].expr) \
DEF(setting_nan, "setting `train.lr`: expected a finite number", \
    m->settings.at[0].num[0] = NAN) \
DEF(setting_none, "expected 1 to 8 numbers, found 0", \
    m->settings.at[0].n = 0) \
DEF(hint_empty, "hint: expected two or three words", \
    m->hints.at[0].what = 0) \
DEF(module_name, "module: expected a name, found \"1\"", \
    m->name = word(m, "1")) \
DEF(layer_same, "expected one layer of that name, found a second", \
    m->funcs.at[2].name = m->funcs.at[1].name) \
DEF(model_none, "expected one model, found none", \
    m->funcs.at[3].is_model = false; m->funcs.at[3].name = word(m, "z")) \
DEF(model_two, "expected one model, after all layers", \
    m->funcs.at[2].is_model = true) \
DEF(model_params, "the model: expected no parameters, found 1", \
    ir_param_add(m, m->funcs.at[3].body, type(m, IR_DOT), 0)) \
DEF(region_shared, "expected a region of its own", \
    m->funcs.at[2].body = m->funcs.at[1].body) \
DEF(region_owner, "expected a region of its own", inner(m)->owner = 1) \
DEF(no_results, "expected 1 operands and 0 results", \
    body(m, 1)->results.n = 0) \
DEF(node_twice, "that no region has yet", \
    body(m, 3)->nodes.at[1] = body(m, 3)->nodes.at[0]) \
DEF(node_range, "expected a node from 1 to", \
    body(m, 3)->nodes.at[1] = 1000) \
DEF(op_range, "(?): expected an op from 0 to", node(m, IR_DOT)->op = 999) \
DEF(args_range, "expected operands and attributes inside the", \
    node(m, IR_DOT)->args = UINT32_MAX - 1) \
DEF(result_range, "expected results from 1 to", \
    node(m, IR_DOT)->result = 5000) \
DEF(result_other, "expected result 0 of node", \
    node(m, IR_DOT)->result = node(m, IR_ROPE)->result) \
DEF(result_count, "expected 1 to 1 results", \
    node(m, IR_DOT)->nresults = 2) \
DEF(operand_count, "expected 2 operands, found 1", \
    node(m, IR_DOT)->nargs = 1) \
DEF(operand_range, "node %d.9 (dot): operand 1: expected a value from 1 to", \
    *arg(m, IR_DOT, 0) = 777) \
DEF(operand_self, "found %d.9, which is not", \
    *arg(m, IR_DOT, 0) = node(m, IR_DOT)->result) \
DEF(operand_later, "node %x.2 (gather): operand 1: expected a value that is " \
    "defined above, found %r.6", \
    *arg(m, IR_GATHER, 0) = node(m, IR_ROPE)->result) \
DEF(order, "expected a value that is defined above", \
    swap(&body(m, 3)->nodes.at[1], &body(m, 3)->nodes.at[2])) \
DEF(operand_gone, "found %u.5 of a repeat that has ended", \
    *arg(m, IR_DOT, 0) = node(m, IR_CALL)->result) \
DEF(operand_other, "found %n.2 of layer `f`", \
    *arg(m, IR_DOT, 0) = body(m, 1)->results.at[0]) \
DEF(attr_missing, "expected the attribute `over`, found none", \
    node(m, IR_DOT)->nattrs = 0) \
DEF(attr_foreign, "node %d.9 (dot): takes no attribute `eps`", \
    attr(m, IR_DOT, IR_ATTR_OVER)->key = IR_ATTR_EPS) \
DEF(attr_unknown, "expected an attribute from 0 to", \
    attr(m, IR_DOT, IR_ATTR_OVER)->key = 200) \
DEF(attr_order, "found `eps` before `over`", \
    struct ir_attr *a = attr(m, IR_RMSNORM, IR_ATTR_OVER), t = a[0]; \
    a[0] = a[1]; a[1] = t) \
DEF(attr_twice, "found `eps` before `eps`", \
    struct ir_attr *a = attr(m, IR_RMSNORM, IR_ATTR_OVER); a[0] = a[1]) \
DEF(dims_none, "expected a result of type f32[hidden, seq, vocab], found f32", \
    attr(m, IR_DOT, IR_ATTR_OVER)->ndims = 0) \
DEF(dims_range, "expected a dim from 1 to 5 in `over`, found 99", \
    attr(m, IR_DOT, IR_ATTR_OVER)->dims[0] = 99) \
DEF(dims_two, "expected 1 dim in `of`, found 2", \
    attr(m, IR_SLICE, IR_ATTR_OF)->ndims = 2) \
DEF(eps, "node %n.2 (rmsnorm): expected `eps` above 0, found -1", \
    attr(m, IR_RMSNORM, IR_ATTR_EPS)->num = -1) \
DEF(eps_nan, "expected a finite `eps`", \
    attr(m, IR_RMSNORM, IR_ATTR_EPS)->num = NAN) \
DEF(count, "expected `count` of at least 1, found 0", \
    attr(m, IR_REPEAT, IR_ATTR_COUNT)->i = 0) \
DEF(count_expr, "to be what its expression comes to, 8, found 3", \
    attr(m, IR_REPEAT, IR_ATTR_COUNT)->expr = ir_expr_const(m, 8)) \
DEF(var, "expected a word in `var`", \
    attr(m, IR_REPEAT, IR_ATTR_VAR)->text = word(m, "a.b")) \
DEF(cut, "expected at + size of at most the 8 of `hidden`, found 5 + 4", \
    attr(m, IR_SLICE, IR_ATTR_AT)->i = 5) \
DEF(groups, "expected groups that divide `hidden` = 8, found 3", \
    attr(m, IR_TOPK, IR_ATTR_GROUPS)->i = 3) \
DEF(top_groups, "expected at most 2 top_groups", \
    attr(m, IR_TOPK, IR_ATTR_TOP_GROUPS)->i = 3) \
DEF(group_room, "expected `best` of at most 1, what 1 of 8 groups hold", \
    attr(m, IR_TOPK, IR_ATTR_GROUPS)->i = 8) \
DEF(band, "expected `low` of at most `high`, found 1 and 0.5", \
    attr(m, IR_ROPE, IR_ATTR_HIGH)->num = 0.5) \
DEF(init, "expected init=normal, ones or zeros, found init=maybe", \
    attr(m, IR_WEIGHT, IR_ATTR_INIT)->text = word(m, "maybe")) \
DEF(init_std, "expected init=normal beside `std`", \
    attr(m, IR_WEIGHT, IR_ATTR_INIT)->text = word(m, "ones")) \
DEF(template, "found `{j}`", \
    attr(m, IR_CALL, IR_ATTR_NAME)->text = word(m, "a{j}")) \
DEF(template_open, "expected `{` and `}` in pairs", \
    attr(m, IR_CALL, IR_ATTR_NAME)->text = word(m, "a}")) \
DEF(template_inner, "expected only outermost dims of f32[vocab, hidden]", \
    attr(m, IR_WEIGHT, IR_ATTR_NAME)->text = word(m, "e{hidden}")) \
DEF(type_none, "expected a type below ", \
    m->values.at[node(m, IR_DOT)->result].type = 12345) \
DEF(type_dtype, "expected an element type below", \
    type(m, IR_DOT)->dtype = 77) \
DEF(type_wrong, "expected a result of type f32[seq, vocab], found bf16", \
    type(m, IR_DOT)->dtype = IR_BF16) \
DEF(type_dims, "expected dims from 1 to 5 in a type, found 50", \
    type(m, IR_DOT)->dims[0] = 50) \
DEF(type_twice, "expected each dim once in a type, found `seq` twice", \
    type(m, IR_DOT)->dims[1] = 1) \
DEF(type_index, "expected an index, and only that, to be into a dim", \
    type(m, IR_DOT)->of = 1) \
DEF(weight_index, "expected a float type, found idx<vocab>", \
    type(m, IR_WEIGHT)->dtype = IR_IDX; type(m, IR_WEIGHT)->of = 4) \
DEF(mask_index, "expected a float type, found idx<vocab>", \
    type(m, IR_DROPOUT_MASK)->dtype = IR_IDX; \
    type(m, IR_DROPOUT_MASK)->of = 4) \
DEF(rate, "expected `rate` below 1, found 1", \
    attr(m, IR_DROPOUT_MASK, IR_ATTR_RATE)->num = 1) \
DEF(rate_negative, "expected `rate` of at least 0, found -0.5", \
    attr(m, IR_DROPOUT_MASK, IR_ATTR_RATE)->num = -0.5) \
DEF(hint_text, "expected a name as hint", \
    m->values.at[node(m, IR_DOT)->result].hint = word(m, "9")) \
DEF(rule, "node %d.9 (dot): ", *arg(m, IR_DOT, 1) = *arg(m, IR_GATHER, 1)) \
DEF(callee_later, "expected a layer above", node(m, IR_CALL)->callee = 3) \
DEF(callee_none, "expected a layer above", node(m, IR_CALL)->callee = 0) \
DEF(callee_stray, "expected no callee, found 1", node(m, IR_DOT)->callee = 1) \
DEF(region_stray, "expected no region, found 1", node(m, IR_DOT)->region = 1) \
DEF(call_count, "expected 1 operands and 1 results, those of layer `f`", \
    node(m, IR_CALL)->nargs = 0) \
DEF(call_type, "node %u.5 (call): operand 1: expected type", \
    *arg(m, IR_CALL, 0) = node(m, IR_INPUT)->result) \
DEF(carried, "as many operands and parameters as results", \
    inner(m)->params.n = 0) \
DEF(carried_type, "node %y.3 (repeat): operand 1: expected type", \
    *arg(m, IR_REPEAT, 0) = node(m, IR_INPUT)->result) \
DEF(yield_none, "yield: expected 1 values, found 0", \
    inner(m)->results.n = 0) \
DEF(yield_type, "yield of value 1: expected type", \
    inner(m)->results.at[0] = node(m, IR_INPUT)->result) \
DEF(param_other, "expected parameter 0 of region", \
    inner(m)->params.at[0] = 1) \
DEF(one_name, "expected one tensor named \"e\"", \
    attr(m, IR_INPUT, IR_ATTR_NAME)->text = word(m, "e"))

#define DEF(name, words, ...) \
static void break_##name(struct ir_module *m) { __VA_ARGS__; }
ALL
#undef DEF

static const struct {
	const char *name, *words;
	void (*apply)(struct ir_module *m);
} breaks[] = {
#define DEF(name, words, ...) { #name, words, break_##name },
	ALL
#undef DEF
};

#define COUNT_OF(table) (sizeof(table) / sizeof(table)[0])

/* ---- the tests ---- */

static struct ir_module *
read_sound(struct ir_ctx *c)
{
	struct ir_module *m;
	uint32_t base;

	ir_ctx_init(c, NULL);
	assert_true(source_add(&c->sources, "sound.ir", sound, strlen(sound),
			       &base));
	m = ir_read(c, 0);
	if (!m || !ir_verify(m)) {
		diag_flush(&c->diags, stderr);
		fail_msg("the sound module is refused");
	}
	return m;
}

static void
each_break_is_found(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(breaks); i++) {
		struct ir_ctx c;
		struct ir_module *m = read_sound(&c);
		const char *text;

		breaks[i].apply(m);
		if (ir_verify(m) || c.diags.records.n == 0) {
			fail_msg("%s is not found", breaks[i].name);
		}
		text = c.diags.records.at[0].text;
		if (!strstr(text, breaks[i].words)) {
			fail_msg("%s: \"%s\" is not in \"%s\"",
				 breaks[i].name, breaks[i].words, text);
		}
		ir_ctx_release(&c);
	}
}

/* A broken module still prints, for the eye. */
static void
each_break_prints(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(breaks); i++) {
		struct ir_ctx c;
		struct ir_module *m = read_sound(&c);
		struct buf b;

		breaks[i].apply(m);
		buf_init(&b, &c.perm);
		ir_print(m, &b);
		assert_true(b.n > 0);
		ir_ctx_release(&c);
	}
}

/* A name used before its node is broken once, not at each use. */
static void
one_message_each(void **state)
{
	struct ir_ctx c;
	struct ir_module *m = read_sound(&c);

	(void)state;
	type(m, IR_ROPE)->dims[0] = 50;
	assert_false(ir_verify(m));
	assert_int_equal(c.diags.errors, 1);
	ir_ctx_release(&c);
}

/* ---- any damage at all ---- */

/* Writes over one byte or word of the n things at p, the first excepted. */
static void
hit(struct maker *g, void *p, uint32_t n, size_t bytes)
{
	unsigned char *at = p;
	uint32_t v = below(g, 4) ? below(g, 40) : below(g, UINT32_MAX);
	size_t word_at;

	if (n < 2) {
		return;
	}
	at += (1 + below(g, n - 1)) * bytes;
	word_at = below(g, (uint32_t)bytes / 4) * 4;
	if (below(g, 2)) {
		memcpy(at + word_at, &v, sizeof v);
	} else {
		at[below(g, (uint32_t)bytes)] = (unsigned char)v;
	}
}

static void
damage(struct maker *g, struct ir_module *m)
{
	struct ir_region *r = &m->regions.at[below(g, m->regions.n)];
	struct ir_node *n = &m->nodes.at[below(g, m->nodes.n)];
	struct span at = n->span;

	switch (below(g, 10)) {
	case 0:
		hit(g, m->dims.at, m->dims.n,
		    offsetof(struct ir_dim, span));
		break;
	case 1:
		hit(g, m->exprs.at, m->exprs.n, sizeof *m->exprs.at);
		break;
	case 2:
		hit(g, m->values.at, m->values.n, sizeof *m->values.at);
		break;
	case 3:
		hit(g, m->attrs.at, m->attrs.n, sizeof *m->attrs.at);
		break;
	case 4:
		hit(g, m->args.at, m->args.n, sizeof *m->args.at);
		break;
	case 5:
		hit(g, r->nodes.at, r->nodes.n, sizeof *r->nodes.at);
		break;
	case 6:
		hit(g, r->params.at, r->params.n, sizeof *r->params.at);
		break;
	case 7:
		hit(g, r->results.at, r->results.n, sizeof *r->results.at);
		break;
	case 8:
		m->funcs.at[below(g, m->funcs.n)].body =
			below(g, m->regions.n + 2);
		break;
	default:
		hit(g, m->nodes.at, m->nodes.n, sizeof *n);
		break;
	}
	n->span = at;
}

/* What the verifier lets through prints and reads; the rest is reported. */
static void
check_damaged(struct ir_ctx *c, struct ir_module *m, uint64_t seed)
{
	struct ir_ctx again;
	struct buf b;
	uint32_t base;

	buf_init(&b, &c->perm);
	if (!ir_verify(m)) {
		assert_true(c->diags.errors > 0);
		ir_print(m, &b);
		return;
	}
	ir_print(m, &b);
	ir_ctx_init(&again, NULL);
	assert_true(source_add(&again.sources, "t.ir", buf_text(&b), b.n,
			       &base));
	if (!ir_read(&again, 0)) {
		diag_flush(&again.diags, stderr);
		fail_msg("seed %llu is verified and does not read",
			 (unsigned long long)seed);
	}
	ir_ctx_release(&again);
}

static void
any_damage(void **state)
{
	uint32_t made[IR_OP_COUNT] = { 0 };
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= DAMAGED; seed++) {
		struct maker g = { .rng = seed * 1103515245 };
		struct ir_ctx c;
		struct ir_module *m;

		ir_ctx_init(&c, NULL);
		m = make_module(&c, seed % 500, made);
		do {
			damage(&g, m);
		} while (below(&g, 3) == 0);
		check_damaged(&c, m, seed);
		ir_ctx_release(&c);
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_break_is_found),
		cmocka_unit_test(each_break_prints),
		cmocka_unit_test(one_message_each),
		cmocka_unit_test(any_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
