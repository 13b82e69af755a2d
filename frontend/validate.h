/*
 * llmc validate: measurements that others published, beside what the cost
 * model says.  validate.c is the command, one file reads each kind of table,
 * validate_print.c sums up.
 */
#ifndef FRONTEND_VALIDATE_H
#define FRONTEND_VALIDATE_H

#include "frontend/driver.h"
#include "frontend/target.h"
#include "frontend/tsv.h"
#include "passes/cost.h"

/* A row, as it was measured and as it is predicted. */
struct val_row {
	double measured_us, predicted_us;
	double math_us, memory_us, launch_us;	/* parts of the prediction */
	double arena_gib, measured_gib;	/* of the fullest device; 0: unknown */
	const char *why;	/* it is not predicted, or NULL */
	const char *source, *kind, *device;	/* that it is counted under */
	const char *what;	/* the row in a few words */
	bool marked;		/* the marks of docs/cost.md count it */
	struct span span;
};

struct val {
	struct driver *d;
	struct tsv table;
	const char *what;	/* "kernels" */
	const char *marks;	/* what the marked rows are */
	VEC(struct val_row) rows;
	VEC(struct target) targets;	/* by name, as they were met */
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

/* ---- validate_print.c ------------------------------------------------- */

void val_print_rows(const struct val *v, struct buf *out);
void val_print(const struct val *v, struct buf *out);
void val_print_json(const struct val *v, struct buf *out);

#endif
