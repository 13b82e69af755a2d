/*
 * The lines of a layer, a repeat or the model in the text form: nodes, and the
 * results of regions.
 *
 * Open functions and repeats are in an array, not on the C stack, so that no
 * input can exhaust it.
 */
#include "ir/text/read.h"

#include <inttypes.h>
#include <string.h>

static struct read_frame *
top(struct ir_reader *r)
{
	return r->frames[r->depth - 1];
}

static const char *
plural(uint32_t n)
{
	return n == 1 ? "" : "s";
}

/* ---- frames ---- */

void
rd_open(struct ir_reader *r, region_id region, struct span at)
{
	struct read_frame *f;

	if (!r->frames[r->depth]) {
		r->frames[r->depth] = arena_alloc(&r->ctx->tmp, sizeof *f);
	}
	f = r->frames[r->depth++];
	f->region = region;
	f->nresults = 0;
	f->brace = at;
	f->ended = f->bad = false;
}

/* ---- nodes ---- */

static void
new_node(struct ir_new *n, enum ir_op op, const struct label *results,
	 uint32_t nresults)
{
	ir_new_init(n, op, results[0].span);
	n->hint = results[0].hint;
	n->nresults = nresults;
}

/* `%a.1, %b.2` */
static bool
read_uses(struct ir_reader *r, value_id *v, struct span *at, uint32_t *n)
{
	*n = 0;
	do {
		if (*n == IR_MAX_ARGS) {
			return rd_fail(r, scan_span(&r->s, &r->s.t),
				       "expected at most %d values, found "
				       "more", IR_MAX_ARGS);
		}
		if (*n) {
			scan_next(&r->s);
		}
		if (!rd_use(r, &v[*n], &at[*n])) {
			return false;
		}
		++*n;
	} while (scan_is(&r->s, ','));
	return true;
}

/*
 * Checks a type; `what` and `whose` describe it in the message: "type of this",
 * "dot".
 */
static bool
check_type(struct ir_reader *r, const struct ir_type *want,
	   const struct ir_type *got, struct span at, const char *what,
	   const char *whose)
{
	return ir_type_equal(want, got) ||
	       rd_fail(r, at, "%s %s: expected %s, found %s", what, whose,
		       ir_type_text(r->m, want), ir_type_text(r->m, got));
}

/* Result types after `:`, as many as the node has results. */
static bool
read_types(struct ir_reader *r, struct ir_new *n, struct span *at)
{
	uint32_t i, lo;

	if (!rd_sign(r, ':', "`:` and the type of the result")) {
		return false;
	}
	lo = r->s.t.lo;
	for (i = 0; i == 0 || scan_is(&r->s, ','); i++) {
		if (i) {
			scan_next(&r->s);
		}
		if (i == n->nresults) {
			return rd_fail(r, rd_span_from(r, lo), "expected %"
				       PRIu32 " type%s for as many results, "
				       "found more", n->nresults,
				       plural(n->nresults));
		}
		if (!rd_type(r, &n->types[i], &at[i])) {
			return false;
		}
	}
	return i == n->nresults ||
	       rd_fail(r, rd_span_from(r, lo), "expected %" PRIu32 " types "
		       "for as many results, found %" PRIu32, n->nresults, i);
}

/* Appends the node and defines its results. */
static bool
append(struct ir_reader *r, region_id region, struct ir_new *n,
       const struct label *results, value_id *first)
{
	const char *why;
	uint32_t i;
	bool ok;

	if (n->nresults) {
		*first = ir_append(r->m, region, n, &why);
		ok = *first != 0;
	} else {
		ok = ir_append_sink(r->m, region, n, &why);
	}
	if (!ok) {
		return rd_fail(r, n->span, "%s", why);
	}
	for (i = 1; i < n->nresults; i++) {
		r->m->values.at[*first + i].hint = results[i].hint;
	}
	return true;
}

static bool
operand_count(struct ir_reader *r, const struct ir_new *n, uint32_t lo)
{
	int want = ir_ops[n->op].nargs;

	return (uint32_t)want == n->nargs ||
	       rd_fail(r, rd_span_from(r, lo), "%s: expected %d operand%s, "
		       "found %" PRIu32, ir_ops[n->op].name, want,
		       plural((uint32_t)want), n->nargs);
}

/* `op %a.1, %b.2 key=value ... : type`, from after the op. */
static bool
read_plain(struct ir_reader *r, struct ir_new *n, const struct label *results,
	   struct span op, value_id *first)
{
	struct span at[IR_MAX_ARGS];
	struct ir_type written;
	uint32_t lo = op.lo - r->s.base;

	if (n->nresults != 1) {
		return rd_fail(r, results[1].span, "%s: expected 1 result, "
			       "found %" PRIu32, ir_ops[n->op].name,
			       n->nresults);
	}
	if (r->s.t.kind == TOK_VALUE &&
	    !read_uses(r, n->args, at, &n->nargs)) {
		return false;
	}
	if (!operand_count(r, n, lo)) {
		return false;
	}
	while (r->s.t.kind == TOK_NAME) {
		if (!rd_attr(r, n)) {
			return false;
		}
	}
	if (!rd_attrs_complete(r, n, op) || !read_types(r, n, at) ||
	    !rd_line_end(r, "the type")) {
		return false;
	}
	n->span = rd_span_from(r, results[0].span.lo - r->s.base);
	written = n->types[0];
	if (!append(r, top(r)->region, n, results, first)) {
		return false;
	}
	return check_type(r, ir_type(r->m, *first), &written, at[0],
			  "type of this", ir_ops[n->op].name);
}

/* Checks the operands and results of a call against the layer that it calls. */
static bool
check_call(struct ir_reader *r, struct ir_new *n, const struct span *args,
	   const struct span *types, struct span at)
{
	const struct ir_func *f = &r->m->funcs.at[n->callee];
	const struct ir_region *body = &r->m->regions.at[f->body];
	const char *name = ir_text(r->ctx, f->name);
	uint32_t i;

	if (n->nargs != body->params.n) {
		return rd_fail(r, at, "layer `%s`: expected %" PRIu32
			       " operand%s, found %" PRIu32, name,
			       body->params.n, plural(body->params.n),
			       n->nargs);
	}
	if (n->nresults != body->results.n) {
		return rd_fail(r, at, "layer `%s`: expected %" PRIu32
			       " result%s, found %" PRIu32, name,
			       body->results.n, plural(body->results.n),
			       n->nresults);
	}
	for (i = 0; i < n->nargs; i++) {
		if (!check_type(r, ir_type(r->m, body->params.at[i]),
				ir_type(r->m, n->args[i]), args[i],
				"operand of layer", name)) {
			return false;
		}
	}
	for (i = 0; i < n->nresults; i++) {
		if (!check_type(r, ir_type(r->m, body->results.at[i]),
				&n->types[i], types[i], "result of layer",
				name)) {
			return false;
		}
	}
	return true;
}

/* `call layer(%a.1) name="..." : types`, from after `call`. */
static bool
read_call(struct ir_reader *r, struct ir_new *n, const struct label *results,
	  struct span op, value_id *first)
{
	struct span args[IR_MAX_ARGS], types[IR_MAX_ARGS];

	if (!rd_layer(r, &n->callee) ||
	    !rd_sign(r, '(', "`(` and the layer's operands")) {
		return false;
	}
	if (!scan_is(&r->s, ')') &&
	    !read_uses(r, n->args, args, &n->nargs)) {
		return false;
	}
	if (!rd_sign(r, ')', "`,` or `)`")) {
		return false;
	}
	while (r->s.t.kind == TOK_NAME) {
		if (!rd_attr(r, n)) {
			return false;
		}
	}
	if (!rd_attrs_complete(r, n, op) || !read_types(r, n, types) ||
	    !rd_line_end(r, "the type")) {
		return false;
	}
	n->span = rd_span_from(r, results[0].span.lo - r->s.base);
	return check_call(r, n, args, types, n->span) &&
	       append(r, top(r)->region, n, results, first);
}

/* ---- repeats ---- */

/* `(%x.4 = %x.2, ...)` */
static bool
read_carried(struct ir_reader *r, struct ir_new *n, struct label *params)
{
	struct span at;

	if (!rd_sign(r, '(', "`(` and the values that the repeat carries")) {
		return false;
	}
	if (n->nresults == 0) {
		return rd_sign(r, ')', "`)`, since there are no results");
	}
	do {
		if (n->nargs == IR_MAX_ARGS) {
			return rd_fail(r, scan_span(&r->s, &r->s.t),
				       "expected at most %d carried values, "
				       "found more", IR_MAX_ARGS);
		}
		if (n->nargs) {
			scan_next(&r->s);
		}
		if (!rd_label(r, &params[n->nargs]) ||
		    !rd_sign(r, '=', "`=` and where the value starts") ||
		    !rd_use(r, &n->args[n->nargs], &at)) {
			return false;
		}
		n->nargs++;
	} while (scan_is(&r->s, ','));
	return rd_sign(r, ')', "`,` or `)`");
}

/* `repeat count=8 (%x.4 = %x.2) : types {`, from after `repeat`. */
static bool
read_repeat_line(struct ir_reader *r, struct ir_new *n, struct label *params,
		 struct span op)
{
	struct span types[IR_MAX_ARGS];
	uint32_t i;

	while (r->s.t.kind == TOK_NAME) {
		if (!rd_attr(r, n)) {
			return false;
		}
	}
	if (!rd_attrs_complete(r, n, op) || !read_carried(r, n, params)) {
		return false;
	}
	if (n->nargs != n->nresults) {
		return rd_fail(r, op, "expected as many results as carried "
			       "values, found %" PRIu32 " and %" PRIu32,
			       n->nresults, n->nargs);
	}
	if (n->nresults && !read_types(r, n, types)) {
		return false;
	}
	for (i = 0; i < n->nargs; i++) {
		if (!check_type(r, ir_type(r->m, n->args[i]), &n->types[i],
				types[i], "type of", "a carried value")) {
			return false;
		}
	}
	return true;
}

static bool
read_repeat(struct ir_reader *r, struct ir_new *n, const struct label *results,
	    struct span op)
{
	struct label params[IR_MAX_ARGS];
	region_id region;
	struct read_frame *f;
	bool ok = true;
	uint32_t i;

	if (!read_repeat_line(r, n, params, op)) {
		return false;
	}
	n->span = rd_span_from(r, results[0].span.lo - r->s.base);
	if (!rd_sign(r, '{', "`{`") || !rd_line_end(r, "`{`")) {
		return false;
	}
	if (r->depth > IR_MAX_DEPTH) {
		return rd_fail(r, n->span, "expected repeats at most %d deep, "
			       "found one more", IR_MAX_DEPTH);
	}
	for (i = 0; i < n->nresults; i++) {
		ok &= rd_reserve(r, &results[i]);
	}
	region = ir_region_add(r->m, 0);
	rd_open(r, region, n->span);
	f = top(r);
	f->bad = !ok;
	f->node = *n;
	f->node.region = region;
	f->nresults = n->nresults;
	memcpy(f->results, results, n->nresults * sizeof *results);
	for (i = 0; i < n->nargs; i++) {
		rd_define(r, &params[i],
			  ir_param_add(r->m, region, &n->types[i],
				       params[i].hint));
	}
	return true;
}

/* ---- lines of a region ---- */

static bool
read_op(struct ir_reader *r, enum ir_op *op, struct span *at)
{
	struct diag_near near;
	sym_t name = 0;
	int i;

	if (!rd_name(r, "the name of an op", &name, at)) {
		return false;
	}
	if (ir_find_op(ir_text(r->ctx, name), op)) {
		return true;
	}
	diag_near_init(&near, ir_text(r->ctx, name));
	for (i = 0; i < IR_OP_COUNT; i++) {
		diag_near_try(&near, ir_ops[i].name);
	}
	return rd_fail(r, *at, "unknown op `%s`%s", ir_text(r->ctx, name),
		       diag_near_text(&near, &r->ctx->tmp));
}

/* `accumulate %a.1 name="..."`: an op without a result. */
static bool
read_sink(struct ir_reader *r)
{
	struct span at[IR_MAX_ARGS], op = scan_span(&r->s, &r->s.t);
	enum ir_op kind = IR_INPUT;
	struct ir_new n;
	const char *why;

	if (!read_op(r, &kind, &op)) {
		return false;
	}
	if (ir_is(kind, IRF_REGION)) {
		struct label none = { .span = op };

		new_node(&n, kind, &none, 0);
		return read_repeat(r, &n, &none, op);
	}
	if (!ir_is(kind, IRF_SINK)) {
		return rd_fail(r, op, "%s has a result: expected `%%N = %s`",
			       ir_ops[kind].name, ir_ops[kind].name);
	}
	ir_new_init(&n, kind, op);
	if ((r->s.t.kind == TOK_VALUE &&
	     !read_uses(r, n.args, at, &n.nargs)) ||
	    !operand_count(r, &n, op.lo - r->s.base)) {
		return false;
	}
	while (r->s.t.kind == TOK_NAME) {
		if (!rd_attr(r, &n)) {
			return false;
		}
	}
	if (!rd_attrs_complete(r, &n, op) || !rd_line_end(r, "the node")) {
		return false;
	}
	n.span = rd_span_from(r, op.lo - r->s.base);
	return ir_append_sink(r->m, top(r)->region, &n, &why) ||
	       rd_fail(r, n.span, "%s", why);
}

/* `%a.1, %b.2 =` */
static bool
read_results(struct ir_reader *r, struct label *results, uint32_t *n)
{
	do {
		if (*n == IR_MAX_ARGS) {
			return rd_fail(r, scan_span(&r->s, &r->s.t),
				       "expected at most %d results, found "
				       "more", IR_MAX_ARGS);
		}
		if (*n) {
			scan_next(&r->s);
		}
		if (!rd_label(r, &results[*n])) {
			return false;
		}
		++*n;
	} while (scan_is(&r->s, ','));
	return rd_sign(r, '=', "`=` and an op");
}

/* Reads a node; if it is wrong, its results are marked as such. */
static bool
read_node(struct ir_reader *r)
{
	struct label results[IR_MAX_ARGS];
	struct ir_new n;
	enum ir_op op = IR_INPUT;
	struct span at;
	uint32_t nresults = 0, i;
	value_id first = 0;
	bool ok = read_results(r, results, &nresults) && read_op(r, &op, &at);

	if (ok && ir_is(op, IRF_SINK)) {
		ok = rd_fail(r, at, "%s has no result to name",
			     ir_ops[op].name);
	} else if (ok) {
		new_node(&n, op, results, nresults);
		if (ir_is(op, IRF_REGION)) {
			ok = read_repeat(r, &n, results, at);
			if (ok) {
				return true;
			}
		} else if (ir_is(op, IRF_CALLS)) {
			ok = read_call(r, &n, results, at, &first);
		} else {
			ok = read_plain(r, &n, results, at, &first);
		}
	}
	for (i = 0; i < nresults; i++) {
		ok &= rd_define(r, &results[i], ok ? first + i : 0);
	}
	return ok;
}

/* `yield` and `return`: what the region hands back. */
static bool
read_results_line(struct ir_reader *r, const char *word)
{
	struct read_frame *f = top(r);
	bool repeat = r->depth > 1;
	struct span at[IR_MAX_ARGS];
	value_id v[IR_MAX_ARGS];
	uint32_t n, i;

	f->ended = true;
	f->bad = true;
	if (repeat != (strcmp(word, "yield") == 0)) {
		return rd_expected(r, repeat ? "`yield`, which ends a repeat"
					     : "`return`, which ends a layer "
					       "and the model");
	}
	scan_next(&r->s);
	n = 0;
	if (((repeat ? f->nresults > 0 : r->s.t.kind == TOK_VALUE) &&
	     !read_uses(r, v, at, &n)) ||
	    !rd_line_end(r, "the values")) {
		return false;
	}
	if (repeat && n != f->nresults) {
		return rd_fail(r, at[0], "expected %" PRIu32 " value%s, one "
			       "for each that the repeat carries, found %"
			       PRIu32, f->nresults, plural(f->nresults),
			       n);
	}
	for (i = 0; i < n; i++) {
		if (repeat &&
		    !check_type(r, &f->node.types[i], ir_type(r->m, v[i]),
				at[i], "yield of", "a carried value")) {
			return false;
		}
		VEC_PUSH(&r->ctx->perm, &r->m->regions.at[f->region].results,
			 v[i]);
	}
	f->bad = false;
	return true;
}

static void
close_func(struct ir_reader *r, const struct read_frame *f)
{
	const struct ir_func *func = &r->m->funcs.at[r->func];

	if (func->name && f->bad) {
		rd_meaning(r, func->name)->bad_func = true;
	}
	r->func = 0;
}

static void
close_repeat(struct ir_reader *r, struct read_frame *f)
{
	value_id first = 0;
	bool ok = !f->bad && append(r, top(r)->region, &f->node, f->results,
				    &first);
	uint32_t i;

	for (i = 0; i < f->nresults; i++) {
		rd_fulfil(r, &f->results[i], ok ? first + i : 0);
	}
}

static bool
read_close(struct ir_reader *r)
{
	struct read_frame *f = top(r);
	bool repeat = r->depth > 1, ok = f->ended;

	if (!ok) {
		f->bad = true;
		rd_expected(r, repeat ? "`yield` before the end of a repeat"
				      : "`return` before the end of a layer "
					"or the model");
		diag_note(&r->ctx->diags, f->brace, "which starts here");
	}
	scan_next(&r->s);
	ok &= rd_line_end(r, "`}`");
	r->depth--;
	if (repeat) {
		close_repeat(r, f);
	} else {
		close_func(r, f);
	}
	return ok;
}

void
rd_missing_brace(struct ir_reader *r)
{
	const struct ir_func *f = &r->m->funcs.at[r->func];

	rd_expected(r, "`}`");
	diag_note(&r->ctx->diags, top(r)->brace, "to end what starts here");
	if (f->name) {
		rd_meaning(r, f->name)->bad_func = true;
	}
	r->depth = 0;
	r->func = 0;
}

bool
rd_body_line(struct ir_reader *r)
{
	if (scan_is(&r->s, '}')) {
		return read_close(r);
	}
	if (top(r)->ended) {
		return rd_expected(r, "`}` after yield or return");
	}
	if (scan_is_word(&r->s, "return")) {
		return read_results_line(r, "return");
	}
	if (scan_is_word(&r->s, "yield")) {
		return read_results_line(r, "yield");
	}
	if (r->s.t.kind == TOK_VALUE) {
		return read_node(r);
	}
	if (r->s.t.kind == TOK_NAME) {
		return read_sink(r);
	}
	return rd_expected(r, "a value such as %x.3 to define, or `return`, "
			   "`yield` or `}`");
}

