/*
 * Names of tensors, by which checkpoints are read, so that they must be
 * unique.  A name is a template with a range for each placeholder; a function
 * has one for each of its weights, and those of the layers that it calls.
 */
#include "frontend/lang/lower.h"

#include <string.h>

#define MAX_TENSORS 4096	/* templates in one function */

/* One placeholder, n characters: a number of a repeat variable here, or the
 * weight's outermost dim. */
static bool
placeholder(struct lower *l, const char *word, size_t n, struct span at,
	    const struct ir_type *type, struct tensor_name *out)
{
	const char *text = arena_printf(&l->ctx->tmp, "%.*s", (int)n, word);
	sym_t whole = lower_sym(l, text);
	struct ir_placeholder p;
	const struct scope *r;
	dim_id d;

	ir_placeholder_read(word, n, &p);
	r = lower_repeat_of(l, intern(&l->ctx->syms, p.var, p.n));
	d = r ? 0 : lower_meaning(l, whole)->dim;

	if (out->n == MAX_RANGES) {
		diag_error(l->diags, at, "this name has more than %d "
			   "placeholders", MAX_RANGES);
		return false;
	}
	if (!r && !(type && d && type->ndims && type->dims[0] == d)) {
		const char *also = !type ? "" : arena_printf(&l->ctx->tmp,
			", nor the outermost dim of the weight, %s",
			ir_type_text(l->m, type));

		diag_error(l->diags, at, "{%s} is not a variable of a repeat "
			   "around this%s%s", text, also,
			   strpbrk(text, "+-*/ ") ? "; its numbers are "
			   "written {2*i} or {2*i+1}" : "");
		return false;
	}
	out->by[out->n] = p.times;
	out->lo[out->n] = r ? ir_placeholder_at(&p, r->lo) : 0;
	out->hi[out->n] = r ? ir_placeholder_at(&p, r->hi - 1) + 1
			    : ir_dim_size(l->m, d);
	out->n++;
	return true;
}

/* Reads the placeholders of `text` into ranges, and writes them as {}. */
static bool
read_template(struct lower *l, const char *text, struct span at,
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
		if (!placeholder(l, text + 1, n - 1, at, type, out)) {
			return false;
		}
		buf_puts(&b, "{}");
		n++;
	}
	out->text = lower_sym(l, buf_text(&b));
	out->span = at;
	return true;
}

/* Whether a placeholder of the name has this variable. */
static bool
has_variable(const char *text, const char *var)
{
	const char *shut;
	struct ir_placeholder p;

	for (; (text = strchr(text, '{')) && (shut = strchr(text, '}'));
	     text = shut) {
		ir_placeholder_read(text + 1, (size_t)(shut - text) - 1, &p);
		if (ir_placeholder_is(&p, var)) {
			return true;
		}
	}
	return false;
}

/* Each iteration of a repeat must have tensors of its own. */
static bool
names_each_iteration(struct lower *l, const char *text, struct span at)
{
	const struct scope *s;

	for (s = l->scope; s->outer; s = s->outer) {
		const char *var = s->var ? lower_text(l, s->var) : "i";
		const char *want = arena_printf(&l->ctx->tmp, "{%s}", var);

		if (s->hi - s->lo > 1 && !has_variable(text, var)) {
			diag_error(l->diags, at, "every iteration of the "
				   "repeat would use the same tensor: put %s "
				   "into this name%s", want,
				   s->var ? "" : ", and `as i` after the "
				   "repeat's count");
			diag_note(l->diags, s->span, "this repeat has %lld "
				  "iterations", (long long)(s->hi - s->lo));
			return false;
		}
	}
	return true;
}

/* A repeat's, where it has none: of no other one around this call. */
static sym_t
make_variable(struct lower *l)
{
	sym_t var;

	do {
		var = lower_sym(l, arena_printf(&l->ctx->tmp, "iteration%u",
						l->autonames++));
	} while (lower_repeat_of(l, var));
	return var;
}

/*
 * A name for a call without @: unique in the model, with a placeholder for
 * each repeat around it.  A mask, which each step draws anew, needs no
 * warning.  Masks are drawn by name, so these names must stay as they are.
 */
static const char *
make_name(struct lower *l, const struct ast_expr *call, struct span at,
	  bool drawn)
{
	const char *what = lower_text(l, call->sym);
	struct scope *s;
	struct buf b;

	buf_init(&b, &l->ctx->perm);
	buf_printf(&b, "%s%u", what, l->autonames++);
	for (s = l->scope; s->outer; s = s->outer) {
		if (!s->var) {
			s->var = make_variable(l);
			s->var_is_made = true;
		}
		buf_printf(&b, ".{%s}", lower_text(l, s->var));
	}
	if (!drawn) {
		lower_warn(l, WARN_UNNAMED_WEIGHT, at, "no @ \"name\" follows "
			   "%s, so no checkpoint holds its weights: they are "
			   "named `%s`", what, buf_text(&b));
	}
	return buf_text(&b);
}

static sym_t
name_of(struct lower *l, const struct ast_expr *call, const char *suffix,
	const struct ir_type *type, bool drawn, struct tensor_name *out)
{
	struct span at = call->at ? call->at_span : call->name_span;
	const char *base = call->at ? lower_text(l, call->at)
				    : make_name(l, call, at, drawn);
	const char *text = arena_printf(&l->ctx->perm, "%s%s", base, suffix);

	memset(out, 0, sizeof *out);
	out->written = call->at;
	out->drawn = drawn;
	if (!read_template(l, text, at, type, out) ||
	    !names_each_iteration(l, text, at)) {
		return 0;
	}
	return lower_sym(l, text);
}

sym_t
lower_tensor_name(struct lower *l, const struct ast_expr *call,
		  const char *suffix, const struct ir_type *type,
		  struct tensor_name *out)
{
	return name_of(l, call, suffix, type, false, out);
}

sym_t
lower_mask_name(struct lower *l, const struct ast_expr *call,
		struct tensor_name *out)
{
	return name_of(l, call, "", NULL, true, out);
}

/* One tensor name template while it is compared with another. */
struct name_cursor {
	const char *p;
	const struct tensor_name *of;
	uint8_t k;		/* placeholders passed */
};

/* Numbers lo, lo + by, ... below hi. */
struct number_range {
	int64_t lo, hi, by;
};

/* The range of a placeholder, or of a number; false if `a` is at neither. */
static bool
number_at(struct name_cursor *a, struct number_range *r)
{
	size_t n = strspn(a->p, "0123456789");

	if (a->p[0] == '{') {
		*r = (struct number_range){ a->of->lo[a->k], a->of->hi[a->k],
					    a->of->by[a->k] };
		a->k++;
		a->p += 2;
		return true;
	}
	if (!num_parse_int(a->p, n, &r->lo) || (a->p[0] == '0' && n > 1)) {
		return false;
	}
	r->by = 1;
	r->hi = r->lo == INT64_MAX ? r->lo : r->lo + 1;
	a->p += n;
	return true;
}

/*
 * Whether two ranges have a number in common.  What y's numbers leave when
 * they are divided by x's step repeats after at most that many of them.
 */
static bool
ranges_meet(const struct number_range *x, const struct number_range *y)
{
	int64_t at = y->lo, i;

	if (at < x->lo) {
		at += (x->lo - at + y->by - 1) / y->by * y->by;
	}
	for (i = 0; i < x->by && at < x->hi && at < y->hi; i++, at += y->by) {
		if ((at - x->lo) % x->by == 0) {
			return true;
		}
	}
	return false;
}

/* Whether two templates have a name in common, as h.{0..9} and h.3. */
static bool
have_common_name(struct lower *l, const struct tensor_name *x,
		 const struct tensor_name *y)
{
	struct name_cursor a = { lower_text(l, x->text), x, 0 };
	struct name_cursor b = { lower_text(l, y->text), y, 0 };
	struct number_range x_at, y_at;

	while (*a.p && *b.p) {
		if (*a.p != '{' && *b.p != '{') {
			if (*a.p++ != *b.p++) {
				return false;
			}
		} else if (!number_at(&a, &x_at) || !number_at(&b, &y_at) ||
			   !ranges_meet(&x_at, &y_at)) {
			return false;
		}
	}
	return *a.p == *b.p;
}

/* h.{0..11}.weight, h.{1..23 by 2}.weight */
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
			if (t->by[k] > 1) {
				buf_printf(&b, " by %lld",
					   (long long)t->by[k]);
			}
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
		if (have_common_name(l, &f->tensors.at[i], t)) {
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

/* Whether this place runs more than once. */
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

/* Whether all tensors of a layer are masks. */
static bool
only_drawn(const struct lower *l, func_id f)
{
	uint32_t i = 0, n = l->funcs.at[f].tensors.n;

	while (i < n && l->funcs.at[f].tensors.at[i].drawn) {
		i++;
	}
	return i == n;
}

sym_t
lower_call_name(struct lower *l, const struct ast_expr *call, func_id callee)
{
	bool drawn = only_drawn(l, callee);
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
	if (call->at || in_repeat(l) || drawn) {
		name = name_of(l, call, "", NULL, drawn, &prefix);
		if (!name) {
			return 0;
		}
	}
	for (i = 0; i < l->funcs.at[callee].tensors.n; i++) {
		const struct tensor_name *in =
			&l->funcs.at[callee].tensors.at[i];

		t = prefix;
		t.text = !name ? in->text :
			lower_sym(l, arena_printf(&l->ctx->tmp, "%s.%s",
				  lower_text(l, prefix.text),
				  lower_text(l, in->text)));
		if (t.n + in->n > MAX_RANGES) {
			diag_error(l->diags, prefix.span, "the tensor name "
				   "`%s` has more than %d placeholders",
				   lower_text(l, t.text), MAX_RANGES);
			return 0;
		}
		for (j = 0; j < in->n; j++) {
			t.lo[t.n] = in->lo[j];
			t.by[t.n] = in->by[j];
			t.hi[t.n++] = in->hi[j];
		}
		t.written = 0;
		t.value = 0;
		t.drawn = in->drawn;
		if (!lower_add_tensor(l, &t)) {
			return 0;
		}
	}
	return name;
}
