/*
 * The space of the search: facts of the model, and legal degrees.  A degree
 * divides the number of devices, or is pinned.  Tensors are split over at most
 * two nodes.  A context is split where sequences are long, or too few to give
 * each device a microbatch.
 */
#include "passes/search/search_parts.h"
#include "passes/plan/plan_keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* positions: cp is tried for longer sequences, or for few */
#define LONG_CONTEXT 8192
#define TENSOR 0.1		/* guessed costs of doubling tp, cp, ep */
#define CONTEXT 0.05
#define EXPERT 0.02

/* ---- facts ---- */

static void
find_pins(struct search *s)
{
	static const char *const keys[PIN_NPINS] = {
		"plan.pp", "plan.dp", "plan.ep", "plan.cp", "plan.tp",
		"plan.microbatch", "plan.interleave", "plan.schedule",
		"plan.zero", "plan.sequence", "plan.context",
		"plan.balanced", "plan.recompute", "plan.stages",
		"plan.offload"
	};
	const struct ir_setting *even;
	int i;

	for (i = 0; i < PIN_NPINS; i++) {
		s->pinned[i] = ir_setting(s->m, keys[i]) != NULL;
	}
	even = ir_setting(s->m, "plan.stages");
	s->even = even && even->text &&
		  strcmp(ir_text(s->m->ctx, even->text), "even") == 0;
	s->pinned[PIN_STAGES] &= !s->even;
	s->pinned[PIN_RECOMPUTE] |= strcmp(plan_recompute_hint(s->m),
					   "none") != 0;
}

static bool
has_experts(const struct ir_module *m, region_id r)
{
	uint32_t i;

	for (i = 0; i < m->regions.at[r].nodes.n; i++) {
		const struct ir_node *n = ir_node(m, m->regions.at[r]
						     .nodes.at[i]);

		if ((ir_is(n->op, IRF_INDEXED) && ir_is(n->op, IRF_CONTRACTS))
		    || (n->region && has_experts(m, n->region))) {
			return true;
		}
	}
	return false;
}

/* Finds the kinds of layers: outermost repeats that have results, forward. */
static bool
find_kinds(struct search *s)
{
	const struct ir_module *m = s->m;
	const struct ir_region *r =
		&m->regions.at[m->funcs.at[ir_model(m)].body];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);
		struct search_kind *k = &s->kinds[s->nkinds];

		if (!ir_is(n->op, IRF_REGION) || !n->nresults ||
		    ir_attr(m, n, IR_ATTR_REVERSE)) {
			continue;
		}
		if (s->nkinds == SEARCH_MAX_KINDS) {
			diag_error(&m->ctx->diags, n->span, "the search "
				   "handles at most %d repeats of layers, and "
				   "this is one more: give the whole plan with "
				   "--plan",
				   SEARCH_MAX_KINDS);
			return false;
		}
		k->experts = has_experts(m, n->region);
		k->first = s->nlayers;
		k->iterations = ir_attr_int(m, n, IR_ATTR_COUNT, 1);
		s->nlayers += k->iterations;
		s->nkinds++;
	}
	return true;
}

static double
best_rate(const struct search *s)
{
	return search_best_rate(search_quickest(s));
}

static double
part_of(const struct pass_sums *sums, enum pass_group group)
{
	return sums->total ? (double)sums->group[group] / (double)sums->total
			   : 0;
}

/*
 * Sets the work of a step, for a lower bound.  So it counts contractions only,
 * and half of attention, since a causal mask leaves out the rest.
 */
static bool
find_work(struct search *s)
{
	struct pass_sums sums;
	double tokens, flops;

	if (!pass_sum(s->m, &sums)) {
		return false;
	}
	tokens = sums.tokens ? (double)sums.tokens : 1;
	flops = sums.contraction_flops + sums.attention_flops / 2;
	s->flops_us = flops * tokens / best_rate(s);
	s->static_bytes[0] = (double)sums.weight_bytes;
	s->static_bytes[1] = (double)sums.gradient_bytes;
	s->static_bytes[2] = (double)sums.optimizer_bytes;
	s->expert_part = part_of(&sums, GROUP_EXPERTS);
	s->table_part = part_of(&sums, GROUP_EMBEDDING);
	s->twice_part = part_of(&sums, GROUP_ATTENTION) +
			part_of(&sums, GROUP_MLP) +
			part_of(&sums, GROUP_HEAD);
	return true;
}

static struct span
span_of(const struct search *s, const char *key)
{
	const struct ir_setting *x = ir_setting(s->m, key);

	return x ? x->span : (struct span){ 0, 0 };
}

bool
search_open(struct search *s)
{
	struct plan_facts f;

	search_find_devs(s);
	find_pins(s);
	if (s->base.offload && s->t->device.host_bytes_us <= 0) {
		diag_error(&s->m->ctx->diags, span_of(s, "plan.offload"),
			   "`offload` is %s, and the target has no link to "
			   "the host: `host` is 0: none is legal",
			   plan_offload_text(s->base.offload));
		return false;
	}
	if (plan_on_drives(s->base.offload) &&
	    s->t->device.nvme_bytes_us <= 0) {
		bool state = s->base.offload & PLAN_NVME_OPTIMIZER;

		diag_error(&s->m->ctx->diags,
			   span_of(s, state ? "plan.offload_to"
					    : "plan.parameters_to"),
			   "`%s` is nvme, and the target has no drives: "
			   "`nvme` is 0: host is legal",
			   state ? "offload_to" : "parameters_to");
		return false;
	}
	if (s->pinned[PIN_SCHEDULE] && s->base.schedule_file) {
		diag_error(&s->m->ctx->diags, span_of(s, "plan.schedule"),
			   "a search makes its own schedules, and `schedule` "
			   "is a file: give the whole plan with --plan");
		return false;
	}
	if (s->base.recompute_of) {
		diag_error(&s->m->ctx->diags, span_of(s, "plan.recompute"),
			   "a search takes one set of `recompute` for all "
			   "stages, or none and chooses, and this is a list "
			   "by stage: give the whole plan with --plan");
		return false;
	}
	plan_facts(s->m, &f);
	s->batch = s->base.batch;
	s->experts = f.experts ? ir_dim_size(s->m, f.experts) : 1;
	s->tensor_most = f.longest ? ir_dim_size(s->m, f.longest) : 1;
	s->context_most = f.seq ? ir_dim_size(s->m, f.seq) : 1;
	search_find_rows(s, f.batch);
	return find_kinds(s) && find_work(s);
}

/* ---- degrees ---- */

/* Legal values of a degree, ascending. */
struct degrees {
	VEC(int64_t) at;
};

static void
fill(struct search *s, struct degrees *d, bool pinned, int64_t pin,
     int64_t most)
{
	int64_t n = target_devices(s->o->target), i;

	memset(d, 0, sizeof *d);
	for (i = 1; i <= n && !pinned; i++) {
		if (n % i == 0 && i <= most) {
			VEC_PUSH(&s->keep, &d->at, i);
		}
	}
	if (pinned) {
		VEC_PUSH(&s->keep, &d->at, pin);
	}
}

static int64_t
context_limit(const struct search *s)
{
	int64_t n = target_devices(s->o->target);
	int64_t each = s->pinned[PIN_MICROBATCH] ? s->base.microbatch : 1;

	return (s->context_most > LONG_CONTEXT ||
		num_ceil_div(s->batch, each) < n) &&
	       s->context_most > SEARCH_CONTEXT_PIECE
		? s->context_most / SEARCH_CONTEXT_PIECE : 1;
}

uint32_t
search_may_offload(const struct search *s)
{
	uint32_t tensors = PLAN_OFFLOAD_OPTIMIZER | PLAN_OFFLOAD_PARAMS;

	return s->pinned[PIN_OFFLOAD] ? s->base.offload & tensors
		: s->t->device.host_bytes_us <= 0 ? 0
		: s->streams ? tensors : PLAN_OFFLOAD_OPTIMIZER;
}

/*
 * ZeRO splits a tensor among all ranks that hold it: ranks of dp and cp hold
 * the same tensors of experts, and ranks of ep, too, all others.
 */
double
search_least_bytes(const struct search *s, const struct search_group *g,
		   int zero, uint32_t offload)
{
	double ranks = (double)(g->tp * g->pp), ep = (double)g->ep, least = 0;
	int i;

	for (i = 0; i < 3; i++) {	/* 2: states */
		double all = s->static_bytes[i] / ranks;
		double cut = zero >= 3 - i ? (double)(g->dp * g->cp) : 1;
		double others = zero >= 3 - i ? cut * ep : 1;

		if (offload & (i < 2 ? PLAN_OFFLOAD_PARAMS
				     : PLAN_OFFLOAD_OPTIMIZER)) {
			continue;
		}
		least += all * ((1 - s->expert_part) / others +
				s->expert_part / (cut * ep));
	}
	return least;
}

/*
 * The guessed step: the lower bound, with the bubble of a pipeline with one
 * layer a stage, and a fixed cost for each doubling of tp, cp and ep.
 */
static double
guess_us(const struct search *s, const struct search_group *g, int64_t share)
{
	int64_t v = g->pp < s->nlayers ? s->nlayers / g->pp : 1;
	double data_us = g->sum_us + g->gather_us;
	double us = g->bound_us - data_us;

	us *= 1 + (double)(g->pp - 1) / (double)(v * share);
	us *= 1 + TENSOR * log2((double)g->tp) +
	      CONTEXT * log2((double)g->cp) + EXPERT * log2((double)g->ep);
	return us + data_us;
}

/*
 * Lower bound of the time of exchange in microbatches, with the mildest ZeRO
 * that fits: 0 with ZeRO 0 or 1.
 */
static double
strict_us(const struct search *s, const struct search_group *g)
{
	int64_t mb = s->pinned[PIN_MICROBATCH] ? s->base.microbatch : 1;
	struct search_key key = { .zero = g->dp > 1, .ep = g->ep,
				  .cp = g->cp };
	struct search_try t = { .g = g, .microbatch = mb };

	if (s->pinned[PIN_ZERO]) {
		key.zero = s->base.zero;
	}
	while (!s->pinned[PIN_ZERO] && key.zero < 3 &&
	       search_least_bytes(s, g, key.zero, search_may_offload(s)) >
	       g->capacity) {
		key.zero++;
	}
	t.nmicrobatches = search_microbatches(s, g, mb);
	return search_data_us(s, &key, &t, g->guess_us) -
	       g->sum_us - g->gather_us;
}

/* As how many of the quickest devices g's ranks count; sets g->capacity. */
static double
worth(struct search *s, struct search_group *g)
{
	double best = best_rate(s), all = 0, capacity = 0;
	uint32_t *dev, i;

	if (s->devs.n == 1) {
		g->capacity = search_capacity(s, 0);
		return (double)g->used;
	}
	dev = search_devs_of_ranks(s, g, &s->tmp);
	for (i = 0; i < (uint32_t)g->pp; i++) {
		all += search_best_rate(s->devs.at[dev[i]]) / best;
		capacity += search_capacity(s, dev[i]);
	}
	arena_release(&s->tmp);
	g->capacity = capacity / (double)g->pp;
	return all * (double)g->used / (double)g->pp;
}

static void
add_group(struct search *s, struct search_group *g)
{
	int64_t ranks = g->dp * g->ep, share = num_ceil_div(s->batch, ranks);

	g->used = g->tp * g->cp * g->ep * g->pp * g->dp;
	if (g->used > target_devices(s->o->target) || ranks > s->batch) {
		return;
	}
	g->bound_us = s->flops_us / worth(s, g) *
		      ((double)(share * ranks) / (double)s->batch);
	search_set_exchange(s, g);
	g->bound_us += g->sum_us + g->gather_us;
	g->guess_us = guess_us(s, g, share);
	g->guess_us += strict_us(s, g);
	VEC_PUSH(&s->keep, &s->groups, *g);
}

static int
by_degrees(const struct search_group *x, const struct search_group *y)
{
	int64_t p = x->tp * x->cp * x->pp, q = y->tp * y->cp * y->pp;

	if (p != q) {	/* less communication and waiting */
		return p < q ? -1 : 1;
	}
	if (x->tp != y->tp) {
		return x->tp < y->tp ? -1 : 1;
	}
	if (x->cp != y->cp) {
		return x->cp < y->cp ? -1 : 1;
	}
	if (x->pp != y->pp) {
		return x->pp < y->pp ? -1 : 1;
	}
	return x->ep < y->ep ? -1 : x->ep > y->ep ? 1
		: x->dp < y->dp ? -1 : x->dp > y->dp;
}

static int
by_guess(const void *a, const void *b)
{
	const struct search_group *x = a, *y = b;

	if (x->guess_us != y->guess_us) {
		return x->guess_us < y->guess_us ? -1 : 1;
	}
	return by_degrees(x, y);
}

static void
with_tensor(struct search *s, const struct degrees d[PLAN_NAXES],
	    struct search_group *g)
{
	uint32_t c, e, p, q;

	for (c = 0; c < d[PLAN_CP].at.n; c++) {
		g->cp = d[PLAN_CP].at.at[c];
		for (e = 0; e < d[PLAN_EP].at.n; e++) {
			g->ep = d[PLAN_EP].at.at[e];
			for (p = 0; p < d[PLAN_PP].at.n; p++) {
				g->pp = d[PLAN_PP].at.at[p];
				for (q = 0; q < d[PLAN_DP].at.n; q++) {
					g->dp = d[PLAN_DP].at.at[q];
					add_group(s, g);
				}
			}
		}
	}
}

void
search_groups(struct search *s)
{
	const struct plan *b = &s->base;
	struct degrees d[PLAN_NAXES];
	struct search_group g;
	int64_t most = 0;	/* of devices of a node */
	uint32_t i;

	for (i = 0; i < s->ngroups; i++) {
		most = s->devs.at[i]->devices > most
			? s->devs.at[i]->devices : most;
	}
	fill(s, &d[PLAN_TP], s->pinned[PIN_TP], b->tp,
	     s->tensor_most < 2 * most ? s->tensor_most : 2 * most);
	fill(s, &d[PLAN_CP], s->pinned[PIN_CP], b->cp, context_limit(s));
	fill(s, &d[PLAN_EP], s->pinned[PIN_EP], b->ep, s->experts);
	fill(s, &d[PLAN_PP], s->pinned[PIN_PP], b->pp,
	     s->nlayers > 1 ? s->nlayers : 1);
	fill(s, &d[PLAN_DP], s->pinned[PIN_DP], b->dp, s->batch);
	for (i = 0; i < d[PLAN_TP].at.n; i++) {
		g.tp = d[PLAN_TP].at.at[i];
		with_tensor(s, d, &g);
	}
}

/* ---- a better order ---- */

void
search_sort_groups(struct search *s)
{
	struct search_try t = { .sched = sched_find("1f1b") };
	struct search_key key = { .sequence = s->base.sequence };
	int zero = s->pinned[PIN_ZERO] ? s->base.zero : 3;
	uint32_t i;

	t.microbatch = s->pinned[PIN_MICROBATCH] ? s->base.microbatch : 1;
	for (i = 0; i < s->groups.n; i++) {
		struct search_group *g = &s->groups.at[i];

		if (search_least_bytes(s, g, zero, search_may_offload(s)) >
		    g->capacity) {
			continue;	/* it does not fit */
		}
		t.g = g;
		t.nmicrobatches = search_microbatches(s, g, t.microbatch);
		t.chunks = g->pp > 1 && g->pp < s->nlayers &&
			   t.nmicrobatches % g->pp == 0
			? s->nlayers / g->pp : 1;
		g->guess_us = fmax(g->guess_us, search_guess_us(s, &key, &t) +
						strict_us(s, g));
	}
	if (s->groups.n) {
		qsort(s->groups.at, s->groups.n, sizeof *s->groups.at,
		      by_guess);
	}
	arena_release(&s->tmp);
}
