/*
 * Output: a file appears whole or not at all.  A regular file is written
 * under another name beside it and renamed; what is no regular file (a
 * device, a pipe, a link) is written where it is.
 */
#include "frontend/driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct span nowhere;

static bool
fail(struct ir_ctx *c, const char *path)
{
	diag_error(&c->diags, nowhere, "cannot write %s: %s", path,
		   strerror(errno));
	return false;
}

/* A full disk shows at fclose, a closed pipe at fflush. */
static bool
write_text(FILE *f, const struct buf *text)
{
	struct buf t = *text;

	return (t.n == 0 || fwrite(buf_text(&t), 1, t.n, f) == t.n) &&
	       fflush(f) == 0;
}

static bool
write_stdout(struct ir_ctx *c, const struct buf *text)
{
	if (!write_text(stdout, text) || fclose(stdout) != 0) {
		return fail(c, "standard output");
	}
	return true;
}

static bool
write_in_place(struct ir_ctx *c, const char *path, const struct buf *text)
{
	FILE *f = fopen(path, "wb");
	bool ok;

	if (!f) {
		return fail(c, path);
	}
	ok = write_text(f, text);
	ok &= fclose(f) == 0;
	return ok || fail(c, path);
}

/* What a new file gets, or what the old one has. */
static mode_t
mode_of(const struct stat *old)
{
	mode_t mask = umask(0);

	umask(mask);
	return old ? old->st_mode & 0777 : 0666 & ~mask;
}

static bool
write_renamed(struct ir_ctx *c, const char *path, const struct stat *old,
	      const struct buf *text)
{
	char *tmp = arena_printf(&c->perm, "%s.XXXXXX", path);
	int fd = mkstemp(tmp), saved;
	FILE *f;
	bool ok;

	if (fd < 0) {
		return fail(c, path);
	}
	f = fdopen(fd, "wb");
	ok = f && fchmod(fd, mode_of(old)) == 0 && write_text(f, text);
	ok &= (f ? fclose(f) : close(fd)) == 0;
	if (ok && rename(tmp, path) == 0) {
		return true;
	}
	saved = errno;
	unlink(tmp);
	errno = saved;
	return fail(c, path);
}

bool
drv_write(struct ir_ctx *c, const char *path, const struct buf *text)
{
	struct stat old;
	bool exists;

	if (!path || strcmp(path, "-") == 0) {
		return write_stdout(c, text);
	}
	exists = lstat(path, &old) == 0;
	if (exists && !S_ISREG(old.st_mode)) {
		return write_in_place(c, path, text);
	}
	return write_renamed(c, path, exists ? &old : NULL, text);
}
