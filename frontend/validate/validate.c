/*
 * llmc validate: which kind of table it is, by its header, and what to print
 * of it.
 */
#include "frontend/validate/validate.h"

#include <string.h>

static const struct span nowhere;

const struct target_group *
val_target(struct val *v, const char *name)
{
	struct ir_ctx *c = &v->d->ctx;
	struct target t;
	uint32_t i;

	for (i = 0; i < v->targets.n; i++) {
		if (strcmp(v->targets.at[i].name, name) == 0) {
			return v->targets.at[i].groups.at;
		}
	}
	if (!fe_target_known(name)) {
		return NULL;
	}
	if (!fe_target(c, arena_strndup(&c->perm, name, strlen(name)), &t)) {
		die("built-in target %s", name);
	}
	VEC_PUSH(&c->perm, &v->targets, t);
	return t.groups.at;
}

void
val_add(struct val_row *r, struct cost c)
{
	r->predicted_us += c.us;
	r->math_us += c.math_us;
	r->memory_us += c.memory_us;
	r->launch_us += c.launch_us;
}

/* A column that only one kind of table has, and who reads that kind. */
static const struct {
	const char *column, *what;
	bool (*read)(struct val *v);
} readers[] = {
	{ "kernel", "kernels", val_kernels },
	{ "op", "collectives", val_collectives },
	{ "step_s", "training runs", val_train }
};
#define NREADERS (sizeof readers / sizeof *readers)

bool
drv_validate(struct driver *d)
{
	struct diags *diags = &d->ctx.diags;
	bool searches = d->opts.at[OPT_SEARCH].given;
	struct val v = { .d = d };
	const char *why;
	uint32_t file;
	size_t i;

	if (!source_read(&d->ctx.sources, d->opts.input, &file, &why)) {
		diag_error(diags, nowhere, "cannot read %s: %s",
			   d->opts.input, why);
		return false;
	}
	if (!tsv_read(&d->ctx.perm, diags, file, &v.table)) {
		return false;
	}
	for (i = 0; i < NREADERS; i++) {
		if (tsv_column(&v.table, readers[i].column) >= 0) {
			break;
		}
	}
	if (i == NREADERS) {
		diag_error(diags, v.table.head, "none of these columns is "
			   "`kernel`, `op` or `step_s`, which tell a table of "
			   "kernels, collectives or training runs");
		return false;
	}
	v.what = readers[i].what;
	if (searches && readers[i].read != val_train) {
		diag_error(diags, v.table.head, "--search is for training "
			   "runs, and this is a table of %s", v.what);
		return false;
	}
	if ((searches && !val_search_keys(&v)) || !readers[i].read(&v)) {
		return false;
	}
	if (searches) {
		(d->opts.at[OPT_JSON].given ? val_print_search_json
					    : val_print_search)(&v, &d->out);
		return true;
	}
	if (d->opts.at[OPT_JSON].given) {
		val_print_json(&v, &d->out);
		return true;
	}
	if (d->opts.at[OPT_ROWS].given) {
		val_print_rows(&v, &d->out);
	}
	val_print(&v, &d->out);
	return true;
}
