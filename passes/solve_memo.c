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
#include <string.h>

struct solve_known {
	struct solve_key key;
	bool feasible, exact;
	double cost;		/* in the unit of the key */
	uint8_t *choice;	/* by variable */
	uint32_t width, nodes, bad_var;
	double states;
	uint32_t next;		/* of its slot; 0: the last one */
};

/* How to eliminate nets of one graph. */
struct plan_known {
	struct solve_key key;
	struct solve_plan plan;
};

struct solve_memo {
	struct arena *arena;
	VEC(struct plan_known) plans;
	VEC(struct solve_known) known;	/* the first is none */
	uint32_t *slots, nslots;	/* by hash, the first of its list */
};

#define SLOTS 256
#define FEW 8			/* variables: planned as quickly as found */

struct solve_memo *
solve_memo_new(struct arena *a)
{
	struct solve_memo *m = arena_alloc(a, sizeof *m);

	m->arena = a;
	m->nslots = SLOTS;
	m->slots = arena_alloc(a, SLOTS * sizeof *m->slots);
	VEC_PUSH(a, &m->known, (struct solve_known){ 0 });
	return m;
}

/* ---- the content ---- */

#define EXPONENT 52		/* its lowest bit in a double */
#define EXPONENT_MASK 0x7ffu

static void
mix(struct solve_key *k, uint64_t word)
{
	k->hash[0] = (k->hash[0] ^ word) * 0x9e3779b97f4a7c15u;
	k->hash[0] ^= k->hash[0] >> 29;
	k->hash[1] = (k->hash[1] + word) * 0xd6e8feb86659fd93u;
	k->hash[1] ^= k->hash[1] >> 32;
}

static uint64_t
bits_of(double d)
{
	uint64_t bits;

	memcpy(&bits, &d, sizeof bits);
	return bits;
}

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
			uint64_t size = bits_of(t->cost[i]) & NO_SIGN;

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
	struct solve_key key = *to;
	uint32_t k;
	size_t i;

	for (k = 0; k < t->nvars; k++) {
		mix(&key, t->vars[k]);
	}
	for (i = 0; i < t->n; i++) {
		uint64_t bits = bits_of(t->cost[i]), size = bits & NO_SIGN;

		if (kinds >> 62) {
			mix(&key, kinds);
			kinds = 0;
		}
		kinds = kinds << 2 | (size ? ALL : NOTHING);
		if (has_unit(size)) {
			mix(&key, bits - unit);
			kinds |= SOME;
		}
	}
	mix(&key, kinds);
	*to = key;
}

struct solve_key
solve_key_of(const struct solve *s)
{
	struct solve_key key = { .hash = { 1, 2 } };
	uint32_t k;

	key.unit = find_unit(s);
	mix(&key, bits_of(s->max_entries));
	mix(&key, s->max_nodes);
	mix(&key, s->domain.n);
	for (k = 0; k < s->domain.n; k++) {
		mix(&key, s->domain.at[k]);
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
	uint32_t at = m->slots[key->hash[0] % m->nslots], k;

	for (; at; at = x->next) {
		x = &m->known.at[at];
		if (x->key.hash[0] == key->hash[0] &&
		    x->key.hash[1] == key->hash[1]) {
			break;
		}
	}
	if (!at) {
		return false;
	}
	r->feasible = x->feasible;
	r->exact = x->exact;
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
	uint32_t *slot = &m->slots[key->hash[0] % m->nslots], k;
	struct solve_known x = {
		.key = *key, .feasible = r->feasible, .exact = r->exact,
		.cost = r->cost, .width = r->width, .nodes = r->nodes,
		.bad_var = r->bad_var, .states = r->states, .next = *slot
	};

	x.choice = arena_alloc(m->arena, s->domain.n);
	for (k = 0; k < s->domain.n; k++) {
		x.choice[k] = (uint8_t)r->choice[k];
	}
	*slot = m->known.n;
	VEC_PUSH(m->arena, &m->known, x);
}

/* ---- plans ---- */

/* What a plan hangs on: how many values there are, and which tables. */
static struct solve_key
graph_key(const struct solve_net *net, double max_entries)
{
	struct solve_key key = { .hash = { 3, 4 } };
	uint32_t k, j;

	mix(&key, bits_of(max_entries));
	mix(&key, net->nvars);
	for (k = 0; k < net->nvars; k++) {
		mix(&key, net->domain[k]);
	}
	for (k = 0; k < net->ntables; k++) {
		const struct solve_table *t = &net->tables[k];

		mix(&key, t->nvars);
		for (j = 0; j < t->nvars; j++) {
			mix(&key, t->vars[j]);
		}
	}
	return key;
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
	uint32_t k;

	if (!m || net->nvars < FEW) {
		solve_plan(net, max_entries, plan);
		return;
	}
	x.key = graph_key(net, max_entries);
	for (k = 0; k < m->plans.n; k++) {
		if (memcmp(m->plans.at[k].key.hash, x.key.hash,
			   sizeof x.key.hash) == 0) {
			*plan = m->plans.at[k].plan;
			return;
		}
	}
	solve_plan(net, max_entries, plan);
	x.plan = *plan;
	x.plan.order = keep(m, plan->order, plan->n, sizeof *plan->order);
	x.plan.weight = keep(m, plan->weight, plan->n, sizeof *plan->weight);
	x.plan.core = keep(m, plan->core, plan->ncore, sizeof *plan->core);
	VEC_PUSH(m->arena, &m->plans, x);
}
