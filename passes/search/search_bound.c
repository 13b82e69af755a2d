/*
 * Lower bounds of a step before anything is placed, by which shardings are
 * left out.  Both bounds are of one microbatch in each piece, and search_line.c
 * makes a bound of a pipeline of them.
 *
 * The first is arithmetic: what the contractions and attention of all data
 * ranks take, divided evenly among all ranks of a stage.  Proof: a kernel's
 * price is min over tiles of waves of tiles, or the bytes of its operands, the
 * larger, and a launch (cost_kernel.c).  If a dim is split in f equal parts,
 * f times the tiles, waves, steps and bytes of a part are no less than those
 * of the whole, since f * ceil(x / f) >= ceil(x) for a whole f; and dims are
 * split by lengths of axes only.  So a part takes at least 1/f of the whole
 * without its launch, and a launch; and the fullest rank has at least the mean.
 * Recomputing, copies and code in parts only add work.  Attention that is split
 * by heads, batch or queries is bounded in the same way (a part of causal
 * queries sees at least as many keys for each).
 *
 * The second, place_bound, is what collectives must move.
 */
#include "passes/place/place_bound.h"
#include "passes/search/search_parts.h"

#include <math.h>
#include <string.h>

/* ---- the work ---- */

/* A contraction or attention of an unsplit program, for one sequence. */
struct search_work {
	uint32_t piece, kind;
	double times;		/* in one run of the piece */
	bool attends, backward;
	struct cost_contraction dot;
	/* which sizes of `dot` grow with the number of sequences */
	bool m, n, k, batch;
	struct cost_attention pairs;
};

static struct cost_contraction
dot_of(const struct pricing *p, const struct kernel *k)
{
	const struct kernel_dot *d = &k->work->dot;

	return (struct cost_contraction){
		.m = d->m, .n = d->n, .k = d->k, .batch = d->batch,
		.rate = price_dot_rate(p, k)
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
add_work(struct search *s, const struct pricing *p, const struct kernel *one,
	 const struct kernel *two, struct place_in at)
{
	const struct kernel_dot *a = &one->work->dot, *b = &two->work->dot;
	struct search_work w = { at.piece, at.kind, .times = at.times };

	if (one->kind == KERNEL_ATTENTION) {
		w.attends = true;
		w.backward = at.kind != SCHED_F;
		w.pairs = pairs_of(p, one);
	} else {
		w.dot = dot_of(p, one);
		w.m = b->m > a->m;
		w.n = b->n > a->n;
		w.k = b->k > a->k;
		w.batch = b->batch > a->batch;
		/* rows choose their matrix: they are spread evenly */
		w.dot.batch *= a->groups;
		w.dot.k /= w.k ? a->groups : 1;
		w.dot.m /= w.k ? 1 : a->groups;
	}
	VEC_PUSH(&s->keep, &s->work, w);
}

static void
add_list(struct search *s, const struct pricing *p,
	 const struct kernel_list *one, const struct kernel_list *two,
	 struct place_in at)
{
	uint32_t i;

	for (i = 0; i < one->at.n && one->at.n == two->at.n; i++) {
		const struct kernel *k = &one->at.at[i];
		struct place_in inner = at;

		if (k->body) {
			inner.times *= (double)k->body->count;
			add_list(s, p, k->body, two->at.at[i].body, inner);
		} else if (k->kind == KERNEL_CONTRACTION ||
			   (k->kind == KERNEL_ATTENTION &&
			    !p->traits->unfused)) {
			add_work(s, p, k, &two->at.at[i], at);
		}
	}
}

/*
 * Finds the work of each piece, from a program that no axis splits.  Where that
 * cannot be placed, nothing is bounded.
 */
void
search_find_work(struct search *s)
{
	struct search_group g = { .used = 1, .tp = 1, .cp = 1, .ep = 1,
				  .pp = 1, .dp = 1 };
	struct search_try t = {
		.g = &g, .microbatch = 1, .nmicrobatches = s->batch,
		.chunks = 1, .sched = sched_find("1f1b")
	};
	struct search_key key = { .tp = 1, .cp = 1, .ep = 1, .sequence = true,
				  .solo = s->nlayers < 2 };
	struct search_unsplit u;
	uint32_t i, k;

	if (!search_open_unsplit(s, &key, &t, &u)) {
		return;
	}
	s->ties = u.weights > s->static_bytes[0] * (1 + SEARCH_NEAR) +
			      MEMORY_ALIGN * (double)s->nlayers;
	for (i = 0; i < u.nstages; i++) {
		double n = u.piece[i] >= PIECE_BODY ? u.iterations[i] : 1;

		for (k = 0; k < SCHED_NKINDS; k++) {
			func_id f = u.of_stage[i][k];
			struct place_in at = { u.piece[i], k, 1 / n };

			if (f) {
				add_list(s, &u.at, u.one[f]->top,
					 u.two[f]->top, at);
			}
		}
	}
	arena_release(&s->tmp);
}

/* ---- arithmetic ---- */

/* The price for so many sequences, without the launch. */
static double
whole_us(const struct target_device *d, const struct search_work *w,
	 double sequences)
{
	struct cost_contraction x = w->dot;
	struct cost_attention a = w->pairs;
	struct cost c;

	if (w->attends) {
		a.batch *= sequences;
		c = w->backward ? cost_attention_backward(d, &a)
				: cost_attention(d, &a);
	} else {
		x.m *= w->m ? sequences : 1;
		x.n *= w->n ? sequences : 1;
		x.k *= w->k ? sequences : 1;
		x.batch *= w->batch ? sequences : 1;
		c = cost_contraction(d, &x);
	}
	return c.us - c.launch_us;
}

static double
least_us(const struct search *s, const struct search_work *w,
	 double sequences, double ranks)
{
	double us = INFINITY;
	uint32_t i;

	for (i = 0; i < s->ngroups; i++) {
		const struct target_device *d = &s->devs.at[i]->device;

		us = fmin(us, whole_us(d, w, sequences) / ranks +
			      d->launch_us);
	}
	return us;
}

/* Of the pieces, one microbatch of that many sequences on that many ranks. */
static const struct search_pieces *
arithmetic(struct search *s, int64_t sequences, int64_t ranks)
{
	struct search_arithmetic *x;
	uint32_t i;

	for (i = 0; i < s->arithmetic.n; i++) {
		x = s->arithmetic.at[i];
		if (x->sequences == sequences && x->ranks == ranks) {
			return &x->us;
		}
	}
	x = arena_alloc(&s->keep, sizeof *x);
	x->sequences = sequences;
	x->ranks = ranks;
	for (i = 0; i < s->work.n; i++) {
		const struct search_work *w = &s->work.at[i];
		double us = w->times * least_us(s, w, (double)sequences,
						(double)ranks);

		x->us.all[w->piece] += us;
		x->us.forward[w->piece] += w->kind == SCHED_F ? us : 0;
	}
	VEC_PUSH(&s->keep, &s->arithmetic, x);
	return &x->us;
}

/* ---- communication ---- */

static void
count_region(const struct ir_module *m, region_id r, bool *counted)
{
	uint32_t i;

	counted[r] = true;
	for (i = 0; i < m->regions.at[r].nodes.n; i++) {
		const struct ir_node *n = ir_node(m, m->regions.at[r]
						     .nodes.at[i]);

		if (n->region) {
			count_region(m, n->region, counted);
		}
	}
}

/*
 * Sets the regions of a kind of layer: the repeat of that number forward, and
 * its own backward, which comes in the opposite order.  False: backward has
 * another number of repeats.
 */
static bool
count_kind(const struct search *s, const struct ir_module *m, uint32_t kind,
	   bool *counted)
{
	const struct ir_region *r =
		&m->regions.at[m->funcs.at[ir_model(m)].body];
	uint32_t i, forward = 0, back = 0;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		if (!ir_is(n->op, IRF_REGION)) {
			continue;
		}
		if (ir_attr(m, n, IR_ATTR_REVERSE)) {
			if (s->nkinds - 1 - back++ == kind) {
				count_region(m, n->region, counted);
			}
		} else if (n->nresults && forward++ == kind) {
			count_region(m, n->region, counted);
		}
	}
	return back == s->nkinds;
}

static double
shown(const struct search *s)
{
	return target_is_cpu(&s->t->device) ? 1
		: s->o->traits.overlap_tensor ? fmin(PRICE_SLOWED, 0.25)
		: PRICE_SLOWED;
}

/* Devices between neighbours along an axis, by tp, cp and ep alone. */
static int64_t
apart_along(const struct search *s, const struct search_group *g,
	    enum plan_axis axis)
{
	const int64_t degree[PLAN_NAXES] = {
		[PLAN_PP] = 1, [PLAN_DP] = 1, [PLAN_EP] = g->ep,
		[PLAN_CP] = g->cp, [PLAN_TP] = g->tp
	};
	int64_t apart = 1;
	int i;

	for (i = PLAN_NAXES; s->base.mesh[i - 1] != axis; i--) {
		apart *= degree[s->base.mesh[i - 1]];
	}
	return apart;
}

static void
bound_axis(struct search *s, const struct search_group *g,
	   struct search_axis_bound *x)
{
	struct ir_module *m = search_ready(s);
	struct plan plan = s->base;
	uint32_t i;

	/* with several kinds of node, or little to spend, it counts nothing */
	if (!m || s->devs.n > 1 || s->o->effort) {
		return;
	}
	plan.tp = g->tp;
	plan.cp = g->cp;
	plan.ep = g->ep;
	plan.dp = plan.pp = plan.microbatch = plan.nmicrobatches = 1;
	plan.sequence = x->sequence;
	plan.zero = 0;
	for (i = 0; i < s->nkinds; i++) {
		bool *counted = arena_alloc(&s->keep, m->regions.n);
		struct pass_ctx p = { .ctx = m->ctx, .stats = &s->stats,
				      .cluster = s->o->target,
				      .memo = s->memo };

		if (x->axis == PLAN_EP && !s->kinds[i].experts) {
			continue;	/* its ranks are data ranks there */
		}
		x->us[i] = count_kind(s, m, i, counted)
			? place_bound(&p, m, &plan, x->axis, counted,
				      shown(s)) /
			  (double)s->kinds[i].iterations : 0;
	}
}

/*
 * What one axis adds to each layer of each kind, for one sequence of all its
 * ranks together.
 */
static const struct search_axis_bound *
axis_bound(struct search *s, const struct search_group *g,
	   enum plan_axis axis, int64_t n, bool sequence)
{
	struct search_axis_bound *x, key = {
		.axis = axis, .n = n, .apart = apart_along(s, g, axis),
		.sequence = sequence
	};
	uint32_t i;

	for (i = 0; i < s->axis_bounds.n; i++) {
		x = s->axis_bounds.at[i];
		if (x->axis == axis && x->n == n && x->apart == key.apart &&
		    x->sequence == sequence) {
			return x;
		}
	}
	x = arena_alloc(&s->keep, sizeof *x);
	*x = key;
	bound_axis(s, g, x);
	VEC_PUSH(&s->keep, &s->axis_bounds, x);
	return x;
}

/*
 * Adds a part of what an axis adds.  Each rank of ep has sequences of its own.
 */
static void
add_axis(struct search *s, const struct search_group *g, enum plan_axis axis,
	 bool sequence, double part, struct search_pieces *us)
{
	int64_t n = axis == PLAN_TP ? g->tp : axis == PLAN_CP ? g->cp : g->ep;
	const struct search_axis_bound *x;
	uint32_t i;

	if (n == 1) {
		return;
	}
	x = axis_bound(s, g, axis, n, sequence);
	for (i = 0; i < s->nkinds; i++) {
		double more = x->us[i] * part *
			      (axis == PLAN_EP ? (double)n : 1);

		us->all[PIECE_BODY + i] += more;
		us->all[PIECE_FIRST] += i == 0 ? more : 0;
		us->all[PIECE_LAST] += i + 1 == s->nkinds ? more : 0;
	}
}

/* ---- together ---- */

/*
 * The least time of each piece, for one sequence; communication is multiplied
 * by `comm`.
 */
static void
find_pieces(struct search *s, const struct search_key *key,
	    const struct search_try *t, double comm, struct search_pieces *us)
{
	const struct search_group *g = t->g;
	int64_t data = g->dp * g->ep;
	const struct search_pieces *x =
		arithmetic(s, t->microbatch * data, g->tp * g->cp * data);
	double tp = (double)g->tp, cp = (double)g->cp;
	int i;

	for (i = 0; i < PIECE_MAX; i++) {
		us->all[i] = x->all[i] / (double)t->microbatch;
		us->forward[i] = x->forward[i] / (double)t->microbatch;
	}
	/* each is divided by axes that may split the same values */
	add_axis(s, g, PLAN_TP, key->sequence, comm / cp, us);
	add_axis(s, g, PLAN_CP, false, comm / tp, us);
	add_axis(s, g, PLAN_EP, false, comm / (tp * cp), us);
}

void
search_least_pieces(struct search *s, const struct search_key *key,
		    const struct search_try *t, struct search_pieces *us)
{
	find_pieces(s, key, t, 1, us);
}

static double
line_us(struct search *s, const struct search_key *key,
	const struct search_try *t, double comm)
{
	struct search_pieces us;
	struct search_line x;

	find_pieces(s, key, t, comm, &us);
	search_set_line(s, &us, &x);
	return search_line_us(s, t, &x);
}

bool
search_is_above(struct search *s, const struct search_key *key,
		const struct search_try *t, double us)
{
	struct search_pieces pieces;
	struct search_line x;

	us = search_kernels_us(s, key, t, us);
	if (us <= 0) {
		return true;
	}
	find_pieces(s, key, t, 1, &pieces);
	search_set_line(s, &pieces, &x);
	return search_line_is_above(s, t, &x, us);
}

double
search_bound_us(struct search *s, const struct search_key *key,
		const struct search_try *t)
{
	double us = line_us(s, key, t, 1);

	return us + search_data_us(s, key, t, us);
}

double
search_guess_us(struct search *s, const struct search_key *key,
		const struct search_try *t)
{
	return line_us(s, key, t, 1 / shown(s));
}
