/*
 * Output: a file appears whole or not at all.  A regular file is written
 * under another name beside it and renamed; what is no regular file (a
 * device, a pipe, a link) is written where it is.  A folder that is new
 * appears with all of its files; in one that is there, each file is replaced
 * once all of them have been written under other names.
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

/* Whoever may read it may run it. */
static mode_t
runs_too(mode_t mode)
{
	return mode | (mode & 0444) >> 2;
}

static void
drop(const char *path)
{
	int saved = errno;

	unlink(path);
	errno = saved;
}

/* The text under another name beside it; NULL, and errno says why. */
static const char *
write_beside(struct ir_ctx *c, const char *path, const struct stat *old,
	     bool runs, const struct buf *text)
{
	char *tmp = arena_printf(&c->perm, "%s.XXXXXX", path);
	int fd = mkstemp(tmp);
	FILE *f;
	bool ok;

	if (fd < 0) {
		return NULL;
	}
	f = fdopen(fd, "wb");
	ok = f && fchmod(fd, runs ? runs_too(mode_of(old))
			 : mode_of(old)) == 0 && write_text(f, text);
	ok &= (f ? fclose(f) : close(fd)) == 0;
	if (!ok) {
		drop(tmp);
	}
	return ok ? tmp : NULL;
}

static bool
write_renamed(struct ir_ctx *c, const char *path, const struct stat *old,
	      const struct buf *text)
{
	const char *tmp = write_beside(c, path, old, false, text);

	if (tmp && rename(tmp, path) == 0) {
		return true;
	}
	if (tmp) {
		drop(tmp);
	}
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

/* ---- folders ---- */

static const char *
inside(struct ir_ctx *c, const char *folder, const char *name)
{
	return arena_printf(&c->perm, "%s/%s", folder, name);
}

static bool
write_new_folder(struct ir_ctx *c, const char *path,
		 const struct drv_file *files, int n)
{
	char *tmp = arena_printf(&c->perm, "%s.XXXXXX", path);
	bool ok = mkdtemp(tmp) != NULL;
	int i, saved;

	if (!ok) {
		return fail(c, path);
	}
	ok = chmod(tmp, runs_too(mode_of(NULL))) == 0;
	for (i = 0; ok && i < n; i++) {
		const char *to = inside(c, tmp, files[i].name);

		ok = write_in_place(c, to, files[i].text) &&
		     (!files[i].runs ||
		      chmod(to, runs_too(mode_of(NULL))) == 0);
	}
	if (ok && rename(tmp, path) == 0) {
		return true;
	}
	saved = errno;
	while (i-- > 0) {
		unlink(inside(c, tmp, files[i].name));
	}
	rmdir(tmp);
	errno = saved;
	return c->diags.errors > 0 ? false : fail(c, path);
}

/* What a rename could not replace is found before the first of them. */
static bool
can_replace(struct ir_ctx *c, const char *path)
{
	struct stat old;

	if (lstat(path, &old) != 0 || !S_ISDIR(old.st_mode)) {
		return true;
	}
	errno = EISDIR;
	return fail(c, path);
}

static bool
write_into_folder(struct ir_ctx *c, const char *path,
		  const struct drv_file *files, int n)
{
	const char *tmp[DRV_MAX_FILES] = { NULL };
	bool ok = true;
	int i;

	for (i = 0; ok && i < n; i++) {
		const char *to = inside(c, path, files[i].name);

		ok = can_replace(c, to);
		if (ok) {
			tmp[i] = write_beside(c, to, NULL, files[i].runs,
					      files[i].text);
			ok = tmp[i] || fail(c, to);
		}
	}
	for (i = 0; ok && i < n; i++) {
		const char *to = inside(c, path, files[i].name);

		ok = rename(tmp[i], to) == 0 || fail(c, to);
		tmp[i] = ok ? NULL : tmp[i];
	}
	for (i = 0; i < n; i++) {
		if (tmp[i]) {
			drop(tmp[i]);
		}
	}
	return ok;
}

bool
drv_write_folder(struct ir_ctx *c, const char *path,
		 const struct drv_file *files, int n)
{
	size_t len = strlen(path);
	struct stat old;

	while (len > 1 && path[len - 1] == '/') {
		len--;
	}
	path = arena_strndup(&c->perm, path, len);
	if (stat(path, &old) != 0) {
		return write_new_folder(c, path, files, n);
	}
	if (!S_ISDIR(old.st_mode)) {
		diag_error(&c->diags, nowhere, "%s is no folder, and the plan "
			   "is written into one; --emit=answer writes the "
			   "answer to a file", path);
		return false;
	}
	return write_into_folder(c, path, files, n);
}
