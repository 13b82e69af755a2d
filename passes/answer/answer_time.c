/*
 * What the time of a priced step is spent on.  Every kernel of the busiest rank
 * is priced again and counted for its use: a collective for its axis of the
 * mesh, a kernel that backward recomputes for recomputation, one of the update
 * for the optimizer.  The sums are those of price.c: each of its parts is
 * divided in proportion to these kernels, so overlap counts here as there.
 */
#include "passes/answer/answer.h"

#include <math.h>
#include <string.h>

const struct answer_time_row answer_times[ANSWER_NTIMES] = {
#define TIME(id, key, what) { key, what },
	ANSWER_TIMES(TIME)
#undef TIME
};

/* By part of price.c: the time of kernels by their use. */
struct time_share {
	double us[PRICE_NPARTS][ANSWER_NTIMES];
	struct answer_counted counted;
};

enum use { USE_FORWARD, USE_BACKWARD, USE_UPDATE };

struct split_time {
	struct pricing p;
	struct kernels *const *all;
	axis_id axis[PLAN_NAXES];	/* 0: the mesh has none */
	enum use use;
	double runs;		/* of the function, in a step */
	uint32_t depth;		/* of repeats around the kernel */
	bool *seq;		/* by dim: what keys or queries run along */
	bool *grad;		/* by value: a gradient, or made of one */
	bool *grad_name;	/* by name: such a value is saved under it */
};

/* ---- recomputation ---- */

static bool
any_grad(const struct split_time *x, const struct ir_node *n)
{
	const value_id *args = ir_args(x->p.m, n);
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		if (x->grad[args[i]]) {
			return true;
		}
	}
	return false;
}

/*
 * Marks values that depend on a gradient: one from the next stage, one that a
 * repeat carries, or one that was saved.  Everything else that an iteration of
 * backward computes, forward has computed, too.
 */
static void
mark_grads(struct split_time *x, region_id r)
{
	struct ir_module *m = x->p.m;
	const struct ir_region *region = &m->regions.at[r];
	uint32_t i, k;

	for (i = 0; i < region->params.n; i++) {
		x->grad[region->params.at[i]] = true;
	}
	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, region->nodes.at[i]);
		const struct ir_attr *name = ir_attr(m, n, IR_ATTR_NAME);
		bool stash = name && ir_is(n->op, IRF_STASH);
		bool grad = any_grad(x, n) || n->region ||
			    ir_is(n->op, IRF_PEER) ||
			    (stash && x->grad_name[name->text]);

		if (stash && ir_is(n->op, IRF_SINK)) {
			x->grad_name[name->text] |= grad;
		}
		for (k = 0; k < n->nresults; k++) {
			x->grad[n->result + k] = grad;
		}
		if (n->region) {
			mark_grads(x, n->region);
		}
	}
}

/* Whether backward recomputes what forward did. */
static bool
is_recomputed(const struct split_time *x, const struct kernel *k)
{
	uint32_t i;

	if (x->use != USE_BACKWARD || x->depth == 0 ||
	    k->kind == KERNEL_COLLECTIVE) {
		return false;
	}
	for (i = k->ncopies; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(x->p.m, k->nodes.at[i]);

		if (any_grad(x, n) ||
		    (n->nresults && x->grad[n->result])) {
			return false;
		}
	}
	return true;
}

/* ---- collectives ---- */

static bool
spans(const struct split_time *x, uint32_t axes, enum plan_axis a)
{
	return x->axis[a] && (axes >> x->axis[a] & 1);
}

/* Whether the collective splits or gathers a sequence along the tensor axis. */
static bool
cuts_sequence(const struct split_time *x, const struct kernel *k)
{
	struct ir_module *m = x->p.m;
	axis_id tp = x->axis[PLAN_TP];
	uint32_t i;

	for (i = 0; i < k->nodes.n && tp; i++) {
		const struct ir_node *n = ir_node(m, k->nodes.at[i]);
		struct ir_along in, out;

		if (!ir_is(n->op, IRF_COMM) || !n->nargs || !n->nresults) {
			continue;
		}
		in = ir_along(ir_type(m, ir_args(m, n)[0]), tp);
		out = ir_along(ir_type(m, n->result), tp);
		if ((in.how == IR_IS_SPLIT && x->seq[in.dim]) ||
		    (out.how == IR_IS_SPLIT && x->seq[out.dim])) {
			return true;
		}
	}
	return false;
}

/* Of several axes the outermost counts, as for a norm's sum over all ranks. */
static enum answer_time
coll_of(const struct split_time *x, const struct kernel *k)
{
	uint32_t axes = k->work->coll.axes;

	return spans(x, axes, PLAN_PP) ? ANSWER_PIPELINE :
	       spans(x, axes, PLAN_DP) ? ANSWER_DATA :
	       spans(x, axes, PLAN_EP) ?
	       (x->use == USE_UPDATE ? ANSWER_DATA : ANSWER_EXPERT) :
	       spans(x, axes, PLAN_CP) ?
	       (x->use == USE_UPDATE ? ANSWER_DATA : ANSWER_CONTEXT) :
	       cuts_sequence(x, k) ? ANSWER_SEQUENCE : ANSWER_TENSOR;
}

/* ---- kernels and functions ---- */

static enum answer_time
plain_time(enum price_part part)
{
	return part == PRICE_MATRIX ? ANSWER_MATRIX :
	       part == PRICE_ATTENTION ? ANSWER_ATTENTION :
	       part == PRICE_HOST ? ANSWER_LAUNCH :
	       part == PRICE_OFFLOAD ? ANSWER_HOST : ANSWER_MAPS;
}

/* Launches that a kernel has, or its part of one. */
static double
launches_of(const struct split_time *x, const struct kernel *k)
{
	uint32_t n = price_launches(&x->p, k);

	return k->kind == KERNEL_COLLECTIVE ? 0 :
	       k->parts ? k->parts->n * n :
	       n > 1 ? n :
	       k->launch && price_shares_launch(&x->p, k) ? 1. / k->launch->n
							  : 1;
}

static void
share_kernel(struct split_time *x, const struct kernel *k, double times,
	     struct time_share *to)
{
	double launch = x->p.t->device.launch_us * launches_of(x, k);
	bool again = is_recomputed(x, k);
	struct price_func f = { 0 };
	int part;

	price_kernel(&x->p, k, &f);
	price_set_mean(&f, x->runs);
	to->counted.epilogues_us += times * f.put_us;
	to->counted.attention_us += times * f.own_us;
	for (part = 0; part < PRICE_NPARTS; part++) {
		enum answer_time t = part == PRICE_OFFLOAD ? ANSWER_HOST :
			x->use == USE_UPDATE ? ANSWER_OPTIMIZER :
			again ? ANSWER_RECOMPUTE
			      : plain_time((enum price_part)part);
		double us = f.us[part], l = 0;

		if (part == PRICE_COMM) {
			t = k->work->coll.axes ? coll_of(x, k) : ANSWER_TENSOR;
		} else {
			l = fmin(us, launch);
			launch -= l;
		}
		to->us[part][t] += times * (us - l);
		to->us[part][ANSWER_LAUNCH] += times * l;
	}
}

/* Takes off the time that is hidden beside kernels, of each collective. */
static void
share_hidden(struct split_time *x, const struct kernel_list *l, double times,
	     struct time_share *to)
{
	struct arena *a = &x->p.m->ctx->tmp;
	struct price_func *each = arena_alloc(a, (l->at.n + 1) *
					      sizeof *each);
	double *us = arena_alloc(a, (l->at.n + 1) * sizeof *us);
	uint32_t i;

	if (x->depth == 0 || x->p.traits->overlap_data) {
		return;
	}
	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body) {
			price_list(&x->p, k->body, &each[i]);
		} else {
			price_kernel(&x->p, k, &each[i]);
		}
	}
	price_hidden(&x->p, l, each, us);
	for (i = 0; i < l->at.n; i++) {
		if (us[i] > 0) {
			to->us[PRICE_COMM][coll_of(x, &l->at.at[i])] -=
				times * us[i];
		}
	}
}

static void
share_list(struct split_time *x, const struct kernel_list *l, double times,
	   struct time_share *to)
{
	uint32_t i;

	times *= (double)l->count;
	for (i = 0; i < l->at.n; i++) {
		if (l->at.at[i].body) {
			x->depth++;
			share_list(x, l->at.at[i].body, times, to);
			x->depth--;
		} else {
			share_kernel(x, &l->at.at[i], times, to);
		}
	}
	share_hidden(x, l, times, to);
}

static void
share_function(struct split_time *x, func_id id, enum use use, double times,
	       struct time_share *to)
{
	if (id && x->all[id]) {
		x->use = use;
		x->runs = times;
		share_list(x, x->all[id]->top, times, to);
	}
}

/* ---- the busiest rank ---- */

/* By the sums of functions; price_busiest counts overlap and waits, too. */
uint32_t
answer_busiest(const struct ranks *r, const struct price *p)
{
	double best = -1;
	uint32_t i, k, at = 0;

	for (i = 0; i < r->sched->nranks; i++) {
		const struct sched_list *l = &r->sched->ranks[i];
		double us = p->update[i].total_us;

		for (k = 0; k < l->actions.n; k++) {
			const struct sched_action *a = &l->actions.at[k];

			us += p->stage[a->stage][a->kind].total_us;
		}
		for (k = 0; k < r->nstages; k++) {
			us -= r->sched->rank_of[k] == i
				? p->stage[k][p->first_kind[k]].first_us : 0;
		}
		if (us > best) {
			best = us;
			at = i;
		}
	}
	return at;
}

static struct pricing
pricing_of(const struct ranks *r, const struct target_devs *t,
	   const struct price *p, uint32_t rank)
{
	return (struct pricing){
		.r = r, .m = r->m, .t = target_devs_of(t, rank),
		.across = t->all, .traits = &p->traits
	};
}

static void
share_rank(struct split_time *x, const struct ranks *r, struct arena *a,
	   uint32_t rank, struct time_share *to)
{
	const struct sched_times *times = sched_times(a, r->sched);
	uint32_t s, k;

	for (s = 0; s < r->nstages; s++) {
		for (k = 0; k < SCHED_NKINDS &&
		     r->sched->rank_of[s] == rank; k++) {
			share_function(x, r->of_stage[s][k],
				       sched_kinds[k].does & SCHED_FORWARD
				       ? USE_FORWARD : USE_BACKWARD,
				       times[s].of[k], to);
		}
	}
	share_function(x, r->update[rank], USE_UPDATE, 1, to);
}

/* ---- the whole ---- */

static void
mark_factor(struct split_time *x, const struct ir_rule *r, const char *name)
{
	const struct ir_factor *f = ir_rule_factor(r, name);
	uint32_t i;

	for (i = 0; f && i < f->n; i++) {
		x->seq[f->dims[i]] = true;
	}
}

static void
mark_sequence(struct split_time *x)
{
	struct ir_module *m = x->p.m;
	struct ir_rule r;
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		if (ir_is(ir_node(m, id)->op, IRF_PAIRS)) {
			ir_bind(m, ir_node(m, id), &r);
			mark_factor(x, &r, "s");
			mark_factor(x, &r, "t");
		}
	}
}

static void
init(struct split_time *x, const struct ranks *r, const struct pricing *p,
     struct arena *a)
{
	struct ir_module *m = r->m;
	uint32_t i;

	memset(x, 0, sizeof *x);
	x->p = *p;
	x->all = ranks_kernels(r);
	for (i = 0; i < PLAN_NAXES; i++) {
		x->axis[i] = ir_axis_find(m, intern_str(&m->ctx->syms,
				plan_axis_name((enum plan_axis)i)));
	}
	x->seq = arena_alloc(a, m->dims.n * sizeof *x->seq);
	mark_sequence(x);
	x->grad = arena_alloc(a, m->values.n * sizeof *x->grad);
	x->grad_name = arena_alloc(a, m->ctx->syms.text.n *
				   sizeof *x->grad_name);
	/* in this order: the weights half reads what the input half saved */
	for (i = 0; i < r->nstages; i++) {
		static const enum sched_kind back[] = {
			SCHED_B, SCHED_I, SCHED_W
		};
		int k;

		for (k = 0; k < 3; k++) {
			func_id f = r->of_stage[i][back[k]];

			if (f) {
				mark_grads(x, m->funcs.at[f].body);
			}
		}
	}
}

/* Divides each part of price.c in proportion to its kernels. */
static double
share_parts(const struct time_share *s, const double parts_us[PRICE_NPARTS],
	    double us[ANSWER_NTIMES])
{
	double all = 0;
	int q, t;

	for (q = 0; q < PRICE_NPARTS; q++) {
		double sum = 0;

		for (t = 0; t < ANSWER_NTIMES; t++) {
			sum += s->us[q][t];
		}
		for (t = 0; t < ANSWER_NTIMES && sum > 0; t++) {
			us[t] += parts_us[q] * s->us[q][t] / sum;
		}
		if (sum <= 0) {
			us[q == PRICE_COMM ? ANSWER_TENSOR
			   : plain_time((enum price_part)q)] += parts_us[q];
		}
		all += parts_us[q];
	}
	return all;
}

/* The busiest rank works longer than the step: collectives overlap. */
static double
hide_comm(double over_us, double us[ANSWER_NTIMES])
{
	double coll = 0, part;
	int t;

	for (t = ANSWER_TENSOR; t <= ANSWER_PIPELINE; t++) {
		coll += us[t];
	}
	part = coll > 0 ? fmin(over_us / coll, 1) : 0;
	for (t = ANSWER_TENSOR; t <= ANSWER_PIPELINE; t++) {
		us[t] -= part * us[t];
	}
	return over_us - part * coll;
}

void
answer_split_time(const struct ranks *r, const struct target_devs *t,
		  const struct price *p, struct arena *a,
		  double us[ANSWER_NTIMES], struct answer_counted *counted)
{
	uint32_t rank = answer_busiest(r, p);
	struct pricing at = pricing_of(r, t, p, rank);
	struct split_time x;
	struct time_share s = { 0 };
	double idle, hops;

	memset(us, 0, ANSWER_NTIMES * sizeof *us);
	init(&x, r, &at, a);
	share_rank(&x, r, a, rank, &s);
	*counted = s.counted;
	idle = p->step_us - share_parts(&s, p->parts_us, us);
	if (fabs(idle) < 1e-9 * p->step_us) {
		idle = 0;	/* rounding */
	} else if (idle < 0) {
		idle = -hide_comm(-idle, us);
	}
	/* a part of the idle time is waiting for values from other ranks */
	hops = fmin(p->hops_us, fmax(idle, 0));
	us[ANSWER_PIPELINE] += hops;
	us[ANSWER_BUBBLE] = idle - hops;
}

/* ---- what lies on hosts ---- */

static double
host_of(const struct pricing *p, const struct kernel_list *l)
{
	double us = 0;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		us += k->body ? host_of(p, k->body) : price_host_us(p, k);
	}
	return us * (double)l->count;
}

/* Of what the rank's layers have there, in all actions of a step. */
static double
layers_of(const struct ranks *r, const struct price *p, uint32_t rank)
{
	const struct sched_list *l = &r->sched->ranks[rank];
	double us = 0;
	uint32_t i;

	for (i = 0; i < l->actions.n; i++) {
		const struct sched_action *x = &l->actions.at[i];

		us += price_link_us(&p->stage[x->stage][x->kind], p->offload);
	}
	return us;
}

double
answer_host_us(const struct ranks *r, const struct target_devs *t,
	       const struct price *p)
{
	uint32_t rank = answer_busiest(r, p);
	struct pricing at = pricing_of(r, t, p, rank);
	func_id update = r->update[rank];

	return layers_of(r, p, rank) +
	       (update && ranks_kernels(r)[update]
		? host_of(&at, ranks_kernels(r)[update]->top) : 0);
}
