/*
 * The form and color of messages, and which warnings are on, by the options,
 * the environment and the terminal.
 */
#include "frontend/tool/tool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct span nowhere;

bool
drv_want_color(const struct driver *d)
{
	const char *when = drv_text(d, OPT_COLOR), *v;

	if (when && strcmp(when, "auto") != 0) {
		return strcmp(when, "always") == 0;
	}
	if ((v = getenv("NO_COLOR")) && *v) {
		return false;
	}
	if ((v = getenv("CLICOLOR_FORCE")) && *v && strcmp(v, "0") != 0) {
		return true;
	}
	v = getenv("TERM");
	return isatty(STDERR_FILENO) && v && strcmp(v, "dumb") != 0;
}

/* Reports a name of no warning, and suggests one with the same prefix. */
static void
unknown_warning(struct driver *d, const char *word)
{
	static const char *const prefixes[] = { "error=", "no-error=", "no-" };
	const char *name = word;
	struct diag_near near;
	struct buf legal;
	size_t i, n;

	for (i = 0; i < 3 && name == word; i++) {
		n = strlen(prefixes[i]);
		name += strncmp(word, prefixes[i], n) == 0 ? n : 0;
	}
	diag_near_init(&near, name);
	buf_init(&legal, &d->ctx.perm);
#define WARN(id, text, on, help) \
	diag_near_try(&near, text); \
	buf_printf(&legal, "%s%s", legal.n ? ", " : "", text);
#include "ir/warnings.def"
#undef WARN
	if (near.best) {
		near.best = arena_printf(&d->ctx.perm, "%.*s%s",
					 (int)(name - word), word, near.best);
	}
	diag_error(&d->ctx.diags, nowhere, "there is no warning `%s`%s: there "
		   "are %s", name, diag_near_text(&near, &d->ctx.perm),
		   buf_text(&legal));
}

bool
drv_set_messages(struct driver *d)
{
	const struct opt_value *w = &d->opts.at[OPT_WARNING];
	struct diags *diags = &d->ctx.diags;
	const char *form = drv_text(d, OPT_DIAGNOSTICS);
	uint32_t i;

	diags->color = drv_want_color(d);
	diags->format = form && strcmp(form, "json") == 0 ? DIAG_JSON
							  : DIAG_TEXT;
	for (i = 0; i < w->list.n; i++) {
		if (!diag_warning_option(diags, w->list.at[i])) {
			unknown_warning(d, w->list.at[i]);
			return false;
		}
	}
	for (i = 0; i < WARN_COUNT && drv_given(d, OPT_NO_WARNINGS); i++) {
		diags->on[i] = false;
	}
	return true;
}
