/*
 * Steps of many sequences: whatever comes beside a sequence, in what order,
 * with blocks shared or not, and preempted or not, its tokens and logprobs are
 * those that it has alone, to the bit.  Engines, requests, cancels, and schemas
 * and calls of functions that answers follow are drawn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/serve/schedule/scheduler.h"
#include "tests/unit/serve/t-engine.h"
#include "tests/unit/serve/t-schemas.h"
#include "tests/unit/shared/t-cases.h"

/* A token in 16 ends an answer. */
enum {
	VOCAB = SCHEMA_VOCAB, LONGEST = 160, REQUESTS = 64, TRACES = 300,
	STOPS = VOCAB / 16, SCHEMAS = 16, CALLS = 8, TOOLS = 3,
};

static struct rt_spellings *vocabulary;
/* of schemas, and then of calls of functions */
static struct rt_grammar *grammars[SCHEMAS + CALLS];

struct rng {
	uint64_t at;
};

static int64_t
pick(struct rng *r, int64_t from, int64_t to)
{
	r->at++;
	return from + (int64_t)(fake_mix(r->at * 0x9e3779b97f4a7c15u) %
				(uint64_t)(to - from + 1));
}

/* A request, and what it was answered. */
struct asked {
	int32_t prompt[LONGEST], stops[STOPS];
	struct rt_bias bias;
	const struct rt_grammar *grammar;	/* or NULL */
	struct rt_ask ask;
	struct rt_sequence *seq;
	struct rt_drawn got[LONGEST], scored[LONGEST];
	int64_t ngot, ndrawn, nscored;
	bool ended;
	enum rt_ended why;
	int64_t until;	/* its reader wants no more after so many tokens */
	int64_t free;	/* so many tokens follow no grammar, as thoughts do */
};

static bool
on_token(void *user, const struct rt_drawn *t)
{
	struct asked *a = user;

	assert_false(a->ended);
	a->got[a->ngot++] = *t;
	return a->ngot != a->until;
}

static bool
on_guided(void *user)
{
	const struct asked *a = user;

	assert_true(a->ngot > 0);
	return a->ngot >= a->free;
}

/* Scores come in the order of the prompt, before any token is drawn. */
static void
on_score(void *user, const struct rt_drawn *t)
{
	struct asked *a = user;

	assert_false(a->ended || a->ngot > 0);
	assert_int_equal(t->token, a->prompt[a->nscored + 1]);
	a->scored[a->nscored++] = *t;
}

static void
on_end(void *user, enum rt_ended why, int64_t ndrawn)
{
	struct asked *a = user;

	assert_false(a->ended);
	a->ended = true;
	a->why = why;
	a->ndrawn = ndrawn;
	a->seq = NULL;
	rt_guide_free(a->ask.guide);
	a->ask.guide = NULL;
}

/* Prompts begin like one of three texts, and go on by themselves. */
static void
draw_request(struct asked *a, struct rng *r, int64_t longest)
{
	int64_t text = pick(r, 0, 2), same = pick(r, 0, longest - 2), i;
	int64_t n = pick(r, 1, longest - 1);

	memset(a, 0, sizeof *a);
	for (i = 0; i < n; i++) {
		a->prompt[i] = i < same ? (int32_t)((i * (text + 3)) % VOCAB)
					: (int32_t)pick(r, 0, VOCAB - 1);
	}
	for (i = 0; i < STOPS; i++) {
		a->stops[i] = (int32_t)pick(r, 0, VOCAB - 1);
	}
	a->bias = (struct rt_bias){ (int32_t)pick(r, 0, VOCAB - 1), 3 };
	a->grammar = pick(r, 0, 3) ? NULL
				   : grammars[pick(r, 0, SCHEMAS + CALLS - 1)];
	a->ask = (struct rt_ask){ .prompt = a->prompt, .nprompt = n,
		.most = pick(r, 1, LONGEST), .choice = pick(r, 0, 1),
		.draw = rt_draw_plain(), .stops = a->stops,
		.nstops = pick(r, 0, 3) == 0 ? STOPS : 0,
		.least = pick(r, 0, 1) ? pick(r, 0, 20) : 0,
		.token = on_token, .end = on_end, .user = a };
	a->until = pick(r, 0, 3) == 0 ? pick(r, 1, 20) : -1;
	a->ask.draw.temperature = pick(r, 0, 3) * 0.5;
	a->ask.draw.top_k = pick(r, 0, 2) * 7;
	a->ask.draw.top_p = pick(r, 0, 1) ? 1 : 0.9;
	a->ask.draw.repetition = pick(r, 0, 3) ? 1 : 1.3;
	a->ask.draw.presence = pick(r, 0, 3) ? 0 : 0.5;
	a->ask.draw.bias = &a->bias;
	a->ask.draw.nbias = pick(r, 0, 3) == 0;
	a->ask.draw.seed = (uint64_t)pick(r, 0, 1000);
	a->ask.draw.ntop = pick(r, -1, 3);
	if (a->grammar && a->ask.draw.seed % 3 == 0) {
		a->free = 1 + (int64_t)a->ask.draw.seed % 7;
		a->ask.guided = on_guided;
	}
}

/* A fifth has the prompt scored, a third of these that alone. */
static void
draw_score(struct asked *a, struct rng *r)
{
	if (pick(r, 0, 4) == 0) {
		a->ask.score = on_score;
		a->ask.draw.ntop = pick(r, 0, 3);
		a->ask.most = pick(r, 0, 2) ? a->ask.most : 0;
	}
}

/* A scheduler of an engine with these bounds. */
static struct rt_scheduler *
open_with(struct fake_engine *f, struct rt_engine e, bool sharing)
{
	struct rt_error err = { .message = "" };
	struct rt_scheduler *s;

	assert_true(fake_open(f, e));
	assert_int_equal(rt_scheduler_open(&s, &f->e, sharing, &err), RT_OK);
	/* of every second, as a service does it */
	f->finds = e.rows % 2 ? s : NULL;
	return s;
}

static void
close_with(struct fake_engine *f, struct rt_scheduler *s)
{
	rt_scheduler_free(s);
	fake_close(f);
}

static void
add(struct rt_scheduler *s, struct asked *a)
{
	struct rt_error err = { .message = "" };

	if (a->grammar) {
		assert_int_equal(rt_guide_open(&a->ask.guide, a->grammar,
					       vocabulary, &err), RT_OK);
	}
	if (rt_scheduler_add(s, &a->ask, &a->seq, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
}

static void
step(struct rt_scheduler *s)
{
	struct rt_error err = { .message = "" };

	if (rt_scheduler_step(s, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
}

/* A trace's requests alone: each in an engine of which it is the first. */
static void
answer_alone(const struct asked *from, struct asked *a, int64_t longest)
{
	struct rt_engine e = { .tokens = LONGEST, .rows = 1, .keys = longest,
		.align = 1, .block = 1, .blocks = longest,
		.context = longest, .vocab = VOCAB };
	struct rt_scheduler *s;
	struct fake_engine f;

	memcpy(a, from, sizeof *a);
	a->ended = false;
	a->ngot = a->nscored = 0;
	memset(a->got, 0, sizeof a->got);
	a->ask.user = a;
	a->ask.prompt = a->prompt;
	a->ask.stops = a->stops;
	a->ask.draw.bias = &a->bias;
	s = open_with(&f, e, false);
	add(s, a);
	while (!a->ended) {
		step(s);
	}
	close_with(&f, s);
}

/* A small engine preempts, a large one has many sequences in a step. */
static struct rt_engine
draw_engine(struct rng *r, bool large)
{
	int64_t block = (int64_t)1 << pick(r, 0, 4);
	int64_t align = block * pick(r, 1, 4);
	int64_t blocks = large ? 10000 / block : pick(r, 12, 60);

	return (struct rt_engine){ .tokens = large ? 200 : pick(r, 1, 40),
		.rows = large ? 64 : pick(r, 1, 70),
		.keys = large ? 19968 : align * pick(r, 2, 30), .align = align,
		.block = block, .blocks = blocks, .context = LONGEST,
		.vocab = VOCAB, .replicas = pick(r, 1, 3),
		.in_flight = pick(r, 0, 4) };
}

/* No token ends an answer before its least; a reader and a schema may. */
static void
check_least(const struct asked *a)
{
	assert_false(a->why == RT_ENDED_STOP && a->ngot < a->ask.least &&
		     a->ngot != a->until && !a->grammar);
}

/* What follows a grammar does so from its first token on, and what is free
 * before that does not, or happens to. */
static void
check_grammar(const struct asked *a)
{
	uint64_t bits[VOCAB / 64 + 1];
	struct rt_error err = { .message = "" };
	struct rt_guide *g;
	bool may_end, over;
	int64_t i;

	assert_int_equal(rt_guide_open(&g, a->grammar, vocabulary, &err),
			 RT_OK);
	for (i = a->free; i < a->ngot; i++) {
		int32_t token = a->got[i].token;

		assert_int_equal(rt_guide_allow(g, bits, &may_end, &err),
				 RT_OK);
		assert_true(bits[token / 64] >> token % 64 & 1);
		assert_int_equal(rt_guide_take(g, token, &over, &err), RT_OK);
	}
	rt_guide_free(g);
}

/* Has a request the answer that it has alone, or the beginning of it? */
static void
compare(const struct asked *a, const struct asked *alone)
{
	int64_t i;

	check_least(a);
	if (a->grammar) {
		check_grammar(a);
	}
	assert_true(a->ended);
	if (a->why != RT_ENDED_CANCELLED) {
		assert_int_equal(a->why, alone->why);
		assert_int_equal(a->ngot, alone->ngot);
		assert_int_equal(a->ndrawn, alone->ndrawn);
	}
	if (a->ask.score && (a->why != RT_ENDED_CANCELLED || a->ngot > 0)) {
		assert_int_equal(a->nscored, a->ask.nprompt - 1);
	}
	for (i = 0; i < a->nscored; i++) {
		assert_memory_equal(&a->scored[i], &alone->scored[i],
				    sizeof a->scored[i]);
	}
	for (i = 0; i < a->ngot; i++) {
		assert_int_equal(a->got[i].token, alone->got[i].token);
		assert_memory_equal(&a->got[i], &alone->got[i],
				    sizeof a->got[i]);
	}
}

struct seen {
	int64_t preempted, shared, cancelled, together;
	/* answers that follow a schema or call functions, to the end or to a
	 * part of it; and of these the calls */
	int64_t whole, part, calls;
	int64_t free;	/* of these, that followed none at first */
	/* preempted while another step was in flight */
	int64_t in_flight;
	int64_t scored;		/* tokens of prompts */
};

/* All requests of a trace through one scheduler, as they come. */
static void
run_trace(struct rt_scheduler *s, struct asked *all, int64_t n, struct rng *r,
	  struct seen *seen)
{
	int64_t next = 0, rest = 0, bound = 0, i;

	for (i = 0; i < n; i++) {
		bound += 4 * LONGEST;
	}
	while (next < n || rest > 0) {
		struct rt_serve_counts c, before = rt_scheduler_counts(s);

		for (i = pick(r, -2, 5); i > 0 && next < n; i--) {
			add(s, &all[next++]);
		}
		/* not at the end: there, what is stuck is to stay so */
		if (next > 0 && next < n && pick(r, 0, 4) == 0) {
			struct asked *a = &all[pick(r, 0, next - 1)];

			if (a->seq) {
				rt_scheduler_cancel(s, a->seq);
				seen->cancelled++;
			}
		}
		step(s);
		c = rt_scheduler_counts(s);
		seen->in_flight += before.in_flight > 0
			? c.preempted - before.preempted : 0;
		rest = c.waiting + c.running;
		seen->together = c.running > seen->together ? c.running
							     : seen->together;
		assert_true(--bound > 0);
	}
	seen->preempted += rt_scheduler_counts(s).preempted;
	seen->shared += rt_scheduler_counts(s).shared;
	assert_int_equal(rt_scheduler_counts(s).blocks_used, 0);
}

static bool
is_of_calls(const struct rt_grammar *g)
{
	int i;

	for (i = SCHEMAS; i < SCHEMAS + CALLS && grammars[i] != g; i++) {
	}
	return i < SCHEMAS + CALLS;
}

static void
test_traces(void **state)
{
	static struct asked all[REQUESTS], alone;
	uint32_t days = t_short() ? 3 : 1;
	struct seen seen = { 0 };
	int64_t trace, i;

	(void)state;
	for (trace = 0; trace < TRACES; trace++) {
		struct rng r = { (uint64_t)trace << 32 };
		int64_t n = trace % 10 == 0 ? REQUESTS : pick(&r, 1, 12);
		struct rt_scheduler *s;
		struct fake_engine f;
		int64_t longest;

		if (!t_today((uint64_t)trace, days)) {
			continue;
		}
		s = open_with(&f, draw_engine(&r, trace % 20 == 0),
			      trace % 4 != 3);
		longest = rt_scheduler_longest(s);
		for (i = 0; i < n; i++) {
			draw_request(&all[i], &r, longest);
			draw_score(&all[i], &r);
		}
		run_trace(s, all, n, &r, &seen);
		for (i = 0; i < n; i++) {
			answer_alone(&all[i], &alone, longest);
			compare(&all[i], &alone);
			seen.scored += all[i].nscored;
			seen.whole += all[i].grammar &&
				      all[i].why == RT_ENDED_STOP;
			seen.part += all[i].grammar &&
				     all[i].why == RT_ENDED_LENGTH;
			seen.free += all[i].free && all[i].ngot > all[i].free;
			seen.calls += is_of_calls(all[i].grammar) &&
				      all[i].why != RT_ENDED_CANCELLED;
		}
		close_with(&f, s);
	}
	/* the traces have what they are for */
	assert_true(seen.preempted > 300 / days);
	assert_true(seen.in_flight > 100 / days);
	assert_true(seen.shared > 3000 / days);
	assert_true(seen.scored > 3000 / days);
	assert_true(seen.cancelled > 100 / days);
	assert_true(seen.together > 30 / days);
	assert_true(seen.whole > 100 / days);
	assert_true(seen.part > 100 / days);
	assert_true(seen.calls > 100 / days);
	assert_true(seen.free > 100 / days);
}

/* The first of several answers to one prompt computes it, the others share it,
 * in the same step already. */
static void
test_answers_to_one_prompt(void **state)
{
	static struct asked all[8];
	struct rt_engine e = { .tokens = 64, .rows = 8, .keys = 1024,
		.align = 16, .block = 16, .blocks = 64, .context = 128,
		.vocab = VOCAB };
	struct rng r = { 3 };
	struct rt_scheduler *s;
	struct fake_engine f;
	int64_t i;

	(void)state;
	s = open_with(&f, e, true);
	draw_request(&all[0], &r, 128);
	all[0].grammar = NULL;
	for (i = 0; i < 8; i++) {
		all[i] = all[0];
		all[i].ask = (struct rt_ask){ .prompt = all[i].prompt,
			.nprompt = 100, .most = 3, .choice = i,
			.draw = rt_draw_plain(), .token = on_token,
			.end = on_end, .user = &all[i] };
		all[i].until = -1;
		add(s, &all[i]);
	}
	/* 64 + 36 of the first, 4 of each of the others, and 2 more each */
	for (i = 0; i < 5; i++) {
		step(s);
	}
	for (i = 0; i < 8; i++) {
		assert_true(all[i].ended);
		assert_int_equal(all[i].why, RT_ENDED_LENGTH);
	}
	assert_int_equal(rt_scheduler_counts(s).computed,
			 100 + 7 * 4 + 8 * 2);
	assert_int_equal(rt_scheduler_counts(s).shared, 7 * 96);
	close_with(&f, s);
}

/* While a long prompt is computed, a sequence that decodes gets a token in each
 * step. */
static void
test_decode_beside_a_long_prompt(void **state)
{
	static struct asked one, two;
	struct rt_engine e = { .tokens = 8, .rows = 4, .keys = 512,
		.align = 16, .block = 16, .blocks = 32, .context = 160,
		.vocab = VOCAB };
	struct rng r = { 4 };
	struct rt_scheduler *s;
	struct fake_engine f;
	int64_t i;

	(void)state;
	s = open_with(&f, e, true);
	draw_request(&one, &r, 160);
	draw_request(&two, &r, 160);
	one.grammar = two.grammar = NULL;
	one.ask.nprompt = 4;
	one.ask.most = 100;
	one.ask.nstops = 0;
	two.ask.nprompt = 140;
	one.until = two.until = -1;
	add(s, &one);
	step(s);
	add(s, &two);
	for (i = 0; i < 20; i++) {
		assert_int_equal(one.ngot, i + 1);
		assert_int_equal(two.ngot, 0);
		step(s);
	}
	assert_int_equal(two.ngot, 1);
	rt_scheduler_free(s);
	assert_int_equal(one.why, RT_ENDED_CANCELLED);
	assert_int_equal(two.why, RT_ENDED_CANCELLED);
	fake_close(&f);
}

/* While a long prompt is scored, one that decodes gets a token in each step,
 * prompts that came later are computed, and all other rows score. */
static void
test_others_beside_a_scored_prompt(void **state)
{
	static struct asked all[4];
	struct rt_engine e = { .tokens = 32, .rows = 8, .keys = 1024,
		.align = 16, .block = 16, .blocks = 64, .context = LONGEST,
		.vocab = VOCAB };
	struct rng r = { 5 };
	struct rt_scheduler *s;
	struct fake_engine f;
	int64_t i;

	(void)state;
	s = open_with(&f, e, true);
	for (i = 0; i < 4; i++) {
		draw_request(&all[i], &r, LONGEST);
		all[i].grammar = NULL;
		all[i].ask.nstops = 0;
		all[i].until = -1;
		all[i].ask.most = i == 0 ? 100 : 1;
		all[i].ask.nprompt = i == 0 ? 4 : i == 1 ? 150 : 25;
	}
	all[1].ask.score = on_score;
	all[1].ask.draw.ntop = 0;
	add(s, &all[0]);
	step(s);
	for (i = 1; i < 4; i++) {
		add(s, &all[i]);
	}
	step(s);
	/* 1 decodes, 5 score, and two of 25 tokens have the others */
	assert_int_equal(all[1].nscored, 5);
	assert_true(all[2].ended);
	step(s);
	assert_true(all[3].ended);
	assert_int_equal(all[1].nscored, 11);
	for (i = 3; !all[1].ended; i++) {
		assert_int_equal(all[0].ngot, i);
		step(s);
	}
	assert_int_equal(i, 3 + (149 + 1 - 11 + 6) / 7);
	close_with(&f, s);
}

/* Adds n requests of these lengths, whose prompts share nothing. */
static void
add_plain(struct rt_scheduler *s, struct asked *all, int64_t n,
	  int64_t nprompt, int64_t most)
{
	struct rng r = { 6 };
	int64_t i;

	for (i = 0; i < n; i++) {
		draw_request(&all[i], &r, LONGEST);
		all[i].ask.nprompt = nprompt;
		all[i].prompt[0] = (int32_t)i;
		all[i].ask.most = most;
		all[i].ask.nstops = 0;
		all[i].grammar = NULL;
		all[i].until = -1;
		add(s, &all[i]);
	}
}

/* Of 8 sequences two steps in flight have 4 each, three have 3, 3 and 2. */
static void
test_steps_in_flight(void **state)
{
	static struct asked all[8];
	struct rt_engine e = { .tokens = 64, .rows = 8, .keys = 1024,
		.align = 16, .block = 16, .blocks = 64, .context = LONGEST,
		.vocab = VOCAB };
	struct rt_serve_counts c, before;
	struct rt_scheduler *s;
	struct fake_engine f;
	int64_t k, drawn[4], i;

	(void)state;
	for (e.in_flight = 1; e.in_flight <= 3; e.in_flight++) {
		s = open_with(&f, e, true);
		add_plain(s, all, 8, 4, 30);
		/* what came together is apart after a few rounds */
		for (i = 0; i < 20; i++) {
			step(s);
		}
		for (k = 0; k < 3; k++) {
			before = rt_scheduler_counts(s);
			step(s);
			c = rt_scheduler_counts(s);
			drawn[k] = c.drawn - before.drawn;
			assert_int_equal(c.steps, before.steps + 1);
			assert_int_equal(c.in_flight, e.in_flight - 1);
		}
		/* the third of three is as the first */
		assert_int_equal(drawn[0] + (e.in_flight > 1 ? drawn[1] : 0) +
				 (e.in_flight > 2 ? drawn[2] : 0), 8);
		for (k = 0; k < e.in_flight; k++) {
			assert_in_range(drawn[k], 8 / e.in_flight,
					(8 + e.in_flight - 1) / e.in_flight);
		}
		assert_int_equal(f.together, e.in_flight);
		close_with(&f, s);
	}
}

/* Each chunk of a prompt is a step that begins before the last one ends; the
 * next token waits for the one before it. */
static void
test_chunks_in_flight(void **state)
{
	static struct asked one;
	struct rt_engine e = { .tokens = 8, .rows = 4, .keys = 512,
		.align = 16, .block = 16, .blocks = 32, .context = LONGEST,
		.vocab = VOCAB, .in_flight = 3 };
	struct rt_serve_counts c;
	struct rt_scheduler *s;
	struct fake_engine f;
	int64_t i;

	(void)state;
	s = open_with(&f, e, true);
	add_plain(s, &one, 1, 40, 3);
	for (i = 1; i <= 5; i++) {	/* the third and later end one, too */
		step(s);
		c = rt_scheduler_counts(s);
		assert_int_equal(f.steps, i);
		assert_int_equal(c.in_flight, i < 3 ? i : 2);
	}
	step(s);
	step(s);
	assert_int_equal(one.ngot, 1);
	assert_int_equal(rt_scheduler_counts(s).in_flight, 0);
	for (i = 0; i < 2; i++) {
		step(s);
		assert_int_equal(rt_scheduler_counts(s).in_flight, 1);
		step(s);
		assert_int_equal(one.ngot, 2 + i);
	}
	assert_true(one.ended);
	close_with(&f, s);
}

/* A prompt whose keys fit beside no part of those that decode gets a step all
 * the same, and these go on. */
static void
test_prompt_beside_parts(void **state)
{
	static struct asked all[4];
	struct rt_engine e = { .tokens = 64, .rows = 4, .keys = 192,
		.align = 64, .block = 16, .blocks = 64, .context = LONGEST,
		.vocab = VOCAB, .in_flight = 2 };
	struct rt_scheduler *s;
	struct fake_engine f;
	int64_t i;

	(void)state;
	s = open_with(&f, e, true);
	/* two in a step and one in the next, of 64 keys each */
	add_plain(s, all, 3, 4, 56);
	for (i = 0; i < 20; i++) {
		step(s);
	}
	/* three chunks, with 192 keys */
	add_plain(s, all + 3, 1, 150, 1);
	for (i = 0; i < 16; i++) {
		step(s);
	}
	assert_true(all[3].ended);
	for (i = 0; i < 3; i++) {
		assert_in_range(all[i].ngot, 11, 55);
	}
	close_with(&f, s);
}

/* A request that is cancelled while a step has it leaves its blocks to others,
 * and the step ends all the same. */
static void
test_cancel_in_flight(void **state)
{
	static struct asked all[2];
	struct rt_engine e = { .tokens = 8, .rows = 4, .keys = 512,
		.align = 16, .block = 16, .blocks = 10, .context = LONGEST,
		.vocab = VOCAB, .in_flight = 2 };
	struct rt_scheduler *s;
	struct fake_engine f;

	(void)state;
	s = open_with(&f, e, true);
	add_plain(s, all, 1, 8, 3);
	step(s);
	assert_int_equal(rt_scheduler_counts(s).in_flight, 1);
	rt_scheduler_cancel(s, all[0].seq);
	assert_int_equal(all[0].why, RT_ENDED_CANCELLED);
	assert_int_equal(rt_scheduler_counts(s).blocks_used, 0);
	assert_int_equal(rt_scheduler_counts(s).in_flight, 1);
	step(s);
	assert_int_equal(rt_scheduler_counts(s).in_flight, 0);
	assert_int_equal(rt_scheduler_counts(s).drawn, 0);
	assert_int_equal(f.ended, 1);
	close_with(&f, s);
}

/* Where each token ends an answer, one comes, whatever its least. */
static void
test_all_tokens_are_stops(void **state)
{
	static struct asked a;
	static int32_t stops[VOCAB];
	struct rt_engine e = { .tokens = 8, .rows = 4, .keys = 64,
		.align = 16, .block = 16, .blocks = 8, .context = 64,
		.vocab = VOCAB };
	struct rng r = { 9 };
	struct rt_scheduler *s;
	struct fake_engine f;
	int32_t i;

	(void)state;
	for (i = 0; i < VOCAB; i++) {
		stops[i] = i;
	}
	s = open_with(&f, e, true);
	draw_request(&a, &r, 32);
	a.grammar = NULL;
	a.until = -1;
	a.ask.most = 9;
	a.ask.least = 5;
	a.ask.stops = stops;
	a.ask.nstops = VOCAB;
	add(s, &a);
	while (!a.ended) {
		step(s);
	}
	assert_int_equal(a.why, RT_ENDED_STOP);
	assert_int_equal(a.ngot, 0);
	close_with(&f, s);
}

/* Logits that are no numbers end the sequence whose they are, and no other. */
static void
test_broken_logits(void **state)
{
	static struct asked a, b, alone;
	struct rt_engine e = { .tokens = 16, .rows = 4, .keys = 512,
		.align = 16, .block = 16, .blocks = 20, .context = 160,
		.vocab = VOCAB, .in_flight = 2 };
	struct rng r = { 11 };
	struct rt_scheduler *s;
	struct fake_engine f;

	(void)state;
	s = open_with(&f, e, true);
	f.broken = 3;
	draw_request(&a, &r, 32);
	draw_request(&b, &r, 32);
	a.grammar = b.grammar = NULL;
	a.prompt[0] = 3;
	b.prompt[0] = 4;
	add(s, &a);
	add(s, &b);
	answer_alone(&b, &alone, 160);
	while (!a.ended || !b.ended) {
		step(s);
	}
	assert_int_equal(a.why, RT_ENDED_BROKEN);
	assert_int_equal(a.ngot, 0);
	compare(&b, &alone);
	assert_int_equal(rt_scheduler_counts(s).running, 0);
	close_with(&f, s);
}

static void
test_what_is_refused(void **state)
{
	static struct asked a;
	struct rt_engine e = { .tokens = 8, .rows = 4, .keys = 64,
		.align = 16, .block = 16, .blocks = 2, .context = 160,
		.vocab = VOCAB };
	struct rng r = { 5 };
	struct rt_error err = { .message = "" };
	struct rt_scheduler *s;
	struct fake_engine f;

	(void)state;
	s = open_with(&f, e, true);
	assert_int_equal(rt_scheduler_longest(s), 32);
	draw_request(&a, &r, 32);
	a.grammar = NULL;
	a.ask.nprompt = 32;
	assert_int_equal(rt_scheduler_add(s, &a.ask, &a.seq, &err), RT_RANGE);
	a.ask.nprompt = 2;
	a.prompt[1] = VOCAB;
	assert_int_equal(rt_scheduler_add(s, &a.ask, &a.seq, &err), RT_RANGE);
	assert_non_null(strstr(err.message, " of the prompt is not one of 0 "
			       "to "));
	a.prompt[1] = 3;
	f.fails_at = 0;
	add(s, &a);
	assert_int_equal(rt_scheduler_step(s, &err), RT_IO);
	rt_scheduler_free(s);
	f.e.align = 8;
	assert_int_equal(rt_scheduler_open(&s, &f.e, true, &err), RT_RANGE);
	assert_null(s);
	fake_close(&f);
}

/* A schema of objects, which refer to nothing. */
static void
draw_arguments(struct schema_text *s, uint64_t *seed)
{
	struct rt_error err = { .message = "" };
	struct rt_grammar *g;

	do {
		s->at = ++*seed << 32;
		s->n = 0;
		schema_object(s, 2);
	} while (schema_read(&g, s->text, s->n, &err) != RT_OK);
	rt_grammar_free(g);
}

/*
 * Calls of up to so many functions, in the forms of templates that have any: a
 * call between marks, one after another; a list; a single call; names before
 * their arguments, with texts around them or one alone between calls.
 */
static enum rt_status
open_calls(struct rt_grammar **out, int form, uint64_t *seed)
{
	static struct schema_text s[TOOLS];
	static const char *const names[TOOLS] = { "a", "ab", "get" };
	struct rt_grammar_function f[TOOLS];
	struct rt_grammar_calls c = { .functions = f,
		.n = (size_t)(1 + form / 5 % TOOLS),
		.arguments = form % 5 == 2 ? "parameters" : "arguments",
		.several = form % 5 != 2, .list = form % 5 == 1 };
	struct rt_error err = { .message = "" };
	size_t i;

	for (i = 0; i < c.n; i++) {
		draw_arguments(&s[i], seed);
		f[i] = (struct rt_grammar_function){ names[i], s[i].text,
						     s[i].n };
	}
	if (form % 5 == 0) {
		c.after = "\n</tool_call>";
		c.between = "\n</tool_call>\n<tool_call>\n";
	} else if (form % 5 >= 3) {
		c.before_name = form % 5 == 3 ? "<call>" : "";
		c.after_name = "[ARGS]";
		c.after = form % 5 == 3 ? "\n</call></calls>" : "";
		c.between = form % 5 == 3 ? "\n</call>\n" : "[TOOL_CALLS]";
	}
	return rt_grammar_of_calls(out, &c, &err);
}

/* Schemas by which answers come to an end within a few tokens, and others. */
static int
open_grammars(void **state)
{
	static struct schema_text s;
	struct rt_error err = { .message = "" };
	uint64_t seed = 0;
	int i;

	(void)state;
	for (i = 0; i < SCHEMAS; i++) {
		do {
			schema_draw(&s, ++seed);
		} while (schema_read(&grammars[i], s.text, s.n, &err) != RT_OK);
	}
	for (i = 0; i < CALLS; i++) {
		if (open_calls(&grammars[SCHEMAS + i], i, &seed) != RT_OK) {
			return -1;
		}
	}
	return rt_spellings_open(&vocabulary, VOCAB, schema_token, NULL,
				 &err) == RT_OK ? 0 : -1;
}

static int
close_grammars(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < SCHEMAS + CALLS; i++) {
		rt_grammar_free(grammars[i]);
	}
	rt_spellings_free(vocabulary);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_traces),
		cmocka_unit_test(test_answers_to_one_prompt),
		cmocka_unit_test(test_decode_beside_a_long_prompt),
		cmocka_unit_test(test_others_beside_a_scored_prompt),
		cmocka_unit_test(test_steps_in_flight),
		cmocka_unit_test(test_chunks_in_flight),
		cmocka_unit_test(test_prompt_beside_parts),
		cmocka_unit_test(test_cancel_in_flight),
		cmocka_unit_test(test_all_tokens_are_stops),
		cmocka_unit_test(test_broken_logits),
		cmocka_unit_test(test_what_is_refused),
	};

	return cmocka_run_group_tests(tests, open_grammars, close_grammars);
}
