/*
 * A launch of several contractions as one kernel, which reads and writes what
 * all of them do, but for what one hands to another.
 */
#include "passes/kernels/kernels.h"

bool
kernel_hands_on(const struct kernel_launch *l, value_id v)
{
	const struct kernel *first = l->of[0];
	uint32_t i;

	for (i = 0; l->sums && i + 1 < l->n && !kernel_makes(l->of[i], v);
	     i++) {
	}
	if (l->sums) {
		return i + 1 < l->n;
	}
	for (i = 0; l->paired && i < first->outputs.n &&
	     first->outputs.at[i].value != v; i++) {
	}
	return l->paired && i < first->outputs.n && l->unread >> i & 1;
}

/* Whether member `at` has v of another one: one makes it, or an earlier one
 * reads it as well. */
static bool
is_had(const struct kernel_launch *l, uint32_t at, value_id v)
{
	uint32_t i;

	for (i = 0; i < l->n; i++) {
		if (kernel_makes(l->of[i], v) ||
		    (i < at && kernel_reads(l->of[i], v))) {
			return true;
		}
	}
	return false;
}

void
kernel_member_bytes(const struct kernel *k, double *read, double *write)
{
	const struct kernel_launch *l = k->launch;
	uint32_t i;

	*read = k->work->read_bytes;
	*write = k->work->write_bytes;
	for (i = 0; l && i < k->inputs.n; i++) {
		const struct kernel_use *u = &k->inputs.at[i];

		*read -= is_had(l, l->at, u->value) ? u->bytes : 0;
	}
	for (i = 0; l && i < k->outputs.n; i++) {
		const struct kernel_use *u = &k->outputs.at[i];

		*write -= kernel_hands_on(l, u->value) ? u->bytes : 0;
	}
}

/* Appends what a kernel reads and writes; of a member of a launch, what others
 * have not. */
static void
add_uses(struct arena *a, struct kernel *to, const struct kernel *k,
	 struct kernel_work *work)
{
	const struct kernel_launch *l = k->launch;
	double read, write;
	uint32_t i;

	kernel_member_bytes(k, &read, &write);
	work->read_bytes += read;
	work->write_bytes += write;
	for (i = 0; i < k->inputs.n; i++) {
		if (!l || !is_had(l, l->at, k->inputs.at[i].value)) {
			VEC_PUSH(a, &to->inputs, k->inputs.at[i]);
		}
	}
	for (i = 0; i < k->outputs.n; i++) {
		if (!l || !kernel_hands_on(l, k->outputs.at[i].value)) {
			VEC_PUSH(a, &to->outputs, k->outputs.at[i]);
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
		add_uses(a, out, &k[j], work);
	}
	for (j = 1; j < n; j++) {
		add_work(work, &k[j]);
	}
}
