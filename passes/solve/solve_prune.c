/*
 * Drops values that no best assignment needs: those that have INFINITY beside
 * all values of some neighbour (arc consistency), and those that another value
 * of the variable beats whatever its neighbours are (Goldstein's dead-end
 * elimination, Biophys.  J.  66, 1994).  Both are repeated until nothing more
 * can be dropped.
 */
#include "passes/solve/solve_net.h"

#include <math.h>
#include <string.h>

/* Variables to be looked at, each at most once, first in, first out. */
struct prune_queue {
	uint32_t *var, head, n, cap;
	bool *queued;
};

/*
 * A table as seen by one of its variables.  Of tables of two, bit b of meets[]
 * at its value a says that the entry at value b of the other one is finite.
 */
struct view {
	struct solve_axis axis;
	double *cost;		/* its entries */
	uint64_t *meets;	/* NULL: too many values, or variables */
	struct view *other;	/* as the other variable sees it */
};

struct prune {
	struct solve_net *net;
	struct prune_queue arcs, beaten;
	double margin;
	struct view **views;	/* by variable, by table of it */
	/*
	 * By variable: one of its values, or of its neighbours', was dropped or
	 * is INFINITY.  Otherwise its arcs need no check.
	 */
	bool *lost;
};

static void
enqueue(struct prune_queue *q, uint32_t v)
{
	if (!q->queued[v]) {
		q->queued[v] = true;
		q->var[(q->head + q->n++) % q->cap] = v;
	}
}

static bool
dequeue(struct prune_queue *q, uint32_t *v)
{
	if (q->n == 0) {
		return false;
	}
	*v = q->var[q->head];
	q->head = (q->head + 1) % q->cap;
	q->n--;
	q->queued[*v] = false;
	return true;
}

static void
queue_all(struct prune_queue *q, struct solve_net *net)
{
	uint32_t v;

	q->cap = net->nvars;
	q->head = q->n = 0;
	q->var = solve_alloc(&net->mem, net->nvars * sizeof *q->var);
	q->queued = solve_calloc(&net->mem, net->nvars * sizeof *q->queued);
	for (v = 0; v < net->nvars; v++) {
		enqueue(q, v);
	}
}

/* Queues the neighbours of a variable that lost a value. */
static void
wake(struct prune *p, uint32_t v)
{
	const struct solve_list *of = &p->net->of[v];
	uint32_t k, j;

	enqueue(&p->beaten, v);
	for (k = 0; k < of->n; k++) {
		const struct solve_table *t = &p->net->tables[of->at[k]];

		for (j = 0; j < t->nvars; j++) {
			if (t->vars[j] != v) {
				enqueue(&p->arcs, t->vars[j]);
				enqueue(&p->beaten, t->vars[j]);
			}
		}
	}
}

#define MOST_BITS 64

/* A bit for each finite entry. */
static uint64_t
allowed(const double *c, uint32_t n)
{
	uint64_t bits = 0;

	while (n-- > 0) {
		bits = bits << 1 | (c[n] < INFINITY);
	}
	return bits;
}

/*
 * Fills meets[] of both views of a table of two.  Most rows are all finite or
 * all INFINITY.
 */
static void
find_bits(struct prune *p, const struct solve_table *t, struct view *x,
	  struct view *y)
{
	uint32_t na = x->axis.domain, nb = y->axis.domain, a, b;
	uint64_t all = ~(uint64_t)0 >> (64 - nb), free = 0, row;
	const double *c = t->cost;
	bool lost = false;

	memset(y->meets, 0, nb * sizeof *y->meets);
	for (a = 0; a < na; a++, c += nb) {
		x->meets[a] = row = allowed(c, nb);
		lost |= row == 0;
		if (row == all) {
			free |= (uint64_t)1 << a;
			continue;
		}
		for (; row; row &= row - 1) {
			y->meets[__builtin_ctzll(row)] |= (uint64_t)1 << a;
		}
	}
	p->lost[t->vars[0]] |= lost;
	lost = false;
	for (b = 0; b < nb; b++) {
		y->meets[b] |= free;
		lost |= y->meets[b] == 0;
	}
	p->lost[t->vars[1]] |= lost;
}

static void
find_view(struct prune *p, const struct solve_table *t, uint32_t v,
	  struct view *x)
{
	*x = (struct view){ solve_axis(p->net, t, v), t->cost, NULL, NULL };
	p->lost[v] = true;
}

/* Makes both views of a table of two with few values each. */
static void
find_pair(struct prune *p, const struct solve_table *t, struct view *x,
	  struct view *y, uint64_t **bits)
{
	uint32_t na = p->net->domain[t->vars[0]];
	uint32_t nb = p->net->domain[t->vars[1]];

	*x = (struct view){ { 1, nb, na }, t->cost, *bits, y };
	*y = (struct view){ { na, 1, nb }, t->cost, *bits + na, x };
	*bits += na + nb;
	find_bits(p, t, x, y);
}

/* All views, in the order of net->of. */
static void
find_views(struct prune *p)
{
	struct solve_net *net = p->net;
	uint32_t *n = solve_calloc(&net->mem, net->nvars * sizeof *n), v, k, j;
	size_t all = 0, words = 0;
	struct view *view;
	uint64_t *bits;

	for (v = 0; v < net->nvars; v++) {
		all += net->of[v].n;
		words += (size_t)net->of[v].n * net->domain[v];
	}
	p->views = solve_alloc(&net->mem, net->nvars * sizeof *p->views);
	view = solve_alloc(&net->mem, all * sizeof *view);
	bits = solve_alloc(&net->mem, words * sizeof *bits);
	for (v = 0; v < net->nvars; v++) {
		p->views[v] = view;
		view += net->of[v].n;
	}
	for (k = 0; k < net->ntables; k++) {
		const struct solve_table *t = &net->tables[k];
		const uint32_t *u = t->vars;

		if (t->nvars == 2 && net->domain[u[0]] <= MOST_BITS &&
		    net->domain[u[1]] <= MOST_BITS) {
			find_pair(p, t, &p->views[u[0]][n[u[0]]++],
				  &p->views[u[1]][n[u[1]]++], &bits);
			continue;
		}
		for (j = 0; j < t->nvars; j++) {
			find_view(p, t, u[j], &p->views[u[j]][n[u[j]]++]);
		}
	}
}

/* Makes all entries of a value INFINITY. */
static void
forbid(const struct view *x, uint32_t value)
{
	double *c = x->cost + value * x->axis.inner;
	size_t row = x->axis.domain * x->axis.inner, o, i;

	for (o = 0; o < x->axis.outer; o++, c += row) {
		for (i = 0; i < x->axis.inner; i++) {
			c[i] = INFINITY;
		}
	}
}

/* Drops a value, and clears its bits in the views of neighbours. */
static void
drop(struct prune *p, uint32_t v, uint32_t value)
{
	const struct solve_list *of = &p->net->of[v];
	uint64_t others = ~((uint64_t)1 << value % 64);
	const struct view *x = p->views[v];
	uint32_t k, a;

	p->net->unary[v][value] = INFINITY;
	for (k = 0; k < of->n; k++, x++) {
		const struct solve_table *t = &p->net->tables[of->at[k]];
		struct view *other = x->other;
		bool lost = false;

		forbid(x, value);
		for (a = 0; a < t->nvars && !other; a++) {
			p->lost[t->vars[a]] = true;
		}
		for (a = 0; other && a < other->axis.domain; a++) {
			other->meets[a] &= others;
			lost |= other->meets[a] == 0;
		}
		if (lost) {
			p->lost[t->vars[t->vars[0] == v]] = true;
		}
	}
}

/* Whether value a has a finite entry. */
static bool
meets(const struct view *view, uint32_t a)
{
	const struct solve_axis *x = &view->axis;
	const double *c = view->cost + a * x->inner;
	size_t o, i;

	for (o = 0; o < x->outer; o++, c += x->domain * x->inner) {
		for (i = 0; i < x->inner; i++) {
			if (c[i] < INFINITY) {
				return true;
			}
		}
	}
	return false;
}

static bool
supported(const struct prune *p, uint32_t v, uint32_t a)
{
	const struct view *x = p->views[v], *end = x + p->net->of[v].n;

	for (; x < end; x++) {
		if (x->meets ? !x->meets[a] : !meets(x, a)) {
			return false;
		}
	}
	return true;
}

/* False if no value of v is left. */
static bool
check_arcs(struct prune *p, uint32_t v)
{
	const double *unary = p->net->unary[v];
	uint32_t a, left = 0;
	bool dropped = false;

	if (!p->lost[v]) {
		return true;
	}
	p->lost[v] = false;
	for (a = 0; a < p->net->domain[v]; a++) {
		if (unary[a] < INFINITY) {
			if (supported(p, v, a)) {
				left++;
			} else {
				drop(p, v, a);
				dropped = true;
			}
		}
	}
	if (dropped) {
		wake(p, v);
	}
	return left > 0;
}

/* The least and the most that a costs above b, over all its neighbours. */
struct gap {
	double least, most;
};

/* Of entries that are `step` apart. */
static struct gap
compare(const double *a, const double *b, size_t n, size_t step,
	struct gap s)
{
	size_t i;

	for (i = 0; i < n * step; i += step) {
		/*
		 * Where both are INFINITY this is NaN, and both comparisons are
		 * false.
		 */
		double d = a[i] - b[i];

		s.least = d < s.least ? d : s.least;
		s.most = d > s.most ? d : s.most;
	}
	return s;
}

static struct gap
compare_in(const double *a, const double *b, const struct solve_axis *x)
{
	struct gap s = { INFINITY, -INFINITY };
	size_t row = x->domain * x->inner, o;

	if (x->inner == 1) {
		return compare(a, b, x->outer, row, s);
	}
	for (o = 0; o < x->outer; o++, a += row, b += row) {
		s = compare(a, b, x->inner, 1, s);
	}
	return s;
}

/*
 * By value of a variable, which values of some neighbours have finite entries.
 */
struct value_race {
	uint32_t n;
	uint8_t value[SOLVE_MAX_DOMAIN];
	uint64_t meets[SOLVE_MAX_DOMAIN];
};

static void
find_left(const struct prune *p, uint32_t v, struct value_race *r)
{
	const double *unary = p->net->unary[v];
	uint32_t n = p->net->domain[v], a;

	r->n = 0;
	for (a = 0; a < n; a++) {
		r->value[r->n] = (uint8_t)a;
		r->n += unary[a] < INFINITY;
	}
}

/* Of as many tables as fit the bits of a word. */
static void
gather(const struct prune *p, uint32_t v, struct value_race *r)
{
	const struct view *x = p->views[v], *end = x + p->net->of[v].n;
	uint32_t left = MOST_BITS, i;

	memset(r->meets, 0, r->n * sizeof *r->meets);
	for (; x < end; x++) {
		uint32_t bits = x->other ? x->other->axis.domain : left + 1;

		/* shifting by all bits of a word is undefined */
		if (bits <= left && bits < MOST_BITS) {
			left -= bits;
			for (i = 0; i < r->n; i++) {
				r->meets[i] = r->meets[i] << bits |
					      x->meets[r->value[i]];
			}
		}
	}
}

/* Whether each has a bit that the other lacks. */
static bool
differ(uint64_t a, uint64_t b)
{
	return (a & ~b) && (b & ~a);
}

/*
 * 1 if b is never cheaper than a and always dearer by the margin, -1 if it is
 * the other way round.  If both hold they cost the same, and the higher value
 * is dropped.
 */
static int
beats(const struct prune *p, uint32_t v, uint32_t a, uint32_t b)
{
	const double *unary = p->net->unary[v];
	const struct view *view = p->views[v], *end = view + p->net->of[v].n;
	double least = unary[b] - unary[a], most = least;

	for (; view < end; view++) {
		const struct solve_axis *x = &view->axis;
		struct gap s = compare_in(view->cost + b * x->inner,
					  view->cost + a * x->inner, x);

		/* INFINITY is kept: opposite ones are never added */
		least = s.least > -INFINITY ? least + s.least : s.least;
		most = s.most < INFINITY ? most + s.most : s.most;
		if (!(least > -INFINITY) && !(most < INFINITY)) {
			return 0;
		}
	}
	return least >= p->margin ? 1 : most <= -p->margin ? -1 : 0;
}

/* Compares a value with all after it; whether one was dropped. */
static bool
race(struct prune *p, uint32_t v, const struct value_race *r, uint32_t i)
{
	const double *unary = p->net->unary[v];
	uint32_t a = r->value[i], k;
	bool dropped = false;

	for (k = i + 1; k < r->n && unary[a] < INFINITY; k++) {
		uint32_t b = r->value[k];
		int who;

		if (differ(r->meets[i], r->meets[k]) ||
		    !(unary[b] < INFINITY)) {
			continue;
		}
		who = beats(p, v, a, b);
		if (who != 0) {
			drop(p, v, who > 0 ? b : a);
			dropped = true;
		}
	}
	return dropped;
}

static void
check_beaten(struct prune *p, uint32_t v)
{
	struct value_race r;
	bool dropped = false;
	uint32_t i;

	find_left(p, v, &r);
	if (r.n < 2) {
		return;
	}
	gather(p, v, &r);	/* dropping values here does not change it */
	for (i = 0; i + 1 < r.n; i++) {
		dropped |= race(p, v, &r, i);
	}
	if (dropped) {
		p->net->compared = true;
		wake(p, v);
	}
}

/* What the variable's own costs forbid is to show in its tables too. */
static void
spread_forbidden(struct prune *p)
{
	struct solve_net *net = p->net;
	uint32_t v, a;

	for (v = 0; v < net->nvars; v++) {
		for (a = 0; a < net->domain[v]; a++) {
			if (!(net->unary[v][a] < INFINITY)) {
				drop(p, v, a);
				p->lost[v] = true;
			}
		}
	}
}

bool
solve_prune(struct solve_net *net, double margin, uint32_t *bad)
{
	struct prune p = { .net = net, .margin = margin };
	uint32_t v;

	p.lost = solve_calloc(&net->mem, net->nvars * sizeof *p.lost);
	find_views(&p);
	spread_forbidden(&p);
	queue_all(&p.arcs, net);
	queue_all(&p.beaten, net);
	for (;;) {
		if (dequeue(&p.arcs, &v)) {
			if (!check_arcs(&p, v)) {
				*bad = net->id[v];
				return false;
			}
		} else if (dequeue(&p.beaten, &v)) {
			check_beaten(&p, v);
		} else {
			return true;
		}
	}
}
