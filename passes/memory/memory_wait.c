/*
 * Copies of sent values.  A value for another stage waits at the sender until
 * the receiver has it.  Two copies alternate, so that the next value can be
 * computed meanwhile; a stage gets more where ranks would stall, which a run
 * of the schedule finds.  The schedule without its repeated middle is enough
 * for that, since a middle that repeats stalls the first time or never.
 */
#include "passes/memory/memory_parts.h"

#define WAITING 2	/* copies of what is sent, unless ranks would stall */

/* Messages of a stage in one direction, while the schedule runs. */
struct send_queue {
	uint32_t sent, received;	/* messages */
	uint32_t *order;	/* microbatches as they are sent */
	VEC(uint32_t) to;	/* the stages that receive them */
};

struct send_run {
	struct memory_work *w;
	const struct sched *s;
	struct send_queue *queue;	/* by stage: forward, back */
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
is_done(const struct send_run *c, uint32_t stage, uint32_t mb, uint8_t parts)
{
	return (c->done[(size_t)stage * c->s->nmicrobatches + mb] & parts) ==
	       parts;
}

/* Whether all stages that a message goes to have received it. */
static bool
was_received(const struct send_run *c, const struct send_queue *q, uint32_t dir,
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

/* Whether the stage may send one more message. */
static bool
has_free_copy(struct send_run *c, const struct sched_action *x)
{
	uint32_t dir = direction(x);
	struct send_queue *q = &c->queue[2 * x->stage + dir];
	uint32_t copies = c->w->out->stage[x->stage].waiting[dir];

	while (q->received < q->sent &&
	       was_received(c, q, dir, q->order[q->received])) {
		q->received++;
	}
	return q->sent - q->received < copies;
}

static bool
has_needs(const struct send_run *c, const struct sched_action *x)
{
	const struct sched_kind_info *k = &sched_kinds[x->kind];
	uint32_t stage = x->stage, mb = x->microbatch;

	return is_done(c, stage, mb, k->here) &&
	       (stage == 0 || is_done(c, stage - 1, mb, k->before)) &&
	       (stage + 1 == c->s->nstages ||
		is_done(c, stage + 1, mb, k->after));
}

/* Runs a rank until it must wait; true if it ran anything. */
static bool
run_rank(struct send_run *c, uint32_t rank, struct sched_action *full)
{
	const struct sched_list *l = &c->s->ranks[rank];
	uint32_t before = c->at[rank];

	for (; c->at[rank] < l->actions.n; c->at[rank]++) {
		const struct sched_action *x = &l->actions.at[c->at[rank]];
		uint32_t dir = direction(x);

		if (!has_needs(c, x)) {
			break;
		}
		if (dir < 2 && !has_free_copy(c, x)) {
			*full = *x;
			break;
		}
		c->done[(size_t)x->stage * c->s->nmicrobatches +
			x->microbatch] |= sched_kinds[x->kind].does;
		if (dir < 2) {
			struct send_queue *q = &c->queue[2 * x->stage + dir];

			q->order[q->sent++] = x->microbatch;
		}
	}
	return c->at[rank] > before;
}

/*
 * Adds a copy to a stage that waits for one whenever all ranks wait: a
 * schedule from a file may receive values in another order than they are sent
 * in.
 */
static void
run_all(struct send_run *c)
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

/* By queue, each stage that receives once. */
static void
find_receivers(struct send_run *c)
{
	const struct memory *out = c->w->out;
	uint32_t i, k;

	for (i = 0; i < out->sends.n; i++) {
		const struct memory_send *x = &out->sends.at[i];
		struct send_queue *q = &c->queue[2 * x->stage +
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
	struct send_run c = { .w = w, .s = s };

	if (w->out->sends.n == 0) {
		return;
	}
	c.queue = arena_alloc(&w->tmp, 2 * s->nstages * sizeof *c.queue);
	c.at = arena_alloc(&w->tmp, s->nranks * sizeof *c.at);
	c.done = arena_alloc(&w->tmp, (size_t)s->nstages * n);
	for (i = 0; i < 2 * s->nstages; i++) {
		c.queue[i].order = arena_alloc(&w->tmp, n *
					      sizeof *c.queue[i].order);
		w->out->stage[i / 2].waiting[i % 2] = n < WAITING ? n
								  : WAITING;
	}
	find_receivers(&c);
	run_all(&c);
}
