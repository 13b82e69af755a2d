/*
 * Counts how many microbatches a schedule has in flight, by stage and by rank:
 * each needs a slot for what it saves for backward.
 */
#include "passes/space/space.h"

/* A slot of a span is held from one part of a microbatch to another. */
static const struct { uint8_t from, to; } spans[SPACE_NSPANS] = {
	[MEMORY_TO_INPUT] = { SCHED_FORWARD, SCHED_INPUT },
	[MEMORY_TO_WEIGHTS] = { SCHED_FORWARD, SCHED_WEIGHTS },
	[MEMORY_BETWEEN] = { SCHED_INPUT, SCHED_WEIGHTS }
};

bool
space_begins_slot(uint32_t kind, uint32_t span)
{
	return sched_kinds[kind].does & spans[span].from;
}

bool
space_ends_slot(uint32_t kind, uint32_t span)
{
	return sched_kinds[kind].does & spans[span].to;
}

/* Slots of a span that are held: now, and at most so far. */
struct holding {
	uint32_t now, most;
	uint32_t then;		/* of a stage: when its rank first held most */
};

/* The stages of a rank, while its actions run. */
struct counting {
	struct holding *stages;	/* by stage, of all ranks */
	const uint32_t *of;	/* those of the rank */
	uint32_t n;
	struct holding all;
};

static void
begin(struct counting *c, uint32_t stage)
{
	struct holding *h = &c->stages[stage];
	uint32_t i;

	h->most = ++h->now > h->most ? h->now : h->most;
	if (++c->all.now <= c->all.most) {
		return;
	}
	c->all.most = c->all.now;
	for (i = 0; i < c->n; i++) {
		c->stages[c->of[i]].then = c->stages[c->of[i]].now;
	}
}

/* Counts along a rank's actions. */
static void
count_span(struct counting *c, const struct sched_list *l, uint32_t span)
{
	bool begins[SCHED_NKINDS], ends[SCHED_NKINDS];
	uint32_t i;

	for (i = 0; i < SCHED_NKINDS; i++) {
		begins[i] = space_begins_slot(i, span);
		ends[i] = space_ends_slot(i, span);
	}
	for (i = 0; i < l->actions.n; i++) {
		const struct sched_action *a = &l->actions.at[i];

		if (begins[a->kind]) {
			begin(c, a->stage);
		}
		if (ends[a->kind]) {
			c->stages[a->stage].now--;
			c->all.now--;
		}
	}
}

/* Counts all ranks and stages. */
static void
count_all(struct space *s, struct space_slots *k, const struct sched *x,
	  uint32_t span)
{
	struct holding *stages;
	uint32_t *of = arena_alloc(&s->tmp, x->nstages * sizeof *of), i, j;

	stages = arena_alloc(&s->tmp, x->nstages * sizeof *stages);
	for (i = 0; i < x->nranks; i++) {
		struct counting c = { .stages = stages, .of = of };

		for (j = 0; j < x->nstages; j++) {
			of[c.n] = j;
			c.n += x->rank_of[j] == i;
		}
		count_span(&c, &x->ranks[i], span);
		k->rank[span][i] = c.all.most;
	}
	for (i = 0; i < x->nstages; i++) {
		k->stage[span][i] = stages[i].most;
		k->then[span][i] = stages[i].then;
	}
}

/*
 * Where backward is not split, it ends both spans from forward at once, and
 * nothing is held between halves.
 */
static void
set_whole(struct space_slots *k, const struct sched *x)
{
	uint32_t i;

	for (i = 0; i < x->nstages; i++) {
		k->stage[MEMORY_TO_WEIGHTS][i] = k->stage[MEMORY_TO_INPUT][i];
		k->rank[MEMORY_TO_WEIGHTS][i] = k->rank[MEMORY_TO_INPUT][i];
		k->then[MEMORY_TO_WEIGHTS][i] = k->then[MEMORY_TO_INPUT][i];
		k->stage[MEMORY_BETWEEN][i] = k->rank[MEMORY_BETWEEN][i] = 1;
	}
}

/* Sets the counts of k for a schedule with that many microbatches. */
static void
count_slots(struct space *s, struct space_slots *k, uint32_t nmicrobatches)
{
	uint32_t n = (uint32_t)(k->pp * k->chunks), i;
	const char *why;
	struct sched *x = sched_make(&s->tmp, k->def->name, (uint32_t)k->pp,
				     (uint32_t)k->chunks, nmicrobatches, &why);

	for (i = 0; i < SPACE_NSPANS; i++) {
		k->stage[i] = arena_alloc(&s->keep, n * sizeof(uint32_t));
		k->rank[i] = arena_alloc(&s->keep, n * sizeof(uint32_t));
		k->then[i] = arena_alloc(&s->keep, n * sizeof(uint32_t));
		k->of_sets[i] = arena_alloc(&s->keep, (size_t)k->pp *
					    sizeof *k->of_sets[i]);
	}
	count_all(s, k, x, MEMORY_TO_INPUT);
	if (!k->def->split) {
		set_whole(k, x);
		return;
	}
	count_all(s, k, x, MEMORY_TO_WEIGHTS);
	count_all(s, k, x, MEMORY_BETWEEN);
}

/* Adds, k->times times, the slots that the last microbatch adds. */
static void
add_slots(struct space *s, struct space_slots *k)
{
	struct space_slots one = *k;
	uint32_t n = (uint32_t)(k->pp * k->chunks), i, j;

	count_slots(s, &one, k->nmicrobatches - 1);
	for (i = 0; i < SPACE_NSPANS; i++) {
		for (j = 0; j < n; j++) {
			k->stage[i][j] += k->times *
				(k->stage[i][j] - one.stage[i][j]);
			k->rank[i][j] += k->times *
				(k->rank[i][j] - one.rank[i][j]);
			k->then[i][j] += k->times *
				(k->then[i][j] - one.then[i][j]);
		}
	}
}

static struct space_slots *
slots_of(struct space *s, const struct sched_def *def, int64_t pp,
	 int64_t chunks, int64_t nmicrobatches)
{
	struct space_slots *k;
	uint32_t times, n, i;

	n = sched_held_of(def, (uint32_t)pp, (uint32_t)chunks,
			  (uint32_t)nmicrobatches, &times);
	for (i = 0; i < s->slots.n; i++) {
		k = s->slots.at[i];
		if (k->def == def && k->pp == pp && k->chunks == chunks &&
		    k->nmicrobatches == n && k->times == times) {
			return k;
		}
	}
	k = arena_alloc(&s->keep, sizeof *k);
	*k = (struct space_slots){ .def = def, .pp = pp, .chunks = chunks,
				    .nmicrobatches = n, .times = times };
	intern_init(&k->sets, &s->keep);
	count_slots(s, k, n);
	if (times) {
		add_slots(s, k);
	}
	VEC_PUSH(&s->keep, &s->slots, k);
	return k;
}

void
space_count_slots(struct space *s, struct space_plan *t)
{
	if (!t->slots) {
		t->slots = slots_of(s, t->sched, t->g->pp, t->chunks,
				    t->nmicrobatches);
	}
}
