/*
 * Numbers, digit by digit; see gram.h.
 *
 * A number in bounds may go on by a digit if some number that begins so is
 * within them.  The digits so far are an interval for each count of digits that
 * may follow, and one of these has to meet the bounds.
 */
#include "runtime/grammar/gram.h"

enum {
	WHOLE_DIGITS = 16,	/* of numbers without bounds */
	FRACTION_DIGITS = 16,
	EXPONENT_DIGITS = 2,
};

static bool
is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

static int64_t
power_of_10(int32_t n)
{
	int64_t v = 1;

	while (n-- > 0) {
		v *= 10;
	}
	return v;
}

/* ---- numbers in bounds ---- */

/* Whether bounds meet the numbers of these magnitudes. */
static bool
meets(const struct gram_node *x, bool negative, int64_t low, int64_t high)
{
	return negative ? -high <= x->most && -low >= x->least
			: low <= x->most && high >= x->least;
}

/* Of the whole part so far: with any digits that may follow. */
static bool
whole_meets(const struct gram_node *x, bool negative, int64_t value)
{
	int64_t scale = power_of_10(x->decimals);

	while (value <= (GRAM_LARGEST - scale + 1) / scale) {
		if (meets(x, negative, value * scale,
			  value * scale + scale - 1)) {
			return true;
		}
		if (value == 0 || scale > GRAM_LARGEST / 10) {
			return false;
		}
		scale *= 10;
	}
	return false;
}

/* Of a number with so many digits after its point. */
static bool
fraction_meets(const struct gram_node *x, bool negative, int64_t value,
	       int32_t digits)
{
	int64_t scale = power_of_10(x->decimals - digits);

	return meets(x, negative, value * scale, value * scale + scale - 1);
}

/* A digit of a number in bounds; of its whole part, at = 0. */
static bool
add_digit(const struct gram_node *x, struct gram_way *way, int digit)
{
	bool whole = way->phase != GRAM_POINT && way->phase != GRAM_FRACTION;

	if (way->count > (GRAM_LARGEST - digit) / 10 ||
	    (!whole && way->at == x->decimals)) {
		return false;
	}
	way->count = way->count * 10 + digit;
	if (whole) {
		way->phase = way->phase != GRAM_WHOLE && digit == 0
			? GRAM_ZERO : GRAM_WHOLE;
		return whole_meets(x, way->negative, way->count);
	}
	way->at++;
	way->phase = GRAM_FRACTION;
	return fraction_meets(x, way->negative, way->count, way->at);
}

static bool
range_next(const struct gram_node *x, struct gram_way *way, unsigned char byte)
{
	switch (way->phase) {
	case GRAM_BEFORE:
		if (byte == '-') {
			way->negative = true;
			way->phase = GRAM_MINUS;
			return x->least <= 0;
		}
		return is_digit(byte) && add_digit(x, way, byte - '0');
	case GRAM_ZERO:
	case GRAM_WHOLE:
		if (byte == '.') {
			way->phase = GRAM_POINT;
			return x->decimals > 0 &&
			       fraction_meets(x, way->negative, way->count, 0);
		}
		return way->phase == GRAM_WHOLE && is_digit(byte) &&
		       add_digit(x, way, byte - '0');
	case GRAM_MINUS:
	case GRAM_POINT:
	case GRAM_FRACTION:
		return is_digit(byte) && add_digit(x, way, byte - '0');
	default:
		return false;
	}
}

/* ---- any numbers ---- */

/* One more digit of a part that has at most so many. */
static bool
count_digit(struct gram_way *way, enum gram_phase part, int32_t most)
{
	way->at = way->phase == (uint8_t)part ? way->at + 1 : 1;
	way->phase = (uint8_t)part;
	return way->at <= most;
}

static bool
any_next(struct gram_way *way, unsigned char byte)
{
	bool digit = is_digit(byte);

	switch (way->phase) {
	case GRAM_BEFORE:
		if (byte == '-') {
			way->phase = GRAM_MINUS;
			return true;
		}
		/* fall through */
	case GRAM_MINUS:
		if (byte == '0') {
			way->phase = GRAM_ZERO;
			return true;
		}
		return digit && count_digit(way, GRAM_WHOLE, WHOLE_DIGITS);
	case GRAM_WHOLE:
		if (digit) {
			return count_digit(way, GRAM_WHOLE, WHOLE_DIGITS);
		}
		/* fall through */
	case GRAM_ZERO:
		if (byte == '.') {
			way->phase = GRAM_POINT;
			return true;
		}
		break;
	case GRAM_POINT:
		return digit &&
		       count_digit(way, GRAM_FRACTION, FRACTION_DIGITS);
	case GRAM_FRACTION:
		if (digit) {
			return count_digit(way, GRAM_FRACTION,
					   FRACTION_DIGITS);
		}
		break;
	case GRAM_E:
		if (byte == '+' || byte == '-') {
			way->phase = GRAM_E_SIGN;
			return true;
		}
		/* fall through */
	case GRAM_E_SIGN:
	case GRAM_EXPONENT:
		return digit &&
		       count_digit(way, GRAM_EXPONENT, EXPONENT_DIGITS);
	default:
		return false;
	}
	way->phase = GRAM_E;
	return byte == 'e' || byte == 'E';
}

bool
gram_number_next(const struct gram_node *x, struct gram_way *way,
		 unsigned char byte)
{
	return x->kind == GRAM_RANGE ? range_next(x, way, byte)
				     : any_next(way, byte);
}

bool
gram_number_may_end(const struct gram_node *x, const struct gram_way *way)
{
	int64_t value;

	if (way->phase != GRAM_ZERO && way->phase != GRAM_WHOLE &&
	    way->phase != GRAM_FRACTION && way->phase != GRAM_EXPONENT) {
		return false;
	}
	if (x->kind == GRAM_NUMBER) {
		return true;
	}
	value = way->count * power_of_10(x->decimals - way->at);
	return meets(x, way->negative, value, value);
}

/* ---- bounds ---- */

/* An exponent; beyond a thousand it is a thousand. */
static int64_t
read_exponent(const char *s, const char *end)
{
	bool negative = s < end && *s == '-';
	int64_t v = 0;

	s += s < end && (*s == '-' || *s == '+');
	for (; s < end && v < 1000; s++) {
		v = v * 10 + (*s - '0');
	}
	return negative ? -v : v;
}

/* The digits of a number without its exponent, of which those that do not fit
 * only count: *more has them, *cut says if one is not 0. */
static int64_t
read_digits(const char **s, const char *end, int64_t *more, bool *cut)
{
	bool point = false;
	int64_t v = 0;

	for (*more = 0, *cut = false; *s < end; ++*s) {
		if (**s == '.') {
			point = true;
			continue;
		}
		if (!is_digit((unsigned char)**s)) {
			break;
		}
		if (v <= (GRAM_LARGEST - (**s - '0')) / 10) {
			v = v * 10 + (**s - '0');
			*more -= point;
		} else {
			*cut = *cut || **s != '0';
			*more += !point;
		}
	}
	return v;
}

int64_t
gram_scaled(const char *text, size_t n, int32_t decimals, bool up, bool *exact)
{
	const char *end = text + n;
	bool negative = *text == '-', cut;
	int64_t power, v;

	text += negative;
	v = read_digits(&text, end, &power, &cut);
	power += decimals + (text < end ? read_exponent(text + 1, end) : 0);
	for (; power > 0 && v > 0 && v <= GRAM_LARGEST; power--) {
		v = v > GRAM_LARGEST / 10 ? GRAM_LARGEST + 1 : v * 10;
	}
	for (; power < 0 && v > 0; power++) {
		cut = cut || v % 10 != 0;
		v /= 10;
	}
	*exact = !cut;
	/* away from 0 for one sign, towards it for the other */
	v += cut && up != negative;
	v = v > GRAM_LARGEST ? GRAM_LARGEST + 1 : v;
	return negative ? -v : v;
}
