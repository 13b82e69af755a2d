/*
 * Dimension rules: reads the rule column of ops.def, and binds its factors to
 * the named dims of a node's operands.  The frontend, the reader, the verifier,
 * costs and sharding all see a node's dims through this one binding, from which
 * rule_type.c derives the result's type.
 *
 * Binding goes in four steps, for all operands before the next step:
 * factors that an attribute names; single factors from the right; groups, by
 * which operands the remaining dims are in; conditions.
 */
#include "ir/rule/rule_binding.h"

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

bool
ir_rule_fail(struct rule_binding *b, const char *fmt, ...)
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

const char *
ir_rule_dim(struct rule_binding *b, dim_id d)
{
	return arena_printf(&b->m->ctx->tmp, "`%s`", ir_dim_name(b->m, d));
}

const char *
ir_rule_operand(struct rule_binding *b, int k)
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
		return ir_rule_fail(b, "%s needs `%s=`", ir_ops[b->op].name,
				    f->name);
	}
	f->n = a->ndims;
	memcpy(f->dims, a->dims, sizeof f->dims);
	f->bound = true;
	for (i = 0; i < f->n; i++) {
		for (j = 0; j < i; j++) {
			if (f->dims[i] == f->dims[j]) {
				return ir_rule_fail(b, "%s is twice in `%s=`",
						    ir_rule_dim(b, f->dims[i]),
						    f->name);
			}
		}
	}
	for (k = 0; k < b->r->nops; k++) {
		for (i = 0; f->in & 1u << k && i < f->n; i++) {
			if (!take(b, k, f->dims[i])) {
				return ir_rule_fail(b,
					"%s needs %s in operand %d, "
					"which is %s",
					ir_ops[b->op].name,
					ir_rule_dim(b, f->dims[i]), k + 1,
					ir_rule_operand(b, k));
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
			return ir_rule_fail(b,
				"operand %d of %s is %s, which has too "
				"few dims for the rule `%s`",
				k + 1, ir_ops[b->op].name,
				ir_rule_operand(b, k), ir_ops[b->op].rule);
		}
		d = b->left[k].dims[b->left[k].n - 1];
		if (f->bound && f->dims[0] != d) {
			return ir_rule_fail(b,
					    "operand %d of %s is %s, and %s is "
					    "expected where it has %s",
					    k + 1, ir_ops[b->op].name,
					    ir_rule_operand(b, k),
					    ir_rule_dim(b, f->dims[0]),
					    ir_rule_dim(b, d));
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
			return ir_rule_fail(b,
				"%s does not fit: operand %d is %s, and "
				"by the rule `%s` it has not the %s of "
				"operand %d",
				ir_ops[b->op].name, k + 1,
				ir_rule_operand(b, k), ir_ops[b->op].rule,
				ir_rule_dim(b, d), other + 1);
		}
		if (!(mask & 1u << other)) {
			return ir_rule_fail(b,
				"%s does not fit: operand %d is %s, "
				"which has %s, and operand %d is %s, "
				"which has not",
				ir_ops[b->op].name, k + 1,
				ir_rule_operand(b, k), ir_rule_dim(b, d),
				other + 1, ir_rule_operand(b, other));
		}
	}
	return ir_rule_fail(b, "%s is in every operand of %s and is neither "
		    "contracted nor kept by its rule `%s`", ir_rule_dim(b, d),
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
			return ir_rule_fail(b, "%s is not a dim of %s",
					    ir_rule_dim(b, over->dims[i]),
					    ir_rule_operand(b, 0));
		}
	}
	return a->n == over->n ||
	       ir_rule_fail(b, "%u of the %u dims of %s are named", over->n,
			    a->n, ir_rule_operand(b, 0));
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
		       ir_rule_fail(b,
				    "%s = %lld is not a multiple of %s = %lld",
				    ir_rule_dim(b, dx), (long long)x,
				    ir_rule_dim(b, dy), (long long)y);
	}
	if (p[n] == '<') {
		return x <= y ||
		       ir_rule_fail(b, "%s = %lld is more than the %lld of %s",
			    ir_rule_dim(b, dx), (long long)x, (long long)y,
			    ir_rule_dim(b, dy));
	}
	z = factor_size(b, q + k + 1, strcspn(q + k + 1, " "), &dz);
	return (num_add(x, y, &sum) && sum == z) ||
	       ir_rule_fail(b,
		       "%s = %lld and %s = %lld end to end make %lld, and %s "
		       "is %lld",
		       ir_rule_dim(b, dx), (long long)x, ir_rule_dim(b, dy),
		       (long long)y, (long long)sum, ir_rule_dim(b, dz),
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
