/*
 * A blend: sources of sequences, mixed by weight, with random access.
 *
 * Weights are whole numbers n_i after division by their common divisor, and
 * their sum P is the period: a table says of each of P slots which source it
 * takes and how many slots of that source came before, so sequence k of a run
 * is found from k alone, by any rank, with no history.
 *
 * Source i should have had k n_i / P of the first k sequences.  Its m-th slot
 * is given out between the last moment at which it would be more than one
 * sequence early and the first at which it would be more than one late:
 * floor(m P / n_i) <= k < ceil((m + 1) P / n_i).  Of the sources whose next
 * slot may come now, the one with the earliest end gets it.  Such a schedule
 * always exists since the shares add up to 1, and earliest end first finds it
 * (Baruah, Cohen, Plaxton and Varvel, "Proportionate progress", Algorithmica
 * 1996; Tijdeman, "The chairman assignment problem", 1980): no source is ever
 * a whole sequence away from its share.
 */
#include "runtime/data/tokens.h"

#include <inttypes.h>
#include <string.h>

#define MAX_SHARE INT64_C(1000000000000000)

struct slot {
	uint32_t before; /* slots of the same source before it in a period */
	uint32_t source;
};

struct rt_blend {
	struct rt_alloc alloc;
	struct rt_tokens *sources[RT_BLEND_SOURCES];
	int64_t share[RT_BLEND_SOURCES]; /* slots of a period */
	int64_t n, period;
	struct slot *slots; /* NULL: of one source */
	int64_t once; /* sequences before any source begins again */
};

/* ---- the period ------------------------------------------------------ */

static int64_t
common_divisor(int64_t a, int64_t b)
{
	int64_t rest;

	while (b > 0) {
		rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

/* Rounds shares of a too long period to ones of the longest, none to 0. */
static void
shorten_period(struct rt_blend *b)
{
	double scale = (double)RT_BLEND_PERIOD / (double)b->period, want;
	int64_t i, sum = 0, most = 0;

	for (i = 0; i < b->n; i++) {
		want = (double)b->share[i] * scale;
		b->share[i] = want < 1 ? 1 : (int64_t)want;
		sum += b->share[i];
		most = b->share[i] > b->share[most] ? i : most;
	}
	b->share[most] += RT_BLEND_PERIOD - sum;
	b->period = RT_BLEND_PERIOD;
}

static void
set_shares(struct rt_blend *b, const struct rt_source *s)
{
	int64_t i, divisor = 0;

	for (i = 0; i < b->n; i++) {
		divisor = common_divisor(s[i].weight, divisor);
	}
	for (i = 0; i < b->n; i++) {
		b->share[i] = s[i].weight / divisor;
		b->period += b->share[i];
	}
	if (b->period > RT_BLEND_PERIOD) {
		shorten_period(b);
	}
}

/* The source of slot k, when source i has had[i] of those before it. */
static int64_t
choose_source(const struct rt_blend *b, const int64_t *had, int64_t k)
{
	int64_t best = -1, least = 0, i, end;

	for (i = 0; i < b->n; i++) {
		if (had[i] * b->period / b->share[i] > k) {
			continue;
		}
		end = ((had[i] + 1) * b->period + b->share[i] - 1) /
		      b->share[i];
		if (best < 0 || end < least) {
			best = i;
			least = end;
		}
	}
	return best;
}

static enum rt_status
fill_slots(struct rt_blend *b, struct rt_error *err)
{
	int64_t had[RT_BLEND_SOURCES] = { 0 }, k, i;

	if (b->n == 1) {
		return RT_OK;
	}
	b->slots = rt_resize(&b->alloc, NULL, (size_t)b->period,
			     sizeof *b->slots);
	if (!b->slots) {
		return rt_no_memory(err, NULL);
	}
	for (k = 0; k < b->period; k++) {
		i = choose_source(b, had, k);
		b->slots[k] = (struct slot){ (uint32_t)had[i], (uint32_t)i };
		had[i]++;
	}
	return RT_OK;
}

/* The number in a period of slot number `before` of a source. */
static int64_t
slot_of(const struct rt_blend *b, int64_t source, int64_t before)
{
	int64_t k = 0;

	while (b->slots && (b->slots[k].source != source ||
			    b->slots[k].before != before)) {
		k++;
	}
	return k;
}

/* Where the first source would begin its second epoch. */
static int64_t
count_once(const struct rt_blend *b)
{
	int64_t least = INT64_MAX, i, n, periods, k;

	for (i = 0; i < b->n; i++) {
		n = rt_tokens_sequences(b->sources[i]);
		periods = n / b->share[i];
		if (periods >= (INT64_MAX - b->period) / b->period) {
			continue;
		}
		k = periods * b->period + slot_of(b, i, n % b->share[i]);
		least = k < least ? k : least;
	}
	return least;
}

/* ---- life ------------------------------------------------------------ */

static enum rt_status
open_sources(struct rt_blend *b, const struct rt_blend_options *o,
	     struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < o->nsources && status == RT_OK; i++) {
		const struct rt_source *s = &o->sources[i];
		struct rt_tokens_options t = { s->paths, s->npaths, o->length,
					       o->below };

		status = rt_tokens_open(&b->sources[i], &t, err);
		b->n += status == RT_OK;
	}
	return status;
}

static enum rt_status
check_sources(const struct rt_blend_options *o, struct rt_error *err)
{
	int64_t i;

	for (i = 0; i < o->nsources; i++) {
		if (o->sources[i].weight < 1 ||
		    o->sources[i].weight > MAX_SHARE) {
			break;
		}
	}
	if (o->nsources < 1 || o->nsources > RT_BLEND_SOURCES ||
	    i < o->nsources) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "found %" PRId64
			       " sources of data, expected 1 to %d, each of a "
			       "weight above 0", o->nsources,
			       RT_BLEND_SOURCES);
	}
	return RT_OK;
}

enum rt_status
rt_blend_open(struct rt_blend **out, const struct rt_blend_options *o,
	      struct rt_error *err)
{
	struct rt_alloc alloc = rt_alloc_or_libc(NULL);
	enum rt_status status = check_sources(o, err);
	struct rt_blend *b;

	*out = NULL;
	if (status != RT_OK) {
		return status;
	}
	b = rt_resize(&alloc, NULL, 1, sizeof *b);
	if (!b) {
		return rt_no_memory(err, NULL);
	}
	memset(b, 0, sizeof *b);
	b->alloc = alloc;
	status = open_sources(b, o, err);
	if (status == RT_OK) {
		set_shares(b, o->sources);
		status = fill_slots(b, err);
	}
	if (status != RT_OK) {
		rt_blend_free(b);
		return status;
	}
	b->once = count_once(b);
	*out = b;
	return RT_OK;
}

void
rt_blend_free(struct rt_blend *b)
{
	struct rt_alloc alloc;
	int64_t i;

	if (!b) {
		return;
	}
	alloc = b->alloc;
	for (i = 0; i < b->n; i++) {
		rt_tokens_free(b->sources[i]);
	}
	rt_release(&alloc, b->slots);
	rt_release(&alloc, b);
}

/* ---- use ------------------------------------------------------------- */

void
rt_blend_shuffle(struct rt_blend *b, uint64_t seed)
{
	int64_t i;

	/* two sources of one length are not permuted alike */
	for (i = 0; i < b->n; i++) {
		rt_tokens_shuffle(b->sources[i], seed ^
				  (i ? rt_tokens_mix((uint64_t)i) : 0));
	}
}

int64_t
rt_blend_sequences(const struct rt_blend *b)
{
	return b->once;
}

int64_t
rt_blend_count(const struct rt_blend *b)
{
	return b->n;
}

struct rt_blended
rt_blend_after(const struct rt_blend *b, int64_t source, int64_t index)
{
	struct rt_blended s = {
		.share = (double)b->share[source] / (double)b->period,
		.sequences = rt_tokens_sequences(b->sources[source]),
		.consumed = index / b->period * b->share[source],
	};
	int64_t k;

	for (k = 0; k < index % b->period; k++) {
		s.consumed += !b->slots || b->slots[k].source == source;
	}
	return s;
}

int64_t
rt_blend_source(const struct rt_blend *b, int64_t index, int64_t *within)
{
	int64_t period = index / b->period;
	struct slot s = { 0, 0 };

	if (b->slots) {
		s = b->slots[index % b->period];
	}
	*within = period * b->share[s.source] + s.before;
	return s.source;
}

enum rt_status
rt_blend_identity(const struct rt_blend *b, uint64_t *out,
		  struct rt_error *err)
{
	enum rt_status status = rt_tokens_identity(b->sources[0], out, err);
	uint64_t one;
	int64_t i;

	/* a single source is known as it was before there were blends */
	for (i = 0; i < b->n && b->n > 1 && status == RT_OK; i++) {
		status = rt_tokens_identity(b->sources[i], &one, err);
		*out = rt_tokens_mix(*out + one);
		*out = rt_tokens_mix(*out + (uint64_t)b->share[i]);
	}
	return status;
}

enum rt_status
rt_blend_get(const struct rt_blend *b, int64_t index, int64_t from, int64_t n,
	     int32_t *out, struct rt_error *err)
{
	int64_t within = index, source = 0;

	if (index >= 0) {
		source = rt_blend_source(b, index, &within);
	}
	return rt_tokens_get(b->sources[source], within, from, n, out, err);
}
