/*
 * Reads requests: a row of the table for each field that a body may have.
 */
#include "runtime/serve/api/request_reader.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/serve/api/structured.h"

#define AT(m) offsetof(struct rt_request, m)

static const struct field fields[] = {
	{ "model", BOTH, NAME, AT(model), 0, 0 },
	{ "prompt", TEXT, PROMPT, 0, 0, 0 },
	{ "messages", CHAT, MESSAGES, 0, 0, 0 },
	{ "max_tokens", TEXT, WHOLE, AT(most), 0, 1e9 },
	{ "max_tokens", CHAT, WHOLE, AT(most), 1, 1e9 },
	{ "min_tokens", BOTH, WHOLE, AT(least), 0, 1e9 },
	{ "max_completion_tokens", CHAT, WHOLE, AT(most), 1, 1e9 },
	{ "temperature", BOTH, NUMBER, AT(draw.temperature), 0, 100 },
	{ "top_p", BOTH, NUMBER, AT(draw.top_p), 0, 1 },
	{ "top_k", BOTH, WHOLE, AT(draw.top_k), -1, 1e9 },
	{ "min_p", BOTH, NUMBER, AT(draw.min_p), 0, 1 },
	{ "repetition_penalty", BOTH, NUMBER, AT(draw.repetition), 0.01,
	  100 },
	{ "presence_penalty", BOTH, NUMBER, AT(draw.presence), -2, 2 },
	{ "frequency_penalty", BOTH, NUMBER, AT(draw.frequency), -2, 2 },
	{ "logit_bias", BOTH, BIAS, 0, -100, 100 },
	{ "seed", BOTH, SEED, AT(seed), 0, 0 },
	{ "n", BOTH, WHOLE, AT(n), 1, RT_REQUEST_ANSWERS },
	{ "stop", BOTH, STOP, 0, 0, 0 },
	{ "stop_token_ids", BOTH, STOP_IDS, 0, 0, 0 },
	{ "ignore_eos", BOTH, FLAG, AT(ignore_eos), 0, 0 },
	{ "include_stop_str_in_output", BOTH, FLAG, AT(keeps_stop), 0, 0 },
	{ "logprobs", TEXT, LOGPROBS, AT(top), 0, RT_TOP_MOST },
	{ "logprobs", CHAT, FLAG, AT(logprobs), 0, 0 },
	{ "top_logprobs", CHAT, WHOLE, AT(top), 0, RT_TOP_MOST },
	{ "response_format", BOTH, FORMAT, 0, 0, 0 },
	/* what llama.cpp and vLLM call the schema of an answer */
	{ "json_schema", BOTH, SCHEMA, 0, 0, 0 },
	{ "guided_json", BOTH, SCHEMA, 0, 0, 0 },
	{ "guided_regex", BOTH, PATTERN, 0, 0, 0 },
	{ "guided_choice", BOTH, CHOICES, 0, 0, 0 },
	{ "structured_outputs", BOTH, OUTPUTS, 0, 0, 0 },
	{ "tools", CHAT, TOOLS, 0, 0, 0 },
	{ "tool_choice", CHAT, TOOL_CHOICE, 0, 0, 0 },
	{ "parallel_tool_calls", CHAT, FLAG, AT(tools.several), 0, 0 },
	{ "echo", TEXT, FLAG, AT(echo), 0, 0 },
	{ "stream", BOTH, FLAG, AT(stream), 0, 0 },
	{ "stream_options", BOTH, STREAM_OPTIONS, AT(usage), 0, 0 },
	{ "user", BOTH, IGNORED, A_TEXT, 0, 0 },
	{ "metadata", BOTH, IGNORED, AN_OBJECT, 0, 0 },
	{ "store", BOTH, IGNORED, A_TRUTH, 0, 0 },
	{ "service_tier", BOTH, IGNORED, A_TEXT, 0, 0 },
	{ "safety_identifier", BOTH, IGNORED, A_TEXT, 0, 0 },
	{ "prompt_cache_key", BOTH, IGNORED, A_TEXT, 0, 0 },
	/* prompts that begin alike share their keys, and no answer shows it */
	{ "cache_prompt", BOTH, IGNORED, A_TRUTH, 0, 0 },
	{ "prompt_cache_retention", BOTH, IGNORED, A_TEXT, 0, 0 },
	/* of vLLM: answers have a name of their own, one way to follow a
	 * schema, and no special tokens that blanks could be between */
	{ "request_id", BOTH, IGNORED, A_TEXT, 0, 0 },
	{ "guided_decoding_backend", BOTH, IGNORED, A_TEXT, 0, 0 },
	{ "spaces_between_special_tokens", BOTH, IGNORED, A_TRUTH, 0, 0 },
	{ "skip_special_tokens", BOTH, ALWAYS, 0, 0, 0 },
	{ "include_reasoning", CHAT, SHOWS_REASONING, 0, 0, 0 },
	{ "reasoning_effort", CHAT, EFFORT, 0, 0, 0 },
	{ "add_special_tokens", TEXT, FLAG, AT(framed), 0, 0 },
	/* a template has what begins a conversation */
	{ "add_special_tokens", CHAT, REFUSED, A_TRUTH, 0, 0 },
	{ "add_generation_prompt", CHAT, FLAG, AT(begins), 0, 0 },
	{ "continue_final_message", CHAT, FLAG, AT(goes_on), 0, 0 },
	/* an answer to a conversation is what comes after it */
	{ "echo", CHAT, REFUSED, A_TRUTH, 0, 0 },
	{ "best_of", TEXT, WHOLE, AT(best_of), 1, RT_REQUEST_ANSWERS },
	{ "suffix", TEXT, REFUSED, A_TEXT, 0, 0 },
	{ "functions", CHAT, REFUSED, A_LIST, 0, 0 },
	{ "function_call", CHAT, REFUSED, A_TEXT | AN_OBJECT, 0, 1 },
	{ "modalities", CHAT, REFUSED, A_LIST, 0, 1 },
	{ "documents", CHAT, REFUSED, A_LIST, 0, 0 },
	{ "chat_template_kwargs", CHAT, TEMPLATE_KWARGS, 0, 0, 0 },
	{ "use_beam_search", BOTH, REFUSED, A_TRUTH, 0, 0 },
	{ "length_penalty", BOTH, REFUSED, A_NUMBER, 1, 0 },
	{ "priority", BOTH, REFUSED, A_NUMBER, 0, 0 },
	{ "bad_words", BOTH, REFUSED, A_LIST, 0, 0 },
	{ "allowed_token_ids", BOTH, REFUSED, A_LIST, 0, 0 },
	{ "return_token_ids", BOTH, REFUSED, A_TRUTH, 0, 0 },
	{ "return_tokens_as_token_ids", BOTH, REFUSED, A_TRUTH, 0, 0 },
	{ "return_token_strs", BOTH, REFUSED, A_TRUTH, 0, 0 },
};

#define NFIELDS (sizeof fields / sizeof *fields)

/* ---- what an answer follows ---- */

static bool
read_grammar(struct request_reader *x)
{
	struct rt_request *r = x->r;
	struct rt_grammar *g = NULL;
	bool ok;

	switch (x->field->kind) {
	case FORMAT:
		ok = rt_structured_format(&x->j, &g);
		break;
	case OUTPUTS:
		ok = rt_structured_outputs(&x->j, &g);
		break;
	case PATTERN:
		ok = rt_grammar_of_pattern(&g, &x->j) == RT_OK;
		break;
	case CHOICES:
		ok = rt_grammar_of_choices(&g, &x->j) == RT_OK;
		break;
	default:
		ok = rt_structured_schema(&x->j, &g);
		break;
	}
	if (ok && g && r->grammar) {
		rt_grammar_free(g);
		return rt_request_wrong(
			x, "a second one for an answer that has a schema");
	}
	r->grammar = g ? g : r->grammar;
	return ok;
}

/* ---- fields ---- */

static bool
read_stream_options(struct request_reader *x)
{
	const char *key;
	size_t i = 0;
	bool ok = true, obfuscates;	/* nothing here does */

	if (!rt_json_open(&x->j, '{')) {
		return false;
	}
	while (ok && rt_json_more(&x->j, '}', &i)) {
		if (!rt_json_key(&x->j, &key)) {
			return false;
		}
		if (rt_json_null(&x->j)) {
			continue;
		}
		if (strcmp(key, "include_usage") == 0) {
			ok = rt_json_bool(&x->j, &x->r->usage);
		} else if (strcmp(key, "continuous_usage_stats") == 0) {
			ok = rt_json_bool(&x->j, &x->r->usage_so_far);
		} else if (strcmp(key, "include_obfuscation") == 0) {
			ok = rt_json_bool(&x->j, &obfuscates);
		} else {
			return rt_request_wrong(x, "an object of "
				"'include_usage', 'continuous_usage_stats' "
				"and 'include_obfuscation'");
		}
	}
	return ok && x->j.status == RT_OK;
}

/* Of two fields that say how long an answer may be, the one that is only of
 * chats counts. */
static bool
read_whole(struct request_reader *x)
{
	struct rt_request *r = x->r;
	const char *before = r->most_field;
	int64_t most = r->most;

	if (x->field->at != AT(most)) {
		return rt_request_whole(x);
	}
	if (!rt_request_whole(x)) {
		return false;
	}
	if (before && strcmp(x->field->name, "max_tokens") == 0) {
		r->most = most;
	} else {
		r->most_field = x->field->name;
	}
	return true;
}

/* The types of JSON that a field may have, beside null. */
static unsigned
types_of(const struct field *f)
{
	static const unsigned types[] = {
		[FLAG] = A_TRUTH, [WHOLE] = A_NUMBER, [NUMBER] = A_NUMBER,
		[NAME] = A_TEXT, [STOP] = A_TEXT | A_LIST,
		[STOP_IDS] = A_LIST, [LOGPROBS] = A_NUMBER | A_TRUTH,
		[SEED] = A_NUMBER, [STREAM_OPTIONS] = AN_OBJECT,
		[PROMPT] = A_TEXT | A_LIST, [MESSAGES] = A_LIST,
		[BIAS] = AN_OBJECT, [FORMAT] = AN_OBJECT,
		[SCHEMA] = A_TRUTH | A_TEXT | AN_OBJECT, [PATTERN] = A_TEXT,
		[CHOICES] = A_LIST, [OUTPUTS] = AN_OBJECT, [TOOLS] = A_LIST,
		[TOOL_CHOICE] = A_TEXT | AN_OBJECT, [ALWAYS] = A_TRUTH,
		[EFFORT] = A_TEXT, [TEMPLATE_KWARGS] = AN_OBJECT,
		[SHOWS_REASONING] = A_TRUTH,
	};

	return f->kind == IGNORED || f->kind == REFUSED ? (unsigned)f->at
							 : types[f->kind];
}

static bool
read_field(struct request_reader *x)
{
	const struct field *f = x->field;
	void *to = (char *)x->r + f->at;
	bool yes;

	rt_json_peek(&x->j);
	x->start = x->j.text + x->j.at;
	if (f->kind != PROMPT && f->kind != MESSAGES && rt_json_null(&x->j)) {
		return true;
	}
	if (!rt_request_typed(x, types_of(f))) {
		return false;
	}
	switch (f->kind) {
	case FLAG:
		return rt_json_bool(&x->j, to);
	case WHOLE:
		return read_whole(x);
	case NUMBER:
		return rt_request_bounded(x, false, to);
	case NAME:
		return rt_json_string(&x->j, to);
	case STOP:
		return rt_request_stops(x);
	case STOP_IDS:
		return rt_request_ids(x, &x->r->stop_ids);
	case LOGPROBS:
		return rt_request_logprobs(x);
	case SEED:
		return rt_request_seed(x);
	case BIAS:
		return rt_request_biases(x);
	case FORMAT:
	case SCHEMA:
	case PATTERN:
	case CHOICES:
	case OUTPUTS:
		return read_grammar(x);
	case STREAM_OPTIONS:
		return read_stream_options(x);
	case PROMPT:
		return rt_request_prompts(x);
	case MESSAGES:
		return rt_request_messages(x);
	case TOOLS:
		return rt_request_tools(x);
	case TOOL_CHOICE:
		return rt_request_tool_choice(x);
	case EFFORT:
		return rt_request_effort(x);
	case TEMPLATE_KWARGS:
		return rt_request_template_kwargs(x);
	case SHOWS_REASONING:
		return rt_request_shows_reasoning(x);
	case ALWAYS:
		return rt_json_bool(&x->j, &yes) &&
		       (yes ||
			rt_request_wrong(x, "true here, and cannot be false"));
	case IGNORED:
		return rt_json_skip(&x->j);
	case REFUSED:
		return rt_request_refused(x);
	}
	return false;
}

static const struct field *
find_field(const char *name, int where)
{
	size_t i;

	for (i = 0; i < NFIELDS; i++) {
		if (fields[i].where & where &&
		    strcmp(fields[i].name, name) == 0) {
			return &fields[i];
		}
	}
	return NULL;
}

/* NULL: none is near. */
static const char *
nearest_field(const char *name, int where)
{
	size_t i, d, least = SIZE_MAX;
	const char *nearest = NULL;

	for (i = 0; i < NFIELDS; i++) {
		d = rt_edit_distance(name, fields[i].name);
		if (fields[i].where & where && d < least) {
			least = d;
			nearest = fields[i].name;
		}
	}
	return least <= strlen(name) / 2 ? nearest : NULL;
}

/* Whether a message is of a value, and does not say of which field: of JSON of
 * another kind, of a place in a schema, or of what answers may be. */
static bool
lacks_name(const char *message)
{
	static const char *const begin[] = { "found ", "#", "a choice ",
		"a pattern ", "there is nothing to choose" };
	size_t i;

	for (i = 0; i < sizeof begin / sizeof *begin; i++) {
		if (strncmp(message, begin[i], strlen(begin[i])) == 0) {
			return true;
		}
	}
	return false;
}

static bool
name_field(struct request_reader *x)
{
	if (lacks_name(x->err->message)) {
		rt_request_blame(x, "'%s': ", x->name);
	}
	return false;
}

/* What a field of another server is called here; NULL: it is not known. */
static const char *
name_here(const char *name)
{
	static const char *const names[][2] = {
		{ "n_predict", "max_tokens" },
		{ "num_predict", "max_tokens" },
		{ "max_new_tokens", "max_tokens" },
		{ "min_new_tokens", "min_tokens" },
		{ "repeat_penalty", "repetition_penalty" },
		{ "grammar", "json_schema" },
		{ "guided_grammar", "json_schema" },
	};
	size_t i;

	for (i = 0; i < sizeof names / sizeof *names; i++) {
		if (strcmp(name, names[i][0]) == 0) {
			return names[i][1];
		}
	}
	return NULL;
}

/* No field of this kind of request: one of the other, or of none. */
static bool
fail_unknown(struct request_reader *x, const char *key, int where)
{
	static const char *const paths[] = {
		[TEXT] = "/v1/completions", [CHAT] = "/v1/chat/completions",
	};

	const char *nearest = nearest_field(key, where);
	const char *ours = name_here(key);

	if (ours) {
		return rt_json_fail(&x->j, RT_RANGE, x->start, "there is no "
				    "field '%s'; here it is '%s'", key, ours);
	}
	if (find_field(key, BOTH)) {
		return rt_json_fail(&x->j, RT_RANGE, x->start, "'%s' is a "
				    "field of %s, and this is %s", key,
				    paths[BOTH - where], paths[where]);
	}
	return rt_json_fail(&x->j, RT_RANGE, x->start, "there is no field "
			    "'%s'%s%s%s", rt_show_name(key).text,
			    nearest ? "; the nearest is '" : "",
			    nearest ? nearest : "", nearest ? "'" : "");
}

static bool
read_body(struct request_reader *x)
{
	int where = x->r->chat ? CHAT : TEXT;
	bool was_read[NFIELDS] = { false };
	const char *key;
	size_t i = 0;

	if (!rt_json_check_utf8(&x->j) || !rt_json_open(&x->j, '{')) {
		return false;
	}
	while (rt_json_more(&x->j, '}', &i)) {
		x->start = x->j.text + x->j.at;
		if (!rt_json_key(&x->j, &key)) {
			return false;
		}
		x->field = find_field(key, where);
		if (!x->field) {
			/* a field of any server that says nothing */
			if (rt_json_null(&x->j)) {
				continue;
			}
			return fail_unknown(x, key, where);
		}
		x->name = x->field->name;
		if (was_read[x->field - fields]) {
			return rt_json_fail(&x->j, RT_RANGE, x->start, "'%s' "
				"is there twice", x->name);
		}
		was_read[x->field - fields] = true;
		if (!read_field(x)) {
			return name_field(x);
		}
	}
	return rt_json_end(&x->j, " \t\r\n");
}

/* Where an answer begins, in a conversation. */
static bool
check_begin(struct request_reader *x)
{
	const struct rt_request *r = x->r;

	if (r->goes_on && r->begins) {
		return rt_json_fail(&x->j, RT_RANGE, NULL,
			"'continue_final_message' goes on in the last message, "
			"so 'add_generation_prompt' is false beside it");
	}
	if (!r->begins && rt_request_must_call(r)) {
		return rt_json_fail(&x->j, RT_RANGE, NULL, "'tool_choice' asks "
			"for a call, which an answer begins with, so "
			"'add_generation_prompt' is true beside it");
	}
	return true;
}

static bool
check_request(struct request_reader *x)
{
	struct rt_request *r = x->r;

	if (!x->has_prompt) {
		return rt_json_fail(&x->j, RT_RANGE, NULL, "'%s' is missing",
				    r->chat ? "messages" : "prompt");
	}
	if (r->chat && !(check_begin(x) && rt_request_check_tools(x) &&
			 rt_request_check_reasoning(x) &&
			 rt_request_conversation(x))) {
		return false;
	}
	if (!r->framed && !rt_request_unframe(x)) {
		return false;
	}
	if ((int64_t)r->nprompts * r->n > RT_REQUEST_ANSWERS) {
		return rt_json_fail(&x->j, RT_RANGE, NULL, "%zu prompts and "
			"'n' = %lld are more than %d answers", r->nprompts,
			(long long)r->n, RT_REQUEST_ANSWERS);
	}
	if (r->best_of > 0 && r->best_of != r->n) {
		return rt_json_fail(&x->j, RT_RANGE, NULL, "'best_of' is %lld "
			"and 'n' is %lld: here no answers are left out, so "
			"leave 'best_of' out", (long long)r->best_of,
			(long long)r->n);
	}
	if (r->most == 0 && !(r->echo && r->logprobs)) {
		return rt_json_fail(&x->j, RT_RANGE, NULL, "'max_tokens' is at "
			"least 1, or 0 beside 'echo' and 'logprobs', which are "
			"of the prompt then");
	}
	if (r->top > 0 && !r->logprobs) {
		return rt_json_fail(&x->j, RT_RANGE, NULL, "'top_logprobs' "
			"asks for 'logprobs', too");
	}
	if (r->most > 0 && r->least > r->most) {
		return rt_json_fail(&x->j, RT_RANGE, NULL, "'min_tokens' is "
			"more than the tokens that an answer may have");
	}
	if (r->text.failed) {
		return rt_request_no_memory(x);
	}
	if (r->grammar &&
	    rt_codec_spellings(x->codec, rt_request_must_call(r),
			       &r->spellings, x->err) != RT_OK) {
		x->j.status = x->err->status;
		return false;
	}
	r->draw.top_k = r->draw.top_k < 0 ? 0 : r->draw.top_k;
	r->draw.ntop = r->logprobs ? r->top : -1;
	return true;
}

enum rt_status
rt_request_read(struct rt_request *r, bool chat, char *body, size_t n,
		struct rt_codec *c, struct rt_error *err)
{
	struct request_reader x = { .r = r, .codec = c, .err = err,
		.j = { .text = body, .len = n, .err = err } };

	*r = (struct rt_request){ .chat = chat, .n = 1, .most = -1,
		.begins = true, .framed = true, .shows_reasoning = true,
		.draw = rt_draw_plain(),
		.tools = { .several = true,
			   .json.alloc = rt_alloc_or_libc(NULL) },
		.stop_ids.alloc = rt_alloc_or_libc(NULL),
		.ids.alloc = rt_alloc_or_libc(NULL),
		.text.alloc = rt_alloc_or_libc(NULL),
		.body.alloc = rt_alloc_or_libc(NULL) };
	if (read_body(&x)) {
		check_request(&x);
	} else if (x.j.status == RT_FORMAT && *err->message != '\'') {
		rt_request_blame(&x, "the body, byte %lld: ",
				 (long long)err->offset);
	}
	return x.j.status;
}

void
rt_request_release(struct rt_request *r)
{
	rt_ids_release(&r->stop_ids);
	rt_ids_release(&r->ids);
	rt_text_release(&r->text);
	rt_text_release(&r->body);
	rt_grammar_free(r->grammar);
	free(r->biases);
	free(r->messages);
	rt_text_release(&r->tools.json);
	free(r->tools.at);
	free(r->calls);
}
