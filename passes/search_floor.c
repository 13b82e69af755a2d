/*
 * A floor under a width: what its work takes if every contraction ran at the
 * device's best rate, every map at the memory's and every collective at the
 * link's, without launches.  It does not depend on ZeRO, dp, schedule or
 * microbatch, so the first width that is priced gives it for all others of
 * its degrees, before these are placed.  What was priced gives a higher one
 * for wider widths at that microbatch, by the rules of docs/search.md.
 */
#include "passes/search_parts.h"

#include <math.h>

#define BEST_MAP 1.12	/* of the memory's rate: docs/cost.md */

static double
contraction_us(const struct search *s, const struct kernel *k)
{
	const struct target_device *d = &s->t->device;
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
attention_us(const struct search *s, const struct kernel *k)
{
	const struct target_device *d = &s->t->device;
	const struct kernel_attention *a = &k->attention;

	return a->pairs * (a->d + a->v) / search_float_rate(d) /
	       fmax(d->attention_eff, d->matrix_eff);
}

/* All of it may go on beside contractions, but for what shows of that. */
static double
talk_us(const struct search *s, const struct ranks *r, const struct kernel *k)
{
	const struct target_device *d = &s->t->device;
	double n = ranks_group_size(r, k->talk.axes);
	double link = fmax(d->link_bytes_us, d->bridge_bytes_us);

	return link > 0 ? PRICE_SLOWED * k->talk.bytes * (n - 1) / n / link
			: 0;
}

static double
kernel_us(const struct search *s, const struct ranks *r,
	  const struct kernel *k, uint32_t data)
{
	const struct target_device *d = &s->t->device;
	double us = k->talk.axes && !(k->talk.axes & data)
		? talk_us(s, r, k) : 0;

	switch (k->kind) {
	case KERNEL_CONTRACTION:
		return us + contraction_us(s, k);
	case KERNEL_ATTENTION:
		return us + attention_us(s, k);
	case KERNEL_MAP:
	case KERNEL_ROWWISE:
		return us + (k->read_bytes + k->write_bytes) /
			    (d->memory_bytes_us * d->memory_eff * BEST_MAP);
	default:
		return us;
	}
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

/* Pieces have one layer at least; layers of the last piece are alike. */
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
	for (i = 0; i < w->on->nstages; i++) {
		double us = 0;

		for (k = 0; k < SCHED_NKINDS; k++) {
			func_id id = w->r.of_stage[i][k];

			us += id ? list_us(s, &w->r, kernels->of[id]->top,
					   dp ? 1u << dp : 0) : 0;
		}
		us /= (double)kernels->size;
		f->all_us += us;
		f->layer_us = fmax(f->layer_us,
				   us / (double)w->on->trips[i]);
	}
	VEC_PUSH(&s->keep, &s->floors, f);
}

/* ---- from widths that were priced ---- */

/*
 * Splitting further makes kernels smaller, not better, and adds what is
 * exchanged: so all ranks of a wider width together take no less than those
 * of a narrower one.  Solvers choose among equals, hence the slack.
 */
#define SHARE 0.97
#define TALK 0.85	/* of what tensor ranks exchange with another ep */

static const struct search_known *
known(const struct search *s, int64_t tp, int64_t cp, int64_t ep, int64_t mb)
{
	uint32_t i;

	for (i = 0; i < s->known.n; i++) {
		const struct search_known *k = &s->known.at[i];

		if (k->tp == tp && k->cp == cp && k->ep == ep &&
		    k->microbatch == mb) {
			return k;
		}
	}
	return NULL;
}

/* Of talk in a layer, what goes on beside its kernels. */
static double
hidden_us(const struct price_func *f)
{
	return f->beside_us * (1 - PRICE_SLOWED);
}

void
search_add_known(struct search *s, const struct search_width *w,
		 const struct search_cost *c)
{
	struct search_known k = { w->key.tp, w->key.cp, w->key.ep,
				  c->microbatch, 0, 0, 0 };
	double n = (double)c->microbatch;
	uint32_t i, j;

	if (w->key.choice || w->key.split ||
	    known(s, k.tp, k.cp, k.ep, k.microbatch)) {
		return;
	}
	for (i = 0; i < w->on->nstages; i++) {
		uint32_t p = w->on->piece_of[i];
		double us = 0;

		for (j = 0; j < SCHED_NKINDS; j++) {
			const struct price_func *f = &c->fn[p][j];

			us += f->total_us - f->data_us - hidden_us(f);
			k.tensor_us += fmax(f->tensor_us - hidden_us(f), 0) /
				       n * (p < PIECE_BODY ? 1
					    : (double)w->on->trips[i]);
		}
		k.layer_us = fmax(k.layer_us, us / n);
		k.all_us += us / n * (p < PIECE_BODY ? 1
				      : (double)w->on->trips[i]);
	}
	if (s->o->traits.overlap_tensor) {
		k.all_us -= k.tensor_us;
		k.layer_us -= k.tensor_us;
		k.tensor_us = 0;
	}
	VEC_PUSH(&s->keep, &s->known, k);
}

/* What tensor ranks exchange at the least, per sequence. */
static double
least_talk(const struct search *s, const struct search_key *key)
{
	double least = INFINITY;
	uint32_t i;

	for (i = 0; i < s->known.n; i++) {
		const struct search_known *k = &s->known.at[i];

		if (k->tp == key->tp && k->cp <= key->cp &&
		    (k->ep > 1) == (key->ep > 1)) {
			least = fmin(least, k->tensor_us * (double)k->cp /
				     (double)key->cp);
		}
	}
	return isfinite(least) ? TALK * least : 0;
}

/* The most that any width says which is no wider. */
static void
from_known(const struct search *s, const struct search_key *key,
	   int64_t microbatch, struct search_floor *f)
{
	uint32_t i;

	for (i = 0; i < s->known.n; i++) {
		const struct search_known *k = &s->known.at[i];
		double part = (double)(k->tp * k->cp) /
			      (double)(key->tp * key->cp) * SHARE, talk;

		if (k->microbatch != microbatch || k->ep != key->ep ||
		    key->tp % k->tp || key->cp % k->cp) {
			continue;
		}
		talk = k->tp == 1 && key->tp > 1 ? least_talk(s, key) : 0;
		if (k->all_us * part + talk > f->all_us) {
			f->all_us = k->all_us * part + talk;
			f->layer_us = k->layer_us * part + talk;
		}
	}
}

/* ---- what data ranks exchange ---- */

/* As one message, among n ranks of which `apart` devices is one. */
static double
exchange_us(const struct search *s, enum cost_op op, int64_t n,
	    int64_t apart, double bytes)
{
	int64_t each = apart < s->t->devices ? s->t->devices / apart : 1;
	struct cost_group g = { .per_node = (uint32_t)(n < each ? n : each) };

	if (n <= 1 || s->o->traits.overlap_data) {
		return 0;
	}
	g.nodes = (uint32_t)(n / g.per_node + (n % g.per_node != 0));
	g.sharing = g.nodes > 1 ? (uint32_t)s->t->devices / g.per_node : 1;
	g.sharing = g.sharing ? g.sharing : 1;
	return cost_collective(s->t, op, &g, bytes, NULL).us;
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
 * The busiest rank has its share of all work at the least, but for layers
 * that do not divide; before its first forward and behind its last backward
 * each other rank has a stage to run, of which a split backward may leave a
 * third.
 */
double
search_floor_us(const struct search *s, const struct search_key *key,
		const struct search_try *t)
{
	const struct search_floor *best = find(s, key);
	struct search_floor f = { 0 };
	double pp = (double)t->g->pp, v = (double)t->chunks, m, all, layer;
	double wait;

	if (best) {
		f = *best;
	}
	from_known(s, key, t->microbatch, &f);
	m = (double)t->nmicrobatches;
	all = f.all_us * (double)t->microbatch / pp;
	layer = f.layer_us * (double)t->microbatch;
	wait = (pp - 1) * fmax(all / v - layer, 0) *
	       (t->sched->split ? 0.25 : 1);
	return data_us(key, t) +
	       fmax(m * all, m * fmax(all - v * layer, 0) + wait);
}
