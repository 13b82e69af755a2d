/*
 * Ranks that are killed, stopped, late, lost, or at something
 * else: all others say so in time, and name them.
 */
#include "tests/unit/comm/t-comm.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "runtime/comm/transport.h"

enum { RANKS = 4, BIG = 100000 };

static const struct rt_axis axes[] = { { NULL, 0, 0 }, { "dp", 2, 0 },
	{ "tp", 2, 0 } };
static const struct rt_plan plan = { .abi = RT_ABI_VERSION, .naxes = 3,
	.axes = axes, .nranks = RANKS, .npipes = 1, .nmicrobatches = 4,
	.nchannels = 1, .model = "t", .json = "{}" };

static struct rt_pieces big[RANKS], small[RANKS];
static const struct rt_spread big_spread = { BIG, 0, big },
	small_spread = { 3, 0, small };
static const struct rt_spread *const big_dims[] = { &big_spread },
	*const small_dims[] = { &small_spread };

static struct rt_coll
agree_on(const char *what, int64_t over, bool large)
{
	int64_t i;

	for (i = 0; i < RANKS; i++) {
		big[i] = (struct rt_pieces){ .n = 1, .total = BIG };
		big[i].at[0].count = BIG;
		small[i] = (struct rt_pieces){ .n = 1, .total = 3 };
		small[i].at[0].count = 3;
	}
	return (struct rt_coll){ .what = what, .op = RT_COLL_SUM,
		.axes = over, .elem = RT_ELEM_F32, .ndims = 1,
		.in = large ? big_dims : small_dims,
		.out = large ? big_dims : small_dims };
}

/* Collectives of all kinds, for ever. */
/* A run that all share.  It may take long to start on a busy machine. */
struct course {
	atomic_int under_way;	/* ranks that talked with all others */
	double timeout_s;	/* from then on; 0: the one it began with */
};

static struct course *
new_course(double timeout_s)
{
	struct course *x = mmap(NULL, sizeof(*x), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(x != MAP_FAILED);
	x->timeout_s = timeout_s;
	return x;
}

static void
wait_until_under_way(struct course *x)
{
	int i;

	for (i = 0; i < 30000 && atomic_load(&x->under_way) < RANKS; i++) {
		poll(NULL, 0, 1);
	}
	assert_int_equal(atomic_load(&x->under_way), RANKS);
	munmap(x, sizeof(*x));
}

static int
run_for_ever(const struct rt_comm_options *o, void *user)
{
	struct rt_coll x = agree_on("all_reduce x on tp", 1 << 2, true);
	struct rt_coll y = agree_on("all_reduce y on dp", 1 << 1, false);
	struct rt_error err;
	struct rt_comm *c;
	char *at;
	struct course *course = user;
	int64_t i;

	if (rt_comm_open(&c, o, BIG * 4, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	at = rt_comm_arena(c);
	for (i = 0;; i++) {
		double d = 1;

		if (rt_comm_coll(c, &x, i % 4, at, at, i % 32, &err) !=
			    RT_OK ||
		    rt_comm_coll(c, &y, i % 4, at, at, -1, &err) != RT_OK ||
		    (i % 5 == 0 &&
		     rt_comm_sum_f64(c, -1, &d, 1, &err) != RT_OK)) {
			return gave_up(c, &err);
		}
		if (i == 0 && course) {
			c->timeout_us = course->timeout_s > 0
				? course->timeout_s * 1e6 : c->timeout_us;
			atomic_fetch_add(&course->under_way, 1);
		}
	}
}

/* All but `who` must have given up by then, for a reason that names it. */
static void
all_know(const struct ranks *r, int64_t who, double since, double most_s,
	 const char *also)
{
	char name[32];
	int64_t i;

	snprintf(name, sizeof(name), "rank %d", (int)who);
	for (i = 0; i < r->n; i++) {
		if (i == who) {
			continue;
		}
		if (r->exits[i] != GAVE_UP || r->ended_s[i] - since > most_s ||
		    !strstr(r->said[i], also)) {
			fail_msg("rank %d ends with %d after %.2f s and says: "
				 "%s", (int)i, r->exits[i],
				 r->ended_s[i] - since, r->said[i]);
		}
	}
}

/* Two seconds, and what a busy machine adds. */
#define SOON_S 6.0
/* In a busy one another rank, too, may not run for a second. */
#define WAIT_S 2.0

static void
test_killed(void **state)
{
	uint64_t seed = 1;
	int moment, moments = getenv("COMM_MOMENTS") ?
		atoi(getenv("COMM_MOMENTS")) : 20;

	(void)state;
	for (moment = 0; moment < moments; moment++) {
		int64_t who = draw_below(&seed, RANKS);
		struct ranks r;
		double at;
		char died[32];

		/* the first few while they still meet: who never came is missed
		 * when its time is over, and has no name before */
		ranks_start(&r, &plan, moment < 6 ? 1 : 30, run_for_ever,
			    NULL);
		poll(NULL, 0, moment < 6 ? moment :
			     20 + (int)draw_below(&seed, 60));
		kill(r.pids[who], SIGKILL);
		at = seconds();
		ranks_wait(&r, 30, -1);
		assert_int_equal(r.exits[who], -1);
		snprintf(died, sizeof(died), "rank %d (", (int)who);
		all_know(&r, who, at, SOON_S, moment < 6 ? "" : died);
	}
}

static void
test_message(void **state)
{
	struct course *x = new_course(0);
	struct ranks r;
	double at;
	int64_t i;

	(void)state;
	ranks_start(&r, &plan, 30, run_for_ever, x);
	wait_until_under_way(x);
	kill(r.pids[3], SIGKILL);
	at = seconds();
	ranks_wait(&r, 30, -1);
	all_know(&r, 3, at, SOON_S, "rank 3 (dp=1 tp=1) died while rank ");
	for (i = 0; i < 3; i++) {
		assert_non_null(strstr(r.said[i], " waited for "));
		assert_non_null(strstr(r.said[i], " in a"));
	}
}

static void
test_stopped(void **state)
{
	uint64_t seed = 2;
	int moment;

	(void)state;
	for (moment = 0; moment < 6; moment++) {
		int64_t who = draw_below(&seed, RANKS), i, named = 0;
		struct course *x = new_course(WAIT_S);
		struct ranks r;
		char name[32], root[48];
		double at;

		ranks_start(&r, &plan, 30, run_for_ever, x);
		wait_until_under_way(x);
		poll(NULL, 0, (int)draw_below(&seed, 60));
		kill(r.pids[who], SIGSTOP);
		at = seconds();
		ranks_wait(&r, 30, who);
		snprintf(name, sizeof(name), "missing: %d", (int)who);
		snprintf(root, sizeof(root), " waits for rank %d (",
			 (int)who);
		for (i = 0; i < RANKS; i++) {
			named += i != who && (strstr(r.said[i], name) ||
					      strstr(r.said[i], root));
		}
		if (named == 0) {
			fail_msg("%d is stopped: %s%s", (int)who,
				 r.said[(who + 1) % 4], r.said[(who + 2) % 4]);
		}
		kill(r.pids[who], SIGCONT);
		assert_int_equal(waitpid(r.pids[who], &r.exits[who], 0),
				 r.pids[who]);
		assert_int_equal(WEXITSTATUS(r.exits[who]), GAVE_UP);
		ranks_hear(&r, who);
		all_know(&r, who, at, WAIT_S + SOON_S, "waited");
	}
}

static int
run_apart(const struct rt_comm_options *o, void *user)
{
	struct rt_coll x = agree_on("all_reduce x", -1, false);
	struct rt_coll y = agree_on("all_gather y", -1, false);
	struct rt_error err;
	struct rt_comm *c;
	char *at;

	(void)user;
	if (rt_comm_open(&c, o, 64, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	at = rt_comm_arena(c);
	if (rt_comm_coll(c, &x, 0, at, at, -1, &err) != RT_OK ||
	    rt_comm_coll(c, o->world.rank == 1 ? &y : &x, 2, at, at, 5,
			 &err) != RT_OK) {
		return gave_up(c, &err);
	}
	rt_comm_free(c);
	return 0;
}

static void
test_apart(void **state)
{
	struct ranks r;

	(void)state;
	ranks_start(&r, &plan, 30, run_apart, NULL);
	ranks_wait(&r, 30, -1);
	assert_int_equal(r.exits[1], GAVE_UP);
	assert_non_null(strstr(r.said[1], "rank 1 (dp=0 tp=1) is in "
			       "all_gather y, layer 5, microbatch 2, rank 0 "
			       "(dp=0 tp=0) in all_reduce x, layer 5, "
			       "microbatch 2"));
}

/* A rank that gives up by itself, and one that ends too early. */
static int
run_one_gives_up(const struct rt_comm_options *o, void *user)
{
	bool leaves = *(bool *)user;
	struct rt_error err;
	struct rt_comm *c;

	if (rt_comm_open(&c, o, 64, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	if (o->world.rank == 2) {
		poll(NULL, 0, 100);
		if (!leaves) {
			rt_comm_abort(c, "the disk is full");
		}
		rt_comm_free(c);
		return GAVE_UP;
	}
	rt_comm_barrier(c, "the start", &err);
	return gave_up(c, &err);
}

static void
test_gives_up(void **state)
{
	bool leaves = false;
	struct ranks r;
	int64_t i;

	(void)state;
	ranks_start(&r, &plan, 30, run_one_gives_up, &leaves);
	ranks_wait(&r, 30, -1);
	for (i = 0; i < RANKS; i++) {
		assert_true(i == 2 || strcmp(r.said[i], "rank 2 (dp=1 tp=0) "
			    "gave up: the disk is full\n") == 0);
	}
	leaves = true;
	ranks_start(&r, &plan, 30, run_one_gives_up, &leaves);
	ranks_wait(&r, 30, -1);
	for (i = 0; i < RANKS; i++) {
		assert_true(i == 2 || strstr(r.said[i], "rank 2 (dp=1 tp=0) "
			    "has ended while rank "));
	}
}

/* ---- who prints it ---- */

/* What each rank finds; NULL: it waits, and learns what others found. */
struct finds {
	const char *text[RANKS];
};

static int
run_and_say(const struct rt_comm_options *o, void *user)
{
	const struct finds *x = user;
	const char *text = x->text[o->world.rank];
	bool is_told = x->text[0] != NULL;
	struct rt_heard h;
	struct rt_error err;
	struct rt_comm *c;

	if (rt_comm_open(&c, o, 64, &err) != RT_OK ||
	    rt_comm_barrier(c, "the start", &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	/* on a busy machine others may not wait for rank 0 for long enough */
	while (text && is_told && o->world.rank > 0 && !c->via->heard(c, &h)) {
		poll(NULL, 0, 1);
	}
	if (!text) {
		rt_comm_barrier(c, "the end", &err);
		text = err.message;
	}
	if (rt_comm_is_news(c, text)) {
		fprintf(stderr, "says %s\n", text);
	}
	rt_comm_abort(c, text);
	rt_comm_free(c);
	return GAVE_UP;
}

/* Holds who says a text to bits of `who`. */
static void
are_said(const struct finds *x, const char *text, unsigned who)
{
	struct finds finds = *x;
	struct ranks r;
	unsigned found = 0;
	int64_t i;

	ranks_start(&r, &plan, 30, run_and_say, &finds);
	ranks_wait(&r, 30, -1);
	for (i = 0; i < RANKS; i++) {
		const char *at = strstr(r.said[i], "says ");

		found |= (unsigned)(at && strstr(at, text)) << i;
	}
	if (found != who) {
		fail_msg("%s: said by %x, not %x", text, found, who);
	}
}

static void
test_news(void **state)
{
	static const struct finds all = { { "no data", "no data", "no data",
					    "no data" } };
	static const struct finds one = { { NULL, NULL, "no disk", NULL } };
	static const struct finds odd = { { "no data", "no data", "no disk",
					    "no data" } };

	(void)state;
	are_said(&all, "no data", 1);
	are_said(&one, "no disk", 1 << 2);
	are_said(&odd, "no data", 1);
	are_said(&odd, "no disk", 1 << 2);
}

/* ---- those that never come together ---- */

static int
run_with_another_plan(const struct rt_comm_options *o, void *user)
{
	struct rt_comm_options own = *o;
	struct rt_plan other = *o->plan;
	int64_t odd = *(int64_t *)user;
	struct rt_error err;
	struct rt_comm *c;

	other.json = "{ }";
	if (o->world.rank == odd) {
		own.plan = &other;
	}
	if (rt_comm_open(&c, &own, 64, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	rt_comm_free(c);
	return 0;
}

static void
test_another_plan(void **state)
{
	int64_t odd = 2, i;
	struct ranks r;

	(void)state;
	ranks_start(&r, &plan, 30, run_with_another_plan, &odd);
	ranks_wait(&r, 30, -1);
	for (i = 0; i < RANKS; i++) {
		assert_int_equal(r.exits[i], GAVE_UP);
	}
	assert_string_equal(r.said[0], "rank 2 runs another plan than rank 0: "
			    "start the same plan on all ranks\n");
	assert_string_equal(r.said[2], r.said[0]);
}

static int
run_without_some(const struct rt_comm_options *o, void *user)
{
	int64_t lost = *(int64_t *)user;
	struct rt_error err;
	struct rt_comm *c;

	if (o->world.rank == lost) {
		return 0;
	}
	return rt_comm_open(&c, o, 64, &err) == RT_OK ? 0 :
		gave_up(NULL, &err);
}

static void
test_missing(void **state)
{
	int64_t lost;
	struct ranks r;

	(void)state;
	for (lost = 0; lost < 4; lost += 3) {
		ranks_start(&r, &plan, 0.5, run_without_some, &lost);
		ranks_wait(&r, 30, -1);
		assert_string_equal(r.said[1], lost ? "3 of this host's 4 "
			"ranks have come within 0.5 s; missing, by their "
			"numbers on this host: 3\n" : r.said[2]);
		assert_int_equal(r.exits[1], GAVE_UP);
		assert_int_equal(r.exits[2], GAVE_UP);
	}
	assert_non_null(strstr(r.said[1], "3"));
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_message),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_gives_up),
		cmocka_unit_test(test_news),
		cmocka_unit_test(test_another_plan),
		cmocka_unit_test(test_missing)
	};

	return ranks_main(argc, argv, tests, sizeof(tests) / sizeof(*tests));
}
