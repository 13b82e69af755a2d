/*
 * Schedules: every named one for thousands of sizes, their bubbles against
 * the published formulas, and what the checker says of broken ones.
 */
#include <math.h>

#include "tests/unit/sched/t-sched.h"

/* ---- the named schedules ---- */

/* Schedules with a formula here; a new one is held to all the rest. */
static bool
is_known(const struct sched_def *def)
{
	static const char *const names[] = {
		"gpipe", "1f1b", "interleaved", "zb_h1", "zb_h2", "zbv"
	};
	size_t i;

	for (i = 0; i < sizeof names / sizeof *names; i++) {
		if (strcmp(def->name, names[i]) == 0) {
			return true;
		}
	}
	return false;
}

static double
expected_bubble(const struct sched_def *def, double p, double v, double m)
{
	if (strcmp(def->name, "zb_h1") == 0) {
		return m >= p ? (p - 1) / (3 * m + p - 1) : -1;
	}
	if (def->split) {
		return m >= 2 * p - 1 ? 0 : -1;
	}
	return m >= p || v <= 1 ? (p - 1) / (v * m + p - 1)
				: 1 - v * m / (v * p + m - 1);
}

static uint32_t
expected_peak(const struct sched_def *def, uint32_t p, uint32_t v, uint32_t m)
{
	uint32_t groups = m < p ? 1 : m / p, most = p;

	if (strcmp(def->name, "gpipe") == 0) {
		most = m;
	} else if (strcmp(def->name, "zb_h2") == 0) {
		most = 2 * p - 1;
	} else if (def->vshape) {
		most = 2 * p;
	} else if (v > 1) {
		most = (v - 1) * ((m + groups - 1) / groups) + 2 * p - 1;
	}
	return most < m * v ? most : m * v;
}

/* Without events, the same times. */
static void
same_span(const struct sched *s)
{
	struct sched_timeline span, line, *l = &line;
	uint32_t r;

	assert_true(sched_time(&t.a, s, NULL, l));
	assert_true(sched_span(&t.a, s, NULL, &span));
	assert_null(span.events);
	assert_true(span.makespan_us == l->makespan_us &&
		    span.longest_us == l->longest_us);
	for (r = 0; r < s->nranks; r++) {
		uint32_t n = s->ranks[r].actions.n;

		assert_true(span.begin_us[r] == l->events[r][0].start_us &&
			    span.end_us[r] == l->events[r][n - 1].end_us &&
			    span.idle[r] == l->idle[r]);
	}
}

static void
one_size(const struct sched_def *def, uint32_t p, uint32_t v, uint32_t m)
{
	struct sched *s = make(def->name, p, v, m), *again;
	double want = expected_bubble(def, p, v, m);
	struct sched_verdict verdict;
	struct sched_timeline l;
	uint32_t r, most = 0;
	const char *text;

	accepted(s, &verdict);
	times(s, &l);
	if (is_known(def) && want >= 0 &&
	    fabs(sched_bubble(s, &l) - want) > 1e-9) {
		fail_msg("%s P=%u v=%u M=%u: bubble %g, not %g", def->name, p,
			 v, m, sched_bubble(s, &l), want);
	}
	same_span(s);
	for (r = 0; r < p; r++) {
		most = verdict.peak[r] > most ? verdict.peak[r] : most;
	}
	if (is_known(def) ? most != expected_peak(def, p, v, m)
			  : most > m * v) {
		fail_msg("%s P=%u v=%u M=%u: peak %u", def->name, p, v, m,
			 most);
	}
	text = print(s);
	again = read_text(text);
	assert_non_null(again);
	assert_memory_equal(again->rank_of, s->rank_of,
			    s->nstages * sizeof *s->rank_of);
	assert_true(s->def == def && !again->def);
	assert_memory_equal(sched_times(&t.a, again), sched_times(&t.a, s),
			    s->nstages * SCHED_NKINDS * sizeof(uint32_t));
	assert_memory_equal(sched_first_weights(&t.a, again),
			    sched_first_weights(&t.a, s), s->nstages);
	assert_string_equal(print(again), text);
}

static void
all_sizes(void **state)
{
	uint32_t d, p, v, m;
	const char *why;

	(void)state;
	for (d = 0; d < sched_ndefs; d++) {
		const struct sched_def *def = &sched_defs[d];

		assert_ptr_equal(sched_find(def->name), def);
		for (p = 1; p <= 8; p++) {
			for (v = 1; v <= 4; v++) {
				arena_release(&t.a);
				start();
				if (v < def->min_chunks || (def->max_chunks &&
				    v > def->max_chunks)) {
					assert_null(sched_make(&t.a,
						def->name, p, v, 8, &why));
					continue;
				}
				for (m = 1; m <= 20; m++) {
					one_size(def, p, v, m);
				}
			}
		}
	}
}

/* The published count: of N stages, the first holds N microbatches. */
static void
in_flight(void **state)
{
	struct sched_verdict v;
	uint32_t n, m;

	(void)state;
	for (n = 1; n <= 16; n++) {
		for (m = 1; m <= 40; m++) {
			accepted(make("1f1b", n, 1, m), &v);
			assert_int_equal(v.peak[0], m < n ? m : n);
			assert_int_equal(v.peak[n - 1], 1);
			assert_int_equal(v.stage_peak[0], v.peak[0]);
			accepted(make("gpipe", n, 1, m), &v);
			assert_int_equal(v.peak[0], m);
		}
	}
	accepted(make("interleaved", 4, 2, 8), &v);
	assert_int_equal(v.peak[0], 11);
	assert_int_equal(v.stage_peak[0] + v.stage_peak[4], 12);
}

/* Those of PyTorch pull request 172833, which prints this one. */
static void
known_order(void **state)
{
	struct sched *s = make("interleaved", 2, 2, 4);
	static const char *const want[] = {
		"0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 "
		"0B2 0B3 ",
		"1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 "
		"1B2 1B3 "
	};
	struct buf b;
	uint32_t r, i;

	(void)state;
	for (r = 0; r < 2; r++) {
		buf_init(&b, &t.a);
		for (i = 0; i < s->ranks[r].actions.n; i++) {
			buf_printf(&b, "%s ", sched_name(&t.a,
				   &s->ranks[r].actions.at[i]));
		}
		assert_string_equal(buf_text(&b), want[r]);
	}
}

static void
refused(void **state)
{
	static const struct {
		const char *name;
		uint32_t p, v, m;
		const char *why;
	} rows[] = {
		{ "zb_h", 2, 1, 2, "there is no schedule `zb_h` (did you "
		  "mean `zb_h1`?); --list-schedules prints all" },
		{ "1f1b", 0, 1, 2, "found 0 ranks, expected 1 to 4096" },
		{ "1f1b", 4097, 1, 2, "found 4097 ranks, expected 1 to 4096" },
		{ "1f1b", 2, 1, 0,
		  "found 0 microbatches, expected 1 to 1048576" },
		{ "1f1b", 2, 2, 2, "1f1b runs 1 stage per rank, found 2" },
		{ "zbv", 2, 1, 2, "zbv runs 2 stages per rank, found 1" },
		{ "interleaved", 2, 0, 2,
		  "interleaved runs at least 1 stage per rank, found 0" },
		{ "interleaved", 4096, 5, 2, "found 5 stages per rank on 4096 "
		  "ranks, expected at most 16384 stages" },
		{ "gpipe", 64, 1, 70000, "found 70000 microbatches of 64 "
		  "stages, expected at most 65536 of so many stages" },
	};
	const char *why;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		assert_null(sched_make(&t.a, rows[i].name, rows[i].p,
				       rows[i].v, rows[i].m, &why));
		assert_string_equal(why, rows[i].why);
	}
}

static void
hops_and_costs(void **state)
{
	struct sched *s = make("gpipe", 2, 1, 1);
	struct sched_cost cost[2] = {
		{ .us = { 10, 20 }, .hop_us = 3 },
		{ .us = { 11, 22 }, .hop_us = 1000 },
	};
	struct sched_timeline l;

	(void)state;
	assert_true(sched_time(&t.a, s, cost, &l));
	assert_true(l.events[1][0].start_us == 13 &&
		    l.events[1][1].end_us == 46 &&
		    l.events[0][1].start_us == 49 && l.makespan_us == 69);
	assert_true(fabs(l.idle[0] - 39.0 / 69) < 1e-12);
	assert_true(fabs(l.idle[1] - 36.0 / 69) < 1e-12);
	s->rank_of[1] = 0;	/* all on one rank: no hops */
	s->ranks[0].actions.n = 0;
	sched_add(&t.a, s, 0, (struct sched_action){ .kind = SCHED_F });
	sched_add(&t.a, s, 0, (struct sched_action){ SCHED_F, 1, 0, { 0 } });
	sched_add(&t.a, s, 0, (struct sched_action){ SCHED_B, 1, 0, { 0 } });
	s->nranks = 1;
	assert_true(sched_time(&t.a, s, cost, &l));
	assert_true(l.makespan_us == 43 && l.idle[0] == 0);
}

/* ---- broken schedules ---- */

enum edit { NONE, SWAP, DROP, COPY, MOVE, KIND_TO, STAGE_TO, BATCH_TO, EMPTY,
	    REVERSE, EXCHANGE };

/* Of rank r: a and b are places in its list, ranks or new values. */
struct change {
	enum edit edit;
	uint32_t r, a, b;
};

static void
swap_actions(struct sched_action *x, struct sched_action *y)
{
	struct sched_action z = *x;

	*x = *y;
	*y = z;
}

/* Appends, then lets it sink to its place. */
static void
insert(struct sched *s, uint32_t r, uint32_t at, struct sched_action action)
{
	uint32_t i;

	sched_add(&t.a, s, r, action);
	for (i = s->ranks[r].actions.n - 1; i > at; i--) {
		swap_actions(&s->ranks[r].actions.at[i],
			     &s->ranks[r].actions.at[i - 1]);
	}
}

static void
drop(struct sched *s, uint32_t r, uint32_t at)
{
	struct sched_list *l = &s->ranks[r];

	memmove(l->actions.at + at, l->actions.at + at + 1,
		(--l->actions.n - at) * sizeof *l->actions.at);
}

static void
change(struct sched *s, struct change c)
{
	struct sched_list *l = &s->ranks[c.r], other;
	struct sched_action *x = &l->actions.at[c.a], copy;
	uint32_t i;

	if (l->actions.n == 0) {
		return;
	}
	copy = *x;
	switch (c.edit) {
	case SWAP:
		swap_actions(x, &l->actions.at[c.b]);
		break;
	case MOVE:	/* to the end of rank b */
		sched_add(&t.a, s, c.b, copy);
		drop(s, c.r, c.a);
		break;
	case DROP:
		drop(s, c.r, c.a);
		break;
	case COPY:
		insert(s, c.r, c.b, copy);
		break;
	case KIND_TO:
		x->kind = (uint8_t)c.b;
		break;
	case STAGE_TO:
		x->stage = c.b;
		break;
	case BATCH_TO:
		x->microbatch = c.b;
		break;
	case EMPTY:
		l->actions.n = 0;
		break;
	case REVERSE:
		for (i = 0; i < l->actions.n / 2; i++) {
			swap_actions(&l->actions.at[i], &l->actions.at[
				     l->actions.n - 1 - i]);
		}
		break;
	case EXCHANGE:
		other = s->ranks[c.b];
		s->ranks[c.b] = *l;
		*l = other;
		break;
	case NONE:
		break;
	}
}

/*
 * 1f1b of 2 ranks and 4 microbatches is
 *	0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3
 *	1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3
 * zb_h1 of 2 and 2 is
 *	0F0 0F1 0I0 0W0 0I1 0W1
 *	1F0 1I0 1F1 1I1 1W0 1W1
 * and the first rank of interleaved of 3, 2 chunks and 3 begins with
 *	0F0 0F1 0F2 3F0 3F1 3F2
 */
static const struct broken {
	const char *name;
	uint32_t p, v, m;
	struct change change[2];
	enum sched_fault fault;
	uint32_t rank, at;
	const char *text;
} broken[] = {
	{ "1f1b", 2, 1, 4, { { SWAP, 1, 0, 1 } }, SCHED_STALL, 1, 0,
	  "rank 1, action 1: 1B0 can never run: it waits for 1F0, action 2 of "
	  "the same rank" },
	{ "1f1b", 2, 1, 4, { { SWAP, 0, 5, 7 } }, SCHED_STALL, 0, 5,
	  "rank 0, action 6: 0B3 can never run: it waits for 0F3, action 8 of "
	  "the same rank" },
	{ "zb_h1", 2, 1, 2, { { SWAP, 0, 2, 3 } }, SCHED_STALL, 0, 2,
	  "rank 0, action 3: 0W0 can never run: it waits for 0I0, action 4 of "
	  "the same rank" },
	{ "zb_h1", 2, 1, 2, { { SWAP, 1, 2, 3 } }, SCHED_STALL, 1, 2,
	  "rank 1, action 3: 1I1 can never run: it waits for 1F1, action 4 of "
	  "the same rank" },
	{ "1f1b", 2, 1, 4, { { SWAP, 0, 1, 2 }, { SWAP, 1, 1, 2 } },
	  SCHED_STALL, 0, 1,
	  "rank 0, action 2: 0B0 can never run: it waits for 1B0, action 3 of "
	  "rank 1; ranks 0 and 1 wait for each other" },
	{ "interleaved", 3, 2, 3, { { SWAP, 0, 1, 4 } }, SCHED_STALL, 0, 1,
	  "rank 0, action 2: 3F1 can never run: it waits for 2F1, action 2 of "
	  "rank 2; ranks 0, 2 and 1 wait for each other" },
	{ "gpipe", 3, 1, 3, { { REVERSE, 1, 0, 0 } }, SCHED_STALL, 1, 0,
	  "rank 1, action 1: 1B2 can never run: it waits for 1F2, action 4 of "
	  "the same rank" },
	{ "1f1b", 2, 1, 4, { { DROP, 0, 3, 0 } }, SCHED_MISSING, 0, 7,
	  "rank 0: stage 0 never does the forward (F) of microbatch 2" },
	{ "1f1b", 2, 1, 4, { { DROP, 1, 7, 0 } }, SCHED_MISSING, 1, 7,
	  "rank 1: stage 1 never does the whole backward (B) of microbatch "
	  "3" },
	{ "zb_h1", 2, 1, 2, { { DROP, 1, 4, 0 } }, SCHED_MISSING, 1, 5,
	  "rank 1: stage 1 never does the gradient of the weights (W) of "
	  "microbatch 0" },
	{ "zb_h1", 2, 1, 2, { { DROP, 0, 2, 0 }, { DROP, 0, 3, 0 } },
	  SCHED_MISSING, 0, 4,
	  "rank 0: stage 0 never does the gradient of the input (I) of "
	  "microbatch 0, nor of 1 more" },
	{ "1f1b", 2, 1, 4, { { DROP, 0, 0, 0 }, { DROP, 0, 1, 0 } },
	  SCHED_MISSING, 0, 6,
	  "rank 0: stage 0 never does the forward (F) and the whole backward "
	  "(B) of microbatch 0" },
	{ "1f1b", 2, 1, 4, { { EMPTY, 1, 0, 0 } }, SCHED_MISSING, 1, 0,
	  "rank 1: nothing to run" },
	{ "1f1b", 2, 1, 4, { { COPY, 0, 3, 4 } }, SCHED_TWICE, 0, 4,
	  "rank 0, action 5: 0F2 is there twice: it is action 4 of rank 0 "
	  "too" },
	{ "1f1b", 2, 1, 4, { { COPY, 1, 1, 8 } }, SCHED_TWICE, 1, 8,
	  "rank 1, action 9: 1B0 is there twice: it is action 2 of rank 1 "
	  "too" },
	{ "1f1b", 2, 1, 4, { { BATCH_TO, 0, 1, 0 } }, SCHED_TWICE, 0, 1,
	  "rank 0, action 2: 0F0 is there twice: it is action 1 of rank 0 "
	  "too" },
	{ "1f1b", 2, 1, 4, { { KIND_TO, 0, 1, SCHED_B } }, SCHED_TWICE, 0, 4,
	  "rank 0, action 5: 0B1 is there twice: it is action 2 of rank 0 "
	  "too" },
	{ "zb_h1", 2, 1, 2, { { KIND_TO, 0, 2, SCHED_B } }, SCHED_TWICE, 0, 3,
	  "rank 0, action 4: 0W0 does again what 0B0 did, action 3 of rank "
	  "0" },
	{ "1f1b", 2, 1, 4, { { KIND_TO, 0, 4, SCHED_I } }, SCHED_MISSING, 0,
	  8, "rank 0: stage 0 never does the gradient of the weights (W) of "
	  "microbatch 1" },
	{ "1f1b", 2, 1, 4, { { KIND_TO, 1, 3, SCHED_W } }, SCHED_MISSING, 1,
	  8, "rank 1: stage 1 never does the gradient of the input (I) of "
	  "microbatch 1" },
	{ "1f1b", 2, 1, 4, { { MOVE, 0, 4, 1 } }, SCHED_WRONG_RANK, 1, 8,
	  "rank 1, action 9: 0B1 is out of place: rank 0 holds stage 0" },
	{ "1f1b", 2, 1, 4, { { STAGE_TO, 0, 3, 1 } }, SCHED_WRONG_RANK, 0, 3,
	  "rank 0, action 4: 1F2 is out of place: rank 1 holds stage 1" },
	{ "1f1b", 2, 1, 4, { { EXCHANGE, 0, 0, 1 } }, SCHED_WRONG_RANK, 1, 0,
	  "rank 1, action 1: 0F0 is out of place: rank 0 holds stage 0" },
	{ "zbv", 2, 2, 3, { { SWAP, 1, 0, 1 } }, SCHED_STALL, 1, 0,
	  "rank 1, action 1: 2F0 can never run: it waits for 1F0, action 2 of "
	  "the same rank" },
};

static void
every_fault_is_named(void **state)
{
	size_t i;
	uint32_t j;

	(void)state;
	for (i = 0; i < sizeof broken / sizeof broken[0]; i++) {
		const struct broken *b = &broken[i];
		struct sched *s = make(b->name, b->p, b->v, b->m);
		struct sched_verdict v;
		const struct sched_remark *m;

		change(s, b->change[0]);
		change(s, b->change[1]);
		assert_false(sched_check(&t.a, s, &v));
		m = &v.remarks.at[0];
		assert_string_equal(m->text, b->text);
		assert_int_equal(m->fault, b->fault);
		assert_int_equal(m->rank, b->rank);
		assert_int_equal(m->at, b->at);
		for (j = 0; j < v.remarks.n; j++) {	/* one is enough */
			assert_true(b->fault != SCHED_WRONG_RANK ||
				    v.remarks.at[j].fault != SCHED_TWICE);
		}
		print(s);	/* must end, whatever is wrong */
	}
}

/* ---- against a second, slow checker ---- */

/* Whether the parts in `need` of the stage's microbatch are done. */
static bool
has(const uint8_t *done, const struct sched *s, uint32_t stage, uint32_t m,
    uint8_t need)
{
	return stage >= s->nstages ||
	       (done[stage * s->nmicrobatches + m] & need) == need;
}

/* Tries every rank until none moves: right by being simple. */
static bool
runs(const struct sched *s)
{
	uint32_t cells = s->nstages * s->nmicrobatches, r, i;
	uint8_t *done = arena_alloc(&t.a, cells);
	uint32_t *at = arena_alloc(&t.a, s->nranks * sizeof *at);
	bool moved = true;

	while (moved) {
		moved = false;
		for (r = 0; r < s->nranks; r++) {
			const struct sched_action *a =
				s->ranks[r].actions.at + at[r];
			bool f = at[r] < s->ranks[r].actions.n;
			uint32_t m = f ? a->microbatch : 0;
			uint8_t d;

			if (!f || s->rank_of[a->stage] != r) {
				continue;
			}
			d = a->kind == SCHED_F ? 1 : a->kind == SCHED_B ? 6 :
			    a->kind == SCHED_I ? 2 : 4;
			if (has(done, s, a->stage, m, (uint8_t)(d & -d)) ||
			    (d == 6 && has(done, s, a->stage, m, 4)) ||
			    !(d == 1 ? has(done, s, a->stage - 1, m, 1) :
			      d == 4 ? has(done, s, a->stage, m, 2) :
			      has(done, s, a->stage, m, 1) &&
			      has(done, s, a->stage + 1, m, 2))) {
				continue;
			}
			done[a->stage * s->nmicrobatches + m] |= d;
			at[r]++;
			moved = true;
		}
	}
	for (i = 0; i < cells && done[i] == 7; i++) {
	}
	for (r = 0; r < s->nranks && at[r] == s->ranks[r].actions.n; r++) {
	}
	return i == cells && r == s->nranks;
}

static struct change
random_change(const struct sched *s, uint64_t *seed)
{
	static const enum edit edits[] = {
		SWAP, SWAP, SWAP, SWAP, DROP, COPY, MOVE, KIND_TO, STAGE_TO,
		BATCH_TO, REVERSE
	};
	struct change c = { .edit = edits[draw(seed, 11)] };
	uint32_t n;

	c.r = draw(seed, s->nranks);
	n = s->ranks[c.r].actions.n;
	c.a = draw(seed, n);
	c.b = c.edit == MOVE ? draw(seed, s->nranks) :
	      c.edit == KIND_TO ? draw(seed, SCHED_NKINDS) :
	      c.edit == STAGE_TO ? draw(seed, s->nstages) :
	      c.edit == BATCH_TO ? draw(seed, s->nmicrobatches) :
	      draw(seed, n);
	return c;
}

static void
agrees_with_slow_checker(void **state)
{
	uint64_t seed = 20240607;
	uint32_t good = 0, i, left;

	(void)state;
	for (i = 0; i < 4000; i++) {
		const struct sched_def *def = &sched_defs[i % sched_ndefs];
		uint32_t v = def->min_chunks + (def->max_chunks ? 0 :
						draw(&seed, 3));
		struct sched *s = make(def->name, 1 + draw(&seed, 5), v,
				       1 + draw(&seed, 7));
		struct sched_verdict verdict;
		bool ok;

		for (left = 1 + draw(&seed, 3); left > 0; left--) {
			change(s, random_change(s, &seed));
		}
		ok = runs(s);
		good += ok;
		if (sched_check(&t.a, s, &verdict) != ok) {
			fail_msg("round %u: %s\n%s", i, ok ?
				 verdict.remarks.at[0].text : "accepted",
				 print(s));
		}
		arena_release(&t.a);
		start();
	}
	assert_in_range(good, 400, 3600);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(all_sizes),
		TEST(in_flight),
		TEST(known_order),
		TEST(refused),
		TEST(hops_and_costs),
		TEST(every_fault_is_named),
		TEST(agrees_with_slow_checker),
	};

	return cmocka_run_group_tests_name("sched", tests, NULL, NULL);
}
