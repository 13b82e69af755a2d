/*
 * Prices and bytes of the pieces of a sharding, for any microbatch, dp and pp.
 * These change only the lengths of mesh axes, so nothing is placed again for
 * them.
 */
#include "passes/pieces/piece_parts.h"

#include <math.h>
#include <string.h>

/*
 * Adds the price of a function to `top`.  `body` is set for a piece of layers
 * only: then the price of one layer is added to `body`, and `top` gets what is
 * outside of the repeat.
 */
static void
price(struct pricing *p, const struct kernel_list *l, double iterations,
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
			price_add(body, &once, 1 / iterations);
		}
	}
}

/*
 * To what the price of a piece's function is added: to the piece, or outside of
 * repeats of layers to PIECE_TOP, which all functions have.
 */
struct where {
	struct price_func *top, *body;
	double iterations;
	struct price_func spare;
};

static void
go(const struct piece_sharding *w, uint32_t stage, struct price_func *first,
   size_t step, struct where *to)
{
	uint32_t piece = w->on->piece_of[stage];
	bool layers = piece >= PIECE_BODY;
	bool again = stage > 1;		/* the first piece sets PIECE_TOP */

	memset(to, 0, sizeof *to);
	to->iterations = (double)w->on->iterations[stage];
	to->body = layers ? first + piece * step : NULL;
	to->top = !layers ? first + piece * step
		: again ? &to->spare : first + PIECE_TOP * step;
}

static void
price_function(const struct piece_store *s, struct pricing *p,
	       struct kernels *const *of, func_id f, struct where *to)
{
	if (f) {
		price_choose_parts(p, s->space->base.chunks, of[f]->top);
		price(p, of[f]->top, to->iterations, to->top, to->body);
	}
}

static bool
colls(const struct kernel_list *l, uint32_t axes)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body ? colls(k->body, axes)
			    : k->work->coll.axes & axes) {
			return true;
		}
	}
	return false;
}

/*
 * Whether the price of stages depends on dp.  A larger dp makes one axis longer
 * and moves ranks apart along the axes outside of it.  So no price changes if
 * stages have no collective along any of these.
 */
static bool
depends_on_dp(const struct piece_sharding *w,
	      const struct piece_kernels *list)
{
	struct ir_module *m = w->m;
	axis_id dp = piece_axis(m, "dp");
	uint32_t axes = dp ? (2u << dp) - 1 : 0, i, k;

	for (i = 0; i < w->on->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			func_id f = w->r.of_stage[i][k];

			if (f && colls(list->of[f]->top, axes)) {
				return true;
			}
		}
	}
	return false;
}

/* The prices of n pieces, as they are kept. */
static struct piece_prices *
keep_prices(struct arena *a, const struct price_func (*fn)[SCHED_NKINDS],
	    uint32_t n)
{
	struct price_func at[1 + PIECE_MAX * SCHED_NKINDS];
	struct piece_prices x = { .n = n }, *to;
	uint32_t nat = 1, i, k, j;

	memset(&at[0], 0, sizeof *at);
	for (i = 0; i < n; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			at[nat] = fn[i][k];
			for (j = 0; memcmp(&at[j], &at[nat], sizeof *at) != 0;
			     j++) {
			}
			x.which[i][k] = (uint8_t)j;
			nat += j == nat;
		}
	}
	to = arena_alloc_raw(a, sizeof *to + nat * sizeof *at);
	*to = x;
	memcpy(to->at, at, nat * sizeof *at);
	return to;
}

static void
price_pieces(struct piece_store *s, struct piece_sharding *w,
	     struct piece_kernels *list, struct piece_cost *c,
	     uint32_t dev, struct arena *a)
{
	struct pricing p = piece_pricing(s, w, dev);
	uint32_t n = piece_number(s->space), i, k;
	struct price_func fn[PIECE_MAX][SCHED_NKINDS];
	struct piece_least (*least)[SCHED_NKINDS] = NULL;
	struct where to;

	kernels_some(w->fuse, w->r.of_stage[0], w->on->nstages * SCHED_NKINDS,
		     &list->mem, list->of);
	memset(fn, 0, sizeof fn);
	if (!w->key.choice) {
		least = arena_alloc(a, n * sizeof *least);
		piece_find_least(w, list, &p, least);
	}
	for (i = 0; i < w->on->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			go(w, i, &fn[0][k], SCHED_NKINDS, &to);
			price_function(s, &p, list->of, w->r.of_stage[i][k],
				       &to);
		}
	}
	c->on[dev] = keep_prices(a, (const struct price_func (*)[SCHED_NKINDS])
				 fn, n);
	c->on[dev]->least = least;
}

/*
 * Prices stages on each single device group first, for lower bounds; then on
 * `dev`, which may be a set of several groups that a rank spans.
 */
static void
price_stages(struct piece_store *s, struct piece_sharding *w,
	     struct piece_cost *c, uint32_t dev)
{
	struct piece_kernels *list = piece_stage_kernels(s, w, c->microbatch,
							 c->dp);
	uint32_t i;

	c->on = list->any_dp ? list->any_dp->on : c->on;
	if (!c->on[0]) {
		for (i = 0; i < s->space->nsingle; i++) {
			price_pieces(s, w, list, c, i, &s->space->keep);
		}
		list->any_dp = depends_on_dp(w, list) ? NULL : c;
	}
	if (!c->on[dev]) {
		price_pieces(s, w, list, c, dev, &s->space->keep);
	}
	/* its kernels are not needed again, but to measure it */
	if (list->any_dp && s->space->devs.n == 1 &&
	    (w->key.choice || w->measured)) {
		piece_drop_kernels(list);
	}
	arena_release(&w->ctx->tmp);
}

/*
 * Prices updates.  Sums over all ranks of the pipeline cross all their device
 * groups.
 */
static void
price_updates(struct piece_store *s, struct piece_sharding *w,
	      const struct space_plan *t, struct piece_update *u,
	      uint32_t dev)
{
	struct piece_kernels *list = piece_kernels_at(s, w, &w->of_updates, 0,
						      u->dp);
	struct pricing p = piece_pricing(s, w, dev);
	struct target_devs all;
	struct where to;
	uint32_t i;

	kernels_some(w->fuse, w->r.update, w->on->nstages, &list->mem,
		     list->of);
	space_devs(s->space, t->g, &w->ctx->tmp, &all);
	p.across = all.all;
	u->on[dev] = arena_alloc(&s->space->keep,
				 piece_number(s->space) * sizeof *u->on[dev]);
	for (i = 0; i < w->on->nstages; i++) {
		go(w, i, u->on[dev], 1, &to);
		price_function(s, &p, list->of, w->r.update[i], &to);
	}
	arena_release(&w->ctx->tmp);
}

/* ---- costs of one sharding ---- */

struct piece_cost *
piece_cost_of(struct piece_store *s, const struct piece_key *key,
	      const struct space_plan *t)
{
	struct piece_sharding *w = piece_sharding_of(s, key, t);
	struct piece_cost *c;

	if (w->bad) {
		return NULL;
	}
	for (c = w->costs; c; c = c->next) {
		if (c->microbatch == t->microbatch && c->dp == t->g->dp) {
			return c;
		}
	}
	c = arena_alloc(&s->space->keep, sizeof *c);
	c->microbatch = t->microbatch;
	c->dp = t->g->dp;
	c->on = arena_alloc(&s->space->keep, s->space->devs.n * sizeof *c->on);
	c->next = w->costs;
	w->costs = c;
	return c;
}

/*
 * What one microbatch keeps does not depend on dp, unless tensors are gathered
 * or cut along it.
 */
void
piece_measure(struct piece_store *s, const struct piece_key *key,
	      const struct space_plan *t, struct piece_cost *c)
{
	struct piece_sharding *w = piece_sharding_of(s, key, t);
	uint32_t n = piece_number(s->space);
	struct kernels *const *of;
	struct memory mem;
	const char *why;

	if (c->bytes) {
		return;
	}
	if (!w->staged) {
		piece_reopen(s, w);
	}
	if (c->microbatch == w->at.microbatch &&
	    (c->dp == w->g.dp || !w->sized_by_dp) &&
	    piece_measure_sharding(s, w)) {
		c->bytes = w->bytes;
		return;
	}
	c->bytes = arena_alloc(&s->space->keep, n * sizeof *c->bytes);
	piece_reopen(s, w);
	piece_set_axes(w->m, t);
	of = piece_find_kernels(s, w, t->microbatch, t->g->dp);
	if (memory_measure(&w->r, of, &w->ctx->tmp, &mem, &why)) {
		piece_measure_bytes(w, &mem, c->bytes);
	}
	arena_release(&w->ctx->tmp);
}

/* The functions of the pieces that are shown; returns their number. */
static uint32_t
shown_functions(const struct piece_sharding *w, const bool *shown, func_id *to)
{
	uint32_t n = 0, i, k;

	for (i = 0; i < w->on->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS && shown[w->on->piece_of[i]];
		     k++) {
			if (w->r.of_stage[i][k]) {
				to[n++] = w->r.of_stage[i][k];
			}
		}
	}
	return n;
}

static void
price_shown(struct piece_store *s, struct piece_sharding *w,
	    struct kernels *const *of, struct piece_shown *x)
{
	struct pricing p = piece_pricing(s, w, 0);
	struct where to;
	uint32_t i, k;

	for (i = 0; i < w->on->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS && x->shown[w->on->piece_of[i]];
		     k++) {
			go(w, i, &x->fn[0][k], SCHED_NKINDS, &to);
			price_function(s, &p, of, w->r.of_stage[i][k], &to);
		}
	}
}

/* The kernels of the pieces that are shown, by function, in w->ctx->tmp. */
static struct kernels **
shown_kernels(struct piece_store *s, struct piece_sharding *w,
	      const struct piece_shown *x)
{
	struct pricing at = piece_pricing(s, w, 0);
	struct arena *a = &w->ctx->tmp;
	struct kernels **of = arena_alloc(a, w->m->funcs.n * sizeof *of);
	func_id ids[(SPACE_MAX_KINDS + 2) * SCHED_NKINDS];
	uint32_t n = shown_functions(w, x->shown, ids), i;

	kernels_some(w->fuse, ids, n, a, of);
	for (i = 0; i < n; i++) {
		price_choose_parts(&at, s->space->base.chunks,
				   of[ids[i]]->top);
	}
	return of;
}

bool
piece_show(struct piece_store *s, struct piece_sharding *w,
	   const struct space_plan *t, struct piece_shown *x,
	   struct piece_maps (*maps)[SCHED_NKINDS])
{
	struct kernels **of;
	struct memory mem;
	const char *why;
	bool ok;

	piece_drop_sharding(s, w);
	if (!piece_open_some(s, w, x->shown)) {
		return false;
	}
	piece_set_axes(w->m, t);
	of = shown_kernels(s, w, x);
	ok = memory_measure(&w->r, of, &w->ctx->tmp, &mem, &why);
	if (ok) {
		piece_measure_bytes(w, &mem, x->bytes);
		piece_set_mesh(w, &w->key, t);
		price_shown(s, w, of, x);
		piece_find_maps(s, w, of, maps);
	}
	piece_drop_sharding(s, w);
	return ok;
}

void
piece_price(struct piece_store *s, const struct piece_key *key,
	    const struct space_plan *t, struct piece_cost *c, uint32_t dev)
{
	struct piece_sharding *w;

	if (!c->on[dev]) {
		w = piece_sharding_of(s, key, t);
		piece_reopen(s, w);
		piece_set_mesh(w, &w->key, t);
		price_stages(s, w, c, dev);
	}
}

struct piece_update *
piece_update_of(struct piece_store *s, const struct piece_key *key,
		const struct space_plan *t)
{
	struct piece_sharding *w = piece_with_updates(s, key, t);
	uint32_t n = piece_number(s->space);
	struct piece_update *u;
	double *at;

	for (u = w->updates; u; u = u->next) {
		if (u->dp == t->g->dp && u->pp == t->g->pp &&
		    u->offload == key->offload) {
			return u;
		}
	}
	u = arena_alloc(&s->space->keep, sizeof *u);
	u->dp = t->g->dp;
	u->pp = t->g->pp;
	u->offload = key->offload;
	u->on = arena_alloc(&s->space->keep, s->space->devs.n * sizeof *u->on);
	u->ends = arena_alloc(&s->space->keep,
			      s->space->devs.n * sizeof *u->ends);
	at = arena_alloc(&s->space->keep, 6 * n * sizeof *at);
	u->fixed = at;
	u->temp = at + n;
	u->temp_each = at + 2 * n;
	u->host = at + 3 * n;
	u->drives = at + 4 * n;
	u->window = at + 5 * n;
	u->next = w->updates;
	w->updates = u;
	piece_sum_tensors(w, u);
	return u;
}

void
piece_price_update(struct piece_store *s, const struct piece_key *key,
		   const struct space_plan *t, struct piece_update *u,
		   uint32_t dev)
{
	struct piece_sharding *w;
	struct piece_key own;

	if (!u->on[dev]) {
		w = piece_with_updates(s, key, t);
		own = w->key;
		own.offload = key->offload;
		piece_reopen(s, w);
		piece_set_mesh(w, &own, t);
		if (plan_offload(w->m) != own.offload) {
			piece_write_plan(s, w->on, &own, t, w->m);
		}
		price_updates(s, w, t, u, dev);
	}
}

/* The update of the rank of w, whose key has `ends`. */
static struct price_func *
price_ends(struct piece_store *s, struct piece_sharding *w,
	   const struct space_plan *t, int64_t dp, uint32_t dev)
{
	struct piece_kernels *list = piece_kernels_at(s, w, &w->of_updates, 0,
						      dp);
	struct pricing p = piece_pricing(s, w, dev);
	struct where to = {
		.top = arena_alloc(&s->space->keep, sizeof *to.top)
	};
	struct target_devs all;

	kernels_some(w->fuse, w->r.update, 1, &list->mem, list->of);
	space_devs(s->space, t->g, &w->ctx->tmp, &all);
	p.across = all.all;
	price_function(s, &p, list->of, w->r.update[0], &to);
	arena_release(&w->ctx->tmp);
	return to.top;
}

void
piece_join_ends(struct piece_store *s, const struct piece_key *key,
		const struct space_plan *t, struct piece_update *u,
		uint32_t dev, struct price_func *update)
{
	struct piece_key own = *key;
	struct piece_sharding *w;

	own.ends = true;
	own.split = false;
	own.choice = 0;
	if (!u->ends[dev]) {
		w = piece_sharding_of(s, &own, t);
		if (w->bad) {	/* then the plan's own programs are, too */
			return;
		}
		piece_reopen(s, w);
		piece_set_mesh(w, &own, t);
		if (plan_offload(w->m) != own.offload) {
			piece_write_plan(s, w->on, &own, t, w->m);
		}
		u->ends[dev] = price_ends(s, w, t, u->dp, dev);
		piece_drop_sharding(s, w);
	}
	price_add(update, u->ends[dev], 1);
	price_add(update, &u->on[dev][PIECE_TOP], 1);
	price_add(update, &u->on[dev][PIECE_FIRST], -1);
	price_add(update, &u->on[dev][PIECE_LAST], -1);
}

double
piece_hop_us(struct piece_store *s, const struct piece_key *key,
	     const struct space_plan *t, struct piece_cost *c)
{
	struct piece_hop hop = { .pp = t->g->pp };
	struct target_devs all;
	struct piece_sharding *w;
	uint32_t i;

	for (i = 0; i < c->hops.n; i++) {
		if (c->hops.at[i].pp == t->g->pp) {
			return c->hops.at[i].us;
		}
	}
	if (t->g->pp > 1) {
		w = piece_sharding_of(s, key, t);
		piece_reopen(s, w);
		piece_set_mesh(w, &w->key, t);
		space_devs(s->space, t->g, &s->space->tmp, &all);
		hop.us = price_hop(&(struct pricing){
			.r = &w->r, .m = w->m, .t = all.all,
			.traits = s->space->traits
		});
		VEC_PUSH(&s->space->keep, &c->hops, hop);
	}
	return hop.us;
}

bool
piece_open_unsplit(struct piece_store *s, const struct piece_key *key,
		   const struct space_plan *t, struct piece_unsplit *u)
{
	struct piece_sharding *w = piece_sharding_of(s, key, t);
	struct space_plan two = *t;
	uint32_t i;

	if (w->bad || !piece_measure_sharding(s, w)) {
		return false;
	}
	piece_reopen(s, w);
	piece_set_axes(w->m, t);
	*u = (struct piece_unsplit){
		.at = piece_pricing(s, w, 0), .nstages = w->on->nstages,
		.piece = w->on->piece_of, .iterations = w->on->iterations,
		.of_stage = (const func_id (*)[SCHED_NKINDS])w->r.of_stage
	};
	u->one = arena_alloc(&s->space->tmp, w->m->funcs.n * sizeof *u->one);
	u->two = arena_alloc(&s->space->tmp, w->m->funcs.n * sizeof *u->two);
	kernels_some(w->fuse, w->r.of_stage[0], u->nstages * SCHED_NKINDS,
		     &s->space->tmp, u->one);
	u->weights = 0;
	for (i = 0; i < w->on->nstages; i++) {
		u->weights += w->weights[w->on->piece_of[i]] *
			(w->on->piece_of[i] >= PIECE_BODY
				 ? (double)w->on->iterations[i] : 1);
	}
	two.microbatch = 2;
	two.nmicrobatches = s->space->batch / 2 + (s->space->batch == 1);
	piece_set_axes(w->m, &two);
	kernels_some(w->fuse, w->r.of_stage[0], u->nstages * SCHED_NKINDS,
		     &s->space->tmp, u->two);
	piece_set_axes(w->m, t);
	return true;
}

bool
piece_colls_least(struct piece_store *s, const struct piece_key *key,
		  const struct space_plan *t, bool all,
		  struct piece_colls *to)
{
	struct piece_placed *w = piece_placed_of(s, key, t);

	memset(to, 0, sizeof *to);
	if (w->repeats) {
		piece_add_colls(s, w, t, all, to);
	}
	return w->repeats != NULL;
}
