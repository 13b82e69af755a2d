/*
 * Writes the solution along an axis into the types of values, and into what
 * each node and region needs its operands to be.
 */
#include "passes/place/place_choice.h"

#include <string.h>

/* ---- types ---- */

#define TURNS 64		/* a power of two */

void
place_open_turns(struct place *p)
{
	p->turns = arena_alloc(&p->arena, TURNS * sizeof *p->turns);
}

static void
turn(const struct place *p, struct place_turn *x)
{
	struct ir_type t = *ir_type_of(p->m->ctx, x->from);

	ir_set_along(&t, x->axis, x->at);
	x->to = ir_type_keep(p->m->ctx, &t);
}

void
place_set(const struct place *p, type_id *t, struct ir_along s)
{
	struct place_turn *x;

	if (s.how == IR_IS_WHOLE) {
		return;
	}
	x = &p->turns[(*t + s.dim) % TURNS];
	if (x->from != *t || x->axis != p->axis || x->at.how != s.how ||
	    x->at.dim != s.dim) {
		*x = (struct place_turn){ *t, 0, p->axis, s };
		turn(p, x);
	}
	*t = x->to;
}

/* ---- the solution ---- */

static struct ir_along
chosen(const struct choice *c, value_id v, const uint32_t *choice)
{
	const struct made *x = &c->value[v];

	return place_along(x->shape->like, x->shape->opt[choice[x->var]].at);
}

/* What a sink wants: its cell's placement; along time, its operand's own. */
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

		place_set(p, &p->wants[n->args + k], s);
		place_set(p, &p->yields[n->region][k], s);
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
		place_set(p, &p->wants[n->args], sink_wants(c, id, choice));
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

		place_set(p, &p->wants[n->args + k], s);
		split |= s.how >= IR_IS_SPLIT;
	}
	p->runs[id] = (split ? RUNS_SPLIT : 0) |
		      (w->colls ? RUNS_COMM : 0);
}

void
place_add_runs(struct place *p)
{
	uint32_t i;

	for (i = 0; i < p->nnodes; i++) {
		p->shared[i] *= p->runs[i] & RUNS_SPLIT ? p->length : 1;
		p->colls[i] |= (uint32_t)!!(p->runs[i] & RUNS_COMM)
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
	for (i = 1; i < p->nnodes; i++) {	/* first: types change below */
		if (c->node[i].stands) {
			write_node(c, i, choice);
		}
	}
	place_add_runs(p);
	for (i = 0; i < p->m->regions.at[body].results.n; i++) {
		const struct cell *x = &c->handed[i];

		place_set(p, &p->yields[body][i], x->opt[choice[x->var]]);
	}
	for (i = 1; i < p->nvalues; i++) {
		struct ir_along s;

		if (c->value[i].is) {
			s = chosen(c, i, choice);
			place_set(p, &p->m->values.at[i].type, s);
			p->spread[i] *= s.how >= IR_IS_SPLIT
				? p->length : 1;
		}
	}
}
