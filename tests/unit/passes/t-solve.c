/*
 * The solver against trying everything: thousands of small problems, the
 * limits that make it search, conflicts and order of insertion.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/memo.h"
#include "tests/unit/passes/t-solve.h"

#define MAX_VARS 64
#define MAX_TABLES 160

/* What the test remembers of a problem, as the user gave it. */
struct costs {
	uint32_t nvars, vars[4];
	double cost[4096];
	uint32_t n;
};

static struct {
	uint32_t nvars, domain[MAX_VARS];
	struct costs tables[MAX_TABLES];
	uint32_t ntables;
} t;

/* ---- problems ---- */

static void
begin(uint32_t nvars, uint32_t most)
{
	uint32_t v;

	arena_release(&world.a);
	arena_init(&world.a, &world.mem);
	t.nvars = nvars;
	t.ntables = 0;
	for (v = 0; v < nvars; v++) {
		t.domain[v] = 1 + draw(most);
	}
}

/* How the entries are drawn: whole numbers, and how many are forbidden. */
struct style {
	bool whole;
	uint32_t forbidden;	/* percent */
	uint32_t range;		/* few numbers make many ties */
};

static double
entry(const struct style *style)
{
	if (draw(100) < style->forbidden) {
		return INFINITY;
	}
	if (style->whole) {
		return (double)draw(style->range) - style->range / 4;
	}
	return draw(1000000) / 1e5 - 3;
}

static struct costs *
add(uint32_t nvars, const uint32_t *vars, const struct style *style)
{
	struct costs *b = &t.tables[t.ntables++];
	uint32_t k;

	assert_true(t.ntables <= MAX_TABLES);
	b->nvars = nvars;
	b->n = 1;
	for (k = 0; k < nvars; k++) {
		b->vars[k] = vars[k];
		b->n *= t.domain[vars[k]];
	}
	for (k = 0; k < b->n; k++) {
		b->cost[k] = entry(style);
	}
	return b;
}

static void
add2(uint32_t u, uint32_t v, const struct style *style)
{
	add(2, (uint32_t[]){ u, v }, style);
}

static double
cost_of(const uint32_t *choice)
{
	double sum = 0;
	uint32_t k, j;

	for (k = 0; k < t.ntables; k++) {
		const struct costs *b = &t.tables[k];
		uint32_t at = 0;

		for (j = 0; j < b->nvars; j++) {
			at = at * t.domain[b->vars[j]] + choice[b->vars[j]];
		}
		sum += b->cost[at];
	}
	return sum;
}

static double
try_all(void)
{
	uint32_t choice[MAX_VARS] = { 0 }, v;
	double best = INFINITY;

	for (;;) {
		double cost = cost_of(choice);

		best = cost < best ? cost : best;
		for (v = 0; v < t.nvars && ++choice[v] == t.domain[v]; v++) {
			choice[v] = 0;
		}
		if (v == t.nvars) {
			return best;
		}
	}
}

/* Tables are copied, or their place is given. */
static void
give(struct solve *s, const struct costs *b, uint32_t k)
{
	struct solve_strides to;
	uint32_t i, d, table;
	double *at;

	if (b->nvars == 1 && k % 2) {
		table = solve_add_unary(s, b->vars[0]);
		solve_set_costs(s, table, arena_dup(&world.a, b->cost,
						    b->n * 8));
		return;
	}
	if (b->nvars != 2 || b->vars[0] == b->vars[1] || k % 2) {
		solve_add_table(s, b->nvars, b->vars, b->cost);
		return;
	}
	table = solve_add_pair(s, b->vars[0], b->vars[1], &to);
	at = arena_alloc(&world.a, b->n * sizeof *at);
	solve_set_costs(s, table, at);
	for (i = 0, d = t.domain[b->vars[1]]; i < b->n; i++) {
		at[i / d * to.of_u + i % d * to.of_v] = b->cost[i];
	}
}

/* The problem with its tables in that order; NULL: as they were added. */
static struct solve *
build(const uint32_t *order)
{
	struct solve *s = solve_new(&world.a);
	uint32_t k;

	for (k = 0; k < t.nvars; k++) {
		assert_int_equal(solve_var(s, t.domain[k]), k);
	}
	for (k = 0; k < t.ntables; k++) {
		give(s, &t.tables[order ? order[k] : k], k);
	}
	return s;
}

static struct solve_result
run(struct solve *s)
{
	return t_solve(s, &world.a);
}

static void
check_choice(const struct solve_result *r)
{
	uint32_t v;

	assert_true(r->feasible);
	for (v = 0; v < t.nvars; v++) {
		assert_true(r->choice[v] < t.domain[v]);
	}
	assert_true(t_near(r->cost, cost_of(r->choice)));
}

static void
check_best(const struct solve_result *r)
{
	double best = try_all();

	assert_true(r->exact);
	assert_int_equal(r->feasible, best < INFINITY);
	if (r->feasible) {
		check_choice(r);
		if (!t_near(r->cost, best)) {
			fail_msg("cost %.17g, best %.17g", r->cost, best);
		}
	} else {
		assert_false(r->cost < INFINITY);
	}
}

/* ---- shapes ---- */

static void
tree(const struct style *style)
{
	uint32_t v;

	begin(2 + draw(6), 4);
	for (v = 1; v < t.nvars; v++) {
		add2(v, draw(v), style);
	}
}

static void
cycle(const struct style *style)
{
	uint32_t v;

	begin(3 + draw(5), 4);
	for (v = 0; v < t.nvars; v++) {
		add2(v, (v + 1) % t.nvars, style);
	}
}

static void
grid(const struct style *style)
{
	uint32_t w = 2 + draw(2), h = 2 + draw(2), v;

	begin(w * h, 3);
	for (v = 0; v < w * h; v++) {
		if (v % w + 1 < w) {
			add2(v, v + 1, style);
		}
		if (v + w < w * h) {
			add2(v + w, v, style);
		}
	}
}

/* Anything: scopes of 0 to 4, some twice, variables twice in one. */
static void
mess(const struct style *style)
{
	uint32_t n, k, j;

	begin(1 + draw(7), 4);
	n = draw(2 * t.nvars + 1);
	for (k = 0; k < n; k++) {
		uint32_t vars[4], nvars = draw(20) ? 1 + draw(3) : draw(5);

		for (j = 0; j < nvars; j++) {
			vars[j] = draw(t.nvars);
		}
		add(nvars, vars, style);
		if (draw(4) == 0) {
			add(nvars, vars, style);
		}
	}
}

/* Every pair: the bounds are bad, so that it takes many nodes. */
static void
dense(const struct style *style)
{
	uint32_t u, v;

	begin(5 + draw(2), 4);
	for (v = 0; v < t.nvars; v++) {
		for (u = 0; u < v; u++) {
			add2(u, v, style);
		}
	}
}

static void (*const shapes[])(const struct style *) = {
	tree, cycle, grid, mess, dense
};

static const struct style styles[] = {
	{ false, 0, 0 }, { true, 0, 20 }, { true, 0, 3 }, { false, 15, 0 },
	{ true, 40, 5 }, { true, 70, 5 }
};

static void
draw_problem(uint32_t i)
{
	shapes[i % COUNT(shapes)](&styles[i / COUNT(shapes) % COUNT(styles)]);
}

/* Is there a table over nothing that forbids?  Then no variable is to blame. */
static bool
no_scope(void)
{
	uint32_t k;

	for (k = 0; k < t.ntables; k++) {
		if (t.tables[k].nvars == 0 && isinf(t.tables[k].cost[0])) {
			return true;
		}
	}
	return false;
}

static void
against_all(void **state)
{
	uint32_t i, k, infeasible = 0;

	(void)state;
	for (i = 0; i < 6000; i++) {
		struct solve_result r;

		draw_problem(i);
		for (k = draw(3); k > 0 && t.nvars; k--) {
			add(1, (uint32_t[]){ draw(t.nvars) },
			    &styles[i % COUNT(styles)]);
		}
		r = run(build(NULL));
		check_best(&r);
		assert_int_equal(r.nodes, 0);
		infeasible += !r.feasible;
		assert_true(r.feasible ? r.bad_var == SOLVE_NO_VAR
				       : r.bad_var < t.nvars || no_scope());
	}
	assert_true(infeasible > 200 && infeasible < 3000);
}

/* Tables of at most so many entries: the rest is searched. */
static void
searching(void **state)
{
	static const double limits[] = { 0, 1, 2, 4, 9, 16 };
	uint32_t i, nodes = 0;

	(void)state;
	for (i = 0; i < 6000; i++) {
		struct solve_result r;
		struct solve *s;

		draw_problem(i);
		s = build(NULL);
		s->max_entries = limits[i / 30 % COUNT(limits)];
		r = run(s);
		check_best(&r);
		nodes += r.nodes;
	}
	assert_true(nodes > 300);
}

/* Fewer than it takes: the best seen, and no claim that it is the best. */
static void
out_of_nodes(void **state)
{
	static const struct style style = { true, 0, 1000 };
	uint32_t i, v, u, inexact = 0;

	(void)state;
	for (i = 0; i < 40; i++) {
		struct solve_result r, all;
		struct solve *s;

		begin(9, 1);
		for (v = 0; v < t.nvars; v++) {
			t.domain[v] = 4;
			for (u = 0; u < v; u++) {
				add2(u, v, &style);
			}
		}
		s = build(NULL);
		all = run(s);
		assert_true(all.exact);
		check_choice(&all);
		s->max_entries = 4;
		s->max_nodes = 3;
		r = run(s);
		check_choice(&r);
		assert_true(r.exact ? t_near(r.cost, all.cost)
				    : r.cost >= all.cost);
		assert_true(r.nodes <= 3);
		inexact += !r.exact;
		s->max_nodes = 100000;
		r = run(s);
		assert_true(r.exact && t_near(r.cost, all.cost));
		check_choice(&r);
	}
	assert_true(inexact > 10);
}

/* ---- problems that were planned before ---- */

static struct solve_result
planned(struct memo *memo)
{
	struct solve *s = build(NULL);

	s->memo = memo;
	return run(s);
}

static void
check_same(const struct solve_result *a, const struct solve_result *b)
{
	assert_int_equal(a->feasible, b->feasible);
	assert_true(a->exact == b->exact && a->nodes == b->nodes);
	assert_true(a->width == b->width && a->bad_var == b->bad_var);
	if (a->feasible) {
		assert_true(!(a->cost < b->cost) && !(b->cost < a->cost));
		assert_memory_equal(a->choice, b->choice,
				    t.nvars * sizeof *a->choice);
	}
}

/* Each cost becomes a bit more or less. */
static void
nudge(void)
{
	uint32_t k, i;

	for (k = 0; k < t.ntables; k++) {
		for (i = 0; i < t.tables[k].n; i++) {
			t.tables[k].cost[i] *= 1 + draw(100) * 1e-6;
		}
	}
}

/*
 * As without plans of others, the first time and again, and with costs that
 * differ, which mostly come down to one graph; where an entry is forbidden,
 * that may be another one.
 */
static void
known_graphs(void **state)
{
	struct memo memo;
	uint32_t i, other = 0;

	(void)state;
	memo_init(&memo, &world.mem, MEMO_BYTES);
	for (i = 0; i < 3000; i++) {
		struct solve_result plain, first, r;

		draw_problem(i);
		plain = run(build(NULL));
		first = planned(&memo);
		check_same(&plain, &first);
		r = planned(&memo);
		check_same(&plain, &r);
		nudge();
		r = planned(&memo);
		plain = run(build(NULL));
		check_same(&plain, &r);
		if (t.ntables && t.tables[0].n > 1) {
			t.tables[0].cost[draw(t.tables[0].n)] = INFINITY;
			r = planned(&memo);
			check_best(&r);
			plain = run(build(NULL));
			check_same(&plain, &r);
			other += r.cost > first.cost;
		}
	}
	assert_true(other > 100);
	memo_release(&memo);
}

/* A problem that is posed again is as one that is new. */
static void
posed_again(void **state)
{
	uint32_t i, k;

	(void)state;
	for (i = 0; i < 6000; i++) {
		struct solve_result plain, r;
		struct solve *s, *other;

		draw_problem(i / 2);
		s = build(NULL);
		run(s);
		nudge();
		if (i % 2 && t.ntables) {
			t.tables[0].cost[draw(t.tables[0].n)] = INFINITY;
		}
		other = build(NULL);
		for (k = 0; k < t.ntables; k++) {
			solve_set_costs(s, k, other->tables.at[k].cost);
		}
		r = run(s);
		plain = run(other);
		check_same(&plain, &r);
	}
}

/* What is allowed costs something else. */
static void
reprice(void)
{
	uint32_t k, i;

	for (k = 0; k < t.ntables; k++) {
		for (i = 0; i < t.tables[k].n; i++) {
			double *cost = &t.tables[k].cost[i];

			*cost = *cost < INFINITY ? draw(8) - 2.0 : INFINITY;
		}
	}
}

/* What is forced is chosen at any price. */
static void
forced_choices(void **state)
{
	uint32_t forced = 0, open = 0, i;

	(void)state;
	for (i = 0; i < 3000; i++) {
		struct solve_result r, other;

		draw_problem(i);
		r = run(build(NULL));
		reprice();
		other = run(build(NULL));
		assert_int_equal(other.feasible, r.feasible);
		assert_int_equal(other.forced, r.forced);
		if (r.forced) {
			assert_true(r.feasible);
			assert_memory_equal(other.choice, r.choice,
					    t.nvars * sizeof *r.choice);
		}
		forced += r.forced && t.nvars > 3;
		open += r.feasible && !r.forced;
	}
	assert_true(forced > 20 && open > 1000);
}

/*
 * The two want to be alike, or want not to be, whatever they are: the bounds
 * see nothing in a cycle where not all can have their way.
 */
static void
frustrate(struct costs *b)
{
	double weight = 1 + draw(20);
	uint32_t n = t.domain[b->vars[1]], k, sign = draw(2);

	for (k = 0; k < b->n; k++) {
		b->cost[k] = (k / n == k % n) == sign ? weight : 0;
	}
}

/*
 * Too many assignments to try, but few enough states to eliminate: searching
 * in the core of a sparse graph must come to the same.
 */
static void
searching_deep(void **state)
{
	uint32_t i, k, nodes = 0, infeasible = 0;

	(void)state;
	for (i = 0; i < 300; i++) {
		struct solve_result r, all;
		struct solve *s;

		begin(12 + draw(8), 5);
		for (k = 0; k < t.nvars && i % 2; k++) {
			t.domain[k] = 2 + draw(2);
		}
		for (k = 0; k < (2 + i % 2) * t.nvars; k++) {
			uint32_t u = draw(t.nvars);

			add2(u, (u + 1 + draw(t.nvars - 1)) % t.nvars,
			     &styles[i % 4]);
			if (i % 2) {
				frustrate(&t.tables[t.ntables - 1]);
			}
		}
		s = build(NULL);
		all = run(s);
		assert_int_equal(all.nodes, 0);
		s->max_entries = 5 << draw(4);
		s->max_nodes = 100000;
		r = run(s);
		assert_true(r.exact);
		assert_int_equal(r.feasible, all.feasible);
		if (r.feasible) {
			check_choice(&r);
			check_choice(&all);
			assert_true(t_near(r.cost, all.cost));
		}
		infeasible += !r.feasible;
		nodes += r.nodes;
	}
	assert_true(infeasible < 100);
	assert_true(nodes > 1000);
}

/* The order of the tables changes nothing, not even among equals. */
static void
any_order(void **state)
{
	uint32_t i, k, j, order[MAX_TABLES];

	(void)state;
	for (i = 0; i < 2000; i++) {
		struct solve_result a, b;
		struct solve *s;

		draw_problem(i);
		for (k = 0; k < t.ntables; k++) {
			order[k] = k;
		}
		for (k = t.ntables; k > 1; k--) {
			uint32_t o = order[k - 1];

			j = draw(k);
			order[k - 1] = order[j];
			order[j] = o;
		}
		s = build(NULL);
		s->max_entries = i % 3 ? s->max_entries : 2;
		a = run(s);
		s = build(order);
		s->max_entries = i % 3 ? s->max_entries : 2;
		b = run(s);
		assert_int_equal(a.feasible, b.feasible);
		assert_int_equal(a.bad_var, b.bad_var);
		assert_true(!a.feasible || memcmp(&a.cost, &b.cost,
						  sizeof a.cost) == 0);
		if (a.feasible) {
			assert_memory_equal(a.choice, b.choice, t.nvars *
					    sizeof *a.choice);
		}
		b = run(s);
		assert_memory_equal(a.choice, b.choice, t.nvars *
				    sizeof *a.choice);
	}
}

/* ---- single cases ---- */

static void
small_cases(void **state)
{
	static const double three[] = { 2, 1, 1 }, forbid[] = { INFINITY };
	static const double same[] = { 0, -9, -9, 0 };
	struct solve *s = solve_new(&world.a);
	struct solve_result r;
	uint32_t x[2];

	(void)state;
	r = run(s);
	assert_true(r.feasible && r.exact && t_near(r.cost, 0));
	assert_int_equal(r.bad_var, SOLVE_NO_VAR);
	solve_add_table(s, 0, NULL, (double[]){ 2.5 });
	x[0] = solve_var(s, 3);
	r = run(s);
	assert_true(r.feasible && t_near(r.cost, 2.5));
	assert_int_equal(r.choice[x[0]], 0);
	solve_add_table(s, 1, x, three);
	r = run(s);
	assert_true(r.feasible && t_near(r.cost, 3.5));
	assert_int_equal(r.choice[x[0]], 1);
	/* one variable twice: only where both agree, never the -9 */
	x[0] = x[1] = solve_var(s, 2);
	solve_add_table(s, 2, x, same);
	r = run(s);
	assert_true(t_near(r.cost, 3.5));
	x[0] = solve_var(s, 1);
	solve_add_table(s, 1, x, (double[]){ 1 });
	r = run(s);
	assert_true(t_near(r.cost, 4.5));
	solve_add_table(s, 1, x, forbid);
	r = run(s);
	assert_false(r.feasible);
	assert_true(r.exact);
	assert_int_equal(r.bad_var, x[0]);
	s = solve_new(&world.a);
	solve_var(s, 2);
	x[0] = solve_var(s, 0);
	r = run(s);
	assert_false(r.feasible);
	assert_int_equal(r.bad_var, x[0]);
}

/* A row of "equal to the next", its ends forced apart: somewhere on it. */
static void
conflict_is_named(void **state)
{
	static const double equal[] = { 0, INFINITY, INFINITY, 0 };
	struct solve *s = solve_new(&world.a);
	struct solve_result r;
	uint32_t v, x[2];

	(void)state;
	for (v = 0; v < 30; v++) {
		solve_var(s, 2);
	}
	for (v = 10; v < 19; v++) {
		x[0] = v;
		x[1] = v + 1;
		solve_add_table(s, 2, x, equal);
	}
	assert_true(run(s).feasible);
	solve_add_table(s, 1, (uint32_t[]){ 10 }, (double[]){ 0, INFINITY });
	assert_true(run(s).feasible);
	solve_add_table(s, 1, (uint32_t[]){ 19 }, (double[]){ INFINITY, 0 });
	r = run(s);
	assert_false(r.feasible);
	assert_true(r.exact);
	assert_in_range(r.bad_var, 10, 19);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(against_all, setup, teardown),
		cmocka_unit_test_setup_teardown(searching, setup, teardown),
		cmocka_unit_test_setup_teardown(known_graphs, setup, teardown),
		cmocka_unit_test_setup_teardown(posed_again, setup, teardown),
		cmocka_unit_test_setup_teardown(forced_choices, setup,
						teardown),
		cmocka_unit_test_setup_teardown(searching_deep, setup,
						teardown),
		cmocka_unit_test_setup_teardown(out_of_nodes, setup,
						teardown),
		cmocka_unit_test_setup_teardown(any_order, setup, teardown),
		cmocka_unit_test_setup_teardown(small_cases, setup, teardown),
		cmocka_unit_test_setup_teardown(conflict_is_named, setup,
						teardown)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
