/*
 * Copies of modules: they print as the module does, a plan that is tried on
 * one leaves nothing after in the module or its context, and comes to what
 * it comes to on the module itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>

#include "frontend/frontend.h"
#include "passes/pass.h"
#include "passes/plan/plan.h"

#define DENSE "tp=2,dp=2,microbatch=1,zero=1"
#define EXPERTS "ep=2,dp=2,microbatch=1,sequence=off"

static const char tiny[] =
	"model m { dim batch = 2, seq = 3, hidden = 4, ffn = 6, vocab = 5;"
	" dtype f32;"
	" x = embed(tokens, vocab -> hidden) @ \"e\";"
	" repeat 2 as i { f = linear(x -> ffn) @ \"u.{i}\";"
	" x = x + linear(f -> hidden) @ \"d.{i}\"; }"
	" loss = cross_entropy(linear(x -> vocab) @ \"head\", labels); }"
	" train { batch = 2; optimizer = adamw(lr = 0.01); }";

/* ---- blocks that are not given back ---- */

static void *
count_get(void *user, size_t bytes)
{
	++*(size_t *)user;
	return malloc(bytes);
}

static void
count_put(void *user, void *p)
{
	--*(size_t *)user;
	free(p);
}

/* ---- modules ---- */

/* In the arena: of the one as it stands when the other is gone. */
static const char *
printed(struct ir_module *m, struct arena *a)
{
	struct buf b;

	buf_init(&b, a);
	ir_print(m, &b);
	return buf_text(&b);
}

static struct ir_module *
trained(struct ir_ctx *c, uint32_t file)
{
	struct ir_module *m = fe_compile(c, file);

	if (m && pass_apply(m, "train", true) == PASS_OK) {
		return m;
	}
	diag_flush(&c->diags, stderr);
	fail_msg("a model is not compiled");
	return NULL;
}

static struct ir_module *
trained_text(struct ir_ctx *c, const char *text)
{
	uint32_t base;

	assert_true(source_add(&c->sources, "test", text, strlen(text),
			       &base));
	return trained(c, c->sources.files.n - 1);
}

/* The text of the rank programs; NULL if the plan is refused. */
static const char *
split(struct ir_module *m, const char *pins, struct arena *a)
{
	if (!plan_pin(m, pins) ||
	    pass_apply(m, "place,stage", true) != PASS_OK) {
		return NULL;
	}
	return printed(m, a);
}

/* ---- tests ---- */

/* Each node that stands in a region, and what it makes. */
static void
count_region(const struct ir_module *m, region_id r, uint32_t *nodes,
	     uint32_t *values)
{
	const struct ir_region *region = &m->regions.at[r];
	uint32_t i;

	*values += region->params.n;
	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, region->nodes.at[i]);

		*nodes += 1;
		*values += n->nresults;
		if (n->region) {
			count_region(m, n->region, nodes, values);
		}
	}
}

/* The attributes that nodes have, those that they share once. */
static uint32_t
count_attrs(const struct ir_module *m, struct arena *a)
{
	bool *seen = arena_alloc(a, m->attrs.n + 1);
	uint32_t n = 0;
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *x = ir_node(m, id);

		n += seen[x->attrs] ? 0 : x->nattrs;
		seen[x->attrs] |= x->nattrs != 0;
	}
	return n;
}

/* Nothing else is in it, but for the first of each, which is none. */
static void
has_what_it_reaches(const struct ir_module *m, struct arena *a)
{
	uint32_t nodes = 1, values = 1;
	func_id f;

	for (f = 1; f < m->funcs.n; f++) {
		count_region(m, m->funcs.at[f].body, &nodes, &values);
	}
	assert_int_equal(m->nodes.n, nodes);
	assert_int_equal(m->values.n, values);
	assert_int_equal(m->attrs.n, count_attrs(m, a));
}

/* It is the same elsewhere, with names of its own, and smaller. */
static void
move(struct ir_module *m, const struct ir_ctx *parent, const char *text,
     struct arena *a)
{
	uint32_t names = m->ctx->syms.text.n, values = m->values.n;
	size_t bytes = m->ctx->perm.total_bytes;
	struct ir_module *moved;
	struct ir_ctx c;

	assert_true(names > parent->syms.text.n);
	ir_ctx_child(&c, parent);
	moved = ir_move(m, &c);
	assert_true(moved->ctx == &c && moved->values.n < values);
	has_what_it_reaches(moved, a);
	assert_true(ir_verify(moved));
	assert_int_equal(c.syms.text.n, names);
	assert_true(c.perm.total_bytes < bytes);
	assert_string_equal(printed(moved, a), text);
	ir_ctx_release(&c);
}

/* What a trial comes to, all that is left of it; the module is as it was. */
static const char *
try(struct ir_module *m, const char *pins, struct arena *a)
{
	const char *before = printed(m, a), *after;
	uint32_t names = m->ctx->syms.text.n;
	size_t bytes = m->ctx->perm.total_bytes;
	struct ir_module *copy;
	struct ir_ctx child;

	ir_ctx_child(&child, m->ctx);
	copy = ir_copy(m, &child);
	assert_string_equal(printed(copy, a), before);
	after = split(copy, pins, a);
	assert_true((after == NULL) == (child.diags.errors > 0));
	if (after) {
		move(copy, m->ctx, after, a);
	} else {
		ir_ctx_release(&child);
	}
	assert_int_equal(m->ctx->diags.records.n, 0);
	assert_int_equal(m->ctx->diags.errors, 0);
	assert_int_equal(m->ctx->syms.text.n, names);
	assert_true(m->ctx->perm.total_bytes == bytes);
	assert_string_equal(printed(m, a), before);
	return after;
}

static void
try_example(const char *path)
{
	const char *first, *dense, *experts, *why;
	size_t live = 0;
	struct mem gate;
	struct ir_module *m;
	struct ir_ctx c;
	struct arena a;
	uint32_t file;

	mem_init(&gate);
	gate.get = count_get;
	gate.put = count_put;
	gate.user = &live;
	ir_ctx_init(&c, &gate);
	arena_init(&a, &c.mem);
	assert_true(source_read(&c.sources, path, &file, &why));
	m = trained(&c, file);
	first = try(m, DENSE, &a);
	assert_non_null(first);
	experts = try(m, EXPERTS, &a);
	/* a trial does not know of those before it */
	assert_string_equal(try(m, DENSE, &a), first);
	dense = split(ir_copy(m, &c), DENSE, &a);
	assert_string_equal(dense, first);
	if (experts) {
		assert_string_equal(split(m, EXPERTS, &a), experts);
	}
	arena_release(&a);
	ir_ctx_release(&c);
	assert_true(live == 0);
}

static int
is_example(const struct dirent *e)
{
	const char *dot = strrchr(e->d_name, '.');

	return dot && strcmp(dot, ".llm") == 0;
}

static void
test_examples(void **state)
{
	const char *top = getenv("top_srcdir");
	struct dirent **names;
	char dir[4096], path[4400];
	int n, i;

	(void)state;
	snprintf(dir, sizeof dir, "%s/examples", top ? top : ".");
	n = scandir(dir, &names, is_example, alphasort);
	assert_true(n > 10);
	for (i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
		try_example(path);
		free(names[i]);
	}
	free(names);
}

/* A copy is not changed by what becomes of the module, either. */
static void
test_other_way(void **state)
{
	struct ir_module *m, *copy;
	const char *before;
	struct ir_ctx c, child;

	(void)state;
	ir_ctx_init(&c, NULL);
	m = trained_text(&c, tiny);
	before = printed(m, &c.perm);
	ir_ctx_child(&child, &c);
	copy = ir_copy(m, &child);
	assert_non_null(split(m, DENSE, &c.perm));
	assert_string_equal(printed(copy, &child.perm), before);
	ir_ctx_release(&child);
	ir_ctx_release(&c);
}

/* What a trial reports is reported with its lines, and forgotten with it. */
static void
test_errors(void **state)
{
	struct source_pos pos;
	struct ir_module *m, *copy;
	struct ir_ctx c, child;
	sym_t name;

	(void)state;
	ir_ctx_init(&c, NULL);
	assert_true(diag_warning_option(&c.diags, "error"));
	m = trained_text(&c, tiny);
	ir_ctx_child(&child, &c);
	copy = ir_copy(m, &child);
	assert_true(child.diags.fatal[0]);
	assert_null(split(copy, "ep=2", &child.perm));
	assert_true(child.diags.errors == 1 && child.diags.records.n > 0);
	name = intern_str(&child.syms, "only in the child");
	assert_true(name >= c.syms.text.n);
	assert_true(source_locate(&child.sources, 1, &pos));
	assert_string_equal(pos.file->name, "test");
	ir_ctx_release(&child);
	assert_true(c.diags.errors == 0 && c.diags.records.n == 0);
	assert_true(source_locate(&c.sources, 1, &pos) && pos.line == 1);
	ir_ctx_release(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_other_way),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}
