/*
 * Private to gram_reader.c, gram_kinds.c, gram_schema.c and gram_calls.c: the
 * schema that is read.
 */
#ifndef RT_GRAM_READER_H
#define RT_GRAM_READER_H

#include "runtime/grammar/gram.h"

/* Kinds of values, as bits. */
enum {
	GRAM_NULLS = 1, GRAM_BOOLS = 2, GRAM_NUMBERS = 4, GRAM_WHOLES = 8,
	GRAM_STRINGS = 16, GRAM_ARRAYS = 32, GRAM_OBJECTS = 64,
	GRAM_ALL_KINDS = 127,
};

enum keyword {
	TYPE, ENUM, CONST, REF, ANY_OF, ONE_OF, ALL_OF, PROPERTIES, REQUIRED,
	ADDITIONAL, PREFIX_ITEMS, ITEMS, MIN_ITEMS, MAX_ITEMS, UNIQUE_ITEMS,
	MIN_LENGTH, MAX_LENGTH, PATTERN, FORMAT, MINIMUM, MAXIMUM, ABOVE, BELOW,
	MULTIPLE, NKEYWORDS,
	SAYS_NOTHING = NKEYWORDS,
};

/* Any value, and any object: the first nodes of each grammar. */
enum { ANY_VALUE, ANY_STRING, ANY_NUMBER, ANY_WORD, ANY_ARRAY, ANY_OBJECT };

struct schema_reader {
	struct gram_tree t;
	struct rt_grammar *g;
	struct rt_json *j;
	int32_t *node_of;	/* of each value; -1: none yet */
	int32_t *todo, ntodo;	/* values whose nodes are to be filled */
	int32_t *apart, napart;	/* those of which one alternative holds */
	struct rt_text text;
	/* the members of the schema that is read, by keyword; -1: none */
	int32_t has[NKEYWORDS];
};

/* ---- gram_reader.c ---- */

bool gram_no_memory(struct schema_reader *x);
/* Fails: "#/PLACE in the schema ..".  Returns false. */
bool gram_wrong(struct schema_reader *x, int32_t value, const char *fmt, ...)
	RT_PRINTF(3, 4);
/* The node of a schema; -1: memory is out, or there are too many. */
int32_t gram_node_of(struct schema_reader *x, int32_t value);
struct gram_node *gram_node_at(struct schema_reader *x, int32_t node);
/* Adds a node as an alternative. */
bool gram_add_alternative(struct schema_reader *x, int32_t node);

/* ---- gram_schema.c ---- */

/* A grammar with the nodes of any value; NULL: memory is out. */
struct rt_grammar *gram_open(void);
/* Adds the nodes of a schema to x->g. */
bool gram_read_schema(struct schema_reader *x, int32_t *root);
bool gram_check_schema(struct schema_reader *x, int32_t root, int32_t wide);
/* All but x->g. */
void gram_release_schema(struct schema_reader *x);

/* ---- gram_kinds.c ---- */

/* Of a list, those that are of a kind; of a constant, it. */
bool gram_fill_literals(struct schema_reader *x, int32_t node, int kinds);
/* Fills the node of a schema for values of one kind. */
bool gram_fill_kind(struct schema_reader *x, int32_t node, int kind);

#endif
