/*
 * Private to the reading of a pattern: the text, the tree that it becomes, and
 * what its three parts call of each other.
 */
#ifndef RT_TOK_REGEX_PARSE_H
#define RT_TOK_REGEX_PARSE_H

#include <string.h>

#include "runtime/tokenize/tok_regex.h"

enum { RE_FOREVER = -1, RE_MAX_TIMES = 1000 };

enum node_kind { EMPTY, SET, CAT, ALT, REPEAT, AHEAD, NOT_AHEAD };

struct re_node {
	enum node_kind kind;
	uint32_t a, b;		/* operands; a: the set */
	int least, most;	/* of REPEAT */
	bool lazy;
};

struct re_parser {
	struct rt_regex_program *p;
	const struct rt_alloc *alloc;
	const char *s;
	size_t n, at;
	struct rt_regex_error *e;
	struct re_node *nodes;
	size_t nnodes, cap;
	bool any_case;
	uint32_t before;	/* the letter before, of any case; 0: none */
	int depth;
};

/* The next byte, or -1 at the end. */
static inline int
re_peek(const struct re_parser *r)
{
	return r->at < r->n ? (unsigned char)r->s[r->at] : -1;
}

/* Goes behind this text if it is next. */
static inline bool
re_accept(struct re_parser *r, const char *text)
{
	size_t n = strlen(text);

	if (r->n - r->at < n || memcmp(r->s + r->at, text, n) != 0) {
		return false;
	}
	r->at += n;
	return true;
}

/* ---- characters and sets (tok_regex_chars.c) -------------------------- */

/* False, for the caller to return; `at` is where in the pattern. */
bool rt_regex_refuse(struct re_parser *r, size_t at, const char *what);
bool rt_regex_no_memory(struct re_parser *r);
/* An empty set. */
bool rt_regex_new_set(struct re_parser *r, uint32_t *set);
uint32_t rt_regex_next_char(struct re_parser *r);
/* What follows a backslash: a character, or a set that is added (*one is
 * false). */
bool rt_regex_escaped(struct re_parser *r, uint32_t set, uint32_t *c,
		      bool *one);
/* The set [..], after its bracket. */
bool rt_regex_bracket(struct re_parser *r, uint32_t *set);
/* Adds to a set what `.' is. */
bool rt_regex_all_but_line_end(struct re_parser *r, uint32_t set);
/* Adds to a set the character in its other cases; `start` is where it is. */
bool rt_regex_other_cases(struct re_parser *r, uint32_t set, uint32_t c,
			  size_t start);

/* ---- the program (tok_regex_program.c) -------------------------------- */

/* Appends what matches the tree, and the end of it. */
bool rt_regex_emit(struct re_parser *r, uint32_t root);

#endif
