/*
 * Which tokens may come next in a sequence: those that its guide allows, and
 * none that ends it too early; see sequences.h.
 */
#include "runtime/serve/schedule/sequences.h"

#include <string.h>

/* Sets or clears the bits of the tokens that end a sequence. */
static void
set_stops(const struct rt_sequence *q, uint64_t *bits, bool to)
{
	int64_t i;

	for (i = 0; i < q->ask.nstops; i++) {
		uint64_t bit = UINT64_C(1) << q->stops[i] % 64;

		if (to) {
			bits[q->stops[i] / 64] |= bit;
		} else {
			bits[q->stops[i] / 64] &= ~bit;
		}
	}
}

/* Whether any of n bits is set. */
static bool
has_bit(const uint64_t *bits, int64_t n)
{
	uint64_t any = 0;
	int64_t i;

	for (i = 0; i < n / 64; i++) {
		any |= bits[i];
	}
	return any || (bits[i] & ((UINT64_C(1) << n % 64) - 1));
}

/* What a guide allows next. */
static enum rt_status
find_allowed(struct rt_sequence *q, struct rt_error *err)
{
	enum rt_status status;

	if (!q->is_guided || q->is_found) {
		return RT_OK;
	}
	status = rt_guide_allow(q->ask.guide, q->allowed, &q->may_end, err);
	q->is_found = status == RT_OK;
	return status;
}

static enum rt_status
find_allowed_of(const struct rt_sequences *list, int64_t step,
		struct rt_error *err)
{
	enum rt_status status = RT_OK;
	struct rt_sequence *q;

	for (q = list->first; q && status == RT_OK; q = q->next) {
		if (q->awaits == step) {
			status = find_allowed(q, err);
		}
	}
	return status;
}

enum rt_status
rt_scheduler_find_allowed(struct rt_scheduler *s, struct rt_error *err)
{
	enum rt_status status = find_allowed_of(&s->waiting, s->ended, err);
	int64_t i;

	for (i = 0; i < s->nreplicas && status == RT_OK; i++) {
		status = find_allowed_of(&s->replica[i].running, s->ended,
					 err);
	}
	return status;
}

/* What a guide allows stays so, since it may be all that is allowed; and where
 * each token ends a sequence, one of them comes. */
enum rt_status
rt_sequence_allow(struct rt_scheduler *s, struct rt_sequence *q,
		  const uint64_t **out, bool *whole, struct rt_error *err)
{
	bool long_enough = q->n - q->ask.nprompt >= q->ask.least;
	enum rt_status status = RT_OK;

	*out = NULL;
	*whole = false;
	if (q->is_guided) {
		status = find_allowed(q, err);
		if (long_enough && q->may_end) {
			set_stops(q, q->allowed, true);
		}
		*out = q->allowed;
		*whole = status == RT_OK && q->may_end &&
			 !has_bit(q->allowed, s->e.vocab);
	} else if (!long_enough && q->ask.nstops > 0) {
		memset(s->allowed, 0xff, rt_words(&s->e) *
					 sizeof *s->allowed);
		set_stops(q, s->allowed, false);
		*out = has_bit(s->allowed, s->e.vocab) ? s->allowed : NULL;
	}
	return status;
}
