/*
 * Alternatives of which only one can hold, by kinds of values and by members
 * that are constants; see gram.h.
 */
#include "runtime/grammar/gram.h"

#include <string.h>

/* The kinds of values that a node has, as bits: of what they begin with. */
static int
kinds_of_byte(char c)
{
	static const char first[] = "{[\"tfn";
	const char *hit = strchr(first, c);

	return 1 << (hit ? hit - first : 6);
}

static int
kinds_of(const struct rt_grammar *g, const struct gram_node *x)
{
	int kinds = 0;
	int32_t i;

	switch (x->kind) {
	case GRAM_OBJECT:
		return kinds_of_byte('{');
	case GRAM_ARRAY:
		return kinds_of_byte('[');
	case GRAM_STRING:
		return kinds_of_byte('"');
	case GRAM_NUMBER:
	case GRAM_RANGE:
		return kinds_of_byte('0');
	case GRAM_LITERALS:
		for (i = 0; i < x->ntexts; i++) {
			kinds |= kinds_of_byte(*g->texts[x->text + i].at);
		}
		return kinds;
	case GRAM_UNION:
	case GRAM_NAMED:
	case GRAM_TEXT:
	case GRAM_SERIES:
		break;
	}
	return ~0;
}

static int
compare(const struct gram_text *a, const struct gram_text *b)
{
	size_t n = a->n < b->n ? a->n : b->n;
	int d = memcmp(a->at, b->at, n);

	return d ? d : (a->n > b->n) - (a->n < b->n);
}

/* Goes to the next text that two nodes have both; false: there is none. */
static bool
next_common(const struct rt_grammar *g, const struct gram_node *a,
	    const struct gram_node *b, int32_t *i, int32_t *k)
{
	while (*i < a->ntexts && *k < b->ntexts) {
		int d = compare(&g->texts[a->text + *i],
				&g->texts[b->text + *k]);

		if (d == 0) {
			return true;
		}
		*(d < 0 ? i : k) += 1;
	}
	return false;
}

/* Strings and words are equal if their texts are; what else is equal is not
 * known. */
static bool
literals_are_apart(const struct rt_grammar *g, const struct gram_node *a,
		   const struct gram_node *b)
{
	int known = kinds_of_byte('"') | kinds_of_byte('t') |
		    kinds_of_byte('f') | kinds_of_byte('n');
	int32_t i = 0, k = 0;

	return !(kinds_of(g, a) & kinds_of(g, b) & ~known) &&
	       !next_common(g, a, b, &i, &k);
}

/* Whether one member, which both must have, is of other constants. */
static bool
objects_are_apart(const struct rt_grammar *g, const struct gram_node *a,
		  const struct gram_node *b)
{
	int32_t i = 0, k = 0;

	for (; next_common(g, a, b, &i, &k); i++, k++) {
		const struct gram_part *x = &g->parts[a->first +
			g->texts[a->text + i].order];
		const struct gram_part *y = &g->parts[b->first +
			g->texts[b->text + k].order];
		const struct gram_node *u = &g->nodes[x->node];
		const struct gram_node *v = &g->nodes[y->node];

		if (x->required && y->required &&
		    u->kind == GRAM_LITERALS && v->kind == GRAM_LITERALS &&
		    literals_are_apart(g, u, v)) {
			return true;
		}
	}
	return false;
}

static bool
are_apart(const struct rt_grammar *g, const struct gram_node *a,
	  const struct gram_node *b)
{
	if (!(kinds_of(g, a) & kinds_of(g, b))) {
		return !a->partial && !b->partial;
	}
	if (a->kind == GRAM_LITERALS && b->kind == GRAM_LITERALS) {
		return literals_are_apart(g, a, b);
	}
	return a->kind == GRAM_OBJECT && b->kind == GRAM_OBJECT &&
	       objects_are_apart(g, a, b);
}

/* An alternative of a finished union, or else the node itself. */
static const struct gram_node *
alternative(const struct rt_grammar *g, int32_t node, int32_t i)
{
	const struct gram_node *x = &g->nodes[node];

	if (x->kind == GRAM_UNION) {
		return i < x->n ? &g->nodes[g->parts[x->first + i].node]
				: NULL;
	}
	return i == 0 ? x : NULL;
}

/* Whether a union has lost an alternative that no value in reach follows. */
static bool
left_out(const struct gram_node *x)
{
	return x->kind == GRAM_UNION && x->partial;
}

bool
gram_are_apart(const struct rt_grammar *g, int32_t a, int32_t b)
{
	const struct gram_node *x, *y;
	int32_t i, k;

	if (left_out(&g->nodes[a]) || left_out(&g->nodes[b])) {
		return false;
	}
	for (i = 0; (x = alternative(g, a, i)); i++) {
		for (k = 0; (y = alternative(g, b, k)); k++) {
			if (x == y || !are_apart(g, x, y)) {
				return false;
			}
		}
	}
	return true;
}
