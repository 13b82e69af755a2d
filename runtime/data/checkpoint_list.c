/*
 * Folders of checkpoints: which exist, which are complete, which may be
 * removed.  Their names:
 *
 *	step-00000042			a checkpoint
 *	step-00000042.old		one that a new step-00000042 replaces
 *	step-00000042.tmp-1f		one that is being written, or whose
 *					save did not finish
 */
#include "runtime/data/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/data.h"
#include "runtime/data/safetensors.h"

#define PREFIX "step-"

/* ---- names --------------------------------------------------------- */

char *
rt_path_in(const struct rt_alloc *a, const char *dir, const char *name)
{
	char *with_slash = rt_join(a, dir, strlen(dir), "/"), *path;

	if (!with_slash) {
		return NULL;
	}
	path = rt_join(a, with_slash, strlen(with_slash), name);
	rt_release(a, with_slash);
	return path;
}

void
rt_step_name(char out[RT_STEP_NAME_BYTES], int64_t step, const char *tail)
{
	snprintf(out, RT_STEP_NAME_BYTES, PREFIX "%08" PRId64 "%s", step, tail);
}

char *
rt_step_path(const struct rt_alloc *a, const char *folder, int64_t step,
	     const char *tail)
{
	char name[RT_STEP_NAME_BYTES];

	rt_step_name(name, step, tail);
	return rt_path_in(a, folder, name);
}

/* The rest of the name after the step's number; NULL: not such a name. */
static const char *
step_name(const char *name, int64_t *step)
{
	const char *p = name + strlen(PREFIX);
	int64_t v = 0;

	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || *p < '0' ||
	    *p > '9') {
		return NULL;
	}
	for (; *p >= '0' && *p <= '9'; p++) {
		if (v > (INT64_MAX - 9) / 10) {
			return NULL;
		}
		v = v * 10 + (*p - '0');
	}
	*step = v;
	return p;
}

/* ---- the list ------------------------------------------------------ */

static int
newest_first(const void *a, const void *b)
{
	const struct rt_checkpoint_found *p = a, *q = b;

	if (p->step != q->step) {
		return p->step < q->step ? 1 : -1;
	}
	return (int)p->old - (int)q->old;
}

/* Appends; false: no memory. */
static bool
list_add(struct rt_checkpoint_list *l, int64_t step, bool old)
{
	size_t capacity = l->capacity ? l->capacity * 2 : 16;
	struct rt_checkpoint_found *p;

	if (l->n == l->capacity) {
		p = rt_resize(&l->alloc, l->at, capacity, sizeof(*p));
		if (!p) {
			return false;
		}
		l->at = p;
		l->capacity = capacity;
	}
	l->at[l->n].step = step;
	l->at[l->n++].old = old;
	return true;
}

enum rt_status
rt_checkpoint_list_read(struct rt_checkpoint_list *l, const char *folder,
			struct rt_error *err)
{
	enum rt_status status = RT_OK;
	struct dirent *entry;
	const char *tail;
	int64_t step;
	bool old;
	DIR *d;

	memset(l, 0, sizeof(*l));
	l->alloc = rt_alloc_or_libc(NULL);
	d = opendir(folder);
	if (!d) {
		return errno == ENOENT ? RT_OK :
		       rt_files_fail(err, folder, "open", errno);
	}
	while (status == RT_OK && (entry = readdir(d)) != NULL) {
		tail = step_name(entry->d_name, &step);
		old = tail && strcmp(tail, ".old") == 0;
		if (tail && (old || !*tail) && !list_add(l, step, old)) {
			status = rt_no_memory(err, folder);
		}
	}
	closedir(d);
	if (status != RT_OK) {
		rt_checkpoint_list_release(l);
	} else if (l->n > 0) {
		qsort(l->at, l->n, sizeof(*l->at), newest_first);
	}
	return status;
}

void
rt_checkpoint_list_release(struct rt_checkpoint_list *l)
{
	rt_release(&l->alloc, l->at);
	l->at = NULL;
	l->n = l->capacity = 0;
}

int64_t
rt_checkpoint_last_step(const char *folder)
{
	struct rt_checkpoint_list list;
	struct rt_error err;
	int64_t step = -1;

	if (rt_checkpoint_list_read(&list, folder, &err) == RT_OK) {
		step = list.n > 0 ? list.at[0].step : -1;
		rt_checkpoint_list_release(&list);
	}
	return step;
}

/* ---- checks --------------------------------------------------- */

enum rt_status
rt_checkpoint_check_name(const char *dir, int64_t step, struct rt_error *err)
{
	struct rt_where where = { dir, NULL, -1 };
	size_t n = strlen(dir), from;
	char name[RT_STEP_NAME_BYTES];
	const char *tail;
	int64_t named;

	while (n > 0 && dir[n - 1] == '/') {
		n--;
	}
	for (from = n; from > 0 && dir[from - 1] != '/'; from--) {
		continue;
	}
	if (n - from >= sizeof(name)) {
		return RT_OK;
	}
	memcpy(name, dir + from, n - from);
	name[n - from] = '\0';
	tail = step_name(name, &named);
	if (!tail || (*tail && strcmp(tail, ".old") != 0) || named == step) {
		return RT_OK;
	}
	return rt_fail(err, RT_FORMAT, where,
		       "checkpoint.json: found step %" PRId64 ", expected "
		       "%" PRId64 ", as its folder is named", step, named);
}

/* ---- is it all there ----------------------------------------------- */

enum rt_status
rt_checkpoint_check_complete(const struct rt_alloc *a, const char *dir,
			     struct rt_error *err)
{
	struct rt_where where = { NULL, NULL, -1 };
	enum rt_status status;
	struct rt_manifest m;
	struct stat sb;
	char *path;
	int i;

	path = rt_path_in(a, dir, "checkpoint.json");
	if (!path) {
		return rt_no_memory(err, dir);
	}
	status = rt_manifest_read(&m, path, err);
	rt_release(a, path);
	if (status == RT_OK) {
		status = rt_checkpoint_check_name(dir, m.step, err);
	}
	for (i = 0; i < RT_STORED_FILES && status == RT_OK; i++) {
		path = rt_path_in(a, dir, rt_stored_file(i));
		if (!path) {
			status = rt_no_memory(err, dir);
			break;
		}
		where.path = path;
		if (stat(path, &sb) != 0) {
			status = rt_files_fail(err, path, "open", errno);
		} else if (sb.st_size != m.files[i].bytes) {
			status = rt_fail(err, RT_FORMAT, where,
					 "found %lld bytes, expected %" PRId64
					 " by checkpoint.json",
					 (long long)sb.st_size,
					 m.files[i].bytes);
		}
		rt_release(a, path);
	}
	rt_manifest_release(&m);
	return status;
}

/* ---- removing ------------------------------------------------------ */

/* The manifest first: without it the rest is no checkpoint. */
static const char *const file_names[] = { "checkpoint.json",
					  "model.safetensors",
					  "state.safetensors" };

enum { NFILES = sizeof(file_names) / sizeof(file_names[0]) };

/*
 * Whether everything in an open folder that has the name of one of our files is
 * a regular file.
 */
static bool
is_ours(int dir)
{
	struct stat sb;
	size_t i;

	for (i = 0; i < NFILES; i++) {
		if (fstatat(dir, file_names[i], &sb, AT_SYMLINK_NOFOLLOW) ==
		    0 ? !S_ISREG(sb.st_mode) : errno != ENOENT) {
			return false;
		}
	}
	return true;
}

/*
 * Works with open folders, so that a path that is exchanged meanwhile cannot
 * lead elsewhere.
 */
void
rt_checkpoint_remove(const struct rt_files *f, const char *folder,
		     const char *name)
{
	int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	int parent = open(folder, flags);
	int dir = parent < 0 ? -1 : openat(parent, name, flags | O_NOFOLLOW);
	size_t i;

	if (dir >= 0 && is_ours(dir)) {
		for (i = 0; i < NFILES; i++) {
			f->unlinkat(dir, file_names[i], 0);
		}
		f->unlinkat(parent, name, AT_REMOVEDIR);
	}
	if (dir >= 0) {
		close(dir);
	}
	if (parent >= 0) {
		close(parent);
	}
}

void
rt_checkpoint_remove_leftovers(const struct rt_files *f, const char *folder)
{
	struct dirent *entry;
	const char *tail;
	int64_t step;
	DIR *d;

	d = opendir(folder);
	while (d && (entry = readdir(d)) != NULL) {
		tail = step_name(entry->d_name, &step);
		if (tail && strncmp(tail, ".tmp-", 5) == 0) {
			rt_checkpoint_remove(f, folder, entry->d_name);
		}
	}
	if (d) {
		closedir(d);
	}
}

/* Whether it is a complete checkpoint and not a link to one. */
static bool
is_kept(const struct rt_alloc *a, const char *folder, const char *name)
{
	char *path = rt_path_in(a, folder, name);
	struct stat sb;
	bool is = path && lstat(path, &sb) == 0 && S_ISDIR(sb.st_mode) &&
		  rt_checkpoint_check_complete(a, path, NULL) == RT_OK;

	rt_release(a, path);
	return is;
}

void
rt_checkpoint_prune(const struct rt_alloc *a, const struct rt_files *f,
		    const char *folder, int64_t step, int64_t keep)
{
	char name[RT_STEP_NAME_BYTES];
	struct rt_checkpoint_list l;
	int64_t left = keep - 1;
	size_t i;

	if (rt_checkpoint_list_read(&l, folder, NULL) != RT_OK) {
		return;
	}
	for (i = 0; i < l.n; i++) {
		if (l.at[i].step > step ||
		    (l.at[i].step == step && !l.at[i].old)) {
			continue;
		}
		rt_step_name(name, l.at[i].step, l.at[i].old ? ".old" : "");
		if (l.at[i].step == step ||
		    (keep > 0 && is_kept(a, folder, name) && left-- <= 0)) {
			rt_checkpoint_remove(f, folder, name);
		}
	}
	rt_checkpoint_list_release(&l);
}
