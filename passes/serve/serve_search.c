/*
 * Which split serves best.  The splits of a cluster are few, so all of them are
 * priced: degrees of tensors, experts and stages, and copies of what these
 * make.  For each, the sequences in flight and the prompt positions of a step
 * are powers of two; a steady state of each is computed by formulas.
 */
#include "passes/serve/serve.h"

#include <math.h>

#define MAX_CHUNK 16384
#define LEAST_CHUNK 64
#define MAX_SEQUENCES 4096	/* of a rank */

/* ---- a plan ---- */

/* A step of one of the batches that pass the stages of a replica. */
static struct serve_load
load_of(const struct serve_asked *q, double decoding, double chunk)
{
	struct serve_load l = { .decoding = decoding,
				.keys = q->prompt + q->output / 2,
				.chunk = chunk };

	l.prompts = chunk > 0 ? fmax(chunk / q->prompt, 1) : 0;
	l.before = chunk > 0 ? fmax(q->prompt - chunk, 0) / 2 : 0;
	return l;
}

struct timing {
	const struct serve_answer_in *in;
	const struct serve_program *p;
};

static double
step_us(const struct timing *w, double decoding, double chunk,
	struct serve_time *out)
{
	struct serve_load l = load_of(w->in->asked, decoding, chunk);

	serve_step(w->p, w->in->target, w->in->asked, w->in->traits, &l, out);
	return out->total_us +
	       serve_hop_us(w->p, w->in->target, decoding + chunk);
}

/* One request on a replica that has no other. */
static void
alone(const struct timing *w, struct serve_plan *out)
{
	const struct serve_asked *q = w->in->asked;
	double chunk = fmin(out->chunk, q->prompt);
	double chunks = ceil(q->prompt / chunk);
	double pp = (double)w->p->split.pp;
	struct serve_time t;

	out->alone_ttft_us = (chunks + pp - 1) * step_us(w, 0, chunk, &t);
	out->prefill = t;
	out->alone_tpot_us = pp * step_us(w, 1, 0, &t);
}

/*
 * In a steady state of n sequences that decode, n / output of them end in a
 * step, and as many prompts must be read meanwhile: in chunks, which a part of
 * the steps have beside what decodes.
 */
void
serve_plan_of(const struct serve_answer_in *in, const struct serve_program *p,
	      double sequences, double chunk, struct serve_plan *out)
{
	const struct serve_asked *q = in->asked;
	const struct timing w = { in, p };
	double pp = (double)p->split.pp, mean, prefill;
	double decoding = fmax(sequences / pp, 1);
	struct serve_load full = load_of(q, decoding, chunk);
	struct serve_time t;

	*out = (struct serve_plan){ .split = p->split, .chunk = chunk,
				    .sequences = sequences };
	serve_memory(p, in->target, q, &full, &out->memory);
	out->decode_us = step_us(&w, decoding, 0, &out->decode);
	out->mixed_us = step_us(&w, decoding, chunk, &t);
	out->mixed = decoding * q->prompt / q->output / chunk;
	prefill = out->mixed * (out->mixed_us - out->decode_us);
	mean = out->decode_us + prefill;
	out->prefill_share = prefill / mean;
	out->tpot_us = pp * mean;
	out->ttft_us = pp * (ceil(q->prompt / chunk) * out->mixed_us +
			     mean / 2);
	out->tokens_s = (double)p->split.replicas * sequences * 1e6 /
			out->tpot_us;
	out->requests_s = out->tokens_s / q->output;
	alone(&w, out);
}

/* ---- batches of a split ---- */

struct searching {
	const struct serve_answer_in *in;
	struct serve_answer *out;
	struct serve_plan fastest;	/* the least tpot of what fits */
	struct serve_plan soonest;	/* the least ttft */
	struct serve_plan roomiest;
	bool any, memory_fits;
	double most_requests_s;	/* of what fits memory */
};

static bool
fits(const struct serve_asked *q, const struct serve_plan *x)
{
	double each = q->prompt + q->output;

	return x->memory.tokens >= fmax(q->context, x->sequences * each);
}

static bool
in_limits(const struct serve_asked *q, const struct serve_plan *x)
{
	return (q->ttft_s <= 0 || x->ttft_us <= q->ttft_s * 1e6) &&
	       (q->tpot_s <= 0 || x->tpot_us <= q->tpot_s * 1e6);
}

/* Without a rate, the one with more tokens; with one, the faster one. */
static bool
is_better(const struct serve_asked *q, const struct serve_plan *a,
	  const struct serve_plan *b)
{
	if (b->sequences == 0) {
		return true;
	}
	return q->rate > 0 ? a->tpot_us < b->tpot_us
			   : a->tokens_s > b->tokens_s;
}

/* Adds to the curve, which has the best of each number of sequences. */
static void
add_curve(struct searching *s, const struct serve_plan *x)
{
	struct serve_answer *out = s->out;
	double all = x->sequences * (double)x->split.replicas;
	uint32_t i = (uint32_t)log2(fmax(all, 1));

	if (i < SERVE_MAX_CURVE &&
	    (out->curve[i].sequences == 0 ||
	     x->tokens_s > out->curve[i].tokens_s)) {
		out->curve[i] = *x;
	}
}

static void
keep(struct searching *s, const struct serve_plan *x)
{
	const struct serve_asked *q = s->in->asked;

	s->out->priced++;
	if (!s->any || x->memory.tokens > s->roomiest.memory.tokens) {
		s->roomiest = *x;
		s->any = true;
	}
	if (!fits(q, x)) {
		return;
	}
	s->memory_fits = true;
	s->most_requests_s = fmax(s->most_requests_s, x->requests_s);
	add_curve(s, x);
	if (q->rate > 0 && x->requests_s < q->rate * 0.999) {
		return;
	}
	if (s->fastest.sequences == 0 || x->tpot_us < s->fastest.tpot_us) {
		s->fastest = *x;
	}
	if (s->soonest.sequences == 0 || x->ttft_us < s->soonest.ttft_us) {
		s->soonest = *x;
	}
	if (in_limits(q, x) && (!s->out->fits || is_better(q, x,
							   &s->out->best))) {
		s->out->best = *x;
		s->out->fits = true;
	}
}

/* The load at which a replica has its share of the rate. */
static double
sequences_for(const struct searching *s, const struct serve_program *p,
	      double chunk)
{
	double lo = 0.01, hi = 1 << 20;
	struct serve_plan x;
	int i;

	for (i = 0; i < 30; i++) {
		double mid = sqrt(lo * hi);

		serve_plan_of(s->in, p, mid, chunk, &x);
		if (x.requests_s < s->in->asked->rate) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return hi;
}

/* Sequences that the cache of a replica holds, whole; 0: none. */
static double
capacity(const struct searching *s, const struct serve_program *p,
	 double chunk)
{
	double each = s->in->asked->prompt + s->in->asked->output, n = 1;
	struct serve_plan x;
	int i;

	for (i = 0; i < 3; i++) {	/* workspace grows with them */
		serve_plan_of(s->in, p, n, chunk, &x);
		n = fmax(floor(x.memory.tokens / each), 1);
	}
	return x.memory.tokens >= each ? n : 0;
}

/* Of n sequences; 0: as many as the rate asks for; below 0: as many as fit. */
static double
in_flight(const struct searching *s, const struct serve_program *p, double n,
	  double chunk)
{
	return n > 0 ? n : n < 0 ? capacity(s, p, chunk)
				 : sequences_for(s, p, chunk);
}

static void
try_chunks(struct searching *s, const struct serve_program *p, double n)
{
	const struct serve_asked *q = s->in->asked;
	double pin = s->in->pins.chunk, chunk;
	struct serve_plan x;

	for (chunk = pin > 0 ? pin : LEAST_CHUNK;
	     chunk <= (pin > 0 ? pin : MAX_CHUNK); chunk *= 2) {
		double at = in_flight(s, p, n, chunk);

		if (at <= 0) {
			continue;
		}
		if (pin <= 0 && chunk / 2 >= q->prompt &&
		    fmax(at / (double)p->split.pp, 1) * q->prompt /
		    q->output <= chunk / 2) {
			break;	/* all prompts of a step are in half of it */
		}
		serve_plan_of(s->in, p, at, chunk, &x);
		if (x.mixed <= 1 || pin > 0) {
			keep(s, &x);
		}
	}
}

static void
try_batches(struct searching *s, const struct serve_program *p)
{
	double n;

	s->out->tried++;
	if (s->in->asked->rate > 0) {
		try_chunks(s, p, 0);
	}
	if (s->in->pins.sequences > 0) {
		try_chunks(s, p, s->in->pins.sequences);
		return;
	}
	for (n = 1; n <= MAX_SEQUENCES * (double)(p->split.ep * p->split.pp);
	     n *= 2) {
		try_chunks(s, p, n);
	}
	try_chunks(s, p, -1);
}

/* ---- splits ---- */

static bool
is_pinned(int64_t pin, int64_t v)
{
	return pin == 0 || pin == v;
}

static void
try_stages(struct searching *s, struct serve_program *p, int64_t ranks,
	   int64_t devices)
{
	const struct serve_split *pin = &s->in->pins.split;
	int64_t pp;

	for (pp = 1; pp * ranks <= devices && pp <= p->layers; pp++) {
		if (!is_pinned(pin->pp, pp) ||
		    (!pin->pp && devices % (pp * ranks) != 0)) {
			continue;
		}
		p->split.pp = pp;
		p->split.replicas = devices / (pp * ranks);
		if (pin->replicas && pin->replicas < p->split.replicas) {
			p->split.replicas = pin->replicas;
		}
		try_batches(s, p);
	}
}

/* Of memory: what a device has, what would have to be there, and a change. */
static void
misfit_memory(struct searching *s, struct arena *a)
{
	const struct serve_asked *q = s->in->asked;
	const struct serve_plan *x = &s->roomiest;
	const struct serve_memory *m = &x->memory;
	struct serve_misfit *out = &s->out->misfit;
	double least = fmax(q->context, x->sequences * (q->prompt +
							q->output));
	double cache = m->token * least / (double)x->split.ep;
	double need = m->weights + m->workspace + cache;

	out->why = arena_printf(a, "a device has %.2f GB, and needs %.2f more:"
		"\n           weights %.2f, workspace %.2f, cache of %.0f "
		"tokens %.2f", m->free / 1e9, (need - m->free) / 1e9,
		m->weights / 1e9, m->workspace / 1e9, least, cache / 1e9);
	if (m->tokens >= q->prompt + q->output) {
		out->change = arena_printf(a, "one fits with context = %.0f",
					   m->tokens);
		return;
	}
	out->change = arena_printf(a, "one fits on %.0f such devices, or with "
		"weights of at most %.1f bits", ceil(need / m->free) *
		(double)target_devices(s->in->target),
		fmax(16 * (m->free - m->workspace - cache) / m->weights, 0));
}

/* Rounded down. */
static double
three_digits(double v)
{
	double unit = pow(10, floor(log10(v)) - 2);

	return floor(v / unit) * unit;
}

/* Which limit nothing keeps that fits, and what is nearest to it. */
static void
misfit(struct searching *s, struct arena *a)
{
	const struct serve_asked *q = s->in->asked;
	struct serve_misfit *out = &s->out->misfit;

	if (!s->any) {
		out->why = "no split of the model has such degrees";
		out->change = "one fits with other degrees or devices";
	} else if (s->fastest.sequences == 0 && s->memory_fits) {
		out->why = arena_printf(a, "no split reaches %.4g requests a "
			"second: the most is %.4g", q->rate,
			s->most_requests_s);
		out->change = arena_printf(a, "one fits with rate = %.3g",
			three_digits(s->most_requests_s));
	} else if (s->fastest.sequences == 0) {
		misfit_memory(s, a);
	} else if (q->tpot_s > 0 && s->fastest.tpot_us > q->tpot_s * 1e6) {
		out->why = arena_printf(a, "the fastest has %.2f ms for each "
			"token, and the limit is %.2f",
			s->fastest.tpot_us / 1e3, q->tpot_s * 1e3);
		out->change = arena_printf(a, "one fits with tpot = %.4f",
			ceil(s->fastest.tpot_us / 100) / 1e4);
	} else {
		out->why = arena_printf(a, "the soonest has a first token "
			"after %.1f ms, and the limit is %.1f",
			s->soonest.ttft_us / 1e3, q->ttft_s * 1e3);
		out->change = arena_printf(a, "one fits with ttft = %.4f%s",
			ceil(s->soonest.ttft_us / 100) / 1e4,
			q->tpot_s > 0 ? ", or a higher tpot" : "");
	}
}

/* Leaves the points of the curve that others do not beat, by latency. */
static void
trim_curve(struct serve_answer *x)
{
	double most = 0;
	uint32_t i, n = 0;

	for (i = 0; i < SERVE_MAX_CURVE; i++) {
		if (x->curve[i].sequences > 0 &&
		    x->curve[i].tokens_s > most) {
			most = x->curve[i].tokens_s;
			x->curve[n++] = x->curve[i];
		}
	}
	x->ncurve = n;
}

void
serve_search(const struct serve_answer_in *in, struct arena *a,
	     struct serve_answer *out)
{
	struct searching s = { .in = in, .out = out };
	const struct serve_model *m = in->model;
	const struct serve_split *pin = &in->pins.split;
	int64_t devices = target_devices(in->target), tp, ep;

	*out = (struct serve_answer){ 0 };
	for (tp = 1; tp <= devices && tp <= m->heads; tp++) {
		if (!is_pinned(pin->tp, tp) || m->heads % tp != 0) {
			continue;
		}
		for (ep = 1; ep * tp <= devices &&
		     ep <= (m->experts ? m->experts : 1); ep++) {
			struct serve_program p;

			if (!is_pinned(pin->ep, ep) ||
			    (ep > 1 && m->experts % ep != 0) ||
			    (!pin->pp && devices % (ep * tp) != 0)) {
				continue;
			}
			serve_program(m, in->target, tp, ep, a, &p);
			if (!p.why) {
				try_stages(&s, &p, tp * ep, devices);
			}
		}
	}
	trim_curve(out);
	if (!out->fits) {
		misfit(&s, a);
	}
}
