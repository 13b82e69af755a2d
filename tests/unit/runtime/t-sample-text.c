/*
 * The text of `rank sample`: whatever ids a text has, one after the other they
 * are printed as that text, after a prompt of any length and without one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/train/sample_text.h"

/* Blanks are special tokens of the last one, so its texts lack them. */
static const char *const families[] = {
	"gpt2", "llama2", "llama3", "mistral", "qwen", "gemma"
};

enum { WITH_BLANKS = 5, FAMILIES };

static const char text[] = "the end, h\303\251llo \344\275\240\345\245\275 "
	"\360\237\231\202\n\n  two  blanks. The end";

static void
open_text(struct sample_text *x, const char *family)
{
	const char *top = getenv("top_srcdir");
	struct rt_error err = { .message = "" };
	char path[1024];

	snprintf(path, sizeof path, "%s/tests/data/tokenizers/%s.json",
		 top ? top : ".", family);
	if (sample_text_open(x, path, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
}

/* The prompt is `text` up to a byte; what is sampled is the rest. */
static void
check_rest(const char *family, size_t at)
{
	struct rt_error err = { .message = "" };
	struct sample_text all, x;
	char *got = NULL;
	size_t n = 0, i;
	FILE *out = open_memstream(&got, &n);

	open_text(&all, family);
	open_text(&x, family);
	assert_non_null(out);
	assert_int_equal(sample_text_begin(&all, "t", text, strlen(text),
					   &err), RT_OK);
	assert_int_equal(sample_text_begin(&x, "t", text, at, &err), RT_OK);
	/* only prompts whose ids begin those of the whole */
	if (x.ids.n < all.ids.n &&
	    (!x.ids.n || memcmp(x.ids.at, all.ids.at, 4 * x.ids.n) == 0)) {
		for (i = x.ids.n; i < all.ids.n; i++) {
			assert_int_equal(sample_text_add(&x, all.ids.at[i],
							 out, &err), RT_OK);
		}
		assert_int_equal(sample_text_add(&x, -1, out, &err), RT_OK);
		fflush(out);
		if (strcmp(got, text + at) != 0) {
			fail_msg("%s, %zu: %s", family, at, got);
		}
	} else {
		assert_int_not_equal(at, 0);
	}
	fclose(out);
	free(got);
	sample_text_close(&all);
	sample_text_close(&x);
}

static void
test_all_of_a_text(void **state)
{
	size_t i, at;

	(void)state;
	for (i = 0; i < WITH_BLANKS; i++) {
		for (at = 0; at < strlen(text); at++) {
			if ((text[at] & 0xc0) != 0x80) {
				check_rest(families[i], at);
			}
		}
	}
}

/* Half a character is printed when it is known that no more of it comes. */
static void
test_end_in_a_character(void **state)
{
	struct rt_error err = { .message = "" };
	struct sample_text x;
	char *got = NULL;
	size_t n = 0, full;
	FILE *out = open_memstream(&got, &n);

	(void)state;
	assert_non_null(out);
	open_text(&x, "gpt2");
	assert_int_equal(sample_text_begin(&x, "t", "\360\237\232\200", 4,
					   &err), RT_OK);
	full = x.ids.n;
	assert_true(full > 1);
	assert_int_equal(rt_stream_begin(&x.stream, NULL, 0, &err), RT_OK);
	assert_int_equal(sample_text_add(&x, x.ids.at[0], out, &err), RT_OK);
	fflush(out);
	assert_int_equal(n, 0);
	assert_int_equal(sample_text_add(&x, -1, out, &err), RT_OK);
	fflush(out);
	assert_string_equal(got, "\357\277\275");
	fclose(out);
	free(got);
	sample_text_close(&x);
}

/* Special tokens between the parts of a character, however many, change
 * nothing. */
static void
test_special_tokens(void **state)
{
	struct rt_error err = { .message = "" };
	struct sample_text x;
	char *got = NULL;
	size_t n = 0, i, k;
	int64_t end;
	FILE *out = open_memstream(&got, &n);

	(void)state;
	assert_non_null(out);
	open_text(&x, "gpt2");
	assert_int_equal(sample_text_begin(&x, "t", "\360\237\232\200", 4,
					   &err), RT_OK);
	assert_int_equal(rt_stream_begin(&x.stream, NULL, 0, &err), RT_OK);
	end = rt_tokenizer_id(x.tokenizer, "<|endoftext|>");
	assert_true(rt_tokenizer_is_special(x.tokenizer, end));
	for (i = 0; i < x.ids.n; i++) {
		for (k = 0; k < 20; k++) {
			assert_int_equal(sample_text_add(&x, end, out, &err),
					 RT_OK);
		}
		assert_int_equal(sample_text_add(&x, x.ids.at[i], out, &err),
				 RT_OK);
	}
	fflush(out);
	assert_string_equal(got, "\360\237\232\200");
	assert_true(x.stream.ids.n == x.ids.n);
	fclose(out);
	free(got);
	sample_text_close(&x);
}

/* Whatever tokens come, what is printed is UTF-8: also where bytes by
 * themselves were text, and are none together with those that come. */
static void
test_any_tokens(void **state)
{
	struct rt_error err = { .message = "" };
	struct sample_text x;
	uint64_t seed = 1;
	size_t family, n, at, len;
	int64_t limit, id;
	int i, k;

	(void)state;
	for (family = 0; family < FAMILIES; family++) {
		open_text(&x, families[family]);
		limit = rt_tokenizer_limit(x.tokenizer);
		for (i = 0; i < 100; i++) {
			char *got = NULL;
			FILE *out = open_memstream(&got, &n);

			assert_non_null(out);
			rt_stream_begin(&x.stream, NULL, 0, &err);
			for (k = 0; k < 60; k++) {
				seed = seed * 6364136223846793005u + 1;
				id = (int64_t)(seed >> 33) % limit;
				if (rt_tokenizer_has(x.tokenizer, id)) {
					sample_text_add(&x, id, out, &err);
				}
			}
			sample_text_add(&x, -1, out, &err);
			fclose(out);
			for (at = 0; at < n; at += len) {
				len = rt_utf8_len((unsigned char *)got + at,
						  n - at);
				if (len == 0) {
					fail_msg("%s, byte %zu: %s",
						 families[family], at, got);
				}
			}
			free(got);
		}
		sample_text_close(&x);
	}
}

static void
test_errors(void **state)
{
	struct rt_error err = { .message = "" };
	struct sample_text x;

	(void)state;
	assert_int_not_equal(sample_text_open(&x, "nowhere.json", &err),
			     RT_OK);
	sample_text_close(&x);
	open_text(&x, "gpt2");
	assert_int_equal(sample_text_begin(&x, "prompt.txt", "a\377", 2,
					   &err), RT_FORMAT);
	assert_non_null(strstr(err.message, "prompt.txt: "));
	assert_non_null(strstr(err.message, "0xff"));
	assert_int_equal(sample_text_add(&x, 1 << 30, NULL, &err), RT_RANGE);
	sample_text_close(&x);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_of_a_text),
		cmocka_unit_test(test_end_in_a_character),
		cmocka_unit_test(test_special_tokens),
		cmocka_unit_test(test_any_tokens),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
