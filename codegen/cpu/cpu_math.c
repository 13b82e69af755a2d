/*
 * Functions of vectors and of scalars, without branches or calls.
 *
 * Each reduces its argument to a short interval and evaluates a polynomial
 * there.  The coefficients are minimax fits, by Remez's exchange in 40 digits,
 * of the relative error; they are rounded to f32 one by one from the lowest
 * power, with the others fitted again.  Errors stated below are those of the
 * polynomial, without the rounding of f32.
 *
 * NaN gives NaN.  Comparisons are written so that NaN selects the arm that
 * keeps it.  No float is converted to an integer, which LLVM leaves undefined
 * for NaN: adding 1.5 * 2^23 leaves the nearest integer in the low bits of an
 * f32, and adding 1.5 * 2^52 in those of an f64.
 */
#include "codegen/cpu/cpu.h"

#include <math.h>

#define LOG2E 0x1.715476p+0
/* ln 2 in two parts: an integer of 8 bits times the first is exact. */
#define LN2_HIGH 0x1.62e4p-1
#define LN2_LOW 0x1.7f7d1cp-20
#define ROUND32 0x1.8p+23
#define ROUND64 0x1.8p+52
#define PI 3.14159265358979323846

static struct ll_type
like(struct ll *l, struct ll_value *x, enum ll_base base)
{
	return ll_type(base, ll_typeof(l, x).lanes);
}

static struct ll_value *
num(struct ll *l, struct ll_value *x, double v)
{
	return ll_num(l, ll_typeof(l, x), v);
}

static struct ll_value *
f32_bits(struct ll *l, struct ll_value *x)
{
	return ll_bits(l, x, like(l, x, LL_I32));
}

/* An i32 of the shape of x. */
static struct ll_value *
whole(struct ll *l, struct ll_value *x, int64_t v)
{
	return ll_int(l, like(l, x, LL_I32), v);
}

static struct ll_value *
math1(struct ll *l, const char *name, struct ll_value *x)
{
	return ll_math(l, name, &x, 1);
}

static struct ll_value *
copysign_of(struct ll *l, struct ll_value *size, struct ll_value *sign)
{
	struct ll_value *args[2] = { size, sign };

	return ll_math(l, "copysign", args, 2);
}

/* c[0] + c[1] x + c[2] x^2 + ... */
static struct ll_value *
poly(struct ll *l, struct ll_value *x, const double *c, uint32_t n)
{
	struct ll_value *y = num(l, x, c[n - 1]);

	while (--n > 0) {
		y = ll_fma(l, y, x, num(l, x, c[n - 1]));
	}
	return y;
}

/*
 * x = n ln 2 + r with |r| at most ln 2 / 2.  *n is n shifted to an f32's
 * exponent.  Returns e^r - 1 = r + r^2 q(r), within 3.2e-9 of e^r.
 */
static struct ll_value *
exp_part(struct ll *l, struct ll_value *x, struct ll_value **n)
{
	static const double q[] = {
		0x1.fffffcp-2, 0x1.55548cp-3, 0x1.555858p-5, 0x1.123dep-7,
		0x1.6ac744p-10
	};
	struct ll_value *round = num(l, x, ROUND32), *t, *r, *q_r;

	t = ll_fma(l, x, num(l, x, LOG2E), round);
	*n = ll_bin(l, LL_SHL, f32_bits(l, t), whole(l, x, 23));
	t = ll_bin(l, LL_SUB, t, round);
	r = ll_fma(l, t, num(l, x, -LN2_HIGH), x);
	r = ll_fma(l, t, num(l, x, -LN2_LOW), r);
	q_r = poly(l, r, q, 5);
	return ll_fma(l, ll_bin(l, LL_MUL, r, r), q_r, r);
}

/* e^x where it is a normal number. */
static struct ll_value *
exp_normal(struct ll *l, struct ll_value *x)
{
	struct ll_value *n, *y = exp_part(l, x, &n);

	y = ll_bin(l, LL_ADD, y, num(l, x, 1));
	y = ll_bin(l, LL_ADD, f32_bits(l, y), n);
	return ll_bits(l, y, ll_typeof(l, x));
}

/*
 * 88.72284 is the largest x whose e^x is finite.  Below -87.33654 e^x is
 * subnormal, and becomes 0.  x + inf is inf, or NaN.
 */
struct ll_value *
cg_exp(struct ll *l, struct ll_value *x)
{
	struct ll_value *y = exp_normal(l, x), *c;

	c = ll_test(l, LL_LE, x, num(l, x, 0x1.62e42ep+6));
	y = ll_select(l, c, y, ll_bin(l, LL_ADD, x, num(l, x, INFINITY)));
	c = ll_test(l, LL_LT, x, num(l, x, -0x1.5d589ep+6));
	return ll_select(l, c, num(l, x, 0), y);
}

/* log(1 + f) = f - f^2 / 2 + f^3 p(f) for 1 + f between the roots of 1/2 and
 * of 2, with a relative error of 6.4e-9. */
static struct ll_value *
log_part(struct ll *l, struct ll_value *f, struct ll_value *e)
{
	static const double p[] = {
		0x1.555554p-2, -0x1.000226p-2, 0x1.99a00ap-3, -0x1.547248p-3,
		0x1.22d9fap-3, -0x1.0d8504p-3, 0x1.055c3p-3, -0x1.38b88cp-4
	};
	struct ll_value *f2 = ll_bin(l, LL_MUL, f, f), *y;

	y = poly(l, f, p, 8);
	y = ll_bin(l, LL_MUL, ll_bin(l, LL_MUL, f2, f), y);
	y = ll_fma(l, e, num(l, f, LN2_LOW), y);
	y = ll_fma(l, f2, num(l, f, -0.5), y);
	y = ll_bin(l, LL_ADD, f, y);
	return ll_fma(l, e, num(l, f, LN2_HIGH), y);
}

/* x = 2^e (1 + f); a subnormal x is multiplied by 2^23 first. */
struct ll_value *
cg_log(struct ll *l, struct ll_value *x)
{
	const int64_t root_half = 0x3f3504f3;	/* its bits */
	struct ll_value *tiny, *i, *e, *f, *y, *c, *rest;

	tiny = ll_test(l, LL_LT, x, num(l, x, 0x1p-126));
	i = ll_bin(l, LL_MUL, x, num(l, x, 0x1p+23));
	i = f32_bits(l, ll_select(l, tiny, i, x));
	e = ll_bin(l, LL_SUB, i, whole(l, x, root_half));
	e = ll_bin(l, LL_ASHR, e, whole(l, x, 23));
	f = ll_bin(l, LL_SUB, i, ll_bin(l, LL_SHL, e, whole(l, x, 23)));
	f = ll_bin(l, LL_SUB, ll_bits(l, f, ll_typeof(l, x)), num(l, x, 1));
	c = ll_select(l, tiny, whole(l, x, -23), whole(l, x, 0));
	e = ll_cast(l, ll_bin(l, LL_ADD, e, c), LL_F32);
	y = log_part(l, f, e);
	c = ll_test(l, LL_LT, x, num(l, x, INFINITY));
	y = ll_select(l, c, y, x);
	c = ll_test(l, LL_EQ, x, num(l, x, 0));
	rest = ll_select(l, c, num(l, x, -INFINITY), num(l, x, NAN));
	c = ll_test(l, LL_GT, x, num(l, x, 0));
	return ll_select(l, c, y, rest);
}

/*
 * e / (e + 2) with e = exp(2 |x|) - 1, which is accurate near 0 as exp_part
 * does not add the 1.  From 9.1 on the quotient is 1 in f32.
 */
struct ll_value *
cg_tanh(struct ll *l, struct ll_value *x)
{
	struct ll_value *a = math1(l, "fabs", x), *one = num(l, x, 1);
	struct ll_value *most = num(l, x, 9.125), *e, *n;

	a = ll_select(l, ll_test(l, LL_GT, a, most), most, a);
	e = exp_part(l, ll_bin(l, LL_ADD, a, a), &n);
	n = ll_bin(l, LL_ADD, f32_bits(l, one), n);
	n = ll_bits(l, n, ll_typeof(l, x));	/* a power of 2 */
	e = ll_fma(l, n, e, ll_bin(l, LL_SUB, n, one));
	e = ll_bin(l, LL_DIV, e, ll_bin(l, LL_ADD, e, num(l, x, 2)));
	return copysign_of(l, e, x);
}

struct ll_value *
cg_sigmoid(struct ll *l, struct ll_value *x)
{
	struct ll_value *one = num(l, x, 1), *e = cg_exp(l, ll_neg(l, x));

	return ll_bin(l, LL_DIV, one, ll_bin(l, LL_ADD, one, e));
}

/*
 * Up to 1 it is x + x p(x^2), with a relative error of 1.5e-9; beyond it is
 * 1 - exp(-(t + t q(t))) with t = |x|, to 2.6e-9.  At 4 that is 1 in f32.
 */
struct ll_value *
cg_erf(struct ll *l, struct ll_value *x)
{
	static const double p[] = {
		0x1.06eba8p-3, -0x1.81273ep-2, 0x1.ce2ce6p-4, -0x1.b7f71ap-6,
		0x1.53f224p-8, -0x1.a3515ep-11, 0x1.4771fcp-14
	};
	static const double q[] = {
		0x1.07208ap-3, 0x1.458bb4p-1, 0x1.ae8e4ap-4, -0x1.7587ccp-6,
		0x1.a1b886p-9, -0x1.b9c0e2p-13
	};
	struct ll_value *t = math1(l, "fabs", x), *most = num(l, x, 4);
	struct ll_value *one = num(l, x, 1), *small, *large, *c;

	small = poly(l, ll_bin(l, LL_MUL, x, x), p, 7);
	small = ll_fma(l, small, x, x);
	c = ll_test(l, LL_GT, t, one);
	t = ll_select(l, ll_test(l, LL_GT, t, most), most, t);
	large = ll_fma(l, poly(l, t, q, 6), t, t);
	large = exp_normal(l, ll_neg(l, large));
	large = copysign_of(l, ll_bin(l, LL_SUB, one, large), x);
	return ll_select(l, c, large, small);
}

/* -x where bit 1 of the i32 q is set, else x. */
static struct ll_value *
turn_sign(struct ll *l, struct ll_value *x, struct ll_value *q)
{
	q = ll_bin(l, LL_AND, q, whole(l, x, 2));
	q = ll_bin(l, LL_SHL, q, whole(l, x, 30));
	q = ll_bin(l, LL_XOR, f32_bits(l, x), q);
	return ll_bits(l, q, ll_typeof(l, x));
}

/*
 * In quarters of a turn, t = n + r with |r| at most 1/2.  Multiplying by 4 and
 * subtracting n are exact, so the reduction adds no error to that of `turns`.
 * sin(pi / 2 r) = r s(r^2) with a relative error of 2.9e-8, which is the
 * rounding of pi / 2, and cos(pi / 2 r) = 1 + r^2 c(r^2) to 4.4e-10.
 */
void
cg_sincos_turns(struct ll *l, struct ll_value *turns, struct ll_value **sin,
		struct ll_value **cos)
{
	static const double s[] = {
		0x1.921fb6p+0, -0x1.4abc24p-1, 0x1.4680ap-4, -0x1.33182cp-8
	};
	static const double c[] = {
		-0x1.3bd3ccp+0, 0x1.03c1bp-2, -0x1.55b2b6p-6, 0x1.d4f7eep-11
	};
	struct ll_value *four = num(l, turns, 4), *t, *q, *r, *r2, *odd, *a, *b;

	t = ll_fma(l, turns, four, num(l, turns, ROUND64));
	q = ll_cast(l, ll_bits(l, t, like(l, t, LL_I64)), LL_I32);
	t = ll_bin(l, LL_SUB, t, num(l, turns, ROUND64));
	r = ll_cast(l, ll_fma(l, turns, four, ll_neg(l, t)), LL_F32);
	r2 = ll_bin(l, LL_MUL, r, r);
	a = ll_bin(l, LL_MUL, r, poly(l, r2, s, 4));
	b = ll_fma(l, r2, poly(l, r2, c, 4), num(l, r, 1));
	odd = ll_bin(l, LL_AND, q, whole(l, r, 1));
	odd = ll_test(l, LL_NE, odd, whole(l, r, 0));
	*sin = turn_sign(l, ll_select(l, odd, b, a), q);
	q = ll_bin(l, LL_ADD, q, whole(l, r, 1));
	*cos = turn_sign(l, ll_select(l, odd, a, b), q);
}

void
cg_sincos(struct ll *l, struct ll_value *x, struct ll_value **sin,
	  struct ll_value **cos)
{
	struct ll_value *wide = ll_cast(l, x, LL_F64);

	wide = ll_bin(l, LL_MUL, wide, num(l, wide, 1 / (2 * PI)));
	cg_sincos_turns(l, wide, sin, cos);
}
