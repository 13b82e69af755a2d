/*
 * Matches a checkpoint with a model: similar names, shapes that fit, and
 * tensors that the model does not use.  The last is an error, lest the
 * checkpoint of another model passes for one of this.
 */
#include "runtime/data/safetensors.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NAMED = 4 };

/* ---- names --------------------------------------------------------- */

/* Length of the common prefix and suffix together. */
static size_t
agreement(const char *a, const char *b)
{
	size_t na = strlen(a), nb = strlen(b), n = na < nb ? na : nb;
	size_t head = 0, tail = 0;

	while (head < n && a[head] == b[head]) {
		head++;
	}
	while (tail < n - head && a[na - 1 - tail] == b[nb - 1 - tail]) {
		tail++;
	}
	return head + tail;
}

/* Not by edit distance: tensor names are long and differ in one part. */
const char *
rt_st_nearest(const struct rt_st *st, const char *name)
{
	size_t least = strlen(name) * 2 / 3, i, n;
	const char *best = NULL, *other;

	for (i = 0; i < rt_st_count(st); i++) {
		other = rt_st_at(st, i)->name;
		n = agreement(name, other);
		if (n > least) {
			least = n;
			best = other;
		}
	}
	return best;
}

/* ---- shapes -------------------------------------------------------- */

bool
rt_st_fits(const struct rt_st_tensor *t, const int64_t *sizes, int64_t n)
{
	int64_t k = 0, size;
	int i;

	for (i = 0; i < t->ndim; i++) {
		size = 1;
		while (k < n && size < t->shape[i]) {
			/* a product beyond what is stored does not fit */
			if (sizes[k] > t->shape[i] / size) {
				return false;
			}
			size *= sizes[k++];
		}
		if (size != t->shape[i]) {
			return false;
		}
	}
	while (k < n && sizes[k] == 1) {
		k++;
	}
	return k == n;
}

static bool
same_shape(const struct rt_st_tensor *a, const struct rt_st_tensor *b)
{
	return a->ndim == b->ndim &&
	       memcmp(a->shape, b->shape,
		      (size_t)a->ndim * sizeof(a->shape[0])) == 0;
}

/* ---- unused tensors ------------------------------------------------- */

/* The causal mask that GPT-2 checkpoints hold, [1, 1, n, n]. */
static bool
is_mask(const struct rt_st_tensor *t)
{
	return (rt_ends_in(t->name, ".attn.bias") ||
		rt_ends_in(t->name, ".attention.bias")) &&
	       t->ndim == 4 && t->shape[0] == 1 && t->shape[1] == 1 &&
	       t->shape[2] == t->shape[3];
}

static bool
is_integer(enum rt_dtype d)
{
	return d == RT_I32 || d == RT_I64 || d == RT_U32 || d == RT_U64;
}

/* Tensors that are computed from a model's settings, not trained. */
static bool
is_derived(const struct rt_st_tensor *t)
{
	return rt_ends_in(t->name, ".rotary_emb.inv_freq") || is_mask(t) ||
	       strcmp(t->name, "rope_freqs.weight") == 0 ||
	       strcmp(t->name, "rope_factors_long.weight") == 0 ||
	       strcmp(t->name, "rope_factors_short.weight") == 0 ||
	       (rt_ends_in(t->name, ".masked_bias") && t->ndim == 0) ||
	       (rt_ends_in(t->name, "position_ids") && is_integer(t->dtype));
}

/* Byte by byte; also false if one of them cannot be read. */
static bool
same_bytes(const struct rt_st *st, const struct rt_st_tensor *a,
	   const struct rt_st_tensor *b)
{
	unsigned char x[16384], y[16384];
	int64_t n = a->end - a->begin, at, some;

	if (b->end - b->begin != n) {
		return false;
	}
	for (at = 0; at < n; at += some) {
		some = n - at < (int64_t)sizeof(x) ? n - at :
						     (int64_t)sizeof(x);
		if (rt_st_read_raw(st, a, at, some, x, NULL) != RT_OK ||
		    rt_st_read_raw(st, b, at, some, y, NULL) != RT_OK ||
		    memcmp(x, y, (size_t)some) != 0) {
			return false;
		}
	}
	return true;
}

/* A language-model head that is tied to the embedding, and stored twice. */
static bool
is_tied(const struct rt_st *st, const struct rt_st_tensor *t, const bool *used)
{
	const struct rt_st_tensor *other;
	size_t i;

	if (!rt_ends_in(t->name, "lm_head.weight") || t->ndim < 2) {
		return false;
	}
	for (i = 0; i < rt_st_count(st); i++) {
		other = rt_st_at(st, i);
		if (used[i] && other->dtype == t->dtype &&
		    same_shape(other, t) && same_bytes(st, other, t)) {
			return true;
		}
	}
	return false;
}

enum rt_status
rt_st_check_used(const struct rt_st *st, const char *path, const bool *used,
		 struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	const struct rt_st_tensor *t;
	size_t i, n = 0, named = 0, at = 0;
	char names[160], more[48] = "";

	for (i = 0; i < rt_st_count(st); i++) {
		t = rt_st_at(st, i);
		if (used[i] || is_derived(t) || is_tied(st, t, used)) {
			continue;
		}
		/* The first always fits. */
		if (named == n && named < MOST_NAMED &&
		    at + sizeof(struct rt_shown) + 4 < sizeof(names)) {
			at += (size_t)snprintf(names + at, sizeof(names) - at,
					       "%s'%s'", n ? ", " : "",
					       rt_show_name(t->name).text);
			named++;
		}
		n++;
	}
	if (n == 0) {
		return RT_OK;
	}
	if (n > named) {
		snprintf(more, sizeof(more), " and %zu more", n - named);
	}
	return rt_fail(err, RT_FORMAT, where, "found %zu tensor%s that the "
		       "model does not read: %s%s, expected none: "
		       "--allow-unused leaves them out", n, n == 1 ? "" : "s",
		       names, more);
}
