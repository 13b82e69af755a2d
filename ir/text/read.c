/*
 * The parser of the text form: hand-written, one pass, line by line.  A wrong
 * line is reported and skipped, so that one run reports all mistakes; the
 * module is then discarded.
 */
#include "ir/text/read.h"

#include <inttypes.h>
#include <string.h>

#define TOO_MANY 50	/* errors; then it stops */

static bool
fail_twice(struct ir_reader *r, struct span at, struct span first,
	   const char *what, sym_t name)
{
	rd_fail(r, at, "%s `%s` is defined twice", what,
		ir_text(r->ctx, name));
	diag_note(&r->ctx->diags, first, "first defined here");
	return false;
}

/* ---- functions ---- */

/* `(%x.0: type, ...)` */
static bool
read_params(struct ir_reader *r)
{
	region_id body = r->frames[0]->region;
	uint32_t n = 0;

	if (!rd_sign(r, '(', "`(` and the layer's operands")) {
		return false;
	}
	while (!scan_is(&r->s, ')')) {
		struct label l;
		struct ir_type t;
		struct span at;

		if (n == IR_MAX_ARGS) {
			return rd_fail(r, scan_span(&r->s, &r->s.t),
				       "expected at most %d operands, found "
				       "more", IR_MAX_ARGS);
		}
		if ((n && !rd_sign(r, ',', "`,` or `)`")) ||
		    !rd_label(r, &l) ||
		    !rd_sign(r, ':', "`:` and the operand's type") ||
		    !rd_type(r, &t, &at) ||
		    !rd_define(r, &l, ir_param_add(r->m, body, &t, l.hint))) {
			return false;
		}
		n++;
	}
	scan_next(&r->s);
	return true;
}

/* Opens a function, whose body follows. */
static void
open_func(struct ir_reader *r, sym_t name, struct span at)
{
	rd_forget_values(r);
	r->func = ir_func_add(r->m, name, !name, at);
	rd_open(r, r->m->funcs.at[r->func].body, at);
}

/* Skips a function whose header is wrong: errors of its body would not help. */
static bool
drop_func(struct ir_reader *r)
{
	r->depth = 0;
	r->func = 0;
	return false;
}

static bool
read_layer(struct ir_reader *r)
{
	struct span at, first;
	struct read_name *n;
	sym_t name = 0;
	bool ok;

	if (r->model) {
		return rd_expected(r, "layers above the model that calls "
				   "them");
	}
	scan_next(&r->s);
	if (!rd_name(r, "the layer's name", &name, &at)) {
		return false;
	}
	n = rd_meaning(r, name);
	first = n->func_span;
	if (first.hi) {
		return fail_twice(r, at, first, "layer", name);
	}
	n->func_span = at;
	open_func(r, name, at);
	ok = read_params(r) && rd_sign(r, '{', "`{`") &&
	     rd_line_end(r, "`{`");
	n = rd_meaning(r, name);
	n->func = r->func;
	n->bad_func = !ok;
	return ok || drop_func(r);
}

static bool
read_model(struct ir_reader *r)
{
	struct span at = scan_span(&r->s, &r->s.t);
	func_id first = r->model;

	if (first) {
		rd_fail(r, at, "expected one model, found a second");
		diag_note(&r->ctx->diags, r->m->funcs.at[first].span,
			  "first defined here");
		return false;
	}
	scan_next(&r->s);
	open_func(r, 0, at);
	r->model = r->func;
	if (!rd_sign(r, '{', "`{` after `model`") ||
	    !rd_line_end(r, "`{`")) {
		return drop_func(r);
	}
	return true;
}

/* ---- before the functions ---- */

static bool
read_module(struct ir_reader *r)
{
	struct span at;

	if (r->m->name) {
		return rd_expected(r, "one module line, the first");
	}
	scan_next(&r->s);
	return rd_name(r, "the module's name", &r->m->name, &at) &&
	       rd_line_end(r, "the module's name");
}

/* The size after `dim name =`. */
static bool
read_size(struct ir_reader *r, int64_t *size, expr_id *expr)
{
	struct span at;

	if (!rd_sign(r, '=', "`=` and the dim's size") ||
	    !rd_expr(r, expr, &at) || !rd_line_end(r, "the dim's size")) {
		return false;
	}
	*size = r->m->exprs.at[*expr].value;
	if (r->m->exprs.at[*expr].kind == EXPR_CONST) {
		*expr = 0;
	}
	return (*size >= 1 && *size <= IR_MAX_SIZE) ||
	       rd_fail(r, at, "expected a size from 1 to %" PRId64
		       ", found %" PRId64, IR_MAX_SIZE, *size);
}

static bool
read_dim(struct ir_reader *r)
{
	int64_t size = 1;
	expr_id expr = 0;
	struct read_name *n;
	struct span at;
	sym_t name = 0;
	bool ok;

	scan_next(&r->s);
	if (!rd_name(r, "the dim's name", &name, &at)) {
		return false;
	}
	n = rd_meaning(r, name);
	if (n->dim) {
		return fail_twice(r, at, r->m->dims.at[n->dim].span, "dim",
				  name);
	}
	ok = read_size(r, &size, &expr);
	n = rd_meaning(r, name);
	n->dim = ir_dim_add(r->m, name, size, expr, at);
	n->bad_dim = !ok;
	return ok;
}

/* `axis dp = 8 time`, or balanced */
static bool
read_axis(struct ir_reader *r)
{
	struct span at, size_at;
	struct ir_axis axis = { 0 };
	axis_id a;

	scan_next(&r->s);
	if (!rd_name(r, "the axis's name", &axis.name, &at)) {
		return false;
	}
	a = ir_axis_find(r->m, axis.name);
	if (a) {
		return fail_twice(r, at, r->m->axes.at[a].span, "axis",
				  axis.name);
	}
	if (r->m->axes.n > IR_MAX_AXES) {
		return rd_fail(r, at, "expected at most %d axes, found more",
			       IR_MAX_AXES);
	}
	if (!rd_sign(r, '=', "`=` and the axis's size")) {
		return false;
	}
	size_at = scan_span(&r->s, &r->s.t);
	if (!rd_int(r, "the axis's size", &axis.size)) {
		return false;
	}
	if (axis.size < 1 || axis.size > IR_MAX_AXIS) {
		return rd_fail(r, size_at, "expected a size from 1 to %d, "
			       "found %" PRId64, IR_MAX_AXIS, axis.size);
	}
	a = ir_axis_add(r->m, axis.name, axis.size, at);
	if (scan_is_word(&r->s, "time")) {
		r->m->axes.at[a].time = true;
		scan_next(&r->s);
	} else if (scan_is_word(&r->s, "balanced")) {
		r->m->axes.at[a].balanced = true;
		scan_next(&r->s);
	}
	return rd_line_end(r, "the axis's size, `time` or `balanced`");
}

/* `(1, 2)` or `1` */
static bool
read_numbers(struct ir_reader *r, struct ir_setting *s)
{
	bool list = scan_is(&r->s, '(');
	const uint8_t most = sizeof s->num / sizeof s->num[0];

	if (list) {
		scan_next(&r->s);
	}
	do {
		if (s->n == most) {
			return rd_fail(r, scan_span(&r->s, &r->s.t),
				       "expected at most %d numbers, found "
				       "more", most);
		}
		if (s->n) {
			scan_next(&r->s);
		}
		if (!rd_num(r, "a number, a word or text in quotes",
			    &s->num[s->n])) {
			return false;
		}
		s->n++;
	} while (list && scan_is(&r->s, ','));
	return !list || rd_sign(r, ')', "`,` or `)`");
}

static bool
read_set(struct ir_reader *r)
{
	struct ir_setting s = { 0 };
	struct read_name *n;
	uint32_t lo, at;

	scan_next(&r->s);
	lo = r->s.t.lo;
	if (r->s.t.kind != TOK_NAME) {
		return rd_expected(r, "the setting's name");
	}
	s.key = r->s.t.text;
	s.span = scan_span(&r->s, &r->s.t);
	n = rd_meaning(r, s.key);
	if (n->setting) {
		return fail_twice(r, s.span,
				  r->m->settings.at[n->setting - 1].span,
				  "setting", s.key);
	}
	scan_next(&r->s);
	if (!rd_sign(r, '=', "`=` and the setting's value")) {
		return false;
	}
	at = r->s.t.lo;
	if (r->s.t.kind == TOK_NAME || r->s.t.kind == TOK_STRING) {
		s.kind = r->s.t.kind == TOK_NAME ? SET_WORD : SET_STR;
		s.n = 1;
		s.text = r->s.t.text;
		scan_next(&r->s);
	} else if (!read_numbers(r, &s)) {
		return false;
	}
	s.span = rd_span_from(r, lo);
	s.value = rd_span_from(r, at);
	VEC_PUSH(&r->ctx->perm, &r->m->settings, s);
	rd_meaning(r, s.key)->setting = r->m->settings.n;
	return rd_line_end(r, "the setting's value");
}

/* A word of a hint, dots allowed. */
static bool
hint_word(struct ir_reader *r, const char *what, sym_t *word)
{
	if (r->s.t.kind != TOK_NAME) {
		return rd_expected(r, what);
	}
	*word = r->s.t.text;
	scan_next(&r->s);
	return true;
}

static bool
read_hint(struct ir_reader *r)
{
	struct ir_hint h = { 0 };
	uint32_t lo = r->s.t.lo;

	scan_next(&r->s);
	if (!hint_word(r, "what to do, such as `shard`", &h.verb) ||
	    !hint_word(r, "what the hint is for", &h.what)) {
		return false;
	}
	if (scan_is_word(&r->s, "on")) {
		scan_next(&r->s);
		if (!hint_word(r, "a mesh axis after `on`", &h.axis)) {
			return false;
		}
	}
	h.span = rd_span_from(r, lo);
	VEC_PUSH(&r->ctx->perm, &r->m->hints, h);
	return rd_line_end(r, "the hint");
}

/* ---- the file ---- */

typedef bool line_fn(struct ir_reader *r);

static const struct {
	const char *word;
	line_fn *read;
} lines[] = {
	{ "module", read_module }, { "dim", read_dim },
	{ "axis", read_axis }, { "set", read_set },
	{ "hint", read_hint }, { "layer", read_layer },
	{ "model", read_model }
};

#define NLINES (sizeof lines / sizeof lines[0])

static bool
read_top_line(struct ir_reader *r)
{
	struct diag_near near;
	size_t i;

	for (i = 0; i < NLINES; i++) {
		if (scan_is_word(&r->s, lines[i].word)) {
			return lines[i].read(r);
		}
	}
	if (r->s.t.kind != TOK_NAME || r->s.t.dotted) {
		return rd_expected(r, "a line that starts with module, dim, "
				   "axis, set, hint, layer or model");
	}
	diag_near_init(&near, ir_text(r->ctx, r->s.t.text));
	for (i = 0; i < NLINES; i++) {
		diag_near_try(&near, lines[i].word);
	}
	return rd_fail(r, scan_span(&r->s, &r->s.t), "expected a line that "
		       "starts with module, dim, axis, set, hint, layer or "
		       "model, found %s%s", scan_found(&r->s),
		       diag_near_text(&near, &r->ctx->tmp));
}

static void
read_line(struct ir_reader *r)
{
	bool ok;

	if (r->depth && (scan_is_word(&r->s, "layer") ||
			 scan_is_word(&r->s, "model"))) {
		rd_missing_brace(r);
	}
	ok = r->depth ? rd_body_line(r) : read_top_line(r);
	if (!ok && scan_line_opens(&r->s)) {
		scan_past_block(&r->s);
	}
	scan_to_line_end(&r->s);
}

/* `llmc-ir 1`, the first line that is not empty. */
static bool
read_version(struct ir_reader *r)
{
	const char *what = "`llmc-ir 1` in the first line";
	struct span at = scan_span(&r->s, &r->s.t);
	int64_t version = 1;

	if (!scan_is_word(&r->s, "llmc")) {
		return rd_expected(r, what);
	}
	scan_next(&r->s);
	if (!rd_sign(r, '-', what)) {
		return false;
	}
	if (!scan_is_word(&r->s, "ir")) {
		return rd_expected(r, what);
	}
	scan_next(&r->s);
	at = scan_span(&r->s, &r->s.t);
	if (!rd_int(r, "the version of the text form", &version)) {
		return false;
	}
	if (version != 1) {
		return rd_fail(r, at, "expected version 1 of the text form, "
			       "found %" PRId64, version);
	}
	return rd_line_end(r, "the version");
}

static void
skip_empty_lines(struct ir_reader *r)
{
	while (r->s.t.kind == TOK_LINE) {
		scan_next(&r->s);
	}
}

static void
read_file(struct ir_reader *r)
{
	skip_empty_lines(r);
	if (!read_version(r)) {
		return;
	}
	skip_empty_lines(r);
	while (r->s.t.kind != TOK_END &&
	       r->ctx->diags.errors - r->errors_before < TOO_MANY) {
		read_line(r);
		skip_empty_lines(r);
	}
	if (r->s.t.kind != TOK_END) {
		return;
	}
	if (r->depth) {
		rd_missing_brace(r);
	}
	if (!r->model && !(r->m->axes.n > 1 && r->m->funcs.n > 1)) {
		rd_expected(r, "a model");
	}
}

struct ir_module *
ir_read(struct ir_ctx *c, uint32_t file)
{
	struct ir_reader r = { .ctx = c };

	r.m = ir_module_new(c);
	r.errors_before = c->diags.errors;
	scan_init(&r.s, c, file);
	read_file(&r);
	return c->diags.errors == r.errors_before ? r.m : NULL;
}
