/*
 * What was solved before.  A search poses many problems of which most are the
 * same, but for the unit of their prices, so each is known by 128 bits of a
 * hash of its content, and kept with its choice.  All of the solver compares
 * costs with costs: in a unit that is a power of two larger, every sum rounds
 * alike, and the choice is the same to the bit.
 *
 * Problems that differ in their costs mostly come down to one graph, and the
 * order in which to eliminate hangs on nothing else: that is kept, too.
 */
#include "passes/solve_net.h"

#include <math.h>

struct solve_known {
	struct solve_key key;
	bool feasible, exact, forced;
	double cost;		/* in the unit of the key */
	uint8_t *choice;	/* by variable */
	uint32_t width, nodes, bad_var;
	double states;
};

/* How to eliminate nets of one graph. */
struct plan_known {
	struct hash graph;
	struct solve_plan plan;
};

struct solve_memo {
	struct arena *arena;
	VEC(struct solve_known) known;	/* the first is none */
	VEC(struct plan_known) plans;	/* the same */
	struct table known_table, plan_table;
};

#define FEW 8			/* variables: planned as quickly as found */

struct solve_memo *
solve_memo_new(struct arena *a)
{
	struct solve_memo *m = arena_alloc(a, sizeof *m);

	m->arena = a;
	VEC_PUSH(a, &m->known, (struct solve_known){ 0 });
	VEC_PUSH(a, &m->plans, (struct plan_known){ 0 });
	return m;
}

/* ---- the content ---- */

#define EXPONENT 52		/* its lowest bit in a double */
#define EXPONENT_MASK 0x7ffu

#define NO_SIGN (UINT64_MAX >> 1)
#define INFINITE ((uint64_t)EXPONENT_MASK << EXPONENT)

static bool
has_unit(uint64_t size)
{
	return size - 1 < INFINITE - 1;
}

/* The exponent of the first cost that is neither nothing nor all. */
static uint32_t
find_unit(const struct solve *s)
{
	uint32_t k;
	size_t i;

	for (k = 0; k < s->tables.n; k++) {
		const struct solve_table *t = &s->tables.at[k];

		for (i = 0; i < t->n; i++) {
			uint64_t size = num_bits(t->cost[i]) & NO_SIGN;

			if (has_unit(size)) {
				return (uint32_t)(size >> EXPONENT);
			}
		}
	}
	return 0;
}

#define NOTHING 1u		/* there is one zero */
#define ALL 2u
#define SOME 3u

/*
 * Neither nothing nor all has a unit.  Most entries are one of these, so
 * which is which is taken for many at once.
 */
static void
mix_table(struct solve_key *to, const struct solve_table *t)
{
	uint64_t unit = (uint64_t)to->unit << EXPONENT, kinds = t->nvars;
	struct hash hash = to->hash;
	uint32_t k;
	size_t i;

	for (k = 0; k < t->nvars; k++) {
		hash_add(&hash, t->vars[k]);
	}
	for (i = 0; i < t->n; i++) {
		uint64_t bits = num_bits(t->cost[i]), size = bits & NO_SIGN;

		if (kinds >> 62) {
			hash_add(&hash, kinds);
			kinds = 0;
		}
		kinds = kinds << 2 | (size ? ALL : NOTHING);
		if (has_unit(size)) {
			hash_add(&hash, bits - unit);
			kinds |= SOME;
		}
	}
	hash_add(&hash, kinds);
	to->hash = hash;
}

struct solve_key
solve_key_of(const struct solve *s)
{
	struct solve_key key = { .hash = { 1, 2 } };
	uint32_t k;

	key.unit = find_unit(s);
	hash_add(&key.hash, num_bits(s->max_entries));
	hash_add(&key.hash, s->max_nodes);
	hash_add(&key.hash, s->domain.n);
	for (k = 0; k < s->domain.n; k++) {
		hash_add(&key.hash, s->domain.at[k]);
	}
	for (k = 0; k < s->tables.n; k++) {
		mix_table(&key, &s->tables.at[k]);
	}
	return key;
}

/* ---- what is known ---- */

bool
solve_recall(const struct solve *s, const struct solve_key *key,
	     struct solve_result *r)
{
	const struct solve_memo *m = s->memo;
	const struct solve_known *x;
	uint32_t at = 0, k;

	do {
		at = table_find(&m->known_table, key->hash.a, at);
		x = &m->known.at[at];
	} while (at && !hash_same(x->key.hash, key->hash));
	if (!at) {
		return false;
	}
	r->feasible = x->feasible;
	r->exact = x->exact;
	r->forced = x->forced;
	r->cost = x->feasible ? ldexp(x->cost, (int)key->unit -
				      (int)x->key.unit) : INFINITY;
	r->width = x->width;
	r->states = x->states;
	r->nodes = x->nodes;
	r->bad_var = x->bad_var;
	for (k = 0; k < s->domain.n; k++) {
		r->choice[k] = x->choice[k];
	}
	return true;
}

void
solve_remember(struct solve *s, const struct solve_key *key,
	       const struct solve_result *r)
{
	struct solve_memo *m = s->memo;
	struct solve_known x = {
		.key = *key, .feasible = r->feasible, .exact = r->exact,
		.forced = r->forced, .cost = r->cost, .width = r->width,
		.nodes = r->nodes, .bad_var = r->bad_var, .states = r->states
	};
	uint32_t k;

	x.choice = arena_alloc(m->arena, s->domain.n);
	for (k = 0; k < s->domain.n; k++) {
		x.choice[k] = (uint8_t)r->choice[k];
	}
	table_add(m->arena, &m->known_table, key->hash.a);
	VEC_PUSH(m->arena, &m->known, x);
}

/* ---- plans ---- */

/* What a plan hangs on: how many values there are, and which tables. */
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

static void *
keep(struct solve_memo *m, const void *at, uint32_t n, size_t bytes)
{
	return arena_dup(m->arena, at, n * bytes);
}

void
solve_plan_again(struct solve_memo *m, struct solve_net *net,
		 double max_entries, struct solve_plan *plan)
{
	struct plan_known x;
	uint32_t at = 0;

	if (!m || net->nvars < FEW) {
		solve_plan(net, max_entries, plan);
		return;
	}
	x.graph = hash_graph(net, max_entries);
	while ((at = table_find(&m->plan_table, x.graph.a, at)) != 0) {
		if (hash_same(m->plans.at[at].graph, x.graph)) {
			*plan = m->plans.at[at].plan;
			return;
		}
	}
	solve_plan(net, max_entries, plan);
	x.plan = *plan;
	x.plan.order = keep(m, plan->order, plan->n, sizeof *plan->order);
	x.plan.weight = keep(m, plan->weight, plan->n, sizeof *plan->weight);
	x.plan.core = keep(m, plan->core, plan->ncore, sizeof *plan->core);
	table_add(m->arena, &m->plan_table, x.graph.a);
	VEC_PUSH(m->arena, &m->plans, x);
}
