/*
 * Weights in panels, as kernels of contractions read them: see rt_hold.  Where
 * a program serves, its weights are turned once they are all there, in place,
 * a panel at a time: a panel has the bytes of its rows.
 */
#include "runtime/data/data.h"

#include <string.h>

#include "runtime/device/pool.h"
#include "runtime/elems.h"

#define LINE 16		/* words that are turned together: a cache line */

void
rt_turn_panel(char *at, int64_t lanes, int64_t words, char *space)
{
	int64_t r, w, i;

	memcpy(space, at, (size_t)(4 * lanes * words));
	for (w = 0; w < words; w += LINE) {
		for (r = 0; r < lanes; r++) {
			for (i = w; i < words && i < w + LINE; i++) {
				memcpy(at + 4 * (i * lanes + r),
				       space + 4 * (r * words + i), 4);
			}
		}
	}
}

struct turning {
	char *at, *space;
	int64_t lanes, words;
};

static void
turn_some(void *user, int64_t worker, int64_t from, int64_t to)
{
	const struct turning *t = user;
	int64_t bytes = 4 * t->lanes * t->words;

	for (; from < to; from++) {
		rt_turn_panel(t->at + from * bytes, t->lanes, t->words,
			      t->space + worker * bytes);
	}
}

static int64_t
words_of(const struct rt_hold *h)
{
	return h->row * rt_elem_bytes((enum rt_elem)h->tensor->elem) / 4;
}

/* Rows of what the rank holds. */
static int64_t
rows_of(const struct rt_store *s, const struct rt_hold *h)
{
	int64_t n = 1, d;

	for (d = 0; d < h->tensor->ndims; d++) {
		n *= rt_pieces_of(s->plan, h->dims[d], s->rank, 0)->total;
	}
	return n / h->row;
}

enum rt_status
rt_store_panels(const struct rt_store *s, struct rt_workers *w,
		struct rt_error *err)
{
	struct rt_alloc alloc = rt_alloc_or_libc(NULL);
	struct turning t = { .lanes = 0 };
	int64_t most = 0, bytes, i;

	for (i = 0; i < s->program->nholds; i++) {
		const struct rt_hold *h = &s->program->holds[i];

		bytes = 4 * h->lanes * words_of(h);
		most = bytes > most ? bytes : most;
	}
	if (most == 0) {
		return RT_OK;
	}
	t.space = rt_resize(&alloc, NULL, (size_t)most,
			    (size_t)rt_workers_count(w));
	if (!t.space) {
		return rt_no_memory(err, "panels of weights");
	}
	for (i = 0; i < s->program->nholds; i++) {
		const struct rt_hold *h = &s->program->holds[i];

		if (h->lanes > 0) {
			t.at = s->arena + h->offset;
			t.lanes = h->lanes;
			t.words = words_of(h);
			rt_workers_run(w, turn_some, &t,
				       rows_of(s, h) / h->lanes);
		}
	}
	rt_release(&alloc, t.space);
	return RT_OK;
}
