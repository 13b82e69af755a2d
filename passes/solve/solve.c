/*
 * The solver's entry: builds a problem, and solves its net part by part, where
 * a part is a connected component of variables and tables.
 */
#include "passes/solve/solve_net.h"

#include <math.h>
#include <string.h>

struct solve *
solve_new(struct arena *a)
{
	struct solve *s = arena_alloc(a, sizeof *s);

	s->arena = a;
	s->max_entries = 1 << 22;
	s->max_nodes = 2000;
	return s;
}

void
solve_reserve(struct solve *s, uint32_t nvars, uint32_t ntables)
{
	s->domain.cap = nvars;
	s->domain.at = arena_alloc_raw(s->arena, nvars * sizeof *s->domain.at);
	s->tables.cap = ntables;
	s->tables.at = arena_alloc_raw(s->arena,
				       ntables * sizeof *s->tables.at);
}

uint32_t
solve_var(struct solve *s, uint32_t domain)
{
	if (domain > SOLVE_MAX_DOMAIN) {
		die("a domain of %u values, at most %u", domain,
		    SOLVE_MAX_DOMAIN);
	}
	VEC_PUSH(s->arena, &s->domain, domain);
	return s->domain.n - 1;
}

/* The table's variables: vars[] sorted, each once. */
static void
set_scope(struct solve *s, struct solve_table *t, uint32_t nvars,
	  const uint32_t *vars)
{
	uint32_t k, j;

	t->vars = arena_alloc_raw(s->arena, nvars * sizeof *t->vars);
	t->n = 1;
	for (k = 0; k < nvars; k++) {
		if (vars[k] >= s->domain.n) {
			die("a table over variable %u of %u", vars[k],
			    s->domain.n);
		}
		for (j = t->nvars; j > 0 && t->vars[j - 1] > vars[k]; j--) {
		}
		if (j > 0 && t->vars[j - 1] == vars[k]) {
			continue;
		}
		memmove(t->vars + j + 1, t->vars + j,
			(t->nvars - j) * sizeof *t->vars);
		t->vars[j] = vars[k];
		t->nvars++;
		t->n *= s->domain.at[vars[k]];
	}
}

/*
 * The stride of each variable in the user's table: the sum over all places
 * where it is listed.
 */
static void
sum_strides(struct solve *s, const struct solve_table *t, uint32_t nvars,
	    const uint32_t *vars, size_t *stride)
{
	size_t step = 1;
	uint32_t k, j;

	for (k = nvars; k-- > 0; step *= s->domain.at[vars[k]]) {
		for (j = 0; t->vars[j] != vars[k]; j++) {
		}
		stride[j] += step;
	}
}

/* Copies the entries into the order of the table's own variables. */
static void
turn(struct solve *s, struct solve_table *t, uint32_t nvars,
     const uint32_t *vars, const double *table)
{
	size_t *stride = arena_alloc(s->arena, nvars * sizeof *stride);
	uint32_t *at = arena_alloc(s->arena, nvars * sizeof *at), k;
	size_t from = 0, i;

	sum_strides(s, t, nvars, vars, stride);
	for (i = 0; i < t->n; i++) {
		t->cost[i] = table[from];
		for (k = t->nvars; k-- > 0;) {
			from += stride[k];
			if (++at[k] < s->domain.at[t->vars[k]]) {
				break;
			}
			from -= stride[k] * at[k];
			at[k] = 0;
		}
	}
}

void
solve_add_table(struct solve *s, uint32_t nvars, const uint32_t *vars,
		const double *table)
{
	struct solve_table t = { .nvars = 0 };
	size_t i;

	set_scope(s, &t, nvars, vars);
	if (t.nvars == nvars && (nvars == 0 ||
	    memcmp(t.vars, vars, nvars * sizeof *vars) == 0)) {
		t.cost = arena_dup(s->arena, table, t.n * sizeof *t.cost);
	} else {
		t.cost = arena_alloc(s->arena, t.n * sizeof *t.cost);
		turn(s, &t, nvars, vars, table);
	}
	for (i = 0; i < t.n; i++) {
		if (!(t.cost[i] > -INFINITY)) {
			die("a cost that is no number or minus infinity");
		}
	}
	VEC_PUSH(s->arena, &s->tables, t);
}

/*
 * Adds a table of one variable, or of u and v, without entries; returns its
 * number.
 */
static uint32_t
add_open(struct solve *s, uint32_t u, uint32_t v)
{
	struct solve_table t = { .nvars = u == v ? 1 : 2 };

	if (u >= s->domain.n || v >= s->domain.n) {
		die("a table over variables %u and %u of %u", u, v,
		    s->domain.n);
	}
	t.vars = arena_alloc_raw(s->arena, 2 * sizeof *t.vars);
	t.vars[0] = u < v ? u : v;
	t.vars[1] = u < v ? v : u;
	t.n = (size_t)s->domain.at[u] * (u == v ? 1 : s->domain.at[v]);
	VEC_PUSH(s->arena, &s->tables, t);
	return s->tables.n - 1;
}

uint32_t
solve_add_unary(struct solve *s, uint32_t v)
{
	return add_open(s, v, v);
}

uint32_t
solve_add_pair(struct solve *s, uint32_t u, uint32_t v,
	       struct solve_strides *strides)
{
	if (u == v) {
		die("a table over variable %u twice", u);
	}
	strides->of_u = u < v ? s->domain.at[v] : 1;
	strides->of_v = u < v ? 1 : s->domain.at[u];
	return add_open(s, u, v);
}

void
solve_set_costs(struct solve *s, uint32_t table, double *cost)
{
	s->tables.at[table].cost = cost;
}

/* ---- solving ---- */

struct net_split {
	bool *idle;		/* by table: it connects nothing */
	uint32_t *part;		/* by variable; or ONE_VALUE */
	struct solve_list *vars, *tables;	/* by part */
	uint32_t n;
};

#define ONE_VALUE (SOLVE_NO_VAR - 1)

/*
 * Whether all entries of a table are the same, for values that are left.  Then
 * they are a part of every assignment's cost.
 */
static bool
is_flat(const struct solve_net *net, const struct solve_table *t)
{
	uint32_t u = t->vars[0], v = t->vars[1], a, b;
	double first = INFINITY;

	for (a = 0; t->nvars == 2 && a < net->domain[u]; a++) {
		for (b = 0; b < net->domain[v]; b++) {
			double cost = t->cost[a * net->domain[v] + b];

			if (!(net->unary[u][a] < INFINITY) ||
			    !(net->unary[v][b] < INFINITY)) {
				continue;
			}
			first = first < INFINITY ? first : cost;
			if (!(cost < INFINITY) || cost < first ||
			    cost > first) {
				return false;
			}
		}
	}
	return t->nvars == 2;
}

/* Gives that number to all variables that are connected to v. */
static void
mark_part(const struct solve_net *net, const bool *idle, uint32_t *part,
	  uint32_t number, uint32_t start, uint32_t *stack)
{
	uint32_t n = 0, k, j;

	part[start] = number;
	stack[n++] = start;
	while (n) {
		const struct solve_list *of = &net->of[stack[--n]];

		for (k = 0; k < of->n; k++) {
			const struct solve_table *t = &net->tables[of->at[k]];

			for (j = 0; !idle[of->at[k]] && j < t->nvars; j++) {
				if (part[t->vars[j]] == SOLVE_NO_VAR) {
					part[t->vars[j]] = number;
					stack[n++] = t->vars[j];
				}
			}
		}
	}
}

/* A variable that has one value left is no part, and gets that value. */
static void
find_single(const struct solve_net *net, uint32_t v, uint32_t *part,
	    uint32_t *choice)
{
	uint32_t n = 0, only = 0, a;

	for (a = 0; a < net->domain[v]; a++) {
		if (net->unary[v][a] < INFINITY) {
			n++;
			only = a;
		}
	}
	part[v] = SOLVE_NO_VAR;
	if (n == 1) {
		part[v] = ONE_VALUE;
		choice[net->id[v]] = net->value[v][only];
	}
}

/* The part of those of the table's variables that have a choice. */
static uint32_t
part_of(const struct net_split *s, const struct solve_table *t)
{
	uint32_t k;

	for (k = 0; k < t->nvars; k++) {
		if (s->part[t->vars[k]] != ONE_VALUE) {
			return s->part[t->vars[k]];
		}
	}
	return ONE_VALUE;
}

/* Adds a table to its part. */
static void
add_table(struct solve_net *net, struct net_split *s, uint32_t k,
	  uint32_t *seen)
{
	const struct solve_table *t = &net->tables[k];
	uint32_t part = part_of(s, t), j;

	if (part == ONE_VALUE || s->idle[k]) {
		return;
	}
	solve_list_push(&net->mem, &s->tables[part], k);
	for (j = 0; j < t->nvars; j++) {
		uint32_t v = t->vars[j];

		if (s->part[v] == ONE_VALUE && seen[v] != part) {
			seen[v] = part;
			solve_list_push(&net->mem, &s->vars[part], v);
		}
	}
}

static void
split(struct solve_net *net, bool cost_only, struct net_split *s,
      uint32_t *choice)
{
	uint32_t n = net->nvars, v, k;
	uint32_t *stack = solve_alloc(&net->mem, n * sizeof *stack);

	s->n = 0;
	s->idle = solve_calloc(&net->mem, net->ntables * sizeof *s->idle);
	for (k = 0; cost_only && k < net->ntables; k++) {
		s->idle[k] = is_flat(net, &net->tables[k]);
	}
	s->part = solve_alloc(&net->mem, n * sizeof *s->part);
	for (v = 0; v < n; v++) {
		find_single(net, v, s->part, choice);
	}
	for (v = 0; v < n; v++) {
		if (s->part[v] == SOLVE_NO_VAR) {
			mark_part(net, s->idle, s->part, s->n++, v, stack);
		}
	}
	s->vars = solve_calloc(&net->mem, s->n * sizeof *s->vars);
	s->tables = solve_calloc(&net->mem, s->n * sizeof *s->tables);
	for (v = 0; v < n; v++) {
		if (s->part[v] != ONE_VALUE) {
			solve_list_push(&net->mem, &s->vars[s->part[v]], v);
		}
	}
	memset(stack, 0xff, n * sizeof *stack);
	for (k = 0; k < net->ntables; k++) {
		add_table(net, s, k, stack);
	}
}

static bool
solve_parts(struct solve_state *r, struct solve_net *net)
{
	struct net_split parts;
	uint32_t k;

	split(net, r->s->cost_only, &parts, r->result->choice);
	r->result->forced = parts.n == 0 && !net->compared;
	for (k = 0; k < parts.n; k++) {
		struct solve_part part = {
			.vars = parts.vars[k].at, .nvars = parts.vars[k].n,
			.tables = parts.tables[k].at,
			.ntables = parts.tables[k].n
		};

		if (!solve_search(r, solve_restrict(net, &part, r->choice))) {
			return false;
		}
	}
	return true;
}

/*
 * The cost of the choice in the net as it was built, in an order of sums that
 * does not depend on elimination.  Values that pruning dropped there are not
 * chosen.
 */
static double
price(const struct solve *s, const struct solve_net *net,
      const uint32_t *choice)
{
	double sum = net->base;
	uint32_t v, k, j;

	for (v = 0; v < net->nvars; v++) {
		sum += net->unary[v][choice[net->id[v]]];
	}
	for (k = 0; k < net->ntables; k++) {
		const struct solve_table *t = &net->tables[k];
		size_t at = 0;

		for (j = 0; j < t->nvars; j++) {
			uint32_t id = net->id[t->vars[j]];

			at = at * s->domain.at[id] + choice[id];
		}
		sum += t->cost[at];
	}
	return sum;
}

/* The lowest variable of a table whose entries are all INFINITY. */
static uint32_t
forbidden_var(const struct solve *s)
{
	uint32_t k, bad = SOLVE_NO_VAR;
	size_t i;

	for (k = 0; k < s->tables.n; k++) {
		const struct solve_table *t = &s->tables.at[k];

		for (i = 0; i < t->n && !(t->cost[i] < INFINITY); i++) {
		}
		if (i == t->n && t->nvars && t->vars[0] < bad) {
			bad = t->vars[0];
		}
	}
	return bad;
}

static bool
solve_all(struct solve_state *r, struct solve_net *net)
{
	if (!(net->base < INFINITY)) {
		r->result->bad_var = forbidden_var(r->s);
		return false;
	}
	return solve_prune(net, 0, &r->result->bad_var) &&
	       solve_parts(r, net);
}

struct solve_result
solve_run(struct solve *s, struct arena *tmp)
{
	struct solve_result res = { .exact = true, .cost = INFINITY,
				    .bad_var = SOLVE_NO_VAR };
	struct solve_state r = { .pool.arena = tmp, .s = s, .result = &res };
	size_t bytes = s->domain.n * sizeof *res.choice;
	struct solve_net *net;

	res.choice = arena_alloc(tmp, bytes);
	r.choice = arena_alloc(tmp, bytes);
	r.best = arena_alloc(tmp, bytes);
	net = solve_build(&r);
	if (net && solve_all(&r, net)) {
		res.feasible = true;
		res.bad_var = SOLVE_NO_VAR;
		res.cost = price(s, net, res.choice);
	}
	return res;
}
