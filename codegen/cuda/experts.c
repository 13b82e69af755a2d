/*
 * Contractions with experts: whose they are, and what forward and gradients
 * share.
 *
 * Sorting keeps the order of pairs, and blocks depend on counts alone, so that
 * sums are always the same ones.
 */
#include "codegen/cuda/experts.h"

/* ---- dims ---- */

static int64_t
stride_in(const struct cg_cuda *c, const struct ir_type *t, dim_id d)
{
	int64_t n = 1;
	uint32_t i;

	for (i = t->ndims; i-- > 0 && t->dims[i] != d; ) {
		n *= cu_local(c, t->dims[i], t->cut[i]);
	}
	return i < t->ndims ? n : 0;
}

/* Dims of the factor behind those that are there. */
static void
add(struct cu_experts *x, const char *factor, struct cu_counted *to)
{
	const struct ir_factor *f = ir_rule_factor(&x->rule, factor);
	const struct cg_cuda *c = x->dot.k->c;
	const struct ir_type *out = ir_type(c->m, x->dot.value);
	uint32_t i, k;

	for (i = 0; i < f->n; i++) {
		dim_id d = f->dims[i];
		int at = ir_type_at(x->chosen, d);

		to->at[to->n].index = stride_in(c, x->chosen, d);
		to->at[to->n].out = stride_in(c, out, d);
		to->at[to->n].at = ir_type_at(out, d);
		if (at >= 0) {
			to->at[to->n].size = cu_local(c, d,
						      x->chosen->cut[at]);
		}
		for (k = 0; k < 2; k++) {
			at = ir_type_at(x->types[k], d);
			to->at[to->n].stride[k] = at < 0 ? 0
				: x->dot.view[k].stride[at];
			if (at >= 0) {
				to->at[to->n].size = x->dot.view[k].size[at];
			}
		}
		to->size *= to->at[to->n++].size;
	}
}

/* Sum of the places of number `i`, times their distances. */
static const char *
sum_at(struct arena *a, const struct cu_counted *d, const char *i, int which)
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
	return arena_printf(a, "(%s + %s)", sum_at(a, &x->pairs, "p", which),
			    sum_at(a, &x->rows, "in", which));
}

const char *
cu_experts_list(struct cu_func *f, int64_t list)
{
	return arena_printf(f->k->c->a, "((const i32 *)(a.shared + %lld))",
			    (long long)list);
}

/* ---- which ---- */

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
		if (head || (n->op != IR_DOT_AT && n->op != IR_DOT_TO)) {
			return 0;
		}
		head = k->nodes.at[i];
	}
	return head;
}

/* Where the index and experts lie; `has`: a type that has the latter. */
static bool
find_index(struct cu_experts *x, value_id index, const struct ir_type *has)
{
	struct cu_dot *d = &x->dot;
	struct ir_module *m = d->k->c->m;
	uint32_t i;

	for (i = 0; i < d->x->inputs.n &&
	     d->x->inputs.at[i].value != index; i++) {
	}
	if (i == d->x->inputs.n) {
		return false;
	}
	x->index = cg_operand(d->k->c->a, d->k->out, index, 0, false);
	x->chosen = ir_type(m, index);
	x->of = ir_rule_factor(&x->rule, "of")->dims[0];
	x->cut = has->cut[ir_type_at(has, x->of)];
	x->n = cu_local(d->k->c, x->of, x->cut);
	x->spread = cg_spread(d->k->c->a, d->k->out, ir_dim_size(m, x->of),
			      x->cut);
	x->others = x->cut && !ir_type(m, d->value)->routed;
	return true;
}

static bool
find(struct cu_experts *x, bool to)
{
	struct cu_dot *d = &x->dot;
	struct ir_module *m = d->k->c->m;
	const value_id *args = ir_args(m, d->node);
	value_id from[2];
	int i;

	ir_bind(m, d->node, &x->rule);
	from[0] = args[to ? 1 : 0];
	from[1] = args[to ? 0 : 2];
	d->value = d->node->result;
	d->dtype = (enum ir_dtype)ir_type(m, d->value)->dtype;
	for (i = 0; i < 2; i++) {
		x->types[i] = ir_type(m, from[i]);
		if (!cu_view(d->k, d->x, from[i], &d->view[i]) ||
		    !cu_dot_can_read(d->view[i].dtype)) {
			return false;
		}
	}
	d->unit = cu_dot_unit(d->k->c->arch, d->view[0].dtype,
			      d->view[1].dtype);
	if (!find_index(x, args[to ? 2 : 1], to ? ir_type(m, d->value)
						: x->types[1])) {
		return false;
	}
	x->pairs.size = x->rows.size = 1;
	add(x, "S", &x->pairs);
	add(x, "C", &x->pairs);
	add(x, "M", &x->rows);
	return x->pairs.size * x->rows.size > 0 && x->n > 0 &&
	       x->pairs.size * x->rows.size <= INT32_MAX / 2;
}

bool
cu_experts_steps(struct cu_kernel *k, const struct kernel *kernel)
{
	struct cu_experts x = { .dot = { .k = k, .x = kernel } };
	node_id head = head_of(k->c->m, kernel);
	bool to;

	if (!head) {
		return false;
	}
	x.dot.node = ir_node(k->c->m, head);
	to = x.dot.node->op == IR_DOT_TO;
	if (!find(&x, to)) {
		return false;
	}
	cu_dot_find_result(&x.dot, head);
	if (!(to ? cu_experts_plan_to(&x) : cu_experts_plan_at(&x))) {
		return false;
	}
	cu_experts_sort(&x);
	return to ? cu_experts_to_step(&x) : cu_experts_at_step(&x);
}
