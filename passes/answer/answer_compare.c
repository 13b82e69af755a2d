/*
 * The answers about two plans of one model, side by side: what they need and
 * what they take, by how much the second is more, and whether it is known which
 * of the two is faster.
 */
#include "passes/answer/answer.h"

#include <math.h>
#include <string.h>

/* A row of two numbers, and by how much the second is more. */
static void
print_both(struct buf *out, const char *what, double a, double b,
	   const char *fmt)
{
	double more = a > 0 && b > 0 ? 100 * (b - a) / a : 0;
	char x[40], y[40];

	snprintf(x, sizeof x, fmt, a);
	snprintf(y, sizeof y, fmt, b);
	buf_printf(out, "%-*s %16s %16s", ANSWER_LABEL, what, x, y);
	if (a > 0 && b > 0) {
		buf_printf(out, " %+9.1f%%", fabs(more) < 0.05 ? 0 : more);
	}
	buf_putc(out, '\n');
}

static void
both_bytes(struct buf *out, const char *what, struct scale u, int64_t a,
	   int64_t b)
{
	print_both(out, what, (double)a / u.size, (double)b / u.size, "%.2f");
}

static void
both_memory(const struct answer_rank *a, const struct answer_rank *b,
	    struct buf *out)
{
	struct scale u = answer_bytes_scale(a->total > b->total ? a : b);

	both_bytes(out, arena_printf(out->arena, "fullest rank, %s", u.name),
		   u, a->total, b->total);
	both_bytes(out, "  weights", u, a->weights, b->weights);
	both_bytes(out, "  gradients", u, a->gradients, b->gradients);
	both_bytes(out, "  optimizer", u, a->optimizer, b->optimizer);
	both_bytes(out, "  saved", u, a->saved, b->saved);
	if (a->host || b->host) {
		both_bytes(out, arena_printf(out->arena, "on its host, %s",
					     u.name), u, a->host, b->host);
	}
}

/* On a CPU no published run says how close two plans may be. */
static void
print_closeness(const struct answer *x, const struct answer *y,
		struct buf *out)
{
	double least = answer_least_difference(out->arena);

	if (x->has_accuracy && x->plan_text && y->plan_text &&
	    fabs(log(x->step_us / y->step_us)) < log(1 + least) &&
	    strcmp(x->plan_text, y->plan_text) != 0) {
		buf_printf(out, "\nWhich of the two is faster is not known: "
			   "of pairs of published runs of one\nsource 10%% "
			   "were predicted more than %.0f%% wrong to each "
			   "other.\n", 100 * least);
	}
}

void
answer_print_both(const struct answer *x, const struct answer *y,
		  struct buf *out)
{
	const struct answer_rank *a = &x->memory.rank[x->memory.fullest];
	const struct answer_rank *b = &y->memory.rank[y->memory.fullest];
	struct scale left;
	int i;

	print_both(out, "devices", (double)x->used, (double)y->used, "%.0f");
	print_both(out, "step, ms", x->step_us / 1e3, y->step_us / 1e3, "%.3f");
	for (i = 0; i < ANSWER_NTIMES; i++) {
		if (x->us[i] != 0 || y->us[i] != 0) {
			print_both(out, arena_printf(out->arena, "  %s",
					       answer_times[i].what),
			     x->us[i] / 1e3, y->us[i] / 1e3, "%.3f");
		}
	}
	print_both(out, "tokens/s", x->tokens_s, y->tokens_s, "%.0f");
	print_both(out, "MFU, %", 100 * x->mfu, 100 * y->mfu, "%.1f");
	both_memory(a, b, out);
	left = unit_bytes(fmax(fabs((double)x->memory.left_bytes),
			       fabs((double)y->memory.left_bytes)));
	both_bytes(out, arena_printf(out->arena, "left on a device, %s",
				     left.name), left,
		   x->memory.left_bytes, y->memory.left_bytes);
	print_closeness(x, y, out);
}
