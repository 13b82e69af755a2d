/*
 * A tokenizer is opened, from a tokenizer.json or a *.gguf, asked which tokens
 * it has, and freed.
 */
#include "runtime/tokenize/tok.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_BYTES INT64_C(1000000000)	/* of a tokenizer.json */

/* ---- life cycle ------------------------------------------------------- */

static void
forget(struct rt_tokenizer *t)
{
	rt_tok_model_release(&t->model, &t->alloc);
	rt_tok_parts_release(&t->normalizer);
	rt_tok_parts_release(&t->pretokenizer);
	rt_tok_parts_release(&t->decoder);
	rt_nfc_free(t->nfc);
	rt_release(&t->alloc, t->added);
	rt_release(&t->alloc, t->raw.nodes);
	rt_release(&t->alloc, t->normal.nodes);
	rt_release(&t->alloc, t->by_id);
	rt_release(&t->alloc, t->added_by_id);
	rt_ids_release(&t->before);
	rt_ids_release(&t->after);
	rt_release(&t->alloc, t->text);
	rt_release(&t->alloc, t->name);
	rt_release(&t->alloc, t->chat);
}

void
rt_tokenizer_free(struct rt_tokenizer *t)
{
	struct rt_alloc a;

	if (t) {
		a = t->alloc;
		forget(t);
		rt_release(&a, t);
	}
}

static struct rt_tokenizer *
new_tokenizer(const char *name, size_t n, const struct rt_alloc *alloc)
{
	struct rt_alloc a = rt_alloc_or_libc(alloc);
	struct rt_tokenizer *t = rt_resize(&a, NULL, 1, sizeof *t);

	if (!t) {
		return NULL;
	}
	memset(t, 0, sizeof *t);
	t->alloc = t->before.alloc = t->after.alloc = a;
	t->ends[0] = t->ends[1] = t->ends[2] = -1;
	t->name = rt_join(&a, name, strlen(name), "");
	t->text = rt_resize(&a, NULL, n + 1, 1);
	if (!t->name || !t->text) {
		rt_tokenizer_free(t);
		return NULL;
	}
	t->text[n] = '\0';
	return t;
}

static enum rt_status
finish(struct rt_tokenizer *t, enum rt_status status,
       struct rt_tokenizer **out, struct rt_error *err)
{
	*out = status == RT_OK ? t : NULL;
	if (status != RT_OK) {
		rt_tok_say_byte(err);
		rt_tokenizer_free(t);
	}
	return status;
}

enum rt_status
rt_tokenizer_parse(struct rt_tokenizer **out, const char *name,
		   const void *text, size_t n, const struct rt_alloc *alloc,
		   struct rt_error *err)
{
	struct rt_tokenizer *t = new_tokenizer(name, n, alloc);

	*out = NULL;
	if (!t) {
		return rt_no_memory(err, name);
	}
	if (n > 0) {
		memcpy(t->text, text, n);
	}
	return finish(t, rt_tok_load(t, n, err), out, err);
}

/* ---- files ------------------------------------------------------------ */

static enum rt_status
read_file(int fd, const char *path, char *to, size_t n, struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	size_t at = 0;
	ssize_t got;

	while (at < n) {
		got = read(fd, to + at, n - at);
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got <= 0) {
			return rt_fail(err, RT_IO, where, "cannot read: %s",
				       got < 0 ? strerror(errno) :
				       "it became shorter meanwhile");
		}
		at += (size_t)got;
	}
	return RT_OK;
}

/* The tokenizer of a *.gguf; a message about it is of the text that its keys
 * are. */
static enum rt_status
open_gguf(struct rt_tokenizer **out, const char *path,
	  const struct rt_alloc *alloc, struct rt_error *err)
{
	struct rt_alloc a = rt_alloc_or_libc(alloc);
	struct rt_tokenizer *t = NULL;
	struct tok_gguf g;
	enum rt_status status = rt_tok_gguf_read(&g, path, alloc, err);
	char *name;

	if (status != RT_OK) {
		return status;
	}
	name = rt_join(&a, path, strlen(path), " (its keys)");
	t = name ? new_tokenizer(name, g.json.n, alloc) : NULL;
	rt_release(&a, name);
	if (!t) {
		rt_tok_gguf_release(&g);
		return rt_no_memory(err, path);
	}
	memcpy(t->text, g.json.at, g.json.n);
	memcpy(t->ends, g.ends, sizeof t->ends);
	t->chat = g.chat;
	g.chat = NULL;
	t->model.given = g.merges;
	t->model.ngiven = g.nmerges;
	status = rt_tok_load(t, g.json.n, err);
	t->model.given = NULL;
	rt_tok_gguf_release(&g);
	return finish(t, status, out, err);
}

enum rt_status
rt_tokenizer_open(struct rt_tokenizer **out, const char *path,
		  const struct rt_alloc *alloc, struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	struct rt_tokenizer *t = NULL;
	enum rt_status status;
	struct stat sb;
	int fd;

	*out = NULL;
	if (rt_ends_in(path, ".gguf")) {
		return open_gguf(out, path, alloc, err);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &sb) != 0) {
		status = rt_fail(err, RT_IO, where, "cannot open: %s",
				 strerror(errno));
	} else if (!S_ISREG(sb.st_mode) || sb.st_size > MAX_BYTES) {
		status = rt_fail(err, RT_FORMAT, where, "found %s, expected a "
				 "tokenizer.json of at most 1000000000 bytes",
				 S_ISREG(sb.st_mode) ? "a larger file"
						     : "no regular file");
	} else if (!(t = new_tokenizer(path, (size_t)sb.st_size, alloc))) {
		status = rt_no_memory(err, path);
	} else {
		status = read_file(fd, path, t->text, (size_t)sb.st_size, err);
	}
	if (fd >= 0) {
		close(fd);
	}
	if (status == RT_OK) {
		status = rt_tok_load(t, (size_t)sb.st_size, err);
	}
	return finish(t, status, out, err);
}

/* ---- questions -------------------------------------------------------- */

int64_t
rt_tokenizer_limit(const struct rt_tokenizer *t)
{
	return t->limit;
}

int64_t
rt_tokenizer_id(const struct rt_tokenizer *t, const char *token)
{
	const struct tok_token *x = rt_tok_find(&t->model.vocab, token,
						strlen(token));
	size_t i;

	for (i = 0; i < t->nadded; i++) {
		if (strcmp(t->added[i].content, token) == 0) {
			return t->added[i].id;
		}
	}
	return x ? (int64_t)x->id : -1;
}

bool
rt_tokenizer_has(const struct rt_tokenizer *t, int64_t id)
{
	return id >= 0 && id < rt_tokenizer_limit(t) &&
	       (t->added_by_id[id] >= 0 || t->by_id[id]);
}

void
rt_tokenizer_warn_beyond(const struct rt_tokenizer *t, const char *path,
			 int64_t vocab)
{
	int64_t id, first = -1, n = 0;

	for (id = vocab; id < rt_tokenizer_limit(t); id++) {
		if (rt_tokenizer_has(t, id)) {
			first = first < 0 ? id : first;
			n++;
		}
	}
	if (n > 0) {
		fprintf(stderr, "rank: warning: %s: the model has tokens 0 to "
			"%lld, and this tokenizer has %lld more, from %lld: a "
			"text with one of them is refused\n",
			rt_show_path(path).text, (long long)vocab - 1,
			(long long)n, (long long)first);
	}
}

bool
rt_tokenizer_is_special(const struct rt_tokenizer *t, int64_t id)
{
	return id >= 0 && id < rt_tokenizer_limit(t) &&
	       t->added_by_id[id] >= 0 && t->added[t->added_by_id[id]].special;
}

int64_t
rt_tokenizer_end(const struct rt_tokenizer *t, size_t i)
{
	return i < RT_TOKENIZER_ENDS ? t->ends[i] : -1;
}

const char *
rt_tokenizer_chat(const struct rt_tokenizer *t)
{
	return t->chat;
}

const char *
rt_tokenizer_special(const struct rt_tokenizer *t, size_t i)
{
	size_t k;

	for (k = 0; k < t->nadded; k++) {
		if (t->added[k].special && i-- == 0) {
			return t->added[k].content;
		}
	}
	return NULL;
}
