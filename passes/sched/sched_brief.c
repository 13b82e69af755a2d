/*
 * How long a named schedule takes, computed again and again with other costs,
 * for the search. Two things make this fast: who waits for whom is found once,
 * and the middle is left out. Once a pipeline is full its order repeats, and
 * soon its times do too, each repetition later than the last by the same
 * amount.
 *
 * The list of a rank is a head, windows of one period each, and a tail. What an
 * action needs from other ranks lies at most `back` windows earlier or `ahead`
 * windows later, as each rank counts its own. Suppose that in the last back +
 * ahead + 1 windows of all ranks each action ends `us` after the same action
 * `cycle` windows earlier. Then `cycle` more windows only end the tail `us`
 * later: an action finds all that it waits for either before the end of these
 * windows, at unchanged times, or after their start, at times `us` later.
 *
 * The first gradients of weights of a stage may take another time. They come
 * before all windows or in the first of them, which is never among the last
 * ones nor repeated: a cycle leaves out at least one before.
 *
 * A cycle is one window if the slowest rank sets the pace. If hops do, it is as
 * many as there are microbatches on their way to the end and back.
 */
#include "ir/memo.h"
#include "passes/sched/sched.h"

#include <math.h>
#include <string.h>

/* The relative difference in time up to which windows count as equal. */
#define SAME 1e-12

/*
 * It ends when the previous step of its rank has ended, the value it needs has
 * arrived, and its own work is done. Step 0 is a sentinel that ends at time 0
 * and is no rank's.
 */
struct step {
	uint32_t last, need;
	uint32_t link; /* the stage whose hop `need` crosses, or nstages */
	/* stage * SCHED_NKINDS + kind; past all of these, the stage whose first
	 * gradients of weights it gives; past those, no work */
	uint32_t work;
};

struct sched_brief {
	const struct sched_def *def;
	uint32_t nranks, nstages, nmicrobatches;
	uint32_t period;	/* microbatches in a window; 0: no windows */
	VEC(struct step) steps;	/* sorted: what a step waits for comes first */
	uint32_t *end;		/* by rank: its last step */
	uint32_t nwindows, reach; /* windows of every rank; back + ahead + 1 */
	uint32_t *size;		/* by rank: actions of a window */
	uint32_t **window;	/* by rank: the steps of its windows */
	bool stalls;
};

/* ---- how many microbatches ---- */

static uint32_t
period_of(const struct sched_def *def, uint32_t nranks, uint32_t m)
{
	switch (def->repeats) {
	case SCHED_EACH:
		return 1;
	/* 0: all groups are larger than nranks */
	case SCHED_GROUP:
		return m / nranks > m % nranks ? nranks : 0;
	default:
		return 0;
	}
}

/*
 * How many microbatches to run in place of m, fewer by a multiple of `cycle`
 * periods.
 */
static uint32_t
brief_of(const struct sched_def *def, uint32_t nranks, uint32_t chunks,
	 uint32_t m, uint32_t turns, uint32_t cycle)
{
	uint32_t period = period_of(def, nranks, m), rest, n;

	if (!period || nranks == 1) {
		return m;
	}
	rest = m % period;
	/* the first `rest` groups have one microbatch more */
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

const struct sched *
sched_holding(struct arena *a, const struct sched *s)
{
	uint32_t n, chunks = s->nstages / s->nranks, times;
	const char *why;

	if (!s->def) {
		return s;
	}
	n = sched_held_of(s->def, s->nranks, chunks, s->nmicrobatches,
			  &times);
	return times || n == s->nmicrobatches ? s
		: sched_make(a, s->def->name, s->nranks, chunks, n, &why);
}

/* ---- who waits for whom ---- */

/* At most the parts of two stages. */
#define MOST_WANTS (2 * SCHED_NPARTS)

/*
 * One kind of action of one stage: the values of other ranks that it waits for,
 * and those it makes that other ranks wait for. `wants` and `gives` are indices
 * into struct maker's doer, for microbatch 0.
 */
struct role {
	uint32_t nwants, ngives;
	uint32_t wants[MOST_WANTS];
	uint32_t of[MOST_WANTS];	/* the stage that makes it */
	uint32_t gives[SCHED_NPARTS];
};

/* Only while it is made. */
struct maker {
	struct arena *arena;
	const struct sched *s;
	struct sched_brief *b;
	uint32_t *at;		/* by rank: how many actions have their steps */
	uint32_t *doer; /* by awaited value: the step that makes it, or 0 */
	uint32_t **step;	/* by rank and index in its list: the step */
	struct role *roles;	/* by stage and kind */
	bool *begun;		/* by stage: it has given such gradients */
};

/*
 * Fills in `wants`. Values from the same rank are left out: in a named schedule
 * they always come earlier in the rank's own list.
 */
static void
find_wants(struct maker *k, uint32_t *place, uint32_t *nplaces)
{
	const struct sched *s = k->s;
	struct sched_need need[SCHED_MAX_NEEDS];
	uint32_t n = s->nstages * SCHED_NKINDS, i, j;

	for (i = 0; i < n; i++) {
		struct sched_action act = {
			.kind = (uint8_t)(i % SCHED_NKINDS),
			.stage = i / SCHED_NKINDS
		};
		uint32_t nneeds = sched_needs(s, &act, need);
		struct role *x = &k->roles[i];

		for (j = 0; j < nneeds; j++) {
			uint32_t of = need[j].stage;
			uint32_t *at = &place[of * SCHED_NPARTS +
					      need[j].part];

			if (s->rank_of[of] == s->rank_of[act.stage]) {
				continue;
			}
			*at = *at ? *at : ++*nplaces;
			x->wants[x->nwants] = (*at - 1) * s->nmicrobatches;
			x->of[x->nwants++] = of;
		}
	}
}

static void
find_roles(struct maker *k)
{
	const struct sched *s = k->s;
	uint32_t n = s->nstages * SCHED_NKINDS, nplaces = 0, i, part, *place;

	k->roles = arena_alloc(k->arena, n * sizeof *k->roles);
	place = arena_alloc(k->arena, s->nstages * SCHED_NPARTS *
			    sizeof *place);
	find_wants(k, place, &nplaces);
	for (i = 0; i < n; i++) {
		struct role *x = &k->roles[i];

		for (part = 0; part < SCHED_NPARTS; part++) {
			uint32_t at = place[i / SCHED_NKINDS * SCHED_NPARTS +
					    part];

			if (at && sched_kinds[i % SCHED_NKINDS].does >> part &
			    1) {
				x->gives[x->ngives++] = (at - 1) *
							s->nmicrobatches;
			}
		}
	}
	k->doer = arena_alloc(k->arena, (size_t)nplaces * s->nmicrobatches *
			      sizeof *k->doer);
}

static const struct role *
role_of(const struct maker *k, const struct sched_action *act)
{
	return &k->roles[act->stage * SCHED_NKINDS + act->kind];
}

static bool
can_go(const uint32_t *doer, const struct role *x)
{
	uint32_t i;

	for (i = 0; i < x->nwants; i++) {
		if (!doer[x->wants[i]]) {
			return false;
		}
	}
	return true;
}

/* Works of all kinds of action, and of first ones; and that of no work. */
static uint32_t
no_work(const struct sched_brief *b)
{
	return b->nstages * (SCHED_NKINDS + 1);
}

static uint32_t
work_of(struct maker *k, const struct sched_action *act)
{
	bool *begun = &k->begun[act->stage];

	if (*begun || !(sched_kinds[act->kind].does & SCHED_WEIGHTS)) {
		return act->stage * SCHED_NKINDS + act->kind;
	}
	*begun = true;
	return k->b->nstages * SCHED_NKINDS + act->stage;
}

/*
 * Appends the steps of an action, after `last` of its rank. Each value that it
 * waits for has a step; only the last of them does the work. `doer` is that of
 * its microbatch.
 */
static uint32_t
add_steps(struct maker *k, uint32_t last, const uint32_t *doer,
	  const struct sched_action *act, const struct role *role)
{
	struct sched_brief *b = k->b;
	struct step x = { last, last, b->nstages, no_work(b) };
	uint32_t i;

	for (i = 0; i < role->nwants; i++) {
		uint32_t of = role->of[i];

		if (i > 0) {
			b->steps.at[b->steps.n] = x;
			x.last = b->steps.n++;
		}
		x.need = doer[role->wants[i]];
		x.link = of < act->stage ? of : act->stage;
	}
	x.work = work_of(k, act);
	b->steps.at[b->steps.n] = x;
	return b->steps.n++;
}

static bool
advance(struct maker *k, uint32_t rank)
{
	const struct sched_list *l = &k->s->ranks[rank];
	uint32_t from = k->at[rank], last = k->b->end[rank], at, i;

	for (at = from; at < l->actions.n; at++) {
		const struct sched_action *act = &l->actions.at[at];
		const struct role *x = role_of(k, act);
		uint32_t *doer = &k->doer[act->microbatch];

		if (!can_go(doer, x)) {
			break;
		}
		last = add_steps(k, last, doer, act, x);
		k->step[rank][at] = last;
		for (i = 0; i < x->ngives; i++) {
			doer[x->gives[i]] = last;
		}
	}
	k->at[rank] = at;
	k->b->end[rank] = last;
	return at > from;
}

/* Down the ranks, as forwards go, then up, until all stop. */
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
	uint32_t *from;		/* by rank: where the first window begins */
	uint32_t *size;		/* by rank: actions in a window */
	uint32_t n;		/* how many every rank has */
	uint32_t back, ahead;
};

static bool
repeats(const struct sched_action *x, const struct sched_action *later,
	uint32_t period)
{
	return x->kind == later->kind && x->stage == later->stage &&
	       x->microbatch + period == later->microbatch;
}

/*
 * The length of the longest part of the list that repeats with windows of that
 * size.
 */
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

/* The index of the action with that step; steps ascend along the list. */
static uint32_t
place_of(const struct maker *k, uint32_t rank, uint32_t step)
{
	uint32_t lo = 0, hi = k->s->ranks[rank].actions.n;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (k->step[rank][mid] <= step) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return lo;
}

/*
 * Widens `back` and `ahead` to reach what an action of the middle window needs.
 */
static void
reach_of(const struct maker *k, struct windows *w,
	 const struct sched_action *act)
{
	const struct role *x = role_of(k, act);
	uint32_t middle = w->n / 2, i;

	for (i = 0; i < x->nwants; i++) {
		uint32_t r = k->s->rank_of[x->of[i]];
		uint32_t step = k->doer[x->wants[i] + act->microbatch];
		double at = floor(((double)place_of(k, r, step) - w->from[r]) /
				  w->size[r]) - middle;

		w->back = fmax(w->back, -at);
		w->ahead = fmax(w->ahead, at);
	}
}

static void
find_reach(struct maker *k, struct windows *w)
{
	uint32_t r, i;

	for (r = 0; r < k->s->nranks; r++) {
		const struct sched_action *first = k->s->ranks[r].actions.at +
			w->from[r] + w->n / 2 * w->size[r];

		for (i = 0; i < w->size[r]; i++) {
			reach_of(k, w, &first[i]);
		}
	}
}

static void
keep_windows(struct arena *a, const struct maker *k, const struct windows *w)
{
	uint32_t r, n = k->b->nranks;

	k->b->nwindows = w->n;
	k->b->reach = w->back + w->ahead + 1;
	if (w->n) {
		k->b->size = arena_dup(a, w->size, n * sizeof *w->size);
		k->b->window = k->step;
	}
	for (r = 0; w->n && r < n; r++) {
		k->b->window[r] += w->from[r];
	}
}

/* Allocates all steps in `a`, the arena in which the brief stays. */
static void
open_steps(struct arena *a, struct maker *k)
{
	const struct sched *s = k->s;
	struct sched_brief *b = k->b;
	uint32_t n = 0, most = 1, i;

	for (i = 0; i < s->nranks; i++) {
		n += s->ranks[i].actions.n;
	}
	for (i = 0; i < s->nstages * SCHED_NKINDS; i++) {
		most = k->roles[i].nwants > most ? k->roles[i].nwants : most;
	}
	b->steps.cap = 1 + n * most;
	b->steps.at = arena_alloc_raw(a, b->steps.cap * sizeof *b->steps.at);
	b->steps.at[b->steps.n++] = (struct step){ 0 };
	b->end = arena_alloc(a, s->nranks * sizeof *b->end);
	k->step = arena_alloc(a, s->nranks * sizeof *k->step);
	for (i = 0; i < s->nranks; i++) {
		k->step[i] = arena_alloc_raw(a, s->ranks[i].actions.n *
					sizeof **k->step);
	}
}

static struct sched_brief *
make(struct arena *a, const struct sched_def *def, const struct sched *s)
{
	struct sched_brief *b = arena_alloc(a, sizeof *b);
	struct arena tmp;
	struct maker k = { .arena = &tmp, .s = s, .b = b };
	struct windows w = { 0 };

	b->def = def;
	b->nranks = s->nranks;
	b->nstages = s->nstages;
	b->nmicrobatches = s->nmicrobatches;
	b->period = period_of(def, s->nranks, s->nmicrobatches);
	arena_init(&tmp, a->mem);
	k.at = arena_alloc(&tmp, s->nranks * sizeof *k.at);
	k.begun = arena_alloc(&tmp, s->nstages * sizeof *k.begun);
	find_roles(&k);
	open_steps(a, &k);
	make_steps(&k);
	if (b->period && !b->stalls) {
		find_windows(&k, &w);
	}
	if (w.n) {
		find_reach(&k, &w);
	}
	keep_windows(a, &k, &w);
	arena_release(&tmp);
	return b;
}

/* ---- briefs in the memo ---- */

/* Kept in the memo, or in tmp if the memo is full. NULL: no such schedule. */
static struct sched_brief *
brief(struct memo *memo, struct arena *tmp, const struct sched_def *def,
      uint32_t nranks, uint32_t chunks, uint32_t m)
{
	struct hash key = { 10, (uint64_t)(def - sched_defs) };
	struct sched_brief *b;
	struct arena *a, order;
	const char *why;
	struct sched *s;

	hash_add(&key, (uint64_t)nranks << 32 | chunks);
	hash_add(&key, m);
	b = memo_find(memo, MEMO_BRIEFS, key);
	if (b) {
		return b;
	}
	a = memo_arena(memo, MEMO_BRIEFS);
	arena_init(&order, tmp->mem);
	s = sched_make(&order, def->name, nranks, chunks, m, &why);
	b = s ? make(a ? a : tmp, def, s) : NULL;
	arena_release(&order);
	if (a && b) {
		memo_keep(memo, MEMO_BRIEFS, key, b);
	}
	return b;
}

/* ---- running ---- */

static double *
run(struct arena *a, const struct sched_brief *b,
    const struct sched_cost *costs)
{
	uint32_t n = b->nstages, first = b->def->split ? SCHED_W : SCHED_B;
	double *end = arena_alloc_raw(a, b->steps.n * sizeof *end);
	double *us = arena_alloc_raw(a, (no_work(b) + 1) * sizeof *us);
	double *hop = arena_alloc_raw(a, (n + 1) * sizeof *hop);
	uint32_t i, k;

	for (i = 0; i < n; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			us[i * SCHED_NKINDS + k] = costs[i].us[k];
		}
		us[n * SCHED_NKINDS + i] = costs[i].us[first] -
					   costs[i].less_us;
		hop[i] = costs[i].hop_us;
	}
	hop[n] = us[no_work(b)] = 0;
	end[0] = 0;
	for (i = 1; i < b->steps.n; i++) {
		const struct step *x = &b->steps.at[i];
		double last = end[x->last], need = end[x->need] + hop[x->link];

		end[i] = (need > last ? need : last) + us[x->work];
	}
	return end;
}

/*
 * How much later the last windows are than those a cycle before; 0: it differs.
 */
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

/* The shortest cycle; 0: there is none. */
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
 * Sets *us to the makespan with `more` microbatches than the brief has, which
 * is exact if they are whole cycles. Returns the cycle; 0: none was found, or
 * it stalls.
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

/* False: it stalls, or there is no such schedule. */
static bool
find_makespan(struct sched_briefs *all, struct arena *a,
	      const struct sched_def *def, uint32_t nranks, uint32_t chunks,
	      uint32_t m, const struct sched_cost *costs, double *us)
{
	uint32_t period = period_of(def, nranks, m);
	uint32_t size = 1, cycle = 1, n, was;
	const struct sched_brief *b;

	for (;;) {
		n = brief_of(def, nranks, chunks, m, size * (2 + def->ends),
			     cycle);
		was = cycle;
		b = brief(all->memo, a, def, nranks, chunks, n);
		cycle = span(all, a, b, costs, m - n, us);
		if (n == m || (cycle && (m - n) / period % cycle == 0)) {
			return cycle != 0;
		}
		if (!cycle || cycle == was) {	/* too short */
			cycle = 1;
			size *= 2;
		}
	}
}

/* ---- makespans in the memo ---- */

static struct hash
hash_all(const struct sched_def *def, uint32_t nranks, uint32_t chunks,
	 uint32_t m, const struct sched_cost *costs)
{
	struct hash hash = { 5, 6 };
	uint32_t i, k;

	hash_add(&hash, (uint64_t)(def - sched_defs));
	hash_add(&hash, (uint64_t)nranks << 32 | chunks);
	hash_add(&hash, m);
	for (i = 0; i < nranks * chunks; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			hash_add(&hash, num_bits(costs[i].us[k]));
		}
		hash_add(&hash, num_bits(costs[i].hop_us));
		hash_add(&hash, num_bits(costs[i].less_us));
	}
	return hash;
}

/*
 * The memo pays: plans that differ only in what they hold and update take the
 * same time, and the search looks at some plans more than once.
 */
bool
sched_makespan(struct sched_briefs *all, struct arena *a,
	       const struct sched_def *def, uint32_t nranks, uint32_t chunks,
	       uint32_t nmicrobatches, const struct sched_cost *costs,
	       double *us)
{
	struct hash key = hash_all(def, nranks, chunks, nmicrobatches, costs);
	const double *known = memo_find(all->memo, MEMO_SPANS, key);
	struct arena *kept;

	if (known) {
		*us = *known;
		return true;
	}
	if (!find_makespan(all, a, def, nranks, chunks, nmicrobatches, costs,
			   us)) {
		return false;
	}
	kept = memo_arena(all->memo, MEMO_SPANS);
	if (kept) {
		memo_keep(all->memo, MEMO_SPANS, key,
			  arena_dup(kept, us, sizeof *us));
	}
	return true;
}
