/*
 * Which positions are in a step, and the blocks of the cache that they need.
 *
 * A sequence is its tokens, of which the first `ncomputed` have keys in the
 * cache.  One that decodes lacks those of its last token alone; a new or
 * preempted one lacks many.  Both get on by advance(), so a decoding sequence
 * is no case of its own but for its turn.
 */
#include "runtime/serve/schedule/sequences.h"

/* ---- lists ---- */

void
rt_sequences_insert(struct rt_sequences *list, struct rt_sequence *q)
{
	struct rt_sequence **at = &list->first;

	while (*at && (*at)->arrival < q->arrival) {
		at = &(*at)->next;
	}
	q->next = *at;
	*at = q;
	list->n++;
}

bool
rt_sequences_take_out(struct rt_sequences *list, const struct rt_sequence *q)
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

/*
 * Gives back the blocks, the last first: a block is of use only to whoever has
 * those before it, so the first ones are to be kept longest.
 */
void
rt_sequence_give_back(struct rt_sequence *q)
{
	while (q->nblocks > 0) {
		rt_kv_give_back(q->on->kv, q->blocks[--q->nblocks]);
	}
	q->ncomputed = 0;
	q->content = RT_KV_ROOT;
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
	return rt_parts(q->n, s->e.align) * s->e.align;
}

static int64_t
keys_of_all(const struct rt_scheduler *s, const struct rt_replica *r)
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
	return rt_parts(q->n, s->e.block) - q->nblocks;
}

static void
preempt_last(struct rt_scheduler *s, struct rt_replica *r)
{
	struct rt_sequence *q = r->running.first;

	while (q->next) {
		q = q->next;
	}
	rt_sequence_give_back(q);
	rt_sequences_take_out(&r->running, q);
	rt_sequences_insert(&s->waiting, q);
	s->counts.preempted++;
}

/* Sequences that have a row in one step, at most. */
static int64_t
most_rows(const struct rt_scheduler *s)
{
	return rt_least(s->e.rows, s->e.tokens);
}

/*
 * Each sequence that decodes gets the block that its next position is in.  One
 * alone always fits, so this ends with at least the first.  One that is
 * preempted while a step brings its token gets it all the same.
 */
static void
grow(struct rt_scheduler *s, struct rt_replica *r)
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

/* Whether the logits of a position are wanted, to score the token after it. */
static bool
is_scored(const struct rt_sequence *q, int64_t at)
{
	return q->ask.score && at >= q->nscored && at < q->ask.nprompt - 1;
}

/* The block that begins at the first token without keys is computed by another
 * sequence, or was. */
static bool
share_block(struct rt_scheduler *s, struct rt_sequence *q)
{
	int32_t b;

	/* the last token is left, since its logits are wanted, and so is a
	 * block with others whose logits are */
	if (q->ncomputed % s->e.block != 0 ||
	    q->nblocks * s->e.block > q->ncomputed ||
	    q->ncomputed + s->e.block >= q->n ||
	    is_scored(q, q->ncomputed + s->e.block - 1)) {
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
let_in(struct rt_scheduler *s, struct rt_replica *to, struct rt_sequence *q)
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
		rt_sequence_give_back(q);
		return false;
	}
	rt_sequences_take_out(&s->waiting, q);
	rt_sequences_insert(&to->running, q);
	return true;
}

/* To the replica that has the fewest keys, of those that take it. */
static bool
let_in_anywhere(struct rt_scheduler *s, struct rt_sequence *q)
{
	int64_t before = -1, i, keys, least_keys;
	struct rt_replica *best;

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
	struct rt_replica *r = q->on;
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
	struct rt_replica *r = q->on;
	int32_t *to = r->key + base, slot;

	for (i = r->step->nkeys; i < base; i++) {
		r->key[i] = 0;
	}
	for (i = 0; i * size < q->ncomputed; i++) {
		slot = (int32_t)(q->blocks[i] * size);
		n = rt_least(size, q->ncomputed - i * size);
		for (j = 0; j < n; j++) {
			*to++ = slot + (int32_t)j;
		}
	}
	r->step->nkeys = base + q->ncomputed;
}

/* Whether the next position of a sequence needs a row of the step. */
static bool
needs_row(const struct rt_sequence *q)
{
	return q->ncomputed == q->n - 1 || is_scored(q, q->ncomputed);
}

/* The row of the position that was added last. */
static void
add_row(struct rt_sequence *q)
{
	struct rt_serve_step *step = q->on->step;

	q->on->row[step->nrows++] = (int32_t)(step->n - 1);
}

/* Adds at most `most` positions of a sequence to the step. */
static void
advance(struct rt_scheduler *s, struct rt_sequence *q, int64_t most)
{
	struct rt_serve_step *step = q->on->step;
	int64_t base = rt_parts(step->nkeys, s->e.align) * s->e.align;
	int64_t size = s->e.block, before = step->n, rows = step->nrows;
	bool row, scored;
	int32_t b;

	while (q->ncomputed < q->n) {
		if (share_block(s, q)) {
			continue;
		}
		row = needs_row(q);
		scored = is_scored(q, q->ncomputed);
		if (step->n - before == most ||
		    (row && step->nrows == most_rows(s)) ||
		    (scored && q->on->scores_left == 0)) {
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
		if (row) {
			add_row(q);
		}
		q->on->scores_left -= scored;
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
	if (step->nrows > rows) {
		q->awaits = s->begun;
		q->draws = q->ncomputed == q->n;
		q->nscores = step->nrows - rows - q->draws;
		q->row = rows + q->nscores;
	}
}

/* Whether the step has a row and the keys for another sequence. */
static bool
has_place(const struct rt_scheduler *s, const struct rt_sequence *q)
{
	const struct rt_serve_step *step = q->on->step;
	int64_t base = rt_parts(step->nkeys, s->e.align) * s->e.align;

	return step->n < s->e.tokens && step->nrows < most_rows(s) &&
	       base + keys_of(s, q) <= s->e.keys;
}

/*
 * Positions of sequences that decode: `left` of them at most, of those that
 * came after `from`, up to `to`.  False: no more fit.
 */
static bool
decode_some(struct rt_scheduler *s, struct rt_replica *r, int64_t from,
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
decode_part(struct rt_scheduler *s, struct rt_replica *r)
{
	int64_t left = rt_parts(r->running.n, s->most), turn = r->turn;

	if (decode_some(s, r, turn, INT64_MAX, &left)) {
		decode_some(s, r, -1, turn, &left);
	}
}

/* Whether positions of its prompt may be in the next step: of one that is
 * scored, once the logits of the last ones have come. */
static bool
has_prompt(const struct rt_sequence *q)
{
	return q->ncomputed < q->n && !decodes(q) && q->awaits < 0;
}

/* The first of those that do not decode yet, or NULL. */
static struct rt_sequence *
first_prompt(const struct rt_replica *r)
{
	struct rt_sequence *q = r->running.first;

	while (q && !has_prompt(q)) {
		q = q->next;
	}
	return q;
}

/* Chunks of prompts, in the order in which they came. */
static void
fill_prompts(struct rt_scheduler *s, struct rt_replica *r)
{
	struct rt_sequence *q;

	for (q = r->running.first; q && r->step->n < s->e.tokens; q = q->next) {
		if (!has_prompt(q)) {
			continue;
		}
		if (!has_place(s, q)) {
			break;
		}
		advance(s, q, s->e.tokens - r->step->n);
	}
}

/*
 * Rows for tokens of prompts that are scored, of those left beside so many that
 * decode: a prompt of any length needs all that there are in each step, so one
 * is kept for each other prompt, whose next token it may bring.
 */
static int64_t
rows_to_score(const struct rt_scheduler *s, const struct rt_replica *r,
	      int64_t ndecode)
{
	int64_t left = most_rows(s) - ndecode;
	const struct rt_sequence *q;

	for (q = r->running.first; q; q = q->next) {
		left -= has_prompt(q) && !is_scored(q, q->ncomputed);
	}
	return left > 0 ? left : 1;
}

/*
 * Those that decode come first.  Where a step has one of several parts of them,
 * the first prompt may have no place beside any part, as its keys and theirs
 * are more than those of a step.  So once it had none in as many steps as may
 * be in flight, it comes before them.
 */
static void
fill_step(struct rt_scheduler *s, struct rt_replica *r)
{
	struct rt_serve_step *step = r->step;
	struct rt_sequence *q = first_prompt(r);

	step->n = step->nkeys = step->nrows = 0;
	if (q && r->kept_out == s->most) {
		r->kept_out = 0;
		r->scores_left = rows_to_score(s, r, rt_parts(r->running.n,
							  s->most));
		advance(s, q, s->e.tokens);
		decode_part(s, r);
	} else {
		decode_part(s, r);
		r->scores_left = rows_to_score(s, r, step->nrows);
		r->kept_out = q && !has_place(s, q) ? r->kept_out + 1 : 0;
	}
	fill_prompts(s, r);
}

int64_t
rt_fill_steps(struct rt_scheduler *s)
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
