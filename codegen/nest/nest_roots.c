/*
 * What a nest stores: a root for each value and each sink of the kernel's
 * nodes, in the first stage in which it can be computed and no other root reads
 * any more what it replaces.
 */
#include "codegen/nest/nest.h"

#include <string.h>

/* ---- one root for each result ---- */

static bool
covers(const struct ir_type *t, const struct ir_type *rows)
{
	uint32_t i;

	for (i = 0; i < rows->ndims; i++) {
		int k = ir_type_at(t, rows->dims[i]);

		if (k < 0 || t->cut[k] != rows->cut[i]) {
			return false;
		}
	}
	return true;
}

static void
set_rows(struct nest *n, const struct ir_type *t, struct nest_root *root)
{
	const struct kernel *k = n->in.k;
	uint32_t all[NEST_LOOPS], count = nest_type_loops(n, t, all), i;

	if (!n->in.box && k->kind == KERNEL_ROWWISE &&
	    covers(t, k->work->shape)) {
		root->nrows = nest_type_loops(n, k->work->shape, root->rows);
	} else {
		root->nrows = count;
		memcpy(root->rows, all, sizeof all);
	}
	for (i = 0; i < root->nrows; i++) {
		root->row_mask |= (uint64_t)1 << root->rows[i];
	}
	for (i = 0; i < count; i++) {
		if (!(root->row_mask >> all[i] & 1)) {
			root->inner[root->ninner++] = all[i];
		}
	}
}

nest_id
nest_has_old(struct nest *n, node_id sink)
{
	return nest_make(n, (struct nest_expr){
		.op = NEST_CALL, .kind = NEST_INT,
		.ref = n->in.number(n->in.user, NEST_N_OLD, sink) });
}

static bool
add_root(struct nest *n, value_id v, node_id sink)
{
	const struct ir_type *t = ir_type(n->in.m, v);
	struct nest_root root = { 0 };
	struct nest_memory m = { .where = NEST_OPERAND, .dtype = t->dtype,
				 .written = true, .value = sink ? 0 : v,
				 .sink = sink };
	nest_id at[IR_MAX_DIMS];
	uint32_t i;

	set_rows(n, t, &root);
	n->rows = root.row_mask;
	for (i = 0; i < t->ndims; i++) {
		at[i] = nest_dim_of(n, t->dims[i], t->cut[i])->index;
	}
	root.value = nest_pull(n, v, at);
	if (!root.value) {
		return false;
	}
	if (sink) {
		root.add = ir_node(n->in.m, sink)->op == IR_ACCUMULATE;
		root.old = root.add ? nest_has_old(n, sink) : 0;
	} else if (v == n->in.only) {
		struct nest_temp temp = { 0 };

		temp.elems = 1;
		temp.stage = nest_at(n, root.value)->stage;
		for (i = 0; i < t->ndims; i++) {
			temp.elems *= nest_local_size(n, t->dims[i], t->cut[i]);
		}
		m = (struct nest_memory){ .where = NEST_TEMP,
			.dtype = IR_F32, .written = true, .i = n->temps.n };
		VEC_PUSH(n->in.a, &n->temps, temp);
	}
	root.memory = nest_add_memory(n, m);
	root.place = nest_offset(n, m.where == NEST_OPERAND ? m.value : 0, t,
				 at);
	root.stage = nest_at(n, root.value)->stage;
	VEC_PUSH(n->in.a, &n->roots, root);
	return true;
}

static bool
add_roots(struct nest *n)
{
	const struct kernel *k = n->in.k;
	uint32_t i;

	if (n->in.only) {
		return add_root(n, n->in.only, 0);
	}
	for (i = 0; i < k->outputs.n; i++) {
		value_id v = k->outputs.at[i].value;

		if (nest_has_node(n, n->in.m->values.at[v].node) &&
		    !add_root(n, v, 0)) {
			return false;
		}
	}
	for (i = 0; i < n->in.nnodes; i++) {
		const struct ir_node *x = ir_node(n->in.m, n->in.nodes[i]);

		if (ir_is(x->op, IRF_SINK) && !ir_is(x->op, IRF_STASH) &&
		    !add_root(n, ir_args(n->in.m, x)[0],
				   n->in.nodes[i])) {
			return false;
		}
	}
	return true;
}

/* ---- tensors that the kernel reads and replaces ---- */

/* Marks memories from which the tensor that the root replaces is read. */
static bool
find_replaced(const struct nest *n, const struct nest_root *r, uint8_t *old)
{
	const struct ir_module *m = n->in.m;
	node_id sink = n->memory.at[r->memory].sink;
	const struct ir_attr *name = sink && !r->add
		? ir_attr(m, ir_node(m, sink), IR_ATTR_NAME) : NULL;
	bool any = false;
	uint32_t i;

	for (i = 0; i < n->memory.n; i++) {
		const struct nest_memory *x = &n->memory.at[i];
		node_id id = x->where == NEST_OPERAND && x->value
			? m->values.at[x->value].node : 0;
		const struct ir_node *source = ir_node(m, id);

		old[i] = name && id && ir_is(source->op, IRF_STORED) &&
			 ir_attr(m, source, IR_ATTR_NAME)->text == name->text;
		any |= old[i];
	}
	return any;
}

/* Whether e loads old values; *elsewhere: not only of the element `place`. */
static bool
loads(const struct nest *n, nest_id id, const uint8_t *old, nest_id place,
      uint8_t *seen, bool *elsewhere)
{
	const struct nest_expr *e = nest_at(n, id);
	bool any;

	if (!id || seen[id]) {
		return false;
	}
	seen[id] = 1;
	any = e->op == NEST_LOAD && old[e->ref];
	*elsewhere |= any && e->a != place;
	any |= loads(n, e->a, old, place, seen, elsewhere);
	any |= loads(n, e->b, old, place, seen, elsewhere);
	return loads(n, e->c, old, place, seen, elsewhere) || any;
}

/*
 * Lets root k wait for what other roots read of the tensor that it replaces.
 * In a step over the same rows a later pass is enough where they read the
 * element that is stored; else a later stage.  True: something changed.
 */
static bool
wait_for_readers(struct nest *n, uint32_t k, const uint8_t *old,
		 uint8_t *seen)
{
	struct nest_root *r = &n->roots.at[k];
	struct nest_root was = *r;
	uint32_t i;

	for (i = 0; i < n->roots.n; i++) {
		const struct nest_root *q = &n->roots.at[i];
		bool apart = q->row_mask != r->row_mask;

		if (i == k || q->stage < r->stage) {
			continue;
		}
		memset(seen, 0, n->exprs.n);
		if (!loads(n, q->value, old, r->place, seen, &apart)) {
			continue;
		}
		if (apart || q->stage > r->stage) {
			r->stage = q->stage + apart;
			r->rank = was.rank;
		}
		if (q->stage == r->stage && q->rank > r->rank) {
			r->rank = q->rank;
		}
	}
	return r->stage != was.stage || r->rank != was.rank;
}

/*
 * What replaces a tensor, as a step replaces states, is stored after all reads
 * of the old value, also of results that are computed again in a later pass.
 * False: each of two tensors is replaced after reads of the other, so that no
 * order is left.  Without such a circle, each round settles one root at least.
 */
static bool
delay_stores(struct nest *n)
{
	uint8_t *old = arena_alloc(n->in.a, n->memory.n + 1);
	uint8_t *seen = arena_alloc(n->in.a, n->exprs.n);
	uint32_t i, rounds = n->roots.n + 1;
	bool changed = true;

	for (i = 0; i < n->roots.n; i++) {
		n->roots.at[i].rank = nest_at(n, n->roots.at[i].value)->rank;
	}
	while (changed && rounds-- > 0) {
		changed = false;
		for (i = 0; i < n->roots.n; i++) {
			changed |= find_replaced(n, &n->roots.at[i], old) &&
				   wait_for_readers(n, i, old, seen);
		}
	}
	return !changed;
}

bool
nest_build(struct nest *n, const struct nest_input *in, const char **why)
{
	struct nest_expr none = { 0 };

	memset(n, 0, sizeof *n);
	n->in = *in;
	n->value_at = nest_pull;
	n->wide = !in->box && in->k->kind == KERNEL_MAP &&
		  in->k->work->shape->ndims == 0;
	VEC_PUSH(in->a, &n->exprs, none);
	if (!in->bare && !add_roots(n)) {
		*why = n->why ? n->why : "no kernel can do this";
		return false;
	}
	if (!delay_stores(n)) {
		*why = "each of two tensors is replaced after reads of the "
		       "other";
		return false;
	}
	return true;
}
