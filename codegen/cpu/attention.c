/*
 * A kernel group of attention: first what its operands need, then steps that
 * make its results, then what follows these.
 *
 * Keys that lie on several ranks are brought together first, and what flows
 * back to them is summed up over the ranks: all that is larger than a block
 * of scores, and lies in shared room.
 */
#include "codegen/cpu/attention_group.h"

/* ---- steps ---- */

void
att_step(struct att *t, const char *what, int64_t items)
{
	uint32_t i;

	t->step = cg_cpu_step(t->c, t->out, what, items);
	t->own = 0;
	for (i = 0; i < ATT_NINPUTS + 2 * ATT_NRESULTS; i++) {
		struct att_view *v = i < ATT_NINPUTS ? &t->in[i]
			: i < ATT_NINPUTS + ATT_NRESULTS
			? &t->made[i - ATT_NINPUTS].memory
			: &t->made[i - ATT_NINPUTS - ATT_NRESULTS].room;

		if (v->place == ATT_OPERAND) {
			v->at = cg_cpu_at(t->c, t->step, v->operand);
		} else if (v->place == ATT_SHARED) {
			v->at = ll_plus_n(t->l,
					  cg_cpu_shared(t->c, t->step),
					  v->shared);
		}
	}
	for (i = 0; i < 4; i++) {
		t->pieces[i] = t->spread[i] == UINT32_MAX ? NULL
			: cg_cpu_pieces(t->c, t->step, t->spread[i]);
	}
}

void
att_step_end(struct att *t)
{
	ll_return(t->l, NULL);
	if (t->own > t->out->own_bytes) {
		t->out->own_bytes = t->own;
	}
}

void
att_items(struct att *t, struct ll_loop *item)
{
	ll_loop(t->l, item, ll_param(t->l, t->step, 2),
		ll_param(t->l, t->step, 3), 1, NULL, 0);
}

int64_t
att_own(struct att *t, int64_t floats)
{
	int64_t at = t->own;

	t->own += att_whole(4 * floats, 64);
	return at;
}

struct ll_value *
att_own_at(struct att *t, int64_t at)
{
	return ll_plus_n(t->l, ll_param(t->l, t->step, 1), at);
}

void
att_batch(struct att *t, struct ll_value *b, struct att_index *i)
{
	struct ll_value *size;
	uint32_t k;

	for (k = t->nbatch; k-- > 0; ) {
		size = ll_i64(t->l, att_some(t->batch_size[k]));
		i->batch[k] = ll_bin(t->l, LL_REM, b, size);
		b = ll_bin(t->l, LL_DIV, b, size);
	}
}

struct ll_value *
att_ptr(struct att *t, const struct att_view *v, const struct att_index *i)
{
	struct ll *l = t->l;
	int64_t bytes = v->elem == LL_F64 ? 8 : v->elem == LL_F32 ? 4 : 2;
	struct ll_value *at = ll_i64(l, v->offset);
	uint32_t k;

	for (k = 0; k < t->nbatch; k++) {
		at = att_add(l, at, att_mul(l, i->batch[k], v->batch[k]));
	}
	at = att_add(l, at, att_mul(l, i->head, v->head));
	at = att_add(l, at, att_mul(l, i->pos, v->pos));
	return att_at(l, v->at, at, bytes);
}

struct att_rows
att_rows_at(struct att *t, const struct att_view *v,
	    const struct att_index *i, struct ll_value *live, int64_t cols)
{
	return (struct att_rows){ .at = att_ptr(t, v, i), .elem = v->elem,
				  .row = v->pos, .col = v->col,
				  .live = live, .cols = cols };
}

/* ---- nodes ---- */

bool
att_has(const struct att_group *g, node_id n)
{
	uint32_t i;

	for (i = 0; i < g->k->nodes.n; i++) {
		if (g->k->nodes.at[i] == n) {
			return true;
		}
	}
	return false;
}

int64_t
att_shared(struct att_group *g, int64_t bytes)
{
	int64_t at = att_whole(g->out->shared_bytes, 64);

	g->out->shared_bytes = at + bytes;
	return at;
}

void
att_closure(struct att_group *g, value_id v, bool *in)
{
	node_id id = g->c->m->values.at[v].node;
	const struct ir_node *n = ir_node(g->c->m, id);
	uint32_t i;

	if (!id || ir_is(n->op, IRF_PAIRS)) {
		return;
	}
	for (i = 0; i < g->k->inputs.n; i++) {
		if (g->k->inputs.at[i].value == v) {
			return;
		}
	}
	for (i = 0; i < g->k->nodes.n; i++) {
		if (g->k->nodes.at[i] == id) {
			if (in[i]) {
				return;
			}
			in[i] = true;
		}
	}
	for (i = 0; i < n->nargs; i++) {
		att_closure(g, ir_args(g->c->m, n)[i], in);
	}
}

void
att_take(struct att_group *g, const bool *in, struct cg_nest *n)
{
	uint32_t i;

	n->k = g->k;
	for (i = 0; i < g->k->nodes.n; i++) {
		if (in[i]) {
			VEC_PUSH(g->c->a, &n->nodes, g->k->nodes.at[i]);
		}
	}
}

bool
att_is_output(const struct att_group *g, value_id v)
{
	uint32_t i;

	for (i = 0; v && i < g->k->outputs.n; i++) {
		if (g->k->outputs.at[i].value == v) {
			return true;
		}
	}
	return false;
}

/* ---- before: operands ---- */

/* Nodes that have nothing to do with attention's results, and write. */
static bool
beside(struct att_group *g)
{
	bool *in = arena_alloc(g->c->a, g->k->nodes.n + 1), any = false;
	struct cg_nest n = { 0 };
	uint32_t i, k;

	for (i = 0; i < g->k->nodes.n; i++) {
		const struct ir_node *node = ir_node(g->c->m,
						     g->k->nodes.at[i]);

		if (g->from[i] || ir_is(node->op, IRF_PAIRS) ||
		    !(ir_is(node->op, IRF_SINK) ||
		      att_is_output(g, node->result))) {
			continue;
		}
		any = in[i] = true;
		for (k = 0; k < node->nargs; k++) {
			att_closure(g, ir_args(g->c->m, node)[k], in);
		}
		n.space = *ir_type(g->c->m, node->nresults ? node->result
				   : ir_args(g->c->m, node)[0]);
	}
	if (!any) {
		return true;
	}
	att_take(g, in, &n);
	return cg_nest_steps(g->c, g->out, &n, g->why);
}

struct att_brought *
att_find_brought(struct att_group *g, value_id v, bool whole)
{
	uint32_t i;

	for (i = 0; i < g->brought.n; i++) {
		if (g->brought.at[i].value == v &&
		    g->brought.at[i].whole == whole) {
			return &g->brought.at[i];
		}
	}
	return NULL;
}

/* A value that nodes of the group make, in shared room. */
static bool
make_value(struct att_group *g, value_id v, int64_t *at)
{
	struct att_brought *had = att_find_brought(g, v, false);
	struct cg_nest n = { .space = *ir_type(g->c->m, v) };
	bool *in = arena_alloc(g->c->a, g->k->nodes.n + 1);
	struct att_brought made = { .value = v };
	struct kernel *like;

	if (had) {
		*at = had->at;
		return true;
	}
	att_closure(g, v, in);
	if (att_needs(g, v)) {
		*g->why = "attention of what the same kernel makes of "
			  "attention's results";
		return false;
	}
	att_take(g, in, &n);
	like = arena_dup(g->c->a, g->k, sizeof *like);
	like->shape = n.space;	/* its rows, not those of attention */
	n.k = like;
	if (!cg_nest_value(g->c, g->out, &n, v, at, g->why)) {
		return false;
	}
	made.at = *at;
	VEC_PUSH(g->c->a, &g->brought, made);
	return true;
}

/* Where a result of a set before this one is, or NULL. */
static const struct att_view *
made_before(const struct att_group *g, const struct att *t, value_id v)
{
	uint32_t i, r;

	for (i = 0; &g->sets[i] != t; i++) {
		for (r = 0; r < ATT_NRESULTS; r++) {
			if (g->sets[i].made[r].value == v &&
			    !g->folded[i]) {
				return &g->sets[i].made[r].room;
			}
		}
	}
	return NULL;
}

/* Whether the set that asks for an lse makes it by the way. */
static bool
lse_is_folded(const struct att_group *g, value_id v)
{
	uint32_t i;

	for (i = 0; i < g->nsets; i++) {
		if (g->folded[i] && g->sets[i].made[ATT_LSE].value == v) {
			return true;
		}
	}
	return false;
}

static bool
find_input(struct att_group *g, struct att *t, uint32_t i)
{
	bool keys = i == ATT_K || i == ATT_V;
	value_id v = t->values[i];
	const struct att_view *made;
	int64_t at;

	if (!v || (i == ATT_L && lse_is_folded(g, v))) {
		return true;
	}
	made = made_before(g, t, v);
	if (made) {
		att_view_shared(g, t, ir_type(g->c->m, v), 0, keys,
				made->shared, &t->in[i]);
		return true;
	}
	if (att_view_memory(g, t, v, keys, false, &t->in[i])) {
		return true;
	}
	if (*g->why || !make_value(g, v, &at)) {
		return false;
	}
	att_view_shared(g, t, ir_type(g->c->m, v), 0, keys, at, &t->in[i]);
	return true;
}

/* ---- all of it ---- */

/*
 * Whether the logs of the sums need no step: one set alone wants them, and
 * sees all keys of a query at once.
 */
static bool
is_folded(const struct att_group *g, uint32_t set)
{
	const struct att *t = &g->sets[set], *user = NULL;
	value_id lse = t->made[ATT_LSE].value;
	uint32_t i;

	if (!lse || t->made[ATT_OUT].value || att_is_output(g, lse)) {
		return false;
	}
	for (i = 0; i < g->after.n; i++) {
		if (g->after.at[i].from & att_bit(set, ATT_LSE)) {
			return false;
		}
	}
	for (i = 0; i < g->nsets; i++) {
		if (g->sets[i].values[ATT_L] != lse) {
			continue;
		}
		if (user) {
			return false;
		}
		user = &g->sets[i];
	}
	return user && att_keys_block(user->keys) >= user->keys &&
	       (user->made[ATT_DK].value || user->made[ATT_DV].value) &&
	       (!user->made[ATT_DQ].value || att_joint(user));
}

static bool
find_inputs(struct att_group *g, struct att *t)
{
	uint32_t i;

	for (i = 0; i < ATT_NINPUTS; i++) {
		if (!find_input(g, t, i)) {
			return false;
		}
	}
	for (i = ATT_K; t->axes && i <= ATT_V; i++) {
		if (t->values[i]) {
			att_gather(g, t, i);
		}
	}
	return true;
}

static bool
emit_set(struct att *t)
{
	bool keys = t->made[ATT_DK].value || t->made[ATT_DV].value;

	if (t->made[ATT_OUT].value || t->made[ATT_LSE].value) {
		return att_forward(t);
	}
	return (!keys || att_dkv(t)) &&
	       (!t->made[ATT_DQ].value || att_joint(t) || att_dq(t));
}

bool
cg_attention_steps(struct cg_cpu *c, struct cg_kernel *out,
		   const struct kernel *k, const char **why)
{
	struct att_group *g = arena_alloc(c->a, sizeof *g);
	uint32_t i;

	*g = (struct att_group){ .c = c, .out = out, .k = k, .why = why };
	*why = NULL;
	if (!att_find_sets(g)) {
		return false;
	}
	att_find_after(g);
	if (!beside(g)) {
		return false;
	}
	for (i = 0; i < g->nsets; i++) {
		g->folded[i] = is_folded(g, i);
		if (!g->folded[i] &&
		    (!att_place_results(g, i) ||
		     !find_inputs(g, &g->sets[i]) ||
		     !emit_set(&g->sets[i]))) {
			return false;
		}
	}
	return att_finish(g);
}
