/*
 * Bytes of the tensors of a sharding that live for the whole step, on a rank.
 * Their types are noted once, when the memory of its stages is planned, and
 * evaluated for the data ranks that ZeRO divides them among.  A rank of any
 * plan of the sharding has no less: tensors that several pieces have, and
 * those of no size, count as little as any plan has of them.
 */
#include "passes/kernels/kernels.h"
#include "passes/pieces/piece_parts.h"

#include <math.h>
#include <string.h>

/* ---- the bytes of one ---- */

static double
aligned(double bytes)
{
	return fmax(ceil(bytes / MEMORY_ALIGN), 1) * MEMORY_ALIGN;
}

static double
bytes_of(const struct piece_sharding *w, const struct piece_tensor *x,
	 int64_t dp)
{
	double n = x->elem_bytes;
	uint32_t i;

	if (x->all_bytes > 0) {
		return x->all_bytes;
	}
	if (x->step_bytes > 0) {
		return x->step_bytes / (double)dp;
	}
	for (i = 0; i < x->ndims; i++) {
		n *= (double)ir_most(w->mesh, x->size[i], x->cut[i]);
	}
	return x->items * aligned(n);
}

/* ---- what tensors there are ---- */

/* While the tensors of a sharding are noted. */
struct noting {
	struct piece_store *s;
	struct piece_sharding *w;
	const struct memory *mem;
	value_id *value;	/* by buffer: one with most bytes */
	/* tensors of the first piece: with the kinds, names */
	VEC(sym_t) first[MEMORY_PIPELINE];
};

static value_id
value_of(const struct ir_module *m, const struct ir_node *n)
{
	return ir_is(n->op, IRF_SINK) ? ir_args(m, n)[0] : n->result;
}

/* Sets the values of buffers, from the nodes that name these. */
static void
find_values(struct noting *k)
{
	const struct ir_module *m = k->w->m;
	node_id id;

	k->value = arena_alloc(&k->w->ctx->tmp, (k->mem->buffers.n + 1) *
			       sizeof *k->value);
	for (id = 1; id < m->nodes.n; id++) {
		value_id *at = &k->value[k->mem->tensor[id]];
		value_id v;

		if (!k->mem->tensor[id]) {
			continue;
		}
		v = value_of(m, ir_node(m, id));
		if (!*at || kernel_reserved_bytes(m, v) >
			    kernel_reserved_bytes(m, *at)) {
			*at = v;
		}
	}
}

/* Whether the first piece has a tensor of that kind and name. */
static bool
has_first(const struct noting *k, enum memory_kind kind, sym_t name)
{
	uint32_t i;

	for (i = 0; i < k->first[kind].n; i++) {
		if (k->first[kind].at[i] == name) {
			return true;
		}
	}
	return false;
}

/* Whether its bytes depend on the number of data ranks. */
static bool
is_by_dp(const struct piece_sharding *w, const struct piece_tensor *x)
{
	uint32_t i, cut;

	for (i = 0; w->dp_axis && i < x->ndims; i++) {
		for (cut = x->cut[i]; cut; cut >>= 4) {
			if ((cut & 15) == w->dp_axis) {
				return true;
			}
		}
	}
	return x->step_bytes > 0;
}

static bool
is_like(const struct piece_tensor *x, const struct piece_tensor *y)
{
	return x->kind == y->kind && x->piece == y->piece &&
	       x->in_layers == y->in_layers && x->shared == y->shared &&
	       (x->all_bytes > 0) == (y->all_bytes > 0) &&
	       x->step_bytes == 0 && y->step_bytes == 0 &&
	       x->elem_bytes == y->elem_bytes && x->ndims == y->ndims &&
	       memcmp(x->size, y->size, sizeof x->size) == 0 &&
	       memcmp(x->cut, y->cut, sizeof x->cut) == 0;
}

/*
 * Adds a tensor to those of the same type, or, if its bytes are the same for
 * any number of data ranks, to all others of which that holds.
 */
static void
add(struct noting *k, const struct piece_tensor *x)
{
	struct piece_sharding *w = k->w;
	struct piece_tensor sum = {
		.kind = x->kind, .piece = x->piece, .in_layers = x->in_layers,
		.shared = x->shared
	};
	uint32_t i;

	if (is_by_dp(w, x)) {
		sum = *x;
	} else {
		sum.all_bytes = bytes_of(w, x, 1);
	}
	for (i = 0; i < w->tensors.n; i++) {
		struct piece_tensor *y = &w->tensors.at[i];

		if (is_like(&sum, y)) {
			y->items += sum.items;
			y->all_bytes += sum.all_bytes;
			return;
		}
	}
	VEC_PUSH(&w->ctx->tmp, &w->tensors, sum);
}

static void
set_type(const struct ir_module *m, value_id v, struct piece_tensor *x)
{
	const struct ir_type *t = ir_type(m, v);
	uint32_t i;

	x->ndims = t->ndims;
	x->elem_bytes = ir_elem_bytes(t->dtype);
	for (i = 0; i < t->ndims; i++) {
		x->size[i] = ir_dim_size(m, t->dims[i]);
		x->cut[i] = t->cut[i];
	}
}

/*
 * Notes a buffer of a piece.  Of what lies outside of layers, pieces of layers
 * have what other pieces or stages of the same rank may have, too.  An input
 * has a part for each microbatch of the step, so a part of the batch in all.
 */
static void
note(struct noting *k, uint32_t stage, uint32_t buffer)
{
	const struct memory_buffer *b = &k->mem->buffers.at[buffer];
	struct piece_sharding *w = k->w;
	struct piece_tensor x = {
		.kind = b->kind, .piece = w->on->piece_of[stage],
		.in_layers = b->in_layers,
		.items = (double)b->items
	};
	value_id v = k->value[buffer + 1];

	if (!v || (x.piece >= PIECE_BODY && !b->in_layers) ||
	    (b->kind == MEMORY_OTHER && b->copies == 1)) {
		return;
	}
	if (x.piece >= PIECE_BODY) {
		x.items /= (double)w->on->iterations[stage];
	}
	x.shared = x.piece == PIECE_LAST && !b->in_layers &&
		   has_first(k, b->kind, b->name);
	set_type(w->m, v, &x);
	if (b->copies > 1) {
		x.step_bytes = x.items * kernel_reserved_bytes(w->m, v) *
			       (double)b->copies * (double)w->g.dp;
	}
	if (x.piece == PIECE_FIRST) {
		VEC_PUSH(&w->ctx->tmp, &k->first[b->kind], b->name);
	}
	add(k, &x);
}

/*
 * Notes the temporary values that are alive at once where the update of a piece
 * has most of them.  What layers carry from one to the next counts nothing: it
 * lies elsewhere if there is one layer.
 */
static void
note_update(struct noting *k, uint32_t stage, const bool *carried)
{
	uint32_t pipe = k->mem->stage[stage].rank, i;
	const struct memory_func *f = &k->mem->rank[pipe].update;
	struct piece_sharding *w = k->w;

	for (i = 0; f->func && i < k->mem->buffers.n; i++) {
		const struct memory_buffer *b = &k->mem->buffers.at[i];
		struct piece_tensor x = {
			.kind = MEMORY_TEMPS, .piece = w->on->piece_of[stage],
			.items = (double)b->items, .in_layers = b->items > 1
		};

		if (b->kind != MEMORY_TEMPS || b->func != f->func ||
		    b->from > f->at_step || b->to < f->at_step ||
		    !b->value || carried[i + 1]) {
			continue;
		}
		if (x.in_layers && x.piece >= PIECE_BODY) {
			x.items /= (double)w->on->iterations[stage];
		}
		set_type(w->m, b->value, &x);
		add(k, &x);
	}
}

/* Notes the axes, whose lengths sizes depend on. */
static void
note_axes(struct piece_store *s, struct piece_sharding *w)
{
	struct arena *a = &s->space->keep;

	w->mesh = arena_alloc(a, sizeof *w->mesh);
	w->mesh->axes.at = arena_dup(a, w->m->axes.at, w->m->axes.n *
				     sizeof *w->m->axes.at);
	w->mesh->axes.n = w->m->axes.n;
	w->dp_axis = piece_axis(w->m, "dp");
}

void
piece_note_tensors(struct piece_store *s, struct piece_sharding *w,
		   const struct memory *mem)
{
	struct noting k = { .s = s, .w = w, .mem = mem };
	const bool *carried = piece_carried(mem, &w->ctx->tmp);
	uint32_t stage, i;

	find_values(&k);
	note_axes(s, w);
	for (stage = 0; stage < w->on->nstages; stage++) {
		for (i = 0; i < mem->buffers.n; i++) {
			const struct memory_buffer *b = &mem->buffers.at[i];

			if (b->stage == UINT32_MAX &&
			    b->kind < MEMORY_PIPELINE &&
			    b->pipe == mem->stage[stage].rank) {
				note(&k, stage, i);
			}
		}
		note_update(&k, stage, carried);
	}
	w->tensors.at = arena_dup(&s->space->keep, w->tensors.at,
				  w->tensors.n * sizeof *w->tensors.at);
	w->tensors.cap = w->tensors.n;
}

/* ---- their bytes ---- */

/* Whether it is away from the device. */
static bool
is_away(const struct piece_tensor *x, uint32_t offload)
{
	return x->kind == MEMORY_OPTIMIZER
		? offload & PLAN_OFFLOAD_OPTIMIZER
		: x->kind < MEMORY_OPTIMIZER && x->in_layers &&
		  offload & PLAN_OFFLOAD_PARAMS;
}

void
piece_sum_tensors(const struct piece_sharding *w, struct piece_update *u)
{
	uint32_t i;

	if (w->dp_axis) {
		w->mesh->axes.at[w->dp_axis].size = u->dp;
	}
	for (i = 0; i < w->tensors.n; i++) {
		const struct piece_tensor *x = &w->tensors.at[i];
		double bytes = bytes_of(w, x, u->dp);
		bool away = is_away(x, u->offload);

		if (x->kind == MEMORY_TEMPS) {
			*(x->in_layers && x->piece >= PIECE_BODY
				? &u->temp_each[x->piece]
				: &u->temp[x->piece]) += bytes;
			continue;
		}
		if (!away) {
			u->fixed[x->piece] += bytes;
			u->shared += x->shared ? bytes : 0;
			continue;
		}
		u->host[x->piece] += bytes;
		if (x->kind < MEMORY_OPTIMIZER) {
			u->window[x->piece] += bytes;
		}
		if (memory_on_drives(u->offload, x->kind)) {
			u->drives[x->piece] += bytes;
		}
	}
}
