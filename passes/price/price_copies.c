/*
 * How tiles of a contraction's operands are copied on a GPU: in pieces of 16
 * bytes, as the copying unit and cp.async do best, or of what all rows begin at
 * multiples of.  Rows of values that kernels make lie apart where that helps
 * (memory_rows.c); those of tensors, and of what ranks exchange, do not.
 */
#include "passes/price/price.h"

#define WIDEST 16	/* bytes */

static bool
is_dense(const struct ir_module *m, value_id v)
{
	node_id id = m->values.at[v].node;
	enum ir_op op = ir_node(m, id)->op;

	return !id || ir_is(op, IRF_COMM | IRF_PEER) ||
	       (ir_is(op, IRF_SOURCE) && !ir_is(op, IRF_STASH));
}

static int64_t
most_of(const struct ir_module *m, const struct ir_type *t, uint32_t i)
{
	return ir_most(m, ir_dim_size(m, t->dims[i]), t->cut[i]);
}

static bool
has_dim(const struct ir_factor *f, dim_id d)
{
	uint32_t i;

	for (i = 0; i < f->n && f->dims[i] != d; i++) {
	}
	return i < f->n;
}

/* Elements of a row: of the last dim, and of those before it that belong to the
 * same factor, which lie as one. */
static int64_t
row_of(struct ir_module *m, const struct ir_node *n, const struct ir_type *t)
{
	uint32_t i = t->ndims - 1u, k = 0;
	int64_t row = most_of(m, t, i);
	struct ir_rule r;

	ir_bind(m, n, &r);
	while (k < r.nf && !has_dim(&r.f[k], t->dims[i])) {
		k++;
	}
	while (k < r.nf && i-- > 0 && has_dim(&r.f[k], t->dims[i])) {
		row *= most_of(m, t, i);
	}
	return row;
}

int64_t
price_copy_bytes(const struct pricing *p, const struct kernel *k,
		 const struct ir_node *n, uint32_t arg)
{
	value_id v = ir_args(p->m, n)[arg];
	const struct ir_type *t = ir_type(p->m, v);
	int64_t bits = ir_dtypes[t->dtype].bits, row, piece = WIDEST;
	bool dense = is_dense(p->m, v);

	/* what is read through a view is taken to be aligned */
	if (t->ndims < 2 || bits < 8 || !kernel_reads(k, v)) {
		return WIDEST;
	}
	row = most_of(p->m, t, t->ndims - 1u);
	row = dense ? row : ir_row_pitch((enum ir_dtype)t->dtype, row);
	if (row * bits / 8 % WIDEST == 0) {
		return WIDEST;
	}
	row = row_of(p->m, n, t);
	while (row * bits / 8 % piece != 0) {
		piece /= 2;
	}
	return piece;
}
