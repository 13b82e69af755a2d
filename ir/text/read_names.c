/*
 * What names refer to in the text form: expected tokens, tables of dims, layers
 * and values, and messages for unknown names.
 */
#include "ir/text/read.h"

#include <inttypes.h>
#include <string.h>

#define MAX_TRIED 1000	/* similar names that are compared for one message */

/* ---- expecting tokens ---- */

bool
rd_fail(struct ir_reader *r, struct span at, const char *fmt, ...)
{
	struct buf b;
	va_list ap;

	buf_init(&b, &r->ctx->tmp);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	diag_error(&r->ctx->diags, at, "%s", buf_text(&b));
	return false;
}

struct span
rd_span_from(const struct ir_reader *r, uint32_t lo)
{
	struct span at = { r->s.base + lo, r->s.base + r->s.last_hi };

	return at;
}

bool
rd_expected(struct ir_reader *r, const char *what)
{
	if (r->s.t.kind == TOK_BAD) {
		return false;
	}
	return rd_fail(r, scan_span(&r->s, &r->s.t), "expected %s, found %s",
		       what, scan_found(&r->s));
}

bool
rd_sign(struct ir_reader *r, char sign, const char *what)
{
	if (!scan_is(&r->s, sign)) {
		return rd_expected(r, what);
	}
	scan_next(&r->s);
	return true;
}

bool
rd_name(struct ir_reader *r, const char *what, sym_t *name, struct span *at)
{
	if (r->s.t.kind != TOK_NAME || r->s.t.dotted) {
		return rd_expected(r, what);
	}
	*name = r->s.t.text;
	*at = scan_span(&r->s, &r->s.t);
	scan_next(&r->s);
	return true;
}

bool
rd_line_end(struct ir_reader *r, const char *after)
{
	if (r->s.t.kind == TOK_LINE || r->s.t.kind == TOK_END) {
		return true;
	}
	return rd_expected(r, arena_printf(&r->ctx->tmp,
					   "the line to end after %s",
					   after));
}

struct read_name *
rd_meaning(struct ir_reader *r, sym_t name)
{
	struct read_name none = { 0 };

	while (r->names.n <= name) {
		VEC_PUSH(&r->ctx->tmp, &r->names, none);
	}
	return &r->names.at[name];
}

/* ---- dims and layers ---- */

static const char *
near_dim(struct ir_reader *r, const char *want)
{
	struct diag_near near;
	dim_id d;

	diag_near_init(&near, want);
	for (d = 1; d < r->m->dims.n && d <= MAX_TRIED; d++) {
		diag_near_try(&near, ir_dim_name(r->m, d));
	}
	return diag_near_text(&near, &r->ctx->tmp);
}

bool
rd_dim(struct ir_reader *r, dim_id *d)
{
	struct read_name *n;
	struct span at;
	const char *text;
	sym_t name = 0;

	if (!rd_name(r, "a dim", &name, &at)) {
		return false;
	}
	n = rd_meaning(r, name);
	*d = n->dim;
	if (n->bad_dim) {
		return false;
	}
	text = ir_text(r->ctx, name);
	return n->dim || rd_fail(r, at, "unknown dim `%s`%s", text,
				 near_dim(r, text));
}

bool
rd_axis(struct ir_reader *r, axis_id *a, struct span *at)
{
	struct diag_near near;
	sym_t name = 0;
	axis_id i;

	if (!rd_name(r, "an axis of the mesh", &name, at)) {
		return false;
	}
	*a = ir_axis_find(r->m, name);
	if (*a) {
		return true;
	}
	diag_near_init(&near, ir_text(r->ctx, name));
	for (i = 1; i < r->m->axes.n; i++) {
		diag_near_try(&near, ir_axis_name(r->m, i));
	}
	return rd_fail(r, *at, "unknown axis `%s`%s", ir_text(r->ctx, name),
		       diag_near_text(&near, &r->ctx->tmp));
}

static const char *
near_layer(struct ir_reader *r, const char *want)
{
	struct diag_near near;
	func_id f;

	diag_near_init(&near, want);
	for (f = 1; f < r->m->funcs.n && f <= MAX_TRIED; f++) {
		if (r->m->funcs.at[f].name) {
			diag_near_try(&near, ir_text(r->ctx,
						     r->m->funcs.at[f].name));
		}
	}
	return diag_near_text(&near, &r->ctx->tmp);
}

/* Finds layers that are defined further down, once, for messages. */
static void
find_later_layers(struct ir_reader *r)
{
	struct scan s = r->s;

	r->later_known = true;
	s.quiet = true;
	while (s.t.kind != TOK_END) {
		scan_to_line_end(&s);
		if (s.t.kind == TOK_END) {
			break;
		}
		scan_next(&s);
		if (scan_is_word(&s, "layer")) {
			scan_next(&s);
			rd_meaning(r, s.t.text)->later = scan_span(&s, &s.t);
		}
	}
}

static bool
unknown_layer(struct ir_reader *r, sym_t name, struct span at)
{
	const char *text = ir_text(r->ctx, name);
	struct span later;

	if (!r->later_known) {
		find_later_layers(r);
	}
	later = rd_meaning(r, name)->later;
	if (later.lo <= at.lo) {
		return rd_fail(r, at, "unknown layer `%s`%s", text,
			       near_layer(r, text));
	}
	rd_fail(r, at, "layer `%s` is called before it is defined: a layer "
		"calls only layers above it", text);
	diag_note(&r->ctx->diags, later, "defined here");
	return false;
}

bool
rd_layer(struct ir_reader *r, func_id *f)
{
	struct read_name *n;
	struct span at;
	sym_t name = 0;

	if (!rd_name(r, "the name of a layer after `call`", &name, &at)) {
		return false;
	}
	n = rd_meaning(r, name);
	*f = n->func;
	if (n->func && n->func == r->func) {
		return rd_fail(r, at, "layer `%s` calls itself: a layer calls "
			       "only layers above it, and repeats with "
			       "`repeat`", ir_text(r->ctx, name));
	}
	if (n->bad_func) {
		return false;
	}
	return n->func || unknown_layer(r, name, at);
}

/* ---- values ---- */

void
rd_forget_values(struct ir_reader *r)
{
	if (!r->slots.n) {
		VEC_PUSH(&r->ctx->tmp, &r->slots, (struct read_slot){ 0 });
	}
	r->slots.n = 1;
	table_cut(&r->numbers, 1);
}

/* The slot of a value's number; NULL: the function has none. */
static struct read_slot *
slot_of(struct ir_reader *r, uint32_t number)
{
	uint32_t at = 0;

	do {
		at = table_find(&r->numbers, hash_word(1, number), at);
	} while (at && r->slots.at[at].number != number);
	return at ? &r->slots.at[at] : NULL;
}

bool
rd_define(struct ir_reader *r, const struct label *l, value_id v)
{
	const struct read_slot *s = slot_of(r, l->number);
	struct read_slot new = {
		.number = l->number, .value = v, .hint = l->hint,
		.depth = r->depth - 1, .span = l->span
	};

	if (s) {
		rd_fail(r, l->span, "value number %" PRIu32 " is defined "
			"twice in this %s", l->number,
			r->m->funcs.at[r->func].is_model ? "model" : "layer");
		diag_note(&r->ctx->diags, s->span, "first defined here");
		return false;
	}
	new.region = r->frames[new.depth]->region;
	VEC_PUSH(&r->ctx->tmp, &r->slots, new);
	table_add(&r->ctx->tmp, &r->numbers, hash_word(1, l->number));
	return true;
}

bool
rd_reserve(struct ir_reader *r, const struct label *l)
{
	if (!rd_define(r, l, 0)) {
		return false;
	}
	slot_of(r, l->number)->open = true;
	return true;
}

void
rd_fulfil(struct ir_reader *r, const struct label *l, value_id v)
{
	struct read_slot *s = slot_of(r, l->number);

	s->value = v;
	s->open = false;
}

bool
rd_label(struct ir_reader *r, struct label *l)
{
	if (r->s.t.kind != TOK_VALUE) {
		return rd_expected(r, "a value such as %x.3");
	}
	l->hint = r->s.t.text;
	l->number = r->s.t.number;
	l->span = scan_span(&r->s, &r->s.t);
	scan_next(&r->s);
	return true;
}

static const char *
value_text(struct ir_reader *r, sym_t hint, uint32_t number)
{
	return arena_printf(&r->ctx->tmp, "%%%s%s%" PRIu32,
			    ir_text(r->ctx, hint), hint ? "." : "", number);
}

/* A visible value of that name or number, for a message. */
static const char *
near_value(struct ir_reader *r, const struct label *l)
{
	struct diag_near near;
	uint32_t i, tried = 0;

	diag_near_init(&near, value_text(r, l->hint, l->number));
	for (i = 1; i < r->slots.n && tried < MAX_TRIED; i++) {
		const struct read_slot *s = &r->slots.at[i];

		if (!s->open && s->depth < r->depth &&
		    r->frames[s->depth]->region == s->region &&
		    (s->hint == l->hint || s->number == l->number)) {
			diag_near_try(&near, value_text(r, s->hint,
							s->number));
			tried++;
		}
	}
	return diag_near_text(&near, &r->ctx->tmp);
}

static bool
unknown_value(struct ir_reader *r, const struct label *l)
{
	return rd_fail(r, l->span, "unknown value `%s`%s",
		       value_text(r, l->hint, l->number), near_value(r, l));
}

static bool
out_of_scope(struct ir_reader *r, const struct label *l,
	     const struct read_slot *s)
{
	rd_fail(r, l->span, s->open ? "`%s` is a result of the repeat around "
		"this line: it is known only below its `}`"
		: "`%s` is known only inside the repeat that defines it: "
		"yield it", value_text(r, l->hint, l->number));
	diag_note(&r->ctx->diags, s->span, "defined here");
	return false;
}

bool
rd_use(struct ir_reader *r, value_id *v, struct span *at)
{
	struct label l = { 0 };
	const struct read_slot *s;

	if (!rd_label(r, &l)) {
		return false;
	}
	*at = l.span;
	s = slot_of(r, l.number);
	if (!s || s->hint != l.hint) {
		return unknown_value(r, &l);
	}
	if (s->open || s->depth >= r->depth ||
	    r->frames[s->depth]->region != s->region) {
		return out_of_scope(r, &l, s);
	}
	*v = s->value;
	return s->value != 0;
}
