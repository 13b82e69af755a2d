/*
 * Builds the net of a problem.  Variables of one value are left out, so that
 * some tables become smaller, and tables of the same variables become one.
 * Which do follows from the variables and tables alone: it is found once, and
 * when the problem is solved again with other entries only these are read.
 */
#include "passes/solve/solve_net.h"

#include <math.h>
#include <string.h>

/* Tables of the problem that become one of the net. */
struct group {
	uint32_t first, n;	/* in from[] */
};

struct solve_layout {
	uint32_t nvars, ntables;	/* of the problem when this was found */
	struct solve_net net;		/* without entries */
	uint32_t *own;		/* by variable: its table of one, if that is
				 * read in place; or none */
	uint32_t *from;		/* tables, group by group */
	struct group none;	/* tables of no variable that has a choice */
	struct group *alone;	/* by variable of the net: its tables of one,
				 * without own[] */
	struct group *table;	/* by table of the net */
	size_t nvalues, nentries;	/* of the net */
};

#define NONE UINT32_MAX

/* ---- variables and tables ---- */

/* Numbers the variables that have a choice. */
static uint32_t *
take_variables(const struct solve *s, struct solve_layout *t,
	       struct solve_scratch *mem)
{
	uint32_t *to = solve_alloc(mem, t->nvars * sizeof *to), v, n = 0;
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

/* Most variables have one table of their own: the costs of its values. */
static void
take_own(const struct solve *s, struct solve_layout *t)
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

/*
 * Sorts the other tables by what is left of their variables; n is their number.
 */
static uint32_t
take_others(const struct solve *s, const struct solve_layout *t,
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
take_group(const struct solve *s, struct solve_layout *t,
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
take_groups(const struct solve *s, struct solve_layout *t,
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

/* The lists are made in scratch memory, and kept. */
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
	struct solve_layout *t = arena_alloc(s->arena, sizeof *t);
	struct solve_scratch *mem = &t->net.mem;
	struct solve_table *x;
	uint32_t *to, *vars, k, n = 0;

	t->nvars = s->domain.n;
	t->ntables = s->tables.n;
	mem->pool = pool;
	to = take_variables(s, t, mem);
	take_own(s, t);
	for (k = 0; k < t->ntables; k++) {
		n += s->tables.at[k].nvars;
	}
	x = solve_alloc(mem, t->ntables * sizeof *x);
	vars = solve_alloc(mem, n * sizeof *vars);
	n = take_others(s, t, to, x, vars);
	solve_sort_scopes(&t->net, x, n);
	take_groups(s, t, x, n);
	keep_lists(s, &t->net);
	solve_scratch_release(mem);
	s->layout = t;
}

/* ---- entries ---- */

static bool
is_finite(const double *cost, size_t n)
{
	size_t i;

	for (i = 0; i < n && cost[i] < INFINITY; i++) {
	}
	return i == n;
}

/*
 * Adds up a group and one more table, or NONE, in an order that depends on
 * their entries alone.
 */
static void
add_group(const struct solve *s, struct solve_net *net, struct group g,
	  uint32_t more, double *sum, size_t n)
{
	const uint32_t *from = s->layout->from + g.first;
	struct solve_table *x = solve_alloc(&net->mem, (g.n + 1) * sizeof *x);
	uint32_t k;

	for (k = 0; k < g.n + (more != NONE); k++) {
		x[k] = s->tables.at[k < g.n ? from[k] : more];
		x[k].nvars = 0;
	}
	solve_sort_same(x, k);
	for (g.n = k, k = 0; k < g.n; k++) {
		solve_add_costs(sum, x[k].cost, n);
	}
	solve_free(&net->mem, x);
}

/* The cost of all that has no choice. */
static void
sum_base(const struct solve *s, struct solve_net *net, uint32_t *choice)
{
	const struct solve_layout *t = s->layout;
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
	const struct solve_layout *t = s->layout;
	double *row = solve_calloc(&net->mem, t->nvalues * sizeof *row);
	uint32_t v;

	net->unary = solve_alloc(&net->mem, net->nvars * sizeof *net->unary);
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
	const struct solve_layout *t = s->layout;
	double *cost = solve_alloc(&net->mem, t->nentries * sizeof *cost);
	uint32_t k;

	net->tables = solve_alloc(&net->mem, net->cap * sizeof *net->tables);
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
solve_build(struct solve_state *r)
{
	struct solve *s = r->s;
	struct solve_scratch mem = { &r->pool, NULL };
	struct solve_net *net;
	uint32_t v;

	for (v = 0; v < s->domain.n; v++) {
		if (s->domain.at[v] == 0) {
			r->result->bad_var = v;
			return NULL;
		}
	}
	if (!s->layout || s->layout->nvars != s->domain.n ||
	    s->layout->ntables != s->tables.n) {
		take_all(s, &r->pool);
	}
	net = solve_alloc(&mem, sizeof *net);
	*net = s->layout->net;
	net->mem = mem;
	sum_base(s, net, r->result->choice);
	sum_unary(s, net);
	sum_tables(s, net);
	return net;
}
