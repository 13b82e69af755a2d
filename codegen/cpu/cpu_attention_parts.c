/*
 * Keys of one query in parts, which several workers may compute at the same
 * time.  A part has a sum of its own, which begins with nothing; sums of parts
 * are joined in the order of their keys.  Where parts begin depends on the
 * query's range alone: so its bits depend neither on which worker has which
 * part, nor on whether one worker has all, nor on what else is in the step.
 *
 * A step before that of attention lists its single queries.  The keys of one
 * are computed by several workers if one worker would else have more than a
 * 64th of all single queries' work: where there are few queries, or one has by
 * far the most keys.  The sum of a part stays in shared scratch until all are
 * there, and whoever computed the last one joins them.  Where scratch is full,
 * one worker has all parts.
 */
#include "codegen/cpu/cpu_attention.h"

/* Keys of the shortest part; and parts of a query, at most: where it has more
 * keys, parts are 2, 4, 8 .. times as long. */
#define PART 512
#define MOST_PARTS 16

#define SHARES 64		/* that a step's work is cut into, at least */
#define SLOT_BYTES ((int64_t)9 << 19)	/* of all sums of parts */

/* ---- parts ---- */

bool
att_has_parts(const struct attn *t)
{
	return t->made[ATTN_OUT].value && attn_is_between(t) && !t->axes &&
	       t->spread[ATTN_KEYS] == UINT32_MAX && t->keys > PART;
}

void
att_find_parts(struct attn *t, struct ll_value *first, struct ll_value *last,
	       struct att_parts *p)
{
	struct ll *l = t->l;
	struct ll_value *span, *longer;
	int64_t size = PART;

	p->from = att_down(l, first, ATT_SELECTED_BLOCK);
	span = att_max(l, ll_sub(l, last, p->from), ll_i64(l, 1));
	p->size = ll_i64(l, size);
	for (; size * MOST_PARTS < t->keys; size *= 2) {
		longer = ll_test(l, LL_GT, span,
				 ll_i64(l, size * MOST_PARTS));
		p->size = ll_select(l, longer, ll_i64(l, 2 * size), p->size);
	}
	span = ll_add(l, span, ll_add(l, p->size, ll_i64(l, -1)));
	p->count = ll_bin(l, LL_UDIV, span, p->size);
}

void
att_join(struct ll *l, struct att_sum *to, const struct att_sum *part)
{
	struct ll_value *max = att_max(l, to->max, part->max);

	to->by = cg_exp(l, ll_bin(l, LL_SUB, to->max, max));
	to->part_by = cg_exp(l, ll_bin(l, LL_SUB, part->max, max));
	to->max = max;
	to->sum = ll_fma(l, part->sum, to->part_by,
			 ll_bin(l, LL_MUL, to->sum, to->by));
}

struct ll_value *
att_joined(struct ll *l, const struct att_sum *to, struct ll_value *x,
	   struct ll_value *part)
{
	return ll_fma(l, part, to->part_by, ll_bin(l, LL_MUL, x, to->by));
}

/* ---- what is listed ---- */

static int64_t
reserve(struct att_single *s, int64_t numbers)
{
	return attn_alloc_shared(s->t->g, 4 * numbers);
}

static void
open_work(struct att_single *s)
{
	struct att_work *w = &s->w;
	struct attn *t = s->t;
	int64_t sum = 4 * t->heads * (s->b.vp + 2);

	w->slots = s->has_parts ? w->queries * MOST_PARTS : 0;
	if (w->slots * sum > SLOT_BYTES) {
		w->slots = SLOT_BYTES / sum;
	}
	w->entries = reserve(s, 1);
	w->entry = reserve(s, 2 * (w->queries + w->slots));
	w->parts = reserve(s, w->queries);
	w->slot = reserve(s, w->queries);
	w->left = reserve(s, w->queries * w->units);
	w->max = reserve(s, w->slots * t->heads + t->lanes);
	w->sum = reserve(s, w->slots * t->heads + t->lanes);
	w->acc = reserve(s, w->slots * t->heads * s->b.vp);
}

struct ll_value *
att_work_at(struct att_single *s, int64_t offset, struct ll_value *i)
{
	struct ll *l = s->t->l;
	struct ll_value *shared = cg_cpu_shared(s->t->g->cpu, s->t->step);

	return att_elem_at(l, ll_plus_n(l, shared, offset), i, 4);
}

struct ll_value *
att_work_load(struct att_single *s, int64_t offset, struct ll_value *i)
{
	struct ll *l = s->t->l;
	struct ll_value *at = att_work_at(s, offset, i);

	return ll_cast(l, ll_load(l, ll_type(LL_I32, 1), at), LL_I64);
}

static void
store(struct att_single *s, int64_t offset, struct ll_value *i,
      struct ll_value *x)
{
	struct ll *l = s->t->l;

	x = ll_cast(l, x, LL_I32);
	ll_store(l, x, att_work_at(s, offset, i));
}

/* ---- numbers of the worker that lists ---- */

/* i64 in its scratch: parts of all queries; entries and slots so far. */
enum { ALL, ENTRIES, SLOTS, NNUMBERS };

static struct ll_value *
number(struct att_single *s, int64_t numbers, int i)
{
	struct ll *l = s->t->l;

	return ll_load(l, ll_type(LL_I64, 1),
		       att_own_at(s->t, numbers + 8 * i));
}

static void
add(struct att_single *s, int64_t numbers, int i, struct ll_value *more)
{
	struct ll *l = s->t->l;

	more = ll_add(l, number(s, numbers, i), more);
	ll_store(l, more, att_own_at(s->t, numbers + 8 * i));
}

/* ---- the step ---- */

/* Finds how many parts each query has; 0: it is in a dense block. */
static void
count_parts(struct att_single *s, int64_t numbers)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_value *live, *sparse = NULL, *n, *zero = ll_i64(l, 0);
	struct att_tile x = { .b = &s->b };
	struct ll_loop b, q, i;
	struct att_parts p;
	struct att_index at;

	x.lo = att_own_at(t, s->lo);
	x.hi = att_own_at(t, s->hi);
	x.pos = att_own_at(t, s->pos);
	ll_loop(l, &b, zero, ll_i64(l, t->batches), 1, NULL, 0);
	att_batch(t, b.i, &at);
	at.head = zero;		/* ranges are those of all heads */
	ll_loop(l, &q, zero, ll_i64(l, t->queries), s->b.nq, NULL, 0);
	at.pos = q.i;
	live = ll_min(l, ll_sub(l, ll_i64(l, t->queries), q.i),
		      ll_i64(l, s->b.nq));
	att_read_ranges(t, &x, &at, live);
	if (!s->always) {
		sparse = att_is_sparse(t, &x, live);
	}
	ll_loop(l, &i, zero, live, 1, NULL, 0);
	att_range_at(t, &x, i.i, &s->first, &s->last);
	att_find_parts(t, s->first, s->last, &p);
	n = sparse ? ll_select(l, sparse, p.count, zero) : p.count;
	add(s, numbers, ALL, n);
	at.pos = ll_mul_n(l, b.i, t->queries);
	at.pos = ll_add(l, at.pos, ll_add(l, q.i, i.i));
	store(s, s->w.parts, at.pos, n);
	ll_loop_end(l, &i, NULL);
	ll_loop_end(l, &q, NULL);
	ll_loop_end(l, &b, NULL);
}

/* Whether several workers compute a query of n parts. */
static struct ll_value *
is_split(struct att_single *s, int64_t numbers, struct ll_value *n)
{
	struct ll *l = s->t->l;
	struct ll_value *all = number(s, numbers, ALL), *fits, *large;

	all = ll_mul_n(l, all, s->w.units);
	large = ll_test(l, LL_GT, ll_mul_n(l, n, SHARES), all);
	fits = ll_add(l, number(s, numbers, SLOTS), n);
	fits = ll_test(l, LL_LE, fits, ll_i64(l, s->w.slots));
	large = ll_bin(l, LL_AND, large, fits);
	return ll_bin(l, LL_AND, large, ll_test(l, LL_GT, n, ll_i64(l, 1)));
}

/* Lists a query of n parts. */
static void
list_query(struct att_single *s, int64_t numbers, struct ll_value *query,
	   struct ll_value *n)
{
	struct ll *l = s->t->l;
	struct ll_value *zero = ll_i64(l, 0), *one = ll_i64(l, 1), *split, *at;
	struct ll_loop i;

	split = is_split(s, numbers, n);
	store(s, s->w.slot, query, number(s, numbers, SLOTS));
	at = ll_select(l, split, n, one);
	ll_loop(l, &i, zero, at, 1, NULL, 0);
	at = ll_mul_n(l, number(s, numbers, ENTRIES), 2);
	store(s, s->w.entry, at, query);
	at = ll_add(l, at, one);
	store(s, s->w.entry, at, ll_select(l, split, i.i, ll_i64(l, -1)));
	add(s, numbers, ENTRIES, one);
	ll_loop_end(l, &i, NULL);
	add(s, numbers, SLOTS, ll_select(l, split, n, zero));
	ll_loop(l, &i, zero, ll_i64(l, s->w.units), 1, NULL, 0);
	at = ll_add(l, ll_mul_n(l, query, s->w.units), i.i);
	store(s, s->w.left, at, n);
	ll_loop_end(l, &i, NULL);
}

void
att_single_list(struct att_single *s)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_loop item, q;
	struct ll_value *n;
	struct att_if some;
	int64_t numbers;
	int i;

	open_work(s);
	att_step(t, "attention_list", 1);
	s->lo = att_own_alloc(t, s->b.nq);
	s->hi = att_own_alloc(t, s->b.nq);
	s->pos = att_own_alloc(t, s->b.nq);
	numbers = att_own_alloc(t, 2 * NNUMBERS);
	att_items(t, &item);
	for (i = 0; i < NNUMBERS; i++) {
		ll_store(l, ll_i64(l, 0), att_own_at(t, numbers + 8 * i));
	}
	count_parts(s, numbers);
	ll_loop(l, &q, ll_i64(l, 0), ll_i64(l, s->w.queries), 1, NULL, 0);
	n = att_work_load(s, s->w.parts, q.i);
	att_if_begin(l, &some, ll_test(l, LL_GT, n, ll_i64(l, 0)));
	list_query(s, numbers, q.i, n);
	att_if_end(l, &some);
	ll_loop_end(l, &q, NULL);
	store(s, s->w.entries, ll_i64(l, 0), number(s, numbers, ENTRIES));
	ll_loop_end(l, &item, NULL);
	att_step_end(t);
}
