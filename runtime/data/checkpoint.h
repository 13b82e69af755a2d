/*
 * Private to checkpoint*.c: the parts of a save, the manifest of a checkpoint
 * (checkpoint.json), and folders of checkpoints.
 */
#ifndef RT_CHECKPOINT_H
#define RT_CHECKPOINT_H

#include "runtime/data/safetensors_write.h"

enum {
	RT_MANIFEST_VERSION = 3,
	RT_MANIFEST_OLDEST = 2,	/* that has no settings */
	RT_STEP_NAME_BYTES = 80,
};

/* ---- checkpoint.c: a save in parts --------------------------------------- */

struct rt_saving {
	const struct rt_store *s;
	const struct rt_files *f;
	const struct rt_progress *p;
	const char *folder;
	int64_t keep;
	struct rt_alloc alloc;
	struct rt_layout l;
	char names[2][RT_STEP_NAME_BYTES]; /* of tmp and old, in folder */
	char *tmp, *final, *old;
	char *paths[RT_STORED_FILES]; /* in tmp */
	uint64_t *sums, *elems; /* by number of what is stored */
};

/* Pointers are kept. */
void rt_saving_init(struct rt_saving *v, const struct rt_store *s,
		    const struct rt_progress *p, const char *folder,
		    int64_t keep);
/* A collective: names everything. */
enum rt_status rt_saving_begin(struct rt_saving *v, struct rt_error *err);
/* On rank 0: makes the folder and both files, with headers. */
enum rt_status rt_saving_create(struct rt_saving *v, struct rt_error *err);
/* On all ranks, then: writes what this rank has. */
enum rt_status rt_saving_write(struct rt_saving *v, struct rt_error *err);
/* A collective, then. */
enum rt_status rt_saving_add_sums(struct rt_saving *v, struct rt_error *err);
/* On rank 0, then: makes it a checkpoint, and removes older ones. */
enum rt_status rt_saving_complete(struct rt_saving *v, struct rt_error *err);
/* On all ranks, always: after a failure nothing of it is left. */
void rt_saving_end(struct rt_saving *v, enum rt_status status);

/* ---- checkpoint_manifest.c: checkpoint.json ------------------------------ */

/* "model.safetensors", "state.safetensors" */
const char *rt_stored_file(int file);

struct rt_manifest_tensor {
	const char *name;
	int64_t bytes;
	uint64_t sum;
};

/* The contents of checkpoint.json. */
struct rt_manifest {
	struct rt_alloc alloc;
	char *text; /* holds the strings */
	const char *model;
	int64_t step, sequences;
	uint64_t seed, data;
	int64_t version;
	const char *settings;
	struct {
		int64_t bytes;
		uint64_t header; /* the sum over its bytes */
	} files[RT_STORED_FILES];
	struct rt_manifest_tensor *tensors; /* in order of name */
	size_t n, capacity;
};

/* Prints a checkpoint.json; sums[i] is that of l->at[i]. */
void rt_manifest_print(struct rt_text *out, const struct rt_layout *l,
		       const struct rt_plan *plan, const struct rt_progress *p,
		       const uint64_t *sums);
/*
 * Parses one; `path` is for messages.  After a failure there is nothing to
 * release.
 */
enum rt_status rt_manifest_parse(struct rt_manifest *m, const char *path,
				 const void *text, size_t n,
				 struct rt_error *err);
/* The same of a file. */
enum rt_status rt_manifest_read(struct rt_manifest *m, const char *path,
				struct rt_error *err);
void rt_manifest_release(struct rt_manifest *m);
const struct rt_manifest_tensor *rt_manifest_find(const struct rt_manifest *m,
						  const char *name);

/* ---- checkpoint_list.c: folders of them ------------------------------ */

/* A folder step-N, or step-N.old, which a new step-N replaces. */
struct rt_checkpoint_found {
	int64_t step;
	bool old;
};

struct rt_checkpoint_list {
	struct rt_alloc alloc;
	/* newest first; a .old comes after the one that replaced it */
	struct rt_checkpoint_found *at;
	size_t n, capacity;
};

/* The checkpoints in a folder; an empty list if there is no such folder. */
enum rt_status rt_checkpoint_list_read(struct rt_checkpoint_list *l, const char
				       *folder, struct rt_error *err);
void rt_checkpoint_list_release(struct rt_checkpoint_list *l);
/* "step-00000042" and `tail`, which has at most 40 bytes. */
void rt_step_name(char out[RT_STEP_NAME_BYTES], int64_t step,
		  const char *tail);
/* "FOLDER/step-00000042" and `tail`; to be freed by the allocator. */
char *rt_step_path(const struct rt_alloc *a, const char *folder, int64_t step,
		   const char *tail);
/* "DIR/NAME"; to be freed by the allocator. */
char *rt_path_in(const struct rt_alloc *a, const char *dir, const char *name);
/*
 * RT_FORMAT: the folder is called step-N for another N.  A folder of any other
 * name may hold any step.
 */
enum rt_status rt_checkpoint_check_name(const char *dir, int64_t step,
					struct rt_error *err);
/* Checks that all files which the manifest lists exist and have its sizes. */
enum rt_status rt_checkpoint_check_complete(const struct rt_alloc *a, const char
					    *dir, struct rt_error *err);
/*
 * Removes the files of a checkpoint, its manifest first, and their folder,
 * which is `name` in `folder`.  Nothing is removed if `name` is a symbolic
 * link, or if one of the files is not a regular file: then no save has made it.
 */
void rt_checkpoint_remove(const struct rt_files *f, const char *folder,
			  const char *name);
/* Removes what unfinished saves have left. */
void rt_checkpoint_remove_leftovers(const struct rt_files *f, const char
				    *folder);
/*
 * Removes complete checkpoints older than `step` except the newest keep - 1 of
 * them; keep = 0 keeps all.  What cannot be removed stays.  Symbolic links
 * stay, and are not counted.
 */
void rt_checkpoint_prune(const struct rt_alloc *a, const struct rt_files *f,
			 const char *folder, int64_t step, int64_t keep);

#endif
