/*
 * The interpreter's sources and sinks: what a tensor is called here and now,
 * where it comes from, and where it goes.
 */
#include "ir/interp.h"

#include <string.h>

/* ---- names ---- */

void
ir_interp_leave(struct buf *b, size_t length)
{
	if (b->at) {
		b->n = length;
		b->at[length] = '\0';
	}
}

size_t
ir_interp_enter(struct buf *b, char separator, const char *part)
{
	size_t length = b->n;

	if (length > 0) {
		buf_putc(b, separator);
	}
	buf_puts(b, part);
	return length;
}

size_t
ir_interp_enter_name(struct interp *e, const struct ir_node *n)
{
	const struct ir_attr *a = ir_attr(e->m, n, IR_ATTR_NAME);

	if (!a || !a->text) {
		return e->name.n;
	}
	return ir_interp_enter(&e->name, '.', ir_text(e->m->ctx, a->text));
}

static bool
same_word(const char *word, size_t n, const char *text)
{
	return strlen(text) == n && memcmp(word, text, n) == 0;
}

/* The value of a repeat variable: the innermost of that name. */
static bool
trip_value(const struct interp *e, const char *word, size_t n, int64_t *v)
{
	uint32_t i;

	for (i = e->trips.n; i-- > 0;) {
		const struct interp_trip *t = &e->trips.at[i];

		if (t->var && same_word(word, n, ir_text(e->m->ctx, t->var))) {
			*v = t->value;
			return true;
		}
	}
	return false;
}

/* Whether the name has {dim}, and no repeat variable means that word. */
static bool
stands_for(const struct interp *e, const char *dim)
{
	const char *p = e->name.at ? e->name.at : "";
	size_t n = strlen(dim);
	int64_t v;

	for (; (p = strchr(p, '{')) != NULL; p++) {
		if (strncmp(p + 1, dim, n) == 0 && p[n + 1] == '}') {
			return !trip_value(e, dim, n, &v);
		}
	}
	return false;
}

/*
 * How many outermost dims of the tensor its full name stands for, as
 * {dim}: each of their indices is a stored tensor of its own.
 */
static bool
stacked_dims(const struct interp *e, const struct ir_node *n,
	     const struct ir_type *t, uint8_t *count)
{
	uint8_t i;

	*count = 0;
	for (i = 0; i < t->ndims; i++) {
		const char *dim = ir_dim_name(e->m, t->dims[i]);

		if (!stands_for(e, dim)) {
			continue;
		}
		if (i != *count) {
			diag_error(&e->m->ctx->diags, n->span,
				   "the name `%s` stands for one tensor per "
				   "`%s`, which is not the outermost dim of "
				   "%s", e->name.at, dim,
				   ir_type_text(e->m, t));
			return false;
		}
		++*count;
	}
	return true;
}

static bool
stacked_index(const struct interp *e, const struct ir_type *t,
	      uint8_t stacked, int64_t piece, const char *word, size_t n,
	      int64_t *v)
{
	while (stacked-- > 0) {
		int64_t size = ir_dim_size(e->m, t->dims[stacked]);

		if (same_word(word, n, ir_dim_name(e->m, t->dims[stacked]))) {
			*v = piece % size;
			return true;
		}
		piece /= size;
	}
	return false;
}

/* What stored tensor `piece` of a result is called, until the next call. */
static const char *
full_name(struct interp *e, const struct ir_type *t, uint8_t stacked,
	  int64_t piece)
{
	const char *p = buf_text(&e->name);

	ir_interp_leave(&e->full, 0);
	while (*p) {
		const char *close = *p == '{' ? strchr(p, '}') : NULL;
		size_t n = close ? (size_t)(close - p) - 1 : 0;
		int64_t v;

		if (close && (trip_value(e, p + 1, n, &v) ||
			      stacked_index(e, t, stacked, piece, p + 1, n,
					    &v))) {
			buf_printf(&e->full, "%lld", (long long)v);
			p = close + 1;
		} else {
			buf_putc(&e->full, *p++);
		}
	}
	return buf_text(&e->full);
}

/* ---- sources ---- */

/* Tokens and labels are one sequence of s + 1, seen from 0 and from 1. */
static void
draw_tokens(uint64_t key, bool labels, int64_t s, int64_t below,
	    int64_t elems, double *out)
{
	int64_t i;

	for (i = 0; i < elems; i++) {
		int64_t index = i / s * (s + 1) + i % s + labels;

		out[i] = (double)ir_rng_below(key, (uint64_t)index, below);
	}
}

/* Data from outside has one name, whichever layer asks for it. */
bool
ir_eval_input(struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_type *t = ir_type(e->m, n->result);
	const struct ir_attr *a = ir_attr(e->m, n, IR_ATTR_NAME);
	const char *name = a ? ir_text(e->m->ctx, a->text) : "";
	bool labels = strcmp(name, "labels") == 0;
	uint64_t key = ir_rng_key(labels ? "tokens" : name, e->opt->seed);
	bool index = !ir_dtypes[t->dtype].is_float;
	const struct ir_weights *w = e->opt->weights;
	int64_t elems, i;

	ir_type_elems(e->m, t, &elems);
	if (w && w->input && w->input(w->user, name, t, elems, out)) {
		return true;
	}
	if (index && t->ndims > 0 && (labels || strcmp(name, "tokens") == 0)) {
		draw_tokens(key, labels,
			    ir_dim_size(e->m, t->dims[t->ndims - 1]),
			    ir_dim_size(e->m, t->of), elems, out);
		return true;
	}
	for (i = 0; i < elems; i++) {
		out[i] = index ? (double)ir_rng_below(key, (uint64_t)i,
					ir_dim_size(e->m, t->of)) :
				 ir_rng_normal(key, (uint64_t)i);
	}
	return true;
}

static bool
generate(const struct interp *e, const struct ir_node *n, const char *name,
	 int64_t elems, double *out)
{
	const struct ir_attr *init = ir_attr(e->m, n, IR_ATTR_INIT);
	const char *how = init ? ir_text(e->m->ctx, init->text) : "normal";
	double std = ir_attr_num(e->m, n, IR_ATTR_STD, 0.02);
	uint64_t key = ir_rng_key(name, e->opt->seed);
	bool normal = strcmp(how, "normal") == 0;
	double all = strcmp(how, "ones") == 0;
	int64_t i;

	if (!normal && all == 0 && strcmp(how, "zeros") != 0) {
		diag_error(&e->m->ctx->diags, n->span, "`%s` starts as `%s`, "
			   "and normal, ones or zeros is expected", name, how);
		return false;
	}
	for (i = 0; i < elems; i++) {
		out[i] = normal ? std * ir_rng_normal(key, (uint64_t)i) : all;
	}
	return true;
}

/* A tensor as it is stored: one piece, unless its name has {dim}. */
struct pieces {
	struct ir_type one;	/* of a piece */
	uint8_t stacked;	/* outermost dims that the name stands for */
	int64_t n, elems;	/* of a piece */
};

static bool
cut(const struct interp *e, const struct ir_node *n, const struct ir_type *t,
    struct pieces *p)
{
	uint8_t i;

	if (!stacked_dims(e, n, t, &p->stacked)) {
		return false;
	}
	p->one = *t;
	p->one.ndims = t->ndims - p->stacked;
	memcpy(p->one.dims, t->dims + p->stacked,
	       p->one.ndims * sizeof *p->one.dims);
	p->n = 1;
	for (i = 0; i < p->stacked; i++) {
		p->n *= ir_dim_size(e->m, t->dims[i]);
	}
	ir_type_elems(e->m, &p->one, &p->elems);
	return true;
}

static bool
fill(struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_weights *w = e->opt->weights;
	const struct ir_type *t = ir_type(e->m, n->result);
	struct pieces p;
	int64_t i;

	if (!cut(e, n, t, &p)) {
		return false;
	}
	for (i = 0; i < p.n; i++, out += p.elems) {
		const char *name = full_name(e, t, p.stacked, i);
		bool ours = w && w->get &&
			    (!w->has || w->has(w->user, n->op, name));

		if (!(ours ? w->get(w->user, n->op, name, &p.one, p.elems,
				    out, n->span)
			   : generate(e, n, name, p.elems, out))) {
			return false;
		}
	}
	return true;
}

bool
ir_eval_weight(struct interp *e, const struct ir_node *n, double *out)
{
	size_t length = ir_interp_enter_name(e, n);
	bool ok = fill(e, n, out);

	ir_interp_leave(&e->name, length);
	return ok;
}

bool
ir_eval_state(struct interp *e, const struct ir_node *n, double *out)
{
	return ir_eval_weight(e, n, out);
}

bool
ir_eval_gradient(struct interp *e, const struct ir_node *n, double *out)
{
	return ir_eval_weight(e, n, out);
}

/* The optimizer step that this is part of, or 0. */
static uint64_t
step_of(const struct interp *e)
{
	const struct ir_weights *w = e->opt->weights;
	struct ir_type f32 = { .dtype = IR_F32 };
	double step = 0;

	return w && w->input && w->input(w->user, "step", &f32, 1, &step)
		? (uint64_t)step : 0;
}

bool
ir_eval_dropout_mask(struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_type *t = ir_type(e->m, n->result);
	double rate = ir_attr_num(e->m, n, IR_ATTR_RATE, 0);
	size_t length = ir_interp_enter_name(e, n);
	uint64_t key = ir_rng_key(full_name(e, t, 0, 0), e->opt->seed);
	uint64_t step = step_of(e);
	int64_t elems, i;

	ir_interp_leave(&e->name, length);
	ir_type_elems(e->m, t, &elems);
	for (i = 0; i < elems; i++) {
		out[i] = ir_rng_keeps(key, step, (uint64_t)i, rate);
	}
	return true;
}

/* ---- sinks ---- */

static bool
put_out(struct interp *e, const struct ir_node *n)
{
	const struct ir_weights *w = e->opt->weights;
	const struct ir_type *t = ir_type(e->m, ir_args(e->m, n)[0]);
	const double *data = interp_arg(e, n, 0);
	struct pieces p;
	int64_t i;

	if (!w || !w->put) {
		return true;
	}
	if (!cut(e, n, t, &p)) {
		return false;
	}
	for (i = 0; i < p.n; i++, data += p.elems) {
		if (!w->put(w->user, n->op, full_name(e, t, p.stacked, i),
			    &p.one, p.elems, data, n->span)) {
			return false;
		}
	}
	return true;
}

bool
ir_eval_accumulate(struct interp *e, const struct ir_node *n, double *out)
{
	size_t length = ir_interp_enter_name(e, n);
	bool ok = put_out(e, n);

	(void)out;
	ir_interp_leave(&e->name, length);
	return ok;
}

bool
ir_eval_store(struct interp *e, const struct ir_node *n, double *out)
{
	return ir_eval_accumulate(e, n, out);
}

/* Saves are few names at a time, and each is taken once: a list will do. */
bool
ir_eval_save(struct interp *e, const struct ir_node *n, double *out)
{
	struct interp_save s = { 0, NULL };
	size_t length = ir_interp_enter_name(e, n);
	value_id v = ir_args(e->m, n)[0];

	(void)out;
	s.name = intern_str(&e->m->ctx->syms,
			    full_name(e, ir_type(e->m, v), 0, 0));
	s.block = ir_interp_hold(e, v);
	ir_interp_leave(&e->name, length);
	VEC_PUSH(&e->own, &e->saves, s);
	return true;
}

bool
ir_eval_saved(struct interp *e, const struct ir_node *n, double *out)
{
	size_t length = ir_interp_enter_name(e, n);
	const char *name = full_name(e, ir_type(e->m, n->result), 0, 0);
	sym_t s = intern_str(&e->m->ctx->syms, name);
	int64_t elems;
	uint32_t i;

	ir_interp_leave(&e->name, length);
	ir_type_elems(e->m, ir_type(e->m, n->result), &elems);
	for (i = e->saves.n; i-- > 0;) {	/* backward: the last first */
		struct interp_block *b = e->saves.at[i].block;

		if (e->saves.at[i].name != s) {
			continue;
		}
		if (b->bytes != elems * (int64_t)sizeof *out) {
			break;
		}
		memcpy(out, b->data, (size_t)b->bytes);
		ir_interp_put(e, b);
		e->saves.at[i] = e->saves.at[--e->saves.n];
		return true;
	}
	diag_error(&e->m->ctx->diags, n->span, "nothing of this size is saved "
		   "as `%s`", name);
	return false;
}

bool
ir_eval_const(struct interp *e, const struct ir_node *n, double *out)
{
	double v = ir_attr_num(e->m, n, IR_ATTR_VALUE, 0);
	int64_t elems, i;

	ir_type_elems(e->m, ir_type(e->m, n->result), &elems);
	for (i = 0; i < elems; i++) {
		out[i] = v;
	}
	return true;
}

/* ---- other stages ---- */

static bool
no_stage(const struct interp *e, const struct ir_node *n)
{
	diag_error(&e->m->ctx->diags, n->span, "%s needs another stage, and "
		   "this runs alone", ir_ops[n->op].name);
	return false;
}

bool
ir_eval_send(struct interp *e, const struct ir_node *n, double *out)
{
	(void)out;
	return no_stage(e, n);
}

bool
ir_eval_recv(struct interp *e, const struct ir_node *n, double *out)
{
	(void)out;
	return no_stage(e, n);
}
