/*
 * Queues between rank 0 and others: messages come whole and in order, whoever
 * sends waits for a place alone, and not for ever.
 */
#include "tests/unit/comm/t-comm.h"

#include "runtime/comm/transport.h"

enum { RANKS = 3, DEPTH = 3, DOWN = 200000, UP = 70000, ROUNDS = 40 };

static const struct rt_axis axes[] = { { NULL, 0, 0 }, { "tp", RANKS, 0 } };
static const char what[] = "a message";

static struct rt_plan
plan(void)
{
	struct rt_plan p = plan_of(axes, 2);

	p.json = "{}";
	return p;
}

static enum rt_status
open_queues(struct rt_comm **c, const struct rt_comm_options *o,
	    struct rt_error *err)
{
	struct rt_comm_options with = *o;

	with.queues = (struct rt_queues){ DEPTH, DOWN, UP };
	return rt_comm_open(c, &with, 4096, err);
}

/* Message i to or from that rank: from nothing to the most. */
static int64_t
fill(unsigned char *at, int64_t rank, bool up, int64_t i)
{
	static const int64_t sizes[] = { 24, 0, 1, 60000, 5000 };
	uint64_t seed = (uint64_t)((rank * 2 + up) * 1000 + i);
	int64_t n = sizes[i % 5], k;

	n = i % 7 == 6 ? (up ? UP : DOWN) : n;
	for (k = 0; k < n; k++) {
		at[k] = (unsigned char)(seed * 31 + (uint64_t)k * 7 +
					(uint64_t)k / 251);
	}
	return n;
}

static unsigned char want[DOWN], got[DOWN];

static enum rt_status
put(struct rt_comm *c, int64_t to, int64_t rank, bool up, int64_t i,
    struct rt_error *err)
{
	int64_t n = fill(want, rank, up, i);

	return rt_comm_send_queued(c, what, to, want, n, err);
}

static enum rt_status
get(struct rt_comm *c, int64_t from, int64_t rank, bool up, int64_t i,
    struct rt_error *err)
{
	int64_t n = fill(want, rank, up, i), bytes = -1;
	enum rt_status s = rt_comm_receive_queued(c, what, from, got,
						  up ? UP : DOWN, &bytes, err);

	if (s == RT_OK && (bytes != n ||
			   memcmp(got, want, (size_t)n) != 0)) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "message %lld of "
			"%lld bytes is another", (long long)i,
			(long long)bytes);
	}
	return s;
}

/* Rank 0 fills all queues before any rank takes anything, and the others
 * theirs before rank 0 does. */
static int
fill_first(const struct rt_comm_options *o, void *user)
{
	int64_t me = o->world.rank, r, i;
	struct rt_error err;
	struct rt_comm *c;
	enum rt_status s = open_queues(&c, o, &err);

	(void)user;
	for (i = 0; i < DEPTH && s == RT_OK; i++) {
		for (r = 1; r < RANKS && me == 0 && s == RT_OK; r++) {
			s = put(c, r, r, false, i, &err);
		}
		s = me > 0 ? put(c, 0, me, true, i, &err) : s;
	}
	if (s == RT_OK) {
		s = rt_comm_barrier(c, "all are full", &err);
	}
	for (i = 0; i < DEPTH && s == RT_OK; i++) {
		for (r = 1; r < RANKS && me == 0 && s == RT_OK; r++) {
			s = get(c, r, r, true, i, &err);
		}
		s = me > 0 ? get(c, 0, me, false, i, &err) : s;
	}
	if (s != RT_OK) {
		return gave_up(c, &err);
	}
	rt_comm_free(c);
	return 0;
}

static void
test_full(void **state)
{
	struct rt_plan p = plan();

	(void)state;
	ranks_run(&p, fill_first, NULL);
}

/* Rank 0 goes ahead as far as it can: rank 1 is slow, rank 2 is not. */
static int
go_ahead(const struct rt_comm_options *o, void *user)
{
	int64_t me = o->world.rank, r, i;
	struct rt_error err;
	struct rt_comm *c;
	enum rt_status s = open_queues(&c, o, &err);

	(void)user;
	for (i = 0; i < ROUNDS && s == RT_OK; i++) {
		for (r = 1; r < RANKS && me == 0 && s == RT_OK; r++) {
			s = put(c, r, r, false, i, &err);
			if (s == RT_OK && i >= DEPTH) {
				s = get(c, r, r, true, i - DEPTH, &err);
			}
		}
		if (me > 0) {
			poll(NULL, 0, me == 1 && i % 8 == 0 ? 20 : 0);
			s = get(c, 0, me, false, i, &err);
			s = s == RT_OK ? put(c, 0, me, true, i, &err) : s;
		}
	}
	for (i = ROUNDS - DEPTH; i < ROUNDS && me == 0; i++) {
		for (r = 1; r < RANKS && s == RT_OK; r++) {
			s = get(c, r, r, true, i, &err);
		}
	}
	if (s != RT_OK) {
		return gave_up(c, &err);
	}
	rt_comm_free(c);
	return 0;
}

static void
test_order(void **state)
{
	struct rt_plan p = plan();

	(void)state;
	ranks_run(&p, go_ahead, NULL);
}

/* What no queue has, and a message that is larger than it may be. */
static int
ask_wrongly(const struct rt_comm_options *o, void *user)
{
	int64_t me = o->world.rank, bytes, k;
	struct rt_error err;
	struct rt_comm *c;
	enum rt_status s = open_queues(&c, o, &err);
	const struct {
		int64_t rank, bytes;
	} wrong[] = { { me, 1 }, { -1, 1 }, { RANKS, 1 },
		{ me ? 3 - me : 1, me ? 1 : DOWN + 1 }, { me ? 0 : 1, -1 } };

	(void)user;
	for (k = 0; k < 5 && s == RT_OK; k++) {
		s = rt_comm_send_queued(c, what, wrong[k].rank, want,
				wrong[k].bytes, &err) == RT_RANGE
			? RT_OK : RT_FORMAT;
	}
	if (s != RT_OK) {
		return WRONG;
	}
	if (me == 1) {
		s = rt_comm_send_queued(c, what, 0, want, 100, &err);
	} else if (me == 0 &&
		   rt_comm_receive_queued(c, what, 1, got, 99, &bytes, &err) ==
			   RT_OK) {
		return WRONG;
	}
	if (s != RT_OK || (me == 0 && (bytes != 100 || !strstr(err.message,
			"expects at most 99 in a message")))) {
		fprintf(stderr, "%s\n", err.message);
		return WRONG;
	}
	rt_comm_free(c);
	return 0;
}

static void
test_wrong(void **state)
{
	struct rt_plan p = plan();

	(void)state;
	ranks_run(&p, ask_wrongly, NULL);
}

/* Rank 2 dies: who waits for its message, or for a place, says so. */
static int
die(const struct rt_comm_options *o, void *user)
{
	int64_t me = o->world.rank, bytes, i;
	bool sends = *(const bool *)user;
	struct rt_error err;
	struct rt_comm *c;
	enum rt_status s = open_queues(&c, o, &err);

	if (s == RT_OK) {
		s = rt_comm_barrier(c, "all are there", &err);
	}
	if (s == RT_OK && me == 2) {
		_exit(3);
	}
	if (s == RT_OK && me == 1) {
		s = rt_comm_receive_queued(c, what, 0, got, DOWN, &bytes,
					   &err);
	} else if (s == RT_OK && sends) {
		for (i = 0; i <= DEPTH && s == RT_OK; i++) {
			s = rt_comm_send_queued(c, what, 2, want, DOWN, &err);
		}
	} else if (s == RT_OK) {
		s = rt_comm_receive_queued(c, what, 2, got, UP, &bytes, &err);
	}
	return s == RT_OK ? WRONG : gave_up(c, &err);
}

static void
test_death(void **state)
{
	struct rt_plan p = plan();
	bool sends[] = { false, true };
	struct ranks r;
	int64_t i, k;

	(void)state;
	for (i = 0; i < 2; i++) {
		ranks_start(&r, &p, 60, die, &sends[i]);
		ranks_wait(&r, 50, -1);
		for (k = 0; k < 2; k++) {
			if (r.exits[k] != GAVE_UP ||
			    !strstr(r.said[k], "rank 2 ")) {
				fail_msg("rank %d exits with %d: %s", (int)k,
					 r.exits[k], r.said[k]);
			}
		}
	}
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_death),
	};

	return ranks_main(argc, argv, tests, sizeof(tests) / sizeof(*tests));
}
