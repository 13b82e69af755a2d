/*
 * plan.json: the answer for other programs.  docs/answer.md documents every
 * field.  A field may be added under the same ANSWER_VERSION; a change of one
 * raises it.  What is not known is null.  Device groups are written only of a
 * target that has several kinds of node.
 */
#include "passes/answer/answer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct json_writer {
	struct buf *out;
	uint32_t depth;
	bool first;		/* of its object or array */
};

/* Begins an item, with a key in an object and without one in an array. */
static void
next_item(struct json_writer *j, const char *key)
{
	buf_printf(j->out, "%s\n%*s", j->first ? "" : ",", 2 * j->depth, "");
	j->first = false;
	if (key) {
		buf_printf(j->out, "\"%s\": ", key);
	}
}

static void
begin_nested(struct json_writer *j, const char *key, char bracket)
{
	if (j->depth || key) {
		next_item(j, key);
	}
	buf_putc(j->out, bracket);
	j->depth++;
	j->first = true;
}

static void
end_nested(struct json_writer *j, char bracket)
{
	j->depth--;
	buf_printf(j->out, "\n%*s%c", 2 * j->depth, "", bracket);
	j->first = false;
}

static void
add_int(struct json_writer *j, const char *key, int64_t v)
{
	next_item(j, key);
	buf_printf(j->out, "%" PRId64, v);
}

/* Bytes; a negative number is null. */
static void
add_bytes(struct json_writer *j, const char *key, int64_t v)
{
	next_item(j, key);
	if (v < 0) {
		buf_puts(j->out, "null");
	} else {
		buf_printf(j->out, "%" PRId64, v);
	}
}

static void
add_num(struct json_writer *j, const char *key, double v)
{
	next_item(j, key);
	if (isfinite(v)) {
		buf_printf(j->out, "%.9g", v);
	} else {
		buf_puts(j->out, "null");
	}
}

static void
add_text(struct json_writer *j, const char *key, const char *v)
{
	next_item(j, key);
	if (v) {
		buf_json(j->out, v, strlen(v));
	} else {
		buf_puts(j->out, "null");
	}
}

static void
add_bool(struct json_writer *j, const char *key, bool v)
{
	next_item(j, key);
	buf_puts(j->out, v ? "true" : "false");
}

/* ---- the parts ---- */

static void
add_groups(struct json_writer *j, const struct answer *x)
{
	uint32_t i;

	begin_nested(j, "groups", '[');
	for (i = 0; i < x->ngroups; i++) {
		const struct answer_group *g = &x->group[i];

		begin_nested(j, NULL, '{');
		add_text(j, "device", g->device);
		add_int(j, "devices", g->devices);
		add_int(j, "nodes", g->nodes);
		add_int(j, "used", g->used);
		end_nested(j, '}');
	}
	end_nested(j, ']');
}

static void
add_device_groups(struct json_writer *j, const struct answer *x)
{
	uint32_t i;

	begin_nested(j, "device_groups", '[');
	for (i = 0; i < x->nplaces; i++) {
		const struct answer_device_group *l = &x->place[i];

		begin_nested(j, NULL, '{');
		add_text(j, "devices", l->devices);
		add_int(j, "first", l->first);
		add_int(j, "last", l->last);
		add_int(j, "layers", l->layers);
		end_nested(j, '}');
	}
	end_nested(j, ']');
}

static void
add_model(struct json_writer *j, const struct answer *x)
{
	const struct answer_model *m = &x->model;
	int i;

	begin_nested(j, "model", '{');
	add_text(j, "name", m->name);
	add_int(j, "parameters", m->parameters);
	add_int(j, "active_parameters", m->active);
	add_int(j, "sequences_step", m->sequences);
	add_int(j, "tokens_step", m->tokens);
	add_num(j, "flops_token", m->flops);
	add_num(j, "flops_token_unmasked", m->flops_seen);
	add_num(j, "flops_token_6n", m->flops_6n);
	add_num(j, "flops_token_executed", m->flops_run);
	end_nested(j, '}');
	begin_nested(j, "target", '{');
	add_text(j, "name", x->target);
	add_text(j, "device", x->device);
	add_int(j, "devices", x->devices);
	add_int(j, "nodes", x->nodes);
	add_int(j, "used", x->used);
	if (x->ngroups > 1) {
		add_groups(j, x);
	}
	begin_nested(j, "origins", '{');
	for (i = 0; i < TARGET_NCONSTANTS; i++) {
		if (x->counts >> i & 1) {
			add_text(j, target_constant_names[i],
				 target_origin_names[x->origin[i]]);
		}
	}
	end_nested(j, '}');
	add_text(j, "lender", *x->lender ? x->lender : NULL);
	end_nested(j, '}');
}

static void
add_by_axis(struct json_writer *j, const char *key, const double *v)
{
	int i;

	begin_nested(j, key, '{');
	for (i = 0; i < PLAN_NAXES; i++) {
		add_num(j, plan_axis_name((enum plan_axis)i), v[i]);
	}
	end_nested(j, '}');
}

static void
add_plan(struct json_writer *j, const struct answer *x)
{
	static const char *const where[] = { NULL, "node", "network", "both" };
	const struct plan *p = x->plan;
	uint32_t i;

	begin_nested(j, "plan", '{');
	add_text(j, "text", x->plan_text);
	for (i = 0; i < PLAN_NAXES; i++) {
		add_int(j, plan_axis_name((enum plan_axis)i),
			plan_degree(p, (enum plan_axis)i));
	}
	add_int(j, "microbatch", p->microbatch);
	add_int(j, "microbatches", p->nmicrobatches);
	add_int(j, "interleave", p->interleave);
	add_text(j, "schedule", p->schedule);
	add_int(j, "zero", p->zero);
	add_bool(j, "sequence", p->sequence);
	add_text(j, "recompute", p->recompute);
	add_text(j, "offload", plan_offload_text(p->offload));
	begin_nested(j, "layers", '[');
	for (i = 0; i < p->nstages; i++) {
		add_int(j, NULL, p->layers[i]);
	}
	end_nested(j, ']');
	if (x->ngroups > 1) {
		add_device_groups(j, x);
	}
	begin_nested(j, "links", '{');
	for (i = 0; i < PLAN_NAXES; i++) {
		add_text(j, plan_axis_name((enum plan_axis)i),
			 where[x->link[i]]);
	}
	end_nested(j, '}');
	add_by_axis(j, "link_gbs", x->link_gbs);
	add_by_axis(j, "link_us", x->link_us);
	end_nested(j, '}');
}

static void
add_search(struct json_writer *j, const struct search_report *r)
{
	double best = r->found.at[0].step_us;

	begin_nested(j, "search", '{');
	add_text(j, "pins", r->pins);
	add_num(j, "space", r->space);
	add_int(j, "degrees", (int64_t)r->groups);
	add_int(j, "degrees_cut", (int64_t)r->groups_cut);
	add_int(j, "degrees_too_large", (int64_t)r->groups_full);
	add_int(j, "shardings", (int64_t)r->placements);
	add_int(j, "plans_left_open", (int64_t)r->open);
	add_int(j, "priced", (int64_t)r->priced);
	add_int(j, "cut", (int64_t)r->cut);
	add_int(j, "too_large", (int64_t)r->full);
	add_int(j, "schedules", (int64_t)r->run);
	add_num(j, "bound_us", r->bound_us);
	add_num(j, "ways_bound_us", r->ways_us);
	add_num(j, "unmade_bound_us", r->unmade_us);
	add_bool(j, "kinds_in_order", r->in_order);
	add_num(j, "gap", best / r->bound_us - 1);
	end_nested(j, '}');
}

static void
add_accuracy(struct json_writer *j, const struct answer *x)
{
	const struct answer_accuracy *y = &x->accuracy;

	begin_nested(j, "accuracy", '{');
	add_num(j, "part", 0.9);
	add_num(j, "low", x->has_accuracy ? y->low : NAN);
	add_num(j, "high", x->has_accuracy ? y->high : NAN);
	add_int(j, "runs", x->has_accuracy ? y->runs : 0);
	add_int(j, "runs_alike", x->has_accuracy ? y->alike : 0);
	add_int(j, "sources_alike", x->has_accuracy ? y->sources : 0);
	end_nested(j, '}');
}

static void
add_step(struct json_writer *j, const struct answer *x)
{
	int i;

	begin_nested(j, "step", '{');
	add_num(j, "us", x->step_us);
	begin_nested(j, "parts_us", '{');
	for (i = 0; i < ANSWER_NTIMES; i++) {
		add_num(j, answer_times[i].key, x->us[i]);
	}
	end_nested(j, '}');
	begin_nested(j, "counted_us", '{');
	add_num(j, "epilogues", x->counted.epilogues_us);
	add_num(j, "attention", x->counted.attention_us);
	end_nested(j, '}');
	add_num(j, "host_transfers_us", x->host_us);
	add_num(j, "tokens_s", x->tokens_s);
	add_num(j, "tokens_s_device", x->tokens_s / (double)x->used);
	add_num(j, "flops_s", x->flops_s);
	add_num(j, "mfu", x->mfu);
	add_num(j, "mfu_unmasked", x->mfu_seen);
	add_num(j, "hfu", x->hfu);
	add_accuracy(j, x);
	end_nested(j, '}');
}

static void
add_memory(struct json_writer *j, const struct answer *x)
{
	const struct answer_memory *m = &x->memory;
	uint32_t i;

	begin_nested(j, "memory", '{');
	add_int(j, "device_bytes", m->device_bytes);
	add_int(j, "left_bytes", m->left_bytes);
	add_bool(j, "fits", answer_fits(m));
	add_int(j, "host_bytes", m->host_bytes);
	add_bytes(j, "node_host_bytes", m->node_bytes ? m->node_bytes : -1);
	add_int(j, "drives_bytes", m->drives_bytes);
	add_bytes(j, "node_drives_bytes", m->node_drives_bytes
		  ? m->node_drives_bytes : -1);
	add_int(j, "fullest", m->fullest);
	add_text(j, "peak_op", m->peak_op);
	begin_nested(j, "pipeline", '[');
	for (i = 0; i < m->nranks; i++) {
		const struct answer_rank *r = &m->rank[i];

		begin_nested(j, NULL, '{');
		add_int(j, "stages", r->stages);
		add_bytes(j, "weight_bytes", r->weights);
		add_bytes(j, "gradient_bytes", r->gradients);
		add_bytes(j, "optimizer_bytes", r->optimizer);
		add_bytes(j, "saved_bytes", r->saved);
		add_bytes(j, "temp_bytes", r->temps);
		add_bytes(j, "reserve_bytes", r->reserve);
		add_bytes(j, "total_bytes", r->total);
		add_bytes(j, "host_bytes", r->host);
		if (x->ngroups > 1) {
			add_int(j, "device_bytes", r->device);
		}
		end_nested(j, '}');
	}
	end_nested(j, ']');
	end_nested(j, '}');
}

static double
nan_unless_positive(double v)
{
	return v > 0 ? v : NAN;
}

static void
add_run(struct json_writer *j, const struct answer *x)
{
	begin_nested(j, "cost", '{');
	add_num(j, "usd_h", x->usd_h);
	add_num(j, "usd_mtoken", x->usd_mtoken);
	add_num(j, "purchase_usd_h", x->purchase_usd_h);
	add_num(j, "energy_usd_h", x->energy_usd_h);
	end_nested(j, '}');
	begin_nested(j, "failures", '{');
	add_num(j, "mtbf_s", x->mtbf_s);
	add_int(j, "checkpoint_bytes", x->model.checkpoint_bytes);
	add_num(j, "checkpoint_s", x->checkpoint_s);
	add_num(j, "storage_bytes_s_node", x->asked.storage_bytes_us * 1e6);
	add_num(j, "restart_s", x->asked.restart_s);
	add_num(j, "interval_s", x->interval_s);
	add_num(j, "goodput", x->goodput);
	end_nested(j, '}');
	begin_nested(j, "run", '{');
	add_num(j, "tokens", nan_unless_positive(x->asked.tokens));
	add_num(j, "days", x->plain.days);
	add_num(j, "usd", x->plain.usd);
	add_num(j, "device_hours", x->plain.device_hours);
	add_num(j, "days_with_failures", x->faulty.days);
	add_num(j, "usd_with_failures", x->faulty.usd);
	add_num(j, "device_hours_with_failures", x->faulty.device_hours);
	end_nested(j, '}');
}

void
answer_print_json(const struct answer *x, struct buf *out)
{
	struct json_writer j = { out, 0, true };

	begin_nested(&j, NULL, '{');
	add_int(&j, "version", ANSWER_VERSION);
	add_model(&j, x);
	add_plan(&j, x);
	if (x->search) {
		add_search(&j, x->search);
	}
	add_step(&j, x);
	add_memory(&j, x);
	add_run(&j, x);
	end_nested(&j, '}');
	buf_putc(out, '\n');
}
