/*
 * What a contraction, attention or collective takes at least in any program
 * that has it, however its kernel is fused and in how many parts it runs.  Maps
 * count nothing, since another program may have them in other kernels.
 */
#include "passes/price/price.h"

#include <math.h>

/* So many times longer, a kernel takes what its work or its bytes take. */
#define LONG 1e9

static double
elem_bytes(const struct pricing *p, value_id v)
{
	return ir_elem_bytes(ir_type(p->m, v)->dtype);
}

/*
 * Maps in its kernel may round its result, so where its sums are wider than its
 * operands what it writes is not counted.
 */
static struct cost_contraction
dot_of(const struct pricing *p, const struct kernel *k)
{
	const struct ir_node *n = price_main_node(p->m, k, IRF_CONTRACTS,
						 IRF_PAIRS);
	struct cost_contraction x = price_dot(p, k);

	if (elem_bytes(p, ir_args(p->m, n)[0]) < elem_bytes(p, n->result)) {
		x.out_bytes = 0;
	}
	return x;
}

/*
 * Parts of it take as long together as the whole or longer, and a launch each,
 * or a share of one.
 */
static double
dot_us(const struct pricing *p, const struct kernel *k)
{
	struct cost_contraction x = dot_of(p, k);

	return price_dot_split_us(p, &x) +
	       price_least_launch_us(&p->t->device, x.own_tail);
}

/* Of what nothing that is fused with it changes. */
static double
whole_us(struct pricing *p, const struct kernel *k)
{
	struct price_func f = { 0 };

	price_kernel(p, k, &f);
	return f.total_us;
}

/* What gradients take at least by llmc's own kernels of sm_90a, one or two,
 * which is more than forward takes; INFINITY if there are none of these. */
static double
own_gradients_us(const struct pricing *p, const struct kernel *k)
{
	const struct kernel_attention *a = k->work->attention;
	double pairs = a->batch * a->heads * a->s * a->t *
		       (a->causal ? 0.5 : 1);

	return price_has_own_attention(p->traits, &p->t->device)
		? cost_gradients_least_us(&p->t->device, pairs,
					  fmin(a->d, a->v)) : INFINITY;
}

/*
 * Other nodes in its kernel may have its gradients made by one kernel or by
 * two, or by those that have no price of their own, as operands are then in
 * memory or not: the least of them counts.
 */
static double
attention_us(struct pricing *p, const struct kernel *k)
{
	struct price_traits traits = *p->traits;
	struct pricing five = *p;
	double us = fmin(whole_us(p, k), own_gradients_us(p, k));

	if (!price_may_have_one_kernel(p, k)) {
		return us;
	}
	traits.five_products = true;
	five.traits = &traits;
	return fmin(us, whole_us(&five, k));
}

/*
 * The time of a collective is the least over algorithms of a start and its
 * bytes at a rate.  So its bytes at the rate of the algorithm that is quickest
 * for long messages take no longer; and they add up, in whatever calls they are
 * joined and in whatever parts they run.
 */
static double
coll_us(struct pricing *p, const struct kernel *k)
{
	struct kernel_work work = *k->work;
	struct price_func f = { 0 };
	struct kernel whole = *k;

	work.coll.bytes *= LONG;
	whole.work = &work;
	whole.parts = NULL;
	price_kernel(p, &whole, &f);
	return f.us[PRICE_COMM] / LONG;
}

/*
 * As many as LONG of it, one after the other, take no less than one of all
 * their rows.  Routed rows are rounded up, of more sequences by less of each.
 */
static double
dot_each_us(const struct pricing *p, const struct kernel *k,
	    const struct ir_type *t)
{
	struct cost_contraction x = dot_of(p, k);

	x.m = (x.m - (t->routed ? 1 : 0)) * LONG;
	return x.m > LONG ? price_dot_split_us(p, &x) / LONG : 0;
}

/* So with attention: its last wave is no more than a part of the others. */
static double
attention_each_us(struct pricing *p, const struct kernel *k)
{
	struct kernel_attention many = *k->work->attention;
	struct kernel_work work = *k->work;
	struct price_func f = { 0 };
	struct kernel all = *k;

	many.batch *= LONG;
	work.attention = &many;
	all.work = &work;
	all.parts = NULL;
	price_kernel(p, &all, &f);
	return fmin(f.us[PRICE_ATTENTION] / LONG, own_gradients_us(p, k));
}

double
price_least_each_us(struct pricing *p, const struct kernel *k)
{
	const struct ir_node *n;

	if (k->kind == KERNEL_CONTRACTION) {
		n = price_main_node(p->m, k, IRF_CONTRACTS, IRF_PAIRS);
		return dot_each_us(p, k, ir_type(p->m, n->result));
	}
	return k->kind == KERNEL_ATTENTION && !p->traits->unfused
		? attention_each_us(p, k) : 0;
}

/*
 * Only reductions and gathers may be joined, run in parts and run beside
 * kernels (fuse_comm.c, fuse_join.c, parts.c).  All other collectives have
 * their own price, and the next kernel waits for them.
 */
static bool
may_hide(const struct kernel *k)
{
	return k->work->coll.op == IR_ALL_REDUCE ||
	       k->work->coll.op == IR_REDUCE_SCATTER ||
	       k->work->coll.op == IR_ALL_GATHER;
}

static struct price_least
least_of(struct pricing *p, const struct kernel *k)
{
	struct price_least f = { 0, 0, 0 };

	if (k->kind == KERNEL_CONTRACTION) {
		f.kernels_us = dot_us(p, k);
	} else if (k->kind == KERNEL_ATTENTION) {
		f.kernels_us = attention_us(p, k);
	} else if (k->kind == KERNEL_COLLECTIVE && k->work->coll.axes) {
		f.colls_us = may_hide(k) ? coll_us(p, k) : 0;
		f.waits_us = may_hide(k) ? 0 : whole_us(p, k);
	}
	return f;
}

/* Of several groups of nodes the slowest, which all wait for. */
void
price_least(struct pricing *p, const struct kernel *k, struct price_least *f)
{
	struct price_least most = { 0, 0, 0 }, x;
	struct pricing one = *p;
	uint32_t i;

	if (!p->t->nof) {
		most = least_of(p, k);
	}
	for (i = 0; i < p->t->nof; i++) {
		one.t = p->t->of[i];
		x = least_of(&one, k);
		most = x.kernels_us + x.colls_us + x.waits_us >
		       most.kernels_us + most.colls_us + most.waits_us
			? x : most;
	}
	f->kernels_us += most.kernels_us;
	f->colls_us += most.colls_us;
	f->waits_us += most.waits_us;
}
