/*
 * What a family file knows: values by name, fields of config.json and which of
 * them were read, and what is reported of them.
 */
#include "frontend/import/import_family.h"

#include <math.h>
#include <string.h>

#define MOST_SIZE ((double)((int64_t)1 << 48))	/* of a dim */

/* ---- values ---- */

struct imp_value *
imp_value(struct imp *x, const char *name)
{
	uint32_t i;

	for (i = 0; i < x->values.n; i++) {
		if (strcmp(x->values.at[i].name, name) == 0) {
			return &x->values.at[i];
		}
	}
	return NULL;
}

struct imp_value *
imp_set(struct imp *x, const struct imp_value *v)
{
	struct imp_value *old = imp_value(x, v->name);

	if (old) {
		*old = *v;
		return old;
	}
	VEC_PUSH(&x->c->perm, &x->values, *v);
	return &x->values.at[x->values.n - 1];
}

struct imp_value *
imp_set_number(struct imp *x, const char *name, double v)
{
	struct imp_value n = { .name = name, .num = v };

	return imp_set(x, &n);
}

struct imp_value *
imp_set_text(struct imp *x, const char *name, const char *text)
{
	struct imp_value n = { .name = name, .is_text = true, .text = text };

	return imp_set(x, &n);
}

const char *
imp_number(struct imp *x, double v)
{
	struct buf b;

	buf_init(&b, &x->c->perm);
	if (v == floor(v) && fabs(v) < 1e15) {
		buf_int(&b, (int64_t)v);
	} else {
		buf_double(&b, v);
	}
	return buf_text(&b);
}

/* A line of the model's head comment, unless it has it. */
void
imp_note(struct imp *x, const char *note)
{
	uint32_t i;

	for (i = 0; i < x->notes.n; i++) {
		if (strcmp(x->notes.at[i], note) == 0) {
			return;
		}
	}
	VEC_PUSH(&x->c->perm, &x->notes, note);
}

/* ---- where a text is from ---- */

void
imp_piece(struct imp *x, struct imp_pieces *to, size_t lo,
	  const struct buf *out, const struct imp_field *f)
{
	struct imp_piece p = { .lo = lo, .hi = out->n };

	if (f) {
		p.field = f->path;
		p.span = f->span;
		VEC_PUSH(&x->c->perm, &to->at, p);
	}
}

/* Adds the pieces of a text that was put at byte lo of another. */
static void
add_pieces(struct imp *x, struct imp_pieces *to, size_t lo,
	   const struct imp_pieces *of)
{
	uint32_t i;

	for (i = 0; i < of->at.n; i++) {
		struct imp_piece p = of->at.at[i];

		p.lo += lo;
		p.hi += lo;
		VEC_PUSH(&x->c->perm, &to->at, p);
	}
}

struct imp_field *
imp_field_of(const struct imp_value *v)
{
	return v->field ? v->field : v->from;
}

void
imp_expand(struct imp *x, const char *line, struct buf *out,
	   struct imp_pieces *from)
{
	const struct imp_value *v;
	const char *name;
	size_t n, at;
	bool braces;

	while (*line) {
		n = strcspn(line, "$");
		buf_add(out, line, n);
		line += n;
		if (!*line) {
			break;
		}
		braces = line[1] == '{';
		line += 1 + braces;
		n = strspn(line, "abcdefghijklmnopqrstuvwxyz_0123456789");
		name = arena_strndup(&x->c->perm, line, n);
		v = imp_value(x, name);
		if (!v) {
			die("family %s: no value is called %s", x->family,
			    name);
		}
		at = out->n;
		buf_puts(out, v->is_text ? v->text : imp_number(x, v->num));
		add_pieces(x, from, at, &v->pieces);
		imp_piece(x, from, at, out, imp_field_of(v));
		if (v->field && !v->is_text) {
			imp_note(x, arena_printf(&x->c->perm, "%s is %s",
						  v->name,
						  imp_number(x, v->num)));
		}
		line += n + braces;
	}
}

/* ---- fields ---- */

void
imp_mark(struct imp *x, const char *path, bool kept)
{
	struct imp_field *f = imp_config_find(&x->config, path);
	uint32_t i;

	VEC_PUSH(&x->c->perm, &x->known, path);
	for (i = 0; f && i <= f->inside; i++) {
		f[i].read = true;
		f[i].kept = kept;
	}
}

const char *
imp_kind_text(const struct imp_field *f)
{
	static const char *const names[] = {
		"null", "a truth value", "a number", "a text", "a list",
		"an object"
	};

	return names[f->kind];
}

bool
imp_wrong_kind(struct imp *x, const struct imp_field *f, const char *want)
{
	diag_error(&x->c->diags, f->span, "`%s` is %s, and %s is expected",
		   f->path, imp_kind_text(f), want);
	return false;
}

bool
imp_is_number(struct imp *x, const struct imp_field *f, int least)
{
	if (f->kind != IMP_NUMBER) {
		return imp_wrong_kind(x, f, least >= 0 ? "a whole number"
						   : "a number");
	}
	if (least >= 0 && (f->num < least || f->num > MOST_SIZE ||
			   f->num != floor(f->num))) {
		diag_error(&x->c->diags, f->span, "`%s` is %.40s, and a whole "
			   "number of %d to 2^48 is expected", f->path,
			   f->text, least);
		return false;
	}
	return true;
}

/* Reports that there is no such field, and what it may have been called. */
void
imp_missing(struct imp *x, const char *name)
{
	struct diag_near near;
	uint32_t i;

	diag_near_init(&near, name);
	for (i = 0; i < x->config.at.n; i++) {
		const struct imp_field *f = &x->config.at.at[i];

		if (strcmp(f->path, name) == 0) {
			diag_error(&x->c->diags, f->span, "`%s` is %s, and the "
				   "family %s needs it", name,
				   imp_kind_text(f), x->family);
			return;
		}
		diag_near_try(&near, f->path);
	}
	diag_error(&x->c->diags, x->config.start, "there is no `%s`, which "
		   "the family %s needs%s", name, x->family,
		   diag_near_text(&near, &x->c->perm));
}
