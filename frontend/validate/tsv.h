/*
 * Tables in text: tabs between cells, the first line names the columns.
 */
#ifndef FRONTEND_TSV_H
#define FRONTEND_TSV_H

#include "ir/base.h"

#define TSV_MAX_CELLS 2000000	/* of a table: about 300 MB */

struct tsv {
	uint32_t ncols, nrows;
	const char **names;	/* of columns */
	VEC(const char *) cells;	/* row by row */
	struct span *spans;	/* by row */
	struct span head;
};

/* ---- tsv.c ------------------------------------------------------------ */

/* False after reporting rows with more or fewer cells than columns. */
bool tsv_read(struct arena *a, struct diags *d, uint32_t file,
	      struct tsv *out);
/* The index of a column, or -1. */
int tsv_column(const struct tsv *t, const char *name);
const char *tsv_cell(const struct tsv *t, uint32_t row, int column);
/*
 * Finds columns by name: where[i] is the i-th of the words.  Reports all that
 * are missing at once; `what`: the kind of file.
 */
bool tsv_columns(const struct tsv *t, struct diags *d, const char *what,
		 const char *const *words, int n, int *where);
/* Whether a cell says nothing: it is empty, or as "-" and "n/a". */
bool tsv_is_blank(const char *cell);
/*
 * Parses a cell as a number; false of blank cells and text.  Digits may be in
 * groups of three with commas between, unless one comma might be a point.
 */
bool tsv_number(const struct tsv *t, uint32_t row, int column, double *out);
/* The same of n characters, which may have one comma if `whole`. */
bool tsv_parse(const char *s, size_t n, bool whole, double *out);
/* Where a cell is in its file. */
struct span tsv_span(const struct tsv *t, const struct sources *s,
		     uint32_t row, int column);

#endif
