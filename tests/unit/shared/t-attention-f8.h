/*
 * Keys and values of 8 bits: the interpreter is given numbers that the type
 * has, so that what kernels read is what it computed with.  A part of
 * t-attention.h, with its `s`.
 */
#ifndef T_ATTENTION_F8_H
#define T_ATTENTION_F8_H

/* Mantissa bits, and the bias of the exponent, of a type of 8 bits. */
static int
mantissa_of(uint8_t dtype)
{
	return dtype == IR_F8E4M3 ? 3 : 2;
}

static int
bias_of(uint8_t dtype)
{
	return dtype == IR_F8E4M3 ? 7 : 15;
}

static bool
is_f8(uint8_t dtype)
{
	return dtype == IR_F8E4M3 || dtype == IR_F8E5M2;
}

/* Weights of 8 bits are drawn as such. */
static bool
is_rounded(void *user, enum ir_op op, const char *name)
{
	(void)user;
	return op == IR_WEIGHT && s.stored &&
	       (strcmp(name, "w1") == 0 || strcmp(name, "w2") == 0);
}

static bool
get_rounded(void *user, enum ir_op op, const char *name,
	    const struct ir_type *type, int64_t elems, double *out,
	    struct span at)
{
	uint64_t key = ir_rng_key(name, 5);
	int64_t i;

	(void)user;
	(void)op;
	(void)at;
	for (i = 0; i < elems; i++) {
		int bits = mantissa_of(type->dtype) + 1, e;
		double x = ir_rng_normal(key, (uint64_t)i);

		/* subnormal numbers are multiples of the same */
		frexp(x, &e);
		e = e < 2 - bias_of(type->dtype) ? 2 - bias_of(type->dtype)
						  : e;
		out[i] = ldexp(rint(ldexp(x, bits - e)), e - bits);
	}
	return true;
}

/* Of a number that the type has, or NaN. */
static uint8_t
to_f8(double x, uint8_t dtype)
{
	int bits = mantissa_of(dtype), bias = bias_of(dtype), e;
	double m = frexp(fabs(x), &e);
	uint8_t sign = signbit(x) ? 0x80 : 0;

	if (isnan(x)) {
		return 0x7f;
	}
	if (x == 0 || e + bias - 1 < 1) {
		m = ldexp(fabs(x), bias + bits - 1);
		assert_true(m == rint(m));
		return sign | (uint8_t)m;
	}
	m = ldexp(2 * m - 1, bits);
	assert_true(m == rint(m));
	return sign | (uint8_t)((e + bias - 1) << bits) | (uint8_t)m;
}

#endif
