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

static void
find_result(struct dot *d, node_id head)
{
	const struct ir_module *m = d->c->m;
	bool f32 = ir_type(m, d->value)->dtype == IR_F32, stays = is_output(d);
	const struct ir_node *n = NULL;
	node_id last = 0;
	uint32_t i;

	for (i = 0; i < d->k->nodes.n; i++) {
		VEC_PUSH(d->c->a, &d->nodes, d->k->nodes.at[i]);
		if (d->k->nodes.at[i] != head) {
			last = d->k->nodes.at[i];
			n = ir_node(m, last);
			d->whole_last |= ir_is(n->op, IRF_ROWWISE);
		}
	}
	d->result = DOT_BOX;
	if (f32 && stays && d->nodes.n == 1) {
		d->result = DOT_STORE;
		d->target = cg_operand(d->c->a, d->out, d->value, 0, true);
	} else if (f32 && !stays && d->nodes.n == 2 &&
		   n->op == IR_ACCUMULATE && ir_args(m, n)[0] == d->value) {
		d->result = DOT_ADD;
		d->target = cg_operand(d->c->a, d->out, 0, last,
				       true);
		d->old = cg_num(d->c->a, d->out, CG_OLD, last);
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

static void
find_factors(struct dot *d, const struct ir_node *n)
{
	struct ir_module *m = d->c->m;
	const value_id *args = ir_args(m, n);
	const struct ir_type *types[2] = { ir_type(m, args[0]),
					   ir_type(m, args[1]) };
	const struct ir_factor *f[4];
	struct ir_rule r;
	dim_id over[IR_MAX_DIMS];

	ir_bind(m, n, &r);
	f[0] = ir_rule_factor(&r, "B");
	f[1] = ir_rule_factor(&r, "M");
	f[2] = ir_rule_factor(&r, "N");
	f[3] = ir_rule_factor(&r, "over");
	memcpy(over, f[3]->dims, sizeof over);
	sort_dims(d, types[0], 0, over, f[3]->n);
	dot_add_factor(d, f[0], r.f[f[0] - r.f].dims, types, &d->batch);
	dot_add_factor(d, f[1], r.f[f[1] - r.f].dims, types, &d->m);
	dot_add_factor(d, f[2], r.f[f[2] - r.f].dims, types, &d->n);
	dot_add_factor(d, f[3], over, types, &d->over);
	dot_add_dims(d, f[0], &d->dims[0]);
	dot_add_dims(d, f[1], &d->dims[1]);
	dot_add_dims(d, f[2], &d->dims[2]);
}

bool
cg_dot_steps(struct cg_cpu *c, struct cg_kernel *out, const struct kernel *k,
	     const char **why)
{
	struct dot d = { .c = c, .out = out, .k = k };
	node_id head = head_of(c->m, k);
	const struct ir_node *n;
	const value_id *args;

	*why = NULL;
	if (!head) {
		return false;
	}
	n = ir_node(c->m, head);
	args = ir_args(c->m, n);
	d.value = n->result;
	if (!dot_source(c, out, k, args[0], &d.source[0]) ||
	    !dot_source(c, out, k, args[1], &d.source[1])) {
		return false;
	}
	d.unit = dot_unit(c, ir_type(c->m, args[0])->dtype);
	find_result(&d, head);
	find_factors(&d, n);
	return dot_plan(&d) && dot_emit(&d, why);
}
