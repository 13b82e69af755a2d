/*
 * Names of files that say another type than what is written into them, such as
 * `schedule -o x.png`: these are refused before anything is computed.  A name
 * that says no type, or one that nobody opens as anything else, is any file.
 */
#include "frontend/tool/tool.h"

#include <string.h>

static const struct span nowhere;

/* Types whose readers look at the name. */
static const char *const types[] = {
	".bmp", ".csv", ".eps", ".gif", ".gz", ".htm", ".html", ".jpeg", ".jpg",
	".json", ".md", ".pdf", ".png", ".ps", ".svg", ".tex", ".tsv", ".webp",
	".xls", ".xlsx", ".xml", ".yaml", ".yml", ".zip"
};

/* The type that the name says, or NULL. */
static const char *
type_of(const char *path)
{
	size_t i;

	for (i = 0; i < sizeof types / sizeof *types; i++) {
		if (text_ends_in(path, types[i])) {
			return types[i];
		}
	}
	return NULL;
}

/* The endings are separated by blanks. */
static bool
is_among(const char *endings, const char *type)
{
	size_t n = strlen(type);
	const char *at = endings;

	while ((at = strstr(at, type)) && at[n] != '\0' && at[n] != ' ') {
		at += n;
	}
	return at != NULL;
}

static bool
check_ending(struct driver *d, enum opt_id id, const char *what,
	     const char *endings, const char *help)
{
	const char *path = drv_text(d, id);
	const char *type = path ? type_of(path) : NULL;

	if (!type || is_among(endings, type)) {
		return true;
	}
	diag_error(&d->ctx.diags, nowhere, "--%s writes %s, and the name `%s` "
		   "says another type: %s", opt_rows[id].name, what, path,
		   help);
	return false;
}

static bool
writes_json(const struct driver *d)
{
	const char *emit = drv_text(d, OPT_EMIT);

	return drv_given(d, OPT_JSON) ||
	       (emit && (text_ends_in(emit, "-json") ||
			 strcmp(emit, "config") == 0));
}

/* Schedules have three forms, which the name chooses if no option does. */
static bool
check_schedule(struct driver *d)
{
	if (drv_given(d, OPT_CSV)) {
		return check_ending(d, OPT_OUTPUT, "CSV", ".csv",
				    "legal is .csv, or none");
	}
	if (drv_given(d, OPT_SVG)) {
		return check_ending(d, OPT_OUTPUT, "SVG", ".svg",
				    "legal is .svg, or none");
	}
	if (drv_given(d, OPT_SUMMARY)) {
		return check_ending(d, OPT_OUTPUT, "text", "",
				    "legal is .txt, or none");
	}
	return check_ending(d, OPT_OUTPUT, "a picture, a table or text",
			    ".svg .csv", "legal are .svg, .csv and, for text, "
			    ".txt or none");
}

static bool
check_output(struct driver *d)
{
	if (d->opts.command == OPT_SCHEDULE) {
		return check_schedule(d);
	}
	if (drv_wants_folder(d)) {
		return check_ending(d, OPT_OUTPUT, "a folder for the plan", "",
				    "a name without it is legal; "
				    "--emit=answer-json -o FILE.json writes "
				    "the answer alone");
	}
	if (d->opts.command == OPT_TOKENIZE) {
		return check_ending(d, OPT_OUTPUT, "a token file", "",
				    "legal is .bin, or none");
	}
	if (writes_json(d)) {
		return check_ending(d, OPT_OUTPUT, "JSON", ".json",
				    "legal is .json, or none");
	}
	if (drv_given(d, OPT_CSV)) {
		return check_ending(d, OPT_OUTPUT, "CSV", ".csv",
				    "legal is .csv, or none");
	}
	return check_ending(d, OPT_OUTPUT, "text", ".md", d->opts.command ==
			    OPT_SWEEP ? "legal is .txt or none; --json and "
			    "--csv write the table in another form" :
			    d->opts.command == OPT_COMPILE ? "legal is .txt or "
			    "none; --emit=WHAT-json writes JSON, --report "
			    "FILE.html pictures" : "legal is .txt, or none");
}

bool
drv_check_endings(struct driver *d)
{
	return check_output(d) &&
	       check_ending(d, OPT_REPORT, "HTML", ".html .htm",
			    "legal is .html, or none") &&
	       check_ending(d, OPT_TRACE, "JSON", ".json",
			    "legal is .json, or none");
}
