/*
 * The time of a contraction of a rank program, with what its kernel moves
 * beside operands and result; and whether it shares a launch with others.
 */
#include "passes/price/price.h"

#include <math.h>
#include <string.h>

/* ---- the contraction ---- */

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

double
price_sum_elem_bytes(const struct pricing *p, enum target_rate rate)
{
	return p->traits->wide_sums && rate == TARGET_BF16
		? 4 : cost_rate_bytes(rate);
}

static double
elem_bytes(const struct pricing *p, value_id v)
{
	return ir_elem_bytes(ir_type(p->m, v)->dtype);
}

/* The rate of the type that a contraction's operands lie in memory in. */
static enum target_rate
stored_rate(const struct pricing *p, const struct kernel *k)
{
	const struct ir_node *n = price_main_node(p->m, k, IRF_CONTRACTS,
						 IRF_PAIRS);

	return price_rate(ir_type(p->m, ir_args(p->m, n)[0])->dtype);
}

/* What a member of a launch reads that another one makes: the sum so far, or
 * results of the first of a pair.  Of one launch, it is in registers. */
static double
handed_bytes(const struct kernel_launch *l, uint32_t at)
{
	const struct kernel *k = l->of[at];
	double bytes = 0;
	uint32_t i;

	for (i = 0; at > 0 && i < k->inputs.n; i++) {
		if (kernel_makes(l->of[at - 1], k->inputs.at[i].value)) {
			bytes += k->inputs.at[i].bytes;
		}
	}
	return bytes;
}

/* Whether the first of a pair makes nothing that anyone else reads. */
static bool
hands_on_all(const struct kernel_launch *l)
{
	const struct kernel *k = l->of[0];
	uint32_t i;

	for (i = 0; i < k->outputs.n &&
	     kernel_hands_on(l, k->outputs.at[i].value); i++) {
	}
	return l->paired && i == k->outputs.n;
}

/* What the first of a pair does not store of what it makes, but for the result
 * that its contraction counts. */
static double
unstored_bytes(const struct kernel_launch *l, uint32_t at, double result)
{
	const struct kernel *k = l->of[at];
	double bytes = at == 0 && hands_on_all(l) ? -result : 0;
	uint32_t i;

	for (i = 0; l->paired && i < k->outputs.n; i++) {
		if (kernel_hands_on(l, k->outputs.at[i].value)) {
			bytes += k->outputs.at[i].bytes;
		}
	}
	return bytes;
}

/*
 * What shows of `more` bytes, beside `own` ones of operands and result, of
 * products that take so long.  What other warps read and write, and what the
 * copying unit loads and stores, moves beside products, but for the last tiles;
 * and all of it takes its time at the rate of memory.
 */
static double
more_us(const struct pricing *p, const struct cost_contraction *x,
	double own, double more, double us)
{
	const struct target_device *d = &p->t->device;
	double sums = x->batch * x->m * x->n, all = price_bytes_us(p, more);
	bool beside = x->put.boxes ||
		      cost_put_by_warps(d, &x->put, sums, us);

	return more <= 0 || !beside ? all
		: fmin(all, fmax(price_bytes_us(p, own + more) - us, 0) +
			    all * cost_last_tiles(d, sums));
}

/* What a contraction's kernel moves beside its operands and result; its
 * products take so long. */
static void
price_extra_bytes(struct pricing *p, const struct kernel *k,
		  const struct cost_contraction *x, bool shares, double us,
		  struct price_func *f)
{
	enum target_rate rate = stored_rate(p, k);
	double out = x->batch * x->m * x->n;
	double own = x->batch * (x->m * x->k + x->k * x->n) *
		     cost_rate_bytes(rate) + out * x->out_bytes;
	double handed = shares
		? handed_bytes(k->launch, k->launch->at) +
		  unstored_bytes(k->launch, k->launch->at, out * x->out_bytes)
		: 0;
	double more = k->work->read_bytes + k->work->write_bytes - own -
		      handed;
	double less = price_first_bytes(p, k);
	double sum = price_sum_elem_bytes(p, rate);
	double wide = sum / cost_rate_bytes(rate);

	if (p->traits->lone_sums && has_sum(p, k)) {
		/* the result once more, and a sum */
		price_bytes(p, COST_MAP, out * (x->out_bytes + 2 * sum), 1, f);
		f->first_us += price_bytes_us(p, less * wide);
		return;
	}
	if (p->traits->wide_sums && has_sum(p, k)) {
		/* a sum is read and written, and no result beside it */
		more = out * (2 * sum - x->out_bytes);
		less *= wide;
	}
	if (!p->maps || has_sum(p, k)) {
		double all = more_us(p, x, own, more, us);

		price_add_part(f, PRICE_MAPS, all);
		f->first_us += all - more_us(p, x, own, more - less, us);
	}
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

bool
price_cuts_tail(const struct price_traits *t, const struct target_device *d,
		const struct cost_contraction *x)
{
	return suits_own_tail(x) && price_has_own_tail(t, d);
}

void
price_set_unit(const struct price_traits *t, const struct target_device *d,
	       bool of_experts, struct cost_contraction *x)
{
	bool later = price_has_own_tail(t, d) && !x->own_tail &&
		     !x->widened && cost_rate_bytes(x->rate) <= 2;

	x->either = later && of_experts;
	x->narrow |= later && !of_experts;
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
		x.own_tail = price_cuts_tail(p->traits, &p->t->device, &x);
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
	bool experts = ir_is(n->op, IRF_INDEXED);
	uint32_t i;

	if (!price_ours(p->traits) || target_is_cpu(&p->t->device)) {
		return;
	}
	for (i = 0; i < 2 && !experts; i++) {
		int64_t bytes = price_copy_bytes(p, k, n, i);

		x->single[i] = bytes < 4;
		if (bytes < 16) {
			x->narrow = price_has_own_tail(p->traits,
						       &p->t->device);
			x->own_tail = false;
		}
	}
	price_set_unit(p->traits, &p->t->device, experts, x);
}

/* What follows its products; cost_put_us has the rule that hides it.  Of
 * kernels whose threads copy and multiply nothing is hidden: the blocks that a
 * multiprocessor has begin together, and so end together.  Of 8 bits a thread
 * of sm_90a has two registers for a sum, so tiles of both are small, and those
 * of teams in turns smaller than pays. */
struct cost_put
price_put(struct ir_module *m, const struct target_device *d,
	  const struct kernel *k, const struct cost_contraction *x, bool shares)
{
	bool threads = strcmp(d->arch, "sm_90a") != 0;
	const struct ir_node *n = price_main_node(m, k, IRF_CONTRACTS,
						 IRF_PAIRS);
	struct cost_put put = { 0 };

	if (!price_has_kernels(d)) {
		return put;
	}
	if (!x->own_tail) {
		put.slots = price_more_slots(m, k,
			ir_is(n->op, IRF_INDEXED) && n->op != IR_DOT_TO
			? PRICE_PUT_ROWS : PRICE_PUT_TILES, false);
		return put;
	}
	put.slots = price_more_slots(m, k, PRICE_PUT_TEAMS, shares);
	put.boxes = !threads && x->rate != TARGET_FP8 &&
		    price_adds_boxes(m, k, shares);
	put.warps_slots = price_warps_slots(m, k, shares);
	put.beside = threads ? COST_BESIDE_THREAD
		: x->rate == TARGET_FP8 ? COST_BESIDE_NONE
		: put.warps_slots > 0 ? COST_BESIDE_WARPS
		: COST_BESIDE_TURNS;
	return put;
}

/* ---- launches of several ---- */

/* Whether the copying unit can load the operands of a member of a launch. */
static bool
has_whole_copies(const struct pricing *p, const struct kernel *k)
{
	const struct ir_node *n = price_main_node(p->m, k, IRF_CONTRACTS,
						 IRF_PAIRS);

	return price_copy_bytes(p, k, n, 0) >= 16 &&
	       price_copy_bytes(p, k, n, 1) >= 16;
}

#define STAGE_BYTES 128	/* of k: DOT90_ROW of codegen/cuda/dot/cuda_dot90.h */

/* Whether stages of k are half full, as they must be of a kernel by wgmma or
 * tcgen05.  Those that share operands sum over the same positions; of those
 * that add up some may fill less. */
static bool
fills_stages(const struct kernel_launch *l, const struct cost_contraction *x)
{
	double filled = 0, all = 0;
	uint32_t i;

	for (i = 0; i < l->n; i++) {
		double bytes = x[i].k * cost_rate_bytes(x[i].rate);

		filled += bytes;
		all += ceil(bytes / STAGE_BYTES) * STAGE_BYTES;
	}
	return 2 * filled >= all;
}

/* Those of the launch of `own`, with results that are as wide as operands.
 * False: there is none for one of them. */
static bool
launch_dots(const struct pricing *p, const struct kernel_launch *l,
	    const struct cost_contraction *own,
	    struct cost_contraction x[KERNEL_MAX_LAUNCH])
{
	bool suits = price_has_own_tail(p->traits, &p->t->device);
	uint32_t i;

	for (i = 0; i < l->n; i++) {
		const struct kernel_dot *d = &l->of[i]->work->dot;

		x[i] = *own;
		x[i].m = fmax(d->m, 1);
		x[i].n = d->n;
		x[i].k = fmax(d->k, 1);
		x[i].batch = d->batch;
		x[i].out_bytes = cost_rate_bytes(own->rate);
		x[i].own_tail = true;
		x[i].narrow = false;
		suits &= suits_own_tail(&x[i]) &&
			 has_whole_copies(p, l->of[i]);
	}
	return suits && fills_stages(l, x);
}

/* A tile with columns of both of a pair takes as long as a tile of either would
 * with as many columns; where one result is stored, half of it is for each. */
static double
member_us(const struct pricing *p, const struct kernel_launch *l,
	  const struct cost_contraction *x, uint32_t at)
{
	const struct target_device *d = &p->t->device;
	struct cost_contraction y[KERNEL_MAX_LAUNCH];

	if (l->sums) {
		return cost_contraction_summed_us(d, x, l->n, at);
	}
	memcpy(y, x, l->n * sizeof *y);
	y[at].out_bytes /= hands_on_all(l) ? l->n : 1;
	return cost_contraction_among_us(d, y, l->n, at, l->by_rows);
}

/* What member `at` takes in a launch of its own, with what it reads of another
 * one's. */
static double
alone_us(const struct pricing *p, const struct kernel_launch *l,
	 const struct cost_contraction *x, uint32_t at)
{
	return price_dot_us(p, x) + price_bytes_us(p, handed_bytes(l, at));
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

	if (!l || !launch_dots(p, l, own, x)) {
		return false;
	}
	for (i = 0; i < l->n; i++) {
		alone += alone_us(p, l, &x[i], i);
		all += member_us(p, l, x, i);
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
		if (!shares_launch(&one, k, &own)) {
			return false;
		}
	}
	return k->launch != NULL;
}

static double
share_us(const struct pricing *p, const struct kernel *k,
	 const struct cost_contraction *own)
{
	const struct kernel_launch *l = k->launch;
	struct cost_contraction x[KERNEL_MAX_LAUNCH];

	launch_dots(p, l, own, x);
	x[l->at] = *own;
	return member_us(p, l, x, l->at);
}

/* ---- a kernel ---- */

/* Of a launch, what starting it takes of one that it makes. */
static double
launch_us(const struct pricing *p, const struct kernel *k, bool shares)
{
	return p->t->device.launch_us / (shares ? k->launch->n : 1);
}

/* Counts what its products take, and what follows them; returns the former,
 * without what it takes to start them. */
static double
price_products(const struct pricing *p, const struct kernel *k, bool shares,
	       const struct cost_contraction *x, struct price_func *f)
{
	struct cost_contraction plain = *x;
	double us = shares ? share_us(p, k, x) : price_dot_us(p, x);
	double products_us = us;

	price_add_part(f, PRICE_MATRIX, us);
	if (x->put.slots > 0) {
		plain.put.slots = 0;
		products_us = shares ? share_us(p, k, &plain)
				     : price_dot_us(p, &plain);
		f->put_us += us - products_us;
	}
	return products_us - launch_us(p, k, shares);
}

void
price_contraction_kernel(struct pricing *p, const struct kernel *k,
			 struct price_func *f)
{
	struct cost_contraction x = price_dot(p, k);
	bool shares;
	double us;

	set_copies(p, k, &x);
	shares = shares_launch(p, k, &x);
	if (price_ours(p->traits)) {
		x.put = price_put(p->m, &p->t->device, k, &x, shares);
	}
	f->kernels += !(shares && kernel_follows(k));
	us = price_products(p, k, shares, &x, f);
	price_extra_bytes(p, k, &x, shares, us, f);
	if (price_is_narrowed(p, k) && price_narrowing_bytes(p, k) > 0) {
		price_bytes(p, COST_MAP, price_narrowing_bytes(p, k), 1, f);
	}
}
