/*
 * Text to ids: added tokens are found, what is between them is normalized and
 * searched for normalized ones, and what is between those is cut into pieces
 * by the pre-tokenizers, one after the other, which become ids.
 */
#include "runtime/tokenize/tok.h"

#include <string.h>

struct rt_encoder {
	const struct rt_tokenizer *t;
	struct tok_bpe *bpe;
	struct rt_bytes text;	/* a copy with slack */
	struct tok_buffers normal;
	struct rt_bytes piece[TOK_MAX_PARTS];	/* what each step changed */
	struct rt_ids *out;
	enum rt_status status;
	struct tok_work work;
};

/* A piece of text on its way through the pre-tokenizers. */
struct tok_piece {
	const char *s;
	size_t n;
	bool zero;	/* its first byte is the document's */
	bool whole;	/* nothing was cut off before it */
};

static void split_piece(struct rt_encoder *e, size_t step,
			const struct tok_piece *p);

enum rt_status
rt_encoder_open(struct rt_encoder **out, const struct rt_tokenizer *t,
		struct rt_error *err)
{
	struct rt_encoder *e = rt_resize(&t->alloc, NULL, 1, sizeof *e);

	*out = NULL;
	if (!e) {
		return rt_no_memory(err, NULL);
	}
	memset(e, 0, sizeof *e);
	e->t = t;
	e->bpe = rt_tok_bpe_open(t);
	if (!e->bpe) {
		rt_encoder_free(e);
		return rt_no_memory(err, NULL);
	}
	*out = e;
	return RT_OK;
}

void
rt_encoder_free(struct rt_encoder *e)
{
	const struct rt_alloc *a;
	size_t i;

	if (!e) {
		return;
	}
	a = &e->t->alloc;
	rt_tok_bpe_free(e->bpe);
	rt_release(a, e->text.at);
	rt_release(a, e->normal.at[0].at);
	rt_release(a, e->normal.at[1].at);
	for (i = 0; i < TOK_MAX_PARTS; i++) {
		rt_release(a, e->piece[i].at);
	}
	rt_release(a, e);
}

static void
note(struct rt_encoder *e, enum rt_status status)
{
	e->status = e->status == RT_OK ? status : e->status;
}

/* ---- pre-tokenizers --------------------------------------------------- */

/* Passes on a part of a piece, if it is not empty. */
static void
pass_on(struct rt_encoder *e, size_t step, const struct tok_piece *p,
	size_t from, size_t to)
{
	struct tok_piece q = { p->s + from, to - from, p->zero && from == 0,
			       p->whole || from > 0 };

	if (to > from && e->status == RT_OK) {
		split_piece(e, step + 1, &q);
	}
}

/* Cuts a piece by what a part matches, as its behaviour has it. */
static void
split_by(struct rt_encoder *e, size_t step, const struct tok_piece *p)
{
	const struct tok_part *part = &e->t->pretokenizer.at[step];
	/* of what was found and not yet passed on: where it began */
	size_t from = 0, at = 0, to, end;
	bool was_match = false;

	while (at < p->n && e->status == RT_OK) {
		bool match;

		to = rt_tok_search(part, p->s, p->n, at, &end, &e->work);
		if (e->work.done > e->work.most) {
			note(e, RT_RANGE);
			return;
		}
		match = to == at;
		end = match ? end : to;
		match ^= part->invert;
		/* [at, end) is a match or what lies between two */
		if ((part->how == TOK_CONTIGUOUS && at > 0 &&
		     match != was_match) || part->how == TOK_ISOLATED ||
		    part->how == TOK_REMOVED ||
		    (part->how == TOK_PREVIOUS && (!match || was_match)) ||
		    (part->how == TOK_NEXT && (match || !was_match))) {
			pass_on(e, step, p, from, at);
			from = at;
		}
		if (part->how == TOK_REMOVED && match) {
			from = end;
		}
		was_match = match;
		at = end;
	}
	pass_on(e, step, p, from, p->n);
}

/* Puts a space before a piece that has none. */
static void
prefix_space(struct rt_encoder *e, size_t step, struct tok_piece *p)
{
	struct rt_bytes *b = &e->piece[step];

	b->n = 0;
	if (!rt_bytes_add(&e->t->alloc, b, " ", 1) ||
	    !rt_bytes_add(&e->t->alloc, b, p->s, p->n)) {
		note(e, RT_NOMEM);
		return;
	}
	p->s = b->at;
	p->n = b->n;
}

/* Writes spaces as the replacement, and puts one more before. */
static void
write_spaces(struct rt_encoder *e, size_t step, struct tok_piece *p)
{
	const struct tok_part *part = &e->t->pretokenizer.at[step];
	const struct rt_alloc *a = &e->t->alloc;
	struct rt_bytes *b = &e->piece[step];
	const char *s = p->s, *hit, *end = p->s + p->n;
	bool begins = p->n > 0 && (*s == ' ' ||
		(p->n >= part->content_bytes &&
		 memcmp(s, part->content, part->content_bytes) == 0));
	bool ok = true;

	b->n = 0;
	if (p->whole && !begins && (part->always || (part->first && p->zero))) {
		ok = rt_bytes_add(a, b, part->content, part->content_bytes);
	}
	while (ok && s < end) {
		hit = memchr(s, ' ', (size_t)(end - s));
		hit = hit ? hit : end;
		ok = rt_bytes_add(a, b, s, (size_t)(hit - s)) &&
		     (hit == end || rt_bytes_add(a, b, part->content,
						 part->content_bytes));
		s = hit + (hit < end);
	}
	p->s = b->at;
	p->n = b->n;
	note(e, ok ? RT_OK : RT_NOMEM);
}

/* Cuts before each replacement. */
static void
split_spaces(struct rt_encoder *e, size_t step, const struct tok_piece *p)
{
	const struct tok_part *part = &e->t->pretokenizer.at[step];
	size_t from = 0, at, n = part->content_bytes;

	for (at = 0; at + n <= p->n; at++) {
		if (memcmp(p->s + at, part->content, n) == 0) {
			pass_on(e, step, p, from, at);
			from = at;
			at += n - 1;
		}
	}
	pass_on(e, step, p, from, p->n);
}

static void
split_piece(struct rt_encoder *e, size_t step, const struct tok_piece *in)
{
	const struct tok_part *part = &e->t->pretokenizer.at[step];
	struct tok_piece p = *in;

	if (step == e->t->pretokenizer.n) {
		note(e, rt_tok_bpe_add(e->bpe, p.s, p.n, e->out));
		return;
	}
	if (part->type == TOK_METASPACE) {
		write_spaces(e, step, &p);
		if (part->split && e->status == RT_OK) {
			split_spaces(e, step, &p);
			return;
		}
	} else if (part->type == TOK_BYTE_LEVEL) {
		if (part->always && p.whole && *p.s != ' ') {
			prefix_space(e, step, &p);
		}
		if (part->use_regex && e->status == RT_OK) {
			split_by(e, step, &p);
			return;
		}
	} else {
		split_by(e, step, &p);
		return;
	}
	pass_on(e, step, &p, 0, p.n);
}

/* ---- added tokens and what is between --------------------------------- */

/* A stretch that is normalized and has no added tokens. */
static void
encode_plain(struct rt_encoder *e, const struct tok_piece *p)
{
	if (p->n > 0 && e->status == RT_OK) {
		split_piece(e, 0, p);
	}
}

typedef void stretch_fn(struct rt_encoder *e, const struct tok_piece *p);

/* Finds the tokens of one kind, and does what is done with the rest. */
static void
find_added(struct rt_encoder *e, const struct tok_matcher *m,
	   const struct tok_piece *p, stretch_fn *rest)
{
	struct tok_match x;
	size_t at = 0, done = 0;

	while (m->any && e->status == RT_OK &&
	       rt_tok_next_added(e->t, m, p->s, p->n, &at, done, &x)) {
		struct tok_piece q = { p->s + done, x.from > done ?
				       x.from - done : 0,
				       p->zero && done == 0,
				       p->whole || done > 0 };

		rest(e, &q);
		/*
		 * Spaces of the token before may be all of this one; then it
		 * is none, as in the package.
		 */
		if (x.to > x.from &&
		    !rt_ids_add(e->out, (uint32_t)x.token->id)) {
			note(e, RT_NOMEM);
		}
		done = x.to;
	}
	if (done < p->n) {
		struct tok_piece q = { p->s + done, p->n - done,
				       p->zero && done == 0,
				       p->whole || done > 0 };

		rest(e, &q);
	}
}

static void
encode_stretch(struct rt_encoder *e, const struct tok_piece *in)
{
	struct tok_piece p = *in;

	if (p.n == 0 || e->status != RT_OK) {
		return;
	}
	note(e, rt_tok_normalize(e->t, &e->normal, &p.s, &p.n, p.whole));
	if (e->status == RT_OK) {
		find_added(e, &e->t->normal, &p, encode_plain);
	}
}

/* ---- the public functions --------------------------------------------- */

static enum rt_status
fail(struct rt_encoder *e, const char *s, size_t n, size_t valid,
     struct rt_error *err)
{
	struct rt_where where = { NULL, NULL, (int64_t)valid };

	if (valid < n) {
		return rt_fail(err, RT_FORMAT, where, "found byte 0x%02x, "
			       "which begins no UTF-8 character, expected "
			       "UTF-8 text", (unsigned char)s[valid]);
	}
	if (e->status == RT_RANGE) {
		return rt_tok_too_much_work(err);
	}
	return rt_no_memory(err, NULL);
}

enum rt_status
rt_encode(struct rt_encoder *e, const char *text, size_t n,
	  enum rt_part part, struct rt_ids *out, struct rt_error *err)
{
	struct tok_piece p = { .n = n, .zero = part != RT_PART_LATER,
			       .whole = part != RT_PART_LATER };
	size_t valid = rt_utf8_check(text, n);

	e->status = RT_OK;
	e->work = rt_tok_work(n);
	e->out = out;
	if (valid < n) {
		return fail(e, text, n, valid, err);
	}
	e->text.n = 0;
	if (!rt_bytes_add(&e->t->alloc, &e->text, text, n)) {
		return rt_no_memory(err, NULL);
	}
	p.s = e->text.at;
	if (n > 0) {
		find_added(e, &e->t->raw, &p, encode_stretch);
	}
	return e->status == RT_OK ? RT_OK : fail(e, text, n, valid, err);
}

static bool
add_all(struct rt_ids *out, const struct rt_ids *from)
{
	bool ok = true;
	size_t i;

	for (i = 0; i < from->n && ok; i++) {
		ok = rt_ids_add(out, from->at[i]);
	}
	return ok;
}

bool
rt_encode_before(const struct rt_tokenizer *t, struct rt_ids *out)
{
	return add_all(out, &t->before);
}

bool
rt_encode_after(const struct rt_tokenizer *t, struct rt_ids *out)
{
	return add_all(out, &t->after);
}
