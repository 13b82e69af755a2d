/*
 * What runtime/ provides to whoever links it: errors, and the reader of
 * safetensors files.
 *
 * The runtime never exits, never prints and keeps no global state: a function
 * that can fail returns a status, and describes the failure in a struct
 * rt_error of the caller.  It includes nothing of the compiler.  Of runtime/,
 * others may include this header and the few that tests/layering.sh lists.
 *
 * Each section is named for the .c files that define it.
 */
#ifndef RT_H
#define RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- errors and memory (error.c) ----------------------------------- */

enum rt_status {
	RT_OK,
	RT_NOMEM, /* the allocator returned NULL */
	RT_IO, /* the system failed, or the file changed meanwhile */
	RT_FORMAT, /* the bytes break a rule of their format */
	RT_RANGE, /* the caller asked for what does not exist */
};

enum {
	RT_ERROR_BYTES = 384, /* path, tensor name and sentence together */
};

/*
 * Why a call failed; only a call that fails writes it. `message` is one line of
 * valid UTF-8, lower case, no full stop; paths and names of tensors in it are
 * shortened and have no control characters.
 */
struct rt_error {
	enum rt_status status;
	int64_t offset; /* in the file where it was found, or -1 */
	char message[RT_ERROR_BYTES];
};

/*
 * Where memory comes from.  `realloc` behaves as realloc(3) does, save
 * that n = 0 always frees p and returns NULL.  The struct is copied by
 * whoever keeps it; `user` must outlive what was made with it.
 * Everywhere, a NULL struct rt_alloc means the C library.
 */
struct rt_alloc {
	void *(*realloc)(void *user, void *p, size_t n);
	void *user;
};

/* ---- weights on disk (safetensors*.c) ---------------------------------- */

/*
 * Element types, in the order and with the names of the format less the
 * prefix.  E4M3 is the variant without infinities; FNUZ, E8M0 and all
 * below one byte can be located and copied but not read as numbers.
 */
enum rt_dtype {
	RT_BOOL,
	RT_F4,
	RT_F6_E2M3,
	RT_F6_E3M2,
	RT_U8,
	RT_I8,
	RT_F8_E5M2,
	RT_F8_E4M3,
	RT_F8_E8M0,
	RT_F8_E4M3FNUZ,
	RT_F8_E5M2FNUZ,
	RT_I16,
	RT_U16,
	RT_F16,
	RT_BF16,
	RT_I32,
	RT_U32,
	RT_F32,
	RT_C64,
	RT_F64,
	RT_I64,
	RT_U64,
	RT_DTYPE_COUNT,
};

enum {
	RT_ST_MAX_DIMS = 16,
	RT_ST_MAX_HEADER_BYTES = 100000000, /* the format's own limit */
};

struct rt_packed;
struct rt_gguf_view;

/* One tensor of a checkpoint; belongs to the struct rt_st it came from. */
struct rt_st_tensor {
	const char *name; /* UTF-8, never holds a NUL */
	enum rt_dtype dtype;
	int ndim; /* 0 for a scalar */
	int64_t shape[RT_ST_MAX_DIMS]; /* row-major; a size may be 0 */
	int64_t begin; /* first byte, from the start of the data */
	int64_t end; /* one past its last byte */
	size_t shard; /* which file, see rt_st_path() */
	/* NULL, or the tensors of a quantised matrix that this one stands for:
	 * data/quantised.h; it is F32 then */
	const struct rt_packed *packed;
	/* NULL, or how a tensor of a GGUF file is read: data/gguf.h */
	const struct rt_gguf_view *view;
};

/* An opened checkpoint: one file, or an index and the files it names. */
struct rt_st;

/* A pair of an index (tensor, file) or of __metadata__ (key, value). */
struct rt_st_pair {
	const char *key;
	const char *value;
};

/* A parsed model.safetensors.index.json; no file it names was opened. */
struct rt_st_index {
	struct rt_st_pair *map; /* weight_map, in order of tensor name */
	size_t n;
	int64_t total_bytes; /* metadata.total_size, or -1 */
	char *text; /* holds the strings */
	struct rt_alloc alloc;
};

/*
 * Opens one .safetensors file.  Every rule of the format is checked, so
 * that each tensor lies inside the file and none overlaps another.  The
 * file stays open until rt_st_free().  On failure *out is NULL.
 */
enum rt_status rt_st_open(struct rt_st **out, const char *path,
			  const struct rt_alloc *alloc, struct rt_error *err);

/*
 * Opens an index and every file that it names, each of them relative to
 * the folder of the index and never outside it.  The checkpoint consists
 * of the tensors that the index names; what else is in the files is left
 * out.  All files stay open until rt_st_free().
 */
enum rt_status rt_st_open_index(struct rt_st **out, const char *path,
				const struct rt_alloc *alloc,
				struct rt_error *err);

/*
 * Opens what the path stands for: an index (*.json), a folder that holds
 * model.safetensors.index.json, else model.safetensors, else exactly one
 * *.safetensors; one .safetensors file; or one *.gguf of llama.cpp, whose
 * tensors have the names and the order of Hugging Face then, those whose
 * numbers lie in blocks in F32.  A matrix of the others that is stored in 8 or
 * 4 bits, as quantization_config of the config.json beside it says, is one
 * tensor in F32, NAME.weight, in place of those that it is made of.
 */
enum rt_status rt_st_open_any(struct rt_st **out, const char *path,
			      const struct rt_alloc *alloc,
			      struct rt_error *err);

/*
 * Of an open *.gguf, the text that the config.json of its model would have, to
 * be freed by free(); the checkpoint has the allocator of libc.
 */
enum rt_status rt_st_config(const struct rt_st *st, char **out,
			    struct rt_error *err);

/* ---- words of a *.gguf (data/gguf_words.c) ------------------------------ */

/* What a token of a *.gguf is; others are words like any. */
enum rt_word_type { RT_WORD_UNKNOWN = 2, RT_WORD_CONTROL = 3, RT_WORD_OWN = 4 };

/* Tokens that a *.gguf names, and what it says yes or no to. */
enum rt_word_id { RT_WORD_BOS, RT_WORD_EOS, RT_WORD_EOT, RT_WORD_EOM,
		  RT_WORD_UNK, RT_WORD_NIDS };
enum rt_word_flag { RT_WORD_ADD_BOS, RT_WORD_ADD_EOS, RT_WORD_ADD_SPACE,
		    RT_WORD_ADD_SEP, RT_WORD_NFLAGS };

/* Texts by where they begin in those of struct rt_words. */
struct rt_word_list {
	size_t *at, n;
};

/* What the keys tokenizer.* of a *.gguf say; what they do not is empty. */
struct rt_words {
	struct rt_alloc alloc;
	char *text; /* all texts, a NUL after each */
	size_t n, cap;
	struct rt_word_list tokens, merges; /* a token's place is its id */
	double *scores;
	int32_t *types;
	size_t nscores, ntypes;
	char model[32], pre[32];
	const char *chat; /* the template in `text`, or NULL */
	int64_t ids[RT_WORD_NIDS]; /* -1: not said */
	int flags[RT_WORD_NFLAGS]; /* -1: not said */
	int64_t keys_end; /* the byte of the file after the last key */
};

/* Reads them.  On failure nothing is left to release. */
enum rt_status rt_words_read(struct rt_words *w, const char *path,
			     const struct rt_alloc *alloc,
			     struct rt_error *err);
void rt_words_release(struct rt_words *w);

/* ---- weights in memory (safetensors*.c) --------------------------------- */

/*
 * The same checks over the first `len` bytes of a file of `file_bytes`
 * bytes, which must hold the header.  Borrows `buf`: the reading functions
 * take the data from it, and fail with RT_RANGE past its end.
 */
enum rt_status rt_st_parse(struct rt_st **out, const void *buf, size_t len,
			   int64_t file_bytes, const struct rt_alloc *alloc,
			   struct rt_error *err);

/* Parses the text of an index.  On failure nothing is left to release. */
enum rt_status rt_st_index_parse(struct rt_st_index *ix, const void *buf,
				 size_t len, const struct rt_alloc *alloc,
				 struct rt_error *err);

/* Frees what rt_st_index_parse() made. */
void rt_st_index_release(struct rt_st_index *ix);

/* Closes the files and frees all; NULL is allowed. */
void rt_st_free(struct rt_st *st);

/* How many tensors the checkpoint has. */
size_t rt_st_count(const struct rt_st *st);

/* The i-th tensor in byte order of the names, 0 <= i < rt_st_count(). */
const struct rt_st_tensor *rt_st_at(const struct rt_st *st, size_t i);

/* The tensor of that name, or NULL; costs a binary search. */
const struct rt_st_tensor *rt_st_find(const struct rt_st *st, const char *name);

/* A value of __metadata__, or NULL; an index has none. */
const char *rt_st_metadata(const struct rt_st *st, const char *key);

/* The file that the tensor lies in; NULL after rt_st_parse(). */
const char *rt_st_path(const struct rt_st *st, const struct rt_st_tensor *t);

/* The product of the shape, 1 for a scalar. */
int64_t rt_st_elems(const struct rt_st_tensor *t);

/*
 * Copies n_bytes bytes of the tensor from its byte first_byte on, as they
 * are in the file (little-endian).  Needs no extra memory.  Like
 * rt_st_read_f64(), may run in several threads on one checkpoint.
 */
enum rt_status rt_st_read_raw(const struct rt_st *st,
			      const struct rt_st_tensor *t, int64_t first_byte,
			      int64_t n_bytes, void *out, struct rt_error *err);

/*
 * Reads n elements from element `first` on as doubles, exactly: a 64-bit
 * integer that no double equals, or a BOOL that is neither 0 nor 1, is
 * RT_FORMAT, as is a type that cannot be read as numbers.  Takes 32 KiB
 * of stack whatever n is.  After a failure `out` holds nothing of use.
 */
enum rt_status rt_st_read_f64(const struct rt_st *st,
			      const struct rt_st_tensor *t, int64_t first,
			      int64_t n, double *out, struct rt_error *err);

/* ---- what a model wants of them (safetensors_match.c) -------------------- */

/* The name that looks most like another, or NULL. */
const char *rt_st_nearest(const struct rt_st *st, const char *name);

/*
 * Has the tensor these extents?  Each of the stored ones is the product of
 * some of ours, in order; those of 1 may be left out at the end.
 */
bool rt_st_fits(const struct rt_st_tensor *t, const int64_t *sizes, int64_t n);

/*
 * RT_FORMAT: the checkpoint has tensors that used[] does not mark, and says
 * which.  Those are left out that are known to say nothing of their own: see
 * docs/checkpoints.md.
 */
enum rt_status rt_st_check_used(const struct rt_st *st, const char *path,
				const bool *used, struct rt_error *err);

/* "BF16" for RT_BF16, as the format spells it. */
const char *rt_dtype_name(enum rt_dtype dtype);

/* Bits of one element, which need not be whole bytes. */
int rt_dtype_bits(enum rt_dtype dtype);

#endif
