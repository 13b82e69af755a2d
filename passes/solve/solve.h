/*
 * The cheapest assignment: variables of a few values each, tables that price
 * the values of a few variables together, and one value for every variable such
 * that the sum of all tables is least.  It knows nothing of tensors: of ir/ it
 * includes base.h and memo.h alone. passes/place/ poses the placement of a
 * program along one axis of the mesh as such a problem.
 *
 * The answer is exact as long as the treewidth is small: the work grows as
 * domain to the power of the treewidth (Bertele and Brioschi 1972; Dechter,
 * "Bucket elimination", 1999).  Programs of transformers have a small one.
 */
#ifndef PASSES_SOLVE_H
#define PASSES_SOLVE_H

#include "ir/base.h"

#define SOLVE_MAX_DOMAIN 256u
#define SOLVE_NO_VAR UINT32_MAX

/*
 * Costs of assignments of some variables, which are ascending; the value of the
 * last one changes fastest.
 */
struct solve_table {
	uint32_t nvars;
	bool spent;		/* it is part of another table by now */
	uint32_t *vars;
	size_t n;		/* entries */
	double *cost;
};

struct memo;
struct solve_layout;

struct solve {
	struct arena *arena;
	struct solve_layout *layout;	/* how it becomes a net, once that is
					 * known */
	struct memo *memo;	/* of orders of elimination, or NULL */
	VEC(uint32_t) domain;	/* by variable */
	VEC(struct solve_table) tables;
	/*
	 * The limits may be set before solve_run.  Elimination makes no table
	 * of more than max_entries; where that is not enough, values are tried
	 * one by one, at most max_nodes of them.
	 */
	double max_entries;
	uint32_t max_nodes;
	/*
	 * Only the cost is wanted.  Then tables whose entries are all the same
	 * connect no variables, which makes the problem smaller; but of equal
	 * choices another one may be found.
	 */
	bool cost_only;
};

struct solve_result {
	bool feasible;		/* some assignment has a finite cost */
	/*
	 * The cost is proven to be least.  Otherwise max_nodes was reached: the
	 * choice is the best one seen, or if none was seen, feasible is false.
	 */
	bool exact;
	/*
	 * No costs were compared: entries of INFINITY leave one assignment,
	 * whatever the others are.
	 */
	bool forced;
	double cost;		/* the sum of all tables; or INFINITY */
	uint32_t *choice;	/* by variable; in the arena of solve_run */
	uint32_t width;		/* most variables of a table that was made */
	double states;		/* assignments that elimination looked at */
	uint32_t nodes;		/* values that were tried one by one */
	/*
	 * If not feasible: a variable that was found to have no value left, or
	 * SOLVE_NO_VAR.
	 */
	uint32_t bad_var;
};

struct solve *solve_new(struct arena *a);
/*
 * Gives a new problem room for so many variables and tables; more may be added,
 * which takes more memory than if these had been all.
 */
void solve_reserve(struct solve *s, uint32_t nvars, uint32_t ntables);
/*
 * Adds a variable of the values 0 .. domain-1, at most 256, and returns its
 * number: 0, 1, 2 ...
 */
uint32_t solve_var(struct solve *s, uint32_t domain);
/*
 * Adds a copy of a table over those variables in that order, the value of the
 * last one changing fastest.  INFINITY forbids an assignment; all other entries
 * are finite, may be negative, and have a finite sum of magnitudes.  A variable
 * may be listed twice: then only entries where both places have the same value
 * count.
 */
void solve_add_table(struct solve *s, uint32_t nvars, const uint32_t *vars,
		     const double *table);
/*
 * Add a table of one variable, or of two that differ, and return its number.
 * Its entries are set before each solve_run by solve_set_costs, which keeps the
 * pointer.  The entry at values a of u and b of v is at a * of_u + b * of_v;
 * that of a table of one variable, at its value.
 */
struct solve_strides {
	size_t of_u, of_v;
};
uint32_t solve_add_unary(struct solve *s, uint32_t v);
uint32_t solve_add_pair(struct solve *s, uint32_t u, uint32_t v,
			struct solve_strides *strides);
void solve_set_costs(struct solve *s, uint32_t table, double *cost);
/*
 * The choice depends on the variables, the limits and the set of the tables,
 * not on the order in which they were added.  Of values of a variable that are
 * compared and cost the same, the lower one is chosen; the choice need not be
 * the lexicographically smallest optimum.  The cost is least up to the rounding
 * of its sum.  May be called again after more was added or other entries were
 * set.
 */
struct solve_result solve_run(struct solve *s, struct arena *tmp);

#endif
