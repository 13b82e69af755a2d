/*
 * Scopes of emitted code, for any back end: which expressions have a value
 * where code is being emitted, and which are computed ahead of a loop because
 * they are the same in all of its iterations.
 */
#include "codegen/nest/nest.h"

void
nest_scope_init(struct nest_scope *s, const struct nest *n, struct arena *a,
		void (*make)(void *user, nest_id id), void *user)
{
	*s = (struct nest_scope){ .n = n, .a = a, .make = make, .user = user };
	s->made = arena_alloc(a, sizeof *s->made * n->exprs.n);
	s->seen = arena_alloc(a, sizeof *s->seen * n->exprs.n);
}

void
nest_scope_set(struct nest_scope *s, nest_id id, void *made)
{
	s->made[id] = made;
	VEC_PUSH(s->a, &s->order, id);
}

void
nest_scope_leave(struct nest_scope *s, uint32_t since)
{
	while (s->order.n > since) {
		s->made[s->order.at[--s->order.n]] = NULL;
	}
}

static void hoist(struct nest_scope *s, nest_id id, uint64_t loops);

/* What an index needs that is not affine in loops. */
static void
hoist_place(struct nest_scope *s, nest_id place, uint64_t loops)
{
	struct nest_affine a;
	uint32_t i;

	nest_affine(s->n, place, &a);
	for (i = 0; i < a.nrest; i++) {
		hoist(s, a.rest[i].e, loops);
	}
}

static void
hoist(struct nest_scope *s, nest_id id, uint64_t loops)
{
	const struct nest_expr *x = nest_at(s->n, id);

	if (!id || s->made[id] || s->seen[id] == s->stamp ||
	    x->op == NEST_NUM || x->op == NEST_LOOP) {
		return;
	}
	s->seen[id] = s->stamp;
	if (x->over) {		/* its pass makes it */
		return;
	}
	if (!(x->loops & loops)) {
		/* with a rank it needs sums, which may not be made yet */
		if (x->rank == 0) {
			s->make(s->user, id);
		}
		return;
	}
	if (x->op == NEST_LOAD) {
		hoist_place(s, x->a, loops);
		return;
	}
	hoist(s, x->a, loops);
	hoist(s, x->b, loops);
	hoist(s, x->c, loops);
}

void
nest_scope_hoist_roots(struct nest_scope *s, const uint32_t *roots,
		       uint32_t nroots, uint64_t loops)
{
	uint32_t i;

	s->stamp++;
	for (i = 0; i < nroots; i++) {
		const struct nest_root *r = &s->n->roots.at[roots[i]];

		hoist(s, r->value, loops);
		hoist(s, r->old, loops);
		hoist_place(s, r->place, loops);
	}
}

void
nest_scope_hoist_pass(struct nest_scope *s, const struct nest_pass *p,
		      uint64_t loops)
{
	uint32_t i;

	s->stamp++;
	for (i = 0; i < p->sums.n; i++) {
		hoist(s, nest_at(s->n, p->sums.at[i])->a, loops);
	}
	nest_scope_hoist_roots(s, p->roots.at, p->roots.n, loops);
}
