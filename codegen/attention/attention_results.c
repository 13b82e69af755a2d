/*
 * Where results go.  Nodes that follow one result run on each of its blocks
 * while it is in shared memory or a cache.  Nodes that follow several results,
 * results reduced over ranks, or results of which a block has only some
 * columns, run in a step of their own, from shared scratch.
 */
#include "codegen/attention/attention.h"

/* Nodes that follow some results, with the other nodes that these need. */
static void
nodes_after(struct attn_group *g, attn_bits from, struct attn_nest *n)
{
	bool *in = arena_alloc(g->a, g->x->nodes.n + 1);
	uint32_t i, k;

	for (i = 0; i < g->x->nodes.n; i++) {
		const struct ir_node *node = ir_node(g->m,
						     g->x->nodes.at[i]);

		if (!(g->from[i] & from)) {
			continue;
		}
		in[i] = true;
		for (k = 0; k < node->nargs; k++) {
			attn_mark_needed(g, ir_args(g->m, node)[k], in);
		}
	}
	attn_add_marked(g, in, n);
}

/* Whether ranks hold partial sums of a result. */
static bool
is_partial(const struct attn *t, uint32_t r)
{
	return t->axes && attn_is_keys(r);
}

static struct attn_after *
after_of(struct attn_group *g, attn_bits bit)
{
	uint32_t i;

	for (i = 0; i < g->after.n; i++) {
		if (g->after.at[i].from & bit) {
			return &g->after.at[i];
		}
	}
	return NULL;
}

static bool
is_read(const struct attn_group *g, value_id v)
{
	uint32_t i, k;

	for (i = 0; i < g->nsets; i++) {
		for (k = 0; k < ATTN_NINPUTS; k++) {
			if (g->sets[i].values[k] == v) {
				return true;
			}
		}
	}
	return false;
}

static bool
place_result(struct attn *t, uint32_t set, uint32_t r)
{
	struct attn_group *g = t->g;
	struct attn_made *made = &t->made[r];
	attn_bits bit = attn_bit(set, r);
	struct attn_after *after = after_of(g, bit);
	dim_id keys = is_partial(t, r) ? t->dim[ATTN_KEYS] : 0;

	made->partial = is_partial(t, r);
	if (after) {
		after->later |= is_partial(t, r) || !t->whole ||
				(after->from & ~bit) != 0;
		made->has_box = !after->later;
	}
	if (made->has_box) {
		nodes_after(g, bit, &made->box);
		made->box.space = made->type;
	}
	if (is_partial(t, r) || is_read(g, made->value) ||
	    (after && after->later)) {
		int64_t n = attn_elems(g, &made->type, keys);

		attn_view_shared(t, &made->type, keys, attn_is_keys(r),
				 attn_alloc_shared(g, 4 * n), IR_F32,
				 &made->scratch);
	}
	return !kernel_makes(g->x, made->value) ||
	       attn_view_memory(t, made->value, attn_is_keys(r), true,
				&made->memory);
}

bool
attn_place_results(struct attn *t, uint32_t set)
{
	uint32_t r;

	for (r = 0; r < ATTN_NRESULTS; r++) {
		if (t->made[r].value && !place_result(t, set, r)) {
			return false;
		}
	}
	return true;
}

/* ---- steps after all sets ---- */

static void
add_leaf(struct attn *t, const struct attn_made *made, struct attn_nest *n)
{
	struct attn_leaf leaf = { .value = made->value,
				  .shared = made->scratch.shared };
	uint32_t k;

	for (k = 0; k < t->nbatch; k++) {
		leaf.stride[made->batch_at[k]] = made->scratch.batch[k];
	}
	leaf.stride[made->pos_at] = made->scratch.pos;
	leaf.stride[made->head_at] = made->scratch.head;
	if (made->col_at < made->type.ndims) {
		leaf.stride[made->col_at] = made->scratch.col;
	}
	VEC_PUSH(t->g->a, &n->leaves, leaf);
}

/* The step runs over the positions of the first of the results. */
static bool
follow(struct attn_group *g, const struct attn_after *after)
{
	const struct attn_made *made = NULL;
	struct attn_nest n = { 0 };
	struct attn *t = NULL;
	uint32_t i, r;

	nodes_after(g, after->from, &n);
	for (i = 0; i < g->nsets; i++) {
		for (r = 0; r < ATTN_NRESULTS; r++) {
			if (!(after->from & attn_bit(i, r))) {
				continue;
			}
			add_leaf(&g->sets[i], &g->sets[i].made[r], &n);
			t = made ? t : &g->sets[i];
			made = made ? made : &g->sets[i].made[r];
		}
	}
	if (!made) {
		die("a step after nothing");
	}
	n.space = made->type;
	return g->back->follow(t, made, &n);
}

bool
attn_emit_rest(struct attn_group *g)
{
	uint32_t i, r;

	for (i = 0; i < g->nsets; i++) {
		for (r = 0; r < ATTN_NRESULTS; r++) {
			if (g->sets[i].made[r].value &&
			    is_partial(&g->sets[i], r)) {
				attn_reduce_keys(&g->sets[i], r);
			}
		}
	}
	for (i = 0; i < g->after.n; i++) {
		if (g->after.at[i].later && !follow(g, &g->after.at[i])) {
			return false;
		}
	}
	return true;
}
