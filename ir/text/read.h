/*
 * Private to read.c, read_body.c, read_names.c and read_terms.c: the reader
 * of the text form.
 *
 * Every function that returns bool has reported an error when it returns
 * false, either just now or earlier: a name whose definition was broken is
 * remembered as such, and what uses it fails without a word, so that one
 * mistake makes one message.
 */
#ifndef IR_READ_H
#define IR_READ_H

#include "ir/text/scan.h"

/*
 * What a name refers to, by sym_t; dims and layers have separate name spaces.
 */
struct read_name {
	dim_id dim;
	func_id func;
	uint32_t setting;	/* index plus one */
	bool bad_dim, bad_func;
	struct span func_span;
	struct span later;	/* layer: where it is defined, further down */
};

/* What a value's number refers to in the current function. */
struct read_slot {
	uint32_t number;
	value_id value;		/* 0: it is wrong, or not complete */
	bool open;		/* result of a repeat that is open */
	sym_t hint;
	region_id region;
	uint32_t depth;		/* of the region */
	struct span span;
};

/* A value where it is defined, as written. */
struct label {
	sym_t hint;
	uint32_t number;
	struct span span;
};

/* A function or repeat that is not closed yet. */
struct read_frame {
	region_id region;
	struct ir_new node;	/* of a repeat */
	struct label results[IR_MAX_ARGS];
	uint32_t nresults;
	struct span brace;	/* the line that opened it */
	bool ended;		/* its return or yield was read */
	bool bad;		/* ... and was wrong */
};

struct ir_reader {
	struct ir_ctx *ctx;
	struct ir_module *m;
	struct scan s;
	VEC(struct read_name) names;
	VEC(struct read_slot) slots;	/* of this function; 0 is none */
	struct table numbers;
	func_id func;		/* the current one, or 0 */
	func_id model;		/* once its line was read */
	struct read_frame *frames[IR_MAX_DEPTH + 1];
	uint32_t depth;		/* open frames */
	uint32_t terms;		/* of the current expression */
	uint32_t errors_before;
	bool later_known;	/* layers defined further down are in names */
};

/* ---- read_names.c ----------------------------------------------------- */

bool rd_fail(struct ir_reader *r, struct span at, const char *fmt, ...)
	BASE_PRINTF(3, 4);
/* The span from byte `lo` of the file to the end of the last token read. */
struct span rd_span_from(const struct ir_reader *r, uint32_t lo);
/* Reports that the current token is not `what`; returns false. */
bool rd_expected(struct ir_reader *r, const char *what);
/* Reads one character, or fails. */
bool rd_sign(struct ir_reader *r, char sign, const char *what);
/* Reads a name without dots, or fails. */
bool rd_name(struct ir_reader *r, const char *what, sym_t *name,
	     struct span *at);
bool rd_line_end(struct ir_reader *r, const char *after);

/* What the name refers to; the pointer is valid until the next call. */
struct read_name *rd_meaning(struct ir_reader *r, sym_t name);
/* Reads the name of a known dim, or fails. */
bool rd_dim(struct ir_reader *r, dim_id *d);
bool rd_axis(struct ir_reader *r, axis_id *a, struct span *at);
bool rd_layer(struct ir_reader *r, func_id *f);

/* Defines a value's number; v is 0 if the definition is wrong. */
bool rd_define(struct ir_reader *r, const struct label *l, value_id v);
/* Forgets all numbers: another function begins. */
void rd_forget_values(struct ir_reader *r);
/* Same as rd_define for a result of a repeat, which may not be used yet. */
bool rd_reserve(struct ir_reader *r, const struct label *l);
void rd_fulfil(struct ir_reader *r, const struct label *l, value_id v);
/* Read a value where it is defined, or used; or fail. */
bool rd_label(struct ir_reader *r, struct label *l);
bool rd_use(struct ir_reader *r, value_id *v, struct span *at);

/* ---- read_terms.c ----------------------------------------------------- */

bool rd_int(struct ir_reader *r, const char *what, int64_t *v);
bool rd_num(struct ir_reader *r, const char *what, double *v);
bool rd_expr(struct ir_reader *r, expr_id *e, struct span *at);
bool rd_type(struct ir_reader *r, struct ir_type *t, struct span *at);
/* Reads `key=value` of the node's op, or fails. */
bool rd_attr(struct ir_reader *r, struct ir_new *n);
/* Checks that each attribute that the op requires is there. */
bool rd_attrs_complete(struct ir_reader *r, const struct ir_new *n,
		       struct span op);

/* ---- read_body.c ------------------------------------------------------ */

/* Opens a region inside of the open ones; at most 200 are nested. */
void rd_open(struct ir_reader *r, region_id region, struct span at);
/* Reads one line of the innermost region, possibly its `}`. */
bool rd_body_line(struct ir_reader *r);
/* Reports that a function or the file ends without a `}`. */
void rd_missing_brace(struct ir_reader *r);

#endif
