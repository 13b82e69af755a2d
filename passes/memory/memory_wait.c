/*
 * Values for another stage wait at the sender until they are taken, in two
 * places by turns, so that the next one can be computed meanwhile.  Whether
 * that is enough is tried out: ranks run their lists, as fast as they can.
 * What repeats in these brings no other answer: no stall if there was none.
 */
#include "passes/memory/memory_parts.h"

#define WAITING 2	/* copies of what is sent, unless ranks would stall */

/* Sends of a stage in one direction, as the schedule runs. */
struct wait {
	uint32_t sent, taken;	/* the first `taken` are */
	uint32_t *order;	/* microbatches as they are sent */
	VEC(uint32_t) to;	/* the stages that take it */
};

struct course {
	struct memory_work *w;
	const struct sched *s;
	struct wait *wait;	/* by stage: forward, back */
	uint32_t *at;		/* by rank */
	uint8_t *done;		/* by stage and microbatch */
};

static uint32_t
direction(const struct sched_action *x)
{
	return sched_kinds[x->kind].does & SCHED_FORWARD ? 0
		: sched_kinds[x->kind].does & SCHED_INPUT ? 1 : 2;
}

static bool
is_done(const struct course *c, uint32_t stage, uint32_t mb, uint8_t parts)
{
	return (c->done[(size_t)stage * c->s->nmicrobatches + mb] & parts) ==
	       parts;
}

/* Whether all stages that a message goes to have taken it. */
static bool
was_taken(const struct course *c, const struct wait *q, uint32_t dir,
	  uint32_t mb)
{
	uint32_t i;

	for (i = 0; i < q->to.n; i++) {
		if (!is_done(c, q->to.at[i], mb, dir ? SCHED_INPUT
						     : SCHED_FORWARD)) {
			return false;
		}
	}
	return true;
}

static bool
has_memory(struct course *c, const struct sched_action *x)
{
	uint32_t dir = direction(x);
	struct wait *q = &c->wait[2 * x->stage + dir];
	uint32_t copies = c->w->out->stage[x->stage].waiting[dir];

	while (q->taken < q->sent && was_taken(c, q, dir,
					       q->order[q->taken])) {
		q->taken++;
	}
	return q->sent - q->taken < copies;
}

static bool
has_needs(const struct course *c, const struct sched_action *x)
{
	const struct sched_kind_info *k = &sched_kinds[x->kind];
	uint32_t stage = x->stage, mb = x->microbatch;

	return is_done(c, stage, mb, k->here) &&
	       (stage == 0 || is_done(c, stage - 1, mb, k->before)) &&
	       (stage + 1 == c->s->nstages ||
		is_done(c, stage + 1, mb, k->after));
}

/* Runs a rank as far as it gets; whether it got anywhere. */
static bool
run_rank(struct course *c, uint32_t rank, struct sched_action *full)
{
	const struct sched_list *l = &c->s->ranks[rank];
	uint32_t before = c->at[rank];

	for (; c->at[rank] < l->actions.n; c->at[rank]++) {
		const struct sched_action *x = &l->actions.at[c->at[rank]];
		uint32_t dir = direction(x);

		if (!has_needs(c, x)) {
			break;
		}
		if (dir < 2 && !has_memory(c, x)) {
			*full = *x;
			break;
		}
		c->done[(size_t)x->stage * c->s->nmicrobatches +
			x->microbatch] |= sched_kinds[x->kind].does;
		if (dir < 2) {
			struct wait *q = &c->wait[2 * x->stage + dir];

			q->order[q->sent++] = x->microbatch;
		}
	}
	return c->at[rank] > before;
}

/*
 * More copies for whoever has to wait, if all wait: a schedule from a file
 * may take values in another order than they are sent in.
 */
static void
run_all(struct course *c)
{
	struct sched_action full = { 0 };
	bool moves = true;
	uint32_t i;

	while (moves) {
		moves = false;
		full.stage = UINT32_MAX;
		for (i = 0; i < c->s->nranks; i++) {
			moves |= run_rank(c, i, &full);
		}
		if (!moves && full.stage != UINT32_MAX) {
			c->w->out->stage[full.stage]
				.waiting[direction(&full)]++;
			moves = true;
		}
	}
}

/* Values that go to one stage are taken together. */
static void
find_takers(struct course *c)
{
	const struct memory *out = c->w->out;
	uint32_t i, k;

	for (i = 0; i < out->sends.n; i++) {
		const struct memory_send *x = &out->sends.at[i];
		struct wait *q = &c->wait[2 * x->stage +
					  (x->to > x->stage ? 0 : 1)];

		for (k = 0; k < q->to.n && q->to.at[k] != x->to; k++) {
		}
		if (k == q->to.n) {
			VEC_PUSH(&c->w->tmp, &q->to, x->to);
		}
	}
}

void
memory_wait(struct memory_work *w)
{
	const struct sched *s = w->holding;
	uint32_t n = s->nmicrobatches, i;
	struct course c = { .w = w, .s = s };

	if (w->out->sends.n == 0) {
		return;
	}
	c.wait = arena_alloc(&w->tmp, 2 * s->nstages * sizeof *c.wait);
	c.at = arena_alloc(&w->tmp, s->nranks * sizeof *c.at);
	c.done = arena_alloc(&w->tmp, (size_t)s->nstages * n);
	for (i = 0; i < 2 * s->nstages; i++) {
		c.wait[i].order = arena_alloc(&w->tmp, n *
					      sizeof *c.wait[i].order);
		w->out->stage[i / 2].waiting[i % 2] = n < WAITING ? n
								  : WAITING;
	}
	find_takers(&c);
	run_all(&c);
}
