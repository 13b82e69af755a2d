/*
 * Reads the tools of requests, which of them may be called, and calls in
 * messages; see request_reader.h.
 *
 * What is passed on to a model is written as Hugging Face's templates write
 * JSON: on one line, a space after each comma and colon, and no escapes but
 * those that have to be.
 */
#include "runtime/serve/api/request_reader.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/serve/api/calls.h"

enum { DEPTH = 64, NAME_BYTES = 64 };

/* ---- JSON ---- */

static bool
copy_scalar(struct rt_json *j, struct rt_text *out)
{
	const char *s;
	size_t n;

	if (rt_json_peek(j) == '"') {
		if (rt_json_any_text(j, &s, &n)) {
			rt_text_chars(out, s, n);
		}
	} else if (rt_json_word(j, &s, &n)) {
		rt_text_bytes(out, s, n);
	}
	return j->status == RT_OK;
}

static bool
copy_key(struct rt_json *j, struct rt_text *out)
{
	const char *key;

	if (!rt_json_key(j, &key)) {
		return false;
	}
	rt_text_string(out, key);
	rt_text_add(out, ": ");
	return true;
}

/* Appends one value. */
static bool
copy_value(struct rt_json *j, struct rt_text *out)
{
	char ends[DEPTH];
	size_t n[DEPTH], depth = 0;
	int c;

	do {
		c = rt_json_peek(j);
		if (c != '{' && c != '[') {
			if (!copy_scalar(j, out)) {
				return false;
			}
		} else if (depth == DEPTH) {
			return rt_json_fail(j, RT_RANGE, NULL, "a value is "
				"nested more than %d deep", DEPTH);
		} else if (rt_json_open(j, (char)c)) {
			rt_text_add(out, "%c", c);
			ends[depth] = c == '{' ? '}' : ']';
			n[depth++] = 0;
		}
		while (depth > 0 && j->status == RT_OK &&
		       !rt_json_more(j, ends[depth - 1], &n[depth - 1]) &&
		       j->status == RT_OK) {
			rt_text_add(out, "%c", ends[--depth]);
		}
		if (depth > 0 && j->status == RT_OK) {
			rt_text_add(out, "%s", n[depth - 1] > 1 ? ", " : "");
			if (ends[depth - 1] == '}' && !copy_key(j, out)) {
				return false;
			}
		}
	} while (depth > 0 && j->status == RT_OK);
	return j->status == RT_OK;
}

/* The key of the next member of an object.  False: there is none. */
static bool
next_key(struct request_reader *x, size_t *i, const char **key)
{
	return rt_json_more(&x->j, '}', i) && rt_json_key(&x->j, key);
}

/* The same of an object that is copied; its key and what is between are
 * appended. */
static bool
next_member(struct request_reader *x, size_t *i, const char **key)
{
	struct rt_text *out = &x->r->tools.json;

	if (!next_key(x, i, key)) {
		return false;
	}
	rt_text_add(out, "%s", *i > 1 ? ", " : "");
	rt_text_string(out, *key);
	rt_text_add(out, ": ");
	return true;
}

/* ---- tools ---- */

static bool
is_name(const char *s)
{
	size_t n = strlen(s), i;

	for (i = 0; i < n; i++) {
		if (!((s[i] >= 'a' && s[i] <= 'z') ||
		      (s[i] >= 'A' && s[i] <= 'Z') ||
		      (s[i] >= '0' && s[i] <= '9') || s[i] == '_' ||
		      s[i] == '-' || s[i] == '.')) {
			return false;
		}
	}
	return n > 0 && n <= NAME_BYTES;
}

/* Whether its name is that of no tool before it. */
static bool
is_new(const struct rt_tools *t, const char *name)
{
	size_t i;

	for (i = 0; i < t->n; i++) {
		if (strcmp(t->at[i].name, name) == 0) {
			return false;
		}
	}
	return true;
}

static bool
read_name(struct request_reader *x, const char **out)
{
	if (!rt_json_string(&x->j, out)) {
		return false;
	}
	if (!is_name(*out)) {
		return rt_request_wrong(x, "of functions whose names have 1 to "
			"64 letters, digits, _, - and .");
	}
	if (!is_new(&x->r->tools, *out)) {
		return rt_json_fail(&x->j, RT_RANGE, x->start, "'tools' has "
				    "the function '%s' twice", *out);
	}
	rt_text_string(&x->r->tools.json, *out);
	return true;
}

/* Keeps the text, and appends it as any value. */
static bool
read_about(struct request_reader *x, struct rt_tool *t)
{
	if (rt_json_peek(&x->j) != '"') {
		return copy_value(&x->j, &x->r->tools.json);
	}
	if (!rt_json_any_text(&x->j, &t->about, &t->about_bytes)) {
		return false;
	}
	rt_text_chars(&x->r->tools.json, t->about, t->about_bytes);
	return true;
}

static bool
read_function(struct request_reader *x, struct rt_tool *t)
{
	struct rt_text *out = &x->r->tools.json;
	const char *key;
	size_t i = 0;
	bool ok = rt_json_open(&x->j, '{');

	t->function_from = out->n;
	rt_text_add(out, "{");
	while (ok && next_member(x, &i, &key)) {
		if (strcmp(key, "name") == 0) {
			ok = read_name(x, &t->name);
			continue;
		}
		if (strcmp(key, "description") == 0) {
			ok = read_about(x, t);
			continue;
		}
		if (strcmp(key, "parameters") == 0) {
			t->schema_from = out->n;
		}
		ok = copy_value(&x->j, out);
		if (strcmp(key, "parameters") == 0) {
			t->schema_to = out->n;
		}
	}
	rt_text_add(out, "}");
	t->function_to = out->n;
	return ok && x->j.status == RT_OK;
}

static bool
read_tool(struct request_reader *x)
{
	struct rt_tools *tools = &x->r->tools;
	struct rt_tool t = { .name = NULL, .from = tools->json.n };
	const char *key, *type;
	size_t i = 0;
	bool ok = rt_json_open(&x->j, '{');

	if (tools->n == RT_REQUEST_TOOLS) {
		return rt_request_wrong(x, "of at most 128 functions");
	}
	rt_text_add(&tools->json, "{");
	while (ok && next_member(x, &i, &key)) {
		if (strcmp(key, "function") == 0) {
			ok = read_function(x, &t);
			continue;
		}
		if (strcmp(key, "type") == 0 && rt_json_peek(&x->j) == '"') {
			ok = rt_json_string(&x->j, &type) &&
			     (strcmp(type, "function") == 0 ||
			      rt_request_wrong(x, "a list of functions: "
				"other types are not known here"));
			rt_text_add(&tools->json, "\"function\"");
		} else {
			ok = copy_value(&x->j, &tools->json);
		}
	}
	rt_text_add(&tools->json, "}");
	if (!ok || x->j.status != RT_OK) {
		return false;
	}
	if (!t.name) {
		return rt_request_wrong(x, "a list of functions, each with a "
					   "name");
	}
	t.to = tools->json.n;
	tools->at[tools->n++] = t;
	return true;
}

bool
rt_request_tools(struct request_reader *x)
{
	struct rt_tools *tools = &x->r->tools;
	size_t i = 0;

	tools->at = calloc(RT_REQUEST_TOOLS, sizeof *tools->at);
	if (!tools->at) {
		return rt_request_no_memory(x);
	}
	if (!rt_json_open(&x->j, '[')) {
		return false;
	}
	while (rt_json_more(&x->j, ']', &i)) {
		if (!read_tool(x)) {
			return false;
		}
	}
	return x->j.status == RT_OK;
}

/* ---- which may be called ---- */

static bool
wrong_choice(struct request_reader *x)
{
	return rt_request_wrong(x, "none, auto, required, or a function: "
		"{\"type\": \"function\", \"function\": {\"name\": ..}}");
}

static bool
read_word(struct request_reader *x)
{
	static const struct {
		const char *word;
		enum rt_tool_choice choice;
	} words[] = { { "none", RT_TOOLS_NONE }, { "auto", RT_TOOLS_AUTO },
		      { "required", RT_TOOLS_REQUIRED } };
	const char *s;
	size_t i;

	if (!rt_json_string(&x->j, &s)) {
		return false;
	}
	for (i = 0; i < sizeof words / sizeof *words; i++) {
		if (strcmp(s, words[i].word) == 0) {
			x->r->tools.choice = words[i].choice;
			return true;
		}
	}
	return wrong_choice(x);
}

static bool
read_named(struct request_reader *x)
{
	const char *key;
	size_t i = 0;

	if (!rt_json_open(&x->j, '{')) {
		return false;
	}
	while (next_key(x, &i, &key)) {
		if (strcmp(key, "name") != 0) {
			return wrong_choice(x);
		}
		if (!rt_json_string(&x->j, &x->r->tools.named)) {
			return false;
		}
	}
	return x->j.status == RT_OK;
}

bool
rt_request_tool_choice(struct request_reader *x)
{
	const char *key, *type = "function";
	size_t i = 0;

	if (rt_json_peek(&x->j) == '"') {
		return read_word(x);
	}
	if (rt_json_peek(&x->j) != '{') {
		return wrong_choice(x);
	}
	rt_json_open(&x->j, '{');
	while (next_key(x, &i, &key)) {
		if (strcmp(key, "type") == 0) {
			rt_json_string(&x->j, &type);
		} else if (strcmp(key, "function") == 0) {
			read_named(x);
		} else {
			wrong_choice(x);
		}
	}
	if (x->j.status == RT_OK &&
	    (!x->r->tools.named || strcmp(type, "function") != 0)) {
		return wrong_choice(x);
	}
	x->r->tools.choice = RT_TOOLS_NAMED;
	return x->j.status == RT_OK;
}

bool
rt_request_must_call(const struct rt_request *r)
{
	return r->tools.choice == RT_TOOLS_REQUIRED ||
	       r->tools.choice == RT_TOOLS_NAMED;
}

bool
rt_request_may_call(const struct rt_request *r)
{
	return r->tools.n > 0 && r->tools.choice != RT_TOOLS_NONE;
}

/* The grammar of an answer that has to call. */
static bool
make_grammar(struct request_reader *x)
{
	static const char none[] = "{\"type\": \"object\", "
				   "\"additionalProperties\": false}";
	struct rt_grammar_function f[RT_REQUEST_TOOLS];
	const struct rt_tools *t = &x->r->tools;
	struct rt_error err = { .message = "" };
	size_t n = 0, i;

	for (i = 0; i < t->n; i++) {
		size_t bytes = t->at[i].schema_to - t->at[i].schema_from;
		const char *s = t->json.at + t->at[i].schema_from;

		if (t->choice == RT_TOOLS_NAMED &&
		    strcmp(t->at[i].name, t->named) != 0) {
			continue;
		}
		/* one that says nothing, `{}` or null, is of no arguments */
		if (bytes <= 2 || (bytes == 4 && memcmp(s, "null", 4) == 0)) {
			s = none;
			bytes = strlen(none);
		}
		f[n] = (struct rt_grammar_function){ .name = t->at[i].name,
			.schema = s, .bytes = bytes };
		n++;
	}
	if (n == 0) {
		return rt_json_fail(&x->j, RT_RANGE, NULL, "'tool_choice' is "
			"a function that is not in 'tools'");
	}
	if (rt_calls_grammar(rt_chat_calls(x->codec->chat), f, n,
			     t->several && t->choice == RT_TOOLS_REQUIRED,
			     &x->r->grammar, &err) != RT_OK) {
		return rt_json_fail(&x->j, err.status, NULL, "'tools': %s",
				    err.message);
	}
	return true;
}

bool
rt_request_check_tools(struct request_reader *x)
{
	struct rt_request *r = x->r;

	if (r->tools.json.failed) {
		return rt_request_no_memory(x);
	}
	if (rt_request_must_call(r) && r->tools.n == 0) {
		return rt_json_fail(&x->j, RT_RANGE, NULL, "'tool_choice' asks "
			"for a call, and there are no 'tools'");
	}
	if (!rt_request_may_call(r)) {
		return true;
	}
	if (!x->codec->has_tools) {
		return rt_json_fail(&x->j, RT_RANGE, NULL, "'tools' are not "
			"known to the chat template of this model, '%s'; "
			"'tool_choice' may be none",
			rt_chat_name(x->codec->chat));
	}
	if (r->grammar) {
		return rt_json_fail(&x->j, RT_RANGE, NULL, "'tools' and a "
			"schema of answers do not go together here, unless "
			"'tool_choice' is none");
	}
	return !rt_request_must_call(r) || make_grammar(x);
}

/* ---- calls in messages ---- */

/* Arguments are a text of JSON, as in answers, or the object itself. */
static bool
read_arguments(struct request_reader *x, struct rt_past_call *c)
{
	struct rt_text *out = &x->r->tools.json;
	struct rt_error err = { .message = "" };
	struct rt_json inner = { .err = &err };
	const char *text;

	c->from = out->n;
	if (rt_json_peek(&x->j) != '"') {
		copy_value(&x->j, out);
	} else if (rt_json_any_text(&x->j, &text, &inner.len)) {
		/* the text stands in the body, which is changed as it is
		 * read */
		inner.text = x->j.text + (text - x->j.text);
		if (inner.len == 0) {
			rt_text_add(out, "{}");
		} else if (!copy_value(&inner, out) ||
			   !rt_json_end(&inner, " \t\r\n")) {
			rt_request_wrong(x, "a conversation in which the "
				"arguments of a call are no JSON");
		}
	}
	c->to = out->n;
	return x->j.status == RT_OK;
}

static bool
read_called(struct request_reader *x, struct rt_past_call *c)
{
	const char *key;
	size_t i = 0;

	if (!rt_json_open(&x->j, '{')) {
		return false;
	}
	while (next_key(x, &i, &key)) {
		if (strcmp(key, "name") == 0) {
			rt_json_string(&x->j, &c->name);
		} else if (strcmp(key, "arguments") == 0) {
			read_arguments(x, c);
		} else {
			rt_json_skip(&x->j);
		}
	}
	return x->j.status == RT_OK;
}

static bool
read_call(struct request_reader *x)
{
	struct rt_request *r = x->r;
	struct rt_past_call c = { .name = NULL };
	const char *key;
	size_t i = 0;

	if (!rt_json_open(&x->j, '{')) {
		return false;
	}
	while (next_key(x, &i, &key)) {
		if (strcmp(key, "id") == 0) {
			if (!rt_json_null(&x->j)) {
				rt_json_string(&x->j, &c.id);
			}
		} else if (strcmp(key, "function") == 0) {
			read_called(x, &c);
		} else {
			rt_json_skip(&x->j);
		}
	}
	if (x->j.status == RT_OK && (!c.name || c.to == c.from)) {
		rt_request_wrong(x, "a conversation in which a call has no "
				    "name or no arguments");
	}
	if (x->j.status == RT_OK && r->ncalls == RT_REQUEST_CALLS) {
		rt_request_wrong(x, "a conversation of at most 4096 calls");
	}
	if (x->j.status == RT_OK) {
		r->calls[r->ncalls++] = c;
	}
	return x->j.status == RT_OK;
}

bool
rt_request_calls(struct request_reader *x, struct rt_message *m)
{
	struct rt_request *r = x->r;
	size_t i = 0;

	/* clients send an answer back as it came, with null */
	if (rt_json_null(&x->j)) {
		return true;
	}
	if (!r->calls) {
		r->calls = calloc(RT_REQUEST_CALLS, sizeof *r->calls);
	}
	if (!r->calls) {
		return rt_request_no_memory(x);
	}
	m->first_call = r->ncalls;
	if (!rt_json_open(&x->j, '[')) {
		return false;
	}
	while (rt_json_more(&x->j, ']', &i)) {
		if (!read_call(x)) {
			return false;
		}
	}
	m->ncalls = r->ncalls - m->first_call;
	return x->j.status == RT_OK;
}
