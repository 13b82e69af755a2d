/*
 * Reuse of problems.  A search places one program on many meshes, and along
 * most axes the variables and options are the same; only prices differ.  So a
 * problem is kept with everything that decided its shape, and is used again
 * where all of that is the same.
 */
#include "ir/memo.h"
#include "passes/place/place_choice.h"

#include <string.h>

static struct place_ground
ground(const struct place *p)
{
	bool data = p->kind == PLACE_DATA || p->kind == PLACE_EXPERT;

	return (struct place_ground){
		.kind = p->kind, .zero = data ? p->plan->zero : 0,
		.ring = p->kind == PLACE_CONTEXT && p->plan->ring,
		.strict = p->strict, .alone = p->ranks == 1,
		.parts = place_parts(p), .may = p->may, .late = p->late
	};
}

static bool
same_ground(const struct place *p, const struct place_ground *a,
	    const struct place_ground *b)
{
	uint32_t n = p->m->dims.n;

	return a->kind == b->kind && a->zero == b->zero &&
	       a->ring == b->ring && a->strict == b->strict &&
	       a->alone == b->alone && a->parts == b->parts &&
	       memcmp(a->may, b->may, n) == 0 &&
	       memcmp(a->late, b->late, n) == 0;
}

static dim_id
zero_dim(const struct place *p, value_id v)
{
	return place_zero_dim(p, ir_type(p->m, v));
}

static bool
same_ways(struct place_ways a, struct place_ways b)
{
	return a.n == b.n && memcmp(a.at, b.at, a.n * sizeof *a.at) == 0;
}

/* Answers that may depend on earlier axes. */
static bool
same_answers(struct place *p, const struct choice *c)
{
	uint32_t i;

	for (i = 0; i < c->zeroed.n; i++) {
		if (zero_dim(p, c->zeroed.at[i].of) != c->zeroed.at[i].dim) {
			return false;
		}
	}
	for (i = 0; i < c->odd.n; i++) {
		if (!same_ways(place_ways(p, c->odd.at[i].node),
			       c->odd.at[i].ways)) {
			return false;
		}
	}
	return true;
}

struct choice *
place_shaped(struct place *p)
{
	struct choice **all = place_shapes(p), *c = all ? *all : NULL;
	struct place_ground here = ground(p);

	while (c && (!same_ground(p, &c->ground, &here) ||
		     !same_answers(p, c))) {
		c = c->older;
	}
	if (c) {
		c->p = p;
	}
	return c;
}

struct choice *
place_new_shape(struct place *p)
{
	struct choice **all = memo_arena(p->p->memo, MEMO_PROGRAMS)
		? place_shapes(p) : NULL;
	struct arena *a = all ? p->facts->arena : &p->scratch;
	struct choice *c;

	c = arena_alloc(a, sizeof *c);
	c->p = p;
	c->arena = a;
	c->ground = ground(p);
	c->ground.may = arena_dup(a, p->may, p->m->dims.n);
	c->ground.late = arena_dup(a, p->late, p->m->dims.n);
	if (all) {
		c->older = *all;
		*all = c;
	}
	return c;
}

dim_id
place_ask_zero(struct choice *c, value_id v)
{
	struct zeroed x = { v, zero_dim(c->p, v) };

	VEC_PUSH(c->arena, &c->zeroed, x);
	return x.dim;
}

struct place_ways
place_ask_ways(struct choice *c, node_id id)
{
	struct odd x = { id, place_ways(c->p, id) };

	if (!ir_same_ways((enum ir_op)ir_node(c->p->m, id)->op)) {
		x.ways.at = arena_dup(c->arena, x.ways.at,
				      x.ways.n * sizeof *x.ways.at);
		VEC_PUSH(c->arena, &c->odd, x);
	}
	return x.ways;
}
