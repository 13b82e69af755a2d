/*
 * The course of a run: options, input, passes, output.  A phase that found
 * errors ends it, so that nothing is ever written of a faulty input.
 */
#include "frontend/tool/driver.h"

#include "frontend/frontend.h"
#include "frontend/tool/tool_target.h"
#include "frontend/validate/validate.h"
#include "passes/kernels/kernels.h"
#include "passes/plan/plan.h"

#include <string.h>

static const struct span nowhere;

static void
chat(const struct driver *d, const char *what, const char *name)
{
	if (drv_given(d, OPT_VERBOSE)) {
		fprintf(stderr, "llmc: %s %s\n", what, name);
	}
}

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

/* Which to run: --passes, and --insert into those or the default ones. */
static bool
list_passes(struct driver *d)
{
	const struct opt_value *insert = &d->opts.at[OPT_INSERT];
	const char *text = drv_text(d, OPT_PASSES);
	uint32_t i;

	if (!text) {
		text = drv_is_split(d) ? "split" :
		       drv_counts_memory(d) ? "placed" :
		       drv_given(d, OPT_STEPS) || drv_wants(d, "kernels") ||
		       drv_wants(d, "plans") ||
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
	diag_error(&d->ctx.diags, nowhere,
		   "pass `%s` is not among those that run", name);
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

/* ---- input ---- */

/* Whether the first line that says anything is that of IR text. */
static bool
is_ir(const struct source_file *f)
{
	const char *p = f->text;

	for (;;) {
		p += strspn(p, " \t\r\n");
		if (*p != '#') {
			return strncmp(p, "llmc-ir", 7) == 0;
		}
		p += strcspn(p, "\n");
	}
}

bool
drv_read_source(struct driver *d, const char *path, uint32_t *index)
{
	const char *why;

	chat(d, "reading", path);
	if (!source_read(&d->ctx.sources, path, index, &why)) {
		diag_error(&d->ctx.diags, nowhere, "cannot read %s: %s",
			   path, why);
		return false;
	}
	return true;
}

/* Kernels follow from the target, for whoever asks. */
static struct ir_module *
for_target(struct driver *d, struct ir_module *m)
{
	const char *name = drv_text(d, OPT_TARGET);
	struct target t;

	if (!m || !name) {
		return m;
	}
	if (!fe_target(&d->ctx, name, &t)) {
		return NULL;
	}
	kernels_join_for(m, &t);
	return m;
}

/* The module, or NULL: it was reported, or the AST was all one wanted. */
struct ir_module *
drv_load(struct driver *d, const char *path)
{
	const struct source_file *f;
	struct diags *diags = &d->ctx.diags;
	struct ir_module *m;
	struct ast_file *ast;
	uint32_t index, i;

	if (!drv_read_source(d, path, &index)) {
		return NULL;
	}
	f = &d->ctx.sources.files.at[index];
	if (is_ir(f) || d->opts.command == OPT_OPT) {
		if (d->opts.dims.n) {
			diag_error(diags, nowhere, "--dim goes with a model, "
				   "and %s is IR text", f->name);
			return NULL;
		}
		if (drv_wants(d, "ast")) {
			diag_error(diags, nowhere, "%s is to be a model, since "
				   "IR text has no AST", f->name);
			return NULL;
		}
		m = ir_read(&d->ctx, index);
		return m && fe_check_ir(m) ? for_target(d, m) : NULL;
	}
	ast = fe_parse(&d->ctx, index);
	for (i = 0; ast && i < d->opts.dims.n; i++) {
		if (!fe_set_dim(&d->ctx, ast, d->opts.dims.at[i].name,
				d->opts.dims.at[i].size)) {
			return NULL;
		}
	}
	if (ast && drv_wants(d, "ast")) {
		fe_print_ast(&d->ctx, ast, &d->out);
		return NULL;
	}
	return ast ? for_target(d, fe_lower(&d->ctx, ast)) : NULL;
}

/* ---- the plan ---- */

/* --plan, then every --pin: settings of the module from here on. */
static bool
set_plan(struct driver *d, struct ir_module *m)
{
	const struct opt_value *pins = &d->opts.at[OPT_PIN];
	const char *path = drv_text(d, OPT_PLAN);
	uint32_t file, i;

	if ((path || pins->list.n) && !ir_model(m)) {
		diag_error(&d->ctx.diags, nowhere, "a plan goes with a model, "
			   "and %s is rank programs", d->opts.input);
		return false;
	}
	if (path && (!drv_read_source(d, path, &file) ||
		     !fe_read_plan(&d->ctx, m, file))) {
		return false;
	}
	for (i = 0; i < pins->list.n; i++) {
		if (!plan_pin_of(m, "--pin", pins->list.at[i])) {
			return false;
		}
	}
	/* no code moves states between a GPU and its host: see codegen/host */
	return !d->for_gpu || !ir_model(m) || ir_setting(m, "plan.offload") ||
	       plan_pin(m, "offload=none");
}

/* ---- the target ---- */

static const char *
arch_of(const struct target_group *g)
{
	return g->device.arch[0] ? g->device.arch : "of no known arch";
}

/* All ranks run one program. */
static bool
one_arch(struct driver *d, const struct target *t)
{
	const struct target_group *a = t->groups.at, *b;
	uint32_t i;

	for (i = 1; i < t->groups.n; i++) {
		b = &t->groups.at[i];
		if (strcmp(a->device.arch, b->device.arch) != 0) {
			diag_error(&d->ctx.diags, b->span, "all ranks run one "
				   "program, and %s is %s while %s is %s",
				   b->device.name, arch_of(b),
				   a->device.name, arch_of(a));
			diag_note(&d->ctx.diags, nowhere, "without -o it is "
				  "planned for as it is; code is for a file "
				  "that has nodes of one architecture only");
			return false;
		}
	}
	return true;
}

/* What --target says holds, even if nothing asks for it yet. */
static bool
check_target(struct driver *d)
{
	const char *name = drv_text(d, OPT_TARGET);
	struct target t;

	if (!name && drv_wants(d, "target")) {
		diag_error(&d->ctx.diags, nowhere,
			   "--emit=target goes with --target");
		return false;
	}
	if ((name && !drv_take_target(d, &t)) ||
	    (drv_wants_folder(d) &&
	     !drv_may_write_folder(&d->ctx, drv_text(d, OPT_OUTPUT))) ||
	    (name && (drv_wants_folder(d) || drv_wants_code(d)) &&
	     !one_arch(d, &t))) {
		return false;
	}
	d->for_gpu = name && (drv_wants_folder(d) || drv_wants_code(d)) &&
		     drv_has_kernels(d, t.groups.at->device.arch);
	d->for_code = d->for_gpu ||
		      (name && drv_is_cpu(d, t.groups.at->device.arch));
	return true;
}

/*
 * Our code gives values that are routed room for all rows, and so has to count
 * who plans memory for it.
 */
static void
set_rooms(struct driver *d, struct ir_module *m)
{
	struct ir_setting s = { .kind = SET_WORD, .n = 1 };

	if (d->for_code && !ir_setting(m, "memory.routed")) {
		s.key = intern_str(&d->ctx.syms, "memory.routed");
		s.text = intern_str(&d->ctx.syms, "all");
		VEC_PUSH(&d->ctx.perm, &m->settings, s);
	}
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

/* The same input once more, with its backward program and no more. */
static bool
load_unsplit(struct driver *d)
{
	struct pass_manager pm;
	struct pass_list train = { 0 };
	bool ok;

	d->unsplit = drv_load(d, d->opts.input);
	if (d->unsplit && !ir_model(d->unsplit)) {
		diag_error(&d->ctx.diags, nowhere, "--compare needs the model "
			   "that was split, and %s is rank programs",
			   d->opts.input);
		return false;
	}
	if (!d->unsplit || !set_plan(d, d->unsplit) ||
	    !pass_list_parse(&d->table, &train, "train")) {
		return false;
	}
	pass_manager_init(&pm, &d->table);
	ok = pass_run(&pm, &train, d->unsplit) == PASS_OK;
	pass_manager_release(&pm);
	return ok;
}

/* Its input is the machine. */
static int
calibrate(struct driver *d)
{
	if (d->opts.input) {
		diag_error(&d->ctx.diags, nowhere, "calibrate takes no file, "
			   "found `%s`: -o says where the target goes",
			   d->opts.input);
		return DRV_BAD_USAGE;
	}
	return drv_calibrate(d) ? DRV_OK : DRV_BAD_INPUT;
}

/* The option whose value is a file of a model, which may be the input. */
static const char *
took_input(const struct driver *d)
{
	int i;

	for (i = 0; i < OPT_COUNT; i++) {
		const char *text = d->opts.at[i].text;
		size_t n = text ? strlen(text) : 0;

		if (n > 4 && strcmp(text + n - 4, ".llm") == 0) {
			return arena_printf(d->opts.arena, ": `%s` is the "
				"value of --%s", text, opt_rows[i].name);
		}
	}
	return " (see llmc --help)";
}

static int
no_input(struct driver *d)
{
	struct diags *to = &d->ctx.diags;

	if (d->opts.command == OPT_SCHEDULE) {
		diag_error(to, nowhere, "`llmc schedule` takes the name of a "
			   "schedule, as 1f1b, or a CSV file of one");
	} else if (d->opts.command == OPT_SHOW_TARGET) {
		diag_error(to, nowhere, "`llmc target` takes the name of a "
			   "target, as h100x8, or a file of one");
	} else {
		diag_error(to, nowhere, "no input file%s", took_input(d));
	}
	return DRV_BAD_USAGE;
}

static int
run_input(struct driver *d)
{
	const struct diags *diags = &d->ctx.diags;
	struct ir_module *m;
	int status;

	if (d->opts.command == OPT_CALIBRATE) {
		return calibrate(d);
	}
	if (!d->opts.input) {
		return no_input(d);
	}
	if (d->opts.command == OPT_DIFF && d->opts.more.n < 1) {
		diag_error(&d->ctx.diags, nowhere, "`llmc diff` takes two "
			   "plans, and there is only %s", d->opts.input);
		return DRV_BAD_USAGE;
	}
	if (d->opts.command == OPT_SCHEDULE) {
		return drv_schedule(d) ? DRV_OK : DRV_BAD_INPUT;
	}
	if (d->opts.command == OPT_SHOW_TARGET) {
		return drv_print_target(d, d->opts.input) ? DRV_OK
							  : DRV_BAD_INPUT;
	}
	if (d->opts.command == OPT_DIFF) {
		return drv_diff(d) ? DRV_OK : DRV_BAD_INPUT;
	}
	if (d->opts.command == OPT_VALIDATE) {
		return drv_validate(d) ? DRV_OK : DRV_BAD_INPUT;
	}
	if (d->opts.command == OPT_FINISH) {
		return drv_finish(d) ? DRV_OK : DRV_BAD_INPUT;
	}
	drv_take_family(d);
	if (!check_target(d)) {
		return DRV_BAD_INPUT;
	}
	if (drv_given(d, OPT_COMPARE) && !load_unsplit(d)) {
		return DRV_BAD_INPUT;
	}
	m = drv_load(d, d->opts.input);
	if (m) {
		set_rooms(d, m);
	}
	if (m && diags->errors == 0 && drv_set_search(d, m) &&
	    set_plan(d, m) && drv_set_explain(d, m)) {
		if (drv_wants_folder(d) && !drv_given(d, OPT_NO_WHOLE)) {
			drv_whole_take(d, m);
		}
		status = run_passes(d, m);
		if (status != DRV_OK) {
			return status;
		}
		d->pm.crash->doing = d->opts.command == OPT_EVALUATE
			? "evaluation" : "output";
		drv_emit(d, m);
	}
	return diags->errors ? DRV_BAD_INPUT : DRV_OK;
}

static void
add_file(struct driver *d, const char *name, const struct buf *text,
	 bool runs)
{
	struct drv_file f = { name, text, runs };

	VEC_PUSH(&d->ctx.perm, &d->files, f);
}

bool
drv_write_plan(struct driver *d, const char *path)
{
	add_file(d, "plan.json", &d->json, false);
	if (d->plan.n) {
		add_file(d, "plan.llp", &d->plan, false);
	}
	if (d->program.n) {
		add_file(d, "rank", &d->program, true);
	}
	return drv_write_folder(&d->ctx, path, &d->files);
}

static bool
write_output(struct driver *d)
{
	const char *path = drv_text(d, OPT_OUTPUT);

	if (drv_given(d, OPT_LIST_PASSES) || !drv_wants_folder(d)) {
		return drv_write(&d->ctx, path, &d->out);
	}
	return drv_write_plan(d, path) &&
	       (d->reruns || drv_write(&d->ctx, NULL, &d->out));
}

/* Finishing a plan may turn out to be compiling it once more. */
static int
run(struct driver *d)
{
	enum opt_command command = d->opts.command;
	int status;

	if (!drv_set_messages(d)) {
		return DRV_BAD_USAGE;
	}
	if (!load_plugins(d)) {
		return DRV_BAD_INPUT;
	}
	if (drv_given(d, OPT_LIST_PASSES)) {
		pass_print_table(&d->table, &d->out);
	} else {
		if (!set_manager(d)) {
			return DRV_BAD_USAGE;
		}
		status = run_input(d);
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
	chat(d, "wrote", drv_text(d, OPT_OUTPUT) ? drv_text(d, OPT_OUTPUT)
						 : "standard output");
	return DRV_OK;
}

/* The built-in order is checked before anything can depend on it. */
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
	if (drv_tell(d)) {
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

	ir_ctx_init(&d.ctx, NULL);
	memo_init(&d.memo, &d.ctx.mem, MEMO_BYTES);
	opt_init(&d.opts, &d.ctx.perm);
	buf_init(&d.out, &d.ctx.perm);
	pass_table_init(&d.table, &d.ctx);
	pass_manager_init(&d.pm, &d.table);
	d.pm.crash = crash;
	check_table(&d);
	status = parse_and_run(&d, argc, argv);
	diag_flush(&d.ctx.diags, stderr);
	drv_whole_release(&d);
	pass_manager_release(&d.pm);
	pass_table_release(&d.table);
	memo_release(&d.memo);
	ir_ctx_release(&d.ctx);
	return status;
}
