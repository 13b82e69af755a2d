/*
 * Runs of llmc that a file describes.  A reproducer says in its first line
 * with which options a pass failed.  An unfinished plan, written where NVRTC
 * was missing, holds the options of its run and the text of all files that
 * it read: if a tile spills when its kernels are compiled elsewhere, the plan
 * that NVRTC would have led to is another one, and llmc makes that plan from
 * what it had then.
 */
#include "frontend/tool/tool.h"

#include <string.h>

/* What standard input is called among files, and on the command line. */
#define STDIN_FILE "<stdin>"
#define STDIN_WORD "-"

/* Options of this command line replace those of the file. */
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

/* ---- a reproducer ---- */

static const char first_words[] = "# args:";

/* One word of the line; '...' may hold blanks, \' is a quote. */
static char *
next_word(struct arena *a, const char **line)
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
		buf_printf(why, "%s is not a reproducer: its first line does "
			   "not begin with `%s`", path, first_words);
		return NULL;
	}
	line = f->text + sizeof first_words - 1;
	return arena_strndup(&d->ctx.perm, line, strcspn(line, "\r\n"));
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
		buf_printf(why, "`--run-reproducer` names the input itself; "
			   "found `%s` too", d->opts.input);
		return false;
	}
	line = args_line(d, path, why);
	if (!line) {
		return false;
	}
	VEC_PUSH(a, &words, arena_strndup(a, "llmc", 4));
	while ((word = next_word(a, &line))) {
		VEC_PUSH(a, &words, word);
	}
	opt_init(&opts, a);
	if (!opt_parse(&opts, (int)words.n, words.at, why)) {
		return false;
	}
	if (opts.command != OPT_OPT || opts.at[OPT_OUTPUT].given ||
	    opts.at[OPT_RUN_REPRODUCER].given) {
		buf_printf(why, "%s: the first line must name `opt` and no "
			   "other file", path);
		return false;
	}
	add_given(&opts, &d->opts);
	opts.input = path;
	d->opts = opts;
	return true;
}

/* ---- an unfinished plan: what is kept ---- */

/* Options of output and caching are those of the run that finishes. */
static bool
is_kept(int id)
{
	return id != OPT_OUTPUT && id != OPT_NO_CACHE && id != OPT_NO_MEMO &&
	       id != OPT_VERBOSE && id != OPT_TRACE &&
	       id != OPT_REPORT;
}

static void
put_option(const struct opt_row *row, const struct opt_value *v,
	   struct buf *out)
{
	bool all = row->kind == OPT_LIST || row->kind == OPT_WORDS;
	uint32_t i;

	for (i = 0; all && i < v->list.n; i++) {
		buf_printf(out, "word --%s=%s\n", row->name, v->list.at[i]);
	}
	if (!all) {
		buf_printf(out, v->text ? "word --%s=%s\n" : "word --%s\n",
			   row->name, v->text);
	}
}

static bool
was_read(const struct sources *s, uint32_t i)
{
	uint32_t k;

	for (k = 0; k < i; k++) {
		if (strcmp(s->files.at[k].name, s->files.at[i].name) == 0) {
			return false;	/* it was named before */
		}
	}
	return s->files.at[i].is_read;
}

void
drv_rerun_keep(struct driver *d, struct buf *words, struct drv_reads *reads)
{
	const struct sources *s = &d->ctx.sources;
	uint32_t i;

	buf_init(words, &d->ctx.perm);
	for (i = 0; i < OPT_COUNT; i++) {
		if (d->opts.at[i].given && is_kept((int)i)) {
			put_option(&opt_rows[i], &d->opts.at[i], words);
		}
	}
	buf_printf(words, "word %s\n", d->opts.input);
	for (i = 0; i < s->files.n; i++) {
		const struct source_file *f = &s->files.at[i];

		if (was_read(s, i)) {
			buf_printf(words, "read %s\n",
				   strcmp(f->name, STDIN_FILE) == 0
				   ? STDIN_WORD : f->name);
			VEC_PUSH(&d->ctx.perm, reads,
				 ((struct drv_read){ f->text, f->len }));
		}
	}
}

/* ---- and run again ---- */

/* The next line; false: there is none. */
static bool
next_line(struct arena *a, const char **text, char **line)
{
	size_t n = strcspn(*text, "\n");

	if (!**text) {
		return false;
	}
	*line = arena_strndup(a, *text, n);
	*text += n + ((*text)[n] == '\n');
	return true;
}

bool
drv_rerun(struct driver *d, const char *words, const struct drv_reads *reads)
{
	struct arena *a = &d->ctx.perm;
	VEC(char *) argv = { 0 };
	struct options o;
	struct buf why;
	uint32_t n = 0;
	char *line;

	VEC_PUSH(a, &argv, arena_strndup(a, "llmc", 4));
	while (next_line(a, &words, &line)) {
		if (strncmp(line, "word ", 5) == 0) {
			VEC_PUSH(a, &argv, line + 5);
		} else if (strncmp(line, "read ", 5) == 0 && n < reads->n) {
			source_keep(&d->ctx.sources, line + 5,
				    reads->at[n].text, reads->at[n].bytes);
			n++;
		}
	}
	buf_init(&why, a);
	opt_init(&o, a);
	if (!opt_parse(&o, (int)argv.n, argv.at, &why)) {
		diag_error(&d->ctx.diags, (struct span){ 0, 0 }, "%s cannot "
			   "be finished: %s", d->opts.input, buf_text(&why));
		return false;
	}
	add_given(&o, &d->opts);
	o.at[OPT_OUTPUT].given = true;
	o.at[OPT_OUTPUT].text = d->opts.input;
	d->opts = o;
	d->reruns = true;
	return true;
}
