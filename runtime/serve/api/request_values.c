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

/* ---- types ---- */

static const char *const type_names[] = {
	"a number", "true or false", "a text", "a list", "an object",
};

#define NTYPES (sizeof type_names / sizeof *type_names)

/* By the first byte of a value; NTYPES: it begins none, or is null. */
static size_t
type_of(int c)
{
	return c == '-' || (c >= '0' && c <= '9') ? 0
		: c == 't' || c == 'f' ? 1
		: c == '"' ? 2 : c == '[' ? 3 : c == '{' ? 4 : NTYPES;
}

bool
rt_request_typed(struct request_reader *x, unsigned types)
{
	size_t found = type_of(rt_json_peek(&x->j)), i;
	char legal[64] = "";
	size_t n = 0;

	/* what begins no value is told by its reader */
	if (found < NTYPES ? types >> found & 1 : !rt_json_null(&x->j)) {
		return true;
	}
	for (i = 0; i < NTYPES; i++) {
		if (types >> i & 1) {
			n += (size_t)snprintf(legal + n, sizeof legal - n,
					      "%s%s", n ? " or " : "",
					      type_names[i]);
		}
	}
	return rt_json_fail(&x->j, RT_RANGE, x->start, "'%s' is %s, found %s",
			    x->name, legal,
			    found < NTYPES ? type_names[found] : "null");
}

/* A list without elements, or of texts, which all answers are. */
static bool
lists_nothing(struct request_reader *x, bool *nothing)
{
	const char *text;
	size_t i = 0;

	*nothing = rt_json_open(&x->j, '[');
	while (rt_json_more(&x->j, ']', &i)) {
		if (x->field->most == 0 || rt_json_peek(&x->j) != '"') {
			*nothing = false;
			rt_json_skip(&x->j);
		} else if (rt_json_string(&x->j, &text)) {
			*nothing = *nothing && strcmp(text, "text") == 0;
		}
	}
	return x->j.status == RT_OK;
}

bool
rt_request_refused(struct request_reader *x)
{
	const char *text;
	bool ok, nothing = false;
	size_t i = 0;
	double v;

	switch (type_of(rt_json_peek(&x->j))) {
	case 0:
		ok = rt_request_number(x, &v);
		nothing = ok && v == x->field->least;
		break;
	case 1:
		ok = rt_json_bool(&x->j, &nothing);
		nothing = !nothing;
		break;
	case 2:
		ok = rt_json_string(&x->j, &text);
		nothing = ok && (!*text ||
				 (x->field->most > 0 &&
				  (strcmp(text, "none") == 0 ||
				   strcmp(text, "auto") == 0)));
		break;
	case 3:
		ok = lists_nothing(x, &nothing);
		break;
	default:
		ok = rt_json_open(&x->j, '{');
		nothing = !rt_json_more(&x->j, '}', &i);
		ok = x->j.status == RT_OK;
		break;
	}
	return ok && (nothing ||
		      rt_request_wrong(x, "not known here: leave it out"));
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
