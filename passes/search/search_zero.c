/*
 * Tries one plan with each ZeRO and `sequence`, and with the optimizer's state
 * on the device or the host.  What saves memory but costs time is tried only
 * where memory is short.
 */
#include "passes/search/search_parts.h"

#include <math.h>

/* ---- bounds, before anything is placed ---- */

/*
 * Whether weights, gradients and optimizer state alone exceed the capacity of a
 * mean rank.
 */
static bool
is_too_large(const struct trial *x)
{
	const struct space_degrees *g = x->t->g;

	return !trial_is_asked(x) &&
	       bound_least_bytes(&x->s->bounds, g, x->key.zero,
				 x->key.offload) > g->capacity;
}

/* Whether hosts have too little memory, or drives, for all ranks together. */
static bool
is_too_large_for_hosts(const struct trial *x)
{
	return x->key.offload && !trial_is_asked(x) &&
	       bound_is_above_hosts(&x->s->bounds, x->t->g, x->key.zero,
				    x->key.offload);
}

/* ---- results of earlier walks ---- */

static uint32_t
way_of(const struct trial *x, int zero, uint32_t offload)
{
	return (uint32_t)zero | offload << 2 |
	       (uint32_t)x->key.sequence << 7;
}

static struct search_way *
find_way(const struct trial *x, uint32_t way)
{
	uint32_t at = x->ways ? *x->ways : 0;

	while (at && x->s->ways.at[at].way != way) {
		at = x->s->ways.at[at].next;
	}
	return at ? &x->s->ways.at[at] : NULL;
}

/* Notes a way's outcome, and the lower bound of its step, rounded down. */
static void
note_way(struct trial *x, uint32_t way, enum trial_outcome outcome, double us)
{
	struct search *s = x->s;
	struct search_way *old = find_way(x, way);
	struct search_way w = {
		.us = (float)(us * (1 - PIECE_NEAR)), .way = (uint8_t)way,
		.outcome = (uint8_t)outcome, .drives_help = x->drives_help
	};

	if (!x->ways || s->is_ahead) {
		return;
	}
	if (old) {
		w.next = old->next;
		*old = w;
		return;
	}
	if (!s->ways.n) {
		VEC_PUSH(&s->space.keep, &s->ways, w);
	}
	w.next = *x->ways;
	*x->ways = s->ways.n;
	VEC_PUSH(&s->space.keep, &s->ways, w);
}

static bool
is_way_above(const struct trial *x, uint32_t way)
{
	const struct search_way *w = find_way(x, way);

	return w && isfinite(x->s->worst_us) && w->us >= x->s->worst_us;
}

/* The outcome of such a way: if it fitted then, its bound excludes it now. */
static enum trial_outcome
cut_again(struct trial *x, uint32_t way)
{
	const struct search_way *w = find_way(x, way);

	x->drives_help = w->drives_help;
	if (w->outcome == OUTCOME_FULL) {
		x->s->out->full++;
	} else {
		x->s->out->cut++;
	}
	trial_least(x, w->us);
	return w->outcome == OUTCOME_TIGHT ? OUTCOME_CUT_TIGHT :
	       w->outcome == OUTCOME_FITS  ? OUTCOME_CUT :
					     (enum trial_outcome)w->outcome;
}

/* ---- one sharding ---- */

/*
 * Whether the plan is left open, since the search is over its limits: what is
 * placed already is still priced, unless the user interrupts.
 */
static bool
is_left_open(struct trial *x)
{
	struct search *s = x->s;

	if (s->guessing || s->aiming || !search_is_over(s) ||
	    (piece_is_placed(&s->pieces, &x->key) &&
	     !search_is_interrupted(s))) {
		return false;
	}
	s->out->open++;
	trial_least(x, 0);	/* the next walk meets it again */
	if (!bound_is_above(&s->bounds, &x->key, x->t, s->open_us)) {
		s->open_us = fmin(s->open_us,
				  bound_us(&s->bounds, &x->key, x->t));
	}
	return true;
}

static enum trial_outcome
try_zero(struct trial *x, int zero, uint32_t offload)
{
	x->key.zero = zero;
	x->key.offload = offload;
	if (is_too_large(x)) {
		x->s->out->full++;
		return OUTCOME_FULL;
	}
	if (bound_is_above(&x->s->bounds, &x->key, x->t, x->s->worst_us)) {
		trial_least(x, x->s->worst_us);
		x->s->out->above++;
		return OUTCOME_CUT;
	}
	if (is_too_large_for_hosts(x)) {
		x->drives_help = true;
		x->s->out->full++;
		return OUTCOME_FULL;
	}
	if (is_left_open(x)) {
		return OUTCOME_CUT;
	}
	x->looked = true;
	if (bound_placed_is_above(&x->s->bounds, &x->key, x->t,
				  x->s->worst_us)) {
		trial_least(x, x->s->worst_us);
		x->s->out->cut++;
		return OUTCOME_CUT;
	}
	return trial_sharding(x);
}

/* Tries a way, unless an earlier walk excludes it. */
static enum trial_outcome
with_zero(struct trial *x, int zero, uint32_t offload)
{
	uint32_t way = way_of(x, zero, offload);
	double least_us = x->least_us;
	enum trial_outcome outcome;

	x->looked = x->drives_help = false;
	if (is_way_above(x, way)) {
		return cut_again(x, way);
	}
	x->least_us = INFINITY;
	outcome = try_zero(x, zero, offload);
	if (x->looked) {	/* others are quick to bound again */
		note_way(x, way, outcome, x->least_us);
	}
	trial_least(x, least_us);
	return outcome;
}

/* ---- ZeRO, sequence, offload ---- */

static int
mildest(const struct trial *x)
{
	return x->s->space.pinned[SPACE_PIN_ZERO] ? x->s->space.base.zero : 0;
}

static int
strictest(const struct trial *x)
{
	const struct space_degrees *g = x->t->g;

	return x->s->space.pinned[SPACE_PIN_ZERO] ? x->s->space.base.zero
		: g->dp * g->cp * g->ep > 1 ? 3 : 0;
}

/* The sets of what may lie on hosts, each after all sets that it contains. */
#define NOFFLOADS 32

/* What became of a plan with each set on hosts and each ZeRO. */
struct tried {
	enum trial_outcome outcome[NOFFLOADS][4];
	bool drives_help[NOFFLOADS][4];	/* see struct trial */
};

/* Whether plans may keep that on hosts of the target. */
static bool
is_possible(const struct search *s, uint32_t offload)
{
	const struct target_device *d = &s->space.t->device;
	uint32_t nvme = offload & (PLAN_NVME_OPTIMIZER | PLAN_NVME_PARAMS);

	if ((offload & PLAN_OFFLOAD_PARAMS &&
	     (!s->space.streams || (s->guessing && s->out->found.n))) ||
	    (s->o->compiled && offload & ~(uint32_t)PLAN_OFFLOAD_OPTIMIZER)) {
		return false;
	}
	if (nvme & PLAN_NVME_OPTIMIZER && !(offload & PLAN_OFFLOAD_OPTIMIZER)) {
		return false;
	}
	if (nvme & PLAN_NVME_PARAMS && !(offload & PLAN_OFFLOAD_PARAMS)) {
		return false;
	}
	return !offload || (d->host_bytes_us > 0 &&
			    (!nvme || d->nvme_bytes_us > 0));
}

/*
 * Whether `offload` may be quicker than less of it, with which the plan was
 * tried before: what lies on a host only adds transfers, so not if the plan
 * fits with the quickest way to recompute.  What is on drives leaves a device
 * what the same in the host's memory leaves it, and takes no less time: so only
 * if the plan does not fit with that in any way, by the memory of hosts.
 */
static bool
is_worth(uint32_t offload, int zero, const struct tried *all)
{
	static const uint32_t nvme[] = { PLAN_NVME_OPTIMIZER,
					 PLAN_NVME_PARAMS };
	uint32_t less, i;

	for (less = 0; less < offload; less++) {
		if ((less & offload) == less &&
		    all->outcome[less][zero] < OUTCOME_CUT_TIGHT) {
			return false;
		}
	}
	for (i = 0; i < 2; i++) {
		less = offload & ~nvme[i];
		if (less != offload && (!all->drives_help[less][zero] ||
		    (all->outcome[less][zero] != OUTCOME_FULL &&
		     !(offload & PLAN_OFFLOAD_SAVES)))) {
			return false;
		}
	}
	return true;
}

/*
 * Tries each ZeRO with the same on hosts, and notes what became of it.  False:
 * nothing fits.
 */
static bool
with_states(struct trial *x, uint32_t offload, struct tried *all)
{
	int most = strictest(x), zero;
	bool fits = false;

	for (zero = mildest(x); zero <= most; zero++) {
		if (x->s->space.pinned[SPACE_PIN_OFFLOAD] ||
		    is_worth(offload, zero, all)) {
			all->outcome[offload][zero] =
				with_zero(x, zero, offload);
			all->drives_help[offload][zero] = x->drives_help;
			fits |= all->outcome[offload][zero] != OUTCOME_FULL;
		}
	}
	return fits;
}

/* Tries all ZeRO and offload.  False: nothing fits. */
static bool
with_all(struct trial *x)
{
	const struct search *s = x->s;
	struct tried all = { .outcome = { { 0 } } };
	uint32_t offload, zero;
	bool fits = false;

	for (offload = 0; offload < NOFFLOADS; offload++) {
		for (zero = 0; zero < 4; zero++) {
			all.outcome[offload][zero] = OUTCOME_FULL;
		}
	}
	if (s->space.pinned[SPACE_PIN_OFFLOAD]) {
		return with_states(x, s->space.base.offload, &all);
	}
	for (offload = 0; offload < NOFFLOADS; offload++) {
		if (is_possible(s, offload)) {
			fits |= with_states(x, offload, &all);
		}
	}
	return fits;
}

/* ---- plans ---- */

void
search_try_plan(struct search *s, struct space_plan *t,
		struct search_seen *seen)
{
	const struct space_degrees *g = t->g;
	struct trial x;
	bool fits;

	if (s->space.pinned[SPACE_PIN_STAGES] &&
	    s->space.base.nstages != (uint32_t)(g->pp * t->chunks)) {
		return;
	}
	x = trial_begin(s, t);
	x.ways = &seen->ways;
	fits = with_all(&x);
	if (g->tp > 1 && !s->space.pinned[SPACE_PIN_SEQUENCE]) {
		x.key.sequence = false;
		fits |= with_all(&x);
	}
	seen->us = x.least_us;
	seen->none = !fits;
}

bool
search_retry_plan(struct search *s, const struct plan *p, bool widens)
{
	struct space_plan t = {
		.microbatch = p->microbatch,
		.nmicrobatches = p->nmicrobatches, .chunks = p->interleave,
		.sched = sched_find(p->schedule)
	};
	struct trial x;
	uint32_t i;

	for (i = 0; i < s->space.degrees.n; i++) {
		if (space_has_degrees(p, &s->space.degrees.at[i])) {
			t.g = &s->space.degrees.at[i];
		}
	}
	x = trial_begin(s, &t);
	x.key.sequence = p->sequence;
	x.key.zero = p->zero;
	x.key.offload = p->offload;
	widens = widens && !piece_widen(&s->pieces, &x.key, &t, p);
	if (!widens) {
		with_zero(&x, p->zero, p->offload);
	}
	arena_release(&s->space.tmp);
	return !widens;
}
