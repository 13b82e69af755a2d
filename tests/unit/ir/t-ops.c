/* The tables of ops.def, and dimension rules bound to types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/ir.h"

static struct ir_ctx ctx;
static struct ir_module *m;

static int
setup(void **state)
{
	(void)state;
	ir_ctx_init(&ctx, NULL);
	m = ir_module_new(&ctx);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	ir_ctx_release(&ctx);
	return 0;
}

static dim_id
dim(const char *name, int64_t size)
{
	sym_t s = intern_str(&ctx.syms, name);
	dim_id d = ir_dim_find(m, s);

	return d ? d : ir_dim_add(m, s, size, 0, (struct span){ 0, 0 });
}

/* "bf16 b:4 s:8" or "idx<v:10> b:4": dims are made on first sight. */
static struct ir_type
type(const char *text)
{
	struct ir_type t = { 0 };
	char word[64], name[32];
	enum ir_dtype d;
	long long size;
	int n;

	assert_int_equal(sscanf(text, "%63s%n", word, &n), 1);
	if (sscanf(word, "idx<%31[^:]:%lld>", name, &size) == 2) {
		t.dtype = IR_IDX;
		t.of = dim(name, size);
	} else {
		assert_true(ir_find_dtype(word, &d));
		t.dtype = (uint8_t)d;
	}
	for (text += n; sscanf(text, "%31[ a-z]:%lld%n", name, &size, &n) == 2;
	     text += n) {
		t.dims[t.ndims++] = dim(name + strspn(name, " "), size);
	}
	return t;
}

/* Every row says a rule that can be read, of its own operand count. */
static void
test_rows(void **state)
{
	struct ir_rule r;
	enum ir_op found;
	int op;

	(void)state;
	for (op = 0; op < IR_OP_COUNT; op++) {
		const struct ir_op_info *i = &ir_ops[op];

		assert_true(ir_find_op(i->name, &found));
		assert_int_equal(found, op);
		ir_rule_read(&r, (enum ir_op)op);
		if (i->nargs >= 0) {
			assert_int_equal(r.nops, i->nargs);
			assert_int_equal(strlen(i->dtypes), i->nargs +
					 !(i->flags & IRF_SINK));
		}
		if (i->nargs > 0) {
			assert_true(*i->bytes != '\0' ||
				    i->flags & IRF_CACHED);
		}
		assert_true(*i->help != '\0');
	}
}

/* Every attribute in a row exists, and every attribute is in some row. */
static void
test_attr_rows(void **state)
{
	int op, key;

	(void)state;
	for (op = 0; op < IR_OP_COUNT; op++) {
		const char *p = ir_ops[op].attrs;

		while (*p) {
			size_t n = strcspn(p, " ?");
			enum ir_attr_key k;

			assert_true(ir_find_attr(arena_strndup(&ctx.tmp, p, n),
						 &k));
			assert_int_equal(ir_op_takes((enum ir_op)op, k),
					 p[n] == '?' ? IR_TAKES_OPTION
						     : IR_TAKES_MUST);
			p += n;
			p += strspn(p, " ?");
		}
	}
	for (key = 0; key < IR_NATTRS; key++) {
		bool taken = false;

		for (op = 0; op < IR_OP_COUNT; op++) {
			taken |= ir_op_takes((enum ir_op)op,
					     (enum ir_attr_key)key) !=
				 IR_TAKES_NOT;
		}
		assert_true(taken);
	}
}

static const char *
read_page(const char *name)
{
	const char *top = getenv("top_srcdir");
	const char *path = arena_printf(&ctx.tmp, "%s/%s", top ? top : ".",
					name);
	char *text = arena_alloc(&ctx.tmp, 1 << 20);
	FILE *f = fopen(path, "r");

	if (!f) {
		fail_msg("%s cannot be read", path);
	}
	text[fread(text, 1, (1 << 20) - 1, f)] = '\0';
	fclose(f);
	return text;
}

/* The table of docs/ir.md is that of ops.def, attrs.def that of attrs.def. */
static void
test_docs(void **state)
{
	static const char *const rc[] = { "never", "cheap", "row", "heavy" };
	static const char *const kind[] = {
		"dim", "dims", "int", "number", "flag", "word", "string",
		"element type", "axes", "numbers"
	};
	const char *page = read_page("docs/ir.md"), *row;
	int i;

	(void)state;
	for (i = 0; i < IR_OP_COUNT; i++) {
		const struct ir_op_info *op = &ir_ops[i];
		const char *tick = *op->rule ? "`" : "";
		const char *code = *op->split ? "`" : "";

		row = arena_printf(&ctx.tmp, "| `%s` | %s%s%s | %s%s%s | %s "
				   "| %s | %s |\n", op->name, tick, op->rule,
				   tick, code, op->split, code, op->attrs,
				   rc[op->recompute], op->help);
		if (op->nargs >= 0 && !strstr(page, row)) {
			fail_msg("docs/ir.md lacks the row\n%s", row);
		}
	}
	for (i = 0; i < IR_NATTRS; i++) {
		row = arena_printf(&ctx.tmp, "| `%s` | %s | %s |\n",
				   ir_attrs[i].name, kind[ir_attrs[i].kind],
				   ir_attrs[i].help);
		if (!strstr(page, row)) {
			fail_msg("docs/ir.md lacks the row\n%s", row);
		}
	}
}

struct infer_case {
	enum ir_op op;
	const char *a, *b, *c;
	const char *over, *of, *to;	/* dims by name, or NULL */
	const char *want;		/* a type, or what the error says */
};

static const struct infer_case good[] = {
	{ IR_ADD, "f32 b:2 s:3 h:4", "f32 h:4", NULL, NULL, NULL, NULL,
	  "f32[b, s, h]" },
	{ IR_ADD, "f32 h:4", "f32 b:2 s:3 h:4", NULL, NULL, NULL, NULL,
	  "f32[b, s, h]" },
	{ IR_DOT, "bf16 b:2 s:3 h:4", "bf16 n:2 d:2 h:4", NULL, "h", NULL,
	  NULL, "bf16[b, s, n, d]" },
	{ IR_DOT_AT, "f32 b:2 s:3 h:4", "idx<e:8> b:2 s:3 c:2",
	  "f32 e:8 f:5 h:4", "h", "e", NULL, "f32[b, s, c, f]" },
	{ IR_DOT_AT, "f32 b:2 s:3 c:2 f:5", "idx<e:8> b:2 s:3 c:2",
	  "f32 e:8 h:4 f:5", "f", "e", NULL, "f32[b, s, c, h]" },
	{ IR_GATHER, "f32 v:9 h:4", "idx<v:9> b:2 s:3", NULL, NULL, "v",
	  NULL, "f32[b, s, h]" },
	{ IR_GATHER, "f32 b:2 s:3 e:8", "idx<e:8> b:2 s:3 c:2", NULL, NULL,
	  "e", NULL, "f32[b, s, c]" },
	{ IR_SUM, "f32 b:2 c:2 h:4", NULL, NULL, "c", NULL, NULL,
	  "f32[b, h]" },
	{ IR_SOFTMAX, "f32 b:2 c:2 h:4", NULL, NULL, "c", NULL, NULL,
	  "f32[b, c, h]" },
	{ IR_SLICE, "f32 p:9 h:4", NULL, NULL, NULL, "p", "s",
	  "f32[s, h]" },
	{ IR_CONCAT, "f32 b:2 n:2 x:3", "f32 b:2 y:6", NULL, NULL, NULL, "p",
	  "f32[b, n, p]" },
	{ IR_TOPK, "f32 b:2 e:8", NULL, NULL, NULL, "e", "c",
	  "idx<e>[b, c]" },
	{ IR_ATTENTION, "f32 b:2 s:3 n:2 d:2", "f32 b:2 s:3 k:1 d:2",
	  "f32 b:2 s:3 k:1 z:7", NULL, NULL, NULL, "f32[b, s, n, z]" },
	{ IR_CROSS_ENTROPY, "bf16 b:2 s:3 v:9", "idx<v:9> b:2 s:3", NULL,
	  NULL, NULL, NULL, "f32[b, s]" },
	{ IR_LOG_SUM_EXP, "bf16 b:2 c:2 h:4", NULL, NULL, "c", NULL, NULL,
	  "f32[b, h]" },
};

static const struct infer_case bad[] = {
	{ IR_ADD, "f32 b:2 h:4", "f32 b:2 f:5", NULL, NULL, NULL, NULL,
	  "which has `f`, and operand 1" },
	{ IR_ADD, "f32 h:4", "bf16 h:4", NULL, NULL, NULL, NULL, "cast" },
	{ IR_ADD, "f32 h:4", NULL, NULL, NULL, NULL, NULL,
	  "takes 2 operands, and 1 is given" },
	{ IR_DOT, "f32 b:2 h:4", "f32 f:5 h:4", NULL, "f", NULL, NULL,
	  "needs `f` in operand 1" },
	{ IR_DOT, "f32 b:2 h:4", "f32 f:5 h:4", NULL, NULL, NULL, NULL,
	  "needs `over=`" },
	{ IR_TOPK, "f32 b:2 c:2", NULL, NULL, NULL, "c", "e",
	  "`e` = 8 is more than the 2 of `c`" },
	{ IR_CONCAT, "f32 b:2 x:3", "f32 b:2 y:6", NULL, NULL, NULL, "e",
	  "make 9, and `e` is 8" },
	{ IR_ATTENTION, "f32 b:2 s:3 n:2 d:2", "f32 b:2 s:3 x:3 d:2",
	  "f32 b:2 s:3 x:3 d:2", NULL, NULL, NULL,
	  "`n` = 2 is not a multiple of `x` = 3" },
	{ IR_ATTENTION, "f32 b:2 s:3 n:2 d:2", "f32 b:2 s:3 n:2 z:7",
	  "f32 b:2 s:3 n:2 z:7", NULL, NULL, NULL,
	  "`d` is expected where it has `z`" },
	{ IR_GATHER, "f32 v:9 h:4", "idx<e:8> b:2", NULL, NULL, "v", NULL,
	  "an index into `v` is expected" },
	{ IR_SILU, "idx<e:8> b:2", NULL, NULL, NULL, NULL, NULL,
	  "numbers are expected" },
	{ IR_SLICE, "f32 b:2 h:4", NULL, NULL, NULL, "h", "b",
	  "`b` would be twice" },
};

static void
check(const struct infer_case *c, bool ok)
{
	const char *text[3] = { c->a, c->b, c->c };
	const struct ir_type *ops[3];
	struct ir_type t[3], out = { 0 };
	const char *why = "";
	struct ir_new n;
	uint32_t i, nargs = 0;

	ir_new_init(&n, c->op, (struct span){ 0, 0 });
	for (i = 0; i < 3 && text[i]; i++, nargs++) {
		t[i] = type(text[i]);
		ops[i] = &t[i];
	}
	if (c->over) {
		ir_new_dim(&n, IR_ATTR_OVER, dim(c->over, 1));
	}
	if (c->of) {
		ir_new_dim(&n, IR_ATTR_OF, dim(c->of, 1));
	}
	if (c->to) {
		ir_new_dim(&n, IR_ATTR_TO, dim(c->to, 1));
	}
	if (ir_infer(m, c->op, ops, nargs, n.attrs, n.nattrs, &out, &why) !=
	    ok) {
		fail_msg("%s: %s", ir_ops[c->op].name, why);
	}
	if (ok) {
		assert_string_equal(ir_type_text(m, &out), c->want);
	} else if (!strstr(why, c->want)) {
		fail_msg("%s: \"%s\" does not say \"%s\"",
			 ir_ops[c->op].name, why, c->want);
	}
}

static void
test_infer(void **state)
{
	size_t i;

	(void)state;
	type("f32 b:2 s:3 h:4 c:2 e:8 f:5");
	type("f32 v:9 p:9 n:2 d:2 k:1 z:7");
	for (i = 0; i < sizeof good / sizeof *good; i++) {
		check(&good[i], true);
	}
	for (i = 0; i < sizeof bad / sizeof *bad; i++) {
		check(&bad[i], false);
	}
}

/* What the planner will ask: a factor without a place on the right. */
static void
test_reduced_factors(void **state)
{
	struct ir_rule r;

	(void)state;
	ir_rule_read(&r, IR_DOT);
	assert_false(ir_rule_factor(&r, "over")->out);
	assert_true(ir_rule_factor(&r, "N")->out);
	assert_int_equal(ir_rule_factor(&r, "over")->in, 3);
	ir_rule_read(&r, IR_GATHER);
	assert_false(ir_rule_factor(&r, "of")->out);
	ir_rule_read(&r, IR_ATTENTION);
	assert_false(ir_rule_factor(&r, "t")->out);
	assert_false(ir_rule_factor(&r, "d")->out);
	assert_true(ir_rule_factor(&r, "h")->out);
}

static void
test_exprs(void **state)
{
	expr_id a = ir_expr_const(m, 12), b = ir_expr_const(m, 5), e;
	const char *why = NULL;
	int i;

	(void)state;
	assert_int_equal(ir_expr_op(m, EXPR_DIV, a, b, &why), 0);
	assert_string_equal(why, "12 / 5 does not divide evenly");
	e = ir_expr_op(m, EXPR_MUL, a, b, &why);
	assert_int_equal(m->exprs.at[e].value, 60);
	e = ir_expr_const(m, INT64_MAX);
	assert_int_equal(ir_expr_op(m, EXPR_ADD, e, a, &why), 0);
	assert_non_null(strstr(why, "does not fit 63 bits"));
	for (i = 0, e = a; e; i++) {
		e = ir_expr_op(m, EXPR_ADD, e, b, &why);
	}
	assert_int_equal(i, IR_MAX_DEPTH + 1);
	assert_non_null(strstr(why, "nests deeper"));
}

/* The row of each map that is defined by others is read, to one result. */
static void
test_definitions(void **state)
{
	struct ir_definition d;
	int op, found = 0;
	uint32_t i;

	(void)state;
	for (op = 0; op < IR_OP_COUNT; op++) {
		int depth = 0;

		if (!ir_define((enum ir_op)op, &d)) {
			continue;
		}
		found++;
		for (i = 0; i < d.n; i++) {
			depth += d.step[i].kind == IR_DEFINE_MAP
				? 1 - ir_ops[d.step[i].op].nargs : 1;
			assert_true(depth > 0);
		}
		assert_int_equal(depth, 1);
		assert_true(ir_is((enum ir_op)op, IRF_MAP));
	}
	assert_true(found >= 3);
	assert_false(ir_define(IR_TANH, &d));
	assert_true(ir_define(IR_SILU, &d));
	assert_int_equal(d.n, 4);	/* a a sigmoid mul */
	assert_int_equal(d.step[2].op, IR_SIGMOID);
	assert_int_equal(d.step[3].op, IR_MUL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_rows), TEST(test_attr_rows), TEST(test_infer),
		TEST(test_reduced_factors), TEST(test_exprs),
		TEST(test_docs), TEST(test_definitions),
	};

	return cmocka_run_group_tests_name("ops", tests, NULL, NULL);
}
