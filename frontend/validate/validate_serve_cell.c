/* The cells of a line of a table of serving, as text and as numbers. */
#include "frontend/validate/validate_serve.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* What the number of a column is. */
enum form { TEXT, DEGREE, DEGREE_OR_0, COUNT, LENGTH, RATE, TIME };

static const enum form forms[SERVING_NCOLUMNS] = {
	[SERVING_NGPUS] = DEGREE, [SERVING_TP] = DEGREE,
	[SERVING_PP] = DEGREE, [SERVING_EP] = DEGREE_OR_0,
	[SERVING_INPUT] = LENGTH, [SERVING_OUTPUT] = LENGTH,
	[SERVING_CONCURRENCY] = COUNT, [SERVING_RATE] = RATE,
	[SERVING_TTFT] = TIME, [SERVING_TPOT] = TIME
};

/* Units that may follow the number, and how many of the column's one is. */
static const struct {
	enum form form;
	const char *name;
	double size;
} units[] = {
	{ DEGREE, "x", 1 }, { DEGREE, "gpu", 1 }, { DEGREE, "gpus", 1 },
	{ COUNT, "requests", 1 }, { COUNT, "users", 1 },
	{ LENGTH, "tok", 1 }, { LENGTH, "tokens", 1 },
	{ RATE, "tok/s", 1 }, { RATE, "tokens/s", 1 }, { RATE, "tok/sec", 1 },
	{ RATE, "tokens/sec", 1 }, { RATE, "t/s", 1 },
	{ TIME, "ms", 1 }, { TIME, "s", 1e3 }, { TIME, "us", 1e-3 }
};

const char *
serving_cell(const struct serving *s, enum serving_column c)
{
	return tsv_cell(&s->v->table, s->row, s->at[c]);
}

const char *
serving_text(const struct serving *s, int column)
{
	return column >= 0 ? tsv_cell(&s->v->table, s->row, column) : "";
}

/* A number of that form: above zero, and whole where it counts devices.  Ranks
 * of experts are 0 of a model without. */
static bool
parse(const char *text, enum form form, double *out)
{
	size_t n = strspn(text, "+-.,0123456789eE"), i;
	const char *unit = text + n;
	double v;

	if (!tsv_parse(text, n, form <= LENGTH, &v) || v < 0 ||
	    (v == 0 && form != DEGREE_OR_0) ||
	    (form <= DEGREE_OR_0 && v != floor(v))) {
		return false;
	}
	unit += strspn(unit, " ");
	for (i = 0; *unit && i < sizeof units / sizeof *units; i++) {
		if (units[i].form == form &&
		    serving_same(unit, units[i].name)) {
			break;
		}
	}
	if (i == sizeof units / sizeof *units) {
		return false;
	}
	*out = *unit ? v * units[i].size : v;
	return true;
}

double
serving_number(const struct serving *s, enum serving_column c, double absent)
{
	double v;

	return parse(serving_cell(s, c), forms[c], &v) ? v : absent;
}

double
serving_latency(const struct serving *s)
{
	double v;

	return parse(serving_text(s, s->latency), TIME, &v) ? v : 0;
}

/* Reports a cell that is no number of its form, and returns why. */
static const char *
unread(const struct serving *s, int column, enum form form)
{
	static const char *const wanted[] = {
		[DEGREE] = "a whole number from 1 on",
		[DEGREE_OR_0] = "a whole number",
		[COUNT] = "a number above 0", [LENGTH] = "a number above 0",
		[RATE] = "a number of tokens a second",
		[TIME] = "a time in ms"
	};
	const struct tsv *t = &s->v->table;
	const char *cell = tsv_cell(t, s->row, column);
	double v;

	if (tsv_is_blank(cell) || parse(cell, form, &v)) {
		return NULL;
	}
	return val_unread(s->v, s->row, column, wanted[form]);
}

const char *
serving_unread(const struct serving *s, bool any_count)
{
	const char *why = NULL;
	int c;

	for (c = 0; c < SERVING_NCOLUMNS && !why; c++) {
		if (forms[c] != TEXT && !(any_count && forms[c] == COUNT)) {
			why = unread(s, s->at[c], forms[c]);
		}
	}
	return why || s->latency < 0 ? why : unread(s, s->latency, TIME);
}

double
serving_digits(const char *p, double absent)
{
	double v;

	return num_parse_double(p, strspn(p, "0123456789"), &v) ? v : absent;
}

double
serving_note(const struct serving *s, const char *key, double absent)
{
	const char *p = strstr(serving_text(s, s->notes), key);

	while (p && !isdigit((unsigned char)p[strlen(key)])) {
		p = strstr(p + 1, key);
	}
	return p ? serving_digits(p + strlen(key), absent) : absent;
}
