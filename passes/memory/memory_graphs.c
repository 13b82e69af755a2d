/*
 * What a GPU's driver keeps of a step's graphs.  It lies in the target's
 * reserve, so that it is shown and not added.
 */
#include "passes/memory/memory.h"

#include <string.h>

/*
 * Bytes of device memory for each kernel of a graph.  Captured launches of an
 * empty kernel, 500, 1,000 and 2,000 of them, had 362, 395 and 458 MB in use on
 * CUDA 11.2, driver 470 (NVIDIA's developer forums, thread 244901, "increasing
 * memory footprint with large task graphs"): 64 KB for each.  Not measured with
 * llmc, nor for other drivers.
 */
#define GRAPH_KERNEL_BYTES 65536.0

/* Actions of microbatches whose saves lie in the same slots share a graph. */
static uint32_t
graphs_of(const struct memory_stage *s, uint32_t nmicrobatches,
	  struct arena *a)
{
	uint32_t slots[MEMORY_NSPANS], i, k;
	struct intern seen;

	intern_init(&seen, a);
	for (i = 0; i < nmicrobatches; i++) {
		for (k = 0; k < MEMORY_NSPANS; k++) {
			slots[k] = s->slot[k] ? s->slot[k][i] : 0;
		}
		intern(&seen, (const char *)slots, sizeof slots);
	}
	return seen.text.n - 1;	/* the first is no name */
}

static double
kernels_of(const struct ranks *r, func_id f, struct arena *a)
{
	return f ? kernels_find(r->m, f, r->memo, a)->nkernels : 0;
}

void
memory_print_graphs(const struct ranks *r, struct memory *mem, struct buf *out)
{
	uint32_t pipe = mem->fullest, graphs, i, k;
	double kernels = kernels_of(r, r->update[pipe], out->arena);

	memory_assign_slots(r, out->arena, mem);
	for (i = 0; i < mem->nstages; i++) {
		if (mem->stage[i].rank != pipe) {
			continue;
		}
		graphs = graphs_of(&mem->stage[i], r->nmicrobatches,
				   out->arena);
		for (k = 0; k < SCHED_NKINDS; k++) {
			kernels += graphs * kernels_of(r, r->of_stage[i][k],
						       out->arena);
		}
	}
	buf_printf(out, "its graphs have about %.0f kernels: %.3f GiB of what "
		   "the target reserves, at 64 KB for each\n", kernels,
		   kernels * GRAPH_KERNEL_BYTES / (1 << 30));
}
