/*
 * Eliminating a variable that is next to one other or two, by tables of two:
 * most are, in a program.  Nothing is looked up there, as the values of the
 * others run in two loops.  Sums are made in the order of solve_eliminate.c,
 * on which ties hang.
 */
#include "passes/solve_net.h"

#include <string.h>

#define MOST_ARMS 8
#define MOST_SUMS 4096		/* entries that are made */

/* A table: strides of the variable and of the other one. */
struct arm {
	const double *at;
	size_t of_var, of_end;
};

struct pairs {
	const double *unary;
	uint32_t values, nx, ny;	/* of it, the first, the last */
	struct arm first[MOST_ARMS], last[MOST_ARMS];
	uint32_t nfirst, nlast;
};

static bool
find_arms(const struct solve_net *net, uint32_t var, uint32_t last,
	  struct pairs *p)
{
	const struct solve_list *of = &net->of[var];
	uint32_t k;

	for (k = 0; k < of->n; k++) {
		const struct solve_table *t = &net->tables[of->at[k]];
		bool outer = t->vars[0] == var, ends;
		struct arm arm = { t->cost, 1, 1 };

		if (t->spent) {
			continue;
		}
		ends = t->vars[outer] == last;
		if (t->nvars != 2 ||
		    (ends ? p->nlast : p->nfirst) == MOST_ARMS) {
			return false;
		}
		*(outer ? &arm.of_var : &arm.of_end) =
			net->domain[t->vars[1]];
		*(ends ? &p->last[p->nlast++] : &p->first[p->nfirst++]) = arm;
	}
	return true;
}

/* Of value a: what it costs beside value x of the first. */
static double
sum_first(const struct pairs *p, uint32_t a, uint32_t x)
{
	double sum = p->unary[a];
	uint32_t k;

	for (k = 0; k < p->nfirst; k++) {
		const struct arm *e = &p->first[k];

		sum += e->at[a * e->of_var + x * e->of_end];
	}
	return sum;
}

/* The sums for value a of the variable. */
static void
sum_arms(const struct pairs *p, uint32_t a, double *row)
{
	uint32_t x, y, k;

	for (x = 0; x < p->nx; x++, row += p->ny) {
		double sum = sum_first(p, a, x);

		for (k = 0; k < p->nlast; k++) {
			const struct arm *e = &p->last[k];
			const double *c = e->at + a * e->of_var;

			for (y = 0; y < p->ny; y++, c += e->of_end) {
				row[y] = (k ? row[y] : sum) + *c;
			}
		}
		for (y = 0; y < p->ny && !p->nlast; y++) {
			row[y] = sum;
		}
	}
}

/* The same where one table ends at the last, which most do: no row is made. */
static void
try_value(const struct pairs *p, uint32_t a, double *cost, uint8_t *best)
{
	const struct arm *e = &p->last[0];
	uint32_t x, y;

	for (x = 0; x < p->nx; x++) {
		const double *c = e->at + a * e->of_var;
		double sum = sum_first(p, a, x);

		for (y = 0; y < p->ny; y++, c += e->of_end) {
			double all = sum + *c;
			bool less = all < *cost;

			*cost = less ? all : *cost;
			*best = less ? (uint8_t)a : *best;
			cost++;
			best++;
		}
	}
}

static void
find_best(const struct pairs *p, double *row, size_t n, double *cost,
	  uint8_t *best)
{
	uint32_t a;
	size_t i;

	sum_arms(p, 0, cost);
	memset(best, 0, n);
	for (a = 1; a < p->values; a++) {
		if (p->nlast == 1) {
			try_value(p, a, cost, best);
			continue;
		}
		sum_arms(p, a, row);
		/* without a jump: which is cheaper cannot be foretold */
		for (i = 0; i < n; i++) {
			bool less = row[i] < cost[i];

			cost[i] = less ? row[i] : cost[i];
			best[i] = less ? (uint8_t)a : best[i];
		}
	}
}

bool
solve_pairs(struct solve_net *net, const struct solve_step *step, double *cost,
	    uint8_t *best)
{
	struct pairs p = { .nx = 1, .ny = 1 };
	struct solve_room room = { net->room.pool, NULL };
	size_t n;
	double *row;

	if (step->nscope > 2 || !find_arms(net, step->var, step->nscope
			? step->scope[step->nscope - 1] : SOLVE_NO_VAR, &p)) {
		return false;
	}
	p.unary = net->unary[step->var];
	p.values = net->domain[step->var];
	if (step->nscope) {
		p.ny = net->domain[step->scope[step->nscope - 1]];
	}
	if (step->nscope == 2) {
		p.nx = net->domain[step->scope[0]];
	}
	n = (size_t)p.nx * p.ny;
	if (n > MOST_SUMS) {
		return false;
	}
	row = solve_get(&room, n * sizeof *row);
	find_best(&p, row, n, cost, best);
	solve_leave(&room);
	return true;
}
