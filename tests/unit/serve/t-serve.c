/*
 * What a rank holds when it serves: its weights and its cache, against sums
 * over the tensors of small models, written out by hand.  And what a step
 * takes, which grows as its rows do.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/unit/serve/t-serve.h"

static struct serve_memory
memory(struct served *s, int64_t tp, int64_t pp, int64_t ep)
{
	struct cost_load l = serve_load_of(&s->asked, 8, 0);
	struct serve_program p;
	struct serve_memory m;

	program(s, tp, pp, ep, &p);
	serve_memory(&p, &s->target, &s->asked, &l, &m);
	return m;
}

/* ---- weights ---- */

#define ATTENTION (2 * HIDDEN * HEADS * HD + 2 * HIDDEN * KV * HD)
#define MLP (3 * HIDDEN * FFN)
#define ROUTER (HIDDEN * EXPERTS)
#define NORMS (2 * HIDDEN)
#define TABLE (VOCAB * HIDDEN)	/* the embedding; the head has as many */

static void
check_weights(struct served *s, int64_t tp, int64_t pp, int64_t ep,
	      double elems)
{
	double bytes = memory(s, tp, pp, ep).weights;

	if (bytes != 2 * elems) {
		fail_msg("tp=%d pp=%d ep=%d: %.0f bytes, not %.0f", (int)tp,
			 (int)pp, (int)ep, bytes, 2 * elems);
	}
}

static void
test_dense_weights(void **state)
{
	struct served s;
	int64_t tp;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	for (tp = 1; tp <= 4; tp *= 2) {
		check_weights(&s, tp, 1, 1, LAYERS * ((double)(ATTENTION +
			      MLP) / tp + NORMS) + 2.0 * TABLE / tp + HIDDEN);
		/* the first of two stages, as full: the embedding alone */
		check_weights(&s, tp, 2, 1, LAYERS / 2 * ((double)(ATTENTION +
			      MLP) / tp + NORMS) + 1.0 * TABLE / tp);
	}
	ir_ctx_release(&s.c);
}

static void
test_expert_weights(void **state)
{
	struct served s;

	(void)state;
	open_model(&s, MODEL(GQA(""), MOE));
	check_weights(&s, 1, 1, 1, LAYERS * (ATTENTION + NORMS + ROUTER +
		      EXPERTS * (double)MLP) + 2.0 * TABLE + HIDDEN);
	check_weights(&s, 1, 1, 4, LAYERS * (ATTENTION + NORMS + ROUTER +
		      EXPERTS * (double)MLP / 4) + 2.0 * TABLE + HIDDEN);
	check_weights(&s, 2, 1, 1, LAYERS * (ATTENTION / 2.0 + NORMS + ROUTER +
		      EXPERTS * (double)MLP / 2) + 2.0 * TABLE / 2 + HIDDEN);
	ir_ctx_release(&s.c);
}

/* Rows of these matrices, each of which has a scale of 4 bytes in 8 bits. */
#define ATTENTION_ROWS (HEADS * HD + 2 * KV * HD + HIDDEN)
#define MLP_ROWS (2 * FFN + HIDDEN)

/* How many bytes that model takes less, stored in the format. */
static double
narrowed(const char *text, const struct serve_format *f)
{
	struct served s;
	double wide, narrow;

	open_model(&s, text);
	wide = memory(&s, 1, 1, 1).weights;
	s.asked.weights = f;
	narrow = memory(&s, 1, 1, 1).weights;
	ir_ctx_release(&s.c);
	return wide - narrow;
}

/* Matrices of layers take the form they are stored in; in some forms the head
 * does as well, and an embedding if it is the head.  All else keeps its. */
static void
test_narrow_weights(void **state)
{
	static const struct serve_format fp8 = { "f8e4m3", 1, 0 };
	static const struct serve_format int8 = { "int8", 1, 1 };
	double layers = LAYERS * (double)(ATTENTION + MLP -
					  4 * (ATTENTION_ROWS + MLP_ROWS));
	double head = TABLE - 4 * VOCAB;

	(void)state;
	assert_true(narrowed(MODEL(GQA(""), DENSE), &fp8) == layers);
	assert_true(narrowed(MODEL(GQA(""), DENSE), &int8) == layers + head);
	assert_true(narrowed(TIED(GQA(""), DENSE), &fp8) == layers);
	assert_true(narrowed(TIED(GQA(""), DENSE), &int8) == layers + head);
}

/* ---- the cache ---- */

static void
check_token(struct served *s, int64_t tp, int64_t pp, double elems)
{
	double bytes = memory(s, tp, pp, 1).token;

	if (fabs(bytes - 2 * elems) > 1e-9 * bytes) {
		fail_msg("tp=%d pp=%d: %g bytes of a token, not %g", (int)tp,
			 (int)pp, bytes, 2 * elems);
	}
}

static void
test_cache(void **state)
{
	static const struct serve_format cache8 = { "f8e4m3", 1, 0 };
	struct served s;
	int64_t tp;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	for (tp = 1; tp <= 4; tp *= 2) {
		check_token(&s, tp, 1, LAYERS * 2 * KV * HD / (double)tp);
		check_token(&s, tp, 2, LAYERS / 2 * 2 * KV * HD / (double)tp);
	}
	s.asked.cache = &cache8;
	check_token(&s, 1, 1, LAYERS * 2 * KV * HD / 2.0);
	ir_ctx_release(&s.c);

	/* of a sequence of 1024 tokens engines keep the 256 of a window, and
	 * a program's slots have all */
	open_as(&s, MODEL(GQA(", window = 256"), DENSE), false);
	check_token(&s, 1, 1, LAYERS * 2 * KV * HD * WINDOW / 1024.0);
	ir_ctx_release(&s.c);
	open_model(&s, MODEL(GQA(", window = 256"), DENSE));
	check_token(&s, 1, 1, LAYERS * 2 * KV * HD);
	ir_ctx_release(&s.c);

	/* latents belong to no head, so tensor ranks have all of them */
	open_model(&s, MODEL(MLA, DENSE));
	check_token(&s, 1, 1, LAYERS * (RANK + ROT));
	check_token(&s, 2, 1, LAYERS * (RANK + ROT));
	ir_ctx_release(&s.c);
}

/* ---- time ---- */

static struct serve_time
decode_time(struct served *s, const struct serve_program *p, double sequences,
	    double keys)
{
	struct cost_load l = serve_load_of(&s->asked, sequences, 0);
	struct serve_time t;

	l.keys = keys;
	serve_step(p, &s->target, &s->asked, &l, &t);
	return t;
}

static void
check_even(double a, double b, double c)
{
	assert_true(a < b && fabs((c - b) - (b - a)) < 1e-9 * c);
}

static const struct serve_item *
attention_of(const struct serve_program *p)
{
	uint32_t i = 0;

	while (p->part[1].items.at[i].work != SERVE_ATTENTION) {
		i++;
	}
	return &p->part[1].items.at[i];
}

/* Of latents a program has one head of keys, as long as what is cached; one
 * that has to compute keys does so for all of them; engines read latents. */
static void
test_latents(void **state)
{
	static const struct {
		const char *text;
		bool absorbs;
		double kv, d, v, computed;
	} cases[] = {
		{ MODEL(MLA, DENSE), true, 1, RANK + ROT, RANK, 0 },
		{ MODEL(TURNED, DENSE), true, HEADS, 2 * HD, HD,
		  HEADS * 3 * HD },
		{ MODEL(MLA, DENSE), false, HEADS, 2 * HD, HD, 0 }
	};
	struct serve_program p;
	const struct serve_item *x;
	struct served s;
	size_t i;
	double few, more;

	(void)state;
	for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		open_as(&s, cases[i].text, cases[i].absorbs);
		program(&s, 1, 1, 1, &p);
		x = attention_of(&p);
		assert_true(x->kv == cases[i].kv && x->d == cases[i].d &&
			    x->v == cases[i].v && x->heads == HEADS);
		assert_true(x->cached == RANK + ROT);
		assert_true(x->computed == cases[i].computed);
		assert_true(x->latent == !cases[i].absorbs);
		assert_true(x->within == (x->kv == 1));
		few = decode_time(&s, &p, 1, 4096).us[SERVE_CONTRACTIONS];
		more = decode_time(&s, &p, 1, 65536).us[SERVE_CONTRACTIONS];
		assert_true(cases[i].computed > 0 ? more > 2 * few
						  : more == few);
		ir_ctx_release(&s.c);
	}
}

/* What attention reads of the cache where it lies is no work, and has the
 * cache's type; values that a step computes are read beside cached keys. */
static void
test_parts_of_caches(void **state)
{
	static const struct serve_format f8 = { .bytes = 1 };
	const struct serve_item *x;
	struct serve_program p;
	struct serve_time wide, narrow;
	struct served s;

	(void)state;
	open_model(&s, MODEL(SPLIT, DENSE));
	program(&s, 1, 1, 1, &p);
	x = attention_of(&p);
	assert_true(x->computed == 0 && x->cached == HEADS * 2 * HD);
	assert_false(x->within);
	wide = decode_time(&s, &p, 1, 65536);
	assert_true(wide.us[SERVE_MAPS] ==
		    decode_time(&s, &p, 1, 4096).us[SERVE_MAPS]);
	s.asked.cache = &f8;
	narrow = decode_time(&s, &p, 1, 65536);
	assert_true(narrow.us[SERVE_CACHE] < 0.6 * wide.us[SERVE_CACHE]);
	ir_ctx_release(&s.c);

	open_model(&s, MODEL(MIXED, DENSE));
	program(&s, 1, 1, 1, &p);
	x = attention_of(&p);
	assert_true(x->computed == HEADS * HD && x->beside == HEADS * HD);
	assert_true(x->cached == HEADS * HD + RANK);
	assert_true(decode_time(&s, &p, 1, 65536).us[SERVE_CACHE] ==
		    wide.us[SERVE_CACHE]);
	ir_ctx_release(&s.c);
}

/* Maps and caches grow evenly with sequences, a cache with its keys too. */
static void
test_linear(void **state)
{
	struct served s;
	struct serve_program p;
	struct serve_time t[5];
	int i;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	program(&s, 2, 1, 1, &p);
	for (i = 0; i < 3; i++) {
		t[i] = decode_time(&s, &p, 100 + 50 * i, 1024);
	}
	check_even(t[0].us[SERVE_MAPS], t[1].us[SERVE_MAPS],
		   t[2].us[SERVE_MAPS]);
	check_even(t[0].us[SERVE_CACHE], t[1].us[SERVE_CACHE],
		   t[2].us[SERVE_CACHE]);
	t[3] = decode_time(&s, &p, 100, 2048);
	t[4] = decode_time(&s, &p, 100, 3072);
	check_even(t[0].us[SERVE_CACHE], t[3].us[SERVE_CACHE],
		   t[4].us[SERVE_CACHE]);
	ir_ctx_release(&s.c);
}

/* On a CPU a step of a few positions takes what that of the next size does. */
static void
test_sizes(void **state)
{
	static const double at[] = { 1, 2, 8, 9, 32, 33 };
	static const int64_t sizes[] = { 1, 8, 32, 64, 128 };
	struct served s;
	struct serve_program p;
	struct serve_time t;
	int64_t size = 0;
	double us[6];
	int i;

	(void)state;
	for (i = 0; i < 5; i++) {
		size = serve_next_size(size);
		assert_int_equal(size, sizes[i]);
	}
	open_model(&s, MODEL(GQA(""), DENSE));
	assert_true(fe_target(&s.c, "cpux1", &s.target));
	program(&s, 1, 1, 1, &p);
	for (i = 0; i < 6; i++) {
		t = decode_time(&s, &p, at[i], 1024);
		us[i] = t.us[SERVE_WEIGHTS] + t.us[SERVE_CONTRACTIONS] +
			t.us[SERVE_MAPS];
	}
	assert_true(us[0] < us[1] && us[1] == us[2]);
	assert_true(us[2] < us[3] && us[3] == us[4]);
	assert_true(us[4] < us[5]);
	ir_ctx_release(&s.c);
}

/* Few rows on a CPU: 8 bits are widened, as long as 4 rows more take, and what
 * lies in rows is transposed, as long as 5. */
static void
test_few_rows(void **state)
{
	struct cost_contraction x = { .m = 8, .n = 4096, .k = 4096, .batch = 1,
				      .rate = TARGET_BF16, .panels = true };
	const struct target_device *d;
	struct served s;
	double us;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	assert_true(fe_target(&s.c, "cpux1", &s.target));
	d = &s.target.groups.at[0].device;
	us = cost_contraction(d, &x).math_us / 8;
	x.stored_bytes = 1;
	assert_true(fabs(cost_contraction(d, &x).math_us - 12 * us) < us / 1e6);
	x.m = 1;
	assert_true(fabs(cost_contraction(d, &x).math_us - 5 * us) < us / 1e6);
	x.panels = false;
	assert_true(fabs(cost_contraction(d, &x).math_us - 6 * us) < us / 1e6);
	/* and is read more slowly, if nothing is widened */
	assert_true(cost_weight_bytes_us(d, &x) == cost_read_bytes_us(d));
	x.stored_bytes = 0;
	assert_true(cost_weight_bytes_us(d, &x) < 0.9 * cost_read_bytes_us(d));
	x.panels = true;
	assert_true(cost_weight_bytes_us(d, &x) == cost_read_bytes_us(d));
	ir_ctx_release(&s.c);
}

/* All that reads weights and keys, by a bandwidth and by what is shown. */
static double
reading_us(struct served *s, double bytes_us, double shown)
{
	struct target_device *d = &s->target.groups.at[0].device;
	struct serve_program p;
	struct serve_time t;

	d->read_bytes_us = bytes_us;
	d->read_shown = shown;
	program(s, 1, 1, 1, &p);
	t = decode_time(s, &p, 8, 1024);
	return t.us[SERVE_WEIGHTS] + t.us[SERVE_CONTRACTIONS] +
	       t.us[SERVE_CACHE] + t.us[SERVE_ATTENDING];
}

/* What is not hidden of the shorter of reading and computing comes on top. */
static void
test_shown(void **state)
{
	double read_us, math_us, us;
	struct served s;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	assert_true(fe_target(&s.c, "cpux1", &s.target));
	math_us = reading_us(&s, 1e15, 0);
	read_us = reading_us(&s, 1, 0);
	assert_true(read_us > 1e3 * math_us && read_us < 1e7 * math_us);
	us = read_us + 0.25 * math_us;
	assert_true(fabs(reading_us(&s, 1, 0.25) - us) < 1e-9 * us);
	us = math_us + 0.25e-15 * read_us;
	assert_true(fabs(reading_us(&s, 1e15, 0.25) - us) < 1e-9 * us);
	ir_ctx_release(&s.c);
}

/* Experts in 8 bits lie in rows, which a CPU transposes for few rows. */
static void
test_narrow_experts(void **state)
{
	static const struct serve_format int8 = { "int8", 1, 1 };
	struct served s;
	struct serve_program p;
	struct serve_time t;
	double us = 0, m, n;
	uint32_t i, k;

	(void)state;
	open_model(&s, MODEL(GQA(""), MOE));
	assert_true(fe_target(&s.c, "cpux1", &s.target));
	s.asked.weights = &int8;
	program(&s, 1, 1, 1, &p);
	for (i = 0; i < p.nparts; i++) {
		for (k = 0; k < p.part[i].items.n; k++) {
			struct serve_item *x = &p.part[i].items.at[k];
			struct cost_contraction c = { .rate = x->rate,
				.n = x->n.fixed, .k = x->k.fixed,
				.out_bytes = x->out_bytes, .stored_bytes = 1 };

			if (x->work != SERVE_DOT || x->groups <= 1) {
				x->times = 0;
				continue;
			}
			m = x->m.fixed + x->m.row;
			n = x->groups * (1 - pow(1 - 1 / x->groups, m));
			c.m = fmax(m / n, 1);
			c.batch = n * (x->batch.fixed + x->batch.row);
			us += x->times * (double)p.part[i].count *
			      cost_contraction(&s.target.groups.at[0].device,
					       &c).math_us;
		}
	}
	t = decode_time(&s, &p, 1, 1024);
	assert_true(us > 0);
	assert_true(fabs(t.us[SERVE_WEIGHTS] + t.us[SERVE_CONTRACTIONS] - us) <
		    1e-6 * us);
	ir_ctx_release(&s.c);
}

static double
part_us(struct served *s, const struct serve_program *p,
	enum serve_part_kind i)
{
	return decode_time(s, p, 64, 1024).us[i];
}

/* Where only experts are narrow, all else of the layers is as declared: a model
 * without experts is what it is without that format, in bytes and in time. */
static void
test_experts_only(void **state)
{
	static const struct serve_format fp8 = { "f8e4m3", 1, 0 };
	double declared[2], narrow[2], only[2], weights[3];
	uint32_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct served s;
		struct serve_program p;

		open_model(&s, i ? MODEL(GQA(""), MOE) : MODEL(GQA(""), DENSE));
		program(&s, 1, 1, 1, &p);
		weights[0] = memory(&s, 1, 1, 1).weights;
		declared[i] = part_us(&s, &p, SERVE_WEIGHTS);
		s.asked.weights = &fp8;
		s.asked.fp8 = true;
		weights[1] = memory(&s, 1, 1, 1).weights;
		narrow[i] = part_us(&s, &p, SERVE_WEIGHTS);
		s.asked.experts_only = true;
		weights[2] = memory(&s, 1, 1, 1).weights;
		only[i] = part_us(&s, &p, SERVE_WEIGHTS);
		assert_true(weights[0] - weights[2] ==
			    (i ? LAYERS * EXPERTS * (double)(MLP - 4 *
							     MLP_ROWS) : 0));
		assert_true(weights[1] < weights[2]);
		ir_ctx_release(&s.c);
	}
	assert_true(only[0] == declared[0] && narrow[0] < declared[0]);
	assert_true(narrow[1] < only[1] && only[1] < declared[1]);
}

/* Kernels of a program that attends to latents make a list of single queries,
 * compute and join them; others compute blocks of queries, too.  What they
 * leave for each other is workspace.  An engine has two kernels. */
static void
test_single_queries(void **state)
{
	static const struct {
		const char *text;
		double sequences, launches;
		bool own;
	} cases[] = {
		{ MODEL(GQA(""), DENSE), 4, 3, true },
		{ MODEL(GQA(""), DENSE), 40, 4, true },
		{ MODEL(MLA, DENSE), 4, 3, true },
		{ MODEL(GQA(""), DENSE), 40, 2, false }
	};
	const struct serve_item *x;
	struct serve_time t, less;
	struct served s;
	struct serve_program p;
	uint32_t i, k;

	(void)state;
	for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		open_as(&s, cases[i].text, cases[i].own);
		program(&s, 1, 1, 1, &p);
		t = decode_time(&s, &p, cases[i].sequences, 1024);
		for (k = 0; !p.part[k].is_layer; k++) {
		}
		x = attention_of(&p);
		assert_true(x->own == cases[i].own);
		p.part[k].items.at[x - p.part[k].items.at].times = 0;
		less = decode_time(&s, &p, cases[i].sequences, 1024);
		t.us[SERVE_LAUNCHES] -= less.us[SERVE_LAUNCHES];
		assert_true(fabs(t.us[SERVE_LAUNCHES] - LAYERS *
				 cases[i].launches * s.target.groups.at[0]
				 .device.launch_us) < 1e-6);
		ir_ctx_release(&s.c);
	}
}

/* Tokens that are guessed are rows, and each of them a layer more. */
static void
test_drafts(void **state)
{
	struct served s;
	struct serve_program p;
	struct serve_time one, three;

	(void)state;
	open_as(&s, MODEL(GQA(""), DENSE), false);
	program(&s, 1, 1, 1, &p);
	one = decode_time(&s, &p, 8, 1024);
	assert_true(serve_step_tokens(&s.asked) == 1);
	s.asked.drafts = 2;
	s.asked.accepted = 2.5;
	three = decode_time(&s, &p, 8, 1024);
	assert_true(serve_step_tokens(&s.asked) == 2.5);
	assert_true(fabs(three.us[SERVE_CACHE] * LAYERS - one.us[SERVE_CACHE] *
			 (LAYERS + 2)) < 1e-9 * three.us[SERVE_CACHE]);
	assert_true(three.us[SERVE_MAPS] > 3 * one.us[SERVE_MAPS]);
	assert_true(three.total_us > one.total_us * (LAYERS + 2) / LAYERS);
	ir_ctx_release(&s.c);
}

/* Tiles of all experts are read, by one row as by all that there can be. */
static void
test_expert_rows(void **state)
{
	struct served s;
	struct serve_program p;
	double one, all;

	(void)state;
	open_model(&s, MODEL(GQA(""), MOE));
	program(&s, 1, 1, 1, &p);
	one = decode_time(&s, &p, 1, 1024).us[SERVE_WEIGHTS];
	all = decode_time(&s, &p, 1000, 1024).us[SERVE_WEIGHTS];
	assert_true(one < all);
	s.asked.expert_rows = 128;
	assert_true(fabs(decode_time(&s, &p, 1, 1024).us[SERVE_WEIGHTS] -
			 all) < 1e-6 * all);
	ir_ctx_release(&s.c);
}

/* Ranks that read each other's memory add up small tensors sooner. */
static void
test_direct(void **state)
{
	struct served s;
	struct serve_program p;
	struct serve_time ring, direct;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	program(&s, 4, 1, 1, &p);
	ring = decode_time(&s, &p, 8, 1024);
	s.asked.direct = true;
	direct = decode_time(&s, &p, 8, 1024);
	assert_true(direct.us[SERVE_COMMUNICATION] <
		    ring.us[SERVE_COMMUNICATION] / 2);
	assert_true(fabs(ring.total_us - direct.total_us -
			 ring.us[SERVE_COMMUNICATION] +
			 direct.us[SERVE_COMMUNICATION]) < 1e-6);
	ir_ctx_release(&s.c);
}

/* Each collective begins later whose hosts call for it, by as much in each of
 * four layers, of two all-reduces, and one beside them. */
static void
test_host_calls(void **state)
{
	struct served s;
	struct serve_program p;
	struct serve_time graph, calls[2];

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	program(&s, 4, 1, 1, &p);
	graph = decode_time(&s, &p, 8, 1024);
	s.asked.host_calls = true;
	calls[0] = decode_time(&s, &p, 8, 1024);
	calls[1] = decode_time(&s, &p, 800, 1024);
	assert_true(calls[0].us[SERVE_COMMUNICATION] >
		    graph.us[SERVE_COMMUNICATION] + 2 * LAYERS * 20);
	assert_true(fabs(calls[0].total_us - graph.total_us -
			 calls[0].us[SERVE_COMMUNICATION] +
			 graph.us[SERVE_COMMUNICATION]) < 1e-6);
	s.asked.host_calls = false;
	graph = decode_time(&s, &p, 800, 1024);
	assert_true(calls[1].us[SERVE_COMMUNICATION] >
		    graph.us[SERVE_COMMUNICATION] + 2 * LAYERS * 20);
	/* one rank has none */
	program(&s, 1, 1, 1, &p);
	graph = decode_time(&s, &p, 8, 1024);
	s.asked.host_calls = true;
	assert_true(decode_time(&s, &p, 8, 1024).total_us == graph.total_us);
	ir_ctx_release(&s.c);
}

/* One unit sorts a sequence's scores, so 132 take as long as one, and 133 twice
 * that; the time grows with the scores. */
static void
test_sort(void **state)
{
	static const double n[] = { 1, 132, 133 };
	struct served s;
	struct serve_program p;
	double us[3], without, k;
	int i;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	program(&s, 1, 1, 1, &p);
	for (i = 0; i < 3; i++) {
		s.asked.sorted = 0;
		without = decode_time(&s, &p, n[i], 1024).us[SERVE_MAPS];
		s.asked.sorted = 50000;
		us[i] = decode_time(&s, &p, n[i], 1024).us[SERVE_MAPS] -
			without;
		s.asked.sorted = 100000;
		k = decode_time(&s, &p, n[i], 1024).us[SERVE_MAPS] - without;
		assert_true(fabs(k - 2 * us[i]) < 1e-6 * k);
	}
	assert_true(us[0] > 100 && us[0] < 1000);
	assert_true(fabs(us[1] - us[0]) < 1e-6 * us[0]);
	assert_true(fabs(us[2] - 2 * us[0]) < 1e-6 * us[2]);
	ir_ctx_release(&s.c);
}

/*
 * Ranks along ep that have the same sequences keep the cache of each, read it
 * and compute its attention as one rank does; of the experts they have a part,
 * and of those that the rows choose they read that part.
 */
static void
test_shared(void **state)
{
	struct served s;
	struct serve_program one, own, shared;
	struct serve_memory m, m_own;
	struct serve_time t, t_own, t_one;

	(void)state;
	open_model(&s, MODEL(GQA(""), MOE));
	program(&s, 1, 1, 1, &one);
	program(&s, 1, 1, 4, &own);
	m_own = memory(&s, 1, 1, 4);
	s.is_shared = true;
	program(&s, 1, 1, 4, &shared);
	m = memory(&s, 1, 1, 4);
	assert_true(m.weights == m_own.weights && m.token == m_own.token);
	assert_true(fabs(4 * m.tokens / m_own.tokens - 1) < 0.01);
	t_one = decode_time(&s, &one, 64, 1024);
	t_own = decode_time(&s, &own, 64, 1024);
	t = decode_time(&s, &shared, 64, 1024);
	assert_true(t.us[SERVE_CACHE] == t_one.us[SERVE_CACHE]);
	assert_true(fabs(4 * t_own.us[SERVE_CACHE] - t.us[SERVE_CACHE]) <
		    1e-9 * t.us[SERVE_CACHE]);
	assert_true(t.us[SERVE_COMMUNICATION] > 0);
	assert_true(fabs(t.us[SERVE_WEIGHTS] - t_own.us[SERVE_WEIGHTS]) <
		    1e-9 * t.us[SERVE_WEIGHTS]);
	/* of 4096 rows each of the four has a quarter of what experts compute
	 * and all that anything else does */
	t_one = decode_time(&s, &one, 4096, 1024);
	t_own = decode_time(&s, &own, 4096, 1024);
	t = decode_time(&s, &shared, 4096, 1024);
	assert_true(t.us[SERVE_CONTRACTIONS] < t_one.us[SERVE_CONTRACTIONS]);
	assert_true(t.us[SERVE_CONTRACTIONS] >
		    t_own.us[SERVE_CONTRACTIONS]);
	ir_ctx_release(&s.c);
}

/* ---- queues ---- */

static struct serve_waits
waits(struct served *s, const struct serve_program *p, double spread,
      double poll)
{
	struct serve_answer_in in = { .model = &s->model,
				      .target = &s->target,
				      .asked = &s->asked };
	struct serve_traffic t = { .sequences = 16, .clients = 16,
				   .chunk = 8192, .requests = 160,
				   .prompts_first = true, .is_serial = true,
				   .spread = spread, .poll = poll };
	struct serve_waits w;

	serve_queue(&in, p, &t, &s->c.perm, &w);
	assert_int_equal(w.n, 160);
	return w;
}

/*
 * Requests that are alike end together, and wait for each other's prompts in
 * every wave; those of varied lengths end apart, and wait for their own.
 */
static void
test_spread(void **state)
{
	struct served s;
	struct serve_program p;
	struct serve_waits alike, varied, again;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	program(&s, 1, 1, 1, &p);
	alike = waits(&s, &p, 0, 0);
	varied = waits(&s, &p, 0.2, 0);
	again = waits(&s, &p, 0.2, 0);
	assert_true(serve_mean(varied.ttft, 160) <
		    0.7 * serve_mean(alike.ttft, 160));
	assert_true(serve_quantile(varied.tpot, 160, 0.5) >
		    serve_quantile(alike.tpot, 160, 0.5));
	assert_memory_equal(varied.ttft, again.ttft, 160 * sizeof(double));
	assert_true(varied.total_us == again.total_us);
	s.asked.drafts = 1;
	s.asked.accepted = 2;
	assert_true(waits(&s, &p, 0.2, 0).total_us < varied.total_us);
	ir_ctx_release(&s.c);
}

/*
 * An engine that looks for requests every 32 steps lets them wait for half of
 * that, and reads those together that came meanwhile.
 */
static void
test_poll(void **state)
{
	struct served s;
	struct serve_program p;
	struct serve_waits each, some;
	double step_us, more_us;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	program(&s, 1, 1, 1, &p);
	each = waits(&s, &p, 0.2, 0);
	some = waits(&s, &p, 0.2, 32);
	step_us = decode_time(&s, &p, 15, 896).total_us;
	more_us = serve_quantile(some.ttft, 160, 0.5) -
		  serve_quantile(each.ttft, 160, 0.5);
	if (more_us < 8 * step_us || more_us > 24 * step_us) {
		fail_msg("a wait of %g steps", more_us / step_us);
	}
	assert_true(serve_mean(some.tpot, 160) < serve_mean(each.tpot, 160));
	assert_true(waits(&s, &p, 0.2, 1).total_us == each.total_us);
	ir_ctx_release(&s.c);
}

/*
 * With stages: a prompt is in one batch, which passes all of them, as far as
 * its chunk takes it; its chunks follow each other.
 */
static void
test_stages(void **state)
{
	struct served s;
	struct serve_program p;
	struct serve_answer_in in = { .model = &s.model, .target = &s.target,
				      .asked = &s.asked };
	struct serve_traffic rare = { .rate = 0.001, .sequences = 16,
				      .requests = 40 };
	struct serve_time t;
	struct serve_waits w;
	struct serve_plan x;
	double pp, us, whole;

	(void)state;
	open_model(&s, MODEL(GQA(""), DENSE));
	for (pp = 1; pp <= 4; pp *= 2) {
		program(&s, 1, (int64_t)pp, 1, &p);
		rare.chunk = pp * 1024;
		serve_queue(&in, &p, &rare, &s.c.perm, &w);
		whole = serve_cycle_us(&in, &p, 0, pp * 768, &t);
		us = serve_quantile(w.ttft, w.n, 0.5);
		if (fabs(us - whole) > 1e-6 * whole) {
			fail_msg("pp=%g: %g us, not %g", pp, us, whole);
		}
		/* three chunks, and half of the step that is under way */
		serve_plan_of(&in, &p, 4, 256, &x);
		us = (3 + pp - 1) * x.mixed_us + (x.decode_us + x.mixed *
			(x.mixed_us - x.decode_us)) / 2;
		assert_true(fabs(x.ttft_us - us) < 1e-6 * us);
	}
	ir_ctx_release(&s.c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dense_weights),
		cmocka_unit_test(test_expert_weights),
		cmocka_unit_test(test_narrow_weights),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_latents),
		cmocka_unit_test(test_parts_of_caches),
		cmocka_unit_test(test_linear),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_few_rows),
		cmocka_unit_test(test_shown),
		cmocka_unit_test(test_narrow_experts),
		cmocka_unit_test(test_experts_only),
		cmocka_unit_test(test_single_queries),
		cmocka_unit_test(test_drafts),
		cmocka_unit_test(test_expert_rows),
		cmocka_unit_test(test_direct),
		cmocka_unit_test(test_host_calls),
		cmocka_unit_test(test_sort),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_spread),
		cmocka_unit_test(test_poll),
		cmocka_unit_test(test_stages)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
