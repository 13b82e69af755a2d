/* Private to runtime/data/: a token file, for tokens.c,
 * tokens_file.c and blend.c. */
#ifndef RT_TOKENS_H
#define RT_TOKENS_H

#include "runtime/data/data.h"
#include "runtime/data/safetensors.h"

/* The type of a token in a file, little-endian. */
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
 * Detects the format of an opened file and fills type, data_at and count.  A
 * file with an index is Megatron's; one without is llm.c's if it begins with a
 * magic number of these, text by its name, or else raw.  Both files are only
 * read.
 */
enum rt_status rt_token_file_read(struct rt_token_file *f,
				  const struct rt_shard *idx,
				  struct rt_error *err);

/* ---- tokens.c -------------------------------------------------------- */

/* A bijection of 64 bits (the finalizer of splitmix64). */
uint64_t rt_tokens_mix(uint64_t x);
/*
 * The image of `index` under a permutation of 0 .. n - 1 that depends on the
 * key; takes no memory, and about the same time for any n.
 */
int64_t rt_tokens_permute(int64_t n, uint64_t key, int64_t index);

/* Reads n tokens from token `at` on; RT_FORMAT: one is not below the limit. */
enum rt_status rt_token_file_read_tokens(const struct rt_token_file *f, int64_t
					 at, int64_t n, int64_t below, int32_t
					 *out, struct rt_error *err);

#endif
