/*
 * Sets of iterations as sorted ranges, for the rules of the checker.
 */
#include "passes/check/check.h"

#include <stdlib.h>

void
check_run_add(struct check *c, struct check_runs *r, uint32_t use)
{
	const struct check_use *u = &c->uses.at[use];
	struct check_run run = { u->lo, u->hi, use };

	VEC_PUSH(c->a, r, run);
}

/*
 * Of equal ranges the earlier use comes first, so that messages do not depend
 * on the sort.
 */
static int
by_trip(const void *a, const void *b)
{
	const struct check_run *x = a, *y = b;

	if (x->lo != y->lo) {
		return x->lo < y->lo ? -1 : 1;
	}
	return (x->use > y->use) - (x->use < y->use);
}

void
check_run_sort(struct check_runs *r)
{
	if (r->n > 1) {
		qsort(r->at, r->n, sizeof *r->at, by_trip);
	}
}

bool
check_run_twice(const struct check_runs *r, struct check_run *a,
		struct check_run *b)
{
	uint32_t i, last = 0;

	for (i = 1; i < r->n; i++) {
		if (r->at[i].lo < r->at[last].hi) {
			*a = r->at[last];
			*b = r->at[i];
			return true;
		}
		last = r->at[i].hi > r->at[last].hi ? i : last;
	}
	return false;
}

void
check_once(struct check *c, const struct check_runs *r, const char *what,
	   const char *where)
{
	struct check_run a, b;
	uint32_t i;

	for (i = 0; i < r->n; i++) {
		const struct check_use *u = &c->uses.at[r->at[i].use];

		if (u->times != 1) {
			check_fail(c, u, "it is %s %lld times, expected once",
				   what, (long long)u->times);
		}
	}
	if (check_run_twice(r, &a, &b)) {
		check_fail(c, &c->uses.at[b.use], "it is %s a second time%s, "
			   "expected once", what, where);
		check_note(c, &c->uses.at[a.use], "the first time is here");
	}
}

bool
check_run_lacks(const struct check_runs *of, const struct check_runs *in,
		struct check_run *gap)
{
	/* all iterations below are in `in` or not in `of` */
	int64_t end = INT64_MIN;
	uint32_t i, k = 0;

	for (i = 0; i < of->n; i++) {
		int64_t from = of->at[i].lo;

		from = end > from ? end : from;
		while (from < of->at[i].hi) {
			while (k < in->n && in->at[k].hi <= from) {
				k++;
			}
			if (k == in->n || in->at[k].lo > from) {
				gap->lo = from;
				gap->hi = of->at[i].hi;
				if (k < in->n && in->at[k].lo < gap->hi) {
					gap->hi = in->at[k].lo;
				}
				gap->use = of->at[i].use;
				return true;
			}
			from = end = in->at[k].hi;
		}
	}
	return false;
}
