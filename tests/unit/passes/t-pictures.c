/*
 * The writer of pictures: text that no markup can escape from, numbers without
 * what they do not need, and axes whose ticks lie where their values do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "passes/pictures/picture_parts.h"

struct writer {
	struct mem mem;
	struct arena a;
	struct buf out;
};

static void
open_writer(struct writer *w)
{
	mem_init(&w->mem);
	arena_init(&w->a, &w->mem);
	buf_init(&w->out, &w->a);
}

static void
expect_text(struct writer *w, const char *wanted)
{
	assert_string_equal(buf_text(&w->out), wanted);
	w->out.n = 0;
}

static void
test_text(void **state)
{
	struct writer w;

	(void)state;
	open_writer(&w);
	picture_text(&w.out, "<a href=\"x\">&amp;</a>");
	expect_text(&w, "&lt;a href=&quot;x&quot;&gt;&amp;amp;&lt;/a&gt;");
	/* bytes that are no UTF-8, a character cut short, control codes */
	picture_text(&w.out, "\xff" "a\xc3" "b\x01\x7f");
	expect_text(&w, "\xef\xbf\xbd" "a\xef\xbf\xbd" "b\xef\xbf\xbd"
		    "\xef\xbf\xbd");
	picture_text(&w.out, "\xc3\xa9\xe2\x82\xac");
	expect_text(&w, "\xc3\xa9\xe2\x82\xac");
	arena_release(&w.a);
}

static void
test_numbers(void **state)
{
	static const struct {
		double v;
		const char *text;
	} nums[] = {
		{ 0, "0" }, { -0.001, "0" }, { 100, "100" }, { 0.5, "0.5" },
		{ 12.346, "12.35" }, { -2.5, "-2.5" }, { 999.999, "1000" }
	}, figures[] = {
		{ 1, "1.00" }, { 12.34, "12.3" }, { 123.4, "123" },
		{ 12345, "12345" }, { 0, "0.00" }, { 1e-7, "1e-07" }
	};
	struct writer w;
	size_t i;

	(void)state;
	open_writer(&w);
	for (i = 0; i < sizeof nums / sizeof nums[0]; i++) {
		picture_num(&w.out, nums[i].v);
		expect_text(&w, nums[i].text);
	}
	for (i = 0; i < sizeof figures / sizeof figures[0]; i++) {
		assert_string_equal(picture_figure(&w.a, figures[i].v, 3),
				    figures[i].text);
	}
	assert_string_equal(picture_bytes(&w.a, 512), "512 B");
	assert_string_equal(picture_bytes(&w.a, 0x1p31), "2.00 GiB");
	arena_release(&w.a);
}

/* How often `what` is in the text. */
static uint32_t
count(const char *text, const char *what)
{
	uint32_t n = 0;

	for (; (text = strstr(text, what)) != NULL; text += strlen(what)) {
		n++;
	}
	return n;
}

static void
test_axes(void **state)
{
	const struct picture_plot linear = {
		.label = "l", .height = 100,
		.x = { "x", 0, 12, false },
		.y = { "y", 10, 20, false }
	}, decades = {
		.label = "l", .height = 100,
		.x = { "x", 0.01, 100, true },
		.y = { "y", 1, 1000, true }
	};
	struct writer w;

	(void)state;
	open_writer(&w);
	assert_true(picture_x(&linear, 6) == 500);
	assert_true(picture_y(&linear, 20) == 0);
	assert_true(picture_x(&decades, 1) == 500);
	picture_open_plot(&w.out, &linear);
	picture_close_plot(&w.out, &linear);
	/* 0 2 4 .. 12, and 10 12 .. 20 from the bottom */
	assert_int_equal(count(buf_text(&w.out), "style=\"left:"), 7);
	assert_int_equal(count(buf_text(&w.out), "style=\"top:"), 6);
	assert_non_null(strstr(buf_text(&w.out), "left:50%\">6<"));
	assert_non_null(strstr(buf_text(&w.out), "top:100%\">10<"));
	w.out.n = 0;
	picture_open_plot(&w.out, &decades);
	picture_close_plot(&w.out, &decades);
	assert_int_equal(count(buf_text(&w.out), "style=\"left:"), 5);
	assert_int_equal(count(buf_text(&w.out), "style=\"top:"), 4);
	assert_non_null(strstr(buf_text(&w.out), "left:75%\">10<"));
	arena_release(&w.a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text), cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_axes)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
