/*
 * Private to gram_reader.c, gram_types.c, gram_kinds.c, gram_not.c, gram_if.c,
 * gram_schema.c and gram_calls.c: the schema that is read.
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
	ADDITIONAL, PATTERN_NAMES, PREFIX_ITEMS, ITEMS, MIN_ITEMS, MAX_ITEMS,
	UNIQUE_ITEMS, MIN_LENGTH, MAX_LENGTH, PATTERN, FORMAT, MINIMUM, MAXIMUM,
	ABOVE, BELOW, MULTIPLE, NOT, IF, THEN, ELSE, NKEYWORDS,
	SAYS_NOTHING = NKEYWORDS,
};

/* Any value, and any object: the first nodes of each grammar. */
enum { ANY_VALUE, ANY_STRING, ANY_NUMBER, ANY_WORD, ANY_ARRAY, ANY_OBJECT };

/* What `not` leaves out: values of these kinds, or some of them. */
struct gram_out {
	int kinds;
	int32_t first;		/* of those values; -1: all of the kinds */
	bool is_list;
};

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
	struct gram_out out;
	/* objects that have an `if`, and where it is */
	struct gram_if {
		int32_t node, value;
	} *ifs;
	int32_t nifs;
};

/* ---- gram_reader.c ---- */

bool gram_no_memory(struct schema_reader *x);
/* Fails: "#/PLACE in the schema ..".  Returns false. */
bool gram_wrong(struct schema_reader *x, int32_t value, const char *fmt, ...)
	RT_PRINTF(3, 4);
/* The node of a schema; -1: memory is out, or there are too many. */
int32_t gram_node_of(struct schema_reader *x, int32_t value);
struct gram_node *gram_node_at(struct schema_reader *x, int32_t node);
/* A name as it stands in a text, in quotes, to x->text. */
bool gram_write_name(struct schema_reader *x, const char *name);
/* The member of that name among those of a node, which are sorted; -1: none,
 * -2: memory is out. */
int32_t gram_find_member(struct schema_reader *x, const struct gram_node *n,
			 const char *name);
/* Adds a node as an alternative. */
bool gram_add_alternative(struct schema_reader *x, int32_t node);

/* ---- gram_types.c ---- */

/* The kinds that a `type` says; 0: it is wrong. */
int gram_kinds_of_type(struct schema_reader *x, int32_t v);
/* The kind of a value; of a whole number two. */
int gram_kind_of_value(const struct gram_value *v);

/* ---- gram_not.c ---- */

/* Finds x->out, of the schema that is read. */
bool gram_read_not(struct schema_reader *x);
/* The next of its values; -1: there is none. */
int32_t gram_next_out(const struct schema_reader *x, int32_t value);
/* Takes kinds away of which it leaves out all values. */
bool gram_leave_out_kinds(struct schema_reader *x, int *kinds);
/* Whether it leaves out a value, or true or false. */
bool gram_is_out(const struct schema_reader *x, int32_t value);
bool gram_is_word_out(const struct schema_reader *x, const char *word);
/* Numbers among its values, and whether a whole one is. */
int32_t gram_count_numbers_out(const struct schema_reader *x);
bool gram_is_number_out(const struct schema_reader *x, int64_t number);
/* Of a string its texts; of a number in bounds, which becomes a union of what
 * is between them, its numbers. */
bool gram_leave_out_texts(struct schema_reader *x, int32_t node);
bool gram_leave_out_numbers(struct schema_reader *x, int32_t node);

/* ---- gram_if.c ---- */

/* Takes away the kinds that an `if' leaves out, if there is one. */
bool gram_read_if(struct schema_reader *x, int *kinds);
/* Once all nodes are filled, makes two objects of each that has an `if`. */
bool gram_split_objects(struct schema_reader *x);

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
