/*
 * Answers that follow a JSON schema, a pattern or a list of texts: which tokens
 * may come next.
 *
 * A schema becomes a grammar over bytes.  A guide follows the tokens of one
 * answer, and knows after each of them which may come: those whose bytes keep
 * the answer a beginning of a text of the grammar.  Each such beginning can be
 * completed, so there is always one, if the vocabulary has each byte as a token
 * of its own.  What a guide allows depends on the bytes so far and on nothing
 * else.
 *
 * A grammar has fewer texts than its schema has values, and no others: members
 * stand in the order of `properties`, numbers have a bounded number of digits,
 * values are nested at most 64 deep, and between two marks stands nothing, a
 * space, or a line's end and an indent.
 *
 * The folder includes runtime/.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef RT_GRAMMAR_H
#define RT_GRAMMAR_H

#include "runtime/json.h"

/* ---- schemas (gram_schema.c) -------------------------------------------- */

/* Never changes once it is there; any number of threads may use it. */
struct rt_grammar;

/*
 * Reads a value of JSON, which is a schema.  RT_RANGE: it asks for what is not
 * known here, or no value follows it; the message says where.
 */
enum rt_status rt_grammar_of_schema(struct rt_grammar **out, struct rt_json *j);
/* Any object. */
enum rt_status rt_grammar_of_object(struct rt_grammar **out,
				    struct rt_error *err);
void rt_grammar_free(struct rt_grammar *g);

/* ---- texts that are no JSON (gram_texts.c) ------------------------------ */

/* One of a list of texts.  RT_RANGE: one has nothing or control characters, or
 * is there twice. */
enum rt_status rt_grammar_of_choices(struct rt_grammar **out,
				     struct rt_json *j);
/* All of a text follows a regular expression, which is a string of JSON.
 * RT_RANGE: it is not known here. */
enum rt_status rt_grammar_of_pattern(struct rt_grammar **out,
				     struct rt_json *j);

/* ---- calls of functions (gram_calls.c) ---------------------------------- */

struct rt_grammar_function {
	const char *name;	/* letters, digits, `_`, `-` and `.` */
	/* JSON: the schema of its arguments, whose values are objects */
	const char *schema;
	size_t bytes;
};

/* Texts that call functions.  A call is {"name": .., ARGUMENTS: {..}}, or a
 * name with texts around it and its arguments after that. */
struct rt_grammar_calls {
	const struct rt_grammar_function *functions;
	size_t n;		/* at least 1 */
	const char *arguments;	/* the name of that member */
	/* around a name that is no member, with at most 64 bytes each; or
	 * NULL */
	const char *before_name, *after_name;
	bool several;		/* 1 to 128 calls; else one */
	bool list;		/* they are a list of JSON */
	/* otherwise: after the last one, which may be nothing, and between two;
	 * NULL: there is one call, and nothing after it */
	const char *after, *between;
};

/* RT_RANGE: as of a schema; the message names the function. */
enum rt_status rt_grammar_of_calls(struct rt_grammar **out,
				   const struct rt_grammar_calls *c,
				   struct rt_error *err);

/* ---- vocabularies (gram_tokens.c) --------------------------------------- */

/* The bytes of each token, as a tree.  Never changes once it is there. */
struct rt_spellings;

/*
 * `bytes` returns those of a token, allocated by the C library; NULL or none of
 * them: it is never allowed.  RT_RANGE: not each byte of UTF-8 is a token, so
 * that some text cannot be completed.
 */
enum rt_status rt_spellings_open(struct rt_spellings **out, int64_t vocab,
				 char *(*bytes)(void *user, int64_t token,
						size_t *n),
				 void *user, struct rt_error *err);
void rt_spellings_free(struct rt_spellings *s);

/* ---- guides (gram_guide.c) ---------------------------------------------- */

struct rt_guide;

/* Both others must outlive it. */
enum rt_status rt_guide_open(struct rt_guide **out, const struct rt_grammar *g,
			     const struct rt_spellings *s,
			     struct rt_error *err);
void rt_guide_free(struct rt_guide *x);
/*
 * Sets bit i % 64 of word i / 64 for each token i that may come next, and
 * clears all others.  *may_end: the answer may end here.
 */
enum rt_status rt_guide_allow(struct rt_guide *x, uint64_t *bits,
			      bool *may_end, struct rt_error *err);
/* The next token, which must be allowed.  *over: nothing may follow. */
enum rt_status rt_guide_take(struct rt_guide *x, int64_t token, bool *over,
			     struct rt_error *err);

#endif
