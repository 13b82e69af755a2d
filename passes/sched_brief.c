/*
 * How long a schedule takes, once more with other costs: who waits for whom
 * is found once.  And without its middle: once a pipeline is full its order
 * repeats, and soon its times do, all of them later by the same.
 *
 * A rank's list then is a head, windows of one period each, and a tail.
 * `back` is how many windows an action's needs on other ranks lie behind it
 * at the most, `ahead` how many before it.  If in back + ahead windows of all
 * ranks each action ends `us` after the one that stands for it `cycle`
 * windows before, so many windows more change nothing but that the tail ends
 * `us` later: an action has all that it waits for either before the last of
 * these windows, where times are those without more of them, or behind the
 * first, where they are those plus `us`.
 *
 * A cycle is one window if the slowest rank sets the pace.  If hops do, it is
 * as many as there are microbatches on their way to the end and back.
 */
#include "passes/sched.h"

#include <math.h>
#include <string.h>

/* Windows that are alike but for noise: of a window's time. */
#define SAME 1e-12

/*
 * Ends once the rank's last step has, and what it needs has come in, and its
 * work is done.  Step 0 ends at 0; no rank has it.
 */
struct step {
	uint32_t last, need;
	uint32_t link;		/* stage whose hop that takes, or nstages */
	uint32_t work;		/* stage and kind, or none behind all these */
};

struct sched_brief {
	const struct sched_def *def;
	uint32_t nranks, nstages, nmicrobatches;
	uint32_t period;	/* microbatches of a window; 0: there is none */
	VEC(struct step) steps;	/* each behind all that it waits for */
	uint32_t *end;		/* by rank: its last step */
	uint32_t nwindows, reach;	/* of all ranks; back and ahead */
	uint32_t *size;		/* by rank: actions of a window */
	uint32_t **window;	/* by rank: their steps */
	bool stalls;
};

/* ---- how many microbatches ---- */

static uint32_t
period_of(const struct sched_def *def, uint32_t nranks, uint32_t m)
{
	switch (def->repeats) {
	case SCHED_EACH:
		return 1;
	case SCHED_GROUP:	/* or groups are larger than that */
		return m / nranks > m % nranks ? nranks : 0;
	default:
		return 0;
	}
}

/* The same, but for a number of cycles: of so many turns of all ranks. */
static uint32_t
brief_of(const struct sched_def *def, uint32_t nranks, uint32_t chunks,
	 uint32_t m, uint32_t turns, uint32_t cycle)
{
	uint32_t period = period_of(def, nranks, m), rest, n;

	if (!period || nranks == 1) {
		return m;
	}
	rest = m % period;
	/* one more in so many groups, before the others are alike */
	n = rest * period + rest;
	n += (turns + (chunks > 1)) * nranks;
	return n < m ? n + (m - n) % (cycle * period) : m;
}

uint32_t
sched_held_of(const struct sched_def *def, uint32_t nranks, uint32_t chunks,
	      uint32_t nmicrobatches, uint32_t *times)
{
	bool all = def->repeats == SCHED_NEVER && nmicrobatches > 2;

	*times = all ? nmicrobatches - 2 : 0;
	return all ? 2 : brief_of(def, nranks, chunks, nmicrobatches,
				  def->ends, 1);
}

/* ---- who waits for whom ---- */

/* While it is made. */
struct maker {
	struct arena *arena;
	const struct sched *s;
	struct sched_brief *b;
	uint32_t *at;		/* by rank: actions that have their steps */
	uint32_t *doer;		/* by part of a stage's work: the step; or 0 */
	uint32_t **step;	/* by rank, by place: of the action */
	struct wants *wants;	/* by stage and kind */
};

/* What an action waits for, whatever its microbatch. */
struct wants {
	uint32_t n;
	struct sched_need need[SCHED_MAX_NEEDS];
};

static size_t
part_index(const struct sched *s, struct sched_need need, uint32_t microbatch)
{
	return ((size_t)need.stage * s->nmicrobatches + microbatch) *
	       SCHED_NPARTS + need.part;
}

static void
find_wants(struct maker *k)
{
	const struct sched *s = k->s;
	uint32_t n = s->nstages * SCHED_NKINDS, i;

	k->wants = arena_alloc(k->arena, n * sizeof *k->wants);
	for (i = 0; i < n; i++) {
		struct sched_action act = {
			.kind = (uint8_t)(i % SCHED_NKINDS),
			.stage = i / SCHED_NKINDS
		};

		k->wants[i].n = sched_needs(s, &act, k->wants[i].need);
	}
}

static const struct wants *
wants_of(const struct maker *k, const struct sched_action *act)
{
	return &k->wants[act->stage * SCHED_NKINDS + act->kind];
}

static bool
can_go(const struct maker *k, const struct sched_action *act,
       const struct wants *w)
{
	uint32_t i;

	for (i = 0; i < w->n; i++) {
		if (!k->doer[part_index(k->s, w->need[i], act->microbatch)]) {
			return false;
		}
	}
	return true;
}

/* A step for each need but the last; these have no work. */
static void
add_steps(struct maker *k, uint32_t rank, const struct sched_action *act,
	  const struct wants *w)
{
	const struct sched *s = k->s;
	struct sched_brief *b = k->b;
	struct step x = { b->end[rank], b->end[rank], s->nstages,
			  s->nstages * SCHED_NKINDS };
	uint32_t i;

	for (i = 0; i < w->n; i++) {	/* its own rank's came before it */
		uint32_t of = w->need[i].stage;

		if (s->rank_of[of] == rank) {
			continue;
		}
		if (x.link < s->nstages) {
			VEC_PUSH(k->arena, &b->steps, x);
			x.last = b->steps.n - 1;
		}
		x.need = k->doer[part_index(s, w->need[i], act->microbatch)];
		x.link = of < act->stage ? of : act->stage;
	}
	x.work = act->stage * SCHED_NKINDS + act->kind;
	VEC_PUSH(k->arena, &b->steps, x);
	b->end[rank] = b->steps.n - 1;
}

static bool
advance(struct maker *k, uint32_t rank)
{
	const struct sched_list *l = &k->s->ranks[rank];
	uint32_t from = k->at[rank];
	struct sched_need own;

	for (; k->at[rank] < l->actions.n; k->at[rank]++) {
		const struct sched_action *act = &l->actions.at[k->at[rank]];

		if (!can_go(k, act, wants_of(k, act))) {
			break;
		}
		add_steps(k, rank, act, wants_of(k, act));
		k->step[rank][k->at[rank]] = k->b->end[rank];
		own.stage = act->stage;
		for (own.part = 0; own.part < SCHED_NPARTS; own.part++) {
			if (sched_kinds[act->kind].does >> own.part & 1) {
				k->doer[part_index(k->s, own,
						   act->microbatch)] =
					k->b->end[rank];
			}
		}
	}
	return k->at[rank] > from;
}

/* Down the ranks as forwards go, then up. */
static void
make_steps(struct maker *k)
{
	uint32_t n = k->s->nranks, r;
	bool goes = true;

	while (goes) {
		goes = false;
		for (r = 0; r < n; r++) {
			goes |= advance(k, r);
		}
		for (r = n; r-- > 0;) {
			goes |= advance(k, r);
		}
	}
	for (r = 0; r < n; r++) {
		k->b->stalls |= k->at[r] < k->s->ranks[r].actions.n;
	}
}

/* ---- windows ---- */

struct windows {
	uint32_t *from;		/* by rank: place of its first one */
	uint32_t *size;		/* by rank: actions of one */
	uint32_t n;		/* that all ranks have */
	uint32_t back, ahead;
};

static bool
repeats(const struct sched_action *x, const struct sched_action *later,
	uint32_t period)
{
	return x->kind == later->kind && x->stage == later->stage &&
	       x->microbatch + period == later->microbatch;
}

/* The longest run of places whose action comes again a window later. */
static uint32_t
find_run(const struct sched_list *l, uint32_t size, uint32_t period,
	 uint32_t *from)
{
	uint32_t best = 0, run = 0, i;

	for (i = 0; i + size < l->actions.n; i++) {
		run = repeats(&l->actions.at[i], &l->actions.at[i + size],
			      period) ? run + 1 : 0;
		if (run > best) {
			best = run;
			*from = i + 1 - run;
		}
	}
	return best ? best + size : 0;
}

static void
find_windows(struct maker *k, struct windows *w)
{
	const struct sched *s = k->s;
	uint32_t r, n, period = k->b->period;

	w->from = arena_alloc(k->arena, s->nranks * sizeof *w->from);
	w->size = arena_alloc(k->arena, s->nranks * sizeof *w->size);
	w->n = UINT32_MAX;
	for (r = 0; r < s->nranks; r++) {
		const struct sched_list *l = &s->ranks[r];

		w->size[r] = l->actions.n / s->nmicrobatches * period;
		n = find_run(l, w->size[r], period, &w->from[r]) /
		    w->size[r];
		w->n = n < w->n ? n : w->n;
	}
}

/* Where the step's action stands: rank, then place. */
static void
find_places(const struct maker *k, uint32_t *rank, uint32_t *place)
{
	uint32_t r, i;

	for (r = 0; r < k->s->nranks; r++) {
		for (i = 0; i < k->s->ranks[r].actions.n; i++) {
			rank[k->step[r][i]] = r;
			place[k->step[r][i]] = i;
		}
	}
}

/* How far the needs of a window in the middle are from it, in windows. */
static void
find_reach(struct maker *k, struct windows *w)
{
	uint32_t *rank = arena_alloc(k->arena, k->b->steps.n * sizeof *rank);
	uint32_t *place = arena_alloc(k->arena, k->b->steps.n * sizeof *rank);
	uint32_t middle = w->n / 2, r, i, j;

	find_places(k, rank, place);
	for (r = 0; r < k->s->nranks; r++) {
		for (i = 0; i < w->size[r]; i++) {
			const struct sched_action *act =
				&k->s->ranks[r].actions.at[w->from[r] +
					middle * w->size[r] + i];
			const struct wants *x = wants_of(k, act);

			for (j = 0; j < x->n; j++) {
				uint32_t d = k->doer[part_index(k->s,
					x->need[j], act->microbatch)];
				double at = floor(((double)place[d] -
						   w->from[rank[d]]) /
						  w->size[rank[d]]) - middle;

				if (rank[d] == r) {
					continue;
				}
				w->back = fmax(w->back, -at);
				w->ahead = fmax(w->ahead, at);
			}
		}
	}
}

static void
copy_kept(struct arena *a, const struct maker *k, const struct windows *w,
	  struct sched_brief *to)
{
	uint32_t r, n = k->b->nranks;

	*to = *k->b;
	to->steps.at = arena_dup(a, to->steps.at, to->steps.n *
				 sizeof *to->steps.at);
	to->end = arena_dup(a, to->end, n * sizeof *to->end);
	to->nwindows = w->n;
	to->reach = w->back + w->ahead + 1;
	if (w->n) {
		to->size = arena_dup(a, w->size, n * sizeof *to->size);
		to->window = arena_alloc(a, n * sizeof *to->window);
	}
	for (r = 0; w->n && r < n; r++) {
		to->window[r] = arena_dup(a, k->step[r] + w->from[r],
					  w->n * w->size[r] *
					  sizeof **to->window);
	}
}

static struct sched_brief *
make(struct arena *a, const struct sched_def *def, const struct sched *s)
{
	struct arena tmp;
	struct sched_brief b = {
		.def = def, .nranks = s->nranks, .nstages = s->nstages,
		.nmicrobatches = s->nmicrobatches,
		.period = period_of(def, s->nranks, s->nmicrobatches)
	}, *out = arena_alloc(a, sizeof *out);
	struct maker k = { .arena = &tmp, .s = s, .b = &b };
	struct windows w = { 0 };
	uint32_t r;

	arena_init(&tmp, a->mem);
	b.end = arena_alloc(&tmp, s->nranks * sizeof *b.end);
	VEC_PUSH(&tmp, &b.steps, (struct step){ 0 });
	k.at = arena_alloc(&tmp, s->nranks * sizeof *k.at);
	k.doer = arena_alloc(&tmp, (size_t)s->nstages * s->nmicrobatches *
			     SCHED_NPARTS * sizeof *k.doer);
	k.step = arena_alloc(&tmp, s->nranks * sizeof *k.step);
	for (r = 0; r < s->nranks; r++) {
		k.step[r] = arena_room(&tmp, s->ranks[r].actions.n *
				       sizeof **k.step);
	}
	find_wants(&k);
	make_steps(&k);
	if (b.period && !b.stalls) {
		find_windows(&k, &w);
	}
	if (w.n) {
		find_reach(&k, &w);
	}
	copy_kept(a, &k, &w, out);
	arena_release(&tmp);
	return out;
}

/* ---- those that are kept ---- */

#define MOST_KEPT (32 << 20)	/* bytes */

static struct sched_brief *
brief(struct sched_briefs *all, struct arena *tmp, const struct sched_def *def,
      uint32_t nranks, uint32_t chunks, uint32_t m)
{
	uint32_t nstages = nranks * chunks, i;
	size_t bytes = (size_t)nstages * m * (def->split ? 3 : 2) *
		       (sizeof(struct step) + sizeof(uint32_t));
	bool keep = bytes <= MOST_KEPT - all->bytes;
	struct sched_brief *b;
	struct arena order;
	const char *why;
	struct sched *s;

	for (i = 0; i < all->at.n; i++) {
		b = all->at.at[i];
		if (b->nmicrobatches == m && b->nstages == nstages &&
		    b->nranks == nranks && b->def == def) {
			return b;
		}
	}
	arena_init(&order, tmp->mem);
	s = sched_make(&order, def->name, nranks, chunks, m, &why);
	b = s ? make(keep ? all->arena : tmp, def, s) : NULL;
	arena_release(&order);
	if (b && keep) {
		VEC_PUSH(all->arena, &all->at, b);
		all->bytes += bytes;
	}
	return b;
}

/* ---- running ---- */

static double *
run(struct arena *a, const struct sched_brief *b,
    const struct sched_cost *costs)
{
	uint32_t n = b->nstages, i, k;
	double *end = arena_room(a, b->steps.n * sizeof *end);
	double *us = arena_room(a, (n * SCHED_NKINDS + 1) * sizeof *us);
	double *hop = arena_room(a, (n + 1) * sizeof *hop);

	for (i = 0; i < n; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			us[i * SCHED_NKINDS + k] = costs[i].us[k];
		}
		hop[i] = costs[i].hop_us;
	}
	hop[n] = us[n * SCHED_NKINDS] = 0;
	end[0] = 0;
	for (i = 1; i < b->steps.n; i++) {
		const struct step *x = &b->steps.at[i];
		double last = end[x->last], need = end[x->need] + hop[x->link];

		end[i] = (need > last ? need : last) + us[x->work];
	}
	return end;
}

/* By how much windows are later than those a cycle before; 0: they differ. */
static double
later_us(const struct sched_brief *b, const double *end, uint32_t cycle)
{
	double us = 0;
	uint32_t r, i;

	for (r = 0; r < b->nranks; r++) {
		const uint32_t *x = b->window[r];
		uint32_t to = b->nwindows * b->size[r];
		uint32_t shift = cycle * b->size[r];

		us = r ? us : end[x[to - 1]] - end[x[to - 1 - shift]];
		for (i = to - b->reach * b->size[r]; i < to; i++) {
			double d = end[x[i]] - end[x[i - shift]];

			if (fabs(d - us) > us * SAME) {
				return 0;
			}
		}
	}
	return us;
}

/* The shortest; 0: there is none. */
static uint32_t
find_cycle(const struct sched_brief *b, const double *end, double *us)
{
	uint32_t i;

	for (i = 1; i <= b->nranks && i + b->reach <= b->nwindows; i++) {
		*us = later_us(b, end, i);
		if (*us > 0) {
			return i;
		}
	}
	return 0;
}

/*
 * With `more` microbatches than it has.  The cycle that it has; 0: none, or
 * it stalls.  If `more` is cycles, *us is the makespan.
 */
static uint32_t
span(struct sched_briefs *all, struct arena *a, const struct sched_brief *b,
     const struct sched_cost *costs, uint32_t more, double *us)
{
	double *end, later = 0;
	uint32_t cycle = 1, r;

	if (!b || b->stalls) {
		return 0;
	}
	end = run(a, b, costs);
	all->steps += b->steps.n;
	if (more) {
		cycle = find_cycle(b, end, &later);
		later *= cycle ? more / b->period / cycle : 0;
	}
	*us = 0;
	for (r = 0; r < b->nranks; r++) {
		*us = fmax(*us, end[b->end[r]] + later);
	}
	return cycle;
}

bool
sched_makespan(struct sched_briefs *all, struct arena *a,
	       const struct sched_def *def, uint32_t nranks, uint32_t chunks,
	       uint32_t nmicrobatches, const struct sched_cost *costs,
	       double *us)
{
	uint32_t m = nmicrobatches, period = period_of(def, nranks, m);
	uint32_t size = 1, cycle = 1, n, was;

	for (;;) {
		n = brief_of(def, nranks, chunks, m, size * (2 + def->ends),
			     cycle);
		was = cycle;
		cycle = span(all, a, brief(all, a, def, nranks, chunks, n),
			     costs, m - n, us);
		if (n == m || (cycle && (m - n) / period % cycle == 0)) {
			return cycle != 0;
		}
		if (!cycle || cycle == was) {	/* not yet */
			cycle = 1;
			size *= 2;
		}
	}
}
