/*
 * Reads fields of requests that are numbers, tokens and texts; see
 * request_reader.h.
 */
#include "runtime/serve/api/request_reader.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
rt_request_wrong(struct request_reader *x, const char *expected)
{
	return rt_json_fail(&x->j, RT_RANGE, x->start, "'%s' is %s",
			    x->name, expected);
}

void
rt_request_blame(struct request_reader *x, const char *fmt, ...)
{
	char *message = x->err->message, what[96];
	size_t n;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	n = strlen(what);
	memmove(message + n, message, sizeof x->err->message - n);
	memcpy(message, what, n);
	message[sizeof x->err->message - 1] = '\0';
}

bool
rt_request_no_memory(struct request_reader *x)
{
	return rt_json_fail(&x->j, RT_NOMEM, NULL, "out of memory");
}

/* ---- numbers ---- */

/* A number may be infinite: one of more digits than there are. */
bool
rt_request_number(struct request_reader *x, double *out)
{
	const char *word;
	char *end;
	size_t n;

	if (!rt_json_word(&x->j, &word, &n)) {
		return false;
	}
	/* the reader knows the form of a number; what follows is none of it */
	*out = strtod(word, &end);
	return ((*word == '-' || (*word >= '0' && *word <= '9')) &&
		end == word + n) || rt_request_wrong(x, "a number");
}

bool
rt_request_bounded(struct request_reader *x, bool whole, double *out)
{
	const struct field *f = x->field;

	if (!rt_request_number(x, out)) {
		return false;
	}
	if (!(*out >= f->least && *out <= f->most) ||
	    (whole && *out != floor(*out))) {
		return rt_json_fail(&x->j, RT_RANGE, x->start, "'%s' is a "
			"%snumber from %.16g to %.16g", f->name,
			whole ? "whole " : "", f->least, f->most);
	}
	return true;
}

bool
rt_request_whole(struct request_reader *x)
{
	double v;

	if (!rt_request_bounded(x, true, &v)) {
		return false;
	}
	*(int64_t *)(void *)((char *)x->r + x->field->at) = (int64_t)v;
	return true;
}

/* Any whole number of 64 bits, with a sign or, up to 2^64 - 1, without. */
bool
rt_request_seed(struct request_reader *x)
{
	const char *word;
	char *end = NULL;
	int64_t v = 0;
	size_t n;

	if (!rt_json_word(&x->j, &word, &n)) {
		return false;
	}
	errno = 0;
	if (*word == '-') {
		v = strtoll(word, &end, 10);
	} else if (*word >= '0' && *word <= '9') {
		v = (int64_t)strtoull(word, &end, 10);
	}
	if (end != word + n || errno != 0) {
		return rt_request_wrong(x, "a whole number of 64 bits");
	}
	x->r->seed = v;
	x->r->has_seed = true;
	return true;
}

/* A number of alternatives, or a truth. */
bool
rt_request_logprobs(struct request_reader *x)
{
	bool yes;
	int c = rt_json_peek(&x->j);

	x->r->logprobs = true;
	if (c != 't' && c != 'f') {
		return rt_request_whole(x);
	}
	if (!rt_json_bool(&x->j, &yes)) {
		return false;
	}
	x->r->logprobs = yes;
	x->r->top = yes ? 1 : 0;
	return true;
}

/* ---- tokens ---- */

/* The token that a key names in digits. */
static bool
read_bias_token(struct request_reader *x, const char *key, int32_t *out)
{
	size_t n = strspn(key, "0123456789");
	int64_t id = n > 0 && n < 11 && !key[n] ? strtoll(key, NULL, 10)
						: INT64_MAX;

	if (id >= x->codec->vocab) {
		return rt_json_fail(&x->j, RT_RANGE, x->start, "'%s' has the "
			"token '%s', and the model has 0 to %lld",
			x->name, rt_show_name(key).text,
			(long long)x->codec->vocab - 1);
	}
	*out = (int32_t)id;
	return true;
}

/* An object: numbers by tokens. */
bool
rt_request_biases(struct request_reader *x)
{
	struct rt_request *r = x->r;
	const char *key;
	size_t i = 0;
	double v;

	r->biases = calloc(RT_REQUEST_BIASES, sizeof *r->biases);
	if (!r->biases) {
		return rt_request_no_memory(x);
	}
	if (!rt_json_open(&x->j, '{')) {
		return false;
	}
	while (rt_json_more(&x->j, '}', &i)) {
		struct rt_bias *b = &r->biases[r->draw.nbias];

		if (r->draw.nbias == RT_REQUEST_BIASES) {
			return rt_request_wrong(x, "of at most 1024 tokens");
		}
		if (!rt_json_key(&x->j, &key) ||
		    !read_bias_token(x, key, &b->token) ||
		    !rt_request_bounded(x, false, &v)) {
			return false;
		}
		b->logit = (float)v;
		r->draw.nbias++;
	}
	r->draw.bias = r->biases;
	return x->j.status == RT_OK;
}

/* ---- stops ---- */

static bool
add_stop(struct request_reader *x)
{
	struct rt_request *r = x->r;
	const char *s;

	if (!rt_json_string(&x->j, &s)) {
		return false;
	}
	if (r->nstops == RT_REQUEST_STOPS || !*s) {
		return rt_json_fail(&x->j, RT_RANGE, x->start, "'stop' is at "
			"most %d texts, none of them empty", RT_REQUEST_STOPS);
	}
	r->stops[r->nstops++] = s;
	return true;
}

bool
rt_request_stops(struct request_reader *x)
{
	size_t i = 0;

	if (rt_json_peek(&x->j) != '[') {
		return add_stop(x);
	}
	if (!rt_json_open(&x->j, '[')) {
		return false;
	}
	while (rt_json_more(&x->j, ']', &i)) {
		if (!add_stop(x)) {
			return false;
		}
	}
	return x->j.status == RT_OK;
}
