/* The cells of a line of a table of serving, as text and as numbers. */
#include "frontend/validate/validate_serve.h"

#include <ctype.h>
#include <string.h>

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

double
serving_number(const struct serving *s, enum serving_column c, double absent)
{
	double v;

	return tsv_number(&s->v->table, s->row, s->at[c], &v) ? v : absent;
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

const char *
serving_plain(struct arena *a, const char *text)
{
	char *out = arena_strndup(a, text, strlen(text)), *p;

	for (p = out; *p; p++) {
		*p = *p == ' ' || *p == '_' ? '-'
					    : (char)tolower((unsigned char)*p);
	}
	return out;
}
