/*
 * One width: the program placed, staged into pieces, and each piece priced
 * and measured, for any microbatch, dp and pp.  These change only how long
 * the axes of the mesh are, so nothing is placed again for them.
 */
#include "passes/search_parts.h"

#include <math.h>
#include <string.h>

/* ---- variants ---- */

static bool
run(struct search *s, struct ir_ctx *c, struct ir_module *m, pass_fn *pass)
{
	struct pass_ctx p = { .ctx = c, .stats = &s->stats };

	return pass(&p, m) && c->diags.errors == 0;
}

/* The program with what is to be rebuilt taken out of its saves. */
static struct search_variant *
variant(struct search *s, uint32_t i)
{
	struct search_variant *v = s->variants.at[i];
	struct plan plan = s->base;

	if (v->m || v->bad) {
		return v;
	}
	ir_ctx_child(&v->ctx, s->m->ctx);
	v->m = ir_copy(s->m, &v->ctx);
	plan.recompute = v->recompute;
	plan_write(v->m, &plan);
	v->bad = !run(s, &v->ctx, v->m, pass_recompute) ||
		 !run(s, &v->ctx, v->m, pass_optimize) ||
		 !run(s, &v->ctx, v->m, pass_cse) ||
		 !run(s, &v->ctx, v->m, pass_dce);
	arena_release(&v->ctx.tmp);
	return v;
}

/* ---- the pipeline of pieces ---- */

/* The first layer, the rest of each kind, the last layer. */
static void
cut(const struct search *s, struct search_placed *w)
{
	uint32_t k, n = 0;

	if (w->key.solo) {
		w->piece_of[0] = PIECE_FIRST;
		w->trips[0] = s->nlayers;
		w->nstages = 1;
		return;
	}
	w->piece_of[n] = PIECE_FIRST;
	w->trips[n++] = 1;
	for (k = 0; k < s->nkinds; k++) {
		int64_t trips = s->kinds[k].trips - (k == 0) -
				(k + 1 == s->nkinds);

		if (trips > 0) {
			w->piece_of[n] = PIECE_BODY + k;
			w->trips[n++] = trips;
		}
	}
	w->piece_of[n] = PIECE_LAST;
	w->trips[n++] = 1;
	w->nstages = n;
}

/* A plan of that width: as many stages as pieces. */
static void
write_plan(struct search *s, const struct search_placed *w, bool split,
	   struct ir_module *m)
{
	struct plan p = s->base;

	p.tp = w->key.tp;
	p.cp = w->key.cp;
	p.ep = w->key.ep;
	p.dp = w->dp;
	p.pp = w->nstages;
	p.microbatch = w->microbatch;
	p.interleave = 1;
	p.schedule = split ? "zb_h1" : "1f1b";
	p.schedule_file = NULL;
	p.zero = w->key.zero;
	p.recompute = s->variants.at[w->key.variant]->recompute;
	p.nstages = w->nstages;
	p.layers = (int64_t *)w->trips;
	plan_write(m, &p);
}

/* What a piece holds, where it was placed. */
static bool
hold(struct search_placed *w)
{
	struct pass_holds h;
	uint32_t i;

	if (!pass_hold(w->m, &h)) {
		return false;
	}
	for (i = 0; i < w->nstages; i++) {
		const struct pass_stage *x = &h.stage[i];
		uint32_t p = w->piece_of[i];
		double n = p >= PIECE_BODY ? (double)w->trips[i] : 1;

		w->weights[p] = (double)x->weights / n;
		w->gradients[p] = (double)x->gradients / n;
		w->optimizer[p] = (double)x->optimizer / n;
		w->slot[p] = (double)(x->saved + x->around) / n;
	}
	return true;
}

static bool
place(struct search *s, struct search_placed *w)
{
	struct search_variant *v = variant(s, w->key.variant);
	bool ok;

	if (v->bad) {
		return false;
	}
	ir_ctx_child(&w->ctx, &v->ctx);
	w->m = ir_copy(v->m, &w->ctx);
	cut(s, w);
	write_plan(s, w, false, w->m);
	ok = run(s, &w->ctx, w->m, pass_place) && hold(w);
	arena_release(&w->ctx.tmp);
	s->out->widths++;
	return ok;
}

static bool
same_key(const struct search_key *a, const struct search_key *b)
{
	return a->tp == b->tp && a->cp == b->cp && a->ep == b->ep &&
	       a->zero == b->zero && a->data == b->data &&
	       a->split == b->split && a->solo == b->solo &&
	       a->variant == b->variant;
}

static struct search_placed *
placed(struct search *s, const struct search_key *key,
       const struct search_try *t)
{
	struct search_key whole = *key;
	struct search_placed *w;
	uint32_t i;

	whole.split = false;
	for (i = 0; i < s->placed.n; i++) {
		if (same_key(&s->placed.at[i]->key, &whole)) {
			return s->placed.at[i];
		}
	}
	w = arena_alloc(&s->keep, sizeof *w);
	w->key = whole;
	w->dp = t->g->dp;
	w->microbatch = t->microbatch;
	VEC_PUSH(&s->keep, &s->placed, w);
	w->bad = !place(s, w);
	return w;
}

static bool
stage(struct search *s, struct search_width *w)
{
	struct sched *x;
	const char *why;

	if (w->on->bad) {
		return false;
	}
	ir_ctx_child(&w->ctx, &w->on->ctx);
	w->m = ir_copy(w->on->m, &w->ctx);
	write_plan(s, w->on, w->key.split, w->m);
	if (!run(s, &w->ctx, w->m, pass_stage)) {
		return false;
	}
	arena_release(&w->ctx.tmp);
	x = ranks_schedule(w->m, &w->ctx.perm);
	return x && ranks_open(&w->r, w->m, x, &why);
}

static struct search_width *
width(struct search *s, const struct search_key *key,
      const struct search_try *t)
{
	struct search_width *w;
	uint32_t i;

	for (i = 0; i < s->widths.n; i++) {
		if (same_key(&s->widths.at[i]->key, key)) {
			return s->widths.at[i];
		}
	}
	w = arena_alloc(&s->keep, sizeof *w);
	w->key = *key;
	w->on = placed(s, key, t);
	VEC_PUSH(&s->keep, &s->widths, w);
	w->bad = !stage(s, w);
	return w;
}

/* ---- prices ---- */

/* The mesh is made as long as the plan has it. */
static void
set_axes(struct search *s, struct search_width *w, const struct search_try *t)
{
	struct ir_module *m = w->m;
	axis_id a;

	(void)s;
	for (a = 1; a < m->axes.n; a++) {
		struct ir_axis *x = &m->axes.at[a];

		if (x->time) {
			x->size = t->nmicrobatches;
		} else if (strcmp(ir_axis_name(m, a), "dp") == 0) {
			x->size = t->g->dp;
		} else if (strcmp(ir_axis_name(m, a), "pp") == 0) {
			x->size = t->g->pp;
		}
	}
	w->r.nmicrobatches = (uint32_t)t->nmicrobatches;
	w->r.nranks = (uint32_t)(w->key.tp * w->key.cp * w->key.ep *
				 t->g->dp * t->g->pp);
}

/*
 * Prices a function: of a piece that is layers only, apart what stands
 * outside of their repeats, and of those one layer's share.
 */
static void
price(struct pricing *p, const struct kernel_list *l, double trips,
      struct price_func *top, struct price_func *body)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];
		struct price_func once = { 0 };

		if (!k->body) {
			price_kernel(p, k, top);
		} else if (!body) {
			price_list(p, k->body, top);
		} else {
			price_list(p, k->body, &once);
			price_add(body, &once, 1 / trips);
		}
	}
}

/* Where a piece's price goes: its own, or of what all pieces have. */
struct where {
	struct price_func *top, *body;
	double trips;
	struct price_func spare;
};

static void
go(const struct search_width *w, uint32_t stage, struct price_func *first,
   size_t step, struct where *to)
{
	uint32_t piece = w->on->piece_of[stage];
	bool layers = piece >= PIECE_BODY;
	bool again = stage > 1;		/* the first one tells it for all */

	memset(to, 0, sizeof *to);
	to->trips = (double)w->on->trips[stage];
	to->body = layers ? first + piece * step : NULL;
	to->top = !layers ? first + piece * step
		: again ? &to->spare : first + PIECE_TOP * step;
}

/*
 * Sizes of kernels follow from the microbatch, those of an update's from dp;
 * finding them takes far longer than to price them for another dp or pp.
 */
static struct search_kernels *
kernels_at(struct search *s, const struct search_width *w,
	   struct search_kernels **list, int64_t size)
{
	struct search_kernels *k;

	for (k = *list; k; k = k->next) {
		if (k->size == size) {
			return k;
		}
	}
	k = arena_alloc(&s->keep, sizeof *k);
	k->size = size;
	k->of = arena_alloc(&s->keep, w->m->funcs.n * sizeof *k->of);
	k->next = *list;
	*list = k;
	return k;
}

static void
price_function(struct search *s, struct search_width *w,
	       struct search_kernels *k, func_id f, struct where *to)
{
	struct pricing p = {
		.r = &w->r, .m = w->m, .t = s->t, .traits = &s->o->traits
	};

	if (f && !k->of[f]) {
		k->of[f] = kernels_find(w->m, f, &w->ctx.perm);
	}
	if (f) {
		price(&p, k->of[f]->top, to->trips, to->top, to->body);
	}
}

static void
price_stages(struct search *s, struct search_width *w, struct search_cost *c)
{
	struct search_kernels *list = kernels_at(s, w, &w->by_microbatch,
						 c->microbatch);
	struct where to;
	uint32_t i, k;

	for (i = 0; i < w->on->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			go(w, i, &c->fn[0][k], SCHED_NKINDS, &to);
			price_function(s, w, list, w->r.of_stage[i][k], &to);
		}
	}
	arena_release(&w->ctx.tmp);
}

static void
price_updates(struct search *s, struct search_width *w,
	      struct search_update *u)
{
	struct search_kernels *list = kernels_at(s, w, &w->by_dp, u->dp);
	struct where to;
	uint32_t i;

	for (i = 0; i < w->on->nstages; i++) {
		go(w, i, u->fn, 1, &to);
		price_function(s, w, list, w->r.update[i], &to);
	}
	arena_release(&w->ctx.tmp);
}

/* ---- bytes ---- */

/* From where it was placed to this dp. */
static void
scale_fixed(const struct search_placed *w, struct search_update *u)
{
	int i, zero = w->key.zero;

	for (i = 0; i < PIECE_MAX; i++) {
		double dp = (double)w->dp / (double)u->dp;

		u->fixed[i] = w->weights[i] * (zero > 2 ? dp : 1) +
			      w->gradients[i] * (zero > 1 ? dp : 1) +
			      w->optimizer[i] * (zero > 0 ? dp : 1);
		dp = (double)w->dp;
		u->whole[i] = w->weights[i] * (zero > 2 ? dp : 1) +
			      w->gradients[i] * (zero > 1 ? dp : 1) +
			      w->optimizer[i] * (zero > 0 ? dp : 1);
	}
}

static void
scale_slots(const struct search_placed *w, struct search_cost *c)
{
	int i;

	for (i = 0; i < PIECE_MAX; i++) {
		c->bytes[i].slot = w->slot[i] * (double)c->microbatch /
				   (double)w->microbatch;
	}
}

const struct search_cost *
search_cost_of(struct search *s, const struct search_key *key,
	       const struct search_try *t)
{
	struct search_width *w = width(s, key, t);
	struct search_cost *c;

	if (w->bad) {
		return NULL;
	}
	for (c = w->costs; c; c = c->next) {
		if (c->microbatch == t->microbatch && c->dp == t->g->dp) {
			return c;
		}
	}
	c = arena_alloc(&s->keep, sizeof *c);
	c->microbatch = t->microbatch;
	c->dp = t->g->dp;
	c->next = w->costs;
	w->costs = c;
	set_axes(s, w, t);
	price_stages(s, w, c);
	scale_slots(w->on, c);
	return c;
}

const struct search_update *
search_update_of(struct search *s, const struct search_key *key,
		 const struct search_try *t)
{
	struct search_width *w = width(s, key, t);
	struct search_update *u;

	for (u = w->updates; u; u = u->next) {
		if (u->dp == t->g->dp && u->pp == t->g->pp) {
			return u;
		}
	}
	u = arena_alloc(&s->keep, sizeof *u);
	u->dp = t->g->dp;
	u->pp = t->g->pp;
	u->next = w->updates;
	w->updates = u;
	set_axes(s, w, t);
	price_updates(s, w, u);
	scale_fixed(w->on, u);
	return u;
}

double
search_hop(struct search *s, const struct search_key *key,
	   const struct search_try *t)
{
	struct search_width *w = width(s, key, t);
	struct pricing p = {
		.r = &w->r, .m = w->m, .t = s->t, .traits = &s->o->traits
	};

	set_axes(s, w, t);
	return t->g->pp > 1 ? price_hop(&p) : 0;
}

void
search_release(struct search *s)
{
	uint32_t i;

	for (i = 0; i < s->widths.n; i++) {
		if (s->widths.at[i]->m) {
			ir_ctx_release(&s->widths.at[i]->ctx);
		}
	}
	for (i = 0; i < s->placed.n; i++) {
		if (s->placed.at[i]->m) {
			ir_ctx_release(&s->placed.at[i]->ctx);
		}
	}
	for (i = 0; i < s->variants.n; i++) {
		if (s->variants.at[i]->m) {
			ir_ctx_release(&s->variants.at[i]->ctx);
		}
	}
	arena_release(&s->keep);
	arena_release(&s->tmp);
}
