/*
 * Attention of a program that serves: to as many keys as a step has that is
 * full of requests, by the formulas of cost_cached.c, which the planner prices
 * steps by.
 */
#include "passes/price/price.h"

#include <math.h>

bool
price_load(const struct ir_module *m, double positions, double keys,
	   struct cost_load *out)
{
	double prompt = ir_setting_num(m, "serve.prompt", 0);
	double output = ir_setting_num(m, "serve.output", 0);

	if (!ir_setting(m, "program.serves") || prompt <= 0 || output <= 0) {
		return false;
	}
	*out = cost_full_load(prompt, output, positions, keys);
	return true;
}

/* ---- where keys lie ---- */

/* What a kernel of attention reads keys or values of: through the index of a
 * gather, if that is of the kernel, and from where in a row on. */
struct keys_at {
	value_id value;
	int64_t at;
};

static struct keys_at
keys_of(const struct ir_module *m, const struct kernel *k, value_id v)
{
	struct keys_at x = { v, 0 };
	const struct ir_node *n = ir_node(m, m->values.at[v].node);
	bool is_read = kernel_reads(k, v);

	while (n->op == IR_SLICE ||
	       (!is_read && (n->op == IR_CAST || n->op == IR_GATHER))) {
		x.at += n->op == IR_SLICE
			? ir_attr_int(m, n, IR_ATTR_AT, 0) : 0;
		x.value = ir_args(m, n)[0];
		is_read |= kernel_reads(k, x.value);
		n = ir_node(m, m->values.at[x.value].node);
	}
	return x;
}

/* Of latents values are the first numbers of keys. */
static bool
is_within(const struct keys_at *value, const struct keys_at *key)
{
	return value->value == key->value && value->at == key->at;
}

static double
elem_bytes(const struct ir_module *m, value_id v)
{
	return ir_elem_bytes(ir_type(m, v)->dtype);
}

/* A window is the latest keys up to the last one: max(first, last - (n - 1)),
 * as ragged writes it; 0: all keys. */
static double
window_of(const struct ir_module *m, value_id first)
{
	const struct ir_node *n = ir_node(m, m->values.at[first].node);

	if (n->op != IR_MAX) {
		return 0;
	}
	n = ir_node(m, m->values.at[ir_args(m, n)[1]].node);
	if (n->op != IR_SUB) {
		return 0;
	}
	n = ir_node(m, m->values.at[ir_args(m, n)[1]].node);
	return n->op == IR_CONST
		? ir_attr_num(m, n, IR_ATTR_VALUE, 0) + 1 : 0;
}

/* ---- attention ---- */

static const struct ir_node *
between_node(const struct ir_module *m, const struct kernel *k)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, k->nodes.at[i]);

		if (n->op == IR_ATTENTION_BETWEEN ||
		    n->op == IR_ATTENTION_SINKS_BETWEEN) {
			return n;
		}
	}
	return NULL;
}

static void
set_single(const struct pricing *p, const struct kernel *k,
	   const struct ir_node *n, const struct keys_at *key,
	   const struct keys_at *value, struct cost_single *out)
{
	const struct kernel_attention *a = k->work->attention;
	enum ir_dtype dtype = ir_type(p->m, ir_args(p->m, n)[0])->dtype;

	*out = (struct cost_single){
		.queries = (int64_t)a->s, .keys = (int64_t)a->t,
		.heads = (int64_t)a->heads, .kv = (int64_t)a->kv,
		.d = (int64_t)a->d, .v = (int64_t)a->v,
		.within = is_within(value, key),
		.exact = cost_rate_bytes(price_rate(dtype)) > 2,
		.slopes = ir_attr(p->m, n, IR_ATTR_ALIBI) != NULL,
		.key_bytes = elem_bytes(p->m, key->value),
		.value_bytes = elem_bytes(p->m, value->value),
		.shared_bytes = cost_shared_bytes(p->t->device.arch)
	};
}

/* False: it is no attention of a step that serves. */
static bool
read_kernel(const struct pricing *p, const struct kernel *k,
	    struct cost_load *l, struct cost_cached *x,
	    struct cost_single *single)
{
	const struct ir_node *n = between_node(p->m, k);
	const struct kernel_attention *a = k->work->attention;
	const value_id *args;
	struct keys_at key, value;

	if (!n || !price_load(p->m, a->s, a->t, l)) {
		return false;
	}
	args = ir_args(p->m, n);
	key = keys_of(p->m, k, args[1]);
	value = keys_of(p->m, k, args[2]);
	*x = (struct cost_cached){
		.ranks = 1, .heads = a->heads, .kv = a->kv, .d = a->d,
		.v = a->v, .window = window_of(p->m, args[n->nargs - 2]),
		.queries = 1, .key_bytes = a->kv * a->d *
					   elem_bytes(p->m, key.value),
		.rate = price_rate(ir_type(p->m, args[0])->dtype)
	};
	x->key_bytes += is_within(&value, &key) ? 0
		: a->kv * a->v * elem_bytes(p->m, value.value);
	if (!target_is_cpu(&p->t->device)) {
		set_single(p, k, n, &key, &value, single);
		x->single = single;
	}
	return true;
}

bool
price_cached_attention(struct pricing *p, const struct kernel *k,
		       struct price_func *f)
{
	struct cost_cached_us us;
	struct cost_single single;
	struct cost_cached x;
	struct cost_load l;

	if (!read_kernel(p, k, &l, &x, &single)) {
		return false;
	}
	us = cost_cached(&p->t->device, &x, &l);
	price_add_part(f, PRICE_ATTENTION, us.cache_us + us.math_us +
		       us.launches * p->t->device.launch_us);
	f->kernels += us.launches - 1;
	return true;
}

void
price_kernel_work(const struct pricing *p, const struct kernel *k,
		  double *flops, double *bytes)
{
	struct cost_single single;
	struct cost_cached x;
	struct cost_load l;

	*flops = k->work->flops;
	*bytes = k->work->read_bytes + k->work->write_bytes;
	if (k->kind == KERNEL_ATTENTION && read_kernel(p, k, &l, &x, &single)) {
		*flops = cost_cached_flops(&x, &l);
		*bytes = cost_cached_bytes(&x, &l);
	}
}
