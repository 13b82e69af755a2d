/*
 * What kernels of a program take where they are not those of engines: chunks of
 * prompts, what follows products; and what requests of an answer wait.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/serve/t-serve.h"

/* Attention of a chunk of a prompt of n positions. */
static double
chunk_us(struct served *s, double n, double before)
{
	struct cost_load l = { .chunk = n, .prompts = 1, .before = before };
	struct serve_program p;
	struct serve_time t;

	program(s, 1, 1, 1, &p);
	serve_step(&p, &s->target, &s->asked, &l, &t);
	return t.us[SERVE_ATTENDING];
}

/* Blocks of a chunk, whose keys an index selects, are multiplied by mma.sync,
 * which an H100 has something faster than; engines' are not. */
static void
test_prompts(void **state)
{
	static const char *const targets[] = { "h100x8", "rtx4090x8" };
	struct cost_attention a = {
		.batch = 1, .heads = HEADS, .kv_heads = KV, .head_dim = HD,
		.queries = 512, .keys = 4608, .causal = true,
		.rate = TARGET_BF16
	};
	struct served s;
	struct cost c;
	double us[2];
	int i, own;

	(void)state;
	for (i = 0; i < 2; i++) {
		for (own = 0; own < 2; own++) {
			open_as(&s, MODEL(GQA(""), DENSE), own);
			assert_true(fe_target(&s.c, targets[i], &s.target));
			a.narrow = own;
			c = cost_attention(&s.target.groups.at[0].device, &a);
			us[own] = chunk_us(&s, 512, 4096);
			assert_true(fabs(us[own] - LAYERS *
					 (c.us - c.launch_us)) < 1e-6);
			ir_ctx_release(&s.c);
		}
		assert_true(i ? us[1] == us[0] : us[1] > 1.1 * us[0]);
	}
}

/* The text with numbers of so many digits replaced. */
static char *
replaced(char *text, const char *from, const char *to)
{
	char *at = strstr(text, from);

	assert_true(at && strlen(from) == strlen(to));
	memcpy(at, to, strlen(to));
	return text;
}

/* Queries of a chunk of latents are single ones, which leave results of all
 * heads; of a short prompt that is what takes longest. */
static void
test_prompts_of_latents(void **state)
{
	char text[] = MODEL(MLA, DENSE);
	double bytes = 128 * 2 * (256 + ROT), us;
	struct served s;

	(void)state;
	replaced(text, "hidden = 256, heads = 8", "hidden = 256, heads =16");
	replaced(text, "rank = 64", "rank =256");
	open_model(&s, text);
	bytes += 2 * 4 * 128 * 16 * (256 + 2.0);
	us = bytes / cost_read_bytes_us(&s.target.groups.at[0].device);
	assert_true(fabs(chunk_us(&s, 128, 0) - LAYERS * us) < 1e-6 * us);
	assert_true(chunk_us(&s, 128, 65536) > 10 * LAYERS * us);
	ir_ctx_release(&s.c);
}

/* Of contractions with epilogues and without them, in one step. */
static double
products_us(struct served *s, bool own, bool keeps_epilogues, double rows)
{
	struct cost_load l = { .decoding = rows, .keys = 1024 };
	struct serve_program p;
	struct serve_time t;
	uint32_t i, k;

	program(s, 1, 1, 1, &p);
	for (i = 0; i < p.nparts; i++) {
		for (k = 0; k < p.part[i].items.n; k++) {
			struct serve_item *x = &p.part[i].items.at[k];

			assert_true(x->own == own || x->work == SERVE_MAP ||
				    x->work == SERVE_COMM);
			if (!keeps_epilogues) {
				x->put_unit.slots = x->put_threads.slots = 0;
			}
		}
	}
	serve_step(&p, &s->target, &s->asked, &l, &t);
	return t.us[SERVE_WEIGHTS] + t.us[SERVE_CONTRACTIONS];
}

/* What contractions take on one multiprocessor with memory for free, and with
 * nothing after products. */
static double
math_us(const char *text, bool own, double rows)
{
	struct served s;
	struct target_device *d;
	double us;

	open_as(&s, text, own);
	d = &s.target.groups.at[0].device;
	d->memory_bytes_us *= 1e9;
	d->read_bytes_us *= 1e9;
	d->matrix_feed *= 1e9;
	d->flops_us[TARGET_BF16] /= (double)d->units;
	d->units = 1;		/* which has all tiles */
	us = products_us(&s, own, false, rows);
	ir_ctx_release(&s.c);
	return us;
}

/* Fewer than 16 rows are no tiles of wgmma: an H100 multiplies them by
 * mma.sync; and so few rows of experts. */
static void
test_few_rows(void **state)
{
	static const char dense[] = MODEL(GQA(""), DENSE);
	static const char experts[] = MODEL(GQA(""), MOE);

	(void)state;
	assert_true(math_us(dense, true, 15) > 1.4 * math_us(dense, false, 15));
	assert_true(math_us(dense, true, 16) < 1.1 * math_us(dense, false, 16));
	assert_true(math_us(experts, true, 15) >
		    1.4 * math_us(experts, false, 15));
}

/* Math of a sequence's keys on a CPU, for each of them. */
static double
key_us(const struct target_device *on, const char *arch, double keys)
{
	struct target_device d = *on;
	struct cost_keys x = {
		.sequences = 8, .queries = 1, .keys = keys, .heads = 12,
		.kv = 12, .d = 64, .v = 64, .bytes = 256, .rate = TARGET_BF16
	};

	d.arch = arch;
	return cost_keys(&d, &x).math_us / keys;
}

/* Scores are of whole vectors of keys: half a vector more in the mean, of which
 * one of two products of each key are. */
static void
test_vectors(void **state)
{
	static const char *const archs[] = { "x86-64-v2", "x86-64-v3",
					     "x86-64-v4", "znver5" };
	static const double lanes[] = { 4, 8, 16, 16 };
	const struct target_device *d;
	struct served s;
	double whole;
	int i;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	assert_true(fe_target(&s.c, "cpux1", &s.target));
	d = &s.target.groups.at[0].device;
	for (i = 0; i < 4; i++) {
		whole = key_us(d, archs[i], 1e9);
		assert_true(fabs(key_us(d, archs[i], 40) / whole - 1 -
				 (lanes[i] - 1) / 2 / 40 / 2) < 1e-6);
	}
	ir_ctx_release(&s.c);
}

/* What items of a query load again, where they are several, is as wide as it
 * lies in the cache. */
static void
test_narrow_loads(void **state)
{
	static const struct serve_format f8 = { "f8e4m3", 1, 0 };
	struct cost_load l = { .decoding = 64, .keys = 8192 };
	char text[] = MODEL(GQA(""), DENSE);
	double us[2];
	int i;

	(void)state;
	replaced(text, "heads = 8, kv = 4, hd = 32, ffn = 512",
		 "heads = 8, kv = 1, hd = 512, ffn = 64");
	for (i = 0; i < 2; i++) {
		struct serve_program p;
		struct serve_time t;
		struct served s;

		open_model(&s, text);
		assert_true(fe_target(&s.c, "a100x8", &s.target));
		s.asked.cache = i ? &f8 : NULL;
		program(&s, 1, 1, 1, &p);
		serve_step(&p, &s.target, &s.asked, &l, &t);
		us[i] = t.us[SERVE_CACHE] + t.us[SERVE_ATTENDING];
		ir_ctx_release(&s.c);
	}
	assert_true(us[1] < 0.95 * us[0]);
}

/* Epilogues, as of a gate, take their time after products of widened weights,
 * whose kernels copy and multiply by the same threads; engines have none. */
static void
test_epilogues(void **state)
{
	static const struct serve_format int8 = { "int8", 1, 1 };
	static const char *const targets[] = { "h100x8", "rtx4090x8" };
	double with, without;
	struct served s;
	int i, own;

	(void)state;
	for (i = 0; i < 2; i++) {
		for (own = 0; own < 2; own++) {
			open_as(&s, MODEL(GQA(""), DENSE), own);
			assert_true(fe_target(&s.c, targets[i], &s.target));
			s.asked.weights = &int8;
			with = products_us(&s, own, true, 65536);
			without = products_us(&s, own, false, 65536);
			assert_true(own ? with > 1.02 * without
					: with == without);
			ir_ctx_release(&s.c);
		}
	}
}

/* What the requests of an answer wait in the queue is what its plan says in the
 * mean: however many are in flight, others follow those that end. */
static void
test_load(void **state)
{
	struct served s;
	struct serve_answer_in in = { .model = &s.model, .target = &s.target,
				      .asked = &s.asked };
	struct serve_answer x;
	struct serve_plan *b = &x.best;
	double in_flight, rate;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	serve_search(&in, &s.c.perm, &x);
	assert_true(x.fits && b->sequences > 2000);
	assert_true(b->tpot_p99_us >= b->tpot_p50_us);
	assert_true(fabs(b->tpot_p50_us / b->tpot_us - 1) < 0.05);
	/* half of the most, at random: what each waits, times the rate, is in
	 * flight (Little's law) */
	rate = b->requests_s / 2;
	s.asked.rate = rate;
	serve_search(&in, &s.c.perm, &x);
	assert_true(x.fits);
	in_flight = rate * (b->ttft_p50_us + s.asked.output *
			    b->tpot_p50_us) / 1e6 /
		    (double)b->split.replicas;
	assert_true(fabs(in_flight / b->sequences - 1) < 0.2);
	ir_ctx_release(&s.c);
}

/* A program's steps hold fewer sequences than the best batch has, and bring
 * what a plan of these does; with the sizes that it needs they hold it. */
static void
test_made(void **state)
{
	struct served s;
	struct serve_answer_in in = { .model = &s.model, .target = &s.target,
		.asked = &s.asked, .pins = { .split = { .tp = 1, .pp = 2,
							.replicas = 1 } } };
	struct serve_made small = { .tokens = 64, .rows = 16, .keys = 4096 };
	struct cost_load l;
	struct serve_answer x;
	double n;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	serve_search(&in, &s.c.perm, &x);
	x.program = small;
	serve_price_made(&in, &s.c.perm, &x);
	assert_true(!serve_holds_best(&x.program));
	n = x.program.own.sequences / 2;	/* of a step, of two stages */
	l = serve_load_of(&s.asked, n, x.program.own.chunk);
	assert_true(n == 4 && n + x.program.own.chunk == 64);
	assert_true(cost_step_keys(&l, 1) <= 4096);
	assert_true(x.program.own.tokens_s < x.best.tokens_s / 2);
	small.tokens = x.program.needs_tokens;
	small.rows = x.program.needs_rows;
	small.keys = x.program.needs_keys;
	assert_true(small.tokens > 64 && small.rows > 16);
	x.program = small;
	serve_price_made(&in, &s.c.perm, &x);
	assert_true(serve_holds_best(&x.program));
	assert_true(x.program.own.tokens_s == x.best.tokens_s);
	ir_ctx_release(&s.c);
}

/* Of fewer sequences than stages no program brings more than the answer has. */
static void
test_made_alone(void **state)
{
	struct served s;
	struct serve_answer_in in = { .model = &s.model, .target = &s.target,
		.asked = &s.asked, .pins = { .split = { .tp = 1, .pp = 2,
							.replicas = 1 },
					     .sequences = 1 } };
	struct serve_answer x;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	serve_search(&in, &s.c.perm, &x);
	x.program = (struct serve_made){ .tokens = 16, .rows = 1,
					 .keys = 128 };
	serve_price_made(&in, &s.c.perm, &x);
	assert_true(x.fits && !serve_holds_best(&x.program));
	assert_true(x.program.own.sequences == 1);
	assert_true(x.program.own.tokens_s <= x.best.tokens_s);
	ir_ctx_release(&s.c);
}

/* What steps of default size bring of requests of such lengths, in *x, and what
 * is in one. */
static struct cost_load
made_load(double prompt, double output, struct serve_answer *x)
{
	struct served s;
	struct serve_answer_in in = { .model = &s.model, .target = &s.target,
		.asked = &s.asked, .pins = { .split = { .tp = 1, .pp = 2,
							.replicas = 1 } } };
	struct cost_load l;

	open_model(&s, MODEL(GQA(""), DENSE));
	s.asked.prompt = prompt;
	s.asked.output = output;
	serve_search(&in, &s.c.perm, x);
	x->program = (struct serve_made){ .tokens = 64, .rows = 16,
					  .keys = 4096 };
	serve_price_made(&in, &s.c.perm, x);
	l = serve_load_of(&s.asked, x->program.own.sequences / 2,
			  x->program.own.chunk);
	ir_ctx_release(&s.c);
	return l;
}

/* Of short prompts a step has many, each with logits of its own; and no more
 * answers end than prompts are read. */
static void
test_made_prompts(void **state)
{
	struct serve_answer x;
	const struct serve_plan *own = &x.program.own;
	struct cost_load l = made_load(2, 60, &x);

	(void)state;
	assert_true(l.decoding > 1 && l.decoding + l.chunk <= 64);
	assert_true(l.decoding + l.prompts <= 16);
	assert_true(cost_step_keys(&l, 1) <= 4096);
	l = made_load(800, 2, &x);
	assert_true(l.decoding == 1 && l.decoding + l.chunk == 64);
	assert_true(own->tokens_s * own->mixed_us * 800 / 2 <
		    1e6 * own->chunk * 1.000001);
}

/* What a slow program brings is printed in full, too. */
static void
test_made_slow(void **state)
{
	struct served s;
	struct serve_answer_in in = { .model = &s.model, .target = &s.target,
		.asked = &s.asked };
	struct serve_answer x;
	struct buf out;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	serve_search(&in, &s.c.perm, &x);
	x.program = (struct serve_made){ .tokens = 64, .rows = 16,
					 .keys = 4096 };
	serve_price_made(&in, &s.c.perm, &x);
	x.program.own.tokens_s = 0.125;
	buf_init(&out, &s.c.perm);
	serve_print(&in, &x, &out);
	assert_non_null(strstr(buf_text(&out), ": 0.12 tokens/s out, "));
	ir_ctx_release(&s.c);
}

/* Chunks of a prompt are in as many batches, which follow each other in the
 * stages: at a load a prompt has its token no sooner than alone, and what
 * requests wait for it is what the plan says. */
static void
test_chunks(void **state)
{
	struct served s;
	struct serve_answer_in in = { .model = &s.model, .target = &s.target,
		.asked = &s.asked,
		.pins = { .split = { .tp = 1, .pp = 4 }, .sequences = 64,
			  .chunk = 128 } };
	struct serve_answer x;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	serve_search(&in, &s.c.perm, &x);
	assert_true(x.fits && s.asked.prompt == 6 * 128);
	assert_true(x.best.ttft_p50_us > x.best.alone_ttft_us);
	assert_true(fabs(x.best.ttft_p50_us / x.best.ttft_us - 1) < 0.1);
	assert_true(fabs(x.best.tpot_p50_us / x.best.tpot_us - 1) < 0.05);
	ir_ctx_release(&s.c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prompts),
		cmocka_unit_test(test_prompts_of_latents),
		cmocka_unit_test(test_few_rows),
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_narrow_loads),
		cmocka_unit_test(test_epilogues),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_made),
		cmocka_unit_test(test_made_alone),
		cmocka_unit_test(test_made_prompts),
		cmocka_unit_test(test_made_slow),
		cmocka_unit_test(test_chunks)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
