/*
 * The data that the runtime reads: functions, what each place of the pipeline
 * runs, and the plan.
 */
#include "codegen/host/host.h"
#include "codegen/llvm/ll_cpu.h"

#include <string.h>

/* The symbol of the plan of one rank, in an object of its own. */
#define WHOLE "llmc_whole"

static struct ll_value *
number(struct cg_code *c, int64_t v)
{
	return ll_i64(c->ll, v);
}

/* ---- functions ---- */

static struct ll_value *
func_data(struct cg_code *c, const char *name, int64_t stage, int64_t kind,
	  struct ll_value *run, double us)
{
	struct ll_value **w = host_words(c, HOST_WORDS(struct rt_func));

	HOST_SET(w, struct rt_func, name, ll_text(c->ll, name));
	HOST_SET(w, struct rt_func, stage, number(c, stage));
	HOST_SET(w, struct rt_func, kind, number(c, kind));
	HOST_SET(w, struct rt_func, run, run);
	HOST_SET(w, struct rt_func, us, host_double(c, us));
	return host_data(c, w, HOST_WORDS(struct rt_func));
}

static struct ll_value *
stage_func(struct cg_code *c, struct host_class *k, uint32_t stage,
	   uint32_t kind)
{
	const char *name = ir_text(c->m->ctx, c->m->funcs.at[
				   c->r->of_stage[stage][kind]].name);

	return func_data(c, name, stage, sched_kinds[kind].letter[0],
			 host_stage_func(c, k, stage, kind),
			 c->in.price->stage[stage][kind].total_us);
}

/* ---- a program ---- */

static void
put_actions(struct cg_code *c, struct host_class *k,
	    struct ll_value **program)
{
	const struct sched_list *l = &c->r->sched->ranks[k->pipe];
	size_t size = HOST_WORDS(struct rt_action);
	struct ll_value **w = host_words(c, l->actions.n * size), **x = w;
	struct ll_value **f = host_words(c, c->r->nstages * SCHED_NKINDS);
	bool *made = arena_alloc(c->a, c->r->nstages * SCHED_NKINDS);
	uint32_t i;

	for (i = 0; i < l->actions.n; i++, x += size) {
		const struct sched_action *a = &l->actions.at[i];
		uint32_t at = a->stage * SCHED_NKINDS + a->kind;

		if (!made[at]) {
			f[at] = stage_func(c, k, a->stage, a->kind);
			made[at] = true;
		}
		HOST_SET(x, struct rt_action, func, f[at]);
		HOST_SET(x, struct rt_action, microbatch,
			 number(c, a->microbatch));
	}
	HOST_SET(program, struct rt_program, nactions,
		 number(c, l->actions.n));
	HOST_SET(program, struct rt_program, actions,
		 host_data(c, w, l->actions.n * size));
}

static void
put_funcs(struct cg_code *c, struct host_class *k, struct ll_value **w)
{
	const char *name = arena_printf(c->a, "pipe%u_update", k->pipe);

	put_actions(c, k, w);
	HOST_SET(w, struct rt_program, update,
		 func_data(c, name, -1, 0, host_update_func(c, k),
			   c->in.price->update[k->pipe].total_us));
	HOST_SET(w, struct rt_program, start,
		 func_data(c, "start", -1, 0, host_start_func(c, k), 0));
	HOST_SET(w, struct rt_program, draw,
		 func_data(c, "draw", -1, 0, host_draw_func(c, k), 0));
}

static void
put_program(struct cg_code *c, struct host_class *k, struct ll_value **w)
{
	HOST_SET(w, struct rt_program, pipe, number(c, k->pipe));
	HOST_SET(w, struct rt_program, arena_bytes,
		 number(c, k->arena_bytes));
	HOST_SET(w, struct rt_program, work_offset,
		 number(c, k->work_offset));
	HOST_SET(w, struct rt_program, shared_bytes,
		 number(c, k->shared_bytes));
	HOST_SET(w, struct rt_program, own_bytes, number(c, k->own_bytes));
	if (c->arch) {
		HOST_SET(w, struct rt_program, comm_offset,
			 number(c, k->comm_offset));
		HOST_SET(w, struct rt_program, comm_bytes,
			 number(c, k->comm_bytes));
	}
	put_funcs(c, k, w);
	host_put_holds(c, k, w);
	host_put_ports(c, k, w);
}

/* ---- the plan ---- */

static void
put_mesh(struct cg_code *c, struct ll_value **w)
{
	size_t size = HOST_WORDS(struct rt_axis);
	struct ll_value **axes = host_words(c, c->m->axes.n * size), **x;
	axis_id a;

	for (a = 0; a < c->m->axes.n; a++) {
		const struct ir_axis *axis = &c->m->axes.at[a];

		x = axes + a * size;
		HOST_SET(x, struct rt_axis, name, ll_text(c->ll, a
			 ? ir_axis_name(c->m, a) : ""));
		HOST_SET(x, struct rt_axis, size,
			 number(c, a ? axis->size : 1));
		HOST_SET(x, struct rt_axis, time,
			 number(c, a && axis->time));
	}
	HOST_SET(w, struct rt_plan, naxes, number(c, c->m->axes.n));
	HOST_SET(w, struct rt_plan, axes,
		 host_data(c, axes, c->m->axes.n * size));
	HOST_SET(w, struct rt_plan, pp, number(c, c->r->pp));
	HOST_SET(w, struct rt_plan, time, number(c, c->r->time));
	HOST_SET(w, struct rt_plan, nranks, number(c, c->r->nranks));
	HOST_SET(w, struct rt_plan, npipes, number(c, c->r->npipes));
	HOST_SET(w, struct rt_plan, nstages, number(c, c->r->nstages));
	HOST_SET(w, struct rt_plan, nmicrobatches,
		 number(c, c->r->nmicrobatches));
}

static void
put_cpu(struct cg_code *c, struct ll_value **w)
{
	uint32_t most, n = 0, i;
	const char *const *features = ll_cpu_features(&most);
	struct ll_value **names = host_words(c, most);

	for (i = 0; i < most; i++) {
		if (ll_has(c->ll, features[i])) {
			names[n++] = ll_text(c->ll, features[i]);
		}
	}
	HOST_SET(w, struct rt_plan, cpu, ll_text(c->ll, ll_cpu(c->ll)));
	HOST_SET(w, struct rt_plan, nfeatures, number(c, n));
	HOST_SET(w, struct rt_plan, features, host_data(c, names, n));
}

/* Images are an object of their own (images_object.c). */
static void
put_arch(struct cg_code *c, bool is_whole, struct ll_value **w)
{
	if (c->arch) {
		HOST_SET(w, struct rt_plan, arch,
			 ll_text(c->ll, c->arch->name));
		HOST_SET(w, struct rt_plan, images,
			 ll_data(c->ll, is_whole ? CG_WHOLE_IMAGES
				 : CG_IMAGES, NULL, 1));
	}
}

static void
put_programs(struct cg_code *c, struct ll_value **w)
{
	size_t size = HOST_WORDS(struct rt_program);
	struct ll_value **all = host_words(c, c->classes.n * size);
	int64_t *of = arena_alloc(c->a, c->r->nranks * sizeof *of);
	uint32_t i;

	for (i = 0; i < c->classes.n; i++) {
		put_program(c, &c->classes.at[i], all + i * size);
	}
	for (i = 0; i < c->r->nranks; i++) {
		of[i] = c->class_of[i];
	}
	HOST_SET(w, struct rt_plan, program_of,
		 ll_table(c->ll, of, c->r->nranks));
	HOST_SET(w, struct rt_plan, nprograms, number(c, c->classes.n));
	HOST_SET(w, struct rt_plan, programs,
		 host_data(c, all, c->classes.n * size));
}

static void
put_facts(struct cg_code *c, const struct cg_facts *f, struct ll_value **w)
{
	HOST_SET(w, struct rt_plan, compiler, ll_text(c->ll, f->compiler));
	HOST_SET(w, struct rt_plan, model, ll_text(c->ll, f->model));
	HOST_SET(w, struct rt_plan, target, ll_text(c->ll, f->target));
	HOST_SET(w, struct rt_plan, batch, number(c, f->batch));
	HOST_SET(w, struct rt_plan, tokens, number(c, f->tokens));
	HOST_SET(w, struct rt_plan, seed,
		 number(c, (int64_t)ir_setting_num(c->m, "train.seed", 0)));
	HOST_SET(w, struct rt_plan, steps,
		 number(c, (int64_t)ir_setting_num(c->m, "train.steps", 0)));
	HOST_SET(w, struct rt_plan, step_us, host_double(c, f->step_us));
	HOST_SET(w, struct rt_plan, flops, host_double(c, f->flops));
	HOST_SET(w, struct rt_plan, peak, host_double(c, f->peak));
	HOST_SET(w, struct rt_plan, json, ll_text(c->ll, f->json));
	HOST_SET(w, struct rt_plan, llp, ll_text(c->ll, f->llp));
	if (f->has_whole) {
		HOST_SET(w, struct rt_plan, whole,
			 ll_data(c->ll, WHOLE, NULL, 1));
	} else if (f->whole_why) {
		HOST_SET(w, struct rt_plan, whole_why,
			 ll_text(c->ll, f->whole_why));
	}
}

bool
host_put_plan(struct cg_code *c, const struct cg_facts *facts)
{
	struct ll_value **w = host_words(c, HOST_WORDS(struct rt_plan));
	uint32_t errors = c->m->ctx->diags.errors;

	put_mesh(c, w);
	put_cpu(c, w);
	put_arch(c, facts->is_whole, w);
	put_facts(c, facts, w);
	put_programs(c, w);
	host_put_tensors(c, w);
	HOST_SET(w, struct rt_plan, abi, number(c, RT_ABI_VERSION));
	HOST_SET(w, struct rt_plan, workers, number(c, HOST_WORKERS));
	HOST_SET(w, struct rt_plan, nspreads, number(c, c->spreads.n));
	HOST_SET(w, struct rt_plan, spreads, c->spread_data);
	HOST_SET(w, struct rt_plan, ngroups, number(c, c->groups.n));
	HOST_SET(w, struct rt_plan, groups,
		 ll_table(c->ll, c->groups.at, c->groups.n));
	HOST_SET(w, struct rt_plan, nchannels, number(c, c->mem.sends.n));
	ll_data(c->ll, facts->is_whole ? WHOLE : "llmc_plan", w,
		(uint32_t)HOST_WORDS(struct rt_plan));
	return c->m->ctx->diags.errors == errors;
}
