/*
 * What was chosen along an axis, written into the types of values and into
 * what each node and region wants of its operands.
 */
#include "passes/place_choice.h"

#include <string.h>

static struct ir_along
chosen(const struct choice *c, value_id v, const uint32_t *choice)
{
	const struct made *x = &c->value[v];

	return place_along(x->shape->like, x->shape->opt[choice[x->var]].at);
}

/* Along an axis that is new to a type, which is whole. */
static void
set(const struct choice *c, struct ir_type *t, struct ir_along s)
{
	if (s.how != IR_IS_WHOLE) {
		ir_set_along(t, c->p->axis, s);
	}
}

/* What a sink wants: its cell's placement; a part of the sum over time. */
static struct ir_along
sink_wants(const struct choice *c, node_id id, const uint32_t *choice)
{
	const struct cell *x = &c->cell[c->p->facts->cell[id]];
	const struct ir_node *n = ir_node(c->p->m, id);

	return c->p->kind == PLACE_TIME
		? chosen(c, ir_args(c->p->m, n)[0], choice)
		: x->opt[choice[x->var]];
}

static void
write_repeat(const struct choice *c, const struct ir_node *n,
	     const uint32_t *choice)
{
	struct place *p = c->p;
	uint32_t k;

	for (k = 0; k < n->nargs; k++) {
		const struct cell *x = &c->carried[n->region][k];
		struct ir_along s = x->opt[choice[x->var]];

		set(c, &p->wants[n->args + k], s);
		set(c, &p->yields[n->region][k], s);
	}
}

static void
write_node(const struct choice *c, node_id id, const uint32_t *choice)
{
	struct place *p = c->p;
	const struct ir_node *n = ir_node(p->m, id);
	const struct runner *x = &c->node[id];
	const value_id *args = ir_args(p->m, n);
	const struct place_way *w;
	bool split;
	uint32_t k;

	if (ir_is(n->op, IRF_SINK)) {
		set(c, &p->wants[n->args], sink_wants(c, id, choice));
	} else if (ir_is(n->op, IRF_REGION)) {
		write_repeat(c, n, choice);
	}
	if (!x->made) {
		return;
	}
	w = &x->way[choice[x->var]];
	split = place_along(place_like(p, n->result), w->out).how >=
		IR_IS_SPLIT;
	for (k = 0; k < n->nargs; k++) {
		struct ir_along s = place_along(place_like(p, args[k]),
						w->in[k]);

		set(c, &p->wants[n->args + k], s);
		split |= s.how >= IR_IS_SPLIT;
	}
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
		const struct cell *x = &c->handed[i];

		set(c, &p->yields[body][i], x->opt[choice[x->var]]);
	}
	for (i = 1; i < p->nvalues; i++) {
		struct ir_along s;

		if (c->value[i].is) {
			s = chosen(c, i, choice);
			set(c, &p->m->values.at[i].type, s);
			p->spread[i] *= s.how >= IR_IS_SPLIT
				? (double)p->ranks : 1;
		}
	}
}
