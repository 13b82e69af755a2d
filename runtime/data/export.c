/*
 * Writes weights for other programs: see rt_export() in data.h and
 * docs/import.md.  Rank 0 makes a folder under a temporary name, every rank
 * writes its pieces of whole tensors there, and rank 0 renames the folder.
 */
#include "runtime/data/safetensors_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	FILE_NAME_BYTES = 64,
};

struct exporting {
	const struct rt_store *s;
	const struct rt_files *f;
	const char *folder;
	bool replaces;		/* an earlier export, too */
	struct rt_alloc alloc;
	struct rt_layout l;
	char *tmp;	/* the folder until it is complete */
	uint64_t *sums, *elems; /* by number of what is stored */
};

/* "model.safetensors", or "model-00002-of-00003.safetensors" */
static void
file_name(const struct exporting *x, int file, char out[FILE_NAME_BYTES])
{
	if (x->l.nfiles == 1) {
		snprintf(out, FILE_NAME_BYTES, "model.safetensors");
	} else {
		snprintf(out, FILE_NAME_BYTES,
			 "model-%05d-of-%05d.safetensors", file + 1,
			 x->l.nfiles);
	}
}

/* The path of a file in the temporary folder; NULL: no memory. */
static char *
path_of(const struct exporting *x, const char *name)
{
	size_t n = strlen(x->tmp);
	char *slash = rt_join(&x->alloc, x->tmp, n, "/"), *path;

	path = slash ? rt_join(&x->alloc, slash, n + 1, name) : NULL;
	rt_release(&x->alloc, slash);
	return path;
}

/* ---- on rank 0 ----------------------------------------------------- */

/* Whether an export has files of that name. */
static bool
is_own_name(const char *name)
{
	return strcmp(name, "config.json") == 0 ||
	       (strncmp(name, "model", 5) == 0 &&
		(rt_ends_in(name, ".safetensors") ||
		 rt_ends_in(name, ".safetensors.index.json")));
}

/* Whether all that a folder has is an export's; with `gone` it is removed. */
static bool
is_export(const struct exporting *x, const char *folder, bool gone)
{
	DIR *d = opendir(folder);
	const struct dirent *e;
	bool own = d != NULL;

	while (own && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 ||
		    strcmp(e->d_name, "..") == 0) {
			continue;
		}
		own = is_own_name(e->d_name);
		if (own && gone) {
			x->f->unlinkat(dirfd(d), e->d_name, 0);
		}
	}
	if (d) {
		closedir(d);
	}
	if (own && gone) {
		x->f->unlinkat(AT_FDCWD, folder, AT_REMOVEDIR);
	}
	return own;
}

/*
 * What is there must be an empty folder, or nothing; or an export that is
 * replaced once the new one is complete.
 */
static enum rt_status
make_folder(const struct exporting *x, struct rt_error *err)
{
	struct rt_where where = { x->folder, NULL, -1 };
	struct stat sb;

	if (lstat(x->folder, &sb) == 0 && rmdir(x->folder) != 0 &&
	    !(x->replaces && S_ISDIR(sb.st_mode) &&
	      is_export(x, x->folder, false))) {
		return rt_fail(err, RT_RANGE, where, "found a file or a "
			       "folder that is not empty, expected nothing: "
			       "export to another folder");
	}
	return x->f->mkdir(x->tmp, 0777) == 0 ? RT_OK :
	       rt_files_fail(err, x->folder, "make the folder", errno);
}

/* Closes a file; makes it last if all was written. */
static enum rt_status
end_file(const struct exporting *x, int fd, const char *path,
	 enum rt_status status, struct rt_error *err)
{
	if (status == RT_OK) {
		return rt_files_finish(x->f, fd, path, err);
	}
	x->f->close(fd);
	return status;
}

/*
 * Writes a whole file of the temporary folder, of n bytes with the rest of its
 * `bytes` reserved.
 */
static enum rt_status
write_file(const struct exporting *x, const char *name, const char *text,
	   size_t n, int64_t bytes, struct rt_error *err)
{
	char *path = path_of(x, name);
	enum rt_status status = RT_IO;
	int fd;

	if (!path) {
		return rt_no_memory(err, x->folder);
	}
	fd = rt_files_create(x->f, path, bytes, err);
	if (fd >= 0) {
		status = rt_files_write(x->f, fd, path, text, (int64_t)n, 0,
					err);
		status = end_file(x, fd, path, status, err);
	}
	rt_release(&x->alloc, path);
	return status;
}

/* model.safetensors.index.json, of several files. */
static enum rt_status
write_index(const struct exporting *x, struct rt_error *err)
{
	struct rt_text t = { x->alloc, NULL, 0, 0, false };
	char name[FILE_NAME_BYTES];
	enum rt_status status;
	int64_t total = 0;
	size_t i;

	for (i = 0; i < x->l.n; i++) {
		total += x->l.at[i].bytes;
	}
	rt_text_add(&t, "{\n  \"metadata\": {\n    \"total_size\": %" PRId64
		    "\n  },\n  \"weight_map\": {", total);
	for (i = 0; i < x->l.n; i++) {
		file_name(x, x->l.at[i].file, name);
		rt_text_add(&t, "%s\n    ", i ? "," : "");
		rt_text_string(&t, x->l.at[i].name);
		rt_text_add(&t, ": \"%s\"", name);
	}
	rt_text_add(&t, "\n  }\n}\n");
	status = t.failed ? rt_no_memory(err, x->folder) :
		write_file(x, "model.safetensors.index.json", t.at, t.n,
			   (int64_t)t.n, err);
	rt_text_release(&t);
	return status;
}

static enum rt_status
create_files(const struct exporting *x, struct rt_error *err)
{
	const char *config = x->s->plan->config;
	char name[FILE_NAME_BYTES];
	enum rt_status status = make_folder(x, err);
	int i;

	for (i = 0; i < x->l.nfiles && status == RT_OK; i++) {
		const struct rt_layout_file *f = &x->l.files[i];

		file_name(x, i, name);
		status = write_file(x, name, f->header.at, f->header.n,
				    f->bytes, err);
	}
	if (status == RT_OK && x->l.nfiles > 1) {
		status = write_index(x, err);
	}
	if (status == RT_OK && config) {
		status = write_file(x, "config.json", config, strlen(config),
				    (int64_t)strlen(config), err);
	}
	return status;
}

/* An earlier export has another name between two renames. */
static enum rt_status
put_in_place(const struct exporting *x, struct rt_error *err)
{
	char *old = rt_join(&x->alloc, x->tmp, strlen(x->tmp), ".old");
	enum rt_status status = RT_OK;
	struct stat sb;
	bool had;

	if (!old) {
		return rt_no_memory(err, x->folder);
	}
	had = x->replaces && lstat(x->folder, &sb) == 0;
	if (had && x->f->rename(x->folder, old) != 0) {
		status = rt_files_fail(err, x->folder, "rename", errno);
	} else if (x->f->rename(x->tmp, x->folder) != 0) {
		status = rt_files_fail(err, x->folder, "rename", errno);
		if (had) {
			x->f->rename(old, x->folder);
		}
	} else if (had) {
		is_export(x, old, true);
	}
	rt_release(&x->alloc, old);
	return status;
}

/* Checks that each element was written exactly once, and names the folder. */
static enum rt_status
complete(const struct exporting *x, struct rt_error *err)
{
	struct rt_where where = { x->folder, NULL, -1 };
	enum rt_status status;
	size_t i;

	for (i = 0; i < x->l.n; i++) {
		if (x->elems[i] != (uint64_t)rt_part_elems(x->l.at[i].tensor)) {
			where.tensor = x->l.at[i].name;
			return rt_fail(err, RT_FORMAT, where, "the ranks "
				       "have not all of it, or more: the plan "
				       "is broken");
		}
	}
	status = rt_files_sync_dir(x->f, x->tmp, err);
	return status == RT_OK ? put_in_place(x, err) : status;
}

/* Removes what a failed export has written. */
static void
remove_files(const struct exporting *x)
{
	static const char *const others[] = { "config.json",
					      "model.safetensors.index.json" };
	char name[FILE_NAME_BYTES];
	int i, n = x->l.nfiles;
	char *path;

	for (i = 0; i < n + 2; i++) {
		if (i < n) {
			file_name(x, i, name);
		}
		path = path_of(x, i < n ? name : others[i - n]);
		if (path) {
			x->f->unlinkat(AT_FDCWD, path, 0);
		}
		rt_release(&x->alloc, path);
	}
	x->f->unlinkat(AT_FDCWD, x->tmp, AT_REMOVEDIR);
}

/* ---- on all ranks -------------------------------------------------- */

static enum rt_status
write_pieces(const struct exporting *x, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	char name[FILE_NAME_BYTES];
	char *path;
	int i, fd;

	for (i = 0; i < x->l.nfiles && status == RT_OK; i++) {
		file_name(x, i, name);
		path = path_of(x, name);
		if (!path) {
			return rt_no_memory(err, x->folder);
		}
		fd = x->f->open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0);
		if (fd < 0) {
			status = rt_files_fail(err, path, "open", errno);
		} else {
			status = rt_layout_write(&x->l, x->s, i, fd, path,
						 x->sums, x->elems, err);
			status = end_file(x, fd, path, status, err);
		}
		rt_release(&x->alloc, path);
	}
	return status;
}

/* A suffix that is the same on all ranks and that no other run has. */
static enum rt_status
make_tmp(struct exporting *x, struct rt_error *err)
{
	uint64_t n = x->s->rank == 0 ? (uint64_t)getpid() : 0;
	size_t length = strlen(x->folder);
	enum rt_status status;
	char tail[40];

	status = rt_comm_sum_u64(x->s->comm, &n, 1, err);
	while (length > 1 && x->folder[length - 1] == '/') {
		length--;
	}
	snprintf(tail, sizeof(tail), ".tmp-%" PRIx64, n);
	x->tmp = rt_join(&x->alloc, x->folder, length, tail);
	return status != RT_OK || x->tmp ? status
					 : rt_no_memory(err, x->folder);
}

static enum rt_status
prepare(struct exporting *x, int64_t shard_bytes, struct rt_error *err)
{
	enum rt_status status = make_tmp(x, err);

	if (status == RT_OK) {
		status = rt_layout_init_export(&x->l, x->s->plan, shard_bytes,
					       err);
	}
	if (status == RT_OK) {
		x->sums = rt_resize(&x->alloc, NULL, 2 * x->l.n + 1,
				    sizeof(*x->sums));
		status = x->sums ? RT_OK : rt_no_memory(err, x->folder);
	}
	if (status == RT_OK) {
		memset(x->sums, 0, 2 * x->l.n * sizeof(*x->sums));
		x->elems = x->sums + x->l.n;
	}
	return status;
}

enum rt_status
rt_export(const struct rt_store *s, const char *folder, int64_t shard_bytes,
	  bool replaces, struct rt_error *err)
{
	struct exporting x = { .s = s, .folder = folder, .replaces = replaces,
			       .f = rt_files_or_system(s->files),
			       .alloc = rt_alloc_or_libc(NULL) };
	bool first = s->rank == 0, made = false;
	enum rt_status status = prepare(&x, shard_bytes, err);

	if (first && status == RT_OK) {
		status = create_files(&x, err);
		made = true;
	}
	status = rt_store_agree_status(s, status, err);
	if (status == RT_OK) {
		status = rt_store_agree_status(s, write_pieces(&x, err), err);
	}
	if (status == RT_OK) {
		status = rt_comm_sum_u64(s->comm, x.sums, 2 * (int64_t)x.l.n,
					 err);
	}
	if (status == RT_OK) {
		status = first ? complete(&x, err) : RT_OK;
		status = rt_store_agree_status(s, status, err);
	}
	if (made && status != RT_OK) {
		remove_files(&x);
	}
	rt_release(&x.alloc, x.sums);
	rt_release(&x.alloc, x.tmp);
	if (x.l.alloc.realloc) {
		rt_layout_release(&x.l);
	}
	return status;
}
