/*
 * Elimination: the tables of a variable are summed and replaced by one that
 * has, for each assignment of its neighbours, the cost of the variable's best
 * value.  Which value that is gets stored, to choose it later.
 */
#include "passes/solve/solve_net.h"

#include <math.h>
#include <string.h>

/*
 * Entries of the new table that are computed together: their sums fit the
 * first-level data cache.
 */
#define BLOCK 256
/* Small tables are cut from chunks of so many bytes. */
#define CHUNK 8160

/* What all steps share. */
struct elimination {
	struct solve_net *net;
	struct solve_scratch mem;	/* until the last one is done */
	bool keep;
	uint32_t ngiven;	/* tables that the net had at first */
	char *chunk;		/* of net->mem: small tables are cut from it */
	size_t left;		/* bytes of it */
	double *row;		/* scratch: the sums of one value */
	double few[SOLVE_MAX_DOMAIN];	/* the costs of a variable without
					 * neighbours */
};

/*
 * One of the tables that are summed, and where its entries are as the
 * assignment of the scope changes.
 */
struct bucket_term {
	const double *at;	/* the entry at the block's first assignment */
	size_t of_var;		/* stride; 0 if it does not vary */
	size_t *of_scope;	/* strides by place in the scope */
	uint32_t *offset;	/* by place in the block */
};

/*
 * Assignments of the scope are enumerated like a counter, the last variable
 * changing fastest.  The assignments of its last few variables are a block.
 */
struct bucket_sums {
	const struct solve_net *net;
	const struct solve_bucket *b;
	struct bucket_term *terms;
	uint32_t nfixed;	/* the first of them do not vary in a block */
	uint32_t outer;		/* places of the scope outside of blocks */
	size_t block;		/* assignments in one */
	double *row;		/* sums, by place in the block */
	uint32_t *at;		/* the counter's places before the block */
};

static void
find_strides(const struct bucket_sums *x, const struct solve_table *t,
	     struct bucket_term *e)
{
	const uint32_t *domain = x->net->domain;
	size_t step = 1;
	uint32_t k, j = x->b->nscope;

	e->at = t->cost;
	for (k = t->nvars; k-- > 0; step *= domain[t->vars[k]]) {
		if (t->vars[k] == x->b->var) {
			e->of_var = step;
			continue;
		}
		while (x->b->scope[--j] != t->vars[k]) {
			e->of_scope[j] = 0;
		}
		e->of_scope[j] = step;
	}
	while (j > 0) {
		e->of_scope[--j] = 0;
	}
}

/*
 * Makes the block of as many of the last variables as have at most BLOCK
 * assignments.
 */
static void
choose_block(struct bucket_sums *x)
{
	x->outer = x->b->nscope;
	x->block = 1;
	while (x->outer > 0) {
		size_t n = x->net->domain[x->b->scope[x->outer - 1]];

		if (x->block * n > BLOCK) {
			return;
		}
		x->block *= n;
		x->outer--;
	}
}

/* The places of a term's entries in a block, from its first. */
static void
find_offsets(struct bucket_sums *x, struct bucket_term *e)
{
	size_t n = 1, a, i;
	uint32_t k;

	e->offset[0] = 0;
	for (k = x->b->nscope; k-- > x->outer;) {
		size_t domain = x->net->domain[x->b->scope[k]];

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
is_fixed(const struct bucket_sums *x, const struct bucket_term *e)
{
	uint32_t k;

	for (k = x->outer; k < x->b->nscope; k++) {
		if (e->of_scope[k]) {
			return false;
		}
	}
	return true;
}

/* All arrays, in one block of memory. */
static void
make_room(struct elimination *w, struct bucket_sums *x)
{
	size_t n = x->b->ntables, nscope = x->b->nscope, each, k;
	char *at;

	each = sizeof *x->terms + nscope * sizeof *x->terms->of_scope +
	       x->block * sizeof *x->terms->offset;
	/* one more: the pair that was tried first may be no term */
	at = solve_alloc(&w->mem, (n + 1) * each + nscope * sizeof *x->at);
	x->terms = (struct bucket_term *)(void *)at;
	at += (n + 1) * sizeof *x->terms;
	for (k = 0; k < n; k++, at += nscope * sizeof(size_t)) {
		x->terms[k].of_scope = (size_t *)(void *)at;
	}
	for (k = 0; k < n; k++, at += x->block * sizeof(uint32_t)) {
		x->terms[k].offset = (uint32_t *)(void *)at;
	}
	x->at = (uint32_t *)(void *)at;
	memset(x->at, 0, nscope * sizeof *x->at);
	x->row = w->row;
}

static void
open_sums(struct elimination *w, struct bucket_sums *x)
{
	uint32_t k;

	choose_block(x);
	make_room(w, x);
	for (k = 0; k < x->b->ntables; k++) {
		find_strides(x, &x->net->tables[x->b->tables[k]],
			     &x->terms[k]);
	}
	while (x->nfixed < x->b->ntables &&
	       is_fixed(x, &x->terms[x->nfixed])) {
		x->nfixed++;
	}
	for (k = x->nfixed; k < x->b->ntables; k++) {
		find_offsets(x, &x->terms[k]);
	}
}

/* row[]: the sums of a block for value a of the variable. */
static void
sum_terms(const struct bucket_sums *x, uint32_t a, double *row)
{
	const struct bucket_term *e = x->terms;
	double fixed = x->net->unary[x->b->var][a];
	uint32_t k;
	size_t i;

	for (k = 0; k < x->nfixed; k++, e++) {
		fixed += e->at[a * e->of_var];
	}
	if (k + 1 < x->b->ntables) {	/* two at once, as most have two */
		const double *c = e[0].at + a * e[0].of_var;
		const double *d = e[1].at + a * e[1].of_var;
		const uint32_t *at = e[0].offset, *to = e[1].offset;

		for (i = 0; i < x->block; i++) {
			row[i] = fixed + c[at[i]] + d[to[i]];
		}
		k += 2;
		e += 2;
	} else if (k < x->b->ntables) {
		const double *c = e->at + a * e->of_var;
		const uint32_t *at = e->offset;

		for (i = 0; i < x->block; i++) {
			row[i] = fixed + c[at[i]];
		}
		return;
	} else {
		for (i = 0; i < x->block; i++) {
			row[i] = fixed;
		}
	}
	for (; k < x->b->ntables; k++, e++) {
		const double *c = e->at + a * e->of_var;
		const uint32_t *at = e->offset;

		for (i = 0; i < x->block; i++) {
			row[i] += c[at[i]];
		}
	}
}

static void
fill_block(const struct bucket_sums *x, double *cost, uint8_t *best)
{
	uint32_t values = x->net->domain[x->b->var], a;

	sum_terms(x, 0, cost);
	if (best) {
		memset(best, 0, x->block);
	}
	for (a = 1; a < values; a++) {
		sum_terms(x, a, x->row);
		solve_keep_least(x->row, x->block, a, cost, best);
	}
}

/* On to the next block. */
static void
advance(struct bucket_sums *x)
{
	uint32_t k = x->outer, i;

	while (k-- > 0) {
		uint32_t n = x->net->domain[x->b->scope[k]];
		bool wraps = ++x->at[k] == n;

		for (i = 0; i < x->b->ntables; i++) {
			struct bucket_term *e = &x->terms[i];

			if (wraps) {
				e->at -= e->of_scope[k] * (n - 1);
			} else {
				e->at += e->of_scope[k];
			}
		}
		if (!wraps) {
			return;
		}
		x->at[k] = 0;
	}
}

static void
fill(struct bucket_sums *x, double *cost, uint8_t *best, size_t n)
{
	size_t done;

	for (done = 0; done < n; done += x->block) {
		fill_block(x, cost + done, best ? best + done : NULL);
		advance(x);
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

/* ---- one step ---- */

static bool
is_small(size_t bytes)
{
	return bytes <= CHUNK / 8;
}

/* Memory that lives as long as the net. */
static void *
cut(struct elimination *w, size_t bytes)
{
	void *at;

	bytes = (bytes + 7) & ~(size_t)7;
	if (!is_small(bytes)) {
		return solve_alloc(&w->net->mem, bytes);
	}
	if (bytes > w->left) {
		w->chunk = solve_alloc(&w->net->mem, CHUNK);
		w->left = CHUNK;
	}
	at = w->chunk;
	w->chunk += bytes;
	w->left -= bytes;
	return at;
}

/*
 * Adds the table that replaces the bucket's; false if one has no finite entry.
 */
static bool
deliver(struct elimination *w, const struct solve_bucket *b, double *cost,
	size_t n)
{
	struct solve_net *net = w->net;
	double *unary;
	size_t i;

	if (b->nscope == 0) {
		net->base += cost[0];
		return cost[0] < INFINITY;
	}
	if (b->nscope == 1) {
		unary = net->unary[b->scope[0]];
		for (i = 0; i < n; i++) {
			unary[i] += cost[i];
		}
		return !all_forbidden(unary, n);
	}
	net->tables[net->ntables++] = (struct solve_table){
		.nvars = b->nscope, .vars = b->scope, .n = n, .cost = cost
	};
	return !all_forbidden(cost, n);
}

/* The cost of a variable of one value that has no neighbours of more. */
static double
only_sum(const struct solve_net *net, const struct solve_bucket *b)
{
	double sum = net->unary[b->var][0];
	uint32_t k;

	for (k = 0; k < b->ntables; k++) {
		sum += net->tables[b->tables[k]].cost[0];
	}
	return sum;
}

/* best is NULL where it is not wanted. */
static void
sum_bucket(struct elimination *w, const struct solve_bucket *b, size_t n,
	   double *cost, uint8_t *best)
{
	struct bucket_sums x = { .net = w->net, .b = b };

	if (n == 1 && w->net->domain[b->var] == 1) {
		*cost = only_sum(w->net, b);
		if (best) {
			*best = 0;
		}
	} else if (!solve_pairs(w->net, b, w->row, cost, best)) {
		open_sums(w, &x);
		fill(&x, cost, best, n);
		solve_free(&w->mem, x.terms);
	}
}

/*
 * Marks its tables as spent: those that were made here are freed, unless they
 * are kept.
 */
static void
spend(struct elimination *w, const struct solve_bucket *b)
{
	uint32_t k;

	for (k = 0; k < b->ntables; k++) {
		struct solve_table *t = &w->net->tables[b->tables[k]];

		t->spent = true;
		if (!w->keep && b->tables[k] >= w->ngiven &&
		    !is_small(t->n * sizeof *t->cost)) {
			solve_free(&w->net->mem, t->cost);
		}
	}
}

static bool
eliminate(struct elimination *w, const struct solve_bucket *b, uint8_t **best)
{
	double *cost = w->few;
	size_t n = 1;
	uint32_t i;
	bool ok;

	for (i = 0; i < b->nscope; i++) {
		n *= w->net->domain[b->scope[i]];
	}
	if (b->nscope > 1) {
		cost = cut(w, n * sizeof *cost);
	}
	if (best) {
		*best = cut(w, n);
	}
	sum_bucket(w, b, n, cost, best ? *best : NULL);
	ok = deliver(w, b, cost, n);
	spend(w, b);
	return ok;
}

/* Tables that are made are numbered after those of the net. */
static void
begin(struct elimination *w, uint32_t nsteps)
{
	struct solve_net *net = w->net;
	struct solve_table *old = net->tables;

	w->ngiven = net->ntables;
	w->mem.pool = net->mem.pool;
	w->row = solve_alloc(&w->mem, SOLVE_PAIR_SUMS * sizeof *w->row);
	if (net->cap < net->ntables + nsteps) {
		net->cap = net->ntables + nsteps;
		net->tables = solve_alloc(&net->mem, net->cap * sizeof *old);
		memcpy(net->tables, old, net->ntables * sizeof *old);
	}
}

bool
solve_eliminate(struct solve_net *net, const struct solve_plan *p,
		struct solve_steps *steps, uint32_t *bad)
{
	struct elimination w = { .net = net, .keep = steps->keep };
	uint32_t k;

	steps->plan = *p;
	begin(&w, p->n);
	if (!steps->keep) {
		steps->best = solve_alloc(&net->mem, p->n *
					  sizeof *steps->best);
	}
	for (k = 0; k < p->n; k++) {
		struct solve_bucket b = solve_bucket(p, k);

		if (!eliminate(&w, &b, steps->keep ? NULL : &steps->best[k])) {
			*bad = net->id[b.var];
			break;
		}
	}
	solve_scratch_release(&w.mem);
	return k == p->n;
}

/*
 * Adds the entries of a table by value of the variable, the others being as in
 * at[].
 */
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

void
solve_value_sums(const struct solve_net *net, const struct solve_bucket *b,
		 const uint32_t *at, double *sums)
{
	uint32_t k;

	memcpy(sums, net->unary[b->var], net->domain[b->var] * sizeof *sums);
	for (k = 0; k < b->ntables; k++) {
		add_entries(net, &net->tables[b->tables[k]], b->var, at,
			    sums);
	}
}

/* The index of the user's value among those of the net. */
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
solve_choose_back(const struct solve_net *net, const struct solve_steps *steps,
		  uint32_t *choice)
{
	uint32_t k = steps->plan.n, j;

	while (k-- > 0) {
		struct solve_bucket b = solve_bucket(&steps->plan, k);
		size_t at = 0;

		for (j = 0; j < b.nscope; j++) {
			uint32_t v = b.scope[j];

			at = at * net->domain[v] +
			     place_of(net, v, choice[net->id[v]]);
		}
		choice[net->id[b.var]] =
			net->value[b.var][steps->best[k][at]];
	}
}
