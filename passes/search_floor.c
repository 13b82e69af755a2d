/*
 * A floor under a width: what its work takes if every contraction ran at the
 * device's best rate, every map at the memory's and every collective at the
 * link's, without launches.  It does not depend on ZeRO, dp, schedule or
 * microbatch, so the first width that is priced gives it for all others of
 * its degrees, before these are placed.  What was priced gives a higher one
 * at that microbatch: for wider widths, and for those whose placement is the
 * same but for the lengths of its axes, by the rules of docs/search.md.
 */
#include "passes/search_parts.h"

#include <math.h>

#define BEST_MAP 1.12	/* of the memory's rate: docs/cost.md */

static double
contraction_us(const struct target_device *d, const struct kernel *k)
{
	double rate = 0;
	int i;

	for (i = 0; i < TARGET_NRATES; i++) {
		rate = fmax(rate, d->flops_us[i]);
	}
	return 2 * k->dot.batch * k->dot.m * k->dot.n * k->dot.k / rate /
	       fmax(d->matrix_eff, 1e-3);
}

/* Two products of each pair of query and key, half of them masked. */
static double
attention_us(const struct target_device *d, const struct kernel *k)
{
	const struct kernel_attention *a = &k->attention;

	return a->pairs * (a->d + a->v) / search_float_rate(d) /
	       fmax(d->attention_eff, d->matrix_eff);
}

/* All of it may go on beside contractions, but for what shows of that. */
static double
talk_us(const struct target_device *d, const struct ranks *r,
	const struct kernel *k)
{
	double n = ranks_group_size(r, k->talk.axes);
	double link = fmax(d->link_bytes_us, d->bridge_bytes_us);

	return link > 0 ? PRICE_SLOWED * k->talk.bytes * (n - 1) / n / link
			: 0;
}

static double
device_us(const struct target_device *d, const struct ranks *r,
	  const struct kernel *k, uint32_t data)
{
	double us = k->talk.axes && !(k->talk.axes & data)
		? talk_us(d, r, k) : 0;

	switch (k->kind) {
	case KERNEL_CONTRACTION:
		return us + contraction_us(d, k);
	case KERNEL_ATTENTION:
		return us + attention_us(d, k);
	case KERNEL_MAP:
	case KERNEL_ROWWISE:
		return us + (k->read_bytes + k->write_bytes) /
			    (d->memory_bytes_us * d->memory_eff * BEST_MAP);
	default:
		return us;
	}
}

/* On the quickest group. */
static double
kernel_us(const struct search *s, const struct ranks *r,
	  const struct kernel *k, uint32_t data)
{
	double us = INFINITY;
	uint32_t i;

	for (i = 0; i < s->ngroups; i++) {
		us = fmin(us, device_us(&s->seats.at[i]->device, r, k, data));
	}
	return us;
}

static double
list_us(const struct search *s, const struct ranks *r,
	const struct kernel_list *l, uint32_t data)
{
	double us = 0;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		us += l->at.at[i].body
			? list_us(s, r, l->at.at[i].body, data)
			: kernel_us(s, r, &l->at.at[i], data);
	}
	return us * (double)l->count;
}

static struct search_floor *
find(const struct search *s, const struct search_key *key)
{
	uint32_t i;

	for (i = 0; i < s->floors.n; i++) {
		struct search_floor *f = s->floors.at[i];

		if (f->tp == key->tp && f->cp == key->cp &&
		    f->ep == key->ep && f->sequence == key->sequence) {
			return f;
		}
	}
	return NULL;
}

/* Pieces have one layer at least, and all layers are in some piece. */
void
search_add_floor(struct search *s, const struct search_width *w,
		 const struct search_kernels *kernels)
{
	struct ir_module *m = w->m;
	axis_id dp = ir_axis_find(m, intern_str(&m->ctx->syms, "dp"));
	struct search_floor *f;
	uint32_t i, k;

	if (find(s, &w->key) || w->key.choice) {
		return;
	}
	f = arena_alloc(&s->keep, sizeof *f);
	f->tp = w->key.tp;
	f->cp = w->key.cp;
	f->ep = w->key.ep;
	f->sequence = w->key.sequence;
	f->layer_us = INFINITY;
	f->forward = 1;
	for (i = 0; i < w->on->nstages; i++) {
		double us = 0, forward = 0;

		for (k = 0; k < SCHED_NKINDS; k++) {
			func_id id = w->r.of_stage[i][k];

			us += id ? list_us(s, &w->r, kernels->of[id]->top,
					   dp ? 1u << dp : 0) : 0;
			forward = k == SCHED_F ? us : forward;
		}
		f->forward = us > 0 ? fmin(f->forward, forward / us) : 0;
		us /= (double)kernels->size;
		f->all_us += us;
		if (w->on->trips[i] > 0) {
			f->layer_us = fmin(f->layer_us, us /
					   (double)w->on->trips[i]);
		}
	}
	if (s->nlayers == 0) {
		f->layer_us = 0;
	}
	VEC_PUSH(&s->keep, &s->floors, f);
}

/* ---- from widths that were priced ---- */

/*
 * What was priced at other lengths of its axes is not the width's own
 * placement, which may be better.  Where both were priced, for llama-3-8b and
 * mixtral on clusters of H100 and RTX 4090, the own one took 0.974 of it at
 * the least, and in most cases all of it; its forward's part 0.957.
 */
#define SHARE 0.96
#define FORWARD 0.9

/*
 * ZeRO 0 and 1, with and without data ranks, differ in the update and in what
 * these exchange, which is no part of it.
 */
bool
search_same_stages(const struct search_key *a, const struct search_key *b)
{
	return (a->sequence == b->sequence || a->tp == 1) &&
	       a->solo == b->solo &&
	       (a->zero > 1 ? a->zero : 0) == (b->zero > 1 ? b->zero : 0);
}

/* dp, if that moves other axes' ranks apart; 0: they are inside of it. */
static int64_t
apart(const struct search *s, int64_t dp)
{
	const enum plan_axis *mesh = s->base.mesh;
	bool outside = false;
	int i;

	for (i = 0; i < PLAN_NAXES && mesh[i] != PLAN_DP; i++) {
		outside |= mesh[i] != PLAN_PP;
	}
	return outside ? dp : 0;
}

static struct search_known *
known(const struct search *s, const struct search_key *key, int64_t dp,
      int64_t microbatch)
{
	int64_t far = apart(s, dp);
	uint32_t i;

	for (i = 0; i < s->known.n; i++) {
		struct search_known *k = &s->known.at[i];

		if (k->microbatch == microbatch && k->apart == far &&
		    k->key.tp == key->tp && k->key.cp == key->cp &&
		    k->key.ep == key->ep &&
		    search_same_stages(&k->key, key)) {
			return k;
		}
	}
	return NULL;
}

/* Of talk, what may go on beside kernels. */
static double
hidden_us(const struct search *s, const struct price_func *f)
{
	double us = f->beside_us * (1 - PRICE_SLOWED);

	return s->o->traits.overlap_tensor ? fmax(us, f->tensor_us) : us;
}

bool
search_is_known(const struct search *s, const struct search_key *key,
		const struct search_try *t)
{
	return known(s, key, t->g->dp, t->microbatch) != NULL;
}

/* Of one piece on the quickest group; forward's part, the least of any. */
static double
piece_us(const struct search *s, const struct search_cost *c, uint32_t piece,
	 double *forward)
{
	double least = INFINITY;
	uint32_t i, j;

	for (i = 0; i < s->ngroups; i++) {
		double us[SCHED_NKINDS], all = 0;

		for (j = 0; j < SCHED_NKINDS; j++) {
			const struct price_func *x = &c->on[i]->fn[piece][j];

			us[j] = x->total_us - x->data_us -
				hidden_us(s, x);
			all += us[j];
		}
		*forward = all > 0 ? fmin(*forward, us[SCHED_F] / all) : 0;
		least = fmin(least, all);
	}
	return least;
}

/* Of all pieces, of one sequence. */
static void
add_pieces(const struct search *s, const struct search_width *w,
	   const struct search_cost *c, struct search_floor *f)
{
	double n = (double)c->microbatch;
	uint32_t i;

	for (i = 0; i < w->on->nstages; i++) {
		uint32_t p = w->on->piece_of[i];
		double all = piece_us(s, c, p, &f->forward);

		f->layer_us = fmin(f->layer_us, all / n);
		f->all_us += all / n * (p < PIECE_BODY ? 1
					: (double)w->on->trips[i]);
	}
}

void
search_add_known(struct search *s, const struct search_width *w,
		 const struct search_key *key, const struct search_cost *c)
{
	struct search_known *old = known(s, key, c->dp, c->microbatch);
	struct search_known k = {
		.key = *key, .apart = apart(s, c->dp),
		.microbatch = c->microbatch,
		.guess = w->key.tp != key->tp || w->key.cp != key->cp ||
			 w->key.ep != key->ep,
		.floor = { .layer_us = INFINITY, .forward = 1 }
	};

	if (w->key.choice || w->key.split || (old && !old->guess)) {
		return;
	}
	add_pieces(s, w, c, &k.floor);
	if (old) {
		*old = k;
	} else {
		VEC_PUSH(&s->keep, &s->known, k);
	}
}

/*
 * Splitting further makes kernels smaller, not better, and adds what is
 * exchanged: so all ranks of a wider width together take no less than those
 * of a narrower one.
 */
bool
search_is_no_wider(const struct search_key *a, const struct search_key *b)
{
	return a->ep == b->ep && b->tp % a->tp == 0 && b->cp % a->cp == 0 &&
	       search_same_stages(a, b);
}

/* The most that any of them says. */
static void
from_known(const struct search *s, const struct search_key *key,
	   const struct search_try *t, struct search_floor *f)
{
	int64_t far = apart(s, t->g->dp);
	uint32_t i;

	for (i = 0; i < s->known.n; i++) {
		const struct search_known *k = &s->known.at[i];
		double share = (double)(k->key.tp * k->key.cp) /
			       (double)(key->tp * key->cp);
		bool own = !k->guess && share >= 1 &&
			   k->key.zero == key->zero;

		share *= own ? 1 : SHARE;
		if (k->microbatch != t->microbatch || k->apart != far ||
		    k->floor.all_us * share <= f->all_us ||
		    !search_is_no_wider(&k->key, key)) {
			continue;
		}
		f->all_us = k->floor.all_us * share;
		f->layer_us = k->floor.layer_us * share;
		f->forward = k->floor.forward * (own ? 1 : FORWARD);
	}
}

/* ---- what data ranks exchange ---- */

/* As one message, among n ranks of which `apart` devices is one. */
static double
exchange_on(const struct target_group *t, enum cost_op op, int64_t n,
	    int64_t apart, double bytes)
{
	int64_t each = apart < t->devices ? t->devices / apart : 1;
	struct cost_group g = { .per_node = (uint32_t)(n < each ? n : each) };

	g.nodes = (uint32_t)(n / g.per_node + (n % g.per_node != 0));
	g.sharing = g.nodes > 1 ? (uint32_t)t->devices / g.per_node : 1;
	g.sharing = g.sharing ? g.sharing : 1;
	return cost_collective(t, op, &g, bytes, NULL).us;
}

/* Within the quickest group. */
static double
exchange_us(const struct search *s, enum cost_op op, int64_t n,
	    int64_t apart, double bytes)
{
	double us = INFINITY;
	uint32_t i;

	if (n <= 1 || s->o->traits.overlap_data) {
		return 0;
	}
	for (i = 0; i < s->ngroups; i++) {
		us = fmin(us, exchange_on(s->seats.at[i], op, n, apart,
					  bytes));
	}
	return us;
}

/*
 * A mean rank's weights: those of experts among its dp and cp, all others
 * among its ep, too.
 */
static double
weights_us(const struct search *s, const struct search_group *g,
	   enum cost_op op)
{
	double all = fmin(s->static_bytes[0], s->static_bytes[1]) /
		     (double)(g->tp * g->pp);
	double experts = all * s->expert_part / (double)g->ep;
	int64_t n = g->dp * g->cp;

	return exchange_us(s, op, n * g->ep, g->tp,
			   all * (1 - s->expert_part)) +
	       exchange_us(s, op, n, g->tp * (g->cp > 1 ? 1 : g->ep),
			   experts);
}

/* Gradients are summed and stay so, or are cut and weights gathered. */
void
search_set_exchange(const struct search *s, struct search_group *g)
{
	double both = weights_us(s, g, COST_ALL_REDUCE);

	g->sum_us = weights_us(s, g, COST_REDUCE_SCATTER);
	g->gather_us = weights_us(s, g, COST_ALL_GATHER);
	if (both < g->sum_us + g->gather_us) {
		g->gather_us = fmax(both - g->sum_us, 0);
	}
}

/*
 * ZeRO cuts gradients in every microbatch, and gathers weights in each: that
 * may go on beside kernels, all but what shows of it.
 */
static double
data_us(const struct search_key *key, const struct search_try *t)
{
	double n = (double)t->nmicrobatches * PRICE_SLOWED;

	return t->g->sum_us * (key->zero > 1 ? n : 1) +
	       t->g->gather_us * (key->zero > 2 ? n : 1);
}

/*
 * With T for the time from the first forward to the last backward, m
 * microbatches and x_r what rank r takes for each, T >= m x_r + a (x_0 + ..
 * + x_r-1): before its first forward and behind its last backward the others
 * have theirs to run, of which a split backward leaves what is a forward.
 * However all work A is spread, T is least where all these are equal: x_r =
 * T/m (1 - a/m)^r, whose sum is A.  Stages have so many layers at the least,
 * which says the same of the last rank.
 */
static double
pipeline_us(const struct search *s, const struct search_try *t,
	    const struct search_floor *f)
{
	double pp = (double)t->g->pp, v = (double)t->chunks;
	double m = (double)t->nmicrobatches;
	double a = t->sched->split ? f->forward : 1;
	/* with several stages a rank, layers are spread evenly, unless
	 * some ranks are quicker than others */
	double layers = t->chunks > 1 && s->seats.n == 1
		? floor((double)s->nlayers / (pp * v)) : 1;
	double least = fmax(m * f->all_us / pp,
			    (m * v + a * (pp - 1)) * layers * f->layer_us);

	return (double)t->microbatch * (t->chunks > 1 || !(a > 0) ? least
		: fmax(least, a * f->all_us / (1 - pow(1 - a / m, pp))));
}

double
search_sure_us(const struct search *s, const struct search_key *key,
	       const struct search_try *t)
{
	static const struct search_floor none;
	const struct search_floor *f = find(s, key);

	return data_us(key, t) + pipeline_us(s, t, f ? f : &none);
}

double
search_floor_us(const struct search *s, const struct search_key *key,
		const struct search_try *t)
{
	struct search_floor f = { 0 };

	from_known(s, key, t, &f);
	return data_us(key, t) + pipeline_us(s, t, &f);
}
