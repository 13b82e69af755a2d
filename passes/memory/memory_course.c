/*
 * Which rank of the pipeline may go on: each runs its list, action by action,
 * until what it needs is not done, or a message of it has no place to wait.
 */
#include "passes/memory/memory_check.h"

struct course {
	uint32_t *at;		/* by rank */
	uint8_t *done;		/* by stage and microbatch */
	uint32_t *sent;		/* by stage: forward, back */
};

static bool
may_run(const struct checker *c, const struct course *k,
	const struct sched_action *x)
{
	struct sched_need need[SCHED_MAX_NEEDS];
	const struct sched *s = c->r->sched;
	uint32_t n = sched_needs(s, x, need), i;

	for (i = 0; i < n; i++) {
		if (!(k->done[(size_t)need[i].stage * s->nmicrobatches +
			      x->microbatch] >> need[i].part & 1)) {
			return false;
		}
	}
	return true;
}

/* A place that waits must be free again: all it went to have taken it. */
static bool
has_memory(const struct checker *c, const struct course *k,
	 const struct sched_action *x)
{
	const struct sched *s = c->r->sched;
	uint32_t back = !(sched_kinds[x->kind].does & SCHED_FORWARD), i;
	uint32_t copies = c->mem->stage[x->stage].waiting[back], turn, j;
	const struct sched_list *l = &s->ranks[s->rank_of[x->stage]];
	uint32_t mine = back ? SCHED_INPUT : SCHED_FORWARD;

	turn = k->sent[2 * x->stage + back];
	if (!(sched_kinds[x->kind].does & mine) || turn < copies) {
		return true;
	}
	/* the message so many turns ago */
	for (i = 0, j = 0; i < l->actions.n; i++) {
		const struct sched_action *y = &l->actions.at[i];

		if (y->stage != x->stage ||
		    !(sched_kinds[y->kind].does & mine) ||
		    j++ != turn - copies) {
			continue;
		}
		for (j = 0; j < c->mem->sends.n; j++) {
			const struct memory_send *q = &c->mem->sends.at[j];

			if (q->stage == x->stage &&
			    (q->to < q->stage) == back &&
			    !(k->done[(size_t)q->to * s->nmicrobatches +
				      y->microbatch] & mine)) {
				return false;
			}
		}
		break;
	}
	return true;
}

static bool
run_rank(struct checker *c, struct course *k, uint32_t rank)
{
	const struct sched *s = c->r->sched;
	const struct sched_list *l = &s->ranks[rank];
	uint32_t before = k->at[rank];

	for (; k->at[rank] < l->actions.n && !c->why; k->at[rank]++) {
		const struct sched_action *x = &l->actions.at[k->at[rank]];
		uint8_t does = sched_kinds[x->kind].does;

		if (!may_run(c, k, x) || !has_memory(c, k, x)) {
			break;
		}
		c->pipe = rank;
		c->run.stage = x->stage;
		c->run.microbatch = x->microbatch;
		c->run.turn[0] = k->sent[2 * x->stage];
		c->run.turn[1] = k->sent[2 * x->stage + 1];
		memory_check_func(c, c->r->of_stage[x->stage][x->kind]);
		k->sent[2 * x->stage] += (does & SCHED_FORWARD) != 0;
		k->sent[2 * x->stage + 1] += (does & SCHED_INPUT) != 0;
		k->done[(size_t)x->stage * s->nmicrobatches +
			x->microbatch] |= does;
	}
	return k->at[rank] > before;
}

void
memory_course(struct checker *c)
{
	const struct sched *s = c->r->sched;
	struct course k = {
		.at = arena_alloc(&c->a, s->nranks * sizeof *k.at),
		.done = arena_alloc(&c->a, (size_t)s->nstages *
				    s->nmicrobatches),
		.sent = arena_alloc(&c->a, 2 * s->nstages * sizeof *k.sent)
	};
	bool moves = true;
	uint32_t i;

	while (moves && !c->why) {
		moves = false;
		for (i = 0; i < s->nranks && !c->why; i++) {
			moves |= run_rank(c, &k, i);
		}
	}
	for (i = 0; i < s->nranks && !c->why; i++) {
		if (k.at[i] < s->ranks[i].actions.n) {
			c->why = "ranks stall, as what waits has no room";
		}
	}
	c->run.stage = UINT32_MAX;
	c->run.microbatch = 0;
	for (i = 0; i < s->nranks && !c->why; i++) {
		c->pipe = i;
		memory_check_func(c, c->r->update[i]);
	}
}
