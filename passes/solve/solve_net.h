/*
 * Between the files of the solver; nobody else includes this.  A net is a
 * problem on its way to being solved: variables that still have a choice,
 * numbered 0 .. nvars-1, and what the rest has come down to.
 *
 * Sections follow the .c file that defines them.
 */
#ifndef PASSES_SOLVE_NET_H
#define PASSES_SOLVE_NET_H

#include "passes/solve/solve.h"

/* ---- solve_net.c: memory that comes back, and nets -------------------- */

#define SOLVE_CLASSES 48

struct solve_block;

/* Blocks of 2^k bytes that nobody needs now; the arena below never frees. */
struct solve_pool {
	struct arena *arena;
	struct solve_block *free[SOLVE_CLASSES];
};

/* Blocks that are given back together, or one by one before. */
struct solve_scratch {
	struct solve_pool *pool;
	struct solve_block *blocks;
};

void *solve_get(struct solve_scratch *r, size_t bytes);	/* not zeroed */
void *solve_zero(struct solve_scratch *r, size_t bytes);
void solve_put(struct solve_scratch *r, void *p);
void solve_leave(struct solve_scratch *r);

struct solve_list {
	uint32_t *at, n, cap;
};

void solve_push(struct solve_scratch *r, struct solve_list *l, uint32_t item);

struct solve_net {
	struct solve_scratch room; /* of all below, and of the net */
	uint32_t nvars;
	uint32_t *id;			/* the user's variable */
	uint32_t *domain;
	uint8_t **value;		/* the user's values, ascending */
	double **unary;			/* INFINITY: the value is dropped */
	struct solve_table *tables;	/* of at least two variables */
	uint32_t ntables, cap;
	struct solve_list *of;		/* by variable: its tables, ascending */
	double base;			/* what is certain to be paid */
	bool compared;			/* a value was dropped for another */
};

/* Some variables and all tables among them. */
struct solve_part {
	const uint32_t *vars, *tables;
	uint32_t nvars, ntables;
};

/*
 * That part of the net without dropped values and without the variables
 * that are left with one, whose values go to choice[].  Tables over the same
 * variables become one, summed in an order that depends on nothing but their
 * entries.  Every variable must have a value.  The old net stays.  Without
 * choice[], variables of one value stay too.
 */
struct solve_net *solve_restrict(const struct solve_net *in,
				 const struct solve_part *part,
				 uint32_t *choice);
/* A net that may be eliminated in the place of this one, which stays. */
struct solve_net *solve_share(const struct solve_net *in);
/* Tables by their variables; those of the same ones stay in their order. */
void solve_sort_scopes(struct solve_net *net, struct solve_table *t,
		       uint32_t n);
bool solve_same_scope(const struct solve_table *a,
		      const struct solve_table *b);
/* Of the same variables, by their entries. */
void solve_sort_same(struct solve_table *t, uint32_t n);
void solve_add(double *sum, const double *more, size_t n);
/* Each variable's tables. */
void solve_list_tables(struct solve_net *net);
/* The part that is all of the net, in its room. */
struct solve_part solve_whole(struct solve_net *net);
void solve_net_free(struct solve_net *net);

/* A variable in a table: entry = (outer * domain + value) * inner + rest. */
struct solve_axis {
	size_t outer, inner;
	uint32_t domain;
};
struct solve_axis solve_axis(const struct solve_net *net,
			     const struct solve_table *t, uint32_t var);
/* Drops a value: unary and all entries become INFINITY. */
void solve_drop(struct solve_net *net, uint32_t var, uint32_t value);

/* ---- solve_take.c: a problem becomes a net ----------------------------- */

struct solve_run;

/* All that was added; NULL if some variable has no value. */
struct solve_net *solve_take_in(struct solve_run *r);

/* ---- solve_prune.c: values that no best answer needs ------------------- */

/*
 * Drops what another value beats by `margin` or more; 0: also what is worth
 * the same.  False if a variable has no value left: it is *bad.
 */
bool solve_prune(struct solve_net *net, double margin, uint32_t *bad);

/* ---- solve_bound.c: from below and from above -------------------------- */

struct solve_bounds {
	double low;		/* no assignment costs less */
	double high;		/* one that costs so much; or INFINITY */
	uint32_t *values;	/* it, by variable of the net */
	bool dropped;		/* some value was dropped */
};

/*
 * Drops values which only assignments above the smaller of `high` and what
 * is found itself can have.  False if a variable has no value left.
 */
bool solve_bound(struct solve_net *net, double high, struct solve_bounds *b);
/* Sum of the largest magnitudes of all tables: the scale of rounding. */
double solve_scale(const struct solve_net *net);

/* ---- solve_plan.c: which variable goes when ---------------------------- */

struct solve_plan {
	uint32_t *order, n;	/* variables that can be eliminated */
	double *weight;		/* of each step: entries that it makes */
	uint32_t width;
	double states;
	/*
	 * Of step k: whom its variable is next to then, ascending, are
	 * scope[scopes[k]] .. scope[scopes[k + 1] - 1], and so of tables, in
	 * the order of their sums.  Those that are made, of two variables at
	 * least, have the numbers behind those of the net.
	 */
	uint32_t *scopes, *scope, *sums, *tables;
	/* The rest: each step from here on would make too large a table. */
	uint32_t *core, ncore;
	uint32_t branch;	/* the one of most neighbours in the core */
};

/* One step of it. */
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
 * The same of fewer entries, from that of more: as each step is the smallest
 * that there is, it is how that one starts.  It has no branch.
 */
void solve_plan_start(struct solve_net *net, const struct solve_plan *whole,
		      double max_entries, struct solve_plan *p);
/*
 * What solve_plan makes, or made for another net of the same graph: a search
 * poses many problems that differ in their costs alone.  m may be NULL.
 */
void solve_plan_known(struct memo *m, struct solve_net *net,
		      double max_entries, struct solve_plan *plan);

/* ---- solve_eliminate.c: one variable after the other ------------------- */

struct solve_steps {
	struct solve_plan plan;
	/* of each step, by values of its scope, the last fastest */
	uint8_t **best;
	bool keep;		/* tables, for solve_sums: no best is noted */
};

/* False if a conflict showed, at variable *bad; the net is then of no use. */
bool solve_eliminate(struct solve_net *net, const struct solve_plan *p,
		     struct solve_steps *steps, uint32_t *bad);
/*
 * What each value of a step's variable costs beside what at[] says of its
 * scope, by variable of the net: to the last bit what it was found to cost.
 */
void solve_sums(const struct solve_net *net, const struct solve_bucket *b,
		const uint32_t *at, double *sums);
/*
 * Where value a of the variable is cheaper, it is the best so far.  best:
 * NULL if that is not noted.
 */
void solve_least(const double *row, size_t n, uint32_t a, double *cost,
		 uint8_t *best);
/* Chooses for the steps' variables, those of the core being chosen. */
void solve_back(const struct solve_net *net, const struct solve_steps *steps,
		uint32_t *choice);

/* ---- solve_pairs.c: eliminating where it is simple -------------------- */

#define SOLVE_PAIR_SUMS 4096	/* entries that are made, at most */

/*
 * Fills cost[] of a step, and best[] if there is one; row[] is as long.
 * False: the scope is larger, or the tables are.
 */
bool solve_pairs(const struct solve_net *net, const struct solve_bucket *b,
		 double *row, double *cost, uint8_t *best);

/* ---- solve_reduce.c: eliminating and pruning in turns ------------------ */

/* Tables of so many entries are made at once, wider ones after pruning. */
#define SOLVE_FEW_ENTRIES 64

/*
 * The net, of that plan, without values that no best choice needs, those that
 * are nearly as good being kept.  If all_stay, its variables and tables are
 * the same, of fewer entries; else the choice has the variables of one value.
 * NULL if that is too much work, or there is no choice.  The old net stays.
 */
struct solve_net *solve_reduce(struct solve_run *run, struct solve_net *net,
			       const struct solve_plan *plan, bool all_stay);

/* ---- solve_search.c: trying values where eliminating is too much ------- */

struct solve_run {
	struct solve_pool pool;
	struct solve *s;
	struct solve_result *result;
	uint32_t *choice;	/* work in progress, by the user's variable */
	uint32_t *best;		/* of the net that is searched */
	double best_cost, slack;
};

/*
 * Solves a net that solve_prune has been through, puts the choice of its
 * variables into the result, and frees it.  False if nothing was found.
 */
bool solve_search(struct solve_run *r, struct solve_net *net);

#endif
