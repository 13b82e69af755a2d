/*
 * Placements as types: whether those of a node's operands and result agree.
 * Along each axis the node must run in one of its op's ways (ways.c), and axes
 * that split one dim must be in the same order everywhere.
 */
#include "ir/ir.h"

#include <string.h>

static struct ir_along
along_of(struct ir_module *m, const struct ir_node *n, int k, axis_id a)
{
	value_id v = k < 0 ? n->result : ir_args(m, n)[k];

	return ir_along(ir_type(m, v), a);
}

/* ---- conversions ---- */

static bool
is_side(char c, struct ir_along s)
{
	return c == '+' ? s.how == IR_IS_PART : c == '.' ? s.how == IR_IS_WHOLE
		: c == '@' ? s.how == IR_IS_ROUTED : s.how == IR_IS_SPLIT;
}

bool
ir_conversion(struct ir_along from, struct ir_along to, enum ir_op *op)
{
	int i;

	for (i = 0; i < IR_OP_COUNT; i++) {
		const char *p = ir_ops[i].split, *q = strchr(p, '>');

		if (q && is_side(*p, from) && is_side(q[1], to)) {
			*op = (enum ir_op)i;
			return true;
		}
	}
	return false;
}

static const char *
missing_text(struct ir_module *m, struct ir_along from, struct ir_along to,
	     axis_id a)
{
	struct arena *tmp = &m->ctx->tmp;
	const char *axis = ir_axis_name(m, a);
	enum ir_op op;

	if (m->axes.at[a].time || !ir_conversion(from, to, &op)) {
		return arena_printf(tmp, "nothing converts it along `%s`",
				    axis);
	}
	if (from.how == IR_IS_SPLIT && to.how == IR_IS_SPLIT) {
		return arena_printf(tmp, "%s on=%s of=%s to=%s is missing",
				    ir_ops[op].name, axis,
				    ir_dim_name(m, from.dim),
				    ir_dim_name(m, to.dim));
	}
	if (from.how == IR_IS_SPLIT || to.how == IR_IS_SPLIT) {
		return arena_printf(tmp, "%s on=%s of=%s is missing",
				    ir_ops[op].name, axis, ir_dim_name(m,
				    from.dim ? from.dim : to.dim));
	}
	return arena_printf(tmp, "%s on=%s is missing", ir_ops[op].name, axis);
}

/* ---- along one axis ---- */

static bool
says_on(struct ir_module *m, const struct ir_node *n, axis_id a)
{
	const struct ir_attr *on = ir_attr(m, n, IR_ATTR_ON);
	uint32_t i;

	for (i = 0; on && i < on->ndims; i++) {
		if (on->dims[i] == a) {
			return true;
		}
	}
	return false;
}

/* Operands (bit k) and result (bit 31) that differ from the way. */
static uint32_t
misfits(struct ir_module *m, const struct ir_node *n, axis_id a,
	const struct ir_way *w)
{
	uint32_t bad = 0;
	int k;

	for (k = 0; k < n->nargs; k++) {
		if (!ir_along_equal(along_of(m, n, k, a), w->in[k])) {
			bad |= 1u << k;
		}
	}
	if (!ir_along_equal(along_of(m, n, -1, a), w->out)) {
		bad |= 1u << 31;
	}
	return bad;
}

static int
count_bits(uint32_t x)
{
	int n = 0;

	for (; x; x &= x - 1) {
		n++;
	}
	return n;
}

static const char *
all_types(struct ir_module *m, const struct ir_node *n)
{
	struct buf b;
	uint32_t k;

	buf_init(&b, &m->ctx->tmp);
	for (k = 0; k < n->nargs; k++) {
		buf_printf(&b, "%s%s", k ? ", " : "",
			   ir_type_text(m, ir_type(m, ir_args(m, n)[k])));
	}
	buf_printf(&b, " -> %s", ir_type_text(m, ir_type(m, n->result)));
	return buf_text(&b);
}

static const char *
no_way(struct ir_module *m, const struct ir_node *n, axis_id a,
       const struct ir_way *w, uint32_t bad)
{
	struct arena *tmp = &m->ctx->tmp;
	struct ir_along have, want = w->out;
	int k = 0;

	while (k < n->nargs && !(bad >> k & 1)) {
		k++;
	}
	if (k == n->nargs) {
		have = along_of(m, n, -1, a);
		return arena_printf(tmp, "%s does not compose along `%s`: the "
				    "result is %s, and comes out %s",
				    all_types(m, n), ir_axis_name(m, a),
				    ir_along_text(m, have),
				    ir_along_text(m, want));
	}
	have = along_of(m, n, k, a);
	want = w->in[k];
	return arena_printf(tmp, "%s does not compose along `%s`: operand %d "
			    "is %s, and expected is %s: %s",
			    all_types(m, n), ir_axis_name(m, a), k + 1,
			    ir_along_text(m, have), ir_along_text(m, want),
			    missing_text(m, have, want, a));
}

static const char *
axis_fault(struct ir_module *m, const struct ir_node *n, axis_id a)
{
	struct ir_way ways[IR_MAX_WAYS];
	uint32_t i, best = 0, least = UINT32_MAX, count;
	int fewest = 100;

	count = ir_ways(m, n, a, ways);
	for (i = 0; i < count; i++) {
		uint32_t bad = misfits(m, n, a, &ways[i]);
		int wrong;

		if (!bad && ways[i].colls == says_on(m, n, a)) {
			return NULL;
		}
		if (!bad) {
			return arena_printf(&m->ctx->tmp, ways[i].colls
				? "expected `on=%s`, since ranks communicate "
				  "along it: %s"
				: "expected no `on=%s`, since ranks need not "
				  "communicate along it: %s",
				ir_axis_name(m, a), all_types(m, n));
		}
		/* a result that differs is the least evidence against a way */
		wrong = 2 * count_bits(bad) - (int)(bad >> 31 & 1);
		if (wrong < fewest) {
			fewest = wrong;
			least = bad;
			best = i;
		}
	}
	return no_way(m, n, a, &ways[best], least);
}

/* ---- along all axes at once ---- */

/* The axes of the cut, bit a each. */
static uint32_t
axes_in(uint32_t cut)
{
	uint32_t set = 0;

	for (; cut; cut >>= 4) {
		set |= 1u << (cut & 15);
	}
	return set;
}

/* A dim that the same axes split in another order is another split. */
static const char *
order_fault(struct ir_module *m, const struct ir_node *n,
	    const struct ir_type *s, const struct ir_type *t)
{
	int i, j;

	for (i = 0; i < s->ndims; i++) {
		j = ir_type_at(t, s->dims[i]);
		if (j >= 0 && s->cut[i] != t->cut[j] &&
		    axes_in(s->cut[i]) == axes_in(t->cut[j])) {
			return arena_printf(&m->ctx->tmp, "the axes that split "
					    "`%s` are in different orders: "
					    "%s", ir_dim_name(m, s->dims[i]),
					    all_types(m, n));
		}
	}
	return NULL;
}

/* h%k: axes that split k must split h first, so that groups stay together. */
static const char *
group_fault(struct ir_module *m, const struct ir_node *n)
{
	const struct ir_factor *h, *k;
	uint32_t i, j, inner, outer;
	struct ir_rule r;

	ir_bind(m, n, &r);
	h = ir_rule_factor(&r, "h");
	k = ir_rule_factor(&r, "k");
	for (i = 0; i < n->nargs; i++) {
		const struct ir_type *t = ir_type(m, ir_args(m, n)[i]);

		for (j = 0; j < n->nargs; j++) {
			const struct ir_type *s = ir_type(m,
							  ir_args(m, n)[j]);

			if (!(h->in >> i & 1) || !(k->in >> j & 1)) {
				continue;
			}
			outer = t->cut[ir_type_at(t, h->dims[0])];
			inner = s->cut[ir_type_at(s, k->dims[0])];
			for (; inner; inner >>= 4, outer >>= 4) {
				if ((inner & 15) != (outer & 15)) {
					return arena_printf(&m->ctx->tmp,
						"the axes that split `%s` "
						"must be the outer ones of "
						"`%s`: %s",
						ir_dim_name(m, k->dims[0]),
						ir_dim_name(m, h->dims[0]),
						all_types(m, n));
				}
			}
		}
	}
	return NULL;
}

/* A conversion changes the innermost axis of a dim. */
static const char *
conversion_fault(struct ir_module *m, const struct ir_node *n)
{
	const struct ir_attr *on = ir_attr(m, n, IR_ATTR_ON);
	const struct ir_type *out = ir_type(m, n->result);
	struct ir_type t = *ir_type(m, ir_args(m, n)[0]);
	uint32_t i;

	for (i = on->ndims; i-- > 0; ) {
		axis_id a = on->dims[i];
		struct ir_along s = ir_along(&t, a);
		int at = s.how == IR_IS_SPLIT ? ir_type_at(&t, s.dim) : -1;

		if (at >= 0 && t.cut[at] >> 4) {
			axis_id all[IR_MAX_AXES];
			uint32_t count = ir_cuts(&t, (uint32_t)at, all);

			if (all[count - 1] != a) {
				return arena_printf(&m->ctx->tmp, "`%s` is "
					"split further inside of `%s`: %s",
					ir_dim_name(m, s.dim),
					ir_axis_name(m, a), all_types(m, n));
			}
		}
		s.how = IR_IS_WHOLE;
		ir_set_along(&t, a, s);
	}
	for (i = 0; i < on->ndims; i++) {
		ir_set_along(&t, on->dims[i], ir_along(out, on->dims[i]));
	}
	return ir_type_equal(&t, out) ? NULL
		: arena_printf(&m->ctx->tmp, "expected a result of type %s, "
			       "found %s", ir_type_text(m, &t),
			       ir_type_text(m, out));
}

/* ---- sources and sinks ---- */

static const char *
source_fault(struct ir_module *m, const struct ir_node *n)
{
	const struct ir_type *t = ir_type(m, n->result);
	bool fixed = ir_is(n->op, IRF_STORED) ||
		     ir_op_takes(n->op, IR_ATTR_VALUE) != IR_TAKES_NOT ||
		     ir_op_takes(n->op, IR_ATTR_RATE) != IR_TAKES_NOT;

	if (fixed && (t->sum || t->routed)) {
		return arena_printf(&m->ctx->tmp, "expected %s to be whole or "
				    "split along each axis, found %s",
				    ir_ops[n->op].name, ir_type_text(m, t));
	}
	return NULL;
}

const char *
ir_place_fault(struct ir_module *m, const struct ir_node *n)
{
	const char *fault = NULL;
	uint32_t j, k;
	axis_id a;

	if (m->axes.n <= 1 || ir_is(n->op, IRF_SINK | IRF_REGION |
				    IRF_CALLS)) {
		return NULL;
	}
	if (ir_is(n->op, IRF_SOURCE)) {
		return source_fault(m, n);
	}
	for (a = 1; a < m->axes.n && !fault; a++) {
		if (m->axes.at[a].time && says_on(m, n, a)) {
			return arena_printf(&m->ctx->tmp, "ranks cannot "
					    "communicate along `%s`: it is "
					    "time",
					    ir_axis_name(m, a));
		}
		fault = axis_fault(m, n, a);
	}
	if (!fault && ir_is(n->op, IRF_CONVERTS)) {
		return conversion_fault(m, n);
	}
	for (k = 0; k < n->nargs && !fault; k++) {
		const struct ir_type *t = ir_type(m, ir_args(m, n)[k]);

		fault = order_fault(m, n, t, ir_type(m, n->result));
		for (j = 0; j < k && !fault; j++) {
			fault = order_fault(m, n, ir_type(m,
						ir_args(m, n)[j]), t);
		}
	}
	if (!fault && strchr(ir_ops[n->op].rule, '%')) {
		fault = group_fault(m, n);
	}
	return fault;
}
