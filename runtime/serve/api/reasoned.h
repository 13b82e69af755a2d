/*
 * Private to runtime/serve: the text of an answer as what its model thinks and
 * what it says.
 *
 * Like calls of functions it is read as it comes, byte by byte, and where bytes
 * come in parts makes no difference.  Line ends around marks belong to these.
 */
#ifndef RT_REASONED_H
#define RT_REASONED_H

#include "runtime/serve/chat/reasoning.h"
#include "runtime/text.h"

struct rt_reasoned;

/* `inside`: the prompt ends in thoughts.  NULL: memory is out. */
struct rt_reasoned *rt_reasoned_open(const struct rt_reasoning *f,
				     bool inside);
void rt_reasoned_free(struct rt_reasoned *x);
/* Goes on in the text of the answer, which has n bytes; `ends`: it has no
 * more. */
void rt_reasoned_read(struct rt_reasoned *x, const char *text, size_t n,
		      bool ends);
/* What it thinks and says so far, which are added to; `failed`: memory is
 * out. */
const struct rt_text *rt_reasoned_thought(const struct rt_reasoned *x);
const struct rt_text *rt_reasoned_said(const struct rt_reasoned *x);
/* Whether it says all that comes from here on. */
bool rt_reasoned_is_over(const struct rt_reasoned *x);
/* Whether it has thoughts, if only their mark. */
bool rt_reasoned_thinks(const struct rt_reasoned *x);
/* All from a byte on is said, whatever it looks like, and nothing before. */
void rt_reasoned_say(struct rt_reasoned *x, size_t from);

#endif
