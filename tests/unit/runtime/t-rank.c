/*
 * What a rank is made of, part by part: its workers, the command line, its
 * share of a host, what the CPU has, and the files that it writes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "t-rank.h"

#include <dirent.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* ---- files ---- */

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

/* A record as TFRecord frames it; *at moves after it. */
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
	assert_int_equal(rt_events_close(e, &err), RT_OK);
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

/* ---- options and hosts ---- */

/* What the command line is refused with. */
static const char *
refusal(const char *line)
{
	static struct rt_error err;
	static const struct rt_plan plan;	/* which says nothing */
	struct rt_options o;
	char *argv[33];
	int argc = split(line, argv);
	enum rt_status s = rt_options_read(&o, argc, argv, &err);

	s = s == RT_OK ? rt_options_settle(&o, &plan, &err) : s;
	assert_int_equal(s, RT_RANGE);
	rt_options_release(&o);
	return err.message;
}

/* A name of a model is a text that a client can write. */
static void
test_model_names(void **state)
{
	static const char *const wrong[] = { "", "a\001b", "a\177", "a\377",
					     "\303" };
	struct rt_error err = { .message = "" };
	struct rt_plan p = { .steps = 0 };
	struct rt_options o;
	char line[64];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		snprintf(line, sizeof line, "serve --checkpoint c "
			 "--model-name=%s", wrong[i]);
		assert_string_equal(refusal(line), "--model-name is one line "
			"of text in UTF-8, not empty, that clients can ask "
			"for");
	}
	o = options("serve --checkpoint c --model-name=org/a:\303\251\"");
	assert_int_equal(rt_options_settle(&o, &p, &err), RT_OK);
	assert_string_equal(o.serve.model, "org/a:\303\251\"");
	rt_options_release(&o);
}

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
		{ "sample --prompt-file f", "no weights to sample from" },
		{ "sample --prompt-file f --checkpoint c --weights w",
		  "two sets of weights to sample from" },
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

/*
 * Steps on the command line of train come before the model's, and those before
 * data.
 */
static void
test_steps(void **state)
{
	static const struct {
		const char *line;
		int64_t model, want;
	} cases[] = {
		{ "train --data draw", 7, 7 },
		{ "train --data draw --steps 3", 7, 3 },
		{ "train --data f", 7, 7 },
		{ "train --data f", 0, 0 },
		{ "bench --steps 2", 7, 2 }, { "verify --steps 2", 7, 2 },
		{ "train --data draw --help", 0, 0 }
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct rt_plan p = { .steps = cases[i].model };
		struct rt_options o = options(cases[i].line);
		struct rt_error err;

		assert_int_equal(rt_options_settle(&o, &p, &err), RT_OK);
		assert_int_equal(o.steps, cases[i].want);
		rt_options_release(&o);
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
	struct rt_plan p = { .cpu = "x86-64-v2" };
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
		cmocka_unit_test(test_json_text),
		cmocka_unit_test(test_crc),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_model_names),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_machine),
		cmocka_unit_test(test_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
