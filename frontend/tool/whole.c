/*
 * The model on one rank, compiled beside a split plan, so that `rank verify`
 * can compare what the ranks compute with it.
 *
 * It is compiled in a context of its own: if that fails, the plan is still
 * good, and only `rank verify` prints the reason.
 */
#include "frontend/tool/tool.h"

#include <string.h>

#include "passes/memory/memory.h"
#include "passes/plan/plan.h"

/*
 * The largest arena: the unsplit model runs on the cores of one rank while all
 * others wait, and lies in the memory of that rank beside its own tensors.
 */
#define MOST_BYTES ((int64_t)4 << 30)

struct drv_whole {
	struct ir_ctx ctx;
	struct ir_module *m;	/* before any pass, without a plan */
};

/* The unsplit program while it is being compiled. */
struct whole_build {
	struct driver *d;
	struct ir_ctx *c;
	struct ranks r;
	struct price price;
	int64_t arena_bytes;	/* without scratch of kernels */
	const char *why;
};

void
drv_whole_copy(struct driver *d, const struct ir_module *m)
{
	struct drv_whole *w = arena_alloc(&d->ctx.perm, sizeof *w);

	ir_ctx_child(&w->ctx, &d->ctx);
	/* the split plan has given all warnings */
	memset(w->ctx.diags.on, 0, sizeof w->ctx.diags.on);
	w->m = ir_copy(m, &w->ctx);
	plan_clear(w->m);
	d->whole = w;
}

void
drv_whole_release(struct driver *d)
{
	if (d->whole) {
		ir_ctx_release(&d->whole->ctx);
	}
}

/* ---- its programs ---- */

/* False: the reason is t->why, or an error of its context. */
static bool
make_ranks(struct whole_build *t, int64_t microbatch)
{
	struct ir_module *m = ir_copy(t->d->whole->m, t->c);
	struct pass_manager pm;
	struct sched *s;
	bool ok;

	pass_manager_init(&pm, &t->d->table);
	pm.memo = t->d->pm.memo;
	ok = plan_pin(m, arena_printf(&t->c->perm, "microbatch=%lld",
				      (long long)microbatch)) &&
	     pass_run(&pm, &t->d->passes, m) == PASS_OK;
	pass_manager_release(&pm);
	s = ok ? ranks_schedule(m, pm.memo, &t->c->perm) : NULL;
	if (!s || !ranks_open(&t->r, m, s, pm.memo, &t->why)) {
		return false;
	}
	if (t->r.nranks != 1) {		/* a plug-in did that */
		t->why = "the passes split every plan";
		return false;
	}
	return true;
}

static bool
make(struct whole_build *t, int64_t microbatch)
{
	struct target_devs on = target_devs_all(t->d->code_in->target);
	static const struct price_traits plain;
	struct memory mem;

	if (!make_ranks(t, microbatch) ||
	    !price_step(&t->r, &on, &plain, &t->c->perm,
			&t->price, &t->why) ||
	    !memory_plan(&t->r, NULL, 0, &t->c->perm, &mem, &t->why)) {
		return false;
	}
	t->arena_bytes = mem.rank[0].host_at + mem.rank[0].host +
			 mem.rank[0].drives;
	return true;
}

/* The whole batch at once, or if that needs too much memory one sequence at
 * a time. */
static bool
make_to_fit(struct whole_build *t)
{
	const struct target_device *x = &t->d->code_in->target->device;
	int64_t most = x->memory_bytes < (double)MOST_BYTES
		? (int64_t)x->memory_bytes : MOST_BYTES;
	struct plan p;

	if (!plan_read(t->d->whole->m, &p) || !make(t, p.batch)) {
		return false;
	}
	if (t->arena_bytes > most && p.batch > 1 && !make(t, 1)) {
		return false;
	}
	if (t->arena_bytes > most) {
		t->why = arena_printf(&t->d->ctx.perm, "one rank would need "
			"%.2f GiB, and it is compiled for up to %.2f GiB",
			(double)t->arena_bytes / (1 << 30),
			(double)most / (1 << 30));
		return false;
	}
	return true;
}

/* ---- its code ---- */

static bool
compile(struct whole_build *t, const struct cg_facts *facts,
	struct drv_part *to)
{
	const struct cg_input *of = t->d->code_in;
	/* tiles of the split plan are for other shapes */
	struct cg_tiling tiles = { 0 };
	struct cg_input in = { .ranks = &t->r, .target = of->target,
			       .price = &t->price, .cpu = of->cpu,
			       .quick = of->quick,
			       .no_cache = of->no_cache, .arch = of->arch,
			       .tiling = &tiles };
	struct cg_code *code = drv_kernels_settle(t->d, t->c, &in,
						  &to->images);
	struct cg_facts f = *facts;
	bool ok;

	if (!code) {
		return false;
	}
	f.part = to->name;
	f.step_us = t->price.step_us;
	f.json = f.llp = "";
	ok = cg_code_finish(code, cg_code_reserve(code), &f) &&
	     cg_code_object(code, &to->object);
	cg_code_free(code);
	return ok;
}

/* The first error of its context, in memory that outlives it. */
static const char *
first_error(struct whole_build *t)
{
	const char *text = drv_first_error(t->c);

	return arena_printf(&t->d->ctx.perm, "one rank's program cannot be "
			    "compiled%s%s", text ? ": " : "", text ? text
			    : "");
}

bool
drv_whole_object(struct driver *d, const struct cg_facts *f, const char **why)
{
	struct whole_build t = { .d = d, .why = NULL };

	if (d->code_in->ranks->nranks == 1) {
		*why = "the plan is of one rank";
		return false;
	}
	if (!d->whole) {
		*why = "it was compiled with --no-whole";
		return false;
	}
	t.c = &d->whole->ctx;
	if (make_to_fit(&t) &&
	    compile(&t, f, drv_kernels_part(d, d->kernels, CG_WHOLE))) {
		return true;
	}
	d->kernels->n = 1;
	*why = t.why ? arena_printf(&d->ctx.perm, "%s", t.why)
		     : first_error(&t);
	return false;
}
