/*
 * What was found of rank programs: kernels, and where all lies in memory.
 * A search finds them to weigh the plan that it settles, and the answer asks
 * for them again.  Programs are known by 128 bits of a hash of all that they
 * consist of, so nobody has to say that he changed one: his has another hash.
 * Who carries what was found from one context to another sees to it that
 * names have the same numbers there.
 */
#include "passes/memory.h"

#include <string.h>

#define LANES 4

struct hashing {
	uint64_t lane[LANES];	/* by turns, so that no word waits */
	uint32_t next;
};

/* Of two hashes that differ, or two words, two that differ. */
static inline uint64_t
mixed(uint64_t hash, uint64_t word)
{
	hash ^= word;
	return (hash << 31 | hash >> 33) * 0x9e3779b97f4a7c15u;
}

static void
mix(struct hashing *h, uint64_t word)
{
	uint64_t *lane = &h->lane[h->next++ % LANES];

	*lane = mixed(*lane, word);
}

static void
mix_pair(struct hashing *h, uint32_t a, uint32_t b)
{
	mix(h, (uint64_t)a << 32 | b);
}

static inline void
mix_four(struct hashing *h, const uint64_t w[LANES])
{
	h->lane[0] = mixed(h->lane[0], w[0]);
	h->lane[1] = mixed(h->lane[1], w[1]);
	h->lane[2] = mixed(h->lane[2], w[2]);
	h->lane[3] = mixed(h->lane[3], w[3]);
}

/* Of items without padding. */
static void
mix_items(struct hashing *h, const void *at, size_t bytes)
{
	uint64_t a = h->lane[0], b = h->lane[1], c = h->lane[2];
	uint64_t d = h->lane[3], w[LANES];
	const char *p = at;
	size_t left = bytes;

	for (; left >= sizeof w; left -= sizeof w, p += sizeof w) {
		memcpy(w, p, sizeof w);
		a = mixed(a, w[0]);
		b = mixed(b, w[1]);
		c = mixed(c, w[2]);
		d = mixed(d, w[3]);
	}
	h->lane[0] = a;
	h->lane[1] = b;
	h->lane[2] = c;
	h->lane[3] = d;
	memset(w, 0, sizeof w);
	if (left) {
		memcpy(w, p, left);
	}
	mix_four(h, w);
	mix(h, bytes);
}

#define MIX_ITEMS(h, v) mix_items((h), (v)->at, (v)->n * sizeof *(v)->at)

/* ---- a module and its schedule ---- */

static void
mix_attrs(struct hashing *h, const struct ir_module *m)
{
	uint64_t w[LANES];
	uint32_t i;

	mix(h, m->attrs.n);
	for (i = 0; i < m->attrs.n; i++) {
		const struct ir_attr *a = &m->attrs.at[i];

		memcpy(w, a->dims, sizeof w);
		mix_four(h, w);
		w[0] = (uint64_t)a->text << 16 | (uint64_t)a->key << 8 |
		       a->ndims;
		w[1] = (uint64_t)a->i;
		memcpy(&w[2], &a->num, sizeof w[2]);
		w[3] = a->expr;
		mix_four(h, w);
	}
}

static void
mix_settings(struct hashing *h, const struct ir_module *m)
{
	uint32_t i;

	mix(h, m->settings.n);
	for (i = 0; i < m->settings.n; i++) {
		const struct ir_setting *s = &m->settings.at[i];

		mix_pair(h, s->key, s->text);
		mix_pair(h, s->kind, s->n);
		mix_items(h, s->num, sizeof s->num);
	}
}

static void
mix_sizes(struct hashing *h, const struct ir_module *m)
{
	uint32_t i;

	mix_pair(h, m->dims.n, m->axes.n);
	mix_pair(h, m->exprs.n, m->funcs.n);
	for (i = 0; i < m->dims.n; i++) {
		mix_pair(h, m->dims.at[i].name, m->dims.at[i].expr);
		mix(h, (uint64_t)m->dims.at[i].size);
	}
	for (i = 0; i < m->axes.n; i++) {
		const struct ir_axis *x = &m->axes.at[i];

		mix_pair(h, x->name, (uint32_t)x->time << 1 | x->balanced);
		mix(h, (uint64_t)x->size);
	}
	for (i = 0; i < m->exprs.n; i++) {
		const struct ir_expr *x = &m->exprs.at[i];

		mix_pair(h, x->kind, x->dim);
		mix_pair(h, x->lhs, x->rhs);
		mix(h, (uint64_t)x->value);
	}
}

static void
mix_module(struct hashing *h, const struct ir_module *m)
{
	region_id r;
	func_id f;

	mix_sizes(h, m);
	mix_settings(h, m);
	mix_attrs(h, m);
	MIX_ITEMS(h, &m->hints);
	MIX_ITEMS(h, &m->values);
	MIX_ITEMS(h, &m->nodes);
	MIX_ITEMS(h, &m->args);
	for (f = 0; f < m->funcs.n; f++) {
		const struct ir_func *x = &m->funcs.at[f];

		mix_pair(h, x->name, x->body);
		mix(h, x->is_model);
	}
	mix_pair(h, m->name, m->regions.n);
	for (r = 0; r < m->regions.n; r++) {
		const struct ir_region *x = &m->regions.at[r];

		mix(h, x->owner);
		MIX_ITEMS(h, &x->nodes);
		MIX_ITEMS(h, &x->params);
		MIX_ITEMS(h, &x->results);
	}
}

static void
mix_schedule(struct hashing *h, const struct sched *s)
{
	uint32_t i, k;

	mix_pair(h, s->nranks, s->nstages);
	mix(h, s->nmicrobatches);
	mix_items(h, s->rank_of, s->nstages * sizeof *s->rank_of);
	for (i = 0; i < s->nranks; i++) {
		const struct sched_list *l = &s->ranks[i];

		mix(h, l->actions.n);
		for (k = 0; k < l->actions.n; k++) {
			const struct sched_action *x = &l->actions.at[k];

			mix(h, x->kind);
			mix_pair(h, x->stage, x->microbatch);
		}
	}
}

/* ---- what was found ---- */

struct ranks_found *
ranks_found_open(struct ir_ctx *c, struct arena *a)
{
	c->found = arena_alloc(a, sizeof *c->found);
	c->found->arena = a;
	return c->found;
}

void
ranks_found_take(struct ir_ctx *c, struct ranks_found *x)
{
	x->arena = &c->perm;
	c->found = x;
}

/* The first that asks says whose they are. */
struct ranks_found *
ranks_found_of(const struct ranks *r)
{
	struct ranks_found *x = r->m->ctx->found;
	struct hashing h = { { 1, 2, 3, 4 }, 0 };
	struct hash hash = { 1, 2 };
	uint32_t i;

	if (!x) {
		return NULL;
	}
	mix_module(&h, r->m);
	mix_schedule(&h, r->sched);
	for (i = 0; i < LANES; i++) {
		hash_add(&hash, h.lane[i]);
	}
	if (!x->named) {
		x->hash = hash;
		x->named = true;
	}
	return hash_same(x->hash, hash) ? x : NULL;
}
