/*
 * Eliminating and pruning in turns.  A variable whose elimination makes a
 * small table is in no hurry to be kept: once it is gone, the table says what
 * the values of its neighbours come to, and most of them are beaten.  So the
 * wide middle of a program, where eliminating alone would take millions of
 * states, comes down to a few.
 *
 * What comes out is not an answer but a smaller problem, of all values that
 * some answer needs which costs as little as the best, up to what rounding
 * may do.  Which of those is kept is decided by eliminating as ever, in the
 * order of the whole problem: it does not hang on this file.
 */
#include "passes/solve/solve_net.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define WIDER 2			/* so many times more in each turn */
#define MAX_TURNS 12
#define MAX_LOOKS 4096	/* at assignments of a scope, for one variable */

/* One turn: what was eliminated of its net. */
struct turn {
	struct solve_net *net;
	struct solve_steps steps;
};

struct reduce {
	struct solve_run *run;
	struct turn turns[MAX_TURNS];
	uint32_t n;
	double slack;
	size_t *first;		/* of a user's variable in open[] */
	bool *open;		/* by value: some answer may need it */
};

/* What is left of the turn's net, pruned; NULL if that cannot be. */
static struct solve_net *
rest_of(struct reduce *r, struct solve_net *net, const struct solve_plan *p)
{
	uint32_t *tables = solve_get(&net->room, net->ntables *
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
	/* what costs as little as the best must not be lost */
	if (solve_prune(rest, 2 * r->slack, &bad)) {
		all = solve_whole(rest);
		small = solve_restrict(rest, &all, r->run->choice);
	}
	solve_net_free(rest);
	return small;
}

/* Frees nothing: each net stays for the way back. */
static bool
take_turns(struct reduce *r, struct solve_net *net,
	   const struct solve_plan *whole)
{
	double entries = SOLVE_FEW_ENTRIES, most = r->run->s->max_entries;
	struct solve_plan p;
	uint32_t bad;

	for (; net; entries *= WIDER) {
		struct turn *t = &r->turns[r->n++];

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

/* ---- the way back, with all that may be ---- */

/* Before the turns; a choice they leave out is of a step. */
static void
begin(struct reduce *r, struct solve_net *net)
{
	const struct solve *s = r->run->s;
	size_t n = 0;
	uint32_t v;

	r->first = solve_get(&net->room, s->domain.n * sizeof *r->first);
	for (v = 0; v < s->domain.n; v++) {
		r->first[v] = n;
		n += s->domain.at[v];
	}
	r->open = solve_zero(&net->room, n);
	for (v = 0; v < net->nvars; v++) {
		r->run->choice[net->id[v]] = SOLVE_NO_VAR;
	}
}

/* One step of a turn on the way back. */
struct look {
	struct reduce *r;
	const struct turn *turn;
	struct solve_bucket step;
	uint32_t *at;		/* by variable: the value that is looked at */
	bool *open;		/* of the step's variable */
	uint32_t n, left;	/* looks so far; values that are not open */
};

/* Its values that come close beside those of the scope. */
static void
look_at(struct look *l)
{
	const struct solve_net *net = l->turn->net;
	uint32_t v = l->step.var, a;
	double sums[SOLVE_MAX_DOMAIN], least = INFINITY;

	solve_sums(net, &l->step, l->at, sums);
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

/* Wherever the scope is open, from its place k on; false: that is too much. */
static bool
look(struct look *l, uint32_t k)
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
open_steps(struct reduce *r, const struct turn *t)
{
	struct look l = { .r = r, .turn = t };
	uint32_t k = t->steps.plan.n;

	l.at = solve_get(&t->net->room, t->net->nvars * sizeof *l.at);
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

/* False if too much is open. */
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

/* The net of what is open. */
static struct solve_net *
narrow(struct reduce *r, struct solve_net *net, bool all_stay)
{
	struct solve_part all = solve_whole(net);
	struct solve_net view = *net;
	uint32_t v, a;

	view.unary = solve_get(&net->room, net->nvars * sizeof *view.unary);
	for (v = 0; v < net->nvars; v++) {
		const bool *open = r->open + r->first[net->id[v]];
		size_t bytes = net->domain[v] * sizeof **view.unary;

		view.unary[v] = solve_get(&net->room, bytes);
		for (a = 0; a < net->domain[v]; a++) {
			view.unary[v][a] = open[net->value[v][a]]
				? net->unary[v][a] : INFINITY;
		}
	}
	return solve_restrict(&view, &all, all_stay ? NULL : r->run->choice);
}

struct solve_net *
solve_reduce(struct solve_run *run, struct solve_net *net,
	     const struct solve_plan *plan, bool all_stay)
{
	struct reduce r = { .run = run };
	struct solve_net *small = NULL;
	uint32_t k;

	r.slack = 1e4 * DBL_EPSILON * solve_scale(net);
	begin(&r, net);
	if (take_turns(&r, solve_share(net), plan) && find_open(&r, net)) {
		small = narrow(&r, net, all_stay);
	}
	for (k = 0; k < r.n; k++) {
		solve_net_free(r.turns[k].net);
	}
	return small;
}
