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

/* What a name means, by sym_t; dims and layers do not share a space. */
struct read_name {
	dim_id dim;
	func_id func;
	uint32_t setting;	/* index plus one */
	bool bad_dim, bad_func;
	struct span func_span;
	struct span later;	/* layer: defined further down, here */
};

/* What a value's number means in the function being read. */
struct read_slot {
	uint32_t number;
	value_id value;		/* 0: its definition is broken, or open */
	bool open;		/* a result of a repeat we are still in */
	sym_t hint;
	region_id region;
	uint32_t depth;		/* of the region */
	struct span span;
};

/* A value as it is written where it is defined. */
struct label {
	sym_t hint;
	uint32_t number;
	struct span span;
};

/* A function or repeat whose `}` has not come yet. */
struct read_frame {
	region_id region;
	struct ir_new node;	/* of a repeat */
	struct label results[IR_MAX_ARGS];
	uint32_t nresults;
	struct span brace;	/* the line that opened it */
	bool ended;		/* return or yield was read */
	bool bad;		/* ... and was broken */
};

struct ir_reader {
	struct ir_ctx *ctx;
	struct ir_module *m;
	struct scan s;
	VEC(struct read_name) names;
	VEC(struct read_slot) slots;	/* of this function; 0 is none */
	struct table numbers;
	func_id func;		/* being read, or 0 */
	func_id model;		/* once its line was read */
	struct read_frame *frames[IR_MAX_DEPTH + 1];
	uint32_t depth;		/* open frames */
	uint32_t terms;		/* of the expression being read */
	uint32_t errors_before;
	bool later_known;	/* the layers further down are in names */
};

/* ---- read_names.c ----------------------------------------------------- */

bool rd_fail(struct ir_reader *r, struct span at, const char *fmt, ...)
	BASE_PRINTF(3, 4);
/* From the token at byte `lo` of the file to the last one taken. */
struct span rd_span_from(const struct ir_reader *r, uint32_t lo);
/* Fails: the token looked at is not `what`. */
bool rd_expected(struct ir_reader *r, const char *what);
/* Takes one character or fails. */
bool rd_sign(struct ir_reader *r, char sign, const char *what);
/* Takes a name without dots, or fails. */
bool rd_name(struct ir_reader *r, const char *what, sym_t *name,
	     struct span *at);
bool rd_line_end(struct ir_reader *r, const char *after);

/* The pointer is good until the next call. */
struct read_name *rd_meaning(struct ir_reader *r, sym_t name);
/* Takes the name of a dim that is known, or fails. */
bool rd_dim(struct ir_reader *r, dim_id *d);
bool rd_axis(struct ir_reader *r, axis_id *a, struct span *at);
bool rd_layer(struct ir_reader *r, func_id *f);

/* Gives a value's number its meaning; 0 is a broken value. */
bool rd_define(struct ir_reader *r, const struct label *l, value_id v);
/* Another function begins: numbers start anew. */
void rd_forget_values(struct ir_reader *r);
/* As rd_define, for the results of a repeat: known, but of no use yet. */
bool rd_reserve(struct ir_reader *r, const struct label *l);
void rd_fulfil(struct ir_reader *r, const struct label *l, value_id v);
/* Takes a value where it is defined or used, or fails. */
bool rd_label(struct ir_reader *r, struct label *l);
bool rd_use(struct ir_reader *r, value_id *v, struct span *at);

/* ---- read_terms.c ----------------------------------------------------- */

bool rd_int(struct ir_reader *r, const char *what, int64_t *v);
bool rd_num(struct ir_reader *r, const char *what, double *v);
bool rd_expr(struct ir_reader *r, expr_id *e, struct span *at);
bool rd_type(struct ir_reader *r, struct ir_type *t, struct span *at);
/* Takes `key=value` of the node's op, or fails. */
bool rd_attr(struct ir_reader *r, struct ir_new *n);
/* Whether each attribute that the op must have is there. */
bool rd_attrs_complete(struct ir_reader *r, const struct ir_new *n,
		       struct span op);

/* ---- read_body.c ------------------------------------------------------ */

/* Opens a region below the frames that are open, at most 200 of them. */
void rd_open(struct ir_reader *r, region_id region, struct span at);
/* One line of the region on top, its `}` included. */
bool rd_body_line(struct ir_reader *r);
/* A function or the file ends where a `}` should be: reports that. */
void rd_missing_brace(struct ir_reader *r);

#endif
