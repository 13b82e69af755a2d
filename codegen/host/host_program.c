/*
 * The data that the runtime reads: functions, what each place of the pipeline
 * runs, and the plan.
 */
#include "codegen/host/host.h"
#include "codegen/llvm/ll_cpu.h"
#include "ir/train/step_numbers.h"

#include <string.h>

/* The symbol of a part, which may be in another object. */
static struct ll_value *
part_data(struct cg_code *c, const char *part, const char *more)
{
	return ll_data(c->ll, arena_printf(c->a, "llmc_%s%s", part, more),
		       NULL, 1);
}

/* ---- functions ---- */

static struct ll_value *
func_data(struct cg_code *c, const char *name, int64_t stage, int64_t kind,
	  struct ll_value *run, double us)
{
	struct ll_value **w = host_words(c, HOST_WORDS(struct rt_func));
	struct rt_func x = { .stage = stage, .kind = kind, .us = us };

	HOST_FILL(c, w, x);
	HOST_SET(w, struct rt_func, name, ll_text(c->ll, name));
	HOST_SET(w, struct rt_func, run, run);
	return host_data(c, w, HOST_WORDS(struct rt_func));
}

/* Its time is the mean of all microbatches. */
static struct ll_value *
stage_func(struct cg_code *c, struct host_class *k, uint32_t stage,
	   uint32_t kind)
{
	const char *name = ir_text(c->m->ctx, c->m->funcs.at[
				   c->r->of_stage[stage][kind]].name);
	struct price_func f = c->in.price->stage[stage][kind];

	price_set_mean(&f, c->r->nmicrobatches);
	return func_data(c, name, stage, sched_kinds[kind].letter[0],
			 host_stage_func(c, k, stage, kind), f.total_us);
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
			 ll_i64(c->ll, a->microbatch));
	}
	HOST_SET(program, struct rt_program, nactions,
		 ll_i64(c->ll, l->actions.n));
	HOST_SET(program, struct rt_program, actions,
		 host_data(c, w, l->actions.n * size));
}

static void
put_funcs(struct cg_code *c, struct host_class *k, struct ll_value **w)
{
	const char *name = arena_printf(c->a, "pipe%u_update", k->pipe);

	HOST_SET(w, struct rt_program, update,
		 func_data(c, name, -1, 0, host_update_func(c, k),
			   c->in.price->update[k->pipe].total_us));
	HOST_SET(w, struct rt_program, start,
		 func_data(c, "start", -1, 0, host_start_func(c, k), 0));
	HOST_SET(w, struct rt_program, draw,
		 func_data(c, "draw", -1, 0, host_draw_func(c, k), 0));
}

static void
put_program(struct cg_code *c, struct host_class *k, const struct cg_facts *f,
	    struct ll_value **w)
{
	int64_t least = f->arena_bytes ? f->arena_bytes[k->pipe] : 0;
	struct rt_program x = { .pipe = k->pipe,
				.arena_bytes = k->arena_bytes > least
					? k->arena_bytes : least,
				.host_at = k->host_at,
				.work_offset = k->work_offset,
				.shared_bytes = k->shared_bytes,
				.own_bytes = k->own_bytes };

	if (c->arch) {
		x.comm_offset = k->comm_offset;
		x.comm_bytes = k->comm_bytes;
	}
	HOST_FILL(c, w, x);
	put_actions(c, k, w);
	if (!f->is_size) {
		put_funcs(c, k, w);
		host_put_holds(c, k, w);
	}
	host_put_ports(c, k, w);
}

/* ---- the plan ---- */

static void
put_mesh(struct cg_code *c, struct ll_value **w)
{
	size_t size = HOST_WORDS(struct rt_axis);
	struct ll_value **axes = host_words(c, c->m->axes.n * size);
	axis_id a;

	for (a = 0; a < c->m->axes.n; a++) {
		const struct ir_axis *axis = &c->m->axes.at[a];
		struct rt_axis x = { .size = a ? axis->size : 1,
				     .time = a && axis->time };

		HOST_FILL(c, axes + a * size, x);
		HOST_SET(axes + a * size, struct rt_axis, name,
			 ll_text(c->ll, a ? ir_axis_name(c->m, a) : ""));
	}
	HOST_SET(w, struct rt_plan, axes,
		 host_data(c, axes, c->m->axes.n * size));
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
	HOST_SET(w, struct rt_plan, nfeatures, ll_i64(c->ll, n));
	HOST_SET(w, struct rt_plan, features, host_data(c, names, n));
}

/* Images are an object of their own (images_object.c). */
static void
put_arch(struct cg_code *c, const char *part, struct ll_value **w)
{
	if (c->arch) {
		HOST_SET(w, struct rt_plan, arch,
			 ll_text(c->ll, c->arch->name));
		HOST_SET(w, struct rt_plan, images,
			 part_data(c, part, "_images"));
	}
}

static void
put_sizes(struct cg_code *c, const struct cg_facts *f, struct ll_value **w)
{
	struct ll_value **at = host_words(c, f->nsizes);
	uint32_t i;

	for (i = 0; i < f->nsizes; i++) {
		at[i] = part_data(c, f->sizes[i], "");
	}
	HOST_SET(w, struct rt_plan, nsizes, ll_i64(c->ll, f->nsizes));
	HOST_SET(w, struct rt_plan, sizes, host_data(c, at, f->nsizes));
}

static void
put_programs(struct cg_code *c, const struct cg_facts *f, struct ll_value **w)
{
	size_t size = HOST_WORDS(struct rt_program);
	struct ll_value **all = host_words(c, c->classes.n * size);
	int64_t *of = arena_alloc(c->a, c->r->nranks * sizeof *of);
	uint32_t i;

	for (i = 0; i < c->classes.n; i++) {
		put_program(c, &c->classes.at[i], f, all + i * size);
	}
	for (i = 0; i < c->r->nranks; i++) {
		of[i] = c->class_of[i];
	}
	HOST_SET(w, struct rt_plan, program_of,
		 ll_table(c->ll, of, c->r->nranks));
	HOST_SET(w, struct rt_plan, programs,
		 host_data(c, all, c->classes.n * size));
}

static void
put_facts(struct cg_code *c, const struct cg_facts *f, struct ll_value **w)
{
	HOST_SET(w, struct rt_plan, compiler, ll_text(c->ll, f->compiler));
	HOST_SET(w, struct rt_plan, model, ll_text(c->ll, f->model));
	HOST_SET(w, struct rt_plan, target, ll_text(c->ll, f->target));
	HOST_SET(w, struct rt_plan, json, ll_text(c->ll, f->json));
	HOST_SET(w, struct rt_plan, llp, ll_text(c->ll, f->llp));
	if (f->config) {
		HOST_SET(w, struct rt_plan, config, ll_text(c->ll, f->config));
	}
	if (f->has_whole) {
		HOST_SET(w, struct rt_plan, whole,
			 part_data(c, CG_WHOLE, ""));
	} else if (f->whole_why) {
		HOST_SET(w, struct rt_plan, whole_why,
			 ll_text(c->ll, f->whole_why));
	}
}

_Static_assert((int)IR_SCHEDULE_WSD == RT_WSD &&
	       (int)IR_SCHEDULE_COSINE == RT_COSINE,
	       "the runtime has the schedules of ir/train/step_numbers.h");

static struct rt_training
training_of(const struct ir_module *m)
{
	struct rt_training x = { 0 };
	struct ir_training t;
	int i;

	ir_training_read(m, &t);
	x.schedule = t.schedule;
	x.lr = t.lr;
	x.min_lr = t.min_lr;
	x.warmup = t.warmup;
	x.decay = t.decay;
	x.steps = t.steps;
	for (i = 0; i < IR_NUMBERS; i++) {
		x.at[i] = t.at[i];
	}
	return x;
}

/* The keys of a step that serves; 0: it trains. */
static double
keys_of(const struct ir_module *m)
{
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *n = ir_node(m, id);

		if (n->op == IR_INPUT && strcmp("key", ir_text(m->ctx,
		    ir_attr(m, n, IR_ATTR_NAME)->text)) == 0) {
			return (double)ir_dim_size(m, ir_type(m, n->result)->
						      dims[0]);
		}
	}
	return 0;
}

static struct rt_load
load_of(const struct cg_code *c, const struct cg_facts *f)
{
	struct rt_load x = { 0 };
	double keys = keys_of(c->m);
	struct cost_load l;

	if (!keys || !price_load(c->m, (double)f->tokens, keys, &l)) {
		return x;
	}
	if (l.decoding > 0) {
		return (struct rt_load){ (int64_t)l.decoding, 1,
					 (int64_t)l.keys - 1 };
	}
	return (struct rt_load){ (int64_t)l.prompts,
				 (int64_t)(l.chunk / l.prompts),
				 (int64_t)l.before };
}

/* All numbers that are known before the programs are emitted. */
static struct rt_plan
numbers_of(const struct cg_code *c, const struct cg_facts *f)
{
	return (struct rt_plan){
		.abi = RT_ABI_VERSION, .naxes = c->m->axes.n, .pp = c->r->pp,
		.time = c->r->time, .nranks = c->r->nranks,
		.npipes = c->r->npipes, .nstages = c->r->nstages,
		.nmicrobatches = c->r->nmicrobatches, .workers = HOST_WORKERS,
		.nchannels = c->mem.sends.n, .nprograms = c->classes.n,
		.batch = f->batch, .tokens = f->tokens,
		.context = f->context, .load = load_of(c, f),
		.seed = (int64_t)ir_setting_num(c->m, "train.seed", 0),
		.steps = (int64_t)ir_setting_num(c->m, "train.steps", 0),
		.training = training_of(c->m),
		.clips = ir_setting_num(c->m, "train.clip", 0) > 0,
		.step_us = f->step_us, .flops = f->flops, .peak = f->peak
	};
}

bool
host_put_plan(struct cg_code *c, const struct cg_facts *facts)
{
	struct ll_value **w = host_words(c, HOST_WORDS(struct rt_plan));
	uint32_t errors = c->m->ctx->diags.errors;
	struct rt_plan x = numbers_of(c, facts);

	HOST_FILL(c, w, x);
	put_mesh(c, w);
	put_cpu(c, w);
	put_arch(c, facts->part, w);
	put_facts(c, facts, w);
	put_sizes(c, facts, w);
	put_programs(c, facts, w);
	if (!facts->is_size) {
		host_put_tensors(c, w);
	}
	HOST_SET(w, struct rt_plan, nspreads, ll_i64(c->ll, c->spreads.n));
	HOST_SET(w, struct rt_plan, spreads, c->spread_data);
	HOST_SET(w, struct rt_plan, ngroups, ll_i64(c->ll, c->groups.n));
	HOST_SET(w, struct rt_plan, groups,
		 ll_table(c->ll, c->groups.at, c->groups.n));
	ll_data(c->ll, arena_printf(c->a, "llmc_%s", facts->part), w,
		(uint32_t)HOST_WORDS(struct rt_plan));
	return c->m->ctx->diags.errors == errors;
}
