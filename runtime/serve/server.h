/*
 * Serving: requests answered by an engine, which computes steps over a ragged
 * batch of positions with a paged cache of keys and values.
 *
 * The folder decides what is in each step and where in the cache it lies, draws
 * tokens from the logits, turns text to tokens and back, and speaks to clients.
 * It knows nothing of how a step is computed: an engine is a few numbers and
 * one function, so that a test's engine is served as a compiled plan is.
 *
 * What a request is answered depends on its prompt, its settings and its seed
 * alone: not on what is beside it in a step, on how its prompt was cut into
 * chunks, on preemption, or on which blocks it shares.  For that, an engine's
 * logits of a position may depend on nothing but the tokens and positions that
 * its keys were computed from, to the bit.
 *
 * Its parts: schedule/, sequences, blocks, steps and draws; chat/, tokens and
 * what models read; api/, requests and replies in OpenAI's form; http/, the
 * service and those that speak to it.  They include runtime/, runtime/tokenize
 * and runtime/grammar.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef RT_SERVER_H
#define RT_SERVER_H

#include <signal.h>
#include <stdio.h>

#include "runtime/error.h"

/* ---- what computes steps ------------------------------------------------ */

/*
 * The positions of one step.  A position is of one sequence; those of a
 * sequence follow each other, and so do its keys.  Sequences may share keys
 * that the same tokens led to, and one may read what another writes in the same
 * step: all keys and values of a layer are written before any is read.
 */
struct rt_serve_step {
	int64_t n;	/* positions; at least 1, if there is one replica */
	const int32_t *token, *position; /* of each; position 0 is the first */
	/* where the cache takes its key and value: block * size + offset */
	const int32_t *slot;
	/* its keys are first .. last, both inclusive, of `key`: those of its
	 * sequence from position 0 to its own */
	const int32_t *first, *last;
	int64_t nkeys;
	/* the slot of each key, sequence after sequence; what lies between two
	 * sequences is 0, and no position reads it */
	const int32_t *key;
	int64_t nrows;			/* may be 0: only chunks of prompts */
	const int32_t *row;		/* whose logits are wanted, ascending */
};

/*
 * What computes steps.  Any step within these bounds may come; each sequence is
 * at most `context` long.
 *
 * Several steps may be in flight, as in a pipeline whose stages work on one
 * each.  The keys that a step finds are those that it would find if each step
 * had ended before the next one began: so a slot may be given to another
 * sequence while a step that reads it is in flight.
 */
struct rt_engine {
	int64_t tokens;		/* most positions of a step */
	int64_t rows;		/* most positions whose logits are wanted */
	int64_t keys;		/* most entries of `key` */
	int64_t align;		/* keys of a sequence begin at a multiple */
	int64_t block;		/* tokens of a block; `align` is a multiple */
	int64_t blocks;		/* of the cache */
	int64_t context;	/* most tokens of a sequence */
	int64_t vocab;
	/*
	 * Replicas compute steps of their own at the same time, each within
	 * these bounds and with a cache of so many blocks.  0: one.
	 */
	int64_t replicas;
	/* most steps that have begun and not ended; 0: one */
	int64_t in_flight;
	void *user;
	/*
	 * Begins a step of each replica, of which some may have no positions;
	 * what `s` points to is its caller's again after the call.  A failure
	 * of this or of the next one ends the service.
	 */
	enum rt_status (*begin)(void *user, const struct rt_serve_step *s,
				struct rt_error *err);
	/* Waits for the step that began first of those in flight; logits:
	 * [replica][rows][vocab]. */
	enum rt_status (*end)(void *user, float *logits,
			      struct rt_error *err);
	/* Called every few seconds while no step is in flight, or NULL:
	 * whoever waits for one learns that it still may come. */
	enum rt_status (*idle)(void *user, struct rt_error *err);
};

/* ---- the command `generate` (generate.c) -------------------------------- */

/* How tokens are drawn; rt_generate_plain() has the defaults. */
struct rt_generate_options {
	const char *tokenizer;	/* a path; NULL: the 256 bytes are tokens */
	const char *chat;	/* a template, of which the prompt is a
				 * message; or NULL */
	const char *prompt;	/* a text of `prompt_bytes` bytes */
	size_t prompt_bytes;
	int64_t tokens;		/* most that are drawn */
	bool ignore_eos;
	double temperature, top_p, min_p;
	double repetition, presence, frequency;
	int64_t top_k;		/* 0: off */
	uint64_t seed;
};

struct rt_generate_options rt_generate_plain(void);

struct rt_generated {
	int64_t drawn;		/* tokens */
	int64_t full;		/* the context's tokens, if they are all taken
				 * before as many came as were asked for */
	bool stopped;		/* by a token that ends texts */
};

/*
 * Continues a text, and writes what comes to `out` as it comes, in whole
 * characters.
 */
enum rt_status rt_generate(const struct rt_engine *e,
			   const struct rt_generate_options *o, FILE *out,
			   struct rt_generated *got, struct rt_error *err);

/* ---- how fast an engine answers (speed.c) ------------------------------- */

/* All at least 1. */
struct rt_speed_options {
	int64_t sequences;	/* that come at once */
	int64_t prompt, tokens;	/* of each; prompts are drawn */
	uint64_t seed;
	double (*now_ms)(void);
	/* lengths go from half of these to one and a half, evenly */
	bool mixed;
};

struct rt_speed {
	double first_ms;	/* to the first token; the median */
	double prompts_ms;	/* to the last of the first tokens */
	double prompts_per_s;	/* tokens of prompts, until then */
	/* of rounds of steps without a token of a prompt, those in which most
	 * sequences get a token: how many, and the median; none if nsteps is
	 * 0.  A round is as many steps as are in flight. */
	int64_t nsteps;
	double token_ms, tokens_per_s;
	double all_ms;		/* until all have ended */
	double all_per_s;	/* tokens that came, until then */
};

enum rt_status rt_serve_speed(const struct rt_engine *e,
			      const struct rt_speed_options *o,
			      struct rt_speed *out, struct rt_error *err);

/* ---- the command `serve` (serve.c) -------------------------------------- */

struct rt_serve_options {
	const char *model;	/* its name */
	const char *tokenizer;	/* as above */
	const char *chat;	/* a template; NULL: by the tokenizer */
	const char *reasoning;	/* a form of it that is told apart; or NULL */
	const char *host;	/* where to listen */
	int64_t port;		/* 0: any that is free */
	const char *key;	/* that requests must have, or NULL */
	const char *key_file;	/* a file whose first line it is, or NULL */
	int64_t queue;		/* answers that may wait; more get 429 */
	int64_t clients;	/* connections at a time */
	int64_t body_bytes;	/* most of a request */
	int64_t timeout_s;	/* of a connection that says nothing */
	double drain_s;		/* for answers under way at the end */
	bool no_sharing;	/* of blocks between equal prefixes */
	/* set, as by a signal, when the service is to end */
	const volatile sig_atomic_t *end_asked;
};

struct rt_serve_options rt_serve_plain(void);
/* Serves by HTTP until the end is asked for; says where on `out`. */
enum rt_status rt_serve(const struct rt_engine *e,
			const struct rt_serve_options *o, FILE *out,
			struct rt_error *err);

/* ---- memory of its host (serve_memory.c) -------------------------------- */

struct rt_serve_memory {
	int64_t index;		/* which tokens blocks of the cache have */
	int64_t steps;		/* what is in a step, and its logits */
	int64_t client;		/* of a connection and its request, at most */
};

/* In bytes, without the texts of answers. */
struct rt_serve_memory rt_serve_memory(const struct rt_engine *e,
				       const struct rt_serve_options *o);

#endif
