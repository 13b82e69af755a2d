/*
 * Contractions: a kernel whose head is a `dot`, with the maps that follow.
 *
 * The result is cut into blocks of rows and columns; a block is an item.
 * Either operand is packed by a step before, for all items, or by each item, a
 * stretch of k at a time, so that it is read from the second-level cache.  The
 * nodes that follow the dot are computed on an item's tile while that is in a
 * cache.
 */
#include "codegen/cpu/dot/cpu_dot.h"

#include <string.h>

/* ---- its result ---- */

/* Whether the last dim of `v`, in which the result is stored, is one of A's. */
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

/* Whether v is the result, with its dims in the order of these factors. */
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

/* Whether rows of the result lie as those of the sums do.  Sets how far apart
 * they are. */
static bool
find_pitch(struct dot *d)
{
	const struct ir_module *m = d->c->m;
	const bool *apart = d->c->apart;
	const struct cg_dims *n = &d->dims[2];

	d->pitch = cg_row_pitch(m, apart, d->value, d->n.size);
	return !apart || !apart[d->value] ||
	       (n->n == 1 && n->at[0] == ir_type(m, d->value)->ndims - 1);
}

/* The factors are those of the batch, of rows and of columns. */
static void
find_result(struct dot *d, node_id head, const struct ir_factor *const *f)
{
	bool f32 = ir_type(d->c->m, d->value)->dtype == IR_F32;
	node_id sink = 0;
	value_id v = cg_dot_summed(d->c->m, d->k, head, &sink);

	d->result = DOT_BOX;
	d->pitch = d->n.size;
	if (f32 && d->k->nodes.n == 1 && kernel_makes(d->k, d->value) &&
	    find_pitch(d)) {
		d->result = DOT_STORE;
		d->target = cg_operand(d->c->a, d->out, d->value, 0, true);
		d->far_bytes = 4;
	} else if (v && lies_as(d, v, f)) {
		d->target = cg_operand(d->c->a, d->out, 0, sink, true);
		d->pitch = d->n.size;
		d->far_bytes = f32 ? 4 : 2;
		if (f32) {
			d->result = DOT_ADD;
			d->old = cg_num(d->c->a, d->out, CG_OLD, sink);
		}
	}
}

/* ---- its dims ---- */

static void
add_factor(const struct dot *d, const struct ir_factor *f,
	       const dim_id *dims, const struct ir_type *const *types,
	       struct cg_factor *to)
{
	const struct cg_view *views[] = { &d->source[0].view,
					  &d->source[1].view };

	cg_factor_find(views, types, f, dims, to);
}

static void
add_dims(const struct dot *d, const struct ir_factor *f,
	     struct cg_dims *to)
{
	const struct cg_site s = dot_site(d->c, d->out);

	cg_dims_find(&s, ir_type(s.m, d->value), f, to);
}

static bool
is_int4(const struct dot_source *s)
{
	return s->view.dtype == IR_INT4;
}

static bool
reads_int4(const struct dot *d, value_id v)
{
	const struct ir_module *m = d->c->m;
	const struct ir_node *w = ir_rounded_weight(m, v);

	return w && ir_type(m, w->result)->dtype == IR_INT4;
}

/*
 * Rows are those of A, unless A's dims are contiguous in what is stored, as in
 * the gradient of a weight that lies as [in, out]: then rows are those of B.
 * Of an int4, which is B, k is whole groups in order, and of panels what they
 * are made of.
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
	enum ir_dtype dtype = (enum ir_dtype)ir_type(m, args[0])->dtype;
	dim_id over[IR_MAX_DIMS];
	uint32_t i, t, at;

	ir_bind(m, n, &r);
	t = !reads_int4(d, args[1]) &&
	    is_turned(d, cg_dot_summed(m, d->k, head, &sink),
		      ir_rule_factor(&r, "M"));
	f[0] = ir_rule_factor(&r, "B");
	f[1] = ir_rule_factor(&r, t ? "N" : "M");
	f[2] = ir_rule_factor(&r, t ? "M" : "N");
	k = ir_rule_factor(&r, "over");
	for (i = 0; i < 2; i++) {
		types[i] = ir_type(m, args[i ^ t]);
		if (!dot_find_source(d->c, d->out, d->k, args[i ^ t],
				&d->source[i])) {
			return false;
		}
	}
	d->unit = is_int4(&d->source[1]) ? dot_int4_unit(d->c, dtype)
					 : dot_unit(d->c, dtype);
	dot_set_panels(&d->unit, dot_in_panels(d->c, &d->source[1]),
		       d->source[1].base);
	memcpy(over, k->dims, sizeof over);
	/* in the order of A's strides, or as an int4 or panels have them */
	at = is_int4(&d->source[1]) || d->unit.panels ? 1 : t;
	cg_dims_sort(&d->source[at].view, types[at], over, k->n);
	add_factor(d, f[0], f[0]->dims, types, &d->batch);
	add_factor(d, f[1], f[1]->dims, types, &d->m);
	add_factor(d, f[2], f[2]->dims, types, &d->n);
	add_factor(d, k, over, types, &d->over);
	for (i = 0; i < 3; i++) {
		add_dims(d, f[i], &d->dims[i]);
	}
	find_result(d, head, f);
	return !is_int4(&d->source[0]) && !dot_in_panels(d->c, &d->source[0]) &&
	       (!d->unit.panels ||
		dot_reads_panels(&d->source[1], &d->n, &d->over)) &&
	       (!is_int4(&d->source[1]) || (dot_factor_dense(&d->over, 1) &&
				    d->over.size % IR_GROUP == 0));
}

bool
cg_dot_steps(struct cg_cpu *c, struct cg_kernel *out, const struct kernel *k,
	     const char **why)
{
	struct dot d = { .c = c, .out = out, .k = k };
	node_id head = cg_dot_head(c->m, k, false);
	const struct ir_node *n;

	*why = NULL;
	if (!head) {
		return false;
	}
	n = ir_node(c->m, head);
	d.value = n->result;
	d.whole_last = cg_dot_whole_last(c->m, k, head);
	return find_factors(&d, head) && dot_plan(&d) && dot_emit(&d, why);
}
