/*
 * Logprobs of the tokens of an answer, and of a prompt that is echoed, in the
 * forms of chats and of texts; see reply.h.
 */
#include "runtime/serve/api/reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* JSON has no infinity: OpenAI's own answers have this instead. */
static double
json_logprob(double v)
{
	return isfinite(v) ? v : -9999;
}

/* Allocated; NULL: the tokenizer lacks the token, or memory is out. */
static char *
token_text(const struct rt_choice *c, int32_t token, bool raw, size_t *n,
	   struct rt_text *out)
{
	struct rt_error err;
	char *text = NULL;

	*n = 0;
	if (rt_token_text(c->stream.tokenizer, (uint32_t)token, raw, &text, n,
			  &err) == RT_NOMEM) {
		out->failed = true;
	}
	return text;
}

/* A vocabulary may be larger than its tokenizer: such a token has a number. */
static void
add_number(int32_t token, struct rt_text *out)
{
	rt_text_add(out, "\"token_id:%ld\"", (long)token);
}

static void
add_token_text(const struct rt_choice *c, int32_t token, struct rt_text *out)
{
	size_t n;
	char *text = token_text(c, token, false, &n, out);

	if (text) {
		rt_text_chars(out, text, n);
	} else {
		add_number(token, out);
	}
	free(text);
}

static void
add_token_bytes(const struct rt_choice *c, int32_t token, struct rt_text *out)
{
	size_t n, i;
	char *bytes = token_text(c, token, true, &n, out);

	rt_text_add(out, ",\"bytes\":%s", bytes ? "[" : "null");
	for (i = 0; i < n; i++) {
		rt_text_add(out, "%s%u", i ? "," : "",
			    (unsigned)(unsigned char)bytes[i]);
	}
	rt_text_add(out, "%s", bytes ? "]" : "");
	free(bytes);
}

static bool
is_utf8(const char *s, size_t n)
{
	size_t at = 0, len;

	while (at < n) {
		len = rt_utf8_len((const unsigned char *)s + at, n - at);
		if (len == 0) {
			return false;
		}
		at += len;
	}
	return true;
}

/*
 * What a token is called in lists of texts: its text; of a part of a character
 * its bytes, in OpenAI's form, so that tokens which differ have other names.
 */
static void
add_token_name(const struct rt_choice *c, int32_t token, struct rt_text *out)
{
	size_t n, i;
	char *s = token_text(c, token, true, &n, out);

	if (!s) {
		add_number(token, out);
	} else if (is_utf8(s, n)) {
		rt_text_chars(out, s, n);
	} else {
		rt_text_add(out, "\"bytes:");
		for (i = 0; i < n; i++) {
			bool plain = s[i] >= ' ' && s[i] <= '~' &&
				     s[i] != '"' && s[i] != '\\';

			rt_text_add(out, plain ? "%c" : "\\\\x%02x",
				    (unsigned)(unsigned char)s[i]);
		}
		rt_text_add(out, "\"");
	}
	free(s);
}

static void
add_chat_logprob(const struct rt_choice *c, int32_t token, double logprob,
		 struct rt_text *out)
{
	rt_text_add(out, "{\"token\":");
	add_token_text(c, token, out);
	add_token_bytes(c, token, out);
	rt_text_add(out, ",\"logprob\":%.9g", json_logprob(logprob));
}

/* Names that an object of likeliest tokens has: the i-th ends at ends[i]. */
struct token_names {
	struct rt_text names;
	size_t ends[RT_TOP_MOST + 1];
	int64_t n;
};

/* Whether a name, names[ends[i - 1]] .. names[ends[i] - 1], is there before. */
static bool
is_named(const char *names, const size_t *ends, int64_t i)
{
	size_t from = i ? ends[i - 1] : 0, n = ends[i] - from, at = 0;
	int64_t k;

	for (k = 0; k < i; at = ends[k++]) {
		if (ends[k] - at == n &&
		    memcmp(names + at, names + from, n) == 0) {
			return true;
		}
	}
	return false;
}

/* The next likeliest token, unless its name is there. */
static void
add_likely(const struct rt_choice *c, int32_t token, double logprob,
	   struct token_names *x, struct rt_text *out)
{
	size_t from = x->names.n;

	add_token_name(c, token, &x->names);
	x->ends[x->n] = x->names.n;
	if (x->names.failed || is_named(x->names.at, x->ends, x->n)) {
		x->names.n = from;
		return;
	}
	rt_text_add(out, "%s", x->n++ ? "," : "");
	rt_text_bytes(out, x->names.at + from, x->names.n - from);
	rt_text_add(out, ":%.9g", json_logprob(logprob));
}

/* The likeliest ones, and the token itself, which may be none of them.  An
 * object has a name once: of two tokens with one text the likelier one. */
static void
add_likeliest(const struct rt_choice *c, const struct rt_drawn *t,
	      struct rt_text *out)
{
	struct token_names x = { .names.alloc = out->alloc };
	int64_t i;

	rt_text_add(out, "{");
	for (i = 0; i < t->ntop; i++) {
		add_likely(c, t->top[i], t->top_logprob[i], &x, out);
	}
	add_likely(c, t->token, t->logprob, &x, out);
	rt_text_add(out, "}");
	out->failed = out->failed || x.names.failed;
	rt_text_release(&x.names);
}

/* Of texts; known = false: of the first token, which nothing comes before. */
static void
add_text_logprob(struct rt_choice *c, const struct rt_drawn *t, bool known)
{
	struct rt_text *l = c->logprobs;
	const char *comma = l[0].n ? "," : "";

	rt_text_add(&l[0], "%s", comma);
	add_token_name(c, t->token, &l[0]);
	rt_text_add(&l[3], "%s%zu", comma, c->offset);
	if (!known) {
		rt_text_add(&l[1], "null");
		rt_text_add(&l[2], "null");
		return;
	}
	rt_text_add(&l[1], "%s%.9g", comma, json_logprob(t->logprob));
	rt_text_add(&l[2], "%s", comma);
	add_likeliest(c, t, &l[2]);
}

/* The next token's text begins at this byte of the text. */
static void
go_on_to(struct rt_choice *c, size_t to)
{
	for (; c->counted < to; c->counted++) {
		/* bytes of a character, but for the first, are 10xxxxxx */
		c->offset += (c->text.at[c->counted] & 0xc0) != 0x80;
	}
}

/* Bytes of the text that is echoed that were not counted yet. */
static const char *
rest_of(const struct rt_choice *c, size_t *n)
{
	*n = c->echoed - c->counted;
	return *n ? c->text.at + c->counted : "";
}

/* A special token may stand before documents, and is in the text where the
 * client wrote it. */
static size_t
bytes_of_special(const struct rt_choice *c, const char *text, size_t n)
{
	size_t left;
	const char *at = rest_of(c, &left);

	return n <= left && memcmp(at, text, n) == 0 ? n : 0;
}

/* Bytes of the rest that are these, or are composed to them; 0: none are.
 * *part: these may be a part of a character of the rest. */
static size_t
bytes_like(const struct rt_choice *c, const char *text, size_t n, bool *part)
{
	size_t left;
	const char *at = rest_of(c, &left);

	*part = false;
	return n <= left && memcmp(at, text, n) == 0
		? n : rt_tokenizer_composed(c->stream.tokenizer, at, left,
					    text, n, part);
}

/*
 * The bytes that tokens of a prompt take of the text that is echoed, where
 * they are `text`, of n > 0 bytes.  A tokenizer may put a blank before words,
 * compose letters and marks, and take a character apart: then nothing of it is
 * counted until all its parts have come, which *part says.
 */
static size_t
bytes_echoed(const struct rt_choice *c, const char *text, size_t n, bool *part)
{
	size_t left, found = bytes_like(c, text, n, part);
	const char *at = rest_of(c, &left);

	if (found == 0 && !*part && *text == ' ' && n > 1) {
		found = bytes_like(c, text + 1, n - 1, part);
	}
	if (found > 0 || *part) {
		return found;
	}
	n -= *text == ' ' && *at != ' ';
	return n < left ? n : left;
}

/* Blanks that a token begins with; *all: it is nothing else. */
static size_t
blanks_of(const struct rt_choice *c, uint32_t token, bool *all,
	  struct rt_text *out)
{
	size_t n, k = 0;
	char *text = token_text(c, (int32_t)token, true, &n, out);

	while (k < n && text[k] == ' ') {
		k++;
	}
	*all = text && k == n;
	free(text);
	return k;
}

/*
 * Whether the blanks that a prompt's tokens begin with, from its i-th on, are
 * all of its text.  A tokenizer may put one there, which no decoder has, as the
 * text is decoded without the first.
 */
static bool
has_blanks(const struct rt_choice *c, int64_t i, struct rt_text *out)
{
	size_t at = c->counted, n = 0;
	bool all = true;
	int64_t nids;
	const uint32_t *ids = rt_choice_prompt(c, &nids);

	while (at < c->echoed && c->text.at[at] == ' ') {
		at++;
	}
	for (; i < nids && all && n <= at - c->counted &&
	       !rt_tokenizer_is_special(c->stream.tokenizer, ids[i]); i++) {
		n += blanks_of(c, ids[i], &all, out);
	}
	return n > 0 && n <= at - c->counted;
}

/* Before the first token that is not special: where its blank is of the text,
 * its text is that of such a token after another. */
static void
begin_prompt(struct rt_choice *c)
{
	int64_t n, i = 0;
	const uint32_t *ids = rt_choice_prompt(c, &n);
	struct rt_error err;
	bool whole;
	char *text;
	size_t len;

	while (rt_tokenizer_is_special(c->stream.tokenizer, ids[i])) {
		i++;
	}
	text = token_text(c, (int32_t)ids[i], true, &len, &c->text);
	whole = text && is_utf8(text, len);
	free(text);
	if (whole && has_blanks(c, i, &c->text) &&
	    rt_stream_begin(&c->prompt, &ids[i], 1, &err) != RT_OK) {
		c->text.failed = true;
	}
}

/*
 * Bytes of tokens that wait for the rest of a character.  Those that Unicode
 * takes apart have 12 at most; but a client may write any number of marks that
 * change places, and each look takes the square of what waits, or more.
 */
#define PART_MOST 32

/* Counts what tokens have said of the text that is echoed. */
static void
count_part(struct rt_choice *c)
{
	size_t n, left;
	bool part;

	if (c->part.failed) {
		c->text.failed = true;
		return;
	}
	n = bytes_echoed(c, c->part.at, c->part.n, &part);
	if (part && n == 0) {
		if (c->part.n <= PART_MOST) {
			return;
		}
		rest_of(c, &left);
		n = c->part.n < left ? c->part.n : left;
	}
	c->part.n = 0;
	go_on_to(c, c->counted + n);
}

/* The next token of a prompt that is echoed.  Its text comes as an answer's
 * does, in whole characters. */
static void
add_prompt_logprob(struct rt_choice *c, const struct rt_drawn *t, bool known)
{
	bool special = rt_tokenizer_is_special(c->stream.tokenizer, t->token);
	struct rt_error err;
	char *text = NULL;
	size_t n = 0;

	add_text_logprob(c, t, known);
	if (!special && c->prompt.ids.n == 0) {
		begin_prompt(c);
	}
	if (special) {
		text = token_text(c, t->token, false, &n, &c->text);
		c->part.n = 0;
		go_on_to(c, c->counted +
			    bytes_of_special(c, text ? text : "", n));
	} else if (rt_codec_text(&c->prompt, t->token, &text, &n, &err) !=
		   RT_OK) {
		c->text.failed = true;
	} else if (n > 0) {
		rt_text_bytes(&c->part, text, n);
		count_part(c);
	}
	free(text);
}

void
rt_logprobs_begin(struct rt_choice *c, int32_t token)
{
	struct rt_drawn first = { .token = token };

	add_prompt_logprob(c, &first, false);
}

void
rt_choice_score(struct rt_choice *c, const struct rt_drawn *t)
{
	add_prompt_logprob(c, t, true);
}

void
rt_logprobs_add(struct rt_choice *c, const struct rt_drawn *t)
{
	struct rt_text *l = c->logprobs;
	const char *comma = l[0].n ? "," : "";
	int64_t i;

	if (c->reply->request.chat) {
		rt_text_add(l, "%s", comma);
		add_chat_logprob(c, t->token, t->logprob, l);
		rt_text_add(l, ",\"top_logprobs\":[");
		for (i = 0; i < t->ntop; i++) {
			rt_text_add(l, "%s", i ? "," : "");
			add_chat_logprob(c, t->top[i], t->top_logprob[i], l);
			rt_text_add(l, "}");
		}
		rt_text_add(l, "]}");
		return;
	}
	go_on_to(c, c->echoed);
	add_text_logprob(c, t, true);
	go_on_to(c, c->text.n);
}

static const char *
or_nothing(const struct rt_text *t)
{
	return t->n ? t->at : "";
}

void
rt_logprobs_write(struct rt_choice *c, struct rt_text *out)
{
	struct rt_text *l = c->logprobs;
	int64_t k;

	if (!c->reply->request.logprobs || l[0].n == 0) {
		rt_text_add(out, "\"logprobs\":null");
	} else if (c->reply->request.chat) {
		rt_text_add(out, "\"logprobs\":{\"content\":[");
		rt_text_add(out, "%s", or_nothing(l));
		rt_text_add(out, "],\"refusal\":null}");
	} else {
		rt_text_add(out, "\"logprobs\":{\"tokens\":[%s],",
			    or_nothing(&l[0]));
		rt_text_add(out, "\"token_logprobs\":[%s],",
			    or_nothing(&l[1]));
		rt_text_add(out, "\"top_logprobs\":[%s],",
			    or_nothing(&l[2]));
		rt_text_add(out, "\"text_offset\":[%s]}", or_nothing(&l[3]));
	}
	for (k = 0; k < 4; k++) {
		out->failed = out->failed || l[k].failed;
		l[k].n = 0;
	}
}
