/*
 * Where only the cost is wanted, tables that are flat connect nothing: the cost
 * is the same, by trying everything and by the solver that knows nothing of it,
 * and problems fall apart.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/passes/t-solve.h"

#define MOST_VARS 7
#define MOST_TABLES 24

struct pair {
	uint32_t u, v;
	double cost[16];
};

struct problem {
	uint32_t nvars, domain[MOST_VARS], n;
	double alone[MOST_VARS][4];
	struct pair pair[MOST_TABLES];
};

/* One number, of which some are infinite. */
static double
number(uint32_t forbidden)
{
	return draw(100) < forbidden ? INFINITY : draw(1000) / 8.0 - 20;
}

/* Half of the tables are flat; some are flat for values that are left. */
static void
draw_problem(struct problem *p)
{
	uint32_t i, k;

	p->nvars = 2 + draw(MOST_VARS - 1);
	for (i = 0; i < p->nvars; i++) {
		p->domain[i] = 1 + draw(4);
		for (k = 0; k < 4; k++) {
			p->alone[i][k] = number(15);
		}
	}
	p->n = draw(MOST_TABLES);
	for (i = 0; i < p->n; i++) {
		struct pair *x = &p->pair[i];
		double flat = number(2);
		bool is_flat = draw(2);

		x->u = draw(p->nvars);
		x->v = (x->u + 1 + draw(p->nvars - 1)) % p->nvars;
		for (k = 0; k < 16; k++) {
			x->cost[k] = is_flat && draw(60) ? flat : number(8);
		}
	}
}

static double
try_all(const struct problem *p)
{
	uint32_t at[MOST_VARS] = { 0 }, i;
	double best = INFINITY, sum;

	for (;;) {
		for (i = 0, sum = 0; i < p->nvars; i++) {
			sum += p->alone[i][at[i]];
		}
		for (i = 0; i < p->n; i++) {
			const struct pair *x = &p->pair[i];

			sum += x->cost[at[x->u] * p->domain[x->v] + at[x->v]];
		}
		best = fmin(best, sum);
		for (i = 0; i < p->nvars && ++at[i] == p->domain[i]; i++) {
			at[i] = 0;
		}
		if (i == p->nvars) {
			return best;
		}
	}
}

static struct solve_result
solved(const struct problem *p, bool cost_only, struct arena *a)
{
	struct solve *s = solve_new(a);
	uint32_t i;

	for (i = 0; i < p->nvars; i++) {
		solve_var(s, p->domain[i]);
		solve_add_table(s, 1, &i, p->alone[i]);
	}
	for (i = 0; i < p->n; i++) {
		const struct pair *x = &p->pair[i];

		solve_add_table(s, 2, (uint32_t[]){ x->u, x->v }, x->cost);
	}
	s->cost_only = cost_only;
	return solve_run(s, a);
}

static void
test_cost(void **state)
{
	struct solve_result all, cost;
	double widths[2] = { 0, 0 };
	struct problem p;
	struct arena a;
	int i, feasible = 0;

	(void)state;
	for (i = 0; i < 4000; i++) {
		double best;

		arena_init(&a, &world.mem);
		draw_problem(&p);
		best = try_all(&p);
		all = solved(&p, false, &a);
		cost = solved(&p, true, &a);
		assert_int_equal(cost.feasible, best < INFINITY);
		assert_int_equal(all.feasible, cost.feasible);
		if (cost.feasible) {
			assert_true(cost.exact);
			assert_true(fabs(cost.cost - best) <= 1e-9);
			widths[0] += all.width;
			widths[1] += cost.width;
			feasible++;
		}
		arena_release(&a);
	}
	assert_in_range(feasible, 1000, 3900);
	assert_true(widths[1] < widths[0]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_cost, setup, teardown)
	};

	return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
