/*
 * The scanner of the text form: accepts any bytes, and makes tokens in one
 * pass.
 */
#include "ir/text/scan.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

static bool
is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_name_char(char c)
{
	return is_name_start(c) || is_digit(c);
}

struct span
scan_span(const struct scan *s, const struct tok *t)
{
	struct span at = { s->base + t->lo, s->base + t->hi };

	return at;
}

/* Reports an error; the token becomes BAD. */
static void
bad(struct scan *s, const char *fmt, ...)
{
	struct buf b;
	va_list ap;

	s->t.kind = TOK_BAD;
	s->broken = true;
	if (s->quiet) {
		return;
	}
	buf_init(&b, &s->ctx->tmp);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	diag_error(&s->ctx->diags, scan_span(s, &s->t), "%s", buf_text(&b));
}

/* ---- lines ---- */

static void
find_line_end(struct scan *s)
{
	const char *from = s->text + s->at;
	const char *nl = memchr(from, '\n', s->len - s->at);

	s->line_end = nl ? (uint32_t)(nl - s->text) : s->len;
}

void
scan_init(struct scan *s, struct ir_ctx *c, uint32_t file)
{
	const struct source_file *f = &c->sources.files.at[file];

	memset(s, 0, sizeof *s);
	s->ctx = c;
	s->text = f->text;
	s->base = f->base;
	s->len = f->len;
	find_line_end(s);
	scan_next(s);
}

/* Whether the line ends in `{`, by its text: a broken token may contain it. */
static bool
ends_in_brace(const struct scan *s)
{
	uint32_t i = s->line_end;

	while (i > 0 && (s->text[i - 1] == ' ' || s->text[i - 1] == '\r')) {
		i--;
	}
	return i > 0 && s->text[i - 1] == '{';
}

static void
end_of_line(struct scan *s)
{
	s->t.lo = s->t.hi = s->line_end;
	if (s->line_end == s->len) {
		s->at = s->len;
		s->t.kind = TOK_END;
		return;
	}
	s->t.kind = TOK_LINE;
	s->at = s->line_end + 1;
	find_line_end(s);
}

void
scan_to_line_end(struct scan *s)
{
	if (s->t.kind != TOK_LINE && s->t.kind != TOK_END) {
		s->opens = s->broken = false;
		end_of_line(s);
	}
}

/* ---- tokens ---- */

/* The token for a message: shortened, with one `?` per unusual byte. */
static const char *
token_text(struct scan *s)
{
	uint32_t n = s->t.hi - s->t.lo, i;
	char *text = arena_printf(&s->ctx->tmp, "%.*s%s",
				  (int)(n > 40 ? 40 : n),
				  s->text + s->t.lo, n > 40 ? "..." : "");

	for (i = 0; text[i]; i++) {
		if (text[i] < ' ' || text[i] > '~') {
			text[i] = '?';
		}
	}
	return text;
}

static void
scan_name(struct scan *s)
{
	uint32_t i = s->t.lo, n;

	while (i < s->line_end &&
	       (is_name_char(s->text[i]) ||
		(s->text[i] == '.' && i + 1 < s->line_end &&
		 is_name_start(s->text[i + 1])))) {
		s->t.dotted |= s->text[i] == '.';
		i++;
	}
	n = i - s->t.lo;
	s->t.hi = s->at = i;
	s->t.kind = TOK_NAME;
	if (n > SCAN_MAX_NAME) {
		bad(s, "expected a name of at most %d characters, found one "
		    "of %" PRIu32, SCAN_MAX_NAME, n);
		return;
	}
	s->t.text = intern(&s->ctx->syms, s->text + s->t.lo, n);
}

/*
 * Reads all that looks like a number; whether it is one is checked by the
 * parser.
 */
static void
scan_number(struct scan *s)
{
	uint32_t i = s->t.lo;

	while (i < s->line_end &&
	       (is_name_char(s->text[i]) || s->text[i] == '.' ||
		((s->text[i] == '-' || s->text[i] == '+') &&
		 (s->text[i - 1] == 'e' || s->text[i - 1] == 'E')))) {
		i++;
	}
	s->t.hi = s->at = i;
	s->t.kind = TOK_NUMBER;
}

static void
scan_value(struct scan *s)
{
	const char *p = s->text;
	uint32_t i = s->t.lo + 1, digits, hint = i;
	int64_t number = -1;

	while (i < s->line_end && is_name_char(p[i])) {
		i++;
	}
	digits = hint;
	if (i < s->line_end && p[i] == '.' && is_name_start(p[hint])) {
		digits = ++i;
		while (i < s->line_end && is_name_char(p[i])) {
			i++;
		}
	}
	s->t.hi = s->at = i;
	s->t.kind = TOK_VALUE;
	if (!num_parse_int(p + digits, i - digits, &number) ||
	    number > UINT32_MAX) {
		bad(s, "expected a value such as %%x.3 or %%3, with a number "
		    "up to %" PRIu32 ", found `%s`", UINT32_MAX,
		    token_text(s));
		return;
	}
	s->t.number = (uint32_t)number;
	if (digits == hint) {
		return;
	}
	if (digits - 1 - hint > SCAN_MAX_NAME) {
		bad(s, "expected a name of at most %d characters, found one "
		    "of %" PRIu32, SCAN_MAX_NAME, digits - 1 - hint);
		return;
	}
	s->t.text = intern(&s->ctx->syms, p + hint, digits - 1 - hint);
}

static int
hex(char c)
{
	return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
		: c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that the escape at text[*i], a backslash, means, or -1. */
static int
unescape(const struct scan *s, uint32_t *i)
{
	const char *p = s->text + *i;
	uint32_t left = s->line_end - *i;

	*i += 2;
	switch (left > 1 ? p[1] : '\0') {
	case '"':
	case '\\':
		return p[1];
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case 'x':
		if (left > 3 && hex(p[2]) >= 0 && hex(p[3]) >= 0) {
			*i += 2;
			return hex(p[2]) * 16 + hex(p[3]);
		}
		return -1;
	default:
		return -1;
	}
}

static void
bad_escape(struct scan *s, uint32_t at)
{
	s->t.lo = at;
	s->t.hi = at + 2 < s->line_end ? at + 2 : s->line_end;
	s->at = s->line_end;
	bad(s, "expected one of the escapes \\\" \\\\ \\n \\t \\xNN, found "
	    "`%s`", token_text(s));
}

static void
scan_string(struct scan *s)
{
	char out[SCAN_MAX_STRING];
	uint32_t i = s->t.lo + 1, n = 0;

	s->t.kind = TOK_STRING;
	while (i < s->line_end && s->text[i] != '"') {
		uint32_t from = i;
		int c = s->text[i] == '\\' ? unescape(s, &i) : s->text[i++];

		if (c == -1 && s->text[from] == '\\') {
			bad_escape(s, from);
			return;
		}
		if (n == SCAN_MAX_STRING) {
			s->t.hi = s->at = s->line_end;
			bad(s, "expected a string of at most %d bytes, found "
			    "a longer one", SCAN_MAX_STRING);
			return;
		}
		out[n++] = (char)c;
	}
	s->t.hi = s->at = i < s->line_end ? i + 1 : s->line_end;
	if (i >= s->line_end) {
		bad(s, "expected `\"` to end the string, found the end of "
		    "the line");
		return;
	}
	s->t.text = intern(&s->ctx->syms, out, n);
}

static void
scan_sign(struct scan *s, char c)
{
	s->t.hi = s->at = s->t.lo + 1;
	s->t.kind = TOK_SIGN;
	s->t.sign = c;
	if (c <= ' ' || c > '~' || !strchr("=,:;()[]{}<>+-*/.@", c)) {
		bad(s, c > ' ' && c <= '~' ? "expected a name, a number, a "
		    "value or text in quotes, found `%c`"
		    : "expected text, found byte 0x%02x", (unsigned char)c);
	}
}

static void
skip_blanks(struct scan *s)
{
	while (s->at < s->line_end &&
	       (s->text[s->at] == ' ' || s->text[s->at] == '\t' ||
		s->text[s->at] == '\r')) {
		s->at++;
	}
}

void
scan_next(struct scan *s)
{
	bool opens = scan_is(s, '{');
	char c;

	s->last_hi = s->t.hi;
	memset(&s->t, 0, sizeof s->t);
	if (s->line_end - s->at > SCAN_MAX_LINE) {
		s->t.lo = s->t.hi = s->at;
		bad(s, "expected a line of at most %" PRIu32 " bytes, found "
		    "%" PRIu32, SCAN_MAX_LINE, s->line_end - s->at);
		s->at = s->line_end;
		return;
	}
	skip_blanks(s);
	s->t.lo = s->at;
	c = s->at < s->line_end ? s->text[s->at] : '#';
	if (c == '#') {
		s->opens = opens || (s->broken && ends_in_brace(s));
		s->broken = false;
		end_of_line(s);
	} else if (is_name_start(c)) {
		scan_name(s);
	} else if (is_digit(c)) {
		scan_number(s);
	} else if (c == '%') {
		scan_value(s);
	} else if (c == '"') {
		scan_string(s);
	} else {
		scan_sign(s, c);
	}
}

/* ---- skipping ---- */

bool
scan_line_opens(struct scan *s)
{
	bool was_quiet = s->quiet;

	s->quiet = true;
	while (s->t.kind != TOK_LINE && s->t.kind != TOK_END) {
		scan_next(s);
	}
	s->quiet = was_quiet;
	return s->opens;
}

void
scan_past_block(struct scan *s)
{
	uint32_t depth = 1;

	s->quiet = true;
	while (depth > 0 && s->t.kind != TOK_END) {
		scan_next(s);
		depth -= scan_is(s, '}');
		depth += scan_line_opens(s);
	}
	s->quiet = false;
}

/* ---- asking ---- */

bool
scan_is(const struct scan *s, char sign)
{
	return s->t.kind == TOK_SIGN && s->t.sign == sign;
}

bool
scan_is_word(const struct scan *s, const char *word)
{
	return s->t.kind == TOK_NAME &&
	       strcmp(ir_text(s->ctx, s->t.text), word) == 0;
}

const char *
scan_found(struct scan *s)
{
	switch (s->t.kind) {
	case TOK_END:
		return "the end of the file";
	case TOK_LINE:
		return "the end of the line";
	default:
		return arena_printf(&s->ctx->tmp, "`%s`", token_text(s));
	}
}
