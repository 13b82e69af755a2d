/*
 * The frequencies of rope: radians per position of each pair, and how they
 * are extended to contexts that are longer than those of training.
 *
 *	factor			all are divided by it: position interpolation
 *				(Chen et al. 2023)
 *	factor low high original
 *				those of wavelengths above original / low are
 *				divided, those below original / high are not,
 *				and between them it goes over linearly in
 *				original / wavelength: Llama 3.1, which has
 *				low = 1 and high = 4
 *	factor fast slow original
 *				pairs that turn more than `fast` times in
 *				`original` positions stay, those of fewer than
 *				`slow` turns are divided, and between them it
 *				goes over linearly in the pair's number: YaRN
 *				(Peng et al. 2023), which has 32 and 1
 *	stretch			each is divided by a number of its own:
 *				LongRoPE (Ding et al. 2024)
 */
#include "ir/ir.h"

#include <math.h>

#define PI 3.14159265358979323846

struct rope_scaling {
	double theta, factor, low, high, fast, slow, original;
	bool truncated;
	int64_t d;
};

/* The share of the plain frequency that is kept, in Llama 3.1's way. */
static double
kept_by_wavelength(const struct rope_scaling *s, double f)
{
	double turns = s->original * f / (2 * PI);

	if (turns < s->low || s->original == 0) {
		return 0;
	}
	if (turns > s->high) {
		return 1;
	}
	return s->high > s->low ? (turns - s->low) / (s->high - s->low) : 1;
}

/* The pair, a fraction, that turns so often in the trained context. */
static double
pair_of_turns(const struct rope_scaling *s, double turns)
{
	return (double)s->d * log(s->original / (turns * 2 * PI)) /
	       (2 * log(s->theta));
}

/* The same share, in YaRN's way, as transformers computes it. */
static double
kept_by_number(const struct rope_scaling *s, int64_t i)
{
	double from = pair_of_turns(s, s->fast), to = pair_of_turns(s, s->slow);
	double ramp;

	if (s->truncated) {
		from = floor(from);
		to = ceil(to);
	}
	from = from > 0 ? from : 0;
	to = to < (double)(s->d - 1) ? to : (double)(s->d - 1);
	ramp = ((double)i - from) / (from == to ? 0.001 : to - from);
	return ramp < 0 ? 1 : ramp > 1 ? 0 : 1 - ramp;
}

void
ir_rope_frequencies(const struct ir_module *m, const struct ir_node *n,
		    int64_t d, double *out)
{
	struct rope_scaling s = {
		.theta = ir_attr_num(m, n, IR_ATTR_THETA, 10000),
		.factor = ir_attr_num(m, n, IR_ATTR_FACTOR, 1),
		.low = ir_attr_num(m, n, IR_ATTR_LOW, 1),
		.high = ir_attr_num(m, n, IR_ATTR_HIGH, 4),
		.fast = ir_attr_num(m, n, IR_ATTR_FAST, 0),
		.slow = ir_attr_num(m, n, IR_ATTR_SLOW, 1),
		.original = (double)ir_attr_int(m, n, IR_ATTR_ORIGINAL, 0),
		.truncated = !ir_attr(m, n, IR_ATTR_UNTRUNCATED), .d = d
	};
	const struct ir_attr *stretch = ir_attr(m, n, IR_ATTR_STRETCH);
	const char *next = stretch ? ir_text(m->ctx, stretch->text) : "";
	int64_t i;

	for (i = 0; i < d / 2; i++) {
		double f = pow(s.theta, -2.0 * (double)i / (double)d), kept;
		double by = s.factor;

		if (*next) {
			next = ir_list_next(next, &by);
		}
		kept = s.fast > 0 ? kept_by_number(&s, i)
		     : stretch ? 0 : kept_by_wavelength(&s, f);
		out[i] = kept == 0 ? f / by : kept == 1 ? f
			: (1 - kept) * f / by + kept * f;
	}
}
