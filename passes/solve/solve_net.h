/*
 * Private to passes/solve/.  A net is a problem that is being solved: the
 * variables that still have a choice, numbered 0 .. nvars-1, and the tables
 * that are left.
 *
 * Sections follow the .c file that defines them.
 */
#ifndef PASSES_SOLVE_NET_H
#define PASSES_SOLVE_NET_H

#include "passes/solve/solve.h"

/* ---- solve_net.c: memory that is reused, and nets --------------------- */

#define SOLVE_CLASSES 48

struct solve_block;

/*
 * Free blocks by the power of two of their size; the arena is where new ones
 * are allocated, and frees none.
 */
struct solve_pool {
	struct arena *arena;
	struct solve_block *free[SOLVE_CLASSES];
};

/* Blocks that are freed together, or one by one before. */
struct solve_scratch {
	struct solve_pool *pool;
	struct solve_block *blocks;
};

void *solve_alloc(struct solve_scratch *r, size_t bytes);	/* not zeroed */
void *solve_calloc(struct solve_scratch *r, size_t bytes);
void solve_free(struct solve_scratch *r, void *p);
void solve_scratch_release(struct solve_scratch *r);

struct solve_list {
	uint32_t *at, n, cap;
};

void solve_list_push(struct solve_scratch *r, struct solve_list *l,
		     uint32_t item);

struct solve_net {
	struct solve_scratch mem; /* has the net and all arrays below */
	uint32_t nvars;
	uint32_t *id;			/* the user's variable */
	uint32_t *domain;
	uint8_t **value;		/* the user's values, ascending */
	double **unary;			/* INFINITY: the value is dropped */
	struct solve_table *tables;	/* of at least two variables */
	uint32_t ntables, cap;
	struct solve_list *of;		/* by variable: its tables, ascending */
	double base;			/* the cost of all that is decided */
	bool compared;			/* a value was dropped as another costs
					 * less */
};

/* Some variables and all tables among them. */
struct solve_part {
	const uint32_t *vars, *tables;
	uint32_t nvars, ntables;
};

/*
 * The part of a net without dropped values and without variables of one value,
 * whose values go to choice[]; if choice is NULL, they stay variables.  Tables
 * over the same variables become one, summed in an order that depends on
 * nothing but their entries.  Every variable must have a value.  The old net
 * stays as it is.
 */
struct solve_net *solve_restrict(const struct solve_net *in,
				 const struct solve_part *part,
				 uint32_t *choice);
/*
 * A net with arrays of its own for what elimination changes; it shares all else
 * with the net that it is made of, which stays as it is.
 */
struct solve_net *solve_net_share(const struct solve_net *in);
/*
 * Sorts tables by their variables; those of the same variables keep their
 * order.
 */
void solve_sort_scopes(struct solve_net *net, struct solve_table *t,
		       uint32_t n);
bool solve_same_scope(const struct solve_table *a,
		      const struct solve_table *b);
/* Sorts tables of the same variables by their entries. */
void solve_sort_same(struct solve_table *t, uint32_t n);
void solve_add_costs(double *sum, const double *more, size_t n);
/* Fills net->of. */
void solve_list_tables(struct solve_net *net);
/* All variables and tables of the net; in net->mem. */
struct solve_part solve_whole_net(struct solve_net *net);
void solve_net_free(struct solve_net *net);

/*
 * Where a variable is in a table: entry = (outer * domain + value) * inner +
 * rest.
 */
struct solve_axis {
	size_t outer, inner;
	uint32_t domain;
};
struct solve_axis solve_axis(const struct solve_net *net,
			     const struct solve_table *t, uint32_t var);
/*
 * Drops a value: its unary cost and all entries that have it become INFINITY.
 */
void solve_drop_value(struct solve_net *net, uint32_t var, uint32_t value);

/* ---- solve_build.c: a problem becomes a net ----------------------------- */

struct solve_state;

/* The net of all that was added; NULL if some variable has no value. */
struct solve_net *solve_build(struct solve_state *r);

/* ---- solve_prune.c: values that no best assignment needs --------------- */

/*
 * Drops each value that costs more than another one by at least the margin,
 * whatever the other variables are; margin 0 also drops the higher of two that
 * cost the same.  False if a variable has no value left: *bad is that one.
 */
bool solve_prune(struct solve_net *net, double margin, uint32_t *bad);

/* ---- solve_bound.c: lower and upper bounds ----------------------------- */

struct solve_bounds {
	double low;		/* no assignment costs less */
	double high;		/* the cost of `values`, or INFINITY */
	uint32_t *values;	/* an assignment, by variable of the net */
	bool dropped;		/* some value was dropped */
};

/*
 * Finds bounds, and drops values that only assignments above the smaller of
 * `high` and b->high have.  False if a variable has no value left.
 */
bool solve_bound(struct solve_net *net, double high, struct solve_bounds *b);
/*
 * The sum of the largest magnitudes of all tables: rounding errors are small
 * fractions of it.
 */
double solve_scale(const struct solve_net *net);

/* ---- solve_plan.c: in which order variables are eliminated ------------- */

struct solve_plan {
	uint32_t *order, n;	/* variables that can be eliminated */
	double *weight;		/* by step: entries of the table it makes */
	uint32_t width;
	double states;
	/*
	 * Of step k, scope[scopes[k]] .. scope[scopes[k + 1] - 1] are the
	 * neighbours that its variable then has, ascending. tables[sums[k]] ..
	 * are the tables that it sums, in that order; tables that steps make,
	 * of two variables at least, are numbered after those of the net.
	 */
	uint32_t *scopes, *scope, *sums, *tables;
	/*
	 * What is left: eliminating any of these would make too large a table.
	 */
	uint32_t *core, ncore;
	uint32_t branch;	/* of these, the one of most neighbours */
};

/* One step of a plan. */
struct solve_bucket {
	uint32_t var, nscope, ntables;
	uint32_t *scope;
	const uint32_t *tables;
};

static inline struct solve_bucket
solve_bucket(const struct solve_plan *p, uint32_t k)
{
	return (struct solve_bucket){
		p->order[k], p->scopes[k + 1] - p->scopes[k],
		p->sums[k + 1] - p->sums[k], p->scope + p->scopes[k],
		p->tables + p->sums[k]
	};
}

void solve_plan(struct solve_net *net, double max_entries,
		struct solve_plan *p);
/*
 * The beginning of a plan up to the first table of more than max_entries.  Each
 * step makes the smallest table possible then, so it is the plan that
 * solve_plan would make with that limit; only `branch` is not set.
 */
void solve_plan_start(struct solve_net *net, const struct solve_plan *whole,
		      double max_entries, struct solve_plan *p);
/*
 * Same as solve_plan, but a plan that was made for another net of the same
 * graph is copied from the memo, which may be NULL: a search poses many
 * problems that differ in their costs alone.
 */
void solve_plan_known(struct memo *m, struct solve_net *net,
		      double max_entries, struct solve_plan *plan);

/* ---- solve_eliminate.c: one variable after another --------------------- */

struct solve_steps {
	struct solve_plan plan;
	/*
	 * by step, by assignment of its scope, the last variable changing
	 * fastest: the best value
	 */
	uint8_t **best;
	bool keep;		/* keep tables for solve_value_sums, and set no
				 * `best` */
};

/*
 * False if some assignment of a scope leaves no value: *bad is that variable,
 * and the net is not usable any more.
 */
bool solve_eliminate(struct solve_net *net, const struct solve_plan *p,
		     struct solve_steps *steps, uint32_t *bad);
/*
 * sums[]: the cost of each value of a step's variable, where at[] has the
 * values of its scope by variable of the net; bit for bit what elimination
 * found.
 */
void solve_value_sums(const struct solve_net *net, const struct solve_bucket *b,
		      const uint32_t *at, double *sums);
/*
 * Chooses values for the variables of all steps, from the last step to the
 * first; those of the core are chosen before.
 */
void solve_choose_back(const struct solve_net *net,
		       const struct solve_steps *steps, uint32_t *choice);

/* ---- solve_pairs.c: eliminating where it is simple --------------------- */

#define SOLVE_PAIR_SUMS 4096	/* of the new table, at most */

/*
 * Fills cost[] of a step, and best[] unless that is NULL; row[] is scratch of
 * the same length.  False: the scope has more than two variables or one of the
 * tables does.
 */
bool solve_pairs(const struct solve_net *net, const struct solve_bucket *b,
		 double *row, double *cost, uint8_t *best);
/*
 * Where value a of the variable costs less than cost[], that is set to it, and
 * best[], unless that is NULL, to a.
 */
void solve_keep_least(const double *row, size_t n, uint32_t a, double *cost,
		      uint8_t *best);

/* ---- solve_reduce.c: eliminating and pruning in turns ------------------ */

/*
 * Tables of up to so many entries are made at once, larger ones after pruning.
 */
#define SOLVE_FEW_ENTRIES 64

/*
 * The net without values that no assignment near the best one has.  If
 * all_stay, it has the same variables and tables, of fewer values; otherwise
 * variables of one value are chosen and go.  NULL if that takes too much work,
 * or nothing is feasible.  The old net stays as it is.
 */
struct solve_net *solve_reduce(struct solve_state *run, struct solve_net *net,
			       const struct solve_plan *plan, bool all_stay);

/* ---- solve_search.c: trying values where eliminating is too much ------- */

struct solve_state {
	struct solve_pool pool;
	struct solve *s;
	struct solve_result *result;
	uint32_t *choice;	/* so far, by the user's variable */
	uint32_t *best;		/* of the net that is searched */
	double best_cost, slack;
};

/*
 * Solves a net that solve_prune has pruned, writes the values of its variables
 * into the result, and frees it.  False if no assignment was found.
 */
bool solve_search(struct solve_state *r, struct solve_net *net);

#endif
