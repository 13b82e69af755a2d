/*
 * Which groups merge.  In this order: what looks at pairs of the same
 * queries and keys; maps behind a contraction whose result nobody else
 * wants; maps and rows with what makes their operands; what is left of maps
 * behind contractions; what only one contraction or attention asks for; and
 * single numbers.  A merge takes memory traffic away, and never adds any.
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

/* A map that can stand behind a contraction, on the tile that it made. */
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
	return g->head == FUSE_ELEM && !g->reduced && !g->late;
}

/* Rotates pairs of the last dim, say: a row of it must be in one block. */
static bool
needs_row(const struct ir_node *n)
{
	return ir_is(n->op, IRF_ROWWISE);
}

static bool
row_inside(const struct ir_node *n, const struct ir_type *t,
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

/* Whether each block of rows has all that the node needs of the value. */
static bool
row_local(const struct fuse *f, const struct fuse_group *g,
	  uint32_t place, value_id from, value_id base)
{
	const struct ir_node *n = node_at(f, place);
	value_id v;

	if (!fuse_covers(ir_type(f->m, base), &g->space) ||
	    (!f->late[place] &&
	     !fuse_covers(result_at(f, place), &g->space)) ||
	    (fuse_class(f, f->nodes[place]) == FUSE_ELEM &&
	     !row_inside(n, result_at(f, place), &g->space))) {
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

/* Whether a value made in the merged group may be used there by the node. */
static bool
edge_fits(struct fuse *f, const struct fuse_group *g, uint32_t place,
	  uint32_t k)
{
	const struct fuse_operand *o = fuse_operand(f, place, k);
	const struct ir_node *n = node_at(f, place);

	if (f->late[o->maker]) {
		return f->late[place];
	}
	if (g->reduced) {
		return row_local(f, g, place, ir_args(f->m, n)[k], o->base);
	}
	return !o->moved && !fuse_indexed(n) &&
	       fuse_same_space(ir_type(f->m, o->base), &g->space);
}

/*
 * Whether a group may be made of two groups of maps and rows, and what it
 * runs over then.
 */
static bool
join_spaces(const struct fuse_group *a, const struct fuse_group *b,
	    struct fuse_group *out)
{
	*out = (struct fuse_group){ .head = FUSE_ELEM };
	out->reduced = a->reduced || b->reduced;
	out->late = a->late || b->late;
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

/* Every value that crosses between the two, either way. */
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

/* Those inside one of them must fit what it becomes, too. */
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
	g->late = like->late;
	g->space = like->space;
}

/* Both of maps and rows: one, if that can run as one. */
static bool
join(struct fuse *f, uint32_t a, uint32_t b)
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

/* All that it takes of the other is late, and as it stands there. */
static bool
only_late(struct fuse *f, uint32_t a, uint32_t b)
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
			    (o->moved || !f->late[o->maker] ||
			     !fuse_same_space(ir_type(f->m, o->base),
					      &g->space))) {
				return false;
			}
		}
	}
	return true;
}

/* Maps of the sums that a group ends in: the last block does them. */
static bool
join_late(struct fuse *f, uint32_t a, uint32_t b)
{
	struct fuse_group like = f->groups[a];
	uint32_t i, into;

	if (!like.late || like.head != FUSE_ELEM ||
	    !is_maps(&f->groups[b]) || !only_late(f, a, b)) {
		return false;
	}
	for (i = 0; i < f->groups[b].places.n; i++) {
		f->late[f->groups[b].places.at[i]] = true;
	}
	if (!fuse_merge(f, a, b, &into)) {
		for (i = 0; i < f->groups[b].places.n; i++) {
			f->late[f->groups[b].places.at[i]] = false;
		}
		return false;
	}
	settle_group(f, into, &like);
	return true;
}

/* ---- the steps ---- */

/* The groups that make a node's operands, the last to run first. */
static uint32_t
makers(const struct fuse *f, uint32_t place, uint32_t *out)
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

static void
pairs_together(struct fuse *f)
{
	uint32_t out[IR_MAX_OPERANDS], i, k, n, into;

	for (i = 0; i < f->n; i++) {
		if (fuse_class(f, f->nodes[i]) != FUSE_PAIRS) {
			continue;
		}
		n = makers(f, i, out);
		for (k = 0; k < n; k++) {
			if (f->groups[out[k]].head == FUSE_PAIRS &&
			    out[k] != f->group_of[i]) {
				fuse_merge(f, out[k], f->group_of[i], &into);
			}
		}
	}
}

static bool
could_follow(struct fuse *f, node_id user, value_id v, void *data)
{
	const struct ir_type *base = data;

	(void)v;
	return f->home[user] == f->region && f->place[user] &&
	       is_epilogue(f, f->place[user] - 1) &&
	       fuse_same_space(result_at(f, f->place[user] - 1), base);
}

/*
 * Whether a value is wanted by this node alone, and no smaller than what it
 * makes of it.
 */
static bool
only_for(struct fuse *f, value_id v, uint32_t place)
{
	struct ir_type t = *ir_type(f->m, v);
	const struct ir_node *n = node_at(f, place);
	uint32_t i;

	for (i = f->uses[v]; i; i = f->links.at[i - 1].next) {
		if (f->links.at[i - 1].user != f->nodes[place]) {
			return false;
		}
	}
	return fuse_all_uses(f, v, could_follow, &t) &&
	       n->nresults == 1 &&
	       fuse_reaches(f, &v, 1, 1, n->result);
}

/* Whether the node may stand behind this group's contraction. */
static bool
behind_head(struct fuse *f, uint32_t place, uint32_t maker, bool alone)
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
		    (alone && !only_for(f, o->base, place))) {
			return false;
		}
	}
	return true;
}

static void
epilogues(struct fuse *f)
{
	uint32_t out[IR_MAX_OPERANDS], i, k, n, into;

	for (i = 0; i < f->n; i++) {
		bool sink = fuse_class(f, f->nodes[i]) == FUSE_SINK;

		if (!is_epilogue(f, i)) {
			continue;
		}
		n = makers(f, i, out);
		for (k = 0; k < n; k++) {
			struct fuse_group like = f->groups[out[k]];

			if (behind_head(f, i, out[k], !sink) &&
			    fuse_merge(f, out[k], f->group_of[i], &into)) {
				settle_group(f, into, &like);
				break;
			}
		}
	}
}

/* A value is written where its sink says, whoever makes it. */
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
maps_and_rows(struct fuse *f)
{
	uint32_t out[IR_MAX_OPERANDS], i, k, n;

	for (i = 0; i < f->n; i++) {
		enum fuse_class class = fuse_class(f, f->nodes[i]);

		if (class != FUSE_ELEM && class != FUSE_ROW &&
		    class != FUSE_SINK) {
			continue;
		}
		n = makers(f, i, out);
		for (k = 0; k < n; k++) {
			/* one that merged meanwhile has another number */
			if (!f->groups[out[k]].dead &&
			    !join_sink(f, i, out[k]) &&
			    !join_late(f, out[k], f->group_of[i])) {
				join(f, out[k], f->group_of[i]);
			}
		}
	}
}

/* Whole groups of maps behind the contraction that makes an operand. */
static bool
put_behind(struct fuse *f, uint32_t group)
{
	const struct fuse_group *g = &f->groups[group];
	uint32_t best = UINT32_MAX, i, k, n, into;
	uint32_t out[IR_MAX_OPERANDS];
	struct fuse_group like;

	for (i = 0; i < g->places.n; i++) {
		if (!is_epilogue(f, g->places.at[i])) {
			return false;
		}
		n = makers(f, g->places.at[i], out);
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
		if (!behind_head(f, g->places.at[i], best, false)) {
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
whole_groups(struct fuse *f)
{
	uint32_t i, g;

	for (i = 0; i < f->norder; i++) {
		g = f->order[i];
		if (g != FUSE_HOLE && is_maps(&f->groups[g])) {
			put_behind(f, g);
		}
	}
}

/* ---- what only one contraction or attention asks for ---- */

struct asker {
	uint32_t own;
	uint32_t group;		/* UINT32_MAX: none yet */
	bool rows;		/* it is row sums for attention, not maps */
};

static bool
asks(struct fuse *f, node_id user, value_id v, void *data)
{
	struct asker *a = data;
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

/* Whether each of its values that others want is for one group. */
static bool
serves(struct fuse *f, uint32_t group, uint32_t *asker)
{
	const struct fuse_group *g = &f->groups[group];
	struct asker a = { group, UINT32_MAX, g->reduced };
	uint32_t i;

	for (i = 0; i < g->places.n; i++) {
		const struct ir_node *n = node_at(f, g->places.at[i]);

		if (n->nresults != 1 ||
		    (!g->reduced && !is_epilogue(f, g->places.at[i]))) {
			return false;
		}
		if (fuse_is_wanted(f, group, n->result) &&
		    (!fuse_same_space(ir_type(f->m, n->result), &g->space) ||
		     !fuse_all_uses(f, n->result, asks, &a))) {
			return false;
		}
	}
	*asker = a.group;
	return a.group != UINT32_MAX;
}

/* Row sums go to attention's backward, maps to where they are used. */
static void
helpers(struct fuse *f)
{
	uint32_t i, asker, into;

	for (i = 0; i < f->norder; i++) {
		uint32_t g = f->order[i];
		struct fuse_group like;

		if (g == FUSE_HOLE || f->groups[g].head != FUSE_ELEM ||
		    f->groups[g].late || !serves(f, g, &asker)) {
			continue;
		}
		like = f->groups[asker];
		if (fuse_merge(f, g, asker, &into)) {
			settle_group(f, into, &like);
			i--;	/* another stands there now */
		}
	}
}

/* ---- single numbers ---- */

/* What is computed of single numbers is one kernel, related or not. */
static void
numbers(struct fuse *f)
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

/* ---- sums over rows that others read ---- */

/* Beside a group that reads the same value by the same rows. */
static bool
beside(struct fuse *f, uint32_t place)
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
		    join(f, g, f->group_of[place])) {
			return true;
		}
	}
	return false;
}

static void
columns(struct fuse *f)
{
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		if (fuse_class(f, f->nodes[i]) == FUSE_ROW && f->late[i] &&
		    !f->groups[f->group_of[i]].reduced) {
			beside(f, i);
		}
	}
}

void
fuse_grow(struct fuse *f)
{
	pairs_together(f);
	epilogues(f);
	maps_and_rows(f);
	columns(f);
	whole_groups(f);
	helpers(f);
	numbers(f);
}
