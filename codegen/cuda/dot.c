/*
 * Contractions: a group whose head is a `dot`, with the maps behind it; what
 * is contracted, and how it lies.
 */
#include "codegen/cuda/dot.h"

#include <string.h>

/* ---- which group ---- */

/* The one node that contracts; 0: there are more, or it is no `dot`. */
static node_id
head_of(const struct ir_module *m, const struct kernel *k)
{
	node_id head = 0;
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, k->nodes.at[i]);

		if (!ir_is(n->op, IRF_CONTRACTS)) {
			continue;
		}
		if (head || (n->op != IR_DOT && n->op != IR_DOT_F32)) {
			return 0;
		}
		head = k->nodes.at[i];
	}
	return head;
}

/* Whether the dot's own value is something that others read. */
static bool
is_output(const struct cu_dot *d)
{
	uint32_t i;

	for (i = 0; i < d->x->outputs.n; i++) {
		if (d->x->outputs.at[i].value == d->value) {
			return true;
		}
	}
	return false;
}

void
cu_dot_find_result(struct cu_dot *d, node_id head)
{
	const struct ir_module *m = d->k->c->m;
	struct arena *a = d->k->c->a;
	const struct ir_node *n = NULL;
	bool stays = is_output(d);
	node_id last = 0;
	uint32_t i;

	for (i = 0; i < d->x->nodes.n; i++) {
		VEC_PUSH(a, &d->nodes, d->x->nodes.at[i]);
		if (d->x->nodes.at[i] != head) {
			last = d->x->nodes.at[i];
			n = ir_node(m, last);
			d->whole_last |= ir_is(n->op, IRF_ROWWISE);
		}
	}
	d->result = CU_DOT_BOX;
	if (stays && d->nodes.n == 1 && d->dtype != IR_F64) {
		d->result = CU_DOT_STORE;
		d->target = cg_operand(a, d->k->out, d->value, 0, true);
	} else if (d->dtype == IR_F32 && !stays && d->nodes.n == 2 &&
		   n->op == IR_ACCUMULATE && ir_args(m, n)[0] == d->value) {
		d->result = CU_DOT_ADD;
		d->target = cg_operand(a, d->k->out, 0, last, true);
	}
}

/* ---- how it lies ---- */

/* Dims of a factor by their distance in operand `by`, largest first. */
static void
sort_dims(const struct cu_dot *d, const struct ir_type *t, int by,
	  dim_id *dims, uint32_t n)
{
	const int64_t *stride = d->view[by].stride;
	uint32_t i, j;

	for (i = 1; i < n; i++) {
		for (j = i; j > 0 && stride[ir_type_at(t, dims[j - 1])] <
				     stride[ir_type_at(t, dims[j])]; j--) {
			dim_id x = dims[j];

			dims[j] = dims[j - 1];
			dims[j - 1] = x;
		}
	}
}

void
cu_dot_add_factor(const struct cu_dot *d, const struct ir_factor *f,
		  const dim_id *dims, const struct ir_type *const *types,
		  struct cu_factor *to)
{
	int64_t stride[2], size = 0;
	uint32_t i, k;

	to->size = 1;
	for (i = 0; i < f->n; i++) {
		for (k = 0; k < 2; k++) {
			int at = ir_type_at(types[k], dims[i]);

			stride[k] = at < 0 ? 0 : d->view[k].stride[at];
			if (at >= 0) {
				size = d->view[k].size[at];
			}
		}
		cu_factor_add(to, size, stride[0], stride[1]);
	}
}

void
cu_dot_add_dims(const struct cu_dot *d, const struct ir_factor *f,
		struct cu_dims *to)
{
	const struct ir_type *t = ir_type(d->k->c->m, d->value);
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		int at = ir_type_at(t, f->dims[i]);

		to->at[to->n] = at;
		to->size[to->n++] = cu_local(d->k->c, f->dims[i], t->cut[at]);
	}
	if (to->n == 0) {
		to->at[0] = -1;
		to->size[to->n++] = 1;
	}
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
	sort_dims(d, types[0], 0, over, f[3]->n);
	cu_dot_add_factor(d, f[0], f[0]->dims, types, &d->batch);
	cu_dot_add_factor(d, f[1], f[1]->dims, types, &d->m);
	cu_dot_add_factor(d, f[2], f[2]->dims, types, &d->n);
	cu_dot_add_factor(d, f[3], over, types, &d->over);
	cu_dot_add_dims(d, f[0], &d->dims[0]);
	cu_dot_add_dims(d, f[1], &d->dims[1]);
	cu_dot_add_dims(d, f[2], &d->dims[2]);
}

/* ---- units ---- */

enum cu_dot_unit
cu_dot_unit(const struct cu_arch *arch, enum ir_dtype a, enum ir_dtype b)
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

bool
cu_dot_can_read(enum ir_dtype t)
{
	return t != IR_F64 && t != IR_IDX;
}

bool
cu_dot_find(struct cu_kernel *k, const struct kernel *x, struct cu_dot *d)
{
	struct ir_module *m = k->c->m;
	node_id head = head_of(m, x);
	const value_id *args;

	*d = (struct cu_dot){ .k = k, .x = x };
	if (!head) {
		return false;
	}
	d->node = ir_node(m, head);
	args = ir_args(m, d->node);
	d->value = d->node->result;
	d->dtype = (enum ir_dtype)ir_type(m, d->value)->dtype;
	if (!cu_view(k, x, args[0], &d->view[0]) ||
	    !cu_view(k, x, args[1], &d->view[1]) ||
	    !cu_dot_can_read(d->view[0].dtype) ||
	    !cu_dot_can_read(d->view[1].dtype)) {
		return false;
	}
	d->unit = cu_dot_unit(k->c->arch, d->view[0].dtype,
			      d->view[1].dtype);
	find_factors(d);
	if (d->batch.size == 0 || d->m.size == 0 || d->n.size == 0 ||
	    d->over.size == 0 || d->m.size > INT32_MAX / 2 ||
	    d->n.size > INT32_MAX / 2 || d->over.size > INT32_MAX / 2) {
		return false;
	}
	cu_dot_find_result(d, head);
	return true;
}

bool
cu_dot_steps(struct cu_kernel *k, const struct kernel *x)
{
	struct cu_ways ways;
	struct cu_dot d;

	if (!cu_dot_find(k, x, &d)) {
		return false;
	}
	cu_ways_begin(&d, &ways);
	if (!cu_dot90_steps(&d)) {
		cu_dot_plan(&d);
		if (!cu_dot_emit(&d)) {
			return false;
		}
	}
	cu_ways_end(&d);
	return true;
}
