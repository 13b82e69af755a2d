/*
 * Whether a text is JSON and a schema holds for it, for tests of grammars: by
 * reading both anew, value by value.  A schema that a test draws is well
 * formed, so what is wrong with it is not looked for.
 */
#ifndef T_VALID_H
#define T_VALID_H

#include <math.h>
#include <regex.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading: each function returns what comes after, or NULL ---- */

static inline const char *
valid_blanks(const char *s)
{
	return s + strspn(s, " \t\r\n");
}

static inline const char *
valid_digits(const char *s)
{
	size_t n = strspn(s, "0123456789");

	return n ? s + n : NULL;
}

static inline const char *
valid_number(const char *s)
{
	s += *s == '-';
	if (*s == '0') {
		s++;
	} else if (!(s = valid_digits(s))) {
		return NULL;
	}
	if (*s == '.' && !(s = valid_digits(s + 1))) {
		return NULL;
	}
	if (*s == 'e' || *s == 'E') {
		s += s[1] == '+' || s[1] == '-' ? 2 : 1;
		s = valid_digits(s);
	}
	return s;
}

/* A character of UTF-8 that is not ASCII; *chars counts it. */
static inline const char *
valid_character(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	int more = *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : 1, i;
	unsigned long c = *p & (0x3fu >> more);

	for (i = 1; i <= more; i++) {
		if ((p[i] & 0xc0) != 0x80) {
			return NULL;
		}
		c = c << 6 | (p[i] & 0x3f);
	}
	if (*p < 0xc2 || *p > 0xf4 || c > 0x10ffff ||
	    (c >= 0xd800 && c < 0xe000) || (more == 2 && c < 0x800) ||
	    (more == 3 && c < 0x10000)) {
		return NULL;
	}
	return s + more + 1;
}

/* What follows a backslash: no half of a pair, which the grammars lack. */
static inline const char *
valid_escape(const char *s)
{
	unsigned long c;
	char hex[5] = "";

	if (*s != 'u') {
		return *s && strchr("\"\\/bfnrt", *s) ? s + 1 : NULL;
	}
	if (strspn(s + 1, "0123456789abcdefABCDEF") < 4) {
		return NULL;
	}
	memcpy(hex, s + 1, 4);
	c = strtoul(hex, NULL, 16);
	return c >= 0xd800 && c < 0xe000 ? NULL : s + 5;
}

static inline const char *
valid_string(const char *s, long *chars)
{
	*chars = 0;
	if (*s++ != '"') {
		return NULL;
	}
	while (s && *s != '"') {
		s = *s == '\\' ? valid_escape(s + 1)
			: *s & 0x80 ? valid_character(s)
			: (unsigned char)*s >= 0x20 ? s + 1 : NULL;
		++*chars;
	}
	return s ? s + 1 : NULL;
}

static inline const char *
valid_json(const char *s)
{
	char close = *s == '{' ? '}' : ']';
	long chars;

	if (*s == '"') {
		return valid_string(s, &chars);
	}
	if (*s != '{' && *s != '[') {
		return strncmp(s, "true", 4) == 0 ||
		       strncmp(s, "null", 4) == 0 ? s + 4
			: strncmp(s, "false", 5) == 0 ? s + 5
			: valid_number(s);
	}
	s = valid_blanks(s + 1);
	if (*s == close) {
		return s + 1;
	}
	for (;;) {
		if (close == '}') {
			s = valid_string(s, &chars);
			s = s ? valid_blanks(s) : NULL;
			if (!s || *s != ':') {
				return NULL;
			}
			s = valid_blanks(s + 1);
		}
		s = valid_json(s);
		s = s ? valid_blanks(s) : NULL;
		if (!s || (*s != ',' && *s != close)) {
			return NULL;
		}
		if (*s == close) {
			return s + 1;
		}
		s = valid_blanks(s + 1);
	}
}

/* ---- parts of values ---- */

/* The first or next item or member of a value; NULL: there is no more.  *value
 * is what it is, and *key its name with quotes. */
static inline const char *
valid_next(const char *s, const char **key, const char **value)
{
	bool object = *s == '{' || *key;
	long chars;

	if (*s == '}' || *s == ']') {
		return NULL;
	}
	s = valid_blanks(s + 1);
	if (*s == '}' || *s == ']') {
		return NULL;
	}
	if (object) {
		*key = s;
		s = valid_blanks(valid_string(s, &chars));
		s = valid_blanks(s + 1);
	}
	*value = s;
	return valid_blanks(valid_json(s));
}

static inline bool
valid_same(const char *a, const char *b)
{
	size_t n = (size_t)(valid_json(a) - a);

	return (size_t)(valid_json(b) - b) == n && memcmp(a, b, n) == 0;
}

/* A member by its name, which has quotes if `quoted'; NULL: none. */
static inline const char *
valid_member(const char *object, const char *name, bool quoted)
{
	const char *key = NULL, *value, *s = object;
	size_t n = strlen(name);

	while (*object == '{' && (s = valid_next(s, &key, &value))) {
		if (quoted ? valid_same(key, name)
			   : strncmp(key + 1, name, n) == 0 &&
			     key[n + 1] == '"') {
			return value;
		}
	}
	return NULL;
}

/* ---- schemas ---- */

/* Definitions of a schema: who refers to more of them without a value between
 * comes back to one, and no value follows from that. */
enum { VALID_REFS = 3 };

static inline bool valid(const char *root, const char *schema, const char *v,
			 int refs);

static inline bool
valid_type(const char *type, const char *v)
{
	static const char *const first[][2] = {
		{ "\"object\"", "{" }, { "\"array\"", "[" },
		{ "\"string\"", "\"" }, { "\"null\"", "n" },
		{ "\"boolean\"", "tf" }, { "\"number\"", "-0123456789" },
		{ "\"integer\"", "-0123456789" },
	};
	const char *key = NULL, *value, *s = type;
	size_t i, n = (size_t)(valid_json(v) - v);

	if (*type == '[') {
		while ((s = valid_next(s, &key, &value))) {
			if (valid_type(value, v)) {
				return true;
			}
		}
		return false;
	}
	for (i = 0; !valid_same(type, first[i][0]); i++) {
	}
	if (i == 6 && (memchr(v, '.', n) || memchr(v, 'e', n) ||
		       memchr(v, 'E', n))) {
		return false;
	}
	return strchr(first[i][1], *v);
}

/* How many schemas of a list hold. */
static inline int
valid_count(const char *root, const char *list, const char *v, int refs)
{
	const char *key = NULL, *schema, *s = list;
	int n = 0;

	while ((s = valid_next(s, &key, &schema))) {
		n += valid(root, schema, v, refs);
	}
	return n;
}

static inline double
valid_limit(const char *schema, const char *name, double otherwise)
{
	const char *v = valid_member(schema, name, false);

	return v ? strtod(v, NULL) : otherwise;
}

static inline bool
valid_scalar(const char *schema, const char *v)
{
	double x = strtod(v, NULL);
	long n;

	if (*v == '"') {
		valid_string(v, &n);
		return (double)n >= valid_limit(schema, "minLength", 0) &&
		       (double)n <= valid_limit(schema, "maxLength", 1e9);
	}
	if (*v != '-' && (*v < '0' || *v > '9')) {
		return true;
	}
	if (valid_member(schema, "multipleOf", false) &&
	    fmod(x, valid_limit(schema, "multipleOf", 1)) != 0) {
		return false;
	}
	return x >= valid_limit(schema, "minimum", x) &&
	       x <= valid_limit(schema, "maximum", x) &&
	       x > valid_limit(schema, "exclusiveMinimum", x - 1 - x * x) &&
	       x < valid_limit(schema, "exclusiveMaximum", x + 1 + x * x);
}

/* The schema of a name, which has quotes, by a pattern that the C library reads
 * as the grammars do; NULL: no pattern has it. */
static inline const char *
valid_by_pattern(const char *patterns, const char *name)
{
	const char *key = NULL, *of, *s = patterns;
	char text[2][256];
	bool found;
	regex_t re;

	while (s && (s = valid_next(s, &key, &of))) {
		size_t n[2] = { (size_t)(valid_json(key) - key) - 2,
				(size_t)(valid_json(name) - name) - 2 };

		if (n[0] > 255 || n[1] > 255) {
			continue;
		}
		memcpy(text[0], key + 1, n[0]);
		memcpy(text[1], name + 1, n[1]);
		text[0][n[0]] = text[1][n[1]] = '\0';
		found = regcomp(&re, text[0], REG_EXTENDED | REG_NOSUB) == 0 &&
			regexec(&re, text[1], 0, NULL, 0) == 0;
		regfree(&re);
		if (found) {
			return of;
		}
	}
	return NULL;
}

static inline bool
valid_object(const char *root, const char *schema, const char *v)
{
	const char *properties = valid_member(schema, "properties", false);
	const char *required = valid_member(schema, "required", false);
	const char *more = valid_member(schema, "additionalProperties", false);
	const char *by = valid_member(schema, "patternProperties", false);
	const char *key = NULL, *value, *s = v, *of, *also;

	while ((s = valid_next(s, &key, &value))) {
		of = properties ? valid_member(properties, key, true) : NULL;
		also = valid_by_pattern(by, key);
		of = of ? of : also ? also : more;
		if ((of && !valid(root, of, value, 0)) ||
		    (also && !valid(root, also, value, 0))) {
			return false;
		}
	}
	for (s = required, key = NULL;
	     s && (s = valid_next(s, &key, &value));) {
		if (!valid_member(v, value, true)) {
			return false;
		}
	}
	return true;
}

static inline bool
valid_array(const char *root, const char *schema, const char *v)
{
	const char *items = valid_member(schema, "items", false), *of;
	const char *first = valid_member(schema, "prefixItems", false);
	const char *key = NULL, *value, *s = v;
	int n = 0;

	while ((s = valid_next(s, &key, &value))) {
		n++;
		if (first) {
			first = valid_next(first, &key, &of);
		}
		of = first ? of : items;
		if (of && !valid(root, of, value, 0)) {
			return false;
		}
	}
	return n >= valid_limit(schema, "minItems", 0) &&
	       n <= valid_limit(schema, "maxItems", 1e9);
}

/* What "#/$defs/NAME" leads to, or "#". */
static inline const char *
valid_ref(const char *root, const char *ref)
{
	char name[32] = "";
	const char *at = strrchr(ref, '/');

	if (ref[2] == '"') {
		return root;
	}
	at = at ? at + 1 : ref;
	memcpy(name, at, strcspn(at, "\""));
	return valid_member(valid_member(root, "$defs", false), name, false);
}

/* Whether a value is one of those of a schema in `not', of which it has a type,
 * values or both; numbers are equal however they are written. */
static inline bool
valid_out(const char *not, const char *v)
{
	const char *type = valid_member(not, "type", false);
	const char *s = valid_member(not, "enum", false), *key = NULL;
	const char *value = valid_member(not, "const", false);
	bool number = *v == '-' || (*v >= '0' && *v <= '9');
	bool found = !s && (!value || valid_same(value, v));

	while (s && (s = valid_next(s, &key, &value))) {
		found = found || valid_same(value, v) ||
			(number && strchr("-0123456789", *value) &&
			 strtod(value, NULL) == strtod(v, NULL));
	}
	return found && (!type || valid_type(type, v));
}

static inline bool
valid(const char *root, const char *schema, const char *v, int refs)
{
	const char *at, *key = NULL, *value;
	bool found = false;

	if (*schema != '{') {
		return *schema == 't';
	}
	if ((at = valid_member(schema, "not", false)) && valid_out(at, v)) {
		return false;
	}
	if ((at = valid_member(schema, "type", false)) && !valid_type(at, v)) {
		return false;
	}
	if ((at = valid_member(schema, "if", false))) {
		at = valid_member(schema, valid(root, at, v, 0) ? "then"
				  : "else", false);
		if (at && !valid(root, at, v, 0)) {
			return false;
		}
	}
	if ((at = valid_member(schema, "const", false)) &&
	    !valid_same(at, v)) {
		return false;
	}
	if ((at = valid_member(schema, "enum", false))) {
		while ((at = valid_next(at, &key, &value))) {
			found = found || valid_same(value, v);
		}
		return found;
	}
	if ((at = valid_member(schema, "$ref", false))) {
		char ref[64] = "";

		memcpy(ref, at, (size_t)(valid_json(at) - at));
		return refs < VALID_REFS &&
		       valid(root, valid_ref(root, ref), v, refs + 1);
	}
	if ((at = valid_member(schema, "anyOf", false))) {
		return valid_count(root, at, v, refs) > 0;
	}
	if ((at = valid_member(schema, "oneOf", false))) {
		return valid_count(root, at, v, refs) == 1;
	}
	return *v == '{' ? valid_object(root, schema, v)
		: *v == '[' ? valid_array(root, schema, v)
		: valid_scalar(schema, v);
}

/* Whether all of a text, but for blanks around, is such a value. */
static inline bool
valid_text(const char *schema, const char *text)
{
	const char *s = valid_blanks(text), *end = valid_json(s);

	return end && !*valid_blanks(end) && valid(schema, schema, s, 0);
}

#endif
