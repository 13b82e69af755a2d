/*
 * A run of llmc as it was asked, kept in an unfinished plan: its options and
 * the text of all files that it read.  Where NVRTC is, a tile may turn out to
 * spill, and then the plan is another one: llmc runs once more, on what it had
 * then, and comes to what it would have come to with NVRTC.
 */
#include "frontend/tool/plan_kernels.h"

#include <string.h>

/* What standard input is called among files, and on the command line. */
#define STDIN_FILE "<stdin>"
#define STDIN_WORD "-"

/* ---- what is kept ---- */

/* Where the plan goes, and how it gets there, whoever finishes it says. */
static bool
is_kept(int id)
{
	return id != OPT_OUTPUT && id != OPT_NO_CACHE && id != OPT_NO_MEMO &&
	       id != OPT_VERBOSE;
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

/* ---- and run ---- */

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

/* What finish itself was given counts more. */
static void
add_given(struct options *to, const struct options *from)
{
	uint32_t i;

	for (i = 0; i < OPT_COUNT; i++) {
		if (from->at[i].given) {
			to->at[i] = from->at[i];
		}
	}
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
