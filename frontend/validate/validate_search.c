/*
 * `llmc validate --search`: compares the plans of published training runs with
 * those that the search finds for the same models, clusters and batches.  Both
 * are priced as code of llmc, or as --assume requires; a plan that is faster
 * than the one found is not in the space of the search.
 */
#include "frontend/validate/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/memo.h"
#include "passes/memory/memory.h"
#include "passes/plan/plan.h"
#include "passes/price/price.h"
#include "passes/search/search.h"

/* Prices that differ by less differ by rounding. */
#define ROUNDING 1e-9

/* The result of one search; rows of one model, cluster and batch share it. */
struct val_searched {
	const char *key;	/* text of the model, pins, and the cluster */
	const char *found;	/* the plan as text, or NULL */
	double step_us, gib;
};

static struct target
target_of(struct arena *a, const struct val_run *run)
{
	struct target t = { .name = "row" };

	VEC_PUSH(a, &t.groups, run->group);
	return t;
}

/* ---- the plan of the row ---- */

static const char *
as_it_was(struct val *v, struct ir_ctx *c, const struct val_run *run,
	  const struct price_traits *traits, struct val_row *r)
{
	const struct target_device *d = &run->group.device;
	struct target_devs devs = target_devs_all(&run->group);
	struct ir_module *m = val_compile(c, run->model);
	struct target t = target_of(&c->perm, run);
	const char *why = NULL;
	struct memory mem;
	struct ranks ranks;
	struct sched *s;
	struct price p;

	if (!m || !plan_pin(m, run->pins) ||
	    pass_apply_for(m, "split", &t, price_ours(traits), NULL,
			   false) != PASS_OK) {
		return val_first_error(v, c);
	}
	s = ranks_schedule(m, NULL, &c->perm);
	if (!s || !ranks_open(&ranks, m, s, NULL, &why)) {
		return why ? why : val_first_error(v, c);
	}
	if (!price_step(&ranks, &devs, traits, &c->perm, &p, &why) ||
	    !memory_plan(&ranks, NULL, (int64_t)d->reserve_bytes, &c->perm,
			 &mem, &why)) {
		return why;
	}
	r->predicted_us = p.step_us;
	r->arena_gib = (double)mem.rank[mem.fullest].total / (1 << 30);
	return (double)mem.rank[mem.fullest].total > d->memory_bytes
		? "its plan needs more memory than a device has" : NULL;
}

/* ---- the search ---- */

/* Whether a list like "tp,pp" contains a key. */
static bool
is_named(const char *list, const char *key, size_t n)
{
	while (list) {
		if (strncmp(list, key, n) == 0 &&
		    (list[n] == ',' || !list[n])) {
			return true;
		}
		list = strchr(list, ',');
		list += list != NULL;
	}
	return false;
}

/* The pins of the run that --search keeps. */
static const char *
pins(struct arena *a, const char *list, const char *all)
{
	struct buf b;

	buf_init(&b, a);
	while (*all) {
		size_t n = strcspn(all, ",");

		if (is_named(list, all, strcspn(all, "="))) {
			buf_printf(&b, "%s%.*s", b.n ? "," : "", (int)n, all);
		}
		all += n + (all[n] == ',');
	}
	return buf_text(&b);
}

bool
val_search_keys(struct val *v)
{
	static const char legal[] = "tp=1,pp=1,dp=1,cp=1,microbatch=1,"
		"interleave=1,schedule=1,sequence=1,recompute=1,zero=1";
	const char *list = v->d->opts.at[OPT_SEARCH].text;
	size_t n;

	while (list && *list) {
		n = strcspn(list, ",");
		if (n == 0 || !*pins(&v->d->ctx.tmp,
				     arena_strndup(&v->d->ctx.tmp, list, n),
				     legal)) {
			diag_error(&v->d->ctx.diags, v->table.head,
				   "--search: `%.*s` is no key of a run's "
				   "plan: tp, pp, dp, cp, microbatch, "
				   "interleave, schedule, sequence, recompute "
				   "and zero are", (int)n, list);
			return false;
		}
		list += n + (list[n] == ',');
	}
	return true;
}

static const char *
words(struct arena *a, const struct plan *p)
{
	bool even = true, alike = !p->recompute_of;
	uint32_t i;

	for (i = 1; i < p->nstages; i++) {
		even &= llabs((long long)(p->layers[i] - p->layers[0])) < 2;
	}
	return arena_printf(a, "tp=%lld,pp=%lld,dp=%lld,cp=%lld,"
		"microbatch=%lld,interleave=%lld,schedule=%s,zero=%d,"
		"recompute=%s%s%s%s", (long long)p->tp, (long long)p->pp,
		(long long)p->dp, (long long)p->cp, (long long)p->microbatch,
		(long long)p->interleave, p->schedule, p->zero,
		alike ? p->recompute : "by stage",
		p->offload ? ",offload=" : "",
		p->offload ? plan_offload_text(p->offload) : "",
		even ? "" : ", stages uneven");
}

static void
search(struct val *v, const struct val_run *run, const char *fixed,
       const struct price_traits *traits, struct val_searched *out)
{
	struct target t;
	struct search_options o = { .target = &t, .traits = *traits,
				    .top = 1 };
	struct search_report found;
	struct ir_module *m;
	struct memo memo;
	struct ir_ctx c;

	ir_ctx_init(&c, NULL);
	memo_init(&memo, &c.mem, MEMO_BYTES);
	t = target_of(&c.perm, run);
	m = val_compile(&c, run->model);
	if (m && (!*fixed || plan_pin(m, fixed)) &&
	    pass_apply(m, "fold-dims,inline,autodiff", false) == PASS_OK &&
	    search_run(m, &o, &memo, &c.perm, &found) && found.found.n) {
		const struct search_found *f = &found.found.at[0];

		out->found = words(&v->d->ctx.perm, &f->plan);
		out->step_us = f->step_us;
		out->gib = ((double)f->bytes +
			    run->group.device.reserve_bytes) / (1 << 30);
	}
	memo_release(&memo);
	ir_ctx_release(&c);
}

static const struct val_searched *
searched(struct val *v, const struct val_run *run,
	 const struct price_traits *traits)
{
	struct arena *a = &v->d->ctx.perm;
	const struct target_group *g = &run->group;
	const char *fixed = pins(a, v->d->opts.at[OPT_SEARCH].text,
				 run->pins);
	const char *key = arena_printf(a, "%s%s %s %lld %lld %.17g",
				       run->model, fixed, g->device.name,
				       (long long)g->devices,
				       (long long)g->nodes,
				       g->network.bytes_us);
	struct val_searched *s;
	uint32_t i;

	for (i = 0; i < v->searches.n; i++) {
		if (strcmp(v->searches.at[i]->key, key) == 0) {
			return v->searches.at[i];
		}
	}
	s = arena_alloc(a, sizeof *s);
	*s = (struct val_searched){ .key = key };
	search(v, run, fixed, traits, s);
	VEC_PUSH(a, &v->searches, s);
	return s;
}

const char *
val_search(struct val *v, const struct val_run *run, struct val_row *r)
{
	struct price_traits traits = { 0 };
	const struct val_searched *s;
	const char *why;
	struct ir_ctx c;

	if (!drv_assume(v->d, &traits)) {
		return "--assume is wrong";
	}
	ir_ctx_init(&c, NULL);
	why = as_it_was(v, &c, run, &traits, r);
	ir_ctx_release(&c);
	if (why) {
		return why;
	}
	s = searched(v, run, &traits);
	r->found = s->found;
	r->found_us = s->step_us;
	r->found_gib = s->gib;
	return NULL;
}

/* ---- what is printed ---- */

/* Above 1: the plan of the row is faster. */
static double
ratio(const struct val_row *r)
{
	return r->found ? r->found_us / r->predicted_us : INFINITY;
}

static bool
is_quicker(const struct val_row *r)
{
	return !r->why && ratio(r) > 1 + ROUNDING;
}

static uint32_t
count_quicker(const struct val *v)
{
	uint32_t i, n = 0;

	for (i = 0; i < v->rows.n; i++) {
		n += is_quicker(&v->rows.at[i]);
	}
	return n;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void
print_row(const struct val *v, struct buf *out, const struct val_row *r)
{
	struct source_pos pos;

	source_locate(&v->d->ctx.sources, r->span.lo, &pos);
	if (r->why) {
		buf_printf(out, "%6u  %s: %s\n", pos.line, r->what, r->why);
		return;
	}
	buf_printf(out, "%6u %12.3f ms %5.1f GiB           %s\n", pos.line,
		   r->predicted_us / 1e3, r->arena_gib, r->what);
	if (r->found) {
		buf_printf(out, "%6s %12.3f ms %5.1f GiB %8.2f%%  %s\n", "",
			   r->found_us / 1e3, r->found_gib, 100 * ratio(r),
			   r->found);
	} else {
		buf_printf(out, "%6s the search finds none that fits\n", "");
	}
}

static void
print_ratios(const struct val *v, struct buf *out)
{
	double *at = arena_alloc(&v->d->ctx.tmp,
				 (v->rows.n + 1) * sizeof *at);
	uint32_t i, n = 0;

	for (i = 0; i < v->rows.n; i++) {
		if (!v->rows.at[i].why && v->rows.at[i].found) {
			at[n++] = ratio(&v->rows.at[i]);
		}
	}
	if (n > 0) {
		qsort(at, n, sizeof *at, by_value);
		buf_printf(out, "\nwhat is found takes %.1f%% of the row's "
			   "plan in the median, %.1f%% at the least and "
			   "%.2f%% at the most\n",
			   100 * val_quantile(at, n, 0.5), 100 * at[0],
			   100 * at[n - 1]);
	}
}

static uint32_t
beside(const struct val *v)
{
	uint32_t i, n = 0;

	for (i = 0; i < v->rows.n; i++) {
		n += !v->rows.at[i].why;
	}
	return n;
}

void
val_print_search(const struct val *v, struct buf *out)
{
	bool all = v->d->opts.at[OPT_ROWS].given;
	uint32_t i, n = count_quicker(v);

	for (i = 0; i < v->rows.n; i++) {
		if (all || is_quicker(&v->rows.at[i])) {
			print_row(v, out, &v->rows.at[i]);
		}
	}
	buf_printf(out, "%s%u rows of %s: %u beside %u searches, %u not\n",
		   all || n ? "\n" : "", v->rows.n, v->what, beside(v),
		   v->searches.n, v->rows.n - beside(v));
	val_print_reasons(v, out);
	print_ratios(v, out);
	buf_printf(out, "%u quicker than what is found\n", n);
}

static void
json_row(const struct val *v, struct buf *out, const struct val_row *r)
{
	struct source_pos pos;

	source_locate(&v->d->ctx.sources, r->span.lo, &pos);
	buf_printf(out, "\n    { \"line\": %u, \"row\": ", pos.line);
	buf_json(out, r->what, strlen(r->what));
	if (r->why) {
		buf_puts(out, ", \"step_us\": null, \"why\": ");
		buf_json(out, r->why, strlen(r->why));
	} else {
		buf_printf(out, ", \"step_us\": %.9g, \"gib\": %.3f",
			   r->predicted_us, r->arena_gib);
	}
	if (!r->why && r->found) {
		buf_printf(out, ",\n      \"found_us\": %.9g, \"found_gib\": "
			   "%.3f, \"found\": ", r->found_us, r->found_gib);
		buf_json(out, r->found, strlen(r->found));
	}
	buf_puts(out, " }");
}

void
val_print_search_json(const struct val *v, struct buf *out)
{
	uint32_t i;

	buf_printf(out, "{\n  \"version\": 1,\n  \"rows\": %u,\n  "
		   "\"beside\": %u,\n  \"searches\": %u,\n  \"quicker\": %u,"
		   "\n  \"each\": [", v->rows.n, beside(v), v->searches.n,
		   count_quicker(v));
	for (i = 0; i < v->rows.n; i++) {
		buf_puts(out, i ? "," : "");
		json_row(v, out, &v->rows.at[i]);
	}
	buf_puts(out, "\n  ]\n}\n");
}
