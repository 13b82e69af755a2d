/*
 * A kernel group of attention, for any back end: first steps that make
 * operands, then the steps of each set, then what follows the results.
 *
 * If keys are sharded, they are gathered from all ranks first, and their
 * gradients are reduced over the ranks afterwards.  Gathered keys are larger
 * than any block, and lie in shared scratch.
 */
#include "codegen/attention/attention.h"

/* ---- nodes ---- */

/* ---- before: operands ---- */

/* Steps for nodes that write outputs which do not depend on attention's
 * results. */
static bool
emit_unrelated(struct attn_group *g)
{
	bool *in = arena_alloc(g->a, g->x->nodes.n + 1), any = false;
	struct attn_nest n = { 0 };
	uint32_t i, k;

	for (i = 0; i < g->x->nodes.n; i++) {
		const struct ir_node *node = ir_node(g->m,
						     g->x->nodes.at[i]);

		if (g->from[i] || ir_is(node->op, IRF_PAIRS) ||
		    !(ir_is(node->op, IRF_SINK) ||
		      kernel_makes(g->x, node->result))) {
			continue;
		}
		any = in[i] = true;
		for (k = 0; k < node->nargs; k++) {
			attn_mark_needed(g, ir_args(g->m, node)[k], in);
		}
		n.space = *ir_type(g->m, node->nresults ? node->result
				   : ir_args(g->m, node)[0]);
	}
	if (!any) {
		return true;
	}
	attn_add_marked(g, in, &n);
	return g->back->nest(g, &n);
}

/* Stores a value that nodes of the group compute in shared scratch. */
static bool
store_value(struct attn_group *g, value_id v, int64_t *at)
{
	struct attn_copy *had = attn_find_copy(g, v, false, IR_F32);
	struct attn_nest n = { .space = *ir_type(g->m, v) };
	bool *in = arena_alloc(g->a, g->x->nodes.n + 1);
	struct attn_copy made = { .value = v, .dtype = IR_F32 };
	struct kernel_work *work;
	struct kernel *like;

	if (had) {
		*at = had->at;
		return true;
	}
	attn_mark_needed(g, v, in);
	if (attn_results_in(g, v)) {
		g->why = "attention of what the same kernel makes of "
			 "attention's results";
		return false;
	}
	attn_add_marked(g, in, &n);
	like = arena_dup(g->a, g->x, sizeof *like);
	like->work = work = arena_dup(g->a, g->x->work, sizeof *work);
	/* its own rows, not those of attention */
	work->shape = arena_dup(g->a, &n.space, sizeof n.space);
	n.x = like;
	if (!g->back->nest_value(g, &n, v, at)) {
		return false;
	}
	made.at = *at;
	VEC_PUSH(g->a, &g->copies, made);
	return true;
}

/* The result of an earlier set, in shared scratch; or NULL. */
static const struct attn_view *
made_before(const struct attn_group *g, const struct attn *t, value_id v)
{
	uint32_t i, r;

	for (i = 0; &g->sets[i] != t; i++) {
		for (r = 0; r < ATTN_NRESULTS; r++) {
			if (g->sets[i].made[r].value == v && !g->folded[i]) {
				return &g->sets[i].made[r].scratch;
			}
		}
	}
	return NULL;
}

/* The set whose lse v is, if a set that reads it computes it along with its own
 * results; or NULL. */
static const struct attn *
folded_lse(const struct attn_group *g, value_id v)
{
	uint32_t i;

	for (i = 0; i < g->nsets; i++) {
		if (g->folded[i] && g->sets[i].made[ATTN_LSE].value == v) {
			return &g->sets[i];
		}
	}
	return NULL;
}

/* Converts an f32 input in shared scratch to the 16 bits that tiles have, so
 * that tiles are copied without conversion. */
static void
narrow_input(struct attn *t, uint32_t i)
{
	struct attn_group *g = t->g;
	const struct ir_type *type = ir_type(g->m, t->values[i]);
	bool keys = i == ATTN_K || i == ATTN_V;
	struct attn_view to;
	int64_t bytes;

	if (t->tile == IR_F32 || i > ATTN_G || (keys && t->axes)) {
		return;
	}
	bytes = ir_dtypes[t->tile].bits / 8 * attn_elems(g, type, 0);
	attn_view_shared(t, type, 0, keys, attn_alloc_shared(g, bytes), t->tile,
			 &to);
	g->back->copy(t, &t->in[i], &to, keys ? t->kv : t->heads,
		      keys ? t->keys : t->queries,
		      i == ATTN_Q || i == ATTN_K ? t->d : t->dv);
	t->in[i] = to;
}

static bool
find_input(struct attn *t, uint32_t i)
{
	struct attn_group *g = t->g;
	bool keys = i == ATTN_K || i == ATTN_V;
	value_id v = t->values[i];
	const struct attn *lse = i == ATTN_L ? folded_lse(g, v) : NULL;
	const struct attn_view *made;
	int64_t at = 0;

	if (lse) {
		t->values[ATTN_SINK] = lse->values[ATTN_SINK];
	}
	if (!v || lse) {
		return true;
	}
	made = made_before(g, t, v);
	if (!made && attn_view_memory(t, v, keys, false, &t->in[i])) {
		return true;
	}
	if (!g->why && !made && keys && !t->axes &&
	    attn_view_selected(t, v, &t->in[i])) {
		return true;
	}
	if (g->why || (!made && !store_value(g, v, &at))) {
		return false;
	}
	attn_view_shared(t, ir_type(g->m, v), 0, keys,
			 made ? made->shared : at, IR_F32, &t->in[i]);
	narrow_input(t, i);
	return true;
}

static bool
find_inputs(struct attn *t)
{
	uint32_t i;

	for (i = 0; i < ATTN_NINPUTS; i++) {
		if (!find_input(t, i)) {
			return false;
		}
	}
	for (i = ATTN_K; t->axes && i <= ATTN_V; i++) {
		if (t->values[i]) {
			attn_gather(t, i);
		}
	}
	return true;
}

/* ---- all of it ---- */

static bool
emit_set(struct attn_group *g, uint32_t set)
{
	struct attn *t = &g->sets[set];

	g->folded[set] = g->back->is_folded && g->back->is_folded(g, set);
	return g->folded[set] ||
	       (attn_place_results(t, set) && find_inputs(t) &&
		g->back->emit(t));
}

bool
attn_steps(struct attn_group *g)
{
	uint32_t i;

	if (!attn_find_sets(g)) {
		return false;
	}
	attn_find_after(g);
	for (i = 0; i < g->nsets; i++) {
		g->back->open(&g->sets[i]);
	}
	if (!emit_unrelated(g)) {
		return false;
	}
	for (i = 0; i < g->nsets; i++) {
		if (!emit_set(g, i)) {
			return false;
		}
	}
	return attn_emit_rest(g);
}
