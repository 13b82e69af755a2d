/*
 * In which order to eliminate: always the variable whose elimination makes
 * the smallest table, the lowest of equals.  Done on the graph alone, so
 * that it is known what the work will be before any of it is done.
 */
#include "passes/solve_net.h"

#include <string.h>

struct weighed {
	double weight;		/* entries of the table that it would make */
	uint32_t var;
};

struct planner {
	struct solve_net *net;
	struct solve_room room;
	struct solve_list *near;	/* neighbours, ascending */
	double *weight;		/* by variable; the heap may hold older ones */
	bool *gone;
	struct weighed *heap;
	uint32_t nheap, cap;
};

static bool
lighter(struct weighed a, struct weighed b)
{
	return a.weight < b.weight ||
	       (a.weight <= b.weight && a.var < b.var);
}

static void
heap_push(struct planner *p, struct weighed w)
{
	uint32_t i = p->nheap++;

	if (i == p->cap) {
		struct weighed *old = p->heap;

		p->cap *= 2;
		p->heap = solve_get(&p->room, p->cap * sizeof *p->heap);
		memcpy(p->heap, old, i * sizeof *old);
		solve_put(&p->room, old);
	}
	for (; i > 0 && lighter(w, p->heap[(i - 1) / 2]); i = (i - 1) / 2) {
		p->heap[i] = p->heap[(i - 1) / 2];
	}
	p->heap[i] = w;
}

static struct weighed
heap_pop(struct planner *p)
{
	struct weighed top = p->heap[0], w = p->heap[--p->nheap];
	uint32_t i = 0, c;

	while ((c = 2 * i + 1) < p->nheap) {
		if (c + 1 < p->nheap && lighter(p->heap[c + 1], p->heap[c])) {
			c++;
		}
		if (!lighter(p->heap[c], w)) {
			break;
		}
		p->heap[i] = p->heap[c];
		i = c;
	}
	p->heap[i] = w;
	return top;
}

static void
weigh(struct planner *p, uint32_t v)
{
	double w = 1;
	uint32_t k;

	for (k = 0; k < p->near[v].n; k++) {
		w *= p->net->domain[p->near[v].at[k]];
	}
	if (w < p->weight[v] || w > p->weight[v]) {
		p->weight[v] = w;
		heap_push(p, (struct weighed){ w, v });
	}
}

/* Takes one out, and says how many of `more` are missing, but for v. */
static uint32_t
take_out(struct solve_list *l, uint32_t v, const struct solve_list *more,
	 uint32_t gone)
{
	uint32_t n = 0, missing = 0, i, j = 0;

	for (i = 0; i < l->n; i++) {
		for (; j < more->n && more->at[j] < l->at[i]; j++) {
			missing += more->at[j] != v;
		}
		j += j < more->n && more->at[j] == l->at[i];
		if (l->at[i] != gone) {
			l->at[n++] = l->at[i];
		}
	}
	l->n = n;
	for (; j < more->n; j++) {
		missing += more->at[j] != v;
	}
	return missing;
}

/* near[v] becomes its union with `more`, without v and `gone` themselves. */
static void
join(struct planner *p, uint32_t v, const struct solve_list *more,
     uint32_t gone)
{
	struct solve_list *l = &p->near[v];
	uint32_t missing = take_out(l, v, more, gone), to = l->n + missing;
	uint32_t i = l->n, j = more->n, *old = l->at, *at = old;

	if (!missing) {
		return;
	}
	if (to > l->cap) {
		l->cap = 2 * to;
		at = solve_get(&p->room, l->cap * sizeof *at);
	}
	l->n = to;
	while (to) {		/* from the back, so it may be in place */
		if (j && (more->at[j - 1] == v || more->at[j - 1] == gone)) {
			j--;
		} else if (j && (!i || more->at[j - 1] >= old[i - 1])) {
			i -= i && more->at[j - 1] == old[i - 1];
			at[--to] = more->at[--j];
		} else {
			at[--to] = old[--i];
		}
	}
	l->at = at;
}

/* Tables come sorted: of two variables, neighbours are met ascending. */
static void
meet(struct planner *p, uint32_t v, const struct solve_list *scope)
{
	struct solve_list *l = &p->near[v];
	uint32_t other = scope->at[scope->at[0] == v];

	if (scope->n == 2 && (l->n == 0 || l->at[l->n - 1] < other)) {
		solve_push(&p->room, l, other);
	} else {
		join(p, v, scope, SOLVE_NO_VAR);
	}
}

static void
begin(struct planner *p, struct solve_net *net)
{
	uint32_t n = net->nvars, v, k, j;

	memset(p, 0, sizeof *p);
	p->net = net;
	p->room.pool = net->room.pool;
	p->near = solve_zero(&p->room, n * sizeof *p->near);
	p->weight = solve_zero(&p->room, n * sizeof *p->weight);
	p->gone = solve_zero(&p->room, n * sizeof *p->gone);
	p->cap = 2 * n + 2;
	p->heap = solve_get(&p->room, p->cap * sizeof *p->heap);
	for (k = 0; k < net->ntables; k++) {
		const struct solve_table *t = &net->tables[k];
		struct solve_list scope = { t->vars, t->nvars, t->nvars };

		for (j = 0; j < t->nvars; j++) {
			meet(p, t->vars[j], &scope);
		}
	}
	for (v = 0; v < n; v++) {
		weigh(p, v);
	}
}

/* The next to go; false if the smallest table is too large, or none left. */
static bool
lightest(struct planner *p, double max_entries, uint32_t *v)
{
	while (p->nheap) {
		struct weighed w = heap_pop(p);

		if (p->gone[w.var] || w.weight < p->weight[w.var] ||
		    w.weight > p->weight[w.var]) {
			continue;
		}
		*v = w.var;
		return w.weight <= max_entries;
	}
	return false;
}

void
solve_plan(struct solve_net *net, double max_entries, struct solve_plan *plan)
{
	struct planner p;
	uint32_t v, k;

	begin(&p, net);
	memset(plan, 0, sizeof *plan);
	plan->branch = SOLVE_NO_VAR;
	plan->order = solve_get(&net->room, net->nvars * sizeof *plan->order);
	plan->weight = solve_get(&net->room, net->nvars *
				 sizeof *plan->weight);
	plan->core = solve_get(&net->room, net->nvars * sizeof *plan->core);
	while (lightest(&p, max_entries, &v)) {
		const struct solve_list *near = &p.near[v];

		p.gone[v] = true;
		plan->weight[plan->n] = p.weight[v];
		plan->order[plan->n++] = v;
		plan->states += p.weight[v] * net->domain[v];
		if (near->n > plan->width) {
			plan->width = near->n;
		}
		for (k = 0; k < near->n; k++) {
			join(&p, near->at[k], near, v);
			weigh(&p, near->at[k]);
		}
	}
	for (v = 0; v < net->nvars; v++) {
		if (p.gone[v]) {
			continue;
		}
		plan->core[plan->ncore++] = v;
		if (plan->branch == SOLVE_NO_VAR ||
		    p.near[v].n > p.near[plan->branch].n) {
			plan->branch = v;
		}
	}
	solve_leave(&p.room);
}

void
solve_plan_start(struct solve_net *net, const struct solve_plan *whole,
		 double max_entries, struct solve_plan *plan)
{
	bool *gone = solve_zero(&net->room, net->nvars);
	uint32_t v;

	memset(plan, 0, sizeof *plan);
	plan->branch = SOLVE_NO_VAR;
	plan->order = whole->order;
	plan->weight = whole->weight;
	plan->core = solve_get(&net->room, net->nvars * sizeof *plan->core);
	while (plan->n < whole->n && plan->weight[plan->n] <= max_entries) {
		v = plan->order[plan->n];
		gone[v] = true;
		plan->states += plan->weight[plan->n++] * net->domain[v];
	}
	for (v = 0; v < net->nvars; v++) {
		if (!gone[v]) {
			plan->core[plan->ncore++] = v;
		}
	}
}
