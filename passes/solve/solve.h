/*
 * The cheapest choice: variables with a few values each, tables that price
 * the values of a few variables together, and one value for every variable
 * such that the sum of all tables is least.  Knows nothing of tensors, so
 * this needs only the ground floor.
 *
 * The answer is exact as long as the problem is narrow: the work grows as
 * domain to the power of the tree width (Bertele and Brioschi 1972; Dechter,
 * "Bucket elimination", 1999).  Programs of transformers are narrow.
 */
#ifndef PASSES_SOLVE_H
#define PASSES_SOLVE_H

#include "ir/base.h"

#define SOLVE_MAX_DOMAIN 256u
#define SOLVE_NO_VAR UINT32_MAX

/* Prices of some variables together; ascending, the last runs fastest. */
struct solve_table {
	uint32_t nvars;
	bool spent;		/* others say what it says */
	uint32_t *vars;
	size_t n;		/* entries */
	double *cost;
};

struct memo;
struct solve_taken;

struct solve {
	struct arena *arena;
	struct solve_taken *taken;	/* how it was taken in, or NULL */
	struct memo *memo;	/* of plans of problems like it, or NULL */
	VEC(uint32_t) domain;	/* by variable */
	VEC(struct solve_table) tables;
	/*
	 * The limits may be set before solve_run.  No table of more entries
	 * is made by eliminating; where that is not enough, values are tried
	 * one by one, but no more than so many.
	 */
	double max_entries;
	uint32_t max_nodes;
};

struct solve_result {
	bool feasible;		/* some assignment has a finite cost */
	/*
	 * Proven.  If not, the nodes ran out: the choice is the best seen, or
	 * none was seen and feasible is false.
	 */
	bool exact;
	/*
	 * No cost was compared: what is forbidden leaves one choice, whatever
	 * all else costs.
	 */
	bool forced;
	double cost;		/* the sum of all tables; or INFINITY */
	uint32_t *choice;	/* by variable; in the arena of solve_run */
	uint32_t width;		/* most variables of a table that was made */
	double states;		/* assignments that eliminating looked at */
	uint32_t nodes;		/* values that were tried one by one */
	/* If not feasible: where a conflict showed first; or SOLVE_NO_VAR. */
	uint32_t bad_var;
};

struct solve *solve_new(struct arena *a);
/* Its number: 0, 1, 2 ...  Its values are 0 .. domain-1, at most 256. */
uint32_t solve_var(struct solve *s, uint32_t domain);
/*
 * Adds a table over those variables in that order, the last fastest; it is
 * copied.  INFINITY forbids; all else is finite, negative too, and the sum
 * of all magnitudes must be finite.  A variable may stand twice: then only
 * the entries count where both agree.
 */
void solve_factor(struct solve *s, uint32_t nvars, const uint32_t *vars,
		  const double *table);
/*
 * Tables of one variable, and of two that differ: their numbers.  What they
 * say is told before solve_run, and again before another: cost[] is not
 * copied.  Of two, the entry at values a of u and b of v is at a * of_u +
 * b * of_v; of one, at its value.
 */
struct solve_strides {
	size_t of_u, of_v;
};
uint32_t solve_open(struct solve *s, uint32_t v);
uint32_t solve_open_pair(struct solve *s, uint32_t u, uint32_t v,
			 struct solve_strides *strides);
void solve_tell(struct solve *s, uint32_t table, double *cost);
/*
 * The choice depends on the variables, the limits and the set of the tables,
 * not on the order in which these came.  Where the values of one variable
 * are compared and cost the same, the lower one is kept; the choice need not
 * be the lexicographically smallest of all optima.  The cost is least up to
 * the rounding of its sum.  May be called again after more additions, or
 * when other entries were told.
 */
struct solve_result solve_run(struct solve *s, struct arena *tmp);

#endif
