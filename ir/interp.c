/*
 * The reference interpreter: runs a module in float64, one node after the
 * other, as slowly as that is.  What a compiled program computes is held
 * against it, so it shares no code with any backend.
 *
 * This file walks: regions, calls, repeats, and which value lives how long.
 * What tensors are called, where they come from and go is in interp_io.c,
 * what is computed of them in interp_ops.c and its neighbours.
 *
 * While it runs, the context's allocation gate is replaced by one that on
 * failure first releases everything the evaluation holds, then calls the
 * run's own hook: a hook that longjmps past ir_eval leaks nothing.
 */
#include "ir/interp.h"

#include <string.h>

static interp_fn *const eval_op[IR_OP_COUNT] = {
#define OP(id, name, n, rule, split, dtypes, attrs, flags, flops, bytes, rc, \
	   grad, help) \
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

struct interp_block *
ir_interp_hold(const struct interp *e, value_id v)
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

/* ---- what is shown ---- */

static void
call_seen(struct interp *e, value_id v, const char *part)
{
	const struct interp_block *b = e->slot[v];
	size_t length = ir_interp_enter(&e->path, '/', part);

	e->opt->seen(e->opt->user, buf_text(&e->path), ir_type(e->m, v),
		     b->data, b->bytes / (int64_t)sizeof *b->data);
	ir_interp_leave(&e->path, length);
}

static void
show(struct interp *e, value_id v)
{
	sym_t hint = e->m->values.at[v].hint;

	if (hint && e->opt->seen) {
		call_seen(e, v, ir_text(e->m->ctx, hint));
	}
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
		vals[i] = ir_interp_hold(e, r->results.at[i]);
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
		vals[i] = ir_interp_hold(e, ir_args(e->m, n)[i]);
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
	size_t length = ir_interp_enter_name(e, n);

	(void)out;
	take_args(e, n, vals);
	VEC_PUSH(&e->own, &e->trips, trip);
	for (i = 0; i < count; i++) {
		size_t path = ir_interp_enter(&e->path, '/', "repeat");

		/* unsigned: the variable of an absurd start may wrap */
		trip.value = (int64_t)((uint64_t)start + (uint64_t)
				       (reverse ? count - 1 - i : i));
		e->trips.at[e->trips.n - 1] = trip;
		buf_printf(&e->path, "[%lld]", (long long)trip.value);
		if (!run_region(e, n->region, vals)) {
			return false;
		}
		ir_interp_leave(&e->path, path);
	}
	e->trips.n--;
	ir_interp_leave(&e->name, length);
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
	name = ir_interp_enter_name(e, n);
	path = ir_interp_enter(&e->path, '/', ir_text(e->m->ctx, f->name));
	take_args(e, n, vals);
	if (!run_region(e, f->body, vals)) {
		return false;
	}
	ir_interp_leave(&e->path, path);
	ir_interp_leave(&e->name, name);
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
