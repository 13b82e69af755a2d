/*
 * What a run reads: a model or IR text, a plan, pins.  The parts of the tool
 * that read more than one file (diff, --compare) share it.
 */
#include "frontend/tool/tool.h"

#include "frontend/frontend.h"
#include "passes/kernels/kernels.h"
#include "passes/plan/plan.h"

#include <string.h>

static const struct span nowhere;

void
drv_print_verbose(const struct driver *d, const char *what, const char *name)
{
	if (drv_given(d, OPT_VERBOSE)) {
		fprintf(stderr, "llmc: %s %s\n", what, name);
	}
}

bool
drv_read_source(struct driver *d, const char *path, uint32_t *index)
{
	const char *why;

	drv_print_verbose(d, "reading", path);
	if (!source_read(&d->ctx.sources, path, index, &why)) {
		diag_error(&d->ctx.diags, nowhere, "cannot read %s: %s",
			   path, why);
		return false;
	}
	return true;
}

/* ---- a model, or IR text ---- */

/* Whether the first line that is no comment is that of IR text. */
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

/* How kernels are grouped depends on the target. */
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
	price_set_joins(m, &t);
	return m;
}

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
			diag_error(diags, nowhere, "--dim applies to a model, "
				   "and %s is IR text", f->name);
			return NULL;
		}
		if (drv_given(d, OPT_WORKLOAD)) {
			diag_error(diags, nowhere, "--workload applies to a "
				   "model, and %s is IR text", f->name);
			return NULL;
		}
		if (drv_wants(d, "ast")) {
			diag_error(diags, nowhere, "%s is IR text, which has "
				   "no AST: --emit=ast needs a model", f->name);
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
	if (ast && drv_given(d, OPT_WORKLOAD) &&
	    !fe_set_workload(&d->ctx, ast, drv_text(d, OPT_WORKLOAD))) {
		return NULL;
	}
	if (ast && drv_wants(d, "ast")) {
		fe_print_ast(&d->ctx, ast, &d->out);
		return NULL;
	}
	return ast ? for_target(d, fe_lower(&d->ctx, ast)) : NULL;
}

/* ---- its plan ---- */

/* --plan, then every --pin: settings of the module from here on. */
bool
drv_set_plan(struct driver *d, struct ir_module *m)
{
	const struct opt_value *pins = &d->opts.at[OPT_PIN];
	const char *path = drv_text(d, OPT_PLAN);
	uint32_t file, i;

	if ((path || pins->list.n) && !ir_model(m)) {
		diag_error(&d->ctx.diags, nowhere, "a plan applies to a model, "
			   "and %s holds rank programs", d->opts.input);
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
	return true;
}
