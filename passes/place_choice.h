/*
 * Between place_solve.c and its parts: place_link.c (prices between two),
 * place_cells.c (what outlasts a region) and place_take.c (what comes out).
 * Nobody else includes this.
 */
#ifndef PASSES_PLACE_CHOICE_H
#define PASSES_PLACE_CHOICE_H

#include "passes/place.h"
#include "passes/solve.h"

#define PLACE_MOST_OPTIONS 256

/* How a value is, and what copy of it there is beside; PLACE_SLOTS: none. */
struct option {
	uint8_t at, also;
};

/*
 * The options of values that are alike and may be made in the same ways: what
 * a copy is made by, and by what each becomes what is wanted.
 */
struct shape {
	place_list made, copies;	/* that it is of */
	struct shape *next;
	const struct place_like *like;
	uint32_t n, ncopies;	/* those with a copy stand last */
	struct option *opt;
	uint8_t *copied;	/* by option: a code */
	const uint8_t *fit[2][PLACE_SLOTS];	/* by option: a code */
};

/* Along the axis at hand: how values that are alike may be, and are used. */
struct alike {
	place_list all;
	uint32_t open;		/* a bit each */
	struct shape *shapes;
};

struct made {
	uint32_t var;
	bool is;
	struct shape *shape;
	double times;		/* that `price` is for */
	const double *price;	/* by code */
};

struct runner {
	uint32_t var, n;
	struct place_way *way;	/* those that are open */
	bool made;
	bool stands;		/* in some region */
};

/* What outlasts a region, what a repeat carries, what the model returns. */
struct cell {
	uint32_t var, n;
	struct ir_along opt[PLACE_SLOTS];
	bool made;
};

#define PLACE_SIZES 256

struct choice {
	struct place *p;
	struct solve *s;
	struct made *value;	/* by id */
	struct runner *node;	/* by id */
	struct alike *alike;	/* by like */
	struct cell *cell;	/* by number */
	struct cell **carried;	/* by region of a repeat, and its result */
	struct cell *handed;	/* by result of the model */
	bool update;		/* in a layer that runs once a step */
	double times;		/* that the region at hand runs */
	VEC(node_id) owner;	/* by variable, for a message */
	struct priced {
		double bytes, times;
		const double *price;
	} priced[PLACE_SIZES];	/* by their hash: the last ones */
};

/* ---- place_link.c ------------------------------------------------------ */

uint32_t place_new_var(struct choice *c, uint32_t n, node_id owner);
void place_new_cell(struct choice *c, struct cell *x, node_id owner);
void place_add_option(struct cell *x, struct ir_along at);
/* Every way a value may be placed along the axis. */
void place_all_options(const struct choice *c, struct cell *x, value_id v);
static inline struct ir_along
along(enum ir_how how, dim_id d)
{
	return (struct ir_along){ how, d };
}

/*
 * Prices a value's options: each way to make it alone, and if several nodes
 * use it, each beside each copy that costs something.
 */
void place_value(struct choice *c, value_id v, place_list made,
		 node_id owner);
/* What a node makes: in the ways that it has. */
void place_result(struct choice *c, value_id v, node_id owner);
/* x is what value v was made as. */
void place_link_same(struct choice *c, const struct cell *x, value_id v);
/* Value v goes into x, converted if need be. */
void place_link_into(struct choice *c, const struct cell *x, value_id v,
		     bool sums);
void place_link_operand(struct choice *c, node_id id, uint32_t k);
void place_link_result(struct choice *c, node_id id);

/* ---- place_cells.c ----------------------------------------------------- */

/* The variable of what the node reads or writes by name. */
struct cell *place_cell(struct choice *c, node_id id);
/* Weights first: what belongs to them lies as they do. */
void place_find_weights(struct choice *c);

/* ---- place_take.c ------------------------------------------------------ */

/* Writes what was chosen into types, wants and yields. */
void place_take(struct choice *c, const uint32_t *choice);

#endif
