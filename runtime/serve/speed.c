/*
 * How fast an engine answers sequences of drawn tokens that all come at once.
 */
#include <math.h>
#include <stdlib.h>

#include "runtime/serve/schedule/scheduler.h"

struct speed_run {
	const struct rt_speed_options *o;
	int32_t *prompt;
	double began_ms;
	/* when each sequence got its first token */
	double *first_ms;
	int64_t nfirst;
	/* rounds without a token of a prompt that drew the most tokens */
	double *step_ms;
	int64_t nsteps, drawn;	/* drawn: in each */
	/* of the last steps, as a ring of `nlast` */
	struct speed_step {
		double ended_ms;
		int64_t drawn, in_flight;	/* it and others */
		bool has_prompts;
	} *last;
	int64_t nlast;
	/* of all that came */
	int64_t all_drawn;
	double all_ms;
	bool broken;	/* logits of one are no finite numbers */
};

/* ---- lengths ---- */

/*
 * A length of sequence i.  Multiples of an irrational number, without their
 * whole parts, fill the numbers from 0 to 1 evenly, however many there are.
 */
static int64_t
length_of(const struct rt_speed_options *o, int64_t mean, int64_t i,
	  double irrational)
{
	double at = (double)i * irrational, n;

	n = floor((double)mean * (0.5 + at - floor(at)));
	return !o->mixed ? mean : n > 1 ? (int64_t)n : 1;
}

static int64_t
prompt_of(const struct rt_speed_options *o, int64_t i)
{
	return length_of(o, o->prompt, i, 0.6180339887498949);
}

static int64_t
tokens_of(const struct rt_speed_options *o, int64_t i)
{
	return length_of(o, o->tokens, i, 0.4142135623730951);
}

/* The longest of a mean that is at most half of what an int64_t holds. */
static int64_t
longest_of(const struct rt_speed_options *o, int64_t mean)
{
	return o->mixed ? mean + mean / 2 : mean;
}

/* ---- sequences ---- */

/* A sequence of the measurement. */
struct speed_sequence {
	struct speed_run *m;
	bool has_token;
};

static bool
on_token(void *user, const struct rt_drawn *t)
{
	struct speed_sequence *q = user;
	struct speed_run *m = q->m;

	(void)t;
	if (!q->has_token) {
		q->has_token = true;
		m->first_ms[m->nfirst++] = m->o->now_ms() - m->began_ms;
	}
	return true;
}

static void
on_end(void *user, enum rt_ended why, int64_t ndrawn)
{
	struct speed_sequence *q = user;

	(void)ndrawn;
	q->m->broken |= why == RT_ENDED_BROKEN;
}

/* Number i of those of a seed, by splitmix64. */
static uint64_t
draw(uint64_t seed, int64_t i)
{
	uint64_t z = seed + (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Sequence i, of a prompt of its own. */
static enum rt_status
add_one(struct speed_run *m, struct speed_sequence *q, struct rt_scheduler *s,
	int64_t i, int64_t vocab, struct rt_error *err)
{
	const struct rt_speed_options *o = m->o;
	struct rt_ask ask = { .prompt = m->prompt, .nprompt = prompt_of(o, i),
		.most = tokens_of(o, i), .draw = rt_draw_plain(),
		.token = on_token, .end = on_end, .user = q };
	struct rt_sequence *ignored;
	int64_t j;

	*q = (struct speed_sequence){ .m = m };
	for (j = 0; j < ask.nprompt; j++) {
		uint64_t z = draw(o->seed, i * longest_of(o, o->prompt) + j);

		m->prompt[j] = (int32_t)(z % (uint64_t)vocab);
	}
	ask.draw.temperature = 0;
	return rt_scheduler_add(s, &ask, &ignored, err);
}

static void
count_round(struct speed_run *m, int64_t drawn, double ms)
{
	if (drawn > m->drawn) {
		m->drawn = drawn;
		m->nsteps = 0;
	}
	if (drawn == m->drawn) {
		m->step_ms[m->nsteps++] = ms;
	}
}

/* Counts the round whose last step is number `to` of this run: as many as were
 * in flight, in all of it. */
static void
end_round(struct speed_run *m, int64_t to)
{
	const struct speed_step *last = &m->last[to % m->nlast], *x;
	int64_t drawn = 0, n = last->in_flight, i;

	if (to < n) {
		return;
	}
	for (i = to - n + 1; i <= to; i++) {
		x = &m->last[i % m->nlast];
		if (x->has_prompts || x->in_flight != n) {
			return;
		}
		drawn += x->drawn;
	}
	count_round(m, drawn, last->ended_ms -
		    m->last[(to - n) % m->nlast].ended_ms);
}

static enum rt_status
run_all(struct speed_run *m, struct rt_scheduler *s, struct rt_error *err)
{
	struct rt_serve_counts before, c = rt_scheduler_counts(s);
	enum rt_status status = RT_OK;
	int64_t n = 0, drawn = c.drawn;

	m->nfirst = m->nsteps = m->drawn = 0;
	m->began_ms = m->o->now_ms();
	m->last[0] = (struct speed_step){ .ended_ms = m->began_ms };
	while (status == RT_OK && c.waiting + c.running + c.in_flight > 0) {
		before = c;
		status = rt_scheduler_step(s, err);
		if (status == RT_OK && m->broken) {
			status = rt_fail(err, RT_FORMAT, RT_NOWHERE, "the "
				"model's logits are no finite numbers");
		}
		c = rt_scheduler_counts(s);
		if (status != RT_OK || c.steps == before.steps) {
			continue;
		}
		m->last[++n % m->nlast] = (struct speed_step){
			m->o->now_ms(), c.drawn - before.drawn,
			c.in_flight + 1, c.computed - before.computed !=
			c.drawn - before.drawn };
		end_round(m, n);
	}
	m->all_drawn = c.drawn - drawn;
	m->all_ms = m->o->now_ms() - m->began_ms;
	return status;
}

/* ---- results ---- */

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(double *at, int64_t n)
{
	qsort(at, (size_t)n, sizeof *at, compare);
	return at[n / 2];
}

static struct rt_speed
result(struct speed_run *m)
{
	const struct rt_speed_options *o = m->o;
	struct rt_speed r = { .first_ms = median(m->first_ms, m->nfirst) };
	int64_t prompts = 0, i;

	r.prompts_ms = m->first_ms[m->nfirst - 1];
	for (i = 0; i < o->sequences; i++) {
		prompts += prompt_of(o, i);
	}
	r.prompts_per_s = 1e3 * (double)prompts / r.prompts_ms;
	r.all_ms = m->all_ms;
	r.all_per_s = 1e3 * (double)m->all_drawn / m->all_ms;
	r.nsteps = m->nsteps;
	if (r.nsteps > 0) {
		r.token_ms = median(m->step_ms, m->nsteps);
		r.tokens_per_s = 1e3 * (double)m->drawn / r.token_ms;
	}
	return r;
}

static enum rt_status
check(const struct rt_speed_options *o, const struct rt_scheduler *s,
      struct rt_error *err)
{
	int64_t longest = rt_scheduler_longest(s);
	int64_t prompt = o->prompt, tokens = o->tokens;

	if (prompt <= longest - tokens) {
		prompt = longest_of(o, prompt);
		tokens = longest_of(o, tokens);
	}
	return prompt <= longest - tokens ? RT_OK :
		rt_fail(err, RT_RANGE, RT_NOWHERE, "a prompt of %lld tokens, "
			"and %lld more: this program has at most %lld "
			"together; --prompt-tokens and --tokens say how many",
			(long long)prompt, (long long)tokens,
			(long long)longest);
}

/* Sequences from `first` on, n of them, until all have ended. */
static enum rt_status
run_some(struct speed_run *m, struct speed_sequence *q, int64_t first,
	 int64_t n, struct rt_scheduler *s, int64_t vocab,
	 struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < n && status == RT_OK; i++) {
		status = add_one(m, &q[i], s, first + i, vocab, err);
	}
	return status == RT_OK ? run_all(m, s, err) : status;
}

/* Room for n sequences, whose lengths are checked. */
static bool
get_room(struct speed_run *m, struct speed_sequence **q, size_t n,
	 int64_t in_flight)
{
	m->nlast = (in_flight > 1 ? in_flight : 1) + 1;
	m->last = calloc((size_t)m->nlast, sizeof *m->last);
	m->prompt = calloc((size_t)longest_of(m->o, m->o->prompt),
			   sizeof *m->prompt);
	m->first_ms = calloc(n, sizeof *m->first_ms);
	/* each step without prompts draws at least one token */
	m->step_ms = calloc(n, (size_t)longest_of(m->o, m->o->tokens) *
				       sizeof *m->step_ms);
	*q = calloc(n, sizeof **q);
	return m->last && m->prompt && m->first_ms && m->step_ms && *q;
}

enum rt_status
rt_serve_speed(const struct rt_engine *e, const struct rt_speed_options *o,
	       struct rt_speed *out, struct rt_error *err)
{
	int64_t nwarm = e->replicas > 1 ? e->replicas : 1;
	int64_t most = o->sequences > nwarm ? o->sequences : nwarm;
	struct speed_run m = { .o = o };
	struct speed_sequence *q = NULL;
	struct rt_scheduler *s;
	enum rt_status status = rt_scheduler_open(&s, e, true, err);

	status = status == RT_OK ? check(o, s, err) : status;
	if (status == RT_OK && !get_room(&m, &q, (size_t)most,
					 e->in_flight)) {
		status = rt_no_memory(err, NULL);
	}
	if (status == RT_OK) {
		/* pages and caches of a replica that ran nothing are cold */
		status = run_some(&m, q, o->sequences, nwarm, s, e->vocab, err);
	}
	if (status == RT_OK) {
		status = run_some(&m, q, 0, o->sequences, s, e->vocab, err);
	}
	rt_scheduler_free(s);
	if (status == RT_OK) {
		*out = result(&m);
	}
	free(m.last);
	free(m.prompt);
	free(m.first_ms);
	free(m.step_ms);
	free(q);
	return status;
}
