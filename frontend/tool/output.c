/*
 * Output: a file appears whole or not at all.  A regular file is written
 * under another name beside it and renamed; what is no regular file (a
 * device, a pipe, a link) is written where it is.  A folder that is new
 * appears with all of its files; in one that is there, each file is replaced
 * once all of them have been written under other names.  Ctrl-C is delayed
 * until a file or folder is complete.
 */
#include "frontend/tool/tool.h"
#include "runtime/abi.h"
#include "runtime/delay.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUBFOLDERS 3	/* of a plan's folder */

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

/* The mode of the file that is replaced, or that of a new file. */
static mode_t
mode_of(const struct stat *old)
{
	mode_t mask = umask(0);

	umask(mask);
	return old ? old->st_mode & 0777 : 0666 & ~mask;
}

/* Whoever may read it may run it. */
static mode_t
executable(mode_t mode)
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

/* Writes the text under another name in the same folder, which is returned;
 * NULL and errno after an error. */
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
	ok = f && fchmod(fd, runs ? executable(mode_of(old))
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
	const char *tmp;
	struct rt_delay h;
	bool ok;

	rt_delay_begin(&h);
	tmp = write_beside(c, path, old, false, text);
	ok = tmp && rename(tmp, path) == 0;
	if (tmp && !ok) {
		drop(tmp);
	}
	rt_delay_end(&h);
	return ok || fail(c, path);
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

/*
 * Subfolders of a plan's folder, which are removed with the plan that they
 * belong to, and the endings of the files that llmc writes into them.
 */
static const struct {
	const char *name;
	const char *ends[6];
} subfolders[SUBFOLDERS] = {
	{ "kernels", { ".cu", ".cubin", ".h", NULL } },
	{ "trials", { ".cu", ".cubin", ".h", ".json", NULL } },
	{ "unfinished", { ".o", ".json", "list", "run", ".read",
			NULL } }
};

/* Files that not every plan has. */
static const char *const parts[] = { "rank", RT_EMULATOR_FILE };

static const char *
inside(struct ir_ctx *c, const char *folder, const char *name)
{
	return arena_printf(&c->perm, "%s/%s", folder, name);
}

/* The file's name inside a subfolder, or NULL if it is elsewhere; the index
 * SUBFOLDERS is the folder itself. */
static const char *
name_in(const struct drv_file *f, uint32_t sub)
{
	const char *slash = strchr(f->name, '/');
	size_t n;

	if (sub == SUBFOLDERS) {
		return slash ? NULL : f->name;
	}
	n = strlen(subfolders[sub].name);
	return slash && (size_t)(slash - f->name) == n &&
	       strncmp(f->name, subfolders[sub].name, n) == 0 ? slash + 1
							       : NULL;
}

static bool
has_any(const struct drv_files *x, uint32_t sub)
{
	uint32_t i;

	for (i = 0; i < x->n; i++) {
		if (name_in(&x->at[i], sub)) {
			return true;
		}
	}
	return false;
}

/* Removes a folder of llmc and all files in it; errno is kept. */
static void
drop_folder(const char *path)
{
	int saved = errno;
	DIR *d = opendir(path);
	const struct dirent *e;

	while (d && (e = readdir(d)) != NULL) {
		unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d) {
		closedir(d);
	}
	rmdir(path);
	errno = saved;
}

/* Writes the files of a subfolder into a folder that exists. */
static bool
write_sub(struct ir_ctx *c, const char *path, const struct drv_files *x,
	  uint32_t sub)
{
	bool ok = true;
	uint32_t i;

	for (i = 0; ok && i < x->n; i++) {
		const char *name = name_in(&x->at[i], sub);
		const char *to = name ? inside(c, path, name) : NULL;

		ok = !name || (write_in_place(c, to, x->at[i].text) &&
			       (!x->at[i].is_program ||
				chmod(to, executable(mode_of(NULL))) == 0));
	}
	return ok;
}

static bool
write_all(struct ir_ctx *c, const char *path, const struct drv_files *x)
{
	bool ok = write_sub(c, path, x, SUBFOLDERS);
	uint32_t i;

	for (i = 0; ok && i < SUBFOLDERS; i++) {
		const char *sub = inside(c, path, subfolders[i].name);

		ok = !has_any(x, i) ||
		     (mkdir(sub, 0777) == 0 && write_sub(c, sub, x, i));
	}
	return ok;
}

static bool
write_new_folder(struct ir_ctx *c, const char *path,
		 const struct drv_files *x)
{
	char *tmp = arena_printf(&c->perm, "%s.XXXXXX", path);
	uint32_t i;

	if (!mkdtemp(tmp)) {
		return fail(c, path);
	}
	if (chmod(tmp, executable(mode_of(NULL))) == 0 &&
	    write_all(c, tmp, x) && rename(tmp, path) == 0) {
		return true;
	}
	for (i = 0; i < SUBFOLDERS; i++) {
		drop_folder(inside(c, tmp, subfolders[i].name));
	}
	drop_folder(tmp);
	return c->diags.errors > 0 ? false : fail(c, path);
}

/* ---- a folder that exists ---- */

/* Whether a rename can replace it, checked before the first rename. */
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
is_written_by_llmc(uint32_t sub, const char *name)
{
	size_t n = strlen(name), len;
	uint32_t i;

	for (i = 0; subfolders[sub].ends[i]; i++) {
		len = strlen(subfolders[sub].ends[i]);
		if (n >= len &&
		    strcmp(name + n - len, subfolders[sub].ends[i]) == 0) {
			return true;
		}
	}
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* False, reported, if the user has put a file there, which stays. */
static bool
can_drop(struct ir_ctx *c, const char *path, uint32_t sub, bool was_plan)
{
	const struct dirent *e;
	const char *other = NULL;
	struct stat old;
	DIR *d;

	if (lstat(path, &old) != 0) {
		return true;
	}
	d = was_plan && S_ISDIR(old.st_mode) ? opendir(path) : NULL;
	if (!d) {
		diag_error(&c->diags, nowhere, "%s would be replaced, and it "
			   "is not a folder that llmc wrote", path);
		return false;
	}
	while ((e = readdir(d)) != NULL) {
		if (!is_written_by_llmc(sub, e->d_name)) {
			other = arena_printf(&c->perm, "%s", e->d_name);
		}
	}
	closedir(d);
	if (other) {
		diag_error(&c->diags, nowhere, "%s/%s was not written by llmc, "
			   "and %s would be replaced: move it "
			   "away", path, other,
			   path);
	}
	return !other;
}

/* What was written under other names. */
struct beside {
	const char **file;
	const char *sub[SUBFOLDERS];
	bool was_plan;		/* the folder holds a plan already */
};

static bool
check_old(struct ir_ctx *c, const char *path, const struct drv_files *x,
	  struct beside *b)
{
	bool ok = true;
	uint32_t i;

	b->was_plan = access(inside(c, path, "plan.json"), F_OK) == 0;
	for (i = 0; ok && i < SUBFOLDERS; i++) {
		ok = (!b->was_plan && !has_any(x, i)) ||
		     can_drop(c, inside(c, path, subfolders[i].name), i,
			      b->was_plan);
	}
	for (i = 0; ok && i < x->n; i++) {
		ok = !name_in(&x->at[i], SUBFOLDERS) ||
		     can_replace(c, inside(c, path, x->at[i].name));
	}
	return ok;
}

static bool
write_all_beside(struct ir_ctx *c, const char *path,
		 const struct drv_files *x, struct beside *b)
{
	bool ok = true;
	uint32_t i;

	for (i = 0; ok && i < x->n; i++) {
		const char *to = inside(c, path, x->at[i].name);

		if (name_in(&x->at[i], SUBFOLDERS)) {
			b->file[i] = write_beside(c, to, NULL,
						  x->at[i].is_program,
						  x->at[i].text);
			ok = b->file[i] || fail(c, to);
		}
	}
	for (i = 0; ok && i < SUBFOLDERS; i++) {
		char *tmp = arena_printf(&c->perm, "%s/%s.XXXXXX", path,
					 subfolders[i].name);

		if (has_any(x, i)) {
			b->sub[i] = mkdtemp(tmp);
			ok = b->sub[i] ? chmod(tmp, executable(mode_of(NULL)))
				== 0 && write_sub(c, tmp, x, i)
				: fail(c, tmp);
		}
	}
	return ok;
}

/* Removes what the old plan had in the folder and the new one has not. */
static void
drop_parts(struct ir_ctx *c, const char *path, const struct drv_files *x)
{
	bool has;
	uint32_t i;
	size_t j;

	for (j = 0; j < sizeof parts / sizeof *parts; j++) {
		has = false;
		for (i = 0; i < x->n; i++) {
			has |= strcmp(x->at[i].name, parts[j]) == 0;
		}
		if (!has) {
			drop(inside(c, path, parts[j]));
		}
	}
}

/* Removes the old subfolder, and renames the new one if there is one. */
static bool
swap_sub(struct ir_ctx *c, const char *path, uint32_t sub,
	 struct beside *b)
{
	const char *to = inside(c, path, subfolders[sub].name);
	char *away = arena_printf(&c->perm, "%s.XXXXXX", to);
	struct stat old;

	if (b->was_plan && lstat(to, &old) == 0) {
		if (!mkdtemp(away) || rename(to, away) != 0) {
			return fail(c, to);
		}
		drop_folder(away);
	}
	if (b->sub[sub]) {
		if (rename(b->sub[sub], to) != 0) {
			return fail(c, to);
		}
		b->sub[sub] = NULL;
	}
	return true;
}

static bool
swap_all(struct ir_ctx *c, const char *path, const struct drv_files *x,
	 struct beside *b)
{
	bool ok = true;
	uint32_t i;

	for (i = 0; ok && i < x->n; i++) {
		const char *to = inside(c, path, x->at[i].name);

		if (b->file[i]) {
			ok = rename(b->file[i], to) == 0 || fail(c, to);
			b->file[i] = ok ? NULL : b->file[i];
		}
	}
	for (i = 0; ok && i < SUBFOLDERS; i++) {
		ok = swap_sub(c, path, i, b);
	}
	if (ok && b->was_plan) {
		drop_parts(c, path, x);
	}
	return ok;
}

static bool
write_into_folder(struct ir_ctx *c, const char *path,
		  const struct drv_files *x)
{
	struct beside b = { .file = arena_alloc(&c->perm,
		sizeof *b.file * (x->n + 1)) };
	bool ok = check_old(c, path, x, &b) &&
		  write_all_beside(c, path, x, &b) &&
		  swap_all(c, path, x, &b);
	uint32_t i;

	for (i = 0; i < x->n; i++) {
		if (b.file[i]) {
			drop(b.file[i]);
		}
	}
	for (i = 0; i < SUBFOLDERS; i++) {
		if (b.sub[i]) {
			drop_folder(b.sub[i]);
		}
	}
	return ok;
}

static const char *
without_slashes(struct ir_ctx *c, const char *path)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/') {
		len--;
	}
	return arena_strndup(&c->perm, path, len);
}

/* The folder that a new one is made in. */
static const char *
folder_of(struct ir_ctx *c, const char *path)
{
	const char *slash = strrchr(path, '/');

	return !slash ? "." : slash == path ? "/"
		: arena_strndup(&c->perm, path, (size_t)(slash - path));
}

bool
drv_may_write_folder(struct ir_ctx *c, const char *path)
{
	struct stat old;

	path = without_slashes(c, path);
	if (stat(path, &old) != 0) {
		if (*path && access(folder_of(c, path), W_OK | X_OK) == 0) {
			return true;
		}
		return fail(c, *path ? path : "into a folder without a name");
	}
	if (!S_ISDIR(old.st_mode)) {
		diag_error(&c->diags, nowhere, "%s is not a folder, and a plan "
			   "is written into one; --emit=answer writes the "
			   "answer to a file", path);
		return false;
	}
	return access(path, W_OK | X_OK) == 0 || fail(c, path);
}

bool
drv_may_write_file(struct ir_ctx *c, const char *path)
{
	struct stat old;

	if (stat(path, &old) != 0) {
		return access(folder_of(c, path), W_OK | X_OK) == 0 ||
		       fail(c, path);
	}
	errno = EISDIR;
	return (!S_ISDIR(old.st_mode) && access(path, W_OK) == 0) ||
	       fail(c, path);
}

static bool
write_folder(struct ir_ctx *c, const char *path,
	     const struct drv_files *x)
{
	struct stat old;
	struct rt_delay h;
	bool ok;

	path = without_slashes(c, path);
	rt_delay_begin(&h);
	ok = stat(path, &old) != 0 ? write_new_folder(c, path, x)
		: drv_may_write_folder(c, path) &&
		  write_into_folder(c, path, x);
	rt_delay_end(&h);
	return ok;
}

/* ---- a plan ---- */

void
drv_add_file(struct driver *d, const char *name, const struct buf *text,
	     bool is_program)
{
	struct drv_file f = { name, text, is_program };

	VEC_PUSH(&d->ctx.perm, &d->files, f);
}

bool
drv_write_plan(struct driver *d, const char *path)
{
	drv_add_file(d, "plan.json", &d->json, false);
	if (d->plan.n) {
		drv_add_file(d, "plan.llp", &d->plan, false);
	}
	if (d->program.n) {
		drv_add_file(d, "rank", &d->program, true);
	}
	return write_folder(&d->ctx, path, &d->files);
}
