/*
 * Between place_solve.c and its parts: place_link.c (prices between two),
 * place_cells.c (what outlasts a region) and place_take.c (what comes out).
 * Nobody else includes this.
 */
#ifndef PASSES_PLACE_CHOICE_H
#define PASSES_PLACE_CHOICE_H

#include "passes/place.h"
#include "passes/solve.h"

/* How a value is, and what copy of it there is beside. */
struct option {
	struct ir_along at, also;
	bool two;
};

/* What each option of a value costs to whoever wants it so. */
struct fit {
	struct ir_along want;
	bool routable;
	const struct fit *next;
	double price[];		/* by option */
};

struct thing {
	uint32_t var, n, cap;
	struct option *opt;	/* of a value, or a cell (never two) */
	const struct ir_way **way;	/* of a node: those that are open */
	const struct fit *fits;	/* of a value: that were asked for */
	bool made;
	bool stands;		/* a node: in some region */
};

enum cell { CELL_STORED, CELL_GRADIENT, CELL_STASH, CELL_KINDS };

struct choice {
	struct place *p;
	struct solve *s;
	struct thing *value, *node;	/* by id */
	struct thing *cell[CELL_KINDS];	/* by name */
	struct thing *carried;	/* by result of a repeat */
	struct thing *handed;	/* by value that the model returns */
	const struct ir_type **weight_type;	/* by name */
	bool *picked;		/* by name: an index picks weights from it */
	uint32_t *uses;		/* by value */
	bool *routable;		/* by value: someone can route it */
	bool update;		/* in a layer that runs once a step */
	double times;		/* that the region at hand runs */
	VEC(node_id) owner;	/* by variable, for a message */
};

/* ---- place_link.c ------------------------------------------------------ */

void place_new_var(struct choice *c, struct thing *t, node_id owner);
void place_add_option(struct choice *c, struct thing *t,
		      struct ir_along at);
/* Every way a value of that type may be placed along the axis. */
void place_all_options(struct choice *c, struct thing *t,
		       const struct ir_type *type);
static inline struct ir_along
along(enum ir_how how, dim_id d)
{
	return (struct ir_along){ how, d };
}

/*
 * Prices a value's options, once those of `at` are known: each alone, and if
 * several nodes use it, each beside each copy that costs something.
 */
void place_value_var(struct choice *c, value_id v, node_id owner);
/* A value that may be placed in every way. */
void place_value(struct choice *c, value_id v, node_id owner);
/* What a node makes: in the ways that it has. */
void place_result(struct choice *c, value_id v, node_id owner);
/* a, a cell, is what value v was made as. */
void place_link_same(struct choice *c, const struct thing *a, value_id v);
/* Value v goes into a, a cell, converted if need be. */
void place_link_into(struct choice *c, const struct thing *a, value_id v,
		     bool sums);
/* Marks what may be routed: operands beside an index of experts. */
bool place_can_route(enum ir_op op, uint32_t k);
void place_link_operand(struct choice *c, node_id id, uint32_t k);
void place_link_result(struct choice *c, node_id id);

/* ---- place_cells.c ----------------------------------------------------- */

enum cell place_cell_kind(enum ir_op op);
/* The variable of what the node reads or writes by name. */
struct thing *place_cell(struct choice *c, node_id id,
			 const struct ir_type *type);
/* Weights first: what belongs to them lies as they do. */
void place_find_weights(struct choice *c);

/* ---- place_take.c ------------------------------------------------------ */

/* Writes what was chosen into types, wants and yields. */
void place_take(struct choice *c, const uint32_t *choice);

#endif
