/*
 * A blend of sequences that count, in place of runtime/data/blend.c, for the
 * toy plan.
 */
#ifndef T_FEED_H
#define T_FEED_H

#include <stdlib.h>

#include "runtime/data/data.h"
#include "t-toy.h"

#define SEQUENCES 40

enum rt_status
rt_blend_open(struct rt_blend **out, const struct rt_blend_options *o,
	       struct rt_error *err)
{
	(void)err;
	assert_int_equal(o->length, TOY_SEQ);
	assert_int_equal(o->below, TOY_VOCAB);
	*out = NULL;
	*out = malloc(1);
	return RT_OK;
}

enum rt_status
rt_blend_identity(const struct rt_blend *t, uint64_t *out,
		   struct rt_error *err)
{
	(void)t;
	(void)err;
	*out = 7;
	return RT_OK;
}

void
rt_blend_shuffle(struct rt_blend *t, uint64_t seed)
{
	(void)t;
	(void)seed;
}

void
rt_blend_free(struct rt_blend *t)
{
	free(t);
}

int64_t
rt_blend_sequences(const struct rt_blend *t)
{
	(void)t;
	return SEQUENCES;
}

int64_t
rt_blend_count(const struct rt_blend *b)
{
	(void)b;
	return 1;
}

struct rt_blended
rt_blend_after(const struct rt_blend *b, int64_t source, int64_t index)
{
	(void)b;
	(void)source;
	return (struct rt_blended){ 1, SEQUENCES, index };
}

enum rt_status
rt_blend_get(const struct rt_blend *t, int64_t index, int64_t from,
	      int64_t n, int32_t *out, struct rt_error *err)
{
	int64_t i;

	(void)t;
	(void)err;
	assert_true(from >= 0 && from + n <= TOY_SEQ + 1);
	for (i = 0; i < n; i++) {
		out[i] = (int32_t)((index * 3 + from + i) % TOY_VOCAB);
	}
	return RT_OK;
}

/* What documents make of position `at` of a sequence, by another rule than the
 * feed's: from the marks before and after it. */
static inline int64_t
t_number_of(const char *name, const int32_t *token, int64_t at)
{
	int64_t first = at, last = at, prefix = -1, number = 0, i;

	while (first > 0 && token[first - 1] != 8) {
		first--;
	}
	while (last < TOY_SEQ - 1 && token[last] != 8) {
		last++;
	}
	for (i = last; i >= first; i--) {
		prefix = token[i] == 3 ? i : prefix;
	}
	for (i = 0; i < at; i++) {
		number += token[i] == 8;
	}
	if (strcmp(name, "loss_mask") == 0) {
		return token[at + 1] != 5 && token[at] != 8 && prefix <= at;
	}
	return strcmp(name, "documents") == 0 ? number
	     : strcmp(name, "positions") == 0 ? at - first
	     : strcmp(name, "document_first") == 0 ? first
	     : strcmp(name, "document_last") == 0 ? last
	     : prefix > at ? prefix : at;
}

#endif
