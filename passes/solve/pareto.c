/*
 * Words are decided one after the other.  Of partial choices that have paid the
 * same costs of undecided words, one that another beats in bytes and time leads
 * to nothing better, and is dropped (Nemhauser and Ullmann 1969).  Numbers are
 * integers, so that equal sums compare equal.
 */
#include "passes/solve/pareto.h"

#define MAX_POINTS 8192		/* partial choices that are kept */

struct pareto_list {
	struct pareto_point *at;
	uint32_t n;
};

static int
compare(const struct pareto_point *a, const struct pareto_point *b)
{
	if (a->key != b->key) {
		return a->key < b->key ? -1 : 1;
	}
	if (a->a.bytes != b->a.bytes) {
		return a->a.bytes < b->a.bytes ? -1 : 1;
	}
	if (a->a.ps != b->a.ps) {
		return a->a.ps < b->a.ps ? -1 : 1;
	}
	return (a->chosen > b->chosen) - (a->chosen < b->chosen);
}

/* The end of the sorted points that begin at `at`. */
static uint32_t
end_of_run(const struct pareto_point *p, uint32_t at, uint32_t n)
{
	do {
		at++;
	} while (at < n && compare(&p[at - 1], &p[at]) <= 0);
	return at;
}

/*
 * Merge sort: merges sorted runs in pairs until one is left.  The list and its
 * scratch *capacity may change places.
 */
static void
sort(struct pareto_list *l, struct pareto_point **capacity)
{
	struct pareto_point *from = l->at, *to = *capacity, *was;
	uint32_t i, j, k, out, mid, end, runs;

	do {
		for (i = out = runs = 0; i < l->n; i = end, runs++) {
			mid = end_of_run(from, i, l->n);
			end = mid < l->n ? end_of_run(from, mid, l->n) : mid;
			for (j = i, k = mid; j < mid || k < end;) {
				bool first = k == end || (j < mid &&
					compare(&from[j], &from[k]) <= 0);

				to[out++] = from[first ? j++ : k++];
			}
		}
		was = from;
		from = to;
		to = was;
	} while (runs > 1);
	l->at = from;
	*capacity = to;
}

/*
 * Drops each choice that another one with its key beats, or that needs less
 * than `close` bytes more than another one.
 */
static uint32_t
prune(struct pareto_list *l, int64_t close)
{
	uint32_t i, n = 0;

	for (i = 0; i < l->n; i++) {
		const struct pareto_point *s = &l->at[i];
		const struct pareto_point *last = n ? &l->at[n - 1] : NULL;
		bool same = last && last->key == s->key;
		bool ends = i + 1 == l->n || l->at[i + 1].key != s->key;

		if (same && (s->a.ps >= last->a.ps || (!ends &&
		    s->a.bytes - last->a.bytes < close))) {
			continue;
		}
		l->at[n++] = *s;
	}
	return n;
}

/* The costs of a word, and those with words both up to it and after it. */
struct pareto_step {
	const struct pareto_cost **own, **open;
	uint32_t nown, nopen;
	uint64_t word;
};

static void
find_step(const struct pareto *f, uint32_t word, struct pareto_step *s)
{
	uint64_t done = (UINT64_C(2) << word) - 1;
	uint32_t i;

	s->word = UINT64_C(1) << word;
	s->nown = s->nopen = 0;
	for (i = 0; i < f->ncosts; i++) {
		const struct pareto_cost *c = &f->costs[i];

		if (c->words & s->word) {
			s->own[s->nown++] = c;
		}
		if ((c->words & done) && (c->words & ~done)) {
			s->open[s->nopen++] = c;
		}
	}
}

/* A bit for each cost with later words: whether it is paid. */
static uint64_t
key_of(const struct pareto_step *x, uint64_t chosen)
{
	uint64_t key = 0;
	uint32_t i;

	if (x->nopen > 64) {
		return chosen;	/* too many for 64 bits */
	}
	for (i = 0; i < x->nopen; i++) {
		key |= (uint64_t)((x->open[i]->words & chosen) != 0) << i;
	}
	return key;
}

static struct pareto_point
choose(const struct pareto_step *x, const struct pareto_point *s)
{
	struct pareto_point t = *s;
	uint32_t i;

	t.chosen |= x->word;
	for (i = 0; i < x->nown; i++) {
		if (!(x->own[i]->words & s->chosen)) {
			t.a.bytes += x->own[i]->a.bytes;
			t.a.ps += x->own[i]->a.ps;
		}
	}
	return t;
}

void
pareto_find(struct pareto *f, struct arena *a)
{
	size_t size = 2 * MAX_POINTS * sizeof(struct pareto_point);
	struct pareto_list l = { arena_alloc_raw(a, size), 1 };
	struct pareto_point *capacity = arena_alloc_raw(a, size);
	size_t lists = f->ncosts * sizeof(struct pareto_cost *);
	struct pareto_step x = { .own = arena_alloc(a, lists),
				 .open = arena_alloc(a, lists) };
	uint32_t w, i;

	f->exact = true;
	l.at[0] = (struct pareto_point){ .a.bytes = f->kept };
	for (w = 0; w < f->nwords; w++) {
		int64_t close = f->kept / (4 * MAX_POINTS) + 1;

		find_step(f, w, &x);
		for (i = 0; i < l.n; i++) {
			l.at[l.n + i] = choose(&x, &l.at[i]);
		}
		l.n *= 2;
		for (i = 0; i < l.n; i++) {
			l.at[i].key = key_of(&x, l.at[i].chosen);
		}
		sort(&l, &capacity);
		l.n = prune(&l, 0);
		for (; l.n > MAX_POINTS; close *= 2) {
			uint32_t before = l.n;

			f->exact = false;
			l.n = prune(&l, close);
			if (l.n == before && close > f->kept) {
				l.n = MAX_POINTS;	/* all keys differ */
			}
		}
	}
	f->at = l.at;
	f->n = l.n;
}
