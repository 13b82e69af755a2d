/*
 * Parses values of a plan from text: a setting's, "5*16, 4", and those of
 * --pin, tp=8,recompute=q+k.  Items of a list are separated by `+`, or by
 * commas where no key can follow.  Words of `recompute` may form a set in
 * parentheses and be repeated, (q+k)*4.
 *
 * The text of --pin is a source as a file is, so messages point into it.
 */
#include "passes/plan/plan_keys.h"

#include <string.h>

struct text {
	struct ir_module *m;
	const char *s;
	uint32_t at;
	uint32_t base;		/* source offset of s; 0: it has none */
	struct span whole;	/* if !base */
	bool sets;		/* sets and repeated words are legal */
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

/* Reports that the next byte is not what was expected. */
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

/* Parses `*` and the number after it. */
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
		   "how often %s is repeated, at least 1", w,
		   t->sets ? "it" : "the number");
	return false;
}

static bool
item(struct text *t, struct plan_item *it)
{
	uint32_t lo;
	const char *w;

	memset(it, 0, sizeof *it);
	it->times = 1;
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
	if (it->word && t->sets && peek(t) == '*') {
		it->run = true;
		return times(t, it);
	}
	return true;
}

/* Whether another item follows; skips the separator. */
static bool
more(struct text *t, bool commas)
{
	char c = peek(t);
	bool yes = c == '+' || (c == ',' && commas);

	t->at += yes;
	return yes;
}

/* Ends the set of items `from` on after its `)`; parses `*4`, if any. */
static bool
close_set(struct text *t, struct plan_value *v, uint32_t from)
{
	struct plan_item *last = &v->items.at[v->items.n - 1];
	uint32_t i;

	for (i = from; i < v->items.n; i++) {
		if (v->items.at[i].run || v->items.at[i].more) {
			diag_error(&t->m->ctx->diags, v->items.at[i].span,
				   "a set in parentheses holds names alone");
			return false;
		}
		v->items.at[i].more = i + 1 < v->items.n;
	}
	last->run = true;
	return peek(t) != '*' || times(t, last);
}

static bool in_parentheses(struct text *t, struct plan_value *v);

/* Parses one entry of a list: `(q+k)*4`, a word or a number. */
static bool
entry(struct text *t, struct plan_value *v)
{
	uint32_t from = v->items.n;
	struct plan_item it;

	if (!t->sets || peek(t) != '(') {
		if (!item(t, &it)) {
			return false;
		}
		VEC_PUSH(&t->m->ctx->tmp, &v->items, it);
		return true;
	}
	t->at++;
	t->sets = false;	/* sets do not nest */
	if (!in_parentheses(t, v)) {
		return false;
	}
	t->sets = true;
	return close_set(t, v, from);
}

/* Parses items up to the `)`; the `(` was parsed before. */
static bool
in_parentheses(struct text *t, struct plan_value *v)
{
	char between = 0;

	do {
		if (!entry(t, v)) {
			return false;
		}
		/* no mix of `+` and `,`: in a file `q+k, x` is two sets */
		if (between && t->sets && peek(t) != between &&
		    peek(t) != ')') {
			return expected(t, between == ',' ? "`,` or `)`"
					: "`+` or `)`");
		}
		between = peek(t);
	} while (more(t, true));
	if (peek(t) != ')') {
		return expected(t, "`,` or `)`");
	}
	t->at++;
	return true;
}

/*
 * Parses a list, in parentheses or without.  If something follows the `)`,
 * the parentheses held only the first set of the list.
 */
static bool
items(struct text *t, bool commas, struct plan_value *v)
{
	uint32_t lo, from;
	bool first = true;

	peek(t);
	lo = t->at;
	do {
		from = v->items.n;
		if (!first || peek(t) != '(') {
			if (!entry(t, v)) {
				return false;
			}
		} else {
			t->at++;
			if (!in_parentheses(t, v)) {
				return false;
			}
			v->span = span_from(t, lo);
			if (!t->sets || (peek(t) != '*' && peek(t) != '+' &&
					 !(peek(t) == ',' && commas))) {
				return true;
			}
			if (!close_set(t, v, from)) {
				return false;
			}
		}
		v->span = span_from(t, lo);
		first = false;
	} while (more(t, commas));
	return true;
}

/* ---- settings ---- */

static bool
fetch_text(struct ir_module *m, const struct plan_row *row,
	   const struct ir_setting *s, struct plan_value *v)
{
	struct text t = { m, ir_text(m->ctx, s->text), 0, 0, s->span,
			  row->kind == PLAN_RECOMPUTE };
	struct plan_item one = { .word = t.s, .times = 1, .span = s->span };

	if (strlen(t.s) != m->ctx->syms.len.at[s->text]) {
		diag_error(&m->ctx->diags, s->span, "`%s` of a plan holds a "
			   "byte 0, so it is not text", row->key);
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

/* Whether a list may go on in a setting such as `plan.stages.more1`. */
static bool
may_go_on(const struct ir_module *m)
{
	uint32_t i;

	for (i = 0; i < m->settings.n; i++) {
		sym_t key = m->settings.at[i].key;
		const char *text = ir_text(m->ctx, key);
		size_t n = m->ctx->syms.len.at[key];

		if (n && text[n - 1] >= '0' && text[n - 1] <= '9') {
			return true;
		}
	}
	return false;
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
		s = !may_go_on(m) ? NULL
			: ir_setting(m, arena_printf(&m->ctx->tmp,
				"plan.%s.more%u", row->key, ++more));
	}
	v->span = first;
	return true;
}

/* ---- --pin ---- */

static bool
pin(struct text *t)
{
	struct plan_value v = { 0 };
	const struct plan_row *row;
	const char *key;
	struct span at;
	uint32_t lo;
	bool rest;

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
	row = plan_find(key, &rest);
	t->sets = row && row->kind == PLAN_RECOMPUTE;
	if (!items(t, false, &v)) {
		return false;
	}
	return plan_set(t->m, key, at, &v);
}

bool
plan_pin(struct ir_module *m, const char *text)
{
	return plan_pin_of(m, "plan_pin", text);
}

bool
plan_pin_of(struct ir_module *m, const char *option, const char *text)
{
	struct ir_ctx *c = m->ctx;
	struct text t = { .m = m };
	size_t n = strlen(text);

	t.s = arena_strndup(&c->perm, text, n);
	if (!source_add(&c->sources, option, t.s, n, &t.base)) {
		diag_error(&c->diags, t.whole, "%s: this is one text too "
			   "many: 2 GiB of text in one run", option);
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

const char *
plan_offload_text(uint32_t offload)
{
	static const char *const texts[3][3][2] = {
		{ { "none", "activations" },
		  { "parameters", "parameters+activations" },
		  { "parameters@nvme", "parameters@nvme+activations" } },
		{ { "optimizer", "optimizer+activations" },
		  { "optimizer+parameters",
		    "optimizer+parameters+activations" },
		  { "optimizer+parameters@nvme",
		    "optimizer+parameters@nvme+activations" } },
		{ { "optimizer@nvme", "optimizer@nvme+activations" },
		  { "optimizer@nvme+parameters",
		    "optimizer@nvme+parameters+activations" },
		  { "optimizer@nvme+parameters@nvme",
		    "optimizer@nvme+parameters@nvme+activations" } }
	};
	uint32_t drives = plan_on_drives(offload);

	return texts[drives & PLAN_OFFLOAD_OPTIMIZER ? 2
		     : offload & PLAN_OFFLOAD_OPTIMIZER ? 1 : 0]
		    [drives & PLAN_OFFLOAD_PARAMS ? 2
		     : offload & PLAN_OFFLOAD_PARAMS ? 1 : 0]
		    [offload & PLAN_OFFLOAD_SAVES ? 1 : 0];
}
