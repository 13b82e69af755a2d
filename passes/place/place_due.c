/*
 * Fills in the costs of a problem's tables for the axis at hand, in table
 * order, before each solve.
 */
#include "passes/place/place_choice.h"

/* An optimizer's maps become one kernel, so each costs less than alone. */
#define FUSED 0.1
#define SIZES 256

/* Prices of all codes for these bytes and times; NULL: unused entry. */
struct priced {
	double bytes, times;
	bool update;
	const double *price;	/* by code */
};

struct prices {
	struct place *p;
	struct priced *of;	/* by value: the latest */
	struct priced last[SIZES];	/* hashed */
};

void
place_add_due(struct choice *c, struct due d)
{
	d.update = c->update;
	d.region = c->region;
	d.iters = c->iters;
	d.n = (uint32_t)c->s->tables.at[d.table].n;
	c->nentries += d.n;
	VEC_PUSH(c->arena, &c->due, d);
}

static const double *
new_prices(struct place *p, bool update, double bytes, double times)
{
	size_t n = (p->nquiet + 1) * PLACE_CODES;
	double *price = arena_alloc_raw(&p->scratch, n * sizeof *price);

	p->price.joined = update;
	place_steps(p, bytes, times, price);
	p->price.joined = false;
	return price;
}

/* Many values are of one size. */
static void
find_prices(struct prices *x, value_id v, bool update, double times)
{
	double bytes = place_moved(x->p, v);
	uint64_t hash = hash_word(num_bits(bytes), num_bits(times));
	struct priced *last = &x->last[table_bits(hash) % SIZES];

	if (!last->price || last->bytes != bytes || last->times != times ||
	    last->update != update || x->p->price.seed) {
		*last = (struct priced){ bytes, times, update,
					 new_prices(x->p, update, bytes,
						    times) };
	}
	x->of[v] = *last;
}

static void
price_steps(struct prices *x, const struct due *d, double times, double *at)
{
	const struct priced *known = &x->of[d->of];
	const uint8_t *code = d->by.code;
	const double *price;
	uint32_t i;

	if (!known->price || known->times != times) {
		find_prices(x, d->of, d->update, times);
	}
	price = known->price;
	for (i = 0; i < d->n; i++) {
		at[i] = price[code[i]];
	}
}

static void
price_runs(const struct choice *c, const struct due *d, double times,
	   double *at)
{
	double part = d->update ? FUSED : 1;
	uint32_t i;

	place_runs(c->p, d->of, c->node[d->of].way, d->n, at);
	for (i = 0; i < d->n; i++) {
		at[i] = times * at[i] * part;
	}
}

static void
price_held(const struct choice *c, const struct due *d, double times,
	   double *at)
{
	uint32_t i;

	for (i = 0; i < d->n; i++) {
		at[i] = times * place_held(c->p, d->of, d->by.cell->opt[i]);
	}
}

/* How often it happens in a step; for a bound, only in regions that count. */
static double
times_of(const struct place *p, const struct due *d)
{
	if (p->counted) {
		return !d->update && p->counted[d->region] ? d->iters : 0;
	}
	return d->update ? d->iters : d->iters * p->steps;
}

void
place_fill(struct choice *c)
{
	struct place *p = c->p;
	struct prices x = { .p = p };
	const struct due *d = c->due.at, *end = d + c->due.n;
	double *at = arena_alloc_raw(&p->scratch, c->nentries * sizeof *at);

	x.of = arena_alloc(&p->scratch, p->nvalues * sizeof *x.of);
	for (; d < end; at += d++->n) {
		double times = times_of(p, d);

		solve_set_costs(c->s, d->table, at);
		if (d->kind == DUE_STEPS) {
			price_steps(&x, d, times, at);
		} else if (d->kind == DUE_RUNS) {
			price_runs(c, d, times, at);
		} else {
			price_held(c, d, times, at);
		}
	}
}
