/*
 * Contractions: a group whose head is a `dot`, with the maps behind it.
 *
 * The result is cut into blocks of rows and columns; a block is an item.  Rows
 * of A are packed in a step before, for all items; each item packs the columns
 * of B that it wants, a stretch of k at a time, and so they are read from the
 * second cache.  What stands behind the dot is computed on an item's tile
 * while it is there.
 */
#include "codegen/cpu/dot.h"

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
is_output(const struct dot *d)
{
	uint32_t i;

	for (i = 0; i < d->k->outputs.n; i++) {
		if (d->k->outputs.at[i].value == d->value) {
			return true;
		}
	}
	return false;
}

/* ---- what it makes ---- */

static void
find_nodes(struct dot *d, node_id head)
{
	uint32_t i;

	for (i = 0; i < d->k->nodes.n; i++) {
		node_id id = d->k->nodes.at[i];

		VEC_PUSH(d->c->a, &d->nodes, id);
		d->whole_last |= id != head &&
			ir_is(ir_node(d->c->m, id)->op, IRF_ROWWISE);
	}
}

/* The value that is accumulated, if that is all that is done; or 0. */
static value_id
summed(const struct dot *d, node_id head, node_id *sink)
{
	const struct ir_node *n;

	if (d->nodes.n != 2 || is_output(d)) {
		return 0;
	}
	*sink = d->nodes.at[d->nodes.at[0] == head];
	n = ir_node(d->c->m, *sink);
	return n->op == IR_ACCUMULATE ? ir_args(d->c->m, n)[0] : 0;
}

/* The result's last dim is one of A's, if `v` is what is stored of it. */
static bool
is_turned(const struct dot *d, value_id v, const struct ir_factor *rows)
{
	const struct ir_type *t = v ? ir_type(d->c->m, v) : NULL;
	uint32_t i;

	for (i = 0; t && t->ndims > 0 && i < rows->n; i++) {
		if (rows->dims[i] == t->dims[t->ndims - 1]) {
			return true;
		}
	}
	return false;
}

/* Whether v is the result, its dims in the order of these factors. */
static bool
lies_as(const struct dot *d, value_id v, const struct ir_factor *const *f)
{
	const struct ir_module *m = d->c->m;
	const struct ir_type *t = ir_type(m, v);
	const struct ir_node *n = ir_node(m, m->values.at[v].node);
	uint32_t i, j, at = 0;

	if (v != d->value &&
	    (n->op != IR_ARRANGE || ir_args(m, n)[0] != d->value)) {
		return false;
	}
	for (i = 0; i < 3; i++) {
		for (j = 0; j < f[i]->n; j++, at++) {
			if (at == t->ndims || t->dims[at] != f[i]->dims[j]) {
				return false;
			}
		}
	}
	return at == t->ndims;
}

/* Factors are those of the batch, of rows and of columns. */
static void
find_result(struct dot *d, node_id head, const struct ir_factor *const *f)
{
	bool f32 = ir_type(d->c->m, d->value)->dtype == IR_F32;
	node_id sink = 0;
	value_id v = summed(d, head, &sink);

	d->result = DOT_BOX;
	if (f32 && d->nodes.n == 1 && is_output(d)) {
		d->result = DOT_STORE;
		d->target = cg_operand(d->c->a, d->out, d->value, 0, true);
	} else if (f32 && v && lies_as(d, v, f)) {
		d->result = DOT_ADD;
		d->target = cg_operand(d->c->a, d->out, 0, sink, true);
		d->old = cg_num(d->c->a, d->out, CG_OLD, sink);
	}
}

/* ---- how it lies ---- */

/* Dims of a factor by their distance in operand `by`, largest first. */
static void
sort_dims(const struct dot *d, const struct ir_type *t, int by, dim_id *dims,
	  uint32_t n)
{
	const int64_t *stride = d->source[by].view.stride;
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
dot_add_factor(const struct dot *d, const struct ir_factor *f,
	       const dim_id *dims, const struct ir_type *const *types,
	       struct dot_factor *to)
{
	int64_t stride[2], size = 0;
	uint32_t i, k;

	to->size = 1;
	for (i = 0; i < f->n; i++) {
		for (k = 0; k < 2; k++) {
			int at = ir_type_at(types[k], dims[i]);

			stride[k] = at < 0 ? 0 : d->source[k].view.stride[at];
			if (at >= 0) {
				size = cg_cpu_local(d->c, dims[i],
						    types[k]->cut[at]);
			}
		}
		dot_factor_add(to, size, stride[0], stride[1]);
	}
}

void
dot_add_dims(const struct dot *d, const struct ir_factor *f,
	     struct dot_dims *to)
{
	const struct ir_type *t = ir_type(d->c->m, d->value);
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		int at = ir_type_at(t, f->dims[i]);

		to->at[to->n] = at;
		to->size[to->n++] = cg_cpu_local(d->c, f->dims[i],
						 t->cut[at]);
	}
	if (to->n == 0) {
		to->at[0] = -1;
		to->size[to->n++] = 1;
	}
}

/*
 * Rows are those of A, unless what is stored wants its own side by side, as
 * the gradient of a weight that lies as [in, out]: then rows are those of B.
 */
static bool
find_factors(struct dot *d, node_id head)
{
	struct ir_module *m = d->c->m;
	const struct ir_node *n = ir_node(m, head);
	const value_id *args = ir_args(m, n);
	const struct ir_type *types[2];
	const struct ir_factor *f[3], *k;
	node_id sink;
	struct ir_rule r;
	dim_id over[IR_MAX_DIMS];
	uint32_t i, t;

	ir_bind(m, n, &r);
	t = is_turned(d, summed(d, head, &sink), ir_rule_factor(&r, "M"));
	f[0] = ir_rule_factor(&r, "B");
	f[1] = ir_rule_factor(&r, t ? "N" : "M");
	f[2] = ir_rule_factor(&r, t ? "M" : "N");
	k = ir_rule_factor(&r, "over");
	for (i = 0; i < 2; i++) {
		types[i] = ir_type(m, args[i ^ t]);
		if (!dot_source(d->c, d->out, d->k, args[i ^ t],
				&d->source[i])) {
			return false;
		}
	}
	memcpy(over, k->dims, sizeof over);
	sort_dims(d, types[t], (int)t, over, k->n);	/* by A's */
	dot_add_factor(d, f[0], f[0]->dims, types, &d->batch);
	dot_add_factor(d, f[1], f[1]->dims, types, &d->m);
	dot_add_factor(d, f[2], f[2]->dims, types, &d->n);
	dot_add_factor(d, k, over, types, &d->over);
	for (i = 0; i < 3; i++) {
		dot_add_dims(d, f[i], &d->dims[i]);
	}
	find_result(d, head, f);
	return true;
}

bool
cg_dot_steps(struct cg_cpu *c, struct cg_kernel *out, const struct kernel *k,
	     const char **why)
{
	struct dot d = { .c = c, .out = out, .k = k };
	node_id head = head_of(c->m, k);
	const struct ir_node *n;

	*why = NULL;
	if (!head) {
		return false;
	}
	n = ir_node(c->m, head);
	d.value = n->result;
	d.unit = dot_unit(c, ir_type(c->m, ir_args(c->m, n)[0])->dtype);
	find_nodes(&d, head);
	return find_factors(&d, head) && dot_plan(&d) && dot_emit(&d, why);
}
