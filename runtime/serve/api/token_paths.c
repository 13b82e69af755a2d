/*
 * Tokens of prompts, and texts of tokens, in the form of vLLM's /tokenize and
 * /detokenize; see request.h.
 */
#include "runtime/serve/api/request.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens of a prompt ---- */

/* Whether the body has messages: looked for in a copy, which is changed as it
 * is read. */
static enum rt_status
has_messages(const struct rt_text *body, bool *yes, struct rt_error *err)
{
	char *copy = malloc(body->n + 1);
	struct rt_error ignored;
	struct rt_json j = { .text = copy, .len = body->n, .err = &ignored };
	const char *key;
	size_t i = 0;

	*yes = false;
	if (!copy) {
		return rt_no_memory(err, NULL);
	}
	memcpy(copy, body->at, body->n + 1);
	if (rt_json_open(&j, '{')) {
		while (rt_json_more(&j, '}', &i) && rt_json_key(&j, &key)) {
			*yes = *yes || strcmp(key, "messages") == 0;
			rt_json_skip(&j);
		}
	}
	free(copy);
	return RT_OK;
}

static void
write_tokens(const struct rt_ids *ids, int64_t context, struct rt_text *out)
{
	size_t i;

	rt_text_add(out, "{\"count\":%zu,\"max_model_len\":%" PRId64
		    ",\"tokens\":[", ids->n, context);
	for (i = 0; i < ids->n; i++) {
		rt_text_add(out, "%s%" PRIu32, i ? "," : "", ids->at[i]);
	}
	rt_text_add(out, "],\"token_strs\":null}");
}

enum rt_status
rt_tokens_of(struct rt_codec *c, int64_t context, struct rt_text *body,
	     struct rt_text *out, const char **model, struct rt_error *err)
{
	struct rt_request q;
	bool chat;
	enum rt_status status = has_messages(body, &chat, err);

	if (status != RT_OK) {
		return status;
	}
	status = rt_request_read(&q, chat, body->at, body->n, c, err);
	if (status == RT_OK && q.nprompts != 1) {
		status = rt_fail(err, RT_RANGE, RT_NOWHERE, "'prompt' is one "
				 "text or one list of tokens here");
	}
	if (status == RT_OK) {
		write_tokens(&q.ids, context, out);
		*model = q.model;
	}
	rt_request_release(&q);
	return status;
}

/* ---- the text of tokens ---- */

static bool
read_id(struct rt_codec *c, struct rt_json *j, struct rt_ids *ids)
{
	int64_t id;

	if (!rt_json_int(j, &id)) {
		return false;
	}
	if (id >= c->vocab) {
		return rt_json_fail(j, RT_RANGE, NULL, "'tokens' has the token "
			"%lld, and the model has 0 to %lld", (long long)id,
			(long long)c->vocab - 1);
	}
	if (!rt_ids_add(ids, (uint32_t)id)) {
		j->status = rt_no_memory(j->err, NULL);
	}
	return j->status == RT_OK;
}

static bool
read_member(struct rt_codec *c, struct rt_json *j, struct rt_ids *ids,
	    bool *found, const char **model)
{
	const char *key;
	size_t i = 0;

	if (!rt_json_key(j, &key)) {
		return false;
	}
	if (strcmp(key, "model") == 0) {
		return rt_json_null(j) || rt_json_string(j, model);
	}
	if (strcmp(key, "tokens") != 0) {
		return rt_json_fail(j, RT_RANGE, NULL, "there is no field "
			"'%s': 'tokens' and 'model' are there",
			rt_show_name(key).text);
	}
	if (*found) {
		return rt_json_fail(j, RT_RANGE, NULL, "'tokens' is there "
				    "twice");
	}
	*found = true;
	if (rt_json_peek(j) != '[') {
		return rt_json_fail(j, RT_RANGE, NULL, "'tokens' is a list of "
				    "tokens");
	}
	rt_json_open(j, '[');
	while (rt_json_more(j, ']', &i) && read_id(c, j, ids)) {
	}
	return j->status == RT_OK;
}

enum rt_status
rt_tokens_text(struct rt_codec *c, struct rt_text *body, struct rt_text *out,
	       const char **model, struct rt_error *err)
{
	struct rt_json j = { .text = body->at, .len = body->n, .err = err };
	struct rt_ids ids = { .alloc = rt_alloc_or_libc(NULL) };
	bool found = false;
	char *text = NULL;
	size_t n = 0, i = 0;

	if (rt_json_check_utf8(&j) && rt_json_open(&j, '{')) {
		while (rt_json_more(&j, '}', &i) &&
		       read_member(c, &j, &ids, &found, model)) {
		}
		rt_json_end(&j, " \t\r\n");
	}
	if (j.status == RT_OK && !found) {
		rt_json_fail(&j, RT_RANGE, NULL, "'tokens' is missing");
	}
	if (j.status == RT_OK && ids.n > 0) {
		j.status = rt_decode(c->tokenizer, ids.at, ids.n, false, &text,
				     &n, err);
	}
	if (j.status == RT_OK) {
		rt_text_add(out, "{\"prompt\":");
		rt_text_chars(out, text ? text : "", n);
		rt_text_add(out, "}");
	}
	free(text);
	rt_ids_release(&ids);
	return j.status;
}
