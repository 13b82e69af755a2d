/*
 * Bytes of the pieces of a sharding on a rank for one microbatch, from the
 * memory plan of its stages for that microbatch.
 */
#include "passes/kernels/kernels.h"
#include "passes/pieces/piece_parts.h"

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

/*
 * Adds a buffer of a layer's saves.  A value that has a dim of sequences takes
 * as many bytes for each of them, without padding; of rows that go to experts
 * up to one element less.
 */
static void
add_slot(const struct piece_sharding *w, const struct memory_buffer *b,
	 struct piece_bytes *to)
{
	const struct ir_type *t = b->value ? ir_type(w->m, b->value) : NULL;
	double layers = w->on->piece_of[b->stage] >= PIECE_BODY
		? (double)w->on->iterations[b->stage] : 1;
	double bytes;

	to->slot[b->span] += bytes_of(b) / layers;
	if (!t || !w->batch || !ir_type_has(t, w->batch)) {
		to->stays[b->span] += t ? bytes_of(b) / layers : 0;
		return;
	}
	bytes = kernel_reserved_bytes(w->m, b->value);
	bytes -= t->routed ? ir_elem_bytes(t->dtype) : 0;
	to->grows[b->span] += fmax(bytes, 0) * (double)b->items / layers;
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

		if (b->stage == UINT32_MAX || b->kind != MEMORY_SAVES) {
			continue;
		}
		p = w->on->piece_of[b->stage];
		if (b->span < MEMORY_TOP) {
			add_slot(w, b, &to[p]);
		} else {
			to[p].top[b->span - MEMORY_TOP] += bytes_of(b);
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

		if (b->kind == MEMORY_PIPELINE) {
			to[w->on->piece_of[b->stage]].sends[
				b->func != w->r.of_stage[b->stage][SCHED_F]] +=
				(double)b->bytes;
		}
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

/*
 * Sets the temporary bytes of each piece without what repeats carry.  A stage
 * with one layer has all of them alive at once, too: how many iterations there
 * are changes only where, and how long, what they carry lies.
 */
static void
set_inside(const struct piece_sharding *w, const struct memory *mem,
	  struct piece_bytes *to)
{
	struct arena *a = &w->m->ctx->tmp;
	const bool *carried = piece_carried(mem, a);
	uint32_t n = mem->buffers.n, i, k, count, step;
	struct memory_block *b = arena_alloc(a, (n + 1) * sizeof *b);

	for (i = 0; i < n; i = k) {
		const struct memory_buffer *x = &mem->buffers.at[i];

		for (k = i, count = 0; k < n && mem->buffers.at[k].func ==
		     x->func; k++) {
			const struct memory_buffer *y = &mem->buffers.at[k];

			if (y->kind == MEMORY_TEMPS && y->stage != UINT32_MAX &&
			    !carried[k + 1]) {
				b[count++] = (struct memory_block){
					y->bytes * y->items, y->from, y->to, 0
				};
			}
		}
		if (count) {
			struct piece_bytes *p = &to[w->on->piece_of[x->stage]];

			p->inside = fmax(p->inside, (double)memory_bound(a, b,
						count, &step));
		}
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
