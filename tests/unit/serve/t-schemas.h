/*
 * JSON schemas that are drawn, for tests of grammars, and a vocabulary whose
 * tokens are bytes and pieces of JSON.
 */
#ifndef T_SCHEMAS_H
#define T_SCHEMAS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/grammar/grammar.h"

/* ---- drawing ---- */

struct schema_text {
	uint64_t at;		/* of the random numbers */
	char text[1 << 16];
	size_t n;
};

static inline int
schema_pick(struct schema_text *s, int from, int to)
{
	uint64_t z = s->at += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return from + (int)((z >> 33) % (uint64_t)(to - from + 1));
}

#define SCHEMA_ADD(s, ...) \
	((s)->n += (size_t)snprintf((s)->text + (s)->n, \
				    sizeof (s)->text - (s)->n, __VA_ARGS__))

static inline void schema_value(struct schema_text *s, int depth);

/* Names that begin alike, and some that are written with escapes. */
static const char *const schema_names[] = {
	"a", "ab", "abc", "b", "\\\"", "a\\\"b", "\\\\", "a\\\\", "\xc3\xa9",
	"name", "names", "\\u0001", "",
};

enum { SCHEMA_NAMES = sizeof schema_names / sizeof *schema_names };

/* Of names that are none of these. */
static const char *const schema_patterns[] = {
	"^abb?c?d$", "^[0-9]+x?$", "^(name|s)_.*$",
};

static inline void
schema_object(struct schema_text *s, int depth)
{
	int first = schema_pick(s, 0, SCHEMA_NAMES - 1), i;
	int n = schema_pick(s, 0, 4), more = schema_pick(s, 0, 3);
	const char *comma = "";

	SCHEMA_ADD(s, "{\"type\":\"object\"");
	if (n > 0) {
		SCHEMA_ADD(s, ",\"properties\":{");
		for (i = 0; i < n; i++) {
			SCHEMA_ADD(s, "%s\"%s\":", i ? "," : "",
				   schema_names[(first + i) % SCHEMA_NAMES]);
			schema_value(s, depth - 1);
		}
		SCHEMA_ADD(s, "},\"required\":[");
		for (i = 0; i < n + (more > 0); i++) {
			if (schema_pick(s, 0, 1)) {
				SCHEMA_ADD(s, "%s\"%s\"", comma, schema_names
					   [(first + i) % SCHEMA_NAMES]);
				comma = ",";
			}
		}
		SCHEMA_ADD(s, "]");
	}
	if (more < 2 && schema_pick(s, 0, 2) == 0) {
		SCHEMA_ADD(s, ",\"patternProperties\":{\"%s\":",
			   schema_patterns[schema_pick(s, 0, 2)]);
		schema_value(s, depth - 1);
		SCHEMA_ADD(s, "}");
	}
	if (more == 0) {
		SCHEMA_ADD(s, ",\"additionalProperties\":false");
	} else if (more == 1) {
		SCHEMA_ADD(s, ",\"additionalProperties\":");
		schema_value(s, depth - 1);
	}
	SCHEMA_ADD(s, "}");
}

/* A least and a most of something, either, or none of them. */
static inline void
schema_bounds(struct schema_text *s, const char *least, const char *most,
	      int from, int to)
{
	int a = schema_pick(s, from, to), b = schema_pick(s, a, to + 2);

	if (schema_pick(s, 0, 1)) {
		SCHEMA_ADD(s, ",\"%s\":%d", least, a);
	}
	if (schema_pick(s, 0, 1)) {
		SCHEMA_ADD(s, ",\"%s\":%d", most, b);
	}
}

static inline void
schema_number(struct schema_text *s)
{
	bool whole = schema_pick(s, 0, 1);

	SCHEMA_ADD(s, "{\"type\":\"%s\"", whole ? "integer" : "number");
	if (schema_pick(s, 0, 7) == 0) {
		SCHEMA_ADD(s, ",\"multipleOf\":%d,\"minimum\":-9,"
			   "\"maximum\":%d", schema_pick(s, 1, 12),
			   schema_pick(s, 0, 300));
	} else if (whole || schema_pick(s, 0, 1)) {
		schema_bounds(s, schema_pick(s, 0, 3) ? "minimum"
						      : "exclusiveMinimum",
			      "maximum", -300, 300);
	} else {
		SCHEMA_ADD(s, ",\"minimum\":%d.%d,\"exclusiveMaximum\":%de-1",
			   schema_pick(s, -3, 3), schema_pick(s, 0, 9),
			   schema_pick(s, 40, 99));
	}
	SCHEMA_ADD(s, "}");
}

static inline void
schema_literals(struct schema_text *s)
{
	static const char *const all[] = {
		"1", "12", "-1.5", "\"a\"", "\"ab\"", "\"a\\\"\"", "null",
		"true", "[1,{\"a\":null}]", "{\"b\":[]}", "\"\xe2\x82\xac\"",
	};
	int n = (int)(sizeof all / sizeof *all), i;
	int first = schema_pick(s, 0, n - 1), k = schema_pick(s, 1, 4);

	if (k == 1) {
		SCHEMA_ADD(s, "{\"const\":%s}", all[first]);
		return;
	}
	SCHEMA_ADD(s, "{\"enum\":[");
	for (i = 0; i < k; i++) {
		SCHEMA_ADD(s, "%s%s", i ? "," : "", all[(first + i) % n]);
	}
	SCHEMA_ADD(s, "]}");
}

/* Kinds or values that `not` leaves out, and members that `if` asks for. */
static inline void
schema_but(struct schema_text *s)
{
	static const char *const all[] = {
		"{\"type\":\"string\",\"not\":{\"enum\":[\"a\",\"abc\",\"\","
		"\"a\\n\"]}}",
		"{\"type\":\"string\",\"minLength\":2,\"not\":{\"enum\":"
		"[\"ab\",\"a\xc3\xa9\",\"b\"]}}",
		"{\"not\":{\"type\":[\"object\",\"array\",\"null\"]}}",
		"{\"type\":[\"integer\",\"null\"],\"minimum\":-3,"
		"\"maximum\":12,\"not\":{\"enum\":[0,1,null,1e1]}}",
		"{\"type\":\"number\",\"minimum\":-1,\"maximum\":2,\"not\":"
		"{\"enum\":[0,0.5,1.0]}}",
		"{\"enum\":[1,2,\"a\",true],\"not\":{\"enum\":[2.0,true]}}",
		"{\"type\":[\"boolean\",\"string\"],\"not\":{\"enum\":"
		"[true,\"ab\"]}}",
		"{\"not\":{\"type\":\"string\",\"enum\":[\"ab\",1]},\"type\":"
		"[\"string\",\"integer\"]}",
		"{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":"
		"[\"a\",\"ab\",true,3]},\"x\":{\"type\":\"null\"},"
		"\"y\":{\"enum\":[1,2]}},"
		"\"required\":[\"k\"],\"if\":{\"properties\":{\"k\":{\"enum\":"
		"[\"ab\",true]}}},\"then\":{\"required\":[\"x\"]},\"else\":"
		"{\"required\":[\"y\"]}}",
		"{\"properties\":{\"a\":{\"type\":\"null\"},\"k\":{\"enum\":"
		"[null,\"a\"]}},\"required\":[\"k\"],\"if\":{\"properties\":"
		"{\"k\":{\"const\":null}}},\"then\":{\"required\":[\"a\"]}}",
	};

	SCHEMA_ADD(s, "%s", all[schema_pick(s, 0, (int)(sizeof all /
							 sizeof *all) - 1)]);
}

/* What any schema may be. */
static inline void
schema_value(struct schema_text *s, int depth)
{
	static const char *const plain[] = {
		"true", "{}", "{\"type\":\"boolean\"}", "{\"type\":\"null\"}",
		"{\"type\":[\"string\",\"null\",\"integer\"]}",
	};
	int kind = schema_pick(s, depth > 0 ? 0 : 5, 12), i, n;

	if (kind < 2) {
		schema_object(s, depth);
	} else if (kind == 2) {
		SCHEMA_ADD(s, "{\"type\":\"array\"");
		n = schema_pick(s, 0, 5) - 2;
		for (i = 0; i < n; i++) {
			SCHEMA_ADD(s, i ? "," : ",\"prefixItems\":[");
			schema_value(s, depth - 1);
		}
		SCHEMA_ADD(s, n > 0 ? "],\"items\":" : ",\"items\":");
		if (n > 0 && schema_pick(s, 0, 1)) {
			SCHEMA_ADD(s, "false");
		} else {
			schema_value(s, depth - 1);
		}
		schema_bounds(s, "minItems", "maxItems", 0, 3);
		SCHEMA_ADD(s, "}");
	} else if (kind < 5) {
		SCHEMA_ADD(s, "{\"anyOf\":[");
		n = schema_pick(s, 1, 4);
		for (i = 0; i < n; i++) {
			SCHEMA_ADD(s, i ? "," : "");
			schema_value(s, depth - 1);
		}
		SCHEMA_ADD(s, "]}");
	} else if (kind == 5) {
		SCHEMA_ADD(s, "{\"$ref\":\"#/$defs/%c\"}",
			   "xyz"[schema_pick(s, 0, 2)]);
	} else if (kind < 8) {
		schema_number(s);
	} else if (kind == 8) {
		SCHEMA_ADD(s, "{\"type\":\"string\"");
		schema_bounds(s, "minLength", "maxLength", 0, 6);
		SCHEMA_ADD(s, "}");
	} else if (kind == 9) {
		SCHEMA_ADD(s, "%s", plain[schema_pick(s, 0, 4)]);
	} else if (kind == 10) {
		schema_but(s);
	} else {
		schema_literals(s);
	}
}

/* A schema with three definitions, which may refer to each other. */
static inline void
schema_draw(struct schema_text *s, uint64_t seed)
{
	int i;

	s->at = seed << 32;
	s->n = 0;
	SCHEMA_ADD(s, "{\"$defs\":{");
	for (i = 0; i < 3; i++) {
		SCHEMA_ADD(s, "%s\"%c\":", i ? "," : "", "xyz"[i]);
		schema_value(s, 2);
	}
	SCHEMA_ADD(s, "},\"anyOf\":[");
	schema_value(s, 4);
	SCHEMA_ADD(s, "]}");
}

/* ---- grammars ---- */

/* Reads a schema of n bytes; err has a message if it is refused. */
static inline enum rt_status
schema_read(struct rt_grammar **g, const char *schema, size_t n,
	    struct rt_error *err)
{
	char *copy = malloc(n + 1);
	struct rt_json j = { .text = copy, .len = n, .err = err };
	enum rt_status status = RT_NOMEM;

	*g = NULL;
	if (copy) {
		memcpy(copy, schema, n);
		copy[n] = '\0';
		status = rt_json_check_utf8(&j) ? rt_grammar_of_schema(g, &j)
						: j.status;
		if (status == RT_OK && !rt_json_end(&j, " \t\r\n")) {
			rt_grammar_free(*g);
			*g = NULL;
			status = j.status;
		}
	}
	free(copy);
	return status;
}

/* ---- vocabularies ---- */

static const char *const schema_pieces[] = {
	"\":", "\": ", "\",", "\", \"", "{\"", "{ ", "\"}", "\"]", "[[", "]]",
	"}}", "],", "},", "[]", "{}", "true", "null", "fals", "e,", " {",
	" \"", "\n  ", "\n    ", "  ", "\n\n", "ab", "abc", "a\"", "b\":",
	"name", "\"name", "s\":", "12", "0.", ".5", "-1", "e1", "1e", "00",
	"\\u00", "\\\"", "\\\\", "\\n", "u0", "\xc3\xa9", "\xc3", "\xe2\x82",
	"\xac\"", "\xf0\x9f", "\x98\x80", "\xed\xa0", "\xc0", "\xff", "\"\"",
	"\":{\"", "\":[", "\":\"", "1,", "2]", "3}", "true}", "null]", " ,",
	" }", " ]", ": ", ", ", "aaaaaaaa",
};

enum {
	SCHEMA_PIECES = sizeof schema_pieces / sizeof *schema_pieces,
	SCHEMA_NONE = 256 + SCHEMA_PIECES,	/* a token without bytes */
	SCHEMA_VOCAB,
};

/* As rt_spellings_open() calls it: bytes, and then pieces. */
static inline char *
schema_token(void *user, int64_t token, size_t *n)
{
	const char *s = token >= 256 && token < SCHEMA_NONE
			? schema_pieces[token - 256] : "";
	char *out;

	(void)user;
	*n = token < 256 ? 1 : strlen(s);
	out = malloc(*n + 1);
	if (out && token < 256) {
		out[0] = (char)token;
	} else if (out) {
		memcpy(out, s, *n);
	}
	return out;
}

static inline bool
schema_is_allowed(const uint64_t *bits, int64_t token)
{
	return bits[token / 64] >> token % 64 & 1;
}

#endif
