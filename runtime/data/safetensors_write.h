/*
 * safetensors_write.h - private to runtime/: writing .safetensors files, by
 * many ranks together.
 */
#ifndef RT_ST_WRITE_H
#define RT_ST_WRITE_H

#include "runtime/files.h"
#include "runtime/data/tensor_store.h"
#include "runtime/text.h"

enum {
	RT_STORED_MODEL, /* model.safetensors: weights */
	RT_STORED_STATE, /* state.safetensors: states of the optimizer */
	RT_STORED_FILES,
};

/* A tensor of a file: a part of one of the plan's. */
struct rt_stored {
	char *name;
	const struct rt_tensor *tensor;
	int64_t part;
	int file;
	int64_t begin, bytes; /* from the start of the data */
};

/*
 * Where everything is in the files.  It depends on the model alone: ranks and
 * their shares have no part in it.
 */
struct rt_layout {
	struct rt_alloc alloc;
	struct rt_stored *at; /* in the order of files, and inside of them */
	size_t n;
	size_t *first; /* by number of the plan's tensor, into place */
	size_t *place; /* of a part, in `at` */
	struct {
		struct rt_text header; /* with its length before it */
		int64_t bytes; /* of the file */
	} files[RT_STORED_FILES];
};

/* Release it also after a failure. */
enum rt_status rt_layout_init(struct rt_layout *l, const struct rt_plan *p,
			      struct rt_error *err);
void rt_layout_release(struct rt_layout *l);
/* Where the first part of a tensor stands in `place`; the others follow. */
size_t rt_layout_first(const struct rt_layout *l, const struct rt_plan *p,
		       const struct rt_tensor *t);

/*
 * Writes to `fd` what this rank saves for one file.  By number of what is
 * stored the sums over what was written are added to sums, and its elements
 * to elems.
 */
enum rt_status rt_layout_write(const struct rt_layout *l,
			       const struct rt_store *s, int file, int fd,
			       const char *path, uint64_t *sums,
			       uint64_t *elems, struct rt_error *err);

#endif
