/*
 * The time of a kernel of attention: forward, or all of its gradients.  On
 * llmc's own code both are priced as the kernels or steps that code generation
 * emits; of gradients one or two: both ask cost_gradients.c, and the plan's
 * tiles.
 */
#include "passes/price/price.h"

#include "passes/plan/plan.h"

#include <math.h>
#include <string.h>

/* ---- scores in memory ---- */

/*
 * Attention that writes its scores to memory, in 16 bits.  Forward: two
 * contractions a head, and per score softmax with scale and mask (2 + 2 bytes)
 * and dropout (2 + 2, its mask 1).  Backward: four contractions, dropout
 * (2 + 1 + 2) and softmax (2 + 2 + 2).  Scale and mask as kernels of their own
 * read and write each score once more, both forward and backward.
 */
#define SCALE_MASK_BYTES 8

static void
price_unfused(const struct pricing *p, const struct cost_attention *a,
	      bool forward, struct price_func *f)
{
	double scores = a->batch * a->heads * a->queries * a->keys;
	double passes = forward ? 1 : 2;
	double lone = p->traits->lone_softmax ? 1 : 0;
	double bytes = (forward ? 9 : 11) + lone * SCALE_MASK_BYTES;
	struct cost_contraction x = {
		.m = a->queries, .n = a->keys, .k = a->head_dim,
		.batch = a->batch * a->heads, .rate = a->rate, .out_bytes = 2
	};
	struct cost_contraction y = x;

	y.n = a->head_dim;
	y.k = a->keys;
	price_add_part(f, PRICE_ATTENTION, passes *
		 (cost_contraction(&p->t->device, &x).us +
		  cost_contraction(&p->t->device, &y).us) +
		 cost_bytes(&p->t->device, COST_MAP, bytes * scores).us +
		 (1 + 2 * lone) * p->t->device.launch_us);
	f->kernels += (forward ? 4 : 6) + 2 * lone;
}

/* ---- which kernels make the gradients ---- */

/* The node of the kernel that makes this gradient, or NULL. */
static const struct ir_node *
gradient_node(const struct ir_module *m, const struct kernel *k, enum ir_op op)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, k->nodes.at[i]);

		if (n->op == op) {
			return n;
		}
	}
	return NULL;
}

/* Whether the kernel reads a value from memory, through views or not; else it
 * computes the value itself. */
static bool
is_read(const struct ir_module *m, const struct kernel *k, value_id v)
{
	while (!kernel_reads(k, v)) {
		node_id id = m->values.at[v].node;
		const struct ir_node *n = ir_node(m, id);

		if (!id || n->nargs == 0 || kernel_has_node(k, id)) {
			return false;
		}
		v = ir_args(m, n)[0];
	}
	return true;
}

/* Whether queries, keys, values and the result's gradient have one type of 16
 * bits, and lie in memory. */
static bool
are_tiles(const struct ir_module *m, const struct kernel *k,
	  const struct ir_node *n)
{
	const value_id *args = ir_args(m, n);
	uint8_t dtype = ir_type(m, args[0])->dtype;
	uint32_t i;

	for (i = 0; i < 4; i++) {
		if (ir_type(m, args[i])->dtype != dtype ||
		    !is_read(m, k, args[i])) {
			return false;
		}
	}
	return dtype == IR_BF16 || dtype == IR_F16;
}

/* The axes that cut a dim, which operand i of a rule has. */
static uint32_t
cut_of(const struct ir_module *m, const struct ir_node *n, uint32_t i,
       dim_id d)
{
	const struct ir_type *t = ir_type(m, ir_args(m, n)[i]);

	return t->cut[ir_type_at(t, d)];
}

/* Whether all of its heads are on the rank of the keys that they share; sets
 * g->shared. */
static bool
has_own_keys(struct ir_module *m, const struct ir_node *n, double heads,
	     struct cost_gradients *g)
{
	struct ir_rule r;
	dim_id h, k;
	uint32_t cut;

	ir_bind(m, n, &r);
	h = ir_rule_factor(&r, "h")->dims[0];
	k = ir_rule_factor(&r, "k")->dims[0];
	cut = cut_of(m, n, 0, h);
	g->shared = ir_dim_size(m, h) / ir_dim_size(m, k);
	return cut == cut_of(m, n, 1, k) && !ir_is_balanced(m, cut) &&
	       heads == (double)(g->kv * g->shared);
}

/* Whether all of its keys and queries are on one rank. */
static bool
is_whole(struct ir_module *m, const struct ir_node *n)
{
	struct ir_rule r;

	ir_bind(m, n, &r);
	return !cut_of(m, n, 0, ir_rule_factor(&r, "s")->dims[0]) &&
	       !cut_of(m, n, 1, ir_rule_factor(&r, "t")->dims[0]);
}

/* Keys of all ranks, where a rank has those of its own. */
static double
all_keys(const struct pricing *p, const struct kernel *k)
{
	double keys = k->work->attention->t;
	axis_id i;

	for (i = 1; i < p->m->axes.n; i++) {
		keys *= k->work->coll.axes >> i & 1
			? (double)p->m->axes.at[i].size : 1;
	}
	return keys;
}

/* Sets *g from the kernel.  False: no kernel makes all gradients. */
static bool
gradients_of(const struct pricing *p, const struct kernel *k,
	     struct cost_gradients *g)
{
	const struct ir_node *n = gradient_node(p->m, k, IR_ATTENTION_DQ);
	const struct kernel_attention *a = k->work->attention;

	if (!n || !gradient_node(p->m, k, IR_ATTENTION_DK) ||
	    !gradient_node(p->m, k, IR_ATTENTION_DV) || k->work->coll.axes ||
	    ir_attr_int(p->m, n, IR_ATTR_WINDOW, 0) > 0) {
		return false;
	}
	*g = (struct cost_gradients){
		.batches = (int64_t)a->batch, .kv = (int64_t)a->kv,
		.queries = (int64_t)a->s, .keys = (int64_t)a->t,
		.d = (int64_t)a->d, .dv = (int64_t)a->v, .causal = a->causal,
		.units = p->t->device.units, .scratch = COST_JOINT_SCRATCH
	};
	return has_own_keys(p->m, n, a->heads, g) && is_whole(p->m, n) &&
	       are_tiles(p->m, k, n);
}

/* Whether one step of a CPU's makes all of them. */
static bool
has_one_step(const struct pricing *p, const struct kernel *k)
{
	const struct kernel_attention *a = k->work->attention;
	const struct ir_node *n = gradient_node(p->m, k, IR_ATTENTION_DQ);
	struct cost_gradients g = {
		.batches = (int64_t)a->batch, .kv = (int64_t)a->kv,
		.queries = (int64_t)a->s, .keys = (int64_t)all_keys(p, k),
		.d = (int64_t)a->d
	};

	n = n ? n : gradient_node(p->m, k, IR_ATTENTION_BETWEEN_DQ);
	return n && has_own_keys(p->m, n, a->heads, &g) && cost_cpu_joint(&g);
}

/* Whether the plan has a tile of a step that makes these. */
static bool
has_tile(const struct pricing *p, const struct kernel *k,
	 const struct cost_gradients *g, const char *made)
{
	const struct ir_node *n = gradient_node(p->m, k, IR_ATTENTION_DQ);
	const struct plan_attention x = {
		.dtype = (enum ir_dtype)ir_type(p->m, ir_args(p->m, n)[0])
				->dtype,
		.batches = g->batches, .heads = g->kv * g->shared, .kv = g->kv,
		.queries = g->queries, .keys = g->keys, .d = g->d, .dv = g->dv,
		.causal = g->causal,
		.alibi = ir_attr_num(p->m, n, IR_ATTR_ALIBI, 0),
		.softcap = ir_attr_num(p->m, n, IR_ATTR_SOFTCAP, 0)
	};

	return plan_has_tile(p->m, plan_attention_name(&p->m->ctx->tmp, &x,
						       made));
}

/* Whether llmc's own kernels are those with which one makes all gradients. */
static bool
has_joint_kernel(const struct pricing *p)
{
	return strcmp(p->t->device.arch, "sm_90a") == 0 &&
	       !p->traits->five_products;
}

bool
price_may_have_one_kernel(const struct pricing *p, const struct kernel *k)
{
	const struct kernel_attention *a = k->work->attention;

	return has_joint_kernel(p) && a->d > COST_JOINT_ABOVE &&
	       a->d <= COST_JOINT_HEAD && a->v <= COST_JOINT_HEAD &&
	       gradient_node(p->m, k, IR_ATTENTION_DQ);
}

/*
 * Whether the gradients have seven products.  Published kernels have five
 * (flash_backward), and so has what llmc emits no code for.
 */
bool
price_has_two_kernels(const struct pricing *p, const struct kernel *k)
{
	const struct target_device *d = &p->t->device;
	struct cost_gradients g;
	struct cost_joint j;

	if (target_is_cpu(d) && !p->traits->five_products && !d->plan_only) {
		return !has_one_step(p, k);
	}
	if (p->traits->five_products || !price_has_kernels(d)) {
		return false;
	}
	if (!has_joint_kernel(p) || !gradients_of(p, k, &g) ||
	    !cost_joint_choose(&g, &j)) {
		return true;
	}
	if (plan_has_tiles(p->m)) {
		if (has_tile(p, k, &g, "queries+keys+values")) {
			return false;
		}
		if (has_tile(p, k, &g, "queries") ||
		    has_tile(p, k, &g, "keys+values")) {
			return true;
		}
	}
	return !cost_joint_is_less(&g, &j);
}

/*
 * What llmc's own kernels of sm_90a take, by their products, instructions and
 * turns; 0: it is not known.  Kernels for sm_80 have wider heads, few rows, and
 * rows that are cut.
 */
static double
own_gradients_us(const struct pricing *p, const struct kernel *k, bool two)
{
	const struct target_device *d = &p->t->device;
	struct cost_gradients g;
	struct cost_joint j;

	if (!has_joint_kernel(p) || d->plan_only || !gradients_of(p, k, &g) ||
	    g.d > COST_JOINT_HEAD || g.dv > COST_JOINT_HEAD ||
	    g.queries <= COST_JOINT_QUERIES || g.keys <= COST_JOINT_QUERIES) {
		return 0;
	}
	return two ? cost_gradients_us(d, &g, NULL)
		: cost_joint_choose(&g, &j) ? cost_gradients_us(d, &g, &j) : 0;
}

/* All gradients; with traits no less than the formula, on which bounds of other
 * software's code count. */
static struct cost
price_gradients(const struct pricing *p, const struct kernel *k,
		const struct cost_attention *x, struct price_func *f)
{
	bool two = price_has_two_kernels(p, k);
	struct cost c = two ? cost_attention_backward_apart(&p->t->device, x)
			    : cost_attention_backward(&p->t->device, x);
	double own_us = own_gradients_us(p, k, two);

	if (own_us > 0 && (own_us > c.us || price_ours(p->traits))) {
		f->own_us += fmax(own_us - p->t->device.launch_us, 0);
		c.us = fmax(own_us, c.memory_us + c.launch_us);
	}
	return c;
}

/* ---- forward ---- */

bool
price_has_own_attention(const struct price_traits *t,
			const struct target_device *d)
{
	return strcmp(d->arch, "sm_90a") == 0 && !d->plan_only && price_ours(t);
}

/*
 * What llmc's own kernel of sm_90a takes forward; 0: it is not known.  Kernels
 * for sm_80 have wider heads, other types and few rows; of windows, cut
 * sequences and keys that values select nothing is counted.
 */
static double
own_forward_us(const struct pricing *p, const struct kernel *k,
	       const struct ir_node *n)
{
	const struct kernel_attention *a = k->work->attention;
	uint8_t dtype = ir_type(p->m, ir_args(p->m, n)[0])->dtype;
	struct cost_gradients g = {
		.batches = (int64_t)a->batch, .kv = (int64_t)a->heads,
		.shared = 1, .queries = (int64_t)a->s, .keys = (int64_t)a->t,
		.d = (int64_t)a->d, .dv = (int64_t)a->v, .causal = a->causal,
		.units = p->t->device.units
	};

	if (!price_has_own_attention(p->traits, &p->t->device) ||
	    n->op != IR_ATTENTION || k->work->coll.axes || a->window > 0 ||
	    (dtype != IR_BF16 && dtype != IR_F16) || !is_whole(p->m, n) ||
	    g.d > COST_JOINT_HEAD || g.dv > COST_JOINT_HEAD || g.d % 8 != 0 ||
	    g.dv % 8 != 0 || (g.causal && g.queries != g.keys) ||
	    g.queries <= COST_JOINT_QUERIES || g.keys <= COST_JOINT_QUERIES) {
		return 0;
	}
	return cost_forward_us(&p->t->device, &g);
}

static struct cost
price_forward(const struct pricing *p, const struct kernel *k,
	      const struct ir_node *n, const struct cost_attention *x,
	      struct price_func *f)
{
	struct cost c = cost_attention(&p->t->device, x);
	double own_us = own_forward_us(p, k, n);

	f->own_us += fmax(own_us - c.launch_us, 0);
	c.us = own_us > 0 ? fmax(own_us, c.memory_us + c.launch_us) : c.us;
	return c;
}

/* ---- all kinds ---- */

/*
 * What FlashAttention-2 gained over the first one as Triton has it: "1.3-1.5x
 * in the forward pass and around 2x in the backward pass" (Dao,
 * arXiv:2307.08691, section 4.1, on A100).
 */
#define FIRST_FORWARD 1.4
#define FIRST_BACKWARD 2.0

/* Attention itself, if the kernel has it: then it is forward, and its other
 * results come out of the same pass.  Else the first node of its backward. */
static const struct ir_node *
attention_node(const struct ir_module *m, const struct kernel *k)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, k->nodes.at[i]);

		if (ir_is(n->op, IRF_PAIRS) && ir_is(n->op, IRF_CACHED)) {
			return n;
		}
	}
	return price_main_node(m, k, IRF_PAIRS, 0);
}

void
price_attention_kernel(struct pricing *p, const struct kernel *k,
		       struct price_func *f)
{
	const struct ir_node *n = attention_node(p->m, k);
	const struct kernel_attention *a = k->work->attention;
	struct cost_attention x = {
		.batch = a->batch, .heads = a->heads, .kv_heads = a->kv,
		.head_dim = a->d, .queries = a->s, .keys = all_keys(p, k),
		.causal = a->causal, .window = (double)a->window,
		.rate = price_rate(ir_type(p->m, ir_args(p->m, n)[0])->dtype),
		.narrow = p->traits->sm80_code, .dated = p->traits->first_flash
	};
	bool forward = ir_is(n->op, IRF_CACHED);
	struct cost c;

	if (price_cached_attention(p, k, f)) {
		return;
	}
	if (p->traits->unfused) {
		price_unfused(p, &x, forward, f);
		return;
	}
	c = forward ? price_forward(p, k, n, &x, f)
		    : price_gradients(p, k, &x, f);
	price_add_part(f, PRICE_ATTENTION, c.us *
		       (!p->traits->first_flash ? 1
			: forward ? FIRST_FORWARD : FIRST_BACKWARD));
}
