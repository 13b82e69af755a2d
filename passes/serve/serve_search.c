/*
 * Which split serves best.  The splits of a cluster are few, so all of them are
 * priced: degrees of tensors, experts and stages, and copies of what these
 * make.  For each, the sequences in flight and the prompt positions of a step
 * are powers of two; a steady state of each is computed by formulas.
 */
#include "passes/serve/serve.h"

#include <math.h>

#define MAX_CHUNK (1 << 30)	/* for a loop to end; a load ends it sooner */
#define LEAST_CHUNK 64
#define MAX_SEQUENCES 4096	/* of a rank */
#define MAX_IN_FLIGHT 65536	/* of a replica, which are simulated */

/* ---- a plan ---- */

/* One request on a replica that has no other. */
static void
alone(const struct serve_answer_in *in, const struct serve_program *p,
      struct serve_plan *out)
{
	const struct serve_asked *q = in->asked;
	double chunk = fmin(out->chunk, q->prompt);
	double chunks = ceil(q->prompt / chunk);
	double pp = (double)p->split.pp;
	struct serve_time t;

	out->alone_ttft_us = (chunks + pp - 1) / pp *
			     serve_cycle_us(in, p, 0, pp * chunk,
					    &out->prefill);
	out->alone_tpot_us = serve_cycle_us(in, p, 1, 0, &t);
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
	double pp = (double)p->split.pp, mean, prefill;
	struct cost_load full = serve_load_of(q, fmax(sequences / pp, 1),
					       chunk);
	struct serve_time t;

	*out = (struct serve_plan){ .split = p->split, .chunk = chunk,
				    .sequences = sequences };
	serve_memory(p, in->target, q, &full, &out->memory);
	out->decode_us = serve_cycle_us(in, p, sequences, 0, &out->decode) /
			 pp;
	out->mixed_us = serve_cycle_us(in, p, sequences, pp * chunk, &t) / pp;
	out->mixed = sequences / pp * q->prompt / q->output / chunk;
	prefill = out->mixed * (out->mixed_us - out->decode_us);
	mean = out->decode_us + prefill;
	out->prefill_share = prefill / mean;
	out->tpot_us = pp * mean;
	/* the next step begins within one; chunks follow each other in the
	 * stages, and the last one passes all of them */
	out->ttft_us = (ceil(q->prompt / chunk) + pp - 1) * out->mixed_us +
		       mean / 2;
	out->tokens_s = (double)p->split.replicas * sequences * 1e6 /
			out->tpot_us;
	out->requests_s = out->tokens_s / q->output;
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

/* Tokens of the longest sequence that a rank holds: its cache is on one. */
static double
longest(const struct serve_plan *x)
{
	return x->memory.tokens / (double)serve_apart(&x->split);
}

static bool
fits(const struct serve_asked *q, const struct serve_plan *x)
{
	double each = q->prompt + q->output;

	return longest(x) >= q->context &&
	       x->memory.tokens >= x->sequences * each;
}

static bool
in_limits(const struct serve_asked *q, const struct serve_plan *x)
{
	return (q->ttft_s <= 0 || x->ttft_us <= q->ttft_s * 1e6) &&
	       (q->tpot_s <= 0 || x->tpot_us <= q->tpot_s * 1e6);
}

/*
 * From a request to its last token.  While one of a part of the steps has a
 * chunk, another waits for it: as a queue of that load does.
 */
static double
answer_us(const struct serve_asked *q, const struct serve_plan *x)
{
	return x->ttft_us / fmax(1 - x->mixed, 0.01) + q->output * x->tpot_us;
}

/* Without a rate, the one with more tokens; with one, the faster one. */
static bool
is_better(const struct serve_asked *q, const struct serve_plan *a,
	  const struct serve_plan *b)
{
	if (b->sequences == 0) {
		return true;
	}
	return q->rate > 0 ? answer_us(q, a) < answer_us(q, b)
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

	if (!s->any || longest(x) > longest(&s->roomiest)) {
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

static double
most_sequences(const struct serve_program *p)
{
	return fmin(MAX_SEQUENCES * (double)(serve_apart(&p->split) *
					     p->split.pp),
		    MAX_IN_FLIGHT);
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
		n = fmin(n, most_sequences(p));
	}
	return longest(&x) >= each ? n : 0;
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
		if (pin <= 0 && chunk > LEAST_CHUNK &&
		    chunk / 2 >= q->prompt &&
		    at / (double)p->split.pp * q->prompt / q->output <=
		    chunk / 2) {
			break;	/* all prompts of a step are in half of it */
		}
		serve_plan_of(s->in, p, at, chunk, &x);
		if (x.mixed <= 1) {
			alone(s->in, p, &x);
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
	for (n = 1; n <= most_sequences(p); n *= 2) {
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
	int64_t most = p->layers > 1 ? p->layers : 1, pp;

	most = most < SERVE_MAX_STAGES ? most : SERVE_MAX_STAGES;
	for (pp = 1; pp * ranks <= devices && pp <= most; pp++) {
		if (!is_pinned(pin->pp, pp) ||
		    (!pin->pp && devices % (pp * ranks) != 0)) {
			continue;
		}
		p->split.pp = pp;
		p->split.replicas = devices / (pp * ranks);
		if (pin->replicas > p->split.replicas) {
			continue;
		}
		if (pin->replicas) {
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
	double each = q->prompt + q->output;
	double apart = (double)serve_apart(&x->split);
	double least = fmax(q->context, x->sequences * each / apart);
	double cache = m->token * least;
	double need = m->weights + m->workspace + cache;

	out->why = arena_printf(a, "a device has %.2f GB, and needs %.2f more: "
		"weights %.2f, workspace %.2f, cache of %.0f tokens %.2f",
		m->free / 1e9, (need - m->free) / 1e9,
		m->weights / 1e9, m->workspace / 1e9, least, cache / 1e9);
	if (longest(x) >= each) {
		out->change = least > q->context
			? arena_printf(a, "one fits with sequences = %.0f",
				       floor(m->tokens / each))
			: arena_printf(a, "one fits with context = %.0f",
				       floor(longest(x)));
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

/*
 * Of what fits, the fastest if the limit of a token breaks it, else that with
 * the soonest first token: which of its limits it breaks, and what it keeps.
 */
static void
misfit_limits(struct searching *s, struct arena *a)
{
	const struct serve_asked *q = s->in->asked;
	struct serve_misfit *out = &s->out->misfit;
	double tpot_us = q->tpot_s * 1e6, ttft_us = q->ttft_s * 1e6;
	bool slow = tpot_us > 0 && s->fastest.tpot_us > tpot_us;
	const struct serve_plan *x = slow ? &s->fastest : &s->soonest;
	bool late = ttft_us > 0 && x->ttft_us > ttft_us;

	slow = tpot_us > 0 && x->tpot_us > tpot_us;
	out->why = slow ? arena_printf(a, "the %s has %.2f ms for each token, "
		"and the limit is %.2f", x == &s->fastest ? "fastest"
		: "one with the soonest first token", x->tpot_us / 1e3,
		tpot_us / 1e3)
		: arena_printf(a, "the soonest has a first token after %.1f "
			"ms, and the limit is %.1f", x->ttft_us / 1e3,
			ttft_us / 1e3);
	out->change = "one fits with ";
	if (slow) {
		out->change = arena_printf(a, "%stpot = %.4f%s", out->change,
			ceil(x->tpot_us / 100) / 1e4, late ? ", " : "");
	}
	if (late) {
		out->change = arena_printf(a, "%sttft = %.4f", out->change,
			ceil(x->ttft_us / 100) / 1e4);
	}
}

/* Whether tensor parallelism divides the heads. */
static bool
divides_heads(const struct serve_model *m, int64_t tp)
{
	return (m->heads > 1 ? m->heads : 1) % tp == 0;
}

/* Whether expert parallelism, if there is any, divides the experts. */
static bool
divides_experts(const struct serve_model *m, int64_t ep)
{
	return ep == 1 || (m->experts && m->experts % ep == 0);
}

/* Why no split has these degrees: what the model or the target has not. */
static void
misfit_degrees(const struct searching *s, struct arena *a)
{
	const struct serve_model *m = s->in->model;
	const struct serve_split *pin = &s->in->pins.split;
	struct serve_misfit *out = &s->out->misfit;
	int64_t devices = target_devices(s->in->target);
	int64_t heads = m->heads > 1 ? m->heads : 1;
	struct serve_split all = { .tp = pin->tp ? pin->tp : 1,
		.ep = pin->ep ? pin->ep : 1, .pp = pin->pp ? pin->pp : 1,
		.replicas = pin->replicas ? pin->replicas : 1 };
	double ranks = (double)all.tp * (double)all.ep * (double)all.pp *
		       (double)all.replicas;
	struct serve_split one = { .tp = 1, .ep = 1 };
	struct serve_program p;

	serve_program(m, s->in->target, &one, a, &p);
	out->change = "one fits with other degrees or devices";
	if (!divides_heads(m, all.tp)) {
		out->why = arena_printf(a, "tp = %lld does not divide the %lld "
			"heads of attention", (long long)all.tp,
			(long long)heads);
	} else if (!divides_experts(m, all.ep)) {
		out->why = m->experts ? arena_printf(a, "ep = %lld does not "
			"divide the %lld experts", (long long)all.ep,
			(long long)m->experts)
			: arena_printf(a, "ep = %lld splits experts, and the "
				"model has none", (long long)all.ep);
	} else if (!p.why && all.pp > 1 && all.pp > p.layers) {
		out->why = !p.layers
			? arena_printf(a, "pp = %lld divides layers of a "
				"repeat, and the model has none",
				(long long)all.pp)
			: arena_printf(a, "pp = %lld is more than the %lld "
				"iteration%s of the model's repeats",
				(long long)all.pp, (long long)p.layers,
				p.layers == 1 ? "" : "s");
	} else if (ranks > (double)devices) {
		out->why = arena_printf(a, "tp=%lld pp=%lld ep=%lld dp=%lld "
			"are %.0f ranks, and the target has %lld device%s",
			(long long)all.tp, (long long)all.pp,
			(long long)all.ep, (long long)all.replicas, ranks,
			(long long)devices, devices == 1 ? "" : "s");
	} else {
		out->why = "no split of the model has such degrees";
	}
}

/* Which limit nothing keeps that fits, and what is nearest to it. */
static void
misfit(struct searching *s, struct arena *a)
{
	const struct serve_asked *q = s->in->asked;
	struct serve_misfit *out = &s->out->misfit;

	if (!s->out->tried) {
		misfit_degrees(s, a);
	} else if (!s->any) {
		out->why = arena_printf(a, "for each token out there are "
			"%s in, and chunks have %.0f", serve_number_text(
				q->prompt / q->output, 4, a),
			s->in->pins.chunk);
		out->change = arena_printf(a, "one fits with chunk = %.0f",
			ceil(fmax(s->in->pins.sequences, 1) * q->prompt /
			     q->output));
	} else if (s->fastest.sequences == 0 && s->memory_fits) {
		out->why = arena_printf(a, "no split reaches %.6g requests a "
			"second: the most is %s", q->rate,
			serve_number_text(s->most_requests_s, 4, a));
		out->change = arena_printf(a, "one fits with rate = %s",
			serve_number_text(three_digits(s->most_requests_s), 3,
					  a));
	} else if (s->fastest.sequences == 0) {
		misfit_memory(s, a);
	} else {
		misfit_limits(s, a);
	}
}

#define SIMULATED 1000	/* requests that count */

/*
 * What the requests of the best plan wait, those of a replica.  Requests that
 * follow keep it full until the last of them has ended; with a rate it is empty
 * at first, and fills while twice as many come as are in flight.
 */
static void
add_waits(const struct serve_answer_in *in, struct arena *a,
	  struct serve_plan *x)
{
	const struct serve_asked *q = in->asked;
	double limit = fmin(floor(x->memory.tokens / (q->prompt + q->output)),
			    MAX_IN_FLIGHT);
	struct serve_traffic t = {
		.rate = q->rate / (double)x->split.replicas,
		.is_staggered = true, .chunk = x->chunk *
					       (double)x->split.pp,
		.sequences = q->rate > 0 ? limit : ceil(x->sequences)
	};
	struct serve_program p;
	struct serve_waits w;
	uint32_t flying;

	flying = (uint32_t)fmin(ceil(x->sequences), limit);
	t.skipped = (q->rate > 0 ? 2 : 1) * flying;
	t.counted = SIMULATED;
	t.requests = t.skipped + t.counted + flying;
	serve_program(in->model, in->target, &x->split, a, &p);
	p.split = x->split;
	serve_queue(in, &p, &t, a, &w);
	x->ttft_p50_us = serve_quantile(w.ttft, w.n, 0.5);
	x->ttft_p99_us = serve_quantile(w.ttft, w.n, 0.99);
	x->tpot_p50_us = serve_quantile(w.tpot, w.n, 0.5);
	x->tpot_p99_us = serve_quantile(w.tpot, w.n, 0.99);
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
	int64_t heads = m->heads > 1 ? m->heads : 1;

	*out = (struct serve_answer){ 0 };
	for (tp = 1; tp <= devices && tp <= heads; tp++) {
		if (!is_pinned(pin->tp, tp) || !divides_heads(m, tp)) {
			continue;
		}
		for (ep = 1; ep * tp <= devices &&
		     ep <= (m->experts ? m->experts : 1); ep++) {
			struct serve_split split = { .tp = tp, .ep = ep,
				.is_shared = pin->is_shared };
			struct serve_program p;

			if (!is_pinned(pin->ep, ep) ||
			    !divides_experts(m, ep) ||
			    (!pin->pp && devices % (ep * tp) != 0)) {
				continue;
			}
			serve_program(m, in->target, &split, a, &p);
			if (!p.why) {
				try_stages(&s, &p, tp * ep, devices);
			}
		}
	}
	trim_curve(out);
	if (out->fits) {
		add_waits(in, a, &out->best);
	} else {
		misfit(&s, a);
	}
}
