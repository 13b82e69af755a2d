/*
 * The service; see service.h.
 *
 * The scheduler runs under the lock, and the engine that it sees is one that
 * lets the lock go while the real one computes, and while it is found which
 * tokens may come next in answers that follow a grammar: only the thread that
 * computes changes the scheduler and its guides.  So tokens and ends reach
 * replies under the lock, and nothing else has to.
 */
#define _GNU_SOURCE	/* CLOCK_MONOTONIC for conditions */

#include "runtime/serve/http/service.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define IDLE_S 5	/* between calls of the engine without a step */
#define LOOK_S 0.1	/* between looks at signals and clients */

/* A request on its way. */
struct rt_exchange {
	struct rt_service *service;
	struct rt_reply *reply;
	struct rt_exchange *next;
	pthread_cond_t news;	/* of its client's thread */
	bool added;		/* its sequences are the scheduler's */
	bool left;		/* its client is gone, or has it all */
	size_t taken;		/* bytes of the reply */
	double submitted, last;	/* when it came, and its last token */
};

struct rt_service {
	struct rt_service_options o;
	struct rt_engine engine;	/* lets the lock go */
	struct rt_scheduler *scheduler;
	pthread_mutex_t lock;
	pthread_cond_t work;	/* of the thread that computes */
	pthread_condattr_t clock;
	bool has_lock, ending;
	struct rt_exchange *first;
	int64_t nexchanges, nwaiting;	/* nwaiting: not added yet */
	uint64_t ids;
	struct rt_service_counts counts;
};

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void
wait_for(struct rt_service *s, pthread_cond_t *c, double seconds)
{
	double until = now_s() + seconds;
	struct timespec t = { .tv_sec = (time_t)until };

	t.tv_nsec = (long)((until - (double)t.tv_sec) * 1e9);
	pthread_cond_timedwait(c, &s->lock, &t);
}

/* ---- metrics ---- */

double
rt_bucket_end(int i)
{
	static const double ends[RT_BUCKETS] = {
		0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
		2.5, 5, 10, 30, 60, 120, 300
	};

	return ends[i];
}

static void
count_seconds(struct rt_histogram *h, double v)
{
	int i = 0;

	while (i < RT_BUCKETS && v > rt_bucket_end(i)) {
		i++;
	}
	h->count[i]++;
	h->sum += v;
}

struct rt_service_counts
rt_service_counts(struct rt_service *s)
{
	struct rt_service_counts c;

	pthread_mutex_lock(&s->lock);
	c = s->counts;
	c.steps = rt_scheduler_counts(s->scheduler);
	c.steps.waiting += s->nwaiting;
	pthread_mutex_unlock(&s->lock);
	return c;
}

bool
rt_service_is_ending(struct rt_service *s)
{
	bool ending;

	pthread_mutex_lock(&s->lock);
	ending = s->ending || *s->o.end_asked;
	pthread_mutex_unlock(&s->lock);
	return ending;
}

/* ---- life ---- */

static enum rt_status
begin_unlocked(void *user, const struct rt_serve_step *step,
	       struct rt_error *err)
{
	struct rt_service *s = user;
	const struct rt_engine *e = s->o.engine;
	enum rt_status status;

	pthread_mutex_unlock(&s->lock);
	status = e->begin(e->user, step, err);
	pthread_mutex_lock(&s->lock);
	return status;
}

static enum rt_status
end_unlocked(void *user, float *logits, struct rt_error *err)
{
	struct rt_service *s = user;
	const struct rt_engine *e = s->o.engine;
	enum rt_status status;

	pthread_mutex_unlock(&s->lock);
	status = rt_scheduler_find_allowed(s->scheduler, err);
	if (status == RT_OK) {
		status = e->end(e->user, logits, err);
	}
	pthread_mutex_lock(&s->lock);
	return status;
}

static uint64_t
random_number(void)
{
	uint64_t x = (uint64_t)(now_s() * 1e9) * 0x9e3779b97f4a7c15u;
	FILE *f = fopen("/dev/urandom", "rb");

	if (f) {
		if (fread(&x, sizeof x, 1, f) != 1) {
			x ^= x >> 29;
		}
		fclose(f);
	}
	return x;
}

static bool
open_lock(struct rt_service *s)
{
	s->has_lock = pthread_condattr_init(&s->clock) == 0 &&
		      pthread_condattr_setclock(&s->clock,
						CLOCK_MONOTONIC) == 0 &&
		      pthread_mutex_init(&s->lock, NULL) == 0 &&
		      pthread_cond_init(&s->work, &s->clock) == 0;
	return s->has_lock;
}

static void
free_exchange(struct rt_exchange *x)
{
	rt_reply_free(x->reply);
	pthread_cond_destroy(&x->news);
	free(x);
}

enum rt_status
rt_service_open(struct rt_service **out, const struct rt_service_options *o,
		struct rt_error *err)
{
	struct rt_service *s = calloc(1, sizeof *s);
	enum rt_status status;

	*out = NULL;
	if (!s) {
		return rt_no_memory(err, NULL);
	}
	s->o = *o;
	s->engine = *o->engine;
	s->engine.begin = begin_unlocked;
	s->engine.end = end_unlocked;
	s->engine.user = s;
	s->ids = random_number();
	status = open_lock(s) ? rt_scheduler_open(&s->scheduler, &s->engine,
						  !o->no_sharing, err)
			      : rt_no_memory(err, NULL);
	if (status != RT_OK) {
		rt_service_free(s);
		return status;
	}
	*out = s;
	return RT_OK;
}

void
rt_service_free(struct rt_service *s)
{
	struct rt_exchange *x;

	rt_scheduler_free(s->scheduler);
	while ((x = s->first)) {
		s->first = x->next;
		free_exchange(x);
	}
	if (s->has_lock) {
		pthread_mutex_destroy(&s->lock);
		pthread_cond_destroy(&s->work);
		pthread_condattr_destroy(&s->clock);
	}
	free(s);
}

struct rt_codec *
rt_service_codec(const struct rt_service *s)
{
	return s->o.codec;
}

const char *
rt_service_model(const struct rt_service *s)
{
	return s->o.model;
}

int64_t
rt_service_context(const struct rt_service *s)
{
	return rt_scheduler_longest(s->scheduler);
}

/* ---- submitting ---- */

/* Appends, so that requests are added in the order in which they came. */
static void
append(struct rt_service *s, struct rt_exchange *x)
{
	struct rt_exchange **at = &s->first;

	while (*at) {
		at = &(*at)->next;
	}
	*at = x;
	s->nexchanges++;
	s->nwaiting += x->reply->nchoices;
}

static enum rt_submitted
admit(struct rt_service *s, struct rt_exchange *x,
      struct rt_error *err)
{
	struct rt_serve_counts c = rt_scheduler_counts(s->scheduler);
	int64_t waiting = c.waiting + s->nwaiting;

	if (s->ending) {
		return RT_SUBMIT_ENDING;
	}
	if (x->reply->nchoices > s->o.queue) {
		rt_fail(err, RT_RANGE, RT_NOWHERE, "%lld answers are more "
			"than may wait, which is %lld",
			(long long)x->reply->nchoices,
			(long long)s->o.queue);
		return RT_SUBMIT_WRONG;
	}
	if (waiting + x->reply->nchoices > s->o.queue) {
		s->counts.refused++;
		return RT_SUBMIT_FULL;
	}
	s->counts.requests++;
	s->counts.prompt_tokens += (int64_t)x->reply->request.ids.n;
	append(s, x);
	pthread_cond_signal(&s->work);
	return RT_SUBMITTED;
}

enum rt_submitted
rt_service_submit(struct rt_service *s, struct rt_request *request,
		  struct rt_reply **out, struct rt_error *err)
{
	enum rt_submitted result;
	struct rt_exchange *x;
	bool too_long;
	uint64_t id;

	*out = NULL;
	if (rt_request_fit(request, rt_service_context(s), s->o.codec->vocab,
			   &too_long, err) != RT_OK) {
		rt_request_release(request);
		return too_long ? RT_SUBMIT_LONG : RT_SUBMIT_WRONG;
	}
	pthread_mutex_lock(&s->lock);
	id = s->ids += 0x9e3779b97f4a7c15u;
	pthread_mutex_unlock(&s->lock);
	request->draw.seed = request->has_seed ? (uint64_t)request->seed : id;
	x = calloc(1, sizeof *x);
	if (!x) {
		rt_request_release(request);
		rt_no_memory(err, NULL);
		return RT_SUBMIT_FAILED;
	}
	if (rt_reply_open(&x->reply, request, s->o.codec, s->o.model, id,
			  (int64_t)time(NULL), err) != RT_OK) {
		free(x);
		return RT_SUBMIT_FAILED;
	}
	if (pthread_cond_init(&x->news, &s->clock) != 0) {
		rt_reply_free(x->reply);
		free(x);
		rt_no_memory(err, NULL);
		return RT_SUBMIT_FAILED;
	}
	x->service = s;
	x->reply->user = x;
	x->submitted = now_s();
	pthread_mutex_lock(&s->lock);
	result = admit(s, x, err);
	pthread_mutex_unlock(&s->lock);
	if (result != RT_SUBMITTED) {
		free_exchange(x);
		return result;
	}
	*out = x->reply;
	return RT_SUBMITTED;
}

int64_t
rt_service_take(struct rt_service *s, struct rt_reply *r, char *to,
		size_t most, bool (*is_gone)(void *user), void *user)
{
	struct rt_exchange *x = r->user;
	size_t n;
	bool gone = false;

	pthread_mutex_lock(&s->lock);
	while (!gone && !r->ended &&
	       (!r->request.stream || r->out.n == x->taken)) {
		wait_for(s, &x->news, LOOK_S);
		if (!r->ended && r->out.n == x->taken) {
			pthread_mutex_unlock(&s->lock);
			gone = is_gone(user);
			pthread_mutex_lock(&s->lock);
		}
	}
	n = r->out.n - x->taken < most ? r->out.n - x->taken : most;
	if (n > 0 && !gone) {
		memcpy(to, r->out.at + x->taken, n);
		x->taken += n;
	}
	if (x->taken == r->out.n && !r->ended) {
		/* what was sent need not be kept */
		r->out.n = x->taken = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return gone ? -1 : (int64_t)n;
}

bool
rt_service_leave(struct rt_service *s, struct rt_reply *r)
{
	bool failed;

	pthread_mutex_lock(&s->lock);
	failed = r->failed;
	((struct rt_exchange *)r->user)->left = true;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
	return failed;
}

/* ---- the thread that computes ---- */

static bool
on_token(void *user, const struct rt_drawn *t)
{
	struct rt_choice *c = user;
	struct rt_exchange *x = c->reply->user;
	struct rt_service *s = x->service;
	double now = now_s();

	if (x->last == 0) {
		count_seconds(&s->counts.first_token, now - x->submitted);
	} else if (x->reply->nchoices == 1) {
		count_seconds(&s->counts.next_token, now - x->last);
	}
	x->last = now;
	return rt_choice_add(c, t);
}

static void
on_score(void *user, const struct rt_drawn *t)
{
	rt_choice_score(user, t);
}

static bool
on_guided(void *user)
{
	return rt_choice_is_guided(user);
}

static void
on_end(void *user, enum rt_ended why, int64_t ndrawn)
{
	struct rt_choice *c = user;
	struct rt_exchange *x = c->reply->user;
	struct rt_service *s = x->service;

	rt_choice_end(c, why, ndrawn);
	s->counts.ended[c->why]++;
	if (c->reply->ended && !c->reply->failed) {
		count_seconds(&s->counts.whole, now_s() - x->submitted);
	}
}

/* The tokens that end an answer: the model's, unless they are to be ignored,
 * and the client's. */
static enum rt_status
list_stops(const struct rt_service *s, const struct rt_request *q,
	   struct rt_ids *out, struct rt_error *err)
{
	const struct rt_ids *lists[] = { &s->o.codec->stops, &q->stop_ids };
	size_t i, k;

	for (k = q->ignore_eos ? 1 : 0; k < 2; k++) {
		for (i = 0; i < lists[k]->n; i++) {
			if (!rt_ids_add(out, lists[k]->at[i])) {
				return rt_no_memory(err, NULL);
			}
		}
	}
	return RT_OK;
}

static enum rt_status
add_choices(struct rt_service *s, struct rt_exchange *x, struct rt_error *err)
{
	const struct rt_request *q = &x->reply->request;
	struct rt_ids stops = { .alloc = rt_alloc_or_libc(NULL) };
	enum rt_status status = list_stops(s, q, &stops, err);
	int64_t i, n;

	for (i = 0; i < x->reply->nchoices && status == RT_OK; i++) {
		struct rt_choice *c = &x->reply->choices[i];
		struct rt_ask ask = { .most = q->most, .choice = i % q->n,
			.draw = q->draw, .nstops = (int64_t)stops.n,
			.least = q->least, .guide = c->guide,
			.guided = q->reasoning && c->guide ? on_guided : NULL,
			.score = q->echo && q->logprobs ? on_score : NULL,
			.token = on_token, .end = on_end, .user = c };

		/* ids are below 2^31, as the vocabulary is */
		ask.prompt = (const void *)rt_choice_prompt(c, &n);
		ask.nprompt = n;
		ask.stops = (const void *)stops.at;
		status = rt_scheduler_add(s->scheduler, &ask, &c->seq, err);
	}
	rt_ids_release(&stops);
	return status;
}

static void
cancel(struct rt_service *s, struct rt_exchange *x)
{
	int64_t i;

	for (i = 0; i < x->reply->nchoices; i++) {
		if (x->reply->choices[i].seq) {
			rt_scheduler_cancel(s->scheduler,
					    x->reply->choices[i].seq);
		}
	}
}

/* Adds what came, cancels what was left, and frees what is over. */
static void
look_at_exchanges(struct rt_service *s)
{
	struct rt_exchange **at = &s->first, *x;
	struct rt_error err = { .message = "" };

	while ((x = *at)) {
		if (!x->added) {
			x->added = true;
			s->nwaiting -= x->reply->nchoices;
			if (!x->left && !x->reply->ended &&
			    add_choices(s, x, &err) != RT_OK) {
				rt_reply_fail(x->reply, err.message);
			}
		}
		if (x->left && !x->reply->ended) {
			s->counts.cancelled++;
		}
		if (x->left || x->reply->ended) {
			cancel(s, x);
		}
		if (x->left) {
			*at = x->next;
			s->nexchanges--;
			free_exchange(x);
		} else {
			at = &x->next;
		}
	}
}

/* Wakes the threads that have something to send, and no others: of answers that
 * are no streams there is nothing until they end. */
static void
tell_clients(struct rt_service *s)
{
	struct rt_exchange *x;

	for (x = s->first; x; x = x->next) {
		const struct rt_reply *r = x->reply;

		if (r->ended || (r->request.stream && r->out.n > x->taken)) {
			pthread_cond_signal(&x->news);
		}
	}
}

static void
fail_all(struct rt_service *s, const char *message)
{
	struct rt_exchange *x;

	s->ending = true;
	for (x = s->first; x; x = x->next) {
		rt_reply_fail(x->reply, message);
	}
}

static bool
is_busy(const struct rt_service *s)
{
	struct rt_serve_counts c = rt_scheduler_counts(s->scheduler);

	return c.running + c.waiting + c.in_flight + s->nwaiting > 0;
}

/* Waits for work; *since is when the engine was called last. */
static enum rt_status
rest(struct rt_service *s, double *since, struct rt_error *err)
{
	const struct rt_engine *e = s->o.engine;

	wait_for(s, &s->work, LOOK_S);
	if (!e->idle || now_s() - *since < IDLE_S) {
		return RT_OK;
	}
	*since = now_s();
	return e->idle(e->user, err);
}

enum rt_status
rt_service_run(struct rt_service *s, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	double asked = 0, since = now_s();

	pthread_mutex_lock(&s->lock);
	for (;;) {
		if (*s->o.end_asked && !s->ending) {
			s->ending = true;
			asked = now_s();
		}
		if (s->ending && now_s() - asked > s->o.drain_s) {
			fail_all(s, "the service ends");
		}
		look_at_exchanges(s);
		if (is_busy(s)) {
			status = rt_scheduler_step(s->scheduler, err);
			tell_clients(s);
			since = now_s();
		} else if (s->ending) {
			break;
		} else {
			status = rest(s, &since, err);
		}
		if (status != RT_OK) {
			fail_all(s, err->message);
			break;
		}
	}
	tell_clients(s);
	pthread_mutex_unlock(&s->lock);
	return status;
}

void
rt_service_wait_left(struct rt_service *s)
{
	double until = now_s() + 5;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		look_at_exchanges(s);
		tell_clients(s);
		if (s->nexchanges == 0 || now_s() > until) {
			break;
		}
		wait_for(s, &s->work, LOOK_S);
	}
	pthread_mutex_unlock(&s->lock);
}
