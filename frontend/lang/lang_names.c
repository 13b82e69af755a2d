/*
 * What names mean: variables and their scopes, dims and whole numbers over
 * them, and types.
 */
#include "frontend/lang/lower.h"

#include <math.h>
#include <string.h>

/* ---- what a name means ---- */

struct meaning *
lower_meaning(struct lower *l, sym_t name)
{
	while (l->names.n <= name) {
		VEC_PUSH(&l->ctx->perm, &l->names, (struct meaning){ 0 });
	}
	return &l->names.at[name];
}

const struct ast_name *
lower_declared(const struct lower *l, enum ast_stmt_kind kind, sym_t name)
{
	const struct ast_stmt *s;

	for (s = l->body; s; s = s->next) {
		if (s->kind == kind && s->names->sym == name) {
			return s->names;
		}
	}
	return NULL;
}

/* ---- variables ---- */

struct variable *
lower_lookup(struct lower *l, sym_t name)
{
	uint32_t i = lower_meaning(l, name)->var;

	return i ? &l->vars.at[i - 1] : NULL;
}

void
lower_push_var(struct lower *l, const struct ast_name *n, value_id v,
	       bool used)
{
	struct meaning *means = lower_meaning(l, n->sym);
	struct variable b = { n->sym, v, n->span, used, means->var };

	VEC_PUSH(&l->ctx->perm, &l->vars, b);
	means->var = l->vars.n;
}

/* Ends the variables of the innermost scope. */
static void
pop_vars(struct lower *l)
{
	while (l->vars.n > l->scope->first) {
		const struct variable *b = &l->vars.at[--l->vars.n];
		struct meaning *means = lower_meaning(l, b->name);

		means->var = b->hidden;
		means->gone_in = l->scope->outer ? l->func : 0;
		means->gone = b->span;
	}
}

/* Results of a model count as used, and so do names that begin with _. */
static bool
is_result(struct lower *l, sym_t name)
{
	const char *s = lower_text(l, name);

	return strcmp(s, "loss") == 0 || strcmp(s, "logits") == 0 ||
	       s[0] == '_';
}

void
lower_bind(struct lower *l, const struct ast_name *n, value_id v)
{
	struct variable *old = lower_lookup(l, n->sym);
	dim_id d = lower_meaning(l, n->sym)->dim;
	const char *name = lower_text(l, n->sym);

	if (d && !old && lower_warn(l, WARN_SHADOW, n->span, "variable `%s` "
				    "hides the dim of that name", name) &&
	    l->m->dims.at[d].span.hi) {
		diag_note(l->diags, l->m->dims.at[d].span,
			  "the dim is declared here");
	}
	if (old && !old->used && lower_warn(l, WARN_UNUSED_VALUE, old->span,
					    "the value of `%s` is never used",
					    name)) {
		diag_note(l->diags, n->span, "it is replaced here");
	}
	if (old && (size_t)(old - l->vars.at) >= l->scope->first) {
		old->value = v;
		old->span = n->span;
		old->used = is_result(l, n->sym);
	} else {
		lower_push_var(l, n, v, is_result(l, n->sym));
	}
}

/* ---- scopes ---- */

void
lower_push_scope(struct lower *l, struct scope *s, region_id r,
		 struct span at)
{
	memset(s, 0, sizeof *s);
	s->outer = l->scope;
	s->region = r;
	s->first = l->vars.n;
	s->span = at;
	l->scope = s;
}

void
lower_pop_scope(struct lower *l)
{
	uint32_t i;

	for (i = l->scope->first; i < l->vars.n; i++) {
		const struct variable *b = &l->vars.at[i];

		if (!b->used && b->value) {
			lower_warn(l, WARN_UNUSED_VALUE, b->span,
				   "the value of `%s` is never used",
				   lower_text(l, b->name));
		}
	}
	pop_vars(l);
	l->scope = l->scope->outer;
}

const struct scope *
lower_repeat_of(const struct lower *l, sym_t var)
{
	const struct scope *s;

	for (s = l->scope; s->outer; s = s->outer) {
		if (s->var == var) {
			return s;
		}
	}
	return NULL;
}

/* ---- inputs that need no declaration ---- */

/* `tokens` and `labels` exist in a model's body without being declared. */
value_id *
lower_implicit_input(struct lower *l, sym_t name)
{
	const char *s = lower_text(l, name);

	if (!l->m->funcs.at[l->func].is_model ||
	    lower_meaning(l, name)->dim) {
		return NULL;
	}
	return strcmp(s, "tokens") == 0 ? &l->tokens
	     : strcmp(s, "labels") == 0 ? &l->labels : NULL;
}

bool
lower_is_value(struct lower *l, sym_t name)
{
	return lower_lookup(l, name) || lower_implicit_input(l, name);
}

/* ---- dims ---- */

dim_id
lower_find_dim(struct lower *l, sym_t name)
{
	dim_id d = lower_meaning(l, name)->dim;

	while (l->dim_used.n <= d) {
		VEC_PUSH(&l->ctx->perm, &l->dim_used, false);
	}
	l->dim_used.at[d] = true;
	return d;
}

dim_id
lower_add_dim(struct lower *l, sym_t name, int64_t size, expr_id expr,
	      struct span at)
{
	dim_id d = ir_dim_add(l->m, name, size, expr, at);

	lower_meaning(l, name)->dim = d;
	return d;
}

static void
unknown_dim(struct lower *l, sym_t name, struct span at,
	    const char *function, const char *flags)
{
	const char *text = lower_text(l, name);
	const struct variable *b = lower_lookup(l, name);
	struct diag_near near;
	dim_id i;

	if (b && b->value) {
		diag_error(l->diags, at, "`%s` is a value, %s, and the name "
			   "of a dim is expected", text,
			   lower_type_text(l, b->value));
		return;
	}
	diag_near_init(&near, text);
	for (i = 1; i < l->m->dims.n && i < MAX_TRIES; i++) {
		diag_near_try(&near, ir_dim_name(l->m, i));
	}
	lower_near(l, &near, flags);
	diag_error(l->diags, at, "no dim%s%s is named `%s`%s",
		   *flags ? " or flag of " : "", *flags ? function : "", text,
		   diag_near_text(&near, &l->ctx->tmp));
	i = near.best ? lower_meaning(l, lower_sym(l, near.best))->dim : 0;
	if (i && l->m->dims.at[i].span.hi) {
		diag_note(l->diags, l->m->dims.at[i].span,
			  "`%s` is declared here", near.best);
	}
}

dim_id
lower_dim_or_flag(struct lower *l, sym_t name, struct span at,
		  const char *function, const char *flags)
{
	dim_id d = lower_find_dim(l, name);
	const struct ast_name *below = lower_declared(l, AST_DIM, name);

	if (d) {
		return d;
	}
	if (below) {
		diag_error(l->diags, at, "dim `%s` is used before its "
			   "declaration", lower_text(l, name));
		diag_note(l->diags, below->span, "it is declared here");
		return 0;
	}
	unknown_dim(l, name, at, function, flags);
	return 0;
}

dim_id
lower_dim(struct lower *l, sym_t name, struct span at)
{
	return lower_dim_or_flag(l, name, at, "", "");
}

static expr_id
dim_number(struct lower *l, const struct ast_expr *e)
{
	if (e->is_int) {
		return ir_expr_const(l->m, e->i);
	}
	if (e->num != floor(e->num)) {
		diag_error(l->diags, e->span, "%s is not a whole number",
			   lower_number_text(l, e->num));
		return 0;
	}
	if (e->num >= 0x1p63) {
		diag_error(l->diags, e->span, "%s is more than 63 bits hold",
			   lower_number_text(l, e->num));
		return 0;
	}
	return ir_expr_const(l->m, (int64_t)e->num);
}

/* An expression over dims; 0 after reporting. */
static expr_id
dim_expr(struct lower *l, const struct ast_expr *e)
{
	const char *ops = "+-*/", *why;
	enum ir_expr_kind kind = EXPR_SUB;
	expr_id a, b, r;
	dim_id d;

	switch (e->kind) {
	case AST_NUM:
		return dim_number(l, e);
	case AST_NAME:
		d = lower_dim(l, e->sym, e->span);
		return d ? ir_expr_dim(l->m, d) : 0;
	case AST_NEG:
		a = ir_expr_const(l->m, 0);
		b = dim_expr(l, e->lhs);
		break;
	case AST_BIN:
		kind = (enum ir_expr_kind)(EXPR_ADD +
					   (strchr(ops, e->op) - ops));
		a = dim_expr(l, e->lhs);
		b = a ? dim_expr(l, e->rhs) : 0;
		break;
	default:
		diag_error(l->diags, e->span, "found %s, expected a whole "
			   "number, or + - * / over dims",
			   e->kind == AST_STR ? "a text" :
			   e->kind == AST_CALL ? "a call" : "a list");
		return 0;
	}
	if (!b) {
		return 0;
	}
	r = ir_expr_op(l->m, kind, a, b, &why);
	if (!r) {
		diag_error(l->diags, e->span, "%s", why);
	}
	return r;
}

bool
lower_int(struct lower *l, const struct ast_expr *e, const char *what,
	  int64_t lo, int64_t hi, int64_t *value, expr_id *expr)
{
	expr_id x = dim_expr(l, e);

	if (!x) {
		return false;
	}
	*value = l->m->exprs.at[x].value;
	*expr = l->m->exprs.at[x].kind == EXPR_CONST ? 0 : x;
	if (*value < lo || *value > hi) {
		diag_error(l->diags, e->span,
			   "%s is %lld, and %lld to %lld is legal", what,
			   (long long)*value, (long long)lo, (long long)hi);
		return false;
	}
	return true;
}

/* After an error the dim is not added, and no body is lowered. */
void
lower_declare_dim(struct lower *l, const struct ast_stmt *s)
{
	const struct ast_name *n = s->names;
	const char *name = lower_text(l, n->sym);
	dim_id d = lower_meaning(l, n->sym)->dim;
	int64_t size;
	expr_id expr;

	if (d) {
		diag_error(l->diags, n->span, "dim `%s` is declared twice",
			   name);
		diag_note(l->diags, l->m->dims.at[d].span,
			  "`%s` is declared here, as %lld", name,
			  (long long)ir_dim_size(l->m, d));
	} else if (lower_is_flag(name)) {
		diag_error(l->diags, n->span, "`%s` is a word that calls "
			   "take as a flag, and cannot name a dim", name);
	} else if (lower_int(l, s->exprs->expr, arena_printf(&l->ctx->tmp,
			     "dim `%s`", name), 1, IR_MAX_SIZE, &size,
			     &expr)) {
		lower_add_dim(l, n->sym, size, expr, n->span);
	}
}

/* ---- types ---- */

/* Whether a model may compute in it: not in one for stored weights alone. */
static bool
is_computed(enum ir_dtype t)
{
	return ir_dtypes[t].is_float && t != IR_INT8 && t != IR_INT4;
}

bool
lower_dtype(struct lower *l, sym_t name, struct span at, enum ir_dtype *dtype)
{
	const char *text = lower_text(l, name);
	struct diag_near near;
	struct buf legal;
	int i;

	if (ir_find_dtype(text, dtype) && is_computed(*dtype)) {
		return true;
	}
	buf_init(&legal, &l->ctx->tmp);
	diag_near_init(&near, text);
	for (i = 0; i < IR_DTYPE_COUNT; i++) {
		if (is_computed((enum ir_dtype)i)) {
			diag_near_try(&near, ir_dtypes[i].name);
			lower_add_word(&legal, ir_dtypes[i].name);
		}
	}
	diag_error(l->diags, at, "`%s` is not an element type of numbers%s: "
		   "expected %s", text, diag_near_text(&near, &l->ctx->tmp),
		   lower_words(l, buf_text(&legal), "or"));
	return false;
}

static bool
type_dims(struct lower *l, const struct ast_param *p, struct ir_type *t)
{
	const struct ast_name *n;

	for (n = p->dims; n; n = n->next) {
		dim_id d = lower_dim(l, n->sym, n->span);

		if (!d) {
			return false;
		}
		if (ir_type_has(t, d)) {
			diag_error(l->diags, n->span, "`%s` is twice in one "
				   "type", lower_text(l, n->sym));
			return false;
		}
		if (t->ndims == IR_MAX_DIMS) {
			diag_error(l->diags, n->span, "a value has at most %d "
				   "dims, and this is one more", IR_MAX_DIMS);
			return false;
		}
		t->dims[t->ndims++] = d;
	}
	return true;
}

bool
lower_type(struct lower *l, const struct ast_param *p, struct ir_type *t)
{
	bool index = p->dtype.sym &&
		     strcmp(lower_text(l, p->dtype.sym), "idx") == 0;
	enum ir_dtype dtype = l->dtype;
	int64_t elems;

	memset(t, 0, sizeof *t);
	if (index != (p->of.sym != 0)) {
		diag_error(l->diags, p->dtype.span, index
			   ? "`%s` says what it is an index into: idx<dim>"
			   : "`%s` is no index, so no <dim> follows it",
			   lower_text(l, p->dtype.sym));
		return false;
	}
	if (index) {
		dtype = IR_IDX;
		t->of = lower_dim(l, p->of.sym, p->of.span);
	} else if (p->dtype.sym && !lower_dtype(l, p->dtype.sym,
						p->dtype.span, &dtype)) {
		return false;
	}
	t->dtype = (uint8_t)dtype;
	if ((index && !t->of) || !type_dims(l, p, t)) {
		return false;
	}
	if (!ir_type_elems(l->m, t, &elems)) {
		diag_error(l->diags, p->name.span, "%s has more elements than "
			   "63 bits can count", ir_type_text(l->m, t));
		return false;
	}
	return true;
}
