/*
 * Token files, checkpoints and weights: everything that the program of a rank
 * reads from and writes to disk, but for logs.  runtime/train/ calls it; it
 * knows plans through abi.h, devices through their windows, and communication
 * only as collectives over small arrays.
 *
 * tensor_store.h is for rank_verify_whole.c too; other headers of the folder
 * are private.  Sections are named for the .c that defines them.
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
 * Formats: llm.c's .bin (magic 20240520, u16, or 20240801, u32), Megatron's
 * .bin with its .idx, the bytes of a .txt or .md, or raw u16 without a header.
 * Sequences do not overlap, and none spans two files; they come in the order of
 * the files.  Files are neither read whole nor mapped: one that is truncated
 * while it is open gives RT_IO.  Several threads may read at once.
 */
enum rt_status rt_tokens_open(struct rt_tokens **out,
			      const struct rt_tokens_options *o,
			      struct rt_error *err);
void rt_tokens_free(struct rt_tokens *t);
/*
 * From now on each epoch is a permutation of all sequences that depends on the
 * seed and the number of the epoch only, so that any number of ranks gets the
 * same order.
 */
void rt_tokens_shuffle(struct rt_tokens *t, uint64_t seed);
int64_t rt_tokens_sequences(const struct rt_tokens *t);	/* of an epoch */
int64_t rt_tokens_total(const struct rt_tokens *t);
/*
 * A fingerprint of the tokens and of the order of files: of how many tokens
 * each file has, and of 16 samples of each.  It does not depend on paths or
 * formats.
 */
enum rt_status rt_tokens_identity(const struct rt_tokens *t, uint64_t *out,
				  struct rt_error *err);
/*
 * Sequence number `index` since the start of training, over all epochs: n of
 * its tokens from position `from` on, from + n <= length + 1.  RT_FORMAT: a
 * token is not below the limit; err names file and position.
 */
enum rt_status rt_tokens_get(const struct rt_tokens *t, int64_t index,
			     int64_t from, int64_t n, int32_t *out,
			     struct rt_error *err);

/* ---- blends (blend.c) -------------------------------------------------- */

enum {
	RT_BLEND_SOURCES = 64,	/* the most of a blend */
	RT_BLEND_PERIOD = 1 << 20	/* the longest; shares are of it */
};

/* Files that are one stream, and the share that the stream has of a blend. */
struct rt_source {
	const char *const *paths;
	int64_t npaths;
	int64_t weight;		/* over the sum of all weights; 1 to 1e15 */
};

struct rt_blend_options {
	const struct rt_source *sources;
	int64_t nsources;
	int64_t length, below;	/* as of rt_tokens_options */
};

struct rt_blend;

/*
 * Which source a sequence comes from depends on its number only: after any
 * number k of sequences each source has had its share of k, with less than one
 * sequence more or less.  A source that is at its end begins its next epoch,
 * whatever the others do.  Weights that have no common period of at most
 * RT_BLEND_PERIOD are rounded to one.
 */
enum rt_status rt_blend_open(struct rt_blend **out,
			     const struct rt_blend_options *o,
			     struct rt_error *err);
void rt_blend_free(struct rt_blend *b);
/* Each epoch of each source is a permutation that depends on the seed. */
void rt_blend_shuffle(struct rt_blend *b, uint64_t seed);
/* How many there are before the first source begins its second epoch. */
int64_t rt_blend_sequences(const struct rt_blend *b);
int64_t rt_blend_count(const struct rt_blend *b);	/* of sources */

struct rt_blended {
	double share;		/* of the blend */
	int64_t sequences;	/* of an epoch */
	int64_t consumed;
};

/* What a source has given when the blend has given `index` sequences. */
struct rt_blended rt_blend_after(const struct rt_blend *b, int64_t source,
				 int64_t index);
/* The source of a sequence; *within: its number in that source. */
int64_t rt_blend_source(const struct rt_blend *b, int64_t index,
			int64_t *within);
/* Like rt_tokens_identity(), and of the shares of sources. */
enum rt_status rt_blend_identity(const struct rt_blend *b, uint64_t *out,
				 struct rt_error *err);
/* Like rt_tokens_get(). */
enum rt_status rt_blend_get(const struct rt_blend *b, int64_t index,
			    int64_t from, int64_t n, int32_t *out,
			    struct rt_error *err);

/* ---- checkpoints (checkpoint.c, safetensors_write.c, ...) --------------- */

enum { RT_SETTINGS_BYTES = 512 };

/* The state of a run besides its tensors. */
struct rt_progress {
	int64_t step;		/* done */
	int64_t sequences;	/* consumed from the data */
	uint64_t seed;
	/* identity of the data and its order; 0: drawn */
	uint64_t data;
	/*
	 * "lr=0.001 clip=1", of the run that saved it; "" of a checkpoint from
	 * before version 3
	 */
	char settings[RT_SETTINGS_BYTES];
	/*
	 * after loading, on rank 0: which checkpoints were skipped, and why; or
	 * ""
	 */
	char remark[RT_ERROR_BYTES];
};

struct rt_files;
struct rt_device;

/* What saving and loading work on. */
struct rt_store {
	const struct rt_plan *plan;
	const struct rt_program *program;
	int64_t rank;
	char *arena;		/* NULL: the host cannot access it */
	struct rt_device *device;	/* NULL: the host */
	struct rt_comm *comm;
	/* system calls that change files; NULL: the real ones */
	const struct rt_files *files;
};

/*
 * Saves into folder/step-N: model.safetensors (weights) and state.safetensors
 * (states of the optimizer), whole tensors under the model's names and shapes,
 * whatever the plan; every rank writes its own pieces.  checkpoint.json holds
 * sums over all bytes, the step and the position in the data.  The folder gets
 * its name when everything is on the disk, so a folder of that name is
 * complete.  Afterwards older ones are removed until `keep` are left (0: none
 * is removed).  A collective: it fails on all ranks or on none, and after a
 * failure the earlier checkpoints are untouched.
 */
enum rt_status rt_checkpoint_save(const struct rt_store *s,
				  const struct rt_progress *p,
				  const char *folder, int64_t keep,
				  struct rt_error *err);
/*
 * A save behind the steps that follow (checkpoint_behind.c): what this rank
 * writes is copied, and a thread writes the copy.  One save at a time is under
 * way, so memory is bounded by one copy, which stays from save to save.
 * Whatever ranks have to agree on happens in rt_behind_poll(), on the thread of
 * the caller; so communication and devices are used by no other.
 */
struct rt_behind;

/* The bytes of a rank's copy. */
int64_t rt_behind_bytes(const struct rt_plan *p, int64_t rank);
/* A collective, as the next two. */
enum rt_status rt_behind_open(struct rt_behind **out, const struct rt_store *s,
			      const char *folder, int64_t keep,
			      struct rt_error *err);
/*
 * Copies, and begins to save.  Nothing else may be under way.  It fails on all
 * ranks or on none.
 */
enum rt_status rt_behind_begin(struct rt_behind *b,
			       const struct rt_progress *p,
			       struct rt_error *err);
/*
 * Goes on with the save, and with `wait` to its end.  *step: that of a save
 * which is complete now, else -1.  After a failure, which may be of anything
 * since it began, earlier checkpoints are untouched, and nothing is under way.
 * Without a save under way nothing happens.
 */
enum rt_status rt_behind_poll(struct rt_behind *b, bool wait, int64_t *step,
			      struct rt_error *err);
bool rt_behind_is_busy(const struct rt_behind *b);
/* Waits for the thread of this rank; a save that is under way is lost. */
void rt_behind_close(struct rt_behind *b);
/*
 * Loads the newest complete checkpoint of a folder, or the one that `path` is.
 * Names, shapes and sizes are checked before the arena is written; sums are
 * checked after everything was read.  After a failure the contents of the arena
 * are undefined, and the run must end.  RT_FORMAT: a file is wrong, and err
 * says how; RT_RANGE: there is none.  A collective: it fails on all ranks or on
 * none.
 */
enum rt_status rt_checkpoint_load(const struct rt_store *s, const char *path,
				  struct rt_progress *p,
				  struct rt_error *err);
/* The latest step of which a folder has a checkpoint; -1: of none, or it
 * cannot be read. */
int64_t rt_checkpoint_last_step(const char *folder);
struct rt_weights_options {
	const char *path;
	bool allow_unused, allow_missing;
	/* "old=new": names of the file that begin with old, and how instead */
	const char *const *renames;
	int64_t nrenames;
	/* after loading: tensors that were not there, and the first of them */
	int64_t fresh;
	char first[80];
};

/*
 * Writes a folder that other programs load: weights as model.safetensors, or as
 * shards of at most `shard_bytes` of data with an index, under the model's
 * names and in the shapes that these programs have, and the plan's config.json,
 * if it has one.  The folder must not exist, or be empty, or with `replaces` be
 * an export; it appears whole or not at all.  A collective: it fails on all
 * ranks or on none.
 */
enum rt_status rt_export(const struct rt_store *s, const char *folder,
			 int64_t shard_bytes, bool replaces,
			 struct rt_error *err);
/*
 * Loads weights alone, by name, from files as Hugging Face publishes them;
 * stored shapes may merge adjacent dims.  Pieces are read straight to their
 * place: no tensor is ever held whole.  Errors: a tensor that is missing or has
 * another shape (with its name, both shapes and the most similar name), and,
 * unless allow_unused, a tensor that the model does not have.  With
 * allow_missing a tensor that is trained may be missing, of all layers of a
 * repeat or of none, and stays as it is.
 */
enum rt_status rt_weights_load(const struct rt_store *s,
			       struct rt_weights_options *o,
			       struct rt_error *err);

/* ---- panels of weights (turn_panels.c) -------------------------------- */

struct rt_workers;

/* Turns all weights of this rank that its kernels read in panels, once they are
 * as they are loaded.  From then on they are not to be saved. */
enum rt_status rt_store_panels(const struct rt_store *s, struct rt_workers *w,
			       struct rt_error *err);
/* One panel of so many words in each row; `space` has its size. */
void rt_turn_panel(char *at, int64_t lanes, int64_t words, char *space);

#endif
