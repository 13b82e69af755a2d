/*
 * From a priced step to rates, MFU, money and failures; answer_time.c splits
 * its time, answer_memory.c counts its bytes.  docs/answer.md has the
 * definitions and their sources.
 */
#include "passes/answer/answer.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define HOUR_S 3600.0
#define DAY_S (24 * HOUR_S)
#define YEAR_H (365 * 24.0)

/* ---- the model ---- */

/* The flops of attention, by unmasked pairs and by all pairs. */
static void
add_square(struct ir_module *m, const struct ir_node *n, double times,
	   double *seen, double *all)
{
	struct ir_rule r;
	double pairs, queries, keys, flops = ir_flops(m, n);

	ir_bind(m, n, &r);
	queries = (double)ir_dim_size(m, ir_rule_factor(&r, "s")->dims[0]);
	keys = (double)ir_dim_size(m, ir_rule_factor(&r, "t")->dims[0]);
	pairs = ir_attention_pairs((int64_t)queries, (int64_t)keys,
				   ir_attr(m, n, IR_ATTR_CAUSAL) != NULL,
				   ir_attr_int(m, n, IR_ATTR_WINDOW, 0));
	pairs = fmin(pairs, queries * (double)ir_attr_int(
			m, n, IR_ATTR_EXPECT, (int64_t)keys));
	*seen += times * flops;
	*all += times * flops * (pairs > 0 ? queries * keys / pairs : 1);
}

static void
walk_square(struct ir_module *m, region_id r, double times, double *seen,
	    double *all)
{
	uint32_t i;

	for (i = 0; i < m->regions.at[r].nodes.n; i++) {
		const struct ir_node *n = ir_node(m,
						  m->regions.at[r].nodes.at[i]);
		double count = (double)ir_attr_int(m, n, IR_ATTR_COUNT, 1);

		if (n->region) {
			walk_square(m, n->region, times * count, seen, all);
		} else if (ir_is(n->op, IRF_PAIRS) &&
			   ir_is(n->op, IRF_CACHED)) {
			add_square(m, n, times, seen, all);
		}
	}
}

double
answer_square(struct ir_module *m)
{
	double seen = 0, all = 0;
	func_id model = ir_model(m);

	if (model) {
		walk_square(m, m->funcs.at[model].body, 1, &seen, &all);
	}
	return seen > 0 ? all / seen : 1;
}

/* Backward is twice forward: PaLM, appendix B; Korthikanti et al., 6. */
void
answer_model(const struct ir_module *m, const struct pass_sums *model,
	     const struct pass_sums *training, double square,
	     struct answer_model *out)
{
	*out = (struct answer_model){
		.name = m->name ? ir_text(m->ctx, m->name) : "model",
		.parameters = model->total, .active = model->active,
		.tokens = model->tokens,
		.flops = 3 * (model->contraction_flops +
			      square * model->attention_flops),
		.flops_seen = 3 * (model->contraction_flops +
				   model->attention_flops),
		.flops_6n = 6 * (double)model->active,
		.flops_run = training->contraction_flops +
			     square * training->attention_flops,
		.checkpoint_bytes = model->weight_bytes +
				    model->optimizer_bytes +
				    model->state_bytes
	};
}

/* ---- links ---- */

/* The time of a large all-reduce is bandwidth, that of a small one latency. */
static const double large_bytes = 1 << 26, small_bytes = 1 << 10;

static void
set_link(const struct answer_input *in, enum plan_axis axis, struct answer *out)
{
	struct ir_module *m = in->ranks->m;
	axis_id a = ir_axis_find(m, intern_str(&m->ctx->syms,
					       plan_axis_name(axis)));
	struct cost_group g;
	double n, large, small;
	uint32_t along;

	out->link[axis] = ANSWER_NO_LINK;
	out->link_gbs[axis] = out->link_us[axis] = NAN;
	if (plan_degree(in->plan, axis) == 1 || !a) {
		return;
	}
	along = (uint32_t)1 << a;
	g = price_group(in->ranks, in->devs->all, along);
	out->link[axis] = g.nodes == 1 ? ANSWER_IN_NODE :
		g.per_node == 1 ? ANSWER_ACROSS : ANSWER_BOTH;
	n = (double)(g.nodes * g.per_node);
	large = price_comm(in->ranks, in->devs->all, COST_ALL_REDUCE, along,
			   large_bytes);
	small = price_comm(in->ranks, in->devs->all, COST_ALL_REDUCE, along,
			   small_bytes);
	out->link_us[axis] = small;
	out->link_gbs[axis] = 2 * (n - 1) / n * (large_bytes - small_bytes) /
		(large - small) * 1e-3;
}

/* ---- rates ---- */

/* The rate of the type that most contractions have. */
static enum target_rate
main_rate(const struct answer_input *in)
{
	const struct ir_module *m = in->ranks->m;
	uint32_t uses[IR_DTYPE_COUNT] = { 0 }, best = IR_F32;
	node_id id;
	uint32_t i;

	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *n = ir_node(m, id);

		if (ir_is(n->op, IRF_CONTRACTS) && n->nargs) {
			uses[ir_type(m, ir_args(m, n)[0])->dtype]++;
		}
	}
	for (i = 0; i < IR_DTYPE_COUNT; i++) {
		best = uses[i] > uses[best] ? i : best;
	}
	return price_rate((uint8_t)best);
}

/* Dense rates of all devices that have a rank. */
static double
peak_flops_us(const struct answer_input *in)
{
	enum target_rate rate = main_rate(in);
	double all = 0;
	uint32_t i;

	for (i = 0; i < in->on->groups.n; i++) {
		all += cost_flops_us(&in->on->groups.at[i].device, rate) *
		       (double)target_used(in->on, i, in->ranks->nranks);
	}
	return all;
}

static void
set_rates(const struct answer_input *in, struct answer *out)
{
	double tokens_us = (double)out->model.tokens / out->step_us;
	double peak_us = peak_flops_us(in);

	out->tokens_s = tokens_us * 1e6;
	out->flops_s = tokens_us * out->model.flops * 1e6;
	out->mfu = tokens_us * out->model.flops / peak_us;
	out->mfu_seen = tokens_us * out->model.flops_seen / peak_us;
	out->hfu = tokens_us * out->model.flops_run / peak_us;
}

/* ---- money and failures ---- */

static struct answer_run
run_of(const struct answer *x, double goodput)
{
	struct answer_run r = { NAN, NAN, NAN };

	if (x->asked.tokens > 0 && x->tokens_s > 0 && goodput > 0) {
		r.days = x->asked.tokens / x->tokens_s / goodput / DAY_S;
		r.usd = r.days * 24 * x->usd_h;
		r.device_hours = r.days * 24 * (double)x->devices;
	}
	return r;
}

/*
 * The sum over the first n devices of the field at offset `at` of a device; NAN
 * if a device has none, which 0 stands for.
 */
static double
device_sum(const struct answer_input *in, size_t at, int64_t n)
{
	double all = 0;
	uint32_t i;

	for (i = 0; i < in->on->groups.n; i++) {
		const struct target_device *d = &in->on->groups.at[i].device;
		double each = *(const double *)(const void *)
			      ((const char *)d + at);
		int64_t used = target_used(in->on, i, n);

		all += used && each <= 0 ? NAN : each * (double)used;
	}
	return all;
}

/* A number of which the rest of a node has a part; the device must have it. */
static double
with_host(const struct answer_input *in, size_t device, size_t host,
	  int64_t devices)
{
	double rest = device_sum(in, host, devices);

	return device_sum(in, device, devices) + (isnan(rest) ? 0 : rest);
}

/* What devices cost that are bought: their price by hours, and their energy. */
static void
set_owned(const struct answer_input *in, struct answer *out)
{
	double usd = with_host(in,
		offsetof(struct target_device, purchase_usd),
		offsetof(struct target_device, host_purchase_usd),
		out->devices);
	double watts = with_host(in,
		offsetof(struct target_device, power_w),
		offsetof(struct target_device, host_power_w), out->devices);

	out->purchase_usd_h = usd / (out->asked.owned_years * YEAR_H);
	out->energy_usd_h = watts / 1e3 * out->asked.energy_usd_kwh *
			    out->asked.pue;
	out->usd_h = out->purchase_usd_h + out->energy_usd_h;
}

/* All devices of the cluster are paid for, used or not. */
static void
set_money(const struct answer_input *in, struct answer *out)
{
	out->purchase_usd_h = out->energy_usd_h = NAN;
	if (out->asked.owned_years > 0) {
		set_owned(in, out);
	} else if (out->asked.price_usd_h > 0) {
		out->usd_h = out->asked.price_usd_h * (double)out->devices;
	} else {
		out->usd_h = device_sum(in,
			offsetof(struct target_device, price_usd_h),
			out->devices);
	}
	out->usd_mtoken = out->tokens_s > 0
		? out->usd_h / HOUR_S / out->tokens_s * 1e6 : NAN;
}

static void
set_faults(const struct answer_input *in, struct answer *out)
{
	double year = device_sum(in, offsetof(struct target_device,
					      failures_year), out->used);
	int64_t nodes = 0;
	uint32_t i;

	for (i = 0; i < in->on->groups.n; i++) {
		int64_t each = in->on->groups.at[i].devices;

		nodes += (target_used(in->on, i, out->used) + each - 1) / each;
	}
	out->checkpoint_s = (double)out->model.checkpoint_bytes /
			    ((double)nodes * out->asked.storage_bytes_us) /
			    1e6;
	out->mtbf_s = out->interval_s = out->goodput = NAN;
	if (year > 0) {
		out->mtbf_s = answer_mtbf_s(year, 1);
		out->interval_s = answer_interval_s(out->checkpoint_s,
						    out->mtbf_s);
		out->goodput = answer_goodput(out->interval_s,
					      out->checkpoint_s,
					      out->asked.restart_s,
					      out->mtbf_s);
	}
}

/* ---- devices ---- */

static void
set_groups(const struct answer_input *in, struct arena *a, struct answer *out)
{
	const struct target *t = in->on;
	uint32_t i;

	out->devices = target_devices(t);
	out->nodes = target_nodes(t);
	out->used = in->ranks->nranks;
	out->device = target_kinds(t, 0, out->devices, a);
	out->ngroups = t->groups.n;
	out->group = arena_alloc(a, t->groups.n * sizeof *out->group);
	out->is_gpu = true;
	for (i = 0; i < t->groups.n; i++) {
		const struct target_group *g = &t->groups.at[i];

		out->is_gpu &= target_is_cuda(&g->device) ||
			       strncmp(g->device.arch, "gfx", 3) == 0;
		out->group[i] = (struct answer_group){
			g->device.name, g->devices * g->nodes, g->nodes,
			target_used(t, i, out->used)
		};
	}
}

static int64_t
layers_of(const struct answer_input *in, uint32_t pipe)
{
	int64_t n = 0;
	uint32_t i;

	for (i = 0; i < in->plan->nstages; i++) {
		n += in->ranks->sched->rank_of[i] == pipe
			? in->plan->layers[i] : 0;
	}
	return n;
}

/* All ranks of the pipeline are on the same devices unless devs->of is set. */
static void
set_places(const struct answer_input *in, struct arena *a, struct answer *out)
{
	int64_t each = out->used / in->ranks->npipes;
	uint32_t i;

	out->place = arena_alloc(a, in->ranks->npipes * sizeof *out->place);
	for (i = 0; i < in->ranks->npipes; i++) {
		const char *devices = in->devs->of
			? target_kinds(in->on, i * each, (i + 1) * each, a)
			: target_kinds(in->on, 0, out->used, a);
		struct answer_device_group *p = &out->place[out->nplaces - 1];

		if (!out->nplaces || strcmp(p->devices, devices) != 0) {
			p = &out->place[out->nplaces++];
			*p = (struct answer_device_group){ devices, i, i, 0 };
		}
		p->last = i;
		p->layers += layers_of(in, i);
	}
}

/* Devices that constants are borrowed from, each once. */
static const char *
add_lender(const char *all, const char *lender, struct arena *a)
{
	const char *at;
	size_t n = strlen(lender);

	if (!n || !*all) {
		return *all ? all : lender;
	}
	for (at = all; (at = strstr(at, lender)); at += n) {
		if ((at == all || at[-1] == ' ') && (!at[n] || at[n] == ' ')) {
			return all;	/* a10 is not in "a100-sxm" */
		}
	}
	return arena_printf(a, "%s and %s", all, lender);
}

/*
 * The least sure origin of the devices that are used counts; one device has no
 * link.
 */
static void
set_origins(const struct answer_input *in, struct arena *a, struct answer *out)
{
	uint32_t link = 1u << TARGET_LINK_EFF | 1u << TARGET_LINK_START |
			1u << TARGET_LINK_HOP;
	uint32_t i;
	int k;

	out->lender = "";
	for (i = 0; i < in->on->groups.n; i++) {
		const struct target_device *d = &in->on->groups.at[i].device;

		if (target_used(in->on, i, in->ranks->nranks) <= 0) {
			continue;
		}
		for (k = 0; k < TARGET_NCONSTANTS; k++) {
			out->origin[k] = d->origin[k] > out->origin[k]
				? d->origin[k] : out->origin[k];
		}
		out->lender = add_lender(out->lender, d->lender, a);
	}
	out->counts = (1u << TARGET_NCONSTANTS) - 1;
	out->counts &= in->ranks->nranks > 1 ? ~0u : ~link;
}

/* ---- how sure it is ---- */

/* Devices of several generations are of a kind of their own. */
static void
set_accuracy(const struct answer_input *in, struct arena *a,
	     struct answer *out)
{
	const struct plan *p = in->plan;
	struct answer_kind k;
	int generation = -1, own;
	uint32_t i;

	for (i = 0; i < in->on->groups.n; i++) {
		const struct target_device *d = &in->on->groups.at[i].device;

		if (target_used(in->on, i, in->ranks->nranks) > 0) {
			out->has_accuracy |= !target_is_cpu(d);
			own = answer_generation(d->arch);
			generation = generation < 0 || generation == own
				? own : 0;
		}
	}
	k = answer_kind(generation, p->pp, p->tp * p->cp * p->ep,
			out->model.tokens / p->batch,
			in->price->traits.unfused);
	answer_accuracy(&k, NULL, a, &out->accuracy);
}

/* ---- the whole ---- */

void
answer_make(const struct answer_input *in, struct arena *a, struct answer *out)
{
	int i;

	out->target = in->target;
	out->file = in->file;
	out->priced_cpu = in->priced_cpu;
	out->plan = in->plan;
	set_groups(in, a, out);
	set_places(in, a, out);
	out->plan_text = in->plan_text;
	out->model.sequences = in->plan->batch;
	for (i = 0; i < PLAN_NAXES; i++) {
		set_link(in, (enum plan_axis)i, out);
	}
	out->step_us = in->price->step_us;
	answer_split_time(in->ranks, in->devs, in->price, a, out->us,
			  &out->counted);
	out->host_us = answer_host_us(in->ranks, in->devs, in->price);
	set_rates(in, out);
	set_origins(in, a, out);
	set_accuracy(in, a, out);
	set_money(in, out);
	set_faults(in, out);
	out->plain = run_of(out, 1);
	out->faulty = run_of(out, out->goodput);
}
