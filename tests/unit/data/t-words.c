/*
 * Tokenizers as llama.cpp stores them: what they say besides ids, and files
 * that are wrong in one thing each, or damaged anywhere.  What ids they give
 * is tested by t-tokenize.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/error.h"
#include "runtime/tokenize/tokenize.h"
#include "tests/unit/shared/t-cases.h"
#include "tests/unit/shared/t-weights-files.h"

enum { MOST_BYTES = 1 << 20 };

static unsigned char file[MOST_BYTES];
static size_t file_bytes;

/* ---- files ------------------------------------------------------------ */

static void
read_file(const char *name)
{
	const char *top = getenv("top_srcdir");
	char path[1024];
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/data/tokenizers/%s.gguf",
		 top ? top : ".", name);
	f = fopen(path, "rb");
	assert_non_null(f);
	file_bytes = fread(file, 1, sizeof file, f);
	assert_true(file_bytes > 4000 && file_bytes < sizeof file);
	fclose(f);
}

/* Opens the first n bytes as a file, which is gone again. */
static struct rt_tokenizer *
open_bytes(size_t n, const struct rt_alloc *a, struct rt_error *err)
{
	struct rt_tokenizer *t;
	char path[64];
	FILE *f;

	snprintf(path, sizeof path, "t-words-%ld.gguf", (long)getpid());
	f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(file, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
	memset(err, 0, sizeof *err);
	rt_tokenizer_open(&t, path, a, err);
	unlink(path);
	assert_true(err->status == RT_OK ? t != NULL : !t && err->message[0]);
	return t;
}

/* The place of what follows a text in the file. */
static unsigned char *
after(const char *text)
{
	size_t n = strlen(text), i;

	for (i = 0; i + n <= file_bytes; i++) {
		if (memcmp(file + i, text, n) == 0) {
			return file + i + n;
		}
	}
	fail_msg("no %s in the file", text);
	return file;
}

/* The message has these words after bytes in the file are others. */
static void
refused(const char *text, ptrdiff_t skip, const char *bytes, size_t n,
	const char *words)
{
	struct rt_error err;
	struct rt_tokenizer *t;

	memcpy(after(text) + skip, bytes, n);
	t = open_bytes(file_bytes, NULL, &err);
	if (t || !strstr(err.message, words)) {
		fail_msg("expected %s: %s", words, err.message);
	}
	assert_int_equal(err.status, RT_FORMAT);
}

static void
refused_of(const char *name, const char *text, ptrdiff_t skip,
	   const char *bytes, size_t n, const char *words)
{
	read_file(name);
	refused(text, skip, bytes, n, words);
}

/* A key that is not known is passed over. */
static void
without(const char *name, const char *key, const char *words)
{
	refused_of(name, key, -1, "?", 1, words);
}

/* ---- what is refused -------------------------------------------------- */

#define KEY(x) "tokenizer.ggml." x

static void
test_refused(void **state)
{
	(void)state;
	/* after a key: u32 type; of a text u64 bytes; of a list u32 type, u64
	 * elements */
	refused_of("gpt2", KEY("pre"), 12, "gpt-3", 5, "found "
		   "tokenizer.ggml.pre 'gpt-3', expected llama-bpe, llama3, ");
	refused_of("gpt2", KEY("pre"), 12, "gpt-3", 5, " or gpt-4o");
	refused_of("gpt2", KEY("pre"), 0, "\4\0\0\0", 4,
		   "found 'tokenizer.ggml.pre' that is no text");
	refused_of("gpt2", KEY("model"), 12, "bert", 4, "found "
		   "tokenizer.ggml.model 'bert', expected gpt2 or llama");
	without("gpt2", KEY("model"), "found no tokenizer.ggml.model, "
		"expected a file that has its tokenizer");
	without("gpt2", KEY("tokens"), "found no tokenizer.ggml.tokens");
	without("gpt2", KEY("pre"), "found tokenizer.ggml.pre '', expected");
	without("llama2", KEY("scores"), "found no tokenizer.ggml.scores");
	without("llama3", KEY("bos_token_id"), "found no "
		"tokenizer.ggml.bos_token_id, expected it, as each text begins "
		"with that token");
	refused_of("llama3", KEY("bos_token_id"), 4, "\xff\xff\0\0", 4,
		   "found tokenizer.ggml.bos_token_id 65535, expected one of "
		   "333 tokens");
	refused_of("gpt2", KEY("tokens"), 0, "\4\0\0\0", 4, "found "
		   "'tokenizer.ggml.tokens' that is no list");
	refused_of("gpt2", KEY("tokens"), 8, "\0\0\0\0\0\0\0\0", 8,
		   "found 0 values of 'tokenizer.ggml.tokens', expected 1");
	refused_of("gpt2", KEY("tokens"), 8, "\0\0\0\0\1\0\0\0", 8,
		   "elements of a list, expected at most");
	refused_of("gpt2", KEY("tokens"), 16, "\0\0\1\0\0\0\0\0", 8,
		   "of 65536 bytes, expected 1 to 16384");
	refused_of("gpt2", KEY("tokens"), 24, "\0", 1, "found a NUL");
	refused_of("gpt2", KEY("tokens"), 24, "\xff", 1, "UTF-8");
	refused_of("gpt2", KEY("tokens"), 24, "\"", 1, "found token `\"` "
		   "twice");
}

static void
test_refused_lists(void **state)
{
	(void)state;
	refused_of("llama2", KEY("scores"), 16, "\0\0\xc0\x7f", 4,
		   "found a score that is no number");
	refused_of("llama2", KEY("scores"), 4, "\5\0\0\0", 4,
		   "found 'tokenizer.ggml.scores' that is no list of values "
		   "of type 6");
	refused_of("llama2", KEY("add_space_prefix"), 0, "\0\0\0\0", 4,
		   "found 'tokenizer.ggml.add_space_prefix' that is neither "
		   "true nor false");
	refused_of("llama2", KEY("add_bos_token"), -9, "sep", 3,
		   "found a tokenizer.ggml.add_sep_token that is true");
	refused_of("gpt2", KEY("merges"), 24, "\xc3\xbf", 2,
		   "and the vocabulary has no");
}

/* ---- what is damaged -------------------------------------------------- */

/* What a tokenizer makes of a text, if it is one. */
static void
use(struct rt_tokenizer *t)
{
	static const char text[] = "the ing er  <s> 2024\n\n'll";
	struct rt_ids ids = { .alloc = rt_alloc_or_libc(NULL) };
	struct rt_error err = { 0 };
	struct rt_encoder *e;
	size_t i;

	if (!t) {
		return;
	}
	assert_int_equal(rt_encoder_open(&e, t, &err), RT_OK);
	if (rt_encode(e, text, sizeof text - 1, RT_PART_WHOLE, &ids, &err) ==
	    RT_OK) {
		for (i = 0; i < ids.n; i++) {
			assert_true(rt_tokenizer_has(t, ids.at[i]));
		}
	}
	rt_ids_release(&ids);
	rt_encoder_free(e);
	rt_tokenizer_free(t);
}

/* A file that ends too soon is refused; one with another byte is refused, or a
 * tokenizer. */
static void
test_damaged(void **state)
{
	static const char *const names[] = { "gpt2", "llama2" };
	size_t i, n, step = t_short() ? 61 : 7, refusals = 0;
	struct rt_tokenizer *t;
	struct rt_error err;

	(void)state;
	for (i = 0; i < 2; i++) {
		read_file(names[i]);
		/* the last bytes are zeros that the data would follow */
		for (n = 0; n + 32 < file_bytes; n += step) {
			assert_null(open_bytes(n, NULL, &err));
		}
		for (n = 0; n < file_bytes; n += step) {
			unsigned char was = file[n];

			file[n] = (unsigned char)(was ^ 1 << n % 8);
			t = open_bytes(file_bytes, NULL, &err);
			refusals += !t;
			use(t);
			file[n] = was;
		}
	}
	assert_true(refusals > 100);
}

/* Each request for memory fails in turn. */
static void
test_memory(void **state)
{
	static const char *const names[] = { "qwen", "llama2" };
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct rt_error err = { .status = RT_NOMEM };
		long n;

		read_file(names[i]);
		for (n = 0; err.status == RT_NOMEM; n += t_short() ? 5 : 1) {
			struct t_granted g = { n, 0 };
			struct rt_alloc a = { t_granted_realloc, &g };

			rt_tokenizer_free(open_bytes(file_bytes, &a, &err));
			assert_int_equal(g.live, 0);
		}
		assert_int_equal(err.status, RT_OK);
		assert_true(n > 20);
	}
}

/* ---- scores ----------------------------------------------------------- */

/* The score of a token, in llama2's file. */
static void
set_score(uint32_t id, float score)
{
	memcpy(after(KEY("scores")) + 16 + 4 * id, &score, sizeof score);
}

static uint32_t
id_of(const char *token)
{
	struct rt_error err;
	struct rt_tokenizer *t = open_bytes(file_bytes, NULL, &err);
	int64_t id = rt_tokenizer_id(t, token);

	assert_true(id > 0);
	rt_tokenizer_free(t);
	return (uint32_t)id;
}

/* What "ther" is made of, after a blank. */
static void
gives(const char *first, const char *second)
{
	struct rt_ids ids = { .alloc = rt_alloc_or_libc(NULL) };
	struct rt_error err;
	struct rt_tokenizer *t = open_bytes(file_bytes, NULL, &err);
	struct rt_encoder *e;

	assert_non_null(t);
	assert_int_equal(rt_encoder_open(&e, t, &err), RT_OK);
	assert_int_equal(rt_encode(e, "ther", 4, RT_PART_WHOLE, &ids, &err),
			 RT_OK);
	assert_int_equal(ids.n, 3);
	assert_int_equal(ids.at[1], rt_tokenizer_id(t, first));
	assert_int_equal(ids.at[2], rt_tokenizer_id(t, second));
	rt_ids_release(&ids);
	rt_encoder_free(e);
	rt_tokenizer_free(t);
}

/* The highest score is joined first, and of one score the leftmost. */
static void
test_scores(void **state)
{
	uint32_t th, er, the;

	(void)state;
	read_file("llama2");
	th = id_of("th");
	er = id_of("er");
	the = id_of("the");
	gives("th", "er");
	set_score(th, 3);
	gives("th", "er");
	set_score(the, 3);
	gives("the", "r");
	set_score(er, 3);
	gives("the", "r");
	set_score(er, 4);
	gives("th", "er");
}

/* ---- what else a file says -------------------------------------------- */

static void
test_said(void **state)
{
	struct rt_tokenizer *t;
	struct rt_error err;

	(void)state;
	read_file("llama2");
	t = open_bytes(file_bytes, NULL, &err);
	assert_int_equal(rt_tokenizer_end(t, 0), rt_tokenizer_id(t, "</s>"));
	assert_int_equal(rt_tokenizer_end(t, 1), -1);
	assert_int_equal(rt_tokenizer_end(t, RT_TOKENIZER_ENDS), -1);
	assert_non_null(strstr(rt_tokenizer_chat(t), "<<SYS>>"));
	rt_tokenizer_free(t);
	read_file("gpt2");
	t = open_bytes(file_bytes, NULL, &err);
	assert_null(rt_tokenizer_chat(t));
	rt_tokenizer_free(t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_refused_lists),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_scores),
		cmocka_unit_test(test_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
