/*
 * What text is read from: files as they are, or compressed by gzip or zstd.
 * Both libraries are loaded when a file asks for them, as NCCL is: nothing
 * needs them to build or to start, and their interfaces have not changed
 * since zlib 1.2 and zstd 1.0.
 */
#include "runtime/tokenize/tok.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 128 * 1024 };

/* zlib.h: z_stream. */
struct zlib_stream {
	const unsigned char *next_in;
	unsigned avail_in;
	unsigned long total_in;
	unsigned char *next_out;
	unsigned avail_out;
	unsigned long total_out;
	const char *msg;
	void *state;
	void *(*zalloc)(void *, unsigned, unsigned);
	void (*zfree)(void *, void *);
	void *opaque;
	int data_type;
	unsigned long adler, reserved;
};

enum { Z_DONE = 1, Z_STUCK = -5, GZIP_WINDOW = 15 + 16 };

/* zstd.h: ZSTD_inBuffer and ZSTD_outBuffer. */
struct zstd_in {
	const void *src;
	size_t size, pos;
};

struct zstd_out {
	void *dst;
	size_t size, pos;
};

struct tok_input;

/* A way to decompress: what a name ends in, and the functions. */
struct input_kind {
	const char *suffix, *library, *package;
	enum rt_status (*open)(struct tok_input *in, struct rt_error *err);
	/* Fills `to` with what in->buffer gives. */
	enum rt_status (*read)(struct tok_input *in, char *to, size_t n,
			       size_t *got, struct rt_error *err);
	void (*close)(struct tok_input *in);
};

struct tok_input {
	struct rt_alloc alloc;
	const struct input_kind *kind;	/* NULL: as it is */
	char *path;
	int fd;
	unsigned char *buffer;		/* compressed */
	size_t at, n;
	int64_t done;
	bool ended;	/* nothing is left to be read of the file */
	bool within;	/* a compressed member has begun and not ended */
	void *library, *stream;
	struct zlib_stream z;
	int (*inflate_init)(struct zlib_stream *, int, const char *, int);
	int (*inflate)(struct zlib_stream *, int);
	int (*inflate_reset)(struct zlib_stream *);
	int (*inflate_end)(struct zlib_stream *);
	void *(*zstd_create)(void);
	size_t (*zstd_decompress)(void *, struct zstd_out *, struct zstd_in *);
	size_t (*zstd_free)(void *);
	unsigned (*zstd_is_error)(size_t);
	const char *(*zstd_error)(size_t);
};

static enum rt_status
fail(const struct tok_input *in, const char *what, const char *why,
     struct rt_error *err)
{
	struct rt_where where = { in->path, NULL, -1 };

	return rt_fail(err, RT_IO, where, "%s: %s", what, why);
}

/* Damage lies about here: the library has read up to it. */
static enum rt_status
damaged(const struct tok_input *in, const char *why, struct rt_error *err)
{
	struct rt_where where = { in->path, NULL, in->done -
				  (int64_t)(in->n - in->at) };

	return rt_fail(err, RT_FORMAT, where, "found damaged data of %s: %s",
		       in->kind->suffix, why);
}

/* Reads more of the file into the buffer, which is empty. */
static enum rt_status
refill(struct tok_input *in, struct rt_error *err)
{
	ssize_t got;

	do {
		got = read(in->fd, in->buffer, BUFFER);
	} while (got < 0 && errno == EINTR);
	if (got < 0) {
		return fail(in, "cannot read", strerror(errno), err);
	}
	in->at = 0;
	in->n = (size_t)got;
	in->done += got;
	in->ended = got == 0;
	return RT_OK;
}

/* ---- gzip ------------------------------------------------------------- */

static void *
symbol(struct tok_input *in, const char *name, bool *ok)
{
	void *at = dlsym(in->library, name);

	*ok &= at != NULL;
	return at;
}

/* A function's address from an object's, which POSIX lets us convert. */
#define LOAD(in, member, name, ok) \
	(*(void **)(void *)&(in)->member = symbol(in, name, ok))

static enum rt_status
gzip_open(struct tok_input *in, struct rt_error *err)
{
	bool ok = true;

	LOAD(in, inflate_init, "inflateInit2_", &ok);
	LOAD(in, inflate, "inflate", &ok);
	LOAD(in, inflate_reset, "inflateReset", &ok);
	LOAD(in, inflate_end, "inflateEnd", &ok);
	if (!ok || in->inflate_init(&in->z, GZIP_WINDOW, "1.2.0",
				    (int)sizeof in->z) != 0) {
		return fail(in, "cannot decompress", "zlib does not start",
			    err);
	}
	in->stream = &in->z;
	return RT_OK;
}

static enum rt_status
gzip_read(struct tok_input *in, char *to, size_t n, size_t *got,
	  struct rt_error *err)
{
	int code;

	in->z.next_in = in->buffer + in->at;
	in->z.avail_in = (unsigned)(in->n - in->at);
	in->z.next_out = (unsigned char *)to;
	in->z.avail_out = (unsigned)n;
	code = in->inflate(&in->z, 0);
	in->at = in->n - in->z.avail_in;
	*got = n - in->z.avail_out;
	in->within = code != Z_DONE;
	if (code == Z_DONE) {
		in->inflate_reset(&in->z);
	} else if (code != 0 && code != Z_STUCK) {
		return damaged(in, in->z.msg ? in->z.msg : "not of gzip", err);
	}
	return RT_OK;
}

static void
gzip_close(struct tok_input *in)
{
	in->inflate_end(&in->z);
}

/* ---- zstd ------------------------------------------------------------- */

static enum rt_status
zstd_open(struct tok_input *in, struct rt_error *err)
{
	bool ok = true;

	LOAD(in, zstd_create, "ZSTD_createDCtx", &ok);
	LOAD(in, zstd_decompress, "ZSTD_decompressStream", &ok);
	LOAD(in, zstd_free, "ZSTD_freeDCtx", &ok);
	LOAD(in, zstd_is_error, "ZSTD_isError", &ok);
	LOAD(in, zstd_error, "ZSTD_getErrorName", &ok);
	in->stream = ok ? in->zstd_create() : NULL;
	return in->stream ? RT_OK : fail(in, "cannot decompress",
					 "zstd does not start", err);
}

static enum rt_status
zstd_read(struct tok_input *in, char *to, size_t n, size_t *got,
	  struct rt_error *err)
{
	struct zstd_in from = { in->buffer, in->n, in->at };
	struct zstd_out out = { to, n, 0 };
	size_t code = in->zstd_decompress(in->stream, &out, &from);

	in->at = from.pos;
	*got = out.pos;
	in->within = code != 0;
	return in->zstd_is_error(code) ? damaged(in, in->zstd_error(code), err)
					: RT_OK;
}

static void
zstd_close(struct tok_input *in)
{
	in->zstd_free(in->stream);
}

/* ---- the public functions --------------------------------------------- */

static const struct input_kind kinds[] = {
	{ ".gz", "libz.so.1", "zlib1g", gzip_open, gzip_read, gzip_close },
	{ ".zst", "libzstd.so.1", "libzstd1", zstd_open, zstd_read,
	  zstd_close },
};

static bool
ends_in(const char *s, size_t n, const char *end)
{
	size_t k = strlen(end);

	return n >= k && memcmp(s + n - k, end, k) == 0;
}

static const struct input_kind *
kind_of(const char *path)
{
	size_t i;

	for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (ends_in(path, strlen(path), kinds[i].suffix)) {
			return &kinds[i];
		}
	}
	return NULL;
}

/* Whether a name ends in one of "a b c", before what compresses it. */
static bool
is_called(const char *path, const char *suffixes)
{
	const struct input_kind *k = kind_of(path);
	size_t n = strlen(path) - (k ? strlen(k->suffix) : 0), len;
	char suffix[16];

	for (; *suffixes; suffixes += len + (suffixes[len] == ' ')) {
		len = strcspn(suffixes, " ");
		memcpy(suffix, suffixes, len);
		suffix[len] = '\0';
		if (ends_in(path, n, suffix)) {
			return true;
		}
	}
	return false;
}

bool
rt_is_text(const char *path)
{
	return is_called(path, ".txt .md .jsonl .ndjson");
}

bool
rt_is_plain_text(const char *path)
{
	return !kind_of(path) && is_called(path, ".txt .md");
}

bool
rt_tok_input_has_lines(const char *path)
{
	return is_called(path, ".jsonl .ndjson");
}

static enum rt_status
start(struct tok_input *in, struct rt_error *err)
{
	struct rt_where where = { in->path, NULL, -1 };

	in->fd = strcmp(in->path, "-") == 0 ? STDIN_FILENO
		: open(in->path, O_RDONLY | O_CLOEXEC);
	if (in->fd < 0) {
		return fail(in, "cannot open", strerror(errno), err);
	}
	if (!in->kind) {
		return RT_OK;
	}
	in->library = dlopen(in->kind->library, RTLD_NOW | RTLD_LOCAL);
	if (!in->library) {
		return rt_fail(err, RT_IO, where, "cannot decompress without "
			       "%s (Debian: %s)", in->kind->library,
			       in->kind->package);
	}
	return in->kind->open(in, err);
}

enum rt_status
rt_tok_input_open(struct tok_input **out, const char *path,
		  const struct rt_alloc *a, struct rt_error *err)
{
	struct tok_input *in = rt_resize(a, NULL, 1, sizeof *in);
	enum rt_status status;

	*out = NULL;
	if (!in) {
		return rt_no_memory(err, path);
	}
	memset(in, 0, sizeof *in);
	in->alloc = *a;
	in->fd = -1;
	in->kind = kind_of(path);
	in->path = rt_join(a, path, strlen(path), "");
	in->buffer = rt_resize(a, NULL, BUFFER, 1);
	status = in->path && in->buffer ? start(in, err)
					: rt_no_memory(err, path);
	if (status != RT_OK) {
		rt_tok_input_close(in);
		return status;
	}
	*out = in;
	return RT_OK;
}

void
rt_tok_input_close(struct tok_input *in)
{
	struct rt_alloc a;

	if (!in) {
		return;
	}
	a = in->alloc;
	if (in->stream) {
		in->kind->close(in);
	}
	if (in->library) {
		dlclose(in->library);
	}
	if (in->fd > STDIN_FILENO) {
		close(in->fd);
	}
	rt_release(&a, in->path);
	rt_release(&a, in->buffer);
	rt_release(&a, in);
}

int64_t
rt_tok_input_done(const struct tok_input *in)
{
	return in->done;
}

static enum rt_status
read_plain(struct tok_input *in, char *to, size_t n, size_t *got,
	   struct rt_error *err)
{
	ssize_t r;

	do {
		r = read(in->fd, to, n);
	} while (r < 0 && errno == EINTR);
	if (r < 0) {
		return fail(in, "cannot read", strerror(errno), err);
	}
	*got = (size_t)r;
	in->done += r;
	return RT_OK;
}

enum rt_status
rt_tok_input_read(struct tok_input *in, char *to, size_t n, size_t *got,
		  struct rt_error *err)
{
	enum rt_status status = RT_OK;
	size_t before;

	*got = 0;
	if (!in->kind) {
		return read_plain(in, to, n, got, err);
	}
	while (*got == 0 && status == RT_OK) {
		if (in->at == in->n && !in->ended) {
			status = refill(in, err);
		}
		if (in->ended && !in->within) {
			break;
		}
		before = in->at;
		if (status == RT_OK) {
			status = in->kind->read(in, to, n, got, err);
		}
		if (status == RT_OK && in->ended && *got == 0 &&
		    in->at == before && in->within) {
			status = damaged(in, "it ends too early", err);
		}
	}
	return status;
}
