/*
 * safetensors.h - private to runtime/: what safetensors.c, safetensors_index.c
 * and safetensors_read.c share.
 */
#ifndef RT_ST_H
#define RT_ST_H

#include "runtime/json.h"

/* Where bytes come from: a file, or the caller's memory. */
struct rt_shard {
	char *path; /* NULL: memory */
	int fd; /* -1: memory */
	const unsigned char *mem;
	int64_t mem_bytes; /* may hold no more than the header */
	int64_t file_bytes; /* as it was when opened */
	int64_t data_at; /* offset of the data, 8 + N */
};

struct rt_pairs {
	struct rt_st_pair *at;
	size_t n, room;
};

/* A header once read; the strings in it lie in `text`. */
struct rt_header {
	char *text;
	struct rt_st_tensor *tensors; /* in order of name */
	size_t n, room;
	struct rt_pairs metadata;
	int64_t data_bytes; /* where the last tensor ends */
};

/*
 * For an index, `shards` are its files in order of name, and `header` is
 * the union of the tensors it names, over the text of the index.
 */
struct rt_st {
	struct rt_alloc alloc;
	struct rt_shard *shards;
	size_t n_shards;
	struct rt_header header;
};

/* ---- safetensors_read.c ------------------------------------------------- */

/* Opens a regular file; takes over `path`, also when it fails. */
enum rt_status rt_shard_open(struct rt_shard *s, char *path,
			     struct rt_error *err);

/* The first `len` bytes of a file, lent by the caller. */
struct rt_shard rt_memory_shard(const void *buf, size_t len,
				int64_t file_bytes);

/* Closes and frees one that was opened, with or without success. */
void rt_shard_release(const struct rt_alloc *alloc, struct rt_shard *s);

/* Reads n bytes at offset `at` of the file, for tensor t or NULL. */
enum rt_status rt_shard_read(const struct rt_shard *s,
			     const struct rt_st_tensor *t, int64_t at,
			     int64_t n, void *out, struct rt_error *err);

/* Reads n bytes into a new text, which gets a NUL behind them. */
enum rt_status rt_read_text(const struct rt_alloc *alloc,
			    const struct rt_shard *s, int64_t at, int64_t n,
			    char **out, struct rt_error *err);

/* What an error in a shard is about; t may be NULL. */
struct rt_where rt_in_shard(const struct rt_shard *s,
			    const struct rt_st_tensor *t, int64_t at);

/* ---- safetensors.c ------------------------------------------------- */

/* Reads the header of a shard; leaves *h empty on failure. */
enum rt_status rt_header_read(const struct rt_alloc *alloc, struct rt_shard *s,
			      struct rt_header *h, struct rt_error *err);
const struct rt_st_tensor *rt_header_find(const struct rt_header *h,
					  const char *name);
void rt_header_release(const struct rt_alloc *alloc, struct rt_header *h);

/* An object of strings, sorted by key, with no key twice. */
bool rt_parse_pairs(struct rt_json *j, const struct rt_alloc *alloc,
		    struct rt_pairs *p);

/* A checkpoint with room for n shards and none in it; NULL: no memory. */
struct rt_st *rt_st_new(struct rt_alloc alloc, size_t n);

/* Appends a shard and opens it at a path that it takes over. */
enum rt_status rt_add_shard(struct rt_st *st, char *path, struct rt_error *err);

#endif
