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
	check_layers(m, 1 + (s->clip > 0));
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

/* ---- a bias that balances ---- */

enum { TOKENS = 8, EXPERTS = 4, CHOICE = 2 };

static struct ir_module *
read_router(struct ir_ctx *c, const char *of)
{
	char *text = arena_printf(&c->perm,
		"llmc-ir 1\nmodule t\ndim n = %d\ndim e = 4\ndim k = 2\n"
		"set train.optimizer = adamw\nset train.clip = 0.1\n"
		"set train.optimizer.weight_decay = 0.5\nmodel {\n"
		"  %%0 = buffer name=\"s\" init=normal std=1 : f32[n, e]\n"
		"  %%1 = weight name=\"b\" init=zeros balance=0.3 : f32[e]\n"
		"  %%2 = add %%0, %%1 : f32[n, e]\n"
		"  %%3 = topk %%2 of=e to=k : idx<e>[n, k]\n"
		"  %%4 = gather %s, %%3 of=e : f32[n, k]\n"
		"  %%5 = counted %%4, %%1, %%3 of=e : f32[n, k]\n"
		"  %%6 = mul %%5, %%5 : f32[n, k]\n"
		"  %%7 = sum %%6 over=(n, k) : f32[]\n  return %%7\n}\n",
		TOKENS, of);
	uint32_t base;

	assert_true(source_add(&c->sources, "t", text, strlen(text), &base));
	return ir_read(c, c->sources.files.n - 1);
}

/*
 * The sum of squares of what the bias chooses; then it takes its step.  Counts
 * experts that are chosen as often as the mean of them.
 */
static double
route(double s[TOKENS][EXPERTS], double b[EXPERTS], int *even)
{
	double sum = 0, mean = (double)TOKENS * CHOICE / EXPERTS;
	int count[EXPERTS] = { 0 }, i, j, better, e;

	for (i = 0; i < TOKENS; i++) {
		for (e = 0; e < EXPERTS; e++) {
			better = 0;
			for (j = 0; j < EXPERTS; j++) {
				better += s[i][j] + b[j] > s[i][e] + b[e];
			}
			count[e] += better < CHOICE;
			sum += better < CHOICE ? s[i][e] * s[i][e] : 0;
		}
	}
	for (e = 0; e < EXPERTS; e++) {
		*even += count[e] == mean;
		b[e] += count[e] < mean ? 0.3 : count[e] > mean ? -0.3 : 0;
	}
	return sum;
}

static void
test_balance(void **state)
{
	double s[TOKENS][EXPERTS], b[EXPERTS] = { 0 }, want;
	int even = 0;
	uint64_t key = ir_rng_key("s", 9), i;
	struct ir_eval_options opt = { .seed = 9 };
	struct ir_eval_result r[1];
	struct eval_store *store;
	struct ir_module *m;
	struct ir_ctx c;
	uint32_t n;
	int t;

	(void)state;
	for (i = 0; i < TOKENS * EXPERTS; i++) {
		s[i / EXPERTS][i % EXPERTS] = ir_rng_normal(key, i);
	}
	ir_ctx_init(&c, NULL);
	m = read_router(&c, "%0");
	assert_int_equal(pass_apply(m, "train", true), PASS_OK);
	store = eval_store_open(m, NULL);
	opt.weights = eval_store_source(store);
	for (t = 1; t <= STEPS; t++) {
		want = route(s, b, &even);
		eval_store_begin(store, t);
		assert_true(ir_eval(m, &opt, r, 1, &n));
		assert_true(fabs(r[0].data[0] - want) <= 1e-12 * want);
		assert_true(eval_store_end(store, &opt));
	}
	assert_true(even > 0);	/* an expert that has its share stays */
	ir_ctx_release(&c);
	/* a gradient of the bias itself */
	ir_ctx_init(&c, NULL);
	m = read_router(&c, "%2");
	assert_int_not_equal(pass_apply(m, "train", true), PASS_OK);
	assert_non_null(strstr(c.diags.records.at[0].text, "add has a "
			       "gradient for operand 2"));
	ir_ctx_release(&c);
}

/* ---- Muon ---- */

enum { HEADS = 2, KEYS = 4, MOST = 3 };

/* Sides of the matrices: wide, tall and square ones. */
static const int sides[][2] = { { 2, 3 }, { 3, 2 }, { 3, 3 } };

/*
 * Two matrices of r rows and n columns, of which each product with e is of one
 * of them; the loss is half the sum of all squares.
 */
static struct ir_module *
read_matrices(struct ir_ctx *c, int r, int n)
{
	char *text = arena_printf(&c->perm,
		"llmc-ir 1\nmodule t\ndim h = %d\ndim k = %d\ndim r = %d\n"
		"dim n = %d\nset train.optimizer = muon\n"
		"set train.optimizer.lr = 0.01\n"
		"set train.optimizer.weight_decay = 0.1\nmodel {\n"
		"  %%0 = buffer name=\"e\" init=normal std=1 : f32[h, k, n]\n"
		"  %%1 = weight name=\"w\" init=normal std=1 : f32[h, r, n]\n"
		"  %%2 = dot %%0, %%1 over=n : f32[h, k, r]\n"
		"  %%3 = mul %%2, %%2 : f32[h, k, r]\n"
		"  %%4 = dot %%3, %%3 over=(h, k, r) : f32[]\n"
		"  %%5 = const value=0.5 : f32[]\n"
		"  %%6 = mul %%4, %%5 : f32[]\n  return %%6\n}\n",
		HEADS, KEYS, r, n);
	uint32_t base;

	assert_true(source_add(&c->sources, "t", text, strlen(text), &base));
	return ir_read(c, c->sources.files.n - 1);
}

struct matrices {
	double e[HEADS][KEYS][MOST], w[HEADS][MOST][MOST],
	       m[HEADS][MOST][MOST];
};

/* Half the sum of the fourth powers of e w^T, and its gradient. */
static double
fourth_powers(const struct matrices *x, int r, int n,
	      double g[HEADS][MOST][MOST])
{
	double sum = 0, y;
	int h, k, i, j;

	memset(g, 0, sizeof x->w);
	for (h = 0; h < HEADS; h++) {
		for (k = 0; k < KEYS * r; k++) {
			for (y = 0, i = k % r, j = 0; j < n; j++) {
				y += x->e[h][k / r][j] * x->w[h][i][j];
			}
			sum += y * y * y * y / 2;
			for (j = 0; j < n; j++) {
				g[h][i][j] += 2 * y * y * y *
					      x->e[h][k / r][j];
			}
		}
	}
	return sum;
}

/* The polynomial on a matrix as it is, whichever side is longer. */
static void
newton_schulz(double x[MOST][MOST], int r, int n)
{
	double a[MOST][MOST], b[MOST][MOST], y[MOST][MOST];
	int i, j, k;

	for (i = 0; i < r; i++) {
		for (j = 0; j < r; j++) {
			for (a[i][j] = 0, k = 0; k < n; k++) {
				a[i][j] += x[i][k] * x[j][k];
			}
		}
	}
	for (i = 0; i < r; i++) {
		for (j = 0; j < r; j++) {
			b[i][j] = -4.7750 * a[i][j];
			for (k = 0; k < r; k++) {
				b[i][j] += 2.0315 * a[i][k] * a[k][j];
			}
		}
	}
	for (i = 0; i < r; i++) {
		for (j = 0; j < n; j++) {
			y[i][j] = 3.4445 * x[i][j];
			for (k = 0; k < r; k++) {
				y[i][j] += b[i][k] * x[k][j];
			}
		}
	}
	memcpy(x, y, sizeof y);
}

static void
muon_step(struct matrices *x, double g[HEADS][MOST][MOST], int r, int n)
{
	double u[MOST][MOST], norm;
	int h, i, t;

	for (h = 0; h < HEADS; h++) {
		for (norm = 0, i = 0; i < r * n; i++) {
			double *m = &x->m[h][i / n][i % n];
			double d = g[h][i / n][i % n];

			*m = 0.95 * *m + 0.05 * d;
			d = 0.05 * d + 0.95 * *m;
			u[i / n][i % n] = d;
			norm += d * d;
		}
		for (i = 0; i < r * n; i++) {
			u[i / n][i % n] /= sqrt(norm);
		}
		for (t = 0; t < 5; t++) {
			newton_schulz(u, r, n);
		}
		for (i = 0; i < r * n; i++) {
			double *w = &x->w[h][i / n][i % n];

			*w -= 0.01 * (0.2 * sqrt(r > n ? r : n) *
				      u[i / n][i % n] + 0.1 * *w);
		}
	}
}

static void
start_matrices(struct matrices *x, uint64_t seed, int r, int n)
{
	uint64_t i, h, e = ir_rng_key("e", seed), w = ir_rng_key("w", seed);
	uint64_t rows = (uint64_t)r, cols = (uint64_t)n;

	memset(x, 0, sizeof *x);
	for (h = 0; h < HEADS; h++) {
		for (i = 0; i < KEYS * cols; i++) {
			x->e[h][i / cols][i % cols] =
				ir_rng_normal(e, h * KEYS * cols + i);
		}
		for (i = 0; i < rows * cols; i++) {
			x->w[h][i / cols][i % cols] =
				ir_rng_normal(w, h * rows * cols + i);
		}
	}
}

static void
compare_matrices(int r, int n)
{
	struct ir_eval_options opt = { .seed = 9 };
	double g[HEADS][MOST][MOST], want;
	struct ir_eval_result loss[1];
	struct eval_store *store;
	struct matrices x;
	struct ir_module *m;
	struct ir_ctx c;
	uint32_t count;
	int t;

	ir_ctx_init(&c, NULL);
	m = read_matrices(&c, r, n);
	if (!m || pass_apply(m, "train", true) != PASS_OK) {
		diag_flush(&c.diags, stderr);
		fail();
	}
	store = eval_store_open(m, NULL);
	opt.weights = eval_store_source(store);
	start_matrices(&x, opt.seed, r, n);
	for (t = 1; t <= STEPS; t++) {
		want = fourth_powers(&x, r, n, g);
		eval_store_begin(store, t);
		assert_true(ir_eval(m, &opt, loss, 1, &count));
		if (!(fabs(loss[0].data[0] - want) <= 1e-11 * want)) {
			fail_msg("step %d of %d x %d: loss %.15g, and %.15g "
				 "is expected", t, r, n, loss[0].data[0],
				 want);
		}
		assert_true(eval_store_end(store, &opt));
		muon_step(&x, g, r, n);
	}
	ir_ctx_release(&c);
}

static void
test_muon(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof sides / sizeof *sides; i++) {
		compare_matrices(sides[i][0], sides[i][1]);
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
			       "is adamw, sgd, lion, adafactor or "
			       "muon, and none is set"));
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
		cmocka_unit_test(test_balance),
		cmocka_unit_test(test_muon),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests_name("optimize", tests, NULL, NULL);
}
