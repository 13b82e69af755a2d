/*
 * Training on text: `--data text.txt --tokenizer FILE' makes a token file
 * beside the text, and reads that.  Ranks read sequences of any number in any
 * order, so tokens have to be counted before the first step; a file also is
 * the same for all ranks and for a run that resumes.
 *
 * Its name has a hash of all that its tokens depend on: the tokenizer, the
 * text's size and time of change, and the options.  So whoever finds it may use
 * it.  Whoever does not holds the lock of the text while it makes it; others
 * on this host wait, and then find it.
 */
#include "runtime/cache.h"
#include "runtime/tokenize/tokenize.h"
#include "runtime/train/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MORE = 32 };	/* bytes that a token file's name is longer */

/* Adds the first `most` bytes of a tokenizer's file, if it has as many. */
static enum rt_status
hash_file(struct rt_hash *h, const char *path, int64_t most,
	  struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char some[65536];
	ssize_t got = fd < 0 ? -1 : 1;

	while (got > 0 && most > 0) {
		got = read(fd, some, most < (int64_t)sizeof some
			   ? (size_t)most : sizeof some);
		if (got < 0 && errno == EINTR) {
			got = 1;
		} else if (got > 0) {
			rt_hash_add(h, some, (size_t)got);
			most -= got;
		}
	}
	if (got < 0) {
		rt_fail(err, RT_IO, where, "cannot read the tokenizer: %s",
			strerror(errno));
	}
	if (fd >= 0) {
		close(fd);
	}
	return got < 0 ? RT_IO : RT_OK;
}

/* Of a *.gguf only the keys are hashed: its weights may be a hundred gigabytes,
 * and change no token. */
static enum rt_status
hash_tokenizer(struct rt_hash *h, const char *path, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t most = INT64_MAX;
	struct rt_words w;

	if (rt_ends_in(path, ".gguf")) {
		status = rt_words_read(&w, path, NULL, err);
		if (status == RT_OK) {
			most = w.keys_end;
			rt_words_release(&w);
		}
	}
	return status == RT_OK ? hash_file(h, path, most, err) : status;
}

/* The name of the token file of an opened text. */
static enum rt_status
name_tokens(const struct rt_options *o, const char *path, int fd, char *out,
	    struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	enum rt_status status;
	struct rt_hash h;
	int64_t facts[3];
	struct stat sb;

	if (fstat(fd, &sb) != 0 || !S_ISREG(sb.st_mode)) {
		return rt_fail(err, RT_IO, where, "found no regular file, "
			       "expected text, which `llmc tokenize` can also "
			       "read from elsewhere");
	}
	facts[0] = (int64_t)sb.st_size;
	facts[1] = (int64_t)sb.st_mtim.tv_sec;
	facts[2] = (int64_t)sb.st_mtim.tv_nsec;
	rt_hash_init(&h);
	rt_hash_text(&h, "tokens 1");
	rt_hash_add(&h, facts, sizeof facts);
	rt_hash_text(&h, o->field ? o->field : "");
	rt_hash_text(&h, o->end ? o->end : "");
	status = hash_tokenizer(&h, o->tokenizer, err);
	if (status == RT_OK) {
		sprintf(out, "%s.tokens-%016" PRIx64 ".bin", path, h.lo);
	}
	return status;
}

#define LOG_SECONDS 60

/* As llmc does: in a log first after a minute, or as LLMC_PROGRESS says. */
static enum rt_status
show_progress(struct rt_token_options *w, struct rt_error *err)
{
	const char *given = getenv("LLMC_PROGRESS");
	bool is_given = given && *given;
	bool none;

	if (is_given && (strspn(given, "0123456789") != strlen(given) ||
			 strlen(given) > 6)) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the variable "
			       "LLMC_PROGRESS is `%s`, expected a number of "
			       "seconds up to 999999", given);
	}
	none = is_given && atoi(given) == 0;
	w->progress = none ? NULL : stderr;
	w->log_seconds = isatty(STDERR_FILENO) ? 0
		: is_given ? atoi(given) : LOG_SECONDS;
	return RT_OK;
}

static enum rt_status
make_tokens(const struct rt_options *o, const char *path, const char *out,
	    FILE *screen, struct rt_error *err)
{
	struct rt_token_options w = { .tokenizer = o->tokenizer,
		.inputs = &path, .ninputs = 1, .field = o->field,
		.end = o->end, .threads = rt_tokenize_threads() };
	struct rt_token_counts counts;
	enum rt_status status = show_progress(&w, err);

	if (status == RT_OK) {
		status = rt_tokens_write(out, &w, &counts, err);
	}
	if (status == RT_OK) {
		fprintf(screen, "%s: %" PRId64 " tokens of %" PRId64
			" document%s\n", out, counts.tokens, counts.documents,
			counts.documents == 1 ? "" : "s");
		fflush(screen);
	}
	return status;
}

/* *path becomes that of the tokens of the text, allocated. */
static enum rt_status
tokenize_one(const struct rt_options *o, const char **path, FILE *screen,
	     struct rt_error *err)
{
	struct rt_where where = { *path, NULL, -1 };
	char *out = malloc(strlen(*path) + NAME_MORE);
	int fd = open(*path, O_RDONLY | O_CLOEXEC);
	enum rt_status status = RT_OK;
	struct stat sb;

	if (!out || fd < 0) {
		status = !out ? rt_no_memory(err, NULL)
			: rt_fail(err, RT_IO, where, "cannot open: %s",
				  strerror(errno));
	}
	if (status == RT_OK) {
		status = name_tokens(o, *path, fd, out, err);
	}
	if (status == RT_OK) {
		/* without locks each process makes the same file */
		while (flock(fd, LOCK_EX) != 0 && errno == EINTR) {
		}
		if (stat(out, &sb) != 0) {
			status = make_tokens(o, *path, out, screen, err);
		}
	}
	if (fd >= 0) {
		close(fd);
	}
	if (status != RT_OK) {
		free(out);
		return status;
	}
	*path = out;
	return RT_OK;
}

static enum rt_status
tokenize_paths(struct rt_options *o, struct rt_paths *l, FILE *screen,
	       bool *any, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < l->n && status == RT_OK; i++) {
		struct rt_where where = { l->at[i], NULL, -1 };

		if (!rt_is_text(l->at[i])) {
			continue;
		}
		if (!o->tokenizer && !rt_is_plain_text(l->at[i])) {
			return rt_fail(err, RT_RANGE, where, "this is text, "
				       "and needs a tokenizer: give "
				       "--tokenizer FILE, a tokenizer.json or "
				       "a *.gguf");
		}
		*any = true;
		if (o->tokenizer) {
			status = tokenize_one(o, &l->at[i], screen, err);
			if (status == RT_OK) {
				o->made.at[o->made.n++] = l->at[i];
			}
		}
	}
	return status;
}

enum rt_status
rt_tokenize_data(struct rt_options *o, FILE *screen, struct rt_error *err)
{
	int64_t n = o->data.n + o->eval_data.n;
	enum rt_status status;
	bool any = false;

	if (!o->tokenizer && (o->field || o->end)) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "--%s is of text, "
			       "and there is no --tokenizer",
			       o->field ? "field" : "end");
	}
	o->made.at = calloc((size_t)n + 1, sizeof *o->made.at);
	if (!o->made.at) {
		return rt_no_memory(err, NULL);
	}
	status = tokenize_paths(o, &o->data, screen, &any, err);
	if (status == RT_OK) {
		status = tokenize_paths(o, &o->eval_data, screen, &any, err);
	}
	if (status == RT_OK && o->tokenizer && n > 0 && !any) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "there is a "
			       "--tokenizer and no text: --data takes .txt, "
			       ".md, .jsonl and .ndjson, and .gz and .zst of "
			       "these");
	}
	return status;
}
