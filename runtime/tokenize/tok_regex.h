/*
 * Private to runtime/tokenize/: the regular expressions that tokenizers split
 * text by, as Hugging Face's package reads them (Oniguruma, Ruby's syntax).
 *
 * A pattern becomes a deterministic automaton, so that no text makes it
 * backtrack, and so that it is known which neighbours no match spans.  What the
 * published patterns use is accepted: alternatives in order, greedy and
 * lazy repetition, sets, categories of Unicode, letters without case, and a
 * look at the next character.  Everything else is refused by name.
 */
#ifndef RT_TOK_REGEX_H
#define RT_TOK_REGEX_H

#include "runtime/tokenize/tok_unicode.h"

enum {
	RT_REGEX_MAX_BYTES = 4096,	/* of a pattern */
	RT_REGEX_MAX_STATES = 2048,
	RT_REGEX_MAX_CLASSES = 200,
};

/* Why a pattern is refused. */
struct rt_regex_error {
	enum rt_status status;
	size_t at;		/* byte of the pattern */
	char message[160];
};

/* ---- the program of a pattern (tok_regex_parse.c, tok_regex_program.c) - */

enum rt_regex_kind { RT_RE_SET, RT_RE_SPLIT, RT_RE_JUMP, RT_RE_NEXT,
		     RT_RE_NOT_NEXT, RT_RE_MATCH };

struct rt_regex_op {
	enum rt_regex_kind kind;
	uint32_t x, y;	/* the set, or where to go on: x before y */
};

struct rt_regex_program {
	struct rt_regex_op *ops;
	size_t n, cap;
	struct rt_charset *sets;
	size_t nsets, sets_cap;
};

bool rt_regex_parse(struct rt_regex_program *p, const struct rt_alloc *a,
		    const char *pattern, size_t n, struct rt_regex_error *e);
void rt_regex_program_release(struct rt_regex_program *p,
			      const struct rt_alloc *a);

/* ---- the automaton (tok_regex.c) -------------------------------------- */

struct rt_regex;

/* NULL: *e says why. */
struct rt_regex *rt_regex_open(const struct rt_alloc *a, const char *pattern,
			       size_t n, struct rt_regex_error *e);
void rt_regex_free(struct rt_regex *r);

/*
 * The end of the match that begins at s + at, or `at` if there is none.
 * *work counts bytes that were looked at behind the end.
 */
size_t rt_regex_match(const struct rt_regex *r, const char *s, size_t n,
		      size_t at, size_t *work);

/*
 * Whether no match has both of two neighbours in it, and which match ends
 * with the first does not depend on whether the second is there.
 */
bool rt_regex_parts(const struct rt_regex *r, uint32_t a, uint32_t b);
/* Whether a match begins wherever the character begins one. */
bool rt_regex_always(const struct rt_regex *r, uint32_t c);
/* Whether a match may have the character in it. */
bool rt_regex_touches(const struct rt_regex *r, uint32_t c);

#endif
