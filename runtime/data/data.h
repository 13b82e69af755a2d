/*
 * data.h - token files, and weights and states on disk.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef RT_DATA_H
#define RT_DATA_H

#include "runtime/comm/comm.h"

/* ---- token files (tokens.c) ------------------------------------------ */

struct rt_tokens;

struct rt_tokens_options {
	const char *const *paths;	/* files, in order */
	int64_t npaths;
	int64_t length;		/* of a sequence; one more token is read */
	int64_t below;		/* tokens must be less: the vocabulary */
};

/*
 * llm.c's .bin (magic 20240520, u16, or 20240801, u32), Megatron's .bin beside
 * its .idx, the bytes of a .txt or .md, or raw u16 without a header.
 * Sequences do not overlap, and none spans two files; they come in the order
 * of the files.
 * Files are never read whole, nor mapped: one that is cut short while it is
 * open is RT_IO.  Several threads may read at once.
 */
enum rt_status rt_tokens_open(struct rt_tokens **out,
			      const struct rt_tokens_options *o,
			      struct rt_error *err);
void rt_tokens_free(struct rt_tokens *t);
/*
 * From now on an epoch is a permutation of all sequences that the seed and the
 * epoch's number give, so that any number of ranks sees the same order.
 */
void rt_tokens_shuffle(struct rt_tokens *t, uint64_t seed);
int64_t rt_tokens_sequences(const struct rt_tokens *t);	/* of an epoch */
int64_t rt_tokens_total(const struct rt_tokens *t);
/*
 * A number that other tokens, or these in another order of files, most likely
 * do not have: of how many there are in each file, and of 16 pieces of each.
 * Where files lie and in what format makes no difference.
 */
enum rt_status rt_tokens_identity(const struct rt_tokens *t, uint64_t *out,
				  struct rt_error *err);
/*
 * Sequence `index` since the start of training, of any epoch: its tokens from
 * position `from`, n of them, for from + n <= length + 1.  RT_FORMAT: one is
 * not below the limit; err names file and position.
 */
enum rt_status rt_tokens_get(const struct rt_tokens *t, int64_t index,
			     int64_t from, int64_t n, int32_t *out,
			     struct rt_error *err);

/* ---- checkpoints (checkpoint.c, safetensors_write.c, ...) --------------- */

/* What a run knows besides its tensors. */
struct rt_progress {
	int64_t step;		/* done */
	int64_t sequences;	/* taken from the data */
	uint64_t seed;
	uint64_t data;		/* which, and in which order; 0: drawn */
	/* after loading, on rank 0: which were passed over, and why, or "" */
	char remark[RT_ERROR_BYTES];
};

struct rt_files;
struct rt_device;

/* All that saving and loading look at. */
struct rt_store {
	const struct rt_plan *plan;
	const struct rt_program *program;
	int64_t rank;
	char *arena;		/* NULL: only the device reaches it */
	struct rt_device *device;	/* NULL: the host */
	struct rt_comm *comm;
	/* calls that change files, for tests; NULL: the system's */
	const struct rt_files *files;
};

/*
 * Saves into folder/step-N: model.safetensors (weights) and
 * state.safetensors (states of the optimizer), whole tensors under the names
 * and shapes that the model has, whatever the plan.  Every rank writes its
 * own pieces.  Sums over the bytes, the step and the data's place stand in
 * checkpoint.json; the folder gets its name when all of it is on the disk, so
 * what is there is complete.  After a success all older ones but the newest
 * are removed, so that `keep` are left (0: all stay).  All ranks call it; it
 * fails on all or on none, and then what was there before is there still.
 */
enum rt_status rt_checkpoint_save(const struct rt_store *s,
				  const struct rt_progress *p,
				  const char *folder, int64_t keep,
				  struct rt_error *err);
/*
 * Loads the newest complete one of the folder, or one that is named itself.
 * What can be told from names, shapes and sizes is told before the arena is
 * touched; sums are compared when all is read.  After a failure the arena has
 * garbage, and the run must end.  RT_FORMAT says what is wrong with which
 * file; RT_RANGE: there is none.  All ranks call it; it fails on all or none.
 */
enum rt_status rt_checkpoint_load(const struct rt_store *s, const char *path,
				  struct rt_progress *p,
				  struct rt_error *err);
/*
 * Weights alone, from Hugging Face's files, by name; shapes may have dims
 * joined.  Pieces are read straight to where they lie: no tensor is ever held
 * whole.  A tensor that is missing, or has another shape, is an error with
 * its name, both shapes and the nearest name; so are tensors that the model
 * does not have, unless allow_unused says otherwise.
 */
enum rt_status rt_weights_load(const struct rt_store *s, const char *path,
			       bool allow_unused, struct rt_error *err);

#endif
