/*
 * The command `llmc validate`: detects the kind of a table by its columns, has
 * it read, and prints the result.
 */
#include "frontend/validate/validate.h"

#include <string.h>

static const struct span nowhere;

/* A column that only one kind of table has, and the reader of that kind. */
static const struct {
	const char *column, *what;
	bool (*read)(struct val *v);
} readers[] = {
	{ "kernel", "kernels", val_kernels },
	{ "op", "collectives", val_collectives },
	{ "step_s", "training runs", val_train },
	{ "tpot_ms", "serving", val_serve }
};
#define NREADERS (sizeof readers / sizeof *readers)

/* Options that one kind of table alone has an answer to. */
static const struct {
	enum opt_id option;
	bool (*read)(struct val *v);
	const char *what;
} options[] = {
	{ OPT_SEARCH, val_train, "training runs" },
	{ OPT_RESIDUALS, val_train, "training runs" },
	{ OPT_NETWORK, val_collectives, "collectives" }
};

/* Reports an option that is for another kind of table than this. */
static bool
check_options(const struct val *v, bool (*read)(struct val *))
{
	size_t i;

	for (i = 0; i < sizeof options / sizeof *options; i++) {
		if (v->d->opts.at[options[i].option].given &&
		    options[i].read != read) {
			diag_error(&v->d->ctx.diags, v->table.head, "--%s is "
				   "for %s, and this is a table of %s",
				   opt_rows[options[i].option].name,
				   options[i].what, v->what);
			return false;
		}
	}
	return true;
}

bool
drv_validate(struct driver *d)
{
	struct diags *diags = &d->ctx.diags;
	bool searches = d->opts.at[OPT_SEARCH].given;
	bool residuals = d->opts.at[OPT_RESIDUALS].given;
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
			   "`kernel`, `op`, `step_s` or `tpot_ms`, which tell "
			   "a table of kernels, collectives, training runs or "
			   "serving");
		return false;
	}
	v.what = readers[i].what;
	if (!check_options(&v, readers[i].read)) {
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
	if (residuals) {
		val_print_residuals(&v, &d->out);
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
