/*
 * tokens.h - private to runtime/: what tokens.c and tokens_file.c share.
 */
#ifndef RT_TOKENS_H
#define RT_TOKENS_H

#include "runtime/data/data.h"
#include "runtime/data/safetensors.h"

/* How a token lies in a file, little-endian. */
enum rt_token_type {
	RT_TOKEN_U8,
	RT_TOKEN_U16,
	RT_TOKEN_U32,
	RT_TOKEN_I32
};

/* Where the tokens of one file are. */
struct rt_token_file {
	struct rt_shard bin;
	enum rt_token_type type;
	int64_t data_at; /* of the first token, in bytes */
	int64_t count; /* tokens */
	int64_t first; /* its first sequence, by number in an epoch */
	int64_t sequences;
};

/* ---- tokens_file.c -------------------------------------------------- */

/* Bytes of a token. */
int64_t rt_token_bytes(enum rt_token_type type);

/*
 * Finds out what an opened file holds and fills type, data_at and count.
 * With an index it is Megatron's; without one it is llm.c's if it begins as
 * these do, else raw.  Both are read through, and borrowed.
 */
enum rt_status rt_token_file_read(struct rt_token_file *f,
				  const struct rt_shard *idx,
				  struct rt_error *err);

/* ---- tokens.c -------------------------------------------------------- */

/*
 * The place of `index` in a permutation of 0 .. n - 1 that the key picks;
 * takes no memory and about the same time whatever n is.
 */
int64_t rt_permute(int64_t n, uint64_t key, int64_t index);

/* n tokens from number `at` of a file on; RT_FORMAT: one is not below. */
enum rt_status rt_token_file_get(const struct rt_token_file *f, int64_t at,
				 int64_t n, int64_t below, int32_t *out,
				 struct rt_error *err);

#endif
