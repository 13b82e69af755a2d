/*
 * --autotune: measures which tile of each contraction is the fastest on the
 * GPU of this machine.  The back end lists the tiles that a contraction may
 * have, its own choice first; all are compiled as for the plan and timed. The
 * choice is written into the plan, which then needs no GPU to be compiled.
 */
#include "config.h"

#include "frontend/tool/tool.h"

#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "runtime/measure/tune.h"

/* A smaller gain may be chance: the choice of the back end stays. */
#define LEAST_GAIN 0.02

static const struct span nowhere;

struct tuning {
	struct driver *d;
	struct cg_tiling all;
	struct cg_images images;
	struct rt_tuner *tuner;
	VEC(const char *) rows;
	struct buf table;
	uint32_t others;	/* choices of another tile */
	double own_us, best_us;	/* one kernel of each choice */
};

static bool
report(const struct tuning *t, const char *why)
{
	diag_error(&t->d->ctx.diags, nowhere, "--autotune: %s", why);
	return false;
}

static bool
load(struct tuning *t)
{
	uint32_t n = t->all.sources.n, i;
	struct rt_image *at = arena_alloc(&t->d->ctx.perm, (n + 1) *
					  sizeof *at);
	struct rt_images *all = arena_alloc(&t->d->ctx.perm, sizeof *all);
	struct rt_error err;

	for (i = 0; i < n; i++) {
		at[i] = (struct rt_image){ .name = t->all.sources.at[i].name,
			.source = t->all.sources.at[i].text,
			.cubin = t->images.at[i].cubin,
			.cubin_bytes = t->images.at[i].cubin_bytes };
	}
	*all = (struct rt_images){ .n = n, .at = at,
				   .made_by = t->images.made_by };
	return rt_tuner_load(t->tuner, all, &err) == RT_OK ||
	       report(t, err.message);
}

/* ---- measuring ---- */

static bool
measure(struct tuning *t, const struct cg_contraction *x,
	struct rt_tune_way *ways)
{
	struct arena *a = &t->d->ctx.perm;
	struct rt_tune_buffer *buffers = arena_alloc(a, (x->tensors.n + 1) *
						     sizeof *buffers);
	struct rt_tune_case all = { .buffers = buffers,
				    .nbuffers = x->tensors.n,
				    .nways = x->trials.n, .ways = ways };
	struct rt_error err;
	uint32_t i;

	for (i = 0; i < x->tensors.n; i++) {
		buffers[i].bytes = x->tensors.at[i].bytes;
		buffers[i].elem = x->tensors.at[i].elem;
		buffers[i].row = x->tensors.at[i].row;
		buffers[i].pitch = x->tensors.at[i].pitch;
		buffers[i].written = x->tensors.at[i].written;
	}
	for (i = 0; i < x->trials.n; i++) {
		const struct cg_trial *y = &x->trials.at[i];

		ways[i] = (struct rt_tune_way){ .kernel = y->kernel,
			.operands = y->operands, .pieces = y->pieces,
			.nums = y->nums, .shared_bytes = y->shared_bytes };
	}
	return rt_tuner_run(t->tuner, &all, &err) == RT_OK ||
	       report(t, err.message);
}

static bool
spills(const struct tuning *t, const struct cg_trial *x)
{
	const struct cg_image *m = &t->images.at[x->source];
	uint32_t i;

	for (i = 0; i < m->funcs.n; i++) {
		if (m->funcs.at[i].spill_bytes > 0) {
			return true;
		}
	}
	return false;
}

/* The first, unless another is faster by LEAST_GAIN and does not spill. */
static uint32_t
best_of(const struct tuning *t, const struct cg_contraction *x,
	const struct rt_tune_way *ways)
{
	uint32_t best = 0, i;

	for (i = 1; i < x->trials.n; i++) {
		if (ways[i].us < ways[0].us * (1 - LEAST_GAIN) &&
		    ways[i].us < ways[best].us &&
		    !spills(t, &x->trials.at[i])) {
			best = i;
		}
	}
	return best;
}

/* ---- the table, and the choice ---- */

static void
put_rows(struct tuning *t, const struct cg_contraction *x,
	 const struct rt_tune_way *ways, uint32_t best)
{
	uint32_t i;

	buf_printf(&t->table, "%s: %u kernel%s\n", x->what, x->nkernels,
		   x->nkernels == 1 ? "" : "s");
	for (i = 0; i < x->trials.n; i++) {
		const struct cg_trial *y = &x->trials.at[i];

		buf_printf(&t->table, "  %-64s %12.0f %10.1f%s%s%s\n",
			   y->text, y->cycles, ways[i].us,
			   i == 0 ? " the table's" : "",
			   i == best ? " chosen" : "",
			   spills(t, y) ? " spills" : "");
	}
}

static bool
tune(struct tuning *t, const struct cg_contraction *x)
{
	struct arena *a = &t->d->ctx.perm;
	struct rt_tune_way *ways = arena_alloc(a, (x->trials.n + 1) *
					       sizeof *ways);
	uint32_t best;

	if (x->trials.n < 2) {		/* there is no choice */
		return true;
	}
	if (!measure(t, x, ways)) {
		return false;
	}
	best = best_of(t, x, ways);
	put_rows(t, x, ways, best);
	VEC_PUSH(a, &t->rows, arena_printf(a, "%s: %s", x->what,
					   x->trials.at[best].text));
	t->others += best > 0;
	t->own_us += ways[0].us;
	t->best_us += ways[best].us;
	return true;
}

static bool
tune_all(struct tuning *t)
{
	uint32_t i;

	buf_printf(&t->table, "tiles on %s\n  %-64s %12s %10s"
		   "\n", rt_tuner_name(t->tuner), "", "cycles", "us");
	for (i = 0; i < t->all.found.n; i++) {
		if (!tune(t, &t->all.found.at[i])) {
			return false;
		}
	}
	fprintf(stderr, "llmc: note: %u choice%s of tiles measured on %s: %u "
		"replace%s the table's, and one kernel of each takes %.1f%% "
		"less time\n", t->rows.n, t->rows.n == 1 ? "" : "s",
		rt_tuner_name(t->tuner), t->others,
		t->others == 1 ? "s" : "", t->own_us > 0
		? (1 - t->best_us / t->own_us) * 100 : 0);
	return true;
}

bool
drv_autotune(struct driver *d, struct cg_input *in, struct plan *plan)
{
	struct tuning t = { .d = d };
	struct ir_ctx child;
	struct rt_error err;
	bool ok;

	if (rt_tuner_open(&t.tuner, getenv("LLMC_LIBCUDA"), in->arch, &err) !=
	    RT_OK) {
		return report(&t, err.message);
	}
	ir_ctx_child(&child, &d->ctx);
	memset(child.diags.on, 0, sizeof child.diags.on);
	buf_init(&t.table, &d->ctx.perm);
	ok = drv_trials_make(d, &child, in, "autotune", &t.all, &t.images) &&
	     load(&t) && tune_all(&t);
	rt_tuner_close(t.tuner);
	ir_ctx_release(&child);
	if (ok) {
		plan->tiles = t.rows.at;
		plan->ntiles = t.rows.n;
		plan->tiles_at = nowhere;
		if (drv_explains(d, "tiles")) {
			d->facts->tiles = buf_text(&t.table);
		}
	}
	return ok;
}
