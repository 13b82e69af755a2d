/*
 * The pass `check`: whether the rank programs and their schedule fit together,
 * by rules over all ranks, without running any.
 *
 * It needs rank programs, and in the settings the plan from which they were
 * made. It changes nothing. It is the last pass and runs on every plan:
 * otherwise an error of an earlier pass on one rank would show as a hang, or as
 * a loss that is slightly wrong.
 *
 * docs/ranks.md lists the rules. Each is a function, and its comment says what
 * goes wrong if the rule is broken.
 */
#include "passes/check/check.h"

#include <string.h>

#include "passes/stage/ranks.h"

/* ---- the mesh ---- */

static struct span
span_of(const struct check *c, axis_id a)
{
	return c->m->axes.at[a].span;
}

/*
 * The number of ranks along all axes of that name; `tp` may be two axes, tp and
 * tpr.
 */
static int64_t
degree(const struct check *c, const char *name)
{
	int64_t n = 1;
	axis_id a;

	for (a = 1; a < c->m->axes.n; a++) {
		const char *is = ir_axis_name(c->m, a);

		if (strcmp(is, name) == 0 || (strcmp(name, "tp") == 0 &&
					      strcmp(is, "tpr") == 0)) {
			if (!num_mul(n, c->m->axes.at[a].size, &n)) {
				return INT64_MAX;
			}
		}
	}
	return n;
}

/*
 * Axes must be in the order of the plan, or ranks would have other neighbours.
 */
static void
in_order(struct check *c)
{
	axis_id last = 0, a;
	int i;

	for (i = 0; i < PLAN_NAXES; i++) {
		const char *name = plan_axis_name(c->plan.mesh[i]);

		a = ir_axis_find(c->m, intern_str(&c->m->ctx->syms, name));
		/* `stage` adds axes after those of a mesh given by the user */
		if (a && a < last && c->m->axes.at[a].size > 1) {
			diag_error(&c->m->ctx->diags, span_of(c, a),
				   "axis `%s`: found it before `%s`, expected "
				   "it after, as in the plan", name,
				   ir_axis_name(c->m, last));
		}
		last = a > last ? a : last;
	}
}

/*
 * The mesh must be that of the plan. With an axis of another size some ranks
 * would have nothing to do, or would hold the wrong pieces.
 */
void
check_mesh(struct check *c)
{
	int64_t ranks = 1;
	axis_id a;
	int i;

	for (i = 0; i < PLAN_NAXES; i++) {
		const char *name = plan_axis_name((enum plan_axis)i);
		int64_t n = degree(c, name);
		int64_t want = plan_degree(&c->plan, (enum plan_axis)i);

		a = ir_axis_find(c->m, intern_str(&c->m->ctx->syms, name));
		if (n != want) {
			diag_error(&c->m->ctx->diags, span_of(c, a), "axis "
				   "`%s`: found %lld ranks, expected %lld, as "
				   "in the plan", name, (long long)n,
				   (long long)want);
		}
	}
	for (a = 1; a < c->m->axes.n; a++) {
		const struct ir_axis *x = &c->m->axes.at[a];
		bool cp = strcmp(ir_axis_name(c->m, a), "cp") == 0;

		if (!x->time && !num_mul(ranks, x->size, &ranks)) {
			ranks = INT64_MAX;
		}
		if (x->balanced != (cp && c->plan.balanced)) {
			diag_error(&c->m->ctx->diags, x->span, "axis `%s`: "
				   "found it %sbalanced, unlike the plan",
				   ir_axis_name(c->m, a),
				   x->balanced ? "" : "not ");
		}
	}
	if (ranks != c->plan.nranks) {
		diag_error(&c->m->ctx->diags, (struct span){ 0, 0 }, "the "
			   "mesh: found %lld ranks, expected %lld, as in the "
			   "plan", (long long)ranks,
			   (long long)c->plan.nranks);
	}
	in_order(c);
}

/* ---- the schedule ---- */

static bool
numbers_agree(struct check *c)
{
	const struct {
		const char *what;
		long long found, want;
	} rows[] = {
		{ "the schedule: ranks", c->s->nranks, (long long)c->plan.pp },
		{ "the schedule: stages", c->s->nstages, c->plan.nstages },
		{ "the schedule: microbatches", c->s->nmicrobatches,
		  (long long)c->plan.nmicrobatches },
		{ "axis `mb`: microbatches", c->time
		  ? (long long)c->m->axes.at[c->time].size : 1,
		  (long long)c->plan.nmicrobatches },
		{ "axis `pp`: ranks", c->pp
		  ? (long long)c->m->axes.at[c->pp].size : 1,
		  c->s->nranks },
	};
	bool ok = true;
	size_t i;

	for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (rows[i].found != rows[i].want) {
			diag_error(&c->m->ctx->diags, (struct span){ 0, 0 },
				   "%s: found %lld, expected %lld",
				   rows[i].what, rows[i].found, rows[i].want);
			ok = false;
		}
	}
	return ok;
}

static bool
find_axes(struct check *c)
{
	axis_id a;

	for (a = 1; a < c->m->axes.n; a++) {
		if (!c->m->axes.at[a].time) {
			continue;
		}
		if (c->time) {
			diag_error(&c->m->ctx->diags, span_of(c, a), "the "
				   "mesh has more than one axis of time");
			return false;
		}
		c->time = a;
	}
	c->pp = ir_axis_find(c->m, intern_str(&c->m->ctx->syms, "pp"));
	c->nstages = c->s->nstages;
	c->npipes = c->s->nranks;
	return true;
}

/*
 * Every stage does every microbatch once, on its own rank, and in this order no
 * rank waits forever. For a named schedule sched_make guarantees that.
 */
static bool
schedule_runs(struct check *c)
{
	struct sched_verdict v;

	if (!c->s->def && !sched_check(c->a, c->s, &v)) {
		sched_report(&c->m->ctx->diags, &v);
		return false;
	}
	return true;
}

/* ---- all of it ---- */

bool
check_ranks(struct ir_module *m, const struct sched *s)
{
	struct check c = { .m = m, .a = &m->ctx->tmp, .s = s };
	uint32_t errors = m->ctx->diags.errors;

	if (!plan_read(m, &c.plan) || !find_axes(&c) ||
	    !numbers_agree(&c) || !schedule_runs(&c)) {
		return false;
	}
	check_mesh(&c);
	if (!check_facts(&c)) {
		return false;
	}
	check_pieces(&c);
	check_types(&c);
	check_layers(&c);
	check_saves(&c);
	check_tensors(&c);
	check_sums(&c);
	check_updates(&c);
	check_scales(&c);
	check_caches(&c);
	check_comm(&c);
	return m->ctx->diags.errors == errors;
}

bool
pass_check(struct pass_ctx *p, struct ir_module *m)
{
	const struct sched *s = ranks_schedule(m, p->memo, &p->ctx->tmp);

	return s && check_ranks(m, s);
}
