/*
 * What the ranks of a plan hold at least with any way to recompute.  With this
 * a plan is found too large before the programs of any way but the one as
 * pinned are made.
 *
 * Proof.  Of what layers save, ways keep all that cannot be recomputed
 * (piece_find_kept).  What a rank holds when it holds most microbatches is
 * there at once, however slots are shared (trial_then_bytes), beside tensors
 * that live all step.  Where saves lie on the host, two layers of each kind
 * pass through the device at once; likewise weights and gradients.
 */
#include "passes/trial/trial_fit.h"

/* Bytes of the window for what layers [lo, hi) have on the host. */
static double
window_bytes(struct trial *x, const struct piece_kept *kept, int64_t lo,
	     int64_t hi)
{
	double slots[SPACE_MAX_KINDS] = { 0 };
	uint32_t i, k;

	for (i = 0; i < x->s->space.nkinds; i++) {
		for (k = 0; k < SPACE_NSPANS; k++) {
			slots[i] += (double)x->t->microbatch *
				    kept->bytes[k][i];
		}
	}
	return trial_window_bytes(x, slots, lo, hi);
}

/* Adds what a stage holds to its rank, and the most of its windows. */
static void
add_stage(struct trial *x, const struct piece_kept *kept, uint32_t stage,
	  double *holds, double *window)
{
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	double slot[SPACE_NSPANS];

	piece_kept_bytes(&x->s->space, kept, lo, hi, x->key.solo,
			 (double)x->t->microbatch, slot);
	if (!(x->key.offload & PLAN_OFFLOAD_SAVES)) {
		*holds += trial_then_bytes(x, stage, slot);
	}
	*window = larger(*window, window_bytes(x, kept, lo, hi));
}

double
trial_kept_bytes(struct trial *x, uint32_t rank, const struct piece_kept *kept)
{
	uint32_t n = (uint32_t)x->t->chunks, i;
	double holds = x->fixed[rank], window = 0;

	for (i = 0; i < n; i++) {
		add_stage(x, kept, x->stages[rank * n + i], &holds, &window);
	}
	return holds + window;
}

bool
trial_is_surely_full(struct trial *x)
{
	struct space *space = &x->s->space;
	struct piece_kept kept;
	uint32_t i;

	if (trial_is_asked(x)) {
		return false;
	}
	trial_set_fixed(x);
	space_count_slots(space, x->t);
	piece_find_kept(&x->s->pieces, &x->key, x->t, &kept);
	for (i = 0; i < (uint32_t)x->t->g->pp; i++) {
		if (trial_kept_bytes(x, i, &kept) >
		    space_capacity(space, x->dev[i])) {
			return true;
		}
	}
	return false;
}
