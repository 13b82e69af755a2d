/*
 * The JSON reader of json.h.
 */
#include "runtime/json.h"

#include <inttypes.h>
#include <string.h>

enum {
	SKIP_DEPTH = 64, /* one bit of a uint64_t per level */
};

/* Writes a code point at p; returns the place after it. */
static char *
utf8_put(char *p, uint32_t c)
{
	if (c < 0x80) {
		*p++ = (char)c;
		return p;
	}
	if (c < 0x800) {
		*p++ = (char)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*p++ = (char)(0xe0 | c >> 12);
		} else {
			*p++ = (char)(0xf0 | c >> 18);
			*p++ = (char)(0x80 | (c >> 12 & 0x3f));
		}
		*p++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*p++ = (char)(0x80 | (c & 0x3f));
	return p;
}

bool
rt_json_fail(struct rt_json *j, enum rt_status status, const char *at,
	     const char *fmt, ...)
{
	struct rt_where where = { j->path, j->tensor, -1 };
	va_list ap;

	if (j->status != RT_OK) {
		return false;
	}
	if (at) {
		where.offset = j->base + (int64_t)(at - j->text);
	}
	j->status = status;
	va_start(ap, fmt);
	rt_vfail(j->err, status, where, fmt, ap);
	va_end(ap);
	return false;
}

/* ---- tokens -------------------------------------------------------- */

bool
rt_json_check_utf8(struct rt_json *j)
{
	const unsigned char *s = (const unsigned char *)j->text;
	size_t at = 0, len;

	while (at < j->len) {
		len = rt_utf8_len(s + at, j->len - at);
		if (len == 0) {
			return rt_json_fail(
				j, RT_FORMAT, j->text + at,
				"found byte 0x%02x, which does not begin a "
				"UTF-8 character, expected UTF-8 text",
				s[at]);
		}
		at += len;
	}
	return true;
}

/* Fails, naming what is found at the current place. */
static bool
fail_unexpected(struct rt_json *j, const char *expected)
{
	const char *at = j->text + j->at;
	unsigned char c;

	if (j->at >= j->len) {
		return rt_json_fail(j, RT_FORMAT, at,
				    "found the end of the text, expected %s",
				    expected);
	}
	c = (unsigned char)*at;
	if (c > 0x20 && c < 0x7f) {
		return rt_json_fail(j, RT_FORMAT, at, "found '%c', expected %s",
				    c, expected);
	}
	return rt_json_fail(j, RT_FORMAT, at, "found byte 0x%02x, expected %s",
			    c, expected);
}

/* The current byte, or -1 at the end. */
static int
peek_byte(const struct rt_json *j)
{
	return j->at < j->len ? (unsigned char)j->text[j->at] : -1;
}

static void
skip_space(struct rt_json *j)
{
	int c = peek_byte(j);

	while (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
		j->at++;
		c = peek_byte(j);
	}
}

/* Consumes one punctuation mark. */
static bool
take_mark(struct rt_json *j, char c)
{
	char expected[] = "'?'";

	if (j->status != RT_OK) {
		return false;
	}
	skip_space(j);
	if (peek_byte(j) != c) {
		expected[1] = c;
		return fail_unexpected(j, expected);
	}
	j->at++;
	return true;
}

static bool
is_digit(int c)
{
	return c >= '0' && c <= '9';
}

/* Four hexadecimal digits. */
static bool
hex4(struct rt_json *j, uint32_t *out)
{
	uint32_t v = 0;
	int i, c;

	for (i = 0; i < 4; i++) {
		c = peek_byte(j);
		if (is_digit(c)) {
			c -= '0';
		} else if (c >= 'a' && c <= 'f') {
			c -= 'a' - 10;
		} else if (c >= 'A' && c <= 'F') {
			c -= 'A' - 10;
		} else {
			return fail_unexpected(j, "four hex digits after \\u");
		}
		v = v << 4 | (uint32_t)c;
		j->at++;
	}
	*out = v;
	return true;
}

/* What follows "\u": one UTF-16 unit, or two that form a pair. */
static bool
unicode_escape(struct rt_json *j, char **dst)
{
	const char *start = j->text + j->at - 2;
	uint32_t c, low;

	if (!hex4(j, &c)) {
		return false;
	}
	if (c == 0 && !j->allows_nul) {
		return rt_json_fail(
			j, RT_FORMAT, start,
			"found \\u0000, expected a string without NUL");
	}
	if (c >= 0xdc00 && c <= 0xdfff) {
		return rt_json_fail(j, RT_FORMAT, start,
				    "found low surrogate \\u%04" PRIx32
				    ", expected a high one before it",
				    c);
	}
	if (c >= 0xd800 && c <= 0xdbff) {
		if (j->len - j->at < 2 || j->text[j->at] != '\\' ||
		    j->text[j->at + 1] != 'u') {
			return rt_json_fail(j, RT_FORMAT, start,
					    "found high surrogate \\u%04" PRIx32
					    ", expected a low one after it",
					    c);
		}
		j->at += 2;
		if (!hex4(j, &low)) {
			return false;
		}
		if (low < 0xdc00 || low > 0xdfff) {
			return rt_json_fail(
				j, RT_FORMAT, start,
				"found \\u%04" PRIx32 " after high surrogate "
				"\\u%04" PRIx32 ", expected \\udc00 to "
				"\\udfff",
				low, c);
		}
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	*dst = utf8_put(*dst, c);
	return true;
}

/* What follows a backslash. */
static bool
escape(struct rt_json *j, char **dst)
{
	static const char from[] = "\"\\/bfnrt";
	static const char to[] = "\"\\/\b\f\n\r\t";
	int c = peek_byte(j);
	const char *hit;

	if (c == 'u') {
		j->at++;
		return unicode_escape(j, dst);
	}
	hit = c > 0 ? strchr(from, c) : NULL;
	if (!hit) {
		return fail_unexpected(
			j, "one of \" \\ / b f n r t u after a backslash");
	}
	j->at++;
	*(*dst)++ = to[hit - from];
	return true;
}

/* A string; *end: where it ends, decoded. */
static bool
read_string(struct rt_json *j, const char **out, char **end)
{
	char *dst;
	int c;

	if (j->status != RT_OK) {
		return false;
	}
	skip_space(j);
	if (peek_byte(j) != '"') {
		return fail_unexpected(j, "a string in double quotes");
	}
	j->at++;
	dst = j->text + j->at;
	*out = dst;
	for (;;) {
		c = peek_byte(j);
		if (c < 0) {
			return fail_unexpected(j,
					       "'\"' at the end of the string");
		}
		if (c < 0x20) {
			return fail_unexpected(
				j, "control characters written as \\u00xx");
		}
		j->at++;
		if (c == '"') {
			break;
		}
		if (c != '\\') {
			*dst++ = (char)c;
		} else if (!escape(j, &dst)) {
			return false;
		}
	}
	*dst = '\0';
	*end = dst;
	return true;
}

bool
rt_json_string(struct rt_json *j, const char **out)
{
	char *end;

	return read_string(j, out, &end);
}

bool
rt_json_any_text(struct rt_json *j, const char **out, size_t *n)
{
	char *end;
	bool ok;

	j->allows_nul = true;
	ok = read_string(j, out, &end);
	j->allows_nul = false;
	*n = ok ? (size_t)(end - *out) : 0;
	return ok;
}

bool
rt_json_key(struct rt_json *j, const char **out)
{
	return rt_json_string(j, out) && take_mark(j, ':');
}

/* Digits without sign or leading zero. */
static bool
digits(struct rt_json *j, int64_t *out)
{
	const char *start;
	int64_t v = 0;
	int c;

	if (j->status != RT_OK) {
		return false;
	}
	skip_space(j);
	start = j->text + j->at;
	if (!is_digit(peek_byte(j))) {
		return fail_unexpected(j, "an integer of 0 or more");
	}
	while (is_digit(c = peek_byte(j))) {
		c -= '0';
		if (v > (INT64_MAX - c) / 10) {
			return rt_json_fail(j, RT_FORMAT, start,
					    "found an integer past %" PRId64
					    ", expected one of at most that",
					    INT64_MAX);
		}
		v = v * 10 + c;
		j->at++;
	}
	if (*start == '0' && j->text + j->at - start > 1) {
		return rt_json_fail(j, RT_FORMAT, start,
				    "found a leading zero, expected an integer "
				    "without one");
	}
	*out = v;
	return true;
}

bool
rt_json_int(struct rt_json *j, int64_t *out)
{
	int c;

	if (!digits(j, out)) {
		return false;
	}
	c = peek_byte(j);
	if (c == '.' || c == 'e' || c == 'E') {
		return fail_unexpected(j, "an integer without fraction or "
				       "exponent");
	}
	return true;
}

bool
rt_json_whole(struct rt_json *j, int64_t *out)
{
	if (!digits(j, out)) {
		return false;
	}
	if (peek_byte(j) != '.') {
		return true;
	}
	j->at++;
	do {
		if (peek_byte(j) != '0') {
			return fail_unexpected(j, "a fraction of zeros only");
		}
		j->at++;
	} while (is_digit(peek_byte(j)));
	return true;
}

bool
rt_json_open(struct rt_json *j, char bracket)
{
	return take_mark(j, bracket);
}

bool
rt_json_more(struct rt_json *j, char bracket, size_t *i)
{
	char expected[] = "',' or '?'";

	if (j->status != RT_OK) {
		return false;
	}
	skip_space(j);
	if (peek_byte(j) == bracket) {
		j->at++;
		return false;
	}
	if (*i > 0) {
		if (peek_byte(j) != ',') {
			expected[sizeof(expected) - 3] = bracket;
			return fail_unexpected(j, expected);
		}
		j->at++;
	}
	(*i)++;
	return true;
}

bool
rt_json_end(struct rt_json *j, const char *allowed)
{
	if (j->status != RT_OK) {
		return false;
	}
	while (j->at < j->len) {
		if (peek_byte(j) == 0 || !strchr(allowed, peek_byte(j))) {
			return fail_unexpected(j,
					       "only spaces after the closing "
					     "'}'");
		}
		j->at++;
	}
	return true;
}

/* Consumes a word if it comes next. */
static bool
take_word(struct rt_json *j, const char *word)
{
	size_t n = strlen(word);

	if (j->status != RT_OK) {
		return false;
	}
	skip_space(j);
	if (j->len - j->at < n || memcmp(j->text + j->at, word, n) != 0) {
		return false;
	}
	j->at += n;
	return true;
}

bool
rt_json_bool(struct rt_json *j, bool *out)
{
	*out = take_word(j, "true");
	if (*out || take_word(j, "false")) {
		return true;
	}
	return j->status == RT_OK && fail_unexpected(j, "true or false");
}

bool
rt_json_null(struct rt_json *j)
{
	return take_word(j, "null");
}

/* ---- values that are skipped --------------------------------------- */

static bool
skip_digits(struct rt_json *j)
{
	if (!is_digit(peek_byte(j))) {
		return fail_unexpected(j, "a digit");
	}
	while (is_digit(peek_byte(j))) {
		j->at++;
	}
	return true;
}

static bool
skip_number(struct rt_json *j)
{
	if (peek_byte(j) == '-') {
		j->at++;
	}
	if (peek_byte(j) == '0') {
		j->at++;
	} else if (!skip_digits(j)) {
		return false;
	}
	if (peek_byte(j) == '.') {
		j->at++;
		if (!skip_digits(j)) {
			return false;
		}
	}
	if (peek_byte(j) == 'e' || peek_byte(j) == 'E') {
		j->at++;
		if (peek_byte(j) == '+' || peek_byte(j) == '-') {
			j->at++;
		}
		return skip_digits(j);
	}
	return true;
}

/* A string, number, true, false or null. */
static bool
skip_scalar(struct rt_json *j)
{
	const char *ignored;
	int c = peek_byte(j);
	size_t n;

	if (c == '"') {
		return rt_json_any_text(j, &ignored, &n);
	}
	if (c == '-' || is_digit(c)) {
		return skip_number(j);
	}
	return take_word(j, "true") || take_word(j, "false") ||
	       take_word(j, "null") || fail_unexpected(j, "a value");
}

int
rt_json_peek(struct rt_json *j)
{
	skip_space(j);
	return peek_byte(j);
}

bool
rt_json_word(struct rt_json *j, const char **out, size_t *n)
{
	if (j->status != RT_OK) {
		return false;
	}
	if (rt_json_peek(j) == '"') {
		return fail_unexpected(j, "a number, true, false or null");
	}
	*out = j->text + j->at;
	if (!skip_scalar(j)) {
		return false;
	}
	*n = (size_t)(j->text + j->at - *out);
	return true;
}

bool
rt_json_skip(struct rt_json *j)
{
	uint64_t objects = 0; /* bit d: level d is an object */
	int depth = 0;
	size_t i = 0; /* elements seen at this level */
	const char *ignored;
	bool object;

	if (j->status != RT_OK) {
		return false;
	}
	for (;;) {
		skip_space(j);
		if (peek_byte(j) == '{' || peek_byte(j) == '[') {
			if (depth == SKIP_DEPTH) {
				return rt_json_fail(
					j, RT_FORMAT, j->text + j->at,
					"found more than %d nested values, "
					"expected fewer",
					SKIP_DEPTH);
			}
			objects = objects << 1 | (peek_byte(j) == '{');
			depth++;
			j->at++;
			i = 0;
		} else if (!skip_scalar(j)) {
			return false;
		}
		object = objects & 1;
		while (depth > 0 && !rt_json_more(j, object ? '}' : ']', &i)) {
			if (j->status != RT_OK) {
				return false;
			}
			objects >>= 1;
			object = objects & 1;
			depth--;
			i = 1;
		}
		if (depth == 0) {
			return true;
		}
		if (object && !rt_json_key(j, &ignored)) {
			return false;
		}
	}
}
