/*
 * Eliminating: the tables of a variable are summed and replaced by one that
 * says, for each assignment of its neighbours, what the variable's best
 * value costs.  Which value that is gets noted for the way back.
 */
#include "passes/solve_net.h"

#include <math.h>
#include <string.h>

/* Entries of the new table that are made at once; their sums stay in cache. */
#define BLOCK 256

/* One of the tables that are summed, and how it follows the assignment. */
struct term {
	const double *at;	/* the entry at the block's first assignment */
	size_t of_var;		/* stride; 0 if it does not vary */
	size_t *of_scope;	/* the same by place in the scope */
	uint32_t *offset;	/* by place in the block */
};

/*
 * The scope's assignments run like a counter, the last variable fastest.
 * Those of its last few variables are a block.
 */
struct bucket {
	struct solve_net *net;
	struct solve_room room;	/* for one elimination */
	uint32_t var;
	uint32_t *scope, nscope, few[16];
	struct term *terms;
	uint32_t nterms;
	uint32_t nfixed;	/* the first do not vary within a block */
	uint32_t outer;		/* places of the scope outside of blocks */
	size_t block;		/* assignments in one */
	double *row;		/* sums, by place in the block */
	uint32_t *at;		/* the counter, but for the blocks */
};

static size_t
stride_in(const struct solve_net *net, const struct solve_table *t,
	  uint32_t var)
{
	size_t step = 1;
	uint32_t k;

	for (k = t->nvars; k-- > 0; step *= net->domain[t->vars[k]]) {
		if (t->vars[k] == var) {
			return step;
		}
	}
	return 0;
}

static void
add_to_scope(struct bucket *b, const struct solve_table *t)
{
	uint32_t i, j, k;

	for (j = 0; j < t->nvars; j++) {
		uint32_t u = t->vars[j];

		for (i = b->nscope; i > 0 && b->scope[i - 1] > u; i--) {
		}
		if (u == b->var || (i > 0 && b->scope[i - 1] == u)) {
			continue;
		}
		for (k = b->nscope++; k > i; k--) {
			b->scope[k] = b->scope[k - 1];
		}
		b->scope[i] = u;
	}
}

/* The other variables of all tables that the variable still has. */
static void
find_scope(struct bucket *b)
{
	const struct solve_list *of = &b->net->of[b->var];
	const struct solve_table *t = b->net->tables;
	uint32_t n = 0, k;

	for (k = 0; k < of->n; k++) {
		n += t[of->at[k]].spent ? 0 : t[of->at[k]].nvars;
	}
	b->scope = n <= sizeof b->few / sizeof *b->few ? b->few
		: solve_get(&b->room, n * sizeof *b->scope);
	for (k = 0; k < of->n; k++) {
		if (!t[of->at[k]].spent) {
			add_to_scope(b, &t[of->at[k]]);
		}
	}
}

/* The tables that vary with the scope's last variable, or those that don't. */
static void
add_terms(struct bucket *b, bool fixed)
{
	const struct solve_list *of = &b->net->of[b->var];
	uint32_t k, j;

	for (k = 0; k < of->n; k++) {
		const struct solve_table *t = &b->net->tables[of->at[k]];
		struct term *e = &b->terms[b->nterms];
		size_t last = b->nscope && !t->spent ?
			stride_in(b->net, t, b->scope[b->nscope - 1]) : 0;

		if (t->spent || (last == 0) != fixed) {
			continue;
		}
		b->nterms++;
		e->at = t->cost;
		e->of_var = stride_in(b->net, t, b->var);
		for (j = 0; j < b->nscope; j++) {
			e->of_scope[j] = stride_in(b->net, t, b->scope[j]);
		}
	}
}

/* As many of the scope's last variables as make no more than a block. */
static void
choose_block(struct bucket *b)
{
	b->outer = b->nscope;
	b->block = 1;
	while (b->outer > 0) {
		size_t n = b->net->domain[b->scope[b->outer - 1]];

		if (b->block * n > BLOCK) {
			return;
		}
		b->block *= n;
		b->outer--;
	}
}

/* Where a term's entries stand in a block, from its first. */
static void
find_offsets(struct bucket *b, struct term *e)
{
	size_t n = 1, a, i;
	uint32_t k;

	e->offset[0] = 0;
	for (k = b->nscope; k-- > b->outer;) {
		size_t domain = b->net->domain[b->scope[k]];

		for (a = 1; a < domain; a++) {
			for (i = 0; i < n; i++) {
				e->offset[a * n + i] = (uint32_t)
					(e->offset[i] + a * e->of_scope[k]);
			}
		}
		n *= domain;
	}
}

static bool
is_fixed(const struct bucket *b, const struct term *e)
{
	uint32_t k;

	for (k = b->outer; k < b->nscope; k++) {
		if (e->of_scope[k]) {
			return false;
		}
	}
	return true;
}

static void
make_room(struct bucket *b)
{
	const struct solve_list *of = &b->net->of[b->var];
	size_t *strides = solve_get(&b->room, of->n * b->nscope *
				    sizeof *strides);
	uint32_t *offsets = solve_get(&b->room, of->n * b->block *
				      sizeof *offsets);
	uint32_t k;

	/* one more: where the one that is left out was tried */
	b->terms = solve_get(&b->room, (of->n + 1) * sizeof *b->terms);
	for (k = 0; k < of->n; k++) {
		b->terms[k].of_scope = strides + k * b->nscope;
		b->terms[k].offset = offsets + k * b->block;
	}
	b->at = solve_zero(&b->room, b->nscope * sizeof *b->at);
	b->row = solve_get(&b->room, b->block * sizeof *b->row);
}

static void
open_bucket(struct bucket *b)
{
	uint32_t k;

	choose_block(b);
	make_room(b);
	/* in this order sums have always been made: ties hang on it */
	add_terms(b, true);
	add_terms(b, false);
	while (b->nfixed < b->nterms &&
	       is_fixed(b, &b->terms[b->nfixed])) {
		b->nfixed++;
	}
	for (k = b->nfixed; k < b->nterms; k++) {
		find_offsets(b, &b->terms[k]);
	}
}

/* The sums of a block's terms, for value a of the variable. */
static void
sum_terms(const struct bucket *b, uint32_t a, double *row)
{
	const struct term *e = b->terms;
	double fixed = b->net->unary[b->var][a];
	uint32_t k;
	size_t i;

	for (k = 0; k < b->nfixed; k++, e++) {
		fixed += e->at[a * e->of_var];
	}
	if (k + 1 < b->nterms) {	/* two at once, as most have two */
		const double *c = e[0].at + a * e[0].of_var;
		const double *d = e[1].at + a * e[1].of_var;
		const uint32_t *at = e[0].offset, *to = e[1].offset;

		for (i = 0; i < b->block; i++) {
			row[i] = fixed + c[at[i]] + d[to[i]];
		}
		k += 2;
		e += 2;
	} else if (k < b->nterms) {
		const double *c = e->at + a * e->of_var;
		const uint32_t *at = e->offset;

		for (i = 0; i < b->block; i++) {
			row[i] = fixed + c[at[i]];
		}
		return;
	} else {
		for (i = 0; i < b->block; i++) {
			row[i] = fixed;
		}
	}
	for (; k < b->nterms; k++, e++) {
		const double *c = e->at + a * e->of_var;
		const uint32_t *at = e->offset;

		for (i = 0; i < b->block; i++) {
			row[i] += c[at[i]];
		}
	}
}

/* Where value a of the variable is cheaper, it is the best so far. */
static void
keep_best(const double *row, size_t n, uint32_t a, double *cost,
	  uint8_t *best)
{
	size_t i;

	/* without a jump: which one is cheaper cannot be foretold */
	for (i = 0; i < n; i++) {
		bool less = row[i] < cost[i];

		cost[i] = less ? row[i] : cost[i];
		best[i] = less ? (uint8_t)a : best[i];
	}
}

static void
fill_block(const struct bucket *b, double *cost, uint8_t *best)
{
	uint32_t values = b->net->domain[b->var], a;

	sum_terms(b, 0, cost);
	memset(best, 0, b->block);
	for (a = 1; a < values; a++) {
		sum_terms(b, a, b->row);
		keep_best(b->row, b->block, a, cost, best);
	}
}

/* On to the next block. */
static void
advance(struct bucket *b)
{
	uint32_t k = b->outer, i;

	while (k-- > 0) {
		uint32_t n = b->net->domain[b->scope[k]];
		bool wraps = ++b->at[k] == n;

		for (i = 0; i < b->nterms; i++) {
			struct term *e = &b->terms[i];

			if (wraps) {
				e->at -= e->of_scope[k] * (n - 1);
			} else {
				e->at += e->of_scope[k];
			}
		}
		if (!wraps) {
			return;
		}
		b->at[k] = 0;
	}
}

static void
fill(struct bucket *b, double *cost, uint8_t *best, size_t n)
{
	size_t done;

	for (done = 0; done < n; done += b->block) {
		fill_block(b, cost + done, best + done);
		advance(b);
	}
}

static bool
all_forbidden(const double *cost, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (cost[i] < INFINITY) {
			return false;
		}
	}
	return true;
}

/* The table that takes the place of the bucket's; false on a conflict. */
static bool
deliver(struct bucket *b, double *cost, size_t n)
{
	struct solve_net *net = b->net;
	struct solve_table t = { .nvars = b->nscope, .n = n, .cost = cost };
	uint32_t k;
	size_t i;

	if (b->nscope == 0) {
		net->base += cost[0];
		return cost[0] < INFINITY;
	}
	if (b->nscope == 1) {
		double *unary = net->unary[b->scope[0]];

		for (i = 0; i < n; i++) {
			unary[i] += cost[i];
		}
		return !all_forbidden(unary, n);
	}
	t.vars = solve_get(&net->room, t.nvars * sizeof *t.vars);
	memcpy(t.vars, b->scope, t.nvars * sizeof *t.vars);
	if (net->ntables == net->cap) {
		struct solve_table *old = net->tables;

		net->cap = 2 * net->cap + 8;
		net->tables = solve_get(&net->room, net->cap * sizeof *old);
		memcpy(net->tables, old, net->ntables * sizeof *old);
	}
	for (k = 0; k < t.nvars; k++) {
		solve_push(&net->room, &net->of[t.vars[k]], net->ntables);
	}
	net->tables[net->ntables++] = t;
	return !all_forbidden(cost, n);
}

/* Where neither it nor any of the others has a choice. */
static double
only_sum(const struct bucket *b)
{
	const struct solve_list *of = &b->net->of[b->var];
	double sum = b->net->unary[b->var][0];
	uint32_t k, i;

	for (i = 0; i < 2; i++) {	/* in the order of add_terms */
		for (k = 0; k < of->n; k++) {
			const struct solve_table *t =
				&b->net->tables[of->at[k]];

			if (!t->spent && i == (uint32_t)(stride_in(b->net, t,
					b->scope[b->nscope - 1]) != 0)) {
				sum += t->cost[0];
			}
		}
	}
	return sum;
}

/* What is noted of n assignments stands in one block, if it is. */
static void
make_step(const struct bucket *b, struct solve_step *step, size_t n, bool keep)
{
	size_t scope = b->nscope * sizeof *step->scope;
	char *at = solve_get(&b->net->room, scope + (keep ? 0 : n));

	step->var = b->var;
	step->nscope = b->nscope;
	step->scope = (uint32_t *)(void *)at;
	memcpy(step->scope, b->scope, scope);
	step->best = keep ? NULL : (uint8_t *)at + scope;
}

static void
sum_bucket(struct bucket *b, const struct solve_step *step, double *cost,
	   uint8_t *best, size_t n)
{
	if (n == 1 && b->net->domain[b->var] == 1) {
		*cost = only_sum(b);
		*best = 0;
	} else if (!solve_pairs(b->net, step, cost, best)) {
		open_bucket(b);
		fill(b, cost, best, n);
	}
}

/* Its tables are spent: what is not shared goes back, if it is not kept. */
static void
spend(struct solve_net *net, uint32_t var, uint32_t by, bool keep)
{
	uint32_t k;

	for (k = 0; k < net->of[var].n; k++) {
		uint32_t i = net->of[var].at[k];
		struct solve_table *t = &net->tables[i];

		if (t->spent) {
			continue;
		}
		t->spent = by;
		if (!keep && i >= net->ngiven) {
			solve_put(&net->room, t->cost);
		}
	}
}

/* Step k of them. */
static bool
eliminate(struct solve_net *net, uint32_t var, struct solve_steps *steps,
	  uint32_t k)
{
	struct bucket b = { .net = net, .room.pool = net->room.pool,
			    .var = var };
	struct solve_step *step = &steps->at[k];
	double *cost;
	size_t n = 1;
	uint32_t i;
	bool ok;

	find_scope(&b);
	for (i = 0; i < b.nscope; i++) {
		n *= net->domain[b.scope[i]];
	}
	make_step(&b, step, n, steps->keep);
	cost = solve_get(&net->room, n * sizeof *cost);
	sum_bucket(&b, step, cost, steps->keep ? solve_get(&b.room, n)
		   : step->best, n);
	ok = deliver(&b, cost, n);
	if (b.nscope < 2) {
		solve_put(&net->room, cost);
	}
	spend(net, var, k + 1, steps->keep);
	solve_leave(&b.room);
	return ok;
}

bool
solve_eliminate(struct solve_net *net, const struct solve_plan *p,
		struct solve_steps *steps, uint32_t *bad)
{
	uint32_t k;

	steps->n = p->n;
	steps->at = solve_zero(&net->room, p->n * sizeof *steps->at);
	for (k = 0; k < p->n; k++) {
		if (!eliminate(net, p->order[k], steps, k)) {
			*bad = net->id[p->order[k]];
			return false;
		}
	}
	return true;
}

/* Adds what a table says of the variable's values, beside at[]. */
static void
add_entries(const struct solve_net *net, const struct solve_table *t,
	    uint32_t var, const uint32_t *at, double *sums)
{
	const double *cost = t->cost;
	size_t step = 1, of_var = 0;
	uint32_t k, a;

	for (k = t->nvars; k-- > 0; step *= net->domain[t->vars[k]]) {
		if (t->vars[k] == var) {
			of_var = step;
		} else {
			cost += step * at[t->vars[k]];
		}
	}
	for (a = 0; a < net->domain[var]; a++) {
		sums[a] += cost[a * of_var];
	}
}

/* Whether it has the last variable of the step's scope; both are sorted. */
static bool
has_last(const struct solve_table *t, const struct solve_step *s)
{
	const uint32_t *end = t->vars + t->nvars - 1;

	return s->nscope && t->nvars > 1 && s->scope[s->nscope - 1] ==
		(*end == s->var ? end[-1] : *end);
}

void
solve_sums(const struct solve_net *net, const struct solve_steps *steps,
	   uint32_t k, const uint32_t *at, double *sums)
{
	const struct solve_step *s = &steps->at[k];
	const struct solve_list *of = &net->of[s->var];
	uint32_t i, j;

	memcpy(sums, net->unary[s->var], net->domain[s->var] * sizeof *sums);
	for (i = 0; i < 2; i++) {	/* in the order of add_terms */
		for (j = 0; j < of->n; j++) {
			const struct solve_table *t = &net->tables[of->at[j]];

			if (t->spent == k + 1 && has_last(t, s) == (i == 1)) {
				add_entries(net, t, s->var, at, sums);
			}
		}
	}
}

/* The place of the user's value among those of the net. */
static uint32_t
place_of(const struct solve_net *net, uint32_t v, uint32_t value)
{
	uint32_t a = 0;

	while (net->value[v][a] != value) {
		a++;
	}
	return a;
}

void
solve_back(const struct solve_net *net, const struct solve_steps *steps,
	   uint32_t *choice)
{
	uint32_t k, j;

	for (k = steps->n; k-- > 0;) {
		const struct solve_step *s = &steps->at[k];
		size_t at = 0;

		for (j = 0; j < s->nscope; j++) {
			uint32_t v = s->scope[j];

			at = at * net->domain[v] +
			     place_of(net, v, choice[net->id[v]]);
		}
		choice[net->id[s->var]] = net->value[s->var][s->best[at]];
	}
}
