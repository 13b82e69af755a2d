/*
 * The answer on one screen: model and target, the plan, the step's time by what
 * it is spent on, memory, rates, money, failures.  For what is not known it
 * prints which key would have to be given where.
 */
#include "passes/answer/answer.h"

#include <math.h>
#include <string.h>

#define MAX_ROWS 4	/* ranks of the pipeline that are shown */
#define MAX_KINDS 8	/* of node, and device groups of a pipeline */
#define COLUMNS 80
#define NAME 28		/* of a longer one the beginning is shown */
#define INDENT 11	/* of what follows a label */

/* ---- small texts ---- */

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

void
answer_add_count(struct buf *out, double v)
{
	if (v >= 99.5 && v < 1e15) {
		buf_grouped(out, (int64_t)(v + 0.5));
	} else {
		buf_printf(out, "%.3g", v);
	}
}

const char *
answer_days_text(struct arena *a, double days)
{
	const char *fmt = days < 0.1 ? "%.3g" : days < 1e6 ? "%.1f" : "%.2e";

	return isnan(days) ? "-" : arena_printf(a, fmt, days);
}

void
answer_add_usd(struct buf *out, double usd)
{
	if (usd < 1000) {
		buf_printf(out, usd > 0 && usd < 0.1 ? "%.2g" : "%.2f", usd);
	} else {
		answer_add_count(out, usd);
	}
	buf_puts(out, " USD");
}

static void
add_label(struct buf *out, const char *label)
{
	buf_printf(out, "%-*s", INDENT, label);
}

/* Items after a label, on as many lines as they need. */
struct label_items {
	struct buf *out;
	size_t column;
};

static void
list_begin(struct label_items *l, struct buf *out, const char *label)
{
	l->out = out;
	l->column = 0;
	add_label(out, label);
}

static void
list_add(struct label_items *l, const char *item)
{
	size_t n = strlen(item);

	if (l->column && l->column + 2 + n >= COLUMNS - INDENT) {
		buf_printf(l->out, ",\n%*s", INDENT, "");
		l->column = 0;
	} else if (l->column) {
		buf_puts(l->out, ", ");
		l->column += 2;
	}
	buf_puts(l->out, item);
	l->column += n;
}

static void
list_end(struct label_items *l)
{
	buf_puts(l->out, l->column ? "\n" : "none\n");
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
	add_label(out, "batch");
	buf_printf(out, "%lld sequence%s, ", (long long)m->sequences,
		   m->sequences == 1 ? "" : "s");
	buf_grouped(out, m->tokens);
	buf_puts(out, " tokens a step\n");
	add_label(out, "target");
	buf_printf(out, "%.*s: %lld of %lld devices", NAME, x->target,
		   (long long)x->used, (long long)x->devices);
	if (x->ngroups == 1) {
		buf_printf(out, " (%.20s)", x->device);
	}
	buf_printf(out, " in %lld node%s\n", (long long)x->nodes,
		   x->nodes == 1 ? "" : "s");
	if (x->priced_cpu) {
		add_label(out, "CPU");
		buf_printf(out, "%s\n", x->priced_cpu);
	}
}

/* Of a target with several kinds of node: devices, and the layers on them. */
static void
print_device_groups(const struct answer *x, struct buf *out)
{
	struct arena *a = out->arena;
	struct label_items l;
	uint32_t i;

	if (x->ngroups == 1) {
		return;
	}
	list_begin(&l, out, "");
	for (i = 0; i < x->ngroups && i < MAX_KINDS; i++) {
		const struct answer_group *g = &x->group[i];

		list_add(&l, arena_printf(a, "%lld of %lld %.20s",
			(long long)g->used, (long long)g->devices,
			g->device));
	}
	if (i < x->ngroups) {
		list_add(&l, arena_printf(a, "and %u kinds more",
					  x->ngroups - i));
	}
	list_end(&l);
	list_begin(&l, out, "layers");
	for (i = 0; i < x->nplaces && i < MAX_KINDS; i++) {
		const struct answer_device_group *p = &x->place[i];
		const char *rank = p->last == p->first
			? arena_printf(a, "pp %u", p->first)
			: arena_printf(a, "pp %u..%u", p->first, p->last);

		list_add(&l, arena_printf(a, "%lld on %.46s (%s)",
			(long long)p->layers, p->devices,
			x->plan->pp > 1 ? rank : "all ranks"));
	}
	if (i < x->nplaces) {
		list_add(&l, "and so on");
	}
	list_end(&l);
}

/* ---- the split ---- */

static void
add_recompute(struct label_items *l, const struct plan *p, struct arena *a)
{
	char word[24];
	size_t n = strlen(p->recompute);

	snprintf(word, sizeof word, "%s", p->recompute);
	list_add(l, n < sizeof word
		 ? arena_printf(a, "recompute %s", word)
		 : "recompute some values");
}

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
	struct arena *a = out->arena;
	struct label_items l;
	int i;

	list_begin(&l, out, "split");
	for (i = 0; i < PLAN_NAXES; i++) {
		enum plan_axis axis = p->mesh[i];

		if (plan_degree(p, axis) > 1) {
			list_add(&l, arena_printf(a, "%s=%lld %s",
				plan_axis_name(axis),
				(long long)plan_degree(p, axis),
				where[x->link[axis]]));
		}
	}
	list_end(&l);
	list_begin(&l, out, "");
	list_add(&l, arena_printf(a, "%lld microbatch%s of %lld",
				  (long long)p->nmicrobatches,
				  p->nmicrobatches == 1 ? "" : "es",
				  (long long)p->microbatch));
	if (p->pp > 1) {
		list_add(&l, strlen(p->schedule) < COLUMNS / 2 ? p->schedule
							      : "a schedule");
	}
	if (p->interleave > 1) {
		list_add(&l, arena_printf(a, "interleave %lld",
					  (long long)p->interleave));
	}
	list_add(&l, arena_printf(a, "zero %d", p->zero));
	add_recompute(&l, p, a);
	if (p->tp > 1) {
		list_add(&l, p->sequence ? "sequence on" : "sequence off");
	}
	if (p->offload) {
		list_add(&l, arena_printf(a, "offload %s", offloads(p, a)));
	}
	list_end(&l);
	if (p->offload & ~(uint32_t)PLAN_OFFLOAD_OPTIMIZER) {
		buf_printf(out, "%*s(-o plans without: code moves optimizer "
			   "state to the host alone)\n", INDENT, "");
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

struct scale
answer_bytes_scale(const struct answer_rank *r)
{
	return unit_bytes((double)(r->total > r->reserve
				   ? r->total - r->reserve : r->total));
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

	add_label(out, "accuracy");
	if (!x->has_accuracy) {
		buf_puts(out, "not known: no run on such a device is "
			 "published\n");
		return;
	}
	buf_printf(out, "90%% of published runs took %.2f to %.2f of what is "
		   "predicted:\n%*s", y->low, y->high, INDENT, "");
	if (y->alike) {
		buf_printf(out, "%u like this one, of %u source%s, and by "
			   "less weight %u others;\n%*s", y->alike,
			   y->sources, y->sources == 1 ? "" : "s",
			   y->runs - y->alike, INDENT, "");
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
	struct label_items l;
	int o, i;

	for (o = 0; o < TARGET_NORIGINS; o++) {
		uint32_t bits = of_origin(x, (enum target_origin)o);
		const char *text = origin_text(x, (enum target_origin)o, a);

		if (!bits) {
			continue;
		}
		list_begin(&l, out, label);
		label = "";
		if (bits == x->counts) {
			list_add(&l, arena_printf(a, "all %s", text));
			if (o != TARGET_MEASURED) {
				list_add(&l, "none measured: see llmc "
					 "calibrate");
			}
		}
		for (i = 0; bits != x->counts && i < TARGET_NCONSTANTS; i++) {
			if (bits >> i & 1) {
				list_add(&l, arena_printf(a, "%s%s%s", text,
					*text ? ": " : "",
					target_constant_names[i]));
				text = "";
			}
		}
		list_end(&l);
	}
}

static void
print_money(const struct answer *x, struct buf *out)
{
	add_label(out, "cost");
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
		buf_printf(out, "%*spurchase over %.3g years ", INDENT, "",
			   x->asked.owned_years);
		answer_add_usd(out, x->purchase_usd_h);
		buf_puts(out, " an hour, energy ");
		answer_add_usd(out, x->energy_usd_h);
		buf_printf(out, "\n%*sassumed: %.3g USD/kWh, PUE %.3g\n",
			   INDENT, "", x->asked.energy_usd_kwh, x->asked.pue);
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
	add_label(out, "run");
	if (x->asked.tokens <= 0) {
		buf_puts(out, "not known: neither train.tokens nor --tokens "
			 "is given\n");
		return;
	}
	buf_short(out, x->asked.tokens);
	buf_puts(out, " tokens: ");
	add_run(x, &x->plain, out);
	if (!isnan(x->goodput)) {
		buf_printf(out, "\n%*swith failures: ", INDENT, "");
		add_run(x, &x->faulty, out);
	}
	buf_putc(out, '\n');
}

static void
print_faults(const struct answer *x, struct buf *out)
{
	add_label(out, "failures");
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
	buf_printf(out, ",\n%*swritten every ", INDENT, "");
	add_span(out, x->interval_s);
	buf_printf(out, "; goodput %.1f%%\n", 100 * x->goodput);
	buf_printf(out, "%*sassumed: %.3g GB/s of storage a node, %.3g minutes "
		   "to restart\n", INDENT, "",
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
	print_money(x, out);
	print_run(x, out);
	print_faults(x, out);
}

/* ---- two plans ---- */

/* A row of two numbers, and by how much the second is more. */
static void
print_both(struct buf *out, const char *what, double a, double b,
	   const char *fmt)
{
	double more = a > 0 && b > 0 ? 100 * (b - a) / a : 0;
	char x[40], y[40];

	snprintf(x, sizeof x, fmt, a);
	snprintf(y, sizeof y, fmt, b);
	buf_printf(out, "%-*s %16s %16s", ANSWER_LABEL, what, x, y);
	if (a > 0 && b > 0) {
		buf_printf(out, " %+9.1f%%", fabs(more) < 0.05 ? 0 : more);
	}
	buf_putc(out, '\n');
}

static void
both_bytes(struct buf *out, const char *what, struct scale u, int64_t a,
	   int64_t b)
{
	print_both(out, what, (double)a / u.size, (double)b / u.size, "%.2f");
}

static void
both_memory(const struct answer_rank *a, const struct answer_rank *b,
	    struct buf *out)
{
	struct scale u = answer_bytes_scale(a->total > b->total ? a : b);

	both_bytes(out, arena_printf(out->arena, "fullest rank, %s", u.name),
		   u, a->total, b->total);
	both_bytes(out, "  weights", u, a->weights, b->weights);
	both_bytes(out, "  gradients", u, a->gradients, b->gradients);
	both_bytes(out, "  optimizer", u, a->optimizer, b->optimizer);
	both_bytes(out, "  saved", u, a->saved, b->saved);
	if (a->host || b->host) {
		both_bytes(out, arena_printf(out->arena, "on its host, %s",
					     u.name), u, a->host, b->host);
	}
}

/* On a CPU no published run says how close two plans may be. */
static void
print_closeness(const struct answer *x, const struct answer *y,
		struct buf *out)
{
	double least = answer_least_difference(out->arena);

	if (x->has_accuracy && x->plan_text && y->plan_text &&
	    fabs(log(x->step_us / y->step_us)) < log(1 + least) &&
	    strcmp(x->plan_text, y->plan_text) != 0) {
		buf_printf(out, "\nWhich of the two is faster is not known: "
			   "of pairs of published runs of one\nsource 10%% "
			   "were predicted more than %.0f%% wrong to each "
			   "other.\n", 100 * least);
	}
}

void
answer_print_both(const struct answer *x, const struct answer *y,
		  struct buf *out)
{
	const struct answer_rank *a = &x->memory.rank[x->memory.fullest];
	const struct answer_rank *b = &y->memory.rank[y->memory.fullest];
	struct scale left;
	int i;

	print_both(out, "devices", (double)x->used, (double)y->used, "%.0f");
	print_both(out, "step, ms", x->step_us / 1e3, y->step_us / 1e3, "%.3f");
	for (i = 0; i < ANSWER_NTIMES; i++) {
		if (x->us[i] != 0 || y->us[i] != 0) {
			print_both(out, arena_printf(out->arena, "  %s",
					       answer_times[i].what),
			     x->us[i] / 1e3, y->us[i] / 1e3, "%.3f");
		}
	}
	print_both(out, "tokens/s", x->tokens_s, y->tokens_s, "%.0f");
	print_both(out, "MFU, %", 100 * x->mfu, 100 * y->mfu, "%.1f");
	both_memory(a, b, out);
	left = unit_bytes(fmax(fabs((double)x->memory.left_bytes),
			       fabs((double)y->memory.left_bytes)));
	both_bytes(out, arena_printf(out->arena, "left on a device, %s",
				     left.name), left,
		   x->memory.left_bytes, y->memory.left_bytes);
	print_closeness(x, y, out);
}
