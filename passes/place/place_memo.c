/*
 * What was chosen before.  A search places one program on many meshes, and
 * most begin alike: an axis is solved after those before it, so what was
 * chosen along it holds wherever the program, the axes before it and what it
 * may split are the same, whichever number it has in the mesh.
 */
#include "passes/place/place.h"
#include "passes/solve/solve.h"

#include <string.h>

/* Along one axis, behind others. */
struct place_chosen {
	const struct place_chosen *before, *next;	/* next: an older one */
	enum place_kind kind;
	int64_t ranks;
	int zero;
	bool ring;
	const bool *may, *late;
	/*
	 * What came out, of what functions reach, in order: by value, by
	 * operand of a node, by result of a region, by node.
	 */
	const struct ir_along *value, *want, *yield;
	const uint8_t *runs;
	uint32_t count;		/* placements chosen */
	/*
	 * Whatever things cost: over another number of ranks it is the same,
	 * but over one, where there is nothing to add up.
	 */
	bool forced;
};

/* All that a choice hangs on of a module: what its functions reach. */
struct program {
	struct hash hash;
	const struct place_chosen *chosen;
	struct place_facts *facts;	/* if it is all there is; or NULL */
	struct choice *shapes;		/* the newest; of those facts */
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

struct choice **
place_shapes(struct place *p)
{
	return p->program && p->facts == p->program->facts
		? &p->program->shapes : NULL;
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
	f->flops = arena_alloc_raw(a, p->nnodes * sizeof *f->flops);
	for (i = 0; i < p->nnodes; i++) {
		f->flops[i] = -1;
	}
	place_find_bytes(p);
	place_find_dims(p);
	place_find_routes(p);
	place_find_likes(p);
	place_find_cells(p);
}

static bool
is_whole(const struct place *p)
{
	return p->reached.nnodes == p->nnodes &&
	       p->reached.nvalues == p->nvalues &&
	       p->reached.nregions == p->m->regions.n;
}

static struct hash
hash_reached(struct place *p)
{
	return ir_hash(is_whole(p) ? p->m
		       : ir_compact(p->m, &p->reached, &p->scratch));
}

/* Ids are those of another module of it only where all of it is reached. */
static void
take_facts(struct place *p, struct program *x, struct arena *a)
{
	if (!is_whole(p)) {
		find_facts(p, &p->arena);
		return;
	}
	if (!x->facts) {
		find_facts(p, a);
		x->facts = p->facts;
	}
	p->facts = x->facts;
}

static struct program *
find_known(struct place *p, struct pass_memo *memo)
{
	struct hash hash = hash_reached(p);
	struct program *x = memo->programs;

	while (x && !hash_same(x->hash, hash)) {
		x = x->older;
	}
	if (!x) {
		x = arena_alloc(memo->arena, sizeof *x);
		x->hash = hash;
		x->older = memo->programs;
		memo->programs = x;
	}
	take_facts(p, x, memo->arena);
	return x;
}

void
place_find_program(struct place *p)
{
	ir_reach(p->m, &p->arena, &p->reached);
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
apply_values(struct place *p, const struct place_chosen *x)
{
	value_id v;

	for (v = 1; v < p->nvalues; v++) {
		struct ir_along s = x->value[p->reached.value[v]];

		place_set(p, &p->m->values.at[v].type, s);
		p->spread[v] *= s.how >= IR_IS_SPLIT ? (double)p->ranks : 1;
	}
}

static void
apply(struct place *p, const struct place_chosen *x)
{
	const struct ir_module *m = p->m;
	uint32_t i, k, at = 0;

	apply_values(p, x);
	for (i = 0; i < p->nnodes; i++) {
		const struct ir_node *n = ir_node(m, i);

		p->runs[i] = x->runs[p->reached.node[i]];
		for (k = 0; p->reached.node[i] && k < n->nargs; k++) {
			place_set(p, &p->wants[n->args + k], x->want[at++]);
		}
	}
	for (i = 1, at = 0; i < m->regions.n; i++) {
		for (k = 0; p->reached.region[i] &&
			    k < m->regions.at[i].results.n; k++) {
			place_set(p, &p->yields[i][k], x->yield[at++]);
		}
	}
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

static struct ir_along
along(const struct place *p, type_id t)
{
	return ir_along(ir_type_of(p->m->ctx, t), p->axis);
}

static struct ir_along *
yields_of(const struct place *p, struct arena *a)
{
	const struct ir_module *m = p->m;
	uint32_t n = 0, i, k;
	struct ir_along *all;

	for (i = 1; i < m->regions.n; i++) {
		n += p->reached.region[i] ? m->regions.at[i].results.n : 0;
	}
	all = arena_alloc_raw(a, n * sizeof *all);
	for (i = 1, n = 0; i < m->regions.n; i++) {
		for (k = 0; p->reached.region[i] &&
			    k < m->regions.at[i].results.n; k++) {
			all[n++] = along(p, p->yields[i][k]);
		}
	}
	return all;
}

static void
note_nodes(const struct place *p, struct arena *a, struct place_chosen *x)
{
	struct ir_along *want =
		arena_alloc_raw(a, p->reached.nargs * sizeof *want);
	uint8_t *runs = arena_alloc(a, p->reached.nnodes);
	uint32_t i, k, at = 0;

	for (i = 1; i < p->nnodes; i++) {
		const struct ir_node *n = ir_node(p->m, i);

		if (p->reached.node[i]) {
			runs[p->reached.node[i]] = p->runs[i];
			for (k = 0; k < n->nargs; k++) {
				want[at++] = along(p, p->wants[n->args + k]);
			}
		}
	}
	x->want = want;
	x->runs = runs;
}

static void
note(const struct place *p, struct arena *a, struct place_chosen *x)
{
	struct ir_along *value = arena_alloc(a, p->reached.nvalues *
					     sizeof *value);
	value_id v;

	for (v = 1; v < p->nvalues; v++) {
		if (p->reached.value[v]) {
			value[p->reached.value[v]] =
				along(p, p->m->values.at[v].type);
		}
	}
	x->value = value;
	x->yield = yields_of(p, a);
	note_nodes(p, a, x);
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
