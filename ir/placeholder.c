/*
 * Placeholders in names of tensors: {i}, {2*i} and {2*i+1} are numbers that
 * the variable of a repeat gives, {expert} is the index of a dim.
 */
#include "ir/ir.h"

#include <string.h>

/* The length of the whole number at the start of the text; 0: there is none
 * that may be in a placeholder. */
static size_t
read_number(const char *text, size_t n, int64_t *out)
{
	size_t len = 0;

	while (len < n && text[len] >= '0' && text[len] <= '9') {
		len++;
	}
	return len && num_parse_int(text, len, out) &&
	       *out <= IR_MAX_PLACEHOLDER && (text[0] != '0' || len == 1)
	       ? len : 0;
}

void
ir_placeholder_read(const char *text, size_t n, struct ir_placeholder *out)
{
	const char *plus = memchr(text, '+', n), *end = text + n;
	size_t len;

	*out = (struct ir_placeholder){ text, n, 1, 0 };
	if (plus) {
		len = read_number(plus + 1, (size_t)(end - plus) - 1,
				  &out->plus);
		if (!len || plus + 1 + len != end) {
			out->plus = 0;
			return;
		}
		out->n = (size_t)(plus - text);
	}
	len = read_number(text, out->n, &out->times);
	if (len && out->times > 0 && len < out->n && text[len] == '*') {
		out->var = text + len + 1;
		out->n -= len + 1;
	} else {
		out->times = 1;
	}
}

bool
ir_placeholder_is(const struct ir_placeholder *p, const char *var)
{
	return strlen(var) == p->n && memcmp(p->var, var, p->n) == 0;
}

int64_t
ir_placeholder_at(const struct ir_placeholder *p, int64_t i)
{
	/* unsigned: a variable near the limits may wrap around */
	return (int64_t)((uint64_t)p->times * (uint64_t)i +
			 (uint64_t)p->plus);
}

void
ir_placeholder_put(struct buf *out, const struct ir_placeholder *p,
		   const char *by)
{
	buf_putc(out, '{');
	if (p->times != 1) {
		buf_printf(out, "%lld*", (long long)p->times);
	}
	buf_puts(out, by);
	if (p->plus) {
		buf_printf(out, "+%lld", (long long)p->plus);
	}
	buf_putc(out, '}');
}
