/*
 * The pass `search`: chooses all keys of a plan that the user leaves open, for
 * a target, or says why no plan fits.
 *
 * It needs a flat training program, and gives all settings `plan.*`.  Without a
 * target it does nothing.  It runs before the first pass that reads the plan; a
 * pass that replaces it must give the same settings.
 */
#include "passes/advice/advice.h"
#include "passes/pass.h"

static const struct span nowhere;

/* A note if all the memory that there is has no place for one copy of all. */
static void
note_total_bytes(struct ir_module *m, const struct search_report *r)
{
	struct buf b;

	if (r->needs_bytes <= r->has_bytes) {
		return;
	}
	buf_init(&b, &m->ctx->perm);
	buf_puts(&b, "one copy of weights, gradients and optimizer state "
		     "takes ");
	buf_grouped(&b, (int64_t)r->needs_bytes);
	buf_puts(&b, " bytes, and devices, hosts and drives together have ");
	buf_grouped(&b, (int64_t)r->has_bytes);
	diag_note(&m->ctx->diags, nowhere, "%s", buf_text(&b));
}

static bool
nothing_fits(struct pass_ctx *p, struct ir_module *m,
	     const struct search_report *r)
{
	const struct search_options *o = p->search;
	struct arena *a = &m->ctx->perm;
	struct advice_misfit x;
	uint32_t i;

	advice_find(m, o, r, p->memo, a, &x);
	diag_error(&m->ctx->diags, nowhere, "no plan fits %s: %s",
		   o->target->name, x.why);
	for (i = 0; i < x.advice.n; i++) {
		diag_note(&m->ctx->diags, nowhere, "one fits %s",
			  advice_text(&x.advice.at[i], a));
	}
	if (x.stopped) {
		diag_note(&m->ctx->diags, nowhere, ADVICE_STOPPED);
	}
	if (r->hosts == SEARCH_HOSTS_UNKNOWN) {
		diag_note(&m->ctx->diags, nowhere, "the target does not say "
			  "what memory its hosts have: with `host_memory`, "
			  "weights and gradients may lie there");
	} else if (r->hosts == SEARCH_HOSTS_KNOWN) {
		note_total_bytes(m, r);
	}
	if (x.never) {
		diag_note(&m->ctx->diags, nowhere, "%s", x.never);
	}
	return false;
}

bool
pass_search(struct pass_ctx *p, struct ir_module *m)
{
	struct search_report own, *r = &own;
	struct search_options o;

	if (!p->search || !p->search->target) {
		return true;
	}
	o = *p->search;
	o.ahead = p->ahead;
	r = o.report ? o.report : r;
	if (!search_run(m, &o, p->memo, &m->ctx->perm, r)) {
		return false;
	}
	if (!r->found.n && r->open) {
		diag_error(&m->ctx->diags, nowhere, "the search "
			   "ended before it found a plan that fits: more "
			   "seconds, or a pin such as tp=8, may help");
		return false;
	}
	/* errors on copies are not reported: run the pass on m */
	if (!r->found.n) {
		return (!r->refused || pass_optimize(p, m)) &&
		       nothing_fits(p, m, r);
	}
	pass_count(p, "plans in the space", (int64_t)r->space);
	pass_count(p, "placements", (int64_t)r->placements);
	pass_count(p, "plans priced", (int64_t)r->priced);
	pass_count(p, "schedules run", (int64_t)r->run);
	pass_count(p, "microseconds of the step",
		   (int64_t)r->found.at[0].step_us);
	plan_write(m, &r->found.at[0].plan);
	return true;
}
