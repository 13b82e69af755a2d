/*
 * Which groups merge, in this order: nodes of one attention; gathers of keys
 * and values with it; maps with the contraction that makes their operand, if no
 * other group reads that; a log-sum-exp with the cross-entropy of the same
 * rows; maps and reductions with the makers of their operands; reductions with
 * groups that read the same rows; remaining maps with contractions; groups that
 * only one contraction or attention reads; maps of scalars.  A merge removes
 * memory traffic and adds none.
 */
#include "passes/kernels/fuse.h"

/* ---- what fits into what ---- */

static const struct ir_node *
node_at(const struct fuse *f, uint32_t place)
{
	return ir_node(f->m, f->nodes[place]);
}

static const struct ir_type *
result_at(const struct fuse *f, uint32_t place)
{
	const struct ir_node *n = node_at(f, place);

	return n->nresults ? ir_type(f->m, n->result)
			   : ir_type(f->m, ir_args(f->m, n)[0]);
}

/* Whether a node can be computed on the tile of a contraction. */
static bool
is_epilogue(const struct fuse *f, uint32_t place)
{
	const struct ir_node *n = node_at(f, place);

	return (fuse_class(f, f->nodes[place]) == FUSE_ELEM &&
		n->nargs > 0 && !ir_is(n->op, IRF_MOVES)) ||
	       fuse_class(f, f->nodes[place]) == FUSE_SINK;
}

static bool
is_maps(const struct fuse_group *g)
{
	return g->head == FUSE_ELEM && !g->reduced && !g->needs_all;
}

/* Whether a block must have whole rows of the last dim: a rotation of pairs. */
static bool
needs_row(const struct ir_node *n)
{
	return ir_is(n->op, IRF_ROWWISE);
}

static bool
has_whole_row(const struct ir_node *n, const struct ir_type *t,
	      const struct ir_type *rows)
{
	struct ir_type last = { .ndims = 1 };

	if (!needs_row(n) || t->ndims == 0) {
		return true;
	}
	last.dims[0] = t->dims[t->ndims - 1];
	last.cut[0] = t->cut[t->ndims - 1];
	return !fuse_covers(rows, &last);
}

/* Whether each block of rows has all elements of base that the node reads. */
static bool
is_row_local(const struct fuse *f, const struct fuse_group *g, uint32_t place,
	     value_id from, value_id base)
{
	const struct ir_node *n = node_at(f, place);
	value_id v;

	if (!fuse_covers(ir_type(f->m, base), &g->space) ||
	    (!f->needs_all[place] &&
	     !fuse_covers(result_at(f, place), &g->space)) ||
	    (fuse_class(f, f->nodes[place]) == FUSE_ELEM &&
	     !has_whole_row(n, result_at(f, place), &g->space))) {
		return false;
	}
	for (v = from; v != base; ) {
		const struct ir_node *view =
			ir_node(f->m, f->m->values.at[v].node);

		if (!fuse_covers(ir_type(f->m, v), &g->space)) {
			return false;
		}
		v = ir_args(f->m, view)[0];
	}
	return true;
}

/* Whether operand k of a place can be made in the group g with it. */
static bool
edge_fits(struct fuse *f, const struct fuse_group *g, uint32_t place,
	  uint32_t k)
{
	const struct fuse_operand *o = fuse_operand(f, place, k);
	const struct ir_node *n = node_at(f, place);

	if (f->needs_all[o->maker]) {
		return f->needs_all[place];
	}
	if (g->reduced) {
		return is_row_local(f, g, place, ir_args(f->m, n)[k], o->base);
	}
	return !o->moved && !ir_is(n->op, IRF_INDEXED) &&
	       fuse_same_space(ir_type(f->m, o->base), &g->space);
}

/* The space of two groups of maps and reductions; false: they have none. */
static bool
join_spaces(const struct fuse_group *a, const struct fuse_group *b,
	    struct fuse_group *out)
{
	*out = (struct fuse_group){ .head = FUSE_ELEM };
	out->reduced = a->reduced || b->reduced;
	out->needs_all = a->needs_all || b->needs_all;
	out->space = a->reduced ? a->space : b->space;
	if (a->space.routed != b->space.routed) {
		return false;
	}
	if (a->reduced != b->reduced) {
		return fuse_covers(a->reduced ? &b->space : &a->space,
				   &out->space);
	}
	return fuse_same_space(&a->space, &b->space);
}

/* Whether all values that b reads of a fit into the group g of both. */
static bool
edges_fit(struct fuse *f, const struct fuse_group *g, uint32_t a, uint32_t b)
{
	const struct fuse_group *user = &f->groups[b];
	uint32_t i, k;

	for (i = 0; i < user->places.n; i++) {
		uint32_t p = user->places.at[i];
		uint32_t n = f->operand[p + 1] - f->operand[p];

		for (k = 0; k < n; k++) {
			if (fuse_maker(f, fuse_operand(f, p, k)) == a &&
			    !edge_fits(f, g, p, k)) {
				return false;
			}
		}
	}
	return true;
}

/* Whether values inside of a still fit into g. */
static bool
inside_fits(struct fuse *f, const struct fuse_group *g, uint32_t a)
{
	const struct fuse_group *old = &f->groups[a];

	return (old->reduced == g->reduced &&
		fuse_same_space(&old->space, &g->space)) ||
	       edges_fit(f, g, a, a);
}

static void
settle_group(struct fuse *f, uint32_t into, const struct fuse_group *like)
{
	struct fuse_group *g = &f->groups[into];

	g->head = like->head;
	g->reduced = like->reduced;
	g->needs_all = like->needs_all;
	g->space = like->space;
}

/* Merges two groups of maps and reductions, if one kernel can run both. */
static bool
join_groups(struct fuse *f, uint32_t a, uint32_t b)
{
	struct fuse_group g;
	uint32_t into;

	if (a == b || f->groups[a].head != FUSE_ELEM ||
	    f->groups[b].head != FUSE_ELEM ||
	    !join_spaces(&f->groups[a], &f->groups[b], &g) ||
	    !inside_fits(f, &g, a) || !inside_fits(f, &g, b) ||
	    !edges_fit(f, &g, a, b) || !edges_fit(f, &g, b, a) ||
	    !fuse_merge(f, a, b, &into)) {
		return false;
	}
	settle_group(f, into, &g);
	return true;
}

/* Whether b consists of maps that read of a only sums over all blocks. */
static bool
reads_only_sums(struct fuse *f, uint32_t a, uint32_t b)
{
	const struct fuse_group *g = &f->groups[b];
	uint32_t i, k;

	for (i = 0; i < g->places.n; i++) {
		const struct ir_node *n = node_at(f, g->places.at[i]);

		if (!is_epilogue(f, g->places.at[i]) || needs_row(n)) {
			return false;
		}
		for (k = 0; k < n->nargs; k++) {
			const struct fuse_operand *o =
				fuse_operand(f, g->places.at[i], k);

			if (fuse_maker(f, o) == a &&
			    (o->moved || !f->needs_all[o->maker] ||
			     !fuse_same_space(ir_type(f->m, o->base),
					      &g->space))) {
				return false;
			}
		}
	}
	return true;
}

/* Merges maps with the sums that they read: the last block computes them. */
static bool
join_maps_of_sums(struct fuse *f, uint32_t a, uint32_t b)
{
	struct fuse_group like = f->groups[a];
	uint32_t i, into;

	if (!like.needs_all || like.head != FUSE_ELEM ||
	    !is_maps(&f->groups[b]) || !reads_only_sums(f, a, b)) {
		return false;
	}
	for (i = 0; i < f->groups[b].places.n; i++) {
		f->needs_all[f->groups[b].places.at[i]] = true;
	}
	if (!fuse_merge(f, a, b, &into)) {
		for (i = 0; i < f->groups[b].places.n; i++) {
			f->needs_all[f->groups[b].places.at[i]] = false;
		}
		return false;
	}
	settle_group(f, into, &like);
	return true;
}

/* ---- steps ---- */

/* The groups that make a node's operands, the last to run first. */
static uint32_t
find_makers(const struct fuse *f, uint32_t place, uint32_t *out)
{
	uint32_t n = f->operand[place + 1] - f->operand[place];
	uint32_t own = f->group_of[place], count = 0, k, i;

	for (k = 0; k < n && k < IR_MAX_OPERANDS; k++) {
		uint32_t g = fuse_maker(f, fuse_operand(f, place, k));

		for (i = 0; i < count && out[i] != g; i++) {
		}
		if (g == UINT32_MAX || g == own || i < count) {
			continue;
		}
		for (i = count++; i > 0 && f->groups[out[i - 1]].at <
					   f->groups[g].at; i--) {
			out[i] = out[i - 1];
		}
		out[i] = g;
	}
	return count;
}

/* Whether a node of attention belongs to forward: attention itself, and what
 * comes out of its pass at no cost of its own. */
static bool
is_forward(const struct ir_node *n)
{
	return ir_is(n->op, IRF_CACHED) || ir_is_beside(n->op);
}

/* Whether the node at place b reads all that the one at place a reads. */
static bool
reads_all_of(const struct fuse *f, uint32_t a, uint32_t b)
{
	uint32_t i, k;

	for (i = 0; i < node_at(f, a)->nargs; i++) {
		value_id v = fuse_operand(f, a, i)->base;

		for (k = 0; k < node_at(f, b)->nargs &&
			    fuse_operand(f, b, k)->base != v; k++) {
		}
		if (k == node_at(f, b)->nargs) {
			return false;
		}
	}
	return true;
}

/* Merges the node at place i with earlier ones that are of the same attention:
 * both forward or both backward, and one reads all that the other reads. */
static void
merge_siblings(struct fuse *f, uint32_t i)
{
	uint32_t k, into;

	for (k = 0; k < i; k++) {
		if (fuse_class(f, f->nodes[k]) == FUSE_PAIRS &&
		    f->group_of[k] != f->group_of[i] &&
		    is_forward(node_at(f, k)) == is_forward(node_at(f, i)) &&
		    (reads_all_of(f, k, i) || reads_all_of(f, i, k))) {
			fuse_merge(f, f->group_of[k], f->group_of[i], &into);
		}
	}
}

/* Whether a group has attention itself, which is no part of its backward. */
static bool
has_attention(const struct fuse *f, uint32_t group)
{
	const struct fuse_group *g = &f->groups[group];
	uint32_t i = 0;

	while (i < g->places.n &&
	       !ir_is(node_at(f, g->places.at[i])->op, IRF_CACHED)) {
		i++;
	}
	return i < g->places.n;
}

static void
merge_attention(struct fuse *f)
{
	uint32_t out[IR_MAX_OPERANDS], i, k, n, into;

	for (i = 0; i < f->n; i++) {
		if (fuse_class(f, f->nodes[i]) == FUSE_PAIRS) {
			merge_siblings(f, i);
		}
	}
	for (i = 0; i < f->n; i++) {
		if (fuse_class(f, f->nodes[i]) != FUSE_PAIRS) {
			continue;
		}
		n = find_makers(f, i, out);
		for (k = 0; k < n; k++) {
			if (f->groups[out[k]].head == FUSE_PAIRS &&
			    out[k] != f->group_of[i] &&
			    !has_attention(f, out[k])) {
				fuse_merge(f, out[k], f->group_of[i], &into);
			}
		}
	}
}

/* What attention reads in place of a copy. */
struct selected {
	const struct ir_node *gather;
	node_id cast;		/* of its result, and that alone; 0: none */
	uint32_t group;		/* attention's; UINT32_MAX: none yet */
};

/* Whether the user is a cast to a wider type, and the only one. */
static bool
widens_alone(struct fuse *f, node_id user, value_id v, void *data)
{
	const struct ir_node *n = ir_node(f->m, user);
	struct selected *s = data;

	if (f->home[user] != f->region || n->op != IR_CAST ||
	    fuse_class(f, user) != FUSE_ELEM || s->cast ||
	    ir_dtypes[ir_type(f->m, n->result)->dtype].bits <=
	    ir_dtypes[ir_type(f->m, v)->dtype].bits) {
		return false;
	}
	s->cast = user;
	return true;
}

/* Whether the user is attention that reads v as its keys or values, one for
 * each key. */
static bool
reads_as_keys(struct fuse *f, node_id user, value_id v, void *data)
{
	const struct ir_node *n = ir_node(f->m, user);
	struct selected *s = data;
	const struct ir_type *index = ir_type(f->m,
					      ir_args(f->m, s->gather)[1]);
	struct ir_rule r;
	uint32_t k, g;

	if (f->home[user] != f->region ||
	    fuse_class(f, user) != FUSE_PAIRS ||
	    ir_attr(f->m, n, IR_ATTR_ON)) {
		return false;
	}
	ir_bind(f->m, n, &r);
	for (k = 0; k < n->nargs; k++) {
		if (ir_args(f->m, n)[k] == v && (k < 1 || k > 2)) {
			return false;
		}
	}
	g = f->group_of[f->place[user] - 1];
	if ((s->group != UINT32_MAX && s->group != g) ||
	    ir_type_at(index, ir_rule_factor(&r, "t")->dims[0]) < 0 ||
	    ir_type_at(index, ir_rule_factor(&r, "k")->dims[0]) >= 0) {
		return false;
	}
	s->group = g;
	return true;
}

/* Whether attention alone reads what the gather selects, or a wider copy of
 * it, and no axis shards the rows. */
static bool
is_selected(struct fuse *f, struct selected *s)
{
	const struct ir_node *n = s->gather;
	const struct ir_type *t = ir_type(f->m, ir_args(f->m, n)[0]);
	dim_id of = ir_attr(f->m, n, IR_ATTR_OF)->dims[0];
	value_id v = n->result;

	if (t->cut[ir_type_at(t, of)]) {
		return false;
	}
	if (fuse_all_uses(f, v, widens_alone, s) && s->cast) {
		v = ir_node(f->m, s->cast)->result;
	}
	return fuse_all_uses(f, v, reads_as_keys, s) &&
	       s->group != UINT32_MAX;
}

/*
 * Merges a gather with the attention whose keys or values it selects:
 * attention then reads rows through the index, and no copy of them is made.  So
 * it does where the rows have a narrower type and are cast.
 */
static void
merge_selected_keys(struct fuse *f)
{
	uint32_t i, into;

	for (i = 0; i < f->n; i++) {
		struct selected s = { node_at(f, i), 0, UINT32_MAX };
		struct fuse_group like;

		if (s.gather->op != IR_GATHER || !is_selected(f, &s) ||
		    (s.cast && !join_groups(f, f->group_of[i],
				f->group_of[f->place[s.cast] - 1]))) {
			continue;
		}
		like = f->groups[s.group];
		if (fuse_merge(f, f->group_of[i], s.group, &into)) {
			settle_group(f, into, &like);
		}
	}
}

/* Whether the user is a map of the same space in this region. */
static bool
is_epilogue_of(struct fuse *f, node_id user, value_id v, void *data)
{
	const struct ir_type *base = data;

	(void)v;
	return f->home[user] == f->region && f->place[user] &&
	       is_epilogue(f, f->place[user] - 1) &&
	       fuse_same_space(result_at(f, f->place[user] - 1), base);
}

/* Whether only this node reads v, and its result has no more bytes than v. */
static bool
is_read_only_by(struct fuse *f, value_id v, uint32_t place)
{
	struct ir_type t = *ir_type(f->m, v);
	const struct ir_node *n = node_at(f, place);
	uint32_t i;

	for (i = f->uses[v]; i; i = f->links.at[i - 1].next) {
		if (f->links.at[i - 1].user != f->nodes[place]) {
			return false;
		}
	}
	return fuse_all_uses(f, v, is_epilogue_of, &t) &&
	       n->nresults == 1 &&
	       fuse_reaches(f, &v, 1, 1, n->result);
}

/*
 * Whether the node can be an epilogue of this group's contraction or attention;
 * `alone`: only if nothing else reads its operand.
 */
static bool
fits_head(struct fuse *f, uint32_t place, uint32_t maker, bool alone)
{
	const struct ir_node *n = node_at(f, place);
	uint32_t k;

	if (f->groups[maker].head != FUSE_DOT &&
	    f->groups[maker].head != FUSE_PAIRS) {
		return false;
	}
	for (k = 0; k < n->nargs; k++) {
		const struct fuse_operand *o = fuse_operand(f, place, k);

		if (fuse_maker(f, o) != maker) {
			continue;
		}
		if (o->moved || !fuse_same_space(ir_type(f->m, o->base),
						 result_at(f, place)) ||
		    (alone && !is_read_only_by(f, o->base, place))) {
			return false;
		}
	}
	return true;
}

static void
merge_epilogues(struct fuse *f)
{
	uint32_t out[IR_MAX_OPERANDS], i, k, n, into;

	for (i = 0; i < f->n; i++) {
		bool sink = fuse_class(f, f->nodes[i]) == FUSE_SINK;

		if (!is_epilogue(f, i)) {
			continue;
		}
		n = find_makers(f, i, out);
		for (k = 0; k < n; k++) {
			struct fuse_group like = f->groups[out[k]];

			if (fits_head(f, i, out[k], !sink) &&
			    fuse_merge(f, out[k], f->group_of[i], &into)) {
				settle_group(f, into, &like);
				break;
			}
		}
	}
}

/* Merges a sink with the maker of its value, which then writes the tensor. */
static bool
join_sink(struct fuse *f, uint32_t place, uint32_t maker)
{
	const struct ir_node *n = node_at(f, place);
	enum fuse_class head = f->groups[maker].head;
	struct fuse_group like = f->groups[maker];
	uint32_t into;

	if (fuse_class(f, f->nodes[place]) != FUSE_SINK ||
	    fuse_operand(f, place, 0)->moved ||
	    f->groups[f->group_of[place]].places.n > 1 ||
	    (head != FUSE_ELEM && head != FUSE_SCATTER &&
	     !(head == FUSE_COMM && fuse_stores(n))) ||
	    !fuse_merge(f, maker, f->group_of[place], &into)) {
		return false;
	}
	settle_group(f, into, &like);
	return true;
}

static void
merge_maps_and_rows(struct fuse *f)
{
	uint32_t out[IR_MAX_OPERANDS], i, k, n;

	for (i = 0; i < f->n; i++) {
		enum fuse_class class = fuse_class(f, f->nodes[i]);

		if (class != FUSE_ELEM && class != FUSE_ROW &&
		    class != FUSE_SINK) {
			continue;
		}
		n = find_makers(f, i, out);
		for (k = 0; k < n; k++) {
			/* an earlier merge may have ended this one */
			if (!f->groups[out[k]].dead &&
			    !join_sink(f, i, out[k]) &&
			    !join_maps_of_sums(f, out[k], f->group_of[i])) {
				join_groups(f, out[k], f->group_of[i]);
			}
		}
	}
}

/* Merges a group of maps with the last contraction that it reads. */
static bool
merge_with_head(struct fuse *f, uint32_t group)
{
	const struct fuse_group *g = &f->groups[group];
	uint32_t best = UINT32_MAX, i, k, n, into;
	uint32_t out[IR_MAX_OPERANDS];
	struct fuse_group like;

	for (i = 0; i < g->places.n; i++) {
		if (!is_epilogue(f, g->places.at[i])) {
			return false;
		}
		n = find_makers(f, g->places.at[i], out);
		for (k = 0; k < n; k++) {
			enum fuse_class head = f->groups[out[k]].head;

			if ((head == FUSE_DOT || head == FUSE_PAIRS) &&
			    (best == UINT32_MAX || f->groups[out[k]].at >
						   f->groups[best].at)) {
				best = out[k];
			}
		}
	}
	for (i = 0; best != UINT32_MAX && i < g->places.n; i++) {
		if (!fits_head(f, g->places.at[i], best, false)) {
			return false;
		}
	}
	if (best == UINT32_MAX) {
		return false;
	}
	like = f->groups[best];
	if (!fuse_merge(f, best, group, &into)) {
		return false;
	}
	settle_group(f, into, &like);
	return true;
}

static void
merge_groups_of_maps(struct fuse *f)
{
	uint32_t i, g;

	for (i = 0; i < f->norder; i++) {
		g = f->order[i];
		if (g != FUSE_HOLE && is_maps(&f->groups[g])) {
			merge_with_head(f, g);
		}
	}
}

/* ---- groups that only one contraction or attention reads ---- */

struct only_reader {
	uint32_t own;
	uint32_t group;		/* UINT32_MAX: none yet */
	bool rows;		/* of row sums for attention, not of maps */
};

/* Whether the user is in the group itself or in its only reader. */
static bool
is_only_reader(struct fuse *f, node_id user, value_id v, void *data)
{
	struct only_reader *a = data;
	uint32_t g;

	if (f->home[user] != f->region || fuse_class(f, user) == FUSE_FREE) {
		return false;
	}
	g = f->group_of[f->place[user] - 1];
	if (g == a->own) {
		return true;
	}
	if (a->rows ? fuse_class(f, user) != FUSE_PAIRS
	    : (f->groups[g].head != FUSE_DOT &&
	       f->groups[g].head != FUSE_PAIRS) ||
	      !is_epilogue(f, f->place[user] - 1) ||
	      !fuse_same_space(result_at(f, f->place[user] - 1),
			       ir_type(f->m, v))) {
		return false;
	}
	if (a->group != UINT32_MAX && a->group != g) {
		return false;
	}
	a->group = g;
	return true;
}

/* Whether one other group reads all values of this one; *reader: which. */
static bool
has_only_reader(struct fuse *f, uint32_t group, uint32_t *reader)
{
	const struct fuse_group *g = &f->groups[group];
	struct only_reader a = { group, UINT32_MAX, g->reduced };
	uint32_t i;

	for (i = 0; i < g->places.n; i++) {
		const struct ir_node *n = node_at(f, g->places.at[i]);

		if (n->nresults != 1 ||
		    (!g->reduced && !is_epilogue(f, g->places.at[i]))) {
			return false;
		}
		if (fuse_is_read_outside(f, group, n->result) &&
		    (!fuse_same_space(ir_type(f->m, n->result), &g->space) ||
		     !fuse_all_uses(f, n->result, is_only_reader, &a))) {
			return false;
		}
	}
	*reader = a.group;
	return a.group != UINT32_MAX;
}

/* Merges row sums with attention's backward, and maps with their reader. */
static void
merge_with_reader(struct fuse *f)
{
	uint32_t i, reader, into;

	for (i = 0; i < f->norder; i++) {
		uint32_t g = f->order[i];
		struct fuse_group like;

		if (g == FUSE_HOLE || f->groups[g].head != FUSE_ELEM ||
		    f->groups[g].needs_all || !has_only_reader(f, g, &reader)) {
			continue;
		}
		like = f->groups[reader];
		if (fuse_merge(f, g, reader, &into)) {
			settle_group(f, into, &like);
			i--;	/* another group has this place now */
		}
	}
}

/* ---- scalars ---- */

/* Merges all maps of scalars, related or not. */
static void
merge_scalars(struct fuse *f)
{
	uint32_t last = UINT32_MAX, i, into;

	for (i = 0; i < f->norder; i++) {
		uint32_t g = f->order[i];

		if (g == FUSE_HOLE || !is_maps(&f->groups[g]) ||
		    f->groups[g].space.ndims > 0) {
			continue;
		}
		if (last != UINT32_MAX && fuse_merge(f, last, g, &into)) {
			g = into;
		}
		last = g;
	}
}

/* ---- reductions of the same rows ---- */

/* Merges a reduction with a group that reads its operand by the same rows. */
static bool
join_reader_of_rows(struct fuse *f, uint32_t place)
{
	const struct ir_node *n = node_at(f, place);
	value_id v = ir_args(f->m, n)[0];
	uint32_t i, g;

	for (i = f->uses[v]; i; i = f->links.at[i - 1].next) {
		node_id user = f->links.at[i - 1].user;

		if (f->home[user] != f->region ||
		    fuse_class(f, user) == FUSE_FREE) {
			continue;
		}
		g = f->group_of[f->place[user] - 1];
		if (f->groups[g].reduced &&
		    join_groups(f, g, f->group_of[place])) {
			return true;
		}
	}
	return false;
}

/* Merges what comes out of another node's pass over rows with that node. */
static void
merge_beside(struct fuse *f)
{
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		if (fuse_class(f, f->nodes[i]) == FUSE_ROW &&
		    ir_is_beside(node_at(f, i)->op)) {
			join_reader_of_rows(f, i);
		}
	}
}

static void
merge_column_sums(struct fuse *f)
{
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		if (fuse_class(f, f->nodes[i]) == FUSE_ROW && f->needs_all[i] &&
		    !f->groups[f->group_of[i]].reduced) {
			join_reader_of_rows(f, i);
		}
	}
}

void
fuse_grow(struct fuse *f)
{
	merge_attention(f);
	merge_selected_keys(f);
	merge_epilogues(f);
	merge_beside(f);
	merge_maps_and_rows(f);
	merge_column_sums(f);
	merge_groups_of_maps(f);
	merge_with_reader(f);
	merge_scalars(f);
}
