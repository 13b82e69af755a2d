/*
 * Private to runtime/data/: an opened checkpoint of .safetensors files, or of
 * one of llama.cpp (gguf.h), and the parts of reading one.
 */
#ifndef RT_ST_H
#define RT_ST_H

#include "runtime/json.h"

/* Where bytes come from: a file, or the caller's memory. */
struct rt_shard {
	char *path; /* NULL: memory */
	int fd; /* -1: memory */
	const unsigned char *mem;
	int64_t mem_bytes; /* may end with the header */
	int64_t file_bytes; /* as it was when opened */
	int64_t data_at; /* offset of the data: after the header */
};

struct rt_pairs {
	struct rt_st_pair *at;
	size_t n, capacity;
};

/* A parsed header; its strings lie in `text`. */
struct rt_header {
	char *text;
	struct rt_st_tensor *tensors; /* in order of name */
	size_t n, capacity;
	struct rt_pairs metadata;
	int64_t data_bytes; /* where the last tensor ends */
};

/*
 * An index has one shard for each file, in order of name; its `header` is the
 * union of the tensors that it names, and `header.text` that of the index.
 */
struct rt_st {
	struct rt_alloc alloc;
	struct rt_shard *shards;
	size_t n_shards;
	struct rt_header header;
	/* matrices that are stored quantised: quantised.h */
	struct rt_packed *packed;
	char *packed_names;
	struct rt_unpacker *unpacker;
	/* of tensors of a GGUF file: gguf.h */
	struct rt_gguf_view *views;
	struct rt_gguf_kept *kept; /* NULL: none lies in another order */
	struct rt_gguf_model *gguf; /* NULL: it is no such file */
};

/* ---- shard.c -------------------------------------------------------- */

/* Opens a regular file; owns `path` from then on, also after a failure. */
enum rt_status rt_shard_open(struct rt_shard *s, char *path,
			     struct rt_error *err);

/* The first `len` bytes of a file, which the caller keeps. */
struct rt_shard rt_shard_of_memory(const void *buf, size_t len, int64_t
				   file_bytes);

/* Closes and frees a shard, even one that could not be opened. */
void rt_shard_release(const struct rt_alloc *alloc, struct rt_shard *s);

/* Reads n bytes from offset `at` of the file; t: for messages, or NULL. */
enum rt_status rt_shard_read(const struct rt_shard *s,
			     const struct rt_st_tensor *t, int64_t at,
			     int64_t n, void *out, struct rt_error *err);

/* Reads n bytes into a new string, which gets a NUL after them. */
enum rt_status rt_shard_read_text(const struct rt_alloc *alloc,
				  const struct rt_shard *s, int64_t at,
				  int64_t n, char **out, struct rt_error *err);

/* Where in a shard an error is; t may be NULL. */
struct rt_where rt_shard_where(const struct rt_shard *s,
			       const struct rt_st_tensor *t, int64_t at);

/* ---- safetensors.c ------------------------------------------------- */

/* Reads the header of a shard; leaves *h empty on failure. */
enum rt_status rt_header_read(const struct rt_alloc *alloc, struct rt_shard *s,
			      struct rt_header *h, struct rt_error *err);
const struct rt_st_tensor *rt_header_find(const struct rt_header *h,
					  const char *name);
void rt_header_release(const struct rt_alloc *alloc, struct rt_header *h);

/* Parses an object of strings into pairs, sorted; no key may occur twice. */
bool rt_st_parse_pairs(struct rt_json *j, const struct rt_alloc *alloc,
		       struct rt_pairs *p);

/*
 * A checkpoint with capacity for n shards, none of them open; NULL: no memory.
 */
struct rt_st *rt_st_new(struct rt_alloc alloc, size_t n);

/* Appends a shard and opens it; owns `path` from then on. */
enum rt_status rt_st_add_shard(struct rt_st *st, char *path, struct rt_error
			       *err);

#endif
