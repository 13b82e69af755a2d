/*
 * --why-not for serving: the best plan beside the best one with some keys
 * pinned.  What both can be held against is the time of devices that a token
 * takes: the devices of a replica, for as long as a step of its stages lasts,
 * over the tokens that the step makes.
 */
#include "passes/serve/serve.h"

#include <math.h>

#define LABEL 26

static void
row(struct buf *out, const char *what, double a, double b, double whole)
{
	double more = b - a, part = 100 * more / whole;

	if (a == 0 && b == 0) {
		return;
	}
	buf_printf(out, "%-*s %14.3f %14.3f %+12.3f", LABEL, what, a, b,
		   fabs(more) < 0.0005 ? 0 : more);
	if (whole > 0) {
		buf_printf(out, " %+8.1f%%", fabs(part) < 0.05 ? 0 : part);
	}
	buf_putc(out, '\n');
}

static void
words(struct buf *out, const char *what, const char *a, const char *b)
{
	buf_printf(out, "%-*s %14s %14s\n", LABEL, what, a, b);
}

/* Microseconds of devices for a token, for each of a stage's step. */
static double
scale_of(const struct serve_plan *x)
{
	return (double)(x->split.tp * x->split.ep * x->split.pp) *
	       (double)x->split.pp / x->sequences;
}

/* What prompts add to the steps of one stage, in the mean. */
static double
prompts_us(const struct serve_plan *x)
{
	return x->mixed * (x->mixed_us - x->decode_us);
}

static void
print_times(const struct serve_plan *a, const struct serve_plan *b,
	    struct buf *out)
{
	double x = scale_of(a), y = scale_of(b);
	double whole = x * (a->decode_us + prompts_us(a));
	int k;

	row(out, "a token, us of devices", whole,
	    y * (b->decode_us + prompts_us(b)), whole);
	for (k = 0; k < SERVE_NTIMES; k++) {
		row(out, arena_printf(out->arena, "  %s",
				      serve_time_names[k]),
		    x * a->decode.us[k], y * b->decode.us[k], whole);
	}
	row(out, "  from stage to stage", x * (a->decode_us -
	    a->decode.total_us), y * (b->decode_us - b->decode.total_us),
	    whole);
	row(out, "  prompts", x * prompts_us(a), y * prompts_us(b), whole);
}

static void
print_waits(const struct serve_plan *a, const struct serve_plan *b,
	    struct buf *out)
{
	row(out, "tokens/s of a device", a->tokens_s /
	    (double)serve_devices(a), b->tokens_s / (double)serve_devices(b),
	    a->tokens_s / (double)serve_devices(a));
	row(out, "each token, ms", a->tpot_us / 1e3, b->tpot_us / 1e3,
	    a->tpot_us / 1e3);
	row(out, "first token, ms", a->ttft_us / 1e3, b->ttft_us / 1e3,
	    a->ttft_us / 1e3);
	row(out, "each token alone, ms", a->alone_tpot_us / 1e3,
	    b->alone_tpot_us / 1e3, a->alone_tpot_us / 1e3);
}

static void
print_memory(const struct serve_plan *a, const struct serve_plan *b,
	     struct buf *out)
{
	row(out, "weights of a device, GB", a->memory.weights / 1e9,
	    b->memory.weights / 1e9, 0);
	row(out, "cache of a device, GB",
	    (a->memory.free - a->memory.weights - a->memory.workspace) / 1e9,
	    (b->memory.free - b->memory.weights - b->memory.workspace) / 1e9,
	    0);
	row(out, "a token there, kB", a->memory.token / 1e3,
	    b->memory.token / 1e3, 0);
}

static const char *
whole_number(double v, struct arena *a)
{
	return arena_printf(a, "%.0f", ceil(v));
}

void
serve_print_other(const struct serve_answer *best,
		  const struct serve_other *other, struct buf *out)
{
	const struct serve_plan *a = &best->best, *b = &other->answer.best;
	struct arena *to = out->arena;

	buf_printf(out, "\nwhy not %s?\n", other->keys);
	if (!other->answer.fits) {
		buf_printf(out, "nothing fits: %s\n%s\n",
			   other->answer.misfit.why,
			   other->answer.misfit.change);
		return;
	}
	words(out, "", "the best", "with the keys");
	words(out, "split", serve_split_text(&a->split, to),
	      serve_split_text(&b->split, to));
	words(out, "sequences of a replica", whole_number(a->sequences, to),
	      whole_number(b->sequences, to));
	words(out, "prompt tokens of a step", whole_number(a->chunk, to),
	      whole_number(b->chunk, to));
	buf_printf(out, "%-*s %14s %14s %12s\n", LABEL, "", "", "", "more");
	print_times(a, b, out);
	print_waits(a, b, out);
	print_memory(a, b, out);
}
