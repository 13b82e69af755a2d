/*
 * What was chosen along an axis, written into the types of values and into
 * what each node and region wants of its operands.
 */
#include "passes/place_choice.h"

#include <string.h>

static sym_t
name_of(const struct place *p, const struct ir_node *n)
{
	return ir_attr(p->m, n, IR_ATTR_NAME)->text;
}

static struct ir_along
chosen(const struct thing *t, const uint32_t *choice)
{
	return t->opt[choice[t->var]].at;
}

/* What a sink wants: its cell's placement; a part of the sum over time. */
static struct ir_along
sink_wants(struct choice *c, const struct ir_node *n, const uint32_t *choice)
{
	enum cell kind = place_cell_kind((enum ir_op)n->op);
	value_id v = ir_args(c->p->m, n)[0];

	if (c->p->kind == PLACE_TIME) {
		return chosen(&c->value[v], choice);
	}
	return chosen(&c->cell[kind][name_of(c->p, n)], choice);
}

/* Nodes that dce took out of their region had no part in the choice. */
static bool
is_live(const struct choice *c, const struct ir_node *n)
{
	if (ir_is(n->op, IRF_SINK)) {
		enum cell kind = place_cell_kind((enum ir_op)n->op);

		return c->value[ir_args(c->p->m, n)[0]].made &&
		       c->cell[kind][name_of(c->p, n)].made;
	}
	return !ir_is(n->op, IRF_REGION) || !n->nresults ||
	       c->carried[n->result].made;
}

static void
write_node(struct choice *c, node_id id, const uint32_t *choice)
{
	struct place *p = c->p;
	const struct ir_node *n = ir_node(p->m, id);
	struct ir_type *wants = &p->wants[n->args];
	const struct ir_way *w;
	bool split = false;
	uint32_t k;

	if (!is_live(c, n)) {
		return;
	}
	if (ir_is(n->op, IRF_SINK)) {
		ir_set_along(wants, p->axis, sink_wants(c, n, choice));
	}
	for (k = 0; ir_is(n->op, IRF_REGION) && k < n->nargs; k++) {
		struct ir_along s = chosen(&c->carried[n->result + k], choice);

		ir_set_along(&wants[k], p->axis, s);
		ir_set_along(&p->yields[n->region][k], p->axis, s);
	}
	if (!c->node[id].made) {
		return;
	}
	w = c->node[id].way[choice[c->node[id].var]];
	for (k = 0; k < n->nargs; k++) {
		ir_set_along(&wants[k], p->axis, w->in[k]);
		split |= w->in[k].how >= IR_IS_SPLIT;
	}
	split |= w->out.how >= IR_IS_SPLIT;
	p->runs[id] = (split ? RUNS_SPLIT : 0) |
		      (w->talks ? RUNS_TALKING : 0);
}

void
place_add_runs(struct place *p)
{
	uint32_t i;

	for (i = 0; i < p->nnodes; i++) {
		p->shared[i] *= p->runs[i] & RUNS_SPLIT ? (double)p->ranks : 1;
		p->talks[i] |= (uint32_t)!!(p->runs[i] & RUNS_TALKING)
				<< p->axis;
	}
}

void
place_take(struct choice *c, const uint32_t *choice)
{
	struct place *p = c->p;
	region_id body = p->m->funcs.at[p->model].body;
	uint32_t i;

	memset(p->runs, 0, p->nnodes);
	for (i = 1; i < p->nnodes; i++) {	/* before types change */
		if (c->node[i].stands) {
			write_node(c, i, choice);
		}
	}
	place_add_runs(p);
	for (i = 0; i < p->m->regions.at[body].results.n; i++) {
		value_id v = p->m->regions.at[body].results.at[i];

		ir_set_along(&p->yields[body][i], p->axis,
			     chosen(&c->handed[v], choice));
	}
	for (i = 1; i < p->nvalues; i++) {
		struct ir_along s;

		if (c->value[i].made) {
			s = chosen(&c->value[i], choice);
			ir_set_along(&p->m->values.at[i].type, p->axis, s);
			p->spread[i] *= s.how >= IR_IS_SPLIT
				? (double)p->ranks : 1;
		}
	}
}
