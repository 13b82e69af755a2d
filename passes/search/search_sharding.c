/*
 * One sharding: stages its placement into pieces, and prices and measures each
 * piece, for any microbatch, dp and pp.  These change only the lengths of mesh
 * axes, so nothing is placed again for them.
 */
#include "ir/memo.h"
#include "passes/search/search_parts.h"

#include <math.h>
#include <string.h>

/* ---- programs of pieces ---- */

/*
 * Sets the lengths of the axes dp and time.  A placement without a dp axis runs
 * the microbatches of all data ranks, so that one has the right size.
 */
static void
set_axes(struct ir_module *m, const struct search_try *t)
{
	axis_id dp = search_axis(m, "dp"), a;

	for (a = 1; a < m->axes.n; a++) {
		struct ir_axis *x = &m->axes.at[a];

		if (x->time) {
			x->size = t->nmicrobatches * (dp ? 1 : t->g->dp);
		} else if (a == dp) {
			x->size = t->g->dp;
		}
	}
}

static void
set_axis(struct ir_module *m, const char *name, int64_t size)
{
	axis_id a = search_axis(m, name);

	if (a) {
		m->axes.at[a].size = size;
	}
}

/*
 * Sets the lengths of all axes to those of a key, which need not be w's own.
 */
static void
set_mesh(struct search_sharding *w, const struct search_key *key,
	 const struct search_try *t)
{
	set_axes(w->m, t);
	set_axis(w->m, "pp", t->g->pp);
	set_axis(w->m, "cp", key->cp);
	set_axis(w->m, "ep", key->ep);
	/* with a tpr axis tensor ranks are two axes: lengths stay */
	if (!search_axis(w->m, "tpr")) {
		set_axis(w->m, "tp", key->tp);
	}
	w->r.nmicrobatches = (uint32_t)t->nmicrobatches;
	w->r.nranks = (uint32_t)(key->tp * key->cp * key->ep * t->g->dp *
				 t->g->pp);
}

static void
drop_list(struct search_kernels *k)
{
	arena_release(&k->mem);
	k->of = NULL;
}

#define MOST_KERNELS ((size_t)16 << 20)	/* bytes of kernels that are kept */

/* Drops the kernels of all lists if they are too many. */
static void
make_room(struct search *s)
{
	size_t bytes = 0;
	uint32_t i;

	for (i = 0; i < s->lists.n; i++) {
		bytes += s->lists.at[i]->mem.total_bytes;
	}
	for (i = 0; bytes > MOST_KERNELS && i < s->lists.n; i++) {
		drop_list(s->lists.at[i]);
		s->lists.at[i]->listed = false;
	}
	s->lists.n = bytes > MOST_KERNELS ? 0 : s->lists.n;
}

/*
 * The kernels at these lengths.  They are kept, since finding kernels takes far
 * longer than pricing them for another dp or pp.
 */
static struct search_kernels *
kernels_at(struct search *s, const struct search_sharding *w,
	   struct search_kernels **list, int64_t microbatch, int64_t dp)
{
	struct search_kernels *k;

	for (k = *list; k && (k->microbatch != microbatch || k->dp != dp);
	     k = k->next) {
	}
	if (!k) {
		k = arena_alloc(&s->keep, sizeof *k);
		k->microbatch = microbatch;
		k->dp = dp;
		arena_init(&k->mem, &s->m->ctx->mem);
		k->next = *list;
		*list = k;
	}
	if (!k->of) {
		make_room(s);
		k->of = arena_alloc(&k->mem, w->m->funcs.n * sizeof *k->of);
	}
	if (!k->listed) {
		k->listed = true;
		VEC_PUSH(&s->keep, &s->lists, k);
	}
	return k;
}

/*
 * The kernels of stages.  With ZeRO 2 and 3 each rank holds a part of gradients
 * or weights, whose size depends on dp.
 */
static struct search_kernels *
stage_kernels(struct search *s, struct search_sharding *w, int64_t microbatch,
	      int64_t dp)
{
	return kernels_at(s, w, &w->of_stages, microbatch,
			  w->key.zero > 1 ? dp : 0);
}

static void
drop_kernels(struct search_kernels *k)
{
	for (; k; k = k->next) {
		drop_list(k);
	}
}

/* Frees the programs of a sharding. */
static void
drop_sharding(struct search_sharding *w)
{
	if (w->m) {
		drop_kernels(w->of_stages);
		drop_kernels(w->of_updates);
		ir_ctx_release(&w->ctx);
		w->m = NULL;
	}
}

#define MOST_OPEN 16		/* placements whose programs are kept */

static void
drop_placed(struct search *s, struct search_placed *w)
{
	struct search_sharding *x;

	if (w->m) {
		for (x = w->shardings; x; x = x->next) {
			drop_sharding(x);
		}
		ir_ctx_release(&w->ctx);
		w->m = NULL;
		s->nopen--;
	}
}

/* Drops the programs of the placement that was used least recently. */
static void
make_way(struct search *s, const struct search_placed *w)
{
	struct search_placed *old = NULL;
	uint32_t i;

	for (i = 0; i < s->placed.n && s->nopen >= MOST_OPEN; i++) {
		struct search_placed *x = s->placed.at[i];

		if (x != w && x->m && (!old || x->used < old->used)) {
			old = x;
		}
	}
	if (old) {
		drop_placed(s, old);
	}
}

static void
open_placed(struct search *s, struct search_placed *w)
{
	w->used = ++s->clock;
	if (!w->m && !w->bad) {
		make_way(s, w);
		search_place_again(s, w);
	}
}

void
search_drop_programs(struct search *s)
{
	uint32_t i;

	for (i = 0; i < s->placed.n; i++) {
		drop_placed(s, s->placed.at[i]);
	}
}

static struct pricing
pricing(const struct search *s, const struct search_sharding *w, uint32_t dev)
{
	return (struct pricing){ .r = &w->r, .m = w->m,
				 .t = s->devs.at[dev],
				 .traits = &s->o->traits,
				 .memo = s->memo };
}

/*
 * The kernels of all functions at that microbatch and dp, the present lengths.
 * Those of stages are kept, since plans of this microbatch need them again; few
 * shardings get as far as the price of their updates.
 */
static struct kernels **
find_kernels(struct search *s, struct search_sharding *w, int64_t microbatch,
	     int64_t dp)
{
	struct search_kernels *list = stage_kernels(s, w, microbatch, dp);
	uint32_t nfuncs = w->m->funcs.n, i;
	struct arena *tmp = &w->ctx.tmp;
	struct kernels **all = arena_alloc(tmp, nfuncs * sizeof *all);
	func_id *ids = arena_alloc(tmp, nfuncs * sizeof *ids);
	struct pricing at = pricing(s, w, 0);

	kernels_some(w->fuse, w->r.of_stage[0], w->on->nstages * SCHED_NKINDS,
		     &list->mem, list->of);
	memcpy(all, list->of, nfuncs * sizeof *all);
	for (i = 1; i < nfuncs; i++) {
		ids[i] = i;
	}
	kernels_some(w->fuse, ids, nfuncs, tmp, all);
	for (i = 1; i < nfuncs; i++) {
		price_choose_parts(&at, s->base.chunks, all[i]->top);
	}
	return all;
}

/* Measures the bytes of pieces.  False: their memory cannot be planned. */
static bool
measure(struct search *s, struct search_sharding *w)
{
	struct kernels **all = find_kernels(s, w, w->microbatch, w->dp);
	struct memory mem;
	const char *why;

	if (!memory_plan(&w->r, all, 0, &w->ctx.tmp, &mem, &why)) {
		return false;
	}
	memset(w->bytes, 0, sizeof w->bytes);
	search_measure_bytes(w, &mem, w->bytes);
	search_measure_fixed(w, &mem);
	return true;
}

/*
 * Opens the rank programs with a short schedule, which is enough: the bytes of
 * transfers and of saves stop growing once the pipeline is full.
 */
static bool
open_ranks(const struct search *s, struct search_sharding *w)
{
	int64_t n = w->at.nmicrobatches, full = 4 * w->on->nstages;
	struct search_try few = w->at;
	struct sched *x;
	const char *why;

	few.nmicrobatches = n > full ? full + n % w->on->nstages : n;
	set_axes(w->m, &few);
	x = ranks_schedule(w->m, NULL, &w->ctx.perm);
	if (!x || !ranks_open(&w->r, w->m, x, NULL, &why)) {
		return false;
	}
	w->r.memo = s->memo;
	set_axes(w->m, &w->at);
	w->r.nmicrobatches = (uint32_t)n;
	return true;
}

/* Makes the rank programs in w->m, and frees the intermediate program. */
static bool
make_programs(struct search *s, struct search_sharding *w)
{
	const struct search_try *t = &w->at;
	struct ir_module *m;
	struct ir_ctx c;
	bool ok;

	ir_ctx_child(&c, &w->on->ctx);
	m = ir_copy(w->on->m, &c);
	search_write_plan(s, w->on, &w->key, t, m);
	set_axes(m, t);
	if (w->on->first[w->key.single] && w->on->first[w->key.single] != w) {
		search_drop_updates(m);
	}
	ok = search_pass(s, &c, m, pass_recompute);
	arena_release(&c.tmp);
	ok = ok && search_pass(s, &c, m, pass_stage);
	if (!ok) {
		ir_ctx_release(&c);
		return false;
	}
	ir_ctx_child(&w->ctx, &w->on->ctx);
	w->m = ir_move(m, &w->ctx);
	return true;
}

static bool
stage(struct search *s, struct search_sharding *w)
{
	bool ok;

	w->dp = w->at.g->dp;
	w->microbatch = w->at.microbatch;
	open_placed(s, w->on);
	if (w->on->bad || !make_programs(s, w)) {
		return false;
	}
	s->out->staged_nodes += w->m->nodes.n;
	w->fuse = kernels_open(w->m, s->memo, &w->ctx.perm);
	ok = open_ranks(s, w) && measure(s, w);
	arena_release(&w->ctx.tmp);
	return ok;
}

void
search_reopen(struct search *s, struct search_sharding *w)
{
	open_placed(s, w->on);
	if (!w->m && !w->bad && !stage(s, w)) {
		die("a sharding that was made cannot be made again");
	}
}

static struct search_sharding *
find_sharding(const struct search_placed *on, const struct search_key *key)
{
	struct search_sharding *w = on->shardings;

	while (w && !search_same_key(&w->key, key)) {
		w = w->next;
	}
	return w;
}

static struct search_sharding *
new_sharding(struct search *s, struct search_placed *on,
	     const struct search_key *key, const struct search_try *t)
{
	struct search_sharding *w = arena_alloc(&s->keep, sizeof *w);

	w->key = *key;
	w->on = on;
	w->g = *t->g;
	w->at = *t;
	w->at.g = &w->g;
	w->next = on->shardings;
	on->shardings = w;
	w->bad = !stage(s, w);
	if (!w->bad && !on->first[key->single]) {
		on->first[key->single] = w;
	}
	return w;
}

/*
 * The sharding of a key, made if there is none.  Keys that differ in offload
 * share one: offload changes the price of updates, but no program.  One that is
 * a step of one microbatch adds no gradients up.
 *
 * Shardings of one placement differ in what they recompute and in whether
 * backward is split, but not in their updates, so only the first of them has
 * these.  Without updates, placements may be alike, such as those of ZeRO 0
 * and 1.
 */
static struct search_sharding *
sharding_of(struct search *s, const struct search_key *key,
	    const struct search_try *t)
{
	struct search_placed *on;
	struct search_key here = *key;
	struct search_sharding *w;

	make_way(s, NULL);
	on = search_place(s, key, t);
	here.offload = 0;
	here.single = t->nmicrobatches == 1;
	w = find_sharding(on, &here);
	if (!w && on->first[here.single] && on->like != on) {
		on = on->like;
		here.zero = on->key.zero;
		w = find_sharding(on, &here);
	}
	return w ? w : new_sharding(s, on, &here, t);
}

/* The sharding that has the updates of a key's placement. */
static struct search_sharding *
with_updates(struct search *s, const struct search_key *key,
	     const struct search_try *t)
{
	sharding_of(s, key, t);
	return search_place(s, key, t)->first[t->nmicrobatches == 1];
}

bool
search_open_unsplit(struct search *s, const struct search_key *key,
		    const struct search_try *t, struct search_unsplit *u)
{
	struct search_sharding *w = sharding_of(s, key, t);
	struct search_try two = *t;
	uint32_t i;

	if (w->bad) {
		return false;
	}
	search_reopen(s, w);
	*u = (struct search_unsplit){
		.at = pricing(s, w, 0), .nstages = w->on->nstages,
		.piece = w->on->piece_of, .iterations = w->on->iterations,
		.of_stage = (const func_id (*)[SCHED_NKINDS])w->r.of_stage
	};
	u->one = arena_alloc(&s->tmp, w->m->funcs.n * sizeof *u->one);
	u->two = arena_alloc(&s->tmp, w->m->funcs.n * sizeof *u->two);
	kernels_some(w->fuse, w->r.of_stage[0], u->nstages * SCHED_NKINDS,
		     &s->tmp, u->one);
	u->weights = 0;
	for (i = 0; i < w->on->nstages; i++) {
		u->weights += w->fixed[w->on->piece_of[i]][MEMORY_WEIGHTS] *
			(w->on->piece_of[i] >= PIECE_BODY
				 ? (double)w->on->iterations[i] : 1);
	}
	two.microbatch = 2;
	two.nmicrobatches = s->batch / 2 + (s->batch == 1);
	set_axes(w->m, &two);
	kernels_some(w->fuse, w->r.of_stage[0], u->nstages * SCHED_NKINDS,
		     &s->tmp, u->two);
	set_axes(w->m, t);
	return true;
}

/* ---- prices ---- */

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
go(const struct search_sharding *w, uint32_t stage, struct price_func *first,
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
price_function(const struct search *s, struct pricing *p,
	       const struct search_kernels *k, func_id f, struct where *to)
{
	if (f) {
		price_choose_parts(p, s->base.chunks, k->of[f]->top);
		price(p, k->of[f]->top, to->iterations, to->top, to->body);
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
depends_on_dp(const struct search_sharding *w,
	      const struct search_kernels *list)
{
	struct ir_module *m = w->m;
	axis_id dp = search_axis(m, "dp");
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

static void
price_pieces(struct search *s, struct search_sharding *w,
	     struct search_kernels *list, struct search_cost *c,
	     uint32_t dev, struct arena *a)
{
	struct pricing p = pricing(s, w, dev);
	struct where to;
	uint32_t i, k;

	kernels_some(w->fuse, w->r.of_stage[0], w->on->nstages * SCHED_NKINDS,
		     &list->mem, list->of);
	c->on[dev] = arena_alloc(a, sizeof *c->on[dev]);
	for (i = 0; i < w->on->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			go(w, i, &c->on[dev]->fn[0][k], SCHED_NKINDS, &to);
			price_function(s, &p, list, w->r.of_stage[i][k], &to);
		}
	}
}

/*
 * Prices stages on each single device group first, for lower bounds; then on
 * `dev`, which may be a set of several groups that a rank spans.
 */
static void
price_stages(struct search *s, struct search_sharding *w, struct search_cost *c,
	     uint32_t dev)
{
	struct search_kernels *list = stage_kernels(s, w, c->microbatch,
						    c->dp);
	uint32_t i;

	c->on = list->any_dp ? list->any_dp->on : c->on;
	if (!c->on[0]) {
		for (i = 0; i < s->ngroups; i++) {
			price_pieces(s, w, list, c, i, &s->keep);
		}
		list->any_dp = depends_on_dp(w, list) ? NULL : c;
	}
	if (!c->on[dev]) {
		price_pieces(s, w, list, c, dev, &s->keep);
	}
	/* its kernels are not needed again */
	if (list->any_dp && s->devs.n == 1) {
		drop_list(list);
	}
	arena_release(&w->ctx.tmp);
}

/*
 * Prices updates.  Sums over all ranks of the pipeline cross all their device
 * groups.
 */
static void
price_updates(struct search *s, struct search_sharding *w,
	      const struct search_try *t, struct search_update *u,
	      uint32_t dev)
{
	struct search_kernels *list = kernels_at(s, w, &w->of_updates, 0,
						 u->dp);
	struct pricing p = pricing(s, w, dev);
	struct target_devs all;
	struct where to;
	uint32_t i;

	kernels_some(w->fuse, w->r.update, w->on->nstages, &list->mem,
		     list->of);
	search_devs(s, t->g, &w->ctx.tmp, &all);
	p.across = all.all;
	u->on[dev] = arena_alloc(&s->keep, PIECE_MAX * sizeof *u->on[dev]);
	for (i = 0; i < w->on->nstages; i++) {
		go(w, i, u->on[dev], 1, &to);
		price_function(s, &p, list, w->r.update[i], &to);
	}
	arena_release(&w->ctx.tmp);
}

/* ---- costs of one sharding ---- */

struct search_cost *
search_cost_of(struct search *s, const struct search_key *key,
	       const struct search_try *t)
{
	struct search_sharding *w = sharding_of(s, key, t);
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
	c->on = arena_alloc(&s->keep, s->devs.n * sizeof *c->on);
	c->next = w->costs;
	w->costs = c;
	return c;
}

/*
 * What one microbatch keeps does not depend on dp, unless ZeRO gathers or cuts
 * tensors within it.
 */
void
search_measure(struct search *s, const struct search_key *key,
	       const struct search_try *t, struct search_cost *c)
{
	struct search_sharding *w = sharding_of(s, key, t);
	struct memory mem;
	const char *why;

	if (c->measured) {
		return;
	}
	c->measured = true;
	if (c->microbatch == w->microbatch &&
	    (c->dp == w->dp || w->key.zero < 2)) {
		memcpy(c->bytes, w->bytes, sizeof c->bytes);
		return;
	}
	search_reopen(s, w);
	set_axes(w->m, t);
	if (memory_plan(&w->r, find_kernels(s, w, t->microbatch, t->g->dp), 0,
			&w->ctx.tmp, &mem, &why)) {
		search_measure_bytes(w, &mem, c->bytes);
	}
	arena_release(&w->ctx.tmp);
}

double
search_saved_part(struct search *s, const struct search_key *key,
		  const struct search_try *t, struct search_cost *c)
{
	struct search_sharding *w;
	double more;
	uint32_t dev;

	if (!c->saved_part) {
		w = sharding_of(s, key, t);
		more = (double)c->microbatch / (double)w->microbatch;
		more = w->key.zero > 1 ? fmax(more, 1) : more;
		for (dev = 0; dev < s->ngroups; dev++) {
			c->saved_part = fmax(c->saved_part, more *
				search_saved_on(s, c->on[dev], w->bytes, dev));
		}
	}
	return fmin(c->saved_part, 1);
}

void
search_price(struct search *s, const struct search_key *key,
	     const struct search_try *t, struct search_cost *c, uint32_t dev)
{
	struct search_sharding *w;

	if (!c->on[dev]) {
		w = sharding_of(s, key, t);
		search_reopen(s, w);
		set_mesh(w, &w->key, t);
		price_stages(s, w, c, dev);
	}
}

struct search_update *
search_update_of(struct search *s, const struct search_key *key,
		 const struct search_try *t)
{
	struct search_sharding *w = with_updates(s, key, t);
	struct search_update *u;

	for (u = w->updates; u; u = u->next) {
		if (u->dp == t->g->dp && u->pp == t->g->pp &&
		    u->offload == key->offload) {
			return u;
		}
	}
	u = arena_alloc(&s->keep, sizeof *u);
	u->dp = t->g->dp;
	u->pp = t->g->pp;
	u->offload = key->offload;
	u->on = arena_alloc(&s->keep, s->devs.n * sizeof *u->on);
	u->next = w->updates;
	w->updates = u;
	search_scale_fixed(w, u);
	return u;
}

void
search_price_update(struct search *s, const struct search_key *key,
		    const struct search_try *t, struct search_update *u,
		    uint32_t dev)
{
	struct search_sharding *w;
	struct search_key own;

	if (!u->on[dev]) {
		w = with_updates(s, key, t);
		own = w->key;
		own.offload = key->offload;
		search_reopen(s, w);
		set_mesh(w, &own, t);
		if (plan_offload(w->m) != own.offload) {
			search_write_plan(s, w->on, &own, t, w->m);
		}
		price_updates(s, w, t, u, dev);
	}
}

double
search_hop_us(struct search *s, const struct search_key *key,
	   const struct search_try *t, struct search_cost *c)
{
	struct target_devs all;
	struct search_sharding *w;

	if (t->g->pp > 1 && c->hop_pp != t->g->pp) {
		w = sharding_of(s, key, t);
		search_reopen(s, w);
		set_mesh(w, &w->key, t);
		search_devs(s, t->g, &s->tmp, &all);
		c->hop_pp = t->g->pp;
		c->hop_us = price_hop(&(struct pricing){
			.r = &w->r, .m = w->m, .t = all.all,
			.traits = &s->o->traits
		});
	}
	return t->g->pp > 1 ? c->hop_us : 0;
}

/* ---- ways to recompute ---- */

/*
 * One sequence, on the fewest data ranks that the placement may have: lengths
 * that do not depend on which of its plans asks first.
 */
static struct search_try
one_sequence(const struct search *s, const struct search_try *t)
{
	struct search_try one = *t;
	uint32_t i;

	for (i = 0; i < s->groups.n; i++) {
		const struct search_group *g = &s->groups.at[i], *h = one.g;

		if (g->tp == h->tp && g->cp == h->cp && g->ep == h->ep &&
		    (g->dp > 1) == (h->dp > 1) &&
		    (g->dp < h->dp || (g->dp == h->dp && g->pp < h->pp))) {
			one.g = g;
		}
	}
	one.microbatch = 1;
	one.nmicrobatches = search_microbatches(s, one.g, 1);
	return one;
}

/*
 * The pieces that show what a layer of kind k costs; those of the ends do where
 * they have all layers of that kind.
 */
static uint32_t
piece_of_kind(const struct search *s, const struct search_placed *w,
	      uint32_t k)
{
	uint32_t i;

	for (i = 0; i < w->nstages; i++) {
		if (w->piece_of[i] == PIECE_BODY + k) {
			return PIECE_BODY + k;
		}
	}
	return k + 1 < s->nkinds || w->nstages < 2 ? PIECE_FIRST : PIECE_LAST;
}

/*
 * Sets what a layer of each kind takes and keeps.  A pipeline that is one piece
 * has one stage, so its layers need not be told apart.
 */
static void
set_choice(const struct search *s, const struct search_placed *w,
	   const struct search_cost *c, struct search_choice *to)
{
	uint32_t k, i;

	for (k = 0; k < s->nkinds; k++) {
		uint32_t p = piece_of_kind(s, w, k);
		const struct search_bytes *b = &c->bytes[p];
		double n = w->key.solo ? (double)s->nlayers : 1;

		for (i = 0; i < SCHED_NKINDS; i++) {
			to->extra_us[k] += price_shown_us(&s->o->traits,
					&c->on[0]->fn[p][i]) / n;
		}
		for (i = 0; i < SEARCH_NSPANS; i++) {
			to->less[i][k] -= b->slot[i] / n;
		}
		to->temp = fmax(to->temp, b->temp);
	}
}

/*
 * Frees the programs of all ways but the quickest: plans take few of the
 * others, and those are made again.
 */
static void
drop_slower(const struct search *s, struct search_placed *w,
	    const struct search_key *key, const struct search_choices *x)
{
	const struct search_choice *quickest = &x->at.at[0];
	struct search_sharding *y;
	uint32_t i;

	for (i = 1; i < x->at.n; i++) {
		if (search_choice_us(s, &x->at.at[i]) <
		    search_choice_us(s, quickest)) {
			quickest = &x->at.at[i];
		}
	}
	for (y = w->shardings; y; y = y->next) {
		if (y->key.choice != quickest->nth && y->key.choice &&
		    y->key.split == key->split) {
			drop_sharding(y);
		}
	}
}

/* Those of a placement, for all lengths. */
static const struct search_choices *
find_choices(struct search *s, struct search_placed *w,
	     const struct search_key *key, const struct search_try *t)
{
	struct search_try one = one_sequence(s, t);
	struct search_choices *x = &w->choices[key->split];
	struct search_key k = *key;
	uint32_t i;

	if (x->at.n) {
		return x;
	}
	if (w->words.n == 1 && !s->pinned[PIN_RECOMPUTE]) {
		open_placed(s, w);
		set_axes(w->m, &one);
		search_find_words(s, w);
		set_axes(w->m, &w->at);
	}
	for (i = 0; i < w->words.n; i++) {
		struct search_choice to = { .words = w->words.at[i], .nth = i };
		struct search_cost *c;

		k.choice = i;
		c = search_cost_of(s, &k, &one);
		if (c && w->words.n > 1) {
			search_measure(s, &k, &one, c);
			search_price(s, &k, &one, c, 0);
			set_choice(s, w, c, &to);
		}
		if (c) {
			VEC_PUSH(&s->keep, &x->at, to);
			drop_slower(s, w, key, x);
		}
	}
	if (x->at.n) {
		search_rank_choices(s, x);
	}
	return x;
}

const struct search_choices *
search_choices_of(struct search *s, const struct search_key *key,
		  const struct search_try *t)
{
	struct search_placed *w = sharding_of(s, key, t)->on->like;
	const struct search_choices *x = find_choices(s, w, key, t);
	struct search_key k = *key;

	if (!x->at.n) {
		return NULL;
	}
	k.choice = x->at.at[0].nth;
	return search_cost_of(s, &k, t) ? x : NULL;
}

/* ---- all of them ---- */

/* What keys of addresses have, and what later passes do not need. */
static void
drop_memo(struct memo *memo)
{
	static const enum memo_kind kinds[] = {
		MEMO_ORDERS, MEMO_PROGRAMS, MEMO_CHOICES, MEMO_LEAST,
		MEMO_PARTS, MEMO_PRICES, MEMO_DOTS, MEMO_BRIEFS, MEMO_SPANS,
		MEMO_PACKS
	};
	size_t i;

	for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		memo_drop(memo, kinds[i]);
	}
}

void
search_release(struct search *s)
{
	search_drop_programs(s);
	if (s->ready) {
		ir_ctx_release(&s->ready_ctx);
	}
	pass_ahead_release(&s->made);
	drop_memo(s->memo);
	arena_release(&s->keep);
	arena_release(&s->tmp);
}
