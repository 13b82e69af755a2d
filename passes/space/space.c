/*
 * Facts of the model, pins, and legal degrees.  A degree
 * divides the number of devices, or is pinned.  Tensors are split over at most
 * two nodes.  A context is split where sequences are long, or too few to give
 * each device a microbatch.
 */
#include "passes/space/space.h"
#include "passes/plan/plan_keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* positions: cp is tried for longer sequences, or for few */
#define LONG_CONTEXT 8192

/* ---- facts ---- */

static void
find_pins(struct space *s)
{
	static const char *const keys[SPACE_NPINS] = {
		"plan.pp", "plan.dp", "plan.ep", "plan.cp", "plan.tp",
		"plan.microbatch", "plan.interleave", "plan.schedule",
		"plan.zero", "plan.sequence", "plan.context",
		"plan.balanced", "plan.recompute", "plan.stages",
		"plan.offload"
	};
	const struct ir_setting *even;
	int i;

	for (i = 0; i < SPACE_NPINS; i++) {
		s->pinned[i] = ir_setting(s->m, keys[i]) != NULL;
	}
	even = ir_setting(s->m, "plan.stages");
	s->even = even && even->text &&
		  strcmp(ir_text(s->m->ctx, even->text), "even") == 0;
	s->pinned[SPACE_PIN_STAGES] &= !s->even;
	s->pinned[SPACE_PIN_RECOMPUTE] |= strcmp(plan_recompute_hint(s->m),
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
find_kinds(struct space *s)
{
	const struct ir_module *m = s->m;
	const struct ir_region *r =
		&m->regions.at[m->funcs.at[ir_model(m)].body];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);
		struct space_kind *k = &s->kinds[s->nkinds];

		if (!ir_is(n->op, IRF_REGION) || !n->nresults ||
		    ir_attr(m, n, IR_ATTR_REVERSE)) {
			continue;
		}
		if (s->nkinds == SPACE_MAX_KINDS) {
			diag_error(&m->ctx->diags, n->span, "the search "
				   "handles at most %d repeats of layers, and "
				   "this is one more: give the whole plan with "
				   "--plan",
				   SPACE_MAX_KINDS);
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

static struct span
span_of(const struct space *s, const char *key)
{
	const struct ir_setting *x = ir_setting(s->m, key);

	return x ? x->span : (struct span){ 0, 0 };
}

/* Whether a search can take these pins. */
static bool
check_pins(const struct space *s)
{
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
	if (s->pinned[SPACE_PIN_SCHEDULE] && s->base.schedule_file) {
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
	return true;
}

/*
 * Sets keys that are not pinned to their widest: with `sequence`, `place` may
 * split sequences over the tensor axis, but need not.
 */
static void
set_base(struct space *s)
{
	if (!s->pinned[SPACE_PIN_SEQUENCE]) {
		s->base.sequence = true;
	}
	/* a balanced context needs two pieces for each rank */
	if (!s->pinned[SPACE_PIN_BALANCED]) {
		s->base.balanced = !s->pinned[SPACE_PIN_CP] ||
				   2 * s->base.cp <= s->context_most;
	}
}

/* ---- degrees ---- */

/* Legal values of a degree, ascending. */
struct legal {
	VEC(int64_t) at;
};

/* The divisors of n that are at most so large. */
static void
fill_divisors(struct space *s, struct legal *d, int64_t n, int64_t most)
{
	int64_t i;

	memset(d, 0, sizeof *d);
	for (i = 1; i <= n && i <= most; i++) {
		if (n % i == 0) {
			VEC_PUSH(&s->keep, &d->at, i);
		}
	}
}

static void
fill(struct space *s, struct legal *d, bool pinned, int64_t pin,
     int64_t most)
{
	if (pinned) {
		memset(d, 0, sizeof *d);
		VEC_PUSH(&s->keep, &d->at, pin);
	} else {
		fill_divisors(s, d, target_devices(s->target), most);
	}
}

static int64_t
context_limit(const struct space *s)
{
	int64_t n = target_devices(s->target);
	int64_t each = s->pinned[SPACE_PIN_MICROBATCH] ? s->base.microbatch : 1;

	return (s->context_most > LONG_CONTEXT ||
		num_ceil_div(s->batch, each) < n) &&
	       s->context_most > SPACE_CONTEXT_PIECE
		? s->context_most / SPACE_CONTEXT_PIECE : 1;
}

uint32_t
space_may_offload(const struct space *s)
{
	uint32_t tensors = PLAN_OFFLOAD_OPTIMIZER | PLAN_OFFLOAD_PARAMS;

	return s->pinned[SPACE_PIN_OFFLOAD] ? s->base.offload & tensors
		: s->t->device.host_bytes_us <= 0 ? 0
		: s->streams ? tensors : PLAN_OFFLOAD_OPTIMIZER;
}

/* Of a mean rank's device. */
static double
capacity(struct space *s, const struct space_degrees *g)
{
	double all = 0;
	uint32_t *dev, i;

	if (s->devs.n == 1) {
		return space_capacity(s, 0);
	}
	dev = space_devs_of_ranks(s, g, &s->tmp);
	for (i = 0; i < (uint32_t)g->pp; i++) {
		all += space_capacity(s, dev[i]);
	}
	arena_release(&s->tmp);
	return all / (double)g->pp;
}

static void
add_degrees(struct space *s, struct space_degrees *g)
{
	int64_t ranks = g->dp * g->ep;

	g->used = g->tp * g->cp * g->ep * g->pp * g->dp;
	if (g->used <= target_devices(s->target) && ranks <= s->batch) {
		g->nth = s->degrees.n;
		g->capacity = capacity(s, g);
		VEC_PUSH(&s->keep, &s->degrees, *g);
	}
}

static void
with_tensor(struct space *s, const struct legal d[PLAN_NAXES],
	    struct space_degrees *g)
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
					add_degrees(s, g);
				}
			}
		}
	}
}

static void
find_degrees(struct space *s)
{
	const struct plan *b = &s->base;
	struct legal d[PLAN_NAXES];
	struct space_degrees g;
	int64_t most = 0;	/* of devices of a node */
	uint32_t i;

	for (i = 0; i < s->nsingle; i++) {
		most = s->devs.at[i]->devices > most
			? s->devs.at[i]->devices : most;
	}
	fill(s, &d[PLAN_TP], s->pinned[SPACE_PIN_TP], b->tp,
	     s->tensor_most < 2 * most ? s->tensor_most : 2 * most);
	fill(s, &d[PLAN_CP], s->pinned[SPACE_PIN_CP], b->cp, context_limit(s));
	fill(s, &d[PLAN_EP], s->pinned[SPACE_PIN_EP], b->ep, s->experts);
	if (s->pinned[SPACE_PIN_STAGES] && !s->pinned[SPACE_PIN_PP]) {
		fill_divisors(s, &d[PLAN_PP], b->nstages, b->nstages);
	} else {
		fill(s, &d[PLAN_PP], s->pinned[SPACE_PIN_PP], b->pp,
		     s->nlayers > 1 ? s->nlayers : 1);
	}
	fill(s, &d[PLAN_DP], s->pinned[SPACE_PIN_DP], b->dp, s->batch);
	for (i = 0; i < d[PLAN_TP].at.n; i++) {
		g.tp = d[PLAN_TP].at.at[i];
		with_tensor(s, d, &g);
	}
}

/* ---- all of it ---- */

bool
space_open(struct space *s)
{
	const struct target *t = s->target;
	struct plan_facts f;

	arena_init(&s->keep, &s->m->ctx->mem);
	arena_init(&s->tmp, &s->m->ctx->mem);
	arena_init(&s->held, &s->m->ctx->mem);
	s->t = target_span(t, 0, t->groups.n - 1);
	if (!plan_read_pins(s->m, &s->base) || !plan_names(s->m)) {
		return false;
	}
	space_find_devs(s);
	find_pins(s);
	if (!check_pins(s)) {
		return false;
	}
	plan_facts(s->m, &f);
	s->batch_dim = f.batch;
	s->expert_dim = f.experts;
	s->batch = s->base.batch;
	s->experts = f.experts ? ir_dim_size(s->m, f.experts) : 1;
	s->tensor_most = f.longest ? ir_dim_size(s->m, f.longest) : 1;
	s->context_most = f.seq ? ir_dim_size(s->m, f.seq) : 1;
	set_base(s);
	if (!find_kinds(s)) {
		return false;
	}
	find_degrees(s);
	return true;
}

void
space_release(struct space *s)
{
	arena_release(&s->keep);
	arena_release(&s->tmp);
	arena_release(&s->held);
}
