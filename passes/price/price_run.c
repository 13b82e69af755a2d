/*
 * From the work of a function to its time on a rank: overlap of communication
 * with computation, a host that is slower than its device, sends that block.
 * Without traits a function takes the sum of its kernels, less the time of
 * collectives that run beside kernels (where fuse_comm.c puts them); traits add
 * what other software does.
 */
#include "passes/price/price.h"
#include "passes/plan/plan.h"

#include <math.h>
#include <string.h>

/*
 * A framework's host time for one kernel of ours: it runs about three calls for
 * each (views and copies, the graph of its derivative) through an interpreter.
 * From vTrain's runs of one to two sequences of 1024, which all take 3.0 to
 * 3.6 ms for a layer forward, recomputed, and backward, whatever the size of
 * the layer and the number of ranks.
 */
#define HOST_US 36

/*
 * Within a function short kernels wait for the host, and long ones let it run
 * ahead: the time is a power mean of the two, above both and below their sum.
 */
#define HOST_POWER 3

/* Tensor ranks communicate in pieces beside a contraction, after the first. */
#define PIECES 4

/* fmax without its case for NaN, which no time here is: it is called often. */
static double
later(double a, double b)
{
	return a > b ? a : b;
}

/* The parts of a contraction, each after the part of a gather that it reads. */
static void
follow_gather(struct price_clocks *c, uint32_t n, double us)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		c->now = later(c->now, c->first + i * c->part) + us / n;
	}
}

/* The parts of a contraction, each followed by that part of a collective. */
static void
lead_coll(struct price_clocks *c, uint32_t n, double us, double comm_us)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		c->now += us / n;
		c->coll = later(c->now, c->coll) + comm_us / n;
	}
}

/* The kernel at `until` waits for the last collective; 0: the next one. */
static void
wait_for_coll(struct price_clocks *c, uint32_t until)
{
	double *to = until ? &c->end[until] : &c->now;

	*to = later(*to, c->coll);
}

/*
 * Whether a collective is waited for part by part.  What the trait
 * overlap_tensor hides of tensor ranks does not depend on parts, and nothing is
 * hidden twice.
 */
static bool
runs_in_parts(const struct pricing *p, const struct kernel *k)
{
	uint32_t axes = k->work->coll.axes;
	axis_id dp = p->r->dp, tp = p->r->tp;
	bool data = dp && axes >> dp & 1, tensor = tp && axes >> tp & 1;

	return k->parts && !(p->traits->overlap_tensor && tensor && !data);
}

static void
run_coll(struct price_clocks *c, const struct pricing *p,
	 const struct kernel *k, bool beside, double us)
{
	double begin = later(c->now, c->coll);

	c->coll = begin + us;
	if (runs_in_parts(p, k)) {
		c->part = us / k->parts->n;
		c->first = begin + c->part;
	} else {
		wait_for_coll(c, beside ? k->until : 0);
		c->part = 0;	/* the kernel after a gather waits for all */
		c->first = c->coll;
	}
}

/*
 * Whether a collective runs beside kernels.  Of other software that is taken of
 * data ranks; tensor ranks have the trait overlap_tensor.
 */
static bool
runs_beside(const struct pricing *p, const struct kernel *k)
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
 * A collective begins when the kernels and the collective before it are done.
 * One that runs beside kernels is waited for at its `until`, any other at once,
 * and all at the end of the list.  One that runs in parts is waited for part by
 * part.
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
				  runs_in_parts(p, &l->at.at[k->until])
				  ? each[k->until].total_us : 0);
		} else if (!colls) {
			follow_gather(c, k->parts->n, us);
		} else if (runs_in_parts(p, k) && parts_led(l, c->at)) {
			wait_for_coll(c, k->until);
		} else {
			run_coll(c, p, k, runs_beside(p, k), us);
		}
	}
}

/* On a CPU nothing runs beside kernels. */
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

/* Kernels that end sooner hide less beside them, so the clocks run once more
 * with kernels as the first run has them. */
double
price_first_beside(const struct pricing *p, const struct kernel_list *l,
		   const struct price_func *each, double beside_us)
{
	struct price_func *first;
	bool any = false;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		any |= each[i].first_us != 0;
	}
	if (!any || beside_us <= 0) {
		return 0;
	}
	first = arena_dup(&p->m->ctx->tmp, each, l->at.n * sizeof *first);
	for (i = 0; i < l->at.n; i++) {
		if (!l->at.at[i].body) {
			first[i].first_us *= price_first_share(p, l,
							&l->at.at[i]);
		}
		price_set_first(&first[i]);
	}
	return beside_us - price_beside(p, l, first);
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

/* Takes off the time of collectives that other work of the function hides. */
static void
hide_overlap(const struct price_traits *traits, struct price_func *f)
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

	hide_overlap(traits, &shown);
	return shown.total_us;
}

/*
 * Let K be the kernels of a list, C the collectives that may run beside them,
 * and W those that are waited for.  Without traits K + C + W are shown, less
 * (1 - PRICE_SLOWED) * beside.  Each clock of a list runs at least as long as
 * what it times, and both during W: so beside is at most
 * K + C + W - max(K + W, C + W), which is min(K, C).  What is left,
 * 0.4 (K + C) + 0.6 max(K, C) + W, grows with each: so it is no more for less
 * kernels and collectives.  Outside of repeats and on a CPU nothing runs beside
 * kernels.  In a list with repeats, collectives of both may run beside the same
 * kernels, and with traits those of data ranks beside those of tensor ranks:
 * there only K and the part of C and W that is always shown count.
 */
double
price_least_us(const struct pricing *p, const struct price_least *f,
	       enum price_list_kind in)
{
	const struct price_traits *t = p->traits;
	double shown = t->overlap_tensor ? fmin(PRICE_SLOWED, 1.0 / PIECES)
					 : PRICE_SLOWED;
	double all = f->kernels_us + f->colls_us + f->waits_us;

	if (t->overlap_tensor || t->overlap_data || in == PRICE_IN_NEST) {
		return f->kernels_us + shown * (f->colls_us + f->waits_us);
	}
	return in == PRICE_IN_TOP || target_is_cpu(&p->t->device) ? all
		: all - (1 - PRICE_SLOWED) * fmin(f->kernels_us, f->colls_us);
}

double
price_link_us(const struct price_func *f, uint32_t offload)
{
	double us = (offload & PLAN_OFFLOAD_SAVES ? f->saves_us : 0) +
		    (offload & PLAN_OFFLOAD_PARAMS ? f->params_us : 0);

	return plan_on_drives(offload) & PLAN_OFFLOAD_PARAMS
		? fmax(us, f->drives_us) : us;
}

double
price_link_wait_us(const struct price_func *f, uint32_t offload)
{
	return fmax(price_link_us(f, offload) - f->total_us, 0);
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

/* The time of what such an action sends to another rank. */
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

/* first: as the first action of the stage that gives such gradients. */
static struct price_func
as_run(const struct sched *s, const struct price_traits *traits,
       const struct price *p, uint32_t stage, uint32_t kind, bool first)
{
	struct price_func f = p->stage[stage][kind];
	double us = send_us(s, p, stage, kind), link_us;

	if (first) {
		price_set_first(&f);
	}
	hide_overlap(traits, &f);
	if (f.total_us > 0 && traits->eager) {
		wait_for_host(&f);
	}
	link_us = price_link_wait_us(&f, p->offload);
	f.us[PRICE_OFFLOAD] += link_us;
	f.total_us += link_us;
	if (f.total_us > 0 && traits->blocking) {
		f.us[PRICE_COMM] += us;
		f.total_us += us;
	}
	return f;
}

/*
 * The update, less what data ranks communicate beside other work: gradients are
 * reduced beside the last backward of each stage, and weights gathered beside
 * the first forward.
 */
static struct price_func
updated(const struct sched *s, const struct price_traits *traits,
	const struct price *p, uint32_t rank)
{
	struct price_func f = p->update[rank];
	double other_us = 0;
	uint32_t i, k;

	for (i = 0; traits->overlap_data && i < s->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS && s->rank_of[i] == rank; k++) {
			other_us += p->run[i][k].total_us;
		}
	}
	hide(&f, fmin(f.data_us, other_us) * (1 - PRICE_SLOWED));
	return f;
}

void
price_run(const struct sched *s, const struct price_traits *traits,
	  struct arena *a, struct price *p)
{
	uint32_t i, k;

	p->run = arena_alloc(a, s->nstages * sizeof *p->run);
	p->updated = arena_alloc(a, s->nranks * sizeof *p->updated);
	p->first = arena_alloc(a, s->nstages * sizeof *p->first);
	p->first_kind = sched_first_weights(a, s);
	for (i = 0; i < s->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			p->run[i][k] = as_run(s, traits, p, i, k, false);
		}
		p->first[i] = as_run(s, traits, p, i, p->first_kind[i], true);
	}
	for (i = 0; i < s->nranks; i++) {
		p->updated[i] = updated(s, traits, p, i);
	}
}
