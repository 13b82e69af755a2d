/*
 * The answer on one screen: model and target, the plan, the step's time by what
 * it is spent on, memory, rates, money, failures.  For what is not known it
 * prints which key would have to be given where.
 */
#include "passes/answer/answer.h"
#include "passes/answer/answer_list.h"

#include <math.h>
#include <string.h>

#define MAX_ROWS 4	/* ranks of the pipeline that are shown */
#define MAX_KINDS 8	/* of node, and device groups of a pipeline */
#define NAME 28		/* of a longer one the beginning is shown */
#define RECOMPUTED 24	/* what is as long or longer is "some values" */

static void
add_span(struct buf *out, double s)
{
	if (s < 120) {
		buf_printf(out, "%.1f s", s);
	} else if (s < 2 * 3600) {
		buf_printf(out, "%.1f minutes", s / 60);
	} else if (s < 48 * 3600) {
		buf_printf(out, "%.1f hours", s / 3600);
	} else {
		buf_printf(out, "%.1f days", s / (24 * 3600));
	}
}

/* ---- model and target ---- */

static void
print_head(const struct answer *x, struct buf *out)
{
	const struct answer_model *m = &x->model;

	buf_printf(out, "%.*s: ", NAME, m->name);
	buf_short(out, (double)m->parameters);
	buf_puts(out, " parameters");
	if (m->active != m->parameters) {
		buf_puts(out, ", ");
		buf_short(out, (double)m->active);
		buf_puts(out, " for a token");
	}
	buf_putc(out, '\n');
	answer_label(out, "batch");
	buf_printf(out, "%lld sequence%s, ", (long long)m->sequences,
		   m->sequences == 1 ? "" : "s");
	buf_grouped(out, m->tokens);
	buf_puts(out, " tokens a step\n");
	answer_label(out, "target");
	buf_printf(out, "%.*s: %lld of %lld devices", NAME, x->target,
		   (long long)x->used, (long long)x->devices);
	if (x->ngroups == 1) {
		buf_printf(out, " (%.20s)", x->device);
	}
	buf_printf(out, " in %lld node%s\n", (long long)x->nodes,
		   x->nodes == 1 ? "" : "s");
	if (x->priced_cpu) {
		answer_label(out, "CPU");
		buf_printf(out, "%s\n", x->priced_cpu);
	}
}

/* Of a target with several kinds of node: devices, and the layers on them. */
static void
print_device_groups(const struct answer *x, struct buf *out)
{
	struct arena *a = out->arena;
	struct answer_list l;
	uint32_t i;

	if (x->ngroups == 1) {
		return;
	}
	answer_list_begin(&l, out, "");
	for (i = 0; i < x->ngroups && i < MAX_KINDS; i++) {
		const struct answer_group *g = &x->group[i];

		answer_list_add(&l, "%lld of %lld %.20s", (long long)g->used,
				(long long)g->devices, g->device);
	}
	if (i < x->ngroups) {
		answer_list_add(&l, "and %u kinds more", x->ngroups - i);
	}
	answer_list_end(&l);
	answer_list_begin(&l, out, "layers");
	for (i = 0; i < x->nplaces && i < MAX_KINDS; i++) {
		const struct answer_device_group *p = &x->place[i];
		const char *rank = p->last == p->first
			? arena_printf(a, "pp %u", p->first)
			: arena_printf(a, "pp %u..%u", p->first, p->last);

		answer_list_add(&l, "%lld on %.46s (%s)",
				(long long)p->layers, p->devices,
				x->plan->pp > 1 ? rank : "all ranks");
	}
	if (i < x->nplaces) {
		answer_list_add(&l, "and so on");
	}
	answer_list_end(&l);
}

/* ---- the split ---- */

/* "a", "a and b", "a, b and c" */
static const char *
listed(const char *const *words, uint32_t n, struct arena *a)
{
	struct buf b;
	uint32_t i;

	buf_init(&b, a);
	for (i = 0; i < n; i++) {
		buf_printf(&b, "%s%s", buf_between(i, n), words[i]);
	}
	return buf_text(&b);
}

/* "optimizer and parameters" */
static const char *
offload_words(uint32_t bits, struct arena *a)
{
	const char *words[3] = { NULL };
	uint32_t n = 0;

	if (bits & PLAN_OFFLOAD_OPTIMIZER) {
		words[n++] = "optimizer";
	}
	if (bits & PLAN_OFFLOAD_PARAMS) {
		words[n++] = "parameters";
	}
	if (bits & PLAN_OFFLOAD_SAVES) {
		words[n++] = "activations";
	}
	return listed(words, n, a);
}

/* "optimizer to NVMe, activations to the host": what a plan offloads. */
static const char *
offloads(const struct plan *p, struct arena *a)
{
	uint32_t drives = plan_on_drives(p->offload);
	const char *there = offload_words(drives, a);
	const char *here = offload_words(p->offload & ~drives, a);

	return arena_printf(a, "%s%s%s%s%s", there,
			    *there ? " to NVMe" : "",
			    *there && *here ? ", " : "", here,
			    *here ? " to the host" : "");
}

/* "state, weights and gradients": what that is. */
static const char *
kept(uint32_t bits, struct arena *a)
{
	const char *words[4];
	uint32_t n = 0;

	if (bits & PLAN_OFFLOAD_OPTIMIZER) {
		words[n++] = bits == PLAN_OFFLOAD_OPTIMIZER
			? "optimizer state" : "state";
	}
	if (bits & PLAN_OFFLOAD_PARAMS) {
		words[n++] = "weights";
		words[n++] = "gradients";
	}
	if (bits & PLAN_OFFLOAD_SAVES) {
		words[n++] = "activations";
	}
	return listed(words, n, a);
}

static void
print_split(const struct answer *x, struct buf *out)
{
	static const char *const where[] = {
		"", "in the node", "across nodes", "in and across nodes"
	};
	const struct plan *p = x->plan;
	struct answer_list l;
	int i;

	answer_list_begin(&l, out, "split");
	for (i = 0; i < PLAN_NAXES; i++) {
		enum plan_axis axis = p->mesh[i];

		if (plan_degree(p, axis) > 1) {
			answer_list_add(&l, "%s=%lld %s", plan_axis_name(axis),
					(long long)plan_degree(p, axis),
					where[x->link[axis]]);
		}
	}
	answer_list_end(&l);
	answer_list_begin(&l, out, "");
	answer_list_add(&l, "%lld microbatch%s of %lld",
			(long long)p->nmicrobatches,
			p->nmicrobatches == 1 ? "" : "es",
			(long long)p->microbatch);
	if (p->pp > 1) {
		answer_list_add(&l, "%s",
				strlen(p->schedule) < ANSWER_COLUMNS / 2
				? p->schedule : "a schedule");
	}
	if (p->interleave > 1) {
		answer_list_add(&l, "interleave %lld",
				(long long)p->interleave);
	}
	answer_list_add(&l, "zero %d", p->zero);
	answer_list_add(&l, "recompute %s", strlen(p->recompute) < RECOMPUTED
			? p->recompute : "some values");
	if (p->tp > 1) {
		answer_list_add(&l, "sequence %s", p->sequence ? "on" : "off");
	}
	if (p->offload) {
		answer_list_add(&l, "offload %s", offloads(p, out->arena));
	}
	answer_list_end(&l);
	if (p->offload & ~(uint32_t)PLAN_OFFLOAD_OPTIMIZER) {
		buf_printf(out, "%*s(-o plans without: code moves optimizer "
			   "state to the host alone)\n", ANSWER_INDENT, "");
	}
}

/* ---- time ---- */

/* Whether that row is printed. */
static bool
has_time(const struct answer *x, int i)
{
	return x->us[i] != 0 || (i == ANSWER_HOST && x->host_us > 0);
}

static void
print_time(const struct answer *x, struct buf *out)
{
	int i;

	buf_printf(out, "\n%-*s %14.3f ms\n", ANSWER_LABEL, "step",
		   x->step_us / 1e3);
	for (i = 0; i < ANSWER_NTIMES; i++) {
		if (!has_time(x, i)) {
			continue;
		}
		buf_printf(out, "  %-*s %14.3f ms %5.1f%%", ANSWER_LABEL - 2,
			   answer_times[i].what, x->us[i] / 1e3,
			   100 * x->us[i] / x->step_us);
		if (i == ANSWER_HOST) {
			buf_printf(out, ", %.3f ms more hidden",
				   fmax(x->host_us - x->us[i], 0) / 1e3);
		}
		buf_putc(out, '\n');
	}
}

/* ---- memory ---- */

/* Columns of the table, each with a blank before it. */
enum {
	WEIGHTS = 9, GRADIENTS = 9, OPTIMIZER = 9, SAVED = 9, TEMPS = 9,
	TOTAL = 9, HOST = 7
};

static void
add_bytes(struct buf *out, int columns, struct scale u, int64_t bytes)
{
	if (bytes < 0) {
		buf_printf(out, " %*s", columns, "-");
	} else {
		buf_printf(out, " %*.2f", columns, (double)bytes / u.size);
	}
}

/* Whether the table has a column of what lies on hosts. */
static bool
has_hosted(const struct answer_memory *m)
{
	return m->host_bytes || m->drives_bytes;
}

static void
print_rank(const struct answer_memory *m, uint32_t i, struct scale u,
	   struct buf *out)
{
	const struct answer_rank *r = &m->rank[i];
	int less = has_hosted(m) ? 1 : 0;

	buf_printf(out, "  %-8u", i);
	add_bytes(out, WEIGHTS - less, u, r->weights);
	add_bytes(out, GRADIENTS, u, r->gradients);
	add_bytes(out, OPTIMIZER, u, r->optimizer);
	add_bytes(out, SAVED - 2 * less, u, r->saved);
	add_bytes(out, TEMPS - 2 * less, u, r->temps);
	add_bytes(out, TOTAL - 2 * less, u, r->total);
	if (has_hosted(m)) {
		add_bytes(out, HOST, u, r->host);
	}
	buf_puts(out, i == m->fullest ? " fullest\n" : "\n");
}

static void
print_columns(const struct answer_memory *m, struct scale u, struct buf *out)
{
	int less = has_hosted(m) ? 1 : 0;

	buf_printf(out, "\n%s %-*s %*s %*s %*s %*s %*s %*s", u.name,
		   (int)(9 - strlen(u.name)), "on pp",
		   WEIGHTS - less, "weights", GRADIENTS, "gradients",
		   OPTIMIZER, "optimizer", SAVED - 2 * less, "saved",
		   TEMPS - 2 * less, "temps", TOTAL - 2 * less, "total");
	if (has_hosted(m)) {
		buf_printf(out, " %*s", HOST, "host");
	}
	buf_putc(out, '\n');
}

/* What hosts keep, in one of two places: of the one that has least left. */
static void
print_place(const char *place, int64_t bytes, const char *what, int64_t has,
	    struct buf *out)
{
	if (!bytes) {
		return;
	}
	buf_printf(out, "  the %s of a node keeps %s of %s", place,
		   unit_text(out->arena, (double)bytes), what);
	if (has) {
		buf_printf(out, "; %s %s\n", unit_text(out->arena,
				fabs((double)(has - bytes))),
			   has < bytes ? "TOO LITTLE" : "left");
	} else {
		buf_puts(out, "; it may have less\n");
	}
}

static void
print_host(const struct answer_memory *m, const struct plan *p,
	   struct buf *out)
{
	uint32_t drives = plan_on_drives(p->offload);
	uint32_t hosts = p->offload & ~(drives | PLAN_NVME_OPTIMIZER |
					PLAN_NVME_PARAMS);

	print_place("host", m->host_bytes, kept(hosts, out->arena),
		    m->node_bytes, out);
	print_place("NVMe", m->drives_bytes, kept(drives, out->arena),
		    m->node_drives_bytes, out);
}

static void
print_memory(const struct answer *x, struct buf *out)
{
	const struct answer_memory *m = &x->memory;
	struct scale u = answer_bytes_scale(&m->rank[m->fullest]);
	uint32_t i, shown = 0;

	print_columns(m, u, out);
	for (i = 0; i < m->nranks && i < MAX_ROWS; i++, shown++) {
		/* the last row shown is the fullest rank, if not above */
		print_rank(m, i == MAX_ROWS - 1 && m->fullest > i
			   ? m->fullest : i, u, out);
	}
	if (m->nranks > shown) {
		buf_printf(out, "  and %u more ranks of the pipeline\n",
			   m->nranks - shown);
	}
	buf_printf(out, "  %s has %s; total has %s of reserve; %s %s\n",
		   x->nplaces > 1 ? "the fullest" : "a device",
		   unit_text(out->arena, (double)m->device_bytes),
		   unit_text(out->arena,
			     (double)m->rank[m->fullest].reserve),
		   unit_text(out->arena, fabs((double)m->left_bytes)),
		   m->left_bytes < 0 ? "TOO LITTLE" : "left");
	print_host(m, x->plan, out);
	if (m->peak_op) {
		buf_printf(out, "  most is alive at %.50s\n", m->peak_op);
	}
}

/* ---- rates, money, failures ---- */

static void
print_rates(const struct answer *x, struct buf *out)
{
	double flops_s = x->flops_s / (double)x->used;
	struct scale u = unit_flops(flops_s);

	buf_printf(out, "\nrate       %.0f tokens/s, %.1f a device; %.1f "
		   "%s/s a device\n", x->tokens_s,
		   x->tokens_s / (double)x->used, flops_s / u.size, u.name);
	buf_printf(out, "           MFU %.1f%% (%.1f%% by unmasked pairs "
		   "alone), HFU %.1f%%\n", 100 * x->mfu, 100 * x->mfu_seen,
		   100 * x->hfu);
}

static void
print_accuracy(const struct answer *x, struct buf *out)
{
	const struct answer_accuracy *y = &x->accuracy;

	answer_label(out, "accuracy");
	if (!x->has_accuracy) {
		buf_puts(out, "not known: no run on such a device is "
			 "published\n");
		return;
	}
	buf_printf(out, "90%% of published runs took %.2f to %.2f of what is "
		   "predicted:\n%*s", y->low, y->high, ANSWER_INDENT, "");
	if (y->alike) {
		buf_printf(out, "%u like this one, of %u source%s, and by "
			   "less weight %u others;\n%*s", y->alike,
			   y->sources, y->sources == 1 ? "" : "s",
			   y->runs - y->alike, ANSWER_INDENT, "");
	} else {
		buf_printf(out, "%u, none of them like this one; ", y->runs);
	}
	buf_puts(out, "all of other software than llmc\n");
}

/* What is printed of constants of that origin. */
static const char *
origin_text(const struct answer *x, enum target_origin which, struct arena *a)
{
	static const char *const what[] = {
#define ORIGIN(id, key, text) text,
		TARGET_ORIGINS(ORIGIN)
#undef ORIGIN
	};
	const char *of = which != TARGET_BORROWED ? "" :
			 *x->lender ? x->lender : "another device";

	return arena_printf(a, "%s%.60s", what[which], of);
}

/* Of that origin, among those that count. */
static uint32_t
of_origin(const struct answer *x, enum target_origin which)
{
	uint32_t bits = 0;
	int i;

	for (i = 0; i < TARGET_NCONSTANTS; i++) {
		bits |= x->origin[i] == which ? x->counts & 1u << i : 0;
	}
	return bits;
}

/* Where the constants of the cost model come from, a line for each origin. */
static void
print_origins(const struct answer *x, struct buf *out)
{
	struct arena *a = out->arena;
	const char *label = "constants";
	struct answer_list l;
	int o, i;

	for (o = 0; o < TARGET_NORIGINS; o++) {
		uint32_t bits = of_origin(x, (enum target_origin)o);
		const char *text = origin_text(x, (enum target_origin)o, a);

		if (!bits) {
			continue;
		}
		answer_list_begin(&l, out, label);
		label = "";
		if (bits == x->counts) {
			answer_list_add(&l, "all %s", text);
			if (o != TARGET_MEASURED) {
				answer_list_add(&l, "none measured: see llmc "
						"calibrate");
			}
		}
		for (i = 0; bits != x->counts && i < TARGET_NCONSTANTS; i++) {
			if (bits >> i & 1) {
				answer_list_add(&l, "%s%s%s", text,
						*text ? ": " : "",
						target_constant_names[i]);
				text = "";
			}
		}
		answer_list_end(&l);
	}
}

/* Which part of the step's time is counted in the code that llmc emits. */
static void
print_counted(const struct answer *x, struct buf *out)
{
	const struct {
		const char *what;
		double us;
	} of[] = {
		{ "epilogues", x->counted.epilogues_us },
		{ "attention", x->counted.attention_us }
	};
	const char *before = "counted in llmc's own kernels: ";
	const char *after = " of the step";
	struct answer_list l;
	size_t i;

	answer_list_begin(&l, out, "prices");
	for (i = 0; i < sizeof of / sizeof *of; i++) {
		if (of[i].us > 0) {
			answer_list_add(&l, "%s%s %.1f%%%s", before,
					of[i].what, 100 * of[i].us / x->step_us,
					after);
			before = after = "";
		}
	}
	if (*before) {
		answer_list_add(&l, "none counted in llmc's own kernels");
	}
	answer_list_add(&l, "%s by others' kernels and rates",
			*before ? "all" : "all else");
	answer_list_end(&l);
}

static void
print_money(const struct answer *x, struct buf *out)
{
	answer_label(out, "cost");
	if (isnan(x->usd_h)) {
		buf_printf(out, "not known: %.*s has no %s\n", 2 * NAME,
			   x->file, x->asked.owned_years > 0
			   ? "purchase, or no power" : "price");
		return;
	}
	answer_add_usd(out, x->usd_h);
	buf_puts(out, " an hour, ");
	buf_printf(out, "%.4g USD for a million tokens\n", x->usd_mtoken);
	if (x->asked.owned_years > 0) {
		buf_printf(out, "%*spurchase over %.3g years ",
			   ANSWER_INDENT, "", x->asked.owned_years);
		answer_add_usd(out, x->purchase_usd_h);
		buf_puts(out, " an hour, energy ");
		answer_add_usd(out, x->energy_usd_h);
		buf_printf(out, "\n%*sassumed: %.3g USD/kWh, PUE %.3g\n",
			   ANSWER_INDENT, "", x->asked.energy_usd_kwh,
			   x->asked.pue);
	}
}

static void
add_run(const struct answer *x, const struct answer_run *r, struct buf *out)
{
	if (isnan(r->days)) {
		buf_puts(out, "never ends");
		return;
	}
	buf_printf(out, "%s days, ", answer_days_text(out->arena, r->days));
	answer_add_count(out, r->device_hours);
	buf_puts(out, x->is_gpu ? " GPU-hours" : " device-hours");
	if (!isnan(r->usd)) {
		buf_puts(out, ", ");
		answer_add_usd(out, r->usd);
	}
}

static void
print_run(const struct answer *x, struct buf *out)
{
	answer_label(out, "run");
	if (x->asked.tokens <= 0) {
		buf_puts(out, "not known: neither train.tokens nor --tokens "
			 "is given\n");
		return;
	}
	buf_short(out, x->asked.tokens);
	buf_puts(out, " tokens: ");
	add_run(x, &x->plain, out);
	if (!isnan(x->goodput)) {
		buf_printf(out, "\n%*swith failures: ", ANSWER_INDENT, "");
		add_run(x, &x->faulty, out);
	}
	buf_putc(out, '\n');
}

static void
print_faults(const struct answer *x, struct buf *out)
{
	answer_label(out, "failures");
	if (isnan(x->mtbf_s)) {
		buf_printf(out, "not known: %.*s has no failures\n", 2 * NAME,
			   x->file);
		return;
	}
	buf_puts(out, "one in ");
	add_span(out, x->mtbf_s);
	buf_printf(out, "; a checkpoint of ");
	answer_add_count(out, (double)x->model.checkpoint_bytes / 1e9);
	buf_puts(out, " GB takes ");
	add_span(out, x->checkpoint_s);
	buf_printf(out, ",\n%*swritten every ", ANSWER_INDENT, "");
	add_span(out, x->interval_s);
	buf_printf(out, "; goodput %.1f%%\n", 100 * x->goodput);
	buf_printf(out, "%*sassumed: %.3g GB/s of storage a node, %.3g minutes "
		   "to restart\n", ANSWER_INDENT, "",
		   x->asked.storage_bytes_us / 1e3,
		   x->asked.restart_s / 60);
}

void
answer_print(const struct answer *x, struct buf *out)
{
	print_head(x, out);
	print_device_groups(x, out);
	print_split(x, out);
	print_time(x, out);
	print_memory(x, out);
	print_rates(x, out);
	print_accuracy(x, out);
	print_origins(x, out);
	if (x->is_gpu) {
		print_counted(x, out);
	}
	print_money(x, out);
	print_run(x, out);
	print_faults(x, out);
}
