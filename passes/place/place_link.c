/*
 * Variables of the problem and the tables between pairs of them: how a value is
 * made, which copy it is converted to, and how it reaches what a node needs.
 * Codes are computed once for all values of a class.
 */
#include "passes/place/place_choice.h"

#include <math.h>

/* ---- variables ---- */

uint32_t
place_new_var(struct choice *c, uint32_t n, node_id owner)
{
	VEC_PUSH(c->arena, &c->owner, owner);
	return solve_var(c->s, n);
}

void
place_new_cell(struct choice *c, struct cell *x, node_id owner)
{
	x->made = true;
	x->var = place_new_var(c, x->n, owner);
}

void
place_add_option(struct cell *x, struct ir_along at)
{
	x->opt[x->n++] = at;
}

void
place_all_options(const struct choice *c, struct cell *x, value_id v)
{
	place_list list = c->alike[c->p->facts->like[v]].all;

	for (; list; list >>= 4) {
		place_add_option(x, place_along(place_like(c->p, v),
						(list & 15) - 1));
	}
}

/* ---- shapes ---- */

/* Whether a copy that users share may have this slot. */
static bool
may_also(uint32_t slot)
{
	return slot != PLACE_PART;
}

struct shaping {
	struct option opt[PLACE_MOST_OPTIONS];
	uint8_t copied[PLACE_MOST_OPTIONS];
	uint32_t n;
};

/* If a value has several uses, adds each option with each possible copy. */
static void
add_copies(const struct choice *c, const struct shape *s, struct shaping *x)
{
	uint32_t n = x->n, i;
	place_list to;

	for (i = 0; s->like->many && i < n; i++) {
		for (to = s->copies; to; to >>= 4) {
			uint8_t also = (to & 15) - 1, code;

			if (x->opt[i].at == also || !may_also(also) ||
			    x->n == PLACE_MOST_OPTIONS) {
				continue;
			}
			code = place_step(c->p, s->like, x->opt[i].at, also,
					  s->like->routable);
			if (code != PLACE_NEVER) {
				x->opt[x->n] = (struct option){
					x->opt[i].at, also
				};
				x->copied[x->n++] = code;
			}
		}
	}
}

static struct shape *
new_shape(const struct choice *c, uint32_t like, place_list made,
	  place_list copies)
{
	struct arena *a = c->arena;
	struct shape *s = arena_alloc(a, sizeof *s);
	struct shaping x = { .n = 0 };

	s->made = made;
	s->copies = copies;
	s->like = &c->p->facts->likes.at[like];
	s->next = c->alike[like].shapes;
	c->alike[like].shapes = s;
	for (; made; made >>= 4) {
		x.opt[x.n++] = (struct option){ (made & 15) - 1, PLACE_SLOTS };
	}
	s->ncopies = x.n;
	add_copies(c, s, &x);
	s->ncopies = x.n - s->ncopies;
	s->n = x.n;
	s->opt = arena_dup(a, x.opt, x.n * sizeof *s->opt);
	s->copied = arena_dup(a, x.copied, x.n);
	return s;
}

static struct shape *
shape_of(const struct choice *c, uint32_t like, place_list made,
	 place_list copies)
{
	struct shape *s = c->alike[like].shapes;

	while (s && (s->made != made || s->copies != copies)) {
		s = s->next;
	}
	return s ? s : new_shape(c, like, made, copies);
}

/* The code for getting slot `want` from a value or its copy. */
static uint8_t
reach(const struct place *p, const struct place_like *l, struct option o,
      uint32_t want, bool routable)
{
	uint8_t alone = place_step(p, l, o.at, want, routable);

	if (o.also == want && (routable || want != PLACE_ROUTED)) {
		return PLACE_FREE;
	}
	return o.also == PLACE_SLOTS ? alone
		: place_step_or(p, l, alone, o.also, want, routable);
}

static const uint8_t *
new_fit(const struct choice *c, struct shape *s, uint32_t want, bool routable)
{
	uint8_t *code = arena_alloc_raw(c->arena, s->n);
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		code[i] = reach(c->p, s->like, s->opt[i], want, routable);
	}
	return s->fit[routable][want] = code;
}

/* Codes by option, cached, as several nodes may want one slot. */
static inline const uint8_t *
fit(const struct choice *c, struct shape *s, uint32_t want, bool routable)
{
	const uint8_t *known = s->fit[routable][want];

	return known ? known : new_fit(c, s, want, routable);
}

/* ---- values ---- */

static void
value_var(struct choice *c, value_id v, place_list made, place_list copies,
	  node_id owner)
{
	struct made *x = &c->value[v];

	x->shape = shape_of(c, c->p->facts->like[v], made, copies);
	x->var = place_new_var(c, x->shape->n, owner);
	x->is = true;
	if (x->shape->ncopies) {
		place_add_due(c, (struct due){
			.kind = DUE_STEPS, .of = v,
			.table = solve_add_unary(c->s, x->var),
			.by.code = x->shape->copied
		});
	}
}

void
place_value(struct choice *c, value_id v, place_list made, node_id owner)
{
	value_var(c, v, made, made, owner);
}

/* A slot that no way of the node makes can only be a copy. */
void
place_result(struct choice *c, value_id v, node_id owner)
{
	const struct runner *n = &c->node[owner];
	place_list all = c->alike[c->p->facts->like[v]].all, made = 0, rest;
	uint32_t slots = 0, i;

	for (i = 0; i < n->n; i++) {
		slots |= 1u << n->way[i].out;
	}
	for (i = 0, rest = all; rest; rest >>= 4) {
		if (slots >> ((rest & 15) - 1) & 1) {
			made = place_list_add(made, i++, (rest & 15) - 1);
		}
	}
	value_var(c, v, made, all, owner);
}

/* ---- links ---- */

/* A table of two variables, and the code of each entry. */
struct link {
	uint32_t table;
	size_t n;
	struct solve_strides to;
	uint8_t *code;
};

static struct link
open_link(struct choice *c, uint32_t u, uint32_t v)
{
	struct link l;

	l.table = solve_add_pair(c->s, u, v, &l.to);
	l.n = c->s->tables.at[l.table].n;
	l.code = NULL;
	return l;
}

/* Sets row i to the code of each of v's n options. */
static inline void
set_row(const struct link *l, uint32_t i, const uint8_t *code, uint32_t n)
{
	uint8_t *at = l->code + i * l->to.of_u;
	uint32_t j;

	for (j = 0; j < n; j++, at += l->to.of_v) {
		*at = code[j];
	}
}

/* Opens a table of conversions of v; codes are set later. */
static struct link
open_steps(struct choice *c, uint32_t u, value_id v)
{
	struct link l = open_link(c, u, c->value[v].var);

	l.code = arena_alloc_raw(c->arena, l.n);
	place_add_due(c, (struct due){
		.kind = DUE_STEPS, .of = v, .table = l.table, .by.code = l.code
	});
	return l;
}

/* Costs that are the same along every axis. */
static double *
tell(struct choice *c, const struct link *l)
{
	double *at = arena_alloc_raw(c->arena, l->n * sizeof *at);

	solve_set_costs(c->s, l->table, at);
	return at;
}

/* Options with slot `want` are free, all others forbidden. */
static inline void
set_same(double *cost, const struct link *l, uint32_t i, uint32_t want,
	 const struct shape *s)
{
	double *at = cost + i * l->to.of_u;
	uint32_t j;

	for (j = 0; j < s->n; j++, at += l->to.of_v) {
		*at = s->opt[j].at == want ? 0 : INFINITY;
	}
}

void
place_link_same(struct choice *c, const struct cell *x, value_id v)
{
	const struct made *t = &c->value[v];
	struct link l = open_link(c, x->var, t->var);
	double *cost = tell(c, &l);
	uint32_t i;

	for (i = 0; i < x->n; i++) {
		set_same(cost, &l, i, place_slot(t->shape->like, x->opt[i]),
			 t->shape);
	}
}

/* A microbatch's addition to a gradient is a partial sum over time. */
static double
add_over_time(const struct place *p, struct option o)
{
	return o.at == PLACE_PART ||
	       (o.at == PLACE_WHOLE && p->ranks == 1) ? 0 : INFINITY;
}

static void
link_over_time(struct choice *c, const struct cell *x, const struct made *t)
{
	struct link l = open_link(c, x->var, t->var);
	double *cost = tell(c, &l);
	uint32_t i, j;

	for (i = 0; i < x->n; i++) {
		for (j = 0; j < t->shape->n; j++) {
			cost[i * l.to.of_u + j * l.to.of_v] =
				add_over_time(c->p, t->shape->opt[j]);
		}
	}
}

void
place_link_into(struct choice *c, const struct cell *x, value_id v, bool sums)
{
	const struct made *t = &c->value[v];
	struct shape *s = t->shape;
	struct link l;
	uint32_t i;

	if (sums && c->p->kind == PLACE_TIME && !c->update) {
		link_over_time(c, x, t);
		return;
	}
	l = open_steps(c, x->var, v);
	for (i = 0; i < x->n; i++) {
		set_row(&l, i, fit(c, s, place_slot(s->like, x->opt[i]),
				   false), s->n);
	}
}

/* ---- nodes ---- */

void
place_link_operand(struct choice *c, node_id id, uint32_t k)
{
	const struct ir_node *n = ir_node(c->p->m, id);
	value_id v = ir_args(c->p->m, n)[k];
	const struct runner *a = &c->node[id];
	const struct made *t = &c->value[v];
	struct link l = open_steps(c, a->var, v);
	bool routable = place_can_route((enum ir_op)n->op, k);
	uint32_t i;

	for (i = 0; i < a->n; i++) {
		set_row(&l, i, fit(c, t->shape, a->way[i].in[k], routable),
			t->shape->n);
	}
}

void
place_link_result(struct choice *c, node_id id)
{
	const struct ir_node *n = ir_node(c->p->m, id);
	const struct runner *a = &c->node[id];
	const struct made *t = &c->value[n->result];
	struct link l = open_link(c, a->var, t->var);
	double *cost = tell(c, &l);
	uint32_t i;

	for (i = 0; i < a->n; i++) {
		set_same(cost, &l, i, a->way[i].out, t->shape);
	}
}
