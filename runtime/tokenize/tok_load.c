/*
 * A tokenizer.json, whole: what it is made of, and what framing documents
 * takes.
 */
#include "runtime/tokenize/tok.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_FRAME = 64 };

struct tok_reader {
	struct rt_json j;
	struct rt_tokenizer *t;
	/* names that the template frames documents with */
	const char *frame[MAX_FRAME];
	size_t nframe, text_at;	/* text_at: how many come before the text */
	/* names that the template gives an id */
	const char *special[MAX_FRAME];
	int64_t special_id[MAX_FRAME];
	size_t nspecial;
	bool has_template;
};

static bool
fail_at(struct tok_reader *r, int64_t at, const char *what)
{
	return rt_json_fail(&r->j, RT_FORMAT, r->j.text + at, "%s", what);
}

/* ---- the post-processor ----------------------------------------------- */

/* {"SpecialToken": {"id": "<s>", "type_id": 0}} or {"Sequence": ..}. */
static bool
read_piece(struct tok_reader *r)
{
	struct rt_json *j = &r->j;
	const char *kind, *key, *id = NULL;
	int64_t at = (int64_t)j->at, type;
	size_t i = 0, k = 0;

	if (!rt_json_open(j, '{') || !rt_json_more(j, '}', &i) ||
	    !rt_json_key(j, &kind) || !rt_json_open(j, '{')) {
		return false;
	}
	while (rt_json_more(j, '}', &k)) {
		if (!rt_json_key(j, &key) || (strcmp(key, "id") == 0
		    ? !rt_json_string(j, &id) : !rt_json_int(j, &type))) {
			return false;
		}
	}
	if (rt_json_more(j, '}', &i) || j->status != RT_OK || !id) {
		return fail_at(r, at, "found a piece of a template that is "
			       "neither a SpecialToken nor a Sequence");
	}
	if (strcmp(kind, "Sequence") == 0 && strcmp(id, "A") == 0 &&
	    r->text_at == SIZE_MAX) {
		r->text_at = r->nframe;
		return true;
	}
	if (strcmp(kind, "SpecialToken") != 0 || r->nframe == MAX_FRAME) {
		return fail_at(r, at, "found a piece of a template that is "
			       "neither one of 64 SpecialTokens nor the only "
			       "Sequence `A`");
	}
	r->frame[r->nframe++] = id;
	return true;
}

static bool
read_template(struct tok_reader *r)
{
	int64_t at = (int64_t)r->j.at;
	size_t i = 0;

	if (!rt_json_open(&r->j, '[')) {
		return false;
	}
	r->text_at = SIZE_MAX;
	r->nframe = 0;
	while (rt_json_more(&r->j, ']', &i)) {
		if (!read_piece(r)) {
			return false;
		}
	}
	return r->j.status == RT_OK && (r->text_at != SIZE_MAX ||
		fail_at(r, at, "found a template without the Sequence `A`"));
}

/* {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}, ..} */
static bool
read_special(struct tok_reader *r)
{
	struct rt_json *j = &r->j;
	const char *key;
	int64_t at = (int64_t)j->at, id = -1;
	size_t i = 0, k = 0;

	if (r->nspecial == MAX_FRAME) {
		return fail_at(r, at, "found more than 64 special tokens of a "
			       "template");
	}
	if (!rt_json_key(j, &r->special[r->nspecial]) ||
	    !rt_json_open(j, '{')) {
		return false;
	}
	while (rt_json_more(j, '}', &i)) {
		if (!rt_json_key(j, &key)) {
			return false;
		}
		if (strcmp(key, "ids") != 0) {
			if (!rt_json_skip(j)) {
				return false;
			}
		} else if (!rt_json_open(j, '[') || !rt_json_more(j, ']', &k) ||
			   !rt_json_int(j, &id) || rt_json_more(j, ']', &k)) {
			return fail_at(r, at, "found a special token of a "
				       "template with other than one id");
		}
	}
	r->special_id[r->nspecial++] = id;
	return j->status == RT_OK;
}

static bool
read_specials(struct tok_reader *r)
{
	size_t i = 0;

	if (!rt_json_open(&r->j, '{')) {
		return false;
	}
	while (rt_json_more(&r->j, '}', &i)) {
		if (!read_special(r)) {
			return false;
		}
	}
	return r->j.status == RT_OK;
}

static bool read_processor(struct tok_reader *r, int depth);

static bool
read_processors(struct tok_reader *r, int depth)
{
	size_t i = 0;

	if (!rt_json_open(&r->j, '[')) {
		return false;
	}
	while (rt_json_more(&r->j, ']', &i)) {
		if (!read_processor(r, depth + 1)) {
			return false;
		}
	}
	return r->j.status == RT_OK;
}

/* ByteLevel, which changes offsets only, TemplateProcessing, or Sequences of
 * them.  What the ids of special tokens are is known from the tokens. */
static bool
read_processor(struct tok_reader *r, int depth)
{
	const char *key, *type = NULL;
	struct rt_json *j = &r->j;
	bool single = false, many = false, ok = true;
	int64_t at;
	size_t i = 0;

	rt_json_peek(j);
	at = (int64_t)j->at;
	if (depth > 8) {
		return fail_at(r, at, "found more than 8 sequences in each "
			       "other");
	}
	if (!rt_json_open(j, '{')) {
		return false;
	}
	while (ok && rt_json_more(j, '}', &i)) {
		if (!rt_json_key(j, &key)) {
			return false;
		}
		if (strcmp(key, "type") == 0) {
			ok = rt_json_string(j, &type);
		} else if (strcmp(key, "single") == 0 && !r->has_template) {
			single = true;
			ok = read_template(r);
		} else if (strcmp(key, "special_tokens") == 0) {
			ok = read_specials(r);
		} else if (strcmp(key, "processors") == 0) {
			many = true;
			ok = read_processors(r, depth);
		} else {
			ok = rt_json_skip(j);
		}
	}
	if (!ok || j->status != RT_OK) {
		return false;
	}
	if (!type || (strcmp(type, "TemplateProcessing") == 0) != single ||
	    (strcmp(type, "Sequence") == 0) != many ||
	    (!single && !many && strcmp(type, "ByteLevel") != 0)) {
		return rt_json_fail(j, RT_FORMAT, j->text + at, "found a "
			"post-processor `%s`, expected one TemplateProcessing "
			"with `single`, ByteLevel, or a Sequence of them",
			rt_show_name(type ? type : "").text);
	}
	r->has_template |= single;
	return true;
}

/* ---- the file --------------------------------------------------------- */

/* What must be null: it would change ids. */
static bool
read_null(struct tok_reader *r, const char *key, int64_t at)
{
	return rt_json_null(&r->j) ||
	       rt_json_fail(&r->j, RT_FORMAT, r->j.text + at, "found `%s`, "
			    "which is not known here: it must be null", key);
}

static bool
read_version(struct tok_reader *r, int64_t at)
{
	const char *version;

	return rt_json_string(&r->j, &version) &&
	       (strcmp(version, "1.0") == 0 ||
		rt_json_fail(&r->j, RT_FORMAT, r->j.text + at, "found version "
			     "`%s` of a tokenizer, expected 1.0",
			     rt_show_name(version).text));
}

static bool
read_section(struct tok_reader *r, const char *key, int64_t at, bool *model)
{
	struct rt_tokenizer *t = r->t;
	struct rt_json *j = &r->j;

	if (strcmp(key, "version") == 0) {
		return read_version(r, at);
	}
	if (strcmp(key, "truncation") == 0 || strcmp(key, "padding") == 0) {
		return read_null(r, key, at);
	}
	if (strcmp(key, "added_tokens") == 0) {
		return rt_tok_added_read(j, t);
	}
	if (strcmp(key, "normalizer") == 0) {
		return rt_tok_parts_read(j, &t->normalizer, TOK_NORMALIZER,
					 &t->alloc);
	}
	if (strcmp(key, "pre_tokenizer") == 0) {
		return rt_tok_parts_read(j, &t->pretokenizer,
					 TOK_PRETOKENIZER, &t->alloc);
	}
	if (strcmp(key, "decoder") == 0) {
		return rt_tok_parts_read(j, &t->decoder, TOK_DECODER,
					 &t->alloc);
	}
	if (strcmp(key, "post_processor") == 0) {
		return rt_json_null(j) || read_processor(r, 0);
	}
	if (strcmp(key, "model") == 0) {
		*model = true;
		return rt_tok_model_read(j, &t->model, &t->alloc);
	}
	return rt_json_fail(j, RT_FORMAT, j->text + at, "found `%s`, which is "
			    "not known here", rt_show_name(key).text);
}

static bool
read_all(struct tok_reader *r)
{
	const char *key, *seen[16];
	size_t i = 0, k;
	bool model = false;
	int64_t at;

	if (!rt_json_check_utf8(&r->j) || !rt_json_open(&r->j, '{')) {
		return false;
	}
	while (rt_json_more(&r->j, '}', &i)) {
		rt_json_peek(&r->j);
		at = (int64_t)r->j.at;
		if (!rt_json_key(&r->j, &key)) {
			return false;
		}
		for (k = 0; k + 1 < i && k < 16; k++) {
			if (strcmp(seen[k], key) == 0) {
				return rt_json_fail(&r->j, RT_FORMAT,
					r->j.text + at, "found `%s` twice",
					rt_show_name(key).text);
			}
		}
		if (!read_section(r, key, at, &model)) {
			return false;
		}
		if (i <= 16) {
			seen[i - 1] = key;
		}
	}
	return rt_json_end(&r->j, " \t\r\n") &&
	       (model || fail_at(r, 0, "found no `model`, expected a "
				 "tokenizer.json"));
}

/* ---- what follows ----------------------------------------------------- */

/* Ids index tables, so they are not to be much more than there are tokens. */
static bool
check_ids(struct tok_reader *r)
{
	const struct rt_tokenizer *t = r->t;
	const struct tok_vocab *v = &t->model.vocab;
	int64_t most = 4 * (int64_t)(v->n + t->nadded) + 65536;
	size_t i;

	for (i = 0; i < v->n; i++) {
		if (v->at[i].id >= most) {
			return rt_json_fail(&r->j, RT_FORMAT, r->j.text +
				v->at[i].at, "found id %" PRIu32 " of token "
				"`%s`, expected one below %" PRId64 " of so "
				"few tokens", v->at[i].id,
				rt_show_name(v->at[i].s).text, most);
		}
	}
	for (i = 0; i < t->nadded; i++) {
		if (t->added[i].id >= most) {
			return rt_json_fail(&r->j, RT_FORMAT, r->j.text +
				t->added[i].at, "found id %" PRId64 " of added "
				"token `%s`, expected one below %" PRId64
				" of so few tokens", t->added[i].id,
				rt_show_name(t->added[i].content).text, most);
		}
	}
	return true;
}

static bool
settle_ids(struct tok_reader *r)
{
	struct rt_tokenizer *t = r->t;
	const struct tok_vocab *v = &t->model.vocab;
	size_t i;

	for (i = 0; i < v->n; i++) {
		if (v->at[i].id >= t->limit) {
			t->limit = (int64_t)v->at[i].id + 1;
		}
	}
	for (i = 0; i < t->nadded; i++) {
		if (t->added[i].id >= t->limit) {
			t->limit = t->added[i].id + 1;
		}
	}
	t->by_id = rt_resize(&t->alloc, NULL, (size_t)t->limit,
			     sizeof *t->by_id);
	t->added_by_id = rt_resize(&t->alloc, NULL, (size_t)t->limit,
				   sizeof *t->added_by_id);
	if (!t->by_id || !t->added_by_id) {
		return rt_json_fail(&r->j, RT_NOMEM, NULL, "out of memory");
	}
	for (i = 0; i < (size_t)t->limit; i++) {
		t->by_id[i] = NULL;
		t->added_by_id[i] = -1;
	}
	for (i = 0; i < v->n; i++) {
		if (t->by_id[v->at[i].id]) {
			return rt_json_fail(&r->j, RT_FORMAT, r->j.text +
				v->at[i].at, "found id %" PRIu32 " of token "
				"`%s`, which token `%s` has", v->at[i].id,
				rt_show_name(v->at[i].s).text,
				rt_show_name(t->by_id[v->at[i].id]->s).text);
		}
		t->by_id[v->at[i].id] = &v->at[i];
	}
	return true;
}

/*
 * Hugging Face's package gives an added token the id that the model has for
 * it, or else the next free one; what the file says must agree.
 */
static bool
settle_added(struct tok_reader *r)
{
	struct rt_tokenizer *t = r->t;
	int64_t next = (int64_t)t->model.vocab.n, want;
	const struct tok_token *x;
	size_t i;

	for (i = 0; i < t->nadded; i++) {
		struct tok_added *a = &t->added[i];
		int32_t old;

		x = rt_tok_find(&t->model.vocab, a->content, a->n);
		old = t->added_by_id[a->id];
		want = x ? (int64_t)x->id : next;
		if (a->id != want || old >= 0) {
			return rt_json_fail(&r->j, RT_FORMAT, r->j.text +
				a->at, "found id %" PRId64 " of added token "
				"`%s`, expected %" PRId64 ", %s", a->id,
				rt_show_name(a->content).text, want, old >= 0
				? "and each token once"
				: x ? "which it has in the vocabulary"
				    : "the next that is free");
		}
		t->added_by_id[a->id] = (int32_t)i;
		next = a->id >= next ? a->id + 1 : next;
	}
	return true;
}

/* The package has no order for two tokens that are normalized to one text. */
static bool
settle_matcher(struct tok_reader *r, size_t i, struct tok_buffers *b)
{
	struct rt_tokenizer *t = r->t;
	const struct tok_added *x = &t->added[i];
	struct tok_matcher *m = x->normalized ? &t->normal : &t->raw;
	const char *s = x->content;
	size_t n = x->n;
	int32_t old;
	bool ok;

	ok = !x->normalized || rt_tok_normalize(t, b, &s, &n, true) == RT_OK;
	old = ok ? rt_tok_matcher_find(m, s, n) : -1;
	if (old >= 0) {
		return rt_json_fail(&r->j, RT_FORMAT, r->j.text + x->at,
				    "found added token `%s`, which is "
				    "normalized to the same text as `%s`",
				    rt_show_name(x->content).text,
				    rt_show_name(t->added[old].content).text);
	}
	ok = ok && rt_tok_matcher_add(m, &t->alloc, x, (int32_t)i, s, n);
	return ok || rt_json_fail(&r->j, RT_NOMEM, NULL, "out of memory");
}

static bool
settle_matchers(struct tok_reader *r)
{
	struct rt_tokenizer *t = r->t;
	struct tok_buffers b = { 0 };
	bool ok = true;
	size_t i;

	for (i = 0; i < t->nadded && ok; i++) {
		ok = settle_matcher(r, i, &b);
	}
	rt_release(&t->alloc, b.at[0].at);
	rt_release(&t->alloc, b.at[1].at);
	return ok;
}

static bool
settle_frame(struct tok_reader *r)
{
	struct rt_tokenizer *t = r->t;
	size_t i, k;

	for (i = 0; i < r->nframe; i++) {
		int64_t id = -1;

		for (k = 0; k < r->nspecial; k++) {
			if (strcmp(r->special[k], r->frame[i]) == 0) {
				id = r->special_id[k];
			}
		}
		if (id < 0 || id >= t->limit) {
			return rt_json_fail(&r->j, RT_FORMAT, NULL, "found "
				"`%s` in the template of the post-processor, "
				"whose `special_tokens` have no id for it that "
				"is a token's", rt_show_name(r->frame[i]).text);
		}
		if (!rt_ids_add(i < r->text_at ? &t->before : &t->after,
				(uint32_t)id)) {
			return rt_json_fail(&r->j, RT_NOMEM, NULL,
					    "out of memory");
		}
	}
	return true;
}

static bool
settle(struct tok_reader *r)
{
	struct rt_tokenizer *t = r->t;
	size_t i;

	for (i = 0; i < t->pretokenizer.n; i++) {
		bool last = i + 1 == t->pretokenizer.n;

		/*
		 * A piece has its prefix there if its first byte comes from
		 * the text's first, which several may after a normalizer.
		 */
		if (i > 0 && t->normalizer.n > 0 &&
		    t->pretokenizer.at[i].first) {
			return fail_at(r, t->pretokenizer.at[i].at, "found "
				"prepend_scheme `first` behind a normalizer "
				"and another pre-tokenizer, which is not "
				"known here");
		}
		if (t->pretokenizer.at[i].type != TOK_BYTE_LEVEL) {
			continue;
		}
		t->bytes = true;
		if (!last) {
			return fail_at(r, t->pretokenizer.at[i].at, "found a "
				       "pre-tokenizer after ByteLevel, "
				       "expected ByteLevel last");
		}
	}
	for (i = 0; i < t->normalizer.n && !t->nfc; i++) {
		if (t->normalizer.at[i].type == TOK_NFC) {
			t->nfc = rt_nfc_open(&t->alloc);
			if (!t->nfc) {
				return rt_json_fail(&r->j, RT_NOMEM, NULL,
						    "out of memory");
			}
		}
	}
	return check_ids(r) && settle_ids(r) && settle_added(r) &&
	       rt_tok_model_settle(&r->j, &t->model, t->bytes, &t->alloc) &&
	       settle_matchers(r) && settle_frame(r);
}

void
rt_tok_say_byte(struct rt_error *err)
{
	size_t n = err ? strlen(err->message) : 0;

	if (err && err->offset >= 0) {
		snprintf(err->message + n, sizeof err->message - n,
			 ", at byte %" PRId64, err->offset);
	}
}

enum rt_status
rt_tok_load(struct rt_tokenizer *t, size_t n, struct rt_error *err)
{
	struct tok_reader r = { .t = t };
	struct rt_error ignored;

	r.j = (struct rt_json){ .text = t->text, .len = n, .path = t->name,
				.err = err ? err : &ignored };
	if (!read_all(&r) || !settle(&r)) {
		return r.j.status;
	}
	return RT_OK;
}
