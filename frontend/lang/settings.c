/*
 * The blocks of `key = value;`: train, serve, target.  settings_legal.c knows
 * the keys and their values; of all keys only `batch` has a meaning here,
 * since it is a dim too.  And hints, which are settings about parts of a
 * model.
 */
#include "frontend/lang/lower.h"

#include <math.h>
#include <string.h>

/* ---- values ---- */

static bool
number(struct lower *l, const struct setting_row *r, const struct ast_expr *e,
       double *out)
{
	if (!ast_plain_number(e, out)) {
		diag_error(l->diags, e->span, "`%s` is a number from %s",
			   r->key, setting_range(l, r));
		return false;
	}
	return setting_number(l, r, *out, e->span);
}

static bool
pair(struct lower *l, const struct setting_row *r, const struct ast_expr *e,
     struct ir_setting *s)
{
	const struct ast_arg *a = e->kind == AST_TUPLE ? e->args : NULL;

	if (!a || !a->next || a->next->next) {
		return setting_no_pair(l, r, e->span);
	}
	s->n = 2;
	return number(l, r, a->expr, &s->num[0]) &&
	       number(l, r, a->next->expr, &s->num[1]);
}

static bool
word(struct lower *l, const struct setting_row *r, const struct ast_expr *e,
     struct ir_setting *s)
{
	bool named = e->kind == AST_NAME || e->kind == AST_STR ||
		     e->kind == AST_CALL;

	s->kind = e->kind == AST_STR ? SET_STR : SET_WORD;
	s->text = named ? e->sym : 0;
	return setting_word(l, r, named ? lower_text(l, e->sym) : NULL,
			    e->kind == AST_CALL ? e->name_span : e->span);
}

/* ---- keys ---- */

static void
set_key(struct lower *l, const char *block, const char *group,
	const struct ast_name *key, const struct ast_expr *e);

static void
set_group(struct lower *l, const char *block, const char *group,
	  const struct ast_expr *e)
{
	const struct ast_arg *a;

	for (a = e->args; a; a = a->next) {
		if (!a->name.sym) {
			diag_error(l->diags, a->expr->span, "`key = value` "
				   "is expected in these parentheses");
			continue;
		}
		set_key(l, block, group, &a->name, a->expr);
	}
}

static void
set_key(struct lower *l, const char *block, const char *group,
	const struct ast_name *key, const struct ast_expr *e)
{
	const char *name = lower_text(l, key->sym);
	const char *full = arena_printf(&l->ctx->perm, "%s%s", group, name);
	const struct setting_row *r = setting_row(block, full);
	struct ir_setting s = { .kind = SET_NUM, .n = 1, .span = key->span,
				.value = e->span };
	const char *set = arena_printf(&l->ctx->perm, "%s.%s", block, full);
	const struct ir_setting *old = ir_setting(l->m, set);
	bool ok;

	if (!r) {
		setting_unknown(l, block, group, name, key->span);
		return;
	}
	if (old) {
		diag_error(l->diags, key->span, "`%s` is set twice", full);
		diag_note(l->diags, old->span, "it is set here first");
		return;
	}
	s.key = lower_sym(l, set);
	if (e->kind == AST_CALL && (r->kind != SETTING_WORD || e->has_arrow ||
				    e->at)) {
		diag_error(l->diags, e->span, r->kind != SETTING_WORD
			   ? "`%s` takes nothing in parentheses"
			   : "`%s` takes `key = value` in parentheses, no "
			   "`->` and no `@`", full);
		return;
	}
	ok = r->kind == SETTING_PAIR ? pair(l, r, e, &s)
	   : r->kind >= SETTING_WORD ? word(l, r, e, &s)
	   : number(l, r, e, &s.num[0]);
	if (!ok) {
		return;
	}
	VEC_PUSH(&l->ctx->perm, &l->m->settings, s);
	if (e->kind == AST_CALL) {
		set_group(l, block, arena_printf(&l->ctx->perm, "%s.", full),
			  e);
	}
}

/* The grammar allows dotted keys, which only plans have. */
static void
dotted_key(struct lower *l, const struct ast_name *key)
{
	const char *name = lower_text(l, key->sym);
	const char *point = strchr(name, '.');

	diag_error(l->diags, key->span, "`%s` is written in parentheses, as "
		   "`%.*s = word(%s = value)`", name, (int)(point - name),
		   name, point + 1);
}

void
lower_settings(struct lower *l, const struct ast_block *b)
{
	const char *block = lower_text(l, b->kind.sym);
	const struct ast_setting *s;

	for (s = b->settings; s; s = s->next) {
		if (strcmp(block, "plan") == 0) {
			fe_set_plan_key(l->m, s);
		} else if (strchr(lower_text(l, s->key.sym), '.')) {
			dotted_key(l, &s->key);
		} else {
			set_key(l, block, "", &s->key, s->value);
		}
	}
}

/* `batch` need not be declared: a train block may set it. */
void
lower_declare_batch(struct lower *l)
{
	sym_t batch = lower_sym(l, "batch");
	double n;

	if (lower_declared(l, AST_DIM, batch)) {
		return;
	}
	n = ir_setting_num(l->m, "train.batch", 1);
	lower_add_dim(l, batch, (int64_t)n, 0, (struct span){ 0, 0 });
}

/* ---- hints ---- */

const char lower_hint_axes[] = "tp sp cp ep dp";
const char lower_hint_recompute[] = "none attention full";

static bool
hint_word(struct lower *l, const struct ast_name *n, const char *legal)
{
	const char *text = lower_text(l, n->sym);

	if (lower_word(legal, text) >= 0) {
		return true;
	}
	diag_error(l->diags, n->span, "found `%s`, expected %s", text,
		   lower_words(l, legal, "or"));
	return false;
}

/* A second hint about the same thing would contradict or repeat the first. */
static bool
hint_is_new(struct lower *l, const struct ir_hint *h, struct span at)
{
	uint32_t i;

	for (i = 0; i < l->m->hints.n; i++) {
		const struct ir_hint *old = &l->m->hints.at[i];

		if (old->verb == h->verb && (!h->axis ||
					     old->what == h->what)) {
			diag_error(l->diags, at, "`%s%s%s` is given twice",
				   lower_text(l, h->verb),
				   h->axis ? " " : "",
				   h->axis ? lower_text(l, h->what) : "");
			diag_note(l->diags, old->span,
				  "the first one is here");
			return false;
		}
	}
	return true;
}

void
lower_hint(struct lower *l, const struct ast_stmt *s)
{
	const struct ast_name *verb = s->names, *what = verb->next;
	const struct ast_name *axis = what->next;
	struct ir_hint h = { verb->sym, what->sym, axis ? axis->sym : 0,
			     s->span };

	if (axis ? lower_dim(l, what->sym, what->span) != 0 &&
		   hint_word(l, axis, lower_hint_axes)
		 : hint_word(l, what, lower_hint_recompute)) {
		if (hint_is_new(l, &h, what->span)) {
			VEC_PUSH(&l->ctx->perm, &l->m->hints, h);
		}
	}
}

static bool
some_value_has(const struct ir_module *m, dim_id d)
{
	value_id v;

	for (v = 1; v < m->values.n; v++) {
		if (ir_type_has(ir_type(m, v), d)) {
			return true;
		}
	}
	return false;
}

/* A contraction without a weight may be a part of attention. */
static bool
some_node_attends(const struct ir_module *m)
{
	node_id id;
	uint32_t k;

	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *n = ir_node(m, id);
		bool attends = ir_is(n->op, IRF_CONTRACTS);

		for (k = 0; attends && k < n->nargs; k++) {
			node_id maker = m->values.at[ir_args(m, n)[k]].node;

			attends = !ir_is(ir_node(m, maker)->op, IRF_PARAM);
		}
		if (attends) {
			return true;
		}
	}
	return false;
}

void
lower_unused_hints(struct lower *l)
{
	uint32_t i;

	for (i = 0; i < l->m->hints.n; i++) {
		const struct ir_hint *h = &l->m->hints.at[i];
		const char *what = lower_text(l, h->what);
		dim_id d = h->axis ? lower_meaning(l, h->what)->dim : 0;

		if (d && !some_value_has(l->m, d)) {
			lower_warn(l, WARN_UNUSED_HINT, h->span, "no value "
				   "has the dim `%s`, so nothing can be "
				   "sharded by it", what);
		} else if (strcmp(what, "attention") == 0 && !h->axis &&
			   !some_node_attends(l->m)) {
			lower_warn(l, WARN_UNUSED_HINT, h->span, "the model "
				   "has no attention that could be "
				   "recomputed");
		}
	}
}
