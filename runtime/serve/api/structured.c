/*
 * Forms of answers, as OpenAI, llama.cpp and vLLM spell them; see structured.h.
 */
#include "runtime/serve/api/structured.h"

#include <string.h>

static bool
wrong(struct rt_json *j, const char *what)
{
	return rt_json_fail(j, RT_RANGE, NULL, "'response_format' %s", what);
}

bool
rt_structured_schema(struct rt_json *j, struct rt_grammar **out)
{
	struct rt_json inner = { .err = j->err };
	const char *text;

	if (rt_json_peek(j) != '"') {
		return rt_grammar_of_schema(out, j) == RT_OK;
	}
	if (!rt_json_any_text(j, &text, &inner.len)) {
		return false;
	}
	/* the text stands in the body, which is changed as it is read */
	inner.text = j->text + (text - j->text);
	if (rt_grammar_of_schema(out, &inner) == RT_OK &&
	    !rt_json_end(&inner, " \t\r\n")) {
		rt_grammar_free(*out);
		*out = NULL;
	}
	j->status = inner.status;
	return j->status == RT_OK;
}

/* A schema, of which there is one. */
static bool
read_schema(struct rt_json *j, struct rt_grammar **g)
{
	if (*g) {
		return wrong(j, "has two schemas");
	}
	return rt_grammar_of_schema(g, j) == RT_OK;
}

/* What OpenAI puts around a schema: its name, and whether it is strict, which
 * all are here. */
static bool
read_named(struct rt_json *j, struct rt_grammar **g)
{
	const char *key, *text;
	size_t i = 0;
	bool yes;

	if (!rt_json_open(j, '{')) {
		return false;
	}
	while (rt_json_more(j, '}', &i)) {
		if (!rt_json_key(j, &key)) {
			return false;
		}
		if (strcmp(key, "schema") == 0) {
			read_schema(j, g);
		} else if (rt_json_null(j)) {
			continue;
		} else if (strcmp(key, "name") == 0 ||
			   strcmp(key, "description") == 0) {
			rt_json_string(j, &text);
		} else if (strcmp(key, "strict") == 0) {
			rt_json_bool(j, &yes);
		} else {
			wrong(j, "has more beside a schema than its name, "
			      "description and strict");
		}
	}
	return j->status == RT_OK;
}

/* Takes what was read as what its type says. */
static bool
take(struct rt_json *j, const char *type, struct rt_grammar *g,
     struct rt_grammar **out)
{
	bool text = type && strcmp(type, "text") == 0;
	bool object = type && strcmp(type, "json_object") == 0;

	if (!text && !object && (!type || strcmp(type, "json_schema") != 0)) {
		return wrong(j, "has a type: text, json_object or "
			     "json_schema");
	}
	if (text && g) {
		return wrong(j, "is a text, which has no schema");
	}
	if (!g && !text && !object) {
		return wrong(j, "has no schema");
	}
	if (!g && object) {
		j->status = rt_grammar_of_object(&g, j->err);
	}
	*out = g ? g : *out;
	return j->status == RT_OK;
}

bool
rt_structured_format(struct rt_json *j, struct rt_grammar **out)
{
	const char *key, *type = NULL;
	struct rt_grammar *g = NULL;
	size_t i = 0;

	if (!rt_json_open(j, '{')) {
		return false;
	}
	while (rt_json_more(j, '}', &i)) {
		if (!rt_json_key(j, &key)) {
			break;
		}
		if (strcmp(key, "type") == 0) {
			rt_json_string(j, &type);
		} else if (strcmp(key, "json_schema") == 0) {
			read_named(j, &g);
		} else if (strcmp(key, "schema") == 0) {
			read_schema(j, &g);
		} else {
			wrong(j, "has a type and a json_schema, and no more");
		}
	}
	if (j->status == RT_OK && take(j, type, g, out)) {
		return true;
	}
	rt_grammar_free(g);
	return false;
}

/* The value of one of the members that say what an answer follows. */
static bool
read_output(struct rt_json *j, const char *key, struct rt_grammar **g)
{
	bool yes;

	if (strcmp(key, "json") == 0) {
		return rt_structured_schema(j, g);
	}
	if (strcmp(key, "regex") == 0) {
		return rt_grammar_of_pattern(g, j) == RT_OK;
	}
	if (strcmp(key, "choice") == 0) {
		return rt_grammar_of_choices(g, j) == RT_OK;
	}
	if (strcmp(key, "json_object") != 0) {
		return rt_json_fail(j, RT_RANGE, NULL, "'structured_outputs' "
			"has one of json, json_object, regex and choice, found "
			"'%s'", rt_show_name(key).text);
	}
	if (rt_json_bool(j, &yes) && yes) {
		j->status = rt_grammar_of_object(g, j->err);
	}
	return j->status == RT_OK;
}

bool
rt_structured_outputs(struct rt_json *j, struct rt_grammar **out)
{
	struct rt_grammar *g = NULL, *more;
	const char *key;
	size_t i = 0;

	if (!rt_json_open(j, '{')) {
		return false;
	}
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		more = NULL;
		if (rt_json_null(j)) {
			continue;
		}
		if (!read_output(j, key, &more)) {
			break;
		}
		if (g && more) {
			rt_grammar_free(more);
			rt_json_fail(j, RT_RANGE, NULL, "'structured_outputs' "
				     "has two forms of an answer");
			break;
		}
		g = more ? more : g;
	}
	if (j->status != RT_OK) {
		rt_grammar_free(g);
		return false;
	}
	*out = g;
	return true;
}
