/*
 * What ragged*.c share: the step that serves a model, while it is made.  What a
 * step is, ragged.c says.
 */
#ifndef PASSES_RAGGED_H
#define PASSES_RAGGED_H

#include "ir/ir.h"

enum ragged_rows { NO_ROWS, OF_STEP, OF_KEYS, OF_WANTED, NROWS };

struct ragged {
	struct ir_module *m;
	dim_id batch, seq;	/* of the model's tokens */
	dim_id dim[NROWS];	/* what `seq` becomes */
	dim_id slots;
	region_id body;		/* the step's */
	value_id *map;		/* by value: its copy */
	uint8_t *rows;		/* by value: enum ragged_rows of its copy */
	/* by value: the copy's rows for other rows, made when first asked for;
	 * those of the wanted rows stand outside of repeats */
	value_id *as_keys, *as_wanted;
	value_id position, positions, slot, key, key_positions, first, last;
	value_id row;
	bool *used;		/* by value: the logits need it */
	uint32_t nold;		/* values of the model */
	uint32_t ncaches;
	enum ir_dtype cache;	/* IR_IDX: as keys and values are computed */
	bool is_tail;		/* after the last layer */
};

/* ---- ragged_rows.c ---- */

/* Appends a node with one result, which must fit. */
value_id ragged_append(struct ragged *r, region_id to, struct ir_new *n,
		       const struct ir_type *t);
/* Says that an op cannot be served, and why; false. */
bool ragged_refuse(struct ragged *r, const struct ir_node *n, const char *why);
/* A type of the model, for these rows. */
struct ir_type ragged_type(const struct ragged *r, const struct ir_type *old,
			   enum ragged_rows rows);
/* Of rows of a step those whose logits are wanted. */
value_id ragged_wanted(struct ragged *r, region_id to, value_id v,
		       struct span at);
/* Whether v has a row for each key, or can be appended to a cache by rows. */
bool ragged_may_be_keys(const struct ragged *r, value_id v);
/* The copy of v of all keys: rows of the step go to the cache.  `around`: the
 * variables of the repeats around, in the cache's name. */
value_id ragged_keys(struct ragged *r, region_id to, value_id v,
		     const char *around, struct span at);
/*
 * Gathers what a slice takes of all keys from a slice of the cache, which
 * attention then reads where it lies, as it does the keys; and true.  False: it
 * is no slice of what is gathered from a cache.
 */
bool ragged_slice_keys(struct ragged *r, const struct ir_node *n, region_id to);
/* The copy of operand v of a node whose result has these rows; false: it is
 * refused. */
bool ragged_operand(struct ragged *r, const struct ir_node *n, region_id to,
		    value_id v, enum ragged_rows rows, value_id *out);
/*
 * Which rows the result of a node has.  Those that are wanted are taken of
 * numbers: no index takes rows of another, as of tokens.
 */
enum ragged_rows ragged_rows_of(const struct ragged *r,
				const struct ir_node *n);
/* Whether the op cuts, ranks or sums up positions or sequences, which may lie
 * in other steps. */
bool ragged_mixes(const struct ragged *r, const struct ir_node *n);
/* Dims that attributes name become those of the rows; nothing is trained. */
void ragged_copy_attrs(const struct ragged *r, const struct ir_node *n,
		       enum ragged_rows rows, struct ir_new *copy);

/* ---- ragged_used.c ---- */

/* Marks what a region needs, from its last node to the first; what is needed
 * after it is marked. */
void ragged_find_used(struct ragged *r, region_id id);
/* Whether a result of the node is needed. */
bool ragged_is_used(const struct ragged *r, node_id id);
/* Whether a repeat's carried value is needed, in it or after it. */
bool ragged_is_carried(const struct ragged *r, const struct ir_node *n,
		       uint32_t k);

#endif
