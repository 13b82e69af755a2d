/*
 * A launch of several contractions as one kernel, which reads and writes what
 * all of them do.
 */
#include "passes/kernels/kernels.h"

/* Appends what k reads and writes; what is read twice counts once. */
static void
add_uses(struct arena *a, struct kernel *to, const struct kernel *k,
	 struct kernel_work *work)
{
	uint32_t i;

	work->read_bytes += k->work->read_bytes;
	for (i = 0; i < k->inputs.n; i++) {
		if (kernel_reads(to, k->inputs.at[i].value)) {
			work->read_bytes -= k->inputs.at[i].bytes;
		} else {
			VEC_PUSH(a, &to->inputs, k->inputs.at[i]);
		}
	}
	for (i = 0; i < k->outputs.n; i++) {
		VEC_PUSH(a, &to->outputs, k->outputs.at[i]);
	}
}

/* Their rows are one after another, or their columns. */
static void
add_work(struct kernel_work *to, const struct kernel_work *w, bool by_rows)
{
	to->flops += w->flops;
	to->write_bytes += w->write_bytes;
	*(by_rows ? &to->dot.m : &to->dot.n) += by_rows ? w->dot.m : w->dot.n;
}

void
kernel_of_launch(const struct kernel_list *l, uint32_t i, struct arena *a,
		 struct kernel *out)
{
	const struct kernel *k = &l->at.at[i];
	uint32_t n = k->launch ? k->launch->n : 1, j, x;
	struct kernel_work *work = arena_dup(a, k->work, sizeof *work);

	*out = (struct kernel){ .kind = k->kind, .work = work };
	work->read_bytes = 0;
	for (j = 0; j < n; j++) {
		VEC_PUSH(a, &out->members, k[j]);
		for (x = 0; x < k[j].nodes.n; x++) {
			VEC_PUSH(a, &out->nodes, k[j].nodes.at[x]);
		}
		add_uses(a, out, &k[j], work);
	}
	for (j = 1; j < n; j++) {
		add_work(work, k[j].work, k->launch->by_rows);
	}
}
