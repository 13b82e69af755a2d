/*
 * A floor under a width: what its work takes if every contraction ran at the
 * device's best rate, every map at the memory's and every collective at the
 * link's, without launches.  It does not depend on ZeRO, dp, schedule or
 * microbatch, so the first width that is priced gives it for all others of
 * its degrees, before these are placed.
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

	return a->pairs * (a->d + a->v) / d->flops_us[TARGET_BF16] /
	       fmax(d->attention_eff, d->matrix_eff);
}

static double
talk_us(const struct search *s, const struct ranks *r, const struct kernel *k)
{
	const struct target_device *d = &s->t->device;
	double n = ranks_group_size(r, k->talk.axes);
	double link = fmax(d->link_bytes_us, d->bridge_bytes_us);

	return link > 0 ? k->talk.bytes * (n - 1) / n / link : 0;
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

/*
 * The busiest rank has its share of all work at the least, but for layers
 * that do not divide; before its first forward and behind its last backward
 * each other rank has a stage to run, of which a split backward may leave a
 * third.  0: the floor is not known yet.
 */
double
search_floor_us(const struct search *s, const struct search_key *key,
		const struct search_try *t)
{
	const struct search_floor *f = find(s, key);
	double pp = (double)t->g->pp, v = (double)t->chunks, m, all, layer;
	double wait;

	if (!f) {
		return 0;
	}
	m = (double)t->nmicrobatches;
	all = f->all_us * (double)t->microbatch / pp;
	layer = f->layer_us * (double)t->microbatch;
	wait = (pp - 1) * fmax(all / v - layer, 0) *
	       (t->sched->split ? 0.25 : 1);
	return fmax(m * all, m * fmax(all - v * layer, 0) + wait);
}
