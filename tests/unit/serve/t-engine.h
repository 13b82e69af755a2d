/*
 * An engine without a model, for tests of what serves: logits are a hash of the
 * tokens that a position finds in the cache through the slots of its step.  If
 * one slot is wrong, or was given to two sequences, tokens change.  A step that
 * breaks a promise of server.h is an error.
 */
#ifndef T_ENGINE_H
#define T_ENGINE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/serve/schedule/scheduler.h"

struct fake_engine {
	struct rt_engine e;
	int32_t *token, *position;	/* of each slot; -1: never written */
	int64_t steps, ended;
	int64_t fails_at;	/* a step that fails, or -1 */
	int64_t broken;		/* what begins with it has NaN, or -1 */
	float *logits;		/* of steps in flight, as a ring */
	int64_t together;	/* the most that were in flight */
	/* the tokens that are likeliest from a position on; or NULL */
	const char *script;
	int64_t script_at;
	/* called in each step, or NULL: a test's pause */
	void (*pause)(void);
	/* which tokens may come in its sequences is found while a step ends;
	 * or NULL */
	struct rt_scheduler *finds;
};

static inline uint64_t
fake_mix(uint64_t h)
{
	h = (h ^ h >> 31) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

/* Logits that are no multiples of anything, so that the last bits count. */
static inline void
fake_logits(uint64_t h, int64_t vocab, float *out)
{
	int64_t v;

	for (v = 0; v < vocab; v++) {
		out[v] = (float)(fake_mix(h + (uint64_t)v * 0x1234567u) >> 40) *
			 0x1p-21f - 4;
	}
}

static inline bool
fake_step_is_legal(const struct fake_engine *f, const struct rt_serve_step *s)
{
	const struct rt_engine *e = &f->e;
	bool ok = s->n >= 1 && s->n <= e->tokens && s->nrows <= e->rows &&
		  s->nrows <= s->n && s->nkeys <= e->keys;
	int64_t i;

	for (i = 0; ok && i < s->n; i++) {
		ok = s->token[i] >= 0 && s->token[i] < e->vocab &&
		     s->slot[i] >= 0 && s->slot[i] < e->blocks * e->block &&
		     s->first[i] >= 0 && s->first[i] % e->align == 0 &&
		     s->last[i] - s->first[i] == s->position[i] &&
		     s->last[i] < s->nkeys && s->position[i] < e->context &&
		     s->key[s->last[i]] == s->slot[i];
	}
	for (i = 0; ok && i < s->nrows; i++) {
		ok = s->row[i] >= 0 && s->row[i] < s->n &&
		     (i == 0 || s->row[i] > s->row[i - 1]);
	}
	return ok;
}

static inline int64_t
fake_replicas(const struct fake_engine *f)
{
	return f->e.replicas > 1 ? f->e.replicas : 1;
}

/* What comes after a position by the script. */
static inline void
fake_script(const struct fake_engine *f, int64_t position, float *logits)
{
	int64_t at = position + 1 - f->script_at;

	if (f->script && at >= 0 && at < (int64_t)strlen(f->script)) {
		logits[(unsigned char)f->script[at]] = 100;
	}
}

/* The step of a replica, whose slots are so many. */
static inline enum rt_status
fake_step_of(const struct fake_engine *f, int64_t replica,
	     const struct rt_serve_step *s, float *logits,
	     struct rt_error *err)
{
	int64_t slots = f->e.blocks * f->e.block, i, k;
	int32_t *token = f->token + replica * slots;
	int32_t *position = f->position + replica * slots;

	if (s->n == 0 && f->e.replicas > 1) {
		return RT_OK;
	}
	if (!fake_step_is_legal(f, s)) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "no legal step");
	}
	for (i = 0; i < s->n; i++) {
		token[s->slot[i]] = s->token[i];
		position[s->slot[i]] = s->position[i];
	}
	for (i = 0; i < s->nrows; i++) {
		int64_t at = s->row[i];
		uint64_t h = 1;

		for (k = s->first[at]; k <= s->last[at]; k++) {
			int32_t slot = s->key[k];

			if (position[slot] != k - s->first[at]) {
				return rt_fail(err, RT_RANGE, RT_NOWHERE,
					       "a key of another position");
			}
			h = fake_mix(h * 31 + (uint64_t)token[slot] + 1);
		}
		fake_logits(h, f->e.vocab, logits + i * f->e.vocab);
		fake_script(f, s->position[at], logits + i * f->e.vocab);
		for (k = 0; token[s->key[s->first[at]]] == f->broken &&
			    k < f->e.vocab; k++) {
			logits[i * f->e.vocab + k] = NAN;
		}
	}
	return RT_OK;
}

static inline int64_t
fake_in_flight(const struct fake_engine *f)
{
	return f->e.in_flight > 1 ? f->e.in_flight : 1;
}

/* The logits of all replicas: how many, and those of a step. */
static inline int64_t
fake_nlogits(const struct fake_engine *f)
{
	return fake_replicas(f) * f->e.rows * f->e.vocab;
}

static inline float *
fake_logits_at(const struct fake_engine *f, int64_t step)
{
	return f->logits + step % fake_in_flight(f) * fake_nlogits(f);
}

static inline enum rt_status
fake_begin(void *user, const struct rt_serve_step *s, struct rt_error *err)
{
	struct fake_engine *f = user;
	float *logits = fake_logits_at(f, f->steps);
	enum rt_status status = RT_OK;
	int64_t i, n = f->steps + 1 - f->ended;

	if (n > fake_in_flight(f)) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "too many steps");
	}
	f->together = n > f->together ? n : f->together;
	if (f->steps++ == f->fails_at) {
		return rt_fail(err, RT_IO, RT_NOWHERE, "the engine failed");
	}
	if (f->pause) {
		f->pause();
	}
	for (i = 0; i < fake_replicas(f) && status == RT_OK; i++) {
		status = fake_step_of(f, i, &s[i], logits + i * f->e.rows *
				      f->e.vocab, err);
	}
	return status;
}

static inline enum rt_status
fake_end(void *user, float *logits, struct rt_error *err)
{
	struct fake_engine *f = user;

	if (f->ended == f->steps) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "no step to end");
	}
	memcpy(logits, fake_logits_at(f, f->ended++),
	       (size_t)fake_nlogits(f) * sizeof *logits);
	return f->finds ? rt_scheduler_find_allowed(f->finds, err) : RT_OK;
}

/* The bounds are those of `e`, whose functions and user are set here. */
static inline bool
fake_open(struct fake_engine *f, struct rt_engine e)
{
	size_t n = (size_t)(e.blocks * e.block), i;

	*f = (struct fake_engine){ .e = e, .fails_at = -1,
				   .broken = -1 };
	n *= (size_t)fake_replicas(f);
	f->e.begin = fake_begin;
	f->e.end = fake_end;
	f->e.user = f;
	f->logits = calloc((size_t)(fake_in_flight(f) * fake_nlogits(f)),
			   sizeof *f->logits);
	f->token = calloc(n, sizeof *f->token);
	f->position = calloc(n, sizeof *f->position);
	for (i = 0; f->position && i < n; i++) {
		f->position[i] = -1;
	}
	return f->token && f->position && f->logits;
}

static inline void
fake_close(struct fake_engine *f)
{
	free(f->token);
	free(f->position);
	free(f->logits);
}

#endif
