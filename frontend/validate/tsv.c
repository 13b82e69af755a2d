/*
 * Tables of tab-separated cells.  Columns are found by name, so that files may
 * have them in any order, and further ones.
 */
#include "frontend/validate/tsv.h"

#include <string.h>

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
			VEC_PUSH(a, &t->cells, arena_strndup(a, s, k));
		}
		if (!tab) {
			return count;
		}
		s += k + 1;
		n -= k + 1;
	}
}

static size_t
line_length(const char *p, const char *end)
{
	const char *nl = memchr(p, '\n', (size_t)(end - p));

	return nl ? (size_t)(nl - p) : (size_t)(end - p);
}

static size_t
without_return(const char *p, size_t n)
{
	return n > 0 && p[n - 1] == '\r' ? n - 1 : n;
}

static uint32_t
count_lines(const char *p, const char *end)
{
	uint32_t n = 0;

	while (p < end) {
		size_t k = line_length(p, end);

		n += without_return(p, k) > 0;
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
	if (got == t->ncols) {
		t->nrows++;
		return true;
	}
	t->cells.n = before;
	diag_error(d, at, "this row has %u cells, and there are %u columns",
		   got, t->ncols);
	return false;
}

bool
tsv_read(struct arena *a, struct diags *d, uint32_t file, struct tsv *t)
{
	const struct source_file *f = &d->sources->files.at[file];
	const char *p = f->text, *end = p + f->len;
	uint32_t lines = count_lines(p, end), errors = d->errors;
	bool first = true;

	memset(t, 0, sizeof *t);
	if (lines == 0) {
		diag_error(d, (struct span){ f->base, f->base },
			   "this file is empty, and its first line is to "
			   "name columns");
		return false;
	}
	while (p < end && d->errors - errors < 20) {
		size_t k = line_length(p, end), n = without_return(p, k);
		struct span at = { f->base + (uint32_t)(p - f->text), 0 };

		at.hi = at.lo + (uint32_t)n;
		if (n == 0) {
			p += k + 1;
			continue;
		}
		if (first) {
			t->ncols = cut(a, p, n, t, TSV_MAX_CELLS);
			t->names = arena_dup(a, t->cells.at, t->cells.n *
					     sizeof *t->names);
			t->cells.n = 0;
			t->spans = arena_alloc(a, lines * sizeof *t->spans);
			t->head = at;
			first = false;
		} else {
			read_row(a, d, p, n, at, t);
		}
		if (t->ncols > TSV_MAX_CELLS ||
		    t->cells.n > TSV_MAX_CELLS) {
			diag_error(d, at, "with this row the table has more "
				   "than %d cells", TSV_MAX_CELLS);
			break;
		}
		p += k + 1;
	}
	return d->errors == errors;
}

int
tsv_column(const struct tsv *t, const char *name)
{
	uint32_t i;

	for (i = 0; i < t->ncols; i++) {
		if (strcmp(t->names[i], name) == 0) {
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

	while (i < t->ncols && strcmp(t->names[i], t->names[column]) != 0) {
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
tsv_number(const struct tsv *t, uint32_t row, int column, double *out)
{
	const char *cell = tsv_cell(t, row, column);

	return num_parse_double(cell, strlen(cell), out);
}
