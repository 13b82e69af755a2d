/*
 * Building and changing modules.  Every array is append-only, so that ids stay
 * valid; a pass removes a node by removing it from its region's list.
 */
#include "ir/ir.h"

#include <string.h>

void
ir_ctx_init(struct ir_ctx *c, const struct mem *m)
{
	struct mem libc;

	memset(c, 0, sizeof *c);
	if (m) {
		c->mem = *m;
	} else {
		mem_init(&libc);
		mem_pool_init(&c->pool, &libc, &c->mem);
	}
	arena_init(&c->perm, &c->mem);
	arena_init(&c->tmp, &c->mem);
	intern_init(&c->syms, &c->perm);
	source_init(&c->sources, &c->perm);
	diag_init(&c->diags, &c->perm, &c->sources);
	arena_init(&c->shared, &c->mem);
	c->types = ir_types_new(&c->shared);
}

void
ir_ctx_release(struct ir_ctx *c)
{
	arena_release(&c->shared);
	arena_release(&c->tmp);
	arena_release(&c->perm);
	mem_pool_release(&c->pool);
}

const char *
ir_text(const struct ir_ctx *c, sym_t s)
{
	return intern_text(&c->syms, s);
}

struct ir_module *
ir_module_new(struct ir_ctx *c)
{
	struct arena *a = &c->perm;
	struct ir_module *m = arena_alloc(a, sizeof *m);

	m->ctx = c;
	VEC_PUSH(a, &m->dims, (struct ir_dim){ 0 });
	VEC_PUSH(a, &m->axes, (struct ir_axis){ 0 });
	VEC_PUSH(a, &m->exprs, (struct ir_expr){ 0 });
	VEC_PUSH(a, &m->values, (struct ir_value){ 0 });
	VEC_PUSH(a, &m->nodes, (struct ir_node){ 0 });
	VEC_PUSH(a, &m->regions, (struct ir_region){ 0 });
	VEC_PUSH(a, &m->funcs, (struct ir_func){ 0 });
	return m;
}

/* ---- dims and expressions ---- */

dim_id
ir_dim_add(struct ir_module *m, sym_t name, int64_t size, expr_id expr,
	   struct span span)
{
	struct ir_dim d = { name, size, expr, span };

	VEC_PUSH(&m->ctx->perm, &m->dims, d);
	return m->dims.n - 1;
}

dim_id
ir_dim_find(const struct ir_module *m, sym_t name)
{
	dim_id d;

	for (d = 1; d < m->dims.n; d++) {
		if (m->dims.at[d].name == name) {
			return d;
		}
	}
	return 0;
}

const char *
ir_dim_name(const struct ir_module *m, dim_id d)
{
	return d ? ir_text(m->ctx, m->dims.at[d].name) : "?";
}

int64_t
ir_dim_size(const struct ir_module *m, dim_id d)
{
	return m->dims.at[d].size;
}

static expr_id
add_expr(struct ir_module *m, struct ir_expr e)
{
	VEC_PUSH(&m->ctx->perm, &m->exprs, e);
	return m->exprs.n - 1;
}

expr_id
ir_expr_const(struct ir_module *m, int64_t v)
{
	struct ir_expr e = { .kind = EXPR_CONST, .value = v };

	return add_expr(m, e);
}

expr_id
ir_expr_dim(struct ir_module *m, dim_id d)
{
	struct ir_expr e = { .kind = EXPR_DIM, .dim = d,
			     .value = ir_dim_size(m, d) };

	return add_expr(m, e);
}

static const char *
fold(enum ir_expr_kind kind, int64_t a, int64_t b, int64_t *out)
{
	bool fits = true;

	switch (kind) {
	case EXPR_ADD:
		fits = num_add(a, b, out);
		break;
	case EXPR_SUB:
		fits = b != INT64_MIN && num_add(a, -b, out);
		break;
	case EXPR_MUL:
		fits = num_mul(a, b, out);
		break;
	default:
		if (b == 0) {
			return "divides by zero";
		}
		if ((a == INT64_MIN && b == -1) || a % b != 0) {
			return "does not divide evenly";
		}
		*out = a / b;
		break;
	}
	return fits ? NULL : "does not fit 63 bits";
}

expr_id
ir_expr_op(struct ir_module *m, enum ir_expr_kind kind, expr_id a, expr_id b,
	   const char **why)
{
	const struct ir_expr *x = &m->exprs.at[a], *y = &m->exprs.at[b];
	struct ir_expr e = { .kind = (uint8_t)kind, .lhs = a, .rhs = b };
	const char *problem = fold(kind, x->value, y->value, &e.value);

	if (x->depth >= IR_MAX_DEPTH || y->depth >= IR_MAX_DEPTH) {
		*why = arena_printf(&m->ctx->tmp, "nests deeper than %d",
				    IR_MAX_DEPTH);
		return 0;
	}
	if (problem) {
		*why = arena_printf(&m->ctx->tmp, "%lld %c %lld %s",
				    (long long)x->value,
				    "+-*/"[kind - EXPR_ADD],
				    (long long)y->value, problem);
		return 0;
	}
	e.depth = (uint8_t)(1 + (x->depth > y->depth ? x->depth : y->depth));
	return add_expr(m, e);
}

/* ---- functions, regions, values ---- */

func_id
ir_func_add(struct ir_module *m, sym_t name, bool is_model, struct span span)
{
	struct ir_func f = { .name = name, .is_model = is_model,
			     .span = span };

	f.body = ir_region_add(m, 0);
	VEC_PUSH(&m->ctx->perm, &m->funcs, f);
	return m->funcs.n - 1;
}

func_id
ir_func_find(const struct ir_module *m, sym_t name)
{
	func_id f;

	for (f = 1; f < m->funcs.n; f++) {
		if (m->funcs.at[f].name == name && !m->funcs.at[f].is_model) {
			return f;
		}
	}
	return 0;
}

func_id
ir_model(const struct ir_module *m)
{
	func_id f;

	for (f = 1; f < m->funcs.n; f++) {
		if (m->funcs.at[f].is_model) {
			return f;
		}
	}
	return 0;
}

region_id
ir_region_add(struct ir_module *m, node_id owner)
{
	struct ir_region r = { .owner = owner };

	VEC_PUSH(&m->ctx->perm, &m->regions, r);
	return m->regions.n - 1;
}

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

const struct ir_attr *
ir_attr(const struct ir_module *m, const struct ir_node *n,
	enum ir_attr_key key)
{
	uint32_t i;

	for (i = 0; i < n->nattrs; i++) {
		if (m->attrs.at[n->attrs + i].key == key) {
			return &m->attrs.at[n->attrs + i];
		}
	}
	return NULL;
}

int64_t
ir_attr_int(const struct ir_module *m, const struct ir_node *n,
	    enum ir_attr_key key, int64_t absent)
{
	const struct ir_attr *a = ir_attr(m, n, key);

	return a ? a->i : absent;
}

double
ir_attr_num(const struct ir_module *m, const struct ir_node *n,
	    enum ir_attr_key key, double absent)
{
	const struct ir_attr *a = ir_attr(m, n, key);

	return a ? a->num : absent;
}

/* ---- changing, settings ---- */

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

const struct ir_setting *
ir_setting(const struct ir_module *m, const char *key)
{
	sym_t name = intern_find(&m->ctx->syms, key);
	uint32_t i;

	for (i = 0; name && i < m->settings.n; i++) {
		if (m->settings.at[i].key == name) {
			return &m->settings.at[i];
		}
	}
	return NULL;
}

double
ir_setting_num(const struct ir_module *m, const char *key, double absent)
{
	const struct ir_setting *s = ir_setting(m, key);

	return s && s->kind == SET_NUM ? s->num[0] : absent;
}
