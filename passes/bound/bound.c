/*
 * Lower bounds of a step before anything is placed, by which shardings are
 * left out.  Both bounds are of one microbatch in each piece, and bound_line.c
 * makes a bound of a pipeline of them.
 *
 * The first is arithmetic: what the contractions and attention of all data
 * ranks take, divided evenly among all ranks of a stage.  Proof: a kernel's
 * price is its work or the bytes of its operands, the larger, and a launch.
 * Dims are split by lengths of axes only, and f parts of a contraction take
 * together at least cost_contraction_split_us of the whole without their
 * launches (the proof is in cost.h).  So a part takes at least 1/f of that,
 * and a launch; and the fullest rank has at least the mean.  Recomputing,
 * copies and code in parts only add work.  Attention that is split by heads,
 * batch or queries is bounded in the same way (a part of causal queries sees
 * at least as many keys for each).
 *
 * The second, place_bound, is what collectives must move.
 */
#include "passes/place/place_bound.h"
#include "passes/bound/bound_parts.h"

#include <math.h>
#include <string.h>

/* ---- the work ---- */

static struct cost_contraction
dot_of(const struct pricing *p, const struct kernel *k)
{
	const struct kernel_dot *d = &k->work->dot;

	return (struct cost_contraction){
		.m = d->m, .n = d->n, .k = d->k, .batch = d->batch,
		.rate = price_dot_rate(p, k),
		.own_tail = d->groups <= 1
	};
}

static struct cost_attention
pairs_of(const struct pricing *p, const struct kernel *k)
{
	const struct kernel_attention *a = k->work->attention;
	value_id v = ir_args(p->m, ir_node(p->m, k->nodes.at[0]))[0];

	return (struct cost_attention){
		.batch = a->batch, .heads = a->heads, .kv_heads = a->kv,
		.head_dim = fmin(a->d, a->v), .queries = a->s, .keys = a->t,
		.causal = a->causal, .window = (double)a->window,
		.rate = price_rate(ir_type(p->m, v)->dtype)
	};
}

/* Where the work of a list of kernels belongs. */
struct place_in {
	uint32_t piece, kind;
	double times;
};

/* one, two: the same kernel for one sequence and for two. */
static void
add_work(struct bound *b, const struct pricing *p, const struct kernel *one,
	 const struct kernel *two, struct place_in at)
{
	const struct kernel_dot *x = &one->work->dot, *y = &two->work->dot;
	struct bound_work w = { at.piece, at.kind, .times = at.times };

	if (one->kind == KERNEL_ATTENTION) {
		w.attends = true;
		w.backward = at.kind != SCHED_F;
		w.pairs = pairs_of(p, one);
	} else {
		w.dot = dot_of(p, one);
		w.m = y->m > x->m;
		w.n = y->n > x->n;
		w.k = y->k > x->k;
		w.batch = y->batch > x->batch;
		/* rows choose their matrix: they are spread evenly */
		w.dot.batch *= x->groups;
		w.dot.k /= w.k ? x->groups : 1;
		w.dot.m /= w.k ? 1 : x->groups;
	}
	VEC_PUSH(&b->space->keep, &b->work, w);
}

static void
add_list(struct bound *b, const struct pricing *p,
	 const struct kernel_list *one, const struct kernel_list *two,
	 struct place_in at)
{
	uint32_t i;

	for (i = 0; i < one->at.n && one->at.n == two->at.n; i++) {
		const struct kernel *k = &one->at.at[i];
		struct place_in inner = at;

		if (k->body) {
			inner.times *= (double)k->body->count;
			if (at.kind != SCHED_F) {
				bound_add_link(b, p, k->body->region,
					       inner.times,
					       &b->link[at.piece]);
			}
			add_list(b, p, k->body, two->at.at[i].body, inner);
		} else if (k->kind == KERNEL_CONTRACTION ||
			   (k->kind == KERNEL_ATTENTION &&
			    !p->traits->unfused)) {
			add_work(b, p, k, &two->at.at[i], at);
		}
	}
}

/*
 * Finds the work of each piece, from a program that no axis splits.  Where that
 * cannot be placed, nothing is bounded.
 */
void
bound_find_work(struct bound *b)
{
	struct space_degrees g = { .used = 1, .tp = 1, .cp = 1, .ep = 1,
				  .pp = 1, .dp = 1 };
	struct space_plan t = {
		.g = &g, .microbatch = 1, .nmicrobatches = b->space->batch,
		.chunks = 1, .sched = sched_find("1f1b")
	};
	struct piece_key key = { .tp = 1, .cp = 1, .ep = 1, .sequence = true,
				  .solo = b->space->nlayers < 2 };
	struct piece_unsplit u;
	uint32_t i, k;

	if (!piece_open_unsplit(b->pieces, &key, &t, &u)) {
		return;
	}
	b->link = arena_alloc(&b->space->keep, PIECE_MAX * sizeof *b->link);
	b->ties = u.weights > b->static_bytes[0] * (1 + PIECE_NEAR) +
			      MEMORY_ALIGN * (double)b->space->nlayers;
	for (i = 0; i < u.nstages; i++) {
		double n = u.piece[i] >= PIECE_BODY ? u.iterations[i] : 1;

		for (k = 0; k < SCHED_NKINDS; k++) {
			func_id f = u.of_stage[i][k];
			struct place_in at = { u.piece[i], k, 1 / n };

			if (f) {
				add_list(b, &u.at, u.one[f]->top,
					 u.two[f]->top, at);
			}
		}
	}
	bound_sum_link(b);
	arena_release(&b->space->tmp);
}

/* ---- arithmetic ---- */

/* What its parts take together for so many sequences, without launches. */
static double
whole_us(const struct bound *b, const struct target_device *d,
	 const struct bound_work *w, double sequences)
{
	struct cost_contraction x = w->dot;
	struct cost_attention a = w->pairs;
	double us, pairs;
	struct cost c;

	if (!w->attends) {
		x.m *= w->m ? sequences : 1;
		x.n *= w->n ? sequences : 1;
		x.k *= w->k ? sequences : 1;
		x.batch *= w->batch ? sequences : 1;
		x.own_tail &= price_has_own_tail(b->space->traits, d);
		return cost_contraction_split_us(d, &x);
	}
	a.batch *= sequences;
	c = w->backward ? cost_attention_backward_least(d, &a)
			: cost_attention(d, &a);
	us = c.us - c.launch_us;
	pairs = a.batch * a.heads * a.queries * a.keys * (a.causal ? 0.5 : 1);
	return !price_has_own_attention(b->space->traits, d) ? us
		: fmin(us, w->backward
			   ? cost_gradients_least_us(d, pairs, a.head_dim)
			   : cost_forward_least_us(d, pairs, a.head_dim));
}

static double
least_us(const struct bound *b, const struct bound_work *w,
	 double sequences, double ranks)
{
	double us = INFINITY;
	uint32_t i;

	for (i = 0; i < b->space->nsingle; i++) {
		const struct target_device *d = &b->space->devs.at[i]->device;

		us = fmin(us, whole_us(b, d, w, sequences) / ranks +
			      price_least_launch_us(d, !w->attends &&
				w->dot.own_tail &&
				price_has_own_tail(b->space->traits, d)));
	}
	return us;
}

/* Of the pieces, one microbatch of that many sequences on that many ranks. */
static const struct bound_pieces *
arithmetic(struct bound *b, int64_t sequences, int64_t ranks)
{
	struct bound_arithmetic *x;
	uint32_t i;

	for (i = 0; i < b->arithmetic.n; i++) {
		x = b->arithmetic.at[i];
		if (x->sequences == sequences && x->ranks == ranks) {
			return &x->us;
		}
	}
	x = arena_alloc(&b->space->keep, sizeof *x);
	x->sequences = sequences;
	x->ranks = ranks;
	for (i = 0; i < b->work.n; i++) {
		const struct bound_work *w = &b->work.at[i];
		double us = w->times * least_us(b, w, (double)sequences,
						(double)ranks);

		x->us.all[w->piece] += us;
		x->us.forward[w->piece] += w->kind == SCHED_F ? us : 0;
	}
	VEC_PUSH(&b->space->keep, &b->arithmetic, x);
	return &x->us;
}

/* ---- communication ---- */

/* Sets a region and those inside.  Returns whether there are any inside. */
static bool
count_region(const struct ir_module *m, region_id r, bool *counted)
{
	bool nests = false;
	uint32_t i;

	counted[r] = true;
	for (i = 0; i < m->regions.at[r].nodes.n; i++) {
		const struct ir_node *n = ir_node(m, m->regions.at[r]
						     .nodes.at[i]);

		if (n->region) {
			count_region(m, n->region, counted);
			nests = true;
		}
	}
	return nests;
}

/*
 * Sets the regions of a kind of layer, and *nests to whether these have repeats
 * inside.  False: it is not known which they are.
 */
static bool
count_kind(const struct bound *b, const struct ir_module *m, uint32_t kind,
	   bool *counted, bool *nests)
{
	region_id of[2];
	uint32_t i;

	if (!piece_find_repeats(b->space, m, kind, of)) {
		return false;
	}
	for (i = 0; i < 2; i++) {
		*nests |= of[i] && count_region(m, of[i], counted);
	}
	return true;
}

static double
shown(const struct bound *b)
{
	return target_is_cpu(&b->space->t->device) ? 1
		: b->space->traits->overlap_tensor ? fmin(PRICE_SLOWED, 0.25)
		: PRICE_SLOWED;
}

/*
 * What shows of collectives other than reductions and gathers: kernels wait for
 * them, but in what other software is taken to do, and price_least_us counts no
 * more where repeats are inside one another.
 */
static double
waited(const struct bound *b, bool nests)
{
	const struct price_traits *t = b->space->traits;

	return nests || t->overlap_tensor || t->overlap_data ? shown(b) : 1;
}

static void
set_axis_us(struct bound *b, const struct space_degrees *g,
	    struct bound_axis *x)
{
	struct ir_module *m = piece_ready(b->pieces);
	struct plan plan = b->space->base;
	uint32_t i;

	/* with several kinds of node, or little to spend, it counts nothing */
	if (!m || b->space->devs.n > 1 || b->hurried) {
		return;
	}
	space_set_degrees(&plan, g);
	plan.dp = plan.pp = plan.microbatch = plan.nmicrobatches = 1;
	plan.sequence = x->sequence;
	plan.zero = 0;
	for (i = 0; i < b->space->nkinds; i++) {
		bool *counted = arena_alloc(&b->space->keep, m->regions.n);
		bool nests = false;
		struct pass_ctx p = { .ctx = m->ctx, .stats = &b->pieces->stats,
				      .cluster = b->space->target,
				      .memo = b->pieces->memo };

		if (x->axis == PLAN_EP && !b->space->kinds[i].experts) {
			continue;	/* its ranks are data ranks there */
		}
		x->us[i] = count_kind(b, m, i, counted, &nests)
			? place_bound(&p, m, &plan, x->axis, counted,
				      shown(b), waited(b, nests)) /
			  (double)b->space->kinds[i].iterations : 0;
	}
}

/*
 * What one axis adds to each layer of each kind, for one sequence of all its
 * ranks together.
 */
static const struct bound_axis *
axis_bound(struct bound *b, const struct space_degrees *g,
	   enum plan_axis axis, int64_t n, bool sequence)
{
	/* by tp, cp and ep alone */
	const struct space_degrees one = { .tp = g->tp, .cp = g->cp,
					   .ep = g->ep, .pp = 1, .dp = 1 };
	struct bound_axis *x, key = {
		.axis = axis, .n = n, .sequence = sequence,
		.apart = space_apart(b->space, &one, axis)
	};
	uint32_t i;

	for (i = 0; i < b->axes.n; i++) {
		x = b->axes.at[i];
		if (x->axis == axis && x->n == n && x->apart == key.apart &&
		    x->sequence == sequence) {
			return x;
		}
	}
	x = arena_alloc(&b->space->keep, sizeof *x);
	*x = key;
	set_axis_us(b, g, x);
	VEC_PUSH(&b->space->keep, &b->axes, x);
	return x;
}

/*
 * Adds a part of what an axis adds.  Each rank of ep has sequences of its own.
 */
static void
add_axis(struct bound *b, const struct space_degrees *g, enum plan_axis axis,
	 bool sequence, double part, struct bound_pieces *us)
{
	int64_t n = space_degree(g, axis);
	const struct bound_axis *x;
	uint32_t i;

	if (n == 1) {
		return;
	}
	x = axis_bound(b, g, axis, n, sequence);
	for (i = 0; i < b->space->nkinds; i++) {
		double more = x->us[i] * part *
			      (axis == PLAN_EP ? (double)n : 1);

		us->all[PIECE_BODY + i] += more;
		us->all[PIECE_FIRST] += i == 0 ? more : 0;
		us->all[PIECE_LAST] += i + 1 == b->space->nkinds ? more : 0;
	}
}

/* ---- together ---- */

/* Of each sequence: arithmetic alone. */
static void
find_arithmetic(struct bound *b, const struct space_plan *t,
		struct bound_pieces *us)
{
	const struct space_degrees *g = t->g;
	int64_t data = g->dp * g->ep;
	const struct bound_pieces *x =
		arithmetic(b, t->microbatch * data, g->tp * g->cp * data);
	int i;

	for (i = 0; i < PIECE_MAX; i++) {
		us->all[i] = x->all[i] / (double)t->microbatch;
		us->forward[i] = x->forward[i] / (double)t->microbatch;
	}
}

void
bound_find_pieces(struct bound *b, const struct piece_key *key,
		  const struct space_plan *t, double comm,
		  struct bound_pieces *us)
{
	const struct space_degrees *g = t->g;
	double tp = (double)g->tp, cp = (double)g->cp;

	find_arithmetic(b, t, us);
	/* each is divided by axes that may split the same values */
	add_axis(b, g, PLAN_TP, key->sequence, comm / cp, us);
	add_axis(b, g, PLAN_CP, false, comm / tp, us);
	add_axis(b, g, PLAN_EP, false, 1 / (tp * cp), us);
	us->whole_us = piece_sum(b->space, us->all, 0, b->space->nlayers);
}

/*
 * Whether t takes at least us if its parameters are on hosts: these kernels
 * forward, and what crosses their link backward.
 */
static bool
link_is_above(struct bound *b, const struct piece_key *key,
	      const struct space_plan *t, const struct bound_pieces *kernels,
	      double us)
{
	struct bound_pieces link;

	if (!(key->offload & PLAN_OFFLOAD_PARAMS) || !b->link) {
		return false;
	}
	bound_find_link(b, key, t, kernels, &link);
	return bound_line_is_above(b, t, &link, us);
}

bool
bound_is_above(struct bound *b, const struct piece_key *key,
		const struct space_plan *t, double us)
{
	double kernels_us = bound_kernels_us(b, key, t, us);
	struct bound_pieces pieces;

	if (kernels_us <= 0) {
		return true;
	}
	bound_find_pieces(b, key, t, 1, &pieces);
	return bound_line_is_above(b, t, &pieces, kernels_us) ||
	       link_is_above(b, key, t, &pieces, us);
}

double
bound_us(struct bound *b, const struct piece_key *key,
		const struct space_plan *t)
{
	struct bound_pieces pieces, link;
	double us;

	bound_find_pieces(b, key, t, 1, &pieces);
	us = bound_line_us(b, t, &pieces);
	us += bound_data_us(b, key, t, us);
	if (key->offload & PLAN_OFFLOAD_PARAMS && b->link) {
		bound_find_link(b, key, t, &pieces, &link);
		us = fmax(us, bound_line_us(b, t, &link));
	}
	return us;
}

double
bound_guess_us(struct bound *b, const struct piece_key *key,
		const struct space_plan *t)
{
	struct bound_pieces pieces;

	bound_find_pieces(b, key, t, 1 / shown(b), &pieces);
	return bound_line_us(b, t, &pieces);
}

/* ---- of a placement ---- */

/*
 * Adds what a layer's collectives add to a piece's kernels, which take at least
 * so long in a microbatch.  A piece may have more kernels than its layer: then
 * these count as if they could hide more.
 */
static double
shown_us(const struct bound *b, double kernels_us,
	 const struct price_least *colls, bool nests)
{
	struct pricing p = { .t = b->space->devs.at[0],
			     .traits = b->space->traits };
	struct price_least all = *colls;

	all.kernels_us += kernels_us;
	return price_least_us(&p, &all, nests ? PRICE_IN_NEST
					      : PRICE_IN_BODY) - kernels_us;
}

static void
add_colls(const struct bound *b, const struct space_plan *t, uint32_t piece,
	  const struct price_least layer[2], bool nests,
	  struct bound_pieces *us)
{
	double mb = (double)t->microbatch;
	double forward = mb * us->forward[piece];
	double back = mb * us->all[piece] - forward;

	forward = shown_us(b, forward, &layer[0], nests) / mb;
	us->forward[piece] += forward;
	us->all[piece] += forward + shown_us(b, back, &layer[1], nests) / mb;
}

bool
bound_find_placed(struct bound *b, const struct piece_key *key,
	    const struct space_plan *t, bool all, struct bound_pieces *us)
{
	uint32_t n = b->space->nkinds, i;
	struct piece_colls x;

	if (!piece_colls_least(b->pieces, key, t, all, &x)) {
		return false;
	}
	find_arithmetic(b, t, us);
	for (i = 0; i < n; i++) {
		add_colls(b, t, PIECE_BODY + i, x.layer[i], x.nests[i], us);
	}
	add_colls(b, t, PIECE_FIRST, x.layer[0], x.nests[0], us);
	add_colls(b, t, PIECE_LAST, x.layer[n - 1], x.nests[n - 1], us);
	us->whole_us = piece_sum(b->space, us->all, 0, b->space->nlayers);
	return true;
}

bool
bound_placed_is_above(struct bound *b, const struct piece_key *key,
		      const struct space_plan *t, double us)
{
	struct bound_pieces pieces;

	if (!isfinite(us) ||
	    !bound_find_placed(b, key, t, false, &pieces)) {
		return false;
	}
	return bound_line_is_above(b, t, &pieces,
				   bound_kernels_us(b, key, t, us)) ||
	       link_is_above(b, key, t, &pieces, us) ||
	       (key->zero > 1 &&
		bound_find_placed(b, key, t, true, &pieces) &&
		bound_line_is_above(b, t, &pieces,
				    us - bound_once_us(b, key, t)));
}
