/*
 * Answers that follow a JSON schema: whatever tokens come of those that are
 * allowed, the text comes to an end, is JSON, and a second reader of schemas
 * finds it valid.  Schemas and tokens are drawn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/serve/t-schemas.h"
#include "tests/unit/serve/t-valid.h"
#include "tests/unit/shared/t-cases.h"

enum { WORDS = SCHEMA_VOCAB / 64 + 1, LONGEST = 20000 };

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

static struct rt_grammar *
read_schema(const char *schema)
{
	struct rt_error err = { .message = "" };
	struct rt_grammar *g;

	if (schema_read(&g, schema, strlen(schema), &err) != RT_OK) {
		fail_msg("%s: %s", schema, err.message);
	}
	return g;
}

static struct rt_guide *
open_guide(const struct rt_grammar *g)
{
	struct rt_error err = { .message = "" };
	struct rt_guide *x;

	assert_int_equal(rt_guide_open(&x, g, vocabulary, &err), RT_OK);
	return x;
}

/* Whether a text, of which `known' bytes have come, may come byte by byte, and
 * may end there. */
static bool
may_come(const struct rt_grammar *g, const char *text, size_t known, size_t n,
	 bool *may_end)
{
	struct rt_guide *x = open_guide(g);
	struct rt_error err = { .message = "" };
	uint64_t bits[WORDS];
	bool over, ok = true;
	size_t i;

	for (i = 0; i < n && ok; i++) {
		int64_t byte = (unsigned char)text[i];

		if (i >= known) {
			assert_int_equal(rt_guide_allow(x, bits, may_end,
							&err), RT_OK);
			ok = schema_is_allowed(bits, byte);
		}
		if (ok) {
			assert_int_equal(rt_guide_take(x, byte, &over, &err),
					 RT_OK);
		}
	}
	assert_int_equal(rt_guide_allow(x, bits, may_end, &err), RT_OK);
	rt_guide_free(x);
	return ok;
}

/* ---- texts by hand ---- */

/* A property that is one of three, and x, of an object with this `if`. */
#define IF(constants) \
	"{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"a\",\"b\"," \
	"true]},\"x\":{\"type\":\"null\"}},\"required\":[\"k\"],\"if\":" \
	"{\"properties\":{\"k\":" constants "}},"

/* Texts are separated by a bar; those that may not come follow two. */
static const struct {
	const char *schema, *texts;
} by_hand[] = {
	{ "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},"
	  "\"b\":{\"type\":\"string\"}},\"required\":[\"a\"]}",
	  "{\"a\":1}|{\"a\": -20, \"b\": \"x\"}|{\n  \"a\": 0\n}||{}|"
	  "{\"b\":\"\"}|{\"a\":1.5}|{\"a\":01}|{\"b\":\"\",\"a\":1}|"
	  "{\"a\":1,\"c\":2}|{\"a\":1,}|[]|{\"a\":1,\"a\":1}|  {\"a\":1}" },
	{ "{\"additionalProperties\":{\"type\":\"integer\"},\"properties\":"
	  "{\"ab\":{\"type\":\"null\"},\"q\\\"\":{\"type\":\"null\"}}}",
	  "{}|{\"ab\":null}|{\"a\":1,\"abc\":2}|{\"q\\\"\":null,\"q\":3}|"
	  "{\"ab\":null,\"x\":1}||{\"ab\":1}|{\"x\":1,\"ab\":null}|"
	  "{\"\\u0061b\":1}|{\"x\\n\":1}|{\"x\":null}" },
	{ "{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":"
	  "1,\"maxItems\":2}",
	  "[true]|[ false , true ]|[\n  true]||[]|[true,]|[true,true,true]|"
	  "[null]|[  true]|[ \ntrue]|[\n\ntrue]|[true,  true]" },
	{ "{\"type\":\"integer\",\"multipleOf\":5,\"minimum\":-7,\"maximum\":"
	  "110}", "-5|0|5|10|100|110||-10|1|11|115|5.0|05" },
	{ "{\"multipleOf\":4,\"exclusiveMinimum\":0,\"exclusiveMaximum\":8.5,"
	  "\"type\":\"number\"}", "4|8||0|12|4.0" },
	{ "{\"prefixItems\":[{\"type\":\"boolean\"},{\"type\":\"null\"}],"
	  "\"items\":{\"const\":1},\"type\":\"array\"}",
	  "[]|[true]|[ true, null ]|[false,null,1,1]||[null]|[true,1]|"
	  "[true,null,null]|[true,]" },
	{ "{\"prefixItems\":[{\"const\":1},{\"const\":2},false],"
	  "\"minItems\":2,\"type\":\"array\"}", "[1,2]||[]|[1]|[1,2,3]" },
	{ "{\"prefixItems\":[{\"const\":1}],\"items\":false,\"type\":"
	  "\"array\"}", "[1]|[]||[1,1]" },
	{ "{\"type\":\"string\",\"minLength\":1,\"maxLength\":2}",
	  "\"a\"|\"\xc3\xa9\xf0\x9f\x98\x80\"|\"\\u00e9\\n\"||\"\"|\"abc\"|"
	  "\"\\ud800\"|\"\xff\"|\"\xed\xa0\x80\"|\"\t\"" },
	{ "{\"type\":\"integer\",\"minimum\":-12,\"exclusiveMaximum\":105}",
	  "0|-0|7|10|104|-12|-9||105|-13|1000|01|1.0|1e1|+1" },
	{ "{\"type\":\"integer\",\"minimum\":999999999999999995}",
	  "999999999999999995|999999999999999999||999999999999999994|"
	  "999999999999999990" },
	{ "{\"type\":\"integer\",\"enum\":[1.0,2e1,1.5,1e-1,\"1\"]}",
	  "1.0|2e1||1.5|1e-1|\"1\"" },
	{ "{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
	  "0|1|0.5|0.123456|1.000000|-0||1.1|2|-0.1|1e0|.5|0.1234567" },
	{ "{\"type\":\"number\"}", "0|-12.5e-3|1E+9|0.0||1.|e|01|1e999" },
	{ "{\"enum\":[1,12,\"a\",null,[1, 2]]}",
	  "1|12|\"a\"|null|[1,2]||2|123|\"b\"|[1, 2]|nul" },
	{ "{\"const\":{\"a\": [\"\\\"\"]}}", "{\"a\":[\"\\\"\"]}||{}" },
	{ "{\"$defs\":{\"t/~\":{\"type\":\"object\",\"properties\":{\"n\":"
	  "{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/t~1~0\"}]}},"
	  "\"required\":[\"n\"]}},\"$ref\":\"#/$defs/t~1%7E0\"}",
	  "{\"n\":null}|{\"n\":{\"n\":{\"n\":null}}}||{\"n\":{}}|{}" },
	{ "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":"
	  "\"a\"},\"x\":{}},\"required\":[\"k\",\"x\"]},{\"type\":\"object\","
	  "\"properties\":{\"k\":{\"const\":\"b\"}},\"required\":[\"k\"]}]}",
	  "{\"k\":\"b\"}|{\"k\":\"a\",\"x\":[{},1]}||{\"k\":\"a\"}|"
	  "{\"k\":\"b\",\"x\":1}" },
	{ "{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"}},\"required\":"
	  "[\"k\"]},{\"properties\":{\"k\":{\"const\":\"b\"}},\"required\":["
	  "\"k\"]}]}", "{\"k\":\"a\"}|{\"k\":\"b\"}||{\"k\":\"c\"}|{}" },
	{ "{\"items\":{\"anyOf\":[{\"type\":\"number\"},{\"type\":\"array\"}]"
	  "},\"type\":\"array\"}", "[1, 2.5,[null]]|[]||[null]" },
	{ "{\"type\":[\"integer\",\"null\"],\"format\":\"x\",\"title\":\"\"}",
	  "3|null||\"\"|3.5" },
	{ "{\"type\":\"string\",\"format\":\"uuid\\u0000\"}", "\"a\"||1" },
	{ "{\"required\":[\"z\"]}", "{\"z\":[1]}|{\"z\":1,\"y\":2}||{}" },
	{ "{\"type\":\"string\",\"minLength\":1,\"not\":{\"enum\":[\"a\","
	  "\"abc\"]}}", "\"b\"|\"ab\"|\"abcd\"|\"\xc3\xa9\"||\"\"|\"a\"|"
	  "\"abc\"|\"\\u0061\"|1" },
	{ "{\"not\":{\"type\":[\"object\",\"number\"]}}",
	  "null|\"a\"|[{}]|true||{}|1|1.5" },
	{ "{\"type\":\"integer\",\"minimum\":8,\"maximum\":105,\"not\":"
	  "{\"enum\":[10,99.0,8,\"x\"]}}",
	  "9|11|98|100|105||8|10|99|7|106" },
	{ "{\"type\":\"number\",\"not\":{\"const\":0}}",
	  "1|0.5|-0.000001||0|-0|0.0|1e3" },
	{ "{\"type\":\"integer\",\"multipleOf\":5,\"minimum\":0,\"maximum\":15,"
	  "\"not\":{\"const\":10}}", "0|5|15||10" },
	{ "{\"enum\":[1,\"a\",null],\"not\":{\"enum\":[\"a\",1.0]}}",
	  "null||1|\"a\"" },
	{ "{\"enum\":[1,2,\"a\"],\"not\":{\"type\":\"integer\"}}",
	  "\"a\"||1|2" },
	{ "{\"enum\":[1,\"1\",2],\"not\":{\"type\":\"integer\",\"enum\":[1,"
	  "\"1\"]}}", "2|\"1\"||1" },
	{ "{\"enum\":[1e20,12345678901234567890123,1.5],\"not\":{\"type\":"
	  "\"integer\"}}", "1.5||1e20|12345678901234567890123" },
	{ "{\"type\":[\"boolean\",\"null\"],\"not\":{\"enum\":[true,null]}}",
	  "false||true|null" },
	{ "{\"type\":[\"object\",\"null\"],\"properties\":{\"k\":{\"enum\":"
	  "[\"a\",\"b\"]}},\"required\":[\"k\"],\"if\":{\"properties\":{"
	  "\"k\":{\"const\":\"a\"}}},\"then\":false,\"else\":true}",
	  "{\"k\":\"b\"}||{\"k\":\"a\"}|null" },
	{ "{\"type\":[\"object\",\"null\"],\"properties\":{\"k\":{\"enum\":"
	  "[\"a\",\"b\"]}},\"required\":[\"k\"],\"if\":{\"properties\":{"
	  "\"k\":{\"const\":\"a\"}}},\"else\":false}",
	  "{\"k\":\"a\"}|null||{\"k\":\"b\"}" },
	{ "{\"patternProperties\":{\"^x_.$\":{\"type\":\"null\"}},\"properties"
	  "\":{\"\xc3\xa9\":{\"const\":1},\"x\\\"\":{\"const\":2}}}",
	  "{\"\xc3\xa9\":1,\"x\\\"\":2,\"x_y\":null}||{\"x_y\":1}" },
	{ IF("{\"const\":\"a\"}") "\"then\":{\"required\":[\"x\"]}}",
	  "{\"k\":\"a\",\"x\":null}|{\"k\":\"b\"}|{\"k\":true,\"x\":null}||"
	  "{\"k\":\"a\"}|{}|{\"x\":null}|{\"k\":\"c\"}" },
	{ IF("{\"enum\":[\"b\",true]}") "\"then\":false,\"else\":true}",
	  "{\"k\":\"a\"}||{\"k\":\"b\"}|{\"k\":true}" },
	{ IF("{\"const\":\"z\"}") "\"then\":false,\"else\":{\"required\":"
	  "[\"x\",\"k\"]}}", "{\"k\":\"b\",\"x\":null}||{\"k\":\"b\"}" },
	{ "{\"patternProperties\":{\"^[a-c]{2}$\":{\"type\":\"null\"}},"
	  "\"additionalProperties\":false,\"type\":\"object\"}",
	  "{}|{\"ab\":null}|{\"cc\": null, \"ca\":null}||{\"a\":null}|"
	  "{\"abc\":null}|{\"ab\":1}|{\"\":null}|{\"x\":null}" },
	{ "{\"patternProperties\":{\"^abc?d$\":{\"type\":\"null\"}},"
	  "\"properties\":{\"ab\":{\"const\":1},\"abc\":{\"const\":2}},"
	  "\"required\":[\"k\",\"abc\"],\"additionalProperties\":"
	  "{\"const\":3}}",
	  "{\"ab\":1,\"abc\":2,\"k\":3,\"abd\":null,\"abcd\":null}|"
	  "{\"abc\":2,\"k\":3}||{\"abc\":2,\"abd\":null}|{\"abc\":2}|"
	  "{\"abc\":2,\"k\":3,\"x\":3}|{\"abc\":2,\"k\":3,\"ab\":1}|"
	  "{\"abd\":null,\"abc\":2,\"k\":3}" },
	{ "true", "1|{\"a\":[\"b\",{}]}|\n\"x\"||}" },
};

static void
test_by_hand(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof by_hand / sizeof *by_hand; i++) {
		struct rt_grammar *g = read_schema(by_hand[i].schema);
		const char *s = by_hand[i].texts;
		bool good = true, comes, may_end = false;

		for (;;) {
			size_t n = strcspn(s, "|");

			comes = may_come(g, s, 0, n, &may_end) && may_end;
			if (comes != good) {
				fail_msg("%s: %.*s", by_hand[i].schema, (int)n,
					 s);
			}
			s += n;
			if (!*s) {
				break;
			}
			good = good && s[1] != '|';
			s += s[1] == '|' ? 2 : 1;
		}
		assert_false(good);
		rt_grammar_free(g);
	}
}

/* ---- what is refused ---- */

static const struct {
	const char *schema, *message;
} refused[] = {
	{ "{\"patternProperties\":{}}", "#/patternProperties in the schema is "
	  "not an object of one pattern" },
	{ "{\"patternProperties\":{\"^a$\":{},\"^b$\":{}}}",
	  "is not an object of one pattern" },
	{ "{\"patternProperties\":{\"^a\":{}}}",
	  "#/patternProperties/^a in the schema is not known here unless it is "
	  "of whole texts" },
	{ "{\"patternProperties\":{\"^a$\":{\"items\":3}}}",
	  "#/patternProperties/^a$/items in the schema is no schema" },
	{ "{\"patternProperties\":{\"^ab?$\":{}},\"properties\":{\"x\":{},"
	  "\"ab\":{}}}", "#/patternProperties in the schema has a pattern "
	  "for the property ab, which is not known here" },
	{ "{\"patternProperties\":{\"^ab?$\":{}},\"required\":[\"a\"]}",
	  "has a pattern for the property a" },
	{ "{\"patternProperties\":{\"^.$\":{}},\"required\":[\"\xc3\xa9\"]}",
	  "has a pattern for the property \xc3\xa9" },
	{ "{\"patternProperties\":{\"^a[^a]b?$\":{}},\"required\":"
	  "[\"a\\\"b\"]}", "has a pattern for the property a" },
	{ "{\"patternProperties\":{\"^a$\":{}},\"required\":[\"b\"],"
	  "\"additionalProperties\":false}", "#/required/0 in the schema is "
	  "required, and no property: b" },
	{ "{\"not\":{}}", "#/not in the schema is not known here without a "
	  "`type`, `enum` or `const` in it" },
	{ "{\"not\":true}", "#/not in the schema is not known here without" },
	{ "{\"not\":{\"minimum\":3}}", "#/not/minimum in the schema is not "
	  "known here in `not`" },
	{ "{\"not\":{\"type\":\"text\"}}", "#/not/type in the schema is not "
	  "null, boolean" },
	{ "{\"not\":{\"enum\":[]}}", "is not a list of values" },
	{ "{\"not\":{\"const\":[1]}}", "#/not/const in the schema is not known "
	  "here in `not`, which leaves out null, true, false, numbers" },
	{ "{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}",
	  "#/not in the schema leaves whole numbers out of others" },
	{ "{\"type\":\"string\",\"maxLength\":2,\"not\":{\"const\":\"a\"}}",
	  "#/not in the schema is not known here beside a pattern, a known "
	  "format or maxLength" },
	{ "{\"type\":\"string\",\"not\":{\"enum\":[\"a\",\"\\u0061\"]}}",
	  "#/not in the schema has a value twice" },
	{ "{\"type\":\"null\",\"not\":{\"type\":\"null\"}}", "followed by no "
	  "value" },
	{ "{\"type\":\"boolean\",\"not\":{\"enum\":[true,false]}}", "followed "
	  "by no value" },
	{ "{\"type\":\"integer\",\"minimum\":3,\"maximum\":4,\"not\":"
	  "{\"enum\":[3,4.0]}}", "followed by no value" },
	{ "{\"const\":1,\"not\":{\"const\":1.0}}", "followed by no value" },
	{ "{\"$ref\":\"#\",\"not\":{\"type\":\"null\"}}", "beside other" },
	{ "{\"if\":{},\"then\":{}}", "#/if in the schema is not known here "
	  "unless it is that one property is a text, null, true or false" },
	{ "{\"type\":\"string\",\"if\":{\"minLength\":3},\"then\":false}",
	  "#/if in the schema is known here of objects alone" },
	{ IF("{\"const\":\"a\"}") "\"then\":{\"required\":[\"x\\u0000\"]}}",
	  "#/then/required/0 in the schema is required, and no property" },
	{ "{\"oneOf\":[{\"type\":\"string\"},{\"minItems\":1,\"not\":{\"type\":"
	  "\"array\"}}]}", "has alternatives that may hold together" },
	{ "{\"oneOf\":[{\"type\":\"number\"},{\"enum\":[\"a\",0.12345678],"
	  "\"not\":{\"const\":0.12345679}}]}",
	  "has alternatives that may hold together" },
	{ IF("{\"const\":1}") "\"then\":true}", "#/if in the schema is not" },
	{ IF("{\"const\":\"a\",\"type\":\"string\"}") "\"then\":true}",
	  "#/if in the schema is not known here" },
	{ IF("{\"const\":\"a\"}") "\"then\":{\"required\":[\"z\"]}}",
	  "#/then/required/0 in the schema is required, and no property" },
	{ IF("{\"const\":\"a\"}") "\"else\":{\"minProperties\":1}}",
	  "#/else in the schema is not known here unless it is true, false or "
	  "a list `required` alone" },
	{ IF("{\"enum\":[\"a\",\"b\",1,true]}") "\"then\":false}",
	  "#/if in the schema is not known" },
	{ IF("{\"enum\":[\"a\",\"b\",true]}") "\"else\":{\"required\":[]},"
	  "\"then\":false,\"not\":{\"type\":\"null\"},\"title\":\"\"}",
	  "followed by no value" },
	{ "{\"properties\":{\"k\":{\"enum\":[\"a\"]}},\"if\":{\"properties\":"
	  "{\"k\":{\"const\":\"a\"}}}}", "#/if/properties/k in the schema is "
	  "not known here unless it is required, and one of several" },
	{ "{\"properties\":{\"a\":{\"contains\":{}}}}",
	  "#/properties/a/contains in the schema is no keyword that is known" },
	{ "{\"pattern\":\"^a$\",\"maxLength\":2}", "#/pattern in the schema is "
	  "not known here beside minLength and maxLength" },
	{ "{\"pattern\":3}", "#/pattern in the schema is no text" },
	{ "{\"type\":\"text\"}", "#/type in the schema is not null, boolean" },
	{ "{\"type\":[\"string\",7]}", "#/type in the schema is not null" },
	{ "{\"type\":\"null\\u0000\"}", "#/type in the schema is not null" },
	{ "{\"$ref\":\"#/$defs/a\"}", "#/$ref in the schema leads to nothing" },
	{ "{\"$ref\":\"http://a\"}", "leads to nothing in the schema" },
	{ "{\"$ref\":\"#\",\"type\":\"null\"}", "#/$ref in the schema is not "
	  "known here beside" },
	{ "{\"enum\":[1],\"minimum\":0}", "beside other keywords" },
	{ "{\"anyOf\":[{},{\"items\":3}]}", "#/anyOf/1/items in the schema is "
	  "no schema" },
	{ "{\"anyOf\":[]}", "is not a list of schemas" },
	{ "{\"multipleOf\":0.5}", "#/multipleOf in the schema is not a whole "
	  "number" },
	{ "{\"multipleOf\":0}", "#/multipleOf in the schema is not known here "
	  "unless it is a whole number from 1 to 999999999" },
	{ "{\"multipleOf\":2,\"minimum\":0}", "#/multipleOf in the schema is "
	  "not known here unless minimum and maximum leave at most 1024 "
	  "numbers" },
	{ "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":8,\"maximum\":"
	  "13}", "followed by no value" },
	{ "{\"prefixItems\":{}}", "#/prefixItems in the schema is not a list "
	  "of schemas" },
	{ "{\"prefixItems\":[{},false],\"minItems\":2,\"type\":\"array\"}",
	  "followed by no value" },
	/* what may have no length has no items either */
	{ "{\"prefixItems\":[{}],\"minItems\":2,\"maxItems\":1,\"type\":"
	  "\"array\"}", "followed by no value" },
	{ "{\"allOf\":[{},{}]}", "only one is known here" },
	{ "{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}",
	  "#/oneOf in the schema has alternatives that may hold together" },
	{ "{\"$defs\":{\"a\":{}},\"oneOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\""
	  ":\"#/$defs/a\"}]}", "hold together" },
	/* what says no type is followed by values of the others, too */
	{ "{\"oneOf\":[{\"properties\":{\"k\":{\"const\":1}},\"required\":["
	  "\"k\"]},{\"type\":\"string\"}]}", "hold together" },
	{ "{\"oneOf\":[{\"minLength\":2},{\"type\":\"integer\"}]}",
	  "hold together" },
	{ "{\"oneOf\":[{\"anyOf\":[{\"type\":\"null\"},{\"minItems\":2}]},{"
	  "\"type\":\"integer\"}]}", "hold together" },
	/* 5e13 follows both, and no number of the first is written */
	{ "{\"oneOf\":[{\"type\":\"number\",\"minimum\":1e13},{\"type\":"
	  "\"number\"}]}", "hold together" },
	{ "{\"oneOf\":[{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"number\","
	  "\"minimum\":1e13}]},{\"type\":\"number\"}]}", "hold together" },
	{ "{\"minItems\":-1}", "is not a whole number of 0 or more" },
	{ "{\"minLength\":1.5}", "is not a whole number" },
	{ "{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}",
	  "# in the schema is followed by no value" },
	{ "{\"type\":\"integer\",\"minimum\":5e18}", "followed by no value" },
	{ "{\"enum\":[1],\"type\":\"string\"}", "followed by no value" },
	{ "{\"$ref\":\"#\"}", "followed by no value" },
	{ "{\"items\":{\"$ref\":\"#\"},\"minItems\":1}", "followed by no" },
	{ "{\"properties\":{\"a\":{},\"a\":{}}}", "has a name twice" },
	{ "{\"required\":[\"a\",\"a\"]}", "has a name twice" },
	{ "{\"required\":[\"a\"],\"additionalProperties\":false}",
	  "#/required/0 in the schema is required, and no property: a" },
	{ "{\"required\":\"a\"}", "is not a list of names" },
	{ "{\"uniqueItems\":true}", "unless it is false" },
	{ "{\"enum\":[\"a\",\"a\"]}", "has a value twice" },
	{ "false", "followed by no value" },
	{ "3", "# in the schema is no schema: an object, true or false" },
	{ "{\"type\":\"null\"", "found the end of the text" },
};

static void
test_what_is_refused(void **state)
{
	struct rt_error err = { .message = "" };
	struct rt_grammar *g;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof refused / sizeof *refused; i++) {
		const char *s = refused[i].schema;

		assert_int_not_equal(schema_read(&g, s, strlen(s), &err),
				     RT_OK);
		assert_null(g);
		if (!strstr(err.message, refused[i].message)) {
			fail_msg("%s: %s", s, err.message);
		}
	}
}

/* What is too large or too deep for its bounds, and what is just not. */
static void
test_bounds(void **state)
{
	static char s[1 << 20];
	struct rt_error err = { .message = "" };
	struct rt_grammar *g;
	size_t n, i;
	int k;

	(void)state;
	for (k = 63; k <= 64; k++) {
		/* {"items":..[{}]..}, whose value is so deep */
		for (n = i = 0; i < (size_t)k; i++) {
			n += (size_t)sprintf(s + n, "{\"minItems\":1,"
					     "\"items\":");
		}
		n += (size_t)sprintf(s + n, "true");
		memset(s + n, '}', (size_t)k);
		n += (size_t)k;
		assert_int_equal(schema_read(&g, s, n, &err), RT_OK);
		rt_grammar_free(g);
	}
	memmove(s + 9, s, n);
	memcpy(s, "{\"items\":", 9);
	s[n + 9] = '}';
	assert_int_equal(schema_read(&g, s, n + 10, &err), RT_RANGE);
	assert_non_null(strstr(err.message, "nested at most 64 deep"));
	for (k = 128; k <= 129; k++) {
		n = (size_t)sprintf(s, "{\"anyOf\":[true");
		for (i = 5; i < (size_t)k; i++) {
			n += (size_t)sprintf(s + n, ",{\"const\":%zu}", i);
		}
		n += (size_t)sprintf(s + n, "]}");
		assert_int_equal(schema_read(&g, s, n, &err),
				 k == 128 ? RT_OK : RT_RANGE);
		rt_grammar_free(g);
	}
	assert_non_null(strstr(err.message, "more than 128 alternatives"));
	n = (size_t)sprintf(s, "{\"enum\":[0");
	for (i = 1; i < 40000; i++) {
		n += (size_t)sprintf(s + n, ",%zu", i);
	}
	n += (size_t)sprintf(s + n, "]}");
	assert_int_equal(schema_read(&g, s, n, &err), RT_RANGE);
	assert_non_null(strstr(err.message, "at most 32768 values"));
}

/* ---- drawn schemas ---- */

struct drawn_text {
	char at[LONGEST + 256];
	size_t n;
	int64_t tokens;
};

/* A token that may come: any at first, later one that ends something. */
static int64_t
draw_token(const uint64_t *bits, struct schema_text *r, int64_t so_far)
{
	static const char ends[] = "\"}],:";
	int64_t n = 0, i, k;

	for (i = 0; so_far > 60 && ends[i]; i++) {
		if (schema_is_allowed(bits, (unsigned char)ends[i])) {
			return (unsigned char)ends[i];
		}
	}
	for (i = 0; i < SCHEMA_VOCAB; i++) {
		n += schema_is_allowed(bits, i);
	}
	if (n == 0) {
		return -1;
	}
	k = schema_pick(r, 0, (int)n - 1);
	for (i = 0; i < SCHEMA_VOCAB; i++) {
		if (schema_is_allowed(bits, i) && k-- == 0) {
			break;
		}
	}
	return i;
}

/* What is allowed at once is what is allowed byte by byte. */
static void
check_allowed(const struct rt_grammar *g, const struct drawn_text *t,
	      const uint64_t *bits)
{
	char text[LONGEST];
	bool may_end;
	size_t n;
	int64_t i;

	memcpy(text, t->at, t->n);
	for (i = 0; i < SCHEMA_VOCAB; i++) {
		char *s = schema_token(NULL, i, &n);

		memcpy(text + t->n, s, n);
		free(s);
		assert_int_equal(schema_is_allowed(bits, i), n > 0 &&
			may_come(g, text, t->n, t->n + n, &may_end));
	}
}

/* More ways than are followed, of which those of a name in the schema and of
 * one that is not are walked through together. */
static void
test_more_ways(void **state)
{
	static char s[1 << 14];
	static struct drawn_text t = { .at = "{\"a", .n = 3 };
	struct rt_error err = { .message = "" };
	uint64_t bits[WORDS];
	struct rt_grammar *g;
	struct rt_guide *x;
	bool over, may_end;
	size_t n, i;

	(void)state;
	n = (size_t)sprintf(s, "{\"anyOf\":[{\"additionalProperties\":{"
			    "\"anyOf\":[{\"const\":0}");
	for (i = 1; i < 128; i++) {
		n += (size_t)sprintf(s + n, ",{\"const\":%zu}", i);
	}
	sprintf(s + n, "]}},{\"properties\":{\"a\":{\"type\":\"string\"}}}]}");
	g = read_schema(s);
	x = open_guide(g);
	for (i = 0; i <= t.n; i++) {
		assert_int_equal(rt_guide_allow(x, bits, &may_end, &err),
				 RT_OK);
		if (i < t.n) {
			assert_int_equal(rt_guide_take(x, t.at[i], &over, &err),
					 RT_OK);
		}
	}
	check_allowed(g, &t, bits);
	rt_guide_free(x);
	rt_grammar_free(g);
}

/* Of strings with patterns fewer are followed. */
static void
test_more_patterns(void **state)
{
	static char s[1 << 12];
	struct rt_grammar *g;
	bool may_end;
	size_t n;
	int i;

	(void)state;
	n = (size_t)sprintf(s, "{\"anyOf\":[{\"type\":\"null\"}");
	for (i = 0; i < 9; i++) {
		n += (size_t)sprintf(s + n, ",{\"type\":\"string\",\"pattern\":"
				     "\"^[ab%d]%d$\"}", i, i);
	}
	sprintf(s + n, "]}");
	g = read_schema(s);
	assert_true(may_come(g, "\"a7\"", 0, 4, &may_end) && may_end);
	assert_false(may_come(g, "\"a8\"", 0, 4, &may_end));
	assert_true(may_come(g, "null", 0, 4, &may_end) && may_end);
	rt_grammar_free(g);
}

/* Draws a whole text; false: it becomes too long, as where each value may have
 * several of its kind inside. */
static bool
draw_text(const struct rt_grammar *g, struct schema_text *r,
	  struct drawn_text *t)
{
	struct rt_guide *x = open_guide(g);
	struct rt_error err = { .message = "" };
	int64_t look = schema_pick(r, 0, 100), token;
	uint64_t bits[WORDS];
	bool over = false, may_end;
	size_t n;

	t->n = 0;
	for (t->tokens = 0; !over && t->n < LONGEST; t->tokens++) {
		char *s;

		assert_int_equal(rt_guide_allow(x, bits, &may_end, &err),
				 RT_OK);
		if (t->tokens == look && t->n < 60) {
			check_allowed(g, t, bits);
		}
		if (may_end && t->tokens > 60) {
			break;
		}
		token = draw_token(bits, r, t->tokens);
		if (token < 0) {
			fail_msg("%s: nothing may follow %.*s", r->text,
				 (int)t->n, t->at);
		}
		assert_int_equal(rt_guide_take(x, token, &over, &err), RT_OK);
		s = schema_token(NULL, token, &n);
		memcpy(t->at + t->n, s, n);
		t->n += n;
		free(s);
	}
	t->at[t->n] = '\0';
	rt_guide_free(x);
	return t->n < LONGEST;
}

static void
test_drawn(void **state)
{
	static struct schema_text s;
	static struct drawn_text t;
	struct rt_error err = { .message = "" };
	struct rt_grammar *g;
	int64_t seeds = t_cases(3000), seed, read = 0, tokens = 0, longer = 0;
	int i;

	(void)state;
	for (seed = 1; seed <= seeds; seed++) {
		schema_draw(&s, (uint64_t)seed);
		assert_true(s.n < sizeof s.text);
		if (schema_read(&g, s.text, s.n, &err) != RT_OK) {
			/* definitions may refer to nothing but each other */
			assert_non_null(strstr(err.message,
					       "followed by no value"));
			continue;
		}
		read++;
		for (i = 0; i < 4; i++) {
			if (!draw_text(g, &s, &t)) {
				longer++;
				continue;
			}
			tokens += t.tokens;
			if (!valid_text(s.text, t.at)) {
				fail_msg("seed %lld: %s\n%s", (long long)seed,
					 t.at, s.text);
			}
		}
		rt_grammar_free(g);
	}
	print_message("%lld schemas, %lld tokens, %lld texts too long\n",
		      (long long)read, (long long)tokens, (long long)longer);
	assert_true(read > seeds * 9 / 10);
	assert_true(tokens > 30 * seeds);
	assert_true(longer < seeds / 30);
}

/* Bytes of drawn schemas are changed, and what is left is read: it is refused
 * with a reason, or texts of it come to an end. */
static void
test_damaged(void **state)
{
	static struct schema_text s;
	static struct drawn_text t;
	static const char bytes[] = "{}[]\":,0-9.eE\\u$#/~ \x01\xff";
	struct rt_error err;
	struct rt_grammar *g;
	int64_t seeds = t_cases(20000), seed, refusals = 0;
	int i;

	(void)state;
	for (seed = 1; seed <= seeds; seed++) {
		schema_draw(&s, (uint64_t)seed % 500 + 1);
		s.at = (uint64_t)seed << 20;
		for (i = schema_pick(&s, 1, 3); i > 0; i--) {
			int at = schema_pick(&s, 0, (int)s.n - 1);
			int from = schema_pick(&s, 0, (int)s.n - 1);
			size_t n = (size_t)(s.n - (size_t)(at > from ? at
								     : from));

			n = n > 24 ? 24 : n;
			if (schema_pick(&s, 0, 1)) {
				s.text[at] = bytes[schema_pick(&s, 0,
					(int)sizeof bytes - 2)];
			} else {
				memmove(s.text + at, s.text + from, n);
			}
		}
		err.message[0] = '\0';
		if (schema_read(&g, s.text, s.n, &err) != RT_OK) {
			assert_int_not_equal(err.message[0], '\0');
			refusals++;
			continue;
		}
		if (draw_text(g, &s, &t)) {
			assert_non_null(valid_json(valid_blanks(t.at)));
		}
		rt_grammar_free(g);
	}
	assert_in_range(refusals, seeds / 2, seeds * 99 / 100);
}

/* ---- vocabularies ---- */

static char *
but_one(void *user, int64_t token, size_t *n)
{
	const int *without = user;

	return schema_token(NULL, token == *without ? SCHEMA_NONE : token, n);
}

static void
test_vocabulary_without_a_byte(void **state)
{
	static const struct {
		int without;
		const char *message;	/* or NULL */
	} rows[] = {
		{ '}', "no token of byte 0x7d alone" },
		{ 0xbf, "no token of byte 0xbf alone" },
		/* {"const":"\u0436"} begins with it */
		{ 0xd0, "no token of byte 0xd0 alone" },
		{ 0xf4, "no token of byte 0xf4 alone" },
		{ 0x7f, NULL }, { '\n', NULL }, { 0xc1, NULL }, { 0xf5, NULL },
	};
	struct rt_error err = { .message = "" };
	struct rt_spellings *s;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof rows / sizeof *rows; i++) {
		int without = rows[i].without;

		assert_int_equal(rt_spellings_open(&s, SCHEMA_VOCAB, but_one,
						   &without, &err),
				 rows[i].message ? RT_RANGE : RT_OK);
		assert_true(!rows[i].message ||
			    strstr(err.message, rows[i].message));
		rt_spellings_free(s);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_more_ways),
		cmocka_unit_test(test_more_patterns),
		cmocka_unit_test(test_drawn),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_vocabulary_without_a_byte),
	};

	return cmocka_run_group_tests(tests, open_vocabulary,
				      close_vocabulary);
}
