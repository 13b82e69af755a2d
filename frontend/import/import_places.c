/*
 * Where errors of an imported model are shown.  The text that llmc made is in
 * no file when it is refused, so its errors are shown at the fields of
 * config.json whose values are there, or that the dims in their messages are,
 * or at what the command line has in their place.
 */
#include "frontend/import/import.h"

#include <string.h>

void
imp_add_dims(struct ir_ctx *c, struct imp_request *rq)
{
	uint32_t i, base;

	for (i = 0; i < rq->ndims; i++) {
		const struct opt_dim *d = &rq->dims[i];
		const char *text = arena_printf(&c->perm, "%s=%lld", d->name,
						(long long)d->size);
		struct imp_origin o = { d->name, NULL, { 0, 0 }, false };

		if (!source_add(&c->sources, "--dim", text, strlen(text),
				&base)) {
			die("options are too long");
		}
		o.span.lo = base;
		o.span.hi = base + (uint32_t)strlen(text);
		VEC_PUSH(&c->perm, &rq->origins, o);
	}
}

const struct imp_origin *
imp_origin(const struct imp_request *rq, const char *dim, size_t n)
{
	uint32_t i;

	for (i = 0; i < rq->origins.n; i++) {
		const struct imp_origin *o = &rq->origins.at[i];

		if (strlen(o->dim) == n && memcmp(o->dim, dim, n) == 0) {
			return o;
		}
	}
	return NULL;
}

/* Adds an origin that is not among them: a --dim before all others, as it is
 * what was chosen last. */
static uint32_t
add_origin(const struct imp_origin **found, uint32_t n,
	   const struct imp_origin *o)
{
	uint32_t i;

	for (i = 0; i < n && o != found[i]; i++) {
	}
	if (!o || i < n) {
		return n;
	}
	for (; i > 0 && !o->field && found[i - 1]->field; i--) {
		found[i] = found[i - 1];
	}
	found[i] = o;
	return n + 1;
}

#define MOST 4

/* As find_origins, of the words between two places of the made text. */
static uint32_t
find_at(const struct imp_request *rq, const char *at, const char *end,
	const struct imp_origin **found)
{
	static const char word[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
	uint32_t n = 0;

	while (at < end && n < MOST) {
		size_t len = strspn(at, word);

		n = add_origin(found, n, imp_origin(rq, at, len));
		at += len + 1;
	}
	return n;
}

/* The field whose value bytes lo to hi of the text are part of, or if `around`
 * have in them; NULL: there is none. */
static const struct imp_piece *
find_piece(const struct imp_request *rq, size_t lo, size_t hi, bool around)
{
	uint32_t i;

	for (i = 0; i < rq->pieces.at.n; i++) {
		const struct imp_piece *p = &rq->pieces.at.at[i];

		if (around ? lo <= p->lo && p->hi <= hi
			   : p->lo <= lo && hi <= p->hi) {
			return p;
		}
	}
	return NULL;
}

/* Adds the field of a piece, of which no dim has its size. */
static uint32_t
add_piece(const struct imp_origin **found, uint32_t n,
	  const struct imp_piece *p, struct imp_origin *to)
{
	if (!p) {
		return n;
	}
	*to = (struct imp_origin){ NULL, p->field, p->span, false };
	return add_origin(found, n, to);
}

/*
 * Sets `found` to the field whose value the record is shown at, and where the
 * dims that the text names have their sizes from, each once.  If there is
 * neither, those of the place that it is shown at, which is `in_text` if the
 * text itself is wrong, and not what weights it has; and else that of the dim
 * whose line it is.
 */
static uint32_t
find_origins(const struct imp_request *rq, const struct source_file *file,
	     const struct diag_record *r, bool in_text,
	     const struct imp_origin **found, struct imp_origin *own)
{
	static const char dim[] = "  dim ";
	size_t lo = r->span.lo - file->base, hi = r->span.hi - file->base;
	const char *text = r->text, *line = file->text + lo;
	uint32_t n = 0;

	if (in_text) {
		n = add_piece(found, n, find_piece(rq, lo, hi, false), own);
	}
	while ((text = strchr(text, '`')) && n < MOST) {
		size_t len = strcspn(++text, "`");

		n = add_origin(found, n, imp_origin(rq, text, len));
		text += len;
		text += *text == '`';
	}
	if (n == 0 && in_text) {
		n = add_piece(found, n, find_piece(rq, lo, hi, true), own);
	}
	if (n == 0 && in_text) {
		n = find_at(rq, line, line + r->span.hi - r->span.lo, found);
	}
	while (line > file->text && line[-1] != '\n') {
		line--;
	}
	if (n == 0 && strncmp(line, dim, sizeof dim - 1) == 0) {
		line += sizeof dim - 1;
		n = add_origin(found, n, imp_origin(rq, line,
						    strcspn(line, " ")));
	}
	return n;
}

static void
add(struct diags *d, const struct diag_record *r)
{
	VEC_PUSH(d->arena, &d->records, *r);
}

static const char *
origin_text(const struct imp_origin *o, struct arena *a)
{
	if (!o->dim) {
		return arena_printf(a, "the value is that of `%s`", o->field);
	}
	if (!o->field) {
		return arena_printf(a, "`%s` is given here", o->dim);
	}
	return arena_printf(a, "`%s` is %s`%s` here", o->dim, o->is_sum
			    ? "computed from " : "", o->field);
}

/* The error at the first origin that it names, then where the others are. */
static void
add_moved(struct diags *d, const struct imp_request *rq,
	  const struct source_file *text, const struct diag_record *old,
	  struct span otherwise)
{
	const struct imp_origin *found[MOST];
	struct imp_origin own;
	uint32_t n = find_origins(rq, text, old, otherwise.lo > 0, found,
				  &own), i;
	struct diag_record r = *old;

	r.span = n > 0 && old->level != DIAG_NOTE ? found[0]->span : otherwise;
	add(d, &r);
	for (i = 0; i < n && old->level != DIAG_NOTE; i++) {
		const struct imp_origin *o = found[i];

		if ((!o->field || !o->dim) && i == 0) {
			continue;	/* the error is shown there */
		}
		r = (struct diag_record){ DIAG_NOTE, -1, false, o->span,
					  origin_text(o, d->arena) };
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
			add_moved(d, rq, text, &old[i], old[i].level ==
				  DIAG_NOTE ? nowhere : otherwise);
		}
	}
}
