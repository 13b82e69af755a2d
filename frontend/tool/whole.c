/*
 * Beside a split plan: the same model on one rank, compiled too, so that
 * `rank verify` can hold what the ranks compute against it.
 *
 * All of it is made in a context of its own: that it cannot be made is no
 * fault of the plan, and nothing is said but to who runs verify.
 */
#include "frontend/tool/tool_answer.h"

#include <string.h>

#include "frontend/tool/plan_kernels.h"
#include "passes/memory/memory.h"
#include "passes/plan/plan.h"

/*
 * The largest arena: what it compares with runs on a rank's cores while all
 * others wait, and lies in a rank's memory beside its own.
 */
#define MOST_BYTES ((int64_t)4 << 30)

struct drv_whole {
	struct ir_ctx ctx;
	struct ir_module *m;	/* before any pass, without a plan */
};

/* The whole, as it is being compiled. */
struct making {
	struct driver *d;
	struct ir_ctx *c;
	struct ranks r;
	struct price price;
	int64_t arena_bytes;	/* but for rooms of kernels */
	const char *why;
};

void
drv_whole_take(struct driver *d, const struct ir_module *m)
{
	struct drv_whole *w = arena_alloc(&d->ctx.perm, sizeof *w);

	ir_ctx_child(&w->ctx, &d->ctx);
	/* who split it has been warned */
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

/* False: t->why, or what was reported in its context. */
static bool
make_ranks(struct making *t, int64_t microbatch)
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
	if (t->r.nranks != 1) {		/* a plug-in's doing */
		t->why = "the passes split every plan";
		return false;
	}
	return true;
}

static bool
make(struct making *t, int64_t microbatch)
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
	t->arena_bytes = mem.rank[0].total + mem.rank[0].host;
	return true;
}

/* All of the batch at once, or if that takes too much one by one. */
static bool
make_to_fit(struct making *t)
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
compile(struct making *t, const struct cg_facts *facts, struct buf *out)
{
	const struct cg_input *of = t->d->code_in;
	/* a plan's tiles are of its own shapes */
	struct cg_tiling tiles = { 0 };
	struct cg_input in = { .ranks = &t->r, .target = of->target,
			       .price = &t->price, .cpu = of->cpu,
			       .quick = of->quick,
			       .no_cache = of->no_cache, .arch = of->arch,
			       .tiling = &tiles };
	struct cg_code *code = drv_kernels_settle(t->d, t->c, &in,
						  &t->d->kernels->whole);
	struct cg_facts f = *facts;
	bool ok;

	if (!code) {
		return false;
	}
	f.is_whole = true;
	f.step_us = t->price.step_us;
	f.json = f.llp = "";
	ok = cg_code_finish(code, cg_code_reserve(code), &f) &&
	     cg_code_object(code, out);
	cg_code_free(code);
	return ok;
}

/* The first that was reported; it outlives the context. */
static const char *
first_error(struct making *t)
{
	const struct diags *g = &t->c->diags;
	uint32_t i;

	for (i = 0; i < g->records.n; i++) {
		if (g->records.at[i].level == DIAG_ERROR) {
			return arena_printf(&t->d->ctx.perm, "one rank's "
				"program cannot be compiled: %s",
				g->records.at[i].text);
		}
	}
	return "one rank's program cannot be compiled";
}

bool
drv_whole_object(struct driver *d, const struct cg_facts *f, struct buf *out,
		 const char **why)
{
	struct making t = { .d = d, .why = NULL };

	if (d->code_in->ranks->nranks == 1) {
		*why = "the plan is of one rank";
		return false;
	}
	if (!d->whole) {
		*why = "it was compiled with --no-whole";
		return false;
	}
	t.c = &d->whole->ctx;
	if (make_to_fit(&t) && compile(&t, f, out)) {
		return true;
	}
	d->kernels->whole = (struct cg_images){ 0 };
	*why = t.why ? arena_printf(&d->ctx.perm, "%s", t.why)
		     : first_error(&t);
	return false;
}
