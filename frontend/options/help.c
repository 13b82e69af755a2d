/*
 * --help and the man page, made of the tables of commands and options.
 */
#include "frontend/options/options.h"

#include <string.h>

static const char about[] =
	"llmc compiles the description of a transformer ahead of time, for a "
	"fixed cluster. It finds a plan for training it there, prints what a "
	"step costs and why, and writes the program that each rank runs.";

static const char files[] =
	"FILE is a model in llmc's language, or its IR: the first line tells "
	"which. - is standard input. Results go to standard output, messages "
	"to standard error.";

static const char statuses[] =
	"The exit status is 0 if all went well, 1 if the input is wrong, and "
	"2 if the command line is wrong. Anything else is a bug of llmc.";

/* "llmc opt [options] FILE.ir" */
static const char *
usage(const struct opt_command_row *c, struct arena *a)
{
	return arena_printf(a, "llmc %s%s%s", c->word, *c->word ? " " : "",
			    c->usage);
}

static const char *
group_name(enum opt_group g)
{
	static const char *const names[OPT_GROUPS] = {
		"General", "Input and output", "Passes", "Evaluation",
		"Schedules", "Validation", "Calibration", "Tokenizing",
		"Sweeps",
		"Messages"
	};

	return names[g];
}

/* Words up to column 79; the first line has begun, and is `column` long. */
static void
add_wrapped(struct buf *out, const char *text, int column, int indent)
{
	const char *p = text;
	size_t n;

	for (p += strspn(p, " "); (n = strcspn(p, " ")) > 0;
	     p += n, p += strspn(p, " ")) {
		if (column > indent && column + 1 + (int)n > 79) {
			buf_printf(out, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			buf_putc(out, ' ');
			column++;
		}
		buf_add(out, p, n);
		column += (int)n;
	}
	buf_putc(out, '\n');
}

/* The words with something between; long lists go to the help's text. */
#define MANY_WORDS 48

static const char *
words_text(const struct opt_row *row, struct arena *a, const char *between)
{
	struct buf b;
	char word[32];
	const char *p = row->words;

	buf_init(&b, a);
	while (opt_next_word(&p, word, sizeof word)) {
		buf_printf(&b, "%s%s", b.n ? between : "", word);
	}
	return buf_text(&b);
}

static const char *
value_text(const struct opt_row *row, struct arena *a)
{
	if (row->kind == OPT_FLAG) {
		return "";
	}
	return *row->words && strlen(row->words) < MANY_WORDS
		? words_text(row, a, "|") : row->arg;
}

/* "-o, --output=FILE" */
static const char *
option_text(const struct opt_row *row, struct arena *a)
{
	const char *value = value_text(row, a);
	struct buf b;

	buf_init(&b, a);
	if (row->short_name) {
		buf_printf(&b, "-%c, ", row->short_name);
	} else {
		buf_puts(&b, "    ");
	}
	buf_printf(&b, "--%s", row->name);
	if (row->kind == OPT_MAYBE) {
		buf_printf(&b, "[=%s]", value);
	} else if (*value) {
		buf_printf(&b, "=%s", value);
	}
	return buf_text(&b);
}

static const char *
help_text(const struct opt_row *row, struct arena *a)
{
	const char *where = opt_commands_text(row, a);

	const char *help = strlen(row->words) < MANY_WORDS ? row->help
		: arena_printf(a, "%s: %s", row->help,
			       words_text(row, a, ", "));

	return *where ? arena_printf(a, "%s [%s]", help, where) : help;
}

static void
help_option(struct buf *out, const struct opt_row *row)
{
	const int indent = 30;
	int column;

	buf_printf(out, "  %s", option_text(row, out->arena));
	column = 2 + (int)strlen(option_text(row, out->arena));
	if (column + 1 > indent) {
		buf_putc(out, '\n');
		column = 0;
	}
	buf_printf(out, "%*s", indent - column, "");
	add_wrapped(out, help_text(row, out->arena), indent, indent);
}

void
opt_help(struct buf *out)
{
	int g, i;

	for (i = 0; i < OPT_NCOMMANDS; i++) {
		buf_printf(out, "%s %-28s %s\n", i ? "      " : "usage:",
			   usage(&opt_commands[i], out->arena),
			   opt_commands[i].help);
	}
	buf_putc(out, '\n');
	add_wrapped(out, files, 0, 0);
	for (g = 0; g < OPT_GROUPS; g++) {
		buf_printf(out, "\n%s:\n", group_name((enum opt_group)g));
		for (i = 0; i < OPT_COUNT; i++) {
			if ((int)opt_rows[i].group == g) {
				help_option(out, &opt_rows[i]);
			}
		}
	}
	buf_putc(out, '\n');
	add_wrapped(out, statuses, 0, 0);
}

/* ---- the man page ---- */

/* Text for troff: a hyphen that one may type, no accidental requests. */
static void
add_troff(struct buf *out, const char *s)
{
	if (*s == '.' || *s == '\'') {
		buf_puts(out, "\\&");
	}
	for (; *s; s++) {
		if (*s == '-') {
			buf_puts(out, "\\-");
		} else if (*s == '\\') {
			buf_puts(out, "\\e");
		} else if (*s == '`' || *s == '\'') {
			buf_puts(out, *s == '`' ? "\\(ga" : "\\(aq");
		} else {
			buf_putc(out, *s);
		}
	}
	buf_putc(out, '\n');
}

static void
man_option(struct buf *out, const struct opt_row *row)
{
	const char *text = option_text(row, out->arena);

	buf_puts(out, ".TP\n.B ");
	add_troff(out, text + strspn(text, " "));
	add_troff(out, help_text(row, out->arena));
}

static void
man_section(struct buf *out, const char *title, const char *text)
{
	buf_printf(out, ".SH %s\n", title);
	add_troff(out, text);
}

void
opt_man(struct buf *out, const char *version)
{
	int g, i;

	buf_printf(out, ".TH LLMC 1 \"\" \"llmc %s\" \"User Commands\"\n",
		   version);
	man_section(out, "NAME",
		    "llmc - ahead-of-time compiler for training transformers");
	buf_puts(out, ".SH SYNOPSIS\n");
	for (i = 0; i < OPT_NCOMMANDS; i++) {
		buf_puts(out, i ? ".br\n.B " : ".B ");
		add_troff(out, usage(&opt_commands[i], out->arena));
	}
	man_section(out, "DESCRIPTION", about);
	buf_puts(out, ".PP\n");
	add_troff(out, files);
	buf_puts(out, ".SH OPTIONS\n");
	for (g = 0; g < OPT_GROUPS; g++) {
		buf_printf(out, ".SS %s\n",
			   group_name((enum opt_group)g));
		for (i = 0; i < OPT_COUNT; i++) {
			if ((int)opt_rows[i].group == g) {
				man_option(out, &opt_rows[i]);
			}
		}
	}
	man_section(out, "EXIT STATUS", statuses);
	man_section(out, "ENVIRONMENT",
		    "NO_COLOR, if it is set and not empty, turns color off; "
		    "CLICOLOR_FORCE, if it is set and not 0, turns it on; "
		    "--color overrides both. LLMC_PROGRESS is the seconds "
		    "until a long run prints its first line of progress, 0 "
		    "for none.");
}
