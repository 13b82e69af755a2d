/*
 * Published measurements of serving beside passes/serve.  A line of the table
 * has up to three figures, and each becomes a row: the time for a token, the
 * time to the first, and tokens a second, as the time that a token takes of
 * the whole machine; or the time of a batch that begins and ends together.
 */
#include "frontend/validate/validate_serve.h"

#include <math.h>
#include <string.h>

static const char *const columns[SERVING_NCOLUMNS] = {
	"model", "gpu", "n_gpus", "tp", "pp", "ep", "precision", "framework",
	"input_len", "output_len", "batch_or_concurrency", "scenario",
	"throughput_out_tok_s", "ttft_ms", "tpot_ms", "source"
};

#define MOST_CLIENTS 65536

/*
 * Requests, for each that is in flight: what scripts around AIPerf and vLLM's
 * benchmark usually ask for; from memory.
 */
#define WAVES 10

/* Halvings of a number of requests, until it is known to one of 10^9. */
#define HALVINGS 30

struct serving_figures {
	double tpot_us, ttft_us, latency_us, tokens_s;
};

/* The program of the line's model and split; why there is none, or NULL. */
static const char *
program(const struct serving *s, const struct serve_answer_in *in,
	struct serve_program *p)
{
	serve_program(in->model, in->target, &s->split, &s->v->d->ctx.perm,
		      p);
	p->split = s->split;
	return p->why;
}

/*
 * Sequences of such a length whose caches a replica holds.  Ranks that have
 * sequences of their own also have schedulers of their own, so the limit of a
 * step is that of each of them.
 */
static double
capacity(const struct serve_answer_in *in, const struct serve_program *p,
	 const struct serving_limit *limit, double length)
{
	double step = limit->tokens * (double)p->split.ep;
	struct cost_load l = serve_load_of(in->asked, 1, step);
	struct serve_memory m;

	serve_memory(p, in->target, in->asked, &l, &m);
	return floor(m.tokens * limit->part / length);
}

/* Tokens a second of so many requests in flight that take these times. */
static void
set_rate(const struct serving *s, const struct serve_asked *q,
	 struct serving_figures *x)
{
	x->tokens_s = s->concurrency * q->output * 1e6 /
		      (x->ttft_us + (q->output - 1) * x->tpot_us);
}

/*
 * Requests begin at once, and each that ends is followed by another.  Where an
 * engine reads prompts beside tokens of others, only the first wave waits for
 * its own prompts: later its requests end in different steps.  Where prompts
 * are first, all begin to decode together, end together, and every wave waits.
 * The mean has the first wave in it, and a median would not.
 */
static void
at_concurrency(const struct serving *s, const struct serve_answer_in *in,
	       const struct serve_program *p, struct serving_figures *out)
{
	struct serving_limit limit = serving_limits(s);
	struct serve_traffic t = {
		.chunk = limit.tokens *
			 (double)(p->split.pp * p->split.ep),
		.is_serial = true, .spread = s->spread,
		.poll = s->poll,
		.prompts_first = serving_has(s, SERVING_PROMPTS_FIRST)
	};
	struct serve_waits w;

	t.clients = fmax(ceil(s->concurrency / (double)p->split.replicas), 1);
	t.sequences = fmin(t.clients, capacity(in, p, &limit,
			   in->asked->prompt + in->asked->output / 2));
	if (t.sequences < 1) {
		return;
	}
	t.requests = WAVES * (uint32_t)t.clients;
	serve_queue(in, p, &t, &s->v->d->ctx.perm, &w);
	out->ttft_us = serve_mean(w.ttft, w.n);
	out->tpot_us = serve_mean(w.tpot, w.n);
	set_rate(s, in->asked, out);
}

/*
 * Workers that only read prompts, and ranks that only decode.  Of the requests
 * in flight so many decode that as many end as prompts can be read; the others
 * wait or are read (Little's law).
 */
static void
with_workers(const struct serving *s, const struct serve_answer_in *in,
	     const struct serve_program *p, struct serving_figures *out)
{
	const struct serve_asked *q = in->asked;
	double tokens = serving_limits(s).tokens * (double)s->width;
	double few = 0, many = s->concurrency, rate = 0, most, alone_us;
	struct serve_split readers = { .tp = 1, .ep = s->width };
	struct serve_program reader;
	struct serve_time t;
	int i;

	serve_program(in->model, in->target, &readers, &s->v->d->ctx.perm,
		      &reader);
	most = (double)s->workers * tokens / q->prompt /
	       serve_cycle_us(in, &reader, 0, tokens, &t);
	alone_us = serve_cycle_us(in, &reader, 0, q->prompt, &t);
	for (i = 0; i < HALVINGS; i++) {
		double n = (few + many) / 2, step = serve_step_tokens(q);
		double us = serve_cycle_us(in, p, n, 0, &t) / step;

		if (n / (us * q->output) > most || n + n / (us * q->output) *
		    alone_us > s->concurrency) {
			many = n;
			continue;
		}
		few = n;
		out->tpot_us = us;
		rate = n / (us * q->output);
	}
	if (rate > 0) {
		out->ttft_us = (s->concurrency - few) / rate;
		set_rate(s, in->asked, out);
	}
}

/*
 * All requests of the run are there when it begins, and its rate is their
 * tokens over the time until the last has ended.
 */
static void
at_full_load(const struct serving *s, const struct serve_answer_in *in,
	     const struct serve_program *p, struct serving_figures *out)
{
	struct serving_limit limit = serving_limits(s);
	double length = in->asked->prompt +
			in->asked->output / (limit.reserves ? 1 : 2);
	double tokens = limit.tokens * (double)(p->split.pp * p->split.ep);
	struct serve_traffic t = {
		.chunk = tokens, .step_tokens = tokens,
		.sequences = capacity(in, p, &limit, length)
	};
	struct serve_waits w;

	t.requests = (uint32_t)ceil(serving_requests(s) /
				    (double)p->split.replicas);
	t.clients = t.requests;
	if (limit.sequences > 0) {
		t.sequences = fmin(t.sequences, limit.sequences);
	}
	if (t.sequences < 1) {
		return;
	}
	serve_queue(in, p, &t, &s->v->d->ctx.perm, &w);
	out->tokens_s = (double)p->split.replicas * t.requests *
			in->asked->output * 1e6 / w.total_us;
}

/*
 * A batch that is read whole and then decodes, until all its requests end
 * together.  Stages take it in as many parts as it has requests for.
 */
static void
of_batch(const struct serving *s, const struct serve_answer_in *in,
	 const struct serve_program *p, struct serving_figures *out)
{
	const struct serve_asked *q = in->asked;
	double pp = (double)p->split.pp;
	double batch = fmax(s->concurrency / (double)p->split.replicas, 1);
	double parts = fmin(pp, batch);
	struct serving_limit whole = { .tokens = batch * q->prompt /
						(double)p->split.ep,
				       .part = 1 };
	struct serve_time t;

	if (capacity(in, p, &whole, q->prompt + q->output) < batch) {
		return;
	}
	out->ttft_us = (parts + pp - 1) / pp *
		       serve_cycle_us(in, p, 0, pp * batch * q->prompt / parts,
				      &t);
	out->tpot_us = serve_cycle_us(in, p, batch, 0, &t);
	out->latency_us = out->ttft_us + (q->output - 1) * out->tpot_us;
	out->tokens_s = (double)p->split.replicas * batch * q->output * 1e6 /
			out->latency_us;
}

/* ---- rows ---- */

static void
push(struct serving *s, const char *kind, double measured, double predicted,
     const char *why)
{
	struct arena *a = &s->v->d->ctx.perm;
	struct val_row r = {
		.measured_us = measured, .predicted_us = predicted,
		.why = why, .kind = kind,
		.source = serving_cell(s, SERVING_FRAMEWORK),
		.device = serving_cell(s, SERVING_GPU),
		.span = s->v->table.spans[s->row], .row = s->row,
		.unread = s->v->unread, .note = s->note
	};

	if (!why && !(predicted > 0)) {
		r.why = "the model does not fit";
	}
	r.what = arena_printf(a, "%s %s, %s in %s out, %s at once: %s",
			      serving_cell(s, SERVING_MODEL),
			      serving_cell(s, SERVING_PRECISION),
			      serving_cell(s, SERVING_INPUT),
			      serving_cell(s, SERVING_OUTPUT),
			      serving_cell(s, SERVING_CONCURRENCY), kind);
	val_push(s->v, &r);
}

enum scenario { FULL_LOAD, BATCH, CONCURRENT };

static enum scenario
scenario_of(const struct serving *s)
{
	const char *text = serving_cell(s, SERVING_SCENARIO);

	if (serving_says(text, "max throughput")) {
		return FULL_LOAD;
	}
	return serving_says(text, "static batch") ||
	       serving_says(text, "e2e") ||
	       serving_says(text, "first token") ? BATCH : CONCURRENT;
}

/* Why there is no prediction; NULL: there is one. */
static const char *
predict(struct serving *s, enum scenario scenario,
	struct serving_figures *out)
{
	struct serve_answer_in in = { .target = &s->target,
				      .asked = &s->asked };
	const char *why = serving_unread(s, scenario == FULL_LOAD);
	struct serve_program p;
	double clients;

	why = why ? why : serving_describe(s);
	if (why) {
		return why;
	}
	clients = scenario == FULL_LOAD ? serving_requests(s) : s->concurrency;
	if (clients < 1) {
		return "it does not say how many requests are in flight";
	}
	if (clients > MOST_CLIENTS) {
		return "it has more than 65536 requests in flight";
	}
	in.model = &s->of->model;
	why = program(s, &in, &p);
	if (why) {
		return why;
	}
	if (scenario == FULL_LOAD) {
		at_full_load(s, &in, &p, out);
	} else if (scenario == BATCH) {
		of_batch(s, &in, &p, out);
	} else if (s->workers > 0) {
		with_workers(s, &in, &p, out);
	} else {
		at_concurrency(s, &in, &p, out);
	}
	return NULL;
}

/* Tokens a second of the whole machine, which some tables divide by devices. */
static double
measured_rate(const struct serving *s)
{
	const char *scope = serving_text(s, s->scope);
	double rate = serving_number(s, SERVING_RATE, 0);

	return serving_says(scope, "per GPU")
		? rate * serving_number(s, SERVING_NGPUS, 1) : rate;
}

/*
 * The rate of a line that has no times is predicted, too; where it has, it is
 * the same measurement.
 */
static void
read_line(struct serving *s)
{
	double tpot = serving_number(s, SERVING_TPOT, 0);
	double ttft = serving_number(s, SERVING_TTFT, 0);
	double rate = measured_rate(s), latency = 0;
	enum scenario scenario = scenario_of(s);
	struct serving_figures x = { 0 };
	const char *why = predict(s, scenario, &x);
	bool timed = tpot > 0 || ttft > 0;

	if (scenario == BATCH) {
		latency = serving_latency(s);
	}
	if (tpot > 0) {
		push(s, "tpot", tpot * 1e3, x.tpot_us, why);
	}
	if (ttft > 0) {
		push(s, "ttft", ttft * 1e3, x.ttft_us, why);
	}
	if (latency > 0) {
		push(s, "batch", latency * 1e3, x.latency_us, why);
	} else if (rate > 0 && (scenario != CONCURRENT || !timed)) {
		push(s, "throughput", 1e6 / rate,
		     x.tokens_s > 0 ? 1e6 / x.tokens_s : 0, why);
	} else if (!timed) {
		push(s, "no figure", 0, 0, why ? why : "it has no figure that "
		     "its scenario predicts");
	}
}

bool
val_serve(struct val *v)
{
	struct serving *s = arena_alloc(&v->d->ctx.perm, sizeof *s);

	s->v = v;
	if (!tsv_columns(&v->table, &v->d->ctx.diags, v->what, columns,
			 SERVING_NCOLUMNS, s->at)) {
		return false;
	}
	s->notes = tsv_column(&v->table, "notes");
	s->latency = tsv_column(&v->table, "e2e_latency_ms");
	s->scope = tsv_column(&v->table, "tok_s_scope");
	for (s->row = 0; s->row < v->table.nrows; s->row++) {
		v->unread = (struct span){ 0, 0 };
		read_line(s);
	}
	return true;
}
