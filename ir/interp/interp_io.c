/*
 * The interpreter's sources and sinks: the full name of a tensor at this point
 * of the run, where it is read from, and where it is stored.
 */
#include "ir/interp/interp.h"

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

/*
 * The value of a repeat variable: of the innermost repeat with that variable.
 */
static bool
repeat_value(const struct interp *e, const char *word, size_t n, int64_t *v)
{
	struct ir_placeholder p;
	uint32_t i;

	ir_placeholder_read(word, n, &p);
	for (i = e->repeats.n; i-- > 0;) {
		const struct interp_repeat *t = &e->repeats.at[i];

		if (t->var &&
		    ir_placeholder_is(&p, ir_text(e->m->ctx, t->var))) {
			*v = ir_placeholder_at(&p, t->value);
			return true;
		}
	}
	return false;
}

/* Whether the name contains {dim} and no repeat variable has that name. */
static bool
stands_for(const struct interp *e, const char *dim)
{
	const char *p = e->name.at ? e->name.at : "";
	size_t n = strlen(dim);
	int64_t v;

	for (; (p = strchr(p, '{')) != NULL; p++) {
		if (strncmp(p + 1, dim, n) == 0 && p[n + 1] == '}') {
			return !repeat_value(e, dim, n, &v);
		}
	}
	return false;
}

/*
 * The number of outermost dims that the name contains as {dim}: each of their
 * indices is a stored tensor of its own.
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
	      const struct ir_local *stack, int64_t piece, const char *word,
	      size_t n, int64_t *v)
{
	uint32_t i = stack->ndims;

	while (i-- > 0) {
		const struct ir_pieces *p = &stack->dims[i];

		if (same_word(word, n, ir_dim_name(e->m, t->dims[i]))) {
			*v = ir_pieces_at(p, piece % p->total);
			return true;
		}
		piece /= p->total;
	}
	return false;
}

/*
 * The name of stored tensor `piece` of a result, valid until the next call;
 * without stack, the name still contains {dim}.
 */
static const char *
full_name(struct interp *e, const struct ir_type *t,
	  const struct ir_local *stack, int64_t piece)
{
	const char *p = buf_text(&e->name);

	ir_interp_leave(&e->full, 0);
	while (*p) {
		const char *close = *p == '{' ? strchr(p, '}') : NULL;
		size_t n = close ? (size_t)(close - p) - 1 : 0;
		int64_t v;

		if (close && (repeat_value(e, p + 1, n, &v) ||
			      (stack && stacked_index(e, t, stack, piece,
						      p + 1, n, &v)))) {
			buf_printf(&e->full, "%lld", (long long)v);
			p = close + 1;
		} else {
			buf_putc(&e->full, *p++);
		}
	}
	return buf_text(&e->full);
}

const char *
ir_interp_name(struct interp *e, const struct ir_node *n)
{
	size_t length = ir_interp_enter_name(e, n);
	const char *name = full_name(e, NULL, NULL, 0);

	ir_interp_leave(&e->name, length);
	return name;
}

int64_t
ir_interp_variable(const struct interp *e, const struct ir_node *n, int64_t i)
{
	/* unsigned: a start near the limits may wrap around */
	return (int64_t)((uint64_t)ir_attr_int(e->m, n, IR_ATTR_START, 0) +
			 (uint64_t)i);
}

/* ---- all names of a function ---- */

struct each {
	struct interp *e;
	void (*fn)(void *user, const struct ir_node *n, const char *name);
	void *user;
};

static void each_of(struct each *x, const struct ir_node *n);

static void
each_in(struct each *x, region_id id)
{
	const struct ir_region *r = &x->e->m->regions.at[id];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		each_of(x, ir_node(x->e->m, r->nodes.at[i]));
	}
}

static void
each_trip(struct each *x, const struct ir_node *n)
{
	const struct ir_attr *var = ir_attr(x->e->m, n, IR_ATTR_VAR);
	int64_t count = ir_attr_int(x->e->m, n, IR_ATTR_COUNT, 0), i;
	struct interp_repeat repeat = { var ? var->text : 0, 0 };
	struct interp *e = x->e;

	VEC_PUSH(&e->pool->own, &e->repeats, repeat);
	for (i = 0; i < count; i++) {
		e->repeats.at[e->repeats.n - 1].value =
			ir_interp_variable(e, n, i);
		each_in(x, n->region);
	}
	e->repeats.n--;
}

static void
each_of(struct each *x, const struct ir_node *n)
{
	size_t length;

	if (!ir_is(n->op, IRF_REGION | IRF_CALLS)) {
		if (ir_attr(x->e->m, n, IR_ATTR_NAME)) {
			x->fn(x->user, n, ir_interp_name(x->e, n));
		}
		return;
	}
	length = ir_interp_enter_name(x->e, n);
	if (ir_is(n->op, IRF_REGION)) {
		each_trip(x, n);
	} else {
		each_in(x, x->e->m->funcs.at[n->callee].body);
	}
	ir_interp_leave(&x->e->name, length);
}

void
ir_each_name(struct ir_pool *p, func_id f,
	     void (*fn)(void *user, const struct ir_node *n,
			const char *name), void *user)
{
	struct each x = { ir_machine_new(p, NULL, NULL), fn, user };

	each_in(&x, p->m->funcs.at[f].body);
}

/* ---- sources ---- */

/*
 * Tokens and labels are one sequence of s + 1 elements, from element 0 and from
 * element 1.
 */
static int64_t
token_index(bool labels, int64_t s, int64_t i)
{
	return i / s * (s + 1) + i % s + labels;
}

/*
 * Element i of the whole tensor is element i of a stream, whichever rank has
 * it.
 */
static void
draw(const struct interp *e, const struct ir_type *t, const char *name,
     double *out)
{
	bool labels = strcmp(name, "labels") == 0;
	bool tokens = labels || strcmp(name, "tokens") == 0;
	uint64_t key = ir_rng_key(labels ? "tokens" : name, e->opt->seed);
	bool index = !ir_dtypes[t->dtype].is_float;
	struct ir_local l;
	int64_t i, at;

	ir_local(e->m, t, e->at, &l);
	for (i = 0; i < l.elems; i++) {
		at = ir_local_at(&l, i);
		if (index && tokens && t->ndims > 0) {
			at = token_index(labels, l.whole[t->ndims - 1], at);
		}
		out[i] = index ? (double)ir_rng_below(key, (uint64_t)at,
					ir_dim_size(e->m, t->of)) :
				 ir_rng_normal(key, (uint64_t)at);
	}
}

/* Inputs have one name, in whichever layer they are read. */
bool
ir_eval_input(struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_type *t = ir_type(e->m, n->result);
	const struct ir_attr *a = ir_attr(e->m, n, IR_ATTR_NAME);
	const char *name = a ? ir_text(e->m->ctx, a->text) : "";
	const struct ir_weights *w = e->opt->weights;
	int64_t elems = ir_interp_elems(e, n, INTERP_RESULT);

	if (!(w && w->input && w->input(w->user, name, t, elems, out))) {
		draw(e, t, name, out);
	}
	return true;
}

static bool
generate(const struct interp *e, const struct ir_node *n, const char *name,
	 const struct ir_type *t, double *out)
{
	const struct ir_attr *init = ir_attr(e->m, n, IR_ATTR_INIT);
	const char *how = init ? ir_text(e->m->ctx, init->text) : "normal";
	double std = ir_attr_num(e->m, n, IR_ATTR_STD, 0.02);
	uint64_t key = ir_rng_key(name, e->opt->seed);
	bool kept = ir_is(n->op, IRF_KEEPS);
	bool normal = !kept && strcmp(how, "normal") == 0;
	double all = strcmp(how, "ones") == 0;
	struct ir_local l;
	int64_t i;

	if (!normal && !kept && all == 0 && strcmp(how, "zeros") != 0) {
		diag_error(&e->m->ctx->diags, n->span, "`%s` starts as `%s`, "
			   "and normal, ones or zeros is expected", name, how);
		return false;
	}
	ir_local(e->m, t, e->at, &l);
	for (i = 0; i < l.elems; i++) {
		out[i] = normal ? std * ir_rng_normal(key, (uint64_t)
						      ir_local_at(&l, i))
				: all;
	}
	return true;
}

/*
 * A tensor as it is stored: one piece, or if its name contains {dim} several.
 */
struct tensor_pieces {
	struct ir_type one;	/* of a piece */
	struct ir_local stack;	/* the outermost dims that the name contains */
	int64_t elems;		/* of a piece, on this rank */
};

static bool
cut(const struct interp *e, const struct ir_node *n, const struct ir_type *t,
    struct tensor_pieces *p)
{
	struct ir_type outer = *t;
	struct ir_local one;
	uint8_t k;

	if (!stacked_dims(e, n, t, &outer.ndims)) {
		return false;
	}
	k = outer.ndims;
	p->one = *t;
	p->one.ndims = t->ndims - k;
	memcpy(p->one.dims, t->dims + k, p->one.ndims * sizeof *t->dims);
	memset(p->one.cut, 0, sizeof p->one.cut);
	memcpy(p->one.cut, t->cut + k, p->one.ndims * sizeof *t->cut);
	ir_local(e->m, &outer, e->at, &p->stack);
	ir_local(e->m, &p->one, e->at, &one);
	p->elems = one.elems;
	return true;
}

static bool
read_part(struct interp *e, const struct ir_node *n, const char *name,
	  const struct ir_type *t, int64_t elems, double *out)
{
	const struct ir_weights *w = e->opt->weights;
	bool ours = w && w->get && (!w->has || w->has(w->user, n->op, name));

	return ours ? w->get(w->user, n->op, name, t, elems, out, n->span)
		    : generate(e, n, name, t, out);
}

/* Whether the tensor is what is stored of a weight in 8 bits. */
static bool
is_rounded(const struct interp *e, const struct ir_node *n)
{
	return ir_attr(e->m, n, IR_ATTR_ROUNDED) || n->op == IR_SCALES;
}

bool
ir_interp_read_tensor(struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_type *t = ir_type(e->m, n->result);
	struct tensor_pieces p;
	int64_t i;

	if (!cut(e, n, t, &p)) {
		return false;
	}
	for (i = 0; i < p.stack.elems; i++, out += p.elems) {
		const char *name = full_name(e, t, &p.stack, i);

		if (n->op == IR_SCALES) {	/* of the weight of that name */
			ir_interp_leave(&e->full, strlen(name) -
						  strlen(IR_SCALES_SUFFIX));
		}
		if (!(is_rounded(e, n)
		      ? ir_interp_read_rounded(e, n, &p.one, read_part, out)
		      : read_part(e, n, name, &p.one, p.elems, out))) {
			return false;
		}
	}
	return true;
}

bool
ir_eval_scales(struct interp *e, const struct ir_node *n, double *out)
{
	return ir_eval_weight(e, n, out);
}

bool
ir_eval_weight(struct interp *e, const struct ir_node *n, double *out)
{
	size_t length = ir_interp_enter_name(e, n);
	bool ok = ir_interp_read_tensor(e, n, out);

	ir_interp_leave(&e->name, length);
	return ok;
}

bool
ir_eval_buffer(struct interp *e, const struct ir_node *n, double *out)
{
	return ir_eval_weight(e, n, out);
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

bool
ir_interp_write_tensor(struct interp *e, const struct ir_node *n,
		       const struct ir_type *t, const double *data)
{
	const struct ir_weights *w = e->opt->weights;
	struct tensor_pieces p;
	int64_t i;

	if (!w || !w->put) {
		return true;
	}
	if (!cut(e, n, t, &p)) {
		return false;
	}
	for (i = 0; i < p.stack.elems; i++, data += p.elems) {
		if (!w->put(w->user, n->op, full_name(e, t, &p.stack, i),
			    &p.one, p.elems, data, n->span)) {
			return false;
		}
	}
	return true;
}

/* The current optimizer step, or 0. */
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
	uint64_t key = ir_rng_key(ir_interp_name(e, n), e->opt->seed);
	uint64_t step = step_of(e);
	struct ir_local l;
	int64_t i;

	ir_local(e->m, t, e->at, &l);
	for (i = 0; i < l.elems; i++) {
		out[i] = ir_rng_keeps(key, step, (uint64_t)ir_local_at(&l, i),
				      rate);
	}
	return true;
}

/* ---- sinks ---- */

bool
ir_eval_accumulate(struct interp *e, const struct ir_node *n, double *out)
{
	size_t length = ir_interp_enter_name(e, n);
	bool ok = ir_interp_write_tensor(e, n, ir_type(e->m,
				ir_args(e->m, n)[0]), interp_arg(e, n, 0));

	(void)out;
	ir_interp_leave(&e->name, length);
	return ok;
}

bool
ir_eval_store(struct interp *e, const struct ir_node *n, double *out)
{
	return ir_eval_accumulate(e, n, out);
}

/* A list is enough: there are few names at a time, and each is read once. */
bool
ir_eval_save(struct interp *e, const struct ir_node *n, double *out)
{
	value_id v = ir_args(e->m, n)[0];
	struct interp_save s = { .type = *ir_type(e->m, v) };

	(void)out;
	s.name = intern_str(&e->m->ctx->syms, ir_interp_name(e, n));
	s.microbatch = e->rank ? e->rank->microbatch : 0;
	s.block = ir_interp_hold(e, v);
	VEC_PUSH(&e->pool->own, &e->saves, s);
	return true;
}

/* The last one saved under that name: backward reads them in reverse. */
static struct interp_save *
find_save(struct interp *e, const char *name)
{
	sym_t s = intern_str(&e->m->ctx->syms, name);
	uint32_t microbatch = e->rank ? e->rank->microbatch : 0, i;

	for (i = e->saves.n; i-- > 0; ) {
		if (e->saves.at[i].name == s &&
		    e->saves.at[i].microbatch == microbatch) {
			return &e->saves.at[i];
		}
	}
	return NULL;
}

bool
ir_eval_saved(struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_type *t = ir_type(e->m, n->result);
	const char *name = ir_interp_name(e, n);
	struct interp_save *s = find_save(e, name);
	struct diags *d = &e->m->ctx->diags;

	if (!s) {
		diag_error(d, n->span, "nothing is saved as `%s`", name);
		return false;
	}
	if (!ir_type_equal(&s->type, t)) {
		diag_error(d, n->span, "`%s` was saved as %s, and is taken as "
			   "%s", name, ir_type_text(e->m, &s->type),
			   ir_type_text(e->m, t));
		return false;
	}
	memcpy(out, s->block->data, (size_t)s->block->bytes);
	ir_interp_put(e, s->block);
	*s = e->saves.at[--e->saves.n];
	return true;
}

bool
ir_eval_const(struct interp *e, const struct ir_node *n, double *out)
{
	int64_t elems = ir_interp_elems(e, n, INTERP_RESULT), i;
	double v = ir_attr_num(e->m, n, IR_ATTR_VALUE, 0);

	for (i = 0; i < elems; i++) {
		out[i] = v;
	}
	return true;
}
