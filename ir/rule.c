/*
 * Dimension rules: reads the rule column of ops.def, binds its factors to
 * the named dims of a node's operands, and derives the result's type.  The
 * frontend, the reader, the verifier, costs and (later) sharding all see a
 * node's dims through this one binding.
 *
 * Binding goes in four steps, for all operands before the next step:
 * factors that an attribute names; single factors from the right; groups, by
 * which operands the remaining dims are in; conditions.
 */
#include "ir/ir.h"

#include <ctype.h>
#include <string.h>

/* ---- reading a rule ---- */

static uint8_t
factor_index(struct ir_rule *r, const char *name, size_t n, enum ir_op op)
{
	enum ir_attr_key key;
	struct ir_factor *f;
	uint8_t i;

	for (i = 0; i < r->nf; i++) {
		if (strlen(r->f[i].name) == n &&
		    strncmp(r->f[i].name, name, n) == 0) {
			return i;
		}
	}
	if (r->nf == IR_MAX_FACTORS || n >= sizeof r->f[0].name) {
		die("rule of %s: too many or too long factors",
		    ir_ops[op].name);
	}
	f = &r->f[r->nf];
	memcpy(f->name, name, n);
	f->by_attr = ir_find_attr(f->name, &key) &&
		     ir_op_takes(op, key) != IR_TAKES_NOT;
	f->key = f->by_attr ? (uint8_t)key : 0;
	f->group = isupper((unsigned char)name[0]);
	return r->nf++;
}

void
ir_rule_read(struct ir_rule *r, enum ir_op op)
{
	const char *p = ir_ops[op].rule;
	bool out = false;

	memset(r, 0, sizeof *r);
	r->where = "";
	r->nops = *p ? 1 : 0;
	while (*p) {
		size_t n = strcspn(p, " ,*");
		uint8_t i;

		if (strncmp(p, "->", 2) == 0) {
			out = true;
		} else if (*p == ':') {
			r->where = p + 1;
			return;
		} else if (n > 0) {
			i = factor_index(r, p, n, op);
			if (p[n] == '*') {
				r->f[i].group = true;
			}
			if (out) {
				r->f[i].out = true;
				r->out[r->nout++] = i;
			} else {
				uint8_t k = r->nops - 1;

				r->f[i].in |= (uint8_t)(1u << k);
				r->op[k][r->nop[k]++] = i;
			}
		}
		p += n;
		if (*p == ',') {
			r->nops++;
		}
		p += *p != '\0';
	}
}

/*
 * The rule of an op is parsed once per context: nodes are bound often, and
 * there are few ops.
 */
const struct ir_rule *
ir_rule_of(struct ir_ctx *c, enum ir_op op)
{
	struct ir_rule r;

	if (!c->rules[op]) {
		ir_rule_read(&r, op);
		c->rules[op] = arena_dup(&c->perm, &r, sizeof r);
	}
	return c->rules[op];
}

const struct ir_factor *
ir_rule_factor(const struct ir_rule *r, const char *name)
{
	uint8_t i;

	for (i = 0; i < r->nf; i++) {
		if (strcmp(r->f[i].name, name) == 0) {
			return &r->f[i];
		}
	}
	return NULL;
}

/* ---- binding ---- */

/*
 * The state of binding, with the dims of each operand that are not bound yet.
 */
struct rule_binding {
	struct ir_module *m;
	enum ir_op op;
	const struct ir_type *const *types;
	struct ir_rule *r;
	struct {
		dim_id dims[IR_MAX_DIMS];
		uint8_t n;
	} left[IR_MAX_OPERANDS];
	const char **why;
};

static bool
fail(struct rule_binding *b, const char *fmt, ...)
{
	struct buf text;
	va_list ap;

	buf_init(&text, &b->m->ctx->tmp);
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	*b->why = buf_text(&text);
	return false;
}

static const char *
dim_text(struct rule_binding *b, dim_id d)
{
	return arena_printf(&b->m->ctx->tmp, "`%s`", ir_dim_name(b->m, d));
}

static const char *
operand_text(struct rule_binding *b, int k)
{
	return ir_type_text(b->m, b->types[k]);
}

/* Removes dim d from operand k's remaining dims. */
static bool
take(struct rule_binding *b, int k, dim_id d)
{
	uint8_t i, n = b->left[k].n;

	for (i = 0; i < n; i++) {
		if (b->left[k].dims[i] == d) {
			memmove(&b->left[k].dims[i], &b->left[k].dims[i + 1],
				(size_t)(n - i - 1) * sizeof(dim_id));
			b->left[k].n--;
			return true;
		}
	}
	return false;
}

static const struct ir_attr *
find_attr(const struct ir_attr *attrs, uint32_t n, uint8_t key)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (attrs[i].key == key) {
			return &attrs[i];
		}
	}
	return NULL;
}

static bool
bind_attr(struct rule_binding *b, struct ir_factor *f, const struct ir_attr *a)
{
	uint8_t i, j;
	int k;

	if (!a || (a->ndims == 0 && !f->group)) {
		return fail(b, "%s needs `%s=`", ir_ops[b->op].name, f->name);
	}
	f->n = a->ndims;
	memcpy(f->dims, a->dims, sizeof f->dims);
	f->bound = true;
	for (i = 0; i < f->n; i++) {
		for (j = 0; j < i; j++) {
			if (f->dims[i] == f->dims[j]) {
				return fail(b, "%s is twice in `%s=`",
					    dim_text(b, f->dims[i]), f->name);
			}
		}
	}
	for (k = 0; k < b->r->nops; k++) {
		for (i = 0; f->in & 1u << k && i < f->n; i++) {
			if (!take(b, k, f->dims[i])) {
				return fail(b, "%s needs %s in operand %d, "
					    "which is %s", ir_ops[b->op].name,
					    dim_text(b, f->dims[i]), k + 1,
					    operand_text(b, k));
			}
		}
	}
	return true;
}

/*
 * Binds the single factors of operand k that no attribute names, from the
 * right.
 */
static bool
bind_singles(struct rule_binding *b, int k)
{
	int i;

	for (i = b->r->nop[k] - 1; i >= 0; i--) {
		struct ir_factor *f = &b->r->f[b->r->op[k][i]];
		dim_id d;

		if (f->group || f->by_attr) {
			continue;
		}
		if (b->left[k].n == 0) {
			return fail(b, "operand %d of %s is %s, which has too "
				    "few dims for the rule `%s`", k + 1,
				    ir_ops[b->op].name, operand_text(b, k),
				    ir_ops[b->op].rule);
		}
		d = b->left[k].dims[b->left[k].n - 1];
		if (f->bound && f->dims[0] != d) {
			return fail(b, "operand %d of %s is %s, and %s is "
				    "expected where it has %s", k + 1,
				    ir_ops[b->op].name, operand_text(b, k),
				    dim_text(b, f->dims[0]), dim_text(b, d));
		}
		f->bound = true;
		f->n = 1;
		f->dims[0] = d;
		take(b, k, d);
	}
	return true;
}

/* Whether dim d of operand k is not bound yet. */
static bool
has_left(const struct rule_binding *b, int k, dim_id d)
{
	uint8_t i;

	for (i = 0; i < b->left[k].n; i++) {
		if (b->left[k].dims[i] == d) {
			return true;
		}
	}
	return false;
}

/* The operands that have dim d, bit k each. */
static uint8_t
operands_with(const struct rule_binding *b, dim_id d)
{
	uint8_t mask = 0;
	int k;

	for (k = 0; k < b->r->nops; k++) {
		mask |= (uint8_t)((unsigned)has_left(b, k, d) << k);
	}
	return mask;
}

static struct ir_factor *
group_for(struct rule_binding *b, uint8_t mask)
{
	uint8_t i;

	for (i = 0; i < b->r->nf; i++) {
		struct ir_factor *f = &b->r->f[i];

		if (f->group && !f->by_attr && f->in == mask) {
			return f;
		}
	}
	return NULL;
}

/* Reports that dim d is in operands where no group of the rule may be. */
static bool
fail_group(struct rule_binding *b, int k, dim_id d, uint8_t mask)
{
	int other;

	for (other = 0; other < b->r->nops; other++) {
		if (!(mask & 1u << other) &&
		    ir_type_has(b->types[other], d)) {
			return fail(b, "%s does not fit: operand %d is %s, and "
				    "by the rule `%s` it has not the %s of "
				    "operand %d", ir_ops[b->op].name, k + 1,
				    operand_text(b, k), ir_ops[b->op].rule,
				    dim_text(b, d), other + 1);
		}
		if (!(mask & 1u << other)) {
			return fail(b, "%s does not fit: operand %d is %s, "
				    "which has %s, and operand %d is %s, "
				    "which has not", ir_ops[b->op].name,
				    k + 1, operand_text(b, k), dim_text(b, d),
				    other + 1, operand_text(b, other));
		}
	}
	return fail(b, "%s is in every operand of %s and is neither "
		    "contracted nor kept by its rule `%s`", dim_text(b, d),
		    ir_ops[b->op].name, ir_ops[b->op].rule);
}

/*
 * SPREAD: the operand of most dims has all of them; the others may lack some.
 */
static bool
bind_spread(struct rule_binding *b)
{
	struct ir_factor *f = NULL;
	int most = 0, k;
	uint8_t i;

	for (i = 0; i < b->r->nf && !f; i++) {
		if (b->r->f[i].group && !b->r->f[i].by_attr) {
			f = &b->r->f[i];
		}
	}
	for (k = 1; k < b->r->nops; k++) {
		if (b->left[k].n > b->left[most].n) {
			most = k;
		}
	}
	for (k = 0; k < b->r->nops; k++) {
		for (i = 0; i < b->left[k].n; i++) {
			if (!has_left(b, most, b->left[k].dims[i])) {
				return fail_group(b, k, b->left[k].dims[i],
						  (uint8_t)(1u << k));
			}
		}
	}
	if (!f) {
		die("%s spreads, but its rule has no group",
		    ir_ops[b->op].name);
	}
	f->bound = true;
	f->n = b->left[most].n;
	memcpy(f->dims, b->left[most].dims, sizeof f->dims);
	return true;
}

/* Whether an operand before k has the dim, which is bound then. */
static bool
is_earlier(const struct rule_binding *b, int k, dim_id d)
{
	while (k-- > 0) {
		if (has_left(b, k, d)) {
			return true;
		}
	}
	return false;
}

static bool
bind_groups(struct rule_binding *b)
{
	uint8_t i;
	int k;

	if (ir_is(b->op, IRF_SPREAD)) {
		return bind_spread(b);
	}
	for (i = 0; i < b->r->nf; i++) {
		b->r->f[i].bound = true;	/* groups may be empty */
	}
	for (k = 0; k < b->r->nops; k++) {
		for (i = 0; i < b->left[k].n; i++) {
			dim_id d = b->left[k].dims[i];
			struct ir_factor *f;
			uint8_t mask;

			if (is_earlier(b, k, d)) {
				continue;
			}
			mask = operands_with(b, d);
			f = group_for(b, mask);
			if (!f) {
				return fail_group(b, k, d, mask);
			}
			f->dims[f->n++] = d;
		}
	}
	return true;
}

/* ---- conditions ---- */

static int64_t
factor_size(struct rule_binding *b, const char *name, size_t n, dim_id *d)
{
	char text[8];

	memcpy(text, name, n);
	text[n] = '\0';
	*d = ir_rule_factor(b->r, text)->dims[0];
	return ir_dim_size(b->m, *d);
}

/* A~over: the operand and the attribute have the same dims, in any order. */
static bool
same_dims(struct rule_binding *b)
{
	const struct ir_factor *a = ir_rule_factor(b->r, "A");
	const struct ir_factor *over = ir_rule_factor(b->r, "over");
	uint8_t i;

	for (i = 0; i < over->n; i++) {
		if (!ir_type_has(b->types[0], over->dims[i])) {
			return fail(b, "%s is not a dim of %s",
				    dim_text(b, over->dims[i]),
				    operand_text(b, 0));
		}
	}
	return a->n == over->n ||
	       fail(b, "%u of the %u dims of %s are named", over->n, a->n,
		    operand_text(b, 0));
}

/* One condition: x%y, x<=y, x+y=z or A~over. */
static bool
condition(struct rule_binding *b, const char *p)
{
	size_t n = strcspn(p, "%<+~"), k;
	const char *q = p + n + (p[n] == '<' ? 2 : 1);
	dim_id dx, dy, dz;
	int64_t x, y, z, sum = INT64_MAX;

	if (p[n] == '~') {
		return same_dims(b);
	}
	x = factor_size(b, p, n, &dx);
	k = strcspn(q, "= ");
	y = factor_size(b, q, k, &dy);
	if (p[n] == '%') {
		return (y > 0 && x % y == 0) ||
		       fail(b, "%s = %lld is not a multiple of %s = %lld",
			    dim_text(b, dx), (long long)x, dim_text(b, dy),
			    (long long)y);
	}
	if (p[n] == '<') {
		return x <= y ||
		       fail(b, "%s = %lld is more than the %lld of %s",
			    dim_text(b, dx), (long long)x, (long long)y,
			    dim_text(b, dy));
	}
	z = factor_size(b, q + k + 1, strcspn(q + k + 1, " "), &dz);
	return (num_add(x, y, &sum) && sum == z) ||
	       fail(b, "%s = %lld and %s = %lld end to end make %lld, and %s "
		    "is %lld", dim_text(b, dx), (long long)x, dim_text(b, dy),
		    (long long)y, (long long)sum, dim_text(b, dz),
		    (long long)z);
}

static bool
conditions(struct rule_binding *b)
{
	const char *p = b->r->where;

	while (*(p += strspn(p, " "))) {
		if (!condition(b, p)) {
			return false;
		}
		p += strcspn(p, " ");
	}
	return true;
}

bool
ir_rule_bind(struct ir_module *m, enum ir_op op,
	     const struct ir_type *const *operands,
	     const struct ir_attr *attrs, uint32_t nattrs, struct ir_rule *r,
	     const char **why)
{
	struct rule_binding b;
	uint8_t i;
	int k;

	*r = *ir_rule_of(m->ctx, op);
	b.m = m;		/* only the entries in use are set */
	b.op = op;
	b.types = operands;
	b.r = r;
	b.why = why;
	for (k = 0; k < r->nops; k++) {
		b.left[k].n = operands[k]->ndims;
		memcpy(b.left[k].dims, operands[k]->dims,
		       sizeof b.left[k].dims);
	}
	for (i = 0; i < r->nf; i++) {
		if (r->f[i].by_attr &&
		    !bind_attr(&b, &r->f[i],
			       find_attr(attrs, nattrs, r->f[i].key))) {
			return false;
		}
	}
	for (k = 0; k < r->nops; k++) {
		if (!bind_singles(&b, k)) {
			return false;
		}
	}
	return bind_groups(&b) && conditions(&b);
}

/* ---- the result's type ---- */

/*
 * Same shape as the first operand, new dims replacing those that they are cut
 * of.
 */
static bool
same_shape_of_rule(const struct ir_rule *r)
{
	uint8_t i;

	if (r->nops == 0 || r->nop[0] != r->nout) {
		return false;
	}
	for (i = 0; i < r->nout; i++) {
		const struct ir_factor *from = &r->f[r->op[0][i]];
		const struct ir_factor *to = &r->f[r->out[i]];

		if (from != to && (to->in || to->group || from->group)) {
			return false;
		}
	}
	return true;
}

static bool
add_dim(struct rule_binding *b, struct ir_type *t, dim_id d)
{
	if (ir_type_has(t, d)) {
		return fail(b, "%s would be twice in the result of %s",
			    dim_text(b, d), ir_ops[b->op].name);
	}
	if (t->ndims == IR_MAX_DIMS) {
		return fail(b, "the result of %s would have more than %d dims",
			    ir_ops[b->op].name, IR_MAX_DIMS);
	}
	t->dims[t->ndims++] = d;
	return true;
}

static bool
result_dims(struct rule_binding *b, struct ir_type *t)
{
	const struct ir_rule *r = b->r;
	uint8_t i, j;

	t->ndims = 0;
	if (same_shape_of_rule(r) && !ir_is(b->op, IRF_SPREAD)) {
		for (i = 0; i < b->types[0]->ndims; i++) {
			dim_id d = b->types[0]->dims[i];

			for (j = 0; j < r->nout; j++) {
				const struct ir_factor *f =
					&r->f[r->op[0][j]];

				if (r->op[0][j] != r->out[j] &&
				    f->dims[0] == d) {
					d = r->f[r->out[j]].dims[0];
				}
			}
			if (!add_dim(b, t, d)) {
				return false;
			}
		}
		return true;
	}
	for (i = 0; i < r->nout; i++) {
		const struct ir_factor *f = &r->f[r->out[i]];

		for (j = 0; j < f->n; j++) {
			if (!add_dim(b, t, f->dims[j])) {
				return false;
			}
		}
	}
	return true;
}

/* The dim that an index operand or result points into: factor `of`. */
static dim_id
index_dim(const struct ir_rule *r)
{
	const struct ir_factor *f = ir_rule_factor(r, "of");

	return f ? f->dims[0] : 0;
}

static bool
check_dtypes(struct rule_binding *b, const struct ir_type **first)
{
	const char *kind = ir_ops[b->op].dtypes;
	int k;

	*first = NULL;
	for (k = 0; k < b->r->nops; k++) {
		const struct ir_type *t = b->types[k];
		bool is_float = ir_dtypes[t->dtype].is_float;

		if (kind[k] == 'i' && (is_float || t->of != index_dim(b->r))) {
			return fail(b, "operand %d of %s is %s, and an index "
				    "into %s is expected", k + 1,
				    ir_ops[b->op].name, operand_text(b, k),
				    dim_text(b, index_dim(b->r)));
		}
		if (kind[k] == 'F' && t->dtype != IR_F32) {
			return fail(b, "operand %d of %s is %s, and f32 is "
				    "expected", k + 1, ir_ops[b->op].name,
				    operand_text(b, k));
		}
		if (kind[k] == 'f' && !is_float) {
			return fail(b, "operand %d of %s is %s, and numbers "
				    "are expected", k + 1,
				    ir_ops[b->op].name, operand_text(b, k));
		}
		if (kind[k] == 'f' && *first && (*first)->dtype != t->dtype) {
			return fail(b, "operand %d of %s is %s, and the others "
				    "are %s: cast one of them", k + 1,
				    ir_ops[b->op].name, operand_text(b, k),
				    ir_dtypes[(*first)->dtype].name);
		}
		if (kind[k] == 'f' && !*first) {
			*first = t;
		}
	}
	return true;
}

static bool
result_type(struct rule_binding *b, struct ir_type *out)
{
	const char *kind = ir_ops[b->op].dtypes;
	const struct ir_type *first;
	struct ir_type t = *out;

	if (!check_dtypes(b, &first) || !result_dims(b, &t)) {
		return false;
	}
	t.of = 0;
	switch (kind[b->r->nops]) {
	case 'f':
		t.dtype = first->dtype;
		break;
	case 'F':
		t.dtype = IR_F32;
		break;
	case 'i':
		t.dtype = IR_IDX;
		t.of = index_dim(b->r);
		break;
	case 'x':
		t.dtype = b->types[0]->dtype;
		t.of = b->types[0]->of;
		break;
	default:		/* a float, as written */
		if (!ir_dtypes[t.dtype].is_float) {
			return fail(b, "%s makes numbers, not an index",
				    ir_ops[b->op].name);
		}
		break;
	}
	*out = t;
	return true;
}

bool
ir_infer(struct ir_module *m, enum ir_op op,
	 const struct ir_type *const *operands, uint32_t nargs,
	 const struct ir_attr *attrs, uint32_t nattrs, struct ir_type *out,
	 const char **why)
{
	struct ir_rule r;
	struct rule_binding b = { .m = m, .op = op, .types = operands, .r = &r,
			     .why = why };
	const struct ir_type *first;
	int64_t elems;

	if (ir_ops[op].nargs >= 0 && (uint32_t)ir_ops[op].nargs != nargs) {
		return fail(&b, "%s takes %d operand%s, and %u %s given",
			    ir_ops[op].name, ir_ops[op].nargs,
			    ir_ops[op].nargs == 1 ? "" : "s", nargs,
			    nargs == 1 ? "is" : "are");
	}
	if (nargs > 0 && ir_ops[op].nargs > 0) {
		if (!ir_rule_bind(m, op, operands, attrs, nattrs, &r, why) ||
		    (ir_is(op, IRF_SINK) ? !check_dtypes(&b, &first)
					 : !result_type(&b, out))) {
			return false;
		}
	}
	if (ir_is(op, IRF_SINK)) {
		return true;
	}
	if (!ir_type_elems(m, out, &elems)) {
		return fail(&b, "the result of %s, %s, has more elements than "
			    "63 bits can count", ir_ops[op].name,
			    ir_type_text(m, out));
	}
	return true;
}

void
ir_bind(struct ir_module *m, const struct ir_node *n, struct ir_rule *r)
{
	const struct ir_type *types[IR_MAX_OPERANDS];
	const char *why = "?";
	uint32_t i;

	for (i = 0; i < n->nargs && i < IR_MAX_OPERANDS; i++) {
		types[i] = ir_type(m, ir_args(m, n)[i]);
	}
	if (!ir_rule_bind(m, n->op, types, m->attrs.at + n->attrs, n->nattrs,
			  r, &why)) {
		die("a %s that does not bind: %s", ir_ops[n->op].name, why);
	}
}
