/*
 * --run-reproducer: the first line of a reproducer says how llmc is to be
 * run on it.  Options that were given beside it are added to those.
 */
#include "frontend/tool/driver.h"

#include <string.h>

static const char first_words[] = "# args:";

/* One word of the line; '...' keeps blanks together, \' is a quote. */
static char *
take_word(struct arena *a, const char **line)
{
	const char *p = *line + strspn(*line, " \t");
	bool quoted = false;
	struct buf b;

	if (!*p) {
		return NULL;
	}
	buf_init(&b, a);
	for (; *p && (quoted || (*p != ' ' && *p != '\t')); p++) {
		if (*p == '\'') {
			quoted = !quoted;
		} else if (*p == '\\' && !quoted && p[1]) {
			buf_putc(&b, *++p);
		} else {
			buf_putc(&b, *p);
		}
	}
	*line = p;
	return arena_strndup(a, buf_text(&b), b.n);
}

/* NULL if the file does not begin with such a line. */
static const char *
args_line(struct driver *d, const char *path, struct buf *why)
{
	const struct source_file *f;
	const char *reason, *line;
	uint32_t index;

	if (!source_read(&d->ctx.sources, path, &index, &reason)) {
		buf_printf(why, "cannot read %s: %s", path, reason);
		return NULL;
	}
	f = &d->ctx.sources.files.at[index];
	if (strncmp(f->text, first_words, sizeof first_words - 1) != 0) {
		buf_printf(why, "%s is no reproducer: its first line does not "
			   "begin with `%s`", path, first_words);
		return NULL;
	}
	line = f->text + sizeof first_words - 1;
	return arena_strndup(&d->ctx.perm, line, strcspn(line, "\r\n"));
}

/* What was given beside --run-reproducer counts more. */
static void
add_given(struct options *to, const struct options *from)
{
	int i;

	for (i = 0; i < OPT_COUNT; i++) {
		if (from->at[i].given && i != OPT_RUN_REPRODUCER) {
			to->at[i] = from->at[i];
		}
	}
}

bool
drv_replay(struct driver *d, struct buf *why)
{
	const char *path = d->opts.at[OPT_RUN_REPRODUCER].text, *line;
	struct arena *a = &d->ctx.perm;
	struct options opts;
	VEC(char *) words = { 0 };
	char *word;

	if (d->opts.input) {
		buf_printf(why, "`--run-reproducer` brings its own input; "
			   "found `%s` too", d->opts.input);
		return false;
	}
	line = args_line(d, path, why);
	if (!line) {
		return false;
	}
	VEC_PUSH(a, &words, arena_strndup(a, "llmc", 4));
	while ((word = take_word(a, &line))) {
		VEC_PUSH(a, &words, word);
	}
	opt_init(&opts, a);
	if (!opt_parse(&opts, (int)words.n, words.at, why)) {
		return false;
	}
	if (opts.command != OPT_OPT || opts.at[OPT_OUTPUT].given ||
	    opts.at[OPT_RUN_REPRODUCER].given) {
		buf_printf(why, "%s: the first line is to say `opt` and no "
			   "other file", path);
		return false;
	}
	add_given(&opts, &d->opts);
	opts.input = path;
	d->opts = opts;
	return true;
}
