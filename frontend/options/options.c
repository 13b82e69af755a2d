/*
 * The command line, read by the table of options.def: long and short options,
 * values after `=` or as the next word, `--` as the end of options, `-` as a
 * file.  All that it accepts is legal for the command; whether options go
 * with each other is checked in frontend/tool.
 */
#include "frontend/options/options.h"

#include <string.h>

#define C OPT_COMPILE
#define O OPT_OPT
#define E OPT_EVALUATE
#define S OPT_SCHEDULE
#define T OPT_SHOW_TARGET
#define V OPT_VALIDATE
#define D OPT_DIFF
#define M OPT_CALIBRATE
#define F OPT_FINISH
#define I OPT_IMPORT
#define K OPT_TOKENIZE
#define W OPT_SWEEP
#define A OPT_ALL
#define OPT_GROUP_GENERAL OPT_GENERAL
#define OPT_GROUP_FILES OPT_FILES
#define OPT_GROUP_PASSES OPT_PASSES_GROUP
#define OPT_GROUP_EVAL OPT_EVAL
#define OPT_GROUP_SCHEDULE OPT_SCHEDULES
#define OPT_GROUP_VALIDATE OPT_VALIDATION
#define OPT_GROUP_CALIBRATE OPT_CALIBRATION
#define OPT_GROUP_TOKENIZE OPT_TOKENIZING
#define OPT_GROUP_SWEEP OPT_SWEEPING
#define OPT_GROUP_MESSAGES OPT_MESSAGES

const struct opt_row opt_rows[OPT_COUNT] = {
#define OPT(id, name, short_name, kind, arg, commands, group, words, help) \
	{ name, short_name, OPT_##kind, arg, commands, OPT_GROUP_##group, \
	  words, help },
#include "frontend/options/options.def"
#undef OPT
};

#undef C
#undef O
#undef E
#undef S
#undef T
#undef V
#undef D
#undef M
#undef F
#undef I
#undef K
#undef W
#undef A

const struct opt_command_row opt_commands[OPT_NCOMMANDS] = {
	{ "", OPT_COMPILE, "[options] FILE", "compile a model" },
	{ "opt", OPT_OPT, "[options] FILE.ir", "run passes on IR text" },
	{ "eval", OPT_EVALUATE, "[options] FILE",
	  "compute a model's results in float64" },
	{ "schedule", OPT_SCHEDULE, "[options] NAME",
	  "print a pipeline schedule" },
	{ "target", OPT_SHOW_TARGET, "TARGET",
	  "print a machine to plan for" },
	{ "validate", OPT_VALIDATE, "[options] FILE",
	  "compare the cost model with measurements" },
	{ "diff", OPT_DIFF, "A.llp B.llp [MODEL]",
	  "compare two plans and what they cost" },
	{ "calibrate", OPT_CALIBRATE, "[options]",
	  "measure this machine as a target" },
	{ "finish", OPT_FINISH, "PLAN",
	  "compile the kernels of a plan" },
	{ "import", OPT_IMPORT, "[options] DIR",
	  "write the model of a Hugging Face folder" },
	{ "tokenize", OPT_TOKENIZE, "--tokenizer FILE INPUT.. -o FILE",
	  "make a token file of text" },
	{ "sweep", OPT_SWEEP, "[options] MODEL",
	  "plan a model for many targets and sizes" }
};

/* The command of that name, or NULL. */
static const struct opt_command_row *
find_command(const char *word)
{
	int i;

	for (i = 1; i < OPT_NCOMMANDS; i++) {
		if (strcmp(opt_commands[i].word, word) == 0) {
			return &opt_commands[i];
		}
	}
	return NULL;
}

const char *
opt_commands_text(const struct opt_row *row, struct arena *a)
{
	struct buf b;
	int i;

	buf_init(&b, a);
	for (i = 0; i < OPT_NCOMMANDS && row->commands != OPT_ALL; i++) {
		if (row->commands & opt_commands[i].command) {
			buf_printf(&b, "%s%s", b.n ? ", " : "",
				   i ? opt_commands[i].word : "compiling");
		}
	}
	return buf_text(&b);
}

void
opt_init(struct options *o, struct arena *a)
{
	memset(o, 0, sizeof *o);
	o->arena = a;
	o->command = OPT_COMPILE;
}

bool
opt_next_word(const char **text, char *word, size_t size)
{
	size_t n;

	*text += strspn(*text, " ");
	n = strcspn(*text, " ");
	if (n == 0) {
		return false;
	}
	snprintf(word, size, "%.*s", (int)n, *text);
	*text += n;
	return true;
}

/* ---- one option ---- */

static bool
fail(struct buf *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(why, fmt, ap);
	va_end(ap);
	return false;
}

static bool
check_word(struct options *o, const struct opt_row *row, const char *value,
	   struct buf *why)
{
	const char *p = row->words;
	struct diag_near near;
	struct buf legal;
	char word[32];

	diag_near_init(&near, value);
	buf_init(&legal, o->arena);
	while (opt_next_word(&p, word, sizeof word)) {
		if (strcmp(word, value) == 0) {
			return true;
		}
		diag_near_try(&near, arena_strndup(o->arena, word,
						   strlen(word)));
		buf_printf(&legal, "%s%s", legal.n ? ", " : "", word);
	}
	return fail(why, "`--%s` is one of %s; found `%s`%s", row->name,
		    buf_text(&legal), value,
		    diag_near_text(&near, o->arena));
}

static bool
add_dim(struct options *o, const char *value, struct buf *why)
{
	const char *eq = strchr(value, '=');
	struct opt_dim d = { value, 0 };

	if (!eq || eq == value ||
	    !num_parse_int(eq + 1, strlen(eq + 1), &d.size) || d.size < 1) {
		return fail(why, "`--dim` takes NAME=N with a whole number N "
			    "of at least 1; found `%s`", value);
	}
	d.name = arena_strndup(o->arena, value, (size_t)(eq - value));
	VEC_PUSH(o->arena, &o->dims, d);
	return true;
}

/* Each of "a,b" is a word and counts. */
static bool
add_words(struct options *o, enum opt_id id, const char *value,
	  struct buf *why)
{
	size_t n;

	do {
		const char *word;

		n = strcspn(value, ",");
		word = arena_strndup(o->arena, value, n);
		if (!check_word(o, &opt_rows[id], word, why)) {
			return false;
		}
		VEC_PUSH(o->arena, &o->at[id].list, word);
		value += n + 1;
	} while (value[-1]);
	return true;
}

static bool
check_int(const struct opt_row *row, const char *value, int64_t *num,
	  struct buf *why)
{
	int64_t least = row == &opt_rows[OPT_BISECT_LIMIT] ? -1 : 0;
	bool top = row == &opt_rows[OPT_TOP];

	least = top || row == &opt_rows[OPT_SEARCH_SECONDS] ? 1 : least;
	if (num_parse_int(value, strlen(value), num) && *num >= least &&
	    (!top || *num <= OPT_MAX_TOP)) {
		return true;
	}
	if (top) {
		return fail(why, "`--top` takes a whole number from 1 to %d; "
			    "found `%s`", OPT_MAX_TOP, value);
	}
	return fail(why, "`--%s` takes a whole number of at least %d; found "
		    "`%s`",
		    row->name, (int)least, value);
}

static bool
set_option(struct options *o, enum opt_id id, const char *value,
	   struct buf *why)
{
	const struct opt_row *row = &opt_rows[id];
	struct opt_value *v = &o->at[id];

	v->given = true;
	v->text = value;
	if (row->kind == OPT_WORDS) {
		return add_words(o, id, value, why);
	}
	if (value && *row->words && !check_word(o, row, value, why)) {
		return false;
	}
	if (row->kind == OPT_INT && !check_int(row, value, &v->num, why)) {
		return false;
	}
	if (row->kind == OPT_LIST || (o->command == OPT_SWEEP && value)) {
		VEC_PUSH(o->arena, &v->list, value);
	}
	return id != OPT_DIM || o->command == OPT_SWEEP ||
	       add_dim(o, value, why);
}

static bool
takes_value(const struct opt_row *row)
{
	return row->kind != OPT_FLAG && row->kind != OPT_MAYBE;
}

/* ---- words of the command line ---- */

/* The words that are left. */
struct words {
	int argc;
	char *const *argv;
	int at;
	/* the option whose value was the last word; else OPT_COUNT */
	enum opt_id last;
};

static const char *
next_word(struct words *w)
{
	return w->at < w->argc ? w->argv[w->at++] : NULL;
}

static bool
is_of_command(struct options *o, const struct opt_row *row, struct buf *why)
{
	if (row->commands & o->command) {
		return true;
	}
	return fail(why, "`--%s` is for %s only%s", row->name,
		    opt_commands_text(row, o->arena),
		    row == &opt_rows[OPT_BATCH] && o->command & OPT_COMPILE
		    ? ": elsewhere a batch is --dim batch=N" : "");
}

static bool
unknown_option(struct options *o, const char *name, struct buf *why)
{
	struct diag_near near;
	int i;

	diag_near_init(&near, name);
	for (i = 0; i < OPT_COUNT; i++) {
		if (opt_rows[i].commands & o->command) {
			diag_near_try(&near, opt_rows[i].name);
		}
	}
	if (near.best) {
		near.best = arena_printf(o->arena, "--%s", near.best);
	}
	return fail(why, "there is no option `--%s`%s", name, near.best
		    ? diag_near_text(&near, o->arena) : " (see llmc --help)");
}

/* What follows the option as a word; another option is none. */
static bool
next_value(struct words *w, const struct opt_row *row, const char *option,
	   const char **value, struct buf *why)
{
	*value = next_word(w);
	if (!*value) {
		return fail(why, "`%s` needs %s", option, row->arg);
	}
	if (strncmp(*value, "--", 2) == 0) {
		return fail(why, "`%s` needs %s, and `%s` is an option; such a "
			    "value is written --%s=%s", option,
			    row->arg, *value, row->name, *value);
	}
	return true;
}

static bool
long_option(struct options *o, struct words *w, const char *word,
	    struct buf *why)
{
	size_t n = strcspn(word, "=");
	const char *value = word[n] ? word + n + 1 : NULL;
	const char *name = arena_strndup(o->arena, word, n);
	const struct opt_row *row;
	int id = 0;

	while (id < OPT_COUNT && strcmp(opt_rows[id].name, name) != 0) {
		id++;
	}
	if (id == OPT_COUNT) {
		return unknown_option(o, name, why);
	}
	row = &opt_rows[id];
	if (!is_of_command(o, row, why)) {
		return false;
	}
	if (row->kind == OPT_FLAG && value) {
		return fail(why, "`--%s` takes no value", name);
	}
	if (takes_value(row) && !value) {
		if (!next_value(w, row, arena_printf(o->arena, "--%s", name),
				&value, why)) {
			return false;
		}
		w->last = (enum opt_id)id;
	}
	return set_option(o, (enum opt_id)id, value, why);
}

/* `-target` is no -t and what else, but --target. */
static bool
unknown_short(struct options *o, const char *word, char letter,
	      struct buf *why)
{
	size_t n = strcspn(word, "=");
	int i;

	for (i = 0; i < OPT_COUNT; i++) {
		if (strlen(opt_rows[i].name) == n &&
		    strncmp(opt_rows[i].name, word, n) == 0 &&
		    opt_rows[i].commands & o->command) {
			return fail(why, "there is no option `-%s` (did you "
				    "mean `--%s`?)", word, word);
		}
	}
	return fail(why, "there is no option `-%c` (see llmc --help)",
		    letter);
}

/* -abc; the rest after an option with a value is its value. */
static bool
short_options(struct options *o, struct words *w, const char *p,
	      struct buf *why)
{
	const char *word = p;

	while (*p) {
		const struct opt_row *row;
		const char *value = NULL;
		int id = 0;

		while (id < OPT_COUNT && opt_rows[id].short_name != *p) {
			id++;
		}
		if (id == OPT_COUNT) {
			return unknown_short(o, word, *p, why);
		}
		row = &opt_rows[id];
		p++;
		if (takes_value(row)) {
			value = p;
			if (!*p && !next_value(w, row, arena_printf(o->arena,
					"-%c", row->short_name), &value,
					why)) {
				return false;
			}
			p = "";
		}
		if (!is_of_command(o, row, why) ||
		    !set_option(o, (enum opt_id)id, value, why)) {
			return false;
		}
	}
	return true;
}

/* Of two inputs the first is a command that there is not, unless it looks like
 * the name of a file. */
static bool
too_many(struct options *o, const char *word, struct buf *why)
{
	struct diag_near near;
	struct buf all;
	int i;

	if (o->command != OPT_COMPILE || strpbrk(o->input, "./") ||
	    strcmp(o->input, "-") == 0) {
		return fail(why, "there is one input, and both `%s` and `%s` "
			    "are given", o->input, word);
	}
	buf_init(&all, o->arena);
	diag_near_init(&near, o->input);
	for (i = 1; i < OPT_NCOMMANDS; i++) {
		diag_near_try(&near, opt_commands[i].word);
		buf_printf(&all, "%s%s", i == 1 ? "" : i == OPT_NCOMMANDS - 1
			   ? " and " : ", ", opt_commands[i].word);
	}
	return fail(why, "there is no command `%s`%s: there are %s; without "
		    "one llmc compiles a model, and the program `rank` of a "
		    "plan trains and serves it", o->input,
		    diag_near_text(&near, o->arena), buf_text(&all));
}

static bool
add_input(struct options *o, const char *word, struct buf *why)
{
	if (!o->input) {
		o->input = word;
		return true;
	}
	if (o->command == OPT_TOKENIZE) {
		VEC_PUSH(o->arena, &o->more, word);
		return true;
	}
	if (o->command == OPT_DIFF) {
		if (o->more.n == 2) {
			return fail(why, "`llmc diff` takes two plans and a "
				    "model, and `%s` is one too many", word);
		}
		VEC_PUSH(o->arena, &o->more, word);
		return true;
	}
	return too_many(o, word, why);
}

/*
 * A shell makes `--target h100x8x4 h100x8x8` of `--target h100x8x{4,8}`: of a
 * sweep, what follows a value and is no model is one more value.
 */
static bool
is_more_of_list(const struct options *o, enum opt_id last, const char *word)
{
	return o->command == OPT_SWEEP &&
	       (last == OPT_TARGET || last == OPT_DIM || last == OPT_BATCH) &&
	       !text_ends_in(word, ".llm") && !text_ends_in(word, ".ir");
}

/* Else it would be taken for a file's name. */
static bool
is_no_command(struct options *o, const char *word, struct buf *why)
{
	if (o->command != OPT_COMPILE || !find_command(word)) {
		return true;
	}
	return fail(why, "`%s` is a command, which must be the first word: "
		    "llmc %s ..; a file of that name is ./%s", word, word,
		    word);
}

bool
opt_parse(struct options *o, int argc, char *const *argv, struct buf *why)
{
	const struct opt_command_row *first = argc > 1 ? find_command(argv[1])
						       : NULL;
	struct words w = { argc, argv, 1, OPT_COUNT };
	bool only_files = false;
	const char *word;

	if (first) {
		o->command = first->command;
		w.at = 2;
	}
	while ((word = next_word(&w))) {
		enum opt_id last = w.last;
		bool ok;

		if (!only_files && word[0] != '-' &&
		    is_more_of_list(o, last, word)) {
			if (!set_option(o, last, word, why)) {
				return false;
			}
			continue;
		}
		w.last = OPT_COUNT;

		if (!only_files && strcmp(word, "--") == 0) {
			only_files = true;
			continue;
		}
		if (only_files || word[0] != '-' || !word[1]) {
			ok = (only_files || is_no_command(o, word, why)) &&
			     add_input(o, word, why);
		} else if (word[1] == '-') {
			ok = long_option(o, &w, word + 2, why);
		} else {
			ok = short_options(o, &w, word + 1, why);
		}
		if (!ok) {
			return false;
		}
	}
	return true;
}
