/*
 * Cheap values that a group writes for other groups are computed by those
 * instead, if the operands are in memory anyway: by one group if it then reads
 * fewer bytes, by several if each of them reads the operands already.
 */
#include "passes/kernels/fuse.h"

#define MAX_USERS 8	/* groups that may have a copy */

struct value_users {
	struct fuse_group *groups;
	const struct ir_type *type;
	uint32_t at[MAX_USERS], n;
	uint32_t own;
};

/* Whether the user's group could compute the value, too; collects groups. */
static bool
can_compute(struct fuse *f, node_id user, value_id v, void *data)
{
	struct value_users *u = data;
	const struct ir_node *n = ir_node(f->m, user);
	uint32_t place, g, i;

	(void)v;
	if (f->home[user] != f->region || fuse_class(f, user) == FUSE_FREE) {
		return false;
	}
	place = f->place[user] - 1;
	g = f->group_of[place];
	if (g == u->own) {
		return true;
	}
	/* a map of the same space fits into any group that the user is in */
	if (fuse_class(f, user) != FUSE_ELEM || !ir_is(n->op, IRF_MAP) ||
	    f->needs_all[place] ||
	    !fuse_same_space(ir_type(f->m, n->result), u->type)) {
		return false;
	}
	for (i = 0; i < u->n && u->at[i] != g; i++) {
	}
	if (i == MAX_USERS) {
		return false;
	}
	u->at[i] = g;
	u->n = i == u->n ? i + 1 : u->n;
	return true;
}

static bool
group_reads(const struct fuse *f, uint32_t group, value_id base)
{
	const struct fuse_group *g = &f->groups[group];
	uint32_t i, k;

	for (i = 0; i < g->places.n; i++) {
		uint32_t p = g->places.at[i];

		for (k = f->operand[p]; k < f->operand[p + 1]; k++) {
			if (f->operands[k].base == base) {
				return true;
			}
		}
	}
	return false;
}

#define MAX_MORE (MAX_USERS * IR_MAX_OPERANDS)

/*
 * Adds what the group would read to compute n.  False: it cannot, as where it
 * would read a tensor that a kernel before it may have replaced.
 */
static bool
add_new_reads(struct fuse *f, uint32_t own, const struct ir_node *n,
	      uint32_t group, value_id *more, uint32_t *nmore)
{
	uint32_t k;

	for (k = 0; k < n->nargs; k++) {
		value_id base = fuse_base(f, ir_args(f->m, n)[k], NULL);

		if (!base) {
			continue;
		}
		if (fuse_is_replaced(f, base)) {
			return false;
		}
		if (fuse_has(f, own, base) &&
		    (f->needs_all[fuse_place(f, base)] ||
		     !fuse_is_read_outside(f, own, base))) {
			return false;
		}
		if (!group_reads(f, group, base)) {
			more[(*nmore)++] = base;
		}
	}
	return true;
}

static void
move_place(struct fuse *f, uint32_t place, uint32_t from, uint32_t to)
{
	struct fuse_group *g = &f->groups[from], *h = &f->groups[to];
	uint32_t i, at;

	for (i = at = 0; i < g->places.n; i++) {
		if (g->places.at[i] != place) {
			g->places.at[at++] = g->places.at[i];
		}
	}
	g->places.n = at;
	VEC_PUSH(&f->tmp, &h->places, place);
	for (i = h->places.n - 1; i > 0 && h->places.at[i - 1] > place; i--) {
		h->places.at[i] = h->places.at[i - 1];
	}
	h->places.at[i] = place;
	f->group_of[place] = to;
	if (g->places.n == 0) {
		g->dead = true;
		f->order[g->at] = FUSE_HOLE;
	}
}

static bool
has_inner_use(struct fuse *f, uint32_t group, value_id v)
{
	uint32_t i;

	for (i = f->uses[v]; i; i = f->links.at[i - 1].next) {
		node_id user = f->links.at[i - 1].user;

		if (f->home[user] == f->region &&
		    fuse_class(f, user) != FUSE_FREE &&
		    f->group_of[f->place[user] - 1] == group) {
			return true;
		}
	}
	return false;
}

static void
sink_place(struct fuse *f, uint32_t place)
{
	const struct ir_node *n = ir_node(f->m, f->nodes[place]);
	struct value_users u = { .own = f->group_of[place] };
	value_id more[MAX_MORE];
	uint32_t i, nmore = 0;

	u.type = ir_type(f->m, n->result);
	if (f->needs_all[place] || !fuse_is_read_outside(f, u.own, n->result) ||
	    !fuse_all_uses(f, n->result, can_compute, &u) || u.n == 0) {
		return;
	}
	for (i = 0; i < u.n; i++) {
		if (!add_new_reads(f, u.own, n, u.at[i], more, &nmore)) {
			return;
		}
	}
	if ((u.n > 1 && nmore) ||
	    fuse_reaches(f, more, nmore, u.n + 1, n->result)) {
		return;
	}
	i = 0;
	if (!has_inner_use(f, u.own, n->result)) {
		move_place(f, place, u.own, u.at[i++]);
	}
	for (; i < u.n; i++) {
		VEC_PUSH(&f->tmp, &f->groups[u.at[i]].copies, place);
	}
}

void
fuse_sink(struct fuse *f)
{
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		const struct ir_node *n = ir_node(f->m, f->nodes[i]);

		if (fuse_class(f, f->nodes[i]) == FUSE_ELEM &&
		    ir_is(n->op, IRF_MAP) &&
		    ir_ops[n->op].recompute == IR_RC_CHEAP) {
			sink_place(f, i);
		}
	}
}
