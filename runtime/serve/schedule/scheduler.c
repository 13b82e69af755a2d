/*
 * Sequences that come and end, steps that begin and end, and the tokens that
 * they bring; see scheduler.h.
 */
#include "runtime/serve/schedule/sequences.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

static enum rt_status
check_engine(const struct rt_engine *e, struct rt_error *err)
{
	if (e->tokens < 1 || e->rows < 1 || e->block < 1 || e->blocks < 1 ||
	    e->vocab < 1 || e->align < e->block || e->align % e->block != 0 ||
	    e->keys < e->align || e->context < 2 ||
	    e->blocks > INT32_MAX / e->block || e->vocab > INT32_MAX ||
	    e->keys > INT32_MAX || e->tokens > INT32_MAX) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "no request can be "
			"served by steps of %" PRId64 " positions, %" PRId64
			" rows and %" PRId64 " keys in multiples of %" PRId64
			" with %" PRId64 " blocks of %" PRId64 " tokens",
			e->tokens, e->rows, e->keys, e->align, e->blocks,
			e->block);
	}
	return RT_OK;
}

/* Elements of the arrays of a replica's step. */
enum { STEP_ARRAYS = 7 };

static void
step_sizes(const struct rt_engine *e, size_t n[STEP_ARRAYS])
{
	size_t i;

	for (i = 0; i < 5; i++) {
		n[i] = (size_t)e->tokens;
	}
	n[5] = (size_t)e->keys;
	n[6] = (size_t)rt_least(e->rows, e->tokens);
}

static int64_t
replicas_of(const struct rt_engine *e)
{
	return e->replicas > 1 ? e->replicas : 1;
}

/* Steps in flight, at most. */
static int64_t
most_of(const struct rt_engine *e)
{
	return e->in_flight > 1 ? e->in_flight : 1;
}

/* Logits of a replica's step. */
static size_t
logits_of(const struct rt_engine *e)
{
	return (size_t)(e->rows * e->vocab);
}

int64_t
rt_scheduler_bytes(const struct rt_engine *e)
{
	size_t n[STEP_ARRAYS], each, i;

	step_sizes(e, n);
	each = sizeof(struct rt_replica) + sizeof(struct rt_serve_step) +
	       logits_of(e) * sizeof(float);
	for (i = 0; i < STEP_ARRAYS; i++) {
		each += n[i] * sizeof(int32_t);
	}
	return (int64_t)sizeof(struct rt_scheduler) +
	       most_of(e) * (int64_t)sizeof(int64_t) +
	       (int64_t)(rt_words(e) * sizeof(uint64_t)) +
	       replicas_of(e) * (int64_t)each + rt_drawer_bytes(e->vocab);
}

static bool
allocate(struct rt_scheduler *s, struct rt_replica *r)
{
	int32_t **const at[STEP_ARRAYS] = { &r->token, &r->position, &r->slot,
		&r->first, &r->last, &r->key, &r->row };
	size_t n[STEP_ARRAYS], i;
	bool all = true;

	step_sizes(&s->e, n);
	for (i = 0; i < STEP_ARRAYS; i++) {
		*at[i] = calloc(n[i], sizeof **at[i]);
		all = all && *at[i];
	}
	*r->step = (struct rt_serve_step){ .token = r->token,
		.position = r->position, .slot = r->slot, .first = r->first,
		.last = r->last, .key = r->key, .row = r->row };
	return all;
}

static enum rt_status
open_replicas(struct rt_scheduler *s, bool share, struct rt_error *err)
{
	const struct rt_engine *e = &s->e;
	size_t n = (size_t)s->nreplicas, i;
	enum rt_status status = RT_OK;

	s->replica = calloc(n, sizeof *s->replica);
	s->steps = calloc(n, sizeof *s->steps);
	s->logits = calloc(n * logits_of(e), sizeof *s->logits);
	s->positions = calloc((size_t)s->most, sizeof *s->positions);
	s->allowed = calloc(rt_words(e), sizeof *s->allowed);
	if (!s->replica || !s->steps || !s->logits || !s->positions ||
	    !s->allowed) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < n && status == RT_OK; i++) {
		struct rt_replica *r = &s->replica[i];

		r->step = &s->steps[i];
		r->logits = s->logits + i * logits_of(e);
		status = rt_kv_open(&r->kv, e->blocks, e->block, share, err);
		if (status == RT_OK && !allocate(s, r)) {
			status = rt_no_memory(err, NULL);
		}
	}
	return status;
}

static void
close_replica(struct rt_replica *r)
{
	rt_kv_free(r->kv);
	free(r->token);
	free(r->position);
	free(r->slot);
	free(r->first);
	free(r->last);
	free(r->key);
	free(r->row);
}

enum rt_status
rt_scheduler_open(struct rt_scheduler **out, const struct rt_engine *e,
		  bool share, struct rt_error *err)
{
	enum rt_status status = check_engine(e, err);
	struct rt_scheduler *s;

	*out = NULL;
	if (status != RT_OK) {
		return status;
	}
	s = calloc(1, sizeof *s);
	if (!s) {
		return rt_no_memory(err, NULL);
	}
	s->e = *e;
	s->longest = rt_least(e->keys / e->align * e->align,
			      e->blocks * e->block);
	s->longest = rt_least(s->longest, e->context);
	s->nreplicas = replicas_of(e);
	s->most = most_of(e);
	s->counts.blocks = e->blocks * s->nreplicas;
	status = open_replicas(s, share, err);
	if (status == RT_OK) {
		status = rt_drawer_open(&s->drawer, e->vocab, err);
	}
	if (status != RT_OK) {
		rt_scheduler_free(s);
		s = NULL;
	}
	*out = s;
	return status;
}

int64_t
rt_scheduler_longest(const struct rt_scheduler *s)
{
	return s->longest;
}

/* ---- sequences ---- */

static void
free_sequence(struct rt_sequence *q)
{
	free(q->tokens);
	free(q->blocks);
	free(q->stops);
	free(q->allowed);
	free(q);
}

/* Makes space for n tokens. */
static enum rt_status
reserve(const struct rt_scheduler *s, struct rt_sequence *q, int64_t n,
	struct rt_error *err)
{
	int64_t cap = rt_least(n + n / 2 + 64, s->longest);
	int32_t *tokens, *blocks;

	if (n <= q->cap) {
		return RT_OK;
	}
	tokens = realloc(q->tokens, (size_t)cap * sizeof *tokens);
	q->tokens = tokens ? tokens : q->tokens;
	blocks = realloc(q->blocks, (size_t)rt_parts(cap, s->e.block) *
			 sizeof *blocks);
	q->blocks = blocks ? blocks : q->blocks;
	if (!tokens || !blocks) {
		return rt_no_memory(err, NULL);
	}
	q->cap = cap;
	return RT_OK;
}

static enum rt_status
check_ask(const struct rt_scheduler *s, const struct rt_ask *ask,
	  struct rt_error *err)
{
	int64_t i;

	if (ask->nprompt < 1 || ask->nprompt >= s->longest ||
	    ask->most < (ask->score ? 0 : 1)) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "a prompt of %" PRId64
			" tokens, and %" PRId64 " more: both are at least 1, "
			"and at most %" PRId64 " together", ask->nprompt,
			ask->most, s->longest);
	}
	for (i = 0; i < ask->nprompt; i++) {
		if (ask->prompt[i] < 0 || ask->prompt[i] >= s->e.vocab) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "token "
				"%" PRId32 " of the prompt is not one of 0 to "
				"%" PRId64, ask->prompt[i], s->e.vocab - 1);
		}
	}
	return RT_OK;
}

enum rt_status
rt_scheduler_add(struct rt_scheduler *s, const struct rt_ask *ask,
		 struct rt_sequence **out, struct rt_error *err)
{
	enum rt_status status = check_ask(s, ask, err);
	struct rt_sequence *q;

	if (status != RT_OK) {
		return status;
	}
	q = calloc(1, sizeof *q);
	if (!q) {
		return rt_no_memory(err, NULL);
	}
	q->ask = *ask;
	q->is_guided = ask->guide && !ask->guided;
	q->stops = calloc((size_t)ask->nstops + 1, sizeof *q->stops);
	if (ask->guide) {
		q->allowed = calloc(rt_words(&s->e), sizeof *q->allowed);
	}
	status = q->stops && (q->allowed || !ask->guide)
		? reserve(s, q, ask->nprompt, err) : rt_no_memory(err, NULL);
	if (status != RT_OK) {
		free_sequence(q);
		return status;
	}
	if (ask->nstops > 0) {
		memcpy(q->stops, ask->stops,
		       (size_t)ask->nstops * sizeof *q->stops);
	}
	memcpy(q->tokens, ask->prompt,
	       (size_t)ask->nprompt * sizeof *q->tokens);
	q->n = ask->nprompt;
	q->ask.most = rt_least(ask->most, s->longest - ask->nprompt);
	q->ask.prompt = q->ask.stops = NULL;
	q->awaits = -1;
	q->arrival = s->arrivals++;
	rt_sequences_insert(&s->waiting, q);
	*out = q;
	return RT_OK;
}

static void
end_sequence(struct rt_scheduler *s, struct rt_sequence *q, enum rt_ended why)
{
	rt_sequence_give_back(q);
	if (!q->on || !rt_sequences_take_out(&q->on->running, q)) {
		rt_sequences_take_out(&s->waiting, q);
	}
	q->ask.end(q->ask.user, why, q->n - q->ask.nprompt);
	free_sequence(q);
}

void
rt_scheduler_cancel(struct rt_scheduler *s, struct rt_sequence *q)
{
	end_sequence(s, q, RT_ENDED_CANCELLED);
}

void
rt_scheduler_free(struct rt_scheduler *s)
{
	int64_t i;

	if (!s) {
		return;
	}
	for (i = 0; s->replica && s->steps && i < s->nreplicas; i++) {
		while (s->replica[i].running.first) {
			rt_scheduler_cancel(s, s->replica[i].running.first);
		}
	}
	while (s->waiting.first) {
		rt_scheduler_cancel(s, s->waiting.first);
	}
	for (i = 0; s->replica && i < s->nreplicas; i++) {
		close_replica(&s->replica[i]);
	}
	rt_drawer_free(s->drawer);
	free(s->replica);
	free(s->steps);
	free(s->logits);
	free(s->positions);
	free(s->allowed);
	free(s);
}

static bool
is_stop(const struct rt_sequence *q, int32_t token)
{
	int64_t i;

	for (i = 0; i < q->ask.nstops; i++) {
		if (q->stops[i] == token) {
			return true;
		}
	}
	return false;
}

/* Adds a token that was drawn; *over: nothing may come after it. */
static enum rt_status
add_token(struct rt_scheduler *s, struct rt_sequence *q, int32_t token,
	  bool *over, struct rt_error *err)
{
	enum rt_status status = reserve(s, q, q->n + 1, err);

	*over = false;
	if (status != RT_OK) {
		return status;
	}
	q->tokens[q->n++] = token;
	q->is_found = false;
	s->counts.drawn++;
	*over = is_stop(q, token);
	return *over || !q->is_guided
		? RT_OK : rt_guide_take(q->ask.guide, token, over, err);
}

/* Draws the token of a sequence whose logits were computed.  Where these are no
 * numbers it ends, and others go on: what they compute is their own. */
static enum rt_status
draw_next(struct rt_scheduler *s, struct rt_sequence *q, struct rt_error *err)
{
	const struct rt_ask *a = &q->ask;
	enum rt_status status;
	const uint64_t *allowed;
	struct rt_drawn t;
	bool over, whole;

	status = rt_sequence_allow(s, q, &allowed, &whole, err);
	if (status == RT_OK && whole) {
		end_sequence(s, q, RT_ENDED_STOP);
		return RT_OK;
	}
	if (status == RT_OK) {
		status = rt_draw_token(s->drawer, &a->draw, q->on->logits +
				       q->row * s->e.vocab, q->tokens, q->n,
				       a->nprompt, a->choice, allowed, &t,
				       err);
		if (status == RT_FORMAT) {
			end_sequence(s, q, RT_ENDED_BROKEN);
			return RT_OK;
		}
	}
	if (status == RT_OK) {
		status = add_token(s, q, t.token, &over, err);
	}
	if (status != RT_OK) {
		return status;
	}
	if (is_stop(q, t.token) || !a->token(a->user, &t) || over) {
		end_sequence(s, q, RT_ENDED_STOP);
	} else if (q->n - a->nprompt == a->most) {
		end_sequence(s, q, RT_ENDED_LENGTH);
	} else if (a->guided && !q->is_guided) {
		q->is_guided = a->guide && a->guided(a->user);
	}
	return RT_OK;
}

/* Scores tokens of the prompt whose logits were computed; *broken: these are no
 * numbers, and it has ended. */
static enum rt_status
score(struct rt_scheduler *s, struct rt_sequence *q, bool *broken,
      struct rt_error *err)
{
	const float *logits = q->on->logits +
			      (q->row - q->nscores) * s->e.vocab;
	enum rt_status status = RT_OK;
	struct rt_drawn t;
	int64_t i;

	for (i = 0; i < q->nscores && status == RT_OK; i++) {
		status = rt_draw_given(s->drawer, &q->ask.draw,
				       logits + i * s->e.vocab,
				       q->tokens[q->nscored + 1], &t, err);
		if (status == RT_OK) {
			q->ask.score(q->ask.user, &t);
			q->nscored++;
		}
	}
	*broken = status == RT_FORMAT;
	if (*broken) {
		end_sequence(s, q, RT_ENDED_BROKEN);
	}
	return *broken ? RT_OK : status;
}

/* What a sequence gets of logits that were computed. */
static enum rt_status
take_logits(struct rt_scheduler *s, struct rt_sequence *q,
	    struct rt_error *err)
{
	bool broken;
	enum rt_status status = score(s, q, &broken, err);

	if (status != RT_OK || broken || !q->draws) {
		return status;
	}
	if (q->ask.most == 0) {
		end_sequence(s, q, RT_ENDED_LENGTH);
		return RT_OK;
	}
	return draw_next(s, q, err);
}

/* Of sequences whose logits this step brings. */
static enum rt_status
draw_all(struct rt_scheduler *s, struct rt_sequences *list, int64_t step,
	 struct rt_error *err)
{
	enum rt_status status = RT_OK;
	struct rt_sequence *q, *next;

	for (q = list->first; q && status == RT_OK; q = next) {
		next = q->next;
		if (q->awaits == step) {
			q->awaits = -1;
			status = take_logits(s, q, err);
		}
	}
	return status;
}

static enum rt_status
begin_step(struct rt_scheduler *s, bool *begun, struct rt_error *err)
{
	int64_t n = rt_fill_steps(s);

	*begun = n > 0;
	if (n == 0) {
		return RT_OK;
	}
	s->positions[s->begun++ % s->most] = n;
	return s->e.begin(s->e.user, s->steps, err);
}

static enum rt_status
end_step(struct rt_scheduler *s, struct rt_error *err)
{
	enum rt_status status = s->e.end(s->e.user, s->logits, err);
	int64_t step = s->ended++, i;

	s->counts.steps++;
	s->counts.computed += s->positions[step % s->most];
	for (i = 0; i < s->nreplicas && status == RT_OK; i++) {
		status = draw_all(s, &s->replica[i].running, step, err);
	}
	/* what was preempted meanwhile */
	return status == RT_OK ? draw_all(s, &s->waiting, step, err) : status;
}

enum rt_status
rt_scheduler_step(struct rt_scheduler *s, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	bool begun = false;

	if (s->begun - s->ended < s->most) {
		status = begin_step(s, &begun, err);
	}
	if (status == RT_OK && s->begun > s->ended &&
	    (!begun || s->begun - s->ended == s->most)) {
		status = end_step(s, err);
	}
	return status;
}

struct rt_serve_counts
rt_scheduler_counts(const struct rt_scheduler *s)
{
	struct rt_serve_counts c = s->counts;
	int64_t i;

	c.waiting = s->waiting.n;
	c.in_flight = s->begun - s->ended;
	for (i = 0; i < s->nreplicas; i++) {
		c.running += s->replica[i].running.n;
		c.blocks_used += s->e.blocks - rt_kv_unused(s->replica[i].kv);
	}
	return c;
}
