/*
 * Private to runtime/serve: which positions of which sequences are in a step.
 *
 * Batching is continuous: a step has the next position of each sequence that
 * decodes, and what is left of it goes to chunks of prompts, in the order in
 * which sequences came.  A sequence is let in when its blocks and keys fit
 * beside those that run, so all that decode are in each step.  When blocks or
 * keys run out, the sequence that came last gives back its own and waits again;
 * what it had drawn stays, and its keys are computed anew.  So the sequence
 * that came first always gets on, and each one in its turn.
 *
 * Where an engine has n steps in flight, a step has one of n parts of those
 * that decode, in turn, so that there is something for each.  A prompt whose
 * keys have no place beside n such parts comes before the next.  A sequence
 * whose next token a step in flight will bring is in no other; chunks of its
 * prompt may be in several, one after another, since their tokens are known.
 * An engine computes steps as if one after the other, so a block may be shared,
 * or be given to another sequence, while steps in flight use it.
 *
 * Of several replicas each has sequences and blocks of its own.  A sequence
 * runs on the one that has the fewest keys when it is let in; where does not
 * change what it is answered.
 *
 * One thread calls these functions.
 */
#ifndef RT_SCHEDULER_H
#define RT_SCHEDULER_H

#include "runtime/grammar/grammar.h"
#include "runtime/serve/schedule/draw.h"
#include "runtime/serve/server.h"

enum rt_ended {
	RT_ENDED_STOP,		/* a token or a text that ends it came */
	RT_ENDED_LENGTH,	/* it has as many tokens as it may have */
	RT_ENDED_CANCELLED,
	RT_ENDED_BROKEN,	/* its largest logit is no finite number */
};

/* What a sequence is to be.  Prompt and stops are copied. */
struct rt_ask {
	const int32_t *prompt;
	int64_t nprompt;	/* 1 .. rt_scheduler_longest() - 1 */
	int64_t most;		/* tokens to draw; 0 only if it is scored */
	int64_t choice;		/* which of several answers to one prompt */
	struct rt_draw draw;
	const int32_t *stops;	/* tokens that end it, and are no part of it */
	int64_t nstops;
	/* not before so many tokens, but where a guide's text is over or each
	 * token ends it */
	int64_t least;
	/* which tokens may come: its own, until it ends; NULL: any */
	struct rt_guide *guide;
	/* Whether the guide holds for what comes next, asked after each token;
	 * once it does it always will.  NULL: it holds for all. */
	bool (*guided)(void *user);
	/* Called for each token of the prompt but the first, with its logprob,
	 * before any is drawn; NULL: they are not wanted. */
	void (*score)(void *user, const struct rt_drawn *t);
	/* Called for each token that is part of it; false ends it. */
	bool (*token)(void *user, const struct rt_drawn *t);
	/* Called once, the last of its calls; the sequence is gone then. */
	void (*end)(void *user, enum rt_ended why, int64_t ndrawn);
	void *user;
};

struct rt_sequence;
struct rt_scheduler;

struct rt_serve_counts {
	int64_t waiting, running;
	int64_t blocks, blocks_used;
	int64_t in_flight;	/* steps */
	/* since the beginning; steps, and what they computed, once they end */
	int64_t steps, computed, shared, drawn, preempted;
};

enum rt_status rt_scheduler_open(struct rt_scheduler **out,
				 const struct rt_engine *e, bool share,
				 struct rt_error *err);
/* Memory that it has for steps of an engine, without blocks of the cache. */
int64_t rt_scheduler_bytes(const struct rt_engine *e);
/* Sequences that are still there end as cancelled. */
void rt_scheduler_free(struct rt_scheduler *s);
/* Most tokens of a sequence, drawn ones too. */
int64_t rt_scheduler_longest(const struct rt_scheduler *s);
enum rt_status rt_scheduler_add(struct rt_scheduler *s,
				const struct rt_ask *ask,
				struct rt_sequence **out,
				struct rt_error *err);
/* Its end is called from here.  Not from within token() or end(). */
void rt_scheduler_cancel(struct rt_scheduler *s, struct rt_sequence *q);
/*
 * Begins a step, if the engine takes another and there is something to do; ends
 * the oldest in flight, if it takes no more or there is nothing to begin.  Does
 * nothing if there is nothing to do.
 */
enum rt_status rt_scheduler_step(struct rt_scheduler *s, struct rt_error *err);
/*
 * Finds which tokens may come next in the sequences that the oldest step in
 * flight brings tokens to, unless it is done; otherwise that is found when the
 * step has ended.  May be called while an engine ends it: so the step and this
 * take time together.  What rt_scheduler_counts() reads is left alone.
 */
enum rt_status rt_scheduler_find_allowed(struct rt_scheduler *s,
					 struct rt_error *err);
struct rt_serve_counts rt_scheduler_counts(const struct rt_scheduler *s);

#endif
