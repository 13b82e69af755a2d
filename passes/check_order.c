/*
 * Whether all ranks of the pipeline come to their end, each running the
 * functions of its actions in order and waiting in each `recv` for what the
 * other stage sends of that microbatch.  A `send` does not wait.
 *
 * sched_check asks the same of the actions alone; here they wait where the
 * functions say so, for what they really need.
 */
#include "passes/check.h"

#define MAX_NOTES 8

/* Where a rank of the pipeline stands. */
struct place {
	uint32_t action, part, event;
};

/* A send or a receive. */
struct event {
	uint32_t use, link;
	bool sends;
};

struct order {
	struct check *c;
	struct place *at;	/* by pipe */
	struct event *events;	/* function by function */
	uint32_t *begin;	/* by function, and one more */
	uint64_t *sent;		/* a bit per link and microbatch */
	uint32_t *to;		/* by link: the pipe that receives */
	uint32_t *todo, head, n;	/* a ring of pipes that may go on */
	bool *queued;
};

static void
wake(struct order *o, uint32_t pipe)
{
	if (!o->queued[pipe]) {
		o->queued[pipe] = true;
		o->todo[(o->head + o->n++) % o->c->npipes] = pipe;
	}
}

static void
find_events(struct order *o)
{
	struct check *c = o->c;
	uint32_t i, k, n = 0;

	for (i = 0; i < c->nfns; i++) {
		o->begin[i] = n;
		for (k = 0; k < c->fns[i].n; k++) {
			uint32_t use = c->fns[i].first + k;
			struct event *e = &o->events[n];

			if (!c->link[use]) {
				continue;
			}
			n++;
			e->use = use;
			e->link = c->link[use];
			e->sends = ir_is(check_node(c, &c->uses.at[use])->op,
					 IRF_SINK);
			if (!e->sends) {
				o->to[e->link] = c->fns[i].pipe;
			}
		}
	}
	o->begin[i] = n;
}

/* The function that is part k of an action; false: it has fewer parts. */
static bool
function_of(const struct order *o, const struct sched_action *a, uint32_t k,
	    uint32_t *fn)
{
	const struct check *c = o->c;
	uint32_t phase = a->kind == SCHED_F ? CHECK_FORWARD
		: a->kind == SCHED_W ? CHECK_WEIGHTS : CHECK_BACKWARD;

	*fn = (phase + k) * c->nstages + a->stage;
	return k == 0 || (k == 1 && a->kind == SCHED_B && c->fns[*fn].func);
}

/* Its bit of a transfer of the microbatch. */
static bool
is_sent(struct order *o, uint32_t link, uint32_t microbatch, bool set)
{
	uint64_t bit = (uint64_t)(link - 1) * o->c->s->nmicrobatches +
		       microbatch;

	if (set) {
		o->sent[bit >> 6] |= (uint64_t)1 << (bit & 63);
	}
	return o->sent[bit >> 6] >> (bit & 63) & 1;
}

/* As far as the rank can go. */
static void
run(struct order *o, uint32_t pipe)
{
	struct check *c = o->c;
	const struct sched_list *l = &c->s->ranks[pipe];
	struct place *p = &o->at[pipe];
	uint32_t fn;

	for (; p->action < l->actions.n; p->action++, p->part = 0) {
		const struct sched_action *a = &l->actions.at[p->action];

		for (; function_of(o, a, p->part, &fn); p->part++,
		     p->event = 0) {
			uint32_t n = o->begin[fn + 1] - o->begin[fn];

			for (; p->event < n; p->event++) {
				const struct event *e = &o->events[
					o->begin[fn] + p->event];

				if (!is_sent(o, e->link, a->microbatch,
					     e->sends)) {
					return;
				}
				if (e->sends) {
					wake(o, o->to[e->link]);
				}
			}
		}
	}
}

/*
 * Ranks that wait for each other in a circle never end, though each of them
 * has all that it needs somewhere ahead.
 */
static void
all_end(struct order *o)
{
	struct check *c = o->c;
	uint32_t pipe, fn, told = 0;

	for (pipe = 0; pipe < c->npipes && told <= MAX_NOTES; pipe++) {
		const struct sched_list *l = &c->s->ranks[pipe];
		const struct place *p = &o->at[pipe];
		const struct check_use *u;
		const struct sched_action *a;

		if (p->action == l->actions.n) {
			continue;
		}
		a = &l->actions.at[p->action];
		function_of(o, a, p->part, &fn);
		u = &c->uses.at[o->events[o->begin[fn] + p->event].use];
		if (told++ == 0) {
			check_fail(c, u, "pipe %u waits here in %s for ever",
				   pipe, sched_name(c->a, a));
		} else {
			check_note(c, u, "pipe %u waits in %s", pipe,
				   sched_name(c->a, a));
		}
	}
}

void
check_order(struct check *c)
{
	struct order o = { .c = c };
	struct arena *a = c->a;
	size_t bits = (size_t)c->nlinks * c->s->nmicrobatches;
	uint32_t pipe;

	o.at = arena_alloc(a, c->npipes * sizeof *o.at);
	o.events = arena_alloc(a, (c->uses.n + 1) * sizeof *o.events);
	o.begin = arena_alloc(a, (c->nfns + 1) * sizeof *o.begin);
	o.sent = arena_alloc(a, (bits / 64 + 1) * sizeof *o.sent);
	o.to = arena_alloc(a, (c->nlinks + 1) * sizeof *o.to);
	o.todo = arena_alloc(a, c->npipes * sizeof *o.todo);
	o.queued = arena_alloc(a, c->npipes * sizeof *o.queued);
	find_events(&o);
	for (pipe = 0; pipe < c->npipes; pipe++) {
		wake(&o, pipe);
	}
	while (o.n > 0) {
		pipe = o.todo[o.head];
		o.head = (o.head + 1) % c->npipes;
		o.n--;
		o.queued[pipe] = false;
		run(&o, pipe);
	}
	all_end(&o);
}
