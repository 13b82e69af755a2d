/*
 * Calls: their arguments, sorted by what they are, and which of three things
 * is called.  lang_ops.c knows the ops, functions.c and linear.c what is more
 * than an op; everything else is a layer.
 */
#include "frontend/lang/call.h"

#include <string.h>

/* ---- what a call may name ---- */

bool
lower_is_flag(const char *word)
{
	int i;

	for (i = 0; i < IR_NATTRS; i++) {
		if (ir_attrs[i].kind == ATTR_FLAG &&
		    strcmp(ir_attrs[i].name, word) == 0) {
			return true;
		}
	}
	return lower_word("bias transposed", word) >= 0;
}

static const struct call_fn *
find_function(const char *name)
{
	size_t i;

	for (i = 0; i < call_nfunctions; i++) {
		if (strcmp(call_functions[i].name, name) == 0) {
			return &call_functions[i];
		}
	}
	return NULL;
}

bool
lower_is_function(const char *name)
{
	return find_function(name) != NULL;
}

bool
call_has_flag(const struct call *c, const char *word)
{
	int i = lower_word(c->flags, word);

	return i >= 0 && (c->flag_bits & 1u << i);
}

const struct ast_expr *
call_named(const struct call *c, const char *word)
{
	const struct ast_arg *a;

	for (a = c->e->args; a; a = a->next) {
		if (a->name.sym &&
		    strcmp(lower_text(c->l, a->name.sym), word) == 0) {
			return a->expr;
		}
	}
	return NULL;
}

/* ---- sorting arguments ---- */

/* All named arguments and flags of the call, for a message. */
static const char *
taken(const struct call *c)
{
	const char *named = lower_words(c->l, c->named, "and");
	const char *flags = lower_words(c->l, c->flags, "and");

	if (!*flags) {
		return *named ? named : "neither named arguments nor flags";
	}
	return arena_printf(&c->l->ctx->tmp, "%s%sthe flag%s %s", named,
			    *named ? ", and " : "",
			    strchr(c->flags, ' ') ? "s" : "", flags);
}

/* `word = ...`: known, and given once. */
static bool
check_named(struct call *c, const struct ast_arg *a)
{
	const char *word = lower_text(c->l, a->name.sym);
	struct diag_near near;
	const struct ast_arg *b;

	for (b = c->e->args; b != a; b = b->next) {
		if (b->name.sym == a->name.sym) {
			diag_error(c->l->diags, a->name.span,
				   "`%s` is given twice", word);
			return false;
		}
	}
	if (lower_word(c->named, word) >= 0) {
		return true;
	}
	if (lower_word(c->flags, word) >= 0) {
		diag_error(c->l->diags, a->name.span, "`%s` of %s is a flag, "
			   "written without a value", word, c->name);
		return false;
	}
	diag_near_init(&near, word);
	lower_near(c->l, &near, c->named);
	lower_near(c->l, &near, c->flags);
	diag_error(c->l->diags, a->name.span, "%s takes no `%s`%s: it takes "
		   "%s", c->name, word,
		   diag_near_text(&near, &c->l->ctx->tmp), taken(c));
	return false;
}

/* Whether a bare name is one of the call's flags; notes that it is given. */
static bool
take_flag(struct call *c, sym_t name, struct span at)
{
	const char *word = lower_text(c->l, name);
	int flag = lower_word(c->flags, word);

	if (flag < 0) {
		return false;
	}
	if (c->flag_bits & 1u << flag) {
		diag_error(c->l->diags, at, "the flag `%s` is given twice",
			   word);
	}
	c->flag_bits |= 1u << flag;
	return true;
}

bool
call_has_dim(const dim_id *list, uint32_t n, dim_id d)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (list[i] == d) {
			return true;
		}
	}
	return false;
}

static bool
take_dim(struct call *c, dim_id d, struct span at, bool behind)
{
	dim_id *list = behind ? c->to : c->dims;
	uint32_t *n = behind ? &c->nto : &c->ndims;

	if (!behind && call_has_dim(list, *n, d)) {
		diag_error(c->l->diags, at, "`%s` is given twice",
			   ir_dim_name(c->l->m, d));
		return false;
	}
	if (*n == IR_MAX_DIMS) {
		diag_error(c->l->diags, at, "a call takes at most %d dims, "
			   "and this is one more", IR_MAX_DIMS);
		return false;
	}
	(behind ? c->to_at : c->dim_at)[*n] = at;
	list[(*n)++] = d;
	return true;
}

/* A bare word that is known, but not as such; false if it is not known. */
static bool
report_word(struct call *c, sym_t name, struct span at)
{
	const char *word = lower_text(c->l, name);

	if (lower_word(c->named, word) >= 0) {
		diag_error(c->l->diags, at, "`%s` of %s takes a value: "
			   "%s = ...", word, c->name, word);
		return true;
	}
	if (lower_is_flag(word)) {
		diag_error(c->l->diags, at, "%s takes no flag `%s`: it takes "
			   "%s", c->name, word, taken(c));
		return true;
	}
	return false;
}

/* A name that is no variable, before the arrow: a flag or a dim. */
static bool
bare_name(struct call *c, const struct ast_expr *e)
{
	dim_id d;

	if (take_flag(c, e->sym, e->span)) {
		return true;
	}
	d = lower_find_dim(c->l, e->sym);
	if (d) {
		return take_dim(c, d, e->span, false);
	}
	return !report_word(c, e->sym, e->span) &&
	       lower_unknown_name(c->l, e, c->name, c->flags);
}

/* A name behind the arrow: a dim or a flag. */
static bool
arrow_name(struct call *c, const struct ast_name *n)
{
	dim_id d;

	if (take_flag(c, n->sym, n->span)) {
		return true;
	}
	if (!lower_find_dim(c->l, n->sym) &&
	    report_word(c, n->sym, n->span)) {
		return false;
	}
	d = lower_dim_or(c->l, n->sym, n->span, c->name, c->flags);
	return d && take_dim(c, d, n->span, true);
}

static bool
positional(struct call *c, const struct ast_expr *e)
{
	uint32_t i = c->nargs;

	if (e->kind == AST_NAME && !lower_is_value(c->l, e->sym)) {
		return bare_name(c, e);
	}
	if (i >= IR_MAX_ARGS) {
		if (i == IR_MAX_ARGS) {
			diag_error(c->l->diags, e->span, "a call takes at "
				   "most %d operands, and this is one more",
				   IR_MAX_ARGS);
			c->nargs++;	/* says so once */
		}
		return false;
	}
	c->nargs++;
	c->arg_at[i] = e->span;
	return lower_value(c->l, e, &c->args[i]);
}

static bool
sort_args(struct call *c)
{
	const struct ast_arg *a;
	const struct ast_name *n;
	uint32_t errors = c->l->diags->errors;
	bool ok = true;

	for (a = c->e->args; a && !fe_too_many_errors(c->l->ctx,
			c->l->errors_before); a = a->next) {
		ok &= a->name.sym ? check_named(c, a)
				  : positional(c, a->expr);
	}
	for (n = c->e->arrow; n; n = n->next) {
		ok &= arrow_name(c, n);
	}
	return ok && c->l->diags->errors == errors;
}

/* ---- how many of each ---- */

/* "1 operand", "no dim", "2 to 8 dims behind `->`" */
static const char *
range_text(struct call *c, const char *what, const char *where, uint32_t lo,
	   uint32_t hi)
{
	struct arena *a = &c->l->ctx->tmp;
	const char *s = hi == 1 || hi == 0 ? "" : "s";

	if (hi == 0) {
		return arena_printf(a, "no %s%s", what, where);
	}
	if (lo == hi) {
		return arena_printf(a, "%u %s%s%s", lo, what, s, where);
	}
	return arena_printf(a, "%u %s %u %s%s%s", lo, hi == lo + 1 ? "or"
			    : "to", hi, what, s, where);
}

/* The span of the first one too many, or of the whole call. */
static bool
check_count(struct call *c, const char *what, const char *where, uint32_t n,
	    const struct span *at, uint32_t lo, uint32_t hi,
	    const char *usage)
{
	const char *given = n == 0 ? "none is" : n == 1 ? "1 is"
		: arena_printf(&c->l->ctx->tmp, "%u are", n);

	if (n >= lo && n <= hi) {
		return true;
	}
	diag_error(c->l->diags, n > hi ? at[hi] : c->e->span,
		   "%s takes %s, and %s given: it is written %s", c->name,
		   range_text(c, what, where, lo, hi), given, usage);
	return false;
}

bool
call_sort(struct call *c, const struct call_takes *t)
{
	const char *where = t->max_to ? " before `->`" : "";

	return sort_args(c) &&
	       check_count(c, "operand", "", c->nargs, c->arg_at,
			   t->min_args, t->max_args, t->usage) &&
	       check_count(c, "dim", where, c->ndims, c->dim_at, t->min_dims,
			   t->max_dims, t->usage) &&
	       check_count(c, "dim", " behind `->`", c->nto, c->to_at,
			   t->min_to, t->max_to, t->usage);
}

bool
call_dims(struct call *c, const struct ast_expr *e, dim_id *list, uint8_t *n)
{
	struct ast_arg one = { .expr = (struct ast_expr *)e };
	const struct ast_arg *a = e->kind == AST_TUPLE ? e->args : &one;

	for (*n = 0; a; a = a->next) {
		dim_id d;

		if (a->expr->kind != AST_NAME) {
			diag_error(c->l->diags, a->expr->span,
				   "the name of a dim is expected");
			return false;
		}
		if (*n == IR_MAX_DIMS) {
			diag_error(c->l->diags, a->expr->span, "a list of "
				   "dims has at most %d, and this is one more",
				   IR_MAX_DIMS);
			return false;
		}
		d = lower_dim(c->l, a->expr->sym, a->expr->span);
		if (!d) {
			return false;
		}
		if (call_has_dim(list, *n, d)) {
			diag_error(c->l->diags, a->expr->span,
				   "`%s` is given twice",
				   ir_dim_name(c->l->m, d));
			return false;
		}
		list[(*n)++] = d;
	}
	return true;
}

bool
call_positive(struct call *c, const struct ast_expr *e, const char *what,
	      double *out)
{
	const char *quoted = arena_printf(&c->l->ctx->tmp, "`%s`", what);

	if (!lower_number(c->l, e, quoted, out)) {
		return false;
	}
	if (*out <= 0) {
		diag_error(c->l->diags, e->span, "%s is %s, and it must be "
			   "above 0", quoted, lower_number_text(c->l, *out));
		return false;
	}
	return true;
}

/* ---- functions ---- */

static bool
call_function(struct call *c, const struct call_fn *f, uint32_t max,
	      value_id *out, uint32_t *n)
{
	c->named = f->named;
	c->flags = f->flags;
	if (!call_sort(c, &f->takes)) {
		return false;
	}
	*n = f->many ? c->nto : 1;
	if (*n > max) {
		diag_error(c->l->diags, c->e->span, "%s makes %u values, and "
			   "there is room for %u: it is written %s", c->name,
			   *n, max, f->takes.usage);
		return false;
	}
	return f->run(c, out);
}

/* ---- layers ---- */

static bool
check_operands(struct call *c, func_id f)
{
	struct ir_module *m = c->l->m;
	const struct ir_region *r = &m->regions.at[m->funcs.at[f].body];
	const struct ast_param *p = c->l->funcs.at[f].layer->params;
	uint32_t i;

	for (i = 0; i < c->nargs; i++, p = p->next) {
		const struct ir_type *want = ir_type(m, r->params.at[i]);
		const struct ir_type *have = ir_type(m, c->args[i]);

		if (!ir_type_equal(want, have)) {
			diag_error(c->l->diags, c->arg_at[i], "operand %u of "
				   "layer `%s` is %s, and %s is expected",
				   i + 1, c->name, ir_type_text(m, have),
				   ir_type_text(m, want));
			diag_note(c->l->diags, p->name.span,
				  "operand `%s` is declared here",
				  lower_text(c->l, p->name.sym));
			return false;
		}
	}
	return true;
}

/* Checks what the call gives and takes against the layer's head. */
static bool
check_layer(struct call *c, func_id f, uint32_t max)
{
	struct ir_module *m = c->l->m;
	const struct ir_region *r = &m->regions.at[m->funcs.at[f].body];
	struct call_takes takes = { .min_args = r->params.n,
				    .max_args = r->params.n };
	const struct ast_param *p;
	struct buf b;

	buf_init(&b, &c->l->ctx->tmp);
	buf_printf(&b, "%s(", c->name);
	for (p = c->l->funcs.at[f].layer->params; p; p = p->next) {
		buf_printf(&b, "%s%s", lower_text(c->l, p->name.sym),
			   p->next ? ", " : "");
	}
	buf_putc(&b, ')');
	takes.usage = buf_text(&b);
	c->named = c->flags = "";
	if (!call_sort(c, &takes)) {
		return false;
	}
	if (r->results.n > max) {
		diag_error(c->l->diags, c->e->span, "layer `%s` returns %u "
			   "values, and there is room for %u", c->name,
			   r->results.n, max);
		diag_note(c->l->diags, m->funcs.at[f].span,
			  "it is declared here");
		return false;
	}
	return check_operands(c, f);
}

static bool
has_none(const value_id *v, uint32_t n)
{
	while (n > 0 && v[n - 1]) {
		n--;
	}
	return n > 0;
}

/* Whether a layer's head or results had errors: its calls stay silent. */
static bool
is_broken(const struct ir_region *r)
{
	return r->results.n == 0 || has_none(r->params.at, r->params.n) ||
	       has_none(r->results.at, r->results.n);
}

static bool
call_layer(struct call *c, func_id f, uint32_t max, value_id *out,
	   uint32_t *n)
{
	struct ir_module *m = c->l->m;
	struct ir_new node;
	uint32_t errors = c->l->diags->errors, i;
	sym_t name;

	c->l->funcs.at[f].called = true;
	if (is_broken(&m->regions.at[m->funcs.at[f].body]) ||
	    !check_layer(c, f, max)) {
		return false;
	}
	name = lower_call_name(c->l, c->e, f);
	if (c->l->diags->errors != errors) {
		return false;
	}
	*n = m->regions.at[m->funcs.at[f].body].results.n;
	ir_new_init(&node, IR_CALL, c->e->span);
	node.callee = f;
	node.nargs = c->nargs;
	memcpy(node.args, c->args, c->nargs * sizeof c->args[0]);
	node.nresults = *n;
	for (i = 0; i < *n; i++) {
		node.types[i] = *ir_type(m,
			m->regions.at[m->funcs.at[f].body].results.at[i]);
	}
	if (name) {
		ir_new_text(&node, IR_ATTR_NAME, name);
	}
	out[0] = lower_append(c->l, &node, c->e);
	for (i = 1; i < *n; i++) {
		out[i] = out[0] + i;
	}
	return out[0] != 0;
}

/* ---- what is it that is called ---- */

static bool
unknown_call(struct call *c)
{
	struct lower *l = c->l;
	/* further down, or the one that this stands in */
	const struct ast_name *below = lower_declared(l, AST_LAYER,
						      c->e->sym);
	const struct binding *b = lower_lookup(l, c->e->sym);
	struct diag_near near;
	func_id f;
	size_t i;

	if (below) {
		diag_error(l->diags, c->e->name_span, "layer `%s` is called "
			   "before its end: a layer calls only layers above "
			   "it, and never itself", c->name);
		diag_note(l->diags, below->span, "layer `%s` is here",
			  c->name);
		return false;
	}
	if (b) {
		diag_error(l->diags, c->e->name_span, "`%s` is a value, and "
			   "cannot be called", c->name);
		diag_note(l->diags, b->span, "`%s` is declared here", c->name);
		return false;
	}
	diag_near_init(&near, c->name);
	for (i = 0; i < call_nfunctions; i++) {
		diag_near_try(&near, call_functions[i].name);
	}
	for (i = 0; i < IR_OP_COUNT; i++) {
		if (ir_ops[i].nargs > 0) {
			diag_near_try(&near, ir_ops[i].name);
		}
	}
	for (f = 1; f < l->m->funcs.n && f < MAX_TRIES; f++) {
		diag_near_try(&near, lower_text(l, l->m->funcs.at[f].name));
	}
	diag_error(l->diags, c->e->name_span, "no function or layer is named "
		   "`%s`%s", c->name, diag_near_text(&near, &l->ctx->tmp));
	return false;
}

bool
lower_call(struct lower *l, const struct ast_expr *e, uint32_t max,
	   value_id *out, uint32_t *n)
{
	struct call c = { .l = l, .e = e, .name = lower_text(l, e->sym) };
	func_id f = lower_meaning(l, e->sym)->func;
	const struct call_fn *fn = find_function(c.name);
	enum ir_op op;
	bool is_op = !fn && ir_find_op(c.name, &op) && ir_ops[op].nargs > 0;

	if (f) {
		return call_layer(&c, f, max, out, n);
	}
	if (e->at && (fn ? !fn->weights : is_op)) {
		diag_error(l->diags, e->at_span, "%s has no weights, so `@` "
			   "names nothing here", c.name);
		return false;
	}
	if (fn) {
		return call_function(&c, fn, max, out, n);
	}
	*n = 1;
	return is_op ? call_op(&c, op, out) : unknown_call(&c);
}
