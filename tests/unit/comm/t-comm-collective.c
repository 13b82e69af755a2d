/*
 * Collectives whose outcome is known: many, large, of numbers, from stage
 * to stage, of some places alone, and of a rank with itself.
 */
#include "tests/unit/comm/t-comm.h"

static const struct rt_axis no_axis[] = { { NULL, 0, 0 } };
static const struct rt_axis two[] = { { NULL, 0, 0 }, { "tp", 2, 0 } };
static const struct rt_axis four[] = { { NULL, 0, 0 }, { "dp", 2, 0 },
	{ "mb", 3, 1 }, { "tp", 2, 0 } };
static const struct rt_axis pipes[] = { { NULL, 0, 0 }, { "pp", 4, 0 },
	{ "tp", 2, 0 } };

/* ---- many small ones ---- */

/* One dim of n elements, which all ranks have. */
struct row {
	struct rt_pieces at[MOST_RANKS];
	struct rt_spread s;
	const struct rt_spread *dims[1];
};

static struct rt_coll
coll_of_row(struct row *r, int64_t n, const char *what, enum rt_coll_op op)
{
	int64_t i;

	for (i = 0; i < MOST_RANKS; i++) {
		r->at[i] = (struct rt_pieces){ .n = 1, .total = n };
		r->at[i].at[0].start = 0;
		r->at[i].at[0].count = n;
	}
	r->s = (struct rt_spread){ n, 0, r->at };
	r->dims[0] = &r->s;
	return (struct rt_coll){ .what = what, .op = op, .axes = -1,
		.elem = RT_ELEM_F32, .ndims = 1, .in = r->dims,
		.out = r->dims };
}

static int
run_many(const struct rt_comm_options *o, void *user)
{
	struct row row;
	struct rt_coll t = coll_of_row(&row, 5, "all_reduce", RT_COLL_SUM);
	struct rt_error err;
	struct rt_comm *c;
	int i, j;

	(void)user;
	if (rt_comm_open(&c, o, 4096, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	for (i = 0; i < 10000; i++) {
		float *x = (void *)rt_comm_arena(c);

		for (j = 0; j < 5; j++) {
			x[j] = (float)(i + j + (int)o->world.rank);
		}
		if (rt_comm_coll(c, &t, i % PLAN_MICROBATCHES, (char *)x,
				 (char *)x, -1, &err) != RT_OK) {
			return gave_up(c, &err);
		}
		for (j = 0; j < 5; j++) {
			if (x[j] != (float)(4 * (i + j) + 6)) {
				fprintf(stderr, "collective %d\n", i);
				return WRONG;
			}
		}
	}
	rt_comm_free(c);
	return 0;
}

static void
test_many(void **state)
{
	struct rt_plan p = plan_of(four, 4);

	(void)state;
	ranks_run(&p, run_many, NULL);
}

/* ---- numbers of the host's own ---- */

enum { NUMBERS = 5000 };

static int
run_numbers(const struct rt_comm_options *o, void *user)
{
	int64_t rank = o->world.rank, m[2] = { rank, -rank }, i;
	uint64_t *u = calloc(NUMBERS, sizeof(*u));
	double *f = calloc(NUMBERS, sizeof(*f));
	struct rt_error err;
	struct rt_comm *c;
	bool good = true;

	(void)user;
	if (rt_comm_open(&c, o, 0, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	for (i = 0; i < NUMBERS; i++) {
		u[i] = UINT64_MAX - (uint64_t)(rank * i);
		f[i] = (double)(rank * i) + 0.25;
	}
	/* over tp and time: ranks 2k and 2k + 1 */
	if (rt_comm_sum_f64(c, 1 << 2 | 1 << 3, f, NUMBERS, &err) != RT_OK ||
	    rt_comm_sum_u64(c, u, NUMBERS, &err) != RT_OK ||
	    rt_comm_max_i64(c, m, 2, &err) != RT_OK ||
	    rt_comm_sum_f64(c, 1 << 2, f, 1, &err) != RT_OK ||
	    rt_comm_barrier(c, "the end", &err) != RT_OK) {
		return gave_up(c, &err);
	}
	for (i = 0; i < NUMBERS; i++) {
		good = good && u[i] == UINT64_MAX - (uint64_t)(6 * i + 3) &&
		       f[i] == (double)((2 * (rank / 2 * 2) + 1) * i) + 0.5;
	}
	good = good && m[0] == 3 && m[1] == 0;
	rt_comm_free(c);
	free(u);
	free(f);
	return good ? 0 : WRONG;
}

static void
test_numbers(void **state)
{
	struct rt_plan p = plan_of(four, 4);

	(void)state;
	ranks_run(&p, run_numbers, NULL);
}

/* ---- what is resident ---- */

enum { LONG = 12 << 20, LONG_ROOM = 2 * LONG * 4 };

static int64_t
shared_kib(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long n = -1;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "RssShmem: %ld", &n) == 1) {
			break;
		}
	}
	if (f) {
		fclose(f);
	}
	return n;
}

/* A sum, its halves, and both halves again, of 48 MiB. */
static int
run_resident(const struct rt_comm_options *o, void *user)
{
	struct row all, half;
	struct rt_coll t = coll_of_row(&all, LONG, "x", RT_COLL_SUM);
	int64_t rank = o->world.rank, i;
	struct rt_error err;
	struct rt_comm *c;
	float *x, *y;

	(void)user;
	coll_of_row(&half, LONG / 2, "y", RT_COLL_SUM);
	for (i = 0; i < 2; i++) {
		half.at[i].at[0].start = i * (LONG / 2);
	}
	if (rt_comm_open(&c, o, LONG_ROOM, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	x = (void *)rt_comm_arena(c);
	y = x + LONG;
	for (i = 0; i < LONG; i++) {
		x[i] = (float)(i % 1000 + rank);
		y[i] = 0;
	}
	if (rt_comm_coll(c, &t, 0, (char *)x, (char *)x, -1, &err) != RT_OK) {
		return gave_up(c, &err);
	}
	t.out = half.dims;
	if (rt_comm_coll(c, &t, 0, (char *)x, (char *)y, -1, &err) != RT_OK) {
		return gave_up(c, &err);
	}
	t.in = half.dims;
	t.out = all.dims;
	t.op = RT_COLL_COPY;
	if (rt_comm_coll(c, &t, 0, (char *)y, (char *)x, -1, &err) != RT_OK) {
		return gave_up(c, &err);
	}
	for (i = 0; i < LONG; i++) {
		if (x[i] != (float)(2 * (2 * (i % 1000) + 1))) {
			fprintf(stderr, "element %d\n", (int)i);
			return WRONG;
		}
	}
	i = shared_kib() - LONG_ROOM / 1024;
	if (i > 17 * 1024) {
		fprintf(stderr, "%d KiB more than the arena\n", (int)i);
		return WRONG;
	}
	rt_comm_free(c);
	return 0;
}

static void
test_resident(void **state)
{
	struct rt_plan p = plan_of(two, 2);

	(void)state;
	ranks_run(&p, run_resident, NULL);
}

/* ---- from stage to stage ---- */

enum { LEN = 3000, STEPS = 4, MICROBATCHES = 6, COPIES = 2 };

static int32_t
sent_value(int64_t step, int64_t mb, int64_t rank, int64_t i)
{
	return (int32_t)(step * 1000000 + mb * 10000 + rank * 1000 + i % 997);
}

/*
 * Place 0 sends each microbatch by turns from two places to place 2, which
 * takes them late; and all of them from slots, which place 2 takes in the
 * opposite order; and one to itself.
 */
static int
pipeline_step(struct rt_comm *c, const struct rt_comm_options *o, int64_t step,
	      struct rt_coll *turns, struct rt_coll *slots,
	      struct rt_error *err)
{
	int32_t *x = (void *)rt_comm_arena(c), *got = x + 10 * LEN;
	int64_t pipe = o->world.rank / 2, rank = o->world.rank, mb, i;
	struct rt_coll t;
	char *at;

	for (mb = 0; mb < MICROBATCHES && pipe == 0; mb++) {
		int32_t *slot = x + (2 + mb) * LEN;

		t = *turns;
		t.op = RT_COLL_FREE;
		if (rt_comm_coll(c, &t, mb, NULL, NULL, -1, err) != RT_OK) {
			return GAVE_UP;
		}
		at = (char *)(x + (step * MICROBATCHES + mb) % COPIES * LEN);
		for (i = 0; i < LEN; i++) {
			slot[i] = sent_value(step, mb, rank, i);
			memcpy(at + i * 4, &slot[i], 4);
		}
		t.op = slots->op = RT_COLL_SEND;
		if (rt_comm_coll(c, &t, mb, at, NULL, -1, err) != RT_OK ||
		    rt_comm_coll(c, slots, mb, (char *)slot, NULL, -1, err) !=
			    RT_OK) {
			return GAVE_UP;
		}
	}
	for (mb = 0; mb < 2 * MICROBATCHES && pipe == 2; mb++) {
		int64_t which = mb < MICROBATCHES ? mb :
			2 * MICROBATCHES - 1 - mb;

		t = mb < MICROBATCHES ? *turns : *slots;
		t.op = RT_COLL_RECV;
		t.peer = 0;
		if (mb == 1) {
			poll(NULL, 0, 3);
		}
		if (rt_comm_coll(c, &t, which, NULL, (char *)got, -1, err) !=
		    RT_OK) {
			return GAVE_UP;
		}
		for (i = 0; i < LEN; i++) {
			if (got[i] != sent_value(step, which, rank % 2, i)) {
				fprintf(stderr, "step %d microbatch %d: %d\n",
					(int)step, (int)which, (int)got[i]);
				return WRONG;
			}
		}
	}
	return 0;
}

static int
run_pipeline(const struct rt_comm_options *o, void *user)
{
	struct row row, other;
	struct rt_coll turns = coll_of_row(&row, LEN, "x.0", RT_COLL_SEND);
	struct rt_coll slots = coll_of_row(&other, LEN, "x.1", RT_COLL_SEND);
	struct rt_error err;
	struct rt_comm *c;
	int64_t step;
	int bad = 0;

	(void)user;
	turns.elem = slots.elem = RT_ELEM_I32;
	turns.channel = 0;
	slots.channel = 1;
	turns.peer = slots.peer = 2;
	turns.copies = COPIES;
	if (rt_comm_open(&c, o, 11 * LEN * 4, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	for (step = 0; step < STEPS && bad == 0; step++) {
		bad = pipeline_step(c, o, step, &turns, &slots, &err);
		if (bad == 0 && o->world.rank / 2 == 1) {
			/* to itself */
			struct rt_coll t = turns;
			char *at = rt_comm_arena(c);

			at[0] = (char)step;
			t.channel = 2;
			t.peer = 1;
			t.op = RT_COLL_SEND;
			if (rt_comm_coll(c, &t, 0, at, NULL, -1, &err)) {
				return gave_up(c, &err);
			}
			t.op = RT_COLL_RECV;
			if (rt_comm_coll(c, &t, 0, NULL, at + LEN * 4, -1,
					 &err)) {
				return gave_up(c, &err);
			}
			bad = at[LEN * 4] == (char)step ? 0 : WRONG;
		}
		/* slots are written again when all have been taken, which all
		 * wait for, or the sender alone */
		if (bad == 0 && (step % 2 ? rt_comm_barrier(c, "a step", &err)
				 : rt_comm_settle(c, "a step", &err))) {
			bad = GAVE_UP;
		}
	}
	if (bad == GAVE_UP) {
		return gave_up(c, &err);
	}
	rt_comm_free(c);
	return bad;
}

static void
test_pipeline(void **state)
{
	struct rt_plan p = plan_of(pipes, 3);

	(void)state;
	p.pp = 1;
	p.npipes = 4;
	p.nchannels = 3;
	p.nmicrobatches = MICROBATCHES;
	ranks_run(&p, run_pipeline, NULL);
}

/* ---- of some places of the pipeline alone ---- */

static int
run_holders(const struct rt_comm_options *o, void *user)
{
	struct row row;
	struct rt_coll all = coll_of_row(&row, 7, "all_reduce", RT_COLL_SUM);
	struct rt_coll some = all;
	int64_t pipe = o->world.rank / 2;
	struct rt_error err;
	struct rt_comm *c;
	int i;

	(void)user;
	all.axes = some.axes = 1 << 1;
	some.holders = 1 << 0 | 1 << 3;
	if (rt_comm_open(&c, o, 4096, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	for (i = 0; i < 50; i++) {
		float *x = (void *)rt_comm_arena(c);
		bool take_part = pipe == 0 || pipe == 3;

		x[0] = (float)pipe;
		if (take_part && rt_comm_coll(c, &some, 0, (char *)x,
					      (char *)x, -1, &err) != RT_OK) {
			return gave_up(c, &err);
		}
		if (x[0] != (take_part ? 3 : (float)pipe)) {
			return WRONG;
		}
		if (rt_comm_coll(c, &all, 0, (char *)x, (char *)x, -1,
				 &err) != RT_OK) {
			return gave_up(c, &err);
		}
		if (x[0] != 3 + 1 + 2 + 3) {
			return WRONG;
		}
	}
	rt_comm_free(c);
	return 0;
}

static void
test_holders(void **state)
{
	struct rt_plan p = plan_of(pipes, 3);

	(void)state;
	p.pp = 1;
	p.npipes = 4;
	ranks_run(&p, run_holders, NULL);
}

/* ---- alone ---- */

static void
test_alone(void **state)
{
	struct rt_plan p = plan_of(no_axis, 1);
	struct rt_comm_options o = { .plan = &p, .timeout_s = 1,
		.world = { 0, 1, 0, 1, "alone", "", 0 }, .report_fd = -1 };
	struct rt_coll t;
	struct rt_error err;
	struct rt_comm *c;
	struct row row;
	char *at;

	(void)state;
	p.nchannels = 1;
	assert_int_equal(rt_comm_open(&c, &o, 1 << 20, &err), RT_OK);
	at = rt_comm_arena(c);
	assert_int_equal(at[(1 << 20) - 1], 0);
	t = coll_of_row(&row, 100000, "all_reduce", RT_COLL_SUM);
	memset(at, 1, 400000);
	assert_int_equal(rt_comm_coll(c, &t, 0, at, at, -1, &err), RT_OK);
	assert_int_equal(rt_comm_coll(c, &t, 0, at, at + 400000, -1, &err),
			 RT_OK);
	assert_memory_equal(at, at + 400000, 400000);
	t.op = RT_COLL_SEND;
	assert_int_equal(rt_comm_coll(c, &t, 2, at, NULL, -1, &err), RT_OK);
	memset(at + 400000, 2, 400000);
	t.op = RT_COLL_RECV;
	assert_int_equal(rt_comm_coll(c, &t, 2, NULL, at + 400000, -1, &err),
			 RT_OK);
	assert_memory_equal(at, at + 400000, 400000);
	/* what cannot be */
	assert_int_equal(rt_comm_coll(c, &t, 3, NULL, at, -1, &err),
			 RT_RANGE);
	assert_int_equal(rt_comm_coll(c, &t, 0, NULL, at + 700000, -1, &err),
			 RT_RANGE);
	assert_string_equal(err.message, "all_reduce: not in the arena");
	t.op = RT_COLL_SUM;
	assert_int_equal(rt_comm_coll(c, &t, 0, at, at + 4, -1, &err),
			 RT_RANGE);
	rt_comm_free(c);
	o.world.size = 2;
	assert_int_equal(rt_comm_open(&c, &o, 0, &err), RT_RANGE);
	assert_string_equal(err.message, "the plan is for 1 ranks, but there "
			    "are 2 (alone)");
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_resident),
		cmocka_unit_test(test_pipeline),
		cmocka_unit_test(test_holders)
	};

	return ranks_main(argc, argv, tests, sizeof(tests) / sizeof(*tests));
}
