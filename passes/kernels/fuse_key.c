/*
 * The key of a region: 128 bits of all that its kernels follow from but
 * lengths, and 128 bits of lengths.  In it are nodes with attributes and
 * classes, types, uses, and the views of values from outside.  Values and names
 * are numbered in the order in which they are met, so that the same layer in
 * another stage or module has the same key; dims count by their ids, since
 * kernels refer to them.  Of an inner region only what it reads and names and
 * whether it communicates counts, since its kernels have a key of their own.
 */
#include "passes/kernels/fuse.h"

#include <string.h>

struct keying {
	struct fuse *f;
	struct fuse_key *key;
	uint64_t word;		/* of the current node */
	uint32_t place;		/* its place, from 1 */
};

static void
mix(struct keying *x, uint64_t word)
{
	x->word = hash_word(x->word, word);
}

/* Adds all that was mixed since the last call to the key. */
static void
end_word(struct keying *x)
{
	hash_add(&x->key->hash, x->word);
	x->word = 1;
}

static uint64_t
pair(uint32_t a, uint32_t b)
{
	return (uint64_t)a << 32 | b;
}

/* ---- types ---- */

static void
new_cut(struct keying *x, dim_id d, uint32_t cut)
{
	struct fuse *f = x->f;
	struct fuse_cut new = { d, cut, f->cut_of[d] };

	VEC_PUSH(&f->bench, &x->key->cuts, new);
	f->cut_of[d] = x->key->cuts.n;
}

/* The length of a dim counts, and how much of it one rank has. */
static inline void
add_cut(struct keying *x, dim_id d, uint32_t cut)
{
	const struct fuse_cut *at = x->key->cuts.at;
	uint32_t i = x->f->cut_of[d];

	while (i && at[i - 1].cut != cut) {
		i = at[i - 1].next;
	}
	if (!i) {
		new_cut(x, d, cut);
	}
}

static void
add_cuts(struct keying *x, const struct ir_type *t)
{
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		add_cut(x, t->dims[i], t->cut[i]);
	}
	if (t->of) {
		add_cut(x, t->of, 0);
	}
	x->key->lengths |= (uint32_t)t->routed << 1;
}

/* The cuts of a type are added once for each key. */
static void
mix_type(struct keying *x, type_id t)
{
	struct fuse *f = x->f;
	struct fuse_typed *at = &f->typed[t];

	if (at->key != f->keyed) {
		const struct ir_type *of = ir_type_of(f->m->ctx, t);

		at->hash = at->key ? at->hash : ir_type_hash(of);
		at->key = f->keyed;
		add_cuts(x, of);
	}
	mix(x, at->hash);
}

/* ---- nodes ---- */

/* Kept by name, as a program has few and uses them often. */
static bool
is_in_layers(struct fuse *f, sym_t name)
{
	uint8_t *known = &f->in_layers[name];

	if (!*known) {
		*known = ir_name_is_in_layers(f->m, name) ? 2 : 1;
	}
	return *known == 2;
}

/*
 * A name orders the places that use it, so what counts is which earlier places
 * used it.  A name that one place uses orders nothing.  Prices of the list
 * also depend on whether each layer has a tensor of the name, since those may
 * lie on the host.
 */
static void
mix_name(struct keying *x, uint32_t op, sym_t name)
{
	uint32_t *last = &x->f->said[name], i;
	struct fuse_name new = { name, x->place, op, *last };

	for (i = *last; i; i = x->key->names.at[i - 1].next) {
		const struct fuse_name *n = &x->key->names.at[i - 1];

		if (n->place != new.place) {
			mix(x, (uint64_t)op << 48 |
			       (uint64_t)n->place << 16 | n->op);
		} else if (n->op == op) {
			return;		/* the earlier ones are mixed */
		}
	}
	mix(x, is_in_layers(x->f, name));
	VEC_PUSH(&x->f->bench, &x->key->names, new);
	*last = x->key->names.n;
}

/* Whether kernels depend on an attribute; not on which layers a repeat runs. */
static bool
is_in_key(const struct ir_attr *a)
{
	return a->key != IR_ATTR_COUNT && a->key != IR_ATTR_START &&
	       a->key != IR_ATTR_VAR && a->key != IR_ATTR_STAGE &&
	       a->key != IR_ATTR_INIT && a->key != IR_ATTR_STD;
}

static void
mix_attr(struct keying *x, uint32_t op, const struct ir_attr *a)
{
	uint32_t i;

	mix(x, pair(a->key, a->ndims));
	for (i = 0; i < a->ndims; i++) {
		mix(x, a->dims[i]);
	}
	switch (ir_attrs[a->key].kind) {
	case ATTR_DIM:
	case ATTR_DIMS:
		for (i = 0; i < a->ndims; i++) {
			add_cut(x, a->dims[i], 0);
		}
		break;
	case ATTR_AXES:
		for (i = 0; i < a->ndims; i++) {
			x->key->several |= 1u << a->dims[i];
		}
		break;
	case ATTR_STR:
		mix_name(x, op, a->text);
		break;
	case ATTR_WORD:
	case ATTR_NUMS:
		x->word = hash_text(x->word, ir_text(x->f->m->ctx, a->text));
		break;
	default:
		mix(x, (uint64_t)a->i);
		mix(x, num_bits(a->num));
		break;
	}
}

static void
mix_op(struct keying *x, node_id id)
{
	const struct ir_node *n = ir_node(x->f->m, id);
	const struct ir_attr *a = &x->f->m->attrs.at[n->attrs];
	uint32_t i;

	mix(x, pair((uint32_t)n->op << 16 | n->nargs,
		    (uint32_t)n->nresults << 8 | x->f->class[id]));
	for (i = 0; i < n->nattrs; i++) {
		if (is_in_key(&a[i])) {
			mix_attr(x, n->op, &a[i]);
		}
	}
}

/* ---- values ---- */

static void
number_value(struct keying *x, value_id v)
{
	VEC_PUSH(&x->f->bench, &x->key->values, v);
	x->f->number[v] = x->key->values.n;
	mix_type(x, x->f->m->values.at[v].type);
}

/*
 * A value that no node of the region has made comes from outside; what counts
 * of it is the value that it is a view of.
 */
static void
mix_value(struct keying *x, value_id v)
{
	uint32_t place = x->place, i;
	const struct ir_node *n;
	node_id id;

	if (x->f->number[v]) {
		mix(x, x->f->number[v]);
		return;
	}
	VEC_PUSH(&x->f->bench, &x->key->outer, v);
	number_value(x, v);
	mix(x, x->f->number[v]);
	id = x->f->m->values.at[v].node;
	if (!id) {
		return;
	}
	mix(x, pair(x->f->constant[v], x->f->class[id]));
	if (x->f->class[id] == FUSE_FREE) {
		n = ir_node(x->f->m, id);
		x->place = ~x->f->number[v];	/* not in the region */
		mix_op(x, id);
		for (i = 0; i < n->nargs; i++) {
			mix_value(x, ir_args(x->f->m, n)[i]);
		}
		x->place = place;
	}
}

/* ---- regions ---- */

/* What an inner region reads of the values and names around it. */
static void
mix_inner(struct keying *x, region_id r)
{
	const struct fuse_key *inner = &x->f->keys[r];
	uint32_t i;

	x->key->nests = true;
	x->key->none |= inner->none;
	x->key->colls |= inner->colls;
	mix(x, inner->colls);
	for (i = 0; i < inner->outer.n; i++) {
		mix_value(x, inner->outer.at[i]);
	}
	for (i = 0; i < inner->names.n; i++) {
		mix_name(x, inner->names.at[i].op, inner->names.at[i].name);
	}
	if (inner->loose) {
		x->key->loose = true;
		mix(x, inner->hash.a);
		mix(x, inner->hash.b);
	}
}

/* Whether it can run in parts depends on how many ranks share its rows. */
static void
add_shares(struct keying *x, const struct ir_node *n)
{
	uint32_t i, k, cut;

	for (k = 0; k < n->nargs; k++) {
		const struct ir_type *t = ir_type(x->f->m,
						  ir_args(x->f->m, n)[k]);

		for (i = 0; i < t->ndims; i++) {
			for (cut = t->cut[i]; cut; cut >>= 4) {
				x->key->lengths |= 1u << (cut & 15);
			}
		}
	}
}

/* An unused view: no other node shows whether its operand is used. */
static bool
is_loose(const struct fuse *f, const struct ir_node *n, node_id id)
{
	return f->class[id] == FUSE_FREE && n->nresults == 1 && n->nargs &&
	       !f->uses[n->result] && !f->escapes[n->result];
}

static void
mix_node(struct keying *x, node_id id)
{
	const struct ir_node *n = ir_node(x->f->m, id);
	uint32_t i;

	/* the key has nothing of other functions */
	x->key->none |= n->callee != 0;
	x->key->loose |= is_loose(x->f, n, id);
	x->key->colls |= fuse_communicates(x->f, id);
	if (ir_attr(x->f->m, n, IR_ATTR_CHUNKS)) {
		add_shares(x, n);
	}
	mix_op(x, id);
	for (i = 0; i < n->nargs; i++) {
		mix_value(x, ir_args(x->f->m, n)[i]);
	}
	if (n->region) {
		mix_inner(x, n->region);
	}
	for (i = 0; i < n->nresults; i++) {
		number_value(x, n->result + i);
	}
	end_word(x);
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
	mix(x, pair(balanced, (uint32_t)x->f->joins << 1 | x->f->updates));
}

/* Lengths over all ranks, and of the rank that has most; kernels need both. */
static void
key_lens(struct fuse *f, const struct fuse_key *made, struct fuse_key *key)
{
	uint32_t n = made->cuts.n, i;

	key->lens.cap = 2 * n;
	key->lens.n = 0;
	key->lens.at =
		arena_alloc_raw(f->scratch, 2 * n * sizeof *key->lens.at);
	for (i = 0; i < n; i++) {
		const struct fuse_cut *c = &made->cuts.at[i];

		key->lens.at[key->lens.n++] = ir_count_len(&f->lens, c->dim,
							   0);
		if (c->cut) {
			key->lens.at[key->lens.n++] =
				ir_count_len(&f->lens, c->dim, c->cut);
		}
	}
}

static void
key_sizes(struct fuse *f, struct fuse_key *key)
{
	const struct ir_module *m = f->m;
	const double *len = fuse_lens(f);
	uint32_t i;
	axis_id a;

	key->sizes = (struct hash){ 1, 2 };
	hash_add(&key->sizes, num_bits(f->join_link));
	hash_add(&key->sizes, num_bits(f->join_work));
	hash_add(&key->sizes, f->launches * 2u + f->in_parts);
	for (i = 0; i < key->lens.n; i++) {
		hash_add(&key->sizes, num_bits(len[key->lens.at[i]]));
	}
	for (a = 1; a < m->axes.n; a++) {
		int64_t size = m->axes.at[a].size;

		if (key->lengths >> a & 1) {
			hash_add(&key->sizes, (uint64_t)size);
		} else if (key->several >> a & 1) {
			hash_add(&key->sizes, size > 1);
		}
	}
}

static void
forget_numbers(struct fuse *f, const struct fuse_key *key)
{
	uint32_t i;

	for (i = 0; i < key->values.n; i++) {
		f->number[key->values.at[i]] = 0;
	}
	for (i = 0; i < key->names.n; i++) {
		f->said[key->names.at[i].name] = 0;
	}
	for (i = 0; i < key->cuts.n; i++) {
		f->cut_of[key->cuts.at[i].dim] = 0;
	}
}

/* Its lists keep their capacity. */
static void
open_key(struct fuse_key *key)
{
	key->hash = (struct hash){ 1, 2 };
	key->none = key->colls = key->loose = key->nests = false;
	key->values.n = key->outer.n = key->names.n = key->cuts.n = 0;
	key->lengths = key->several = 0;
}

/* Outer values and names are kept for the region around, in this call. */
static void
keep_key(struct fuse *f, const struct fuse_key *made, bool inner,
	 struct fuse_key *key)
{
	*key = *made;
	key->known = true;
	FUSE_KEEP(f->scratch, &key->values);
	key_lens(f, made, key);
	memset(&key->cuts, 0, sizeof key->cuts);
	key->outer.n = inner ? key->outer.n : 0;
	key->names.n = inner ? key->names.n : 0;
	FUSE_KEEP(&f->bench, &key->outer);
	FUSE_KEEP(&f->bench, &key->names);
}

void
fuse_find_keys(struct fuse *f, region_id r)
{
	const struct ir_region *region = &f->m->regions.at[r];
	struct keying x = { f, &f->making, 1, 0 };
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(f->m, region->nodes.at[i]);

		if (n->region) {
			fuse_find_keys(f, n->region);
		}
	}
	open_key(x.key);
	f->keyed++;
	mix_settings(&x);
	mix(&x, pair(region->nodes.n, region->params.n));
	for (i = 0; i < region->params.n; i++) {
		number_value(&x, region->params.at[i]);
	}
	end_word(&x);
	for (i = 0; i < region->nodes.n; i++) {
		x.place = i + 1;
		mix_node(&x, region->nodes.at[i]);
	}
	for (i = 0; i < region->results.n; i++) {
		mix_value(&x, region->results.at[i]);
	}
	end_word(&x);
	forget_numbers(f, x.key);
	keep_key(f, x.key, region->owner != 0, &f->keys[r]);
}

void
fuse_find_sizes(struct fuse *f, region_id r)
{
	const struct ir_region *region = &f->m->regions.at[r];
	uint32_t i;

	key_sizes(f, &f->keys[r]);
	for (i = 0; f->keys[r].nests && i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(f->m, region->nodes.at[i]);

		if (n->region) {
			fuse_find_sizes(f, n->region);
		}
	}
}

struct hash
fuse_content(const struct fuse_key *key)
{
	struct hash content = key->hash;

	hash_add(&content, key->sizes.a);
	hash_add(&content, key->sizes.b);
	return content;
}
