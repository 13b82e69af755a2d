/*
 * Private to runtime/data/: .safetensors files that all ranks write together.
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

/* A tensor of a file: one part of a tensor of the plan. */
struct rt_stored {
	char *name;
	const struct rt_tensor *tensor;
	int64_t part;
	int file;
	int64_t begin, bytes; /* from the start of the data */
};

struct rt_layout_file {
	struct rt_text header; /* preceded by its length */
	int64_t bytes; /* of the file */
};

/*
 * The contents of all files.  They depend on the model alone, not on how many
 * ranks there are or what each holds.
 */
struct rt_layout {
	struct rt_alloc alloc;
	struct rt_stored *at; /* in order of file and offset */
	size_t n;
	/* by tensor of the plan: index into place of its first part */
	size_t *first;
	size_t *place; /* by part: index into at, or SIZE_MAX: not stored */
	struct rt_layout_file *files;
	int nfiles;
	bool joins; /* shapes are those that other programs expect */
};

/*
 * The files of a checkpoint, RT_STORED_FILES.  To be released also after a
 * failure.
 */
enum rt_status rt_layout_init(struct rt_layout *l, const struct rt_plan *p,
			      struct rt_error *err);
/*
 * Weights alone, in the shapes that other programs expect, and in as many files
 * as it takes for none to have more than so many bytes of data, unless a single
 * tensor has.
 */
enum rt_status rt_layout_init_export(struct rt_layout *l,
				     const struct rt_plan *p,
				     int64_t most_bytes,
				     struct rt_error *err);
void rt_layout_release(struct rt_layout *l);
/* Index into `place` of the first part of a tensor; the others follow. */
size_t rt_layout_first(const struct rt_layout *l, const struct rt_plan *p,
		       const struct rt_tensor *t);

/*
 * Writes to `fd` what this rank saves of one file.  For each stored tensor i,
 * the checksum over what was written is added to sums[i], and the number of
 * elements to elems[i].
 */
enum rt_status rt_layout_write(const struct rt_layout *l,
			       const struct rt_store *s, int file, int fd,
			       const char *path, uint64_t *sums,
			       uint64_t *elems, struct rt_error *err);

#endif
