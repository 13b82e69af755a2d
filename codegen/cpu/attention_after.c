/*
 * What follows attention in its group.  Nodes behind one result run on each
 * of its blocks as it is made; nodes behind several, or behind sums over
 * ranks, in a step of their own, from shared room.
 */
#include "codegen/cpu/attention_group.h"

/* Nodes behind some results, with what else these nodes need. */
static void
nodes_behind(struct att_group *g, att_bits from, struct cg_nest *n)
{
	bool *in = arena_alloc(g->c->a, g->k->nodes.n + 1);
	uint32_t i, k;

	for (i = 0; i < g->k->nodes.n; i++) {
		const struct ir_node *node = ir_node(g->c->m,
						     g->k->nodes.at[i]);

		if (!(g->from[i] & from)) {
			continue;
		}
		in[i] = true;
		for (k = 0; k < node->nargs; k++) {
			att_closure(g, ir_args(g->c->m, node)[k], in);
		}
	}
	att_take(g, in, n);
}

static bool
is_keys(uint32_t r)
{
	return r == ATT_DK || r == ATT_DV;
}

/* Whether ranks have parts of it, to be summed up. */
static bool
is_apart(const struct att *t, uint32_t r)
{
	return t->axes && is_keys(r);
}

/* What follows the result, or NULL. */
static struct att_after *
after_of(struct att_group *g, att_bits bit)
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
is_read(const struct att_group *g, value_id v)
{
	uint32_t i, k;

	for (i = 0; i < g->nsets; i++) {
		for (k = 0; k < ATT_NINPUTS; k++) {
			if (g->sets[i].values[k] == v) {
				return true;
			}
		}
	}
	return false;
}

static bool
place_result(struct att_group *g, uint32_t set, uint32_t r)
{
	struct att *t = &g->sets[set];
	struct att_made *made = &t->made[r];
	att_bits bit = att_bit(set, r);
	struct att_after *after = after_of(g, bit);
	dim_id whole = is_apart(t, r) ? t->dim[ATT_KEYS] : 0;

	made->apart = is_apart(t, r);
	if (after) {
		after->later |= is_apart(t, r) || (after->from & ~bit) != 0;
		made->has_box = !after->later;
	}
	if (made->has_box) {
		nodes_behind(g, bit, &made->box);
	}
	if (is_apart(t, r) || is_read(g, made->value) ||
	    (after && after->later)) {
		int64_t n = att_elems(g, &made->type, whole);

		att_view_shared(g, t, &made->type, whole, is_keys(r),
				att_shared(g, 4 * n), &made->room);
	}
	return !att_is_output(g, made->value) ||
	       att_view_memory(g, t, made->value, is_keys(r), true,
			       &made->memory);
}

bool
att_place_results(struct att_group *g, uint32_t set)
{
	uint32_t r;

	for (r = 0; r < ATT_NRESULTS; r++) {
		if (g->sets[set].made[r].value && !place_result(g, set, r)) {
			return false;
		}
	}
	return true;
}

/* ---- steps behind all others ---- */

#define BOX_ROWS 32

/* The results that the nodes follow, as they lie in shared room. */
static void
add_leaves(struct att_group *g, const struct att_after *after,
	   struct ll_value *shared, struct cg_nest *n)
{
	uint32_t i, r, k;

	for (i = 0; i < g->nsets; i++) {
		struct att *t = &g->sets[i];

		for (r = 0; r < ATT_NRESULTS; r++) {
			struct att_made *made = &t->made[r];
			struct cg_leaf leaf = { .value = made->value };

			if (!(after->from & att_bit(i, r))) {
				continue;
			}
			leaf.at = ll_plus_n(t->l, shared, made->room.shared);
			for (k = 0; k < t->nbatch; k++) {
				leaf.stride[made->batch_at[k]] =
					made->room.batch[k];
			}
			leaf.stride[made->pos_at] = made->room.pos;
			leaf.stride[made->head_at] = made->room.head;
			if (made->col_at < made->type.ndims) {
				leaf.stride[made->col_at] = made->room.col;
			}
			VEC_PUSH(g->c->a, &n->leaves, leaf);
		}
	}
}

/* The first of the results: its dims are what the step runs over. */
static void
first_of(struct att_group *g, const struct att_after *after, struct att **set,
	 struct att_made **made)
{
	uint32_t i, r;

	for (i = 0; i < g->nsets; i++) {
		for (r = 0; r < ATT_NRESULTS; r++) {
			if (after->from & att_bit(i, r)) {
				*set = &g->sets[i];
				*made = &g->sets[i].made[r];
				return;
			}
		}
	}
	die("a step behind nothing");
}

/* The block of an item: some rows of one head. */
static void
open_block(struct att_group *g, struct att *t, const struct att_made *made,
	   struct ll_value *item, struct cg_nest *n)
{
	int64_t count = att_local(g, &made->type, made->pos_at);
	int64_t heads = att_local(g, &made->type, made->head_at);
	struct ll *l = t->l;
	struct ll_value *size;
	struct att_index i;
	uint32_t k;

	size = ll_i64(l, att_some((count + BOX_ROWS - 1) / BOX_ROWS));
	i.pos = att_mul(l, ll_bin(l, LL_REM, item, size), BOX_ROWS);
	item = ll_bin(l, LL_DIV, item, size);
	size = ll_i64(l, att_some(heads));
	i.head = ll_bin(l, LL_REM, item, size);
	att_batch(t, ll_bin(l, LL_DIV, item, size), &i);
	n->space = made->type;
	att_index_of(t, made, &i, n->from);
	for (k = 0; k < made->type.ndims; k++) {
		n->count[k] = k == made->col_at ? 0 : 1;
	}
	n->count[made->pos_at] = BOX_ROWS;
	n->live[made->pos_at] = att_min(l, ll_i64(l, BOX_ROWS),
		ll_bin(l, LL_SUB, ll_i64(l, count), i.pos));
}

static bool
follow(struct att_group *g, const struct att_after *after)
{
	struct cg_nest n = { 0 };
	struct att_made *made = NULL;
	struct att *t = NULL;
	struct ll_value *shared;
	struct ll_loop item;
	int64_t count;
	bool ok;

	first_of(g, after, &t, &made);
	count = att_local(g, &made->type, made->pos_at);
	count = (count + BOX_ROWS - 1) / BOX_ROWS;
	att_step(t, "attention_after",
		 t->batches * att_local(g, &made->type, made->head_at) *
		 count);
	shared = cg_cpu_shared(g->c, t->step);
	nodes_behind(g, after->from, &n);
	add_leaves(g, after, shared, &n);
	att_items(t, &item);
	open_block(g, t, made, item.i, &n);
	ok = cg_nest_box(g->c, g->out, t->step, &n, g->why);
	ll_loop_end(t->l, &item, NULL);
	att_step_end(t);
	return ok;
}

bool
att_finish(struct att_group *g)
{
	uint32_t i, r;

	for (i = 0; i < g->nsets; i++) {
		for (r = 0; r < ATT_NRESULTS; r++) {
			if (g->sets[i].made[r].value &&
			    is_apart(&g->sets[i], r)) {
				att_bring_home(g, &g->sets[i], r);
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
