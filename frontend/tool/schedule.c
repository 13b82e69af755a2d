/*
 * llmc schedule: a pipeline schedule by name, or one from a CSV file, checked
 * and printed again, or summed up.
 */
#include "frontend/tool/tool.h"

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
	/* past every limit, so that it is refused and not cut to 32 bits */
	return v->num > SCHED_MAX_CELLS ? SCHED_MAX_CELLS : (uint32_t)v->num;
}

static struct sched *
by_name(struct driver *d, const struct sched_def *def)
{
	const char *why = "";
	struct sched *s;

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
add_summary(struct driver *d, const struct sched *s,
	    const struct sched_verdict *v)
{
	struct sched_timeline t;
	struct buf *out = &d->out;
	uint32_t i;

	sched_time(&d->ctx.perm, s, NULL, &t);
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

bool
drv_schedule(struct driver *d)
{
	const struct sched_def *def = sched_find(d->opts.input);
	struct sched *s = def ? by_name(d, def) : by_file(d);
	struct sched_verdict v;

	if (!s) {
		return false;
	}
	sched_check(&d->ctx.perm, s, &v);
	if (v.remarks.n) {
		sched_report(&d->ctx.diags, &v);
		return false;
	}
	if (d->opts.at[OPT_SUMMARY].given) {
		add_summary(d, s, &v);
	} else {
		sched_print(s, &d->out);
	}
	return true;
}
