/*
 * The bytes that a search holds at once, as they are asked of the gate: what a
 * process has resident depends on the machine as well.  The marks are a tenth
 * above what was counted, so that what keeps more than it needs is noticed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/search/t-search.h"

/* What is asked for, and how much of it is held at once. */
struct counter {
	size_t now, most;
};

/* The size of a block stands before it. */
union head {
	size_t bytes;
	max_align_t align;
};

static void *
get(void *user, size_t bytes)
{
	struct counter *x = user;
	union head *p = malloc(sizeof *p + bytes);

	if (!p) {
		return NULL;
	}
	p->bytes = bytes;
	x->now += bytes;
	x->most = x->now > x->most ? x->now : x->most;
	return p + 1;
}

static void
put(void *user, void *at)
{
	struct counter *x = user;
	union head *p = at;

	if (p) {
		x->now -= p[-1].bytes;
		free(p - 1);
	}
}

static void
oom(void *user, size_t bytes)
{
	(void)user;
	fail_msg("out of memory: %zu bytes", bytes);
}

static struct ir_module *
example(struct ir_ctx *c, const char *name)
{
	const char *top = getenv("top_srcdir"), *why;
	struct ir_module *m = NULL;
	uint32_t file;

	if (!source_read(&c->sources,
			 arena_printf(&c->perm, "%s/examples/%s.llm",
				      top ? top : ".", name), &file, &why)) {
		fail_msg("%s: %s", name, why);
	}
	m = fe_compile(c, file);
	assert_non_null(m);
	assert_int_equal(pass_apply(m, "fold-dims,inline,autodiff", false),
			 PASS_OK);
	return m;
}

/* All of it is given back at the end. */
static void
check(const char *model, const char *cluster, size_t mark)
{
	struct counter x = { 0 };
	struct mem gate = { get, put, oom, &x };
	struct search_report r;
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;

	ir_ctx_init(&c, &gate);
	m = example(&c, model);
	t = target(&c, cluster);
	assert_true(run_search(m, &(struct search_options){ .target = &t },
			       &c.perm, &r));
	assert_true(r.found.n > 0);
	print_message("%s on %s: %zu bytes\n", model, cluster, x.most);
	assert_in_range(x.most, mark / 2, mark);
	ir_ctx_release(&c);
	assert_int_equal(x.now, 0);
}

static void
test_small(void **state)
{
	(void)state;
	check("llama-3.2-1b", "h100x8x8", 36 * 1000 * 1000);
}

static void
test_experts(void **state)
{
	(void)state;
	check("mixtral-8x7b", "h100x8x8", 68 * 1000 * 1000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_experts)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
