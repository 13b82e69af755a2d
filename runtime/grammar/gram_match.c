/*
 * Texts of a grammar, byte by byte; see gram.h.
 *
 * A way is a state of a machine with a stack.  Where several alternatives are
 * open, there are several ways; they end when their next byte does not come.
 * All but numbers know by their last byte that they end; what follows a number
 * is read by what is around it.
 */
#include "runtime/grammar/gram.h"

#include <stdlib.h>
#include <string.h>

enum { BLANKS = 48 };		/* of an indent */

/* ---- values ---- */

/* A blank between two marks. */
static bool
is_blank(struct gram_way *way, unsigned char byte)
{
	if (byte == '\n' && way->blanks == 0) {
		way->blanks = 2;
		return true;
	}
	if (byte == ' ' && way->blanks != 1 && way->blanks < BLANKS) {
		way->blanks += 1;
		return true;
	}
	return false;
}

/* ---- literals ---- */

static void
next_literal(struct gram_ways *w, size_t from, struct gram_way *way,
	     unsigned char byte)
{
	gram_narrow(w->g, way, byte);
	if (way->from == way->to) {
		return;
	}
	way->phase = GRAM_INSIDE;
	if (gram_is_whole(w->g, way) && way->to - way->from == 1) {
		gram_end_value(w, from, way);
	} else {
		gram_add_way(w, from, way);
	}
}

/* ---- objects ---- */

/* The first required member of those that may follow; n: there is none. */
static int32_t
next_required(const struct gram_ways *w, const struct gram_way *way)
{
	const struct gram_node *x = &w->g->nodes[way->node];

	return way->count < x->n
		? w->g->parts[x->first + way->count].next_required : x->n;
}

/* Whether the member `order` may be next: no required one is passed by. */
static bool
may_follow(const struct gram_ways *w, const struct gram_way *way,
	   int32_t order, int32_t required)
{
	const struct gram_node *x = &w->g->nodes[way->node];

	return order >= way->count && order <= required &&
	       gram_fits(w, w->g->parts[x->first + order].node, way->depth + 1);
}

static bool
has_required(const struct gram_ways *w, const struct gram_way *way)
{
	return next_required(w, way) == w->g->nodes[way->node].n;
}

/* Whether a member that the schema does not name may be next. */
static bool
may_be_extra(const struct gram_ways *w, const struct gram_way *way)
{
	return gram_fits(w, w->g->nodes[way->node].inner, way->depth + 1) &&
	       has_required(w, way);
}

/* Whether any member may. */
static bool
may_have_more(const struct gram_ways *w, const struct gram_way *way)
{
	int32_t required = next_required(w, way);
	int32_t i = (int32_t)way->count, n = w->g->nodes[way->node].n;

	while (i < n && !may_follow(w, way, i, required)) {
		i++;
	}
	return i < n || may_be_extra(w, way);
}

static void
begin_key(struct gram_ways *w, size_t from, struct gram_way *way)
{
	const struct gram_node *x = &w->g->nodes[way->node];

	way->phase = GRAM_KEY;
	way->from = x->text;
	way->to = x->text + x->ntexts;
	way->at = 0;
	way->rest = 0;
	way->extra = may_be_extra(w, way);
	way->places = 0;
	way->inner = next_required(w, way);
	gram_add_way(w, from, way);
}

/* Whether a key that is none of the schema's may end here, or go on. */
static bool
may_end_extra(const struct gram_ways *w, const struct gram_way *way)
{
	int32_t p = w->g->nodes[way->node].pattern;

	return way->extra && (p < 0 || gram_pattern_may_end(
					&w->g->patterns[p], way->places));
}

static bool
next_of_extra(const struct gram_ways *w, struct gram_way *way,
	      unsigned char byte)
{
	int32_t p = w->g->nodes[way->node].pattern;

	return way->extra && byte != '\\' &&
	       (p < 0 || gram_pattern_next(&w->g->patterns[p], way,
					   &way->places, byte));
}

/* The quote that ends a key. */
static void
end_key(struct gram_ways *w, size_t from, struct gram_way *way)
{
	const struct gram_node *x = &w->g->nodes[way->node];

	if (gram_is_whole(w->g, way)) {
		int32_t order = w->g->texts[way->from].order;

		if (!may_follow(w, way, order, way->inner)) {
			return;
		}
		way->inner = w->g->parts[x->first + order].node;
		way->count = order + 1;
	} else if (may_end_extra(w, way)) {
		way->inner = x->inner;
		way->count = x->n;
	} else {
		return;
	}
	way->phase = GRAM_COLON;
	gram_add_way(w, from, way);
}

/* Keys of members without a name in the schema have no escapes, so that none of
 * them is a name that is written in another way. */
static void
next_in_key(struct gram_ways *w, size_t from, struct gram_way *way,
	    unsigned char byte)
{
	bool ended;
	int32_t i;

	/* a quote in a name comes after a backslash, which ends none */
	if (way->rest == 0 && byte == '"' &&
	    (way->extra || gram_is_whole(w->g, way))) {
		end_key(w, from, way);
		return;
	}
	if (!gram_next_of_character(way, byte, &ended)) {
		return;
	}
	way->extra = next_of_extra(w, way, byte);
	gram_narrow(w->g, way, byte);
	for (i = way->from; i < way->to && !way->extra; i++) {
		if (may_follow(w, way, w->g->texts[i].order, way->inner)) {
			break;
		}
	}
	if (i < way->to || way->extra) {
		gram_add_way(w, from, way);
	}
}

static void
next_in_object(struct gram_ways *w, size_t from, struct gram_way *way,
	       unsigned char byte)
{
	if (way->phase == GRAM_KEY) {
		next_in_key(w, from, way, byte);
	} else if (way->phase == GRAM_COLON) {
		if (byte == ':') {
			gram_add_inner(w, from, way, way->inner);
		}
	} else if (is_blank(way, byte)) {
		gram_add_way(w, from, way);
	} else if (byte == '}') {
		if (way->phase != GRAM_COMMA && has_required(w, way)) {
			gram_end_value(w, from, way);
		}
	} else if (byte == '"') {
		if (way->phase != GRAM_AFTER && may_have_more(w, way)) {
			begin_key(w, from, way);
		}
	} else if (byte == ',' && way->phase == GRAM_AFTER &&
		   may_have_more(w, way)) {
		way->phase = GRAM_COMMA;
		way->blanks = 0;
		gram_add_way(w, from, way);
	}
}

/* ---- arrays ---- */

static void next_of_way(struct gram_ways *w, size_t from,
			struct gram_way *way, unsigned char byte);

static void
next_in_array(struct gram_ways *w, size_t from, struct gram_way *way,
	      unsigned char byte)
{
	const struct gram_node *x = &w->g->nodes[way->node];
	int32_t item = way->count < x->n
		? w->g->parts[x->first + way->count].node : x->inner;
	bool more = way->count != x->most &&
		    gram_fits(w, item, way->depth + 1);

	if (is_blank(way, byte)) {
		gram_add_way(w, from, way);
	} else if (byte == ']') {
		if (way->count >= x->least) {
			gram_end_value(w, from, way);
		}
	} else if (more && way->phase == GRAM_AFTER && byte == ',') {
		way->count++;
		gram_add_inner(w, from, way, item);
	} else if (more && way->phase == GRAM_OPEN && byte != ' ' &&
		   byte != '\n') {
		size_t first = w->n, n, i;
		struct gram_way inner[GRAM_WAYS];

		/* the item begins here */
		way->count++;
		gram_add_inner(w, first, way, item);
		n = w->n - first;
		memcpy(inner, w->at + first, n * sizeof *inner);
		w->n = first;
		for (i = 0; i < n; i++) {
			next_of_way(w, from, &inner[i], byte);
		}
	}
}

/* ---- names and series ---- */

/* The text before a value. */
static void
next_in_name(struct gram_ways *w, size_t from, struct gram_way *way,
	     unsigned char byte)
{
	gram_narrow(w->g, way, byte);
	if (way->from == way->to) {
		return;
	}
	way->phase = GRAM_INSIDE;
	if (gram_is_whole(w->g, way)) {
		gram_add_values(w, from, w->g->nodes[way->node].inner, way->up,
				way->depth);
	} else {
		gram_add_way(w, from, way);
	}
}

/* The text that ends a series. */
static int32_t
end_of_series(const struct rt_grammar *g, const struct gram_node *x)
{
	return g->texts[x->text].order == 0 ? x->text : x->text + 1;
}

/* After an item: the text that ends the series, or the one before the next. */
static void
next_in_series(struct gram_ways *w, size_t from, struct gram_way *way,
	       unsigned char byte)
{
	const struct gram_node *x = &w->g->nodes[way->node];
	struct gram_way longer;

	if (way->phase == GRAM_AFTER) {
		bool last = way->count == x->most;

		way->from = last ? end_of_series(w->g, x) : x->text;
		way->to = way->from + (last ? 1 : x->ntexts);
		way->at = 0;
	}
	gram_narrow(w->g, way, byte);
	if (way->from == way->to) {
		return;
	}
	way->phase = GRAM_INSIDE;
	if (w->g->texts[way->from].order == 1 && gram_is_whole(w->g, way)) {
		/* what ends it may begin with what stands between two */
		if (way->to - way->from > 1) {
			longer = *way;
			longer.from++;
			gram_add_way(w, from, &longer);
		}
		way->count++;
		gram_add_inner(w, from, way, x->inner);
	} else if (way->to - way->from == 1 && gram_is_whole(w->g, way)) {
		gram_end_value(w, from, way);
	} else {
		gram_add_way(w, from, way);
	}
}

/* ---- texts that are no JSON ---- */

static void
next_in_text(struct gram_ways *w, size_t from, struct gram_way *way,
	     unsigned char byte)
{
	const struct gram_node *x = &w->g->nodes[way->node];
	bool ended;

	if (x->pattern < 0) {
		if (way->phase == GRAM_BEFORE) {
			way->from = x->text;
			way->to = x->text + x->ntexts;
		}
		next_literal(w, from, way, byte);
	} else if (gram_next_of_character(way, byte, &ended) &&
		   gram_pattern_next(&w->g->patterns[x->pattern], way,
				     &way->count, byte)) {
		way->phase = GRAM_INSIDE;
		gram_add_way(w, from, way);
	}
}

static bool
may_end_text(const struct gram_ways *w, const struct gram_way *way)
{
	const struct gram_node *x = &w->g->nodes[way->node];

	return x->pattern >= 0
		? way->rest == 0 &&
		  gram_pattern_may_end(&w->g->patterns[x->pattern], way->count)
		: way->phase == GRAM_INSIDE && gram_is_whole(w->g, way);
}

/* ---- all of them ---- */

static void
begin_value(struct gram_ways *w, size_t from, struct gram_way *way,
	    unsigned char byte)
{
	const struct gram_node *x = &w->g->nodes[way->node];

	if (x->kind == GRAM_TEXT) {
		next_in_text(w, from, way, byte);
		return;
	}
	if (is_blank(way, byte)) {
		gram_add_way(w, from, way);
		return;
	}
	way->blanks = 0;
	if (x->kind == GRAM_LITERALS || x->kind == GRAM_NAMED) {
		way->from = x->text;
		way->to = x->text + x->ntexts;
		(x->kind == GRAM_NAMED ? next_in_name : next_literal)(
			w, from, way, byte);
	} else if (x->kind == GRAM_NUMBER || x->kind == GRAM_RANGE) {
		if (gram_number_next(x, way, byte)) {
			gram_add_way(w, from, way);
		}
	} else if (byte == (x->kind == GRAM_OBJECT ? '{'
			    : x->kind == GRAM_ARRAY ? '[' : '"')) {
		way->phase = x->kind == GRAM_STRING ? GRAM_INSIDE : GRAM_OPEN;
		if (x->kind == GRAM_STRING) {
			way->from = x->text;
			way->to = x->text + x->ntexts;
		}
		gram_add_way(w, from, way);
	}
}

/* A literal or a number that could end before a byte which does not follow. */
static bool
may_end(const struct gram_ways *w, const struct gram_way *way)
{
	const struct gram_node *x;

	if (way->phase == GRAM_OVER) {
		return true;
	}
	x = &w->g->nodes[way->node];
	if (x->kind == GRAM_TEXT) {
		return may_end_text(w, way);
	}
	if (x->kind == GRAM_LITERALS) {
		return way->phase == GRAM_INSIDE && gram_is_whole(w->g, way);
	}
	if (x->kind == GRAM_SERIES) {
		return way->phase == GRAM_AFTER
			? w->g->texts[end_of_series(w->g, x)].n == 0
			: way->phase == GRAM_INSIDE &&
			  gram_is_whole(w->g, way) &&
			  w->g->texts[way->from].order == 0;
	}
	return (x->kind == GRAM_NUMBER || x->kind == GRAM_RANGE) &&
	       gram_number_may_end(x, way);
}

static void
next_of_way(struct gram_ways *w, size_t from, struct gram_way *way,
	    unsigned char byte)
{
	const struct gram_node *x;
	struct gram_way around;
	bool ends;

	if (way->phase == GRAM_OVER) {
		return;
	}
	if (way->phase == GRAM_BEFORE) {
		begin_value(w, from, way, byte);
		return;
	}
	x = &w->g->nodes[way->node];
	if (x->kind == GRAM_STRING) {
		gram_next_in_string(w, from, way, byte);
		return;
	}
	if (x->kind == GRAM_OBJECT) {
		next_in_object(w, from, way, byte);
		return;
	}
	if (x->kind == GRAM_ARRAY) {
		next_in_array(w, from, way, byte);
		return;
	}
	if (x->kind == GRAM_SERIES) {
		next_in_series(w, from, way, byte);
		return;
	}
	if (x->kind == GRAM_NAMED) {
		next_in_name(w, from, way, byte);
		return;
	}
	if (x->kind == GRAM_TEXT) {
		next_in_text(w, from, way, byte);
		return;
	}
	ends = may_end(w, way);
	around = gram_end_of_value(w, way);
	if (x->kind == GRAM_LITERALS) {
		next_literal(w, from, way, byte);
	} else if (gram_number_next(x, way, byte)) {
		gram_add_way(w, from, way);
	}
	if (ends && around.phase == GRAM_AFTER) {
		/* what is around is an object, an array or a series */
		next_of_way(w, from, &around, byte);
	}
}

void
gram_begin(struct gram_ways *w)
{
	const struct gram_node *x = &w->g->nodes[w->g->root];
	struct gram_way series = { .node = w->g->root, .up = -1, .count = 1 };

	if (x->kind == GRAM_SERIES) {
		gram_add_inner(w, w->n, &series, x->inner);
	} else {
		gram_add_values(w, w->n, w->g->root, -1, 0);
	}
}

size_t
gram_next(struct gram_ways *w, size_t from, size_t to, unsigned char byte)
{
	size_t first = w->n, i;

	for (i = from; i < to && !w->failed; i++) {
		struct gram_way way = w->at[i];

		next_of_way(w, first, &way, byte);
	}
	return w->n - first;
}

bool
gram_may_end(const struct gram_ways *w, size_t from, size_t to)
{
	size_t i;

	for (i = from; i < to; i++) {
		if (w->at[i].up < 0 && may_end(w, &w->at[i])) {
			return true;
		}
	}
	return false;
}

bool
gram_is_open(const struct gram_ways *w, const struct gram_way *way,
	     int64_t *chars_left)
{
	const struct gram_node *x;

	if (way->phase == GRAM_OVER || way->rest > 0) {
		return false;
	}
	x = &w->g->nodes[way->node];
	*chars_left = -1;
	if (x->kind == GRAM_STRING && way->phase == GRAM_INSIDE) {
		*chars_left = x->most < 0 ? -1 : x->most - way->count;
		return x->pattern < 0 && way->from == way->to;
	}
	return way->phase == GRAM_KEY && way->extra && x->pattern < 0;
}
