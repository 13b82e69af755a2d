/*
 * Nets: the memory they live in, and making a smaller one out of another.
 */
#include "passes/solve/solve_net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

struct solve_block {
	struct solve_block *next, *prev;
	size_t class;
	size_t pad;		/* what follows is aligned to 16 */
};

/* The least power of two that holds so many bytes, from 64 on. */
static size_t
class_of(size_t bytes)
{
	return bytes <= 64 ? 6
		: 64 - (size_t)__builtin_clzll((unsigned long long)bytes - 1);
}

void *
solve_alloc(struct solve_scratch *r, size_t bytes)
{
	size_t class = class_of(bytes + sizeof(struct solve_block));
	struct solve_block *b;

	if (class >= SOLVE_CLASSES) {
		die("a block of %zu bytes", bytes);
	}
	b = r->pool->free[class];
	if (b) {
		r->pool->free[class] = b->next;
	} else {
		b = arena_alloc_raw(r->pool->arena, (size_t)1 << class);
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
solve_calloc(struct solve_scratch *r, size_t bytes)
{
	return memset(solve_alloc(r, bytes), 0, bytes);
}

void
solve_free(struct solve_scratch *r, void *p)
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

/* The scratch itself may lie in one of the blocks. */
void
solve_scratch_release(struct solve_scratch *r)
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
solve_list_push(struct solve_scratch *r, struct solve_list *l, uint32_t item)
{
	if (l->n == l->cap) {
		uint32_t cap = l->cap ? 2 * l->cap : 4;
		uint32_t *at = solve_alloc(r, cap * sizeof *at);

		if (l->n) {
			memcpy(at, l->at, l->n * sizeof *at);
		}
		l->at = at;
		l->cap = cap;
	}
	l->at[l->n++] = item;
}

/* ---- tables ---- */

#define MANY 16		/* tables of the same variables */

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
solve_drop_value(struct solve_net *net, uint32_t var, uint32_t value)
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

static int
compare_scopes(const struct solve_table *a, const struct solve_table *b)
{
	uint32_t k;

	for (k = 0; k < a->nvars && k < b->nvars; k++) {
		if (a->vars[k] != b->vars[k]) {
			return a->vars[k] < b->vars[k] ? -1 : 1;
		}
	}
	return a->nvars == b->nvars ? 0 : a->nvars < b->nvars ? -1 : 1;
}

/* By variables, then by entries: tables that compare equal are equal. */
static int
compare_tables(const void *pa, const void *pb)
{
	const struct solve_table *a = pa, *b = pb;
	int scopes = compare_scopes(a, b);
	size_t i;

	for (i = 0; !scopes && i < a->n; i++) {
		if (a->cost[i] < b->cost[i] || a->cost[i] > b->cost[i]) {
			return a->cost[i] < b->cost[i] ? -1 : 1;
		}
	}
	return scopes;
}

void
solve_add_costs(double *sum, const double *more, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		sum[i] += more[i];
	}
}

void
solve_sort_same(struct solve_table *t, uint32_t n)
{
	uint32_t i, k;

	if (n > MANY) {
		qsort(t, n, sizeof *t, compare_tables);
		return;
	}
	for (i = 1; i < n; i++) {
		struct solve_table x = t[i];

		for (k = i; k > 0 && compare_tables(&x, &t[k - 1]) < 0; k--) {
			t[k] = t[k - 1];
		}
		t[k] = x;
	}
}

/*
 * A stable sort by the variable at one place; tables that have none there are
 * first.
 */
static void
sort_by(const struct solve_net *net, const struct solve_table *from,
	struct solve_table *to, uint32_t n, uint32_t place, uint32_t *next)
{
	uint32_t k, v;

	memset(next, 0, (net->nvars + 2) * sizeof *next);
	for (k = 0; k < n; k++) {
		next[place < from[k].nvars ? from[k].vars[place] + 2 : 1]++;
	}
	for (v = 0; v <= net->nvars; v++) {
		next[v + 1] += next[v];
	}
	for (k = 0; k < n; k++) {
		to[next[place < from[k].nvars ? from[k].vars[place] + 1
			: 0]++] = from[k];
	}
}

/* Radix sort, from the last variable to the first. */
void
solve_sort_scopes(struct solve_net *net, struct solve_table *t, uint32_t n)
{
	struct solve_scratch *mem = &net->mem;
	struct solve_table *other = solve_alloc(mem, n * sizeof *other);
	struct solve_table *from = t, *to = other, *done;
	uint32_t *next = solve_alloc(mem, (net->nvars + 2) * sizeof *next);
	uint32_t place = 0, k;

	for (k = 0; k < n; k++) {
		place = t[k].nvars > place ? t[k].nvars : place;
	}
	while (place-- > 0) {
		sort_by(net, from, to, n, place, next);
		done = to;
		to = from;
		from = done;
	}
	if (from != t) {
		memcpy(t, from, n * sizeof *t);
	}
	solve_free(mem, other);
	solve_free(mem, next);
}

bool
solve_same_scope(const struct solve_table *a, const struct solve_table *b)
{
	return compare_scopes(a, b) == 0;
}

/* Sorts as compare_tables does. */
static void
sort_tables(struct solve_net *net, struct solve_table *t, uint32_t n)
{
	uint32_t k, same;

	solve_sort_scopes(net, t, n);
	for (k = 0; k < n; k += same) {
		for (same = 1; k + same < n &&
		     compare_scopes(&t[k], &t[k + same]) == 0; same++) {
		}
		solve_sort_same(t + k, same);
	}
}

/* Whether they are sorted, no two of the same variables. */
static bool
in_order(const struct solve_table *t, uint32_t n)
{
	uint32_t k;

	for (k = 1; k < n; k++) {
		if (compare_scopes(&t[k - 1], &t[k]) >= 0) {
			return false;
		}
	}
	return true;
}

/* The lists have no spare capacity. */
void
solve_list_tables(struct solve_net *net)
{
	const struct solve_table *t = net->tables, *end = t + net->ntables;
	struct solve_list *of = solve_calloc(&net->mem, net->nvars *
					     sizeof *of);
	uint32_t k, v, all = 0, *at;

	for (; t < end; t++) {
		for (k = 0; k < t->nvars; k++) {
			of[t->vars[k]].cap++;
		}
		all += t->nvars;
	}
	at = solve_alloc(&net->mem, all * sizeof *at);
	for (v = 0; v < net->nvars; at += of[v++].cap) {
		of[v].at = at;
	}
	for (t = net->tables; t < end; t++) {
		for (k = 0; k < t->nvars; k++) {
			struct solve_list *l = &of[t->vars[k]];

			l->at[l->n++] = (uint32_t)(t - net->tables);
		}
	}
	net->of = of;
}

/*
 * Adds tables of no variable to the base, and those of one to its unary costs.
 */
static void
take_small(struct solve_net *net, struct solve_table *t, uint32_t n)
{
	uint32_t k;

	sort_tables(net, t, n);
	for (k = 0; k < n; k++) {
		if (t[k].nvars == 0) {
			net->base += t[k].cost[0];
		} else {
			solve_add_costs(net->unary[t[k].vars[0]], t[k].cost,
					t[k].n);
		}
	}
}

/* Sums tables of the same variables into one. */
static void
merge_tables(struct solve_net *net)
{
	struct solve_table *all = net->tables;
	uint32_t k, n = 0;

	sort_tables(net, all, net->ntables);
	for (k = 0; k < net->ntables; k++) {
		if (n && compare_scopes(&all[n - 1], &all[k]) == 0) {
			solve_add_costs(all[n - 1].cost, all[k].cost, all[k].n);
		} else {
			all[n++] = all[k];
		}
	}
	net->ntables = n;
}

/* Mostly nothing is to be done: tables of a net that was sorted are sorted. */
static void
settle_tables(struct solve_net *net)
{
	struct solve_table *small = solve_alloc(&net->mem, net->ntables *
						sizeof *small);
	uint32_t k, n = 0, nsmall = 0;

	for (k = 0; k < net->ntables; k++) {
		const struct solve_table *t = &net->tables[k];

		if (t->nvars >= 2) {
			net->tables[n++] = *t;
		} else if (t->nvars || t->cost[0] < 0 || t->cost[0] > 0) {
			small[nsmall++] = *t;
		}
	}
	net->ntables = n;
	if (nsmall) {
		take_small(net, small, nsmall);
	}
	if (!in_order(net->tables, n)) {
		merge_tables(net);
	}
	solve_free(&net->mem, small);
	solve_list_tables(net);
}

/* ---- the smaller net ---- */

/* How variables of the old net are numbered in the new one. */
struct lens {
	const struct solve_net *in;
	struct solve_net *out;
	uint32_t *to;		/* its number in the new net; SOLVE_NO_VAR: it
				 * has one value */
	uint8_t **left;		/* old values that are left */
	uint32_t *nleft;
};

static void
see_variable(struct lens *l, uint32_t v, uint32_t *choice)
{
	const struct solve_net *in = l->in;
	struct solve_net *out = l->out;
	const double *unary = in->unary[v];
	const uint8_t *value = in->value[v];
	uint32_t a, n = 0, k = out->nvars, domain = in->domain[v];
	uint8_t *left = l->left[v], *values = out->value[k];
	double *costs = out->unary[k];

	for (a = 0; a < domain; a++) {
		if (unary[a] < INFINITY) {
			left[n] = (uint8_t)a;
			values[n] = value[a];
			costs[n++] = unary[a];
		}
	}
	l->nleft[v] = n;
	if (n == 0) {
		die("variable %u has no value", in->id[v]);
	}
	if (n == 1 && choice) {
		l->to[v] = SOLVE_NO_VAR;
		choice[in->id[v]] = in->value[v][left[0]];
		out->base += unary[left[0]];
		return;		/* the next one reuses its rows */
	}
	l->to[v] = k;
	out->nvars++;
	out->id[k] = in->id[v];
	out->domain[k] = n;
	out->value[k + 1] = out->value[k] + n;
	out->unary[k + 1] = out->unary[k] + n;
}

/* Fills the arrays by variable; their rows are adjacent in one block. */
static void
see_variables(struct lens *l, const struct solve_part *part,
	      uint32_t *choice)
{
	struct solve_net *out = l->out;
	struct solve_scratch *mem = &out->mem;
	uint32_t n = part->nvars, k;
	size_t all = 1;
	uint8_t *left;

	out->id = solve_alloc(mem, n * sizeof *out->id);
	out->domain = solve_alloc(mem, n * sizeof *out->domain);
	out->value = solve_alloc(mem, (n + 1) * sizeof *out->value);
	out->unary = solve_alloc(mem, (n + 1) * sizeof *out->unary);
	l->to = solve_alloc(mem, l->in->nvars * sizeof *l->to);
	l->left = solve_alloc(mem, l->in->nvars * sizeof *l->left);
	l->nleft = solve_alloc(mem, l->in->nvars * sizeof *l->nleft);
	for (k = 0; k < n; k++) {
		all += l->in->domain[part->vars[k]];
	}
	left = solve_alloc(mem, all);
	out->value[0] = solve_alloc(mem, all);
	out->unary[0] = solve_alloc(mem, all * sizeof **out->unary);
	for (k = 0; k < n; k++) {
		uint32_t v = part->vars[k];

		l->left[v] = left;
		left += l->in->domain[v];
		see_variable(l, v, choice);
	}
}

/* Copies the entries of a table of two, row by row. */
static void
see_pair(struct lens *l, const struct solve_table *t, double *cost)
{
	uint32_t v = t->vars[0], w = t->vars[1], i, k;
	const uint8_t *a = l->left[v], *b = l->left[w];

	for (i = 0; i < l->nleft[v]; i++) {
		const double *row = t->cost + a[i] * l->in->domain[w];

		for (k = 0; k < l->nleft[w]; k++) {
			*cost++ = row[b[k]];
		}
	}
}

/*
 * Copies the entries of any table: the values of its variables are enumerated
 * like a counter.
 */
static void
see_entries(struct lens *l, const struct solve_table *t, double *cost,
	    size_t n)
{
	struct solve_scratch *mem = &l->out->mem;
	uint32_t *at = solve_calloc(mem, t->nvars * sizeof *at), k;
	size_t *stride = solve_alloc(mem, t->nvars * sizeof *stride);
	size_t from = 0, step = 1, i;

	for (k = t->nvars; k-- > 0; step *= l->in->domain[t->vars[k]]) {
		stride[k] = step;
		from += step * l->left[t->vars[k]][0];
	}
	for (i = 0; i < n; i++) {
		cost[i] = t->cost[from];
		for (k = t->nvars; k-- > 0;) {
			const uint8_t *left = l->left[t->vars[k]];

			from -= stride[k] * left[at[k]];
			if (++at[k] < l->nleft[t->vars[k]]) {
				from += stride[k] * left[at[k]];
				break;
			}
			at[k] = 0;
			from += stride[k] * left[0];
		}
	}
	solve_free(mem, stride);
	solve_free(mem, at);
}

static size_t
entries_left(const struct lens *l, const struct solve_table *t)
{
	size_t n = 1;
	uint32_t k;

	for (k = 0; k < t->nvars; k++) {
		n *= l->nleft[t->vars[k]];
	}
	return n;
}

/* Copies the entries of a table at the values that its variables still have. */
static void
see_table(struct lens *l, const struct solve_table *t, uint32_t *vars,
	  double *cost)
{
	struct solve_net *out = l->out;
	struct solve_table *u = &out->tables[out->ntables++];
	uint32_t n = 0, k;

	for (k = 0; k < t->nvars; k++) {
		if (l->to[t->vars[k]] != SOLVE_NO_VAR) {
			vars[n++] = l->to[t->vars[k]];
		}
	}
	u->nvars = n;
	u->spent = false;
	u->vars = vars;
	u->cost = cost;
	if (u->n == t->n) {
		memcpy(u->cost, t->cost, t->n * sizeof *u->cost);
	} else if (t->nvars == 2) {
		see_pair(l, t, u->cost);
	} else {
		see_entries(l, t, u->cost, u->n);
	}
}

/* Copies all tables into one block. */
static void
see_tables(struct lens *l, const struct solve_part *part)
{
	struct solve_net *out = l->out;
	const struct solve_table *in = l->in->tables;
	size_t nvars = 0, n = 0;
	uint32_t *vars, k;
	double *cost;

	out->cap = part->ntables;
	out->tables = solve_alloc(&out->mem, out->cap * sizeof *out->tables);
	for (k = 0; k < part->ntables; k++) {
		nvars += in[part->tables[k]].nvars;
		out->tables[k].n = entries_left(l, &in[part->tables[k]]);
		n += out->tables[k].n;
	}
	vars = solve_alloc(&out->mem, nvars * sizeof *vars);
	cost = solve_alloc(&out->mem, n * sizeof *cost);
	for (k = 0; k < part->ntables; k++) {
		const struct solve_table *t = &in[part->tables[k]];

		see_table(l, t, vars, cost);
		vars += t->nvars;
		cost += out->tables[k].n;
	}
}

struct solve_net *
solve_restrict(const struct solve_net *in, const struct solve_part *part,
	       uint32_t *choice)
{
	struct solve_scratch mem = { in->mem.pool, NULL };
	struct solve_net *out = solve_calloc(&mem, sizeof *out);
	struct lens l = { .in = in, .out = out };

	out->mem = mem;
	out->base = in->base;
	see_variables(&l, part, choice);
	see_tables(&l, part);
	settle_tables(out);
	solve_free(&out->mem, l.to);
	solve_free(&out->mem, l.left);
	solve_free(&out->mem, l.nleft);
	return out;
}

/*
 * Elimination changes which tables there are and the costs of single variables;
 * all else stays as it is, so that both nets may refer to it.
 */
struct solve_net *
solve_net_share(const struct solve_net *in)
{
	struct solve_scratch mem = { in->mem.pool, NULL };
	struct solve_net *out = solve_alloc(&mem, sizeof *out);
	size_t all = 0;
	uint32_t v;

	*out = *in;
	out->mem = mem;
	out->tables = solve_alloc(&out->mem, in->cap * sizeof *out->tables);
	memcpy(out->tables, in->tables, in->ntables * sizeof *out->tables);
	for (v = 0; v < in->nvars; v++) {
		all += in->domain[v];
	}
	out->unary = solve_alloc(&out->mem, (in->nvars + 1) *
				 sizeof *out->unary);
	out->unary[0] = solve_alloc(&out->mem, (all + 1) *
				    sizeof **out->unary);
	for (v = 0; v < in->nvars; v++) {
		memcpy(out->unary[v], in->unary[v], in->domain[v] *
		       sizeof **out->unary);
		out->unary[v + 1] = out->unary[v] + in->domain[v];
	}
	return out;
}

struct solve_part
solve_whole_net(struct solve_net *net)
{
	uint32_t n = net->nvars > net->ntables ? net->nvars : net->ntables, k;
	uint32_t *all = solve_alloc(&net->mem, n * sizeof *all);

	for (k = 0; k < n; k++) {
		all[k] = k;
	}
	return (struct solve_part){ all, all, net->nvars, net->ntables };
}

void
solve_net_free(struct solve_net *net)
{
	solve_scratch_release(&net->mem);
}
