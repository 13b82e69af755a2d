/*
 * llmc diff: which keys of two plans differ, and with a model and a target,
 * what each of the two costs on it.
 */
#include "frontend/tool/tool.h"

#include <string.h>

#include "frontend/frontend.h"

#define LONGEST 24	/* text that is printed beside its key */
#define COLUMN 16	/* characters of a column, at least */

static const struct span nowhere;

/* Copies, since the text of a key is in an arena that passes reset. */
void
drv_copy_keys(struct driver *d, struct drv_side *s, const struct plan *p)
{
	const char *text, *key;
	int i;

	for (i = 0; (text = plan_key_text(s->m, p, i, &key)); i++) {
		text = arena_strndup(&d->ctx.perm, text, strlen(text));
		VEC_PUSH(&d->ctx.perm, &s->text, text);
	}
}

static bool
read_side(struct driver *d, const char *model, struct drv_side *s)
{
	struct plan plan;
	uint32_t file;

	s->m = model ? drv_load(d, model) : ir_module_new(&d->ctx);
	if (!s->m) {
		return false;
	}
	if (model && !ir_model(s->m)) {
		diag_error(&d->ctx.diags, nowhere, "a plan applies to a model, "
			   "and %s holds rank programs", model);
		return false;
	}
	if (!drv_read_source(d, s->path, &file) ||
	    !fe_read_plan(&d->ctx, s->m, file)) {
		return false;
	}
	if (model && !plan_read(s->m, &plan)) {
		return false;
	}
	drv_copy_keys(d, s, model ? &plan : NULL);
	return true;
}

/* ---- keys ---- */

/* Whether both texts are printed beside the key. */
static bool
is_short(const char *x, const char *y)
{
	return strlen(x) <= LONGEST && strlen(y) <= LONGEST;
}

/* Characters of the longest text in the column of `of`. */
static int
column_of(const struct drv_side *a, const struct drv_side *b,
	  const struct drv_side *of)
{
	size_t most = strlen(of->path);
	uint32_t i;

	for (i = 0; i < a->text.n; i++) {
		const char *x = a->text.at[i], *y = b->text.at[i];
		size_t n = strlen(of->text.at[i]);

		if (strcmp(x, y) != 0 && is_short(x, y) && n > most) {
			most = n;
		}
	}
	return most < COLUMN ? COLUMN : (int)most;
}

void
drv_print_keys(struct drv_side *a, struct drv_side *b, struct buf *out)
{
	int left = column_of(a, b, a), right = column_of(a, b, b);
	const char *key = "";
	uint32_t i, shown = 0;

	buf_printf(out, "%-24s %*s %*s\n", "", left, a->path, right,
		   b->path);
	for (i = 0; i < a->text.n; i++) {
		const char *x = a->text.at[i], *y = b->text.at[i];

		if (strcmp(x, y) == 0) {
			continue;
		}
		plan_key_text(a->m, NULL, (int)i, &key);
		x = *x ? x : "-";
		y = *y ? y : "-";
		if (is_short(x, y)) {
			buf_printf(out, "%-24s %*s %*s\n", key, left, x,
				   right, y);
		} else {	/* one below the other */
			buf_printf(out, "%s\n  %s\n  %s\n", key, x, y);
		}
		shown++;
	}
	if (!shown) {
		buf_puts(out, "no key differs\n");
	}
}

/* ---- prices ---- */

static bool
price_side(struct driver *d, struct drv_side *s)
{
	return drv_run_for_answer(d, s->m) == PASS_OK &&
	       drv_answer(d, s->m, &s->answer);
}

bool
drv_diff(struct driver *d)
{
	const char *model = d->opts.more.n > 1 ? d->opts.more.at[1] : NULL;
	struct drv_side *s = arena_alloc(&d->ctx.perm, 2 * sizeof *s);
	bool priced = d->opts.at[OPT_TARGET].given;
	struct target t;

	if (priced && !model) {
		diag_error(&d->ctx.diags, nowhere, "--target needs a model "
			   "too: llmc diff A.llp B.llp MODEL --target ..");
		return false;
	}
	s[0].path = d->opts.input;
	s[1].path = d->opts.more.at[0];
	if (!read_side(d, model, &s[0]) || !read_side(d, model, &s[1])) {
		return false;
	}
	drv_print_keys(&s[0], &s[1], &d->out);
	if (!priced) {
		return true;
	}
	if (!drv_read_target(d, &t)) {
		return false;
	}
	if (!price_side(d, &s[0]) || !price_side(d, &s[1])) {
		return false;
	}
	buf_putc(&d->out, '\n');
	answer_print_both(&s[0].answer, &s[1].answer, &d->out);
	return true;
}
