/* Arenas, text, numbers, names, source positions and diagnostics. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

static int
setup(void **state)
{
	struct arena *a = malloc(sizeof *a);
	struct mem *m = malloc(sizeof *m);

	mem_init(m);
	arena_init(a, m);
	*state = a;
	return 0;
}

static int
teardown(void **state)
{
	struct arena *a = *state;
	struct mem *m = a->mem;

	arena_release(a);
	free(m);
	free(a);
	return 0;
}

static void
test_arena(void **state)
{
	struct arena *a = *state;
	size_t i, n;

	for (i = 0; i < 2000; i++) {
		n = (i * 37) % 500 + (i % 97 == 0 ? 100000 : 0);
		unsigned char *p = arena_alloc(a, n);

		assert_int_equal((uintptr_t)p % 16, 0);
		for (size_t k = 0; k < n; k++) {
			assert_int_equal(p[k], 0);
		}
		memset(p, 0xff, n);
	}
	assert_string_equal(arena_printf(a, "%d-%s", 7, "x"), "7-x");
	assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
}

/* What is joined stays, and is released once, by whoever has it now. */
static void
test_arena_join(void **state)
{
	struct arena *a = *state, b, none;
	const char *ours = arena_strndup(a, "ours", 4), *theirs, *large;
	size_t bytes = a->total_bytes;

	arena_init(&b, a->mem);
	arena_init(&none, a->mem);
	theirs = arena_strndup(&b, "theirs", 6);
	large = memset(arena_alloc(&b, 100000), 'x', 99999);
	bytes += b.total_bytes;
	arena_join(a, &b);
	arena_join(a, &none);
	assert_null(b.chunks);
	assert_int_equal(b.total_bytes, 0);
	assert_true(a->total_bytes == bytes);
	memset(arena_alloc(a, 64), 0xff, 64);
	memset(arena_alloc(&b, 64), 0xff, 64);
	arena_release(&b);
	assert_string_equal(ours, "ours");
	assert_string_equal(theirs, "theirs");
	assert_int_equal(strlen(large), 99999);
	arena_init(&b, a->mem);
	arena_join(&b, a);
	assert_null(a->chunks);
	assert_string_equal(ours, "ours");
	arena_release(&b);
}

static jmp_buf out_of_memory;
static long allowed;

static void *
stingy_get(void *user, size_t bytes)
{
	(void)user;
	return allowed-- > 0 ? malloc(bytes) : NULL;
}

static void
jump(void *user, size_t bytes)
{
	(void)user;
	(void)bytes;
	longjmp(out_of_memory, 1);
}

/* Every allocation may fail; what was had before is still released. */
static void
test_arena_oom(void **state)
{
	struct mem m;
	struct arena a;
	volatile long n;
	volatile bool done = false;

	(void)state;
	mem_init(&m);
	m.get = stingy_get;
	m.oom = jump;
	for (n = 0; !done; n++) {
		allowed = n;
		arena_init(&a, &m);
		if (setjmp(out_of_memory) == 0) {
			struct intern t;
			char name[16];

			intern_init(&t, &a);
			for (int i = 0; i < 500; i++) {
				snprintf(name, sizeof name, "n%d", i);
				intern_str(&t, name);
			}
			done = true;
		}
		arena_release(&a);
	}
	assert_true(n > 1);
}

/* ---- pools ---- */

struct counts {
	long gets, live;
};

static void *
count_get(void *user, size_t bytes)
{
	struct counts *c = user;

	c->gets++;
	c->live++;
	return malloc(bytes);
}

static void
count_put(void *user, void *p)
{
	((struct counts *)user)->live--;
	free(p);
}

#ifdef __SANITIZE_ADDRESS__
#define is_poisoned(p) (__asan_address_is_poisoned(p) != 0)

/* A byte before or after any object, or in one that was released, is found. */
static void
test_redzones(void **state)
{
	static char *at[2000];
	struct arena *a = *state;
	size_t i, n, k;
	bool large;

	for (i = 0; i < 2000; i++) {
		n = i % 97 == 0 ? 100000 : (i * 37) % 3000 + 1;
		at[i] = i % 2 ? arena_alloc(a, n) : arena_alloc_raw(a, n);
		for (k = 0; k < n; k++) {
			assert_false(is_poisoned(at[i] + k));
		}
		n = (n + 15) / 16 * 16;
		/* a large one is malloc's, after its chunk's header */
		large = n > 16384;
		for (k = 0; k < (large ? 16 : 32); k++) {
			assert_true(is_poisoned(at[i] + n + k));
			assert_true(large || is_poisoned(at[i] - 1 - k));
		}
	}
	arena_release(a);
	for (i = 0; i < 2000; i++) {
		assert_true(is_poisoned(at[i]));
	}
}

/* Where requests are counted each object is one, so that each can fail; of
 * libc's memory many share a chunk. */
static void
test_apart(void **state)
{
	struct counts c = { 0, 0 };
	struct mem under, gate, *const gates[] = { &under, &gate };
	struct mem_pool pool;
	struct arena a;
	size_t i, k;
	char *at;

	(void)state;
	mem_init(&under);
	under.get = count_get;
	under.put = count_put;
	under.user = &c;
	mem_pool_init(&pool, &under, &gate);
	for (i = 0; i < 2; i++) {
		c.gets = 0;
		arena_init(&a, gates[i]);
		for (k = 0; k < 100; k++) {
			arena_alloc(&a, 8);
		}
		assert_int_equal(c.gets, 100);
		arena_release(&a);
	}
	mem_pool_release(&pool);
	assert_int_equal(c.live, 0);
	mem_init(&under);
	mem_pool_init(&pool, &under, &gate);
	for (i = 0; i < 2; i++) {
		arena_init(&a, gates[i]);
		at = arena_alloc(&a, 8);
		assert_ptr_equal(arena_alloc(&a, 8), at + 48);
		arena_release(&a);
	}
	mem_pool_release(&pool);
}

#define SANITIZED_TESTS TEST(test_redzones), TEST(test_apart),
#else
#define SANITIZED_TESTS
#endif

/* Takes some of each size; the same sizes in each round. */
static void
use_gate(struct mem *gate)
{
	static const size_t sizes[] = {
		1, 100, 16383, 16384, 16385, 20000, 65552, 65600, 65601,
		300000, 1000000, 1100000, 5000000
	};
	struct arena a, b;
	size_t i, k;

	arena_init(&a, gate);
	arena_init(&b, gate);
	for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		unsigned char *p = arena_alloc(i % 2 ? &a : &b, sizes[i]);

		assert_int_equal((uintptr_t)p % 16, 0);
		for (k = 0; k < sizes[i]; k++) {
			assert_int_equal(p[k], 0);
		}
		memset(p, 0xff, sizes[i]);
	}
	arena_release(&a);
	arena_release(&b);
}

/* In the second round, nothing is asked for again. */
static void
test_pool(void **state)
{
	struct counts c = { 0, 0 };
	struct mem under, gate;
	struct mem_pool pool;
	long first;

	(void)state;
	mem_init(&under);
	under.get = count_get;
	under.put = count_put;
	under.user = &c;
	mem_pool_init(&pool, &under, &gate);
	use_gate(&gate);
	first = c.gets;
	if (c.live > 0) {	/* but under AddressSanitizer nothing waits */
		use_gate(&gate);
		assert_int_equal(c.gets - first, 0);
	}
#ifndef __SANITIZE_ADDRESS__
	assert_true(c.live > 0);
#endif
	mem_pool_release(&pool);
	assert_int_equal(c.live, 0);
}

#define NTAKEN 64

/* What somebody has of a pool: bytes that are his. */
struct taken {
	unsigned char *at;
	size_t bytes;
};

static void
give_back(struct mem *gate, struct taken *x, unsigned char mark)
{
	size_t i;

	for (i = 0; i < x->bytes; i++) {
		assert_int_equal(x->at[i], mark);
	}
	gate->put(gate->user, x->at);
	x->at = NULL;
}

/* Blocks come and go in any order, and are one again when all are back. */
static void
test_pool_joins(void **state)
{
	static struct taken all[NTAKEN];
	struct counts c = { 0, 0 };
	struct mem under, gate;
	struct mem_pool pool;
	uint32_t seed = 1, i;
	void *whole, *more;

	(void)state;
	mem_init(&under);
	under.get = count_get;
	under.put = count_put;
	under.user = &c;
	mem_pool_init(&pool, &under, &gate);
	for (i = 0; i < 20000; i++) {
		uint32_t k = (seed = seed * 1664525 + 1013904223) >> 26;
		struct taken *x = &all[k];

		if (x->at) {
			give_back(&gate, x, (unsigned char)k);
			continue;
		}
		x->bytes = 2048 + (seed >> 8) % (i % 8 ? 9000 : 150000);
		x->at = gate.get(gate.user, x->bytes);
		assert_int_equal((uintptr_t)x->at % 16, 0);
		memset(x->at, (int)k, x->bytes);
	}
	for (i = 0; i < NTAKEN; i++) {
		if (all[i].at) {
			give_back(&gate, &all[i], (unsigned char)i);
		}
	}
#ifndef __SANITIZE_ADDRESS__
	assert_int_equal(c.gets, 1);
#endif
	whole = gate.get(gate.user, ((size_t)32 << 20) - 16);
#ifndef __SANITIZE_ADDRESS__
	assert_int_equal(c.gets, 1);
#endif
	more = gate.get(gate.user, (size_t)40 << 20);
	memset(more, 1, (size_t)40 << 20);
	gate.put(gate.user, whole);
	gate.put(gate.user, more);
	mem_pool_release(&pool);
	assert_int_equal(c.live, 0);
}

static void
test_vec(void **state)
{
	struct arena *a = *state;
	VEC(int) v = { 0 };
	int i;

	for (i = 0; i < 10000; i++) {
		VEC_PUSH(a, &v, i * 3);
	}
	assert_int_equal(v.n, 10000);
	for (i = 0; i < 10000; i++) {
		assert_int_equal(v.at[i], i * 3);
	}
}

static const char *
double_text(struct arena *a, double v)
{
	struct buf b;

	buf_init(&b, a);
	buf_double(&b, v);
	assert_true(strtod(b.at, NULL) == v);
	return b.at;
}

static void
test_buf_int(void **state)
{
	static const int64_t v[] = {
		0, 1, -1, 9, 10, -10, 99, 100, 1234567890, INT64_MAX,
		INT64_MAX - 1, INT64_MIN, INT64_MIN + 1
	};
	struct arena *a = *state;
	char text[32];
	struct buf b;
	size_t i;

	for (i = 0; i < sizeof v / sizeof v[0]; i++) {
		buf_init(&b, a);
		buf_int(&b, v[i]);
		snprintf(text, sizeof text, "%" PRId64, v[i]);
		assert_string_equal(buf_text(&b), text);
	}
}

/* What is put there without vsnprintf is what that says. */
#define SAME_FORMAT(...) \
	do { \
		char same_text[256]; \
		struct buf same_buf; \
		buf_init(&same_buf, *state); \
		buf_printf(&same_buf, __VA_ARGS__); \
		snprintf(same_text, sizeof same_text, __VA_ARGS__); \
		assert_string_equal(same_buf.at, same_text); \
		assert_int_equal(same_buf.n, strlen(same_text)); \
		assert_string_equal(arena_printf(*state, __VA_ARGS__), \
				    same_text); \
	} while (0)

static void
test_buf_printf(void **state)
{
	SAME_FORMAT("%s", "");
	SAME_FORMAT("plain");
	SAME_FORMAT("%s of %u, %d%c", "one", UINT32_MAX, INT32_MIN, '.');
	SAME_FORMAT("%u%%%u and %5d, %-4s|%u", 1u, 2u, -3, "x", 4u);
	SAME_FORMAT("%lld %s", -(long long)INT64_MAX, "after");
	SAME_FORMAT("%s%s%s%s%.3f", "0123456789abcdef0123456789abcdef",
		    "0123456789abcdef0123456789abcdef",
		    "0123456789abcdef0123456789abcdef",
		    "0123456789abcdef0123456789abcdef", 2.5);
}

/* What buffers that do not grow have held so far. */
static char taken[64];

static void
take_all(struct buf *b)
{
	assert_true(b->n < b->cap && b->at[b->n] == '\0');
	assert_true(strlen(taken) + b->n < sizeof taken);
	strcat(taken, b->at);
	b->n = 0;
}

static void
test_buf_full(void **state)
{
	char text[40];
	struct buf b = { .at = text, .full = take_all };

	(void)state;
	for (b.cap = 2; b.cap <= sizeof text; b.cap++) {
		b.n = 0;
		taken[0] = text[0] = '\0';
		buf_puts(&b, "");
		buf_puts(&b, "one, ");
		buf_putc(&b, '2');
		buf_int(&b, -345);
		buf_double(&b, 6.5e-20);
		buf_puts(&b, "a text that is longer");
		take_all(&b);
		assert_string_equal(taken, "one, 2-3456.5e-20"
				    "a text that is longer");
	}
}

static void
test_buf(void **state)
{
	struct arena *a = *state;
	struct buf b;

	assert_string_equal(double_text(a, 0.1), "0.1");
	assert_string_equal(double_text(a, 1e-5), "1e-5");
	assert_string_equal(double_text(a, 500000), "500000");
	assert_string_equal(double_text(a, -2), "-2");
	assert_string_equal(double_text(a, 1e300), "1e300");
	assert_string_equal(double_text(a, 1.0 / 3), "0.3333333333333333");
	double_text(a, 5e-324);
	double_text(a, 1.7976931348623157e308);
	buf_init(&b, a);
	buf_grouped(&b, 124439808);
	buf_putc(&b, ' ');
	buf_grouped(&b, -1000);
	buf_putc(&b, ' ');
	buf_grouped(&b, 12);
	assert_string_equal(buf_text(&b), "124,439,808 -1,000 12");
	buf_init(&b, a);
	buf_json(&b, "a\"b\\\n\x01\xff\xc3\xa9", 9);
	assert_string_equal(buf_text(&b),
			    "\"a\\\"b\\\\\\n\\u0001\xef\xbf\xbd\xc3\xa9\"");
}

static void
test_num(void **state)
{
	int64_t v = 5;
	double d = 0;

	(void)state;
	assert_false(num_mul(INT64_MAX, 2, &v));
	assert_false(num_mul(INT64_MIN, -1, &v));
	assert_false(num_add(INT64_MAX, 1, &v));
	assert_int_equal(v, 5);
	assert_true(num_mul(-3, 4, &v));
	assert_int_equal(v, -12);
	assert_true(num_parse_int("-9223372036854775808", 20, &v));
	assert_true(v == INT64_MIN);
	assert_false(num_parse_int("9223372036854775808", 19, &v));
	assert_false(num_parse_int("", 0, &v));
	assert_false(num_parse_int("-", 1, &v));
	assert_false(num_parse_int("1e3", 3, &v));
	assert_true(num_parse_double("1e-5", 4, &d));
	assert_true(d == 1e-5);
	assert_false(num_parse_double("1e999", 5, &d));
	assert_false(num_parse_double("inf", 3, &d));
	assert_false(num_parse_double("nan", 3, &d));
	assert_false(num_parse_double("0x10", 4, &d));
	assert_false(num_parse_double("1.2.3", 5, &d));
	assert_true(num_gcd(12, 18) == 6 && num_gcd(7, 5) == 1);
	assert_true(num_ceil_div(7, 2) == 4 && num_ceil_div(8, 2) == 4);
	assert_true(num_gcd(0, 8) == 8 && num_gcd(8, 0) == 8);
}

static void
test_intern(void **state)
{
	struct arena *a = *state;
	struct intern t;
	char name[16];
	sym_t first;
	int i;

	intern_init(&t, a);
	assert_int_equal(intern_str(&t, ""), 0);
	assert_int_equal(intern_find(&t, ""), 0);
	assert_int_equal(intern_find(&t, "n0"), 0);
	assert_int_equal(t.text.n, 1);
	first = intern_str(&t, "n0");
	for (i = 0; i < 5000; i++) {
		snprintf(name, sizeof name, "n%d", i);
		assert_int_equal(intern_str(&t, name), first + (sym_t)i);
	}
	assert_string_equal(intern_text(&t, first + 42), "n42");
	assert_int_equal(intern_find(&t, "n42"), first + 42);
	assert_int_equal(intern_find(&t, "n"), 0);
	assert_int_equal(intern(&t, "n42xyz", 3), first + 42);
}

static void
test_source(void **state)
{
	struct arena *a = *state;
	struct sources s;
	struct source_pos p;
	uint32_t one, two;

	source_init(&s, a);
	assert_true(source_add(&s, "one", "ab\ncd\n", 6, &one));
	assert_true(source_add(&s, "two", "\xc3\xa9x", 3, &two));
	assert_false(source_locate(&s, 0, &p));
	assert_true(source_locate(&s, one + 4, &p));
	assert_int_equal(p.line, 2);
	assert_int_equal(p.col, 2);
	assert_string_equal(p.file->name, "one");
	assert_true(source_locate(&s, one + 6, &p));	/* end of file */
	assert_int_equal(p.line, 3);
	assert_true(source_locate(&s, two + 2, &p));
	assert_int_equal(p.col, 2);	/* a column is a character */
	assert_string_equal(p.file->name, "two");
}

/* What is kept is read for a file, NULs and all; what is added is not. */
static void
test_source_kept(void **state)
{
	const struct source_file *f;
	struct arena *a = *state;
	const char *why = NULL;
	struct sources s;
	uint32_t index, at;

	source_init(&s, a);
	assert_false(source_read(&s, "/nonexistent/x", &index, &why));
	assert_non_null(why);
	source_keep(&s, "/nonexistent/x", "a\0b\n", 4);
	source_keep(&s, "-", "from stdin", 10);
	assert_int_equal(s.files.n, 0);
	assert_true(source_read(&s, "/nonexistent/x", &index, &why));
	f = &s.files.at[index];
	assert_string_equal(f->name, "/nonexistent/x");
	assert_int_equal(f->len, 4);
	assert_memory_equal(f->text, "a\0b\n\0", 6);
	assert_true(f->is_read);
	assert_true(source_read(&s, "-", &index, &why));
	assert_string_equal(s.files.at[index].name, "<stdin>");
	assert_string_equal(s.files.at[index].text, "from stdin");
	assert_true(source_add(&s, "made", "x", 1, &at));
	assert_false(s.files.at[2].is_read);
	assert_false(source_read(&s, "/nonexistent/y", &index, &why));
}

static const char *
flushed(struct arena *a, struct diags *d)
{
	FILE *f = tmpfile();
	char *text = arena_alloc(a, 65536);

	assert_non_null(f);
	diag_flush(d, f);
	rewind(f);
	text[fread(text, 1, 65535, f)] = '\0';
	fclose(f);
	return text;
}

static void
test_diag_text(void **state)
{
	struct arena *a = *state;
	struct sources s;
	struct diags d;
	uint32_t at;

	source_init(&s, a);
	diag_init(&d, a, &s);
	source_add(&s, "f", "\tdim x = 0;\n", 12, &at);
	diag_error(&d, (struct span){ at + 9, at + 10 }, "x is %d", 0);
	diag_note(&d, (struct span){ 0, 0 }, "legal is 1");
	assert_string_equal(flushed(a, &d),
			    "f:1:10: error: x is 0\n"
			    "    1 | \tdim x = 0;\n"
			    "      | \t        ^\n"
			    "llmc: note: legal is 1\n");
	assert_int_equal(d.errors, 1);
	assert_string_equal(flushed(a, &d), "");
}

static void
test_diag_long_line(void **state)
{
	struct arena *a = *state;
	char *line = arena_alloc(a, 100001);
	struct sources s;
	struct diags d;
	uint32_t at;
	const char *text;

	memset(line, 'x', 100000);
	line[50000] = '!';
	source_init(&s, a);
	diag_init(&d, a, &s);
	source_add(&s, "f", line, 100000, &at);
	diag_error(&d, (struct span){ at + 50000, at + 50001 }, "no");
	text = flushed(a, &d);
	assert_true(strlen(text) < 400);
	assert_non_null(strstr(text, "f:1:50001: error: no\n"));
	assert_int_equal(strchr(strrchr(text, '|'), '^') -
			 strrchr(text, '|'),
			 strchr(text, '!') - strchr(text, '|'));
}

static void
test_diag_warnings(void **state)
{
	struct arena *a = *state;
	struct sources s;
	struct diags d;

	source_init(&s, a);
	diag_init(&d, a, &s);
	diag_warn(&d, WARN_UNUSED_DIM, (struct span){ 0, 0 }, "w");
	assert_int_equal(d.warnings, 1);
	assert_true(diag_warning_option(&d, "no-unused-dim"));
	diag_warn(&d, WARN_UNUSED_DIM, (struct span){ 0, 0 }, "w");
	diag_note(&d, (struct span){ 0, 0 }, "of a warning that is off");
	assert_int_equal(d.warnings, 1);
	assert_true(diag_warning_option(&d, "error=unused-dim"));
	diag_warn(&d, WARN_UNUSED_DIM, (struct span){ 0, 0 }, "w");
	assert_int_equal(d.errors, 1);
	assert_string_equal(flushed(a, &d),
			    "llmc: warning: w [-Wunused-dim]\n"
			    "llmc: error: w [-Werror=unused-dim]\n");
	assert_false(diag_warning_option(&d, "unused-dimm"));
	assert_true(diag_warning_option(&d, "no-all"));
	assert_true(diag_warning_option(&d, "error"));
}

static void
test_diag_many(void **state)
{
	struct arena *a = *state;
	struct sources s;
	struct diags d;
	int i;

	source_init(&s, a);
	diag_init(&d, a, &s);
	for (i = 0; i < 1000; i++) {
		diag_error(&d, (struct span){ 0, 0 }, "e%d", i);
	}
	assert_int_equal(d.errors, 1000);
	assert_non_null(strstr(flushed(a, &d), "950 more errors"));
}

static void
test_near(void **state)
{
	static const char *const cases[][3] = {
		{ "hiden", "hidden", "hidden" },
		{ "vcoab", "vocab", "vocab" },
		{ "x", "y", NULL },
		{ "expert", "vocab", NULL },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct diag_near n;

		diag_near_init(&n, cases[i][0]);
		diag_near_try(&n, cases[i][1]);
		if (cases[i][2]) {
			assert_string_equal(n.best, cases[i][2]);
		} else {
			assert_null(n.best);
		}
	}
}

/* A table's largest number chooses; what is large keeps its unit. */
static void
test_unit(void **state)
{
	struct arena *a = *state;

	assert_string_equal(unit_text(a, 80e9), "74.51 GiB");
	assert_string_equal(unit_text(a, 9e13), "83819.03 GiB");
	assert_string_equal(unit_text(a, 0x1p30 / 10), "0.10 GiB");
	assert_string_equal(unit_text(a, 16e6), "15.26 MiB");
	assert_string_equal(unit_text(a, -16e6), "-15.26 MiB");
	assert_string_equal(unit_text(a, 12), "0.01 KiB");
	assert_string_equal(unit_text(a, 0), "0.00 GiB");
	assert_string_equal(unit_decimal_bytes(238848).name, "MB");
	assert_string_equal(unit_decimal_bytes(2388).name, "KB");
	assert_string_equal(unit_flops(15.9e9).name, "GFLOP");
	assert_string_equal(unit_flops(1e11).name, "TFLOP");
	assert_string_equal(unit_flops(159).name, "KFLOP");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_arena), TEST(test_arena_join),
		TEST(test_arena_oom), TEST(test_pool),
		TEST(test_pool_joins),
		SANITIZED_TESTS
		TEST(test_vec),
		TEST(test_buf), TEST(test_buf_printf),
		TEST(test_buf_int), TEST(test_buf_full),
		TEST(test_num), TEST(test_intern),
		TEST(test_source), TEST(test_source_kept),
		TEST(test_diag_text),
		TEST(test_diag_long_line), TEST(test_diag_warnings),
		TEST(test_diag_many), TEST(test_near), TEST(test_unit),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
