/*
 * Private to runtime/serve: calls of functions in the text of an answer.
 *
 * An answer is read as it comes, byte by byte: what it says, and what it calls.
 * A text is a call if it has the form of its template, and the name is that of
 * a tool; it is one from where its arguments begin and its name is known.
 * Anything else is said.  Where bytes come in parts makes no difference.
 */
#ifndef RT_CALLS_H
#define RT_CALLS_H

#include "runtime/grammar/grammar.h"
#include "runtime/serve/api/request.h"

/* The texts of answers that have to call one of n functions. */
enum rt_status rt_calls_grammar(const struct rt_call_form *f,
				const struct rt_grammar_function *functions,
				size_t n, bool several,
				struct rt_grammar **out, struct rt_error *err);

struct rt_calls;

/* Both others must outlive it; NULL: memory is out. */
struct rt_calls *rt_calls_open(const struct rt_call_form *f,
			       const struct rt_tools *tools);
void rt_calls_free(struct rt_calls *x);
/* Goes on in the text of the answer, which has n bytes. */
void rt_calls_read(struct rt_calls *x, const char *text, size_t n);
/* The same at its end: what may have become a call, and did not, is said. */
void rt_calls_end(struct rt_calls *x, const char *text, size_t n);
/* What the answer says, which is added to; `failed`: memory is out. */
const struct rt_text *rt_calls_said(const struct rt_calls *x);
/* How many calls there are, and how many of them have ended. */
size_t rt_calls_count(const struct rt_calls *x);
size_t rt_calls_ended(const struct rt_calls *x);
/* Whether there is something of calls that was not written. */
bool rt_calls_has_news(const struct rt_calls *x);
/* Appends all calls as a list, or what is new of them as a stream has it.
 * Their ids are made of a number. */
void rt_calls_write(const struct rt_calls *x, const char *text, uint64_t id,
		    struct rt_text *out);
void rt_calls_write_news(struct rt_calls *x, const char *text, uint64_t id,
			 struct rt_text *out);

#endif
