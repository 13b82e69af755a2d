/*
 * The end of a search: makes the rank programs of the best plans, and replaces
 * composed prices and bytes by theirs.  A composed price is exact if `place`
 * decides the same for the program.  An arena may be larger than composed: it
 * has gaps, it holds transfers that pieces do not show, and code needs scratch
 * beside it.
 */
#include "ir/memo.h"
#include "passes/search/search_parts.h"

#include <math.h>

/*
 * Runs the passes up to `chunk`; `made` keeps the results for when these passes
 * run later.  False: a pass refuses the program, or the search may not do so
 * much work.  The size of the program is checked after each pass, since
 * planning the memory of a large program takes several times as long as making
 * it.
 */
static bool
make(struct search *s, struct pass_ahead *made, struct ir_module *m)
{
	struct pass_ctx p = { .ctx = m->ctx, .cluster = s->o->target,
			      .memo = s->memo };
	static pass_fn *const passes[] = {
		pass_optimize, pass_cse, pass_dce, pass_place,
		pass_recompute, pass_stage, pass_chunk
	};
	size_t i;

	for (i = 0; i < sizeof passes / sizeof *passes; i++) {
		if (!pass_ahead_make(made, &p, m, passes[i]) ||
		    m->ctx->diags.errors || search_is_stopped(s, m->nodes.n)) {
			return false;
		}
		arena_release(&m->ctx->tmp);
	}
	return true;
}

/* Sets the bytes of the rank that has the least memory left: with those of its
 * graphs, so far as the device's reserve does not hold them. */
static void
take_fullest(const struct memory *mem, const struct ranks *r,
	     const struct target_devs *devs, struct arena *a,
	     struct search_found *f)
{
	const double *kernels = memory_graph_kernels(r, mem, devs, a);
	int64_t over = INT64_MIN;
	uint32_t i;

	for (i = 0; i < mem->nranks; i++) {
		const struct target_group *t = target_devs_of(devs, i);
		int64_t capacity = (int64_t)target_free_bytes(t);
		int64_t bytes = mem->rank[i].total +
			(int64_t)(memory_reserve(&t->device, kernels[i]) -
				  t->device.reserve_bytes);

		if (bytes - capacity > over) {
			f->bytes = bytes;
			f->capacity = capacity;
			f->fullest = i;
			over = f->bytes - capacity;
		}
	}
}

/*
 * Whether all ranks have memory for their updates.  These are the same with any
 * ways to recompute, as are the tensors that live all step.
 */
static bool
has_updates(const struct memory *mem, const struct target_devs *devs)
{
	uint32_t i, k;

	for (i = 0; i < mem->nranks; i++) {
		const struct memory_rank *x = &mem->rank[i];
		int64_t bytes = x->update.bound;

		for (k = 0; k <= MEMORY_PIPELINE; k++) {
			bytes += x->by[k];
		}
		if ((double)bytes >
		    target_free_bytes(target_devs_of(devs, i))) {
			return false;
		}
	}
	return true;
}

/* Notes for the report a plan that no ways make fit, if it lacks least. */
static void
note_near(struct search *s, const struct search_found *f, const char *device)
{
	struct search_report *out = s->out;
	struct search_near *n = &out->least;

	if (out->any_near &&
	    f->bytes - f->capacity >= n->bytes - n->capacity) {
		return;
	}
	out->any_near = true;
	*n = (struct search_near){
		f->plan, f->bytes, f->capacity,
		s->space.devs.n > 1 ? device : "", f->fullest
	};
}

/* Bytes of scratch beyond the reserve of the device. */
static int64_t
scratch_beside(const struct search *s, const struct ranks *r,
	       struct kernels *const *all)
{
	const struct memory_scratch *x = s->o->scratch;
	int64_t bytes = memory_scratch_bytes(r, all, x);

	bytes -= x->in_reserve ? (int64_t)s->space.t->device.reserve_bytes : 0;
	return bytes > 0 ? bytes : 0;
}

/* Plans the memory of programs, and prices them if they fit.  False: no ways to
 * recompute make them fit. */
static bool
weigh_in(struct search *s, struct ir_module *m, struct arena *a,
	 struct search_found *f)
{
	struct sched *x = ranks_schedule(m, s->memo, a);
	struct target_devs devs;
	struct memory mem;
	struct price p;
	struct ranks r;
	const char *why;

	if ((f->plan.offload && s->space.t->device.host_bytes_us <= 0) || !x ||
	    !ranks_open(&r, m, x, s->memo, &why) ||
	    !memory_plan(&r, NULL, 0, a, &mem, &why)) {
		return false;
	}
	if (!memory_fits_hosts(&mem, &r, s->o->target, a)) {
		/* other ways may save less there */
		f->bytes = f->capacity + 1;
		return f->plan.offload & PLAN_OFFLOAD_SAVES;
	}
	price_devs(&r, s->o->target, a, &devs);
	take_fullest(&mem, &r, &devs, a, f);
	if (s->o->scratch && f->bytes <= f->capacity) {
		f->bytes += scratch_beside(s, &r, mem.kernels);
	}
	if (f->bytes > f->capacity && !has_updates(&mem, &devs)) {
		note_near(s, f, target_devs_of(&devs, f->fullest)->device.name);
		return false;
	}
	if (f->bytes > f->capacity) {
		return true;
	}
	price_functions(&r, &devs, &s->o->traits, a, &p);
	if (!price_pipeline(x, &s->o->traits, &s->briefs, a, &p)) {
		return false;
	}
	f->step_us = p.step_us;
	return true;
}

static bool
weigh(struct search *s, struct ir_module *m, struct search_found *f)
{
	struct arena a;
	bool ok;

	arena_init(&a, &m->ctx->mem);
	ok = weigh_in(s, m, &a, f);
	arena_release(&a);
	return ok;
}

/* ---- plans that do not fit ---- */

/* Walks look again at plans of these degrees. */
static void
forget_seen(struct search *s, const struct plan *p)
{
	uint32_t i;

	for (i = 0; i < s->space.degrees.n; i++) {
		if (space_has_degrees(p, &s->space.degrees.at[i])) {
			s->seen[i].n = 0;
		}
	}
}

static void
note_unfit(struct search *s, const struct search_found *f, double lacks)
{
	struct search_unfit x = { f->plan, f->fullest, lacks };

	forget_seen(s, &f->plan);
	VEC_PUSH(&s->space.keep, &s->unfit, x);
}

/* ---- settling ---- */

/* Adds a settled plan in order; true if it is the best. */
static bool
insert(struct search *s, struct search_found f)
{
	struct search_found *at;
	uint32_t n = s->settled.n;

	VEC_PUSH(&s->space.keep, &s->settled, f);
	for (at = s->settled.at; n > 0 && at[n - 1].step_us > f.step_us; n--) {
		at[n] = at[n - 1];
	}
	at[n] = f;
	return n == 0;
}

/*
 * What follows from rank programs and is large: passes after the search need it
 * of the best plan's alone.
 */
static void
try_ranks(struct search *s)
{
	memo_try(s->memo, MEMO_RANKS);
	memo_try(s->memo, MEMO_SCHEDULES);
}

static void
tried_ranks(struct search *s, bool is_best)
{
	memo_tried(s->memo, MEMO_RANKS, is_best);
	memo_tried(s->memo, MEMO_SCHEDULES, is_best);
}

/* Makes the programs of a plan, and keeps it if they fit.  True: it is the best
 * so far. */
static bool
settle(struct search *s, struct search_found *f)
{
	struct pass_ahead made;
	struct ir_ctx c;
	struct ir_module *m;
	bool ok;

	pass_ahead_init(&made, s->space.m->ctx, price_ours(&s->o->traits)
			? s->o->target : NULL, s->o->ahead);
	ir_ctx_child(&c, s->space.m->ctx);
	m = ir_copy(s->space.m, &c);
	plan_write(m, &f->plan);
	ok = make(s, &made, m) && weigh(s, m, f);
	s->out->nodes += m->nodes.n;
	pass_ahead_end(&made, m);
	ir_ctx_release(&c);
	if (!ok && !s->out->stopped) {
		note_unfit(s, f, INFINITY);
	} else if (ok && f->bytes > f->capacity) {
		note_unfit(s, f, (double)(f->bytes - f->capacity));
	} else if (ok && insert(s, *f)) {
		pass_ahead_release(&s->made);
		s->made = made;
		return true;
	}
	pass_ahead_release(&made);
	return false;
}

bool
search_settle(struct search *s)
{
	struct search_report *out = s->out;
	uint32_t want = search_nwanted(s), i;
	bool tried = false;

	for (i = 0; i < out->found.n && !out->stopped; i++) {
		struct search_found f = out->found.at[i];

		if (f.step_us * (1 - PIECE_NEAR) >=
		    search_settled_us(s, want)) {
			break;
		}
		if (!search_settled(s, &f.plan)) {
			tried = true;
			try_ranks(s);
			tried_ranks(s, settle(s, &f));
		}
	}
	return tried;
}
