/*
 * search: fills in what a plan leaves open, for a target.
 *
 * Needs: a flat training program.  Gives: settings `plan.*`, all of them.
 * Without a target it does nothing.  It stands before `recompute`, the first
 * pass that looks at the plan; whoever replaces it fills in the same
 * settings, and nothing behind it knows the difference.
 */
#include "passes/search_parts.h"

#include <math.h>
#include <string.h>

/* What an axis may split beside is for the placement to decide. */
static void
set_base(struct search *s)
{
	if (!s->pinned[PIN_SEQUENCE]) {
		s->base.sequence = true;
	}
	if (!s->pinned[PIN_BALANCED]) {
		s->base.balanced = true;
	}
}

#define KEPT 3		/* plans more than asked for, if some do not fit */
#define SLACK 1.01	/* of a guess */
#define ROUNDS 8	/* of searches with less memory, for gaps of arenas */
#define ALONE 2		/* of these, only for plans that had gaps */

uint32_t
search_top(const struct search *s)
{
	return (s->o->top ? s->o->top : 1) + KEPT;
}

static void
walk(struct search *s, double worst_us, bool guessing)
{
	uint32_t i;

	s->worst_us = worst_us;
	s->guessing = guessing;
	s->out->found.n = 0;
	s->out->space = s->out->full = s->out->priced = s->out->cut = 0;
	for (i = 0; i < s->groups.n; i++) {
		if (s->groups.at[i].bound_us < s->worst_us) {
			search_each(s, &s->groups.at[i], search_one);
		}
	}
}

/*
 * Nothing much above a guess is looked at; unless that was no good guess.
 * With a little less memory, what was found before is one.
 */
static void
look(struct search *s, bool again)
{
	uint32_t top = search_top(s);

	if (!again || !isfinite(s->worst_us)) {
		walk(s, INFINITY, true);
	}
	if (isfinite(s->worst_us)) {
		walk(s, s->worst_us * SLACK, false);
	}
	if (s->out->found.n < top) {
		walk(s, INFINITY, false);
	}
}

static void
look_and_settle(struct search *s)
{
	int round;

	search_groups(s);
	s->out->groups = s->groups.n;
	for (round = 0; round < ROUNDS; round++) {
		look(s, round > 0);
		if (search_settle(s, round >= ALONE)) {
			break;
		}
	}
	s->out->bound_us = s->out->found.n ? s->out->found.at[0].step_us : 0;
}

bool
search_run(struct ir_module *m, const struct search_options *o,
	   struct arena *a, struct search_report *out)
{
	struct search s = { .m = m, .o = o, .t = o->target->groups.at,
			    .a = a, .out = out };
	bool ok;

	memset(out, 0, sizeof *out);
	out->memory_bytes = (int64_t)(s.t->device.memory_bytes -
				      s.t->device.reserve_bytes);
	arena_init(&s.keep, &m->ctx->mem);
	arena_init(&s.tmp, &m->ctx->mem);
	s.stats.arena = &s.keep;
	s.stats.pass = "search";
	ok = plan_read(m, &s.base) && search_open(&s);
	if (ok) {
		set_base(&s);
		look_and_settle(&s);
	}
	search_release(&s);
	return ok;
}

static bool
nothing_fits(struct ir_module *m, const struct search_report *r)
{
	diag_error(&m->ctx->diags, (struct span){ 0, 0 }, "no plan fits: the "
		   "smallest needs %lld bytes of %lld", r->any_near
		   ? (long long)r->least.bytes : 0,
		   (long long)r->memory_bytes);
	return false;
}

bool
pass_search(struct pass_ctx *p, struct ir_module *m)
{
	struct search_report r;

	if (!p->search || !p->search->target) {
		return true;
	}
	if (!search_run(m, p->search, &m->ctx->perm, &r)) {
		return false;
	}
	if (!r.found.n) {
		return nothing_fits(m, &r);
	}
	pass_count(p, "plans in the space", (int64_t)r.space);
	pass_count(p, "placements", (int64_t)r.widths);
	pass_count(p, "plans priced", (int64_t)r.priced);
	pass_count(p, "schedules run", (int64_t)r.run);
	pass_count(p, "microseconds of the step",
		   (int64_t)r.found.at[0].step_us);
	plan_write(m, &r.found.at[0].plan);
	return true;
}
