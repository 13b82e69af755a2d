/*
 * Saves a checkpoint: see data.h and docs/checkpoints.md.
 *
 * Rank 0 makes a folder under a temporary name and in it both files, with their
 * headers and with disk space reserved for all data, so that a full disk is
 * found before anything is written.  All ranks then write their pieces where
 * whole tensors have them.  When every rank's data is on the disk, rank 0 adds
 * checkpoint.json and renames the folder.  A process that dies earlier leaves
 * the older checkpoints as they were; one that dies later leaves the new one.
 */
#include "runtime/data/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- preparation -------------------------------------------------------- */

/* A suffix that is the same on all ranks and that no other run has. */
static enum rt_status
make_tag(const struct rt_store *s, char tag[40], struct rt_error *err)
{
	uint64_t n = s->rank == 0 ? (uint64_t)getpid() : 0;
	enum rt_status status;

	status = rt_comm_sum_u64(s->comm, &n, 1, err);
	snprintf(tag, 40, ".tmp-%" PRIx64, n);
	return status;
}

/* Allocates and names everything; no communication. */
static enum rt_status
prepare_save(struct rt_saving *v, const char *tag, struct rt_error *err)
{
	enum rt_status status;
	int i;

	status = rt_layout_init(&v->l, v->s->plan, err);
	if (status != RT_OK) {
		return status;
	}
	rt_step_name(v->names[0], v->p->step, tag);
	rt_step_name(v->names[1], v->p->step, ".old");
	v->tmp = rt_path_in(&v->alloc, v->folder, v->names[0]);
	v->final = rt_step_path(&v->alloc, v->folder, v->p->step, "");
	v->old = rt_path_in(&v->alloc, v->folder, v->names[1]);
	v->sums = rt_resize(&v->alloc, NULL, 2 * v->l.n, sizeof(*v->sums));
	if (!v->tmp || !v->final || !v->old || !v->sums) {
		return rt_no_memory(err, v->folder);
	}
	v->elems = v->sums + v->l.n;
	memset(v->sums, 0, 2 * v->l.n * sizeof(*v->sums));
	for (i = 0; i < RT_STORED_FILES; i++) {
		v->paths[i] = rt_path_in(&v->alloc, v->tmp,
					 rt_stored_file(i));
		if (!v->paths[i]) {
			return rt_no_memory(err, v->folder);
		}
	}
	return RT_OK;
}

enum rt_status
rt_saving_create(struct rt_saving *v, struct rt_error *err)
{
	const struct rt_text *h;
	enum rt_status status;
	int i, fd;

	status = rt_files_make_dir(v->f, v->folder, err);
	if (status != RT_OK) {
		return status;
	}
	rt_checkpoint_remove_leftovers(v->f, v->folder);
	/* What still has this name belongs to somebody else. */
	if (v->f->mkdir(v->tmp, 0777) != 0) {
		return rt_files_fail(err, v->tmp, "make the folder", errno);
	}
	for (i = 0; i < RT_STORED_FILES && status == RT_OK; i++) {
		fd = rt_files_create(v->f, v->paths[i], v->l.files[i].bytes,
				     err);
		if (fd < 0) {
			return RT_IO;
		}
		h = &v->l.files[i].header;
		status = rt_files_write(v->f, fd, v->paths[i], h->at,
					(int64_t)h->n, 0, err);
		if (status == RT_OK) {
			status = rt_files_finish(v->f, fd, v->paths[i], err);
		} else {
			v->f->close(fd);
		}
	}
	return status;
}

/* ---- on all ranks -------------------------------------------------- */

enum rt_status
rt_saving_write(struct rt_saving *v, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int i, fd;

	for (i = 0; i < RT_STORED_FILES && status == RT_OK; i++) {
		fd = v->f->open(v->paths[i],
				O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0);
		if (fd < 0) {
			return rt_files_fail(err, v->paths[i], "open", errno);
		}
		status = rt_layout_write(&v->l, v->s, i, fd, v->paths[i],
					 v->sums, v->elems, err);
		if (status == RT_OK) {
			status = rt_files_finish(v->f, fd, v->paths[i], err);
		} else {
			v->f->close(fd);
		}
	}
	return status;
}

/* Checks that each element was written exactly once. */
static enum rt_status
check_elems(const struct rt_saving *v, struct rt_error *err)
{
	struct rt_where where = { NULL, NULL, -1 };
	uint64_t want;
	size_t i;

	for (i = 0; i < v->l.n; i++) {
		want = (uint64_t)rt_part_elems(v->l.at[i].tensor);
		if (v->elems[i] != want) {
			where.tensor = v->l.at[i].name;
			return rt_fail(err, RT_FORMAT, where,
				       "found %" PRIu64 " elements on all "
				       "ranks to save, expected %" PRIu64
				       ": the plan is broken", v->elems[i],
				       want);
		}
	}
	return RT_OK;
}

/* ---- completion --------------------------------------------------------- */

static enum rt_status
write_manifest(struct rt_saving *v, struct rt_error *err)
{
	struct rt_text text = { v->alloc, NULL, 0, 0, false };
	enum rt_status status = RT_IO;
	char *path;
	int fd;

	rt_manifest_print(&text, &v->l, v->s->plan, v->p, v->sums);
	path = rt_path_in(&v->alloc, v->tmp, "checkpoint.json");
	if (text.failed || !path) {
		status = rt_no_memory(err, v->tmp);
		goto done;
	}
	fd = rt_files_create(v->f, path, (int64_t)text.n, err);
	if (fd < 0) {
		goto done;
	}
	status = rt_files_write(v->f, fd, path, text.at, (int64_t)text.n, 0,
				err);
	if (status == RT_OK) {
		status = rt_files_finish(v->f, fd, path, err);
	} else {
		v->f->close(fd);
	}
done:
	rt_release(&v->alloc, path);
	rt_text_release(&text);
	return status;
}

/* Renames what has the final name, even a link, to .old. */
static enum rt_status
move_aside(struct rt_saving *v, struct rt_error *err)
{
	struct rt_where where = { v->old, NULL, -1 };
	struct stat sb;

	rt_checkpoint_remove(v->f, v->folder, v->names[1]);
	/* rename(2) would replace a link. */
	if (lstat(v->old, &sb) == 0) {
		return rt_fail(err, RT_IO, where,
			       "found a link, or files that no save has made, "
			       "expected nothing: move it away");
	}
	return v->f->rename(v->final, v->old) == 0 ? RT_OK :
	       rt_files_fail(err, v->final, "put aside", errno);
}

/*
 * Renames the temporary folder to its final name.  A checkpoint that already
 * has that name is first renamed to .old, which loading still finds.
 */
static enum rt_status
give_name(struct rt_saving *v, struct rt_error *err)
{
	bool moved = false;
	struct stat sb;
	int number;

	if (lstat(v->final, &sb) == 0) {
		if (move_aside(v, err) != RT_OK) {
			return RT_IO;
		}
		moved = true;
	}
	if (v->f->rename(v->tmp, v->final) != 0) {
		number = errno;
		if (moved) {
			v->f->rename(v->old, v->final);
		}
		return rt_files_fail(err, v->tmp, "rename", number);
	}
	return rt_files_sync_dir(v->f, v->folder, err);
}

enum rt_status
rt_saving_complete(struct rt_saving *v, struct rt_error *err)
{
	enum rt_status status;

	status = check_elems(v, err);
	if (status == RT_OK) {
		status = write_manifest(v, err);
	}
	if (status == RT_OK) {
		status = rt_files_sync_dir(v->f, v->tmp, err);
	}
	if (status == RT_OK) {
		status = give_name(v, err);
	}
	if (status == RT_OK) {
		rt_checkpoint_prune(&v->alloc, v->f, v->folder, v->p->step,
				    v->keep);
	}
	return status;
}

/* ---- all of it ----------------------------------------------------- */

enum rt_status
rt_saving_begin(struct rt_saving *v, struct rt_error *err)
{
	enum rt_status status;
	char tag[40];

	status = make_tag(v->s, tag, err);
	return status == RT_OK ? prepare_save(v, tag, err) : status;
}

enum rt_status
rt_saving_add_sums(struct rt_saving *v, struct rt_error *err)
{
	return rt_comm_sum_u64(v->s->comm, v->sums, 2 * (int64_t)v->l.n, err);
}

void
rt_saving_end(struct rt_saving *v, enum rt_status status)
{
	int i;

	if (status != RT_OK && v->s->rank == 0 && v->tmp) {
		rt_checkpoint_remove(v->f, v->folder, v->names[0]);
	}
	for (i = 0; i < RT_STORED_FILES; i++) {
		rt_release(&v->alloc, v->paths[i]);
	}
	rt_release(&v->alloc, v->sums);
	rt_release(&v->alloc, v->tmp);
	rt_release(&v->alloc, v->final);
	rt_release(&v->alloc, v->old);
	if (v->l.alloc.realloc) {
		rt_layout_release(&v->l);
	}
}

static enum rt_status
save(struct rt_saving *v, struct rt_error *err)
{
	bool first = v->s->rank == 0;
	enum rt_status status = rt_saving_begin(v, err);

	if (status == RT_OK && first) {
		status = rt_saving_create(v, err);
	}
	status = rt_store_agree_status(v->s, status, err);
	if (status == RT_OK) {
		status = rt_saving_write(v, err);
		status = rt_store_agree_status(v->s, status, err);
	}
	if (status == RT_OK) {
		status = rt_saving_add_sums(v, err);
	}
	if (status == RT_OK) {
		if (first) {
			status = rt_saving_complete(v, err);
		}
		status = rt_store_agree_status(v->s, status, err);
	}
	return status;
}

void
rt_saving_init(struct rt_saving *v, const struct rt_store *s,
	       const struct rt_progress *p, const char *folder, int64_t keep)
{
	*v = (struct rt_saving){ .s = s, .f = rt_files_or_system(s->files),
				 .p = p, .folder = folder, .keep = keep,
				 .alloc = rt_alloc_or_libc(NULL) };
}

enum rt_status
rt_checkpoint_save(const struct rt_store *s, const struct rt_progress *p,
		   const char *folder, int64_t keep, struct rt_error *err)
{
	struct rt_saving v;
	enum rt_status status;

	rt_saving_init(&v, s, p, folder, keep);
	status = save(&v, err);
	rt_saving_end(&v, status);
	return status;
}
