/*
 * Reads what requests are about: texts, tokens and conversations; see
 * request_reader.h.
 */
#include "runtime/serve/api/request_reader.h"

#include <stdlib.h>
#include <string.h>

/* ---- tokens ---- */

bool
rt_request_ids(struct request_reader *x, struct rt_ids *out)
{
	int64_t id;
	size_t i = 0;

	if (!rt_json_open(&x->j, '[')) {
		return false;
	}
	while (rt_json_more(&x->j, ']', &i)) {
		if (!rt_json_int(&x->j, &id)) {
			return false;
		}
		if (id >= x->codec->vocab) {
			return rt_json_fail(&x->j, RT_RANGE, x->start,
				"'%s' has the token %lld, and the model has "
				"0 to %lld", x->name, (long long)id,
				(long long)x->codec->vocab - 1);
		}
		if (!rt_ids_add(out, (uint32_t)id)) {
			return rt_request_no_memory(x);
		}
	}
	return x->j.status == RT_OK;
}

/* ---- prompts ---- */

static bool
end_prompt(struct request_reader *x, size_t before, const char *text, size_t n)
{
	struct rt_request *r = x->r;

	if (r->ids.n == before) {
		return rt_request_wrong(x, "empty: a prompt has at least one "
					   "token");
	}
	rt_text_bytes(&r->text, text, n);
	if (r->nprompts == RT_REQUEST_ANSWERS) {
		return rt_json_fail(&x->j, RT_RANGE, x->start, "'prompt' is "
			"more than the %d that a request may have",
			RT_REQUEST_ANSWERS);
	}
	r->text_ends[r->nprompts] = r->text.n;
	r->ends[r->nprompts++] = r->ids.n;
	return true;
}

static bool
read_text_prompt(struct request_reader *x)
{
	size_t before = x->r->ids.n, n;
	struct rt_error err = { .message = "" };
	const char *s;

	if (!rt_json_any_text(&x->j, &s, &n)) {
		return false;
	}
	if (rt_codec_encode(x->codec, s, n, true, &x->r->ids, &err) != RT_OK) {
		return rt_json_fail(&x->j, err.status, x->start, "%s",
				    err.message);
	}
	if (!end_prompt(x, before, s, n)) {
		return false;
	}
	x->r->is_text[x->r->nprompts - 1] = true;
	return true;
}

static bool
read_id_prompt(struct request_reader *x)
{
	size_t before = x->r->ids.n, n = 0;
	struct rt_error err = { .message = "" };
	char *text = NULL;
	bool ok = rt_request_ids(x, &x->r->ids);

	if (ok && x->r->ids.n > before &&
	    rt_decode(x->codec->tokenizer, x->r->ids.at + before,
		      x->r->ids.n - before, true, &text, &n, &err) != RT_OK) {
		ok = rt_json_fail(&x->j, err.status, x->start, "%s",
				  err.message);
	}
	ok = ok && end_prompt(x, before, text ? text : "", n);
	free(text);
	return ok;
}

/* The first byte that is no blank after an opening bracket. */
static int
peek_inside(const struct request_reader *x)
{
	const struct rt_json *j = &x->j;
	size_t at = j->at + 1;

	while (at < j->len && strchr(" \t\r\n", j->text[at]) && j->text[at]) {
		at++;
	}
	return at < j->len ? (unsigned char)j->text[at] : -1;
}

/* A text, tokens, or a list of either. */
bool
rt_request_prompts(struct request_reader *x)
{
	int c = rt_json_peek(&x->j), inside;
	size_t i = 0;

	x->has_prompt = true;
	if (c == '"') {
		return read_text_prompt(x);
	}
	if (c != '[') {
		return rt_request_wrong(
			x, "a text, a list of tokens, or a list of these");
	}
	inside = peek_inside(x);
	if (inside != '"' && inside != '[') {
		return read_id_prompt(x);
	}
	if (!rt_json_open(&x->j, '[')) {
		return false;
	}
	while (rt_json_more(&x->j, ']', &i)) {
		if (!(rt_json_peek(&x->j) == '[' ? read_id_prompt(x)
						 : read_text_prompt(x))) {
			return false;
		}
	}
	return x->j.status == RT_OK;
}

bool
rt_request_unframe(struct request_reader *x)
{
	struct rt_ids before = { .alloc = rt_alloc_or_libc(NULL) };
	struct rt_request *r = x->r;
	size_t from = 0, to = 0, n, i;

	if (!rt_encode_before(x->codec->tokenizer, &before)) {
		rt_ids_release(&before);
		return rt_request_no_memory(x);
	}
	for (i = 0; i < r->nprompts; i++) {
		from += r->is_text[i] ? before.n : 0;
		n = r->ends[i] - from;
		memmove(r->ids.at + to, r->ids.at + from,
			n * sizeof *r->ids.at);
		from = r->ends[i];
		r->ends[i] = to += n;
	}
	r->ids.n = to;
	rt_ids_release(&before);
	return true;
}

/* ---- messages ---- */

/* One part of a content: only texts are known, of which a refusal is one.
 * What else a client says of a part is about something else. */
static bool
read_text_part(struct request_reader *x, struct rt_text *to)
{
	const char *key, *type = "text", *text = NULL;
	size_t i = 0;
	bool ok = rt_json_open(&x->j, '{');

	while (ok && rt_json_more(&x->j, '}', &i)) {
		ok = rt_json_key(&x->j, &key);
		if (ok && strcmp(key, "type") == 0) {
			ok = rt_json_string(&x->j, &type);
		} else if (ok && (strcmp(key, "text") == 0 ||
				  strcmp(key, "refusal") == 0)) {
			ok = rt_json_string(&x->j, &text);
		} else if (ok) {
			ok = rt_json_skip(&x->j);
		}
	}
	if (!ok || x->j.status != RT_OK) {
		return false;
	}
	if (strcmp(type, "text") != 0 && strcmp(type, "refusal") != 0) {
		return rt_json_fail(&x->j, RT_RANGE, x->start, "'%s' has a "
			"part of a content that is '%s': here all are 'text'",
			x->name, rt_show_name(type).text);
	}
	if (!text) {
		return rt_request_wrong(x, "of contents whose parts have a "
					   "'text' each");
	}
	rt_text_add(to, "%s", text);
	return true;
}

/*
 * A text, or a list of parts, which are joined.  The joined text replaces the
 * list in the body: it is not longer.
 */
static bool
read_content(struct request_reader *x, const char **out)
{
	struct rt_text joined = { .alloc = rt_alloc_or_libc(NULL) };
	char *to = x->j.text + x->j.at;
	size_t i = 0;
	bool ok;

	*out = "";
	if (rt_json_null(&x->j)) {
		return true;
	}
	if (rt_json_peek(&x->j) != '[') {
		return rt_json_string(&x->j, out);
	}
	ok = rt_json_open(&x->j, '[');
	while (ok && rt_json_more(&x->j, ']', &i)) {
		ok = read_text_part(x, &joined);
	}
	ok = ok && x->j.status == RT_OK;
	if (joined.failed) {
		ok = rt_request_no_memory(x);
	}
	if (ok && joined.n > 0) {
		memcpy(to, joined.at, joined.n + 1);
		*out = to;
	}
	rt_text_release(&joined);
	return ok;
}

static bool
read_message(struct request_reader *x)
{
	struct rt_message m = { NULL };
	const char *key;
	size_t i = 0;
	bool ok = rt_json_open(&x->j, '{');

	while (ok && rt_json_more(&x->j, '}', &i)) {
		ok = rt_json_key(&x->j, &key);
		if (ok && strcmp(key, "role") == 0) {
			ok = rt_json_string(&x->j, &m.role);
		} else if (ok && strcmp(key, "content") == 0) {
			ok = read_content(x, &m.content);
		} else if (ok && strcmp(key, "tool_calls") == 0) {
			ok = rt_request_calls(x, &m);
		} else if (ok && (strcmp(key, "reasoning_content") == 0 ||
				  strcmp(key, "reasoning") == 0)) {
			ok = rt_json_null(&x->j) ||
			     rt_json_string(&x->j, &m.thought);
		} else if (ok && strcmp(key, "tool_call_id") == 0) {
			ok = rt_json_null(&x->j) ||
			     rt_json_string(&x->j, &m.call_id);
		} else if (ok) {
			ok = rt_json_skip(&x->j);
		}
	}
	if (!ok || x->j.status != RT_OK) {
		return false;
	}
	/* what calls functions need not say anything */
	m.content = m.content || m.ncalls == 0 ? m.content : "";
	if (!m.role || !m.content) {
		return rt_request_wrong(
			x, "a list of messages, each with a role and a "
			   "content");
	}
	if (x->r->nmessages == RT_REQUEST_MESSAGES) {
		return rt_request_wrong(x, "at most 4096 messages");
	}
	x->r->messages[x->r->nmessages++] = m;
	return true;
}

bool
rt_request_messages(struct request_reader *x)
{
	struct rt_request *r = x->r;
	size_t i = 0;

	x->has_prompt = true;
	if (!r->messages) {
		r->messages = calloc(RT_REQUEST_MESSAGES, sizeof *r->messages);
	}
	if (!r->messages) {
		return rt_request_no_memory(x);
	}
	if (!rt_json_open(&x->j, '[')) {
		return false;
	}
	while (rt_json_more(&x->j, ']', &i)) {
		if (!read_message(x)) {
			/* what is only of a value says where that is */
			if (strncmp(x->err->message, "found ", 6) == 0) {
				rt_request_blame(x, "'%s': message %zu: ",
						 x->name, i);
			}
			return false;
		}
	}
	return x->j.status == RT_OK;
}

bool
rt_request_conversation(struct request_reader *x)
{
	struct rt_text t = { .alloc = rt_alloc_or_libc(NULL) };
	struct rt_request *r = x->r;
	struct rt_conversation v = { .messages = r->messages,
		.n = r->nmessages, .calls = r->calls, .tools = r->tools.at,
		.ntools = rt_request_may_call(r) ? r->tools.n : 0,
		.json = r->tools.json.at ? r->tools.json.at : "",
		.no_answer = !r->begins, .goes_on = r->goes_on,
		.calls_next = rt_request_must_call(r),
		.reasoning = x->codec->reasoning, .thinks = r->thinks,
		.opens = r->thinks && r->grammar, .effort = r->effort };
	enum rt_status status;

	r->inside = rt_chat_is_inside(x->codec->chat, &v);
	/* where no thoughts begin, a schema holds for all of the answer */
	if (r->grammar && r->reasoning && !r->reasoning->channels) {
		r->reasoning = r->inside ? r->reasoning : NULL;
	}
	status = rt_chat_write(x->codec->chat, &v, &t, x->err);
	if (status == RT_RANGE && *x->err->message != '\'') {
		rt_request_blame(x, "'messages': ");
	} else if (status == RT_OK) {
		status = rt_codec_encode(x->codec, t.at ? t.at : "", t.n,
					 rt_chat_is_framed(x->codec->chat),
					 &r->ids, x->err);
	}
	rt_text_release(&t);
	x->j.status = status;
	r->ends[r->nprompts++] = r->ids.n;
	return status == RT_OK;
}
