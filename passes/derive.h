/*
 * The derivatives column of ops.def, made into nodes; between autodiff.c and
 * derive.c.
 */
#ifndef PASSES_DERIVE_H
#define PASSES_DERIVE_H

#include "passes/pass.h"

#define DERIVE_DEFS 8

struct derive;

/* A name that a row defines before its `:`; made once, if asked for. */
struct derive_def {
	char name;
	const char *text;
	value_id value;
};

/* One node whose gradient is known, and where its operands' are made. */
struct derive {
	struct ir_module *m;
	region_id region;	/* new nodes go there */
	struct ir_node node;	/* a copy: arrays move */
	struct ir_rule rule;	/* its own, bound */
	value_id g;		/* gradient of the result, of all its dims */
	/* Stand-ins, in that region, for values of the forward program. */
	value_id (*local)(void *user, value_id v);
	void *user;
	struct derive_def defs[DERIVE_DEFS];
	uint32_t ndefs;
	const char *at;		/* in the text that is being read */
};

/* Takes the node apart; local, user, g and region are set by the caller. */
void derive_init(struct derive *d, struct ir_module *m, node_id n);
/* Whether the row says how operand k gets a gradient. */
bool derive_has(enum ir_op op, uint32_t k);
/* The gradient of operand k, of its type; 0 if it gets none. */
value_id derive_operand(struct derive *d, uint32_t k);

/* v in that element type. */
value_id derive_cast(struct ir_module *m, region_id r, value_id v,
		     uint8_t dtype, struct span span);
/*
 * The same op with the same attributes and result type, on these operands
 * (as many as it has).  For nodes of one result.
 */
value_id derive_copy(struct ir_module *m, region_id r, node_id id,
		     const value_id *args);
/* A source that backward reads once more, rather than having it saved. */
bool derive_reads_again(enum ir_op op);
/* v summed, spread, arranged and cast until it has this type. */
value_id derive_fit(struct ir_module *m, region_id r, value_id v,
		    const struct ir_type *type, struct span span);
/* A tensor of that type full of a number. */
value_id derive_full(struct ir_module *m, region_id r, double v,
		     const struct ir_type *type, struct span span);
/* ir_append for nodes that must be legal. */
value_id derive_append(struct ir_module *m, region_id r, struct ir_new *n);
void derive_sink(struct ir_module *m, region_id r, struct ir_new *n);

#endif
