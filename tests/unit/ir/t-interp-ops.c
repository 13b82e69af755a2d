/*
 * Every op of the reference interpreter against its textbook formula; shapes
 * are small and drawn at random, operands have their dims in random order
 * where they may.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/shared/t-eval.h"

#define ROUNDS 12	/* random shapes per op */

/* ---- maps ---- */

static double
f_sigmoid(double x)
{
	return 0.5 + 0.5 * tanh(x / 2);
}

static double
f_map(enum ir_op op, double x)
{
	switch (op) {
	case IR_NEG:
		return 0 - x;
	case IR_EXP:
		return pow(exp(1), x);
	case IR_LOG:
		return log2(x) / log2(exp(1));
	case IR_SQRT:
		return pow(x, 0.5);
	case IR_RSQRT:
		return pow(x, -0.5);
	case IR_TANH:
		return (exp(2 * x) - 1) / (exp(2 * x) + 1);
	case IR_SIGMOID:
		return f_sigmoid(x);
	case IR_COS:
		return 1 - 2 * pow(sin(x / 2), 2);
	case IR_ERF:
		return 1 - erfc(x);
	case IR_STEP:
		return fmax(x, 0) > 0;
	case IR_RELU:
		return fmax(x, 0);
	case IR_RELU2:
		return fmax(x, 0) * fmax(x, 0);
	case IR_SILU:
		return x * f_sigmoid(x);
	case IR_GELU:
		return x * f_sigmoid(2 * sqrt(2 / acos(-1)) *
				     (x + 0.044715 * pow(x, 3)));
	case IR_GELU_ERF:
		return x / 2 * erfc(-x / sqrt(2));
	default:	/* cast, cache */
		return x;
	}
}

static void
test_map1(void **state)
{
	enum ir_op op;
	dim_id a, b;
	value_id x, z;

	(void)state;
	for (op = IR_CAST; op <= IR_GELU_ERF; op++) {
		open_module();
		a = dim("a", draw(1, 5));
		b = dim("b", draw(1, 5));
		x = source("x", 0, true, DIMS(a, b));
		if (op == IR_LOG || op == IR_SQRT || op == IR_RSQRT) {
			begin(IR_MUL, "x");	/* nothing below zero */
			args(x, x, 0);
			x = done();
		}
		begin(op, "y");
		args(x, 0, 0);
		t.n.types[0].dtype = IR_BF16;
		z = done();
		must_eval(z);
		EACH(a) EACH(b) {
			near(at("y"), f_map(op, at("x")));
		}
		close_module();
	}
}

/* Both orders of dims, and an operand that lacks some or all. */
static void
test_map2(void **state)
{
	static const enum ir_op op[] = {
		IR_ADD, IR_SUB, IR_MUL, IR_DIV, IR_MIN, IR_MAX,
		IR_QUANTIZE, IR_RESCALE
	};
	int i;

	(void)state;
	for (i = 0; i < 16 * ROUNDS; i++) {
		bool turned = i / 8 % 2 == 1;
		dim_id d[3];
		uint8_t lack = (uint8_t)draw(0, 3);
		value_id x, y;

		open_module();
		d[0] = dim("a", draw(1, 4));
		d[1] = dim("b", draw(1, 4));
		d[2] = dim("c", draw(1, 4));
		x = source("x", 0, true, 3, d);
		y = source("y", 0, true, lack, d);
		begin(op[i % 8], "z");
		args(turned ? x : y, turned ? y : x, 0);
		must_eval(done());
		EACH(d[0]) EACH(d[1]) EACH(d[2]) {
			double p = at(turned ? "x" : "y");
			double q = at(turned ? "y" : "x");
			double want[] = { p + q, p - q, p * q, p / q,
					  fmin(p, q), fmax(p, q), p / q,
					  p * q };

			near(at("z"), want[i % 8]);
		}
		close_module();
	}
}

/* ---- row-wise ---- */

static void
check_row(enum ir_op op, dim_id a, dim_id b, dim_id c)
{
	double sum = 0, square = 0, total = 0, count = 0, most = 0;
	double mean, var, rms;

	EACH(b) EACH(c) {
		sum += at("x");
		square += at("x") * at("x");
		total += exp(at("x"));
		most = fmax(most, fabs(at("x")));
		count++;
	}
	mean = sum / count;
	var = square / count - mean * mean;
	rms = sqrt(square / count + 0.01);
	(void)a;
	EACH(b) EACH(c) {
		double x = at("x");

		if (op == IR_SUM || op == IR_MEAN) {
			near(at("y"), op == IR_SUM ? sum : mean);
		} else if (op == IR_AMAX) {
			near(at("y"), most);
		} else if (op == IR_SOFTMAX) {
			near(at("y"), exp(x) / total);
		} else if (op == IR_RMSNORM) {
			near(at("y"), x * at("g") / rms);
		} else {
			near(at("y"), (x - mean) * at("g") /
				      sqrt(var + 0.01) + at("o"));
		}
	}
}

static void
test_rows(void **state)
{
	static const enum ir_op op[] = { IR_SUM, IR_MEAN, IR_SOFTMAX,
					 IR_RMSNORM, IR_LAYERNORM,
					 IR_AMAX };
	int i;

	(void)state;
	for (i = 0; i < 6 * ROUNDS; i++) {
		dim_id a, b, c;
		value_id x, g, o;
		enum ir_op which = op[i % 6];

		open_module();
		a = dim("a", draw(1, 4));
		b = dim("b", draw(1, 4));
		c = dim("c", draw(2, 4));
		x = source("x", 0, true, DIMS(a, b, c));
		g = source("g", 0, true, DIMS(b, c));
		o = source("o", 0, true, DIMS(c, b));
		begin(which, "y");
		args(x, ir_ops[which].nargs > 1 ? g : 0,
		     ir_ops[which].nargs > 2 ? o : 0);
		ir_new_dim(&t.n, IR_ATTR_OVER, c);
		ir_new_dim(&t.n, IR_ATTR_OVER, b);
		if (which >= IR_RMSNORM) {
			ir_new_num(&t.n, IR_ATTR_EPS, 0.01);
		}
		must_eval(done());
		EACH(a) {
			check_row(which, a, b, c);
		}
		close_module();
	}
}

/*
 * Opens a module with rows z of c, x and a number together by `op`, and with
 * what reduces them: s, their softmax; all, the log of their sum; e, the loss
 * at the labels l.
 */
static void
open_rows(enum ir_op op, double number, dim_id *a, dim_id *c)
{
	value_id x, by, l;

	open_module();
	*a = dim("a", 3);
	*c = dim("c", 4);
	x = source("x", 0, false, DIMS(*a, *c));
	l = source("l", *c, false, DIMS(*a));
	begin(IR_CONST, NULL);
	ir_new_num(&t.n, IR_ATTR_VALUE, number);
	t.n.types[0] = make_type(IR_F32, 0, 0, NULL);
	by = done();
	begin(op, "z");
	args(x, by, 0);
	x = done();
	begin(IR_SOFTMAX, "s");
	args(x, 0, 0);
	ir_new_dim(&t.n, IR_ATTR_OVER, *c);
	done();
	begin(IR_LOG_SUM_EXP, "all");
	args(x, 0, 0);
	ir_new_dim(&t.n, IR_ATTR_OVER, *c);
	done();
	begin(IR_CROSS_ENTROPY, "e");
	args(x, l, 0);
	must_eval(done());
}

/* Rows that overflow when they are not taken relative to their maximum. */
static void
test_stable(void **state)
{
	dim_id a, c;

	(void)state;
	open_rows(IR_MUL, 1e4, &a, &c);
	EACH(a) {
		double sum = 0, max = -INFINITY;

		EACH(c) {
			sum += at("s");
			max = fmax(max, at("z"));
		}
		near(sum, 1);
		near(at("all"), max);
		t.ix[c] = (int64_t)at("l");
		near(at("e"), max - at("z"));
	}
	close_module();
}

/* A row of -inf alone: the log of its sum of 0 is -inf; what is divided by the
 * sum, or is a difference of two infinities, is NaN. */
static void
test_blank(void **state)
{
	dim_id a, c;

	(void)state;
	open_rows(IR_ADD, -INFINITY, &a, &c);
	EACH(a) {
		assert_true(at("all") == -INFINITY);
		assert_true(isnan(at("e")));
		EACH(c) {
			assert_true(isnan(at("s")));
		}
	}
	close_module();
}

static void
test_cross_entropy(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < ROUNDS; i++) {
		dim_id a, b, c;
		value_id x, l;

		open_module();
		a = dim("a", draw(1, 4));
		b = dim("b", draw(1, 4));
		c = dim("c", draw(1, 6));
		x = source("x", 0, false, DIMS(a, b, c));
		l = source("l", c, true, DIMS(a, b));
		begin(IR_LOG_SUM_EXP, "z");
		args(x, 0, 0);
		ir_new_dim(&t.n, IR_ATTR_OVER, c);
		done();
		begin(IR_CROSS_ENTROPY, "y");
		args(x, l, 0);
		must_eval(done());
		EACH(a) EACH(b) {
			double sum = 0;

			EACH(c) {
				sum += exp(at("x"));
			}
			t.ix[c] = (int64_t)at("l");
			near(at("y"), -log(exp(at("x")) / sum));
			near(at("z"), log(sum));
		}
		close_module();
	}
}

/* Llama 3.1's frequencies, as its reference code has them. */
static double
scaled(double freq, double factor, double low, double high, double old)
{
	double wave = 2 * acos(-1) / freq, smooth;

	if (wave < old / high) {
		return freq;
	}
	if (wave > old / low) {
		return freq / factor;
	}
	smooth = (old / wave - low) / (high - low);
	return (1 - smooth) * freq / factor + smooth * freq;
}

static void
check_rope(dim_id b, dim_id s, dim_id d, bool pairs, bool stretch,
	   bool by_value)
{
	int64_t half = ir_dim_size(t.m, d) / 2, i;
	double p, q, f, x, y;

	EACH(b) EACH(s) for (i = 0; i < half; i++) {
		f = pow(100, -(double)i / (double)half);
		f = (by_value ? at("p") : (double)t.ix[s]) *
		    (stretch ? scaled(f, 8, 1, 4, 16) : f);
		t.ix[d] = pairs ? 2 * i : i;
		p = at("x");
		x = at("y");
		t.ix[d] = pairs ? 2 * i + 1 : i + half;
		q = at("x");
		y = at("y");
		/* as a complex number: (p + iq) e^(if) */
		near(x, hypot(p, q) * cos(atan2(q, p) + f));
		near(y, hypot(p, q) * sin(atan2(q, p) + f));
	}
}

static void
test_rope(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 8 * ROUNDS; i++) {
		dim_id b, s, d;
		value_id x, p = 0;

		open_module();
		b = dim("b", draw(1, 3));
		s = dim("s", draw(1, 9));
		d = dim("d", 2 * draw(1, 5));
		x = i & 4 ? source("x", 0, false, DIMS(s, b, d)) :
			    source("x", 0, false, DIMS(b, s, d));
		if (i & 8) {
			p = source("p", 0, false, DIMS(s, b));
		}
		begin(p ? IR_ROPE_AT : IR_ROPE, "y");
		args(x, p, 0);
		if (!p) {
			ir_new_dim(&t.n, IR_ATTR_SEQ, s);
		}
		ir_new_num(&t.n, IR_ATTR_THETA, 100);
		if (i & 1) {
			ir_new_attr(&t.n, IR_ATTR_INTERLEAVED);
		}
		if (i & 2) {
			ir_new_num(&t.n, IR_ATTR_FACTOR, 8);
			ir_new_num(&t.n, IR_ATTR_LOW, 1);
			ir_new_num(&t.n, IR_ATTR_HIGH, 4);
			ir_new_int(&t.n, IR_ATTR_ORIGINAL, 16);
		}
		must_eval(done());
		check_rope(b, s, d, i & 1, i & 2, i & 8);
		close_module();
	}
}

/* ---- moving ---- */

static void
test_cuts(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < ROUNDS; i++) {
		dim_id a, b, c, both;
		int64_t from = draw(0, 3), pick = draw(0, 2);
		value_id x, y, z;

		open_module();
		a = dim("a", draw(1, 3));
		b = dim("b", draw(1, 3));
		c = dim("c", ir_dim_size(t.m, b) + from + 1);
		both = dim("both", ir_dim_size(t.m, b) +
				   ir_dim_size(t.m, c));
		x = source("x", 0, true, DIMS(a, c));
		begin(IR_SLICE, "y");
		args(x, 0, 0);
		ir_new_dim(&t.n, IR_ATTR_OF, c);
		ir_new_dim(&t.n, IR_ATTR_TO, b);
		ir_new_int(&t.n, IR_ATTR_AT, from);
		y = done();
		begin(IR_SELECT, "p");
		args(x, 0, 0);
		ir_new_dim(&t.n, IR_ATTR_OF, c);
		ir_new_int(&t.n, IR_ATTR_AT, pick % (from + 2));
		done();
		z = source("z", 0, false, DIMS(a, c));
		x = source("v", 0, false, DIMS(b));
		begin(IR_CONCAT, "w");
		args(x, z, 0);
		ir_new_dim(&t.n, IR_ATTR_TO, both);
		done();
		must_eval(y);
		EACH(a) {
			EACH(b) {
				t.ix[c] = t.ix[b] + from;
				near(at("y"), at("x"));
			}
			t.ix[c] = pick % (from + 2);
			near(at("p"), at("x"));
			EACH(both) {
				bool left = t.ix[both] < ir_dim_size(t.m, b);

				t.ix[b] = t.ix[both];
				t.ix[c] = t.ix[both] - ir_dim_size(t.m, b);
				near(at("w"), at(left ? "v" : "z"));
			}
		}
		close_module();
	}
}

static void
test_gather(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < ROUNDS; i++) {
		dim_id a, n, v, s;
		value_id x, k;

		open_module();
		a = dim("a", draw(1, 3));
		n = dim("n", draw(1, 3));
		v = dim("v", draw(1, 9));
		s = dim("s", draw(1, 4));
		x = source("x", 0, true, DIMS(a, v, n));
		k = source("k", v, true, DIMS(a, s));
		begin(IR_GATHER, "y");
		args(x, k, 0);
		ir_new_dim(&t.n, IR_ATTR_OF, v);
		must_eval(done());
		EACH(a) EACH(n) EACH(s) {
			t.ix[v] = (int64_t)at("k");
			near(at("y"), at("x"));
		}
		close_module();
	}
}

/* ---- topk ---- */

static double
score_of_group(dim_id e, int64_t size, int64_t g, int64_t count)
{
	double sum = 0;
	int64_t i, j, above;

	for (i = 0; i < size; i++) {
		above = 0;
		for (j = 0; j < size; j++) {
			double x, y;

			t.ix[e] = g * size + i;
			x = at("x");
			t.ix[e] = g * size + j;
			y = at("x");
			above += y > x || (y == x && j < i);
		}
		t.ix[e] = g * size + i;
		sum += above < count ? at("x") : 0;
	}
	return sum;
}

/* How many of the row come before expert i; those of lost groups never do. */
static int64_t
place(dim_id e, int64_t groups, int64_t top, int64_t count, int64_t i)
{
	int64_t n = ir_dim_size(t.m, e), size = n / groups, j, h, before = 0;
	double mine, other;

	for (j = 0; j < n; j++) {
		int64_t rank = 0;

		mine = score_of_group(e, size, j / size, count);
		for (h = 0; h < groups; h++) {
			other = score_of_group(e, size, h, count);
			rank += other > mine ||
				(other == mine && h < j / size);
		}
		if (rank >= top) {
			if (i == j) {
				return n;
			}
			continue;
		}
		t.ix[e] = j;
		other = at("x");
		t.ix[e] = i;
		before += other > at("x") || (other == at("x") && j < i);
	}
	return before;
}

static void
test_topk(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 2 * ROUNDS; i++) {
		int64_t groups = draw(1, 4), size = draw(1, 4), got;
		int64_t top = draw(1, groups), want = draw(1, top * size);
		int64_t count = draw(1, 2);
		dim_id a, e, k;
		value_id x;

		open_module();
		a = dim("a", draw(1, 4));
		e = dim("e", groups * size);
		k = dim("k", want);
		x = source("x", 0, true, DIMS(a, e));
		if (i & 1) {	/* ties: only 0 and above differ */
			begin(IR_RELU, "x");
			args(x, 0, 0);
			x = done();
		}
		begin(IR_TOPK, "y");
		args(x, 0, 0);
		ir_new_dim(&t.n, IR_ATTR_OF, e);
		ir_new_dim(&t.n, IR_ATTR_TO, k);
		if (groups > 1) {
			ir_new_int(&t.n, IR_ATTR_GROUPS, groups);
			ir_new_int(&t.n, IR_ATTR_TOP_GROUPS, top);
			ir_new_int(&t.n, IR_ATTR_GROUP_BEST, count);
		}
		must_eval(done());
		EACH(a) EACH(k) {
			got = (int64_t)at("y");
			assert_int_equal(place(e, groups, top, count, got),
					 t.ix[k]);
		}
		close_module();
	}
}

static void
test_topk_groups_too_few(void **state)
{
	dim_id e, k;
	value_id x;

	(void)state;
	open_module();
	e = dim("e", 8);
	k = dim("k", 3);
	x = source("x", 0, false, DIMS(e));
	begin(IR_TOPK, "y");
	args(x, 0, 0);
	ir_new_dim(&t.n, IR_ATTR_OF, e);
	ir_new_dim(&t.n, IR_ATTR_TO, k);
	ir_new_int(&t.n, IR_ATTR_GROUPS, 4);
	ir_new_int(&t.n, IR_ATTR_TOP_GROUPS, 1);
	must_fail(done(), "3 of 8 are asked for, and 1 of 4 groups");
	close_module();
}

/* ---- contractions ---- */

static void
test_dot(void **state)
{
	dim_id b, m, n, k, l;
	value_id x, y;
	double sum;
	int i;

	(void)state;
	for (i = 0; i < 2 * ROUNDS; i++) {
		open_module();
		b = dim("b", draw(1, 3));
		m = dim("m", draw(1, 4));
		n = dim("n", draw(1, 4));
		k = dim("k", draw(1, 5));
		l = i & 1 ? dim("l", draw(1, 3)) : b;
		x = i & 1 ? source("x", 0, true, DIMS(b, m, k, l)) :
			    source("x", 0, true, DIMS(b, m, k));
		y = i & 1 ? source("y", 0, true, DIMS(l, k, n, b)) :
			    source("y", 0, true, DIMS(k, n, b));
		begin(IR_DOT, "z");
		args(x, y, 0);
		ir_new_dim(&t.n, IR_ATTR_OVER, k);
		if (i & 1) {
			ir_new_dim(&t.n, IR_ATTR_OVER, l);
		}
		must_eval(done());
		EACH(m) EACH(n) EACH(b) {
			sum = 0;
			EACH(k) {
				if (l == b) {
					sum += at("x") * at("y");
					continue;
				}
				EACH(l) {
					sum += at("x") * at("y");
				}
			}
			near(at("z"), sum);
		}
		close_module();
	}
}

static void
test_dot_at(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < ROUNDS; i++) {
		dim_id s, c, m, e, k, n;
		value_id x, j, w;

		open_module();
		s = dim("s", draw(1, 4));
		c = dim("c", draw(1, 3));
		m = dim("m", draw(1, 2));
		e = dim("e", draw(1, 6));
		k = dim("k", draw(1, 4));
		n = dim("n", draw(1, 4));
		x = source("x", 0, true, DIMS(s, m, k));
		j = source("j", e, true, DIMS(s, c));
		w = source("w", 0, true, DIMS(e, k, n));
		begin(IR_DOT_AT, "y");
		args(x, j, w);
		ir_new_dim(&t.n, IR_ATTR_OVER, k);
		ir_new_dim(&t.n, IR_ATTR_OF, e);
		must_eval(done());
		EACH(s) EACH(c) EACH(m) EACH(n) {
			double sum = 0;

			t.ix[e] = (int64_t)at("j");
			EACH(k) {
				sum += at("x") * at("w");
			}
			near(at("y"), sum);
		}
		close_module();
	}
}

/* The dims of an attention; some may be one and the same. */
struct att {
	dim_id b, c, s, h, t, k, d, v;
	int64_t window;
	bool causal, sinks, between;
	double scale, softcap, alibi;
};

/* Whether `first` and `last` of query i leave it key j. */
static bool
is_between(const struct att *a, int64_t i, int64_t j)
{
	t.ix[a->s] = i;
	return !a->between || ((double)j >= at("first") &&
			       (double)j <= at("last"));
}

/* The slopes of 1 to 9 heads, in units of the exponent's eighths. */
static double
alibi_slope(const struct att *a, int64_t head)
{
	static const double of[10][9] = {
		{ 0 }, { 8 }, { 4, 8 }, { 4, 8, 2 }, { 2, 4, 6, 8 },
		{ 2, 4, 6, 8, 1 }, { 2, 4, 6, 8, 1, 3 },
		{ 2, 4, 6, 8, 1, 3, 5 }, { 1, 2, 3, 4, 5, 6, 7, 8 },
		{ 1, 2, 3, 4, 5, 6, 7, 8, 0.5 }
	};

	return pow(2, -a->alibi / 8 * of[ir_dim_size(t.m, a->h)][head]);
}

/* Where ALiBi of query i counts from. */
static double
bias_from(const struct att *a, int64_t i, int64_t own)
{
	t.ix[a->s] = i;
	return a->between && !a->causal ? floor(at("last")) : (double)own;
}

static void
check_query(const struct att *a)
{
	int64_t i = t.ix[a->s], head = t.ix[a->h], j, past;
	int64_t n = ir_dim_size(t.m, a->t), c;
	int64_t share = ir_dim_size(t.m, a->h) / ir_dim_size(t.m, a->k);
	int64_t last = i + n - ir_dim_size(t.m, a->s);
	double sum = a->sinks ? exp(at("sink")) : 0, score[32], w;

	for (j = 0; j < n; j++) {
		past = last - j;	/* how far back key j is */
		score[j] = 0;
		for (c = 0; c < ir_dim_size(t.m, a->d); c++) {
			t.ix[a->s] = i;
			t.ix[a->h] = head;
			t.ix[a->d] = c;
			w = at("q");
			t.ix[a->t] = j;
			t.ix[a->k] = head / share;
			score[j] += w * at("k");
		}
		score[j] *= a->scale;
		if (a->softcap > 0) {
			w = exp(2 * score[j] / a->softcap);
			score[j] = a->softcap * (w - 1) / (w + 1);
		}
		if (a->alibi > 0) {
			score[j] -= (bias_from(a, i, last) - (double)j) *
				    alibi_slope(a, head);
		}
		score[j] = (a->causal && past < 0) ||
			   (a->window && past >= a->window) ||
			   !is_between(a, i, j) ? 0 :
			   exp(score[j]);
		sum += score[j];
	}
	for (c = 0; c < ir_dim_size(t.m, a->v); c++) {
		double want = 0;

		for (j = 0; j < n; j++) {
			t.ix[a->t] = j;
			t.ix[a->k] = head / share;
			t.ix[a->v] = c;
			want += sum > 0 ? score[j] / sum * at("v") : 0;
		}
		t.ix[a->s] = i;
		t.ix[a->h] = head;
		near(at("y"), want);
	}
	t.ix[a->s] = i;
	t.ix[a->h] = head;
}

/* Bits of `kind` say which dims are shared and which attributes are set. */
static void
try_attention(int kind)
{
	int64_t k = draw(1, 3), shared = kind & 2 ? 1 : draw(1, 3);
	struct att a = { 0 };
	static const enum ir_op ops[] = {
		IR_ATTENTION, IR_ATTENTION_SINKS, IR_ATTENTION_BETWEEN,
		IR_ATTENTION_SINKS_BETWEEN
	};
	value_id q, key, v, sink, first, last;
	int i;

	open_module();
	a.b = dim("b", draw(1, 3));
	a.c = dim("c", draw(1, 2));
	a.s = dim("s", draw(1, 6));
	a.t = kind & 1 ? a.s : dim("t", draw(1, 7));
	a.h = dim("h", k * shared);
	a.k = kind & 2 ? a.h : dim("k", k);
	a.d = dim("d", draw(1, 4));
	a.v = kind & 4 ? a.d : dim("v", draw(1, 4));
	a.causal = kind & 8;
	a.window = kind & 16 ? draw(1, 4) : 0;
	a.scale = kind & 32 ? 0.3 : 1 / sqrt((double)ir_dim_size(t.m, a.d));
	q = source("q", 0, false, DIMS(a.b, a.c, a.s, a.h, a.d));
	key = source("k", 0, false, DIMS(a.c, a.b, a.t, a.k, a.d));
	v = source("v", 0, false, DIMS(a.b, a.c, a.t, a.k, a.v));
	a.sinks = kind & 64;
	a.softcap = kind & 128 ? 0.7 : 0;
	sink = source("sink", 0, false, DIMS(a.h));
	a.between = kind & 256;
	first = source("first", 0, false, DIMS(a.b, a.c, a.s));
	last = source("last", 0, false, DIMS(a.b, a.c, a.s));
	begin(ops[a.sinks + 2 * a.between], "y");
	args(q, key, v);
	for (i = 0; i < 3; i++) {
		if (i == 0 ? a.sinks : a.between) {
			ir_new_arg(&t.n, i == 0 ? sink : i == 1 ? first : last);
		}
	}
	if (a.causal) {
		ir_new_attr(&t.n, IR_ATTR_CAUSAL);
	}
	if (a.window) {
		ir_new_int(&t.n, IR_ATTR_WINDOW, a.window);
	}
	if (kind & 32) {
		ir_new_num(&t.n, IR_ATTR_SCALE, a.scale);
	}
	if (a.softcap > 0) {
		ir_new_num(&t.n, IR_ATTR_SOFTCAP, a.softcap);
	} else if (draw(0, 1)) {
		a.alibi = 3;
		ir_new_num(&t.n, IR_ATTR_ALIBI, a.alibi);
	}
	must_eval(done());
	EACH(a.b) EACH(a.c) EACH(a.s) EACH(a.h) {
		check_query(&a);
	}
	close_module();
}

static void
test_attention(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 512; i++) {
		try_attention(i);
	}
}

/* ---- indices from outside ---- */

static bool
bad_index(void *user, enum ir_op op, const char *name,
	  const struct ir_type *type, int64_t elems, double *out,
	  struct span span)
{
	(void)op;
	(void)name;
	(void)type;
	(void)elems;
	(void)span;
	out[0] = *(double *)user;
	return true;
}

static void
test_bad_index(void **state)
{
	static double bad[] = { -1, 5, 0.5, NAN, INFINITY, 1e300 };
	struct ir_weights from = { .get = bad_index, .user = NULL };
	size_t i, op;

	(void)state;
	for (i = 0; i < 3 * sizeof bad / sizeof *bad; i++) {
		value_id x, y, k;
		dim_id v, n;

		op = i % 3;
		open_module();
		v = dim("v", 5);
		n = dim("n", 2);
		from.user = &bad[i / 3];
		t.opt.weights = &from;
		begin(IR_STATE, NULL);
		ir_new_text(&t.n, IR_ATTR_NAME, sym("k"));
		t.n.types[0] = make_type(IR_IDX, v, 0, NULL);
		k = done();
		x = op == 0 ? source("x", 0, false, DIMS(v)) :
			      source("x", 0, false, DIMS(v, n));
		y = source("y", 0, false, DIMS(n));
		begin(op == 0 ? IR_CROSS_ENTROPY :
		      op == 1 ? IR_GATHER : IR_DOT_AT, NULL);
		if (op == 2) {
			args(y, k, x);
			ir_new_dim(&t.n, IR_ATTR_OVER, n);
		} else {
			args(x, k, 0);
		}
		if (op > 0) {
			ir_new_dim(&t.n, IR_ATTR_OF, v);
		}
		must_fail(done(), "the indices of `v` are 0 to 4");
		close_module();
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map1),
		cmocka_unit_test(test_map2),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_stable),
		cmocka_unit_test(test_blank),
		cmocka_unit_test(test_cross_entropy),
		cmocka_unit_test(test_rope),
		cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_gather),
		cmocka_unit_test(test_topk),
		cmocka_unit_test(test_topk_groups_too_few),
		cmocka_unit_test(test_dot),
		cmocka_unit_test(test_dot_at),
		cmocka_unit_test(test_attention),
		cmocka_unit_test(test_bad_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
