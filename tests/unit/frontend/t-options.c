/* The command line, and that the table of options holds together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/options/options.h"

static struct {
	struct mem mem;
	struct arena a;
	struct options o;
	struct buf why;
} t;

static int
setup(void **state)
{
	(void)state;
	mem_init(&t.mem);
	arena_init(&t.a, &t.mem);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	arena_release(&t.a);
	return 0;
}

/* Parses the words of a line. */
static bool
parse(const char *line)
{
	char *argv[32] = { arena_strndup(&t.a, "llmc", 4) };
	char word[64];
	int argc = 1;

	while (opt_next_word(&line, word, sizeof word)) {
		argv[argc++] = arena_strndup(&t.a, word, strlen(word));
	}
	opt_init(&t.o, &t.a);
	buf_init(&t.why, &t.a);
	return opt_parse(&t.o, argc, argv, &t.why);
}

static void
parses(const char *line)
{
	if (!parse(line)) {
		fail_msg("%s: %s", line, buf_text(&t.why));
	}
}

static void
fails(const char *line, const char *why)
{
	assert_false(parse(line));
	assert_string_equal(buf_text(&t.why), why);
}

/* Of a sweep, a shell makes several words of one list with braces. */
static void
test_lists(void **state)
{
	(void)state;
	parses("sweep m.llm --target a b --batch 1 2 --sort usd");
	assert_string_equal(t.o.input, "m.llm");
	assert_int_equal(t.o.at[OPT_TARGET].list.n, 2);
	assert_string_equal(t.o.at[OPT_TARGET].list.at[1], "b");
	assert_int_equal(t.o.at[OPT_BATCH].list.n, 2);
	parses("sweep --target a b.llm");
	assert_string_equal(t.o.input, "b.llm");
	parses("sweep --target=a b");
	assert_string_equal(t.o.input, "b");
	parses("sweep --target a --dim x=1 -- b");
	assert_string_equal(t.o.input, "b");
	fails("sweep m.llm --sort usd b", "there is one input, and both "
	      "`m.llm` and `b` are given");
}

static void
test_commands(void **state)
{
	(void)state;
	parses("x.llm");
	assert_int_equal(t.o.command, OPT_COMPILE);
	assert_string_equal(t.o.input, "x.llm");
	parses("opt -");
	assert_int_equal(t.o.command, OPT_OPT);
	assert_string_equal(t.o.input, "-");
	parses("eval -- --seed");
	assert_int_equal(t.o.command, OPT_EVALUATE);
	assert_string_equal(t.o.input, "--seed");
	parses("-- opt");
	assert_int_equal(t.o.command, OPT_COMPILE);
	assert_string_equal(t.o.input, "opt");
	parses("");
	assert_null(t.o.input);
	parses("diff a b --target=t c");
	assert_int_equal(t.o.command, OPT_DIFF);
	assert_string_equal(t.o.input, "a");
	assert_int_equal(t.o.more.n, 2);
	assert_string_equal(t.o.more.at[0], "b");
	assert_string_equal(t.o.more.at[1], "c");
	fails("diff a b c d", "`llmc diff` takes two plans and a model, and "
	      "`d` is one too many");
	fails("a.llm b", "there is one input, and both `a.llm` and `b` are "
	      "given");
	fails("opt a b", "there is one input, and both `a` and `b` are given");
	fails("otp b", "there is no command `otp` (did you mean `opt`?): there "
	      "are opt, eval, schedule, target, validate, diff, calibrate, "
	      "finish, import, tokenize and sweep; without one llmc compiles a "
	      "model, and the program `rank` of a plan trains and serves it");
}

static void
test_values(void **state)
{
	(void)state;
	parses("opt --passes=a,b --passes c -o x --output=y f -ofar");
	assert_string_equal(t.o.at[OPT_PASSES].text, "c");
	assert_string_equal(t.o.at[OPT_OUTPUT].text, "far");
	parses("opt --passes= f");
	assert_true(t.o.at[OPT_PASSES].given);
	assert_string_equal(t.o.at[OPT_PASSES].text, "");
	parses("--print-after f --print-before=cse");
	assert_true(t.o.at[OPT_PRINT_AFTER].given);
	assert_null(t.o.at[OPT_PRINT_AFTER].text);
	assert_string_equal(t.o.at[OPT_PRINT_BEFORE].text, "cse");
	assert_string_equal(t.o.input, "f");
	parses("--load-pass=a --load-pass b f");
	assert_int_equal(t.o.at[OPT_LOAD_PASS].list.n, 2);
	assert_string_equal(t.o.at[OPT_LOAD_PASS].list.at[1], "b");
	parses("-wvWno-x f -W error");
	assert_true(t.o.at[OPT_NO_WARNINGS].given);
	assert_true(t.o.at[OPT_VERBOSE].given);
	assert_string_equal(t.o.at[OPT_WARNING].list.at[0], "no-x");
	assert_string_equal(t.o.at[OPT_WARNING].list.at[1], "error");
	parses("--bisect-limit=-1 f");
	assert_int_equal(t.o.at[OPT_BISECT_LIMIT].num, -1);
	parses("--dim hidden=64 --dim=seq=1 f");
	assert_int_equal(t.o.dims.n, 2);
	assert_string_equal(t.o.dims.at[0].name, "hidden");
	assert_int_equal(t.o.dims.at[0].size, 64);
}

static void
test_mistakes(void **state)
{
	(void)state;
	fails("--pases=x f", "there is no option `--pases` (did you mean "
	      "`--passes`?)");
	fails("--zzz f", "there is no option `--zzz` (see llmc --help)");
	fails("-z f", "there is no option `-z` (see llmc --help)");
	fails("f -o", "`-o` needs FILE");
	fails("f --passes", "`--passes` needs P,..");
	fails("--stats=1 f", "`--stats` takes no value");
	fails("--emit=irr f", "`--emit` is one of answer, answer-json, "
	      "arena, arena-json, ast, config, cost, cuda, ir, kernels, "
	      "llvm, memory, memory-json, plan, plans, plans-json, ranks, "
	      "serve, serve-json, summary, summary-json, target; found "
	      "`irr` (did you mean `ir`?)");
	fails("--explain=cost,serch f", "`--explain` is one of cost, memory, "
	      "search, tiles; found `serch` (did you mean `search`?)");
	fails("--explain= f", "`--explain` is one of cost, memory, search, "
	      "tiles; found ``");
	fails("--top=0 f", "`--top` takes a whole number from 1 to 1000; "
	      "found `0`");
	fails("--help=html", "`--help` is one of man, bash, zsh, fish; found "
	      "`html`");
	fails("opt --seed=1 f", "`--seed` is for eval only");
	fails("opt --dim a=1 f", "`--dim` is for compiling, eval, diff, "
	      "import, sweep only");
	fails("eval --seed=-1 f",
	      "`--seed` takes a whole number of at least 0; found `-1`");
	fails("--bisect-limit=1x f", "`--bisect-limit` takes a whole number "
	      "of at least -1; found `1x`");
	fails("--dim=a f", "`--dim` takes NAME=N with a whole number N of at "
	      "least 1; found `a`");
	fails("--dim==1 f", "`--dim` takes NAME=N with a whole number N of at "
	      "least 1; found `=1`");
}

static void
test_table(void **state)
{
	int i, k;

	(void)state;
	for (i = 0; i < OPT_COUNT; i++) {
		const struct opt_row *r = &opt_rows[i];

		assert_true(strspn(r->name, "abcdefghijklmnopqrstuvwxyz-") ==
			    strlen(r->name));
		assert_true(strlen(r->help) > 0);
		assert_int_equal(*r->arg == '\0', r->kind == OPT_FLAG);
		assert_true(r->kind != OPT_WORD || *r->words);
		for (k = 0; k < i; k++) {
			assert_string_not_equal(r->name, opt_rows[k].name);
			assert_true(!r->short_name ||
				    r->short_name != opt_rows[k].short_name);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(test_commands),
		T(test_lists),
		T(test_values),
		T(test_mistakes),
		T(test_table)
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
