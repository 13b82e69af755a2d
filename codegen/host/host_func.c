/*
 * Native functions of the rank program: what a stage does in a phase, and
 * the update.  Each is its kernels in their order, a repeat is a loop, and a
 * launch stores where operands lie and calls the runtime.
 */
#include "codegen/host/host.h"

#include <math.h>
#include <string.h>

#define COPY_ITEM 65536		/* bytes that a worker copies at once */

/* ---- a function and its rooms ---- */

struct ll_value *
host_env(struct host_func *f, size_t offset, enum ll_base base)
{
	struct ll *l = f->c->ll;

	return ll_load(l, ll_type(base, 1),
		       ll_plus_n(l, f->env, (int64_t)offset));
}

void
host_put(struct host_func *f, struct ll_value *room, uint32_t i,
	 struct ll_value *word)
{
	struct ll *l = f->c->ll;

	ll_store(l, word, ll_plus_n(l, room, 8 * (int64_t)i));
}

void
host_func_begin(struct cg_code *c, struct host_class *k, const char *name,
		struct host_func *f)
{
	const struct ll_type params[] = { ll_type(LL_PTR, 1),
					  ll_type(LL_I64, 1) };
	const struct ll_type i64 = ll_type(LL_I64, 1);
	struct ll_value *shared;

	*f = (struct host_func){ .c = c, .k = k, .kind = SCHED_NKINDS };
	f->run.m = c->m;
	f->run.mem = &c->mem;
	f->run.stage = UINT32_MAX;
	if (k->number) {
		name = arena_printf(c->a, "%s_of_%u", name, k->number);
	}
	f->func = ll_func(c->ll, name, i64, params, 2, false);
	f->env = ll_param(c->ll, f->func, 0);
	f->microbatch = ll_param(c->ll, f->func, 1);
	f->at = ll_stack(c->ll, i64, c->most[0] + 2 * RT_MAX_JOINED);
	f->pieces = ll_stack(c->ll, i64, c->most[1] + IR_MAX_DIMS);
	f->num = ll_stack(c->ll, i64, c->most[2] + HOST_NUMS);
	f->call = ll_stack(c->ll, i64, HOST_WORDS(struct rt_call));
	f->arena = host_env(f, offsetof(struct rt_env, arena), LL_PTR);
	f->all_pieces = host_env(f, offsetof(struct rt_env, pieces), LL_PTR);
	shared = ll_plus_n(c->ll, f->arena, k->work_offset);
	host_put(f, f->call, offsetof(struct rt_call, at) / 8, f->at);
	host_put(f, f->call, offsetof(struct rt_call, pieces) / 8, f->pieces);
	host_put(f, f->call, offsetof(struct rt_call, num) / 8, f->num);
	host_put(f, f->call, offsetof(struct rt_call, shared) / 8, shared);
}

void
host_func_end(struct host_func *f)
{
	ll_return(f->c->ll, ll_i64(f->c->ll, 0));
}

struct ll_value *
host_pieces(struct host_func *f, uint32_t spread)
{
	struct ll *l = f->c->ll;

	return ll_load(l, ll_type(LL_PTR, 1),
		       ll_plus_n(l, f->all_pieces, 8 * (int64_t)spread));
}

struct ll_value *
host_first(struct host_func *f, uint32_t spread)
{
	struct ll *l = f->c->ll;

	return ll_load(l, ll_type(LL_I64, 1),
		       ll_plus_n(l, host_pieces(f, spread), (int64_t)
				 offsetof(struct rt_pieces, at[0].start)));
}

/* ---- calls of the runtime ---- */

/* What is not 0 is returned at once. */
static void
return_if(struct host_func *f, struct ll_value *status)
{
	struct ll *l = f->c->ll;
	struct ll_block *bad = ll_block(l, f->func, "failed");
	struct ll_block *good = ll_block(l, f->func, "next");

	ll_branch(l, ll_test(l, LL_NE, status, ll_i64(l, 0)), bad, good);
	ll_at(l, bad);
	ll_return(l, status);
	ll_at(l, good);
}

/* The number of the layer: the outermost repeat's variable. */
static struct ll_value *
layer(struct host_func *f)
{
	const struct host_scope *s = f->scope;
	struct ll *l = f->c->ll;
	int64_t start;

	if (!s) {
		return ll_i64(l, -1);
	}
	while (s->outer) {
		s = s->outer;
	}
	start = ir_attr_int(f->c->m, s->repeat, IR_ATTR_START, 0);
	if (ir_attr(f->c->m, s->repeat, IR_ATTR_REVERSE)) {
		return ll_bin(l, LL_SUB, ll_i64(l, start + s->count - 1),
			      s->i);
	}
	return ll_bin(l, LL_ADD, s->i, ll_i64(l, start));
}

static void
call(struct host_func *f, size_t entry, struct ll_value *what,
     struct ll_value *with)
{
	const struct ll_type ptr = ll_type(LL_PTR, 1);
	const struct ll_type params[] = { ptr, ptr, ptr,
					  ll_type(LL_I64, 1) };
	struct ll_value *args[] = { f->env, what, with, layer(f) };

	return_if(f, ll_call_ptr(f->c->ll, host_env(f, entry, LL_PTR),
				 ll_type(LL_I64, 1), params, args, 4));
}

void
host_launch(struct host_func *f, struct ll_value *kernel)
{
	call(f, offsetof(struct rt_env, launch), kernel, f->call);
}

void
host_coll(struct host_func *f, struct ll_value *coll, struct ll_value *from,
	  struct ll_value *to)
{
	host_put(f, f->at, 0, from);
	host_put(f, f->at, 1, to);
	call(f, offsetof(struct rt_env, coll), coll, f->at);
}

/* ---- copies ---- */

/* at[0] to at[1], num[0] bytes. */
static struct ll_value *
copy_step(struct cg_code *c)
{
	const struct ll_type ptr = ll_type(LL_PTR, 1), i64 = ll_type(LL_I64, 1);
	const struct ll_type params[] = { ptr, ptr, i64, i64 };
	struct ll_value *f = ll_func(c->ll, "copy", ll_type(LL_VOID, 1),
				     params, 4, false);
	struct ll_value *at, *from, *to, *bytes, *lo, *hi;
	struct ll *l = c->ll;

	at = ll_load(l, ptr, ll_plus_n(l, ll_param(l, f, 0), (int64_t)
				       offsetof(struct rt_call, at)));
	from = ll_load(l, ptr, at);
	to = ll_load(l, ptr, ll_plus_n(l, at, 8));
	bytes = ll_load(l, ptr, ll_plus_n(l, ll_param(l, f, 0), (int64_t)
					  offsetof(struct rt_call, num)));
	bytes = ll_load(l, i64, bytes);
	lo = ll_bin(l, LL_MUL, ll_param(l, f, 2), ll_i64(l, COPY_ITEM));
	hi = ll_bin(l, LL_MUL, ll_param(l, f, 3), ll_i64(l, COPY_ITEM));
	hi = ll_select(l, ll_test(l, LL_LT, hi, bytes), hi, bytes);
	bytes = ll_bin(l, LL_SUB, hi, lo);
	from = ll_plus(l, from, lo);
	ll_copy(l, ll_plus(l, to, lo), from, bytes);
	ll_return(l, NULL);
	return f;
}

static struct ll_value *
copy_kernel(struct cg_code *c, int64_t bytes)
{
	struct cg_kernel k = { .what = arena_printf(c->a, "copy %lld bytes",
						    (long long)bytes) };
	struct cg_step s = { .items = (bytes + COPY_ITEM - 1) / COPY_ITEM };
	struct ll_block *here = ll_here(c->ll);

	if (!c->copy) {
		c->copy = copy_step(c);
		ll_at(c->ll, here);
	}
	s.func = c->copy;
	VEC_PUSH(c->a, &k.steps, s);
	return host_own_kernel(c, &k, NULL, 2 * (double)bytes);
}

void
host_copy(struct host_func *f, struct ll_value *from, struct ll_value *to,
	  int64_t bytes)
{
	struct ll *l = f->c->ll;
	struct ll_block *yes = ll_block(l, f->func, "copy");
	struct ll_block *no = ll_block(l, f->func, "copied");

	ll_branch(l, ll_test(l, LL_NE, from, to), yes, no);
	ll_at(l, yes);
	if (f->c->arch) {
		host_service_copy(f, from, to, bytes);
	} else {
		host_put(f, f->at, 0, from);
		host_put(f, f->at, 1, to);
		host_put(f, f->num, 0, ll_i64(l, bytes));
		host_launch(f, copy_kernel(f->c, bytes));
	}
	ll_jump(l, no);
	ll_at(l, no);
}

/* ---- a launch ---- */

static uint32_t
place_of(const uint32_t *at, uint32_t n, uint32_t x)
{
	uint32_t i;

	for (i = 0; i < n && at[i] != x; i++) {
	}
	if (i == n) {
		die("a kernel asks for what it does not name");
	}
	return i;
}

node_id
host_use_node(const struct host_use *u, node_id of)
{
	const struct host_kernel *h = u->kernel;

	return u->nodes.at[place_of(h->nodes.at, h->nodes.n, of)];
}

static void
put_operands(struct host_func *f, const struct host_use *u,
	     const struct kernel *x, uint32_t part)
{
	const struct host_kernel *h = u->kernel;
	uint32_t i;

	for (i = 0; i < h->k.operands.n; i++) {
		const struct cg_operand *o = &h->k.operands.at[i];
		struct ll_value *at;

		if (o->value) {
			value_id v = u->values.at[place_of(h->values.at,
						h->values.n, o->value)];

			at = ll_plus_n(f->c->ll, host_where(f, v),
				       host_part_bytes(f->k, x, v, part));
		} else {
			node_id sink = host_use_node(u, o->sink);

			at = host_item(f, f->c->mem.tensor[sink] - 1);
		}
		host_put(f, f->at, i, at);
	}
}

static int64_t
name_hash(void *user, const struct memory_run *run,
	  const struct memory_iterations *at)
{
	const struct ir_node *n = user;

	return (int64_t)cg_rng_hash(host_name(&run->m->ctx->tmp, run->m,
		ir_attr(run->m, n, IR_ATTR_NAME)->text, at));
}

static struct ll_value *
number(struct host_func *f, const struct host_use *u, const struct cg_num *x)
{
	const struct ir_node *n;
	struct ll_value *seed;

	if (x->kind == CG_STEP) {
		return host_env(f, offsetof(struct rt_env, step), LL_I64);
	}
	if (x->kind == CG_AT) {
		return host_first(f, host_coordinate(f->c, x->node));
	}
	if (x->kind == CG_OLD) {
		return host_old(f, host_use_node(u, x->node));
	}
	n = ir_node(f->c->m, host_use_node(u, x->node));
	seed = host_env(f, offsetof(struct rt_env, seed), LL_I64);
	return cg_rng_key(f->c->ll, host_sampled(f, name_hash, (void *)n),
			  seed);
}

static void
launch(struct host_func *f, const struct kernel *x, uint32_t part)
{
	struct host_use u;
	uint32_t i;

	host_use(f->c, f->k, x, &u);
	put_operands(f, &u, x, part);
	for (i = 0; i < u.kernel->k.spreads.n; i++) {
		const struct cg_spread *s = &u.kernel->k.spreads.at[i];

		host_put(f, f->pieces, i, host_pieces(f, host_spread(f->c,
						s->size, s->cut)));
	}
	for (i = 0; i < u.kernel->k.nums.n; i++) {
		host_put(f, f->num, i,
			 number(f, &u, &u.kernel->k.nums.at[i]));
	}
	host_launch(f, host_kernel_data(f->c, u.kernel, x));
}

/* ---- the gradient's norm ---- */

/* Whether v is the sum that the norm is the root of. */
static bool
is_squares(const struct ir_module *m, value_id v)
{
	const struct ir_node *n = ir_node(m, m->values.at[v].node);

	while (ir_is(n->op, IRF_COMM)) {
		v = ir_args(m, n)[0];
		n = ir_node(m, m->values.at[v].node);
	}
	return n->op == IR_GRADIENT &&
	       strcmp(ir_text(m->ctx, ir_attr(m, n, IR_ATTR_NAME)->text),
		      "gradient_norm.squared") == 0;
}

static void
put_root(struct host_func *f, struct ll_value *squares)
{
	struct ll *l = f->c->ll;
	struct ll_value *to = ll_plus_n(l, f->arena, f->k->watch_offset), *v;

	f->k->watches = true;
	if (f->c->arch) {
		host_service_root(f, squares, to);
		return;
	}
	v = ll_load(l, ll_type(LL_F32, 1), squares);
	ll_store(l, ll_math(l, "sqrt", &v, 1), to);
}

/* Before a kernel that reads it: where it lies may be others' later. */
static void
watch(struct host_func *f, const struct kernel *x)
{
	const struct ir_module *m = f->c->m;
	uint32_t i;

	for (i = 0; i < x->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, x->nodes.at[i]);
		value_id of;

		if (n->op != IR_SQRT) {
			continue;
		}
		of = ir_args(m, n)[0];
		if (is_squares(m, of) && ir_type(m, of)->dtype == IR_F32) {
			put_root(f, host_where(f, of));
		}
	}
}

/* ---- lists of kernels ---- */

static void list(struct host_func *f, const struct kernel_list *x);

static uint32_t
first_carry(const struct host_func *f, node_id repeat)
{
	const struct memory *mem = &f->c->mem;
	uint32_t i;

	for (i = 0; i < mem->carries.n &&
	     mem->carries.at[i].repeat != repeat; i++) {
	}
	return i;
}

static void
loop(struct host_func *f, const struct kernel *x)
{
	const struct ir_module *m = f->c->m;
	const struct ir_node *n = ir_node(m, x->nodes.at[0]);
	const struct ir_region *r = &m->regions.at[n->region];
	uint32_t first = first_carry(f, x->nodes.at[0]), i;
	struct host_scope scope = { n, 0, NULL, f->scope };
	struct ll *l = f->c->ll;
	struct ll_loop k;

	scope.count = (uint32_t)ir_attr_int(m, n, IR_ATTR_COUNT, 1);
	for (i = 0; i < n->nargs; i++) {
		host_hand_on(f, first + i, true, ir_args(m, n)[i]);
	}
	ll_loop(l, &k, ll_i64(l, 0), ll_i64(l, scope.count), 1, NULL, 0);
	scope.i = k.i;
	f->scope = &scope;
	list(f, x->body);
	for (i = 0; i < n->nargs; i++) {
		host_hand_on(f, first + i, false, r->results.at[i]);
	}
	f->scope = scope.outer;
	ll_loop_end(l, &k, NULL);
}

/*
 * An update has a repeat for each run of layers on its rank, as many as an
 * interleaved pipeline has stages there.  Each is a function: what LLVM takes
 * for one grows by more than its length.
 */
static void
repeat(struct host_func *f, const struct kernel *x)
{
	struct ll_value *args[] = { f->env, f->microbatch };
	struct ll *l = f->c->ll;
	struct ll_block *here;
	struct host_func part;

	if (f->scope || f->run.stage != UINT32_MAX) {
		loop(f, x);
		return;
	}
	here = ll_here(l);
	host_func_begin(f->c, f->k, arena_printf(f->c->a, "pipe%u_layers",
						 f->k->pipe), &part);
	part.id = f->id;
	ll_apart(l, part.func);
	loop(&part, x);
	host_func_end(&part);
	ll_at(l, here);
	return_if(f, ll_call(l, part.func, args, 2));
}

/* What a contraction makes by parts is talked about part by part. */
static void
by_parts(struct host_func *f, const struct kernel_list *x, uint32_t at)
{
	const struct kernel *k = &x->at.at[at];
	uint32_t i;

	for (i = 0; i < k->parts->n; i++) {
		if (k->kind == KERNEL_COLLECTIVE) {
			host_collective(f, k, i);
			continue;
		}
		launch(f, k, i);
		if (k->until) {
			host_collective(f, &x->at.at[k->until], i);
		}
	}
}

static void
list(struct host_func *f, const struct kernel_list *x)
{
	uint32_t i;

	for (i = 0; i < x->at.n; i++) {
		const struct kernel *k = &x->at.at[i];

		if (k->body) {
			repeat(f, k);
		} else if (k->parts) {
			if (!parts_led(x, i)) {
				by_parts(f, x, i);
			}
		} else if (k->kind == KERNEL_COLLECTIVE) {
			host_collective(f, k, 0);
		} else {
			if (f->run.stage == UINT32_MAX) {
				watch(f, k);
			}
			launch(f, k, 0);
		}
	}
}

/* ---- the step's number ---- */

static void
store_step(struct host_func *f, struct ll_value *to)
{
	struct ll *l = f->c->ll;

	if (f->c->arch) {
		host_service_step(f, to);
		return;
	}
	ll_store(l, ll_cast(l, host_env(f, offsetof(struct rt_env, step),
					LL_I64), LL_F32), to);
}

/* An input of that name is the optimizer's step, as in the interpreter. */
static void
put_step(struct host_func *f, region_id id)
{
	const struct ir_module *m = f->c->m;
	const struct ir_region *r = &m->regions.at[id];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		if (n->region) {
			put_step(f, n->region);
		} else if (n->op == IR_INPUT && strcmp("step",
				ir_text(m->ctx, ir_attr(m, n, IR_ATTR_NAME)
					->text)) == 0) {
			store_step(f, host_where(f, n->result));
		}
	}
}

/* ---- what functions return ---- */

static void
put_results(struct host_func *f)
{
	const struct ir_module *m = f->c->m;
	const struct ir_region *r =
		&m->regions.at[m->funcs.at[f->id].body];
	struct ll_value *from;
	uint32_t i, k;

	for (i = 0; i < r->results.n; i++) {
		for (k = 0; k < f->c->mem.buffers.n; k++) {
			const struct memory_buffer *b =
				&f->c->mem.buffers.at[k];

			if (b->func == f->id && b->kind == MEMORY_OTHER &&
			    b->value == r->results.at[i] &&
			    f->c->mem.value[b->value].buffer != k + 1) {
				from = host_item(f, k);
				host_copy(f, host_where(f, b->value), from,
					  host_bytes(f->k, b->value));
			}
		}
	}
}

/* ---- stages and updates ---- */

/* How much the stage sent before it comes to each microbatch. */
void
host_turns(struct host_func *f)
{
	const struct sched *s = f->c->r->sched;
	const struct sched_list *x = &s->ranks[f->k->pipe];
	uint32_t sent[2] = { 0, 0 }, i;

	for (i = 0; i < 2; i++) {
		f->turn[i] = arena_alloc(f->c->a, s->nmicrobatches *
					 sizeof *f->turn[i]);
	}
	for (i = 0; i < x->actions.n; i++) {
		const struct sched_action *a = &x->actions.at[i];

		if (a->stage != f->run.stage) {
			continue;
		}
		if (a->kind == f->kind) {
			f->turn[0][a->microbatch] = sent[0];
			f->turn[1][a->microbatch] = sent[1];
		}
		sent[0] += (sched_kinds[a->kind].does & SCHED_FORWARD) != 0;
		sent[1] += (sched_kinds[a->kind].does & SCHED_INPUT) != 0;
	}
}

static struct ll_value *
body(struct host_func *f)
{
	region_id r = f->c->m->funcs.at[f->id].body;

	put_step(f, r);
	host_free_sends(f);
	list(f, f->c->all[f->id]->top);
	put_results(f);
	host_func_end(f);
	return f->func;
}

struct ll_value *
host_stage(struct cg_code *c, struct host_class *k, uint32_t stage,
	   uint32_t kind)
{
	struct host_func f;
	func_id id = c->r->of_stage[stage][kind];

	host_func_begin(c, k, ir_text(c->m->ctx, c->m->funcs.at[id].name),
			&f);
	f.id = id;
	f.run.stage = stage;
	f.kind = kind;
	host_turns(&f);
	return body(&f);
}

struct ll_value *
host_update(struct cg_code *c, struct host_class *k)
{
	func_id id = c->r->update[k->pipe];
	struct host_func f;

	if (!id) {
		host_func_begin(c, k, arena_printf(c->a, "pipe%u_update",
						   k->pipe), &f);
		host_func_end(&f);
		return f.func;
	}
	host_func_begin(c, k, ir_text(c->m->ctx, c->m->funcs.at[id].name),
			&f);
	f.id = id;
	return body(&f);
}
