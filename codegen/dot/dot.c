/*
 * What is contracted, and how it lies in memory: the same for every back end.
 */
#include "codegen/dot/dot.h"

/* ---- which group ---- */

node_id
cg_dot_head(const struct ir_module *m, const struct kernel *x, bool picks)
{
	node_id head = 0;
	uint32_t i;

	for (i = 0; i < x->nodes.n; i++) {
		enum ir_op op = ir_node(m, x->nodes.at[i])->op;

		if (!ir_is(op, IRF_CONTRACTS)) {
			continue;
		}
		if (head || ir_is(op, IRF_PAIRS) ||
		    ir_is(op, IRF_INDEXED) != picks) {
			return 0;
		}
		head = x->nodes.at[i];
	}
	return head;
}

bool
cg_dot_whole_last(const struct ir_module *m, const struct kernel *x,
		  node_id head)
{
	uint32_t i;

	for (i = 0; i < x->nodes.n; i++) {
		node_id id = x->nodes.at[i];

		if (id != head && ir_is(ir_node(m, id)->op, IRF_ROWWISE)) {
			return true;
		}
	}
	return false;
}

value_id
cg_dot_summed(const struct ir_module *m, const struct kernel *x, node_id head,
	      node_id *sink)
{
	const struct ir_node *n;

	if (x->nodes.n != 2 || kernel_makes(x, ir_node(m, head)->result)) {
		return 0;
	}
	*sink = x->nodes.at[x->nodes.at[0] == head];
	n = ir_node(m, *sink);
	return n->op == IR_ACCUMULATE ? ir_args(m, n)[0] : 0;
}

/* ---- how it lies ---- */

void
cg_factor_add(struct cg_factor *f, int64_t size, int64_t stride0,
	      int64_t stride1)
{
	struct cg_run *last = f->n ? &f->at[f->n - 1] : NULL;

	f->size *= size;
	if (size == 1) {
		return;
	}
	if (last && last->stride[0] == stride0 * size &&
	    last->stride[1] == stride1 * size) {
		last->size *= size;
		last->stride[0] = stride0;
		last->stride[1] = stride1;
		return;
	}
	f->at[f->n++] = (struct cg_run){ size, { stride0, stride1 } };
}

void
cg_factor_find(const struct cg_view *const *views,
	       const struct ir_type *const *types, const struct ir_factor *f,
	       const dim_id *dims, struct cg_factor *to)
{
	int64_t stride[2], size = 0;
	uint32_t i, k;

	to->size = 1;
	for (i = 0; i < f->n; i++) {
		for (k = 0; k < 2; k++) {
			int at = ir_type_at(types[k], dims[i]);

			stride[k] = at < 0 ? 0 : views[k]->stride[at];
			if (at >= 0) {
				size = views[k]->size[at];
			}
		}
		cg_factor_add(to, size, stride[0], stride[1]);
	}
}

void
cg_dims_find(const struct cg_site *s, const struct ir_type *result,
	     const struct ir_factor *f, struct cg_dims *to)
{
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		int at = ir_type_at(result, f->dims[i]);

		to->at[to->n] = at;
		to->size[to->n++] = cg_local_size(s->m, s->at, f->dims[i],
						  result->cut[at]);
	}
	if (to->n == 0) {
		to->at[0] = -1;
		to->size[to->n++] = 1;
	}
}

void
cg_dims_sort(const struct cg_view *v, const struct ir_type *t, dim_id *dims,
	     uint32_t n)
{
	uint32_t i, j;

	for (i = 1; i < n; i++) {
		for (j = i; j > 0 && v->stride[ir_type_at(t, dims[j - 1])] <
				     v->stride[ir_type_at(t, dims[j])]; j--) {
			dim_id x = dims[j];

			dims[j] = dims[j - 1];
			dims[j - 1] = x;
		}
	}
}

/* ---- blocks that are boxes ---- */

struct cg_split
cg_split_begin(const struct cg_dims *d, int64_t want)
{
	struct cg_split s = { .cut = d->n - 1, .inner = 1 };

	while (s.cut > 0 && s.inner * d->size[s.cut] <= want) {
		s.inner *= d->size[s.cut--];
	}
	s.step = want / s.inner;
	s.step = s.step < 1 ? 1 : s.step;
	s.chunks = (d->size[s.cut] + s.step - 1) / s.step;
	return s;
}

void
cg_split_end(const struct cg_dims *d, struct cg_split *s)
{
	uint32_t i;

	if (s->step > d->size[s->cut]) {
		s->step = d->size[s->cut];
	}
	s->chunks = (d->size[s->cut] + s->step - 1) / s->step;
	s->blocks = s->chunks;
	for (i = 0; i < s->cut; i++) {
		s->blocks *= d->size[i];
	}
	s->most = s->step * s->inner;
}

bool
cg_split_cuts_last(const struct cg_dims *d, const struct cg_split *s)
{
	return s->cut == d->n - 1 && s->chunks > 1;
}
