/*
 * Whether a schedule can run. A fast check runs all ranks in order, each
 * waiting for what it needs as on the machine; each part of the work must be
 * done once, on the rank of its stage. If that fails, an audit goes stage by
 * stage and says where the schedule is wrong.
 *
 * If the audit finds nothing, everything waited for is in the list of some
 * rank. A stalled schedule then always has a circle of waiting ranks, perhaps
 * of one rank that waits for its own later work.
 */
#include "passes/sched/sched.h"

#include <string.h>

#define MAX_REMARKS 1000
#define MAX_CIRCLE 12	/* ranks of a circle that a message names */
#define NOWHERE UINT32_MAX

struct audit {
	struct arena *arena;
	const struct sched *s;
	struct sched_verdict *v;	/* where remarks go */
	/* Actions by stage: first those on its own rank, then the others */
	struct sched_place *places;
	/* first index in places, by stage * 2 + (other rank) */
	uint32_t *start;
	/* For the current stage: who did it, by microbatch and part */
	struct sched_place *first;
	bool reported_dialect, reported_highest;
};

static const struct sched_action *
action_at(const struct sched *s, struct sched_place p)
{
	return &s->ranks[p.rank].actions.at[p.at];
}

static const char *
name_at(const struct audit *c, struct sched_place p)
{
	return sched_name(c->arena, action_at(c->s, p));
}

static void
remark(struct audit *c, enum sched_fault fault, struct sched_place at,
       const char *text)
{
	const struct sched_list *list = &c->s->ranks[at.rank];
	struct sched_remark m = { .fault = fault, .rank = at.rank,
				  .at = at.at };

	if (c->v->remarks.n >= MAX_REMARKS) {
		return;
	}
	if (list->actions.n) {
		m.span = list->actions.at[at.at < list->actions.n ? at.at
					  : list->actions.n - 1].span;
	}
	m.text = text;
	if (fault != SCHED_NOTE && at.at < list->actions.n) {
		m.text = arena_printf(c->arena, "rank %u, action %u: %s",
				      at.rank, at.at + 1, text);
	} else if (fault != SCHED_NOTE) {
		m.text = arena_printf(c->arena, "rank %u: %s", at.rank, text);
	}
	VEC_PUSH(c->arena, &c->v->remarks, m);
}

/* ---- the audit ---- */

static void
sort_by_stage(struct audit *c)
{
	const struct sched *s = c->s;
	size_t nbuckets = (size_t)s->nstages * 2, b;
	uint32_t *next = arena_alloc(c->arena, (nbuckets + 1) * sizeof *next);
	struct sched_place p;

	for (p.rank = 0; p.rank < s->nranks; p.rank++) {
		for (p.at = 0; p.at < s->ranks[p.rank].actions.n; p.at++) {
			uint32_t stage = action_at(s, p)->stage;

			next[stage * 2 + (s->rank_of[stage] != p.rank) + 1]++;
		}
	}
	for (b = 0; b < nbuckets; b++) {
		next[b + 1] += next[b];
	}
	c->start = arena_dup(c->arena, next, (nbuckets + 1) * sizeof *next);
	c->places = arena_alloc(c->arena, next[nbuckets] * sizeof *c->places);
	for (p.rank = 0; p.rank < s->nranks; p.rank++) {
		for (p.at = 0; p.at < s->ranks[p.rank].actions.n; p.at++) {
			uint32_t stage = action_at(s, p)->stage;

			b = stage * 2 + (s->rank_of[stage] != p.rank);
			c->places[next[b]++] = p;
		}
	}
}

/* Whether a does all that b does, and more. */
static bool
wider(const struct sched_action *a, const struct sched_action *b)
{
	uint8_t x = sched_kinds[a->kind].does, y = sched_kinds[b->kind].does;

	return x != y && (x & y) == y;
}

static void
say_twice(struct audit *c, struct sched_place p, struct sched_place before)
{
	const struct sched_action *a = action_at(c->s, p);
	const struct sched_action *b = action_at(c->s, before);

	remark(c, SCHED_TWICE, p, a->kind == b->kind ?
	       arena_printf(c->arena, "%s is there twice: it is action %u of "
			    "rank %u too", name_at(c, p), before.at + 1,
			    before.rank) :
	       arena_printf(c->arena, "%s does again what %s did, action %u "
			    "of rank %u", name_at(c, p), name_at(c, before),
			    before.at + 1, before.rank));
	if (!c->reported_dialect && (wider(a, b) || wider(b, a))) {
		c->reported_dialect = true;
		p = wider(a, b) ? p : before;
		remark(c, SCHED_NOTE, p, arena_printf(c->arena, "%s is %s, "
			"though files of older PyTorch write B for I and BW "
			"for B", name_at(c, p),
			sched_kinds[action_at(c->s, p)->kind].what));
	}
}

/* Records who did each part; reports the first part that was already done. */
static void
enter(struct audit *c, struct sched_place p, bool own)
{
	const struct sched_action *a = action_at(c->s, p);
	struct sched_place *first = c->first +
		(size_t)a->microbatch * SCHED_NPARTS;
	bool reported = !own;
	uint32_t part;

	for (part = 0; part < SCHED_NPARTS; part++) {
		if (!(sched_kinds[a->kind].does >> part & 1)) {
			continue;
		}
		if (first[part].rank == NOWHERE) {
			first[part] = p;
		} else if (!reported) {
			say_twice(c, p, first[part]);
			reported = true;
		}
	}
}

/* "the forward (F) and the gradient of the input (I)" */
static const char *
parts_text(struct arena *a, uint32_t parts)
{
	struct buf b;
	uint32_t k;

	buf_init(&b, a);
	for (k = 0; k < SCHED_NKINDS; k++) {
		if (parts && (sched_kinds[k].does & ~parts) == 0) {
			buf_printf(&b, "%s%s (%s)", b.n ? " and " : "",
				   sched_kinds[k].what, sched_kinds[k].letter);
			parts &= ~(uint32_t)sched_kinds[k].does;
		}
	}
	return buf_text(&b);
}

/*
 * A mistyped number looks like a lot of missing work, so this points at an
 * action that alone makes the schedule that large.
 */
static void
say_highest(struct audit *c)
{
	const struct sched *s = c->s;
	struct sched_place p, of_stage = { 0, 0 }, of_microbatch = { 0, 0 };
	uint32_t stages = 0, microbatches = 0;

	if (c->reported_highest) {
		return;
	}
	c->reported_highest = true;
	for (p.rank = 0; p.rank < s->nranks; p.rank++) {
		for (p.at = 0; p.at < s->ranks[p.rank].actions.n; p.at++) {
			const struct sched_action *a = action_at(s, p);

			if (a->stage + 1 == s->nstages && stages++ == 0) {
				of_stage = p;
			}
			if (a->microbatch + 1 == s->nmicrobatches &&
			    microbatches++ == 0) {
				of_microbatch = p;
			}
		}
	}
	if (stages == 1) {
		remark(c, SCHED_NOTE, of_stage, arena_printf(c->arena,
			"only %s makes it %u stages", name_at(c, of_stage),
			s->nstages));
	}
	if (microbatches == 1) {
		remark(c, SCHED_NOTE, of_microbatch, arena_printf(c->arena,
			"only %s makes it %u microbatches",
			name_at(c, of_microbatch), s->nmicrobatches));
	}
}

/* Makes one remark for all microbatches that lack the same parts. */
static void
say_missing(struct audit *c, uint32_t stage)
{
	const struct sched *s = c->s;
	struct sched_place end = { s->rank_of[stage], 0 };
	uint32_t lowest[SCHED_ALL + 1], n[SCHED_ALL + 1] = { 0 }, m, part;

	end.at = s->ranks[end.rank].actions.n;
	if (c->start[stage * 2] == c->start[stage * 2 + 2]) {
		remark(c, SCHED_MISSING, end, arena_printf(c->arena, "nobody "
			"runs stage %u of %u", stage, s->nstages));
		say_highest(c);
		return;
	}
	for (m = 0; m < s->nmicrobatches; m++) {
		uint32_t parts = 0;

		for (part = 0; part < SCHED_NPARTS; part++) {
			if (c->first[(size_t)m * SCHED_NPARTS + part].rank ==
			    NOWHERE) {
				parts |= 1u << part;
			}
		}
		if (n[parts]++ == 0) {
			lowest[parts] = m;
		}
	}
	for (part = 1; part <= SCHED_ALL; part++) {
		if (n[part] == 0) {
			continue;
		}
		remark(c, SCHED_MISSING, end, arena_printf(c->arena, n[part] ==
			1 ? "stage %u never does %s of microbatch %u" :
			"stage %u never does %s of microbatch %u, nor of %u "
			"more", stage, parts_text(c->arena, part),
			lowest[part], n[part] - 1));
		say_highest(c);
	}
}

/* Fills in `first` for one stage. */
static void
enter_stage(struct audit *c, uint32_t stage)
{
	const uint32_t *start = c->start + (size_t)stage * 2;
	uint32_t i;

	if (start[0] == start[2]) {
		return;
	}
	memset(c->first, 0xff, (size_t)c->s->nmicrobatches * SCHED_NPARTS *
	       sizeof *c->first);
	for (i = start[0]; i < start[1]; i++) {
		enter(c, c->places[i], true);
	}
	for (; i < start[2]; i++) {
		remark(c, SCHED_WRONG_RANK, c->places[i], arena_printf(
			c->arena, "%s is out of place: rank %u holds stage %u",
			name_at(c, c->places[i]), c->s->rank_of[stage],
			stage));
		enter(c, c->places[i], false);
	}
}

/* Misplaced actions explain missing ones, so they are reported first. */
static void
audit(struct audit *c)
{
	const struct sched *s = c->s;
	struct sched_verdict *v = c->v, missing = { .peak = NULL };
	uint32_t i;

	for (i = 0; i < s->nranks; i++) {
		if (s->ranks[i].actions.n == 0) {
			struct sched_place p = { i, 0 };

			remark(c, SCHED_MISSING, p, "nothing to run");
		}
	}
	sort_by_stage(c);
	c->first = arena_alloc(c->arena, (size_t)s->nmicrobatches *
			       SCHED_NPARTS * sizeof *c->first);
	for (i = 0; i < s->nstages; i++) {
		c->v = v;
		enter_stage(c, i);
		c->v = &missing;
		say_missing(c, i);
	}
	c->v = v;
	for (i = 0; i < missing.remarks.n; i++) {
		VEC_PUSH(c->arena, &v->remarks, missing.remarks.at[i]);
	}
}

/* ---- stalls ---- */

/*
 * What the rank's next action waits for. Needs on its own stage come first,
 * since no other rank can meet those. False if the rank is at its end.
 */
static bool
waits_for(const struct sched *s, const struct sched_timeline *t,
	  uint32_t rank, struct sched_place *out)
{
	struct sched_place here = { rank, t->done[rank] }, p;
	struct sched_need need[SCHED_MAX_NEEDS];
	uint32_t n, i;

	if (here.at == s->ranks[rank].actions.n) {
		return false;
	}
	out->rank = NOWHERE;
	n = sched_needs(s, action_at(s, here), need);
	for (i = 0; i < n && out->rank == NOWHERE; i++) {
		p = sched_doer(s, t, need[i], action_at(s, here)->microbatch);
		if (p.at >= t->done[p.rank]) {
			*out = p;
		}
	}
	return true;
}

static double
stuck_since(const struct sched_timeline *t, uint32_t rank)
{
	return t->end_us[rank];
}

/*
 * The rank that got stuck first; with `alone`, among those that wait for their
 * own later work.
 */
static uint32_t
first_stuck(const struct sched *s, const struct sched_timeline *t, bool alone)
{
	uint32_t best = NOWHERE, r;
	struct sched_place p;

	for (r = 0; r < s->nranks; r++) {
		if (waits_for(s, t, r, &p) && (!alone || p.rank == r) &&
		    (best == NOWHERE ||
		     stuck_since(t, r) < stuck_since(t, best))) {
			best = r;
		}
	}
	return best;
}

/*
 * The rank that got stuck first on the circle to which the waits of `r` lead.
 */
static uint32_t
first_in_circle(struct arena *a, const struct sched *s,
		const struct sched_timeline *t, uint32_t r)
{
	bool *seen = arena_alloc(a, s->nranks * sizeof *seen);
	struct sched_place p;
	uint32_t best, end;

	while (!seen[r]) {
		seen[r] = true;
		waits_for(s, t, r, &p);
		r = p.rank;
	}
	best = end = r;
	do {
		waits_for(s, t, r, &p);
		r = p.rank;
		if (stuck_since(t, r) < stuck_since(t, best) ||
		    (stuck_since(t, r) <= stuck_since(t, best) && r < best)) {
			best = r;
		}
	} while (r != end);
	return best;
}

/* "; ranks 0, 1 and 2 wait for each other" */
static const char *
circle_text(const struct audit *c, const struct sched_timeline *t,
	    uint32_t rank)
{
	struct sched_place p;
	uint32_t r = rank, shown = 0;
	struct buf b;

	buf_init(&b, c->arena);
	buf_printf(&b, "; ranks %u", rank);
	for (;;) {
		waits_for(c->s, t, r, &p);
		r = p.rank;
		if (r == rank || shown++ == MAX_CIRCLE) {
			break;
		}
		waits_for(c->s, t, r, &p);
		buf_printf(&b, "%s%u", p.rank == rank ? " and " : ", ", r);
	}
	buf_puts(&b, r == rank ? " wait for each other"
			       : " and more wait for each other");
	return buf_text(&b);
}

static void
say_stall(struct audit *c, struct sched_timeline *t)
{
	uint32_t rank, r, shown = 0;
	struct sched_place here, p;

	sched_find_doers(c->arena, c->s, t);
	rank = first_stuck(c->s, t, true);
	if (rank == NOWHERE) {
		rank = first_in_circle(c->arena, c->s, t,
				       first_stuck(c->s, t, false));
	}
	here.rank = rank;
	here.at = t->done[rank];
	waits_for(c->s, t, rank, &p);
	if (p.rank == rank) {
		remark(c, SCHED_STALL, here, arena_printf(c->arena,
			"%s can never run: it waits for %s, action %u of the "
			"same rank", name_at(c, here), name_at(c, p),
			p.at + 1));
		remark(c, SCHED_NOTE, p, arena_printf(c->arena,
			"%s comes only here", name_at(c, p)));
		return;
	}
	remark(c, SCHED_STALL, here, arena_printf(c->arena, "%s can never "
		"run: it waits for %s, action %u of rank %u%s",
		name_at(c, here), name_at(c, p), p.at + 1, p.rank,
		circle_text(c, t, rank)));
	while (p.rank != rank && shown++ < MAX_CIRCLE) {
		r = p.rank;
		here.rank = r;
		here.at = t->done[r];
		waits_for(c->s, t, r, &p);
		remark(c, SCHED_NOTE, here, arena_printf(c->arena, "rank %u "
			"stands at %s, action %u, which waits for %s, action "
			"%u of rank %u", r, name_at(c, here), here.at + 1,
			name_at(c, p), p.at + 1, p.rank));
	}
}

/* ---- the fast check ---- */

/*
 * All ranks running their lists. A microbatch is live from its forward until
 * all is done.
 */
struct course {
	const struct sched *s;
	uint32_t *at;		/* by rank */
	uint32_t *live, *stage_live;	/* by rank, by stage */
	uint8_t *done;		/* by stage and microbatch */
	uint64_t left;		/* still incomplete */
};

static void
count(struct course *c, uint32_t rank, uint32_t stage, uint8_t does,
      uint8_t done, struct sched_verdict *v)
{
	uint32_t *live = &c->live[rank], *of_stage = &c->stage_live[stage];

	if (does & SCHED_FORWARD) {
		++*live;
		++*of_stage;
		if (*live > v->peak[rank]) {
			v->peak[rank] = *live;
		}
		if (*of_stage > v->stage_peak[stage]) {
			v->stage_peak[stage] = *of_stage;
		}
	}
	if (done == SCHED_ALL) {
		--*live;
		--*of_stage;
		c->left--;
	}
}

/*
 * Runs a rank as far as it gets. False: an action is on the wrong rank, or was
 * done before.
 */
static bool
run_rank(struct course *c, uint32_t rank, struct sched_verdict *v)
{
	const struct sched *s = c->s;
	const struct sched_list *l = &s->ranks[rank];
	size_t n = s->nmicrobatches;
	uint32_t at = c->at[rank];

	for (; at < l->actions.n; at++) {
		const struct sched_action *x = &l->actions.at[at];
		const struct sched_kind_info *k = &sched_kinds[x->kind];
		uint8_t *d = &c->done[x->stage * n + x->microbatch];

		if (s->rank_of[x->stage] != rank || *d & k->does) {
			return false;
		}
		if (k->here & ~*d || (x->stage > 0 && k->before & ~*(d - n)) ||
		    (x->stage + 1 < s->nstages && k->after & ~*(d + n))) {
			break;
		}
		*d |= k->does;
		count(c, rank, x->stage, k->does, *d, v);
	}
	c->at[rank] = at;
	return true;
}

/* Whether all work is done once, and on the right rank. */
static bool
is_sound(struct arena *a, const struct sched *s, struct sched_verdict *v)
{
	struct course c = {
		.s = s, .at = arena_alloc(a, s->nranks * sizeof *c.at),
		.live = arena_alloc(a, s->nranks * sizeof *c.live),
		.stage_live = arena_alloc(a, s->nstages *
					  sizeof *c.stage_live),
		.left = (uint64_t)s->nstages * s->nmicrobatches
	};
	bool moves = true, ends = true;
	uint32_t r, was;

	c.done = arena_alloc(a, (size_t)c.left);
	v->peak = arena_alloc(a, s->nranks * sizeof *v->peak);
	v->stage_peak = arena_alloc(a, s->nstages * sizeof *v->stage_peak);
	while (moves) {
		moves = false;
		for (r = 0; r < s->nranks; r++) {
			was = c.at[r];
			if (!run_rank(&c, r, v)) {
				return false;
			}
			moves |= c.at[r] > was;
		}
	}
	for (r = 0; r < s->nranks; r++) {
		ends &= c.at[r] > 0 && c.at[r] == s->ranks[r].actions.n;
	}
	return ends && c.left == 0;
}

bool
sched_check(struct arena *a, const struct sched *s, struct sched_verdict *v)
{
	struct audit c = { .arena = a, .s = s, .v = v };
	struct sched_timeline t;

	memset(v, 0, sizeof *v);
	if (is_sound(a, s, v)) {
		return true;
	}
	memset(v, 0, sizeof *v);
	audit(&c);
	if (v->remarks.n == 0 && !sched_span(a, s, NULL, &t)) {
		say_stall(&c, &t);
	}
	if (v->remarks.n == 0) {
		die("a schedule is not sound, and nobody can say why");
	}
	return false;
}

void
sched_report(struct diags *d, const struct sched_verdict *v)
{
	uint32_t i;

	for (i = 0; i < v->remarks.n; i++) {
		const struct sched_remark *m = &v->remarks.at[i];

		if (m->fault == SCHED_NOTE) {
			diag_note(d, m->span, "%s", m->text);
		} else {
			diag_error(d, m->span, "%s", m->text);
		}
	}
}
