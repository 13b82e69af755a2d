/*
 * Builds or reads the schedule that a plan names, as a struct sched.
 */
#include "passes/plan/plan.h"
#include "passes/sched/sched.h"

#include <string.h>

static struct span
span_of(const struct ir_module *m)
{
	const struct ir_setting *s = ir_setting(m, "plan.schedule");
	struct span none = { 0, 0 };

	return s ? s->span : none;
}

/* Finds a file among the sources, or reads it: once in a run. */
static bool
find_file(struct ir_module *m, const char *name, uint32_t *file)
{
	struct sources *s = &m->ctx->sources;
	const char *why;
	uint32_t i;

	for (i = 0; i < s->files.n; i++) {
		if (strcmp(s->files.at[i].name, name) == 0) {
			*file = i;
			return true;
		}
	}
	if (!source_read(s, name, file, &why)) {
		diag_error(&m->ctx->diags, span_of(m), "cannot read the "
			   "schedule %s: %s", name, why);
		return false;
	}
	return true;
}

static bool
fits(struct ir_module *m, const struct plan *p, const struct sched *s)
{
	const struct {
		const char *what, *key;
		long long file, plan;
	} rows[] = {
		{ "ranks", "pp", s->nranks, (long long)p->pp },
		{ "stages", "pp * interleave", s->nstages, p->nstages },
		{ "microbatches", "batch / (microbatch * dp * ep)",
		  s->nmicrobatches, (long long)p->nmicrobatches },
	};
	bool ok = true;
	int i;

	for (i = 0; i < 3; i++) {
		if (rows[i].file != rows[i].plan) {
			diag_error(&m->ctx->diags, span_of(m), "%s is a "
				   "schedule of %lld %s, and the plan has "
				   "%lld: %s", p->schedule_file, rows[i].file,
				   rows[i].what, rows[i].plan, rows[i].key);
			ok = false;
		}
	}
	return ok;
}

static struct sched *
by_file(struct ir_module *m, const struct plan *p, struct arena *a)
{
	struct sched_verdict v;
	struct sched_left left;
	struct sched *s;
	uint32_t file;

	if (!find_file(m, p->schedule_file, &file)) {
		return NULL;
	}
	s = sched_read(a, &m->ctx->diags, file, &left);
	if (!s) {
		return NULL;
	}
	if (!sched_check(a, s, &v)) {
		sched_report(&m->ctx->diags, &v);
		return NULL;
	}
	return fits(m, p, s) ? s : NULL;
}

struct sched *
plan_schedule(struct ir_module *m, const struct plan *p, struct arena *a)
{
	const char *why;
	struct sched *s;

	if (p->schedule_file) {
		return by_file(m, p, a);
	}
	s = sched_make(a, p->schedule, (uint32_t)p->pp,
		       (uint32_t)p->interleave, (uint32_t)p->nmicrobatches,
		       &why);
	if (!s) {
		diag_error(&m->ctx->diags, span_of(m), "%s", why);
	}
	return s;
}
