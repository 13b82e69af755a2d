/*
 * Tables of tab-separated cells.  Columns are found by name, so that files may
 * have them in any order, and further ones.
 */
#include "frontend/validate/tsv.h"

#include <ctype.h>
#include <string.h>

/* Blanks around a cell, among them U+00A0, which copies of web pages have. */
static size_t
blank(const char *s, size_t n)
{
	return n > 0 && (*s == ' ' || *s == '\v' || *s == '\f') ? 1
		: n > 1 && memcmp(s, "\xc2\xa0", 2) == 0 ? 2 : 0;
}

static size_t
blank_at_end(const char *s, size_t n)
{
	return n > 1 && s[n - 1] == '\xa0' && blank(s + n - 2, 2) == 2 ? 2
		: n > 0 ? blank(s + n - 1, 1) : 0;
}

/*
 * A cell without blanks around it and without the quotes of a spreadsheet,
 * which stand around it and twice in it.
 */
static const char *
bare_cell(struct arena *a, const char *s, size_t n)
{
	char *out, *to;
	size_t i, k;

	while ((k = blank(s, n)) > 0) {
		s += k;
		n -= k;
	}
	while ((k = blank_at_end(s, n)) > 0) {
		n -= k;
	}
	if (n < 2 || s[0] != '"' || s[n - 1] != '"') {
		return arena_strndup(a, s, n);
	}
	to = out = arena_strndup(a, s + 1, n - 2);
	for (i = 1; i < n - 1; i++) {
		*to++ = s[i];
		i += s[i] == '"' && i + 2 < n && s[i + 1] == '"';
	}
	*to = '\0';
	return out;
}

/*
 * Splits s[0..n) at tabs and appends the first `max` cells; returns how many
 * there are.
 */
static uint32_t
cut(struct arena *a, const char *s, size_t n, struct tsv *t, uint32_t max)
{
	uint32_t count = 0;

	for (;;) {
		const char *tab = memchr(s, '\t', n);
		size_t k = tab ? (size_t)(tab - s) : n;

		if (count++ < max) {
			VEC_PUSH(a, &t->cells, bare_cell(a, s, k));
		}
		if (!tab) {
			return count;
		}
		s += k + 1;
		n -= k + 1;
	}
}

/* A line ends at a line feed, a carriage return, or both: between these two is
 * an empty line, as which it is left out. */
static size_t
line_length(const char *p, const char *end)
{
	const char *at = p;

	while (at < end && *at != '\n' && *at != '\r') {
		at++;
	}
	return (size_t)(at - p);
}

/* Whether a line has nothing but blanks and tabs, as spreadsheets end with. */
static bool
is_empty(const char *s, size_t n)
{
	size_t k = 1;

	while (n > 0 && k > 0) {
		k = *s == '\t' ? 1 : blank(s, n);
		s += k;
		n -= k;
	}
	return n == 0;
}

static uint32_t
count_lines(const char *p, const char *end)
{
	uint32_t n = 0;

	while (p < end) {
		size_t k = line_length(p, end);

		n += !is_empty(p, k);
		p += k + 1;
	}
	return n;
}

static bool
read_row(struct arena *a, struct diags *d, const char *p, size_t n,
	 struct span at, struct tsv *t)
{
	uint32_t before = t->cells.n, got = cut(a, p, n, t, t->ncols);

	t->spans[t->nrows] = at;
	if (got == t->ncols && !memchr(p, '\0', n)) {
		t->nrows++;
		return true;
	}
	t->cells.n = before;
	if (got == t->ncols) {
		diag_error(d, at, "this row has a zero byte");
	} else {
		diag_error(d, at, "this row has %u cells, and there are %u "
			   "columns", got, t->ncols);
	}
	return false;
}

/* The first line, which names the columns. */
static bool
read_head(struct arena *a, struct diags *d, const char *p, size_t n,
	  struct span at, struct tsv *t)
{
	t->ncols = cut(a, p, n, t, TSV_MAX_CELLS);
	t->names = arena_dup(a, t->cells.at, t->cells.n * sizeof *t->names);
	t->cells.n = 0;
	t->head = at;
	if (t->ncols == 1 && (memchr(p, ',', n) || memchr(p, ';', n))) {
		diag_error(d, at, "this line has no tab, and tabs are to "
			   "separate the names of columns, and cells");
		return false;
	}
	return true;
}

/* Text begins after a byte order mark, if there is one; NULL: no UTF-8. */
static const char *
text_start(const char *p, const char *end)
{
	if (end - p >= 2 && (memcmp(p, "\xff\xfe", 2) == 0 ||
			     memcmp(p, "\xfe\xff", 2) == 0)) {
		return NULL;
	}
	return end - p >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? p + 3 : p;
}

bool
tsv_read(struct arena *a, struct diags *d, uint32_t file, struct tsv *t)
{
	const struct source_file *f = &d->sources->files.at[file];
	const char *end = f->text + f->len, *p = text_start(f->text, end);
	struct span at = { f->base, f->base };
	uint32_t lines = p ? count_lines(p, end) : 0, errors = d->errors;

	memset(t, 0, sizeof *t);
	if (lines == 0) {
		diag_error(d, at, p ? "this file is empty, and its first line "
			   "is to name columns"
			   : "this file is in UTF-16, and is to be in UTF-8");
		return false;
	}
	t->spans = arena_alloc(a, lines * sizeof *t->spans);
	for (; p < end && d->errors - errors < 20; p++) {
		size_t n = line_length(p, end);

		at.lo = f->base + (uint32_t)(p - f->text);
		at.hi = at.lo + (uint32_t)n;
		if (is_empty(p, n)) {
			p += n;
			continue;
		}
		if (t->ncols > 0) {
			read_row(a, d, p, n, at, t);
		} else if (!read_head(a, d, p, n, at, t)) {
			return false;
		}
		if (t->ncols > TSV_MAX_CELLS ||
		    t->cells.n > TSV_MAX_CELLS) {
			diag_error(d, at, "with this row the table has more "
				   "than %d cells", TSV_MAX_CELLS);
			break;
		}
		p += n;
	}
	return d->errors == errors;
}

/* Names of columns differ neither by case nor by what is between words. */
static int
name_char(char c)
{
	return c == ' ' || c == '-' ? '_' : tolower((unsigned char)c);
}

static bool
same_name(const char *a, const char *b)
{
	while (*a && name_char(*a) == name_char(*b)) {
		a++;
		b++;
	}
	return *a == *b;
}

int
tsv_column(const struct tsv *t, const char *name)
{
	uint32_t i;

	for (i = 0; i < t->ncols; i++) {
		if (same_name(t->names[i], name)) {
			return (int)i;
		}
	}
	return -1;
}

const char *
tsv_cell(const struct tsv *t, uint32_t row, int column)
{
	return t->cells.at[(size_t)row * t->ncols + (size_t)column];
}

static bool
is_twice(const struct tsv *t, int column)
{
	uint32_t i = (uint32_t)column + 1;

	while (i < t->ncols && !same_name(t->names[i], t->names[column])) {
		i++;
	}
	return i < t->ncols;
}

bool
tsv_columns(const struct tsv *t, struct diags *d, const char *what,
	    const char *const *words, int n, int *where)
{
	struct buf missing;
	int i, count = 0;

	buf_init(&missing, d->arena);
	for (i = 0; i < n; i++) {
		where[i] = tsv_column(t, words[i]);
		if (where[i] >= 0 && is_twice(t, where[i])) {
			diag_error(d, t->head, "two columns are called `%s`",
				   words[i]);
			return false;
		}
		if (where[i] < 0) {
			buf_printf(&missing, "%s`%s`", count++ ? ", " : "",
				   words[i]);
		}
	}
	if (count) {
		diag_error(d, t->head, "a file of %s also has the column%s %s",
			   what, count == 1 ? "" : "s", buf_text(&missing));
	}
	return count == 0;
}

bool
tsv_is_blank(const char *cell)
{
	static const char *const words[] = {
		"", "-", "--", "\xe2\x80\x93", "\xe2\x80\x94", "n/a", "na",
		"nan", "none", "null"
	};
	size_t i;

	for (i = 0; i < sizeof words / sizeof *words; i++) {
		if (same_name(cell, words[i])) {
			return true;
		}
	}
	return false;
}

/*
 * Copies s[0..n) without commas; false unless each stands before three digits,
 * and after others.  *commas counts them.
 */
static bool
drop_commas(const char *s, size_t n, char *out, int *commas)
{
	size_t i, group = 0, to = 0;

	*commas = 0;
	for (i = 0; i < n && (s[i] == ',' || (s[i] >= '0' && s[i] <= '9'));
	     i++) {
		if (s[i] != ',') {
			out[to++] = s[i];
			group++;
			continue;
		}
		if (group == 0 || group > 3 || (*commas > 0 && group != 3)) {
			return false;
		}
		++*commas;
		group = 0;
	}
	memcpy(out + to, s + i, n - i);
	out[to + n - i] = '\0';
	return group == 3;
}

bool
tsv_parse(const char *s, size_t n, bool whole, double *out)
{
	char bare[64];
	int commas;

	if (n >= sizeof bare || !memchr(s, ',', n)) {
		return num_parse_double(s, n, out);
	}
	return drop_commas(s, n, bare, &commas) &&
	       (whole || commas > 1 || strchr(bare, '.')) &&
	       num_parse_double(bare, strlen(bare), out);
}

bool
tsv_number(const struct tsv *t, uint32_t row, int column, double *out)
{
	const char *cell = tsv_cell(t, row, column);

	return tsv_parse(cell, strlen(cell), false, out);
}

struct span
tsv_span(const struct tsv *t, const struct sources *s, uint32_t row,
	 int column)
{
	struct span at = t->spans[row];
	uint32_t i = 0;

	while (i + 1 < s->files.n && s->files.at[i + 1].base <= at.lo) {
		i++;
	}
	for (; column > 0; column--) {
		const char *p = s->files.at[i].text + (at.lo -
						       s->files.at[i].base);

		at.lo += (uint32_t)strcspn(p, "\t") + 1;
	}
	at.hi = at.lo + (uint32_t)strcspn(s->files.at[i].text + (at.lo -
					  s->files.at[i].base), "\t\r\n");
	return at;
}
