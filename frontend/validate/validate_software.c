/*
 * How the software of a published run executes: software.def, by the name and
 * the date that its row gives.
 */
#include "frontend/validate/validate.h"

#include <ctype.h>
#include <string.h>

#include "passes/price/price.h"

static const struct software {
	const char *name;
	int from, before;	/* months, as 202307; 0: no limit */
	enum { OFF, ON, SAME } biases;
	const char *traits;
} software[] = {
#define SOFTWARE(name, from, before, biases, traits, why) \
	{ name, from, before, biases, traits },
#include "frontend/validate/software.def"
#undef SOFTWARE
};
#define NSOFTWARE (sizeof software / sizeof *software)

/* ---- dates ---- */

/* The number that n digits are, if no other digit follows; or -1. */
static int
digits(const char *s, int n)
{
	int v = 0, i;

	for (i = 0; i < n; i++) {
		if (!isdigit((unsigned char)s[i])) {
			return -1;
		}
		v = 10 * v + s[i] - '0';
	}
	return isdigit((unsigned char)s[n]) ? -1 : v;
}

static int
month_of(int year, int month)
{
	return year >= 2015 && year < 2100 && month >= 1 && month <= 12
		? 100 * year + month : 0;
}

/*
 * The month of a text: of arXiv:2205.05198, of a release as v24.11, or of a
 * year, which counts as its middle.  0: it has none.
 */
int
val_month(const char *text)
{
	const char *at = strstr(text, "arXiv:"), *s;
	int v = at ? digits(at + 6, 4) : -1;
	int month = v > 0 ? month_of(2000 + v / 100, v % 100) : 0;

	for (s = text; !month && *s; s++) {
		if (s > text && isalnum((unsigned char)s[-1])) {
			continue;
		}
		if (*s == 'v' && digits(s + 1, 2) > 0 && s[3] == '.') {
			month = month_of(2000 + digits(s + 1, 2),
					 digits(s + 4, 2));
		} else if (!isalnum((unsigned char)s[0]) ||
			   digits(s, 4) < 0 || isalnum((unsigned char)s[4])) {
			continue;
		} else {
			month = month_of(digits(s, 4), 6);
		}
	}
	return month;
}

/* ---- traits ---- */

static bool
has_part(const char *text, const char *part)
{
	size_t n = strlen(part), i;

	for (; strlen(text) >= n; text++) {
		for (i = 0; i < n && tolower((unsigned char)text[i]) ==
				     tolower((unsigned char)part[i]); i++) {
		}
		if (i == n) {
			return true;
		}
	}
	return false;
}

bool
val_software(const char *name, int month, struct arena *a,
	     struct price_traits *t)
{
	struct price_fault fault;
	bool biases = false;
	size_t i;

	for (i = 0; i < NSOFTWARE; i++) {
		const struct software *s = &software[i];

		if (!has_part(name, s->name) ||
		    (s->from && (!month || month < s->from)) ||
		    (s->before && (!month || month >= s->before))) {
			continue;
		}
		if (!price_traits_parse(t, s->traits, false, a, &fault)) {
			die("software.def: %s", fault.why);
		}
		biases = s->biases == SAME ? biases : s->biases == ON;
	}
	return biases;
}
