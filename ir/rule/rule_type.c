/*
 * The type of a node's result, by its op's rule and by the dtypes column of
 * ops.def, or why its operands do not do.
 */
#include "ir/rule/rule_binding.h"

/*
 * Same shape as the first operand, new dims replacing those that they are cut
 * of.
 */
static bool
same_shape_of_rule(const struct ir_rule *r)
{
	uint8_t i;

	if (r->nops == 0 || r->nop[0] != r->nout) {
		return false;
	}
	for (i = 0; i < r->nout; i++) {
		const struct ir_factor *from = &r->f[r->op[0][i]];
		const struct ir_factor *to = &r->f[r->out[i]];

		if (from != to && (to->in || to->group || from->group)) {
			return false;
		}
	}
	return true;
}

static bool
add_dim(struct rule_binding *b, struct ir_type *t, dim_id d)
{
	if (ir_type_has(t, d)) {
		return ir_rule_fail(b, "%s would be twice in the result of %s",
				    ir_rule_dim(b, d), ir_ops[b->op].name);
	}
	if (t->ndims == IR_MAX_DIMS) {
		return ir_rule_fail(b,
			"the result of %s would have more than %d dims",
			ir_ops[b->op].name, IR_MAX_DIMS);
	}
	t->dims[t->ndims++] = d;
	return true;
}

static bool
result_dims(struct rule_binding *b, struct ir_type *t)
{
	const struct ir_rule *r = b->r;
	uint8_t i, j;

	t->ndims = 0;
	if (same_shape_of_rule(r) && !ir_is(b->op, IRF_SPREAD)) {
		for (i = 0; i < b->types[0]->ndims; i++) {
			dim_id d = b->types[0]->dims[i];

			for (j = 0; j < r->nout; j++) {
				const struct ir_factor *f =
					&r->f[r->op[0][j]];

				if (r->op[0][j] != r->out[j] &&
				    f->dims[0] == d) {
					d = r->f[r->out[j]].dims[0];
				}
			}
			if (!add_dim(b, t, d)) {
				return false;
			}
		}
		return true;
	}
	for (i = 0; i < r->nout; i++) {
		const struct ir_factor *f = &r->f[r->out[i]];

		for (j = 0; j < f->n; j++) {
			if (!add_dim(b, t, f->dims[j])) {
				return false;
			}
		}
	}
	return true;
}

/* The dim that an index operand or result points into: factor `of`. */
static dim_id
index_dim(const struct ir_rule *r)
{
	const struct ir_factor *f = ir_rule_factor(r, "of");

	return f ? f->dims[0] : 0;
}

static bool
check_dtypes(struct rule_binding *b, const struct ir_type **first)
{
	const char *kind = ir_ops[b->op].dtypes;
	int k;

	*first = NULL;
	for (k = 0; k < b->r->nops; k++) {
		const struct ir_type *t = b->types[k];
		bool is_float = ir_dtypes[t->dtype].is_float;

		if (kind[k] == 'i' && (is_float || t->of != index_dim(b->r))) {
			return ir_rule_fail(b,
				"operand %d of %s is %s, and an index "
				"into %s is expected",
				k + 1, ir_ops[b->op].name,
				ir_rule_operand(b, k),
				ir_rule_dim(b, index_dim(b->r)));
		}
		if (kind[k] == 'F' && t->dtype != IR_F32) {
			return ir_rule_fail(b,
				"operand %d of %s is %s, and f32 is "
				"expected",
				k + 1, ir_ops[b->op].name,
				ir_rule_operand(b, k));
		}
		if (kind[k] == 'f' && !is_float) {
			return ir_rule_fail(b,
				"operand %d of %s is %s, and numbers "
				"are expected",
				k + 1, ir_ops[b->op].name,
				ir_rule_operand(b, k));
		}
		if (kind[k] == 'f' && *first && (*first)->dtype != t->dtype) {
			return ir_rule_fail(b,
				"operand %d of %s is %s, and the others "
				"are %s: cast one of them",
				k + 1, ir_ops[b->op].name,
				ir_rule_operand(b, k),
				ir_dtypes[(*first)->dtype].name);
		}
		if (kind[k] == 'f' && !*first) {
			*first = t;
		}
	}
	return true;
}

static bool
result_type(struct rule_binding *b, struct ir_type *out)
{
	const char *kind = ir_ops[b->op].dtypes;
	const struct ir_type *first;
	struct ir_type t = *out;

	if (!check_dtypes(b, &first) || !result_dims(b, &t)) {
		return false;
	}
	t.of = 0;
	switch (kind[b->r->nops]) {
	case 'f':
		t.dtype = first->dtype;
		break;
	case 'F':
		t.dtype = IR_F32;
		break;
	case 'i':
		t.dtype = IR_IDX;
		t.of = index_dim(b->r);
		break;
	case 'x':
		t.dtype = b->types[0]->dtype;
		t.of = b->types[0]->of;
		break;
	default:		/* a float, as written */
		if (!ir_dtypes[t.dtype].is_float) {
			return ir_rule_fail(b, "%s makes numbers, not an index",
					    ir_ops[b->op].name);
		}
		break;
	}
	*out = t;
	return true;
}

bool
ir_infer(struct ir_module *m, enum ir_op op,
	 const struct ir_type *const *operands, uint32_t nargs,
	 const struct ir_attr *attrs, uint32_t nattrs, struct ir_type *out,
	 const char **why)
{
	struct ir_rule r;
	struct rule_binding b = { .m = m, .op = op, .types = operands, .r = &r,
			     .why = why };
	const struct ir_type *first;
	int64_t elems;

	if (ir_ops[op].nargs >= 0 && (uint32_t)ir_ops[op].nargs != nargs) {
		return ir_rule_fail(&b,
				    "%s takes %d operand%s, and %u %s given",
				    ir_ops[op].name, ir_ops[op].nargs,
				    ir_ops[op].nargs == 1 ? "" : "s", nargs,
				    nargs == 1 ? "is" : "are");
	}
	if (nargs > 0 && ir_ops[op].nargs > 0) {
		if (!ir_rule_bind(m, op, operands, attrs, nattrs, &r, why) ||
		    (ir_is(op, IRF_SINK) ? !check_dtypes(&b, &first)
					 : !result_type(&b, out))) {
			return false;
		}
	}
	if (ir_is(op, IRF_SINK)) {
		return true;
	}
	if (!ir_type_elems(m, out, &elems)) {
		return ir_rule_fail(&b,
			"the result of %s, %s, has more elements than "
			"63 bits can count",
			ir_ops[op].name, ir_type_text(m, out));
	}
	return true;
}
