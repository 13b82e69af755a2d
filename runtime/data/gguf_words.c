/*
 * What the keys tokenizer.* of a GGUF file say: see gguf.h.  All other keys,
 * whatever model they are of, are passed over.
 */
#include "runtime/data/gguf_reading.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Of a token or a merge, of a list, and of all texts. */
enum { MOST_WORD_BYTES = 16384, MOST_WORDS = 1 << 22 };
#define MOST_TEXT ((size_t)1 << 30)

struct wording {
	struct gguf_reading r;
	struct rt_words *w;
	size_t chat; /* where the template begins, or SIZE_MAX */
};

static const char *const ids[RT_WORD_NIDS] = {
	[RT_WORD_BOS] = "bos_token_id", [RT_WORD_EOS] = "eos_token_id",
	[RT_WORD_EOT] = "eot_token_id", [RT_WORD_EOM] = "eom_token_id",
	[RT_WORD_UNK] = "unknown_token_id"
};

static const char *const flags[RT_WORD_NFLAGS] = {
	[RT_WORD_ADD_BOS] = "add_bos_token",
	[RT_WORD_ADD_EOS] = "add_eos_token",
	[RT_WORD_ADD_SPACE] = "add_space_prefix",
	[RT_WORD_ADD_SEP] = "add_sep_token"
};

static void
no_memory(struct wording *x)
{
	if (x->r.status == RT_OK) {
		x->r.status = rt_no_memory(x->r.err, x->r.s->path);
	}
}

/* ---- texts ------------------------------------------------------------- */

/* Makes place for n bytes and a NUL. */
static bool
reserve(struct wording *x, size_t n)
{
	struct rt_words *w = x->w;
	size_t cap = w->cap ? w->cap : 4096;
	char *more;

	if (n > MOST_TEXT || w->n + n + 1 > MOST_TEXT) {
		rt_gguf_fail(&x->r, x->r.at, "found more than %zu bytes of "
			     "tokens and merges, expected at most that",
			     MOST_TEXT);
		return false;
	}
	while (cap < w->n + n + 1) {
		cap *= 2;
	}
	if (cap == w->cap) {
		return true;
	}
	more = rt_resize(&w->alloc, w->text, cap, 1);
	if (!more) {
		no_memory(x);
		return false;
	}
	w->text = more;
	w->cap = cap;
	return true;
}

/* Appends the next text, of `least` to `most` bytes and no NUL; *at: where it
 * begins. */
static bool
read_text(struct wording *x, uint64_t least, uint64_t most, size_t *at)
{
	struct rt_words *w = x->w;
	int64_t from = x->r.at;
	uint64_t n = rt_gguf_number(&x->r, 8), some;
	const unsigned char *p;

	*at = w->n;
	if (x->r.status == RT_OK && (n < least || n > most)) {
		rt_gguf_fail(&x->r, from, "found a token, a merge or a "
			     "template of %" PRIu64 " bytes, expected %" PRIu64
			     " to %" PRIu64, n, least, most);
	}
	while (n > 0 && x->r.status == RT_OK) {
		some = n < RT_GGUF_BUFFER ? n : RT_GGUF_BUFFER;
		p = rt_gguf_take(&x->r, (int64_t)some);
		if (p && memchr(p, 0, (size_t)some)) {
			rt_gguf_fail(&x->r, from, "found a NUL in a token, a "
				     "merge or a template, expected none");
		} else if (p && reserve(x, (size_t)some)) {
			memcpy(w->text + w->n, p, (size_t)some);
			w->n += (size_t)some;
		}
		n -= some;
	}
	if (x->r.status != RT_OK || !reserve(x, 0)) {
		return false;
	}
	w->text[w->n++] = '\0';
	return true;
}

/* ---- lists ------------------------------------------------------------- */

/* How many elements a list has, all of a type; `had`: it came before. */
static bool
begin_list(struct wording *x, const char *key, uint64_t type, bool had,
	   uint64_t want, uint64_t *n)
{
	int64_t at = x->r.at;
	uint64_t of = RT_GGUF_NVALUES;

	if (had) {
		rt_gguf_fail(&x->r, at, "found '%s' twice, expected it once",
			     rt_show_name(key).text);
	}
	if (type == RT_GGUF_LIST && !rt_gguf_read_list(&x->r, &of, n)) {
		return false;
	}
	if (of != want) {
		rt_gguf_fail(&x->r, at, "found '%s' that is no list of values "
			     "of type %" PRIu64 ", expected one",
			     rt_show_name(key).text, want);
	} else if (*n < 1 || *n > MOST_WORDS) {
		rt_gguf_fail(&x->r, at, "found %" PRIu64 " values of '%s', "
			     "expected 1 to %d", *n, rt_show_name(key).text,
			     MOST_WORDS);
	}
	return x->r.status == RT_OK;
}

static void
read_texts(struct wording *x, const char *key, uint64_t type,
	   struct rt_word_list *l)
{
	uint64_t n = 0, i;

	if (!begin_list(x, key, type, l->at, RT_GGUF_TEXT, &n)) {
		return;
	}
	l->at = rt_resize(&x->w->alloc, NULL, (size_t)n, sizeof(*l->at));
	if (!l->at) {
		no_memory(x);
	}
	for (i = 0; i < n && x->r.status == RT_OK; i++) {
		if (read_text(x, 1, MOST_WORD_BYTES, &l->at[i])) {
			l->n++;
		}
	}
}

static void
read_scores(struct wording *x, const char *key, uint64_t type)
{
	struct rt_words *w = x->w;
	uint64_t n = 0, i;

	if (!begin_list(x, key, type, w->scores, RT_GGUF_F32, &n)) {
		return;
	}
	w->scores = rt_resize(&w->alloc, NULL, (size_t)n, sizeof(*w->scores));
	if (!w->scores) {
		no_memory(x);
	}
	for (i = 0; i < n && x->r.status == RT_OK; i++) {
		w->scores[i] = rt_gguf_real(&x->r, RT_GGUF_F32);
		if (isnan(w->scores[i])) {
			rt_gguf_fail(&x->r, x->r.at - 4, "found a score that "
				     "is no number, expected one");
		}
		w->nscores++;
	}
}

static void
read_types(struct wording *x, const char *key, uint64_t type)
{
	struct rt_words *w = x->w;
	uint64_t n = 0, i;

	if (!begin_list(x, key, type, w->types, RT_GGUF_I32, &n)) {
		return;
	}
	w->types = rt_resize(&w->alloc, NULL, (size_t)n, sizeof(*w->types));
	if (!w->types) {
		no_memory(x);
	}
	for (i = 0; i < n && x->r.status == RT_OK; i++) {
		w->types[i] = (int32_t)(uint32_t)rt_gguf_number(&x->r, 4);
		w->ntypes++;
	}
}

/* ---- one key ------------------------------------------------------------ */

static void
read_word(struct wording *x, const char *key, uint64_t type, char *out,
	  size_t size)
{
	int64_t at = x->r.at;

	if (out[0]) {
		rt_gguf_fail(&x->r, at, "found '%s' twice, expected it once",
			     rt_show_name(key).text);
	} else if (type != RT_GGUF_TEXT ||
		   rt_gguf_text(&x->r, out, size) >= size) {
		rt_gguf_fail(&x->r, at, "found '%s' that is no text of fewer "
			     "than %zu bytes, expected one",
			     rt_show_name(key).text, size);
	}
}

static void
read_chat(struct wording *x, const char *key, uint64_t type)
{
	if (type != RT_GGUF_TEXT || x->chat != SIZE_MAX) {
		rt_gguf_fail(&x->r, x->r.at, "found '%s' that is no text or "
			     "comes twice, expected a text",
			     rt_show_name(key).text);
	} else {
		read_text(x, 0, MOST_TEXT, &x->chat);
	}
}

static void
read_flag(struct wording *x, const char *key, uint64_t type, int *out)
{
	if (type != RT_GGUF_BOOL) {
		rt_gguf_fail(&x->r, x->r.at, "found '%s' that is neither true "
			     "nor false, expected either",
			     rt_show_name(key).text);
	} else {
		*out = rt_gguf_number(&x->r, 1) != 0;
	}
}

/* A key of the tokenizer's: `tail` is what comes after "tokenizer.ggml.". */
static void
read_one(struct wording *x, const char *key, const char *tail, uint64_t type)
{
	struct rt_words *w = x->w;
	size_t i;

	for (i = 0; i < RT_WORD_NIDS; i++) {
		if (strcmp(tail, ids[i]) == 0) {
			w->ids[i] = rt_gguf_whole(&x->r, key, type, 0);
			return;
		}
	}
	for (i = 0; i < RT_WORD_NFLAGS; i++) {
		if (strcmp(tail, flags[i]) == 0) {
			read_flag(x, key, type, &w->flags[i]);
			return;
		}
	}
	if (strcmp(tail, "model") == 0) {
		read_word(x, key, type, w->model, sizeof(w->model));
	} else if (strcmp(tail, "pre") == 0) {
		read_word(x, key, type, w->pre, sizeof(w->pre));
	} else if (strcmp(tail, "tokens") == 0) {
		read_texts(x, key, type, &w->tokens);
	} else if (strcmp(tail, "merges") == 0) {
		read_texts(x, key, type, &w->merges);
	} else if (strcmp(tail, "scores") == 0) {
		read_scores(x, key, type);
	} else if (strcmp(tail, "token_type") == 0) {
		read_types(x, key, type);
	} else {
		rt_gguf_skip_value(&x->r, type);
	}
}

/* ---- all of them -------------------------------------------------------- */

static void
read_keys(struct wording *x)
{
	static const char begins[] = "tokenizer.ggml.";
	size_t begin = sizeof(begins) - 1;
	uint64_t tensors = 0, keys = 0, i, type;
	char key[RT_GGUF_MOST_WORD + 1];

	rt_gguf_read_head(&x->r, &tensors, &keys);
	for (i = 0; i < keys && x->r.status == RT_OK; i++) {
		if (!rt_gguf_read_key(&x->r, key, sizeof(key), &type)) {
			return;
		}
		if (strcmp(key, "tokenizer.chat_template") == 0) {
			read_chat(x, key, type);
		} else if (strncmp(key, begins, begin) == 0) {
			read_one(x, key, key + begin, type);
		} else {
			rt_gguf_skip_value(&x->r, type);
		}
	}
}

/* Lists are of the same tokens, which are there. */
static void
check_lists(struct wording *x)
{
	const struct rt_words *w = x->w;
	size_t n = w->tokens.n, i;

	if (!w->model[0] || n == 0) {
		rt_gguf_fail(&x->r, -1, "found no tokenizer.ggml.%s, expected "
			     "a file that has its tokenizer", w->model[0]
			     ? "tokens" : "model");
	} else if ((w->nscores > 0 && w->nscores != n) ||
		   (w->ntypes > 0 && w->ntypes != n)) {
		rt_gguf_fail(&x->r, -1, "found %zu tokens, %zu scores and %zu "
			     "types of them, expected as many", n, w->nscores,
			     w->ntypes);
	}
	for (i = 0; i < RT_WORD_NIDS; i++) {
		if (w->ids[i] >= (int64_t)n) {
			rt_gguf_fail(&x->r, -1, "found tokenizer.ggml.%s %"
				     PRId64 ", expected one of %zu tokens",
				     ids[i], w->ids[i], n);
		}
	}
}

void
rt_words_release(struct rt_words *w)
{
	rt_release(&w->alloc, w->text);
	rt_release(&w->alloc, w->tokens.at);
	rt_release(&w->alloc, w->merges.at);
	rt_release(&w->alloc, w->scores);
	rt_release(&w->alloc, w->types);
	memset(w, 0, sizeof(*w));
}

enum rt_status
rt_words_read(struct rt_words *w, const char *path,
	      const struct rt_alloc *alloc, struct rt_error *err)
{
	struct wording x = { .w = w, .chat = SIZE_MAX };
	size_t i;

	memset(w, 0, sizeof(*w));
	w->alloc = rt_alloc_or_libc(alloc);
	for (i = 0; i < RT_WORD_NIDS; i++) {
		w->ids[i] = -1;
	}
	for (i = 0; i < RT_WORD_NFLAGS; i++) {
		w->flags[i] = -1;
	}
	rt_gguf_begin(&x.r, path, alloc, err);
	if (x.r.status == RT_OK) {
		read_keys(&x);
		w->keys_end = x.r.at;
	}
	if (x.r.status == RT_OK) {
		check_lists(&x);
	}
	if (x.chat != SIZE_MAX && w->text) {
		w->chat = w->text + x.chat;
	}
	rt_release(&w->alloc, x.r.buffer);
	rt_st_free(x.r.st);
	if (x.r.status != RT_OK) {
		rt_words_release(w);
	}
	return x.r.status;
}
