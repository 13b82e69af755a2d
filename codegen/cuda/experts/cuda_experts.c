/*
 * Contractions with experts: which kernels these are, and their steps.
 *
 * Sorting keeps the order of pairs, and blocks depend on counts alone, so the
 * order of every sum is always the same.
 */
#include "codegen/cuda/experts/cuda_experts.h"

static bool
find(struct cu_experts *x, node_id head)
{
	struct cu_dot *d = &x->dot;
	const struct cg_view *views[] = { &d->view[0], &d->view[1] };
	const struct cg_site site = cu_site(d->k);
	int64_t rows;
	int i;

	cg_picks_begin(&site, head, &x->p);
	d->node = x->p.node;
	d->value = d->node->result;
	d->dtype = (enum ir_dtype)ir_type(site.m, d->value)->dtype;
	for (i = 0; i < 2; i++) {
		if (!cu_dot_view(d, i, x->p.from[i])) {
			return false;
		}
	}
	d->unit = cu_dot_unit_of(d->k->c->arch,
				 (enum ir_dtype)x->p.types[0]->dtype,
				 (enum ir_dtype)x->p.types[1]->dtype);
	if (!cg_picks_find(&site, d->x, views, &x->p)) {
		return false;
	}
	rows = x->p.pairs.size * x->p.rows.size;
	return rows > 0 && x->p.n > 0 && rows <= INT32_MAX / 2;
}

bool
cu_experts_steps(struct cu_kernel *k, const struct kernel *kernel)
{
	struct cu_experts x = { .dot = { .k = k, .x = kernel } };
	node_id head = cg_dot_head(k->c->m, kernel, true);
	bool ok;

	if (!head || !find(&x, head)) {
		return false;
	}
	x.to = x.p.node->op == IR_DOT_TO;
	cu_dot_find_result(&x.dot, head);
	if (!cu_experts_plan(&x)) {
		return false;
	}
	cu_experts_sort(&x);
	x.candidates.first = k->out->steps.n;
	ok = x.to ? cu_experts_to_step(&x) : cu_experts_at_step(&x);
	if (ok) {
		cu_candidates_end(&x.dot);
	}
	return ok;
}
