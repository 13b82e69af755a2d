/*
 * Each family of llmc import beside the transformers library: the folders of
 * tests/interop/tiny have tiny random models, and the loss, logits and
 * gradients that the library computed of them in float64.  The interpreter
 * computes in float64 too; the expected figures are stored in F32, so 1e-6 of
 * the largest element of a tensor is the bound.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "frontend/import/import.h"
#include "runtime/rt.h"

#define BATCH 2
#define SEQ 8
#define BOUND 1e-6

/* One model and what is expected of it. */
struct trial {
	struct ir_ctx c;
	const char *folder;
	struct ir_module *m;
	struct rt_st *weights, *expected;
	uint16_t tokens[BATCH][SEQ + 1];
	uint32_t gradients;	/* compared */
};

static const char *
in_folder(struct trial *t, const char *name)
{
	const char *top = getenv("top_srcdir");

	return arena_printf(&t->c.perm, "%s/tests/interop/tiny/%s/%s",
			    top ? top : ".", t->folder, name);
}

static void
must(struct trial *t, bool holds, const char *what)
{
	if (!holds) {
		diag_flush(&t->c.diags, stderr);
		fail_msg("%s: %s", t->folder, what);
	}
}

static void
open_files(struct trial *t)
{
	struct rt_error err = { .message = "" };
	int i;

	for (i = 0; i < BATCH; i++) {
		const char *name = arena_printf(&t->c.perm, "tokens-%d.bin",
						i);
		FILE *f = fopen(in_folder(t, name), "rb");

		must(t, f && fread(t->tokens[i], sizeof t->tokens[i], 1,
				   f) == 1, name);
		fclose(f);
	}
	rt_st_open(&t->weights, in_folder(t, "model.safetensors"), NULL,
		   &err);
	must(t, t->weights != NULL, err.message);
	rt_st_open(&t->expected, in_folder(t, "expected.safetensors"), NULL,
		   &err);
	must(t, t->expected != NULL, err.message);
}

/* From config.json to the training program. */
static void
compile(struct trial *t)
{
	struct imp_request rq = { .weights = t->weights };
	struct pass_list list = { 0 };
	struct pass_manager pm;
	struct pass_table table;
	struct ast_file *ast;
	const char *why = "?";
	struct buf text;
	uint32_t base;

	must(t, source_read(&t->c.sources, in_folder(t, "config.json"),
			    &rq.file, &why), why);
	/* GPT-2's dropout */
	assert_true(diag_warning_option(&t->c.diags, "no-left-out"));
	buf_init(&text, &t->c.perm);
	must(t, imp_model(&t->c, &rq, &text), "it is not imported");
	assert_true(source_add(&t->c.sources, "model", buf_text(&text),
			       text.n, &base));
	ast = fe_parse(&t->c, t->c.sources.files.n - 1);
	must(t, ast && fe_set_dim(&t->c, ast, "batch", BATCH),
	     "it does not parse");
	t->m = fe_lower(&t->c, ast);
	must(t, t->m != NULL, buf_text(&text));
	must(t, t->c.diags.warnings == 0, "it has warnings");
	pass_table_init(&table, &t->c);
	pass_manager_init(&pm, &table);
	assert_true(pass_list_parse(&table, &list, "train"));
	must(t, pass_run(&pm, &list, t->m) == PASS_OK, "passes fail");
	pass_manager_release(&pm);
	pass_table_release(&table);
	must(t, imp_check_weights(t->m, t->weights, "model.safetensors",
				  false), "its weights differ");
}

/* ---- what the interpreter reads and writes ---- */

static bool
get(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, double *out, struct span at)
{
	struct trial *t = user;
	const struct rt_st_tensor *x = rt_st_find(t->weights, name);
	struct rt_error err;

	(void)op;
	(void)type;
	(void)at;
	must(t, x && rt_st_elems(x) == elems, name);
	return rt_st_read_f64(t->weights, x, 0, elems, out, &err) == RT_OK;
}

static bool
has(void *user, enum ir_op op, const char *name)
{
	(void)user;
	(void)name;
	return ir_is(op, IRF_LOADED);
}

static bool
input(void *user, const char *name, const struct ir_type *type,
      int64_t elems, double *out)
{
	struct trial *t = user;
	int late = strcmp(name, "labels") == 0, i;

	(void)type;
	assert_int_equal(elems, BATCH * SEQ);
	for (i = 0; i < BATCH * SEQ; i++) {
		out[i] = t->tokens[i / SEQ][i % SEQ + late];
	}
	return true;
}

static void
compare(struct trial *t, const char *name, const double *data, int64_t elems)
{
	const struct rt_st_tensor *x = rt_st_find(t->expected, name);
	double *want, largest = 1e-12, off = 0;
	struct rt_error err;
	int64_t i;

	must(t, x && rt_st_elems(x) == elems, name);
	want = arena_alloc(&t->c.perm, (size_t)elems * sizeof *want);
	assert_int_equal(rt_st_read_f64(t->expected, x, 0, elems, want, &err),
			 RT_OK);
	for (i = 0; i < elems; i++) {
		largest = fmax(largest, fabs(want[i]));
		off = fmax(off, fabs(want[i] - data[i]));
	}
	if (!(off <= BOUND * largest)) {
		fail_msg("%s: %s is %g off, of %g", t->folder, name, off,
			 largest);
	}
}

static bool
put(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, const double *data, struct span at)
{
	struct trial *t = user;

	(void)type;
	(void)at;
	/* what moves this bias is no gradient, but a count of tokens */
	if (op == IR_ACCUMULATE && !strstr(name, "e_score_correction_bias")) {
		compare(t, arena_printf(&t->c.perm, "grad.%s", name), data,
			elems);
		t->gradients++;
	}
	return true;
}

static void
see(void *user, const char *path, const struct ir_type *type,
    const double *data, int64_t elems)
{
	(void)type;
	if (strcmp(path, "logits") == 0) {
		compare(user, "logits", data, elems);
		((struct trial *)user)->gradients++;
	}
}

static void
try_folder(void **state)
{
	struct trial t = { .folder = *state };
	struct ir_weights source = { get, put, has, input, &t };
	struct ir_eval_options opt = { .weights = &source, .seen = see,
				       .user = &t };
	struct ir_eval_result r[8];
	uint32_t n = 0;

	ir_ctx_init(&t.c, NULL);
	open_files(&t);
	compile(&t);
	must(&t, ir_eval(t.m, &opt, r, 8, &n), "it is not evaluated");
	compare(&t, "loss", r[0].data, 1);
	/* logits, and each trained tensor of the file */
	assert_true(t.gradients > rt_st_count(t.weights) * 9 / 10);
	rt_st_free(t.weights);
	rt_st_free(t.expected);
	ir_ctx_release(&t.c);
}

#define FAMILY(name) { name, try_folder, NULL, NULL, name }

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAMILY("deepseek_v2"), FAMILY("deepseek_v3"),
		FAMILY("deepseek_v3_yarn"), FAMILY("gemma"), FAMILY("gemma2"),
		FAMILY("gemma3"), FAMILY("gpt2"), FAMILY("gpt_oss"),
		FAMILY("phi3_long"), FAMILY("qwen3_yarn"),
		FAMILY("gpt_neox"), FAMILY("granite"), FAMILY("llama"),
		FAMILY("llama3"), FAMILY("mistral"), FAMILY("mixtral"),
		FAMILY("mixtral_aux"), FAMILY("olmo2"), FAMILY("phi3"),
		FAMILY("qwen2"), FAMILY("qwen2_moe"), FAMILY("qwen2_moe_aux"),
		FAMILY("qwen3"), FAMILY("qwen3_moe"), FAMILY("qwen3_window"),
		FAMILY("starcoder2"), FAMILY("bloom"), FAMILY("mpt")
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
