/*
 * Bytes of the slots of a rank's stages.  Stages share a pool of slots, all as
 * large as its largest, where that takes fewer bytes: as memory_slots.c lays
 * them out.  A pool has as many slots as its stages hold at once.
 */
#include "passes/space/space.h"

/* What struct pools points to. */
struct space_pools {
	uint32_t *order, *group, *key;
	double *size;		/* by group, of its largest slot */
};

/* The slots of a rank for a span, while they are put in pools. */
struct pools {
	struct space *s;
	struct space_slots *k;
	uint32_t span, rank;
	const uint32_t *of;	/* its stages */
	uint32_t n;
	const double *bytes;	/* by stage of the rank */
	/* by set of stages: see space_set_slots; NULL: these are many */
	const uint32_t *sets;
	uint32_t *order;	/* those with the largest slots first */
	/* of the stages that are counted: span, rank, and which they are */
	uint32_t *key;
	uint8_t *in;		/* behind key[1], by stage of the rank */
	uint32_t *group;	/* by stage of the rank, from 1; 0: no slot */
};

/* The schedule in which the slots of k are counted. */
static const struct sched *
schedule(struct space *s, const struct space_slots *k)
{
	const char *why;

	if (s->held_of != k) {
		arena_release(&s->held);
		s->held_sched = sched_make(&s->held, k->def->name,
					   (uint32_t)k->pp,
					   (uint32_t)k->chunks,
					   k->nmicrobatches, &why);
		s->held_of = k;
	}
	return s->held_sched;
}

/* Counts the most slots of the stages that are marked in p->in. */
static uint32_t
count_slots(struct pools *p)
{
	const struct sched *x = schedule(p->s, p->k);
	const struct sched_list *l = &x->ranks[p->rank];
	uint8_t *in = arena_alloc(&p->s->tmp, x->nstages);
	uint32_t now = 0, most = 0, i;

	for (i = 0; i < p->n; i++) {
		in[p->of[i]] = p->in[i];
	}
	for (i = 0; i < l->actions.n; i++) {
		const struct sched_action *a = &l->actions.at[i];

		if (in[a->stage]) {
			now += space_begins_slot(a->kind, p->span);
			most = now > most ? now : most;
			now -= space_ends_slot(a->kind, p->span);
		}
	}
	return most;
}

/* ---- sets of units ---- */

/* Raises the most of each set to what its units hold now. */
static void
raise_sets(const uint32_t *held, uint32_t nsets, uint32_t *now, uint32_t *most)
{
	uint32_t set, unit;

	for (set = 1, unit = 0; set < nsets; set++) {
		unit += set >> (unit + 1) & 1;	/* the last of the set */
		now[set] = now[set ^ (1u << unit)] + held[unit];
		most[set] = now[set] > most[set] ? now[set] : most[set];
	}
}

/* Counts along a rank's actions: sets hold most before one ends. */
static void
count_sets(struct pools *p, uint32_t nsets, uint32_t *most)
{
	const struct sched *x = schedule(p->s, p->k);
	const struct sched_list *l = &x->ranks[p->rank];
	uint32_t *unit = arena_alloc(&p->s->tmp, x->nstages * sizeof *unit);
	uint32_t *now = arena_alloc(&p->s->tmp, nsets * sizeof *now), i;
	uint32_t held[SPACE_UNITS] = { 0 };
	bool grown = false;

	for (i = 0; i < p->n; i++) {
		unit[p->of[i]] = space_unit(i, p->n);
	}
	for (i = 0; i < l->actions.n; i++) {
		const struct sched_action *a = &l->actions.at[i];
		bool begins = space_begins_slot(a->kind, p->span);
		bool ends = space_ends_slot(a->kind, p->span);

		held[unit[a->stage]] += begins;
		grown |= begins;
		if (ends && grown) {
			raise_sets(held, nsets, now, most);
			grown = false;
		}
		held[unit[a->stage]] -= ends;
	}
	if (grown) {
		raise_sets(held, nsets, now, most);
	}
}

const uint32_t *
space_set_slots(struct space *s, struct space_slots *k, uint32_t span,
		uint32_t rank, const uint32_t *of, uint32_t n)
{
	uint32_t like = !k->def->split && span == MEMORY_TO_WEIGHTS
		? MEMORY_TO_INPUT : span;
	uint32_t **to = &k->of_sets[like][rank], i;
	uint32_t nunits = space_units(n), nsets = 1u << nunits;
	struct pools p = { .s = s, .k = k, .span = like, .rank = rank,
			   .of = of, .n = n };

	if (*to) {
		return *to;
	}
	*to = arena_alloc(&s->keep, nsets * sizeof **to);
	if (!k->def->split && like == MEMORY_BETWEEN) {
		for (i = 1; i < nsets; i++) {
			(*to)[i] = 1;
		}
	} else {
		count_sets(&p, nsets, *to);
	}
	for (i = 0; i < n && nunits == n; i++) {
		(*to)[1u << i] = k->stage[like][of[i]];
	}
	(*to)[nsets - 1] = k->rank[like][rank];
	return *to;
}

/* ---- sets of stages ---- */

/* The most slots that the stages that are marked in p->in hold, of many. */
static uint32_t
most_of_many(struct pools *p)
{
	uint32_t *peak;
	sym_t id;

	p->key[0] = p->span;
	p->key[1] = p->rank;
	id = intern(&p->k->sets, (const char *)p->key,
		    2 * sizeof *p->key + p->n);
	while (p->k->peaks.n <= id) {
		VEC_PUSH(&p->s->keep, &p->k->peaks, 0);
	}
	peak = &p->k->peaks.at[id];
	if (!*peak) {
		*peak = count_slots(p);
	}
	return *peak;
}

/* The most slots that the groups a and b hold together. */
static uint32_t
most_slots(struct pools *p, uint32_t a, uint32_t b)
{
	uint32_t n = 0, last = 0, set = 0, i;

	if (p->sets) {
		for (i = 0; i < p->n; i++) {
			set |= (uint32_t)(p->group[i] == a ||
					  p->group[i] == b) << i;
		}
		return p->sets[set];
	}
	for (i = 0; i < p->n; i++) {
		p->in[i] = p->group[i] == a || p->group[i] == b;
		n += p->in[i];
		last = p->in[i] ? i : last;
	}
	if (n == 1) {
		return p->k->stage[p->span][p->of[last]];
	}
	return n == p->n ? p->k->rank[p->span][p->rank] : most_of_many(p);
}

/* Sets the order and the groups of equal slots; returns their number. */
static uint32_t
set_groups(struct pools *p, double *bytes)
{
	uint32_t groups = 0, i, j;

	for (i = 0; i < p->n; i++) {
		for (j = i; j > 0 && p->bytes[p->order[j - 1]] < p->bytes[i];
		     j--) {
			p->order[j] = p->order[j - 1];
		}
		p->order[j] = i;
	}
	for (i = 0; i < p->n; i++) {
		double b = p->bytes[p->order[i]];

		if (b > 0 && (!groups || b != bytes[groups])) {
			bytes[++groups] = b;
		}
		p->group[p->order[i]] = b > 0 ? groups : 0;
	}
	return groups;
}

/* Puts the stages of group k into group g, if that takes no more. */
static bool
join(struct pools *p, const double *bytes, uint32_t g, uint32_t k)
{
	double both = bytes[g] * most_slots(p, g, k);
	double apart = bytes[g] * most_slots(p, g, g);
	uint32_t i;

	apart += bytes[k] * most_slots(p, k, k);
	for (i = 0; both <= apart && i < p->n; i++) {
		p->group[i] = p->group[i] == k ? g : p->group[i];
	}
	return both <= apart;
}

static double
pool(struct pools *p)
{
	double *size = p->k->scratch->size;
	uint32_t groups = set_groups(p, size), g = 1, k;
	double bytes = 0;

	for (k = 2; k <= groups; k++) {
		if (!join(p, size, g, k)) {
			bytes += size[g] * most_slots(p, g, g);
			g = k;
		}
	}
	return groups ? bytes + size[g] * most_slots(p, g, g) : 0;
}

/* Prepares p for sums over the stages; calls are many. */
static void
open_pools(struct pools *p)
{
	struct arena *a = &p->s->keep;
	struct space_pools *x = p->k->scratch;
	uint32_t n = p->n;

	if (!x) {
		x = p->k->scratch = arena_alloc(a, sizeof *x);
		x->order = arena_alloc(a, n * sizeof *x->order);
		x->group = arena_alloc(a, n * sizeof *x->group);
		x->key = arena_alloc(a, 2 * sizeof *x->key + n);
		x->size = arena_alloc(a, (n + 1) * sizeof *x->size);
	}
	p->order = x->order;
	p->group = x->group;
	p->key = x->key;
	p->in = (uint8_t *)(x->key + 2);
	p->sets = n > SPACE_UNITS ? NULL
		: space_set_slots(p->s, p->k, p->span, p->rank, p->of, n);
}

static bool
are_equal(const double *bytes, uint32_t n)
{
	uint32_t i;

	for (i = 1; i < n && bytes[i] == bytes[0]; i++) {
	}
	return i >= n;
}

/* ---- the sum ---- */

double
space_pool_bytes(struct space *s, struct space_slots *k, uint32_t span,
		 uint32_t rank, const uint32_t *of, uint32_t n,
		 const double *bytes)
{
	struct pools p = { .s = s, .k = k, .span = span, .rank = rank,
			   .of = of, .n = n, .bytes = bytes };

	if (are_equal(bytes, n)) {
		return bytes[0] * k->rank[span][rank];
	}
	open_pools(&p);
	return pool(&p);
}
