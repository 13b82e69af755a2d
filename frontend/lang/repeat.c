/*
 * Repeats.  What the body assigns and has a value outside is carried from trip
 * to trip; everything else ends with the repeat.
 */
#include "frontend/lang/lower.h"

/* A repeat's variables: names it assigns that exist outside. */
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
			struct binding *b = lower_lookup(l, n->sym);

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

/* The body's last values must be what the next trip starts from. */
static bool
close_repeat(struct lower *l, const struct carried *c, struct ir_new *n)
{
	struct ir_module *m = l->m;
	region_id r = l->scope->region;
	uint32_t i;

	for (i = 0; i < c->n; i++) {
		struct binding *b = lower_lookup(l, c->name[i]->sym);
		const struct ir_type *before, *after;

		if (!c->init[i] || !b->value) {
			return false;
		}
		b->used = true;
		before = ir_type(m, c->init[i]);
		after = ir_type(m, b->value);
		if (!ir_type_equal(before, after)) {
			diag_error(l->diags, b->span, "`%s` is %s before the "
				   "repeat and %s after a trip",
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

void
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
