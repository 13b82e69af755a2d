/*
 * Private header of place_solve.c and its parts: place_link.c (conversions
 * between two variables), place_cells.c (what outlives a region), place_shape.c
 * (reuse of problems), place_due.c (prices), place_take.c (writes the result).
 */
#ifndef PASSES_PLACE_CHOICE_H
#define PASSES_PLACE_CHOICE_H

#include "passes/place/place.h"
#include "passes/solve/solve.h"

#define PLACE_MOST_OPTIONS 256

/* A value's slot, and that of a converted copy of it; PLACE_SLOTS: no copy. */
struct option {
	uint8_t at, also;
};

/*
 * Options of values of one class that are made in the same ways, with codes of
 * the conversions that make the copy, and that each use needs.
 */
struct shape {
	place_list made, copies;	/* slots of either */
	struct shape *next;
	const struct place_like *like;
	uint32_t n, ncopies;	/* options with a copy come last */
	struct option *opt;
	uint8_t *copied;	/* codes, by option */
	const uint8_t *fit[2][PLACE_SLOTS];	/* codes, by option */
};

/* What values of one class may be along the axis at hand. */
struct alike {
	place_list all;
	uint32_t open;		/* slots, as bits */
	struct shape *shapes;
};

struct made {
	uint32_t var;
	bool is;
	struct shape *shape;
};

struct runner {
	uint32_t var, n;
	struct place_way *way;	/* those allowed on this axis */
	bool made;
	bool stands;		/* it is in a region */
};

/*
 * A variable for what outlives a region, a carried value or a result of the
 * model.
 */
struct cell {
	uint32_t var, n;
	struct ir_along opt[PLACE_SLOTS];
	bool made;
};

/* A table of the solver whose entries are priced anew for each axis. */
struct due {
	uint8_t kind;		/* DUE_... */
	bool update;		/* in a function run once a step */
	uint32_t table, n;	/* in the solver; its size */
	uint32_t of;		/* the value; for DUE_RUNS the node */
	region_id region;	/* where it is used */
	double iters;		/* iterations per microbatch, or step */
	union {
		const uint8_t *code;		/* DUE_STEPS: by entry */
		const struct cell *cell;	/* DUE_HELD: its options */
	} by;
};

enum { DUE_STEPS, DUE_RUNS, DUE_HELD };

/* What decides a problem's shape, besides the program. */
struct place_ground {
	enum place_kind kind;
	int zero;
	bool ring, strict, alone;	/* alone: one rank on it */
	int64_t parts;		/* place_parts() */
	const bool *may, *late;
};

/* The dim by which ZeRO splits a tensor like this value. */
struct zeroed {
	value_id of;
	dim_id dim;
};

/* Ways of an op whose ways depend on the axis. */
struct odd {
	node_id node;
	struct place_ways ways;
};

/*
 * A problem: its variables and tables.  Many axes share this shape; only the
 * prices in the tables differ between them.
 */
struct choice {
	struct place *p;	/* the current user */
	struct arena *arena;	/* holds the shape */
	struct place_ground ground;
	VEC(struct zeroed) zeroed;
	VEC(struct odd) odd;
	VEC(struct due) due;	/* in order of table numbers */
	size_t nentries;	/* over all of `due` */
	struct choice *older;
	struct solve *s;
	struct made *value;	/* by id */
	struct runner *node;	/* by id */
	struct alike *alike;	/* by class */
	struct cell *cell;	/* by number */
	struct cell **carried;	/* by body of a repeat, and its result */
	struct cell *handed;	/* by result of the model */
	bool update;		/* in a function run once a step */
	region_id region;	/* at hand */
	double iters;		/* its iterations */
	VEC(node_id) owner;	/* by variable, for error messages */
};

/* ---- place_link.c ------------------------------------------------------ */

uint32_t place_new_var(struct choice *c, uint32_t n, node_id owner);
void place_new_cell(struct choice *c, struct cell *x, node_id owner);
void place_add_option(struct cell *x, struct ir_along at);
/* Adds every slot that v may have along the axis. */
void place_all_options(const struct choice *c, struct cell *x, value_id v);
static inline struct ir_along
along(enum ir_how how, dim_id d)
{
	return (struct ir_along){ how, d };
}

/*
 * A variable for v.  Options: each slot in `made`, and if v has several uses,
 * each together with each copy that it can be converted to.
 */
void place_value(struct choice *c, value_id v, place_list made,
		 node_id owner);
/* A variable for a node's result v, from the node's ways. */
void place_result(struct choice *c, value_id v, node_id owner);
/* Requires x to have the slot of v. */
void place_link_same(struct choice *c, const struct cell *x, value_id v);
/* v is stored in x, after a conversion where they differ. */
void place_link_into(struct choice *c, const struct cell *x, value_id v,
		     bool sums);
void place_link_operand(struct choice *c, node_id id, uint32_t k);
void place_link_result(struct choice *c, node_id id);

/* ---- place_cells.c ----------------------------------------------------- */

/* The cell that the node reads or writes by name. */
struct cell *place_cell(struct choice *c, node_id id);
/* Makes cells of weights first: their states follow them. */
void place_find_weights(struct choice *c);

/* ---- place_shape.c ----------------------------------------------------- */

/* An earlier problem of the same shape, or NULL. */
struct choice *place_shaped(struct place *p);
/* A new problem without variables; kept if the memo has the program. */
struct choice *place_new_shape(struct place *p);
/*
 * place_zero_dim and place_ways; the answers are noted, as the shape depends on
 * them.
 */
dim_id place_ask_zero(struct choice *c, value_id v);
struct place_ways place_ask_ways(struct choice *c, node_id id);

/* ---- place_due.c ------------------------------------------------------- */

/* Adds a table whose entries are priced by place_fill. */
void place_add_due(struct choice *c, struct due d);
/* Prices all such tables for the axis at hand. */
void place_fill(struct choice *c);

/* ---- place_take.c ------------------------------------------------------ */

/* Writes the solution into types, wants and yields. */
void place_take(struct choice *c, const uint32_t *choice);

#endif
