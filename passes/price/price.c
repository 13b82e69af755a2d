/*
 * The time of a whole step: of every function the sum of its kernels, times the
 * iterations of their repeats; then of the schedule, action by action; then of
 * the slowest update, with the reduction of gradients in it.
 */
#include "passes/price/price.h"

#include "ir/memo.h"
#include "passes/plan/plan.h"

#include <math.h>
#include <string.h>

const char *const price_part_names[PRICE_NPARTS] = {
	"contractions", "attention", "maps and rows", "collectives",
	"host transfers", "waiting for the host"
};

/* ---- functions ---- */

void
price_sum(struct pricing *p, const struct kernel_list *l,
	  const struct price_func *each, double beside_us,
	  struct price_func *once)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		price_add(once, &each[i], 1);
		if (each[i].first_us != 0 && !l->at.at[i].body) {
			once->first_us += each[i].first_us *
				(price_first_share(p, l, &l->at.at[i]) - 1);
		}
	}
	if (p->maps) {
		price_maps(p, l, once);
	}
	once->beside_us += beside_us;
	once->first_beside_us += price_first_beside(p, l, each, beside_us);
}

/*
 * Collectives overlap with kernels only inside repeats: the search prices what
 * is outside kernel by kernel, and must get the same sum.
 */
static void
price_once(struct pricing *p, const struct kernel_list *l, bool repeats,
	   struct price_func *once)
{
	struct price_func *each;
	uint32_t i;

	each = arena_alloc(&p->m->ctx->tmp, (l->at.n + 1) * sizeof *each);
	for (i = 0; i < l->at.n; i++) {
		if (l->at.at[i].body) {
			price_list(p, l->at.at[i].body, &each[i]);
		} else {
			price_kernel(p, &l->at.at[i], &each[i]);
		}
	}
	price_sum(p, l, each, repeats ? price_beside(p, l, each) : 0, once);
	if (repeats) {
		price_link(p, l, once);
	}
}

void
price_list(struct pricing *p, const struct kernel_list *l, struct price_func *f)
{
	const struct price_func *known = NULL;
	struct price_func once = { 0 };
	struct hash key;
	bool has_key = price_key(p, l, &key);

	if (has_key) {
		known = price_recall(p, key, l);
	}
	if (!known) {
		price_once(p, l, true, &once);
		if (has_key) {
			price_remember(p, key, l, &once);
		}
		known = &once;
	}
	price_add(f, known, (double)l->count);
}

static void
price_function(struct pricing *p, struct kernels *const *all, func_id id,
	       struct price_func *f)
{
	struct price_func once = { 0 };

	if (id && all[id]) {
		price_once(p, all[id]->top, false, &once);
		price_add(f, &once, (double)all[id]->top->count);
	}
}

/* ---- layers that are recomputed as a whole ---- */

/* What the plan says of it in a word, "none" if it says nothing. */
static const char *
recomputed(struct ir_module *m)
{
	const struct ir_setting *s = ir_setting(m, "plan.recompute");

	return !s ? "none" : s->kind == SET_NUM ? ""
		: intern_text(&m->ctx->syms, s->text);
}

/*
 * Frameworks that recompute a layer for its backward pass run all of it, also
 * the last contraction and what follows it, whose results backward does not
 * read.  The plan's recompute = full runs only what backward reads; the trait
 * whole_layers adds the rest.
 */
static bool
recomputes_all(struct ir_module *m)
{
	return strcmp(recomputed(m), "full") == 0;
}

/* Whether the region, or one in it, computes the same value again. */
static bool
is_made_in(const struct ir_module *m, region_id r, const struct ir_node *of)
{
	const struct ir_region *region = &m->regions.at[r];
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, region->nodes.at[i]);

		if (n->region && is_made_in(m, n->region, of)) {
			return true;
		}
		if (n->op == of->op && n->span.lo == of->span.lo &&
		    n->span.hi == of->span.hi && n->result &&
		    ir_type_equal(ir_type(m, n->result),
				  ir_type(m, of->result))) {
			return true;
		}
	}
	return false;
}

/* Whether backward does not compute this contraction again. */
static bool
is_omitted(const struct pricing *p, const struct kernel *k, region_id back)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(p->m, k->nodes.at[i]);

		if (ir_is(n->op, IRF_CONTRACTS)) {
			return !is_made_in(p->m, back, n);
		}
	}
	return false;
}

/* Omitted kernels follow the last contraction that is computed again. */
static void
price_omitted(struct pricing *p, const struct kernel_list *l, region_id back,
	      struct price_func *f)
{
	struct price_func once = { 0 };
	bool omitted = false;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body) {
			price_omitted(p, k->body, back, &once);
			continue;
		}
		if (k->kind == KERNEL_CONTRACTION) {
			omitted = is_omitted(p, k, back);
		}
		if (omitted) {
			price_kernel(p, k, &once);
		}
	}
	price_add(f, &once, (double)l->count);
}

static void
price_whole_layers(struct pricing *p, const struct kernels *forward,
		   func_id back, struct price_func *f)
{
	uint32_t i;

	if (!recomputes_all(p->m)) {
		return;
	}
	for (i = 0; i < forward->top->at.n; i++) {
		const struct kernel *k = &forward->top->at.at[i];

		if (k->body) {
			price_omitted(p, k->body, p->m->funcs.at[back].body, f);
		}
	}
}

/* ---- layers of which every second contraction is kept ---- */

/*
 * torchtitan's selective checkpointing by op keeps what attention and every
 * second contraction of a layer make, and computes all else of it again.  Maps
 * that are fused with a contraction which is kept are not counted.
 */
static void
price_alternate(struct pricing *p, const struct kernel_list *l,
		struct price_func *f)
{
	struct price_func once = { 0 };
	bool kept = false;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body) {
			price_alternate(p, k->body, &once);
			continue;
		}
		kept ^= k->kind == KERNEL_CONTRACTION;
		if (k->kind == KERNEL_MAP || k->kind == KERNEL_ROWWISE ||
		    (k->kind == KERNEL_CONTRACTION && !kept)) {
			price_kernel(p, k, &once);
		}
	}
	if (p->maps) {
		price_maps(p, l, &once);
	}
	price_add(f, &once, (double)l->count);
}

/* The same of the layers of a forward function, if the plan does not say itself
 * what is recomputed: else some would be counted twice. */
static void
price_alternate_layers(struct pricing *p, const struct kernels *forward,
		       struct price_func *f)
{
	bool plain = strcmp(recomputed(p->m), "none") == 0;
	uint32_t i;

	for (i = 0; plain && i < forward->top->at.n; i++) {
		if (forward->top->at.at[i].body) {
			price_alternate(p, forward->top->at.at[i].body, f);
		}
	}
}

/* ---- the pipeline ---- */

/* The largest value that one stage sends to the next. */
static double
sent_bytes(const struct pricing *p)
{
	double most = 0;
	uint32_t i;

	for (i = 0; i < p->r->sent.n; i++) {
		most = fmax(most, kernel_bytes(p->m, p->r->sent.at[i]));
	}
	return most;
}

/*
 * A send between neighbours of the pipeline, at all places of a node at once.
 * A pipeline that is longer than a node has some neighbours in different nodes.
 */
static double
neighbour_us(const struct pricing *p, double bytes)
{
	const struct target_group *t = p->t;
	int64_t apart = ranks_on_pipe(p->r, 0, 1);
	struct cost_group g = cost_group_apart(t, 2, apart);
	int64_t length = p->m->axes.at[p->r->pp].size;
	double us = cost_collective(t, COST_SEND, &g, bytes, NULL).us;

	if (g.nodes == 1 && apart * length > t->devices) {
		g = (struct cost_group){ .per_node = 1, .nodes = 2,
					 .sharing = apart, .sets = 1 };
		us = fmax(us, cost_collective(t, COST_SEND, &g, bytes,
					      NULL).us);
	}
	return us;
}

/*
 * Software with blocking sends sends each tensor rank's part between nodes and
 * gathers the parts there (Narayanan et al., arXiv:2104.04473, section 4.1).
 */
static double
hop_us(const struct pricing *p)
{
	axis_id tp = p->r->tp;
	double bytes = sent_bytes(p), parts = 1, us = 0;

	if (!p->r->pp || bytes == 0) {
		return 0;
	}
	if (p->traits->blocking && tp && p->m->axes.at[tp].size > 1) {
		parts = (double)p->m->axes.at[tp].size;
		us = price_comm(p->r, p->t, COST_ALL_GATHER, 1u << tp, bytes);
	}
	return us + neighbour_us(p, bytes / parts);
}

/* Of several groups the slowest. */
double
price_hop(const struct pricing *p)
{
	struct pricing one = *p;
	double us = 0;
	uint32_t i;

	for (i = 0; i < p->t->nof; i++) {
		one.t = p->t->of[i];
		us = fmax(us, hop_us(&one));
	}
	return p->t->nof ? us : hop_us(p);
}

static struct sched_cost *
stage_costs(const struct sched *s, const struct price_traits *traits,
	    struct arena *a, const struct price *p)
{
	struct sched_cost *costs = arena_alloc(a, s->nstages * sizeof *costs);
	uint32_t i, k;

	for (i = 0; i < s->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			costs[i].us[k] = p->run[i][k].total_us;
		}
		costs[i].hop_us = traits->blocking ? 0 : p->hop_us;
		costs[i].less_us = costs[i].us[p->first_kind[i]] -
				   p->first[i].total_us;
	}
	return costs;
}

/* ---- the whole ---- */

/*
 * If the pipeline is the outermost axis, the ranks of one place in it have
 * consecutive numbers.
 */
void
price_devs(const struct ranks *r, const struct target *t, struct arena *a,
	   struct target_devs *out)
{
	bool outer = r->npipes > 1 &&
		     ranks_apart(r) == r->nranks / r->npipes;

	target_devs_assign(t, r->nranks, r->npipes, outer, a, out);
}

/* The time that the rank computes or communicates. */
static double
busy_us(const struct sched *s, const struct price *p, uint32_t rank)
{
	const struct sched_list *l = &s->ranks[rank];
	double us = p->updated[rank].total_us;
	uint32_t i;

	for (i = 0; i < l->actions.n; i++) {
		const struct sched_action *x = &l->actions.at[i];

		us += p->run[x->stage][x->kind].total_us;
	}
	for (i = 0; i < s->nstages; i++) {
		us += s->rank_of[i] == rank ? p->first[i].total_us -
			p->run[i][p->first_kind[i]].total_us : 0;
	}
	return us;
}

void
price_busiest(const struct sched *s, struct price *out)
{
	struct price_func all;
	double best = -1, us;
	uint32_t i, at = 0;

	for (i = 0; i < s->nranks; i++) {
		us = busy_us(s, out, i);
		if (us > best) {
			best = us;
			at = i;
		}
	}
	all = out->updated[at];
	for (i = 0; i < s->ranks[at].actions.n; i++) {
		const struct sched_action *x = &s->ranks[at].actions.at[i];

		price_add(&all, &out->run[x->stage][x->kind], 1);
	}
	for (i = 0; i < s->nstages; i++) {
		if (s->rank_of[i] == at) {
			price_add(&all, &out->run[i][out->first_kind[i]], -1);
			price_add(&all, &out->first[i], 1);
		}
	}
	memcpy(out->parts_us, all.us, sizeof all.us);
}

/* One stage, in all kinds that it has. */
static void
price_stage(struct pricing *p, struct kernels *const *all, uint32_t stage,
	    struct price_func f[SCHED_NKINDS])
{
	const func_id *of = p->r->of_stage[stage];
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		price_function(p, all, of[k], &f[k]);
		if (p->traits->whole_layers && of[k] && of[SCHED_F] &&
		    sched_kinds[k].does & SCHED_INPUT) {
			price_whole_layers(p, all[of[SCHED_F]], of[k], &f[k]);
		}
		if (p->traits->alternate && of[k] && of[SCHED_F] &&
		    sched_kinds[k].does & SCHED_INPUT) {
			price_alternate_layers(p, all[of[SCHED_F]], &f[k]);
		}
	}
}

void
price_functions(const struct ranks *r, const struct target_devs *t,
		const struct price_traits *traits, struct arena *a,
		struct price *out)
{
	struct pricing p = { .r = r, .m = r->m, .across = t->all,
			     .traits = traits };
	struct kernels *const *all = ranks_kernels(r);
	uint32_t i;

	memset(out, 0, sizeof *out);
	out->traits = *traits;
	out->offload = plan_offload(r->m);
	out->stage = arena_alloc(a, r->nstages * sizeof *out->stage);
	out->update = arena_alloc(a, r->npipes * sizeof *out->update);
	if (traits->lone_maps) {
		price_maps_open(&p);
	}
	for (i = 0; i < r->nstages; i++) {
		p.t = target_devs_of(t, r->sched->rank_of[i]);
		price_stage(&p, all, i, out->stage[i]);
	}
	p.maps = NULL;
	for (i = 0; i < r->npipes; i++) {
		p.t = target_devs_of(t, i);
		price_function(&p, all, r->update[i], &out->update[i]);
	}
	p.t = t->all;
	out->hop_us = price_hop(&p);
}

/* The pipeline, then the slowest update. */
static void
add_up(const struct sched *s, double pipe_us, struct price *out)
{
	uint32_t i;

	out->pipe_us = pipe_us;
	out->update_us = 0;
	for (i = 0; i < s->nranks; i++) {
		out->update_us = fmax(out->update_us,
				      out->updated[i].total_us);
	}
	out->step_us = out->pipe_us + out->update_us;
}

/* A schedule with a name has a formula for its repeated part. */
static bool
makespan_us(const struct sched *s, const struct sched_cost *costs,
	    struct sched_briefs *briefs, struct arena *a, double *us)
{
	struct sched_timeline line;

	if (s->def) {
		return sched_makespan(briefs, a, s->def, s->nranks,
				      s->nstages / s->nranks,
				      s->nmicrobatches, costs, us);
	}
	if (!sched_span(a, s, costs, &line)) {
		return false;
	}
	*us = line.makespan_us;
	return true;
}

bool
price_pipeline(const struct sched *s, const struct price_traits *traits,
	       struct sched_briefs *briefs, struct arena *a, struct price *out)
{
	double us;

	price_run(s, traits, a, out);
	if (!makespan_us(s, stage_costs(s, traits, a, out), briefs, a, &us)) {
		return false;
	}
	add_up(s, us, out);
	return true;
}

bool
price_timeline(const struct sched *s, const struct price *p, struct arena *a,
	       struct sched_timeline *out)
{
	return sched_time(a, s, stage_costs(s, &p->traits, a, p), out);
}

/* Also hops_us: how much shorter the step is if values arrive at once. */
static bool
price_with_hops(const struct sched *s, const struct price_traits *traits,
		struct memo *memo, struct arena *a, struct price *out)
{
	struct sched_briefs briefs = { .memo = memo };
	struct price quick;
	bool ok;

	ok = price_pipeline(s, traits, &briefs, a, out);
	if (ok && out->hop_us > 0) {
		quick = *out;
		quick.hop_us = 0;
		ok = price_pipeline(s, traits, &briefs, a, &quick);
		out->hops_us = fmax(0, out->step_us - quick.step_us);
	}
	memo_drop(memo, MEMO_BRIEFS);
	return ok;
}

bool
price_step(const struct ranks *r, const struct target_devs *t,
	   const struct price_traits *traits, struct arena *a,
	   struct price *out, const char **why)
{
	if (plan_offload(r->m) && t->all->device.host_bytes_us <= 0) {
		*why = "the plan keeps something on the host, and the target "
		       "has no link to it: `host` is 0";
		return false;
	}
	if (plan_on_drives(plan_offload(r->m)) &&
	    t->all->device.nvme_bytes_us <= 0) {
		*why = "the plan keeps something on drives, and the target "
		       "has none: `nvme` is 0";
		return false;
	}
	price_functions(r, t, traits, a, out);
	if (!price_with_hops(r->sched, traits, r->memo, a, out)) {
		*why = "the schedule stalls";
		return false;
	}
	price_busiest(r->sched, out);
	return true;
}

static void
line(struct buf *out, const char *what, double us, double of)
{
	buf_printf(out, "%-28s %12.3f ms %5.1f%%\n", what, us / 1e3,
		   of > 0 ? 100 * us / of : 0);
}

void
price_print(const struct ranks *r, const struct price *p, struct buf *out)
{
	double busy = 0, idle;
	int i;

	buf_printf(out, "%-28s %12.3f ms\n", "step", p->step_us / 1e3);
	for (i = 0; i < PRICE_NPARTS; i++) {
		if (i >= PRICE_OFFLOAD && p->parts_us[i] == 0) {
			continue;
		}
		line(out, price_part_names[i], p->parts_us[i], p->step_us);
		busy += p->parts_us[i];
	}
	idle = p->step_us - busy;
	idle = fabs(idle) < 1e-9 * p->step_us ? 0 : idle;	/* rounding */
	line(out, "waiting in the pipeline", idle, p->step_us);
	buf_printf(out, "%s; the update takes %.3f ms of it\n",
		   sched_shape_text(out->arena, r->nranks, r->nstages,
				    r->nmicrobatches), p->update_us / 1e3);
}
