/*
 * Building and changing functions: parameters, nodes and uses.  Every array is
 * append-only, so that ids stay valid; a pass removes a node by removing it
 * from its region's list.
 */
#include "ir/ir.h"

#include <string.h>

value_id
ir_param_add(struct ir_module *m, region_id r, const struct ir_type *type,
	     sym_t hint)
{
	struct ir_value v = { .hint = hint, .region = r };
	struct arena *a = &m->ctx->perm;

	v.type = ir_type_keep(m->ctx, type);
	v.index = m->regions.at[r].params.n;
	VEC_PUSH(a, &m->values, v);
	VEC_PUSH(a, &m->regions.at[r].params, m->values.n - 1);
	return m->values.n - 1;
}

/* ---- nodes ---- */

void
ir_new_init(struct ir_new *n, enum ir_op op, struct span span)
{
	/* most of its 8 KiB is for the results that few nodes have */
	memset(n->types, 0, sizeof n->types[0]);
	n->op = op;
	n->nargs = n->nattrs = 0;
	n->nresults = 1;
	n->region = 0;
	n->callee = 0;
	n->hint = 0;
	n->span = span;
}

void
ir_new_arg(struct ir_new *n, value_id v)
{
	if (n->nargs == IR_MAX_ARGS) {
		die("more than %d operands", IR_MAX_ARGS);
	}
	n->args[n->nargs++] = v;
}

struct ir_attr *
ir_new_attr(struct ir_new *n, enum ir_attr_key key)
{
	struct ir_attr *a;

	if (n->nattrs == IR_NATTRS) {
		die("more than %d attributes", IR_NATTRS);
	}
	a = &n->attrs[n->nattrs++];
	memset(a, 0, sizeof *a);
	a->key = (uint8_t)key;
	if (ir_attrs[key].kind == ATTR_FLAG) {
		a->i = 1;
	}
	return a;
}

void
ir_new_dim(struct ir_new *n, enum ir_attr_key key, dim_id d)
{
	struct ir_attr *a = NULL;
	uint32_t i;

	for (i = 0; i < n->nattrs; i++) {
		if (n->attrs[i].key == key) {
			a = &n->attrs[i];
		}
	}
	a = a ? a : ir_new_attr(n, key);
	if (a->ndims == IR_MAX_DIMS) {
		die("more than %d dims", IR_MAX_DIMS);
	}
	a->dims[a->ndims++] = d;
}

void
ir_new_int(struct ir_new *n, enum ir_attr_key key, int64_t v)
{
	ir_new_attr(n, key)->i = v;
}

void
ir_new_num(struct ir_new *n, enum ir_attr_key key, double v)
{
	ir_new_attr(n, key)->num = v;
}

void
ir_new_text(struct ir_new *n, enum ir_attr_key key, sym_t s)
{
	ir_new_attr(n, key)->text = s;
}

/* The index of the attribute in its op's row: the printing order. */
static size_t
attr_place(enum ir_op op, enum ir_attr_key key)
{
	const char *p = ir_ops[op].attrs, *name = ir_attrs[key].name;
	size_t n = strlen(name), i;

	for (i = 0; p[i]; i += strspn(p + i, " ?")) {
		size_t k = strcspn(p + i, " ?");

		if (k == n && strncmp(p + i, name, n) == 0) {
			return i;
		}
		i += k;
	}
	return i + (size_t)key;
}

static void
sort_attrs(struct ir_new *n)
{
	uint32_t i, j;

	for (i = 1; i < n->nattrs; i++) {
		struct ir_attr a = n->attrs[i];

		for (j = i; j > 0 && attr_place(n->op, n->attrs[j - 1].key) >
				     attr_place(n->op, a.key); j--) {
			n->attrs[j] = n->attrs[j - 1];
		}
		n->attrs[j] = a;
	}
}

static value_id
push_node(struct ir_module *m, region_id r, const struct ir_new *n)
{
	struct arena *a = &m->ctx->perm;
	struct ir_node node = { 0 };
	node_id id = m->nodes.n;
	uint32_t i;

	node.op = (uint16_t)n->op;
	node.nargs = (uint16_t)n->nargs;
	node.nattrs = (uint16_t)n->nattrs;
	node.nresults = (uint16_t)n->nresults;
	node.args = m->args.n;
	node.attrs = m->attrs.n;
	node.result = n->nresults ? m->values.n : 0;
	node.region = n->region;
	node.callee = n->callee;
	node.span = n->span;
	for (i = 0; i < n->nargs; i++) {
		VEC_PUSH(a, &m->args, n->args[i]);
	}
	for (i = 0; i < n->nattrs; i++) {
		VEC_PUSH(a, &m->attrs, n->attrs[i]);
	}
	for (i = 0; i < n->nresults; i++) {
		struct ir_value v = { .node = id, .index = i };

		v.type = ir_type_keep(m->ctx, &n->types[i]);
		v.hint = i == 0 ? n->hint : 0;
		VEC_PUSH(a, &m->values, v);
	}
	VEC_PUSH(a, &m->nodes, node);
	VEC_PUSH(a, &m->regions.at[r].nodes, id);
	if (n->region) {
		m->regions.at[n->region].owner = id;
	}
	return node.result;
}

static bool
infer_new(struct ir_module *m, struct ir_new *n, const char **why)
{
	const struct ir_type *types[IR_MAX_ARGS];
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		types[i] = ir_type(m, n->args[i]);
	}
	if (!ir_infer(m, n->op, types, n->nargs, n->attrs, n->nattrs,
		      &n->types[0], why)) {
		return false;
	}
	sort_attrs(n);
	return true;
}

value_id
ir_append(struct ir_module *m, region_id r, struct ir_new *n,
	  const char **why)
{
	if (ir_is(n->op, IRF_SINK)) {
		*why = arena_printf(&m->ctx->tmp, "%s has no result",
				    ir_ops[n->op].name);
		return 0;
	}
	return infer_new(m, n, why) ? push_node(m, r, n) : 0;
}

bool
ir_append_sink(struct ir_module *m, region_id r, struct ir_new *n,
	       const char **why)
{
	if (!infer_new(m, n, why)) {
		return false;
	}
	n->nresults = 0;
	push_node(m, r, n);
	return true;
}

value_id
ir_append_like(struct ir_module *m, region_id r, node_id like,
	       const value_id *args)
{
	struct arena *a = &m->ctx->perm;
	struct ir_region *region = &m->regions.at[r];
	node_id id = m->nodes.n;
	struct ir_value *v;
	struct ir_node *n;
	uint32_t i;

	VEC_PUSH(a, &m->nodes, *ir_node(m, like));
	VEC_PUSH(a, &region->nodes, id);
	n = &m->nodes.at[id];
	VEC_RESERVE(a, &m->args, n->nargs);
	VEC_RESERVE(a, &m->values, n->nresults);
	n->args = m->args.n;
	for (i = 0; i < n->nargs; i++) {
		m->args.at[m->args.n++] = args[i];
	}
	v = &m->values.at[n->result];
	n->result = n->nresults ? m->values.n : 0;
	for (i = 0; i < n->nresults; i++, v++) {
		m->values.at[m->values.n] = *v;
		m->values.at[m->values.n++].node = id;
	}
	return n->result;
}

const struct ir_node *
ir_rounded_weight(const struct ir_module *m, value_id v)
{
	const struct ir_node *n = ir_node(m, m->values.at[v].node);

	if (m->values.at[v].node && n->op == IR_CAST) {
		v = ir_args(m, n)[0];
		n = ir_node(m, m->values.at[v].node);
	}
	while (m->values.at[v].node && n->nargs == 1 &&
	       ir_is(n->op, IRF_CONVERTS)) {
		v = ir_args(m, n)[0];
		n = ir_node(m, m->values.at[v].node);
	}
	return m->values.at[v].node && ir_attr(m, n, IR_ATTR_ROUNDED) ? n
								      : NULL;
}

void
ir_replace_uses(struct ir_module *m, const value_id *map)
{
	uint32_t i, j;

	for (i = 0; i < m->args.n; i++) {
		if (map[m->args.at[i]]) {
			m->args.at[i] = map[m->args.at[i]];
		}
	}
	for (i = 1; i < m->regions.n; i++) {
		struct ir_region *r = &m->regions.at[i];

		for (j = 0; j < r->results.n; j++) {
			if (map[r->results.at[j]]) {
				r->results.at[j] = map[r->results.at[j]];
			}
		}
	}
}

