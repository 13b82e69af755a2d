/*
 * A whole step: every function's kernels, times the trips of their repeats;
 * then the schedule as it runs, action by action; then the update, with the
 * reduction of gradients in it.
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
price_add(struct price_func *to, const struct price_func *from, double times)
{
	int i;

	for (i = 0; i < PRICE_NPARTS; i++) {
		to->us[i] += times * from->us[i];
	}
	to->total_us += times * from->total_us;
	to->data_us += times * from->data_us;
	to->tensor_us += times * from->tensor_us;
	to->beside_us += times * from->beside_us;
	to->kernels += times * from->kernels;
}

void
price_sum(struct pricing *p, const struct kernel_list *l,
	  const struct price_func *each, double beside_us,
	  struct price_func *once)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		price_add(once, &each[i], 1);
	}
	if (p->maps) {
		price_maps(p, l, once);
	}
	once->beside_us += beside_us;
}

/*
 * What stands outside of repeats is the same talk once for all layers: the
 * search prices that kernel by kernel, so nothing of it hides.
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
}

void
price_list(struct pricing *p, const struct kernel_list *l,
	   struct price_func *f)
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

/* ---- the pipeline ---- */

/* The largest value that one stage hands to the next. */
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
 * Neighbours in the pipeline, and how many such pairs share the links.  Who
 * blocks, sends each tensor rank's part between nodes and gathers them there
 * (Narayanan et al., arXiv:2104.04473, section 4.1).
 */
static double
hop_us(const struct pricing *p)
{
	axis_id tp = p->r->tp;
	struct cost_group g = { 2, 1, 1, false };
	double bytes = sent_bytes(p), parts = 1, us = 0;

	if (!p->r->pp || bytes == 0) {
		return 0;
	}
	if (ranks_on_pipe(p->r, 0, 1) >= p->t->devices) {
		g = (struct cost_group){ 1, 2, p->t->devices, false };
	}
	if (p->traits->blocking && tp && p->m->axes.at[tp].size > 1) {
		parts = (double)p->m->axes.at[tp].size;
		us = price_comm(p->r, p->t, COST_ALL_GATHER, 1u << tp, bytes);
	}
	return us + cost_collective(p->t, COST_SEND, &g, bytes / parts,
				    NULL).us;
}

/* Between groups, and of all hops: the slowest. */
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
	}
	return costs;
}

/* ---- the whole ---- */

/* Of a pipeline that is outermost, the ranks of one place are a run. */
void
price_devs(const struct ranks *r, const struct target *t, struct arena *a,
	    struct target_devs *out)
{
	bool outer = r->npipes > 1 &&
		     ranks_apart(r) == r->nranks / r->npipes;

	target_devs_assign(t, r->nranks, r->npipes, outer, a, out);
}

/* Of all that the rank runs. */
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
			price_again(p, all[of[SCHED_F]], of[k], &f[k]);
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

/* Of a name, what repeats need not be run. */
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

/* The whole pipeline, and what it would take less without hops. */
static bool
price_both(const struct sched *s, const struct price_traits *traits,
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
		*why = "the plan keeps the optimizer's state on the host, and "
		       "the target has no link to it: `host` is 0";
		return false;
	}
	price_functions(r, t, traits, a, out);
	if (!price_both(r->sched, traits, r->memo, a, out)) {
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
	double busy = 0;
	int i;

	buf_printf(out, "%-28s %12.3f ms\n", "step", p->step_us / 1e3);
	for (i = 0; i < PRICE_NPARTS; i++) {
		if (i >= PRICE_OFFLOAD && p->parts_us[i] == 0) {
			continue;
		}
		line(out, price_part_names[i], p->parts_us[i], p->step_us);
		busy += p->parts_us[i];
	}
	line(out, "waiting in the pipeline", p->step_us - busy, p->step_us);
	buf_printf(out, "%u ranks, %u stages, %u microbatches; the update "
		   "takes %.3f ms of it\n", r->nranks, r->nstages,
		   r->nmicrobatches, p->update_us / 1e3);
}
