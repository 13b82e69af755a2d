/*
 * Contractions with experts: whose they are, and what forward and gradients
 * share.
 *
 * Sorting keeps the order of pairs, and blocks depend on counts alone, so that
 * sums are always the same ones.
 */
#include "codegen/cuda/experts/cuda_experts.h"

/* ---- dims ---- */

/* Sum of the places of number `i`, times their distances. */
static const char *
sum_at(struct arena *a, const struct cg_counted *d, const char *i, int which)
{
	const char *sum = "0", *here;
	int64_t below = 1, stride;
	uint32_t k;

	for (k = d->n; k-- > 0; below *= d->at[k].size) {
		stride = which == 2 ? d->at[k].out : d->at[k].stride[which];
		if (stride == 0 || d->at[k].size == 1) {
			continue;
		}
		here = below == 1 ? i
			: arena_printf(a, "%s / %lld", i, (long long)below);
		if (k > 0) {
			here = arena_printf(a, "%s %% %lld", here,
					    (long long)d->at[k].size);
		}
		sum = arena_printf(a, "%s + (i64)(%s) * %lld", sum, here,
				   (long long)stride);
	}
	return sum;
}

const char *
cu_experts_at(struct arena *a, const struct cu_experts *x, int which)
{
	return arena_printf(a, "(%s + %s)", sum_at(a, &x->p.pairs, "p", which),
			    sum_at(a, &x->p.rows, "in", which));
}

const char *
cu_experts_list(struct cu_func *f, int64_t list)
{
	return arena_printf(f->k->c->a, "((const i32 *)(a.shared + %lld))",
			    (long long)list);
}

/* ---- tiles ---- */

void
cu_experts_ways(struct cu_experts *x)
{
	cu_ways_begin(&x->dot, &x->ways);
	cu_ways_clear(&x->ways);
	x->ways.counted = false;	/* the router decides */
}

bool
cu_experts_take(struct cu_experts *x, const struct cu_tile *t, double cycles)
{
	struct plan_tile tile = { .num = {
		[PLAN_TILE_M] = t->m, [PLAN_TILE_N] = t->n,
		[PLAN_TILE_K] = t->k, [PLAN_TILE_STAGES] = t->stages,
		[PLAN_TILE_WARPS] = t->threads / 32
	} };

	return cu_ways_take(x->dot.k->c->a, &x->ways, &tile, false, cycles);
}

/* ---- which ---- */

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
		if (!cu_view(d->k, d->x, x->p.from[i], &d->view[i]) ||
		    !cu_dot_can_read(d->view[i].dtype)) {
			return false;
		}
	}
	d->unit = cu_dot_unit(d->k->c->arch, d->view[0].dtype,
			      d->view[1].dtype);
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
	bool to, ok;

	if (!head || !find(&x, head)) {
		return false;
	}
	to = x.p.node->op == IR_DOT_TO;
	cu_dot_find_result(&x.dot, head);
	if (!(to ? cu_experts_plan_to(&x) : cu_experts_plan_at(&x))) {
		return false;
	}
	cu_experts_sort(&x);
	x.ways.first = k->out->steps.n;
	ok = to ? cu_experts_to_step(&x) : cu_experts_at_step(&x);
	if (ok) {
		cu_ways_end(&x.dot);
	}
	return ok;
}
