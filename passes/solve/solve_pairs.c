/*
 * Elimination of a variable that has one or two neighbours and tables of two:
 * most variables of a program.  Two loops over the values of the neighbours
 * need no lists of offsets.  Sums are made in the order of solve_eliminate.c:
 * between values of equal cost, rounding decides.
 */
#include "passes/solve/solve_net.h"

#include <string.h>

#define MOST_ARMS 8

/* A table: strides of the variable and of its neighbour. */
struct arm {
	const double *at;
	size_t of_var, of_end;
};

struct pairs {
	const double *unary;
	uint32_t values, nx, ny;	/* of it, first, last neighbour */
	struct arm first[MOST_ARMS], last[MOST_ARMS];
	uint32_t nfirst, nlast;
};

static bool
find_arms(const struct solve_net *net, const struct solve_bucket *b,
	  struct pairs *p)
{
	uint32_t last = b->nscope ? b->scope[b->nscope - 1] : SOLVE_NO_VAR, k;

	for (k = 0; k < b->ntables; k++) {
		const struct solve_table *t = &net->tables[b->tables[k]];
		bool outer = t->vars[0] == b->var;
		bool ends = t->vars[outer] == last;
		struct arm arm = { t->cost, 1, 1 };

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

/* The cost of value a beside value x of the first neighbour. */
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

void
solve_keep_least(const double *row, size_t n, uint32_t a, double *cost,
		 uint8_t *best)
{
	size_t i;

	for (i = 0; i < n && !best; i++) {
		cost[i] = row[i] < cost[i] ? row[i] : cost[i];
	}
	/* without a branch: which one is less is unpredictable */
	for (i = 0; i < n && best; i++) {
		bool less = row[i] < cost[i];

		cost[i] = less ? row[i] : cost[i];
		best[i] = less ? (uint8_t)a : best[i];
	}
}

/* row[]: the sums for value a of the variable. */
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

/*
 * The same, and keeps the least, where one table has the last neighbour, as is
 * most frequent: no row is stored.
 */
static void
try_value(const struct pairs *p, uint32_t a, double *cost, uint8_t *best)
{
	const struct arm *e = &p->last[0];
	uint32_t x, y;

	for (x = 0; x < p->nx; x++, best += p->ny) {
		const double *c = e->at + a * e->of_var;
		double sum = sum_first(p, a, x);

		for (y = 0; y < p->ny; y++, c += e->of_end) {
			double all = sum + *c;
			bool less = all < *cost;

			*cost = less ? all : *cost;
			best[y] = less ? (uint8_t)a : best[y];
			cost++;
		}
	}
}

/* The same without best[]. */
static void
lower(const struct pairs *p, uint32_t a, double *cost)
{
	const struct arm *e = &p->last[0];
	uint32_t x, y;

	for (x = 0; x < p->nx; x++) {
		const double *c = e->at + a * e->of_var;
		double sum = sum_first(p, a, x);

		for (y = 0; y < p->ny; y++, c += e->of_end, cost++) {
			double all = sum + *c;

			*cost = all < *cost ? all : *cost;
		}
	}
}

static void
find_best(const struct pairs *p, double *row, size_t n, double *cost,
	  uint8_t *best)
{
	uint32_t a;

	sum_arms(p, 0, cost);
	if (best) {
		memset(best, 0, n);
	}
	for (a = 1; a < p->values; a++) {
		if (p->nlast != 1) {
			sum_arms(p, a, row);
			solve_keep_least(row, n, a, cost, best);
		} else if (best) {
			try_value(p, a, cost, best);
		} else {
			lower(p, a, cost);
		}
	}
}

bool
solve_pairs(const struct solve_net *net, const struct solve_bucket *b,
	    double *row, double *cost, uint8_t *best)
{
	struct pairs p;
	size_t n;

	p.nfirst = p.nlast = 0;
	if (b->nscope > 2 || !find_arms(net, b, &p)) {
		return false;
	}
	p.unary = net->unary[b->var];
	p.values = net->domain[b->var];
	p.nx = b->nscope == 2 ? net->domain[b->scope[0]] : 1;
	p.ny = b->nscope ? net->domain[b->scope[b->nscope - 1]] : 1;
	n = (size_t)p.nx * p.ny;
	if (n > SOLVE_PAIR_SUMS) {
		return false;
	}
	find_best(&p, row, n, cost, best);
	return true;
}
