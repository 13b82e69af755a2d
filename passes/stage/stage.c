/*
 * stage: cuts a training program into rank programs: for each stage of the
 * pipeline a forward and a backward function, for each pipeline rank an update.
 *
 * Needs: a flat module with its backward program, and a plan that fits it.
 * Gives: layers without operands in place of the model and of `update`.  A
 * value made on one stage and used on another crosses by `send` and `recv`; a
 * value that a stage's own backward needs crosses by `save` and `saved`;
 * weights, inputs and constants are read wherever they are used.  A repeat
 * whose iterations lie on several stages becomes a repeat on each of them, so
 * programs grow with the number of stages, not with the depth.
 *
 * It runs last and changes none of the nodes that it copies, so passes that
 * decide how a node runs must come before it.  docs/ranks.md specifies the
 * result.
 */
#include "passes/stage/stage.h"

#include <string.h>

#include "passes/sched/sched.h"
#include "passes/stage/ranks.h"

static struct span
model_span(const struct ir_module *m)
{
	return m->funcs.at[ir_model(m)].span;
}

/* Finds which rank holds which stage, and whether backward is split. */
static bool
read_schedule(struct stage *st)
{
	const struct sched_def *def = sched_find(st->plan.schedule);
	const char *why = NULL;
	struct sched *s;
	uint32_t r, i;

	/* in a named schedule, microbatches do not change a stage's rank */
	s = def ? sched_make(st->a, def->name, st->npipes,
			     (uint32_t)st->plan.interleave, 1, &why)
		: plan_schedule(st->m, &st->plan, st->a);
	if (!s) {
		if (why) {
			diag_error(&st->m->ctx->diags, model_span(st->m),
				   "%s", why);
		}
		return false;
	}
	st->rank_of = s->rank_of;
	for (r = 0; r < s->nranks; r++) {
		for (i = 0; i < s->ranks[r].actions.n; i++) {
			uint8_t kind = s->ranks[r].actions.at[i].kind;
			uint8_t does = sched_kinds[kind].does;

			st->split |= (does & SCHED_INPUT) &&
				     !(does & SCHED_WEIGHTS);
		}
	}
	return true;
}

/* Finds or adds the axis of that name; an existing one must agree. */
static bool
want_axis(struct stage *st, const char *text, int64_t size, bool time,
	  axis_id *out)
{
	struct ir_module *m = st->m;
	sym_t name = intern_str(&m->ctx->syms, text);
	axis_id a = ir_axis_find(m, name);

	*out = a;
	if (a && (m->axes.at[a].size != size || m->axes.at[a].time != time)) {
		diag_error(&m->ctx->diags, m->axes.at[a].span, "axis `%s` is "
			   "%lld%s, and the plan makes it %lld%s", text,
			   (long long)m->axes.at[a].size,
			   m->axes.at[a].time ? " time" : "",
			   (long long)size, time ? " time" : "");
		return false;
	}
	if (!a && m->axes.n > IR_MAX_AXES) {
		diag_error(&m->ctx->diags, model_span(m), "the mesh has %d "
			   "axes, and none is left for `%s`",
			   IR_MAX_AXES, text);
		return false;
	}
	if (!a) {
		*out = ir_axis_add(m, name, size, model_span(m));
		m->axes.at[*out].time = time;
	}
	return true;
}

static bool
read_plan(struct stage *st)
{
	axis_id mb;

	if (!plan_read(st->m, &st->plan)) {
		return false;
	}
	st->nstages = st->plan.nstages;
	st->npipes = (uint32_t)st->plan.pp;
	return read_schedule(st) &&
	       (!ir_dim_find(st->m, intern_str(&st->m->ctx->syms, "batch")) ||
		want_axis(st, "mb", st->plan.nmicrobatches, true, &mb)) &&
	       (st->npipes == 1 || want_axis(st, "pp", st->npipes, false,
					     &st->pp));
}

bool
stage_some(struct pass_ctx *p, struct ir_module *m, const bool *only)
{
	struct stage st = { .p = p, .m = m, .a = &p->ctx->tmp, .only = only };
	uint32_t nfuncs, f;
	bool *live;

	/* unused values must not be sent */
	if (!pass_dce(p, m)) {
		return false;
	}
	nfuncs = m->funcs.n;
	if (!read_plan(&st) || !stage_units(&st)) {
		return false;
	}
	stage_sums(&st);
	stage_chain(&st);
	stage_emit(&st);
	if (!stage_update(&st, nfuncs)) {
		return false;
	}
	live = arena_alloc(st.a, m->funcs.n * sizeof *live);
	for (f = nfuncs; f < m->funcs.n; f++) {
		live[f] = true;
	}
	pass_drop_funcs(m, live);
	/* keep the layer counts, which followed from the dropped model */
	plan_write_stages(m, &st.plan);
	pass_count(p, "stages", st.nstages);
	return pass_dce(p, m);
}

bool
pass_stage(struct pass_ctx *p, struct ir_module *m)
{
	return stage_some(p, m, NULL);
}
