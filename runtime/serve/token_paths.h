/*
 * Private to runtime/serve: what a prompt is in tokens, and tokens as a text.
 */
#ifndef RT_TOKEN_PATHS_H
#define RT_TOKEN_PATHS_H

#include "runtime/serve/request.h"

/*
 * Bodies of two paths, which are changed; answers are appended to `out`.
 * rt_tokens_of() takes a prompt or a conversation as other paths do, and
 * rt_tokens_text() a list of tokens.  *model is the name that the body says,
 * or NULL, and lasts as long as the body.  RT_FORMAT and RT_RANGE are the
 * client's fault.
 */
enum rt_status rt_tokens_of(struct rt_codec *c, int64_t context,
			    struct rt_text *body, struct rt_text *out,
			    const char **model, struct rt_error *err);
enum rt_status rt_tokens_text(struct rt_codec *c, struct rt_text *body,
			      struct rt_text *out, const char **model,
			      struct rt_error *err);

#endif
