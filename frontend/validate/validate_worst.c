/*
 * What the worst rows have in common.  The worst tenth of a measure's rows are
 * held against all of them: which values of the table's columns are more
 * frequent there than a draw of as many rows by chance would have them.
 *
 * Of a value that K of N rows have, k of the n worst have it, or more, with the
 * chance of a hypergeometric distribution.  Many values are looked at, so this
 * chance times their number has to be below 1% (Bonferroni's bound).  The value
 * of the least chance counts.  Within the rows that have it the next is looked
 * for in the same way, so that a group may be named by several columns; then
 * among the rows that no group has yet.
 */
#include "frontend/validate/validate.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_ROWS 50	/* of a measure; of fewer, a tenth says nothing */
#define LEAST_COMMON 3	/* of the worst that a value is said of */
#define MOST_CHANCE 0.01
#define MOST_COLUMNS 16
#define MOST_VALUES 3	/* of one group */
#define MOST_GROUPS 3

/* Rows of one measure, the worst first. */
struct worst {
	const struct val *v;
	const char *measure;
	const struct val_column *columns[MOST_COLUMNS];
	int ncolumns, at[MOST_COLUMNS];
	uint32_t n, nworst;
	const struct val_row **rows;
	/* by row and column: its value; 0: the row does not say it */
	sym_t *values;
	struct intern names;
	double *log_factorials;
};

/* A value of a column, and how many rows have it. */
struct common {
	int column;
	sym_t value;
	uint32_t all, worst;
};

/* Rows that share up to MOST_VALUES values. */
struct worst_group {
	struct common of[MOST_VALUES];
	int n;
	double error;	/* of its worst rows, in the median */
};

/* ---- values of cells ---- */

/* A number as the range from a power of 4 to the next; from 2^52 on, where
 * whole numbers are soon not all there, it is one range. */
static const char *
range_text(struct arena *a, double v)
{
	double lo = 1;

	if (v < 1) {
		return "< 1";
	}
	if (v >= 0x1p52) {
		return arena_printf(a, ">= %.0f", 0x1p52);
	}
	while (lo * 4 <= v) {
		lo *= 4;
	}
	return arena_printf(a, "%.0f..%.0f", lo, lo * 4 - 1);
}

/* A model's name from its publisher's to its first digit, in lower case. */
static const char *
family_text(struct arena *a, const char *name)
{
	const char *slash = strrchr(name, '/');
	char *out, *p;

	name = slash ? slash + 1 : name;
	out = arena_strndup(a, name, strcspn(name, "0123456789"));
	for (p = out; *p; p++) {
		*p = (char)tolower((unsigned char)*p);
	}
	while (p > out && !isalnum((unsigned char)p[-1])) {
		*--p = '\0';
	}
	return out;
}

static sym_t
value_of(struct worst *w, const struct val_row *r, int c)
{
	struct arena *a = &w->v->d->ctx.tmp;
	const struct tsv *t = &w->v->table;
	const char *cell = tsv_cell(t, r->row, w->at[c]);
	double number;

	if (tsv_is_blank(cell)) {
		return 0;
	}
	if (w->columns[c]->reading == VAL_FAMILY) {
		cell = family_text(a, cell);
	} else if (w->columns[c]->reading == VAL_RANGE &&
		   tsv_number(t, r->row, w->at[c], &number)) {
		cell = range_text(a, number);
	}
	return intern_str(&w->names, cell);
}

/* ---- chance ---- */

static double
log_choose(const struct worst *w, uint32_t n, uint32_t k)
{
	const double *f = w->log_factorials;

	return f[n] - f[k] - f[n - k];
}

/* The chance that of `worst` rows drawn from `all` k or more are of K. */
static double
tail(const struct worst *w, uint32_t all, uint32_t worst, uint32_t K,
     uint32_t k)
{
	uint32_t most = K < worst ? K : worst;
	double sum = 0;

	for (; k <= most; k++) {
		if (worst - k <= all - K) {
			sum += exp(log_choose(w, K, k) +
				   log_choose(w, all - K, worst - k) -
				   log_choose(w, all, worst));
		}
	}
	return sum;
}

/* ---- groups ---- */

static bool
has(const struct worst *w, uint32_t row, const struct common *c)
{
	return w->values[row * (uint32_t)w->ncolumns + (uint32_t)c->column] ==
	       c->value;
}

static bool
is_in(const struct worst *w, uint32_t row, const struct worst_group *g)
{
	int i = 0;

	while (i < g->n && has(w, row, &g->of[i])) {
		i++;
	}
	return i == g->n;
}

/* Counts, by value of column c, the rows and the worst of them that are in. */
static void
count_values(const struct worst *w, int c, const bool *in,
	     struct common *counts)
{
	uint32_t i;

	memset(counts, 0, w->names.text.n * sizeof *counts);
	for (i = 0; i < w->n; i++) {
		sym_t value = w->values[i * (uint32_t)w->ncolumns +
					(uint32_t)c];

		if (in[i]) {
			counts[value].column = c;
			counts[value].value = value;
			counts[value].all++;
			counts[value].worst += i < w->nworst;
		}
	}
}

/*
 * Of the rows that are in, the value of the least chance, unless that is too
 * likely among as many values.  Of equal ones the first column's, and there the
 * first row's, count.
 */
static bool
most_common(const struct worst *w, const bool *in, struct common *out)
{
	struct common *counts = arena_alloc(&w->v->d->ctx.tmp,
					    w->names.text.n * sizeof *counts);
	uint32_t all = 0, worst = 0, tried = 0, i;
	double best = INFINITY;
	int c;

	for (i = 0; i < w->n; i++) {
		all += in[i];
		worst += in[i] && i < w->nworst;
	}
	for (c = 0; c < w->ncolumns; c++) {
		count_values(w, c, in, counts);
		for (i = 1; i < w->names.text.n; i++) {
			const struct common *x = &counts[i];
			double chance;

			if (x->all < LEAST_COMMON || x->all == all) {
				continue;
			}
			tried++;
			chance = tail(w, all, worst, x->all, x->worst);
			if (x->worst >= LEAST_COMMON && chance < best) {
				best = chance;
				*out = *x;
			}
		}
	}
	return best * tried < MOST_CHANCE;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double
error_of(const struct val_row *r)
{
	return r->predicted_us / r->measured_us - 1;
}

/* The signed error of the group's worst rows, in the median. */
static double
median_error(const struct worst *w, const bool *in)
{
	double *errors = arena_alloc(&w->v->d->ctx.tmp,
				     w->nworst * sizeof *errors);
	uint32_t i, n = 0;

	for (i = 0; i < w->nworst; i++) {
		if (in[i]) {
			errors[n++] = error_of(w->rows[i]);
		}
	}
	qsort(errors, n, sizeof *errors, by_value);
	return val_quantile(errors, n, 0.5);
}

/* The next group of rows that are left, which are fewer then. */
static bool
find_group(const struct worst *w, bool *left, struct worst_group *g)
{
	bool *in = arena_dup(&w->v->d->ctx.tmp, left, w->n * sizeof *in);
	uint32_t i;

	g->n = 0;
	while (g->n < MOST_VALUES && most_common(w, in, &g->of[g->n])) {
		g->n++;
		for (i = 0; i < w->n; i++) {
			in[i] = in[i] && is_in(w, i, g);
		}
	}
	if (g->n == 0) {
		return false;
	}
	g->error = median_error(w, in);
	for (i = 0; i < w->n; i++) {
		left[i] = left[i] && !in[i];
	}
	return true;
}

/* ---- rows of a measure ---- */

struct sorted {
	double error;
	uint32_t row;
};

static int
by_error(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;

	return x->error > y->error ? -1 : x->error < y->error ? 1
		: x->row < y->row ? -1 : x->row > y->row;
}

/* Whether the row is predicted, and is of the measure: NULL is all rows. */
static bool
is_of(const struct val_row *r, const char *measure)
{
	return !r->why && (!measure || strcmp(r->kind, measure) == 0);
}

static void
find_rows(struct worst *w)
{
	const struct val *v = w->v;
	struct arena *a = &v->d->ctx.tmp;
	struct sorted *order = arena_alloc(a, (v->rows.n + 1) *
					   sizeof *order);
	uint32_t i;

	for (i = 0; i < v->rows.n; i++) {
		const struct val_row *r = &v->rows.at[i];

		if (is_of(r, w->measure)) {
			order[w->n++] = (struct sorted){ fabs(error_of(r)), i };
		}
	}
	qsort(order, w->n, sizeof *order, by_error);
	w->nworst = w->n / 10;
	w->rows = arena_alloc(a, (w->n + 1) * sizeof *w->rows);
	for (i = 0; i < w->n; i++) {
		w->rows[i] = &v->rows.at[order[i].row];
	}
}

/* Columns that the table has, and what each row says in them. */
static void
read_values(struct worst *w)
{
	struct arena *a = &w->v->d->ctx.tmp;
	const struct val_column *c;
	uint32_t i;
	int k;

	for (c = w->v->columns; c->name; c++) {
		int at = tsv_column(&w->v->table, c->name);

		if (at >= 0) {
			w->columns[w->ncolumns] = c;
			w->at[w->ncolumns++] = at;
		}
	}
	intern_init(&w->names, a);
	w->values = arena_alloc(a, ((size_t)w->n * MOST_COLUMNS + 1) *
				sizeof *w->values);
	for (i = 0; i < w->n; i++) {
		for (k = 0; k < w->ncolumns; k++) {
			w->values[i * (uint32_t)w->ncolumns + (uint32_t)k] =
				value_of(w, w->rows[i], k);
		}
	}
	w->log_factorials = arena_alloc(a, (w->n + 1) *
					sizeof *w->log_factorials);
	for (i = 1; i <= w->n; i++) {
		w->log_factorials[i] = w->log_factorials[i - 1] + log(i);
	}
}

/* False if the measure has too few rows. */
static bool
open_worst(const struct val *v, const char *measure, struct worst *w)
{
	*w = (struct worst){ .v = v, .measure = measure };
	find_rows(w);
	if (w->n < LEAST_ROWS) {
		return false;
	}
	read_values(w);
	return true;
}

static bool *
all_rows(const struct worst *w)
{
	bool *left = arena_alloc(&w->v->d->ctx.tmp, w->n * sizeof *left);

	memset(left, true, w->n * sizeof *left);
	return left;
}

/* Calls `put` for each measure, in order of its first row. */
static void
each_measure(const struct val *v, struct buf *out,
	     void (*put)(struct worst *w, struct buf *out))
{
	struct worst w;
	uint32_t i, j;

	for (i = 0; i < v->rows.n; i++) {
		const char *kind = v->rows.at[i].kind;

		for (j = 0; v->by_kind && j < i; j++) {
			if (strcmp(v->rows.at[j].kind, kind) == 0) {
				break;
			}
		}
		if (v->by_kind ? j < i : i > 0) {
			continue;
		}
		if (open_worst(v, v->by_kind ? kind : NULL, &w)) {
			put(&w, out);
		}
	}
}

/* ---- text and JSON ---- */

static const char *
column_name(const struct worst *w, const struct common *c)
{
	return w->columns[c->column]->reading == VAL_FAMILY
		? "family" : w->columns[c->column]->name;
}

static void
print_group(const struct worst *w, const struct worst_group *g, struct buf *out)
{
	const struct common *last = &g->of[g->n - 1];
	int i;

	buf_printf(out, "%7u have ", last->worst);
	for (i = 0; i < g->n; i++) {
		buf_printf(out, "%s%s=%s", buf_between((size_t)i,
						       (size_t)g->n),
			   column_name(w, &g->of[i]),
			   intern_text(&w->names, g->of[i].value));
	}
	buf_printf(out, ", as %u of all, %.1f%%; their error is %+.1f%% in "
		   "the median\n", last->all, 100.0 * last->all / w->n,
		   100 * g->error);
}

static void
print_measure(struct worst *w, struct buf *out)
{
	bool *left = all_rows(w);
	struct worst_group g;
	int i;

	buf_printf(out, "\nworst tenth of %s: %u of %u rows, %.1f%% off and "
		   "more\n", w->measure ? w->measure : "all rows", w->nworst,
		   w->n, 100 * fabs(error_of(w->rows[w->nworst - 1])));
	for (i = 0; i < MOST_GROUPS && find_group(w, left, &g); i++) {
		print_group(w, &g, out);
	}
	if (i == 0) {
		buf_puts(out, "        no value of a column is more frequent "
			 "there than by chance\n");
	}
}

void
val_print_worst(const struct val *v, struct buf *out)
{
	each_measure(v, out, print_measure);
}

static void
json_group(const struct worst *w, const struct worst_group *g, struct buf *out)
{
	const struct common *last = &g->of[g->n - 1];
	int i;

	buf_puts(out, "{ \"where\": {");
	for (i = 0; i < g->n; i++) {
		const char *value = intern_text(&w->names, g->of[i].value);

		buf_printf(out, "%s \"%s\": ", i ? "," : "",
			   column_name(w, &g->of[i]));
		buf_json(out, value, strlen(value));
	}
	buf_printf(out, " },\n        \"worst\": %u, \"rows\": %u, "
		   "\"median\": %.6f }", last->worst, last->all, g->error);
}

static void
json_measure(struct worst *w, struct buf *out)
{
	const char *name = w->measure ? w->measure : "all";
	bool *left = all_rows(w);
	struct worst_group g;
	int i;

	buf_puts(out, out->n && out->at[out->n - 1] == '[' ? "\n    " :
		 ",\n    ");
	buf_puts(out, "{ \"measure\": ");
	buf_json(out, name, strlen(name));
	buf_printf(out, ", \"rows\": %u, \"worst\": %u, \"least\": %.6f,\n"
		   "      \"common\": [", w->n, w->nworst,
		   fabs(error_of(w->rows[w->nworst - 1])));
	for (i = 0; i < MOST_GROUPS && find_group(w, left, &g); i++) {
		buf_puts(out, i ? ",\n      " : "\n      ");
		json_group(w, &g, out);
	}
	buf_puts(out, "] }");
}

void
val_print_worst_json(const struct val *v, struct buf *out)
{
	buf_puts(out, ",\n  \"worst\": [");
	each_measure(v, out, json_measure);
	buf_puts(out, "]");
}
