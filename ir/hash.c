/*
 * What the functions of a module compute, as 128 bits.  A module that comes
 * out of the same steps in another context has the same ids, but its names
 * are numbered anew: they count as texts.
 */
#include "ir/ir.h"

static uint64_t
pair(uint32_t a, uint32_t b)
{
	return (uint64_t)a << 32 | b;
}

static uint64_t
hash_ids(uint64_t hash, const uint32_t *at, uint32_t n)
{
	uint32_t i;

	hash = hash_word(hash, n);
	for (i = 0; i < n; i++) {
		hash = hash_word(hash, at[i]);
	}
	return hash;
}

static uint64_t
hash_type(const struct ir_type *t)
{
	uint64_t hash = hash_word(1, pair((uint32_t)t->dtype << 24 |
					  (uint32_t)t->ndims << 16 |
					  (uint32_t)t->sum << 8 | t->routed,
					  t->of));
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		hash = hash_word(hash, pair(t->dims[i], t->cut[i]));
	}
	return hash;
}

static uint64_t
hash_attr(const struct ir_module *m, const struct ir_attr *a)
{
	uint64_t hash = hash_word(2, a->key);

	if (a->ndims) {
		hash = hash_ids(hash, a->dims, a->ndims);
	}
	if (a->text) {
		hash = hash_text(hash, ir_text(m->ctx, a->text));
	}
	hash = hash_word(hash, (uint64_t)a->i);
	return hash_word(hash, num_bits(a->num));
}

static uint64_t
hash_node(const struct ir_module *m, const struct ir_node *n)
{
	uint64_t hash = hash_word(3, pair(n->op, n->nattrs));
	uint32_t i;

	hash = hash_word(hash, pair(n->region, n->callee));
	hash = hash_word(hash, pair(n->result, n->nresults));
	hash = hash_ids(hash, ir_args(m, n), n->nargs);
	for (i = 0; i < n->nattrs; i++) {
		const struct ir_attr *a = &m->attrs.at[n->attrs + i];

		hash = hash_word(hash, hash_attr(m, a));
	}
	return hash;
}

static uint64_t
hash_region(const struct ir_region *r)
{
	uint64_t hash = hash_ids(4, r->nodes.at, r->nodes.n);

	hash = hash_ids(hash, r->params.at, r->params.n);
	return hash_ids(hash, r->results.at, r->results.n);
}

struct hash
ir_hash(const struct ir_module *m)
{
	struct hash all = { m->values.n, m->nodes.n };
	uint32_t i;

	hash_add(&all, pair(m->dims.n, m->regions.n));
	for (i = 1; i < m->dims.n; i++) {
		const struct ir_dim *d = &m->dims.at[i];

		hash_add(&all, hash_text((uint64_t)d->size,
					 ir_text(m->ctx, d->name)));
	}
	for (i = 1; i < m->values.n; i++) {
		hash_add(&all, hash_type(&m->values.at[i].type));
	}
	for (i = 1; i < m->nodes.n; i++) {
		hash_add(&all, hash_node(m, &m->nodes.at[i]));
	}
	for (i = 1; i < m->regions.n; i++) {
		hash_add(&all, hash_region(&m->regions.at[i]));
	}
	for (i = 1; i < m->funcs.n; i++) {
		const struct ir_func *f = &m->funcs.at[i];

		hash_add(&all, pair(f->body, f->is_model));
	}
	return all;
}
