/*
 * The amounts and lists of an answer that is printed: numbers with as many
 * digits as they are read with, and items after a label.
 */
#include "passes/answer/answer_list.h"
#include "passes/answer/answer.h"

#include <math.h>
#include <stdarg.h>

/* ---- amounts ---- */

void
answer_add_count(struct buf *out, double v)
{
	if (v >= 99.5 && v < 1e15) {
		buf_grouped(out, (int64_t)(v + 0.5));
	} else {
		buf_printf(out, "%.3g", v);
	}
}

const char *
answer_days_text(struct arena *a, double days)
{
	const char *fmt = days < 0.1 ? "%.3g" : days < 1e6 ? "%.1f" : "%.2e";

	return isnan(days) ? "-" : arena_printf(a, fmt, days);
}

void
answer_add_usd(struct buf *out, double usd)
{
	if (usd < 1000) {
		buf_printf(out, usd > 0 && usd < 0.1 ? "%.2g" : "%.2f", usd);
	} else {
		answer_add_count(out, usd);
	}
	buf_puts(out, " USD");
}

struct scale
answer_bytes_scale(const struct answer_rank *r)
{
	return unit_bytes((double)(r->total > r->reserve
				   ? r->total - r->reserve : r->total));
}

/* ---- labels, and what follows them ---- */

void
answer_label(struct buf *out, const char *label)
{
	buf_printf(out, "%-*s", ANSWER_INDENT, label);
}

void
answer_list_begin(struct answer_list *l, struct buf *out, const char *label)
{
	l->out = out;
	l->column = 0;
	answer_label(out, label);
}

void
answer_list_add(struct answer_list *l, const char *fmt, ...)
{
	struct buf item;
	va_list ap;

	buf_init(&item, l->out->arena);
	va_start(ap, fmt);
	buf_vprintf(&item, fmt, ap);
	va_end(ap);
	if (l->column && l->column + 2 + item.n >=
			 ANSWER_COLUMNS - ANSWER_INDENT) {
		buf_printf(l->out, ",\n%*s", ANSWER_INDENT, "");
		l->column = 0;
	} else if (l->column) {
		buf_puts(l->out, ", ");
		l->column += 2;
	}
	buf_puts(l->out, buf_text(&item));
	l->column += item.n;
}

void
answer_list_end(struct answer_list *l)
{
	buf_puts(l->out, l->column ? "\n" : "none\n");
}
