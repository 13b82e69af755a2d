/*
 * A launch of several contractions as one kernel, which reads and writes what
 * all of them do; of a sum, but for what one hands to the next.
 */
#include "passes/kernels/kernels.h"

/* Whether a member of a sum makes it for the next one. */
static bool
is_handed_on(const struct kernel *k, uint32_t n, value_id v)
{
	uint32_t i;

	for (i = 0; k->launch && k->launch->sums && i + 1 < n &&
	     !kernel_makes(&k[i], v); i++) {
	}
	return k->launch && k->launch->sums && i + 1 < n;
}

/* Appends what member k[at] of n reads and writes; what is read twice counts
 * once. */
static void
add_uses(struct arena *a, struct kernel *to, const struct kernel *k,
	 uint32_t n, uint32_t at, struct kernel_work *work)
{
	const struct kernel *x = &k[at];
	uint32_t i;

	work->read_bytes += x->work->read_bytes;
	for (i = 0; i < x->inputs.n; i++) {
		const struct kernel_use *u = &x->inputs.at[i];

		if (kernel_reads(to, u->value) ||
		    is_handed_on(k, n, u->value)) {
			work->read_bytes -= u->bytes;
		} else {
			VEC_PUSH(a, &to->inputs, *u);
		}
	}
	work->write_bytes += x->work->write_bytes;
	for (i = 0; i < x->outputs.n; i++) {
		const struct kernel_use *u = &x->outputs.at[i];

		if (is_handed_on(k, n, u->value)) {
			work->write_bytes -= u->bytes;
		} else {
			VEC_PUSH(a, &to->outputs, *u);
		}
	}
}

/* Their rows are one after another, or their columns, or what they sum over. */
static void
add_work(struct kernel_work *to, const struct kernel *k)
{
	const struct kernel_dot *d = &k->work->dot;

	to->flops += k->work->flops;
	if (k->launch->sums) {
		to->dot.k += d->k;
	} else if (k->launch->by_rows) {
		to->dot.m += d->m;
	} else {
		to->dot.n += d->n;
	}
}

void
kernel_of_launch(const struct kernel_list *l, uint32_t i, struct arena *a,
		 struct kernel *out)
{
	const struct kernel *k = &l->at.at[i];
	uint32_t n = k->launch ? k->launch->n : 1, j, x;
	struct kernel_work *work = arena_dup(a, k->work, sizeof *work);

	*out = (struct kernel){ .kind = k->kind, .work = work };
	work->read_bytes = work->write_bytes = 0;
	for (j = 0; j < n; j++) {
		VEC_PUSH(a, &out->members, k[j]);
		for (x = 0; x < k[j].nodes.n; x++) {
			VEC_PUSH(a, &out->nodes, k[j].nodes.at[x]);
		}
		add_uses(a, out, k, n, j, work);
	}
	for (j = 1; j < n; j++) {
		add_work(work, &k[j]);
	}
}
