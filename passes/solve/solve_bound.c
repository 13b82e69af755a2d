/*
 * Bounds by message passing, after Kolmogorov's "A new look at reweighted
 * message passing" (PAMI 37, 2015).  Costs move between a variable and its
 * tables such that every assignment costs what it did before; the sum of what
 * all variables and tables cost at the least is a lower bound.  An assignment
 * that is read off the moved costs is an upper bound.  A value whose cost is
 * above the difference of the two is in no best assignment.
 *
 * All of it is done on copies, so that rounding affects the bounds only, not
 * the costs.
 */
#include "passes/solve/solve_net.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define MAX_SWEEPS 60
#define READ_EVERY 3	/* sweeps */
/* A sweep that closes less than this fraction of the gap is the last. */
#define WORTHWHILE 0.005

struct bounding {
	struct solve_net *net;
	struct solve_net rest;	/* a copy whose tables and unary costs change */
	struct solve_scratch mem;
	double *least, *sum;	/* of one variable, by value */
	uint32_t *reading;
	double slack;		/* the most that rounding may add up to */
	struct solve_bounds *out;
};

static double
magnitude(const double *c, size_t n)
{
	double most = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		if (c[i] < INFINITY && fabs(c[i]) > most) {
			most = fabs(c[i]);
		}
	}
	return most;
}

double
solve_scale(const struct solve_net *net)
{
	double sum = fabs(net->base);
	uint32_t k;

	for (k = 0; k < net->nvars; k++) {
		sum += magnitude(net->unary[k], net->domain[k]);
	}
	for (k = 0; k < net->ntables; k++) {
		sum += magnitude(net->tables[k].cost, net->tables[k].n);
	}
	return sum;
}

static double
take_least(double *c, size_t n)
{
	double least = INFINITY;
	size_t i;

	for (i = 0; i < n; i++) {
		least = c[i] < least ? c[i] : least;
	}
	for (i = 0; i < n && least < INFINITY; i++) {
		c[i] -= least;
	}
	return least;
}

static void
copy_net(struct bounding *b)
{
	struct solve_net *net = b->net, *rest = &b->rest;
	uint32_t k, most = 0;

	*rest = *net;
	rest->mem = b->mem;
	rest->tables = solve_alloc(&b->mem, net->ntables *
				   sizeof *rest->tables);
	rest->unary = solve_alloc(&b->mem, net->nvars * sizeof *rest->unary);
	for (k = 0; k < net->ntables; k++) {
		const struct solve_table *t = &net->tables[k];

		rest->tables[k] = *t;
		rest->tables[k].cost = solve_alloc(&b->mem, t->n *
						   sizeof *t->cost);
		memcpy(rest->tables[k].cost, t->cost, t->n * sizeof *t->cost);
		rest->base += take_least(rest->tables[k].cost, t->n);
	}
	for (k = 0; k < net->nvars; k++) {
		size_t bytes = net->domain[k] * sizeof **rest->unary;

		rest->unary[k] = solve_alloc(&b->mem, bytes);
		memcpy(rest->unary[k], net->unary[k], bytes);
		rest->base += take_least(rest->unary[k], net->domain[k]);
		most = net->domain[k] > most ? net->domain[k] : most;
	}
	b->least = solve_alloc(&b->mem, most * sizeof *b->least);
	b->sum = solve_alloc(&b->mem, most * sizeof *b->sum);
	b->reading = solve_calloc(&b->mem, net->nvars * sizeof *b->reading);
	b->out->values = solve_calloc(&net->mem, net->nvars *
				      sizeof *b->out->values);
}

/* Of the last variable of a table: its values are adjacent. */
static void
least_columns(const struct solve_axis *x, const double *c, double *least)
{
	size_t o;
	uint32_t a;

	for (o = 0; o < x->outer; o++, c += x->domain) {
		for (a = 0; a < x->domain; a++) {
			least[a] = c[a] < least[a] ? c[a] : least[a];
		}
	}
}

/* least[]: by value of v, the least entry of the table. */
static void
least_rows(struct bounding *b, const struct solve_table *t, uint32_t v)
{
	struct solve_axis x = solve_axis(&b->rest, t, v);
	const double *c = t->cost;
	size_t o, i;
	uint32_t a;

	for (a = 0; a < x.domain; a++) {
		b->least[a] = INFINITY;
	}
	if (x.inner == 1) {
		least_columns(&x, c, b->least);
		return;
	}
	for (o = 0; o < x.outer; o++) {
		for (a = 0; a < x.domain; a++, c += x.inner) {
			double least = b->least[a];

			for (i = 0; i < x.inner; i++) {
				least = c[i] < least ? c[i] : least;
			}
			b->least[a] = least;
		}
	}
}

/* Adds to each entry what more[] has for its value of the variable. */
static void
add_by_value(const struct solve_axis *x, double *c, const double *more)
{
	size_t o, i;
	uint32_t a;

	for (o = 0; x->inner == 1 && o < x->outer; o++, c += x->domain) {
		for (a = 0; a < x->domain; a++) {
			c[a] += more[a];
		}
	}
	for (o = 0; x->inner > 1 && o < x->outer; o++) {
		for (a = 0; a < x->domain; a++, c += x->inner) {
			for (i = 0; i < x->inner; i++) {
				c[i] += more[a];
			}
		}
	}
}

/* Moves the least entry of each value of v from the table to v. */
static void
collect(struct bounding *b, struct solve_table *t, uint32_t v)
{
	struct solve_axis x = solve_axis(&b->rest, t, v);
	double *unary = b->rest.unary[v], *least = b->least;
	uint32_t a;

	least_rows(b, t, v);
	for (a = 0; a < x.domain; a++) {
		unary[a] += least[a];
		/* a row of INFINITY alone gives nothing */
		least[a] = least[a] < INFINITY ? -least[a] : 0;
	}
	add_by_value(&x, t->cost, least);
}

/* Moves a share of the variable's costs into the table. */
static void
hand_out(struct bounding *b, struct solve_table *t, uint32_t v, double part)
{
	struct solve_axis x = solve_axis(&b->rest, t, v);
	uint32_t a;

	for (a = 0; a < x.domain; a++) {
		b->least[a] = b->rest.unary[v][a] * part;
	}
	add_by_value(&x, t->cost, b->least);
}

/*
 * Drops values that cost more than the gap, while v has all that its tables can
 * give.
 */
static void
drop_dear(struct bounding *b, uint32_t v)
{
	double gap = b->out->high - b->rest.base + b->slack;
	uint32_t a;

	for (a = 0; a < b->net->domain[v]; a++) {
		if (b->net->unary[v][a] < INFINITY &&
		    b->rest.unary[v][a] > gap) {
			solve_drop_value(b->net, v, a);
			solve_drop_value(&b->rest, v, a);
			b->out->dropped = true;
		}
	}
}

/* Whether v is the last variable of the table in the direction of the sweep. */
static bool
at_end(const struct solve_table *t, uint32_t v, bool forward)
{
	return t->vars[forward ? t->nvars - 1 : 0] == v;
}

/* False if the variable has no value left. */
static bool
visit(struct bounding *b, uint32_t v, bool forward)
{
	const struct solve_list *of = &b->rest.of[v];
	uint32_t ahead = 0, behind = 0, k;
	double least, part;

	for (k = 0; k < of->n; k++) {
		struct solve_table *t = &b->rest.tables[of->at[k]];

		collect(b, t, v);
		ahead += !at_end(t, v, forward);
		behind += !at_end(t, v, !forward);
	}
	least = take_least(b->rest.unary[v], b->rest.domain[v]);
	b->rest.base += least;
	if (!(least < INFINITY)) {
		return false;
	}
	drop_dear(b, v);
	part = 1.0 / (ahead > behind ? ahead : behind ? behind : 1);
	for (k = 0; k < of->n; k++) {
		struct solve_table *t = &b->rest.tables[of->at[k]];

		if (!at_end(t, v, forward)) {
			hand_out(b, t, v, part);
		}
	}
	for (k = 0; k < b->rest.domain[v]; k++) {
		if (b->rest.unary[v][k] < INFINITY) {
			b->rest.unary[v][k] *= ahead == 0 ? 1 :
				ahead >= behind ? 0 : 1 - part * ahead;
		}
	}
	return true;
}

/* ---- an assignment, as an upper bound ---- */

/*
 * Adds to row[] the entries of a table by value of v, the others being as
 * chosen.
 */
static void
price_row(struct bounding *b, const struct solve_table *t, uint32_t v)
{
	size_t at = 0, step = 1, of_var = 0;
	uint32_t a, k;

	for (k = t->nvars; k-- > 0; step *= b->net->domain[t->vars[k]]) {
		if (t->vars[k] == v) {
			of_var = step;
		} else {
			at += step * b->reading[t->vars[k]];
		}
	}
	for (a = 0; a < b->net->domain[v]; a++) {
		b->sum[a] += t->cost[at + a * of_var];
	}
}

static bool
choose_least(struct bounding *b, uint32_t v)
{
	uint32_t a, old = b->reading[v];

	b->reading[v] = 0;
	for (a = 1; a < b->net->domain[v]; a++) {
		if (b->sum[a] < b->sum[b->reading[v]]) {
			b->reading[v] = a;
		}
	}
	return b->reading[v] != old;
}

static double
price(struct bounding *b)
{
	double sum = b->net->base;
	uint32_t v, k;

	for (v = 0; v < b->net->nvars; v++) {
		sum += b->net->unary[v][b->reading[v]];
	}
	for (k = 0; k < b->net->ntables; k++) {
		const struct solve_table *t = &b->net->tables[k];
		size_t at = 0;

		for (v = 0; v < t->nvars; v++) {
			at = at * b->net->domain[t->vars[v]] +
			     b->reading[t->vars[v]];
		}
		sum += t->cost[at];
	}
	return sum;
}

/*
 * Gives each variable the value that is cheapest beside those of the others,
 * while that lowers the cost.
 */
static void
improve(struct bounding *b)
{
	bool changed = true;
	uint32_t v, k, round;

	for (round = 0; changed && round < 10; round++) {
		changed = false;
		for (v = 0; v < b->net->nvars; v++) {
			const struct solve_list *of = &b->net->of[v];

			memcpy(b->sum, b->net->unary[v],
			       b->net->domain[v] * sizeof *b->sum);
			for (k = 0; k < of->n; k++) {
				price_row(b, &b->net->tables[of->at[k]], v);
			}
			changed |= choose_least(b, v);
		}
	}
}

/*
 * Chooses one variable after another: by what tables cost whose other variables
 * are chosen, and by the least that the others can cost.
 */
static void
read_off(struct bounding *b)
{
	double cost;
	uint32_t v, k, a;

	for (v = 0; v < b->net->nvars; v++) {
		const struct solve_list *of = &b->rest.of[v];

		memcpy(b->sum, b->rest.unary[v],
		       b->net->domain[v] * sizeof *b->sum);
		for (k = 0; k < of->n; k++) {
			struct solve_table *t = &b->rest.tables[of->at[k]];

			if (at_end(t, v, true)) {
				price_row(b, t, v);
				continue;
			}
			least_rows(b, t, v);
			for (a = 0; a < b->net->domain[v]; a++) {
				b->sum[a] += b->least[a];
			}
		}
		choose_least(b, v);
	}
	improve(b);
	cost = price(b);
	if (cost < b->out->high) {
		b->out->high = cost;
		memcpy(b->out->values, b->reading,
		       b->net->nvars * sizeof *b->reading);
	}
}

bool
solve_bound(struct solve_net *net, double high, struct solve_bounds *out)
{
	struct bounding b = { .net = net, .out = out };
	uint32_t sweep, v;
	bool left = true;

	memset(out, 0, sizeof *out);
	out->high = high;
	b.mem.pool = net->mem.pool;
	b.slack = 1e4 * DBL_EPSILON * solve_scale(net);
	copy_net(&b);
	for (sweep = 0; sweep < MAX_SWEEPS && left; sweep++) {
		double before = b.rest.base;

		for (v = 0; v < net->nvars && left; v++) {
			left = visit(&b, v, true);
		}
		for (v = net->nvars; v-- > 0 && left;) {
			left = visit(&b, v, false);
		}
		if (left && sweep % READ_EVERY == 0) {
			read_off(&b);
		}
		/* there is no gap any more, or it closes too slowly */
		if (b.rest.base >= out->high || (out->high < INFINITY &&
		    b.rest.base - before <=
		    WORTHWHILE * (out->high - b.rest.base))) {
			break;
		}
	}
	out->low = left ? b.rest.base : INFINITY;
	solve_scratch_release(&b.mem);
	return left;
}
