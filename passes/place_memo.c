/*
 * What was chosen before.  A search places one program on many meshes, and
 * most begin alike: an axis is solved after those before it, so what was
 * chosen along it holds wherever the program, the axes before it and what it
 * may split are the same, whichever number it has in the mesh.
 */
#include "passes/place.h"
#include "passes/solve.h"

#include <string.h>

/* Along one axis, behind others. */
struct place_chosen {
	const struct place_chosen *before, *next;	/* next: an older one */
	enum place_kind kind;
	int64_t ranks;
	int zero;
	bool ring;
	const bool *may, *late;
	/* what came out: by value, by operand, by result of a region */
	const struct ir_along *value, *want, *yield;
	const uint8_t *runs;	/* by node */
	uint32_t count;		/* placements chosen */
	/*
	 * Whatever things cost: over another number of ranks it is the same,
	 * but over one, where there is nothing to add up.
	 */
	bool forced;
};

/* All that a choice hangs on of a module. */
struct program {
	struct hash hash;
	const struct place_chosen *chosen;
	struct place_facts *facts;
	struct program *older;
};

struct pass_memo {
	struct arena *arena;
	struct solve_memo *planned;
	struct program *programs;
};

struct pass_memo *
pass_memo_new(struct arena *a)
{
	struct pass_memo *m = arena_alloc(a, sizeof *m);

	m->arena = a;
	m->planned = solve_memo_new(a);
	return m;
}

struct solve_memo *
place_planned(const struct place *p)
{
	return p->p->memo ? p->p->memo->planned : NULL;
}

/* ---- the program ---- */

/* What no plan changes; of nodes, some is found on the way. */
static void
find_facts(struct place *p, struct arena *a)
{
	struct place_facts *f = arena_alloc(a, sizeof *f);
	uint32_t i;

	p->facts = f;
	f->arena = a;
	f->ways = arena_alloc(a, p->nnodes * sizeof *f->ways);
	f->flops = arena_room(a, p->nnodes * sizeof *f->flops);
	for (i = 0; i < p->nnodes; i++) {
		f->flops[i] = -1;
	}
	place_find_bytes(p);
	place_find_dims(p);
	place_find_routes(p);
}

static struct program *
find_known(struct place *p, struct pass_memo *memo)
{
	struct hash hash = ir_hash(p->m);
	struct program *x = memo->programs;

	while (x && !hash_same(x->hash, hash)) {
		x = x->older;
	}
	if (x) {
		p->facts = x->facts;
		return x;
	}
	find_facts(p, memo->arena);
	x = arena_alloc(memo->arena, sizeof *x);
	x->hash = hash;
	x->facts = p->facts;
	x->older = memo->programs;
	return memo->programs = x;
}

void
place_find_program(struct place *p)
{
	/* prices that are drawn at random are never the same */
	if (p->p->memo && !p->price.seed) {
		p->program = find_known(p, p->p->memo);
	} else {
		find_facts(p, &p->arena);
	}
}

/* ---- along an axis ---- */

/* ZeRO cuts along these, and no other axis asks for it. */
static int
zero_of(const struct place *p)
{
	return p->kind == PLACE_DATA || p->kind == PLACE_EXPERT
		? p->plan->zero : 0;
}

static bool
ring_of(const struct place *p)
{
	return p->kind == PLACE_CONTEXT && p->plan->ring;
}

static bool
is_like_that(const struct place *p, const struct place_chosen *x)
{
	uint32_t n = p->m->dims.n;

	return x->before == p->chosen && x->kind == p->kind &&
	       (x->ranks == 1) == (p->ranks == 1) &&
	       x->zero == zero_of(p) && x->ring == ring_of(p) &&
	       memcmp(x->may, p->may, n) == 0 &&
	       memcmp(x->late, p->late, n) == 0;
}

static void
set(const struct place *p, struct ir_type *t, struct ir_along s)
{
	if (s.how != IR_IS_WHOLE) {
		ir_set_along(t, p->axis, s);
	}
}

static void
apply(struct place *p, const struct place_chosen *x)
{
	struct ir_module *m = p->m;
	uint32_t i, k, at = 0;

	for (i = 1; i < p->nvalues; i++) {
		set(p, &m->values.at[i].type, x->value[i]);
		p->spread[i] *= x->value[i].how >= IR_IS_SPLIT
			? (double)p->ranks : 1;
	}
	for (i = 0; i < m->args.n; i++) {
		set(p, &p->wants[i], x->want[i]);
	}
	for (i = 1; i < m->regions.n; i++) {
		for (k = 0; k < m->regions.at[i].results.n; k++) {
			set(p, &p->yields[i][k], x->yield[at++]);
		}
	}
	memcpy(p->runs, x->runs, p->nnodes);
	place_add_runs(p);
	pass_count(p->p, "placements chosen", x->count);
	p->chosen = x;
}

/* What was forced, for so many ranks. */
static const struct place_chosen *
over_ranks(struct place *p, const struct place_chosen *forced)
{
	struct place_chosen x = *forced;

	x.ranks = p->ranks;
	x.next = p->program->chosen;
	return p->program->chosen = arena_dup(p->p->memo->arena, &x,
					      sizeof x);
}

bool
place_recall(struct place *p)
{
	const struct place_chosen *x = p->program ? p->program->chosen : NULL;
	const struct place_chosen *like = NULL;

	for (; x; x = x->next) {
		if (is_like_that(p, x)) {
			if (x->ranks == p->ranks) {
				apply(p, x);
				return true;
			}
			like = x->forced ? x : like;
		}
	}
	if (like) {
		apply(p, over_ranks(p, like));
	}
	return like != NULL;
}

static struct ir_along *
yields_of(const struct place *p, struct arena *a)
{
	const struct ir_module *m = p->m;
	uint32_t n = 0, i, k;
	struct ir_along *all;

	for (i = 1; i < m->regions.n; i++) {
		n += m->regions.at[i].results.n;
	}
	all = arena_room(a, n * sizeof *all);
	for (i = 1, n = 0; i < m->regions.n; i++) {
		for (k = 0; k < m->regions.at[i].results.n; k++) {
			all[n++] = ir_along(&p->yields[i][k], p->axis);
		}
	}
	return all;
}

static void
note(const struct place *p, struct arena *a, struct place_chosen *x)
{
	const struct ir_module *m = p->m;
	struct ir_along *value = arena_room(a, p->nvalues * sizeof *value);
	struct ir_along *want = arena_room(a, m->args.n * sizeof *want);
	uint32_t i;

	for (i = 1; i < p->nvalues; i++) {
		value[i] = ir_along(ir_type(m, i), p->axis);
	}
	for (i = 0; i < m->args.n; i++) {
		want[i] = ir_along(&p->wants[i], p->axis);
	}
	x->value = value;
	x->want = want;
	x->yield = yields_of(p, a);
	x->runs = arena_dup(a, p->runs, p->nnodes);
}

void
place_remember(struct place *p, uint32_t count, bool forced)
{
	struct place_chosen x = {
		.before = p->chosen, .kind = p->kind,
		.ranks = p->ranks, .zero = zero_of(p), .ring = ring_of(p),
		.count = count,
		/* elsewhere, ways hang on what a number of ranks divides */
		.forced = forced && p->kind == PLACE_TIME
	};
	struct arena *a;

	if (!p->program) {
		return;
	}
	a = p->p->memo->arena;
	x.next = p->program->chosen;
	x.may = arena_dup(a, p->may, p->m->dims.n);
	x.late = arena_dup(a, p->late, p->m->dims.n);
	note(p, a, &x);
	p->chosen = p->program->chosen = arena_dup(a, &x, sizeof x);
}
