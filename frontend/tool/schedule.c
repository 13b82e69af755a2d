/*
 * llmc schedule: a pipeline schedule by name, or one from a CSV file, checked
 * and drawn, printed as a file, or summed up.
 */
#include "frontend/tool/tool.h"

#include "passes/pictures/pictures.h"
#include "passes/sched/sched.h"

#include <string.h>

static const struct span nowhere;

static uint32_t
number(const struct driver *d, enum opt_id id, uint32_t absent)
{
	const struct opt_value *v = &d->opts.at[id];

	if (!v->given) {
		return absent;
	}
	return (uint32_t)v->num;
}

/* Whether the numbers of an option have 32 bits; the rest is sched_make's. */
static bool
check_numbers(struct driver *d)
{
	static const struct {
		enum opt_id id;
		const char *what;
		int most;
	} all[] = {
		{ OPT_RANKS, "ranks", SCHED_MAX_RANKS },
		{ OPT_CHUNKS, "stages per rank", SCHED_MAX_STAGES },
		{ OPT_MICROBATCHES, "microbatches", SCHED_MAX_MICROBATCHES }
	};
	size_t i;

	for (i = 0; i < sizeof all / sizeof *all; i++) {
		const struct opt_value *v = &d->opts.at[all[i].id];

		if (v->given && v->num > all[i].most) {
			diag_error(&d->ctx.diags, nowhere, "found %lld %s, "
				   "expected 1 to %d", (long long)v->num,
				   all[i].what, all[i].most);
			return false;
		}
	}
	return true;
}

static struct sched *
by_name(struct driver *d, const struct sched_def *def)
{
	const char *why = "";
	struct sched *s;

	if (!check_numbers(d)) {
		return NULL;
	}
	s = sched_make(&d->ctx.perm, def->name, number(d, OPT_RANKS, 4),
		       number(d, OPT_CHUNKS, def->min_chunks
			      ? def->min_chunks : 2),
		       number(d, OPT_MICROBATCHES, 8), &why);
	if (!s) {
		diag_error(&d->ctx.diags, nowhere, "%s", why);
	}
	return s;
}

static struct sched *
by_file(struct driver *d)
{
	static const enum opt_id only_named[] = {
		OPT_RANKS, OPT_MICROBATCHES, OPT_CHUNKS
	};
	struct ir_ctx *c = &d->ctx;
	struct sched_left left;
	struct sched *s;
	const char *why, *text;
	uint32_t file, i;

	if (!source_read(&c->sources, d->opts.input, &file, &why)) {
		diag_error(&c->diags, nowhere, "%s; and no file of that name "
			   "can be read: %s",
			   sched_why_not(&c->perm, d->opts.input, 1, 1, 1),
			   why);
		return NULL;
	}
	for (i = 0; i < 3; i++) {
		if (d->opts.at[only_named[i]].given) {
			diag_error(&c->diags, nowhere, "--%s applies to a "
				   "schedule by name, and a file has its "
				   "own", opt_rows[only_named[i]].name);
			return NULL;
		}
	}
	s = sched_read(&c->perm, &c->diags, file, &left);
	text = s ? sched_left_text(&c->perm, &left) : NULL;
	if (text && d->opts.at[OPT_VERBOSE].given) {
		fprintf(stderr, "llmc: %s\n", text);
	}
	return s;
}

static void
print_summary(const struct sched *s, struct buf *out)
{
	struct sched_verdict verdict, *v = &verdict;
	struct sched_timeline t;
	uint32_t i;

	sched_check(out->arena, s, v);
	sched_time(out->arena, s, NULL, &t);
	buf_printf(out, "ranks %u, stages %u, microbatches %u\n", s->nranks,
		   s->nstages, s->nmicrobatches);
	buf_printf(out, "makespan %g steps, all actions one step long\n",
		   t.makespan_us);
	buf_printf(out, "bubble %.4f of a rank's time\n", sched_bubble(s, &t));
	for (i = 0; i < s->nranks; i++) {
		buf_printf(out, "rank %u: %u actions, idle %.4f, holds at most "
			   "%u forwards\n", i, s->ranks[i].actions.n,
			   t.idle[i], v->peak[i]);
	}
}

/* ---- forms ---- */

struct schedule_form {
	enum opt_id flag;	/* asks for it, */
	const char *ending;	/* as does such a name of -o; NULL: none does */
	void (*print)(const struct sched *s, struct buf *out);
};

static const struct schedule_form forms[] = {
	{ OPT_CSV, ".csv", sched_print },
	{ OPT_SVG, ".svg", picture_schedule },
	{ OPT_SUMMARY, NULL, print_summary }
};
static const struct schedule_form drawing = { OPT_COUNT, NULL, sched_draw };

#define NFORMS (sizeof forms / sizeof *forms)

/* The one that an option asks for, or the file's name; NULL: two do. */
static const struct schedule_form *
find_form(struct driver *d)
{
	const char *path = d->opts.at[OPT_OUTPUT].text;
	const struct schedule_form *form = NULL;
	size_t i;

	for (i = 0; i < NFORMS; i++) {
		if (!d->opts.at[forms[i].flag].given) {
			continue;
		}
		if (form) {
			diag_error(&d->ctx.diags, nowhere, "--%s and --%s are "
				   "two forms of one output: give one of them",
				   opt_rows[form->flag].name,
				   opt_rows[forms[i].flag].name);
			return NULL;
		}
		form = &forms[i];
	}
	for (i = 0; i < NFORMS && !form; i++) {
		if (path && forms[i].ending &&
		    text_ends_in(path, forms[i].ending)) {
			form = &forms[i];
		}
	}
	return form ? form : &drawing;
}

bool
drv_schedule(struct driver *d)
{
	const struct schedule_form *form = find_form(d);
	const struct sched_def *def = sched_find(d->opts.input);
	struct sched *s = !form ? NULL : def ? by_name(d, def) : by_file(d);
	struct sched_verdict v;

	if (!s) {
		return false;
	}
	sched_check(&d->ctx.perm, s, &v);
	if (v.remarks.n) {
		sched_report(&d->ctx.diags, &v);
		return false;
	}
	form->print(s, &d->out);
	return true;
}
