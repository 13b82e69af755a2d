/*
 * llmc validate: measurements that others published, beside what the cost
 * model says.  validate.c is the command, one file reads each kind of table,
 * validate_print.c sums up.
 */
#ifndef FRONTEND_VALIDATE_H
#define FRONTEND_VALIDATE_H

#include "frontend/tool/driver.h"
#include "frontend/tool/tool_target.h"
#include "frontend/validate/tsv.h"
#include "passes/price/cost.h"

/* A row, as it was measured and as it is predicted. */
struct val_row {
	double measured_us, predicted_us;
	double math_us, memory_us, launch_us;	/* parts of the prediction */
	double arena_gib, measured_gib;	/* of the fullest device; 0: unknown */
	double found_us, found_gib;	/* --search: of what it finds */
	const char *found;	/* that plan in a few words; NULL: none fits */
	const char *why;	/* it is not predicted, or NULL */
	const char *source, *kind, *device;	/* that it is counted under */
	const char *what;	/* the row in a few words */
	bool marked;		/* the marks of docs/cost.md count it */
	struct span span;
};

/* A training run as llmc is asked about it. */
struct val_run {
	const char *model;	/* in the language */
	const char *pins;	/* of its plan */
	struct target_group group;
};

struct val_searched;

struct val {
	struct driver *d;
	struct tsv table;
	const char *what;	/* "kernels" */
	const char *marks;	/* what the marked rows are */
	VEC(struct val_row) rows;
	VEC(struct target) targets;	/* by name, as they were met */
	VEC(struct val_searched *) searches;	/* that rows share */
};

/* ---- validate.c ------------------------------------------------------- */

/* Reads d->opts.input; d->out gets the result. False after errors. */
bool drv_validate(struct driver *d);
/* The first group of a target by name, read once; NULL: it has no such. */
const struct target_group *val_target(struct val *v, const char *name);
/* Adds a cost to the prediction. */
void val_add(struct val_row *r, struct cost c);

/* ---- validate_kernels.c, .._collectives.c, .._train.c ----------------- */

bool val_kernels(struct val *v);
bool val_collectives(struct val *v);
bool val_train(struct val *v);
/* The model of that text; NULL after errors. */
struct ir_module *val_compile(struct ir_ctx *c, const char *text);
/* What was reported first. */
const char *val_first_error(struct val *v, const struct ir_ctx *c);

/* ---- validate_search.c ------------------------------------------------ */

/*
 * Prices the run's plan as llmc's own code, and searches for a plan of that
 * model on that cluster.  What comes back is why the first cannot be, or NULL.
 */
const char *val_search(struct val *v, const struct val_run *run,
		       struct val_row *r);
/* False after reporting a word of --search that is no key of a plan. */
bool val_search_keys(struct val *v);
void val_print_search(const struct val *v, struct buf *out);
void val_print_search_json(const struct val *v, struct buf *out);

/* ---- validate_print.c ------------------------------------------------- */

/* Of rows that are not predicted: how many, by reason. */
void val_print_reasons(const struct val *v, struct buf *out);
/* Linear between neighbours, as most programs have it. */
double val_quantile(const double *sorted, uint32_t n, double q);
void val_print_rows(const struct val *v, struct buf *out);
void val_print(const struct val *v, struct buf *out);
void val_print_json(const struct val *v, struct buf *out);

#endif
