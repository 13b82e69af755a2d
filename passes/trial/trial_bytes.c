/*
 * What the ranks of a plan that is tried hold: by the sums of their pieces, and
 * at least.  Used by trial_fit.c.
 */
#include "passes/trial/trial.h"

/* ---- tensors that live all step ---- */

void
trial_set_fixed(struct trial *x)
{
	struct piece_update *u = trial_update(x);
	uint32_t n = x->nstages, i;
	double each = 0, temp = 0;

	x->fixed = arena_alloc(&x->s->space.tmp, (size_t)x->t->g->pp *
			       sizeof *x->fixed);
	x->update_temp = arena_alloc(&x->s->space.tmp, (size_t)x->t->g->pp *
				     sizeof *x->update_temp);
	for (i = 0; i < n; i++) {
		int64_t lo = x->first[i], hi = lo + x->layers[i];

		if (x->like[i] == i) {
			each = piece_sum(&x->s->space, u->fixed, lo, hi);
			temp = piece_update_temp(&x->s->space, u, lo, hi);
		}
		x->fixed[x->rank_of[i]] += each;
		x->update_temp[x->rank_of[i]] =
			larger(x->update_temp[x->rank_of[i]], temp);
	}
	if (x->rank_of[0] == x->rank_of[n - 1]) {	/* it has them once */
		x->fixed[x->rank_of[0]] -= u->shared;
	}
}

/* ---- stages ---- */

double
trial_window_bytes(struct trial *x, const double *slots, int64_t lo, int64_t hi)
{
	bool saves = x->key.offload & PLAN_OFFLOAD_SAVES;
	double each[SPACE_MAX_KINDS];
	uint32_t i;

	if (!x->key.offload) {
		return 0;
	}
	for (i = 0; i < x->s->space.nkinds; i++) {
		each[i] = trial_update(x)->window[PIECE_BODY + i] +
			  (saves ? slots[i] : 0);
	}
	return piece_window_bytes(&x->s->space, each, lo, hi);
}

/*
 * Moves the slots of layers [lo, hi) to the host, if they are to lie there, and
 * counts the window of these and of weights and gradients that do.
 */
static void
host_layers(struct trial *x, const struct piece_cost *c, int64_t lo,
	    int64_t hi, struct piece_bytes *b)
{
	bool saves = x->key.offload & PLAN_OFFLOAD_SAVES;
	double slots[SPACE_MAX_KINDS] = { 0 };
	uint32_t i, k;

	for (i = 0; i < x->s->space.nkinds; i++) {
		const struct piece_bytes *one = &c->bytes[PIECE_BODY + i];

		for (k = 0; k < SPACE_NSPANS; k++) {
			slots[i] += larger(one->slot[k], 0);
		}
	}
	b->temp += trial_window_bytes(x, slots, lo, hi);
	for (k = 0; k < SPACE_NSPANS && saves; k++) {
		b->host[k] = larger(b->slot[k], 0);
		b->slot[k] = 0;
	}
}

void
trial_set_plain(struct trial *x)
{
	const struct piece_cost *c = trial_cost(x, 0);
	uint32_t n = x->nstages, i;

	x->plain = arena_alloc_raw(&x->s->space.tmp, n * sizeof *x->plain);
	for (i = 0; i < n; i++) {
		int64_t lo = x->first[i], hi = lo + x->layers[i];

		if (x->like[i] != i) {
			x->plain[i] = x->plain[i - 1];
			continue;
		}
		piece_stage_bytes(&x->s->space, c, lo, hi, &x->plain[i]);
		host_layers(x, c, lo, hi, &x->plain[i]);
	}
}

void
trial_stage_bytes(struct trial *x, uint32_t stage, struct piece_bytes *b)
{
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	uint32_t choice = x->choice[stage];
	struct piece_cost *c = choice ? trial_cost(x, choice) : NULL;

	if (c) {
		piece_stage_bytes(&x->s->space, c, lo, hi, b);
		host_layers(x, c, lo, hi, b);
	} else {
		*b = x->plain[stage];
	}
}

/* ---- ranks ---- */

/* Bytes of the slots of a rank's stages; top: of what no layer saves. */
static double
slot_bytes(struct trial *x, uint32_t rank, const struct piece_bytes *b,
	   bool top)
{
	uint32_t n = (uint32_t)x->t->chunks, k, i;
	double bytes = 0;

	for (k = 0; k < SPACE_NSPANS; k++) {
		for (i = 0; i < n; i++) {
			x->slot[i] = larger(top ? b[i].top[k] : b[i].slot[k],
					    0);
		}
		bytes += space_pool_bytes(&x->s->space, x->t->slots, k, rank,
					  &x->stages[rank * n], n, x->slot);
	}
	return bytes;
}

double
trial_moving_bytes(struct trial *x, uint32_t rank, const struct piece_bytes *b)
{
	uint32_t n = (uint32_t)x->t->chunks, i;
	double copies = x->t->nmicrobatches > 1 ? 2 : 1;
	double temp = 0, sends = 0, slots;

	for (i = 0; i < n; i++) {
		temp = larger(temp, b[i].temp);
		sends += copies * (b[i].sends[0] + b[i].sends[1]);
	}
	slots = slot_bytes(x, rank, b, false);
	slots += slot_bytes(x, rank, b, true);
	return slots + sends + temp;
}

double
trial_rank_bytes(struct trial *x, uint32_t rank, const struct piece_bytes *b)
{
	return larger(trial_moving_bytes(x, rank, b), x->update_temp[rank]);
}
