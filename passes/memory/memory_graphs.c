/*
 * What a GPU's driver keeps of a step's graphs.  It lies in what the target
 * reserves; of a rank whose graphs take more than that, as much is reserved.
 */
#include "passes/memory/memory.h"
#include "passes/price/price.h"

#include <math.h>
#include <string.h>

/*
 * Bytes of device memory for each kernel of a graph.  Captured launches of an
 * empty kernel, 500, 1,000 and 2,000 of them, had 362, 395 and 458 MB in use on
 * CUDA 11.2, driver 470 (NVIDIA's developer forums, thread 244901, "increasing
 * memory footprint with large task graphs"): 64 KB for each.  Not measured with
 * llmc, nor for other drivers.
 */
#define GRAPH_KERNEL_BYTES 65536.0

/* The graphs of each function of a stage. */
struct stage_graphs {
	uint32_t n;
	/* one more where it adds to gradients: the first microbatch's kernels
	 * store those, so its graph is its own */
	bool more;
};

/* Actions of microbatches whose saves lie in the same slots share a graph. */
static struct stage_graphs
graphs_of(const struct memory_stage *s, uint32_t nmicrobatches,
	  struct arena *a)
{
	uint32_t slots[MEMORY_NSPANS], first = 0, id, i, k;
	struct stage_graphs out = { 0 };
	struct intern seen;

	intern_init(&seen, a);
	for (i = 0; i < nmicrobatches; i++) {
		for (k = 0; k < MEMORY_NSPANS; k++) {
			slots[k] = s->slot[k] ? s->slot[k][i] : 0;
		}
		id = intern(&seen, (const char *)slots, sizeof slots);
		first = i == 0 ? id : first;
		out.more |= i > 0 && id == first;
	}
	out.n = seen.text.n - 1;	/* the first is no name */
	return out;
}

/*
 * The graphs of each stage where it is alone on its rank: every slot of a pool
 * is used, so there are as many as its largest pool has slots, or more; and no
 * more than microbatches, or than ways to take a slot of each pool.  False if
 * these bounds differ.  With fewer than microbatches some share one, of which
 * the first is: its slot is the first that is free again.
 */
static bool
bound_graphs(const struct memory *mem, uint32_t nmicrobatches,
	     struct stage_graphs *graphs)
{
	uint32_t i, k;

	for (i = 0; i < mem->nstages; i++) {
		uint64_t least = 1, most = 1;

		for (k = 0; k < mem->pools.n; k++) {
			const struct memory_pool *p = &mem->pools.at[k];

			if (p->rank != mem->stage[i].rank || p->slots == 0) {
				continue;
			}
			least = p->slots > least ? p->slots : least;
			most *= p->slots;
			most = most < nmicrobatches ? most : nmicrobatches;
		}
		if (mem->nstages != mem->nranks || least != most) {
			return false;
		}
		graphs[i].n = (uint32_t)least;
		graphs[i].more = least < nmicrobatches;
	}
	return true;
}

static void
count_graphs(const struct ranks *r, const struct memory *mem, struct arena *a,
	     struct stage_graphs *graphs)
{
	struct memory own = *mem;	/* with slots of its own */
	uint32_t i;

	own.stage = arena_dup(a, mem->stage, mem->nstages * sizeof *own.stage);
	memory_assign_slots(r, a, &own);
	for (i = 0; i < mem->nstages; i++) {
		graphs[i] = graphs_of(&own.stage[i], r->nmicrobatches, a);
	}
}

/* Members of launches that code generation launches one by one, as that takes
 * less on the target: those after the first are counted as of its launch. */
static double
apart_of(const struct pricing *p, const struct kernel_list *l)
{
	double n = 0;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body) {
			n += (double)k->body->count * apart_of(p, k->body);
		} else if (kernel_follows(k)) {
			n += !price_shares_launch(p, k);
		}
	}
	return n;
}

/* Launches of one run of a function. */
static double
launches_of(const struct pricing *p, const struct memory *mem, func_id f)
{
	return f ? mem->kernels[f]->nkernels +
		   apart_of(p, mem->kernels[f]->top) : 0;
}

/* Whether a kernel adds to a sum of gradients. */
static bool
adds(const struct ir_module *m, const struct kernel_list *l)
{
	uint32_t i, k;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *x = &l->at.at[i];

		for (k = 0; k < x->nodes.n && !x->body; k++) {
			uint16_t op = ir_node(m, x->nodes.at[k])->op;

			if (ir_is(op, IRF_SUMS) && ir_is(op, IRF_SINK)) {
				return true;
			}
		}
		if (x->body && adds(m, x->body)) {
			return true;
		}
	}
	return false;
}

double *
memory_graph_kernels(const struct ranks *r, const struct memory *mem,
		     const struct target_devs *s, struct arena *a)
{
	/* of llmc's own code, which alone is launched as graphs here */
	static const struct price_traits ours;
	const struct pricing p = { .r = r, .m = r->m, .t = s->all,
				   .traits = &ours, .memo = r->memo };
	struct stage_graphs *graphs = arena_alloc(a, mem->nstages *
						  sizeof *graphs);
	double *kernels = arena_alloc(a, mem->nranks * sizeof *kernels);
	uint32_t i, k, n;

	if (!bound_graphs(mem, r->nmicrobatches, graphs)) {
		count_graphs(r, mem, a, graphs);
	}
	for (i = 0; i < mem->nranks; i++) {
		kernels[i] = launches_of(&p, mem, r->update[i]);
	}
	for (i = 0; i < mem->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			func_id f = r->of_stage[i][k];

			n = graphs[i].n;
			n += f && graphs[i].more &&
			     adds(r->m, mem->kernels[f]->top);
			kernels[mem->stage[i].rank] +=
				n * launches_of(&p, mem, f);
		}
	}
	return kernels;
}

double
memory_reserve(const struct target_device *d, double graph_kernels)
{
	double graphs = target_is_cuda(d) && d->reserve_bytes > 0
		? graph_kernels * GRAPH_KERNEL_BYTES : 0;

	return fmax(d->reserve_bytes, graphs);
}

void
memory_print_graphs(const struct ranks *r, const struct memory *mem,
		    const struct target_devs *s, struct buf *out)
{
	const struct target_device *d =
		&target_devs_of(s, mem->fullest)->device;
	double n = memory_graph_kernels(r, mem, s, out->arena)[mem->fullest];

	buf_printf(out, "its graphs have about %.0f kernels: %.3f GiB at 64 KB "
		   "for each, ", n, n * GRAPH_KERNEL_BYTES / (1 << 30));
	if (memory_reserve(d, n) > d->reserve_bytes) {
		buf_printf(out, "more than the %.3f GiB that the target "
			   "reserves: so much is counted\n",
			   d->reserve_bytes / (1 << 30));
	} else if (d->reserve_bytes == 0) {
		buf_puts(out, "which are not counted, as the target has no "
			 "`reserve`\n");
	} else {
		buf_printf(out, "of the %.3f GiB that the target reserves\n",
			   d->reserve_bytes / (1 << 30));
	}
}
