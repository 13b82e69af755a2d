/*
 * Shardings: stages a placement into pieces, finds their kernels, and keeps the
 * programs of as many as memory allows.
 */
#include "passes/pieces/piece_parts.h"

#include <string.h>

/* ---- programs of pieces ---- */

void
piece_set_axes(struct ir_module *m, const struct space_plan *t)
{
	axis_id dp = piece_axis(m, "dp"), a;

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
	axis_id a = piece_axis(m, name);

	if (a) {
		m->axes.at[a].size = size;
	}
}

void
piece_set_mesh(struct piece_sharding *w, const struct piece_key *key,
	       const struct space_plan *t)
{
	piece_set_axes(w->m, t);
	set_axis(w->m, "pp", t->g->pp);
	set_axis(w->m, "cp", key->cp);
	set_axis(w->m, "ep", key->ep);
	/* with a tpr axis tensor ranks are two axes: lengths stay */
	if (!piece_axis(w->m, "tpr")) {
		set_axis(w->m, "tp", key->tp);
	}
	w->r.nmicrobatches = (uint32_t)t->nmicrobatches;
	w->r.nranks = (uint32_t)(key->tp * key->cp * key->ep * t->g->dp *
				 t->g->pp);
}

void
piece_drop_kernels(struct piece_kernels *k)
{
	arena_release(&k->mem);
	k->of = NULL;
}

#define MOST_KERNELS ((size_t)16 << 20)	/* bytes of kernels that are kept */

/* Drops the kernels of all lists if they are too many. */
static void
make_room(struct piece_store *s)
{
	size_t bytes = 0;
	uint32_t i;

	for (i = 0; i < s->lists.n; i++) {
		bytes += s->lists.at[i]->mem.total_bytes;
	}
	for (i = 0; bytes > MOST_KERNELS && i < s->lists.n; i++) {
		piece_drop_kernels(s->lists.at[i]);
		s->lists.at[i]->listed = false;
	}
	s->lists.n = bytes > MOST_KERNELS ? 0 : s->lists.n;
}

/*
 * The kernels at these lengths.  They are kept, since finding kernels takes far
 * longer than pricing them for another dp or pp.
 */
struct piece_kernels *
piece_kernels_at(struct piece_store *s, const struct piece_sharding *w,
		 struct piece_kernels **list, int64_t microbatch, int64_t dp)
{
	struct piece_kernels *k;

	for (k = *list; k && (k->microbatch != microbatch || k->dp != dp);
	     k = k->next) {
	}
	if (!k) {
		k = arena_alloc(&s->space->keep, sizeof *k);
		k->microbatch = microbatch;
		k->dp = dp;
		k->on = w->on;
		k->next = *list;
		*list = k;
	}
	if (!k->of) {
		make_room(s);
		/* of this store, which need not have made k */
		arena_init(&k->mem, &s->space->m->ctx->mem);
		k->of = arena_alloc(&k->mem, w->m->funcs.n * sizeof *k->of);
	}
	if (!k->listed) {
		k->listed = true;
		VEC_PUSH(&s->space->keep, &s->lists, k);
	}
	return k;
}

/* Whether a region has a collective along dp that changes a value's size. */
static bool
resizes(const struct ir_module *m, region_id id, axis_id dp)
{
	const struct ir_region *r = &m->regions.at[id];
	uint32_t i, k;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);
		const struct ir_attr *on = ir_is(n->op, IRF_COMM) &&
			n->op != IR_ALL_REDUCE ? ir_attr(m, n, IR_ATTR_ON)
					       : NULL;

		for (k = 0; on && k < on->ndims; k++) {
			if (on->dims[k] == dp) {
				return true;
			}
		}
		if (n->region && resizes(m, n->region, dp)) {
			return true;
		}
	}
	return false;
}

/*
 * Whether sizes in stages depend on dp.  With ZeRO 2 and 3 each rank holds a
 * part of gradients or weights; with any, rows of all data ranks may be
 * gathered, as where that is less than the gradients of experts.
 */
static bool
has_sizes_by_dp(const struct piece_sharding *w)
{
	axis_id dp = piece_axis(w->m, "dp");
	uint32_t i, k;

	if (w->key.zero > 1) {
		return true;
	}
	for (i = 0; dp && i < w->on->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			func_id f = w->r.of_stage[i][k];

			if (f && resizes(w->m, w->m->funcs.at[f].body, dp)) {
				return true;
			}
		}
	}
	return false;
}

struct piece_kernels *
piece_stage_kernels(struct piece_store *s, struct piece_sharding *w,
		    int64_t microbatch, int64_t dp)
{
	return piece_kernels_at(s, w, &w->of_stages, microbatch,
				w->sized_by_dp ? dp : 0);
}

static void
drop_all_kernels(struct piece_kernels *k)
{
	for (; k; k = k->next) {
		piece_drop_kernels(k);
	}
}

/* Frees the programs of a sharding. */
void
piece_drop_sharding(struct piece_store *s, struct piece_sharding *w)
{
	if (w->m) {
		drop_all_kernels(w->of_stages);
		drop_all_kernels(w->of_updates);
		piece_close(s, &w->ctx, &w->m);
	}
}

#define MOST_OPEN 16		/* placements whose programs are kept */

static void
drop_placed(struct piece_store *s, struct piece_placed *w)
{
	struct piece_sharding *x;

	if (w->m) {
		for (x = w->shardings; x; x = x->next) {
			piece_drop_sharding(s, x);
		}
		piece_close(s, &w->ctx, &w->m);
		s->nopen--;
	}
}

/* Drops the programs of the placement that was used least recently. */
static void
make_way(struct piece_store *s, const struct piece_placed *w)
{
	struct piece_placed *old = NULL;
	uint32_t i;

	for (i = 0; i < s->placed.n && s->nopen >= MOST_OPEN; i++) {
		struct piece_placed *x = s->placed.at[i];

		if (x != w && !x->away && x->m &&
		    (!old || x->used < old->used)) {
			old = x;
		}
	}
	if (old) {
		drop_placed(s, old);
	}
}

struct piece_placed *
piece_placed_of(struct piece_store *s, const struct piece_key *key,
		const struct space_plan *t)
{
	make_way(s, NULL);
	return piece_place(s, key, t);
}

void
piece_open_placed(struct piece_store *s, struct piece_placed *w)
{
	w->used = ++s->clock;
	if (!w->m && !w->bad) {
		make_way(s, w);
		piece_place_again(s, w);
	}
}

void
piece_drop_programs(struct piece_store *s)
{
	uint32_t i;

	for (i = 0; i < s->placed.n; i++) {
		drop_placed(s, s->placed.at[i]);
	}
	for (i = 0; i < s->lists.n; i++) {
		s->lists.at[i]->listed = false;
	}
	s->lists.n = 0;
}

struct pricing
piece_pricing(const struct piece_store *s, const struct piece_sharding *w,
	      uint32_t dev)
{
	return (struct pricing){ .r = &w->r, .m = w->m,
				 .t = s->space->devs.at[dev],
				 .traits = s->space->traits,
				 .memo = s->memo };
}

static void
choose_parts(const struct piece_store *s, const struct piece_sharding *w,
	     const func_id *ids, uint32_t n, struct kernels *const *of)
{
	struct pricing at = piece_pricing(s, w, 0);
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (ids[i] && of[ids[i]]) {
			price_choose_parts(&at, s->space->base.chunks,
					   of[ids[i]]->top);
		}
	}
}

struct kernels *const *
piece_find_kernels(struct piece_store *s, struct piece_sharding *w,
		   int64_t microbatch, int64_t dp)
{
	struct piece_kernels *list = piece_stage_kernels(s, w, microbatch, dp);
	const func_id *ids = w->r.of_stage[0];
	uint32_t n = w->on->nstages * SCHED_NKINDS;

	kernels_some(w->fuse, ids, n, &list->mem, list->of);
	choose_parts(s, w, ids, n, list->of);
	return list->of;
}

/*
 * Those of updates besides, in w->ctx->tmp: few shardings get as far as the
 * price of their updates.
 */
static struct kernels *const *
add_updates(const struct piece_store *s, struct piece_sharding *w,
	    struct kernels *const *of)
{
	struct arena *tmp = &w->ctx->tmp;
	struct kernels **all = arena_dup(tmp, of, w->m->funcs.n * sizeof *all);

	kernels_some(w->fuse, w->r.update, w->r.npipes, tmp, all);
	choose_parts(s, w, w->r.update, w->r.npipes, all);
	return all;
}

static void
measure_weights(struct piece_sharding *w, const struct memory *mem)
{
	uint32_t i;

	for (i = 0; i < w->on->nstages; i++) {
		uint32_t p = w->on->piece_of[i];

		w->weights[p] = (double)mem->stage[i].fixed[MEMORY_WEIGHTS] /
			(p >= PIECE_BODY ? (double)w->on->iterations[i] : 1);
	}
}

/* Lengths as they are when it is staged. */
static void
set_staged_mesh(struct piece_sharding *w)
{
	const struct space_plan *t = &w->at;

	piece_set_mesh(w, &w->key, t);
	set_axis(w->m, "pp", w->on->nstages);
	w->r.nranks = (uint32_t)(w->key.tp * w->key.cp * w->key.ep * t->g->dp *
				 w->on->nstages);
}

bool
piece_measure_sharding(struct piece_store *s, struct piece_sharding *w)
{
	struct piece_sharding **first = &w->on->first[w->key.single];
	uint32_t n = piece_number(s->space);
	bool has_updates = !*first || *first == w, ok;
	struct kernels *const *all;
	struct memory mem;
	const char *why;

	if (w->measured) {
		return true;
	}
	piece_reopen(s, w);
	set_staged_mesh(w);
	all = piece_find_kernels(s, w, w->at.microbatch, w->g.dp);
	all = has_updates ? add_updates(s, w, all) : all;
	ok = w->measured = memory_measure(&w->r, all, &w->ctx->tmp, &mem, &why);
	if (ok) {
		w->bytes = arena_alloc(&s->space->keep, n * sizeof *w->bytes);
		w->weights = arena_alloc(&s->space->keep,
					 n * sizeof *w->weights);
		piece_measure_bytes(w, &mem, w->bytes);
		measure_weights(w, &mem);
		if (has_updates) {
			piece_note_tensors(s, w, &mem);
		}
	}
	arena_release(&w->ctx->tmp);
	return ok;
}

/*
 * Opens the rank programs with a short schedule, which is enough: the bytes of
 * transfers and of saves stop growing once the pipeline is full.
 */
static bool
open_ranks(const struct piece_store *s, struct piece_sharding *w)
{
	int64_t n = w->at.nmicrobatches, full = 4 * w->on->nstages;
	struct space_plan few = w->at;
	struct sched *x;
	const char *why;

	few.nmicrobatches = n > full ? full + n % w->on->nstages : n;
	piece_set_axes(w->m, &few);
	x = ranks_schedule(w->m, NULL, &w->ctx->perm);
	if (!x || !ranks_open(&w->r, w->m, x, NULL, &why)) {
		return false;
	}
	w->r.memo = s->memo;
	piece_set_axes(w->m, &w->at);
	w->r.nmicrobatches = (uint32_t)n;
	return true;
}

/*
 * Makes the rank programs in w->m, and frees the intermediate program.  only:
 * of these stages; NULL: of all.
 */
static bool
make_programs(struct piece_store *s, struct piece_sharding *w, const bool *only)
{
	const struct space_plan *t = &w->at;
	struct ir_module *m;
	struct ir_ctx c;
	bool ok;

	ir_ctx_child(&c, w->on->ctx);
	m = ir_copy(w->on->m, &c);
	piece_write_plan(s, w->on, &w->key, t, m);
	piece_set_axes(m, t);
	if (w->key.ends) {
		set_axis(m, "pp", 2);
	} else if (w->on->first[w->key.single] &&
		   w->on->first[w->key.single] != w) {
		piece_drop_updates(m);
	}
	ok = piece_pass(s, &c, m, pass_recompute);
	arena_release(&c.tmp);
	ok = ok && piece_stage(s, &c, m, only);
	if (!ok) {
		ir_ctx_release(&c);
		return false;
	}
	w->m = piece_keep(s, m, w->on->ctx, &w->ctx);
	return true;
}

static bool
stage(struct piece_store *s, struct piece_sharding *w, const bool *only)
{
	bool ok;

	piece_open_placed(s, w->on);
	if (w->on->bad || !make_programs(s, w, only)) {
		return false;
	}
	s->staged_nodes += w->m->nodes.n;
	w->fuse = kernels_open(w->m, s->memo, &w->ctx->perm);
	ok = open_ranks(s, w);
	if (!only) {
		w->sized_by_dp = ok && has_sizes_by_dp(w);
		w->staged = true;
	}
	arena_release(&w->ctx->tmp);
	return ok;
}

/* Its bytes are known. */
void
piece_reopen(struct piece_store *s, struct piece_sharding *w)
{
	piece_open_placed(s, w->on);
	if (!w->m && !w->bad && !stage(s, w, NULL)) {
		die("a sharding that was made cannot be made again");
	}
}

bool
piece_open_some(struct piece_store *s, struct piece_sharding *w,
		const bool shown[PIECE_MAX])
{
	bool only[SPACE_MAX_KINDS + 2];
	uint32_t i;

	for (i = 0; i < w->on->nstages; i++) {
		only[i] = shown[w->on->piece_of[i]];
	}
	w->bad = !stage(s, w, only);
	return !w->bad;
}

static struct piece_sharding *
find_sharding(const struct piece_placed *on, const struct piece_key *key)
{
	struct piece_sharding *w = on->shardings;

	while (w && !piece_same_key(&w->key, key)) {
		w = w->next;
	}
	return w;
}

static struct piece_sharding *
new_sharding(struct piece_store *s, struct piece_placed *on,
	     const struct piece_key *key, const struct space_plan *t)
{
	struct piece_sharding *w = arena_alloc(&s->space->keep, sizeof *w);

	w->key = *key;
	w->on = on;
	w->batch = s->space->batch_dim;
	w->g = *t->g;
	w->at = *t;
	w->at.g = &w->g;
	w->next = on->shardings;
	on->shardings = w;
	return w;
}

static struct piece_sharding *
make_sharding(struct piece_store *s, struct piece_sharding *w)
{
	w->bad = !stage(s, w, NULL);
	if (!w->bad && !w->on->first[w->key.single]) {
		w->on->first[w->key.single] = w;
	}
	return w;
}

/* Once for the walk that asks, whichever thread makes them. */
static void
count_priced(struct piece_store *s, struct piece_placed *w)
{
	if (!w->priced && !s->is_ahead) {
		w->priced = true;
		s->priced_nodes += w->nodes;
	}
}

/*
 * The sharding of a key, added if there is none: then *is_new, and its programs
 * are to be made.  Keys that differ in offload
 * share one: offload changes the price of updates, but no program.  One that is
 * a step of one microbatch adds no gradients up.
 *
 * Shardings of one placement differ in what they recompute and in whether
 * backward is split, but not in their updates, so only the first of them has
 * these.  Without updates, placements may be alike, such as those of ZeRO 0
 * and 1.
 */
static struct piece_sharding *
sharding_of(struct piece_store *s, const struct piece_key *key,
	    const struct space_plan *t, bool *is_new)
{
	struct piece_placed *on = piece_placed_of(s, key, t);
	struct piece_key here = *key;
	struct piece_sharding *w;

	here.offload = 0;
	here.single = t->nmicrobatches == 1;
	w = find_sharding(on, &here);
	if (!w && on->first[here.single] && on->like != on && !here.ends) {
		on = on->like;
		here.zero = on->key.zero;
		w = find_sharding(on, &here);
	}
	count_priced(s, on);
	*is_new = !w;
	return w ? w : new_sharding(s, on, &here, t);
}

struct piece_sharding *
piece_sharding_of(struct piece_store *s, const struct piece_key *key,
		  const struct space_plan *t)
{
	bool is_new;
	struct piece_sharding *w = sharding_of(s, key, t, &is_new);

	return is_new ? make_sharding(s, w) : w;
}

struct piece_sharding *
piece_way_of(struct piece_store *s, const struct piece_key *key,
	     const struct space_plan *t)
{
	bool is_new;
	struct piece_sharding *w = sharding_of(s, key, t, &is_new);

	return is_new && !w->on->first[w->key.single] ? make_sharding(s, w) : w;
}

struct piece_sharding *
piece_with_updates(struct piece_store *s, const struct piece_key *key,
		   const struct space_plan *t)
{
	struct piece_sharding *w;

	piece_sharding_of(s, key, t);
	w = piece_place(s, key, t)->first[t->nmicrobatches == 1];
	piece_measure_sharding(s, w);	/* if the way as pinned was refused */
	return w;
}

void
piece_release(struct piece_store *s)
{
	piece_drop_programs(s);
	if (s->ready) {
		ir_ctx_release(&s->ready_ctx);
	}
}
