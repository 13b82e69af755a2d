/*
 * The time of one kernel of a rank program: its work, as kernels.h describes
 * it, by the formulas of cost.h.  Everything else of the folder calls this.
 */
#include "passes/price/price.h"

#include "passes/plan/plan.h"

#include <math.h>
#include <string.h>

/* Bytes at the rate of memory, without a launch. */
static double
bytes_us(const struct pricing *p, double bytes)
{
	struct cost c = cost_bytes(&p->t->device, COST_MAP, bytes);

	return bytes > 0 ? c.us - c.launch_us : 0;
}

/* ---- contractions ---- */

/*
 * Rows that choose their matrix by index are taken to be evenly distributed
 * over the matrices.
 */
static void
share_rows(const struct pricing *p, const struct kernel *k,
	   const struct ir_node *n, struct cost_contraction *x)
{
	const struct ir_factor *of;
	struct ir_rule r;

	ir_bind(p->m, n, &r);
	of = ir_rule_factor(&r, "of");
	if (of && of->out) {
		x->k /= k->work->dot.groups;
	} else {
		x->m /= k->work->dot.groups;
	}
	x->batch *= k->work->dot.groups;
}

/* Whether the kernel adds its result to a sum. */
static bool
has_sum(const struct pricing *p, const struct kernel *k)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		if (price_adds(ir_node(p->m, k->nodes.at[i]))) {
			return true;
		}
	}
	return false;
}

/* Of an element of a sum of gradients of that type. */
static double
sum_elem_bytes(const struct pricing *p, enum target_rate rate)
{
	return p->traits->wide_sums && rate == TARGET_BF16
		? 4 : cost_rate_bytes(rate);
}

/* The rate of the type that a contraction's operands lie in memory in. */
static enum target_rate
stored_rate(const struct pricing *p, const struct kernel *k)
{
	const struct ir_node *n = price_main_node(p->m, k, IRF_CONTRACTS,
						 IRF_PAIRS);

	return price_rate(ir_type(p->m, ir_args(p->m, n)[0])->dtype);
}

/* What a contraction's kernel moves beside its operands and result. */
static void
price_extra_bytes(struct pricing *p, const struct kernel *k,
		  const struct cost_contraction *x, struct price_func *f)
{
	enum target_rate rate = stored_rate(p, k);
	double out = x->batch * x->m * x->n;
	double own = x->batch * (x->m * x->k + x->k * x->n) *
		     cost_rate_bytes(rate) + out * x->out_bytes;
	double more = k->work->read_bytes + k->work->write_bytes - own;
	double less = price_first_bytes(p, k);
	double wide = sum_elem_bytes(p, rate) / cost_rate_bytes(rate);

	if (p->traits->lone_sums && has_sum(p, k)) {
		/* the result once more, and a sum */
		price_bytes(p, COST_MAP, out * (x->out_bytes + 2 *
			    sum_elem_bytes(p, rate)), 1, f);
		f->first_us += bytes_us(p, less * wide);
		return;
	}
	if (p->traits->wide_sums && has_sum(p, k)) {
		/* a sum is read and written, and no result beside it */
		more = out * (2 * sum_elem_bytes(p, rate) - x->out_bytes);
		less *= wide;
	}
	if (!p->maps || has_sum(p, k)) {
		price_add_part(f, PRICE_MAPS, bytes_us(p, more));
		f->first_us += bytes_us(p, more) - bytes_us(p, more - less);
	}
}

static double
elem_bytes(const struct pricing *p, value_id v)
{
	return ir_elem_bytes(ir_type(p->m, v)->dtype);
}

/*
 * Bytes of an element of the result as the kernel writes it: sums in f32 of
 * narrower operands are rounded by the nodes after the contraction.
 */
static double
out_bytes(const struct pricing *p, const struct kernel *k,
	  const struct ir_node *n)
{
	double own = elem_bytes(p, n->result), most = 0;
	uint32_t i;

	if (elem_bytes(p, ir_args(p->m, n)[0]) >= own) {
		return own;
	}
	for (i = 0; i < k->outputs.n; i++) {
		value_id v = k->outputs.at[i].value;

		most = v ? fmax(most, elem_bytes(p, v)) : own;
	}
	return most > 0 ? fmin(most, own) : own;
}

enum target_rate
price_dot_rate(const struct pricing *p, const struct kernel *k)
{
	return price_is_narrowed(p, k) ? TARGET_FP8 : stored_rate(p, k);
}

#define LEAST_DIM 16	/* smaller ones have other kernels */

bool
price_has_own_tail(const struct price_traits *t, const struct target_device *d)
{
	static const char *const archs[] = { "sm_90a", "sm_100a", "sm_103a" };
	size_t i;

	for (i = 0; i < sizeof archs / sizeof *archs &&
	     strcmp(d->arch, archs[i]) != 0; i++) {
	}
	return i < sizeof archs / sizeof *archs && price_ours(t);
}

static bool
suits_own_tail(const struct cost_contraction *x)
{
	return cost_rate_bytes(x->rate) <= 2 && x->m >= LEAST_DIM &&
	       x->n >= LEAST_DIM && x->k >= LEAST_DIM;
}

struct cost_contraction
price_dot(const struct pricing *p, const struct kernel *k)
{
	const struct ir_node *n = price_main_node(p->m, k, IRF_CONTRACTS,
						 IRF_PAIRS);
	struct cost_contraction x = {
		.m = k->work->dot.m, .n = k->work->dot.n, .k = k->work->dot.k,
		.batch = k->work->dot.batch
	};

	x.rate = price_dot_rate(p, k);
	x.out_bytes = out_bytes(p, k, n);
	if (k->work->dot.groups > 1) {
		share_rows(p, k, n, &x);
	} else if (!ir_is(n->op, IRF_INDEXED)) {	/* not of experts */
		x.own_tail = suits_own_tail(&x) &&
			price_has_own_tail(p->traits, &p->t->device);
	}
	x.m = fmax(x.m, 1);
	x.k = fmax(x.k, 1);
	return x;
}

/*
 * Copies of fewer than 16 bytes are not the copying unit's, so products are
 * those of sm_80 then; and those of fewer than 4 are no asynchronous ones.
 */
static void
set_copies(const struct pricing *p, const struct kernel *k,
	   struct cost_contraction *x)
{
	const struct ir_node *n = price_main_node(p->m, k, IRF_CONTRACTS,
						 IRF_PAIRS);
	uint32_t i;

	if (!price_ours(p->traits) || target_is_cpu(&p->t->device) ||
	    ir_is(n->op, IRF_INDEXED)) {
		return;
	}
	for (i = 0; i < 2; i++) {
		int64_t bytes = price_copy_bytes(p, k, n, i);

		x->single[i] = bytes < 4;
		if (bytes < 16) {
			x->narrow = price_has_own_tail(p->traits,
						       &p->t->device);
			x->own_tail = false;
		}
	}
}

/* Those of its launch, with results that are as wide as operands.  False: there
 * is none for one of them. */
static bool
launch_dots(const struct kernel *k, const struct cost_contraction *own,
	    struct cost_contraction x[KERNEL_MAX_LAUNCH])
{
	const struct kernel_launch *l = k->launch;
	bool suits = own->own_tail;
	uint32_t i;

	for (i = 0; i < l->n; i++) {
		x[i] = *own;
		x[i].m = fmax(l->of[i]->dot.m, 1);
		x[i].n = l->of[i]->dot.n;
		x[i].batch = l->of[i]->dot.batch;
		x[i].out_bytes = cost_rate_bytes(own->rate);
		suits &= suits_own_tail(&x[i]);
	}
	return suits;
}

/* Whether it takes less than a launch of each. */
static bool
shares_launch(const struct pricing *p, const struct kernel *k,
	      const struct cost_contraction *own)
{
	struct cost_contraction x[KERNEL_MAX_LAUNCH];
	const struct kernel_launch *l = k->launch;
	double all = 0, alone = 0;
	uint32_t i;

	if (!l || !launch_dots(k, own, x)) {
		return false;
	}
	for (i = 0; i < l->n; i++) {
		alone += price_dot_us(p, &x[i]);
		all += cost_contraction_among_us(&p->t->device, x, l->n, i,
						 l->by_rows);
	}
	return all < alone;
}

bool
price_shares_launch(const struct pricing *p, const struct kernel *k)
{
	struct pricing one = *p;
	uint32_t i, n = p->t->nof ? p->t->nof : 1;

	for (i = 0; i < n && k->launch; i++) {
		struct cost_contraction own;

		one.t = p->t->nof ? p->t->of[i] : p->t;
		own = price_dot(&one, k);
		set_copies(&one, k, &own);
		if (!shares_launch(&one, k, &own)) {
			return false;
		}
	}
	return k->launch != NULL;
}

static double
among_us(const struct pricing *p, const struct kernel *k,
	 const struct cost_contraction *own)
{
	const struct kernel_launch *l = k->launch;
	struct cost_contraction x[KERNEL_MAX_LAUNCH];

	launch_dots(k, own, x);
	x[l->at] = *own;
	return cost_contraction_among_us(&p->t->device, x, l->n, l->at,
					 l->by_rows);
}

static void
price_contraction(struct pricing *p, const struct kernel *k,
		  struct price_func *f)
{
	struct cost_contraction x = price_dot(p, k);
	bool shares;

	set_copies(p, k, &x);
	shares = shares_launch(p, k, &x);
	f->kernels += !(shares && kernel_follows(k));
	price_add_part(f, PRICE_MATRIX, shares ? among_us(p, k, &x)
					       : price_dot_us(p, &x));
	price_extra_bytes(p, k, &x, f);
	if (price_is_narrowed(p, k) && price_narrowing_bytes(p, k) > 0) {
		price_bytes(p, COST_MAP, price_narrowing_bytes(p, k), 1, f);
	}
}

/* ---- collectives ---- */

/* Sets of linked devices that a node's ranks of such a group are in. */
static int64_t
linked_sets(const struct ranks *r, const struct target_device *d,
	    uint32_t axes, int64_t per_node)
{
	int64_t each;

	if (d->link_devices <= 0) {
		return 1;
	}
	each = ranks_group_below(r, axes, (uint64_t)d->link_devices);
	return each < per_node ? (per_node + each - 1) / each : 1;
}

/*
 * Groups of a node communicate at once, as all ranks run one program.  They are
 * those of a full node, also of a plan that leaves devices of it idle: the
 * search has one price of a sharding for all numbers of data ranks.
 */
struct cost_group
price_group(const struct ranks *r, const struct target_group *t, uint32_t axes)
{
	uint32_t n = ranks_group_size(r, axes);
	struct cost_group g = {
		.per_node = ranks_group_below(r, axes, (uint64_t)t->devices)
	};

	g.nodes = n / g.per_node + (n % g.per_node != 0);
	g.sharing = t->devices / g.per_node;
	g.sharing = g.sharing > 0 ? g.sharing : 1;
	g.sets = linked_sets(r, &t->device, axes, g.per_node);
	return g;
}

double
price_comm(const struct ranks *r, const struct target_group *t, enum cost_op op,
	   uint32_t axes, double bytes)
{
	struct cost_group g;
	double us = 0;
	uint32_t i;

	for (i = 0; i < t->nof; i++) {
		us = fmax(us, price_comm(r, t->of[i], op, axes, bytes));
	}
	if (!t->nof) {
		g = price_group(r, t, axes);
		us = cost_collective(t, op, &g, bytes, NULL).us;
	}
	return us;
}

static bool
runs_along(const struct kernel *k, axis_id a)
{
	return a && k->work->coll.axes >> a & 1;
}

/* Sums along dp are of gradients, in the type that wide_sums keeps them in. */
static double
comm_bytes(const struct pricing *p, const struct kernel *k, enum cost_op op)
{
	value_id v = ir_node(p->m, k->nodes.at[0])->result;

	if (!p->traits->wide_sums || !v || !runs_along(k, p->r->dp) ||
	    (op != COST_ALL_REDUCE && op != COST_REDUCE_SCATTER)) {
		return k->work->coll.bytes;
	}
	return k->work->coll.bytes *
	       sum_elem_bytes(p, price_rate(ir_type(p->m, v)->dtype)) * 8 /
	       ir_dtypes[ir_type(p->m, v)->dtype].bits;
}

enum cost_op
price_cost_op(uint16_t op)
{
	static const struct {
		enum ir_op op;
		enum cost_op cost;
	} kinds[] = {
		{ IR_ALL_REDUCE, COST_ALL_REDUCE },
		{ IR_REDUCE_SCATTER, COST_REDUCE_SCATTER },
		{ IR_ALL_GATHER, COST_ALL_GATHER },
		{ IR_ALL_TO_ALL, COST_ALL_TO_ALL },
		{ IR_DISPATCH, COST_ALL_TO_ALL },
		{ IR_COMBINE, COST_ALL_TO_ALL }
	};
	size_t i;

	for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (kinds[i].op == op) {
			return kinds[i].cost;
		}
	}
	return COST_ALL_REDUCE;
}

/* Ring attention is priced as gathering the keys that it passes on. */
static void
price_collective(struct pricing *p, const struct kernel *k,
		 struct price_func *f)
{
	bool ring = k->kind == KERNEL_ATTENTION;
	enum cost_op op = ring ? COST_ALL_GATHER
			       : price_cost_op(k->work->coll.op);
	struct cost_group g = price_group(p->r, p->t, k->work->coll.axes);
	bool across = p->across && p->across != p->t && p->r->pp &&
		      (k->work->coll.axes >> p->r->pp & 1);
	double ranks = (double)(g.per_node * g.nodes), bytes, us;

	if (ranks <= 1) {
		return;
	}
	bytes = comm_bytes(p, k, op) * (ring ? ranks : 1);
	us = across ? price_comm(p->r, p->across, op, k->work->coll.axes, bytes)
		    : cost_collective(p->t, op, &g, bytes, NULL).us;
	price_add_part(f, PRICE_COMM, us);
	if (runs_along(k, p->r->dp)) {
		f->data_us += us;
	} else if (runs_along(k, p->r->tp)) {
		f->tensor_us += us;
	}
}

/* ---- what lies on the host ---- */

static bool
is_in_layers(const struct ir_module *m, const struct ir_node *n)
{
	return ir_name_is_in_layers(m, ir_attr(m, n, IR_ATTR_NAME)->text);
}

/* What of `offload` has a tensor that an update reads on the host; 0: none. */
static uint32_t
home_of(const struct ir_module *m, const struct ir_node *n)
{
	if (ir_is(n->op, IRF_PARAM | IRF_SUMS)) {
		return is_in_layers(m, n) ? PLAN_OFFLOAD_PARAMS : 0;
	}
	return ir_is(n->op, IRF_STORED) ? PLAN_OFFLOAD_OPTIMIZER : 0;
}

/* The same of what a kernel stores, which it also reads. */
static uint32_t
home_of_store(const struct ir_module *m, const struct kernel *k, sym_t name)
{
	uint32_t i;

	for (i = 0; i < k->inputs.n; i++) {
		node_id id = m->values.at[k->inputs.at[i].value].node;
		const struct ir_node *n = ir_node(m, id);

		if (id && ir_is(n->op, IRF_STORED) &&
		    ir_attr(m, n, IR_ATTR_NAME)->text == name) {
			return home_of(m, n);
		}
	}
	return 0;
}

/* Bytes of a kernel that cross the host link, and those that cross drives. */
struct link_load {
	double host, drives;
};

static void
add_load(struct link_load *to, uint32_t home, uint32_t offload, double bytes)
{
	to->host += home & offload ? bytes : 0;
	to->drives += home & plan_on_drives(offload) ? bytes : 0;
}

/*
 * Tensors come in over the host link and go back; both ways share the link.
 * What is on drives passes through the host, and the slower of both counts.
 */
double
price_host_us(const struct pricing *p, const struct kernel *k)
{
	uint32_t offload = k->kind == KERNEL_OPTIMIZER ? plan_offload(p->m) : 0;
	const struct target_device *d = &p->t->device;
	struct link_load all = { 0, 0 };
	uint32_t i, home;

	for (i = 0; offload && i < k->inputs.n; i++) {
		node_id id = p->m->values.at[k->inputs.at[i].value].node;

		home = id ? home_of(p->m, ir_node(p->m, id)) : 0;
		add_load(&all, home, offload, k->inputs.at[i].bytes);
	}
	for (i = 0; offload && i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(p->m, k->nodes.at[i]);

		home = !ir_is(n->op, IRF_SINK) || price_adds(n) ? 0
			: home_of_store(p->m, k, ir_attr(p->m, n,
						IR_ATTR_NAME)->text);
		add_load(&all, home, offload,
		     kernel_bytes(p->m, ir_args(p->m, n)[0]));
	}
	return fmax(all.host > 0 ? all.host / d->host_bytes_us : 0,
		    all.drives > 0 ? all.drives / d->nvme_bytes_us : 0);
}

/*
 * Weights come in.  Sums of gradients come in and go back; those of the only
 * microbatch just go.
 */
static double
param_bytes(const struct pricing *p, const struct ir_node *n)
{
	if (ir_is(n->op, IRF_PARAM)) {
		return is_in_layers(p->m, n) ? kernel_bytes(p->m, n->result)
					     : 0;
	}
	return price_adds(n) && is_in_layers(p->m, n)
		? kernel_bytes(p->m, ir_args(p->m, n)[0]) *
		  (p->r->time ? 2 : 1) : 0;
}

void
price_link(const struct pricing *p, const struct kernel_list *l,
	   struct price_func *f)
{
	const struct ir_region *r = &p->m->regions.at[l->region];
	const struct target_device *d = &p->t->device;
	double saves = 0, params = 0;
	uint32_t i;

	if (d->host_bytes_us <= 0) {
		return;
	}
	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(p->m, r->nodes.at[i]);

		if (ir_is(n->op, IRF_STASH)) {
			saves += kernel_bytes(p->m, n->nargs
				? ir_args(p->m, n)[0] : n->result);
		}
		params += param_bytes(p, n);
	}
	f->saves_us += saves / d->host_bytes_us;
	f->params_us += params / d->host_bytes_us;
	f->drives_us += d->nvme_bytes_us > 0 ? params / d->nvme_bytes_us : 0;
}

/* ---- all kinds ---- */

void
price_bytes(const struct pricing *p, enum cost_kind kind, double bytes,
	    uint32_t n, struct price_func *f)
{
	const struct target_group *t = p->t;
	double us = cost_bytes(&t->device, kind, bytes).us +
		    (n - 1) * t->device.launch_us;
	uint32_t i;

	for (i = 0; i < t->nof; i++) {
		const struct target_device *d = &t->of[i]->device;

		us = fmax(i ? us : 0, cost_bytes(d, kind, bytes).us +
				      (n - 1) * d->launch_us);
	}
	price_add_part(f, PRICE_MAPS, us);
	f->kernels += n;
}

/*
 * What a kernel reads and writes.  What the host has of it arrives meanwhile;
 * what that takes longer comes on top.
 */
static void
price_moves(struct pricing *p, const struct kernel *k, struct price_func *f)
{
	double bytes = k->work->read_bytes + k->work->write_bytes;
	double us = f->total_us;

	price_bytes(p, COST_MAP, bytes, 1, f);
	f->first_us += bytes_us(p, bytes) -
		       bytes_us(p, bytes - price_first_bytes(p, k));
	us = f->total_us - us;
	price_add_part(f, PRICE_OFFLOAD, fmax(price_host_us(p, k) - us, 0));
}

/* A kernel that runs in parts: the time of one, times their number. */
static void
price_parts(struct pricing *p, const struct kernel *k, struct price_func *f)
{
	struct price_func once = { 0 };
	struct kernel_work work = *k->work;
	struct kernel part = *k;

	if (k->kind == KERNEL_COLLECTIVE) {	/* bytes alone count */
		work.coll.bytes /= k->parts->n;
		part.work = &work;
		part.parts = NULL;
	} else {
		parts_kernel(p->m, k, &p->m->ctx->tmp, &part);
	}
	price_kernel(p, &part, &once);
	price_add(f, &once, k->parts->n);
}

/* Ranks on several groups of nodes: all wait for the slowest. */
static void
price_slowest(struct pricing *p, const struct kernel *k, struct price_func *f)
{
	struct price_func most = { 0 };
	struct pricing one = *p;
	uint32_t i;

	for (i = 0; i < p->t->nof; i++) {
		struct price_func once = { 0 };

		one.t = p->t->of[i];
		price_kernel(&one, k, &once);
		most = i && most.total_us >= once.total_us ? most : once;
	}
	price_add(f, &most, 1);
}

void
price_kernel(struct pricing *p, const struct kernel *k, struct price_func *f)
{
	bool maps = k->kind == KERNEL_MAP || k->kind == KERNEL_ROWWISE;
	uint32_t i;

	if (p->t->nof) {
		price_slowest(p, k, f);
		return;
	}
	if (k->parts) {
		price_parts(p, k, f);
		return;
	}
	for (i = 0; i < k->members.n; i++) {
		price_kernel(p, &k->members.at[i], f);
	}
	if (k->members.n > 0) {
		return;
	}
	switch (k->kind) {
	case KERNEL_CONTRACTION:
		price_contraction(p, k, f);
		break;
	case KERNEL_ATTENTION:
		f->kernels++;
		price_attention_kernel(p, k, f);
		break;
	case KERNEL_COLLECTIVE:	/* price_collective; sends: price_hop */
		break;
	default:	/* price_maps prices maps op by op */
		if (!maps || !p->maps) {
			price_moves(p, k, f);
		}
		break;
	}
	if (k->work->coll.axes) {
		price_collective(p, k, f);
	}
}
