/*
 * Blocks of the cache and which contents they have; see kv.h.
 *
 * A content has a number that is never given twice, and a block with a content
 * stands in a hash table by the number of the parent and its tokens, which are
 * compared, so that no two contents can be taken for one.  When a block gets
 * another content, its children can no longer be found, since nobody will have
 * the number of their parent again.
 */
#include "runtime/serve/schedule/kv.h"

#include <stdlib.h>
#include <string.h>

struct kv_block {
	int32_t users;
	uint64_t content;	/* 0: none */
	uint64_t parent;
	int32_t next_in_hash;
	/* in the list of unused blocks, oldest first */
	int32_t before, after;
};

struct rt_kv {
	int64_t size, nblocks, unused;
	bool share;
	struct kv_block *blocks;	/* the last is the list's head */
	int32_t *tokens;		/* [nblocks][size] */
	int32_t *heads;			/* of the hash table */
	uint64_t mask, last_content;
};

static void
link_before(struct rt_kv *kv, int32_t b, int32_t next)
{
	int32_t before = kv->blocks[next].before;

	kv->blocks[b].before = before;
	kv->blocks[b].after = next;
	kv->blocks[before].after = b;
	kv->blocks[next].before = b;
	kv->unused++;
}

static void
unlink_block(struct rt_kv *kv, int32_t b)
{
	kv->blocks[kv->blocks[b].before].after = kv->blocks[b].after;
	kv->blocks[kv->blocks[b].after].before = kv->blocks[b].before;
	kv->unused--;
}

/* Elements of its arrays. */
struct kv_sizes {
	size_t blocks, tokens, heads;
};

static struct kv_sizes
sizes_of(int64_t blocks, int64_t block)
{
	struct kv_sizes n = { .blocks = (size_t)blocks + 1, .heads = 16 };

	n.tokens = (size_t)blocks * (size_t)block;
	while (n.heads < 2 * (size_t)blocks) {
		n.heads *= 2;
	}
	return n;
}

int64_t
rt_kv_bytes(int64_t blocks, int64_t block)
{
	struct kv_sizes n = sizes_of(blocks, block);

	return (int64_t)(sizeof(struct rt_kv) +
			 n.blocks * sizeof(struct kv_block) +
			 (n.tokens + n.heads) * sizeof(int32_t));
}

enum rt_status
rt_kv_open(struct rt_kv **out, int64_t blocks, int64_t block, bool share,
	   struct rt_error *err)
{
	struct rt_kv *kv = calloc(1, sizeof *kv);
	struct kv_sizes n = sizes_of(blocks, block);
	uint64_t i;

	*out = NULL;
	if (!kv) {
		return rt_no_memory(err, NULL);
	}
	*kv = (struct rt_kv){ .size = block, .nblocks = blocks,
			      .share = share, .mask = n.heads - 1 };
	kv->blocks = calloc(n.blocks, sizeof *kv->blocks);
	kv->tokens = calloc(n.tokens, sizeof *kv->tokens);
	kv->heads = calloc(n.heads, sizeof *kv->heads);
	if (!kv->blocks || !kv->tokens || !kv->heads) {
		rt_kv_free(kv);
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < n.heads; i++) {
		kv->heads[i] = -1;
	}
	kv->blocks[blocks].before = kv->blocks[blocks].after = (int32_t)blocks;
	for (i = 0; i < (uint64_t)blocks; i++) {
		link_before(kv, (int32_t)i, (int32_t)blocks);
	}
	*out = kv;
	return RT_OK;
}

void
rt_kv_free(struct rt_kv *kv)
{
	if (kv) {
		free(kv->blocks);
		free(kv->tokens);
		free(kv->heads);
		free(kv);
	}
}

int64_t
rt_kv_unused(const struct rt_kv *kv)
{
	return kv->unused;
}

/* ---- contents ---- */

static int32_t *
head_of(struct rt_kv *kv, uint64_t parent, const int32_t *tokens)
{
	uint64_t h = parent * 0x9e3779b97f4a7c15u;
	int64_t i;

	for (i = 0; i < kv->size; i++) {
		h = (h ^ (uint32_t)tokens[i]) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return &kv->heads[h & kv->mask];
}

static const int32_t *
tokens_of(const struct rt_kv *kv, int32_t b)
{
	return kv->tokens + b * kv->size;
}

static int32_t
block_with(struct rt_kv *kv, uint64_t parent, const int32_t *tokens)
{
	int32_t b = *head_of(kv, parent, tokens);

	while (b >= 0 && (kv->blocks[b].parent != parent ||
			  memcmp(tokens_of(kv, b), tokens,
				 (size_t)kv->size * sizeof *tokens) != 0)) {
		b = kv->blocks[b].next_in_hash;
	}
	return b;
}

static void
forget_content(struct rt_kv *kv, int32_t b)
{
	int32_t *at;

	if (kv->blocks[b].content == 0) {
		return;
	}
	at = head_of(kv, kv->blocks[b].parent, tokens_of(kv, b));
	while (*at != b) {
		at = &kv->blocks[*at].next_in_hash;
	}
	*at = kv->blocks[b].next_in_hash;
	kv->blocks[b].content = 0;
}

/* ---- blocks ---- */

int32_t
rt_kv_new(struct rt_kv *kv)
{
	int32_t b = kv->blocks[kv->nblocks].after;

	if (b == kv->nblocks) {
		return -1;
	}
	unlink_block(kv, b);
	forget_content(kv, b);
	kv->blocks[b].users = 1;
	return b;
}

int32_t
rt_kv_find(struct rt_kv *kv, uint64_t parent, const int32_t *tokens,
	   uint64_t *content)
{
	int32_t b = kv->share ? block_with(kv, parent, tokens) : -1;

	if (b < 0) {
		return -1;
	}
	if (kv->blocks[b].users++ == 0) {
		unlink_block(kv, b);
	}
	*content = kv->blocks[b].content;
	return b;
}

uint64_t
rt_kv_fill(struct rt_kv *kv, int32_t b, uint64_t parent, const int32_t *tokens)
{
	int32_t *head, same;

	if (!kv->share) {
		return RT_KV_ROOT;
	}
	same = block_with(kv, parent, tokens);
	if (same >= 0) {
		return kv->blocks[same].content;
	}
	memcpy(kv->tokens + b * kv->size, tokens,
	       (size_t)kv->size * sizeof *tokens);
	head = head_of(kv, parent, tokens);
	kv->blocks[b].parent = parent;
	kv->blocks[b].content = ++kv->last_content;
	kv->blocks[b].next_in_hash = *head;
	*head = b;
	return kv->last_content;
}

/* A block without a content is the first to be used again. */
void
rt_kv_give_back(struct rt_kv *kv, int32_t b)
{
	int32_t head = (int32_t)kv->nblocks;

	if (--kv->blocks[b].users == 0) {
		link_before(kv, b, kv->blocks[b].content ? head
			    : kv->blocks[head].after);
	}
}
