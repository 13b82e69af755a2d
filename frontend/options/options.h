/*
 * The command line: one table of commands and one of options (options.def),
 * what was given of them, and the texts that are made of the tables: help,
 * the man page and completions of shells.  All of frontend/ but the language
 * reads it; the folder itself knows ir/base.h alone.
 */
#ifndef FRONTEND_OPTIONS_H
#define FRONTEND_OPTIONS_H

#include "ir/base.h"

enum opt_id {
#define OPT(id, name, short_name, kind, arg, commands, group, words, help) \
	OPT_##id,
#include "frontend/options/options.def"
#undef OPT
	OPT_COUNT
};

enum opt_kind { OPT_FLAG, OPT_MAYBE, OPT_TEXT, OPT_LIST, OPT_WORD, OPT_WORDS,
		OPT_INT };

enum opt_group { OPT_GENERAL, OPT_FILES, OPT_PASSES_GROUP, OPT_EVAL,
		 OPT_SCHEDULES, OPT_VALIDATION, OPT_CALIBRATION,
		 OPT_TOKENIZING, OPT_SWEEPING, OPT_MESSAGES, OPT_GROUPS };

/* Each is a bit of opt_row.commands. */
enum opt_command {
	OPT_COMPILE = 1 << 0, OPT_OPT = 1 << 1, OPT_EVALUATE = 1 << 2,
	OPT_SCHEDULE = 1 << 3, OPT_SHOW_TARGET = 1 << 4,
	OPT_VALIDATE = 1 << 5, OPT_DIFF = 1 << 6, OPT_CALIBRATE = 1 << 7,
	OPT_FINISH = 1 << 8, OPT_IMPORT = 1 << 9,
	OPT_TOKENIZE = 1 << 10, OPT_SWEEP = 1 << 11,
	OPT_ALL = (1 << 12) - 1
};

#define OPT_NCOMMANDS 12

struct opt_command_row {
	const char *word;	/* "opt"; "" compiles a model */
	enum opt_command command;
	const char *usage, *help;
};

extern const struct opt_command_row opt_commands[OPT_NCOMMANDS];

#define OPT_MAX_TOP 1000	/* plans in one table */

struct opt_row {
	const char *name;
	char short_name;	/* 0: none */
	enum opt_kind kind;
	const char *arg;
	uint32_t commands;
	enum opt_group group;
	const char *words;	/* legal ones, between blanks */
	const char *help;
};

extern const struct opt_row opt_rows[OPT_COUNT];

/* --dim NAME=N */
struct opt_dim {
	const char *name;
	int64_t size;
};

struct opt_value {
	bool given;
	const char *text;	/* the last one; NULL: MAYBE without one */
	int64_t num;		/* INT */
	VEC(const char *) list;	/* LIST, WORDS, and of `sweep`: all of them */
};

struct options {
	struct arena *arena;
	enum opt_command command;
	const char *input;	/* NULL: none was given */
	VEC(const char *) more;	/* inputs after the first */
	struct opt_value at[OPT_COUNT];
	VEC(struct opt_dim) dims;
};

/* ---- options.c: the command line -------------------------------------- */

void opt_init(struct options *o, struct arena *a);
/* False: *why is one line for the user, who gets exit status 2. */
bool opt_parse(struct options *o, int argc, char *const *argv,
	       struct buf *why);
/* Copies the next word of "a b c" and moves past it; false at the end. */
bool opt_next_word(const char **text, char *word, size_t size);
/* "opt, eval", or "" if all commands have the option. */
const char *opt_commands_text(const struct opt_row *row, struct arena *a);

/* ---- help.c, completion.c --------------------------------------------- */

void opt_help(struct buf *out);
void opt_man(struct buf *out, const char *version);
void opt_bash(struct buf *out);
void opt_zsh(struct buf *out);
void opt_fish(struct buf *out);

#endif
