/*
 * Hash tables.  A table knows only the numbers of its entries and 32 bits of
 * the hash of each: the caller compares the rest, and goes on to the next entry
 * where that differs.
 */
#include "ir/base.h"

/* ---- hashes ---- */

uint64_t
hash_text(uint64_t hash, const char *s)
{
	size_t n = strlen(s);
	uint64_t word;

	hash = hash_word(hash, n);
	for (; n >= sizeof word; n -= sizeof word, s += sizeof word) {
		memcpy(&word, s, sizeof word);
		hash = hash_word(hash, word);
	}
	word = 0;
	memcpy(&word, s, n);
	return hash_word(hash, word);
}

/* ---- tables ---- */

#define SLOTS 64		/* at first: a power of two */

static void
hang(struct table *t, uint32_t at)
{
	struct table_link *x = &t->links.at[at];
	uint32_t *slot = &t->slots[x->hash & (t->nslots - 1)];

	x->next = *slot;
	*slot = at;
}

static void
widen(struct arena *a, struct table *t)
{
	uint32_t at;

	t->nslots = t->nslots ? t->nslots * 4 : SLOTS;
	t->slots = arena_alloc(a, t->nslots * sizeof *t->slots);
	for (at = 1; at < t->links.n; at++) {
		hang(t, at);
	}
}

uint32_t
table_add(struct arena *a, struct table *t, uint64_t hash)
{
	struct table_link x = { .hash = table_bits(hash) };

	if (!t->links.n) {
		VEC_PUSH(a, &t->links, (struct table_link){ 0 });
	}
	if (t->links.n > t->nslots) {
		widen(a, t);
	}
	VEC_PUSH(a, &t->links, x);
	hang(t, t->links.n - 1);
	return t->links.n - 1;
}

void
table_cut(struct table *t, uint32_t n)
{
	while (t->links.n > n) {
		const struct table_link *x = &t->links.at[--t->links.n];

		t->slots[x->hash & (t->nslots - 1)] = x->next;
	}
}
