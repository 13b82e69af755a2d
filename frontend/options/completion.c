/*
 * Completions for bash, zsh and fish, made of the tables of commands and
 * options.
 */
#include "frontend/options/options.h"

#include <string.h>

/* Whether the option's value is the name of a file or folder. */
static bool
takes_file(const struct opt_row *row)
{
	return strcmp(row->arg, "FILE") == 0 || strcmp(row->arg, "PATH") == 0;
}

static bool
takes_pass(const struct opt_row *row)
{
	return strcmp(row->arg, "P") == 0 || strcmp(row->arg, "P,..") == 0;
}

static bool
has_words(const struct opt_row *row)
{
	return *row->words || takes_pass(row);
}

/* What the option's value may be. */
static void
add_value_words(struct buf *out, const struct opt_row *row)
{
	buf_puts(out, row->words);
	if (takes_pass(row)) {
		buf_puts(out, "default all"
#define PASS(id, name, needs, gives, kills, purpose) " " name
#include "passes/passes.def"
#undef PASS
			);
	}
}

static void
bash_values(struct buf *out, const struct opt_row *row)
{
	buf_printf(out, "\t--%s)\n", row->name);
	if (takes_file(row)) {
		buf_puts(out, "\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n");
	} else if (has_words(row)) {
		buf_puts(out, "\t\tCOMPREPLY=($(compgen -W \"");
		add_value_words(out, row);
		buf_puts(out, "\" -- \"$cur\"))\n");
	}
	buf_puts(out, "\t\treturn ;;\n");
}

static void
add_commands(struct buf *out, const char *between)
{
	int i;

	for (i = 1; i < OPT_NCOMMANDS; i++) {
		buf_printf(out, "%s%s", i > 1 ? between : "",
			   opt_commands[i].word);
	}
}

void
opt_bash(struct buf *out)
{
	int i;

	buf_puts(out, "# bash completion for llmc\n"
		 "_llmc()\n{\n"
		 "\tlocal cur=${COMP_WORDS[COMP_CWORD]}\n"
		 "\tlocal prev=${COMP_WORDS[COMP_CWORD-1]}\n"
		 "\tif [[ $cur == = ]]; then\n\t\tcur=\n"
		 "\telif [[ $prev == = ]]; then\n"
		 "\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n\tfi\n"
		 "\tCOMPREPLY=()\n"
		 "\tcase $prev in\n");
	for (i = 0; i < OPT_COUNT; i++) {
		if (opt_rows[i].kind != OPT_FLAG) {
			bash_values(out, &opt_rows[i]);
		}
	}
	buf_puts(out, "\tesac\n\tif [[ $cur == -* ]]; then\n"
		 "\t\tCOMPREPLY=($(compgen -W \"");
	for (i = 0; i < OPT_COUNT; i++) {
		buf_printf(out, "%s--%s", i ? " " : "", opt_rows[i].name);
	}
	buf_puts(out, "\" -- \"$cur\"))\n"
		 "\telif [[ $COMP_CWORD -eq 1 ]]; then\n"
		 "\t\tCOMPREPLY=($(compgen -f -W \"");
	add_commands(out, " ");
	buf_puts(out, "\" -- \"$cur\"))\n"
		 "\telse\n\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n\tfi\n"
		 "}\ncomplete -o filenames -F _llmc llmc\n");
}

/* Help between single quotes, for zsh and fish; zsh also escapes [ ] :. */
static void
add_quoted_help(struct buf *out, const char *s, bool zsh)
{
	for (; *s; s++) {
		if (*s == '\'') {
			buf_puts(out, zsh ? "'\\''" : "\\'");
		} else if (zsh && strchr("[]:\\", *s)) {
			buf_printf(out, "\\%c", *s);
		} else if (!zsh && *s == '\\') {
			buf_puts(out, "\\\\");
		} else {
			buf_putc(out, *s);
		}
	}
}

static void
zsh_option(struct buf *out, const struct opt_row *row)
{
	bool maybe = row->kind == OPT_MAYBE;

	buf_printf(out, "\t'%s--%s%s[", row->kind == OPT_LIST ? "*" : "",
		   row->name, row->kind == OPT_FLAG ? "" :
		   maybe ? "=-" : "=");
	add_quoted_help(out, row->help, true);
	buf_putc(out, ']');
	if (row->kind != OPT_FLAG) {
		buf_printf(out, "%s", maybe ? "::" : ":");
		add_quoted_help(out, row->arg, true);
		buf_putc(out, ':');
		if (takes_file(row)) {
			buf_puts(out, "_files");
		} else if (has_words(row)) {
			buf_putc(out, '(');
			add_value_words(out, row);
			buf_putc(out, ')');
		}
	}
	buf_puts(out, "' \\\n");
}

void
opt_zsh(struct buf *out)
{
	int i;

	buf_puts(out, "#compdef llmc\n"
		 "if [[ $words[2] == (");
	add_commands(out, "|");
	buf_puts(out, ") ]]; then\n"
		 "\tshift words\n\t(( CURRENT-- ))\nfi\n"
		 "_arguments -s \\\n");
	for (i = 0; i < OPT_COUNT; i++) {
		zsh_option(out, &opt_rows[i]);
	}
	buf_puts(out, "\t'1:command or file:_files' \\\n"
		 "\t'*:file:_files'\n");
}

static void
fish_option(struct buf *out, const struct opt_row *row)
{
	buf_printf(out, "complete -c llmc -l %s", row->name);
	if (row->short_name) {
		buf_printf(out, " -s %c", row->short_name);
	}
	if (takes_file(row)) {
		buf_puts(out, " -r -F");
	} else if (has_words(row)) {
		buf_puts(out, " -x -a '");
		add_value_words(out, row);
		buf_putc(out, '\'');
	} else if (row->kind != OPT_FLAG) {
		buf_puts(out, " -x");
	}
	buf_puts(out, " -d '");
	add_quoted_help(out, row->help, false);
	buf_puts(out, "'\n");
}

void
opt_fish(struct buf *out)
{
	int i;

	for (i = 1; i < OPT_NCOMMANDS; i++) {
		buf_printf(out, "complete -c llmc -n __fish_use_subcommand "
			   "-a %s -d '", opt_commands[i].word);
		add_quoted_help(out, opt_commands[i].help, false);
		buf_puts(out, "'\n");
	}
	for (i = 0; i < OPT_COUNT; i++) {
		fish_option(out, &opt_rows[i]);
	}
}
