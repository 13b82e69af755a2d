/*
 * The answer as it is printed, and after it what --top, --explain and
 * --why-not ask for, in that order.  --why-not sets the best plan with some
 * keys pinned beside the best of all: what it costs more, part by part, or
 * why there is no such plan.
 */
#include "frontend/tool/tool.h"

#include <math.h>
#include <string.h>

#include "passes/advice/advice.h"

static const struct span nowhere;

/* ---- --why-not: the plan with these keys ---- */


/* A copy of d->other after the passes before the search. */
static struct ir_module *
up_to_search(struct driver *d)
{
	struct ir_module *m = ir_copy(d->other, &d->ctx);
	struct pass_list head = { 0 };
	uint32_t i;

	for (i = 0; strcmp(d->passes.at.at[i]->name, "search") != 0; i++) {
		VEC_PUSH(d->opts.arena, &head.at, d->passes.at.at[i]);
	}
	return pass_run(&d->pm, &head, m) == PASS_OK ? m : NULL;
}

static void
print_misfit(struct driver *d, const struct ir_module *m,
	     const struct search_options *o, const struct search_report *r)
{
	struct arena *a = &d->ctx.perm;
	struct advice_misfit x;
	uint32_t i;

	advice_find(m, o, r, d->pm.memo, a, &x);
	buf_printf(&d->out, "no plan fits: %s\n", x.why);
	for (i = 0; i < x.advice.n; i++) {
		buf_printf(&d->out, "one fits %s\n",
			   advice_text(&x.advice.at[i], a));
	}
	if (x.stopped) {
		buf_puts(&d->out, ADVICE_STOPPED "\n");
	}
	if (x.never) {
		buf_printf(&d->out, "%s\n", x.never);
	}
}

/* The answer about d->other, whose plan leaves nothing open now. */
static bool
answer_other(struct driver *d, struct drv_side *s)
{
	const struct search_options *o = d->pm.search;
	bool ok;

	s->m = d->other;
	s->path = "with the keys";
	d->pm.search = NULL;	/* there is nothing left to search */
	ok = drv_run_for_answer(d, s->m) == PASS_OK &&
	     drv_answer(d, s->m, &s->answer);
	if (ok) {
		drv_copy_keys(d, s, s->answer.plan);
	}
	d->pm.search = o;
	return ok;
}

/* ---- both, beside each other ---- */

static void
row(struct buf *out, const char *what, double a, double b, double whole)
{
	double more = b - a, part = 100 * more / whole;

	if (a == 0 && b == 0) {
		return;
	}
	buf_printf(out, "%-*s %13.3f %13.3f %+13.3f", ANSWER_LABEL, what, a, b,
		   fabs(more) < 0.0005 ? 0 : more);
	if (whole > 0) {
		buf_printf(out, " %+8.1f%%", fabs(part) < 0.05 ? 0 : part);
	}
	buf_putc(out, '\n');
}

static void
print_times(const struct answer *x, const struct answer *y, struct buf *out)
{
	int i;

	buf_printf(out, "%-*s %13s %13s %13s %9s\n", ANSWER_LABEL, "",
		   "the best", "with the keys", "more", "of a step");
	row(out, "step, ms", x->step_us / 1e3, y->step_us / 1e3,
	    x->step_us / 1e3);
	for (i = 0; i < ANSWER_NTIMES; i++) {
		row(out, arena_printf(out->arena, "  %s",
				      answer_times[i].what), x->us[i] / 1e3,
		    y->us[i] / 1e3, x->step_us / 1e3);
	}
}

static void
row_bytes(struct buf *out, const char *what, struct scale u, int64_t a,
	  int64_t b)
{
	row(out, what, (double)a / u.size, (double)b / u.size, 0);
}

static void
print_bytes(const struct answer *x, const struct answer *y, struct buf *out)
{
	const struct answer_rank *a = &x->memory.rank[x->memory.fullest];
	const struct answer_rank *b = &y->memory.rank[y->memory.fullest];
	struct scale u = answer_bytes_scale(a->total > b->total ? a : b);
	struct scale left = unit_bytes(fmax(
		fabs((double)x->memory.left_bytes),
		fabs((double)y->memory.left_bytes)));

	row_bytes(out, arena_printf(out->arena, "fullest rank, %s", u.name),
		  u, a->total, b->total);
	row_bytes(out, "  weights", u, a->weights, b->weights);
	row_bytes(out, "  gradients", u, a->gradients, b->gradients);
	row_bytes(out, "  optimizer", u, a->optimizer, b->optimizer);
	row_bytes(out, "  saved", u, a->saved, b->saved);
	if (a->temps >= 0 && b->temps >= 0) {
		row_bytes(out, "  temporaries", u, a->temps, b->temps);
	}
	row_bytes(out, arena_printf(out->arena, "on its host, %s", u.name), u,
		  a->host, b->host);
	row_bytes(out, arena_printf(out->arena, "left on a device, %s",
				    left.name), left,
		  x->memory.left_bytes, y->memory.left_bytes);
}

static void
print_both(struct drv_side s[2], struct buf *out)
{
	drv_print_keys(&s[0], &s[1], out);
	buf_putc(out, '\n');
	print_times(&s[0].answer, &s[1].answer, out);
	print_bytes(&s[0].answer, &s[1].answer, out);
}

static bool
print_why_not(struct driver *d, struct ir_module *m, const struct answer *best)
{
	struct search_options o = *d->pm.search;
	struct drv_side s[2] = { { .path = "the best", .m = m,
				   .answer = *best } };
	struct search_report r;
	struct ir_module *probe;

	drv_copy_keys(d, &s[0], best->plan);	/* which is in ctx->tmp */
	probe = up_to_search(d);
	o.top = 1;
	o.report = NULL;
	if (!probe || !search_run(probe, &o, d->pm.memo, &d->ctx.perm, &r)) {
		return false;
	}
	buf_printf(&d->out, "\nwhy not %s?\n", d->opts.at[OPT_WHY_NOT].text);
	if (!r.found.n) {
		print_misfit(d, probe, &o, &r);
		return true;
	}
	plan_write(d->other, &r.found.at[0].plan);
	if (!answer_other(d, &s[1])) {
		return false;
	}
	print_both(s, &d->out);
	return true;
}

/* ---- tables of plans ---- */

/* --bisect-limit may have skipped the search. */
static bool
was_searched(struct driver *d)
{
	if (!d->pm.search->report->found.n) {
		diag_error(&d->ctx.diags, nowhere, "the pass `search` did not "
			   "run");
		return false;
	}
	return true;
}

bool
drv_print_plans(struct driver *d, struct ir_module *m)
{
	if (!was_searched(d)) {
		return false;
	}
	if (drv_wants(d, "plans-json")) {
		answer_print_plans_json(m, d->pm.search->report, &d->out);
	} else {
		answer_print_plans(d->pm.search->report, &d->out);
	}
	return true;
}

/* ---- the answer ---- */

static bool
print_asked(struct driver *d, struct ir_module *m, const struct answer *x)
{
	const struct opt_value *at = d->opts.at;

	if ((at[OPT_TOP].given || drv_explains(d, "search") ||
	     at[OPT_WHY_NOT].given) && !was_searched(d)) {
		return false;
	}
	if (at[OPT_TOP].given) {
		buf_putc(&d->out, '\n');
		answer_print_plans(x->search, &d->out);
	}
	if (drv_explains(d, "cost")) {
		buf_printf(&d->out, "\n%s", d->facts->kernels);
	}
	if (drv_explains(d, "search")) {
		buf_putc(&d->out, '\n');
		answer_print_search(x->search, &d->out);
	}
	if (drv_explains(d, "memory")) {
		buf_printf(&d->out, "\n%s", d->facts->arenas);
	}
	if (d->facts->tiles) {
		buf_printf(&d->out, "\n%s", d->facts->tiles);
	}
	return !at[OPT_WHY_NOT].given || print_why_not(d, m, x);
}

/* Whether no option about code is given. */
static bool
no_code_options(struct driver *d)
{
	static const enum opt_id ids[] = { OPT_CPU, OPT_DRAFT, OPT_ARCH,
					   OPT_NO_CACHE, OPT_AUTOTUNE };
	size_t i;

	for (i = 0; i < sizeof ids / sizeof ids[0]; i++) {
		if (d->opts.at[ids[i]].given) {
			diag_error(&d->ctx.diags, nowhere, "--%s needs an "
				   "output with code: -o FOLDER, or "
				   "--emit=llvm", opt_rows[ids[i]].name);
			return false;
		}
	}
	return true;
}

bool
drv_print_answer(struct driver *d, struct ir_module *m,
		 enum drv_answer_form form, bool code)
{
	struct answer x;
	bool ok;

	if (!code && !no_code_options(d)) {
		return false;
	}
	d->wants_code = code;
	ok = drv_answer(d, m, &x);
	d->wants_code = false;
	if (ok && form == DRV_ANSWER_JSON) {
		answer_print_json(&x, &d->out);
	}
	if (!ok || form == DRV_ANSWER_JSON) {
		return ok;
	}
	buf_init(&d->json, &d->ctx.perm);
	buf_init(&d->plan, &d->ctx.perm);
	answer_print_json(&x, &d->json);
	buf_puts(&d->plan, x.plan_text);
	if (form == DRV_ANSWER_CODE) {
		return drv_code_text(d, &x);
	}
	answer_print(&x, &d->out);
	return print_asked(d, m, &x) && (!code || drv_code_end(d, &x));
}
