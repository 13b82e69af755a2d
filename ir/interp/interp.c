/*
 * The reference interpreter: runs a module in float64, one node after the
 * other, as slowly as that is.  What a compiled program computes is held
 * against it, so it shares no code with any backend.
 *
 * This file walks: regions, calls, repeats.  The walk keeps its place in
 * frames, not on C's stack, so that a rank can stand still in the middle
 * while others go on.  What tensors are called, where they come from and go
 * is in interp_io.c, what is computed of them in interp_ops.c and its
 * neighbours, what ranks say to each other in interp_comm.c.
 */
#include "ir/interp/interp.h"

#include <inttypes.h>
#include <string.h>

static interp_fn *const eval_op[IR_OP_COUNT] = {
#define OP(id, name, n, rule, split, dtypes, attrs, flags, flops, bytes, rc, \
	   grad, help) \
	ir_eval_##name,
#define MAP_OP(id, name, attrs, flops, definition, grad, help) \
	ir_eval_definition,
#include "ir/ops.def"
#undef OP
};

/* ---- values ---- */

static void
drop(struct interp *e, value_id v)
{
	if (e->slot[v]) {
		ir_interp_put(e, e->slot[v]);
		e->slot[v] = NULL;
	}
}

/* ---- reporting values ---- */

static void
call_seen(struct interp *e, value_id v, const struct interp_block *b,
	  const char *part)
{
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
		call_seen(e, v, e->slot[v], ir_text(e->m->ctx, hint));
	}
}

/* ---- regions ---- */

static struct interp_frame *
top(struct interp *e)
{
	return &e->frames.at[e->frames.n - 1];
}

/* Gives the frame's values to the parameters. */
static void
begin_region(struct interp *e, struct interp_frame *f)
{
	const struct ir_region *r = &e->m->regions.at[f->region];
	uint32_t i;

	f->next = 0;
	for (i = 0; i < r->params.n; i++) {
		e->slot[r->params.at[i]] = f->vals[i];
		show(e, r->params.at[i]);
	}
}

/* Moves the frame's results to the node that owns it. */
static void
end_region(struct interp *e, struct interp_frame *f)
{
	const struct ir_region *r = &e->m->regions.at[f->region];
	uint32_t i;

	for (i = 0; i < r->results.n; i++) {
		f->vals[i] = ir_interp_hold(e, r->results.at[i]);
	}
	for (i = 0; i < r->params.n; i++) {
		drop(e, r->params.at[i]);
	}
	for (i = 0; i < r->results.n; i++) {
		if (e->pool->home[r->results.at[i]] == f->region) {
			drop(e, r->results.at[i]);
		}
	}
}

static void
begin_trip(struct interp *e, struct interp_frame *f)
{
	const struct ir_node *n = ir_node(e->m, f->owner);
	bool reverse = ir_attr(e->m, n, IR_ATTR_REVERSE);
	int64_t value;

	if (f->iteration > 0) {
		f->times = 0;
	}
	value = ir_interp_variable(e, n, reverse
				   ? f->iterations - 1 - f->iteration
				   : f->iteration);
	e->repeats.at[e->repeats.n - 1].value = value;
	ir_interp_enter(&e->path, '/', "repeat");
	buf_printf(&e->path, "[%" PRId64 "]", value);
	begin_region(e, f);
}

static struct interp_frame *
push(struct interp *e, const struct ir_node *n, region_id region)
{
	struct interp_frame f = {
		.region = region, .iterations = 1, .times = 1
	};
	uint32_t i;

	if (e->frames.n > 0) {
		f.times = top(e)->times;
	}
	f.path = e->path.n;
	f.name = n ? ir_interp_enter_name(e, n) : e->name.n;
	if (n) {
		f.owner = (node_id)(n - e->m->nodes.at);
		for (i = 0; i < n->nargs; i++) {
			f.vals[i] = ir_interp_hold(e, ir_args(e->m, n)[i]);
		}
	}
	VEC_PUSH(&e->pool->own, &e->frames, f);
	return top(e);
}

static void
add_times(int64_t *sum, int64_t one, int64_t times)
{
	int64_t all;

	if (!num_mul(one, times, &all) || !num_add(*sum, all, sum)) {
		*sum = INT64_MAX;
	}
}

/*
 * Of nested repeats only the outermost runs twice: else work would double at
 * each depth.
 */
static void
count_repeat(const struct interp *e, struct interp_frame *f)
{
	int64_t most = e->repeats.n > 0 ? 1 : 2;

	if (!num_mul(f->times, f->iterations, &f->times)) {
		f->times = INT64_MAX;
	}
	add_times(&e->pool->needs->nodes, 1, f->times);
	f->iterations = f->iterations < most ? f->iterations : most;
}

bool
ir_eval_repeat(struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_attr *var = ir_attr(e->m, n, IR_ATTR_VAR);
	struct interp_repeat repeat = { var ? var->text : 0, 0 };
	struct interp_frame *f = push(e, n, n->region);

	(void)out;
	f->iterations = ir_attr_int(e->m, n, IR_ATTR_COUNT, 0);
	if (e->pool->needs) {
		count_repeat(e, f);
	}
	VEC_PUSH(&e->pool->own, &e->repeats, repeat);
	if (f->iterations > 0) {
		begin_trip(e, f);
	}
	return true;
}

bool
ir_eval_call(struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_func *f = &e->m->funcs.at[n->callee];
	struct interp_frame *frame;

	(void)out;
	if (e->depth == IR_MAX_DEPTH) {
		diag_error(&e->m->ctx->diags, n->span,
			   "layers call each other more than %d deep",
			   IR_MAX_DEPTH);
		return false;
	}
	e->depth++;
	frame = push(e, n, f->body);
	ir_interp_enter(&e->path, '/', ir_text(e->m->ctx, f->name));
	begin_region(e, frame);
	return true;
}

/* ---- the walk ---- */

static void
node_done(struct interp *e, node_id id)
{
	const struct ir_node *n = ir_node(e->m, id);
	uint32_t k;
	value_id v;

	for (k = 0; k < n->nresults; k++) {
		show(e, n->result + k);
	}
	for (v = e->pool->first_dead[id]; v; v = e->pool->next_dead[v]) {
		drop(e, v);
	}
}

/*
 * At the end of a region: begins the next iteration, or returns to its owner.
 */
static void
leave(struct interp *e)
{
	struct interp_frame *f = top(e);
	const struct ir_node *n = ir_node(e->m, f->owner);
	node_id owner = f->owner;
	uint32_t i;

	if (f->iterations > 0) {
		end_region(e, f);
		ir_interp_leave(&e->path, f->path);
	}
	if (++f->iteration < f->iterations) {
		begin_trip(e, f);
		return;
	}
	ir_interp_leave(&e->name, f->name);
	if (owner) {
		e->repeats.n -= ir_is(n->op, IRF_REGION);
		e->depth -= ir_is(n->op, IRF_CALLS);
		for (i = 0; i < n->nresults; i++) {
			e->slot[n->result + i] = f->vals[i];
		}
		e->frames.n--;
		node_done(e, owner);
		return;
	}
	e->nresults = e->m->regions.at[f->region].results.n;
	memcpy(e->results, f->vals, sizeof e->results);
	e->frames.n--;
}

/* Frees what a node that is done exchanged. */
static void
forget_rounds(struct interp *e)
{
	if (e->posted) {
		ir_interp_put(e, e->posted);
		e->posted = NULL;
	}
	while (e->nrounds > 0) {
		ir_interp_put(e, e->rounds.at[--e->nrounds].block);
	}
}

/* Frees what a node that waits has computed: it will be run again. */
static void
undo(struct interp *e, const struct interp_block *before)
{
	struct interp_block *b = e->pool->blocks;

	while (b != before) {
		struct interp_block *older = b->older;

		if (b != e->posted) {
			ir_interp_put(e, b);
		}
		b = older;
	}
}

/* Counts what the op takes, instead of running it. */
static void
count_node(const struct interp *e, const struct ir_node *n)
{
	struct ir_needs *needs = e->pool->needs;
	int64_t times = e->frames.at[e->frames.n - 1].times;

	add_times(&needs->nodes, 1, times);
	if (n->op == IR_STORE) {
		add_times(&needs->stored_bytes,
			  e->slot[ir_args(e->m, n)[0]]->bytes, times);
	} else if (n->op == IR_GRADIENT) {
		add_times(&needs->gradient_bytes, e->slot[n->result]->bytes,
			  times);
	}
}

static enum ir_state
run_node(struct interp *e, node_id id)
{
	const struct ir_node *n = ir_node(e->m, id);
	bool structure = ir_is(n->op, IRF_REGION | IRF_CALLS);
	struct interp_block *before = e->pool->blocks, *b = NULL;

	if (!structure && !ir_is(n->op, IRF_SINK)) {
		b = ir_interp_get(e, n, ir_interp_elems(e, n, INTERP_RESULT));
		if (!b) {
			return IR_FAILED;
		}
		e->slot[n->result] = b;
	}
	if (!structure && e->pool->needs) {
		count_node(e, n);
		node_done(e, id);
		return IR_ENDED;
	}
	e->round = 0;
	e->waits = false;
	if (!eval_op[n->op](e, n, b ? b->data : NULL)) {
		if (!e->waits) {
			return IR_FAILED;
		}
		undo(e, before);
		if (b) {
			e->slot[n->result] = NULL;
		}
		return e->post.state;
	}
	forget_rounds(e);
	if (!structure) {
		node_done(e, id);
	}
	return IR_ENDED;
}

enum ir_state
ir_machine_run(struct interp *e)
{
	while (e->frames.n > 0) {
		uint32_t at = e->frames.n - 1;
		const struct interp_frame *f = &e->frames.at[at];
		const struct ir_region *r = &e->m->regions.at[f->region];
		enum ir_state state;

		if (f->iteration == f->iterations || f->next == r->nodes.n) {
			leave(e);
			continue;
		}
		state = run_node(e, r->nodes.at[f->next]);
		if (state != IR_ENDED) {
			return state;
		}
		e->frames.at[at].next++;
	}
	return IR_ENDED;
}

/* ---- machines ---- */

void
ir_machine_start(struct interp *e, func_id f)
{
	while (e->nresults > 0) {
		ir_interp_put(e, e->results[--e->nresults]);
	}
	e->func = f;
	begin_region(e, push(e, NULL, e->m->funcs.at[f].body));
}

bool
ir_machine_count(struct ir_pool *p, const struct ir_rank *rank, func_id f,
		 struct ir_needs *needs)
{
	static const struct ir_eval_options silent;
	struct interp *e = ir_machine_new(p, &silent, rank);
	bool fits;

	p->needs = needs;
	ir_machine_start(e, f);
	fits = ir_machine_run(e) == IR_ENDED;
	while (p->blocks) {
		p->blocks->refs = 1;
		ir_pool_drop(p, p->blocks);
	}
	p->needs = NULL;
	if (fits && needs->nodes > IR_MAX_RUN_NODES) {
		diag_error(&p->m->ctx->diags, p->m->funcs.at[f].span,
			   "evaluating this runs more than 2^40 ops, all "
			   "repeats counted, which would take days");
		return false;
	}
	return fits;
}

const char *
ir_machine_where(struct interp *e)
{
	const char *path = buf_text(&e->path);

	return arena_printf(&e->m->ctx->tmp, "%s%s%s",
			    ir_text(e->m->ctx, e->m->funcs.at[e->func].name),
			    *path ? "/" : "", path);
}

bool
ir_machine_result(const struct interp *e, uint32_t k,
		  struct ir_eval_result *out)
{
	const struct ir_func *f = &e->m->funcs.at[e->func];

	if (k >= e->nresults) {
		return false;
	}
	out->type = *ir_type(e->m, e->m->regions.at[f->body].results.at[k]);
	out->data = e->results[k]->data;
	out->elems = e->results[k]->bytes / (int64_t)sizeof *out->data;
	return true;
}

const char *
ir_machine_unused(const struct interp *e)
{
	return e->saves.n ? ir_text(e->m->ctx, e->saves.at[0].name) : NULL;
}

/* ---- a run alone ---- */

/*
 * Copies a result, which outlives the evaluation, and reports it if it has no
 * name.
 */
static bool
keep_result(struct interp *e, uint32_t k, struct ir_eval_result *out)
{
	const struct ir_func *f = &e->m->funcs.at[e->func];
	value_id v = e->m->regions.at[f->body].results.at[k];
	const struct ir_value *val = &e->m->values.at[v];
	const struct interp_block *b = e->results[k];
	char part[32];

	if (!val->hint && e->opt->seen) {
		snprintf(part, sizeof part, "result[%u]", k);
		call_seen(e, v, b, part);
	}
	if (!ir_pool_fits(e->pool, ir_node(e->m, val->node)->span,
			      b->bytes)) {
		return false;
	}
	e->pool->held_bytes += b->bytes;
	ir_machine_result(e, k, out);
	out->data = arena_dup(&e->m->ctx->perm, b->data, (size_t)b->bytes);
	return true;
}

bool
ir_eval(struct ir_module *m, const struct ir_eval_options *opt,
	struct ir_eval_result *results, uint32_t max, uint32_t *n)
{
	func_id f = opt->func ? opt->func : ir_model(m);
	struct ir_pool pool;
	struct interp *e;
	uint32_t i;
	bool ok;

	if (!f || m->regions.at[m->funcs.at[f].body].params.n > 0) {
		die("no model, or one with parameters: verify first");
	}
	*n = 0;
	ir_pool_open(&pool, m, opt->max_bytes);
	e = ir_machine_new(&pool, opt, NULL);
	ir_machine_start(e, f);
	ok = ir_machine_run(e) == IR_ENDED;
	for (i = 0; ok && i < e->nresults && i < max; i++) {
		ok = keep_result(e, i, &results[i]);
	}
	*n = ok ? i : 0;
	ir_pool_close(&pool);
	return ok;
}

bool
ir_eval_count(struct ir_module *m, const struct ir_eval_options *opt,
	      struct ir_needs *needs)
{
	struct ir_pool pool;
	bool fits;

	ir_pool_open(&pool, m, opt->max_bytes);
	fits = ir_machine_count(&pool, NULL, opt->func ? opt->func
						       : ir_model(m), needs);
	ir_pool_close(&pool);
	return fits;
}

uint64_t
ir_checksum(const double *data, int64_t elems)
{
	uint64_t h = 0xcbf29ce484222325u, bits;	/* FNV-1a, 64 bits */
	int64_t i;
	int k;

	for (i = 0; i < elems; i++) {
		/* a sum of 0 may have either sign, depending on its order */
		double v = data[i] == 0 ? 0 : data[i];

		memcpy(&bits, &v, sizeof bits);
		for (k = 0; k < 64; k += 8) {
			h = (h ^ (bits >> k & 0xff)) * 0x100000001b3u;
		}
	}
	return h;
}
