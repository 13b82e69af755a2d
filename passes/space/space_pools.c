/*
 * Bytes of the slots of a rank's stages.  Stages share a pool of slots, all as
 * large as its largest, where that takes fewer bytes: as memory_slots.c lays
 * them out.  A pool has as many slots as its stages hold at once.
 */
#include "passes/space/space.h"

/* The slots of a rank for a span, while they are put in pools. */
struct pools {
	struct space *s;
	struct space_slots *k;
	uint32_t span, rank;
	const uint32_t *of;	/* its stages */
	uint32_t n;
	const double *bytes;	/* by stage of the rank */
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

/* The most slots that the groups a and b hold together. */
static uint32_t
most_slots(struct pools *p, uint32_t a, uint32_t b)
{
	uint32_t n = 0, last = 0, i, *peak;
	sym_t id;

	for (i = 0; i < p->n; i++) {
		p->in[i] = p->group[i] == a || p->group[i] == b;
		n += p->in[i];
		last = p->in[i] ? i : last;
	}
	if (n == 1) {
		return p->k->stage[p->span][p->of[last]];
	}
	if (n == p->n) {
		return p->k->rank[p->span][p->rank];
	}
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
	double *size = arena_alloc(&p->s->tmp, (p->n + 1) * sizeof *size);
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

double
space_pool_bytes(struct space *s, struct space_slots *k, uint32_t span,
		 uint32_t rank, const uint32_t *of, uint32_t n,
		 const double *bytes)
{
	struct pools p = { .s = s, .k = k, .span = span, .rank = rank,
			   .of = of, .n = n, .bytes = bytes };
	uint32_t i;

	for (i = 1; i < n && bytes[i] == bytes[0]; i++) {
	}
	if (i >= n) {
		return bytes[0] * k->rank[span][rank];
	}
	p.order = arena_alloc(&s->tmp, n * sizeof *p.order);
	p.group = arena_alloc(&s->tmp, n * sizeof *p.group);
	p.key = arena_alloc(&s->tmp, 2 * sizeof *p.key + n);
	p.in = (uint8_t *)(p.key + 2);
	return pool(&p);
}
