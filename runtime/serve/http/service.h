/*
 * Private to runtime/serve: the one thread that computes, and the many that
 * speak to clients.
 *
 * A thread of a client submits a request, takes bytes of its reply as they
 * come, and leaves; who leaves early cancels.  One thread runs the scheduler.
 * A lock guards all of it, but for the computation of a step.
 */
#ifndef RT_SERVICE_H
#define RT_SERVICE_H

#include <signal.h>

#include "runtime/serve/api/reply.h"

struct rt_service;

/* Of what is counted for the metrics: buckets, by their upper ends. */
enum { RT_BUCKETS = 17 };

struct rt_histogram {
	int64_t count[RT_BUCKETS + 1];
	double sum;
};

struct rt_service_counts {
	struct rt_serve_counts steps;
	int64_t requests, refused, cancelled, prompt_tokens;
	int64_t ended[RT_ENDED_BROKEN + 1];	/* answers, by why */
	/* seconds */
	struct rt_histogram first_token, next_token, whole;
};

struct rt_service_options {
	const struct rt_engine *engine;
	struct rt_codec *codec;
	const char *model;
	int64_t queue;		/* sequences that may wait */
	bool no_sharing;
	double drain_s;		/* for requests that run when the end comes */
	const volatile sig_atomic_t *end_asked;
};

/* How a submission went. */
enum rt_submitted {
	RT_SUBMITTED,
	RT_SUBMIT_WRONG,	/* the client's fault, as err says */
	RT_SUBMIT_LONG,		/* the same: longer than a sequence may be */
	RT_SUBMIT_FULL,		/* later there may be space */
	RT_SUBMIT_ENDING,	/* the service ends */
	RT_SUBMIT_FAILED,
};

enum rt_status rt_service_open(struct rt_service **out,
			       const struct rt_service_options *o,
			       struct rt_error *err);
void rt_service_free(struct rt_service *s);
/* Computes until the end is asked for, and what runs then is answered; or the
 * engine fails, which all that run are told. */
enum rt_status rt_service_run(struct rt_service *s, struct rt_error *err);
/* Waits until all replies were left, but not for ever. */
void rt_service_wait_left(struct rt_service *s);

/* ---- for threads of clients ---- */

struct rt_codec *rt_service_codec(const struct rt_service *s);
const char *rt_service_model(const struct rt_service *s);
/* The most tokens of a prompt and its answer. */
int64_t rt_service_context(const struct rt_service *s);
/* Owns the request from here on, on failure as well. */
enum rt_submitted rt_service_submit(struct rt_service *s,
				    struct rt_request *request,
				    struct rt_reply **out,
				    struct rt_error *err);
/*
 * Waits for bytes of a stream, or for the end of any other reply, as long as
 * is_gone() is false; copies at most `most`.  0: it has ended; -1: gone.
 */
int64_t rt_service_take(struct rt_service *s, struct rt_reply *r, char *to,
			size_t most, bool (*is_gone)(void *user), void *user);
/* Whether a reply that is no stream failed. */
bool rt_service_leave(struct rt_service *s, struct rt_reply *r);
struct rt_service_counts rt_service_counts(struct rt_service *s);
/* Whether it takes no requests any more. */
bool rt_service_is_ending(struct rt_service *s);
double rt_bucket_end(int i);

#endif
