/* Ranks, their coordinates, and the functions that each one runs. */
#include "passes/stage/ranks.h"

#include <string.h>

#include "ir/memo.h"
#include "passes/kernels/kernels.h"

/* ---- coordinates ---- */

static bool
is_place(const struct ranks *r, axis_id a)
{
	return a != r->time;
}

void
ranks_at(const struct ranks *r, uint32_t rank, uint32_t at[IR_MAX_AXES + 1])
{
	axis_id a;

	memset(at, 0, (IR_MAX_AXES + 1) * sizeof *at);
	for (a = r->m->axes.n - 1; a > 0; a--) {
		uint32_t size = (uint32_t)r->m->axes.at[a].size;

		if (is_place(r, a)) {
			at[a] = rank % size;
			rank /= size;
		}
	}
}

uint32_t
ranks_number(const struct ranks *r, const uint32_t at[IR_MAX_AXES + 1])
{
	uint32_t rank = 0;
	axis_id a;

	for (a = 1; a < r->m->axes.n; a++) {
		if (is_place(r, a)) {
			rank = rank * (uint32_t)r->m->axes.at[a].size + at[a];
		}
	}
	return rank;
}

uint32_t
ranks_pipe(const struct ranks *r, uint32_t rank)
{
	uint32_t at[IR_MAX_AXES + 1];

	ranks_at(r, rank, at);
	return r->pp ? at[r->pp] : 0;
}

uint32_t
ranks_on_pipe(const struct ranks *r, uint32_t rank, uint32_t pipe)
{
	uint32_t at[IR_MAX_AXES + 1];

	ranks_at(r, rank, at);
	if (r->pp) {
		at[r->pp] = pipe;
	}
	return ranks_number(r, at);
}

uint32_t
ranks_apart(const struct ranks *r)
{
	return r->npipes > 1 ? ranks_on_pipe(r, 0, 1) : r->nranks;
}

uint32_t
ranks_group_size(const struct ranks *r, uint32_t axes)
{
	uint32_t n = 1;
	axis_id a;

	for (a = 1; a < r->m->axes.n; a++) {
		if (is_place(r, a) && axes >> a & 1) {
			n *= (uint32_t)r->m->axes.at[a].size;
		}
	}
	return n;
}

/* Axis by axis: members with a smaller coordinate than n has are below n. */
uint32_t
ranks_group_below(const struct ranks *r, uint32_t axes, uint64_t n)
{
	uint64_t stride = 1, inner = ranks_group_size(r, axes), below = 0;
	axis_id a;

	for (a = 1; a < r->m->axes.n; a++) {
		stride *= is_place(r, a) ? (uint64_t)r->m->axes.at[a].size : 1;
	}
	for (a = 1; a < r->m->axes.n; a++) {
		uint64_t size = (uint64_t)r->m->axes.at[a].size, less;

		if (!is_place(r, a)) {
			continue;
		}
		stride /= size;
		if (axes >> a & 1) {
			inner /= size;
			less = n / stride < size ? n / stride : size;
			below += less * inner;
			n = less < size ? n - less * stride : 0;
		}
	}
	return (uint32_t)(below + (n > 0));
}

uint32_t
ranks_member(const struct ranks *r, uint32_t rank, uint32_t axes, uint32_t i)
{
	uint32_t at[IR_MAX_AXES + 1];
	axis_id a;

	ranks_at(r, rank, at);
	for (a = r->m->axes.n - 1; a > 0; a--) {
		uint32_t size = (uint32_t)r->m->axes.at[a].size;

		if (is_place(r, a) && axes >> a & 1) {
			at[a] = i % size;
			i /= size;
		}
	}
	return ranks_number(r, at);
}

void
ranks_group(const struct ranks *r, uint32_t rank, uint32_t axes,
	    uint32_t *members)
{
	uint32_t n = ranks_group_size(r, axes), i;

	for (i = 0; i < n; i++) {
		members[i] = ranks_member(r, rank, axes, i);
	}
}

const char *
ranks_text(const struct ranks *r, uint32_t rank)
{
	uint32_t at[IR_MAX_AXES + 1];
	const char *before = " (";
	struct buf b;
	axis_id a;

	ranks_at(r, rank, at);
	buf_init(&b, &r->m->ctx->tmp);
	buf_printf(&b, "rank %u", rank);
	for (a = 1; a < r->m->axes.n; a++) {
		if (is_place(r, a)) {
			buf_printf(&b, "%s%s=%u", before,
				   ir_axis_name(r->m, a), at[a]);
			before = " ";
		}
	}
	buf_puts(&b, before[1] == '(' ? "" : ")");
	return buf_text(&b);
}

/* ---- functions ---- */

static func_id
find(const struct ranks *r, const char *stem, uint32_t i, const char *what)
{
	struct ir_ctx *c = r->m->ctx;

	return ir_func_find(r->m, intern_str(&c->syms,
		arena_printf(&c->tmp, "%s%u_%s", stem, i, what)));
}

static axis_id
named(const struct ir_module *m, const char *name)
{
	return ir_axis_find(m, intern_str(&m->ctx->syms, name));
}

void
ranks_find_axes(struct ranks *r)
{
	const struct ir_module *m = r->m;
	axis_id a;

	r->pp = named(m, "pp");
	r->dp = named(m, "dp");
	r->tp = named(m, "tp");
	r->time = 0;
	for (a = 1; a < m->axes.n; a++) {
		r->time = m->axes.at[a].time ? a : r->time;
	}
}

static bool
find_axes(struct ranks *r, const char **why)
{
	struct ir_module *m = r->m;
	int64_t nranks = 1;
	axis_id a;

	ranks_find_axes(r);
	for (a = 1; a < m->axes.n; a++) {
		if (!m->axes.at[a].time) {
			nranks *= m->axes.at[a].size;
		} else if (a != r->time) {
			*why = "the mesh has more than one axis of time";
			return false;
		}
		if (nranks > UINT32_MAX) {
			*why = "the mesh has 2^32 ranks or more";
			return false;
		}
	}
	r->nranks = (uint32_t)nranks;
	r->npipes = r->pp ? (uint32_t)m->axes.at[r->pp].size : 1;
	return true;
}

/*
 * The axis of time has one index per microbatch; no axis means one microbatch.
 */
static bool
agree(const struct ranks *r, const char **why)
{
	int64_t time = r->time ? r->m->axes.at[r->time].size : 1;
	struct arena *tmp = &r->m->ctx->tmp;

	if (r->npipes != r->sched->nranks) {
		*why = arena_printf(tmp, "the schedule is for %u ranks, and "
				    "`pp` has %u", r->sched->nranks,
				    r->npipes);
		return false;
	}
	if (time != r->nmicrobatches) {
		*why = arena_printf(tmp, "the schedule has %u microbatches, "
				    "and the mesh has time for %lld",
				    r->nmicrobatches, (long long)time);
		return false;
	}
	return true;
}

static const char *const kinds[SCHED_NKINDS] = {
	[SCHED_F] = "forward", [SCHED_B] = "backward",
	[SCHED_I] = "input", [SCHED_W] = "weights"
};

/* Whether all functions exist. */
static bool
has_all(const struct ranks *r)
{
	const struct sched_times *times = sched_times(&r->m->ctx->tmp,
						      r->sched);
	uint32_t i, k;

	for (i = 0; i < r->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			if (times[i].of[k] && !r->of_stage[i][k]) {
				return false;
			}
		}
	}
	return true;
}

/* Names the first one missing. */
static const char *
what_lacks(const struct ranks *r)
{
	uint32_t i, k;

	for (i = 0; i < r->npipes; i++) {
		const struct sched_list *l = &r->sched->ranks[i];

		for (k = 0; k < l->actions.n; k++) {
			const struct sched_action *s = &l->actions.at[k];

			if (!r->of_stage[s->stage][s->kind]) {
				return arena_printf(&r->m->ctx->tmp, "the "
					"schedule runs %s, and there is no "
					"layer `stage%u_%s`",
					sched_name(&r->m->ctx->tmp, s),
					s->stage, kinds[s->kind]);
			}
		}
	}
	die("all layers of the schedule are there");
}

static bool
find_funcs(struct ranks *r, const char **why)
{
	struct arena *a = &r->m->ctx->perm;
	uint32_t i, k;

	r->of_stage = arena_alloc(a, r->nstages * sizeof *r->of_stage);
	r->update = arena_alloc(a, r->npipes * sizeof *r->update);
	for (i = 0; i < r->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			r->of_stage[i][k] = find(r, "stage", i, kinds[k]);
		}
	}
	for (i = 0; i < r->npipes; i++) {
		r->update[i] = find(r, "pipe", i, "update");
	}
	if (!has_all(r)) {
		*why = what_lacks(r);
		return false;
	}
	return true;
}

static bool
without_operands(const struct ranks *r, const char **why)
{
	uint32_t i, k;

	for (i = 0; i < r->nstages * SCHED_NKINDS + r->npipes; i++) {
		const struct ir_func *f;
		func_id id;

		k = i / SCHED_NKINDS;
		id = k < r->nstages ? r->of_stage[k][i % SCHED_NKINDS]
			: r->update[i - r->nstages * SCHED_NKINDS];
		f = &r->m->funcs.at[id];
		if (id && r->m->regions.at[f->body].params.n > 0) {
			*why = arena_printf(&r->m->ctx->tmp, "layer `%s` has "
				"operands, and nobody gives them",
				ir_text(r->m->ctx, f->name));
			return false;
		}
	}
	return true;
}

static void
find_sent(struct ranks *r)
{
	const struct ir_module *m = r->m;
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *n = ir_node(m, id);

		if (ir_is(n->op, IRF_PEER) && ir_is(n->op, IRF_SINK)) {
			VEC_PUSH(&m->ctx->perm, &r->sent, ir_args(m, n)[0]);
		}
	}
}

bool
ranks_open(struct ranks *r, struct ir_module *m, const struct sched *s,
	   struct memo *memo, const char **why)
{
	memset(r, 0, sizeof *r);
	r->m = m;
	r->sched = s;
	r->nstages = s->nstages;
	r->nmicrobatches = s->nmicrobatches;
	r->kernels = arena_alloc(&m->ctx->perm, sizeof *r->kernels);
	r->memo = memo;
	r->found = ranks_found_of(r, memo);
	find_sent(r);
	return find_axes(r, why) && agree(r, why) && find_funcs(r, why) &&
	       without_operands(r, why);
}

struct kernels *const *
ranks_kernels(const struct ranks *r)
{
	struct arena *a = memo_arena(r->memo, MEMO_RANKS);
	struct ranks_found *x = a ? r->found : NULL;

	if (!*r->kernels && x && x->kernels) {
		*r->kernels = x->kernels;
	} else if (!*r->kernels) {
		*r->kernels = kernels_all(r->m, r->memo,
					  x ? a : &r->m->ctx->perm);
		if (x) {
			x->kernels = *r->kernels;
		}
	}
	return *r->kernels;
}

bool
ranks_shape(struct ir_module *m, uint32_t *pipes, uint32_t *stages,
	    uint32_t *microbatches, const char **why)
{
	struct ranks r = { .m = m };

	if (!find_axes(&r, why)) {
		return false;
	}
	while (find(&r, "stage", r.nstages, "forward")) {
		r.nstages++;
	}
	*pipes = r.npipes;
	*stages = r.nstages;
	*microbatches = r.time ? (uint32_t)m->axes.at[r.time].size : 1;
	*why = "there is no layer `stage0_forward`";
	return r.nstages > 0;
}

/* ---- the schedule ---- */

/* Reads the file only once per run of the compiler. */
static struct sched *
from_file(struct ir_module *m, const char *path, struct arena *a)
{
	struct sources *files = &m->ctx->sources;
	const char *why;
	uint32_t file;

	for (file = 0; file < files->files.n; file++) {
		if (strcmp(files->files.at[file].name, path) == 0) {
			break;
		}
	}
	if (file == files->files.n &&
	    !source_read(files, path, &file, &why)) {
		diag_error(&m->ctx->diags, (struct span){ 0, 0 },
			   "cannot read %s: %s", path, why);
		return NULL;
	}
	return sched_read(a, &m->ctx->diags, file, NULL);
}

static struct sched *
by_name(struct memo *memo, struct arena *a, const char *name, uint32_t pipes,
	uint32_t stages, uint32_t microbatches, const char **why)
{
	struct arena *kept = memo_arena(memo, MEMO_SCHEDULES);
	struct hash key = { hash_text(1, name), microbatches };
	struct sched *s;

	if (!pipes || stages % pipes != 0) {
		return NULL;
	}
	hash_add(&key, (uint64_t)pipes << 32 | stages);
	s = memo_find(memo, MEMO_SCHEDULES, key);
	if (s) {
		return s;
	}
	s = sched_make(kept ? kept : a, name, pipes, stages / pipes,
		       microbatches, why);
	if (kept && s) {
		memo_keep(memo, MEMO_SCHEDULES, key, s);
	}
	return s;
}

struct sched *
ranks_schedule(struct ir_module *m, struct memo *memo, struct arena *a)
{
	const struct ir_setting *s = ir_setting(m, "plan.schedule");
	const char *name = s && s->text ? ir_text(m->ctx, s->text) : NULL;
	const char *why = "?";
	uint32_t stages, pipes, microbatches;
	struct sched *made;

	if (name && strpbrk(name, "./")) {
		return from_file(m, name, a);
	}
	if (!ranks_shape(m, &pipes, &stages, &microbatches, &why)) {
		diag_error(&m->ctx->diags, (struct span){ 0, 0 },
			   "these are no rank programs: %s", why);
		return NULL;
	}
	if (!name) {
		name = stages > pipes ? "interleaved" : "1f1b";
	} else if (strcmp(name, "zero_bubble") == 0) {
		name = "zb_h1";
	}
	made = by_name(memo, a, name, pipes, stages, microbatches, &why);
	if (!made) {
		diag_error(&m->ctx->diags, s ? s->span : (struct span){ 0, 0 },
			   "there is no schedule %s of %u stages on %u "
			   "pipeline ranks: %s", name, stages, pipes, why);
	}
	return made;
}
