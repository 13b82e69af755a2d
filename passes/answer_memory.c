/*
 * Memory of the answer.  Where bytes come from is known here and nowhere
 * else: today from pass_hold, which counts what outlives a trip, so that
 * temporaries and the op at the peak are not known.
 */
#include "passes/answer.h"

bool
answer_hold(struct ir_module *m, const struct target_device *d,
	    struct answer_memory *out)
{
	struct pass_holds h;
	uint32_t i;

	*out = (struct answer_memory){ 0 };
	if (!pass_hold(m, &h)) {
		return false;
	}
	out->nranks = h.nranks;
	out->fullest = h.fullest;
	out->rank = arena_alloc(&m->ctx->perm, h.nranks * sizeof *out->rank);
	for (i = 0; i < h.nranks; i++) {
		const struct pass_rank *from = &h.rank[i];

		out->rank[i] = (struct answer_rank){
			.stages = from->nstages, .weights = from->weights,
			.gradients = from->gradients,
			.optimizer = from->optimizer,
			.saved = from->activations, .temps = -1,
			.reserve = ANSWER_RESERVE_BYTES,
			.total = from->total + ANSWER_RESERVE_BYTES
		};
	}
	out->device_bytes = (int64_t)d->memory_bytes;
	out->left_bytes = out->device_bytes - out->rank[h.fullest].total;
	return true;
}
