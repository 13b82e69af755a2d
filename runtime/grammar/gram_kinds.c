/*
 * The nodes of values of one kind, as the keywords about it say; see
 * gram_reader.h.
 */
#include "runtime/grammar/gram_reader.h"

#include <stdio.h>
#include <string.h>

enum { MULTIPLES = 1024 };	/* of a schema */

/* ---- literals ---- */

static bool
add_literal(struct schema_reader *x, int32_t value)
{
	x->text.n = 0;
	gram_write(&x->t, value, &x->text);
	return (!x->text.failed &&
		gram_add_text(x->g, x->text.at, x->text.n, 0)) ||
	       gram_no_memory(x);
}

bool
gram_fill_literals(struct schema_reader *x, int32_t node, int kinds)
{
	bool list = x->has[ENUM] >= 0;
	int32_t v = list ? x->has[ENUM] : x->has[CONST];
	struct gram_node *n = gram_node_at(x, node);

	if (list && x->t.at[v].kind != GRAM_LIST) {
		return gram_wrong(x, v, "is not a list");
	}
	n->kind = GRAM_LITERALS;
	n->text = (int32_t)x->g->ntexts;
	for (v = list ? x->t.at[v].child : v; v >= 0;
	     v = list ? x->t.at[v].next : -1) {
		if (!(gram_kind_of_value(&x->t.at[v]) & kinds)) {
			continue;
		}
		if (gram_is_out(x, v)) {
			/* nearly equal numbers are left out, too */
			n->partial |= x->t.at[v].kind == GRAM_DIGITS;
		} else {
			n->ntexts++;
			if (!add_literal(x, v)) {
				return false;
			}
		}
	}
	if (!gram_sort_texts(x->g, n)) {
		return gram_wrong(x, x->has[ENUM], "has a value twice");
	}
	if (n->ntexts == 0) {
		n->kind = GRAM_UNION;	/* of nothing */
	}
	return true;
}

/* ---- numbers ---- */

/* A whole number of at least 0, such as a length; beyond a billion that. */
static bool
read_count(struct schema_reader *x, enum keyword k, int64_t *out)
{
	const struct gram_value *v;
	bool exact = false;

	if (x->has[k] < 0) {
		return true;
	}
	v = &x->t.at[x->has[k]];
	if (v->kind == GRAM_DIGITS) {
		*out = gram_scaled(v->text, v->n, 0, true, &exact);
	}
	if (!exact || *out < 0) {
		return gram_wrong(x, x->has[k],
				  "is not a whole number of 0 or "
				  "more");
	}
	*out = *out < 1000000000 ? *out : 1000000000;
	return true;
}

/* A bound; one that is excluded is the next number beyond it. */
static bool
read_bound(struct schema_reader *x, enum keyword k, int32_t decimals, bool up,
	   bool beyond, int64_t *out)
{
	const struct gram_value *v;
	int64_t bound;
	bool exact;

	if (x->has[k] < 0) {
		return true;
	}
	v = &x->t.at[x->has[k]];
	if (v->kind != GRAM_DIGITS) {
		return gram_wrong(x, x->has[k], "is not a number");
	}
	bound = gram_scaled(v->text, v->n, decimals, up, &exact);
	if (beyond && exact) {
		bound += up ? 1 : -1;
	}
	if (up ? bound > *out : bound < *out) {
		*out = bound;
	}
	return true;
}

/* Multiples of a whole number, which bounds make few, are listed. */
static bool
list_multiples(struct schema_reader *x, int32_t node)
{
	struct gram_node *n = gram_node_at(x, node);
	int64_t m = 0, at, left;
	char text[24];
	int32_t k = 0;

	if (!read_count(x, MULTIPLE, &m)) {
		return false;
	}
	if (m < 1 || m == 1000000000) {
		return gram_wrong(x, x->has[MULTIPLE], "is not known here "
				  "unless it is a whole number from 1 to "
				  "999999999");
	}
	/* C rounds to 0 */
	at = n->least / m * m;
	at += at < n->least ? m : 0;
	left = n->most / m * m;
	left -= left > n->most ? m : 0;
	left = left < at ? 0 : (left - at) / m + 1;
	if (left > MULTIPLES ||
	    x->g->ntexts + (size_t)left > GRAM_VALUES) {
		return gram_wrong(x, x->has[MULTIPLE], "is not known here "
			"unless minimum and maximum leave at most %d numbers",
			MULTIPLES);
	}
	n->text = (int32_t)x->g->ntexts;
	for (; left > 0; left--, at += m) {
		if (gram_is_number_out(x, at)) {
			continue;
		}
		snprintf(text, sizeof text, "%lld", (long long)at);
		if (!gram_add_text(x->g, text, strlen(text), 0)) {
			return gram_no_memory(x);
		}
		k++;
	}
	n->kind = k > 0 ? GRAM_LITERALS : GRAM_UNION;
	n->ntexts = k;
	gram_sort_texts(x->g, n);
	return true;
}

static bool
fill_number(struct schema_reader *x, int32_t node, bool whole)
{
	struct gram_node *n = gram_node_at(x, node);
	bool bounds = x->has[MINIMUM] >= 0 || x->has[MAXIMUM] >= 0 ||
		      x->has[ABOVE] >= 0 || x->has[BELOW] >= 0 ||
		      gram_count_numbers_out(x) > 0;

	if (gram_count_numbers_out(x) >= GRAM_WAYS) {
		return gram_wrong(x, x->has[NOT], "has %d numbers or more",
				  GRAM_WAYS);
	}
	/* a multiple of a whole number is one; 3.0 is not written */
	n->partial = n->partial || (x->has[MULTIPLE] >= 0 && !whole);
	whole = whole || x->has[MULTIPLE] >= 0;
	n->kind = whole || bounds ? GRAM_RANGE : GRAM_NUMBER;
	n->decimals = whole ? 0 : GRAM_DECIMALS;
	n->least = -GRAM_LARGEST;
	n->most = GRAM_LARGEST;
	if (!read_bound(x, MINIMUM, n->decimals, true, false, &n->least) ||
	    !read_bound(x, ABOVE, n->decimals, true, true, &n->least) ||
	    !read_bound(x, MAXIMUM, n->decimals, false, false, &n->most) ||
	    !read_bound(x, BELOW, n->decimals, false, true, &n->most)) {
		return false;
	}
	if (n->least > n->most) {
		n->kind = GRAM_UNION;	/* of nothing that is in reach */
		n->partial = true;
		return true;
	}
	return x->has[MULTIPLE] < 0 ? gram_leave_out_numbers(x, node)
				    : list_multiples(x, node);
}

/* ---- strings and arrays ---- */

static bool
fill_lengths(struct schema_reader *x, int32_t node, enum keyword least,
	     enum keyword most)
{
	struct gram_node *n = gram_node_at(x, node);

	if (!read_count(x, least, &n->least) ||
	    !read_count(x, most, &n->most)) {
		return false;
	}
	if (n->most >= 0 && n->least > n->most) {
		n->kind = GRAM_UNION;	/* of nothing */
		n->n = 0;
	}
	return true;
}

/* Formats of strings.  Days are those of their month but for the 29th of
 * February, of which the year decides. */
#define DATE \
	"[1-9]\\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|" \
	"(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))"
#define TIME \
	"([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?"
#define ZONE "(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"

static const struct gram_format {
	const char *name, *pattern;
} formats[] = {
	{ "date", "^" DATE "$" },
	{ "time", "^" TIME ZONE "$" },
	{ "date-time", "^" DATE "T" TIME ZONE "$" },
	{ "uuid", "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$" },
};

/* The pattern of a format; NULL: it is none that is known. */
static const char *
pattern_of_format(const struct schema_reader *x)
{
	const struct gram_value *v = &x->t.at[x->has[FORMAT]];
	size_t i;

	for (i = 0; i < sizeof formats / sizeof *formats; i++) {
		if (gram_is_text(v, formats[i].name)) {
			return formats[i].pattern;
		}
	}
	return NULL;
}

/* A regular expression, which is at a value. */
static bool
read_pattern(struct schema_reader *x, int32_t node, int32_t value,
	     const char *s, size_t n)
{
	struct gram_pattern *p;
	const char *why;
	size_t at;

	if (x->g->npatterns == GRAM_PATTERNS) {
		return gram_wrong(x, value, "is one of more than %d",
				  GRAM_PATTERNS);
	}
	p = gram_add_pattern(x->g);
	if (!p) {
		return gram_no_memory(x);
	}
	gram_node_at(x, node)->pattern = (int32_t)x->g->npatterns - 1;
	why = gram_pattern_read(p, s, n, true, &at);
	return !why || (at == 0 ? gram_wrong(x, value, "%s", why)
			: gram_wrong(x, value, "%s, at character %zu", why,
				     at));
}

static bool
fill_pattern(struct schema_reader *x, int32_t node, int32_t value,
	     const char *s, size_t n)
{
	if (x->has[MIN_LENGTH] >= 0 || x->has[MAX_LENGTH] >= 0) {
		return gram_wrong(x, value, "is not known here beside "
				  "minLength and maxLength");
	}
	return read_pattern(x, node, value, s, n);
}

static bool
fill_string(struct schema_reader *x, int32_t node)
{
	const char *format = x->has[FORMAT] >= 0 ? pattern_of_format(x) : NULL;
	const struct gram_value *v;

	if (x->has[PATTERN] >= 0) {
		v = &x->t.at[x->has[PATTERN]];
		return v->kind == GRAM_CHARS
			? fill_pattern(x, node, x->has[PATTERN], v->text, v->n)
			: gram_wrong(x, x->has[PATTERN], "is no text");
	}
	if (format) {
		return fill_pattern(x, node, x->has[FORMAT], format,
				    strlen(format));
	}
	return fill_lengths(x, node, MIN_LENGTH, MAX_LENGTH);
}

/* null, or true and false, as far as `not` leaves them. */
static bool
fill_words(struct schema_reader *x, int32_t node, bool null)
{
	static const char *const words[] = { "false", "true" };
	struct gram_node *n = gram_node_at(x, node);
	int i;

	n->kind = GRAM_LITERALS;
	n->text = (int32_t)x->g->ntexts;
	for (i = 0; i < (null ? 1 : 2); i++) {
		const char *word = null ? "null" : words[i];

		if (!null && gram_is_word_out(x, word)) {
			continue;
		}
		if (!gram_add_text(x->g, word, strlen(word), 0)) {
			return gram_no_memory(x);
		}
		n->ntexts++;
	}
	if (n->ntexts == 0) {
		n->kind = GRAM_UNION;	/* of nothing */
	}
	return true;
}

static bool
fill_first_items(struct schema_reader *x, int32_t node)
{
	int32_t list = x->has[PREFIX_ITEMS], first = (int32_t)x->g->nparts;
	int32_t n = 0, i;

	if (list < 0) {
		return true;
	}
	if (x->t.at[list].kind != GRAM_LIST || x->t.at[list].child < 0) {
		return gram_wrong(x, list, "is not a list of schemas");
	}
	for (i = x->t.at[list].child; i >= 0; i = x->t.at[i].next, n++) {
		if (!gram_add_alternative(x, gram_node_of(x, i))) {
			return false;
		}
	}
	gram_node_at(x, node)->first = first;
	gram_node_at(x, node)->n = n;
	return true;
}

static bool
fill_array(struct schema_reader *x, int32_t node)
{
	int32_t unique = x->has[UNIQUE_ITEMS], inner = ANY_VALUE;

	if (unique >= 0 && (x->t.at[unique].kind != GRAM_BOOL ||
			    *x->t.at[unique].text != 'f')) {
		return gram_wrong(x, unique, "is not known here unless it is "
			     "false");
	}
	if (x->has[ITEMS] >= 0) {
		inner = gram_node_of(x, x->has[ITEMS]);
	}
	if (inner < 0 || !fill_first_items(x, node)) {
		return false;
	}
	gram_node_at(x, node)->kind = GRAM_ARRAY;
	gram_node_at(x, node)->inner = inner;
	return fill_lengths(x, node, MIN_ITEMS, MAX_ITEMS);
}

/* ---- objects ---- */

static bool
add_member(struct schema_reader *x, int32_t node, const char *name,
	   int32_t value, bool required)
{
	struct gram_node *n = gram_node_at(x, node);

	if (value < 0 || !gram_write_name(x, name)) {
		return false;
	}
	if (!gram_add_part(x->g, value, required) ||
	    !gram_add_text(x->g, x->text.at + 1, x->text.n - 2, n->n)) {
		return gram_no_memory(x);
	}
	n->n++;
	return true;
}

/* `other': the node of members that neither a name nor a pattern tells of; -1:
 * none come. */
static bool
fill_required(struct schema_reader *x, int32_t node, int32_t other)
{
	int32_t list = x->has[REQUIRED], i, order;
	struct gram_node *n = gram_node_at(x, node);

	if (list < 0) {
		return true;
	}
	if (x->t.at[list].kind != GRAM_LIST) {
		return gram_wrong(x, list, "is not a list of names");
	}
	for (i = x->t.at[list].child; i >= 0; i = x->t.at[i].next) {
		const struct gram_value *v = &x->t.at[i];

		if (v->kind != GRAM_CHARS || strlen(v->text) != v->n) {
			return gram_wrong(x, i, "is not a name");
		}
		order = gram_find_member(x, n, v->text);
		if (order == -2) {
			return false;
		}
		if (order >= 0) {
			x->g->parts[n->first + order].required = true;
		} else if (other < 0 && x->has[ADDITIONAL] >= 0) {
			return gram_wrong(x, i, "is required, and no property: "
				     "%s", rt_show_name(v->text).text);
		} else if (!add_member(x, node, v->text,
				       other < 0 ? ANY_VALUE : other, true)) {
			return false;
		}
	}
	n->ntexts = n->n;
	return gram_sort_texts(x->g, n) ||
	       gram_wrong(x, list, "has a name twice");
}

/* Members that are not named may come where the schema says so, or names
 * none. */
static bool
fill_additional(struct schema_reader *x, int32_t *other)
{
	int32_t v = x->has[ADDITIONAL];

	*other = x->has[PROPERTIES] < 0 ? ANY_VALUE : -1;
	if (v >= 0 && x->t.at[v].kind == GRAM_BOOL) {
		*other = *x->t.at[v].text == 't' ? ANY_VALUE : -1;
	} else if (v >= 0) {
		*other = gram_node_of(x, v);
		return *other >= 0;
	}
	return true;
}

/* Of members without a name in the schema only those of a pattern are written,
 * where there is one. */
static bool
fill_pattern_names(struct schema_reader *x, int32_t node, int32_t *inner)
{
	int32_t v = x->has[PATTERN_NAMES], one;

	if (v < 0) {
		return true;
	}
	one = x->t.at[v].kind == GRAM_MEMBERS ? x->t.at[v].child : -1;
	if (one < 0 || x->t.at[one].next >= 0) {
		return gram_wrong(x, v, "is not an object of one pattern, "
				  "which is what is known here");
	}
	*inner = gram_node_of(x, one);
	return *inner >= 0 && read_pattern(x, node, one, x->t.at[one].key,
					   strlen(x->t.at[one].key));
}

/* Bytes of a character of a name: of UTF-8, or an escape. */
static size_t
bytes_of_character(const char *s)
{
	unsigned char c = (unsigned char)*s;

	return c == '\\' ? (s[1] == 'u' ? 6 : 2)
			 : c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Goes on by a character of a name, of n bytes. */
static bool
next_character(const struct gram_pattern *p, struct gram_way *way,
	       const char *s, size_t n)
{
	bool goes_on = true, ended;
	size_t i;

	if (*s == '\\' || *s == 0x7f) {
		return gram_pattern_next_escaped(p, &way->places);
	}
	for (i = 0; i < n && goes_on; i++) {
		unsigned char byte = (unsigned char)s[i];

		goes_on = gram_next_of_character(way, byte, &ended) &&
			  gram_pattern_next(p, way, &way->places, byte);
	}
	return goes_on;
}

/* Whether a name may follow a pattern. */
static bool
may_have(const struct gram_pattern *p, const struct gram_text *t)
{
	struct gram_way way = { .places = 0 };
	size_t k, n;

	for (k = 0; k < t->n; k += n) {
		n = bytes_of_character(t->at + k);
		if (!next_character(p, &way, t->at + k, n)) {
			return false;
		}
	}
	return gram_pattern_may_end(p, way.places);
}

/* A name that the pattern has, too, would follow two schemas; and where it has
 * come, a text of the pattern that has begun might have no other end. */
static bool
names_are_apart(struct schema_reader *x, int32_t node)
{
	const struct gram_node *n = gram_node_at(x, node);
	const struct gram_pattern *p = &x->g->patterns[n->pattern];
	int32_t i;

	for (i = 0; i < n->ntexts; i++) {
		const struct gram_text *t = &x->g->texts[n->text + i];

		if (may_have(p, t)) {
			return gram_wrong(x, x->has[PATTERN_NAMES], "has a "
				"pattern for the property %s, which is not "
				"known here", rt_show_name(t->at).text);
		}
	}
	return true;
}

static bool
fill_object(struct schema_reader *x, int32_t node)
{
	int32_t list = x->has[PROPERTIES], i, other, inner;

	if (list >= 0 && x->t.at[list].kind != GRAM_MEMBERS) {
		return gram_wrong(x, list, "is not an object");
	}
	/* all nodes come first: their places change as they are added */
	if (!fill_additional(x, &other)) {
		return false;
	}
	inner = other;
	if (!fill_pattern_names(x, node, &inner)) {
		return false;
	}
	for (i = list < 0 ? -1 : x->t.at[list].child; i >= 0;
	     i = x->t.at[i].next) {
		if (gram_node_of(x, i) < 0) {
			return false;
		}
	}
	gram_node_at(x, node)->kind = GRAM_OBJECT;
	gram_node_at(x, node)->inner = inner;
	gram_node_at(x, node)->first = (int32_t)x->g->nparts;
	gram_node_at(x, node)->text = (int32_t)x->g->ntexts;
	for (i = list < 0 ? -1 : x->t.at[list].child; i >= 0;
	     i = x->t.at[i].next) {
		if (!add_member(x, node, x->t.at[i].key, gram_node_of(x, i),
				false)) {
			return false;
		}
	}
	gram_node_at(x, node)->ntexts = gram_node_at(x, node)->n;
	if (!gram_sort_texts(x->g, gram_node_at(x, node))) {
		return gram_wrong(x, list, "has a name twice");
	}
	if (x->has[IF] >= 0) {
		x->ifs[x->nifs++] = (struct gram_if){ node, x->has[IF] };
	}
	return fill_required(x, node, other) &&
	       (x->has[PATTERN_NAMES] < 0 || names_are_apart(x, node));
}

/* ---- all of them ---- */

bool
gram_fill_kind(struct schema_reader *x, int32_t node, int kind)
{
	gram_node_at(x, node)->partial = x->has[TYPE] < 0;
	switch (kind) {
	case GRAM_NULLS:
	case GRAM_BOOLS:
		return fill_words(x, node, kind == GRAM_NULLS);
	case GRAM_NUMBERS:
	case GRAM_WHOLES:
		return fill_number(x, node, kind == GRAM_WHOLES);
	case GRAM_STRINGS:
		gram_node_at(x, node)->kind = GRAM_STRING;
		return fill_string(x, node) && gram_leave_out_texts(x, node);
	case GRAM_ARRAYS:
		return fill_array(x, node);
	default:
		return fill_object(x, node);
	}
}
