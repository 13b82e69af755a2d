/*
 * The verifier's rules for what is before the functions: names, dims and the
 * expressions that they are written as, settings and hints.
 */
#include "ir/verify.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct span nowhere = { 0, 0 };

/* ---- names ---- */

bool
ver_is_name(const struct verifier *v, sym_t name, bool dots)
{
	const char *s;
	bool start = true;
	uint32_t i, n;

	if (!name || name >= v->ctx->syms.text.n) {
		return false;
	}
	s = ir_text(v->ctx, name);
	n = v->ctx->syms.len.at[name];
	for (i = 0; i < n; i++) {
		bool letter = (s[i] >= 'a' && s[i] <= 'z') ||
			      (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_';
		bool digit = s[i] >= '0' && s[i] <= '9';

		if (dots && s[i] == '.' && !start) {
			start = true;
			continue;
		}
		if (!letter && (start || !digit)) {
			return false;
		}
		start = false;
	}
	return !start && n <= SCAN_MAX_NAME;
}

bool *
ver_no_names(struct verifier *v)
{
	return arena_alloc(&v->ctx->tmp, v->ctx->syms.text.n);
}

bool
ver_first_time(bool *seen, sym_t name)
{
	bool first = !seen[name];

	seen[name] = true;
	return first;
}

/* ---- the mesh ---- */

static void
check_axes(struct verifier *v)
{
	bool *seen = ver_no_names(v);
	axis_id a;

	if (v->m->axes.n > IR_MAX_AXES + 1) {
		ver_fail(v, nowhere, "expected at most %d axes, found %" PRIu32,
			 IR_MAX_AXES, v->m->axes.n - 1);
		return;
	}
	for (a = 1; a < v->m->axes.n; a++) {
		const struct ir_axis *x = &v->m->axes.at[a];

		if (!ver_is_name(v, x->name, false)) {
			ver_fail(v, x->span, "axis %" PRIu32 ": expected a "
				 "name, found \"%s\"", a,
				 ver_text(v, x->name));
		} else if (!ver_first_time(seen, x->name)) {
			ver_fail(v, x->span, "expected one axis `%s`, found a "
				 "second", ver_text(v, x->name));
		} else if (x->size < 1 || x->size > IR_MAX_AXIS) {
			ver_fail(v, x->span, "axis `%s`: expected a size from "
				 "1 to %d, found %" PRId64,
				 ver_text(v, x->name), IR_MAX_AXIS, x->size);
		} else if (x->time && x->balanced) {
			ver_fail(v, x->span, "axis `%s`: expected time or "
				 "balanced, found both",
				 ver_text(v, x->name));
		}
	}
}

/* ---- dims and expressions ---- */

static bool
check_operator(struct verifier *v, expr_id id, struct ir_expr *e)
{
	const struct ir_expr *x, *y;
	int64_t got = 0;
	bool fits;

	if (!e->lhs || !e->rhs || e->lhs >= id || e->rhs >= id) {
		return ver_fail(v, nowhere, "expression %" PRIu32 ": expected "
				"operands from 1 to %" PRIu32 ", found %"
				PRIu32 " and %" PRIu32, id, id - 1, e->lhs,
				e->rhs);
	}
	x = &v->m->exprs.at[e->lhs];
	y = &v->m->exprs.at[e->rhs];
	switch (e->kind) {
	case EXPR_ADD:
		fits = num_add(x->value, y->value, &got);
		break;
	case EXPR_SUB:
		fits = y->value != INT64_MIN &&
		       num_add(x->value, -y->value, &got);
		break;
	case EXPR_MUL:
		fits = num_mul(x->value, y->value, &got);
		break;
	default:
		fits = y->value != 0 &&
		       !(x->value == INT64_MIN && y->value == -1) &&
		       x->value % y->value == 0;
		got = fits ? x->value / y->value : 0;
		break;
	}
	v->expr_dim[id] = v->expr_dim[e->lhs] > v->expr_dim[e->rhs]
		? v->expr_dim[e->lhs] : v->expr_dim[e->rhs];
	v->terms[id] = v->terms[e->lhs] + v->terms[e->rhs];
	if (v->terms[id] > SCAN_MAX_TERMS) {
		return ver_fail(v, nowhere, "expression %" PRIu32 ": expected "
				"at most %d numbers and dims in it, found %"
				PRIu32, id, SCAN_MAX_TERMS, v->terms[id]);
	}
	return (fits && got == e->value) ||
	       ver_fail(v, nowhere, "expression %" PRIu32 ": expected the "
			"value that its operands %" PRId64 " and %" PRId64
			" come to, found %" PRId64, id, x->value, y->value,
			e->value);
}

static bool
check_expr(struct verifier *v, expr_id id)
{
	struct ir_expr *e = &v->m->exprs.at[id];
	int depth;

	v->terms[id] = 1;
	if (e->kind == EXPR_CONST) {
		return true;
	}
	if (e->kind == EXPR_DIM) {
		if (!e->dim || e->dim >= v->m->dims.n) {
			return ver_fail(v, nowhere, "expression %" PRIu32
					": expected a dim from 1 to %" PRIu32
					", found %" PRIu32, id,
					v->m->dims.n - 1, e->dim);
		}
		v->expr_dim[id] = e->dim;
		return e->value == ir_dim_size(v->m, e->dim) ||
		       ver_fail(v, v->m->dims.at[e->dim].span, "expression %"
				PRIu32 ": expected the size of `%s`, %" PRId64
				", found %" PRId64, id, ver_dim(v, e->dim),
				ir_dim_size(v->m, e->dim), e->value);
	}
	if (e->kind > EXPR_DIV) {
		return ver_fail(v, nowhere, "expression %" PRIu32 ": expected "
				"a kind from 0 to %d, found %d", id, EXPR_DIV,
				e->kind);
	}
	if (!check_operator(v, id, e)) {
		return false;
	}
	depth = v->m->exprs.at[e->lhs].depth;
	if (depth < v->m->exprs.at[e->rhs].depth) {
		depth = v->m->exprs.at[e->rhs].depth;
	}
	return (e->depth == depth + 1 && e->depth <= IR_MAX_DEPTH) ||
	       ver_fail(v, nowhere, "expression %" PRIu32 ": expected depth %d"
			" of at most %d, found %d", id, depth + 1,
			IR_MAX_DEPTH, e->depth);
}

static bool
check_dim(struct verifier *v, dim_id id, bool *seen)
{
	const struct ir_dim *d = &v->m->dims.at[id];

	if (!ver_is_name(v, d->name, false)) {
		return ver_fail(v, d->span, "dim %" PRIu32 ": expected a name, "
				"found \"%s\"", id, ver_text(v, d->name));
	}
	if (!ver_first_time(seen, d->name)) {
		return ver_fail(v, d->span, "dim `%s`: expected one dim of "
				"that name, found a second", ver_dim(v, id));
	}
	if (d->size < 1 || d->size > IR_MAX_SIZE) {
		return ver_fail(v, d->span, "dim `%s`: expected a size from 1 "
				"to %" PRId64 ", found %" PRId64,
				ver_dim(v, id), IR_MAX_SIZE, d->size);
	}
	if (!d->expr) {
		return true;
	}
	if (d->expr >= v->m->exprs.n || v->expr_dim[d->expr] >= id) {
		return ver_fail(v, d->span, "dim `%s`: expected an expression "
				"over dims before it, found expression %"
				PRIu32, ver_dim(v, id), d->expr);
	}
	return v->m->exprs.at[d->expr].value == d->size ||
	       ver_fail(v, d->span, "dim `%s`: expected the size that its "
			"expression comes to, %" PRId64 ", found %" PRId64,
			ver_dim(v, id), v->m->exprs.at[d->expr].value,
			d->size);
}

/* ---- settings and hints ---- */

static bool
check_setting(struct verifier *v, const struct ir_setting *s, bool *seen)
{
	const char *key = ver_text(v, s->key);
	int i;

	if (!ver_is_name(v, s->key, true)) {
		return ver_fail(v, s->span, "setting: expected a name, found "
				"\"%s\"", key);
	}
	if (!ver_first_time(seen, s->key)) {
		return ver_fail(v, s->span, "setting `%s`: expected one of "
				"that name, found a second", key);
	}
	if (s->kind == SET_WORD) {
		return ver_is_name(v, s->text, true) ||
		       ver_fail(v, s->span, "setting `%s`: expected a word, "
				"found \"%s\"", key, ver_text(v, s->text));
	}
	if (s->kind == SET_STR) {
		return (s->text < v->ctx->syms.text.n &&
			v->ctx->syms.len.at[s->text] <= SCAN_MAX_STRING) ||
		       ver_fail(v, s->span, "setting `%s`: expected text of "
				"at most %d bytes, found something else", key,
				SCAN_MAX_STRING);
	}
	if (s->n < 1 || s->n > sizeof s->num / sizeof s->num[0]) {
		return ver_fail(v, s->span, "setting `%s`: expected 1 to 8 "
				"numbers, found %d", key, s->n);
	}
	for (i = 0; i < s->n; i++) {
		if (!isfinite(s->num[i])) {
			return ver_fail(v, s->span, "setting `%s`: expected a "
					"finite number, found %g", key,
					s->num[i]);
		}
	}
	return true;
}

static bool
check_hint(struct verifier *v, const struct ir_hint *h)
{
	return (ver_is_name(v, h->verb, true) &&
		ver_is_name(v, h->what, true) &&
		(!h->axis || ver_is_name(v, h->axis, true))) ||
	       ver_fail(v, h->span, "hint: expected two or three words, found "
			"\"%s\", \"%s\" and \"%s\"", ver_text(v, h->verb),
			ver_text(v, h->what), ver_text(v, h->axis));
}

void
ver_header(struct verifier *v)
{
	const struct ir_module *m = v->m;
	bool *seen = ver_no_names(v);
	uint32_t i;

	if (m->name && !ver_is_name(v, m->name, false)) {
		ver_fail(v, nowhere, "module: expected a name, found \"%s\"",
			 ver_text(v, m->name));
	}
	for (i = 1; i < m->exprs.n; i++) {
		if (!check_expr(v, i)) {
			return;		/* other expressions refer to it */
		}
	}
	for (i = 1; i < m->dims.n; i++) {
		check_dim(v, i, seen);
	}
	check_axes(v);
	seen = ver_no_names(v);
	for (i = 0; i < m->settings.n; i++) {
		check_setting(v, &m->settings.at[i], seen);
	}
	for (i = 0; i < m->hints.n; i++) {
		check_hint(v, &m->hints.at[i]);
	}
}

