/*
 * Whether a model has space for what a request asks; see request.h.
 */
#include "runtime/serve/api/request.h"

/* The tokens that an answer may have, if the request does not say. */
static int64_t
default_most(const struct rt_request *r, int64_t rest)
{
	return r->chat || rest < 16 ? rest : 16;
}

/* What was asked, what there is, and what to change.  Clients know such errors
 * by the words `maximum context length`. */
static enum rt_status
fail_length(const struct rt_request *r, int64_t nprompt, int64_t longest,
	    struct rt_error *err)
{
	const char *prompt = r->chat ? "messages" : "prompt";
	long long n = nprompt, most = longest;

	if (nprompt >= longest) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "'%s' has %lld "
			"tokens, and this model's maximum context length is "
			"%lld, of which an answer needs one: shorten it to "
			"%lld tokens", prompt, n, most, most - 1);
	}
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "'%s' is %lld, '%s' has %lld "
		"token%s, and this model's maximum context length is %lld: "
		"ask for %lld at most, or shorten '%s'", r->most_field,
		(long long)r->most, prompt, n, n > 1 ? "s" : "", most,
		most - n, prompt);
}

enum rt_status
rt_request_fit(struct rt_request *r, int64_t longest, int64_t vocab,
	       bool *too_long, struct rt_error *err)
{
	int64_t from = 0, n = 0, i, length;

	*too_long = false;
	for (i = 0; i < (int64_t)r->nprompts; i++) {
		length = (int64_t)r->ends[i] - from;
		from = (int64_t)r->ends[i];
		n = length > n ? length : n;
		if (length < 1) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "'%s' is "
				"empty: a prompt has at least one token",
				r->chat ? "messages" : "prompt");
		}
	}
	if (n >= longest || (r->most > 0 && r->most > longest - n)) {
		*too_long = true;
		return fail_length(r, n, longest, err);
	}
	for (i = 0; i < (int64_t)r->ids.n; i++) {
		if (r->ids.at[i] >= vocab) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "the "
				"tokenizer made token %lu, and the model has "
				"0 to %lld", (unsigned long)r->ids.at[i],
				(long long)vocab - 1);
		}
	}
	r->most = r->most >= 0 ? r->most : default_most(r, longest - n);
	return RT_OK;
}
