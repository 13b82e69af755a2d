/*
 * `if` of one property of an object: two objects in place of one; see
 * gram_reader.h.
 *
 * An object has a property that is required and one of several constants, `if`
 * holds for some of them, and `then` and `else` say what else is required.  So
 * there is an object with the first constants and one with the others.
 */
#include "runtime/grammar/gram_reader.h"

#include <string.h>

/* ---- what is asked ---- */

static bool
wrong_if(struct schema_reader *x, int32_t value)
{
	return gram_wrong(x, value, "is not known here unless it is that one "
		"property is a text, null, true or false, or one of up to %d: "
		"{\"properties\":{..:{\"const\":..}}}", GRAM_WAYS);
}

/* The only member of an object of that name, or of any for NULL; -1: it has
 * others, or none. */
static int32_t
only_member(const struct schema_reader *x, int32_t of, const char *name)
{
	int32_t v = x->t.at[of].kind == GRAM_MEMBERS ? x->t.at[of].child : -1;

	return v < 0 || x->t.at[v].next >= 0 ||
	       (name && strcmp(x->t.at[v].key, name) != 0) ? -1 : v;
}

/* The constants of `if`, or a list of them; -1: it is another.  *property: of
 * which they are. */
static int32_t
constants_of(const struct schema_reader *x, int32_t value, int32_t *property)
{
	int32_t v = only_member(x, value, "properties"), all;

	*property = v < 0 ? -1 : only_member(x, v, NULL);
	if (*property < 0) {
		return -1;
	}
	v = only_member(x, *property, "const");
	all = only_member(x, *property, "enum");
	return v >= 0 ? v : all >= 0 && x->t.at[all].kind == GRAM_LIST &&
			    x->t.at[all].child >= 0 ? all : -1;
}

/* Of what is no object, `if` holds, which is of a property alone: so `then`
 * has to. */
bool
gram_read_if(struct schema_reader *x, int *kinds)
{
	int32_t then = x->has[THEN];

	if (x->has[IF] < 0) {
		return true;
	}
	if (!(*kinds & GRAM_OBJECTS)) {
		return gram_wrong(x, x->has[IF], "is known here of objects "
				  "alone");
	}
	if (then >= 0 && x->t.at[then].kind == GRAM_BOOL &&
	    *x->t.at[then].text == 'f') {
		*kinds = GRAM_OBJECTS;
	}
	return true;
}

/* ---- two objects ---- */

/* Whether a text is one of the constants, which are null, true, false and
 * texts: others may be equal though they are written in other ways. */
static bool
is_constant(struct schema_reader *x, int32_t constants,
	    const struct gram_text *t)
{
	bool list = strcmp(x->t.at[constants].key, "enum") == 0;
	int32_t i = list ? x->t.at[constants].child : constants;

	for (; i >= 0; i = list ? x->t.at[i].next : -1) {
		x->text.n = 0;
		gram_write(&x->t, i, &x->text);
		if (!x->text.failed && x->text.n == t->n &&
		    memcmp(x->text.at, t->at, t->n) == 0) {
			return true;
		}
	}
	return false;
}

/* Whether constants are few, so that each text is looked for, and of such
 * kinds. */
static bool
are_comparable(const struct schema_reader *x, int32_t constants)
{
	const struct gram_value *v = &x->t.at[constants];
	bool list = strcmp(v->key, "enum") == 0;
	int32_t i = list ? v->child : constants, n = 0;

	for (; i >= 0; i = list ? x->t.at[i].next : -1, n++) {
		if (n == GRAM_WAYS || gram_kind_of_value(&x->t.at[i]) &
		    ~(GRAM_NULLS | GRAM_BOOLS | GRAM_STRINGS)) {
			return false;
		}
	}
	return true;
}

/* The literals of a node that are constants of `if`, or the others; -1: memory
 * is out. */
static int32_t
add_half(struct schema_reader *x, int32_t node, int32_t constants, bool holds)
{
	int32_t half = gram_add_node(x->g, GRAM_LITERALS), i;
	const struct gram_node all = *gram_node_at(x, node);

	if (half < 0) {
		gram_no_memory(x);
		return -1;
	}
	gram_node_at(x, half)->text = (int32_t)x->g->ntexts;
	for (i = 0; i < all.ntexts; i++) {
		const struct gram_text t = x->g->texts[all.text + i];

		if (is_constant(x, constants, &t) != holds) {
			continue;
		}
		if (!gram_add_text(x->g, t.at, t.n, 0)) {
			gram_no_memory(x);
			return -1;
		}
		gram_node_at(x, half)->ntexts++;
	}
	if (gram_node_at(x, half)->ntexts == 0) {
		gram_node_at(x, half)->kind = GRAM_UNION;	/* of nothing */
	}
	return half;
}

/* Members that `then` or `else` requires, of a node that has them all. */
static bool
require(struct schema_reader *x, int32_t node, int32_t value)
{
	int32_t list = only_member(x, value, "required"), i, order;
	const struct gram_node *n = gram_node_at(x, node);

	if (list < 0 || x->t.at[list].kind != GRAM_LIST) {
		return gram_wrong(x, value, "is not known here unless it is "
			"true, false or a list `required` alone");
	}
	for (i = x->t.at[list].child; i >= 0; i = x->t.at[i].next) {
		order = x->t.at[i].kind == GRAM_CHARS &&
			strlen(x->t.at[i].text) == x->t.at[i].n
			? gram_find_member(x, n, x->t.at[i].text) : -1;
		if (order < 0) {
			return gram_wrong(x, i, "is required, and no property "
				"of the schema");
		}
		x->g->parts[n->first + order].required = true;
	}
	return true;
}

/* The object where `if` holds, or where it does not, as an alternative. */
static bool
add_branch(struct schema_reader *x, int32_t node, int32_t order, int32_t half,
	   int32_t value, int32_t *branch)
{
	struct gram_node n = *gram_node_at(x, node);
	int32_t first = (int32_t)x->g->nparts, i;

	*branch = -1;
	if (value >= 0 && x->t.at[value].kind == GRAM_BOOL) {
		if (*x->t.at[value].text == 'f') {
			return true;
		}
		value = -1;
	}
	*branch = gram_add_node(x->g, GRAM_OBJECT);
	for (i = 0; i < n.n && *branch >= 0; i++) {
		const struct gram_part p = x->g->parts[n.first + i];

		if (!gram_add_part(x->g, i == order ? half : p.node,
				   p.required)) {
			return gram_no_memory(x);
		}
	}
	if (*branch < 0) {
		return gram_no_memory(x);
	}
	n.first = first;
	*gram_node_at(x, *branch) = n;
	return value < 0 || require(x, *branch, value);
}

static bool
split(struct schema_reader *x, int32_t node, int32_t value)
{
	int32_t schema = x->t.at[value].parent, property, order, of, half[2];
	int32_t constants = constants_of(x, value, &property), branch[2], i;
	static const char *const names[] = { "then", "else" };
	struct gram_node *n = gram_node_at(x, node);

	if (constants < 0 || !are_comparable(x, constants)) {
		return wrong_if(x, value);
	}
	order = gram_find_member(x, n, x->t.at[property].key);
	of = order < 0 ? -1 : x->g->parts[n->first + order].node;
	if (of < 0 || !x->g->parts[n->first + order].required ||
	    gram_node_at(x, of)->kind != GRAM_LITERALS) {
		return gram_wrong(x, property, "is not known here unless it is "
			"required, and one of several constants, by the "
			"schema");
	}
	for (i = 0; i < 2; i++) {
		half[i] = add_half(x, of, constants, i == 0);
		if (half[i] < 0 ||
		    !add_branch(x, node, order, half[i],
				gram_member(&x->t, schema, names[i]),
				&branch[i])) {
			return false;
		}
	}
	gram_node_at(x, node)->kind = GRAM_UNION;
	gram_node_at(x, node)->first = (int32_t)x->g->nparts;
	gram_node_at(x, node)->n = 0;
	for (i = 0; i < 2; i++) {
		if (branch[i] >= 0) {
			if (!gram_add_alternative(x, branch[i])) {
				return false;
			}
			gram_node_at(x, node)->n++;
		}
	}
	return true;
}

bool
gram_split_objects(struct schema_reader *x)
{
	int32_t i;

	for (i = 0; i < x->nifs; i++) {
		if (!split(x, x->ifs[i].node, x->ifs[i].value)) {
			return false;
		}
	}
	return true;
}
