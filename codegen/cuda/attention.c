/*
 * A kernel group of attention: first what its operands need, then steps that
 * make its results, then what follows these.
 *
 * Keys that lie on several ranks are brought together first, and what flows
 * back to them is summed up over the ranks: all that lies in shared room.
 */
#include "codegen/cuda/attention.h"

/* ---- nodes ---- */

int64_t
ca_shared(struct ca_group *g, int64_t bytes)
{
	int64_t at = ca_whole(g->k->out->shared_bytes, 256);

	g->k->out->shared_bytes = at + bytes;
	return at;
}

void
ca_closure(struct ca_group *g, value_id v, bool *in)
{
	node_id id = g->k->c->m->values.at[v].node;
	const struct ir_node *n = ir_node(g->k->c->m, id);
	uint32_t i;

	if (!id || ir_is(n->op, IRF_PAIRS)) {
		return;
	}
	for (i = 0; i < g->x->inputs.n; i++) {
		if (g->x->inputs.at[i].value == v) {
			return;
		}
	}
	for (i = 0; i < g->x->nodes.n; i++) {
		if (g->x->nodes.at[i] == id) {
			if (in[i]) {
				return;
			}
			in[i] = true;
		}
	}
	for (i = 0; i < n->nargs; i++) {
		ca_closure(g, ir_args(g->k->c->m, n)[i], in);
	}
}

void
ca_take(struct ca_group *g, const bool *in, struct cu_nest *n)
{
	uint32_t i;

	n->k = g->x;
	for (i = 0; i < g->x->nodes.n; i++) {
		if (in[i]) {
			VEC_PUSH(g->k->c->a, &n->nodes, g->x->nodes.at[i]);
		}
	}
}

bool
ca_is_output(const struct ca_group *g, value_id v)
{
	uint32_t i;

	for (i = 0; v && i < g->x->outputs.n; i++) {
		if (g->x->outputs.at[i].value == v) {
			return true;
		}
	}
	return false;
}

/* ---- before: operands ---- */

/* Nodes that have nothing to do with attention's results, and write. */
static bool
beside(struct ca_group *g)
{
	const struct ir_module *m = g->k->c->m;
	bool *in = arena_alloc(g->k->c->a, g->x->nodes.n + 1), any = false;
	struct cu_nest n = { 0 };
	uint32_t i, k;

	for (i = 0; i < g->x->nodes.n; i++) {
		const struct ir_node *node = ir_node(m, g->x->nodes.at[i]);

		if (g->from[i] || ir_is(node->op, IRF_PAIRS) ||
		    !(ir_is(node->op, IRF_SINK) ||
		      ca_is_output(g, node->result))) {
			continue;
		}
		any = in[i] = true;
		for (k = 0; k < node->nargs; k++) {
			ca_closure(g, ir_args(m, node)[k], in);
		}
		n.space = *ir_type(m, node->nresults ? node->result
						     : ir_args(m, node)[0]);
	}
	if (!any) {
		return true;
	}
	ca_take(g, in, &n);
	return cu_nest_steps(g->k, &n);
}

struct ca_brought *
ca_find_brought(struct ca_group *g, value_id v, bool whole)
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
make_value(struct ca_group *g, value_id v, int64_t *at)
{
	struct ca_brought *had = ca_find_brought(g, v, false);
	struct cu_nest n = { .space = *ir_type(g->k->c->m, v) };
	bool *in = arena_alloc(g->k->c->a, g->x->nodes.n + 1);
	struct ca_brought made = { .value = v, .dtype = IR_F32 };
	struct kernel *like;

	if (had) {
		*at = had->at;
		return true;
	}
	ca_closure(g, v, in);
	if (ca_needs(g, v)) {
		g->k->why = "attention of what the same kernel makes of "
			    "attention's results";
		return false;
	}
	ca_take(g, in, &n);
	like = arena_dup(g->k->c->a, g->x, sizeof *like);
	like->shape = n.space;	/* its rows, not those of attention */
	n.k = like;
	if (!cu_nest_value(g->k, &n, v, at)) {
		return false;
	}
	made.at = *at;
	VEC_PUSH(g->k->c->a, &g->brought, made);
	return true;
}

/* Where a result of a set before this one is, or NULL. */
static const struct ca_view *
made_before(const struct ca_group *g, const struct ca *t, value_id v)
{
	uint32_t i, r;

	for (i = 0; &g->sets[i] != t; i++) {
		for (r = 0; r < CA_NRESULTS; r++) {
			if (g->sets[i].made[r].value == v) {
				return &g->sets[i].made[r].room;
			}
		}
	}
	return NULL;
}

/* Of 16 bits again, what is f32 in shared room: tiles are copied as they
 * lie, without a thread that computes. */
static void
narrow(struct ca *t, uint32_t i)
{
	struct ca_group *g = t->g;
	const struct ir_type *type = ir_type(g->k->c->m, t->values[i]);
	bool keys = i == CA_K || i == CA_V;
	struct ca_view to;

	if (t->tile == IR_F32 || i > CA_G || (keys && t->axes)) {
		return;
	}
	ca_view_shared(g, t, type, 0, keys,
		       ca_shared(g, cu_bytes(t->tile) *
				    ca_elems(g, type, 0)), t->tile, &to);
	ca_copy(t, &t->in[i], &to, keys ? t->kv : t->heads,
		keys ? t->keys : t->queries,
		i == CA_Q || i == CA_K ? t->d : t->dv);
	t->in[i] = to;
}

static bool
find_input(struct ca *t, uint32_t i)
{
	struct ca_group *g = t->g;
	bool keys = i == CA_K || i == CA_V;
	value_id v = t->values[i];
	const struct ca_view *made;
	int64_t at;

	if (!v) {
		return true;
	}
	made = made_before(g, t, v);
	if (!made && ca_view_memory(g, t, v, keys, false, &t->in[i])) {
		return true;
	}
	if (!made && !make_value(g, v, &at)) {
		return false;
	}
	ca_view_shared(g, t, ir_type(g->k->c->m, v), 0, keys,
		       made ? made->shared : at, IR_F32, &t->in[i]);
	narrow(t, i);
	return true;
}

/* Products of 16 bits, if all that is multiplied is so. */
static void
choose_tile(struct ca *t)
{
	const struct ir_module *m = t->k->c->m;
	uint32_t i;

	t->tile = (enum ir_dtype)ir_type(m, t->values[CA_Q])->dtype;
	for (i = CA_K; i <= CA_G; i++) {
		if (t->values[i] &&
		    ir_type(m, t->values[i])->dtype != t->tile) {
			t->tile = IR_F32;
		}
	}
	if (t->tile != IR_BF16 && t->tile != IR_F16) {
		t->tile = IR_F32;
	}
}

static bool
find_inputs(struct ca *t)
{
	uint32_t i;

	for (i = 0; i < CA_NINPUTS; i++) {
		if (!find_input(t, i)) {
			return false;
		}
	}
	for (i = CA_K; t->axes && i <= CA_V; i++) {
		if (t->values[i]) {
			ca_gather(t, i);
		}
	}
	return true;
}

/* ---- all of it ---- */

static bool
emit_set(struct ca *t, uint32_t set)
{
	bool back = t->made[CA_DQ].value || t->made[CA_DK].value ||
		    t->made[CA_DV].value;

	choose_tile(t);
	return ca_place_results(t, set, back ? ca_back_is_whole(t)
					     : ca_forward_is_whole(t)) &&
	       find_inputs(t) && (back ? ca_back(t) : ca_forward(t));
}

bool
cu_attention_steps(struct cu_kernel *k, const struct kernel *x)
{
	struct ca_group *g = arena_alloc(k->c->a, sizeof *g);
	uint32_t i;

	*g = (struct ca_group){ .k = k, .x = x };
	if (!ca_find_sets(g)) {
		return false;
	}
	ca_find_after(g);
	if (!beside(g)) {
		return false;
	}
	for (i = 0; i < g->nsets; i++) {
		if (!emit_set(&g->sets[i], i)) {
			return false;
		}
	}
	if (!ca_finish(g)) {
		return false;
	}
	ca_helpers(k);
	return true;
}
