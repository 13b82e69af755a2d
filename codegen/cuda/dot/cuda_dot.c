/*
 * Contractions on a GPU: which kernels are one, what is contracted, how it
 * lies in memory, and which instructions multiply.
 */
#include "codegen/cuda/dot/cuda_dot.h"

#include <string.h>

#define GROUP_BYTES (IR_GROUP / 2 + 2)	/* with its scale */

void
cu_dot_find_result(struct cu_dot *d, node_id head)
{
	const struct ir_module *m = d->k->c->m;
	struct arena *a = d->k->c->a;
	node_id sink = 0;

	d->whole_last = cg_dot_whole_last(m, d->x, head);
	d->result = CU_DOT_BOX;
	d->pitch = d->n.size;
	if (d->x->nodes.n == 1 && kernel_makes(d->x, d->value) &&
	    d->dtype != IR_F64 && cu_dot_find_pitch(d, d->value)) {
		d->result = CU_DOT_STORE;
		d->target = cg_operand(a, d->k->out, d->value, 0, true);
	} else if (d->dtype == IR_F32 &&
		   cg_dot_summed(m, d->x, head, &sink) == d->value) {
		d->result = CU_DOT_ADD;
		d->pitch = d->n.size;
		d->target = cg_operand(a, d->k->out, 0, sink, true);
		d->added = d->target;
		d->sink = sink;
	}
}

/* ---- how it lies ---- */

static void
add_factor(const struct cu_dot *d, const struct ir_factor *f,
		  const dim_id *dims, const struct ir_type *const *types,
		  struct cg_factor *to)
{
	const struct cg_view *views[] = { &d->view[0], &d->view[1] };

	cg_factor_find(views, types, f, dims, to);
}

static void
add_dims(const struct cu_dot *d, const struct ir_factor *f,
		struct cg_dims *to)
{
	const struct cg_site s = cu_site(d->k);

	cg_dims_find(&s, ir_type(s.m, d->value), f, to);
}

static void
find_factors(struct cu_dot *d)
{
	struct ir_module *m = d->k->c->m;
	const value_id *args = ir_args(m, d->node);
	const struct ir_type *types[2] = { ir_type(m, args[0]),
					   ir_type(m, args[1]) };
	const struct ir_factor *f[4];
	struct ir_rule r;
	dim_id over[IR_MAX_DIMS];

	ir_bind(m, d->node, &r);
	f[0] = ir_rule_factor(&r, "B");
	f[1] = ir_rule_factor(&r, "M");
	f[2] = ir_rule_factor(&r, "N");
	f[3] = ir_rule_factor(&r, "over");
	memcpy(over, f[3]->dims, sizeof over);
	cg_dims_sort(&d->view[d->row > 0], types[d->row > 0], over, f[3]->n);
	add_factor(d, f[0], f[0]->dims, types, &d->batch);
	add_factor(d, f[1], f[1]->dims, types, &d->m);
	add_factor(d, f[2], f[2]->dims, types, &d->n);
	add_factor(d, f[3], over, types, &d->over);
	add_dims(d, f[0], &d->dims[0]);
	add_dims(d, f[1], &d->dims[1]);
	add_dims(d, f[2], &d->dims[2]);
}

bool
cu_dot_has_rows(const struct cu_dot *d)
{
	int64_t n = 1;
	uint32_t i;

	for (i = d->over.n; d->row > 0 && i-- > 0;) {
		if (d->over.at[i].stride[1] != n) {
			return false;
		}
		n *= d->over.at[i].size;
	}
	return d->row == 0 || n == d->row;
}

/* ---- units ---- */

enum cu_dot_unit
cu_dot_unit_of(const struct cu_arch *arch, enum ir_dtype a, enum ir_dtype b)
{
	bool small = (a == IR_F8E4M3 || a == IR_F8E5M2) &&
		     (b == IR_F8E4M3 || b == IR_F8E5M2);

	if (small && a == b && arch->fp8) {
		return a == IR_F8E4M3 ? CU_DOT_E4M3 : CU_DOT_E5M2;
	}
	if (small || (a == IR_BF16 && b == IR_BF16)) {
		return CU_DOT_BF16;
	}
	if (a == IR_F16 && b == IR_F16) {
		return CU_DOT_F16;
	}
	return a == IR_TF32 && b == IR_TF32 ? CU_DOT_TF32 : CU_DOT_FMA;
}

/*
 * Offsets in a weight in groups as bytes, which a row has a whole number of.
 * False: what is read of it is no whole rows.
 */
static bool
find_rows(struct cu_dot *d, struct cg_view *v, const struct ir_type *t)
{
	const struct cg_site s = cu_site(d->k);
	int64_t bytes, row = cg_view_row(&s, v, t);
	uint32_t i;

	if (row == 0) {
		return false;
	}
	d->row = row;
	bytes = row / IR_GROUP * GROUP_BYTES;
	v->offset = v->offset / row * bytes;
	for (i = 0; i < t->ndims; i++) {
		if (v->stride[i] % row == 0) {
			v->stride[i] = v->stride[i] / row * bytes;
		}
	}
	for (i = 0; i < v->nmoved; i++) {
		v->moved[i].stride = v->moved[i].stride / row * bytes;
	}
	return true;
}

bool
cu_dot_view(struct cu_dot *d, int which, value_id v)
{
	struct cg_view *view = &d->view[which];

	if (!cu_view_of(d->k, d->x, v, view) || view->dtype == IR_F64 ||
	    view->dtype == IR_IDX) {
		return false;
	}
	return view->dtype != IR_INT4 ||
	       (which == 1 && find_rows(d, view, ir_type(d->k->c->m, v)));
}

bool
cu_dot_find(struct cu_kernel *k, const struct kernel *x, struct cu_dot *d)
{
	node_id head = cg_dot_head(k->c->m, x, false);

	return head && cu_dot_find_as(k, x, head,
				      ir_node(k->c->m, head)->result, d);
}

bool
cu_dot_find_as(struct cu_kernel *k, const struct kernel *x, node_id head,
	       value_id value, struct cu_dot *d)
{
	struct ir_module *m = k->c->m;
	const value_id *args = ir_args(m, ir_node(m, head));

	*d = (struct cu_dot){ .k = k, .x = x, .node = ir_node(m, head),
			      .value = value };
	d->dtype = (enum ir_dtype)ir_type(m, d->value)->dtype;
	if (!cu_dot_view(d, 0, args[0]) || !cu_dot_view(d, 1, args[1])) {
		return false;
	}
	d->unit = cu_dot_unit_of(k->c->arch,
				 (enum ir_dtype)ir_type(m, args[0])->dtype,
				 (enum ir_dtype)ir_type(m, args[1])->dtype);
	find_factors(d);
	if (!cu_dot_has_rows(d) || d->batch.size == 0 ||
	    d->m.size == 0 || d->n.size == 0 || d->over.size == 0 ||
	    d->m.size > INT32_MAX / 2 || d->n.size > INT32_MAX / 2 ||
	    d->over.size > INT32_MAX / 2) {
		return false;
	}
	cu_dot_find_result(d, head);
	return true;
}

bool
cu_dot_steps(struct cu_kernel *k, const struct kernel *x)
{
	struct cu_candidates candidates;
	struct cu_dot d;

	if (!cu_dot_find(k, x, &d)) {
		return false;
	}
	cu_candidates_begin(&d, 1, "", &candidates);
	if (!cu_dot90_steps(&d)) {
		cu_dot_plan(&d);
		if (!cu_dot_emit(&d)) {
			return false;
		}
	}
	cu_candidates_end(&d);
	return true;
}
