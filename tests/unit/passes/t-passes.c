/*
 * The order check, lists of passes, the manager's counting, and that no pass
 * changes what a model computes: random modules are evaluated before and
 * after, and every bit must be the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/memo.h"
#include "passes/pass.h"
#include "tests/unit/shared/t-random-ir.h"

static struct {
	struct ir_ctx c;
	struct pass_table table;
	struct pass_manager pm;
	struct memo memo;
} t;

static int
setup(void **state)
{
	(void)state;
	ir_ctx_init(&t.c, NULL);
	pass_table_init(&t.table, &t.c);
	pass_manager_init(&t.pm, &t.table);
	t.pm.options.verify = true;
	memo_init(&t.memo, &t.c.mem, MEMO_BYTES);
	t.pm.memo = &t.memo;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	pass_manager_release(&t.pm);
	pass_table_release(&t.table);
	memo_release(&t.memo);
	ir_ctx_release(&t.c);
	return 0;
}

static struct ir_module *
read_text(const char *text)
{
	struct ir_module *m;
	uint32_t base;

	assert_true(source_add(&t.c.sources, "test.ir", text, strlen(text),
			       &base));
	m = ir_read(&t.c, t.c.sources.files.n - 1);
	if (!m) {
		diag_flush(&t.c.diags, stderr);
		fail_msg("not read:\n%s", text);
	}
	return m;
}

static const char *
print(struct ir_module *m)
{
	struct buf b;

	buf_init(&b, &t.c.perm);
	ir_print(m, &b);
	return buf_text(&b);
}

static enum pass_result
run(const char *passes, struct ir_module *m)
{
	struct pass_list l = { 0 };
	enum pass_result r;

	assert_true(pass_list_parse(&t.table, &l, passes));
	r = pass_run(&t.pm, &l, m);
	if (r == PASS_BAD_INPUT) {
		diag_flush(&t.c.diags, stderr);
	}
	return r;
}

static const char *
last_error(void)
{
	assert_true(t.c.diags.records.n > 0);
	return t.c.diags.records.at[t.c.diags.records.n - 1].text;
}

static int64_t
counted(const char *pass, const char *what)
{
	uint32_t i;

	for (i = 0; i < t.pm.stats.at.n; i++) {
		const struct pass_count *c = &t.pm.stats.at.at[i];

		if (strcmp(c->pass, pass) == 0 && strcmp(c->what, what) == 0) {
			return c->n;
		}
	}
	return -1;
}

/* ---- the order ---- */

static bool
nothing(struct pass_ctx *p, struct ir_module *m)
{
	(void)p;
	(void)m;
	return true;
}

static void
test_builtin_order(void **state)
{
	struct pass_list all = { 0 };
	struct buf why;

	(void)state;
	buf_init(&why, &t.c.perm);
	assert_true(pass_list_parse(&t.table, &all, "default"));
	/* neither for training, for serving nor for splitting */
	assert_int_equal(all.at.n, pass_nbuiltin - 10);
	assert_true(pass_order(&t.table, &all, PROP_CALLS, &why));
}

/* Without the row that gives what another needs, the table is refused. */
static void
test_order_without_giver(void **state)
{
	struct pass_list all = { 0 };
	uint32_t gone, i, refused = 0;

	(void)state;
	for (gone = 0; gone < pass_nbuiltin; gone++) {
		struct pass_list l = { 0 };
		struct buf why;

		buf_init(&why, &t.c.perm);
		all.at.n = 0;
		assert_true(pass_list_parse(&t.table, &all, "default"));
		for (i = 0; i < all.at.n; i++) {
			if (i != gone) {
				VEC_PUSH(&t.c.perm, &l.at, all.at.at[i]);
			}
		}
		if (!pass_order(&t.table, &l, PROP_CALLS, &why)) {
			assert_true(refused < 2);
			assert_string_equal(all.at.at[gone]->name,
					    refused ? "inline" : "fold-dims");
			assert_string_equal(buf_text(&why), refused
				? "pass `absorb` needs `flat`; `inline` gives "
				  "it, and must run before it"
				: "pass `absorb` needs `folded`; `fold-dims` "
				  "gives it, and must run before it");
			refused++;
		}
	}
	assert_int_equal(refused, 2);
}

static void
test_order_killed(void **state)
{
	static const struct pass kills = {
		"kills", 0, 0, PROP_FLAT, nothing, "takes flatness away"
	};
	static const struct pass orphan = {
		"orphan", 1 << 7, 0, 0, nothing, "needs what nobody gives"
	};
	struct pass_list l = { 0 };
	struct buf why;

	(void)state;
	buf_init(&why, &t.c.perm);
	assert_true(pass_list_parse(&t.table, &l, "inline"));
	VEC_PUSH(&t.c.perm, &l.at, &kills);
	assert_true(pass_list_parse(&t.table, &l, "cse"));
	assert_false(pass_order(&t.table, &l, PROP_CALLS, &why));
	assert_string_equal(buf_text(&why), "pass `cse` needs `flat`, which "
		"`kills` before it takes away; `inline` gives it, and must "
		"run before it");
	buf_init(&why, &t.c.perm);
	l.at.n = 0;
	VEC_PUSH(&t.c.perm, &l.at, &orphan);
	assert_false(pass_order(&t.table, &l, PROP_CALLS, &why));
	assert_string_equal(buf_text(&why),
			    "pass `orphan` needs `?`; no pass gives it");
}

static void
test_lists(void **state)
{
	struct pass_list l = { 0 };

	(void)state;
	assert_true(pass_list_parse(&t.table, &l, ""));
	assert_int_equal(l.at.n, 0);
	assert_true(pass_list_parse(&t.table, &l, "dce,cse"));
	assert_string_equal(l.at.at[1]->name, "cse");
	assert_true(pass_list_insert(&t.table, &l, "inline@before:cse"));
	assert_true(pass_list_insert(&t.table, &l, "dce@after:cse"));
	assert_int_equal(l.at.n, 4);
	assert_string_equal(l.at.at[1]->name, "inline");
	assert_string_equal(l.at.at[3]->name, "dce");
	assert_true(pass_list_insert(&t.table, &l, "fold-dims@for:inline"));
	assert_int_equal(l.at.n, 4);
	assert_string_equal(l.at.at[1]->name, "fold-dims");
	assert_false(pass_list_insert(&t.table, &l, "cse@for:inline"));
	assert_string_equal(last_error(), "pass `inline` is not among those "
			    "that run for this output: dce, fold-dims, cse, "
			    "dce");
	assert_false(pass_list_insert(&t.table, &l, "cse@for:inlin"));
	assert_false(pass_list_insert(&t.table, &l, "cse@form:dce"));
	assert_string_equal(last_error(), "found `cse@form:dce`, and "
			    "NAME@after:PASS, NAME@before:PASS or "
			    "NAME@for:PASS is expected");
	assert_false(pass_list_insert(&t.table, &l, "cse@inline"));
	assert_false(pass_list_insert(&t.table, &l, "cse@after:place"));
	assert_string_equal(last_error(), "pass `place` is not among "
			    "those that run for this output: dce, fold-dims, "
			    "cse, dce");
	assert_false(pass_list_parse(&t.table, &l, "cse,inlin"));
	assert_non_null(strstr(last_error(), "there is no pass `inlin` (did "
			       "you mean `inline`?): there are "));
}

static void
test_bad_order(void **state)
{
	struct ir_module *m = read_text(
		"llmc-ir 1\ndim a = 4\n"
		"layer f(%0: f32[a]) {\n  return %0\n}\n"
		"model {\n  %0 = weight name=\"w\" init=ones : f32[a]\n"
		"  %1 = call f(%0) : f32[a]\n  return %1\n}\n");

	(void)state;
	assert_int_equal(run("cse", m), PASS_BAD_ORDER);
	assert_int_equal(run("inline,inline", m), PASS_BAD_ORDER);
	assert_int_equal(run("inline,cse", m), PASS_OK);
	assert_int_equal(run("cse", m), PASS_OK);
}

/* ---- the manager ---- */

static void
test_bisect(void **state)
{
	const char *text =
		"llmc-ir 1\ndim a = 2 + 2\nmodel {\n"
		"  %0 = weight name=\"w\" init=ones : f32[a]\n"
		"  %1 = neg %0 : f32[a]\n  %2 = neg %0 : f32[a]\n"
		"  %3 = add %1, %2 : f32[a]\n  return %3\n}\n";
	struct ir_module *m = read_text(text);

	(void)state;
	t.pm.options.limit = 2;
	assert_int_equal(run("default", m), PASS_OK);
	assert_int_equal(counted("fold-dims", "dims folded"), 1);
	assert_int_equal(counted("cse", "nodes merged"), -1);
	assert_int_equal(t.pm.times.n, pass_nbuiltin - 10);
	assert_false(t.pm.times.at[1].skipped);
	assert_true(t.pm.times.at[2].skipped);
	t.pm.options.limit = -1;
	t.pm.options.stop = &pass_find(&t.table, "cse")->pass;
	assert_int_equal(run("default", m), PASS_OK);
	assert_int_equal(counted("cse", "nodes merged"), 1);
	assert_int_equal(counted("dce", "nodes removed"), -1);
}

/* ---- names ---- */

static void
test_names(void **state)
{
	struct arena *a = &t.c.perm;

	(void)state;
	assert_true(pass_mentions("h.{i}.w", "i"));
	assert_false(pass_mentions("h.{ii}.{w", "i"));
	assert_false(pass_mentions("h.i", "i"));
	assert_string_equal(pass_rename(a, "{i}.{j}.{i}", "i", "x"),
			    "{x}.{j}.{x}");
	assert_string_equal(pass_join(a, "a", "b"), "a.b");
	assert_string_equal(pass_join(a, NULL, "b"), "b");
	assert_string_equal(pass_join(a, "a", ""), "a");
}

/* ---- random modules ---- */

static void
evaluate(struct ir_module *m, struct ir_eval_result *out)
{
	struct ir_eval_options opt = { .seed = 3 };
	uint32_t n;

	if (!ir_eval(m, &opt, out, 2, &n)) {
		diag_flush(&t.c.diags, stderr);
		fail_msg("not evaluated:\n%s", print(m));
	}
	assert_int_equal(n, 2);
}

static void
check_same(const char *text, struct ir_module *m,
	   const struct ir_eval_result *before)
{
	struct ir_eval_result after[2];
	int i;

	evaluate(m, after);
	for (i = 0; i < 2; i++) {
		assert_int_equal(before[i].elems, after[i].elems);
		if (memcmp(before[i].data, after[i].data,
			   (size_t)after[i].elems * sizeof(double)) != 0) {
			fail_msg("the result has changed:\n%s\nafter:\n%s",
				 text, print(m));
		}
	}
}

/*
 * Each pass alone after inlining, then all; what is printed reads again,
 * and a second run of all finds nothing more to do.
 */
static void
test_random(void **state)
{
	static const char *const lists[] = {
		"fold-dims", "dce", "inline", "cse", "dce", "default"
	};
	uint32_t seed;
	size_t i;

	for (seed = 1; seed <= 400; seed++) {
		struct ir_eval_result before[2];
		struct ir_module *m;
		const char *text, *done;

		teardown(state);
		setup(state);
		text = random_module(&t.c.perm, seed * 2654435761u);
		m = read_text(text);
		evaluate(m, before);
		for (i = 0; i < sizeof lists / sizeof *lists; i++) {
			assert_int_equal(run(lists[i], m), PASS_OK);
			check_same(text, m, before);
		}
		done = print(m);
		m = read_text(done);
		assert_string_equal(print(m), done);
		check_same(text, m, before);
		assert_int_equal(run("default", m), PASS_OK);
		assert_string_equal(print(m), done);
	}
}

/* The summary counts the same, called or inlined. */
static void
test_summary_random(void **state)
{
	uint32_t seed;

	for (seed = 1; seed <= 100; seed++) {
		struct pass_sums called, flat;
		struct ir_module *m;

		teardown(state);
		setup(state);
		m = read_text(random_module(&t.c.perm, seed * 40503u + 7));
		assert_true(pass_sum(m, &called));
		assert_int_equal(run("inline", m), PASS_OK);
		assert_true(pass_sum(m, &flat));
		assert_int_equal(called.total, flat.total);
		assert_int_equal(called.weight_bytes, flat.weight_bytes);
		assert_true(called.other_flops == flat.other_flops);
		assert_int_equal(called.ncaches, flat.ncaches);
		if (flat.ncaches) {
			assert_int_equal(called.cache[0].bytes,
					 flat.cache[0].bytes);
		}
	}
}

/* Each layer calls the one before it twice. */
static void
test_too_many_nodes(void **state)
{
	struct pass_sums sums;
	struct ir_module *m;
	struct buf b;
	int i;

	(void)state;
	buf_init(&b, &t.c.perm);
	buf_puts(&b, "llmc-ir 1\ndim a = 2\nlayer f0(%0: f32[a]) {\n"
		 "%1 = neg %0 : f32[a]\nreturn %1\n}\n");
	for (i = 1; i < 60; i++) {
		buf_printf(&b, "layer f%d(%%0: f32[a]) {\n"
			   "%%1 = call f%d(%%0) : f32[a]\n"
			   "%%2 = call f%d(%%1) : f32[a]\nreturn %%2\n}\n",
			   i, i - 1, i - 1);
	}
	buf_puts(&b, "model {\n%0 = weight name=\"w\" init=ones : f32[a]\n"
		 "%1 = call f59(%0) : f32[a]\nreturn %1\n}\n");
	m = read_text(buf_text(&b));
	assert_int_equal(run("inline", m), PASS_BAD_INPUT);
	assert_false(pass_sum(m, &sums));
}

/* Each layer puts another repeat around the one before it. */
static void
test_too_deep(void **state)
{
	int layers, i;

	for (layers = IR_MAX_DEPTH; layers <= IR_MAX_DEPTH + 1; layers++) {
		struct ir_module *m;
		struct buf b;

		teardown(state);
		setup(state);
		buf_init(&b, &t.c.perm);
		buf_puts(&b, "llmc-ir 1\ndim a = 2\n");
		for (i = 0; i < layers; i++) {
			buf_printf(&b, "layer f%d(%%0: f32[a]) {\n"
				   "%%1 = repeat count=1 (%%2 = %%0) : f32[a] "
				   "{\n", i);
			buf_printf(&b, i ? "%%3 = call f%d(%%2) : f32[a]\n" :
				   "%%3 = neg %%2 : f32[a]\n", i - 1);
			buf_puts(&b, "yield %3\n}\nreturn %1\n}\n");
		}
		buf_printf(&b, "model {\n%%0 = weight name=\"w\" init=ones : "
			   "f32[a]\n%%1 = call f%d(%%0) : f32[a]\n"
			   "return %%1\n}\n", layers - 1);
		m = read_text(buf_text(&b));
		assert_int_equal(run("default", m),
				 layers <= IR_MAX_DEPTH ? PASS_OK
							: PASS_BAD_INPUT);
	}
}

/* ---- what a pass had made ahead ---- */

static const char unused[] =
	"llmc-ir 1\ndim a = 2\nmodel {\n"
	"%0 = weight name=\"w\" init=ones : f32[a]\n"
	"%1 = neg %0 : f32[a]\n%2 = exp %0 : f32[a]\nreturn %1\n}\n";

/* How the giver went on, and how often a pass ran on what it left. */
static struct {
	const char *left, *said;	/* names, or NULL */
	const struct target *target;
	bool verify;
	uint32_t runs;
} ahead;

static bool
rename_model(struct pass_ctx *p, struct ir_module *m)
{
	m->funcs.at[1].name = intern_str(&p->ctx->syms, "renamed");
	ahead.runs++;
	if (ahead.said) {
		diag_warn(&p->ctx->diags, WARN_IDLE_DEVICES,
			  (struct span){ 0, 0 }, "%s", ahead.said);
	}
	pass_count(p, "renamed", 1);
	return true;
}

static bool
sweep(struct pass_ctx *p, struct ir_module *m)
{
	ahead.runs++;
	return pass_dce(p, m);
}

/* Has the two run on a copy, and leaves the module to the manager. */
static bool
give(struct pass_ctx *p, struct ir_module *m)
{
	struct pass_ctx own = { 0 };
	struct pass_ahead made;
	struct ir_module *copy;
	struct ir_ctx c;

	if (!p->ahead) {
		return true;
	}
	pass_ahead_init(&made, p->ctx, ahead.target, p->ahead);
	ir_ctx_child(&c, p->ctx);
	own.ctx = &c;
	copy = ir_copy(m, &c);
	assert_true(pass_ahead_make(&made, &own, copy, rename_model));
	assert_true(pass_ahead_make(&made, &own, copy, sweep));
	assert_int_equal(ahead.runs, 2);
	ahead.runs = 0;
	pass_ahead_end(&made, copy);
	ir_ctx_release(&c);
	pass_ahead_give(p->ahead, &made, p->ctx);
	pass_ahead_release(&made);
	if (ahead.left) {
		intern_str(&p->ctx->syms, ahead.left);
	}
	return true;
}

#define SWEPT (1u << 7)	/* a property of nobody else's */

static const struct pass givers[] = {
	{ "give", 0, 0, 0, give, "has the two after it run ahead" },
	{ "rename", 0, 0, 0, rename_model, "another name for the model" },
	{ "sweep", 0, SWEPT, 0, sweep, "dce" },
	{ "other", 0, 0, 0, nothing, "changes nothing" }
};

/* The text that comes out, and how many of the two ran in the list. */
static const char *
run_behind(const char *passes, const char *file, uint32_t ran)
{
	struct ir_module *m = read_text(unused);
	uint32_t i;

	ahead.runs = 0;
	t.pm.options.verify = ahead.verify;
	t.pm.stats.at.n = 0;
	t.table.known.n = pass_nbuiltin;
	for (i = 0; i < sizeof givers / sizeof *givers; i++) {
		struct pass_known k = { givers[i], i ? NULL : file };

		VEC_PUSH(&t.c.perm, &t.table.known, k);
	}
	assert_int_equal(run(passes, m), PASS_OK);
	assert_int_equal(ahead.runs, ran);
	assert_true(ir_verify(m));
	assert_ptr_equal(m->ctx, &t.c);
	return print(m);
}

static void
test_ahead(void **state)
{
	const char *alone;

	(void)state;
	alone = run_behind("rename,sweep", NULL, 2);
	assert_string_equal(run_behind("give,rename,sweep", NULL, 0), alone);
	assert_int_equal(counted("rename", "renamed"), 1);
	assert_int_equal(counted("sweep", "nodes removed"), 1);
	assert_int_equal(counted("give", "renamed"), -1);
	/* each once, and from the first on */
	assert_string_equal(run_behind("give,rename,sweep,sweep", NULL, 1),
			    alone);
	run_behind("give,sweep,rename", NULL, 2);
	run_behind("give,rename,other,sweep", NULL, 1);
	run_behind("give,other,rename,sweep", NULL, 2);
	run_behind("give,rename", NULL, 0);
	run_behind("rename,sweep", NULL, 2);
	/* of a plug-in, which may change the module behind its back */
	run_behind("give,rename,sweep", "plugin.so", 2);
	ahead.verify = true;
	assert_string_equal(run_behind("give,rename,sweep", NULL, 2), alone);
	ahead.verify = false;
}

static bool
look(void *user, struct ir_module *m)
{
	*(const char **)user = print(m);
	return true;
}

/* Who looks between the two sees what the first one left. */
static void
test_ahead_is_seen(void **state)
{
	const char *renamed = run_behind("rename", NULL, 1), *seen = NULL;
	const char *alone = run_behind("rename,sweep", NULL, 2);
	char *all = NULL;
	size_t n;

	(void)state;
	t.pm.watch = SWEPT;
	t.pm.look = look;
	t.pm.user = &seen;
	assert_string_equal(run_behind("give,rename,sweep", NULL, 0), alone);
	assert_string_equal(seen, renamed);
	t.pm.watch = 0;
	t.pm.options.stop = &givers[1];
	assert_string_equal(run_behind("give,rename,sweep", NULL, 0),
			    renamed);
	t.pm.options.stop = NULL;
	t.pm.options.log = open_memstream(&all, &n);
	assert_true(pass_set_parse(&t.table, &t.pm.options.after, "rename"));
	assert_string_equal(run_behind("give,rename,sweep", NULL, 0), alone);
	fclose(t.pm.options.log);
	t.pm.options.log = stderr;
	assert_non_null(strstr(all, renamed));
	free(all);
}

/* Names and the target are not as they were then. */
static void
test_ahead_of_others(void **state)
{
	const char *const passes = "give,rename,sweep";
	const char *alone = run_behind("rename,sweep", NULL, 2);
	const struct target *some = (const void *)&ahead;

	(void)state;
	ahead.left = "another";
	assert_string_equal(run_behind(passes, NULL, 0), alone);
	ahead.left = NULL;
	ahead.target = some;
	run_behind(passes, NULL, 2);
	t.pm.target = some;
	assert_string_equal(run_behind(passes, NULL, 0), alone);
	ahead.target = t.pm.target = NULL;
	t.pm.options.limit = t.pm.runs + 2;
	run_behind(passes, NULL, 0);
	t.pm.options.limit = -1;
	ahead.said = "heard each time";
	run_behind(passes, NULL, 2);
	assert_int_equal(t.c.diags.warnings, 1);
	ahead.said = NULL;
}

/* The first name of a run ahead is another one's by now. */
static void
test_ahead_of_other_names(void **state)
{
	(void)state;
	ahead.left = "unheard of";
	run_behind("give,rename,sweep", NULL, 2);
	ahead.left = NULL;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(test_builtin_order),
		T(test_order_without_giver),
		T(test_order_killed),
		T(test_lists),
		T(test_bad_order),
		T(test_bisect),
		T(test_ahead_of_other_names),
		T(test_ahead),
		T(test_ahead_is_seen),
		T(test_ahead_of_others),
		T(test_names),
		T(test_random),
		T(test_summary_random),
		T(test_too_many_nodes),
		T(test_too_deep)
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
