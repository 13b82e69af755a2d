/*
 * Types: what they say of a value, alike or not, and as text.
 */
#include "ir/ir.h"

#include <string.h>

bool
ir_type_same(const struct ir_type *a, const struct ir_type *b)
{
	return a->dtype == b->dtype && a->ndims == b->ndims &&
	       a->of == b->of &&
	       memcmp(a->dims, b->dims, a->ndims * sizeof a->dims[0]) == 0;
}

bool
ir_type_equal(const struct ir_type *a, const struct ir_type *b)
{
	return ir_type_same(a, b) && a->sum == b->sum &&
	       a->routed == b->routed &&
	       memcmp(a->cut, b->cut, a->ndims * sizeof a->cut[0]) == 0;
}

int
ir_type_at(const struct ir_type *t, dim_id d)
{
	int i;

	for (i = 0; i < t->ndims; i++) {
		if (t->dims[i] == d) {
			return i;
		}
	}
	return -1;
}

bool
ir_type_has(const struct ir_type *t, dim_id d)
{
	return ir_type_at(t, d) >= 0;
}

bool
ir_type_elems(const struct ir_module *m, const struct ir_type *t,
	      int64_t *elems)
{
	int64_t n = 1;
	uint8_t i;

	for (i = 0; i < t->ndims; i++) {
		if (!num_mul(n, ir_dim_size(m, t->dims[i]), &n)) {
			return false;
		}
	}
	*elems = n;
	return true;
}

const char *
ir_type_text(const struct ir_module *m, const struct ir_type *t)
{
	struct buf b;
	uint8_t i;

	buf_init(&b, &m->ctx->tmp);
	buf_puts(&b, ir_dtypes[t->dtype].name);
	if (!ir_dtypes[t->dtype].is_float) {
		buf_printf(&b, "<%s>", ir_dim_name(m, t->of));
	}
	buf_putc(&b, '[');
	for (i = 0; i < t->ndims; i++) {
		buf_printf(&b, "%s%s", i ? ", " : "",
			   ir_dim_name(m, t->dims[i]));
		ir_put_cut(m, t->cut[i], &b);
	}
	buf_putc(&b, ']');
	ir_put_marks(m, t, &b);
	return buf_text(&b);
}
