/*
 * What was found of rank programs: kernels, and where all lies in memory.
 * A search finds them to weigh the plan that it settles, and the answer asks
 * for them again.  Programs are known by 128 bits of a hash of all that they
 * consist of, so nobody has to say that he changed one: his has another hash.
 * Who carries what was found from one context to another sees to it that
 * names have the same numbers there.
 */
#include "passes/memory/memory.h"

static void
add_pair(struct hash *h, uint32_t a, uint32_t b)
{
	hash_add(h, (uint64_t)a << 32 | b);
}

/* By its name, if it has one; else by all that it says. */
static void
add_schedule(struct hash *h, const struct sched *s)
{
	uint32_t i, k;

	add_pair(h, s->nranks, s->nstages);
	add_pair(h, s->nmicrobatches,
		 s->def ? (uint32_t)(s->def - sched_defs) + 1 : 0);
	if (s->def) {
		return;
	}
	for (i = 0; i < s->nstages; i++) {
		hash_add(h, s->rank_of[i]);
	}
	for (i = 0; i < s->nranks; i++) {
		const struct sched_list *l = &s->ranks[i];

		hash_add(h, l->actions.n);
		for (k = 0; k < l->actions.n; k++) {
			const struct sched_action *x = &l->actions.at[k];

			hash_add(h, x->kind);
			add_pair(h, x->stage, x->microbatch);
		}
	}
}

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

static struct hash
name_of(const struct ranks *r)
{
	struct hash hash = ir_hash_all(r->m);

	add_schedule(&hash, r->sched);
	return hash;
}

void
ranks_found_again(const struct ranks *r, struct kernels **all)
{
	struct ranks_found *x = r->found;

	if (x) {
		if (x->named) {
			x->hash = name_of(r);
		}
		x->kernels = all;
		x->memory = NULL;
	}
}

/* The first that asks says whose they are. */
struct ranks_found *
ranks_found_of(const struct ranks *r)
{
	struct ranks_found *x = r->m->ctx->found;
	struct hash hash;

	if (!x) {
		return NULL;
	}
	hash = name_of(r);
	if (!x->named) {
		x->hash = hash;
		x->named = true;
	}
	return hash_same(x->hash, hash) ? x : NULL;
}
