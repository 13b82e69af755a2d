/*
 * A native function as it is emitted: its parameters, the arrays that calls
 * of the runtime are filled from, and these calls.
 */
#include "codegen/host/host.h"

/* ---- a function and its arguments ---- */

struct ll_value *
host_env_field(struct host_func *f, size_t offset, enum ll_base base)
{
	struct ll *l = f->c->ll;

	return ll_load(l, ll_type(base, 1),
		       ll_plus_n(l, f->env, (int64_t)offset));
}

void
host_store(struct host_func *f, struct ll_value *array, uint32_t i,
	 struct ll_value *word)
{
	struct ll *l = f->c->ll;

	ll_store(l, word, ll_plus_n(l, array, 8 * (int64_t)i));
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
	f->arena = host_env_field(f, offsetof(struct rt_env, arena), LL_PTR);
	f->all_pieces =
		host_env_field(f, offsetof(struct rt_env, pieces), LL_PTR);
	shared = ll_plus_n(c->ll, f->arena, k->work_offset);
	host_store(f, f->call, offsetof(struct rt_call, at) / 8, f->at);
	host_store(f, f->call, offsetof(struct rt_call, pieces) / 8, f->pieces);
	host_store(f, f->call, offsetof(struct rt_call, num) / 8, f->num);
	host_store(f, f->call, offsetof(struct rt_call, shared) / 8, shared);
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
host_first_position(struct host_func *f, uint32_t spread)
{
	struct ll *l = f->c->ll;

	return ll_load(l, ll_type(LL_I64, 1),
		       ll_plus_n(l, host_pieces(f, spread), (int64_t)
				 offsetof(struct rt_pieces, at[0].start)));
}

/* ---- calls of the runtime ---- */

void
host_return_if_failed(struct host_func *f, struct ll_value *status)
{
	struct ll *l = f->c->ll;
	struct ll_block *bad = ll_block(l, f->func, "failed");
	struct ll_block *good = ll_block(l, f->func, "next");

	ll_branch(l, ll_test(l, LL_NE, status, ll_i64(l, 0)), bad, good);
	ll_at(l, bad);
	ll_return(l, status);
	ll_at(l, good);
}

/* The number of the layer: the variable of the outermost repeat. */
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

	host_return_if_failed(
		f, ll_call_ptr(f->c->ll, host_env_field(f, entry, LL_PTR),
			       ll_type(LL_I64, 1), params, args, 4));
}

void
host_launch(struct host_func *f, struct ll_value *kernel)
{
	call(f, offsetof(struct rt_env, launch), kernel, f->call);
}

void
host_call_coll(struct host_func *f, struct ll_value *coll,
	       struct ll_value *from, struct ll_value *to)
{
	host_store(f, f->at, 0, from);
	host_store(f, f->at, 1, to);
	call(f, offsetof(struct rt_env, coll), coll, f->at);
}
