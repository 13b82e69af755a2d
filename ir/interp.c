/*
 * The reference interpreter: runs a module in float64, one node after the
 * other, as slowly as that is.  What a compiled program computes is held
 * against it, so it shares no code with any backend.
 *
 * This file walks: regions, calls, repeats, which value lives how long, what
 * a tensor is called and where it comes from.  What is computed of tensors
 * is in interp_ops.c.
 *
 * While it runs, the context's allocation gate is replaced by one that on
 * failure first releases everything the evaluation holds, then calls the
 * run's own hook: a hook that longjmps past ir_eval leaks nothing.
 */
#include "ir/interp.h"

#include <string.h>

static interp_fn *const eval_op[IR_OP_COUNT] = {
#define OP(id, name, n, rule, dtypes, attrs, flags, flops, bytes, rc, grad, \
	   help) \
	ir_eval_##name,
#include "ir/ops.def"
#undef OP
};

/* ---- the gate ---- */

static void *
gate_get(void *user, size_t bytes)
{
	struct interp *e = user;

	return e->outer.get(e->outer.user, bytes);
}

static void
gate_put(void *user, void *p)
{
	struct interp *e = user;

	e->outer.put(e->outer.user, p);
}

static void
release(struct interp *e)
{
	e->m->ctx->mem = e->outer;
	while (e->blocks) {
		struct interp_block *b = e->blocks;

		e->blocks = b->older;
		e->outer.put(e->outer.user, b);
	}
	arena_release(&e->own);
}

static void
gate_oom(void *user, size_t bytes)
{
	struct interp *e = user;
	struct mem outer = e->outer;

	release(e);
	outer.oom(outer.user, bytes);
}

/* ---- blocks ---- */

static bool
has_room(struct interp *e, const struct ir_node *n, int64_t bytes)
{
	struct ir_ctx *c = e->m->ctx;
	struct buf b;

	/* past the 2^40 bytes that an arena takes there is no machine */
	if (bytes >= 0 && bytes <= (int64_t)1 << 40 &&
	    (e->opt->max_bytes <= 0 ||
	     bytes <= e->opt->max_bytes - e->held_bytes)) {
		return true;
	}
	buf_init(&b, &c->tmp);
	buf_puts(&b, "evaluating this takes ");
	if (bytes >= 0) {
		buf_grouped(&b, bytes);
	} else {
		buf_puts(&b, "more than 2^63");
	}
	buf_puts(&b, " bytes more, ");
	buf_grouped(&b, e->held_bytes);
	buf_puts(&b, " are held, and the limit is ");
	buf_grouped(&b, e->opt->max_bytes > 0 ? e->opt->max_bytes :
						(int64_t)1 << 40);
	diag_error(&c->diags, n->span, "%s", buf_text(&b));
	return false;
}

struct interp_block *
ir_interp_get(struct interp *e, const struct ir_node *n, int64_t elems)
{
	struct interp_block *b;
	int64_t bytes;
	size_t all;

	if (!num_mul(elems, (int64_t)sizeof *b->data, &bytes)) {
		bytes = -1;
	}
	if (!has_room(e, n, bytes)) {
		return NULL;
	}
	all = sizeof *b + (size_t)bytes;
	b = e->outer.get(e->outer.user, all);
	if (!b) {
		gate_oom(e, all);
		die("the oom hook returned");
	}
	b->bytes = bytes;
	b->refs = 1;
	b->newer = NULL;
	b->older = e->blocks;
	if (b->older) {
		b->older->newer = b;
	}
	e->blocks = b;
	e->held_bytes += bytes;
	return b;
}

void
ir_interp_put(struct interp *e, struct interp_block *b)
{
	if (--b->refs > 0) {
		return;
	}
	if (b->newer) {
		b->newer->older = b->older;
	} else {
		e->blocks = b->older;
	}
	if (b->older) {
		b->older->newer = b->newer;
	}
	e->held_bytes -= b->bytes;
	e->outer.put(e->outer.user, b);
}

static struct interp_block *
hold(const struct interp *e, value_id v)
{
	e->slot[v]->refs++;
	return e->slot[v];
}

static void
drop(struct interp *e, value_id v)
{
	if (e->slot[v]) {
		ir_interp_put(e, e->slot[v]);
		e->slot[v] = NULL;
	}
}

/* ---- how long values live ---- */

#define KEEP UINT32_MAX	/* as long as its region runs */

/* The node being scanned, by region, and each value's last use so far. */
struct lives {
	node_id *now, *last;
};

/*
 * A use inside a repeat of a value from outside is a use by the repeat: the
 * next trip wants it again.
 */
static void
use(const struct interp *e, struct lives *l, value_id v)
{
	if (l->last[v] != KEEP) {
		l->last[v] = l->now[e->home[v]];
	}
}

static void
scan_region(struct interp *e, struct lives *l, region_id id)
{
	const struct ir_region *r = &e->m->regions.at[id];
	uint32_t i, k;

	for (i = 0; i < r->params.n; i++) {
		e->home[r->params.at[i]] = id;
		l->last[r->params.at[i]] = 0;	/* until the region ends */
	}
	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(e->m, r->nodes.at[i]);

		l->now[id] = r->nodes.at[i];
		for (k = 0; k < n->nargs; k++) {
			use(e, l, ir_args(e->m, n)[k]);
		}
		if (n->region) {
			scan_region(e, l, n->region);
		}
		for (k = 0; k < n->nresults; k++) {
			e->home[n->result + k] = id;
			use(e, l, n->result + k);
		}
	}
	for (i = 0; i < r->results.n; i++) {
		value_id v = r->results.at[i];

		use(e, l, v);
		if (e->home[v] == id) {
			l->last[v] = KEEP;
		}
	}
}

static void
scan_lives(struct interp *e)
{
	const struct ir_module *m = e->m;
	struct arena *a = &e->own;
	struct lives l;
	uint32_t i;

	e->slot = arena_alloc(a, m->values.n * sizeof *e->slot);
	e->home = arena_alloc(a, m->values.n * sizeof *e->home);
	e->next_dead = arena_alloc(a, m->values.n * sizeof *e->next_dead);
	e->first_dead = arena_alloc(a, m->nodes.n * sizeof *e->first_dead);
	l.last = arena_alloc(a, m->values.n * sizeof *l.last);
	l.now = arena_alloc(a, m->regions.n * sizeof *l.now);
	for (i = 1; i < m->funcs.n; i++) {
		scan_region(e, &l, m->funcs.at[i].body);
	}
	for (i = 1; i < m->values.n; i++) {
		if (l.last[i] && l.last[i] != KEEP) {
			e->next_dead[i] = e->first_dead[l.last[i]];
			e->first_dead[l.last[i]] = i;
		}
	}
}

/* ---- names and paths ---- */

static void
leave(struct buf *b, size_t length)
{
	if (b->at) {
		b->n = length;
		b->at[length] = '\0';
	}
}

static size_t
enter(struct buf *b, char separator, const char *part)
{
	size_t length = b->n;

	if (length > 0) {
		buf_putc(b, separator);
	}
	buf_puts(b, part);
	return length;
}

/* Appends the node's `name` to the enclosing ones; undo by the length. */
static size_t
enter_name(struct interp *e, const struct ir_node *n)
{
	const struct ir_attr *a = ir_attr(e->m, n, IR_ATTR_NAME);

	if (!a || !a->text) {
		return e->name.n;
	}
	return enter(&e->name, '.', ir_text(e->m->ctx, a->text));
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

	leave(&e->full, 0);
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

static void
call_seen(struct interp *e, value_id v, const char *part)
{
	const struct interp_block *b = e->slot[v];
	size_t length = enter(&e->path, '/', part);

	e->opt->seen(e->opt->user, buf_text(&e->path), ir_type(e->m, v),
		     b->data, b->bytes / (int64_t)sizeof *b->data);
	leave(&e->path, length);
}

static void
show(struct interp *e, value_id v)
{
	sym_t hint = e->m->values.at[v].hint;

	if (hint && e->opt->seen) {
		call_seen(e, v, ir_text(e->m->ctx, hint));
	}
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

/* One stored tensor after the other; mostly it is only one. */
static bool
fill(struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_weights *w = e->opt->weights;
	const struct ir_type *t = ir_type(e->m, n->result);
	struct ir_type one = *t;
	int64_t pieces = 1, elems, i;
	uint8_t stacked;

	if (!stacked_dims(e, n, t, &stacked)) {
		return false;
	}
	one.ndims = t->ndims - stacked;
	memcpy(one.dims, t->dims + stacked, one.ndims * sizeof *one.dims);
	for (i = 0; i < stacked; i++) {
		pieces *= ir_dim_size(e->m, t->dims[i]);
	}
	ir_type_elems(e->m, &one, &elems);
	for (i = 0; i < pieces; i++, out += elems) {
		const char *name = full_name(e, t, stacked, i);

		bool ours = w && w->get &&
			    (!w->has || w->has(w->user, n->op, name));

		if (!(ours ? w->get(w->user, n->op, name, &one, elems, out,
				    n->span)
			   : generate(e, n, name, elems, out))) {
			return false;
		}
	}
	return true;
}

bool
ir_eval_weight(struct interp *e, const struct ir_node *n, double *out)
{
	size_t length = enter_name(e, n);
	bool ok = fill(e, n, out);

	leave(&e->name, length);
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

/* ---- sinks ---- */

/* One stored tensor after the other, as `fill` reads them. */
static bool
put_out(struct interp *e, const struct ir_node *n)
{
	const struct ir_weights *w = e->opt->weights;
	value_id v = ir_args(e->m, n)[0];
	const struct ir_type *t = ir_type(e->m, v);
	const double *data = interp_arg(e, n, 0);
	struct ir_type one = *t;
	int64_t pieces = 1, elems, i;
	uint8_t stacked;

	if (!w || !w->put) {
		return true;
	}
	if (!stacked_dims(e, n, t, &stacked)) {
		return false;
	}
	one.ndims = t->ndims - stacked;
	memcpy(one.dims, t->dims + stacked, one.ndims * sizeof *one.dims);
	for (i = 0; i < stacked; i++) {
		pieces *= ir_dim_size(e->m, t->dims[i]);
	}
	ir_type_elems(e->m, &one, &elems);
	for (i = 0; i < pieces; i++, data += elems) {
		if (!w->put(w->user, n->op, full_name(e, t, stacked, i),
			    &one, elems, data, n->span)) {
			return false;
		}
	}
	return true;
}

bool
ir_eval_accumulate(struct interp *e, const struct ir_node *n, double *out)
{
	size_t length = enter_name(e, n);
	bool ok = put_out(e, n);

	(void)out;
	leave(&e->name, length);
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
	size_t length = enter_name(e, n);
	value_id v = ir_args(e->m, n)[0];

	(void)out;
	s.name = intern_str(&e->m->ctx->syms,
			    full_name(e, ir_type(e->m, v), 0, 0));
	s.block = hold(e, v);
	leave(&e->name, length);
	VEC_PUSH(&e->own, &e->saves, s);
	return true;
}

bool
ir_eval_saved(struct interp *e, const struct ir_node *n, double *out)
{
	size_t length = enter_name(e, n);
	const char *name = full_name(e, ir_type(e->m, n->result), 0, 0);
	sym_t s = intern_str(&e->m->ctx->syms, name);
	int64_t elems;
	uint32_t i;

	leave(&e->name, length);
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

/* ---- the walk ---- */

static bool
run_node(struct interp *e, node_id id)
{
	const struct ir_node *n = ir_node(e->m, id);
	double *out = NULL;
	int64_t elems;
	uint32_t k;
	value_id v;

	if (!ir_is(n->op, IRF_REGION | IRF_CALLS | IRF_SINK)) {
		if (!ir_type_elems(e->m, ir_type(e->m, n->result), &elems)) {
			elems = INT64_MAX;
		}
		e->slot[n->result] = ir_interp_get(e, n, elems);
		if (!e->slot[n->result]) {
			return false;
		}
		out = e->slot[n->result]->data;
	}
	if (!eval_op[n->op](e, n, out)) {
		return false;
	}
	for (k = 0; k < n->nresults; k++) {
		show(e, n->result + k);
	}
	for (v = e->first_dead[id]; v; v = e->next_dead[v]) {
		drop(e, v);
	}
	return true;
}

/* Hands vals to the parameters, and back come the results in them. */
static bool
run_region(struct interp *e, region_id id, struct interp_block **vals)
{
	const struct ir_region *r = &e->m->regions.at[id];
	uint32_t i;

	for (i = 0; i < r->params.n; i++) {
		e->slot[r->params.at[i]] = vals[i];
		show(e, r->params.at[i]);
	}
	for (i = 0; i < r->nodes.n; i++) {
		if (!run_node(e, r->nodes.at[i])) {
			return false;
		}
	}
	for (i = 0; i < r->results.n; i++) {
		vals[i] = hold(e, r->results.at[i]);
	}
	for (i = 0; i < r->params.n; i++) {
		drop(e, r->params.at[i]);
	}
	for (i = 0; i < r->results.n; i++) {
		if (e->home[r->results.at[i]] == id) {
			drop(e, r->results.at[i]);
		}
	}
	return true;
}

static void
take_args(const struct interp *e, const struct ir_node *n,
	  struct interp_block **vals)
{
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		vals[i] = hold(e, ir_args(e->m, n)[i]);
	}
}

static void
set_results(struct interp *e, const struct ir_node *n,
	    struct interp_block *const *vals)
{
	uint32_t i;

	for (i = 0; i < n->nresults; i++) {
		e->slot[n->result + i] = vals[i];
	}
}

bool
ir_eval_repeat(struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_attr *var = ir_attr(e->m, n, IR_ATTR_VAR);
	int64_t count = ir_attr_int(e->m, n, IR_ATTR_COUNT, 0), i;
	int64_t start = ir_attr_int(e->m, n, IR_ATTR_START, 0);
	bool reverse = ir_attr(e->m, n, IR_ATTR_REVERSE);
	struct interp_trip trip = { var ? var->text : 0, start };
	struct interp_block *vals[IR_MAX_ARGS];
	size_t length = enter_name(e, n);

	(void)out;
	take_args(e, n, vals);
	VEC_PUSH(&e->own, &e->trips, trip);
	for (i = 0; i < count; i++) {
		size_t path = enter(&e->path, '/', "repeat");

		/* unsigned: the variable of an absurd start may wrap */
		trip.value = (int64_t)((uint64_t)start + (uint64_t)
				       (reverse ? count - 1 - i : i));
		e->trips.at[e->trips.n - 1] = trip;
		buf_printf(&e->path, "[%lld]", (long long)trip.value);
		if (!run_region(e, n->region, vals)) {
			return false;
		}
		leave(&e->path, path);
	}
	e->trips.n--;
	leave(&e->name, length);
	set_results(e, n, vals);
	return true;
}

bool
ir_eval_call(struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_func *f = &e->m->funcs.at[n->callee];
	struct interp_block *vals[IR_MAX_ARGS];
	size_t name, path;

	(void)out;
	if (e->depth == IR_MAX_DEPTH) {
		diag_error(&e->m->ctx->diags, n->span,
			   "layers call each other more than %d deep",
			   IR_MAX_DEPTH);
		return false;
	}
	e->depth++;
	name = enter_name(e, n);
	path = enter(&e->path, '/', ir_text(e->m->ctx, f->name));
	take_args(e, n, vals);
	if (!run_region(e, f->body, vals)) {
		return false;
	}
	leave(&e->path, path);
	leave(&e->name, name);
	e->depth--;
	set_results(e, n, vals);
	return true;
}

/* ---- the whole ---- */

/* A result outlives the evaluation; unnamed ones were not seen so far. */
static bool
keep_result(struct interp *e, value_id v, uint32_t k,
	    struct ir_eval_result *out)
{
	struct ir_ctx *c = e->m->ctx;
	const struct interp_block *b = e->slot[v];
	char part[32];

	if (!e->m->values.at[v].hint && e->opt->seen) {
		snprintf(part, sizeof part, "result[%u]", k);
		call_seen(e, v, part);
	}
	if (!has_room(e, ir_node(e->m, e->m->values.at[v].node), b->bytes)) {
		return false;
	}
	e->held_bytes += b->bytes;
	out->type = *ir_type(e->m, v);
	out->elems = b->bytes / (int64_t)sizeof *b->data;
	out->data = arena_dup(&c->perm, b->data, (size_t)b->bytes);
	return true;
}

static bool
run_model(struct interp *e, struct ir_eval_result *results, uint32_t max,
	  uint32_t *n)
{
	const struct ir_module *m = e->m;
	func_id f = e->opt->func ? e->opt->func : ir_model(m);
	const struct ir_region *r = &m->regions.at[m->funcs.at[f].body];
	uint32_t i;

	scan_lives(e);
	for (i = 0; i < r->nodes.n; i++) {
		if (!run_node(e, r->nodes.at[i])) {
			return false;
		}
	}
	for (i = 0; i < r->results.n && i < max; i++) {
		if (!keep_result(e, r->results.at[i], i, &results[i])) {
			return false;
		}
	}
	*n = i;
	return true;
}

bool
ir_eval(struct ir_module *m, const struct ir_eval *opt,
	struct ir_eval_result *results, uint32_t max, uint32_t *n)
{
	struct interp e = { .m = m, .opt = opt, .outer = m->ctx->mem };
	struct mem gate = { gate_get, gate_put, gate_oom, &e };
	func_id f = opt->func ? opt->func : ir_model(m);
	bool ok;

	if (!f || m->regions.at[m->funcs.at[f].body].params.n > 0) {
		die("no model, or one with parameters: verify first");
	}
	*n = 0;
	m->ctx->mem = gate;
	arena_init(&e.own, &m->ctx->mem);
	buf_init(&e.name, &e.own);
	buf_init(&e.full, &e.own);
	buf_init(&e.path, &e.own);
	ok = run_model(&e, results, max, n);
	release(&e);
	return ok;
}

uint64_t
ir_checksum(const double *data, int64_t elems)
{
	uint64_t h = 0xcbf29ce484222325u, bits;	/* FNV-1a, 64 bits */
	int64_t i;
	int k;

	for (i = 0; i < elems; i++) {
		/* a sum may come out as either zero, by its order */
		double v = data[i] == 0 ? 0 : data[i];

		memcpy(&bits, &v, sizeof bits);
		for (k = 0; k < 64; k += 8) {
			h = (h ^ (bits >> k & 0xff)) * 0x100000001b3u;
		}
	}
	return h;
}
