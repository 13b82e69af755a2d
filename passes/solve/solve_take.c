/*
 * A problem becomes a net.  Variables of one value are none, so some tables
 * come down to others, and those of the same variables become one.  Which do
 * hangs on what was added alone: it is found once, and where the problem is
 * posed again with other entries, these are all that is looked at.
 */
#include "passes/solve/solve_net.h"

#include <math.h>
#include <string.h>

/* Tables of the problem that come down to the same variables. */
struct group {
	uint32_t first, n;	/* in from[] */
};

struct solve_taken {
	uint32_t nvars, ntables;	/* that the problem had */
	struct solve_net net;		/* but for all that has entries */
	uint32_t *own;		/* by variable: its only table alone, or none */
	uint32_t *from;		/* tables, group by group */
	struct group none;	/* of no variable */
	struct group *alone;	/* by variable of the net: of it, but its own */
	struct group *table;	/* by table of the net */
	size_t nvalues, nentries;	/* of the net */
};

#define NONE UINT32_MAX

/* ---- which there are ---- */

/* The variables that have a choice, and the numbers that they get. */
static uint32_t *
take_variables(const struct solve *s, struct solve_taken *t,
	       struct solve_scratch *room)
{
	uint32_t *to = solve_get(room, t->nvars * sizeof *to), v, n = 0;
	struct solve_net *net = &t->net;
	uint8_t *values = arena_alloc_raw(s->arena, SOLVE_MAX_DOMAIN);

	for (v = 0; v < SOLVE_MAX_DOMAIN; v++) {
		values[v] = (uint8_t)v;
	}
	net->id = arena_alloc_raw(s->arena, t->nvars * sizeof *net->id);
	net->domain = arena_alloc_raw(s->arena, t->nvars * sizeof *net->domain);
	net->value = arena_alloc_raw(s->arena, t->nvars * sizeof *net->value);
	for (v = 0; v < t->nvars; v++) {
		to[v] = s->domain.at[v] > 1 ? n : NONE;
		if (s->domain.at[v] > 1) {
			net->id[n] = v;
			net->domain[n] = s->domain.at[v];
			net->value[n++] = values;
			t->nvalues += s->domain.at[v];
		}
	}
	net->nvars = n;
	return to;
}

/* Most variables have one table of their own: what their values cost. */
static void
take_own(const struct solve *s, struct solve_taken *t)
{
	uint32_t k, v;

	t->own = arena_alloc_raw(s->arena, t->nvars * sizeof *t->own);
	memset(t->own, 0xff, t->nvars * sizeof *t->own);
	for (k = 0; k < t->ntables; k++) {
		if (s->tables.at[k].nvars == 1) {
			v = s->tables.at[k].vars[0];
			t->own[v] = t->own[v] == NONE ? k : t->ntables;
		}
	}
	for (v = 0; v < t->nvars; v++) {
		t->own[v] = t->own[v] == t->ntables ? NONE : t->own[v];
	}
}

/* The other tables, by what is left of their variables; n is their number. */
static uint32_t
take_others(const struct solve *s, const struct solve_taken *t,
	    const uint32_t *to, struct solve_table *out, uint32_t *vars)
{
	uint32_t k, j, n = 0;

	for (k = 0; k < t->ntables; k++) {
		const struct solve_table *in = &s->tables.at[k];
		struct solve_table *x = &out[n];

		if (in->nvars == 1 && t->own[in->vars[0]] == k) {
			continue;
		}
		*x = (struct solve_table){ .vars = vars, .n = k };
		for (j = 0; j < in->nvars; j++) {
			if (to[in->vars[j]] != NONE) {
				vars[x->nvars++] = to[in->vars[j]];
			}
		}
		vars += x->nvars;
		n++;
	}
	return n;
}

static void
take_group(const struct solve *s, struct solve_taken *t,
	   const struct solve_table *x, struct group g)
{
	struct solve_net *net = &t->net;
	struct solve_table *to = &net->tables[net->ntables];

	if (x->nvars == 0) {
		t->none = g;
	} else if (x->nvars == 1) {
		t->alone[x->vars[0]] = g;
	} else {
		*to = *x;
		to->n = s->tables.at[x->n].n;
		to->vars = arena_dup(s->arena, x->vars,
				     x->nvars * sizeof *x->vars);
		t->table[net->ntables++] = g;
		t->nentries += to->n;
	}
}

static void
take_groups(const struct solve *s, struct solve_taken *t,
	    const struct solve_table *x, uint32_t n)
{
	struct solve_net *net = &t->net;
	struct group g = { 0, 0 };
	uint32_t k, many = 0;

	for (k = 0; k < n; k++) {
		many += k == 0 || !solve_same_scope(&x[k - 1], &x[k]);
	}
	net->tables = arena_alloc_raw(s->arena, many * sizeof *net->tables);
	net->cap = many;
	t->table = arena_alloc_raw(s->arena, many * sizeof *t->table);
	t->alone = arena_alloc(s->arena, net->nvars * sizeof *t->alone);
	t->from = arena_alloc_raw(s->arena, n * sizeof *t->from);
	for (; g.first < n; g.first += g.n) {
		for (g.n = 0; g.first + g.n < n && (g.n == 0 ||
		     solve_same_scope(&x[g.first], &x[g.first + g.n]));
		     g.n++) {
			t->from[g.first + g.n] = (uint32_t)x[g.first + g.n].n;
		}
		take_group(s, t, &x[g.first], g);
	}
}

/* The lists are made in the room, and kept. */
static void
keep_lists(const struct solve *s, struct solve_net *net)
{
	uint32_t all = 0, v, *at;

	solve_list_tables(net);
	for (v = 0; v < net->nvars; v++) {
		all += net->of[v].n;
	}
	net->of = arena_dup(s->arena, net->of, net->nvars * sizeof *net->of);
	at = arena_dup(s->arena, net->nvars ? net->of[0].at : &all,
		       all * sizeof *at);
	for (v = 0; v < net->nvars; at += net->of[v++].n) {
		net->of[v].at = at;
	}
}

static void
take_all(struct solve *s, struct solve_pool *pool)
{
	struct solve_taken *t = arena_alloc(s->arena, sizeof *t);
	struct solve_scratch *room = &t->net.room;
	struct solve_table *x;
	uint32_t *to, *vars, k, n = 0;

	t->nvars = s->domain.n;
	t->ntables = s->tables.n;
	room->pool = pool;
	to = take_variables(s, t, room);
	take_own(s, t);
	for (k = 0; k < t->ntables; k++) {
		n += s->tables.at[k].nvars;
	}
	x = solve_get(room, t->ntables * sizeof *x);
	vars = solve_get(room, n * sizeof *vars);
	n = take_others(s, t, to, x, vars);
	solve_sort_scopes(&t->net, x, n);
	take_groups(s, t, x, n);
	keep_lists(s, &t->net);
	solve_leave(room);
	s->taken = t;
}

/* ---- what they say ---- */

static bool
is_finite(const double *cost, size_t n)
{
	size_t i;

	for (i = 0; i < n && cost[i] < INFINITY; i++) {
	}
	return i == n;
}

/* Adds a group and one more table, or NONE, in an order of their entries. */
static void
add_group(const struct solve *s, struct solve_net *net, struct group g,
	  uint32_t more, double *sum, size_t n)
{
	const uint32_t *from = s->taken->from + g.first;
	struct solve_table *x = solve_get(&net->room, (g.n + 1) * sizeof *x);
	uint32_t k;

	for (k = 0; k < g.n + (more != NONE); k++) {
		x[k] = s->tables.at[k < g.n ? from[k] : more];
		x[k].nvars = 0;
	}
	solve_sort_same(x, k);
	for (g.n = k, k = 0; k < g.n; k++) {
		solve_add(sum, x[k].cost, n);
	}
	solve_put(&net->room, x);
}

/* What is paid whatever is chosen. */
static void
sum_base(const struct solve *s, struct solve_net *net, uint32_t *choice)
{
	const struct solve_taken *t = s->taken;
	uint32_t v;

	for (v = 0; v < t->nvars; v++) {
		if (s->domain.at[v] == 1) {
			choice[v] = 0;
			net->base += t->own[v] == NONE ? 0
				: s->tables.at[t->own[v]].cost[0];
		}
	}
	add_group(s, net, t->none, NONE, &net->base, 1);
}

static void
sum_unary(const struct solve *s, struct solve_net *net)
{
	const struct solve_taken *t = s->taken;
	double *row = solve_zero(&net->room, t->nvalues * sizeof *row);
	uint32_t v;

	net->unary = solve_get(&net->room, net->nvars * sizeof *net->unary);
	for (v = 0; v < net->nvars; v++) {
		uint32_t n = net->domain[v], own = t->own[net->id[v]];
		const double *cost = own == NONE ? NULL
			: s->tables.at[own].cost;

		net->unary[v] = row;
		if (cost && (!t->alone[v].n || is_finite(cost, n))) {
			memcpy(row, cost, n * sizeof *row);
			own = NONE;
		}
		if (t->alone[v].n) {
			add_group(s, net, t->alone[v], own, row, n);
		}
		row += n;
	}
}

static void
sum_tables(const struct solve *s, struct solve_net *net)
{
	const struct solve_taken *t = s->taken;
	double *cost = solve_get(&net->room, t->nentries * sizeof *cost);
	uint32_t k;

	net->tables = solve_get(&net->room, net->cap * sizeof *net->tables);
	memcpy(net->tables, t->net.tables,
	       net->ntables * sizeof *net->tables);
	for (k = 0; k < net->ntables; k++) {
		struct solve_table *x = &net->tables[k];
		uint32_t from = t->from[t->table[k].first];

		x->cost = cost;
		if (t->table[k].n == 1) {
			memcpy(cost, s->tables.at[from].cost,
			       x->n * sizeof *cost);
		} else {
			memset(cost, 0, x->n * sizeof *cost);
			add_group(s, net, t->table[k], NONE, cost, x->n);
		}
		cost += x->n;
	}
}

struct solve_net *
solve_take_in(struct solve_run *r)
{
	struct solve *s = r->s;
	struct solve_scratch room = { &r->pool, NULL };
	struct solve_net *net;
	uint32_t v;

	for (v = 0; v < s->domain.n; v++) {
		if (s->domain.at[v] == 0) {
			r->result->bad_var = v;
			return NULL;
		}
	}
	if (!s->taken || s->taken->nvars != s->domain.n ||
	    s->taken->ntables != s->tables.n) {
		take_all(s, &r->pool);
	}
	net = solve_get(&room, sizeof *net);
	*net = s->taken->net;
	net->room = room;
	sum_base(s, net, r->result->choice);
	sum_unary(s, net);
	sum_tables(s, net);
	return net;
}
