/*
 * Plans in the language: a plan block of a model's file, or a file of its
 * own.  What the keys are and which values they take stands in passes/plan*;
 * here an expression becomes a list of words and numbers.
 */
#include "frontend/ast.h"

#include <string.h>

#include "passes/plan.h"

/* `5*16`: five, sixteen times; other arithmetic is a number. */
static bool
add_number(struct ir_ctx *c, const struct ast_expr *e, bool runs,
	   struct plan_value *v)
{
	struct plan_item it = { .times = 1, .span = e->span };
	double times = 1;

	if (runs && e->kind == AST_BIN && e->op == '*') {
		if (!fe_plain_number(e->lhs, &it.num) ||
		    !fe_plain_number(e->rhs, &times)) {
			return false;
		}
		if (times < 1 || times > PLAN_MAX_STAGES ||
		    times != (double)(int64_t)times) {
			times = PLAN_MAX_STAGES + 1;	/* refused as such */
		}
		it.times = (int64_t)times;
	} else if (!fe_plain_number(e, &it.num)) {
		return false;
	}
	VEC_PUSH(&c->tmp, &v->items, it);
	return true;
}

static bool
add_item(struct ir_ctx *c, const struct ast_expr *e, bool runs,
	 struct plan_value *v)
{
	struct plan_item it = { .times = 1, .span = e->span };

	if (e->kind == AST_NAME || e->kind == AST_STR) {
		it.word = ir_text(c, e->sym);
		VEC_PUSH(&c->tmp, &v->items, it);
		return true;
	}
	if (add_number(c, e, runs, v)) {
		return true;
	}
	diag_error(&c->diags, e->span, e->kind == AST_CALL
		   ? "a value of a plan takes nothing in parentheses"
		   : "found %s, expected a word, a number or a list of them",
		   e->kind == AST_TUPLE ? "a list in a list"
		   : "arithmetic with words");
	return false;
}

void
fe_set_plan_key(struct ir_module *m, const struct ast_setting *s)
{
	const char *key = ir_text(m->ctx, s->key.sym);
	struct plan_value v = { .span = s->value->span };
	bool runs = strcmp(key, "stages") == 0;
	const struct ast_arg *a;

	if (s->value->kind != AST_TUPLE) {
		if (add_item(m->ctx, s->value, runs, &v)) {
			plan_set(m, key, s->key.span, &v);
		}
		return;
	}
	for (a = s->value->args; a; a = a->next) {
		if (!add_item(m->ctx, a->expr, runs, &v)) {
			return;
		}
	}
	plan_set(m, key, s->key.span, &v);
}

bool
fe_read_plan(struct ir_ctx *c, struct ir_module *m, uint32_t file)
{
	uint32_t errors = c->diags.errors;
	struct ast_file *f = fe_parse(c, file);
	const struct ast_block *b, *plan = NULL;
	const struct ast_setting *s;

	for (b = f ? f->blocks : NULL; b; b = b->next) {
		if (strcmp(ir_text(c, b->kind.sym), "plan") != 0) {
			diag_error(&c->diags, b->kind.span, "a file of a plan "
				   "holds one plan block and nothing else, "
				   "found a %s block",
				   ir_text(c, b->kind.sym));
		} else if (plan) {
			diag_error(&c->diags, b->kind.span, "a file of a plan "
				   "holds one plan block, and this is a "
				   "second");
			diag_note(&c->diags, plan->kind.span,
				  "the first one is here");
		} else {
			plan = b;
		}
	}
	if (f && !plan && c->diags.errors == errors) {
		diag_error(&c->diags, f->start, "this file holds no `plan` "
			   "block");
	}
	plan_clear(m);
	for (s = plan ? plan->settings : NULL; s; s = s->next) {
		fe_set_plan_key(m, s);
	}
	return c->diags.errors == errors;
}
