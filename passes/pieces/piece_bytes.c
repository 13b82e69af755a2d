/*
 * Bytes of the pieces of a sharding on a rank for one microbatch, from what
 * memory_measure finds of its stages for that microbatch.
 */
#include "passes/kernels/kernels.h"
#include "passes/pieces/piece_parts.h"
#include "passes/recompute/pareto_front.h"

#include <math.h>


static double
bytes_of(const struct memory_buffer *b)
{
	return (double)b->bytes * (double)b->items;
}

/* The most temporary bytes that are alive at once in a function of a stage. */
static double
temps_of(const struct memory_stage *x)
{
	double most = 0;
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		most = fmax(most, (double)x->func[k].bound);
	}
	return most;
}

bool
piece_is_cut_by_data(const struct piece_sharding *w, const struct ir_type *t)
{
	axis_id dp = piece_axis(w->m, "dp"), axes[IR_MAX_AXES];
	uint32_t i, k, n;

	for (i = 0; dp && i < t->ndims; i++) {
		n = t->dims[i] == w->batch ? 0 : ir_cuts(t, i, axes);
		for (k = 0; k < n; k++) {
			if (axes[k] == dp) {
				return true;
			}
		}
	}
	return dp && t->routed >> (dp - 1) & 1;
}

/* What a buffer takes at least with any numbers of sequences and data ranks. */
struct grown {
	double grows, stays;	/* of a sequence, and of all */
};

/*
 * A value with a dim of sequences has as much for each, without padding; of
 * rows that go to experts up to one element less.
 */
static struct grown
grown_bytes(const struct piece_sharding *w, const struct memory_buffer *b)
{
	const struct ir_type *t = b->value ? ir_type(w->m, b->value) : NULL;
	struct grown x = { 0, 0 };

	if (!t || piece_is_cut_by_data(w, t)) {
		return x;
	}
	if (w->batch && ir_type_has(t, w->batch)) {
		x.grows = fmax(kernel_reserved_bytes(w->m, b->value) -
			       (t->routed ? ir_elem_bytes(t->dtype) : 0), 0) *
			  (double)b->items;
	} else {
		x.stays = bytes_of(b);
	}
	return x;
}

/*
 * Whether layers save it with any way to recompute.  Rows that go to experts
 * are not as many for each sequence, so they count as if they were dropped.
 */
static bool
is_always_kept(const struct ir_module *m, const struct memory_buffer *b)
{
	return b->span < MEMORY_TOP && b->value &&
	       !recompute_can(m, b->value) && !ir_type(m, b->value)->routed;
}

/* Adds a buffer of saves; `layers`: those that have it, or 1. */
static void
add_save(const struct piece_sharding *w, const struct memory_buffer *b,
	 double layers, struct piece_bytes *to)
{
	struct grown grown = grown_bytes(w, b);

	if (b->span < MEMORY_TOP) {
		to->slot[b->span] += bytes_of(b) / layers;
	} else {
		to->top[b->span - MEMORY_TOP] += bytes_of(b);
		layers = 1;
	}
	to->grows[b->span] += grown.grows / layers;
	to->stays[b->span] += grown.stays / layers;
	if (is_always_kept(w->m, b)) {
		to->kept[b->span] += grown.grows / layers;
	}
}

/* Adds what is saved from forward to backward; of layers, the share of one. */
static void
add_saves(const struct piece_sharding *w, const struct memory *mem,
	  struct piece_bytes *to)
{
	uint32_t i;

	for (i = 0; i < mem->buffers.n; i++) {
		const struct memory_buffer *b = &mem->buffers.at[i];
		uint32_t p;

		if (b->stage != UINT32_MAX && b->kind == MEMORY_SAVES) {
			p = w->on->piece_of[b->stage];
			add_save(w, b, p >= PIECE_BODY ?
				 (double)w->on->iterations[b->stage] : 1,
				 &to[p]);
		}
	}
}

/* Adds one copy of what stages send. */
static void
add_sends(const struct piece_sharding *w, const struct memory *mem,
	  struct piece_bytes *to)
{
	uint32_t i;

	for (i = 0; i < mem->buffers.n; i++) {
		const struct memory_buffer *b = &mem->buffers.at[i];
		struct piece_bytes *x;
		uint32_t back;

		if (b->kind != MEMORY_PIPELINE) {
			continue;
		}
		x = &to[w->on->piece_of[b->stage]];
		back = b->func != w->r.of_stage[b->stage][SCHED_F];
		x->sends[back] += (double)b->bytes;
		x->sends_grow[back] += grown_bytes(w, b).grows;
	}
}

/* ---- temporary bytes, at least ---- */

bool *
piece_carried(const struct memory *mem, struct arena *a)
{
	bool *is = arena_alloc(a, mem->buffers.n + 1);
	uint32_t i;

	for (i = 0; i < mem->carries.n; i++) {
		const struct memory_carry *c = &mem->carries.at[i];

		/* 0 is of none: the numbers are from 1 */
		is[c->at[0]] = is[c->at[1]] = true;
		is[mem->value[c->init].buffer] = true;
		is[mem->value[c->result].buffer] = true;
	}
	return is;
}

/* Temporary values of a function: of what repeats carry all, or only the first.
 */
struct inside {
	bool all;
	const struct piece_sharding *w;
	const struct memory *mem;
	const bool *carried;
	/* by buffer, from 1: see find_firsts */
	const uint32_t *until;
	uint32_t from, to;	/* the function's buffers */
	struct memory_block *block;
	struct piece_bytes *to_piece;	/* by piece */
	double *most;		/* by stage: of all values so far */
};

/* Sets the step until which a value is alive, if it is one of these. */
static bool
is_inside(const struct inside *x, uint32_t i, uint32_t *to)
{
	const struct memory_buffer *b = &x->mem->buffers.at[i];

	bool carried = !x->all && x->carried[i + 1];

	*to = carried ? x->until[i + 1] : b->to;
	return b->kind == MEMORY_TEMPS && b->stage != UINT32_MAX &&
	       (!carried || *to > b->from);
}

/*
 * What the layers of a backward begin with, as the gradient that their stage
 * has received, is alive until the first of them has read it last, however
 * many there are.  By buffer, from 1: that step; 0: it begins none, or lies
 * elsewhere than what an iteration reads.
 */
static uint32_t *
find_firsts(const struct piece_sharding *w, const struct memory *mem,
	    struct arena *a)
{
	uint32_t *until = arena_alloc(a, (mem->buffers.n + 1) * sizeof *until);
	uint32_t i;

	for (i = 0; i < mem->carries.n; i++) {
		const struct memory_carry *c = &mem->carries.at[i];
		const struct memory_buffer *b;

		if (!c->at[0] || c->depth > 0 ||
		    mem->value[c->init].buffer != c->at[0]) {
			continue;
		}
		b = &mem->buffers.at[c->at[0] - 1];
		if (b->stage != UINT32_MAX &&
		    b->func != w->r.of_stage[b->stage][SCHED_F]) {
			until[c->at[0]] = c->last;
		}
	}
	return until;
}

/* Whether kernels run in parts, which depends on the number of sequences. */
static bool
has_parts(const struct kernel_list *l)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->parts || (k->body && has_parts(k->body))) {
			return true;
		}
	}
	return false;
}

/* What is alive at a step, of sequences and of all. */
static struct grown
grown_at(const struct inside *x, uint32_t step)
{
	const struct memory_buffer *first = &x->mem->buffers.at[x->from];
	struct grown all = { 0, 0 };
	uint32_t i, until;

	if (has_parts(x->mem->kernels[first->func]->top)) {
		return all;	/* values live longer there */
	}
	for (i = x->from; i < x->to; i++) {
		const struct memory_buffer *b = &x->mem->buffers.at[i];

		if (is_inside(x, i, &until) && b->from <= step &&
		    until >= step) {
			struct grown grown = grown_bytes(x->w, b);

			all.grows += grown.grows;
			all.stays += grown.stays;
		}
	}
	return all;
}

/* The most that is alive at once in the function, and how it grows. */
static double
most_inside(struct inside *x, struct arena *a, struct grown *grown)
{
	uint32_t n = 0, i, step, until;
	double bytes;

	for (i = x->from; i < x->to; i++) {
		const struct memory_buffer *b = &x->mem->buffers.at[i];

		if (is_inside(x, i, &until)) {
			x->block[n++] = (struct memory_block){
				b->bytes * b->items, b->from, until, 0
			};
		}
	}
	bytes = n ? (double)memory_bound(a, x->block, n, &step) : 0;
	*grown = n ? grown_at(x, step) : (struct grown){ 0, 0 };
	return bytes;
}

static void
add_inside(struct inside *x, struct arena *a)
{
	uint32_t stage = x->mem->buffers.at[x->from].stage;
	struct piece_bytes *to;
	struct grown grown;
	double bytes;

	if (stage == UINT32_MAX) {
		return;
	}
	to = &x->to_piece[x->w->on->piece_of[stage]];
	x->all = false;
	bytes = most_inside(x, a, &grown);
	if (bytes > to->inside) {
		to->inside = bytes;
		to->inside_grows = grown.grows;
		to->inside_stays = grown.stays;
	}
	x->all = true;
	bytes = most_inside(x, a, &grown);
	if (bytes > x->most[stage]) {
		x->most[stage] = bytes;
		to->temp_grows = grown.grows;
		to->temp_stays = grown.stays;
	}
}

/*
 * Sets the temporary bytes of each piece, of what repeats carry only the first.
 * A stage with one layer has all of them alive at once, too: how many
 * iterations there are changes only where, and how long, what they carry lies.
 */
static void
set_inside(const struct piece_sharding *w, const struct memory *mem,
	   struct piece_bytes *to)
{
	struct arena *a = &w->m->ctx->tmp;
	uint32_t n = mem->buffers.n;
	struct inside x = { .w = w, .mem = mem, .to_piece = to };

	x.carried = piece_carried(mem, a);
	x.until = find_firsts(w, mem, a);
	x.block = arena_alloc(a, (n + 1) * sizeof *x.block);
	x.most = arena_alloc(a, (w->on->nstages + 1) * sizeof *x.most);
	while (x.to < n) {
		x.from = x.to;
		while (x.to < n && mem->buffers.at[x.to].func ==
				   mem->buffers.at[x.from].func) {
			x.to++;
		}
		add_inside(&x, a);
	}
}

void
piece_measure_bytes(const struct piece_sharding *w, const struct memory *mem,
		    struct piece_bytes *to)
{
	uint32_t i;

	for (i = 0; i < w->on->nstages; i++) {
		struct piece_bytes *x = &to[w->on->piece_of[i]];

		x->temp = fmax(x->temp, temps_of(&mem->stage[i]));
	}
	add_saves(w, mem, to);
	add_sends(w, mem, to);
	set_inside(w, mem, to);
}
