/*
 * Layers of several kinds that take turns: layer_types, or the turns that a
 * family has without it, become a repeat over one period and the layers that
 * are left.
 */
#include "frontend/import/import_family.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PERIOD 64

/* The call of a kind in "kind=call kind=call", or NULL. */
static const char *
call_of(struct imp *x, const char *pairs, const char *kind)
{
	size_t n = strlen(kind);
	const char *p = pairs;

	while ((p = strstr(p, kind)) != NULL) {
		if (p[n] == '=' && (p == pairs || p[-1] == ' ')) {
			p += n + 1;
			return arena_strndup(&x->c->perm, p,
					     strcspn(p, " "));
		}
		p += n;
	}
	return NULL;
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
			diag_error(&x->c->diags, f[i].span, "`%.60s` is no "
				   "kind of layer that the family %s has",
				   f[i].text ? f[i].text : "?", x->family);
			return false;
		}
		add_layer(x, call);
	}
	return true;
}

void
imp_kinds(struct imp *x, const char *field, const char *pairs,
	  const char *turns)
{
	const struct imp_field *f = imp_config_given(&x->config, field);
	int64_t layers = (int64_t)imp_value(x, "num_hidden_layers")->num, i;
	const char *p;
	size_t n;

	imp_mark(x, field, true);
	if (f && (f->kind != IMP_LIST || f->inside != layers)) {
		diag_error(&x->c->diags, f->span, "`%s` is a list of %lld "
			   "kinds, one for each layer", field,
			   (long long)layers);
		return;
	}
	if (layers > IMP_MOST_LAYERS) {
		diag_error(&x->c->diags, x->config.start, "%lld layers, and "
			   "%d at most may have kinds", (long long)layers,
			   IMP_MOST_LAYERS);
		return;
	}
	if (f) {
		read_kinds(x, f, pairs);
		return;
	}
	for (p = turns, i = 0; i < layers; i++) {
		p += strspn(p, " ");
		p = *p ? p : turns + strspn(turns, " ");
		n = strcspn(p, " ");
		add_layer(x, arena_strndup(&x->c->perm, p, n));
		p += n;
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

void
imp_stack(struct imp *x, const char *prefix)
{
	uint32_t n = x->layers.n, p = n ? period_of(x) : 1, i;
	uint32_t left = n % p;
	struct buf *out = &x->body;

	if (p == 1) {
		buf_puts(out, "  repeat layers as i {\n");
	} else if (left) {
		buf_printf(out, "  repeat (layers - %u) / %u as i {\n", left,
			   p);
	} else {
		buf_printf(out, "  repeat layers / %u as i {\n", p);
	}
	for (i = 0; i < p && i < n; i++) {
		buf_printf(out, "    x = %s(x)  @ \"%s.{", x->layers.at[i],
			   prefix);
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
		buf_printf(out, "  x = %s(x)  @ \"%s.%u\";\n",
			   x->layers.at[i], prefix, i);
	}
}
