/*
 * Error statistics: median, 90th percentile and maximum of |error|, and
 * Spearman's rank correlation; of all rows, of the marked rows, and by kind,
 * device and source.
 */
#include "frontend/validate/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct error_sums {
	uint32_t n;
	/* errors relative to the measured time */
	double median, p90, most, rank;
};

static double
error_of(const struct val_row *r)
{
	return r->predicted_us / r->measured_us - 1;
}

/* ---- order ---- */

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

struct ranked {
	double value;
	uint32_t row;
};

static int
by_place(const void *a, const void *b)
{
	return by_value(&((const struct ranked *)a)->value,
			&((const struct ranked *)b)->value);
}

/* Ranks from 0; equal values share the mean of theirs. */
static void
ranks(struct ranked *p, uint32_t n, double *out)
{
	uint32_t i, j, k;

	qsort(p, n, sizeof *p, by_place);
	for (i = 0; i < n; i = j) {
		for (j = i; j < n && p[j].value == p[i].value; j++) {
			;
		}
		for (k = i; k < j; k++) {
			out[p[k].row] = (i + j - 1) / 2.0;
		}
	}
}

static double
correlation(const double *x, const double *y, uint32_t n)
{
	double mean = (n - 1) / 2.0, xy = 0, xx = 0, yy = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		xy += (x[i] - mean) * (y[i] - mean);
		xx += (x[i] - mean) * (x[i] - mean);
		yy += (y[i] - mean) * (y[i] - mean);
	}
	return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}

/* ---- groups of rows ---- */

enum by { BY_ALL, BY_MARK, BY_KIND, BY_DEVICE, BY_SOURCE, NBYS };

static const char *const by_names[NBYS] = {
	"all", "marked", "kind", "gpu", "source"
};

static const char *
key_of(const struct val_row *r, enum by by)
{
	switch (by) {
	case BY_KIND:
		return r->kind;
	case BY_DEVICE:
		return r->device;
	case BY_SOURCE:
		return r->source;
	default:
		return "";
	}
}

static bool
counts(const struct val_row *r, enum by by, const char *key)
{
	return !r->why && (by != BY_MARK || r->marked) &&
	       strcmp(key_of(r, by), key) == 0;
}

static struct error_sums
sum_errors(const struct val *v, enum by by, const char *key)
{
	struct arena *a = &v->d->ctx.tmp;
	uint32_t all = v->rows.n + 1, i, n = 0;
	struct ranked *want = arena_alloc(a, all * sizeof *want);
	struct ranked *got = arena_alloc(a, all * sizeof *got);
	double *errors = arena_alloc(a, all * sizeof *errors);
	double *x = arena_alloc(a, all * sizeof *x);
	double *y = arena_alloc(a, all * sizeof *y);
	struct error_sums s = { 0 };

	for (i = 0; i < v->rows.n; i++) {
		const struct val_row *r = &v->rows.at[i];

		if (counts(r, by, key)) {
			want[n] = (struct ranked){ r->measured_us, n };
			got[n] = (struct ranked){ r->predicted_us, n };
			errors[n++] = fabs(error_of(r));
		}
	}
	s.n = n;
	if (n > 0) {
		qsort(errors, n, sizeof *errors, by_value);
		s.median = val_quantile(errors, n, 0.5);
		s.p90 = val_quantile(errors, n, 0.9);
		s.most = errors[n - 1];
		ranks(want, n, x);
		ranks(got, n, y);
		s.rank = correlation(x, y, n);
	}
	return s;
}

/* Whether row i is the first that has its key. */
static bool
is_first(const struct val *v, enum by by, uint32_t row)
{
	const char *key = key_of(&v->rows.at[row], by);
	uint32_t i;

	for (i = 0; i < row; i++) {
		if (strcmp(key_of(&v->rows.at[i], by), key) == 0) {
			return false;
		}
	}
	return true;
}

static uint32_t
count_predicted(const struct val *v)
{
	uint32_t i, n = 0;

	for (i = 0; i < v->rows.n; i++) {
		n += v->rows.at[i].why == NULL;
	}
	return n;
}

/* ---- text ---- */

static void
print_sums(struct buf *out, const char *name, const struct error_sums *s)
{
	if (s->n == 0) {
		return;
	}
	buf_printf(out, "%7u %7.1f%% %7.1f%% %7.1f%% ", s->n, s->median * 100,
		   s->p90 * 100, s->most * 100);
	if (isnan(s->rank)) {
		buf_puts(out, "      -");
	} else {
		buf_printf(out, "%7.3f", s->rank);
	}
	buf_printf(out, "  %s\n", name);
}

static void
print_groups(const struct val *v, struct buf *out, enum by by)
{
	uint32_t i;

	buf_printf(out, "\nby %s\n", by_names[by]);
	for (i = 0; i < v->rows.n; i++) {
		if (is_first(v, by, i)) {
			const char *key = key_of(&v->rows.at[i], by);
			struct error_sums s = sum_errors(v, by, key);

			print_sums(out, key, &s);
		}
	}
}

/* How many rows share the reason of row i; 0 if an earlier row has it. */
static uint32_t
count_reason(const struct val *v, uint32_t i)
{
	const char *why = v->rows.at[i].why;
	uint32_t j, n = 0;

	for (j = 0; why && j < v->rows.n; j++) {
		if (v->rows.at[j].why &&
		    strcmp(v->rows.at[j].why, why) == 0) {
			if (j < i) {
				return 0;
			}
			n++;
		}
	}
	return n;
}

/* The note of a row that is predicted, or "". */
static const char *
note_of(const struct val_row *r)
{
	return r->note && !r->why ? r->note : "";
}

/* The same of its note. */
static uint32_t
count_note(const struct val *v, uint32_t i)
{
	const char *note = note_of(&v->rows.at[i]);
	uint32_t j, n = 0;

	for (j = 0; *note && j < v->rows.n; j++) {
		if (strcmp(note_of(&v->rows.at[j]), note) == 0) {
			if (j < i) {
				return 0;
			}
			n++;
		}
	}
	return n;
}

static void
print_notes(const struct val *v, struct buf *out)
{
	uint32_t i;

	for (i = 0; i < v->rows.n; i++) {
		uint32_t k = count_note(v, i);

		if (k > 0) {
			buf_printf(out, "%7u with a note: %s\n", k,
				   v->rows.at[i].note);
		}
	}
}

/* Memory of the device that uses most, of rows that have it. */
static void
print_memory(const struct val *v, struct buf *out)
{
	double *errors = arena_alloc(&v->d->ctx.tmp, (v->rows.n + 1) *
				     sizeof *errors), sum = 0;
	uint32_t i, n = 0;

	for (i = 0; i < v->rows.n; i++) {
		const struct val_row *r = &v->rows.at[i];

		if (!r->why && r->measured_gib > 0 && r->arena_gib > 0) {
			double off = r->arena_gib / r->measured_gib - 1;

			sum += off;
			errors[n++] = fabs(off);
		}
	}
	if (n > 0) {
		qsort(errors, n, sizeof *errors, by_value);
		buf_printf(out, "\nmemory of the fullest device\n%7u %7.1f%% "
			   "%7.1f%% %7.1f%%          all that say it, on "
			   "average %+.1f%%\n", n,
			   100 * val_quantile(errors, n, 0.5),
			   100 * val_quantile(errors, n, 0.9),
			   100 * errors[n - 1], 100 * sum / n);
	}
}

static void
put_arena(struct buf *out, const struct val_row *r)
{
	if (r->arena_gib > 0) {
		buf_printf(out, ", %.1f GiB", r->arena_gib);
	}
	if (r->measured_gib > 0) {
		buf_printf(out, " of %.1f measured", r->measured_gib);
	}
	buf_putc(out, '\n');
}

void
val_print_reasons(const struct val *v, struct buf *out)
{
	uint32_t i;

	for (i = 0; i < v->rows.n; i++) {
		uint32_t k = count_reason(v, i);

		if (k > 0) {
			buf_printf(out, "%7u not: ", k);
			val_place(v, &v->rows.at[i], out);
			buf_printf(out, "%s\n", v->rows.at[i].why);
		}
	}
}

void
val_print(const struct val *v, struct buf *out)
{
	uint32_t n = count_predicted(v);
	struct error_sums s;
	int by;

	buf_printf(out, "%u rows of %s: %u predicted, %u not\n", v->rows.n,
		   v->what, n, v->rows.n - n);
	val_print_reasons(v, out);
	print_notes(v, out);
	if (n == 0) {
		return;
	}
	buf_puts(out, "\n   rows   median     90th  maximum    rank\n");
	s = sum_errors(v, BY_MARK, "");
	print_sums(out, v->marks, &s);
	s = sum_errors(v, BY_ALL, "");
	print_sums(out, "all that are predicted", &s);
	for (by = BY_KIND; by < NBYS; by++) {
		print_groups(v, out, (enum by)by);
	}
	print_memory(v, out);
	val_print_worst(v, out);
}

void
val_print_rows(const struct val *v, struct buf *out)
{
	struct source_pos pos;
	uint32_t i;

	buf_puts(out, "  line   measured  predicted   error       math     "
		 "memory    launch  us, row\n");
	for (i = 0; i < v->rows.n; i++) {
		const struct val_row *r = &v->rows.at[i];

		source_locate(&v->d->ctx.sources, r->span.lo, &pos);
		if (r->why) {
			buf_printf(out, "%6u %10.1f          -       -  %s: ",
				   pos.line, r->measured_us, r->what);
			val_place(v, r, out);
			buf_printf(out, "%s\n", r->why);
			continue;
		}
		buf_printf(out, "%6u %10.1f %10.1f %6.1f%% %10.1f %10.1f "
			   "%9.1f  %s", pos.line, r->measured_us,
			   r->predicted_us, 100 * error_of(r), r->math_us,
			   r->memory_us, r->launch_us, r->what);
		put_arena(out, r);
		if (*note_of(r)) {
			buf_printf(out, "       note: %s\n", r->note);
		}
	}
	buf_putc(out, '\n');
}

/* A source is the first word of its column: who published the run. */
void
val_print_residuals(const struct val *v, struct buf *out)
{
	static const char *const splits[] = { "DATA", "TENSOR", "PIPELINE" };
	static const char *const lengths[] = { "SHORT", "MIDDLE", "LONG" };
	uint32_t i;

	for (i = 0; i < v->rows.n; i++) {
		const struct val_row *r = &v->rows.at[i];
		const struct answer_kind *k = &r->run;

		if (r->why) {
			continue;
		}
		buf_printf(out, "RUN(\"%.*s\", %d, %s, %s, %s, %.3f)\n",
			   (int)strcspn(r->source, " \"\\"), r->source,
			   k->generation, splits[k->split],
			   lengths[k->length],
			   k->scores == ANSWER_UNFUSED ? "UNFUSED" : "FLASH",
			   r->measured_us / r->predicted_us);
	}
}

/* ---- JSON ---- */

static void
json_text(struct buf *out, const char *s)
{
	buf_json(out, s, strlen(s));
}

/* The reason of a row that is not predicted, after the place of its cell. */
static void
json_why(const struct val *v, struct buf *out, const struct val_row *r)
{
	struct buf text;

	buf_init(&text, &v->d->ctx.tmp);
	val_place(v, r, &text);
	buf_puts(&text, r->why);
	json_text(out, buf_text(&text));
}

static void
json_sums(const struct val *v, struct buf *out, enum by by, const char *key,
	  bool *first)
{
	struct error_sums s = sum_errors(v, by, key);

	if (s.n == 0) {
		return;
	}
	buf_printf(out, "%s\n    { \"by\": \"%s\", \"name\": ",
		   *first ? "" : ",", by_names[by]);
	*first = false;
	json_text(out, by == BY_MARK ? v->marks : key);
	buf_printf(out, ", \"rows\": %u,\n      \"median\": %.6f, \"p90\": "
		   "%.6f, \"maximum\": %.6f, \"rank\": ", s.n, s.median,
		   s.p90, s.most);
	if (isnan(s.rank)) {
		buf_puts(out, "null }");
	} else {
		buf_printf(out, "%.6f }", s.rank);
	}
}

static void
json_rows(const struct val *v, struct buf *out)
{
	struct source_pos pos;
	uint32_t i;

	buf_puts(out, ",\n  \"each\": [");
	for (i = 0; i < v->rows.n; i++) {
		const struct val_row *r = &v->rows.at[i];

		source_locate(&v->d->ctx.sources, r->span.lo, &pos);
		buf_printf(out, "%s\n    { \"line\": %u, \"row\": ",
			   i ? "," : "", pos.line);
		json_text(out, r->what);
		buf_printf(out, ", \"measured_us\": %.6g, ", r->measured_us);
		if (r->why) {
			buf_puts(out, "\"predicted_us\": null, \"why\": ");
			json_why(v, out, r);
			buf_puts(out, " }");
		} else {
			buf_printf(out, "\"predicted_us\": %.6g",
				   r->predicted_us);
			if (*note_of(r)) {
				buf_puts(out, ", \"note\": ");
				json_text(out, r->note);
			}
			buf_puts(out, " }");
		}
	}
	buf_puts(out, "\n  ]");
}

void
val_print_json(const struct val *v, struct buf *out)
{
	bool first = true;
	uint32_t i;
	int by;

	buf_puts(out, "{\n  \"version\": 1,\n  \"kind\": ");
	json_text(out, v->what);
	buf_printf(out, ",\n  \"rows\": %u,\n  \"predicted\": %u,\n  "
		   "\"not_predicted\": [", v->rows.n, count_predicted(v));
	for (i = 0; i < v->rows.n; i++) {
		uint32_t k = count_reason(v, i);

		if (k > 0) {
			buf_printf(out, "%s\n    { \"rows\": %u, \"why\": ",
				   first ? "" : ",", k);
			json_why(v, out, &v->rows.at[i]);
			buf_puts(out, " }");
			first = false;
		}
	}
	buf_puts(out, first ? "]" : "\n  ]");
	buf_puts(out, ",\n  \"groups\": [");
	first = true;
	json_sums(v, out, BY_MARK, "", &first);
	json_sums(v, out, BY_ALL, "", &first);
	for (by = BY_KIND; by < NBYS; by++) {
		for (i = 0; i < v->rows.n; i++) {
			if (is_first(v, (enum by)by, i)) {
				json_sums(v, out, (enum by)by,
					  key_of(&v->rows.at[i],
						 (enum by)by), &first);
			}
		}
	}
	buf_puts(out, first ? "]" : "\n  ]");
	val_print_worst_json(v, out);
	if (v->d->opts.at[OPT_ROWS].given) {
		json_rows(v, out);
	}
	buf_puts(out, "\n}\n");
}
