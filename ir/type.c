/*
 * Types: equality, sizes, text.  A program has few types, and all programs of a
 * run have about the same, so that each is kept once for the whole run: values,
 * of which a search copies tens of thousands, are small then.
 */
#include "ir/ir.h"

#include <string.h>

/* ---- interning ---- */

uint64_t
ir_type_hash(const struct ir_type *t)
{
	uint64_t hash = (uint64_t)t->dtype | (uint64_t)t->ndims << 8 |
			(uint64_t)t->sum << 16 | (uint64_t)t->routed << 24 |
			(uint64_t)t->of << 32;
	uint32_t i;

	hash = hash_word(1, hash);
	for (i = 0; i < t->ndims; i++) {
		hash = hash_word(hash, t->dims[i] |
				       (uint64_t)t->cut[i] << 32);
	}
	return hash;
}

static type_id
add(struct ir_types *x, const struct ir_type *t, uint64_t hash)
{
	struct ir_type own = *t;
	uint32_t i;

	for (i = t->ndims; i < IR_MAX_DIMS; i++) {
		own.dims[i] = own.cut[i] = 0;
	}
	table_add(x->arena, &x->table, hash);
	VEC_PUSH(x->arena, &x->at, own);
	return x->at.n - 1;
}

type_id
ir_type_keep(struct ir_ctx *c, const struct ir_type *t)
{
	struct ir_types *x = c->types;
	uint64_t hash = ir_type_hash(t);
	type_id at = 0;

	while ((at = table_find(&x->table, hash, at)) != 0) {
		if (ir_type_equal(&x->at.at[at], t)) {
			return at;
		}
	}
	return add(x, t, hash);
}

struct ir_types *
ir_types_new(struct arena *a)
{
	struct ir_types *x = arena_alloc(a, sizeof *x);

	x->arena = a;
	VEC_PUSH(a, &x->at, (struct ir_type){ 0 });
	return x;
}

struct ir_types *
ir_types_copy(const struct ir_types *x, struct arena *a)
{
	struct ir_types *to = ir_types_new(a);
	type_id i;

	for (i = 1; i < x->at.n; i++) {
		add(to, &x->at.at[i], ir_type_hash(&x->at.at[i]));
	}
	return to;
}

/* ---- equality ---- */

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

int64_t
ir_row_elems(const struct ir_module *m, const struct ir_type *t,
	     const struct ir_attr *over)
{
	int64_t n = 1;
	uint32_t i;

	for (i = 0; i < over->ndims; i++) {
		int at = ir_type_at(t, over->dims[i]);

		if (at < t->ndims - over->ndims ||
		    !num_mul(n, ir_dim_size(m, over->dims[i]), &n)) {
			return 0;
		}
	}
	return n;
}

bool
ir_keeps_groups(const struct ir_module *m, const struct ir_type *t,
		const struct ir_attr *over, uint32_t i, int64_t parts)
{
	uint32_t first = t->ndims - over->ndims;

	return i < first || parts == 1 ||
	       (i == first && ir_dim_size(m, t->dims[i]) % parts == 0 &&
		ir_row_elems(m, t, over) / parts % IR_GROUP == 0);
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
