/*
 * A cache of what was derived from rank programs: kernels and memory layout.
 * The search derives them to price a plan, and the passes and outputs after it
 * need them again.  The key is a hash of the whole programs and the schedule,
 * so programs that a pass changed get an entry of their own.
 */
#include "ir/memo.h"
#include "passes/memory/memory.h"

static void
add_pair(struct hash *h, uint32_t a, uint32_t b)
{
	hash_add(h, (uint64_t)a << 32 | b);
}

/* Hashes a built-in schedule by its kind, any other by its contents. */
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

static struct hash
key_of(const struct ranks *r)
{
	struct hash key = ir_hash_all(r->m);

	ir_hash_names(r->m, 0, &key);
	add_schedule(&key, r->sched);
	return key;
}

struct ranks_found *
ranks_found_of(const struct ranks *r, struct memo *memo)
{
	struct arena *a = memo_arena(memo, MEMO_RANKS);
	struct ranks_found *x;
	struct hash key;

	if (!a) {
		return NULL;
	}
	key = key_of(r);
	x = memo_find(memo, MEMO_RANKS, key);
	if (!x) {
		x = arena_alloc(a, sizeof *x);
		memo_keep(memo, MEMO_RANKS, key, x);
	}
	return x;
}
