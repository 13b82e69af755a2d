/*
 * Plans that were made before.  A search poses many problems that differ in
 * their costs and come down to one graph, on which alone it hangs in which
 * order to eliminate: each is known by 128 bits of a hash of the graph.
 */
#include "passes/solve/solve_net.h"

/* How to eliminate nets of one graph. */
struct plan_known {
	struct hash graph;
	struct solve_plan plan;
};

struct solve_memo {
	struct arena *arena;
	VEC(struct plan_known) plans;	/* the first is none */
	struct table table;
};

#define FEW 8			/* variables: planned as quickly as found */

struct solve_memo *
solve_memo_new(struct arena *a)
{
	struct solve_memo *m = arena_alloc(a, sizeof *m);

	m->arena = a;
	VEC_PUSH(a, &m->plans, (struct plan_known){ 0 });
	return m;
}

/* What a plan hangs on: how many values there are, and which tables. */
static struct hash
hash_graph(const struct solve_net *net, double max_entries)
{
	struct hash hash = { 3, 4 };
	uint32_t k, j;

	hash_add(&hash, num_bits(max_entries));
	hash_add(&hash, net->nvars);
	for (k = 0; k < net->nvars; k++) {
		hash_add(&hash, net->domain[k]);
	}
	for (k = 0; k < net->ntables; k++) {
		const struct solve_table *t = &net->tables[k];

		hash_add(&hash, t->nvars);
		for (j = 0; j < t->nvars; j++) {
			hash_add(&hash, t->vars[j]);
		}
	}
	return hash;
}

static void *
keep(struct solve_memo *m, const void *at, uint32_t n, size_t bytes)
{
	return arena_dup(m->arena, at, n * bytes);
}

void
solve_plan_again(struct solve_memo *m, struct solve_net *net,
		 double max_entries, struct solve_plan *plan)
{
	struct plan_known x;
	uint32_t at = 0;

	if (!m || net->nvars < FEW) {
		solve_plan(net, max_entries, plan);
		return;
	}
	x.graph = hash_graph(net, max_entries);
	while ((at = table_find(&m->table, x.graph.a, at)) != 0) {
		if (hash_same(m->plans.at[at].graph, x.graph)) {
			*plan = m->plans.at[at].plan;
			return;
		}
	}
	solve_plan(net, max_entries, plan);
	x.plan = *plan;
	x.plan.order = keep(m, plan->order, plan->n, sizeof *plan->order);
	x.plan.weight = keep(m, plan->weight, plan->n, sizeof *plan->weight);
	x.plan.scopes = keep(m, plan->scopes, plan->n + 1,
			     sizeof *plan->scopes);
	x.plan.scope = keep(m, plan->scope, plan->scopes[plan->n],
			    sizeof *plan->scope);
	x.plan.sums = keep(m, plan->sums, plan->n + 1, sizeof *plan->sums);
	x.plan.tables = keep(m, plan->tables, plan->sums[plan->n],
			     sizeof *plan->tables);
	x.plan.core = keep(m, plan->core, plan->ncore, sizeof *plan->core);
	table_add(m->arena, &m->table, x.graph.a);
	VEC_PUSH(m->arena, &m->plans, x);
}
