/*
 * Lists of words, and the other pieces that messages are made of; warnings.
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
