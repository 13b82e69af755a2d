/*
 * What a run is to make, by --emit and the command, and making it of what the
 * passes have left.
 */
#include "frontend/tool/driver.h"

#include "frontend/frontend.h"
#include "frontend/tool/tool_target.h"
#include "passes/kernels/kernels.h"
#include "passes/plan/plan.h"

#include <string.h>

/* ---- what is wanted ---- */

/* A plan and a machine ask for the answer, unless passes are named. */
static const char *
default_emit(const struct driver *d)
{
	return d->opts.command == OPT_OPT ? "ir" :
	       drv_given(d, OPT_TARGET) && !drv_given(d, OPT_PASSES)
		? "answer" : "summary";
}

bool
drv_wants(const struct driver *d, const char *what)
{
	const char *emit = drv_text(d, OPT_EMIT);

	return strcmp(emit ? emit : default_emit(d), what) == 0;
}

bool
drv_wants_answer(const struct driver *d)
{
	return d->opts.command != OPT_EVALUATE &&
	       (drv_wants(d, "answer") || drv_wants(d, "answer-json") ||
		drv_wants(d, "llvm") || drv_wants(d, "cuda"));
}

bool
drv_wants_folder(const struct driver *d)
{
	const char *path = drv_text(d, OPT_OUTPUT);

	return path && strcmp(path, "-") != 0 && !drv_given(d, OPT_EMIT) &&
	       drv_wants_answer(d) && d->opts.command == OPT_COMPILE;
}

bool
drv_wants_code(const struct driver *d)
{
	return d->opts.command == OPT_COMPILE &&
	       (drv_wants(d, "llvm") || drv_wants(d, "cuda"));
}

bool
drv_counts_memory(const struct driver *d)
{
	return d->opts.command == OPT_COMPILE &&
	       (drv_wants(d, "memory") || drv_wants(d, "memory-json"));
}

bool
drv_is_split(const struct driver *d)
{
	const char *emit = drv_text(d, OPT_EMIT);

	if (d->opts.command == OPT_EVALUATE) {
		return drv_given(d, OPT_PLAN) || drv_given(d, OPT_PIN) ||
		       drv_given(d, OPT_COMPARE);
	}
	if (d->opts.command == OPT_DIFF || drv_wants_answer(d)) {
		return true;
	}
	return emit && (strcmp(emit, "ranks") == 0 ||
			strcmp(emit, "cost") == 0 ||
			strcmp(emit, "arena") == 0 ||
			strcmp(emit, "arena-json") == 0 ||
			(strcmp(emit, "kernels") == 0 &&
			 (drv_given(d, OPT_PLAN) || drv_given(d, OPT_PIN))));
}

/* ---- making it ---- */

/* All of it, as it was settled; a schedule that it names must be one. */
static bool
emit_plan(struct driver *d, struct ir_module *m)
{
	struct plan p;

	if (!plan_read(m, &p) ||
	    (p.schedule_file && !plan_schedule(m, &p, &d->ctx.tmp))) {
		return false;
	}
	plan_print(m, &p, &d->out);
	return true;
}

bool
drv_print_target(struct driver *d, const char *name)
{
	struct target t;

	if (!fe_target(&d->ctx, name, &t)) {
		return false;
	}
	target_print(&t, &d->out);
	return true;
}

static bool
emit_memory(struct driver *d, struct ir_module *m, bool json)
{
	struct pass_holds holds;

	if (!pass_hold(m, &holds)) {
		return false;
	}
	if (json) {
		pass_print_holds_json(m, &holds, &d->out);
	} else {
		pass_print_holds(m, &holds, &d->out);
	}
	return true;
}

bool
drv_emit(struct driver *d, struct ir_module *m)
{
	struct pass_sums sums;

	if (d->opts.command == OPT_EVALUATE) {
		return ir_model(m) ? drv_eval(d, m)
				   : drv_eval_split(d, m, d->unsplit);
	}
	if (drv_wants_answer(d)) {
		bool text = drv_wants(d, "llvm") || drv_wants(d, "cuda");

		return drv_print_answer(d, m, text ? DRV_ANSWER_CODE
			: drv_wants(d, "answer-json") ? DRV_ANSWER_JSON
			: DRV_ANSWER_TEXT, drv_wants_folder(d) || text);
	}
	if (drv_wants(d, "plans")) {
		return drv_print_plans(d);
	}
	if (drv_wants(d, "ranks")) {
		return drv_print_ranks(d, m);
	}
	if (drv_wants(d, "cost")) {
		return drv_print_cost(d, m);
	}
	if (drv_wants(d, "arena") || drv_wants(d, "arena-json")) {
		return drv_print_arena(d, m, drv_wants(d, "arena-json"));
	}
	if (drv_wants(d, "kernels")) {
		kernels_print(m, kernels_all(m, d->pm.memo, &d->ctx.perm),
			      &d->out);
		return true;
	}
	if (drv_wants(d, "ir")) {
		ir_print(m, &d->out);
		return true;
	}
	if (drv_wants(d, "plan")) {
		return emit_plan(d, m);
	}
	if (drv_wants(d, "memory") || drv_wants(d, "memory-json")) {
		return emit_memory(d, m, drv_wants(d, "memory-json"));
	}
	if (drv_wants(d, "target")) {
		return drv_print_target(d, drv_text(d, OPT_TARGET));
	}
	if (!pass_sum(m, &sums)) {
		return false;
	}
	if (drv_wants(d, "summary")) {
		pass_print_sums(m, &sums, &d->out);
	} else {
		pass_print_sums_json(m, &sums, &d->out);
	}
	return true;
}
