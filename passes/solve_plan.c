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
	p->weight[v] = w;
	heap_push(p, (struct weighed){ w, v });
}

/* near[v] becomes its union with `more`, without v and `gone` themselves. */
static void
join(struct planner *p, uint32_t v, const struct solve_list *more,
     uint32_t gone)
{
	struct solve_list *l = &p->near[v], sum = { .cap = l->n + more->n };
	uint32_t i = 0, j = 0;

	sum.at = solve_get(&p->room, sum.cap * sizeof *sum.at);
	while (i < l->n || j < more->n) {
		uint32_t u;

		if (j == more->n || (i < l->n && l->at[i] <= more->at[j])) {
			u = l->at[i];
			j += j < more->n && more->at[j] == u;
			i++;
		} else {
			u = more->at[j++];
		}
		if (u != v && u != gone) {
			sum.at[sum.n++] = u;
		}
	}
	if (l->at) {
		solve_put(&p->room, l->at);
	}
	*l = sum;
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
	p->weight = solve_get(&p->room, n * sizeof *p->weight);
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
	plan->core = solve_get(&net->room, net->nvars * sizeof *plan->core);
	while (lightest(&p, max_entries, &v)) {
		const struct solve_list *near = &p.near[v];

		p.gone[v] = true;
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
