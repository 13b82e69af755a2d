/*
 * The order of elimination: next is always the variable whose elimination makes
 * the smallest table, the lowest of equals.  It follows from the graph alone,
 * so that the work is known before any of it is done.
 */
#include "ir/memo.h"
#include "passes/solve/solve_net.h"

#include <string.h>

#define FEW 64			/* weights that have a set of bits: 1 .. 64 */

struct weighed {
	double weight;		/* entries of the table that it would make */
	uint32_t var;
};

/* A set of variables as bits, and the set of its words that are not 0. */
struct bits {
	uint64_t *word, *any;
};

struct planner {
	struct solve_net *net;
	struct solve_scratch mem;
	struct solve_list *near;	/* neighbours, ascending */
	double *weight;		/* by variable; 0: not known, or gone */
	/*
	 * variables of the weights 1 ..  FEW, which most have: those of w are
	 * in set[w - 1]
	 */
	struct bits set[FEW];
	uint64_t sets;		/* bits of the sets that are not empty */
	struct weighed *heap;	/* of the others; entries may be stale */
	uint32_t nheap, cap;
};

/* ---- those of few weights ---- */

static void
set_add(struct planner *p, uint32_t w, uint32_t v)
{
	p->set[w - 1].word[v / 64] |= (uint64_t)1 << v % 64;
	p->set[w - 1].any[v / 4096] |= (uint64_t)1 << v / 64 % 64;
	p->sets |= (uint64_t)1 << (w - 1);
}

static uint32_t
lowest(uint64_t bits)
{
	return (uint32_t)__builtin_ctzll(bits);
}

/* Removes v; an empty set has no lowest variable. */
static void
set_take(struct planner *p, uint32_t w, uint32_t v)
{
	struct bits *set = &p->set[w - 1];
	uint32_t k, n = p->net->nvars / 4096 + 1;

	set->word[v / 64] &= ~((uint64_t)1 << v % 64);
	if (set->word[v / 64]) {
		return;
	}
	set->any[v / 4096] &= ~((uint64_t)1 << v / 64 % 64);
	for (k = 0; k < n && !set->any[k]; k++) {
	}
	if (k == n) {
		p->sets &= ~((uint64_t)1 << (w - 1));
	}
}

/* The lowest variable of the least weight; there is one. */
static uint32_t
set_first(const struct planner *p)
{
	const struct bits *set = &p->set[lowest(p->sets)];
	uint32_t k = 0;

	while (!set->any[k]) {
		k++;
	}
	k = k * 64 + lowest(set->any[k]);
	return k * 64 + lowest(set->word[k]);
}

/* ---- the others ---- */

static bool
lighter(struct weighed a, struct weighed b)
{
	return a.weight < b.weight ||
	       (a.weight <= b.weight && a.var < b.var);
}

static void
heap_push(struct planner *p, struct weighed w)
{
	uint32_t i = p->nheap++;

	if (i == p->cap) {
		struct weighed *old = p->heap;

		p->cap *= 2;
		p->heap = solve_alloc(&p->mem, p->cap * sizeof *p->heap);
		memcpy(p->heap, old, i * sizeof *old);
		solve_free(&p->mem, old);
	}
	for (; i > 0 && lighter(w, p->heap[(i - 1) / 2]); i = (i - 1) / 2) {
		p->heap[i] = p->heap[(i - 1) / 2];
	}
	p->heap[i] = w;
}

static struct weighed
heap_pop(struct planner *p)
{
	struct weighed top = p->heap[0], w = p->heap[--p->nheap];
	uint32_t i = 0, c;

	while ((c = 2 * i + 1) < p->nheap) {
		if (c + 1 < p->nheap && lighter(p->heap[c + 1], p->heap[c])) {
			c++;
		}
		if (!lighter(p->heap[c], w)) {
			break;
		}
		p->heap[i] = p->heap[c];
		i = c;
	}
	p->heap[i] = w;
	return top;
}

/* ---- all of them ---- */

static void
leave(struct planner *p, uint32_t v)
{
	if (p->weight[v] > 0 && p->weight[v] <= FEW) {
		set_take(p, (uint32_t)p->weight[v], v);
	}
	p->weight[v] = 0;
}

static void
weigh(struct planner *p, uint32_t v)
{
	double w = 1;
	uint32_t k;

	for (k = 0; k < p->near[v].n; k++) {
		w *= p->net->domain[p->near[v].at[k]];
	}
	if (!(w < p->weight[v] || w > p->weight[v])) {
		return;
	}
	leave(p, v);
	p->weight[v] = w;
	if (w <= FEW) {
		set_add(p, (uint32_t)w, v);
	} else {
		heap_push(p, (struct weighed){ w, v });
	}
}

/*
 * Removes v from the list, and returns how many of `more` but v are not in it.
 */
static uint32_t
take_out(struct solve_list *l, uint32_t v, const struct solve_list *more,
	 uint32_t gone)
{
	uint32_t n = 0, missing = 0, i, j = 0;

	for (i = 0; i < l->n; i++) {
		for (; j < more->n && more->at[j] < l->at[i]; j++) {
			missing += more->at[j] != v;
		}
		j += j < more->n && more->at[j] == l->at[i];
		if (l->at[i] != gone) {
			l->at[n++] = l->at[i];
		}
	}
	l->n = n;
	for (; j < more->n; j++) {
		missing += more->at[j] != v;
	}
	return missing;
}

/* near[v] becomes its union with `more`, without v and `gone`. */
static void
join(struct planner *p, uint32_t v, const struct solve_list *more,
     uint32_t gone)
{
	struct solve_list *l = &p->near[v];
	uint32_t missing = take_out(l, v, more, gone), to = l->n + missing;
	uint32_t i = l->n, j = more->n, *old = l->at, *at = old;

	if (!missing) {
		return;
	}
	if (to > l->cap) {
		l->cap = 2 * to;
		at = solve_alloc(&p->mem, l->cap * sizeof *at);
	}
	l->n = to;
	while (to) {		/* from the end, as it may be done in place */
		if (j && (more->at[j - 1] == v || more->at[j - 1] == gone)) {
			j--;
		} else if (j && (!i || more->at[j - 1] >= old[i - 1])) {
			i -= i && more->at[j - 1] == old[i - 1];
			at[--to] = more->at[--j];
		} else {
			at[--to] = old[--i];
		}
	}
	l->at = at;
}

/* Replaces `gone` by `other` in near[v], which may have it already. */
static void
replace(struct planner *p, uint32_t v, uint32_t gone, uint32_t other)
{
	struct solve_list *l = &p->near[v];
	uint32_t *at = l->at, from = 0, to = 0;

	while (at[from] != gone) {
		from++;
	}
	while (to < l->n && at[to] < other) {
		to++;
	}
	if (to < l->n && at[to] == other) {
		memmove(at + from, at + from + 1,
			(--l->n - from) * sizeof *at);
		return;
	}
	if (to <= from) {
		memmove(at + to + 1, at + to, (from - to) * sizeof *at);
	} else {
		to--;
		memmove(at + from, at + from + 1, (to - from) * sizeof *at);
	}
	at[to] = other;
}

/* Removes v: its neighbours become neighbours of each other. */
static void
take_away(struct planner *p, uint32_t v)
{
	const struct solve_list *near = &p->near[v];
	uint32_t k;

	leave(p, v);
	for (k = 0; k < near->n; k++) {
		if (near->n == 2) {	/* as most have */
			replace(p, near->at[k], v, near->at[!k]);
		} else {
			join(p, near->at[k], near, v);
		}
		weigh(p, near->at[k]);
	}
}

/* Tables are sorted: of two variables, neighbours come ascending. */
static void
meet(struct planner *p, uint32_t v, const struct solve_list *scope)
{
	struct solve_list *l = &p->near[v];
	uint32_t other = scope->at[scope->at[0] == v];

	if (scope->n == 2 && (l->n == 0 || l->at[l->n - 1] < other)) {
		solve_list_push(&p->mem, l, other);
	} else {
		join(p, v, scope, SOLVE_NO_VAR);
	}
}

static void
begin(struct planner *p, struct solve_net *net)
{
	uint32_t n = net->nvars, v, k, j, words = n / 64 + 1;
	uint32_t each = words + n / 4096 + 1;
	uint64_t *bits;

	memset(p, 0, sizeof *p);
	p->net = net;
	p->mem.pool = net->mem.pool;
	p->near = solve_calloc(&p->mem, n * sizeof *p->near);
	p->weight = solve_calloc(&p->mem, n * sizeof *p->weight);
	p->cap = 2 * n + 2;
	p->heap = solve_alloc(&p->mem, p->cap * sizeof *p->heap);
	bits = solve_calloc(&p->mem, (size_t)FEW * each * sizeof *bits);
	for (k = 0; k < FEW; k++, bits += each) {
		p->set[k] = (struct bits){ bits, bits + words };
	}
	for (k = 0; k < net->ntables; k++) {
		const struct solve_table *t = &net->tables[k];
		struct solve_list scope = { t->vars, t->nvars, t->nvars };

		for (j = 0; j < t->nvars; j++) {
			meet(p, t->vars[j], &scope);
		}
	}
	for (v = 0; v < n; v++) {
		weigh(p, v);
	}
}

/* The next variable; false if its table is too large, or none is left. */
static bool
lightest(struct planner *p, double max_entries, uint32_t *v)
{
	if (p->sets) {
		*v = set_first(p);
		return p->weight[*v] <= max_entries;
	}
	while (p->nheap) {
		struct weighed w = heap_pop(p);

		if (!(w.weight < p->weight[w.var] ||
		      w.weight > p->weight[w.var])) {
			*v = w.var;
			return w.weight <= max_entries;
		}
	}
	return false;
}

/* ---- what each step sums ---- */

/* Lists of tables by step. */
struct listing {
	struct planner *p;
	struct solve_plan *plan;
	uint32_t *step;		/* by variable: the step that eliminates it, or
				 * SOLVE_NO_VAR */
	uint32_t *fixed, *ends;	/* by step: where the next table is put */
};

static void
list_scopes(struct listing *l)
{
	struct solve_plan *plan = l->plan;
	struct solve_scratch *mem = &l->p->net->mem;
	uint32_t k, n = 0;

	plan->scopes = solve_alloc(mem, (plan->n + 1) * sizeof *plan->scopes);
	for (k = 0; k < plan->n; k++) {
		plan->scopes[k] = n;
		n += l->p->near[plan->order[k]].n;
	}
	plan->scopes[k] = n;
	plan->scope = solve_alloc(mem, n * sizeof *plan->scope);
	for (k = 0; k < plan->n; k++) {
		const struct solve_list *near = &l->p->near[plan->order[k]];

		for (n = 0; n < near->n; n++) {
			plan->scope[plan->scopes[k] + n] = near->at[n];
		}
	}
}

/* The step that sums a table: that of the first of its variables. */
static uint32_t
step_of(const struct listing *l, const uint32_t *vars, uint32_t n)
{
	uint32_t step = SOLVE_NO_VAR, k;

	for (k = 0; k < n; k++) {
		step = l->step[vars[k]] < step ? l->step[vars[k]] : step;
	}
	return step;
}

/* Whether the table has the last variable of the step's scope. */
static bool
has_last(const struct listing *l, uint32_t step, const uint32_t *vars,
	 uint32_t n)
{
	uint32_t last = l->plan->scope[l->plan->scopes[step + 1] - 1];

	return vars[n - 1] == last ||
	       (vars[n - 1] == l->plan->order[step] && vars[n - 2] == last);
}

/* Counts a table, or once the lists are allocated puts it into its list. */
static void
list_table(struct listing *l, const uint32_t *vars, uint32_t n,
	   uint32_t number)
{
	uint32_t step = step_of(l, vars, n), *next;

	if (step == SOLVE_NO_VAR) {
		return;
	}
	next = has_last(l, step, vars, n) ? &l->ends[step] : &l->fixed[step];
	if (l->plan->tables) {
		l->plan->tables[*next] = number;
	}
	++*next;
}

static void
list_all(struct listing *l)
{
	const struct solve_net *net = l->p->net;
	const struct solve_plan *plan = l->plan;
	uint32_t number, k;

	for (number = 0; number < net->ntables; number++) {
		list_table(l, net->tables[number].vars,
			   net->tables[number].nvars, number);
	}
	for (k = 0; k < plan->n; k++) {
		uint32_t n = plan->scopes[k + 1] - plan->scopes[k];

		if (n > 1) {
			list_table(l, plan->scope + plan->scopes[k], n,
				   number++);
		}
	}
}

/*
 * Tables without the last variable of the scope are summed first, each kind in
 * the order of their numbers: between values of equal cost, rounding decides,
 * so the order is fixed.
 */
static void
list_sums(struct planner *p, struct solve_plan *plan)
{
	struct listing l = { .p = p, .plan = plan };
	struct solve_scratch *mem = &p->net->mem;
	uint32_t k, n = 0, fixed;

	l.step = solve_alloc(&p->mem, p->net->nvars * sizeof *l.step);
	l.fixed = solve_calloc(&p->mem, plan->n * sizeof *l.fixed);
	l.ends = solve_calloc(&p->mem, plan->n * sizeof *l.ends);
	memset(l.step, 0xff, p->net->nvars * sizeof *l.step);
	for (k = 0; k < plan->n; k++) {
		l.step[plan->order[k]] = k;
	}
	list_scopes(&l);
	list_all(&l);
	plan->sums = solve_alloc(mem, (plan->n + 1) * sizeof *plan->sums);
	for (k = 0; k < plan->n; k++) {
		plan->sums[k] = n;
		fixed = l.fixed[k];
		l.fixed[k] = n;
		n += fixed + l.ends[k];
		l.ends[k] = l.fixed[k] + fixed;
	}
	plan->sums[k] = n;
	plan->tables = solve_alloc(mem, n * sizeof *plan->tables);
	list_all(&l);
}

void
solve_plan(struct solve_net *net, double max_entries, struct solve_plan *plan)
{
	struct planner p;
	uint32_t v;

	begin(&p, net);
	memset(plan, 0, sizeof *plan);
	plan->branch = SOLVE_NO_VAR;
	plan->order = solve_alloc(&net->mem, net->nvars * sizeof *plan->order);
	plan->weight = solve_alloc(&net->mem, net->nvars *
				   sizeof *plan->weight);
	plan->core = solve_alloc(&net->mem, net->nvars * sizeof *plan->core);
	while (lightest(&p, max_entries, &v)) {
		const struct solve_list *near = &p.near[v];

		plan->weight[plan->n] = p.weight[v];
		plan->order[plan->n++] = v;
		plan->states += p.weight[v] * net->domain[v];
		if (near->n > plan->width) {
			plan->width = near->n;
		}
		take_away(&p, v);
	}
	for (v = 0; v < net->nvars; v++) {
		if (!(p.weight[v] > 0)) {
			continue;
		}
		plan->core[plan->ncore++] = v;
		if (plan->branch == SOLVE_NO_VAR ||
		    p.near[v].n > p.near[plan->branch].n) {
			plan->branch = v;
		}
	}
	list_sums(&p, plan);
	solve_scratch_release(&p.mem);
}

void
solve_plan_start(struct solve_net *net, const struct solve_plan *whole,
		 double max_entries, struct solve_plan *plan)
{
	bool *gone = solve_calloc(&net->mem, net->nvars);
	uint32_t v;

	*plan = *whole;
	plan->branch = SOLVE_NO_VAR;
	plan->n = plan->ncore = plan->width = 0;
	plan->states = 0;
	plan->core = solve_alloc(&net->mem, net->nvars * sizeof *plan->core);
	while (plan->n < whole->n && plan->weight[plan->n] <= max_entries) {
		v = plan->order[plan->n];
		gone[v] = true;
		plan->states += plan->weight[plan->n++] * net->domain[v];
	}
	for (v = 0; v < net->nvars; v++) {
		if (!gone[v]) {
			plan->core[plan->ncore++] = v;
		}
	}
}

/* ---- plans that were made before ---- */

#define NEED_NO_MEMO 8		/* variables: planned as quickly as found */

/* What a plan follows from: how many values there are, and which tables. */
static struct hash
hash_graph(const struct solve_net *net, double max_entries)
{
	struct hash hash = { 3, 4 };
	uint32_t k, j;

	hash_add(&hash, num_bits(max_entries));
	hash_add(&hash, net->nvars);
	for (k = 0; k < net->nvars; k++) {
		hash_add(&hash, net->domain[k]);
	}
	for (k = 0; k < net->ntables; k++) {
		const struct solve_table *t = &net->tables[k];

		hash_add(&hash, t->nvars);
		for (j = 0; j < t->nvars; j++) {
			hash_add(&hash, t->vars[j]);
		}
	}
	return hash;
}

static struct solve_plan *
copy_plan(struct arena *a, const struct solve_plan *plan)
{
	struct solve_plan *x = arena_dup(a, plan, sizeof *x);
	uint32_t n = plan->n;

	x->order = arena_dup(a, plan->order, n * sizeof *x->order);
	x->weight = arena_dup(a, plan->weight, n * sizeof *x->weight);
	x->scopes = arena_dup(a, plan->scopes, (n + 1) * sizeof *x->scopes);
	x->scope = arena_dup(a, plan->scope,
			     plan->scopes[n] * sizeof *x->scope);
	x->sums = arena_dup(a, plan->sums, (n + 1) * sizeof *x->sums);
	x->tables = arena_dup(a, plan->tables,
			      plan->sums[n] * sizeof *x->tables);
	x->core = arena_dup(a, plan->core, plan->ncore * sizeof *x->core);
	return x;
}

void
solve_plan_known(struct memo *m, struct solve_net *net, double max_entries,
		 struct solve_plan *plan)
{
	bool asks = m && net->nvars >= NEED_NO_MEMO;
	const struct solve_plan *known;
	struct hash key = { 0, 0 };
	struct arena *a;

	if (asks) {
		key = hash_graph(net, max_entries);
		known = memo_find(m, MEMO_ORDERS, key);
		if (known) {
			*plan = *known;
			return;
		}
	}
	solve_plan(net, max_entries, plan);
	a = asks ? memo_arena(m, MEMO_ORDERS) : NULL;
	if (a) {
		memo_keep(m, MEMO_ORDERS, key, copy_plan(a, plan));
	}
}
