/*
 * The block `export` of an imported model: what config.json had, with the
 * names of dims where a number became one, so that what is exported follows
 * the model when its dims change.
 */
#include "frontend/import/import_family.h"

#include <string.h>

#define MOST_TEXT 255		/* bytes of a text in the language */

static bool
is_word(const char *s)
{
	return *s && strspn(s, "abcdefghijklmnopqrstuvwxyz"
			       "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.") ==
		strlen(s) && !(*s >= '0' && *s <= '9');
}

/* Whether the language can say this value. */
static bool
can_write(const struct imp_field *f)
{
	const char *p = f->text;

	if (f->kind != IMP_TEXT) {
		return f->kind != IMP_OBJECT;
	}
	for (; *p; p++) {
		if (*p == '"' || *p == '\\' || (unsigned char)*p < 0x20 ||
		    *p == 0x7f) {
			return false;
		}
	}
	return p != f->text && p - f->text <= MOST_TEXT;
}

static const char *
dim_of(const struct imp *x, const struct imp_field *f)
{
	uint32_t i;

	for (i = 0; i < x->values.n; i++) {
		if (x->values.at[i].field == f) {
			return x->values.at[i].dim;
		}
	}
	return NULL;
}

static void
put_scalar(struct imp *x, const struct imp_field *f, struct buf *out)
{
	const char *dim = dim_of(x, f);

	if (f->kind == IMP_TEXT) {
		buf_printf(out, "\"%s\"", f->text);
	} else if (dim) {
		buf_puts(out, dim);
	} else {	/* 0.0 as 0.0: some readers refuse a 0 for it */
		buf_puts(out, f->text);
	}
}

static void
put_field(struct imp *x, const struct imp_field *f, struct buf *out)
{
	uint32_t i;

	buf_printf(out, "  %s = ", f->path);
	if (f->kind != IMP_LIST) {
		put_scalar(x, f, out);
	} else {
		buf_puts(out, "list(");
		for (i = 1; i <= f->inside; i++) {
			buf_puts(out, i > 1 ? ", " : "");
			put_scalar(x, &f[i], out);
		}
		buf_putc(out, ')');
	}
	buf_puts(out, ";\n");
}

/* A list of scalars can be written, a list of lists cannot. */
static bool
writable(const struct imp_field *f)
{
	uint32_t i;

	for (i = 0; i <= f->inside; i++) {
		if (!can_write(&f[i]) || (i && f[i].inside)) {
			return false;
		}
	}
	return f->kept && is_word(f->path);
}

void
imp_export(struct imp *x, struct buf *out)
{
	uint32_t i = 0;

	buf_puts(out, "\n# The config.json of checkpoints that are "
		 "exported.\nexport {\n");
	while (i < x->config.at.n) {
		const struct imp_field *f = &x->config.at.at[i];

		if (f->kind == IMP_OBJECT) {
			i++;
			continue;
		}
		if (writable(f)) {
			put_field(x, f, out);
		}
		i += 1 + f->inside;
	}
	buf_puts(out, "}\n");
}
