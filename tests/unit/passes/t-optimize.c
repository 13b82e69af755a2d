/*
 * The update program against the optimizers' textbook formulas, written a
 * second time here in plain C: the loss is half the sum of squares, so the
 * gradient of a weight is the weight.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "frontend/eval/eval.h"

#define N 6
#define STEPS 12

struct setup {
	const char *settings, *dtype;
	const char *rule;
	double beta1, beta2, eps, decay, momentum, clip, lr, min_lr, warmup,
	       over, from;
	const char *schedule;
};

static const struct setup setups[] = {
	{ "set train.optimizer = adamw\nset train.optimizer.lr = 0.01\n",
	  "f32", "adamw", 0.9, 0.999, 1e-8, 0, 0, 0, 0.01, 0, 0, 1, 0,
	  "constant" },
	{ "set train.optimizer = adamw\nset train.optimizer.lr = 0.02\n"
	  "set train.optimizer.betas = (0.8, 0.95)\n"
	  "set train.optimizer.eps = 0.001\n"
	  "set train.optimizer.weight_decay = 0.1\nset train.clip = 0.3\n"
	  "set train.schedule = cosine\nset train.schedule.warmup = 3\n"
	  "set train.schedule.min_lr = 0.002\nset train.steps = 10\n",
	  "bf16", "adamw", 0.8, 0.95, 1e-3, 0.1, 0, 0.3, 0.02, 0.002, 3, 7, 3,
	  "cosine" },
	{ "set train.optimizer = sgd\nset train.optimizer.lr = 0.05\n"
	  "set train.optimizer.momentum = 0.9\n"
	  "set train.schedule = linear\nset train.steps = 8\n",
	  "f32", "sgd", 0, 0, 0, 0, 0.9, 0, 0.05, 0, 0, 8, 0, "linear" },
	{ "set train.optimizer = sgd\nset train.optimizer.lr = 0.05\n"
	  "set train.schedule = wsd\nset train.steps = 10\n"
	  "set train.schedule.decay = 4\nset train.schedule.warmup = 2\n",
	  "f32", "sgd", 0, 0, 0, 0, 0, 0, 0.05, 0, 2, 4, 6, "wsd" },
	{ "set train.optimizer = lion\nset train.optimizer.lr = 0.01\n",
	  "f32", "lion", 0.9, 0.99, 0, 0, 0, 0, 0.01, 0, 0, 1, 0,
	  "constant" },
	{ "set train.optimizer = lion\nset train.optimizer.lr = 0.02\n"
	  "set train.optimizer.betas = (0.7, 0.8)\n"
	  "set train.optimizer.weight_decay = 0.1\nset train.clip = 0.3\n",
	  "bf16", "lion", 0.7, 0.8, 0, 0.1, 0, 0.3, 0.02, 0, 0, 1, 0,
	  "constant" },
	{ "set train.optimizer = adafactor\nset train.optimizer.lr = 0.01\n"
	  "set train.optimizer.weight_decay = 0.1\nset train.clip = 0.3\n",
	  "f32", "adafactor", 0, 0, 0, 0.1, 0, 0.3, 0.01, 0, 0, 1, 0,
	  "constant" },
	{ "set train.optimizer = adafactor\nset train.optimizer.lr = 0.02\n",
	  "bf16", "adafactor", 0, 0, 0, 0, 0, 0, 0.02, 0, 0, 1, 0,
	  "constant" },
	/* the decay is decoupled: no momentum of it */
	{ "set train.optimizer = sgd\nset train.optimizer.lr = 0.05\n"
	  "set train.optimizer.momentum = 0.9\n"
	  "set train.optimizer.weight_decay = 0.2\n",
	  "f32", "sgd", 0, 0, 0, 0.2, 0.9, 0, 0.05, 0, 0, 1, 0, "constant" },
};

static double
rate(const struct setup *s, int t)
{
	double x = (t - s->from) / s->over, down = 1;

	x = x < 0 ? 0 : x > 1 ? 1 : x;
	if (strcmp(s->schedule, "cosine") == 0) {
		down = 0.5 * (1 + cos(acos(-1) * x));
	} else if (strcmp(s->schedule, "constant") != 0) {
		down = 1 - x;
	}
	down = s->min_lr + (s->lr - s->min_lr) * down;
	return s->warmup > 0 && t < s->warmup ? down * t / s->warmup : down;
}

struct plain {
	double w[2 * N], m[2 * N], v[2 * N];
};

/* Divides u by the root of the mean of its squares where that is above 1. */
static void
cut(double *u, int n)
{
	double sum = 0;
	int i;

	for (i = 0; i < n; i++) {
		sum += u[i] * u[i];
	}
	for (i = 0; i < n; i++) {
		u[i] /= fmax(1, sqrt(sum / n));
	}
}

/* Two vectors of 3, then a matrix of 2 rows; m and v are its R and C. */
static void
adafactor(struct plain *p, const double *g, double *u, int t)
{
	double share = pow(t, -0.8), mean;
	int i, k;

	for (i = 0; i < N; i++) {
		p->v[i] += share * (g[i] * g[i] + 1e-30 - p->v[i]);
		u[i] = g[i] / sqrt(p->v[i]);
	}
	cut(u, 3);
	cut(u + 3, 3);
	g += N;
	for (k = 0; k < 2; k++) {
		mean = (g[3 * k] * g[3 * k] + g[3 * k + 1] * g[3 * k + 1] +
			g[3 * k + 2] * g[3 * k + 2]) / 3 + 1e-30;
		p->m[N + k] += share * (mean - p->m[N + k]);
	}
	for (i = 0; i < 3; i++) {
		mean = (g[i] * g[i] + g[3 + i] * g[3 + i]) / 2 + 1e-30;
		p->v[N + i] += share * (mean - p->v[N + i]);
	}
	mean = (p->m[N] + p->m[N + 1]) / 2;
	for (i = 0; i < N; i++) {
		u[N + i] = g[i] / sqrt(p->m[N + i / 3] / mean *
				       p->v[N + i % 3]);
	}
	cut(u + N, N);
}

/* Elements 0..N start as normal and decay, N..2N start as ones. */
static void
plain_step(const struct setup *s, struct plain *p, int t)
{
	double norm = 0, scale = 1, step, all[2 * N], u[2 * N];
	int i;

	for (i = 0; i < 2 * N; i++) {
		norm += p->w[i] * p->w[i];
	}
	norm = sqrt(norm);
	if (s->clip > 0 && s->clip / (norm + 1e-6) < 1) {
		scale = s->clip / (norm + 1e-6);
	}
	for (i = 0; i < 2 * N; i++) {
		double g = p->w[i] * scale;

		all[i] = g;
		if (strcmp(s->rule, "lion") == 0) {
			step = s->beta1 * p->m[i] + (1 - s->beta1) * g;
			step = (step > 0) - (step < 0);
			p->m[i] = s->beta2 * p->m[i] + (1 - s->beta2) * g;
		} else if (strcmp(s->rule, "adamw") == 0) {
			p->m[i] = s->beta1 * p->m[i] + (1 - s->beta1) * g;
			p->v[i] = s->beta2 * p->v[i] +
				  (1 - s->beta2) * g * g;
			step = p->m[i] / (1 - pow(s->beta1, t)) /
			       (sqrt(p->v[i] / (1 - pow(s->beta2, t))) +
				s->eps);
		} else {
			p->m[i] = s->momentum * p->m[i] + g;
			step = p->m[i];
		}
		if (strcmp(s->rule, "adafactor") == 0) {
			continue;
		}
		if (i < N) {
			step += s->decay * p->w[i];
		}
		p->w[i] -= rate(s, t) * step;
	}
	if (strcmp(s->rule, "adafactor") == 0) {
		adafactor(p, all, u, t);
		for (i = 0; i < 2 * N; i++) {
			u[i] += i < N ? s->decay * p->w[i] : 0;
			p->w[i] -= rate(s, t) * u[i];
		}
	}
}

static double
plain_loss(const struct plain *p)
{
	double sum = 0;
	int i;

	for (i = 0; i < 2 * N; i++) {
		sum += p->w[i] * p->w[i] / 2;
	}
	return sum;
}

/* One weight per iteration of a repeat, and one after it. */
static struct ir_module *
read_model(struct ir_ctx *c, const struct setup *s)
{
	char *text = arena_printf(&c->perm,
		"llmc-ir 1\nmodule t\ndim n = 3\ndim two = 2\n%s\nmodel {\n"
		"  %%0 = const value=0 : %s[]\n"
		"  %%1 = repeat count=2 var=i (%%2 = %%0) : %s[] {\n"
		"    %%3 = weight name=\"a.{i}\" init=normal std=0.5 : %s[n]\n"
		"    %%4 = mul %%3, %%3 : %s[n]\n"
		"    %%5 = sum %%4 over=n : %s[]\n"
		"    %%6 = add %%2, %%5 : %s[]\n    yield %%6\n  }\n"
		"  %%7 = weight name=\"b\" init=ones : %s[two, n]\n"
		"  %%8 = mul %%7, %%7 : %s[two, n]\n"
		"  %%9 = sum %%8 over=(two, n) : %s[]\n"
		"  %%10 = add %%1, %%9 : %s[]\n"
		"  %%11 = const value=0.5 : %s[]\n"
		"  %%12 = mul %%10, %%11 : %s[]\n  return %%12\n}\n",
		s->settings, s->dtype, s->dtype, s->dtype, s->dtype, s->dtype,
		s->dtype, s->dtype, s->dtype, s->dtype, s->dtype, s->dtype,
		s->dtype);
	uint32_t base;

	assert_true(source_add(&c->sources, "t", text, strlen(text), &base));
	return ir_read(c, c->sources.files.n - 1);
}

/* With clipping all weights are visited twice; nothing is carried along. */
static void
check_layers(struct ir_module *m, uint32_t visits)
{
	uint32_t i, repeats = 0;

	assert_int_equal(eval_update(m) + 1, ir_model(m));
	for (i = 1; i < m->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, i);

		repeats += n->region && n->nargs == 0 && n->nresults == 0;
	}
	assert_int_equal(repeats, visits);
}

static void
start(struct plain *p, uint64_t seed)
{
	int i;

	memset(p, 0, sizeof *p);
	for (i = 0; i < N; i++) {
		uint64_t key = ir_rng_key(i < 3 ? "a.0" : "a.1", seed);

		p->w[i] = 0.5 * ir_rng_normal(key, (uint64_t)i % 3);
		p->w[N + i] = 1;
	}
}

static void
compare(const struct setup *s)
{
	struct ir_eval_options opt = { .seed = 9 };
	struct ir_eval_result r[1];
	struct eval_store *store;
	struct ir_module *m;
	struct ir_ctx c;
	struct plain p;
	uint32_t n;
	int t;

	ir_ctx_init(&c, NULL);
	m = read_model(&c, s);
	if (!m) {
		diag_flush(&c.diags, stderr);
		fail();
	}
	assert_int_equal(pass_apply(m, "train", true), PASS_OK);
	check_layers(m, 1 + (s->clip > 0) +
		     (strcmp(s->rule, "adafactor") == 0));
	store = eval_store_open(m, NULL);
	opt.weights = eval_store_source(store);
	start(&p, opt.seed);
	for (t = 1; t <= STEPS; t++) {
		double want = plain_loss(&p);

		eval_store_begin(store, t);
		assert_true(ir_eval(m, &opt, r, 1, &n));
		if (!(fabs(r[0].data[0] - want) <= 1e-12 * want)) {
			fail_msg("step %d of %s %s: loss %.15g, and %.15g "
				 "is expected", t, s->settings, s->dtype,
				 r[0].data[0], want);
		}
		assert_true(eval_store_end(store, &opt));
		plain_step(s, &p, t);
	}
	ir_ctx_release(&c);
}

static void
test_formulas(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof setups / sizeof *setups; i++) {
		compare(&setups[i]);
	}
}

static void
test_refusals(void **state)
{
	static const struct setup none = { .settings = "", .dtype = "f32" };
	struct pass_ctx p = { 0 };
	struct ir_module *m;
	struct ir_ctx c;
	node_id k;

	(void)state;
	ir_ctx_init(&c, NULL);
	p.ctx = &c;
	m = read_model(&c, &none);
	assert_false(pass_optimize(&p, m));
	assert_non_null(strstr(c.diags.records.at[0].text,
			       "is adamw, sgd, lion or adafactor, and none is "
			       "set"));
	ir_ctx_release(&c);

	/* a second tensor of the name that the optimizer would use */
	ir_ctx_init(&c, NULL);
	p.ctx = &c;
	m = read_model(&c, &setups[0]);
	for (k = m->nodes.n - 1; !ir_is(ir_node(m, k)->op, IRF_PARAM); k--) {
		continue;
	}
	m->attrs.at[ir_node(m, k)->attrs].text =
		intern_str(&c.syms, "a.{i}.exp_avg");
	assert_false(pass_optimize(&p, m));
	assert_non_null(strstr(c.diags.records.at[0].text,
			       "would keep `a.{i}.exp_avg` of this weight"));
	ir_ctx_release(&c);

	/* a weight of the name that the norm would use */
	ir_ctx_init(&c, NULL);
	p.ctx = &c;
	m = read_model(&c, &setups[1]);
	m->attrs.at[ir_node(m, k)->attrs].text =
		intern_str(&c.syms, "gradient_norm.squared");
	assert_false(pass_optimize(&p, m));
	assert_non_null(strstr(c.diags.records.at[0].text,
			       "norm of all gradients as "
			       "`gradient_norm.squared`, and a weight has"));
	ir_ctx_release(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formulas),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests_name("optimize", tests, NULL, NULL);
}
