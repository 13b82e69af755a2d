/*
 * Routes: which index sends the rows of a value to the ranks of their experts.
 * Rows sent by one index cannot be combined with rows sent by another, and
 * return only where that index is available.
 */
#include "passes/place/place.h"

#include <string.h>

int
place_index_operand(const struct ir_node *n)
{
	const char *kind = ir_ops[n->op].dtypes;
	uint32_t k;

	if (!ir_is(n->op, IRF_INDEXED) || !ir_is(n->op, IRF_CONTRACTS)) {
		return -1;
	}
	for (k = 0; k < n->nargs; k++) {
		if (kind[k] == 'i') {
			return (int)k;
		}
	}
	return -1;
}

static sym_t
name_of(const struct place *p, const struct ir_node *n)
{
	return ir_attr(p->m, n, IR_ATTR_NAME)->text;
}

/* The value that was saved, if v reads a save; else v. */
static value_id
origin(const struct place *p, const value_id *saved, value_id v)
{
	const struct ir_node *n = ir_node(p->m, p->m->values.at[v].node);

	if (p->m->values.at[v].node && ir_is(n->op, IRF_STASH) &&
	    saved[name_of(p, n)]) {
		return saved[name_of(p, n)];
	}
	return v;
}

static void
find_route(struct place *p, const value_id *saved, const struct ir_node *n)
{
	const value_id *args = ir_args(p->m, n);
	struct place_facts *f = p->facts;
	value_id v = n->result, from;
	int at = place_index_operand(n);
	uint32_t k;

	if (at >= 0) {
		f->route[v] = args[at];
		f->sent_by[v] = origin(p, saved, args[at]);
		return;
	}
	from = origin(p, saved, v);
	if (from != v) {
		f->sent_by[v] = f->sent_by[from];
		return;
	}
	for (k = 0; k < n->nargs; k++) {
		f->route[v] = f->route[v] ? f->route[v] : f->route[args[k]];
		f->sent_by[v] = f->sent_by[v] ? f->sent_by[v]
					      : f->sent_by[args[k]];
	}
}

static void
find_region(struct place *p, const value_id *saved, region_id r)
{
	uint32_t i;

	for (i = 0; i < p->m->regions.at[r].nodes.n; i++) {
		const struct ir_node *n =
			ir_node(p->m, p->m->regions.at[r].nodes.at[i]);

		if (n->region) {
			find_region(p, saved, n->region);
		} else if (n->nresults == 1) {
			find_route(p, saved, n);
		}
	}
}

void
place_find_routes(struct place *p)
{
	struct place_facts *f = p->facts;
	struct ir_module *m = p->m;
	value_id *saved = arena_alloc(&p->arena, m->ctx->syms.text.n *
				      sizeof *saved);
	node_id id;

	f->route = arena_alloc(f->arena, m->values.n * sizeof *f->route);
	f->sent_by = arena_alloc(f->arena, m->values.n * sizeof *f->sent_by);
	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *n = ir_node(m, id);

		if (ir_is(n->op, IRF_STASH) && ir_is(n->op, IRF_SINK)) {
			saved[name_of(p, n)] = ir_args(m, n)[0];
		}
	}
	find_region(p, saved, m->funcs.at[p->model].body);
}

bool
place_can_return(const struct place *p, value_id v)
{
	const struct ir_type *t = ir_type(p->m, v), *index;
	uint32_t i;

	if (!p->facts->route[v]) {
		return false;
	}
	index = ir_type(p->m, p->facts->route[v]);
	for (i = 0; i < index->ndims; i++) {
		if (!ir_type_has(t, index->dims[i])) {
			return false;
		}
	}
	return true;
}

/* Whether the node reduces a dim of the index that sent its rows, so that one
 * of its results is of rows on several ranks. */
static bool
mixes_rows(const struct place *p, const struct ir_node *n, value_id index)
{
	const struct ir_attr *over = ir_attr(p->m, n, IR_ATTR_OVER);
	const struct ir_type *t = ir_type(p->m, index);
	uint32_t i;

	for (i = 0; ir_is(n->op, IRF_ROWWISE) && over && i < t->ndims; i++) {
		if (ir_attr_has(over, t->dims[i])) {
			return true;
		}
	}
	return false;
}

bool
place_one_route(const struct place *p, const struct ir_node *n,
		const struct place_way *w)
{
	value_id sent = 0;
	uint32_t k;
	int at = place_index_operand(n);

	if (at >= 0) {
		sent = p->facts->sent_by[n->result];
	}
	for (k = 0; k < n->nargs; k++) {
		value_id by = p->facts->sent_by[ir_args(p->m, n)[k]];

		if (w->in[k] != PLACE_ROUTED || !by) {
			continue;
		}
		if ((sent && by != sent) || mixes_rows(p, n, by)) {
			return false;
		}
		sent = by;
	}
	return true;
}
