/*
 * The block `export`: the config.json of checkpoints that are exported.  Its
 * keys are those of that file; a setting `export.a.b` is the member b of the
 * object a, and `export.a._0` the first element of the list a.  A whole number
 * that is written with a point has one in the JSON too, since some readers
 * refuse 0 for 0.0: its setting is a pair (number, 1).
 */
#include "frontend/lang/lower.h"

#include <math.h>
#include <string.h>

#define MOST_SETTINGS 10000
#define EXPORT "export."

static void
lower_export_value(struct lower *l, const char *key,
		   const struct ast_expr *e, struct span at);

static void
add_setting(struct lower *l, struct ir_setting *s, const char *key)
{
	s->key = lower_sym(l, key);
	s->n = s->num[1] != 0 ? 2 : 1;
	VEC_PUSH(&l->ctx->perm, &l->m->settings, *s);
}

/* list(a, b): a setting for each, or the word `list` of an empty one. */
static void
export_list(struct lower *l, const char *key, const struct ast_expr *e,
	    struct ir_setting *s)
{
	const struct ast_arg *a;
	int i = 0;

	if (strcmp(lower_text(l, e->sym), "list") != 0 || e->has_arrow ||
	    e->at) {
		diag_error(l->diags, e->span, "a value of `export` is a "
			   "number, a text, true, false, null or list(..)");
		return;
	}
	if (!e->args) {
		s->kind = SET_WORD;
		s->text = lower_sym(l, "list");
		add_setting(l, s, key);
	}
	for (a = e->args; a; a = a->next) {
		if (a->name.sym) {
			diag_error(l->diags, a->name.span, "elements of a "
				   "list have no names");
			return;
		}
		lower_export_value(l, arena_printf(&l->ctx->perm, "%s._%d",
						   key, i++),
				   a->expr, s->span);
	}
}

#define MOST_WHOLE 1e15		/* that JSON has without an exponent */

static bool
is_whole(double v)
{
	return v == floor(v) && fabs(v) < MOST_WHOLE;
}

/* Whether a number, or its negative, is written with a point or exponent. */
static bool
has_point(const struct ast_expr *e)
{
	e = e->kind == AST_NEG ? e->lhs : e;
	return e->kind == AST_NUM && !e->is_int;
}

static void
lower_export_value(struct lower *l, const char *key,
		   const struct ast_expr *e, struct span at)
{
	struct ir_setting s = { .kind = SET_NUM, .span = at,
				.value = e->span };
	const char *word = e->kind == AST_NAME ? lower_text(l, e->sym) : "";
	expr_id none;
	int64_t whole;

	if (l->m->settings.n >= MOST_SETTINGS) {
		diag_error(l->diags, e->span, "more than %d settings",
			   MOST_SETTINGS);
		return;
	}
	if (e->kind == AST_CALL) {
		export_list(l, key, e, &s);
		return;
	}
	if (e->kind == AST_STR) {
		s.kind = SET_STR;
		s.text = e->sym;
	} else if (lower_word("true false null", word) >= 0) {
		s.kind = SET_WORD;
		s.text = e->sym;
	} else if (ast_plain_number(e, &s.num[0])) {
		s.num[0] += 0.0;	/* -0 is 0 */
		s.num[1] = is_whole(s.num[0]) && has_point(e);
	} else {
		if (!lower_int(l, e, "a value of `export`", 0, INT64_MAX,
			       &whole, &none)) {
			return;
		}
		s.num[0] = (double)whole;
	}
	add_setting(l, &s, key);
}

static bool
is_index(const char *key)
{
	return key[0] == '_' && key[1] >= '0' && key[1] <= '9';
}

/* Whether a part of a key looks like the index of a list: "_0". */
static bool
has_index(const char *key)
{
	for (; key; key = strchr(key, '.') ? strchr(key, '.') + 1 : NULL) {
		if (is_index(key)) {
			return true;
		}
	}
	return false;
}

/* Whether one key is the object that the other lies in, or the same. */
static bool
is_same_or_inside(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), k = n < m ? n : m;

	return strncmp(a, b, k) == 0 &&
	       (n == m || (n > m ? a : b)[k] == '.');
}

void
lower_export(struct lower *l, const struct ast_block *b)
{
	const struct ast_setting *s;
	uint32_t i;

	for (s = b->settings; s; s = s->next) {
		const char *key = arena_printf(&l->ctx->perm, EXPORT "%s",
					lower_text(l, s->key.sym));

		if (has_index(key + strlen(EXPORT))) {
			diag_error(l->diags, s->key.span, "a list is written "
				   "`key = list(..)`, and no element alone");
			return;
		}
		for (i = 0; i < l->m->settings.n; i++) {
			const struct ir_setting *o = &l->m->settings.at[i];

			if (is_same_or_inside(lower_text(l, o->key), key)) {
				diag_error(l->diags, s->key.span, "`%s` is "
					   "set twice", key + strlen(EXPORT));
				diag_note(l->diags, o->span,
					  "it is set here first");
				return;
			}
		}
		lower_export_value(l, key, s->value, s->key.span);
	}
}

/* ---- as JSON ---- */

struct member {
	const char *key;	/* below the object that is printed */
	const struct ir_setting *s;
};

static void
put_value(const struct ir_module *m, const struct ir_setting *s,
	  struct buf *out)
{
	const char *text = s->kind == SET_NUM ? "" : ir_text(m->ctx, s->text);
	double v = s->num[0];

	if (s->kind == SET_STR) {
		buf_json(out, text, strlen(text));
	} else if (s->kind == SET_WORD) {
		buf_puts(out, strcmp(text, "list") == 0 ? "[]" : text);
	} else if (is_whole(v)) {
		buf_int(out, (int64_t)v);
		buf_puts(out, s->n == 2 ? ".0" : "");
	} else {
		buf_double(out, v);
	}
}

static void
put_indent(struct buf *out, int depth)
{
	buf_printf(out, "\n%*s", 2 * depth, "");
}

/*
 * Moves those of the members from at[0] on that lie in the same object or list
 * to `inside`, named as they are in it; returns how many.
 */
static uint32_t
take_inside(struct member *at, uint32_t n, struct member *inside)
{
	const char *key = at[0].key;
	size_t len = strcspn(key, ".") + 1;
	uint32_t k = 0, i;

	for (i = 0; i < n; i++) {
		if (at[i].s && strncmp(at[i].key, key, len) == 0) {
			inside[k].key = at[i].key + len;
			inside[k++].s = at[i].s;
			at[i].s = NULL;
		}
	}
	return k;
}

/* The n members of one object or list, in the order of their first keys. */
static void
put_members(const struct ir_module *m, struct member *at, uint32_t n,
	    int depth, struct buf *out)
{
	bool list = n > 0 && is_index(at[0].key), first = true;
	struct member *inside;
	uint32_t i;

	buf_putc(out, list ? '[' : '{');
	for (i = 0; i < n; i++) {
		size_t len = strcspn(at[i].key, ".");

		if (!at[i].s) {
			continue;
		}
		buf_puts(out, first ? "" : ",");
		first = false;
		put_indent(out, depth + 1);
		if (!list) {
			buf_json(out, at[i].key, len);
			buf_puts(out, ": ");
		}
		if (!at[i].key[len]) {
			put_value(m, at[i].s, out);
			continue;
		}
		inside = arena_alloc(&m->ctx->perm, (n - i) * sizeof *inside);
		put_members(m, inside, take_inside(at + i, n - i, inside),
			    depth + 1, out);
	}
	if (n) {
		put_indent(out, depth);
	}
	buf_putc(out, list ? ']' : '}');
}

bool
fe_config_json(const struct ir_module *m, struct buf *out)
{
	struct arena *a = &m->ctx->perm;
	VEC(struct member) all = { 0 };
	uint32_t i;

	for (i = 0; i < m->settings.n; i++) {
		const struct ir_setting *s = &m->settings.at[i];
		const char *key = ir_text(m->ctx, s->key);

		if (strncmp(key, EXPORT, strlen(EXPORT)) == 0) {
			struct member x = { key + strlen(EXPORT), s };

			VEC_PUSH(a, &all, x);
		}
	}
	if (all.n == 0) {
		return false;
	}
	put_members(m, all.at, all.n, 0, out);
	buf_putc(out, '\n');
	return true;
}
