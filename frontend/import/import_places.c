/*
 * Where errors of an imported model are shown.  The text that llmc made is in
 * no file when it is refused, so its errors name the fields of config.json that
 * the dims in their messages are.
 */
#include "frontend/import/import.h"

#include <string.h>

/* The field that the dim in backquotes at `text` is, or NULL. */
static const struct imp_origin *
origin_of(const struct imp_request *rq, const char *text)
{
	size_t n = strcspn(text, "`");
	uint32_t i;

	for (i = 0; i < rq->origins.n; i++) {
		const struct imp_origin *o = &rq->origins.at[i];

		if (strlen(o->dim) == n && memcmp(o->dim, text, n) == 0) {
			return o;
		}
	}
	return NULL;
}

/* Sets `found` to the fields that the text names, each once. */
static uint32_t
find_origins(const struct imp_request *rq, const char *text,
	     const struct imp_origin **found, uint32_t most)
{
	const struct imp_origin *o;
	uint32_t n = 0, i;

	while ((text = strchr(text, '`')) && n < most) {
		o = origin_of(rq, ++text);
		for (i = 0; i < n && o != found[i]; i++) {
		}
		if (o && i == n) {
			found[n++] = o;
		}
		text += strcspn(text, "`");
		text += *text == '`';
	}
	return n;
}

static void
add(struct diags *d, const struct diag_record *r)
{
	VEC_PUSH(d->arena, &d->records, *r);
}

/* The error at the first field that it names, then where the others are. */
static void
add_moved(struct diags *d, const struct imp_request *rq,
	  const struct diag_record *old, struct span otherwise)
{
	const struct imp_origin *found[4];
	uint32_t n = find_origins(rq, old->text, found, 4), i;
	struct diag_record r = *old;

	r.span = n > 0 && old->level != DIAG_NOTE ? found[0]->span : otherwise;
	add(d, &r);
	for (i = 0; i < n && old->level != DIAG_NOTE; i++) {
		r = (struct diag_record){ DIAG_NOTE, -1, false, found[i]->span,
			arena_printf(d->arena, "`%s` is `%s` here",
				     found[i]->dim, found[i]->field) };
		add(d, &r);
	}
}

void
imp_move_errors(struct diags *d, const struct imp_request *rq,
		const struct source_file *text, struct span otherwise)
{
	static const struct span nowhere;
	const struct diag_record *old = d->records.at;
	uint32_t n = d->records.n, i;

	d->records.at = NULL;
	d->records.n = d->records.cap = 0;
	for (i = 0; i < n; i++) {
		if (old[i].span.lo < text->base ||
		    old[i].span.lo > text->base + text->len) {
			add(d, &old[i]);
		} else {
			add_moved(d, rq, &old[i], old[i].level == DIAG_NOTE
				  ? nowhere : otherwise);
		}
	}
}
