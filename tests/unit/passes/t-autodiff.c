/*
 * Derivatives against central differences in float64: every op that has one,
 * alone, and whole models, through repeats and ties.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "passes/pass.h"

/* ---- tensors by name ---- */

struct tensor {
	char name[128];
	int64_t n;
	double *value, *grad;
};

static struct {
	struct ir_ctx c;
	struct tensor at[256];
	int n;
	bool positive;		/* weights stay away from 0 and below */
} s;

static struct tensor *
tensor(const char *name, int64_t n)
{
	struct tensor *t;
	int64_t i;
	int k;

	for (k = 0; k < s.n; k++) {
		if (strcmp(s.at[k].name, name) == 0) {
			assert_int_equal(s.at[k].n, n);
			return &s.at[k];
		}
	}
	assert_true(s.n < 256);
	t = &s.at[s.n++];
	snprintf(t->name, sizeof t->name, "%s", name);
	t->n = n;
	t->value = calloc((size_t)n, sizeof *t->value);
	t->grad = calloc((size_t)n, sizeof *t->grad);
	for (i = 0; i < n; i++) {
		double x = ir_rng_normal(ir_rng_key(name, 5), (uint64_t)i);

		t->value[i] = s.positive ? 1.2 + 0.8 * sin(x) : 0.5 * x;
	}
	return t;
}

static bool
get(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, double *out, struct span at)
{
	(void)user;
	(void)op;
	(void)type;
	(void)at;
	memcpy(out, tensor(name, elems)->value,
	       (size_t)elems * sizeof *out);
	return true;
}

static bool
put(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, const double *data, struct span at)
{
	struct tensor *t = tensor(name, elems);
	int64_t i;

	(void)user;
	(void)type;
	(void)at;
	assert_int_equal(op, IR_ACCUMULATE);
	for (i = 0; i < elems; i++) {
		t->grad[i] += data[i];
	}
	return true;
}

static double
loss_of(struct ir_module *m, bool gradients)
{
	struct ir_weights w = { .get = get, .put = gradients ? put : NULL };
	struct ir_eval_options opt = { .seed = 3, .weights = &w };
	struct ir_eval_result r[1];
	uint32_t n;

	if (!ir_eval(m, &opt, r, 1, &n)) {
		fail_msg("%s", s.c.diags.records.at[0].text);
	}
	return r[0].data[0];
}

/* ---- the comparison ---- */

/* The fourth-order central difference. */
static double
difference(struct ir_module *m, double *x)
{
	double h = 1e-3, keep = *x, f[4];
	int i;

	for (i = 0; i < 4; i++) {
		*x = keep + h * (i < 2 ? i - 2 : i - 1);
		f[i] = loss_of(m, false);
	}
	*x = keep;
	return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
}

static void
run(struct ir_module *m, const char *pass)
{
	if (pass_apply(m, pass, true) != PASS_OK) {
		diag_flush(&s.c.diags, stderr);
		fail_msg("%s fails", pass);
	}
}

static struct ir_module *
read_text(const char *text)
{
	struct ir_module *m;
	uint32_t base;

	ir_ctx_init(&s.c, NULL);
	s.n = 0;
	assert_true(source_add(&s.c.sources, "t", text, strlen(text), &base));
	m = ir_read(&s.c, s.c.sources.files.n - 1);
	if (!m) {
		diag_flush(&s.c.diags, stderr);
		fail_msg("cannot read\n%s", text);
	}
	return m;
}

/* Up to `most` elements of each weight; returns how many were compared. */
static int
compare(const char *what, const char *text, int most)
{
	struct ir_module *m = read_text(text);
	double before, err, want;
	int compared = 0, k;
	int64_t i, step;

	run(m, "fold-dims,inline");
	before = loss_of(m, false);
	run(m, "autodiff");
	assert_true(loss_of(m, true) == before);
	for (k = 0; k < s.n; k++) {
		step = s.at[k].n / most + 1;
		for (i = k % step; i < s.at[k].n; i += step, compared++) {
			want = difference(m, &s.at[k].value[i]);
			err = fabs(s.at[k].grad[i] - want);
			if (!(err <= 1e-6 * (fabs(want) + 1e-3))) {
				fail_msg("%s: gradient of %s[%d] is %.12g, "
					 "and the difference is %.12g", what,
					 s.at[k].name, (int)i,
					 s.at[k].grad[i], want);
			}
		}
	}
	/* rebuilding, merging and removing change no gradient */
	for (k = 0; k < s.n; k++) {
		for (i = 0; i < s.at[k].n; i++) {
			s.at[k].grad[i] = -s.at[k].grad[i];
		}
	}
	run(m, "recompute,cse,dce");
	assert_true(loss_of(m, true) == before);
	for (k = 0; k < s.n; k++) {
		for (i = 0; i < s.at[k].n; i++) {
			assert_true(fabs(s.at[k].grad[i]) < 1e-12);
		}
		free(s.at[k].value);
		free(s.at[k].grad);
	}
	ir_ctx_release(&s.c);
	return compared;
}

/* ---- single ops ---- */

/*
 * Operands are types, "i" before that of an input: an index.  The loss
 * is the sum of the result times a weight of its type.
 */
struct op_case {
	const char *op, *attrs, *result, *operand[6];
	bool positive;
};

static const struct op_case cases[] = {
	{ "neg", "", "f32[b, s]", { "f32[b, s]" }, false },
	{ "exp", "", "f32[b, s]", { "f32[b, s]" }, false },
	{ "log", "", "f32[b, s]", { "f32[b, s]" }, true },
	{ "sqrt", "", "f32[b, s]", { "f32[b, s]" }, true },
	{ "rsqrt", "", "f32[b, s]", { "f32[b, s]" }, true },
	{ "tanh", "", "f32[b, s]", { "f32[b, s]" }, false },
	{ "sigmoid", "", "f32[b, s]", { "f32[b, s]" }, false },
	{ "erf", "", "f32[b, s]", { "f32[b, s]" }, false },
	{ "relu", "", "f32[b, s]", { "f32[b, s]" }, false },
	{ "relu2", "", "f32[b, s]", { "f32[b, s]" }, false },
	{ "silu", "", "f32[b, s]", { "f32[b, s]" }, false },
	{ "gelu", "", "f32[b, s]", { "f32[b, s]" }, false },
	{ "gelu_erf", "", "f32[b, s]", { "f32[b, s]" }, false },
	{ "cast", "", "f32[b, s]", { "bf16[b, s]" }, false },
	{ "cache", "", "f32[b, s]", { "f32[b, s]" }, false },
	{ "add", "", "f32[b, s, h]", { "f32[b, s, h]", "f32[h]" }, false },
	{ "sub", "", "f32[b, s]", { "f32[s]", "f32[b, s]" }, false },
	{ "mul", "", "f32[b, s]", { "f32[b, s]", "f32[b]" }, false },
	{ "div", "", "f32[b, s]", { "f32[b, s]", "f32[s]" }, true },
	{ "min", "", "f32[b, s]", { "f32[b, s]", "f32[s]" }, false },
	{ "max", "", "f32[b, s]", { "f32[b, s]", "f32[s]" }, false },
	{ "sum", " over=s", "f32[b]", { "f32[b, s]" }, false },
	{ "mean", " over=(b, h)", "f32[s]", { "f32[b, s, h]" }, false },
	{ "softmax", " over=s", "f32[b, s, h]", { "f32[b, s, h]" }, false },
	{ "rmsnorm", " over=h eps=0.001", "f32[b, s, h]",
	  { "f32[b, s, h]", "f32[h]" }, false },
	{ "layernorm", " over=h eps=0.001", "f32[b, s, h]",
	  { "f32[b, s, h]", "f32[h]", "f32[h]" }, false },
	{ "rope", " seq=s theta=100", "f32[b, s, h]", { "f32[b, s, h]" },
	  false },
	{ "rope", " seq=s theta=100 interleaved", "f32[b, s, h]",
	  { "f32[b, s, h]" }, false },
	{ "rope", " seq=s theta=100 factor=4 fast=2 slow=0.01 original=16",
	  "f32[b, s, h]", { "f32[b, s, h]" }, false },
	{ "rope", " seq=s theta=100 stretch=(1, 3)", "f32[b, s, h]",
	  { "f32[b, s, h]" }, false },
	{ "rope_at", " theta=100 interleaved", "f32[b, s, h]",
	  { "f32[b, s, h]", "i f32[b, s]" }, false },
	{ "slice", " of=h to=d at=1", "f32[b, d]", { "f32[b, h]" }, false },
	{ "select", " of=s at=2", "f32[b, h]", { "f32[b, s, h]" }, false },
	{ "concat", " to=p", "f32[b, n, p]", { "f32[b, n, h]", "f32[b, d]" },
	  false },
	{ "gather", " of=e", "f32[b, c, h]", { "f32[e, h]",
	  "i idx<e>[b, c]" }, false },
	{ "gather", " of=e", "f32[b, c]", { "f32[b, e]", "i idx<e>[b, c]" },
	  false },
	{ "expand", " over=(s, h)", "f32[b, s, h]", { "f32[b]" }, false },
	{ "arrange", " over=(h, s, b)", "f32[h, s, b]", { "f32[b, s, h]" },
	  false },
	{ "pad", " of=d to=h at=1", "f32[b, h]", { "f32[b, d]" }, false },
	{ "put", " of=e at=3", "f32[b, e]", { "f32[b]" }, false },
	{ "scatter", " of=e over=(b, c)", "f32[e, h]", { "f32[b, c, h]",
	  "i idx<e>[b, c]" }, false },
	{ "scatter", " of=e over=c", "f32[b, e, h]", { "f32[b, c, h]",
	  "i idx<e>[b, c]" }, false },
	{ "dot", " over=h", "f32[b, s, n, d]", { "f32[b, s, h]",
	  "f32[n, d, h]" }, false },
	{ "dot", " over=(n, d)", "f32[b, h]", { "f32[b, n, d]",
	  "f32[n, h, d]" }, false },
	{ "dot", " over=s", "f32[b, h, d]", { "f32[b, s, h]",
	  "f32[b, d, s]" }, false },
	{ "dot", " over=h", "f32[d]", { "f32[h]", "f32[d, h]" }, false },
	{ "dot", " over=h", "f32[b, s]", { "f32[b, s, h]", "f32[h]" },
	  false },
	{ "dot", " over=(b, h)", "f32[]", { "f32[b, h]", "f32[h, b]" },
	  false },
	{ "dot_f32", " over=h", "f32[b, s, d]", { "f32[b, s, h]",
	  "f32[d, h]" }, false },
	{ "gather", " of=e", "f32[b]", { "f32[b, e]", "i idx<e>[b]" },
	  false },
	{ "dot_at", " over=h of=e", "f32[b, c, d]", { "f32[b, h]",
	  "i idx<e>[b, c]", "f32[e, d, h]" }, false },
	{ "dot_at", " over=d of=e", "f32[b, c, h]", { "f32[b, c, d]",
	  "i idx<e>[b, c]", "f32[e, h, d]" }, false },
	{ "dot_at_f32", " over=h of=e", "f32[b, c, d]", { "f32[b, h]",
	  "i idx<e>[b, c]", "f32[e, d, h]" }, false },
	{ "attention", "", "f32[b, s, n, d]", { "f32[b, s, n, d]",
	  "f32[b, s, k, d]", "f32[b, s, k, d]" }, false },
	{ "attention", " causal", "f32[b, s, n, h]", { "f32[b, s, n, d]",
	  "f32[b, s, n, d]", "f32[b, s, n, h]" }, false },
	{ "attention", " causal window=2 scale=0.3", "f32[b, s, n, d]",
	  { "f32[b, s, n, d]", "f32[b, s, k, d]", "f32[b, s, k, d]" },
	  false },
	{ "attention", " causal softcap=0.7", "f32[b, s, n, d]",
	  { "f32[b, s, n, d]", "f32[b, s, k, d]", "f32[b, s, k, d]" },
	  false },
	{ "attention", "", "f32[b, s, n, d]", { "f32[b, s, n, d]",
	  "f32[b, e, k, d]", "f32[b, e, k, d]" }, false },
	{ "attention_sinks", " causal softcap=0.7", "f32[b, s, n, d]",
	  { "f32[b, s, n, d]", "f32[b, s, k, d]", "f32[b, s, k, d]",
	    "f32[n]" }, false },
	{ "counted", " of=e", "f32[b, s]", { "f32[b, s]", "i f32[e]",
	  "i idx<e>[b, s]" }, false },
	{ "attention_between", " alibi=3", "f32[b, s, n, d]",
	  { "f32[b, s, n, d]", "f32[b, s, k, d]", "f32[b, s, k, d]",
	    "i f32[b, s]", "i f32[b, s]" }, false },
	{ "attention_sinks_between", " causal", "f32[b, s, n, d]",
	  { "f32[b, s, n, d]", "f32[b, s, k, d]", "f32[b, s, k, d]",
	    "f32[n]", "i f32[b, s]", "i f32[b, s]" }, false },
	{ "cross_entropy", "", "f32[b, s]", { "f32[b, s, e]",
	  "i idx<e>[b, s]" }, false },
	{ "log_sum_exp", " over=(s, h)", "f32[b]", { "f32[b, s, h]" },
	  false },
};

static const char header[] =
	"llmc-ir 1\nmodule t\n"
	"dim b = 2\ndim s = 4\ndim h = 4\ndim n = 4\ndim k = 2\ndim d = 2\n"
	"dim e = 5\ndim c = 3\ndim p = 6\n\n";

/* "f32[b, s]" -> "(b, s)" */
static void
over_all(const char *type, char *out, size_t n)
{
	const char *open = strchr(type, '[');

	snprintf(out, n, "(%.*s)", (int)strlen(open) - 2, open + 1);
}

static void
case_text(const struct op_case *c, char *text, size_t n)
{
	char operands[64] = "", over[64];
	size_t k = (size_t)snprintf(text, n, "%smodel {\n", header);
	int i;

	for (i = 0; i < 6 && c->operand[i]; i++) {
		bool input = c->operand[i][0] == 'i' &&
			     c->operand[i][1] == ' ';

		k += (size_t)snprintf(text + k, n - k,
				      "  %%%d = %s name=\"%c\" : %s\n", i,
				      input ? "input" : "weight", 'a' + i,
				      c->operand[i] + (input ? 2 : 0));
		snprintf(operands + strlen(operands),
			 sizeof operands - strlen(operands), "%s%%%d",
			 i ? ", " : " ", i);
	}
	over_all(c->result, over, sizeof over);
	snprintf(text + k, n - k, "  %%10 = %s%s%s : %s\n"
		 "  %%11 = weight name=\"z\" : %s\n"
		 "  %%12 = mul %%10, %%11 : %s\n"
		 "  %%13 = sum %%12 over=%s : f32[]\n  return %%13\n}\n",
		 c->op, operands, c->attrs, c->result, c->result, c->result,
		 over);
}

static void
test_each_op(void **state)
{
	char text[2048];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof cases / sizeof *cases; i++) {
		s.positive = cases[i].positive;
		case_text(&cases[i], text, sizeof text);
		assert_true(compare(cases[i].op, text, 1000) > 0);
	}
	s.positive = false;
}

/* No op with a derivative is left out above. */
static void
test_all_ops_are_cases(void **state)
{
	size_t i;
	int op;

	(void)state;
	for (op = 0; op < IR_OP_COUNT; op++) {
		bool found = *ir_ops[op].grad == '\0';

		for (i = 0; i < sizeof cases / sizeof *cases; i++) {
			found |= strcmp(cases[i].op, ir_ops[op].name) == 0;
		}
		if (!found) {
			fail_msg("%s has a derivative and no case",
				 ir_ops[op].name);
		}
	}
}

/* ---- programs ---- */

/*
 * Nested repeats, two carried values of which one is an outer value in the
 * first iteration, an outer value and an outer weight used inside, and a weight
 * used twice.
 */
static const char nested[] =
	"model {\n"
	"  %0 = weight name=\"a\" : f32[b, h]\n"
	"  %1 = weight name=\"o\" : f32[b, h]\n"
	"  %2 = tanh %1 : f32[b, h]\n"
	"  %3, %4 = repeat count=3 var=i (%5 = %0, %6 = %2) "
	": f32[b, h], f32[b, h] {\n"
	"    %7 = weight name=\"w.{i}\" : f32[h]\n"
	"    %8 = mul %5, %7 : f32[b, h]\n"
	"    %9 = repeat count=2 start=1 (%10 = %8) : f32[b, h] {\n"
	"      %11 = silu %10 : f32[b, h]\n"
	"      %12 = mul %11, %2 : f32[b, h]\n"
	"      %13 = add %12, %6 : f32[b, h]\n"
	"      %14 = add %13, %1 : f32[b, h]\n"
	"      yield %14\n"
	"    }\n"
	"    %15 = add %9, %2 : f32[b, h]\n"
	"    yield %15, %9\n"
	"  }\n"
	"  %16 = mul %3, %4 : f32[b, h]\n"
	"  %17 = mul %16, %0 : f32[b, h]\n"
	"  %18 = mean %17 over=(b, h) : f32[]\n"
	"  return %18\n"
	"}\n";

static void
test_nested(void **state)
{
	static const char *const hints[] = {
		"", "hint recompute full\n", "hint recompute attention\n"
	};
	char text[2048];
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		snprintf(text, sizeof text, "%s%s%s", header, hints[i],
			 nested);
		assert_int_equal(compare("nested", text, 1000),
				 8 + 8 + 3 * 4);
	}
}

/*
 * A mask per iteration, and one outside that an iteration reads through views.
 */
static const char dropped[] =
	"model {\n"
	"  %0 = weight name=\"a\" : f32[b, h]\n"
	"  %1 = dropout_mask name=\"o\" rate=0.4 : f8e4m3[h]\n"
	"  %2 = repeat count=3 var=i (%3 = %0) : f32[b, h] {\n"
	"    %4 = weight name=\"w.{i}\" : f32[h]\n"
	"    %5 = mul %3, %4 : f32[b, h]\n"
	"    %6 = dropout_mask name=\"m.{i}\" rate=0.5 : f8e4m3[b, h]\n"
	"    %7 = cast %6 : f32[b, h]\n"
	"    %8 = mul %5, %7 : f32[b, h]\n"
	"    %9 = const value=2 : f32[]\n"
	"    %10 = mul %8, %9 : f32[b, h]\n"
	"    %11 = expand %1 over=b : f8e4m3[h, b]\n"
	"    %12 = cast %11 : f32[h, b]\n"
	"    %13 = mul %10, %12 : f32[b, h]\n"
	"    %14 = add %13, %3 : f32[b, h]\n"
	"    yield %14\n"
	"  }\n"
	"  %15 = mul %2, %2 : f32[b, h]\n"
	"  %16 = sum %15 over=(b, h) : f32[]\n"
	"  return %16\n"
	"}\n";

static void
test_dropped(void **state)
{
	static const char *const hints[] = {
		"", "hint recompute full\n", "hint recompute attention\n"
	};
	char text[2048];
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		snprintf(text, sizeof text, "%s%s%s", header, hints[i],
			 dropped);
		assert_int_equal(compare("dropped", text, 1000), 8 + 3 * 4);
	}
}

/* What every iteration hands on is the same outer value. */
static void
test_yields_outer(void **state)
{
	char text[2048];

	(void)state;
	snprintf(text, sizeof text, "%smodel {\n"
		 "  %%0 = weight name=\"a\" : f32[b]\n"
		 "  %%1 = exp %%0 : f32[b]\n"
		 "  %%2 = tanh %%0 : f32[b]\n"
		 "  %%3, %%4 = repeat count=2 (%%5 = %%1, %%6 = %%2) "
		 ": f32[b], f32[b] {\n"
		 "    %%7 = mul %%5, %%6 : f32[b]\n"
		 "    yield %%7, %%1\n  }\n"
		 "  %%8 = mul %%3, %%4 : f32[b]\n"
		 "  %%9 = sum %%8 over=b : f32[]\n  return %%9\n}\n", header);
	assert_int_equal(compare("outer", text, 1000), 2);
}

static void
test_refusals(void **state)
{
	struct pass_ctx p = { .ctx = &s.c };
	char text[2048];

	(void)state;
	snprintf(text, sizeof text, "%smodel {\n"
		 "  %%0 = weight name=\"a\" : f32[b]\n"
		 "  %%1 = cos %%0 : f32[b]\n"
		 "  %%2 = sum %%1 over=b : f32[]\n  return %%2\n}\n", header);
	assert_false(pass_autodiff(&p, read_text(text)));
	assert_non_null(strstr(s.c.diags.records.at[0].text,
			       "cos has no derivative"));
	ir_ctx_release(&s.c);
	snprintf(text, sizeof text, "%smodel {\n"
		 "  %%0 = weight name=\"a\" : f32[b]\n  return %%0\n}\n",
		 header);
	assert_false(pass_autodiff(&p, read_text(text)));
	assert_non_null(strstr(s.c.diags.records.at[0].text,
			       "returns one number, and this returns f32[b]"));
	ir_ctx_release(&s.c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_op),
		cmocka_unit_test(test_all_ops_are_cases),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_yields_outer),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests_name("autodiff", tests, NULL, NULL);
}
