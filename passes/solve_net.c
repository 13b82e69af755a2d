/*
 * Nets: the memory they live in, and making a smaller one out of another.
 */
#include "passes/solve_net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

struct solve_block {
	struct solve_block *next, *prev;
	size_t class;
	size_t pad;		/* what follows is aligned to 16 */
};

void *
solve_get(struct solve_room *r, size_t bytes)
{
	size_t class = 6;
	struct solve_block *b;

	bytes += sizeof *b;
	while (class + 1 < SOLVE_CLASSES && (size_t)1 << class < bytes) {
		class++;
	}
	b = r->pool->free[class];
	if (b) {
		r->pool->free[class] = b->next;
	} else {
		b = arena_alloc(r->pool->arena, (size_t)1 << class);
		b->class = class;
	}
	b->prev = NULL;
	b->next = r->blocks;
	if (b->next) {
		b->next->prev = b;
	}
	r->blocks = b;
	return b + 1;
}

void *
solve_zero(struct solve_room *r, size_t bytes)
{
	return memset(solve_get(r, bytes), 0, bytes);
}

void
solve_put(struct solve_room *r, void *p)
{
	struct solve_block *b = (struct solve_block *)p - 1;

	if (b->next) {
		b->next->prev = b->prev;
	}
	if (b->prev) {
		b->prev->next = b->next;
	} else {
		r->blocks = b->next;
	}
	b->next = r->pool->free[b->class];
	r->pool->free[b->class] = b;
}

/* The room itself may stand in one of the blocks. */
void
solve_leave(struct solve_room *r)
{
	struct solve_pool *pool = r->pool;
	struct solve_block *b = r->blocks, *next;

	for (; b; b = next) {
		next = b->next;
		b->next = pool->free[b->class];
		pool->free[b->class] = b;
	}
}

void
solve_push(struct solve_room *r, struct solve_list *l, uint32_t item)
{
	if (l->n == l->cap) {
		uint32_t cap = l->cap ? 2 * l->cap : 4;
		uint32_t *at = solve_get(r, cap * sizeof *at);

		if (l->n) {
			memcpy(at, l->at, l->n * sizeof *at);
		}
		l->at = at;
		l->cap = cap;
	}
	l->at[l->n++] = item;
}

/* ---- tables ---- */

struct solve_axis
solve_axis(const struct solve_net *net, const struct solve_table *t,
	   uint32_t var)
{
	struct solve_axis x = { .inner = 1, .domain = net->domain[var] };
	uint32_t k = t->nvars;

	while (t->vars[k - 1] != var) {
		x.inner *= net->domain[t->vars[--k]];
	}
	x.outer = t->n / (x.inner * x.domain);
	return x;
}

void
solve_drop(struct solve_net *net, uint32_t var, uint32_t value)
{
	uint32_t k;
	size_t o, i;

	net->unary[var][value] = INFINITY;
	for (k = 0; k < net->of[var].n; k++) {
		struct solve_table *t = &net->tables[net->of[var].at[k]];
		struct solve_axis x = solve_axis(net, t, var);

		for (o = 0; o < x.outer; o++) {
			double *c = t->cost + (o * x.domain + value) * x.inner;

			for (i = 0; i < x.inner; i++) {
				c[i] = INFINITY;
			}
		}
	}
}

/* By scope, then by entries: tables that compare equal are equal. */
static int
compare_tables(const void *pa, const void *pb)
{
	const struct solve_table *a = pa, *b = pb;
	uint32_t k;
	size_t i;

	for (k = 0; k < a->nvars && k < b->nvars; k++) {
		if (a->vars[k] != b->vars[k]) {
			return a->vars[k] < b->vars[k] ? -1 : 1;
		}
	}
	if (a->nvars != b->nvars) {
		return a->nvars < b->nvars ? -1 : 1;
	}
	for (i = 0; i < a->n; i++) {
		if (a->cost[i] < b->cost[i] || a->cost[i] > b->cost[i]) {
			return a->cost[i] < b->cost[i] ? -1 : 1;
		}
	}
	return 0;
}

static bool
same_scope(const struct solve_table *a, const struct solve_table *b)
{
	return a->nvars == b->nvars &&
	       memcmp(a->vars, b->vars, a->nvars * sizeof *a->vars) == 0;
}

static void
add_to(double *sum, const double *more, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		sum[i] += more[i];
	}
}

/* Sorts and merges; those of fewer than two variables go where they belong. */
static void
settle_tables(struct solve_net *net)
{
	uint32_t k, v, n = 0;

	if (net->ntables) {
		qsort(net->tables, net->ntables, sizeof *net->tables,
		      compare_tables);
	}
	for (k = 0; k < net->ntables; k++) {
		struct solve_table *t = &net->tables[k];

		if (t->nvars == 0) {
			net->base += t->cost[0];
		} else if (t->nvars == 1) {
			add_to(net->unary[t->vars[0]], t->cost, t->n);
		} else if (n && same_scope(&net->tables[n - 1], t)) {
			add_to(net->tables[n - 1].cost, t->cost, t->n);
		} else {
			net->tables[n++] = *t;
		}
	}
	net->ntables = n;
	net->of = solve_zero(&net->room, net->nvars * sizeof *net->of);
	for (k = 0; k < n; k++) {
		for (v = 0; v < net->tables[k].nvars; v++) {
			solve_push(&net->room,
				   &net->of[net->tables[k].vars[v]], k);
		}
	}
}

/* ---- the smaller net ---- */

/* How the old net's variables show in the new one. */
struct lens {
	const struct solve_net *in;
	struct solve_net *out;
	uint32_t *to;		/* its number there; SOLVE_NO_VAR: one value */
	uint8_t **left;		/* old values that are left */
};

static void
see_variable(struct lens *l, uint32_t v, uint32_t *choice)
{
	const struct solve_net *in = l->in;
	struct solve_net *out = l->out;
	uint8_t *left = solve_get(&out->room, in->domain[v] + 1);
	uint32_t a, n = 0, k = out->nvars;

	for (a = 0; a < in->domain[v]; a++) {
		if (in->unary[v][a] < INFINITY) {
			left[n++] = (uint8_t)a;
		}
	}
	l->left[v] = left;
	if (n == 0) {
		die("variable %u has no value", in->id[v]);
	}
	if (n == 1) {
		l->to[v] = SOLVE_NO_VAR;
		choice[in->id[v]] = in->value[v][left[0]];
		out->base += in->unary[v][left[0]];
		return;
	}
	l->to[v] = k;
	out->nvars++;
	out->id[k] = in->id[v];
	out->domain[k] = n;
	out->value[k] = solve_get(&out->room, n);
	out->unary[k] = solve_get(&out->room, n * sizeof **out->unary);
	for (a = 0; a < n; a++) {
		out->value[k][a] = in->value[v][left[a]];
		out->unary[k][a] = in->unary[v][left[a]];
	}
}

/* What is left of a table: its entries at what is left of its variables. */
static void
see_table(struct lens *l, const struct solve_table *t)
{
	struct solve_net *out = l->out;
	struct solve_table *u = &out->tables[out->ntables++];
	struct solve_room *room = &out->room;
	size_t *stride = solve_get(room, t->nvars * sizeof *stride);
	uint32_t *old = solve_get(room, t->nvars * sizeof *old);
	uint32_t *at = solve_zero(room, t->nvars * sizeof *at);
	size_t base = 0, step = 1, i;
	uint32_t k;

	u->vars = solve_get(room, t->nvars * sizeof *u->vars);
	u->nvars = 0;
	u->n = 1;
	for (k = t->nvars; k-- > 0; step *= l->in->domain[t->vars[k]]) {
		uint32_t v = t->vars[k];

		base += step * l->left[v][0];
		if (l->to[v] != SOLVE_NO_VAR) {
			old[u->nvars] = v;
			stride[u->nvars++] = step;
			u->n *= out->domain[l->to[v]];
		}
	}
	for (k = 0; k < u->nvars; k++) {
		u->vars[k] = l->to[old[u->nvars - 1 - k]];
	}
	u->cost = solve_get(room, u->n * sizeof *u->cost);
	for (i = 0; i < u->n; i++) {
		u->cost[i] = t->cost[base];
		/* old[] and stride[] begin with the fastest */
		for (k = 0; k < u->nvars; k++) {
			const uint8_t *left = l->left[old[k]];

			base -= stride[k] * left[at[k]];
			if (++at[k] < out->domain[l->to[old[k]]]) {
				base += stride[k] * left[at[k]];
				break;
			}
			at[k] = 0;
			base += stride[k] * left[0];
		}
	}
	solve_put(room, stride);
	solve_put(room, old);
	solve_put(room, at);
}

struct solve_net *
solve_restrict(const struct solve_net *in, const struct solve_part *part,
	       uint32_t *choice)
{
	struct solve_room room = { in->room.pool, NULL };
	struct solve_net *out = solve_zero(&room, sizeof *out);
	struct lens l = { .in = in, .out = out };
	uint32_t k;

	out->room = room;
	out->base = in->base;
	l.to = solve_get(&out->room, in->nvars * sizeof *l.to);
	l.left = solve_get(&out->room, in->nvars * sizeof *l.left);
	out->id = solve_get(&out->room, part->nvars * sizeof *out->id);
	out->domain = solve_get(&out->room, part->nvars * sizeof *out->domain);
	out->value = solve_get(&out->room, part->nvars * sizeof *out->value);
	out->unary = solve_get(&out->room, part->nvars * sizeof *out->unary);
	out->cap = part->ntables;
	out->tables = solve_get(&out->room, out->cap * sizeof *out->tables);
	for (k = 0; k < part->nvars; k++) {
		see_variable(&l, part->vars[k], choice);
	}
	for (k = 0; k < part->ntables; k++) {
		see_table(&l, &in->tables[part->tables[k]]);
	}
	settle_tables(out);
	for (k = 0; k < part->nvars; k++) {
		solve_put(&out->room, l.left[part->vars[k]]);
	}
	solve_put(&out->room, l.to);
	solve_put(&out->room, l.left);
	return out;
}

struct solve_part
solve_whole(struct solve_net *net)
{
	uint32_t n = net->nvars > net->ntables ? net->nvars : net->ntables, k;
	uint32_t *all = solve_get(&net->room, n * sizeof *all);

	for (k = 0; k < n; k++) {
		all[k] = k;
	}
	return (struct solve_part){ all, all, net->nvars, net->ntables };
}

void
solve_net_free(struct solve_net *net)
{
	solve_leave(&net->room);
}
