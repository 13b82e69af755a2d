/*
 * Private to runtime/serve: the blocks of the cache.
 *
 * A block holds the keys and values of `block` tokens that follow each other in
 * a sequence.  What they are depends on all tokens up to them, so the contents
 * of full blocks form a tree: a content is its parent and its tokens.
 * Sequences that begin with the same tokens have the same blocks.  A block that
 * nobody uses any more keeps its content until it is needed for another.
 */
#ifndef RT_KV_H
#define RT_KV_H

#include "runtime/error.h"

struct rt_kv;

/* The content before the first block. */
#define RT_KV_ROOT 0

/* Without `share` nothing is ever found. */
enum rt_status rt_kv_open(struct rt_kv **out, int64_t blocks, int64_t block,
			  bool share, struct rt_error *err);
/* Memory that it has for so many. */
int64_t rt_kv_bytes(int64_t blocks, int64_t block);
void rt_kv_free(struct rt_kv *kv);
/* Blocks that nobody uses, whether they have a content or not. */
int64_t rt_kv_unused(const struct rt_kv *kv);
/* Whoever asks for a block uses it, until he gives it back.  A new one has no
 * content, and is the one that was not used for the longest time; -1: all are
 * used. */
int32_t rt_kv_new(struct rt_kv *kv);
/* The block with these tokens after `parent`, and its content; or -1. */
int32_t rt_kv_find(struct rt_kv *kv, uint64_t parent, const int32_t *tokens,
		   uint64_t *content);
/*
 * Says that a block is full, so that it can be found.  Returns its content,
 * which is that of another block if that was full of the same before.
 */
uint64_t rt_kv_fill(struct rt_kv *kv, int32_t b, uint64_t parent,
		    const int32_t *tokens);
void rt_kv_give_back(struct rt_kv *kv, int32_t b);

#endif
