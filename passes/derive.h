/*
 * Gradient nodes from the derivatives column of ops.def, for autodiff.c; and
 * appending of nodes, for other passes.
 */
#ifndef PASSES_DERIVE_H
#define PASSES_DERIVE_H

#include "passes/pass.h"

#define DERIVE_DEFS 8

struct derive;

/* A name that a row defines before its `:`; built at its first use. */
struct derive_def {
	char name;
	bool forward;		/* by `<-`: in the node's own region */
	const char *text;
	value_id value;
};

/* A forward node whose gradient g is known; derives its operands'. */
struct derive {
	struct ir_module *m;
	region_id region;	/* of new nodes */
	region_id forward;	/* the node's own */
	node_id id;
	struct ir_node node;	/* a copy: arrays move */
	struct ir_rule rule;	/* of the node, bound */
	value_id g;		/* gradient of the result, with all its dims */
	/* Returns what stands for forward value v in `region`; v may be new,
	 * made for a definition in `forward`. */
	value_id (*local)(void *user, value_id v);
	void *user;
	struct derive_def defs[DERIVE_DEFS];
	uint32_t ndefs;
	const char *at;		/* the parser's position */
};

/* Sets node and rule; the caller sets local, user, g and the regions. */
void derive_init(struct derive *d, struct ir_module *m, node_id n);
/* Whether ops.def has a derivative for operand k. */
bool derive_has(enum ir_op op, uint32_t k);
/* The gradient of operand k, of its type; 0 if it gets none. */
value_id derive_operand(struct derive *d, uint32_t k);

/* Converts v to an element type. */
value_id derive_cast(struct ir_module *m, region_id r, value_id v,
		     uint8_t dtype, struct span span);
/*
 * Appends a copy of node id on other operands: same op, attributes and result
 * type.  The node must have one result.
 */
value_id derive_copy(struct ir_module *m, region_id r, node_id id,
		     const value_id *args);
/* Whether backward reads this source again instead of saving it. */
bool derive_reads_again(enum ir_op op);
/* Sums, expands, reorders and casts v to this type. */
value_id derive_fit(struct ir_module *m, region_id r, value_id v,
		    const struct ir_type *type, struct span span);
/* A tensor filled with v. */
value_id derive_full(struct ir_module *m, region_id r, double v,
		     const struct ir_type *type, struct span span);
/* ir_append, aborting if the node is illegal. */
value_id derive_append(struct ir_module *m, region_id r, struct ir_new *n);
void derive_sink(struct ir_module *m, region_id r, struct ir_new *n);

#endif
