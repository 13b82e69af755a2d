/*
 * Modules without their nodes: names, dims and the expressions they are
 * written as, functions, regions, settings; and attributes of a node.
 */
#include "ir/ir.h"

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

/* ---- functions and regions ---- */

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

/* ---- attributes and settings ---- */

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

bool
ir_attr_has(const struct ir_attr *a, dim_id d)
{
	uint32_t i;

	for (i = 0; i < a->ndims && a->dims[i] != d; i++) {
	}
	return i < a->ndims;
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

/* ---- lists of numbers ---- */

void
ir_list_add(struct buf *list, double v)
{
	buf_puts(list, list->n ? ", " : "");
	buf_double(list, v);
}

const char *
ir_list_next(const char *list, double *v)
{
	size_t n = strcspn(list, ",");

	if (!num_parse_double(list, n, v)) {
		die("`%s` is not a list of numbers", list);
	}
	return list + n + strspn(list + n, ", ");
}

int64_t
ir_list_count(const char *list)
{
	int64_t count = *list != '\0';

	for (; (list = strchr(list, ',')); list++) {
		count++;
	}
	return count;
}

/* ---- placeholders in names of tensors ---- */

/* The length of the whole number at the start of the text; 0: there is none
 * that may be in a placeholder. */
static size_t
read_number(const char *text, size_t n, int64_t *out)
{
	size_t len = 0;

	while (len < n && text[len] >= '0' && text[len] <= '9') {
		len++;
	}
	return len && num_parse_int(text, len, out) &&
	       *out <= IR_MAX_PLACEHOLDER && (text[0] != '0' || len == 1)
	       ? len : 0;
}

void
ir_placeholder_read(const char *text, size_t n, struct ir_placeholder *out)
{
	const char *plus = memchr(text, '+', n), *end = text + n;
	size_t len;

	*out = (struct ir_placeholder){ text, n, 1, 0 };
	if (plus) {
		len = read_number(plus + 1, (size_t)(end - plus) - 1,
				  &out->plus);
		if (!len || plus + 1 + len != end) {
			out->plus = 0;
			return;
		}
		out->n = (size_t)(plus - text);
	}
	len = read_number(text, out->n, &out->times);
	if (len && out->times > 0 && len < out->n && text[len] == '*') {
		out->var = text + len + 1;
		out->n -= len + 1;
	} else {
		out->times = 1;
	}
}

bool
ir_placeholder_is(const struct ir_placeholder *p, const char *var)
{
	return strlen(var) == p->n && memcmp(p->var, var, p->n) == 0;
}

int64_t
ir_placeholder_at(const struct ir_placeholder *p, int64_t i)
{
	/* unsigned: a variable near the limits may wrap around */
	return (int64_t)((uint64_t)p->times * (uint64_t)i +
			 (uint64_t)p->plus);
}

void
ir_placeholder_put(struct buf *out, const struct ir_placeholder *p,
		   const char *by)
{
	buf_putc(out, '{');
	if (p->times != 1) {
		buf_printf(out, "%lld*", (long long)p->times);
	}
	buf_puts(out, by);
	if (p->plus) {
		buf_printf(out, "+%lld", (long long)p->plus);
	}
	buf_putc(out, '}');
}

static bool
is_index_of_dim(const struct ir_module *m, const struct ir_placeholder *p)
{
	dim_id d;

	for (d = 1; d < m->dims.n; d++) {
		if (ir_placeholder_is(p, ir_dim_name(m, d))) {
			return true;
		}
	}
	return false;
}

bool
ir_name_is_in_layers(const struct ir_module *m, sym_t name)
{
	const char *open = ir_text(m->ctx, name), *shut;
	struct ir_placeholder p;

	while ((open = strchr(open, '{')) && (shut = strchr(open, '}'))) {
		ir_placeholder_read(open + 1, (size_t)(shut - open) - 1, &p);
		if (!is_index_of_dim(m, &p)) {
			return true;
		}
		open = shut;
	}
	return false;
}
