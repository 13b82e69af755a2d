/*
 * Parses the derivatives column of ops.def and appends the nodes it describes,
 * for autodiff.  The head of ops.def defines the language.  A text that does
 * not parse is a bug of llmc, so it aborts.
 */
#include "passes/derive.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The result of an expression. */
struct term {
	bool is_number;
	double number;
	value_id value;
};

/* ---- nodes ---- */

value_id
derive_append(struct ir_module *m, region_id r, struct ir_new *n)
{
	const char *why = "?";
	value_id v = ir_append(m, r, n, &why);

	if (!v) {
		die("a derivative makes a bad %s: %s", ir_ops[n->op].name,
		    why);
	}
	return v;
}

void
derive_sink(struct ir_module *m, region_id r, struct ir_new *n)
{
	const char *why = "?";

	if (!ir_append_sink(m, r, n, &why)) {
		die("a bad %s: %s", ir_ops[n->op].name, why);
	}
}

static value_id
constant(struct ir_module *m, region_id r, double v, uint8_t dtype,
	 struct span span)
{
	struct ir_new n;

	ir_new_init(&n, IR_CONST, span);
	ir_new_num(&n, IR_ATTR_VALUE, v);
	n.types[0].dtype = dtype;
	return derive_append(m, r, &n);
}

value_id
derive_cast(struct ir_module *m, region_id r, value_id v, uint8_t dtype,
	    struct span span)
{
	struct ir_new n;

	if (ir_type(m, v)->dtype == dtype) {
		return v;
	}
	ir_new_init(&n, IR_CAST, span);
	ir_new_arg(&n, v);
	n.types[0].dtype = dtype;
	return derive_append(m, r, &n);
}

value_id
derive_copy(struct ir_module *m, region_id r, node_id id,
	    const value_id *args)
{
	struct ir_node like = *ir_node(m, id);
	struct ir_new n;
	uint32_t i;

	ir_new_init(&n, like.op, like.span);
	for (i = 0; i < like.nargs; i++) {
		ir_new_arg(&n, args[i]);
	}
	for (i = 0; i < like.nattrs; i++) {
		struct ir_attr a = m->attrs.at[like.attrs + i];

		*ir_new_attr(&n, a.key) = a;
	}
	n.types[0] = *ir_type(m, like.result);
	n.hint = m->values.at[like.result].hint;
	return derive_append(m, r, &n);
}

bool
derive_reads_again(enum ir_op op)
{
	return ir_is(op, IRF_SOURCE) && !ir_is(op, IRF_UNIQUE) &&
	       (ir_is(op, IRF_STORED) ||
		ir_ops[op].recompute == IR_RC_CHEAP);
}

/* Applies op to v over the dims of `all` that `some` lacks. */
static value_id
over_missing(struct ir_module *m, region_id r, enum ir_op op, value_id v,
	     const struct ir_type *all, const struct ir_type *some,
	     struct span span)
{
	struct ir_new n;
	uint8_t i;

	ir_new_init(&n, op, span);
	ir_new_arg(&n, v);
	for (i = 0; i < all->ndims; i++) {
		if (!ir_type_has(some, all->dims[i])) {
			ir_new_dim(&n, IR_ATTR_OVER, all->dims[i]);
		}
	}
	return n.nattrs ? derive_append(m, r, &n) : v;
}

/* Reorders the dims of v as in `type`: gradients have a weight's layout. */
static value_id
arrange(struct ir_module *m, region_id r, value_id v,
	const struct ir_type *type, struct span span)
{
	const struct ir_type *have = ir_type(m, v);
	struct ir_new n;
	uint8_t i;

	if (memcmp(have->dims, type->dims,
		   type->ndims * sizeof type->dims[0]) == 0) {
		return v;
	}
	ir_new_init(&n, IR_ARRANGE, span);
	ir_new_arg(&n, v);
	for (i = 0; i < type->ndims; i++) {
		ir_new_dim(&n, IR_ATTR_OVER, type->dims[i]);
	}
	return derive_append(m, r, &n);
}

value_id
derive_fit(struct ir_module *m, region_id r, value_id v,
	   const struct ir_type *type, struct span span)
{
	struct ir_type want = *type, have = *ir_type(m, v);

	v = over_missing(m, r, IR_SUM, v, &have, &want, span);
	have = *ir_type(m, v);
	v = over_missing(m, r, IR_EXPAND, v, &want, &have, span);
	v = arrange(m, r, v, &want, span);
	return derive_cast(m, r, v, want.dtype, span);
}

value_id
derive_full(struct ir_module *m, region_id r, double v,
	    const struct ir_type *type, struct span span)
{
	struct ir_type want = *type;

	return derive_fit(m, r, constant(m, r, v, want.dtype, span), &want,
			  span);
}

/* ---- the parser ---- */

static struct term expression(struct derive *d);

static void
blank(struct derive *d)
{
	d->at += strspn(d->at, " ");
}

static bool
eat(struct derive *d, char c)
{
	blank(d);
	if (*d->at != c) {
		return false;
	}
	d->at++;
	return true;
}

static void
expect(struct derive *d, char c)
{
	if (!eat(d, c)) {
		die("derivative of %s: `%c` expected at \"%s\"",
		    ir_ops[d->node.op].name, c, d->at);
	}
}

static size_t
word_length(const char *p)
{
	size_t n = 0;

	while (isalnum((unsigned char)p[n]) || p[n] == '_') {
		n++;
	}
	return n;
}

static value_id
as_value(struct derive *d, struct term t, uint8_t dtype)
{
	return t.is_number ? constant(d->m, d->region, t.number, dtype,
				      d->node.span)
			   : t.value;
}

static double
calculate(enum ir_op op, double a, double b)
{
	return op == IR_ADD ? a + b : op == IR_SUB ? a - b
	     : op == IR_MUL ? a * b : a / b;
}

static struct term
binary(struct derive *d, enum ir_op op, struct term a, struct term b)
{
	struct term t = { .is_number = a.is_number && b.is_number };
	struct ir_new n;

	if (t.is_number) {
		t.number = calculate(op, a.number, b.number);
		return t;
	}
	ir_new_init(&n, op, d->node.span);
	ir_new_arg(&n, as_value(d, a, b.is_number ? 0 :
				ir_type(d->m, b.value)->dtype));
	ir_new_arg(&n, as_value(d, b, a.is_number ? 0 :
				ir_type(d->m, a.value)->dtype));
	t.value = derive_append(d->m, d->region, &n);
	return t;
}

static const struct ir_factor *
factor_of(struct derive *d, const char *p, size_t n)
{
	char name[16] = "";
	const struct ir_factor *f;

	memcpy(name, p, n < sizeof name ? n : sizeof name - 1);
	f = ir_rule_factor(&d->rule, name);
	if (!f) {
		die("derivative of %s: no factor `%s`",
		    ir_ops[d->node.op].name, name);
	}
	return f;
}

/* Parses `key=factor`, `key=0`, `key=count(f)` or a flag. */
static void
named_argument(struct derive *d, struct ir_new *n, size_t length)
{
	const struct ir_factor *f;
	enum ir_attr_key key;
	const char *p = d->at;
	struct ir_attr *a;
	uint8_t i;

	if (!ir_find_attr(arena_strndup(&d->m->ctx->tmp, p, length), &key)) {
		die("derivative of %s: no attribute at \"%s\"",
		    ir_ops[d->node.op].name, p);
	}
	d->at += length;
	if (ir_attrs[key].kind == ATTR_FLAG) {
		ir_new_attr(n, key);
		return;
	}
	expect(d, '=');
	if (ir_attrs[key].kind == ATTR_INT) {
		ir_new_int(n, key, (int64_t)expression(d).number);
		return;
	}
	blank(d);
	length = word_length(d->at);
	f = factor_of(d, d->at, length);
	d->at += length;
	a = ir_new_attr(n, key);	/* set even if it names no dim */
	for (i = 0; i < f->n; i++) {
		a->dims[a->ndims++] = f->dims[i];
	}
}

/* Whether the next argument is an attribute, not an operand. */
static bool
is_named(struct derive *d, enum ir_op op, size_t length)
{
	enum ir_attr_key key;
	const char *next = d->at + length + strspn(d->at + length, " ");

	if (!length || !ir_find_attr(arena_strndup(&d->m->ctx->tmp, d->at,
						   length), &key)) {
		return false;
	}
	return *next == '=' || (ir_attrs[key].kind == ATTR_FLAG &&
				ir_op_takes(op, key) != IR_TAKES_NOT);
}

/* Copies attributes from the forward node that the text leaves out. */
static void
inherit(struct derive *d, struct ir_new *n)
{
	uint32_t i, k;

	for (i = 0; i < d->node.nattrs; i++) {
		struct ir_attr a = d->m->attrs.at[d->node.attrs + i];
		bool said = false;

		for (k = 0; k < n->nattrs; k++) {
			said |= n->attrs[k].key == a.key;
		}
		if (!said && ir_op_takes(n->op, a.key) != IR_TAKES_NOT) {
			*ir_new_attr(n, a.key) = a;
		}
	}
}

static struct term
call(struct derive *d, enum ir_op op)
{
	struct term t = { 0 }, args[IR_MAX_OPERANDS];
	uint32_t nargs = 0, i;
	uint8_t dtype = 0;
	struct ir_new n;

	ir_new_init(&n, op, d->node.span);
	do {
		size_t length;

		blank(d);
		length = word_length(d->at);
		if (is_named(d, op, length)) {
			named_argument(d, &n, length);
			continue;
		}
		args[nargs] = expression(d);
		nargs++;
	} while (eat(d, ','));
	expect(d, ')');
	for (i = 0; i < nargs; i++) {
		ir_new_arg(&n, as_value(d, args[i], dtype));
		dtype = ir_type(d->m, n.args[0])->dtype;
	}
	inherit(d, &n);
	/* used only where the op's row leaves the dtype open */
	n.types[0].dtype = ir_type(d->m,
				   ir_args(d->m, &d->node)[0])->dtype;
	t.value = derive_append(d->m, d->region, &n);
	return t;
}

/* Parses count(factor) and f32(x), which are not ops. */
static bool
special_call(struct derive *d, const char *p, size_t n, struct term *t)
{
	const struct ir_factor *f;
	uint8_t i;

	if (n == 5 && strncmp(p, "count", 5) == 0) {
		blank(d);
		n = word_length(d->at);
		f = factor_of(d, d->at, n);
		d->at += n;
		t->is_number = true;
		t->number = 1;
		for (i = 0; i < f->n; i++) {
			t->number *= (double)ir_dim_size(d->m, f->dims[i]);
		}
		expect(d, ')');
		return true;
	}
	if (n == 3 && strncmp(p, "f32", 3) == 0) {
		*t = expression(d);
		t->value = derive_cast(d->m, d->region, t->value, IR_F32,
				d->node.span);
		expect(d, ')');
		return true;
	}
	return false;
}

static value_id
itself(void *user, value_id v)
{
	(void)user;
	return v;
}

/* Moves the region's last node to the place after the one of `d`. */
static void
move_beside(struct derive *d)
{
	struct ir_region *r = &d->m->regions.at[d->forward];
	node_id last = r->nodes.at[r->nodes.n - 1];
	uint32_t i = r->nodes.n - 1;

	for (; r->nodes.at[i - 1] != d->id; i--) {
		r->nodes.at[i] = r->nodes.at[i - 1];
	}
	r->nodes.at[i] = last;
}

/* Computes a definition in forward; returns what stands for it in backward.
 * Where one region has both, as a model's body has, it stays at the end: pass
 * `stage` knows that it is of forward (ir_is_beside). */
static value_id
forward_value(struct derive *d, const char *text)
{
	struct derive f = *d;
	value_id v;

	f.at = text;
	f.region = d->forward;
	f.local = itself;
	v = expression(&f).value;
	if (d->forward != d->region) {
		move_beside(d);
	}
	return d->local(d->user, v);
}

static value_id
definition(struct derive *d, char name)
{
	const char *here = d->at;
	uint32_t i;

	for (i = 0; i < d->ndefs; i++) {
		if (d->defs[i].name != name) {
			continue;
		}
		if (!d->defs[i].value && d->defs[i].forward) {
			d->defs[i].value = forward_value(d, d->defs[i].text);
		} else if (!d->defs[i].value) {
			d->at = d->defs[i].text;
			d->defs[i].value = expression(d).value;
			d->at = here;
		}
		return d->defs[i].value;
	}
	die("derivative of %s: nothing is named %c", ir_ops[d->node.op].name,
	    name);
}

static struct term
word(struct derive *d)
{
	size_t n = word_length(d->at);
	const char *p = d->at;
	struct term t = { 0 };
	enum ir_attr_key key;
	enum ir_op op;

	d->at += n;
	if (eat(d, '(')) {
		if (special_call(d, p, n, &t)) {
			return t;
		}
		if (!ir_find_op(arena_strndup(&d->m->ctx->tmp, p, n), &op)) {
			die("derivative of %s: no op at \"%s\"",
			    ir_ops[d->node.op].name, p);
		}
		return call(d, op);
	}
	if (n == 1 && *p == 'g') {
		t.value = d->g;
	} else if (n == 1 && *p == 'y') {
		t.value = d->local(d->user, d->node.result);
	} else if (n == 1 && *p >= 'a' && *p < 'a' + (int)d->node.nargs) {
		t.value = d->local(d->user, ir_args(d->m, &d->node)[*p - 'a']);
	} else if (n == 1 && isupper((unsigned char)*p)) {
		t.value = definition(d, *p);
	} else if (ir_find_attr(arena_strndup(&d->m->ctx->tmp, p, n), &key)) {
		t.is_number = true;
		t.number = ir_attr_num(d->m, &d->node, key, 0);
	} else {
		die("derivative of %s: \"%s\"", ir_ops[d->node.op].name, p);
	}
	return t;
}

static struct term
primary(struct derive *d)
{
	struct term t = { .is_number = true };
	char *end;

	blank(d);
	if (eat(d, '-')) {
		struct term minus = { .is_number = true, .number = -1 };

		return binary(d, IR_MUL, minus, primary(d));
	}
	if (eat(d, '(')) {
		t = expression(d);
		expect(d, ')');
		return t;
	}
	if (isdigit((unsigned char)*d->at)) {
		t.number = strtod(d->at, &end);
		d->at = end;
		return t;
	}
	return word(d);
}

static struct term
product(struct derive *d)
{
	struct term t = primary(d);

	for (;;) {
		if (eat(d, '*')) {
			t = binary(d, IR_MUL, t, primary(d));
		} else if (eat(d, '/')) {
			t = binary(d, IR_DIV, t, primary(d));
		} else {
			return t;
		}
	}
}

static struct term
expression(struct derive *d)
{
	struct term t = product(d);

	for (;;) {
		if (eat(d, '+')) {
			t = binary(d, IR_ADD, t, product(d));
		} else if (eat(d, '-')) {
			t = binary(d, IR_SUB, t, product(d));
		} else {
			return t;
		}
	}
}

/* ---- rows of ops.def ---- */

/* Finds the next `stop` or `;` outside of parentheses, or the end. */
static const char *
skip(const char *p, char stop)
{
	int depth = 0;

	for (; *p; p++) {
		depth += (*p == '(') - (*p == ')');
		if (depth == 0 && (*p == stop || *p == ';')) {
			break;
		}
	}
	return p;
}

/* The derivative text of operand k; NULL if there is none. */
static const char *
operand_text(enum ir_op op, uint32_t k)
{
	const char *p = ir_ops[op].grad, *colon = strchr(p, ':');

	for (p = colon ? colon + 1 : p; k > 0; k--) {
		p = skip(p, ';');
		if (!*p) {
			return NULL;
		}
		p++;
	}
	p += strspn(p, " ");
	return *p && *p != ';' ? p : NULL;
}

bool
derive_has(enum ir_op op, uint32_t k)
{
	return operand_text(op, k) != NULL;
}

void
derive_init(struct derive *d, struct ir_module *m, node_id n)
{
	const char *p, *colon;

	memset(d, 0, sizeof *d);
	d->m = m;
	d->id = n;
	d->node = *ir_node(m, n);
	ir_bind(m, &d->node, &d->rule);
	p = ir_ops[d->node.op].grad;
	colon = strchr(p, ':');
	while (colon && p < colon) {
		struct derive_def *def = &d->defs[d->ndefs++];

		p += strspn(p, " ");
		def->name = *p++;
		p += strspn(p, " ");
		def->forward = *p == '<';
		p += strspn(p, "<-=");
		def->text = p;
		p = skip(p, ',');
		p = p < colon ? p + 1 : colon;
		if (d->ndefs == DERIVE_DEFS) {
			break;
		}
	}
}

value_id
derive_operand(struct derive *d, uint32_t k)
{
	value_id v = ir_args(d->m, &d->node)[k];
	struct term t;

	d->at = operand_text(d->node.op, k);
	if (!d->at) {
		return 0;
	}
	t = expression(d);
	blank(d);
	if (*d->at && *d->at != ';') {
		die("derivative of %s: \"%s\" is left over",
		    ir_ops[d->node.op].name, d->at);
	}
	return derive_fit(d->m, d->region, as_value(d, t, 0),
			  ir_type(d->m, v), d->node.span);
}
