/*
 * Private header of place_solve.c and its parts: place_link.c (conversions
 * between two variables), place_cells.c (what outlives a region), place_shape.c
 * (problems of one shape), place_due.c (prices) and place_take.c (writes the
 * result).
 */
#ifndef PASSES_PLACE_CHOICE_H
#define PASSES_PLACE_CHOICE_H

#include "passes/place/place.h"
#include "passes/solve/solve.h"

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

/* A table of which the entries are priced whenever the problem is posed. */
struct due {
	uint8_t kind;		/* DUE_... */
	bool update;		/* in a layer that runs once a step */
	uint32_t table, n;	/* its number, and its entries */
	uint32_t of;		/* the value; of DUE_RUNS the node */
	double iters;		/* that its region makes in a microbatch */
	union {
		const uint8_t *code;		/* DUE_STEPS: by entry */
		const struct cell *cell;	/* DUE_HELD: whose options */
	} by;
};

enum { DUE_STEPS, DUE_RUNS, DUE_HELD };

/* What a problem's shape hangs on, beside the program. */
struct place_ground {
	enum place_kind kind;
	int zero;
	bool ring, strict, alone;	/* alone: one rank */
	const bool *may, *late;
};

/* By which dim ZeRO cuts a tensor of this value's type. */
struct zeroed {
	value_id of;
	dim_id dim;
};

/* Ways that are not the same along every axis. */
struct odd {
	node_id node;
	struct place_ways ways;
};

/*
 * A problem: its variables, and what its tables are of.  That is its shape,
 * which many axes have in common; what the entries come to hangs on the axis.
 */
struct choice {
	struct place *p;	/* who poses it */
	struct arena *arena;	/* of the shape */
	struct place_ground ground;
	VEC(struct zeroed) zeroed;
	VEC(struct odd) odd;
	VEC(struct due) due;	/* in the order of the tables */
	size_t nentries;	/* of all of them */
	struct choice *older;
	struct solve *s;
	struct made *value;	/* by id */
	struct runner *node;	/* by id */
	struct alike *alike;	/* by like */
	struct cell *cell;	/* by number */
	struct cell **carried;	/* by region of a repeat, and its result */
	struct cell *handed;	/* by result of the model */
	bool update;		/* in a layer that runs once a step */
	double iters;		/* that the region at hand makes */
	VEC(node_id) owner;	/* by variable, for a message */
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
 * A value's options: each way to make it alone, and if several nodes use it,
 * each beside each copy that costs something.
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

/* ---- place_shape.c ----------------------------------------------------- */

/* One that was posed before and has this shape; or NULL. */
struct choice *place_shaped(struct place *p);
/* A new one, without variables; kept, if the program is. */
struct choice *place_new_shape(struct place *p);
/* place_zero_dim, and place_ways; noted, as the shape hangs on it. */
dim_id place_ask_zero(struct choice *c, value_id v);
struct place_ways place_ask_ways(struct choice *c, node_id id);

/* ---- place_due.c ------------------------------------------------------- */

/* Adds a table whose entries are priced by place_fill. */
void place_add_due(struct choice *c, struct due d);
/* Prices all of them for the axis at hand. */
void place_fill(struct choice *c);

/* ---- place_take.c ------------------------------------------------------ */

/* Writes what was chosen into types, wants and yields. */
void place_take(struct choice *c, const uint32_t *choice);

#endif
