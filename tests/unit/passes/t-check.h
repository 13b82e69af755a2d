/*
 * Rank programs that are broken on purpose: what a mutation needs to find
 * its places and to change a module there.
 */
#ifndef TESTS_UNIT_T_CHECK_H
#define TESTS_UNIT_T_CHECK_H

#include <stdlib.h>
#include <string.h>

#include "passes/check/check.h"
#include "tests/unit/shared/t-type.h"

/* A node, and where it stands. */
struct site {
	func_id func;
	region_id region;
	uint32_t at;
	node_id node;
};

/* A program that a mutation may change, and its schedule. */
struct mutant {
	struct ir_module *m;
	struct sched *s;
	VEC(struct site) sites;
};

/* One kind of damage; false: not at this place. */
struct mutation {
	const char *name;
	bool (*at_node)(struct mutant *k, const struct site *x);
	/* of a function, or of the whole, counted from 0 */
	bool (*at_func)(struct mutant *k, func_id f, uint32_t variant);
	bool (*at_place)(struct mutant *k, uint32_t place);
};

static inline const struct ir_node *
node_at(const struct mutant *k, const struct site *x)
{
	return ir_node(k->m, x->node);
}

static inline bool
is_update(const struct mutant *k, func_id f)
{
	return strncmp(ir_text(k->m->ctx, k->m->funcs.at[f].name), "pipe",
		       4) == 0;
}

static inline void
find_sites(struct mutant *k, func_id f, region_id id)
{
	const struct ir_region *r = &k->m->regions.at[id];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		struct site x = { f, id, i, r->nodes.at[i] };
		region_id inner = ir_node(k->m, x.node)->region;

		VEC_PUSH(&k->m->ctx->perm, &k->sites, x);
		if (inner) {
			find_sites(k, f, inner);
		}
	}
}

/* ---- changes ---- */

static inline void
unlist(struct mutant *k, const struct site *x)
{
	struct ir_region *r = &k->m->regions.at[x->region];

	memmove(&r->nodes.at[x->at], &r->nodes.at[x->at + 1],
		(r->nodes.n - x->at - 1) * sizeof *r->nodes.at);
	r->nodes.n--;
}

static inline void
use_instead(struct mutant *k, value_id of, value_id v)
{
	value_id *map = arena_alloc(&k->m->ctx->perm, k->m->values.n *
				    sizeof *map);

	map[of] = v;
	ir_replace_uses(k->m, map);
}

/* A node list's entry from one place to another. */
static inline void
move(struct mutant *k, region_id id, uint32_t from, uint32_t to)
{
	struct ir_region *r = &k->m->regions.at[id];
	node_id n = r->nodes.at[from];

	if (from < to) {
		memmove(&r->nodes.at[from], &r->nodes.at[from + 1],
			(to - from) * sizeof n);
	} else {
		memmove(&r->nodes.at[to + 1], &r->nodes.at[to],
			(from - to) * sizeof n);
	}
	r->nodes.at[to] = n;
}

/* The node once more, right after itself; its new result, or 0. */
static inline value_id
copy(struct mutant *k, const struct site *x)
{
	struct ir_module *m = k->m;
	struct ir_node n = *ir_node(m, x->node);
	struct ir_value v;
	node_id id = m->nodes.n;

	if (n.nresults) {
		v = m->values.at[n.result];
		v.node = id;
		n.result = m->values.n;
		VEC_PUSH(&m->ctx->perm, &m->values, v);
	}
	VEC_PUSH(&m->ctx->perm, &m->nodes, n);
	VEC_PUSH(&m->ctx->perm, &m->regions.at[x->region].nodes, id);
	move(k, x->region, m->regions.at[x->region].nodes.n - 1, x->at + 1);
	return n.nresults ? n.result : 0;
}

/* A node of one operand after the site; its uses become the new one's. */
static inline bool
put_behind(struct mutant *k, const struct site *x, struct ir_new *n,
	   const struct ir_type *type)
{
	struct ir_module *m = k->m;
	value_id was = ir_node(m, x->node)->result, v;
	const char *why;

	ir_new_arg(n, was);
	v = ir_append(m, x->region, n, &why);
	if (!v) {
		return false;
	}
	*own_type(m, v) = *type;
	use_instead(k, was, v);
	ir_args(m, ir_node(m, m->values.at[v].node))[0] = was;
	move(k, x->region, m->regions.at[x->region].nodes.n - 1, x->at + 1);
	return true;
}

/* A node's own attribute, to be changed; those of nodes are not shared. */
static inline struct ir_attr *
attr_of(struct mutant *k, node_id id, enum ir_attr_key key)
{
	return (struct ir_attr *)ir_attr(k->m, ir_node(k->m, id), key);
}

static inline void
drop_attr(struct mutant *k, node_id id, enum ir_attr_key key)
{
	struct ir_node *n = &k->m->nodes.at[id];
	struct ir_attr *a = attr_of(k, id, key);
	uint32_t i = (uint32_t)(a - &k->m->attrs.at[n->attrs]);

	memmove(a, a + 1, (n->nattrs - i - 1u) * sizeof *a);
	n->nattrs--;
}

static inline bool
rename_node(struct mutant *k, const struct site *x, const char *to)
{
	struct ir_attr *a = attr_of(k, x->node, IR_ATTR_NAME);

	a->text = intern_str(&k->m->ctx->syms, to);
	return true;
}

static inline void
add_int(struct mutant *k, node_id id, enum ir_attr_key key, int64_t by,
	int64_t absent)
{
	struct ir_attr *a = attr_of(k, id, key);
	struct ir_node *n = &k->m->nodes.at[id];
	struct ir_attr fresh = { .key = (uint8_t)key, .i = absent + by };
	uint32_t i, from = n->attrs, at = k->m->attrs.n;

	if (a) {
		a->i += by;
		a->expr = 0;
		return;
	}
	for (i = 0; i < n->nattrs; i++) {	/* in the order of the row */
		if (i == 1) {
			VEC_PUSH(&k->m->ctx->perm, &k->m->attrs, fresh);
		}
		VEC_PUSH(&k->m->ctx->perm, &k->m->attrs,
			 k->m->attrs.at[from + i]);
	}
	if (n->nattrs == 1) {
		VEC_PUSH(&k->m->ctx->perm, &k->m->attrs, fresh);
	}
	n->attrs = at;
	n->nattrs++;
}

/* ---- all values of a function ---- */

static inline void
each_value(struct mutant *k, region_id id,
	   void (*f)(struct ir_type *t, axis_id a, axis_id b), axis_id a,
	   axis_id b)
{
	struct ir_module *m = k->m;
	uint32_t i, j;

	for (i = 0; i < m->regions.at[id].params.n; i++) {
		f(own_type(m, m->regions.at[id].params.at[i]), a, b);
	}
	for (i = 0; i < m->regions.at[id].nodes.n; i++) {
		const struct ir_node *n = ir_node(m, m->regions.at[id]
						  .nodes.at[i]);

		for (j = 0; j < n->nresults; j++) {
			f(own_type(m, n->result + j), a, b);
		}
		if (n->region) {
			each_value(k, n->region, f, a, b);
		}
	}
}

static inline void
forget_in_type(struct ir_type *t, axis_id a, axis_id b)
{
	struct ir_along whole = { IR_IS_WHOLE, 0 };

	(void)b;
	ir_set_along(t, a, whole);
}

static inline uint8_t
swap_bits(uint8_t x, axis_id a, axis_id b)
{
	uint8_t p = x >> (a - 1) & 1, q = x >> (b - 1) & 1;

	x &= (uint8_t)~(1u << (a - 1) | 1u << (b - 1));
	return (uint8_t)(x | q << (a - 1) | p << (b - 1));
}

static inline void
swap_in_type(struct ir_type *t, axis_id a, axis_id b)
{
	uint32_t i, at;

	t->sum = swap_bits(t->sum, a, b);
	t->routed = swap_bits(t->routed, a, b);
	for (i = 0; i < t->ndims; i++) {
		for (at = 0; t->cut[i] >> at; at += 4) {
			axis_id x = t->cut[i] >> at & 15;

			x = x == a ? b : x == b ? a : x;
			t->cut[i] = (t->cut[i] & ~(15u << at)) | x << at;
		}
	}
}

static inline void
turn_in_type(struct ir_type *t, axis_id a, axis_id b)
{
	uint32_t i, cut, out;

	(void)a;
	(void)b;
	for (i = 0; i < t->ndims; i++) {
		for (out = 0, cut = t->cut[i]; cut; cut >>= 4) {
			out = out << 4 | (cut & 15);
		}
		t->cut[i] = out;
	}
}

#endif
