/*
 * The text form: random sound modules print, read and print the same; every
 * allocation of the reader may fail.  Nodes are bound as if each was the first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/t-ir.h"
#include "tests/unit/shared/t-scarce.h"

#define MODULES 2500

/* ---- print, read, print ---- */

static void
expect_sound(struct ir_ctx *c, struct ir_module *m, uint64_t seed)
{
	if (!m || !ir_verify(m)) {
		diag_flush(&c->diags, stderr);
		fail_msg("seed %llu", (unsigned long long)seed);
	}
}

/* What is still to come, of a text that is printed bit by bit. */
static const char *expected;

static void
expect_next(struct buf *b)
{
	if (strncmp(expected, b->at, b->n) != 0) {
		fail_msg("printed bit by bit: %.*s\nin place of: %.*s",
			 (int)b->n, b->at, (int)b->n, expected);
	}
	expected += b->n;
	b->n = 0;
}

/* The same text, by way of a small buffer, and with nothing allocated. */
static void
print_in_bits(struct ir_module *m, const char *text)
{
	struct ir_print_scratch scratch;
	char few[24];
	struct buf b = { .at = few, .cap = sizeof few, .full = expect_next };
	size_t perm = m->ctx->perm.total_bytes, tmp;

	ir_print_ready(m, &m->ctx->tmp, &scratch);
	tmp = m->ctx->tmp.total_bytes;
	expected = text;
	ir_print_in(m, &scratch, &b);
	expect_next(&b);
	assert_int_equal(*expected, '\0');
	assert_int_equal(m->ctx->perm.total_bytes, perm);
	assert_int_equal(m->ctx->tmp.total_bytes, tmp);
}

static void
round_trip(uint64_t seed, uint32_t *made)
{
	struct ir_ctx a, b;
	struct ir_module *m;
	struct buf first, second;
	uint32_t base;

	ir_ctx_init(&a, NULL);
	ir_ctx_init(&b, NULL);
	m = make_module(&a, seed, made);
	expect_sound(&a, m, seed);
	buf_init(&first, &a.perm);
	ir_print(m, &first);
	print_in_bits(m, buf_text(&first));
	assert_true(source_add(&b.sources, "printed.ir", buf_text(&first),
			       first.n, &base));
	m = ir_read(&b, 0);
	expect_sound(&b, m, seed);
	buf_init(&second, &b.perm);
	ir_print(m, &second);
	if (second.n != first.n ||
	    memcmp(buf_text(&first), buf_text(&second), first.n) != 0) {
		fail_msg("seed %llu:\n%s\nand then:\n%s",
			 (unsigned long long)seed, buf_text(&first),
			 buf_text(&second));
	}
	ir_ctx_release(&a);
	ir_ctx_release(&b);
}

static void
random_modules(void **state)
{
	uint32_t made[IR_OP_COUNT] = { 0 };
	uint64_t seed;
	int op;

	(void)state;
	for (seed = 1; seed <= MODULES; seed++) {
		round_trip(seed, made);
	}
	for (op = 0; op < IR_OP_COUNT; op++) {
		/* tests/ir/placed has those that change a placement */
		if (made[op] < 20 && !ir_is((enum ir_op)op, IRF_CONVERTS)) {
			fail_msg("%s was made only %u times", ir_ops[op].name,
				 made[op]);
		}
	}
}

/* ---- copies of nodes ---- */

static void
expect_like(const struct ir_module *m, node_id a, node_id b)
{
	const struct ir_node *x = ir_node(m, a), *y = ir_node(m, b);
	uint32_t i;

	assert_true(x->op == y->op && x->nargs == y->nargs &&
		    x->nattrs == y->nattrs && x->nresults == y->nresults);
	assert_memory_equal(ir_args(m, x), ir_args(m, y),
			    x->nargs * sizeof(value_id));
	assert_int_equal(x->attrs, y->attrs);
	for (i = 0; i < x->nresults; i++) {
		const struct ir_value *v = &m->values.at[x->result + i];
		const struct ir_value *w = &m->values.at[y->result + i];

		assert_int_equal(v->type, w->type);
		assert_true(v->hint == w->hint && v->index == w->index);
		assert_int_equal(w->node, b);
	}
}

/* ---- types ---- */

static void
kept_types(void **state)
{
	struct ir_type t = { .dtype = IR_F32, .ndims = 2,
			     .dims = { 1, 2, 99 }, .cut = { 0, 1, 99 } };
	uint8_t *bytes[] = { &t.dtype, &t.ndims, &t.sum, &t.routed };
	uint32_t *words[] = { &t.of, &t.dims[0], &t.cut[1] }, i;
	const struct ir_type *first;
	struct ir_ctx c, child;
	type_id id, n;

	(void)state;
	ir_ctx_init(&c, NULL);
	ir_ctx_child(&child, &c);
	id = ir_type_keep(&child, &t);
	first = ir_type_of(&c, id);
	n = c.types->at.n;
	for (i = 0; i < 7; i++) {
		struct ir_type was = t;

		if (i < 4) {
			*bytes[i] ^= 1;
		} else {
			*words[i - 4] ^= 4;
		}
		assert_int_equal(ir_type_keep(&c, &t), n + i);
		t = was;
	}
	for (i = 3; i < 2000; i++) {	/* it moves, and is as it was */
		t.dims[0] = i;
		ir_type_keep(&c, &t);
	}
	t.dims[0] = 1;
	t.dims[2] = t.cut[2] = 0;
	ir_ctx_release(&child);
	assert_int_equal(ir_type_keep(&c, &t), id);
	assert_memory_equal(ir_type_of(&c, id), &t, sizeof t);
	assert_memory_equal(first, &t, sizeof t);
	ir_ctx_release(&c);
}

/* Types and names of a context apart are its parent's, and then its own. */
static void
apart(void **state)
{
	struct ir_type t = { .dtype = IR_F32, .ndims = 1, .dims = { 1 } };
	uint32_t made[IR_OP_COUNT] = { 0 }, n;
	struct ir_module *m, *copy;
	struct ir_ctx c, other;
	struct buf x, y;
	type_id id;

	(void)state;
	ir_ctx_init(&c, NULL);
	m = make_module(&c, 5, made);
	ir_ctx_apart(&other, &c);
	copy = ir_copy(m, &other);
	n = c.types->at.n;
	assert_int_equal(other.types->at.n, n);
	t.dims[0] = 1000;
	id = ir_type_keep(&other, &t);
	assert_int_equal(id, n);
	assert_int_equal(intern_str(&other.syms, "only_there"),
			 c.syms.text.n);
	assert_int_equal(c.types->at.n, n);
	assert_int_equal(intern_find(&c.syms, "only_there"), 0);
	buf_init(&x, &c.perm);
	buf_init(&y, &other.perm);
	ir_print(m, &x);
	ir_print(copy, &y);
	assert_string_equal(buf_text(&x), buf_text(&y));
	ir_ctx_release(&other);
	ir_ctx_release(&c);
}

static void
copies_of_nodes(void **state)
{
	uint32_t made[IR_OP_COUNT] = { 0 }, n;
	uint64_t seed;
	region_id r;
	node_id id;

	(void)state;
	for (seed = 1; seed <= 100; seed++) {
		struct ir_ctx c;
		struct ir_module *m;

		ir_ctx_init(&c, NULL);
		m = make_module(&c, seed, made);
		r = m->regions.n - 1;
		n = m->nodes.n;
		for (id = 1; id < n; id++) {
			struct ir_node was = *ir_node(m, id);
			value_id v;

			if (was.region) {
				continue;
			}
			v = ir_append_like(m, r, id, ir_args(m, &was));
			assert_int_equal(v, ir_node(m, m->nodes.n -
						    1)->result);
			assert_int_equal(v != 0, was.nresults != 0);
			expect_like(m, id, m->nodes.n - 1);
		}
		ir_ctx_release(&c);
	}
}

/* ---- bindings ---- */

/* As when nothing was bound before; how many nodes. */
static uint32_t
expect_bound(struct ir_module *m)
{
	const struct ir_type *types[IR_MAX_OPERANDS];
	struct ir_rule alone, known;
	const char *why;
	uint32_t n = 0, i;
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *x = ir_node(m, id);

		if (ir_is(x->op, IRF_SOURCE | IRF_SINK | IRF_REGION |
			  IRF_CALLS)) {
			continue;
		}
		for (i = 0; i < x->nargs; i++) {
			types[i] = ir_type(m, ir_args(m, x)[i]);
		}
		assert_true(ir_rule_bind(m, x->op, types, m->attrs.at +
					 x->attrs, x->nattrs, &alone, &why));
		ir_bind(m, x, &known);
		assert_int_equal(known.nf, alone.nf);
		for (i = 0; i < alone.nf; i++) {
			assert_string_equal(known.f[i].name, alone.f[i].name);
			assert_int_equal(known.f[i].n, alone.f[i].n);
			assert_memory_equal(known.f[i].dims, alone.f[i].dims,
					    alone.f[i].n * sizeof(dim_id));
		}
		n++;
	}
	return n;
}

/* One context: the dims of its modules have the same numbers. */
static void
bindings(void **state)
{
	uint32_t made[IR_OP_COUNT] = { 0 }, n = 0;
	struct ir_ctx c, child;
	uint64_t seed;

	(void)state;
	ir_ctx_init(&c, NULL);
	for (seed = 1; seed <= 200; seed++) {
		struct ir_module *m = make_module(&c, seed, made);

		n += expect_bound(m);
		ir_ctx_child(&child, &c);
		expect_bound(ir_copy(m, &child));
		ir_ctx_release(&child);
	}
	assert_true(n > 1000);
	ir_ctx_release(&c);
}

/* ---- spans ---- */

static void
spans(void **state)
{
	static const char text[] =
		"llmc-ir 1\n"
		"dim a = 2\n"
		"model {\n"
		"  %x.0 = input name=\"x\" : f32[a]  # why\n"
		"  return %x.0\n"
		"}";
	static const char want[] = "%x.0 = input name=\"x\" : f32[a]";
	struct ir_ctx c;
	struct ir_module *m;
	struct span at;
	uint32_t base;

	(void)state;
	ir_ctx_init(&c, NULL);
	assert_true(source_add(&c.sources, "t.ir", text, strlen(text),
			       &base));
	m = ir_read(&c, 0);
	assert_non_null(m);
	at = ir_node(m, m->nodes.n - 1)->span;
	assert_int_equal(at.hi - at.lo, strlen(want));
	assert_memory_equal(text + at.lo - base, want, strlen(want));
	ir_ctx_release(&c);
}

/* ---- memory that runs out ---- */

/* Reads with `left` requests granted; true if that was enough. */
static bool
read_with(const char *text, long left, long *live)
{
	static struct scarce s;
	static struct ir_ctx c;
	struct mem m = scarce_mem(&s);
	volatile bool done = false;
	uint32_t base;

	s.left = left;
	s.live = 0;
	if (setjmp(s.out) == 0) {
		ir_ctx_init(&c, &m);
		source_add(&c.sources, "t.ir", text, strlen(text), &base);
		ir_read(&c, 0);
		done = true;
	}
	ir_ctx_release(&c);
	*live = s.live;
	return done;
}

static void
out_of_memory(void **state)
{
	struct ir_ctx c;
	struct buf text;
	uint32_t made[IR_OP_COUNT] = { 0 };
	uint64_t seed;

	(void)state;
	ir_ctx_init(&c, NULL);
	for (seed = 1; seed <= 3; seed++) {
		struct ir_module *m = make_module(&c, seed * 40, made);
		const char *whole;
		long left, live;

		buf_init(&text, &c.perm);
		ir_print(m, &text);
		whole = buf_text(&text);
		if (seed == 3) {	/* and what ends in the middle */
			whole = arena_strndup(&c.perm, whole, text.n / 2);
		}
		for (left = 0; !read_with(whole, left, &live); left++) {
			assert_int_equal(live, 0);
		}
		assert_int_equal(live, 0);
	}
	ir_ctx_release(&c);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_modules),
		cmocka_unit_test(kept_types),
		cmocka_unit_test(apart),
		cmocka_unit_test(copies_of_nodes),
		cmocka_unit_test(bindings),
		cmocka_unit_test(spans),
		cmocka_unit_test(out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
