/*
 * Names of tensors, by which checkpoints are read, so that they must be
 * unique.  A name is a template with a range for each placeholder; a function
 * has one for each of its weights, and those of the layers that it calls.
 */
#include "frontend/lang/lower.h"

#include <string.h>

#define MAX_TENSORS 4096	/* templates in one function */

/* One {name}: a repeat variable here, or the weight's outermost dim. */
static bool
placeholder(struct lower *l, sym_t name, struct span at,
	    const struct ir_type *type, struct tensor_name *out)
{
	const struct scope *r = lower_repeat_of(l, name);
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

		diag_error(l->diags, at, "{%s} is not a variable of a repeat "
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
		if (!placeholder(l, intern(&l->ctx->syms, text + 1, n - 1),
				 at, type, out)) {
			return false;
		}
		buf_puts(&b, "{}");
		n++;
	}
	out->text = lower_sym(l, buf_text(&b));
	out->span = at;
	return true;
}

/* Each iteration of a repeat must have tensors of its own. */
static bool
names_each_iteration(struct lower *l, const char *text, struct span at)
{
	const struct scope *s;

	for (s = l->scope; s->outer; s = s->outer) {
		const char *var = s->var ? lower_text(l, s->var) : "i";
		const char *want = arena_printf(&l->ctx->tmp, "{%s}", var);

		if (s->hi - s->lo > 1 && !strstr(text, want)) {
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
			s->var = lower_sym(l, arena_printf(&l->ctx->tmp,
				"trip%u", l->autonames++));
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

/* The range of a placeholder, or of a number; false if `a` is at neither. */
static bool
number_at(struct name_cursor *a, int64_t *lo, int64_t *hi)
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
have_common_name(struct lower *l, const struct tensor_name *x,
		 const struct tensor_name *y)
{
	struct name_cursor a = { lower_text(l, x->text), x, 0 };
	struct name_cursor b = { lower_text(l, y->text), y, 0 };
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
