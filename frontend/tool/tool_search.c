/*
 * --target: whether a plan is searched for, and on what.
 */
#include "frontend/tool/driver.h"

#include <string.h>

#include "frontend/tool/tool_target.h"
#include "passes/search/search.h"

static bool
has_plan(const struct ir_module *m)
{
	uint32_t i;

	for (i = 0; i < m->settings.n; i++) {
		if (strncmp(ir_text(m->ctx, m->settings.at[i].key), "plan.",
			    5) == 0) {
			return true;
		}
	}
	return false;
}

/* --emit=plans without a number: what one screen holds. */
static uint32_t
top(const struct driver *d)
{
	const char *emit = d->opts.at[OPT_EMIT].text;

	return d->opts.at[OPT_TOP].given
		? (uint32_t)d->opts.at[OPT_TOP].num
		: emit && strcmp(emit, "plans") == 0 ? 10 : 1;
}

/* Passes price what our code does: not a step of --assume. */
bool
drv_take_target(struct driver *d, struct target *t)
{
	if (!fe_target(&d->ctx, d->opts.at[OPT_TARGET].text, t)) {
		return false;
	}
	if (!d->opts.at[OPT_ASSUME].given) {
		d->pm.target = arena_dup(&d->ctx.perm, t, sizeof *t);
	}
	return true;
}

bool
drv_set_search(struct driver *d, struct ir_module *m)
{
	const char *name = d->opts.at[OPT_TARGET].text;
	struct search_options *o;
	struct target *t = NULL;

	if (!name || d->opts.at[OPT_PLAN].given || has_plan(m) ||
	    !ir_model(m)) {
		return true;
	}
	o = arena_alloc(&d->ctx.perm, sizeof *o);
	if (!d->pm.target) {
		t = arena_alloc(&d->ctx.perm, sizeof *t);
		if (!fe_target(&d->ctx, name, t)) {
			return false;
		}
	}
	o->target = t ? t : d->pm.target;
	o->top = top(d);
	o->report = arena_alloc(&d->ctx.perm, sizeof *o->report);
	if (d->for_code && !drv_set_scratch(d, o)) {
		return false;
	}
	d->pm.search = o;
	return true;
}
