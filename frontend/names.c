/*
 * Names: what each one means, dims and whole numbers over them, types, and
 * the names of tensors, which a checkpoint is read by and so must be unique.
 */
#include "frontend/lower.h"

#include <math.h>
#include <string.h>

#define MAX_TENSORS 4096	/* templates in one function */

/* ---- lists of words, and what a name means ---- */

int
lower_word(const char *list, const char *word)
{
	size_t len = strlen(word);
	int i;

	for (i = 0; *list; i++) {
		size_t n = strcspn(list, " ");

		if (len == n && strncmp(list, word, n) == 0) {
			return i;
		}
		list += n;
		list += strspn(list, " ");
	}
	return -1;
}

const char *
lower_words(struct lower *l, const char *list, const char *last)
{
	struct buf b;

	buf_init(&b, &l->ctx->tmp);
	while (*list) {
		size_t n = strcspn(list, " ");
		const char *next = list + n + strspn(list + n, " ");

		if (b.n) {
			buf_printf(&b, *next ? ", " : " %s ", last);
		}
		buf_add(&b, list, n);
		list = next;
	}
	return buf_text(&b);
}

void
lower_near(struct lower *l, struct diag_near *near, const char *list)
{
	while (*list) {
		size_t n = strcspn(list, " ");

		diag_near_try(near, arena_strndup(&l->ctx->tmp, list, n));
		list += n;
		list += strspn(list, " ");
	}
}

struct meaning *
lower_meaning(struct lower *l, sym_t name)
{
	while (l->names.n <= name) {
		VEC_PUSH(&l->ctx->perm, &l->names, (struct meaning){ 0 });
	}
	return &l->names.at[name];
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

/* A dim further down; its declaration, or NULL. */
static const struct ast_name *
declared_below(const struct lower *l, sym_t name)
{
	const struct ast_stmt *s;

	for (s = l->body; s; s = s->next) {
		if (s->kind == AST_DIM && s->names->sym == name) {
			return s->names;
		}
	}
	return NULL;
}

static void
unknown_dim(struct lower *l, sym_t name, struct span at,
	    const char *function, const char *flags)
{
	const char *text = lower_text(l, name);
	const struct binding *b = lower_lookup(l, name);
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
	i = near.best ? lower_meaning(l, intern_str(&l->ctx->syms,
						    near.best))->dim : 0;
	if (i && l->m->dims.at[i].span.hi) {
		diag_note(l->diags, l->m->dims.at[i].span,
			  "`%s` is declared here", near.best);
	}
}

dim_id
lower_dim_or(struct lower *l, sym_t name, struct span at,
	     const char *function, const char *flags)
{
	dim_id d = lower_find_dim(l, name);
	const struct ast_name *below = d ? NULL : declared_below(l, name);

	if (d) {
		return d;
	}
	if (below) {
		diag_error(l->diags, at, "dim `%s` is used above its "
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
	return lower_dim_or(l, name, at, "", "");
}

static expr_id
dim_number(struct lower *l, const struct ast_expr *e)
{
	if (e->is_int) {
		return ir_expr_const(l->m, e->i);
	}
	if (e->num != floor(e->num)) {
		diag_error(l->diags, e->span, "%s is no whole number",
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

/* Reported problems leave the dim out: nothing behind them is lowered. */
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

bool
lower_dtype(struct lower *l, sym_t name, struct span at, enum ir_dtype *dtype)
{
	const char *text = lower_text(l, name);
	struct diag_near near;
	struct buf legal;
	int i;

	if (ir_find_dtype(text, dtype) && ir_dtypes[*dtype].is_float) {
		return true;
	}
	buf_init(&legal, &l->ctx->tmp);
	diag_near_init(&near, text);
	for (i = 0; i < IR_DTYPE_COUNT; i++) {
		if (ir_dtypes[i].is_float) {
			diag_near_try(&near, ir_dtypes[i].name);
			buf_printf(&legal, "%s%s", legal.n ? " " : "",
				   ir_dtypes[i].name);
		}
	}
	diag_error(l->diags, at, "`%s` is no element type of numbers%s: "
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
			diag_error(l->diags, n->span, "`%s` stands twice in "
				   "one type", lower_text(l, n->sym));
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

/* ---- tensor names ---- */

static const struct scope *
repeat_of(const struct lower *l, sym_t var)
{
	const struct scope *s;

	for (s = l->scope; s; s = s->outer) {
		if (s->outer && s->var == var) {
			return s;
		}
	}
	return NULL;
}

/* One {name}: a repeat variable here, or the weight's outermost dim. */
static bool
placeholder(struct lower *l, sym_t name, struct span at,
	    const struct ir_type *type, struct tensor_name *out)
{
	const struct scope *r = repeat_of(l, name);
	dim_id d = r ? 0 : lower_meaning(l, name)->dim;
	const char *text = lower_text(l, name);

	if (out->n == MAX_RANGES) {
		diag_error(l->diags, at, "this name has more than %d "
			   "placeholders", MAX_RANGES);
		return false;
	}
	if (!r && !(type && d && type->ndims && type->dims[0] == d)) {
		const char *also = !type ? "" : arena_printf(&l->ctx->tmp,
			", nor the outermost dim of the weight, %s",
			ir_type_text(l->m, type));

		diag_error(l->diags, at, "{%s} is no variable of a repeat "
			   "around this%s", text, also);
		return false;
	}
	out->lo[out->n] = r ? r->lo : 0;
	out->hi[out->n] = r ? r->hi : ir_dim_size(l->m, d);
	out->n++;
	return true;
}

/* Reads the placeholders of `text` into ranges, and writes them as {}. */
static bool
template(struct lower *l, const char *text, struct span at,
	 const struct ir_type *type, struct tensor_name *out)
{
	struct buf b;
	size_t n;

	buf_init(&b, &l->ctx->tmp);
	for (; *text; text += n) {
		n = strcspn(text, "{}");
		buf_add(&b, text, n);
		text += n;
		if (!*text) {
			break;
		}
		n = strcspn(text, "}");
		if (*text == '}' || !text[n] || n < 2) {
			diag_error(l->diags, at, "`{` and `}` do not pair in "
				   "this name: {i} is the variable of a "
				   "repeat, or a dim");
			return false;
		}
		if (!placeholder(l, intern(&l->ctx->syms, text + 1, n - 1),
				 at, type, out)) {
			return false;
		}
		buf_puts(&b, "{}");
		n++;
	}
	out->text = intern_str(&l->ctx->syms, buf_text(&b));
	out->span = at;
	return true;
}

/* Each trip of a repeat must have tensors of its own. */
static bool
names_all_trips(struct lower *l, const char *text, struct span at)
{
	const struct scope *s;

	for (s = l->scope; s->outer; s = s->outer) {
		const char *var = s->var ? lower_text(l, s->var) : "i";
		const char *want = arena_printf(&l->ctx->tmp, "{%s}", var);

		if (s->hi - s->lo > 1 && !strstr(text, want)) {
			diag_error(l->diags, at, "every trip of the repeat "
				   "would use the same tensor: put %s into "
				   "this name%s", want,
				   s->var ? "" : ", and `as i` behind the "
				   "repeat's count");
			diag_note(l->diags, s->span, "this repeat makes %lld "
				  "trips", (long long)(s->hi - s->lo));
			return false;
		}
	}
	return true;
}

/* A name for what has none: unique in the function, one per trip. */
static const char *
made_up(struct lower *l, const struct ast_expr *call, struct span at)
{
	const char *what = lower_text(l, call->sym);
	struct scope *s;
	struct buf b;

	buf_init(&b, &l->ctx->perm);
	buf_printf(&b, "%s%u", what, l->autonames++);
	for (s = l->scope; s->outer; s = s->outer) {
		if (!s->var) {
			s->var = intern_str(&l->ctx->syms, arena_printf(
				&l->ctx->tmp, "trip%u", l->autonames++));
		}
		buf_printf(&b, ".{%s}", lower_text(l, s->var));
	}
	lower_warn(l, WARN_UNNAMED_WEIGHT, at, "no @ \"name\" follows %s, so "
		   "no checkpoint holds its weights: they are named `%s`",
		   what, buf_text(&b));
	return buf_text(&b);
}

sym_t
lower_tensor_name(struct lower *l, const struct ast_expr *call,
		  const char *suffix, const struct ir_type *type,
		  struct tensor_name *out)
{
	struct span at = call->at ? call->at_span : call->name_span;
	const char *base = call->at ? lower_text(l, call->at)
				    : made_up(l, call, at);
	const char *text = arena_printf(&l->ctx->perm, "%s%s", base, suffix);

	memset(out, 0, sizeof *out);
	out->written = call->at;
	if (!template(l, text, at, type, out) ||
	    !names_all_trips(l, text, at)) {
		return 0;
	}
	return intern_str(&l->ctx->syms, text);
}

/* One tensor name template while it is compared with another. */
struct place {
	const char *p;
	const struct tensor_name *of;
	uint8_t k;		/* placeholders passed */
};

/* A placeholder's range, or a number's; false if neither stands here. */
static bool
number_at(struct place *a, int64_t *lo, int64_t *hi)
{
	size_t n = strspn(a->p, "0123456789");

	if (a->p[0] == '{') {
		*lo = a->of->lo[a->k];
		*hi = a->of->hi[a->k++];
		a->p += 2;
		return true;
	}
	if (!num_parse_int(a->p, n, lo) || (a->p[0] == '0' && n > 1)) {
		return false;
	}
	*hi = *lo == INT64_MAX ? *lo : *lo + 1;
	a->p += n;
	return true;
}

/* Whether two templates have a name in common, as h.{0..9} and h.3. */
static bool
clash(struct lower *l, const struct tensor_name *x,
      const struct tensor_name *y)
{
	struct place a = { lower_text(l, x->text), x, 0 };
	struct place b = { lower_text(l, y->text), y, 0 };
	int64_t alo, ahi, blo, bhi;

	while (*a.p && *b.p) {
		if (*a.p != '{' && *b.p != '{') {
			if (*a.p++ != *b.p++) {
				return false;
			}
		} else if (!number_at(&a, &alo, &ahi) ||
			   !number_at(&b, &blo, &bhi) || ahi <= blo ||
			   bhi <= alo) {
			return false;
		}
	}
	return *a.p == *b.p;
}

/* h.{0..11}.weight */
static const char *
ranges_text(struct lower *l, const struct tensor_name *t)
{
	const char *p = lower_text(l, t->text);
	struct buf b;
	uint8_t k = 0;

	buf_init(&b, &l->ctx->tmp);
	for (; *p; p++) {
		buf_putc(&b, *p);
		if (*p == '{') {
			buf_printf(&b, "%lld..%lld", (long long)t->lo[k],
				   (long long)t->hi[k] - 1);
			k++;
		}
	}
	return buf_text(&b);
}

bool
lower_add_tensor(struct lower *l, const struct tensor_name *t)
{
	struct func_info *f = &l->funcs.at[l->func];
	uint32_t i;

	for (i = 0; i < f->tensors.n; i++) {
		if (clash(l, &f->tensors.at[i], t)) {
			diag_error(l->diags, t->span, "a second tensor is "
				   "named `%s`: name them apart by @, or "
				   "share one by `tied`", ranges_text(l, t));
			diag_note(l->diags, f->tensors.at[i].span,
				  "the first one, `%s`, is here",
				  ranges_text(l, &f->tensors.at[i]));
			return false;
		}
	}
	if (f->tensors.n == MAX_TENSORS) {
		diag_error(l->diags, t->span, "more than %d tensor names in "
			   "one layer", MAX_TENSORS);
		return false;
	}
	VEC_PUSH(&l->ctx->perm, &f->tensors, *t);
	return true;
}

/* Whether what stands here runs more than once. */
static bool
in_repeat(const struct lower *l)
{
	const struct scope *s;

	for (s = l->scope; s->outer; s = s->outer) {
		if (s->hi - s->lo > 1) {
			return true;
		}
	}
	return false;
}

sym_t
lower_call_name(struct lower *l, const struct ast_expr *call, func_id callee)
{
	struct tensor_name prefix, t;
	sym_t name;
	uint32_t i, j;

	if (l->funcs.at[callee].tensors.n == 0) {
		if (call->at) {
			diag_error(l->diags, call->at_span, "layer `%s` has "
				   "no weights, so `@` names nothing here",
				   lower_text(l, call->sym));
		}
		return 0;
	}
	memset(&prefix, 0, sizeof prefix);
	prefix.span = call->name_span;
	name = 0;
	if (call->at || in_repeat(l)) {
		name = lower_tensor_name(l, call, "", NULL, &prefix);
		if (!name) {
			return 0;
		}
	}
	for (i = 0; i < l->funcs.at[callee].tensors.n; i++) {
		const struct tensor_name *in =
			&l->funcs.at[callee].tensors.at[i];

		t = prefix;
		t.text = !name ? in->text :
			intern_str(&l->ctx->syms, arena_printf(&l->ctx->tmp,
			"%s.%s", lower_text(l, prefix.text),
			lower_text(l, in->text)));
		if (t.n + in->n > MAX_RANGES) {
			diag_error(l->diags, prefix.span, "the tensor name "
				   "`%s` has more than %d placeholders",
				   lower_text(l, t.text), MAX_RANGES);
			return 0;
		}
		for (j = 0; j < in->n; j++) {
			t.lo[t.n] = in->lo[j];
			t.hi[t.n++] = in->hi[j];
		}
		t.written = 0;
		t.value = 0;
		if (!lower_add_tensor(l, &t)) {
			return 0;
		}
	}
	return name;
}
