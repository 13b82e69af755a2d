/*
 * The frontend as a whole: what it prints parses again, whatever valid model
 * is thrown at it, and it survives running out of memory at any request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "tests/unit/shared/t-scarce.h"

/* ---- texts ---- */

static uint32_t
add_text(struct ir_ctx *c, const char *name, const char *text, size_t n)
{
	uint32_t base;

	assert_true(source_add(&c->sources, name, text, n, &base));
	return c->sources.files.n - 1;
}

static void
must(bool holds, struct ir_ctx *c, const char *what, const char *text)
{
	if (!holds) {
		diag_flush(&c->diags, stderr);
		fail_msg("%s, of:\n%s", what, text);
	}
}

static const char *
tree_text(struct ir_ctx *c, const char *text, size_t n)
{
	struct ast_file *f = fe_parse(c, add_text(c, "text", text, n));
	struct buf b;

	must(f != NULL, c, "it does not parse", text);
	buf_init(&b, &c->perm);
	fe_print_ast(c, f, &b);
	return buf_text(&b);
}

static const char *
ir_of(struct ir_ctx *c, const char *text, size_t n)
{
	struct ir_module *m = fe_compile(c, add_text(c, "text", text, n));
	struct buf b;

	must(m != NULL, c, "it does not compile", text);
	buf_init(&b, &c->perm);
	ir_print(m, &b);
	return buf_text(&b);
}

/* The canonical text is its own, and means what the text means. */
static void
check_round_trips(struct ir_ctx *c, const char *text, size_t n)
{
	const char *tree = tree_text(c, text, n);
	const char *ir = ir_of(c, text, n);
	struct ir_module *back;
	struct buf b;

	assert_string_equal(tree, tree_text(c, tree, strlen(tree)));
	assert_string_equal(ir, ir_of(c, tree, strlen(tree)));
	back = ir_read(c, add_text(c, "ir", ir, strlen(ir)));
	must(back != NULL, c, "the IR does not read back", text);
	buf_init(&b, &c->perm);
	ir_print(back, &b);
	assert_string_equal(ir, buf_text(&b));
}

/* ---- examples ---- */

static int
is_example(const struct dirent *e)
{
	const char *dot = strrchr(e->d_name, '.');

	return dot && strcmp(dot, ".llm") == 0;
}

static const char *
examples(void)
{
	static char path[4096];
	const char *top = getenv("top_srcdir");

	snprintf(path, sizeof path, "%s/examples", top ? top : ".");
	return path;
}

static void
test_examples(void **state)
{
	struct dirent **names;
	int n = scandir(examples(), &names, is_example, alphasort), i;
	char path[4400];

	(void)state;
	assert_true(n > 0);
	for (i = 0; i < n; i++) {
		const struct source_file *f;
		struct ir_ctx c;
		const char *why;
		uint32_t index;

		ir_ctx_init(&c, NULL);
		snprintf(path, sizeof path, "%s/%s", examples(),
			 names[i]->d_name);
		assert_true(source_read(&c.sources, path, &index, &why));
		f = &c.sources.files.at[index];
		check_round_trips(&c, f->text, f->len);
		assert_int_equal(c.diags.warnings, 0);
		ir_ctx_release(&c);
		free(names[i]);
	}
	free(names);
}

/* ---- running out of memory ---- */

/* Whether n requests were enough. */
static bool
compile_with(long n, const char *text)
{
	static struct scarce s;
	static struct ir_ctx c;
	struct mem m = scarce_mem(&s);
	volatile bool enough = false;

	s.left = n;
	s.live = 0;
	if (setjmp(s.out) == 0) {
		ir_ctx_init(&c, &m);
		fe_compile(&c, add_text(&c, "text", text, strlen(text)));
		enough = true;
	}
	ir_ctx_release(&c);
	assert_int_equal(s.live, 0);
	return enough;
}

/* Every request early on; later ones, of which there are many, by samples. */
static void
fail_at_each(const char *text)
{
	long n = 0;

	while (!compile_with(n, text)) {
		n += 1 + n / 256;
	}
	assert_true(n > 0);
}

static void
fail_at_each_of_file(const char *name)
{
	struct ir_ctx c;
	const char *why;
	uint32_t index;
	char path[4400];

	ir_ctx_init(&c, NULL);
	snprintf(path, sizeof path, "%s/%s", examples(), name);
	assert_true(source_read(&c.sources, path, &index, &why));
	fail_at_each(c.sources.files.at[index].text);
	ir_ctx_release(&c);
}

static void
test_out_of_memory(void **state)
{
	(void)state;
	fail_at_each_of_file("tiny-dense.llm");
	fail_at_each_of_file("tiny-moe.llm");
}

static void
test_out_of_memory_in_errors(void **state)
{
	(void)state;
	fail_at_each("model m { dim a = ; x = f(1, \"b; y = (2; } plan {");
	fail_at_each("model m { dim hidden = 8; input x[batch, hidden];\n"
		     "y = lienar(x -> hiden); z = silu(x, x); w = x + q;\n"
		     "repeat 3 { x = x * weight(hidden) @ \"w\"; } }\n"
		     "train { bacth = 1; optimizer = adam(lr = 3); }");
}

/* ---- random models ---- */

/* Types of values: [batch, seq] and then these. */
enum shape { HIDDEN, FFN, HEADS, ROW, NSHAPES };

struct writer {
	struct buf b;
	uint64_t seed;
	uint32_t nvars[NSHAPES];	/* v<shape>_0, v<shape>_1, ... */
	uint32_t names, layers;
	uint32_t repeats;	/* open ones: i0, i1, ... */
	bool in_layer;
};

static uint32_t
draw(struct writer *w, uint32_t n)
{
	w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(w->seed >> 33) % n;
}

/* The name of a weight: its own, and one for each iteration. */
static void
put_name(struct writer *w, const char *more)
{
	uint32_t i;

	buf_printf(&w->b, " @ \"w%u%s", w->names++, more);
	for (i = 0; i < w->repeats; i++) {
		buf_printf(&w->b, ".{i%u}", i);
	}
	buf_puts(&w->b, "\"");
}

static void put_expr(struct writer *w, enum shape s, int depth);

static void
put_call(struct writer *w, const char *f, enum shape s, int depth,
	 const char *rest)
{
	buf_printf(&w->b, "%s(", f);
	put_expr(w, s, depth - 1);
	buf_printf(&w->b, "%s)", rest);
}

static void
put_linear(struct writer *w, enum shape s, int depth, const char *rest)
{
	static const char *const flags[] = {
		"", ", bias", ", transposed", ", init = zeros",
		", std = 0.02, bias", ", bias, transposed, std = 1e-3"
	};

	buf_puts(&w->b, "linear(");
	put_expr(w, s, depth - 1);
	buf_printf(&w->b, " -> %s%s)", rest, flags[draw(w, 6)]);
	put_name(w, "");
}

/* Experts chosen by the softmax of another linear. */
static void
put_experts(struct writer *w, int depth)
{
	buf_puts(&w->b, "sum(linear(");
	put_expr(w, HIDDEN, depth - 1);
	buf_puts(&w->b, ", topk(softmax(linear(");
	put_expr(w, HIDDEN, depth - 1);
	buf_puts(&w->b, " -> expert)");
	put_name(w, "");
	buf_puts(&w->b, "), expert -> choice) -> ffn");
	buf_puts(&w->b, draw(w, 2) ? ", bias)" : ")");
	put_name(w, ".{expert}");
	buf_puts(&w->b, ", choice)");
}

static void
put_hidden(struct writer *w, int depth)
{
	switch (draw(w, 8)) {
	case 0:
		put_linear(w, FFN, depth, "hidden");
		break;
	case 1:
		put_linear(w, HEADS, depth, "hidden");
		break;
	case 2:
		put_call(w, "rmsnorm", HIDDEN, depth, ", eps = 1e-6");
		put_name(w, "");
		break;
	case 3:
		put_call(w, "layernorm", HIDDEN, depth, "");
		put_name(w, "");
		break;
	case 4:
		put_call(w, "concat(slice", HIDDEN, depth, ", hidden -> half");
		buf_puts(&w->b, ", ");
		put_call(w, "slice", HIDDEN, depth, ", hidden -> half, "
			 "at = hidden - half");
		buf_puts(&w->b, " -> hidden)");
		break;
	case 5:
		put_expr(w, HIDDEN, depth - 1);
		buf_puts(&w->b, " * weight(hidden)");
		put_name(w, "");
		break;
	case 6:
		put_call(w, "cast", HIDDEN, depth, ", dtype = f32");
		break;
	default:
		if (w->in_layer) {
			put_call(w, "cache", HIDDEN, depth, "");
			break;
		}
		buf_puts(&w->b, "embed(tokens, vocab -> hidden)");
		put_name(w, "");
		break;
	}
}

static void
put_heads(struct writer *w, int depth)
{
	switch (draw(w, 3)) {
	case 0:
		put_linear(w, HIDDEN, depth, "heads, hd");
		break;
	case 1:
		put_call(w, "rope", HEADS, depth, draw(w, 2)
			 ? ", interleaved" : ", theta = 1e6");
		break;
	default:
		buf_puts(&w->b, "attention(");
		put_expr(w, HEADS, depth - 1);
		buf_puts(&w->b, ", linear(");
		put_expr(w, HIDDEN, depth - 1);
		buf_puts(&w->b, " -> kv, hd)");
		put_name(w, "");
		buf_puts(&w->b, ", linear(");
		put_expr(w, HIDDEN, depth - 1);
		buf_puts(&w->b, " -> kv, hd)");
		put_name(w, "");
		buf_puts(&w->b, draw(w, 2) ? ", causal)"
			 : ", scale = 1 / sqrt(hd), window = seq)");
		break;
	}
}

static void
put_row(struct writer *w, int depth)
{
	switch (draw(w, 3)) {
	case 0:
		put_call(w, "sum", HIDDEN, depth, ", hidden");
		break;
	case 1:
		put_call(w, "mean", FFN, depth, ", over = ffn");
		break;
	default:
		put_call(w, "sum", HEADS, depth, ", over = (heads, hd)");
		break;
	}
}

static void
put_arithmetic(struct writer *w, enum shape s, int depth)
{
	static const char *const ops[] = { " + ", " - ", " * ", " / " };
	static const char *const number[] = { "2", "0.5", "(hidden - 1)",
					      "sqrt(2)", "-1e-3" };
	bool wrap = draw(w, 2);

	buf_puts(&w->b, wrap ? "(" : "");
	switch (draw(w, 4)) {
	case 0:
		buf_puts(&w->b, number[draw(w, 5)]);
		break;
	case 1:
		put_expr(w, ROW, depth - 1);
		break;
	case 2:
		buf_putc(&w->b, '-');
		/* fall through */
	default:
		put_expr(w, s, 0);
		break;
	}
	buf_puts(&w->b, ops[draw(w, 4)]);
	put_expr(w, s, depth - 1);
	buf_puts(&w->b, wrap ? ")" : "");
}

static void
put_expr(struct writer *w, enum shape s, int depth)
{
	static const char *const maps[] = { "silu", "gelu", "tanh", "relu2",
					    "exp", "sigmoid" };

	if (depth <= 0 && w->nvars[s] > 0) {
		buf_printf(&w->b, "v%d_%u", (int)s, draw(w, w->nvars[s]));
		return;
	}
	switch (depth > 0 ? draw(w, 4) : 3) {
	case 0:
		put_arithmetic(w, s, depth);
		return;
	case 1:
		put_call(w, maps[draw(w, 6)], s, depth, "");
		return;
	default:
		break;
	}
	if (s == HIDDEN) {
		put_hidden(w, depth);
	} else if (s == HEADS) {
		put_heads(w, depth);
	} else if (s == ROW) {
		put_row(w, depth);
	} else if (draw(w, 4) == 0) {
		put_experts(w, depth);
	} else {
		put_linear(w, HIDDEN, depth, "ffn");
	}
}

static void
put_stmts(struct writer *w, uint32_t n, uint32_t max_repeats)
{
	uint32_t had[NSHAPES];

	while (n-- > 0) {
		enum shape s = (enum shape)draw(w, NSHAPES);
		uint32_t i = draw(w, w->nvars[s] + 1);

		if (draw(w, 5) == 0 && w->repeats < max_repeats) {
			buf_printf(&w->b, "repeat %u as i%u", 1 + draw(w, 5),
				   w->repeats);
			buf_puts(&w->b, draw(w, 2) ? " from 3 {" : " {\n");
			memcpy(had, w->nvars, sizeof had);
			w->repeats++;
			put_stmts(w, 1 + draw(w, 3), max_repeats);
			buf_puts(&w->b, "v0_0 = ");
			put_expr(w, HIDDEN, 2);
			buf_puts(&w->b, ";\n}\n");
			w->repeats--;
			memcpy(w->nvars, had, sizeof had);
		} else if (draw(w, 5) == 0 && w->layers > 0 &&
			   w->repeats == 0) {
			i = draw(w, w->layers);
			buf_printf(&w->b, "v0_0, v1_%u = l%u(",
				   w->nvars[FFN], i);
			put_expr(w, HIDDEN, 2);
			buf_puts(&w->b, ")");
			put_name(w, "");
			w->nvars[FFN]++;
			buf_puts(&w->b, ";\n");
		} else {
			buf_printf(&w->b, "v%d_%u = ", (int)s, i);
			put_expr(w, s, 3);
			w->nvars[s] += i == w->nvars[s];
			buf_puts(&w->b, ";\n");
		}
	}
}

static void
put_layer(struct writer *w)
{
	uint32_t i = w->layers;

	memset(w->nvars, 0, sizeof w->nvars);
	w->nvars[HIDDEN] = 1;
	w->in_layer = true;
	buf_printf(&w->b, "layer l%u(v0_0[batch, seq, hidden]) {\n", i);
	/*
	 * a call names none of the layer's iterations: that keeps names legal
	 */
	put_stmts(w, draw(w, 4), 1);
	buf_puts(&w->b, "return v0_0 + ");
	put_expr(w, HIDDEN, 2);
	buf_puts(&w->b, ", ");
	put_linear(w, HIDDEN, 1, "ffn");
	buf_puts(&w->b, ";\n}\n");
	w->in_layer = false;
	w->layers++;
}

static void
put_model(struct writer *w)
{
	uint32_t half = 1 + draw(w, 9), kv = 1 + draw(w, 3), n;

	buf_printf(&w->b, "model m {\ndim half = %u, hidden = 2 * half;\n"
		   "dim kv = %u, heads = %u * kv, hd = %u, seq = %u;\n"
		   "dim expert = %u, choice = expert - %u, ffn = 3 * hidden "
		   "/ 2, vocab = 50;\n", half, kv, 1 + draw(w, 3),
		   2 + 2 * draw(w, 4), 1 + draw(w, 9), 3 + draw(w, 5),
		   draw(w, 3));
	for (n = draw(w, 3); n > 0; n--) {
		put_layer(w);
	}
	memset(w->nvars, 0, sizeof w->nvars);
	w->nvars[HIDDEN] = 1;
	buf_puts(&w->b, "input v0_0[batch, seq, hidden];\n");
	put_stmts(w, 1 + draw(w, 6), 2);
	if (draw(w, 2)) {
		buf_puts(&w->b, "logits = ");
		put_linear(w, HIDDEN, 2, "vocab");
		buf_puts(&w->b, ";\nloss = cross_entropy(logits, labels);\n");
	} else {
		buf_puts(&w->b, "loss = mean(");
		put_expr(w, HIDDEN, 2);
		buf_puts(&w->b, ", over = (batch, seq, hidden));\n");
	}
	buf_puts(&w->b, draw(w, 2) ? "}\ntrain { batch = 8; }\n" : "}\n");
}

static void
test_random_models(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < 600; i++) {
		struct writer w = { .seed = i };
		struct ir_ctx c;

		ir_ctx_init(&c, NULL);
		buf_init(&w.b, &c.perm);
		put_model(&w);
		check_round_trips(&c, buf_text(&w.b), w.b.n);
		ir_ctx_release(&c);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_out_of_memory_in_errors),
		cmocka_unit_test(test_random_models),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
