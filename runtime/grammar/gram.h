/*
 * Private to runtime/grammar: schemas as trees, grammars as nodes, and where in
 * a grammar a text is.
 */
#ifndef RT_GRAM_H
#define RT_GRAM_H

#include "runtime/grammar/grammar.h"
#include "runtime/text.h"

/* ---- gram_tree.c: a text of JSON as a tree ---- */

enum gram_value_kind {
	GRAM_NULL, GRAM_BOOL, GRAM_DIGITS, GRAM_CHARS, GRAM_LIST, GRAM_MEMBERS,
};

enum {
	GRAM_DEPTH = 64,	/* of schemas, and of what is written */
	GRAM_VALUES = 1 << 15,	/* of a schema */
};

struct gram_value {
	enum gram_value_kind kind;
	int32_t parent, next, child;	/* -1: none */
	int32_t index;		/* in a list */
	const char *key;	/* of a member; or NULL */
	/* of texts and numbers, and true or false */
	const char *text;
	size_t n;
};

/* The root is value 0.  Texts are those of the reader. */
struct gram_tree {
	struct gram_value *at;
	int32_t n, cap;
};

/* Reads one value. */
bool gram_tree_read(struct gram_tree *t, struct rt_json *j);
void gram_tree_release(struct gram_tree *t);
/* The last member of that name; -1: there is none. */
int32_t gram_member(const struct gram_tree *t, int32_t of, const char *key);
/* Whether a value is that text, which has no NUL; the value may have some. */
bool gram_is_text(const struct gram_value *v, const char *text);
/* What a JSON pointer in a URI, "#/a/b", leads to; -1: nothing. */
int32_t gram_pointer(const struct gram_tree *t, const char *pointer);
/* Appends the pointer to a value. */
void gram_path(const struct gram_tree *t, int32_t value, struct rt_line *out);
/* Appends a value as JSON without blanks. */
void gram_write(const struct gram_tree *t, int32_t value, struct rt_text *out);

/* ---- gram_schema.c, gram_finish.c: grammars ---- */

enum gram_kind {
	GRAM_UNION,		/* one of its alternatives */
	GRAM_OBJECT, GRAM_ARRAY,
	GRAM_STRING,
	GRAM_NUMBER,		/* any */
	GRAM_RANGE,		/* a number without an exponent, in bounds */
	GRAM_LITERALS,		/* one of its texts */
	GRAM_NAMED,		/* a text, and its inner value after that */
	/* the root alone, and no JSON: one of its texts, or one of its
	 * pattern */
	GRAM_TEXT,
	/* the root alone: values with texts around them.  Of its texts the one
	 * of order 1 stands between two, and that of order 0, which may be
	 * empty, ends it. */
	GRAM_SERIES,
};

enum {
	GRAM_NODES = 1 << 12,
	GRAM_WAYS = 128,	/* alternatives, and ways to read a text */
	GRAM_PATTERN_WAYS = 8,	/* of these, those in a text of a pattern */
	GRAM_ENDLESS = 1 << 20,	/* height of what has no finite value */
	GRAM_DECIMALS = 6,	/* of numbers in bounds */
	GRAM_PATTERNS = 256,
};

/* Numbers in bounds are within these, times a power of 10. */
#define GRAM_LARGEST INT64_C(999999999999999999)

struct gram_node {
	enum gram_kind kind;
	/* other values follow its schema, too: those of kinds that it does not
	 * speak of, or that are too large or too deep for a grammar */
	bool partial;
	int32_t height;		/* of its value that is nested least */
	/* of characters, items, or the number itself, times 10^decimals;
	 * most = -1 of characters and items: any number */
	int64_t least, most;
	int32_t decimals;
	/* of an array its other items, of a series its items, of an object its
	 * other members, of what is named its value; -1: none */
	int32_t inner;
	/* that a string follows, or names of an object's other members; -1:
	 * none */
	int32_t pattern;
	/* alternatives, members in their order, the first items of an array,
	 * or nothing */
	int32_t first, n;
	/* literals, names of members, or what a string is not: sorted */
	int32_t text, ntexts;
};

/* An alternative, a member or an item. */
struct gram_part {
	int32_t node;
	bool required;
	/* the first member from here on that is required; n: none */
	int32_t next_required;
};

/* Of an object, the name of its member `order`. */
struct gram_text {
	char *at;
	size_t n;
	int32_t order;
};

enum { GRAM_PATTERN_RANGES = 64 };

/* Characters beyond ASCII, by their numbers. */
struct gram_range {
	uint32_t first, last;
};

/* Where a text of a pattern may be: places, as bits. */
struct gram_pattern {
	uint64_t first, last;	/* that it may begin and end at */
	bool empty;		/* the empty text follows it */
	uint64_t follow[64];	/* of each place, those after it */
	uint64_t accepts[128];	/* of each character, those that it leads to */
	/* the same of each of some ranges, which may overlap */
	struct gram_range beyond[GRAM_PATTERN_RANGES];
	uint64_t passes[GRAM_PATTERN_RANGES];
	int nbeyond;
	/* of characters of ASCII that need an escape: no text of it has them */
	uint64_t escaped;
};

/* The root is node `root`. */
struct rt_grammar {
	struct gram_node *nodes;
	struct gram_part *parts;
	struct gram_text *texts;
	struct gram_pattern *patterns;
	size_t nnodes, nodes_cap, nparts, parts_cap, ntexts, texts_cap;
	size_t npatterns, patterns_cap;
	int32_t root;
};

/* Nodes, parts and texts that are added; -1: memory is out. */
int32_t gram_add_node(struct rt_grammar *g, enum gram_kind kind);
bool gram_add_part(struct rt_grammar *g, int32_t node, bool required);
/* The text is copied. */
bool gram_add_text(struct rt_grammar *g, const char *s, size_t n,
		   int32_t order);
/* A new pattern, the last one; NULL: memory is out. */
struct gram_pattern *gram_add_pattern(struct rt_grammar *g);
/* Sorts the texts of a node; whether all are different. */
bool gram_sort_texts(struct rt_grammar *g, const struct gram_node *x);

/*
 * Replaces unions in unions by their alternatives, and finds heights.  *wide: a
 * union with more than GRAM_WAYS alternatives, or -1.  False: memory is out.
 */
bool gram_finish(struct rt_grammar *g, int32_t *wide);

/* ---- gram_apart.c: alternatives of which only one can hold ---- */

/* Whether it is known that no value that is written for one of two schemas
 * follows the other, once unions are finished. */
bool gram_are_apart(const struct rt_grammar *g, int32_t a, int32_t b);

/* ---- gram_ways.c: ways to read a text ---- */

enum gram_phase {
	GRAM_BEFORE,		/* a value */
	GRAM_OPEN,		/* after the bracket that begins one */
	GRAM_KEY, GRAM_COLON,
	GRAM_AFTER,		/* an item or a member */
	GRAM_COMMA,		/* that a member has to follow */
	GRAM_INSIDE,		/* a string or a literal */
	GRAM_ESCAPE, GRAM_HEX,
	/* of a number, after this part of it */
	GRAM_MINUS, GRAM_ZERO, GRAM_WHOLE, GRAM_POINT, GRAM_FRACTION,
	GRAM_E, GRAM_E_SIGN, GRAM_EXPONENT,
	GRAM_OVER,		/* all of the text is there */
};

/* One way to read the text so far: a value, and those around it. */
struct gram_way {
	int32_t node;
	int32_t up;		/* a frame: the way of what is around; or -1 */
	uint8_t phase, depth;
	uint8_t blanks;		/* 0: none; 1: a space; else a line's end */
	uint8_t rest, lo, hi;	/* bytes of a character, bounds of the next */
	uint32_t begun;		/* the bits of those that have come */
	bool extra;		/* a key: it may be that of another member */
	bool negative;		/* a number */
	/* texts that begin so; how many bytes, digits or hex digits */
	int32_t from, to, at;
	/* the value of a member; of a key, the first that is required */
	int32_t inner;
	/* characters, places in a pattern, items, the next member, or the
	 * number so far */
	int64_t count;
	int64_t places;		/* of a key, in the pattern of names */
};

/* Ways are a stack of levels: bytes that are tried are taken back. */
struct gram_ways {
	const struct rt_grammar *g;
	struct gram_way *at, *frames;
	size_t n, cap, nframes, frames_cap;
	bool failed;		/* memory is out */
};

void gram_ways_release(struct gram_ways *w);
/* Makes space for n ways; false: memory is out. */
bool gram_reserve(struct gram_ways *w, size_t n);
/* Whether a value may be so deep in others. */
bool gram_fits(const struct gram_ways *w, int32_t node, int depth);
/* Appends a way to a level, which begins at `from'.  Beyond GRAM_WAYS they are
 * left out, and so are ways of patterns beyond GRAM_PATTERN_WAYS: each way by
 * itself can be completed. */
void gram_add_way(struct gram_ways *w, size_t from,
		  const struct gram_way *way);
/* Appends the ways that begin a value, and those of a value in that of a
 * way. */
void gram_add_values(struct gram_ways *w, size_t from, int32_t node,
		     int32_t up, uint8_t depth);
void gram_add_inner(struct gram_ways *w, size_t from,
		    const struct gram_way *way, int32_t node);
/* The way of what is around a value that has ended. */
struct gram_way gram_end_of_value(const struct gram_ways *w,
				  const struct gram_way *way);
/* Appends that way. */
void gram_end_value(struct gram_ways *w, size_t from,
		    const struct gram_way *way);
/* Forgets frames that no way is in, of which there are none to come back to. */
void gram_forget(struct gram_ways *w);

/* ---- gram_string.c: texts of a list, and strings ---- */

/* Leaves the texts that go on by a byte. */
void gram_narrow(const struct rt_grammar *g, struct gram_way *way,
		 unsigned char byte);
/* Whether a text is there, to its end: it is the first of those left. */
bool gram_is_whole(const struct rt_grammar *g, const struct gram_way *way);
/* A byte of a character of UTF-8; *ended: its last one. */
bool gram_next_of_character(struct gram_way *way, unsigned char byte,
			    bool *ended);
/* A byte after the quote that begins a string. */
void gram_next_in_string(struct gram_ways *w, size_t from,
			 struct gram_way *way, unsigned char byte);

/* ---- gram_match.c: texts ---- */

/* Appends those of the empty text. */
void gram_begin(struct gram_ways *w);
/*
 * Appends what the ways from .. to - 1 become by a byte, at most GRAM_WAYS of
 * them; returns how many.
 */
size_t gram_next(struct gram_ways *w, size_t from, size_t to,
		 unsigned char byte);
/* Whether the text may end here. */
bool gram_may_end(const struct gram_ways *w, size_t from, size_t to);
/*
 * Whether a way is inside a string, so that any whole characters may follow
 * that need no escape: *chars_left of them, or any number for -1.
 */
bool gram_is_open(const struct gram_ways *w, const struct gram_way *way,
		  int64_t *chars_left);

/* ---- gram_tokens.c: vocabularies ---- */

/* Nodes of a tree of bytes, each before those below it. */
struct gram_trie {
	unsigned char *byte;
	uint16_t *depth;	/* 0: the first byte of a token */
	int32_t *end;		/* the node after all below it */
	int32_t *first;		/* its tokens: first[i] .. first[i + 1] - 1 */
	int32_t n;
	int32_t *token, ntokens;
};

struct rt_spellings {
	int64_t vocab;
	char **bytes;		/* of each token; NULL: none */
	size_t *lengths;
	size_t longest;
	struct gram_trie all;
	/* tokens that are not whole characters without an escape */
	struct gram_trie odd;
	/* characters of the others; 0: an odd one, or none */
	uint16_t *chars;
	uint16_t most_chars;
	uint64_t *plain;	/* a bit for each that is not odd */
};

/* ---- gram_pattern.c ---- */

/*
 * Reads a regular expression, of `whole` texts by its own marks or in any case;
 * what is wrong with it, or NULL, and *at which of its characters, from 1; 0:
 * with all of it.
 */
const char *gram_pattern_read(struct gram_pattern *p, const char *s, size_t n,
			      bool whole, size_t *at);
/*
 * Goes on by a byte that gram_next_of_character has taken, from no places at
 * the beginning; false: it may not follow.  Places change when a character
 * ends.
 */
bool gram_pattern_next(const struct gram_pattern *p, struct gram_way *way,
		       int64_t *places, unsigned char byte);
/* The same by any character of ASCII that needs an escape: no text of a pattern
 * has one, but names may. */
bool gram_pattern_next_escaped(const struct gram_pattern *p, int64_t *places);
bool gram_pattern_may_end(const struct gram_pattern *p, int64_t places);

/* ---- gram_number.c ---- */

/* Whether a number may go on by a byte, which is added. */
bool gram_number_next(const struct gram_node *x, struct gram_way *way,
		      unsigned char byte);
bool gram_number_may_end(const struct gram_node *x,
			 const struct gram_way *way);
/* A number's text times 10^decimals, rounded up or down; what is beyond
 * GRAM_LARGEST is GRAM_LARGEST + 1. */
int64_t gram_scaled(const char *text, size_t n, int32_t decimals, bool up,
		    bool *exact);

#endif
