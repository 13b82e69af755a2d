/*
 * The end of a search: rank programs are made of the best plans, and have the
 * last word.  What was composed of pieces is their price to the last digit,
 * but an arena may be larger: it has gaps, and values wait in it that pieces
 * do not show.
 */
#include "passes/search_parts.h"

#include <math.h>
#include <string.h>

/* Composed prices are this near to those of the programs. */
#define NEAR 1e-6

#define STEP 0.004	/* of the memory: left free for gaps, if too full */

static bool
run(struct search *s, struct ir_module *m, pass_fn *pass)
{
	struct pass_ctx p = { .ctx = m->ctx, .stats = &s->stats };

	return pass(&p, m) && m->ctx->diags.errors == 0;
}

static bool
make(struct search *s, struct ir_module *m)
{
	static pass_fn *const passes[] = {
		pass_optimize, pass_cse, pass_dce, pass_place,
		pass_recompute, pass_stage
	};
	size_t i;

	for (i = 0; i < sizeof passes / sizeof *passes; i++) {
		if (!run(s, m, passes[i])) {
			return false;
		}
		arena_release(&m->ctx->tmp);
	}
	return true;
}

static bool
weigh(struct search *s, struct ir_module *m, struct search_found *f)
{
	struct sched *x = ranks_schedule(m, &m->ctx->perm);
	struct memory mem;
	struct price p;
	struct ranks r;
	const char *why;

	if (!x || !ranks_open(&r, m, x, &why) ||
	    !price_step(&r, s->t, &s->o->traits, &m->ctx->perm, &p, &why) ||
	    !memory_plan(&r, NULL, 0, &m->ctx->perm, &mem, &why)) {
		return false;
	}
	f->step_us = p.step_us;
	f->bytes = mem.rank[mem.fullest].total;
	f->fullest = mem.fullest;
	return true;
}

/* False: its programs cannot be made, or do not fit. */
static bool
settle(struct search *s, struct search_found *f, double *over)
{
	struct ir_ctx c;
	struct ir_module *m;
	bool ok;

	ir_ctx_child(&c, s->m->ctx);
	m = ir_copy(s->m, &c);
	plan_write(m, &f->plan);
	ok = make(s, m) && weigh(s, m, f);
	ir_ctx_release(&c);
	if (ok && f->bytes > s->out->memory_bytes) {
		*over = fmin(*over,
			     (double)(f->bytes - s->out->memory_bytes));
		ok = false;
	}
	return ok;
}

/* Settled plans [0, n) stay sorted. */
static void
insert(struct search_found *at, uint32_t n, struct search_found f)
{
	for (; n > 0 && at[n - 1].step_us > f.step_us; n--) {
		at[n] = at[n - 1];
	}
	at[n] = f;
}

bool
search_settle(struct search *s)
{
	struct search_report *out = s->out;
	uint32_t want = s->o->top ? s->o->top : 1, n = 0, i;
	struct search_found *at = out->found.at;
	double over = INFINITY;

	for (i = 0; i < out->found.n; i++) {
		struct search_found f = at[i];

		if (n >= want && f.step_us * (1 - NEAR) >=
				 at[want - 1].step_us) {
			break;
		}
		if (settle(s, &f, &over)) {
			insert(at, n++, f);
		}
	}
	out->found.n = n < want ? n : want;
	if (n == 0 && isfinite(over)) {
		/* doubled: the next way to recompute may save much more */
		s->margin = 2 * s->margin +
			    fmax(over + 1, STEP * (double)out->memory_bytes);
		return false;
	}
	return true;
}
