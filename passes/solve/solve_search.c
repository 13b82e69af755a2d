/*
 * Solves one net: by elimination alone where that makes no too large table.
 * Otherwise depth first: the variable of most neighbours in what is left has
 * its values tried one by one, and a value whose lower bound is not below the
 * best cost so far is skipped.
 */
#include "passes/solve/solve_net.h"

#include <math.h>
#include <string.h>

/* Where elimination looks at fewer assignments, bounds do not pay. */
#define CHEAP_STATES (1 << 24)
/*
 * Reducing takes as long as so many assignments of large tables for each
 * variable.  Where max_entries is smaller, trying values was asked for (by
 * tests).
 */
#define WIDE_STATES 100
#define MANY_ENTRIES (1 << 16)
#define MAX_ROUNDS 6	/* of bounds at one level */

/* One variable whose values are being tried. */
struct branch_level {
	struct solve_net *net;	/* what is left of it is the core */
	struct solve_steps steps;	/* how the other variables were
					 * eliminated */
	struct solve_part core;
	uint32_t var;
	double *cost;		/* by value; the net has INFINITY for all of
				 * them */
	uint32_t *order, n, next;	/* its values, cheapest first */
};

struct branching {
	struct solve_state *run;
	VEC(struct branch_level) levels;
	uint32_t *ids, nids;	/* the user's variables of the net */
};

static void
note_conflict(struct branching *s, uint32_t bad)
{
	if (s->run->result->bad_var == SOLVE_NO_VAR) {
		s->run->result->bad_var = bad;
	}
}

/*
 * The innermost net is solved: chooses the variables of all levels around it.
 */
static void
take(struct branching *s, double cost)
{
	uint32_t k;

	if (!(cost < s->run->best_cost)) {
		return;
	}
	s->run->best_cost = cost;
	for (k = s->levels.n; k-- > 0;) {
		solve_choose_back(s->levels.at[k].net, &s->levels.at[k].steps,
				  s->run->choice);
	}
	for (k = 0; k < s->nids; k++) {
		s->run->best[s->ids[k]] = s->run->choice[s->ids[k]];
	}
}

/* The net without dropped values; the old one is freed. */
static struct solve_net *
shrink(struct branching *s, struct solve_net *net)
{
	struct solve_part all = solve_whole_net(net);
	struct solve_net *smaller = solve_restrict(net, &all, s->run->choice);

	solve_net_free(net);
	return smaller;
}

/*
 * Finds bounds and drops values by them; NULL, the net being freed, if it has
 * nothing better than the best so far.
 */
static struct solve_net *
tighten(struct branching *s, struct solve_net *net, bool *dropped)
{
	struct solve_bounds b;
	bool left = solve_bound(net, s->run->best_cost, &b);
	uint32_t v, bad = SOLVE_NO_VAR;

	if (b.high < s->run->best_cost) {
		for (v = 0; v < net->nvars; v++) {
			s->run->choice[net->id[v]] =
				net->value[v][b.values[v]];
		}
		take(s, b.high);
	}
	*dropped = b.dropped;
	if (left && b.low < s->run->best_cost - s->run->slack &&
	    (!b.dropped || solve_prune(net, 0, &bad))) {
		return b.dropped ? shrink(s, net) : net;
	}
	solve_net_free(net);
	return NULL;
}

static void
sort_values(struct branch_level *l)
{
	const double *cost = l->cost;
	uint32_t a, k;

	for (a = 0; a < l->net->domain[l->var]; a++) {
		if (!(cost[a] < INFINITY)) {
			continue;
		}
		for (k = l->n++; k > 0 && cost[a] < cost[l->order[k - 1]];
		     k--) {
			l->order[k] = l->order[k - 1];
		}
		l->order[k] = a;
	}
}

static void
open_level(struct branching *s, struct solve_net *net,
	   const struct solve_plan *plan, struct solve_steps steps)
{
	struct branch_level l = { .net = net, .steps = steps,
				  .var = plan->branch };
	size_t n = net->domain[l.var];
	uint32_t *tables, k;

	tables = solve_alloc(&net->mem, net->ntables * sizeof *tables);
	l.core.vars = plan->core;
	l.core.nvars = plan->ncore;
	l.core.tables = tables;
	for (k = 0; k < net->ntables; k++) {
		if (!net->tables[k].spent) {
			tables[l.core.ntables++] = k;
		}
	}
	l.cost = solve_alloc(&net->mem, n * sizeof *l.cost);
	l.order = solve_alloc(&net->mem, n * sizeof *l.order);
	memcpy(l.cost, net->unary[l.var], n * sizeof *l.cost);
	sort_values(&l);
	for (k = 0; k < n; k++) {
		net->unary[l.var][k] = INFINITY;
	}
	VEC_PUSH(s->run->pool.arena, &s->levels, l);
}

static bool
has_choice(const struct solve_net *net)
{
	uint32_t v;

	for (v = 0; v < net->nvars; v++) {
		if (net->domain[v] > 1) {
			return true;
		}
	}
	return false;
}

/* Whether reducing first is less work than elimination alone. */
static bool
is_wide(const struct solve_net *net, const struct solve_plan *plan)
{
	double states = 0;
	uint32_t k;

	for (k = 0; k < plan->n; k++) {
		if (plan->weight[k] > SOLVE_FEW_ENTRIES) {
			states += plan->weight[k] *
				  net->domain[plan->order[k]];
		}
	}
	return states > (double)WIDE_STATES * net->nvars;
}

/*
 * A smaller net with the same solution, or the net itself.  By a plan that
 * eliminates all, the smaller net is eliminated to the same choice.  Otherwise
 * what is left is pruned and planned anew.  If all is chosen then, variables of
 * one value stay out: as all tables are equally small, any order would do for
 * them, also one that makes tables of a hundred variables.  The old net stays,
 * as its scratch has the plan.
 */
static struct solve_net *
reduce(struct branching *s, struct solve_net *net, struct solve_plan *plan)
{
	bool plain = !plan->ncore && plan->states <= CHEAP_STATES;
	struct solve_net *small;
	uint32_t bad;

	if (s->levels.n || s->run->s->max_entries < MANY_ENTRIES ||
	    (plain && !is_wide(net, plan))) {
		return net;
	}
	small = solve_reduce(s->run, net, plan, plain);
	if (!small) {
		return net;
	}
	if (plain ? !has_choice(small) : solve_prune(small, 0, &bad)) {
		small = shrink(s, small);
	}
	if (!plain || small->nvars == 0) {
		solve_plan(small, s->run->s->max_entries, plan);
	}
	plan->states = 0;	/* they are few beside those that reducing
				 * looked at */
	return small;
}

static bool
needs_bounds(const struct solve_plan *plan)
{
	return plan->ncore || plan->states > CHEAP_STATES;
}

/*
 * Solves a net, which has been pruned and shrunk, and frees it, or opens a
 * level for what is left of it.
 */
static void
enter(struct branching *s, struct solve_net *net)
{
	struct solve_result *res = s->run->result;
	struct solve_steps steps = { .keep = false };
	const struct solve_net *whole = net;
	struct solve_plan plan;
	bool dropped = true;
	uint32_t round, bad;

	solve_plan_known(s->run->s->memo, net, s->run->s->max_entries, &plan);
	net = reduce(s, net, &plan);
	if (!s->levels.n && needs_bounds(&plan)) {
		s->run->slack = solve_scale(whole) * 1e-15;
	}
	for (round = 0; round < MAX_ROUNDS && dropped &&
	     needs_bounds(&plan); round++) {
		net = tighten(s, net, &dropped);
		if (!net) {
			return;
		}
		solve_plan(net, s->run->s->max_entries, &plan);
	}
	res->states += plan.states;
	res->width = plan.width > res->width ? plan.width : res->width;
	if (!solve_eliminate(net, &plan, &steps, &bad)) {
		note_conflict(s, bad);
		solve_net_free(net);
		return;
	}
	if (plan.ncore) {
		open_level(s, net, &plan, steps);
		return;
	}
	if (net->base < s->run->best_cost) {
		solve_choose_back(net, &steps, s->run->choice);
		take(s, net->base);
	}
	solve_net_free(net);
}

/* Tries the innermost level's next value. */
static void
try_next(struct branching *s)
{
	struct branch_level *l = &s->levels.at[s->levels.n - 1];
	double *unary = l->net->unary[l->var];
	uint32_t a = l->order[l->next++], bad = SOLVE_NO_VAR;
	struct solve_net *net;

	s->run->result->nodes++;
	unary[a] = l->cost[a];
	net = solve_restrict(l->net, &l->core, s->run->choice);
	unary[a] = INFINITY;
	if (net->base < INFINITY && solve_prune(net, 0, &bad)) {
		enter(s, shrink(s, net));
	} else {
		note_conflict(s, bad);
		solve_net_free(net);
	}
}

bool
solve_search(struct solve_state *r, struct solve_net *net)
{
	struct branching s = { .run = r, .nids = net->nvars };
	uint32_t k;

	s.ids = arena_dup(r->pool.arena, net->id, s.nids * sizeof *s.ids);
	r->best_cost = INFINITY;
	enter(&s, net);
	while (s.levels.n) {
		struct branch_level *l = &s.levels.at[s.levels.n - 1];

		if (l->next < l->n &&
		    r->result->nodes < r->s->max_nodes) {
			try_next(&s);
			continue;
		}
		if (l->next < l->n) {
			r->result->exact = false;
		}
		solve_net_free(l->net);
		s.levels.n--;
	}
	for (k = 0; k < s.nids && r->best_cost < INFINITY; k++) {
		r->result->choice[s.ids[k]] = r->best[s.ids[k]];
	}
	return r->best_cost < INFINITY;
}
