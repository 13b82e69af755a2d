/*
 * Elimination and pruning in turns.  A variable whose elimination makes a small
 * table goes first: the table then has the costs that its neighbours' values
 * imply, and most of them are beaten by others.  So the middle of a program,
 * where elimination alone would look at millions of assignments, is reduced to
 * a few.
 *
 * The result is not an answer but a smaller problem: it has all values of all
 * assignments that cost as little as the best up to rounding.  Which of these
 * is chosen is decided by elimination in the order of the whole problem, and
 * does not depend on this file.
 */
#include "passes/solve/solve_net.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define WIDER 2			/* the limit on entries grows by this factor per
				 * turn */
#define MAX_TURNS 12
#define MAX_LOOKS 4096	/* assignments of a scope that are looked at for one
			 * variable */

/* One turn: what was eliminated of its net. */
struct reduce_turn {
	struct solve_net *net;
	struct solve_steps steps;
};

struct reduce {
	struct solve_state *run;
	struct reduce_turn turns[MAX_TURNS];
	uint32_t n;
	double slack;
	size_t *first;		/* by the user's variable, its first place in
				 * open[] */
	bool *open;		/* by value: an assignment near the best may
				 * have it */
};

/* What is left of the turn's net, pruned; NULL if nothing is feasible. */
static struct solve_net *
rest_of(struct reduce *r, struct solve_net *net, const struct solve_plan *p)
{
	uint32_t *tables = solve_alloc(&net->mem, net->ntables *
				       sizeof *tables), k, bad;
	struct solve_part core = { .vars = p->core, .nvars = p->ncore,
				   .tables = tables }, all;
	struct solve_net *rest, *small = NULL;

	for (k = 0; k < net->ntables; k++) {
		if (!net->tables[k].spent) {
			tables[core.ntables++] = k;
		}
	}
	rest = solve_restrict(net, &core, r->run->choice);
	/* assignments that cost as little as the best must stay */
	if (solve_prune(rest, 2 * r->slack, &bad)) {
		all = solve_whole_net(rest);
		small = solve_restrict(rest, &all, r->run->choice);
	}
	solve_net_free(rest);
	return small;
}

/* Frees no net: each is needed on the way back. */
static bool
take_turns(struct reduce *r, struct solve_net *net,
	   const struct solve_plan *whole)
{
	double entries = SOLVE_FEW_ENTRIES, most = r->run->s->max_entries;
	struct solve_plan p;
	uint32_t bad;

	for (; net; entries *= WIDER) {
		struct reduce_turn *t = &r->turns[r->n++];

		t->net = net;
		t->steps.keep = true;
		if (whole) {
			solve_plan_start(net, whole, entries, &p);
		} else {
			solve_plan(net, entries, &p);
		}
		whole = NULL;
		r->run->result->states += p.states;
		if (!solve_eliminate(net, &p, &t->steps, &bad)) {
			return false;
		}
		if (p.ncore == 0) {
			return true;
		}
		if (r->n == MAX_TURNS || entries * WIDER > most) {
			return false;
		}
		net = rest_of(r, net, &p);
	}
	return false;
}

/* ---- the way back: all values that may be chosen ---- */

/*
 * Marks the values of variables before the turns; a variable without a mark
 * belongs to a step.
 */
static void
begin(struct reduce *r, struct solve_net *net)
{
	const struct solve *s = r->run->s;
	size_t n = 0;
	uint32_t v;

	r->first = solve_alloc(&net->mem, s->domain.n * sizeof *r->first);
	for (v = 0; v < s->domain.n; v++) {
		r->first[v] = n;
		n += s->domain.at[v];
	}
	r->open = solve_calloc(&net->mem, n);
	for (v = 0; v < net->nvars; v++) {
		r->run->choice[net->id[v]] = SOLVE_NO_VAR;
	}
}

/* One step of a turn on the way back. */
struct scope_walk {
	struct reduce *r;
	const struct reduce_turn *turn;
	struct solve_bucket step;
	uint32_t *at;		/* by variable: the value it has in this
				 * assignment */
	bool *open;		/* of the step's variable */
	uint32_t n, left;	/* looks so far; values that are not open */
};

/*
 * Opens values of the variable that cost little more than its best one beside
 * at[].
 */
static void
look_at(struct scope_walk *l)
{
	const struct solve_net *net = l->turn->net;
	uint32_t v = l->step.var, a;
	double sums[SOLVE_MAX_DOMAIN], least = INFINITY;

	solve_value_sums(net, &l->step, l->at, sums);
	for (a = 0; a < net->domain[v]; a++) {
		least = sums[a] < least ? sums[a] : least;
	}
	for (a = 0; a < net->domain[v]; a++) {
		bool *open = &l->open[net->value[v][a]];

		if (!*open && !(sums[a] - least > l->r->slack)) {
			*open = true;
			l->left--;
		}
	}
}

/*
 * Looks at all assignments of open values of the scope from place k on; false:
 * they are too many.
 */
static bool
look(struct scope_walk *l, uint32_t k)
{
	const struct solve_net *net = l->turn->net;
	const bool *open;
	uint32_t v, a;

	if (k == l->step.nscope) {
		look_at(l);
		return ++l->n <= MAX_LOOKS;
	}
	v = l->step.scope[k];
	open = l->r->open + l->r->first[net->id[v]];
	for (a = 0; a < net->domain[v] && l->left; a++) {
		l->at[v] = a;
		if (open[net->value[v][a]] && !look(l, k + 1)) {
			return false;
		}
	}
	return true;
}

static bool
open_steps(struct reduce *r, const struct reduce_turn *t)
{
	struct scope_walk l = { .r = r, .turn = t };
	uint32_t k = t->steps.plan.n;

	l.at = solve_alloc(&t->net->mem, t->net->nvars * sizeof *l.at);
	while (k-- > 0) {
		uint32_t v = t->steps.plan.order[k];

		l.step = solve_bucket(&t->steps.plan, k);
		l.open = r->open + r->first[t->net->id[v]];
		l.left = t->net->domain[v];
		l.n = 0;
		if (!look(&l, 0)) {
			return false;
		}
	}
	return true;
}

/* False if there are too many. */
static bool
find_open(struct reduce *r, const struct solve_net *net)
{
	uint32_t v, k;

	for (v = 0; v < net->nvars; v++) {
		uint32_t only = r->run->choice[net->id[v]];

		if (only != SOLVE_NO_VAR) {
			r->open[r->first[net->id[v]] + only] = true;
		}
	}
	for (k = r->n; k-- > 0;) {
		if (!open_steps(r, &r->turns[k])) {
			return false;
		}
	}
	return true;
}

/* The net of the open values. */
static struct solve_net *
narrow(struct reduce *r, struct solve_net *net, bool all_stay)
{
	struct solve_part all = solve_whole_net(net);
	struct solve_net view = *net;
	uint32_t v, a;

	view.unary = solve_alloc(&net->mem, net->nvars * sizeof *view.unary);
	for (v = 0; v < net->nvars; v++) {
		const bool *open = r->open + r->first[net->id[v]];
		size_t bytes = net->domain[v] * sizeof **view.unary;

		view.unary[v] = solve_alloc(&net->mem, bytes);
		for (a = 0; a < net->domain[v]; a++) {
			view.unary[v][a] = open[net->value[v][a]]
				? net->unary[v][a] : INFINITY;
		}
	}
	return solve_restrict(&view, &all, all_stay ? NULL : r->run->choice);
}

struct solve_net *
solve_reduce(struct solve_state *run, struct solve_net *net,
	     const struct solve_plan *plan, bool all_stay)
{
	struct reduce r = { .run = run };
	struct solve_net *small = NULL;
	uint32_t k;

	r.slack = 1e4 * DBL_EPSILON * solve_scale(net);
	begin(&r, net);
	if (take_turns(&r, solve_net_share(net), plan) && find_open(&r, net)) {
		small = narrow(&r, net, all_stay);
	}
	for (k = 0; k < r.n; k++) {
		solve_net_free(r.turns[k].net);
	}
	return small;
}
