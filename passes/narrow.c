/*
 * narrow: runs forward contractions of layers in 8 bits, if `train.matmul`
 * asks for that.
 *
 * It needs a flat training program.  It replaces each contraction with a weight
 * inside a repeat by one of two f8e4m3 operands:
 *
 *	s = max(amax(x, over), tiny) / 448      a number for each row
 *	y = rescale(dot_f32(quantize(x, s), quantize(w, t)) * s, t)
 *
 * where t is the scale s of the weight.  With experts it is dot_at_f32, and a
 * row of the weight is that row of all experts together: a scale for each would
 * have to be looked up by the index, where ranks have some experts alone.
 * Scales come from the current values, one for each row along k.  So they do
 * not depend on how batch and sequence are split or on the microbatch size;
 * only if k, or experts, are split must ranks reduce a row's maximum.  All of
 * this is ordinary ops, which place, fuse and the back ends know.
 *
 * Backward contractions keep their type: gradients have a wider range than 8
 * bits.  This pass runs after autodiff, so they are the derivatives of the
 * model's own contraction.  Also kept: results wider than 16 bits, which a
 * model asks for by `dtype = f32`; values that choose experts, since a
 * rounding there changes the choice; and contractions outside of repeats, such
 * as the logits.  It runs before the search, which prices its ops.
 */
#include "passes/derive.h"
#include "passes/price/target.h"

#include <string.h>

#define TINY 1e-30	/* amax of rows that are all 0 */
#define MOST_E4M3 448	/* largest f8e4m3: OCP FP8, table 1 */

struct narrow {
	struct pass_ctx *p;
	struct ir_module *m;
	region_id r;		/* where new nodes go */
	bool *chooses;		/* by value: an index depends on it */
	struct span span;
	VEC(value_id) from, to;
};

/* ---- which contractions to narrow ---- */

static bool
is_wanted(const struct narrow *x, const struct ir_node *n)
{
	const value_id *args = ir_args(x->m, n);

	if (n->op != IR_DOT && n->op != IR_DOT_AT) {
		return false;
	}
	return !x->chooses[n->result] &&
	       ir_dtypes[ir_type(x->m, n->result)->dtype].bits == 16 &&
	       pass_is_weight(x->m, args[0]) !=
	       pass_is_weight(x->m, args[n->nargs - 1]);
}

/* ---- the replacement ---- */

static value_id
op2(struct narrow *x, enum ir_op op, value_id a, value_id b,
    enum ir_dtype dtype)
{
	struct ir_new n;

	ir_new_init(&n, op, x->span);
	ir_new_arg(&n, a);
	ir_new_arg(&n, b);
	n.types[0].dtype = (uint8_t)dtype;
	return derive_append(x->m, x->r, &n);
}

static value_id
number(struct narrow *x, double v)
{
	struct ir_type f32 = { .dtype = IR_F32 };

	return derive_full(x->m, x->r, v, &f32, x->span);
}

/* v with contracted dims last, as matrix units need it for 8 bits. */
static value_id
along_k(struct narrow *x, value_id v, const struct ir_attr *over)
{
	const struct ir_type t = *ir_type(x->m, v);
	struct ir_type want = t;
	uint8_t n = 0, i;

	for (i = 0; i < t.ndims; i++) {
		if (!ir_attr_has(over, t.dims[i])) {
			want.dims[n++] = t.dims[i];
		}
	}
	for (i = 0; i < t.ndims; i++) {
		if (ir_attr_has(over, t.dims[i])) {
			want.dims[n++] = t.dims[i];
		}
	}
	return derive_fit(x->m, x->r, v, &want, x->span);
}

/* v / *scale in 8 bits, one scale per row; `of`: the dim of experts that it
 * holds for together, or NULL. */
static value_id
quantized(struct narrow *x, value_id v, const struct ir_attr *over,
	  const struct ir_attr *of, value_id *scale)
{
	struct ir_attr *rows;
	struct ir_new n;

	v = along_k(x, v, over);
	ir_new_init(&n, IR_AMAX, x->span);
	ir_new_arg(&n, v);
	rows = ir_new_attr(&n, IR_ATTR_OVER);
	*rows = *over;
	if (of) {
		rows->dims[rows->ndims++] = of->dims[0];
	}
	*scale = derive_append(x->m, x->r, &n);
	*scale = op2(x, IR_MAX, *scale, number(x, TINY), IR_F32);
	*scale = op2(x, IR_MUL, *scale, number(x, 1.0 / MOST_E4M3), IR_F32);
	return op2(x, IR_QUANTIZE, v, *scale, IR_F8E4M3);
}

static void
narrowed(struct narrow *x, node_id id)
{
	const struct ir_node dot = *ir_node(x->m, id);
	const struct ir_attr over = *ir_attr(x->m, &dot, IR_ATTR_OVER);
	const struct ir_attr *at = ir_attr(x->m, &dot, IR_ATTR_OF);
	const struct ir_attr of = at ? *at : (struct ir_attr){ 0 };
	value_id a[2], scale[2], y;
	struct ir_new n;

	x->span = dot.span;
	a[0] = quantized(x, ir_args(x->m, &dot)[0], &over, NULL, &scale[0]);
	a[1] = quantized(x, ir_args(x->m, &dot)[dot.nargs - 1], &over,
			 at ? &of : NULL, &scale[1]);
	ir_new_init(&n, at ? IR_DOT_AT_F32 : IR_DOT_F32, x->span);
	ir_new_arg(&n, a[0]);
	if (at) {
		ir_new_arg(&n, ir_args(x->m, &dot)[1]);
	}
	ir_new_arg(&n, a[1]);
	*ir_new_attr(&n, IR_ATTR_OVER) = over;
	if (at) {
		*ir_new_attr(&n, IR_ATTR_OF) = of;
	}
	y = derive_append(x->m, x->r, &n);
	y = op2(x, IR_MUL, y, scale[0], IR_F32);
	y = op2(x, IR_RESCALE, y, scale[1],
		(enum ir_dtype)ir_type(x->m, dot.result)->dtype);
	y = derive_fit(x->m, x->r, y, ir_type(x->m, dot.result), x->span);
	x->m->values.at[y].hint = x->m->values.at[dot.result].hint;
	VEC_PUSH(&x->m->ctx->tmp, &x->from, dot.result);
	VEC_PUSH(&x->m->ctx->tmp, &x->to, y);
}

/* Rewrites a region and the forward repeats in it. */
static void
rewrite(struct narrow *x, region_id r, bool layers)
{
	struct ir_module *m = x->m;
	uint32_t n = m->regions.at[r].nodes.n, i;
	node_id *old = arena_dup(&m->ctx->tmp, m->regions.at[r].nodes.at,
				 n * sizeof *old);

	pass_find_choices(m, &m->regions.at[r], x->chooses);
	m->regions.at[r].nodes.n = 0;
	for (i = 0; i < n; i++) {
		const struct ir_node *k = ir_node(m, old[i]);

		if (k->region && !ir_attr(m, k, IR_ATTR_REVERSE)) {
			rewrite(x, k->region, true);
		}
		x->r = r;
		if (layers && is_wanted(x, ir_node(m, old[i]))) {
			narrowed(x, old[i]);
		} else {
			VEC_PUSH(&m->ctx->perm, &m->regions.at[r].nodes,
				 old[i]);
		}
	}
}

/* ---- check of the target ---- */

/* A CPU never lacks it: it widens 8-bit operands, for tests of accuracy. */
static bool
lacks_it(const struct target_device *d)
{
	return d->flops_us[TARGET_FP8] <= 0 &&
	       (d->plan_only || target_is_cuda(d));
}

static bool
check_target(struct narrow *x, const struct ir_setting *s)
{
	const struct target *t = x->p->cluster;
	uint32_t i;

	for (i = 0; t && i < t->groups.n; i++) {
		const struct target_device *d = &t->groups.at[i].device;

		if (!lacks_it(d)) {
			continue;
		}
		diag_error(&x->m->ctx->diags, s->span, "`matmul` is f8e4m3, "
			   "and %s (%s) has no contractions of 8 bits: leave "
			   "it out, or plan for a target with a rate `fp8`, "
			   "as h100 or l40s", d->name, d->arch);
		return false;
	}
	return true;
}

bool
pass_narrow(struct pass_ctx *p, struct ir_module *m)
{
	const struct ir_setting *s = ir_setting(m, "train.matmul");
	struct narrow x = { .p = p, .m = m };
	value_id *map;
	uint32_t i;

	if (!s) {
		return true;
	}
	if (!check_target(&x, s)) {
		return false;
	}
	x.chooses = arena_alloc(&m->ctx->tmp,
				m->values.n * sizeof *x.chooses);
	rewrite(&x, m->funcs.at[ir_model(m)].body, false);
	if (x.from.n == 0) {
		diag_error(&m->ctx->diags, s->span, "`matmul` is f8e4m3, and "
			   "there is nothing to do in it: expected is a "
			   "contraction of a weight in bf16 or f16 inside of "
			   "a repeat");
		return false;
	}
	map = arena_alloc(&m->ctx->tmp, m->values.n * sizeof *map);
	for (i = 0; i < x.from.n; i++) {
		map[x.from.at[i]] = x.to.at[i];
	}
	ir_replace_uses(m, map);
	pass_count(p, "contractions narrowed", x.from.n);
	return true;
}
