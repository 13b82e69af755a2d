/*
 * Integer arithmetic that reports overflow, and strict parsers of numbers: a
 * compiler that multiplies sizes of dims must never wrap around.
 */
#include "ir/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool
num_add(int64_t a, int64_t b, int64_t *out)
{
	int64_t v;

	if (__builtin_add_overflow(a, b, &v)) {
		return false;
	}
	*out = v;
	return true;
}

bool
num_mul(int64_t a, int64_t b, int64_t *out)
{
	int64_t v;

	if (__builtin_mul_overflow(a, b, &v)) {
		return false;
	}
	*out = v;
	return true;
}

int64_t
num_gcd(int64_t a, int64_t b)
{
	while (b) {
		int64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

int64_t
num_ceil_div(int64_t n, int64_t p)
{
	return n / p + (n % p != 0);
}

bool
num_parse_int(const char *s, size_t n, int64_t *out)
{
	int64_t v = 0;
	bool neg = n > 0 && s[0] == '-';
	size_t i = neg;

	if (i == n) {
		return false;
	}
	for (; i < n; i++) {
		if (s[i] < '0' || s[i] > '9' || !num_mul(v, 10, &v) ||
		    !num_add(v, neg ? '0' - s[i] : s[i] - '0', &v)) {
			return false;
		}
	}
	*out = v;
	return true;
}

bool
num_parse_double(const char *s, size_t n, double *out)
{
	char text[64], *end;
	double v;

	/* strtod accepts "inf", "nan" and hex, which are no numbers here */
	if (n == 0 || n >= sizeof text ||
	    strspn(s, "+-.0123456789eE") < n) {
		return false;
	}
	memcpy(text, s, n);
	text[n] = '\0';
	v = strtod(text, &end);
	if (*end || !isfinite(v)) {
		return false;
	}
	/* 0 was read but a digit is not 0: the number underflows */
	if (v == 0 && strcspn(text, "123456789") < strcspn(text, "eE")) {
		return false;
	}
	*out = v;
	return true;
}
