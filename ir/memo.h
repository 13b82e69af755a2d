/*
 * One memo for a whole run: results that are known by 128 bits of a hash of
 * all that they follow from.  Nothing but time hangs on it: who does not find
 * a result computes it, so answers are the same with a memo that is full, and
 * without one.  Whoever opens the run owns the memo and hands it on, in struct
 * pass_ctx or as an argument.  A NULL memo keeps nothing: that is how it is
 * switched off.
 */
#ifndef IR_MEMO_H
#define IR_MEMO_H

#include "ir/base.h"

/*
 * MEMO(id, name, part, lasts): what is kept, what part of the budget it may
 * take, 16 being a sixteenth, and whether it follows from the content of
 * programs alone.  If so, another run on the same model may use it, whatever
 * its target.
 */
#define MEMO_KINDS(MEMO) \
	MEMO(ORDERS, "elimination orders", 1, true) \
	MEMO(PROGRAMS, "facts of programs", 1, false) \
	MEMO(CHOICES, "placements along an axis", 1, false) \
	MEMO(LEAST, "bounds along an axis", 1, false) \
	MEMO(TEMPLATES, "kernels for any size", 1, true) \
	MEMO(STEPS, "joins and launches of lists", 1, false) \
	MEMO(PARTS, "parts of collectives", 1, false) \
	MEMO(PRICES, "prices of regions", 1, false) \
	MEMO(DOTS, "prices of contractions", 1, false) \
	MEMO(BRIEFS, "shortened schedules", 16, false) \
	MEMO(SPANS, "lengths of schedules", 1, false) \
	MEMO(SCHEDULES, "schedules of rank programs", 1, false) \
	MEMO(POOLS, "choices of ways in pools", 16, false) \
	MEMO(PACKS, "places of temporary values", 1, true) \
	MEMO(RANKS, "kernels and memory of rank programs", 1, false)

enum memo_kind {
#define MEMO(id, name, part, lasts) MEMO_##id,
	MEMO_KINDS(MEMO)
#undef MEMO
	MEMO_NKINDS
};

struct memo_entry {
	struct hash key;
	void *value;
};

/* All that is kept of one kind. */
struct memo_kept {
	struct arena arena;		/* the values lie there */
	struct arena older;		/* those from before memo_try */
	struct arena index;		/* the two below */
	struct table table;
	VEC(struct memo_entry) at;	/* by entry of the table; 0 is none */
	uint32_t first;		/* in a trial: its first entry; else 0 */
	uint64_t asked, found;
};

struct memo {
	size_t budget_bytes;
	struct memo_kept of[MEMO_NKINDS];
	/*
	 * Another memo, in which this one keeps the kinds that last: runs that
	 * follow each other share it.  NULL: it keeps all itself.
	 */
	struct memo *lasting;
	bool lasts[MEMO_NKINDS];	/* as the table says */
};

/* 512 MiB: more than a search of any example for 64 devices keeps. */
#define MEMO_BYTES ((size_t)512 << 20)

void memo_init(struct memo *m, struct mem *gate, size_t budget_bytes);
void memo_release(struct memo *m);
/* The value of the key, or NULL.  It stays where it is until memo_drop. */
void *memo_find(struct memo *m, enum memo_kind kind, struct hash key);
/* Where a value of the kind is to be made; NULL: the budget is spent. */
struct arena *memo_arena(struct memo *m, enum memo_kind kind);
/* Keeps a value, which lies in that arena; of one key, the last one counts. */
void memo_keep(struct memo *m, enum memo_kind kind, struct hash key,
	       void *value);
/*
 * Between these two is a trial, whose values are of use only if it succeeds:
 * else they are forgotten, and nobody may look at them any longer.  Until then
 * values from before it are not found, since users add to what they find.  Not
 * for kinds that last; trials of a kind do not nest.
 */
void memo_try(struct memo *m, enum memo_kind kind);
void memo_tried(struct memo *m, enum memo_kind kind, bool ok);
/*
 * Forgets all of a kind, which nobody may look at any longer; but not what is
 * kept in the memo that lasts.
 */
void memo_drop(struct memo *m, enum memo_kind kind);
/* Bytes that it takes for a kind. */
size_t memo_bytes(const struct memo *m, enum memo_kind kind);
/* A line for each kind that was asked for, as --stats prints it. */
void memo_print(const struct memo *m, struct buf *out);

#endif
