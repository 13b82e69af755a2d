/*
 * What messages are made of: lists of words, types, numbers and counts; and
 * warnings.
 */
#include "frontend/lang/lower.h"

#include <string.h>

bool
lower_warn(struct lower *l, enum diag_warning w, struct span at,
	   const char *fmt, ...)
{
	uint32_t errors = l->diags->errors;
	struct buf b;
	va_list ap;

	if (!l->diags->on[w] || errors != l->errors_before ||
	    l->warnings++ >= AST_MAX_ERRORS) {
		return false;
	}
	buf_init(&b, &l->ctx->tmp);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	diag_warn(l->diags, w, at, "%s", buf_text(&b));
	l->errors_before += l->diags->errors - errors;
	return true;
}

/* ---- lists of words ---- */

int
lower_word(const char *list, const char *word)
{
	size_t len = strlen(word);
	int i;

	for (i = 0; *list; i++) {
		size_t n = strcspn(list, " ");

		if (len == n && strncmp(list, word, n) == 0) {
			return i;
		}
		list += n;
		list += strspn(list, " ");
	}
	return -1;
}

const char *
lower_words(struct lower *l, const char *list, const char *last)
{
	struct buf b;

	buf_init(&b, &l->ctx->tmp);
	while (*list) {
		size_t n = strcspn(list, " ");
		const char *next = list + n + strspn(list + n, " ");

		if (b.n) {
			buf_printf(&b, *next ? ", " : " %s ", last);
		}
		buf_add(&b, list, n);
		list = next;
	}
	return buf_text(&b);
}

void
lower_add_word(struct buf *list, const char *word)
{
	buf_printf(list, "%s%s", list->n ? " " : "", word);
}

void
lower_near(struct lower *l, struct diag_near *near, const char *list)
{
	while (*list) {
		size_t n = strcspn(list, " ");

		diag_near_try(near, arena_strndup(&l->ctx->tmp, list, n));
		list += n;
		list += strspn(list, " ");
	}
}

bool
lower_is_flag(const char *word)
{
	int i;

	for (i = 0; i < IR_NATTRS; i++) {
		if (ir_attrs[i].kind == ATTR_FLAG &&
		    strcmp(ir_attrs[i].name, word) == 0) {
			return true;
		}
	}
	return lower_word("bias plus_one transposed", word) >= 0;
}

/* ---- types and numbers ---- */

const char *
lower_type_text(struct lower *l, value_id v)
{
	return ir_type_text(l->m, ir_type(l->m, v));
}

const char *
lower_number_text(struct lower *l, double v)
{
	struct buf b;

	buf_init(&b, &l->ctx->tmp);
	buf_double(&b, v);
	return buf_text(&b);
}

/* "1 operand", "no dim", "2 to 8 dims after `->`" */
const char *
lower_count_text(struct lower *l, const char *what, const char *where,
		 uint32_t lo, uint32_t hi)
{
	struct arena *a = &l->ctx->tmp;
	const char *s = hi == 1 || hi == 0 ? "" : "s";

	if (hi == 0) {
		return arena_printf(a, "no %s%s", what, where);
	}
	if (lo == hi) {
		return arena_printf(a, "%u %s%s%s", lo, what, s, where);
	}
	return arena_printf(a, "%u %s %u %s%s%s", lo, hi == lo + 1 ? "or"
			    : "to", hi, what, s, where);
}
