/*
 * What a run is asked for, by the command and --emit, and whether the options
 * that go with a target, a plan or an answer go with each other.
 */
#include "frontend/tool/tool.h"

#include "passes/memory/memory.h"

#include <string.h>

static const struct span nowhere;

/* ---- what is wanted ---- */

/* With a target it is the answer, unless passes are named. */
static const char *
default_emit(const struct driver *d)
{
	return d->opts.command == OPT_OPT ? "ir" :
	       drv_given(d, OPT_SERVE) ? "serve" :
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
drv_wants_plans(const struct driver *d)
{
	return drv_wants(d, "plans") || drv_wants(d, "plans-json");
}

bool
drv_wants_answer(const struct driver *d)
{
	return d->opts.command != OPT_EVALUATE &&
	       (drv_wants(d, "answer") || drv_wants(d, "answer-json") ||
		drv_wants(d, "llvm") || drv_wants(d, "cuda"));
}

bool
drv_wants_serving(const struct driver *d)
{
	return d->opts.command == OPT_COMPILE &&
	       (drv_wants(d, "serve") || drv_wants(d, "serve-json") ||
		(drv_given(d, OPT_SERVE) && drv_wants(d, "ranks")));
}

bool
drv_wants_folder(const struct driver *d)
{
	const char *path = drv_text(d, OPT_OUTPUT);

	return path && strcmp(path, "-") != 0 && !drv_given(d, OPT_EMIT) &&
	       (drv_wants_answer(d) || drv_wants(d, "serve")) &&
	       d->opts.command == OPT_COMPILE;
}

bool
drv_wants_code(const struct driver *d)
{
	return d->opts.command == OPT_COMPILE &&
	       (drv_wants(d, "llvm") || drv_wants(d, "cuda"));
}

drv_memory_print *
drv_memory_printer(const struct driver *d)
{
	static const struct {
		const char *emit;
		drv_memory_print *print;
	} printers[] = {
		{ "memory", memory_print_stages },
		{ "memory-json", memory_print_stages_json },
		{ "arena", memory_print },
		{ "arena-json", memory_print_json }
	};
	size_t i;

	for (i = 0; i < sizeof printers / sizeof printers[0]; i++) {
		if (drv_wants(d, printers[i].emit)) {
			return printers[i].print;
		}
	}
	return NULL;
}

bool
drv_wants_ranks(const struct driver *d)
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
			drv_memory_printer(d) ||
			(strcmp(emit, "kernels") == 0 &&
			 (drv_given(d, OPT_PLAN) || drv_given(d, OPT_PIN))));
}

/* ---- making it ---- */

bool
drv_explains(const struct driver *d, const char *what)
{
	const struct opt_value *v = &d->opts.at[OPT_EXPLAIN];
	uint32_t i;

	for (i = 0; i < v->list.n; i++) {
		if (strcmp(v->list.at[i], what) == 0) {
			return true;
		}
	}
	return false;
}

/* ---- what goes together ---- */

static bool
emits(const struct driver *d, const char *what)
{
	const char *emit = d->opts.at[OPT_EMIT].text;

	return emit && strcmp(emit, what) == 0;
}

/* Whether pass `search` is among those that run. */
static bool
has_search(const struct driver *d)
{
	const struct pass *stop = d->pm.options.stop;
	uint32_t i;

	for (i = 0; i < d->passes.at.n; i++) {
		const char *name = d->passes.at.at[i]->name;

		if (strcmp(name, "search") == 0) {
			return true;
		}
		if (stop && strcmp(name, stop->name) == 0) {
			break;
		}
	}
	return false;
}

/* Whether a search runs, which `what` needs; reports why not. */
static bool
check_search(struct driver *d, const char *what)
{
	const char *why = !has_search(d)
		? "the pass `search` is not among those that run" :
		d->opts.at[OPT_PLAN].given ? "--plan gives the whole plan" :
		!d->pm.search ? "the model has a plan of its own" : NULL;

	if (why) {
		diag_error(&d->ctx.diags, nowhere, "%s needs a search for a "
			   "plan, and %s", what, why);
	}
	return !why;
}

static bool
check_target(struct driver *d, const char *what)
{
	if (!d->opts.at[OPT_TARGET].given) {
		diag_error(&d->ctx.diags, nowhere, "%s needs --target, such as "
			   "h100x8", what);
		return false;
	}
	return true;
}

/* Whether `what` can be added to the output; with `table`, to --emit=plans
 * too. */
static bool
check_with(struct driver *d, const char *what, bool searches, bool table)
{
	if (!check_target(d, what)) {
		return false;
	}
	if (!(d->opts.at[OPT_EMIT].given || d->opts.at[OPT_PASSES].given) ||
	    emits(d, "answer") ||
	    (table && drv_wants_plans(d))) {
		return !searches || check_search(d, what);
	}
	diag_error(&d->ctx.diags, nowhere, "%s adds to the answer, which is "
		   "not what is written: use --emit=answer", what);
	return false;
}

static bool
check_autotune(struct driver *d)
{
	if (!d->opts.at[OPT_AUTOTUNE].given) {
		diag_error(&d->ctx.diags, nowhere, "--explain=tiles needs "
			   "--autotune, which measures them");
		return false;
	}
	return true;
}

/* Tiles are measured where code is generated, and written with it. */
static bool
check_tuned_output(struct driver *d)
{
	if (!d->opts.at[OPT_AUTOTUNE].given || !d->opts.at[OPT_EMIT].given ||
	    emits(d, "cuda") || emits(d, "llvm") || emits(d, "answer")) {
		return true;
	}
	diag_error(&d->ctx.diags, nowhere, "--autotune needs an output with "
		   "code: -o FOLDER, whose plan.llp has the tiles, or "
		   "--emit=cuda; found --emit=%s",
		   d->opts.at[OPT_EMIT].text);
	return false;
}

static bool
check_trials_output(struct driver *d)
{
	if (!d->opts.at[OPT_TRIALS].given || drv_wants_folder(d)) {
		return true;
	}
	diag_error(&d->ctx.diags, nowhere, "--trials writes a folder inside of "
		   "the plan's: it needs -o FOLDER, and no --emit");
	return false;
}

/* Options that have no effect without a target. */
static bool
check_needs_target(struct driver *d)
{
	static const enum opt_id ids[] = { OPT_CPU, OPT_DRAFT, OPT_ARCH,
		OPT_NO_CACHE, OPT_AUTOTUNE, OPT_TRIALS, OPT_TOKENS, OPT_STORAGE,
		OPT_RESTART, OPT_PRICE, OPT_OWN, OPT_ENERGY, OPT_PUE,
		OPT_ASSUME, OPT_TRACE, OPT_REPORT };
	size_t i;

	for (i = 0; i < sizeof ids / sizeof ids[0]; i++) {
		if (d->opts.at[ids[i]].given && !d->opts.at[OPT_TARGET].given) {
			diag_error(&d->ctx.diags, nowhere, "--%s needs "
				   "--target, such as h100x8",
				   opt_rows[ids[i]].name);
			return false;
		}
	}
	return true;
}

/* Options that only the answer uses. */
static bool
check_needs_answer(struct driver *d)
{
	static const enum opt_id ids[] = { OPT_TOKENS, OPT_STORAGE,
					   OPT_RESTART, OPT_PRICE, OPT_OWN,
					   OPT_ENERGY, OPT_PUE, OPT_TRACE,
					   OPT_REPORT };
	size_t i;

	for (i = 0; i < sizeof ids / sizeof ids[0]; i++) {
		if (d->opts.at[ids[i]].given && !drv_wants_answer(d) &&
		    d->opts.command == OPT_COMPILE) {
			diag_error(&d->ctx.diags, nowhere, "--%s is about the "
				   "answer, which is not what is written: use "
				   "--emit=answer", opt_rows[ids[i]].name);
			return false;
		}
	}
	return true;
}

/*
 * A summary of the model does not depend on a plan: if one is given and
 * nothing else is asked for, the target was forgotten.
 */
static bool
check_uses_plan(struct driver *d)
{
	static const enum opt_id ids[] = { OPT_PIN, OPT_PLAN };
	size_t i;

	for (i = 0; i < sizeof ids / sizeof ids[0]; i++) {
		if (d->opts.at[ids[i]].given && drv_wants(d, "summary") &&
		    d->opts.command == OPT_COMPILE &&
		    !d->opts.at[OPT_EMIT].given &&
		    !d->opts.at[OPT_PASSES].given) {
			diag_error(&d->ctx.diags, nowhere, "--%s sets a "
				   "plan, and a summary of the model has none: "
				   "add --target, such as h100x8, or "
				   "--emit=plan",
				   opt_rows[ids[i]].name);
			return false;
		}
	}
	return true;
}

/* Standard output has the answer, and other files lie beside it. */
static bool
check_files_beside(struct driver *d)
{
	static const struct {
		enum opt_id id;
		const char *example;
	} files[] = {
		{ OPT_TRACE, "step.json" }, { OPT_REPORT, "report.html" }
	};
	const char *trace = drv_text(d, OPT_TRACE);
	const char *report = drv_text(d, OPT_REPORT);
	size_t i;

	for (i = 0; i < sizeof files / sizeof files[0]; i++) {
		const char *path = drv_text(d, files[i].id);

		if (path && (!*path || strcmp(path, "-") == 0)) {
			diag_error(&d->ctx.diags, nowhere, "--%s takes the "
				   "name of a file, such as %s, found `%s`",
				   opt_rows[files[i].id].name,
				   files[i].example, path);
			return false;
		}
		if (path && !drv_may_write_file(&d->ctx, path)) {
			return false;
		}
	}
	if (trace && report && strcmp(trace, report) == 0) {
		diag_error(&d->ctx.diags, nowhere, "--trace and --report are "
			   "both written into `%s`: two files are legal",
			   trace);
		return false;
	}
	return true;
}

/*
 * Programs for GPUs keep nothing on hosts but the optimizer's state.  A plan
 * that asks for more is refused before its kernels are compiled.
 */
static bool
check_gpu_offload(struct driver *d, const struct ir_module *m)
{
	uint32_t bits = plan_offload(m);
	bool more = bits & (PLAN_OFFLOAD_PARAMS | PLAN_OFFLOAD_SAVES);
	bool drives = !more && plan_on_drives(bits);
	const struct ir_setting *at = ir_setting(m, drives ? "plan.offload_to"
							   : "plan.offload");

	if (!d->for_gpu || (!more && !drives)) {
		return true;
	}
	diag_error(&d->ctx.diags, at->span, "`%s` is %s, and programs for GPUs "
		   "keep on hosts the optimizer's state alone, in their "
		   "memory: %s is legal, or without %s any",
		   drives ? "offload_to" : "offload",
		   drives ? "nvme" : plan_offload_text(bits),
		   drives ? "host" : "none or optimizer",
		   drv_wants_folder(d) ? "-o" : "--emit");
	return false;
}

/* Reports --all-plans without a table of plans. */
static bool
refuse_all_plans(struct driver *d)
{
	diag_error(&d->ctx.diags, nowhere, "--all-plans is about several "
		   "plans: use --top=N or --emit=plans");
	return false;
}

bool
drv_check_wants(struct driver *d, struct ir_module *m)
{
	const struct opt_value *at = d->opts.at;

	if (!check_files_beside(d) || !check_needs_target(d) ||
	    !check_needs_answer(d) || !check_uses_plan(d) ||
	    !check_gpu_offload(d, m) ||
	    !check_tuned_output(d) || !check_trials_output(d)) {
		return false;
	}
	if ((drv_wants_plans(d) &&
	     !check_with(d, emits(d, "plans") ? "--emit=plans"
			    : "--emit=plans-json", true, true)) ||
	    (at[OPT_ALL_PLANS].given && !at[OPT_TOP].given &&
	     !drv_wants_plans(d) && !refuse_all_plans(d)) ||
	    (at[OPT_TOP].given && !check_with(d, "--top", true, true)) ||
	    (at[OPT_SEARCH_SECONDS].given &&
	     !(check_target(d, "--search-seconds") &&
	       check_search(d, "--search-seconds"))) ||
	    (drv_explains(d, "search") &&
	     !check_with(d, "--explain=search", true, false)) ||
	    (at[OPT_EXPLAIN].given &&
	     !check_with(d, "--explain", false, false)) ||
	    (drv_explains(d, "tiles") && !check_autotune(d)) ||
	    (at[OPT_WHY_NOT].given &&
	     !check_with(d, "--why-not", true, false))) {
		return false;
	}
	if (!at[OPT_WHY_NOT].given) {
		return true;
	}
	d->other = ir_copy(m, &d->ctx);
	return plan_pin_of(d->other, "--why-not", at[OPT_WHY_NOT].text);
}
