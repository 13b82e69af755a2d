/* The files of a checkpoint, or memory in place of one: bytes of them. */
#include "runtime/data/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Shards can have hundreds of GiB. */
_Static_assert(sizeof(off_t) >= 8, "build with 64-bit file offsets");

enum {
	MAX_PREAD_BYTES = 1 << 30, /* Linux stops just below 2 GiB */
};

struct rt_where
rt_shard_where(const struct rt_shard *s, const struct rt_st_tensor *t, int64_t
	       at)
{
	struct rt_where where = { s->path, t ? t->name : NULL, at };

	return where;
}

enum rt_status
rt_shard_read(const struct rt_shard *s, const struct rt_st_tensor *t,
	      int64_t at, int64_t n, void *out, struct rt_error *err)
{
	unsigned char *dst = out;
	ssize_t got;

	if (n == 0) {
		return RT_OK;
	}
	if (s->fd < 0) {
		if (n > s->mem_bytes || at > s->mem_bytes - n) {
			return rt_fail(err, RT_RANGE, rt_shard_where(s, t, at),
				       "bytes %" PRId64 " to %" PRId64
				       " were asked for, expected bytes below "
				       "%" PRId64
				       ", where the memory given ends",
				       at, at + n, s->mem_bytes);
		}
		memcpy(dst, s->mem + at, (size_t)n);
		return RT_OK;
	}
	while (n > 0) {
		got = pread(s->fd, dst,
			    (size_t)(n < MAX_PREAD_BYTES ? n : MAX_PREAD_BYTES),
			    (off_t)at);
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got < 0) {
			return rt_fail(err, RT_IO, rt_shard_where(s, t, at),
				       "cannot read byte %" PRId64 ": %s", at,
				       strerror(errno));
		}
		if (got == 0) {
			return rt_fail( err, RT_IO, rt_shard_where(s, t, at),
				       "the file now ends at or before byte %"
				       PRId64 ", expected %" PRId64
				       " bytes as when it was " "opened", at,
				       s->file_bytes);
		}
		dst += got;
		at += got;
		n -= got;
	}
	return RT_OK;
}

void
rt_shard_release(const struct rt_alloc *alloc, struct rt_shard *s)
{
	if (s->path) {
		rt_release(alloc, s->path);
		if (s->fd >= 0) {
			close(s->fd);
		}
	}
}

enum rt_status
rt_shard_open(struct rt_shard *s, char *path, struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	struct stat sb;

	memset(s, 0, sizeof(*s));
	s->path = path;
	/* Without O_NONBLOCK a named pipe would wait for a writer. */
	s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (s->fd < 0 || fstat(s->fd, &sb) != 0) {
		return rt_fail(err, RT_IO, where, "cannot open: %s",
			       strerror(errno));
	}
	if (!S_ISREG(sb.st_mode)) {
		return rt_fail(err, RT_IO, where,
			       "found a %s, expected a regular file",
			       S_ISDIR(sb.st_mode) ? "directory" :
						     "pipe, socket or device");
	}
	s->file_bytes = (int64_t)sb.st_size;
	return RT_OK;
}

struct rt_shard
rt_shard_of_memory(const void *buf, size_t len, int64_t file_bytes)
{
	struct rt_shard s = { 0 };

	s.fd = -1;
	s.mem = buf;
	s.mem_bytes = (int64_t)len;
	s.file_bytes = file_bytes;
	return s;
}

enum rt_status
rt_shard_read_text(const struct rt_alloc *alloc, const struct rt_shard *s,
		   int64_t at, int64_t n, char **out, struct rt_error *err)
{
	enum rt_status status;
	char *text;

	text = rt_resize(alloc, NULL, (size_t)n + 1, 1);
	if (!text) {
		return rt_fail(err, RT_NOMEM, rt_shard_where(s, NULL, -1),
			       "out of memory for a text of %" PRId64 " bytes",
			       n);
	}
	status = rt_shard_read(s, NULL, at, n, text, err);
	if (status != RT_OK) {
		rt_release(alloc, text);
		return status;
	}
	text[n] = '\0';
	*out = text;
	return RT_OK;
}
