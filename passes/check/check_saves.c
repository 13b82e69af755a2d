/* Saves: values that a function of a stage keeps for a later one. */
#include "passes/check/check.h"

#include <stdlib.h>

/*
 * The position of the use in the order in which the functions of a stage run.
 */
static uint64_t
place_of(const struct check *c, const struct check_use *u)
{
	return (uint64_t)check_fn_of(c, u)->phase << 32 | u->at;
}

/*
 * Each value that is read must have been saved by this stage, or there is
 * nothing to read; each that is saved must be read, or memory fills up.
 */
static void
one_to_one(struct check *c, const struct check_runs *saves,
	   const struct check_runs *takes)
{
	struct check_run gap;
	const struct check_use *u;

	if (check_run_lacks(takes, saves, &gap)) {
		u = &c->uses.at[gap.use];
		check_fail(c, u, "this stage saves nothing so called%s, "
			   "expected it before", check_trips(c, u, gap.lo,
							     gap.hi));
	}
	if (check_run_lacks(saves, takes, &gap)) {
		u = &c->uses.at[gap.use];
		check_fail(c, u, "nothing of this stage takes it%s, expected "
			   "it once", check_trips(c, u, gap.lo, gap.hi));
	}
}

/* A value must be saved before it is read, and with the same type. */
static void
in_order(struct check *c, const struct check_runs *saves,
	 const struct check_runs *takes)
{
	uint32_t i, k = 0, j;

	for (i = 0; i < takes->n; i++) {
		const struct check_use *t = &c->uses.at[takes->at[i].use];

		while (k < saves->n && saves->at[k].hi <= takes->at[i].lo) {
			k++;
		}
		for (j = k; j < saves->n &&
		     saves->at[j].lo < takes->at[i].hi; j++) {
			const struct check_use *s =
				&c->uses.at[saves->at[j].use];

			if (place_of(c, s) > place_of(c, t)) {
				check_fail(c, t, "it is saved only later");
				check_note(c, s, "that is here");
			} else if (!ir_type_equal(check_type(c, s),
						  check_type(c, t))) {
				check_fail(c, t, "found it as %s, expected "
					   "%s, as it is saved",
					   ir_type_text(c->m,
							check_type(c, t)),
					   ir_type_text(c->m,
							check_type(c, s)));
				check_note(c, s, "that is here");
			}
		}
	}
}

/* A use, and the stage or update that contains it. */
struct held {
	uint32_t holder, use;
};

static int
by_holder(const void *a, const void *b)
{
	const struct held *x = a, *y = b;

	if (x->holder != y->holder) {
		return x->holder < y->holder ? -1 : 1;
	}
	return (x->use > y->use) - (x->use < y->use);
}

/* Checks the uses of one name in one stage or update. */
static void
one_holder(struct check *c, const struct held *h, uint32_t n)
{
	struct check_runs saves = { 0 }, takes = { 0 };
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct check_use *u = &c->uses.at[h[i].use];

		check_run_add(c, ir_is(check_node(c, u)->op, IRF_SINK)
			      ? &saves : &takes, h[i].use);
	}
	check_run_sort(&saves);
	check_run_sort(&takes);
	/*
	 * of two saves under one name the first is lost, and a save that is
	 * read is gone for a second read
	 */
	check_once(c, &saves, "saved", "");
	check_once(c, &takes, "taken", "");
	one_to_one(c, &saves, &takes);
	in_order(c, &saves, &takes);
}

void
check_saves(struct check *c)
{
	struct held *h = arena_alloc(c->a, (c->uses.n + 1) * sizeof *h);
	uint32_t i, n, from;
	sym_t key;

	for (key = 1; key < c->keys.text.n; key++) {
		n = 0;
		for (i = c->key_begin[key]; i < c->key_begin[key + 1]; i++) {
			uint32_t k = c->by_key[i];
			const struct check_use *u = &c->uses.at[k];
			const struct check_fn *f = check_fn_of(c, u);

			if (ir_is(check_node(c, u)->op, IRF_STASH)) {
				h[n].use = k;
				h[n++].holder = f->phase == CHECK_UPDATE
					? c->nstages + f->pipe : f->stage;
			}
		}
		qsort(h, n, sizeof *h, by_holder);
		for (i = from = 0; i < n; i++) {
			if (i + 1 == n || h[i + 1].holder != h[from].holder) {
				one_holder(c, h + from, i + 1 - from);
				from = i + 1;
			}
		}
	}
}
