/*
 * Values of a plan as text: what a setting holds, as "5*16, 4", and what
 * --pin says, as tp=8,recompute=q+k.  The items of a list stand between `+`
 * or, where no key can follow, commas.
 *
 * The text of --pin is a source like a file, so messages point into it.
 */
#include "passes/plan_keys.h"

#include <string.h>

struct text {
	struct ir_module *m;
	const char *s;
	uint32_t at;
	uint32_t base;		/* source offset of s; 0: it has none */
	struct span whole;	/* if so */
};

static struct span
span_from(const struct text *t, uint32_t lo)
{
	struct span at = { t->base + lo, t->base + t->at };

	return t->base ? at : t->whole;
}

static char
peek(struct text *t)
{
	t->at += (uint32_t)strspn(t->s + t->at, " \t\r\n");
	return t->s[t->at];
}

/* The byte looked at is not what it should be. */
static bool
expected(struct text *t, const char *what)
{
	uint32_t lo = t->at;
	unsigned char c = (unsigned char)t->s[lo];
	const char *found = c > 0x20 && c < 0x7f
		? arena_printf(&t->m->ctx->tmp, "`%c`", c)
		: c ? arena_printf(&t->m->ctx->tmp, "the byte 0x%02x", c)
		: "nothing more";

	t->at += c != 0;
	diag_error(&t->m->ctx->diags, span_from(t, lo),
		   "found %s, expected %s", found, what);
	t->at = lo;
	return false;
}

static const char *
word(struct text *t)
{
	size_t n = strcspn(t->s + t->at, " \t\r\n,+*=()\"");
	const char *w = arena_strndup(&t->m->ctx->tmp, t->s + t->at, n);

	t->at += (uint32_t)n;
	return w;
}

static bool
quoted(struct text *t, struct plan_item *it)
{
	const char *end = strchr(t->s + t->at + 1, '"');
	uint32_t lo = t->at;

	if (!end) {
		t->at += (uint32_t)strlen(t->s + t->at);
		diag_error(&t->m->ctx->diags, span_from(t, lo),
			   "this text has no closing `\"`");
		return false;
	}
	it->word = arena_strndup(&t->m->ctx->tmp, t->s + lo + 1,
				 (size_t)(end - t->s) - lo - 1);
	t->at = (uint32_t)(end - t->s) + 1;
	return true;
}

/* Behind a number and its `*`. */
static bool
times(struct text *t, struct plan_item *it)
{
	uint32_t lo;
	const char *w;

	t->at++;
	peek(t);
	lo = t->at;
	w = word(t);
	if (num_parse_int(w, strlen(w), &it->times) && it->times >= 1) {
		return true;
	}
	diag_error(&t->m->ctx->diags, span_from(t, lo), "found `%s`, expected "
		   "how many times the number stands there, from 1 on", w);
	return false;
}

static bool
item(struct text *t, struct plan_item *it)
{
	uint32_t lo;
	const char *w;

	it->word = NULL;
	it->times = 1;
	it->num = 0;
	if (peek(t) == '"') {
		lo = t->at;
		if (!quoted(t, it)) {
			return false;
		}
	} else {
		lo = t->at;
		w = word(t);
		if (!*w) {
			return expected(t, "a value");
		}
		if (!num_parse_double(w, strlen(w), &it->num)) {
			it->word = w;
		} else if (peek(t) == '*' && !times(t, it)) {
			return false;
		}
	}
	it->span = span_from(t, lo);
	return true;
}

static bool
items(struct text *t, bool commas, struct plan_value *v)
{
	bool list = peek(t) == '(';
	uint32_t lo = t->at;
	struct plan_item it;
	char c;

	t->at += list;
	do {
		if (!item(t, &it)) {
			return false;
		}
		VEC_PUSH(&t->m->ctx->tmp, &v->items, it);
		v->span = span_from(t, lo);
		c = peek(t);
		t->at += c == '+' || (c == ',' && (list || commas));
	} while (c == '+' || (c == ',' && (list || commas)));
	if (list && c != ')') {
		return expected(t, "`,` or `)`");
	}
	t->at += list;
	return true;
}

/* ---- settings ---- */

static bool
fetch_text(struct ir_module *m, const struct plan_row *row,
	   const struct ir_setting *s, struct plan_value *v)
{
	struct text t = { m, ir_text(m->ctx, s->text), 0, 0, s->span };
	struct plan_item one = { t.s, 0, 1, s->span };

	if (strlen(t.s) != m->ctx->syms.len.at[s->text]) {
		diag_error(&m->ctx->diags, s->span, "`%s` of a plan holds a "
			   "byte 0, so it is no text", row->key);
		return false;
	}
	if (row->kind == PLAN_SCHEDULE) {
		VEC_PUSH(&m->ctx->tmp, &v->items, one);
		return true;
	}
	if (!items(&t, true, v)) {
		return false;
	}
	return peek(&t) == '\0' || expected(&t, "`,` or the end of the text");
}

bool
plan_fetch(struct ir_module *m, const struct plan_row *row,
	   const struct ir_setting *s, struct plan_value *v)
{
	struct plan_item it = { .times = 1, .span = s->span };
	struct span first = s->span;
	uint32_t i, more = 0;

	memset(v, 0, sizeof *v);
	for (i = 0; s->kind == SET_NUM && i < s->n; i++) {
		it.num = s->num[i];
		VEC_PUSH(&m->ctx->tmp, &v->items, it);
	}
	while (s && s->kind != SET_NUM) {
		if (!fetch_text(m, row, s, v)) {
			return false;
		}
		s = ir_setting(m, arena_printf(&m->ctx->tmp, "plan.%s.more%u",
					       row->key, ++more));
	}
	v->span = first;
	return true;
}

/* ---- --pin ---- */

static bool
pin(struct text *t)
{
	struct plan_value v = { 0 };
	const char *key;
	struct span at;
	uint32_t lo;

	peek(t);
	lo = t->at;
	key = word(t);
	at = span_from(t, lo);
	if (!*key) {
		return expected(t, "KEY=VALUE");
	}
	if (peek(t) != '=') {
		diag_error(&t->m->ctx->diags, at, "found `%s`, expected "
			   "KEY=VALUE; a list is written a+b", key);
		return false;
	}
	t->at++;
	if (!items(t, false, &v)) {
		return false;
	}
	return plan_set(t->m, key, at, &v);
}

bool
plan_pin(struct ir_module *m, const char *text)
{
	struct ir_ctx *c = m->ctx;
	struct text t = { .m = m };
	size_t n = strlen(text);

	t.s = arena_strndup(&c->perm, text, n);
	if (!source_add(&c->sources, "--pin", t.s, n, &t.base)) {
		diag_error(&c->diags, t.whole, "--pin: this is one text too "
			   "many: 2 GiB of text in one run");
		return false;
	}
	do {
		if (!pin(&t)) {
			return false;
		}
	} while (peek(&t) == ',' && t.at++ < n);
	return !t.s[t.at] || expected(&t, "`,` and the next KEY=VALUE, or `+` "
				      "and more of a list");
}
