/*
 * The program of a rank on a plan by hand, alone: its steps are held to plain
 * C, whatever the number of threads; options, logs, shares of a host.  Ranks
 * that talk, token files and checkpoints are tested elsewhere, and stood in
 * for here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/rank.h"
#include "t-toy.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const struct rt_plan toy = TOY_PLAN(1);

/* ---- stand-ins: one rank, a file of 40 sequences that count ---- */

struct rt_comm {
	char *arena;
};

char *
rt_comm_arena(struct rt_comm *c)
{
	return c->arena;
}

enum rt_status
rt_comm_talk(struct rt_comm *c, const struct rt_talk *t, int64_t microbatch,
	     char *in, char *out, int64_t trip, struct rt_error *err)
{
	(void)c;
	(void)microbatch;
	if (trip != -1) {
		return rt_fail(err, RT_IO, RT_NOWHERE, "no such trip");
	}
	memmove(out, in, (size_t)(t->in[0]->at[0].total * 4));
	return RT_OK;
}

enum rt_status
rt_comm_sum_f64(struct rt_comm *c, int64_t axes, double *at, int64_t n,
		struct rt_error *err)
{
	(void)c;
	(void)axes;
	(void)at;
	(void)n;
	(void)err;
	return RT_OK;
}

enum rt_status
rt_comm_sum_u64(struct rt_comm *c, uint64_t *at, int64_t n,
		struct rt_error *err)
{
	(void)c;
	(void)at;
	(void)n;
	(void)err;
	return RT_OK;
}

enum rt_status
rt_comm_max_i64(struct rt_comm *c, int64_t *at, int64_t n,
		struct rt_error *err)
{
	(void)c;
	(void)at;
	(void)n;
	(void)err;
	return RT_OK;
}

#define SEQUENCES 40

enum rt_status
rt_tokens_open(struct rt_tokens **out, const struct rt_tokens_options *o,
	       struct rt_error *err)
{
	(void)err;
	assert_int_equal(o->length, TOY_SEQ);
	assert_int_equal(o->below, TOY_VOCAB);
	*out = NULL;
	*out = malloc(1);
	return RT_OK;
}

void
rt_tokens_free(struct rt_tokens *t)
{
	free(t);
}

int64_t
rt_tokens_sequences(const struct rt_tokens *t)
{
	(void)t;
	return SEQUENCES;
}

enum rt_status
rt_tokens_get(const struct rt_tokens *t, int64_t index, int64_t from,
	      int64_t n, int32_t *out, struct rt_error *err)
{
	int64_t i;

	(void)t;
	(void)err;
	assert_true(from >= 0 && from + n <= TOY_SEQ + 1);
	for (i = 0; i < n; i++) {
		out[i] = (int32_t)((index * 3 + from + i) % TOY_VOCAB);
	}
	return RT_OK;
}

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

enum rt_status
rt_weights_load(const struct rt_store *s, const char *path, int64_t *unused,
		struct rt_error *err)
{
	(void)s;
	(void)path;
	(void)unused;
	return rt_fail(err, RT_IO, RT_NOWHERE, "no weights here");
}

/* ---- a run ---- */

struct bed {
	struct rt_comm comm;
	struct rt_workers *workers;
	struct rt_run *r;
	struct rt_error err;
};

static void
open_plan(struct bed *b, const struct rt_plan *p, int64_t threads)
{
	struct rt_workers_options o = { threads, NULL, false };

	memset(b, 0, sizeof *b);
	b->comm.arena = aligned_alloc(64, (TOY_ARENA + 63) / 64 * 64);
	memset(b->comm.arena, 0, TOY_ARENA);
	assert_int_equal(rt_workers_start(&b->workers, &o, &b->err), RT_OK);
	assert_int_equal(rt_run_open(&b->r, p, 0, &b->comm, b->workers, 0,
				     &b->err), RT_OK);
}

static void
close_plan(struct bed *b)
{
	rt_run_free(b->r);
	rt_workers_stop(b->workers);
	free(b->comm.arena);
}

static struct rt_options
options(const char *line)
{
	static char words[32][64];
	static char *argv[33];
	struct rt_options o;
	struct rt_error err = { .status = RT_OK };
	int argc = 1, n;

	argv[0] = words[0];
	while (sscanf(line, "%63s%n", words[argc], &n) == 1) {
		argv[argc] = words[argc];
		argc++;
		line += n;
	}
	if (rt_options_read(&o, argc, argv, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
	return o;
}

/* What the command line is refused with. */
static const char *
refusal(const char *line)
{
	static struct rt_error err;
	static char words[32][64];
	char *argv[33];
	struct rt_options o;
	int argc = 1, n;

	argv[0] = words[0];
	while (sscanf(line, "%63s%n", words[argc], &n) == 1) {
		argv[argc] = words[argc];
		argc++;
		line += n;
	}
	assert_int_equal(rt_options_read(&o, argc, argv, &err), RT_RANGE);
	rt_options_release(&o);
	return err.message;
}

/* ---- workers ---- */

#define MANY 1000

struct seen {
	_Atomic int times[MANY];
	_Atomic int64_t outside;
	int64_t workers;
};

static void
see(void *user, int64_t worker, int64_t from, int64_t to)
{
	struct seen *s = user;
	int64_t i;

	if (worker < 0 || worker >= s->workers || from >= to) {
		atomic_fetch_add(&s->outside, 1);
	}
	for (i = from; i < to; i++) {
		atomic_fetch_add(&s->times[i], 1);
	}
}

/* Awake, asleep, more threads than cores: each item once, each round. */
static void
test_workers(void **state)
{
	static const struct timespec nap = { 0, 2000000 };
	static struct seen s;
	struct rt_workers *w;
	struct rt_error err;
	int64_t n, round, i, items;

	(void)state;
	for (n = 1; n <= 5; n++) {
		struct rt_workers_options o = { n, NULL, n > 3 };

		assert_int_equal(rt_workers_start(&w, &o, &err), RT_OK);
		assert_int_equal(rt_workers_count(w), n);
		s.workers = n;
		for (round = 0; round < 300; round++) {
			items = round * 37 % (MANY + 1);
			memset(s.times, 0, sizeof s.times);
			rt_workers_run(w, see, &s, items);
			for (i = 0; i < MANY; i++) {
				assert_int_equal(s.times[i], i < items);
			}
			if (round % 50 == 0) {
				nanosleep(&nap, NULL);
			}
		}
		assert_int_equal(s.outside, 0);
		rt_workers_stop(w);
	}
	rt_workers_stop(NULL);
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
	struct rt_feed feed = rt_feed_tokens(NULL, 0);
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
			assert_true(fabs(rt_number(b.comm.arena, RT_ELEM_F32,
				    step) - p.w[step]) < 1e-6);
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
		assert_true(rt_number((const char *)half, RT_ELEM_F16,
				      (int64_t)i) == halves[i]);
	}
	assert_true(rt_number((const char *)brain, RT_ELEM_BF16, 0) == 1);
	assert_true(rt_number((const char *)brain, RT_ELEM_BF16, 1) ==
		    -3.140625);
	assert_true(rt_number((const char *)whole, RT_ELEM_I32, 0) == -7);
	assert_true(rt_number((const char *)wide, RT_ELEM_F64, 0) == 0.1);
}

/* A function's own status, and a talk's, end the step with a reason. */
static int64_t
fails(struct rt_env *e, int64_t mb)
{
	char *at[] = { e->arena, e->arena };

	return mb == 0 ? 0 : e->talk(e, &toy_add_g, at, 7);
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
	assert_string_equal(b.err.message, "no such trip");
	close_plan(&b);
}

static void
test_strange_inputs(void **state)
{
	struct rt_feed feed = rt_feed_tokens(NULL, 0);
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
	assert_non_null(strstr(b.err.message, "`pixels` is neither tokens"));
	assert_int_equal(rt_run_step(b.r, 1, NULL, true, false, &c, &b.err),
			 RT_RANGE);
	assert_non_null(strstr(b.err.message, "cannot draw"));
	close_plan(&b);
}

/* ---- training ---- */

/* All that a file has, for the caller to free. */
static char *
text_of(FILE *f)
{
	long n;
	char *s;

	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	n = ftell(f);
	rewind(f);
	s = calloc((size_t)n + 1, 1);
	assert_int_equal(fread(s, 1, (size_t)n, f), (size_t)n);
	return s;
}

static char *
train(struct bed *b, const char *line, int told)
{
	struct rt_options o = options(line);
	volatile sig_atomic_t flag = told;
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
	assert_non_null(strstr(text, "\ntold to end\n"));
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

static char *
file_text(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *s;

	assert_non_null(f);
	s = text_of(f);
	fclose(f);
	return s;
}

static void
test_log(void **state)
{
	static const char *const members[] = {
		"\"loss\": ", "\"gradient_norm\": ", "\"tokens_per_s\": ",
		"\"mfu\": ", "\"step_ms\": ", "\"compute_ms\": ",
		"\"talk_ms\": ", "\"waiting_ms\": ", "\"update_ms\": ",
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
				 (i == 10 ? 1 : 0), 3);
	}
	assert_int_equal(count(text, "\n"), 6);
	assert_int_equal(count(text, "{\"event\": \"start\", "), 1);
	assert_int_equal(count(text, "{\"event\": \"checkpoint\", "), 1);
	assert_int_equal(count(text, "{\"event\": \"end\", "), 1);
	free(text);
	close(fd);
	unlink(path);
}

static void
test_json_text(void **state)
{
	FILE *f = tmpfile();
	char *s;

	(void)state;
	rt_json_text(f, "a\"b\\c\n");
	s = text_of(f);
	assert_string_equal(s, "\"a\\\"b\\\\c\\u000a\"");
	free(s);
	fclose(f);
}

/* RFC 3720, B.4, and the check value of every table of CRCs. */
static void
test_crc(void **state)
{
	unsigned char b[32] = { 0 };

	(void)state;
	assert_int_equal(rt_crc32c("123456789", 9), 0xe3069283u);
	assert_int_equal(rt_crc32c(b, 32), 0x8a9136aau);
	memset(b, 0xff, sizeof b);
	assert_int_equal(rt_crc32c(b, 32), 0x62a8ab43u);
}

/* A record as TFRecord frames it; *at moves behind it. */
static const unsigned char *
record(const unsigned char *text, size_t *at, uint64_t *n)
{
	uint32_t sums[2], crc[2];
	const unsigned char *s = text + *at;
	int i;

	memcpy(n, s, 8);
	memcpy(&sums[0], s + 8, 4);
	memcpy(&sums[1], s + 12 + *n, 4);
	crc[0] = rt_crc32c(s, 8);
	crc[1] = rt_crc32c(s + 12, *n);
	for (i = 0; i < 2; i++) {
		crc[i] = (crc[i] >> 15 | crc[i] << 17) + 0xa282ead8u;
		assert_int_equal(sums[i], crc[i]);
	}
	*at += 16 + *n;
	return s + 12;
}

static void
test_events(void **state)
{
	/* a step 300, as a varint; a summary of one value: tag, float */
	static const unsigned char scalar[] = {
		0x10, 0xac, 0x02, 0x2a, 13, 0x0a, 11, 0x0a, 4, 'l', 'o', 's',
		's', 0x15, 0, 0, 0x40, 0x40
	};
	char folder[] = "/tmp/t-run-XXXXXX", path[1024];
	const unsigned char *s;
	struct rt_events *e;
	struct rt_error err;
	struct dirent *d;
	uint64_t n;
	size_t at = 0;
	char *text;
	DIR *dir;

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(rt_events_open(&e, folder, &err), RT_OK);
	assert_int_equal(rt_events_scalar(e, "loss", 300, 3, &err), RT_OK);
	rt_events_close(e);
	dir = opendir(folder);
	while ((d = readdir(dir)) && d->d_name[0] == '.') {
	}
	assert_non_null(strstr(d->d_name, "events.out.tfevents."));
	snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
	closedir(dir);
	text = file_text(path);
	s = record((unsigned char *)text, &at, &n);
	assert_int_equal(n, 9 + 2 + 13);
	assert_memory_equal(s + 9, "\x1a\x0d" "brain.Event:2", 15);
	s = record((unsigned char *)text, &at, &n);
	assert_int_equal(n, 9 + sizeof scalar);
	assert_int_equal(s[0], 0x09);
	assert_memory_equal(s + 9, scalar, sizeof scalar);
	free(text);
	unlink(path);
	rmdir(folder);
	assert_int_equal(rt_events_open(&e, "/dev/null/x", &err), RT_IO);
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
	assert_int_equal(rt_bench(b.r, 4, false, f, &b.err), RT_OK);
	s = text_of(f);
	assert_non_null(strstr(s, "\nstage0_forward                         "
			       "2 "));
	assert_non_null(strstr(s, "\npipe0_update                           "
			       "1 "));
	assert_non_null(strstr(s, "\nsquares "));
	assert_non_null(strstr(s, "\nall_reduce gradients on dp "));
	assert_non_null(strstr(s, "predicted      0.020 ms, ratio "));
	free(s);
	rewind(f);
	assert_int_equal(ftruncate(fileno(f), 0), 0);
	assert_int_equal(rt_bench(b.r, 1, true, f, &b.err), RT_OK);
	s = text_of(f);
	assert_int_equal(count(s, "{\"kind\": \"phase\""), 4);
	assert_int_equal(count(s, "{\"kind\": \"kernel\""), 3);
	assert_int_equal(count(s, "{\"kind\": \"talk\""), 1);
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

/* ---- options and hosts ---- */

static void
test_options(void **state)
{
	struct rt_options o = options("train --data a b --steps=7 --data c "
				      "--resume p --timeout 2.5 --bind no");

	(void)state;
	assert_int_equal(o.command, RT_TRAIN);
	assert_int_equal(o.data.n, 3);
	assert_string_equal(o.data.at[2], "c");
	assert_int_equal(o.steps, 7);
	assert_string_equal(o.resume_path, "p");
	assert_true(o.timeout_s == 2.5);
	assert_string_equal(o.bind, "no");
	assert_int_equal(o.seed, -1);
	assert_int_equal(o.keep, 2);
	rt_options_release(&o);
	o = options("train --help");
	assert_true(o.help);
	o = options("inspect --llp");
	assert_true(o.llp);
}

static void
test_refusals(void **state)
{
	static const char *const cases[][2] = {
		{ "trian --data f", "the nearest is train" },
		{ "train --stpes 3", "there is no option --stpes; the nearest "
		  "is --steps" },
		{ "train --data f --steps 0", "--steps takes a whole number "
		  "from 1 to 1000000000000000, not '0'" },
		{ "train --data f --steps 1.5", "not '1.5'" },
		{ "train --data f --steps 3x", "not '3x'" },
		{ "train --data f --timeout nan", "not 'nan'" },
		{ "train --data f --log", "--log takes an argument: FILE" },
		{ "train --data f --bind all", "--bind takes cores|no, not" },
		{ "train --data f --bind core", "--bind takes cores|no, not" },
		{ "train --local=yes --data f", "--local takes no argument" },
		{ "train", "give --data FILE.. or --data draw" },
		{ "train --data draw", "drawn tokens have no end" },
		{ "train --data f --every 3", "--checkpoint FOLDER" },
		{ "train --data f --resume", "--checkpoint FOLDER" },
		{ "train --data f --resume p --weights w", "give one" },
		{ "train --data f --eval-every 2", "give --eval-data" },
		{ "bench --log f", "--log is not an option of this command" },
		{ "bench 3", "'3' is neither an option nor" },
		{ "sample --checkpoint c", "--prompt-file FILE" },
		{ "sample --prompt-file f", "weights to sample from" },
		{ "", "a command is missing" }
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *message = refusal(cases[i][0]);

		if (!strstr(message, cases[i][1])) {
			fail_msg("%s: %s", cases[i][0], message);
		}
	}
}

static void
test_shares(void **state)
{
	struct rt_machine m = { .ncores = 8, .online = 8 };
	struct rt_world w = { .rank = 2, .size = 4, .local_rank = 2,
			      .local_size = 4, .how = "torchrun" };
	struct rt_share s;
	int i;

	(void)state;
	for (i = 0; i < 8; i++) {
		m.cores[i] = 10 + i;
	}
	s = rt_machine_share(&m, &w, 0, 8, true);
	assert_int_equal(s.threads, 2);
	assert_false(s.crowded);
	assert_int_equal(s.cores[0], 14);
	s = rt_machine_share(&m, &w, 0, 1, true);
	assert_int_equal(s.threads, 1);
	assert_int_equal(s.cores[0], 12);
	s = rt_machine_share(&m, &w, 3, 8, true);
	assert_int_equal(s.threads, 3);
	assert_true(s.crowded && !s.cores);
	s = rt_machine_share(&m, &w, 0, 8, false);
	assert_null(s.cores);
	/* whoever started us has bound each rank to two of 64 */
	m.ncores = 2;
	m.online = 64;
	s = rt_machine_share(&m, &w, 0, 8, true);
	assert_int_equal(s.threads, 2);
	assert_true(!s.crowded && !s.cores);
	/* a container of two, and four ranks that we started */
	w.how = "local";
	s = rt_machine_share(&m, &w, 0, 8, true);
	assert_int_equal(s.threads, 1);
	assert_true(s.crowded && !s.cores);
}

static void
test_machine(void **state)
{
	static struct rt_machine m;
	int64_t i, j;

	(void)state;
	rt_machine_look(&m);
	assert_true(m.ncores >= 1 && m.online >= m.ncores);
	for (i = 0; i < m.ncores; i++) {
		for (j = 0; j < i; j++) {
			assert_int_not_equal(m.cores[i], m.cores[j]);
		}
	}
	assert_true(m.free_bytes == -1 || m.free_bytes > 1 << 20);
}

static void
test_cpu(void **state)
{
	static const char *const fine[] = { "fast-gather", "sse3" };
	static const char *const never[] = { "fma4", "amx-bf16" };
	struct rt_plan p = toy;
	struct rt_error err;

	(void)state;
	assert_int_equal(rt_cpu_check(&p, &err), RT_OK);
#if defined(__x86_64__)
	p.features = fine;
	p.nfeatures = 2;
	assert_int_equal(rt_cpu_check(&p, &err), RT_OK);
	/* AMD gave up the one before Intel had the other */
	p.features = never;
	assert_int_equal(rt_cpu_check(&p, &err), RT_RANGE);
	assert_non_null(strstr(err.message, "compile it with --cpu x86-64-v"));
#else
	(void)fine;
	(void)never;
#endif
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_workers),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_evaluation_step),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_failing_step),
		cmocka_unit_test(test_strange_inputs),
		cmocka_unit_test(test_resume),
		cmocka_unit_test(test_train_ends),
		cmocka_unit_test(test_other_seed),
		cmocka_unit_test(test_log),
		cmocka_unit_test(test_json_text),
		cmocka_unit_test(test_crc),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_bench),
		cmocka_unit_test(test_verify),
		cmocka_unit_test(test_verify_finds),
		cmocka_unit_test(test_inspect),
		cmocka_unit_test(test_sample),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_machine),
		cmocka_unit_test(test_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
