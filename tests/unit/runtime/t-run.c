/*
 * The program of a rank on a plan by hand, alone: its steps are held to plain
 * C, whatever the number of threads, and so are training, bench, verify and
 * sample.  Ranks that communicate, token files and checkpoints are tested
 * elsewhere, and stood in for here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "t-rank.h"
#include "tests/unit/runtime/t-alone.h"

#include <unistd.h>

static const struct rt_plan toy = TOY_PLAN(1);
static const struct rt_plan two = TOY_PLAN(2);

/* ---- stand-ins: checkpoints in memory ---- */

/* The last checkpoint, in memory. */
static struct {
	bool there;
	int saves;
	char arena[TOY_ARENA];
	struct rt_progress p;
} saved;

enum rt_status
rt_checkpoint_save(const struct rt_store *s, const struct rt_progress *p,
		   const char *folder, int64_t keep, struct rt_error *err)
{
	(void)folder;
	(void)keep;
	(void)err;
	memcpy(saved.arena, s->arena, TOY_ARENA);
	saved.p = *p;
	saved.there = true;
	saved.saves++;
	return RT_OK;
}

enum rt_status
rt_checkpoint_load(const struct rt_store *s, const char *path,
		   struct rt_progress *p, struct rt_error *err)
{
	int64_t i;

	(void)path;
	if (!saved.there) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "there is none");
	}
	for (i = 0; i < s->program->nholds; i++) {
		memcpy(s->arena + s->program->holds[i].offset,
		       saved.arena + s->program->holds[i].offset, 64);
	}
	*p = saved.p;
	return RT_OK;
}

/* A save behind steps, which is complete at the second poll. */
struct rt_behind {
	struct rt_store s;
	struct rt_progress p;
	int polls;
};

enum rt_status
rt_behind_open(struct rt_behind **out, const struct rt_store *s,
	       const char *folder, int64_t keep, struct rt_error *err)
{
	(void)folder;
	(void)keep;
	(void)err;
	*out = calloc(1, sizeof **out);
	assert_non_null(*out);
	(*out)->s = *s;
	return RT_OK;
}

bool
rt_behind_is_busy(const struct rt_behind *b)
{
	return b && b->polls > 0;
}

enum rt_status
rt_behind_begin(struct rt_behind *b, const struct rt_progress *p,
		struct rt_error *err)
{
	(void)err;
	assert_false(rt_behind_is_busy(b));
	b->p = *p;
	b->polls = 2;
	return RT_OK;
}

enum rt_status
rt_behind_poll(struct rt_behind *b, bool wait, int64_t *step,
	       struct rt_error *err)
{
	b->polls -= wait ? b->polls : 1;
	*step = b->polls ? -1 : b->p.step;
	if (b->polls == 0 && b->p.step == 7) {
		return rt_fail(err, RT_IO, RT_NOWHERE, "no space behind");
	}
	return b->polls ? RT_OK : rt_checkpoint_save(&b->s, &b->p, NULL, 0,
						     err);
}

void
rt_behind_close(struct rt_behind *b)
{
	free(b);
}

enum rt_status
rt_weights_load(const struct rt_store *s, struct rt_weights_options *o,
		struct rt_error *err)
{
	(void)s;
	(void)o;
	return rt_fail(err, RT_IO, RT_NOWHERE, "no weights here");
}

/* ---- steps ---- */

struct plain {
	float w[TOY_VOCAB], m[TOY_VOCAB], norm;
	double loss;
};

/* The same model, in the order of its sums. */
static void
plain_step(struct plain *p, int64_t first)
{
	float g[TOY_VOCAB] = { 0 }, sum, d;
	int64_t mb, row, s, v, t, l;
	double rows;

	p->loss = 0;
	for (mb = 0; mb < 2; mb++) {
		sum = 0;
		for (row = 0; row < 4; row++) {
			rows = 0;
			for (s = 0; s < TOY_SEQ; s++) {
				t = ((first + mb * 4 + row) * 3 + s) %
				    TOY_VOCAB;
				l = (t + 1) % TOY_VOCAB;
				d = p->w[t] - (float)l / TOY_VOCAB;
				rows += d * d;
				g[t] += 2 * d / TOY_TOKENS;
			}
			sum += (float)(rows / TOY_TOKENS);
		}
		p->loss += sum;
	}
	sum = 0;
	for (v = 0; v < TOY_VOCAB; v++) {
		p->m[v] = 0.5f * p->m[v] + g[v];
		p->w[v] -= 2 * p->m[v];
		sum += g[v] * g[v];
	}
	p->norm = sqrtf(sum);
}

static void
test_steps(void **state)
{
	struct rt_feed feed = rt_feed_of(NULL, 0, &unmarked);
	struct rt_outcome c;
	int64_t threads, step;
	struct bed b;

	(void)state;
	for (threads = 1; threads <= TOY_WORKERS; threads++) {
		struct plain p = { .loss = 0 };

		open_plan(&b, &toy, threads);
		memset(b.comm.arena, 0x55, TOY_ARENA);
		assert_int_equal(rt_run_start(b.r, &b.err), RT_OK);
		for (step = 1; step <= 20; step++) {
			feed.first = (step - 1) * TOY_BATCH;
			assert_int_equal(rt_run_step(b.r, step, &feed, true,
					step == 20, &c, &b.err), RT_OK);
			plain_step(&p, feed.first);
			assert_int_equal(c.n, 1);
			assert_true(fabs(c.at[0] - p.loss) <= 1e-6 * p.loss);
			assert_int_equal(c.nwatch, 1);
			assert_true(fabs(c.watch[0] - p.norm) <=
				    1e-6 * p.norm);
			assert_true(c.stop == (step == 20));
		}
		for (step = 0; step < TOY_VOCAB; step++) {
			assert_true(fabs(rt_elem_number(b.comm.arena,
							RT_ELEM_F32, step) -
					 p.w[step]) < 1e-6);
		}
		close_plan(&b);
	}
}

/* Without an update nothing that lasts changes. */
static void
test_evaluation_step(void **state)
{
	struct rt_outcome with, without;
	struct bed b;
	char before[256];

	(void)state;
	open_plan(&b, &toy, 2);
	assert_int_equal(rt_run_start(b.r, &b.err), RT_OK);
	memcpy(before, b.comm.arena, 64);
	assert_int_equal(rt_run_step(b.r, 1, NULL, false, false, &without,
				     &b.err), RT_OK);
	assert_memory_equal(before, b.comm.arena, 64);
	assert_int_equal(rt_run_step(b.r, 1, NULL, true, false, &with,
				     &b.err), RT_OK);
	assert_true(with.at[0] == without.at[0]);
	/* what tests/cli/run/rank.sh has of two ranks */
	assert_true(fabs(with.at[0] - 0.2402) < 5e-5);
	assert_true(fabs(with.watch[0] - 0.2345) < 5e-5);
	assert_memory_not_equal(before, b.comm.arena, 64);
	assert_true(with.times.compute > 0 && with.times.update > 0);
	close_plan(&b);
}

static void
test_numbers(void **state)
{
	static const uint16_t half[] = { 0x3c00, 0xc000, 0x0001, 0x7bff,
					 0x7c00, 0x8000 };
	static const double halves[] = { 1, -2, 0x1p-24, 65504, INFINITY,
					 -0.0 };
	static const uint16_t brain[] = { 0x3f80, 0xc049 };
	static const int32_t whole[] = { -7 };
	static const double wide[] = { 0.1 };
	size_t i;

	(void)state;
	for (i = 0; i < 6; i++) {
		assert_true(rt_elem_number((const char *)half, RT_ELEM_F16,
					   (int64_t)i) == halves[i]);
	}
	assert_true(rt_elem_number((const char *)brain, RT_ELEM_BF16, 0) == 1);
	assert_true(rt_elem_number((const char *)brain, RT_ELEM_BF16, 1) ==
		    -3.140625);
	assert_true(rt_elem_number((const char *)whole, RT_ELEM_I32, 0) == -7);
	assert_true(rt_elem_number((const char *)wide, RT_ELEM_F64, 0) == 0.1);
}

/* A function's own status, and a collective's, end the step with a reason. */
static int64_t
fails(struct rt_env *e, int64_t mb)
{
	char *at[] = { e->arena, e->arena };

	return mb == 0 ? 0 : e->coll(e, &toy_add_g, at, 7);
}

static void
test_failing_step(void **state)
{
	static const struct rt_func f = { "bad", 0, 'F', fails, 0 };
	static const struct rt_action actions[] = { { &f, 0 }, { &f, 1 } };
	struct rt_program g = toy_program1;
	struct rt_plan p = toy;
	struct rt_outcome c;
	struct bed b;

	(void)state;
	g.actions = actions;
	g.nactions = 2;
	p.programs = &g;
	open_plan(&b, &p, 1);
	assert_int_equal(rt_run_step(b.r, 1, NULL, true, false, &c, &b.err),
			 RT_IO);
	assert_string_equal(b.err.message, "no such iteration");
	close_plan(&b);
}

static void
test_strange_inputs(void **state)
{
	struct rt_feed feed = rt_feed_of(NULL, 0, &unmarked);
	struct rt_port in = toy_inputs1[0];
	struct rt_program g = toy_program1;
	struct rt_plan p = toy;
	struct rt_outcome c;
	struct bed b;

	(void)state;
	in.name = "pixels";
	g.inputs = &in;
	g.ninputs = 1;
	g.draw = NULL;
	p.programs = &g;
	open_plan(&b, &p, 1);
	assert_int_equal(rt_run_step(b.r, 1, &feed, true, false, &c, &b.err),
			 RT_RANGE);
	assert_non_null(strstr(b.err.message, "`pixels` is none of tokens"));
	assert_int_equal(rt_run_step(b.r, 1, NULL, true, false, &c, &b.err),
			 RT_RANGE);
	assert_non_null(strstr(b.err.message, "cannot draw"));
	close_plan(&b);
}

/* Learning rates, against the formula with the functions of the C library. */
static void
test_rates(void **state)
{
	const double pi = acos(-1);
	struct rt_training t = { .lr = 0.25, .min_lr = 0.05, .warmup = 3,
				 .decay = 7, .steps = 20 };
	double x, want;
	int64_t step, from;

	(void)state;
	for (t.schedule = 0; t.schedule < RT_SCHEDULES; t.schedule++) {
		from = t.schedule == RT_WSD ? 13 : 3;
		for (step = 1; step <= 25; step++) {
			x = fmin(1, fmax(0, (double)(step - from) / 7));
			want = t.schedule == RT_CONSTANT ? 0.25
				: t.schedule == RT_COSINE
				? 0.05 + 0.2 * (1 + cos(pi * x)) / 2
				: 0.25 - 0.2 * x;
			want *= fmin(1, (double)step / 3);
			assert_true(fabs(rt_training_rate(&t, step) - want) <
				    1e-15);
		}
	}
	/* to the last step, where no number of steps is given */
	t = (struct rt_training){ .schedule = RT_LINEAR, .lr = 1,
				  .steps = 10 };
	assert_true(rt_training_rate(&t, 4) == 0.6);
	assert_true(rt_training_rate(&t, 10) == 0);
	t.schedule = RT_CONSTANT;
	t.lr = 0;
	assert_true(rt_training_rate(&t, 4) == 0);
}

/* ---- training ---- */

static char *
train(struct bed *b, const char *line, int flagged)
{
	struct rt_options o = options(line);
	volatile sig_atomic_t flag = flagged;
	FILE *f = tmpfile();
	char *text;

	open_plan(b, &toy, 2);
	if (rt_train(b->r, &o, &flag, f, &b->err) != RT_OK) {
		fail_msg("%s", b->err.message);
	}
	text = text_of(f);
	fclose(f);
	rt_options_release(&o);
	return text;
}

static int
count(const char *s, const char *what)
{
	int n = 0;

	while ((s = strstr(s, what))) {
		s++;
		n++;
	}
	return n;
}

/* Steps, stopped and resumed, come to the same bits as those that ran on. */
static void
test_resume(void **state)
{
	char whole[2 * 64], *text;
	struct bed b;

	(void)state;
	memset(&saved, 0, sizeof saved);
	text = train(&b, "train --data f --steps 9 --seed 3", 0);
	assert_int_equal(count(text, "\nstep "), 9);
	assert_non_null(strstr(text, "\nended at step 9\n"));
	memcpy(whole, b.comm.arena, 64);
	memcpy(whole + 64, b.comm.arena + TOY_M, 64);
	free(text);
	close_plan(&b);
	text = train(&b, "train --data f --steps 4 --checkpoint c --seed 3 "
		     "--eval-data f --eval-every 2", 0);
	assert_int_equal(count(text, "\nevaluation at step "), 2);
	assert_int_equal(saved.saves, 1);
	assert_int_equal(saved.p.step, 4);
	assert_int_equal(saved.p.sequences, 4 * TOY_BATCH);
	free(text);
	close_plan(&b);
	text = train(&b, "train --data f --steps 9 --checkpoint c --resume "
		     "--every 2", 0);
	assert_int_equal(saved.saves, 4);
	assert_int_equal(count(text, "\nstep "), 5);
	assert_memory_equal(whole, b.comm.arena, 64);
	assert_memory_equal(whole + 64, b.comm.arena + TOY_M, 64);
	free(text);
	close_plan(&b);
}

/* Saves behind steps end before the next one begins, and before the run. */
static void
test_behind(void **state)
{
	volatile sig_atomic_t flag = 0;
	struct rt_options o;
	FILE *f = tmpfile();
	struct bed b;
	char *text;

	(void)state;
	memset(&saved, 0, sizeof saved);
	text = train(&b, "train --data f --steps 6 --checkpoint c --every 3 "
		     "--async-checkpoint", 0);
	assert_int_equal(saved.saves, 2);
	assert_int_equal(saved.p.step, 6);
	assert_int_equal(count(text, "\ncheckpoint of step "), 2);
	assert_int_equal(count(text, " ms, complete after "), 2);
	assert_true(strstr(text, "\nstep 5 ") <
		    strstr(text, "\ncheckpoint of step 3 "));
	free(text);
	close_plan(&b);
	/* the next save is due before the one before has ended */
	text = train(&b, "train --data f --steps 6 --checkpoint c --every 1 "
		     "--async-checkpoint", 0);
	assert_int_equal(count(text, "\ncheckpoint of step "), 6);
	free(text);
	close_plan(&b);
	/* a signal waits for it; then what is newer is saved */
	text = train(&b, "train --data f --steps 50 --checkpoint c --every 1 "
		     "--async-checkpoint", 15);
	assert_int_equal(count(text, "\nstep "), 1);
	assert_int_equal(saved.p.step, 1);
	free(text);
	close_plan(&b);
	/* a failure behind ends the run at a later step */
	o = options("train --data f --steps 50 --checkpoint c --every 7 "
		    "--async-checkpoint");
	open_plan(&b, &toy, 1);
	assert_int_equal(rt_train(b.r, &o, &flag, f, &b.err), RT_IO);
	assert_string_equal(b.err.message, "no space behind");
	text = text_of(f);
	assert_int_equal(count(text, "\nstep "), 9);
	free(text);
	rt_options_release(&o);
	close_plan(&b);
	fclose(f);
}

/* Nothing to resume from is where a run begins; the data once is its end. */
static void
test_train_ends(void **state)
{
	struct bed b;
	char *text;

	(void)state;
	memset(&saved, 0, sizeof saved);
	text = train(&b, "train --data f --checkpoint c --resume", 0);
	assert_int_equal(count(text, "\nstep "), SEQUENCES / TOY_BATCH);
	assert_int_equal(saved.p.step, SEQUENCES / TOY_BATCH);
	free(text);
	close_plan(&b);
	text = train(&b, "train --data draw --steps 50 --checkpoint c", 15);
	assert_int_equal(count(text, "\nstep "), 1);
	assert_int_equal(saved.p.step, 1);
	assert_non_null(strstr(text, "\nstopped by a signal\n"));
	free(text);
	close_plan(&b);
}

static void
test_other_seed(void **state)
{
	volatile sig_atomic_t flag = 0;
	struct rt_options o;
	FILE *f = tmpfile();
	struct bed b;

	(void)state;
	memset(&saved, 0, sizeof saved);
	free(train(&b, "train --data draw --steps 1 --checkpoint c", 0));
	close_plan(&b);
	o = options("train --data draw --steps 2 --checkpoint c --resume "
		    "--seed 5");
	open_plan(&b, &toy, 1);
	assert_int_equal(rt_train(b.r, &o, &flag, f, &b.err), RT_RANGE);
	assert_non_null(strstr(b.err.message, "of seed 0, and --seed says 5"));
	rt_options_release(&o);
	close_plan(&b);
	fclose(f);
}

/* ---- logs ---- */

static void
test_log(void **state)
{
	static const char *const members[] = {
		"\"loss\": ", "\"gradient_norm\": ", "\"tokens_per_s\": ",
		"\"learning_rate\": ", "\"left_s\": ", "\"host_bytes\": ",
		"\"mfu\": ", "\"step_ms\": ", "\"compute_ms\": ",
		"\"collective_ms\": ", "\"waiting_ms\": ", "\"update_ms\": ",
		"\"data_ms\": ", "\"checkpoint_ms\": "
	};
	char path[] = "/tmp/t-run-XXXXXX", line[128], *text;
	int fd = mkstemp(path);
	struct bed b;
	size_t i;

	(void)state;
	assert_true(fd >= 0);
	snprintf(line, sizeof line, "train --data draw --steps 3 --log %s "
		 "--checkpoint c", path);
	free(train(&b, line, 0));
	close_plan(&b);
	text = file_text(path);
	for (i = 0; i < sizeof members / sizeof *members; i++) {
		assert_int_equal(count(text, members[i]) -
				 (i == 13), 3);
	}
	assert_int_equal(count(text, "\n"), 6);
	assert_int_equal(count(text, "{\"event\": \"start\", "), 1);
	assert_int_equal(count(text, "{\"event\": \"checkpoint\", "), 1);
	assert_int_equal(count(text, "{\"event\": \"end\", "), 1);
	free(text);
	close(fd);
	unlink(path);
}

/* ---- bench, verify, inspect, sample ---- */

static void
test_bench(void **state)
{
	FILE *f = tmpfile();
	struct bed b;
	char *s;

	(void)state;
	open_plan(&b, &toy, 2);
	assert_int_equal(rt_bench(b.r, &(struct rt_options){ .steps = 4 }, f,
				  &b.err), RT_OK);
	s = text_of(f);
	assert_non_null(strstr(s, "  stage0_forward\n"));
	assert_non_null(strstr(s, "  phase\n"));
	assert_non_null(strstr(s, "  pipe0_update\n"));
	assert_non_null(strstr(s, "  squares\n"));
	assert_non_null(strstr(s, "  all_reduce gradients on dp\n"));
	assert_non_null(strstr(s, "predicted      0.020 ms, ratio "));
	free(s);
	rewind(f);
	assert_int_equal(ftruncate(fileno(f), 0), 0);
	assert_int_equal(rt_bench(b.r, &(struct rt_options){ .steps = 1,
				  .json = true }, f, &b.err), RT_OK);
	s = text_of(f);
	assert_int_equal(count(s, "{\"kind\": \"phase\""), 4);
	assert_int_equal(count(s, "{\"kind\": \"kernel\""), 3);
	assert_int_equal(count(s, "{\"kind\": \"collective\""), 2);
	free(s);
	fclose(f);
	close_plan(&b);
}

static void
test_verify(void **state)
{
	struct rt_options o = options("verify");
	FILE *f = tmpfile();
	struct bed b;
	char *s;

	(void)state;
	open_plan(&b, &toy, 2);
	assert_int_equal(rt_verify(b.r, &o, f, &b.err), RT_OK);
	s = text_of(f);
	assert_non_null(strstr(s, "run twice  2 tensors on 1 rank have "));
	free(s);
	fclose(f);
	close_plan(&b);
}

/* A start that is another the second time. */
static int64_t
other_start(struct rt_env *e, int64_t mb)
{
	float *norm = (void *)(e->arena + TOY_COUNT);
	float *m = (void *)(e->arena + TOY_M);
	int64_t status = toy_start(e, mb);

	*norm += 1;
	m[5] = *norm == 2 ? 1e-7f : 0;
	return status;
}

static void
test_verify_finds(void **state)
{
	static const struct rt_func start = { "start", -1, 0, other_start, 0 };
	struct rt_options o = options("verify");
	struct rt_program g = toy_program1;
	struct rt_plan p = toy;
	FILE *f = tmpfile();
	struct bed b;

	(void)state;
	g.start = &start;
	p.programs = &g;
	open_plan(&b, &p, 1);
	assert_int_equal(rt_verify(b.r, &o, f, &b.err), RT_FORMAT);
	assert_non_null(strstr(b.err.message, "has other bits of it when"));
	fclose(f);
	close_plan(&b);
}

/* Of the plan that is looked at, not of the unsplit one. */
static int64_t
wrong_start(struct rt_env *e, int64_t mb)
{
	float *w = (void *)(e->arena + TOY_W);
	int64_t status = toy_start(e, mb);

	w[11] += 0.01f;
	return status;
}

static void
test_verify_whole(void **state)
{
	static const struct rt_func start = { "start", -1, 0, wrong_start, 0 };
	struct rt_options o = options("verify");
	struct rt_program g = toy_program1;
	struct rt_plan p = toy;
	FILE *f = tmpfile();
	struct bed b;
	char *s;

	(void)state;
	p.whole = &toy;
	o.steps = 3;
	open_plan(&b, &p, 2);
	assert_int_equal(rt_verify(b.r, &o, f, &b.err), RT_OK);
	s = text_of(f);
	assert_non_null(strstr(s, "loss and norm of 3 steps are at most 0.0"));
	assert_non_null(strstr(s, "unsplit    weights have the same bits"));
	free(s);
	close_plan(&b);

	g.start = &start;
	p.programs = &g;
	open_plan(&b, &p, 1);
	assert_int_equal(rt_verify(b.r, &o, f, &b.err), RT_FORMAT);
	assert_non_null(strstr(b.err.message, "tensor 'w.momentum': after the "
			       "first step rank 0 "));
	assert_non_null(strstr(b.err.message, " at [11], and it is "));
	fclose(f);
	close_plan(&b);
}

/* Rank 0 of two, where the other says nothing: its sums are zeros. */
static void
test_verify_compares(void **state)
{
	struct rt_options o = options("verify");
	FILE *f = tmpfile();
	struct bed b;

	(void)state;
	open_plan(&b, &two, 1);
	assert_int_equal(rt_verify(b.r, &o, f, &b.err), RT_FORMAT);
	assert_string_equal(b.err.message, "tensor 'w': rank 0 (dp=0) and "
			    "rank 1 (dp=1) have other bits of it after the "
			    "first step");
	fclose(f);
	close_plan(&b);
}

static void
test_inspect(void **state)
{
	FILE *f = tmpfile();
	char *s;

	(void)state;
	rt_inspect(&toy, f);
	s = text_of(f);
	assert_non_null(strstr(s, "\n  actions            F0 F1 B0 B1\n"));
	assert_non_null(strstr(s, "\n  arena                        2944 "
			       "bytes\n"));
	assert_non_null(strstr(s, "\n  weights                        64 "
			       "bytes\n"));
	assert_non_null(strstr(s, "mesh       dp=1: 1 rank, 1 stage, 2 "
			       "microbatches\n"));
	free(s);
	fclose(f);
}

static void
test_sample(void **state)
{
	char path[] = "/tmp/t-run-XXXXXX", line[128], *s;
	int fd = mkstemp(path);
	struct rt_options o;
	FILE *f = tmpfile();
	struct bed b;

	(void)state;
	assert_true(fd >= 0 && write(fd, "3 9\n", 4) == 4);
	memset(&saved, 0, sizeof saved);
	free(train(&b, "train --data f --steps 400 --checkpoint c", 0));
	close_plan(&b);
	open_plan(&b, &toy, 2);
	snprintf(line, sizeof line, "sample --prompt-file %s --checkpoint c "
		 "--tokens 9 --temperature 0", path);
	o = options(line);
	assert_int_equal(rt_sample(b.r, &o, f, &b.err), RT_OK);
	s = text_of(f);
	assert_string_equal(s, "10 11 12 13 14 15 0 1 2\n");
	free(s);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(rt_sample(b.r, &o, f, &b.err), RT_FORMAT);
	assert_non_null(strstr(b.err.message, "this is empty"));
	assert_int_equal(pwrite(fd, "16", 2, 0), 2);
	assert_int_equal(rt_sample(b.r, &o, f, &b.err), RT_FORMAT);
	assert_non_null(strstr(b.err.message, "16 is not one of 0 to 15"));
	rt_options_release(&o);
	close_plan(&b);
	fclose(f);
	close(fd);
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_evaluation_step),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_failing_step),
		cmocka_unit_test(test_strange_inputs),
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_resume),
		cmocka_unit_test(test_behind),
		cmocka_unit_test(test_train_ends),
		cmocka_unit_test(test_other_seed),
		cmocka_unit_test(test_log),
		cmocka_unit_test(test_bench),
		cmocka_unit_test(test_verify),
		cmocka_unit_test(test_verify_finds),
		cmocka_unit_test(test_verify_compares),
		cmocka_unit_test(test_verify_whole),
		cmocka_unit_test(test_inspect),
		cmocka_unit_test(test_sample),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
