/*
 * From the tree to IR: blocks, layers and statements.  One walk in source
 * order, so a name must be declared above its use.  Errors are collected; a
 * statement that failed binds its names to value 0, whose uses report nothing.
 */
#include "frontend/lang/lower.h"

#include <string.h>

/* ---- statements ---- */

static struct span
names_span(const struct ast_name *n)
{
	struct span at = n->span;

	for (; n; n = n->next) {
		at.hi = n->span.hi;
	}
	return at;
}

static void
lower_assign(struct lower *l, const struct ast_stmt *s)
{
	value_id v[IR_MAX_ARGS] = { 0 };
	uint32_t want = 0, n = 0, i;
	const struct ast_name *name;
	bool ok;

	for (name = s->names; name; name = name->next) {
		want++;
	}
	if (want > IR_MAX_ARGS) {
		diag_error(l->diags, names_span(s->names), "%u names are "
			   "assigned, and %d is the limit", want,
			   IR_MAX_ARGS);
		return;
	}
	ok = lower_results(l, s->exprs->expr, want, v, &n);
	if (ok && n != want) {
		diag_error(l->diags, names_span(s->names), "%u names are "
			   "assigned %u value%s", want, n,
			   n == 1 ? "" : "s");
		ok = false;
	}
	for (i = 0, name = s->names; name; name = name->next, i++) {
		if (ok && !l->m->values.at[v[i]].hint) {
			l->m->values.at[v[i]].hint = name->sym;
		}
		lower_bind(l, name, ok ? v[i] : 0);
	}
}

/* The word that a statement begins with. */
static struct span
word_span(const struct ast_stmt *s, const char *word)
{
	struct span at = { s->span.lo, s->span.lo + (uint32_t)strlen(word) };

	return at;
}

static void
lower_return(struct lower *l, const struct ast_stmt *s)
{
	const struct ast_arg *a;
	value_id v;

	if (l->m->funcs.at[l->func].is_model || l->scope->outer) {
		diag_error(l->diags, word_span(s, "return"), "`return` ends "
			   "a layer; %s", l->scope->outer
			   ? "a repeat carries the variables that it assigns"
			   : "a model's result is its variable `loss`, or "
			   "`logits`");
		return;
	}
	if (s->next) {
		diag_error(l->diags, s->next->span,
			   "nothing may follow `return`");
		diag_note(l->diags, word_span(s, "return"),
			  "the layer ends here");
		return;
	}
	for (a = s->exprs; a; a = a->next) {
		struct ir_region *r = &l->m->regions.at[l->scope->region];

		if (r->results.n == IR_MAX_ARGS) {
			diag_error(l->diags, a->expr->span, "more than %d "
				   "values are returned", IR_MAX_ARGS);
			return;
		}
		if (!lower_value(l, a->expr, &v)) {
			v = 0;
		}
		r = &l->m->regions.at[l->scope->region];
		VEC_PUSH(&l->ctx->perm, &r->results, v);
	}
}

static void
lower_input(struct lower *l, const struct ast_stmt *s)
{
	const struct ast_name *name = &s->params->name;
	const struct variable *old = lower_lookup(l, name->sym);
	value_id *place = lower_implicit_input(l, name->sym);
	struct ir_new n;
	value_id v = 0;

	ir_new_init(&n, IR_INPUT, s->span);
	n.hint = name->sym;
	ir_new_text(&n, IR_ATTR_NAME, name->sym);
	if (old || (place && *place)) {
		diag_error(l->diags, name->span, "`%s` %s",
			   lower_text(l, name->sym), old
			   ? "is assigned above, and cannot be an input too"
			   : "is used above, as the input that it is unless "
			   "declared");
		return;
	}
	if (lower_type(l, s->params, &n.types[0])) {
		v = lower_append_in(l, l->scope->region, &n, s->span);
	}
	lower_bind(l, name, v);
}

/* ---- repeats ---- */

static void lower_stmts(struct lower *l, const struct ast_stmt *s);

/* The variables that a repeat carries: it assigns them, and they had a value
 * before it.  Everything else that it assigns ends with it. */
struct carried {
	struct ast_name *name[IR_MAX_ARGS];
	value_id init[IR_MAX_ARGS];
	uint32_t n;
};

static bool
is_carried(const struct carried *c, sym_t name)
{
	uint32_t i;

	for (i = 0; i < c->n; i++) {
		if (c->name[i]->sym == name) {
			return true;
		}
	}
	return false;
}

static bool
find_carried(struct lower *l, const struct ast_stmt *s, struct carried *c)
{
	struct ast_name *n;

	for (; s; s = s->next) {
		if (s->kind == AST_REPEAT && !find_carried(l, s->body, c)) {
			return false;
		}
		for (n = s->kind == AST_ASSIGN ? s->names : NULL; n;
		     n = n->next) {
			struct variable *b = lower_lookup(l, n->sym);

			if (!b || is_carried(c, n->sym)) {
				continue;
			}
			if (c->n == IR_MAX_ARGS) {
				diag_error(l->diags, n->span, "more than %d "
					   "variables change in this repeat",
					   IR_MAX_ARGS);
				return false;
			}
			c->name[c->n] = n;
			c->init[c->n++] = b->value;
			b->used = true;
		}
	}
	return true;
}

static bool
repeat_range(struct lower *l, const struct ast_stmt *s, struct ir_new *n)
{
	int64_t count, start = 0;
	struct ir_attr *a;
	expr_id expr;

	if (!lower_int(l, s->exprs->expr, "the count of a repeat", 1, 1000000,
		       &count, &expr)) {
		return false;
	}
	a = ir_new_attr(n, IR_ATTR_COUNT);
	a->i = count;
	a->expr = expr;
	if (s->exprs->next) {
		if (!lower_int(l, s->exprs->next->expr, "the start of a "
			       "repeat", 0, 1000000, &start, &expr)) {
			return false;
		}
		a = ir_new_attr(n, IR_ATTR_START);
		a->i = start;
		a->expr = expr;
	}
	l->scope->lo = start;
	l->scope->hi = start + count;
	return true;
}

/* Each carried variable must end an iteration with the type that the next
 * iteration starts with. */
static bool
close_repeat(struct lower *l, const struct carried *c, struct ir_new *n)
{
	struct ir_module *m = l->m;
	region_id r = l->scope->region;
	uint32_t i;

	for (i = 0; i < c->n; i++) {
		struct variable *b = lower_lookup(l, c->name[i]->sym);
		const struct ir_type *before, *after;

		if (!c->init[i] || !b->value) {
			return false;
		}
		b->used = true;
		before = ir_type(m, c->init[i]);
		after = ir_type(m, b->value);
		if (!ir_type_equal(before, after)) {
			diag_error(l->diags, b->span, "`%s` is %s before the "
				   "repeat and %s after an iteration",
				   lower_text(l, b->name),
				   ir_type_text(m, before),
				   ir_type_text(m, after));
			diag_note(l->diags, l->scope->span,
				  "the repeat starts here");
			return false;
		}
		VEC_PUSH(&l->ctx->perm, &m->regions.at[r].results, b->value);
		ir_new_arg(n, c->init[i]);
		n->types[i] = *before;
	}
	n->nresults = c->n;
	return true;
}

/* {i} in a weight's name must mean one thing. */
static bool
free_variable(struct lower *l, const struct ast_name *var)
{
	const char *name = lower_text(l, var->sym);
	const struct scope *outer = lower_repeat_of(l, var->sym);

	if (outer && outer->var_is_made) {
		diag_error(l->diags, var->span, "`%s` already names the "
			   "iterations of a repeat around this one, which has "
			   "no `as`: take another name here", name);
		diag_note(l->diags, outer->span, "that repeat is here; with "
			  "`as` and a name after its count `%s` is free",
			  name);
		return false;
	}
	if (outer) {
		diag_error(l->diags, var->span, "`%s` is the variable of a "
			   "repeat around this one already", name);
		diag_note(l->diags, outer->span, "that repeat is here");
		return false;
	}
	if (lower_meaning(l, var->sym)->dim) {
		diag_error(l->diags, var->span, "`%s` is a dim, and cannot "
			   "be the variable of a repeat", name);
		return false;
	}
	return true;
}

static bool
repeat_body(struct lower *l, const struct ast_stmt *s, struct carried *c,
	    struct ir_new *n)
{
	uint32_t errors = l->diags->errors, i;

	if (!repeat_range(l, s, n) ||
	    (s->var.sym && !free_variable(l, &s->var))) {
		return false;
	}
	l->scope->var = s->var.sym;
	for (i = 0; i < c->n; i++) {
		struct ir_type t = *ir_type(l->m, c->init[i]);
		value_id v = !c->init[i] ? 0 :
			ir_param_add(l->m, n->region, &t, c->name[i]->sym);

		lower_push_var(l, c->name[i], v, true);
	}
	lower_stmts(l, s->body);
	if (l->scope->var) {
		ir_new_text(n, IR_ATTR_VAR, l->scope->var);
	}
	return close_repeat(l, c, n) && l->diags->errors == errors;
}

/* The head of a repeat, for messages that point at it. */
static struct span
repeat_span(const struct ast_stmt *s)
{
	struct span at = s->span;

	at.hi = s->var.sym ? s->var.span.hi : s->exprs->expr->span.hi;
	return at;
}

static void
lower_repeat(struct lower *l, const struct ast_stmt *s)
{
	struct carried c = { .n = 0 };
	struct scope scope;
	struct ir_new n;
	value_id v = 0;
	uint32_t i;
	bool ok;

	if (l->depth == IR_MAX_DEPTH) {
		diag_error(l->diags, repeat_span(s), "repeats nest deeper "
			   "than %d", IR_MAX_DEPTH);
		return;
	}
	if (!find_carried(l, s->body, &c)) {
		return;
	}
	if (c.n == 0) {
		diag_error(l->diags, repeat_span(s), "this repeat changes no "
			   "variable from outside it, so it computes nothing");
		return;
	}
	ir_new_init(&n, IR_REPEAT, repeat_span(s));
	n.region = ir_region_add(l->m, 0);
	l->depth++;
	lower_push_scope(l, &scope, n.region, n.span);
	ok = repeat_body(l, s, &c, &n);
	lower_pop_scope(l);
	l->depth--;
	if (ok) {
		n.hint = c.name[0]->sym;
		v = lower_append_in(l, l->scope->region, &n, n.span);
	}
	for (i = 0; i < c.n; i++) {
		if (v) {
			l->m->values.at[v + i].hint = c.name[i]->sym;
		}
		lower_bind(l, c.name[i], v ? v + i : 0);
	}
}

/* ---- bodies ---- */

static void
lower_stmts(struct lower *l, const struct ast_stmt *s)
{
	for (; s && !fe_too_many_errors(l->ctx, l->errors_before);
	     s = s->next) {
		switch (s->kind) {
		case AST_ASSIGN:
			lower_assign(l, s);
			break;
		case AST_REPEAT:
			lower_repeat(l, s);
			break;
		case AST_RETURN:
			lower_return(l, s);
			break;
		case AST_HINT:
			lower_hint(l, s);
			break;
		case AST_INPUT:
			lower_input(l, s);
			break;
		case AST_DTYPE:
			lower_dtype(l, s->names->sym, s->names->span,
				    &l->dtype);
			break;
		case AST_DIM:
		case AST_LAYER:		/* done before the model's body */
			break;
		}
	}
}

/* ---- layers ---- */

static void
add_func(struct lower *l, const struct ast_name *name,
	 const struct ast_stmt *layer)
{
	struct func_info info = { .layer = layer };

	l->func = ir_func_add(l->m, name->sym, !layer, name->span);
	while (l->funcs.n <= l->func) {
		VEC_PUSH(&l->ctx->perm, &l->funcs, info);
	}
}

static bool
layer_name_is_free(struct lower *l, const struct ast_name *name)
{
	func_id old = lower_meaning(l, name->sym)->func;
	const char *text = lower_text(l, name->sym);
	enum ir_op op;

	if (old) {
		diag_error(l->diags, name->span,
			   "layer `%s` is declared twice", text);
		diag_note(l->diags, l->m->funcs.at[old].span,
			  "it is declared here first");
		return false;
	}
	if (ir_find_op(text, &op) || lower_is_function(text)) {
		diag_error(l->diags, name->span, "`%s` is a function of the "
			   "language, and no layer can take its name", text);
		return false;
	}
	return true;
}

static void
bind_params(struct lower *l, const struct ast_stmt *s)
{
	const struct ast_param *p;
	struct ir_type t;
	value_id v;
	uint32_t n = 0;

	for (p = s->params; p; p = p->next) {
		struct variable *b = lower_lookup(l, p->name.sym);

		if (b) {
			diag_error(l->diags, p->name.span, "operand `%s` is "
				   "declared twice",
				   lower_text(l, p->name.sym));
			diag_note(l->diags, b->span,
				  "it is declared here first");
			continue;
		}
		if (n++ == IR_MAX_ARGS) {
			diag_error(l->diags, p->name.span, "a layer has at "
				   "most %d operands, and this is one more",
				   IR_MAX_ARGS);
			return;
		}
		v = lower_type(l, p, &t)
		    ? ir_param_add(l->m, l->scope->region, &t, p->name.sym)
		    : 0;
		lower_bind(l, &p->name, v);
	}
}

static void
lower_layer(struct lower *l, const struct ast_stmt *s)
{
	uint32_t errors = l->diags->errors;
	region_id body;
	struct scope scope;

	if (!layer_name_is_free(l, s->names)) {
		return;
	}
	add_func(l, s->names, s);
	body = l->m->funcs.at[l->func].body;
	lower_push_scope(l, &scope, body, s->span);
	bind_params(l, s);
	lower_stmts(l, s->body);
	if (l->m->regions.at[body].results.n == 0 &&
	    l->diags->errors == errors) {
		diag_error(l->diags, s->names->span, "layer `%s` has no "
			   "`return`", lower_text(l, s->names->sym));
	}
	lower_pop_scope(l);
	lower_meaning(l, s->names->sym)->func = l->func;
	l->func = 0;
}

/* ---- the model ---- */

static void
warn_unused(struct lower *l)
{
	uint32_t i;

	for (i = 1; i < l->m->dims.n; i++) {
		const struct ir_dim *d = &l->m->dims.at[i];

		if (d->span.hi && (i >= l->dim_used.n ||
				   !l->dim_used.at[i])) {
			lower_warn(l, WARN_UNUSED_DIM, d->span,
				   "dim `%s` is never used",
				   lower_text(l, d->name));
		}
	}
	for (i = 1; i < l->funcs.n; i++) {
		const struct ir_func *f = &l->m->funcs.at[i];

		if (!f->is_model && !l->funcs.at[i].called) {
			lower_warn(l, WARN_UNUSED_LAYER, f->span,
				   "layer `%s` is never called",
				   lower_text(l, f->name));
		}
	}
}

static void
model_result(struct lower *l, const struct ast_block *b)
{
	static const char *const names[] = { "loss", "logits" };
	region_id r = l->scope->region;
	struct variable *v = NULL;
	int i;

	for (i = 0; i < 2 && !v; i++) {
		v = lower_lookup(l, lower_sym(l, names[i]));
	}
	if (!v) {
		if (l->diags->errors == l->errors_before) {
			diag_error(l->diags, b->name.span, "model `%s` has no "
				   "result: assign `loss`, or, to serve only, "
				   "`logits`", lower_text(l, b->name.sym));
		}
		return;
	}
	if (i == 1 && v->value && ir_type(l->m, v->value)->ndims > 0) {
		diag_error(l->diags, v->span, "`loss` is one number, and this "
			   "is %s: take the mean over its dims",
			   lower_type_text(l, v->value));
	}
	if (v->value && ir_type(l->m, v->value)->of) {
		diag_error(l->diags, v->span, "`%s` is numbers, and this is "
			   "an index, %s", names[i - 1],
			   lower_type_text(l, v->value));
	}
	VEC_PUSH(&l->ctx->perm, &l->m->regions.at[r].results, v->value);
}

/*
 * Layers use the dims and the element type above them, so these are read in
 * one walk.  After a wrong dim no body is lowered, since every use of it would
 * be reported.
 */
static void
lower_declarations(struct lower *l, const struct ast_block *b)
{
	uint32_t errors = l->diags->errors;
	const struct ast_stmt *s;
	bool ok = true;

	for (s = b->body; s && !fe_too_many_errors(l->ctx, l->errors_before);
	     s = s->next) {
		if (s->kind == AST_DIM) {
			errors = l->diags->errors;
			lower_declare_dim(l, s);
			ok &= l->diags->errors == errors;
		} else if (s->kind == AST_DTYPE) {
			ok &= lower_dtype(l, s->names->sym, s->names->span,
					  &l->dtype);
		} else if (s->kind == AST_LAYER && ok) {
			lower_layer(l, s);
		}
	}
	l->stopped = !ok;
}

/* Blocks that name dims, wherever in the file they stand. */
static void
lower_exports(struct lower *l)
{
	sym_t kind = lower_sym(l, "export");
	const struct ast_block *b;

	for (b = l->file->blocks; b; b = b->next) {
		if (b->kind.sym == kind) {
			lower_export(l, b);
		}
	}
}

static void
lower_model(struct lower *l, const struct ast_block *b)
{
	enum ir_dtype first = l->dtype;
	struct scope scope;

	l->m->name = b->name.sym;
	l->body = b->body;
	lower_declare_batch(l);
	lower_declarations(l, b);
	if (l->stopped) {
		return;
	}
	lower_exports(l);
	l->dtype = first;
	add_func(l, &b->name, NULL);
	lower_push_scope(l, &scope, l->m->funcs.at[l->func].body, b->span);
	lower_stmts(l, b->body);
	model_result(l, b);
	lower_pop_scope(l);
}

static const struct ast_block *
find_model(struct lower *l, const struct ast_file *f)
{
	const struct ast_block *b, *model = NULL;
	sym_t kind = lower_sym(l, "model"), later = lower_sym(l, "export");

	for (b = f->blocks; b; b = b->next) {
		if (b->kind.sym == later) {
			continue;
		}
		if (b->kind.sym != kind) {
			lower_settings(l, b);
		} else if (model) {
			diag_error(l->diags, b->name.span,
				   "a file holds one model, and `%s` is a "
				   "second", lower_text(l, b->name.sym));
			diag_note(l->diags, model->name.span,
				  "the first one is here");
		} else {
			model = b;
		}
	}
	if (!model) {
		diag_error(l->diags, f->blocks ? f->blocks->kind.span
			   : f->start, "this file holds no `model` block");
	}
	return model;
}

struct ir_module *
fe_lower(struct ir_ctx *c, const struct ast_file *f)
{
	struct lower l = { .ctx = c, .diags = &c->diags, .dtype = IR_F32,
			   .file = f,
			   .errors_before = c->diags.errors };
	const struct ast_block *model;
	uint32_t start = c->diags.errors;
	bool ok;

	l.m = ir_module_new(c);
	VEC_PUSH(&c->perm, &l.funcs, (struct func_info){ .called = true });
	model = find_model(&l, f);
	if (model) {
		lower_model(&l, model);
	}
	warn_unused(&l);
	lower_unused_hints(&l);
	if (c->diags.errors == start) {
		lower_settings_agree(&l);
	}
	ok = c->diags.errors == start && ir_verify(l.m);
	arena_release(&c->tmp);
	return ok ? l.m : NULL;
}

struct ir_module *
fe_compile(struct ir_ctx *c, uint32_t file)
{
	struct ast_file *f = fe_parse(c, file);

	return f ? fe_lower(c, f) : NULL;
}
