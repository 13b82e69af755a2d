/*
 * Rules of nodes, bound.  Nodes are bound over and over, by whoever asks for a
 * dim of theirs, and most are alike: to what a rule is bound follows from the
 * op, the dims of operands and those that attributes name.  Each of these is
 * bound once, known by 128 bits of a hash.  Sizes have no part in it: that
 * they fit was seen when the node was made, or verified.
 */
#include "ir/ir.h"

struct binding {
	struct hash hash;
	struct ir_rule rule;
};

struct ir_bound {
	struct arena *arena;
	struct table table;
	VEC(struct binding *) at;	/* by entry; the first is none */
};

struct ir_bound *
ir_bound_new(struct arena *a)
{
	struct ir_bound *b = arena_alloc(a, sizeof *b);

	b->arena = a;
	return b;
}

static void
add_dims(struct hash *h, const dim_id *dims, uint32_t n)
{
	uint32_t i;

	hash_add(h, n);
	for (i = 0; i + 1 < n; i += 2) {
		hash_add(h, (uint64_t)dims[i] << 32 | dims[i + 1]);
	}
	if (i < n) {
		hash_add(h, dims[i]);
	}
}

/* Of all that it is bound by. */
static struct hash
hash_of(const struct ir_module *m, const struct ir_node *n,
	const struct ir_rule *rule)
{
	struct hash h = { n->op, n->nargs };
	const value_id *args = ir_args(m, n);
	const struct ir_attr *a;
	uint32_t i;

	for (i = 0; i < rule->nops; i++) {
		const struct ir_type *t = ir_type(m, args[i]);

		add_dims(&h, t->dims, t->ndims);
	}
	for (i = 0; i < rule->nf; i++) {
		a = rule->f[i].by_attr
			? ir_attr(m, n, (enum ir_attr_key)rule->f[i].key)
			: NULL;
		if (a) {
			add_dims(&h, a->dims, a->ndims);
		}
	}
	return h;
}

static void
bind(struct ir_module *m, const struct ir_node *n, struct ir_rule *r)
{
	const struct ir_type *types[IR_MAX_OPERANDS];
	const char *why = "?";
	uint32_t i;

	for (i = 0; i < n->nargs && i < IR_MAX_OPERANDS; i++) {
		types[i] = ir_type(m, ir_args(m, n)[i]);
	}
	if (!ir_rule_bind(m, n->op, types, m->attrs.at + n->attrs, n->nattrs,
			  r, &why)) {
		die("a %s that does not bind: %s", ir_ops[n->op].name, why);
	}
}

void
ir_bind(struct ir_module *m, const struct ir_node *n, struct ir_rule *r)
{
	struct ir_bound *b = m->ctx->bound;
	struct hash hash = hash_of(m, n, ir_rule_of(m->ctx, n->op));
	uint32_t at = table_find(&b->table, hash.a, 0);
	struct binding *x;

	while (at && !hash_same(b->at.at[at]->hash, hash)) {
		at = table_find(&b->table, hash.a, at);
	}
	if (!at) {
		x = arena_alloc_raw(b->arena, sizeof *x);
		x->hash = hash;
		bind(m, n, &x->rule);
		if (!b->at.n) {
			VEC_PUSH(b->arena, &b->at, NULL);
		}
		at = table_add(b->arena, &b->table, hash.a);
		VEC_PUSH(b->arena, &b->at, x);
	}
	*r = b->at.at[at]->rule;
}
