/*
 * What `not` leaves out of a schema: kinds of values, or single ones; see
 * gram_reader.h.
 */
#include "runtime/grammar/gram_reader.h"

#include <string.h>

/* ---- reading ---- */

/* The values are null, true, false, numbers and texts: whether two others are
 * equal is not known. */
static bool
read_values(struct schema_reader *x, int32_t v)
{
	int32_t i;

	x->out.is_list = strcmp(x->t.at[v].key, "enum") == 0;
	if (x->out.is_list && (x->t.at[v].kind != GRAM_LIST ||
			       x->t.at[v].child < 0)) {
		return gram_wrong(x, v, "is not a list of values");
	}
	x->out.first = x->out.is_list ? x->t.at[v].child : v;
	for (i = x->out.first; i >= 0; i = gram_next_out(x, i)) {
		if (x->t.at[i].kind == GRAM_LIST ||
		    x->t.at[i].kind == GRAM_MEMBERS) {
			return gram_wrong(x, i, "is not known here in `not`, "
				"which leaves out null, true, false, numbers "
				"and texts");
		}
	}
	return true;
}

bool
gram_read_not(struct schema_reader *x)
{
	int32_t v = x->has[NOT], type = -1, values = -1, i;

	x->out = (struct gram_out){ .first = -1, .kinds = GRAM_ALL_KINDS };
	if (v < 0) {
		return true;
	}
	for (i = x->t.at[v].kind == GRAM_MEMBERS ? x->t.at[v].child : -1;
	     i >= 0; i = x->t.at[i].next) {
		const char *key = x->t.at[i].key;

		if (strcmp(key, "type") == 0) {
			type = i;
		} else if (values < 0 && (strcmp(key, "enum") == 0 ||
					  strcmp(key, "const") == 0)) {
			values = i;
		} else {
			return gram_wrong(x, i, "is not known here in `not`");
		}
	}
	if (type < 0 && values < 0) {
		return gram_wrong(x, v, "is not known here without a `type`, "
				  "`enum` or `const` in it");
	}
	if (type >= 0) {
		x->out.kinds = gram_kinds_of_type(x, type);
	}
	return x->out.kinds && (values < 0 || read_values(x, values));
}

int32_t
gram_next_out(const struct schema_reader *x, int32_t value)
{
	return x->out.is_list ? x->t.at[value].next : -1;
}

/* ---- kinds ---- */

bool
gram_leave_out_kinds(struct schema_reader *x, int *kinds)
{
	int out = x->out.kinds;
	int32_t i;

	if (x->has[NOT] < 0) {
		return true;
	}
	if (x->out.first >= 0) {
		for (i = x->out.first; i >= 0; i = gram_next_out(x, i)) {
			*kinds &= x->t.at[i].kind == GRAM_NULL
				? ~(GRAM_NULLS & out) : ~0;
		}
		return true;
	}
	out |= out & GRAM_NUMBERS ? GRAM_WHOLES : 0;
	if (*kinds & GRAM_NUMBERS && (out & (GRAM_NUMBERS | GRAM_WHOLES)) ==
	    GRAM_WHOLES) {
		return gram_wrong(x, x->has[NOT], "leaves whole numbers out "
			"of others, which is not known here");
	}
	*kinds &= ~out;
	return true;
}

/* ---- single values ---- */

/* Whether two numbers are equal, or nearly so where they have digits that no
 * number in bounds has. */
static bool
are_equal_numbers(const struct gram_value *a, const struct gram_value *b)
{
	bool is_exact, other;

	return gram_scaled(a->text, a->n, GRAM_DECIMALS, false, &is_exact) ==
	       gram_scaled(b->text, b->n, GRAM_DECIMALS, false, &other) &&
	       is_exact == other;
}

/* The kinds that a value may be of: a number beyond those that are known is
 * mostly a whole one. */
static int
kinds_that_may_be(const struct gram_value *v)
{
	bool exact;
	int64_t n = v->kind != GRAM_DIGITS ? 0
		: gram_scaled(v->text, v->n, 0, false, &exact);

	return gram_kind_of_value(v) |
	       (n > GRAM_LARGEST || n < -GRAM_LARGEST ? GRAM_WHOLES : 0);
}

bool
gram_is_out(const struct schema_reader *x, int32_t value)
{
	const struct gram_value *a = &x->t.at[value], *b;
	int32_t i;

	if (x->has[NOT] < 0 || !(kinds_that_may_be(a) & x->out.kinds)) {
		return false;
	}
	for (i = x->out.first; i >= 0; i = gram_next_out(x, i)) {
		b = &x->t.at[i];
		if (a->kind == b->kind &&
		    (a->kind == GRAM_NULL ||
		     (a->kind == GRAM_DIGITS && are_equal_numbers(a, b)) ||
		     (a->n == b->n && memcmp(a->text, b->text, a->n) == 0))) {
			return true;
		}
	}
	return x->out.first < 0;
}

bool
gram_is_word_out(const struct schema_reader *x, const char *word)
{
	int32_t i;

	for (i = x->has[NOT] < 0 ? -1 : x->out.first; i >= 0;
	     i = gram_next_out(x, i)) {
		if (x->t.at[i].kind == GRAM_BOOL && *x->t.at[i].text == *word &&
		    x->out.kinds & GRAM_BOOLS) {
			return true;
		}
	}
	return false;
}

bool
gram_leave_out_texts(struct schema_reader *x, int32_t node)
{
	struct gram_node *n = gram_node_at(x, node);
	int32_t i;

	n->text = (int32_t)x->g->ntexts;
	for (i = x->has[NOT] < 0 ? -1 : x->out.first; i >= 0;
	     i = gram_next_out(x, i)) {
		if (x->t.at[i].kind != GRAM_CHARS ||
		    !(x->out.kinds & GRAM_STRINGS)) {
			continue;
		}
		if (n->pattern >= 0 || x->has[MAX_LENGTH] >= 0) {
			return gram_wrong(x, x->has[NOT], "is not known here "
				"beside a pattern, a known format or "
				"maxLength");
		}
		x->text.n = 0;
		gram_write(&x->t, i, &x->text);
		if (x->text.failed ||
		    !gram_add_text(x->g, x->text.at + 1, x->text.n - 2, 0)) {
			return gram_no_memory(x);
		}
		n->ntexts++;
	}
	return gram_sort_texts(x->g, n) ||
	       gram_wrong(x, x->has[NOT], "has a value twice");
}

/* ---- numbers ---- */

/* Whether a value that is left out is a number of so many decimals; *out: it,
 * times 10^decimals. */
static bool
number_out(const struct schema_reader *x, int32_t value, int32_t decimals,
	   int64_t *out)
{
	const struct gram_value *v = &x->t.at[value];
	bool is_exact = false;

	*out = 0;
	if (v->kind == GRAM_DIGITS && gram_kind_of_value(v) & x->out.kinds) {
		*out = gram_scaled(v->text, v->n, decimals, false, &is_exact);
	}
	return is_exact;
}

int32_t
gram_count_numbers_out(const struct schema_reader *x)
{
	int32_t n = 0, i;

	for (i = x->has[NOT] < 0 ? -1 : x->out.first; i >= 0;
	     i = gram_next_out(x, i)) {
		n += x->t.at[i].kind == GRAM_DIGITS;
	}
	return n;
}

bool
gram_is_number_out(const struct schema_reader *x, int64_t number)
{
	int64_t out;
	int32_t i;

	for (i = x->has[NOT] < 0 ? -1 : x->out.first; i >= 0;
	     i = gram_next_out(x, i)) {
		if (number_out(x, i, 0, &out) && out == number) {
			return true;
		}
	}
	return false;
}

/* The least number from `from` on that is left out; most + 1: none. */
static int64_t
next_number_out(const struct schema_reader *x, int32_t decimals, int64_t from,
		int64_t most)
{
	int64_t next = most + 1, out;
	int32_t i;

	for (i = x->out.first; i >= 0; i = gram_next_out(x, i)) {
		if (number_out(x, i, decimals, &out) && out >= from &&
		    out < next) {
			next = out;
		}
	}
	return next;
}

bool
gram_leave_out_numbers(struct schema_reader *x, int32_t node)
{
	struct gram_node all = *gram_node_at(x, node);
	int32_t first = (int32_t)x->g->nparts, n = 0, part;
	int64_t from = all.least, next;

	if (gram_count_numbers_out(x) == 0) {
		return true;
	}
	for (; from <= all.most; from = next + 1) {
		next = next_number_out(x, all.decimals, from, all.most);
		if (next == from) {
			continue;
		}
		part = gram_add_node(x->g, GRAM_RANGE);
		if (part < 0) {
			return gram_no_memory(x);
		}
		*gram_node_at(x, part) = all;
		gram_node_at(x, part)->least = from;
		gram_node_at(x, part)->most = next - 1;
		if (!gram_add_alternative(x, part)) {
			return false;
		}
		n++;
	}
	gram_node_at(x, node)->kind = GRAM_UNION;
	gram_node_at(x, node)->first = first;
	gram_node_at(x, node)->n = n;
	return true;
}
