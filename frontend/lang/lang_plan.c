/*
 * Plans in the language: a plan block of a model's file, or a file of its
 * own.  passes/plan knows the keys and their values; here an expression
 * becomes a list of words and numbers.
 */
#include "frontend/lang/ast.h"

#include <string.h>

#include "passes/plan/plan.h"

/* The value of one key, and what it may hold besides words and numbers. */
struct plan_reader {
	struct ir_ctx *c;
	struct plan_value *v;
	bool runs;		/* `5*16` */
	bool sets;		/* `(q+k)*4`, of words */
};

/* The N of `x*N`.  What is not a count from 1 to PLAN_MAX_STAGES becomes
 * PLAN_MAX_STAGES + 1, which plan_set() refuses. */
static int64_t
times_of(double n)
{
	return n < 1 || n > PLAN_MAX_STAGES || n != (double)(int64_t)n
		? PLAN_MAX_STAGES + 1 : (int64_t)n;
}

/* `5*16`: five, sixteen times; other arithmetic is a number. */
static bool
add_number(const struct plan_reader *t, const struct ast_expr *e)
{
	struct plan_item it = { .times = 1, .span = e->span };
	double times = 1;

	if (t->runs && e->kind == AST_BIN && e->op == '*') {
		if (!ast_plain_number(e->lhs, &it.num) ||
		    !ast_plain_number(e->rhs, &times)) {
			return false;
		}
		it.times = times_of(times);
	} else if (!ast_plain_number(e, &it.num)) {
		return false;
	}
	VEC_PUSH(&t->c->tmp, &t->v->items, it);
	return true;
}

static bool
add_word(const struct plan_reader *t, const struct ast_expr *e)
{
	struct plan_item it = { .times = 1, .span = e->span };

	if (e->kind != AST_NAME && e->kind != AST_STR) {
		return false;
	}
	it.word = ir_text(t->c, e->sym);
	VEC_PUSH(&t->c->tmp, &t->v->items, it);
	return true;
}

/* The words of `q + k + silu`, or of `(q, k, silu)`. */
static bool
add_words(const struct plan_reader *t, const struct ast_expr *e)
{
	const struct ast_arg *a;

	if (e->kind == AST_BIN && e->op == '+') {
		return add_words(t, e->lhs) && add_word(t, e->rhs);
	}
	if (e->kind != AST_TUPLE) {
		return add_word(t, e);
	}
	for (a = e->args; a; a = a->next) {
		if (!add_word(t, a->expr)) {
			return false;
		}
	}
	return true;
}

/* `full*2`, `(q+k)*4`; in a list, also a set without a number. */
static bool
add_set(const struct plan_reader *t, const struct ast_expr *e, bool in_list)
{
	bool run = e->kind == AST_BIN && e->op == '*';
	uint32_t from = t->v->items.n, i;
	double times = 1;

	if (e->kind == AST_NAME || e->kind == AST_STR || !t->sets ||
	    (run && !ast_plain_number(e->rhs, &times)) ||
	    !add_words(t, run ? e->lhs : e)) {
		t->v->items.n = from;
		return false;
	}
	for (i = from; (run || in_list) && i < t->v->items.n; i++) {
		t->v->items.at[i].more = i + 1 < t->v->items.n;
		t->v->items.at[i].run = !t->v->items.at[i].more;
	}
	t->v->items.at[t->v->items.n - 1].times = times_of(times);
	return true;
}

static bool
has_word(const struct ast_expr *e)
{
	return e->kind == AST_BIN ? has_word(e->lhs) || has_word(e->rhs)
	     : e->kind == AST_NEG ? has_word(e->lhs) : e->kind != AST_NUM;
}

static bool
add_item(const struct plan_reader *t, const struct ast_expr *e, bool in_list)
{
	if (add_word(t, e) || add_set(t, e, in_list) || add_number(t, e)) {
		return true;
	}
	diag_error(&t->c->diags, e->span, e->kind == AST_CALL
		   ? "a value of a plan takes nothing in parentheses"
		   : "found %s, expected a word, a number or a list of them",
		   e->kind == AST_TUPLE ? "a list in a list"
		   : has_word(e) ? "arithmetic with words"
				 : "arithmetic that comes to no number");
	return false;
}

void
fe_set_plan_key(struct ir_module *m, const struct ast_setting *s)
{
	const char *key = ir_text(m->ctx, s->key.sym);
	struct plan_value v = { .span = s->value->span };
	struct plan_reader t = { .c = m->ctx, .v = &v };
	const struct ast_arg *a;

	t.runs = strcmp(key, "stages") == 0;
	t.sets = strcmp(key, "recompute") == 0;
	if (s->value->kind != AST_TUPLE) {
		if (add_item(&t, s->value, false)) {
			plan_set(m, key, s->key.span, &v);
		}
		return;
	}
	for (a = s->value->args; a; a = a->next) {
		if (!add_item(&t, a->expr, true)) {
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
			diag_error(&c->diags, b->kind.span, "a plan file holds "
				   "one plan block and nothing else, found "
				   "the block `%s`",
				   ir_text(c, b->kind.sym));
		} else if (plan) {
			diag_error(&c->diags, b->kind.span, "a plan file holds "
				   "one plan block, and this is a second");
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
