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
 * The folder includes runtime/ and runtime/tokenize.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef RT_SERVER_H
#define RT_SERVER_H

#include "runtime/error.h"

/* ---- what computes steps ------------------------------------------------ */

/*
 * The positions of one step.  A position is of one sequence; those of a
 * sequence follow each other, and so do its keys.  Sequences may share keys
 * that the same tokens led to, and one may read what another writes in the same
 * step: all keys and values of a layer are written before any is read.
 */
struct rt_serve_step {
	int64_t n;			/* positions, at least 1 */
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
	void *user;
	/* logits: [nrows][vocab].  A failure ends the service. */
	enum rt_status (*step)(void *user, const struct rt_serve_step *s,
			       float *logits, struct rt_error *err);
};

#endif
