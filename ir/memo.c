/*
 * The memo: for each kind of result a table from keys to values and an arena.
 * A budget bounds the arenas together.  When it is spent nothing more is
 * kept, but nothing is evicted either: values are referred to by pointers from
 * outside, so only their users know when they may go (memo_drop, memo_tried).
 */
#include "ir/memo.h"

#include <inttypes.h>

static const struct {
	const char *name;
	size_t part;
	bool lasts;
} kinds[] = {
#define MEMO(id, name, part, lasts) { name, part, lasts },
	MEMO_KINDS(MEMO)
#undef MEMO
};

void
memo_init(struct memo *m, struct mem *gate, size_t budget_bytes)
{
	int k;

	memset(m, 0, sizeof *m);
	m->budget_bytes = budget_bytes;
	for (k = 0; k < MEMO_NKINDS; k++) {
		arena_init(&m->of[k].arena, gate);
		arena_init(&m->of[k].older, gate);
		arena_init(&m->of[k].index, gate);
		m->lasts[k] = kinds[k].lasts;
	}
}

void
memo_release(struct memo *m)
{
	int k;

	for (k = 0; k < MEMO_NKINDS; k++) {
		memo_drop(m, (enum memo_kind)k);
	}
}

/* The memo in which m keeps a kind. */
static struct memo *
keeper(struct memo *m, enum memo_kind kind)
{
	return m && m->lasting && m->lasts[kind] ? m->lasting : m;
}

void *
memo_find(struct memo *m, enum memo_kind kind, struct hash key)
{
	struct memo_kept *x;
	uint32_t at = 0;

	m = keeper(m, kind);
	if (!m) {
		return NULL;
	}
	x = &m->of[kind];
	x->asked++;
	/* the newest come first */
	while ((at = table_find(&x->table, key.a, at)) != 0 && at >= x->first) {
		if (hash_same(x->at.at[at].key, key)) {
			x->found++;
			return x->at.at[at].value;
		}
	}
	return NULL;
}

size_t
memo_bytes(const struct memo *m, enum memo_kind kind)
{
	const struct memo_kept *x = &m->of[kind];

	return x->arena.total_bytes + x->older.total_bytes +
	       x->index.total_bytes;
}

struct arena *
memo_arena(struct memo *m, enum memo_kind kind)
{
	size_t bytes = 0;
	int k;

	m = keeper(m, kind);
	if (!m) {
		return NULL;
	}
	for (k = 0; k < MEMO_NKINDS; k++) {
		bytes += memo_bytes(m, (enum memo_kind)k);
	}
	return bytes < m->budget_bytes && memo_bytes(m, kind) <=
		       m->budget_bytes / kinds[kind].part
		? &m->of[kind].arena : NULL;
}

void
memo_keep(struct memo *m, enum memo_kind kind, struct hash key, void *value)
{
	struct memo_kept *x = &keeper(m, kind)->of[kind];

	if (!x->at.n) {
		VEC_PUSH(&x->index, &x->at, (struct memo_entry){ .value = 0 });
	}
	table_add(&x->index, &x->table, key.a);
	VEC_PUSH(&x->index, &x->at, ((struct memo_entry){ key, value }));
}

void
memo_try(struct memo *m, enum memo_kind kind)
{
	struct memo_kept *x;

	if (m) {
		x = &m->of[kind];
		arena_join(&x->older, &x->arena);
		x->first = x->at.n ? x->at.n : 1;
	}
}

void
memo_tried(struct memo *m, enum memo_kind kind, bool ok)
{
	struct memo_kept *x = m ? &m->of[kind] : NULL;

	if (x && !ok) {
		arena_release(&x->arena);
		table_cut(&x->table, x->first);
		x->at.n = x->at.n > x->first ? x->first : x->at.n;
	}
	if (x) {
		x->first = 0;
	}
}

void
memo_drop(struct memo *m, enum memo_kind kind)
{
	struct memo_kept *x;

	if (!m) {
		return;
	}
	x = &m->of[kind];
	arena_release(&x->arena);
	arena_release(&x->older);
	arena_release(&x->index);
	memset(&x->table, 0, sizeof x->table);
	memset(&x->at, 0, sizeof x->at);
	x->first = 0;
}

void
memo_print(const struct memo *m, struct buf *out)
{
	int k;

	for (k = 0; k < MEMO_NKINDS; k++) {
		const struct memo_kept *x = &m->of[k];

		if (x->asked) {
			buf_printf(out, "# %10" PRIu64 "  memo: %s, of %"
				   PRIu64 " looked for\n", x->found,
				   kinds[k].name, x->asked);
		}
	}
}
