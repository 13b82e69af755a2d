/*
 * The text form, written.  One canonical spelling: what is printed reads
 * again (read.c) and prints byte for byte the same.  docs/ir.md specifies it.
 *
 * A broken module prints too, since that is when one wants to look at it;
 * what has no spelling then shows as `?`, which does not read.  The handler
 * of a signal prints too (passes/crash.c): so nothing here allocates, and no
 * text goes through printf but that of a number with a point.
 */
#include "ir/text/scan.h"	/* SCAN_MAX_TERMS */

#include <string.h>

struct ir_printer {
	struct ir_module *m;
	struct buf *out;
	uint32_t *number;	/* by value: its number plus one, 0 if none */
	bool *done;		/* by region: it was printed */
	uint32_t next;
};

static void
indent(struct ir_printer *p, int depth)
{
	while (depth-- > 0) {
		buf_puts(p->out, "  ");
	}
}

static const char *
text_of(const struct ir_printer *p, sym_t s)
{
	return s < p->m->ctx->syms.text.n ? ir_text(p->m->ctx, s) : "?";
}

static void
print_name(struct ir_printer *p, sym_t s)
{
	const struct intern *t = &p->m->ctx->syms;

	if (s < t->text.n) {
		buf_add(p->out, t->text.at[s], t->len.at[s]);
	} else {
		buf_putc(p->out, '?');
	}
}

/* `word`, then the name. */
static void
print_word_name(struct ir_printer *p, const char *word, sym_t s)
{
	buf_puts(p->out, word);
	print_name(p, s);
}

static void
print_dim_name(struct ir_printer *p, dim_id d)
{
	if (d && d < p->m->dims.n) {
		print_name(p, p->m->dims.at[d].name);
	} else {
		buf_putc(p->out, '?');
	}
}

/* ---- text in quotes ---- */

/* The bytes before the next one that has to be escaped or is not ASCII. */
static size_t
plain(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n && s[i] >= 0x20 && s[i] < 0x7f && s[i] != '"' &&
	     s[i] != '\\'; i++) {
	}
	return i;
}

/*
 * The length of the printable UTF-8 character at s, or 0: it has to be escaped.
 */
static size_t
printable(const unsigned char *s, size_t n)
{
	static const unsigned char least[] = { 0, 0, 0xa0, 0xa0, 0x90 };
	size_t k, i;

	if (s[0] < 0x80) {
		return s[0] >= 0x20 && s[0] != 0x7f;
	}
	k = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	if (s[0] < 0xc2 || s[0] > 0xf4 || k > n) {
		return 0;
	}
	for (i = 1; i < k; i++) {
		if ((s[i] & 0xc0) != 0x80) {
			return 0;
		}
	}
	/* U+0080..9F are controls; then overlong forms, surrogates, the end */
	if ((s[0] == 0xc2 || s[0] == 0xe0 || s[0] == 0xf0) &&
	    s[1] < least[k]) {
		return 0;
	}
	if ((s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f)) {
		return 0;
	}
	return k;
}

static void
print_hex(struct ir_printer *p, unsigned char c)
{
	static const char digits[] = "0123456789abcdef";

	buf_puts(p->out, "\\x");
	buf_putc(p->out, digits[c >> 4]);
	buf_putc(p->out, digits[c & 15]);
}

static void
print_string(struct ir_printer *p, sym_t sym)
{
	const char *s = text_of(p, sym);
	size_t n = sym < p->m->ctx->syms.len.n ? p->m->ctx->syms.len.at[sym]
					       : 1, i, k;

	buf_putc(p->out, '"');
	for (i = 0; i < n; i += k ? k : 1) {
		k = plain(s + i, n - i);
		if (k) {
			buf_add(p->out, s + i, k);
			continue;
		}
		k = printable((const unsigned char *)s + i, n - i);
		if (s[i] == '"' || s[i] == '\\') {
			buf_putc(p->out, '\\');
			buf_putc(p->out, s[i]);
		} else if (k) {
			buf_add(p->out, s + i, k);
		} else if (s[i] == '\n') {
			buf_puts(p->out, "\\n");
		} else if (s[i] == '\t') {
			buf_puts(p->out, "\\t");
		} else {
			print_hex(p, (unsigned char)s[i]);
		}
	}
	buf_putc(p->out, '"');
}

/* ---- expressions ---- */

static int
precedence(int kind)
{
	return kind == EXPR_CONST || kind == EXPR_DIM ? 3
		: kind == EXPR_MUL || kind == EXPR_DIV ? 2 : 1;
}

/*
 * All operators are left-associative, so a right operand of the same precedence
 * is put in parentheses.  Operands are older than the expressions that refer to
 * them; shared ones could make the text grow exponentially, so `left` limits
 * what may still be printed.
 */
static void
print_expr(struct ir_printer *p, expr_id id, int least, int *left)
{
	static const char *const sign[] = {
		[EXPR_ADD] = " + ", [EXPR_SUB] = " - ",
		[EXPR_MUL] = " * ", [EXPR_DIV] = " / "
	};
	const struct ir_expr *e;
	int own;

	if (!id || id >= p->m->exprs.n || --*left < 0) {
		buf_putc(p->out, '?');
		return;
	}
	e = &p->m->exprs.at[id];
	own = precedence(e->kind);
	if (e->kind == EXPR_CONST) {
		buf_int(p->out, e->value);
	} else if (e->kind == EXPR_DIM) {
		print_dim_name(p, e->dim);
	} else {
		buf_puts(p->out, own < least ? "(" : "");
		print_expr(p, e->lhs < id ? e->lhs : 0, own, left);
		buf_puts(p->out, e->kind <= EXPR_DIV ? sign[e->kind] : "?");
		print_expr(p, e->rhs < id ? e->rhs : 0, own + 1, left);
		buf_puts(p->out, own < least ? ")" : "");
	}
}

static void
print_whole_expr(struct ir_printer *p, expr_id id)
{
	int left = 3 * SCAN_MAX_TERMS;

	print_expr(p, id, 0, &left);
}

/* ---- before the functions ---- */

static void
print_setting(struct ir_printer *p, const struct ir_setting *s)
{
	const int most = sizeof s->num / sizeof s->num[0];
	int i;

	print_word_name(p, "set ", s->key);
	buf_puts(p->out, " = ");
	if (s->kind == SET_STR) {
		print_string(p, s->text);
	} else if (s->kind == SET_WORD) {
		print_name(p, s->text);
	} else {
		buf_puts(p->out, s->n == 1 ? "" : "(");
		for (i = 0; i < s->n && i < most; i++) {
			buf_puts(p->out, i ? ", " : "");
			buf_double(p->out, s->num[i]);
		}
		buf_puts(p->out, s->n == 1 ? "" : ")");
	}
	buf_putc(p->out, '\n');
}

static void
print_hint(struct ir_printer *p, const struct ir_hint *h)
{
	print_word_name(p, "hint ", h->verb);
	print_word_name(p, " ", h->what);
	if (h->axis) {
		print_word_name(p, " on ", h->axis);
	}
	buf_putc(p->out, '\n');
}

static void
print_header(struct ir_printer *p)
{
	const struct ir_module *m = p->m;
	uint32_t i;

	buf_puts(p->out, "llmc-ir 1\n");
	if (m->name) {
		print_word_name(p, "module ", m->name);
		buf_putc(p->out, '\n');
	}
	for (i = 1; i < m->dims.n; i++) {
		const struct ir_dim *d = &m->dims.at[i];

		print_word_name(p, "dim ", d->name);
		buf_puts(p->out, " = ");
		if (d->expr) {
			print_whole_expr(p, d->expr);
		} else {
			buf_int(p->out, d->size);
		}
		buf_putc(p->out, '\n');
	}
	for (i = 1; i < m->axes.n; i++) {
		const struct ir_axis *a = &m->axes.at[i];

		print_word_name(p, "axis ", a->name);
		buf_puts(p->out, " = ");
		buf_int(p->out, a->size);
		buf_puts(p->out, a->time ? " time" : "");
		buf_puts(p->out, a->balanced ? " balanced\n" : "\n");
	}
	for (i = 0; i < m->settings.n; i++) {
		print_setting(p, &m->settings.at[i]);
	}
	for (i = 0; i < m->hints.n; i++) {
		print_hint(p, &m->hints.at[i]);
	}
}

/* ---- values, types, attributes ---- */

static void
print_type(struct ir_printer *p, value_id v)
{
	type_id id = v < p->m->values.n ? p->m->values.at[v].type : 0;
	const struct ir_type *t = id < p->m->ctx->types->at.n
		? ir_type_of(p->m->ctx, id) : ir_type_of(p->m->ctx, 0);
	int i;

	buf_puts(p->out, t->dtype < IR_DTYPE_COUNT
		? ir_dtypes[t->dtype].name : "?");
	if (t->of) {
		buf_putc(p->out, '<');
		print_dim_name(p, t->of);
		buf_putc(p->out, '>');
	}
	buf_putc(p->out, '[');
	for (i = 0; i < t->ndims && i < IR_MAX_DIMS; i++) {
		buf_puts(p->out, i ? ", " : "");
		print_dim_name(p, t->dims[i]);
		ir_put_cut(p->m, t->cut[i], p->out);
	}
	buf_putc(p->out, ']');
	ir_put_marks(p->m, t, p->out);
}

static void
print_value(struct ir_printer *p, value_id v)
{
	sym_t hint;

	if (!v || v >= p->m->values.n || !p->number[v]) {
		buf_puts(p->out, "%?");
		return;
	}
	hint = p->m->values.at[v].hint;
	buf_putc(p->out, '%');
	if (hint) {
		print_name(p, hint);
		buf_putc(p->out, '.');
	}
	buf_int(p->out, p->number[v] - 1);
}

/* The first occurrence of a value gives it the next number of its function. */
static void
print_definition(struct ir_printer *p, value_id v)
{
	if (v && v < p->m->values.n) {
		p->number[v] = ++p->next;
	}
	print_value(p, v);
}

static void
print_values(struct ir_printer *p, const value_id *v, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		buf_puts(p->out, i ? ", " : "");
		print_value(p, v[i]);
	}
}

static void
print_dims(struct ir_printer *p, const struct ir_attr *a)
{
	int i;

	buf_puts(p->out, a->ndims == 1 ? "" : "(");
	for (i = 0; i < a->ndims && i < IR_MAX_DIMS; i++) {
		buf_puts(p->out, i ? ", " : "");
		print_dim_name(p, a->dims[i]);
	}
	buf_puts(p->out, a->ndims == 1 ? "" : ")");
}

static void
print_axes(struct ir_printer *p, const struct ir_attr *a)
{
	int i;

	buf_puts(p->out, a->ndims == 1 ? "" : "(");
	for (i = 0; i < a->ndims && i < IR_MAX_AXES; i++) {
		buf_puts(p->out, i ? ", " : "");
		buf_puts(p->out, ir_axis_name(p->m, a->dims[i]));
	}
	buf_puts(p->out, a->ndims == 1 ? "" : ")");
}

static void
print_int(struct ir_printer *p, const struct ir_attr *a)
{
	const struct ir_module *m = p->m;

	if (!a->expr || a->expr >= m->exprs.n ||
	    m->exprs.at[a->expr].kind == EXPR_CONST) {
		buf_int(p->out, a->i);
	} else {
		buf_putc(p->out, '(');
		print_whole_expr(p, a->expr);
		buf_putc(p->out, ')');
	}
}

static void
print_attr(struct ir_printer *p, const struct ir_attr *a)
{
	enum ir_attr_kind kind;

	if (a->key >= IR_NATTRS) {
		buf_puts(p->out, " ?");
		return;
	}
	kind = ir_attrs[a->key].kind;
	buf_putc(p->out, ' ');
	buf_puts(p->out, ir_attrs[a->key].name);
	buf_puts(p->out, kind == ATTR_FLAG ? "" : "=");
	switch (kind) {
	case ATTR_DIM:
	case ATTR_DIMS:
		print_dims(p, a);
		break;
	case ATTR_AXES:
		print_axes(p, a);
		break;
	case ATTR_INT:
		print_int(p, a);
		break;
	case ATTR_NUM:
		buf_double(p->out, a->num);
		break;
	case ATTR_FLAG:
		break;
	case ATTR_WORD:
		print_name(p, a->text);
		break;
	case ATTR_STR:
		print_string(p, a->text);
		break;
	case ATTR_NUMS:
		buf_putc(p->out, '(');
		print_name(p, a->text);
		buf_putc(p->out, ')');
		break;
	case ATTR_DTYPE:
		buf_puts(p->out, a->i >= 0 && a->i < IR_DTYPE_COUNT
			? ir_dtypes[a->i].name : "?");
		break;
	}
}

/* ---- nodes and regions ---- */

static void print_region(struct ir_printer *p, region_id r, int depth);

/* A module without any operands has no array of them. */
static const value_id *
operands(const struct ir_printer *p, const struct ir_node *n)
{
	return n->nargs ? ir_args(p->m, n) : NULL;
}

static void
print_operands(struct ir_printer *p, const struct ir_node *n)
{
	const struct ir_module *m = p->m;

	if (ir_is(n->op, IRF_CALLS)) {
		buf_putc(p->out, ' ');
		if (n->callee && n->callee < m->funcs.n) {
			print_name(p, m->funcs.at[n->callee].name);
		} else {
			buf_putc(p->out, '?');
		}
		buf_putc(p->out, '(');
		print_values(p, operands(p, n), n->nargs);
		buf_putc(p->out, ')');
	} else if (!ir_is(n->op, IRF_REGION) && n->nargs) {
		buf_putc(p->out, ' ');
		print_values(p, operands(p, n), n->nargs);
	}
}

/*
 * `(%x.4 = %x.2, ...)`: the values that a repeat carries, and their initial
 * ones.
 */
static void
print_carried(struct ir_printer *p, const struct ir_node *n)
{
	const struct ir_region *r = &p->m->regions.at[n->region];
	const value_id *args = operands(p, n);
	uint32_t i;

	buf_puts(p->out, " (");
	for (i = 0; i < r->params.n || i < n->nargs; i++) {
		buf_puts(p->out, i ? ", " : "");
		print_definition(p, i < r->params.n ? r->params.at[i] : 0);
		buf_puts(p->out, " = ");
		print_value(p, i < n->nargs ? args[i] : 0);
	}
	buf_putc(p->out, ')');
}

/* Whether the node's ids may be followed. */
static bool
can_print(const struct ir_printer *p, node_id id)
{
	const struct ir_module *m = p->m;
	const struct ir_node *n;

	if (!id || id >= m->nodes.n) {
		return false;
	}
	n = ir_node(m, id);
	return n->op < IR_OP_COUNT && n->args <= m->args.n &&
	       n->nargs <= m->args.n - n->args && n->attrs <= m->attrs.n &&
	       n->nattrs <= m->attrs.n - n->attrs &&
	       n->result < m->values.n &&
	       n->nresults <= m->values.n - n->result;
}

static void
print_node(struct ir_printer *p, const struct ir_node *n, int depth)
{
	bool region = ir_is((enum ir_op)n->op, IRF_REGION);
	uint32_t i;

	for (i = 0; i < n->nresults; i++) {
		buf_puts(p->out, i ? ", " : "");
		print_definition(p, n->result + i);
	}
	buf_puts(p->out, n->nresults ? " = " : "");
	buf_puts(p->out, ir_ops[n->op].name);
	print_operands(p, n);
	for (i = 0; i < n->nattrs; i++) {
		print_attr(p, &p->m->attrs.at[n->attrs + i]);
	}
	if (region && n->region && n->region < p->m->regions.n) {
		print_carried(p, n);
	}
	for (i = 0; i < n->nresults; i++) {
		buf_puts(p->out, i ? ", " : " : ");
		print_type(p, n->result + i);
	}
	buf_puts(p->out, region ? " {\n" : "\n");
	if (region) {
		print_region(p, n->region, depth + 1);
	}
}

static void
print_region(struct ir_printer *p, region_id id, int depth)
{
	const struct ir_region *r;
	uint32_t i;

	if (!id || id >= p->m->regions.n || p->done[id] ||
	    depth > IR_MAX_DEPTH + 1) {
		indent(p, depth);
		buf_puts(p->out, "?\n");
		return;
	}
	r = &p->m->regions.at[id];
	p->done[id] = true;
	for (i = 0; i < r->nodes.n; i++) {
		indent(p, depth);
		if (can_print(p, r->nodes.at[i])) {
			print_node(p, ir_node(p->m, r->nodes.at[i]), depth);
		} else {
			buf_puts(p->out, "?\n");
		}
	}
	indent(p, depth);
	buf_puts(p->out, depth > 1 ? "yield" : "return");
	buf_puts(p->out, r->results.n ? " " : "");
	print_values(p, r->results.at, r->results.n);
	buf_putc(p->out, '\n');
	indent(p, depth - 1);
	buf_puts(p->out, "}\n");
}

static void
print_func(struct ir_printer *p, const struct ir_func *f)
{
	const struct ir_region *body = &p->m->regions.at
		[f->body < p->m->regions.n ? f->body : 0];
	uint32_t i;

	p->next = 0;
	if (f->is_model) {
		buf_puts(p->out, "\nmodel {\n");
	} else {
		print_word_name(p, "\nlayer ", f->name);
		buf_putc(p->out, '(');
		for (i = 0; i < body->params.n; i++) {
			buf_puts(p->out, i ? ", " : "");
			print_definition(p, body->params.at[i]);
			buf_puts(p->out, ": ");
			print_type(p, body->params.at[i]);
		}
		buf_puts(p->out, ") {\n");
	}
	print_region(p, f->body, 1);
}

void
ir_print_ready(const struct ir_module *m, struct arena *a,
	       struct ir_print_scratch *out)
{
	out->number = arena_alloc(a, m->values.n * sizeof *out->number);
	out->done = arena_alloc(a, m->regions.n * sizeof *out->done);
}

void
ir_print_in(struct ir_module *m, const struct ir_print_scratch *scratch,
	    struct buf *out)
{
	struct ir_printer p = { .m = m, .out = out, .number = scratch->number,
			     .done = scratch->done };
	uint32_t i;

	print_header(&p);
	for (i = 1; i < m->funcs.n; i++) {
		print_func(&p, &m->funcs.at[i]);
	}
}

void
ir_print(struct ir_module *m, struct buf *out)
{
	struct ir_print_scratch scratch;

	ir_print_ready(m, &m->ctx->tmp, &scratch);
	ir_print_in(m, &scratch, out);
}
