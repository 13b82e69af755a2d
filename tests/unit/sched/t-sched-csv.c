/*
 * Files of schedules: PyTorch's, broken ones and random bytes, each
 * allocation failing, and that docs/schedule.md shows what is.
 */
#include <math.h>

#include "tests/unit/sched/t-sched.h"
#include "tests/unit/shared/t-scarce.h"

/* ---- files ---- */

static void
torch_files(void **state)
{
	static const char text[] =
		"0UNSHARD,0F0,0SEND_F0, 0F1 ,0SEND_F1,,,0RECV_B0,0I0,0W0,"
		"0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\r\n"
		"\t1RECV_F0,\"1F0\",\"\",(1I0 ; 1F1)OVERLAP_F_B,1SEND_B0,"
		"1W0,1B1,,,\r\n\r\n";
	struct sched_left left;
	struct sched *s;
	struct sched_verdict v;

	(void)state;
	s = read_bytes(text, sizeof text - 1, &left);
	assert_string_equal(messages(), "");
	assert_non_null(s);
	accepted(s, &v);
	assert_string_equal(print(s), "0F0,0F1,,0I0,0W0,,0B1\n"
			    ",1F0,1I0,1F1,1W0,1B1\n");
	assert_string_equal(sched_left_text(&t.a, &left), "left out: 6 "
			    "transfers (SEND, RECV), 3 of UNSHARD, RESHARD, "
			    "REDUCE_GRAD, 3 idle steps, 1 marks of overlap");
	assert_non_null(read_bytes("\xef\xbb\xbf""0F0,0B0", 10, &left));
	assert_null(sched_left_text(&t.a, &left));
}

static const struct {
	const char *text, *message;
} bad[] = {
	{ "", "1:1: error: found no actions, expected a row of them "
	  "for each rank" },
	{ "\n\n", "1:1: error: found no actions, expected a row of "
	  "them for each rank" },
	{ "0F0,X", "1:5: error: row 1, cell 2: found `X`, expected a "
	  "stage, an action and a microbatch, as in `0F3`" },
	{ "0F0\n12", "2:1: error: row 2, cell 1: found `12`, expected "
	  "a stage, an action and a microbatch, as in `0F3`" },
	{ "-1F0", "1:1: error: row 1, cell 1: found `-1F0`, expected "
	  "a stage, an action and a microbatch, as in `0F3`" },
	{ "0Q0", "1:2: error: row 1, cell 1: found action `Q`, "
	  "expected F, B, I or W" },
	{ ",0f0", "1:3: error: row 1, cell 2: found action `f`, "
	  "expected F, B, I or W (did you mean `F`?)" },
	{ "0BW0", "1:2: error: row 1, cell 1: found action `BW`, "
	  "expected F, B, I or W (older PyTorch writes BW for B and "
	  "B for I)" },
	{ "0F", "1:1: error: row 1, cell 1: found no microbatch "
	  "after `0F`, expected one, as in `0F3`" },
	{ "0F0,0SEND_F", "1:5: error: row 1, cell 2: found no "
	  "microbatch after `0SEND_F`, expected one, as in `0F3`" },
	{ "0F0 0B0", "1:4: error: row 1, cell 1: found ` 0B0` after "
	  "`0F0`, expected a comma or the end of the row" },
	{ "16384F0", "1:1: error: row 1, cell 1: found stage 16384, "
	  "expected at most 16383" },
	{ "0F99999999999999999999", "1:3: error: row 1, cell 1: found "
	  "microbatch 99999999999999999999, expected at most "
	  "1048575" },
	{ "0F0\n\n1F0", "2:1: error: row 2: found no actions, "
	  "expected those of rank 1" },
	{ "0F0\n1SEND_B0", "2:1: error: row 2: found no actions, "
	  "expected those of rank 1" },
	{ "16383F1048575", "1:1: error: found 16384 stages and "
	  "1048576 microbatches, expected their product to be at most "
	  "4194304" },
	{ "\"0F0", "1:1: error: row 1, cell 1: found a quote that is "
	  "not closed" },
	{ "\"0F0\"1,0B0", "1:6: error: row 1, cell 1: found `1` "
	  "after a quote, expected a comma or the end of the row" },
	{ "(0F0;0B0)", "1:1: error: row 1, cell 1: found `(0F0;0B0)`, "
	  "expected actions in parentheses and OVERLAP_F_B, as in "
	  "`(0F7;7B3)OVERLAP_F_B`" },
	{ "(0F0;)OVERLAP_F_B", "1:6: error: row 1, cell 1: found ``, "
	  "expected a stage, an action and a microbatch, as in "
	  "`0F3`" },
	{ "0F0,\x01\xff", "1:5: error: row 1, cell 2: found "
	  "`<01><ff>`, expected a stage, an action and a microbatch, "
	  "as in `0F3`" },
};

static void
bad_files(void **state)
{
	size_t i, n;

	(void)state;
	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		const char *got;

		assert_null(read_text(bad[i].text));
		got = messages();
		n = strcspn(got, "\n");
		assert_string_equal(arena_strndup(&t.a, got, n),
				    arena_printf(&t.a, "my.csv:%s",
						 bad[i].message));
	}
}

static void
random_bytes(void **state)
{
	static const char alphabet[] = "0012FBIW,,\n;()\"_SENDR \r\xff";
	uint64_t seed = 7;
	uint32_t i, j, n;

	(void)state;
	for (i = 0; i < 20000; i++) {
		struct sched_verdict v;
		struct sched *s;
		char text[64];

		n = draw(&seed, sizeof text);
		for (j = 0; j < n; j++) {
			text[j] = i % 2 ? (char)draw(&seed, 256) :
				  alphabet[draw(&seed, sizeof alphabet)];
		}
		text[n] = '\0';
		s = read_bytes(text, n, NULL);
		assert_true((s != NULL) == (t.diags.errors == 0));
		if (s && !sched_check(&t.a, s, &v)) {
			sched_report(&t.diags, &v);
			assert_true(t.diags.errors > 0);
		}
		messages();
		arena_release(&t.a);
		start();
	}
}

/* ---- every allocation may fail ---- */

static struct scarce gate;

static void
read_and_check(void)
{
	static const char *const files[] = {
		"0F0,0F1,0B0,0SEND_B0,0B1\n1F0,1B0,1F1,1B1\n",
		"0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
		"0F0,0B7,0W0\n1F0,(0F0;1B0)OVERLAP_F_B\n",
		"0F0,f,\"\n",
	};
	struct sched_verdict v;
	size_t i;

	for (i = 0; i < sizeof files / sizeof files[0]; i++) {
		struct sched *s = read_text(files[i]);

		if (s && sched_check(&t.a, s, &v)) {
			print(s);
		} else if (s) {
			sched_report(&t.diags, &v);
		}
	}
}

static void
allocation_failures(void **state)
{
	volatile bool done = false;
	volatile int n;

	(void)state;
	arena_release(&t.a);
	t.mem = scarce_mem(&gate);
	for (n = 0; !done; n++) {
		gate.left = n;
		start();
		if (setjmp(gate.out) == 0) {
			read_and_check();
			done = true;
		}
		arena_release(&t.a);
		assert_int_equal(gate.live, 0);
	}
	gate.left = -1;
	assert_true(n > 1);
}

/* ---- docs/schedule.md ---- */

/* The page, or NULL where the sources are not at hand. */
static char *
page(void)
{
	const char *top = getenv("top_srcdir");
	FILE *f = fopen(arena_printf(&t.a, "%s/docs/schedule.md",
				     top ? top : "."), "rb");
	char *text = arena_alloc(&t.a, 1 << 16);
	size_t n = f ? fread(text, 1, (1 << 16) - 1, f) : 0;

	if (f) {
		fclose(f);
	}
	assert_true(n < (1 << 16) - 1);
	return n ? text : NULL;
}

/* The block after the fence of that kind, which it ends; moves *p on. */
static char *
block(char **p, const char *kind, char **name)
{
	char *at = strstr(*p, kind), *eol, *end;

	if (!at) {
		return NULL;
	}
	eol = strchr(at, '\n');
	end = strstr(eol, "\n```");
	assert_non_null(end);
	*eol = end[1] = '\0';
	*name = at + strlen(kind);
	*p = end + 2;
	return eol + 1;
}

static void
page_shows_schedules(void **state)
{
	char *p = page(), *text, *name;
	uint32_t n = 0;

	(void)state;
	if (!p) {
		skip();
	}
	while ((text = block(&p, "```csv ", &name))) {
		const struct sched_def *def = sched_find(name);

		if (def) {
			uint32_t chunks = def->max_chunks == 1 ? 1 : 2;

			assert_string_equal(text, print(make(name, 4, chunks,
							     8)));
			n++;
		}
	}
	assert_int_equal(n, sched_ndefs);
}

/* Each file called `broken` is followed by what is said of it. */
static void
page_shows_messages(void **state)
{
	char *p = page(), *text, *name, *said;
	uint32_t n = 0;

	(void)state;
	if (!p) {
		skip();
	}
	while ((text = block(&p, "```csv broken", &name))) {
		struct sched *s = read_text(text);
		struct sched_verdict v;

		said = block(&p, "```text", &name);
		assert_non_null(said);
		if (s) {
			assert_false(sched_check(&t.a, s, &v));
			sched_report(&t.diags, &v);
		}
		assert_string_equal(messages(), said);
		n++;
	}
	assert_in_range(n, 4, 20);
}

static void
page_shows_numbers(void **state)
{
	char *p = page();
	uint32_t d, r;

	(void)state;
	if (!p) {
		skip();
	}
	for (d = 0; d < sched_ndefs; d++) {
		uint32_t v = sched_defs[d].max_chunks == 1 ? 1 : 2;
		struct sched *s = make(sched_defs[d].name, 4, v, 8);
		struct sched_verdict verdict;
		struct sched_timeline l;
		struct buf b;

		accepted(s, &verdict);
		times(s, &l);
		buf_init(&b, &t.a);
		buf_printf(&b, "| %s | %u | %.1f | %.1f%% | %.1f%% |",
			   sched_defs[d].name, v, l.makespan_us,
			   100 * l.idle[0], 100 * fabs(sched_bubble(s, &l)));
		for (r = 0; r < 4; r++) {
			buf_printf(&b, " %.1f", (double)verdict.peak[r] / v);
		}
		buf_puts(&b, " |\n");
		if (!strstr(p, buf_text(&b))) {
			fail_msg("docs/schedule.md lacks\n%s", buf_text(&b));
		}
	}
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(torch_files),
		TEST(bad_files),
		TEST(random_bytes),
		TEST(allocation_failures),
		TEST(page_shows_schedules),
		TEST(page_shows_messages),
		TEST(page_shows_numbers),
	};

	return cmocka_run_group_tests_name("sched-csv", tests, NULL, NULL);
}
