/*
 * Numbers that candidates compute with: drawn by the index of an element, so
 * that the host knows each of them without keeping them.
 */
#include "runtime/measure/tune_inner.h"

#include <math.h>
#include <string.h>

enum { MANY_BITS = 8, F8_BITS = 4 };

#define MOST_E4M3 448.0

int64_t
rt_tune_elem_bytes(int64_t elem)
{
	return elem == RT_ELEM_F64 ? 8
		: elem == RT_ELEM_F32 || elem == RT_ELEM_I32 ? 4
		: elem == RT_ELEM_BF16 || elem == RT_ELEM_F16 ? 2 : 1;
}

int
rt_tune_elem_bits(int64_t elem)
{
	return elem == RT_ELEM_E4M3 ? F8_BITS
		: rt_tune_elem_bytes(elem) == 1 || elem == RT_ELEM_I32 ? 0
		: MANY_BITS;
}

static uint32_t
mix(uint32_t buffer, int64_t i)
{
	uint32_t x = ((uint32_t)i + 1 + buffer * 0x9e3779b9u) * 2654435761u;

	x ^= (uint32_t)(i >> 32);
	x = (x ^ x >> 15) * 2246822519u;
	x = (x ^ x >> 13) * 3266489917u;
	return x ^ x >> 16;
}

double
rt_tune_number(int bits, uint32_t buffer, int64_t i)
{
	int32_t all = 1 << bits;
	int32_t n = (int32_t)(mix(buffer, i) >> (32 - bits));

	return (double)(2 * n + 1 - all) * (1.0 / all);
}

static void
put_e4m3(char *to, double v)
{
	int power;
	double part = frexp(fabs(v), &power);	/* 0.5 .. 1 */
	int bits = (power - 1 + 7) << 3 | ((int)(part * 16) & 7);

	*to = (char)(bits | (v < 0 ? 0x80 : 0));
}

void
rt_tune_put(char *to, int64_t elem, double v)
{
	float f = (float)v;
	uint32_t bits;
	uint16_t half;

	memcpy(&bits, &f, sizeof bits);
	switch (elem) {
	case RT_ELEM_F64:
		memcpy(to, &v, sizeof v);
		break;
	case RT_ELEM_F32:
		memcpy(to, &bits, sizeof bits);
		break;
	case RT_ELEM_BF16:
		half = (uint16_t)(bits >> 16);
		memcpy(to, &half, sizeof half);
		break;
	case RT_ELEM_F16:	/* from 2^-8 to 1, where f16 is not subnormal */
		half = (uint16_t)((bits >> 16 & 0x8000) |
				  (((bits >> 23 & 0xff) - 112) << 10) |
				  (bits >> 13 & 0x3ff));
		memcpy(to, &half, sizeof half);
		break;
	default:
		put_e4m3(to, v);
		break;
	}
}

/* Floats of 8 bits: about 1, of either sign. */
void
rt_tune_put_any(char *to, int64_t i)
{
	uint32_t bits = mix(0, i);

	*to = (char)(0x30 | (bits >> 24 & 0x80) | (bits >> 16 & 0xf));
}

static double
get_f16(uint16_t half)
{
	double part = (half & 0x3ff) / 1024.0;
	int power = half >> 10 & 0x1f;
	double v = power == 0 ? ldexp(part, -14)
		: power == 31 ? (part > 0 ? (double)NAN : (double)INFINITY)
		: ldexp(1 + part, power - 15);

	return half & 0x8000 ? -v : v;
}

static double
get_e4m3(unsigned char byte)
{
	double part = (byte & 7) / 8.0;
	int power = byte >> 3 & 0xf;
	double v = power == 0 ? ldexp(part, -6) : ldexp(1 + part, power - 7);

	return (byte & 0x7f) == 0x7f ? (double)NAN : byte & 0x80 ? -v : v;
}

double
rt_tune_get(const char *at, int64_t elem)
{
	double wide;
	uint32_t bits;
	uint16_t half;
	float f;

	switch (elem) {
	case RT_ELEM_F64:
		memcpy(&wide, at, sizeof wide);
		return wide;
	case RT_ELEM_F32:
		memcpy(&f, at, sizeof f);
		return (double)f;
	case RT_ELEM_BF16:
		memcpy(&half, at, sizeof half);
		bits = (uint32_t)half << 16;
		memcpy(&f, &bits, sizeof f);
		return (double)f;
	case RT_ELEM_F16:
		memcpy(&half, at, sizeof half);
		return get_f16(half);
	case RT_ELEM_E4M3:
		return get_e4m3((unsigned char)*at);
	default:
		return (double)*at;
	}
}

double
rt_tune_round(int64_t elem, double v)
{
	int digits = elem == RT_ELEM_F64 ? 53 : elem == RT_ELEM_F32 ? 24
		: elem == RT_ELEM_F16 ? 11 : elem == RT_ELEM_BF16 ? 8 : 4;
	int power;
	double part = frexp(v, &power), to;

	to = ldexp(nearbyint(ldexp(part, digits)), power - digits);
	return elem != RT_ELEM_E4M3 || fabs(to) <= MOST_E4M3
		? to : copysign(MOST_E4M3, to);
}
