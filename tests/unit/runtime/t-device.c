/*
 * A rank's memory as the host sees it, whether it reaches it or not: views,
 * numbers and windows; which device runs a plan; what a function of a GPU is
 * called with.  Whole runs are t-run.c and tests/cli/gpu/gpu.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/train/rank.h"

/* ---- memory that runs out ---- */

static bool no_memory;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);

void *
__wrap_malloc(size_t n)
{
	return no_memory ? NULL : __real_malloc(n);
}

/* ---- a device whose memory the host does not reach ---- */

enum { ARENA = 40 << 20, CAPACITY = 16 << 20 };

struct far {
	char *at;
	int reads, writes, fail_at;	/* calls; 0: none fails */
	int64_t offset, bytes;		/* of the last */
};

static enum rt_status
planted(struct far *x, int64_t offset, int64_t bytes, struct rt_error *err)
{
	assert_true(offset >= 0 && bytes >= 0 && offset + bytes <= ARENA);
	x->offset = offset;
	x->bytes = bytes;
	return x->reads + x->writes != x->fail_at ? RT_OK
		: rt_fail(err, RT_IO, RT_NOWHERE, "planted");
}

static enum rt_status
far_read(struct rt_device *d, int64_t offset, void *to, int64_t bytes,
	 struct rt_error *err)
{
	struct far *x = d->self;
	enum rt_status status;

	x->reads++;
	status = planted(x, offset, bytes, err);
	if (status == RT_OK) {
		memcpy(to, x->at + offset, (size_t)bytes);
	}
	return status;
}

static enum rt_status
far_write(struct rt_device *d, int64_t offset, const void *from,
	  int64_t bytes, struct rt_error *err)
{
	struct far *x = d->self;
	enum rt_status status;

	x->writes++;
	status = planted(x, offset, bytes, err);
	if (status == RT_OK) {
		memcpy(x->at + offset, from, (size_t)bytes);
	}
	return status;
}

static const struct rt_device_kind far_kind = {
	.name = "far", .read = far_read, .write = far_write
};

static void
open_far(struct rt_device *d, struct far *x)
{
	int64_t i;

	*x = (struct far){ .at = malloc(ARENA) };
	assert_non_null(x->at);
	for (i = 0; i < ARENA; i++) {
		x->at[i] = (char)(i * 7 + i / 1000);
	}
	*d = (struct rt_device){ .kind = &far_kind, .self = x };
}

/* ---- windows ---- */

/* Where the host reaches it a window is the arena itself. */
static void
test_near(void **state)
{
	char arena[64], *at;
	struct rt_device d = { .host = arena, .arena = arena };
	struct rt_device *const opened[] = { &d, NULL };
	struct rt_window w;
	struct rt_error err;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		assert_int_equal(rt_window_open(&w, opened[i], arena, &err),
				 RT_OK);
		assert_true(rt_window_most(&w) == INT64_MAX);
		assert_int_equal(rt_window_read(&w, 8, 4, 100, &at, &err),
				 RT_OK);
		assert_ptr_equal(at, arena + 8);
		assert_int_equal(rt_window_write(&w, 60, 4, &at, &err),
				 RT_OK);
		assert_ptr_equal(at, arena + 60);
		assert_int_equal(rt_window_close(&w, RT_OK, &err), RT_OK);
	}
}

static void
must_read(struct rt_window *w, const struct far *x, int64_t offset,
	  int64_t bytes, int64_t ahead)
{
	struct rt_error err;
	char *at;

	assert_int_equal(rt_window_read(w, offset, bytes, ahead, &at, &err),
			 RT_OK);
	assert_memory_equal(at, x->at + offset, (size_t)bytes);
}

/* What lies ahead comes with the first; never more than the window holds. */
static void
test_reading(void **state)
{
	struct rt_device d;
	struct rt_window w;
	struct rt_error err;
	struct far x;
	int64_t i;

	(void)state;
	open_far(&d, &x);
	assert_int_equal(rt_window_open(&w, &d, NULL, &err), RT_OK);
	assert_int_equal(rt_window_most(&w), CAPACITY);
	for (i = 0; i < 10; i++) {
		must_read(&w, &x, 1000 + i * 100, 100, 1000 - i * 100);
	}
	assert_int_equal(x.reads, 1);
	must_read(&w, &x, 1050, 950, 0);	/* still there */
	assert_int_equal(x.reads, 1);
	must_read(&w, &x, 1050, 951, 0);	/* but this is a byte more */
	assert_int_equal(x.reads, 2);
	assert_int_equal(x.bytes, 951);
	must_read(&w, &x, 1049, 1, 0);		/* nor what was before */
	assert_int_equal(x.reads, 3);
	must_read(&w, &x, 0, 10, ARENA);
	assert_int_equal(x.bytes, CAPACITY);
	must_read(&w, &x, CAPACITY - 5, 5, 0);
	assert_int_equal(x.reads, 4);
	must_read(&w, &x, 5, CAPACITY, 0);
	assert_int_equal(x.reads, 5);
	assert_int_equal(rt_window_close(&w, RT_OK, &err), RT_OK);
	assert_int_equal(x.writes, 0);
	free(x.at);
}

/* After a failure no byte of the window counts as what was asked. */
static void
test_failing_read(void **state)
{
	struct rt_device d;
	struct rt_window w;
	struct rt_error err;
	struct far x;
	char *at;

	(void)state;
	open_far(&d, &x);
	assert_int_equal(rt_window_open(&w, &d, NULL, &err), RT_OK);
	must_read(&w, &x, 100, 10, 0);
	x.fail_at = 2;
	assert_int_equal(rt_window_read(&w, 5000, 10, 0, &at, &err), RT_IO);
	assert_string_equal(err.message, "planted");
	must_read(&w, &x, 5000, 10, 0);
	assert_int_equal(x.reads, 3);
	assert_int_equal(rt_window_close(&w, RT_OK, &err), RT_OK);
	free(x.at);
}

static void
must_write(struct rt_window *w, int64_t offset, int64_t bytes, int value)
{
	struct rt_error err;
	char *at;

	assert_int_equal(rt_window_write(w, offset, bytes, &at, &err), RT_OK);
	memset(at, value, (size_t)bytes);
}

/* What follows on each other goes out as one, the last by closing. */
static void
test_writing(void **state)
{
	static const char want[] = { 1, 1, 2, 2, 3, 3, 3, 3, 3, 9, 4, 4, 9 };
	struct rt_device d;
	struct rt_window w;
	struct rt_error err;
	struct far x;

	(void)state;
	open_far(&d, &x);
	memset(x.at, 9, 100);
	assert_int_equal(rt_window_open(&w, &d, NULL, &err), RT_OK);
	must_write(&w, 0, 2, 1);
	must_write(&w, 2, 2, 2);
	must_write(&w, 4, 5, 3);
	assert_int_equal(x.writes, 0);
	must_write(&w, 10, 2, 4);
	assert_int_equal(x.writes, 1);
	assert_int_equal(x.bytes, 9);
	assert_int_equal(rt_window_close(&w, RT_OK, &err), RT_OK);
	assert_int_equal(x.writes, 2);
	assert_memory_equal(x.at, want, sizeof want);
	assert_int_equal(rt_window_open(&w, &d, NULL, &err), RT_OK);
	must_write(&w, 0, CAPACITY - 1, 5);
	must_write(&w, CAPACITY - 1, 1, 6);
	assert_int_equal(x.writes, 2);
	must_write(&w, CAPACITY, 1, 7);		/* the window is full */
	assert_int_equal(x.writes, 3);
	assert_int_equal(x.bytes, CAPACITY);
	assert_int_equal(rt_window_close(&w, RT_OK, &err), RT_OK);
	assert_int_equal(x.at[CAPACITY - 1], 6);
	assert_int_equal(x.at[CAPACITY], 7);
	free(x.at);
}

static void
test_failing_write(void **state)
{
	struct rt_device d;
	struct rt_window w;
	struct rt_error err;
	struct far x;
	char *at;

	(void)state;
	open_far(&d, &x);
	assert_int_equal(rt_window_open(&w, &d, NULL, &err), RT_OK);
	must_write(&w, 0, 8, 1);
	x.fail_at = 1;
	assert_int_equal(rt_window_write(&w, 100, 8, &at, &err), RT_IO);
	assert_int_equal(rt_window_close(&w, RT_IO, &err), RT_IO);
	assert_int_equal(x.writes, 1);		/* nothing more is tried */
	assert_int_equal(rt_window_open(&w, &d, NULL, &err), RT_OK);
	must_write(&w, 0, 8, 1);
	x.fail_at = 2;				/* the last, by closing */
	assert_int_equal(rt_window_close(&w, RT_OK, &err), RT_IO);
	no_memory = true;
	assert_int_equal(rt_window_open(&w, &d, NULL, &err), RT_NOMEM);
	no_memory = false;
	free(x.at);
}

/* ---- views and numbers ---- */

static void
test_numbers(void **state)
{
	static const struct {
		enum rt_elem elem;
		char at[16];
		double second;
	} rows[] = {
		{ RT_ELEM_F64, { [14] = (char)0xf8, [15] = 0x3f }, 1.5 },
		{ RT_ELEM_F32, { [6] = 0x20, [7] = 0x40 }, 2.5 },
		{ RT_ELEM_BF16, { [2] = 0x20, [3] = (char)0xc0 }, -2.5 },
		{ RT_ELEM_F16, { [2] = 0x00, [3] = 0x3e }, 1.5 },
		{ RT_ELEM_I32, { [4] = 7, [5] = 1 }, 263 }
	};
	char arena[16], copy[4];
	struct rt_device near = { .host = arena }, d;
	struct rt_error err;
	const char *at;
	double x;
	struct far far;
	size_t i;

	(void)state;
	open_far(&d, &far);
	for (i = 0; i < sizeof rows / sizeof *rows; i++) {
		memcpy(arena, rows[i].at, sizeof arena);
		memcpy(far.at + 24, rows[i].at, sizeof arena);
		assert_int_equal(rt_device_number(&near, 0, rows[i].elem, 1,
						  &x, &err), RT_OK);
		assert_true(x == rows[i].second);
		x = 0;
		assert_int_equal(rt_device_number(&d, 24, rows[i].elem, 1,
						  &x, &err), RT_OK);
		assert_true(x == rows[i].second);
	}
	far.fail_at = far.reads + 1;
	assert_int_equal(rt_device_number(&d, 0, RT_ELEM_F32, 0, &x, &err),
			 RT_IO);
	assert_int_equal(rt_device_view(&near, 3, 4, copy, &at, &err), RT_OK);
	assert_ptr_equal(at, arena + 3);
	assert_int_equal(rt_device_view(&d, 3, 4, copy, &at, &err), RT_OK);
	assert_ptr_equal(at, copy);
	assert_memory_equal(copy, far.at + 3, 4);
	rt_device_close(&d);			/* it has nothing to close */
	assert_null(d.kind);
	rt_device_close(&d);
	free(far.at);
}

/* ---- which device ---- */

static void
test_choose(void **state)
{
	static const struct {
		const char *arch, *word;
		enum rt_on on;
		const char *why;	/* NULL: it is right */
	} rows[] = {
		{ NULL, "auto", RT_ON_CPU, NULL },
		{ NULL, "cpu", RT_ON_CPU, NULL },
		{ NULL, "cuda", RT_ON_CUDA, "are for CPUs: leave out --device "
		  "cuda" },
		{ NULL, "emulate", RT_ON_EMULATE, "leave out --device "
		  "emulate" },
		{ "sm_80", "auto", RT_ON_CUDA, NULL },
		{ "sm_80", "cuda", RT_ON_CUDA, NULL },
		{ "sm_80", "emulate", RT_ON_EMULATE, NULL },
		{ "sm_80", "cpu", RT_ON_CPU, "are for sm_80: --device cuda "
		  "runs them, --device emulate does so without a GPU, and not "
		  "--device cpu" }
	};
	struct rt_plan p = { 0 };
	struct rt_error err;
	enum rt_status status;
	enum rt_on on;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof rows / sizeof *rows; i++) {
		p.arch = rows[i].arch;
		status = rt_device_choose(&p, rows[i].word, &on, &err);
		assert_int_equal(status, rows[i].why ? RT_RANGE : RT_OK);
		assert_int_equal(on, rows[i].on);
		if (rows[i].why) {
			assert_non_null(strstr(err.message, rows[i].why));
		}
	}
}

/* ---- what a function of a GPU is called with ---- */

static void
test_args(void **state)
{
	static const int64_t num[] = { -1 };
	char *const at[] = { (char *)0x10, (char *)0x20, (char *)0x30 };
	const struct rt_pieces *const pieces[] = { (void *)0x40 };
	const struct rt_call c = { .at = at, .pieces = pieces, .num = num,
		.shared = (char *)0x50, .live = (void *)0x60 };
	struct rt_kernel k = { .what = "k", .nat = 3, .npieces = 1,
			       .nnum = 1 };
	struct rt_grid g = { .nmaps = 0 };
	static const struct rt_grid three = { .nmaps = 3 };
	static const struct rt_step steps[] = { { .grid = &three },
						{ .grid = NULL } };
	static const uint64_t want[] = { 0x10, 0x20, 0x30, 0x40,
		UINT64_MAX, 0x50, 0x60, 0 };
	uint64_t out[RT_ARGS_BYTES / 8];
	struct rt_error err;

	(void)state;
	memset(out, 0xff, sizeof out);
	assert_int_equal(rt_args_bytes(&k, &g), 7 * 8);
	assert_int_equal(rt_args_words(&k, &g, &c, out, &err), RT_OK);
	assert_memory_equal(out, want, 7 * 8);
	assert_true(out[7] == UINT64_MAX);	/* and no byte more */
	g.nmaps = 2;				/* on the next 64 bytes */
	assert_int_equal(rt_args_maps(&k), 64);
	assert_int_equal(rt_args_bytes(&k, &g), 64 + 2 * RT_MAP_BYTES);
	assert_int_equal(rt_args_words(&k, &g, &c, out, &err), RT_OK);
	assert_memory_equal(out, want, 8 * 8);
	/* the struct is the same for a step without maps */
	k.nsteps = 2;
	k.steps = steps;
	g.nmaps = 0;
	assert_int_equal(rt_args_bytes(&k, &g), 64 + 3 * RT_MAP_BYTES);
	k.nsteps = 0;
	k.nat = 0;
	k.npieces = 0;
	k.nnum = RT_ARGS_BYTES / 8 - 1;
	g.nmaps = 0;
	assert_int_equal(rt_args_words(&k, &g, &c, out, &err), RT_RANGE);
	assert_string_equal(err.message, "k takes 4104 bytes of arguments, "
			    "and a GPU's function 4096 at most");
}

static void
test_place(void **state)
{
	static const struct {
		struct rt_place at;
		const char *text;
	} rows[] = {
		{ { -1, -1 }, "" }, { { 3, -1 }, ", layer 3" },
		{ { -1, 0 }, ", microbatch 0" },
		{ { 12, 7 }, ", layer 12, microbatch 7" }
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_string_equal(rt_place_text(&rows[i].at).text,
				    rows[i].text);
	}
}

/* ---- a device beside another ---- */

static void
never_close(struct rt_device *d)
{
	(void)d;
	fail();
}

/* One that could not be opened may be closed all the same. */
static void
test_beside(void **state)
{
	static const struct rt_device_kind kind = { .name = "fake",
						    .close = never_close };
	static const struct rt_program program;
	static const int64_t program_of[1];
	struct rt_plan plan = { .programs = &program,
				.program_of = program_of };
	struct rt_device of = { .kind = &kind, .on = RT_ON_EMULATE,
				.self = &plan }, d;
	struct rt_error err;

	(void)state;
	assert_int_equal(rt_device_beside(&d, &of, &plan, 0, &err), RT_RANGE);
	assert_null(d.self);
	rt_device_close(&d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_near),
		cmocka_unit_test(test_reading),
		cmocka_unit_test(test_failing_read),
		cmocka_unit_test(test_writing),
		cmocka_unit_test(test_failing_write),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_choose),
		cmocka_unit_test(test_args),
		cmocka_unit_test(test_place),
		cmocka_unit_test(test_beside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
