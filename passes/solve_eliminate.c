/*
 * Eliminating: the tables of a variable are summed and replaced by one that
 * says, for each assignment of its neighbours, what the variable's best
 * value costs.  Which value that is gets noted for the way back.
 */
#include "passes/solve_net.h"

#include <math.h>
#include <string.h>

/* One of the tables that are summed, and how it follows the assignment. */
struct term {
	const double *at;	/* the entry at the assignment so far */
	size_t of_var, of_last;	/* strides; 0 if it does not vary */
	size_t *of_scope;	/* by place in the scope, but the last */
};

struct bucket {
	struct solve_net *net;
	struct solve_room room;	/* for one elimination */
	uint32_t var;
	uint32_t *scope, nscope;
	struct term *terms;
	uint32_t nterms;
	uint32_t nfixed;	/* the first do not vary with the last */
	size_t last;		/* domain of the scope's last; 1 if empty */
	double *row;		/* by value of the last */
	uint32_t *at;		/* odometer over the scope but the last */
};

static size_t
stride_in(const struct solve_net *net, const struct solve_table *t,
	  uint32_t var)
{
	size_t step = 1;
	uint32_t k;

	for (k = t->nvars; k-- > 0; step *= net->domain[t->vars[k]]) {
		if (t->vars[k] == var) {
			return step;
		}
	}
	return 0;
}

static void
add_to_scope(struct bucket *b, const struct solve_table *t)
{
	uint32_t *sum = solve_get(&b->room, (b->nscope + t->nvars) *
				  sizeof *sum);
	uint32_t i = 0, j = 0, n = 0;

	while (i < b->nscope || j < t->nvars) {
		uint32_t u;

		if (j == t->nvars ||
		    (i < b->nscope && b->scope[i] <= t->vars[j])) {
			u = b->scope[i];
			j += j < t->nvars && t->vars[j] == u;
			i++;
		} else {
			u = t->vars[j++];
		}
		if (u != b->var) {
			sum[n++] = u;
		}
	}
	b->scope = sum;
	b->nscope = n;
}

/* The tables that vary with the scope's last variable, or those that don't. */
static void
add_terms(struct bucket *b, bool fixed)
{
	const struct solve_list *of = &b->net->of[b->var];
	uint32_t k, j;

	for (k = 0; k < of->n; k++) {
		const struct solve_table *t = &b->net->tables[of->at[k]];
		struct term *e = &b->terms[b->nterms];

		e->at = t->cost;
		e->of_last = b->nscope && t->cost ?
			stride_in(b->net, t, b->scope[b->nscope - 1]) : 0;
		if (!t->cost || (e->of_last == 0) != fixed) {
			continue;
		}
		b->nterms++;
		e->of_var = stride_in(b->net, t, b->var);
		e->of_scope = solve_get(&b->room, b->nscope *
					sizeof *e->of_scope);
		for (j = 0; j < b->nscope; j++) {
			e->of_scope[j] = stride_in(b->net, t, b->scope[j]);
		}
	}
}

static void
open_bucket(struct bucket *b, struct solve_net *net, uint32_t var)
{
	const struct solve_list *of = &net->of[var];
	uint32_t k;

	memset(b, 0, sizeof *b);
	b->net = net;
	b->room.pool = net->room.pool;
	b->var = var;
	/* one more: where the one that is left out was tried */
	b->terms = solve_get(&b->room, (of->n + 1) * sizeof *b->terms);
	for (k = 0; k < of->n; k++) {
		if (net->tables[of->at[k]].cost) {
			add_to_scope(b, &net->tables[of->at[k]]);
		}
	}
	b->last = b->nscope ? net->domain[b->scope[b->nscope - 1]] : 1;
	b->at = solve_zero(&b->room, b->nscope * sizeof *b->at);
	b->row = solve_get(&b->room, b->last * sizeof *b->row);
	add_terms(b, true);
	b->nfixed = b->nterms;
	add_terms(b, false);
}

/* Adds a row of a term; the plain cases are apart to become vectors. */
static void
add_row(double *sum, size_t n, const double *c, size_t stride)
{
	size_t i;

	if (stride == 0) {
		for (i = 0; i < n; i++) {
			sum[i] += *c;
		}
	} else if (stride == 1) {
		for (i = 0; i < n; i++) {
			sum[i] += c[i];
		}
	} else {
		for (i = 0; i < n; i++) {
			sum[i] += c[i * stride];
		}
	}
}

/* Where value a of the variable is cheaper, it is the best so far. */
static void
keep_best(const double *row, size_t n, uint32_t a, double *cost,
	  uint8_t *best)
{
	size_t i;

	/* without a jump: which one is cheaper cannot be foretold */
	for (i = 0; i < n; i++) {
		bool less = row[i] < cost[i];

		cost[i] = less ? row[i] : cost[i];
		best[i] = less ? (uint8_t)a : best[i];
	}
}

/* All values of the scope's last variable, for the assignment so far. */
static void
fill_row(struct bucket *b, double *cost, uint8_t *best)
{
	uint32_t values = b->net->domain[b->var], a, k;
	size_t i;

	for (a = 0; a < values; a++) {
		double *row = a ? b->row : cost;
		double fixed = b->net->unary[b->var][a];

		for (k = 0; k < b->nfixed; k++) {
			fixed += b->terms[k].at[a * b->terms[k].of_var];
		}
		for (i = 0; i < b->last; i++) {
			row[i] = fixed;
		}
		for (; k < b->nterms; k++) {
			const struct term *e = &b->terms[k];

			add_row(row, b->last, e->at + a * e->of_var,
				e->of_last);
		}
		if (a == 0) {
			memset(best, 0, b->last);
		} else {
			keep_best(row, b->last, a, cost, best);
		}
	}
}

/* On to the next assignment of the scope, but for its last variable. */
static void
advance(struct bucket *b)
{
	uint32_t k = b->nscope - 1, i;

	while (k-- > 0) {
		uint32_t n = b->net->domain[b->scope[k]];
		bool wraps = ++b->at[k] == n;

		for (i = 0; i < b->nterms; i++) {
			struct term *e = &b->terms[i];

			if (wraps) {
				e->at -= e->of_scope[k] * (n - 1);
			} else {
				e->at += e->of_scope[k];
			}
		}
		if (!wraps) {
			return;
		}
		b->at[k] = 0;
	}
}

static void
fill(struct bucket *b, double *cost, uint8_t *best, size_t n)
{
	size_t done;

	for (done = 0; done < n; done += b->last) {
		fill_row(b, cost + done, best + done);
		if (b->nscope > 1) {
			advance(b);
		}
	}
}

static bool
all_forbidden(const double *cost, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (cost[i] < INFINITY) {
			return false;
		}
	}
	return true;
}

/* The table that takes the place of the bucket's; false on a conflict. */
static bool
deliver(struct bucket *b, double *cost, size_t n)
{
	struct solve_net *net = b->net;
	struct solve_table t = { .nvars = b->nscope, .n = n, .cost = cost };
	uint32_t k;

	if (b->nscope == 0) {
		net->base += cost[0];
		return cost[0] < INFINITY;
	}
	if (b->nscope == 1) {
		double *unary = net->unary[b->scope[0]];

		add_row(unary, n, cost, 1);
		return !all_forbidden(unary, n);
	}
	t.vars = solve_get(&net->room, t.nvars * sizeof *t.vars);
	memcpy(t.vars, b->scope, t.nvars * sizeof *t.vars);
	if (net->ntables == net->cap) {
		struct solve_table *old = net->tables;

		net->cap = 2 * net->cap + 8;
		net->tables = solve_get(&net->room, net->cap * sizeof *old);
		memcpy(net->tables, old, net->ntables * sizeof *old);
	}
	for (k = 0; k < t.nvars; k++) {
		solve_push(&net->room, &net->of[t.vars[k]], net->ntables);
	}
	net->tables[net->ntables++] = t;
	return !all_forbidden(cost, n);
}

static bool
eliminate(struct solve_net *net, uint32_t var, struct solve_step *step)
{
	struct bucket b;
	double *cost;
	size_t n = 1;
	uint32_t k;
	bool ok;

	open_bucket(&b, net, var);
	for (k = 0; k < b.nscope; k++) {
		n *= net->domain[b.scope[k]];
	}
	step->var = var;
	step->nscope = b.nscope;
	step->scope = solve_get(&net->room, b.nscope * sizeof *step->scope);
	if (b.nscope) {
		memcpy(step->scope, b.scope, b.nscope * sizeof *b.scope);
	}
	step->best = solve_get(&net->room, n);
	cost = solve_get(&net->room, n * sizeof *cost);
	fill(&b, cost, step->best, n);
	ok = deliver(&b, cost, n);
	if (b.nscope < 2) {
		solve_put(&net->room, cost);
	}
	for (k = 0; k < net->of[var].n; k++) {
		struct solve_table *t = &net->tables[net->of[var].at[k]];

		if (t->cost) {
			solve_put(&net->room, t->cost);
			t->cost = NULL;
		}
	}
	solve_leave(&b.room);
	return ok;
}

bool
solve_eliminate(struct solve_net *net, const struct solve_plan *p,
		struct solve_steps *steps, uint32_t *bad)
{
	uint32_t k;

	steps->n = p->n;
	steps->at = solve_zero(&net->room, p->n * sizeof *steps->at);
	for (k = 0; k < p->n; k++) {
		if (!eliminate(net, p->order[k], &steps->at[k])) {
			*bad = net->id[p->order[k]];
			return false;
		}
	}
	return true;
}

/* The place of the user's value among those of the net. */
static uint32_t
place_of(const struct solve_net *net, uint32_t v, uint32_t value)
{
	uint32_t a = 0;

	while (net->value[v][a] != value) {
		a++;
	}
	return a;
}

void
solve_back(const struct solve_net *net, const struct solve_steps *steps,
	   uint32_t *choice)
{
	uint32_t k, j;

	for (k = steps->n; k-- > 0;) {
		const struct solve_step *s = &steps->at[k];
		size_t at = 0;

		for (j = 0; j < s->nscope; j++) {
			uint32_t v = s->scope[j];

			at = at * net->domain[v] +
			     place_of(net, v, choice[net->id[v]]);
		}
		choice[net->id[s->var]] = net->value[s->var][s->best[at]];
	}
}
