/*
 * Diagnostics: records with a span, collected through a phase and printed
 * together as `file:line:col: error: text`, the source line, a caret line, then
 * notes; or the same records as JSON.
 */
#include "ir/base.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ERRORS 50	/* further ones are counted only */
#define WINDOW 96	/* columns of a long line that are printed */
#define LONG_LINE 160

static const struct {
	const char *name;
	bool on;
} warning_info[WARN_COUNT] = {
#define WARN(id, name, on, text) { name, on },
#include "ir/warnings.def"
#undef WARN
};

static const char *const level_name[] = { "error", "warning", "note" };

void
diag_init(struct diags *d, struct arena *a, struct sources *s)
{
	int i;

	memset(d, 0, sizeof *d);
	d->arena = a;
	d->sources = s;
	for (i = 0; i < WARN_COUNT; i++) {
		d->on[i] = warning_info[i].on;
	}
}

static void
record(struct diags *d, struct diag_record r, const char *fmt, va_list ap)
{
	struct buf b;

	buf_init(&b, d->arena);
	buf_vprintf(&b, fmt, ap);
	r.text = buf_text(&b);
	VEC_PUSH(d->arena, &d->records, r);
}

void
diag_error(struct diags *d, struct span at, const char *fmt, ...)
{
	struct diag_record r = { DIAG_ERROR, -1, false, at, NULL };
	va_list ap;

	d->errors++;
	d->muted = d->errors > MAX_ERRORS;
	if (d->muted) {
		d->dropped++;
		return;
	}
	va_start(ap, fmt);
	record(d, r, fmt, ap);
	va_end(ap);
}

void
diag_warn(struct diags *d, enum diag_warning w, struct span at,
	  const char *fmt, ...)
{
	struct diag_record r = { DIAG_WARNING, (int)w, false, at, NULL };
	va_list ap;

	d->muted = !d->on[w];
	if (d->muted) {
		return;
	}
	if (d->fatal[w]) {
		r.level = DIAG_ERROR;
		r.promoted = true;
		d->errors++;
	} else {
		d->warnings++;
	}
	va_start(ap, fmt);
	record(d, r, fmt, ap);
	va_end(ap);
}

void
diag_note(struct diags *d, struct span at, const char *fmt, ...)
{
	struct diag_record r = { DIAG_NOTE, -1, false, at, NULL };
	va_list ap;

	if (d->muted) {
		return;
	}
	va_start(ap, fmt);
	record(d, r, fmt, ap);
	va_end(ap);
}

static int
find_warning(const char *name)
{
	int i;

	for (i = 0; i < WARN_COUNT; i++) {
		if (strcmp(warning_info[i].name, name) == 0) {
			return i;
		}
	}
	return -1;
}

bool
diag_warning_option(struct diags *d, const char *word)
{
	bool fatal = strncmp(word, "error", 5) == 0, value = true;
	int w;

	if (fatal && word[5] == '\0') {
		for (w = 0; w < WARN_COUNT; w++) {
			d->fatal[w] = true;
		}
		return true;
	}
	if (fatal && word[5] == '=') {
		word += 6;
	} else if (strncmp(word, "no-error=", 9) == 0) {
		word += 9;
		fatal = true;
		value = false;
	} else if (strncmp(word, "no-", 3) == 0) {
		word += 3;
		value = false;
	}
	if (strcmp(word, "all") == 0) {
		for (w = 0; w < WARN_COUNT; w++) {
			(fatal ? d->fatal : d->on)[w] = value;
		}
		return true;
	}
	w = find_warning(word);
	if (w < 0) {
		return false;
	}
	(fatal ? d->fatal : d->on)[w] = value;
	if (fatal && value) {
		d->on[w] = true;
	}
	return true;
}

/* ---- text form ---- */

static const char *
paint(const struct diags *d, const char *code)
{
	return d->color ? code : "";
}

/*
 * Adds one character of the source line; bytes that a terminal cannot print
 * become <XX>.  Returns the bytes read, and adds its columns.
 */
static uint32_t
show_char(struct buf *b, const unsigned char *s, uint32_t n, uint32_t *cols)
{
	uint32_t k = 1, i;

	if (s[0] == '\t') {
		buf_putc(b, '\t');
		*cols += 1;
		return 1;
	}
	if (s[0] >= 0xc2 && s[0] <= 0xf4) {
		k = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	}
	for (i = 1; i < k; i++) {
		if (i >= n || (s[i] & 0xc0) != 0x80) {
			k = 1;
		}
	}
	if (s[0] < 0x20 || s[0] == 0x7f || (s[0] >= 0x80 && k == 1)) {
		buf_printf(b, "<%02x>", s[0]);
		*cols += 4;
		return 1;
	}
	buf_add(b, (const char *)s, k);
	/* nearly all characters of three and four bytes have two columns */
	*cols += k >= 3 && s[0] >= 0xe3 ? 2 : 1;
	return k;
}

/* Blanks of the caret line: tabs of the source stay tabs. */
static void
pad(struct buf *b, const char *s, uint32_t bytes, uint32_t cols)
{
	uint32_t i;

	if (memchr(s, '\t', bytes)) {
		for (i = 0; i < bytes; i++) {
			buf_putc(b, s[i] == '\t' ? '\t' : ' ');
		}
		return;
	}
	for (i = 0; i < cols; i++) {
		buf_putc(b, ' ');
	}
}

static void
show_source(const struct diags *d, const struct source_pos *p,
	    struct span at, struct buf *b)
{
	const char *text = p->file->text;
	uint32_t lo = p->line_lo, hi = p->line_hi, i, cols = 0, pad_cols;
	uint32_t from = at.lo - p->file->base, to = at.hi - p->file->base;
	char gutter[16];
	struct buf under;

	if (hi > lo && text[hi - 1] == '\r') {
		hi--;
	}
	to = to > hi ? hi : to;
	if (hi - lo > LONG_LINE) {	/* a window around the caret */
		lo = from > lo + WINDOW / 2 ? from - WINDOW / 2 : lo;
		hi = hi > lo + WINDOW ? lo + WINDOW : hi;
		while (lo < from && (text[lo] & 0xc0) == 0x80) {
			lo++;
		}
		to = to > hi ? hi : to;
	}
	buf_init(&under, d->arena);
	snprintf(gutter, sizeof gutter, "%5u", p->line);
	buf_printf(b, "%s | %s", gutter, lo > p->line_lo ? "..." : "");
	cols = lo > p->line_lo ? 3 : 0;
	for (i = lo; i < from && i < hi;) {
		i += show_char(b, (const unsigned char *)text + i, hi - i,
			       &cols);
	}
	buf_puts(&under, "      | ");
	if (lo > p->line_lo) {
		pad(&under, "...", 3, 3);
		cols -= 3;
	}
	pad(&under, text + lo, i - lo, cols);
	pad_cols = cols = 0;
	while (i < to) {
		i += show_char(b, (const unsigned char *)text + i, hi - i,
			       &cols);
	}
	buf_puts(&under, paint(d, "\033[32m"));
	buf_putc(&under, '^');
	for (pad_cols = 1; pad_cols < cols; pad_cols++) {
		buf_putc(&under, '~');
	}
	buf_puts(&under, paint(d, "\033[0m"));
	while (i < hi) {
		i += show_char(b, (const unsigned char *)text + i, hi - i,
			       &cols);
	}
	buf_puts(b, hi < p->line_hi && text[hi] != '\r' ? "...\n" : "\n");
	buf_printf(b, "%s\n", buf_text(&under));
}

static void
show_record(const struct diags *d, const struct diag_record *r, struct buf *b)
{
	static const char *const code[] = {
		"\033[1;31m", "\033[1;35m", "\033[1;36m"
	};
	struct source_pos p;
	bool known = r->span.lo && source_locate(d->sources, r->span.lo, &p);

	buf_puts(b, paint(d, "\033[1m"));
	if (known) {
		buf_printf(b, "%s:%u:%u: ", p.file->name, p.line, p.col);
	} else {
		buf_puts(b, "llmc: ");
	}
	buf_printf(b, "%s%s:%s %s", paint(d, code[r->level]),
		   level_name[r->level], paint(d, "\033[0m"), r->text);
	if (r->warning >= 0) {
		buf_printf(b, " [-W%s%s]", r->promoted ? "error=" : "",
			   warning_info[r->warning].name);
	}
	buf_putc(b, '\n');
	if (known) {
		show_source(d, &p, r->span, b);
	}
}

/* ---- JSON form ---- */

static void
json_record(const struct diags *d, const struct diag_record *r,
	    struct buf *b)
{
	struct source_pos p, e;

	buf_printf(b, "{\"level\":\"%s\",\"message\":", level_name[r->level]);
	buf_json(b, r->text, strlen(r->text));
	if (r->warning >= 0) {
		buf_printf(b, ",\"option\":\"-W%s%s\"",
			   r->promoted ? "error=" : "",
			   warning_info[r->warning].name);
	}
	if (r->span.lo && source_locate(d->sources, r->span.lo, &p) &&
	    source_locate(d->sources, r->span.hi, &e)) {
		buf_puts(b, ",\"file\":");
		buf_json(b, p.file->name, strlen(p.file->name));
		buf_printf(b, ",\"line\":%u,\"column\":%u,\"end_line\":%u,"
			   "\"end_column\":%u,\"offset\":%u,\"length\":%u",
			   p.line, p.col, e.line, e.col,
			   r->span.lo - p.file->base,
			   r->span.hi - r->span.lo);
	}
}

static void
show_json(const struct diags *d, struct buf *b)
{
	const struct diag_record *r = d->records.at;
	uint32_t i, n = d->records.n;

	buf_puts(b, "[");
	for (i = 0; i < n; i++) {
		bool note = r[i].level == DIAG_NOTE;
		bool more = i + 1 < n && r[i + 1].level == DIAG_NOTE;

		if (!note) {
			buf_puts(b, i ? ",\n " : "\n ");
		}
		json_record(d, &r[i], b);
		if (!note) {
			buf_puts(b, ",\"notes\":[");
		} else {
			buf_puts(b, more ? "}," : "}");
		}
		if (!more) {
			buf_puts(b, "]}");
		}
	}
	buf_puts(b, "\n]\n");
}

void
diag_flush(struct diags *d, FILE *out)
{
	struct buf b;
	uint32_t i;

	if (!d->records.n) {
		return;
	}
	buf_init(&b, d->arena);
	if (d->format == DIAG_JSON) {
		show_json(d, &b);
	} else {
		for (i = 0; i < d->records.n; i++) {
			show_record(d, &d->records.at[i], &b);
		}
		if (d->dropped) {
			buf_printf(&b, "llmc: error: %u more errors are not "
				   "shown\n", d->dropped);
		}
	}
	fwrite(buf_text(&b), 1, b.n, out);
	fflush(out);
	d->records.n = 0;
	d->dropped = 0;
}

/* ---- near misses ---- */

void
diag_near_init(struct diag_near *n, const char *want)
{
	n->want = want;
	n->best = NULL;
	n->best_distance = 2 * (strlen(want) / 3 + 1);
}

static char
small(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The cost of replacing a by b: 2, or 1 if only the case differs. */
static size_t
unlike(char a, char b)
{
	return a == b ? 0 : small(a) == small(b) ? 1 : 2;
}

/* Twice the edit distance with adjacent swaps; none beyond 24 characters. */
static size_t
distance(const char *a, const char *b)
{
	size_t row[3][26], na = strlen(a), nb = strlen(b), i, j;

	if (na > 24 || nb > 24) {
		return SIZE_MAX;
	}
	for (j = 0; j <= nb; j++) {
		row[0][j] = 2 * j;
	}
	for (i = 1; i <= na; i++) {
		size_t *cur = row[i % 3], *up = row[(i + 2) % 3];
		size_t *up2 = row[(i + 1) % 3];

		cur[0] = 2 * i;
		for (j = 1; j <= nb; j++) {
			size_t best = up[j - 1] + unlike(a[i - 1], b[j - 1]);

			best = up[j] + 2 < best ? up[j] + 2 : best;
			best = cur[j - 1] + 2 < best ? cur[j - 1] + 2 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1] && up2[j - 2] + 2 < best) {
				best = up2[j - 2] + 2;
			}
			cur[j] = best;
		}
	}
	return row[na % 3][nb];
}

/* "batch_size" begins with the word "batch". */
static bool
begins_with_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	return strncmp(text, word, n) == 0 && text[n] == '_';
}

void
diag_near_try(struct diag_near *n, const char *candidate)
{
	size_t k = distance(n->want, candidate), length = strlen(n->want);

	if (k >= 2 * length) {
		return;		/* no character is the same: no suggestion */
	}
	if (k && strncmp(candidate, n->want, length) == 0) {
		k--;		/* of two that are as near, the longer word */
	}
	if (k < n->best_distance || (!n->best && k == n->best_distance)) {
		n->best = candidate;
		n->best_distance = k;
	} else if (!n->best && begins_with_word(n->want, candidate)) {
		n->best = candidate;	/* unless another one is near */
	}
}

const char *
diag_near_text(struct diag_near *n, struct arena *a)
{
	return n->best ? arena_printf(a, " (did you mean `%s`?)", n->best)
		       : "";
}
