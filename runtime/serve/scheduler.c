/*
 * Steps of sequences; see scheduler.h.
 *
 * A sequence is its tokens, of which the first `ncomputed` have keys in the
 * cache.  One that decodes lacks those of its last token alone; a new or
 * preempted one lacks many.  Both get on by advance(), so a decoding sequence
 * is no case of its own but for its turn.
 */
#include "runtime/serve/scheduler.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/serve/kv.h"

struct replica;

struct rt_sequence {
	struct rt_sequence *next;
	struct replica *on;	/* where it runs, or has blocks */
	struct rt_ask ask;
	int64_t arrival;
	int32_t *tokens;
	int64_t n, cap, ncomputed;
	int32_t *blocks;	/* for as many tokens as `cap` */
	int64_t nblocks;
	uint64_t content;	/* of the last full block */
	int64_t awaits;		/* the step that brings its token, or -1 */
	int64_t row;		/* of its logits there */
	int32_t *stops;
};

/* Sequences in the order in which they came. */
struct rt_sequences {
	struct rt_sequence *first;
	int64_t n;
};

/* Its sequences, and the arrays of its step. */
struct replica {
	struct rt_kv *kv;
	struct rt_sequences running;
	int64_t turn;	/* arrival of the one that a step took last */
	struct rt_serve_step *step;
	int32_t *token, *position, *slot, *first, *last, *key, *row;
	float *logits;
};

struct rt_scheduler {
	struct rt_engine e;
	struct replica *replica;
	int64_t nreplicas;
	struct rt_serve_step *steps;	/* by replica */
	float *logits;
	struct rt_drawer *drawer;
	struct rt_sequences waiting;
	int64_t longest, arrivals;
	/* steps are numbered; those from `ended` to before `begun` are in
	 * flight, at most `most` */
	int64_t most, begun, ended;
	int64_t *positions;	/* of each in flight, as a ring */
	struct rt_serve_counts counts;
};

/* ---- life ---- */

static int64_t
least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t
parts(int64_t n, int64_t size)
{
	return (n + size - 1) / size;
}

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

static bool
allocate(struct rt_scheduler *s, struct replica *r)
{
	const struct rt_engine *e = &s->e;
	size_t t = (size_t)e->tokens, rows = (size_t)least(e->rows, e->tokens);

	r->token = calloc(t, sizeof *r->token);
	r->position = calloc(t, sizeof *r->position);
	r->slot = calloc(t, sizeof *r->slot);
	r->first = calloc(t, sizeof *r->first);
	r->last = calloc(t, sizeof *r->last);
	r->key = calloc((size_t)e->keys, sizeof *r->key);
	r->row = calloc(rows, sizeof *r->row);
	*r->step = (struct rt_serve_step){ .token = r->token,
		.position = r->position, .slot = r->slot, .first = r->first,
		.last = r->last, .key = r->key, .row = r->row };
	return r->token && r->position && r->slot && r->first && r->last &&
	       r->key && r->row;
}

static enum rt_status
open_replicas(struct rt_scheduler *s, bool share, struct rt_error *err)
{
	const struct rt_engine *e = &s->e;
	size_t n = (size_t)s->nreplicas, i;
	enum rt_status status = RT_OK;

	s->replica = calloc(n, sizeof *s->replica);
	s->steps = calloc(n, sizeof *s->steps);
	s->logits = calloc(n * (size_t)(e->rows * e->vocab),
			   sizeof *s->logits);
	s->positions = calloc((size_t)s->most, sizeof *s->positions);
	if (!s->replica || !s->steps || !s->logits || !s->positions) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < n && status == RT_OK; i++) {
		struct replica *r = &s->replica[i];

		r->step = &s->steps[i];
		r->logits = s->logits + i * (size_t)(e->rows * e->vocab);
		status = rt_kv_open(&r->kv, e->blocks, e->block, share, err);
		if (status == RT_OK && !allocate(s, r)) {
			status = rt_no_memory(err, NULL);
		}
	}
	return status;
}

static void
close_replica(struct replica *r)
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
	s->longest = least(least(e->context, e->keys / e->align * e->align),
			   e->blocks * e->block);
	s->nreplicas = e->replicas > 1 ? e->replicas : 1;
	s->most = e->in_flight > 1 ? e->in_flight : 1;
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
insert(struct rt_sequences *list, struct rt_sequence *q)
{
	struct rt_sequence **at = &list->first;

	while (*at && (*at)->arrival < q->arrival) {
		at = &(*at)->next;
	}
	q->next = *at;
	*at = q;
	list->n++;
}

static bool
take_out(struct rt_sequences *list, const struct rt_sequence *q)
{
	struct rt_sequence **at = &list->first;

	while (*at && *at != q) {
		at = &(*at)->next;
	}
	if (!*at) {
		return false;
	}
	*at = q->next;
	list->n--;
	return true;
}

static void
free_sequence(struct rt_sequence *q)
{
	free(q->tokens);
	free(q->blocks);
	free(q->stops);
	free(q);
}

/* Makes space for n tokens. */
static enum rt_status
reserve(const struct rt_scheduler *s, struct rt_sequence *q, int64_t n,
	struct rt_error *err)
{
	int64_t cap = least(n + n / 2 + 64, s->longest);
	int32_t *tokens, *blocks;

	if (n <= q->cap) {
		return RT_OK;
	}
	tokens = realloc(q->tokens, (size_t)cap * sizeof *tokens);
	q->tokens = tokens ? tokens : q->tokens;
	blocks = realloc(q->blocks, (size_t)parts(cap, s->e.block) *
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

	if (ask->nprompt < 1 || ask->nprompt >= s->longest || ask->most < 1) {
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
	q->stops = calloc((size_t)ask->nstops + 1, sizeof *q->stops);
	status = q->stops ? reserve(s, q, ask->nprompt, err)
			  : rt_no_memory(err, NULL);
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
	q->ask.most = least(ask->most, s->longest - ask->nprompt);
	q->ask.prompt = q->ask.stops = NULL;
	q->awaits = -1;
	q->arrival = s->arrivals++;
	insert(&s->waiting, q);
	*out = q;
	return RT_OK;
}

/*
 * Gives back the blocks, the last first: a block is of use only to whoever has
 * those before it, so the first ones are to be kept longest.
 */
static void
give_back(struct rt_sequence *q)
{
	while (q->nblocks > 0) {
		rt_kv_give_back(q->on->kv, q->blocks[--q->nblocks]);
	}
	q->ncomputed = 0;
	q->content = RT_KV_ROOT;
}

static void
end_sequence(struct rt_scheduler *s, struct rt_sequence *q, enum rt_ended why)
{
	give_back(q);
	if (!q->on || !take_out(&q->on->running, q)) {
		take_out(&s->waiting, q);
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
	free(s);
}

/* ---- blocks and keys ---- */

static bool
decodes(const struct rt_sequence *q)
{
	return q->n - q->ncomputed == 1 && q->n > q->ask.nprompt;
}

static int64_t
keys_of(const struct rt_scheduler *s, const struct rt_sequence *q)
{
	return parts(q->n, s->e.align) * s->e.align;
}

static int64_t
keys_of_all(const struct rt_scheduler *s, const struct replica *r)
{
	const struct rt_sequence *q;
	int64_t keys = 0;

	for (q = r->running.first; q; q = q->next) {
		keys += keys_of(s, q);
	}
	return keys;
}

/* Blocks that its tokens lack so far. */
static int64_t
lacks(const struct rt_scheduler *s, const struct rt_sequence *q)
{
	return parts(q->n, s->e.block) - q->nblocks;
}

static void
preempt_last(struct rt_scheduler *s, struct replica *r)
{
	struct rt_sequence *q = r->running.first;

	while (q->next) {
		q = q->next;
	}
	give_back(q);
	take_out(&r->running, q);
	insert(&s->waiting, q);
	s->counts.preempted++;
}

/* Sequences that have a row in one step, at most. */
static int64_t
most_rows(const struct rt_scheduler *s)
{
	return least(s->e.rows, s->e.tokens);
}

/*
 * Each sequence that decodes gets the block that its next position is in.  One
 * alone always fits, so this ends with at least the first.  One that is
 * preempted while a step brings its token gets it all the same.
 */
static void
grow(struct rt_scheduler *s, struct replica *r)
{
	struct rt_sequence *q;
	int32_t b;
	bool again;

	while (keys_of_all(s, r) > s->most * s->e.keys) {
		preempt_last(s, r);
	}
	do {
		again = false;
		for (q = r->running.first; q && !again; q = q->next) {
			if (!decodes(q) || lacks(s, q) == 0) {
				continue;
			}
			b = rt_kv_new(r->kv);
			if (b < 0) {
				preempt_last(s, r);
				again = true;
			} else {
				q->blocks[q->nblocks++] = b;
			}
		}
	} while (again);
}

/* ---- a step ---- */

/* The block that begins at the first token without keys is computed by another
 * sequence, or was. */
static bool
share_block(struct rt_scheduler *s, struct rt_sequence *q)
{
	int32_t b;

	/* the last token is left, since its logits are wanted */
	if (q->ncomputed % s->e.block != 0 ||
	    q->nblocks * s->e.block > q->ncomputed ||
	    q->ncomputed + s->e.block >= q->n) {
		return false;
	}
	b = rt_kv_find(q->on->kv, q->content, q->tokens + q->ncomputed,
		       &q->content);
	if (b < 0) {
		return false;
	}
	q->blocks[q->nblocks++] = b;
	q->ncomputed += s->e.block;
	s->counts.shared += s->e.block;
	return true;
}

/*
 * Lets a sequence in if blocks for all of its tokens are there, beside those
 * that others still lack.  So chunks of prompts never wait for each other's
 * blocks, only for those of sequences that decode, which get on.  One more for
 * each of the others is spared, so that it is not preempted in the next step.
 */
static bool
let_in(struct rt_scheduler *s, struct replica *to, struct rt_sequence *q)
{
	int64_t spare = to->running.n;
	const struct rt_sequence *r;

	if (to->running.n == s->most * most_rows(s) ||
	    keys_of_all(s, to) + keys_of(s, q) > s->most * s->e.keys) {
		return false;
	}
	q->on = to;
	while (share_block(s, q)) {
	}
	for (r = to->running.first; r; r = r->next) {
		spare += lacks(s, r);
	}
	if (lacks(s, q) + spare > rt_kv_unused(to->kv)) {
		s->counts.shared -= q->ncomputed;
		give_back(q);
		return false;
	}
	take_out(&s->waiting, q);
	insert(&to->running, q);
	return true;
}

/* To the replica that has the fewest keys, of those that take it. */
static bool
let_in_anywhere(struct rt_scheduler *s, struct rt_sequence *q)
{
	int64_t before = -1, i, keys, least_keys;
	struct replica *best;

	do {
		best = NULL;
		least_keys = INT64_MAX;
		for (i = 0; i < s->nreplicas; i++) {
			keys = keys_of_all(s, &s->replica[i]) * s->nreplicas +
			       i;
			if (keys > before && keys < least_keys) {
				best = &s->replica[i];
				least_keys = keys;
			}
		}
		before = least_keys;
	} while (best && !let_in(s, best, q));
	return best;
}

static void
add_position(struct rt_scheduler *s, const struct rt_sequence *q, int64_t base)
{
	struct replica *r = q->on;
	int64_t i = r->step->n++, at = q->ncomputed, size = s->e.block;

	r->token[i] = q->tokens[at];
	r->position[i] = (int32_t)at;
	r->slot[i] = (int32_t)(q->blocks[at / size] * size + at % size);
	r->first[i] = (int32_t)base;
	r->last[i] = (int32_t)(base + at);
}

/* Puts keys of all computed tokens into the table. */
static void
add_keys(struct rt_scheduler *s, const struct rt_sequence *q, int64_t base)
{
	int64_t size = s->e.block, i, j, n;
	struct replica *r = q->on;
	int32_t *to = r->key + base, slot;

	for (i = r->step->nkeys; i < base; i++) {
		r->key[i] = 0;
	}
	for (i = 0; i * size < q->ncomputed; i++) {
		slot = (int32_t)(q->blocks[i] * size);
		n = least(size, q->ncomputed - i * size);
		for (j = 0; j < n; j++) {
			*to++ = slot + (int32_t)j;
		}
	}
	r->step->nkeys = base + q->ncomputed;
}

/* Adds at most `most` positions of a sequence to the step. */
static void
advance(struct rt_scheduler *s, struct rt_sequence *q, int64_t most)
{
	struct rt_serve_step *step = q->on->step;
	int64_t base = parts(step->nkeys, s->e.align) * s->e.align;
	int64_t size = s->e.block, before = step->n;
	int32_t b;

	while (q->ncomputed < q->n) {
		if (share_block(s, q)) {
			continue;
		}
		if (step->n - before == most) {
			break;
		}
		if (q->ncomputed == q->nblocks * size) {
			b = rt_kv_new(q->on->kv);
			if (b < 0) {
				break;
			}
			q->blocks[q->nblocks++] = b;
		}
		add_position(s, q, base);
		q->ncomputed++;
		if (q->ncomputed % size == 0) {
			b = q->blocks[q->nblocks - 1];
			q->content = rt_kv_fill(q->on->kv, b, q->content,
				q->tokens + q->ncomputed - size);
		}
	}
	if (step->n == before) {
		return;
	}
	add_keys(s, q, base);
	if (q->ncomputed == q->n) {
		q->awaits = s->begun;
		q->row = step->nrows;
		q->on->row[step->nrows++] = (int32_t)(step->n - 1);
	}
}

/* Whether the step has a row and the keys for another sequence. */
static bool
has_place(const struct rt_scheduler *s, const struct rt_sequence *q)
{
	const struct rt_serve_step *step = q->on->step;
	int64_t base = parts(step->nkeys, s->e.align) * s->e.align;

	return step->n < s->e.tokens && step->nrows < most_rows(s) &&
	       base + keys_of(s, q) <= s->e.keys;
}

/*
 * Positions of sequences that decode: `left` of them at most, of those that
 * came after `from`, up to `to`.  False: no more fit.
 */
static bool
decode_some(struct rt_scheduler *s, struct replica *r, int64_t from,
	    int64_t to, int64_t *left)
{
	struct rt_sequence *q;

	for (q = r->running.first; q; q = q->next) {
		if (q->arrival <= from || q->arrival > to || !decodes(q)) {
			continue;
		}
		if (*left == 0 || !has_place(s, q)) {
			return false;
		}
		advance(s, q, 1);
		r->turn = q->arrival;
		--*left;
	}
	return true;
}

/*
 * One of as many parts of those that decode as steps may be in flight, going on
 * where the last step stopped: each gets on in its turn, as the first of a step
 * always has a place.
 */
static void
decode_part(struct rt_scheduler *s, struct replica *r)
{
	int64_t left = parts(r->running.n, s->most), turn = r->turn;

	if (decode_some(s, r, turn, INT64_MAX, &left)) {
		decode_some(s, r, -1, turn, &left);
	}
}

static void
fill_step(struct rt_scheduler *s, struct replica *r)
{
	struct rt_serve_step *step = r->step;
	struct rt_sequence *q;

	step->n = step->nkeys = step->nrows = 0;
	decode_part(s, r);
	for (q = r->running.first; q; q = q->next) {
		if (q->ncomputed == q->n || decodes(q)) {
			continue;
		}
		if (!has_place(s, q)) {
			break;
		}
		advance(s, q, s->e.tokens - step->n);
	}
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

/* Draws the token of a sequence whose logits were computed. */
static enum rt_status
draw_next(struct rt_scheduler *s, struct rt_sequence *q, struct rt_error *err)
{
	const struct rt_ask *a = &q->ask;
	struct rt_drawn t;
	enum rt_status status;

	status = rt_draw_token(s->drawer, &a->draw, q->on->logits +
			       q->row * s->e.vocab, q->tokens, q->n, a->nprompt,
			       a->choice, &t, err);
	if (status == RT_OK) {
		status = reserve(s, q, q->n + 1, err);
	}
	if (status != RT_OK) {
		return status;
	}
	q->tokens[q->n++] = t.token;
	s->counts.drawn++;
	if (is_stop(q, t.token) || !a->token(a->user, &t)) {
		end_sequence(s, q, RT_ENDED_STOP);
	} else if (q->n - a->nprompt == a->most) {
		end_sequence(s, q, RT_ENDED_LENGTH);
	}
	return RT_OK;
}

/* Of sequences whose tokens this step brings. */
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
			status = draw_next(s, q, err);
		}
	}
	return status;
}

/* Makes the next step; returns its positions. */
static int64_t
make_step(struct rt_scheduler *s)
{
	int64_t i, n = 0;

	for (i = 0; i < s->nreplicas; i++) {
		grow(s, &s->replica[i]);
	}
	while (s->waiting.first && s->waiting.first->awaits < 0 &&
	       let_in_anywhere(s, s->waiting.first)) {
	}
	for (i = 0; i < s->nreplicas; i++) {
		fill_step(s, &s->replica[i]);
		n += s->steps[i].n;
	}
	return n;
}

static enum rt_status
begin_step(struct rt_scheduler *s, bool *begun, struct rt_error *err)
{
	int64_t n = make_step(s);

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
