/*
 * Which nodes of a group look at the same pairs of the same values (sets), the
 * sizes of each set, and which nodes need which of their results.
 */
#include "codegen/attention/attention.h"

#include <math.h>

/* What a node of each op makes, and which input each of its operands is. */
static const struct attn_op {
	enum ir_op op;
	enum attn_result result;
	uint8_t inputs[IR_MAX_OPERANDS];
} attn_ops[] = {
	{ IR_ATTENTION, ATTN_OUT, { ATTN_Q, ATTN_K, ATTN_V } },
	{ IR_ATTENTION_LSE, ATTN_LSE, { ATTN_Q, ATTN_K } },
	{ IR_ATTENTION_DQ, ATTN_DQ,
	  { ATTN_Q, ATTN_K, ATTN_V, ATTN_G, ATTN_L, ATTN_DELTA } },
	{ IR_ATTENTION_DK, ATTN_DK,
	  { ATTN_Q, ATTN_K, ATTN_V, ATTN_G, ATTN_L, ATTN_DELTA } },
	{ IR_ATTENTION_DV, ATTN_DV, { ATTN_Q, ATTN_K, ATTN_G, ATTN_L } },
	{ IR_ATTENTION_SINKS, ATTN_OUT,
	  { ATTN_Q, ATTN_K, ATTN_V, ATTN_SINK } },
	{ IR_ATTENTION_SINKS_LSE, ATTN_LSE, { ATTN_Q, ATTN_K, ATTN_SINK } },
	{ IR_ATTENTION_BETWEEN, ATTN_OUT,
	  { ATTN_Q, ATTN_K, ATTN_V, ATTN_FIRST, ATTN_LAST } },
	{ IR_ATTENTION_BETWEEN_LSE, ATTN_LSE,
	  { ATTN_Q, ATTN_K, ATTN_FIRST, ATTN_LAST } },
	{ IR_ATTENTION_BETWEEN_DQ, ATTN_DQ,
	  { ATTN_Q, ATTN_K, ATTN_V, ATTN_G, ATTN_L, ATTN_DELTA, ATTN_FIRST,
	    ATTN_LAST } },
	{ IR_ATTENTION_BETWEEN_DK, ATTN_DK,
	  { ATTN_Q, ATTN_K, ATTN_V, ATTN_G, ATTN_L, ATTN_DELTA, ATTN_FIRST,
	    ATTN_LAST } },
	{ IR_ATTENTION_BETWEEN_DV, ATTN_DV,
	  { ATTN_Q, ATTN_K, ATTN_G, ATTN_L, ATTN_FIRST, ATTN_LAST } },
	{ IR_ATTENTION_SINKS_BETWEEN, ATTN_OUT,
	  { ATTN_Q, ATTN_K, ATTN_V, ATTN_SINK, ATTN_FIRST, ATTN_LAST } },
	{ IR_ATTENTION_SINKS_BETWEEN_LSE, ATTN_LSE,
	  { ATTN_Q, ATTN_K, ATTN_SINK, ATTN_FIRST, ATTN_LAST } }
};

static const struct attn_op *
op_of(const struct ir_node *n)
{
	size_t i;

	for (i = 0; i < sizeof attn_ops / sizeof attn_ops[0]; i++) {
		if (attn_ops[i].op == (enum ir_op)n->op) {
			return &attn_ops[i];
		}
	}
	die("%s looks at pairs, and is unknown", ir_ops[n->op].name);
}

static bool
is_back(enum attn_result r)
{
	return r >= ATTN_DQ;
}

/* The node's operand that is this input, or 0. */
static value_id
operand_of(const struct attn_group *g, const struct ir_node *n,
	   enum attn_input input)
{
	const struct attn_op *op = op_of(n);
	uint32_t k;

	for (k = 0; k < n->nargs; k++) {
		if (op->inputs[k] == input) {
			return ir_args(g->m, n)[k];
		}
	}
	return 0;
}

/* ---- what a set is ---- */

static uint32_t
axes_of(const struct attn_group *g, const struct ir_node *n)
{
	const struct ir_attr *on = ir_attr(g->m, n, IR_ATTR_ON);
	uint32_t axes = 0;
	uint8_t i;

	for (i = 0; on && i < on->ndims; i++) {
		axes |= 1u << on->dims[i];
	}
	return axes;
}

/* Size on this rank of a dim of operand k, and its sharding. */
static int64_t
size_here(struct attn_group *g, const struct ir_node *n, uint32_t k, dim_id d,
	  uint32_t *cut)
{
	const struct ir_type *type =
		ir_type(g->m, ir_args(g->m, n)[k]);
	int i = ir_type_at(type, d);

	*cut = type->cut[i];
	return attn_local_size(g, type, (uint32_t)i);
}

static uint32_t
shard_of(struct attn_group *g, dim_id d, uint32_t cut)
{
	return cut ? cg_spread(g->a, g->out, ir_dim_size(g->m, d), cut)
		   : UINT32_MAX;
}

static bool
has_kv(const struct attn_group *g, const struct attn *t, uint32_t cut_h,
       uint32_t cut_kv)
{
	const struct ir_module *m = g->m;
	struct ir_pieces h, kv;
	int64_t i;

	ir_pieces(m, ir_dim_size(m, t->dim[ATTN_HEADS]), cut_h, g->at, &h);
	ir_pieces(m, ir_dim_size(m, t->dim[ATTN_KV]), cut_kv, g->at, &kv);
	for (i = 0; i < h.total; i++) {
		if (ir_pieces_find(&kv, ir_pieces_at(&h, i) / t->shared) < 0) {
			return false;
		}
	}
	return true;
}

/* If keys are gathered, the set has the keys of all ranks. */
static bool
all_keys(struct attn_group *g, struct attn *t, uint32_t *cut)
{
	uint32_t i;

	for (i = *cut; t->axes && i; i >>= 4) {
		if (!(t->axes >> (i & 15) & 1)) {
			g->why = "attention whose keys are sharded along an "
				 "axis without a collective";
			return false;
		}
	}
	if (t->axes) {
		*cut = 0;
		t->keys = ir_dim_size(g->m, t->dim[ATTN_KEYS]);
	}
	return true;
}

static bool
set_dims(struct attn_group *g, struct attn *t, const struct ir_node *n,
	 const struct ir_rule *r)
{
	static const char *const names[4] = { "s", "t", "h", "k" };
	static const uint8_t operand[4] = { 0, 1, 0, 1 };
	int64_t *const sizes[4] = { &t->queries, &t->keys, &t->heads, &t->kv };
	uint32_t cut[4], i;

	for (i = 0; i < 4; i++) {
		t->dim[i] = ir_rule_factor(r, names[i])->dims[0];
		*sizes[i] = size_here(g, n, operand[i], t->dim[i], &cut[i]);
	}
	t->shared = ir_dim_size(g->m, t->dim[ATTN_HEADS]) /
		    ir_dim_size(g->m, t->dim[ATTN_KV]);
	t->shift = ir_dim_size(g->m, t->dim[ATTN_KEYS]) -
		   ir_dim_size(g->m, t->dim[ATTN_QUERIES]);
	if (!all_keys(g, t, &cut[ATTN_KEYS])) {
		return false;
	}
	t->heads_together = cut[ATTN_HEADS] == cut[ATTN_KV] &&
			    !ir_is_balanced(g->m, cut[ATTN_HEADS]) &&
			    t->heads == t->kv * t->shared;
	if (!has_kv(g, t, cut[ATTN_HEADS], cut[ATTN_KV])) {
		g->why = "attention whose heads and kv heads are on "
			  "different ranks";
		return false;
	}
	if (operand_of(g, n, ATTN_FIRST) && !is_back(op_of(n)->result) &&
	    t->heads > 0 && ir_dim_size(g->m, t->dim[ATTN_KV]) == 1) {
		/* whichever heads a rank has, they share the one kv head; not
		 * so of its gradients, which ranks add up (`heads_apart` of
		 * t-attention-cpu) */
		t->shared = t->heads;
		t->heads_together = true;
	}
	for (i = 0; i < 4; i++) {
		t->spread[i] = shard_of(g, t->dim[i], cut[i]);
	}
	return true;
}

static bool
open_set(struct attn_group *g, struct attn *t, const struct ir_node *n)
{
	const struct ir_factor *f;
	uint32_t i, cut;
	struct ir_rule r;
	dim_id d;

	*t = (struct attn){ .g = g, .batches = 1 };
	t->axes = axes_of(g, n);
	ir_bind(g->m, n, &r);
	f = ir_rule_factor(&r, "B");
	t->nbatch = f->n;
	for (i = 0; i < f->n; i++) {
		t->batch[i] = f->dims[i];
		t->batch_size[i] = size_here(g, n, 0, f->dims[i], &cut);
		t->batches *= t->batch_size[i];
	}
	d = ir_rule_factor(&r, "d")->dims[0];
	t->d = size_here(g, n, 0, d, &cut);
	t->window = ir_attr_int(g->m, n, IR_ATTR_WINDOW, 0);
	t->causal = ir_attr(g->m, n, IR_ATTR_CAUSAL) != NULL;
	t->scale = ir_attr_num(g->m, n, IR_ATTR_SCALE,
			       1 / sqrt((double)ir_dim_size(g->m, d)));
	t->softcap = ir_attr_num(g->m, n, IR_ATTR_SOFTCAP, 0);
	t->alibi = ir_attr_num(g->m, n, IR_ATTR_ALIBI, 0);
	return set_dims(g, t, n, &r);
}

/* The size of a value's last dim, which an lse node does not have. */
static void
set_value_size(struct attn_group *g, struct attn *t, const struct ir_node *n,
	       enum attn_result r)
{
	const struct ir_factor *f;
	struct ir_rule rule;
	uint32_t cut;

	if (r == ATTN_LSE) {
		return;
	}
	ir_bind(g->m, n, &rule);
	f = ir_rule_factor(&rule, "v");
	t->dv = size_here(g, n, 2, f->dims[0], &cut);
}

static void
set_made(struct attn_group *g, struct attn *t, const struct ir_node *n,
	 enum attn_result r)
{
	struct attn_made *made = &t->made[r];
	bool keys = attn_is_keys(r);
	uint32_t i;

	made->value = n->result;
	made->type = *ir_type(g->m, n->result);
	for (i = 0; i < t->nbatch; i++) {
		made->batch_at[i] = (uint32_t)ir_type_at(&made->type,
							 t->batch[i]);
	}
	made->pos_at = (uint32_t)ir_type_at(&made->type,
		t->dim[keys ? ATTN_KEYS : ATTN_QUERIES]);
	made->head_at = (uint32_t)ir_type_at(&made->type,
		t->dim[keys ? ATTN_KV : ATTN_HEADS]);
	made->col_at = r == ATTN_LSE ? IR_MAX_DIMS : t->nbatch + 2;
}

/* ---- which set a node belongs to ---- */

static bool
belongs_to_set(struct attn_group *g, const struct attn *t,
	       const struct ir_node *n)
{
	const struct attn_op *op = op_of(n);
	bool back = t->made[ATTN_DQ].value || t->made[ATTN_DK].value ||
		    t->made[ATTN_DV].value;
	struct attn other;
	uint32_t k;

	if (back != is_back(op->result) || t->made[op->result].value) {
		return false;
	}
	/* having none is a difference, too */
	for (k = ATTN_SINK; k <= ATTN_LAST; k++) {
		if (t->values[k] != operand_of(g, n, k)) {
			return false;
		}
	}
	for (k = 0; k < n->nargs; k++) {
		value_id had = t->values[op->inputs[k]];

		if (had && had != ir_args(g->m, n)[k]) {
			return false;
		}
	}
	return open_set(g, &other, n) && other.axes == t->axes &&
	       other.causal == t->causal && other.window == t->window &&
	       other.scale == t->scale && other.softcap == t->softcap &&
	       other.alibi == t->alibi;
}

static bool
add_node(struct attn_group *g, const struct ir_node *n)
{
	const struct attn_op *op = op_of(n);
	uint32_t i, k;
	struct attn *t;

	for (i = 0; i < g->nsets && !belongs_to_set(g, &g->sets[i], n); i++) {
	}
	t = &g->sets[i];
	if (i == g->nsets) {
		if (g->nsets == ATTN_SETS) {
			g->why = "a kernel of too many attentions";
			return false;
		}
		if (!open_set(g, t, n)) {
			return false;
		}
		g->nsets++;
	}
	for (k = 0; k < n->nargs; k++) {
		t->values[op->inputs[k]] = ir_args(g->m, n)[k];
	}
	set_value_size(g, t, n, op->result);
	set_made(g, t, n, op->result);
	return true;
}

bool
attn_find_sets(struct attn_group *g)
{
	uint32_t i;

	for (i = 0; i < g->x->nodes.n; i++) {
		const struct ir_node *n = ir_node(g->m, g->x->nodes.at[i]);

		if (ir_is(n->op, IRF_PAIRS) && !add_node(g, n)) {
			return false;
		}
	}
	return true;
}

/* ---- what follows ---- */

static attn_bits
made_by(const struct attn_group *g, value_id v)
{
	uint32_t i, r;

	for (i = 0; i < g->nsets; i++) {
		for (r = 0; r < ATTN_NRESULTS; r++) {
			if (g->sets[i].made[r].value == v) {
				return attn_bit(i, r);
			}
		}
	}
	return 0;
}

attn_bits
attn_results_in(const struct attn_group *g, value_id v)
{
	node_id id = g->m->values.at[v].node;
	const struct ir_node *n = ir_node(g->m, id);
	attn_bits bits = made_by(g, v);
	uint32_t i;

	if (bits || !id) {
		return bits;
	}
	for (i = 0; i < g->x->nodes.n; i++) {
		if (g->x->nodes.at[i] == id) {
			return g->from[i];
		}
	}
	if (kernel_reads(g->x, v)) {
		return 0;
	}
	for (i = 0; i < n->nargs; i++) {
		bits |= attn_results_in(g, ir_args(g->m, n)[i]);
	}
	return bits;
}

/* Merges groups of results that one node needs, so that it runs once for all of
 * them. */
static void
merge_after(struct attn_group *g, attn_bits from)
{
	uint32_t i, at = 0;

	for (i = 0; i < g->after.n; i++) {
		if (g->after.at[i].from & from) {
			from |= g->after.at[i].from;
		} else {
			g->after.at[at++] = g->after.at[i];
		}
	}
	g->after.n = at;
	VEC_PUSH(g->a, &g->after, ((struct attn_after){ .from = from }));
}

void
attn_find_after(struct attn_group *g)
{
	uint32_t i, k;

	g->from = arena_alloc(g->a, (g->x->nodes.n + 1) * sizeof *g->from);
	for (i = 0; i < g->x->nodes.n; i++) {
		const struct ir_node *n = ir_node(g->m, g->x->nodes.at[i]);

		if (ir_is(n->op, IRF_PAIRS)) {
			continue;
		}
		for (k = 0; k < n->nargs; k++) {
			g->from[i] |= attn_results_in(g, ir_args(g->m, n)[k]);
		}
		if (g->from[i]) {
			merge_after(g, g->from[i]);
		}
	}
}

/* ---- nodes around attention ---- */

void
attn_mark_needed(struct attn_group *g, value_id v, bool *in)
{
	node_id id = g->m->values.at[v].node;
	const struct ir_node *n = ir_node(g->m, id);
	uint32_t i;

	if (!id || ir_is(n->op, IRF_PAIRS) || kernel_reads(g->x, v)) {
		return;
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
		attn_mark_needed(g, ir_args(g->m, n)[i], in);
	}
}

void
attn_add_marked(struct attn_group *g, const bool *in, struct attn_nest *n)
{
	uint32_t i;

	n->x = g->x;
	for (i = 0; i < g->x->nodes.n; i++) {
		if (in[i]) {
			VEC_PUSH(g->a, &n->nodes, g->x->nodes.at[i]);
		}
	}
}
