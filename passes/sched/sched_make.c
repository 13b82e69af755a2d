/*
 * The named schedules. Each is a function that writes the order of one rank as
 * repeated patterns: "FB" eight times is 0F0 0B0 0F1 0B1 ... Actions past the
 * last microbatch are dropped, so no function has to treat a batch shorter than
 * the pipeline on its own.
 */
#include "passes/sched/sched.h"

#include <string.h>

#define MAX_NAMED_CHUNKS 2

/*
 * Sizes of the groups of microbatches: the first `extra` groups have one more.
 */
struct groups {
	uint32_t size, extra, largest;
};

/* The next action of a kind: in one chunk, or in the order over all chunks. */
struct turn {
	struct sched_action next;
	uint32_t end;		/* first microbatch after the group */
	uint32_t first, size;	/* of the group */
	uint32_t chunk;		/* how many chunks of the group are done */
};

struct sched_maker {
	struct arena *arena;
	struct sched *s;
	const struct sched_def *def;
	uint32_t rank, chunks;
	struct groups groups;
	uint32_t whole;		/* actions of the rank when complete */
	struct turn turns[SCHED_NKINDS];
	struct turn of_chunk[MAX_NAMED_CHUNKS][SCHED_NKINDS];
};

static enum sched_kind
kind_of(char letter)
{
	uint32_t i;

	for (i = 0; i < SCHED_NKINDS; i++) {
		if (sched_kinds[i].letter[0] == letter) {
			return (enum sched_kind)i;
		}
	}
	die("no kind of action is called %c", letter);
}

static uint32_t
stage_of(const struct sched_maker *k, uint32_t chunk)
{
	uint32_t n = k->s->nranks, r = k->rank;

	if (k->def->vshape && chunk % 2 == 1) {
		r = n - 1 - r;
	}
	return chunk * n + r;
}

/*
 * Splits the microbatches into as many groups as possible of nearly one size,
 * each with at least one microbatch per rank. Ranks run up to 2(P-1) turns
 * ahead of each other, so with smaller groups they would wait for work that is
 * not there, in some cases in a circle (4 ranks, 4 chunks, groups of 4 and 1).
 * A batch too short for one group counts as one.
 */
static struct groups
groups_of(const struct sched *s)
{
	uint32_t nranks = s->nranks, m = s->nmicrobatches, n;
	struct groups g;

	m = m < nranks ? nranks : m;
	n = m / nranks;
	g.size = m / n;
	g.extra = m % n;
	g.largest = g.size + (g.extra > 0);
	return g;
}

static uint32_t
turn_stage(const struct sched_maker *k, uint32_t kind, uint32_t chunk)
{
	return stage_of(k, sched_kinds[kind].does & SCHED_FORWARD
			? chunk : k->chunks - 1 - chunk);
}

/*
 * Called after the last microbatch of a group in a chunk: goes to the next
 * chunk, and after all chunks to the next group. Backwards go from the last
 * chunk to the first (Narayanan et al. 2021, arXiv 2104.04473, 2.2, for groups
 * of P).
 */
static void
turn_over(struct sched_maker *k, struct turn *t)
{
	if (++t->chunk == k->chunks) {
		t->chunk = 0;
		t->first += t->size;
		if (t->first >= k->groups.extra * k->groups.largest) {
			t->size = k->groups.size;
		}
	}
	t->next.microbatch = t->first;
	t->next.stage = turn_stage(k, t->next.kind, t->chunk);
	t->end = t->first + t->size;
}

#define MAX_STEPS 6

/* Parses a pattern; returns its length. */
static uint32_t
read_steps(struct sched_maker *k, const char *p, struct turn **steps)
{
	uint32_t n = 0;

	while (*p) {
		enum sched_kind kind = kind_of(*p++);

		if (n == MAX_STEPS) {
			die("a pattern of more than %d actions", MAX_STEPS);
		}
		steps[n++] = *p == '0' || *p == '1'
			? &k->of_chunk[*p++ - '0'][kind] : &k->turns[kind];
	}
	return n;
}

/*
 * Appends a pattern `times` times. A letter alone is the next action of that
 * kind in the order over all chunks; with a digit it is the next one of that
 * chunk.
 */
static void
repeat(struct sched_maker *k, const char *pattern, uint32_t times)
{
	struct sched_list *list = &k->s->ranks[k->rank];
	struct sched_action *at = list->actions.at;	/* has memory for all */
	struct turn *steps[MAX_STEPS];
	uint32_t n = read_steps(k, pattern, steps), m = k->s->nmicrobatches;
	uint32_t made = list->actions.n, whole = k->whole, i;

	while (times-- > 0 && made < whole) {
		for (i = 0; i < n; i++) {
			struct turn *t = steps[i];

			/* overwritten if past m */
			at[made] = t->next;
			made += t->next.microbatch < m;
			if (++t->next.microbatch == t->end) {
				turn_over(k, t);
			}
		}
	}
	list->actions.n = made;
}

/* Enough repetitions to use up all that remains of a kind. */
static uint32_t
plenty(const struct sched_maker *k)
{
	return (k->s->nmicrobatches + k->s->nranks) * k->chunks;
}

/* Huang et al. 2019, arXiv 1811.06965. */
static void
gpipe(struct sched_maker *k)
{
	repeat(k, "F", plenty(k));
	repeat(k, "B", plenty(k));
}

/*
 * Harlap et al. 2018, arXiv 1806.03377, with a flush after each batch; with
 * chunks, Narayanan et al. 2021. With chunks, the first backward reaches a rank
 * two steps later for each rank after it in the pipeline, and all chunks but
 * the last are one group of forwards ahead.
 */
static void
one_f_one_b(struct sched_maker *k)
{
	uint32_t below = k->s->nranks - 1 - k->rank;

	if (k->chunks == 1) {
		repeat(k, "F", below);
	} else {
		repeat(k, "F", 2 * below +
		       (k->chunks - 1) * k->groups.largest);
	}
	repeat(k, "FB", plenty(k));
}

/*
 * Qi et al. 2024, arXiv 2401.10241, 2. Each rank holds as many microbatches as
 * rank 0: a later rank runs fewer forwards ahead, and puts off gradients of
 * weights instead. Those fill the end, where gradients of inputs then come up
 * the pipeline without waiting for them.
 */
static void
zero_bubble(struct sched_maker *k, uint32_t warm, uint32_t put_off)
{
	repeat(k, "F", warm);
	repeat(k, "IF", put_off);
	repeat(k, "IWF", plenty(k));
	repeat(k, "W", plenty(k));
}

static void
zb_h1(struct sched_maker *k)
{
	zero_bubble(k, k->s->nranks - k->rank, k->rank);
}

/*
 * The warm-up is twice as long, less one, so that the first backward finds no
 * gap.
 */
static void
zb_h2(struct sched_maker *k)
{
	zero_bubble(k, 2 * (k->s->nranks - k->rank) - 1, 2 * k->rank);
}

/*
 * Qi et al. 2024, 6: each rank holds a stage of the way down (chunk 0) and one
 * of the way back (chunk 1). The last stage is then on rank 0, and gradients
 * start there early. The order is always that of at least 2P-1 microbatches; a
 * shorter batch leaves gaps in it.
 */
static void
zbv(struct sched_maker *k)
{
	uint32_t n = k->s->nranks, r = k->rank, m = k->s->nmicrobatches;

	if (m < 2 * n - 1) {
		m = 2 * n - 1;
	}
	repeat(k, "F0", 2 * (n - r) - 1);
	repeat(k, "F1F0", r);
	repeat(k, "F1I1W1", n - r);
	repeat(k, "F0I0W0F1I1W1", m - n);
	repeat(k, "I0I1", r);
	repeat(k, "I0W0", n - r);
	repeat(k, "W1", r);
	repeat(k, "W0", r);
}

const struct sched_def sched_defs[] = {
	{ "gpipe", gpipe, 1, 1, false, false, SCHED_NEVER, 0,
	  "all forwards, then all backwards" },
	{ "1f1b", one_f_one_b, 1, 1, false, false, SCHED_EACH, 1,
	  "forwards and backwards in turn, for the least memory" },
	{ "interleaved", one_f_one_b, 1, 0, false, false, SCHED_GROUP, 3,
	  "1f1b over several stages per rank, for a smaller bubble" },
	{ "zb_h1", zb_h1, 1, 1, true, false, SCHED_EACH, 1,
	  "a third of the bubble of 1f1b in the same memory" },
	{ "zb_h2", zb_h2, 1, 1, true, false, SCHED_EACH, 2,
	  "no bubble in about twice the memory of 1f1b" },
	{ "zbv", zbv, 2, 2, true, true, SCHED_EACH, 2,
	  "no bubble in the memory of 1f1b: down the ranks and back" },
};
const uint32_t sched_ndefs = sizeof sched_defs / sizeof sched_defs[0];

const struct sched_def *
sched_find(const char *name)
{
	uint32_t i;

	for (i = 0; i < sched_ndefs; i++) {
		if (strcmp(sched_defs[i].name, name) == 0) {
			return &sched_defs[i];
		}
	}
	return NULL;
}

static const char *
no_such(struct arena *a, const char *name)
{
	struct diag_near near;
	uint32_t i;

	diag_near_init(&near, name);
	for (i = 0; i < sched_ndefs; i++) {
		diag_near_try(&near, sched_defs[i].name);
	}
	return arena_printf(a, "there is no schedule `%s`%s; "
			    "--list-schedules prints all", name,
			    diag_near_text(&near, a));
}

const char *
sched_why_not(struct arena *a, const char *name, uint32_t nranks,
	      uint32_t chunks, uint32_t nmicrobatches)
{
	const struct sched_def *def = sched_find(name);

	if (!def) {
		return no_such(a, name);
	}
	if (nranks < 1 || nranks > SCHED_MAX_RANKS) {
		return arena_printf(a, "found %u ranks, expected 1 to %d",
				    nranks, SCHED_MAX_RANKS);
	}
	if (nmicrobatches < 1 || nmicrobatches > SCHED_MAX_MICROBATCHES) {
		return arena_printf(a, "found %u microbatches, expected 1 "
				    "to %d", nmicrobatches,
				    SCHED_MAX_MICROBATCHES);
	}
	if (chunks < def->min_chunks ||
	    (def->max_chunks && chunks > def->max_chunks)) {
		return arena_printf(a, "%s runs %s%u stage%s per rank, found "
				    "%u", def->name,
				    def->max_chunks ? "" : "at least ",
				    def->min_chunks,
				    def->min_chunks == 1 ? "" : "s", chunks);
	}
	if (chunks > SCHED_MAX_STAGES / nranks) {
		return arena_printf(a, "found %u stages per rank on %u ranks, "
				    "expected at most %d stages", chunks,
				    nranks, SCHED_MAX_STAGES);
	}
	if (nmicrobatches > SCHED_MAX_CELLS / (nranks * chunks)) {
		return arena_printf(a, "found %u microbatches of %u stages, "
				    "expected at most %u of so many stages",
				    nmicrobatches, nranks * chunks,
				    SCHED_MAX_CELLS / (nranks * chunks));
	}
	return NULL;
}

static void
open_turns(struct sched_maker *k)
{
	uint32_t i, c;

	for (i = 0; i < SCHED_NKINDS; i++) {
		struct turn *t = &k->turns[i];

		t->size = k->groups.extra ? k->groups.largest
					  : k->groups.size;
		t->end = t->size;
		t->next.kind = (uint8_t)i;
		t->next.stage = turn_stage(k, i, 0);
		for (c = 0; c < MAX_NAMED_CHUNKS; c++) {
			t = &k->of_chunk[c][i];
			t->next.kind = (uint8_t)i;
			t->next.stage = stage_of(k, c);
		}
	}
}

static void
make_rank(struct arena *a, struct sched *s, const struct sched_def *def,
	  uint32_t rank)
{
	struct sched_maker k = {
		.arena = a, .s = s, .def = def, .rank = rank,
		.chunks = s->nstages / s->nranks, .groups = groups_of(s)
	};
	uint32_t c, kinds = def->split ? 3 : 2;

	k.whole = k.chunks * s->nmicrobatches * kinds;
	sched_reserve(a, s, rank, k.whole + 1);
	open_turns(&k);
	for (c = 0; c < k.chunks; c++) {
		s->rank_of[stage_of(&k, c)] = rank;
	}
	def->order(&k);
}

struct sched *
sched_make(struct arena *a, const char *name, uint32_t nranks, uint32_t chunks,
	   uint32_t nmicrobatches, const char **why)
{
	const struct sched_def *def = sched_find(name);
	struct sched *s;
	uint32_t r;

	*why = sched_why_not(a, name, nranks, chunks, nmicrobatches);
	if (*why) {
		return NULL;
	}
	s = sched_new(a, nranks, nranks * chunks, nmicrobatches);
	s->def = def;
	for (r = 0; r < nranks; r++) {
		make_rank(a, s, def, r);
	}
	return s;
}
