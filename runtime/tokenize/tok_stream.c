/*
 * The text of ids that come one after the other.  The text of an id depends on
 * those before it: blanks, and characters of several ids.  So a few known ids
 * and the new ones are decoded together, and what that is longer than the text
 * of the known ones alone is new, once it ends in a whole character.  Special
 * tokens have no text, and are not kept.
 */
#include "runtime/error.h"
#include "runtime/tokenize/tokenize.h"

#include <string.h>

#define BEFORE 8	/* ids of what comes before that are decoded along */

void
rt_stream_open(struct rt_stream *x, const struct rt_tokenizer *t)
{
	*x = (struct rt_stream){ .tokenizer = t,
				 .ids.alloc = rt_alloc_or_libc(NULL) };
}

void
rt_stream_close(struct rt_stream *x)
{
	rt_ids_release(&x->ids);
}

static bool
keep(struct rt_stream *x, uint32_t id)
{
	return rt_tokenizer_is_special(x->tokenizer, id) ||
	       rt_ids_add(&x->ids, id);
}

enum rt_status
rt_stream_begin(struct rt_stream *x, const uint32_t *ids, size_t n,
		struct rt_error *err)
{
	size_t i = n > BEFORE ? n - BEFORE : 0;

	x->ids.n = x->from = 0;
	for (; i < n; i++) {
		if (!keep(x, ids[i])) {
			return rt_no_memory(err, NULL);
		}
	}
	x->known = x->ids.n;
	return RT_OK;
}

static bool
ends_cut(const char *text, size_t n)
{
	static const char cut[] = "\xef\xbf\xbd";

	return n >= 3 && memcmp(text + n - 3, cut, 3) == 0;
}

/* A character has at most four bytes.  After many ids that do not end in a
 * whole one, bytes that are no text come. */
static bool
may_be_whole_later(const struct rt_stream *x, int64_t id)
{
	return id >= 0 && x->ids.n - x->known < 16;
}

/*
 * The text of the ids that are decoded together, of which *nold bytes are
 * known.  Bytes may be text by themselves, and none together with those that
 * come: what was returned stays, and what is new is decoded alone.
 */
static enum rt_status
decode_all(const struct rt_stream *x, char **all, size_t *n, size_t *nold,
	   struct rt_error *err)
{
	const uint32_t *ids = x->ids.at;
	enum rt_status status;
	char *old = NULL;

	status = rt_decode(x->tokenizer, ids + x->from, x->known - x->from,
			   true, &old, nold, err);
	if (status == RT_OK) {
		status = rt_decode(x->tokenizer, ids + x->from,
				   x->ids.n - x->from, true, all, n, err);
	}
	if (status == RT_OK && x->ids.n > x->known && *nold > 0 &&
	    (*n < *nold || memcmp(*all, old, *nold) != 0)) {
		rt_release(&x->ids.alloc, *all);
		*all = NULL;
		*nold = 0;
		status = rt_decode(x->tokenizer, ids + x->known,
				   x->ids.n - x->known, true, all, n, err);
	}
	rt_release(&x->ids.alloc, old);
	return status;
}

enum rt_status
rt_stream_add(struct rt_stream *x, int64_t id, char **text, size_t *n,
	      struct rt_error *err)
{
	size_t nold = 0, nall = 0;
	char *all = NULL;
	enum rt_status status;

	*text = NULL;
	*n = 0;
	if (id >= 0 && !keep(x, (uint32_t)id)) {
		return rt_no_memory(err, NULL);
	}
	status = decode_all(x, &all, &nall, &nold, err);
	if (status == RT_OK && nall > nold &&
	    (!ends_cut(all, nall) || !may_be_whole_later(x, id))) {
		/* what follows broken bytes is decoded without them */
		x->from = ends_cut(all, nall) ? x->ids.n : x->known;
		x->known = x->ids.n;
		memmove(all, all + nold, nall - nold + 1);
		*text = all;
		*n = nall - nold;
		all = NULL;
	}
	rt_release(&x->ids.alloc, all);
	return status;
}
