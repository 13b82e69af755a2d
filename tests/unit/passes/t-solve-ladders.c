/*
 * Ladders of variables, far too large to try: the solver against a walk from
 * rung to rung, and what is reduced first against what is not.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/passes/t-solve.h"

struct ladder {
	uint32_t width, length, domain;
	uint32_t few;		/* prices are below it; 0: any */
	uint32_t own;		/* times so much for a value alone; 0: 1 */
	double *across;		/* by rung, by rail, from value, to value */
	double *along;		/* by rung but the last, by rail */
	double *unary;
	struct solve *s;
};

/* Whole numbers, 0 on the diagonal if `moves`: staying is free. */
static void
ladder_table(struct ladder *l, double *c, uint32_t u, uint32_t v, bool moves)
{
	uint32_t n = l->domain, a, b;

	for (a = 0; a < n; a++) {
		for (b = 0; b < n; b++) {
			c[a * n + b] = moves && a == b ? 0 :
				       1 + draw(l->few ? l->few : moves
						? 100 : 50);
		}
	}
	solve_add_table(l->s, 2, (uint32_t[]){ u, v }, c);
}

static void
make_ladder(struct ladder *l)
{
	uint32_t n = l->width * l->length, d = l->domain, v, a;
	size_t bytes = (size_t)n * d * d * sizeof(double);

	l->s = solve_new(&world.a);
	l->across = arena_alloc(&world.a, bytes);
	l->along = arena_alloc(&world.a, bytes);
	l->unary = arena_alloc(&world.a, n * d * sizeof *l->unary);
	for (v = 0; v < n; v++) {
		solve_var(l->s, d);
	}
	for (v = 0; v < n; v++) {
		for (a = 0; a < d; a++) {
			l->unary[v * d + a] = draw(l->few ? l->few : 40) *
					 (l->own ? l->own : 1);
		}
		solve_add_table(l->s, 1, &v, l->unary + v * d);
		if (v % l->width + 1 < l->width) {
			ladder_table(l, l->across + v * d * d, v, v + 1,
				     false);
		}
		if (v + l->width < n) {
			ladder_table(l, l->along + v * d * d, v,
				     v + l->width, true);
		}
	}
}

/*
 * One rail after the other through all values of one rung: the cost of the
 * best way to each of the width-tuples, in the plainest way.
 */
static double
walk_ladder(const struct ladder *l)
{
	uint32_t d = l->domain, w = l->width, n = 1, v, i, a;
	double *now, *next, best = INFINITY;

	for (i = 0; i < w; i++) {
		n *= d;
	}
	now = calloc(n, sizeof *now);
	next = calloc(n, sizeof *next);
	assert_true(now && next);
	for (v = 0; v < w * l->length; v++) {
		uint32_t rail = v % w, step = 1;
		double *swap = now;

		/* digit `rail` of i, counted from the fastest */
		for (i = 0; i < rail; i++) {
			step *= d;
		}
		for (i = 0; i < n; i++) {
			uint32_t mine = i / step % d;
			uint32_t left = i / (step / d + !(step / d)) % d;
			double least = v < w ? now[i] : INFINITY;

			for (a = 0; a < d && v >= w; a++) {
				double c = now[i - mine * step + a * step] +
					   l->along[(v - w) * d * d + a * d +
						    mine];

				least = c < least ? c : least;
			}
			next[i] = least + l->unary[v * d + mine];
			if (rail > 0) {
				next[i] += l->across[(v - 1) * d * d +
						     left * d + mine];
			}
		}
		now = next;
		next = swap;
	}
	for (i = 0; i < n; i++) {
		best = now[i] < best ? now[i] : best;
	}
	free(now);
	free(next);
	return best;
}

static void
long_ladders(void **state)
{
	struct ladder ladders[] = {
		{ .width = 2, .length = 1500, .domain = 12 },
		{ .width = 3, .length = 1000, .domain = 8 },
		{ .width = 5, .length = 600, .domain = 4 },
		/* more variables than 64 words have bits */
		{ .width = 2, .length = 4500, .domain = 3 }
	};
	struct solve_result r;
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT(ladders); i++) {
		arena_release(&world.a);
		arena_init(&world.a, &world.mem);
		make_ladder(&ladders[i]);
		r = t_solve(ladders[i].s, &world.a);
		assert_true(r.feasible && r.exact);
		assert_true(t_near(r.cost, walk_ladder(&ladders[i])));
		assert_int_equal(r.nodes, 0);
	}
}

/*
 * Below so many entries nothing is reduced before it is eliminated, which
 * must not show: not in the choice either, of the many that cost the same.
 */
static void
reduced_or_not(void **state)
{
	static const uint32_t few[] = { 2, 3, 9, 0 };
	uint32_t i, fewer = 0;

	(void)state;
	for (i = 0; i < 32; i++) {
		struct ladder l = { .width = 4 + i % 2, .length = 120 + i,
				    .domain = 5 - i % 2,
				    .few = few[i / 2 % COUNT(few)],
				    .own = 1 + i % 3 };
		struct solve_result r, plain;
		size_t bytes;

		if (i >= 24) {	/* few variables of many values */
			l.width = 2;
			l.length = 30;
			l.domain = 40;
		}
		bytes = l.width * l.length * sizeof *r.choice;
		arena_release(&world.a);
		arena_init(&world.a, &world.mem);
		make_ladder(&l);
		r = t_solve(l.s, &world.a);
		l.s->max_entries = (1 << 16) - 1;
		plain = t_solve(l.s, &world.a);
		assert_true(r.feasible && r.exact && plain.exact);
		assert_true(t_near(r.cost, walk_ladder(&l)));
		assert_memory_equal(r.choice, plain.choice, bytes);
		fewer += r.states < plain.states / 2;
	}
	assert_true(fewer > 0);
}

/*
 * Reducing leaves the one answer there is, and then nothing to eliminate: all
 * tables being as small, that would start with the lowest variable, which has
 * many neighbours here.
 */
static void
one_answer(void **state)
{
	struct ladder l = { .width = 4, .length = 120, .domain = 5 };
	struct solve_result r, plain;
	double c[25];
	uint32_t v, a;

	(void)state;
	make_ladder(&l);
	for (v = 1; v <= 60; v++) {
		ladder_table(&l, c, 0, solve_var(l.s, l.domain), false);
	}
	for (v = 0; v < l.s->domain.n; v++) {
		for (a = 0; a < l.domain; a++) {
			c[a] = draw(1 << 20) * 1e-6;
		}
		solve_add_table(l.s, 1, &v, c);
	}
	r = t_solve(l.s, &world.a);
	l.s->max_entries = (1 << 16) - 1;
	plain = t_solve(l.s, &world.a);
	assert_true(r.feasible && r.exact && plain.exact);
	assert_true(r.width == 0 && plain.width > 0);
	assert_memory_equal(r.choice, plain.choice,
			    l.s->domain.n * sizeof *r.choice);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(long_ladders, setup, teardown),
		cmocka_unit_test_setup_teardown(reduced_or_not, setup,
						teardown),
		cmocka_unit_test_setup_teardown(one_answer, setup, teardown)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
