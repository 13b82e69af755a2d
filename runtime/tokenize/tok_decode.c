/*
 * Ids to text: the tokens of the ids go through the decoders, one after the
 * other, and what is left is joined.
 */
#include "runtime/tokenize/tok.h"

#include <inttypes.h>
#include <string.h>

/* Tokens one after the other; where each ends. */
struct tok_texts {
	struct rt_bytes bytes;
	size_t *ends;
	size_t n, cap;
};

struct tok_decoder {
	const struct rt_tokenizer *t;
	bool part;		/* blanks at the start stay as they are */
	bool raw;		/* and bytes that are no UTF-8 */
	struct tok_texts now, next;
	struct tok_work work;
};

static const char replacement[] = "\xef\xbf\xbd";

static bool
end_text(struct tok_decoder *d, struct tok_texts *x)
{
	size_t cap, *more;

	if (x->n == x->cap) {
		cap = x->cap ? 2 * x->cap : 64;
		more = rt_resize(&d->t->alloc, x->ends, cap, sizeof *more);
		if (!more) {
			return false;
		}
		x->ends = more;
		x->cap = cap;
	}
	x->ends[x->n++] = x->bytes.n;
	return true;
}

static bool
add(struct tok_decoder *d, const char *s, size_t n)
{
	return rt_bytes_add(&d->t->alloc, &d->next.bytes, s, n);
}

static void
swap(struct tok_decoder *d)
{
	struct tok_texts x = d->now;

	d->now = d->next;
	d->next = x;
	d->next.n = d->next.bytes.n = 0;
}

/* ---- bytes that may be no UTF-8 ---------------------------------------- */

/*
 * How many bytes one U+FFFD stands for: as many as could begin a character
 * (Unicode 16, 3.9, table 3-8).
 */
static size_t
broken_bytes(const char *s, size_t n)
{
	size_t len = 1, k;
	char text[4];

	for (k = 2; k <= n && k <= 3; k++) {
		size_t i, whole;
		bool begins = false;

		memcpy(text, s, k);
		for (whole = k + 1; whole <= 4 && !begins; whole++) {
			for (i = k; i < whole; i++) {
				text[i] = (char)0x80;
			}
			begins = rt_utf8_len((unsigned char *)text, whole) ==
				 whole;
		}
		if (!begins) {
			break;
		}
		len = k;
	}
	return len;
}

static bool
add_lossy(struct tok_decoder *d, const char *s, size_t n)
{
	size_t at = 0, valid;
	bool ok = true;

	if (d->raw) {
		return add(d, s, n);
	}
	while (at < n && ok) {
		valid = rt_utf8_check(s + at, n - at);
		ok = add(d, s + at, valid);
		at += valid;
		if (at < n) {
			ok = ok && add(d, replacement, 3);
			at += broken_bytes(s + at, n - at);
		}
	}
	return ok;
}

/* ---- decoders --------------------------------------------------------- */

/* A token of the byte alphabet is its bytes, any other its text. */
static bool
byte_level(struct tok_decoder *d)
{
	const struct tok_texts *x = &d->now;
	struct rt_bytes all = { 0 };
	size_t i, at = 0, from = 0, len;
	bool ok = true;

	for (i = 0; i < x->n && ok; from = x->ends[i++]) {
		size_t before = all.n;
		int byte = 0;

		ok = rt_bytes_reserve(&d->t->alloc, &all, x->ends[i] - from);
		for (at = from; at < x->ends[i] && ok && byte >= 0;
		     at += len) {
			byte = rt_tok_byte_of_char(rt_utf8_get(
					x->bytes.at + at, &len));
			if (byte >= 0) {
				all.at[all.n++] = (char)byte;
			}
		}
		if (byte < 0) {
			all.n = before;
			ok = ok && rt_bytes_add(&d->t->alloc, &all,
				x->bytes.at + from, x->ends[i] - from);
		}
	}
	ok = ok && add_lossy(d, all.at, all.n) && end_text(d, &d->next);
	rt_release(&d->t->alloc, all.at);
	return ok;
}

/* The byte that a token such as <0x0A> stands for, or -1. */
static int
byte_of_token(const char *s, size_t n)
{
	static const char digits[] = "0123456789ABCDEF0123456789abcdef";
	const char *hi, *lo;

	if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') {
		return -1;
	}
	hi = memchr(digits, s[3], 32);
	lo = memchr(digits, s[4], 32);
	return hi && lo ? (int)((hi - digits) % 16 * 16 + (lo - digits) % 16)
			: -1;
}

/* Ends a run of bytes: a text if it is UTF-8 or may be none, else U+FFFD for
 * each. */
static bool
end_bytes(struct tok_decoder *d, struct rt_bytes *run)
{
	bool ok = true;
	size_t i;

	if (run->n == 0) {
		return true;
	}
	if (d->raw || rt_utf8_check(run->at, run->n) == run->n) {
		ok = add(d, run->at, run->n) && end_text(d, &d->next);
	} else {
		for (i = 0; i < run->n && ok; i++) {
			ok = add(d, replacement, 3) && end_text(d, &d->next);
		}
	}
	run->n = 0;
	return ok;
}

static bool
byte_fallback(struct tok_decoder *d)
{
	const struct tok_texts *x = &d->now;
	struct rt_bytes run = { 0 };
	size_t i, from = 0;
	bool ok = true;

	for (i = 0; i < x->n && ok; from = x->ends[i++]) {
		size_t n = x->ends[i] - from;
		int byte = byte_of_token(x->bytes.at + from, n);
		char c = (char)byte;

		if (byte >= 0) {
			ok = rt_bytes_add(&d->t->alloc, &run, &c, 1);
			continue;
		}
		ok = end_bytes(d, &run) && add(d, x->bytes.at + from, n) &&
		     end_text(d, &d->next);
	}
	ok = ok && end_bytes(d, &run);
	rt_release(&d->t->alloc, run.at);
	return ok;
}

static bool
strip(struct tok_decoder *d, const struct tok_part *p, const char *s,
      size_t n)
{
	size_t k = p->content_bytes, from = 0, to = n;
	int64_t i;

	for (i = 0; i < p->start && n - from >= k &&
	     memcmp(s + from, p->content, k) == 0; i++) {
		from += k;
	}
	for (i = 0; i < p->stop && to - from >= k &&
	     memcmp(s + to - k, p->content, k) == 0; i++) {
		to -= k;
	}
	return add(d, s + from, to - from);
}

/* Replacements are spaces; one that was put before the text is none. */
static bool
spaces(struct tok_decoder *d, const struct tok_part *p, const char *s,
       size_t n, bool first)
{
	size_t at = 0, k = p->content_bytes, len;
	bool ok = true;

	for (; at < n && ok; at += len) {
		rt_utf8_get(s + at, &len);
		if (len != k || memcmp(s + at, p->content, k) != 0) {
			ok = add(d, s + at, len);
		} else if (!first || !(p->always || p->first)) {
			ok = add(d, " ", 1);
		}
	}
	return ok;
}

/* What a decoder makes of each token by itself. */
static bool
each(struct tok_decoder *d, const struct tok_part *p)
{
	const struct tok_texts *x = &d->now;
	size_t i, from = 0;
	bool ok = true;

	for (i = 0; i < x->n && ok; from = x->ends[i++]) {
		const char *s = x->bytes.at + from;
		size_t n = x->ends[i] - from;
		bool first = i == 0 && !d->part;

		ok = p->type == TOK_STRIP ? strip(d, p, s, n)
			: p->type == TOK_METASPACE ? spaces(d, p, s, n, first)
			: rt_tok_replace(p, &d->t->alloc, s, n, &d->work,
					 &d->next.bytes) == RT_OK;
		ok = ok && end_text(d, &d->next);
	}
	return ok;
}

static bool
fuse(struct tok_decoder *d)
{
	return add(d, d->now.bytes.at, d->now.bytes.n) &&
	       end_text(d, &d->next);
}

static bool
decode_by(struct tok_decoder *d, const struct tok_part *p)
{
	bool ok;

	switch (p->type) {
	case TOK_BYTE_LEVEL:
		ok = byte_level(d);
		break;
	case TOK_BYTE_FALLBACK:
		ok = byte_fallback(d);
		break;
	case TOK_FUSE:
		ok = fuse(d);
		break;
	case TOK_STRIP:
		if (d->part) {
			return true;
		}
		ok = each(d, p);
		break;
	default:
		ok = each(d, p);
		break;
	}
	swap(d);
	return ok;
}

/* ---- the public functions --------------------------------------------- */

static enum rt_status
read_tokens(struct tok_decoder *d, const uint32_t *ids, size_t n, bool skip,
	    struct rt_error *err)
{
	const struct rt_tokenizer *t = d->t;
	bool ok = true;
	size_t i;

	for (i = 0; i < n && ok; i++) {
		int32_t added = ids[i] < t->limit ? t->added_by_id[ids[i]]
						   : -1;
		const struct tok_token *x = ids[i] < t->limit
			? t->by_id[ids[i]] : NULL;

		if (added < 0 && !x) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "found id "
				       "%" PRIu32 ", which is no token of %s",
				       ids[i], rt_show_path(t->name).text);
		}
		if (added >= 0 && skip && t->added[added].special) {
			continue;
		}
		ok = (added >= 0 ? add(d, t->added[added].content,
				       t->added[added].n)
		      : add(d, x->s, x->n)) && end_text(d, &d->next);
	}
	swap(d);
	return ok ? RT_OK : rt_no_memory(err, NULL);
}

/* Without a decoder tokens have spaces between them. */
static bool
join(struct tok_decoder *d)
{
	const struct tok_texts *x = &d->now;
	size_t i, from = 0;
	bool ok = true;

	for (i = 0; i < x->n && ok; from = x->ends[i++]) {
		ok = (i == 0 || d->t->decoder.n > 0 || add(d, " ", 1)) &&
		     add(d, x->bytes.at + from, x->ends[i] - from);
	}
	return ok && add(d, "", 1);
}

static enum rt_status
decode(struct tok_decoder d, const uint32_t *ids, size_t n, bool skip,
       char **text, size_t *text_bytes, struct rt_error *err)
{
	const struct rt_tokenizer *t = d.t;
	enum rt_status status;
	bool ok;
	size_t i;

	*text = NULL;
	for (i = 0; i < t->decoder.n; i++) {
		if (t->decoder.at[i].type == TOK_UNKNOWN) {
			return rt_fail(err, RT_FORMAT, (struct rt_where){
				t->name, NULL, t->decoder.at[i].at },
				"found decoder `%s`, which is not known here",
				rt_show_name(t->decoder.at[i].name).text);
		}
	}
	status = read_tokens(&d, ids, n, skip, err);
	if (status == RT_OK) {
		ok = true;
		d.work = rt_tok_work(d.now.bytes.n);
		for (i = 0; i < t->decoder.n && ok; i++) {
			ok = decode_by(&d, &t->decoder.at[i]);
		}
		ok = ok && join(&d);
		status = ok ? RT_OK
			: d.work.done > d.work.most ? rt_tok_too_much_work(err)
			: rt_no_memory(err, NULL);
	}
	if (status == RT_OK) {
		*text = d.next.bytes.at;
		*text_bytes = d.next.bytes.n - 1;
		d.next.bytes.at = NULL;
	}
	rt_release(&t->alloc, d.now.bytes.at);
	rt_release(&t->alloc, d.next.bytes.at);
	rt_release(&t->alloc, d.now.ends);
	rt_release(&t->alloc, d.next.ends);
	return status;
}

enum rt_status
rt_decode(const struct rt_tokenizer *t, const uint32_t *ids, size_t n,
	  bool skip, char **text, size_t *text_bytes, struct rt_error *err)
{
	return decode((struct tok_decoder){ .t = t }, ids, n, skip, text,
		      text_bytes, err);
}

/* Whether what follows the decoder of bytes takes any bytes as they are. */
static bool
may_be_raw(const struct tok_parts *decoder)
{
	bool made = false;
	size_t i;

	for (i = 0; i < decoder->n; i++) {
		enum tok_type type = decoder->at[i].type;

		if (made && type != TOK_FUSE && type != TOK_STRIP) {
			return false;
		}
		made = made || type == TOK_BYTE_LEVEL ||
		       type == TOK_BYTE_FALLBACK;
	}
	return made;
}

enum rt_status
rt_token_text(const struct rt_tokenizer *t, uint32_t id, bool raw,
	      char **text, size_t *n, struct rt_error *err)
{
	struct tok_decoder d = { .t = t, .part = true,
				 .raw = raw && may_be_raw(&t->decoder) };

	return decode(d, &id, 1, false, text, n, err);
}
