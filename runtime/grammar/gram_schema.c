/*
 * JSON schemas as grammars; see grammar.h.
 *
 * A schema is a node, made when it is first referred to and filled in its turn,
 * so schemas may refer to each other in circles.  What a keyword asks for that
 * is not in the table is not known to be met, so it is an error.
 */
#include "runtime/grammar/gram_reader.h"

#include <stdlib.h>
#include <string.h>

static const struct gram_keyword {
	const char *name;
	enum keyword which;
	int kinds;	/* of values that it is about; 0: of any */
} keywords[] = {
	{ "type", TYPE, 0 },
	{ "enum", ENUM, 0 },
	{ "const", CONST, 0 },
	{ "$ref", REF, 0 },
	{ "anyOf", ANY_OF, 0 },
	{ "oneOf", ONE_OF, 0 },
	{ "allOf", ALL_OF, 0 },
	{ "properties", PROPERTIES, GRAM_OBJECTS },
	{ "required", REQUIRED, GRAM_OBJECTS },
	{ "additionalProperties", ADDITIONAL, GRAM_OBJECTS },
	{ "patternProperties", PATTERN_NAMES, GRAM_OBJECTS },
	{ "prefixItems", PREFIX_ITEMS, GRAM_ARRAYS },
	{ "items", ITEMS, GRAM_ARRAYS },
	{ "minItems", MIN_ITEMS, GRAM_ARRAYS },
	{ "maxItems", MAX_ITEMS, GRAM_ARRAYS },
	{ "uniqueItems", UNIQUE_ITEMS, GRAM_ARRAYS },
	{ "minLength", MIN_LENGTH, GRAM_STRINGS },
	{ "maxLength", MAX_LENGTH, GRAM_STRINGS },
	{ "pattern", PATTERN, GRAM_STRINGS },
	/* an annotation, unless it is one that is known */
	{ "format", FORMAT, 0 },
	{ "minimum", MINIMUM, GRAM_NUMBERS | GRAM_WHOLES },
	{ "maximum", MAXIMUM, GRAM_NUMBERS | GRAM_WHOLES },
	{ "exclusiveMinimum", ABOVE, GRAM_NUMBERS | GRAM_WHOLES },
	{ "exclusiveMaximum", BELOW, GRAM_NUMBERS | GRAM_WHOLES },
	{ "multipleOf", MULTIPLE, GRAM_NUMBERS | GRAM_WHOLES },
	{ "not", NOT, 0 },
	{ "if", IF, GRAM_OBJECTS },
	{ "then", THEN, GRAM_OBJECTS },
	{ "else", ELSE, GRAM_OBJECTS },
	{ "title", SAYS_NOTHING, 0 },
	{ "description", SAYS_NOTHING, 0 },
	{ "default", SAYS_NOTHING, 0 },
	{ "examples", SAYS_NOTHING, 0 },
	{ "example", SAYS_NOTHING, 0 },
	{ "deprecated", SAYS_NOTHING, 0 },
	{ "readOnly", SAYS_NOTHING, 0 },
	{ "writeOnly", SAYS_NOTHING, 0 },
	{ "discriminator", SAYS_NOTHING, 0 },
	{ "contentMediaType", SAYS_NOTHING, 0 },
	{ "contentEncoding", SAYS_NOTHING, 0 },
	{ "$schema", SAYS_NOTHING, 0 },
	{ "$id", SAYS_NOTHING, 0 },
	{ "$comment", SAYS_NOTHING, 0 },
	{ "$defs", SAYS_NOTHING, 0 },
	{ "definitions", SAYS_NOTHING, 0 },
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { NKINDS = 7 };

/* ---- schemas ---- */

/* Makes a node a union of the node of a schema, or of that of any value. */
static bool
be_another(struct schema_reader *x, int32_t node, int32_t other)
{
	gram_node_at(x, node)->kind = GRAM_UNION;
	gram_node_at(x, node)->first = (int32_t)x->g->nparts;
	gram_node_at(x, node)->n = 1;
	return gram_add_alternative(x, other);
}

/* Which members a schema has; *kinds: those that these are about. */
static bool
read_keywords(struct schema_reader *x, int32_t value, int *kinds, int *nsay)
{
	int32_t i;
	size_t k;

	for (k = 0; k < NKEYWORDS; k++) {
		x->has[k] = -1;
	}
	*kinds = *nsay = 0;
	for (i = x->t.at[value].child; i >= 0; i = x->t.at[i].next) {
		for (k = 0; k < COUNT(keywords); k++) {
			if (strcmp(x->t.at[i].key, keywords[k].name) == 0) {
				break;
			}
		}
		if (k == COUNT(keywords)) {
			return gram_wrong(x, i,
					  "is no keyword that is known here");
		}
		if (keywords[k].which != SAYS_NOTHING) {
			*nsay += x->has[keywords[k].which] < 0 &&
				 keywords[k].which != FORMAT;
			x->has[keywords[k].which] = i;
			*kinds |= keywords[k].kinds;
		}
	}
	return true;
}

static bool
fill_ref(struct schema_reader *x, int32_t node)
{
	const struct gram_value *v = &x->t.at[x->has[REF]];
	int32_t to = -1;

	if (v->kind == GRAM_CHARS && strlen(v->text) == v->n) {
		to = gram_pointer(&x->t, v->text);
	}
	if (to < 0) {
		return gram_wrong(x, x->has[REF],
				  "leads to nothing in the schema: "
				  "%s",
				  v->kind == GRAM_CHARS ?
					  rt_show_name(v->text).text :
					  "it is no text");
	}
	return be_another(x, node, gram_node_of(x, to));
}

static bool
fill_union(struct schema_reader *x, int32_t node, enum keyword k)
{
	int32_t v = x->has[k], i;

	if (x->t.at[v].kind != GRAM_LIST || x->t.at[v].child < 0) {
		return gram_wrong(x, v, "is not a list of schemas");
	}
	if (k == ALL_OF && x->t.at[x->t.at[v].child].next >= 0) {
		return gram_wrong(x, v,
				  "has several schemas, and only one is "
				  "known here");
	}
	gram_node_at(x, node)->first = (int32_t)x->g->nparts;
	for (i = x->t.at[v].child; i >= 0; i = x->t.at[i].next) {
		if (!gram_add_alternative(x, gram_node_of(x, i))) {
			return false;
		}
		gram_node_at(x, node)->n++;
	}
	if (k == ONE_OF) {
		x->apart[x->napart++] = v;
	}
	return true;
}

/* One node for each kind; of one kind it is the schema's own. */
static bool
fill_kinds(struct schema_reader *x, int32_t node, int kinds)
{
	int32_t made[NKINDS], n = 0, k;
	int kind;

	/* other kinds, which it says nothing of, are never written */
	gram_node_at(x, node)->partial = !kinds && x->has[TYPE] < 0;
	kinds &= kinds & GRAM_NUMBERS ? ~GRAM_WHOLES : ~0;
	for (kind = 1; kind <= GRAM_ALL_KINDS; kind <<= 1) {
		if (!(kinds & kind)) {
			continue;
		}
		if (kinds == kind) {
			return gram_fill_kind(x, node, kinds);
		}
		made[n] = gram_add_node(x->g, GRAM_UNION);
		if (made[n] < 0) {
			return gram_no_memory(x);
		}
		if (!gram_fill_kind(x, made[n++], kind)) {
			return false;
		}
	}
	gram_node_at(x, node)->first = (int32_t)x->g->nparts;
	gram_node_at(x, node)->n = n;
	for (k = 0; k < n; k++) {
		if (!gram_add_alternative(x, made[k])) {
			return false;
		}
	}
	return true;
}

static bool
fill_schema(struct schema_reader *x, int32_t value)
{
	const struct gram_value *v = &x->t.at[value];
	int32_t node = x->node_of[value];
	int about, kinds, nsay;
	size_t k;

	if (v->kind == GRAM_BOOL) {
		return *v->text == 'f' || be_another(x, node, ANY_VALUE);
	}
	if (v->kind != GRAM_MEMBERS) {
		return gram_wrong(x, value, "is no schema: an object, true or "
			     "false");
	}
	if (!read_keywords(x, value, &about, &nsay)) {
		return false;
	}
	for (k = ENUM; k <= ALL_OF; k++) {
		int beside = nsay - 1;

		if (k == ENUM || k == CONST) {
			beside -= (x->has[TYPE] >= 0) + (x->has[NOT] >= 0);
		}

		if (x->has[k] >= 0 && beside > 0) {
			return gram_wrong(x, x->has[k],
					  "is not known here beside "
					  "other keywords");
		}
	}
	kinds = x->has[TYPE] < 0 ? GRAM_ALL_KINDS
				 : gram_kinds_of_type(x, x->has[TYPE]);
	if (!kinds || !gram_read_not(x)) {
		return false;
	}
	if (x->has[ENUM] >= 0 || x->has[CONST] >= 0) {
		return gram_fill_literals(x, node, kinds);
	}
	if (x->has[REF] >= 0) {
		return fill_ref(x, node);
	}
	for (k = ANY_OF; k <= ALL_OF; k++) {
		if (x->has[k] >= 0) {
			return fill_union(x, node, (enum keyword)k);
		}
	}
	if (x->has[TYPE] < 0 && about) {
		kinds = about;
	} else if (x->has[TYPE] < 0 && x->has[NOT] < 0) {
		return be_another(x, node, ANY_VALUE);
	}
	return gram_read_if(x, &kinds) && gram_leave_out_kinds(x, &kinds) &&
	       fill_kinds(x, node, kinds);
}

/* ---- grammars ---- */

/* The nodes of any value; false: memory is out. */
static bool
add_any(struct rt_grammar *g)
{
	static const enum gram_kind kinds[] = {
		GRAM_UNION, GRAM_STRING, GRAM_NUMBER, GRAM_LITERALS,
		GRAM_ARRAY, GRAM_OBJECT,
	};
	int32_t i;

	for (i = 0; i < (int32_t)COUNT(kinds); i++) {
		if (gram_add_node(g, kinds[i]) < 0 ||
		    (i > 0 && !gram_add_part(g, i, false))) {
			return false;
		}
	}
	g->nodes[ANY_VALUE].n = (int32_t)g->nparts;
	g->nodes[ANY_WORD].ntexts = 3;
	g->nodes[ANY_ARRAY].inner = g->nodes[ANY_OBJECT].inner = ANY_VALUE;
	g->root = ANY_OBJECT;
	return gram_add_text(g, "false", 5, 0) &&
	       gram_add_text(g, "null", 4, 0) && gram_add_text(g, "true", 4, 0);
}

/* Whether each two schemas of a list hold for no value together. */
static bool
is_apart(struct schema_reader *x, int32_t list)
{
	int32_t i, k;

	for (i = x->t.at[list].child; i >= 0; i = x->t.at[i].next) {
		for (k = x->t.at[i].next; k >= 0; k = x->t.at[k].next) {
			if (!gram_are_apart(x->g, x->node_of[i],
					    x->node_of[k])) {
				return false;
			}
		}
	}
	return true;
}

/* Finds what is wrong with one of several schemas of a grammar, once all are
 * nodes.  `wide` is a union that has too many alternatives; -1: none has. */
bool
gram_check_schema(struct schema_reader *x, int32_t root, int32_t wide)
{
	int32_t i;

	for (i = 0; i < x->t.n && wide >= 0; i++) {
		if (x->node_of[i] == wide) {
			return gram_wrong(x, i, "comes to more than %d "
				     "alternatives", GRAM_WAYS);
		}
	}
	for (i = 0; i < x->napart; i++) {
		if (!is_apart(x, x->apart[i])) {
			return gram_wrong(
				x, x->apart[i],
				"has alternatives that "
				"may hold together: say anyOf, if they "
				"may");
		}
	}
	if (gram_node_at(x, root)->height > GRAM_DEPTH) {
		return gram_wrong(x, 0,
				  "is followed by no value, or by none that "
				  "is nested at most %d deep",
				  GRAM_DEPTH);
	}
	return true;
}

struct rt_grammar *
gram_open(void)
{
	struct rt_grammar *g = calloc(1, sizeof *g);

	if (g && !add_any(g)) {
		rt_grammar_free(g);
		g = NULL;
	}
	return g;
}

bool
gram_read_schema(struct schema_reader *x, int32_t *root)
{
	int32_t n, i;

	if (!gram_tree_read(&x->t, x->j)) {
		return false;
	}
	n = x->t.n;
	x->node_of = malloc((size_t)n * sizeof *x->node_of);
	x->todo = malloc((size_t)n * sizeof *x->todo);
	x->apart = malloc((size_t)n * sizeof *x->apart);
	x->ifs = malloc((size_t)n * sizeof *x->ifs);
	if (!x->node_of || !x->todo || !x->apart || !x->ifs) {
		return gram_no_memory(x);
	}
	for (i = 0; i < n; i++) {
		x->node_of[i] = -1;
	}
	*root = gram_node_of(x, 0);
	for (i = 0; i < x->ntodo; i++) {
		if (!fill_schema(x, x->todo[i])) {
			return false;
		}
	}
	return gram_split_objects(x);
}

void
gram_release_schema(struct schema_reader *x)
{
	gram_tree_release(&x->t);
	rt_text_release(&x->text);
	free(x->node_of);
	free(x->todo);
	free(x->apart);
	free(x->ifs);
}

enum rt_status
rt_grammar_of_schema(struct rt_grammar **out, struct rt_json *j)
{
	struct schema_reader x = { .j = j, .g = gram_open(),
				   .text.alloc = rt_alloc_or_libc(NULL) };
	int32_t wide;

	*out = NULL;
	if (!x.g) {
		gram_no_memory(&x);
	} else if (gram_read_schema(&x, &x.g->root) &&
		   (gram_finish(x.g, &wide) || gram_no_memory(&x)) &&
		   gram_check_schema(&x, x.g->root, wide)) {
		*out = x.g;
		x.g = NULL;
	}
	rt_grammar_free(x.g);
	gram_release_schema(&x);
	return j->status;
}

enum rt_status
rt_grammar_of_object(struct rt_grammar **out, struct rt_error *err)
{
	struct rt_grammar *g = gram_open();
	int32_t wide;

	*out = g;
	if (!g || !gram_finish(g, &wide)) {
		rt_grammar_free(g);
		*out = NULL;
		return rt_no_memory(err, NULL);
	}
	return RT_OK;
}
