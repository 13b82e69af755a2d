/*
 * From what a function's work is to how long it takes on a rank: exchange
 * that goes on behind other work, a host that is slower than its device, and
 * sends that are waited for.  Most of it is what price_traits says; without
 * traits a function takes the sum of its kernels, but for talk that stands
 * where it goes on beside them (fuse_comm.c).
 */
#include "passes/price/price.h"

#include <math.h>
#include <string.h>

/*
 * What a framework's host takes for one kernel of ours: it runs about three
 * calls for each (views and copies, the graph of its derivative), through an
 * interpreter.  From vTrain's runs of one to two sequences of 1024, which all
 * take 3.0 to 3.6 ms for a layer forward, once more, and backward, whatever
 * the layer's width and however many ranks share it.
 */
#define HOST_US 48

/*
 * Neither host nor device is always the slower one within a function: short
 * kernels wait for the host, and long ones let it run ahead, but only so far.
 */
#define HOST_POWER 3

/* Tensor ranks exchange in pieces behind a contraction; the first shows. */
#define PIECES 4

/* None of them is no number, and a call of fmax is not free here. */
static double
later(double a, double b)
{
	return a > b ? a : b;
}

/* A contraction's parts, each behind the one that was gathered for it. */
static void
follow_gather(struct price_clocks *c, uint32_t n, double us)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		c->now = later(c->now, c->first + i * c->part) + us / n;
	}
}

/* A contraction's parts, each of them talked about meanwhile. */
static void
lead_coll(struct price_clocks *c, uint32_t n, double us, double comm_us)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		c->now += us / n;
		c->coll = later(c->now, c->coll) + comm_us / n;
	}
}

/* Who reads what the last talk brings waits for it; or all do. */
static void
wait_for_coll(struct price_clocks *c, uint32_t until)
{
	double *to = until ? &c->end[until] : &c->now;

	*to = later(*to, c->coll);
}

static void
run_coll(struct price_clocks *c, const struct kernel *k, bool beside,
	 double us)
{
	double begin = later(c->now, c->coll);

	c->coll = begin + us;
	if (k->parts) {
		c->part = us / k->parts->n;
		c->first = begin + c->part;
	} else {
		wait_for_coll(c, beside ? k->until : 0);
	}
}

/*
 * Other software starts what data ranks exchange beside kernels, and has a
 * trait for what tensor ranks do.
 */
static bool
goes_beside(const struct pricing *p, const struct kernel *k)
{
	axis_id dp = p->r->dp;

	return k->until && (price_ours(p->traits) ||
			    (dp && k->work->coll.axes >> dp & 1));
}

void
price_clocks_open(struct price_clocks *c, const struct kernel_list *l,
		  struct arena *a)
{
	*c = (struct price_clocks){ .n = l->at.n };
	c->end = arena_alloc(a, (c->n + 1) * sizeof *c->end);
}

void
price_clocks_set(struct price_clocks *c, const struct price_clocks *from)
{
	double *end = c->end;

	*c = *from;
	c->end = end;
	memcpy(end + c->at, from->end + c->at,
	       (c->n + 1 - c->at) * sizeof *end);
}

/*
 * A talk begins when the kernels before it are done and so is the talk before
 * it; one that goes on beside kernels is waited for where it says so, any
 * other at once, and all at the end.  What runs by parts is waited for part
 * by part.
 */
void
price_clocks_run(struct price_clocks *c, const struct pricing *p,
		 const struct kernel_list *l, const struct price_func *each,
		 uint32_t to)
{
	for (; c->at < to; c->at++) {
		const struct kernel *k = &l->at.at[c->at];
		double us = each[c->at].total_us;
		bool colls = k->kind == KERNEL_COLLECTIVE;

		c->any |= k->until != 0;
		c->sum += us;
		c->now = later(c->now, c->end[c->at]);
		if (!colls && !k->parts) {
			c->now += us;
		} else if (!colls && k->until) {
			lead_coll(c, k->parts->n, us,
				  each[k->until].total_us);
		} else if (!colls) {
			follow_gather(c, k->parts->n, us);
		} else if (k->parts && parts_led(l, c->at)) {
			wait_for_coll(c, k->until);
		} else {
			run_coll(c, k, goes_beside(p, k), us);
		}
	}
}

/* A CPU does one thing at a time. */
double
price_clocks_beside(const struct price_clocks *c, const struct pricing *p)
{
	return c->any && !target_is_cpu(&p->t->device)
		? c->sum - later(c->now, c->coll) : 0;
}

double
price_beside(const struct pricing *p, const struct kernel_list *l,
	     const struct price_func *each)
{
	struct price_clocks c;

	price_clocks_open(&c, l, &p->m->ctx->tmp);
	price_clocks_run(&c, p, l, each, l->at.n);
	return price_clocks_beside(&c, p);
}

void
price_hidden(const struct pricing *p, const struct kernel_list *l,
	     const struct price_func *each, double *us)
{
	double all = 0, hidden;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];
		bool beside = k->kind == KERNEL_COLLECTIVE &&
			      (k->until || k->parts);

		us[i] = beside ? each[i].total_us : 0;
		all += us[i];
	}
	hidden = all > 0 ? (1 - PRICE_SLOWED) * price_beside(p, l, each) : 0;
	for (i = 0; i < l->at.n; i++) {
		us[i] *= all > 0 ? hidden / all : 0;
	}
}

static void
hide(struct price_func *f, double us)
{
	f->us[PRICE_COMM] -= us;
	f->total_us -= us;
}

/* What of the function's exchange its other work has room for. */
static void
overlap(const struct price_traits *traits, struct price_func *f)
{
	double rest;

	if (traits->overlap_tensor) {
		hide(f, fmin(f->tensor_us * (PIECES - 1) / PIECES,
			     f->us[PRICE_MATRIX]));
	}
	if (traits->overlap_data) {
		rest = f->total_us - f->data_us;
		hide(f, fmin(f->data_us, rest) * (1 - PRICE_SLOWED));
	} else {
		hide(f, f->beside_us * (1 - PRICE_SLOWED));
	}
}

double
price_shown_us(const struct price_traits *traits, const struct price_func *f)
{
	struct price_func shown = *f;

	overlap(traits, &shown);
	return shown.total_us;
}

static void
wait_for_host(struct price_func *f)
{
	double host_us = f->kernels * (double)HOST_US, us;

	us = pow(pow(host_us, HOST_POWER) + pow(f->total_us, HOST_POWER),
		 1.0 / HOST_POWER);
	f->us[PRICE_HOST] += us - f->total_us;
	f->total_us = us;
}

/* What such an action hands to another rank. */
static double
send_us(const struct sched *s, const struct price *p, uint32_t stage,
	uint32_t kind)
{
	uint32_t does = sched_kinds[kind].does, to = stage;

	if (does & SCHED_FORWARD) {
		to = stage + 1;
	} else if (does & SCHED_INPUT) {
		to = stage - 1;
	}
	return to < s->nstages && s->rank_of[to] != s->rank_of[stage]
		? p->hop_us : 0;
}

static struct price_func
as_run(const struct sched *s, const struct price_traits *traits,
       const struct price *p, uint32_t stage, uint32_t kind)
{
	struct price_func f = p->stage[stage][kind];
	double us = send_us(s, p, stage, kind);

	overlap(traits, &f);
	if (f.total_us > 0 && traits->eager) {
		wait_for_host(&f);
	}
	if (f.total_us > 0 && traits->blocking) {
		f.us[PRICE_COMM] += us;
		f.total_us += us;
	}
	return f;
}

/*
 * Gradients are reduced behind the last backward of each stage that the rank
 * holds, and weights gathered behind its first forward.
 */
static struct price_func
updated(const struct sched *s, const struct price_traits *traits,
	const struct price *p, uint32_t rank)
{
	struct price_func f = p->update[rank];
	double behind = 0;
	uint32_t i, k;

	for (i = 0; traits->overlap_data && i < s->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS && s->rank_of[i] == rank; k++) {
			behind += p->run[i][k].total_us;
		}
	}
	hide(&f, fmin(f.data_us, behind) * (1 - PRICE_SLOWED));
	return f;
}

void
price_run(const struct sched *s, const struct price_traits *traits,
	  struct arena *a, struct price *p)
{
	uint32_t i, k;

	p->run = arena_alloc(a, s->nstages * sizeof *p->run);
	p->updated = arena_alloc(a, s->nranks * sizeof *p->updated);
	for (i = 0; i < s->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			p->run[i][k] = as_run(s, traits, p, i, k);
		}
	}
	for (i = 0; i < s->nranks; i++) {
		p->updated[i] = updated(s, traits, p, i);
	}
}
