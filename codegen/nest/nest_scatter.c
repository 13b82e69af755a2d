/*
 * Sums of rows by index, as in the gradient of an embedding: what is added,
 * and to which place.  How the rows of one place are found is the back end's
 * own.
 */
#include "codegen/nest/nest.h"

/* most places for which testing all rows at each place is as good */
#define SHORT 64

bool
nest_is_scatter(struct ir_module *m, const node_id *nodes, uint32_t nnodes)
{
	const struct ir_node *n;
	struct ir_rule r;
	uint32_t i;

	if (nnodes == 0) {
		return false;
	}
	n = ir_node(m, nodes[0]);
	if (n->op != IR_SCATTER) {
		return ir_is(n->op, IRF_KEEPS);
	}
	for (i = 1; i < nnodes; i++) {
		const struct ir_node *sink = ir_node(m, nodes[i]);

		if (!ir_is(sink->op, IRF_SINK) ||
		    ir_args(m, sink)[0] != n->result) {
			return false;
		}
	}
	ir_bind(m, n, &r);
	return ir_rule_factor(&r, "A")->n == 0 &&
	       ir_rule_factor(&r, "N")->n > 0 &&
	       ir_dim_size(m, ir_rule_factor(&r, "of")->dims[0]) > SHORT;
}

static nest_id
index_of(struct nest *n, uint32_t loop)
{
	return nest_make(n, (struct nest_expr){
		.op = NEST_LOOP, .kind = NEST_INT, .i = loop });
}

/* One loop counts the rows, over all of their dims. */
static void
bind_rows(struct nest_scatter *s, const struct ir_factor *over,
	  const struct ir_type *t, struct nest_env *env)
{
	struct nest *n = s->n;
	int64_t stride = 1, size;
	uint32_t i;

	s->rows = 1;
	for (i = 0; i < over->n; i++) {
		s->rows *= nest_local_size(n, over->dims[i],
			t->cut[ir_type_at(t, over->dims[i])]);
	}
	s->row = nest_add_loop(n, s->rows, -1);
	for (i = over->n; i-- > 0; ) {
		nest_id at = index_of(n, s->row);

		size = nest_local_size(n, over->dims[i],
				       t->cut[ir_type_at(t, over->dims[i])]);
		at = nest_binary(n, NEST_DIV, at, nest_int(n, stride));
		if (i > 0) {
			at = nest_binary(n, NEST_REM, at, nest_int(n, size));
		}
		nest_env_bind(env, over->dims[i], at);
		stride *= size > 0 ? size : 1;
	}
}

static void
bind_columns(struct nest_scatter *s, dim_id of, struct nest_env *env)
{
	struct nest *n = s->n;
	const struct ir_type *t = ir_type(n->in.m, s->node->result);
	uint32_t i, k;

	s->cols = 1;
	for (i = 0; i < t->ndims; i++) {
		struct nest_dim d = *nest_dim_of(n, t->dims[i], t->cut[i]);

		nest_env_bind(env, t->dims[i], d.index);
		if (t->dims[i] == of) {
			s->places = nest_local_size(n, of, t->cut[i]);
			s->place = d.loop[0];
			continue;
		}
		s->cols *= nest_local_size(n, t->dims[i], t->cut[i]);
		for (k = 0; k < d.n; k++) {
			s->col[s->ncols++] = d.loop[k];
		}
	}
}

static void
add_root(struct nest_scatter *s, node_id sink, bool stores,
	 const struct nest_env *env)
{
	struct nest *n = s->n;
	value_id v = s->node->result;
	const struct ir_type *t = ir_type(n->in.m, v);
	struct nest_memory m = { .where = NEST_OPERAND, .dtype = t->dtype,
		.written = true, .value = sink ? 0 : v, .sink = sink };
	struct nest_root root = { 0 };
	nest_id at[IR_MAX_DIMS];
	uint32_t i, k;

	for (i = 0; i < t->ndims; i++) {
		for (k = 0; env->dim[k] != t->dims[i]; k++) {
		}
		at[i] = env->at[k];
	}
	root.add = sink && ir_node(n->in.m, sink)->op == IR_ACCUMULATE;
	root.old = root.add && stores ? nest_has_old(n, sink) : 0;
	root.memory = nest_add_memory(n, m);
	root.place = nest_offset(n, m.value, t, at);
	s->all |= !root.add && !ir_is(s->node->op, IRF_KEEPS);
	VEC_PUSH(n->in.a, &n->roots, root);
}

bool
nest_find_scatter(struct nest *n, bool stores, struct nest_scatter *s)
{
	const struct ir_node *node = ir_node(n->in.m, n->in.nodes[0]);
	const struct ir_type *t = ir_type(n->in.m,
					  ir_args(n->in.m, node)[1]);
	const struct ir_type *out = ir_type(n->in.m, node->result);
	const struct kernel *k = n->in.k;
	struct nest_env env = { 0 };
	struct ir_rule r;
	uint32_t i;
	dim_id of;

	*s = (struct nest_scatter){ .n = n, .node = node };
	ir_bind(n->in.m, node, &r);
	of = ir_rule_factor(&r, "of")->dims[0];
	bind_columns(s, of, &env);
	bind_rows(s, ir_rule_factor(&r, "over"), t, &env);
	s->x = nest_operand(n, node, 0, &env);
	s->to = nest_place(n, of, out->cut[ir_type_at(out, of)],
			   nest_operand(n, node, 1, &env));
	for (i = 0; i < k->outputs.n; i++) {
		if (k->outputs.at[i].value == node->result) {
			add_root(s, 0, stores, &env);
		}
	}
	for (i = 1; i < n->in.nnodes; i++) {
		add_root(s, n->in.nodes[i], stores, &env);
	}
	return s->x && s->to;
}
