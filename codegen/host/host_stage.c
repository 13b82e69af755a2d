/*
 * Native functions of the rank program: what a stage does in a phase, and
 * the update.  Each is its kernels in their order, a repeat is a loop, and a
 * launch stores where operands lie and calls the runtime.
 */
#include "codegen/host/host.h"
#include "ir/train/step_numbers.h"

#include <string.h>

/* ---- a launch ---- */

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
			value_id v = host_use_value(u, o->value);

			at = ll_plus_n(f->c->ll, host_value_at(f, v),
				       host_part_bytes(f->k, x, v, part));
		} else {
			node_id sink = host_use_node(u, o->sink);

			at = host_item_at(f, f->c->mem.tensor[sink] - 1);
		}
		host_store(f, f->at, i, at);
	}
}

static int64_t
name_hash(void *user, const struct memory_run *run,
	  const struct memory_iterations *at)
{
	const struct ir_node *n = user;

	return (int64_t)cg_rng_hash(host_full_name(&run->m->ctx->tmp, run->m,
		ir_attr(run->m, n, IR_ATTR_NAME)->text, at));
}

static struct ll_value *
number(struct host_func *f, const struct host_use *u, const struct cg_num *x)
{
	const struct ir_node *n;
	struct ll_value *seed;

	if (x->kind == CG_STEP) {
		return host_env_field(f, offsetof(struct rt_env, step), LL_I64);
	}
	if (x->kind == CG_AT) {
		return host_first_position(f, host_coordinate(f->c, x->node));
	}
	if (x->kind == CG_OLD) {
		return host_has_old(f, host_use_node(u, x->node));
	}
	n = ir_node(f->c->m, host_use_node(u, x->node));
	seed = host_env_field(f, offsetof(struct rt_env, seed), LL_I64);
	return cg_rng_key(f->c->ll, host_sampled_value(f, name_hash, (void *)n),
			  seed);
}

static void
launch(struct host_func *f, const struct kernel *x, uint32_t part)
{
	struct host_use u;
	uint32_t i;

	host_use_kernel(f->c, f->k, x, &u);
	put_operands(f, &u, x, part);
	for (i = 0; i < u.kernel->k.spreads.n; i++) {
		const struct cg_spread *s = &u.kernel->k.spreads.at[i];

		host_store(f, f->pieces, i, host_pieces(f, host_add_spread(f->c,
						s->size, s->cut)));
	}
	for (i = 0; i < u.kernel->k.nums.n; i++) {
		host_store(f, f->num, i,
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

/* Before a kernel that reads it: later its place may be reused. */
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
			put_root(f, host_value_at(f, of));
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
		host_copy_carried(f, first + i, true, ir_args(m, n)[i]);
	}
	ll_loop(l, &k, ll_i64(l, 0), ll_i64(l, scope.count), 1, NULL, 0);
	scope.i = k.i;
	f->scope = &scope;
	list(f, x->body);
	for (i = 0; i < n->nargs; i++) {
		host_copy_carried(f, first + i, false, r->results.at[i]);
	}
	f->scope = scope.outer;
	ll_loop_end(l, &k, NULL);
}

/*
 * An update has a repeat for each run of layers of its rank: as many as an
 * interleaved pipeline has stages there.  Each is a function, as the time that
 * LLVM takes for a function grows faster than its length.
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
	host_return_if_failed(f, ll_call(l, part.func, args, 2));
}

/* The collective of a contraction that runs by parts follows each part. */
static void
by_parts(struct host_func *f, const struct kernel_list *x, uint32_t at)
{
	const struct kernel *k = &x->at.at[at];
	uint32_t i;

	for (i = 0; i < k->parts->n; i++) {
		if (k->kind == KERNEL_COLLECTIVE) {
			host_emit_collective(f, k, i);
			continue;
		}
		launch(f, k, i);
		if (k->until) {
			host_emit_collective(f, &x->at.at[k->until], i);
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
			host_emit_collective(f, k, 0);
		} else {
			if (f->run.stage == UINT32_MAX) {
				watch(f, k);
			}
			k = host_launched(f->c, f->k, x, i);
			if (k) {
				launch(f, k, 0);
			}
		}
	}
}

/* ---- numbers of the step ---- */

_Static_assert((int)IR_NUMBERS == RT_NUMBERS &&
	       (int)IR_NUMBER_LR == RT_NUMBER_LR &&
	       (int)IR_NUMBER_CLIP == RT_NUMBER_CLIP &&
	       (int)IR_NUMBER_DECAY == RT_NUMBER_DECAY,
	       "the runtime has the numbers of ir/train/step_numbers.h");

static void
store_number(struct host_func *f, enum ir_number n, struct ll_value *to)
{
	size_t at = offsetof(struct rt_env, numbers) + 8 * (size_t)n;
	struct ll *l = f->c->ll;

	if (f->c->arch) {
		host_service_number(f, n, to);
	} else {
		ll_store(l, ll_cast(l, host_env_field(f, at, LL_F64), LL_F32),
			 to);
	}
}

/* Inputs of these names are numbers that the runtime has. */
static void
put_numbers(struct host_func *f, region_id id)
{
	const struct ir_module *m = f->c->m;
	const struct ir_region *r = &m->regions.at[id];
	enum ir_number number;
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		if (n->region) {
			put_numbers(f, n->region);
		}
		if (n->op != IR_INPUT) {
			continue;
		}
		number = ir_number_find(ir_text(m->ctx, ir_attr(m, n,
						IR_ATTR_NAME)->text));
		if (number < IR_NUMBERS) {
			store_number(f, number, host_value_at(f, n->result));
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
				from = host_item_at(f, k);
				host_copy(f, host_value_at(f, b->value), from,
					  host_bytes(f->k, b->value));
			}
		}
	}
}

/* ---- stages and updates ---- */

static struct ll_value *
body(struct host_func *f)
{
	region_id r = f->c->m->funcs.at[f->id].body;

	put_numbers(f, r);
	host_free_sends(f);
	list(f, f->c->all[f->id]->top);
	put_results(f);
	host_func_end(f);
	return f->func;
}

struct ll_value *
host_stage_func(struct cg_code *c, struct host_class *k, uint32_t stage,
	   uint32_t kind)
{
	struct host_func f;
	func_id id = c->r->of_stage[stage][kind];

	host_func_begin(c, k, ir_text(c->m->ctx, c->m->funcs.at[id].name),
			&f);
	f.id = id;
	f.run.stage = stage;
	f.kind = kind;
	host_find_turns(&f);
	return body(&f);
}

struct ll_value *
host_update_func(struct cg_code *c, struct host_class *k)
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
