/*
 * Bytes of the pieces of a sharding on a rank, from the memory plan of its
 * stages: those of one microbatch as they were laid out for that microbatch,
 * those of the whole step scaled to the data ranks that ZeRO divides them
 * among.
 */
#include "passes/kernels/kernels.h"
#include "passes/pieces/piece_parts.h"

#include <math.h>


static double
bytes_of(const struct memory_buffer *b)
{
	return (double)b->bytes * (double)b->items;
}

/*
 * Sets the temporary bytes of a stage: the arena of the function that has most.
 */
static double
temps_of(const struct memory_stage *x)
{
	double most = 0;
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		most = fmax(most, (double)x->func[k].bytes);
	}
	return most;
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

		if (b->stage != UINT32_MAX && b->kind == MEMORY_SAVES &&
		    b->span < SPACE_NSPANS) {
			p = w->on->piece_of[b->stage];
			to[p].slot[b->span] += bytes_of(b) /
				(p >= PIECE_BODY ?
				 (double)w->on->iterations[b->stage] : 1);
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

		x->waits = (double)mem->stage[i].pipeline;
		x->temp = fmax(x->temp, temps_of(&mem->stage[i]));
	}
	add_saves(w, mem, to);
}

void
piece_measure_fixed(struct piece_sharding *w, const struct memory *mem)
{
	uint32_t i, k;

	for (i = 0; i < w->on->nstages; i++) {
		uint32_t p = w->on->piece_of[i];
		double n = p >= PIECE_BODY ? (double)w->on->iterations[i] : 1;

		for (k = 0; k < MEMORY_PIPELINE; k++) {
			w->fixed[p][k] = (double)mem->stage[i].fixed[k] / n;
		}
		for (k = 0; k < MEMORY_OPTIMIZER; k++) {
			w->in_layers[p][k] =
				(double)mem->stage[i].in_layers[k] / n;
		}
		w->update_temp[p] = (double)mem->rank[i].update.bytes / n;
	}
}

/* Scales from the dp at which w was measured to that of u. */
void
piece_scale_fixed(const struct piece_sharding *w, struct piece_update *u)
{
	double placed = (double)w->g.dp, dp = placed / (double)u->dp;
	double states = u->offload & PLAN_OFFLOAD_OPTIMIZER ? 1 : 0;
	double params = u->offload & PLAN_OFFLOAD_PARAMS ? 1 : 0;
	uint32_t drives = plan_on_drives(u->offload);
	int i, zero = w->key.zero;

	for (i = 0; i < PIECE_MAX; i++) {
		const double *f = w->fixed[i], *in = w->in_layers[i];
		double state = f[MEMORY_OPTIMIZER] * (zero > 0 ? dp : 1);

		u->window[i] = params *
			(in[MEMORY_WEIGHTS] * (zero > 2 ? dp : 1) +
			 in[MEMORY_GRADIENTS] * (zero > 1 ? dp : 1));
		u->fixed[i] = f[MEMORY_WEIGHTS] * (zero > 2 ? dp : 1) +
			      f[MEMORY_GRADIENTS] * (zero > 1 ? dp : 1) +
			      (1 - states) * state + f[MEMORY_OTHER] -
			      u->window[i];
		u->temp[i] = w->update_temp[i] * (zero > 0 ? dp : 1);
		u->host[i] = states * state + u->window[i];
		u->drives[i] = (drives & PLAN_OFFLOAD_OPTIMIZER ? state : 0) +
			       (drives & PLAN_OFFLOAD_PARAMS ? u->window[i]
							     : 0);
	}
}
