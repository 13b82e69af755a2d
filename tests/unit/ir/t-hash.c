/* What a module computes, as a hash: what counts, and what does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "passes/pass.h"
#include "tests/unit/shared/t-type.h"

static const char text[] =
	"model m { dim batch = 2, seq = 3, hidden = 4, ffn = 6, vocab = 5;"
	" dtype f32;"
	" x = embed(tokens, vocab -> hidden) @ \"e\";"
	" repeat 2 as i { f = linear(x -> ffn) @ \"u.{i}\";"
	" x = x + linear(f -> hidden) @ \"d.{i}\"; }"
	" loss = cross_entropy(linear(x -> vocab) @ \"head\", labels); }"
	" train { batch = 2; optimizer = adamw(lr = 0.01); }";

/* With that name before all others: they are numbered from there. */
static struct ir_module *
compile(struct ir_ctx *c, const char *first)
{
	struct ir_module *m;
	uint32_t base;

	ir_ctx_init(c, NULL);
	intern_str(&c->syms, first);
	assert_true(source_add(&c->sources, "test", text, strlen(text),
			       &base));
	m = fe_compile(c, c->sources.files.n - 1);
	assert_true(m && pass_apply(m, "train", true) == PASS_OK);
	return m;
}

/* ---- one thing is another ---- */

static struct ir_attr *
attr_of(struct ir_module *m, enum ir_attr_key key)
{
	uint32_t i = 1;

	while (m->attrs.at[i].key != key) {
		i++;
		assert_true(i < m->attrs.n);
	}
	return &m->attrs.at[i];
}

static struct ir_region *
repeated(struct ir_module *m)
{
	region_id r = 1;

	while (!m->regions.at[r].owner) {
		r++;
		assert_true(r < m->regions.n);
	}
	return &m->regions.at[r];
}

static struct ir_node *
computing(struct ir_module *m, const struct ir_region *r)
{
	uint32_t i = 0;

	while (!m->nodes.at[r->nodes.at[i]].nargs ||
	       !m->nodes.at[r->nodes.at[i]].nresults) {
		i++;
		assert_true(i < r->nodes.n);
	}
	return &m->nodes.at[r->nodes.at[i]];
}

static void
change(struct ir_module *m, uint32_t what)
{
	struct ir_region *r = repeated(m);
	struct ir_node *n = computing(m, r);
	struct ir_type *t = own_type(m, n->result);
	uint32_t *out[] = {
		&t->dims[0], &t->cut[0], &t->of,
		&m->args.at[n->args], &n->region, &n->callee, &n->result,
		&attr_of(m, IR_ATTR_NAME)->text,
		&r->nodes.at[0], &r->params.at[0], &r->results.at[0],
		&m->funcs.at[1].body, &m->dims.at[1].name
	};
	uint8_t *small[] = {
		&t->dtype, &t->sum, &t->routed,
		&attr_of(m, IR_ATTR_COUNT)->key
	};

	assert_true(t->ndims > 0);
	assert_true(r->params.n > 0 && r->results.n > 0);
	if (what < sizeof out / sizeof *out) {
		*out[what] ^= 1;
		return;
	}
	what -= (uint32_t)(sizeof out / sizeof *out);
	if (what < sizeof small / sizeof *small) {
		*small[what] ^= 1;
		return;
	}
	switch (what - (uint32_t)(sizeof small / sizeof *small)) {
	case 0: m->dims.at[1].size++; break;
	case 1: t->ndims--; break;
	case 2: n->op++; break;
	case 3: n->nargs--; break;
	case 4: attr_of(m, IR_ATTR_COUNT)->i++; break;
	case 5: attr_of(m, IR_ATTR_COUNT)->num = 0.5; break;
	case 6: m->funcs.at[1].is_model ^= 1; break;
	case 7: r->nodes.n--; break;
	case 8: r->params.n--; break;
	case 9: r->results.n--; break;
	default: m->values.n--; break;
	}
}

#define CHANGES 28

static void
test_changes(void **state)
{
	struct ir_ctx c, d;
	struct ir_module *m = compile(&c, "a");
	struct hash of[CHANGES + 1] = { ir_hash(m) }, all;
	uint32_t i, k;

	(void)state;
	for (i = 1; i <= CHANGES; i++) {
		m = compile(&d, "a");
		assert_true(hash_same(ir_hash(m), of[0]));
		all = ir_hash_all(m);
		change(m, i - 1);
		of[i] = ir_hash(m);
		assert_false(hash_same(ir_hash_all(m), all));
		for (k = 0; k < i; k++) {
			if (hash_same(of[i], of[k])) {
				fail_msg("%u and %u are the same", i, k);
			}
		}
		ir_ctx_release(&d);
	}
	ir_ctx_release(&c);
}

/* ---- the same by other names ---- */

static void
test_same(void **state)
{
	struct ir_ctx c, d, child;
	struct ir_module *m = compile(&c, "a"), *x = compile(&d, "");
	struct hash hash = ir_hash(m);
	uint32_t i;

	(void)state;
	assert_true(x->name != m->name && hash_same(ir_hash(x), hash));
	for (i = 1; i < x->nodes.n; i++) {
		x->nodes.at[i].span.lo++;
	}
	for (i = 1; i < x->values.n; i++) {
		x->values.at[i].hint = 0;
	}
	x->axes.n = x->hints.n = x->settings.n = 0;
	assert_true(hash_same(ir_hash(x), hash));
	ir_ctx_child(&child, &c);
	assert_true(hash_same(ir_hash(ir_copy(m, &child)), hash));
	ir_ctx_release(&child);
	ir_ctx_release(&d);
	ir_ctx_release(&c);
}

/* ---- all of it ---- */

/* What no function computes with. */
static void
change_beside(struct ir_module *m, uint32_t what)
{
	switch (what) {
	case 0: m->nodes.at[1].span.lo++; break;
	case 1: m->values.at[1].hint++; break;
	case 2: m->name++; break;
	case 3: m->funcs.at[1].name++; break;
	case 4: m->axes.at[0].size++; break;
	case 5: m->axes.at[0].name++; break;
	case 6: m->axes.at[0].time ^= 1; break;
	case 7: m->exprs.at[0].value++; break;
	case 8: m->settings.at[0].num[0]++; break;
	case 9: m->settings.at[0].key++; break;
	default: m->settings.n--; break;
	}
}

#define BESIDE 11

static void
test_all(void **state)
{
	struct ir_ctx c, child;
	struct ir_module *m = compile(&c, "a"), *copy;
	struct hash of[BESIDE + 1] = { ir_hash_all(m) };
	uint32_t i, k;

	(void)state;
	for (i = 1; i <= BESIDE; i++) {
		ir_ctx_child(&child, &c);
		copy = ir_copy(m, &child);
		assert_true(copy->settings.n && copy->axes.n && copy->exprs.n);
		assert_true(hash_same(ir_hash_all(copy), of[0]));
		change_beside(copy, i - 1);
		of[i] = ir_hash_all(copy);
		for (k = 0; k < i; k++) {
			assert_false(hash_same(of[i], of[k]));
		}
		ir_ctx_release(&child);
	}
	ir_ctx_release(&c);
}

/* With an axis whose name its context alone has, and other contexts none. */
static void
hash_axis(const struct ir_ctx *parent, const struct ir_module *m,
	  const char *axis, struct hash *ids, struct hash *texts)
{
	struct ir_module *copy;
	struct ir_ctx c;

	ir_ctx_child(&c, parent);
	copy = ir_copy(m, &c);
	ir_axis_add(copy, intern_str(&c.syms, axis), 2, (struct span){ 0, 0 });
	*ids = *texts = ir_hash_all(copy);
	ir_hash_names(copy, parent->syms.text.n, texts);
	ir_ctx_release(&c);
}

/* Two children of a context give one id to two names. */
static void
test_names(void **state)
{
	struct hash ids[3], texts[3];
	struct ir_module *m;
	struct ir_ctx c;

	(void)state;
	m = compile(&c, "a");
	hash_axis(&c, m, "tp", &ids[0], &texts[0]);
	hash_axis(&c, m, "cp", &ids[1], &texts[1]);
	hash_axis(&c, m, "tp", &ids[2], &texts[2]);
	assert_true(hash_same(ids[0], ids[1]));
	assert_false(hash_same(texts[0], texts[1]));
	assert_true(hash_same(texts[0], texts[2]));
	ir_ctx_release(&c);
}

static void
test_text(void **state)
{
	static const char *const texts[] = {
		"", "a", "b", "ab", "ba", "abcdefgh", "abcdefgi",
		"abcdefghi", "abcdefghabcdefgh", "abcdefghabcdefg"
	};
	uint64_t of[sizeof texts / sizeof *texts];
	uint32_t i, k;

	(void)state;
	for (i = 0; i < sizeof texts / sizeof *texts; i++) {
		of[i] = hash_text(1, texts[i]);
		assert_true(of[i] != hash_text(2, texts[i]));
		for (k = 0; k < i; k++) {
			assert_true(of[i] != of[k]);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
