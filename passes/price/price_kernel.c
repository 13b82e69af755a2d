/*
 * The time of one kernel of a rank program: its work, as kernels.h describes
 * it, by the formulas of cost.h.  Everything else of the folder calls this.
 */
#include "passes/price/price.h"

#include "passes/plan/plan.h"

#include <math.h>
#include <string.h>

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
	uint8_t dtype;

	if (!p->traits->wide_sums || !v || !runs_along(k, p->r->dp) ||
	    (op != COST_ALL_REDUCE && op != COST_REDUCE_SCATTER)) {
		return k->work->coll.bytes;
	}
	dtype = ir_type(p->m, v)->dtype;
	return k->work->coll.bytes *
	       price_sum_elem_bytes(p, price_rate(dtype)) * 8 /
	       ir_dtypes[dtype].bits;
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

value_id
price_param(const struct ir_module *m, const struct ir_node *n)
{
	return ir_is(n->op, IRF_PARAM) && is_in_layers(m, n) ? n->result : 0;
}

value_id
price_added(const struct ir_module *m, const struct ir_node *n)
{
	return price_adds(n) && is_in_layers(m, n) ? ir_args(m, n)[0] : 0;
}

/*
 * Weights come in.  Sums of gradients come in and go back; those of the only
 * microbatch just go.
 */
static double
param_bytes(const struct pricing *p, const struct ir_node *n)
{
	value_id in = price_param(p->m, n), sum = price_added(p->m, n);

	return in ? kernel_bytes(p->m, in)
		: sum ? kernel_bytes(p->m, sum) * (p->r->time ? 2 : 1) : 0;
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

/*
 * On a GPU no block knows when all others have ended, so partial sums of blocks
 * are added up by a second launch: of the sums over rows that are the gradient
 * of a norm or a bias, and of squares.  So llmc's own kernels are made; of the
 * sums of other software nothing is known.
 */
uint32_t
price_launches(const struct pricing *p, const struct kernel *k)
{
	return k->work->sums && price_own_moves(p->traits) &&
	       !target_is_cpu(&p->t->device) ? 2 : 1;
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

	price_bytes(p, COST_MAP, bytes, price_launches(p, k), f);
	f->first_us += price_bytes_us(p, bytes) -
		       price_bytes_us(p, bytes - price_first_bytes(p, k));
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
		price_contraction_kernel(p, k, f);
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
