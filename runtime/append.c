/*
 * A file that grows by whole records.
 */
#include "runtime/append.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the file's last bytes are not `mend`.  Opens the file to read; all
 * other uses need permission to write only. */
static bool
ends_torn(const char *path, const char *mend)
{
	size_t n = strlen(mend);
	struct stat st;
	char end[8];
	bool torn = false;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		return false;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		torn = st.st_size < (off_t)n || n > sizeof end ||
		       pread(fd, end, n, st.st_size - (off_t)n) !=
		       (ssize_t)n || memcmp(end, mend, n) != 0;
	}
	close(fd);
	return torn;
}

enum rt_status
rt_append_open(struct rt_append *a, const char *path, bool anew,
	       const char *mend, struct rt_error *err)
{
	*a = (struct rt_append){ .fd = -1, .mend = mend };
	a->path = strdup(path);
	if (!a->path) {
		return rt_no_memory(err, path);
	}
	a->torn = !anew && mend && ends_torn(path, mend);
	a->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC |
		     (anew ? O_TRUNC : 0), 0666);
	return a->fd >= 0 ? RT_OK :
		rt_fail(err, RT_IO, (struct rt_where){ path, NULL, -1 },
			"cannot be opened to write: %s", strerror(errno));
}

/* How many of the bytes were written; errno says why not all. */
static size_t
write_all(int fd, const char *at, size_t n)
{
	size_t done = 0;
	ssize_t got;

	while (done < n) {
		got = write(fd, at + done, n - done);
		if (got > 0) {
			done += (size_t)got;
		} else if (got == 0) {
			errno = ENOSPC;
			break;
		} else if (errno != EINTR) {
			break;
		}
	}
	return done;
}

/* Bytes of a file; -1: a pipe or the like, from which nothing can be taken
 * back. */
static off_t
size_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : -1;
}

enum rt_status
rt_append_record(struct rt_append *a, const void *at, size_t n,
		 struct rt_error *err)
{
	off_t before = size_of(a->fd);
	size_t mended = 0, wanted = 0, done = 0;
	int why = EIO;

	if (a->torn && a->mend) {
		wanted = strlen(a->mend);
		mended = write_all(a->fd, a->mend, wanted);
		why = errno;
	}
	if (mended == wanted && (!a->torn || a->mend)) {
		done = write_all(a->fd, at, n);
		why = errno;
	}
	if (done == n) {
		a->torn = false;
		return RT_OK;
	}
	/* unless another process has appended in between */
	if (mended + done > 0 &&
	    (before < 0 || size_of(a->fd) != before + (off_t)(mended + done) ||
	     ftruncate(a->fd, before) != 0)) {
		a->torn = true;
	}
	a->lost++;
	return rt_fail(err, RT_IO, (struct rt_where){ a->path, NULL, -1 },
		       "cannot be written: %s", strerror(why));
}

enum rt_status
rt_append_close(struct rt_append *a, struct rt_error *err)
{
	enum rt_status status = RT_OK;

	if (a->fd >= 0 && close(a->fd) != 0) {
		status = rt_fail(err, RT_IO, (struct rt_where){ a->path, NULL,
			-1 }, "cannot be written: %s", strerror(errno));
	}
	free(a->path);
	*a = (struct rt_append){ .fd = -1 };
	return status;
}
