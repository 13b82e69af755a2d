/*
 * checkpoint.h - private to runtime/: what the files about checkpoints share.
 */
#ifndef RT_CHECKPOINT_H
#define RT_CHECKPOINT_H

#include "runtime/data/safetensors_write.h"

enum {
	RT_MARK_VERSION = 2,
	RT_STEP_NAME_BYTES = 80,
};

/* ---- checkpoint_mark.c: checkpoint.json ------------------------------ */

/* "model.safetensors" */
const char *rt_stored_file(int file);

struct rt_mark_tensor {
	const char *name;
	int64_t bytes;
	uint64_t sum;
};

/* What checkpoint.json says. */
struct rt_mark {
	struct rt_alloc alloc;
	char *text; /* holds the strings */
	const char *model;
	int64_t step, sequences;
	uint64_t seed, data;
	struct {
		int64_t bytes;
		uint64_t header; /* the sum over its bytes */
	} files[RT_STORED_FILES];
	struct rt_mark_tensor *tensors; /* in order of name */
	size_t n, room;
};

/* Text of a checkpoint.json; the sums are those of l->at. */
void rt_mark_print(struct rt_text *out, const struct rt_layout *l,
		   const struct rt_plan *plan, const struct rt_progress *p,
		   const uint64_t *sums);
/* Reads one; `path` is for messages.  On failure nothing is to release. */
enum rt_status rt_mark_parse(struct rt_mark *m, const char *path,
			     const void *text, size_t n, struct rt_error *err);
/* The same of a file. */
enum rt_status rt_mark_read(struct rt_mark *m, const char *path,
			    struct rt_error *err);
void rt_mark_release(struct rt_mark *m);
const struct rt_mark_tensor *rt_mark_find(const struct rt_mark *m,
					  const char *name);

/* ---- checkpoint_list.c: folders of them ------------------------------ */

/* A folder step-N, or step-N.old, which another of that name replaces. */
struct rt_found {
	int64_t step;
	bool old;
};

struct rt_list {
	struct rt_alloc alloc;
	struct rt_found *at; /* newest first, .old behind its namesake */
	size_t n, room;
};

/* Those in a folder; none if there is no such folder. */
enum rt_status rt_list_read(struct rt_list *l, const char *folder,
			    struct rt_error *err);
void rt_list_release(struct rt_list *l);
/* "step-00000042" and `tail`, which has at most 40 bytes. */
void rt_step_name(char out[RT_STEP_NAME_BYTES], int64_t step,
		  const char *tail);
/* The same in a folder; to be freed by the allocator. */
char *rt_step_path(const struct rt_alloc *a, const char *folder, int64_t step,
		   const char *tail);
/* "DIR/NAME"; to be freed by the allocator. */
char *rt_path_in(const struct rt_alloc *a, const char *dir, const char *name);
/*
 * Is it the checkpoint that its folder's name says?  One that is not called
 * step-N may be of any step.
 */
enum rt_status rt_check_name(const char *dir, int64_t step,
			     struct rt_error *err);
/* Is what the mark of a checkpoint says there, by names and sizes? */
enum rt_status rt_check_complete(const struct rt_alloc *a, const char *dir,
				 struct rt_error *err);
/*
 * Removes the files of a checkpoint, its mark first, and their folder, which
 * is `name` in `folder`.  Nothing is removed if `name` is a symbolic link, or
 * if one of the files is anything but a regular file: then it is not what a
 * save has made, and may belong to somebody else.
 */
void rt_remove_checkpoint(const struct rt_files *f, const char *folder,
			  const char *name);
/* Removes what saves have left that did not come to their end. */
void rt_remove_leftovers(const struct rt_files *f, const char *folder);
/*
 * Removes complete ones older than `step` but the newest keep - 1 of them (all
 * stay if keep is 0).  What cannot be removed stays; so do symbolic links,
 * which are not counted either.
 */
void rt_keep(const struct rt_alloc *a, const struct rt_files *f,
	     const char *folder, int64_t step, int64_t keep);

#endif
