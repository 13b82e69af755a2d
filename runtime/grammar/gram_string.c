/*
 * Texts of a list, and strings, byte by byte; see gram.h.
 */
#include "runtime/grammar/gram.h"

#include <string.h>

/* ---- texts of a list ---- */

static int
byte_of(const struct rt_grammar *g, int32_t text, int32_t at)
{
	const struct gram_text *t = &g->texts[text];

	return (size_t)at < t->n ? (unsigned char)t->at[at] : -1;
}

/* The first of those from .. to - 1 whose byte is at least this. */
static int32_t
first_with(const struct rt_grammar *g, const struct gram_way *way, int byte)
{
	int32_t low = way->from, high = way->to, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (byte_of(g, middle, way->at) < byte) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

void
gram_narrow(const struct rt_grammar *g, struct gram_way *way,
	    unsigned char byte)
{
	int32_t from = first_with(g, way, byte);

	way->to = first_with(g, way, byte + 1);
	way->from = from;
	way->at++;
}

bool
gram_is_whole(const struct rt_grammar *g, const struct gram_way *way)
{
	return way->from < way->to &&
	       g->texts[way->from].n == (size_t)way->at;
}

/* ---- strings ---- */

/* RFC 3629. */
bool
gram_next_of_character(struct gram_way *way, unsigned char byte, bool *ended)
{
	*ended = false;
	if (way->rest > 0) {
		if (byte < way->lo || byte > way->hi) {
			return false;
		}
		way->lo = 0x80;
		way->hi = 0xbf;
		*ended = --way->rest == 0;
		return true;
	}
	*ended = byte < 0x80;
	if (*ended) {
		return byte >= 0x20;
	}
	way->rest = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
	way->lo = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
	way->hi = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
	return byte >= 0xc2 && byte <= 0xf4;
}

/* Four digits after \u: any but half of a pair. */
static bool
next_hex(struct gram_way *way, unsigned char byte)
{
	bool letter = (byte >= 'a' && byte <= 'f') ||
		      (byte >= 'A' && byte <= 'F');
	bool digit = byte >= '0' && byte <= '9';

	if (way->at == 0) {
		/* the digit after a d is less than 8 */
		way->hi = byte == 'd' || byte == 'D';
	} else if (way->at == 1 && way->hi && (letter || byte >= '8')) {
		return false;
	}
	way->at++;
	return digit || letter;
}

static void
next_by_pattern(struct gram_ways *w, size_t from, struct gram_way *way,
		unsigned char byte)
{
	const struct gram_pattern *p =
		&w->g->patterns[w->g->nodes[way->node].pattern];
	bool ended;

	if (byte == '"' && way->rest == 0) {
		if (gram_pattern_may_end(p, way->count)) {
			gram_end_value(w, from, way);
		}
	} else if (gram_next_of_character(way, byte, &ended) &&
		   gram_pattern_next(p, way, &way->count, byte)) {
		gram_add_way(w, from, way);
	}
}

/* A string that is none of some texts, and has no escapes, so that it is none
 * that is written in another way. */
static void
next_beside_texts(struct gram_ways *w, size_t from, struct gram_way *way,
		  unsigned char byte)
{
	const struct gram_node *x = &w->g->nodes[way->node];
	bool ended;

	if (way->rest == 0 && byte == '"') {
		if (way->count >= x->least && !gram_is_whole(w->g, way)) {
			gram_end_value(w, from, way);
		}
	} else if (byte != '\\' && gram_next_of_character(way, byte, &ended)) {
		gram_narrow(w->g, way, byte);
		way->count += ended;
		gram_add_way(w, from, way);
	}
}

void
gram_next_in_string(struct gram_ways *w, size_t from, struct gram_way *way,
	       unsigned char byte)
{
	const struct gram_node *x = &w->g->nodes[way->node];
	bool ended = false;

	if (x->pattern >= 0) {
		next_by_pattern(w, from, way, byte);
		return;
	}
	if (x->ntexts > 0) {
		next_beside_texts(w, from, way, byte);
		return;
	}
	if (way->phase == GRAM_ESCAPE) {
		if (byte == 'u') {
			way->phase = GRAM_HEX;
			way->at = 0;
			gram_add_way(w, from, way);
			return;
		}
		ended = byte && strchr("\"\\/bfnrt", byte);
	} else if (way->phase == GRAM_HEX) {
		if (!next_hex(way, byte)) {
			return;
		}
		ended = way->at == 4;
	} else if (way->rest == 0 && byte == '"') {
		if (way->count >= x->least) {
			gram_end_value(w, from, way);
		}
		return;
	} else if (way->rest == 0 && way->count == x->most) {
		return;
	} else if (way->rest == 0 && byte == '\\') {
		way->phase = GRAM_ESCAPE;
		gram_add_way(w, from, way);
		return;
	} else if (!gram_next_of_character(way, byte, &ended)) {
		return;
	}
	if (way->phase == GRAM_ESCAPE && !ended) {
		return;
	}
	if (ended) {
		way->phase = GRAM_INSIDE;
		way->count++;
	}
	gram_add_way(w, from, way);
}
