/*
 * Private to runtime/serve: what a request says of the form of its answers.
 */
#ifndef RT_STRUCTURED_H
#define RT_STRUCTURED_H

#include "runtime/grammar/grammar.h"

/* A `response_format`; *out stays as it is where any text will do. */
bool rt_structured_format(struct rt_json *j, struct rt_grammar **out);
/* A schema, or a text that is one. */
bool rt_structured_schema(struct rt_json *j, struct rt_grammar **out);
/* vLLM's `structured_outputs`: one of json, json_object, regex and choice. */
bool rt_structured_outputs(struct rt_json *j, struct rt_grammar **out);

#endif
