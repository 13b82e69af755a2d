/*
 * Numbers of answers as a person reads them, however small or large they are.
 */
#include "passes/serve/serve.h"

#include <math.h>
#include <string.h>

/* Decimals that leave a number so many digits that are no leading zeros. */
static int
places_of(double v, int digits)
{
	return v > 0 ? digits - 1 - (int)floor(log10(v)) : 0;
}

const char *
serve_number_text(double v, int digits, struct arena *a)
{
	const char *text = arena_printf(a, "%.*g", digits, v);
	int places = places_of(v, digits);

	return !strchr(text, 'e') ? text
		: arena_printf(a, "%.*f", places > 0 ? places : 0, v);
}

const char *
serve_rate_text(double v, int places, struct arena *a)
{
	int least = places_of(v, 2);

	return arena_printf(a, "%.*f", least > places ? least : places, v);
}
