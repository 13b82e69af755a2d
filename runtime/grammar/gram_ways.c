/*
 * Ways to read a text, and the values around them; see gram.h.
 */
#include "runtime/grammar/gram.h"

#include <stdlib.h>

void
gram_ways_release(struct gram_ways *w)
{
	free(w->at);
	free(w->frames);
}

/* ---- ways ---- */

/* Whether an array has space for n ways more than its first `have`. */
static bool
has_space(struct gram_ways *w, struct gram_way **at, size_t have, size_t n,
	  size_t *cap)
{
	struct gram_way *more;

	if (have + n <= *cap) {
		return true;
	}
	more = realloc(*at, (2 * (have + n) + GRAM_WAYS) * sizeof *more);
	if (!more) {
		w->failed = true;
		return false;
	}
	*at = more;
	*cap = 2 * (have + n) + GRAM_WAYS;
	return true;
}

bool
gram_reserve(struct gram_ways *w, size_t n)
{
	return has_space(w, &w->at, w->n, n, &w->cap);
}

static bool
are_equal(const struct gram_way *a, const struct gram_way *b)
{
	return a->node == b->node && a->up == b->up && a->phase == b->phase &&
	       a->blanks == b->blanks && a->count == b->count;
}

/* What several ways have come to is one: `from' begins the level. */
static bool
is_there(const struct gram_ways *w, size_t from, const struct gram_way *way)
{
	size_t i;

	for (i = from; i < w->n; i++) {
		if (are_equal(&w->at[i], way)) {
			return true;
		}
	}
	return false;
}

static bool
is_of_pattern(const struct gram_ways *w, const struct gram_way *way)
{
	return (way->phase == GRAM_INSIDE ||
		(way->phase == GRAM_KEY && way->extra)) &&
	       w->g->nodes[way->node].pattern >= 0;
}

/* Whether a level has no space for a way.  Most of a vocabulary may be tried
 * with each way of a pattern, byte by byte, so these are fewer. */
static bool
is_full(const struct gram_ways *w, size_t from, const struct gram_way *way)
{
	size_t n = 0, i;

	for (i = from; is_of_pattern(w, way) && i < w->n; i++) {
		n += is_of_pattern(w, &w->at[i]);
	}
	return n >= GRAM_PATTERN_WAYS || w->n - from >= GRAM_WAYS;
}

/* What finds no space is left out: each way by itself can be completed. */
void
gram_add_way(struct gram_ways *w, size_t from, const struct gram_way *way)
{
	if (!is_full(w, from, way) &&
	    !((way->phase == GRAM_AFTER || way->phase == GRAM_OVER) &&
	      is_there(w, from, way)) &&
	    has_space(w, &w->at, w->n, 1, &w->cap)) {
		w->at[w->n++] = *way;
	}
}

bool
gram_fits(const struct gram_ways *w, int32_t node, int depth)
{
	return node >= 0 && depth + w->g->nodes[node].height <= GRAM_DEPTH;
}

/* Adds the ways that begin a value. */
void
gram_add_values(struct gram_ways *w, size_t from, int32_t node, int32_t up,
		uint8_t depth)
{
	const struct gram_node *x = &w->g->nodes[node];
	struct gram_way way = { .node = node, .up = up, .depth = depth };
	int32_t i;

	if (x->kind != GRAM_UNION) {
		gram_add_way(w, from, &way);
		return;
	}
	for (i = 0; i < x->n; i++) {
		way.node = w->g->parts[x->first + i].node;
		if (gram_fits(w, way.node, depth)) {
			gram_add_way(w, from, &way);
		}
	}
}

/* The same of a value within that of a way. */
void
gram_add_inner(struct gram_ways *w, size_t from, const struct gram_way *way,
	       int32_t node)
{
	if (has_space(w, &w->frames, w->nframes, 1, &w->frames_cap)) {
		w->frames[w->nframes++] = *way;
		gram_add_values(w, from, node, (int32_t)w->nframes - 1,
				(uint8_t)(way->depth + 1));
	}
}

/* The way of what is around a value that has ended. */
struct gram_way
gram_end_of_value(const struct gram_ways *w, const struct gram_way *way)
{
	struct gram_way out = { .node = -1, .up = -1, .phase = GRAM_OVER };

	if (way->up >= 0) {
		out = w->frames[way->up];
		out.phase = GRAM_AFTER;
		out.blanks = 0;
	}
	return out;
}

void
gram_end_value(struct gram_ways *w, size_t from, const struct gram_way *way)
{
	struct gram_way out = gram_end_of_value(w, way);

	gram_add_way(w, from, &out);
}

/* In frames, `lo' says that it is kept and `to' where it goes; both are of keys
 * and characters, which no frame is in the middle of. */
void
gram_forget(struct gram_ways *w)
{
	size_t n = 0, i;
	int32_t f;

	for (i = 0; i < w->nframes; i++) {
		w->frames[i].lo = 0;
	}
	for (i = 0; i < w->n; i++) {
		for (f = w->at[i].up; f >= 0 && !w->frames[f].lo;
		     f = w->frames[f].up) {
			w->frames[f].lo = 1;
		}
	}
	/* what is around a frame stands before it */
	for (i = 0; i < w->nframes; i++) {
		struct gram_way *x = &w->frames[i];

		if (x->lo) {
			x->to = (int32_t)n++;
			x->up = x->up < 0 ? -1 : w->frames[x->up].to;
		}
	}
	for (i = 0; i < w->n; i++) {
		f = w->at[i].up;
		w->at[i].up = f < 0 ? -1 : w->frames[f].to;
	}
	for (i = n = 0; i < w->nframes; i++) {
		if (w->frames[i].lo) {
			w->frames[n++] = w->frames[i];
		}
	}
	w->nframes = n;
}
