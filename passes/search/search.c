/*
 * The search: walks over all degrees and their plans, makes the programs of the
 * best plans found, and repeats both until no plan could be better.
 */
#include "ir/memo.h"
#include "passes/search/search_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SLACK 1.01	/* factor by which a guess may be too low */
#define MORE 1.25	/* the same for guesses with recomputing */
#define NEAR 1.05	/* the same for plans whose programs did not fit */
#define FIRST 12		/* degrees that the first walk looks at */
/* most walks after programs turned out larger than composed */
#define ROUNDS 1024
#define GAINS 1e-4	/* part of a step for which a plan gets more ways */

static void
walk(struct search *s, double worst_us, uint32_t enough)
{
	uint32_t i, n = s->space.degrees.n;

	s->worst_us = worst_us;
	s->enough = enough;
	/* what is below the limit and still open is met again */
	s->open_us = INFINITY;
	s->out->found.n = 0;
	s->out->space = 0;
	s->out->full = s->out->cut = s->out->above = 0;
	s->out->groups_full = s->out->groups_cut = 0;
	n = s->guessing && n > FIRST ? FIRST : n;
	search_ahead_begin(s, n);
	for (i = 0; i < n; i++) {
		if (s->guessing && s->out->found.n && search_is_over(s)) {
			break;
		}
		if (space_is_new_row(&s->space, s->order, i)) {
			search_ahead_turn_to(s, i);
		}
		search_look_at(s, i);
	}
	search_ahead_end(s);
}

/* Looks again at the plans that were found, whatever the limits. */
static void
retry_found(struct search *s)
{
	uint32_t n = s->out->found.n, i;
	struct search_found *at = arena_dup(&s->space.keep, s->out->found.at,
					    n * sizeof *at);

	s->out->found.n = 0;
	s->aiming = true;
	for (i = 0; i < n; i++) {
		search_retry_plan(s, &at[i].plan, false);
	}
	s->aiming = false;
}

/*
 * An upper bound for the walk that makes programs: the time of the best plans
 * of the first walk, with their programs made.  That walk would make these in
 * any case.
 */
static double
aim(struct search *s, double guess_us)
{
	uint32_t want = search_nwanted(s);

	s->worst_us = guess_us * MORE;
	s->enough = want;
	retry_found(s);
	return s->out->found.n < want ? guess_us * SLACK : s->worst_us;
}

/* Prepares the order in which degrees are looked at, and bounds. */
static bool
prepare(struct search *s)
{
	struct space *x = &s->space;

	if (!space_open(x)) {
		return false;
	}
	piece_open(&s->pieces, x, s->memo);
	if (!bound_open(&s->bounds, x, &s->pieces, s->o->effort > 0)) {
		return false;
	}
	s->order = bound_order(&s->bounds);
	s->out->groups = x->degrees.n;
	s->seen = arena_alloc(&x->keep, x->degrees.n * sizeof *s->seen);
	return true;
}

/*
 * Walks below the plans that are settled.  As long as these are too few, first
 * below a guess, if there is one: all plans below it are looked at, so it
 * counts if it finds as many as are wanted, and in the first round one.  What
 * was found before, and did fit, stays if a walk that is over the limits finds
 * nothing.
 */
static void
walk_below(struct search *s, double guess_us, bool first)
{
	uint32_t want = search_nwanted(s), i;
	double most = search_settled_us(s, want);
	uint32_t n = first || isfinite(most) ? s->out->found.n : 0;
	struct search_found *was = arena_dup(&s->space.keep, s->out->found.at,
					     n * sizeof *was);

	walk(s, isfinite(most) ? most : guess_us, want);
	for (i = 0; s->out->open && !s->out->found.n && i < n; i++) {
		s->out->found.at[i] = was[i];
	}
	s->out->found.n = i ? n : s->out->found.n;
	if (!isfinite(most) && isfinite(guess_us) &&
	    s->out->found.n < (first ? 1 : want)) {
		walk(s, most, want);
	}
}

/*
 * Walks over the space and makes the programs of the best plans found, until a
 * walk finds no plan that could be better than those whose programs fit.  A
 * plan whose program is larger than its pieces is remembered as such, and the
 * next walk may find it to fit with another `recompute`.  Programs of
 * shardings are freed before, since they are most of the search's memory.
 *
 * Of an interrupted search no walk follows: what the last one cut, by a bound
 * from cut_us on, is open.  If no program fitted yet, what was found is tried
 * with other ways.
 */
static void
settle_all(struct search *s, double aim_us)
{
	double cut_us = INFINITY;
	int round;

	for (round = 0; round < ROUNDS && !s->out->stopped; round++) {
		if (round > 0 && search_is_interrupted(s)) {
			s->open_us = fmin(s->open_us, cut_us);
			if (s->settled.n) {
				return;
			}
			s->worst_us = INFINITY;
			retry_found(s);
		} else {
			walk_below(s, round ? NEAR * cut_us : aim_us, !round);
			cut_us = s->worst_us;
		}
		memo_drop(s->memo, MEMO_BRIEFS);
		piece_drop_programs(&s->pieces);
		if (!search_settle(s)) {
			return;
		}
	}
	/*
	 * Rounds ran out: the best plan whose program was not made is open, and
	 * that nothing fits is not known.
	 */
	s->out->stopped |= s->out->found.n && !s->settled.n;
	if (s->out->found.n) {
		s->open_us = fmin(s->open_us, s->out->found.at[0].step_us);
	}
}

/*
 * Adds ways to the placement of a plan, and again while it gets quicker, as
 * long as these may make it the best.  False: that is above the limit, which
 * rises again where the programs of the plan that lowered it do not fit.
 */
static bool
widen(struct search *s, uint32_t i)
{
	struct search_close c = s->close.at[i];
	double us = INFINITY;

	while (c.us < us * (1 - GAINS) && !search_is_late(s)) {
		if (c.least_us >= s->worst_us) {
			return false;
		}
		if (!search_retry_plan(s, &c.plan, true)) {
			break;
		}
		us = c.us;
		c = s->close.at[i];
	}
	return true;
}

/* Adds the best plan to those that are close. */
static void
add_best(struct search *s)
{
	struct search_close c = {
		.plan = s->settled.at[0].plan, .us = s->settled.at[0].step_us
	};
	uint32_t i;

	for (i = 0; i < s->close.n; i++) {
		if (search_is_same(&s->close.at[i].plan, &c.plan)) {
			return;
		}
	}
	VEC_PUSH(&s->space.keep, &s->close, c);
}

/*
 * The best plan, and plans that come close to it and do not fit with the
 * quickest way to recompute, are tried again with ways between those that they
 * take and the next.  Which plans these are is an order, not a proof.
 */
static void
look_closer(struct search *s)
{
	uint32_t i, round;

	s->enough = search_nwanted(s);
	for (round = 0; round < ROUNDS && s->settled.n &&
	     !s->out->stopped; round++) {
		s->worst_us = search_settled_us(s, s->enough);
		s->out->found.n = 0;
		add_best(s);
		for (i = 0; i < s->close.n; i++) {
			struct search_close c = s->close.at[i];
			bool is = c.widened || widen(s, i);

			s->close.at[i].widened = is;
			/* ways are of a placement: others of it have more */
			if (round > 0 && is == c.widened) {
				search_retry_plan(s, &c.plan, false);
			}
		}
		if (!search_settle(s) && round > 0) {
			break;
		}
	}
}

static void
look_and_settle(struct search *s)
{
	uint32_t want = search_nwanted(s), ndegrees = s->space.degrees.n, i;
	double guess_us;

	s->open_us = INFINITY;
	s->out->ways_us = s->out->unmade_us = INFINITY;
	/* a guess is much the same for all degrees of a sharding */
	space_vary(&s->space, s->order, FIRST);
	space_cluster(&s->space, s->order, ndegrees < FIRST ? ndegrees : FIRST);
	s->guessing = true;
	walk(s, INFINITY, want);
	s->guessing = false;
	guess_us = s->worst_us;
	memset(s->seen, 0, s->space.degrees.n * sizeof *s->seen);
	if (s->out->found.n) {
		space_lead(&s->space, s->order, &s->out->found.at[0].plan);
	}
	/* so few programs are kept at a time */
	space_cluster(&s->space, s->order, ndegrees);
	settle_all(s, isfinite(guess_us) ? aim(s, guess_us) : INFINITY);
	look_closer(s);
	if (s->shown_s > 0) {
		fprintf(stderr, "\r%60s\r", "");
	}
	s->out->found.n = 0;
	for (i = 0; i < s->settled.n && s->out->found.n < want; i++) {
		if (!search_is_double(s, i)) {
			VEC_PUSH(s->a, &s->out->found, s->settled.at[i]);
		}
	}
	s->out->bound_us = s->out->found.n
		? fmin(s->out->found.at[0].step_us, s->open_us) : 0;
}

/* ---- the report ---- */

/* What is not below the best plan is of no interest. */
static void
keep_lower(struct search_report *r, double *us)
{
	*us = r->found.n && *us < r->found.at[0].step_us ? *us : INFINITY;
}

static void
keep_report(struct arena *a, struct search_report *r)
{
	uint32_t i;

	for (i = 0; i < r->found.n; i++) {
		plan_keep(a, &r->found.at[i].plan);
	}
	plan_keep(a, &r->least.plan);
	plan_keep(a, &r->bare.plan);
	plan_keep(a, &r->host.plan);
}

/* The pinned keys, as a list for the report. */
static const char *
pins_text(const struct ir_module *m, struct arena *a)
{
	struct buf b;
	uint32_t i;

	buf_init(&b, a);
	for (i = 0; i < m->settings.n; i++) {
		const char *key = ir_text(m->ctx, m->settings.at[i].key);

		if (strncmp(key, "plan.", 5) == 0 && !strchr(key + 5, '.')) {
			buf_printf(&b, "%s%s", b.n ? ", " : "", key + 5);
		}
	}
	return buf_text(&b);
}

const char *
search_degrees(const struct plan *p, struct arena *a)
{
	struct buf b;
	uint32_t i;

	buf_init(&b, a);
	for (i = 0; i < PLAN_NAXES; i++) {
		enum plan_axis x = (enum plan_axis)i;

		if (plan_degree(p, x) > 1) {
			buf_printf(&b, "%s%s=%lld", b.n ? " " : "",
				   plan_axis_name(x),
				   (long long)plan_degree(p, x));
		}
	}
	return b.n ? buf_text(&b) : "one rank";
}

/* ---- the search ---- */

/* What keys of addresses have, and what later passes do not need. */
static void
drop_memo(struct memo *memo)
{
	static const enum memo_kind kinds[] = {
		MEMO_ORDERS, MEMO_PROGRAMS, MEMO_CHOICES, MEMO_LEAST,
		MEMO_STEPS, MEMO_PARTS, MEMO_PRICES, MEMO_DOTS, MEMO_BRIEFS,
		MEMO_SPANS, MEMO_PACKS, MEMO_POOLS
	};
	size_t i;

	for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		memo_drop(memo, kinds[i]);
	}
}

static void
release(struct search *s)
{
	piece_release(&s->pieces);
	search_ahead_close(s);
	pass_ahead_release(&s->made);
	drop_memo(s->memo);
	space_release(&s->space);
}

/* Whether plans may keep parameters on hosts, if these had the memory. */
static bool
has_hosts(const struct ir_module *m, const struct search_options *o)
{
	const struct target *t = o->target;

	return !o->compiled && !ir_setting(m, "plan.offload") &&
	       target_span(t, 0, t->groups.n - 1)->device.host_bytes_us > 0;
}

/*
 * Sets what the report says of parameters on hosts.  They are tried where the
 * target says what memory hosts have, as almost anything fits else.  False
 * after errors.
 */
static bool
find_hosts(struct ir_module *m, const struct search_options *o,
	   struct search_report *r)
{
	const struct target *t = o->target;
	struct pass_sums sums;

	r->hosts = SEARCH_HOSTS_NONE;
	if (!has_hosts(m, o)) {
		return true;
	}
	if (target_span(t, 0, t->groups.n - 1)->device.host_memory_bytes <= 0) {
		r->hosts = SEARCH_HOSTS_UNKNOWN;
		return true;
	}
	if (!pass_sum(m, &sums)) {
		return false;
	}
	r->hosts = SEARCH_HOSTS_KNOWN;
	r->needs_bytes = (double)sums.weight_bytes +
			 (double)sums.gradient_bytes +
			 (double)sums.optimizer_bytes;
	r->has_bytes = space_all_memory(t);
	return true;
}

bool
search_run(struct ir_module *m, const struct search_options *o,
	   struct memo *memo, struct arena *a, struct search_report *out)
{
	struct search s = {
		.o = o, .a = a, .out = out, .memo = memo, .briefs.memo = memo,
		.space = { .m = m, .target = o->target, .traits = &o->traits }
	};
	bool ok;

	s.begin_s = search_seconds(&s);
	memset(out, 0, sizeof *out);
	out->pins = pins_text(m, a);
	out->in_order = o->target->groups.n > 1;
	if (!find_hosts(m, o, out)) {
		return false;
	}
	s.space.streams = out->hosts == SEARCH_HOSTS_KNOWN &&
			  out->needs_bytes <= out->has_bytes;
	ok = prepare(&s);
	if (ok) {
		search_ahead_open(&s);
		look_and_settle(&s);
		out->refused = !out->found.n && !piece_ready(&s.pieces);
		search_count(&s);
		keep_lower(out, &out->ways_us);
		keep_lower(out, &out->unmade_us);
		keep_report(a, out);
	}
	if (o->ahead) {
		pass_ahead_give(o->ahead, &s.made, m->ctx);
	}
	release(&s);
	return ok;
}
