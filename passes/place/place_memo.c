/*
 * Reuse of earlier choices.  A search places one program on many meshes, many
 * of which begin with the same axes.  The choice along an axis depends only on
 * the program, the axes before it and what it may split, not on its number in
 * the mesh, so it is kept under these as its key.
 */
#include "ir/memo.h"
#include "passes/place/place.h"

/*
 * The result along one axis for reachable code, in order: by value, by operand
 * of a node, by result of a region, by node.
 */
struct place_chosen {
	const uint32_t *value, *want, *yield;	/* see packed() */
	const uint8_t *runs;
	uint32_t count;		/* placements chosen */
};

/* What reachable code of a module alone determines. */
struct program {
	struct place_facts *facts;	/* if all is reachable; or NULL */
	struct choice *shapes;		/* newest first, with these facts */
};

struct choice **
place_shapes(struct place *p)
{
	return p->program && p->facts == p->program->facts
		? &p->program->shapes : NULL;
}

/*
 * Hundreds of choices are kept, of thousands of placements each: so one is a
 * number, with ir_how in the lowest bits and the dim above them.
 */
#define HOW_BITS 3

static uint32_t
packed(const struct place *p, type_id t)
{
	struct ir_along s = ir_along(ir_type_of(p->m->ctx, t), p->axis);

	return (uint32_t)s.how | s.dim << HOW_BITS;
}

static struct ir_along
unpacked(uint32_t x)
{
	return (struct ir_along){
		(enum ir_how)(x & ((1u << HOW_BITS) - 1)), x >> HOW_BITS
	};
}

/* ---- the program ---- */

/* Facts that no plan changes; some facts of nodes are found later. */
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

/* Modules of one program have the same ids only if all code is reachable. */
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
find_known(struct place *p, struct memo *memo, struct arena *a)
{
	struct program *x = memo_find(memo, MEMO_PROGRAMS, p->chosen);

	if (!x) {
		x = arena_alloc(a, sizeof *x);
		memo_keep(memo, MEMO_PROGRAMS, p->chosen, x);
	}
	take_facts(p, x, a);
	return x;
}

void
place_find_program(struct place *p)
{
	/* every draw of a random price is new: keep nothing */
	struct memo *memo = p->price.seed ? NULL : p->p->memo;
	struct arena *a = memo_arena(memo, MEMO_PROGRAMS);

	ir_reach(p->m, &p->arena, &p->reached);
	if (a) {
		p->chosen = hash_reached(p);
		p->program = find_known(p, memo, a);
	} else {
		find_facts(p, &p->arena);
	}
}

/* ---- along an axis ---- */

/* ZeRO splits only along data and expert axes. */
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

int64_t
place_parts(const struct place *p)
{
	return p->facts->groups ? p->plan->tp : 0;
}

/* The key of a choice, with the number of ranks only as "one or several". */
static struct hash
key_of(const struct place *p)
{
	struct hash key = p->chosen;
	uint32_t n = p->m->dims.n, i;

	hash_add(&key, (uint64_t)zero_of(p) << 32 | (uint64_t)p->kind << 2 |
		       (uint64_t)(p->ranks == 1) << 1 | ring_of(p));
	hash_add(&key, (uint64_t)place_parts(p));
	for (i = 0; i < n; i++) {
		hash_add(&key, (uint64_t)p->may[i] << 1 | p->late[i]);
	}
	return key;
}

/* The same with all that prices along the axis depend on. */
static struct hash
with_prices(struct hash key, const struct place *p)
{
	const struct place_rates *r = &p->price.rates;
	size_t i;

	hash_add(&key, num_bits(p->length));
	hash_add(&key, num_bits(p->steps));
	for (i = 0; i < COST_NOPS; i++) {
		hash_add(&key, num_bits(r->start_us[i]));
		hash_add(&key, num_bits(r->byte_us[i]));
	}
	return key;
}

static void
apply_values(struct place *p, const struct place_chosen *x)
{
	value_id v;

	for (v = 1; v < p->nvalues; v++) {
		struct ir_along s = unpacked(x->value[p->reached.value[v]]);

		place_set(p, &p->m->values.at[v].type, s);
		p->spread[v] *= s.how >= IR_IS_SPLIT ? p->length : 1;
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
			place_set(p, &p->wants[n->args + k],
				  unpacked(x->want[at++]));
		}
	}
	for (i = 1, at = 0; i < m->regions.n; i++) {
		for (k = 0; p->reached.region[i] &&
			    k < m->regions.at[i].results.n; k++) {
			place_set(p, &p->yields[i][k],
				  unpacked(x->yield[at++]));
		}
	}
	place_add_runs(p);
	pass_count(p->p, "placements chosen", x->count);
}

bool
place_recall(struct place *p)
{
	struct hash any = key_of(p), key = with_prices(any, p);
	const struct place_chosen *x;

	if (!p->program) {
		return false;
	}
	x = memo_find(p->p->memo, MEMO_CHOICES, key);
	x = x ? x : memo_find(p->p->memo, MEMO_CHOICES, any);
	if (x) {
		apply(p, x);
		p->chosen = key;
	}
	return x != NULL;
}

/* ---- a lower bound along an axis ---- */

/* The key of a bound, which has no axes before its own. */
static struct hash
bound_key(const struct place *p)
{
	struct hash key = with_prices(key_of(p), p);
	uint32_t i;

	hash_add(&key, num_bits(p->shown));
	hash_add(&key, num_bits(p->waited));
	for (i = 0; i < p->m->regions.n; i++) {
		hash_add(&key, p->counted[i]);
	}
	return key;
}

const double *
place_recall_least(const struct place *p)
{
	return p->program ? memo_find(p->p->memo, MEMO_LEAST, bound_key(p))
			  : NULL;
}

void
place_remember_least(const struct place *p, double us)
{
	struct memo *memo = p->p->memo;
	struct arena *a = p->program ? memo_arena(memo, MEMO_LEAST) : NULL;

	if (a) {
		memo_keep(memo, MEMO_LEAST, bound_key(p),
			  arena_dup(a, &us, sizeof us));
	}
}

/* ---- what is kept of a choice ---- */

static uint32_t *
yields_of(const struct place *p, struct arena *a)
{
	const struct ir_module *m = p->m;
	uint32_t n = 0, i, k;
	uint32_t *all;

	for (i = 1; i < m->regions.n; i++) {
		n += p->reached.region[i] ? m->regions.at[i].results.n : 0;
	}
	all = arena_alloc_raw(a, n * sizeof *all);
	for (i = 1, n = 0; i < m->regions.n; i++) {
		for (k = 0; p->reached.region[i] &&
			    k < m->regions.at[i].results.n; k++) {
			all[n++] = packed(p, p->yields[i][k]);
		}
	}
	return all;
}

static void
note_nodes(const struct place *p, struct arena *a, struct place_chosen *x)
{
	uint32_t *want = arena_alloc_raw(a, p->reached.nargs * sizeof *want);
	uint8_t *runs = arena_alloc(a, p->reached.nnodes);
	uint32_t i, k, at = 0;

	for (i = 1; i < p->nnodes; i++) {
		const struct ir_node *n = ir_node(p->m, i);

		if (p->reached.node[i]) {
			runs[p->reached.node[i]] = p->runs[i];
			for (k = 0; k < n->nargs; k++) {
				want[at++] = packed(p, p->wants[n->args + k]);
			}
		}
	}
	x->want = want;
	x->runs = runs;
}

static void
note(const struct place *p, struct arena *a, struct place_chosen *x)
{
	uint32_t *value = arena_alloc(a, p->reached.nvalues * sizeof *value);
	value_id v;

	for (v = 1; v < p->nvalues; v++) {
		if (p->reached.value[v]) {
			value[p->reached.value[v]] =
				packed(p, p->m->values.at[v].type);
		}
	}
	x->value = value;
	x->yield = yields_of(p, a);
	note_nodes(p, a, x);
}

/*
 * A choice that is forced at any price is kept for all numbers of ranks above
 * one (one rank has no sums).  This is done for time only: along other axes,
 * ways depend on what the number of ranks divides.
 */
void
place_remember(struct place *p, uint32_t count, bool forced)
{
	struct memo *memo = p->p->memo;
	struct arena *a = p->program ? memo_arena(memo, MEMO_CHOICES) : NULL;
	struct hash any = key_of(p), key = with_prices(any, p);
	struct place_chosen *x;

	p->chosen = key;
	if (!a) {
		return;
	}
	x = arena_alloc(a, sizeof *x);
	x->count = count;
	note(p, a, x);
	memo_keep(memo, MEMO_CHOICES, key, x);
	if (forced && p->kind == PLACE_TIME) {
		memo_keep(memo, MEMO_CHOICES, any, x);
	}
}
