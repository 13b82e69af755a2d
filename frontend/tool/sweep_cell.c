/*
 * One cell of a sweep: what `llmc --target T --dim N=V MODEL` computes, as a
 * run of its own.  It has its context, its memo and its copy of the model.
 * From the cells that its thread planned before, it has their memory, and what
 * follows from the content of programs whatever the target, such as kernels
 * for any size.  Neither changes an answer, and threads share nothing that
 * they write, so each cell comes to what it would come to alone.
 */
#include "frontend/tool/sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "passes/search/search.h"

static const struct span nowhere;

/* ---- the run of a cell ---- */

/* Options of the sweep as they are of one cell. */
static void
set_options(const struct sweep *s, const struct sweep_cell *cell,
	    struct driver *x)
{
	struct opt_value *at = x->opts.at;
	uint32_t i;

	x->opts = s->d->opts;
	x->opts.arena = &x->ctx.perm;
	x->opts.command = OPT_COMPILE;
	memset(&x->opts.dims, 0, sizeof x->opts.dims);
	for (i = 0; i < cell->ndims; i++) {
		VEC_PUSH(&x->ctx.perm, &x->opts.dims, cell->dims[i]);
	}
	at[OPT_OUTPUT] = at[OPT_DIM] = (struct opt_value){ .given = false };
	at[OPT_TARGET] = (struct opt_value){ .given = true,
					     .text = cell->target };
	x->ctx.diags.color = s->d->ctx.diags.color;
	x->ctx.diags.format = s->d->ctx.diags.format;
	memcpy(x->ctx.diags.on, s->d->ctx.diags.on,
	       sizeof x->ctx.diags.on);
	memcpy(x->ctx.diags.fatal, s->d->ctx.diags.fatal,
	       sizeof x->ctx.diags.fatal);
}

void
sweep_open_thread(struct sweep_thread *t)
{
	struct mem libc;

	mem_init(&libc);
	mem_pool_init(&t->pool, &libc, &t->gate);
	memo_init(&t->memo, &t->gate, SWEEP_MEMO_BYTES);
}

void
sweep_close_thread(struct sweep_thread *t)
{
	memo_release(&t->memo);
	mem_pool_release(&t->pool);
}

/*
 * The model with all that the passes read set; NULL after errors in x.  t may
 * be NULL.
 */
static struct ir_module *
begin(const struct sweep *s, const struct sweep_cell *cell,
      struct sweep_thread *t, struct driver *x)
{
	const struct source_file *f = &s->d->ctx.sources.files.at[s->file];
	const char *path = s->d->opts.input;
	struct ir_module *m;

	memset(x, 0, sizeof *x);
	drv_open(x, t ? &t->gate : NULL);
	x->is_part = true;
	set_options(s, cell, x);
	x->pm.memo = drv_given(x, OPT_NO_MEMO) ? NULL : &x->memo;
	x->memo.lasting = t ? &t->memo : NULL;
	if (!pass_list_parse(&x->table, &x->passes, "split") ||
	    !drv_check_target(x)) {
		return NULL;
	}
	source_keep(&x->ctx.sources, path, f->text, f->len);
	m = drv_load(x, path);
	if (!m || x->ctx.diags.errors) {
		return NULL;
	}
	drv_set_capacity(x, m);
	if (!drv_set_search(x, m)) {
		return NULL;
	}
	if (!x->pm.search) {
		diag_error(&x->ctx.diags, nowhere, "a sweep searches for "
			   "plans, and %s %s", path, ir_model(m)
			   ? "has a plan of its own" : "holds rank programs");
		return NULL;
	}
	return drv_set_plan(x, m) ? m : NULL;
}

/* " --target h100x8 --dim seq=4096" */
static const char *
cell_text(const struct sweep_cell *cell, struct arena *a)
{
	struct buf b;
	uint32_t i;

	buf_init(&b, a);
	buf_printf(&b, "--target %s", cell->target);
	for (i = 0; i < cell->ndims; i++) {
		buf_printf(&b, " --dim %s=%lld", cell->dims[i].name,
			   (long long)cell->dims[i].size);
	}
	return buf_text(&b);
}

bool
sweep_check_cell(const struct sweep *s, const struct sweep_cell *cell,
		 bool warns)
{
	struct answer_asked asked;
	struct driver x;
	struct ir_module *m = begin(s, cell, NULL, &x);
	bool ok = m && drv_read_asked(&x, m, 0, &asked);

	if (!ok) {
		diag_note(&x.ctx.diags, nowhere, "in a cell of the sweep: %s",
			  cell_text(cell, &x.ctx.perm));
	}
	if (!ok || warns) {
		diag_flush(&x.ctx.diags, stderr);
	}
	drv_close(&x);
	return ok;
}

bool
sweep_has_tokens(const struct sweep *s)
{
	const struct source_file *f = &s->d->ctx.sources.files.at[s->file];
	struct answer_asked asked = { 0 };
	struct ir_module *m;
	struct driver x = { 0 };
	bool has;

	drv_open(&x, NULL);
	source_keep(&x.ctx.sources, s->d->opts.input, f->text, f->len);
	m = drv_load(&x, s->d->opts.input);
	x.opts.at[OPT_TOKENS] = s->d->opts.at[OPT_TOKENS];
	has = m && drv_read_asked(&x, m, 1, &asked) && asked.tokens > 0;
	drv_close(&x);
	return has;
}

/* ---- what comes of it ---- */

static const char *
keep(struct sweep_row *r, const char *text)
{
	return text ? arena_strndup(&r->keep, text, strlen(text)) : "";
}

static void
keep_plan(struct sweep_row *r, const struct answer *x)
{
	const struct plan *p = x->plan;
	int i;

	for (i = 0; i < PLAN_NAXES; i++) {
		r->degree[i] = plan_degree(p, (enum plan_axis)i);
	}
	r->microbatch = p->microbatch;
	r->interleave = p->interleave;
	r->zero = p->zero;
	r->offload = p->offload;
	r->schedule = keep(r, p->schedule);
	r->recompute = p->recompute_of ? "by stage" : keep(r, p->recompute);
	r->plan_text = keep(r, x->plan_text);
}

static void
keep_answer(struct sweep_row *r, const struct answer *x)
{
	r->outcome = answer_fits(&x->memory) ? SWEEP_FITS : SWEEP_TOO_LARGE;
	r->why = r->outcome == SWEEP_FITS ? ""
		: "the plan needs more memory than a device has";
	r->devices = x->devices;
	r->nodes = x->nodes;
	r->is_gpu = x->is_gpu;
	r->used = x->used;
	r->step_us = x->step_us;
	r->tokens = x->asked.tokens;
	r->tokens_s = x->tokens_s;
	r->mfu = x->mfu;
	r->usd_h = x->usd_h;
	r->usd_mtoken = x->usd_mtoken;
	r->goodput = x->goodput;
	r->plain = x->plain;
	r->faulty = x->faulty;
	r->left_bytes = x->memory.left_bytes;
	keep_plan(r, x);
}

/* Of a cell without a plan: the search's reason, or what was refused. */
static void
keep_failure(struct sweep_row *r, const struct driver *x,
	     const struct ir_module *m)
{
	const struct search_report *found = x->pm.search
		? x->pm.search->report : NULL;
	const char *why = drv_first_error(&x->ctx);
	const struct target *t = x->pm.cluster;

	r->outcome = m && found && found->groups && !found->found.n &&
		     !found->refused ? SWEEP_TOO_LARGE : SWEEP_REFUSED;
	r->why = keep(r, why ? why : "no reason was given");
	if (t) {
		r->devices = target_devices(t);
		r->nodes = target_nodes(t);
	}
}

void
sweep_run_cell(const struct sweep *s, struct sweep_thread *t,
	       struct sweep_row *row)
{
	struct sweep_cell cell = row->cell;
	struct answer answer;
	struct driver x;
	struct ir_module *m;

	*row = (struct sweep_row){ .cell = cell, .schedule = "",
				   .recompute = "", .plan_text = "" };
	row->step_us = row->tokens_s = row->mfu = row->usd_h = NAN;
	row->usd_mtoken = row->goodput = NAN;
	row->plain = row->faulty = (struct answer_run){ NAN, NAN, NAN };
	mem_init(&row->mem);
	arena_init(&row->keep, &row->mem);
	m = begin(s, &cell, t, &x);
	if (m && drv_run_for_answer(&x, m) == PASS_OK &&
	    drv_answer(&x, m, &answer)) {
		keep_answer(row, &answer);
	} else {
		keep_failure(row, &x, m);
	}
	drv_close(&x);
}

void
sweep_drop_row(struct sweep_row *r)
{
	arena_release(&r->keep);
}

double
sweep_days(const struct sweep_row *r)
{
	return isnan(r->goodput) ? r->plain.days : r->faulty.days;
}

double
sweep_usd(const struct sweep_row *r)
{
	return isnan(r->goodput) ? r->plain.usd : r->faulty.usd;
}
