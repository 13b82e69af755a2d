/*
 * Private to the scheduler: its sequences, in scheduler.c, what of them is in a
 * step, in fill.c, and which tokens may come next, in allow.c.
 */
#ifndef RT_SEQUENCES_H
#define RT_SEQUENCES_H

#include "runtime/serve/schedule/kv.h"
#include "runtime/serve/schedule/scheduler.h"

struct rt_replica;

struct rt_sequence {
	struct rt_sequence *next;
	struct rt_replica *on;	/* where it runs, or has blocks */
	struct rt_ask ask;
	int64_t arrival;
	int32_t *tokens;
	int64_t n, cap, ncomputed;
	int32_t *blocks;	/* for as many tokens as `cap` */
	int64_t nblocks;
	uint64_t content;	/* of the last full block */
	int64_t awaits;		/* the step that brings its logits, or -1 */
	/* there: the row of those of its next token, if it draws; before it
	 * those of so many tokens of the prompt that are scored */
	int64_t row, nscores;
	bool draws;
	int64_t nscored;	/* tokens of the prompt so far, but the first */
	int32_t *stops;
	/* of one with a guide: a bit for each token that may come next, and
	 * whether it may end, once they are found */
	uint64_t *allowed;
	bool may_end, is_found;
	bool is_guided;		/* its guide holds for the next token */
};

/* Sequences in the order in which they came. */
struct rt_sequences {
	struct rt_sequence *first;
	int64_t n;
};

/* Its sequences, and the arrays of its step. */
struct rt_replica {
	struct rt_kv *kv;
	struct rt_sequences running;
	int64_t turn;	/* arrival of the one that a step took last */
	int64_t kept_out;	/* steps without a place for a prompt */
	int64_t scores_left;	/* rows of its step left to score prompts */
	struct rt_serve_step *step;
	int32_t *token, *position, *slot, *first, *last, *key, *row;
	float *logits;
};

struct rt_scheduler {
	struct rt_engine e;
	struct rt_replica *replica;
	int64_t nreplicas;
	struct rt_serve_step *steps;	/* by replica */
	float *logits;
	struct rt_drawer *drawer;
	uint64_t *allowed;	/* a bit for each token */
	struct rt_sequences waiting;
	int64_t longest, arrivals;
	/* steps are numbered; those from `ended` to before `begun` are in
	 * flight, at most `most` */
	int64_t most, begun, ended;
	int64_t *positions;	/* of each in flight, as a ring */
	struct rt_serve_counts counts;
};

static inline int64_t
rt_least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t
rt_parts(int64_t n, int64_t size)
{
	return (n + size - 1) / size;
}

/* Words with a bit for each token. */
static inline size_t
rt_words(const struct rt_engine *e)
{
	return (size_t)e->vocab / 64 + 1;
}

/* ---- allow.c ---- */

/* A bit for each token that may come next; *out = NULL: any.  *whole: none may,
 * as the answer is complete as it is. */
enum rt_status rt_sequence_allow(struct rt_scheduler *s, struct rt_sequence *q,
				 const uint64_t **out, bool *whole,
				 struct rt_error *err);

/* ---- fill.c ---- */

void rt_sequences_insert(struct rt_sequences *list, struct rt_sequence *q);
/* False: it is not there. */
bool rt_sequences_take_out(struct rt_sequences *list,
			   const struct rt_sequence *q);
void rt_sequence_give_back(struct rt_sequence *q);
/* Lets sequences in and fills the next step of each replica; returns how many
 * positions all have. */
int64_t rt_fill_steps(struct rt_scheduler *s);

#endif
