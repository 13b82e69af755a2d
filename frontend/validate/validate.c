/*
 * The command `llmc validate`: detects the kind of a table by its columns, has
 * it read, and prints the result.
 */
#include "frontend/validate/validate.h"

#include <string.h>

static const struct span nowhere;

/*
 * Columns that worst rows may have in common.  What several tell equally well
 * is said by the first.
 */
static const struct val_column of_kernels[] = {
	{ "kernel", VAL_TEXT }, { "gpu", VAL_TEXT }, { "dtype", VAL_TEXT },
	{ "impl", VAL_TEXT }, { "direction", VAL_TEXT },
	{ "m", VAL_RANGE }, { "n", VAL_RANGE }, { "k", VAL_RANGE },
	{ "batch", VAL_RANGE }, { "seq_kv", VAL_RANGE },
	{ "head_dim", VAL_TEXT }, { "source", VAL_TEXT }, { NULL, VAL_TEXT }
};
static const struct val_column of_collectives[] = {
	{ "op", VAL_TEXT }, { "gpu", VAL_TEXT }, { "n_gpus", VAL_TEXT },
	{ "n_nodes", VAL_TEXT }, { "interconnect", VAL_TEXT },
	{ "size_bytes", VAL_RANGE }, { "dtype", VAL_TEXT },
	{ "tool", VAL_TEXT }, { "source", VAL_TEXT }, { NULL, VAL_TEXT }
};
static const struct val_column of_runs[] = {
	{ "software", VAL_TEXT }, { "model", VAL_TEXT },
	{ "model", VAL_FAMILY }, { "gpu", VAL_TEXT },
	{ "precision", VAL_TEXT }, { "n_gpus", VAL_RANGE },
	{ "tp", VAL_TEXT }, { "pp", VAL_TEXT }, { "dp", VAL_RANGE },
	{ "mbs", VAL_TEXT }, { "seq", VAL_RANGE },
	{ "recompute", VAL_TEXT }, { "zero", VAL_TEXT },
	{ "source", VAL_TEXT }, { NULL, VAL_TEXT }
};
static const struct val_column of_serving[] = {
	{ "framework", VAL_TEXT }, { "model", VAL_TEXT },
	{ "model", VAL_FAMILY }, { "gpu", VAL_TEXT },
	{ "precision", VAL_TEXT }, { "scenario", VAL_TEXT },
	{ "n_gpus", VAL_TEXT }, { "tp", VAL_TEXT }, { "pp", VAL_TEXT },
	{ "ep", VAL_TEXT }, { "batch_or_concurrency", VAL_RANGE },
	{ "input_len", VAL_RANGE }, { "output_len", VAL_RANGE },
	{ "source", VAL_TEXT }, { NULL, VAL_TEXT }
};

/* A column that only one kind of table has, and the reader of that kind. */
static const struct {
	const char *column, *what;
	bool (*read)(struct val *v);
	const struct val_column *columns;
	bool by_kind;
} readers[] = {
	{ "kernel", "kernels", val_kernels, of_kernels, false },
	{ "op", "collectives", val_collectives, of_collectives, false },
	{ "step_s", "training runs", val_train, of_runs, false },
	{ "tpot_ms", "serving", val_serve, of_serving, true }
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
	v.columns = readers[i].columns;
	v.by_kind = readers[i].by_kind;
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
