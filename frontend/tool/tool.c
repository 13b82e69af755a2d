/*
 * A run of llmc: options, input, passes, output.  A phase that found errors
 * ends the run, so that nothing is written of a faulty input.
 */
#include "frontend/tool/tool.h"

#include "frontend/eval/eval.h"
#include "frontend/frontend.h"
#include "frontend/import/import.h"
#include "frontend/validate/validate.h"
#include "passes/kernels/kernels.h"

#include <string.h>

static const struct span nowhere;

/* ---- passes ---- */

static bool
load_plugins(struct driver *d)
{
	const struct opt_value *v = &d->opts.at[OPT_LOAD_PASS];
	uint32_t i;

	for (i = 0; i < v->list.n; i++) {
		if (!pass_load(&d->table, v->list.at[i])) {
			return false;
		}
	}
	return true;
}

/* The passes to run: --passes, or those that the output needs, with those of
 * --insert among them. */
static bool
list_passes(struct driver *d)
{
	const struct opt_value *insert = &d->opts.at[OPT_INSERT];
	const char *text = drv_text(d, OPT_PASSES);
	uint32_t i;

	if (!text) {
		text = drv_wants_ranks(d) ? "split" :
		       drv_given(d, OPT_STEPS) || drv_wants(d, "kernels") ||
		       drv_wants_plans(d) ||
		       (drv_wants(d, "plan") && drv_given(d, OPT_TARGET))
			? "train" :
		       insert->given ? "default" : "";
	}
	if (!pass_list_parse(&d->table, &d->passes, text)) {
		return false;
	}
	for (i = 0; i < insert->list.n; i++) {
		if (!pass_list_insert(&d->table, &d->passes,
				      insert->list.at[i])) {
			return false;
		}
	}
	return true;
}

static bool
set_stop(struct driver *d)
{
	const char *name = drv_text(d, OPT_STOP_AFTER);
	const struct pass_known *k;
	uint32_t i;

	if (!name) {
		return true;
	}
	k = pass_want(&d->table, name);
	if (!k) {
		return false;
	}
	d->pm.options.stop = &k->pass;
	for (i = 0; i < d->passes.at.n; i++) {
		if (strcmp(d->passes.at.at[i]->name, name) == 0) {
			return true;
		}
	}
	pass_list_lacks(&d->table, &d->passes, name);
	return false;
}

static bool
set_manager(struct driver *d)
{
	struct pass_options *o = &d->pm.options;
	const struct opt_value *before = drv_given(d, OPT_PRINT_BEFORE);
	const struct opt_value *after = drv_given(d, OPT_PRINT_AFTER);
	const struct opt_value *limit = drv_given(d, OPT_BISECT_LIMIT);

	o->changed = drv_given(d, OPT_PRINT_CHANGED);
	o->compare = drv_given(d, OPT_TIME_PASSES);
	o->verify = drv_given(d, OPT_VERIFY_EACH);
	o->verbose = drv_given(d, OPT_VERBOSE);
	o->reproducer = drv_text(d, OPT_REPRODUCER);
	o->bisect = limit != NULL;
	o->limit = limit ? limit->num : -1;
	return (!before || pass_set_parse(&d->table, &o->before,
					  before->text)) &&
	       (!after || pass_set_parse(&d->table, &o->after,
					 after->text)) &&
	       list_passes(d) && set_stop(d);
}

/* ---- what --emit names, of what passes have made ---- */

/* The whole plan; a schedule file that it names must be a legal schedule. */
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

static bool
print_target(struct driver *d, const char *name)
{
	struct target t;

	if (!fe_target(&d->ctx, name, &t)) {
		return false;
	}
	target_print(&t, &d->out);
	return true;
}

static bool
print_config(struct driver *d, const struct ir_module *m)
{
	if (!fe_config_json(m, &d->out)) {
		diag_error(&d->ctx.diags, nowhere, "%s has no block `export`, "
			   "which would say what is in its config.json",
			   d->opts.input);
		return false;
	}
	return true;
}

static bool
emit(struct driver *d, struct ir_module *m)
{
	drv_memory_print *print = drv_memory_printer(d);
	struct pass_sums sums;

	if (d->opts.command == OPT_EVALUATE) {
		return ir_model(m) ? eval_model(d, m)
				   : eval_split(d, m, d->unsplit);
	}
	if (drv_wants_answer(d)) {
		bool text = drv_wants(d, "llvm") || drv_wants(d, "cuda");

		return drv_print_answer(d, m, text ? DRV_ANSWER_CODE
			: drv_wants(d, "answer-json") ? DRV_ANSWER_JSON
			: DRV_ANSWER_TEXT, drv_wants_folder(d) || text);
	}
	if (drv_wants_plans(d)) {
		return drv_print_plans(d, m);
	}
	if (drv_wants(d, "ranks")) {
		return drv_print_ranks(d, m);
	}
	if (drv_wants(d, "cost")) {
		return drv_print_cost(d, m);
	}
	if (print) {
		return drv_print_memory(d, m, print);
	}
	if (drv_wants(d, "config")) {
		return print_config(d, m);
	}
	if (drv_wants(d, "kernels")) {
		return drv_print_kernels(d, m);
	}
	if (drv_wants(d, "ir")) {
		ir_print(m, &d->out);
		return true;
	}
	if (drv_wants(d, "plan")) {
		return emit_plan(d, m);
	}
	if (drv_wants(d, "target")) {
		return print_target(d, drv_text(d, OPT_TARGET));
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

/* ---- the run ---- */

/* --time-passes and --stats, also of a run that failed. */
static void
report(struct driver *d)
{
	struct buf text;

	buf_init(&text, &d->ctx.perm);
	if (drv_given(d, OPT_TIME_PASSES)) {
		pass_print_times(&d->pm, &text);
	}
	if (drv_given(d, OPT_STATS)) {
		pass_print_stats(&d->pm, &text);
		if (d->pm.memo) {
			memo_print(d->pm.memo, &text);
		}
	}
	fputs(buf_text(&text), stderr);
}

static int
run_passes(struct driver *d, struct ir_module *m)
{
	enum pass_result r = drv_wants_answer(d)
		? drv_run_for_answer(d, m)
		: pass_run(&d->pm, &d->passes, m);

	report(d);
	return r == PASS_OK ? DRV_OK : r == PASS_BAD_ORDER ? DRV_BAD_USAGE
							   : DRV_BAD_INPUT;
}

/* Reads the input again and runs the passes up to its backward program. */
static bool
load_unsplit(struct driver *d)
{
	struct pass_manager pm;
	struct pass_list train = { 0 };
	bool ok;

	d->unsplit = drv_load(d, d->opts.input);
	if (d->unsplit && !ir_model(d->unsplit)) {
		diag_error(&d->ctx.diags, nowhere, "--compare needs the model "
			   "that was split, and %s holds rank programs",
			   d->opts.input);
		return false;
	}
	if (!d->unsplit || !drv_set_plan(d, d->unsplit) ||
	    !pass_list_parse(&d->table, &train, "train")) {
		return false;
	}
	pass_manager_init(&pm, &d->table);
	ok = pass_run(&pm, &train, d->unsplit) == PASS_OK;
	pass_manager_release(&pm);
	return ok;
}

/* Its input is this machine, so it has no file. */
static int
calibrate(struct driver *d)
{
	if (d->opts.input) {
		diag_error(&d->ctx.diags, nowhere, "calibrate takes no file, "
			   "found `%s`: -o names the file of the target",
			   d->opts.input);
		return DRV_BAD_USAGE;
	}
	return drv_calibrate(d) ? DRV_OK : DRV_BAD_INPUT;
}

/* Names an option whose value is a model: it may be the missing input. */
static const char *
option_with_model(const struct driver *d)
{
	int i;

	for (i = 0; i < OPT_COUNT; i++) {
		const char *text = d->opts.at[i].text;

		if (text && text_ends_in(text, ".llm")) {
			return arena_printf(d->opts.arena, ": `%s` is the "
				"value of --%s", text, opt_rows[i].name);
		}
	}
	return " (see llmc --help)";
}

static int
no_input(struct driver *d)
{
	static const struct {
		enum opt_command of;
		const char *name, *takes;
	} inputs[] = {
		{ OPT_SCHEDULE, "schedule", "the name of a schedule, such as "
			"1f1b, or a CSV file of one" },
		{ OPT_IMPORT, "import", "a Hugging Face folder, or the "
			"config.json of one" },
		{ OPT_SHOW_TARGET, "target", "the name of a target, such as "
			"h100x8, or a file of one" },
		{ OPT_TOKENIZE, "tokenize", "files of text, or - for standard "
			"input" },
		{ OPT_VALIDATE, "validate", "a table of measured kernels, "
			"collectives, training runs or serving, such as "
			"runs.tsv" }
	};
	size_t i;

	for (i = 0; i < sizeof inputs / sizeof *inputs; i++) {
		if (d->opts.command == inputs[i].of) {
			diag_error(&d->ctx.diags, nowhere, "`llmc %s` takes "
				   "%s", inputs[i].name, inputs[i].takes);
			return DRV_BAD_USAGE;
		}
	}
	diag_error(&d->ctx.diags, nowhere, "no input file%s",
		   option_with_model(d));
	return DRV_BAD_USAGE;
}

/* From the input to d->out: to compile, opt and eval. */
static int
run_model(struct driver *d)
{
	struct ir_module *m;
	int status;

	if (!drv_check_serving(d) || !drv_check_target(d) ||
	    (drv_given(d, OPT_COMPARE) && !load_unsplit(d))) {
		return DRV_BAD_INPUT;
	}
	m = drv_load(d, d->opts.input);
	if (m && drv_wants_serving(d)) {
		return drv_serve(d, m) && d->ctx.diags.errors == 0
			? DRV_OK : DRV_BAD_INPUT;
	}
	if (m) {
		drv_set_capacity(d, m);
	}
	if (m && d->ctx.diags.errors == 0 && drv_set_search(d, m) &&
	    drv_set_plan(d, m) && drv_check_wants(d, m)) {
		if (drv_wants_folder(d) && !drv_given(d, OPT_NO_WHOLE)) {
			drv_whole_copy(d, m);
		}
		status = run_passes(d, m);
		drv_heed_interrupts();
		if (status != DRV_OK) {
			return status;
		}
		d->pm.crash->doing = d->opts.command == OPT_EVALUATE
			? "evaluation" : "output";
		emit(d, m);
	}
	return d->ctx.diags.errors ? DRV_BAD_INPUT : DRV_OK;
}

static int
run_command(struct driver *d)
{
	bool ok;

	if (!d->opts.input && d->opts.command != OPT_CALIBRATE) {
		return no_input(d);
	}
	switch (d->opts.command) {
	case OPT_CALIBRATE:
		return calibrate(d);
	case OPT_SCHEDULE:
		ok = drv_schedule(d);
		break;
	case OPT_SHOW_TARGET:
		ok = print_target(d, d->opts.input);
		break;
	case OPT_DIFF:
		if (d->opts.more.n < 1) {
			diag_error(&d->ctx.diags, nowhere, "`llmc diff` takes "
				   "two plans, and there is only %s",
				   d->opts.input);
			return DRV_BAD_USAGE;
		}
		ok = drv_diff(d);
		break;
	case OPT_VALIDATE:
		ok = drv_validate(d);
		break;
	case OPT_FINISH:
		ok = drv_finish(d);
		break;
	case OPT_IMPORT:
		ok = imp_import(d);
		break;
	case OPT_TOKENIZE:
		return drv_tokenize(d);
	case OPT_SWEEP:
		return drv_sweep(d);
	default:
		return run_model(d);
	}
	return ok ? DRV_OK : DRV_BAD_INPUT;
}

static bool
write_output(struct driver *d)
{
	const char *path = drv_text(d, OPT_OUTPUT);

	if ((d->trace.n &&
	     !drv_write(&d->ctx, drv_text(d, OPT_TRACE), &d->trace)) ||
	    (d->report.n &&
	     !drv_write(&d->ctx, drv_text(d, OPT_REPORT), &d->report))) {
		return false;
	}
	if (d->opts.command == OPT_TOKENIZE) {
		return drv_write(&d->ctx, NULL, &d->out);
	}
	if (drv_given(d, OPT_LIST_PASSES) || !drv_wants_folder(d)) {
		return drv_write(&d->ctx, path, &d->out);
	}
	return drv_write_plan(d, path) &&
	       (d->reruns || drv_write(&d->ctx, NULL, &d->out));
}

/* If `finish` finds that tiles spill, it becomes a compilation: drv_rerun()
 * has set its options, and it starts again. */
static int
run(struct driver *d)
{
	enum opt_command command = d->opts.command;
	const char *path;
	int status;

	if (!drv_set_messages(d)) {
		return DRV_BAD_USAGE;
	}
	if (!drv_check_endings(d) || !load_plugins(d)) {
		return DRV_BAD_INPUT;
	}
	if (drv_given(d, OPT_LIST_PASSES)) {
		pass_print_table(&d->table, &d->out);
	} else {
		if (!set_manager(d)) {
			return DRV_BAD_USAGE;
		}
		status = run_command(d);
		if (status != DRV_OK) {
			return status;
		}
		if (d->opts.command != command) {
			return run(d);
		}
	}
	if (!write_output(d)) {
		return DRV_BAD_INPUT;
	}
	path = drv_text(d, OPT_OUTPUT);
	drv_print_verbose(d, "wrote", path ? path : "standard output");
	return DRV_OK;
}

/* Checks the built-in orders of passes before any of them is used. */
static void
check_table(struct driver *d)
{
	static const char *const lists[] = { "default", "train" };
	struct buf why;
	int i;

	buf_init(&why, &d->ctx.perm);
	for (i = 0; i < 2; i++) {
		struct pass_list all = { 0 };

		pass_list_parse(&d->table, &all, lists[i]);
		if (!pass_order(&d->table, &all, PROP_CALLS, &why)) {
			die("passes.def: %s", buf_text(&why));
		}
	}
}

static int
parse_and_run(struct driver *d, int argc, char *const *argv)
{
	struct buf why;

	buf_init(&why, &d->ctx.perm);
	if (!opt_parse(&d->opts, argc, argv, &why) ||
	    (drv_given(d, OPT_RUN_REPRODUCER) && !drv_replay(d, &why))) {
		d->ctx.diags.color = drv_want_color(d);
		diag_error(&d->ctx.diags, nowhere, "%s", buf_text(&why));
		return DRV_BAD_USAGE;
	}
	if (drv_print_about(d)) {
		return drv_write(&d->ctx, drv_text(d, OPT_OUTPUT), &d->out)
			? DRV_OK : DRV_BAD_INPUT;
	}
	d->pm.memo = drv_given(d, OPT_NO_MEMO) ? NULL : &d->memo;
	return run(d);
}

int
drv_main(int argc, char *const *argv, struct pass_crash *crash)
{
	struct driver d = { 0 };
	int status;

	drv_open(&d, NULL);
	d.pm.crash = crash;
	check_table(&d);
	status = parse_and_run(&d, argc, argv);
	diag_flush(&d.ctx.diags, stderr);
	drv_whole_release(&d);
	drv_close(&d);
	return status;
}
