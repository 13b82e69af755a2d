/*
 * Hashes of modules, of 128 bits: of what its functions compute, or of all of
 * it.  A module that comes out of the same passes in another context has the
 * same ids, but its names may have others: the hash of what is computed
 * contains their texts.
 */
#include "ir/ir.h"

#include <string.h>

/* ---- what functions compute ---- */

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
		hash_add(&all, ir_type_hash(ir_type(m, i)));
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

/* ---- all of it ---- */

#define LANES 4

struct hashing {
	uint64_t lane[LANES];	/* words go to them in turn, so that none waits
				 * for the one before */
	uint32_t next;
};

static void
mix(struct hashing *h, uint64_t word)
{
	uint64_t *lane = &h->lane[h->next++ % LANES];

	*lane = hash_word(*lane, word);
}

static void
mix_pair(struct hashing *h, uint32_t a, uint32_t b)
{
	mix(h, (uint64_t)a << 32 | b);
}

static inline void
mix_four(struct hashing *h, const uint64_t w[LANES])
{
	h->lane[0] = hash_word(h->lane[0], w[0]);
	h->lane[1] = hash_word(h->lane[1], w[1]);
	h->lane[2] = hash_word(h->lane[2], w[2]);
	h->lane[3] = hash_word(h->lane[3], w[3]);
}

/* Items must have no padding. */
static void
mix_items(struct hashing *h, const void *at, size_t bytes)
{
	uint64_t a = h->lane[0], b = h->lane[1], c = h->lane[2];
	uint64_t d = h->lane[3], w[LANES];
	const char *p = at;
	size_t left = bytes;

	for (; left >= sizeof w; left -= sizeof w, p += sizeof w) {
		memcpy(w, p, sizeof w);
		a = hash_word(a, w[0]);
		b = hash_word(b, w[1]);
		c = hash_word(c, w[2]);
		d = hash_word(d, w[3]);
	}
	h->lane[0] = a;
	h->lane[1] = b;
	h->lane[2] = c;
	h->lane[3] = d;
	memset(w, 0, sizeof w);
	if (left) {
		memcpy(w, p, left);
	}
	mix_four(h, w);
	mix(h, bytes);
}

#define MIX_ITEMS(h, v) mix_items((h), (v)->at, (v)->n * sizeof *(v)->at)

static void
mix_attrs(struct hashing *h, const struct ir_module *m)
{
	uint64_t w[LANES];
	uint32_t i;

	mix(h, m->attrs.n);
	for (i = 0; i < m->attrs.n; i++) {
		const struct ir_attr *a = &m->attrs.at[i];

		memcpy(w, a->dims, sizeof w);
		mix_four(h, w);
		w[0] = (uint64_t)a->text << 16 | (uint64_t)a->key << 8 |
		       a->ndims;
		w[1] = (uint64_t)a->i;
		memcpy(&w[2], &a->num, sizeof w[2]);
		w[3] = a->expr;
		mix_four(h, w);
	}
}

/* The last type's hash is reused: neighbours often have the same type. */
static void
mix_values(struct hashing *h, const struct ir_module *m)
{
	const struct ir_type *last = NULL;
	uint64_t w[LANES] = { 0 };
	uint32_t i;

	mix(h, m->values.n);
	for (i = 0; i < m->values.n; i++) {
		const struct ir_value *v = &m->values.at[i];
		const struct ir_type *t = ir_type(m, i);

		w[0] = t == last ? w[0] : ir_type_hash(t);
		w[1] = pair(v->hint, v->node);
		w[2] = pair(v->index, v->region);
		mix_four(h, w);
		last = t;
	}
}

static void
mix_settings(struct hashing *h, const struct ir_module *m)
{
	uint32_t i;

	mix(h, m->settings.n);
	for (i = 0; i < m->settings.n; i++) {
		const struct ir_setting *s = &m->settings.at[i];

		mix_pair(h, s->key, s->text);
		mix_pair(h, s->kind, s->n);
		mix_items(h, s->num, sizeof s->num);
	}
}

static void
mix_sizes(struct hashing *h, const struct ir_module *m)
{
	uint32_t i;

	mix_pair(h, m->dims.n, m->axes.n);
	mix_pair(h, m->exprs.n, m->funcs.n);
	for (i = 0; i < m->dims.n; i++) {
		mix_pair(h, m->dims.at[i].name, m->dims.at[i].expr);
		mix(h, (uint64_t)m->dims.at[i].size);
	}
	for (i = 0; i < m->axes.n; i++) {
		const struct ir_axis *x = &m->axes.at[i];

		mix_pair(h, x->name, (uint32_t)x->time << 1 | x->balanced);
		mix(h, (uint64_t)x->size);
	}
	for (i = 0; i < m->exprs.n; i++) {
		const struct ir_expr *x = &m->exprs.at[i];

		mix_pair(h, x->kind, x->dim);
		mix_pair(h, x->lhs, x->rhs);
		mix(h, (uint64_t)x->value);
	}
}

static void
mix_module(struct hashing *h, const struct ir_module *m)
{
	region_id r;
	func_id f;

	mix_sizes(h, m);
	mix_settings(h, m);
	mix_attrs(h, m);
	MIX_ITEMS(h, &m->hints);
	mix_values(h, m);
	MIX_ITEMS(h, &m->nodes);
	MIX_ITEMS(h, &m->args);
	for (f = 0; f < m->funcs.n; f++) {
		const struct ir_func *x = &m->funcs.at[f];

		mix_pair(h, x->name, x->body);
		mix(h, x->is_model);
	}
	mix_pair(h, m->name, m->regions.n);
	for (r = 0; r < m->regions.n; r++) {
		const struct ir_region *x = &m->regions.at[r];

		mix(h, x->owner);
		MIX_ITEMS(h, &x->nodes);
		MIX_ITEMS(h, &x->params);
		MIX_ITEMS(h, &x->results);
	}
}

struct hash
ir_hash_all(const struct ir_module *m)
{
	struct hashing h = { { 1, 2, 3, 4 }, 0 };
	struct hash hash = { 1, 2 };
	uint32_t i;

	mix_module(&h, m);
	for (i = 0; i < LANES; i++) {
		hash_add(&hash, h.lane[i]);
	}
	return hash;
}

/* ---- names ---- */

static void
add_name(const struct ir_module *m, sym_t from, sym_t name, struct hash *to)
{
	if (name && name >= from) {
		hash_add(to, hash_text(name, ir_text(m->ctx, name)));
	}
}

void
ir_hash_names(const struct ir_module *m, sym_t from, struct hash *to)
{
	uint32_t i;

	add_name(m, from, m->name, to);
	for (i = 0; i < m->dims.n; i++) {
		add_name(m, from, m->dims.at[i].name, to);
	}
	for (i = 0; i < m->axes.n; i++) {
		add_name(m, from, m->axes.at[i].name, to);
	}
	for (i = 0; i < m->funcs.n; i++) {
		add_name(m, from, m->funcs.at[i].name, to);
	}
	for (i = 0; i < m->settings.n; i++) {
		add_name(m, from, m->settings.at[i].key, to);
		add_name(m, from, m->settings.at[i].text, to);
	}
	for (i = 0; i < m->attrs.n; i++) {
		add_name(m, from, m->attrs.at[i].text, to);
	}
	for (i = 0; i < m->values.n; i++) {
		add_name(m, from, m->values.at[i].hint, to);
	}
}
