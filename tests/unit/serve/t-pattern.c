/*
 * Strings that follow a pattern: by hand, and by the C library's regular
 * expressions for patterns that are drawn.  Answers that are such a text, or
 * one of a list, by themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <regex.h>

#include "tests/unit/serve/t-schemas.h"
#include "tests/unit/shared/t-cases.h"

enum { WORDS = SCHEMA_VOCAB / 64 + 1, TEXTS = 3, LONGEST = 400 };

static struct rt_spellings *vocabulary;

static int
open_vocabulary(void **state)
{
	struct rt_error err = { .message = "" };

	(void)state;
	return rt_spellings_open(&vocabulary, SCHEMA_VOCAB, schema_token, NULL,
				 &err) == RT_OK ? 0 : -1;
}

static int
close_vocabulary(void **state)
{
	(void)state;
	rt_spellings_free(vocabulary);
	return 0;
}

static struct rt_guide *
open_guide(const struct rt_grammar *g)
{
	struct rt_error err = { .message = "" };
	struct rt_guide *x;

	assert_int_equal(rt_guide_open(&x, g, vocabulary, &err), RT_OK);
	return x;
}

/* Whether a token may come next; it comes, if so. */
static bool
take(struct rt_guide *x, int64_t token, bool *over)
{
	struct rt_error err = { .message = "" };
	uint64_t bits[WORDS];
	bool may_end;

	assert_int_equal(rt_guide_allow(x, bits, &may_end, &err), RT_OK);
	if (!schema_is_allowed(bits, token)) {
		return false;
	}
	assert_int_equal(rt_guide_take(x, token, over, &err), RT_OK);
	return true;
}

/* Whether a string may come byte by byte, to its end. */
static bool
is_followed(const struct rt_grammar *g, const char *text, size_t n)
{
	struct rt_guide *x = open_guide(g);
	bool over = false, ok = take(x, '"', &over);
	size_t i;

	for (i = 0; i < n && ok; i++) {
		ok = take(x, (unsigned char)text[i], &over);
	}
	ok = ok && take(x, '"', &over) && over;
	rt_guide_free(x);
	return ok;
}

/* ---- by hand ---- */

/* Twelve ranges of six characters. */
#define RANGES "\303\200-\303\205\304\200-\304\205\305\200-\305\205" \
	"\306\200-\306\205\307\200-\307\205\310\200-\310\205" \
	"\341\200\200-\341\200\205\342\200\200-\342\200\205" \
	"\343\200\200-\343\200\205\344\200\200-\344\200\205" \
	"\345\200\200-\345\200\205\352\200\200-\352\200\205"

/* Texts are separated by a semicolon; those that do not follow come after
 * two. */
static const struct {
	const char *schema, *texts;
} by_hand[] = {
	{ "{\"pattern\":\"^[A-Z]{2,3}-\\\\d+(\\\\.[05])?$\"}",
	  "AB-1;ABC-123.5;AB-0.0;;A-1;ABCD-1;AB-;AB-1.;AB-1.3;ab-1" },
	{ "{\"pattern\":\"^(?:a|bc|)*?x{0}[^a-y\\\\\\\\]{2}$\"}",
	  "zz;abcaaz!;bcA0;;z;ab;bcx;azzz;\\\\z" },
	{ "{\"pattern\":\"^.{3,}$\"}", "abc;a b c;;ab;" },
	{ "{\"pattern\":\"^[]$\",\"enum\":[\"a\"]}", NULL },
	{ "{\"pattern\":\"^[-a\\\\]\\\\w-]\\\\s\\\\D\\\\$$\"}",
	  "- x$;] _$;Z a$;;- 1$;-  ;a\tx$;-x$" },
	{ "{\"type\":\"string\",\"format\":\"date\"}",
	  "2024-02-28;1999-12-31;2000-04-30;;2024-02-30;2024-13-01;"
	  "2024-04-31;24-01-01;0999-01-01" },
	{ "{\"type\":\"string\",\"format\":\"date-time\"}",
	  "2024-02-28T23:59:59Z;2024-01-31T00:00:00.25+01:00;;"
	  "2024-02-28;2024-02-28T24:00:00Z;2024-02-28T23:59:59" },
	{ "{\"type\":\"string\",\"format\":\"uuid\"}",
	  "123e4567-e89b-12d3-a456-426614174000;;123e4567e89b;"
	  "123E4567-e89b-12d3-a456-426614174000" },
	{ "{\"type\":\"string\",\"format\":\"time\"}", "10:00:00Z;;10:00" },
	{ "{\"type\":\"string\",\"format\":\"email\"}", ";no address;;\t" },
	/* of two, three and four bytes, and the last and first of each */
	{ "{\"pattern\":\"^\303\251+$\"}", "\303\251;\303\251\303\251;;"
	  ";e;\303\250;\303;\251" },
	{ "{\"pattern\":\"^.{2}$\"}", "\303\251a;\342\202\254\360\237\230\200;"
	  "a\364\217\277\277;;\303\251;\342\202\254a\342\202\254;a\342\202;"
	  "a\355\240\200;a\364\220\200\200;a\340\200\200" },
	{ "{\"pattern\":\"^[a-\303\277]$\"}", "a;~;\302\200;\303\277;;A;"
	  "\304\200;\302" },
	{ "{\"pattern\":\"^[\\\\u0400-\\\\u04ff\\\\ud83d\\\\ude00]$\"}",
	  "\320\200;\323\277;\360\237\230\200;;\317\277;\324\200;"
	  "\360\237\230\201;u" },
	{ "{\"pattern\":\"^[^\303\251b-\340\270\200]$\"}",
	  "a;\340\270\201;\364\217\277\277;;b;\303\251;\302\200;"
	  "\340\270\200" },
	{ "{\"pattern\":\"^\\\\D\\\\W$\"}", "\303\251\303\251;a-;;1-;a1;"
	  "\303\251a" },
	{ "{\"pattern\":\"^(\303\251|\303\250x)\\\\w$\"}",
	  "\303\251a;\303\250xa;;\303\250a;\303\251\303\251" },
	{ "{\"pattern\":\"^[\340\240\200-\355\237\277]$\"}",
	  "\340\240\200;\355\237\277;;\337\277;\356\200\200" },
	/* a range is one, and those that touch are */
	{ "{\"pattern\":\"^[" RANGES "]$\"}",
	  "\303\200;\304\200;\352\200\205;;\303\206;\347\200\200" },
	{ "{\"pattern\":\"^[^" RANGES "]$\"}",
	  "a;\303\206;\347\200\200;;\303\200;\352\200\205" },
	{ "{\"pattern\":\"^[\\\\u0430-\\\\u0433\303\251\303\251"
	  "\303\252\303\252-\303\254\\\\u0434]$\"}",
	  "\320\260;\320\264;\303\251;\303\252;\303\254;;\320\265;"
	  "\303\250;\303\255;-" },
};

static const struct {
	const char *pattern, *message;
} refused[] = {
	{ "a", "#/pattern in the schema is not known here unless it is of "
	  "whole texts: ^..$" },
	{ "^a\\\\$", "of whole texts" },
	{ "^a|b$", "has alternatives outside of a group" },
	{ "^b(a$", "has a group without an end, at character 3" },
	{ "^a)$", "has a bracket that ends no group, at character 3" },
	{ "^a)(b$", "has a bracket that ends no group, at character 3" },
	{ "^(?=a)$", "has a group of a kind that is not known" },
	{ "^b[a$", "has a class without an end, at character 3" },
	{ "^[]a]$", "has an empty class" },
	{ "^[b-a]$", "has a range that is none" },
	{ "^[a-\\\\d]$", "has a range that is none" },
	{ "^\\\\b$", "has an escape that is not known" },
	{ "^a**$", "has a mark where a character is expected" },
	{ "^+$", "has a mark where a character" },
	{ "^a^b$", "has a mark where a character" },
	{ "^\xc3\xa9{$", "no number up to 64, at character 4" },
	{ "^[\\\\ud83d]$", "has half of a character by \\u, at character 3" },
	{ "^\\\\ude00$", "has half of a character by \\u, at character 2" },
	{ "^\\\\ud83d\\\\u0041$", "has half of a character by \\u" },
	{ "^\\\\u00g0$", "has a \\u without four digits, at character 6" },
	{ "^[\xc3\xaa-\xc3\xa9]$", "has a range that is none, at character 3" },
	{ "^\\\"$", "has a place without a character" },
	{ "^[^\\u0000-\\ud7ff\\ue000-\\udbff\\udfff]$",
	  "has a place without a character" },
	{ "^a{65}$", "no number up to 64" },
	{ "^a{2,1}$", "has a count that is none" },
	{ "^a{1$", "has a count that is none" },
	{ "^a{,3}$", "no number up to 64" },
	{ "^(a{8}){9}$", "has more than 64 characters" },
	{ "^(((((){64}){64}){64}){64}){64}$", "is too long with what its" },
	{ "^((||){64}){60}$", "is too long with what its" },
	{ "^((((((((((((((((((((((((((((((((((a$", "too many groups" },
};

static void
test_by_hand(void **state)
{
	struct rt_error err = { .message = "" };
	struct rt_grammar *g;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof by_hand / sizeof *by_hand; i++) {
		const char *schema = by_hand[i].schema, *s = by_hand[i].texts;
		bool good = true;

		if (!s) {
			assert_int_equal(schema_read(&g, schema,
						     strlen(schema), &err),
					 RT_RANGE);
			continue;
		}
		if (schema_read(&g, schema, strlen(schema), &err) != RT_OK) {
			fail_msg("%s: %s", schema, err.message);
		}
		for (;;) {
			size_t n = strcspn(s, ";");

			if (is_followed(g, s, n) != good) {
				fail_msg("%s: %.*s", schema, (int)n, s);
			}
			s += n;
			if (!*s) {
				break;
			}
			good = good && s[1] != ';';
			s += s[1] == ';' ? 2 : 1;
		}
		rt_grammar_free(g);
	}
}

static void
test_what_is_refused(void **state)
{
	struct rt_error err = { .message = "" };
	struct rt_grammar *g;
	char schema[256];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof refused / sizeof *refused; i++) {
		int n = snprintf(schema, sizeof schema, "{\"pattern\":\"%s\"}",
				 refused[i].pattern);

		assert_int_equal(schema_read(&g, schema, (size_t)n, &err),
				 RT_RANGE);
		if (!strstr(err.message, refused[i].message)) {
			fail_msg("%s: %s", schema, err.message);
		}
	}
}

/* ---- drawn ---- */

static void
draw_part(struct schema_text *s, int depth)
{
	static const char *const atoms[] = {
		"a", "b", "c", ".", "[ab]", "[^a]", "[b-z-]", "0", "-", "x",
	};
	static const char *const counts[] = {
		"", "", "", "*", "+", "?", "{2}", "{0,2}", "{1,}", "{0}",
	};
	int n = schema_pick(s, 1, 3), i;

	for (i = 0; i < n; i++) {
		if (depth > 0 && schema_pick(s, 0, 2) == 0) {
			SCHEMA_ADD(s, "(");
			draw_part(s, depth - 1);
			if (schema_pick(s, 0, 1)) {
				SCHEMA_ADD(s, "|");
				draw_part(s, depth - 1);
			}
			SCHEMA_ADD(s, ")");
		} else {
			SCHEMA_ADD(s, "%s", atoms[schema_pick(s, 0, 9)]);
		}
		SCHEMA_ADD(s, "%s", counts[schema_pick(s, 0, 9)]);
	}
}

/* Draws a text that follows; it ends where it may, sooner or later. */
static void
draw_text(const struct rt_grammar *g, struct schema_text *r, char *text)
{
	struct rt_guide *x = open_guide(g);
	struct rt_error err = { .message = "" };
	uint64_t bits[WORDS];
	bool over, may_end;
	size_t n = 0;
	int c = '"';

	do {
		assert_int_equal(rt_guide_take(x, c, &over, &err), RT_OK);
		assert_int_equal(rt_guide_allow(x, bits, &may_end, &err),
				 RT_OK);
		do {
			c = schema_pick(r, 0, 9) ? schema_pick(r, 1, 127)
						 : '"';
		} while (!schema_is_allowed(bits, c));
		text[n++] = (char)c;
	} while (c != '"' && n < LONGEST);
	text[n - (c == '"')] = '\0';
	rt_guide_free(x);
}

/* What is followed is what the library finds, for texts that follow and for
 * others that are near. */
static void
compare(const struct rt_grammar *g, const regex_t *library,
	struct schema_text *r, const char *pattern, int64_t *matched)
{
	char text[LONGEST + 1];
	int i, k;

	for (i = 0; i < TEXTS; i++) {
		draw_text(g, r, text);
		for (k = 0; k < 5; k++) {
			size_t n = strlen(text);
			bool is = regexec(library, text, 0, NULL, 0) == 0;

			if (n < LONGEST && (k == 0 && !is)) {
				fail_msg("%s does not match %s", text,
					 pattern);
			}
			if (is_followed(g, text, n) != is) {
				fail_msg("%s: %s: %d", pattern, text, is);
			}
			*matched += k > 0 && is;
			if (n == 0) {
				break;
			}
			text[schema_pick(r, 0, (int)n - 1)] =
				"abcx0-z~"[schema_pick(r, 0, 7)];
			text[n - (schema_pick(r, 0, 3) == 0)] = '\0';
		}
	}
}

static void
test_drawn(void **state)
{
	static struct schema_text s, p;
	struct rt_error err = { .message = "" };
	int64_t seeds = t_cases(800), seed, read = 0, matched = 0;
	struct rt_grammar *g;
	regex_t library;

	(void)state;
	for (seed = 1; seed <= seeds; seed++) {
		p.at = (uint64_t)seed << 32;
		p.n = 0;
		SCHEMA_ADD(&p, "^");
		draw_part(&p, 2);
		SCHEMA_ADD(&p, "$");
		s.n = 0;
		SCHEMA_ADD(&s, "{\"type\":\"string\",\"pattern\":\"%s\"}",
			   p.text);
		if (schema_read(&g, s.text, s.n, &err) != RT_OK) {
			assert_non_null(strstr(err.message, "more than 64"));
			continue;
		}
		assert_int_equal(regcomp(&library, p.text,
					 REG_EXTENDED | REG_NOSUB), 0);
		read++;
		compare(g, &library, &p, s.text, &matched);
		regfree(&library);
		rt_grammar_free(g);
	}
	assert_true(read > seeds * 9 / 10);
	assert_true(matched > seeds / 2);
}

/* ---- texts that are no JSON ---- */

static const struct {
	bool choices;
	const char *json, *is, *is_not;	/* texts, a bar between two */
	const char *message;		/* NULL: it is right */
} texts[] = {
	{ true, "[\"yes\", \"no\", \"nobody\", \"a \\\"b\\\"\"]",
	  "yes|no|nobody|a \"b\"", "y|nob|yess| yes|Yes|\"yes\"||", NULL },
	{ true, "[\"\\u00e9\"]", "\303\251", "\303|e|", NULL },
	{ true, "[]", NULL, NULL, "there is nothing to choose" },
	{ true, "[\"a\", \"a\"]", NULL, NULL, "a choice is there twice" },
	{ true, "[\"\"]", NULL, NULL, "a choice has at least one character, "
	  "and no control characters" },
	{ true, "[\"a\\n\"]", NULL, NULL, "a choice has at least one "
	  "character, and no control characters" },
	{ true, "\"a\"", NULL, NULL, "found '\"', expected '['" },
	{ false, "\"a+|b\"", "a|aaa|b", "ab|c|\"a\"|", NULL },
	{ false, "\"^[0-9]{3}$\"", "123", "12|1234| 123|", NULL },
	{ false, "\"(ab)*\"", "|ab|abab", "a|aba", NULL },
	{ false, "\"^a\"", "a", "|ab|ba", NULL },
	{ false, "\"a|b$\"", "a|b", "|ab|a$", NULL },
	{ false, "\"^a|b$\"", NULL, NULL, "a pattern has alternatives outside "
	  "of a group, at character 3" },
	{ false, "\"a\\\\$\"", "a$", "a|a\\", NULL },
	{ false, "\"^\"", "", "a|^", NULL },
	{ false, "\"a(\"", NULL, NULL, "a pattern has a group without an end, "
	  "at character 2" },
	{ false, "\"a)(b\"", NULL, NULL, "a pattern has a bracket that ends no "
	  "group, at character 2" },
	{ false, "\"\\u00e9\\u00e9)\"", NULL, NULL, "a pattern has a bracket "
	  "that ends no group, at character 3" },
	{ false, "\"a|(b\"", NULL, NULL, "a pattern has a group without an "
	  "end, at character 3" },
	{ false, "\"[\\u00e0-\\u00ff]+!|\320\266\"",
	  "\303\251\303\240!|\320\266",
	  "\303\251|e!|\320|\320\266!|\303\227!", NULL },
};

/* Whether a text may come byte by byte, and be all of the answer. */
static bool
is_answer(const struct rt_grammar *g, const char *text, size_t n)
{
	struct rt_error err = { .message = "" };
	struct rt_guide *x = open_guide(g);
	uint64_t bits[WORDS];
	bool over = false, ok = true, may_end = false;
	size_t i;

	for (i = 0; i < n && ok; i++) {
		ok = !over && take(x, (unsigned char)text[i], &over);
	}
	assert_int_equal(over ? RT_OK : rt_guide_allow(x, bits, &may_end, &err),
			 RT_OK);
	rt_guide_free(x);
	return ok && (over || may_end);
}

/* Whether each of the texts between bars is an answer, or none is. */
static void
assert_answers(const struct rt_grammar *g, const char *list, bool yes)
{
	const char *end;

	for (;; list = end + 1) {
		end = strchr(list, '|');
		assert_int_equal(is_answer(g, list, end ? (size_t)(end - list)
						   : strlen(list)), yes);
		if (!end) {
			return;
		}
	}
}

static void
test_texts(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct rt_error err = { .message = "" };
		struct rt_json j = { .err = &err };
		struct rt_grammar *g;
		char json[128];

		snprintf(json, sizeof json, "%s", texts[i].json);
		j.text = json;
		j.len = strlen(json);
		(texts[i].choices ? rt_grammar_of_choices
				  : rt_grammar_of_pattern)(&g, &j);
		assert_string_equal(err.message, texts[i].message
				    ? texts[i].message : "");
		assert_int_equal(g != NULL, !texts[i].message);
		if (g) {
			assert_answers(g, texts[i].is, true);
			assert_answers(g, texts[i].is_not, false);
		}
		rt_grammar_free(g);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_drawn),
	};

	return cmocka_run_group_tests(tests, open_vocabulary,
				      close_vocabulary);
}
