/*
 * What llmc prints about itself: help, version, and the lists of its ops,
 * accelerators and schedules.
 */
#include "config.h"

#include "frontend/tool/tool.h"

#include "codegen/cg.h"
#include "frontend/frontend.h"
#include "passes/sched/sched.h"

#include <string.h>

static void
print_help(const char *form, struct buf *out)
{
	if (!form) {
		opt_help(out);
	} else if (strcmp(form, "man") == 0) {
		opt_man(out, PACKAGE_VERSION);
	} else if (strcmp(form, "bash") == 0) {
		opt_bash(out);
	} else if (strcmp(form, "zsh") == 0) {
		opt_zsh(out);
	} else {
		opt_fish(out);
	}
}

/* Name, what it computes, its rule and its attributes, from its row. */
static void
print_ops(struct buf *out)
{
	int i;

	for (i = 0; i < IR_OP_COUNT; i++) {
		const struct ir_op_info *op = &ir_ops[i];

		buf_printf(out, "%-14s %s\n", op->name, op->help);
		if (*op->rule) {
			buf_printf(out, "%-14s   dims: %s\n", "", op->rule);
		}
		if (*op->attrs) {
			buf_printf(out, "%-14s   attributes: %s\n", "",
				   op->attrs);
		}
	}
}

static void
print_targets(struct buf *out)
{
	size_t i;

	for (i = 0; i < fe_target_nfiles; i++) {
		buf_printf(out, "%s\n", fe_target_files[i].name);
	}
}

static void
print_schedules(struct buf *out)
{
	uint32_t i;

	for (i = 0; i < sched_ndefs; i++) {
		buf_printf(out, "%-12s %s\n", sched_defs[i].name,
			   sched_defs[i].purpose);
	}
}

bool
drv_print_about(struct driver *d)
{
	const struct opt_value *at = d->opts.at;
	struct buf *out = &d->out;

	if (at[OPT_HELP].given) {
		print_help(at[OPT_HELP].text, out);
	} else if (at[OPT_VERSION].given) {
		buf_printf(out, "llmc %s\n", PACKAGE_VERSION);
		cg_toolchain(out);
	} else if (at[OPT_LIST_OPS].given) {
		print_ops(out);
	} else if (at[OPT_LIST_TARGETS].given) {
		print_targets(out);
	} else if (at[OPT_LIST_SCHEDULES].given) {
		print_schedules(out);
	} else {
		return false;
	}
	return true;
}
