/* What tests of the solver share. */
#ifndef T_SOLVE_H
#define T_SOLVE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "passes/solve/solve.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Where problems lie, and what they are drawn from. */
static struct {
	struct mem mem;
	struct arena a;
	uint64_t seed;
} world;

static inline int
setup(void **state)
{
	(void)state;
	mem_init(&world.mem);
	arena_init(&world.a, &world.mem);
	world.seed = 1;
	return 0;
}

static inline int
teardown(void **state)
{
	(void)state;
	arena_release(&world.a);
	return 0;
}

/* A number below n. */
static inline uint32_t
draw(uint32_t n)
{
	world.seed = world.seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(world.seed >> 33) % n;
}

/* What is found, with choices in `a'. */
static inline struct solve_result
t_solve(struct solve *s, struct arena *a)
{
	struct solve_result r;
	struct arena tmp;

	arena_init(&tmp, a->mem);
	r = solve_run(s, &tmp);
	r.choice = arena_dup(a, r.choice, s->domain.n * sizeof *r.choice);
	arena_release(&tmp);
	return r;
}

static inline bool
t_near(double a, double b)
{
	return fabs(a - b) <= 1e-12 * (1 + fabs(a) + fabs(b));
}

#endif
