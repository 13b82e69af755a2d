/*
 * Private to validate*.c: `llmc validate` compares published measurements with
 * the cost model.  validate.c is the command, each kind of table has a file
 * that reads it, and validate_print.c prints statistics.
 */
#ifndef FRONTEND_VALIDATE_H
#define FRONTEND_VALIDATE_H

#include "frontend/driver.h"
#include "frontend/frontend.h"
#include "frontend/validate/tsv.h"
#include "passes/answer/answer.h"
#include "passes/price/cost.h"

/* A row: what was measured and what is predicted. */
struct val_row {
	double measured_us, predicted_us;
	double math_us, memory_us, launch_us;	/* parts of the prediction */
	/* of the device that uses most; 0: unknown */
	double arena_gib, measured_gib;
	/* --search: of the plan that it finds */
	double found_us, found_gib;
	const char *found;	/* that plan as text; NULL: none fits */
	const char *why;	/* why it is not predicted, or NULL */
	/* what the prediction rests on that is not known, or NULL */
	const char *note;
	/* by which statistics are grouped */
	const char *source, *kind, *device;
	const char *what;	/* the row as text */
	uint32_t row;		/* of the table */
	struct answer_kind run;	/* of a training run */
	bool marked;		/* counts for the goals of docs/cost.md */
	struct span span;
	struct span unread;	/* the cell that is why, or nowhere */
};

/* A training run, as input of llmc. */
struct val_run {
	const char *model;	/* in the language */
	const char *pins;	/* pins of its plan */
	struct target_group group;
};

/* What validate_worst.c takes from a cell: the text, a number's range, or the
 * family that the name of a model begins with. */
enum val_reading { VAL_TEXT, VAL_RANGE, VAL_FAMILY };

struct val_column {
	const char *name;
	enum val_reading reading;
};

struct val_searched;

struct val {
	struct driver *d;
	struct tsv table;
	const char *what;	/* "kernels" */
	const char *marks;	/* description of the marked rows */
	const struct val_column *columns;	/* by which worst rows differ */
	bool by_kind;		/* a kind is a measure of its own */
	struct span unread;	/* of the row that is read: a wrong cell */
	VEC(struct val_row) rows;
	/* cache of val_target(), in order of first use */
	VEC(struct target) targets;
	/* results that several rows share */
	VEC(struct val_searched *) searches;
};

/* ---- validate.c ------------------------------------------------------- */

/* Reads d->opts.input and prints to d->out; false after errors. */
bool drv_validate(struct driver *d);

/* ---- calibrate.c ------------------------------------------------------ */

/* llmc calibrate: measures this machine; d->out gets it as a target. */
bool drv_calibrate(struct driver *d);

/* ---- validate_kernels.c, .._collectives.c, .._train.c ----------------- */

bool val_kernels(struct val *v);
bool val_collectives(struct val *v);
bool val_train(struct val *v);

/* ---- validate_serve.c --------------------------------------------------- */

bool val_serve(struct val *v);

/* ---- validate_row.c ---------------------------------------------------- */

/* The first group of the built-in target of that name, or of a device by the
 * words of its own name, as serving_names.def has them; or NULL. */
const struct target_group *val_target(struct val *v, const char *name);
/* Adds a row; one whose times have no ratio is not predicted. */
void val_push(struct val *v, struct val_row *r);
/* Adds a cost to the prediction. */
void val_add(struct val_row *r, struct cost c);
/* The model of that text, whose weights need no names; NULL after errors. */
struct ir_module *val_compile(struct ir_ctx *c, const char *text);
/* The text of the first error. */
const char *val_first_error(struct val *v, const struct ir_ctx *c);
/* A quantile, linear between neighbours. */
double val_quantile(const double *sorted, uint32_t n, double q);

/* ---- validate_unread.c ------------------------------------------------- */

/* Why a row is not predicted that has a cell which is not what its column is to
 * have; its place is in v->unread. */
const char *val_unread(struct val *v, uint32_t row, int column,
		       const char *wanted);
/* Prints where the cell is that is why the row is not predicted, if one is. */
void val_place(const struct val *v, const struct val_row *r, struct buf *out);

/* ---- validate_software.c ------------------------------------------------ */

struct price_traits;

/* The month of a text, as 202307, or 0. */
int val_month(const char *text);
/*
 * Sets the traits of software of that name and month, or of no month (0), and
 * returns whether its GELU models have biases.
 */
bool val_software(const char *name, int month, struct arena *a,
		  struct price_traits *t);

/* ---- validate_search.c ------------------------------------------------ */

/*
 * Prices the plan of the run as code of llmc, and searches for a plan of that
 * model on that cluster.  Returns why the first is impossible, or NULL.
 */
const char *val_search(struct val *v, const struct val_run *run,
		       struct val_row *r);
/* False after reporting a word of --search that is not a key of plans. */
bool val_search_keys(struct val *v);
void val_print_search(const struct val *v, struct buf *out);
void val_print_search_json(const struct val *v, struct buf *out);

/* ---- validate_print.c ------------------------------------------------- */

/* Prints how many rows are not predicted, by reason. */
void val_print_reasons(const struct val *v, struct buf *out);
/* Training runs as the rows of passes/answer/runs.def. */
void val_print_residuals(const struct val *v, struct buf *out);
void val_print_rows(const struct val *v, struct buf *out);
void val_print(const struct val *v, struct buf *out);
void val_print_json(const struct val *v, struct buf *out);

/* ---- validate_worst.c -------------------------------------------------- */

/* Prints what the worst rows of each measure have in common. */
void val_print_worst(const struct val *v, struct buf *out);
/* The same as a member of an object, after others. */
void val_print_worst_json(const struct val *v, struct buf *out);

#endif
