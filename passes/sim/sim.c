/*
 * Runs one interpreter per rank. Each rank goes on until it needs something
 * from another rank. sim_match.c then hands out what is available, until all
 * ranks have finished the step or none can go on.
 */
#include "passes/sim/sim_parts.h"

#include <string.h>

/* ---- one rank ---- */

/* Starts the next function of the rank; SIM_OVER: this step has no more. */
static void
next_function(struct sim_rank *k)
{
	const struct ranks *r = k->s->r;
	const struct sched_list *l = &r->sched->ranks[k->pipe];
	func_id f;

	k->action = k->next < l->actions.n ? &l->actions.at[k->next] : NULL;
	if (k->next > l->actions.n ||
	    (!k->action && !r->update[k->pipe])) {
		k->doing = SIM_OVER;
		return;
	}
	k->next++;
	k->id.microbatch = k->action ? k->action->microbatch : 0;
	if (r->time) {
		k->id.at[r->time] = k->id.microbatch;
	}
	f = k->action ? r->of_stage[k->action->stage][k->action->kind]
		      : r->update[k->pipe];
	ir_machine_start(k->e, f);
}

/* Keeps the results of the last stage: those are what the model returns. */
static bool
keep_results(struct sim_rank *k)
{
	const struct sched_action *a = k->action;
	struct sim *s = k->s;
	struct ir_eval_result res;
	uint32_t i;

	if (!a || a->kind != SCHED_F || a->stage + 1 < s->r->nstages) {
		return true;
	}
	for (i = 0; ir_machine_result(k->e, i, &res); i++) {
		struct sim_part p = { .rank = k->number };

		memcpy(p.at, k->id.at, sizeof p.at);
		p.data = ir_pool_get(&s->pool, (struct span){ 0, 0 },
				     res.elems);
		if (!p.data) {
			return false;
		}
		memcpy(p.data, res.data,
		       (size_t)res.elems * sizeof *p.data);
		VEC_PUSH(&s->pool.own, &s->parts[i], p);
	}
	return true;
}

/* Runs until the rank waits or is over. */
static bool
run_rank(struct sim_rank *k)
{
	while (k->doing == SIM_READY) {
		k->state = ir_machine_run(k->e);
		if (k->state == IR_FAILED) {
			diag_note(k->s->diags, (struct span){ 0, 0 },
				  "this was %s", sim_where(k));
			return false;
		}
		if (k->state != IR_ENDED) {
			k->doing = SIM_WAITS;
			return true;
		}
		if (!keep_results(k)) {
			return false;
		}
		next_function(k);
	}
	return true;
}

/* ---- one step ---- */

static void
begin_step(struct sim *s)
{
	uint32_t i;

	for (i = 0; i < s->r->nranks; i++) {
		s->ranks[i].next = 0;
		s->ranks[i].doing = SIM_READY;
		next_function(&s->ranks[i]);
	}
}

static bool
all_over(const struct sim *s)
{
	uint32_t i;

	for (i = 0; i < s->r->nranks; i++) {
		if (s->ranks[i].doing != SIM_OVER) {
			return false;
		}
	}
	return true;
}

static bool
run_step(struct sim *s)
{
	bool on;
	uint32_t i;

	begin_step(s);
	while (!all_over(s)) {
		on = false;
		for (i = 0; i < s->r->nranks; i++) {
			on |= s->ranks[i].doing == SIM_READY;
			if (!run_rank(&s->ranks[i])) {
				return false;
			}
		}
		for (i = 0; i < s->r->nranks; i++) {
			if (s->ranks[i].doing == SIM_WAITS &&
			    !sim_match(s, &s->ranks[i], &on)) {
				return false;
			}
		}
		if (!on) {
			sim_stuck(s);
			return false;
		}
	}
	return sim_all_taken(s);
}

/* ---- how much memory it needs ---- */

/*
 * Adds the memory for what the updates of one pipeline rank keep. Each of its
 * ranks counts like the last, whose pieces are the smallest: a lower bound.
 */
static bool
count_pipe(struct ir_pool *p, const struct ranks *r, uint32_t pipe,
	   double *bytes)
{
	struct ir_needs needs = { 0 };
	struct ir_rank id = { 0 };

	if (!r->update[pipe]) {
		return true;
	}
	ranks_at(r, ranks_on_pipe(r, r->nranks - 1, pipe), id.at);
	if (!ir_machine_count(p, &id, r->update[pipe], &needs)) {
		return false;
	}
	/* twice: before and after the step */
	*bytes += (2.0 * (double)needs.stored_bytes +
		   (double)needs.gradient_bytes) * r->nranks / r->npipes;
	return true;
}

static bool
count_stage(struct ir_pool *p, const struct ranks *r, uint32_t stage)
{
	struct ir_rank id = { 0 };
	bool fits = true;
	int kind;

	ranks_at(r, ranks_on_pipe(r, r->nranks - 1, r->sched->rank_of[stage]),
		 id.at);
	for (kind = 0; kind < SCHED_NKINDS && fits; kind++) {
		struct ir_needs needs = { 0 };
		func_id f = r->of_stage[stage][kind];

		fits = !f || ir_machine_count(p, &id, f, &needs);
	}
	return fits;
}

static void
fail_bytes(const struct ranks *r, double bytes, int64_t max_bytes)
{
	struct ir_ctx *c = r->m->ctx;
	struct buf b;

	buf_init(&b, &c->tmp);
	buf_grouped(&b, bytes < 0x1p63 ? (int64_t)bytes : INT64_MAX);
	buf_puts(&b, " bytes, and the limit is ");
	buf_grouped(&b, max_bytes);
	diag_error(&c->diags, (struct span){ 0, 0 }, "running all %u ranks "
		   "takes more than %s", r->nranks, buf_text(&b));
}

bool
sim_fits(const struct ranks *r, int64_t max_bytes)
{
	struct ir_module *m = r->m;
	/* the table of values of each interpreter */
	double bytes = (double)r->nranks * (double)m->values.n *
		       (double)sizeof(void *);
	struct ir_pool pool;
	bool fits = true;
	uint32_t i;

	ir_pool_open(&pool, m, max_bytes);
	for (i = 0; i < r->npipes && fits; i++) {
		fits = count_pipe(&pool, r, i, &bytes);
	}
	for (i = 0; i < r->nstages && fits; i++) {
		fits = count_stage(&pool, r, i);
	}
	ir_pool_close(&pool);
	if (fits && max_bytes > 0 && bytes > (double)max_bytes) {
		fits = false;
		fail_bytes(r, bytes, max_bytes);
	}
	return fits;
}

/* ---- all steps ---- */

static void
add_share(void *user, const struct ir_node *n, const char *name)
{
	struct sim_rank *k = user;
	struct sim *s = k->s;
	struct sim_share h = { intern_str(&s->m->ctx->syms, name), k->pipe };
	uint32_t i;

	if (!ir_is(n->op, IRF_PEER) || ir_is(n->op, IRF_SOURCE | IRF_SINK)) {
		return;
	}
	for (i = 0; i < s->shares.n; i++) {
		if (s->shares.at[i].name == h.name &&
		    s->shares.at[i].pipe == h.pipe) {
			return;
		}
	}
	VEC_PUSH(&s->pool.own, &s->shares, h);
}

static void
find_shares(struct sim *s)
{
	uint32_t i, pipe;

	for (pipe = 0; pipe < s->r->npipes; pipe++) {
		i = ranks_on_pipe(s->r, 0, pipe);
		if (s->r->update[pipe]) {
			ir_each_name(&s->pool, s->r->update[pipe], add_share,
				     &s->ranks[i]);
		}
	}
}

static void
open_ranks(struct sim *s)
{
	struct arena *a = &s->pool.own;
	uint32_t i;

	s->ranks = arena_alloc(a, s->r->nranks * sizeof *s->ranks);
	s->members = arena_alloc(a, s->r->nranks * sizeof *s->members);
	s->others = arena_alloc(a, s->r->nranks * sizeof *s->others);
	s->peers = arena_alloc(a, s->r->nranks * sizeof *s->peers);
	s->pieces = arena_alloc(a, s->r->nranks * sizeof *s->pieces);
	for (i = 0; i < s->r->nranks; i++) {
		struct sim_rank *k = &s->ranks[i];

		k->s = s;
		k->number = i;
		k->pipe = ranks_pipe(s->r, i);
		ranks_at(s->r, i, k->id.at);
		k->id.send = sim_send;
		k->id.user = k;
		sim_store_open(k);
		k->opt.seed = s->o->seed;
		k->opt.weights = &k->store;
		k->e = ir_machine_new(&s->pool, &k->opt, &k->id);
	}
}

static bool
run_steps(struct sim *s)
{
	for (s->step = 1; s->step <= s->o->steps; s->step++) {
		s->out->step = s->step;
		if (!run_step(s) || !sim_collect(s)) {
			return false;
		}
		sim_commit(s);
		if (s->o->after && !s->o->after(s->o->user, s->out)) {
			return false;
		}
	}
	return true;
}

bool
sim_run(const struct ranks *r, const struct sim_options *o,
	struct sim_result *out)
{
	struct sim s = { .r = r, .o = o, .m = r->m, .out = out };
	bool ok;

	memset(out, 0, sizeof *out);
	s.diags = &r->m->ctx->diags;
	ir_pool_open(&s.pool, r->m, o->max_bytes);
	open_ranks(&s);
	find_shares(&s);
	ok = run_steps(&s);
	ir_pool_close(&s.pool);
	return ok;
}
