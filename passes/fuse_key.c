/*
 * What the kernels of a region follow from, as 128 bits: its nodes with their
 * attributes and classes, types, who uses what, and what lies behind the
 * views of values that come from around it; and as 128 more: sizes.  Values
 * and names are told by the order in which they are met, so the same layer in
 * another stage or module has the same key; dims by their ids, since kernels
 * name them.
 */
#include "passes/fuse.h"

#include <string.h>

#include "passes/plan.h"

struct keying {
	struct fuse *f;
	struct fuse_key *key;
};

static void
mix_in(uint64_t hash[2], uint64_t word)
{
	hash[0] = (hash[0] ^ word) * 0x9e3779b97f4a7c15u;
	hash[0] ^= hash[0] >> 29;
	hash[1] = (hash[1] + word) * 0xd6e8feb86659fd93u;
	hash[1] ^= hash[1] >> 32;
}

static void
mix(struct fuse_key *k, uint64_t word)
{
	mix_in(k->hash, word);
}

static void
mix_size(struct fuse_key *k, uint64_t word)
{
	mix_in(k->sizes, word);
}

static uint64_t
bits_of(double d)
{
	uint64_t bits;

	memcpy(&bits, &d, sizeof bits);
	return bits;
}

/* ---- types ---- */

static uint64_t
pair(uint32_t a, uint32_t b)
{
	return (uint64_t)a << 32 | b;
}

/* Of all ranks, and of the one that has most: kernels ask for both. */
static void
mix_type(struct keying *x, const struct ir_type *t)
{
	const struct ir_module *m = x->f->m;
	uint32_t i;
	axis_id a;

	mix(x->key, pair((uint32_t)t->dtype << 24 | (uint32_t)t->ndims << 16 |
			 (uint32_t)t->sum << 8 | t->routed, t->of));
	for (i = 0; i < t->ndims; i++) {
		int64_t size = ir_dim_size(m, t->dims[i]);

		mix(x->key, pair(t->dims[i], t->cut[i]));
		mix_size(x->key, (uint64_t)size);
		if (t->cut[i]) {
			mix_size(x->key,
				 (uint64_t)ir_most(m, size, t->cut[i]));
		}
	}
	if (t->of) {
		mix_size(x->key, (uint64_t)ir_dim_size(m, t->of));
	}
	for (a = 1; a < m->axes.n && t->routed; a++) {
		mix_size(x->key, t->routed >> (a - 1) & 1
			? (uint64_t)m->axes.at[a].size : 0);
	}
}

/* ---- nodes ---- */

/* Only which names are the same. */
static void
mix_name(struct keying *x, sym_t name)
{
	struct fuse *f = x->f;

	if (!f->name_number[name]) {
		VEC_PUSH(&f->scratch, &x->key->names, name);
		f->name_number[name] = x->key->names.n;
	}
	mix(x->key, f->name_number[name]);
}

static void
mix_word(struct keying *x, sym_t word)
{
	const char *p = ir_text(x->f->m->ctx, word);

	for (; *p; p++) {
		mix(x->key, (unsigned char)*p);
	}
}

/* How many ranks talk decides whether talks become one call. */
static void
mix_axes(struct keying *x, const struct ir_attr *a)
{
	uint32_t i;

	for (i = 0; i < a->ndims; i++) {
		mix_size(x->key, x->f->m->axes.at[a->dims[i]].size > 1);
	}
}

static void
mix_attr(struct keying *x, const struct ir_attr *a)
{
	enum ir_attr_kind kind = ir_attrs[a->key].kind;
	uint32_t i;

	mix(x->key, pair(a->key, a->ndims));
	for (i = 0; i < a->ndims; i++) {
		mix(x->key, a->dims[i]);
		if (kind == ATTR_DIM || kind == ATTR_DIMS) {
			mix_size(x->key, (uint64_t)ir_dim_size(x->f->m,
							a->dims[i]));
		}
	}
	mix(x->key, (uint64_t)a->i);
	mix(x->key, bits_of(a->num));
	if (kind == ATTR_AXES) {
		mix_axes(x, a);
	} else if (kind == ATTR_STR) {
		mix_name(x, a->text);
	} else if (kind == ATTR_WORD) {
		mix_word(x, a->text);
	}
}

static void
mix_op(struct keying *x, node_id id)
{
	const struct ir_node *n = ir_node(x->f->m, id);
	uint32_t i;

	mix(x->key, pair((uint32_t)n->op << 16 | n->nargs,
			 (uint32_t)n->nresults << 16 |
			 (uint32_t)n->nattrs << 8 | x->f->class[id]));
	for (i = 0; i < n->nattrs; i++) {
		mix_attr(x, &x->f->m->attrs.at[n->attrs + i]);
	}
}

/* ---- values ---- */

static void
number(struct keying *x, value_id v)
{
	VEC_PUSH(&x->f->scratch, &x->key->values, v);
	x->f->number[v] = x->key->values.n;
	mix_type(x, ir_type(x->f->m, v));
}

/*
 * One that no node of the region has made is from around it: what matters of
 * it is behind its views.
 */
static void
mix_value(struct keying *x, value_id v)
{
	node_id id = x->f->m->values.at[v].node;
	const struct ir_node *n = ir_node(x->f->m, id);
	bool first = !x->f->number[v];
	uint32_t i;

	if (first) {
		VEC_PUSH(&x->f->scratch, &x->key->outer, v);
		number(x, v);
	}
	mix(x->key, x->f->number[v]);
	if (first && id) {
		mix(x->key, pair(x->f->constant[v], x->f->class[id]));
		if (x->f->class[id] != FUSE_FREE) {
			return;
		}
		mix_op(x, id);
		for (i = 0; i < n->nargs; i++) {
			mix_value(x, ir_args(x->f->m, n)[i]);
		}
	}
}

/* ---- regions ---- */

/* A region inside has a key of its own; what it uses of this one counts. */
static void
mix_inner(struct keying *x, region_id r)
{
	const struct fuse_key *inner = &x->f->keys[r];
	uint32_t i;

	x->key->none |= inner->none;
	mix(x->key, inner->hash[0]);
	mix(x->key, inner->hash[1]);
	mix_size(x->key, inner->sizes[0]);
	mix_size(x->key, inner->sizes[1]);
	for (i = 0; i < inner->outer.n; i++) {
		mix_value(x, inner->outer.at[i]);
	}
	for (i = 0; i < inner->names.n; i++) {
		mix_name(x, inner->names.at[i]);
	}
}

/* Whether it can run by parts depends on how many ranks share its rows. */
static void
mix_shares(struct keying *x, const struct ir_node *n)
{
	const struct ir_module *m = x->f->m;
	uint32_t i, k, cut;

	for (k = 0; k < n->nargs; k++) {
		const struct ir_type *t = ir_type(m, ir_args(m, n)[k]);

		for (i = 0; i < t->ndims; i++) {
			for (cut = t->cut[i]; cut; cut >>= 4) {
				mix_size(x->key, (uint64_t)
					 m->axes.at[cut & 15].size);
			}
		}
	}
}

static void
mix_node(struct keying *x, node_id id)
{
	const struct ir_node *n = ir_node(x->f->m, id);
	uint32_t i;

	/* what another function does is not looked at */
	x->key->none |= n->callee != 0;
	if (ir_attr(x->f->m, n, IR_ATTR_CHUNKS)) {
		mix_shares(x, n);
	}
	mix_op(x, id);
	for (i = 0; i < n->nargs; i++) {
		mix_value(x, ir_args(x->f->m, n)[i]);
	}
	if (n->region) {
		mix_inner(x, n->region);
	}
	for (i = 0; i < n->nresults; i++) {
		number(x, n->result + i);
	}
}

static void
mix_settings(struct keying *x)
{
	struct ir_module *m = x->f->m;
	uint32_t balanced = 0;
	axis_id a;

	for (a = 1; a < m->axes.n; a++) {
		balanced |= (uint32_t)m->axes.at[a].balanced << a;
	}
	mix(x->key, pair(balanced, (uint32_t)plan_joins(m) << 1 |
				   x->f->updates));
	mix_size(x->key, bits_of(ir_setting_num(m, "join.link", 0)));
	mix_size(x->key, bits_of(ir_setting_num(m, "join.work", 0)));
}

static void
forget_numbers(struct keying *x)
{
	uint32_t i;

	for (i = 0; i < x->key->values.n; i++) {
		x->f->number[x->key->values.at[i]] = 0;
	}
	for (i = 0; i < x->key->names.n; i++) {
		x->f->name_number[x->key->names.at[i]] = 0;
	}
}

void
fuse_find_keys(struct fuse *f, region_id r)
{
	const struct ir_region *region = &f->m->regions.at[r];
	struct keying x = { f, &f->keys[r] };
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(f->m, region->nodes.at[i]);

		if (n->region) {
			fuse_find_keys(f, n->region);
		}
	}
	*x.key = (struct fuse_key){ .hash = { 1, 2 },
				     .sizes = { 1, 2 } };
	mix_settings(&x);
	mix(x.key, pair(region->nodes.n, region->params.n));
	for (i = 0; i < region->params.n; i++) {
		number(&x, region->params.at[i]);
	}
	for (i = 0; i < region->nodes.n; i++) {
		mix_node(&x, region->nodes.at[i]);
	}
	for (i = 0; i < region->results.n; i++) {
		mix_value(&x, region->results.at[i]);
	}
	forget_numbers(&x);
}
