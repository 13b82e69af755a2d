/*
 * Layers of several kinds: layer_types, or what a family has without it, turns
 * or one kind until a layer and then another.  Kinds that come again become a
 * repeat over one period and the layers that are left; others become a repeat
 * for each run of one kind.
 */
#include "frontend/import/import_family.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PERIOD 64

/* The call of a kind in "kind=call kind=call", or NULL. */
static const char *
call_of(struct imp *x, const char *pairs, const char *kind)
{
	size_t n = strlen(kind), word;
	const char *p;

	for (p = pairs; *p; p += word + strspn(p + word, " ")) {
		word = strcspn(p, " ");
		if (n < word && p[n] == '=' && memcmp(p, kind, n) == 0) {
			return arena_strndup(&x->c->perm, p + n + 1,
					     word - n - 1);
		}
	}
	return NULL;
}

/* A layer whose kind is none of "kind=call kind=call". */
static void
unknown_kind(struct imp *x, const struct imp_field *f, const char *pairs)
{
	struct buf legal;
	const char *p;

	buf_init(&legal, &x->c->tmp);
	for (p = pairs; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
		buf_printf(&legal, "%s`%.*s`", legal.n ? ", " : "",
			   (int)strcspn(p, "="), p);
	}
	diag_error(&x->c->diags, f->span, "`%.60s` is no kind of layer that "
		   "the family %s has: these are %s", f->text ? f->text : "?",
		   x->family, buf_text(&legal));
}

/* Adds one layer of that call, and counts it. */
static void
add_layer(struct imp *x, const char *call)
{
	struct imp_value *v = imp_value(x, call);

	imp_set_number(x, call, v ? v->num + 1 : 1);
	VEC_PUSH(&x->c->perm, &x->layers, call);
}

/* The calls of layer_types; false after reporting. */
static bool
read_kinds(struct imp *x, const struct imp_field *f, const char *pairs)
{
	uint32_t i;

	for (i = 1; i <= f->inside; i++) {
		const char *call = f[i].kind == IMP_TEXT
			? call_of(x, pairs, f[i].text) : NULL;

		if (!call) {
			unknown_kind(x, &f[i], pairs);
			return false;
		}
		add_layer(x, call);
	}
	return true;
}

/* The word at *p, which is moved to the next one; `from` comes after the last
 * one. */
static const char *
next_turn(struct imp *x, const char **p, const char *from)
{
	const char *word = **p ? *p : from;
	size_t n = strcspn(word, " ");

	*p = word + n + strspn(word + n, " ");
	return arena_strndup(&x->c->perm, word, n);
}

/* Adds layers by "kind kind until VALUE kind": kinds that take turns, and then
 * one kind; or by turns alone. */
static void
add_turns(struct imp *x, const char *turns, int64_t layers)
{
	const char *until = strstr(turns, " until "), *p, *then = "";
	int64_t first = layers, i;

	if (until) {
		p = until + strlen(" until ");
		turns = arena_strndup(&x->c->perm, turns,
				      (size_t)(until - turns));
		first = (int64_t)imp_value(x, next_turn(x, &p, ""))->num;
		then = next_turn(x, &p, "");
	}
	for (p = turns, i = 0; i < layers; i++) {
		add_layer(x, i < first ? next_turn(x, &p, turns) : then);
	}
}

void
imp_kinds(struct imp *x, const char *field, const char *pairs,
	  const char *turns)
{
	const struct imp_field *f = imp_config_given(&x->config, field);
	const struct imp_value *n = imp_value(x, "num_hidden_layers");
	int64_t layers = (int64_t)n->num;

	imp_mark(x, field, true);
	if (f && (f->kind != IMP_LIST || f->inside != layers)) {
		diag_error(&x->c->diags, f->span, "`%s` is a list of %lld "
			   "kinds, one for each layer", field,
			   (long long)layers);
		return;
	}
	if (layers > IMP_MOST_LAYERS) {
		diag_error(&x->c->diags, n->field ? n->field->span
			   : x->config.start, "%lld layers, and "
			   "%d at most may have kinds", (long long)layers,
			   IMP_MOST_LAYERS);
		return;
	}
	if (f) {
		read_kinds(x, f, pairs);
	} else {
		add_turns(x, turns + strspn(turns, " "), layers);
	}
}

/* The least number of layers after which the kinds come again. */
static uint32_t
period_of(const struct imp *x)
{
	uint32_t n = x->layers.n, p, i;

	for (p = 1; p < n && p < MOST_PERIOD; p++) {
		for (i = p; i < n && strcmp(x->layers.at[i],
					    x->layers.at[i - p]) == 0; i++) {
			continue;
		}
		if (i == n) {
			return p;
		}
	}
	return n;
}

/* One layer's call, up to its number; $carried is what it takes and returns
 * beside x. */
static void
put_call(struct imp *x, const char *indent, const char *call,
	 const char *prefix)
{
	const char *carried = imp_value(x, "carried")->text;

	buf_printf(&x->body, "%sx%s = %s(x%s)  @ \"%s.", indent, carried,
		   call, carried, prefix);
}

/* A repeat for each run; the last one is as long as `layers` makes it. */
static void
put_runs(struct imp *x, const char *prefix)
{
	const char *const *at = x->layers.at;
	struct buf *out = &x->body;
	uint32_t i, to;

	for (i = 0; i < x->layers.n; i = to) {
		for (to = i + 1; to < x->layers.n &&
		     strcmp(at[to], at[i]) == 0; to++) {
			continue;
		}
		if (to == i + 1) {
			put_call(x, "  ", at[i], prefix);
			buf_printf(out, "%u\";\n", i);
			continue;
		}
		if (to < x->layers.n) {
			buf_printf(out, "  repeat %u as i", to - i);
		} else {
			buf_printf(out, "  repeat layers - %u as i", i);
		}
		if (i > 0) {
			buf_printf(out, " from %u", i);
		}
		put_call(x, " { ", at[i], prefix);
		buf_puts(out, "{i}\"; }\n");
	}
}

void
imp_stack(struct imp *x, const char *prefix)
{
	uint32_t n = x->layers.n, p = n ? period_of(x) : 1, i;
	uint32_t left = n % p;
	struct buf *out = &x->body;

	if (p == n && n > 1) {
		put_runs(x, prefix);
		return;
	}
	if (p == 1) {
		buf_puts(out, "  repeat layers as i {\n");
	} else if (left) {
		buf_printf(out, "  repeat (layers - %u) / %u as i {\n", left,
			   p);
	} else {
		buf_printf(out, "  repeat layers / %u as i {\n", p);
	}
	for (i = 0; i < p && i < n; i++) {
		put_call(x, "    ", x->layers.at[i], prefix);
		buf_puts(out, "{");
		if (p > 1) {
			buf_printf(out, "%u*", p);
		}
		buf_puts(out, "i");
		if (i > 0) {
			buf_printf(out, "+%u", i);
		}
		buf_puts(out, "}\";\n");
	}
	buf_puts(out, "  }\n");
	for (i = n - left; i < n; i++) {
		put_call(x, "  ", x->layers.at[i], prefix);
		buf_printf(out, "%u\";\n", i);
	}
}
