/*
 * The kinds of values, by the names of `type` and of a value; see
 * gram_reader.h.
 */
#include "runtime/grammar/gram_reader.h"

#include <string.h>

static const struct gram_type {
	const char *name;
	int kind;
} types[] = {
	{ "null", GRAM_NULLS },	    { "boolean", GRAM_BOOLS },
	{ "number", GRAM_NUMBERS }, { "integer", GRAM_WHOLES },
	{ "string", GRAM_STRINGS }, { "array", GRAM_ARRAYS },
	{ "object", GRAM_OBJECTS },
};

static int
kind_named(const struct gram_value *v)
{
	size_t i;

	for (i = 0; i < sizeof types / sizeof *types; i++) {
		if (gram_is_text(v, types[i].name)) {
			return types[i].kind;
		}
	}
	return 0;
}

int
gram_kinds_of_type(struct schema_reader *x, int32_t v)
{
	bool list = x->t.at[v].kind == GRAM_LIST;
	int kinds = kind_named(&x->t.at[v]), kind;
	int32_t i;

	for (i = list ? x->t.at[v].child : -1; i >= 0; i = x->t.at[i].next) {
		kind = kind_named(&x->t.at[i]);
		kinds |= kind;
		if (!kind) {
			kinds = 0;
			break;
		}
	}
	if (!kinds) {
		gram_wrong(x, v,
			   "is not null, boolean, number, integer, string, "
			   "array or object, or a list of these");
	}
	return kinds;
}

/* Whether a number is a whole one, as 1.0 is, too. */
static bool
is_whole(const struct gram_value *v)
{
	bool exact;
	int64_t n = gram_scaled(v->text, v->n, 0, false, &exact);

	return exact && ((n >= -GRAM_LARGEST && n <= GRAM_LARGEST) ||
			 !(memchr(v->text, 'e', v->n) ||
			   memchr(v->text, 'E', v->n)));
}

int
gram_kind_of_value(const struct gram_value *v)
{
	switch (v->kind) {
	case GRAM_NULL:
		return GRAM_NULLS;
	case GRAM_BOOL:
		return GRAM_BOOLS;
	case GRAM_DIGITS:
		return is_whole(v) ? GRAM_NUMBERS | GRAM_WHOLES : GRAM_NUMBERS;
	case GRAM_CHARS:
		return GRAM_STRINGS;
	case GRAM_LIST:
		return GRAM_ARRAYS;
	case GRAM_MEMBERS:
		return GRAM_OBJECTS;
	}
	return 0;
}
