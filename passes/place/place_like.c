/*
 * Classes of values: values with the same dims and uses have the same possible
 * placements and conversions along any axis, apart from bytes.  So these are
 * found once per class, and a placement is one byte.  Cells, one for each name,
 * are numbered here too.
 */
#include "passes/place/place.h"

#include <string.h>

/* ---- uses ---- */

bool
place_can_route(enum ir_op op, uint32_t k)
{
	return ir_is(op, IRF_INDEXED) && ir_is(op, IRF_CONTRACTS) &&
	       ir_ops[op].dtypes[k] != 'i';
}

static void
use_nodes(struct place *p, bool *routable)
{
	uint32_t i, k;

	for (i = 1; i < p->nnodes; i++) {
		const struct ir_node *n = ir_node(p->m, i);

		for (k = 0; p->reached.node[i] && k < n->nargs; k++) {
			value_id v = ir_args(p->m, n)[k];

			p->facts->uses[v]++;
			routable[v] |= place_can_route((enum ir_op)n->op, k);
		}
	}
}

static void
use_results(struct place *p)
{
	uint32_t i, k;

	for (i = 1; i < p->m->regions.n; i++) {
		const struct ir_region *r = &p->m->regions.at[i];

		for (k = 0; p->reached.region[i] && k < r->results.n; k++) {
			p->facts->uses[r->results.at[k]]++;
		}
	}
}

/* ---- values ---- */

static uint64_t
hash_like(const struct place_like *l)
{
	uint64_t words[sizeof *l / 8], hash = 0;
	uint32_t i;

	memcpy(words, l, sizeof words);
	for (i = 0; i < sizeof *l / 8; i++) {
		hash = hash_word(hash, words[i]);
	}
	return hash;
}

/* Dims, as bits, of rows of a weight of 4 bits: of it, and of what contractions
 * read as it. */
static uint64_t
grouped_dims(const struct place *p, value_id v)
{
	const struct ir_node *n = ir_rounded_weight(p->m, v);
	const struct ir_type *t = ir_type(p->m, v);
	const struct ir_attr *over;
	uint64_t bits = 0;
	uint32_t i;

	if (!n || ir_type(p->m, n->result)->dtype != IR_INT4) {
		return 0;
	}
	over = ir_attr(p->m, n, IR_ATTR_ROUNDED);
	for (i = 0; i < over->ndims; i++) {
		bits |= (uint64_t)1 << ir_type_at(t, over->dims[i]);
	}
	return bits;
}

struct finding {
	struct place *p;
	struct table known;	/* by hash of a class */
	const bool *routable;
	bool update;
};

static void
see_value(struct finding *x, value_id v)
{
	struct place_facts *f = x->p->facts;
	const struct ir_type *t = ir_type(x->p->m, v);
	struct place_like l = {
		.ndims = t->ndims, .real = ir_dtypes[t->dtype].is_float,
		.weight = f->weight[v], .picked = f->picked[v],
		.returns = place_can_return(x->p, v),
		.routable = x->routable[v], .many = f->uses[v] > 1,
		.update = x->update, .grouped = grouped_dims(x->p, v)
	};
	uint64_t hash;
	uint32_t at;

	memcpy(l.dims, t->dims, t->ndims * sizeof *l.dims);
	f->groups |= l.grouped != 0;
	hash = hash_like(&l);
	at = table_find(&x->known, hash, 0);
	while (at && memcmp(&f->likes.at[at], &l, sizeof l) != 0) {
		at = table_find(&x->known, hash, at);
	}
	if (!at) {
		at = table_add(&x->p->arena, &x->known, hash);
		VEC_PUSH(f->arena, &f->likes, l);
	}
	f->like[v] = at;
}

static void
see_region(struct finding *x, region_id r)
{
	const struct ir_region *region = &x->p->m->regions.at[r];
	uint32_t i, k;

	for (i = 0; i < region->params.n; i++) {
		see_value(x, region->params.at[i]);
	}
	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(x->p->m,
						  region->nodes.at[i]);

		for (k = 0; k < n->nresults; k++) {
			see_value(x, n->result + k);
		}
		if (n->region) {
			see_region(x, n->region);
		}
	}
}

void
place_find_likes(struct place *p)
{
	struct place_facts *f = p->facts;
	bool *routable = arena_alloc(&p->arena, p->nvalues);
	struct finding x = { .p = p, .routable = routable };
	func_id i;

	f->uses = arena_alloc(f->arena, p->nvalues * sizeof *f->uses);
	f->like = arena_alloc(f->arena, p->nvalues * sizeof *f->like);
	VEC_PUSH(f->arena, &f->likes, (struct place_like){ 0 });
	VEC_PUSH(f->arena, &f->known_ways, (struct place_like_ways){ 0 });
	use_nodes(p, routable);
	use_results(p);
	for (i = 1; i < p->m->funcs.n; i++) {
		x.update = i != p->model;
		see_region(&x, p->m->funcs.at[i].body);
	}
}

struct ir_along
place_along(const struct place_like *l, uint32_t slot)
{
	switch (slot) {
	case PLACE_WHOLE:
		return (struct ir_along){ IR_IS_WHOLE, 0 };
	case PLACE_PART:
		return (struct ir_along){ IR_IS_PART, 0 };
	case PLACE_ROUTED:
		return (struct ir_along){ IR_IS_ROUTED, 0 };
	default:
		return (struct ir_along){ IR_IS_SPLIT,
					  l->dims[slot - PLACE_SPLIT] };
	}
}

uint32_t
place_slot(const struct place_like *l, struct ir_along s)
{
	uint32_t i;

	if (s.how != IR_IS_SPLIT) {
		return s.how == IR_IS_WHOLE ? PLACE_WHOLE
			: s.how == IR_IS_PART ? PLACE_PART : PLACE_ROUTED;
	}
	for (i = 0; i < l->ndims; i++) {
		if (l->dims[i] == s.dim) {
			return PLACE_SPLIT + i;
		}
	}
	die("a value is split by a dim that it lacks");
}

/*
 * Whether dim i of a value may be split along the axis.  Rows of a weight of 4
 * bits are in groups that share a scale: each rank of the tensor axes has whole
 * ones, and no other axis splits them.
 */
static bool
may_split(const struct place *p, const struct place_like *l, uint32_t i)
{
	const bool *may = l->update ? p->late : p->may;
	struct ir_type t = { .ndims = l->ndims };
	struct ir_attr over = { 0 };
	uint32_t k;

	if (!may[l->dims[i]] || !(l->grouped >> i & 1)) {
		return may[l->dims[i]];
	}
	memcpy(t.dims, l->dims, sizeof t.dims);
	for (k = 0; k < l->ndims; k++) {
		if (l->grouped >> k & 1) {
			over.dims[over.ndims++] = l->dims[k];
		}
	}
	return p->kind == PLACE_TENSOR &&
	       ir_keeps_groups(p->m, &t, &over, i, p->plan->tp);
}

uint32_t
place_open(const struct place *p, const struct place_like *l)
{
	uint32_t i, open = 1u << PLACE_WHOLE | 1u << PLACE_PART;

	for (i = 0; i < l->ndims; i++) {
		open |= (uint32_t)may_split(p, l, i) << (PLACE_SPLIT + i);
	}
	return open | (uint32_t)(p->kind == PLACE_EXPERT) << PLACE_ROUTED;
}

place_list
place_all(const struct place *p, const struct place_like *l)
{
	uint32_t open = place_open(p, l), n = 0, slot;
	place_list list = 0;

	if (l->update && p->kind == PLACE_TIME) {
		return place_list_add(0, 0, PLACE_WHOLE);
	}
	open &= l->real ? ~0u : ~(1u << PLACE_PART | 1u << PLACE_ROUTED);
	open &= l->update ? ~(1u << PLACE_ROUTED) : ~0u;
	for (slot = 0; slot < PLACE_SLOTS; slot++) {
		if (open >> slot & 1) {
			list = place_list_add(list, n++, slot);
		}
	}
	return list;
}

/* ---- ways ---- */

static struct place_way
in_slots(const struct place *p, const struct ir_node *n,
	 const struct ir_way *w)
{
	struct place_way to = { .colls = w->colls };
	const value_id *args = ir_args(p->m, n);
	uint32_t k;

	for (k = 0; k < n->nargs; k++) {
		to.in[k] = (uint8_t)place_slot(place_like(p, args[k]),
					       w->in[k]);
	}
	to.out = (uint8_t)place_slot(place_like(p, n->result), w->out);
	return to;
}

static struct place_ways
find_ways(struct place *p, const struct ir_node *n, struct arena *a)
{
	struct ir_way ways[IR_MAX_WAYS];
	struct place_ways w;
	struct place_way *to;
	uint32_t i;

	w.n = ir_ways(p->m, n, p->axis, ways);
	w.at = to = arena_alloc_raw(a, w.n * sizeof *to);
	for (i = 0; i < w.n; i++) {
		to[i] = in_slots(p, n, &ways[i]);
	}
	return w;
}

/* Hashes the op, the dims in its attributes, and the classes of its values. */
static struct hash
hash_node(const struct place *p, const struct ir_node *n)
{
	struct hash h = { n->op, n->nattrs };
	uint32_t i, k;

	hash_add(&h, p->facts->like[n->result]);
	for (i = 0; i < n->nargs; i++) {
		hash_add(&h, p->facts->like[ir_args(p->m, n)[i]]);
	}
	for (i = 0; i < n->nattrs; i++) {
		const struct ir_attr *a = &p->m->attrs.at[n->attrs + i];

		hash_add(&h, (uint64_t)a->key << 8 | a->ndims);
		for (k = 0; k < a->ndims; k++) {
			hash_add(&h, a->dims[k]);
		}
	}
	return h;
}

/* Ways that hold on every axis, shared by equal nodes. */
static struct place_ways
ways_of_any(struct place *p, const struct ir_node *n)
{
	struct place_facts *f = p->facts;
	struct hash hash = hash_node(p, n);
	uint32_t at = table_find(&f->known, hash.a, 0);
	struct place_like_ways new;

	while (at && !hash_same(f->known_ways.at[at].hash, hash)) {
		at = table_find(&f->known, hash.a, at);
	}
	if (!at) {
		new.hash = hash;
		new.ways = find_ways(p, n, f->arena);
		at = table_add(f->arena, &f->known, hash.a);
		VEC_PUSH(f->arena, &f->known_ways, new);
	}
	return f->known_ways.at[at].ways;
}

struct place_ways
place_ways(struct place *p, node_id id)
{
	const struct ir_node *n = ir_node(p->m, id);
	struct place_ways *known = &p->facts->ways[id];

	if (known->at) {
		return *known;
	}
	if (!ir_same_ways((enum ir_op)n->op)) {
		return find_ways(p, n, &p->scratch);
	}
	return *known = ways_of_any(p, n);
}

/* ---- names ---- */

enum place_cell
place_cell_kind(enum ir_op op)
{
	return ir_is(op, IRF_STASH) ? CELL_STASH
		: ir_is(op, IRF_SUMS) ? CELL_GRADIENT
		: CELL_STORED;
}

static bool
has_name(const struct ir_node *n)
{
	return n->op != IR_INPUT &&
	       ir_is(n->op, IRF_SINK | IRF_STORED | IRF_STASH | IRF_SUMS);
}

/* The cell by kind and name; names are the current symbol ids. */
struct naming {
	struct place *p;
	uint32_t *of[CELL_KINDS];
};

/* The number of a cell, which is added if it is new. */
static uint32_t
cell_of(struct naming *x, enum place_cell kind, sym_t name)
{
	struct place_facts *f = x->p->facts;
	uint32_t *at = &x->of[kind][name];

	if (!*at) {
		*at = f->cells.n;
		VEC_PUSH(f->arena, &f->cells,
			 (struct place_named){ .kind = kind });
	}
	return *at;
}

/* The cell "w" of the state "w.exp_avg", or 0 if nothing stored is named so. */
static uint32_t
owner_of(const struct naming *x, sym_t name)
{
	struct ir_ctx *ctx = x->p->m->ctx;
	const char *text = ir_text(ctx, name), *dot = strrchr(text, '.');
	sym_t w;

	if (!dot) {
		return 0;
	}
	w = intern_find(&ctx->syms, arena_strndup(&x->p->arena, text,
						  (size_t)(dot - text)));
	return x->of[CELL_STORED][w];
}

static void
see_param(struct place *p, node_id id)
{
	struct place_named *cell = &p->facts->cells.at[p->facts->cell[id]];
	const struct ir_node *n = ir_node(p->m, id);

	if (ir_is(n->op, IRF_PARAM)) {
		cell->picked |= p->facts->picked[n->result];
		cell->param = p->facts->uses[n->result] ? n->result
							: cell->param;
	}
}

void
place_find_cells(struct place *p)
{
	size_t names = p->m->ctx->syms.text.n + 1;
	struct naming x = { .p = p };
	struct place_facts *f = p->facts;
	sym_t *name = arena_alloc(&p->arena, p->nnodes * sizeof *name);
	node_id id;
	int k;

	for (k = 0; k < CELL_KINDS; k++) {
		x.of[k] = arena_alloc(&p->arena, names * sizeof *x.of[k]);
	}
	f->cell = arena_alloc(f->arena, p->nnodes * sizeof *f->cell);
	VEC_PUSH(f->arena, &f->cells, (struct place_named){ 0 });
	for (id = 1; id < p->nnodes; id++) {
		const struct ir_node *n = ir_node(p->m, id);

		if (p->reached.node[id] && has_name(n)) {
			name[id] = ir_attr(p->m, n, IR_ATTR_NAME)->text;
			f->cell[id] = cell_of(&x, place_cell_kind(
				(enum ir_op)n->op), name[id]);
			see_param(p, id);
		}
	}
	for (id = 1; id < p->nnodes; id++) {
		struct place_named *cell = &f->cells.at[f->cell[id]];

		if (f->cell[id] && cell->kind != CELL_STASH) {
			cell->weight = cell->kind == CELL_GRADIENT
				? x.of[CELL_STORED][name[id]]
				: owner_of(&x, name[id]);
		}
	}
}
