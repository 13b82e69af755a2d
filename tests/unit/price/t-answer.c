/*
 * The answer: parts that add up to the step, each under what it is for;
 * failures by the formulas that they are taken from, written once more.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "frontend/frontend.h"
#include "frontend/frontend.h"
#include "passes/answer/answer.h"

/* ---- failures ---- */

static void
test_mtbf(void **state)
{
	(void)state;
	/* one failure a GPU-month, 2,048 of them */
	assert_true(fabs(answer_mtbf_s(12, 2048) / 60 - 21.4) < 0.1);
	assert_true(isinf(answer_mtbf_s(0, 2048)));
	assert_true(answer_goodput(60, 1, 1, INFINITY) == 1);
}

/* Where writing is cheap, Young's; everywhere, close to the best of all. */
static void
test_interval(void **state)
{
	double mtbf = 24 * 3600, c, t, best, here;

	(void)state;
	assert_true(fabs(answer_interval_s(1, mtbf) / sqrt(2 * mtbf) - 1) <
		    0.01);
	for (c = 1; c < mtbf; c *= 3) {
		best = 0;
		for (t = 1; t < 4 * mtbf; t *= 1.01) {
			best = fmax(best, answer_goodput(t, c, 600, mtbf));
		}
		here = answer_goodput(answer_interval_s(c, mtbf), c, 600,
				      mtbf);
		assert_true(here <= best * 1.001 && here > 0.995 * best);
	}
	/* a write as long as what lies between failures: their distance */
	assert_true(answer_interval_s(2 * mtbf, mtbf) == mtbf);
	assert_true(answer_interval_s(9 * mtbf, mtbf) == mtbf);
}

/*
 * The mean of many pieces of work, each begun anew after a failure: what
 * the formula is the limit of.  A generator of its own: no seed of the day.
 */
static void
test_goodput(void **state)
{
	const double mtbf = 1000, work = 300, write = 60, restart = 100;
	uint64_t x = 88172645463325252u;
	double wall = 0;
	int i, n = 200000;

	(void)state;
	for (i = 0; i < n; i++) {
		double left = work + write;

		for (;;) {
			double u, fails;

			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			u = ((double)(x >> 11) + 0.5) / 9007199254740992.0;
			fails = -mtbf * log(u);
			if (fails >= left) {
				wall += left;
				break;
			}
			wall += fails;
			left = restart + work + write;
		}
	}
	assert_true(fabs(n * work / wall / answer_goodput(work, write,
							  restart, mtbf) - 1)
		    < 0.01);
}

/* ---- time ---- */

static const char dense[] =
	"model t {\n"
	"  dim hidden = 1024, heads = 16, kv = 8, hd = hidden / heads;\n"
	"  dim ffn = 4096, vocab = 8192, seq = 2048, batch = 32;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden) @ \"e\";\n"
	"  repeat 8 as i {\n"
	"    n = rmsnorm(x, eps = 1e-5) @ \"l.{i}.n\";\n"
	"    a = attention(linear(n -> heads, hd) @ \"l.{i}.q\",\n"
	"      linear(n -> kv, hd) @ \"l.{i}.k\",\n"
	"      linear(n -> kv, hd) @ \"l.{i}.v\", causal);\n"
	"    x = x + linear(a -> hidden) @ \"l.{i}.o\";\n"
	"    m = rmsnorm(x, eps = 1e-5) @ \"l.{i}.m\";\n"
	"    x = x + linear(gelu(linear(m -> ffn) @ \"l.{i}.u\") -> hidden)\n"
	"      @ \"l.{i}.d\";\n"
	"  }\n"
	"  loss = cross_entropy(linear(x -> vocab) @ \"h\", labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); clip = 1.0; }\n";

static const char experts[] =
	"model t {\n"
	"  dim hidden = 1024, heads = 16, hd = hidden / heads;\n"
	"  dim expert = 8, choice = 2;\n"
	"  dim ffn = 2048, vocab = 8192, seq = 1024, batch = 32;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden) @ \"e\";\n"
	"  repeat 4 as i {\n"
	"    n = rmsnorm(x, eps = 1e-5) @ \"l.{i}.n\";\n"
	"    a = attention(linear(n -> heads, hd) @ \"l.{i}.q\",\n"
	"      linear(n -> heads, hd) @ \"l.{i}.k\",\n"
	"      linear(n -> heads, hd) @ \"l.{i}.v\", causal);\n"
	"    x = x + linear(a -> hidden) @ \"l.{i}.o\";\n"
	"    s = softmax(linear(x -> expert) @ \"l.{i}.g\", over = expert);\n"
	"    e = topk(s, expert -> choice);\n"
	"    y = linear(gelu(linear(x, e -> ffn) @ \"l.{i}.u\"), e -> hidden)\n"
	"      @ \"l.{i}.d\";\n"
	"    x = x + sum(y * gather(s, e), choice);\n"
	"  }\n"
	"  loss = cross_entropy(linear(x -> vocab) @ \"h\", labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); }\n";

/* Of a step of the model so split on h100x4x4. */
static void
times_of(const char *model, const char *pins, double us[ANSWER_NTIMES])
{
	const struct price_traits traits = { 0 };
	struct ir_ctx c;
	struct target t;
	struct target_devs devs;
	struct ir_module *m;
	struct sched *s;
	struct ranks r;
	struct price p;
	struct sched_timeline line;
	struct answer_counted counted;
	const char *why = "?";
	double sum = 0;
	uint32_t base;
	int i;

	ir_ctx_init(&c, NULL);
	assert_true(fe_target(&c, "h100x4x4", &t));
	assert_true(source_add(&c.sources, "t", model, strlen(model), &base));
	m = fe_compile(&c, c.sources.files.n - 1);
	if (!m || !plan_pin(m, pins) ||
	    pass_apply(m, "split", false) != PASS_OK) {
		diag_flush(&c.diags, stderr);
		fail_msg("%s", pins);
	}
	s = ranks_schedule(m, NULL, &c.perm);
	assert_true(s && ranks_open(&r, m, s, NULL, &why));
	price_devs(&r, &t, &c.perm, &devs);
	assert_true(price_step(&r, &devs, &traits, &c.perm, &p, &why));
	answer_split_time(&r, &devs, &p, &c.perm, us, &counted);
	/* these are parts of contractions and of attention */
	assert_true(counted.epilogues_us >= 0);
	assert_true(counted.epilogues_us < us[ANSWER_MATRIX] +
					   us[ANSWER_RECOMPUTE]);
	assert_true(counted.attention_us >= 0);
	assert_true(counted.attention_us <= (us[ANSWER_ATTENTION] +
					     us[ANSWER_RECOMPUTE]) *
					    (1 + 1e-9));
	for (i = 0; i < ANSWER_NTIMES; i++) {
		assert_true(us[i] >= -1e-6 * p.step_us);
		sum += us[i];
	}
	assert_true(fabs(sum - p.step_us) < 1e-9 * p.step_us);
	/* run action by action, the schedule ends where its price does */
	assert_true(price_timeline(s, &p, &c.perm, &line));
	assert_true(fabs(line.makespan_us - p.pipe_us) < 1e-9 * p.step_us);
	ir_ctx_release(&c);
}

/*
 * Each kind of communication is there if and only if its axis is.  Sums of
 * gradients are moved from each microbatch to the update if that saves some, so
 * cp has several microbatches.
 */
static void
test_coll(void **state)
{
	static const struct {
		const char *model, *pins;
		uint32_t coll;	/* bit t: enum answer_time t */
	} rows[] = {
		{ dense, "microbatch=2", 0 },
		{ dense, "dp=4,zero=0", 1 << ANSWER_DATA },
		{ dense, "dp=4,zero=3,microbatch=2", 1 << ANSWER_DATA },
		{ dense, "tp=4", 1 << ANSWER_TENSOR },
		{ dense, "tp=4,sequence=on",
		  1 << ANSWER_TENSOR | 1 << ANSWER_SEQUENCE },
		{ dense, "cp=4,microbatch=2",
		  1 << ANSWER_CONTEXT | 1 << ANSWER_DATA },
		{ dense, "pp=4,microbatch=2", 1 << ANSWER_PIPELINE },
		{ dense, "pp=2,tp=2,dp=4,microbatch=1", 1 << ANSWER_PIPELINE |
		  1 << ANSWER_TENSOR | 1 << ANSWER_DATA },
		{ experts, "ep=4", 1 << ANSWER_EXPERT | 1 << ANSWER_DATA }
	};
	double us[ANSWER_NTIMES];
	size_t i;
	int t;

	(void)state;
	for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		times_of(rows[i].model, rows[i].pins, us);
		for (t = ANSWER_TENSOR; t <= ANSWER_PIPELINE; t++) {
			if ((us[t] > 0) != (rows[i].coll >> t & 1)) {
				fail_msg("%s: %s is %g us", rows[i].pins,
					 answer_times[t].what, us[t]);
			}
		}
		assert_true(us[ANSWER_OPTIMIZER] > 0);
		assert_true(us[ANSWER_LAUNCH] > 0);
	}
}

/*
 * What recomputation adds is what the same plan takes longer with it; what
 * else the two do is the same but for fusion.
 */
static void
test_recompute(void **state)
{
	static const char *const plans[] = {
		"microbatch=2", "tp=4,microbatch=2",
		"pp=4,microbatch=2,schedule=zb_h1"
	};
	double none[ANSWER_NTIMES], full[ANSWER_NTIMES], more = 0;
	char pins[80];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof plans / sizeof plans[0]; i++) {
		times_of(dense, plans[i], none);
		snprintf(pins, sizeof pins, "%s,recompute=full", plans[i]);
		times_of(dense, pins, full);
		assert_true(none[ANSWER_RECOMPUTE] == 0);
		/* no kernel of a contraction is both; what it is fused with
		 * may differ */
		assert_true(fabs(full[ANSWER_MATRIX] / none[ANSWER_MATRIX] - 1)
			    < 0.05);
		assert_true(fabs(full[ANSWER_ATTENTION] /
				 none[ANSWER_ATTENTION] - 1) < 0.03);
		/* a forward pass is a third of the work, and most of it is
		   done again */
		more = full[ANSWER_RECOMPUTE] /
		       (none[ANSWER_MATRIX] + none[ANSWER_ATTENTION]);
		assert_true(more > 0.2 && more < 0.4);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mtbf), cmocka_unit_test(test_interval),
		cmocka_unit_test(test_goodput), cmocka_unit_test(test_coll),
		cmocka_unit_test(test_recompute)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
